// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of libfabric's datatypes and operations of atomics to the NIC's.

use selvedge_messages::transfer::Effect;
use selvedge_nic::arithmetic::{Datatype, Operation as Arithmetic};
use selvedge_nic::portals::operation::{Family, allowed};

use crate::ffi::*;

/// Largest number of bytes in one call.
pub const BYTES_MAX: usize = 4096;

/// The three kinds of functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Plain,
    Fetch,
    Compare,
}

/// The NIC's name for a datatype.
pub fn datatype(theirs: fi_datatype) -> Option<Datatype> {
    Some(match theirs {
        FI_INT8 => Datatype::Int8,
        FI_UINT8 => Datatype::Uint8,
        FI_INT16 => Datatype::Int16,
        FI_UINT16 => Datatype::Uint16,
        FI_INT32 => Datatype::Int32,
        FI_UINT32 => Datatype::Uint32,
        FI_INT64 => Datatype::Int64,
        FI_UINT64 => Datatype::Uint64,
        FI_FLOAT => Datatype::Float,
        FI_DOUBLE => Datatype::Double,
        FI_FLOAT_COMPLEX => Datatype::FloatComplex,
        FI_DOUBLE_COMPLEX => Datatype::DoubleComplex,
        FI_LONG_DOUBLE => Datatype::LongDouble,
        FI_LONG_DOUBLE_COMPLEX => Datatype::LongDoubleComplex,
        _ => return None,
    })
}

/// The effect of an operation. `None`: it is invalid for the datatype or for this kind of function.
pub fn effect(theirs: fi_op, datatype: Datatype, form: Form) -> Option<Effect> {
    let compute = |operation| {
        (form != Form::Compare && allowed(Family::Atomic, operation, datatype)).then_some(Effect::Compute(operation))
    };
    let swap = |operation| {
        (form == Form::Compare && allowed(Family::Swap, operation, datatype)).then_some(Effect::Swap(operation))
    };
    match theirs {
        FI_MIN => compute(Arithmetic::Min),
        FI_MAX => compute(Arithmetic::Max),
        FI_SUM => compute(Arithmetic::Sum),
        FI_PROD => compute(Arithmetic::Prod),
        FI_LOR => compute(Arithmetic::Lor),
        FI_LAND => compute(Arithmetic::Land),
        FI_BOR => compute(Arithmetic::Bor),
        FI_BAND => compute(Arithmetic::Band),
        FI_LXOR => compute(Arithmetic::Lxor),
        FI_BXOR => compute(Arithmetic::Bxor),
        FI_ATOMIC_READ => (form == Form::Fetch).then_some(Effect::Read),
        FI_ATOMIC_WRITE => (form != Form::Compare).then_some(Effect::Write),
        FI_CSWAP => swap(Arithmetic::CompareSwap),
        FI_CSWAP_NE => swap(Arithmetic::CompareSwapNe),
        FI_CSWAP_LE => swap(Arithmetic::CompareSwapLe),
        FI_CSWAP_LT => swap(Arithmetic::CompareSwapLt),
        FI_CSWAP_GE => swap(Arithmetic::CompareSwapGe),
        FI_CSWAP_GT => swap(Arithmetic::CompareSwapGt),
        FI_MSWAP => swap(Arithmetic::MaskedSwap),
        _ => None,
    }
}
