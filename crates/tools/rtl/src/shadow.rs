// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A unit's banks of SRAM, as its trace port shows them: every write is applied, and a shown old word is checked.

use crate::bits::Field;
use crate::error::LockstepError;

/// The fields of a write in a unit's `trace_t`. A word begins at `old` and `new`, the lowest bit first.
#[derive(Clone, Copy, Debug)]
pub struct WriteLayout {
    word_bits: usize,
}

/// A write that the trace shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub bank: usize,
    pub address: usize,
    pub tag: u32,
    /// The old word, if the unit has read it.
    pub old: Option<Vec<u32>>,
    pub new: Vec<u32>,
}

/// The retirement and the writes that a trace port shows in a cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The command that has made its last write.
    pub retired: Option<u32>,
    pub writes: Vec<Write>,
}

impl WriteLayout {
    /// The layout for a unit whose widest word has this number of bits.
    pub const fn new(word_bits: usize) -> WriteLayout {
        WriteLayout { word_bits }
    }

    const fn bits(self) -> usize {
        1 + 4 + 16 + 32 + 1 + 2 * self.word_bits
    }

    /// Reads the port's words: `retire_valid`, `retire_tag`, then the array of writes.
    pub fn trace(self, words: &[u32], writes: usize) -> Trace {
        let retire = writes * self.bits();
        let valid = Field { at: retire + 32, width: 1 }.get(words) == 1;
        let retired = valid.then(|| Field { at: retire, width: 32 }.get(words) as u32);
        let writes = (0..writes).filter_map(|number| self.write(words, number * self.bits())).collect();
        Trace { retired, writes }
    }

    fn write(self, words: &[u32], at: usize) -> Option<Write> {
        let mut above = at + self.bits();
        let mut take = |width: usize| {
            above -= width;
            Field { at: above, width }.get(words)
        };
        if take(1) == 0 {
            return None;
        }
        let (bank, address, tag, known) = (take(4) as usize, take(16) as usize, take(32) as u32, take(1) == 1);
        let word = |from: usize| copy_bits(words, from, self.word_bits);
        Some(Write { bank, address, tag, old: known.then(|| word(at + self.word_bits)), new: word(at) })
    }
}

/// Copies `width` bits from bit `at` on into words.
pub fn copy_bits(words: &[u32], at: usize, width: usize) -> Vec<u32> {
    let part = |number: usize| Field { at: at + 32 * number, width: (width - 32 * number).min(32) }.get(words) as u32;
    (0..width.div_ceil(32)).map(part).collect()
}

/// All banks of a unit.
#[derive(Clone, Debug)]
pub struct Shadow {
    banks: Vec<Bank>,
}

#[derive(Clone, Debug)]
struct Bank {
    /// Number of 32-bit words that make up one word of the bank.
    width: usize,
    words: Vec<u32>,
}

impl Shadow {
    /// Creates banks with this number of words and bits a word, all zero, as after a reset.
    pub fn new(banks: &[(usize, usize)]) -> Shadow {
        let bank = |&(words, bits): &(usize, usize)| Bank {
            width: bits.div_ceil(32),
            words: vec![0; words * bits.div_ceil(32)],
        };
        Shadow { banks: banks.iter().map(bank).collect() }
    }

    /// Applies a write. Fails if the old word differs from the one that the unit has read.
    pub fn apply(&mut self, write: &Write) -> Result<(), LockstepError> {
        let Some(bank) = self.banks.get_mut(write.bank) else { return Err(format!("no bank {}", write.bank).into()) };
        let Some(word) = bank.words.chunks_exact_mut(bank.width).nth(write.address) else {
            return Err(format!("bank {} has no word {}", write.bank, write.address).into());
        };
        if let Some(old) = write.old.as_ref().filter(|old| old[..word.len()] != *word) {
            return Err(format!(
                "bank {} word {}: command {} read {old:x?}, but {word:x?} is there",
                write.bank, write.address, write.tag
            )
            .into());
        }
        word.copy_from_slice(&write.new[..word.len()]);
        Ok(())
    }

    /// Number of words of a bank.
    pub fn count(&self, bank: usize) -> usize {
        let bank = &self.banks[bank];
        bank.words.len() / bank.width
    }

    /// A word of a bank.
    pub fn word(&self, bank: usize, address: usize) -> &[u32] {
        let bank = &self.banks[bank];
        &bank.words[address * bank.width..][..bank.width]
    }
}
