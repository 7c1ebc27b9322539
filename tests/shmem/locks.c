/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shmem_set_lock, shmem_test_lock, shmem_clear_lock. OpenSHMEM 1.6, "Distributed Locking Routines". */
#include "suite.h"

DATA_CASE(lock_excludes, 4, "set_lock: one PE at a time is between set and clear (shmem_set_lock)", .crowded = 8)
{
    enum { TEST_MS = 40 }; /* by time: the PEs then overlap, whatever a lock costs */
    long *lock = symmetric(sizeof *lock), *inside = symmetric(sizeof *inside), *count = symmetric(sizeof *count);
    long *made = symmetric(PES_MAX * sizeof *made), rounds = 0, total = 0;
    for (long long end = now_ms() + TEST_MS; now_ms() < end; rounds++) {
        shmem_set_lock(lock);
        CHECK_EQ(shmem_long_atomic_fetch_inc(inside, 0), 0);
        long found = shmem_long_g(count, 0); /* not atomic: an update is lost if two PEs are inside */
        shmem_long_p(count, found + 1, 0);
        CHECK_EQ(shmem_long_atomic_fetch_add(inside, -1, 0), 1);
        shmem_clear_lock(lock);
    }
    shmem_long_p(made + me(), rounds, 0);
    barrier();
    for (int pe = 0; pe < n_pes(); pe++) total += made[pe];
    if (me() == 0) CHECK_EQ(*count, total);
}

DATA_CASE(test_lock_takes_a_free_lock, 2,
          "test_lock: 0, and the caller has the lock, if it was clear; 1 if it was set (shmem_test_lock)")
{
    long *lock = symmetric(sizeof *lock), *step = symmetric(sizeof *step);
    if (me() == 0) {
        CHECK_EQ(shmem_test_lock(lock), 0);
        shmem_long_p(step, 1, 1);
        shmem_long_wait_until(step, SHMEM_CMP_EQ, 2);
        shmem_clear_lock(lock);
        shmem_long_p(step, 3, 1);
        shmem_long_wait_until(step, SHMEM_CMP_EQ, 4);
        CHECK_EQ(shmem_test_lock(lock), 1);
        shmem_long_p(step, 5, 1);
    } else {
        shmem_long_wait_until(step, SHMEM_CMP_EQ, 1);
        for (int i = 0; i < 50; i++) CHECK_EQ(shmem_test_lock(lock), 1);
        shmem_long_p(step, 2, 0);
        shmem_long_wait_until(step, SHMEM_CMP_EQ, 3);
        CHECK_EQ(shmem_test_lock(lock), 0);
        shmem_long_p(step, 4, 0);
        shmem_long_wait_until(step, SHMEM_CMP_EQ, 5);
        shmem_clear_lock(lock);
    }
    barrier();
    if (me() == 0) {
        CHECK_EQ(shmem_test_lock(lock), 0);
        shmem_clear_lock(lock);
    }
}

DATA_CASE(test_and_set_exclude, 4, "test_lock and set_lock take the same lock (shmem_test_lock)", .crowded = 8)
{
    enum { ROUNDS = 100 };
    long *lock = symmetric(sizeof *lock), *count = symmetric(sizeof *count);
    for (int i = 0; i < ROUNDS; i++) {
        if ((i + me()) % 2) shmem_set_lock(lock);
        else
            while (shmem_test_lock(lock)) sleep_ms(0);
        long found = shmem_long_g(count, 1);
        shmem_long_p(count, found + 1, 1);
        shmem_clear_lock(lock);
    }
    barrier();
    if (me() == 1) CHECK_EQ(*count, ROUNDS * n_pes());
}

DATA_CASE(clear_completes_what_was_put, 4,
          "clear_lock: the holder's puts are complete before another PE has the lock (shmem_clear_lock)", .crowded = 7)
{
    enum { ROUNDS = 150, N = 257 };
    long *lock = symmetric(sizeof *lock), *object = symmetric(N * sizeof *object), here[N];
    int home = n_pes() - 1;
    for (int i = 0; i < ROUNDS; i++) {
        shmem_set_lock(lock);
        shmem_long_get(here, object, N, home);
        for (int k = 0; k < N; k++) CHECK_EQ(here[k], here[0]);
        for (int k = 0; k < N; k++) here[k]++;
        if (i % 2) shmem_long_put_nbi(object, here, N, home);
        else shmem_long_put(object, here, N, home);
        shmem_clear_lock(lock);
    }
    barrier();
    if (me() == home)
        for (int k = 0; k < N; k++) CHECK_EQ(object[k], ROUNDS * n_pes());
}

/* Whether PE `pe` is the last in the queue of a lock. At one PE, the same for all, the lock's lower half is the last PE's number
 * plus one. */
static bool is_last(long *lock, int pe)
{
    for (int at = 0; at < n_pes(); at++)
        if ((int)(shmem_long_atomic_fetch(lock, at) & 0xffffffff) == pe + 1) return true;
    return false;
}

/* Each PE is in the queue before the next one calls. */
CASE(first_come_first_served, 4,
     "set_lock: waiters get the lock in the order of their calls (shmem_set_lock)", .needs = MAPPED)
{
    long *lock = symmetric(sizeof *lock), *served = symmetric(sizeof *served);
    if (me() == 0) shmem_set_lock(lock);
    barrier();
    while (!is_last(lock, previous_pe())) sleep_ms(1);
    if (me() == 0) {
        shmem_clear_lock(lock);
    } else {
        shmem_set_lock(lock);
        CHECK_EQ(shmem_long_atomic_fetch_inc(served, 0), me() - 1);
        shmem_clear_lock(lock);
    }
}

DATA_CASE(locks_of_an_array, 3, "locks that lie side by side are independent (shmem_set_lock)")
{
    enum { N = 6, ROUNDS = 30 };
    long *locks = symmetric(N * sizeof *locks), *counts = symmetric(N * sizeof *counts);
    /* Takes all of its own locks, while others hold theirs. */
    for (int i = me(); i < N; i += n_pes()) shmem_set_lock(locks + i);
    barrier();
    for (int i = 0; i < N; i++)
        if (i % n_pes() != me()) CHECK_EQ(shmem_test_lock(locks + i), 1);
    barrier();
    for (int i = me(); i < N; i += n_pes()) shmem_clear_lock(locks + i);
    barrier();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < N; i++) {
            int k = (i + me()) % N;
            shmem_set_lock(locks + k);
            long found = shmem_long_g(counts + k, k % n_pes());
            shmem_long_p(counts + k, found + 1, k % n_pes());
            shmem_clear_lock(locks + k);
        }
    barrier();
    for (int i = 0; i < N; i++) CHECK_EQ(shmem_long_g(counts + i, i % n_pes()), ROUNDS * n_pes());
}

DATA_CASE(two_locks_held, 3, "a PE may hold several locks, and release them in any order (shmem_set_lock)")
{
    enum { ROUNDS = 150 };
    long *a = symmetric(sizeof *a), *b = symmetric(sizeof *b), *count = symmetric(sizeof *count);
    for (int i = 0; i < ROUNDS; i++) {
        shmem_set_lock(a);
        shmem_set_lock(b);
        long found = shmem_long_g(count, 0);
        shmem_long_p(count, found + 1, 0);
        shmem_clear_lock(i % 2 ? a : b);
        shmem_clear_lock(i % 2 ? b : a);
    }
    barrier();
    if (me() == 0) CHECK_EQ(*count, ROUNDS * n_pes());
}

DATA_CASE(lock_alone, 1, "set, clear, test in a job of one, repeatedly (shmem_set_lock)")
{
    long *lock = symmetric(sizeof *lock);
    for (int i = 0; i < 200; i++) {
        shmem_set_lock(lock);
        shmem_clear_lock(lock);
        CHECK_EQ(shmem_test_lock(lock), 0);
        shmem_clear_lock(lock);
    }
}

DATA_CASE(clear_lock_is_free_again, 3,
          "a lock that one PE took and released can be taken by each other in turn (shmem_clear_lock)")
{
    long *lock = symmetric(sizeof *lock);
    for (int turn = 0; turn < 12; turn++) {
        if (turn % n_pes() == me()) {
            if (turn % 2) CHECK_EQ(shmem_test_lock(lock), 0);
            else shmem_set_lock(lock);
            shmem_clear_lock(lock);
        }
        barrier();
    }
}

/* Where only its owner drives a NIC, a PE that waits for the lock must still serve the lock holder. */
DATA_CASE(waiting_does_not_hold_up_the_holder, 3,
          "set_lock: the holder can reach the memory of waiting PEs (shmem_set_lock)")
{
    enum { ROUNDS = 60 };
    long *lock = symmetric(sizeof *lock), *word = symmetric(sizeof *word);
    for (long i = 0; i < ROUNDS; i++) {
        shmem_set_lock(lock);
        for (int pe = 0; pe < n_pes(); pe++) {
            long found = shmem_long_g(word, pe);
            shmem_long_p(word, found + 1, pe);
            CHECK_EQ(shmem_long_atomic_fetch_add(word, 0, pe) - found <= 1, 1);
        }
        shmem_clear_lock(lock);
    }
    barrier();
    CHECK_EQ(*word, ROUNDS * n_pes());
}
