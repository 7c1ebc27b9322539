// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on atomic memory operations.

use super::section;
use crate::api::Section;

pub const BLOCKING: Section = section! { "Atomic memory operations", Shmem:
    /// Reads source at PE pe. It is atomic, as all of these, with respect to other atomic operations on the same object and type.
    "TYPE shmem_atomic_fetch(const TYPE *source, int pe)" => "amo::fetch::<TYPE>" [AMO_EXTENDED], ctx;

    /// Writes dest at PE pe.
    "void shmem_atomic_set(TYPE *dest, TYPE value, int pe)" => "amo::set::<TYPE>" [AMO_EXTENDED], ctx;

    /// Writes dest at PE pe if it equals cond. Returns the old value.
    "TYPE shmem_atomic_compare_swap(TYPE *dest, TYPE cond, TYPE value, int pe)"
        => "amo::compare_swap::<TYPE>" [AMO], ctx;

    /// Writes dest at PE pe. Returns the old value.
    "TYPE shmem_atomic_swap(TYPE *dest, TYPE value, int pe)" => "amo::swap::<TYPE>" [AMO_EXTENDED], ctx;

    /// Adds one to dest at PE pe. Returns the old value.
    "TYPE shmem_atomic_fetch_inc(TYPE *dest, int pe)" => "amo::fetch_inc::<TYPE>" [AMO], ctx;

    /// Adds one to dest at PE pe.
    "void shmem_atomic_inc(TYPE *dest, int pe)" => "amo::inc::<TYPE>" [AMO], ctx;

    /// Adds value to dest at PE pe. Returns the old value.
    "TYPE shmem_atomic_fetch_add(TYPE *dest, TYPE value, int pe)" => "amo::fetch_add::<TYPE>" [AMO], ctx;

    /// Adds value to dest at PE pe.
    "void shmem_atomic_add(TYPE *dest, TYPE value, int pe)" => "amo::add::<TYPE>" [AMO], ctx;

    /// Bitwise and of value into dest at PE pe. Returns the old value.
    "TYPE shmem_atomic_fetch_and(TYPE *dest, TYPE value, int pe)" => "amo::fetch_and::<TYPE>" [AMO_BITWISE], ctx;

    /// Bitwise and of value into dest at PE pe.
    "void shmem_atomic_and(TYPE *dest, TYPE value, int pe)" => "amo::and::<TYPE>" [AMO_BITWISE], ctx;

    /// Bitwise or of value into dest at PE pe. Returns the old value.
    "TYPE shmem_atomic_fetch_or(TYPE *dest, TYPE value, int pe)" => "amo::fetch_or::<TYPE>" [AMO_BITWISE], ctx;

    /// Bitwise or of value into dest at PE pe.
    "void shmem_atomic_or(TYPE *dest, TYPE value, int pe)" => "amo::or::<TYPE>" [AMO_BITWISE], ctx;

    /// Bitwise exclusive or of value into dest at PE pe. Returns the old value.
    "TYPE shmem_atomic_fetch_xor(TYPE *dest, TYPE value, int pe)" => "amo::fetch_xor::<TYPE>" [AMO_BITWISE], ctx;

    /// Bitwise exclusive or of value into dest at PE pe.
    "void shmem_atomic_xor(TYPE *dest, TYPE value, int pe)" => "amo::xor::<TYPE>" [AMO_BITWISE], ctx;
};

pub const NON_BLOCKING: Section = section! { "Non-blocking atomic memory operations", Shmem:
    /// As shmem_atomic_fetch; the value is in *fetch after a shmem_quiet, as with all of these.
    "void shmem_atomic_fetch_nbi(TYPE *fetch, const TYPE *source, int pe)"
        => "amo::fetch_nbi::<TYPE>" [AMO_EXTENDED], ctx;

    /// As shmem_atomic_compare_swap.
    "void shmem_atomic_compare_swap_nbi(TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe)"
        => "amo::compare_swap_nbi::<TYPE>" [AMO], ctx;

    /// As shmem_atomic_swap.
    "void shmem_atomic_swap_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::swap_nbi::<TYPE>" [AMO_EXTENDED], ctx;

    /// As shmem_atomic_fetch_inc.
    "void shmem_atomic_fetch_inc_nbi(TYPE *fetch, TYPE *dest, int pe)" => "amo::fetch_inc_nbi::<TYPE>" [AMO], ctx;

    /// As shmem_atomic_fetch_add.
    "void shmem_atomic_fetch_add_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_add_nbi::<TYPE>" [AMO], ctx;

    /// As shmem_atomic_fetch_and.
    "void shmem_atomic_fetch_and_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_and_nbi::<TYPE>" [AMO_BITWISE], ctx;

    /// As shmem_atomic_fetch_or.
    "void shmem_atomic_fetch_or_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_or_nbi::<TYPE>" [AMO_BITWISE], ctx;

    /// As shmem_atomic_fetch_xor.
    "void shmem_atomic_fetch_xor_nbi(TYPE *fetch, TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_xor_nbi::<TYPE>" [AMO_BITWISE], ctx;
};

pub const OLD: Section = section! { "Atomic memory operations by their old names", Shmem:
    /// shmem_atomic_fetch.
    "TYPE shmem_fetch(const TYPE *source, int pe)"
        => "amo::fetch::<TYPE>" [AMO_EXTENDED], default_ctx, deprecated("1.4");

    /// shmem_atomic_set.
    "void shmem_set(TYPE *dest, TYPE value, int pe)"
        => "amo::set::<TYPE>" [AMO_EXTENDED], default_ctx, deprecated("1.4");

    /// shmem_atomic_compare_swap.
    "TYPE shmem_cswap(TYPE *dest, TYPE cond, TYPE value, int pe)"
        => "amo::compare_swap::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// shmem_atomic_swap.
    "TYPE shmem_swap(TYPE *dest, TYPE value, int pe)"
        => "amo::swap::<TYPE>" [AMO_EXTENDED], default_ctx, deprecated("1.4");

    /// shmem_atomic_fetch_inc.
    "TYPE shmem_finc(TYPE *dest, int pe)" => "amo::fetch_inc::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// shmem_atomic_inc.
    "void shmem_inc(TYPE *dest, int pe)" => "amo::inc::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// shmem_atomic_fetch_add.
    "TYPE shmem_fadd(TYPE *dest, TYPE value, int pe)"
        => "amo::fetch_add::<TYPE>" [AMO], default_ctx, deprecated("1.4");

    /// shmem_atomic_add.
    "void shmem_add(TYPE *dest, TYPE value, int pe)" => "amo::add::<TYPE>" [AMO], default_ctx, deprecated("1.4");
};
