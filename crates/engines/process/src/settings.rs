// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of the settings that the library reads ([`selvedge_settings`]).
//!
//! A malformed value is reported on standard error and replaced by the default.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use selvedge_host::{Mode, Path};
use selvedge_net::{Check, Faults, FaultsError, Progress};
use selvedge_nic::Limits;
use selvedge_nic::limits::{ADDRESS_TABLES_MAX, LOCK_WAITERS_MAX};

pub use selvedge_settings::{VARIABLES, Variable};
use selvedge_settings::{read, units};

/// Links to other processes, and from them, beyond which idle ones are closed.
const LINKS_MAX: usize = 256;

/// The values of the variables.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub mode: Mode,
    pub path: Path,
    /// The time that a wait spins. None: it depends on the numbers of processes and cores.
    pub spin_ns: Option<u64>,
    pub heap_bytes: u64,
    /// Global address tables of the EXTOLL units.
    pub address_tables: u32,
    /// Whether a full mailbox discards messages.
    pub mailboxes_discard: bool,
    /// Number of failed lock requests that are kept.
    pub lock_waiters: u32,
    /// Bytes of the longest operation that aggregation nodes elsewhere carry out. None: derived from the size of their
    /// requests.
    pub aggregation_bytes: Option<u64>,
    /// The longest segment of GASNet.
    pub gasnet_segment_bytes: u64,
    /// Cores that the job's processes share.
    pub cores: usize,
    /// Whether OpenSHMEM counts what it does in the memory of its peers.
    pub counts_in_place: bool,
}

/// The values of the variables for several hosts.
#[derive(Clone)]
pub struct HostSettings {
    /// The number of this host; None if the launcher gives none.
    pub host: Option<u32>,
    /// Whether processes without a job of `selvedge run` reach other hosts; None: it depends on the launcher.
    pub reach: Option<bool>,
    /// None if it is malformed. The value is printed nowhere.
    pub secret: Option<Vec<u8>>,
    pub address: Option<String>,
    pub interface: Option<String>,
    pub provider: Option<String>,
    pub progress: Progress,
    pub check: Check,
    pub links_max: usize,
    pub timeout: Duration,
    /// `Err` if they are malformed.
    pub faults: Result<Option<Faults>, FaultsError>,
}

impl HostSettings {
    /// Reads the environment.
    pub fn from_environment() -> HostSettings {
        let text = |name: &str| read(name, None, |text| Some(Some(text.to_owned()).filter(|text| !text.is_empty())));
        HostSettings {
            host: read("SELVEDGE_HOST", None, |text| text.parse().ok().map(Some)),
            reach: read("SELVEDGE_NET", None, |text| match text {
                "auto" => Some(None),
                "on" => Some(Some(true)),
                "off" => Some(Some(false)),
                _ => None,
            }),
            secret: parse_hexadecimal(selvedge_settings::text("SELVEDGE_SECRET").unwrap_or_default().trim()),
            address: text("SELVEDGE_NET_ADDRESS"),
            interface: text("SELVEDGE_NET_INTERFACE"),
            provider: text("SELVEDGE_NET_PROVIDER"),
            progress: read("SELVEDGE_NET_PROGRESS", Progress::Thread, |text| match text {
                "thread" => Some(Progress::Thread),
                "calls" => Some(Progress::Calls),
                _ => None,
            }),
            check: read("SELVEDGE_NET_CHECK", Check::None, |text| match text {
                "none" => Some(Check::None),
                "crc" => Some(Check::Crc),
                "mac" => Some(Check::Mac),
                _ => None,
            }),
            timeout: read("SELVEDGE_NET_TIMEOUT", Duration::from_secs(5), |text| {
                units::duration(text).ok().filter(|timeout| *timeout >= Duration::from_secs(1))
            }),
            links_max: read("SELVEDGE_NET_LINKS", LINKS_MAX, |text| text.parse().ok().filter(|&links| links > 0)),
            faults: match selvedge_settings::text("SELVEDGE_NET_FAULTS") {
                Some(text) if !text.trim().is_empty() => text.parse().map(Some),
                _ => Ok(None),
            },
        }
    }
}

/// The address and secret of the aggregation manager.
#[derive(Clone, Debug)]
pub struct ManagerAt {
    pub at: SocketAddr,
    pub secret: Vec<u8>,
    pub silence: Duration,
}

/// Returns the address and secret of the aggregation manager of this process's job; `Ok(None)` if the user has named
/// none.
pub fn manager(silence: Duration) -> Result<Option<ManagerAt>, String> {
    let Some(name) = manager_name() else { return Ok(None) };
    let found = name.to_socket_addrs().map_err(|error| format!("SELVEDGE_MANAGER={name}: {error}; give host:port"))?;
    let at = found.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| format!("SELVEDGE_MANAGER={name} has no address"))?;
    Ok(Some(ManagerAt { at, secret: manager_secret()?, silence }))
}

/// Returns the user's name for the aggregation manager, if there is one.
pub fn manager_name() -> Option<String> {
    selvedge_settings::text("SELVEDGE_MANAGER").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the secret of the aggregation manager.
pub fn manager_secret() -> Result<Vec<u8>, String> {
    let (name, text) = ["SELVEDGE_MANAGER_SECRET", "SELVEDGE_SECRET"]
        .into_iter()
        .find_map(|name| selvedge_settings::text(name).map(|text| (name, text)))
        .unwrap_or_default();
    parse_hexadecimal(text.trim()).ok_or_else(|| format!("{name} (not shown): give pairs of hexadecimal digits"))
}

impl HostSettings {
    /// Returns the settings of links to aggregation nodes, whose secret is that of their manager.
    pub fn of_aggregation(self, secret: Vec<u8>) -> HostSettings {
        // Programs and nodes may have several libfabrics, with different first providers. All of them have this one.
        let provider = self.provider.unwrap_or_else(|| "tcp;ofi_rxm".to_owned());
        HostSettings { secret: Some(secret), provider: Some(provider), ..self }
    }
}

fn parse_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
    (digits.len() % 2 == 0).then(|| digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect())
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
            spin_ns: read("SELVEDGE_SPIN_US", None, |text| {
                Some(Some(units::nanoseconds(text, units::MICROSECOND).ok()?.round() as u64))
            }),
            cores: read("SELVEDGE_CORES", cores_of_machine(), |text| text.parse().ok().filter(|&cores| cores > 0)),
            address_tables: read("SELVEDGE_ADDRESS_TABLES", Limits::EXTOLL.address_tables, |text| {
                text.parse().ok().filter(|tables| (1..=ADDRESS_TABLES_MAX).contains(tables))
            }),
            mailboxes_discard: read("SELVEDGE_FULL_MAILBOX", false, |text| match text {
                "wait" => Some(false),
                "discard" => Some(true),
                _ => None,
            }),
            lock_waiters: read("SELVEDGE_LOCK_WAITERS", 0, |text| {
                text.parse().ok().filter(|count| (0..=LOCK_WAITERS_MAX).contains(count))
            }),
            counts_in_place: selvedge_settings::switch("SELVEDGE_SHMEM_TRAFFIC", true),
            aggregation_bytes: read("SELVEDGE_AGGREGATION_BYTES", None, |text| parse_bytes(text).map(Some)),
            gasnet_segment_bytes: read("GASNET_MAX_SEGSIZE", 256 << 20, parse_bytes),
            heap_bytes: read("SELVEDGE_HEAP_BYTES", selvedge_host::arena::RESERVED_BYTES_DEFAULT, parse_bytes),
        }
    }
}

/// Returns the number of cores of the machine. The affinity of this process does not count, because its launcher may
/// have pinned it to one core and its peers to others.
fn cores_of_machine() -> usize {
    // SAFETY: `sysconf` takes a number and has no preconditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    usize::try_from(online).unwrap_or(1).max(1)
}

/// Parses a number of bytes above 0.
pub fn parse_bytes(text: &str) -> Option<u64> {
    units::bytes(text).ok().filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_pairs_of_digits() {
        assert_eq!(parse_hexadecimal("00fF7a"), Some(vec![0, 255, 0x7a]));
        assert_eq!(parse_hexadecimal(""), Some(Vec::new()));
        assert_eq!((parse_hexadecimal("abc"), parse_hexadecimal("xy")), (None, None));
    }
}
