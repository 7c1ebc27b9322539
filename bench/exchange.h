/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Steps that two or more ranks repeat in lockstep. Each program defines how its ranks agree.
 */
#ifndef BENCH_EXCHANGE_H
#define BENCH_EXCHANGE_H

#include "rank.h"

/* Defined by the program. Collective, through the launcher: every rank gets rank 0's number. Never in a timed part. */
uint64_t agree(uint64_t mine);
void barrier(void);

struct plan agree_plan(struct plan mine);

/* Steps that both ranks repeat in lockstep. Rank 0 measures. */
struct exchange {
    void (*step)(void *self, uint64_t count); /* `count` steps, one after the other */
    void *self;
};
/* Warms up, agrees on a plan, runs it. Rank 0 gets the time of one step, divided by `per_step`, as samples. */
struct samples exchange_measure(const struct exchange *x, const struct options *o, int rank, double per_step);

#endif
