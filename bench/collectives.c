/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * triggered_barrier, triggered_allreduce: collectives that the interfaces carry out without the host, built from triggered
 * operations, against the same algorithms with the host sending every message (host_barrier, host_allreduce).
 * Dissemination barrier; recursive doubling of one 64-bit sum. Two, four, ... processes.
 *
 * In the triggered ones the host arms the next collective, adds one to a counter to enter this one, and waits for the
 * last counter. Level r+1 is reached after level r was reached here and a message from the partner of round r has
 * arrived: its counter rises by two for each collective (by one at level 0, which is the entry itself).
 *
 * Invariants: 1. counters and thresholds only rise. 2. A process is never two collectives ahead of another, so three
 * sets of accumulators suffice: one in use, one that a faster partner may already write, one being cleared.
 */
#define _GNU_SOURCE
#include "ni.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 4
#define SETS 3
enum { PT_BARRIER = 4, PT_REDUCE = 16 };

struct bench {
    struct ni ni;
    const struct options *o;
    unsigned rounds;
};

static ptl_process_t peer(const struct bench *b, int rank) { return b->ni.peers[(rank + b->ni.size) % b->ni.size]; }

static void count_up(ptl_handle_ct_t ct) { CHECK(PtlCTInc(ct, (ptl_ct_event_t){ .success = 1 })); }

static uint64_t threshold(unsigned level, uint64_t use) { return level == 0 ? use : 2 * use; }

/* ---- barrier ---- */

struct barrier {
    struct bench *b;
    ptl_handle_ct_t entry;
    struct window arrivals[ROUNDS_MAX]; /* [r] counts level r+1 */
    struct source nothing;
    uint64_t host_done, triggered_armed, triggered_done;
};

static ptl_handle_ct_t level_ct(const struct barrier *c, unsigned level)
{
    return level == 0 ? c->entry : c->arrivals[level - 1].ct;
}

static void host_barriers(void *self, uint64_t count)
{
    struct barrier *c = self;
    struct bench *b = c->b;
    for (uint64_t i = 0; i < count; i++) {
        c->host_done++;
        for (unsigned r = 0; r < b->rounds; r++) {
            CHECK(PtlPut(c->nothing.md, 0, 0, PTL_NO_ACK_REQ, peer(b, b->ni.rank + (1 << r)), PT_BARRIER + r, 0, 0, NULL, 0));
            wait_count(c->arrivals[r].ct, c->host_done);
        }
    }
}

static void barrier_arm(struct barrier *c)
{
    struct bench *b = c->b;
    c->triggered_armed++;
    for (unsigned r = 0; r < b->rounds; r++) {
        ptl_handle_ct_t when = level_ct(c, r);
        uint64_t reached = threshold(r, c->triggered_armed);
        CHECK(PtlTriggeredPut(c->nothing.md, 0, 0, PTL_NO_ACK_REQ, peer(b, b->ni.rank + (1 << r)), PT_BARRIER + r, 0, 0, NULL,
            0, when, reached));
        CHECK(PtlTriggeredCTInc(level_ct(c, r + 1), (ptl_ct_event_t){ .success = 1 }, when, reached));
    }
}

static void triggered_barriers(void *self, uint64_t count)
{
    struct barrier *c = self;
    for (uint64_t i = 0; i < count; i++) {
        count_up(c->entry);
        barrier_arm(c); /* the next one, while this one is under way */
        wait_count(level_ct(c, c->b->rounds), threshold(c->b->rounds, ++c->triggered_done));
    }
}

static void barrier_open(struct barrier *c, struct bench *b)
{
    void *target = shared_alloc(CACHE_LINE_BYTES);
    *c = (struct barrier){ .b = b };
    CHECK(PtlCTAlloc(b->ni.handle, &c->entry));
    for (unsigned r = 0; r < b->rounds; r++)
        c->arrivals[r] = window_open(&b->ni, PT_BARRIER + r, target, sizeof(uint64_t));
    c->nothing = source_open(&b->ni, target, sizeof(uint64_t), 0);
    barrier();
}

static void barrier_close(struct barrier *c)
{
    barrier();
    for (unsigned level = 0; level < c->b->rounds; level++)
        CHECK(PtlCTCancelTriggered(level_ct(c, level)));
    for (unsigned r = 0; r < c->b->rounds; r++)
        window_close(&c->b->ni, &c->arrivals[r]);
    source_close(&c->nothing);
    CHECK(PtlCTFree(c->entry));
    barrier();
}

/* ---- allreduce ---- */

struct reduction {
    struct bench *b;
    uint64_t *sums; /* [set][level]; level 0 is this process's contribution. Host: level r+1 is the sum received in round r */
    ptl_handle_ct_t entry[SETS];
    struct window levels[SETS][ROUNDS_MAX]; /* [set][r] counts level r+1 */
    struct source source;                   /* over all sums */
    uint64_t *outgoing;                     /* host: the sum that round r sends; a line of its own */
    struct source outgoing_source;
    uint64_t started, armed;
};

static size_t slot(unsigned set, unsigned level) { return (size_t)set * (ROUNDS_MAX + 1) + level; }

static ptl_pt_index_t reduce_pt(unsigned set, unsigned round) { return PT_REDUCE + set * ROUNDS_MAX + round; }

static ptl_handle_ct_t reduce_ct(const struct reduction *c, unsigned set, unsigned level)
{
    return level == 0 ? c->entry[set] : c->levels[set][level - 1].ct;
}

/* Different in each process and each time. */
static uint64_t contribution(int rank, uint64_t time) { return time * 1000 + (uint64_t)rank; }

static void check_sum(const struct reduction *c, uint64_t sum, uint64_t time)
{
    uint64_t n = (uint64_t)c->b->ni.size;
    if (sum != time * 1000 * n + n * (n - 1) / 2)
        die("wrong sum %llu at %llu", (unsigned long long)sum, (unsigned long long)time);
}

static void host_allreduces(void *self, uint64_t count)
{
    struct reduction *c = self;
    struct bench *b = c->b;
    for (uint64_t i = 0; i < count; i++) {
        unsigned set = (unsigned)(c->started % SETS);
        uint64_t use = c->started / SETS + 1, sum = contribution(b->ni.rank, c->started);
        for (unsigned r = 0; r < b->rounds; r++) {
            size_t at = slot(set, r);
            c->outgoing[at] = sum;
            CHECK(PtlPut(c->outgoing_source.md, at * sizeof sum, sizeof sum, PTL_NO_ACK_REQ, peer(b, b->ni.rank ^ (1 << r)),
                reduce_pt(set, r), 0, 0, NULL, 0));
            wait_count(reduce_ct(c, set, r + 1), use);
            sum += *(volatile uint64_t *)&c->sums[slot(set, r + 1)];
        }
        check_sum(c, sum, c->started++);
    }
}

/* Round r adds level r's sum to level r+1, here and at the partner. */
static void reduce_arm(struct reduction *c)
{
    struct bench *b = c->b;
    unsigned set = (unsigned)(c->armed % SETS);
    uint64_t use = c->armed++ / SETS + 1;
    for (unsigned r = 0; r < b->rounds; r++) {
        int sides[2] = { b->ni.rank ^ (1 << r), b->ni.rank };
        for (unsigned side = 0; side < 2; side++)
            CHECK(PtlTriggeredAtomic(c->source.md, slot(set, r) * sizeof(uint64_t), sizeof(uint64_t), PTL_NO_ACK_REQ,
                peer(b, sides[side]), reduce_pt(set, r), 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T, reduce_ct(c, set, r),
                threshold(r, use)));
    }
}

static void triggered_allreduces(void *self, uint64_t count)
{
    struct reduction *c = self;
    struct bench *b = c->b;
    for (uint64_t i = 0; i < count; i++) {
        unsigned set = (unsigned)(c->started % SETS), next = (set + 1) % SETS;
        for (unsigned level = 1; level <= b->rounds; level++)
            c->sums[slot(next, level)] = 0;
        c->sums[slot(set, 0)] = contribution(b->ni.rank, c->started);
        count_up(c->entry[set]);
        reduce_arm(c); /* the next one, while this one is under way */
        wait_count(reduce_ct(c, set, b->rounds), threshold(b->rounds, c->started / SETS + 1));
        check_sum(c, *(volatile uint64_t *)&c->sums[slot(set, b->rounds)], c->started++);
    }
}

static void reduction_open(struct reduction *c, struct bench *b)
{
    size_t bytes = SETS * (ROUNDS_MAX + 1) * sizeof(uint64_t);
    *c = (struct reduction){ .b = b, .sums = shared_alloc(bytes), .outgoing = shared_alloc(bytes) };
    memset(c->sums, 0, bytes);
    for (unsigned set = 0; set < SETS; set++) {
        CHECK(PtlCTAlloc(b->ni.handle, &c->entry[set]));
        for (unsigned r = 0; r < b->rounds; r++)
            c->levels[set][r]
                = window_open(&b->ni, reduce_pt(set, r), &c->sums[slot(set, r + 1)], sizeof(uint64_t));
    }
    c->source = source_open(&b->ni, c->sums, bytes, 0);
    c->outgoing_source = source_open(&b->ni, c->outgoing, bytes, 0);
    barrier();
}

static void reduction_close(struct reduction *c)
{
    struct bench *b = c->b;
    barrier();
    for (unsigned set = 0; set < SETS; set++)
        for (unsigned level = 0; level < b->rounds; level++)
            CHECK(PtlCTCancelTriggered(reduce_ct(c, set, level)));
    for (unsigned set = 0; set < SETS; set++) {
        for (unsigned r = 0; r < b->rounds; r++)
            window_close(&b->ni, &c->levels[set][r]);
        CHECK(PtlCTFree(c->entry[set]));
    }
    source_close(&c->source);
    source_close(&c->outgoing_source);
    selvedge_free(c->sums);
    selvedge_free(c->outgoing);
    barrier();
}

/* ---- both ---- */

static void report(struct bench *b, const char *name, long long bytes, const struct exchange *x)
{
    struct samples s = exchange_measure(x, b->o, b->ni.rank, 1.0);
    if (b->ni.rank == 0) {
        struct result r = result_new(name, bytes, b->ni.size);
        result_times(&r, &s);
        result_print(b->o, &r);
    }
    samples_free(&s);
}

static void barriers(struct bench *b)
{
    struct barrier c;
    barrier_open(&c, b);
    report(b, "host_barrier", NO_NUMBER, &(struct exchange){ host_barriers, &c });
    barrier_close(&c);
    barrier_open(&c, b); /* opened again: the two ways count differently */
    barrier_arm(&c);
    barrier();
    report(b, "triggered_barrier", NO_NUMBER, &(struct exchange){ triggered_barriers, &c });
    barrier_close(&c);
}

static void allreduces(struct bench *b)
{
    struct reduction c;
    reduction_open(&c, b);
    report(b, "host_allreduce", sizeof(uint64_t), &(struct exchange){ host_allreduces, &c });
    reduction_close(&c);
    reduction_open(&c, b);
    reduce_arm(&c);
    barrier();
    report(b, "triggered_allreduce", sizeof(uint64_t), &(struct exchange){ triggered_allreduces, &c });
    reduction_close(&c);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = { .o = &o };
    b.ni = ni_open(PTL_NI_NO_MATCHING, 0);
    while ((1 << b.rounds) < b.ni.size)
        b.rounds++;
    if (1 << b.rounds != b.ni.size || b.rounds == 0 || b.rounds > ROUNDS_MAX)
        die("needs 2, 4, 8 or 16 processes, has %d", b.ni.size);
    if (strcmp(o.what, "triggered_barrier") == 0)
        barriers(&b);
    else if (strcmp(o.what, "triggered_allreduce") == 0)
        allreduces(&b);
    else
        die("no such measurement: '%s'", o.what);
    ni_close(&b.ni);
    return 0;
}
