/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The time of one operation on a target that sleeps outside the library, or with --inside waits in it:
 *   get         shmem_getmem, a whole one, by size
 *   fetch_add   shmem_long_atomic_fetch_add, a whole one
 *   atomic_add  shmem_long_atomic_add, one of WINDOW between two shmem_quiet
 *   p           shmem_long_p, one of WINDOW between two shmem_quiet
 *   put_quiet   shmem_putmem and shmem_quiet, by size
 *
 * Invariants: 1. PE 0 measures alone; PE 1 only polls its memory now and then, for the word that ends it, or is in a barrier. 2. Every
 * byte got, every sum, every word put and every byte put is checked.
 */
#define _GNU_SOURCE
#include "pe.h"

#include <string.h>
#include <time.h>

#define WINDOW 64
#define NAP_NS 200000
enum { TARGET = 1 };

struct bench {
    size_t bytes;
    unsigned char *in, *data; /* symmetric; PE 1's `data` is read */
    unsigned char *landing;   /* symmetric; PE 0 puts its `data` into PE 1's */
    long *sum, *fetched_sum, *words, *end;
    long added, fetched, put;
};

static void get_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++)
        shmem_getmem(b->in, b->data, b->bytes, TARGET);
}

static void fetch_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        long before = shmem_long_atomic_fetch_add(b->fetched_sum, 3, TARGET);
        if (before != 3 * b->fetched++)
            die("fetched %ld after %ld additions of 3", before, b->fetched - 1);
    }
}

static void add_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        for (int j = 0; j < WINDOW; j++)
            shmem_long_atomic_add(b->sum, 5, TARGET);
        shmem_quiet();
    }
    b->added += (long)count * WINDOW;
}

static void p_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        b->put++;
        for (int j = 0; j < WINDOW; j++)
            shmem_long_p(&b->words[j], b->put + j, TARGET);
        shmem_quiet();
    }
}

static void put_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        shmem_putmem(b->landing, b->data, b->bytes, TARGET);
        shmem_quiet();
    }
}

static void check(struct bench *b)
{
    long got;
    verify(b->in, b->bytes, TARGET);
    shmem_getmem(&got, b->sum, sizeof got, TARGET);
    if (got != 5 * b->added)
        die("%ld additions of 5 made %ld", b->added, got);
    for (int j = 0; j < WINDOW && b->put > 0; j++)
        if ((got = shmem_long_g(&b->words[j], TARGET)) != b->put + j)
            die("word %d is %ld, not %ld", j, got, b->put + j);
    put_steps(b, 1);
    memset(b->in, 0, b->bytes);
    shmem_getmem(b->in, b->landing, b->bytes, TARGET);
    verify(b->in, b->bytes, 0);
}

static const struct way ALL[] = {
    { .name = "get", .steps = get_steps, .per_step = 1.0, .depth = NO_NUMBER },
    { .name = "fetch_add", .steps = fetch_steps, .per_step = 1.0, .depth = NO_NUMBER },
    { .name = "atomic_add", .steps = add_steps, .per_step = WINDOW, .depth = WINDOW },
    { .name = "p", .steps = p_steps, .per_step = WINDOW, .depth = WINDOW },
    { .name = "put_quiet", .steps = put_steps, .per_step = 1.0, .depth = NO_NUMBER },
};
#define ALL_COUNT (sizeof ALL / sizeof *ALL)

/* All operations at the first size, only those of bytes at the others. */
static void measure_size(struct bench *b, const struct options *o, unsigned at)
{
    struct way ways[ALL_COUNT];
    unsigned count = 0;
    b->bytes = o->sizes_bytes[at];
    for (unsigned i = 0; i < ALL_COUNT; i++) {
        bool sized = ALL[i].steps == get_steps || ALL[i].steps == put_steps;
        if (!wanted(o, ALL[i].name) || (!sized && at > 0))
            continue;
        ways[count] = ALL[i];
        ways[count].self = b;
        ways[count++].size_bytes = sized ? (long long)b->bytes : (long long)sizeof(long);
    }
    ways_measure(ways, count, o, false);
    if (!wanted(o, "get"))
        get_steps(b, 1);
    check(b);
    for (unsigned i = 0; i < count; i++)
        way_report(&ways[i], o, ways[i].per_step > 1.0);
}

int main(int argc, char **argv)
{
    struct options o = pe_start(argc, argv);
    if (shmem_n_pes() != 2)
        die("needs two PEs, has %d", shmem_n_pes());
    size_t most = o.sizes_bytes[o.sizes_count - 1];
    struct bench b = { 0 };
    b.in = symmetric_alloc(most);
    b.data = symmetric_alloc(most);
    b.landing = symmetric_alloc(most);
    b.sum = symmetric_alloc(sizeof(long));
    b.fetched_sum = symmetric_alloc(sizeof(long));
    b.words = symmetric_alloc(WINDOW * sizeof(long));
    b.end = symmetric_alloc(sizeof(long));
    fill(b.data, most, (unsigned)shmem_my_pe());
    shmem_barrier_all();
    if (shmem_my_pe() == 0) {
        for (unsigned i = 0; i < o.sizes_count; i++)
            measure_size(&b, &o, i);
        shmem_long_p(b.end, 1, TARGET);
    } else if (!o.inside) {
        while (__atomic_load_n(b.end, __ATOMIC_ACQUIRE) == 0)
            nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    }
    shmem_barrier_all();
    shmem_free(b.end);
    shmem_free(b.words);
    shmem_free(b.fetched_sum);
    shmem_free(b.sum);
    shmem_free(b.landing);
    shmem_free(b.data);
    shmem_free(b.in);
    pe_end();
}
