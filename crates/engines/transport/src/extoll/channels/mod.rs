// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of any length between ports, through channels: the virtual connections of PALMS (seed 002, section 2.2.2) over VELO and RMA.
//!
//! A *host port* has a VPID, with its mailbox, its notification queue, and registered memory. A *channel* leads from one host port to
//! another. The target has a fixed number of them, which senders claim without its help: by fetch, compare and add on its locks, as a
//! daemon would hand out routes.
//!
//! A message is cut into *pieces*. Each takes a credit of the channel, which is the number of a slot. Short messages travel in VELO
//! messages. Of longer ones each piece is a put into its slot of the target's receive area, beside a VELO message that announces it, as
//! ATOLL's hardware writes payload and then a descriptor.
//!
//! Invariants
//! 1. A channel has at most `credits` pieces under way or unread. Its target has room for as many in its mailbox, its notification queue
//!    and its receive area. So nothing is discarded where a full mailbox discards.
//! 2. A sender without credits waits. A target that waits for something else returns credits nevertheless: it moves what its program
//!    has not asked for to memory of the library, up to a limit, and beyond it keeps the sender waiting.
//! 3. Messages of one channel are received in order, because its pieces are attached in the order of their VELO messages. A piece
//!    that is a put is attached when its notification has come, too.
//! 4. A channel that is claimed again has another generation. What belongs to an earlier one is dropped.
//! 5. Nothing waits for another process while it holds something that this process needs: credits return without credits.
//! 6. One thread at a time uses a host port.
//!
//! * [`wire`]: frames. [`area`]: registered memory. [`connect`]: claims, routes. [`send`], [`receive`]: messages. [`build`]: messages
//!   that a program fills in place.

mod area;
pub mod build;
pub mod connect;
pub mod receive;
pub mod send;
mod shape;
pub mod sink;
pub mod wire;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use selvedge_host::Interface;
use selvedge_nic::rma::{Notification, code, error, spec};
use selvedge_nic::velo::{Endpoint, PortId};

use super::connection::{Letter, Outlet, PostError};
use super::messages::{Message, MessageReader};
use super::{Device, DeviceError};
use crate::process::{Process, ProcessError};
use area::{Area, SEND_SLOTS, Slots};
use connect::{Answer, Outbound};
use receive::{Asked, Inbound};
use shape::Shape;
use sink::Sink;
use wire::{Control, Frame, Route};

/// Host ports of a node, as on the chip.
pub const HOST_PORTS: u8 = 4;
/// How long a port that closes waits for its last messages to leave.
const LEAVE_WAIT: Duration = Duration::from_secs(10);

/// Why a host port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(
        "the mailboxes of this process are too small for {0} nodes: open the ATOLL port before ports of velo2 and rma2"
    )]
    NoRoom(u16),
    #[error(
        "there is no memory for {0} bytes of message buffers: SELVEDGE_HEAP_BYTES limits it, and the size of /dev/shm"
    )]
    NoMemory(u64),
    #[error("there is no host port {0}: a node has {HOST_PORTS}")]
    NoSuch(u32),
    #[error("all host ports are open, or the VPIDs of the free ones are used by others")]
    AllUsed,
}

/// Why a message is not sent, or not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("the handle is of no connection")]
    NoHandle,
    #[error("there is no such node")]
    NoNode,
    #[error("the peer's host port is not open")]
    NotAvailable,
    #[error("all channels are in use")]
    NoChannel,
    #[error("the route was invalidated: the peer has closed its port, or has ended")]
    Invalid,
    #[error("the message is too long")]
    Size,
    #[error("the send area has no room now")]
    NoRoom,
    #[error("all slots of the peer's channel hold messages that were matched and not freed")]
    Held,
    #[error("there is no message")]
    NoMessage,
    #[error("messages that were sent have not left, and are lost")]
    Lost,
    #[error("the wait was aborted")]
    Aborted,
    #[error("the network refuses the message: {0}")]
    Post(#[from] PostError),
}

/// A way for VELO messages to one port. Channels to it and control messages of channels from it share it, so their order is kept.
struct Link {
    outlet: Outlet,
}

/// An open host port.
pub struct HostPort {
    device: Arc<Device>,
    id: PortId,
    number: u8,
    nodes: u16,
    shape: Shape,
    reader: MessageReader,
    notifications_read: u64,
    receive_area: Area,
    send_area: Area,
    slots: Slots,
    /// Puts whose source the unit has not read yet, as far as we have looked.
    puts_unread: u32,
    links: Vec<Link>,
    inbound: Vec<Inbound>,
    /// Peers that have come.
    welcomes: u64,
    outbound: Vec<Option<Outbound>>,
    /// Connections made: handles that have ended are refused.
    handles: u32,
    /// Channels with messages that are whole, in the order in which these became so.
    whole: std::collections::VecDeque<u16>,
    asked: Asked,
    /// Memory of the receive that waits, if no message goes there yet.
    sink: Option<Sink>,
    /// Bytes of messages that the program has not asked for, in memory of the library.
    kept_bytes: u64,
    /// A message that is not whole keeps its sender waiting, because no receive has asked for it.
    is_kept_waiting: bool,
    /// Buffers of long messages, for later ones.
    spare: Vec<Vec<receive::Line>>,
    /// The answer to the lock request under way.
    answer: Option<Answer>,
    /// Messages that were received: what is sent between two is a burst.
    turn: u32,
    watermarks: Watermarks,
}

/// How lazily pointers are updated (seed 002, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Pieces sent until the port looks which slots of its send area are free again.
    pub send: u32,
    /// Pieces freed until the port reports them to their sender.
    pub receive: u32,
}

/// What a host port has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Bytes for messages under construction, and the most that one may have.
    pub build_bytes: u64,
    pub build_bytes_max: u64,
    /// Connections that may be made from here, and channels of peers that are free.
    pub connections: u32,
    pub channels: u32,
    /// Whole messages that can be received now.
    pub messages: u32,
    /// Bytes of a piece, and pieces under way in one channel.
    pub piece_bytes: u64,
    pub credits: u32,
}

/// Which of its two VPIDs a host port was opened with last. So what is under way to a closed port never meets one that is opened next.
static LAST: Mutex<[u8; HOST_PORTS as usize]> = Mutex::new([1; HOST_PORTS as usize]);

/// The VPIDs that a host port may have: the highest, because others open the lowest.
fn vpids_of(number: u8, vpids: u16) -> Option<[u16; 2]> {
    let first = vpids.checked_sub(1 + u16::from(number))?;
    Some([first, first.checked_sub(HOST_PORTS.into())?])
}

/// The host port of a VPID. None: it is none's.
fn number_of(vpid: u16, vpids: u16) -> Option<u8> {
    (0..HOST_PORTS).find(|number| vpids_of(*number, vpids).is_some_and(|own| own.contains(&vpid)))
}

impl HostPort {
    /// Opens this host port, or a free one.
    pub fn open(wanted: Option<u32>) -> Result<HostPort, OpenError> {
        let process = Process::current()?;
        let nodes = process.size().clamp(1, u16::MAX.into());
        let device = Device::with_room(shape::mailbox_slots(nodes), shape::notifications(nodes))?;
        let limits = *device.interface().limits();
        let shape = Shape::new(nodes.max(device.nodes().into()), &limits).ok_or(OpenError::NoRoom(device.nodes()))?;
        let candidates = match wanted {
            Some(number) if number >= HOST_PORTS.into() => return Err(OpenError::NoSuch(number)),
            Some(number) => number as u8..number as u8 + 1,
            None => 0..HOST_PORTS,
        };
        for number in candidates {
            if let Some((id, reader)) = HostPort::claim(&device, number)? {
                return HostPort::with(&process, device, number, id, reader, shape);
            }
        }
        Err(OpenError::AllUsed)
    }

    /// Opens a VPID of a host port, not the one that it had last if the other is free. None: both are used, or the host port is open.
    fn claim(device: &Device, number: u8) -> Result<Option<(PortId, MessageReader)>, OpenError> {
        let Some(vpids) = vpids_of(number, device.ports()) else { return Ok(None) };
        let mut last = LAST.lock().unwrap_or_else(|poison| poison.into_inner());
        let at = usize::from(number);
        if last[at] & IS_OPEN != 0 {
            return Ok(None);
        }
        for which in [1 - last[at], last[at]] {
            match device.open_mailbox(Some(vpids[usize::from(which)]), 0) {
                Ok(opened) => {
                    last[at] = which | IS_OPEN;
                    return Ok(Some(opened));
                }
                Err(DeviceError::PortsUsed(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn with(
        process: &Process,
        device: Arc<Device>,
        number: u8,
        id: PortId,
        reader: MessageReader,
        shape: Shape,
    ) -> Result<HostPort, OpenError> {
        let area = |bytes| Area::new(process, &device, id.vpid, bytes);
        let areas = area(shape.receive_bytes()).and_then(|receive| match area(shape.send_bytes()) {
            Ok(send) => Ok((receive, send)),
            Err(error) => {
                receive.free(process);
                Err(error)
            }
        });
        let (receive_area, send_area) = match areas {
            Ok(areas) => areas,
            Err(error) => {
                give_back(&device, id, number, &reader);
                return Err(error);
            }
        };
        let port = HostPort {
            id,
            number,
            nodes: device.nodes(),
            shape,
            reader,
            notifications_read: 0,
            receive_area,
            send_area,
            slots: Slots::new(),
            puts_unread: 0,
            links: Vec::new(),
            inbound: (0..shape.channels).map(|_| Inbound::default()).collect(),
            welcomes: 0,
            outbound: Vec::new(),
            handles: 0,
            whole: Default::default(),
            asked: Asked::Nothing,
            sink: None,
            kept_bytes: 0,
            is_kept_waiting: false,
            spare: Vec::new(),
            answer: None,
            turn: 0,
            watermarks: Watermarks { send: SEND_SLOTS / 2, receive: shape.credits.div_ceil(2) },
            device,
        };
        port.publish();
        Ok(port)
    }

    /// Closes the port, when all that was sent has left the send area. Messages that were not received are lost.
    pub fn close(mut self) -> Result<(), ChannelError> {
        let device = self.device.clone();
        let deadline = Instant::now() + LEAVE_WAIT;
        let left = device.interface().wait(Some(deadline), || {
            self.take_in();
            (self.puts_unread == 0).then_some(())
        });
        self.unpublish();
        for handle in 0..self.outbound.len() {
            self.leave(handle);
        }
        for channel in 0..self.inbound.len() {
            self.control_to_source(channel, Control::Closed);
        }
        self.links.clear();
        give_back(&device, self.id, self.number, &self.reader);
        if let Ok(process) = Process::current() {
            self.receive_area.free(&process);
            self.send_area.free(&process);
        }
        left.map_err(|_| ChannelError::Lost)
    }

    pub fn node(&self) -> u16 {
        self.device.node()
    }

    /// The number of nodes.
    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Its number at its node.
    pub fn number(&self) -> u8 {
        self.number
    }

    pub fn watermarks(&self) -> Watermarks {
        self.watermarks
    }

    /// Sets the watermarks, within what the port has.
    pub fn set_watermarks(&mut self, wanted: Watermarks) {
        let send = wanted.send.clamp(1, SEND_SLOTS);
        let receive = wanted.receive.clamp(1, self.shape.credits);
        self.watermarks = Watermarks { send, receive };
    }

    pub fn resources(&mut self) -> Resources {
        self.poll();
        let used = self.outbound.iter().flatten().count() as u32;
        let is_free = |inbound: &&Inbound| inbound.is_free();
        Resources {
            build_bytes: u64::from(self.slots.free().saturating_sub(SEND_SLOTS - area::BUILDING_MAX))
                * self.shape.piece_bytes,
            build_bytes_max: self.build_bytes_max(),
            connections: u32::from(self.shape.channels) - used.min(self.shape.channels.into()),
            channels: self.inbound.iter().filter(is_free).count() as u32,
            messages: self.whole.len() as u32,
            piece_bytes: self.shape.piece_bytes,
            credits: self.shape.credits,
        }
    }

    /// The nodes that neighbour this one in a grid of all nodes: +x, -x, +y, -y.
    pub fn neighbours(&self) -> [Option<u16>; 4] {
        neighbours(self.node(), self.nodes())
    }

    /// Polls the NIC, and takes in what has arrived.
    pub fn poll(&mut self) -> bool {
        let changed = self.take_in();
        if changed {
            return true;
        }
        self.device.interface().poll();
        self.take_in()
    }

    fn interface(&self) -> &Interface {
        self.device.interface()
    }

    fn here(&self) -> Endpoint {
        Endpoint { node: self.device.node(), vpid: self.id.vpid }
    }

    /// The host port behind a VPID of a peer.
    pub fn number_of(&self, endpoint: Endpoint) -> u8 {
        number_of(endpoint.vpid, self.device.ports()).unwrap_or(0)
    }

    /// Takes in what has arrived: messages, notifications, credits. False: nothing has changed.
    pub(super) fn take_in(&mut self) -> bool {
        let mut changed = self.take_notifications();
        while let Some(message) = self.reader.take(self.device.interface(), |_| true) {
            changed = true;
            self.turn = self.turn.wrapping_add(1);
            self.receive_frame(&message);
        }
        changed
    }

    fn receive_frame(&mut self, message: &Message) {
        let source = message.label.source();
        let bytes = message.payload();
        let Some((route, frame)) = Frame::decode(message.label.mtt(), bytes, self.shape.piece_bytes) else {
            log::error!("atoll: node {} has sent a message that no library sends; it is dropped", source.node);
            return;
        };
        match frame {
            Frame::Piece(piece) => {
                let inline = bytes.get(wire::words_bytes(piece.head.is_some())..).unwrap_or_default();
                self.receive_piece(source, route, piece, inline);
            }
            Frame::Control(Control::Hello) => self.welcome(source, route),
            Frame::Control(Control::Bye) => self.part(source, route),
            Frame::Control(Control::Credits { slots }) => self.credits_returned(source, route, slots),
            Frame::Control(Control::Closed) => self.invalidate(source, Some(route)),
        }
    }

    /// Takes the notifications that have come.
    fn take_notifications(&mut self) -> bool {
        let mut changed = false;
        while let Some(words) =
            self.device.interface().signals().take_notification(self.id.vpid, &mut self.notifications_read)
        {
            changed = true;
            self.notified(&Notification::decode(words));
        }
        changed
    }

    fn notified(&mut self, notification: &Notification) {
        let peer = Endpoint { node: notification.node, vpid: notification.vpid.into() };
        match (notification.unit, notification.code) {
            (_, code::LOCK | code::LOCK_RSP) => self.answer = Some(Answer::of(notification)),
            // The slot was given back when the command was refused.
            (_, _) if notification.error & error::REQUESTER != 0 => {}
            // The target has refused a put: its port is closed. The requester has read the source, and has said so.
            (_, _) if notification.error != 0 => self.invalidate(peer, None),
            (spec::COMPLETER, _) => {
                if let Some(offset) = self.receive_area.offset_of(notification.word0) {
                    self.put_arrived(offset);
                }
            }
            _ => {
                if let Some(offset) = self.send_area.offset_of(notification.word0) {
                    self.puts_unread = self.puts_unread.saturating_sub(1);
                    self.slots.give((offset / self.shape.piece_bytes) as u8);
                }
            }
        }
    }

    /// The link to a port.
    fn link_to(&mut self, destination: Endpoint) -> usize {
        let known = self.links.iter().position(|link| link.outlet.destination() == destination);
        known.unwrap_or_else(|| {
            self.links.push(Link { outlet: Outlet::new(&self.device, self.here(), destination) });
            self.links.len() - 1
        })
    }

    /// Sends a frame, with its payload behind its words.
    fn send_frame(&mut self, link: usize, mtt: u8, bytes: &[u8]) -> Result<(), PostError> {
        let HostPort { device, links, turn, .. } = self;
        let link = links.get_mut(link).ok_or(PostError::NotOpen)?;
        let letter = Letter { mtt, tag: 0, start: bytes.as_ptr(), bytes: bytes.len() as u32 };
        // SAFETY: the message is a slice.
        device.until_room(|| unsafe { link.outlet.send(device, &letter, *turn) })
    }

    fn send_control(&mut self, link: usize, route: Route, control: Control) -> Result<(), PostError> {
        let (mtt, words, _) = Frame::Control(control).encode(route);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        self.send_frame(link, mtt, &bytes)
    }
}

/// Neighbours in a grid whose rows are as long as its columns, or, where the number has no such divisor, the next that it has.
fn neighbours(node: u16, nodes: u16) -> [Option<u16>; 4] {
    let rows =
        (1..=nodes).take_while(|rows| u32::from(*rows).pow(2) <= nodes.into()).filter(|rows| nodes % rows == 0).last();
    let columns = nodes / rows.unwrap_or(1);
    let column = node % columns.max(1);
    [
        (column + 1 < columns).then(|| node + 1),
        (column > 0).then(|| node - 1),
        node.checked_add(columns).filter(|below| *below < nodes),
        node.checked_sub(columns),
    ]
}

/// Set in [`LAST`] while the host port is open.
const IS_OPEN: u8 = 2;

/// Closes a port that has been claimed, and takes its regions out of the tables.
fn give_back(device: &Device, id: PortId, number: u8, reader: &MessageReader) {
    if let Some(rings) = reader.port_of_rings() {
        device.close_rings(rings);
    }
    if let Err(error) = device.close_port(id) {
        log::error!("atoll: {error}");
    }
    let mut last = LAST.lock().unwrap_or_else(|poison| poison.into_inner());
    last[usize::from(number)] &= !IS_OPEN;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_form_a_grid() {
        // 0 1 2
        // 3 4 5
        assert_eq!(neighbours(0, 6), [Some(1), None, Some(3), None]);
        assert_eq!(neighbours(4, 6), [Some(5), Some(3), None, Some(1)]);
        assert_eq!(neighbours(2, 5), [Some(3), Some(1), None, None], "a row, since 5 is prime");
        assert_eq!(neighbours(0, 1), [None; 4]);
        for nodes in 1..70u16 {
            for node in 0..nodes {
                for (link, back) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
                    let there = neighbours(node, nodes)[link];
                    assert!(there.is_none_or(|there| there < nodes && neighbours(there, nodes)[back] == Some(node)));
                }
            }
        }
    }

    #[test]
    fn every_host_port_has_two_vpids_of_its_own() {
        let all: std::collections::BTreeSet<u16> =
            (0..HOST_PORTS).flat_map(|number| vpids_of(number, 16).expect("two")).collect();
        assert_eq!(all, (8..16).collect());
        for number in 0..HOST_PORTS {
            assert!(vpids_of(number, 16).expect("two").iter().all(|vpid| number_of(*vpid, 16) == Some(number)));
        }
        assert_eq!((number_of(7, 16), vpids_of(3, 7)), (None, None));
    }
}
