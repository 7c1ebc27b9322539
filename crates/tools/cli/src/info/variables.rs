// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings: their values and origins, and the values that a program started from here would use.
//!
//! The library itself reads the values in force ([`Settings`]), and reports malformed ones on standard error.

use std::path::{Path as FilePath, PathBuf};

use selvedge_host::{Mode, Path};
use selvedge_process::Faults;
use selvedge_process::settings::{Settings, VARIABLES, Variable};
use selvedge_settings::Origin;
use selvedge_settings::accepted::accepts;
use selvedge_terminal::paragraph;
use serde_json::{Value, json};

use super::{bytes_text, plain};
use selvedge_launcher::program::find as find_program;

pub fn value() -> Value {
    let settings = Settings::from_environment();
    VARIABLES.iter().map(|variable| one(variable, &settings)).collect()
}

fn one(variable: &Variable, settings: &Settings) -> Value {
    let set = selvedge_settings::value(variable.name).map(|text| text.to_string_lossy().into_owned());
    let (source, place) = match selvedge_settings::origin(variable) {
        Origin::Default => ("default", None),
        Origin::Environment => ("environment", None),
        Origin::File(place) => ("file", Some(place)),
    };
    let understood = set.as_deref().is_none_or(|text| is_understood(variable, text));
    // A secret must not appear in output.
    let set = set.map(|text| if variable.is_secret() { "(not shown)".to_owned() } else { text });
    let in_force = in_force(variable, settings, set.as_deref().filter(|_| understood));
    json!({
        "group": variable.group,
        "name": variable.name,
        "values": variable.values,
        "default": variable.default,
        "text": variable.text,
        "set": set,
        "understood": understood,
        "in_force": in_force,
        "source": source,
        "file": place,
    })
}

/// Whether a program started from here could use this value: the setting takes it, and what it names exists.
fn is_understood(variable: &Variable, text: &str) -> bool {
    let text = text.trim();
    accepts(variable, text)
        && match variable.values {
            // An empty value counts as not set.
            "a directory" => text.is_empty() || FilePath::new(text).is_dir(),
            // /dev/null stands for no configuration file.
            "a file" => text.is_empty() || FilePath::new(text).is_file() || text == "/dev/null",
            "a command" => {
                let program = text.split_ascii_whitespace().next().unwrap_or("ssh");
                find_program(program.as_ref(), &std::env::var_os("PATH").unwrap_or_default()).is_ok()
            }
            faults if faults.starts_with("loss=") => text.is_empty() || text.parse::<Faults>().is_ok(),
            "64 hexadecimal digits" => text.len() == 64,
            "a name" => selvedge_job::job_name_from(text) == text,
            _ => true,
        }
}

fn in_force(variable: &Variable, settings: &Settings, given: Option<&str>) -> String {
    match variable.name {
        "SELVEDGE_MODE" => match settings.mode {
            Mode::Nic => "nic".into(),
            Mode::Host => "host".into(),
        },
        "SELVEDGE_PATH" => match settings.path {
            Path::Auto => "auto".into(),
            Path::Shared => "shared".into(),
            Path::Cma => "cma".into(),
            Path::Bounce => "bounce".into(),
        },
        "SELVEDGE_SPIN_US" => {
            settings.spin_ns.map_or(variable.default.to_owned(), |spin_ns| (spin_ns as f64 / 1e3).to_string())
        }
        "SELVEDGE_CORES" => settings.cores.to_string(),
        "SELVEDGE_HEAP_BYTES" => bytes_text(settings.heap_bytes),
        "SELVEDGE_ADDRESS_TABLES" => settings.address_tables.to_string(),
        "SELVEDGE_FULL_MAILBOX" => if settings.mailboxes_discard { "discard" } else { "wait" }.into(),
        "SELVEDGE_LOCK_WAITERS" => settings.lock_waiters.to_string(),
        "SELVEDGE_SHMEM_TRAFFIC" => u8::from(settings.counts_in_place).to_string(),
        "SELVEDGE_AGGREGATION_BYTES" => match settings.aggregation_bytes {
            Some(bytes) => bytes_text(bytes),
            None => "16 requests".into(),
        },
        "GASNET_MAX_SEGSIZE" => bytes_text(settings.gasnet_segment_bytes),
        "SELVEDGE_DIR" => selvedge_job::jobs_folder().display().to_string(),
        "SELVEDGE_PREFIX" => match given.filter(|prefix| !prefix.is_empty()) {
            Some(prefix) => prefix.to_owned(),
            None => own_tree().map_or(variable.default.to_owned(), |tree| tree.display().to_string()),
        },
        _ => given.unwrap_or(variable.default).to_owned(),
    }
}

fn own_tree() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.parent()?.to_owned())
}

pub fn text(value: &Value) -> String {
    let (mut text, mut group) = (String::new(), String::new());
    for variable in value.as_array().into_iter().flatten() {
        let field = |name: &str| plain(&variable[name]);
        if field("group") != group {
            group = field("group");
            text += &format!(" {group}\n");
        }
        let how = match (&variable["set"], &variable["understood"]) {
            (Value::Null, _) => String::new(),
            (_, Value::Bool(false)) => format!("   !! \"{}\" is not understood", field("set")),
            _ => format!("   ({})", variable["file"].as_str().unwrap_or("environment")),
        };
        text += &paragraph(&format!("{} = {}{how}", field("name"), field("in_force")), 2);
        text += &paragraph(&field("text"), 6);
        text += &paragraph(&format!("{}; default {}", field("values"), field("default")), 6);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_values_is_known() {
        let cases = [
            ("SELVEDGE_MODE", "host", "fast"),
            ("SELVEDGE_PATH", "cma", "auto | shared"),
            ("SELVEDGE_CONFIG", "/dev/null", "/nowhere at all"),
            ("SELVEDGE_SPIN_US", "0", "long"),
            ("SELVEDGE_HEAP_BYTES", "64M", "0"),
            ("SELVEDGE_ADDRESS_TABLES", "16", "513"),
            ("SELVEDGE_FULL_MAILBOX", "discard", "full"),
            ("SELVEDGE_LOCK_WAITERS", "16", "1025"),
            ("SELVEDGE_AGGREGATION_BYTES", "64K", "long"),
            ("SELVEDGE_MANAGER", "login:7390", "login"),
            ("SELVEDGE_MANAGER_SECRET", "0f", "0f0"),
            ("GASNET_MAX_SEGSIZE", "1G", "many"),
            ("SELVEDGE_SHMEM_COUNTERS", "100", "many"),
            ("SELVEDGE_SHMEM_TRAFFIC", "0", "2"),
            ("SELVEDGE_FI_LANE_MAX", "4K", "many"),
            ("SELVEDGE_FI_SMALL_MAX", "512", "few"),
            ("SELVEDGE_FI_TINY_MAX", "48", "few"),
            ("SELVEDGE_FI_VELO_MAX", "900", "few"),
            ("SELVEDGE_FI_BOUNCE_MAX", "2K", "few"),
            ("SELVEDGE_SHARED_MALLOC", "0", "2"),
            ("SELVEDGE_YIELD_EVERY", "1", "often"),
            ("SELVEDGE_MPI_COLLECTIVES", "0", "2"),
            ("SELVEDGE_SHMEM_COLLECTIVES", "0", "2"),
            ("SHMEM_SYMMETRIC_SIZE", "3.1M", "much"),
            ("SELVEDGE_LOG", "warn,selvedge_host=trace", "loud"),
            ("SELVEDGE_DIR", "/", "/nowhere at all"),
            ("SELVEDGE_OTF2", "/nowhere at all", "a\nb"),
            ("SELVEDGE_REGION", "solve", &"s".repeat(129)),
            ("SELVEDGE_RECORD", "/", "/nowhere at all"),
            ("SELVEDGE_RECORD_RANK", "3", "many"),
            ("SELVEDGE_JOB", "solo", "../x"),
            ("SELVEDGE_RANK", "7", "-1"),
            ("SELVEDGE_SIZE", "8", "many"),
            ("SELVEDGE_CORES", "2", "0"),
            ("SELVEDGE_HOST", "0", "first"),
            ("SELVEDGE_HOSTS", "3", "many"),
            ("SELVEDGE_NET_ADDRESS", "10.0.0.1", "two words"),
            ("SELVEDGE_SECRET", &"0f".repeat(32), "0f"),
            ("SELVEDGE_NET", "on", "yes"),
            ("SELVEDGE_NET_INTERFACE", "eth0", "two words"),
            ("SELVEDGE_NET_PROVIDER", "tcp;ofi_rxm", "two words"),
            ("SELVEDGE_NET_PROGRESS", "calls", "never"),
            ("SELVEDGE_NET_CHECK", "mac", "md5"),
            ("SELVEDGE_NET_FAULTS", "loss=0.1,delay=2ms,seed=3", "loss=2"),
            ("SELVEDGE_NET_LINKS", "64", "0"),
            ("SELVEDGE_NET_TIMEOUT", "1", "0.9"),
            ("SELVEDGE_RSH", "sh -x", "/nowhere/rsh"),
            ("SELVEDGE_AGENT", "/opt/selvedge/bin/selvedge", "a\nb"),
            ("SELVEDGE_RUN_FANOUT", "2", "0"),
            ("SELVEDGE_PMIX_LIB", "/proc/self/exe", "/nowhere at all"),
            ("SELVEDGE_PREFIX", "/", "/proc/self/exe"),
            ("SELVEDGE_SIM_TSC", "0", "2"),
            ("SELVEDGE_OPENMPI", "/", "/nowhere at all"),
            ("SELVEDGE_MPICH", "/", "/nowhere at all"),
            ("SELVEDGE_UCX", "/", "/nowhere at all"),
            ("SELVEDGE_OSHMEM", "/", "/nowhere at all"),
            ("SELVEDGE_SANDIA", "/", "/nowhere at all"),
        ];
        for variable in VARIABLES.iter().filter(|variable| variable.values != "anything") {
            let (_, good, bad) = cases.iter().find(|case| case.0 == variable.name).expect("a line above");
            assert!(is_understood(variable, good), "{}={good}", variable.name);
            assert!(!is_understood(variable, bad), "{}={bad}", variable.name);
        }
    }
}
