/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations with FI_TRIGGER: each starts when the counter in its context reaches a threshold, then completes and counts
 * like one without. fi_trigger(3), TRIGGERED OPERATIONS; fi_ep_alias of fi_endpoint(3).
 */
#include "transfers.h"

#include <rdma/fi_trigger.h>

struct setup {
    struct pair p;
    struct fid_cntr *trigger, *sent, *written, *read, *received;
    char *memory;
    struct region region;
};

static struct setup setup_open(void)
{
    struct wants wants = {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER, .disabled = true};
    struct setup s = {.p = {.a = side_open(wants), .b = side_open((struct wants){.caps = wants.caps})}};
    s.trigger = counter_open(s.p.a, FI_WAIT_NONE);
    struct fid_cntr **bound[] = {&s.sent, &s.written, &s.read, &s.received};
    uint64_t flags[] = {FI_SEND, FI_WRITE, FI_READ, FI_RECV};
    for (size_t i = 0; i < 4; i++) {
        *bound[i] = counter_open(s.p.a, FI_WAIT_UNSPEC);
        OK(fi_ep_bind(s.p.a->ep, &(*bound[i])->fid, flags[i]));
    }
    side_enable(s.p.a);
    s.p.to_b = side_insert(s.p.a, s.p.b);
    s.p.to_a = side_insert(s.p.b, s.p.a);
    s.memory = buffer(100000);
    s.region = region_over(s.p.b, s.memory, 100000, ACCESS_ALL);
    return s;
}

/* Makes the context of an operation that starts at this value of the counter. */
static struct fi_triggered_context2 *at(struct fi_triggered_context2 *context, struct setup *s, size_t threshold)
{
    memset(context, 0, sizeof *context);
    context->event_type = FI_TRIGGER_THRESHOLD;
    context->trigger.threshold.cntr = s->trigger;
    context->trigger.threshold.threshold = threshold;
    return context;
}

static const size_t LENGTHS[] = {0, 8, 300, 20000, 100000};

CASE(triggered_sends, 1,
     "FI_TRIGGER of fi_sendmsg, fi_tsendmsg: nothing is sent before the threshold; then it completes and counts")
{
    struct setup s = setup_open();
    char *out = buffer(100000), *in = buffer(100000);
    uint64_t n = 0;
    FOR_KINDS(kind)
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
            size_t bytes = LENGTHS[l];
            about("%s, %zu bytes", kind_name(kind), bytes);
            static struct fi_triggered_context2 context;
            struct transfer t = {.buf = out, .len = bytes, .peer = s.p.to_b, .tag = 1, .context = at(&context, &s, n + 1)};
            POST(send_flagged(kind, s.p.a, t, FI_TRIGGER | FI_COMPLETION));
            pattern_fill(out, bytes, (unsigned)n); /* the structure is read when the operation is triggered */
            POST(receive(kind, s.p.b, (struct transfer){.buf = in, .len = bytes, .peer = FI_ADDR_UNSPEC, .tag = 1}));
            CHECK_NONE(s.p.b->rx, 2);
            CHECK_NONE(s.p.a->tx, 1);
            CHECK_COUNTER(s.sent, n);
            OK(fi_cntr_add(s.trigger, 1));
            WAIT_RX(s.p.b);
            CHECK_PTR(WAIT_TX(s.p.a).context, &context);
            CHECK_PATTERN(in, bytes, (unsigned)n);
            CHECK_COUNTER(s.sent, ++n);
        }
}

CASE(triggered_receives, 1,
     "FI_TRIGGER of fi_recvmsg, fi_trecvmsg: the buffer is posted at the threshold, for earlier and later messages")
{
    struct setup s = setup_open();
    char *out = buffer(100000), *in = buffer(100000);
    uint64_t n = 0;
    FOR_KINDS(kind)
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
            size_t bytes = LENGTHS[l];
            about("%s, %zu bytes", kind_name(kind), bytes);
            static struct fi_triggered_context2 context;
            struct transfer t = {
                .buf = in, .len = bytes, .peer = FI_ADDR_UNSPEC, .tag = 1, .context = at(&context, &s, n + 1)};
            POST(receive_flagged(kind, s.p.a, t, FI_TRIGGER | FI_COMPLETION));
            pattern_fill(out, bytes, (unsigned)n);
            memset(in, 0, bytes);
            POST(send_one(kind, s.p.b, (struct transfer){.buf = out, .len = bytes, .peer = s.p.to_a, .tag = 1}));
            CHECK_NONE(s.p.a->rx, 2);
            OK(fi_cntr_add(s.trigger, 1));
            CHECK_PTR(WAIT_RX(s.p.a).context, &context);
            WAIT_TX(s.p.b);
            CHECK_PATTERN(in, bytes, (unsigned)n);
            CHECK_COUNTER(s.received, ++n);
        }
}

CASE(triggered_memory, 1, "FI_TRIGGER of fi_writemsg, fi_readmsg, fi_atomicmsg, fi_fetch_atomicmsg: at the threshold")
{
    struct setup s = setup_open();
    uint64_t out = 40, in = 0, one = 2, before = 0;
    struct fi_triggered_context2 context[4];
    struct iovec from = {&out, 8}, into = {&in, 8};
    struct fi_rma_iov there = {s.region.base, 8, s.region.key};
    struct fi_msg_rma msg = {
        .msg_iov = &from, .iov_count = 1, .addr = s.p.to_b, .rma_iov = &there, .rma_iov_count = 1};
    struct fi_ioc operand = {&one, 1}, result = {&before, 1};
    struct fi_rma_ioc word = {s.region.base, 1, s.region.key};
    struct fi_msg_atomic sum = {.msg_iov = &operand,
                                .iov_count = 1,
                                .addr = s.p.to_b,
                                .rma_iov = &word,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = FI_SUM};
    uint64_t flags = FI_TRIGGER | FI_COMPLETION;
    msg.context = at(&context[0], &s, 1);
    POST(fi_writemsg(s.p.a->ep, &msg, flags));
    sum.context = at(&context[1], &s, 2);
    POST(fi_atomicmsg(s.p.a->ep, &sum, flags));
    sum.context = at(&context[2], &s, 3);
    POST(fi_fetch_atomicmsg(s.p.a->ep, &sum, &result, NULL, 1, flags));
    msg.msg_iov = &into;
    msg.context = at(&context[3], &s, 4);
    POST(fi_readmsg(s.p.a->ep, &msg, flags));
    uint64_t *held = (void *)s.memory;
    for (int i = 0; i < 4; i++) {
        about("operation %d", i);
        CHECK_NONE(s.p.a->tx, 2);
        OK(fi_cntr_add(s.trigger, 1));
        CHECK_PTR(WAIT_TX(s.p.a).context, &context[i]);
        CHECK_EQ(*held, i == 0 ? 40u : i == 1 ? 42u : 44u);
    }
    CHECK_EQ(before, 42);
    CHECK_EQ(in, 44);
    CHECK_COUNTER(s.written, 2);
    CHECK_COUNTER(s.read, 2);
}

CASE(triggered_through_an_alias, 1,
     "fi_ep_alias with FI_TRANSMIT | FI_TRIGGER: operations posted through it wait, those posted through the endpoint "
     "do not; the endpoint is held open")
{
    struct setup s = setup_open();
    struct fid_ep *alias = NULL;
    OK(fi_ep_alias(s.p.a->ep, &alias, FI_TRANSMIT | FI_TRIGGER));
    char out[2][16] = {"waits", "goes"};
    static struct fi_triggered_context2 context[2];
    POST(fi_write(alias, out[0], 6, NULL, s.p.to_b, s.region.base, s.region.key, at(&context[0], &s, 1)));
    POST(fi_tsend(alias, out[0], 6, NULL, s.p.to_b, 7, at(&context[1], &s, 2)));
    POST(fi_write(s.p.a->ep, out[1], 5, NULL, s.p.to_b, s.region.base + 100, s.region.key, CONTEXT(3)));
    CHECK_PTR(WAIT_TX(s.p.a).context, CONTEXT(3));
    CHECK_TEXT(s.memory + 100, "goes");
    CHECK_OP(s.memory[0], ==, 0);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_PTR(WAIT_TX(s.p.a).context, &context[0]);
    CHECK_TEXT(s.memory, "waits");
    CHECK_COUNTER(s.written, 2);
    char in[16];
    POST(fi_trecv(s.p.b->ep, in, 16, NULL, FI_ADDR_UNSPEC, 7, 0, NULL));
    CHECK_NONE(s.p.b->rx, 2);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_EQ(WAIT_RX(s.p.b).len, 6);
    CHECK_PTR(WAIT_TX(s.p.a).context, &context[1]);
    CHECK_RC(fi_close(&s.p.a->ep->fid), -FI_EBUSY);
    OK(fi_close(&alias->fid));
    POST(fi_tsend(s.p.a->ep, out[1], 5, NULL, s.p.to_b, 7, CONTEXT(4)));
    POST(fi_trecv(s.p.b->ep, in, 16, NULL, FI_ADDR_UNSPEC, 7, 0, NULL));
    CHECK_EQ(WAIT_RX(s.p.b).len, 5);
    CHECK_PTR(WAIT_TX(s.p.a).context, CONTEXT(4));
}

CASE(triggered_wrongly, 1,
     "FI_TRIGGER: refused without a context, with a context that names no counter or another domain's, with another "
     "kind of event, or with FI_INJECT",
     .needs = OUR_PROVIDER)
{
    struct setup s = setup_open();
    struct fi_triggered_context2 context;
    struct transfer t = {.buf = "x", .len = 1, .peer = s.p.to_b, .tag = 1};
    FOR_KINDS(kind) {
        t.context = NULL;
        CHECK_RC(send_flagged(kind, s.p.a, t, FI_TRIGGER), -FI_EINVAL);
        t.context = at(&context, &s, 1);
        context.trigger.threshold.cntr = NULL;
        CHECK_RC(send_flagged(kind, s.p.a, t, FI_TRIGGER), -FI_EINVAL);
        context.trigger.threshold.cntr = counter_open(s.p.b, FI_WAIT_NONE);
        CHECK_RC(send_flagged(kind, s.p.a, t, FI_TRIGGER), -FI_EDOMAIN);
        at(&context, &s, 1)->event_type = 77;
        CHECK_RC(send_flagged(kind, s.p.a, t, FI_TRIGGER), -FI_ENOSYS);
        at(&context, &s, 1);
        CHECK_RC(send_flagged(kind, s.p.a, t, FI_TRIGGER | FI_INJECT), -FI_ENOSYS);
    }
    OK(fi_cntr_add(s.trigger, 5));
    CHECK_NONE(s.p.b->rx, 2);
}
