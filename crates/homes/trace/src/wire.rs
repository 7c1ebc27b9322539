// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values of `nic` as bytes. The fields of a structure follow each other in the order of the table below; an
//! enumeration begins with the number of its kind. New kinds get new numbers, so that readers detect them.

use selvedge_nic::Limits;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::{Delivery, EntrySpec, Posted, Put, Receive};
use selvedge_nic::tables::{Command, Request, Side};
use selvedge_nic::tap::{ArmedAction, Transition};

/// Reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Bytes still to be read.
pub struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    pub fn new(bytes: &'b [u8]) -> Bytes<'b> {
        Bytes(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next bytes.
    pub fn next(&mut self, count: usize) -> Result<&'b [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Malformed("a record is shorter than its kind"))?;
        self.0 = rest;
        Ok(bytes)
    }
}

/// A value as bytes.
pub trait Wire: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Wire for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
                let bytes = from.next(size_of::<$number>())?;
                Ok(<$number>::from_le_bytes(bytes.try_into().expect("the size of the number")))
            }
        }
    )*};
}

numbers!(u8, u32, u64);

impl Wire for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }
    fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a boolean is neither 0 nor 1")),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }
    fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
        bool::take(from)?.then(|| T::take(from)).transpose()
    }
}

impl<T: Wire, U: Wire> Wire for (T, U) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }
    fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
        Ok((T::take(from)?, U::take(from)?))
    }
}

impl Wire for [u64; 4] {
    fn put(&self, to: &mut Vec<u8>) {
        self.iter().for_each(|word| word.put(to));
    }
    fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
        Ok([u64::take(from)?, u64::take(from)?, u64::take(from)?, u64::take(from)?])
    }
}

macro_rules! structures {
    ($($name:ident { $($field:ident),* $(,)? })*) => {$(
        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($field.put(to);)*
            }
            fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
                $(let $field = Wire::take(from)?;)*
                Ok($name { $($field),* })
            }
        }
    )*};
}

structures! {
    EntrySpec {
        options, start, length, iov, iov_count, match_bits, ignore_bits, source, source_ignore, min_free, user_ptr, counter, uid,
    }
    Request {
        kind, operation, datatype, ack, portal, uid, lookups, initiator, match_bits, remote_offset, header_data, length, operand,
    }
    Side { start, iov, iov_count, options, queue, counter, reserved }
    Command { request, target, user_ptr, source, sink }
    Delivery { fail, mlength, remote_offset, ack_disabled, list }
    Put { portal, uid, initiator, match_bits, remote_offset, header_data, length }
    Receive { start, length, user_ptr, uses_up }
    DescriptorView { start, length, options, queue, counter, iov, iov_count }
    Limits {
        entries, headers, descriptors, counters, queues, portals, triggered, iovecs, list, short_list, pending, heap_blocks,
        heap_blocks_max, vpids, velo_bytes, mailbox_slots, notifications, address_tables, tlb_entries, tlb_ways, lock_waiters,
        memberships, member_operations,
    }
}

macro_rules! kinds {
    ($name:ident, $unknown:literal { $($number:literal $kind:ident { $($field:ident),* $(,)? })* }) => {
        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $($name::$kind { $($field),* } => {
                        to.push($number);
                        $($field.put(to);)*
                    })*
                }
            }
            fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
                match u8::take(from)? {
                    $($number => {
                        $(let $field = Wire::take(from)?;)*
                        Ok($name::$kind { $($field),* })
                    })*
                    _ => Err(Malformed($unknown)),
                }
            }
        }
    };
}

kinds! { ArmedAction, "an unknown kind of triggered operation" {
    1 Command { command }
    2 CounterSet { counter, success, failure }
    3 CounterIncrement { counter, success, failure }
    4 CounterSuccess { counter, success }
    5 Append { entry, list }
    6 Receive { entry, queue }
    7 Unlink { entry }
} }

// 0 is `Record::Open`.
kinds! { Transition, "an unknown kind of record" {
    1 PortalAlloc { wanted, options, queue, portal }
    2 PortalFree { portal, is_done }
    3 PortalSet { portal, is_enabled, is_done }
    4 Append { portal, list, spec, entry }
    5 Reserve { portal, spec, entry }
    6 Unlink { entry, is_done }
    7 Search { portal, spec, deletes, is_done }
    8 Deliver { request, delivery }
    9 PostReceive { portal, spec, posted }
    10 TakeReceive { put, receive }
    11 ClaimUnexpected { header, portal, source, match_bits }
    12 DropUnexpected { header, portal, source, match_bits }
    13 Bind { view, descriptor }
    14 Release { descriptor, is_done }
    15 CounterAlloc { counter }
    16 CounterFree { counter, is_done }
    17 CountSet { counter, success, failure }
    18 Count { counter, success, failure, is_caused }
    19 Arm { counter, threshold, action, armed }
    20 CancelTriggered { counter, is_done }
    21 CancelArmed { armed, is_done }
    22 Fire { fired }
    23 Finish { index }
    24 QueueAlloc { capacity, queue }
    25 QueueFree { queue, is_done }
    26 Issue { command }
    27 Send { command, fail }
    28 Response { command, delivery }
    29 QueueTaken { queue, taken, posted }
} }

impl Wire for Posted {
    fn put(&self, to: &mut Vec<u8>) {
        let (kind, index) = match *self {
            Posted::Linked(entry) => (1, entry),
            Posted::Matched(header) => (2, header),
        };
        to.push(kind);
        index.put(to);
    }
    fn take(from: &mut Bytes<'_>) -> Result<Self, Malformed> {
        match (u8::take(from)?, u32::take(from)?) {
            (1, entry) => Ok(Posted::Linked(entry)),
            (2, header) => Ok(Posted::Matched(header)),
            _ => Err(Malformed("an unknown result of a posted receive")),
        }
    }
}
