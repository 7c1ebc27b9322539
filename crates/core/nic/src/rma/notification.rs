// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A notification: two words, in the layout of the later generation.
//!
//! | word | bits | |
//! |---|---|---|
//! | 0 | | the address of the transfer at this node; of a notification put its value; of a lock the value in 63:32, success in 24, number in 23:0 |
//! | 1 | 22:0 | bytes - 1; of a notification put the class in 7:0 |
//! | 1 | 30:23 | VPID of the other side |
//! | 1 | 47:32 | node of the other side |
//! | 1 | 50:48 | the unit that wrote it ([`super::command::spec`]) |
//! | 1 | 54:51 | command code |
//! | 1 | 60:55 | mode ([`super::command::mode`]) |
//! | 1 | 63:61 | the units that found an error ([`super::command::error`]) |
//!
//! The unit is never 0, so word 1 is never 0: a word 1 of 0 is a free entry of a queue.

/// A notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notification {
    pub word0: u64,
    /// Bytes - 1, or the class.
    pub size: u32,
    pub vpid: u8,
    pub node: u16,
    /// The unit that wrote it: one of [`super::command::spec`].
    pub unit: u8,
    pub code: u8,
    pub mode: u8,
    pub error: u8,
}

/// Word 0 of a lock's notification.
pub fn lock_word(value: i32, success: bool, number: u32) -> u64 {
    u64::from(value as u32) << 32 | u64::from(success) << 24 | u64::from(number) & 0xff_ffff
}

impl Notification {
    pub fn encode(&self) -> [u64; 2] {
        let word1 = u64::from(self.size) & 0x7f_ffff
            | u64::from(self.vpid) << 23
            | u64::from(self.node) << 32
            | u64::from(self.unit & 7) << 48
            | u64::from(self.code & 15) << 51
            | u64::from(self.mode & 63) << 55
            | u64::from(self.error & 7) << 61;
        [self.word0, word1]
    }

    pub fn decode([word0, word1]: [u64; 2]) -> Notification {
        Notification {
            word0,
            size: (word1 & 0x7f_ffff) as u32,
            vpid: (word1 >> 23) as u8,
            node: (word1 >> 32) as u16,
            unit: (word1 >> 48) as u8 & 7,
            code: (word1 >> 51) as u8 & 15,
            mode: (word1 >> 55) as u8 & 63,
            error: (word1 >> 61) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same(word0: u64, size in 0..1u32 << 23, vpid: u8, node: u16, unit in 1..8u8, code in 0..16u8, mode in 0..64u8, error in 0..8u8) {
            let notification = Notification { word0, size, vpid, node, unit, code, mode, error };
            prop_assert_eq!(Notification::decode(notification.encode()), notification);
            prop_assert_ne!(notification.encode()[1], 0);
        }
    }
}
