/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Every PE puts a message to every PE, including itself, and waits until all have arrived (seed 004, section 3.2):
 *   alltoall_barrier   puts, then shmem_barrier_all
 *   alltoall_flags     puts, fence, an atomic increment of every PE's flag, then shmem_int_wait_until
 *   alltoall_counting  counting puts, then shmem_ct_wait
 * Each PE begins with itself, so that the messages spread. The depth is the number of PEs; the bandwidth is that of one PE.
 *
 * Invariants: 1. flags and counters only rise. 2. Two of them take turns: a PE can begin exchange k+2 only after all PEs
 * have finished k, so an arrival of k+2 is never counted for k. 3. Every byte is checked before and after the timed part.
 */
#define _GNU_SOURCE
#include "pe.h"

#include <string.h>

struct bench {
    int me, n;
    size_t bytes;
    unsigned char *in, *out; /* n messages each; in[s] is from PE s, out[t] goes to PE t */
    int *flags[2];
    uint64_t flagged, counted;
#ifdef SELVEDGE_SHMEM
    shmem_ct_t cts[2];
#endif
};

/* Returns how often one of a PE's pair has been used after exchange k, counted from 0. */
static long uses(uint64_t k) { return (long)(k / 2 + 1); }

static int next(const struct bench *b, int pe) { return pe + 1 == b->n ? 0 : pe + 1; }

static void put_all(struct bench *b)
{
    int pe = b->me;
    do {
        shmem_putmem(b->in + (size_t)b->me * b->bytes, b->out + (size_t)pe * b->bytes, b->bytes, pe);
        pe = next(b, pe);
    } while (pe != b->me);
}

static void with_barrier(void *self, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        put_all(self);
        shmem_barrier_all();
    }
}

static void with_flags(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = b->flagged++;
        int *flag = b->flags[k % 2], pe = b->me;
        put_all(b);
        shmem_fence();
        do {
            shmem_int_atomic_inc(flag, pe);
            pe = next(b, pe);
        } while (pe != b->me);
        shmem_int_wait_until(flag, SHMEM_CMP_GE, (int)(uses(k) * b->n));
    }
}

#ifdef SELVEDGE_SHMEM
static void with_counting(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = b->counted++;
        shmem_ct_t ct = b->cts[k % 2];
        int pe = b->me;
        do {
            shmem_putmem_ct(ct, b->in + (size_t)b->me * b->bytes, b->out + (size_t)pe * b->bytes, b->bytes, pe);
            pe = next(b, pe);
        } while (pe != b->me);
        shmem_ct_wait(ct, uses(k) * b->n);
    }
}
#endif

static const struct way ALL[] = {
    { .name = "alltoall_barrier", .steps = with_barrier },
    { .name = "alltoall_flags", .steps = with_flags },
#ifdef SELVEDGE_SHMEM
    { .name = "alltoall_counting", .steps = with_counting },
#endif
};
#define ALL_COUNT (sizeof ALL / sizeof *ALL)

static unsigned tag(int from, int to, unsigned seed) { return (unsigned)(from * 31 + to) + seed; }

static void checked_step(struct bench *b, const struct way *way, unsigned seed)
{
    for (int pe = 0; pe < b->n; pe++)
        fill(b->out + (size_t)pe * b->bytes, b->bytes, tag(b->me, pe, seed));
    memset(b->in, 0, b->bytes * (size_t)b->n);
    shmem_barrier_all();
    way->steps(b, 1);
    for (int pe = 0; pe < b->n; pe++)
        verify(b->in + (size_t)pe * b->bytes, b->bytes, tag(pe, b->me, seed));
    shmem_barrier_all();
}

static void measure_size(struct bench *b, const struct options *o, size_t bytes)
{
    struct way ways[ALL_COUNT];
    unsigned count = 0;
    b->bytes = bytes;
    for (unsigned i = 0; i < ALL_COUNT; i++) {
        if (!wanted(o, ALL[i].name))
            continue;
        ways[count] = ALL[i];
        ways[count].self = b;
        ways[count].per_step = 1.0;
        ways[count].size_bytes = (long long)bytes;
        ways[count++].depth = b->n;
    }
    for (unsigned i = 0; i < count; i++)
        checked_step(b, &ways[i], 1 + i);
    ways_measure(ways, count, o, true);
    for (unsigned i = 0; i < count; i++)
        checked_step(b, &ways[i], 101 + i);
    for (unsigned i = 0; i < count; i++) {
        if (b->me == 0) {
            struct result r = way_result(&ways[i]);
            r.bandwidth_Bps = (double)bytes * b->n * 1e9 / r.median_ns;
            result_print(o, &r);
        }
        samples_free(&ways[i].samples);
    }
}

int main(int argc, char **argv)
{
    struct options o = pe_start(argc, argv);
    struct bench b = { .me = shmem_my_pe(), .n = shmem_n_pes() };
    size_t most = o.sizes_bytes[o.sizes_count - 1] * (size_t)b.n;
    b.in = symmetric_alloc(most);
    b.out = symmetric_alloc(most);
    for (int i = 0; i < 2; i++) {
        b.flags[i] = symmetric_alloc(sizeof(int));
#ifdef SELVEDGE_SHMEM
        shmem_ct_create(&b.cts[i]);
        if (b.cts[i] == SHMEM_CT_INVALID)
            die("no counter left: set SELVEDGE_SHMEM_COUNTERS higher");
#endif
    }
    for (unsigned i = 0; i < o.sizes_count; i++)
        measure_size(&b, &o, o.sizes_bytes[i]);
    shmem_barrier_all();
    for (int i = 1; i >= 0; i--) {
#ifdef SELVEDGE_SHMEM
        shmem_ct_free(&b.cts[i]);
#endif
        shmem_free(b.flags[i]);
    }
    shmem_free(b.out);
    shmem_free(b.in);
    pe_end();
}
