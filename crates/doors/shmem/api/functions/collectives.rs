// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on collectives, over teams and over the active sets that they replace.

use super::section;
use crate::api::Section;

pub const SYNCHRONISATION: Section = section! { "Collectives: barrier and sync", Shmem:
    /// Completes all operations of the default context and waits until all PEs have called it. OpenSHMEM 1.5, 9.9.1.
    "void shmem_barrier_all(void)" => "collective::barrier_all";

    /// Waits until all PEs have called it. Makes their earlier stores to memory visible; does not complete puts and
    /// other operations. OpenSHMEM 1.5, 9.9.4.
    "void shmem_sync_all(void)" => "collective::sync_all";

    /// Same as shmem_sync_all, for the PEs of team. Returns 0 on success, nonzero for an invalid team. Its type-generic
    /// name is shmem_sync. OpenSHMEM 1.5, 9.9.3.
    "int shmem_team_sync(shmem_team_t team)" => "team::sync", when_first_is("shmem_team_t", "shmem_sync");
};

pub const EXCHANGE: Section = section! { "Collectives: moving data", Shmem:
    /// Exchanges blocks of nelems elements among the PEs of team: block i of source goes to PE i, and block i of dest
    /// comes from PE i. Returns 0 when dest is complete and source may be reused, nonzero on an error. OpenSHMEM 1.5,
    /// 9.9.5.
    "int shmem_alltoall(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::alltoall::<TYPE>" [RMA, BYTES];

    /// Same as shmem_alltoall, with strides of dst elements in dest and of sst elements in source, both at least 1.
    /// OpenSHMEM 1.5, 9.9.6.
    "int shmem_alltoalls(shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems)"
        => "collective::alltoalls::<TYPE>" [RMA, BYTES];

    /// Copies nelems elements from source at PE pe_root of team to dest at every PE of team, the root included. Returns
    /// 0 when dest is complete and source may be reused, nonzero on an error. OpenSHMEM 1.5, 9.9.7.
    "int shmem_broadcast(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int pe_root)"
        => "collective::broadcast::<TYPE>" [RMA, BYTES];

    /// Concatenates the sources of all PEs of team, in the order of PE numbers, in dest at every PE. nelems may differ
    /// between PEs. Returns 0 when dest is complete and source may be reused, nonzero on an error. OpenSHMEM 1.5,
    /// 9.9.8.
    "int shmem_collect(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::collect::<TYPE>" [RMA, BYTES];

    /// Same as shmem_collect, with the same nelems at every PE. OpenSHMEM 1.5, 9.9.8.
    "int shmem_fcollect(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::fcollect::<TYPE>" [RMA, BYTES];
};

pub const REDUCTIONS: Section = section! { "Collectives: reductions", Shmem:
    /// Computes the bitwise AND of the sources of all PEs of team, for each of nreduce elements, and writes it to dest
    /// at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error.
    /// OpenSHMEM 1.5, 9.9.9.1.
    "int shmem_and_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::And>" [BITWISE];

    /// Computes the bitwise OR of the sources of all PEs of team, for each of nreduce elements, and writes it to dest
    /// at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error.
    /// OpenSHMEM 1.5, 9.9.9.2.
    "int shmem_or_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Or>" [BITWISE];

    /// Computes the bitwise XOR of the sources of all PEs of team, for each of nreduce elements, and writes it to dest
    /// at every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error.
    /// OpenSHMEM 1.5, 9.9.9.3.
    "int shmem_xor_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Xor>" [BITWISE];

    /// Computes the maximum of the sources of all PEs of team, for each of nreduce elements, and writes it to dest at
    /// every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error.
    /// OpenSHMEM 1.5, 9.9.9.4.
    "int shmem_max_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Max>" [RMA];

    /// Computes the minimum of the sources of all PEs of team, for each of nreduce elements, and writes it to dest at
    /// every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error.
    /// OpenSHMEM 1.5, 9.9.9.5.
    "int shmem_min_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Min>" [RMA];

    /// Computes the sum of the sources of all PEs of team, for each of nreduce elements, and writes it to dest at every
    /// PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error. OpenSHMEM
    /// 1.5, 9.9.9.6.
    "int shmem_sum_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Sum>" [NUMBERS];

    /// Computes the product of the sources of all PEs of team, for each of nreduce elements, and writes it to dest at
    /// every PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error.
    /// OpenSHMEM 1.5, 9.9.9.7.
    "int shmem_prod_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Prod>" [NUMBERS];
};

pub const SCANS: Section = section! { "Collectives: scans", Shmem:
    /// Writes the sum of the sources of this PE and all PEs of team before it to dest, for each of nelems elements.
    /// dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error. New in
    /// OpenSHMEM 1.6.
    "int shmem_sum_inscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::inscan::<TYPE>" [NUMBERS];

    /// Writes the sum of the sources of all PEs of team before this one to dest, for each of nelems elements; 0 at the
    /// first PE. dest may be source. Returns 0 when dest is complete and source may be reused, nonzero on an error. New
    /// in OpenSHMEM 1.6.
    "int shmem_sum_exscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::exscan::<TYPE>" [NUMBERS];
};

pub const ACTIVE_SETS: Section = section! { "Collectives over active sets", Shmem:
    /// Completes all operations of the default context and waits until all PEs of the active set have called it. The
    /// active set is pe_size PEs: pe_start, and others at distances of 2^log_pe_stride. psync is a symmetric array of
    /// SHMEM_SYNC_SIZE elements. Each holds SHMEM_SYNC_VALUE before the call and on return. OpenSHMEM 1.5, 9.9.2.
    "void shmem_barrier(int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::barrier", deprecated("1.5");

    /// Same as shmem_sync_all, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.3.
    "void shmem_sync(int pe_start, int log_pe_stride, int pe_size, long *psync)" => "active_set::sync", deprecated("1.5");

    /// Copies nelems elements from source at the root to dest at all other PEs of an active set (see shmem_barrier).
    /// pe_root is the number of the root within the set. dest of the root is not written. OpenSHMEM 1.5, 9.9.7.
    "void shmem_broadcast(TYPE *dest, const TYPE *source, size_t nelems, int pe_root, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::broadcast::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// Same as the collect of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.8.
    "void shmem_collect(TYPE *dest, const TYPE *source, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::collect::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// Same as the fcollect of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.8.
    "void shmem_fcollect(TYPE *dest, const TYPE *source, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::fcollect::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// Same as the alltoall of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.5.
    "void shmem_alltoall(TYPE *dest, const TYPE *source, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::alltoall::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// Same as the alltoalls of a team, for an active set (see shmem_barrier). OpenSHMEM 1.5, 9.9.6.
    "void shmem_alltoalls(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::alltoalls::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// Same as shmem_and_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks for
    /// max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.1.
    "void shmem_and_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::And>" [INTEGERS_OLD], no_generic, deprecated("1.5");

    /// Same as shmem_or_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks for
    /// max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.2.
    "void shmem_or_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Or>" [INTEGERS_OLD], no_generic, deprecated("1.5");

    /// Same as shmem_xor_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks for
    /// max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.3.
    "void shmem_xor_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Xor>" [INTEGERS_OLD], no_generic, deprecated("1.5");

    /// Same as shmem_max_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks for
    /// max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.4.
    "void shmem_max_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Max>" [REALS_OLD], no_generic, deprecated("1.5");

    /// Same as shmem_min_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks for
    /// max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.5.
    "void shmem_min_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Min>" [REALS_OLD], no_generic, deprecated("1.5");

    /// Same as shmem_sum_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks for
    /// max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.6.
    "void shmem_sum_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Sum>" [NUMBERS_OLD], no_generic, deprecated("1.5");

    /// Same as shmem_prod_reduce, for an active set (see shmem_barrier). pwrk is not used. The specification asks for
    /// max(nreduce/2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) elements of it. OpenSHMEM 1.5, 9.9.9.7.
    "void shmem_prod_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Prod>" [NUMBERS_OLD], no_generic, deprecated("1.5");
};
