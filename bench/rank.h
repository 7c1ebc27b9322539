/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What every measuring program shares, whatever it is written to: time, samples, options, result lines.
 * Nothing here knows Portals or MPI (that is ni.h and mpi/mpi_rank.h), so a peer is timed by the very same code.
 *
 * How a figure comes about, everywhere:
 *   1. Warm up until a tenth of the budget is gone; that also tells how long one step takes.
 *   2. Choose a batch so long that reading the clock costs under one percent of it, and as many batches as the
 *      budget allows. The processes agree on both numbers before the clock starts; nothing decides in between.
 *   3. One sample is one batch divided by its steps. The median and the 99th percentile are those of the samples.
 *
 * One result is one line of JSON on standard output, printed by rank 0:
 *   {"case":..., "size_bytes":..., "depth":..., "median_ns":..., "p99_ns":..., "rate_per_s":..., "bandwidth_Bps":..., "samples":..., "cpu":...}
 * and what could not be measured is {"case":..., "size_bytes":..., "depth":..., "skipped":"why"}.
 */
#ifndef BENCH_RANK_H
#define BENCH_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CACHE_LINE_BYTES 64
#define PAGE_BYTES 4096
#define LIST_MAX 32

/* ---- options: the same for every program; a program ignores what does not concern it ---- */
struct options {
    const char *what;             /* which of the program's measurements, e.g. "get" */
    double budget_ms;             /* for one size or depth of one measurement */
    double limit_ms;              /* a depth that would take longer than this is skipped, with a word */
    size_t sizes_bytes[LIST_MAX]; /* ascending */
    unsigned sizes_count;
    unsigned depths[LIST_MAX]; /* ascending */
    unsigned depths_count;
    size_t ring_bytes;  /* bandwidth: buffers are taken in turn from a ring this long */
    int cpus[2];        /* raw: where its two processes go; -1: wherever */
    const char *prefix; /* put before the case name and a colon, e.g. "openmpi" */
};

struct options options_parse(int argc, char **argv);

/* ---- time ---- */
uint64_t now_ns(void);
void cpu_relax(void);

/* ---- samples ---- */
struct samples {
    double *values_ns;
    size_t count, capacity;
};

struct samples samples_new(size_t capacity);
void samples_add(struct samples *s, double value_ns); /* beyond the capacity: dropped */
void samples_clear(struct samples *s);
void samples_free(struct samples *s);
double samples_quantile(struct samples *s, double q); /* sorts; 0 when there is none */

/* ---- how long to measure ---- */
struct plan {
    uint64_t batch;   /* steps in one sample */
    uint64_t batches; /* samples */
};

/* From the time of one step. `least` batches are taken however long they last. */
struct plan plan_from(double step_ns, double budget_ms, uint64_t least);

/* ---- results ---- */
#define NOT_APPLICABLE (-1.0)
#define NO_NUMBER (-1LL)

struct result {
    const char *name;
    long long size_bytes, depth; /* NO_NUMBER: does not apply */
    double median_ns, p99_ns, rate_per_s, bandwidth_Bps;
    size_t samples;
};

struct result result_new(const char *name, long long size_bytes, long long depth);
/* Takes the median and the 99th percentile of `s`, and the number of samples. */
void result_times(struct result *r, struct samples *s);
void result_print(const struct options *o, const struct result *r);
void result_skipped(const struct options *o, const char *name, long long size_bytes, long long depth, const char *why);

/* ---- failing: a message on standard error, exit status 1; the launcher ends the other ranks ---- */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- memory ---- */
void *ordinary_alloc(size_t bytes); /* page aligned, touched */

/* How many buffers of this size make up one ring of o->ring_bytes; at least two. */
unsigned rotation(const struct options *o, size_t size_bytes);

#endif
