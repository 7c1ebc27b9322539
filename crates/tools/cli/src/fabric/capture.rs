// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge fabric capture`: the packets of one port, in a pcapng file that Wireshark and tcpdump read.
//!
//! A packet socket gives each packet that leaves or arrives, with the kernel's time. It needs `CAP_NET_RAW`, so the
//! command itself opens it, with the rights of its user; the daemon only says which interface a port is.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter};
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};

/// The kernel's buffer of the socket: packets that come while the file is written.
const BUFFER_BYTES: libc::c_int = 8 << 20;
/// Time after which a signal is noticed.
const LOOK_NS: i64 = 100_000_000;
/// Packets of one look at the socket.
const BATCH: usize = 256;

/// Limits of a capture; None: none.
pub struct Limits {
    pub seconds: Option<Duration>,
    pub frames: Option<u64>,
    /// Bytes of each packet that are kept.
    pub snap: u32,
}

/// The result of a capture.
#[derive(serde::Serialize)]
pub struct Captured {
    pub interface: String,
    pub frames: u64,
    /// Bytes of the packets, as they were on the cable.
    pub bytes: u64,
    /// Packets that the kernel had no room for.
    pub dropped: u64,
    pub file: PathBuf,
}

/// Captures until a limit is reached or a signal comes. `ready` is called when no later packet is missed.
pub fn capture(interface: &str, file: &Path, limits: &Limits, ready: impl FnOnce()) -> Result<Captured> {
    let socket = open(interface)?;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, is_over.clone())?;
    }
    let named = || file.display().to_string();
    let mut writer = PcapNgWriter::new(BufWriter::new(File::create(file).with_context(named)?)).with_context(named)?;
    let name = InterfaceDescriptionOption::IfName(Cow::Borrowed(interface));
    let nanoseconds = InterfaceDescriptionOption::IfTsResol(9);
    let about = InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: limits.snap,
        options: vec![name, nanoseconds],
    };
    writer.write_pcapng_block(about).with_context(named)?;
    ready();
    let end = limits.seconds.and_then(|time| Instant::now().checked_add(time));
    let (mut frames, mut bytes) = (0, 0);
    let mut buffer = vec![0; 1 << 18];
    while !is_over.load(Relaxed)
        && limits.frames.is_none_or(|limit| frames < limit)
        && end.is_none_or(|end| Instant::now() < end)
    {
        let left_ns = end.map_or(LOOK_NS, |end| end.saturating_duration_since(Instant::now()).as_nanos() as i64);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left_ns.clamp(1, LOOK_NS) };
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("poll"),
        }
        // Looks at signals and the time again after a batch, however busy the port is.
        for _ in 0..BATCH {
            if limits.frames.is_some_and(|limit| frames >= limit) {
                break;
            }
            let Some((length, timestamp)) = receive(&socket, &mut buffer).with_context(|| interface.to_owned())? else {
                break;
            };
            let kept = length.min(limits.snap as usize).min(buffer.len());
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp,
                original_len: length as u32,
                data: Cow::Borrowed(&buffer[..kept]),
                options: Vec::new(),
            };
            writer.write_pcapng_block(packet).with_context(named)?;
            (frames, bytes) = (frames + 1, bytes + length as u64);
        }
    }
    io::Write::flush(&mut writer.into_inner()).with_context(named)?;
    let dropped = drops(&socket)?;
    Ok(Captured { interface: interface.into(), frames, bytes, dropped, file: file.to_owned() })
}

/// A packet socket of one interface.
fn open(interface: &str) -> Result<OwnedFd> {
    // Without a protocol it takes nothing until it is bound to the interface.
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let made = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if made < 0 {
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::PermissionDenied {
            bail!("{interface}: {error}: packets may be captured by root, or with CAP_NET_RAW");
        }
        bail!("{interface}: {error}");
    }
    // SAFETY: the descriptor is new, and belongs to no one else.
    let socket = unsafe { OwnedFd::from_raw_fd(made) };
    let index = rustix::net::netdevice::name_to_index(&socket, interface).with_context(|| interface.to_owned())?;
    set(&socket, libc::SO_TIMESTAMPNS, 1)?;
    // Smaller where this user may not have so much.
    if set(&socket, libc::SO_RCVBUFFORCE, BUFFER_BYTES).is_err() {
        set(&socket, libc::SO_RCVBUF, BUFFER_BYTES)?;
    }
    // SAFETY: all fields may be zero.
    let mut at: libc::sockaddr_ll = unsafe { zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    at.sll_ifindex = index as i32;
    // SAFETY: the address lives across the call, and has the given length.
    let done = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const at).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if done != 0 {
        return Err(io::Error::last_os_error()).with_context(|| interface.to_owned());
    }
    Ok(socket)
}

fn set(socket: &OwnedFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads an int from `value`, which lives across the call.
    let done = unsafe {
        let bytes = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), bytes)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The next packet: its length on the cable, and its time since 1970. None: there is none now.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<(usize, Duration)>> {
    // Room for one control message with a time, aligned as the kernel writes it.
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all fields may be zero.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message's buffers live across the call, and have the lengths that it names.
    let length = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
    if length < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            // The interface was down, or is down now: it gives nothing until it is up.
            _ if error.raw_os_error() == Some(libc::ENETDOWN) => Ok(None),
            _ => Err(error),
        };
    }
    let mut at = Duration::ZERO;
    // SAFETY: the kernel has written whole control messages into `control`, which lives here, and has set its length. A
    // message of this type holds a timespec.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if !header.is_null() && (*header).cmsg_type == libc::SCM_TIMESTAMPNS {
            let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
            at = Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32);
        }
    }
    Ok(Some((length as usize, at)))
}

/// Packets that the kernel has dropped.
fn drops(socket: &OwnedFd) -> io::Result<u64> {
    let mut counts: libc::tpacket_stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut bytes = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `counts`, which lives across the call, as `bytes` does.
    let done = unsafe {
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut counts).cast(), &raw mut bytes)
    };
    if done == 0 { Ok(counts.tp_drops.into()) } else { Err(io::Error::last_os_error()) }
}
