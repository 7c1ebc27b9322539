// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections of `shmemx.h`: the names of Sandia OpenSHMEM for counting puts, and for functions that OpenSHMEM
//! 1.6 has made standard.

use super::section;
use crate::api::Section;

pub const COUNTING: Section = section! { "Counting puts", Shmemx:
    /// shmem_ct_create.
    "void shmemx_ct_create(shmemx_ct_t *ct)" => "counting::create";

    /// shmem_ct_free.
    "void shmemx_ct_free(shmemx_ct_t *ct)" => "counting::free";

    /// shmem_ct_get.
    "long shmemx_ct_get(shmemx_ct_t ct)" => "counting::get";

    /// shmem_ct_set.
    "void shmemx_ct_set(shmemx_ct_t ct, long value)" => "counting::set";

    /// shmem_ct_wait.
    "void shmemx_ct_wait(shmemx_ct_t ct, long wait_for)" => "counting::wait";

    /// shmem_ct_test.
    "int shmemx_ct_test(shmemx_ct_t ct, long wait_for)" => "counting::test";

    /// shmem_putmem_ct.
    "void shmemx_put_ct(shmemx_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::put::<TYPE>" [BYTES], default_ctx;

    /// shmem_getmem_ct.
    "void shmemx_get_ct(shmemx_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::get_and_count::<TYPE>" [BYTES], default_ctx;
};

pub const RMA: Section = section! { "Remote memory access in blocks", Shmemx:
    /// shmem_ibput.
    "void shmemx_ibput(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, \
     size_t bsize, size_t nblocks, int pe)" => "rma::ibput::<TYPE>" [RMA, SIZES], ctx;

    /// shmem_ibget.
    "void shmemx_ibget(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, \
     size_t bsize, size_t nblocks, int pe)" => "rma::ibget::<TYPE>" [RMA, SIZES], ctx;
};

pub const SIGNALS: Section = section! { "Signals", Shmemx:
    /// shmem_signal_add.
    "void shmemx_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_add", ctx, when_first_is("shmem_ctx_t", "shmemx_signal_add");

    /// shmem_signal_set.
    "void shmemx_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_set", ctx, when_first_is("shmem_ctx_t", "shmemx_signal_set");
};

pub const SCANS: Section = section! { "Scans", Shmemx:
    /// shmem_sum_inscan.
    "int shmemx_sum_inscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::inscan::<TYPE>" [NUMBERS];

    /// shmem_sum_exscan.
    "int shmemx_sum_exscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::exscan::<TYPE>" [NUMBERS];
};

pub const QUERIES: Section = section! { "Queries", Shmemx:
    /// Returns the seconds since a moment that stays the same while the program runs.
    "double shmemx_wtime(void)" => "info::wtime";

    /// Returns the name of the machine that this PE runs on. Not to be freed or changed.
    "char *shmemx_nodename(void)" => "info::nodename";
};
