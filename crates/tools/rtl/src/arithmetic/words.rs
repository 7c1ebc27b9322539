// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands, answers and sizes of the arithmetic, as in `arithmetic_pkg.sv`.

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::arithmetic::{Datatype, Operation};

use crate::bits::Field;
use crate::layout;

layout! {
    /// `arithmetic_pkg::command_t`.
    pub mod command {
        TAG: 32, KIND: 2, RECORD: 8, CHILD: 8, CHILDREN: 8, OPERATION: 8, DATATYPE: 8, INDEX: 8, BYTES: 32, WORD: 8, DATA: 128
    }
}
layout! {
    /// `arithmetic_pkg::answer_t`.
    pub mod answer { TAG: 32, STATUS: 5, DATA: 128 }
}

/// Bits of a word in commands, answers and the trace.
pub const WORD_BITS: usize = 128;
/// The parameters of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub name: &'static str,
    pub records: usize,
    pub children: usize,
    pub bytes_max: usize,
    pub word_bytes: usize,
}

impl Shape {
    /// As in `rtl/units.toml`.
    pub const NARROW: Shape = Shape { name: "aggregate", records: 4, children: 8, bytes_max: 256, word_bytes: 8 };
    /// Words of 128 bits; a number of records that is no power of two.
    pub const WIDE: Shape = Shape { name: "aggregate_128", records: 3, children: 4, bytes_max: 64, word_bytes: 16 };

    pub(super) fn words(&self) -> usize {
        self.bytes_max / self.word_bytes
    }
}

/// A command of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticCommand {
    Open { record: u8, children: u8 },
    Header { record: u8, child: u8, reduction: Reduction },
    Word { data: u128 },
    Result { record: u8, word: u8 },
}

impl ArithmeticCommand {
    /// The command in words of 32 bits.
    pub fn pack(&self, tag: u32) -> [u32; command::WORDS] {
        let mut words = [0; command::WORDS];
        let mut set = |field: Field, value: u64| field.set(&mut words, value);
        set(command::TAG, tag.into());
        match *self {
            ArithmeticCommand::Open { record, children } => {
                set(command::KIND, 0);
                set(command::RECORD, record.into());
                set(command::CHILDREN, children.into());
            }
            ArithmeticCommand::Header { record, child, reduction } => {
                set(command::KIND, 1);
                set(command::RECORD, record.into());
                set(command::CHILD, child.into());
                set(command::OPERATION, reduction.operation.into());
                set(command::DATATYPE, reduction.datatype.into());
                set(command::INDEX, reduction.index.into());
                set(command::BYTES, reduction.bytes.into());
            }
            ArithmeticCommand::Word { data } => {
                set(command::KIND, 2);
                let half = Field { at: command::DATA.at, width: 64 };
                set(half, data as u64);
                set(half.within(64), (data >> 64) as u64);
            }
            ArithmeticCommand::Result { record, word } => {
                set(command::KIND, 3);
                set(command::RECORD, record.into());
                set(command::WORD, word.into());
            }
        }
        words
    }
}

/// `arithmetic_pkg::status_e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// A failure, as in the software node.
    Failed(Failure),
    /// A reduction that the node supports and the unit does not.
    NotHere,
    /// A reduction is in progress.
    Busy,
    /// No message announced the word.
    NoMessage,
    /// An undefined status.
    Unknown(u8),
}

impl From<u8> for Status {
    fn from(number: u8) -> Status {
        match number {
            0 => Status::Ok,
            16 => Status::NotHere,
            17 => Status::Busy,
            18 => Status::NoMessage,
            _ => Failure::from_u8(number).map_or(Status::Unknown(number), Status::Failed),
        }
    }
}

/// Whether the unit supports this reduction of the software.
pub fn is_supported(reduction: &Reduction) -> bool {
    use Datatype::{Bfloat16, Double, Float, Half};
    let is_here = |datatype: Datatype| (datatype as u8) < 10 || matches!(datatype, Float | Double | Half | Bfloat16);
    reduction.operation != Operation::Prod as u8
        && Datatype::from_number(reduction.datatype.into()).is_some_and(is_here)
}

/// An answer of the unit that agrees with the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub tag: u32,
    pub cycle: u32,
    pub status: Status,
    pub data: u128,
}
