// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between members and nodes, as requests of the NIC (seed 001, figures 2 and 3). The packet format is
//! that of all units ([`crate::packet`]); this table gives the use of its fields.
//!
//! | field | `Request` | `Result`, `Cast` | `Join`, `Leave`, `Fail` | `Joined`, `Failed` |
//! |---|---|---|---|---|
//! | `kind` | [`kind::AGGREGATION_REQUEST`] | [`kind::AGGREGATION_RESULT`] | [`kind::AGGREGATION_UP`] | [`kind::AGGREGATION_DOWN`] |
//! | `initiator` | sender: nid << 32 / pid | | | |
//! | `match_bits` | key of the job | | | |
//! | `header_data` | number | number | group's number << 32 / `Join`: order | credits << 32 / bytes |
//! | `remote_offset` | the receiver's handle of the group | the same; `Cast`: the group's number | the sender's handle | the receiver's handle |
//! | `length` | bytes of payload | the same | 0 | 0 |
//! | `portal` | child | 0; `Cast`: job | job | child |
//! | `operation` | operation | 0 | 0 | 0 |
//! | `datatype` | type of the values | 0 | 0 | 0 |
//! | `operand[0]` 7:0 | [`VERSION`] | | | |
//! | 15:8 | failure | failure | code | code |
//! | 23:16 | type of the indices | 0 | `Join`: options; `Fail`: failure | failure |
//! | 31:24 | the [`Distribution`] of a target | `Cast`: 1 | 0 | 0 |
//! | 47:32 | 0 | 0 | `Join`: tree | 0 |
//! | 63:48 | 0 | 0 | `Join`: credits | 0 |
//! | `operand[1]` | target | 0 | `Join`: members << 32 / total | the sender's handle |
//! | `operand[2]` | target's handle | 0 | `Join`: children expected at four nodes | 0 |
//! | `operand[3]` | 0 | 0 | `Join`: at two more, then bytes << 32 | 0 |
//!
//! `Repeat` is of the kind of `Join`, and has the fields of a `Request`: group, child, number.
//!
//! Unused fields are 0. A message with another value there is refused.

use super::failure::Failure;
use crate::tables::{Request, kind};

/// Version of the messages.
pub const VERSION: u8 = 1;

/// The most nodes on the path from a member to the root.
pub const LEVELS_MAX: usize = 6;

/// A message to a node, or to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Request(Operand),
    Result(Outcome),
    /// The result of an operation, multicast to all members.
    Cast(Cast),
    /// A child's request for a cast result that it has not received.
    Repeat(Repeat),
    Join(Join),
    /// A child leaves its group.
    Leave(Child),
    /// The group has failed at a child.
    Fail(Child, Failure),
    Joined(Joined),
    Failed(Failed),
}

/// The sender of a message, and its job's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// nid << 32 | pid.
    pub address: u64,
    pub key: u64,
}

/// A reduction, as each member describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reduction {
    /// The operation and the types of values and indices, as [`crate::aggregation::operations`] reads them.
    pub operation: u8,
    pub datatype: u8,
    pub index: u8,
    /// Bytes of an operand, and of the result.
    pub bytes: u32,
    /// Receiver of the root's result besides, or in place of, the members down the tree. None: only those.
    pub target: Option<Target>,
}

/// The receiver of a result of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub distribution: Distribution,
    /// nid << 32 | pid, or the address of a multicast group, which the home interprets.
    pub address: u64,
    /// The target process's handle of the operation; 0 for a multicast group.
    pub handle: u64,
}

/// Distribution of a result beside the way down the tree. The values are those of the wire format; 0 there: down the
/// tree alone.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// To one process. Only the end of the operation goes down the tree.
    Alone = 1,
    /// To all members by multicast, which is unreliable. Only the end of the operation goes down the tree; a member
    /// without the result then requests it.
    Multicast = 2,
    /// To all members, by multicast and down the tree. The first to arrive completes the operation.
    Both = 3,
}

impl Distribution {
    /// The distribution with this number. None: 0, or an unknown number.
    pub fn from_u8(number: u8) -> Option<Distribution> {
        [Distribution::Alone, Distribution::Multicast, Distribution::Both]
            .into_iter()
            .find(|distribution| *distribution as u8 == number)
    }
}

impl Target {
    /// One process, and its handle of the operation.
    pub fn process(address: u64, handle: u64) -> Target {
        Target { distribution: Distribution::Alone, address, handle }
    }

    /// All members, by the multicast group of this address.
    pub fn multicast(address: u64, distribution: Distribution) -> Target {
        Target { distribution, address, handle: 0 }
    }
}

/// An operand of a child. Its payload is the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub group: u64,
    pub child: u32,
    pub number: u64,
    pub reduction: Reduction,
    /// The failure beneath the child; there is no payload then.
    pub failure: Option<Failure>,
}

/// The end of an operation. The payload is the result, unless it failed or went to another target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub group: u64,
    pub number: u64,
    pub failure: Option<Failure>,
    pub bytes: u32,
}

/// The result of an operation, multicast by the root, for the members of the job's group with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    pub job: u32,
    pub group: u32,
    pub number: u64,
    pub bytes: u32,
}

/// A child's request for the result of an operation that has ended. The answer is an [`Outcome`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    pub group: u64,
    pub child: u32,
    pub number: u64,
}

/// A child's request to join a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    pub job: u32,
    /// The job's number of the group.
    pub number: u32,
    pub tree: u16,
    pub options: u8,
    /// The sender's handle of the group.
    pub handle: u64,
    /// The lowest position of a member beneath the sender.
    pub order: u32,
    /// Members beneath the sender, and of the whole group.
    pub members: u32,
    pub total: u32,
    /// Children of the group at the receiver, at the node above it, and so on to the root.
    pub expected: [u16; LEVELS_MAX],
    /// Wanted number of operations under way, and bytes of each.
    pub credits: u16,
    pub bytes: u32,
}

/// A child that has joined a group, or has asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    pub job: u32,
    /// The job's number of the group.
    pub number: u32,
    /// The child's handle of the group.
    pub handle: u64,
}

/// The group is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    pub group: u64,
    /// The receiver's index among the sender's children, and the sender's handle.
    pub child: u32,
    pub handle: u64,
    pub credits: u32,
    pub bytes: u32,
}

/// The group does not exist, or has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    pub group: u64,
    pub failure: Failure,
}

/// Reasons for which a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// Unknown version.
    Version(u8),
    /// A field has a value that no sender writes.
    Malformed,
}

mod code {
    pub const JOIN: u8 = 1;
    pub const LEAVE: u8 = 2;
    pub const FAIL: u8 = 3;
    pub const REPEAT: u8 = 4;
    pub const JOINED: u8 = 1;
    pub const FAILED: u8 = 2;
}

/// In the first word of an operand: the result is cast.
const CAST: u8 = 1;

#[derive(Clone, Copy)]
struct Head {
    first: u8,
    second: u8,
    third: u8,
    low: u16,
    high: u16,
}

impl Head {
    const fn new(first: u8, second: u8) -> Head {
        Head { first, second, third: 0, low: 0, high: 0 }
    }

    fn word(self) -> u64 {
        let [low, high] = [self.low.to_le_bytes(), self.high.to_le_bytes()];
        u64::from_le_bytes([VERSION, self.first, self.second, self.third, low[0], low[1], high[0], high[1]])
    }

    fn from_word(word: u64) -> Result<Head, MessageError> {
        let [version, first, second, third, low @ .., d, e] = word.to_le_bytes();
        if version != VERSION {
            return Err(MessageError::Version(version));
        }
        Ok(Head { first, second, third, low: u16::from_le_bytes(low), high: u16::from_le_bytes([d, e]) })
    }
}

fn halves(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

fn split(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn failure_of(number: u8) -> Result<Option<Failure>, MessageError> {
    match number {
        0 => Ok(None),
        number => Failure::from_u8(number).map(Some).ok_or(MessageError::Malformed),
    }
}

fn child_of(request: &Request) -> Child {
    Child { job: request.portal, number: split(request.header_data).0, handle: request.remote_offset }
}

fn number_of(failure: Option<Failure>) -> u8 {
    failure.map_or(0, |failure| failure as u8)
}

impl Message {
    /// Encodes the message as a request of the NIC.
    pub fn encode(&self, sender: Sender) -> Request {
        let request = Request { initiator: sender.address, match_bits: sender.key, ..Request::default() };
        match *self {
            Message::Request(Operand { group, child, number, reduction, failure }) => {
                let Reduction { operation, datatype, index, bytes, target } = reduction;
                let distribution = target.map_or(0, |target| target.distribution as u8);
                let head = Head { third: distribution, ..Head::new(number_of(failure), index) };
                let (address, handle) = target.map_or((0, 0), |target| (target.address, target.handle));
                Request {
                    kind: kind::AGGREGATION_REQUEST,
                    operation,
                    datatype,
                    portal: child,
                    header_data: number,
                    remote_offset: group,
                    length: bytes.into(),
                    operand: [head.word(), address, handle, 0],
                    ..request
                }
            }
            Message::Result(Outcome { group, number, failure, bytes }) => Request {
                kind: kind::AGGREGATION_RESULT,
                header_data: number,
                remote_offset: group,
                length: bytes.into(),
                operand: [Head::new(number_of(failure), 0).word(), 0, 0, 0],
                ..request
            },
            Message::Cast(Cast { job, group, number, bytes }) => Request {
                kind: kind::AGGREGATION_RESULT,
                portal: job,
                header_data: number,
                remote_offset: group.into(),
                length: bytes.into(),
                operand: [Head { third: CAST, ..Head::new(0, 0) }.word(), 0, 0, 0],
                ..request
            },
            Message::Repeat(Repeat { group, child, number }) => Request {
                kind: kind::AGGREGATION_UP,
                portal: child,
                header_data: number,
                remote_offset: group,
                operand: [Head::new(code::REPEAT, 0).word(), 0, 0, 0],
                ..request
            },
            Message::Join(join) => {
                let Join { job, number, tree, options, handle, order, .. } = join;
                let Join { members, total, expected, credits, bytes, .. } = join;
                let head = Head { low: tree, high: credits, ..Head::new(code::JOIN, options) };
                let [a, b, c, d, e, f] = expected.map(u64::from);
                let expected = [a | b << 16 | c << 32 | d << 48, e | f << 16 | u64::from(bytes) << 32];
                Request {
                    kind: kind::AGGREGATION_UP,
                    portal: job,
                    header_data: halves(number, order),
                    remote_offset: handle,
                    operand: [head.word(), halves(members, total), expected[0], expected[1]],
                    ..request
                }
            }
            Message::Leave(Child { job, number, handle }) => Request {
                kind: kind::AGGREGATION_UP,
                portal: job,
                header_data: halves(number, 0),
                remote_offset: handle,
                operand: [Head::new(code::LEAVE, 0).word(), 0, 0, 0],
                ..request
            },
            Message::Fail(Child { job, number, handle }, failure) => Request {
                kind: kind::AGGREGATION_UP,
                portal: job,
                header_data: halves(number, 0),
                remote_offset: handle,
                operand: [Head::new(code::FAIL, failure as u8).word(), 0, 0, 0],
                ..request
            },
            Message::Joined(Joined { group, child, handle, credits, bytes }) => Request {
                kind: kind::AGGREGATION_DOWN,
                portal: child,
                header_data: halves(credits, bytes),
                remote_offset: group,
                operand: [Head::new(code::JOINED, 0).word(), handle, 0, 0],
                ..request
            },
            Message::Failed(Failed { group, failure }) => Request {
                kind: kind::AGGREGATION_DOWN,
                remote_offset: group,
                operand: [Head::new(code::FAILED, failure as u8).word(), 0, 0, 0],
                ..request
            },
        }
    }

    /// Decodes a request. Returns the message, and its sender as stated in it.
    pub fn decode(request: &Request) -> Result<(Sender, Message), MessageError> {
        let sender = Sender { address: request.initiator, key: request.match_bits };
        let head = Head::from_word(request.operand[0])?;
        let message = match (request.kind, head.first) {
            (kind::AGGREGATION_REQUEST, failure) => {
                let [_, address, handle, _] = request.operand;
                let bytes = u32::try_from(request.length).map_err(|_| MessageError::Malformed)?;
                let target =
                    Distribution::from_u8(head.third).map(|distribution| Target { distribution, address, handle });
                let (operation, datatype, index) = (request.operation, request.datatype, head.second);
                let reduction = Reduction { operation, datatype, index, bytes, target };
                let failure = failure_of(failure)?;
                let (group, child, number) = (request.remote_offset, request.portal, request.header_data);
                Message::Request(Operand { group, child, number, reduction, failure })
            }
            (kind::AGGREGATION_RESULT, _) if head.third == CAST => {
                let bytes = u32::try_from(request.length).map_err(|_| MessageError::Malformed)?;
                let group = request.remote_offset as u32;
                Message::Cast(Cast { job: request.portal, group, number: request.header_data, bytes })
            }
            (kind::AGGREGATION_RESULT, failure) => {
                let bytes = u32::try_from(request.length).map_err(|_| MessageError::Malformed)?;
                let (group, number) = (request.remote_offset, request.header_data);
                Message::Result(Outcome { group, number, failure: failure_of(failure)?, bytes })
            }
            (kind::AGGREGATION_UP, code::JOIN) => {
                let [_, sums, first, second] = request.operand;
                let ((number, order), (members, total)) = (split(request.header_data), split(sums));
                let at = |word: u64, place: u32| (word >> (16 * place)) as u16;
                let expected = [at(first, 0), at(first, 1), at(first, 2), at(first, 3), at(second, 0), at(second, 1)];
                Message::Join(Join {
                    job: request.portal,
                    number,
                    tree: head.low,
                    options: head.second,
                    handle: request.remote_offset,
                    order,
                    members,
                    total,
                    expected,
                    credits: head.high,
                    bytes: split(second).0,
                })
            }
            (kind::AGGREGATION_UP, code::REPEAT) => {
                let (group, child, number) = (request.remote_offset, request.portal, request.header_data);
                Message::Repeat(Repeat { group, child, number })
            }
            (kind::AGGREGATION_UP, code::LEAVE) => Message::Leave(child_of(request)),
            (kind::AGGREGATION_UP, code::FAIL) => {
                let failure = failure_of(head.second)?.ok_or(MessageError::Malformed)?;
                Message::Fail(child_of(request), failure)
            }
            (kind::AGGREGATION_DOWN, code::JOINED) => {
                let (credits, bytes) = split(request.header_data);
                let (group, child, handle) = (request.remote_offset, request.portal, request.operand[1]);
                Message::Joined(Joined { group, child, handle, credits, bytes })
            }
            (kind::AGGREGATION_DOWN, code::FAILED) => {
                let failure = failure_of(head.second)?.ok_or(MessageError::Malformed)?;
                Message::Failed(Failed { group: request.remote_offset, failure })
            }
            _ => return Err(MessageError::Malformed),
        };
        // The home sets these fields on the way. All others are those of the message, or 0.
        let carried =
            Request { uid: request.uid, lookups: request.lookups, ack: request.ack, ..message.encode(sender) };
        if carried == *request { Ok((sender, message)) } else { Err(MessageError::Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn failures() -> impl Strategy<Value = Failure> {
        proptest::sample::select(&Failure::ALL[..])
    }

    fn messages() -> impl Strategy<Value = Message> {
        let words = any::<(u64, u64, u64, u64)>();
        let small = any::<(u32, u32, u32, u32)>();
        let bytes = any::<(u8, u8, u8, bool)>();
        let join = any::<([u16; LEVELS_MAX], u16, u16)>();
        (words, small, bytes, join, failures(), 0..9).prop_map(|(words, small, bytes, join, failure, which)| {
            let (group, number, address, handle) = words;
            let (child, length, order, total) = small;
            let (operation, datatype, index, flag) = bytes;
            let from = Child { job: child, number: number as u32, handle };
            let maybe = flag.then_some(failure);
            match which {
                0 => {
                    let ways = [Distribution::Alone, Distribution::Multicast, Distribution::Both];
                    let distribution = ways[usize::from(operation % 3)];
                    let target = flag.then_some(Target { distribution, address, handle });
                    let reduction = Reduction { operation, datatype, index, bytes: length, target };
                    Message::Request(Operand { group, child, number, reduction, failure: maybe })
                }
                1 => Message::Result(Outcome { group, number, failure: maybe, bytes: length }),
                2 => Message::Join(Join {
                    job: child,
                    number: number as u32,
                    tree: join.1,
                    options: operation,
                    handle,
                    order,
                    members: length,
                    total,
                    expected: join.0,
                    credits: join.2,
                    bytes: address as u32,
                }),
                3 => Message::Leave(from),
                4 => Message::Fail(from, failure),
                5 => Message::Cast(Cast { job: child, group: order, number, bytes: length }),
                6 => Message::Repeat(Repeat { group, child, number }),
                7 => Message::Joined(Joined { group, child, handle, credits: order, bytes: length }),
                _ => Message::Failed(Failed { group, failure }),
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(message in messages(), address: u64, key: u64) {
            let sender = Sender { address, key };
            prop_assert_eq!(Message::decode(&message.encode(sender)), Ok((sender, message)));
        }

        #[test]
        fn any_request_is_a_message_or_is_refused(
            kind in kind::AGGREGATION_REQUEST - 1..=kind::AGGREGATION_DOWN + 1,
            bytes: [u8; 2],
            portal: u32,
            words: [u64; 5],
            operand: [u64; 4],
            version in prop_oneof![9 => Just(VERSION), 1 => any::<u8>()],
            code in 0..6u8,
            clears: [bool; 4],
        ) {
            let cleared = |word: u64, clear: bool| if clear { 0 } else { word };
            let head = cleared(operand[0] >> 16, clears[0]) << 16 | u64::from(code) << 8 | u64::from(version);
            let request = Request {
                kind,
                operation: if clears[0] { 0 } else { bytes[0] },
                datatype: if clears[0] { 0 } else { bytes[1] },
                portal,
                initiator: words[0],
                match_bits: words[1],
                remote_offset: words[2],
                header_data: cleared(words[3], clears[1]),
                length: cleared(words[4] >> 32, clears[2]),
                operand: [head, operand[1], cleared(operand[2], clears[3]), cleared(operand[3], clears[3])],
                ..Request::default()
            };
            match Message::decode(&request) {
                Ok((sender, message)) => prop_assert_eq!(message.encode(sender), request),
                Err(MessageError::Version(found)) => prop_assert!(found == version && found != VERSION),
                Err(MessageError::Malformed) => {}
            }
        }
    }
}
