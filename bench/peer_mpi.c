/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The same measurements in MPI, to stand beside ours: pingpong, bandwidth, match_posted, match_unexpected. Two
 * processes; compiled with the mpicc of whichever MPI is the peer. The patterns are those of latency.c, bandwidth.c and
 * matching.c, and the time is taken by the same rank.c.
 */
#define _GNU_SOURCE
#include <mpi.h>

#include "rank.h"

#include <stdlib.h>
#include <string.h>

#define WARM_STEPS 200
#define SAMPLE_BYTES ((size_t)1 << 20)
#define REPETITIONS_MIN 3
enum { TAG_DATA = 1, TAG_SIGNAL = 2 };

static int rank;
static MPI_Comm signals; /* apart from the messages that are matched */

static uint64_t agree(uint64_t mine)
{
    MPI_Bcast(&mine, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return mine;
}

static struct plan agree_plan(struct plan mine)
{
    return (struct plan){ .batch = agree(mine.batch), .batches = agree(mine.batches) };
}

/* ---- pingpong ---- */

static void send_to_other(void *at, size_t bytes)
{
    MPI_Send(at, (int)bytes, MPI_BYTE, 1 - rank, TAG_DATA, MPI_COMM_WORLD);
}

static void receive_from_other(void *at, size_t bytes)
{
    MPI_Recv(at, (int)bytes, MPI_BYTE, 1 - rank, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double round_trips(unsigned char *in, unsigned char *out, size_t bytes, uint64_t count)
{
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        if (rank == 0) {
            send_to_other(out, bytes);
            receive_from_other(in, bytes);
        } else {
            receive_from_other(in, bytes);
            send_to_other(out, bytes);
        }
    }
    return (double)(now_ns() - start) / (double)count;
}

static void pingpong(const struct options *o)
{
    size_t most = o->sizes_bytes[o->sizes_count - 1];
    unsigned char *in = ordinary_alloc(most), *out = ordinary_alloc(most);
    for (unsigned i = 0; i < o->sizes_count; i++) {
        size_t bytes = o->sizes_bytes[i];
        round_trips(in, out, bytes, WARM_STEPS);
        struct plan plan = agree_plan(plan_from(round_trips(in, out, bytes, WARM_STEPS), o->budget_ms, 5));
        struct samples s = samples_new(plan.batches);
        for (uint64_t j = 0; j < plan.batches; j++)
            samples_add(&s, round_trips(in, out, bytes, plan.batch) / 2.0);
        if (rank == 0) {
            struct result r = result_new("pingpong", (long long)bytes, NO_NUMBER);
            result_times(&r, &s);
            result_print(o, &r);
        }
        samples_free(&s);
    }
    free(in);
    free(out);
}

/* ---- bandwidth: several sends under way, then a word back that all have arrived ---- */

struct stream {
    unsigned char *ring;
    unsigned buffers, next, window;
    size_t bytes;
    MPI_Request *requests;
};

static double stream_once(struct stream *s)
{
    uint64_t start = now_ns();
    for (unsigned i = 0; i < s->window; i++) {
        unsigned char *at = s->ring + (size_t)s->next * s->bytes;
        s->next = (s->next + 1) % s->buffers;
        if (rank == 0)
            MPI_Isend(at, (int)s->bytes, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &s->requests[i]);
        else
            MPI_Irecv(at, (int)s->bytes, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &s->requests[i]);
    }
    MPI_Waitall((int)s->window, s->requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_SIGNAL, signals, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_SIGNAL, signals);
    return (double)(now_ns() - start) / s->window;
}

static void bandwidth(const struct options *o)
{
    for (unsigned i = 0; i < o->sizes_count; i++) {
        struct stream s = { .bytes = o->sizes_bytes[i], .buffers = rotation(o, o->sizes_bytes[i]) };
        s.window = s.bytes < SAMPLE_BYTES ? (unsigned)(SAMPLE_BYTES / s.bytes) : 1;
        s.ring = ordinary_alloc(s.buffers * s.bytes);
        s.requests = calloc(s.window, sizeof(MPI_Request));
        if (s.requests == NULL)
            die("no memory");
        for (unsigned j = 0; j < s.buffers / s.window + 1; j++)
            stream_once(&s);
        double step_ns = stream_once(&s) * s.window;
        struct plan plan = agree_plan(plan_from(step_ns, o->budget_ms, REPETITIONS_MIN));
        struct samples times = samples_new(plan.batches * plan.batch);
        for (uint64_t j = 0; j < plan.batches * plan.batch; j++)
            samples_add(&times, stream_once(&s));
        if (rank == 0) {
            struct result r = result_new("bandwidth", (long long)s.bytes, NO_NUMBER);
            result_times(&r, &times);
            r.bandwidth_Bps = (double)s.bytes * 1e9 / r.median_ns;
            result_print(o, &r);
        }
        samples_free(&times);
        free(s.requests);
        free(s.ring);
    }
}

/* ---- matching ---- */

struct match {
    bool unexpected;
    uint64_t *words;
    MPI_Request *requests;
};

static void signal_send(void) { MPI_Send(NULL, 0, MPI_BYTE, 1 - rank, TAG_SIGNAL, signals); }

static void signal_await(void)
{
    MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank, TAG_SIGNAL, signals, MPI_STATUS_IGNORE);
}

static void send_descending(struct match *m, unsigned depth)
{
    for (unsigned tag = depth; tag-- > 0;) {
        m->words[tag] = tag + 1;
        MPI_Isend(&m->words[tag], 1, MPI_UINT64_T, 0, (int)tag, MPI_COMM_WORLD, &m->requests[tag]);
    }
    MPI_Waitall((int)depth, m->requests, MPI_STATUSES_IGNORE);
}

static double receive_posted(struct match *m, unsigned depth)
{
    for (unsigned tag = 0; tag < depth; tag++)
        MPI_Irecv(&m->words[tag], 1, MPI_UINT64_T, 1, (int)tag, MPI_COMM_WORLD, &m->requests[tag]);
    uint64_t start = now_ns();
    signal_send();
    MPI_Waitall((int)depth, m->requests, MPI_STATUSES_IGNORE);
    return (double)(now_ns() - start);
}

/* While it waits for the signal, the library takes the messages in and keeps them. */
static double receive_unexpected(struct match *m, unsigned depth)
{
    signal_send();
    signal_await();
    uint64_t start = now_ns();
    for (unsigned tag = 0; tag < depth; tag++)
        MPI_Recv(&m->words[tag], 1, MPI_UINT64_T, 1, (int)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return (double)(now_ns() - start);
}

static double repetition(struct match *m, unsigned depth)
{
    if (rank == 1) {
        signal_await();
        send_descending(m, depth);
        if (m->unexpected)
            signal_send();
        return 0.0;
    }
    memset(m->words, 0, depth * sizeof *m->words);
    double took_ns = m->unexpected ? receive_unexpected(m, depth) : receive_posted(m, depth);
    for (unsigned tag = 0; tag < depth; tag++)
        if (m->words[tag] != tag + 1)
            die("message %u of %u arrived wrong", tag, depth);
    return took_ns;
}

/* Nanoseconds that the fastest repetition took. */
static double measure_depth(const struct options *o, struct match *m, unsigned depth)
{
    repetition(m, depth);
    uint64_t start = now_ns();
    repetition(m, depth);
    double whole_ns = (double)(now_ns() - start);
    double budget = o->budget_ms * 1e6 / whole_ns;
    uint64_t count = agree(budget > 20000 ? 20000 : budget < REPETITIONS_MIN ? REPETITIONS_MIN : (uint64_t)budget);
    struct samples s = samples_new(count);
    for (uint64_t i = 0; i < count; i++) {
        start = now_ns();
        samples_add(&s, repetition(m, depth) / depth);
        double took_ns = (double)(now_ns() - start);
        whole_ns = took_ns < whole_ns ? took_ns : whole_ns;
    }
    if (rank == 0) {
        struct result r = result_new(o->what, sizeof(uint64_t), depth);
        result_times(&r, &s);
        r.rate_per_s = 1e9 / r.median_ns;
        result_print(o, &r);
    }
    samples_free(&s);
    return whole_ns;
}

static void matching(const struct options *o, bool unexpected)
{
    unsigned deepest = o->depths[o->depths_count - 1];
    struct match m = { unexpected, ordinary_alloc(deepest * sizeof(uint64_t)), calloc(deepest, sizeof(MPI_Request)) };
    if (m.requests == NULL)
        die("no memory");
    double last_ns = 0;
    unsigned last_depth = 0;
    for (unsigned i = 0; i < o->depths_count; i++) {
        unsigned depth = o->depths[i];
        double growth = last_depth == 0 ? 0 : (double)depth / last_depth;
        if (agree(last_ns * growth * growth * (REPETITIONS_MIN + 2) > o->limit_ms * 1e6)) {
            if (rank == 0)
                result_skipped(o, o->what, sizeof(uint64_t), depth, "would take too long");
            continue;
        }
        last_ns = measure_depth(o, &m, depth);
        last_depth = depth;
    }
    free(m.words);
    free(m.requests);
}

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        die("two processes wanted");
    MPI_Comm_dup(MPI_COMM_WORLD, &signals);
    struct options o = options_parse(argc, argv);
    if (o.sizes_count == 0)
        o.sizes_bytes[o.sizes_count++] = sizeof(uint64_t);
    if (o.depths_count == 0)
        o.depths[o.depths_count++] = 16;
    if (strcmp(o.what, "pingpong") == 0)
        pingpong(&o);
    else if (strcmp(o.what, "bandwidth") == 0)
        bandwidth(&o);
    else if (strcmp(o.what, "match_posted") == 0)
        matching(&o, false);
    else if (strcmp(o.what, "match_unexpected") == 0)
        matching(&o, true);
    else
        die("no such measurement: '%s'", o.what);
    MPI_Comm_free(&signals);
    MPI_Finalize();
    return 0;
}
