// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PeakRDL's access and the registers of `selvedge-nic` come from one description by two exporters. They agree about every
//! address, and a NIC's register block in memory can be read through this access.

use std::ptr::from_ref;

use selvedge_nic::registers::{BLOCK_BYTES, Register, Registers, TableRegister, VERSION};
use selvedge_registers::SelvedgeNic;

/// An address that nobody reads.
const BASE: usize = 1 << 32;

fn nic() -> SelvedgeNic<'static> {
    // SAFETY: the test asks for addresses only, and reads none of them.
    unsafe { SelvedgeNic::from_ptr(BASE as *mut ()) }
}

macro_rules! counters {
    ($nic:ident, $($block:ident: $($name:ident)*;)*) => {
        [$($((stringify!($block), stringify!($name), $nic.$block().$name().as_ptr() as usize - BASE),)*)*]
    };
}

#[test]
fn counters_are_at_the_same_addresses() {
    let nic = nic();
    let found = counters! { nic,
        portals: requests matched_priority list_steps bytes_in bytes_out matched_overflow unexpected truncated dropped
            permission_violations operation_violations segv events events_overwritten flow_control refused_disabled
            triggered_fired undeliverable packets recoveries;
        velo: velo_sent velo_received velo_discarded;
        rma: requester_puts requester_gets responder_gets responder_locks completer_puts completer_gets
            notifications_discarded;
        atu: tlb_hits tlb_misses tlb_flushes atu_flushes translation_faults;
    };
    let wanted: Vec<_> =
        Register::ALL.iter().map(|register| (register.block(), register.name(), register.offset())).collect();
    assert_eq!(found.as_slice(), wanted);
    assert_eq!(nic.version().as_ptr() as usize, BASE);
}

#[test]
fn tables_are_at_the_same_addresses() {
    let (velo, rma, atu) = (nic().velo_tables(), nic().rma_tables(), nic().atu_tables());
    let (velo_pages, rma_pages) = (nic().velo_pages(), nic().rma_pages());
    let at = 7;
    for (register, first, later) in [
        (TableRegister::MailboxEnables, velo.mailbox_enables()[0].as_ptr() as usize, None),
        (TableRegister::MailboxBases, velo.mailbox_bases().as_ptr() as usize, None),
        (TableRegister::MailboxSizes, velo.mailbox_sizes().as_ptr() as usize, None),
        (TableRegister::MailboxWritePointers, velo.mailbox_write_pointers().as_ptr() as usize, None),
        (
            TableRegister::MailboxInterruptsInterrupt,
            velo.mailbox_interrupts()[0].interrupt().as_ptr() as usize,
            Some(velo.mailbox_interrupts()[at].interrupt().as_ptr() as usize),
        ),
        (
            TableRegister::MailboxInterruptsMask,
            velo.mailbox_interrupts()[0].mask().as_ptr() as usize,
            Some(velo.mailbox_interrupts()[at].mask().as_ptr() as usize),
        ),
        (
            TableRegister::MailboxInterruptsClear,
            velo.mailbox_interrupts()[0].clear().as_ptr() as usize,
            Some(velo.mailbox_interrupts()[at].clear().as_ptr() as usize),
        ),
        (
            TableRegister::MailboxPagesReadPointer,
            velo_pages.mailbox_pages()[0].read_pointer().as_ptr() as usize,
            Some(velo_pages.mailbox_pages()[at].read_pointer().as_ptr() as usize),
        ),
        (TableRegister::CompleterEnables, rma.completer_enables()[0].as_ptr() as usize, None),
        (TableRegister::NotificationQueueSize, rma.notification_queue_size().as_ptr() as usize, None),
        (TableRegister::LockBase, rma.lock_base().as_ptr() as usize, None),
        (TableRegister::LockSize, rma.lock_size().as_ptr() as usize, None),
        (TableRegister::NotificationWritePointers, rma.notification_write_pointers().as_ptr() as usize, None),
        (
            TableRegister::NotificationPagesReadPointer,
            rma_pages.notification_pages()[0].read_pointer().as_ptr() as usize,
            Some(rma_pages.notification_pages()[at].read_pointer().as_ptr() as usize),
        ),
        (TableRegister::FlushRequest, atu.flush_request().as_ptr() as usize, None),
        (TableRegister::TableBases, atu.table_bases().as_ptr() as usize, None),
    ] {
        assert_eq!((first - BASE) as u64, register.address(), "{register:?}");
        if let Some(later) = later {
            assert_eq!((later - first) as u64, at as u64 * register.stride(), "{register:?}");
        }
    }
}

#[test]
fn a_register_block_in_memory_is_read_through_the_access() {
    let registers = Registers::default();
    registers.add(Register::Requests, 3);
    registers.add(Register::TranslationFaults, 1 << 40);
    // SAFETY: the registers of the block are below its size, and the others are not read. The block outlives the access.
    let nic = unsafe { SelvedgeNic::from_ptr(from_ref(&registers).cast::<()>().cast_mut()) };
    assert_eq!(nic.portals().requests().read().count(), 3);
    assert_eq!(nic.atu().translation_faults().read().count(), 1 << 40);
    assert_eq!(size_of::<Registers>(), BLOCK_BYTES);
}

#[test]
fn the_version_is_that_of_the_layout() {
    // The reset value of the description. A NIC stores it when it is made.
    let reset = selvedge_registers::components::selvedge_nic::version::Version::default();
    assert_eq!((reset.layout(), selvedge_nic::layout::VERSION), (VERSION.into(), VERSION));
}
