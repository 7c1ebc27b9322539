// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trait [`Backend`]: the way in which a home carries the operations of a NIC of this process, and in which its
//! threads wait.
//!
//! | home | defined in | targets |
//! |---|---|---|
//! | [`crate::SharedMemory`] | here | processes of this host run each other's NICs |
//! | `RemoteHosts` | `selvedge_net` | this host as above; NICs of other hosts by packets over links |
//! | [`crate::simulated::Simulated`] | here | a simulator carries all operations in virtual time |
//!
//! An [`Interface`] has one backend, which is given when it is opened. To add a home, implement [`Backend`] and let the
//! process choose it (`selvedge_process`). Provided methods do what shared memory does, where processes
//! of a host run each other's NICs. So a home implements only what differs there.
//!
//! Invariants
//! 1. The caller of a method holds no NIC's lock. So a method may take a lock, and may block.
//! 2. [`Backend::configure`], [`Backend::size`], [`Backend::offers`] and [`Backend::announce`] are called once each, in
//!    this order, before all others. Several threads may call the others at once.
//! 3. In shared memory a hot path calls no method. It loads a field of [`Offers`] and branches. The same holds for
//!    operations within a host in a job of several hosts.

use std::time::Instant;

use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::packet::Packet;
use selvedge_nic::ring::Unseen;
use selvedge_nic::tables::Command;

use crate::config::Config;
use crate::errors::{OpenError, PostError, StartError, WaitEnd};
use crate::interface::Interface;

/// The home of one NIC of this process. It lives as long as the NIC's [`Interface`], so it may hold state of this NIC.
pub trait Backend: Send + Sync {
    // ---- a NIC is opened and closed ----

    /// Returns the settings with which the NIC runs: the user's, and the home's own where the user has no choice.
    fn configure(&self, config: Config) -> Config {
        config
    }

    /// Returns the limits with which the NIC is made: the user's, and the home's own where the user has no choice.
    fn size(&self, limits: &Limits) -> Limits {
        *limits
    }

    /// Returns the shortcuts of hot paths around the backend, valid until the NIC is closed. `config` is the result of
    /// `configure`.
    fn offers(&self, config: &Config) -> Offers;

    /// Makes the NIC known to its peers, or to the process that carries their operations. The NIC is complete, and may
    /// get messages before the call returns. After an error the NIC is not opened.
    /// In shared memory peers find the NIC by its file, and learn which of the program's memory they can map.
    fn announce(&self, interface: &Interface) -> Result<(), OpenError> {
        interface.publish_shared();
        Ok(())
    }

    /// Undoes `announce`. The NIC is closed already, and gets no message after the call.
    fn withdraw(&self, _interface: &Interface) {}

    // ---- operations ----

    /// Starts an operation of this process. The payload is read before the call returns. The NIC gets the command's
    /// events then or later: SEND, and ACK or REPLY if the command asks for it. The target handles the operations of
    /// this process in the order of the calls. `full` says what to do when there is no room. After an error nothing has
    /// changed. `fired` is the slot of this triggered operation, or NONE. With [`Offers::executes_here`] only
    /// operations to other hosts are started here.
    fn start(&self, interface: &Interface, command: &Command, fired: u32, full: WhenFull) -> Result<(), StartError>;

    /// As `start`, for an operation whose reply the caller waits for next. The call may return when the reply is there.
    fn start_awaited(&self, interface: &Interface, command: &Command) -> Result<(), StartError> {
        self.start(interface, command, NONE, WhenFull::Wait)
    }

    /// Executes the triggered operations that a change of the own NIC has fired. They may complete after the call.
    fn settle(&self, interface: &Interface) {
        interface.settle_here();
    }

    // ---- NICs of other hosts: homes with [`Offers::reaches_hosts`] ----

    /// Whether the process behind an id of another host may still answer.
    fn answers(&self, _id: u64) -> bool {
        false
    }

    /// Returns the end of the process behind an id of another host. None: it lives as far as this process knows. Does
    /// not ask the launcher.
    fn loss(&self, _id: u64) -> Option<Loss> {
        None
    }

    /// Watches the process behind an id of another host, so that the loss of its host is noticed.
    fn watch(&self, _id: u64) {}

    /// Sends a packet to the NIC behind an id of another host: a response, or a packet that was set aside, but no new
    /// request. Packets to one process keep their order. A response may wait for the next packet to that process, or
    /// for the next poll. The payload may be taken, but not after an error. `Gone`: that process will not answer
    /// any more.
    fn post(
        &self,
        _interface: &Interface,
        _target: u64,
        _packet: &Packet,
        _payload: &mut Vec<u8>,
    ) -> Result<(), PostError> {
        Err(PostError::Gone)
    }

    /// Takes packets of other hosts. Cheap when none has arrived.
    fn receive(&self) {}

    /// Notes that the program goes to sleep until something arrives.
    fn prepare_sleep(&self) {}

    /// Sends the packets that were taken, because the NIC is about to close. Waits for that, but not for long.
    fn drain(&self) {}

    /// Stops fetching payloads to this NIC's memory. When it returns, nothing is written there any more.
    fn stop_fetching(&self, _interface: &Interface) {}

    // ---- rings ----

    /// Whether this process may enqueue messages in the rings of the NIC behind an id. Other messages must be able to
    /// bypass the rings, or wait until they are empty.
    /// In shared memory a message that bypasses a ring must reach all of the peer's memory.
    fn reaches_rings(&self, interface: &Interface, id: u64) -> bool {
        interface.reaches_all_of(id)
    }

    /// Makes an unseen message in the ring `ring` of the NIC `target` visible: now, or when the time that it takes is
    /// over. Messages of one ring become visible in the order of the calls.
    /// Not called with [`Offers::publishes_here`].
    fn publish(&self, _interface: &Interface, _target: u64, _ring: usize, _message: Unseen, _bytes: usize) {}

    // ---- polls and waits ----

    /// Charges the program for a call on its own NIC, if calls have a price in this home.
    fn charge_call(&self) {}

    /// Charges the program for `count` accesses to memory, if accesses have a price in this home. A call on its own
    /// NIC's tables makes them, where the program itself matches.
    fn charge_accesses(&self, _count: u64) {}

    /// Charges the program for a copy of `bytes` bytes in memory, if copies have a price in this home.
    fn charge_copy(&self, _bytes: u64) {}

    /// Makes progress for a program that polls and never waits. Such a program must get all its messages.
    fn poll(&self, interface: &Interface) {
        interface.poll_here();
    }

    /// Notes that a poll of the program found nothing. The program may be waiting for a message.
    fn found_nothing(&self) {}

    /// Notes that a poll of the program found something. The program is not waiting.
    fn found_something(&self) {}

    /// Finds peers that have died, and fails the requests to them, unless another process does this. The call must be
    /// cheap when the last one was a short time ago, because programs that poll call it often.
    fn tick(&self, interface: &Interface) {
        interface.tick_here();
    }

    /// Calls `look` until it returns true, and returns `Ok` then. It calls `look` soon after everything that may change
    /// the answer: a message to the NIC, another thread's change of the NIC, [`Backend::wake_threads`]. `look` also
    /// returns true when the object of the wait was freed. The wait ends with an error at the deadline, and soon after
    /// waits were aborted ([`crate::wait_list::abort_waits`]) or the NIC was closed (`Interface::closing`). A wait that
    /// times out has called `look` at least once.
    fn wait(
        &self,
        interface: &Interface,
        deadline: Option<Instant>,
        look: &mut dyn FnMut() -> bool,
    ) -> Result<(), WaitEnd> {
        interface.wait_here(deadline, look)
    }

    /// Makes all threads of this process that wait at this NIC call `look` again.
    fn wake_threads(&self, interface: &Interface) {
        interface.own.segment.wake_all();
    }
}

/// The end of a process of another host, as this process has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The process has announced its end. Otherwise it is lost.
    pub is_orderly: bool,
    pub why: String,
}

/// The action for a full ring, or too many pending requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Wait, and handle the packets of this process meanwhile.
    Wait,
    /// Keep the packet in the outbox, and send it later.
    SetAside,
    /// Return an error to the caller.
    Refuse,
}

/// Shortcuts of hot paths around the backend, which computes them once from the settings. False is always safe, except
/// for the last two: the code then calls the backend, or takes a longer way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offers {
    /// This process executes its commands itself: for targets on this host [`Backend::start`] would only call
    /// [`Interface::start_here`].
    pub executes_here: bool,
    /// Polls of the NIC's own memory find every message: [`Backend::poll`] would only call [`Interface::poll_here`], a
    /// wait may begin with such polls, and the backend need not know the result of a poll.
    pub polls_here: bool,
    /// This process may take a peer's lock and run the peer's NIC. Requires `executes_here`.
    pub runs_peers: bool,
    /// This process may map a peer's memory and store there. Requires `runs_peers`.
    pub maps_peers: bool,
    /// Another process may read and write this process's memory by cross-memory attach. So opening a NIC permits it.
    pub admits_attach: bool,
    /// A message in a ring may be visible at once: [`Backend::publish`] need not be called.
    pub publishes_here: bool,
    /// Calls and copies have a price: [`Backend::charge_call`] and [`Backend::charge_copy`] must be called.
    pub charges_calls: bool,
    /// Time is virtual. Only front doors ask this ([`Interface::is_simulated`]).
    pub is_simulated: bool,
    /// NICs of other hosts are reached, and their packets come in by [`Backend::receive`]. Requires `executes_here`.
    pub reaches_hosts: bool,
    /// A full mailbox of another process refuses messages; otherwise it loses them.
    pub mailboxes_refuse: bool,
}

#[cfg(test)]
mod tests;
