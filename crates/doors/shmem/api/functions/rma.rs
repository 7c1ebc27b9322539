// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on remote memory access, counting puts among them.

use super::section;
use crate::api::Section;

pub const BLOCKING: Section = section! { "Remote memory access", Shmem:
    /// Copies nelems elements of source to dest at PE pe. source may be used again on return.
    "void shmem_put(TYPE *dest, const TYPE *source, size_t nelems, int pe)" => "rma::put::<TYPE>" [RMA, BLOCKS], ctx;

    /// Writes one element to dest at PE pe.
    "void shmem_p(TYPE *dest, TYPE value, int pe)" => "rma::p::<TYPE>" [RMA], ctx;

    /// As shmem_put, with a stride of dst elements in dest and of sst in source.
    "void shmem_iput(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)"
        => "rma::iput::<TYPE>" [RMA, SIZES], ctx;

    /// As shmem_iput, for nblocks blocks of bsize elements; strides are from block to block.
    "void shmem_ibput(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe)"
        => "rma::ibput::<TYPE>" [RMA, SIZES], ctx;

    /// Copies nelems elements of source at PE pe to dest. They are there on return.
    "void shmem_get(TYPE *dest, const TYPE *source, size_t nelems, int pe)" => "rma::get::<TYPE>" [RMA, BLOCKS], ctx;

    /// Returns one element of source at PE pe.
    "TYPE shmem_g(const TYPE *source, int pe)" => "rma::g::<TYPE>" [RMA], ctx;

    /// As shmem_get, with a stride of dst elements in dest and of sst in source.
    "void shmem_iget(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe)"
        => "rma::iget::<TYPE>" [RMA, SIZES], ctx;

    /// As shmem_iget, for nblocks blocks of bsize elements; strides are from block to block.
    "void shmem_ibget(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t nblocks, int pe)"
        => "rma::ibget::<TYPE>" [RMA, SIZES], ctx;
};

pub const NON_BLOCKING: Section = section! { "Non-blocking remote memory access", Shmem:
    /// As shmem_put; source may be used again after a shmem_quiet.
    "void shmem_put_nbi(TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "rma::put_nbi::<TYPE>" [RMA, BLOCKS], ctx;

    /// As shmem_get; the elements are there after a shmem_quiet.
    "void shmem_get_nbi(TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "rma::get_nbi::<TYPE>" [RMA, BLOCKS], ctx;
};

pub const COUNTING: Section = section! { "Selvedge: counting puts", Shmem:
    /// Makes a counter, 0 at every PE. *ct is SHMEM_CT_INVALID if there are too many. Collective over the world team.
    "void shmem_ct_create(shmem_ct_t *ct)" => "counting::create";

    /// Frees a counter and sets *ct to SHMEM_CT_INVALID. Collective over the world team.
    "void shmem_ct_free(shmem_ct_t *ct)" => "counting::free";

    /// Returns the value of this PE's counter.
    "long shmem_ct_get(shmem_ct_t ct)" => "counting::get";

    /// Sets this PE's counter.
    "void shmem_ct_set(shmem_ct_t ct, long value)" => "counting::set";

    /// Waits until this PE's counter has reached wait_for. The counted data has then arrived.
    "void shmem_ct_wait(shmem_ct_t ct, long wait_for)" => "counting::wait";

    /// Returns 1 if this PE's counter has reached wait_for, else 0.
    "int shmem_ct_test(shmem_ct_t ct, long wait_for)" => "counting::test";

    /// As shmem_put, and adds one to the counter of PE pe once the data is there.
    "void shmem_put_ct(shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::put::<TYPE>" [RMA, BLOCKS], ctx;

    /// As shmem_put_ct; source may be used again after a shmem_quiet.
    "void shmem_put_ct_nbi(shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::put_nbi::<TYPE>" [RMA, BLOCKS], ctx;

    /// As shmem_get, and adds one to the counter of PE pe, which so learns that its data has been read.
    "void shmem_get_ct(shmem_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::get_and_count::<TYPE>" [RMA, BLOCKS], ctx;

    /// As shmem_p, and adds one to the counter of PE pe once the element is there.
    "void shmem_p_ct(shmem_ct_t ct, TYPE *dest, TYPE value, int pe)" => "counting::p::<TYPE>" [RMA], ctx;
};
