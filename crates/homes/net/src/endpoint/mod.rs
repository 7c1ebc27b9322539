// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One reliable-datagram endpoint of libfabric, with its buffers: the only module of this crate that calls libfabric.
//!
//! * [`provider`]: which of its providers. [`slots`]: the buffers. [`memory`]: memory that peers read.
//!
//! Any provider serves that has `FI_EP_RDM` and `FI_MSG` and keeps the order of sends (`FI_ORDER_SAS`). Our own provider is never
//! chosen, whatever the environment says, so a link never runs over itself.
//!
//! Invariants
//! 1. libfabric owns a buffer from `send` or `post` until its completion. After that the holder of its [`Arrived`] owns it, or the caller of
//!    [`Endpoint::take_buffer`]. `owners` records it. Only the owner touches the bytes. A frame's tail is kept, unchanged, as long, and so is
//!    the memory that a read writes to.
//! 2. Buffers never move: they are in one allocation that lives longer than the endpoint.
//! 3. One thread at a time calls an endpoint (`FI_THREAD_DOMAIN`).
//!
//! Cost: [`RECEIVE_BUFFERS`] buffers of [`LONG_FRAME_BYTES_MAX`] bytes, of which only what has arrived occupies memory, and [`SEND_BUFFERS`]
//! of [`FRAME_BYTES_MAX`] bytes: 1.5 MiB while frames are short, 9 MiB after many long ones.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;

use selvedge_libfabric::*;

use crate::faults::Refusals;
use crate::payload::Payload;

/// Bytes of the longest frame without its tail: what `ofi_rxm` sends without a handshake.
pub const FRAME_BYTES_MAX: usize = 16 << 10;
/// Bytes of the longest frame ([`Endpoint::frame_bytes_max`]).
const LONG_FRAME_BYTES_MAX: usize = (256 << 10) + FRAME_BYTES_MAX;
/// Frames that may arrive before the program looks.
const RECEIVE_BUFFERS: usize = 32;
/// Frames on their way out.
const SEND_BUFFERS: usize = 64;
/// Completions that are read at once.
const COMPLETIONS: usize = 16;
/// The version of libfabric's interface that this file is written to.
const INTERFACE: u32 = 1 << 16 | 17;
/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(
        "libfabric cannot be loaded: {0}. Install it (Debian: libfabric1) on every host; several hosts talk through it"
    )]
    Library(String),
    #[error(
        "libfabric has no provider{} with reliable datagrams at address {node}; `fi_info -t FI_EP_RDM` lists those it \
         has, SELVEDGE_NET_PROVIDER chooses one, SELVEDGE_NET_INTERFACE the address{}", named(.wanted), hidden()
    )]
    NoProvider { wanted: Option<String>, node: IpAddr },
    #[error("libfabric's provider {provider} failed to {doing}: {why}")]
    Call { provider: String, doing: &'static str, why: String },
}

/// Calls a function of a table of libfabric. A provider that leaves it out answers -FI_ENOSYS.
macro_rules! call {
    ($function:expr, $($argument:expr),* $(,)?) => {
        match $function {
            Some(function) => function($($argument),*),
            None => -(FI_ENOSYS as c_int) as _,
        }
    };
}

mod memory;
mod provider;
mod slots;

pub use memory::{Exposed, Readable};
use memory::{Reading, Registered, descriptor_of};
use provider::{find_provider, hidden, named, provider_of};
use slots::Slots;

/// A peer's endpoint in the address vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination(fi_addr_t);

/// What the completion queue reports.
pub enum Event {
    /// A frame has arrived. [`Endpoint::give_back`] takes its buffer back.
    Arrived(Arrived),
    /// A frame with this tag has left. Its buffer is free.
    Sent { tag: u32 },
    /// A frame with this tag was not sent. Its buffer is free.
    Failed { tag: u32, why: String },
    /// A read with this tag has ended: all of it was read, or why it was not.
    Read { tag: u64, result: Result<(), String> },
}

/// A frame was not accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no room now; the frame stays with the caller.
    Full,
    /// The provider refuses it, and says why.
    Broken(String),
}

/// The end of a long frame: payload that stays where it is until the frame has left.
#[derive(Clone)]
pub struct Tail {
    pub payload: Payload,
    pub range: Range<usize>,
}

impl Tail {
    pub fn bytes(&self) -> &[u8] {
        &self.payload.bytes()[self.range.clone()]
    }
}

/// A frame that has arrived.
pub struct Arrived {
    slots: Arc<Slots>,
    buffer: usize,
    bytes: usize,
}

impl std::ops::Deref for Arrived {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this value owns the slot, and only it: libfabric has completed the receive, and posts it again after `give_back`.
        // The frame has so many bytes.
        unsafe { std::slice::from_raw_parts(self.slots.frame(self.buffer), self.bytes) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Us,
    /// libfabric has it to receive.
    Receives,
    /// libfabric has it to send. The tag is the caller's.
    Sends(u32),
}

/// An open endpoint.
pub struct Endpoint {
    library: Library,
    provider: String,
    info: *mut fi_info,
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    addresses: *mut fid_av,
    queue: *mut fid_cq,
    endpoint: *mut fid_ep,
    region: *mut fid_mr,
    slots: Arc<Slots>,
    owners: Vec<Owner>,
    /// By buffer: what libfabric sends from elsewhere.
    tails: Vec<Option<Registered<Tail>>>,
    /// By the address of its context.
    reads: HashMap<usize, Reading>,
    /// Payloads that peers may read, by number.
    exposed: Vec<Option<Registered<Payload>>>,
    /// In tests.
    pub(crate) refusals: Refusals,
    free: Vec<usize>,
    wait: Option<RawFd>,
}

// SAFETY: the pointers are to objects of libfabric, which belong to no thread. One thread at a time uses them (invariant 3).
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// Opens an endpoint at an address of this host. `wanted` names the provider; None takes libfabric's first.
    pub fn open(node: IpAddr, wanted: Option<&str>) -> Result<Endpoint, EndpointError> {
        let mut opened = Endpoint::open_without_frames(node, wanted)?;
        for buffer in 0..RECEIVE_BUFFERS {
            opened.post(buffer)?;
        }
        Ok(opened)
    }

    /// Opens one that receives no frames: it can read the memory of peers.
    pub fn open_without_frames(node: IpAddr, wanted: Option<&str>) -> Result<Endpoint, EndpointError> {
        let library = Library::load().map_err(EndpointError::Library)?;
        let info = find_provider(&library, node, wanted)
            .ok_or_else(|| EndpointError::NoProvider { wanted: wanted.map(str::to_owned), node })?;
        // SAFETY: `find_provider` returns a structure of libfabric with its attributes.
        let provider = unsafe { provider_of(info) };
        let buffers = RECEIVE_BUFFERS + SEND_BUFFERS;
        let mut opened = Endpoint {
            library,
            provider,
            info,
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            addresses: ptr::null_mut(),
            queue: ptr::null_mut(),
            endpoint: ptr::null_mut(),
            region: ptr::null_mut(),
            slots: Arc::new(Slots::new()),
            owners: vec![Owner::Us; buffers],
            tails: (0..buffers).map(|_| None).collect(),
            reads: HashMap::new(),
            exposed: Vec::new(),
            refusals: Refusals::default(),
            free: (RECEIVE_BUFFERS..buffers).collect(),
            wait: None,
        };
        opened.make()?;
        Ok(opened)
    }

    /// Makes libfabric's objects. What was made before an error is closed by the drop.
    fn make(&mut self) -> Result<(), EndpointError> {
        // SAFETY: each call gets objects that were made before it, attributes that live across it, and room for its result. The tables of
        // functions are the provider's, complete by fi_provider(7).
        unsafe {
            let info = self.info;
            let made = (self.library.fabric)((*info).fabric_attr, &mut self.fabric, ptr::null_mut());
            self.check("open its fabric", made)?;
            let made = call!((*(*self.fabric).ops).domain, self.fabric, info, &mut self.domain, ptr::null_mut());
            self.check("open its domain", made)?;
            let domain = (*self.domain).ops;
            let mut attributes = fi_av_attr { type_: FI_AV_TABLE, ..Default::default() };
            let made = call!((*domain).av_open, self.domain, &mut attributes, &mut self.addresses, ptr::null_mut());
            self.check("open its address vector", made)?;
            let size = 2 * (RECEIVE_BUFFERS + SEND_BUFFERS);
            let mut attributes =
                fi_cq_attr { size, format: FI_CQ_FORMAT_MSG, wait_obj: FI_WAIT_FD, ..Default::default() };
            let mut made = call!((*domain).cq_open, self.domain, &mut attributes, &mut self.queue, ptr::null_mut());
            if made == 0 {
                let mut descriptor: c_int = -1;
                let queue = &raw mut (*self.queue).fid;
                let control = (*(*queue).ops).control;
                if call!(control, queue, FI_GETWAIT as c_int, (&raw mut descriptor).cast()) == 0 {
                    self.wait = Some(descriptor);
                }
            } else {
                // The provider has no descriptor to sleep on: the progress thread polls.
                attributes.wait_obj = FI_WAIT_NONE;
                made = call!((*domain).cq_open, self.domain, &mut attributes, &mut self.queue, ptr::null_mut());
            }
            self.check("open its completion queue", made)?;
            let made = call!((*domain).endpoint, self.domain, info, &mut self.endpoint, ptr::null_mut());
            self.check("open its endpoint", made)?;
            let endpoint = &raw mut (*self.endpoint).fid;
            let ops = (*endpoint).ops;
            let bound = call!((*ops).bind, endpoint, &raw mut (*self.addresses).fid, 0);
            self.check("bind its address vector", bound)?;
            let both = u64::from(FI_TRANSMIT) | u64::from(FI_RECV);
            let bound = call!((*ops).bind, endpoint, &raw mut (*self.queue).fid, both);
            self.check("bind its completion queue", bound)?;
            let enabled = call!((*ops).control, endpoint, FI_ENABLE as c_int, ptr::null_mut());
            self.check("enable its endpoint", enabled)?;
            if (*(*info).domain_attr).mr_mode & FI_MR_LOCAL as c_int != 0 {
                let made = self.register(self.slots.context(0), Slots::BYTES, FI_SEND | FI_RECV);
                self.region = made.map_err(|code| self.error("register the frames", code))?;
            }
        }
        Ok(())
    }

    fn check(&self, doing: &'static str, result: c_int) -> Result<(), EndpointError> {
        match result {
            0 => Ok(()),
            code => Err(self.error(doing, code)),
        }
    }

    fn error(&self, doing: &'static str, code: c_int) -> EndpointError {
        EndpointError::Call { provider: self.provider.clone(), doing, why: self.library.error_text(code) }
    }

    /// The provider's name, as libfabric writes it: `tcp;ofi_rxm`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Bytes of the longest frame for this provider. `ofi_rxm` sends a longer one by a handshake: the receive buffer is read into later, and
    /// does not come back when the sender dies meanwhile.
    pub fn frame_bytes_max(&self) -> usize {
        if self.has_long_frames() { LONG_FRAME_BYTES_MAX } else { FRAME_BYTES_MAX }
    }

    /// Whether a frame may be longer than its buffer.
    pub fn has_long_frames(&self) -> bool {
        !self.provider.ends_with("ofi_rxm")
    }

    /// The endpoint's own name, for peers to insert.
    pub fn name(&self) -> Result<Vec<u8>, EndpointError> {
        let mut bytes = vec![0u8; 512];
        let mut length = bytes.len();
        // SAFETY: `length` says how much room there is, and fi_getname(3) writes no more.
        let result = unsafe {
            let endpoint = &raw mut (*self.endpoint).fid;
            call!((*(*self.endpoint).cm).getname, endpoint, bytes.as_mut_ptr().cast(), &mut length)
        };
        self.check("say its name", result)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Makes a peer's endpoint known, for good: frames to it may be on their way long after it is gone. The name comes from a peer of the same provider, whose proof was checked.
    pub fn insert(&mut self, name: &[u8]) -> Result<Destination, EndpointError> {
        // A short name would make the provider read behind it.
        let own = self.name()?;
        // SAFETY: the structure is open until the drop.
        let format = unsafe { (*self.info).addr_format };
        let has_family = [FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&format);
        // So would another family of socket addresses.
        let is_alike = !has_family || name.get(..2) == own.get(..2);
        if name.len() != own.len() || !is_alike {
            return Err(self.error("take the name of a peer", -(FI_EINVAL as c_int)));
        }
        let mut address: fi_addr_t = u64::MAX;
        // SAFETY: the name is as long as names of this provider are.
        let count = unsafe {
            let ops = (*self.addresses).ops;
            call!((*ops).insert, self.addresses, name.as_ptr().cast(), 1, &mut address, 0, ptr::null_mut())
        };
        match count {
            1 => Ok(Destination(address)),
            code => Err(self.error("take the name of a peer", if code < 0 { code } else { -(FI_EINVAL as c_int) })),
        }
    }

    /// A free buffer to build a frame in, which [`Endpoint::send`] or [`Endpoint::put_back`] takes back.
    pub fn take_buffer(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Gives a buffer of [`Endpoint::take_buffer`] back.
    pub fn put_back(&mut self, buffer: usize) {
        self.free.push(buffer);
    }

    /// The bytes of a buffer that was taken.
    pub fn frame_mut(&mut self, buffer: usize) -> &mut [u8] {
        let frame = self.own_frame(buffer);
        assert!(buffer >= RECEIVE_BUFFERS, "the buffer is one to receive");
        // SAFETY: the slot is ours, so nobody else touches it (invariant 1), and `&mut self` lasts as long as the result.
        unsafe { std::slice::from_raw_parts_mut(frame, FRAME_BYTES_MAX) }
    }

    /// The frame of a slot that is ours.
    fn own_frame(&self, buffer: usize) -> *mut u8 {
        assert!(self.owners[buffer] == Owner::Us, "the buffer is libfabric's");
        self.slots.frame(buffer)
    }

    /// Sends the first `bytes` of a buffer that was taken, and the tail after them. Its completion has the tag, and frees both. After an
    /// error the buffer is still the caller's.
    pub fn send(
        &mut self,
        buffer: usize,
        bytes: usize,
        tail: Option<&Tail>,
        to: Destination,
        tag: u32,
    ) -> Result<(), SendError> {
        assert!(bytes <= FRAME_BYTES_MAX, "a frame is not longer than its buffer");
        let descriptor = self.descriptor();
        let frame: *mut c_void = self.own_frame(buffer).cast();
        let context: *mut c_void = self.slots.context(buffer).cast();
        let result = match tail {
            // SAFETY: buffer and context stay where they are and are not touched until the completion (invariants 1 and 2).
            None => unsafe {
                call!((*(*self.endpoint).msg).send, self.endpoint, frame, bytes, descriptor, to.0, context)
            },
            Some(tail) => {
                let payload = tail.bytes();
                assert!(
                    bytes + payload.len() <= LONG_FRAME_BYTES_MAX,
                    "a frame is not longer than its receiver's buffer"
                );
                let made = self.register_local(payload.as_ptr(), payload.len(), FI_SEND);
                let region = made.map_err(|code| self.broken(-code))?;
                let pieces = [
                    iovec { iov_base: frame, iov_len: bytes },
                    iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() },
                ];
                // SAFETY: as above; the tail is kept until the completion. The arrays are read within the call.
                let result = unsafe {
                    let mut descriptors = [descriptor, descriptor_of(region)];
                    let (pieces, descriptors) = (pieces.as_ptr(), descriptors.as_mut_ptr());
                    let ops = (*self.endpoint).msg;
                    call!((*ops).sendv, self.endpoint, pieces, descriptors, 2, to.0, context)
                };
                let sent = Registered { memory: tail.clone(), region };
                if result == 0 {
                    self.tails[buffer] = Some(sent);
                } else {
                    drop(sent.close());
                }
                result
            }
        };
        match -result {
            0 => {
                self.owners[buffer] = Owner::Sends(tag);
                Ok(())
            }
            code if code == FI_EAGAIN as isize => Err(SendError::Full),
            code => Err(self.broken(code as c_int)),
        }
    }

    fn broken(&self, code: c_int) -> SendError {
        SendError::Broken(self.library.error_text(code))
    }

    /// Gives the buffer of a frame that has arrived back to libfabric.
    pub fn give_back(&mut self, frame: Arrived) -> Result<(), EndpointError> {
        self.post(frame.buffer)
    }

    /// Gives a receive buffer to libfabric.
    fn post(&mut self, buffer: usize) -> Result<(), EndpointError> {
        let descriptor = self.descriptor();
        let frame = self.own_frame(buffer);
        let (context, frame) = (self.slots.context(buffer).cast(), frame.cast());
        // SAFETY: as in `send`. FI_ADDR_UNSPEC takes frames of every peer.
        let result = unsafe {
            let ops = (*self.endpoint).msg;
            call!((*ops).recv, self.endpoint, frame, LONG_FRAME_BYTES_MAX, descriptor, u64::MAX, context)
        };
        if result != 0 {
            return Err(self.error("take a receive buffer", result as c_int));
        }
        self.owners[buffer] = Owner::Receives;
        Ok(())
    }

    fn descriptor(&self) -> *mut c_void {
        // SAFETY: the region is open until the drop.
        unsafe { descriptor_of(self.region) }
    }

    /// Reads completions, and lets the provider make progress. Returns whether there may be more.
    pub fn poll(&mut self, events: &mut Vec<Event>) -> bool {
        let mut entries = [fi_cq_msg_entry::default(); COMPLETIONS];
        // SAFETY: there is room for so many entries of the format that the queue was opened with.
        let count = unsafe {
            let ops = (*self.queue).ops;
            call!((*ops).read, self.queue, entries.as_mut_ptr().cast(), COMPLETIONS)
        };
        if count == -(FI_EAVAIL as isize) {
            return self.read_error(events);
        }
        for entry in &entries[..usize::try_from(count).unwrap_or(0).min(COMPLETIONS)] {
            match self.take_from_library(entry.op_context) {
                Some((buffer, Owner::Receives)) => {
                    let bytes = entry.len.min(LONG_FRAME_BYTES_MAX);
                    events.push(Event::Arrived(Arrived { slots: self.slots.clone(), buffer, bytes }));
                }
                Some((_, Owner::Sends(tag))) => events.push(Event::Sent { tag }),
                Some((_, Owner::Us)) => {}
                None => {
                    let read = self.end_read(entry.op_context);
                    events.extend(read.map(|tag| Event::Read { tag, result: Ok(()) }));
                }
            }
        }
        count == COMPLETIONS as isize
    }

    #[cold]
    fn read_error(&mut self, events: &mut Vec<Event>) -> bool {
        let mut entry = fi_cq_err_entry::default();
        // SAFETY: there is room for one entry.
        let count = unsafe {
            let ops = (*self.queue).ops;
            call!((*ops).readerr, self.queue, &mut entry, 0)
        };
        if count <= 0 {
            return false;
        }
        let why = self.library.error_text(entry.err);
        match self.take_from_library(entry.op_context) {
            Some((buffer, Owner::Receives)) => {
                // A stranger's frame that is too long, for example. It is an empty one for the caller.
                log::warn!("a frame was not received: {why}");
                events.push(Event::Arrived(Arrived { slots: self.slots.clone(), buffer, bytes: 0 }));
            }
            Some((_, Owner::Sends(tag))) => events.push(Event::Failed { tag, why }),
            Some((_, Owner::Us)) => {}
            None => {
                let read = self.end_read(entry.op_context);
                events.extend(read.map(|tag| Event::Read { tag, result: Err(why) }));
            }
        }
        true
    }

    /// Takes the buffer back whose context libfabric hands back. A send buffer is free then.
    fn take_from_library(&mut self, context: *mut c_void) -> Option<(usize, Owner)> {
        let buffer = self.slots.buffer_of(context)?;
        let owner = std::mem::replace(&mut self.owners[buffer], Owner::Us);
        match owner {
            Owner::Us => return None,
            Owner::Sends(_) => {
                self.free.push(buffer);
                drop(self.tails[buffer].take().map(Registered::close));
            }
            Owner::Receives => {}
        }
        Some((buffer, owner))
    }

    /// The descriptor that becomes readable when there is something to poll for. None: the provider has none.
    pub fn wait_descriptor(&self) -> Option<RawFd> {
        self.wait
    }

    /// Whether a thread may sleep on the descriptor now. If not, there is something to poll for.
    pub fn may_sleep(&mut self) -> bool {
        // SAFETY: the queue was opened with a wait descriptor, or the call fails.
        unsafe {
            let mut fid = &raw mut (*self.queue).fid;
            // A provider without the call lets the thread sleep, as long as it looks now and then.
            call!((*(*self.fabric).ops).trywait, self.fabric, &mut fid, 1) != -(FI_EAGAIN as c_int)
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: each object was opened once and is closed once, those that stand on others first. `slots` lives longer than this.
        unsafe {
            close(self.endpoint.cast());
            self.tails.drain(..).flatten().for_each(|tail| drop(tail.close()));
            self.reads.drain().for_each(|(_, read)| drop(read.into.close()));
            self.exposed.drain(..).flatten().for_each(|exposed| drop(exposed.close()));
            close(self.region.cast());
            close(self.queue.cast());
            close(self.addresses.cast());
            close(self.domain.cast());
            close(self.fabric.cast());
            (self.library.freeinfo)(self.info);
        }
    }
}

/// Closes an object of libfabric, if there is one.
///
/// # Safety
/// It is null, or an open object that begins with a `fid`.
unsafe fn close(object: *mut fid) {
    // SAFETY: the caller's.
    unsafe {
        if !object.is_null() {
            call!((*(*object).ops).close, object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn open() -> Endpoint {
        Endpoint::open(Ipv4Addr::LOCALHOST.into(), None).expect("libfabric's tcp")
    }

    #[test]
    fn a_frame_arrives_as_it_was_sent() {
        let (mut sender, mut receiver) = (open(), open());
        assert!(!sender.provider().contains("selvedge"));
        let to = sender.insert(&receiver.name().expect("it has one")).expect("inserted");
        let buffer = sender.take_buffer().expect("all are free");
        sender.frame_mut(buffer)[..4].copy_from_slice(b"warp");
        let since = std::time::Instant::now();
        while sender.send(buffer, 4, None, to, 7).is_err() {
            // The first frame connects, which needs both.
            sender.poll(&mut Vec::new());
            receiver.poll(&mut Vec::new());
            assert!(since.elapsed().as_secs() < 20, "no connection");
        }
        let mut events = Vec::new();
        while events.is_empty() {
            sender.poll(&mut Vec::new());
            receiver.poll(&mut events);
            assert!(since.elapsed().as_secs() < 20, "nothing came");
        }
        let Some(Event::Arrived(frame)) = events.pop() else { panic!("another event") };
        assert_eq!(&*frame, b"warp");
        receiver.give_back(frame).expect("posted again");
    }

    #[test]
    fn the_tail_of_a_long_frame_follows_its_buffer() {
        let (mut sender, mut receiver) = (open(), open());
        let to = sender.insert(&receiver.name().expect("it has one")).expect("inserted");
        let payload: Arc<Vec<u8>> = Arc::new((0..LONG_FRAME_BYTES_MAX).map(|at| at as u8 ^ (at >> 8) as u8).collect());
        let since = std::time::Instant::now();
        for (bytes, range) in [(100, 7..20_007), (32, 0..LONG_FRAME_BYTES_MAX - 32), (64, 1..160_001)] {
            let buffer = sender.take_buffer().expect("all are free");
            sender.frame_mut(buffer)[..bytes].fill(9);
            let tail = Tail { payload: Payload::Own(payload.clone()), range: range.clone() };
            while sender.send(buffer, bytes, Some(&tail), to, 7).is_err() {
                sender.poll(&mut Vec::new());
                receiver.poll(&mut Vec::new());
                assert!(since.elapsed().as_secs() < 20, "no connection");
            }
            let (mut events, mut sent) = (Vec::new(), Vec::new());
            while events.is_empty() || sent.is_empty() {
                sender.poll(&mut sent);
                receiver.poll(&mut events);
                assert!(since.elapsed().as_secs() < 20, "nothing came");
            }
            let Some(Event::Arrived(frame)) = events.pop() else { panic!("another event") };
            assert_eq!(frame[..bytes], vec![9; bytes]);
            assert!(frame[bytes..] == payload[range], "the tail is another");
            receiver.give_back(frame).expect("posted again");
            assert!(sender.tails.iter().all(Option::is_none), "its payload is kept no longer");
        }
    }

    #[test]
    fn a_name_of_another_length_is_refused() {
        let mut endpoint = open();
        assert!(endpoint.insert(b"short").is_err());
    }

    #[test]
    fn a_provider_that_does_not_exist_is_named_in_the_error() {
        let error = Endpoint::open(Ipv4Addr::LOCALHOST.into(), Some("nosuch")).err().expect("refused");
        assert!(error.to_string().contains("nosuch"), "{error}");
    }
}
