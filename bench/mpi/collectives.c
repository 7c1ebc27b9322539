/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Collectives of any number of ranks, also more than there are cores: an 8-byte sum, and all-to-all. */
#define _GNU_SOURCE
#include "mpi_rank.h"

#include <stdlib.h>

#define WARM_STEPS 5

struct exchange {
    unsigned char *in, *out;
    size_t bytes;
};

static void one_allreduce(struct exchange *e)
{
    MPI_Allreduce(e->out, e->in, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void one_alltoall(struct exchange *e)
{
    MPI_Alltoall(e->out, (int)e->bytes, MPI_BYTE, e->in, (int)e->bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* Returns nanoseconds for one. */
static double many(struct exchange *e, void (*one)(struct exchange *), uint64_t count)
{
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < count; i++)
        one(e);
    return (double)(now_ns() - start) / (double)count;
}

static void measure(const struct options *o, size_t bytes, void (*one)(struct exchange *))
{
    struct exchange e = { ordinary_alloc((size_t)ranks * bytes), ordinary_alloc((size_t)ranks * bytes), bytes };
    many(&e, one, WARM_STEPS);
    struct plan plan = agree_plan(plan_from(many(&e, one, WARM_STEPS), o->budget_ms, 5));
    struct samples s = samples_new(plan.batches);
    for (uint64_t i = 0; i < plan.batches; i++)
        samples_add(&s, many(&e, one, plan.batch));
    if (rank == 0) {
        struct result r = result_new(o->what, (long long)bytes, ranks);
        result_times(&r, &s);
        result_print(o, &r);
    }
    samples_free(&s);
    free(e.in);
    free(e.out);
}

void allreduce(const struct options *o) { measure(o, sizeof(int64_t), one_allreduce); }

void alltoall(const struct options *o)
{
    for (unsigned i = 0; i < o->sizes_count; i++)
        measure(o, o->sizes_bytes[i], one_alltoall);
}
