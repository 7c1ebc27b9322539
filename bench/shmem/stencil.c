/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The pipelined stencil of seed 004, section 3.3 (Synch_p2p of the Parallel Research Kernels). The columns are distributed
 * over the PEs. A PE may compute its part of a row after its left neighbour has put the last element of that row here.
 *   stencil_flags     put, fence, put of the row's number into a flag: it has one writer, so it needs no atomic
 *   stencil_counting  counting put
 *   stencil_signal    put with signal
 * The depth is the number of PEs; one message is 8 bytes; the rate is that of additions and subtractions.
 *
 * Each PE has COLUMNS columns, for any number of PEs: about the share of one of 50 PEs in the seed's 12800.
 *
 * Invariants: 1. the last PE's corner returns, negated, to the first one, which waits for it. So no PE begins an
 * iteration before all have finished the previous one, and no element is overwritten before it is read. 2. After t
 * iterations, by any ways, the corner is t * (columns + rows - 2); each iteration checks it. 3. Numbers waited for only
 * rise.
 */
#define _GNU_SOURCE
#include "pe.h"

#include <stdlib.h>

#define COLUMNS 256
#define ROWS 1280
#define FLOPS_PER_ELEMENT 2.0

struct bench {
    int me, n;
    double *grid;              /* ROWS rows of COLUMNS + 1; the first is the left neighbour's element */
    double *halo, *edge;       /* symmetric, by row: elements from the left, and to the right */
    double *corner;            /* symmetric: the corner, from the last PE to the first */
    uint64_t *flag, *signal;   /* symmetric: rows that have arrived, over all iterations of that way */
    uint64_t iterations;       /* iterations by all ways */
    uint64_t flagged, signalled, counted;
#ifdef SELVEDGE_SHMEM
    shmem_ct_t ct;
#endif
};

static double *at(struct bench *b, int row, int column) { return &b->grid[(size_t)row * (COLUMNS + 1) + (size_t)column + 1]; }

/* Passes an element on by one way; waits for the `number`th arrival. */
typedef void sender(struct bench *b, double *to, double *from, uint64_t number, int pe);
typedef void waiter(struct bench *b, uint64_t number);

static void check_corner(struct bench *b)
{
    double wanted = (double)b->iterations * (double)(COLUMNS * b->n + ROWS - 2);
    if (*at(b, ROWS - 1, COLUMNS - 1) != wanted)
        die("the corner is %.0f after %llu iterations, not %.0f", *at(b, ROWS - 1, COLUMNS - 1),
            (unsigned long long)b->iterations, wanted);
}

/* An iteration is ROWS messages to each PE; to the first it is the corner only. */
static inline __attribute__((always_inline)) void iterate(struct bench *b, uint64_t *came, sender *pass, waiter *await)
{
    int first = b->me == 0, last = b->me == b->n - 1;
    uint64_t before = *came;
    for (int row = 1; row < ROWS; row++) {
        if (!first) {
            await(b, before + (uint64_t)row);
            *at(b, row, -1) = b->halo[row];
        }
        for (int column = first; column < COLUMNS; column++)
            *at(b, row, column) = *at(b, row - 1, column) + *at(b, row, column - 1) - *at(b, row - 1, column - 1);
        if (!last) {
            b->edge[row] = *at(b, row, COLUMNS - 1);
            pass(b, &b->halo[row], &b->edge[row], before + (uint64_t)row, b->me + 1);
        }
    }
    *came += ROWS - 1; /* the same at all PEs; the first PE's flag gets there with one message */
    b->iterations++;
    if (last) {
        check_corner(b);
        b->edge[0] = -*at(b, ROWS - 1, COLUMNS - 1);
        pass(b, b->corner, &b->edge[0], *came, 0);
    }
}

/* The first PE's counter rises by one an iteration: it gets the corner only. */
static void take_corner(struct bench *b) { *at(b, 0, 0) = *b->corner; }

static void flag_pass(struct bench *b, double *to, double *from, uint64_t number, int pe)
{
    shmem_double_put(to, from, 1, pe);
    shmem_fence();
    shmem_uint64_p(b->flag, number, pe);
}

static void flag_wait(struct bench *b, uint64_t number) { shmem_uint64_wait_until(b->flag, SHMEM_CMP_GE, number); }

static void with_flags(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        iterate(b, &b->flagged, flag_pass, flag_wait);
        if (b->me == 0) {
            flag_wait(b, b->flagged);
            take_corner(b);
        }
    }
}

#ifdef SELVEDGE_SHMEM
static void signal_pass(struct bench *b, double *to, double *from, uint64_t number, int pe)
{
    shmem_double_put_signal(to, from, 1, b->signal, number, SHMEM_SIGNAL_SET, pe);
}

static void signal_wait(struct bench *b, uint64_t number) { shmem_signal_wait_until(b->signal, SHMEM_CMP_GE, number); }

static void with_signal(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        iterate(b, &b->signalled, signal_pass, signal_wait);
        if (b->me == 0) {
            signal_wait(b, b->signalled);
            take_corner(b);
        }
    }
}

static void counting_pass(struct bench *b, double *to, double *from, uint64_t number, int pe)
{
    (void)number;
    shmem_double_put_ct(b->ct, to, from, 1, pe);
}

static void counting_wait(struct bench *b, uint64_t number) { shmem_ct_wait(b->ct, (long)number); }

static void with_counting(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        iterate(b, &b->counted, counting_pass, counting_wait);
        if (b->me == 0) {
            counting_wait(b, b->counted / (ROWS - 1));
            take_corner(b);
        }
    }
}
#endif

static const struct way ALL[] = {
    { .name = "stencil_flags", .steps = with_flags },
#ifdef SELVEDGE_SHMEM
    { .name = "stencil_counting", .steps = with_counting },
    { .name = "stencil_signal", .steps = with_signal },
#endif
};
#define ALL_COUNT (sizeof ALL / sizeof *ALL)

/* Row 0 has the numbers of the columns, column 0 those of the rows. */
static void start_grid(struct bench *b)
{
    for (int row = 0; row < ROWS; row++)
        for (int column = -1; column < COLUMNS; column++)
            *at(b, row, column) = row == 0 ? (double)(b->me * COLUMNS + column) : 0.0;
    for (int row = 0; row < ROWS && b->me == 0; row++)
        *at(b, row, 0) = (double)row;
    if (b->me == 0)
        *at(b, 0, 0) = 0.0;
}

int main(int argc, char **argv)
{
    struct options o = pe_start(argc, argv);
    struct bench b = { .me = shmem_my_pe(), .n = shmem_n_pes() };
    if (b.n < 2)
        die("needs two PEs or more");
    b.grid = ordinary_alloc(sizeof(double) * ROWS * (COLUMNS + 1));
    b.halo = symmetric_alloc(ROWS * sizeof(double));
    b.edge = symmetric_alloc(ROWS * sizeof(double));
    b.corner = symmetric_alloc(sizeof(double));
    b.flag = symmetric_alloc(sizeof(uint64_t));
    b.signal = symmetric_alloc(sizeof(uint64_t));
#ifdef SELVEDGE_SHMEM
    shmem_ct_create(&b.ct);
    if (b.ct == SHMEM_CT_INVALID)
        die("no counter left: set SELVEDGE_SHMEM_COUNTERS higher");
#endif
    start_grid(&b);
    shmem_barrier_all();

    struct way ways[ALL_COUNT];
    unsigned count = 0;
    for (unsigned i = 0; i < ALL_COUNT; i++)
        if (wanted(&o, ALL[i].name)) {
            ways[count] = ALL[i];
            ways[count].self = &b;
            ways[count].per_step = 1.0;
            ways[count].size_bytes = sizeof(double);
            ways[count++].depth = b.n;
        }
    ways_measure(ways, count, &o, true);
    for (unsigned i = 0; i < count; i++) {
        if (b.me == 0) {
            struct result r = way_result(&ways[i]);
            r.rate_per_s = FLOPS_PER_ELEMENT * (COLUMNS * b.n - 1.0) * (ROWS - 1.0) * 1e9 / r.median_ns;
            result_print(&o, &r);
        }
        samples_free(&ways[i].samples);
    }
    shmem_barrier_all();
#ifdef SELVEDGE_SHMEM
    shmem_ct_free(&b.ct);
#endif
    shmem_free(b.signal);
    shmem_free(b.flag);
    shmem_free(b.corner);
    shmem_free(b.edge);
    shmem_free(b.halo);
    free(b.grid);
    pe_end();
}
