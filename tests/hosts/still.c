/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * still: one PE of the job of `fabric-links.sh`. Puts and atomics of several sizes go to the next PE; then all is still, until a file
 * is there.
 *
 * usage: still FILE
 */
#include <shmem.h>

#include <stdio.h>
#include <unistd.h>

enum { PUTS = 500, BYTES_MAX = 6000 };

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    shmem_init();
    int me = shmem_my_pe(), next = (me + 1) % shmem_n_pes();
    static char from[BYTES_MAX], to[BYTES_MAX];
    static long sum;
    for (size_t i = 0; i < PUTS; i++) {
        shmem_putmem(to, from, 1 + i * 12 % BYTES_MAX, next);
        shmem_long_atomic_fetch_add(&sum, 1, next);
    }
    shmem_barrier_all();
    printf("PE %d is still\n", me);
    fflush(stdout);
    while (access(argv[1], F_OK))
        usleep(10000);
    shmem_barrier_all();
    int wrong = sum != PUTS;
    shmem_finalize();
    return wrong;
}
