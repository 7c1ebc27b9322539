/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Agreement, symmetric memory and interleaved measuring for the OpenSHMEM programs; see pe.h for the method. */
#define _GNU_SOURCE
#include "pe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICES 16
#define BATCHES_MIN 5
#define WARM_STEPS_FIRST 4
#define WARM_STEPS_MAX (1 << 20)
#define WARM_FRACTION 0.1

static uint64_t *agreed;

struct options pe_start(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    if (o.sizes_count == 0)
        o.sizes_bytes[o.sizes_count++] = sizeof(uint64_t);
    for (unsigned i = 0; i < o.sizes_count; i++)
        if (o.sizes_bytes[i] == 0 || o.sizes_bytes[i] % sizeof(uint64_t) != 0)
            die("sizes must be whole words, not %zu bytes", o.sizes_bytes[i]);
    shmem_init();
    agreed = symmetric_alloc(sizeof *agreed);
    return o;
}

_Noreturn void pe_end(void)
{
    fflush(NULL);
    shmem_free(agreed);
    shmem_barrier_all();
#ifdef OSHMEM_MAJOR_VERSION
    shmem_global_exit(0); /* Open MPI 4.1 as Debian has it dies in shmem_finalize */
    for (;;)
        ; /* its header does not mark it as noreturn */
#else
    shmem_finalize();
    exit(0);
#endif
}

bool wanted(const struct options *o, const char *name)
{
    size_t length = strlen(name);
    if (*o->what == '\0')
        return true;
    for (const char *at = o->what; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

uint64_t agree(uint64_t mine)
{
    if (shmem_my_pe() == 0) {
        *agreed = mine;
        for (int pe = 1; pe < shmem_n_pes(); pe++)
            shmem_putmem(agreed, agreed, sizeof *agreed, pe);
    }
    shmem_barrier_all();
    uint64_t value = *(volatile uint64_t *)agreed;
    shmem_barrier_all(); /* all PEs have read it before the next one arrives */
    return value;
}

void *symmetric_alloc(size_t bytes)
{
    void *memory = shmem_align(CACHE_LINE_BYTES, (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES);
    if (memory == NULL)
        die("no symmetric memory for %zu bytes", bytes);
    memset(memory, 0, bytes);
    shmem_barrier_all();
    return memory;
}

void fill(unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(i * 7 + seed);
}

void verify(const unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)(i * 7 + seed))
            die("PE %d: byte %zu of %zu arrived wrong", shmem_my_pe(), i, bytes);
}

static uint64_t timed(const struct way *way, uint64_t count)
{
    uint64_t start = now_ns();
    way->steps(way->self, count);
    return now_ns() - start;
}

/* Doubles the steps until a tenth of the budget is used. Plans with the time of one step in the last round. */
static void warm_up(struct way *way, const struct options *o, bool together)
{
    double enough_ns = WARM_FRACTION * o->budget_ms * 1e6;
    uint64_t count = WARM_STEPS_FIRST, took_ns;
    for (;; count *= 2) {
        took_ns = timed(way, count);
        took_ns = together ? agree(took_ns) : took_ns;
        if ((double)took_ns >= enough_ns || count >= WARM_STEPS_MAX)
            break;
    }
    way->plan = plan_from((double)took_ns / (double)count, o->budget_ms, BATCHES_MIN);
    way->samples = samples_new(shmem_my_pe() == 0 ? way->plan.batches : 1);
}

static void slice(struct way *way, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        double sample_ns = (double)timed(way, way->plan.batch) / ((double)way->plan.batch * way->per_step);
        if (shmem_my_pe() == 0)
            samples_add(&way->samples, sample_ns);
    }
}

void ways_measure(struct way *ways, unsigned count, const struct options *o, bool together)
{
    for (unsigned w = 0; w < count; w++)
        warm_up(&ways[w], o, together);
    for (uint64_t s = 0; s < SLICES; s++)
        for (unsigned w = 0; w < count; w++)
            slice(&ways[w], ways[w].plan.batches * s / SLICES, ways[w].plan.batches * (s + 1) / SLICES);
}

struct result way_result(struct way *way)
{
    static char name[64]; /* valid as long as the result, which is printed before the next is made */
    snprintf(name, sizeof name, OURS "%s", way->name);
    struct result r = result_new(name, way->size_bytes, way->depth);
    result_times(&r, &way->samples);
    return r;
}

void way_report(struct way *way, const struct options *o, bool rate)
{
    if (shmem_my_pe() == 0) {
        struct result r = way_result(way);
        if (rate)
            r.rate_per_s = 1e9 / r.median_ns;
        result_print(o, &r);
    }
    samples_free(&way->samples);
}
