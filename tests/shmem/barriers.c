/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * shmem_barrier_all, shmem_sync_all: all PEs wait for each other, and earlier operations are complete. OpenSHMEM 1.6,
 * "Collective Routines". Barriers over teams are in teams.c, over active sets in active_sets.c.
 */
#include "suite.h"

/* Rounds in which each PE adds at every other before `meet`; all counts must be in place after it. */
static void check_meets(void (*meet)(void), bool quiets)
{
    enum { ROUNDS = 48 };
    long *arrived = symmetric(ROUNDS * sizeof *arrived);
    for (int i = 0; i < ROUNDS; i++) {
        about("round %d", i);
        if (i % 6 == me() % 6 && i < 24) sleep_ms(1); /* each PE is sometimes the last one */
        for (int pe = 0; pe < n_pes(); pe++) shmem_long_atomic_inc(&arrived[i], pe);
        if (!quiets) shmem_quiet();
        meet();
        CHECK_EQ(shmem_long_atomic_fetch(&arrived[i], me()), n_pes());
    }
}

DATA_CASE(barrier_waits_for_all, 4, "shmem_barrier_all returns when all PEs have called it, and their atomics are done",
          .crowded = 11)
{
    check_meets(shmem_barrier_all, true);
}

DATA_CASE(sync_waits_for_all, 4, "shmem_sync_all returns when all PEs have called it", .crowded = 11)
{
    check_meets(shmem_sync_all, false);
}

DATA_CASE(barrier_completes_puts, 4, "after shmem_barrier_all the data of all PEs' puts is in place, blocking or not",
          .crowded = 7)
{
    enum { ROUNDS = 20, BYTES = 700 };
    unsigned char *dest = symmetric(8 * BYTES), *source = local(BYTES);
    for (int i = 0; i < ROUNDS; i++) {
        pattern_fill(source, BYTES, (unsigned)(me() * ROUNDS + i));
        for (int pe = 0; pe < n_pes(); pe++) {
            if ((i + pe) % 2) shmem_putmem(dest + me() * BYTES, source, BYTES, pe);
            else shmem_putmem_nbi(dest + me() * BYTES, source, BYTES, pe);
        }
        shmem_barrier_all();
        about("round %d", i);
        for (int pe = 0; pe < n_pes(); pe++) CHECK_PATTERN(dest + pe * BYTES, BYTES, (unsigned)(pe * ROUNDS + i));
        shmem_barrier_all();
    }
}

DATA_CASE(barrier_completes_gets, 3, "after shmem_barrier_all the data of nonblocking gets is in place")
{
    enum { BYTES = 70000 };
    unsigned char *source = symmetric(BYTES), *dest = local(3 * BYTES);
    pattern_fill(source, BYTES, (unsigned)me());
    shmem_barrier_all();
    for (int pe = 0; pe < n_pes(); pe++) shmem_getmem_nbi(dest + pe * BYTES, source, BYTES, pe);
    shmem_barrier_all();
    for (int pe = 0; pe < n_pes(); pe++) CHECK_PATTERN(dest + pe * BYTES, BYTES, (unsigned)pe);
}

DATA_CASE(large_puts_before_a_barrier, 3, "a barrier waits for long puts to all PEs at once")
{
    enum { BYTES = 150000 };
    unsigned char *dest = symmetric(3 * BYTES), *source = local(BYTES);
    pattern_fill(source, BYTES, (unsigned)me());
    for (int pe = 0; pe < n_pes(); pe++) shmem_putmem_nbi(dest + me() * BYTES, source, BYTES, pe);
    shmem_barrier_all();
    for (int pe = 0; pe < n_pes(); pe++) CHECK_PATTERN(dest + pe * BYTES, BYTES, (unsigned)pe);
}

DATA_CASE(stores_before_a_sync, 3, "a PE's own stores before shmem_sync_all are visible to gets of others after it")
{
    long *word = symmetric(sizeof *word);
    for (int i = 0; i < 100; i++) {
        *word = me() * 1000 + i;
        shmem_sync_all();
        CHECK_EQ(shmem_long_g(word, next_pe()), next_pe() * 1000 + i);
        shmem_sync_all();
    }
}

CASE(stores_through_pointers, 3, "stores through shmem_ptr before shmem_sync_all are visible to their owner after it",
     .needs = MAPPED)
{
    long *word = symmetric(sizeof *word), *of_next = shmem_ptr(word, next_pe());
    CHECK_OP(of_next, !=, NULL);
    for (int i = 0; i < 200; i++) {
        *of_next = me() * 1000 + i;
        shmem_sync_all();
        CHECK_EQ(*(volatile long *)word, previous_pe() * 1000 + i);
        shmem_sync_all();
    }
}

CASE(very_many, 3, "barriers and syncs in any number and order", .crowded = 12)
{
    const int times = n_pes() > 3 ? 300 : 2000;
    uint64_t state = 5;
    for (int i = 0; i < times; i++) {
        if (random_next(&state) >> 60 < 8) shmem_barrier_all(); /* the same choices at all PEs */
        else shmem_sync_all();
    }
}

CASE(alone, 1, "a job of one PE: barriers and syncs return")
{
    for (int i = 0; i < 100; i++) {
        shmem_barrier_all();
        shmem_sync_all();
    }
}

CASE(crowd, 16, "sixteen PEs meet, more than there are cores", .crowded = 40)
{
    long *arrived = symmetric(4 * sizeof *arrived);
    for (int i = 0; i < 4; i++) {
        shmem_long_atomic_inc(&arrived[i], next_pe());
        shmem_long_atomic_inc(&arrived[i], previous_pe());
        shmem_barrier_all();
        CHECK_EQ(shmem_long_atomic_fetch(&arrived[i], me()), 2);
    }
}

CASE(other_kinds_of_waiting_between, 4, "a barrier among point-to-point waits: no PE is left behind")
{
    long *turn = symmetric(sizeof *turn);
    for (long i = 1; i <= 40; i++) {
        if (me() == i % 4) {
            for (int pe = 0; pe < n_pes(); pe++) shmem_long_p(turn, i, pe);
            shmem_quiet();
        }
        shmem_long_wait_until(turn, SHMEM_CMP_GE, i);
        shmem_barrier_all();
    }
}
