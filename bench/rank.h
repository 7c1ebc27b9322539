/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Code that all measuring programs share: time, samples, options, result lines. It uses neither Portals nor MPI (those are
 * in ni.h and mpi/mpi_rank.h), so a peer is timed by the same code.
 *
 * The method, in all programs:
 *   1. Warm up until a tenth of the budget is used; this also gives the time of one step.
 *   2. Choose a batch so long that reading the clock costs under one percent of it, and as many batches as the
 *      budget allows. The processes agree on both numbers before the timed part, in which nothing is decided.
 *   3. One sample is one batch divided by its steps. The median and the 99th percentile are those of the samples.
 *
 * One result is one line of JSON on standard output, printed by rank 0:
 *   {"case":..., "size_bytes":..., "depth":..., "median_ns":..., "p99_ns":..., "rate_per_s":..., "bandwidth_Bps":..., "samples":..., "cpu":...}
 * with "value" and "unit" behind "cpu" for a figure of another kind; a case that could not be measured is {"case":..., "size_bytes":..., "depth":..., "skipped":"why"}.
 */
#ifndef BENCH_RANK_H
#define BENCH_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE_BYTES 64
#define PAGE_BYTES 4096
#define LIST_MAX 32

/* ---- options: the same for every program; a program ignores those that it does not use ---- */
struct options {
    const char *what;             /* the measurements to run, e.g. "get" */
    double budget_ms;             /* time for one size or depth of one measurement */
    double limit_ms;              /* a depth that would take longer than this is skipped, with a result that says so */
    size_t sizes_bytes[LIST_MAX]; /* ascending */
    unsigned sizes_count;
    unsigned depths[LIST_MAX]; /* ascending */
    unsigned depths_count;
    size_t ring_bytes;  /* bandwidth: buffers are taken in turn from a ring of this many bytes */
    int cpus[2];        /* raw: the processors of its two processes; -1: any */
    bool inside;        /* the target of a one-sided operation waits inside the library */
    const char *prefix; /* precedes the case name and a colon, e.g. "openmpi" */
};

struct options options_parse(int argc, char **argv);

/* ---- time ---- */
uint64_t now_ns(void);
void cpu_relax(void);

/* ---- work: the computing of a process meanwhile; rounds over words that stay in its cache ---- */
static inline uint64_t work_on(uint64_t *words, unsigned count, unsigned rounds)
{
    uint64_t sum = 0;
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned i = 0; i < count; i++) {
            words[i] = words[i] * UINT64_C(6364136223846793005) + sum;
            sum ^= words[i] >> 29;
        }
    return sum;
}

/* ---- samples ---- */
struct samples {
    double *values_ns;
    size_t count, capacity;
};

struct samples samples_new(size_t capacity);
void samples_add(struct samples *s, double value_ns); /* samples beyond the capacity are dropped */
void samples_clear(struct samples *s);
void samples_free(struct samples *s);
double samples_quantile(struct samples *s, double q); /* sorts the samples; 0 if there are none */

/* ---- the length of a measurement ---- */
struct plan {
    uint64_t batch;   /* steps in one sample */
    uint64_t batches; /* samples */
};

/* A plan from the time of one step, with at least `least` batches. */
struct plan plan_from(double step_ns, double budget_ms, uint64_t least);

/* ---- results ---- */
#define NOT_APPLICABLE (-1.0)
#define NO_NUMBER (-1LL)

struct result {
    const char *name;
    long long size_bytes, depth; /* NO_NUMBER: does not apply */
    double median_ns, p99_ns, rate_per_s, bandwidth_Bps;
    double value;     /* a figure of another kind, printed only if it has a unit */
    const char *unit; /* such as "s/s"; NULL: none */
    size_t samples;
};

struct result result_new(const char *name, long long size_bytes, long long depth);
/* Sets the median, the 99th percentile and the number of samples from `s`. */
void result_times(struct result *r, struct samples *s);
void result_print(const struct options *o, const struct result *r);
void result_skipped(const struct options *o, const char *name, long long size_bytes, long long depth, const char *why);

/* ---- failing: a message on standard error, exit status 1; the launcher ends the other ranks ---- */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- memory ---- */
void *ordinary_alloc(size_t bytes); /* page aligned, touched */

/* Returns the number of buffers of this size in a ring of o->ring_bytes; at least two. */
unsigned rotation(const struct options *o, size_t size_bytes);

#endif
