/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * stencil: the pipelined stencil of "Reducing Synchronization Overhead Through Bundled Communication", section 3.3,
 * which is Synch_p2p of the Parallel Research Kernels:
 *
 *     A(i,j) = A(i-1,j) + A(i,j-1) - A(i-1,j-1)
 *
 * The columns are distributed over the PEs. A PE computes its part of a row after the last element of its left neighbour's
 * part has arrived. Then it puts its own last element to the right: one message of 8 bytes for each row. Three ways to
 * notify the right neighbour:
 *
 *   flags        put, fence, then a put of the row's number into a flag;
 *   counting     counting put: when the counter is j, the elements of rows 1 to j have arrived;
 *   signal       put with signal, the signal being the row's number.
 *
 *     selvedge run -n 4 build/examples/shmem/stencil [columns] [rows] [iterations]
 *
 * Prints GFLOP/s. At first A(i,0) = i and A(0,j) = j. After each iteration the last corner is negated and put into the
 * first. So after t iterations the last corner is t * (columns + rows - 2); every iteration checks that.
 *
 * Invariant: nothing is overwritten before it is read. The first PE begins an iteration when the last corner has arrived.
 * The last PE sends it after it has received every row from its neighbour, and so on back to the first.
 */
#define _POSIX_C_SOURCE 200809L
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HAS_SIGNALS (SHMEM_MAJOR_VERSION > 1 || (SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION >= 5))

enum method { FLAGS, COUNTING, SIGNAL, METHODS };
static const char *const names[METHODS] = {"flags", "counting", "signal"};

static int me, n;
static int columns, rows;       /* width of the whole grid */
static int first_column, width; /* width of this PE's part */
static double *grid;            /* rows of width + 1 elements; the first is the left neighbour's last one */
static double *halo, *edge;     /* symmetric, by row: elements from the left, and to the right */
static double *corner;          /* symmetric: the corner, from the last PE to the first */
static uint64_t *flag;          /* symmetric, for flags and for signals: the last row that has arrived, 0 between iterations */
#ifdef SELVEDGE_SHMEM
static shmem_ct_t ct;
#endif

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Allocates zeroed memory in cache lines of its own. */
static void *symmetric(size_t bytes)
{
    size_t whole = (bytes + 63) / 64 * 64;
    void *memory = shmem_align(64, whole);
    if (memory == NULL) {
        fprintf(stderr, "no symmetric memory left\n");
        shmem_global_exit(1);
    }
    return memset(memory, 0, whole);
}

static int have(enum method method)
{
#ifdef SELVEDGE_SHMEM
    if (method == COUNTING)
        return 1;
#endif
    return method == FLAGS || (method == SIGNAL && HAS_SIGNALS);
}

/* Column -1 belongs to the left neighbour. */
static double *at(int row, int column) { return &grid[(size_t)row * ((size_t)width + 1) + (size_t)column + 1]; }

static void pass(enum method method, double *to, const double *from, int number, int pe)
{
    if (method == FLAGS) {
        shmem_double_put(to, from, 1, pe);
        shmem_fence();
        shmem_uint64_p(flag, (uint64_t)number, pe);
    }
#ifdef SELVEDGE_SHMEM
    if (method == COUNTING)
        shmem_double_put_ct(ct, to, from, 1, pe);
#endif
#if HAS_SIGNALS
    if (method == SIGNAL)
        shmem_double_put_signal(to, from, 1, flag, (uint64_t)number, SHMEM_SIGNAL_SET, pe);
#endif
}

static void await(enum method method, int number)
{
    if (method == FLAGS)
        shmem_uint64_wait_until(flag, SHMEM_CMP_GE, (uint64_t)number);
#ifdef SELVEDGE_SHMEM
    if (method == COUNTING)
        shmem_ct_wait(ct, number);
#endif
#if HAS_SIGNALS
    if (method == SIGNAL)
        shmem_signal_wait_until(flag, SHMEM_CMP_GE, (uint64_t)number);
#endif
}

/* Called after this iteration's last message has arrived, and before the message that the next iteration waits for is sent. */
static void rewind_number(enum method method)
{
#ifdef SELVEDGE_SHMEM
    if (method == COUNTING)
        shmem_ct_set(ct, 0);
#endif
    if (method != COUNTING)
        *flag = 0;
}

static void check_corner(long iterations)
{
    double expected = (double)iterations * ((double)columns + rows - 2), found = *at(rows - 1, width - 1);
    if (found != expected) { /* whole numbers: exact */
        fprintf(stderr, "after %ld iterations the corner is %.0f, not %.0f\n", iterations, found, expected);
        shmem_global_exit(1);
    }
}

/* Iteration number `count` of all, from 1. */
static void iterate(enum method method, long count)
{
    int is_first = me == 0, is_last = me == n - 1;
    for (int j = 1; j < rows; j++) {
        if (!is_first) {
            await(method, j);
            if (j == rows - 1)
                rewind_number(method);
            *at(j, -1) = halo[j];
        }
        for (int i = is_first; i < width; i++)
            *at(j, i) = *at(j - 1, i) + *at(j, i - 1) - *at(j - 1, i - 1);
        if (!is_last) {
            edge[j] = *at(j, width - 1);
            pass(method, &halo[j], &edge[j], j, me + 1);
        }
    }
    if (is_last) {
        check_corner(count);
        edge[0] = -*at(rows - 1, width - 1);
        pass(method, corner, &edge[0], 1, 0);
    }
    if (is_first) {
        await(method, 1);
        rewind_number(method);
        *at(0, 0) = *corner;
    }
}

static void start_grid(void)
{
    for (int j = 0; j < rows; j++)
        for (int i = -1; i < width; i++)
            *at(j, i) = j == 0 ? (double)(first_column + i) : 0.0;
    for (int j = 0; j < rows && me == 0; j++)
        *at(j, 0) = (double)j;
}

/* Returns GFLOP/s. One more iteration before them warms up. */
static double measure(enum method method, int iterations)
{
    start_grid();
    shmem_barrier_all();
    iterate(method, 1);
    double start_s = now_s();
    for (int t = 0; t < iterations; t++)
        iterate(method, t + 2);
    double took_s = now_s() - start_s;
    shmem_barrier_all();
    return 2e-9 * ((double)columns - 1) * ((double)rows - 1) * iterations / took_s;
}

int main(int argc, char **argv)
{
    columns = argc > 1 ? atoi(argv[1]) : 1280;
    rows = argc > 2 ? atoi(argv[2]) : 1280;
    int iterations = argc > 3 ? atoi(argv[3]) : 20;
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    if (columns < 2 * n || rows < 2 || iterations < 1) {
        if (me == 0)
            fprintf(stderr, "usage: selvedge run -n 4 build/examples/shmem/stencil [columns] [rows] [iterations]\n"
                            "at least two columns for each PE, two rows\n");
        shmem_global_exit(1);
    }
    first_column = (int)((long)columns * me / n);
    width = (int)((long)columns * (me + 1) / n) - first_column;
    grid = malloc((size_t)rows * ((size_t)width + 1) * sizeof *grid);
    if (grid == NULL) {
        fprintf(stderr, "out of memory\n");
        shmem_global_exit(1);
    }
    halo = symmetric((size_t)rows * sizeof *halo);
    edge = symmetric((size_t)rows * sizeof *edge);
    corner = symmetric(sizeof *corner);
    flag = symmetric(sizeof *flag);
#ifdef SELVEDGE_SHMEM
    shmem_ct_create(&ct);
#endif

    if (me == 0)
        printf("%d PEs, %d columns, %d rows\n", n, columns, rows);
    for (int method = 0; method < METHODS; method++) {
        if (!have((enum method)method))
            continue;
        double rate = measure((enum method)method, iterations);
        if (me == 0)
            printf("%-10s %8.3f GFLOP/s\n", names[method], rate);
    }
    fflush(stdout);
    shmem_barrier_all();
#ifdef SELVEDGE_SHMEM
    shmem_ct_free(&ct);
#endif
    shmem_free(flag);
    shmem_free(corner);
    shmem_free(edge);
    shmem_free(halo);
    free(grid);
    shmem_finalize();
    return 0;
}
