/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * selvedge.h: functions for C programs besides Portals: rank and size, a start-up exchange, and memory that
 * peers map directly. The functions are in libportals.so.
 *
 * Invariants:
 *  1. selvedge_init comes first; the others may be called from any thread after it.
 *  2. selvedge_barrier and selvedge_exchange are collective: every rank calls them, in the same order. They go
 *     through the launcher, so they are for start-up and shutdown, not for inner loops.
 *  3. Functions that return int return 0 (or the number asked for) on success and a negative errno value on failure.
 */
#ifndef SELVEDGE_H
#define SELVEDGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Joins the job that the launcher started, or a job of one without a launcher. Later calls do nothing. */
int selvedge_init(void);

/* Leaves the job. No other function of this header may follow. */
void selvedge_finalize(void);

/* This process's rank, from 0; 0 without a launcher. */
int selvedge_rank(void);

/* Number of processes in the job; 1 without a launcher. */
int selvedge_size(void);

/* Returns when every rank has called it. It does not wait for messages under way. */
int selvedge_barrier(void);

/* Gathers `bytes` bytes of every rank at every rank: `all` has room for size * bytes and is filled in rank order, this
 * rank's part included. `bytes` is the same everywhere. */
int selvedge_exchange(const void *mine, size_t bytes, void *all);

/* Allocates memory in this process's shared arena, aligned to 64 bytes, contents undefined. Peers map it
 * directly. Not collective: each rank allocates for itself. NULL if the arena has no room. */
void *selvedge_alloc(size_t bytes);

/* Frees memory of selvedge_alloc; NULL is allowed. No entry or descriptor may still cover it. */
void selvedge_free(void *memory);

/* Ends the whole job with exit code `code` and prints the reason `why` (may be NULL). Does not return. */
void selvedge_abort(int code, const char *why);

/* Begins and ends a region of the program, on which a report may be about: `selvedge sim --region NAME`, or live
 * SELVEDGE_REGION=NAME. Regions nest and repeat; other names are independent. Not collective, in no virtual time. */
void selvedge_region_begin(const char *name);
void selvedge_region_end(const char *name);

/* Version of the library, such as "0.1.0". Never NULL; not to be freed. */
const char *selvedge_version(void);

#ifdef __cplusplus
}
#endif

#endif /* SELVEDGE_H */
