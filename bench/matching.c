/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * match_posted, match_unexpected: the worst case of a matching queue, figure 11 of the PAC paper (after Brightwell and
 * Underwood). Messages are sent with descending tags and received with ascending ones, so an engine that walks its list
 * finds every message at the far end. Q is the length of the queue.
 *   posted       rank 0 appends Q use-once entries with tags 0..Q-1; rank 1 sends Q-1..0. The time is from the signal to
 *                send until the Q-th event.
 *   unexpected   rank 1 sends first, into a persistent entry of the overflow list; rank 0 then appends entries with tags
 *                0..Q-1 and copies each message from the overflow buffer to its own. The time is that of the appends and
 *                copies.
 * The figure is the time per message. mpi/matching.c has the same pattern in MPI.
 *
 * Memory: one event and eight bytes a message; the interface is opened with room for the longest queue.
 */
#define _GNU_SOURCE
#include "ni.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PT_MATCH = 4, PT_SIGNAL = 5 };
#define SPARE_ENTRIES 64
#define REPETITIONS_MIN 3
#define GO_BITS UINT64_C(0xffffffffffff0001)
#define SENT_BITS UINT64_C(0xffffffffffff0002)

struct bench {
    struct ni ni;
    const struct options *o;
    bool unexpected;
    unsigned depth_max;
    uint64_t *in, *out, *kept; /* one word a message: receive buffers, send buffers, overflow buffers */
    ptl_handle_eq_t eq;
    ptl_handle_me_t overflow;
    ptl_handle_me_t signal_me;
    ptl_handle_ct_t signal_ct; /* counts the other side's signals */
    struct source messages;    /* acknowledged, so that each message is known to be kept before the next step */
    struct source signal;
    uint64_t signals_seen, acked;
};

/* ---- signals: a message without data, through the same interface ---- */

static void signal_send(struct bench *b)
{
    uint64_t bits = b->ni.rank == 0 ? GO_BITS : SENT_BITS;
    CHECK(PtlPut(b->signal.md, 0, 0, PTL_NO_ACK_REQ, b->ni.peers[1 - b->ni.rank], PT_SIGNAL, bits, 0, NULL, 0));
}

static void signal_await(struct bench *b) { wait_count(b->signal_ct, ++b->signals_seen); }

static void signal_open(struct bench *b)
{
    ptl_pt_index_t pt;
    CHECK(PtlPTAlloc(b->ni.handle, 0, PTL_EQ_NONE, PT_SIGNAL, &pt));
    CHECK(PtlCTAlloc(b->ni.handle, &b->signal_ct));
    ptl_me_t me = {
        .ct_handle = b->signal_ct,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM,
        .match_id = b->ni.peers[1 - b->ni.rank],
        .match_bits = b->ni.rank == 0 ? SENT_BITS : GO_BITS,
    };
    CHECK(PtlMEAppend(b->ni.handle, pt, &me, PTL_PRIORITY_LIST, NULL, &b->signal_me));
    b->signal = source_open(&b->ni, b->out, sizeof *b->out, 0); /* signals carry no bytes */
}

/* ---- rank 1: sends ---- */

static void send_descending(struct bench *b, unsigned depth)
{
    ptl_process_t target = b->ni.peers[0];
    ptl_ack_req_t ack = b->unexpected ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ;
    for (unsigned tag = depth; tag-- > 0;)
        CHECK(PtlPut(b->messages.md, tag * sizeof(uint64_t), sizeof(uint64_t), ack, target, PT_MATCH, tag,
            b->unexpected ? tag * sizeof(uint64_t) : 0, NULL, 0));
    if (b->unexpected) {
        b->acked += depth;
        wait_count(b->messages.ct, b->acked);
    }
}

/* ---- rank 0: receives ---- */

static void append(struct bench *b, unsigned tag)
{
    ptl_me_t me = {
        .start = &b->in[tag],
        .length = sizeof(uint64_t),
        .ct_handle = PTL_CT_NONE,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE,
        .match_id = b->ni.peers[1],
        .match_bits = tag,
    };
    ptl_handle_me_t handle;
    CHECK(PtlMEAppend(b->ni.handle, PT_MATCH, &me, PTL_PRIORITY_LIST, &b->in[tag], &handle));
}

/* Completes one receive. An unexpected message is copied to the program's buffer, as a receive would do. */
static void complete_one(struct bench *b)
{
    ptl_event_t event;
    CHECK(PtlEQWait(b->eq, &event));
    ptl_event_kind_t wanted = b->unexpected ? PTL_EVENT_PUT_OVERFLOW : PTL_EVENT_PUT;
    if (event.type != wanted || event.ni_fail_type != PTL_NI_OK)
        die("expected event %d, got %d with failure %d", wanted, event.type, event.ni_fail_type);
    if (b->unexpected)
        memcpy(event.user_ptr, event.start, event.mlength);
}

static double receive_posted(struct bench *b, unsigned depth)
{
    for (unsigned tag = 0; tag < depth; tag++)
        append(b, tag);
    uint64_t start = now_ns();
    signal_send(b);
    for (unsigned i = 0; i < depth; i++)
        complete_one(b);
    return (double)(now_ns() - start);
}

static double receive_unexpected(struct bench *b, unsigned depth)
{
    signal_send(b);
    signal_await(b);
    uint64_t start = now_ns();
    for (unsigned tag = 0; tag < depth; tag++) {
        append(b, tag);
        complete_one(b);
    }
    return (double)(now_ns() - start);
}

/* One repetition at both ranks; rank 0 returns nanoseconds. */
static double repetition(struct bench *b, unsigned depth)
{
    if (b->ni.rank == 1) {
        signal_await(b);
        send_descending(b, depth);
        if (b->unexpected)
            signal_send(b);
        return 0.0;
    }
    memset(b->in, 0, depth * sizeof *b->in);
    double took_ns = b->unexpected ? receive_unexpected(b, depth) : receive_posted(b, depth);
    for (unsigned tag = 0; tag < depth; tag++)
        if (b->in[tag] != tag + 1)
            die("message %u of %u arrived wrong", tag, depth);
    return took_ns;
}

/* Returns the nanoseconds of the fastest repetition, from which the time of a deeper one is estimated. */
static double measure_depth(struct bench *b, unsigned depth)
{
    const char *name = b->unexpected ? "match_unexpected" : "match_posted";
    repetition(b, depth);
    uint64_t whole_start = now_ns();
    repetition(b, depth);
    double whole_ns = (double)(now_ns() - whole_start);
    double budget = b->o->budget_ms * 1e6 / (whole_ns < 1.0 ? 1.0 : whole_ns);
    uint64_t count = agree(budget > 20000 ? 20000 : budget < REPETITIONS_MIN ? REPETITIONS_MIN : (uint64_t)budget);
    struct samples s = samples_new(count);
    for (uint64_t i = 0; i < count; i++) {
        whole_start = now_ns();
        samples_add(&s, repetition(b, depth) / depth);
        double took_ns = (double)(now_ns() - whole_start);
        whole_ns = took_ns < whole_ns ? took_ns : whole_ns;
    }
    if (b->ni.rank == 0) {
        struct result r = result_new(name, sizeof(uint64_t), depth);
        result_times(&r, &s);
        r.rate_per_s = 1e9 / r.median_ns;
        result_print(b->o, &r);
    }
    samples_free(&s);
    return whole_ns;
}

static void measure(struct bench *b)
{
    double last_ns = 0;
    unsigned last_depth = 0;
    for (unsigned i = 0; i < b->o->depths_count; i++) {
        unsigned depth = b->o->depths[i];
        /* Whether this depth exceeds the budget, if the time grows with the square of the depth. Rank 0 decides for both. */
        double growth = last_depth == 0 ? 0 : (double)depth / last_depth;
        uint64_t too_long = agree(last_ns * growth * growth * (REPETITIONS_MIN + 2) > b->o->limit_ms * 1e6);
        if (too_long || depth > b->depth_max) {
            if (b->ni.rank == 0)
                result_skipped(b->o, b->unexpected ? "match_unexpected" : "match_posted", sizeof(uint64_t), depth,
                    too_long ? "would take too long" : "the interface has no room for this many entries");
            continue;
        }
        last_ns = measure_depth(b, depth);
        last_depth = depth;
    }
}

static unsigned min3(unsigned a, int x, int y)
{
    unsigned least = a;
    if (x >= 0 && (unsigned)x < least)
        least = (unsigned)x;
    if (y >= 0 && (unsigned)y < least)
        least = (unsigned)y;
    return least;
}

static void open_all(struct bench *b)
{
    unsigned deepest = b->o->depths[b->o->depths_count - 1];
    b->ni = ni_open(PTL_NI_MATCHING, (int)(deepest + SPARE_ENTRIES));
    if (b->ni.size != 2)
        die("needs two processes: selvedge run -n 2");
    unsigned room = min3(deepest + SPARE_ENTRIES, b->ni.limits.max_entries, b->ni.limits.max_unexpected_headers);
    room = min3(room, b->ni.limits.max_list_size, -1);
    b->depth_max = (unsigned)agree(room > SPARE_ENTRIES ? room - SPARE_ENTRIES : 0);
    size_t bytes = deepest * sizeof(uint64_t);
    b->in = shared_alloc(bytes);
    b->out = shared_alloc(bytes);
    b->kept = shared_alloc(bytes);
    for (unsigned tag = 0; tag < deepest; tag++)
        b->out[tag] = tag + 1;
    CHECK(PtlEQAlloc(b->ni.handle, deepest + SPARE_ENTRIES, &b->eq));
    ptl_pt_index_t pt;
    CHECK(PtlPTAlloc(b->ni.handle, 0, b->eq, PT_MATCH, &pt));
    if (b->unexpected) {
        ptl_me_t me = {
            .start = b->kept,
            .length = bytes,
            .ct_handle = PTL_CT_NONE,
            .uid = PTL_UID_ANY,
            .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_LINK_DISABLE,
            .match_id = b->ni.peers[1 - b->ni.rank],
            .ignore_bits = ~(ptl_match_bits_t)0,
        };
        CHECK(PtlMEAppend(b->ni.handle, pt, &me, PTL_OVERFLOW_LIST, NULL, &b->overflow));
    }
    signal_open(b);
    b->messages = source_open(&b->ni, b->out, bytes, b->unexpected ? PTL_MD_EVENT_CT_ACK : 0);
}

static void close_all(struct bench *b)
{
    source_close(&b->messages);
    source_close(&b->signal);
    me_unlink(b->signal_me);
    CHECK(PtlCTFree(b->signal_ct));
    CHECK(PtlPTFree(b->ni.handle, PT_SIGNAL));
    if (b->unexpected)
        me_unlink(b->overflow);
    CHECK(PtlPTFree(b->ni.handle, PT_MATCH));
    CHECK(PtlEQFree(b->eq));
    ni_close(&b->ni);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = { .o = &o, .unexpected = strcmp(o.what, "match_unexpected") == 0 };
    if (!b.unexpected && strcmp(o.what, "match_posted") != 0)
        die("no such measurement: '%s'", o.what);
    if (o.depths_count == 0)
        o.depths[o.depths_count++] = 16;
    open_all(&b);
    barrier();
    measure(&b);
    barrier();
    close_all(&b);
    return 0;
}
