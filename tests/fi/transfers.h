/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Calls for untagged and tagged messages under the same names: a case about both runs twice, with FOR_KINDS. */
#ifndef FI_TESTS_TRANSFERS_H
#define FI_TESTS_TRANSFERS_H

#include "suite.h"

enum kind { MESSAGE, TAGGED_MESSAGE };

#define FOR_KINDS(kind) for (enum kind kind = MESSAGE; kind <= TAGGED_MESSAGE; kind++)

static inline const char *kind_name(enum kind kind) { return kind == MESSAGE ? "message" : "tagged message"; }
static inline uint64_t kind_caps(enum kind kind) { return kind == MESSAGE ? FI_MSG : FI_TAGGED; }

/* Arguments of a send or receive: a vector or a buffer, and the others. */
struct transfer {
    const void *buf;
    size_t len;
    const struct iovec *iov; /* instead of buf, if count is not 0 */
    size_t count;
    fi_addr_t peer; /* FI_ADDR_UNSPEC to receive from any */
    uint64_t tag, ignore;
    uint64_t data;
    void *context;
};

static inline ssize_t send_one(enum kind k, struct side *s, struct transfer t)
{
    return k == MESSAGE ? fi_send(s->ep, t.buf, t.len, NULL, t.peer, t.context)
                        : fi_tsend(s->ep, t.buf, t.len, NULL, t.peer, t.tag, t.context);
}

static inline ssize_t send_vector(enum kind k, struct side *s, struct transfer t)
{
    return k == MESSAGE ? fi_sendv(s->ep, t.iov, NULL, t.count, t.peer, t.context)
                        : fi_tsendv(s->ep, t.iov, NULL, t.count, t.peer, t.tag, t.context);
}

static inline ssize_t send_flagged(enum kind k, struct side *s, struct transfer t, uint64_t flags)
{
    struct iovec whole = {(void *)t.buf, t.len};
    const struct iovec *iov = t.count ? t.iov : &whole;
    size_t count = t.count ? t.count : 1;
    if (k == MESSAGE) {
        struct fi_msg msg = {.msg_iov = iov, .iov_count = count, .addr = t.peer, .context = t.context, .data = t.data};
        return fi_sendmsg(s->ep, &msg, flags);
    }
    struct fi_msg_tagged msg = {
        .msg_iov = iov, .iov_count = count, .addr = t.peer, .tag = t.tag, .context = t.context, .data = t.data};
    return fi_tsendmsg(s->ep, &msg, flags);
}

static inline ssize_t send_with_data(enum kind k, struct side *s, struct transfer t)
{
    return k == MESSAGE ? fi_senddata(s->ep, t.buf, t.len, NULL, t.data, t.peer, t.context)
                        : fi_tsenddata(s->ep, t.buf, t.len, NULL, t.data, t.peer, t.tag, t.context);
}

static inline ssize_t inject(enum kind k, struct side *s, struct transfer t)
{
    return k == MESSAGE ? fi_inject(s->ep, t.buf, t.len, t.peer) : fi_tinject(s->ep, t.buf, t.len, t.peer, t.tag);
}

static inline ssize_t inject_with_data(enum kind k, struct side *s, struct transfer t)
{
    return k == MESSAGE ? fi_injectdata(s->ep, t.buf, t.len, t.data, t.peer)
                        : fi_tinjectdata(s->ep, t.buf, t.len, t.data, t.peer, t.tag);
}

static inline ssize_t receive(enum kind k, struct side *s, struct transfer t)
{
    return k == MESSAGE ? fi_recv(s->ep, (void *)t.buf, t.len, NULL, t.peer, t.context)
                        : fi_trecv(s->ep, (void *)t.buf, t.len, NULL, t.peer, t.tag, t.ignore, t.context);
}

static inline ssize_t receive_vector(enum kind k, struct side *s, struct transfer t)
{
    return k == MESSAGE ? fi_recvv(s->ep, t.iov, NULL, t.count, t.peer, t.context)
                        : fi_trecvv(s->ep, t.iov, NULL, t.count, t.peer, t.tag, t.ignore, t.context);
}

static inline ssize_t receive_flagged(enum kind k, struct side *s, struct transfer t, uint64_t flags)
{
    struct iovec whole = {(void *)t.buf, t.len};
    const struct iovec *iov = t.count ? t.iov : &whole;
    size_t count = t.count ? t.count : 1;
    if (k == MESSAGE) {
        struct fi_msg msg = {.msg_iov = iov, .iov_count = count, .addr = t.peer, .context = t.context};
        return fi_recvmsg(s->ep, &msg, flags);
    }
    struct fi_msg_tagged msg = {
        .msg_iov = iov, .iov_count = count, .addr = t.peer, .tag = t.tag, .ignore = t.ignore, .context = t.context};
    return fi_trecvmsg(s->ep, &msg, flags);
}

static inline struct transfer from_any(void *buf, size_t len, uint64_t tag, void *context)
{
    return (struct transfer){.buf = buf, .len = len, .peer = FI_ADDR_UNSPEC, .tag = tag, .context = context};
}

static inline struct transfer to_peer(const void *buf, size_t len, fi_addr_t peer, uint64_t tag, void *context)
{
    return (struct transfer){.buf = buf, .len = len, .peer = peer, .tag = tag, .context = context};
}

#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))

/* Sends one tagged message to `peer` and receives one from it, whatever else completes meanwhile. */
static inline void pass_around(struct side *side, int peer, uint64_t tag)
{
    char in[64], out[64] = "still here";
    POST(fi_trecv(side->ep, in, 64, NULL, FI_ADDR_UNSPEC, tag, 0, CONTEXT(9)));
    POST(fi_tsend(side->ep, out, 64, NULL, to(peer), tag, CONTEXT(9)));
    CHECK_PTR(WAIT_RX(side).context, CONTEXT(9));
    CHECK_EQ(strcmp(in, "still here"), 0);
    long long until = now_ms() + WAIT_MS;
    struct fi_cq_tagged_entry entry;
    for (;;) { /* completions of sends to the dead may come before ours */
        ssize_t rc = fi_cq_read(side->tx, &entry, 1);
        struct fi_cq_err_entry e = {0};
        if (rc == -FI_EAVAIL) CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
        if (rc == 1 && entry.op_context == CONTEXT(9)) break;
        if (now_ms() > until) FAIL("no completion of the send");
        progress();
    }
}

#endif
