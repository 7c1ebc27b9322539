/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Deferred work (FI_QUEUE_WORK): operations that start when a counter reaches a threshold, and the counters that count
 * their completion. fi_trigger(3), DEFERRED WORK QUEUES.
 */
#include "suite.h"

#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))

struct setup {
    struct pair p;
    struct fid_cntr *trigger, *done;
    char *memory;
    struct region region;
};

static struct setup setup_open(void)
{
    struct wants wants = {.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER};
    struct setup s = {.p = pair_open(wants)};
    s.trigger = counter_open(s.p.a, FI_WAIT_NONE);
    s.done = counter_open(s.p.a, FI_WAIT_UNSPEC);
    s.memory = buffer(100000);
    s.region = region_over(s.p.b, s.memory, 100000, ACCESS_ALL);
    return s;
}

static void queue(struct setup *s, struct fi_deferred_work *work, uint64_t threshold)
{
    work->triggering_cntr = s->trigger;
    work->completion_cntr = s->done;
    work->threshold = threshold;
    OK(fi_control(&s->p.a->domain->fid, FI_QUEUE_WORK, work));
}

/* ---- Queued work ------------------------------------------------------------------------------------------------- */

struct message_work {
    struct fi_deferred_work work;
    struct fi_op_msg msg;
    struct fi_op_tagged tagged;
    struct iovec iov;
};

static struct fi_deferred_work *message(struct message_work *w, enum fi_op_type op, struct fid_ep *ep, fi_addr_t peer,
                                        void *buf, size_t bytes, uint64_t tag)
{
    memset(w, 0, sizeof *w);
    w->iov = (struct iovec){buf, bytes};
    w->work.op_type = op;
    if (op == FI_OP_SEND || op == FI_OP_RECV) {
        w->msg = (struct fi_op_msg){.ep = ep, .msg = {.msg_iov = &w->iov, .iov_count = 1, .addr = peer, .context = w}};
        w->work.op.msg = &w->msg;
    } else {
        w->tagged = (struct fi_op_tagged){
            .ep = ep, .msg = {.msg_iov = &w->iov, .iov_count = 1, .addr = peer, .tag = tag, .context = w}};
        w->work.op.tagged = &w->tagged;
    }
    return &w->work;
}

struct rma_work {
    struct fi_deferred_work work;
    struct fi_op_rma rma;
    struct iovec iov;
    struct fi_rma_iov there;
};

static struct fi_deferred_work *rma(struct rma_work *w, enum fi_op_type op, struct setup *s, void *buf, size_t bytes,
                                    uint64_t offset)
{
    memset(w, 0, sizeof *w);
    w->iov = (struct iovec){buf, bytes};
    w->there = (struct fi_rma_iov){s->region.base + offset, bytes, s->region.key};
    w->rma = (struct fi_op_rma){.ep = s->p.a->ep,
                                .msg = {.msg_iov = &w->iov,
                                        .iov_count = 1,
                                        .addr = s->p.to_b,
                                        .rma_iov = &w->there,
                                        .rma_iov_count = 1,
                                        .context = w}};
    w->work.op_type = op;
    w->work.op.rma = &w->rma;
    return &w->work;
}

struct atomic_work {
    struct fi_deferred_work work;
    struct fi_op_atomic atomic;
    struct fi_op_fetch_atomic fetch;
    struct fi_op_compare_atomic compare;
    struct fi_ioc from, into, against;
    struct fi_rma_ioc there;
};

static struct fi_deferred_work *atomic(struct atomic_work *w, enum fi_op_type op, struct setup *s, uint64_t *operand,
                                       uint64_t *against, uint64_t *result)
{
    memset(w, 0, sizeof *w);
    w->from = (struct fi_ioc){operand, 1};
    w->into = (struct fi_ioc){result, 1};
    w->against = (struct fi_ioc){against, 1};
    w->there = (struct fi_rma_ioc){s->region.base, 1, s->region.key};
    struct fi_msg_atomic msg = {.msg_iov = &w->from,
                                .iov_count = 1,
                                .addr = s->p.to_b,
                                .rma_iov = &w->there,
                                .rma_iov_count = 1,
                                .datatype = FI_UINT64,
                                .op = op == FI_OP_COMPARE_ATOMIC ? FI_CSWAP : FI_SUM,
                                .context = w};
    w->work.op_type = op;
    if (op == FI_OP_ATOMIC) {
        w->atomic = (struct fi_op_atomic){.ep = s->p.a->ep, .msg = msg};
        w->work.op.atomic = &w->atomic;
    } else if (op == FI_OP_FETCH_ATOMIC) {
        w->fetch = (struct fi_op_fetch_atomic){
            .ep = s->p.a->ep, .msg = msg, .fetch = {.msg_iov = &w->into, .iov_count = 1}};
        w->work.op.fetch_atomic = &w->fetch;
    } else {
        w->compare = (struct fi_op_compare_atomic){.ep = s->p.a->ep,
                                                   .msg = msg,
                                                   .fetch = {.msg_iov = &w->into, .iov_count = 1},
                                                   .compare = {.msg_iov = &w->against, .iov_count = 1}};
        w->work.op.compare_atomic = &w->compare;
    }
    return &w->work;
}

/* ---- Each operation ---------------------------------------------------------------------------------------------- */

CASE(sends, 1,
     "FI_OP_SEND, FI_OP_TSEND: nothing is sent before the threshold; then the message, and the completion counter is "
     "one higher; no entry in the queue")
{
    struct setup s = setup_open();
    static const size_t LENGTHS[] = {0, 8, 300, 20000, 100000};
    char *out = buffer(100000), *in = buffer(100000);
    static struct message_work w;
    uint64_t n = 0;
    for (int tagged = 0; tagged < 2; tagged++)
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
            size_t bytes = LENGTHS[l];
            about("%zu bytes, tagged %d", bytes, tagged);
            queue(&s, message(&w, tagged ? FI_OP_TSEND : FI_OP_SEND, s.p.a->ep, s.p.to_b, out, bytes, 5), n + 1);
            pattern_fill(out, bytes, (unsigned)n); /* the structure is read when the operation is triggered */
            if (tagged) POST(fi_trecv(s.p.b->ep, in, bytes, NULL, FI_ADDR_UNSPEC, 5, 0, CONTEXT(l)));
            else POST(fi_recv(s.p.b->ep, in, bytes, NULL, FI_ADDR_UNSPEC, CONTEXT(l)));
            CHECK_NONE(s.p.b->rx, 3);
            CHECK_COUNTER(s.done, n);
            OK(fi_cntr_add(s.trigger, 1));
            struct completion c = WAIT_RX(s.p.b);
            CHECK_PTR(c.context, CONTEXT(l));
            CHECK_EQ(c.len, bytes);
            CHECK_PATTERN(in, bytes, (unsigned)n);
            CHECK_COUNTER(s.done, ++n);
            CHECK_NONE(s.p.a->tx, 1);
        }
}

CASE(receives, 1, "FI_OP_RECV, FI_OP_TRECV: the buffer is posted when the counter reaches the threshold")
{
    struct setup s = setup_open();
    char *in = buffer(64);
    static struct message_work w;
    for (uint64_t n = 0; n < 2; n++) {
        about("tagged %d", (int)n);
        struct fi_deferred_work *work = message(&w, n ? FI_OP_TRECV : FI_OP_RECV, s.p.a->ep, FI_ADDR_UNSPEC, in, 64, 9);
        queue(&s, work, n + 1);
        if (n) POST(fi_tinject(s.p.b->ep, "hello", 5, s.p.to_a, 9));
        else POST(fi_inject(s.p.b->ep, "hello", 5, s.p.to_a));
        CHECK_NONE(s.p.a->rx, 5);
        CHECK_COUNTER(s.done, n);
        CHECK_BYTES(in, 64, 0);
        OK(fi_cntr_add(s.trigger, 1));
        CHECK_COUNTER(s.done, n + 1);
        CHECK_SAME(in, "hello", 5);
        CHECK_NONE(s.p.a->rx, 1);
        memset(in, 0, 64);
    }
}

CASE(writes_and_reads, 1, "FI_OP_WRITE, FI_OP_READ: at the threshold, with the memory's contents at that moment")
{
    struct setup s = setup_open();
    static const size_t LENGTHS[] = {1, 8, 300, 20000, 100000};
    char *local = buffer(100000);
    static struct rma_work w;
    uint64_t n = 0;
    for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
        size_t bytes = LENGTHS[l];
        about("write of %zu bytes", bytes);
        memset(s.memory, 0, bytes);
        queue(&s, rma(&w, FI_OP_WRITE, &s, local, bytes, 0), n + 1);
        pattern_fill(local, bytes, (unsigned)l);
        sleep_ms(2);
        CHECK_COUNTER(s.done, n);
        CHECK_BYTES(s.memory, bytes, 0);
        OK(fi_cntr_add(s.trigger, 1));
        CHECK_COUNTER(s.done, ++n);
        UNTIL(memcmp(s.memory, local, bytes) == 0);
        about("read of %zu bytes", bytes);
        memset(local, 0, bytes);
        queue(&s, rma(&w, FI_OP_READ, &s, local, bytes, 0), n + 1);
        pattern_fill(s.memory, bytes, (unsigned)l + 50);
        OK(fi_cntr_add(s.trigger, 1));
        CHECK_COUNTER(s.done, ++n);
        CHECK_PATTERN(local, bytes, (unsigned)l + 50);
    }
    CHECK_NONE(s.p.a->tx, 2);
}

CASE(atomics, 1, "FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC: at the threshold, with their results")
{
    struct setup s = setup_open();
    static struct atomic_work w;
    volatile uint64_t *word = (uint64_t *)s.memory;
    static uint64_t operand, against, result;
    *word = 100;
    operand = 5;
    queue(&s, atomic(&w, FI_OP_ATOMIC, &s, &operand, NULL, NULL), 1);
    CHECK_COUNTER(s.done, 0);
    CHECK_EQ(*word, 100);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER(s.done, 1);
    UNTIL(*word == 105);
    queue(&s, atomic(&w, FI_OP_FETCH_ATOMIC, &s, &operand, NULL, &result), 2);
    CHECK_COUNTER(s.done, 1);
    CHECK_EQ(*word, 105);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER(s.done, 2);
    CHECK_EQ(result, 105);
    CHECK_EQ(*word, 110);
    for (uint64_t round = 0; round < 2; round++) {
        about("compare, round %d", (int)round);
        operand = 7;
        against = round ? 110 : 111;
        queue(&s, atomic(&w, FI_OP_COMPARE_ATOMIC, &s, &operand, &against, &result), 3 + round);
        OK(fi_cntr_add(s.trigger, 1));
        CHECK_COUNTER(s.done, 3 + round);
        CHECK_EQ(result, 110);
        CHECK_EQ(*word, round ? 7 : 110);
    }
}

static struct fi_deferred_work *counting(struct fi_deferred_work *work, struct fi_op_cntr *op, enum fi_op_type type,
                                         struct fid_cntr *cntr, uint64_t value)
{
    memset(work, 0, sizeof *work);
    *op = (struct fi_op_cntr){.cntr = cntr, .value = value};
    work->op_type = type;
    work->op.cntr = op;
    return work;
}

static void queue_counting(struct setup *s, struct fi_deferred_work *work, uint64_t threshold)
{
    work->triggering_cntr = s->trigger;
    work->threshold = threshold; /* completion_cntr must be NULL */
    OK(fi_control(&s->p.a->domain->fid, FI_QUEUE_WORK, work));
}

CASE(counting_of_counters, 1, "FI_OP_CNTR_SET, FI_OP_CNTR_ADD: change another counter at the threshold")
{
    struct setup s = setup_open();
    static struct fi_deferred_work works[3];
    static struct fi_op_cntr ops[3];
    struct fid_cntr *other = counter_open(s.p.a, FI_WAIT_NONE);
    queue_counting(&s, counting(&works[0], &ops[0], FI_OP_CNTR_SET, other, 1000), 2);
    queue_counting(&s, counting(&works[1], &ops[1], FI_OP_CNTR_ADD, other, 11), 3);
    queue_counting(&s, counting(&works[2], &ops[2], FI_OP_CNTR_ADD, other, 5), 1);
    CHECK_COUNTER(other, 0);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER(other, 5);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER(other, 1000);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER(other, 1011);
    CHECK_COUNTER(s.done, 0);
}

/* ---- When -------------------------------------------------------------------------------------------------------- */

CASE(at_once, 1,
     "FI_QUEUE_WORK: if the counter has reached the threshold already, the operation starts at once; success and "
     "error values are added",
     .stock = "sockets: adding errors triggers nothing")
{
    struct setup s = setup_open();
    static struct rma_work w[2];
    OK(fi_cntr_set(s.trigger, 10));
    CHECK_COUNTER(s.trigger, 10);
    queue(&s, rma(&w[0], FI_OP_WRITE, &s, (void *)"abc", 3, 0), 10);
    CHECK_COUNTER(s.done, 1);
    queue(&s, rma(&w[1], FI_OP_WRITE, &s, (void *)"xyz", 3, 10), 12);
    OK(fi_cntr_add(s.trigger, 1));
    for (int i = 0; i < 1000; i++) progress();
    CHECK_EQ(fi_cntr_read(s.done), 1);
    OK(fi_cntr_adderr(s.trigger, 1));
    CHECK_COUNTER(s.done, 2);
    UNTIL(memcmp(s.memory, "abc", 3) == 0 && memcmp(s.memory + 10, "xyz", 3) == 0);
}

CASE(in_the_order_of_thresholds, 1,
     "FI_TRIGGER: operations triggered by one step of the counter start in the order of thresholds, those of equal "
     "thresholds in the order in which they were queued",
     .stock = "sockets: starts them in the order in which they were queued")
{
    enum { COUNT = 12 };
    struct setup s = setup_open();
    static const uint64_t THRESHOLDS[COUNT] = {5, 3, 9, 1, 3, 9, 7, 5, 1, 3, 2, 8};
    static struct message_work w[COUNT];
    static char out[COUNT], in[COUNT];
    for (int i = 0; i < COUNT; i++) {
        out[i] = (char)i;
        queue(&s, message(&w[i], FI_OP_TSEND, s.p.a->ep, s.p.to_b, &out[i], 1, 1), THRESHOLDS[i]);
    }
    for (int i = 0; i < COUNT; i++) POST(fi_trecv(s.p.b->ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(i)));
    CHECK_NONE(s.p.b->rx, 3);
    OK(fi_cntr_add(s.trigger, 20));
    CHECK_COUNTER(s.done, COUNT);
    for (int i = 0; i < COUNT; i++) WAIT_RX(s.p.b);
    int at = 0;
    for (uint64_t threshold = 0; threshold < 10; threshold++)
        for (int i = 0; i < COUNT; i++)
            if (THRESHOLDS[i] == threshold) {
                about("place %d", at);
                CHECK_EQ(in[at++], i);
            }
}

CASE(a_chain, 1, "FI_QUEUE_WORK: the completion counter of one may trigger the next: a chain of ten")
{
    enum { LINKS = 10 };
    struct setup s = setup_open();
    static struct rma_work w[LINKS];
    static char out[LINKS];
    struct fid_cntr *cntr[LINKS + 1];
    for (int i = 0; i <= LINKS; i++) cntr[i] = counter_open(s.p.a, FI_WAIT_NONE);
    for (int i = LINKS; i-- > 0;) {
        struct fi_deferred_work *work = rma(&w[i], FI_OP_WRITE, &s, &out[i], 1, (uint64_t)i);
        out[i] = (char)(i + 1);
        work->triggering_cntr = cntr[i];
        work->completion_cntr = cntr[i + 1];
        work->threshold = 1;
        OK(fi_control(&s.p.a->domain->fid, FI_QUEUE_WORK, work));
    }
    CHECK_COUNTER(cntr[LINKS], 0);
    OK(fi_cntr_add(cntr[0], 1));
    CHECK_COUNTER(cntr[LINKS], 1);
    UNTIL(s.memory[LINKS - 1] == LINKS);
    for (int i = 0; i < LINKS; i++) CHECK_EQ(s.memory[i], i + 1);
}

CASE(triggered_by_a_message, 1,
     "FI_QUEUE_WORK: a counter bound to an endpoint triggers: a received message is forwarded")
{
    struct wants wants = {.caps = FI_MSG | FI_TAGGED | FI_TRIGGER, .disabled = true};
    struct side *a = side_open(wants), *b = side_open(wants), *c = side_open(wants);
    struct fid_cntr *received = counter_open(b, FI_WAIT_NONE), *forwarded = counter_open(b, FI_WAIT_NONE);
    OK(fi_ep_bind(b->ep, &received->fid, FI_RECV));
    side_enable(a);
    side_enable(b);
    side_enable(c);
    fi_addr_t a_to_b = side_insert(a, b), b_to_c = side_insert(b, c);
    static struct message_work w[20];
    static char middle[20][64], end[20][64];
    for (uint64_t i = 0; i < 20; i++) {
        POST(fi_trecv(b->ep, middle[i], 64, NULL, FI_ADDR_UNSPEC, i, 0, NULL));
        POST(fi_trecv(c->ep, end[i], 64, NULL, FI_ADDR_UNSPEC, i, 0, NULL));
        struct fi_deferred_work *work = message(&w[i], FI_OP_TSEND, b->ep, b_to_c, middle[i], 64, i);
        work->triggering_cntr = received;
        work->completion_cntr = forwarded;
        work->threshold = i + 1;
        OK(fi_control(&b->domain->fid, FI_QUEUE_WORK, work));
    }
    for (uint64_t i = 0; i < 20; i++) {
        char out[64];
        memset(out, 'a' + (int)i, 64);
        POST(fi_tinject(a->ep, out, 64, a_to_b, i));
        struct completion done = WAIT_RX(c);
        CHECK_EQ(done.tag, i);
        CHECK_BYTES(end[i], 64, 'a' + (int)i);
    }
    CHECK_COUNTER(forwarded, 20);
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

CASE(entries_when_asked_for, 1, "FI_COMPLETION: deferred work with this flag writes an entry, too",
     .stock = "sockets: writes no entry")
{
    struct setup s = setup_open();
    static struct message_work w;
    char in[8];
    struct fi_deferred_work *work = message(&w, FI_OP_TSEND, s.p.a->ep, s.p.to_b, (void *)"abc", 3, 5);
    w.tagged.flags = FI_COMPLETION;
    queue(&s, work, 1);
    POST(fi_trecv(s.p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, 5, 0, NULL));
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_PTR(WAIT_TX(s.p.a).context, &w);
    WAIT_RX(s.p.b);
    CHECK_COUNTER(s.done, 1);
}

CASE(cancelled, 1, "FI_CANCEL_WORK: the cancelled work never starts, other work does; FI_FLUSH_WORK: none starts",
     .stock = "sockets: has no FI_CANCEL_WORK")
{
    struct setup s = setup_open();
    static struct rma_work w[6];
    static char out[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 3; i++) queue(&s, rma(&w[i], FI_OP_WRITE, &s, &out[i], 1, (uint64_t)i), 1);
    OK(fi_control(&s.p.a->domain->fid, FI_CANCEL_WORK, &w[1].work));
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER(s.done, 2);
    UNTIL(s.memory[0] == 1 && s.memory[2] == 3);
    CHECK_EQ(s.memory[1], 0);
    for (int i = 3; i < 6; i++) queue(&s, rma(&w[i], FI_OP_WRITE, &s, &out[i], 1, (uint64_t)i), 2);
    OK(fi_control(&s.p.a->domain->fid, FI_FLUSH_WORK, NULL));
    OK(fi_cntr_add(s.trigger, 5));
    for (int i = 0; i < 2000; i++) progress();
    CHECK_EQ(fi_cntr_read(s.done), 2);
    CHECK_BYTES(s.memory + 3, 3, 0);
    queue(&s, rma(&w[4], FI_OP_WRITE, &s, &out[4], 1, 4), 7);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER(s.done, 3);
    UNTIL(s.memory[4] == 5);
}

CASE(wrong_work, 1,
     "FI_QUEUE_WORK: an unknown operation, a missing counter, and a counter where none is allowed are refused",
     .needs = OUR_PROVIDER)
{
    struct setup s = setup_open();
    static struct rma_work w;
    static struct fi_deferred_work work;
    static struct fi_op_cntr op;
    struct fid_domain *domain = s.p.a->domain;
    rma(&w, FI_OP_WRITE, &s, (void *)"x", 1, 0);
    w.work.threshold = 1;
    REFUSED(fi_control(&domain->fid, FI_QUEUE_WORK, &w.work)); /* no triggering counter */
    w.work.triggering_cntr = s.trigger;
    w.work.op_type = (enum fi_op_type)99;
    REFUSED(fi_control(&domain->fid, FI_QUEUE_WORK, &w.work));
    counting(&work, &op, FI_OP_CNTR_ADD, s.done, 1);
    work.triggering_cntr = s.trigger;
    work.completion_cntr = s.done;
    work.threshold = 1;
    REFUSED(fi_control(&domain->fid, FI_QUEUE_WORK, &work));
    REFUSED(fi_control(&domain->fid, 4711, NULL));
    OK(fi_cntr_add(s.trigger, 2));
    for (int i = 0; i < 500; i++) progress();
    CHECK_EQ(fi_cntr_read(s.done), 0);
}

CASE(failed_work, 1,
     "FI_QUEUE_WORK: a failed operation adds to the error value of its completion counter, and writes an error entry",
     .needs = OUR_PROVIDER)
{
    struct setup s = setup_open();
    static struct rma_work w;
    rma(&w, FI_OP_WRITE, &s, (void *)"x", 1, 0);
    w.there.key ^= 0x5555;
    queue(&s, &w.work, 1);
    OK(fi_cntr_add(s.trigger, 1));
    CHECK_COUNTER_ERRORS(s.done, 1);
    CHECK_COUNTER(s.done, 0);
}

CASE(between_processes, 2,
     "FI_QUEUE_WORK: a ping-pong of a hundred deferred writes between two processes whose programs sleep; each "
     "side's region counter triggers its next write",
     .needs = OUR_PROVIDER)
{
    enum { ROUNDS = 100 };
    struct wants wants = {.caps = FI_MSG | FI_RMA | FI_TRIGGER | FI_RMA_EVENT, .progress = FI_PROGRESS_AUTO};
    struct side *side = job_open(wants);
    char *memory = buffer(ROUNDS + 1);
    struct region r = region_flagged(side, memory, ROUNDS + 1, ACCESS_ALL, FI_RMA_EVENT), all[2];
    struct fid_cntr *arrived = counter_open(side, FI_WAIT_UNSPEC), *done = counter_open(side, FI_WAIT_UNSPEC);
    OK(fi_mr_bind(r.mr, &arrived->fid, FI_REMOTE_WRITE));
    if (side->info->domain_attr->mr_mode & FI_MR_RMA_EVENT) OK(fi_mr_enable(r.mr));
    exchange(&r, sizeof r, all);
    static struct rma_work w[ROUNDS];
    static char one = 1;
    int peer = 1 - rank();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        w[i].iov = (struct iovec){&one, 1};
        w[i].there = (struct fi_rma_iov){all[peer].base + i, 1, all[peer].key};
        w[i].rma = (struct fi_op_rma){
            .ep = side->ep,
            .msg = {
                .msg_iov = &w[i].iov, .iov_count = 1, .addr = to(peer), .rma_iov = &w[i].there, .rma_iov_count = 1}};
        w[i].work.op_type = FI_OP_WRITE;
        w[i].work.op.rma = &w[i].rma;
        w[i].work.triggering_cntr = arrived;
        w[i].work.completion_cntr = done;
        w[i].work.threshold = i + 1;
        OK(fi_control(&side->domain->fid, FI_QUEUE_WORK, &w[i].work));
    }
    barrier();
    if (rank() == 0) OK(fi_cntr_add(arrived, 1)); /* the chain starts: rank 0 writes first, then each rank answers */
    OK(fi_cntr_wait(done, ROUNDS, WAIT_MS));
    barrier();
    CHECK_BYTES(memory, ROUNDS, 1);
    region_close(&r);
}
