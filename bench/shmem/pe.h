/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the OpenSHMEM measuring programs share beyond ../rank.h: agreement between PEs, and several ways to do one thing
 * measured in one loop. Standard OpenSHMEM 1.4, so the same source is compiled for a peer; what only ours has stands
 * between #ifdef SELVEDGE_SHMEM.
 *
 * How ways are measured together: each is warmed up and planned as rank.h says; then the clock runs in SLICES rounds, in
 * each of which every way takes its share of its batches. What disturbs the machine for a while disturbs them all.
 *
 * Invariants: 1. the PEs agree on every number before the clock starts. 2. All symmetric memory comes from shmem_malloc,
 * in the same order at every PE. 3. Only PE 0 keeps samples and prints.
 */
#ifndef BENCH_SHMEM_PE_H
#define BENCH_SHMEM_PE_H

#include <shmem.h>

#include "../rank.h"

/* One way to do what is measured. */
struct way {
    const char *name; /* as --what has it; the result's name is "shmem_" and this, or the peer's prefix, a colon and this */
    void (*steps)(void *self, uint64_t count);
    void *self;
    double per_step;             /* how many of what is reported one step has, e.g. two half round trips */
    long long size_bytes, depth; /* for the result; NO_NUMBER: does not apply */
    struct plan plan;
    struct samples samples;
};

/* Starts the library and reads the options; every program begins with it. */
struct options pe_start(int argc, char **argv);
/* Ends the program with status 0. */
_Noreturn void pe_end(void);

/* Whether `--what`, a list with commas, names it. An empty list names all. */
bool wanted(const struct options *o, const char *name);

/* PE 0's number. */
uint64_t agree(uint64_t mine);

/* Zeroed symmetric memory on cache lines of its own. */
void *symmetric_alloc(size_t bytes);

void fill(unsigned char *at, size_t bytes, unsigned seed);
void verify(const unsigned char *at, size_t bytes, unsigned seed);

/*
 * Measures every way for its budget. `together`: all PEs take part; else PE 0 alone calls this, and its steps must need
 * nobody else.
 */
void ways_measure(struct way *ways, unsigned count, const struct options *o, bool together);
/* The result so far: name, times, numbers of samples. Call at PE 0 only. */
struct result way_result(struct way *way);
/* Prints at PE 0 and frees the samples everywhere. `rate`: also steps' parts a second. */
void way_report(struct way *way, const struct options *o, bool rate);

#endif
