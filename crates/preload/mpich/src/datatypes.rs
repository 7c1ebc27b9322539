// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPICH's functions for datatypes, in their variants for large counts (MPI 4.0).

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use selvedge_os::library::{loaded, symbol};

use crate::mpich::{DATATYPE_NULL, FILES, SUCCESS};

type Attribute = *mut c_void;
type Delete = extern "C" fn(i32, c_int, Attribute, *mut c_void) -> c_int;

/// The functions, and the key under which a datatype keeps its layout in bytes.
pub struct Datatypes {
    size: unsafe extern "C" fn(i32, *mut i64) -> c_int,
    get_extent: unsafe extern "C" fn(i32, *mut i64, *mut i64) -> c_int,
    get_envelope: unsafe extern "C" fn(i32, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int) -> c_int,
    get_contents: unsafe extern "C" fn(i32, i64, i64, i64, i64, *mut c_int, *mut isize, *mut i64, *mut i32) -> c_int,
    contiguous: unsafe extern "C" fn(i64, i32, *mut i32) -> c_int,
    hvector: unsafe extern "C" fn(i64, i64, i64, i32, *mut i32) -> c_int,
    hindexed: unsafe extern "C" fn(i64, *const i64, *const i64, i32, *mut i32) -> c_int,
    structure: unsafe extern "C" fn(i64, *const i64, *const i64, *const i32, *mut i32) -> c_int,
    subarray: unsafe extern "C" fn(c_int, *const i64, *const i64, *const i64, c_int, i32, *mut i32) -> c_int,
    darray: unsafe extern "C" fn(
        c_int,
        c_int,
        c_int,
        *const i64,
        *const c_int,
        *const c_int,
        *const c_int,
        c_int,
        i32,
        *mut i32,
    ) -> c_int,
    resized: unsafe extern "C" fn(i32, i64, i64, *mut i32) -> c_int,
    commit: unsafe extern "C" fn(*mut i32) -> c_int,
    free: unsafe extern "C" fn(*mut i32) -> c_int,
    set_attribute: unsafe extern "C" fn(i32, c_int, Attribute) -> c_int,
    get_attribute: unsafe extern "C" fn(i32, c_int, *mut Attribute, *mut c_int) -> c_int,
    key: c_int,
}

/// An MPI function failed, or the datatype was made in a way that this library does not know.
#[derive(Debug)]
pub struct Unknown;

/// A datatype that this process has made. It is freed on drop.
pub struct Made<'a> {
    datatypes: &'a Datatypes,
    handle: i32,
}

impl Made<'_> {
    pub fn handle(&self) -> i32 {
        self.handle
    }

    pub fn commit(&mut self) -> Result<(), Unknown> {
        // SAFETY: the handle is a datatype of this value's.
        checked(unsafe { (self.datatypes.commit)(&mut self.handle) })
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is a datatype of this value's, and not used afterwards.
        unsafe { (self.datatypes.free)(&mut self.handle) };
    }
}

/// How a datatype was made (MPI 4.1, 5.1.13): the constructor, its numbers and its datatypes.
pub struct Contents<'a> {
    pub combiner: c_int,
    pub integers: Vec<c_int>,
    /// Counts and displacements of a constructor for large counts.
    pub counts: Vec<i64>,
    /// All numbers. Both variants of a constructor have the same order here, except `subarray` and `darray`.
    pub numbers: Vec<i64>,
    pub types: Vec<i32>,
    _freed: Vec<Made<'a>>,
}

/// Names of constructors (`MPI_COMBINER_NAMED` ...) in MPICH's ABI.
pub mod combiner {
    use std::ffi::c_int;

    pub const NAMED: c_int = 1;
    pub const DUP: c_int = 2;
    pub const CONTIGUOUS: c_int = 3;
    pub const VECTOR: c_int = 4;
    pub const HVECTOR: c_int = 6;
    pub const INDEXED: c_int = 7;
    pub const HINDEXED: c_int = 9;
    pub const INDEXED_BLOCK: c_int = 10;
    pub const STRUCT: c_int = 12;
    pub const SUBARRAY: c_int = 13;
    pub const DARRAY: c_int = 14;
    pub const F90_REAL: c_int = 15;
    pub const F90_COMPLEX: c_int = 16;
    pub const F90_INTEGER: c_int = 17;
    pub const RESIZED: c_int = 18;
    pub const HINDEXED_BLOCK: c_int = 19;
}

/// The functions, if MPICH has all of them: since 4.0.
pub fn datatypes() -> Option<&'static Datatypes> {
    static DATATYPES: OnceLock<Option<Datatypes>> = OnceLock::new();
    DATATYPES.get_or_init(find).as_ref()
}

fn find() -> Option<Datatypes> {
    let library = FILES.into_iter().find_map(loaded)?;
    let mut key = 0;
    // SAFETY: the library stays loaded, and MPICH's functions of these names have these types. A copy of a datatype
    // does not inherit the attribute, because there is no function for copies.
    unsafe {
        let create_key: unsafe extern "C" fn(*const c_void, Delete, *mut c_int, *mut c_void) -> c_int =
            symbol(library, c"PMPI_Type_create_keyval")?;
        let found = Datatypes {
            size: symbol(library, c"PMPI_Type_size_c")?,
            get_extent: symbol(library, c"PMPI_Type_get_extent_c")?,
            get_envelope: symbol(library, c"PMPI_Type_get_envelope_c")?,
            get_contents: symbol(library, c"PMPI_Type_get_contents_c")?,
            contiguous: symbol(library, c"PMPI_Type_contiguous_c")?,
            hvector: symbol(library, c"PMPI_Type_create_hvector_c")?,
            hindexed: symbol(library, c"PMPI_Type_create_hindexed_c")?,
            structure: symbol(library, c"PMPI_Type_create_struct_c")?,
            subarray: symbol(library, c"PMPI_Type_create_subarray_c")?,
            darray: symbol(library, c"PMPI_Type_create_darray_c")?,
            resized: symbol(library, c"PMPI_Type_create_resized_c")?,
            commit: symbol(library, c"PMPI_Type_commit")?,
            free: symbol(library, c"PMPI_Type_free")?,
            set_attribute: symbol(library, c"PMPI_Type_set_attr")?,
            get_attribute: symbol(library, c"PMPI_Type_get_attr")?,
            key: 0,
        };
        let made = create_key(ptr::null(), delete, &mut key, ptr::null_mut());
        (made == SUCCESS).then_some(Datatypes { key, ..found })
    }
}

/// MPICH calls this when it frees a datatype that has a layout in bytes.
extern "C" fn delete(_: i32, _: c_int, value: Attribute, _: *mut c_void) -> c_int {
    let mut handle = value as usize as i32;
    if let (Some(datatypes), false) = (datatypes(), handle == DATATYPE_NULL) {
        // SAFETY: the attribute is a datatype of this library's, and nothing uses it after this one.
        unsafe { (datatypes.free)(&mut handle) };
    }
    SUCCESS
}

fn checked(code: c_int) -> Result<(), Unknown> {
    if code == SUCCESS { Ok(()) } else { Err(Unknown) }
}

impl Datatypes {
    /// Bytes of data in one element.
    pub fn size(&self, datatype: i32) -> Result<i64, Unknown> {
        let mut size = 0;
        // SAFETY: the place for the result lives across the call; MPICH checks the handle.
        checked(unsafe { (self.size)(datatype, &mut size) })?;
        Ok(size)
    }

    /// Lower bound and extent.
    pub fn extent(&self, datatype: i32) -> Result<(i64, i64), Unknown> {
        let (mut lower, mut extent) = (0, 0);
        // SAFETY: the places for the results live across the call; MPICH checks the handle.
        checked(unsafe { (self.get_extent)(datatype, &mut lower, &mut extent) })?;
        Ok((lower, extent))
    }

    fn envelope(&self, datatype: i32) -> Result<([i64; 4], c_int), Unknown> {
        let ([mut integers, mut addresses, mut counts, mut types], mut combiner) = ([0; 4], 0);
        // SAFETY: the places for the results live across the call; MPICH checks the handle.
        checked(unsafe {
            (self.get_envelope)(datatype, &mut integers, &mut addresses, &mut counts, &mut types, &mut combiner)
        })?;
        Ok(([integers, addresses, counts, types], combiner))
    }

    pub fn is_predefined(&self, datatype: i32) -> Result<bool, Unknown> {
        let (_, combiner) = self.envelope(datatype)?;
        Ok(matches!(combiner, combiner::NAMED | combiner::F90_REAL | combiner::F90_COMPLEX | combiner::F90_INTEGER))
    }

    pub fn contents(&self, datatype: i32) -> Result<Contents<'_>, Unknown> {
        let (lengths, combiner) = self.envelope(datatype)?;
        let [of_integers, of_addresses, of_counts, of_types] = lengths;
        let mut integers: Vec<c_int> = vec![0; of_integers as usize];
        let mut addresses: Vec<isize> = vec![0; of_addresses as usize];
        let mut counts: Vec<i64> = vec![0; of_counts as usize];
        let mut types: Vec<i32> = vec![0; of_types as usize];
        if combiner != combiner::NAMED {
            // SAFETY: the arrays have these lengths.
            checked(unsafe {
                (self.get_contents)(
                    datatype,
                    of_integers,
                    of_addresses,
                    of_counts,
                    of_types,
                    integers.as_mut_ptr(),
                    addresses.as_mut_ptr(),
                    counts.as_mut_ptr(),
                    types.as_mut_ptr(),
                )
            })?;
        }
        // The caller frees the datatypes, except predefined ones.
        let derived = types.iter().filter(|part| self.is_predefined(**part).is_ok_and(|is| !is));
        let freed = derived.map(|part| Made { datatypes: self, handle: *part }).collect();
        let addresses = addresses.into_iter().map(|address| address as i64);
        let numbers = integers.iter().map(|integer| i64::from(*integer));
        let numbers = numbers.chain(addresses).chain(counts.iter().copied()).collect();
        Ok(Contents { combiner, integers, counts, numbers, types, _freed: freed })
    }

    /// Makes a datatype by a function that writes its handle.
    fn make(&self, make: impl FnOnce(*mut i32) -> c_int) -> Result<Made<'_>, Unknown> {
        let mut handle = DATATYPE_NULL;
        checked(make(&mut handle))?;
        Ok(Made { datatypes: self, handle })
    }

    pub fn contiguous(&self, count: i64, of: i32) -> Result<Made<'_>, Unknown> {
        // SAFETY: there is a place for the handle; MPICH checks the rest.
        self.make(|made| unsafe { (self.contiguous)(count, of, made) })
    }

    /// `count` blocks of `length` elements, whose starts are `stride` bytes apart.
    pub fn vector(&self, count: i64, length: i64, stride: i64, of: i32) -> Result<Made<'_>, Unknown> {
        // SAFETY: there is a place for the handle; MPICH checks the rest.
        self.make(|made| unsafe { (self.hvector)(count, length, stride, of, made) })
    }

    /// Blocks of these lengths in elements, at these displacements in bytes.
    pub fn indexed(&self, lengths: &[i64], at: &[i64], of: i32) -> Result<Made<'_>, Unknown> {
        assert_eq!(lengths.len(), at.len());
        // SAFETY: there is a place for the handle, and the arrays have this length.
        self.make(|made| unsafe { (self.hindexed)(at.len() as i64, lengths.as_ptr(), at.as_ptr(), of, made) })
    }

    pub fn structure(&self, lengths: &[i64], at: &[i64], of: &[i32]) -> Result<Made<'_>, Unknown> {
        assert!(lengths.len() == at.len() && at.len() == of.len());
        // SAFETY: there is a place for the handle, and the arrays have this length.
        self.make(|made| unsafe { (self.structure)(at.len() as i64, lengths.as_ptr(), at.as_ptr(), of.as_ptr(), made) })
    }

    /// `sizes`, `subsizes` and `starts`, each with a number for every dimension.
    pub fn subarray(&self, [sizes, subsizes, starts]: [&[i64]; 3], order: c_int, of: i32) -> Result<Made<'_>, Unknown> {
        assert!(sizes.len() == subsizes.len() && sizes.len() == starts.len());
        let dimensions = sizes.len() as c_int;
        // SAFETY: there is a place for the handle, and the arrays have this length.
        self.make(|made| unsafe {
            (self.subarray)(dimensions, sizes.as_ptr(), subsizes.as_ptr(), starts.as_ptr(), order, of, made)
        })
    }

    /// `numbers`: distributions, their arguments, and process counts, each for every dimension.
    pub fn darray(
        &self,
        [size, rank, order]: [c_int; 3],
        sizes: &[i64],
        numbers: [&[c_int]; 3],
        of: i32,
    ) -> Result<Made<'_>, Unknown> {
        assert!(numbers.iter().all(|numbers| numbers.len() == sizes.len()));
        let ([by, arguments, processes], dimensions) = (numbers.map(<[c_int]>::as_ptr), sizes.len() as c_int);
        // SAFETY: there is a place for the handle, and the arrays have this length.
        self.make(|made| unsafe {
            (self.darray)(size, rank, dimensions, sizes.as_ptr(), by, arguments, processes, order, of, made)
        })
    }

    pub fn resized(&self, of: i32, lower: i64, extent: i64) -> Result<Made<'_>, Unknown> {
        // SAFETY: there is a place for the handle; MPICH checks the rest.
        self.make(|made| unsafe { (self.resized)(of, lower, extent, made) })
    }

    /// The layout in bytes that a datatype keeps. `Some(None)`: it needs none.
    pub fn kept(&self, datatype: i32) -> Option<Option<i32>> {
        let (mut value, mut found) = (ptr::null_mut(), 0);
        // SAFETY: the places for the results live across the call; MPICH checks the rest.
        checked(unsafe { (self.get_attribute)(datatype, self.key, &mut value, &mut found) }).ok()?;
        let handle = value as usize as i32;
        (found != 0).then_some((handle != DATATYPE_NULL).then_some(handle))
    }

    /// The datatype keeps this layout in bytes, or that it needs none, until it is freed. Returns the layout.
    pub fn keep(&self, datatype: i32, made: Option<Made<'_>>) -> Result<Option<i32>, Unknown> {
        let handle = made.as_ref().map_or(DATATYPE_NULL, Made::handle);
        // SAFETY: MPICH checks the handle of the datatype.
        checked(unsafe { (self.set_attribute)(datatype, self.key, handle as u32 as usize as Attribute) })?;
        std::mem::forget(made);
        Ok((handle != DATATYPE_NULL).then_some(handle))
    }
}
