// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node of the RMA unit's model (`nic/rma.rs`), and random histories of commands.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use selvedge_nic::Register;
use selvedge_nic::atu::{Access, Rights};
use selvedge_nic::rma::{Descriptor, Notification, Operation, code, modifier, options, spec};
use selvedge_nic::tables::LOCKS;
use selvedge_nic::velo::PortId;

use super::MEMORY_AT;
use super::rma::{FIRST_PAGE, PAGE};

pub const NODES: usize = 3;
pub const VPIDS: u16 = 2;
/// Pages of network logical addresses that are used.
pub const NLA_PAGES: u64 = 6;
/// Pages of memory of each node. The next page can be registered, but is not mapped.
pub const MEMORY_PAGES: u64 = 5;
pub const MEMORY_END: u64 = (FIRST_PAGE + MEMORY_PAGES) * PAGE;
pub const QUEUE: usize = 4;
pub const LOCK_NUMBERS: [u32; 3] = [0, 5, LOCKS as u32];

pub const COUNTS: [Register; 10] = [
    Register::RequesterPuts,
    Register::RequesterGets,
    Register::ResponderGets,
    Register::ResponderLocks,
    Register::CompleterPuts,
    Register::CompleterGets,
    Register::NotificationsDiscarded,
    Register::BytesIn,
    Register::BytesOut,
    Register::Segv,
];

// ---- the model ----

#[derive(Clone, Copy, Debug)]
pub struct PageModel {
    pub rights: Rights,
    pub vpid: u16,
    pub target: u64,
}

pub struct PortModel {
    pub id: PortId,
    pub options: u32,
    pub queue: VecDeque<Notification>,
    pub head: u64,
}

pub struct NodeModel {
    pub number: u16,
    pub memory: Vec<u8>,
    pub pages: [Option<PageModel>; NLA_PAGES as usize],
    pub ports: [Option<PortModel>; VPIDS as usize],
    pub locks: BTreeMap<(u16, u32), i32>,
    pub counts: BTreeMap<usize, u64>,
}

/// Reasons for which the model's target, or its bus, refuses a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refused {
    Translation,
    Memory,
}

impl NodeModel {
    pub fn port(&self, vpid: u16) -> Option<&PortModel> {
        self.ports.get(usize::from(vpid))?.as_ref()
    }

    pub fn count(&mut self, register: Register, count: u64) {
        *self.counts.entry(register as usize).or_default() += count;
    }

    pub fn notify(&mut self, vpid: u16, notification: Notification) {
        let Some(Some(port)) = self.ports.get_mut(usize::from(vpid)) else { return };
        match port.queue.len() < QUEUE {
            true => port.queue.push_back(notification),
            false => self.count(Register::NotificationsDiscarded, 1),
        }
    }

    /// The address of a byte.
    pub fn translate(&self, vpid: u16, nla: u64, access: Access) -> Option<u64> {
        let page = (*self.pages.get(usize::try_from(nla / PAGE).ok()?)?)?;
        let may = page.vpid == vpid && page.rights.grant(access);
        may.then_some(page.target * PAGE + nla % PAGE)
    }

    /// The runs of a range: address and bytes.
    pub fn runs(&self, ask: &Ask) -> Result<Vec<(u64, u64)>, Refused> {
        if ask.physical {
            return Ok(vec![(ask.address, ask.bytes)]);
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut at = ask.address;
        while at < ask.address + ask.bytes {
            let address = self.translate(ask.vpid, at, ask.access).ok_or(Refused::Translation)?;
            let piece = (PAGE - at % PAGE).min(ask.address + ask.bytes - at);
            match runs.last_mut() {
                Some((start, bytes)) if *start + *bytes == address => *bytes += piece,
                _ => runs.push((address, piece)),
            }
            at += piece;
        }
        Ok(runs)
    }

    pub fn place(&self, address: u64, bytes: u64) -> Option<std::ops::Range<usize>> {
        let is_there = address >= MEMORY_AT && address.checked_add(bytes)? <= MEMORY_END;
        is_there.then(|| (address - MEMORY_AT) as usize..(address + bytes - MEMORY_AT) as usize)
    }
}

/// A range of one node's memory.
pub struct Ask {
    pub vpid: u16,
    pub physical: bool,
    pub address: u64,
    pub bytes: u64,
    pub access: Access,
}

/// Table 7-2: the rows that exist, as (requester, completer, responder). Bits of other combinations are ignored.
pub fn written(prototype: bool, descriptor: &Descriptor) -> u8 {
    let asks = |unit: u8| descriptor.spec & unit != 0;
    let bits = |requester: bool, completer: bool, responder: bool| {
        let bit = |is_set: bool, unit: u8| if is_set { unit } else { 0 };
        bit(requester, spec::REQUESTER) | bit(completer, spec::COMPLETER) | bit(responder, spec::RESPONDER)
    };
    let (requester, completer, responder) = (asks(spec::REQUESTER), asks(spec::COMPLETER), asks(spec::RESPONDER));
    use Operation::*;
    match (&descriptor.operation, prototype) {
        (Put { .. }, true) => bits(requester, requester && completer, false),
        (Get { .. }, true) => bits(false, completer, completer && responder),
        (Lock { .. }, true) => bits(false, true, responder),
        (ImmediatePut { .. }, true) => bits(false, completer, false),
        (NotificationPut { .. }, true) => bits(false, true, false),
        (Put { .. } | ImmediatePut { .. } | NotificationPut { .. }, false) => bits(requester, completer, false),
        (Get { .. } | Lock { .. }, false) => bits(requester, completer, responder),
    }
}

// ---- the histories ----

/// A program's command, and events while it is under way.
#[derive(Clone, Debug)]
pub struct Post {
    pub from: usize,
    pub to: usize,
    pub vpid: u16,
    pub options: u32,
    pub prototype: bool,
    pub descriptor: Descriptor,
    pub mapped: bool,
    pub packet: bool,
    pub meanwhile: Meanwhile,
}

#[derive(Clone, Debug)]
pub enum Meanwhile {
    Nothing,
    /// Before the command arrives, the target closes its port.
    Close,
    /// Before the reply arrives, the initiator remaps the page to its own memory, or unmaps it.
    Move(u64, Option<u64>),
}

#[derive(Clone, Debug)]
pub enum Op {
    Open(usize, u16, u32),
    Close(usize, u16),
    Register(usize, u64, Rights, u16, u64),
    Unregister(usize, u64),
    Post(Box<Post>),
    Take(usize, u16, usize),
    Recover(usize),
}

/// An address: mostly one of registered pages, often at a border, and a multiple of 8 or 64.
pub fn address() -> BoxedStrategy<u64> {
    let offset = prop_oneof![3 => Just(0u64), 1 => Just(8), 1 => Just(64), 2 => Just(4032), 1 => Just(4088), 1 => Just(4095), 3 => 0..PAGE];
    let border = (0..NLA_PAGES, offset, 0..4u64).prop_map(|(page, offset, align)| {
        page * PAGE + offset / [1, 8, 8, 64][align as usize] * [1, 8, 8, 64][align as usize]
    });
    let physical = (0..MEMORY_PAGES * PAGE).prop_map(|at| MEMORY_AT + at);
    let anywhere = prop_oneof![any::<u64>(), Just(MEMORY_END - 8), Just(NLA_PAGES * PAGE - 1), Just((1 << 39) - 1)];
    prop_oneof![40 => border, 2 => physical, 1 => anywhere].boxed()
}

pub fn bytes() -> BoxedStrategy<u32> {
    let border = prop::sample::select(vec![1u32, 2, 7, 8, 9, 15, 16, 63, 64, 65, 4095, 4096, 4097, 8192, 12288]);
    prop_oneof![4 => border, 2 => 1..64u32, 1 => 1..10_000u32, 3 => (1..64u32).prop_map(|words| words * 8)].boxed()
}

pub fn operation() -> BoxedStrategy<(u8, Operation)> {
    // Quadword commands, few of them misaligned.
    let words = |read: u64, write: u64, bytes: u32, asked: bool| {
        asked && (read | write | u64::from(bytes)) % 8 == 0 || read ^ write == 1
    };
    let put = (address(), address(), bytes(), any::<bool>()).prop_map(move |(read, write, bytes, asked)| {
        (
            if words(read, write, bytes, asked) { code::QW_PUT } else { code::BT_PUT },
            Operation::Put { read, write, bytes },
        )
    });
    let get = (address(), address(), bytes(), any::<bool>()).prop_map(move |(read, write, bytes, asked)| {
        (
            if words(read, write, bytes, asked) { code::QW_GET } else { code::BT_GET },
            Operation::Get { read, write, bytes },
        )
    });
    let immediate = (address(), any::<u64>(), 1..=8u32)
        .prop_map(|(write, value, bytes)| (code::IMMEDIATE_PUT, Operation::ImmediatePut { write, value, bytes }));
    let notification = (any::<u64>(), any::<u8>())
        .prop_map(|(value, class)| (code::NOTIFICATION_PUT, Operation::NotificationPut { value, class }));
    let value = || prop_oneof![-3..4i32, Just(i32::MAX), Just(i32::MIN)];
    let lock = (prop::sample::select(LOCK_NUMBERS.to_vec()), value(), value())
        .prop_map(|(number, compare, add)| (code::LOCK, Operation::Lock { number, compare, add }));
    prop_oneof![4 => put, 4 => get, 2 => immediate, 2 => notification, 2 => lock].boxed()
}

pub fn post() -> BoxedStrategy<Op> {
    let modifiers = prop_oneof![20 => Just(0u8), 2 => Just(modifier::NTR), 1 => 0..16u8];
    let vpid = || prop_oneof![8 => Just(0u16), 4 => Just(1), 1 => Just(VPIDS)];
    let target = (0..NODES as u16, vpid().prop_map(|vpid| vpid as u8));
    let connection = prop_oneof![10 => Just(options::TE), 1 => Just(0u32), 1 => 0..32u32];
    let meanwhile = prop_oneof![
        8 => Just(Meanwhile::Nothing),
        1 => Just(Meanwhile::Close),
        1 => (0..NLA_PAGES, prop::option::of(0..=MEMORY_PAGES)).prop_map(|(page, place)| Meanwhile::Move(page, place)),
    ];
    let source = (0..NODES, vpid(), connection, any::<bool>());
    (source, target, operation(), 0..8u8, modifiers, any::<(bool, bool)>(), meanwhile)
        .prop_map(
            |((from, vpid, options, prototype), (node, to), (code, operation), spec, modifiers, flags, meanwhile)| {
                let descriptor = Descriptor { code, node, vpid: to, spec, modifiers, operation };
                let (mapped, packet) = flags;
                let to = usize::from(node);
                let post = Post { from, to, vpid, options, prototype, descriptor, mapped, packet, meanwhile };
                Op::Post(Box::new(post))
            },
        )
        .boxed()
}

pub fn op() -> BoxedStrategy<Op> {
    let rights = prop_oneof![8 => Just(Rights::ReadWrite), 1 => Just(Rights::ReadOnly), 1 => Just(Rights::WriteOnly)];
    let vpid = prop_oneof![3 => Just(0u16), 1 => Just(1)];
    let port_options = prop_oneof![3 => Just(0u32), 2 => Just(options::PHYSICAL), 1 => 0..64u32];
    prop_oneof![
        3 => (0..NODES, 0..VPIDS, port_options).prop_map(|(node, vpid, options)| Op::Open(node, vpid, options)),
        1 => (0..NODES, 0..VPIDS).prop_map(|(node, vpid)| Op::Close(node, vpid)),
        4 => (0..NODES, 0..NLA_PAGES, rights, vpid, prop_oneof![6 => 0..MEMORY_PAGES, 1 => Just(MEMORY_PAGES)])
            .prop_map(|(node, page, rights, vpid, target)| Op::Register(node, page, rights, vpid, target)),
        1 => (0..NODES, 0..NLA_PAGES).prop_map(|(node, page)| Op::Unregister(node, page)),
        20 => post(),
        4 => (0..NODES, 0..VPIDS, 1..4usize).prop_map(|(node, vpid, count)| Op::Take(node, vpid, count)),
        1 => (0..NODES).prop_map(Op::Recover),
    ]
    .boxed()
}
