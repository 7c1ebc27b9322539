/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * overlap_target: the speed that a program loses while others write into its memory. Rank 1 computes without pause. In
 * every other slice of time rank 0 puts 1 MB buffers into it at a fixed pace. SELVEDGE_MODE selects the process that runs
 * the target's interface: the sender (nic), or the target itself whenever it calls the library (host). For host mode,
 * rank 1 reads a counter after each piece of work, in both modes, with traffic and without.
 *
 * Figures: pieces of work a second with and without traffic, and the time that rank 0 spends inside the library for one
 * put (between its polls of the counter it sleeps). Beside it is one memcpy of as many bytes by the same core.
 *
 * Invariants: 1. both ranks follow one schedule on the machine's common clock, so they exchange nothing while it runs.
 * 2. Quiet slices and slices with traffic alternate. 3. The work touches 16 KB of its own, which fit the first cache.
 */
#define _GNU_SOURCE
#include "ni.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PT_DATA = 4, PT_END = 5 };
#define PUT_BYTES ((size_t)1 << 20)
#define RING_BUFFERS 16
#define SLICES 20
#define SLICE_NS_MIN 10000000.0 /* long enough to measure work even where other programs compete for the core */
#define PERIOD_NS 250000 /* one put each period: 4 GB/s */
#define NAP_NS 20000
#define START_DELAY_NS 2000000
#define WORK_WORDS 2048
#define WORK_ROUNDS 8

struct schedule {
    uint64_t start_ns, slice_ns;
};

struct bench {
    struct ni ni;
    const struct options *o;
    unsigned char *ring, *copy; /* RING_BUFFERS of PUT_BYTES each */
    struct window window, end; /* `end` counts the message that the last put is done */
    struct source source;
    uint64_t puts;
    struct schedule schedule;
};

static uint64_t slice_end(const struct schedule *s, unsigned slice) { return s->start_ns + (slice + 1) * s->slice_ns; }

static void sleep_until(uint64_t when_ns)
{
    struct timespec t = { .tv_sec = (time_t)(when_ns / 1000000000u), .tv_nsec = (long)(when_ns % 1000000000u) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

/* ---- rank 1: the computing target ---- */

/* Measures pieces of work a second in each slice. A slice has at least one: if the process had no core for longer than a slice, that
 * piece is late, and its rate is that of one piece. */
static void compute(struct bench *b, double per_s[SLICES])
{
    static uint64_t words[WORK_WORDS];
    volatile uint64_t sink = 0;
    sleep_until(b->schedule.start_ns);
    uint64_t begun = now_ns(), now = begun;
    for (unsigned slice = 0; slice < SLICES; slice++) {
        uint64_t pieces = 0;
        begun = now;
        do {
            ptl_ct_event_t seen;
            sink += work_on(words, WORK_WORDS, WORK_ROUNDS);
            CHECK(PtlCTGet(b->window.ct, &seen));
            pieces++;
            now = now_ns();
        } while (now < slice_end(&b->schedule, slice));
        per_s[slice] = (double)pieces * 1e9 / (double)(now - begun);
    }
    (void)sink;
    wait_count(b->end.ct, 1); /* in host mode this process takes in the last put in the library */
}

/* ---- rank 0: the initiator ---- */

/* Returns nanoseconds inside the library for one put, until it is acknowledged. */
static double put_once(struct bench *b)
{
    size_t offset = (b->puts % RING_BUFFERS) * PUT_BYTES;
    uint64_t start = now_ns();
    CHECK(PtlPut(b->source.md, offset, PUT_BYTES, PTL_CT_ACK_REQ, b->ni.peers[1], PT_DATA, 0, offset, NULL, 0));
    b->puts++;
    for (uint64_t inside_ns = 0;;) {
        ptl_ct_event_t acked;
        CHECK(PtlCTGet(b->source.ct, &acked));
        inside_ns += now_ns() - start;
        if (acked.failure != 0)
            die("a put failed");
        if (acked.success >= b->puts)
            return (double)inside_ns;
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
        start = now_ns();
    }
}

static struct samples send_traffic(struct bench *b)
{
    struct samples s = samples_new(SLICES * (b->schedule.slice_ns / PERIOD_NS + 1));
    for (unsigned slice = 1; slice < SLICES; slice += 2) {
        uint64_t next = slice_end(&b->schedule, slice - 1);
        while (next + PERIOD_NS < slice_end(&b->schedule, slice)) {
            sleep_until(next);
            samples_add(&s, put_once(b));
            uint64_t now = now_ns();
            next = next + PERIOD_NS > now ? next + PERIOD_NS : now;
        }
    }
    if (s.count == 0) /* it had no core in any slice with traffic */
        samples_add(&s, put_once(b));
    CHECK(PtlPut(b->source.md, 0, 0, PTL_NO_ACK_REQ, b->ni.peers[1], PT_END, 0, 0, NULL, 0));
    return s;
}

static struct samples copies(struct bench *b)
{
    unsigned count = RING_BUFFERS * (b->o->budget_ms < 10.0 ? 2 : 20);
    struct samples s = samples_new(count);
    for (unsigned i = 0; i < RING_BUFFERS + count; i++) {
        size_t offset = (i % RING_BUFFERS) * PUT_BYTES;
        uint64_t start = now_ns();
        memcpy(b->copy + offset, b->ring + offset, PUT_BYTES);
        if (i >= RING_BUFFERS)
            samples_add(&s, (double)(now_ns() - start));
    }
    return s;
}

/* ---- both ---- */

static double rate_of(const double per_s[SLICES], unsigned first)
{
    struct samples s = samples_new(SLICES);
    for (unsigned slice = first; slice < SLICES; slice += 2)
        samples_add(&s, per_s[slice]);
    double rate = samples_quantile(&s, 0.5);
    samples_free(&s);
    return rate;
}

static void report(struct bench *b, struct samples *puts, struct samples *memcpys, const double per_s[SLICES])
{
    char name[64];
    struct result r = result_new(b->o->what, (long long)PUT_BYTES, NO_NUMBER);
    result_times(&r, puts);
    r.rate_per_s = rate_of(per_s, 1);
    result_print(b->o, &r);

    snprintf(name, sizeof name, "%s:alone", b->o->what);
    r = result_new(name, (long long)PUT_BYTES, NO_NUMBER);
    r.rate_per_s = rate_of(per_s, 0);
    r.samples = SLICES / 2;
    result_print(b->o, &r);

    snprintf(name, sizeof name, "%s:memcpy", b->o->what);
    r = result_new(name, (long long)PUT_BYTES, NO_NUMBER);
    result_times(&r, memcpys);
    result_print(b->o, &r);
}

static void measure(struct bench *b)
{
    struct samples memcpys = { 0 }, puts = { 0 };
    double per_s[SLICES] = { 0 }, all[2][SLICES];
    bool first = b->ni.rank == 0;
    if (first)
        memcpys = copies(b);
    double slice_ns = b->o->budget_ms * 1e6 / SLICES;
    b->schedule.slice_ns = agree((uint64_t)(slice_ns < SLICE_NS_MIN ? SLICE_NS_MIN : slice_ns));
    b->schedule.start_ns = agree(now_ns() + START_DELAY_NS);
    if (first)
        puts = send_traffic(b);
    else
        compute(b, per_s);
    if (selvedge_exchange(per_s, sizeof per_s, all) != 0)
        die("the exchange failed");
    uint64_t sent = agree(b->puts);
    if (first)
        report(b, &puts, &memcpys, all[1]);
    else
        wait_count(b->window.ct, sent);
    samples_free(&memcpys);
    samples_free(&puts);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = { .o = &o };
    if (o.what[0] == '\0')
        o.what = "overlap_target";
    b.ni = ni_open(PTL_NI_NO_MATCHING, 0);
    if (b.ni.size != 2)
        die("needs two processes: selvedge run -n 2");
    b.ring = shared_alloc(RING_BUFFERS * PUT_BYTES);
    b.copy = shared_alloc(RING_BUFFERS * PUT_BYTES);
    b.window = window_open(&b.ni, PT_DATA, b.ring, RING_BUFFERS * PUT_BYTES);
    b.end = window_open(&b.ni, PT_END, b.copy, sizeof(uint64_t));
    b.source = source_open(&b.ni, b.ring, RING_BUFFERS * PUT_BYTES, PTL_MD_EVENT_CT_ACK);
    barrier();
    measure(&b);
    barrier();
    source_close(&b.source);
    window_close(&b.ni, &b.end);
    window_close(&b.ni, &b.window);
    ni_close(&b.ni);
    return 0;
}
