// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on remote memory access, and on counting puts (seed 004, section 2).

use super::section;
use crate::api::Section;

pub const BLOCKING: Section = section! { "Remote memory access", Shmem:
    /// Copies nelems elements from source to dest at PE pe. Returns when source may be reused; shmem_quiet completes
    /// the put. OpenSHMEM 1.5, 9.6.1.1.
    "void shmem_put(TYPE *dest, const TYPE *source, size_t nelems, int pe)" => "rma::put::<TYPE>" [RMA, BLOCKS], ctx;

    /// Writes one element, value, to dest at PE pe. shmem_quiet completes it. OpenSHMEM 1.5, 9.6.1.2.
    "void shmem_p(TYPE *dest, TYPE value, int pe)" => "rma::p::<TYPE>" [RMA], ctx;

    /// Same as shmem_put, with strides of dst elements in dest and of sst elements in source, both at least 1.
    /// OpenSHMEM 1.5, 9.6.1.3.
    "void shmem_iput(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)"
        => "rma::iput::<TYPE>" [RMA, SIZES], ctx;

    /// Same as shmem_put, for nblocks blocks of bsize elements. Blocks begin dst elements apart in dest and sst apart
    /// in source. Both strides are at least bsize. New in OpenSHMEM 1.6.
    "void shmem_ibput(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe)"
        => "rma::ibput::<TYPE>" [RMA, SIZES], ctx;

    /// Copies nelems elements from source at PE pe to dest. Returns when they are in dest. OpenSHMEM 1.5, 9.6.1.4.
    "void shmem_get(TYPE *dest, const TYPE *source, size_t nelems, int pe)" => "rma::get::<TYPE>" [RMA, BLOCKS], ctx;

    /// Returns one element, read from source at PE pe. OpenSHMEM 1.5, 9.6.1.5.
    "TYPE shmem_g(const TYPE *source, int pe)" => "rma::g::<TYPE>" [RMA], ctx;

    /// Same as shmem_get, with strides of dst elements in dest and of sst elements in source, both at least 1.
    /// OpenSHMEM 1.5, 9.6.1.6.
    "void shmem_iget(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)"
        => "rma::iget::<TYPE>" [RMA, SIZES], ctx;

    /// Same as shmem_get, for nblocks blocks of bsize elements. Blocks begin dst elements apart in dest and sst apart
    /// in source. Both strides are at least bsize. New in OpenSHMEM 1.6.
    "void shmem_ibget(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe)"
        => "rma::ibget::<TYPE>" [RMA, SIZES], ctx;
};

pub const NON_BLOCKING: Section = section! { "Non-blocking remote memory access", Shmem:
    /// Same as shmem_put, but source may be reused only after a shmem_quiet. OpenSHMEM 1.5, 9.6.2.1.
    "void shmem_put_nbi(TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "rma::put_nbi::<TYPE>" [RMA, BLOCKS], ctx;

    /// Same as shmem_get, but the elements are in dest only after a shmem_quiet. OpenSHMEM 1.5, 9.6.2.2.
    "void shmem_get_nbi(TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "rma::get_nbi::<TYPE>" [RMA, BLOCKS], ctx;
};

pub const COUNTING: Section = section! { "Selvedge: counting puts", Shmem:
    /// Makes a counter with the value 0 at every PE and writes its handle to *ct; SHMEM_CT_INVALID if all counters are
    /// in use (SELVEDGE_SHMEM_COUNTERS sets their number, 4096 by default). Collective over all PEs. Returns when all
    /// PEs have called it.
    "void shmem_ct_create(shmem_ct_t *ct)" => "counting::create";

    /// Frees a counter, after a barrier, and sets *ct to SHMEM_CT_INVALID. Collective over all PEs. Does nothing if *ct
    /// is SHMEM_CT_INVALID.
    "void shmem_ct_free(shmem_ct_t *ct)" => "counting::free";

    /// Returns the value of the counter at this PE.
    "long shmem_ct_get(shmem_ct_t ct)" => "counting::get";

    /// Sets the counter at this PE to value. Arrivals during the call are not lost.
    "void shmem_ct_set(shmem_ct_t ct, long value)" => "counting::set";

    /// Waits until the counter at this PE is at least wait_for. The data of the counted puts has then arrived.
    "void shmem_ct_wait(shmem_ct_t ct, long wait_for)" => "counting::wait";

    /// Returns 1 if the counter at this PE is at least wait_for, else 0. Does not wait.
    "int shmem_ct_test(shmem_ct_t ct, long wait_for)" => "counting::test";

    /// Same as shmem_put, and adds 1 to the counter at PE pe after the data has arrived there.
    "void shmem_put_ct(shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::put::<TYPE>" [RMA, BLOCKS], ctx;

    /// Same as shmem_put_ct, but source may be reused only after a shmem_quiet.
    "void shmem_put_ct_nbi(shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::put_nbi::<TYPE>" [RMA, BLOCKS], ctx;

    /// Same as shmem_get, and adds 1 to the counter at PE pe. So PE pe learns that its data has been read.
    "void shmem_get_ct(shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::get_and_count::<TYPE>" [RMA, BLOCKS], ctx;

    /// Same as shmem_p, and adds 1 to the counter at PE pe after the element has arrived there.
    "void shmem_p_ct(shmem_ct_t ct, TYPE *dest, TYPE value, int pe)" => "counting::p::<TYPE>" [RMA], ctx;
};
