/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Half round trips, message rate, bandwidth. The patterns are those of latency.c, rate.c and bandwidth.c. */
#define _GNU_SOURCE
#include "mpi_rank.h"

#include <stdlib.h>
#include <string.h>

#define WARM_STEPS 200
#define WARM_NS_MAX 20000000.0
#define SAMPLE_BYTES ((size_t)1 << 20)
#define RATE_WINDOW 64
#define STREAM_WINDOW 16
#define EXCHANGED 4

/* ---- pingpong ---- */

static void send_to_other(void *at, size_t bytes)
{
    MPI_Send(at, (int)bytes, MPI_BYTE, 1 - rank, TAG_DATA, MPI_COMM_WORLD);
}

static void receive_from_other(void *at, size_t bytes)
{
    MPI_Recv(at, (int)bytes, MPI_BYTE, 1 - rank, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Reads every word, and writes it again before the message returns, as programs do. */
static void use(unsigned char *at, size_t bytes)
{
    uint64_t *words = (uint64_t *)(void *)at;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i]++;
}

/* Returns nanoseconds for one. A single buffer travels back and forth, and is used at both ends. */
static double round_trips(unsigned char *in, unsigned char *out, size_t bytes, uint64_t count)
{
    bool is_used = in == out;
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        if (rank == 0)
            send_to_other(out, bytes);
        receive_from_other(in, bytes);
        if (is_used)
            use(in, bytes);
        if (rank != 0)
            send_to_other(out, bytes);
    }
    return (double)(now_ns() - start) / (double)count;
}

static void pingpong_of(const struct options *o, unsigned char *in, unsigned char *out, size_t bytes)
{
    double first_ns = round_trips(in, out, bytes, 5);
    uint64_t warm = agree(first_ns * WARM_STEPS > WARM_NS_MAX ? 5 : WARM_STEPS);
    round_trips(in, out, bytes, warm);
    struct plan plan = agree_plan(plan_from(round_trips(in, out, bytes, warm), o->budget_ms, 5));
    struct samples s = samples_new(plan.batches);
    for (uint64_t j = 0; j < plan.batches; j++)
        samples_add(&s, round_trips(in, out, bytes, plan.batch) / 2.0);
    if (rank == 0) {
        struct result r = result_new(o->what, (long long)bytes, NO_NUMBER);
        result_times(&r, &s);
        result_print(o, &r);
    }
    samples_free(&s);
}

void pingpong(const struct options *o)
{
    size_t most = o->sizes_bytes[o->sizes_count - 1];
    unsigned char *in = ordinary_alloc(most > 0 ? most : 1), *out = ordinary_alloc(most > 0 ? most : 1);
    for (unsigned i = 0; i < o->sizes_count; i++)
        pingpong_of(o, in, out, o->sizes_bytes[i]);
    free(in);
    free(out);
}

void pingpong_used(const struct options *o)
{
    for (unsigned i = 0; i < o->sizes_count; i++) {
        size_t bytes = o->sizes_bytes[i];
        unsigned char *at = ordinary_alloc(bytes);
        const uint64_t *words = (const uint64_t *)(const void *)at;
        pingpong_of(o, at, at, bytes);
        for (size_t j = 1; j < bytes / sizeof *words; j++)
            if (words[j] != words[0])
                die("word %zu of %zu bytes arrived wrong", j, bytes);
        free(at);
    }
}

/* ---- exchange: both ends send before they receive, like neighbours that exchange halos ---- */

/* Returns nanoseconds for one. */
static double exchanges(unsigned char *in, unsigned char *out, size_t bytes, uint64_t count)
{
    MPI_Request requests[EXCHANGED];
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        for (size_t j = 0; j < EXCHANGED; j++)
            MPI_Isend(out + j * bytes, (int)bytes, MPI_BYTE, 1 - rank, TAG_DATA, MPI_COMM_WORLD, &requests[j]);
        for (size_t j = 0; j < EXCHANGED; j++)
            receive_from_other(in + j * bytes, bytes);
        MPI_Waitall(EXCHANGED, requests, MPI_STATUSES_IGNORE);
    }
    return (double)(now_ns() - start) / (double)count;
}

void exchange(const struct options *o)
{
    for (unsigned i = 0; i < o->sizes_count; i++) {
        size_t bytes = o->sizes_bytes[i];
        unsigned char *in = ordinary_alloc(EXCHANGED * bytes), *out = ordinary_alloc(EXCHANGED * bytes);
        exchanges(in, out, bytes, WARM_STEPS);
        struct plan plan = agree_plan(plan_from(exchanges(in, out, bytes, WARM_STEPS), o->budget_ms, 5));
        struct samples s = samples_new(plan.batches);
        for (uint64_t j = 0; j < plan.batches; j++)
            samples_add(&s, exchanges(in, out, bytes, plan.batch));
        if (rank == 0) {
            struct result r = result_new(o->what, (long long)bytes, EXCHANGED);
            result_times(&r, &s);
            result_print(o, &r);
        }
        samples_free(&s);
        free(in);
        free(out);
    }
}

/* ---- several sends in flight, then an answer after all have arrived ---- */

struct flow {
    unsigned char *ring;
    unsigned buffers, next, window;
    size_t bytes;
    MPI_Request *requests;
    bool is_rate; /* the result is messages a second, not bytes */
};

static struct flow flow_new(const struct options *o, size_t bytes, unsigned window)
{
    struct flow f = { .bytes = bytes, .buffers = rotation(o, bytes), .window = window };
    f.buffers = f.buffers < window ? window : f.buffers;
    f.ring = ordinary_alloc(f.buffers * bytes);
    f.requests = calloc(window, sizeof(MPI_Request));
    if (f.requests == NULL)
        die("no memory");
    return f;
}

static void flow_free(struct flow *f)
{
    free(f->requests);
    free(f->ring);
}

/* Returns nanoseconds for one message. */
static double flow_once(struct flow *f)
{
    uint64_t start = now_ns();
    for (unsigned i = 0; i < f->window; i++) {
        unsigned char *at = f->ring + (size_t)f->next * f->bytes;
        f->next = (f->next + 1) % f->buffers;
        if (rank == 0)
            MPI_Isend(at, (int)f->bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &f->requests[i]);
        else
            MPI_Irecv(at, (int)f->bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &f->requests[i]);
    }
    MPI_Waitall((int)f->window, f->requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        signal_await();
    else
        signal_send();
    return (double)(now_ns() - start) / f->window;
}

static void flow_measure(const struct options *o, struct flow *f)
{
    for (unsigned j = 0; j < f->buffers / f->window + 1; j++)
        flow_once(f);
    struct plan plan = agree_plan(plan_from(flow_once(f) * f->window, o->budget_ms, REPETITIONS_MIN));
    struct samples times = samples_new(plan.batches * plan.batch);
    for (uint64_t j = 0; j < plan.batches * plan.batch; j++)
        samples_add(&times, flow_once(f));
    if (rank == 0) {
        struct result r = result_new(o->what, (long long)f->bytes, f->is_rate ? (long long)f->window : NO_NUMBER);
        result_times(&r, &times);
        if (f->is_rate)
            r.rate_per_s = 1e9 / r.median_ns;
        else
            r.bandwidth_Bps = (double)f->bytes * 1e9 / r.median_ns;
        result_print(o, &r);
    }
    samples_free(&times);
}

void rate(const struct options *o)
{
    struct flow f = flow_new(o, sizeof(uint64_t), RATE_WINDOW);
    f.buffers = RATE_WINDOW;
    f.is_rate = true;
    flow_measure(o, &f);
    flow_free(&f);
}

void bandwidth(const struct options *o)
{
    for (unsigned i = 0; i < o->sizes_count; i++) {
        size_t bytes = o->sizes_bytes[i];
        struct flow f = flow_new(o, bytes, bytes < SAMPLE_BYTES ? (unsigned)(SAMPLE_BYTES / bytes) : 1);
        flow_measure(o, &f);
        flow_free(&f);
    }
}

void stream(const struct options *o)
{
    for (unsigned i = 0; i < o->sizes_count; i++) {
        struct flow f = flow_new(o, o->sizes_bytes[i], STREAM_WINDOW);
        flow_measure(o, &f);
        flow_free(&f);
    }
}
