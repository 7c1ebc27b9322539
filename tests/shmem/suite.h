/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The header of the OpenSHMEM suite, in addition to check.h.
 *
 * The launcher starts the case's number of PEs, and each runs `program NAME`. A PE is a rank of check.h. Programs that end
 * in .cc are C++.
 *
 * A case may name these members of `struct case_extra` after its rule:
 *
 *     CASE(sum_of_all, 4, "...", .crowded = 9)                 also with 9 PEs: the body uses n_pes(), not 4
 *     CASE(stores_through_ptr, 2, "...", .needs = MAPPED)      only where the memory of other PEs is mapped
 *     CASE(clock_is_virtual, 2, "...", .needs = VIRTUAL_TIME)  only with the clocks of a simulated machine
 *     CASE(ends_with_status, 2, "...", .flags = OWN_INIT, .status = 3)
 *
 * Rules for cases
 * 1. A case runs in all of its PEs at once, between shmem_init and shmem_finalize of the suite, unless it has OWN_INIT. A
 *    barrier follows its body; then the suite frees memory of symmetric() and local(). Nothing outlives a case.
 * 2. A failed check in any PE ends the whole job with shmem_global_exit(1).
 * 3. The body of a DATA_CASE runs twice: symmetric() returns memory of the symmetric heap first, then of a static object.
 * 4. Memory of symmetric() and local() is zero, between guards that the suite checks after the body.
 * 5. symmetric() and barrier() are collective.
 * 6. Cases about additions of 1.5 or 1.6 are under `#if SINCE(1, 5)`, so that the others can run with an older library
 *    (OSHCC and OSHRUN of the runner).
 */
#ifndef SHMEM_TESTS_SUITE_H
#define SHMEM_TESTS_SUITE_H

#include "check.h"

#include <shmem.h>

#define SINCE(major, minor) \
    (SHMEM_MAJOR_VERSION > (major) || (SHMEM_MAJOR_VERSION == (major) && SHMEM_MINOR_VERSION >= (minor)))

#ifdef __cplusplus
extern "C" {
#endif

enum { PES_MAX = 64, SYMMETRIC_STATIC_BYTES = 1 << 20 };

/* ---- Cases ---------------------------------------------------------------------------------------------- */

enum case_flags {
    BOTH_MEMORIES = 1, /* DATA_CASE sets it */
    OWN_INIT = 2       /* the body calls shmem_init and shmem_finalize itself, or does not; no symmetric(), no barrier() */
};

#define DATA_CASE(name, pes, rule, ...) CASE(name, pes, rule, .flags = BOTH_MEMORIES, ##__VA_ARGS__)

#define MAPPED "mapped"
#define VIRTUAL_TIME "virtual_time"

/* ---- The job -------------------------------------------------------------------------------------------- */

static inline int me(void) { return rank(); }
static inline int n_pes(void) { return ranks(); }
static inline int next_pe(void) { return (me() + 1) % n_pes(); }
static inline int previous_pe(void) { return (me() + n_pes() - 1) % n_pes(); }
/* For bodies with OWN_INIT. joined(): the library is initialised, so me() and n_pes() are known, and a failed check ends
 * the job with shmem_global_exit. left(): the library will be finalized. */
void joined(void);
void left(void);
/* Returns "in_place", "cma", "bounce", "host", "crowded", "simulated"; "other" under another OpenSHMEM. */
bool variant_is(const char *name);

/* ---- Memory --------------------------------------------------------------------------------------------- */

enum memory { HEAP, STATIC };

/* Allocates zeroed memory, aligned to 64 bytes, between guards, the same object on every PE. It is zero on all PEs on
 * return. Collective. symmetric() returns HEAP memory, and STATIC memory in the second run of a DATA_CASE. STATIC has
 * SYMMETRIC_STATIC_BYTES in all. */
void *symmetric(size_t bytes);
void *symmetric_in(enum memory memory, size_t bytes);
enum memory memory_in_use(void);
void *local(size_t bytes);
/* Checks the guards of all memory of the case. The suite calls it after each body, too. */
void check_guards(void);

/* ---- The rest ------------------------------------------------------------------------------------------- */

uint64_t mix(uint64_t value); /* a good hash of 64 bits: values that differ in every byte */

#ifdef __cplusplus
}
#endif

#endif
