// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a packet's header that belongs to congestion control.

/// The control's fields of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    /// A switch had too many flits for the same output; in an echo: the packet that it answers was marked.
    pub marked: bool,
    /// The round of the sender's window in which the packet left; in an echo: that of the packet that it answers.
    pub round: u8,
}

impl Header {
    /// Of a packet under no control.
    pub const PLAIN: Header = Header { kind: Kind::Plain, marked: false, round: 0 };

    /// Whether the packet is of the control itself, and carries nothing of a caller.
    #[inline]
    pub fn is_control(self) -> bool {
        matches!(self.kind, Kind::Echo | Kind::Request | Kind::Credit)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Under no control.
    #[default]
    Plain,
    /// A packet in a window; its receiver echoes it.
    Windowed,
    /// A packet without credit.
    Unsolicited,
    /// A packet with credit.
    Credited,
    /// From a receiver: flits of a packet that arrived, and whether it was marked.
    Echo,
    /// From a sender: further flits that it wants to send.
    Request,
    /// From a receiver: further flits that the sender may send.
    Credit,
}
