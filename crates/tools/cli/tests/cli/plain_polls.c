/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two PEs pass a number back and forth. Each waits for it by reading its own memory, without a library call, as other codes
 * do: shmem_put, then a loop over a volatile word.
 *
 * plain_polls ROUNDS
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

static long flag;

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    shmem_init();
    int me = shmem_my_pe(), other = 1 - me;
    if (shmem_n_pes() != 2) return 2;
    shmem_barrier_all();
    for (int round = 1; round <= rounds; round++)
        if (me == round % 2)
            shmem_long_p(&flag, round, other);
        else
            while (*(volatile long *)&flag < round) {}
    shmem_barrier_all();
    if (me == 0) printf("%d rounds\n", rounds);
    shmem_finalize();
    return 0;
}
