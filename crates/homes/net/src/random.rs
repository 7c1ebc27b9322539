// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random bytes of the kernel.

/// Fills at most 256 bytes from the kernel's generator.
pub fn fill_random(bytes: &mut [u8]) -> std::io::Result<()> {
    let filled = rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
    // The kernel returns up to 256 bytes at once, and never fewer.
    if filled == bytes.len() { Ok(()) } else { Err(std::io::Error::other("the kernel gave too few random bytes")) }
}
