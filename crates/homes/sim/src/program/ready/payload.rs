// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payload that identifies its message: a sequence from a seed, which the receiver also computes and compares.

use crate::random::Random;

/// Mixes the identity of a message (source, target, number) into a seed.
pub(super) fn seed(parts: &[u64]) -> u64 {
    parts.iter().fold(0x5e1f, |seed, part| Random::new(seed ^ part, 1).next_u64())
}

/// Returns `bytes` bytes of the payload of a seed.
pub(super) fn payload_of(seed: u64, bytes: u64) -> Vec<u8> {
    let mut data = vec![0; bytes as usize];
    fill(seed, &mut data);
    data
}

pub(super) fn fill(seed: u64, data: &mut [u8]) {
    let mut random = Random::new(seed, 0);
    let mut words = data.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&random.next_u64().to_le_bytes()[..rest.len()]);
}

pub(super) fn is_payload_of(seed: u64, bytes: u64, data: &[u8]) -> bool {
    let mut random = Random::new(seed, 0);
    let mut words = data.chunks_exact(8);
    data.len() as u64 == bytes
        && words.by_ref().all(|word| word == random.next_u64().to_le_bytes())
        && *words.remainder() == random.next_u64().to_le_bytes()[..words.remainder().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_wrong_byte_is_found() {
        for bytes in [1u64, 7, 8, 9, 40] {
            let right = payload_of(3, bytes);
            assert!(is_payload_of(3, bytes, &right));
            assert!(!is_payload_of(4, bytes, &right));
            assert!(!is_payload_of(3, bytes + 1, &right));
            for at in 0..bytes as usize {
                let mut wrong = right.clone();
                wrong[at] ^= 0x10;
                assert!(!is_payload_of(3, bytes, &wrong));
            }
        }
    }
}
