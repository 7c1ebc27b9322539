// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages between the members of a collective group that is being joined: a few words each, between the domains' own
//! endpoints ([`OWN_ENDPOINT`]), which programs do not use.
//!
//! Invariants
//! 1. A message is matched only by its tag, a digest of the group, the round, and the two members. Messages with equal
//!    tags keep their order, so the nth group of the same members is the nth at each of them.
//! 2. Nothing here waits. A later call sends messages that found no room.
//! 3. A receive that its owner has dropped stays until its message comes, so that the message fills no later one.

use std::cell::UnsafeCell;
use std::collections::{HashSet, VecDeque};
use std::ffi::c_void;

use libc::iovec;
use selvedge_collectives::one_host::Formation;
use selvedge_host::direct::ring_flags;
use selvedge_messages::Transport;
use selvedge_messages::bindings::Bindings;
use selvedge_messages::completion::{Completion, CompletionQueue, Reading};
use selvedge_messages::error::Refusal;
use selvedge_messages::message::{Message, SendEnd};
use selvedge_messages::posted::ReceiveRequest;
use selvedge_messages::ticket::{Kind, OWN_ENDPOINT, Ticket};
use slab::Slab;

use crate::constants::{RECV, SEND, TAGGED};

/// Largest number of words of a message: those of a group that forms, and one of ours.
pub const WORDS_MAX: usize = Formation::WORDS_MAX + 1;

const READ: usize = 16;

/// A domain's own endpoint. It does not move, because the transport has a pointer to the bindings.
pub struct GroupEndpoint {
    bindings: UnsafeCell<Bindings>,
    sends: UnsafeCell<CompletionQueue>,
    receives: UnsafeCell<CompletionQueue>,
    inbox: Slab<Box<Inbound>>,
    outbox: VecDeque<Outbound>,
    /// The peers to which a message could not be sent.
    lost: HashSet<u32>,
}

struct Inbound {
    words: UnsafeCell<[u64; WORDS_MAX]>,
    /// Number of words that have come.
    came: Option<usize>,
    is_wanted: bool,
}

struct Outbound {
    peer: u32,
    tag: u64,
    words: Vec<u64>,
}

impl GroupEndpoint {
    /// Opens the endpoint. `None`: the NIC has no room.
    pub fn open(transport: &mut Transport) -> Option<Box<GroupEndpoint>> {
        let endpoint = Box::new(GroupEndpoint {
            bindings: UnsafeCell::new(Bindings {
                index: OWN_ENDPOINT,
                ring_flags: ring_flags(OWN_ENDPOINT),
                ..Bindings::new(false)
            }),
            sends: UnsafeCell::new(CompletionQueue::new(READ)),
            receives: UnsafeCell::new(CompletionQueue::new(READ)),
            inbox: Slab::new(),
            outbox: VecDeque::new(),
            lost: HashSet::new(),
        });
        // SAFETY: no other code has the bindings yet.
        let bindings = unsafe { &mut *endpoint.bindings.get() };
        (bindings.tx_queue, bindings.rx_queue) = (endpoint.sends.get(), endpoint.receives.get());
        transport.open_own_endpoint(endpoint.bindings.get()).then_some(endpoint)
    }

    /// Closes the endpoint. Afterwards nothing reaches its memory.
    pub fn close(self: Box<GroupEndpoint>, transport: &mut Transport) {
        transport.close_endpoint(OWN_ENDPOINT);
    }

    /// Whether messages wait for room.
    pub fn has_to_send(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Posts a receive for the next message with a tag. Returns the number of the receive. `None`: there is no room.
    pub fn receive(&mut self, transport: &mut Transport, tag: u64) -> Option<usize> {
        let number = self.inbox.insert(Box::new(Inbound { words: UnsafeCell::default(), came: None, is_wanted: true }));
        let words = self.inbox[number].words.get();
        let piece = [iovec { iov_base: words.cast(), iov_len: size_of::<[u64; WORDS_MAX]>() }];
        let ticket = self.ticket(number as u64, RECV | TAGGED, true);
        let wanted =
            ReceiveRequest { kind: Kind::Tagged, source: None, tag, ignore: 0, pieces: &piece, ticket, multi: None };
        if transport.receive(&wanted).is_err() {
            self.inbox.remove(number);
            return None;
        }
        Some(number)
    }

    /// Takes the words of a message that has come, which ends the receive.
    pub fn take(&mut self, number: usize) -> Option<Vec<u64>> {
        let inbound = self.inbox.get(number)?;
        let came = inbound.came?;
        // SAFETY: the message has come, so nothing writes there any more.
        let words = unsafe { (&*inbound.words.get())[..came].to_vec() };
        self.inbox.remove(number);
        Some(words)
    }

    /// Drops the message of a receive when it comes.
    pub fn forget_receive(&mut self, number: usize) {
        let Some(inbound) = self.inbox.get_mut(number) else { return };
        inbound.is_wanted = false;
        if inbound.came.is_some() {
            self.inbox.remove(number);
        }
    }

    /// Sends at most [`WORDS_MAX`] words to a peer.
    pub fn send(&mut self, transport: &mut Transport, peer: u32, tag: u64, words: Vec<u64>) {
        self.outbox.push_back(Outbound { peer, tag, words });
        self.send_waiting(transport);
    }

    /// Whether the process of a peer has ended, or does not take messages.
    pub fn has_lost(&self, transport: &Transport, peer: u32) -> bool {
        self.lost.contains(&peer) || transport.is_lost(peer)
    }

    /// Sends waiting messages, and takes those that have come.
    pub fn carry_on(&mut self, transport: &mut Transport) {
        self.send_waiting(transport);
        // SAFETY: the transport reaches the queues only inside of its functions, and none of them runs here.
        let (sends, receives) = unsafe { (&mut *self.sends.get(), &mut *self.receives.get()) };
        let mut entries = [Completion::default(); READ];
        loop {
            // SAFETY: the array has room for as many completions.
            let mut reading = unsafe {
                Reading::new(
                    self.receives.get(),
                    entries.as_mut_ptr().cast(),
                    size_of::<Completion>(),
                    READ,
                    std::ptr::null_mut(),
                )
            };
            // A receive fails if its message is too long or cannot be fetched. Its owner waits until the sender is
            // lost.
            let _ = receives.read_into(&mut reading);
            let read = READ - reading.left();
            for entry in &entries[..read] {
                let number = entry.context as usize;
                let Some(inbound) = self.inbox.get_mut(number) else { continue };
                inbound.came = Some((entry.length / size_of::<u64>()).min(WORDS_MAX));
                if !inbound.is_wanted {
                    self.inbox.remove(number);
                }
            }
            if receives.take_failure().is_none() && read == 0 {
                break;
            }
        }
        while let Some(failure) = sends.take_failure() {
            self.lost.insert(failure.completion.context as u32);
        }
    }

    fn send_waiting(&mut self, transport: &mut Transport) {
        while let Some(first) = self.outbox.front() {
            let (peer, tag) = (first.peer, first.tag);
            let piece = [iovec { iov_base: first.words.as_ptr().cast_mut().cast(), iov_len: 8 * first.words.len() }];
            let message = Message {
                kind: Kind::Tagged,
                peer,
                endpoint: OWN_ENDPOINT,
                tag,
                data: None,
                pieces: &piece,
                ticket: self.ticket(peer.into(), SEND | TAGGED, false),
                inject: true,
                end: SendEnd::Sent,
            };
            match transport.send(&message) {
                Ok(()) => {}
                Err(Refusal::NoRoom) => return,
                Err(_) => drop(self.lost.insert(peer)),
            }
            self.outbox.pop_front();
        }
    }

    fn ticket(&self, context: u64, flags: u64, wanted: bool) -> Ticket {
        Ticket { bindings: self.bindings.get(), context: context as *mut c_void, flags, wanted }
    }
}
