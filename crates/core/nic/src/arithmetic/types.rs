// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations and datatypes, and their combinations.

/// An operation on elements, with the number that it has in Portals' header (`ptl_op_t`).
///
/// The first ten reduce two values to one. The others write the operand over the target: [`Operation::Swap`] always,
/// and those after it, which only Portals has, under a condition
/// ([`apply_swap`](crate::portals::operation::apply_swap)).
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// The target becomes the lesser value.
    Min = 0,
    /// The target becomes the greater value.
    Max = 1,
    /// Sum.
    Sum = 2,
    /// Product.
    Prod = 3,
    /// Logical or.
    Lor = 4,
    /// Logical and.
    Land = 5,
    /// Bitwise or.
    Bor = 6,
    /// Bitwise and.
    Band = 7,
    /// Logical exclusive or.
    Lxor = 8,
    /// Bitwise exclusive or.
    Bxor = 9,
    /// The target is overwritten.
    Swap = 10,
    /// The target is overwritten if the comparand equals it.
    CompareSwap = 11,
    /// The target is overwritten if the comparand differs from it.
    CompareSwapNe = 12,
    /// The target is overwritten if comparand <= target.
    CompareSwapLe = 13,
    /// The target is overwritten if comparand < target.
    CompareSwapLt = 14,
    /// The target is overwritten if comparand >= target.
    CompareSwapGe = 15,
    /// The target is overwritten if comparand > target.
    CompareSwapGt = 16,
    /// The bits of the target that the mask selects are overwritten.
    MaskedSwap = 17,
}

impl Operation {
    pub(crate) const ALL: [Self; 18] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Prod,
        Self::Lor,
        Self::Land,
        Self::Bor,
        Self::Band,
        Self::Lxor,
        Self::Bxor,
        Self::Swap,
        Self::CompareSwap,
        Self::CompareSwapNe,
        Self::CompareSwapLe,
        Self::CompareSwapLt,
        Self::CompareSwapGe,
        Self::CompareSwapGt,
        Self::MaskedSwap,
    ];

    /// The operation with this `ptl_op_t` value. None: there is no such operation.
    #[inline]
    pub fn from_u32(value: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(value).ok()?).copied()
    }
}

/// The type of elements, with its number in Portals' header (`ptl_datatype_t`). Portals lacks the last two.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Datatype {
    /// 8-bit signed integer.
    Int8 = 0,
    /// 8-bit unsigned integer.
    Uint8 = 1,
    /// 16-bit signed integer.
    Int16 = 2,
    /// 16-bit unsigned integer.
    Uint16 = 3,
    /// 32-bit signed integer.
    Int32 = 4,
    /// 32-bit unsigned integer.
    Uint32 = 5,
    /// IEEE 754 binary32.
    Float = 6,
    /// 64-bit signed integer.
    Int64 = 7,
    /// 64-bit unsigned integer.
    Uint64 = 8,
    /// IEEE 754 binary64.
    Double = 9,
    /// Two binary32: real, imaginary.
    FloatComplex = 10,
    /// Two binary64: real, imaginary.
    DoubleComplex = 11,
    /// x87 80-bit extended in a slot of 16 bytes.
    LongDouble = 12,
    /// Two x87 slots: real, imaginary.
    LongDoubleComplex = 13,
    /// IEEE 754 binary16.
    Half = 14,
    /// bfloat16: the upper 16 bits of a binary32.
    Bfloat16 = 15,
}

impl Datatype {
    /// Size of the largest datatype.
    pub const SIZE_BYTES_MAX: usize = 32;

    pub(crate) const ALL: [Self; 16] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Float,
        Self::Int64,
        Self::Uint64,
        Self::Double,
        Self::FloatComplex,
        Self::DoubleComplex,
        Self::LongDouble,
        Self::LongDoubleComplex,
        Self::Half,
        Self::Bfloat16,
    ];

    /// The datatype with this number, those that Portals lacks included. None: unknown number.
    #[inline]
    pub fn from_number(value: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(value).ok()?).copied()
    }

    /// Size of one element with its padding: a power of two.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 | Self::Half | Self::Bfloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::FloatComplex => 8,
            Self::DoubleComplex | Self::LongDouble => 16,
            Self::LongDoubleComplex => 32,
        }
    }

    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Int8 | Self::Uint8 | Self::Int16 | Self::Uint16 => Class::Integer,
            Self::Int32 | Self::Uint32 | Self::Int64 | Self::Uint64 => Class::Integer,
            Self::Float | Self::Double | Self::LongDouble | Self::Half | Self::Bfloat16 => Class::Real,
            Self::FloatComplex | Self::DoubleComplex | Self::LongDoubleComplex => Class::Complex,
        }
    }
}

/// A kind of datatypes that have the same operations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Integer,
    Real,
    Complex,
}

/// Whether [`apply`](super::apply) computes `target = target op operand` for this operation and datatype.
///
/// | operation | integer | real | complex |
/// |---|---|---|---|
/// | minimum, maximum | yes | yes | no |
/// | sum, product | yes | yes | yes |
/// | logical, bitwise | yes | no | no |
/// | swap, conditional swaps | no | no | no |
pub const fn reduces(op: Operation, datatype: Datatype) -> bool {
    use Operation::*;
    match op {
        Sum | Prod => true,
        Min | Max => !matches!(datatype.class(), Class::Complex),
        Lor | Land | Bor | Band | Lxor | Bxor => matches!(datatype.class(), Class::Integer),
        Swap | CompareSwap | CompareSwapNe | CompareSwapLe | CompareSwapLt | CompareSwapGe | CompareSwapGt
        | MaskedSwap => false,
    }
}
