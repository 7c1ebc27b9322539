/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The time of one small operation, between two processes:
 *   counting_put            half a round trip: put to a persistent counted entry, the receiver in PtlCTWait
 *   counting_put_ordinary   the same with memory from malloc instead of selvedge_alloc
 *   put_flag                half a round trip as in section 3.1 of the counting puts paper, without counters:
 *                           put, wait for the acknowledgment (the fence), add to a flag, the receiver polls the flag
 *   matched_put_event       half a round trip: put to a persistent match entry, the receiver in PtlEQWait
 *   get, fetch_atomic       one whole operation, during which the target does not call the library
 *
 * Invariants: 1. the numbers waited for only rise (counts, flag), so no reset falls between two messages. 2. Data is
 * checked before and after the timed part, not in it.
 */
#define _GNU_SOURCE
#include "ni.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PT_DATA = 4, PT_FLAG = 5 };
#define NAP_NS 200000
#define EVENTS 4096

struct bench {
    struct ni ni;
    const struct options *o;
    int peer;
    unsigned char *in, *out; /* each as long as the largest size */
    size_t bytes;            /* of this measurement */
    struct window data;
    struct source source;
    uint64_t received;
};

typedef void *allocator(size_t bytes);

static void fill(unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(i * 7 + seed);
}

static void verify(const unsigned char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (unsigned char)(i * 7 + seed))
            die("byte %zu of %zu arrived wrong", i, bytes);
}

/* ---- counting_put ---- */

static void counting_send(struct bench *b)
{
    CHECK(PtlPut(b->source.md, 0, b->bytes, PTL_NO_ACK_REQ, b->ni.peers[b->peer], PT_DATA, 0, 0, NULL, 0));
}

static void counting_receive(struct bench *b) { wait_count(b->data.ct, ++b->received); }

static void counting_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count; i++) {
        if (b->ni.rank == 0) {
            counting_send(b);
            counting_receive(b);
        } else {
            counting_receive(b);
            counting_send(b);
        }
    }
}

/* ---- put_flag ---- */

struct flagged {
    struct bench *b;
    struct window window;  /* over the flag */
    struct source add;     /* the operand, 1 */
    struct source payload; /* the data, with a counter of acknowledgments */
    _Atomic uint64_t *flag;
    uint64_t acks, seen;
};

static void flag_send(struct flagged *f)
{
    struct bench *b = f->b;
    ptl_process_t peer = b->ni.peers[b->peer];
    CHECK(PtlPut(f->payload.md, 0, b->bytes, PTL_CT_ACK_REQ, peer, PT_DATA, 0, 0, NULL, 0));
    wait_count(f->payload.ct, ++f->acks);
    CHECK(PtlAtomic(f->add.md, 0, sizeof(uint64_t), PTL_NO_ACK_REQ, peer, PT_FLAG, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
}

static void flag_receive(struct flagged *f)
{
    f->seen++;
    while (atomic_load_explicit(f->flag, memory_order_acquire) < f->seen)
        cpu_relax();
}

static void flag_steps(void *self, uint64_t count)
{
    struct flagged *f = self;
    for (uint64_t i = 0; i < count; i++) {
        if (f->b->ni.rank == 0) {
            flag_send(f);
            flag_receive(f);
        } else {
            flag_receive(f);
            flag_send(f);
        }
    }
}

/* ---- ping-pongs over a list of sizes ---- */

static void report_half(struct bench *b, const char *name, const struct exchange *x)
{
    struct samples s = exchange_measure(x, b->o, b->ni.rank, 2.0);
    if (b->ni.rank == 0) {
        struct result r = result_new(name, (long long)b->bytes, NO_NUMBER);
        result_times(&r, &s);
        result_print(b->o, &r);
    }
    samples_free(&s);
}

static void counting_sizes(struct bench *b, const char *name)
{
    struct exchange x = { counting_steps, b };
    for (unsigned i = 0; i < b->o->sizes_count; i++) {
        b->bytes = b->o->sizes_bytes[i];
        unsigned mine = (unsigned)b->ni.rank + i, theirs = (unsigned)b->peer + i;
        fill(b->out, b->bytes, mine);
        counting_steps(b, 1);
        verify(b->in, b->bytes, theirs);
        report_half(b, name, &x);
        verify(b->in, b->bytes, theirs);
        barrier();
    }
}

static void flag_sizes(struct bench *b)
{
    struct flagged f = { .b = b };
    uint64_t *one = shared_alloc(CACHE_LINE_BYTES);
    f.flag = shared_alloc(CACHE_LINE_BYTES);
    *one = 1;
    atomic_store(f.flag, 0);
    f.window = window_open(&b->ni, PT_FLAG, (void *)f.flag, sizeof(uint64_t));
    f.add = source_open(&b->ni, one, sizeof *one, 0);
    f.payload = source_open(&b->ni, b->out, b->o->sizes_bytes[b->o->sizes_count - 1], PTL_MD_EVENT_CT_ACK);
    barrier();
    struct exchange x = { flag_steps, &f };
    for (unsigned i = 0; i < b->o->sizes_count; i++) {
        b->bytes = b->o->sizes_bytes[i];
        fill(b->out, b->bytes, (unsigned)b->ni.rank + i);
        flag_steps(&f, 1);
        verify(b->in, b->bytes, (unsigned)b->peer + i);
        report_half(b, "put_flag", &x);
        barrier();
    }
    source_close(&f.payload);
    source_close(&f.add);
    window_close(&b->ni, &f.window);
}

static void ping_pong(struct bench *b, allocator *allocate, bool flagged)
{
    size_t most = b->o->sizes_bytes[b->o->sizes_count - 1];
    b->ni = ni_open(PTL_NI_NO_MATCHING, 0);
    b->peer = 1 - b->ni.rank;
    b->in = allocate(most);
    b->out = allocate(most);
    b->data = window_open(&b->ni, PT_DATA, b->in, most);
    b->source = source_open(&b->ni, b->out, most, 0);
    barrier();
    if (flagged)
        flag_sizes(b);
    else
        counting_sizes(b, b->o->what);
    source_close(&b->source);
    window_close(&b->ni, &b->data);
    ni_close(&b->ni);
}

/* ---- matched_put_event ---- */

struct matched {
    struct bench *b;
    ptl_handle_eq_t eq;
};

static void matched_send(struct matched *m)
{
    struct bench *b = m->b;
    CHECK(PtlPut(b->source.md, 0, b->bytes, PTL_NO_ACK_REQ, b->ni.peers[b->peer], PT_DATA, 42, 0, NULL, 7));
}

static void matched_receive(struct matched *m)
{
    ptl_event_t event;
    CHECK(PtlEQWait(m->eq, &event));
    if (event.type != PTL_EVENT_PUT || event.ni_fail_type != PTL_NI_OK || event.hdr_data != 7)
        die("expected a put event, got type %d, failure %d", event.type, event.ni_fail_type);
}

static void matched_steps(void *self, uint64_t count)
{
    struct matched *m = self;
    for (uint64_t i = 0; i < count; i++) {
        if (m->b->ni.rank == 0) {
            matched_send(m);
            matched_receive(m);
        } else {
            matched_receive(m);
            matched_send(m);
        }
    }
}

static void matched_put_event(struct bench *b)
{
    struct matched m = { .b = b };
    b->ni = ni_open(PTL_NI_MATCHING, 0);
    b->peer = 1 - b->ni.rank;
    b->bytes = b->o->sizes_bytes[0];
    b->in = shared_alloc(b->bytes);
    b->out = shared_alloc(b->bytes);
    b->source = source_open(&b->ni, b->out, b->bytes, 0);
    CHECK(PtlEQAlloc(b->ni.handle, EVENTS, &m.eq));
    ptl_pt_index_t pt;
    CHECK(PtlPTAlloc(b->ni.handle, 0, m.eq, PT_DATA, &pt));
    ptl_me_t me = {
        .start = b->in,
        .length = b->bytes,
        .ct_handle = PTL_CT_NONE,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
        .match_id = b->ni.peers[b->peer],
        .match_bits = 42,
    };
    ptl_handle_me_t handle;
    CHECK(PtlMEAppend(b->ni.handle, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
    barrier();
    fill(b->out, b->bytes, (unsigned)b->ni.rank);
    matched_steps(&m, 1);
    verify(b->in, b->bytes, (unsigned)b->peer);
    struct exchange x = { matched_steps, &m };
    report_half(b, "matched_put_event", &x);
    barrier();
    me_unlink(handle);
    CHECK(PtlPTFree(b->ni.handle, pt));
    CHECK(PtlEQFree(m.eq));
    source_close(&b->source);
    ni_close(&b->ni);
}

/* ---- get, fetch_atomic: rank 1 sleeps, outside the library ---- */

struct remote {
    struct bench *b;
    struct source reply, operand;
    uint64_t done;
};

static void get_steps(void *self, uint64_t count)
{
    struct remote *r = self;
    struct bench *b = r->b;
    for (uint64_t i = 0; i < count; i++) {
        CHECK(PtlGet(r->reply.md, 0, b->bytes, b->ni.peers[1], PT_DATA, 0, 0, NULL));
        wait_count(r->reply.ct, ++r->done);
    }
}

static void fetch_steps(void *self, uint64_t count)
{
    struct remote *r = self;
    struct bench *b = r->b;
    for (uint64_t i = 0; i < count; i++) {
        CHECK(PtlFetchAtomic(r->reply.md, 0, r->operand.md, 0, sizeof(uint64_t), b->ni.peers[1], PT_DATA, 0, 0, NULL, 0,
            PTL_SUM, PTL_UINT64_T));
        wait_count(r->reply.ct, ++r->done);
    }
}

/* Rank 0 alone chooses the duration, since the target takes no part. */
static struct samples measure_alone(const struct exchange *x, const struct options *o)
{
    uint64_t warm = 1000;
    if (o->budget_ms < 10.0)
        warm = 50;
    x->step(x->self, warm);
    uint64_t start = now_ns();
    x->step(x->self, warm);
    struct plan plan = plan_from((double)(now_ns() - start) / (double)warm, o->budget_ms, 5);
    struct samples s = samples_new(plan.batches);
    for (uint64_t i = 0; i < plan.batches; i++) {
        start = now_ns();
        x->step(x->self, plan.batch);
        samples_add(&s, (double)(now_ns() - start) / (double)plan.batch);
    }
    return s;
}

static void initiate(struct bench *b, bool fetch)
{
    struct remote r = { .b = b };
    uint64_t *operand = shared_alloc(sizeof *operand);
    *operand = 1;
    r.reply = source_open(&b->ni, b->in, b->bytes, PTL_MD_EVENT_CT_REPLY);
    r.operand = source_open(&b->ni, operand, sizeof *operand, 0);
    struct exchange x = { fetch ? fetch_steps : get_steps, &r };
    struct samples s = measure_alone(&x, b->o);
    if (fetch) {
        uint64_t before_last;
        memcpy(&before_last, b->in, sizeof before_last);
        if (before_last != r.done - 1)
            die("%llu additions, but the target held %llu", (unsigned long long)r.done, (unsigned long long)before_last);
    } else {
        verify(b->in, b->bytes, 1);
    }
    struct result result = result_new(fetch ? "fetch_atomic" : "get", (long long)b->bytes, NO_NUMBER);
    result_times(&result, &s);
    result_print(b->o, &result);
    samples_free(&s);
    /* A put into the flag of rank 1, which polls its memory only. */
    CHECK(PtlPut(r.operand.md, 0, sizeof *operand, PTL_NO_ACK_REQ, b->ni.peers[1], PT_FLAG, 0, 0, NULL, 0));
    source_close(&r.operand);
    source_close(&r.reply);
}

static void remote_operation(struct bench *b, bool fetch)
{
    b->ni = ni_open(PTL_NI_NO_MATCHING, 0);
    b->bytes = fetch ? sizeof(uint64_t) : b->o->sizes_bytes[0];
    b->in = shared_alloc(b->bytes);
    _Atomic uint64_t *flag = shared_alloc(CACHE_LINE_BYTES);
    atomic_store(flag, 0);
    if (fetch)
        memset(b->in, 0, b->bytes);
    else
        fill(b->in, b->bytes, (unsigned)b->ni.rank);
    b->data = window_open(&b->ni, PT_DATA, b->in, b->bytes);
    struct window end = window_open(&b->ni, PT_FLAG, (void *)flag, sizeof(uint64_t));
    barrier();
    if (b->ni.rank == 0)
        initiate(b, fetch);
    else
        while (atomic_load_explicit(flag, memory_order_acquire) == 0)
            nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    barrier();
    window_close(&b->ni, &end);
    window_close(&b->ni, &b->data);
    ni_close(&b->ni);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = { .o = &o };
    if (o.sizes_count == 0)
        o.sizes_bytes[o.sizes_count++] = sizeof(uint64_t);
    if (strcmp(o.what, "counting_put") == 0)
        ping_pong(&b, shared_alloc, false);
    else if (strcmp(o.what, "counting_put_ordinary") == 0)
        ping_pong(&b, ordinary_alloc, false);
    else if (strcmp(o.what, "put_flag") == 0)
        ping_pong(&b, shared_alloc, true);
    else if (strcmp(o.what, "matched_put_event") == 0)
        matched_put_event(&b);
    else if (strcmp(o.what, "get") == 0)
        remote_operation(&b, false);
    else if (strcmp(o.what, "fetch_atomic") == 0)
        remote_operation(&b, true);
    else
        die("no such measurement: '%s'", o.what);
    return 0;
}
