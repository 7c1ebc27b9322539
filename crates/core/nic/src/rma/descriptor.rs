// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The descriptor of the later generation: three words, which a program stores to a requester page.
//!
//! | word | bits | |
//! |---|---|---|
//! | 0 | 1:0 | 3 |
//! | 0 | 5:2 | command code ([`super::command::code`]) |
//! | 0 | 15:8 | destination VPID |
//! | 0 | 31:16 | destination node |
//! | 0 | 34:32 | notifications ([`super::command::spec`]) |
//! | 0 | 38:35 | modifiers |
//! | 0 | 62:40 | bytes - 1; of an immediate put bytes - 1 in 42:40; of a notification put the class in 47:40; of a lock the target unit in 40 |
//! | 1 | | read address; of an immediate put the write address; of a notification put the value; of a lock compare in 63:32, number in 23:0 |
//! | 2 | | write address; of an immediate put the value; of a lock the addend in 63:32 |
//!
//! Any three words decode to an operation, or are refused.

use super::command::code;

/// The most bytes of one command of the later generation.
pub const BYTES_MAX: u32 = 1 << 23;
const LOCK_MASK: u64 = 0xff_ffff;

/// The operation in a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Local bytes at `read` to the remote address `write`.
    Put { read: u64, write: u64, bytes: u32 },
    /// Remote bytes at `read` to the local address `write`.
    Get { read: u64, write: u64, bytes: u32 },
    /// The low `bytes` bytes of `value` to the remote address `write`.
    ImmediatePut { write: u64, value: u64, bytes: u32 },
    /// A notification with a value at the destination.
    NotificationPut { value: u64, class: u8 },
    /// Fetch, compare and add ([`super::locks`]).
    Lock { number: u32, compare: i32, add: i32 },
}

/// A command for the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The command code, which distinguishes puts and gets of bytes from those of quadwords.
    pub code: u8,
    pub node: u16,
    pub vpid: u8,
    pub spec: u8,
    pub modifiers: u8,
    pub operation: Operation,
}

/// Reasons for which three words are not a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorError {
    /// Unknown command.
    Command(u8),
    /// A quadword command whose addresses or size are not multiples of 8.
    Alignment,
}

impl Descriptor {
    pub fn encode(&self) -> [u64; 3] {
        let field = |bytes: u32| u64::from(bytes.wrapping_sub(1)) & 0x7f_ffff;
        let (extra, first, second) = match self.operation {
            Operation::Put { read, write, bytes } | Operation::Get { read, write, bytes } => {
                (field(bytes), read, write)
            }
            Operation::ImmediatePut { write, value, bytes } => (field(bytes) & 7, write, value),
            Operation::NotificationPut { value, class } => (class.into(), value, 0),
            Operation::Lock { number, compare, add } => {
                let compared = u64::from(compare as u32) << 32 | u64::from(number) & LOCK_MASK;
                (1, compared, u64::from(add as u32) << 32)
            }
        };
        let head = 3
            | u64::from(self.code & 15) << 2
            | u64::from(self.vpid) << 8
            | u64::from(self.node) << 16
            | u64::from(self.spec & 7) << 32
            | u64::from(self.modifiers & 15) << 35
            | extra << 40;
        [head, first, second]
    }

    pub fn decode(words: &[u64; 3]) -> Result<Descriptor, DescriptorError> {
        let [head, first, second] = *words;
        let code = (head >> 2) as u8 & 15;
        let bytes = (head >> 40 & 0x7f_ffff) as u32 + 1;
        let operation = match code {
            code::BT_PUT | code::QW_PUT => Operation::Put { read: first, write: second, bytes },
            code::BT_GET | code::QW_GET => Operation::Get { read: first, write: second, bytes },
            code::IMMEDIATE_PUT => {
                Operation::ImmediatePut { write: first, value: second, bytes: (head >> 40) as u32 % 8 + 1 }
            }
            code::NOTIFICATION_PUT => Operation::NotificationPut { value: first, class: (head >> 40) as u8 },
            code::LOCK => Operation::Lock {
                number: (first & LOCK_MASK) as u32,
                compare: (first >> 32) as i32,
                add: (second >> 32) as i32,
            },
            other => return Err(DescriptorError::Command(other)),
        };
        if matches!(code, code::QW_PUT | code::QW_GET) && (first | second | u64::from(bytes)) % 8 != 0 {
            return Err(DescriptorError::Alignment);
        }
        Ok(Descriptor {
            code,
            node: (head >> 16) as u16,
            vpid: (head >> 8) as u8,
            spec: (head >> 32) as u8 & 7,
            modifiers: (head >> 35) as u8 & 15,
            operation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_operation() -> impl Strategy<Value = (u8, Operation)> {
        let aligned = || any::<u64>().prop_map(|address| address & !7);
        prop_oneof![
            (any::<u64>(), any::<u64>(), 1..=BYTES_MAX)
                .prop_map(|(read, write, bytes)| (code::BT_PUT, Operation::Put { read, write, bytes })),
            (any::<u64>(), any::<u64>(), 1..=BYTES_MAX)
                .prop_map(|(read, write, bytes)| (code::BT_GET, Operation::Get { read, write, bytes })),
            (aligned(), aligned(), 1..=BYTES_MAX / 8)
                .prop_map(|(read, write, words)| (code::QW_PUT, Operation::Put { read, write, bytes: words * 8 })),
            (aligned(), aligned(), 1..=BYTES_MAX / 8)
                .prop_map(|(read, write, words)| (code::QW_GET, Operation::Get { read, write, bytes: words * 8 })),
            (any::<u64>(), any::<u64>(), 1..=8u32).prop_map(|(write, value, bytes)| {
                (code::IMMEDIATE_PUT, Operation::ImmediatePut { write, value, bytes })
            }),
            (any::<u64>(), any::<u8>())
                .prop_map(|(value, class)| (code::NOTIFICATION_PUT, Operation::NotificationPut { value, class })),
            (0..1u32 << 24, any::<i32>(), any::<i32>())
                .prop_map(|(number, compare, add)| (code::LOCK, Operation::Lock { number, compare, add })),
        ]
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_the_same((code, operation) in any_operation(), node: u16, vpid: u8, spec in 0..8u8, modifiers in 0..16u8) {
            let descriptor = Descriptor { code, node, vpid, spec, modifiers, operation };
            prop_assert_eq!(Descriptor::decode(&descriptor.encode()), Ok(descriptor));
        }

        #[test]
        fn any_words_decode_or_are_refused(words: [u64; 3]) {
            if let Ok(descriptor) = Descriptor::decode(&words) {
                prop_assert_eq!(Descriptor::decode(&descriptor.encode()), Ok(descriptor));
            }
        }
    }
}
