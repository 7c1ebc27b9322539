// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tags of frames and messages: the first 16 bytes of a keyed BLAKE3 hash.

pub(crate) const TAG_BYTES: usize = 16;

pub(crate) fn tag_of(hash: &blake3::Hash) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hash.as_bytes()[..TAG_BYTES]);
    tag
}

/// Compares tags in constant time.
pub(crate) fn are_equal(one: &[u8; TAG_BYTES], other: &[u8; TAG_BYTES]) -> bool {
    u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other) == 0
}
