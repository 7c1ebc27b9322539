/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program whose calls are traced: each PE puts, gets and adds at its neighbour. It interposes one function by its
 * second name, as profilers do. A forked child ends in the middle. With an argument PE 1 is killed before the end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <shmem.h>
#include <pshmem.h>

static int interposed;

void shmem_long_atomic_inc(long *dest, int pe)
{
    interposed++;
    pshmem_long_atomic_inc(dest, pe);
}

int main(int argc, char **argv)
{
    static long value, counter, sum[2];
    static char block[1000];

    (void)argv;
    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes(), next = (me + 1) % pes;
    shmem_putmem(block, "0123456789", 10, next);
    shmem_long_put_nbi(&value, &sum[0], 1, next);
    shmem_quiet();
    shmem_barrier_all();
    pid_t child = fork();
    if (child == 0)
        exit(0);
    shmem_getmem(block + 100, block, 300, next);
    waitpid(child, NULL, 0);
    (void)shmem_long_atomic_fetch_add(&counter, 1, next);
    shmem_long_atomic_inc(&counter, next);
    (void)shmem_longdouble_g((long double *)(void *)(block + 512), next);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum[0], &value, 1);
    shmem_team_t half;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (pes + 1) / 2, NULL, 0, &half);
    if (half != SHMEM_TEAM_INVALID) {
        shmem_ctx_t ctx;
        shmem_team_create_ctx(half, 0, &ctx);
        shmem_ctx_putmem(ctx, block, block + 500, 77, shmem_team_n_pes(half) - 1);
        shmem_ctx_destroy(ctx);
        shmem_team_sync(half);
    }
    if (argc > 1 && me == 1)
        kill(getpid(), SIGKILL);
    shmem_finalize();
    printf("interposed %d\n", interposed);
    return interposed != 1;
}
