// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C types of elements, and the sets of types of families of functions (OpenSHMEM: the tables "Standard RMA Types",
//! "Standard", "Extended" and "Bitwise AMO Types", "Point-to-Point Synchronization Types", "Reduction Types").

/// A type of elements.
#[derive(Debug)]
pub struct Type {
    /// Its name within function names: `shmem_longlong_put`. For a size, the bits; for bytes, `mem`.
    pub name: &'static str,
    /// Its name in C.
    pub c: &'static str,
    /// Its name in Rust; for a size, an integer of that size.
    pub rust: &'static str,
    /// The C type that it is an alias of. `_Generic` and overloads accept each type once.
    pub alias_of: Option<&'static str>,
}

impl Type {
    /// The C type without aliases.
    fn identity(&self) -> &'static str {
        self.alias_of.unwrap_or(self.c)
    }
}

/// The place of the type's name in function names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `shmem_int_put_nbi`
    Infix,
    /// `shmem_put32_nbi`
    Suffix,
}

/// A set of types.
#[derive(Debug)]
pub struct Set {
    /// Its name in the header: `SHMEM_AMO`.
    pub name: &'static str,
    /// Its name in comments.
    pub title: &'static str,
    pub naming: Naming,
    pub types: &'static [&'static Type],
}

impl Set {
    /// The types of the set that are different in C: the first of each kind.
    pub fn distinct(&self) -> Vec<&'static Type> {
        let mut distinct: Vec<&'static Type> = Vec::new();
        for this in self.types {
            if self.naming == Naming::Suffix || distinct.iter().all(|other| other.identity() != this.identity()) {
                distinct.push(this);
            }
        }
        distinct
    }

    /// The types of the set that repeat another one in C.
    pub fn repeated(&self) -> Vec<&'static Type> {
        let distinct = self.distinct();
        self.types.iter().copied().filter(|this| distinct.iter().all(|other| other.name != this.name)).collect()
    }
}

const fn fundamental(name: &'static str, c: &'static str, rust: &'static str) -> Type {
    Type { name, c, rust, alias_of: None }
}

/// An alias that holds on every system where `long` has 64 bits.
const fn alias(name: &'static str, c: &'static str, rust: &'static str, of: &'static str) -> Type {
    Type { name, c, rust, alias_of: Some(of) }
}

const FLOAT: Type = fundamental("float", "float", "f32");
const DOUBLE: Type = fundamental("double", "double", "f64");
const LONGDOUBLE: Type = fundamental("longdouble", "long double", "LongDouble");
const CHAR: Type = fundamental("char", "char", "i8");
const SCHAR: Type = fundamental("schar", "signed char", "i8");
const SHORT: Type = fundamental("short", "short", "i16");
const INT: Type = fundamental("int", "int", "i32");
const LONG: Type = fundamental("long", "long", "i64");
const LONGLONG: Type = fundamental("longlong", "long long", "i64");
const UCHAR: Type = fundamental("uchar", "unsigned char", "u8");
const USHORT: Type = fundamental("ushort", "unsigned short", "u16");
const UINT: Type = fundamental("uint", "unsigned int", "u32");
const ULONG: Type = fundamental("ulong", "unsigned long", "u64");
const ULONGLONG: Type = fundamental("ulonglong", "unsigned long long", "u64");
const INT8: Type = alias("int8", "int8_t", "i8", "signed char");
const INT16: Type = alias("int16", "int16_t", "i16", "short");
const INT32: Type = alias("int32", "int32_t", "i32", "int");
const INT64: Type = alias("int64", "int64_t", "i64", "long");
const UINT8: Type = alias("uint8", "uint8_t", "u8", "unsigned char");
const UINT16: Type = alias("uint16", "uint16_t", "u16", "unsigned short");
const UINT32: Type = alias("uint32", "uint32_t", "u32", "unsigned int");
const UINT64: Type = alias("uint64", "uint64_t", "u64", "unsigned long");
const SIZE: Type = alias("size", "size_t", "u64", "unsigned long");
const PTRDIFF: Type = alias("ptrdiff", "ptrdiff_t", "i64", "long");
/// The header's names for `double _Complex` and `float _Complex`, which C++ cannot name.
const COMPLEXD: Type = fundamental("complexd", "shmem_impl_complexd", "Complex<f64>");
const COMPLEXF: Type = fundamental("complexf", "shmem_impl_complexf", "Complex<f32>");

const BITS_8: Type = fundamental("8", "void", "u8");
const BITS_16: Type = fundamental("16", "void", "u16");
const BITS_32: Type = fundamental("32", "void", "u32");
const BITS_64: Type = fundamental("64", "void", "u64");
const BITS_128: Type = fundamental("128", "void", "u128");
const MEM: Type = fundamental("mem", "void", "u8");

const fn typed(name: &'static str, title: &'static str, types: &'static [&'static Type]) -> Set {
    Set { name, title, naming: Naming::Infix, types }
}

const fn sized(name: &'static str, title: &'static str, types: &'static [&'static Type]) -> Set {
    Set { name, title, naming: Naming::Suffix, types }
}

#[rustfmt::skip]
pub const RMA: Set = typed("RMA", "the standard RMA types", &[
    &FLOAT, &DOUBLE, &LONGDOUBLE, &CHAR, &SCHAR, &SHORT, &INT, &LONG, &LONGLONG,
    &UCHAR, &USHORT, &UINT, &ULONG, &ULONGLONG,
    &INT8, &INT16, &INT32, &INT64, &UINT8, &UINT16, &UINT32, &UINT64, &SIZE, &PTRDIFF,
]);
#[rustfmt::skip]
pub const AMO: Set = typed("AMO", "the standard AMO types", &[
    &INT, &LONG, &LONGLONG, &UINT, &ULONG, &ULONGLONG, &INT32, &INT64, &UINT32, &UINT64, &SIZE, &PTRDIFF,
]);
#[rustfmt::skip]
pub const AMO_EXTENDED: Set = typed("AMO_EXTENDED", "the extended AMO types", &[
    &FLOAT, &DOUBLE,
    &INT, &LONG, &LONGLONG, &UINT, &ULONG, &ULONGLONG, &INT32, &INT64, &UINT32, &UINT64, &SIZE, &PTRDIFF,
]);
pub const AMO_BITWISE: Set =
    typed("AMO_BITWISE", "the bitwise AMO types", &[&UINT, &ULONG, &ULONGLONG, &INT32, &INT64, &UINT32, &UINT64]);
/// The standard AMO types, and two (deprecated since 1.5) for `shmem_wait_until` and `shmem_test` only.
#[rustfmt::skip]
pub const SYNC: Set = typed("SYNC", "the standard AMO types, `short`, `unsigned short`", &[
    &SHORT, &INT, &LONG, &LONGLONG, &USHORT, &UINT, &ULONG, &ULONGLONG, &INT32, &INT64, &UINT32, &UINT64, &SIZE, &PTRDIFF,
]);
/// The types of the deprecated `shmem_TYPE_wait`, and the integers of active-set reductions.
pub const INTEGERS_OLD: Set =
    typed("INTEGERS_OLD", "`short`, `int`, `long`, `long long`", &[&SHORT, &INT, &LONG, &LONGLONG]);
#[rustfmt::skip]
pub const REALS_OLD: Set = typed("REALS_OLD", "`short`, `int`, `long`, `long long`, `float`, `double`, `long double`", &[
    &SHORT, &INT, &LONG, &LONGLONG, &FLOAT, &DOUBLE, &LONGDOUBLE,
]);
#[rustfmt::skip]
pub const NUMBERS_OLD: Set = typed(
    "NUMBERS_OLD",
    "`short`, `int`, `long`, `long long`, `float`, `double`, `long double`, `double _Complex`, `float _Complex`",
    &[&SHORT, &INT, &LONG, &LONGLONG, &FLOAT, &DOUBLE, &LONGDOUBLE, &COMPLEXD, &COMPLEXF],
);
/// The types of the reductions by and, or, xor.
#[rustfmt::skip]
pub const BITWISE: Set = typed("BITWISE", "the unsigned and the fixed-size types", &[
    &UCHAR, &USHORT, &UINT, &ULONG, &ULONGLONG, &INT8, &INT16, &INT32, &INT64, &UINT8, &UINT16, &UINT32, &UINT64, &SIZE,
]);
/// The types of sums and products.
#[rustfmt::skip]
pub const NUMBERS: Set = typed("NUMBERS", "the standard RMA types, `double _Complex`, `float _Complex`", &[
    &FLOAT, &DOUBLE, &LONGDOUBLE, &CHAR, &SCHAR, &SHORT, &INT, &LONG, &LONGLONG,
    &UCHAR, &USHORT, &UINT, &ULONG, &ULONGLONG,
    &COMPLEXD, &COMPLEXF,
    &INT8, &INT16, &INT32, &INT64, &UINT8, &UINT16, &UINT32, &UINT64, &SIZE, &PTRDIFF,
]);

pub const SIZES: Set = sized("SIZES", "8, 16, 32, 64, 128 bits", &[&BITS_8, &BITS_16, &BITS_32, &BITS_64, &BITS_128]);
pub const BLOCKS: Set = sized(
    "BLOCKS",
    "8, 16, 32, 64, 128 bits, and bytes (`mem`)",
    &[&BITS_8, &BITS_16, &BITS_32, &BITS_64, &BITS_128, &MEM],
);
pub const BYTES: Set = sized("BYTES", "bytes (`mem`)", &[&MEM]);
pub const SIZES_OLD: Set = sized("SIZES_OLD", "32, 64 bits", &[&BITS_32, &BITS_64]);

/// All sets, in the order in which headers list them.
#[rustfmt::skip]
pub const SETS: &[&Set] = &[
    &RMA, &AMO, &AMO_EXTENDED, &AMO_BITWISE, &SYNC, &BITWISE, &NUMBERS,
    &INTEGERS_OLD, &REALS_OLD, &NUMBERS_OLD, &SIZES, &BLOCKS, &BYTES, &SIZES_OLD,
];
