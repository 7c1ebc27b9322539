/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Deprecated parts of OpenSHMEM 1.6, annex "Deprecated API": atomics without `_atomic_` in their names, shmem_wait,
 * start_pes, _my_pe, _num_pes, the old names of allocation, the constants that begin with an underscore, the header under
 * mpp/; and the cache functions, which 1.4 removed and old programs call. active_sets.c has the collectives over active
 * sets.
 */
#include "suite.h"
#include "types.h"

#if __has_include(<mpp/shmem.h>) && __has_include(<mpp/shmemx.h>)
#include <mpp/shmem.h>
#include <mpp/shmemx.h>
#define HAS_MPP 1
#else
#define HAS_MPP 0
#endif

CASE(header_under_mpp, 1,
     "shmem.h and shmemx.h are found as <mpp/shmem.h> and <mpp/shmemx.h>, too (Header Directory)") { CHECK(HAS_MPP); }

#define OLD_ATOMICS(NAME, TYPE)                                                             \
    {                                                                                       \
        TYPE *word = (TYPE *)(words + 32 * row);                                            \
        const TYPE big = (TYPE)(sizeof(TYPE) == 8 ? 1ull << 41 : 1u << 20);                 \
        about("%s", #NAME);                                                                 \
        row++;                                                                              \
        CHECK_EQ(shmem_##NAME##_fadd(word + 1, big, next_pe()), 0);                         \
        shmem_##NAME##_add(word + 1, 5, next_pe());                                         \
        shmem_##NAME##_inc(word + 1, next_pe());                                            \
        shmem_quiet();                                                                      \
        CHECK_EQ(shmem_##NAME##_finc(word + 1, next_pe()), big + 6);                        \
        CHECK_EQ(shmem_##NAME##_cswap(word + 1, big, 1, next_pe()), big + 7);               \
        CHECK_EQ(shmem_##NAME##_cswap(word + 1, big + 7, -3, next_pe()), big + 7);          \
        shmem_quiet();                                                                      \
        CHECK_EQ(shmem_##NAME##_g(word + 1, next_pe()), (TYPE)-3);                          \
        CHECK_EQ(shmem_##NAME##_g(word, next_pe()), 0);                                     \
        CHECK_EQ(shmem_##NAME##_g(word + 2, next_pe()), 0);                                 \
    }

DATA_CASE(old_atomics, 3, "add, inc, fadd, finc, cswap without `atomic` act like those with it (shmem_TYPE_add)")
{
    unsigned char *words = symmetric(8 * 32);
    int row = 0;
    AMO_OLD_TYPES(OLD_ATOMICS)
}

#define OLD_EXTENDED(NAME, TYPE)                                                            \
    {                                                                                       \
        TYPE *word = (TYPE *)(words + 32 * row);                                            \
        about("%s", #NAME);                                                                 \
        row++;                                                                              \
        shmem_##NAME##_set(word + 1, (TYPE)-7, next_pe());                                  \
        shmem_quiet();                                                                      \
        CHECK_NUMBER(shmem_##NAME##_fetch(word + 1, next_pe()), (TYPE)-7);                  \
        CHECK_NUMBER(shmem_##NAME##_swap(word + 1, (TYPE)90, next_pe()), (TYPE)-7);         \
        CHECK_NUMBER(shmem_##NAME##_fetch(word + 1, next_pe()), (TYPE)90);                  \
        CHECK_NUMBER(shmem_##NAME##_g(word, next_pe()), 0);                                 \
        CHECK_NUMBER(shmem_##NAME##_g(word + 2, next_pe()), 0);                             \
    }

DATA_CASE(old_extended_atomics, 3, "set, fetch, swap without `atomic` act like those with it (shmem_TYPE_swap)")
{
    unsigned char *words = symmetric(8 * 32);
    int row = 0;
    AMO_OLD_EXTENDED_TYPES(OLD_EXTENDED)
}

DATA_CASE(old_atomics_total, 4,
          "old and new names of an atomic are atomic with each other (Atomicity Guarantees)", .crowded = 7)
{
    enum { ROUNDS = 200 };
    long *counter = symmetric(sizeof *counter);
    for (int i = 0; i < ROUNDS; i++) {
        switch (i % 4) {
        case 0: shmem_long_add(counter, 1, 0); break;
        case 1: shmem_long_finc(counter, 0); break;
        case 2: shmem_long_inc(counter, 0); break;
        default: shmem_long_atomic_inc(counter, 0); break;
        }
    }
    barrier();
    if (me() == 0) CHECK_EQ(*counter, ROUNDS * n_pes());
}

/* Each kind of wait on another type: until the value differs from the given one. */
#define OLD_WAIT(NAME, TYPE)                                                                \
    {                                                                                       \
        TYPE *word = (TYPE *)(words + 16 * row);                                            \
        about("%s", #NAME);                                                                 \
        row++;                                                                              \
        *word = 8;                                                                          \
        shmem_##NAME##_wait(word, 7); /* the value differs already */                                 \
        barrier();                                                                          \
        shmem_##NAME##_p(word, 9, next_pe());                                               \
        shmem_##NAME##_wait(word, 8);                                                       \
        CHECK_EQ(*word, 9);                                                                 \
    }

DATA_CASE(old_wait, 2, "wait: returns once the object no longer equals the value (shmem_TYPE_wait)")
{
    unsigned char *words = symmetric(8 * 16);
    int row = 0;
    WAIT_OLD_TYPES(OLD_WAIT)
    long *word = symmetric(sizeof *word);
    shmem_long_p(word, 1, next_pe());
    shmem_wait(word, 0);
    CHECK_EQ(*word, 1);
}

#if SINCE(1, 5)
DATA_CASE(wait_of_long, 2, "the untyped wait_until is that of long (shmem_wait_until)")
{
    long *word = symmetric(sizeof *word);
    shmem_long_p(word, 1L << 40, next_pe());
    (shmem_wait_until)(word, SHMEM_CMP_EQ, 1L << 40); /* the function, not the selection by type */
    CHECK_EQ(*word, 1L << 40);
}
#endif

CASE(old_names_of_queries, 3, "_my_pe and _num_pes are shmem_my_pe and shmem_n_pes (_my_pe, _num_pes)")
{
    CHECK_EQ(_my_pe(), shmem_my_pe());
    CHECK_EQ(_num_pes(), shmem_n_pes());
    CHECK_EQ(_my_pe(), me());
    CHECK_EQ(_num_pes(), 3);
}

CASE(old_names_of_allocation, 2, "shmalloc, shmemalign, shrealloc, shfree give and take symmetric memory (shmalloc)")
{
    enum { BYTES = 5000 };
    char *a = shmalloc(BYTES), *b = shmemalign(4096, BYTES), *here = local(BYTES);
    CHECK_OP(a, !=, NULL);
    CHECK_OP(b, !=, NULL);
    CHECK_EQ((uintptr_t)b % 4096, 0);
    pattern_fill(here, BYTES, (unsigned)me());
    shmem_putmem(a, here, BYTES, next_pe());
    shmem_putmem(b, here, BYTES, next_pe());
    barrier();
    CHECK_PATTERN(a, BYTES, (unsigned)previous_pe());
    CHECK_PATTERN(b, BYTES, (unsigned)previous_pe());
    a = shrealloc(a, 20 * BYTES);
    CHECK_OP(a, !=, NULL);
    CHECK_PATTERN(a, BYTES, (unsigned)previous_pe());
    barrier();
    shmem_putmem(a + 19 * BYTES, here, BYTES, next_pe());
    barrier();
    CHECK_PATTERN(a + 19 * BYTES, BYTES, (unsigned)previous_pe());
    shfree(b);
    shfree(a);
}

/* Some libraries define them as macros; old programs only call them. */
CASE(cache_functions, 1, "the cache functions exist and do nothing (SHMEM_CACHE)")
{
    long *word = symmetric(sizeof *word);
    *word = 5;
    shmem_set_cache_inv();
    shmem_set_cache_line_inv(word);
    shmem_clear_cache_inv();
    shmem_clear_cache_line_inv(word);
    shmem_udcflush();
    shmem_udcflush_line(word);
    CHECK_EQ(*word, 5);
}

CASE(old_constants, 1, "constants that begin with an underscore are those without it (_SHMEM_* Library Constants)")
{
    CHECK_EQ(_SHMEM_SYNC_VALUE, SHMEM_SYNC_VALUE);
    CHECK_EQ(_SHMEM_BCAST_SYNC_SIZE, SHMEM_BCAST_SYNC_SIZE);
    CHECK_EQ(_SHMEM_BARRIER_SYNC_SIZE, SHMEM_BARRIER_SYNC_SIZE);
    CHECK_EQ(_SHMEM_COLLECT_SYNC_SIZE, SHMEM_COLLECT_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_SYNC_SIZE, SHMEM_REDUCE_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_MIN_WRKDATA_SIZE, SHMEM_REDUCE_MIN_WRKDATA_SIZE);
    CHECK_EQ(_SHMEM_MAJOR_VERSION, SHMEM_MAJOR_VERSION);
    CHECK_EQ(_SHMEM_MINOR_VERSION, SHMEM_MINOR_VERSION);
    CHECK_EQ(_SHMEM_MAX_NAME_LEN, SHMEM_MAX_NAME_LEN);
#if SINCE(1, 5)
    CHECK_TEXT(_SHMEM_VENDOR_STRING, SHMEM_VENDOR_STRING);
#endif
    CHECK_EQ(_SHMEM_CMP_EQ, SHMEM_CMP_EQ);
    CHECK_EQ(_SHMEM_CMP_NE, SHMEM_CMP_NE);
    CHECK_EQ(_SHMEM_CMP_GT, SHMEM_CMP_GT);
    CHECK_EQ(_SHMEM_CMP_GE, SHMEM_CMP_GE);
    CHECK_EQ(_SHMEM_CMP_LT, SHMEM_CMP_LT);
    CHECK_EQ(_SHMEM_CMP_LE, SHMEM_CMP_LE);
}

CASE(old_start, 3,
     "start_pes initializes; without shmem_finalize the library is finalized at exit, after pending puts have arrived "
     "(start_pes)",
     .flags = OWN_INIT)
{
    static long inbox, last;
    start_pes(0);
    start_pes(7); /* a second call has no effect, and its number is ignored */
    joined();
    CHECK_EQ(n_pes(), 3);
    shmem_long_p(&inbox, 50 + me(), next_pe());
    barrier();
    CHECK_EQ(inbox, 50 + previous_pe());
    left();
    if (me() == 0) sleep_ms(30);
    shmem_long_p(&last, 1, next_pe()); /* to a PE that may already be ending */
}
