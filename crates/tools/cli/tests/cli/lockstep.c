/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two PEs take two locks, each its own lock first and then the other's, and give up if the second is taken. PEs of
 * equal speed never end: each finds the other's lock taken, and both give up at the same time.
 *
 * lockstep [ROUNDS]: the number of times that each PE must get both locks.
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

static long lock;

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    shmem_init();
    int me = shmem_my_pe(), other = 1 - me;
    if (shmem_n_pes() != 2) return 2;
    long attempts = 0;
    shmem_barrier_all();
    for (int round = 0; round < rounds; round++) {
        for (;; attempts++) {
            while (shmem_long_atomic_swap(&lock, 1, me) != 0) {}
            if (shmem_long_atomic_compare_swap(&lock, 0, 1, other) == 0) break;
            shmem_long_atomic_swap(&lock, 0, me);
        }
        shmem_long_atomic_swap(&lock, 0, other);
        shmem_long_atomic_swap(&lock, 0, me);
    }
    shmem_barrier_all();
    if (me == 0) printf("both had both locks, after %s\n", attempts ? "failures" : "none");
    shmem_finalize();
    return 0;
}
