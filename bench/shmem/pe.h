/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Code that the OpenSHMEM measuring programs share beyond ../rank.h: agreement between PEs, and measuring several ways of
 * one operation in one loop. It is standard OpenSHMEM 1.4, so the same source is compiled for a peer. Code for Selvedge
 * only is between #ifdef SELVEDGE_SHMEM, code for OpenSHMEM 1.5 between #if HAS_SIGNALS.
 *
 * Measuring ways together: each is warmed up and planned as in rank.h. Then the timed part has SLICES rounds. In each round
 * every way runs its share of its batches. So a disturbance of the machine affects all ways.
 *
 * Invariants: 1. the PEs agree on every number before the timed part. 2. All symmetric memory comes from shmem_malloc,
 * in the same order at every PE. 3. Only PE 0 keeps samples and prints.
 */
#ifndef BENCH_SHMEM_PE_H
#define BENCH_SHMEM_PE_H

#include <shmem.h>

#include "../rank.h"

#ifdef SELVEDGE_SHMEM
#define OURS "shmem_"
#else
#define OURS "" /* the peer's name comes with --prefix */
#endif

/* Whether the library has OpenSHMEM 1.5: puts with signals. */
#define HAS_SIGNALS (SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5)

/* One way of the measured operation. */
struct way {
    const char *name; /* its name in --what; the result's name is "shmem_" and this, or the peer's prefix, a colon and this */
    void (*steps)(void *self, uint64_t count);
    void *self;
    double per_step;             /* reported operations in one step, e.g. two half round trips */
    long long size_bytes, depth; /* depth of the result; NO_NUMBER: does not apply */
    struct plan plan;
    struct samples samples;
};

/* Starts the library and reads the options; every program begins with it. */
struct options pe_start(int argc, char **argv);
/* Ends the program with status 0. */
_Noreturn void pe_end(void);

/* Whether `--what`, a list with commas, names a measurement. An empty list names all. */
bool wanted(const struct options *o, const char *name);

/* Returns PE 0's number at every PE. */
uint64_t agree(uint64_t mine);

/* Returns zeroed symmetric memory in cache lines of its own. */
void *symmetric_alloc(size_t bytes);

void fill(unsigned char *at, size_t bytes, unsigned seed);
void verify(const unsigned char *at, size_t bytes, unsigned seed);

/*
 * Measures every way for its budget. `together`: all PEs take part; else PE 0 alone calls this, and its steps involve no
 * other PE.
 */
void ways_measure(struct way *ways, unsigned count, const struct options *o, bool together);
/* Returns the result with name, times and number of samples. Called at PE 0 only. */
struct result way_result(struct way *way);
/* Prints at PE 0 and frees the samples at all PEs. `rate`: also prints the operations a second. */
void way_report(struct way *way, const struct options *o, bool rate);

#endif
