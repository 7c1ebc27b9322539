// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads of the host and of its links, from counters that grow.
use std::collections::BTreeMap;
use std::path::Path;

use selvedge_fabric::Port;
use selvedge_fabric_manager::{HostLoad, PortLoad};

use crate::interfaces::{Interface, InterfaceCounters};

/// Compares counters with those of the call before.
#[derive(Default)]
pub struct Meter {
    at_ns: u64,
    /// By port, with the interface's index: another interface counts anew.
    counters: BTreeMap<u16, (u32, InterfaceCounters)>,
    /// Busy and all time of the processors.
    processors: Option<(u64, u64)>,
}

impl Meter {
    /// The loads since the call before. The first call gives none.
    pub fn measure<'a>(
        &mut self,
        now_ns: u64,
        interfaces: impl Iterator<Item = (u16, &'a Interface)>,
        speed_bits_s: impl Fn(&str) -> Option<u64>,
        queue_bytes: impl Fn(&str) -> Option<u32>,
    ) -> Vec<PortLoad> {
        let past_ns = now_ns.saturating_sub(self.at_ns).max(1);
        self.at_ns = now_ns;
        let before = std::mem::take(&mut self.counters);
        let mut loads = Vec::new();
        for (port, interface) in interfaces {
            let now = interface.counters;
            self.counters.insert(port, (interface.index, now));
            let Some((_, old)) = before.get(&port).filter(|old| old.0 == interface.index) else { continue };
            let rate = |now: u64, old: u64| {
                (u128::from(now.saturating_sub(old)) * 1_000_000_000 / u128::from(past_ns)).min(u64::MAX.into()) as u64
            };
            let sent_bytes_s = rate(now.sent_bytes, old.sent_bytes);
            let received_bytes_s = rate(now.received_bytes, old.received_bytes);
            let busier_bits_s = u128::from(sent_bytes_s.max(received_bytes_s)) * 8;
            let load = speed_bits_s(&interface.name).map(|speed| busier_bits_s * 1000 / u128::from(speed.max(1)));
            loads.push(PortLoad {
                port: Port(port),
                sent_bytes_s,
                received_bytes_s,
                load_permille: load.map(|load| load.min(1000) as u16),
                errors: now.errors.saturating_sub(old.errors).min(u16::MAX.into()) as u16,
                round_trip_ns: None,
                queue_bytes: queue_bytes(&interface.name),
            });
        }
        loads
    }

    /// The load of the host since the call before.
    pub fn host(&mut self, proc_stat: &str, sysfs: &Path) -> HostLoad {
        let now = processor_times(proc_stat);
        let share = match (self.processors, now) {
            (Some((old_busy, old_all)), Some((busy, all))) if all > old_all => {
                busy.saturating_sub(old_busy) * 1000 / (all - old_all)
            }
            _ => 0,
        };
        self.processors = now;
        HostLoad { processor_permille: share.min(1000) as u16, temperature_dc: temperature(sysfs) }
    }
}

/// Busy and all time of the processors, from `/proc/stat`.
fn processor_times(proc_stat: &str) -> Option<(u64, u64)> {
    let line = proc_stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let all: u64 = times.iter().sum();
    let idle = times.get(3)? + times.get(4)?;
    Some((all.saturating_sub(idle), all))
}

/// The speed of an interface, if the driver knows it.
pub fn speed_bits_s(sysfs: &Path, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(sysfs.join("class/net").join(name).join("speed")).ok()?;
    text.trim().parse::<u64>().ok().filter(|&mbit| mbit > 0 && mbit < u32::MAX.into()).map(|mbit| mbit * 1_000_000)
}

/// Bytes that an interface's driver has taken and not yet sent, in all of its queues. Not the kernel's own queue before
/// the driver: asking for that one waits for the kernel's lock of its network configuration, and hellos with it.
pub fn queue_bytes(sysfs: &Path, name: &str) -> Option<u32> {
    let queues = std::fs::read_dir(sysfs.join("class/net").join(name).join("queues")).ok()?;
    let waiting = |queue: std::fs::DirEntry| {
        let text = std::fs::read_to_string(queue.path().join("byte_queue_limits/inflight")).ok()?;
        text.trim().parse::<u32>().ok()
    };
    queues.flatten().filter_map(waiting).reduce(u32::saturating_add)
}

/// The highest of the host's sensors, in tenths of a degree Celsius.
fn temperature(sysfs: &Path) -> Option<i16> {
    let below = |folder: &str| std::fs::read_dir(sysfs.join(folder)).into_iter().flatten().flatten();
    let zones = below("class/thermal").map(|zone| zone.path().join("temp"));
    let sensors = below("class/hwmon").flat_map(|chip| std::fs::read_dir(chip.path()).into_iter().flatten().flatten());
    let is_input = |name: &str| name.starts_with("temp") && name.ends_with("_input");
    let inputs = sensors.filter(|file| file.file_name().to_str().is_some_and(is_input)).map(|file| file.path());
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<i32>().ok();
    zones
        .chain(inputs)
        .filter_map(read)
        .filter(|milli| (-100_000..250_000).contains(milli))
        .max()
        .map(|milli| (milli / 100) as i16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, sent_bytes: u64, received_bytes: u64, errors: u64) -> Interface {
        let counters = InterfaceCounters { sent_bytes, received_bytes, errors, ..InterfaceCounters::default() };
        Interface { index, name: "a".into(), counters, ..Interface::default() }
    }

    #[test]
    fn rates_are_those_of_the_time_between_two_calls() {
        let mut meter = Meter::default();
        let mut at = |now_ns, interface: &Interface| {
            meter.measure(now_ns, [(3, interface)].into_iter(), |_| Some(8000), |_| Some(7))
        };
        assert_eq!(at(1_000_000_000, &interface(1, 1000, 50, 2)), []);
        let load = PortLoad {
            port: Port(3),
            sent_bytes_s: 500,
            received_bytes_s: 25,
            load_permille: Some(500),
            errors: 3,
            round_trip_ns: None,
            queue_bytes: Some(7),
        };
        assert_eq!(at(3_000_000_000, &interface(1, 2000, 100, 5)), [load]);
        assert_eq!(at(4_000_000_000, &interface(2, 0, 0, 0)), [], "another interface");
        let back = at(5_000_000_000, &interface(2, 1 << 40, 0, 0));
        assert_eq!(back[0].load_permille, Some(1000));
    }

    #[test]
    fn the_hosts_load_comes_from_its_files() {
        let sysfs = tempfile::tempdir().unwrap();
        let mut meter = Meter::default();
        assert_eq!(meter.host("cpu  10 0 10 70 10 0 0 0 0 0\n", sysfs.path()), HostLoad::default());
        for (path, text) in [
            ("class/thermal/z0/temp", "40000\n"),
            ("class/hwmon/h0/temp1_input", "51250"),
            ("class/hwmon/h0/temp1_max", "99000"),
        ] {
            let path = sysfs.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let load = meter.host("cpu  40 0 30 120 10 0 0 0 0 0\n", sysfs.path());
        assert_eq!(load, HostLoad { processor_permille: 500, temperature_dc: Some(512) });
        assert_eq!(meter.host("nonsense", sysfs.path()).processor_permille, 0);
    }

    #[test]
    fn queues_are_those_of_the_driver() {
        let sysfs = tempfile::tempdir().unwrap();
        for (queue, text) in [("tx-0", "1500\n"), ("tx-1", "3000"), ("tx-2", "much")] {
            let folder = sysfs.path().join("class/net/a/queues").join(queue).join("byte_queue_limits");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("inflight"), text).unwrap();
        }
        std::fs::create_dir_all(sysfs.path().join("class/net/b/queues/rx-0")).unwrap();
        let of = |name| queue_bytes(sysfs.path(), name);
        assert_eq!([of("a"), of("b"), of("c")], [Some(4500), None, None]);
    }

    #[test]
    fn speeds_that_drivers_do_not_know_are_none() {
        let sysfs = tempfile::tempdir().unwrap();
        let folder = sysfs.path().join("class/net/a");
        std::fs::create_dir_all(&folder).unwrap();
        for (text, speed) in [("10000\n", Some(10_000_000_000)), ("-1\n", None), ("0", None), ("4294967295", None)] {
            std::fs::write(folder.join("speed"), text).unwrap();
            assert_eq!(speed_bits_s(sysfs.path(), "a"), speed);
        }
        assert_eq!(speed_bits_s(sysfs.path(), "b"), None);
    }
}
