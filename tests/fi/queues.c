/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Completion queues: formats, reads of one entry and of many, errors among the entries, blocking reads, sizes that are too
 * small, queues that cannot be opened. fi_cq(3).
 */
#include "transfers.h"

#include <pthread.h>

static struct fid_cq *cq_open(struct side *side, struct fi_cq_attr attr)
{
    struct fid_cq *cq = NULL;
    OK(fi_cq_open(side->domain, &attr, &cq, CONTEXT(99)));
    return cq;
}

/* ---- Entries ----------------------------------------------------------------------------------------------------- */

CASE(formats, 1, "fi_cq_open: each format has its fields, in its own stride, and writes nothing beyond")
{
    static const enum fi_cq_format FORMATS[] = {FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA,
                                                FI_CQ_FORMAT_TAGGED};
    static const size_t STRIDES[] = {sizeof(struct fi_cq_entry), sizeof(struct fi_cq_msg_entry),
                                     sizeof(struct fi_cq_data_entry), sizeof(struct fi_cq_tagged_entry)};
    for (size_t f = 0; f < COUNT_OF(FORMATS); f++) {
        about("format %d", FORMATS[f]);
        struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .format = FORMATS[f]});
        char in[4][8];
        for (int i = 0; i < 4; i++)
            POST(fi_trecv(p.b->ep, in[i], 8, NULL, FI_ADDR_UNSPEC, 0x50 + (uint64_t)i, 0, CONTEXT(i)));
        for (int i = 0; i < 4; i++)
            POST(fi_tinjectdata(p.a->ep, "1234567", (size_t)i + 1, 0x70 + (uint64_t)i, p.to_b, 0x50 + (uint64_t)i));
        unsigned char *entries = buffer(4 * STRIDES[f]);
        int got = 0;
        long long until = now_ms() + WAIT_MS;
        while (got < 4 && now_ms() < until) {
            ssize_t rc = fi_cq_read(p.b->rx, entries + (size_t)got * STRIDES[f], (size_t)(4 - got));
            if (rc == -FI_EAGAIN) progress();
            else if (rc < 0) OK(rc);
            else got += (int)rc;
        }
        CHECK_EQ(got, 4);
        for (int i = 0; i < 4; i++) {
            struct fi_cq_tagged_entry e = {0};
            memcpy(&e, entries + (size_t)i * STRIDES[f], STRIDES[f]);
            CHECK_PTR(e.op_context, CONTEXT(i));
            if (f == 0) continue;
            CHECK_EQ(e.len, i + 1);
            CHECK_FLAGS(e.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA, FI_SEND);
            if (f >= 2) CHECK_EQ(e.data, 0x70 + i);
            if (f == 3) CHECK_EQ(e.tag, 0x50 + i);
        }
    }
}

CASE(no_format, 1, "FI_CQ_FORMAT_UNSPEC: the provider chooses, and the queue works")
{
    struct side *side = side_open((struct wants){.disabled = true});
    struct fid_cq *cq = cq_open(side, (struct fi_cq_attr){.format = FI_CQ_FORMAT_UNSPEC});
    OK(fi_close(&cq->fid));
    cq = cq_open(side, (struct fi_cq_attr){.size = 1 << 18, .format = FI_CQ_FORMAT_DATA});
    CHECK_PTR(cq->fid.context, CONTEXT(99));
    OK(fi_close(&cq->fid));
}

CASE(read_many, 1,
     "fi_cq_read: up to `count` entries in order, as many as are pending; -FI_EAGAIN from an empty queue; a count of "
     "0 takes none")
{
    enum { COUNT = 64 };
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED | FI_SOURCE});
    static char in[COUNT];
    struct fi_cq_tagged_entry entries[100];
    fi_addr_t sources[100];
    CHECK_RC(fi_cq_read(p.b->rx, entries, 100), -FI_EAGAIN);
    CHECK_RC(fi_cq_read(p.b->rx, entries, 1), -FI_EAGAIN);
    for (int i = 0; i < COUNT; i++)
        POST(fi_trecv(p.b->ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, CONTEXT(i)));
    for (int i = 0; i < COUNT; i++) POST(fi_tinject(p.a->ep, "x", 1, p.to_b, (uint64_t)i));
    int got = 0;
    long long until = now_ms() + WAIT_MS;
    for (int round = 0; got < COUNT; round++) {
        if (now_ms() > until) FAIL("%d of %d completions", got, COUNT);
        ssize_t none = fi_cq_read(p.b->rx, NULL, 0);
        if (none != 0) CHECK_RC(none, -FI_EAGAIN);
        size_t most = (size_t)(round % 9) + 1;
        memset(entries, 0x5a, sizeof entries);
        ssize_t rc = fi_cq_readfrom(p.b->rx, entries, most, sources);
        if (rc == -FI_EAGAIN) {
            progress();
            continue;
        }
        CHECK_OP(rc, >, 0);
        CHECK_OP(rc, <=, (ssize_t)most);
        CHECK_BYTES(&entries[rc], sizeof entries[0], 0x5a);
        for (ssize_t i = 0; i < rc; i++, got++) {
            CHECK_PTR(entries[i].op_context, CONTEXT(got));
            CHECK_EQ(entries[i].tag, got);
            CHECK_EQ(sources[i], p.to_a);
        }
    }
    CHECK_RC(fi_cq_read(p.b->rx, entries, 100), -FI_EAGAIN);
}

CASE(until_there_is_none, 1,
     "fi_cq_read until -FI_EAGAIN after every message: messages sent to the endpoint meanwhile, of either kind, "
     "complete as soon as they are received")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .threading = FI_THREAD_DOMAIN});
    for (int i = 0; i < 50; i++)
        FOR_KINDS(kind) {
            about("%s, %d", kind_name(kind), i);
            enum kind other = kind == MESSAGE ? TAGGED_MESSAGE : MESSAGE;
            int in[2] = {0}, out[2] = {i + 1, -i};
            POST(receive(kind, p.b, from_any(&in[0], 4, 5, CONTEXT(1))));
            POST(inject(kind, p.a, to_peer(&out[0], 4, p.to_b, 5, NULL)));
            CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(1));
            POST(inject(other, p.a, to_peer(&out[1], 4, p.to_b, 6, NULL)));
            struct fi_cq_tagged_entry entry;
            for (int n = 0; n < 1 + i % 3; n++) CHECK_RC(fi_cq_read(p.b->rx, &entry, 1), -FI_EAGAIN);
            POST(receive(other, p.b, from_any(&in[1], 4, 6, CONTEXT(2))));
            CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(2));
            CHECK_RC(fi_cq_read(p.b->rx, &entry, 1), -FI_EAGAIN);
            CHECK_OP(in[0], ==, out[0]);
            CHECK_OP(in[1], ==, out[1]);
        }
}

CASE(no_source_without_the_capability, 1,
     "fi_cq_readfrom: FI_ADDR_NOTAVAIL where the endpoint has no FI_SOURCE, and for sends",
     .stock = "tcp;ofi_rxm: leaves the old value | shm: reports 0 | sockets: reports the sender")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG});
    char in[8];
    POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_send(p.a->ep, "a", 1, NULL, p.to_b, NULL));
    struct fi_cq_tagged_entry entry;
    for (int i = 0; i < 2; i++) {
        fi_addr_t source = 12345;
        ssize_t rc;
        long long until = now_ms() + WAIT_MS;
        while ((rc = fi_cq_readfrom(i ? p.a->tx : p.b->rx, &entry, 1, &source)) == -FI_EAGAIN && now_ms() < until)
            progress();
        CHECK_RC(rc, 1);
        if (i == 0 && p.b->info->caps & FI_SOURCE) continue; /* granted although not requested */
        CHECK_EQ(source, FI_ADDR_NOTAVAIL);
    }
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

CASE(errors_out_of_band, 1,
     "fi_cq_readerr: -FI_EAGAIN without an error; with one, reads are -FI_EAVAIL until it is taken, and no later "
     "entry is lost")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    static struct fi_context contexts[4];
    char in[4][4];
    struct fi_cq_err_entry e = {0};
    struct fi_cq_tagged_entry entry;
    CHECK_RC(fi_cq_readerr(p.b->rx, &e, 0), -FI_EAGAIN);
    for (int i = 0; i < 4; i++) POST(fi_trecv(p.b->ep, in[i], 4, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, &contexts[i]));
    POST(fi_tinject(p.a->ep, "abc", 3, p.to_b, 0));
    CHECK_PTR(WAIT_RX(p.b).context, &contexts[0]);
    OK(fi_cancel(&p.b->ep->fid, &contexts[1]));
    POST(fi_tinject(p.a->ep, "abc", 3, p.to_b, 2));
    POST(fi_tinject(p.a->ep, "abc", 3, p.to_b, 3));
    int good = 0, bad = 0;
    long long until = now_ms() + WAIT_MS;
    while (good < 2 || bad < 1) {
        if (now_ms() > until) FAIL("%d good, %d bad", good, bad);
        ssize_t rc = fi_cq_read(p.b->rx, &entry, 1);
        if (rc == -FI_EAVAIL) {
            for (int i = 0; i < 5; i++) CHECK_RC(fi_cq_read(p.b->rx, &entry, 1), -FI_EAVAIL);
            CHECK_RC(fi_cq_readfrom(p.b->rx, &entry, 1, NULL), -FI_EAVAIL);
            memset(&e, 0, sizeof e);
            CHECK_RC(fi_cq_readerr(p.b->rx, &e, 0), 1);
            CHECK_EQ(e.err, FI_ECANCELED);
            CHECK_PTR(e.op_context, &contexts[1]);
            CHECK_RC(fi_cq_readerr(p.b->rx, &e, 0), -FI_EAGAIN);
            bad++;
        } else if (rc == 1) {
            CHECK_PTR(entry.op_context, &contexts[2 + good++]);
        } else {
            CHECK_RC(rc, -FI_EAGAIN);
            progress();
        }
    }
}

CASE(many_errors, 1, "fi_cq_readerr: each of a thousand errors is reported once", .stock = "sockets: loses some")
{
    enum { COUNT = 1000 };
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    static struct fi_context contexts[COUNT];
    static char told[COUNT], in[COUNT];
    for (int i = 0; i < COUNT; i++)
        POST(fi_trecv(p.b->ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, &contexts[i]));
    for (int i = 0; i < COUNT; i++) OK(fi_cancel(&p.b->ep->fid, &contexts[i]));
    for (int i = 0; i < COUNT; i++) {
        struct fi_cq_err_entry e = WAIT_ERROR(p.b->rx);
        ptrdiff_t at = (struct fi_context *)e.op_context - contexts;
        CHECK_OP(at, >=, 0);
        CHECK_OP(at, <, COUNT);
        CHECK_EQ(told[at]++, 0);
    }
    CHECK_NONE(p.b->rx, 1);
}

CASE(error_entry_of_the_asked_version, 1,
     "fi_cq_readerr: writes the struct of the requested version and nothing beyond; a buffer for err_data is "
     "respected; fi_cq_strerror has a text")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    static struct fi_context contexts[2];
    char in[2][4], text[128], error_data[16];
    struct {
        struct fi_cq_err_entry e;
        unsigned char after[64];
    } room;
    for (int i = 0; i < 2; i++) {
        POST(fi_trecv(p.b->ep, in[i], 4, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[i]));
        OK(fi_cancel(&p.b->ep->fid, &contexts[i]));
        struct fi_cq_tagged_entry entry;
        UNTIL(fi_cq_read(p.b->rx, &entry, 1) == -FI_EAVAIL);
        memset(&room, 0x5a, sizeof room);
        memset(error_data, 0x5a, sizeof error_data);
        room.e.err_data = i ? error_data : NULL;
        room.e.err_data_size = i ? 8 : 0;
        CHECK_RC(fi_cq_readerr(p.b->rx, &room.e, 0), 1);
        CHECK_BYTES(room.after, sizeof room.after, 0x5a);
        CHECK_BYTES(error_data + 8, 8, 0x5a);
        CHECK_EQ(room.e.err, FI_ECANCELED);
        CHECK_PTR(room.e.op_context, &contexts[i]);
        CHECK_OP(room.e.err_data_size, <=, 64);
        if (i) CHECK_OP(room.e.err_data_size, <=, 8);
        memset(text, 0x5a, sizeof text);
        const char *told = fi_cq_strerror(p.b->rx, room.e.prov_errno, room.e.err_data, text, 20);
        CHECK_OP(told, !=, NULL);
        CHECK_OP(strlen(told), >, 0);
        CHECK_BYTES(text + 20, sizeof text - 20, 0x5a);
        CHECK_OP(fi_cq_strerror(p.b->rx, room.e.prov_errno, NULL, NULL, 0), !=, NULL);
    }
}

/* ---- Blocking reads ---------------------------------------------------------------------------------------------- */

static struct pair waiting_pair(enum fi_wait_obj wait_obj)
{
    return pair_open((struct wants){.caps = FI_TAGGED, .wait_obj = wait_obj, .threading = FI_THREAD_SAFE});
}

static void check_timeouts(enum fi_wait_obj wait_obj)
{
    struct pair p = waiting_pair(wait_obj);
    struct fi_cq_tagged_entry entry;
    static const int TIMEOUTS[] = {0, 1, 50, 120};
    for (size_t t = 0; t < COUNT_OF(TIMEOUTS); t++) {
        about("%d ms", TIMEOUTS[t]);
        long long from = now_ms();
        CHECK_RC(fi_cq_sread(p.b->rx, &entry, 1, NULL, TIMEOUTS[t]), -FI_EAGAIN);
        CHECK_OP(now_ms() - from, >=, TIMEOUTS[t] - 1);
    }
    fi_addr_t source;
    CHECK_RC(fi_cq_sreadfrom(p.b->rx, &entry, 1, &source, NULL, 10), -FI_EAGAIN);
}

CASE(sread_times_out, 1, "fi_cq_sread: -FI_EAGAIN after the timeout, not before; 0 does not wait",
     .stock = "shm: never returns")
{
    check_timeouts(FI_WAIT_UNSPEC);
}

CASE(sread_times_out_yielding, 1, "fi_cq_sread: the same with FI_WAIT_YIELD",
     .stock = "tcp;ofi_rxm: has no FI_WAIT_YIELD | shm: never returns | sockets: has no FI_WAIT_YIELD")
{
    check_timeouts(FI_WAIT_YIELD);
}

CASE(sread_returns_what_is_there, 1,
     "fi_cq_sread: pending entries at once, without a timeout, and errors as -FI_EAVAIL")
{
    struct pair p = waiting_pair(FI_WAIT_UNSPEC);
    static struct fi_context contexts[3];
    char in[3][4];
    struct fi_cq_tagged_entry entries[4];
    for (int i = 0; i < 3; i++) POST(fi_trecv(p.b->ep, in[i], 4, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, &contexts[i]));
    POST(fi_tinject(p.a->ep, "a", 1, p.to_b, 0));
    POST(fi_tinject(p.a->ep, "b", 1, p.to_b, 1));
    int got = 0;
    while (got < 2) {
        ssize_t rc = fi_cq_sread(p.b->rx, entries, 4, NULL, -1);
        CHECK_OP(rc, >, 0);
        CHECK_OP(rc, <=, 2 - got);
        got += (int)rc;
        fi_cq_read(p.a->tx, NULL, 0);
    }
    OK(fi_cancel(&p.b->ep->fid, &contexts[2]));
    CHECK_RC(fi_cq_sread(p.b->rx, entries, 4, NULL, -1), -FI_EAVAIL);
    struct fi_cq_err_entry e = {0};
    CHECK_RC(fi_cq_readerr(p.b->rx, &e, 0), 1);
    CHECK_EQ(e.err, FI_ECANCELED);
}

struct signaller {
    struct fid_cq *cq;
    volatile bool heard;
};

/* Repeatedly, because a signal may precede the other thread's wait. */
static void *signals_later(void *argument)
{
    struct signaller *s = argument;
    do {
        sleep_ms(30);
        fi_cq_signal(s->cq);
    } while (!s->heard);
    return NULL;
}

static void check_signal(enum fi_wait_obj wait_obj)
{
    struct pair p = waiting_pair(wait_obj);
    struct fi_cq_tagged_entry entry;
    pthread_t thread;
    struct signaller signaller = {.cq = p.b->rx};
    pthread_create(&thread, NULL, signals_later, &signaller);
    CHECK_RC(fi_cq_sread(p.b->rx, &entry, 1, NULL, -1), -FI_EAGAIN);
    signaller.heard = true;
    pthread_join(thread, NULL);
}

CASE(signal_wakes, 1, "fi_cq_signal: a thread in fi_cq_sread returns with -FI_EAGAIN before its timeout",
     .stock = "sockets: -FI_ECANCELED")
{
    check_signal(FI_WAIT_UNSPEC);
}

CASE(signal_wakes_yielding, 1, "fi_cq_signal: the same with FI_WAIT_YIELD",
     .stock = "tcp;ofi_rxm: has no FI_WAIT_YIELD | sockets: has no FI_WAIT_YIELD")
{
    check_signal(FI_WAIT_YIELD);
}

CASE(sread_is_woken_by_a_message, 2,
     "fi_cq_sread: returns when a message arrives from another process, small or large, 50 times in turn")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED, .wait_obj = FI_WAIT_UNSPEC});
    char *in = buffer(200000), *out = buffer(200000);
    struct fi_cq_tagged_entry entry;
    static const size_t LENGTHS[] = {0, 8, 5000, 200000};
    for (int i = 0; i < 50; i++) {
        size_t bytes = LENGTHS[i % 4];
        about("message %d of %zu bytes", i, bytes);
        if (rank() == i % 2) {
            if (i % 8 == 3) sleep_ms(5);
            POST(fi_tsend(side->ep, out, bytes, NULL, to(1 - rank()), 1, NULL));
            CHECK_RC(fi_cq_sread(side->tx, &entry, 1, NULL, WAIT_MS), 1);
        } else {
            POST(fi_trecv(side->ep, in, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
            CHECK_RC(fi_cq_sread(side->rx, &entry, 1, NULL, WAIT_MS), 1);
            CHECK_EQ(entry.len, bytes);
        }
    }
}

CASE(sread_needs_a_wait_object, 1, "fi_cq_sread: invalid with FI_WAIT_NONE", .needs = OUR_PROVIDER)
{
    struct pair p = waiting_pair(FI_WAIT_NONE);
    struct fi_cq_tagged_entry entry;
    REFUSED(fi_cq_sread(p.b->rx, &entry, 1, NULL, 10));
    REFUSED(fi_cq_signal(p.b->rx));
}

CASE(sread_with_a_threshold, 1,
     "FI_CQ_COND_THRESHOLD: an optimisation: the read returns with entries, or with -FI_EAGAIN at its timeout",
     .stock = "shm: crashes when an endpoint that was never enabled is closed")
{
    struct side *side = side_open((struct wants){.caps = FI_TAGGED, .disabled = true});
    struct fi_cq_attr attr = {
        .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC, .wait_cond = FI_CQ_COND_THRESHOLD};
    struct fid_cq *cq = cq_open(side, attr);
    adopt_cq(cq);
    struct fid_ep *ep = NULL;
    OK(fi_endpoint(side->domain, side->info, &ep, NULL));
    OK(fi_ep_bind(ep, &side->av->fid, 0));
    OK(fi_ep_bind(ep, &cq->fid, FI_RECV));
    OK(fi_ep_bind(ep, &side->tx->fid, FI_TRANSMIT));
    OK(fi_enable(ep));
    unsigned char address[ADDRESS_BYTES_MAX];
    size_t bytes = sizeof address;
    OK(fi_getname(&ep->fid, address, &bytes));
    fi_addr_t self = address_insert(side, address);
    char in[4][4];
    struct fi_cq_tagged_entry entries[4];
    for (int i = 0; i < 4; i++) POST(fi_trecv(ep, in[i], 4, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    CHECK_RC(fi_cq_sread(cq, entries, 4, (void *)4, 20), -FI_EAGAIN);
    for (int i = 0; i < 4; i++) POST(fi_tinject(ep, "a", 1, self, 1));
    int got = 0;
    while (got < 4) {
        ssize_t rc = fi_cq_sread(cq, entries, 4, (void *)(uintptr_t)(4 - got), 5000);
        CHECK_OP(rc, >=, 1);
        CHECK_OP(rc, <=, 4 - got);
        got += (int)rc;
    }
    OK(fi_close(&ep->fid));
}

/* ---- Size -------------------------------------------------------------------------------------------------------- */

CASE(small_queue, 1,
     "fi_cq_attr: with a size of 1, 5,000 completions that are read late are all reported; posting may be -FI_EAGAIN "
     "meanwhile")
{
    enum { COUNT = 5000 };
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED, .cq_size = 1});
    static int in[COUNT];
    int posted = 0, sent = 0, received = 0, completed = 0;
    long long until = now_ms() + WAIT_MS;
    while (received < COUNT || completed < COUNT) {
        if (now_ms() > until) FAIL("%d posted, %d sent, %d received, %d completed", posted, sent, received, completed);
        while (posted < COUNT && posted < received + 200 &&
               fi_trecv(p.b->ep, &in[posted], 4, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(posted)) == 0)
            posted++;
        static int out[COUNT];
        while (sent < COUNT && sent < received + 150) {
            out[sent] = sent;
            if (fi_tsend(p.a->ep, &out[sent], 4, NULL, p.to_b, 1, CONTEXT(sent)) != 0) break;
            sent++;
        }
        struct completion c;
        while (TAKE(p.b, p.b->rx, &c)) {
            size_t which = (uintptr_t)c.context - (uintptr_t)CONTEXT(0);
            CHECK_OP(which, <, COUNT);
            CHECK_EQ(in[which], which);
            in[which] = -1; /* so each completes once */
            received++;
        }
        while (TAKE(p.a, p.a->tx, &c)) completed++;
    }
}

CASE(queue_never_drops, 1,
     "contract: a queue of size 1 grows: 20,000 sends and receives complete before any completion is read",
     .needs = OUR_PROVIDER)
{
    enum { COUNT = 20000 };
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED, .cq_size = 1});
    static int in[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++) {
        out[i] = i;
        POST(fi_trecv(p.b->ep, &in[i], 4, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(i)));
        POST(fi_tsend(p.a->ep, &out[i], 4, NULL, p.to_b, 1, CONTEXT(i)));
    }
    static char seen[2][COUNT];
    for (int i = 0; i < 2 * COUNT; i++) { /* in any order */
        struct completion c = i < COUNT ? WAIT_RX(p.b) : WAIT_TX(p.a);
        size_t which = (uintptr_t)c.context - (uintptr_t)CONTEXT(0);
        about("completion %d, of %zu", i, which);
        CHECK_OP(which, <, COUNT);
        CHECK_EQ(seen[i / COUNT][which]++, 0);
        if (i < COUNT) CHECK_EQ(in[which], which);
    }
}

/* Opens an endpoint of this side that reports sends and receives to `cq`; stores its own address in `address`. */
static struct fid_ep *endpoint_on(struct side *side, struct fid_cq *cq, fi_addr_t *address)
{
    struct fid_ep *ep;
    unsigned char name[ADDRESS_BYTES_MAX];
    size_t bytes = sizeof name;
    OK(fi_endpoint(side->domain, side->info, &ep, NULL));
    OK(fi_ep_bind(ep, &side->av->fid, 0));
    OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
    OK(fi_enable(ep));
    OK(fi_getname(&ep->fid, name, &bytes));
    *address = address_insert(side, name);
    return ep;
}

CASE(one_queue_for_all, 1, "fi_ep_bind: one queue takes the sends and receives of two endpoints",
     .stock = "shm: crashes when an endpoint that was never enabled is closed")
{
    struct side *side = side_open((struct wants){.caps = FI_TAGGED, .disabled = true});
    struct fid_cq *cq = cq_open(side, (struct fi_cq_attr){.format = FI_CQ_FORMAT_TAGGED});
    adopt_cq(cq);
    struct fid_ep *ep[2];
    fi_addr_t address[2];
    char in[2][8];
    for (int i = 0; i < 2; i++) {
        ep[i] = endpoint_on(side, cq, &address[i]);
        POST(fi_trecv(ep[i], in[i], 8, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(i)));
    }
    for (int i = 0; i < 2; i++) POST(fi_tsend(ep[i], "hello", 5, NULL, address[1 - i], 1, CONTEXT(2 + i)));
    int seen[4] = {0};
    for (int i = 0; i < 4; i++) {
        struct completion c = wait_at(__FILE__, __LINE__, side, cq);
        uintptr_t which = (uintptr_t)c.context - (uintptr_t)CONTEXT(0);
        CHECK_OP(which, <, 4);
        seen[which]++;
        CHECK_FLAGS(c.flags, which < 2 ? FI_RECV : FI_SEND, which < 2 ? FI_SEND : FI_RECV);
    }
    for (int i = 0; i < 4; i++) CHECK_EQ(seen[i], 1);
    for (int i = 0; i < 2; i++) OK(fi_close(&ep[i]->fid));
}

CASE(waiting_and_new, 1,
     "fi_cq_read of a queue for both directions: pending and new entries, each once; an error among them ends a read",
     .stock = "shm: crashes when an endpoint that was never enabled is closed")
{
    enum { EACH = 6 };
    struct side *side = side_open((struct wants){.caps = FI_TAGGED, .disabled = true});
    struct fid_cq *cq = cq_open(side, (struct fi_cq_attr){.format = FI_CQ_FORMAT_TAGGED});
    adopt_cq(cq);
    fi_addr_t address;
    struct fid_ep *ep = endpoint_on(side, cq, &address);
    for (int i = 0; i < 60; i++) {
        /* Reads of 1 to 9 entries. Between zero and all receives are posted first; in every second turn one is too short. */
        size_t room = 1 + (size_t)i % 9;
        int posted_first = i % (EACH + 1), too_short = i % 2 ? i % EACH : -1;
        int ended = 0, sent[EACH] = {0}, received[EACH] = {0};
        char in[EACH][8];
        about("reads of %zu, %d receives first, number %d too short", room, posted_first, too_short);
        for (int j = 0; j < posted_first; j++)
            POST(fi_trecv(ep, in[j], j == too_short ? 4 : 8, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(100 + j)));
        for (int j = 0; j < EACH; j++) POST(fi_tsend(ep, "message", 8, NULL, address, 1, CONTEXT(j)));
        for (int j = posted_first; j < EACH; j++)
            POST(fi_trecv(ep, in[j], j == too_short ? 4 : 8, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(100 + j)));
        while (ended < 2 * EACH) {
            struct fi_cq_tagged_entry entries[9];
            ssize_t got = fi_cq_read(cq, entries, room);
            if (got == -FI_EAGAIN) {
                progress();
                continue;
            }
            if (got == -FI_EAVAIL) {
                struct fi_cq_err_entry error = WAIT_ERROR(cq);
                CHECK_EQ(error.err, FI_ETRUNC);
                CHECK_PTR(error.op_context, CONTEXT(100 + too_short));
                received[too_short]++;
                ended++;
                continue;
            }
            CHECK_OP(got, >, 0);
            CHECK_OP(got, <=, (ssize_t)room);
            for (ssize_t j = 0; j < got; j++) {
                uintptr_t which = (uintptr_t)entries[j].op_context - (uintptr_t)CONTEXT(0);
                if (entries[j].flags & FI_RECV) which -= 100;
                CHECK_OP(which, <, EACH);
                (entries[j].flags & FI_RECV ? received : sent)[which]++;
                if (entries[j].flags & FI_RECV) CHECK_OP((int)which, !=, too_short);
            }
            ended += (int)got;
        }
        for (int j = 0; j < EACH; j++) {
            CHECK_EQ(sent[j], 1);
            CHECK_EQ(received[j], 1);
            CHECK_EQ(memcmp(in[j], "message", j == too_short ? 4 : 8), 0);
        }
    }
    CHECK_NONE(cq, 2);
    OK(fi_close(&ep->fid));
}

/* ---- Queues that cannot be opened -------------------------------------------------------------------------------- */

CASE(wait_objects_not_had, 1, "contract: FI_WAIT_FD, FI_WAIT_SET and FI_WAIT_MUTEX_COND are -FI_ENOSYS", .needs = OUR_PROVIDER)
{
    struct side *side = side_open((struct wants){.disabled = true});
    static const enum fi_wait_obj OBJECTS[] = {FI_WAIT_FD, FI_WAIT_SET, FI_WAIT_MUTEX_COND};
    for (size_t i = 0; i < COUNT_OF(OBJECTS); i++) {
        struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = OBJECTS[i]};
        struct fid_cq *cq = NULL;
        about("wait object %d", OBJECTS[i]);
        CHECK_RC(fi_cq_open(side->domain, &attr, &cq, NULL), -FI_ENOSYS);
    }
}

CASE(attributes_not_known, 1, "fi_cq_open: an unknown format, wait object or flag is refused")
{
    struct side *side = side_open((struct wants){.disabled = true});
    struct fid_cq *cq = NULL;
    struct fi_cq_attr format = {.format = 77}, object = {.wait_obj = 77}, flags = {.flags = 1ull << 40};
    REFUSED(fi_cq_open(side->domain, &format, &cq, NULL));
    REFUSED(fi_cq_open(side->domain, &object, &cq, NULL));
    if (is_ours()) REFUSED(fi_cq_open(side->domain, &flags, &cq, NULL));
    struct fi_cq_attr affinity = {.flags = FI_AFFINITY, .signaling_vector = 0};
    int rc = fi_cq_open(side->domain, &affinity, &cq, NULL); /* a hint */
    if (is_ours()) OK(rc);
    if (rc == 0) OK(fi_close(&cq->fid));
}

CASE(wait_object_is_not_told, 1, "fi_control: FI_GETWAIT of FI_WAIT_UNSPEC may be refused, of FI_WAIT_NONE it is",
     .needs = OUR_PROVIDER)
{
    struct pair p = waiting_pair(FI_WAIT_NONE);
    void *object = NULL;
    REFUSED(fi_control(&p.a->tx->fid, FI_GETWAIT, &object));
    REFUSED(fi_control(&p.a->tx->fid, 4711, &object));
}
