// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every environment variable that the library reads, in one table (shown by `selvedge info`).
//!
//! A value that cannot be understood is reported once on standard error and replaced by the default.

use selvedge_live::{Mode, Path};

/// An environment variable.
pub struct Variable {
    pub name: &'static str,
    /// The values that it takes.
    pub values: &'static str,
    pub default: &'static str,
    pub text: &'static str,
}

/// All of them.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "SELVEDGE_MODE",
        values: "nic | host",
        default: "nic",
        text: "Who runs a NIC: whoever sends, or only its owner's program when it calls in.",
    },
    Variable {
        name: "SELVEDGE_PATH",
        values: "auto | shared | cma | bounce",
        default: "auto",
        text: "How other processes' memory is reached: in place where it is shared and else by cross-memory attach or, \
               where the kernel forbids that, through the owner; or only one of these (shared refuses other memory).",
    },
    Variable {
        name: "SELVEDGE_SPIN_US",
        values: "microseconds",
        default: "100, or 2 with more processes than cores",
        text: "How long a wait spins before it sleeps.",
    },
    Variable {
        name: "SELVEDGE_CORES",
        values: "a number",
        default: "given by the launcher; all of the machine's without one",
        text: "Cores that the job's processes share: with more processes than these, waits sleep sooner.",
    },
    Variable {
        name: "SELVEDGE_HEAP_BYTES",
        values: "bytes, with K, M, G or T",
        default: "16G",
        text: "The most that selvedge_alloc hands out in one process: address space, taken up only as it is used.",
    },
    Variable {
        name: "SELVEDGE_LOG",
        values: "off | error | warn | info | debug | trace",
        default: "warn",
        text: "What is reported on standard error.",
    },
    Variable {
        name: "SELVEDGE_DIR",
        values: "a directory",
        default: "/dev/shm, else $TMPDIR or /tmp",
        text: "Where jobs have their directories.",
    },
    Variable {
        name: "SELVEDGE_JOB",
        values: "a name",
        default: "given by the launcher; solo without one",
        text: "The job that this process belongs to: the name of its directory.",
    },
    Variable {
        name: "SELVEDGE_RANK",
        values: "a number",
        default: "given by the launcher; 0 without one",
        text: "This process's rank.",
    },
    Variable {
        name: "SELVEDGE_SIZE",
        values: "a number",
        default: "given by the launcher; 1 without one",
        text: "How many processes the job has.",
    },
    Variable {
        name: "SELVEDGE_PMIX_LIB",
        values: "a file",
        default: "found by the loader, or beside the launcher",
        text: "The PMIx client library to use under a PMIx launcher.",
    },
    Variable {
        name: "SELVEDGE_PREFIX",
        values: "a directory",
        default: "where the selvedge command is installed",
        text: "The tree that the selvedge command takes its library and its benchmark programs from.",
    },
];

/// What the variables say.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub mode: Mode,
    pub path: Path,
    /// None: as the number of processes and cores suggests.
    pub spin_ns: Option<u64>,
    pub heap_bytes: u64,
    /// Cores that the job's processes share.
    pub cores: usize,
}

impl Settings {
    /// Reads the environment.
    pub fn from_environment() -> Settings {
        Settings {
            mode: read("SELVEDGE_MODE", Mode::Nic, |text| match text {
                "nic" => Some(Mode::Nic),
                "host" => Some(Mode::Host),
                _ => None,
            }),
            path: read("SELVEDGE_PATH", Path::Auto, |text| match text {
                "auto" => Some(Path::Auto),
                "shared" => Some(Path::Shared),
                "cma" => Some(Path::Cma),
                "bounce" => Some(Path::Bounce),
                _ => None,
            }),
            spin_ns: read("SELVEDGE_SPIN_US", None, |text| Some(Some(text.parse::<u64>().ok()?.checked_mul(1000)?))),
            cores: read("SELVEDGE_CORES", cores_of_machine(), |text| text.parse().ok().filter(|&cores| cores > 0)),
            heap_bytes: read("SELVEDGE_HEAP_BYTES", selvedge_live::arena::RESERVED_BYTES_DEFAULT, parse_bytes),
        }
    }
}

/// The machine's cores. Not this process's: its launcher may have pinned it to one and its peers to others.
fn cores_of_machine() -> usize {
    // SAFETY: sysconf only reads.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}

fn read<T>(name: &str, default: T, parse: impl FnOnce(&str) -> Option<T>) -> T {
    let Some(text) = std::env::var_os(name) else { return default };
    let text = text.to_string_lossy();
    let known = VARIABLES.iter().find(|variable| variable.name == name);
    parse(text.trim()).unwrap_or_else(|| {
        let values = known.map_or("?", |variable| variable.values);
        eprintln!("selvedge: {name}={text} is not understood; it takes {values}; the default is used");
        default
    })
}

/// Bytes, with K, M, G or T for powers of 1024.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        b'T' | b't' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_suffixes_and_refuse_nonsense() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes("2k"), Some(2048));
        assert_eq!(parse_bytes("3G"), Some(3 << 30));
        for wrong in ["", "0", "K", "-1", "1.5G", "99999999999999T", "12X"] {
            assert_eq!(parse_bytes(wrong), None, "{wrong}");
        }
    }
}
