// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on atomic memory operations.

use super::section;
use crate::api::Section;

pub const BLOCKING: Section = section! { "Atomic memory operations", Shmem:
    /// Atomically reads source at PE pe and returns its value. OpenSHMEM 1.5, 9.7.1.1.
    "TYPE shmem_atomic_fetch(const TYPE *source, int pe)" => "amo::fetch::<TYPE>" [AMO_EXTENDED], ctx;

    /// Atomically writes value to dest at PE pe. OpenSHMEM 1.5, 9.7.1.2.
    "void shmem_atomic_set(TYPE *dest, TYPE value, int pe)" => "amo::set::<TYPE>" [AMO_EXTENDED], ctx;

    /// Atomically writes value to dest at PE pe if dest equals cond. Returns the old value of dest. OpenSHMEM 1.5,
    /// 9.7.1.3.
    "TYPE shmem_atomic_compare_swap(TYPE *dest, TYPE cond, TYPE value, int pe)"
        => "amo::compare_swap::<TYPE>" [AMO], ctx;

    /// Atomically writes value to dest at PE pe. Returns the old value. OpenSHMEM 1.5, 9.7.1.4.
    "TYPE shmem_atomic_swap(TYPE *dest, TYPE value, int pe)" => "amo::swap::<TYPE>" [AMO_EXTENDED], ctx;

    /// Atomically adds 1 to dest at PE pe. Returns the old value. OpenSHMEM 1.5, 9.7.1.5.
    "TYPE shmem_atomic_fetch_inc(TYPE *dest, int pe)" => "amo::fetch_inc::<TYPE>" [AMO], ctx;

    /// Atomically adds 1 to dest at PE pe. OpenSHMEM 1.5, 9.7.1.6.
    "void shmem_atomic_inc(TYPE *dest, int pe)" => "amo::inc::<TYPE>" [AMO], ctx;

    /// Atomically adds value to dest at PE pe. Returns the old value. OpenSHMEM 1.5, 9.7.1.7.
    "TYPE shmem_atomic_fetch_add(TYPE *dest, TYPE value, int pe)" => "amo::fetch_add::<TYPE>" [AMO], ctx;

    /// Atomically adds value to dest at PE pe. OpenSHMEM 1.5, 9.7.1.8.
    "void shmem_atomic_add(TYPE *dest, TYPE value, int pe)" => "amo::add::<TYPE>" [AMO], ctx;

    /// Atomically combines dest at PE pe with value by bitwise AND. Returns the old value. OpenSHMEM 1.5, 9.7.1.9.
    "TYPE shmem_atomic_fetch_and(TYPE *dest, TYPE value, int pe)" => "amo::fetch_and::<TYPE>" [AMO_BITWISE], ctx;

    /// Atomically combines dest at PE pe with value by bitwise AND. OpenSHMEM 1.5, 9.7.1.10.
    "void shmem_atomic_and(TYPE *dest, TYPE value, int pe)" => "amo::and::<TYPE>" [AMO_BITWISE], ctx;

    /// Atomically combines dest at PE pe with value by bitwise OR. Returns the old value. OpenSHMEM 1.5, 9.7.1.11.
    "TYPE shmem_atomic_fetch_or(TYPE *dest, TYPE value, int pe)" => "amo::fetch_or::<TYPE>" [AMO_BITWISE], ctx;

    /// Atomically combines dest at PE pe with value by bitwise OR. OpenSHMEM 1.5, 9.7.1.12.
    "void shmem_atomic_or(TYPE *dest, TYPE value, int pe)" => "amo::or::<TYPE>" [AMO_BITWISE], ctx;

    /// Atomically combines dest at PE pe with value by bitwise XOR. Returns the old value. OpenSHMEM 1.5, 9.7.1.13.
    "TYPE shmem_atomic_fetch_xor(TYPE *dest, TYPE value, int pe)" => "amo::fetch_xor::<TYPE>" [AMO_BITWISE], ctx;

    /// Atomically combines dest at PE pe with value by bitwise XOR. OpenSHMEM 1.5, 9.7.1.14.
    "void shmem_atomic_xor(TYPE *dest, TYPE value, int pe)" => "amo::xor::<TYPE>" [AMO_BITWISE], ctx;
};

pub const NON_BLOCKING: Section = section! { "Non-blocking atomic memory operations", Shmem:
    /// Same as shmem_atomic_fetch, but the value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.1.
    "void shmem_atomic_fetch_nbi(TYPE *fetch, const TYPE *source, int pe)"
        => "amo::fetch_nbi::<TYPE>" [AMO_EXTENDED], ctx;

    /// Same as shmem_atomic_compare_swap, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5,
    /// 9.7.2.2.
    "void shmem_atomic_compare_swap_nbi(TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe)"
        => "amo::compare_swap_nbi::<TYPE>" [AMO], ctx;

    /// Same as shmem_atomic_swap, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.3.
    "void shmem_atomic_swap_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::swap_nbi::<TYPE>" [AMO_EXTENDED], ctx;

    /// Same as shmem_atomic_fetch_inc, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.4.
    "void shmem_atomic_fetch_inc_nbi(TYPE *fetch, TYPE *dest, int pe)" => "amo::fetch_inc_nbi::<TYPE>" [AMO], ctx;

    /// Same as shmem_atomic_fetch_add, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.5.
    "void shmem_atomic_fetch_add_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_add_nbi::<TYPE>" [AMO], ctx;

    /// Same as shmem_atomic_fetch_and, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.6.
    "void shmem_atomic_fetch_and_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_and_nbi::<TYPE>" [AMO_BITWISE], ctx;

    /// Same as shmem_atomic_fetch_or, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.7.
    "void shmem_atomic_fetch_or_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_or_nbi::<TYPE>" [AMO_BITWISE], ctx;

    /// Same as shmem_atomic_fetch_xor, but the old value is in *fetch only after a shmem_quiet. OpenSHMEM 1.5, 9.7.2.8.
    "void shmem_atomic_fetch_xor_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_xor_nbi::<TYPE>" [AMO_BITWISE], ctx;
};

pub const OLD: Section = section! { "Atomic memory operations by their old names", Shmem:
    /// Same as shmem_atomic_fetch. OpenSHMEM 1.5, 9.7.1.1.
    "TYPE shmem_fetch(const TYPE *source, int pe)"
        => "amo::fetch::<TYPE>" [AMO_EXTENDED], default_ctx, deprecated("1.4");

    /// Same as shmem_atomic_set. OpenSHMEM 1.5, 9.7.1.2.
    "void shmem_set(TYPE *dest, TYPE value, int pe)"
        => "amo::set::<TYPE>" [AMO_EXTENDED], default_ctx, deprecated("1.4");

    /// Same as shmem_atomic_compare_swap. OpenSHMEM 1.5, 9.7.1.3.
    "TYPE shmem_cswap(TYPE *dest, TYPE cond, TYPE value, int pe)"
        => "amo::compare_swap::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// Same as shmem_atomic_swap. OpenSHMEM 1.5, 9.7.1.4.
    "TYPE shmem_swap(TYPE *dest, TYPE value, int pe)"
        => "amo::swap::<TYPE>" [AMO_EXTENDED], default_ctx, deprecated("1.4");

    /// Same as shmem_atomic_fetch_inc. OpenSHMEM 1.5, 9.7.1.5.
    "TYPE shmem_finc(TYPE *dest, int pe)" => "amo::fetch_inc::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// Same as shmem_atomic_inc. OpenSHMEM 1.5, 9.7.1.6.
    "void shmem_inc(TYPE *dest, int pe)" => "amo::inc::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// Same as shmem_atomic_fetch_add. OpenSHMEM 1.5, 9.7.1.7.
    "TYPE shmem_fadd(TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_add::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// Same as shmem_atomic_add. OpenSHMEM 1.5, 9.7.1.8.
    "void shmem_add(TYPE *dest, TYPE value, int pe)" => "amo::add::<TYPE>" [AMO], default_ctx, deprecated("1.4");
};
