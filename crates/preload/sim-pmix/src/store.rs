// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Values that ranks publish under keys, and their encoding as bytes.
//!
//! A stored value is its type and the bytes of its member of the union; for a pointer, the bytes that it points to.

use std::collections::BTreeMap;
use std::ffi::CStr;

use crate::sys::{ByteObject, Data, Proc, Value, kind};

/// A value without pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub kind: u16,
    pub bytes: Vec<u8>,
}

/// Width in bytes of a type whose value is in the union itself; `None` for other types.
pub fn width(kind: u16) -> Option<usize> {
    Some(match kind {
        // Bool, byte, 8 bits.
        1 | 2 | 7 | 12 => 1,
        8 | 13 => 2,
        // Process id, int, 32 bits, float, status, rank.
        5 | 6 | 9 | 11 | 14 | 16 | 20 | kind::PROC_RANK => 4,
        // Size, 64 bits, double, time.
        4 | 10 | 15 | 17 | 19 => 8,
        _ => return None,
    })
}

impl Stored {
    pub fn text(text: &str) -> Stored {
        Stored { kind: kind::STRING, bytes: text.as_bytes().to_vec() }
    }

    pub fn uint16(number: u16) -> Stored {
        Stored { kind: kind::UINT16, bytes: number.to_ne_bytes().to_vec() }
    }

    pub fn uint32(number: u32) -> Stored {
        Stored { kind: kind::UINT32, bytes: number.to_ne_bytes().to_vec() }
    }

    pub fn rank(number: u32) -> Stored {
        Stored { kind: kind::PROC_RANK, bytes: number.to_ne_bytes().to_vec() }
    }

    pub fn flag(on: bool) -> Stored {
        Stored { kind: kind::BOOL, bytes: vec![u8::from(on)] }
    }

    pub fn size(number: usize) -> Stored {
        Stored { kind: kind::SIZE, bytes: number.to_ne_bytes().to_vec() }
    }

    /// Copies a value. `None`: values of its type cannot be published.
    ///
    /// # Safety
    /// `value` is as `pmix.h` requires: its pointer, if its type has one, is valid.
    pub unsafe fn of(value: &Value) -> Option<Stored> {
        // SAFETY: `kind` says which member was written. This function requires that a pointer in it is valid: a string is a C string,
        // a byte object has `size` bytes, and a process is a `pmix_proc_t`. `width` is at most 8 bytes, which `data` holds.
        let bytes = unsafe {
            match value.kind {
                kind::STRING if value.data.string.is_null() => Vec::new(),
                kind::STRING => CStr::from_ptr(value.data.string).to_bytes().to_vec(),
                kind::BYTE_OBJECT => {
                    let ByteObject { bytes, size } = value.data.bytes;
                    crate::sys::slice_at(bytes, size).to_vec()
                }
                kind::PROC if !value.data.process.is_null() => {
                    crate::sys::slice_at(value.data.process.cast::<u8>(), size_of::<Proc>()).to_vec()
                }
                kind => {
                    let start = (&raw const value.data).cast::<u8>();
                    crate::sys::slice_at(start, width(kind)?).to_vec()
                }
            }
        };
        Some(Stored { kind: value.kind, bytes })
    }

    /// Makes a `pmix_value_t` with C library memory. `None`: out of memory, or the bytes do not fit the type.
    pub fn to_value(&self) -> Option<Value> {
        let mut value = Value { kind: self.kind, data: Data { words: [0; 3] } };
        match self.kind {
            kind::STRING => value.data.string = copied(&self.bytes, 1)?.cast(),
            kind::BYTE_OBJECT => {
                value.data.bytes = ByteObject { bytes: copied(&self.bytes, 0)?, size: self.bytes.len() };
            }
            kind::PROC if self.bytes.len() == size_of::<Proc>() => {
                value.data.process = copied(&self.bytes, 0)?.cast();
            }
            kind if width(kind) == Some(self.bytes.len()) => {
                let mut words = [0u8; 24];
                words[..self.bytes.len()].copy_from_slice(&self.bytes);
                // A `bool` may only be 0 or 1.
                if kind == kind::BOOL {
                    words[0] = u8::from(words[0] != 0);
                }
                let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap_or_default());
                value.data.words = [word(0), word(8), word(16)];
            }
            _ => return None,
        }
        Some(value)
    }
}

/// Copies bytes into memory from the C library's allocator, followed by zeros.
pub fn copied(bytes: &[u8], zeros: usize) -> Option<*mut u8> {
    // SAFETY: `calloc` returned at least `bytes.len()` bytes, or null, which is checked. New memory does not overlap `bytes`.
    unsafe {
        let memory = libc::calloc(1, (bytes.len() + zeros).max(1)).cast::<u8>();
        if memory.is_null() {
            return None;
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory, bytes.len());
        Some(memory)
    }
}

/// The values that one rank has published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    pub values: BTreeMap<String, Stored>,
}

impl Published {
    /// Encodes each entry as the lengths of key and value, the type, the key and the value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (key, value) in &self.values {
            out.extend((key.len() as u32).to_le_bytes());
            out.extend((value.bytes.len() as u32).to_le_bytes());
            out.extend(value.kind.to_le_bytes());
            out.extend(key.as_bytes());
            out.extend(&value.bytes);
        }
        out
    }

    /// Adds the entries of a rank. Returns false if the bytes are malformed; earlier entries were added.
    pub fn add(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let Some((entry, rest)) = entry_in(bytes) else { return false };
            self.values.insert(entry.0, entry.1);
            bytes = rest;
        }
        true
    }
}

type Entry<'a> = ((String, Stored), &'a [u8]);

fn entry_in(bytes: &[u8]) -> Option<Entry<'_>> {
    let (head, rest) = bytes.split_at_checked(10)?;
    let length = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?) as usize);
    let kind = u16::from_le_bytes(head.get(8..10)?.try_into().ok()?);
    let (key, rest) = rest.split_at_checked(length(0)?)?;
    let (value, rest) = rest.split_at_checked(length(4)?)?;
    Some(((String::from_utf8(key.to_vec()).ok()?, Stored { kind, bytes: value.to_vec() }), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published() -> Published {
        let values = [
            ("a", Stored::text("some text")),
            ("b", Stored::uint32(7)),
            ("empty", Stored { kind: kind::BYTE_OBJECT, bytes: Vec::new() }),
        ];
        Published { values: values.map(|(key, value)| (key.to_owned(), value)).into() }
    }

    #[test]
    fn published_values_arrive() {
        let mut there = Published::default();
        assert!(there.add(&published().to_bytes()));
        assert_eq!(there, published());
        // A second value under the same key replaces the first.
        let again = Published { values: [("b".to_owned(), Stored::uint32(8))].into() };
        assert!(there.add(&again.to_bytes()));
        assert_eq!(there.values["b"], Stored::uint32(8));
    }

    #[test]
    fn malformed_bytes_are_refused() {
        let whole = published().to_bytes();
        for end in 1..whole.len() {
            let mut there = Published::default();
            let cut = there.add(&whole[..end]);
            let entries = there.to_bytes().len();
            assert_eq!(cut, entries == end, "cut after {end} bytes");
        }
        assert!(!Published::default().add(&[0xff; 64]));
    }

    #[test]
    fn values_survive_a_round_trip() {
        let mut process = Proc { nspace: [0; 256], rank: 3 };
        process.nspace[..3].copy_from_slice(b"job");
        let mut bytes = [1u8, 2, 0, 4];
        let values = [
            Value { kind: kind::STRING, data: Data { string: c"text".as_ptr().cast_mut() } },
            Value { kind: kind::UINT16, data: Data { uint16: 65535 } },
            Value { kind: kind::SIZE, data: Data { size: usize::MAX } },
            Value { kind: kind::BOOL, data: Data { flag: true } },
            Value { kind: kind::PROC, data: Data { process: &mut process } },
            Value { kind: kind::BYTE_OBJECT, data: Data { bytes: ByteObject { bytes: bytes.as_mut_ptr(), size: 4 } } },
        ];
        for value in &values {
            // SAFETY: each value's pointer, if it has one, points to a variable of this function or to a constant.
            let stored = unsafe { Stored::of(value) }.expect("of a type that can be published");
            let back = stored.to_value().expect("there is memory");
            // SAFETY: `to_value` has just allocated what `back` points to.
            assert_eq!(unsafe { Stored::of(&back) }, Some(stored), "type {}", value.kind);
        }
        let pointer = Value { kind: 31, data: Data { words: [1, 0, 0] } };
        // SAFETY: the value is refused for its type, so its words are not read as a pointer.
        assert_eq!(unsafe { Stored::of(&pointer) }, None, "addresses mean nothing elsewhere");
        assert!(Stored { kind: kind::UINT32, bytes: vec![1] }.to_value().is_none());
    }
}
