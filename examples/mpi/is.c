/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * is: NAS benchmark IS, integer sort. Ten times, it finds every key's rank among all keys. Keys are counted into buckets,
 * every process gets a run of buckets with about as many keys as the others, all keys are sent there (MPI_Alltoallv) and
 * counted. Two keys are changed each time. At the end the keys are sorted.
 *
 *     mpicc -O2 examples/mpi/is.c -o is && mpirun -n 4 ./is [S|W]
 *
 * Any number of ranks. Ends with an error when a key's rank is not the published one, or the order is wrong.
 */
#include "nas.h"
#include <stdlib.h>
#include <string.h>

#define ITERATIONS  10
#define TESTS       5
#define BUCKETS_MAX 1024

static const struct problem {
    int log2_keys, log2_max, log2_buckets;
    long index[TESTS], place[TESTS]; /* the key at that index has that rank, plus or minus the iteration */
    int rising, lag;                 /* the first `rising` ranks grow by 1 an iteration, `lag` later; the others fall */
} problems[] = {
    {16, 11, 9, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, 3, 0},
    {20, 16, 10, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}, 2, 2},
};

static const struct problem *problem;
static int rank, size;
static long first, count;   /* the indices of this rank's keys */
static int *keys, *grouped; /* as generated; then sorted by bucket */
static int *mine;           /* the keys of this process's buckets */
static long mine_count, before; /* and the number of smaller keys at other processes */
static int *smaller;            /* by key: the number of this process's keys that are smaller */

static void *memory(size_t bytes)
{
    void *p = calloc(1, bytes + 1);
    if (p == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* Every key is the mean of four random numbers. */
static void generate(void)
{
    uint64_t generator = nas_skip(314159265, 4 * (uint64_t)first);
    double quarter = (double)(1 << problem->log2_max) / 4;
    for (long i = 0; i < count; i++) {
        double sum = nas_random(&generator);
        for (int k = 0; k < 3; k++)
            sum += nas_random(&generator);
        keys[i] = (int)(quarter * sum);
    }
}

static void set_key(long index, int key)
{
    if (index >= first && index < first + count)
        keys[index - first] = key;
}

/* Assigns every process its run of buckets: owner[b]. */
static void share_buckets(const int *all, int buckets, int *owner)
{
    long total = 1L << problem->log2_keys, seen = 0;
    for (int b = 0; b < buckets; b++) {
        owner[b] = (int)(seen * size / total);
        seen += all[b];
    }
}

static void exchange_keys(void)
{
    int buckets = 1 << problem->log2_buckets, shift = problem->log2_max - problem->log2_buckets;
    int here[BUCKETS_MAX] = {0}, all[BUCKETS_MAX], owner[BUCKETS_MAX], at[BUCKETS_MAX];
    int *layout = memory(4 * (size_t)size * sizeof *layout);
    int *to = layout, *to_at = to + size, *from = to_at + size, *from_at = from + size;

    for (long i = 0; i < count; i++)
        here[keys[i] >> shift]++;
    MPI_Allreduce(here, all, buckets, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    share_buckets(all, buckets, owner);
    before = 0;
    for (int b = 0, place = 0; b < buckets; place += here[b++]) {
        at[b] = place;
        to[owner[b]] += here[b];
        before += owner[b] < rank ? all[b] : 0;
    }
    for (long i = 0; i < count; i++)
        grouped[at[keys[i] >> shift]++] = keys[i];

    MPI_Alltoall(to, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
    mine_count = from[0];
    for (int r = 1; r < size; r++) {
        to_at[r] = to_at[r - 1] + to[r - 1];
        from_at[r] = from_at[r - 1] + from[r - 1];
        mine_count += from[r];
    }
    free(mine);
    mine = memory((size_t)mine_count * sizeof *mine);
    MPI_Alltoallv(grouped, to, to_at, MPI_INT, mine, from, from_at, MPI_INT, MPI_COMM_WORLD);
    free(layout);
}

static void rank_keys(void)
{
    int values = 1 << problem->log2_max;
    exchange_keys();
    memset(smaller, 0, (size_t)(values + 1) * sizeof *smaller);
    for (long i = 0; i < mine_count; i++)
        smaller[mine[i] + 1]++;
    for (int key = 0; key < values; key++)
        smaller[key + 1] += smaller[key];
}

/* Checks the published ranks of five keys. Returns the number of wrong ones, at all processes. */
static int check_ranks(int iteration)
{
    int looked[TESTS] = {0}, wrong = 0, found = 0;
    for (int t = 0; t < TESTS; t++)
        if (problem->index[t] >= first && problem->index[t] < first + count)
            looked[t] = keys[problem->index[t] - first];
    MPI_Allreduce(MPI_IN_PLACE, looked, TESTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int t = 0; t < TESTS; t++) {
        if (smaller[looked[t]] == smaller[looked[t] + 1])
            continue; /* another process has it */
        long expected = problem->place[t] + (t < problem->rising ? iteration - problem->lag : -iteration);
        wrong += before + smaller[looked[t]] != expected;
        found++;
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &found, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return wrong + TESTS - found;
}

/* Sorts this process's keys, and compares with its neighbours'. Returns the number of pairs out of order. */
static long check_order(void)
{
    int *sorted = memory((size_t)mine_count * sizeof *sorted), largest = -1, largest_before = -1;
    long wrong = 0, total = mine_count;
    for (long i = 0; i < mine_count; i++)
        sorted[smaller[mine[i]]++] = mine[i];
    for (long i = 0; i < mine_count; i++)
        wrong += i > 0 && sorted[i - 1] > sorted[i];
    if (mine_count > 0)
        largest = sorted[mine_count - 1];
    MPI_Exscan(&largest, &largest_before, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    wrong += rank > 0 && mine_count > 0 && largest_before > sorted[0];
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    free(sorted);
    return wrong + (total != 1L << problem->log2_keys);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int class = nas_class(argc, argv, 1, "is [S|W]");
    if (class < 0)
        MPI_Abort(MPI_COMM_WORLD, 2);

    problem = &problems[class];
    first = nas_first(1L << problem->log2_keys, rank, size);
    count = nas_first(1L << problem->log2_keys, rank + 1, size) - first;
    keys = memory((size_t)count * sizeof *keys);
    grouped = memory((size_t)count * sizeof *grouped);
    smaller = memory(((size_t)(1 << problem->log2_max) + 1) * sizeof *smaller);
    generate();

    int wrong_ranks = 0;
    double took_s = 0;
    for (int iteration = 1; iteration <= ITERATIONS; iteration++) {
        set_key(iteration, iteration);
        set_key(iteration + ITERATIONS, (1 << problem->log2_max) - iteration);
        double began_s = MPI_Wtime();
        rank_keys();
        took_s += MPI_Wtime() - began_s;
        wrong_ranks += check_ranks(iteration);
    }
    long wrong_order = check_order();
    if (rank == 0)
        printf("is %c, %d ranks: %d keys, %d times, %.6f s: %s (%d wrong ranks, %ld out of order)\n", "SW"[class], size,
               1 << problem->log2_keys, ITERATIONS, took_s, wrong_ranks + wrong_order ? "WRONG" : "verified",
               wrong_ranks, wrong_order);
    free(smaller);
    free(mine);
    free(grouped);
    free(keys);
    MPI_Finalize();
    return wrong_ranks + wrong_order ? 1 : 0;
}
