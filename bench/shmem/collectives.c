/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The time of a whole collective: barrier (shmem_barrier_all) and sum8 (the sum of one long at every PE). Any number of
 * PEs, which is the depth of the result.
 *
 * A library of OpenSHMEM 1.5 sums over a team; an older one over an active set, with two sets of work arrays in turn.
 *
 * Invariant: every sum is checked, and has other operands than the one before.
 */
#define _GNU_SOURCE
#include "pe.h"

#define HAS_TEAMS (SHMEM_MAJOR_VERSION > 1 || (SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION >= 5))

struct bench {
    int me, n;
    long *operand, *result, round;
#if !HAS_TEAMS
    long *work[2], *sync[2];
#endif
};

static void barriers(void *self, uint64_t count)
{
    (void)self;
    for (uint64_t i = 0; i < count; i++)
        shmem_barrier_all();
}

static void sums(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        long round = ++b->round;
        *b->operand = round * 1000 + b->me;
#if HAS_TEAMS
        if (shmem_long_sum_reduce(SHMEM_TEAM_WORLD, b->result, b->operand, 1) != 0)
            die("the reduction failed");
#else
        shmem_long_sum_to_all(b->result, b->operand, 1, 0, 0, b->n, b->work[round % 2], b->sync[round % 2]);
#endif
        if (*b->result != round * 1000 * b->n + (long)b->n * (b->n - 1) / 2)
            die("wrong sum %ld in round %ld", *b->result, round);
    }
}

static void work_open(struct bench *b)
{
    b->operand = symmetric_alloc(sizeof(long));
    b->result = symmetric_alloc(sizeof(long));
#if !HAS_TEAMS
    for (int i = 0; i < 2; i++) {
        b->work[i] = symmetric_alloc(SHMEM_REDUCE_MIN_WRKDATA_SIZE * sizeof(long));
        b->sync[i] = symmetric_alloc(SHMEM_REDUCE_SYNC_SIZE * sizeof(long));
        for (int j = 0; j < SHMEM_REDUCE_SYNC_SIZE; j++)
            b->sync[i][j] = SHMEM_SYNC_VALUE;
    }
    shmem_barrier_all();
#endif
}

static void work_close(struct bench *b)
{
    shmem_barrier_all();
#if !HAS_TEAMS
    for (int i = 1; i >= 0; i--) {
        shmem_free(b->sync[i]);
        shmem_free(b->work[i]);
    }
#endif
    shmem_free(b->result);
    shmem_free(b->operand);
}

int main(int argc, char **argv)
{
    struct options o = pe_start(argc, argv);
    struct bench b = { .me = shmem_my_pe(), .n = shmem_n_pes() };
    struct way ways[2];
    unsigned count = 0;
    work_open(&b);
    if (wanted(&o, "barrier"))
        ways[count++] = (struct way){ .name = "barrier", .steps = barriers, .size_bytes = NO_NUMBER };
    if (wanted(&o, "sum8"))
        ways[count++] = (struct way){ .name = "sum8", .steps = sums, .size_bytes = sizeof(long) };
    for (unsigned i = 0; i < count; i++) {
        ways[i].self = &b;
        ways[i].per_step = 1.0;
        ways[i].depth = b.n;
    }
    ways_measure(ways, count, &o, true);
    for (unsigned i = 0; i < count; i++)
        way_report(&ways[i], &o, false);
    work_close(&b);
    pe_end();
}
