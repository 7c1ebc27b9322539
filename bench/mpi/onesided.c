/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * One-sided operations, each flushed before the next: the time of one at its origin. The target waits in MPI_Recv meanwhile,
 * so that an MPI whose targets have to take part can do so.
 */
#define _GNU_SOURCE
#include "mpi_rank.h"

#include <stdlib.h>

#define WARM_STEPS 100

struct target {
    MPI_Win window;
    unsigned char *local;
    size_t bytes;
};

static void one_put(struct target *t)
{
    MPI_Put(t->local, (int)t->bytes, MPI_BYTE, 1, 0, (int)t->bytes, MPI_BYTE, t->window);
}

static void one_get(struct target *t)
{
    MPI_Get(t->local, (int)t->bytes, MPI_BYTE, 1, 0, (int)t->bytes, MPI_BYTE, t->window);
}

static void one_accumulate(struct target *t)
{
    int count = (int)(t->bytes / sizeof(int64_t));
    MPI_Accumulate(t->local, count, MPI_INT64_T, 1, 0, count, MPI_INT64_T, MPI_SUM, t->window);
}

static void one_fetch_add(struct target *t)
{
    MPI_Fetch_and_op(t->local, t->local + sizeof(int64_t), MPI_INT64_T, 1, 0, MPI_SUM, t->window);
}

static void one_compare_swap(struct target *t)
{
    MPI_Compare_and_swap(t->local, t->local + 8, t->local + 16, MPI_INT64_T, 1, 0, t->window);
}

/* Returns nanoseconds for one. */
static double many(struct target *t, void (*one)(struct target *), uint64_t count)
{
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        one(t);
        MPI_Win_flush(1, t->window);
    }
    return (double)(now_ns() - start) / (double)count;
}

static void measure(const struct options *o, struct target *t, void (*one)(struct target *))
{
    many(t, one, WARM_STEPS);
    struct plan plan = plan_from(many(t, one, WARM_STEPS), o->budget_ms, 5);
    struct samples s = samples_new(plan.batches);
    for (uint64_t i = 0; i < plan.batches; i++)
        samples_add(&s, many(t, one, plan.batch));
    struct result r = result_new(o->what, (long long)t->bytes, NO_NUMBER);
    result_times(&r, &s);
    result_print(o, &r);
    samples_free(&s);
}

/* `sizes`: whether the operation has sizes other than eight bytes. */
static void one_sided(const struct options *o, void (*one)(struct target *), bool sizes, bool created)
{
    size_t most = o->sizes_bytes[o->sizes_count - 1];
    most = most < 64 ? 64 : most;
    struct memory memory = memory_new(most, created);
    struct target t = { .window = memory.window, .local = ordinary_alloc(most) };
    MPI_Win_lock_all(0, t.window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        signal_await();
    } else {
        for (unsigned i = 0; i < (sizes ? o->sizes_count : 1); i++) {
            t.bytes = sizes ? o->sizes_bytes[i] : sizeof(int64_t);
            measure(o, &t, one);
        }
        signal_send();
    }
    MPI_Win_unlock_all(t.window);
    memory_free(&memory);
    free(t.local);
}

void put(const struct options *o) { one_sided(o, one_put, true, false); }
void get(const struct options *o) { one_sided(o, one_get, true, false); }
void accumulate(const struct options *o) { one_sided(o, one_accumulate, true, false); }
void fetch_add(const struct options *o) { one_sided(o, one_fetch_add, false, false); }
void compare_swap(const struct options *o) { one_sided(o, one_compare_swap, false, false); }
void put_created(const struct options *o) { one_sided(o, one_put, true, true); }
void get_created(const struct options *o) { one_sided(o, one_get, true, true); }
void accumulate_created(const struct options *o) { one_sided(o, one_accumulate, true, true); }
