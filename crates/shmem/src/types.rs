// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The types of elements that C programs move (OpenSHMEM, "Standard RMA types" and "Reductions").
//!
//! C's `long` and `long long` are both `i64` here, `int8_t` and `signed char` both `i8`, and so on: the table in
//! `api/types.rs` says which. Elements without a type (`shmem_put32`, `shmem_putmem`) are `u8` to `u128`.
//!
//! Invariants
//! 1. Any bytes are an element, so memory that a peer writes can always be read.
//! 2. Layout and size are C's on this machine. Alignment is not guaranteed: a program may pass the address of two
//!    floats to `shmem_put64`. So elements behind a pointer of C are moved as bytes, or read and written unaligned.

/// An element of symmetric memory: plain data that is valid for any bits.
pub trait Element: Copy + 'static {}

macro_rules! elements {
    ($($type:ty)*) => { $(impl Element for $type {})* };
}

elements! { i8 i16 i32 i64 u8 u16 u32 u64 u128 f32 f64 LongDouble Complex<f32> Complex<f64> }

/// C's `long double`: on x86-64 ten bytes of x87 extended precision and six of padding. Rust has no such number. The
/// library only moves it, and the NIC's arithmetic computes with it.
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
