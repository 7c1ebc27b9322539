// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packed structs of SystemVerilog as words of 32 bits.
//!
//! The first field of a packed struct has its highest bits. [`layout!`](crate::layout) declares a struct in
//! SystemVerilog's order and numbers its bits from the lowest.

/// A field of a packed struct: its lowest bit and its width (1 to 64 bits; wider ones are read in parts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub at: usize,
    pub width: usize,
}

impl Field {
    /// Reads the field from these words. Panics if the words end before the field, or it has more than 64 bits.
    pub fn get(self, words: &[u32]) -> u64 {
        assert!(self.width <= 64, "{self:?} has more than 64 bits");
        let bit = |at: usize| u64::from(words[at / 32] >> (at % 32) & 1);
        if self.at % 32 == 0 && self.width == 32 {
            return u64::from(words[self.at / 32]);
        }
        let mut value = 0;
        let mut taken = 0;
        while taken < self.width {
            let at = self.at + taken;
            let here = (32 - at % 32).min(self.width - taken);
            if here == 1 {
                value |= bit(at) << taken;
            } else {
                value |= (u64::from(words[at / 32]) >> (at % 32) & ((1 << here) - 1)) << taken;
            }
            taken += here;
        }
        value
    }

    /// Writes the field into these words. Panics if the words end before the field, or the value does not fit.
    pub fn set(self, words: &mut [u32], value: u64) {
        assert!(self.width >= 64 || value >> self.width == 0, "{value:#x} has more bits than {self:?}");
        let mut taken = 0;
        while taken < self.width {
            let at = self.at + taken;
            let here = (32 - at % 32).min(self.width - taken);
            let mask = ((1u64 << here) - 1) as u32;
            let word = &mut words[at / 32];
            *word = *word & !(mask << (at % 32)) | ((value >> taken) as u32 & mask) << (at % 32);
            taken += here;
        }
    }

    /// The same field in a struct that begins at this bit.
    pub const fn within(self, at: usize) -> Field {
        Field { at: self.at + at, width: self.width }
    }
}

/// Declares a module with a [`Field`] for each field of a packed struct, in the order of SystemVerilog (the highest
/// bits first), its `BITS`, `WORDS` of 32 bits, and the fields with their names as `FIELDS`.
///
/// ```
/// selvedge_rtl::layout! {
///     /// A command.
///     pub mod command { TAG: 32, GIVE: 1, INDEX: 16 }
/// }
/// assert_eq!(command::INDEX.at, 0);
/// assert_eq!((command::TAG.at, command::BITS, command::WORDS), (17, 49, 2));
/// ```
#[macro_export]
macro_rules! layout {
    ($(#[$about:meta])* $vis:vis mod $name:ident { $($field:ident: $width:expr),* $(,)? }) => {
        $(#[$about])*
        $vis mod $name {
            #![allow(unused, reason = "a layout names every field")]
            use super::*;
            use $crate::bits::Field;
            const WIDTHS: &[(&str, usize)] = &[$((stringify!($field), $width)),*];
            /// Bits of the struct.
            pub const BITS: usize = 0 $(+ $width)*;
            /// Words of 32 bits that hold it.
            pub const WORDS: usize = BITS.div_ceil(32);
            const fn field(name: &str) -> Field {
                let mut at = BITS;
                let mut number = 0;
                while number < WIDTHS.len() {
                    at -= WIDTHS[number].1;
                    if $crate::bits::same(WIDTHS[number].0, name) {
                        return Field { at, width: WIDTHS[number].1 };
                    }
                    number += 1;
                }
                panic!("no such field")
            }
            $(pub const $field: Field = field(stringify!($field));)*
            /// All fields, the highest bits first.
            pub const FIELDS: &[(&str, Field)] = &[$((stringify!($field), $field)),*];
        }
    };
}

/// Whether two names are equal.
#[doc(hidden)]
pub const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_to_their_bits() {
        for at in 0..70 {
            for width in 1..=64 {
                let field = Field { at, width };
                let most = if width == 64 { u64::MAX } else { (1 << width) - 1 };
                for fill in [0, u32::MAX] {
                    let mut words = [fill; 5];
                    let value = 0x9e37_79b9_7f4a_7c15 & most;
                    field.set(&mut words, value);
                    assert_eq!(field.get(&words), value);
                    field.set(&mut words, if fill == 0 { 0 } else { most });
                    assert_eq!(words, [fill; 5]);
                }
            }
        }
    }
}
