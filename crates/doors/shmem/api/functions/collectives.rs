// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on collectives, over teams and over the active sets that they replace.

use super::section;
use crate::api::Section;

pub const SYNCHRONISATION: Section = section! { "Collectives: barrier and sync", Shmem:
    /// Completes all operations of the default context, everywhere, and waits for all PEs.
    "void shmem_barrier_all(void)" => "collective::barrier_all";

    /// Waits for all PEs. Completes only the stores of the PEs themselves.
    "void shmem_sync_all(void)" => "collective::sync_all";

    /// As shmem_sync_all, for the PEs of team. Returns 0 on success. Its type-generic name is shmem_sync.
    "int shmem_team_sync(shmem_team_t team)" => "team::sync", when_first_is("shmem_team_t", "shmem_sync");
};

pub const EXCHANGE: Section = section! { "Collectives: moving data", Shmem:
    /// Sends nelems elements from each PE of team to each: source block i goes to PE i, dest block i comes from PE i.
    /// Returns 0 on success, as do all collectives with a result.
    "int shmem_alltoall(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::alltoall::<TYPE>" [RMA, BYTES];

    /// As shmem_alltoall, with strides of dst and sst elements.
    "int shmem_alltoalls(shmem_team_t team, TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems)"
        => "collective::alltoalls::<TYPE>" [RMA, BYTES];

    /// Copies nelems elements of source at PE pe_root of team to dest at every PE of it, the root included.
    "int shmem_broadcast(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems, int pe_root)"
        => "collective::broadcast::<TYPE>" [RMA, BYTES];

    /// Puts the sources of all PEs of team in dest, one behind the other. nelems may differ from PE to PE.
    "int shmem_collect(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::collect::<TYPE>" [RMA, BYTES];

    /// As shmem_collect, with the same nelems at every PE.
    "int shmem_fcollect(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::fcollect::<TYPE>" [RMA, BYTES];
};

pub const REDUCTIONS: Section = section! { "Collectives: reductions", Shmem:
    /// Bitwise and over the PEs of team, element by element. Every PE gets the result.
    "int shmem_and_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::And>" [BITWISE];

    /// Bitwise or.
    "int shmem_or_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Or>" [BITWISE];

    /// Bitwise exclusive or.
    "int shmem_xor_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Xor>" [BITWISE];

    /// The greatest.
    "int shmem_max_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Max>" [RMA];

    /// The least.
    "int shmem_min_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Min>" [RMA];

    /// The sum.
    "int shmem_sum_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Sum>" [NUMBERS];

    /// The product.
    "int shmem_prod_reduce(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nreduce)"
        => "collective::reduce::<TYPE, op::Prod>" [NUMBERS];
};

pub const SCANS: Section = section! { "Collectives: scans", Shmem:
    /// The sum over the PEs of team up to this one, this one included, element by element.
    "int shmem_sum_inscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::inscan::<TYPE>" [NUMBERS];

    /// The sum over the PEs of team before this one; 0 at the first.
    "int shmem_sum_exscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::exscan::<TYPE>" [NUMBERS];
};

pub const ACTIVE_SETS: Section = section! { "Collectives over active sets", Shmem:
    /// As shmem_barrier_all, for pe_size PEs: pe_start, and others at distances of 2^log_pe_stride. psync is symmetric,
    /// has SHMEM_SYNC_SIZE elements of SHMEM_SYNC_VALUE, and has them again on return, here and below.
    "void shmem_barrier(int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::barrier", deprecated("1.5");

    /// As shmem_sync_all.
    "void shmem_sync(int pe_start, int log_pe_stride, int pe_size, long *psync)" => "active_set::sync", deprecated("1.5");

    /// As the team's. The root is counted within the set; its dest is not written.
    "void shmem_broadcast(TYPE *dest, const TYPE *source, size_t nelems, int pe_root, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::broadcast::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// As the team's.
    "void shmem_collect(TYPE *dest, const TYPE *source, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::collect::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// As the team's.
    "void shmem_fcollect(TYPE *dest, const TYPE *source, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::fcollect::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// As the team's.
    "void shmem_alltoall(TYPE *dest, const TYPE *source, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::alltoall::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// As the team's.
    "void shmem_alltoalls(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, \
     int pe_start, int log_pe_stride, int pe_size, long *psync)"
        => "active_set::alltoalls::<TYPE>" [SIZES_OLD], deprecated("1.5");

    /// Bitwise and. pwrk has room for SHMEM_REDUCE_MIN_WRKDATA_SIZE elements, here and below.
    "void shmem_and_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::And>" [INTEGERS_OLD], no_generic, deprecated("1.5");

    /// Bitwise or.
    "void shmem_or_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Or>" [INTEGERS_OLD], no_generic, deprecated("1.5");

    /// Bitwise exclusive or.
    "void shmem_xor_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Xor>" [INTEGERS_OLD], no_generic, deprecated("1.5");

    /// The greatest.
    "void shmem_max_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Max>" [REALS_OLD], no_generic, deprecated("1.5");

    /// The least.
    "void shmem_min_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Min>" [REALS_OLD], no_generic, deprecated("1.5");

    /// The sum.
    "void shmem_sum_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Sum>" [NUMBERS_OLD], no_generic, deprecated("1.5");

    /// The product.
    "void shmem_prod_to_all(TYPE *dest, const TYPE *source, int nreduce, \
     int pe_start, int log_pe_stride, int pe_size, TYPE *pwrk, long *psync)"
        => "active_set::to_all::<TYPE, op::Prod>" [NUMBERS_OLD], no_generic, deprecated("1.5");
};
