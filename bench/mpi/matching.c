/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Matching. match_posted and match_unexpected have the pattern of bench/matching.c: Q messages are sent with descending tags and
 * received with ascending ones; the figure is the time per message. In last_posted and last_unexpected a queue of Q stays in
 * place, and the figure is that of one message behind it: half a round trip whose answer matches a receive behind Q posted
 * ones, and one MPI_Recv of a message that has arrived behind Q unexpected ones.
 */
#define _GNU_SOURCE
#include "mpi_rank.h"

#include <stdlib.h>
#include <string.h>

#define LAST_TIMES 200
enum { TAG_OTHERS = 3 };

struct match {
    bool unexpected;
    uint64_t *words;
    MPI_Request *requests;
};

static struct match match_new(const struct options *o, bool unexpected)
{
    unsigned deepest = o->depths[o->depths_count - 1];
    struct match m = { unexpected, ordinary_alloc(deepest * sizeof(uint64_t)), calloc(deepest, sizeof(MPI_Request)) };
    if (m.requests == NULL)
        die("no memory");
    return m;
}

static void match_free(struct match *m)
{
    free(m->words);
    free(m->requests);
}

/* ---- every message is found at the far end ---- */

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

/* While it waits for the signal, the library keeps the messages as unexpected. */
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

static void print_depth(const struct options *o, unsigned depth, struct samples *s)
{
    struct result r = result_new(o->what, sizeof(uint64_t), depth);
    result_times(&r, s);
    r.rate_per_s = 1e9 / r.median_ns;
    result_print(o, &r);
}

/* Returns the nanoseconds of the fastest repetition. */
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
    if (rank == 0)
        print_depth(o, depth, &s);
    samples_free(&s);
    return whole_ns;
}

static void matching(const struct options *o, bool unexpected)
{
    struct match m = match_new(o, unexpected);
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
    match_free(&m);
}

void match_posted(const struct options *o) { matching(o, false); }

void match_unexpected(const struct options *o) { matching(o, true); }

/* ---- one message behind a queue of Q that stays ---- */

static void send_others(struct match *m, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++)
        MPI_Isend(&m->words[i], 1, MPI_UINT64_T, 0, TAG_OTHERS, MPI_COMM_WORLD, &m->requests[i]);
    MPI_Waitall((int)depth, m->requests, MPI_STATUSES_IGNORE);
}

static double one_unexpected(uint64_t i)
{
    uint64_t word = i;
    if (rank == 1) {
        MPI_Send(&word, 1, MPI_UINT64_T, 0, TAG_DATA, MPI_COMM_WORLD);
        signal_send();
        signal_await();
        return 0.0;
    }
    signal_await();
    uint64_t start = now_ns();
    MPI_Recv(&word, 1, MPI_UINT64_T, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double took_ns = (double)(now_ns() - start);
    if (word != i)
        die("message %llu arrived wrong", (unsigned long long)i);
    signal_send();
    return took_ns;
}

static double one_posted(uint64_t i)
{
    uint64_t word = i;
    if (rank == 1) {
        signal_await();
        MPI_Send(&word, 1, MPI_UINT64_T, 0, TAG_DATA, MPI_COMM_WORLD);
        return 0.0;
    }
    MPI_Request request;
    MPI_Irecv(&word, 1, MPI_UINT64_T, 1, TAG_DATA, MPI_COMM_WORLD, &request);
    uint64_t start = now_ns();
    signal_send();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    double took_ns = (double)(now_ns() - start);
    if (word != i)
        die("message %llu arrived wrong", (unsigned long long)i);
    return took_ns / 2.0;
}

static void last_of(const struct options *o, bool unexpected)
{
    struct match m = match_new(o, unexpected);
    for (unsigned d = 0; d < o->depths_count; d++) {
        unsigned depth = o->depths[d];
        if (rank == 1 && unexpected)
            send_others(&m, depth);
        for (unsigned i = 0; rank == 0 && !unexpected && i < depth; i++)
            MPI_Irecv(&m.words[i], 1, MPI_UINT64_T, 1, TAG_OTHERS, MPI_COMM_WORLD, &m.requests[i]);
        struct samples s = samples_new(LAST_TIMES);
        for (uint64_t i = 0; i < LAST_TIMES + 3; i++) {
            double took_ns = unexpected ? one_unexpected(i) : one_posted(i);
            if (i >= 3)
                samples_add(&s, took_ns);
        }
        if (rank == 1 && !unexpected)
            send_others(&m, depth);
        for (unsigned i = 0; rank == 0 && unexpected && i < depth; i++)
            MPI_Recv(&m.words[i], 1, MPI_UINT64_T, 1, TAG_OTHERS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 0 && !unexpected)
            MPI_Waitall((int)depth, m.requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            print_depth(o, depth, &s);
        samples_free(&s);
    }
    match_free(&m);
}

void last_posted(const struct options *o) { last_of(o, false); }

void last_unexpected(const struct options *o) { last_of(o, true); }
