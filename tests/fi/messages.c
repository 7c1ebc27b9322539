/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sending and receiving, for messages and tagged messages alike: every call at every size that may take another protocol,
 * expected and unexpected messages; vectors; remote data; injection; the sender's address. fi_msg(3), fi_tagged(3).
 */
#include "transfers.h"

static const size_t SIZES[] = {0,     1,     8,     39,    40,     41,      64,     255,   256,
                               257,   1000,  1024,  4095,  4096,   4097,    8192,   16383, 16384,
                               16385, 32768, 65536, 65537, 262144, 1 << 20, 5 << 20};
static const size_t SIZE_MAX_TRIED = 5 << 20;

enum { REMOTE_DATA_BYTES = 8 };

struct seen {
    size_t len;
    uint64_t tag, data;
    bool has_data;
};

static void check_received(enum kind kind, struct completion c, void *context, struct seen wanted)
{
    CHECK_PTR(c.context, context);
    CHECK_EQ(c.len, wanted.len);
    CHECK_FLAGS(c.flags, FI_RECV | kind_caps(kind) | (wanted.has_data ? FI_REMOTE_CQ_DATA : 0),
                FI_SEND | FI_TRANSMIT | (wanted.has_data ? 0 : FI_REMOTE_CQ_DATA) |
                    (kind == MESSAGE ? FI_TAGGED : FI_MSG) | FI_RMA | FI_MULTI_RECV);
    if (kind == TAGGED_MESSAGE) CHECK_EQ(c.tag, wanted.tag);
    if (wanted.has_data) CHECK_EQ(c.data, wanted.data);
}

static void check_sent(enum kind kind, struct completion c, void *context)
{
    CHECK_PTR(c.context, context);
    CHECK_FLAGS(c.flags, FI_SEND | kind_caps(kind), FI_RECV | FI_RMA);
}

enum form { PLAIN, VECTOR, MSG_CALL, WITH_DATA, INJECT, INJECT_WITH_DATA, FORMS };

static const char *const FORM_NAMES[] = {"send", "sendv", "sendmsg", "senddata", "inject", "injectdata"};

static bool form_has_data(enum form form) { return form == WITH_DATA || form == INJECT_WITH_DATA; }
static bool form_completes(enum form form) { return form != INJECT && form != INJECT_WITH_DATA; }

static void send_in_form(enum kind kind, enum form form, struct side *side, struct transfer t)
{
    struct iovec halves[2] = {{(void *)t.buf, t.len / 3}, {(char *)t.buf + t.len / 3, t.len - t.len / 3}};
    struct transfer v = t;
    v.iov = halves;
    v.count = 2;
    switch (form) {
    case PLAIN: POST(send_one(kind, side, t)); break;
    case VECTOR: POST(send_vector(kind, side, v)); break;
    case MSG_CALL: POST(send_flagged(kind, side, v, 0)); break;
    case WITH_DATA: POST(send_with_data(kind, side, t)); break;
    case INJECT: POST(inject(kind, side, t)); break;
    case INJECT_WITH_DATA: POST(inject_with_data(kind, side, t)); break;
    case FORMS: break;
    }
}

/* Sends a message in every form and size from `from` to `target`. When the receive of an unexpected message is posted, a
 * later message has already arrived, so the first is in the unexpected queue. */
static void run_sizes(enum kind kind, struct side *from, struct side *target, fi_addr_t peer, bool expected)
{
    unsigned char *out = buffer(SIZE_MAX_TRIED), *in = buffer(SIZE_MAX_TRIED + 64);
    size_t inject_bytes = from->info->tx_attr->inject_size;
    for (size_t i = 0; i < COUNT_OF(SIZES); i++)
        for (enum form form = PLAIN; form < FORMS; form++) {
            size_t bytes = SIZES[i];
            bool injected = form == INJECT || form == INJECT_WITH_DATA;
            if ((injected && bytes > inject_bytes) || (bytes > 1 << 20 && form != PLAIN)) continue;
            about("%s, %s of %zu bytes, %s", kind_name(kind), FORM_NAMES[form], bytes,
                  expected ? "expected" : "unexpected");
            uint64_t tag = 0xfeed000000000000u + i * FORMS + form;
            unsigned seed = (unsigned)tag;
            pattern_fill(out, bytes, seed);
            memset(in, 0xcc, bytes + 64);
            struct transfer t = to_peer(out, bytes, peer, tag, CONTEXT(form));
            t.data = 0xf0e1d2c3b4a59687u + i;
            struct transfer r = from_any(in, bytes + 16, tag, CONTEXT(20 + i));
            if (expected) POST(receive(kind, target, r));
            send_in_form(kind, form, from, t);
            if (injected) memset(out, 0xdd, bytes); /* the buffer is free as soon as the call returns */
            if (!expected) {
                for (int k = 0; k < 50; k++) progress();
                POST(receive(kind, target, r));
            }
            struct completion c = WAIT_RX(target);
            check_received(kind, c, CONTEXT(20 + i), (struct seen){bytes, tag, t.data, form_has_data(form)});
            if (form_completes(form)) check_sent(kind, WAIT_TX(from), CONTEXT(form));
            CHECK_PATTERN(in, bytes, seed);
            CHECK_BYTES(in + bytes, 64, 0xcc);
        }
    CHECK_NONE(from->tx, 1);
    CHECK_NONE(target->rx, 1);
}

CASE(sizes_expected, 1, "fi_msg, fi_tagged: every form of send at every size, into a receive that is posted before",
     .stock = "sockets: sets FI_MSG for tagged messages, too")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    FOR_KINDS(kind) run_sizes(kind, p.a, p.b, p.to_b, true);
}

CASE(sizes_unexpected, 1, "fi_msg, fi_tagged: every form of send at every size, before its receive is posted",
     .stock = "sockets: forgets the data of unexpected messages")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    FOR_KINDS(kind) run_sizes(kind, p.a, p.b, p.to_b, false);
}

CASE(sizes_within_a_domain, 1, "fi_endpoint: two endpoints of one domain send to each other",
     .stock = "sockets: sets FI_MSG for tagged messages, too")
{
    struct pair p = pair_open_beside((struct wants){.caps = FI_MSG | FI_TAGGED});
    FOR_KINDS(kind) run_sizes(kind, p.b, p.a, p.to_a, true);
}

CASE(sizes_to_itself, 1, "fi_endpoint: an endpoint sends to itself",
     .stock = "sockets: sets FI_MSG for tagged messages, too")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    fi_addr_t self = 1; /* pair_open() puts a into its own vector, second */
    FOR_KINDS(kind) {
        run_sizes(kind, p.a, p.a, self, true);
        run_sizes(kind, p.a, p.a, self, false);
    }
}

/* Between processes: rank 0 sends all sizes; rank 1 posts its receives before a barrier, or after it. */
static void sizes_between(enum kind kind, struct side *side, bool expected)
{
    unsigned char *memory = buffer(SIZE_MAX_TRIED + 64);
    for (size_t i = 0; i < COUNT_OF(SIZES); i++) {
        size_t bytes = SIZES[i];
        about("%s of %zu bytes, %s", kind_name(kind), bytes, expected ? "expected" : "unexpected");
        if (rank() == 1) {
            memset(memory, 0xcc, bytes + 64);
            if (!expected) barrier();
            POST(receive(kind, side, from_any(memory, bytes, i, CONTEXT(i))));
            if (expected) barrier();
            struct completion c = WAIT_RX(side);
            check_received(kind, c, CONTEXT(i), (struct seen){.len = bytes, .tag = i});
            CHECK_PATTERN(memory, bytes, (unsigned)i);
            CHECK_BYTES(memory + bytes, 64, 0xcc);
        } else {
            pattern_fill(memory, bytes, (unsigned)i);
            if (expected) barrier();
            POST(send_one(kind, side, to_peer(memory, bytes, to(1), i, CONTEXT(i))));
            if (!expected) barrier();
            check_sent(kind, WAIT_TX(side), CONTEXT(i));
        }
    }
}

CASE(sizes_between_processes, 2, "fi_msg, fi_tagged: every size between two processes, expected and unexpected",
     .stock = "sockets: sets FI_MSG for tagged messages, too")
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    FOR_KINDS(kind) {
        sizes_between(kind, side, true);
        sizes_between(kind, side, false);
    }
}

CASE(no_buffer_for_no_bytes, 1, "fi_msg: a message of zero bytes needs no buffer, in any form",
     .stock = "sockets: sets FI_MSG for tagged messages, too")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    FOR_KINDS(kind) {
        for (int i = 0; i < 3; i++) POST(receive(kind, p.b, from_any(NULL, 0, 5, CONTEXT(i))));
        POST(send_one(kind, p.a, to_peer(NULL, 0, p.to_b, 5, CONTEXT(9))));
        POST(inject(kind, p.a, to_peer(NULL, 0, p.to_b, 5, NULL)));
        struct transfer t = to_peer(NULL, 0, p.to_b, 5, NULL);
        t.data = 77;
        POST(inject_with_data(kind, p.a, t));
        for (int i = 0; i < 3; i++) {
            struct completion c = WAIT_RX(p.b);
            check_received(kind, c, CONTEXT(i), (struct seen){.tag = 5, .data = 77, .has_data = i == 2});
        }
        check_sent(kind, WAIT_TX(p.a), CONTEXT(9));
    }
}

/* Cuts `bytes` at random into `count` separate pieces of `memory`, some of them empty. */
static void cut(struct iovec *iov, size_t count, unsigned char *memory, size_t bytes, uint64_t *state)
{
    size_t left = bytes, at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t piece = i + 1 == count ? left : (size_t)(random_next(state) % (left + 1));
        if (i % 3 == 1 && i + 1 < count) piece = 0;
        iov[i] = (struct iovec){memory + at, piece};
        at += piece + 8;
        left -= piece;
    }
}

CASE(vectors, 1, "fi_sendv, fi_recvv: up to iov_limit pieces on each side, cut differently, some of them empty",
     .stock = "sockets: sets FI_MSG for tagged messages, too")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    size_t send_limit = p.a->info->tx_attr->iov_limit, receive_limit = p.b->info->rx_attr->iov_limit;
    static const size_t LENGTHS[] = {0, 5, 64, 300, 5000, 70000, 1 << 20};
    unsigned char *out = buffer((1 << 20) + 256), *in = buffer((1 << 20) + 256), *flat = buffer(1 << 20);
    uint64_t state = 20240117;
    if (is_ours()) {
        CHECK_OP(send_limit, >=, 8);
        CHECK_OP(receive_limit, >=, 8);
    }
    FOR_KINDS(kind)
        for (size_t n = 1; n <= send_limit || n <= receive_limit; n++)
            for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
                struct iovec from[64], into[64];
                size_t bytes = LENGTHS[l], ns = n < send_limit ? n : send_limit;
                size_t nr = receive_limit - n % receive_limit;
                bool expected = (n + l) % 2;
                about("%s of %zu bytes from %zu pieces into %zu, expected %d", kind_name(kind), bytes, ns, nr,
                      expected);
                CHECK_OP(ns, <=, 64);
                CHECK_OP(nr, <=, 64);
                memset(in, 0xcc, bytes + 256);
                cut(from, ns, out, bytes, &state);
                cut(into, nr, in, bytes, &state);
                pattern_fill(flat, bytes, (unsigned)(n * 10 + l));
                size_t at = 0;
                for (size_t i = 0; i < ns; i++) {
                    memcpy(from[i].iov_base, flat + at, from[i].iov_len);
                    at += from[i].iov_len;
                }
                struct transfer t = {.iov = from, .count = ns, .peer = p.to_b, .tag = n, .context = CONTEXT(1)};
                struct transfer r = {.iov = into, .count = nr, .peer = FI_ADDR_UNSPEC, .tag = n, .context = CONTEXT(2)};
                if (expected) POST(receive_vector(kind, p.b, r));
                POST(send_vector(kind, p.a, t));
                if (!expected) POST(receive_flagged(kind, p.b, r, FI_COMPLETION));
                check_received(kind, WAIT_RX(p.b), CONTEXT(2), (struct seen){.len = bytes, .tag = n});
                check_sent(kind, WAIT_TX(p.a), CONTEXT(1));
                at = 0;
                for (size_t i = 0; i < nr; i++) {
                    CHECK_SAME(into[i].iov_base, flat + at, into[i].iov_len);
                    CHECK_BYTES((char *)into[i].iov_base + into[i].iov_len, 8, 0xcc);
                    at += into[i].iov_len;
                }
            }
}

CASE(too_many_pieces, 1, "fi_endpoint: more pieces than iov_limit are refused by the call", .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    char *memory = buffer(4096);
    struct iovec iov[64];
    for (int i = 0; i < 64; i++) iov[i] = (struct iovec){memory + i * 8, 8};
    FOR_KINDS(kind) {
        struct transfer t = {.iov = iov, .count = p.a->info->tx_attr->iov_limit + 1, .peer = p.to_b};
        REFUSED(send_vector(kind, p.a, t));
        REFUSED(send_flagged(kind, p.a, t, 0));
        t.count = p.a->info->rx_attr->iov_limit + 1;
        t.peer = FI_ADDR_UNSPEC;
        REFUSED(receive_vector(kind, p.a, t));
    }
    CHECK_NONE(p.a->tx, 5);
}

CASE(inject_has_a_limit, 1, "fi_inject: inject_size bytes are sent, one more is refused; FI_INJECT likewise",
     .stock = "tcp;ofi_rxm: takes more | shm: takes more | sockets: sets FI_MSG for tagged messages, too")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    size_t limit = p.a->info->tx_attr->inject_size;
    if (is_ours()) CHECK_OP(limit, >=, 256);
    char *out = buffer(limit + 1), *in = buffer(limit + 1);
    FOR_KINDS(kind) {
        pattern_fill(out, limit, 3);
        POST_REFUSED(inject(kind, p.a, to_peer(out, limit + 1, p.to_b, 1, NULL)));
        POST_REFUSED(inject_with_data(kind, p.a, to_peer(out, limit + 1, p.to_b, 1, NULL)));
        POST(inject(kind, p.a, to_peer(out, limit, p.to_b, 1, NULL)));
        memset(out, 0, limit);
        POST(receive(kind, p.b, from_any(in, limit + 1, 1, CONTEXT(1))));
        check_received(kind, WAIT_RX(p.b), CONTEXT(1), (struct seen){.len = limit, .tag = 1});
        CHECK_PATTERN(in, limit, 3);
        pattern_fill(out, limit, 4);
        POST(send_flagged(kind, p.a, to_peer(out, limit, p.to_b, 1, CONTEXT(7)), FI_INJECT | FI_COMPLETION));
        memset(out, 0, limit);
        POST(receive(kind, p.b, from_any(in, limit + 1, 1, CONTEXT(2))));
        check_received(kind, WAIT_RX(p.b), CONTEXT(2), (struct seen){.len = limit, .tag = 1});
        CHECK_PATTERN(in, limit, 4);
        check_sent(kind, WAIT_TX(p.a), CONTEXT(7));
    }
    CHECK_NONE(p.a->tx, 5);
}

CASE(remote_data_arrives_whole, 1,
     "fi_senddata: cq_data_size bytes of data arrive, whatever they are; without, the flag is not set",
     .stock = "sockets: sets FI_MSG for tagged messages, too")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    size_t told = p.a->info->domain_attr->cq_data_size;
    if (is_ours()) CHECK_EQ(told, REMOTE_DATA_BYTES);
    uint64_t mask = told >= 8 ? ~0ull : (1ull << told * 8) - 1;
    static const uint64_t VALUES[] = {
        0, 1, 0xffffffff, 0x100000000, 0x8000000000000000, 0xffffffffffffffff, 0x0123456789abcdef};
    char *in = buffer(64), *out = buffer(64);
    FOR_KINDS(kind)
        for (size_t i = 0; i < COUNT_OF(VALUES) * 2; i++) {
            bool expected = i % 2;
            uint64_t value = VALUES[i / 2] & mask;
            about("%s, data 0x%llx, expected %d", kind_name(kind), (unsigned long long)value, expected);
            struct transfer t = to_peer(out, 9, p.to_b, i, CONTEXT(1));
            t.data = value;
            if (expected) POST(receive(kind, p.b, from_any(in, 64, i, CONTEXT(2))));
            if (i % 3) POST(send_with_data(kind, p.a, t));
            else POST(send_flagged(kind, p.a, t, FI_REMOTE_CQ_DATA));
            if (!expected) POST(receive(kind, p.b, from_any(in, 64, i, CONTEXT(2))));
            check_received(kind, WAIT_RX(p.b), CONTEXT(2), (struct seen){9, i, value, true});
            check_sent(kind, WAIT_TX(p.a), CONTEXT(1));
            t.data = value;
            POST(receive(kind, p.b, from_any(in, 64, i, CONTEXT(3))));
            POST(send_flagged(kind, p.a, t, 0)); /* data without the flag is not sent */
            check_received(kind, WAIT_RX(p.b), CONTEXT(3), (struct seen){.len = 9, .tag = i});
            check_sent(kind, WAIT_TX(p.a), CONTEXT(1));
        }
}

CASE(source_is_told, 3,
     "fi_cq_readfrom: with FI_SOURCE the sender's address in the receiver's own vector, expected and unexpected")
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_TAGGED | FI_SOURCE});
    char *memory = buffer(100000);
    static const size_t LENGTHS[] = {0, 8, 5000, 100000};
    FOR_KINDS(kind)
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++)
            for (int sender = 0; sender < 3; sender++) {
                about("%s of %zu bytes from %d", kind_name(kind), LENGTHS[l], sender);
                if (rank() == 2 && l % 2) POST(receive(kind, side, from_any(memory, LENGTHS[l], 1, CONTEXT(sender))));
                barrier();
                char *mine = memory + 50000 * (sender == 2 && rank() == 2 && LENGTHS[l] <= 50000);
                if (rank() == sender) POST(send_one(kind, side, to_peer(mine, LENGTHS[l], to(2), 1, NULL)));
                if (rank() == 2 && !(l % 2))
                    POST(receive(kind, side, from_any(memory, LENGTHS[l], 1, CONTEXT(sender))));
                if (rank() == 2) CHECK_EQ(WAIT_RX(side).source, to(sender));
                if (rank() == sender) WAIT_TX(side);
                barrier();
            }
}

CASE(source_not_in_the_vector, 1,
     "fi_cq_readfrom: a sender outside the vector is FI_ADDR_NOTAVAIL; its message is received",
     .stock = "shm: takes any sender for the first of the vector")
{
    struct wants wants = {.caps = FI_MSG | FI_TAGGED | FI_SOURCE};
    struct side *a = side_open(wants), *b = side_open(wants);
    fi_addr_t to_b = side_insert(a, b);
    char *in = buffer(64), *out = buffer(64);
    FOR_KINDS(kind) {
        POST(receive(kind, b, from_any(in, 64, 1, CONTEXT(1))));
        POST(send_one(kind, a, to_peer(out, 10, to_b, 1, CONTEXT(2))));
        struct completion c = WAIT_RX(b);
        CHECK_EQ(c.source, FI_ADDR_NOTAVAIL);
        CHECK_EQ(c.len, 10);
        WAIT_TX(a);
    }
    fi_addr_t to_a = side_insert(b, a);
    POST(fi_recv(b->ep, in, 64, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_send(a->ep, out, 10, NULL, to_b, NULL));
    CHECK_EQ(WAIT_RX(b).source, to_a);
    WAIT_TX(a);
}

CASE(many_to_one, 4, "fi_msg: messages of several senders to one arrive whole, each sender's in order",
     .stock = "shm: loses the order of unexpected messages")
{
    enum { EACH = 300 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_SOURCE});
    if (rank() != 0) {
        uint32_t out[64];
        for (uint32_t i = 0; i < EACH; i++) {
            for (int k = 0; k < 64; k++) out[k] = (uint32_t)rank() << 16 | i;
            POST(fi_tinject(side->ep, out, 4 + i % (side->info->tx_attr->inject_size >= 256 ? 252 : 60), to(0), 1));
        }
        return;
    }
    uint32_t next[4] = {0}, *in = buffer(256);
    for (int n = 0; n < 3 * EACH; n++) {
        POST(fi_trecv(side->ep, in, 256, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL));
        struct completion c = WAIT_RX(side);
        uint32_t from = in[0] >> 16;
        CHECK_OP(from, >=, 1);
        CHECK_OP(from, <=, 3);
        CHECK_EQ(c.source, to((int)from));
        CHECK_EQ(in[0] & 0xffff, next[from]++);
    }
}

CASE(bad_destination, 1,
     "fi_msg: an address outside the vector is refused, or completes in error", .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    static const fi_addr_t ADDRESSES[] = {2, 1000000, FI_ADDR_NOTAVAIL, 1ull << 63};
    char *out = buffer(64);
    FOR_KINDS(kind)
        for (size_t i = 0; i < COUNT_OF(ADDRESSES); i++) {
            about("%s to 0x%llx", kind_name(kind), (unsigned long long)ADDRESSES[i]);
            ssize_t rc = send_one(kind, p.a, to_peer(out, 8, ADDRESSES[i], 1, CONTEXT(i)));
            if (rc == 0) CHECK_PTR(WAIT_ERROR(p.a->tx).op_context, CONTEXT(i));
            REFUSED(inject(kind, p.a, to_peer(out, 8, ADDRESSES[i], 1, NULL)));
        }
    POST(fi_recv(p.b->ep, out, 64, NULL, FI_ADDR_UNSPEC, NULL)); /* and the endpoint still works */
    POST(fi_inject(p.a->ep, out, 8, p.to_b));
    WAIT_RX(p.b);
}

CASE(message_too_long, 1, "fi_msg: more than max_msg_size is refused by the call", .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    size_t limit = p.a->info->ep_attr->max_msg_size;
    char *out = buffer(64);
    CHECK_OP(limit, >=, 1ull << 31);
    if (limit == SIZE_MAX) return;
    FOR_KINDS(kind) CHECK_RC(send_one(kind, p.a, to_peer(out, limit + 1, p.to_b, 1, NULL)), -FI_EMSGSIZE);
}

CASE(flags_not_known, 1, "fi_sendmsg, fi_recvmsg: flags without meaning there are -FI_EBADFLAGS or another error",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    char *out = buffer(64);
    FOR_KINDS(kind) {
        REFUSED(send_flagged(kind, p.a, to_peer(out, 8, p.to_b, 1, NULL), FI_MULTICAST));
        REFUSED(send_flagged(kind, p.a, to_peer(out, 8, p.to_b, 1, NULL), FI_PEEK));
        REFUSED(receive_flagged(kind, p.a, from_any(out, 8, 1, NULL), FI_REMOTE_CQ_DATA));
        REFUSED(receive_flagged(kind, p.a, from_any(out, 8, 1, NULL), 1ull << 40));
    }
    REFUSED(receive_flagged(TAGGED_MESSAGE, p.a, from_any(out, 8, 1, NULL), FI_CLAIM | FI_PEEK | FI_MULTI_RECV));
}

CASE(more_follows, 1, "fi_sendmsg: messages posted with FI_MORE are sent, with or without it on the last one")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    uint32_t *out = buffer(64 * 4), *in = buffer(64 * 4);
    FOR_KINDS(kind) {
        for (int i = 0; i < 64; i++) {
            out[i] = (uint32_t)i * 3;
            POST(receive_flagged(kind, p.b, from_any(&in[i], 4, 1, CONTEXT(i)),
                                 i < 63 ? FI_MORE | FI_COMPLETION : FI_COMPLETION));
        }
        for (int i = 0; i < 64; i++)
            POST(send_flagged(kind, p.a, to_peer(&out[i], 4, p.to_b, 1, CONTEXT(i)),
                              i < 63 ? FI_MORE | FI_COMPLETION : FI_COMPLETION));
        for (int i = 0; i < 64; i++) {
            CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(i));
            CHECK_EQ(in[i], i * 3);
            CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(i));
        }
    }
}
