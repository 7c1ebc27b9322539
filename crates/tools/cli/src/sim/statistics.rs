// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --statistics`: statistics plug-ins (`include/selvedge_statistics.h`).
//!
//! The types are those of the header, with the same layout. A plug-in is never unloaded: it may have left threads, or
//! functions to run at the end of the process.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use selvedge_fabric::Topology;
use selvedge_sim::network::{Arrival, LossReason, NetworkConfig, Observe, Packet, Transmission};
use selvedge_sim::report::channels::channel_name;
use selvedge_sim::time::Time;

use super::usage::Usage;

const VERSION: u32 = 1;
const SYMBOL: &CStr = c"selvedge_statistics";

/// The file of a plug-in, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    pub file: PathBuf,
    pub arguments: String,
}

/// Parses `FILE.so[:ARGS]`.
pub fn statistics(text: &str) -> Result<Statistics, String> {
    let (file, arguments) = text.split_once(':').unwrap_or((text, ""));
    match file {
        "" => Err(format!("'{text}' names no file, as in ./plugin.so:ARGS")),
        file => Ok(Statistics { file: file.into(), arguments: arguments.to_owned() }),
    }
}

#[repr(C)]
struct NetworkTable {
    size: u32,
    version: u32,
    nodes: u32,
    routers: u32,
    channels: u32,
    flit_bytes: u32,
    channel_name: unsafe extern "C" fn(*const NetworkTable, u32, *mut c_char, usize),
}

/// A network's table, with what its function needs.
#[repr(C)]
struct Described<'a> {
    table: NetworkTable,
    topology: &'a Topology,
}

#[repr(C)]
struct PacketTable {
    size: u32,
    from: u32,
    to: u32,
    bytes: u32,
    message: u64,
    last: u32,
    reserved: u32,
}

#[repr(C)]
struct HopTable {
    size: u32,
    channel: u32,
    virtual_channel: u32,
    flits: u32,
    bytes: u64,
    begin_ps: u64,
    end_ps: u64,
    waited_ps: u64,
    head: u32,
    tail: u32,
}

#[repr(C)]
struct ArrivalTable {
    size: u32,
    hops: u32,
    injected_ps: u64,
    at_ps: u64,
    recovered: u32,
    reserved: u32,
}

#[repr(C)]
struct LossTable {
    size: u32,
    reason: u32,
    injected_ps: u64,
    at_ps: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Plugin {
    size: u32,
    version: u32,
    begin: Option<unsafe extern "C" fn(*const NetworkTable, *const c_char, *mut *mut c_void) -> c_int>,
    injected: Option<unsafe extern "C" fn(*mut c_void, u64, *const PacketTable)>,
    blocked: Option<unsafe extern "C" fn(*mut c_void, u64, *const PacketTable, u32, u32)>,
    hop: Option<unsafe extern "C" fn(*mut c_void, *const PacketTable, *const HopTable)>,
    delivered: Option<unsafe extern "C" fn(*mut c_void, *const PacketTable, *const ArrivalTable)>,
    lost: Option<unsafe extern "C" fn(*mut c_void, *const PacketTable, *const LossTable)>,
    end: Option<unsafe extern "C" fn(*mut c_void, u64) -> c_int>,
}

const _: () = assert!(size_of::<NetworkTable>() == 32 && size_of::<PacketTable>() == 32 && size_of::<HopTable>() == 56);
const _: () = assert!(size_of::<ArrivalTable>() == 32 && size_of::<LossTable>() == 24 && size_of::<Plugin>() == 64);

/// A loaded plug-in.
pub struct Loaded {
    plugin: Plugin,
    state: *mut c_void,
    file: PathBuf,
}

// SAFETY: a network with observers is simulated whole, by the thread that made it. No other thread calls the plug-in.
unsafe impl Send for Loaded {}

impl fmt::Debug for Loaded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Loaded").field("file", &self.file).finish_non_exhaustive()
    }
}

/// # Safety
/// `network` is that of [`Described`]; `name` has `room` bytes.
unsafe extern "C" fn name_of(network: *const NetworkTable, channel: u32, name: *mut c_char, room: usize) {
    // SAFETY: the table is the first field of a `repr(C)` type, and the plug-in passes the pointer that it got.
    let topology = unsafe { (*network.cast::<Described<'_>>()).topology };
    let text = if channel < topology.channels() { channel_name(topology, channel) } else { String::new() };
    let count = text.len().min(room.saturating_sub(1));
    if room > 0 && !name.is_null() {
        // SAFETY: the caller says that there is room.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, count);
            name.add(count).write(0);
        }
    }
}

impl Loaded {
    /// Loads a plug-in, and begins with it.
    pub fn begin(wanted: &Statistics, topology: &Topology, config: &NetworkConfig) -> Result<Loaded, Usage> {
        let Statistics { file, arguments } = wanted;
        let wrong = |why: String| Usage(format!("--statistics {}: {why}", file.display()));
        let plugin = load(file).map_err(wrong)?;
        let arguments =
            CString::new(arguments.as_bytes()).map_err(|_| wrong("arguments with a zero byte".to_owned()))?;
        let table = NetworkTable {
            size: size_of::<NetworkTable>() as u32,
            version: VERSION,
            nodes: topology.nodes(),
            routers: topology.routers(),
            channels: topology.channels(),
            flit_bytes: config.link.flit_bytes,
            channel_name: name_of,
        };
        let described = Described { table, topology };
        let mut state = std::ptr::null_mut();
        if let Some(begin) = plugin.begin {
            // SAFETY: the function is of this version of the header, and the pointers are valid during the call.
            let code = unsafe { begin((&raw const described).cast(), arguments.as_ptr(), &mut state) };
            if code != 0 {
                return Err(wrong(format!("the plug-in refuses to begin, with {code}: check its arguments")));
            }
        }
        Ok(Loaded { plugin, state, file: file.clone() })
    }
}

/// Loads a shared object; returns its table of functions.
fn load(file: &Path) -> Result<Plugin, String> {
    // A path without a slash would be searched in the folders of libraries.
    let path =
        file.canonicalize().map_err(|error| format!("{error}; give the path of a shared object, as ./plugin.so"))?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the string ends in 0. Loading runs the object's own initialisers, which the user asks for.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(format!("{}; build it with cc -shared -fPIC against selvedge_statistics.h", last_error()));
    }
    // SAFETY: the handle is open, and the string ends in 0.
    let symbol = unsafe { libc::dlsym(handle, SYMBOL.as_ptr()) };
    if symbol.is_null() {
        let symbol = SYMBOL.to_string_lossy();
        return Err(format!("it has no function {symbol}; define it, as selvedge_statistics.h says"));
    }
    // SAFETY: a plug-in defines the symbol as a function of this type.
    let table = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const Plugin>(symbol)() };
    if table.is_null() {
        return Err("its selvedge_statistics returns NULL; return the table of its functions".to_owned());
    }
    // SAFETY: every version's table begins with its size and version.
    let (size, version) = unsafe { ((*table).size, (*table).version) };
    if version != VERSION || (size as usize) < size_of::<Plugin>() {
        return Err(format!(
            "it is of version {version}, with a table of {size} bytes, and this simulator has version {VERSION} with {} bytes; \
             compile it against the selvedge_statistics.h of this simulator",
            size_of::<Plugin>()
        ));
    }
    // SAFETY: the table is at least as long as this version's.
    Ok(unsafe { table.read() })
}

fn last_error() -> String {
    // SAFETY: the result is NULL or a string that is valid until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it cannot be loaded".to_owned();
    }
    // SAFETY: not null.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl PacketTable {
    fn of(packet: &Packet) -> PacketTable {
        PacketTable {
            size: size_of::<PacketTable>() as u32,
            from: packet.from.0,
            to: packet.to.0,
            bytes: packet.bytes,
            message: packet.message,
            last: packet.last.into(),
            reserved: 0,
        }
    }
}

impl Observe for Loaded {
    fn injected(&mut self, now: Time, packet: &Packet) {
        if let Some(injected) = self.plugin.injected {
            // SAFETY: as `begin`; the state is the plug-in's.
            unsafe { injected(self.state, now.0, &PacketTable::of(packet)) };
        }
    }

    fn blocked(&mut self, now: Time, channel: u32, packet: &Packet, at_router: bool) {
        if let Some(blocked) = self.plugin.blocked {
            // SAFETY: as `injected`.
            unsafe { blocked(self.state, now.0, &PacketTable::of(packet), channel, at_router.into()) };
        }
    }

    fn sent(&mut self, sent: &Transmission<'_>) {
        let Some(hop) = self.plugin.hop else { return };
        let table = HopTable {
            size: size_of::<HopTable>() as u32,
            channel: sent.channel,
            virtual_channel: sent.vc.into(),
            flits: sent.flits,
            bytes: sent.bytes,
            begin_ps: sent.begin.0,
            end_ps: sent.end.0,
            waited_ps: sent.waited.unwrap_or_default().0,
            head: sent.head.into(),
            tail: sent.tail.into(),
        };
        // SAFETY: as `injected`.
        unsafe { hop(self.state, &PacketTable::of(sent.packet), &table) };
    }

    fn arrived(&mut self, arrival: &Arrival) {
        let packet = PacketTable::of(arrival.packet());
        match (arrival, self.plugin.delivered, self.plugin.lost) {
            (Arrival::Delivered(of), Some(delivered), _) => {
                let table = ArrivalTable {
                    size: size_of::<ArrivalTable>() as u32,
                    hops: of.hops,
                    injected_ps: of.injected.0,
                    at_ps: of.at.0,
                    recovered: of.recovered.into(),
                    reserved: 0,
                };
                // SAFETY: as `injected`.
                unsafe { delivered(self.state, &packet, &table) };
            }
            (Arrival::Lost(of), _, Some(lost)) => {
                let reason = match of.why {
                    LossReason::Loss => 1,
                    LossReason::Corruption => 2,
                    LossReason::LinkDown => 3,
                    LossReason::NoRoute => 4,
                    LossReason::Unreachable => 5,
                };
                let table = LossTable {
                    size: size_of::<LossTable>() as u32,
                    reason,
                    injected_ps: of.injected.0,
                    at_ps: of.at.0,
                };
                // SAFETY: as `injected`.
                unsafe { lost(self.state, &packet, &table) };
            }
            _ => {}
        }
    }

    fn end(&mut self, now: Time) -> io::Result<()> {
        let Some(end) = self.plugin.end else { return Ok(()) };
        // SAFETY: as `injected`; the observer is not used again.
        match unsafe { end(self.state, now.0) } {
            0 => Ok(()),
            code => Err(io::Error::other(format!("the plug-in {} ended with {code}", self.file.display()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plug_in_has_a_file_and_perhaps_arguments() {
        let given = |text| statistics(text).map(|given| (given.file.display().to_string(), given.arguments));
        assert_eq!(given("./p.so"), Ok(("./p.so".to_owned(), String::new())));
        assert_eq!(given("p.so:a=1:b"), Ok(("p.so".to_owned(), "a=1:b".to_owned())));
        assert!(given(":x").unwrap_err().contains("names no file"));
    }

    #[test]
    fn a_file_that_is_no_plug_in_is_refused_with_the_remedy() {
        assert!(load(Path::new("/nowhere/p.so")).err().unwrap().contains("as ./plugin.so"));
        assert!(load(Path::new("/proc/self/status")).err().unwrap().contains("-shared -fPIC"));
    }

    #[test]
    fn names_of_channels_are_cut_to_their_room() {
        let topology = Topology::mesh(&[2, 2], 1).unwrap();
        let table = NetworkTable {
            size: 0,
            version: VERSION,
            nodes: 4,
            routers: 4,
            channels: topology.channels(),
            flit_bytes: 8,
            channel_name: name_of,
        };
        let described = Described { table, topology: &topology };
        let name = |channel, room| {
            let mut bytes = [1u8; 32];
            // SAFETY: the array has at least `room` bytes.
            unsafe { name_of((&raw const described).cast(), channel, bytes.as_mut_ptr().cast(), room) };
            bytes.iter().take_while(|byte| **byte > 1).map(|byte| char::from(*byte)).collect::<String>()
        };
        assert_eq!(name(0, 32), "(0,0) -> (1,0)");
        assert_eq!((name(0, 6), name(0, 1), name(u32::MAX, 32)), ("(0,0)".to_owned(), String::new(), String::new()));
    }
}
