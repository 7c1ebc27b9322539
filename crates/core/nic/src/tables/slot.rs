// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Status and generation of a record, in one word.

/// The slot is on the free list. Every other status is the table's own.
pub const FREE: u32 = 0;

#[inline(always)]
pub const fn status(slot: u32) -> u32 {
    slot & 0xff
}
#[inline(always)]
pub const fn generation(slot: u32) -> u32 {
    slot >> 8
}
#[inline(always)]
pub const fn word(generation: u32, status: u32) -> u32 {
    (generation << 8) | status
}

/// The link of a free record to the next free one, relative, so that zeroed records are a free list, each linked to the
/// next: a new table needs no memory before its records are used. A link out of the table ends the list.
#[inline(always)]
pub const fn link(index: u32, next: u32) -> u32 {
    next.wrapping_sub(index).wrapping_sub(1)
}
/// The free record that a link leads to: the inverse of [`link`].
#[inline(always)]
pub const fn next(index: u32, link: u32) -> u32 {
    link.wrapping_add(index).wrapping_add(1)
}
