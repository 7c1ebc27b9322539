// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The register block has the described layout, and the registers of the tables reflect the NIC.

use crate::common::{Home, TestBus};
use selvedge_nic::registers::tables::{TableView, WriteError};
use selvedge_nic::registers::{BLOCK_BYTES, LiveWrite, Register, Registers, TableRegister, VERSION};
use selvedge_nic::velo::{Endpoint, Extent, Received, Status, VeloMessage, options};
use selvedge_nic::{Layout, Limits};

const LIMITS: Limits =
    Limits { vpids: 70, velo_bytes: 64, mailbox_slots: 8, notifications: 4, address_tables: 1, ..Limits::NONE };

/// The value of a register of this home's NIC, in memory laid out from offset 0.
fn value(home: &mut Home, register: TableRegister, index: u32) -> Option<u64> {
    let layout = Layout::new(&LIMITS, 0);
    let nic = home.nic();
    TableView { layout: &layout, ports: nic.tables.ports, pointers: nic.signals.port_pointers }.value(register, index)
}

fn send(home: &mut Home, vpid: u16) -> Received {
    let source = Endpoint { node: 1, vpid: 2 };
    let status = Status { source, extent: Extent::whole(8).expect("a length"), mtt: 0, tag: 0, error: false };
    let mut bus = TestBus { payload: vec![7; 8], ..TestBus::default() };
    home.nic().velo().receive(&mut bus, &VeloMessage { vpid, status, bytes: 8 })
}

#[test]
fn the_block_has_the_version_and_then_each_counter_at_its_address() {
    let mut home = Home::new(&LIMITS);
    for (at, register) in Register::ALL.iter().enumerate() {
        home.nic().signals.registers.add(*register, 1000 + at as u64);
    }
    let nic = home.nic();
    assert_eq!(nic.signals.registers.version(), VERSION.into());
    // SAFETY: the block is plain words of 64 bits, and nothing changes it meanwhile.
    let words =
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(nic.signals.registers).cast::<u64>(), BLOCK_BYTES / 8) };
    let mut wanted = [0; BLOCK_BYTES / 8];
    wanted[0] = VERSION.into();
    for (at, register) in Register::ALL.iter().enumerate() {
        assert!(register.offset() % 8 == 0 && register.offset() < BLOCK_BYTES, "{register:?}");
        wanted[register.offset() / 8] = 1000 + at as u64;
    }
    assert_eq!(words, wanted);
    assert_eq!(size_of::<Registers>(), BLOCK_BYTES);
}

#[test]
fn the_counters_of_a_plain_put_share_the_line_of_the_version() {
    for register in [Register::Requests, Register::MatchedPriority, Register::ListSteps, Register::BytesIn] {
        assert!(register.offset() < 64, "{register:?}");
    }
}

#[test]
fn names_and_addresses_are_unique() {
    let counters = Register::ALL.iter().map(|register| (register.name(), register.offset() as u64));
    let tables = TableRegister::ALL.iter().map(|register| (register.name(), register.address()));
    let mut all: Vec<_> = counters.chain(tables).collect();
    let count = all.len();
    all.sort_by_key(|(_, address)| *address);
    assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].1), "{all:x?}");
    all.sort_unstable();
    all.dedup_by_key(|(name, _)| *name);
    assert_eq!(all.len(), count);
}

#[test]
fn ports_show_in_the_tables() {
    let mut home = Home::new(&LIMITS);
    assert_eq!(value(&mut home, TableRegister::CompleterEnables, 1), Some(0));
    home.nic().ports().open(Some(3), 0).expect("free");
    home.nic().ports().open(Some(69), options::MAILBOX_DISABLED).expect("free");
    for (register, words) in
        [(TableRegister::CompleterEnables, [1 << 3, 1 << 5]), (TableRegister::MailboxEnables, [1 << 3, 0])]
    {
        assert_eq!([0, 1].map(|at| value(&mut home, register, at)), words.map(Some), "{register:?}");
    }
    assert_eq!(send(&mut home, 3), Received::Written { interrupt: false });
    assert_eq!(value(&mut home, TableRegister::MailboxWritePointers, 3), Some(1));
    assert_eq!(value(&mut home, TableRegister::MailboxPagesReadPointer, 3), Some(0));
    let layout = Layout::new(&LIMITS, 0);
    for (register, index, wanted) in [
        (TableRegister::MailboxBases, 2, layout.mailboxes + 2 * 8 * 64),
        (TableRegister::MailboxSizes, 2, 8),
        (TableRegister::NotificationQueueSize, 0, 4),
        (TableRegister::LockBase, 0, layout.locks),
        (TableRegister::LockSize, 0, 70 * 4096),
        (TableRegister::TableBases, 0, layout.address_tables | 1),
        (TableRegister::FlushRequest, 0, 0),
    ] {
        assert_eq!(value(&mut home, register, index), Some(wanted), "{register:?}");
    }
}

#[test]
fn a_register_has_as_many_values_as_the_nic_has_of_it() {
    let view = |limits: &Limits, register: TableRegister| {
        let layout = Layout::new(limits, 0);
        let (ports, pointers) = (&[][..], &[][..]);
        TableView { layout: &layout, ports, pointers }.entries(register)
    };
    for register in TableRegister::ALL {
        assert_eq!(view(&Limits::NONE, *register), 0, "{register:?}: the NIC has no units");
        let entries = view(&LIMITS, *register);
        let wanted = match register {
            TableRegister::MailboxEnables | TableRegister::CompleterEnables => 2,
            TableRegister::TableBases | TableRegister::FlushRequest => 1,
            TableRegister::NotificationQueueSize | TableRegister::LockBase | TableRegister::LockSize => 1,
            _ => 70,
        };
        assert_eq!(entries, wanted, "{register:?}");
        assert!(entries <= register.entries_max().max(1));
        assert_eq!(value(&mut Home::new(&LIMITS), *register, entries), None, "{register:?}");
    }
}

#[test]
fn interrupt_mask_and_clear() {
    use TableRegister::{
        MailboxInterruptsClear as Clear, MailboxInterruptsInterrupt as Interrupt, MailboxInterruptsMask as Mask,
    };
    let mut home = Home::new(&LIMITS);
    home.nic().ports().open(Some(0), 0).expect("free");
    assert_eq!(send(&mut home, 0), Received::Written { interrupt: false });
    assert_eq!(value(&mut home, Interrupt, 0), Some(1), "kept although it is masked");
    assert_eq!(home.nic().write_register(Mask, 0, 1), Ok(()));
    assert_eq!(home.nic().write_register(Clear, 0, 0), Ok(()));
    assert_eq!([Interrupt, Mask, Clear].map(|register| value(&mut home, register, 0)), [Some(1), Some(1), Some(0)]);
    assert_eq!(home.nic().write_register(Clear, 0, 1), Ok(()));
    assert_eq!(value(&mut home, Interrupt, 0), Some(0));
    assert_eq!(send(&mut home, 0), Received::Written { interrupt: true });
    assert_eq!(value(&mut home, Interrupt, 0), Some(1));
    for register in [Mask, Clear] {
        assert_eq!(home.nic().write_register(register, 0, 2), Err(WriteError::Value));
        assert_eq!(home.nic().write_register(register, 1, 1), Err(WriteError::NotOpen(1)));
        assert_eq!(home.nic().write_register(register, 70, 1), Err(WriteError::NoSuchEntry));
    }
}

#[test]
fn mailboxes_are_enabled_and_disabled() {
    let enables = TableRegister::MailboxEnables;
    let mut home = Home::new(&LIMITS);
    for vpid in [0, 5, 64] {
        home.nic().ports().open(Some(vpid), 0).expect("free");
    }
    assert_eq!(home.nic().write_register(enables, 0, 1), Ok(()));
    assert_eq!([0, 1].map(|at| value(&mut home, enables, at)), [Some(1), Some(1)], "other words stay as they are");
    assert_eq!(send(&mut home, 5), Received::Discarded);
    assert_eq!(home.nic().write_register(enables, 0, 1 << 5 | 1 << 6), Err(WriteError::NotOpen(6)));
    assert_eq!(home.nic().write_register(enables, 1, 1 << 6), Err(WriteError::NotOpen(70)), "beyond the last VPID");
    assert_eq!(home.nic().write_register(enables, 2, 0), Err(WriteError::NoSuchEntry));
    assert_eq!(home.nic().write_register(enables, u32::MAX, 0), Err(WriteError::NoSuchEntry));
    assert_eq!(value(&mut home, enables, 0), Some(1), "an error changes nothing");
    assert_eq!(home.nic().write_register(enables, 0, 1 << 5), Ok(()));
    assert_eq!(send(&mut home, 5), Received::Written { interrupt: false });
}

#[test]
fn a_flush_by_its_register() {
    let flush = TableRegister::FlushRequest;
    let mut home = Home::new(&LIMITS);
    let answered = |home: &mut Home| home.nic().signals.registers.get(Register::AtuFlushes);
    let last_page = (1 << 18) - 1;
    let (vpid, of_tlb, of_units) = (1 << 40, 1 << 42, 2 << 42);
    for (value, counted) in [(0, 1), (last_page, 1), (5 << 27 | vpid, 1), (of_tlb, 0), (of_units, 1)] {
        let before = answered(&mut home);
        assert_eq!(home.nic().write_register(flush, 0, value), Ok(()), "{value:#x}");
        assert_eq!(answered(&mut home) - before, counted, "{value:#x}");
    }
    let before = answered(&mut home);
    let two_pages = 1 << 27;
    // Beyond the tables, unknown kind, unknown mode, bits without a meaning.
    for value in [last_page | two_pages, 1 << 18, 2 << 40, 3 << 42, 1 << 37, 1 << 44, vpid | 1] {
        assert_eq!(home.nic().write_register(flush, 0, value), Err(WriteError::Value), "{value:#x}");
    }
    assert_eq!(home.nic().write_register(flush, 1, 0), Err(WriteError::NoSuchEntry));
    assert_eq!(answered(&mut home), before);
}

#[test]
fn what_is_not_writable_is_refused() {
    let mut home = Home::new(&LIMITS);
    home.nic().ports().open(Some(0), 0).expect("free");
    for register in TableRegister::ALL {
        let written = home.nic().write_register(*register, 0, 0);
        match register.live_write() {
            LiveWrite::Locked => assert_eq!(written, Ok(()), "{register:?}"),
            other => assert_eq!(written, Err(WriteError::NotWritable(other)), "{register:?}"),
        }
    }
}
