// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections of `shmemx.h`: the names of Sandia OpenSHMEM for counting puts, and for functions that OpenSHMEM
//! 1.6 has made standard.

use super::section;
use crate::api::Section;

pub const COUNTING: Section = section! { "Counting puts", Shmemx:
    /// Same as shmem_ct_create.
    "void shmemx_ct_create(shmemx_ct_t *ct)" => "counting::create";

    /// Same as shmem_ct_free.
    "void shmemx_ct_free(shmemx_ct_t *ct)" => "counting::free";

    /// Same as shmem_ct_get.
    "long shmemx_ct_get(shmemx_ct_t ct)" => "counting::get";

    /// Same as shmem_ct_set.
    "void shmemx_ct_set(shmemx_ct_t ct, long value)" => "counting::set";

    /// Same as shmem_ct_wait.
    "void shmemx_ct_wait(shmemx_ct_t ct, long wait_for)" => "counting::wait";

    /// Same as shmem_ct_test.
    "int shmemx_ct_test(shmemx_ct_t ct, long wait_for)" => "counting::test";

    /// Same as shmem_putmem_ct.
    "void shmemx_put_ct(shmemx_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::put::<TYPE>" [BYTES], default_ctx;

    /// Same as shmem_getmem_ct.
    "void shmemx_get_ct(shmemx_ct_t ct, TYPE *dest, const TYPE *source, size_t nelems, int pe)"
        => "counting::get_and_count::<TYPE>" [BYTES], default_ctx;
};

pub const RMA: Section = section! { "Remote memory access in blocks", Shmemx:
    /// Same as shmem_ibput.
    "void shmemx_ibput(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, \
     size_t bsize, size_t nblocks, int pe)" => "rma::ibput::<TYPE>" [RMA, SIZES], ctx;

    /// Same as shmem_ibget.
    "void shmemx_ibget(TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, \
     size_t bsize, size_t nblocks, int pe)" => "rma::ibget::<TYPE>" [RMA, SIZES], ctx;
};

pub const SIGNALS: Section = section! { "Signals", Shmemx:
    /// Same as shmem_signal_add.
    "void shmemx_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_add", ctx, when_first_is("shmem_ctx_t", "shmemx_signal_add");

    /// Same as shmem_signal_set.
    "void shmemx_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_set", ctx, when_first_is("shmem_ctx_t", "shmemx_signal_set");
};

pub const SCANS: Section = section! { "Scans", Shmemx:
    /// Same as shmem_sum_inscan.
    "int shmemx_sum_inscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::inscan::<TYPE>" [NUMBERS];

    /// Same as shmem_sum_exscan.
    "int shmemx_sum_exscan(shmem_team_t team, TYPE *dest, const TYPE *source, size_t nelems)"
        => "collective::exscan::<TYPE>" [NUMBERS];
};

pub const QUERIES: Section = section! { "Queries", Shmemx:
    /// Returns the time in seconds since a fixed moment of this process.
    "double shmemx_wtime(void)" => "info::wtime";

    /// Returns the name of the host of this PE. The string belongs to the library: do not change or free it.
    "char *shmemx_nodename(void)" => "info::nodename";
};

pub const REGIONS: Section = section! { "Regions", Shmemx:
    /// Begins a region of the program, on which a report may be about: selvedge sim --region NAME, or live
    /// SELVEDGE_REGION. Regions nest and repeat. Not collective.
    "void shmemx_region_begin(const char *name)" => "info::region_begin";

    /// Ends a region.
    "void shmemx_region_end(const char *name)" => "info::region_end";
};
