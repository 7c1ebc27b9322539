// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The measured machine: processors to pin to, and a description for reports.

use std::collections::BTreeSet;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The description of the machine.
#[derive(Debug, Clone)]
pub struct Host {
    pub cpu: String,
    /// The first processor of each core that this process may use.
    pub cores: Vec<usize>,
    pub kernel: String,
    pub memory_bytes: Option<u64>,
    pub governor: Option<String>,
    pub hypervisor: bool,
    pub date: String,
}

impl Host {
    pub fn here() -> Host {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|l| l.split(':').next().is_some_and(|n| n.trim() == name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        Host {
            cpu: field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: cores(),
            kernel: read_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
            memory_bytes: memory_bytes(),
            governor: read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            hypervisor: field("flags").is_some_and(|f| f.split_ascii_whitespace().any(|f| f == "hypervisor")),
            date: today(),
        }
    }

    /// The description in one line.
    pub fn describe(&self) -> String {
        let mut out = format!("{}, {} core", self.cpu, self.cores.len());
        if self.cores.len() != 1 {
            out.push('s');
        }
        if self.hypervisor {
            out.push_str(" of a virtual machine");
        }
        if let Some(bytes) = self.memory_bytes {
            out.push_str(&format!(", {} GiB", (bytes + (1 << 29)) >> 30));
        }
        out.push_str(&format!(", Linux {}", self.kernel));
        if let Some(governor) = &self.governor {
            out.push_str(&format!(", frequency governor {governor}"));
        }
        out
    }
}

fn read_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find(|l| l.starts_with("MemTotal:"))?;
    line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The first processor of each core that this process may run on.
fn cores() -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return vec![0] };
    let processors = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    processors.filter(|cpu| seen.insert(core_of(*cpu))).collect()
}

/// Package and core of a processor; the processor itself if they are unknown.
fn core_of(cpu: usize) -> (String, String) {
    let topology = |name| read_line(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}"));
    match (topology("physical_package_id"), topology("core_id")) {
        (Some(package), Some(core)) => (package, core),
        _ => (String::new(), format!("cpu{cpu}")),
    }
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    date_of(seconds / 86400)
}

/// Converts days since 1970-01-01 to a date of the Gregorian calendar, UTC.
fn date_of(days: u64) -> String {
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= lengths[month] {
        left -= lengths[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date_of(0), "1970-01-01");
        assert_eq!(date_of(11_016), "2000-02-29");
        assert_eq!(date_of(11_017), "2000-03-01");
        assert_eq!(date_of(20_453), "2025-12-31");
        assert_eq!(date_of(20_454), "2026-01-01");
    }

    #[test]
    fn this_machine_has_a_core() {
        let host = Host::here();
        assert!(!host.cores.is_empty());
        assert!(host.describe().contains("Linux"));
    }
}
