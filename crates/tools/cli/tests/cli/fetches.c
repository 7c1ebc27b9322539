/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * PE 0 fetches a word of PE 1 COUNT times: one time in four by a get, else by an atomic. PE 1 waits in a barrier.
 *
 * fetches COUNT
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

static long word;

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 1, sum = 0;
    shmem_init();
    shmem_barrier_all();
    if (shmem_my_pe() == 0)
        for (long i = 0; i < count; i++) sum += i % 4 == 0 ? shmem_long_g(&word, 1) : shmem_long_atomic_fetch_inc(&word, 1);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) printf("%ld\n", sum);
    shmem_finalize();
    return 0;
}
