// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layouts of datatypes in bytes, for puts and gets.
//!
//! MPICH sends the data of a long put or get in pieces: of 100 KiB if both sides have gaps, else of 16 KiB. Where a
//! piece ends within a number, as it may with structures of numbers of several lengths, MPICH drops the rest of the
//! data, or fails an assertion (4.0 to 5.0 at least). So a datatype with such numbers is replaced by one that has the
//! same bytes at the same places in the same order, all of type `MPI_BYTE`, whose pieces end between numbers. Puts and
//! gets only move bytes, hence the result is the same.
//!
//! A datatype keeps its layout as an attribute, and frees it; that of a predefined pair lasts for the operation. Costs:
//! a look-up for each operation with a derived datatype and more than [`PIECE`] bytes; once, a second description of the
//! datatype.

use std::sync::Mutex;

use selvedge_os::sync::IgnorePoison;

use crate::datatypes::{Contents, Datatypes, Made, Unknown, combiner, datatypes};
use crate::mpich::{BYTE, Handle};

/// The length of the shortest pieces. Operations up to this length have one piece.
const PIECE: i64 = 16 * 1024;
/// Numbers of one length, up to this power of two, never lie across the end of a piece.
const NUMBER_MAX: i64 = 1024;

/// A datatype for an operation.
pub struct InBytes {
    pub handle: Handle,
    /// Frees the datatype after the call. MPI allows that while the operation goes on.
    _made: Option<Made<'static>>,
}

/// Returns the datatype, or its layout in bytes if an operation with `count` elements needs it.
pub fn in_bytes(datatype: Handle, count: i64) -> InBytes {
    let handle = datatype as u32;
    // MPICH's handles: a kind in the first two bits (1: basic types; 0: no object), then 3 for datatypes.
    let is_derived = handle >> 30 > 1 && handle >> 26 & 0xf == 3;
    let unchanged = || InBytes { handle: datatype, _made: None };
    if !is_derived || count < 1 {
        return unchanged();
    }
    let found = datatypes().and_then(|datatypes| find(datatypes, handle as i32, count).unwrap_or(None));
    found.unwrap_or_else(unchanged)
}

fn find(datatypes: &'static Datatypes, datatype: i32, count: i64) -> Result<Option<InBytes>, Unknown> {
    if datatypes.size(datatype)?.saturating_mul(count) <= PIECE {
        return Ok(None);
    }
    let of_handle = |handle: i32| InBytes { handle: handle as u32 as Handle, _made: None };
    // Otherwise two threads might each make a layout, and the second would free the first one's.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().ignore_poison();
    if let Some(kept) = datatypes.kept(datatype) {
        return Ok(kept.map(of_handle));
    }
    let mut made = make(datatypes, datatype).unwrap_or(None);
    if let Some(made) = &mut made {
        made.commit()?;
    }
    match made {
        // A predefined datatype is never freed, so that its layout would be left at the end.
        Some(made) if datatypes.is_predefined(datatype)? => {
            Ok(Some(InBytes { handle: made.handle() as u32 as Handle, _made: Some(made) }))
        }
        made => Ok(datatypes.keep(datatype, made)?.map(of_handle)),
    }
}

/// Makes the layout. `None`: all numbers have one length, so that no piece ends within one.
fn make(datatypes: &Datatypes, datatype: i32) -> Result<Option<Made<'_>>, Unknown> {
    match describe(datatypes, datatype)? {
        (_, Numbers::Alike(_)) => Ok(None),
        (layout, Numbers::Mixed) => layout.made(datatypes).map(Some),
    }
}

/// The lengths of a datatype's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// All have this length, or there are none and it is 0.
    Alike(i64),
    Mixed,
}

impl Numbers {
    fn of(bytes: i64) -> Self {
        let is_safe = bytes <= NUMBER_MAX && (bytes == 0 || bytes & (bytes - 1) == 0);
        if is_safe { Self::Alike(bytes) } else { Self::Mixed }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Alike(0), other) | (other, Self::Alike(0)) => other,
            (Self::Alike(one), Self::Alike(other)) if one == other => self,
            _ => Self::Mixed,
        }
    }
}

enum Layout<'a> {
    /// This number of bytes from the start, without gaps. The extent is the same.
    Dense(i64),
    Made(Made<'a>),
}

impl<'a> Layout<'a> {
    /// A datatype, and the number of its elements in one element of the layout.
    fn unit(&self) -> (i32, i64) {
        match self {
            Self::Dense(bytes) => (BYTE, *bytes),
            Self::Made(made) => (made.handle(), 1),
        }
    }

    fn made(self, datatypes: &'a Datatypes) -> Result<Made<'a>, Unknown> {
        match self {
            Self::Dense(bytes) => datatypes.contiguous(bytes, BYTE),
            Self::Made(made) => Ok(made),
        }
    }

    /// The layout with these bounds.
    fn bounded(self, datatypes: &'a Datatypes, (lower, extent): (i64, i64)) -> Result<Self, Unknown> {
        let has = match &self {
            Self::Dense(bytes) => (0, *bytes),
            Self::Made(made) => datatypes.extent(made.handle())?,
        };
        if has == (lower, extent) {
            return Ok(self);
        }
        Ok(Self::Made(datatypes.resized(self.made(datatypes)?.handle(), lower, extent)?))
    }
}

type Described<'a> = Result<(Layout<'a>, Numbers), Unknown>;

fn describe(datatypes: &Datatypes, datatype: i32) -> Described<'_> {
    let contents = datatypes.contents(datatype)?;
    let bounds = datatypes.extent(datatype)?;
    let (layout, numbers) = match contents.combiner {
        combiner::NAMED => named(datatypes, datatype, bounds)?,
        combiner::F90_REAL | combiner::F90_COMPLEX | combiner::F90_INTEGER => {
            (Layout::Dense(bounds.1), Numbers::of(bounds.1))
        }
        combiner::STRUCT => structure(datatypes, &contents)?,
        _ => of_one(datatypes, &contents)?,
    };
    Ok((layout.bounded(datatypes, bounds)?, numbers))
}

/// A predefined datatype: a number, or a value and an index (`MPI_DOUBLE_INT` and others), which C lays out.
fn named(datatypes: &Datatypes, datatype: i32, (_, extent): (i64, i64)) -> Described<'_> {
    let size = datatypes.size(datatype)?;
    if datatype as u32 >> 30 == 1 {
        return if size == extent { Ok((Layout::Dense(size), Numbers::of(size))) } else { Err(Unknown) };
    }
    let index = size_of::<i32>() as i64;
    let value = size - index;
    let at = (value + index - 1) / index * index;
    let layout = blocks(datatypes, [(0, value), (at, index)].into_iter())?;
    Ok((layout, Numbers::of(value).and(Numbers::of(index))))
}

/// Blocks of bytes: displacement and length of each, in the order of the data.
fn blocks(datatypes: &Datatypes, blocks: impl Iterator<Item = (i64, i64)>) -> Result<Layout<'_>, Unknown> {
    let (at, lengths) = joined(blocks);
    match (&at[..], &lengths[..]) {
        ([], []) => Ok(Layout::Dense(0)),
        ([0], [bytes]) => Ok(Layout::Dense(*bytes)),
        _ => Ok(Layout::Made(datatypes.indexed(&lengths, &at, BYTE)?)),
    }
}

/// Joins blocks that follow each other.
fn joined(blocks: impl Iterator<Item = (i64, i64)>) -> (Vec<i64>, Vec<i64>) {
    let (mut at, mut lengths): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    for (start, bytes) in blocks.filter(|(_, bytes)| *bytes > 0) {
        match (at.last(), lengths.last_mut()) {
            (Some(before), Some(length)) if before + *length == start => *length += bytes,
            _ => {
                at.push(start);
                lengths.push(bytes);
            }
        }
    }
    (at, lengths)
}

fn structure<'a>(datatypes: &'a Datatypes, contents: &Contents<'_>) -> Described<'a> {
    let (lengths, at) = contents.numbers.get(1..).ok_or(Unknown)?.split_at(contents.types.len());
    let members = contents.types.iter().map(|member| describe(datatypes, *member));
    let (members, numbers): (Vec<_>, Vec<_>) = members.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let numbers = numbers.into_iter().fold(Numbers::of(0), Numbers::and);
    let units: Vec<_> = members.iter().map(Layout::unit).collect();
    let lengths: Vec<_> = lengths.iter().zip(&units).map(|(length, (_, times))| length * times).collect();
    let layout = if units.iter().all(|(unit, _)| *unit == BYTE) {
        blocks(datatypes, at.iter().copied().zip(lengths))?
    } else {
        let units: Vec<_> = units.iter().map(|(unit, _)| *unit).collect();
        Layout::Made(datatypes.structure(&lengths, at, &units)?)
    };
    Ok((layout, numbers))
}

/// A datatype that was made from one other.
fn of_one<'a>(datatypes: &'a Datatypes, contents: &Contents<'_>) -> Described<'a> {
    let of = *contents.types.first().ok_or(Unknown)?;
    let (part, numbers) = describe(datatypes, of)?;
    let (_, extent) = datatypes.extent(of)?;
    let (unit, times) = part.unit();
    let layout = match (contents.combiner, &contents.numbers[..]) {
        (combiner::DUP | combiner::RESIZED, _) => part,
        (combiner::CONTIGUOUS, [count]) if unit == BYTE => Layout::Dense(count * times),
        (combiner::CONTIGUOUS, [count]) => Layout::Made(datatypes.contiguous(*count, unit)?),
        (combiner::VECTOR, [count, length, stride]) => {
            Layout::Made(datatypes.vector(*count, length * times, stride * extent, unit)?)
        }
        (combiner::HVECTOR, [count, length, stride]) => {
            Layout::Made(datatypes.vector(*count, length * times, *stride, unit)?)
        }
        (combiner::INDEXED, [count, rest @ ..]) => {
            let (lengths, at) = rest.split_at_checked(*count as usize).ok_or(Unknown)?;
            indexed(datatypes, at.iter().map(|at| at * extent).zip(lengths.iter().copied()), (unit, times))?
        }
        (combiner::HINDEXED, [count, rest @ ..]) => {
            let (lengths, at) = rest.split_at_checked(*count as usize).ok_or(Unknown)?;
            indexed(datatypes, at.iter().copied().zip(lengths.iter().copied()), (unit, times))?
        }
        (combiner::INDEXED_BLOCK, [_, length, at @ ..]) => {
            indexed(datatypes, at.iter().map(|at| (at * extent, *length)), (unit, times))?
        }
        (combiner::HINDEXED_BLOCK, [_, length, at @ ..]) => {
            indexed(datatypes, at.iter().map(|at| (*at, *length)), (unit, times))?
        }
        (combiner::SUBARRAY, _) => subarray(datatypes, contents, part)?,
        (combiner::DARRAY, _) => darray(datatypes, contents, part)?,
        _ => return Err(Unknown),
    };
    Ok((layout, numbers))
}

/// Blocks of elements: displacement in bytes and number of elements of each.
fn indexed(
    datatypes: &Datatypes,
    elements: impl Iterator<Item = (i64, i64)>,
    (unit, times): (i32, i64),
) -> Result<Layout<'_>, Unknown> {
    if unit == BYTE {
        return blocks(datatypes, elements.map(|(at, length)| (at, length * times)));
    }
    let (at, lengths): (Vec<_>, Vec<_>) = elements.unzip();
    Ok(Layout::Made(datatypes.indexed(&lengths, &at, unit)?))
}

fn subarray<'a>(datatypes: &'a Datatypes, contents: &Contents<'_>, part: Layout<'a>) -> Result<Layout<'a>, Unknown> {
    let [dimensions, others @ ..] = &contents.numbers[..] else { return Err(Unknown) };
    let dimensions = *dimensions as usize;
    // With large counts the order comes first.
    let (order, lengths) = if contents.counts.is_empty() { others.split_last() } else { others.split_first() }
        .filter(|(_, lengths)| lengths.len() == 3 * dimensions)
        .ok_or(Unknown)?;
    let (sizes, rest) = lengths.split_at(dimensions);
    let (subsizes, starts) = rest.split_at(dimensions);
    let part = part.made(datatypes)?;
    Ok(Layout::Made(datatypes.subarray([sizes, subsizes, starts], *order as i32, part.handle())?))
}

fn darray<'a>(datatypes: &'a Datatypes, contents: &Contents<'_>, part: Layout<'a>) -> Result<Layout<'a>, Unknown> {
    let [size, rank, dimensions, others @ ..] = &contents.integers[..] else { return Err(Unknown) };
    let dimensions = *dimensions as usize;
    // With large counts the sizes are apart.
    let (sizes, others) = if contents.counts.is_empty() {
        let (sizes, others) = others.split_at_checked(dimensions).ok_or(Unknown)?;
        (sizes.iter().map(|size| i64::from(*size)).collect(), others)
    } else {
        (contents.counts.clone(), others)
    };
    let (order, others) = others.split_last().filter(|(_, rest)| rest.len() == 3 * dimensions).ok_or(Unknown)?;
    let (by, rest) = others.split_at(dimensions);
    let (arguments, processes) = rest.split_at(dimensions);
    let part = part.made(datatypes)?;
    let made = datatypes.darray([*size, *rank, *order], &sizes, [by, arguments, processes], part.handle())?;
    Ok(Layout::Made(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_follow_each_other_are_one() {
        assert_eq!(joined([(0, 4), (4, 8), (16, 1), (17, 0), (17, 3)].into_iter()), (vec![0, 16], vec![12, 4]));
        assert_eq!(joined([(8, 8), (0, 8)].into_iter()), (vec![8, 0], vec![8, 8]), "the order of the data stays");
        assert_eq!(joined([(3, 0)].into_iter()), (vec![], vec![]));
    }

    #[test]
    fn numbers_of_several_lengths_are_mixed() {
        let of = |lengths: &[i64]| lengths.iter().map(|bytes| Numbers::of(*bytes)).fold(Numbers::of(0), Numbers::and);
        assert_eq!(of(&[8, 8, 0, 8]), Numbers::Alike(8));
        assert_eq!(of(&[4, 8]), Numbers::Mixed);
        assert_eq!(of(&[12]), Numbers::Mixed, "it divides no piece");
        assert_eq!(of(&[4, 8, 8]), Numbers::Mixed);
    }

    #[test]
    fn other_handles_stay() {
        for handle in [0, BYTE as u32 as Handle, 0x0c00_0000, 0x8400_0001, Handle::MAX] {
            assert_eq!(in_bytes(handle, i64::MAX).handle, handle);
        }
        assert_eq!(in_bytes(0x8c00_0001, 0).handle, 0x8c00_0001);
    }
}
