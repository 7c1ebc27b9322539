// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words that the processes exchange when a group forms.

/// Version of these words.
pub const VERSION: u64 = 2;

/// The words of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    pub version: u64,
    /// Its end node plus one. 0: it takes no part.
    pub node: u64,
    /// The number of the group, if the process is the first. 2^32 or more: it has none.
    pub number: u64,
    /// Longest operation that it wants nodes to carry out, in bytes.
    pub longest: u64,
}

impl Hello {
    const WORDS: usize = 4;

    pub fn words(&self) -> [u64; Hello::WORDS] {
        [self.version, self.node, self.number, self.longest]
    }

    /// The words of all processes, in their order.
    pub fn all(words: &[u64]) -> Vec<Hello> {
        let chunks = words.chunks_exact(Hello::WORDS);
        let hello = |words: &[u64]| match *words {
            [version, node, number, longest] => Some(Hello { version, node, number, longest }),
            _ => None,
        };
        chunks.filter_map(hello).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_said() {
        let hello = |node| Hello { version: VERSION, node, number: 7, longest: 9 };
        let words: Vec<u64> = (0..3).flat_map(|process| hello(process).words()).collect();
        assert_eq!(Hello::all(&words), [hello(0), hello(1), hello(2)]);
        assert_eq!(Hello::all(&words[..7]), [hello(0)]);
    }
}
