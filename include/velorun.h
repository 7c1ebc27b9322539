/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * velorun.h: rank, size and start-up exchange of a program started by `selvedge run` or velorun. The functions are in libvelo2.so,
 * librma2.so and libatoll.so. The node id of a process is its rank.
 *
 * velorun_barrier and velorun_exchange are collective: every rank calls them, in the same order. They go through the launcher, so they
 * are for start-up and shutdown only. Functions that return int return 0, or the number asked for, on success, and a negative errno
 * value on failure.
 */
#ifndef VELORUN_H
#define VELORUN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Joins the job that the launcher has started, or a job of one. Later calls do nothing. */
int velorun_init(void);
/* Leaves the job. No other function of these libraries may follow. */
void velorun_finalize(void);
int velorun_rank(void);
int velorun_size(void);
/* Returns when every rank has called it. It does not wait for messages under way. */
int velorun_barrier(void);
/* Gathers `bytes` bytes of every rank at every rank: `all` has room for size * bytes, and is filled in rank order. */
int velorun_exchange(const void *mine, size_t bytes, void *all);
/* Prints the reason, and ends the job with this exit status. */
void velorun_abort(int status, const char *why);

#ifdef __cplusplus
}
#endif
#endif
