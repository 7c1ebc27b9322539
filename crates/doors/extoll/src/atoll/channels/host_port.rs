// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host port: how it opens and closes, and how it handles arrivals.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use selvedge_host::Interface;
use selvedge_nic::rma::{Notification, code, error, spec};
use selvedge_nic::velo::{Endpoint, PortId};
use selvedge_os::sync::IgnorePoison;
use selvedge_process::device::connection::{PortConnection, PostError, VeloSend};
use selvedge_process::device::messages::{Message, MessageReader};
use selvedge_process::device::{Device, DeviceError};
use selvedge_process::fabric;
use selvedge_process::process::Process;

use super::area::{self, Area, SEND_SLOTS, Slots};
use super::error::{ChannelError, OpenError};
use super::inbound::{Inbound, Line, SourceFilter};
use super::outbound::{Answer, Outbound};
use super::shape::{self, Shape};
use super::sink::Sink;
use super::vpids::{HOST_PORTS, number_of, vpids_of};
use super::wire::{self, Control, Frame, Route};

/// Limit of the wait for the last messages of a closing port to leave.
const LEAVE_WAIT: Duration = Duration::from_secs(10);

/// The VPID, of two, that each host port had last. The next open takes the other, to get no old messages.
static LAST: Mutex<[u8; HOST_PORTS as usize]> = Mutex::new([1; HOST_PORTS as usize]);

/// Set in [`LAST`] while the host port is open.
const IS_OPEN: u8 = 2;

/// An open host port.
pub struct HostPort {
    pub(super) device: Arc<Device>,
    pub(super) id: PortId,
    pub(super) number: u8,
    pub(super) nodes: u16,
    pub(super) shape: Shape,
    pub(super) reader: MessageReader,
    pub(super) notifications_read: u64,
    pub(super) receive_area: Area,
    pub(super) send_area: Area,
    pub(super) slots: Slots,
    /// Puts whose source the unit has not read, as of the last check.
    pub(super) puts_unread: u32,
    /// Connections for VELO messages. A channel to a port and the control messages for channels from it share one.
    pub(super) links: Vec<PortConnection>,
    pub(super) inbound: Vec<Inbound>,
    /// Claims accepted so far.
    pub(super) claims_accepted: u64,
    pub(super) outbound: Vec<Option<Outbound>>,
    /// Connections made so far: a handle that has ended is refused.
    pub(super) handles: u32,
    /// Withdrawals of this process's routes that were looked at.
    pub(super) withdrawals_seen: u64,
    /// Channels with whole messages, in the order in which these became whole.
    pub(super) whole: VecDeque<u16>,
    pub(super) filter: SourceFilter,
    /// Memory of the waiting receive, until a message is assigned to it.
    pub(super) sink: Option<Sink>,
    /// Bytes of messages in memory of the library that no receive has requested.
    pub(super) kept_bytes: u64,
    /// Whether the sender of an incomplete message has to wait until a receive requests it.
    pub(super) is_kept_waiting: bool,
    pub(super) spare: Vec<Vec<Line>>,
    /// The answer to the outstanding lock request.
    pub(super) answer: Option<Answer>,
    /// Number of messages received. Messages sent without a receive in between form a burst.
    pub(super) turn: u32,
    pub(super) watermarks: Watermarks,
}

/// Laziness of pointer updates (seed 002, section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Pieces sent between two checks for free slots of the send area.
    pub send: u32,
    /// Pieces freed between two reports to their sender.
    pub receive: u32,
}

/// The free resources of a host port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Free bytes for messages under construction, and the limit of one message.
    pub build_bytes: u64,
    pub build_bytes_max: u64,
    /// Connections that can still be made from here, and free channels for peers.
    pub connections: u32,
    pub channels: u32,
    /// Whole messages that can be received now.
    pub messages: u32,
    /// Bytes of a piece, and limit of the pieces under way in one channel.
    pub piece_bytes: u64,
    pub credits: u32,
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

    /// Opens a VPID of a host port, preferably not its last. `None`: both are in use, or the host port is open.
    fn claim(device: &Device, number: u8) -> Result<Option<(PortId, MessageReader)>, OpenError> {
        let Some(vpids) = vpids_of(number, device.ports()) else { return Ok(None) };
        let mut last = LAST.lock().ignore_poison();
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
            claims_accepted: 0,
            outbound: Vec::new(),
            handles: 0,
            withdrawals_seen: fabric::withdrawals(),
            whole: Default::default(),
            filter: SourceFilter::Nothing,
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

    /// Closes the port when all sent messages have left the send area. Unreceived messages are lost.
    pub fn close(mut self) -> Result<(), ChannelError> {
        let device = self.device.clone();
        let deadline = Instant::now() + LEAVE_WAIT;
        let left = device.interface().wait(Some(deadline), || {
            self.process_arrivals();
            (self.puts_unread == 0).then_some(())
        });
        self.unpublish();
        for handle in 0..self.outbound.len() {
            self.give_back_channel(handle);
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

    /// Sets the watermarks, limited by the port's slots and credits.
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

    /// Polls the NIC, and processes arrivals.
    pub fn poll(&mut self) -> bool {
        let changed = self.process_arrivals();
        if changed {
            return true;
        }
        self.device.interface().poll();
        self.process_arrivals()
    }

    pub(super) fn interface(&self) -> &Interface {
        self.device.interface()
    }

    pub(super) fn here(&self) -> Endpoint {
        Endpoint { node: self.device.node(), vpid: self.id.vpid }
    }

    /// The host port behind a VPID of a peer.
    pub fn number_of(&self, endpoint: Endpoint) -> u8 {
        number_of(endpoint.vpid, self.device.ports()).unwrap_or(0)
    }

    /// Handles arrivals: messages, notifications, credits. Returns false if nothing has changed.
    pub(super) fn process_arrivals(&mut self) -> bool {
        let mut changed = self.take_notifications();
        while let Some(message) = self.reader.take(self.device.interface(), |_| true) {
            changed = true;
            self.turn = self.turn.wrapping_add(1);
            self.receive_frame(&message);
        }
        changed
    }

    pub(super) fn receive_frame(&mut self, message: &Message) {
        let source = message.label.source();
        let bytes = message.payload();
        let Some((route, frame)) = Frame::decode(message.label.mtt(), bytes, self.shape.piece_bytes) else {
            log::error!("atoll: dropped an invalid message from node {}", source.node);
            return;
        };
        match frame {
            Frame::Piece(piece) => {
                let inline = bytes.get(wire::words_bytes(piece.head.is_some())..).unwrap_or_default();
                self.receive_piece(source, route, piece, inline);
            }
            Frame::Control(Control::Hello) => self.accept_claim(source, route),
            Frame::Control(Control::Bye) => self.end_claim(source, route),
            Frame::Control(Control::Credits { slots }) => self.credits_returned(source, route, slots),
            Frame::Control(Control::Closed) => self.invalidate(source, Some(route)),
        }
    }

    /// Takes the notifications that have arrived.
    pub(super) fn take_notifications(&mut self) -> bool {
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
            // The slot was freed when the command was refused.
            (_, _) if notification.error & error::REQUESTER != 0 => {}
            // The target has refused a put, because its port is closed. The requester has read the source and has
            // notified, too.
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

    pub(super) fn link_to(&mut self, destination: Endpoint) -> usize {
        let known = self.links.iter().position(|link| link.destination() == destination);
        known.unwrap_or_else(|| {
            self.links.push(PortConnection::new(&self.device, self.here(), destination));
            self.links.len() - 1
        })
    }

    /// Sends a frame: its words, then its payload.
    pub(super) fn send_frame(&mut self, link: usize, mtt: u8, bytes: &[u8]) -> Result<(), PostError> {
        let HostPort { device, links, turn, .. } = self;
        let link = links.get_mut(link).ok_or(PostError::NotOpen)?;
        let message = VeloSend { mtt, tag: 0, start: bytes.as_ptr(), bytes: bytes.len() as u32 };
        // SAFETY: the message is a slice.
        device.until_room(|| unsafe { link.send(device, &message, *turn) })
    }

    pub(super) fn send_control(&mut self, link: usize, route: Route, control: Control) -> Result<(), PostError> {
        let (mtt, words, _) = Frame::Control(control).encode(route);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        self.send_frame(link, mtt, &bytes)
    }
}

/// Neighbours in a grid of all nodes. The number of rows is the largest divisor that is not above the square root.
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

/// Closes a port that was claimed, and removes its regions from the tables.
fn give_back(device: &Device, id: PortId, number: u8, reader: &MessageReader) {
    if let Some(rings) = reader.port_of_rings() {
        device.close_rings(rings, id.vpid);
    }
    if let Err(error) = device.close_port(id) {
        log::error!("atoll: {error}");
    }
    let mut last = LAST.lock().ignore_poison();
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
}
