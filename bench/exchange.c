/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Plans and runs steps that ranks make in lockstep; see exchange.h. */
#include "exchange.h"

#define BATCHES_MIN 5
#define WARM_STEPS_FIRST 4
#define WARM_STEPS_MAX 65536
#define WARM_FRACTION 0.1 /* of the budget */

struct plan agree_plan(struct plan mine)
{
    return (struct plan){ .batch = agree(mine.batch), .batches = agree(mine.batches) };
}

static uint64_t timed(const struct exchange *x, uint64_t count)
{
    uint64_t start = now_ns();
    x->step(x->self, count);
    return now_ns() - start;
}

/* Doubles the steps until a tenth of the budget is used. Returns the time of one step in the last round. */
static double warm_up(const struct exchange *x, const struct options *o)
{
    for (uint64_t count = WARM_STEPS_FIRST;; count *= 2) {
        uint64_t took_ns = agree(timed(x, count));
        if ((double)took_ns >= WARM_FRACTION * o->budget_ms * 1e6 || count >= WARM_STEPS_MAX)
            return (double)took_ns / (double)count;
    }
}

struct samples exchange_measure(const struct exchange *x, const struct options *o, int rank, double per_step)
{
    double step_ns = warm_up(x, o);
    struct plan plan = agree_plan(plan_from(step_ns, o->budget_ms, BATCHES_MIN));
    struct samples s = samples_new(rank == 0 ? plan.batches : 1);
    for (uint64_t i = 0; i < plan.batches; i++) {
        double sample = (double)timed(x, plan.batch) / ((double)plan.batch * per_step);
        if (rank == 0)
            samples_add(&s, sample);
    }
    return s;
}
