/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * message_rate: the number of 8-byte puts a second that one process delivers into one persistent counted entry. It puts a window
 * of them, then waits for the counter of acknowledgments. So a message counts only after it has arrived.
 */
#define _GNU_SOURCE
#include "ni.h"

#include <stdlib.h>
#include <string.h>

enum { PT_DATA = 4 };
#define WINDOW_DEFAULT 64
#define WINDOWS_PER_SAMPLE 8
#define WARM_WINDOWS 200

struct bench {
    struct ni ni;
    struct source source;
    size_t bytes;
    unsigned window;
    uint64_t sent;
};

static void windows(struct bench *b, uint64_t count)
{
    ptl_process_t target = b->ni.peers[1];
    for (uint64_t i = 0; i < count; i++) {
        for (unsigned j = 0; j < b->window; j++)
            CHECK(PtlPut(b->source.md, 0, b->bytes, PTL_CT_ACK_REQ, target, PT_DATA, 0, 0, NULL, 0));
        b->sent += b->window;
        wait_count(b->source.ct, b->sent);
    }
}

static void measure(struct bench *b, const struct options *o)
{
    uint64_t warm = o->budget_ms < 10.0 ? WARM_WINDOWS / 20 : WARM_WINDOWS;
    windows(b, warm);
    uint64_t start = now_ns();
    windows(b, warm);
    double window_ns = (double)(now_ns() - start) / (double)warm;
    struct plan plan = plan_from(window_ns * WINDOWS_PER_SAMPLE, o->budget_ms, 5);
    struct samples s = samples_new(plan.batches);
    for (uint64_t i = 0; i < plan.batches; i++) {
        start = now_ns();
        windows(b, WINDOWS_PER_SAMPLE);
        samples_add(&s, (double)(now_ns() - start) / (double)(WINDOWS_PER_SAMPLE * b->window));
    }
    struct result r = result_new("message_rate", (long long)b->bytes, (long long)b->window);
    result_times(&r, &s);
    r.rate_per_s = 1e9 / r.median_ns;
    result_print(o, &r);
    samples_free(&s);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = { .bytes = o.sizes_count > 0 ? o.sizes_bytes[0] : sizeof(uint64_t),
        .window = o.depths_count > 0 ? o.depths[0] : WINDOW_DEFAULT };
    b.ni = ni_open(PTL_NI_NO_MATCHING, 0);
    unsigned char *memory = shared_alloc(b.bytes);
    struct window w = window_open(&b.ni, PT_DATA, memory, b.bytes);
    b.source = source_open(&b.ni, memory, b.bytes, PTL_MD_EVENT_CT_ACK);
    barrier();
    if (b.ni.rank == 0)
        measure(&b, &o);
    uint64_t sent = agree(b.sent);
    if (b.ni.rank == 1)
        wait_count(w.ct, sent); /* the target has counted every message */
    barrier();
    source_close(&b.source);
    window_close(&b.ni, &w);
    ni_close(&b.ni);
    return 0;
}
