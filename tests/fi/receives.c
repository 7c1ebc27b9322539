/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Receives beyond the plain ones: too small for the message, cancelled, a peek before the receive, claimed and discarded
 * messages, one buffer for many messages. fi_msg(3), fi_tagged(3), fi_endpoint(3) on fi_cancel, fi_cq(3).
 */
#include "transfers.h"

/* ---- Truncation -------------------------------------------------------------------------------------------------- */

CASE(truncation, 1,
     "FI_ETRUNC: a message longer than its buffer is an error with len, olen and the context; it is consumed, and the "
     "next one arrives",
     .stock = "tcp;ofi_rxm: reports the length sent | shm: the error is negative | sockets: reports the length "
              "that was sent")
{
    static const size_t SENT[] = {1, 40, 200, 5000, 20000, 300000}, KEPT[] = {0, 1, 39, 100, 16384};
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    unsigned char *out = buffer(300000), *in = buffer(16384 + 64);
    FOR_KINDS(kind)
        for (size_t s = 0; s < COUNT_OF(SENT); s++)
            for (size_t k = 0; k < COUNT_OF(KEPT) && KEPT[k] < SENT[s]; k++)
                for (int expected = 0; expected < 2; expected++) {
                    about("%s of %zu bytes into %zu, expected %d", kind_name(kind), SENT[s], KEPT[k], expected);
                    pattern_fill(out, SENT[s], (unsigned)s);
                    memset(in, 0xcc, 16384 + 64);
                    struct transfer r = from_any(in, KEPT[k], 6, CONTEXT(4));
                    if (expected) POST(receive(kind, p.b, r));
                    POST(send_one(kind, p.a, to_peer(out, SENT[s], p.to_b, 6, CONTEXT(5))));
                    if (!expected) {
                        for (int i = 0; i < 50; i++) progress();
                        POST(receive(kind, p.b, r));
                    }
                    struct fi_cq_err_entry e = WAIT_ERROR(p.b->rx);
                    CHECK_EQ(e.err, FI_ETRUNC);
                    CHECK_PTR(e.op_context, CONTEXT(4));
                    CHECK_EQ(e.olen, SENT[s] - KEPT[k]);
                    CHECK_EQ(e.len, KEPT[k]);
                    CHECK_FLAGS(e.flags, FI_RECV | kind_caps(kind), 0);
                    if (kind == TAGGED_MESSAGE) CHECK_EQ(e.tag, 6);
                    CHECK_BYTES(in + KEPT[k], 64, 0xcc);
                    WAIT_TX(p.a); /* the sender gets no error */
                    POST(inject(kind, p.a, to_peer(out, 1, p.to_b, 6, NULL)));
                    POST(receive(kind, p.b, from_any(in, 1, 6, CONTEXT(9))));
                    CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(9));
                }
}

/* ---- Bursts ------------------------------------------------------------------------------------------------------ */

enum { BURST = 60 };

/* Length of message i, and of its buffer. Most fit; some fill a cache line, some are long, some are truncated. */
static size_t burst_bytes(int i)
{
    static const size_t BYTES[] = {8,  0,  4,  8,  1,  2,  3,  5,   7,   9,   12,  15, 16,
                                   17, 31, 32, 33, 40, 64, 100, 103, 104, 105, 200, 128, 399, 300, 8};
    return BYTES[i % (int)COUNT_OF(BYTES)];
}

/* Number of the n-th message sent. In every second round two of ten tagged messages change places. */
static int burst_order(int n, int round, enum kind kind)
{
    if (kind == MESSAGE || round % 2 == 0) return n;
    return n % 10 == 3 ? n + 1 : n % 10 == 4 ? n - 1 : n;
}

static size_t burst_room(int i, int round)
{
    size_t bytes = burst_bytes(i);
    return round % 3 == 2 && i % 7 == 5 ? bytes / 2 : bytes + (size_t)(i % 2);
}

CASE(bursts, 1,
     "posted receives, and messages for all of them at once: each completes in order, with exactly its bytes and its "
     "data; a truncated one is an error in its place",
     .stock = "shm: cut off, the error is negative | tcp;ofi_rxm: cut off, the length is 0 | sockets: what "
              "comes after it is reported before it")
{
    uint64_t caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV;
    struct pair p = pair_open((struct wants){.caps = caps, .threading = FI_THREAD_DOMAIN});
    unsigned char *out = buffer(BURST * 400), *in = buffer(BURST * 400);
    FOR_KINDS(kind)
        for (int round = 0; round < 9; round++) {
            memset(in, 0xcc, BURST * 400);
            for (int i = 0; i < BURST; i++) {
                struct transfer r = from_any(in + 400 * i, burst_room(i, round), (uint64_t)i, CONTEXT(i));
                if (i % 3) r.peer = p.to_a;
                POST(receive(kind, p.b, r));
            }
            for (int n = 0; n < BURST; n++) {
                int i = burst_order(n, round, kind);
                pattern_fill(out + 400 * i, burst_bytes(i), (unsigned)(i + round));
                struct transfer t = to_peer(out + 400 * i, burst_bytes(i), p.to_b, (uint64_t)i, NULL);
                t.data = (uint64_t)i * 3;
                if (i % 5 == 4) POST(inject(kind, p.a, t));
                else POST(inject_with_data(kind, p.a, t));
            }
            int told = 0;
            long long until = now_ms() + WAIT_MS;
            while (told < BURST) {
                struct fi_cq_tagged_entry entries[100];
                ssize_t got = fi_cq_read(p.b->rx, entries, round % 4 == 3 ? 7 : 100);
                if (got == -FI_EAGAIN) {
                    if (now_ms() > until) FAIL("%d of %d came", told, BURST);
                    continue;
                }
                if (got == -FI_EAVAIL) {
                    struct fi_cq_err_entry e = {0};
                    CHECK_RC(fi_cq_readerr(p.b->rx, &e, 0), 1);
                    int i = (int)((char *)e.op_context - (char *)CONTEXT(0));
                    about("%s, round %d, message %d, cut off", kind_name(kind), round, i);
                    CHECK_OP(burst_room(i, round), <, burst_bytes(i));
                    CHECK_EQ(e.err, FI_ETRUNC);
                    CHECK_EQ(e.len, burst_room(i, round));
                    CHECK_EQ(e.olen, burst_bytes(i) - burst_room(i, round));
                    told++;
                    continue;
                }
                CHECK_OP(got, >, 0);
                for (int n = 0; n < got; n++, told++) {
                    struct fi_cq_tagged_entry *e = &entries[n];
                    int i = (int)((char *)e->op_context - (char *)CONTEXT(0));
                    about("%s, round %d, message %d", kind_name(kind), round, i);
                    CHECK_EQ(i, burst_order(told, round, kind));
                    CHECK_OP(burst_room(i, round), >=, burst_bytes(i));
                    CHECK_EQ(e->len, burst_bytes(i));
                    CHECK_FLAGS(e->flags, FI_RECV | kind_caps(kind), i % 5 == 4 ? FI_REMOTE_CQ_DATA : 0);
                    if (i % 5 != 4) CHECK_EQ(e->data, (uint64_t)i * 3);
                    if (kind == TAGGED_MESSAGE) CHECK_EQ(e->tag, (uint64_t)i);
                    CHECK_SAME(in + 400 * i, out + 400 * i, burst_bytes(i));
                    CHECK_BYTES(in + 400 * i + burst_bytes(i), 400 - burst_bytes(i), 0xcc);
                }
            }
        }
}

/* ---- Cancel ------------------------------------------------------------------------------------------------------ */

CASE(cancel, 1,
     "fi_cancel: a posted receive completes with FI_ECANCELED, and takes no further message; the others stay")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    int in[3], out = 7;
    static struct fi_context contexts[3];
    FOR_KINDS(kind)
        for (int victim = 0; victim < 3; victim++) {
            about("%s, receive %d of 3", kind_name(kind), victim);
            for (int i = 0; i < 3; i++) {
                in[i] = -1;
                POST(receive(kind, p.b, from_any(&in[i], 4, 2, &contexts[i])));
            }
            OK(fi_cancel(&p.b->ep->fid, &contexts[victim]));
            struct fi_cq_err_entry e = WAIT_ERROR(p.b->rx);
            CHECK_EQ(e.err, FI_ECANCELED);
            CHECK_PTR(e.op_context, &contexts[victim]);
            for (int i = 0; i < 3; i++) {
                if (i == victim) continue;
                POST(inject(kind, p.a, to_peer(&out, 4, p.to_b, 2, NULL)));
                CHECK_PTR(WAIT_RX(p.b).context, &contexts[i]);
            }
            CHECK_EQ(in[victim], -1);
            CHECK_NONE(p.b->rx, 2);
        }
}

CASE(cancel_what_is_not_there, 1,
     "fi_cancel: of an unknown context, or one whose operation is complete, posts no entry")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    int in = 0, out = 7;
    static struct fi_context used, unused;
    ssize_t rc = fi_cancel(&p.b->ep->fid, &unused);
    if (rc != 0 && rc != -FI_ENOENT) OK(rc);
    CHECK_NONE(p.b->rx, 2);
    POST(fi_trecv(p.b->ep, &in, 4, NULL, FI_ADDR_UNSPEC, 2, 0, &used));
    POST(fi_tinject(p.a->ep, &out, 4, p.to_b, 2));
    CHECK_PTR(WAIT_RX(p.b).context, &used);
    rc = fi_cancel(&p.b->ep->fid, &used);
    if (rc != 0 && rc != -FI_ENOENT) OK(rc);
    CHECK_NONE(p.b->rx, 2);
}

CASE(cancel_races, 2,
     "fi_cancel: a receive cancelled while its message arrives either completes or is cancelled, once, and the "
     "message is not lost")
{
    enum { ROUNDS = 400 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    static struct fi_context contexts[ROUNDS];
    int next = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (rank() == 0) POST(fi_tinject(side->ep, &i, 4, to(1), 1));
    }
    for (int i = 0; rank() == 1 && next < ROUNDS; i++) {
        int in = -1;
        struct fi_context *context = &contexts[i % ROUNDS];
        about("try %d, message %d", i, next);
        POST(fi_trecv(side->ep, &in, 4, NULL, FI_ADDR_UNSPEC, 1, 0, context));
        fi_cancel(&side->ep->fid, context);
        struct fi_cq_tagged_entry entry;
        long long until = now_ms() + WAIT_MS;
        ssize_t rc;
        while ((rc = fi_cq_read(side->rx, &entry, 1)) == -FI_EAGAIN && now_ms() < until) continue;
        if (rc == 1) {
            CHECK_PTR(entry.op_context, context);
            CHECK_EQ(in, next++);
            continue;
        }
        CHECK_RC(rc, -FI_EAVAIL);
        struct fi_cq_err_entry e = {0};
        CHECK_RC(fi_cq_readerr(side->rx, &e, 0), 1);
        CHECK_EQ(e.err, FI_ECANCELED);
        CHECK_PTR(e.op_context, context);
        CHECK_EQ(in, -1);
    }
}

/* ---- Peek -------------------------------------------------------------------------------------------------------- */

static struct transfer peeking(uint64_t tag, uint64_t ignore, void *context)
{
    return (struct transfer){.peer = FI_ADDR_UNSPEC, .tag = tag, .ignore = ignore, .context = context};
}

static void post_peek(struct side *side, uint64_t tag, uint64_t ignore, void *context, uint64_t flags)
{
    POST(receive_flagged(TAGGED_MESSAGE, side, peeking(tag, ignore, context), FI_PEEK | flags));
}

/* Peeks until the message has arrived; returns the completion of the peek. */
static struct completion peek_until_found(struct side *side, uint64_t tag, uint64_t ignore, void *context,
                                          uint64_t flags)
{
    long long until = now_ms() + WAIT_MS;
    for (;;) {
        post_peek(side, tag, ignore, context, flags);
        struct fi_cq_tagged_entry entry;
        fi_addr_t source = FI_ADDR_NOTAVAIL;
        ssize_t rc;
        while ((rc = fi_cq_readfrom(side->rx, &entry, 1, &source)) == -FI_EAGAIN && now_ms() < until) progress();
        if (rc == 1)
            return (struct completion){.context = entry.op_context,
                                       .flags = entry.flags,
                                       .len = entry.len,
                                       .data = entry.data,
                                       .tag = entry.tag,
                                       .source = source};
        CHECK_RC(rc, -FI_EAVAIL);
        struct fi_cq_err_entry e = {0};
        CHECK_RC(fi_cq_readerr(side->rx, &e, 0), 1);
        CHECK_EQ(e.err, FI_ENOMSG);
        if (now_ms() > until) FAIL("no message is found within %d ms", WAIT_MS);
    }
}

/* Where other processes map the program's memory (LD_PRELOAD), a message arrives without a call of its receiver. */
CASE(filled_while_asleep, 2,
     "fi_trecv: a posted receive gets its message; in mapped memory it is in place before the receiver polls")
{
    enum { BYTES = 300000 };
    static const size_t LENGTHS[] = {3000, 5000, 16384, BYTES};
    static unsigned char data[BYTES];
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    const char *preloaded = getenv("LD_PRELOAD");
    bool in_place = preloaded && strstr(preloaded, "libselvedge_mpi_preload");
    unsigned char *kinds[] = {data, buffer(BYTES)};
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
            size_t length = LENGTHS[l];
            about("%zu bytes, kind %zu", length, k);
            if (rank() == 0) {
                pattern_fill(kinds[k], length, (unsigned)l);
                barrier();
                /* Before the first message the sender may not know the rings yet. */
                POST(fi_tsend(side->ep, kinds[k], 0, NULL, to(1), 1, NULL));
                WAIT_TX(side);
                POST(fi_tsend(side->ep, kinds[k], length, NULL, to(1), 2, NULL));
                WAIT_TX(side);
                if (in_place) barrier_asleep();
            } else {
                memset(kinds[k], 0, length);
                POST(fi_trecv(side->ep, kinds[k], 0, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
                POST(fi_trecv(side->ep, kinds[k], length, NULL, FI_ADDR_UNSPEC, 2, 0, NULL));
                barrier();
                if (in_place) barrier_asleep();
                if (in_place) CHECK_PATTERN(kinds[k], length, (unsigned)l);
                WAIT_RX(side);
                CHECK_EQ(WAIT_RX(side).len, length);
                CHECK_PATTERN(kinds[k], length, (unsigned)l);
            }
        }
    }
    barrier();
}

CASE(peek_finds_nothing, 1, "FI_PEEK: without a matching message, an error entry with FI_ENOMSG and the context",
     .stock = "shm: a peek that finds nothing reports nothing")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    int out = 1, in = 0;
    static struct fi_context context;
    for (int round = 0; round < 2; round++) {
        post_peek(p.b, 5, 0, &context, 0);
        struct fi_cq_err_entry e = WAIT_ERROR(p.b->rx);
        CHECK_EQ(e.err, FI_ENOMSG);
        CHECK_PTR(e.op_context, &context);
        if (round == 0) POST(fi_tinject(p.a->ep, &out, 4, p.to_b, 6)); /* another tag */
    }
    POST(fi_trecv(p.b->ep, &in, 4, NULL, FI_ADDR_UNSPEC, 6, 0, NULL)); /* the peek leaves nothing behind */
    WAIT_RX(p.b);
    CHECK_NONE(p.b->rx, 2);
}

CASE(peek_finds, 1, "FI_PEEK: returns length, tag, data and sender of the first matching message, and leaves it queued",
     .stock = "tcp;ofi_rxm: a peek reports no data | shm: a peek that ignores bits finds another message | sockets: a "
              "peek reports no data")
{
    static const size_t LENGTHS[] = {0, 4, 300, 16384, 100000};
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED | FI_SOURCE});
    char *out = buffer(100000), *in = buffer(100000);
    static struct fi_context context;
    for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
        about("%zu bytes", LENGTHS[l]);
        pattern_fill(out, LENGTHS[l], (unsigned)l);
        POST(fi_tsenddata(p.a->ep, out, LENGTHS[l], NULL, 0x77, p.to_b, 0xab00 + l, NULL));
        POST(fi_tinject(p.a->ep, out, 1 < LENGTHS[l] ? 1 : 0, p.to_b, 0xab00 + l + 1));
        for (int round = 0; round < 3; round++) {
            struct completion c = peek_until_found(p.b, 0xab00, 0xff, &context, 0);
            CHECK_EQ(c.len, LENGTHS[l]);
            CHECK_EQ(c.tag, 0xab00 + l);
            CHECK_PTR(c.context, &context);
            CHECK_FLAGS(c.flags, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA, 0);
            CHECK_EQ(c.data, 0x77);
            CHECK_EQ(c.source, p.to_a);
        }
        POST(fi_trecv(p.b->ep, in, 100000, NULL, FI_ADDR_UNSPEC, 0xab00 + l, 0, NULL));
        CHECK_EQ(WAIT_RX(p.b).len, LENGTHS[l]);
        CHECK_PATTERN(in, LENGTHS[l], (unsigned)l);
        POST(fi_trecv(p.b->ep, in, 100000, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL));
        CHECK_EQ(WAIT_RX(p.b).tag, 0xab00 + l + 1);
        WAIT_TX(p.a);
    }
}

CASE(peek_and_claim, 1,
     "FI_PEEK with FI_CLAIM: claims the message: other receives and peeks skip it, FI_CLAIM with the context takes it",
     .stock = "shm: a peek that finds nothing reports nothing")
{
    static const size_t LENGTHS[] = {0, 4, 300, 20000, 100000};
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED, .mode = FI_CONTEXT});
    char *out = buffer(100000), *in = buffer(100000);
    static struct fi_context claims[2], other;
    for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
        about("%zu bytes", LENGTHS[l]);
        pattern_fill(out, LENGTHS[l], (unsigned)l);
        POST(fi_tsend(p.a->ep, out, LENGTHS[l], NULL, p.to_b, 1, NULL));
        CHECK_EQ(peek_until_found(p.b, 1, 0, &claims[0], FI_CLAIM).len, LENGTHS[l]);
        post_peek(p.b, 1, 0, &other, 0);
        CHECK_EQ(WAIT_ERROR(p.b->rx).err, FI_ENOMSG);
        POST(fi_tinject(p.a->ep, "x", 1, p.to_b, 1));
        POST(fi_trecv(p.b->ep, in, 100000, NULL, FI_ADDR_UNSPEC, 1, 0, &other)); /* skips the claimed message */
        struct completion c = WAIT_RX(p.b);
        CHECK_EQ(c.len, 1);
        CHECK_PTR(c.context, &other);
        struct transfer t = from_any(in, 100000, 1, &claims[0]);
        POST(receive_flagged(TAGGED_MESSAGE, p.b, t, FI_CLAIM));
        c = WAIT_RX(p.b);
        CHECK_EQ(c.len, LENGTHS[l]);
        CHECK_EQ(c.tag, 1);
        CHECK_PTR(c.context, &claims[0]);
        CHECK_PATTERN(in, LENGTHS[l], (unsigned)l);
        WAIT_TX(p.a);
    }
}

CASE(claims_are_kept_apart, 1, "FI_CLAIM: several claimed messages are taken in any order, each by its own context",
     .stock = "shm: a peek that finds nothing truncates")
{
    enum { COUNT = 16 };
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED, .mode = FI_CONTEXT});
    static struct fi_context claims[COUNT];
    for (int i = 0; i < COUNT; i++) POST(fi_tinject(p.a->ep, &i, 4, p.to_b, 3));
    for (int i = 0; i < COUNT; i++) peek_until_found(p.b, 3, 0, &claims[i], FI_CLAIM);
    for (int n = 0; n < COUNT; n++) {
        int i = n * 5 % COUNT, in = -1;
        POST(receive_flagged(TAGGED_MESSAGE, p.b, from_any(&in, 4, 3, &claims[i]), FI_CLAIM));
        CHECK_PTR(WAIT_RX(p.b).context, &claims[i]);
        CHECK_EQ(in, i);
    }
}

CASE(discard, 1, "FI_DISCARD: a successful peek, and a claim, may discard the message; later messages stay",
     .stock = "tcp;ofi_rxm: reports no length | shm: a peek that finds nothing truncates")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED, .mode = FI_CONTEXT});
    static const size_t LENGTHS[] = {0, 4, 300, 20000, 100000};
    char *out = buffer(100000), *in = buffer(64);
    static struct fi_context context;
    for (int claimed = 0; claimed < 2; claimed++)
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
            about("%zu bytes, claimed before %d", LENGTHS[l], claimed);
            POST(fi_tsend(p.a->ep, out, LENGTHS[l], NULL, p.to_b, 1, NULL));
            POST(fi_tinject(p.a->ep, "abc", 3, p.to_b, 1));
            if (claimed) {
                CHECK_EQ(peek_until_found(p.b, 1, 0, &context, FI_CLAIM).len, LENGTHS[l]);
                struct transfer t = from_any(NULL, 0, 1, &context);
                POST(receive_flagged(TAGGED_MESSAGE, p.b, t, FI_CLAIM | FI_DISCARD));
                CHECK_PTR(WAIT_RX(p.b).context, &context);
            } else {
                struct completion c = peek_until_found(p.b, 1, 0, &context, FI_DISCARD);
                CHECK_EQ(c.len, LENGTHS[l]);
                CHECK_PTR(c.context, &context);
            }
            POST(fi_trecv(p.b->ep, in, 64, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
            CHECK_EQ(WAIT_RX(p.b).len, 3);
            WAIT_TX(p.a); /* the sender's buffer is free again */
        }
}

CASE(claim_of_nothing, 1, "FI_CLAIM: with a context that claimed nothing is refused, or completes in error",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    static struct fi_context context;
    char in[8];
    ssize_t rc = receive_flagged(TAGGED_MESSAGE, p.b, from_any(in, 8, 1, &context), FI_CLAIM);
    if (rc == 0) CHECK_PTR(WAIT_ERROR(p.b->rx).op_context, &context);
}

CASE(peek_from_one_sender, 3, "FI_PEEK with FI_DIRECTED_RECV: finds messages of that sender only",
     .stock = "tcp;ofi_rxm: a peek reports no sender | shm: a peek that finds nothing truncates | sockets: a peek "
              "reports no sender")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE});
    static struct fi_context context;
    if (rank() > 0) {
        int out = rank();
        if (rank() == 1) POST(fi_tinject(side->ep, &out, 4, to(0), 4));
        barrier();
        barrier();
        if (rank() == 2) POST(fi_tinject(side->ep, &out, 4, to(0), 4));
        return;
    }
    barrier();
    peek_until_found(side, 4, 0, &context, 0);
    struct transfer t = peeking(4, 0, &context);
    t.peer = to(2);
    POST(receive_flagged(TAGGED_MESSAGE, side, t, FI_PEEK));
    CHECK_EQ(WAIT_ERROR(side->rx).err, FI_ENOMSG);
    t.peer = to(1);
    POST(receive_flagged(TAGGED_MESSAGE, side, t, FI_PEEK));
    CHECK_EQ(WAIT_RX(side).source, to(1));
    barrier();
    int in[2];
    POST(fi_trecv(side->ep, &in[1], 4, NULL, to(2), 4, 0, NULL));
    WAIT_RX(side);
    POST(fi_trecv(side->ep, &in[0], 4, NULL, to(1), 4, 0, NULL));
    WAIT_RX(side);
    CHECK_EQ(in[0], 1);
    CHECK_EQ(in[1], 2);
}

/* ---- One buffer for many messages -------------------------------------------------------------------------------- */

enum { MULTI_BYTES = 4096, MULTI_MIN = 256, MULTI_BUFFERS = 4 };

static size_t min_multi_recv(struct side *side)
{
    size_t value = 0, bytes = sizeof value;
    OK(fi_getopt(&side->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &bytes));
    CHECK_EQ(bytes, sizeof value);
    return value;
}

static struct pair multi_pair(enum fi_cq_format format)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_MULTI_RECV, .format = format});
    size_t least = MULTI_MIN;
    OK(fi_setopt(&p.b->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    CHECK_EQ(min_multi_recv(p.b), MULTI_MIN);
    return p;
}

CASE(multi_receive, 1,
     "FI_MULTI_RECV: 2,000 messages of up to the minimum, packed into buffers that are reposted when FI_MULTI_RECV "
     "reports them used up",
     .stock = "sockets: reports a wrong buf")
{
    enum { MESSAGES = 2000 };
    struct pair p = multi_pair(FI_CQ_FORMAT_DATA);
    unsigned char *space[MULTI_BUFFERS], *next_free[MULTI_BUFFERS], out[MULTI_MIN];
    for (int i = 0; i < MULTI_BUFFERS; i++) {
        next_free[i] = space[i] = buffer(MULTI_BYTES);
        struct transfer r = from_any(space[i], MULTI_BYTES, 0, &space[i]);
        POST(receive_flagged(MESSAGE, p.b, r, FI_MULTI_RECV));
    }
    uint64_t sizes = 5, again = 5;
    int sent = 0, received = 0, released = 0, at = 0;
    long long until = now_ms() + WAIT_MS;
    while (received < MESSAGES) {
        if (now_ms() > until) FAIL("%d sent, %d received, %d buffers released", sent, received, released);
        if (sent < MESSAGES && sent < received + 64) {
            uint64_t before = sizes;
            size_t bytes = random_next(&sizes) % (MULTI_MIN < 65 ? MULTI_MIN : 65);
            pattern_fill(out, bytes, (unsigned)sent);
            if (fi_inject(p.a->ep, out, bytes, p.to_b) == 0) sent++;
            else sizes = before;
        }
        struct completion c;
        if (!TAKE(p.b, p.b->rx, &c)) {
            progress();
            continue;
        }
        about("message %d, buffer %d", received, at);
        CHECK_PTR(c.context, &space[at]);
        if (c.flags & FI_RECV) {
            CHECK_FLAGS(c.flags, FI_RECV | FI_MSG, 0);
            CHECK_EQ(c.len, random_next(&again) % 65);
            CHECK_OP((unsigned char *)c.buf, >=, next_free[at]);
            CHECK_OP((unsigned char *)c.buf + c.len, <=, space[at] + MULTI_BYTES);
            CHECK_PATTERN(c.buf, c.len, (unsigned)received);
            next_free[at] = (unsigned char *)c.buf + c.len;
            received++;
        }
        if (c.flags & FI_MULTI_RECV) {
            /* used up: less than the minimum is left, and the buffer was not released much earlier */
            CHECK_OP(space[at] + MULTI_BYTES - next_free[at], <, MULTI_MIN);
            released++;
            next_free[at] = space[at];
            POST(receive_flagged(MESSAGE, p.b, from_any(space[at], MULTI_BYTES, 0, &space[at]), FI_MULTI_RECV));
            at = (at + 1) % MULTI_BUFFERS;
        }
    }
    CHECK_OP(released, >=, 2000 * 32 / MULTI_BYTES - 2);
}

CASE(multi_receive_of_unexpected, 1,
     "FI_MULTI_RECV: unexpected messages are packed into the buffer when it is posted, in order")
{
    struct pair p = multi_pair(FI_CQ_FORMAT_TAGGED);
    unsigned char *space = buffer(MULTI_BYTES);
    uint32_t out[10];
    for (uint32_t i = 0; i < 20; i++) {
        for (int k = 0; k < 10; k++) out[k] = i;
        POST(fi_inject(p.a->ep, out, 40, p.to_b));
    }
    for (int i = 0; i < 1000; i++) progress();
    POST(receive_flagged(MESSAGE, p.b, from_any(space, MULTI_BYTES, 0, CONTEXT(1)), FI_MULTI_RECV));
    for (uint32_t i = 0; i < 20; i++) {
        struct completion c = WAIT_RX(p.b);
        CHECK_EQ(c.len, 40);
        CHECK_EQ(((uint32_t *)c.buf)[9], i);
        CHECK_FLAGS(c.flags, FI_RECV | FI_MSG, FI_MULTI_RECV);
        CHECK_PTR(c.context, CONTEXT(1));
    }
}

CASE(multi_receive_used_up_by_unexpected, 1,
     "FI_MULTI_RECV: unexpected messages, small and large, use the buffer up: each completes, the buffer is released "
     "once, with the last of them or after it")
{
    enum { SMALL = 256, LARGE = 200000, SMALLS = 7, BYTES = SMALLS * SMALL + LARGE };
    struct pair p = multi_pair(FI_CQ_FORMAT_DATA);
    unsigned char *space = buffer(BYTES), *out = buffer(BYTES);
    pattern_fill(out, BYTES, 3);
    for (int large_at = 0; large_at <= SMALLS; large_at++) {
        memset(space, 0, BYTES);
        size_t at = 0;
        for (int i = 0; i <= SMALLS; i++) {
            size_t bytes = i == large_at ? LARGE : SMALL;
            POST(fi_send(p.a->ep, out + at, bytes, NULL, p.to_b, NULL));
            at += bytes;
        }
        for (int i = 0; i < 1000; i++) progress();
        POST(receive_flagged(MESSAGE, p.b, from_any(space, BYTES, 0, CONTEXT(1)), FI_MULTI_RECV));
        size_t received = 0;
        int messages = 0;
        for (bool is_back = false; !is_back;) {
            struct completion c = WAIT_RX(p.b);
            about("large one at %d, %zu of %d bytes received", large_at, received, BYTES);
            CHECK_PTR(c.context, CONTEXT(1));
            is_back = c.flags & FI_MULTI_RECV;
            if (c.flags & FI_RECV) {
                size_t from = (size_t)((unsigned char *)c.buf - space);
                CHECK_OP(from + c.len, <=, BYTES);
                CHECK(!memcmp(c.buf, out + from, c.len));
                received += c.len;
                messages++;
            } else {
                CHECK(is_back);
                CHECK_EQ(c.len, 0);
            }
        }
        CHECK_EQ(received, BYTES);
        CHECK_EQ(messages, SMALLS + 1);
    }
}

CASE(multi_receive_of_large, 1, "FI_MULTI_RECV: large and small messages share a buffer, none overlaps another",
     .stock = "sockets: reports a wrong buf")
{
    struct pair p = multi_pair(FI_CQ_FORMAT_DATA);
    enum { SPACE = 1 << 20 };
    unsigned char *space = buffer(SPACE), *out = buffer(200000), *previous_end = space;
    static const size_t LENGTHS[] = {10, 200000, 3, 100000, 0, 17000, 64, 50000};
    POST(receive_flagged(MESSAGE, p.b, from_any(space, SPACE, 0, CONTEXT(1)), FI_MULTI_RECV));
    pattern_fill(out, 200000, 1);
    for (size_t i = 0; i < COUNT_OF(LENGTHS); i++) {
        POST(fi_send(p.a->ep, out, LENGTHS[i], NULL, p.to_b, NULL));
        struct completion c = WAIT_RX(p.b);
        CHECK_EQ(c.len, LENGTHS[i]);
        CHECK_PATTERN(c.buf, c.len, 1);
        CHECK_OP((unsigned char *)c.buf, >=, previous_end);
        previous_end = (unsigned char *)c.buf + c.len;
        WAIT_TX(p.a);
    }
}

/* Reads the error by which a cancelled multi-receive buffer comes back. */
static void check_given_back(struct side *side, const void *context)
{
    struct fi_cq_err_entry e = {0};
    ssize_t rc;
    long long until = now_ms() + WAIT_MS;
    while ((rc = fi_cq_readerr(side->rx, &e, 0)) == -FI_EAGAIN && now_ms() < until) progress();
    CHECK_RC(rc, 1);
    CHECK_EQ(e.err, FI_ECANCELED);
    CHECK_PTR(e.op_context, context);
    CHECK_FLAGS(e.flags, FI_MULTI_RECV | FI_RECV | FI_MSG, FI_TAGGED);
}

CASE(multi_receive_cancelled, 1,
     "fi_cancel: of a multi-receive buffer ends it with FI_ECANCELED, and its completion has FI_MULTI_RECV")
{
    struct pair p = multi_pair(FI_CQ_FORMAT_DATA);
    char *space = buffer(MULTI_BYTES), after[8];
    static struct fi_context context;
    for (int messages = 0; messages < 3; messages++) {
        POST(receive_flagged(MESSAGE, p.b, from_any(space, MULTI_BYTES, 0, &context), FI_MULTI_RECV));
        for (int i = 0; i < messages; i++) {
            POST(fi_inject(p.a->ep, "abc", 3, p.to_b));
            struct completion c = WAIT_RX(p.b);
            CHECK_EQ(c.len, 3);
            CHECK_FLAGS(c.flags, FI_RECV, FI_MULTI_RECV);
        }
        OK(fi_cancel(&p.b->ep->fid, &context));
        check_given_back(p.b, &context);
        CHECK_RC(fi_cancel(&p.b->ep->fid, &context), -FI_ENOENT);
        POST(fi_inject(p.a->ep, "defg", 4, p.to_b));
        POST(fi_recv(p.b->ep, after, 8, NULL, FI_ADDR_UNSPEC, CONTEXT(2)));
        CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(2));
        CHECK_SAME(after, "defg", 4);
    }
}

CASE(multi_receive_cancelled_with_messages_in_it, 1,
     "fi_cancel: messages that a multi-receive buffer has taken complete before it is given back", .needs = OUR_PROVIDER)
{
    enum { LARGE = 200000, LARGES = 4 };
    struct pair p = multi_pair(FI_CQ_FORMAT_DATA);
    unsigned char *space = buffer(2 * LARGE * LARGES), *out = buffer(LARGE);
    static struct fi_context context;
    pattern_fill(out, LARGE, 5);
    /* The messages come before the buffer, then after it. */
    for (int late = 0; late < 2; late++) {
        if (late) {
            POST(receive_flagged(MESSAGE, p.b, from_any(space, 2 * LARGE * LARGES, 0, &context), FI_MULTI_RECV));
        }
        for (int i = 0; i < LARGES; i++) POST(fi_send(p.a->ep, out, LARGE, NULL, p.to_b, NULL));
        if (!late) {
            for (int i = 0; i < 1000; i++) progress();
            POST(receive_flagged(MESSAGE, p.b, from_any(space, 2 * LARGE * LARGES, 0, &context), FI_MULTI_RECV));
        }
        OK(fi_cancel(&p.b->ep->fid, &context));
        int received = 0;
        struct fi_cq_data_entry entry;
        ssize_t rc;
        long long until = now_ms() + WAIT_MS;
        while ((rc = fi_cq_read(p.b->rx, &entry, 1)) != -FI_EAVAIL && now_ms() < until) {
            progress();
            if (rc == -FI_EAGAIN) continue;
            CHECK_RC(rc, 1);
            CHECK_PTR(entry.op_context, &context);
            CHECK_EQ(entry.len, LARGE);
            CHECK_PATTERN((unsigned char *)entry.buf, LARGE, 5);
            received++;
        }
        check_given_back(p.b, &context);
        /* The others match the next buffer. */
        POST(receive_flagged(MESSAGE, p.b, from_any(space, 2 * LARGE * LARGES, 0, CONTEXT(2)), FI_MULTI_RECV));
        for (; received < LARGES; received++) {
            struct completion c = WAIT_RX(p.b);
            CHECK_PTR(c.context, CONTEXT(2));
            CHECK_PATTERN((unsigned char *)c.buf, LARGE, 5);
        }
        for (int i = 0; i < LARGES; i++) WAIT_TX(p.a);
        OK(fi_cancel(&p.b->ep->fid, CONTEXT(2)));
        check_given_back(p.b, CONTEXT(2));
    }
}

CASE(min_multi_recv_is_an_option, 1,
     "fi_getopt, fi_setopt: FI_OPT_MIN_MULTI_RECV has a default, may be set, refuses wrong lengths and unknown names",
     .stock = "tcp;ofi_rxm: takes a short length | shm: crashes when an endpoint that was never enabled is closed | "
              "sockets: takes a short length")
{
    struct side *side = side_open((struct wants){.caps = FI_MSG | FI_MULTI_RECV, .disabled = true});
    CHECK_OP(min_multi_recv(side), >, 0);
    size_t value = 1234, bytes = 2;
    OK(fi_setopt(&side->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof value));
    CHECK_EQ(min_multi_recv(side), 1234);
    side_enable(side);
    CHECK_EQ(min_multi_recv(side), 1234);
    REFUSED(fi_getopt(&side->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &bytes));
    bytes = sizeof value;
    CHECK_RC(fi_getopt(&side->ep->fid, FI_OPT_ENDPOINT, 4711, &value, &bytes), -FI_ENOPROTOOPT);
    CHECK_RC(fi_setopt(&side->ep->fid, FI_OPT_ENDPOINT, 4711, &value, bytes), -FI_ENOPROTOOPT);
    CHECK_RC(fi_setopt(&side->ep->fid, FI_OPT_ENDPOINT + 1, FI_OPT_MIN_MULTI_RECV, &value, bytes), -FI_ENOPROTOOPT);
    CHECK_EQ(min_multi_recv(side), 1234);
}
