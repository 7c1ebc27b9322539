// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MPI's predefined types and operations (MPI 4.1, 3.2.2 and 6.9.2), and their counterparts in a node's arithmetic.
//!
//! Other types and operations, and pairs that MPI does not define, are left to the MPI.
//!
//! Cost of a look-up: usually one comparison.

use std::ffi::CString;
use std::sync::OnceLock;

use selvedge_collectives::one_host::Elements;
use selvedge_nic::arithmetic::{Datatype, Located, Operation};

use crate::mpi::{Handle, Kind, Mpi, spread};

/// The classes of types, by the operations that MPI defines for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Integer,
    Real,
    Complex,
    Logical,
    Byte,
    /// No operation: the data are only moved.
    Data,
}

/// A predefined type: the name of Open MPI's object, MPICH's number, class, and the node's type.
struct Row(&'static str, u32, Class, Datatype);

use Class::*;
use Datatype::{
    Double, DoubleComplex, Float, FloatComplex, Int8, Int16, Int32, Int64, LongDouble, LongDoubleComplex, Uint8,
    Uint16, Uint32, Uint64,
};

/// 0: MPICH does not have the type. An empty name: Open MPI does not have it.
const TYPES: [Row; 58] = [
    Row("char", 0x4c000101, Data, Int8),
    Row("signed_char", 0x4c000118, Integer, Int8),
    Row("unsigned_char", 0x4c000102, Integer, Uint8),
    Row("byte", 0x4c00010d, Byte, Uint8),
    Row("wchar", 0x4c00040e, Data, Uint32),
    Row("short", 0x4c000203, Integer, Int16),
    Row("unsigned_short", 0x4c000204, Integer, Uint16),
    Row("int", 0x4c000405, Integer, Int32),
    Row("unsigned", 0x4c000406, Integer, Uint32),
    Row("long", 0x4c000807, Integer, Int64),
    Row("unsigned_long", 0x4c000808, Integer, Uint64),
    Row("long_long_int", 0x4c000809, Integer, Int64),
    Row("unsigned_long_long", 0x4c000819, Integer, Uint64),
    Row("float", 0x4c00040a, Real, Float),
    Row("double", 0x4c00080b, Real, Double),
    Row("long_double", 0x4c00100c, Real, LongDouble),
    Row("int8_t", 0x4c000137, Integer, Int8),
    Row("int16_t", 0x4c000238, Integer, Int16),
    Row("int32_t", 0x4c000439, Integer, Int32),
    Row("int64_t", 0x4c00083a, Integer, Int64),
    Row("uint8_t", 0x4c00013b, Integer, Uint8),
    Row("uint16_t", 0x4c00023c, Integer, Uint16),
    Row("uint32_t", 0x4c00043d, Integer, Uint32),
    Row("uint64_t", 0x4c00083e, Integer, Uint64),
    Row("c_bool", 0x4c00013f, Logical, Uint8),
    Row("cxx_bool", 0x4c000133, Logical, Uint8),
    Row("c_complex", 0x4c000840, Complex, FloatComplex),
    Row("c_float_complex", 0, Complex, FloatComplex),
    Row("c_double_complex", 0x4c001041, Complex, DoubleComplex),
    Row("c_long_double_complex", 0x4c002042, Complex, LongDoubleComplex),
    Row("cxx_cplex", 0x4c000834, Complex, FloatComplex),
    Row("cxx_dblcplex", 0x4c001035, Complex, DoubleComplex),
    Row("cxx_ldblcplex", 0x4c002036, Complex, LongDoubleComplex),
    Row("aint", 0x4c000843, Integer, Int64),
    Row("offset", 0x4c000844, Integer, Int64),
    Row("count", 0x4c000845, Integer, Int64),
    Row("character", 0x4c00011a, Data, Int8),
    Row("integer", 0x4c00041b, Integer, Int32),
    Row("integer1", 0x4c00012d, Integer, Int8),
    Row("integer2", 0x4c00022f, Integer, Int16),
    Row("integer4", 0x4c000430, Integer, Int32),
    Row("integer8", 0x4c000831, Integer, Int64),
    Row("real", 0x4c00041c, Real, Float),
    Row("real4", 0x4c000427, Real, Float),
    Row("real8", 0x4c000829, Real, Double),
    Row("dblprec", 0x4c00081f, Real, Double),
    Row("cplex", 0x4c00081e, Complex, FloatComplex),
    Row("complex8", 0x4c000828, Complex, FloatComplex),
    Row("complex16", 0x4c00102a, Complex, DoubleComplex),
    Row("dblcplex", 0x4c001022, Complex, DoubleComplex),
    Row("logical", 0x4c00041d, Logical, Int32),
    Row("logical1", 0x4c000147, Logical, Int8),
    Row("logical2", 0x4c000248, Logical, Int16),
    Row("logical4", 0x4c000449, Logical, Int32),
    Row("logical8", 0x4c00084a, Logical, Int64),
    Row("ub", 0, Data, Int8),
    Row("lb", 0, Data, Int8),
    Row("packed", 0x4c00010f, Data, Uint8),
];

const PAIRS: [(&str, u32, Datatype); 9] = [
    ("float_int", 0x8c000000, Float),
    ("double_int", 0x8c000001, Double),
    ("long_int", 0x8c000002, Int64),
    ("short_int", 0x8c000003, Int16),
    ("2int", 0x4c000816, Int32),
    ("longdbl_int", 0x8c000004, LongDouble),
    ("long_double_int", 0x8c000004, LongDouble),
    ("2integer", 0x4c000820, Int32),
    ("2int32_t", 0, Int32),
];

/// The operations, in the order of MPICH's numbers: 1 to 12.
const OPERATIONS: [(&str, Option<Operation>, Option<Operation>); 12] = [
    ("max", Some(Operation::Max), None),
    ("min", Some(Operation::Min), None),
    ("sum", Some(Operation::Sum), None),
    ("prod", Some(Operation::Prod), None),
    ("land", Some(Operation::Land), None),
    ("band", Some(Operation::Band), None),
    ("lor", Some(Operation::Lor), None),
    ("bor", Some(Operation::Bor), None),
    ("lxor", Some(Operation::Lxor), None),
    ("bxor", Some(Operation::Bxor), None),
    ("minloc", None, Some(Operation::Min)),
    ("maxloc", None, Some(Operation::Max)),
];

const MPICH_FIRST_OPERATION: usize = 0x5800_0001;

/// A predefined type.
#[derive(Clone, Copy, Debug)]
pub struct PredefinedType {
    /// Bytes of data of one element. Elements are contiguous in a buffer, except for pairs.
    pub bytes: usize,
    /// Whether there are no gaps.
    pub is_contiguous: bool,
    elements: [Option<Elements>; 12],
}

/// The types and operations of the process's MPI by their handles.
pub struct Types {
    types: Vec<(Handle, PredefinedType)>,
    /// For each hash of a handle the position above, or none.
    places: Vec<u8>,
    operations: [Handle; 12],
}

const PLACES: usize = 1024;
const NOWHERE: u8 = u8::MAX;

/// The table of the process's MPI.
#[inline]
pub fn of(mpi: &Mpi) -> &'static Types {
    static TABLE: OnceLock<Types> = OnceLock::new();
    TABLE.get_or_init(|| Types::new(mpi))
}

fn object(mpi: &Mpi, prefix: &str, name: &str) -> Option<Handle> {
    mpi.object(&CString::new(format!("{prefix}{name}")).ok()?)
}

/// Whether MPI defines an operation for a class (MPI 4.1, table in 6.9.2).
fn defines(class: Class, operation: Operation) -> bool {
    use Operation::*;
    match operation {
        Max | Min => matches!(class, Integer | Real),
        Sum | Prod => matches!(class, Integer | Real | Complex),
        Land | Lor | Lxor => matches!(class, Integer | Logical),
        Band | Bor | Bxor => matches!(class, Integer | Byte),
        _ => false,
    }
}

impl Types {
    fn new(mpi: &Mpi) -> Types {
        let handle = |name: &str, number: u32| match mpi.kind {
            Kind::OpenMpi => object(mpi, "ompi_mpi_", name),
            Kind::Mpich => (number != 0).then_some(number as usize),
        };
        let values = TYPES.iter().filter_map(|Row(name, number, class, datatype)| {
            let elements = OPERATIONS.map(|(_, operation, _)| {
                operation.filter(|&it| defines(*class, it)).and_then(|it| Elements::of_values(it, *datatype))
            });
            Some((handle(name, *number)?, *datatype, elements))
        });
        let values = values.filter_map(|(handle, datatype, elements)| {
            // The MPI's build may use other sizes than is usual on this machine.
            let bytes = mpi.type_bytes(handle).ok().filter(|&bytes| bytes == datatype.size_bytes())?;
            Some((handle, PredefinedType { bytes, is_contiguous: true, elements }))
        });
        let pairs = PAIRS.iter().filter_map(|(name, number, value)| {
            let (handle, pair) = (handle(name, *number)?, Located::new(*value, Int32)?);
            let elements = OPERATIONS.map(|(.., operation)| operation.and_then(|it| Elements::of_pairs(it, pair)));
            let bytes = mpi.type_bytes(handle).ok()?;
            let is_contiguous = mpi.type_extent(handle).ok()? == bytes as isize;
            Some((handle, PredefinedType { bytes, is_contiguous, elements }))
        });
        let mut types: Vec<(Handle, PredefinedType)> = Vec::new();
        for (handle, predefined) in values.chain(pairs) {
            // Some names stand for the same object.
            if types.iter().all(|(other, _)| *other != handle) {
                types.push((handle, predefined));
            }
        }
        let mut places = vec![NOWHERE; PLACES];
        for (at, (handle, _)) in types.iter().enumerate() {
            let mut place = spread(*handle, PLACES);
            while places[place] != NOWHERE {
                place = (place + 1) % PLACES;
            }
            places[place] = at as u8;
        }
        let operations = std::array::from_fn(|at| match mpi.kind {
            Kind::OpenMpi => object(mpi, "ompi_mpi_op_", OPERATIONS[at].0).unwrap_or(0),
            Kind::Mpich => MPICH_FIRST_OPERATION + at,
        });
        Types { types, places, operations }
    }

    /// A predefined type.
    #[inline]
    pub fn find(&self, handle: Handle) -> Option<&PredefinedType> {
        let mut place = spread(handle, PLACES);
        loop {
            let (found, predefined) = self.types.get(usize::from(self.places[place]))?;
            if *found == handle {
                return Some(predefined);
            }
            place = (place + 1) % PLACES;
        }
    }

    /// The reduction of a type by an operation. `None`: it is left to the MPI.
    #[inline]
    pub fn elements(&self, datatype: Handle, operation: Handle) -> Option<&Elements> {
        let at = self.operations.iter().position(|&it| it == operation)?;
        self.find(datatype)?.elements[at].as_ref()
    }
}
