// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests, replies, polls, waits, barriers, and the end of a node.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::arrivals::{Arrival, Incoming};
use super::barrier::{Barrier, BarrierError};
use super::engine::ActiveMessages;
use super::error::SendError;
use super::message::{Delivery, Message, Token};
use super::wire::{self, CONTROL, Control, Kind, Mark};
use selvedge_process::device::connection::{PortConnection, VeloSend};
use selvedge_process::process::Process;

/// Limit of the messages in one poll, so that it returns.
const POLL_MAX: usize = 64;
/// Longest sleep of a wait: another thread may satisfy the condition without a message.
const NAP: Duration = Duration::from_millis(1);
/// Limit of the time that an ending node waits for the others to end.
const LEAVE_WAIT: Duration = Duration::from_secs(2);

impl ActiveMessages {
    /// Sends a request. Waits for a credit, and runs handlers meanwhile.
    pub fn request(&self, node: u32, message: &Message<'_>) -> Result<(), SendError> {
        let to = u16::try_from(node).ok().filter(|to| *to < self.nodes);
        let to = to.ok_or(SendError::NoNode { node, nodes: self.nodes })?;
        self.check(to, message)?;
        let slot = self.take_credit(to)?;
        let sent =
            self.prepare(Kind::Request, to, slot, message).and_then(|made| self.send(Kind::Request, to, made.bytes()));
        if sent.is_err() {
            self.give_credit(to, slot);
        }
        sent
    }

    /// Replies to a token's request. The payload has left on return; the message follows when the handler returns.
    pub fn reply(&self, token: &Token, message: &Message<'_>) -> Result<(), SendError> {
        if token.kind == Kind::Reply {
            return Err(SendError::IsReply);
        }
        if let Some(reply) = token.reply.take() {
            token.reply.set(Some(reply));
            return Err(SendError::Replied);
        }
        self.check(token.source, message)?;
        token.reply.set(Some(self.prepare(Kind::Reply, token.source, token.slot, message)?));
        Ok(())
    }

    /// Runs the handlers of arrived messages. Returns false if neither a message nor a control message has arrived.
    pub fn poll(&self) -> bool {
        let mut count = 0;
        while count < POLL_MAX && self.run_next() {
            count += 1;
        }
        if count == 0 {
            self.interface().poll();
            count += usize::from(self.run_next());
        }
        match count {
            0 => self.interface().found_nothing(),
            _ => self.interface().found_something(),
        }
        count != 0
    }

    /// As [`ActiveMessages::poll`], but waits briefly if there is no message.
    pub fn poll_or_wait(&self) {
        if self.poll() {
            return;
        }
        let look = || {
            let mut reader = self.reader();
            reader.next(self)
        };
        if let Ok(found) = self.interface().wait(Some(Instant::now() + NAP), look) {
            self.take(found);
        }
    }

    fn run_next(&self) -> bool {
        // Drops the guard, so that handlers run without a lock.
        let next = self.reader().next(self);
        next.map(|found| self.take(found)).is_some()
    }

    fn take(&self, found: Incoming) {
        match found {
            Incoming::Message(arrival) => self.run(arrival),
            Incoming::Control => {}
        }
    }

    /// Runs a handler, then sends the reply or the credit to the source.
    fn run(&self, mut arrival: Arrival) {
        self.turn.fetch_add(1, Relaxed);
        let (payload, bytes) = arrival.payload();
        let Arrival { kind, source, ref decoded, .. } = arrival;
        let token = Token { source, kind, slot: decoded.header.slot, reply: None.into() };
        let (category, handler) = (decoded.header.category, decoded.header.handler);
        let arguments = decoded.arguments();
        (self.runner)(&Delivery { token: &token, category, handler, arguments, payload, bytes });
        let answered = match (kind, token.reply.take()) {
            (Kind::Reply, _) => {
                self.give_credit(source, token.slot);
                Ok(())
            }
            (Kind::Request, Some(reply)) => self.send(Kind::Reply, source, reply.bytes()),
            (Kind::Request, None) => self.send_control(source, Control::Credit { slot: token.slot }),
        };
        if let Err(error) = answered {
            log::error!("gasnet: cannot reply to node {source}: {error}");
        }
    }

    fn take_credit(&self, node: u16) -> Result<u16, SendError> {
        let peer = self.peer(node).ok_or(SendError::NotAttached)?;
        loop {
            // Drops the guard, because a handler of a reply returns a credit.
            let credit = peer.credits().pop_front();
            if let Some(slot) = credit {
                return Ok(slot);
            }
            self.poll_or_wait();
        }
    }

    pub(super) fn give_credit(&self, node: u16, slot: u16) {
        if let Some(peer) = self.peer(node) {
            let mut credits = peer.credits();
            // A faulty process may send any number, or a credit twice.
            if slot < self.credits && !credits.contains(&slot) {
                credits.push_back(slot);
            }
        }
    }

    /// Sends an active message, whole or in two parts.
    fn send(&self, kind: Kind, node: u16, bytes: &[u8]) -> Result<(), SendError> {
        let (first, second) = wire::parts(bytes, self.velo_bytes);
        let mtt = kind.index() as u8;
        let mut connections = self.peer(node).ok_or(SendError::NotAttached)?.connections();
        self.send_part(&mut connections[kind.index()], first, 0, mtt)?;
        second.map_or(Ok(()), |second| self.send_part(&mut connections[kind.index()], second, 1, mtt))
    }

    fn send_control(&self, node: u16, control: Control) -> Result<(), SendError> {
        let mut connections = self.peer(node).ok_or(SendError::NotAttached)?.connections();
        self.send_part(&mut connections[Kind::Reply.index()], &control.encode(), 0, CONTROL)
    }

    fn send_part(&self, connection: &mut PortConnection, bytes: &[u8], tag: u8, mtt: u8) -> Result<(), SendError> {
        let message = VeloSend { mtt, tag, start: bytes.as_ptr(), bytes: bytes.len() as u32 };
        // SAFETY: the message is a slice.
        Ok(self.device.until_room(|| unsafe { connection.send(&self.device, &message, self.turn.load(Relaxed)) })?)
    }

    /// Starts a barrier at this node.
    pub fn barrier_start(&self, mark: Mark) -> Result<(), BarrierError> {
        let mut barrier = self.barrier();
        barrier.start(mark)?;
        self.advance(&mut barrier);
        Ok(())
    }

    /// Ends a barrier if all nodes have reached it; else returns `NotReady`.
    pub fn barrier_finish(&self, mark: Mark) -> Result<(), BarrierError> {
        self.barrier().finish(self.nodes, mark)
    }

    pub(super) fn advance(&self, barrier: &mut Barrier) {
        let nodes = u32::from(self.nodes);
        barrier.advance(self.nodes, |behind, control| {
            let to = ((u32::from(self.node()) + u32::from(behind)) % nodes) as u16;
            if let Err(error) = self.send_control(to, control) {
                log::error!("gasnet: cannot send the barrier message to node {to}: {error}");
            }
        });
    }

    /// Ends this node. Returns when all nodes have ended, or after a time limit ends the job with this status.
    pub fn leave(&self, status: i32) {
        for node in (0..self.nodes).filter(|node| *node != self.node()) {
            let _ = self.send_control(node, Control::Leaving);
        }
        let others = u32::from(self.nodes) - 1;
        let give_up = Instant::now() + LEAVE_WAIT;
        // Messages that arrive now are dropped: no handler runs any more.
        let look = || {
            let mut reader = self.reader();
            while reader.next(self).is_some() {}
            (self.leaving.load(Relaxed) >= others).then_some(())
        };
        let all_leave = self.interface().wait(Some(give_up), look).is_ok();
        if let Ok(process) = Process::current() {
            if !all_leave {
                process.end_all(status);
            }
            if let Err(error) = process.barrier() {
                log::warn!("gasnet: {error}");
            }
            process.finalize_at_exit();
        }
    }
}
