// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a NIC from outside, for tools (`selvedge top`).
//!
//! Invariants
//! 1. Nothing is changed: the file is opened for reading, no lock is taken, no process is woken. The NIC's owner and
//!    its peers cannot notice the reader.
//! 2. No file can harm the reader. The segment is read, not mapped, so a file that is truncated meanwhile is an error
//!    and not a fault. Owner, mode, magic, versions, limits and size must pass the checks of [`Segment::open`].
//!    Impossible values are clamped to the size of their table.
//! 3. The values are from about the same time, not from one moment, because the NIC keeps running. Each single value is
//!    consistent, as the kernel copies aligned words in one piece.
//!
//! Costs: seven system calls, and the bytes of the registers, the ports, the portal table and the heads of messages
//! without a destination, 31 KB with default limits.
//!
//! [`Segment::open`]: crate::segment::Segment::open

use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use rustix::fs::{Mode, OFlags};
use selvedge_nic::registers::tables::TableView;
use selvedge_nic::registers::{BLOCK_WORDS, Registers, TableRegister};
use selvedge_nic::signals::{Doorbell, GRANTS, Grant, PortPointers};
use selvedge_nic::tables::{BlockedHead, BlockedRing, Port, PortalEntry, portal};
use selvedge_nic::{Layout, Limits, Register};

use crate::rings::Rings;
use crate::segment::{Claims, Hot, LockLine, SegmentError, SegmentHeader, TABLES_AT, state};
use selvedge_os::mapping::{MapError, check_file_of};
use selvedge_os::process::Identity;

/// The state in a NIC's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its owner is alive and uses it.
    Ready,
    /// Its owner has closed it.
    Closed,
    /// Its owner has died, and another process has noticed.
    Dead,
    /// A value that Selvedge never writes.
    Unknown(u32),
}

/// The state of a NIC as read.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub nid: u32,
    pub pid: u32,
    /// Number of the interface: bit 0 set: without matching; bit 1 set: physical.
    pub ni: u32,
    pub rank: u32,
    /// The owner's process at the operating system.
    pub owner: Identity,
    pub host_mode: bool,
    pub state: State,
    /// Threads of the owner that sleep, or are about to sleep.
    pub sleepers: u32,
    /// The process that holds the lock now.
    pub lock_holder: Option<u32>,
    pub limits: Limits,
    pub file_bytes: u64,
    pub heap_blocks: u64,
    /// Bytes of the owner's shared arena.
    pub arena_bytes: u64,
    /// Packets in rings, for the owner's program.
    pub packets_waiting: u64,
    /// Triggered operations that have fired and wait.
    pub fired_waiting: u32,
    pub portals_enabled: u32,
    pub portals_disabled: u32,
    /// Entries on priority and overflow lists.
    pub entries: u64,
    /// Headers on unexpected lists.
    pub unexpected: u64,
    /// Messages that found no destination, in all.
    pub blocked_count: u64,
    /// The heads of the newest of them, oldest first.
    pub blocked: Vec<BlockedHead>,
    /// The register block, including counts of senders and ports.
    registers: [u64; BLOCK_WORDS],
    /// The values of the tables' registers, in the order of [`TableRegister::ALL`].
    tables: Vec<Vec<u64>>,
}

impl Inspection {
    /// Returns a register's value.
    pub fn register(&self, register: Register) -> u64 {
        self.registers[register as usize]
    }

    /// Returns the version in the register block. A NIC of another version is refused before.
    pub fn version(&self) -> u64 {
        self.registers[0]
    }

    /// Returns the values of a register of the tables, by index. A register without an index has one. A NIC without the
    /// units has none.
    pub fn table_register(&self, register: TableRegister) -> &[u64] {
        TableRegister::ALL.iter().position(|other| *other == register).map_or(&[], |at| &self.tables[at])
    }
}

/// Returns the layout of the tables of a NIC with these limits, and so the segment's size.
pub fn layout_of(limits: &Limits) -> Layout {
    Layout::new(limits, TABLES_AT)
}

/// Reads the segment in this file, which must belong to this user alone.
pub fn inspect(path: &Path) -> Result<Inspection, SegmentError> {
    inspect_of(path, rustix::process::geteuid().as_raw())
}

/// As [`inspect`], for a segment of the user `uid`.
pub fn inspect_of(path: &Path, uid: u32) -> Result<Inspection, SegmentError> {
    let (file, file_bytes) = open(path, uid)?;
    let header = Piece::read(&file, path, 0, TABLES_AT)?;
    let layout = claims(&header).layout(path, file_bytes)?;
    let limits = layout.limits;
    let registers_end = layout.registers + size_of::<Registers>() as u64;
    let signals = Piece::read(&file, path, layout.doorbell, registers_end)?;
    let grants_end = layout.grants + (GRANTS * size_of::<Grant>()) as u64;
    let grants = Piece::read(&file, path, layout.grants, grants_end)?;
    let pointers_end = layout.port_pointers + u64::from(limits.vpids) * size_of::<PortPointers>() as u64;
    let pointers = Piece::read(&file, path, layout.port_pointers, pointers_end)?;
    let ports_end = layout.ports + u64::from(limits.vpids) * size_of::<Port>() as u64;
    let ports = Piece::read(&file, path, layout.ports, ports_end)?;
    let portals_end = layout.portals + u64::from(limits.portals) * size_of::<PortalEntry>() as u64;
    let portals = Piece::read(&file, path, layout.portals, portals_end)?;

    let ring = Piece::read(&file, path, layout.blocked, layout.blocked + size_of::<BlockedRing>() as u64)?;

    let hot = offset_of!(SegmentHeader, hot) as u64;
    let bell = |field: usize| layout.doorbell + field as u64;
    let id = header.u64(offset_of!(SegmentHeader, id) as u64);
    let lock_word = header.u64((offset_of!(SegmentHeader, lock) + offset_of!(LockLine, word)) as u64);
    let mut seen = Inspection {
        nid: (id >> 32) as u32,
        pid: id as u32,
        ni: header.u32(offset_of!(SegmentHeader, ni) as u64),
        rank: header.u32(offset_of!(SegmentHeader, rank) as u64),
        owner: Identity {
            pid: header.u32(offset_of!(SegmentHeader, owner_pid) as u64),
            start: header.u64(offset_of!(SegmentHeader, owner_start) as u64),
        },
        host_mode: header.u32(offset_of!(SegmentHeader, host_mode) as u64) != 0,
        state: State::from(header.u32(hot + offset_of!(Hot, state) as u64)),
        sleepers: header.u32(hot + offset_of!(Hot, sleepers) as u64),
        lock_holder: (lock_word != 0).then_some((lock_word >> 32) as u32),
        limits,
        file_bytes,
        heap_blocks: header.u64(hot + offset_of!(Hot, heap_blocks) as u64).min(limits.heap_blocks_max.into()),
        arena_bytes: header.u64(hot + offset_of!(Hot, arena_bytes) as u64),
        packets_waiting: Rings::packets_waiting(&path.with_extension("rings")).unwrap_or(0),
        fired_waiting: signals.u32(bell(offset_of!(Doorbell, fired))).min(limits.triggered),
        portals_enabled: 0,
        portals_disabled: 0,
        entries: 0,
        unexpected: 0,
        blocked_count: 0,
        blocked: Vec::new(),
        registers: std::array::from_fn(|at| signals.u64(layout.registers + at as u64 * 8)),
        tables: Vec::new(),
    };
    seen.read_blocked(&ring, &layout);
    seen.count_portals(&portals, &layout);
    seen.count_grants(&grants, &layout);
    let pointers = port_pointers(&pointers, &layout);
    seen.count_ports(&pointers);
    seen.read_tables(&ports_of(&ports, &layout), &pointers, &layout);
    Ok(seen)
}

impl Inspection {
    /// Adds the messages that programs have sent to the registers.
    fn count_ports(&mut self, pointers: &[PortPointers]) {
        for pointers in pointers {
            for register in Register::ALL {
                let value = &mut self.registers[*register as usize];
                *value = value.wrapping_add(pointers.added_to(*register));
            }
        }
    }

    fn read_tables(&mut self, ports: &[Port], pointers: &[PortPointers], layout: &Layout) {
        let view = TableView { layout, ports, pointers };
        let values = |register: &TableRegister| {
            (0..view.entries(*register)).map_while(|index| view.value(*register, index)).collect()
        };
        self.tables = TableRegister::ALL.iter().map(values).collect();
    }

    /// Adds the puts under grants to the registers.
    fn count_grants(&mut self, table: &Piece, layout: &Layout) {
        for index in 0..GRANTS as u64 {
            let word = |field: usize| table.u64(layout.grants + index * size_of::<Grant>() as u64 + field as u64);
            let grant = Grant {
                puts: AtomicU64::new(word(offset_of!(Grant, puts))),
                bytes: AtomicU64::new(word(offset_of!(Grant, bytes))),
                ..Grant::default()
            };
            for register in Register::ALL {
                let value = &mut self.registers[*register as usize];
                *value = value.wrapping_add(grant.added_to(*register));
            }
        }
    }

    /// Reads the heads of messages without a destination. A head that is being written is left out.
    fn read_blocked(&mut self, ring: &Piece, layout: &Layout) {
        self.blocked_count = ring.u64(layout.blocked + offset_of!(BlockedRing, count) as u64);
        let mut read = BlockedRing { count: self.blocked_count, ..BlockedRing::default() };
        for (index, head) in read.heads.iter_mut().enumerate() {
            let start = layout.blocked + (offset_of!(BlockedRing, heads) + index * size_of::<BlockedHead>()) as u64;
            let at = |field: usize| start + field as u64;
            let kind_and_why = ring.u32(at(offset_of!(BlockedHead, kind)));
            *head = BlockedHead {
                number: ring.u64(at(offset_of!(BlockedHead, number))),
                source: ring.u64(at(offset_of!(BlockedHead, source))),
                target: ring.u64(at(offset_of!(BlockedHead, target))),
                tag: ring.u64(at(offset_of!(BlockedHead, tag))),
                header_data: ring.u64(at(offset_of!(BlockedHead, header_data))),
                length: ring.u64(at(offset_of!(BlockedHead, length))),
                port: ring.u32(at(offset_of!(BlockedHead, port))),
                source_port: ring.u32(at(offset_of!(BlockedHead, source_port))),
                kind: kind_and_why as u16,
                why: (kind_and_why >> 16) as u16,
                reserved: 0,
            };
        }
        self.blocked = read.kept().copied().collect();
    }

    fn count_portals(&mut self, table: &Piece, layout: &Layout) {
        for index in 0..u64::from(self.limits.portals) {
            let at = |field: usize| layout.portals + index * size_of::<PortalEntry>() as u64 + field as u64;
            match table.u32(at(offset_of!(PortalEntry, status))) {
                portal::ENABLED => self.portals_enabled += 1,
                portal::DISABLED => self.portals_disabled += 1,
                _ => continue,
            }
            let lists = at(offset_of!(PortalEntry, entries));
            self.entries += u64::from(table.u32(lists)) + u64::from(table.u32(lists + 4));
            self.unexpected += u64::from(table.u32(at(offset_of!(PortalEntry, headers))));
        }
        self.entries = self.entries.min(self.limits.entries.into());
        self.unexpected = self.unexpected.min(self.limits.headers.into());
    }
}

/// Returns the read pointers of all VPIDs.
fn port_pointers(table: &Piece, layout: &Layout) -> Vec<PortPointers> {
    let record = |index: u64| {
        let word = |field: usize| {
            AtomicU64::new(table.u64(layout.port_pointers + index * size_of::<PortPointers>() as u64 + field as u64))
        };
        PortPointers {
            mailbox_head: word(offset_of!(PortPointers, mailbox_head)),
            mailbox_taken: word(offset_of!(PortPointers, mailbox_taken)),
            sent: word(offset_of!(PortPointers, sent)),
            notification_head: word(offset_of!(PortPointers, notification_head)),
            ..PortPointers::default()
        }
    };
    (0..u64::from(layout.limits.vpids)).map(record).collect()
}

fn ports_of(table: &Piece, layout: &Layout) -> Vec<Port> {
    let record = |index: u64| {
        let at = |field: usize| layout.ports + index * size_of::<Port>() as u64 + field as u64;
        Port {
            slot: table.u32(at(offset_of!(Port, slot))),
            options: table.u32(at(offset_of!(Port, options))),
            mailbox_tail: table.u64(at(offset_of!(Port, mailbox_tail))),
            notification_tail: table.u64(at(offset_of!(Port, notification_tail))),
            messages_discarded: table.u64(at(offset_of!(Port, messages_discarded))),
            notifications_discarded: table.u64(at(offset_of!(Port, notifications_discarded))),
            mailbox_head_seen: table.u64(at(offset_of!(Port, mailbox_head_seen))),
            interrupt: table.u64(at(offset_of!(Port, interrupt))),
            reserved: 0,
        }
    };
    (0..u64::from(layout.limits.vpids)).map(record).collect()
}

impl From<u32> for State {
    fn from(word: u32) -> State {
        match word {
            state::READY => State::Ready,
            state::CLOSED => State::Closed,
            state::DEAD => State::Dead,
            other => State::Unknown(other),
        }
    }
}

/// Opens a regular file of the user `uid` alone, and returns its size. Nothing else is opened, whatever the path names:
/// opening a device may have an effect, and root's daemon reads what a user has named.
pub(crate) fn open(path: &Path, uid: u32) -> Result<(File, u64), MapError> {
    let owned = || path.to_path_buf();
    let io_error = |error: io::Error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => MapError::NotRegular { path: owned() },
        _ => MapError::Io { path: owned(), error },
    };
    // Names the file without opening it.
    let named = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let named = named.map_err(|errno| io_error(errno.into()))?;
    let status = rustix::fs::fstat(&named).map_err(|errno| io_error(errno.into()))?;
    check_file_of(&status, path, 0, uid)?;
    let file = OpenOptions::new().read(true).open(format!("/proc/self/fd/{}", named.as_raw_fd())).map_err(io_error)?;
    Ok((file, status.st_size as u64))
}

/// Returns the limits in the header, if this version of Selvedge has written it.
fn claims(header: &Piece) -> Claims {
    let limit = |field: usize| header.u32((offset_of!(SegmentHeader, limits) + field) as u64);
    let limits = Limits {
        entries: limit(offset_of!(Limits, entries)),
        headers: limit(offset_of!(Limits, headers)),
        descriptors: limit(offset_of!(Limits, descriptors)),
        counters: limit(offset_of!(Limits, counters)),
        queues: limit(offset_of!(Limits, queues)),
        portals: limit(offset_of!(Limits, portals)),
        triggered: limit(offset_of!(Limits, triggered)),
        iovecs: limit(offset_of!(Limits, iovecs)),
        list: limit(offset_of!(Limits, list)),
        short_list: limit(offset_of!(Limits, short_list)),
        pending: limit(offset_of!(Limits, pending)),
        heap_blocks: limit(offset_of!(Limits, heap_blocks)),
        heap_blocks_max: limit(offset_of!(Limits, heap_blocks_max)),
        vpids: limit(offset_of!(Limits, vpids)),
        velo_bytes: limit(offset_of!(Limits, velo_bytes)),
        mailbox_slots: limit(offset_of!(Limits, mailbox_slots)),
        notifications: limit(offset_of!(Limits, notifications)),
        address_tables: limit(offset_of!(Limits, address_tables)),
        tlb_entries: limit(offset_of!(Limits, tlb_entries)),
        tlb_ways: limit(offset_of!(Limits, tlb_ways)),
        lock_waiters: limit(offset_of!(Limits, lock_waiters)),
        memberships: limit(offset_of!(Limits, memberships)),
        member_operations: limit(offset_of!(Limits, member_operations)),
    };
    Claims {
        magic: header.u64(offset_of!(SegmentHeader, magic) as u64),
        version: header.u32(offset_of!(SegmentHeader, version) as u64),
        layout_version: header.u32(offset_of!(SegmentHeader, layout_version) as u64),
        limits,
    }
}

/// Bytes of a file, addressed by their offsets in the file.
struct Piece {
    start: u64,
    bytes: Vec<u8>,
}

impl Piece {
    fn read(file: &File, path: &Path, start: u64, end: u64) -> Result<Piece, MapError> {
        let mut bytes = vec![0; (end - start) as usize];
        match file.read_exact_at(&mut bytes, start) {
            Ok(()) => Ok(Piece { start, bytes }),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let now = file.metadata().map_or(0, |status| status.len());
                Err(MapError::TooSmall { path: path.into(), bytes: now, needed: end })
            }
            Err(error) => Err(MapError::Io { path: path.into(), error }),
        }
    }

    fn u32(&self, offset: u64) -> u32 {
        u32::from_ne_bytes(self.word(offset))
    }

    fn u64(&self, offset: u64) -> u64 {
        u64::from_ne_bytes(self.word(offset))
    }

    /// Offsets come from layouts, never from the file. An offset outside of the bytes read is a bug here.
    fn word<const BYTES: usize>(&self, offset: u64) -> [u8; BYTES] {
        let at = (offset - self.start) as usize;
        self.bytes[at..at + BYTES].try_into().expect("a slice of BYTES bytes")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::sync::atomic::Ordering::SeqCst;

    use proptest::prelude::*;
    use selvedge_nic::ring::{Envelope, NoHints};

    use super::*;
    use crate::segment::{Owner, SMALL, Segment};

    /// Makes a folder with a segment in it.
    fn made() -> (tempfile::TempDir, PathBuf, Segment) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("7.1.nic");
        let own = Identity::own();
        let uid = rustix::process::geteuid().as_raw();
        let owner = Owner { id: 7, ni: 1, pid: own.pid, uid, start: own.start, host_mode: true, rank: 3, token: 0 };
        let segment = Segment::create(&path, &SMALL, &owner).expect("a segment");
        (folder, path, segment)
    }

    fn enqueue(rings: &Rings, packets: u64) {
        let mut producer = rings.claim_packets(5, Identity::own().to_word()).expect("a ring");
        let ring = rings.packet_ring(5).expect("claimed");
        for _ in 0..packets {
            let reserved = ring.reserve(&mut producer, 128).expect("room");
            ring.publish_reserved::<NoHints>(&mut producer, &Envelope::default(), 128, 0, reserved);
        }
    }

    #[test]
    fn tables_start_where_the_segment_puts_them() {
        let (_folder, _path, segment) = made();
        assert_eq!(*segment.layout(), layout_of(&SMALL));
    }

    #[test]
    fn shows_what_the_segment_holds() {
        let (folder, path, segment) = made();
        let hot = &segment.header().hot;
        hot.sleepers.store(2, SeqCst);
        hot.arena_bytes.store(4096, SeqCst);
        let signals = segment.signals();
        for (at, register) in Register::ALL.iter().enumerate() {
            signals.registers.add(*register, 100 + at as u64);
        }
        let rings = Rings::create(folder.path(), 7, 1).expect("rings");
        enqueue(&rings, 3);
        let own = Identity::own();
        {
            let mut nic = segment.lock(own.to_word());
            for (index, status) in [(1, portal::ENABLED), (4, portal::DISABLED)] {
                let entry = &mut nic.tables.portals[index];
                (entry.status, entry.entries, entry.headers) = (status, [2, 1], 3);
            }
            assert_eq!(inspect(&path).expect("locked or not").lock_holder, Some(own.pid));
        }
        let seen = inspect(&path).expect("a sound segment");
        assert_eq!((seen.nid, seen.pid, seen.ni, seen.rank, seen.owner), (0, 7, 1, 3, own));
        assert_eq!((seen.host_mode, seen.state, seen.sleepers, seen.lock_holder), (true, State::Ready, 2, None));
        assert_eq!((seen.limits, seen.heap_blocks, seen.arena_bytes), (SMALL, 4, 4096));
        assert_eq!(seen.file_bytes, segment.layout().initial_bytes());
        assert_eq!((seen.portals_enabled, seen.portals_disabled, seen.entries, seen.unexpected), (1, 1, 6, 6));
        assert_eq!(seen.packets_waiting, 3);
        for (at, register) in Register::ALL.iter().enumerate() {
            assert_eq!(seen.register(*register), 100 + at as u64, "{}", register.name());
        }
        assert_eq!(seen.version(), u64::from(selvedge_nic::layout::VERSION));
        assert!(TableRegister::ALL.iter().all(|register| seen.table_register(*register).is_empty()), "no units");
        hot.state.store(state::DEAD, SeqCst);
        assert_eq!(inspect(&path).expect("a sound segment").state, State::Dead);
    }

    #[test]
    fn counters_lie_in_the_file_at_the_addresses_of_the_description() {
        let (_folder, path, segment) = made();
        for (at, register) in Register::ALL.iter().enumerate() {
            segment.registers().add(*register, 100 + at as u64);
        }
        let bytes = std::fs::read(&path).expect("the file");
        let word = |offset: usize| {
            let at = segment.layout().registers as usize + offset;
            u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("a word"))
        };
        assert_eq!(word(0), u64::from(selvedge_nic::layout::VERSION));
        for (at, register) in Register::ALL.iter().enumerate() {
            assert_eq!(word(register.offset()), 100 + at as u64, "{}", register.name());
        }
    }

    #[test]
    fn shows_the_registers_of_the_tables_as_the_nic_has_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("7.1.nic");
        let own = Identity::own();
        let uid = rustix::process::geteuid().as_raw();
        let owner = Owner { id: 7, ni: 1, pid: own.pid, uid, start: own.start, host_mode: false, rank: 3, token: 0 };
        let limits = Limits { vpids: 70, ..Limits::EXTOLL };
        let segment = Segment::create(&path, &limits, &owner).expect("a segment");
        let mut nic = segment.lock(own.to_word());
        for (vpid, port) in (0u64..).zip(nic.tables.ports.iter_mut()) {
            port.slot = (vpid % 3 == 0).into();
            port.options = if vpid % 2 == 0 { selvedge_nic::velo::options::ALL } else { 0 };
            (port.mailbox_tail, port.notification_tail, port.interrupt) = (1000 + vpid, 2000 + vpid, vpid % 2);
        }
        for (vpid, pointers) in (0u64..).zip(nic.signals.port_pointers) {
            pointers.mailbox_head.store(3000 + vpid, SeqCst);
            pointers.notification_head.store(4000 + vpid, SeqCst);
            pointers.sent.store(1, SeqCst);
        }
        let seen = inspect(&path).expect("a sound segment");
        let view = TableView { layout: segment.layout(), ports: nic.tables.ports, pointers: nic.signals.port_pointers };
        for register in TableRegister::ALL {
            let values: Vec<u64> = (0..view.entries(*register)).filter_map(|at| view.value(*register, at)).collect();
            assert_eq!(values.len(), view.entries(*register) as usize, "{register:?}");
            assert_eq!(seen.table_register(*register), values, "{register:?}");
        }
        assert_eq!(seen.table_register(TableRegister::MailboxPagesReadPointer)[69], 3069);
        assert_eq!(seen.table_register(TableRegister::MailboxBases)[0], segment.layout().mailboxes);
        assert_eq!(seen.register(Register::VeloSent), 70);
    }

    #[test]
    fn looking_changes_nothing() {
        let (_folder, path, _segment) = made();
        let before = std::fs::read(&path).expect("the file");
        inspect(&path).expect("a sound segment");
        assert!(before == std::fs::read(&path).expect("the file"));
    }

    #[test]
    fn what_cannot_be_is_brought_to_what_a_table_holds() {
        let (folder, path, segment) = made();
        let signals = segment.signals();
        let rings = Rings::create(folder.path(), 7, 1).expect("rings");
        enqueue(&rings, 256);
        // More than a ring holds: every slot has a message, and the cursor is anywhere.
        rings.packet_ring(5).expect("claimed").set_cursors(256 << 32, 0);
        signals.doorbell.fired.store(u32::MAX, SeqCst);
        segment.header().hot.heap_blocks.store(u64::MAX, SeqCst);
        segment.header().hot.state.store(77, SeqCst);
        for entry in segment.lock(Identity::own().to_word()).tables.portals.iter_mut() {
            (entry.status, entry.entries, entry.headers) = (portal::ENABLED, [u32::MAX; 2], u32::MAX);
        }
        let seen = inspect(&path).expect("a sound header");
        assert_eq!((seen.packets_waiting, seen.fired_waiting, seen.heap_blocks), (256, 4, 8));
        assert_eq!((seen.entries, seen.unexpected, seen.state), (16, 8, State::Unknown(77)));
    }

    #[test]
    fn refuses_what_is_no_segment_of_ours() {
        let (folder, path, _segment) = made();
        let sound = std::fs::read(&path).expect("the file");
        let other = folder.path().join("other");
        let look = |bytes: &[u8], mode: u32| {
            std::fs::write(&other, bytes).expect("written");
            std::fs::set_permissions(&other, Permissions::from_mode(mode)).expect("ours");
            inspect(&other).map(|seen| seen.pid)
        };
        assert_eq!(look(&sound, 0o600).expect("the same bytes"), 7);
        assert!(matches!(look(&sound, 0o640), Err(SegmentError::Map(MapError::Mode { mode: 0o640, .. }))));
        assert!(matches!(look(b"", 0o600), Err(SegmentError::Map(MapError::TooSmall { bytes: 0, .. }))));
        assert!(matches!(look(&sound[..4096], 0o600), Err(SegmentError::Size { bytes: 4096, .. })));
        let changed = |at: usize, bytes: &[u8]| {
            let mut changed = sound.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            changed
        };
        assert!(matches!(look(&changed(0, b"x"), 0o600), Err(SegmentError::Magic { .. })));
        let version = offset_of!(SegmentHeader, layout_version);
        assert!(matches!(look(&changed(version, &[99]), 0o600), Err(SegmentError::Version { found_layout: 99, .. })));
        let limits = offset_of!(SegmentHeader, limits);
        assert!(matches!(look(&changed(limits, &[255; 4]), 0o600), Err(SegmentError::Limits { .. })));
        // Valid values, but more than the file holds.
        assert!(matches!(look(&changed(limits, &[0, 0, 8, 0]), 0o600), Err(SegmentError::Size { .. })));

        let link = folder.path().join("link");
        symlink(&path, &link).expect("a link");
        for path in [&link, folder.path()] {
            let refused = inspect(path).map(|seen| seen.pid);
            assert!(matches!(refused, Err(SegmentError::Map(MapError::NotRegular { .. }))), "{refused:?}");
        }
        let gone = inspect(&folder.path().join("none"));
        let Err(SegmentError::Map(MapError::Io { error, .. })) = gone else { panic!("{gone:?}") };
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_cut_short_under_our_eyes_is_an_error() {
        let (_folder, path, segment) = made();
        let (file, bytes) = open(&path, rustix::process::geteuid().as_raw()).expect("ours");
        drop(segment);
        let writer = OpenOptions::new().write(true).open(&path).expect("ours");
        writer.set_len(4096).expect("cut");
        let cut = Piece::read(&file, &path, 0, bytes).map(|piece| piece.bytes.len());
        assert!(matches!(cut, Err(MapError::TooSmall { bytes: 4096, .. })), "{cut:?}");
    }

    proptest! {
        /// Whatever a header contains, the result is a value or an error.
        #[test]
        fn any_header_is_survived(at in 0usize..520, bytes in proptest::collection::vec(any::<u8>(), 1..64)) {
            let (_folder, path, segment) = made();
            drop(segment);
            let writer = OpenOptions::new().write(true).open(&path).expect("ours");
            writer.write_all_at(&bytes, at as u64).expect("written");
            if let Ok(seen) = inspect(&path) {
                prop_assert!(seen.limits.are_sane());
            }
        }
    }
}
