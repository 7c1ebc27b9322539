// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers and names of hosts and of ends of links.
use alloc::string::String;
use core::fmt;
use selvedge_fabric::Port;

/// A host of the fabric. The number stays the same when the host restarts; no two hosts may have one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u64);

/// One start of a host's manager: never 0, and different at each start. A number that grows, such as the time, lets the
/// older of two hosts with one number keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(pub u64);

/// The end of a link at a host, as hellos name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    pub host: HostId,
    pub boot: Boot,
    pub port: Port,
    /// Grows whenever the end takes the link down. So a frame from before is not taken for one of the present.
    pub session: u32,
}

/// Longest name of a host, in bytes.
pub const NAME_BYTES_MAX: usize = 48;

impl Boot {
    /// 32 bits of the boot, for announcements: enough to tell apart the boots of one host.
    pub fn check(self) -> u32 {
        (selvedge_fabric::routing::mix(self.0) >> 32) as u32
    }
}

/// Whether a name is short enough and safe in a log: no control characters.
pub fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

/// The first characters of a name that make a valid one.
pub fn fitted_name(name: &str) -> String {
    let mut fitted = String::new();
    for letter in name.chars().filter(|letter| !letter.is_control()) {
        if fitted.len() + letter.len_utf8() > NAME_BYTES_MAX {
            break;
        }
        fitted.push(letter);
    }
    fitted
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {:x}", self.0)
    }
}

impl fmt::Display for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot {:x}", self.0)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.host, self.port)
    }
}
