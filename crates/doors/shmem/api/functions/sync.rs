// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on signals and on waiting for objects that other PEs write.

use super::section;
use crate::api::Section;

pub const SIGNALS: Section = section! { "Signalling", Shmem:
    /// Same as shmem_put, and updates the signal sig_addr at PE pe after the data has arrived there. sig_op says how:
    /// SHMEM_SIGNAL_SET sets it to signal, SHMEM_SIGNAL_ADD adds signal to it. OpenSHMEM 1.5, 9.8.3.
    "void shmem_put_signal(TYPE *dest, const TYPE *source, size_t nelems, \
     uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)" => "signal::put_signal::<TYPE>" [RMA, BLOCKS], ctx;

    /// Same as shmem_put_signal, but source may be reused only after a shmem_quiet. OpenSHMEM 1.5, 9.8.4.
    "void shmem_put_signal_nbi(TYPE *dest, const TYPE *source, size_t nelems, \
     uint64_t *sig_addr, uint64_t signal, int sig_op, int pe)" => "signal::put_signal_nbi::<TYPE>" [RMA, BLOCKS], ctx;

    /// Atomically adds signal to the signal sig_addr at PE pe. New in OpenSHMEM 1.6.
    "void shmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_add", ctx, when_first_is("shmem_ctx_t", "shmem_signal_add");

    /// Atomically sets the signal sig_addr at PE pe to signal. New in OpenSHMEM 1.6.
    "void shmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)"
        => "signal::signal_set", ctx, when_first_is("shmem_ctx_t", "shmem_signal_set");

    /// Returns the value of the signal sig_addr of this PE. OpenSHMEM 1.5, 9.8.5.
    "uint64_t shmem_signal_fetch(const uint64_t *sig_addr)" => "signal::fetch";

    /// Waits until the signal sig_addr of this PE satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value. Returns
    /// the value that did. OpenSHMEM 1.5, 9.10.15.
    "uint64_t shmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_value)" => "signal::wait_until";
};

pub const WAITING: Section = section! { "Point-to-point synchronisation: waiting", Shmem:
    /// Waits until the symmetric object ivar of this PE satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value.
    /// OpenSHMEM 1.5, 9.10.1.
    "void shmem_wait_until(TYPE *ivar, int cmp, TYPE cmp_value)" => "wait::wait_until::<TYPE>" [SYNC], volatile;

    /// Waits until each of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value. Skips
    /// objects whose element of status is not 0; status may be NULL. Returns at once if all are skipped. OpenSHMEM 1.5,
    /// 9.10.2.
    "void shmem_wait_until_all(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::wait_until_all::<TYPE>" [SYNC], volatile;

    /// Waits until one of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value. Returns
    /// its index. Skips objects whose element of status is not 0; status may be NULL. Returns SIZE_MAX if all are
    /// skipped. OpenSHMEM 1.5, 9.10.3.
    "size_t shmem_wait_until_any(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::wait_until_any::<TYPE>" [SYNC], volatile;

    /// Waits until at least one of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value.
    /// Writes the indices of all that do to indices and returns their number. Skips objects whose element of status is
    /// not 0; status may be NULL. Returns 0 if all are skipped. OpenSHMEM 1.5, 9.10.4.
    "size_t shmem_wait_until_some(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value)"
        => "wait::wait_until_some::<TYPE>" [SYNC], volatile;

    /// Same as shmem_wait_until_all, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.5.
    "void shmem_wait_until_all_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::wait_until_all_vector::<TYPE>" [SYNC], volatile;

    /// Same as shmem_wait_until_any, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.6.
    "size_t shmem_wait_until_any_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::wait_until_any_vector::<TYPE>" [SYNC], volatile;

    /// Same as shmem_wait_until_some, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.7.
    "size_t shmem_wait_until_some_vector(TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
     int cmp, const TYPE *cmp_values)" => "wait::wait_until_some_vector::<TYPE>" [SYNC], volatile;

    /// Same as shmem_long_wait_until, for C without type-generic names. OpenSHMEM 1.5, 9.10.1.
    "void shmem_wait_until(long *ivar, int cmp, long cmp_value)" => "wait::wait_until::<i64>", deprecated("1.4");

    /// Waits until the object ivar of this PE differs from cmp_value. OpenSHMEM 1.5, 9.10.1.
    "void shmem_wait(TYPE *ivar, TYPE cmp_value)"
        => "wait::wait_ne::<TYPE>" [INTEGERS_OLD], no_generic, deprecated("1.4");

    /// Same as shmem_long_wait. OpenSHMEM 1.5, 9.10.1.
    "void shmem_wait(long *ivar, long cmp_value)" => "wait::wait_ne::<i64>", deprecated("1.4");
};

pub const TESTING: Section = section! { "Point-to-point synchronisation: testing", Shmem:
    /// Returns 1 if the symmetric object ivar of this PE satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value,
    /// else 0. Does not wait. OpenSHMEM 1.5, 9.10.8.
    "int shmem_test(TYPE *ivar, int cmp, TYPE cmp_value)" => "wait::test::<TYPE>" [SYNC], volatile;

    /// Returns 1 if each of the nelems objects ivars satisfies the comparison cmp (SHMEM_CMP_*) with cmp_value, else 0.
    /// Skips objects whose element of status is not 0; status may be NULL. Returns 1 if all are skipped. Does not wait.
    /// OpenSHMEM 1.5, 9.10.9.
    "int shmem_test_all(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::test_all::<TYPE>" [SYNC], volatile;

    /// Returns the index of one of the nelems objects ivars that satisfies the comparison cmp (SHMEM_CMP_*) with
    /// cmp_value; SIZE_MAX if none does. Skips objects whose element of status is not 0; status may be NULL. Does not
    /// wait. OpenSHMEM 1.5, 9.10.10.
    "size_t shmem_test_any(TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value)"
        => "wait::test_any::<TYPE>" [SYNC], volatile;

    /// Writes the indices of all of the nelems objects ivars that satisfy the comparison cmp (SHMEM_CMP_*) with
    /// cmp_value to indices and returns their number, which may be 0. Skips objects whose element of status is not 0;
    /// status may be NULL. Does not wait. OpenSHMEM 1.5, 9.10.11.
    "size_t shmem_test_some(TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value)"
        => "wait::test_some::<TYPE>" [SYNC], volatile;

    /// Same as shmem_test_all, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.12.
    "int shmem_test_all_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::test_all_vector::<TYPE>" [SYNC], volatile;

    /// Same as shmem_test_any, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.13.
    "size_t shmem_test_any_vector(TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values)"
        => "wait::test_any_vector::<TYPE>" [SYNC], volatile;

    /// Same as shmem_test_some, with an element of cmp_values for each object. OpenSHMEM 1.5, 9.10.14.
    "size_t shmem_test_some_vector(TYPE *ivars, size_t nelems, size_t *indices, const int *status, \
     int cmp, const TYPE *cmp_values)" => "wait::test_some_vector::<TYPE>" [SYNC], volatile;
};
