// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on signals and on waiting for objects that other PEs write.

use super::section;
use crate::api::Section;

pub const SIGNALS: Section = section! { "Signalling", Shmem:
    /// As shmem_put; then, once the data is there, sets or adds signal to sig_addr at PE pe, as sig_op (SHMEM_SIGNAL_*)
    /// says.
    "void shmem_put_signal(TYPE *dest, const TYPE *source, size_t nelems, \
     uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)" => "signal::put_signal::<TYPE>" [RMA, BLOCKS], ctx;

    /// As shmem_put_signal; source may be used again after a shmem_quiet.
    "void shmem_put_signal_nbi(TYPE *dest, const TYPE *source, size_t nelems, \
     uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)" => "signal::put_signal_nbi::<TYPE>" [RMA, BLOCKS], ctx;

    /// Adds to a signal at PE pe.
    "void shmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_add", ctx, when_first_is("shmem_ctx_t", "shmem_signal_add");

    /// Sets a signal at PE pe.
    "void shmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_set", ctx, when_first_is("shmem_ctx_t", "shmem_signal_set");

    /// Returns the value of a signal of this PE.
    "uint64_t shmem_signal_fetch(const uint64_t *sig_addr)" => "signal::fetch";

    /// Waits until a signal of this PE compares (SHMEM_CMP_*) with cmp_value. Returns that value.
    "uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)" => "signal::wait_until";
};

pub const WAITING: Section = section! { "Point-to-point synchronisation: waiting", Shmem:
    /// Waits until an object of this PE, which others write, compares (SHMEM_CMP_*) with cmp_value.
    "void shmem_wait_until(TYPE *ivar, int cmp, TYPE cmp_value)" => "wait::wait_until::<TYPE>" [SYNC], volatile;

    /// Waits until each of nelems objects does. Objects whose status is not 0 are left out, here and below.
    "void shmem_wait_until_all(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::wait_until_all::<TYPE>" [SYNC], volatile;

    /// Waits until one of them does. Returns its index; SIZE_MAX if all are left out.
    "size_t shmem_wait_until_any(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::wait_until_any::<TYPE>" [SYNC], volatile;

    /// Waits until at least one of them does. Returns how many do, and writes their indices to indices.
    "size_t shmem_wait_until_some(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value)"
        => "wait::wait_until_some::<TYPE>" [SYNC], volatile;

    /// As shmem_wait_until_all, each object with a value of its own.
    "void shmem_wait_until_all_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::wait_until_all_vector::<TYPE>" [SYNC], volatile;

    /// As shmem_wait_until_any, each object with a value of its own.
    "size_t shmem_wait_until_any_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::wait_until_any_vector::<TYPE>" [SYNC], volatile;

    /// As shmem_wait_until_some, each object with a value of its own.
    "size_t shmem_wait_until_some_vector(TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
     int cmp, const TYPE *cmp_values)" => "wait::wait_until_some_vector::<TYPE>" [SYNC], volatile;

    /// shmem_long_wait_until, for C without type-generic names.
    "void shmem_wait_until(long *ivar, int cmp, long cmp_value)" => "wait::wait_until::<i64>", deprecated("1.4");

    /// Waits until an object of this PE differs from cmp_value.
    "void shmem_wait(TYPE *ivar, TYPE cmp_value)"
        => "wait::wait_ne::<TYPE>" [INTEGERS_OLD], no_generic, deprecated("1.4");

    /// shmem_long_wait.
    "void shmem_wait(long *ivar, long cmp_value)" => "wait::wait_ne::<i64>", deprecated("1.4");
};

pub const TESTING: Section = section! { "Point-to-point synchronisation: testing", Shmem:
    /// Returns 1 if an object of this PE, which others write, compares (SHMEM_CMP_*) with cmp_value, else 0.
    "int shmem_test(TYPE *ivar, int cmp, TYPE cmp_value)" => "wait::test::<TYPE>" [SYNC], volatile;

    /// Returns 1 if each of nelems objects does, else 0. Objects whose status is not 0 are left out, here and below.
    "int shmem_test_all(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::test_all::<TYPE>" [SYNC], volatile;

    /// Returns the index of one of them that does; SIZE_MAX if none does.
    "size_t shmem_test_any(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::test_any::<TYPE>" [SYNC], volatile;

    /// Returns how many of them do, and writes their indices to indices.
    "size_t shmem_test_some(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value)"
        => "wait::test_some::<TYPE>" [SYNC], volatile;

    /// As shmem_test_all, each object with a value of its own.
    "int shmem_test_all_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::test_all_vector::<TYPE>" [SYNC], volatile;

    /// As shmem_test_any, each object with a value of its own.
    "size_t shmem_test_any_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::test_any_vector::<TYPE>" [SYNC], volatile;

    /// As shmem_test_some, each object with a value of its own.
    "size_t shmem_test_some_vector(TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
     int cmp, const TYPE *cmp_values)" => "wait::test_some_vector::<TYPE>" [SYNC], volatile;
};
