// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The element types that C programs move (OpenSHMEM, "Standard RMA types" and "Reductions").
//!
//! C's `long` and `long long` are both `i64` here, `int8_t` and `signed char` both `i8`, and so on (`api/types.rs`).
//! Elements without a type (`shmem_put32`, `shmem_putmem`) are `u8` to `u128`.
//!
//! Invariants
//! 1. Any bytes are a valid element, so memory that a peer writes can always be read.
//! 2. Layout and size are C's on this machine. Alignment is not guaranteed: a program may pass the address of two
//!    floats to `shmem_put64`. So elements behind a C pointer move as bytes, or are read and written unaligned.

use selvedge_process::nic::arithmetic::Datatype;

/// An element of symmetric memory: plain data that is valid for any bits.
pub trait Element: Copy + 'static {
    /// The NIC's name of the type. `None`: the NIC's arithmetic does not support it.
    const DATATYPE: Option<Datatype>;
}

macro_rules! elements {
    ($($type:ty: $datatype:expr;)*) => {
        $(impl Element for $type {
            const DATATYPE: Option<Datatype> = $datatype;
        })*
    };
}

elements! {
    i8: Some(Datatype::Int8);
    i16: Some(Datatype::Int16);
    i32: Some(Datatype::Int32);
    i64: Some(Datatype::Int64);
    u8: Some(Datatype::Uint8);
    u16: Some(Datatype::Uint16);
    u32: Some(Datatype::Uint32);
    u64: Some(Datatype::Uint64);
    u128: None;
    f32: Some(Datatype::Float);
    f64: Some(Datatype::Double);
    LongDouble: Some(Datatype::LongDouble);
    Complex<f32>: Some(Datatype::FloatComplex);
    Complex<f64>: Some(Datatype::DoubleComplex);
}

/// C's `long double`: on x86-64 ten bytes of x87 extended precision and six of padding. Rust has no such type. The
/// library only moves it; the NIC's arithmetic computes with it.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub struct LongDouble(pub [u8; 16]);

impl LongDouble {
    pub const ZERO: LongDouble = LongDouble([0; 16]);
}

/// C's `float _Complex` and `double _Complex`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Complex<T> {
    pub re: T,
    pub im: T,
}

const _: () = assert!(size_of::<LongDouble>() == 16 && align_of::<LongDouble>() == 16);
const _: () = assert!(size_of::<Complex<f32>>() == 8 && size_of::<Complex<f64>>() == 16);
