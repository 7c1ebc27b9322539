/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The completions that operations write: selective completion, the levels, the default flags of an endpoint, injection by
 * flag, an alias. fi_endpoint(3) on fi_ep_bind, fi_control and fi_ep_alias; fi_cq(3) on completion semantics.
 */
#include "transfers.h"

/* ---- Selective completion ---------------------------------------------------------------------------------------- */

CASE(selective_sends, 1, "FI_SELECTIVE_COMPLETION on FI_TRANSMIT: only operations with FI_COMPLETION write an entry")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .bind_tx = FI_SELECTIVE_COMPLETION});
    char *out = buffer(40000), *in = buffer(40000);
    static const size_t LENGTHS[] = {0, 8, 300, 20000, 40000};
    FOR_KINDS(kind)
        for (size_t l = 0; l < COUNT_OF(LENGTHS); l++) {
            size_t bytes = LENGTHS[l];
            about("%s of %zu bytes", kind_name(kind), bytes);
            for (int i = 0; i < 4; i++) POST(receive(kind, p.b, from_any(in, bytes, 1, NULL)));
            POST(send_one(kind, p.a, to_peer(out, bytes, p.to_b, 1, CONTEXT(1))));
            POST(send_flagged(kind, p.a, to_peer(out, bytes, p.to_b, 1, CONTEXT(2)), 0));
            POST(send_flagged(kind, p.a, to_peer(out, bytes, p.to_b, 1, CONTEXT(3)), FI_COMPLETION));
            POST(send_with_data(kind, p.a, to_peer(out, bytes, p.to_b, 1, CONTEXT(4))));
            for (int i = 0; i < 4; i++) WAIT_RX(p.b);
            CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(3));
            CHECK_NONE(p.a->tx, 2);
        }
}

CASE(selective_by_default_flags, 1,
     "FI_SELECTIVE_COMPLETION with FI_COMPLETION among the endpoint's op_flags: plain sends write an entry; sendmsg "
     "uses its own flags")
{
    struct pair p = pair_open(
        (struct wants){.caps = FI_MSG, .bind_tx = FI_SELECTIVE_COMPLETION, .tx_op_flags = FI_COMPLETION});
    char in[8];
    for (int i = 0; i < 3; i++) POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_send(p.a->ep, "a", 1, NULL, p.to_b, CONTEXT(1)));
    POST(send_flagged(MESSAGE, p.a, to_peer("b", 1, p.to_b, 0, CONTEXT(2)), 0));
    POST(fi_inject(p.a->ep, "c", 1, p.to_b)); /* never */
    for (int i = 0; i < 3; i++) WAIT_RX(p.b);
    CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(1));
    CHECK_NONE(p.a->tx, 3);
}

CASE(selective_receives, 1,
     "FI_SELECTIVE_COMPLETION on FI_RECV: a receive without FI_COMPLETION takes its message and writes no entry")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .bind_rx = FI_SELECTIVE_COMPLETION});
    int in[3] = {0};
    FOR_KINDS(kind) {
        memset(in, 0, sizeof in);
        POST(receive(kind, p.b, from_any(&in[0], 4, 1, CONTEXT(0))));
        POST(receive_flagged(kind, p.b, from_any(&in[1], 4, 1, CONTEXT(1)), FI_COMPLETION));
        POST(receive_flagged(kind, p.b, from_any(&in[2], 4, 1, CONTEXT(2)), 0));
        for (int i = 1; i <= 3; i++) POST(inject(kind, p.a, to_peer(&i, 4, p.to_b, 1, NULL)));
        CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(1));
        volatile int *last = &in[2];
        UNTIL(*last == 3);
        CHECK_EQ(in[0], 1);
        CHECK_EQ(in[1], 2);
        CHECK_NONE(p.b->rx, 2);
    }
}

CASE(selective_errors_are_told, 1, "fi_ep_bind: a failed operation writes an error entry even without FI_COMPLETION",
     .stock = "tcp;ofi_rxm: reports no truncation then | shm: the error is negative")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .bind_rx = FI_SELECTIVE_COMPLETION});
    char in[8];
    FOR_KINDS(kind) {
        POST(receive(kind, p.b, from_any(in, 3, 1, NULL)));
        POST(inject(kind, p.a, to_peer("12345678", 8, p.to_b, 1, NULL)));
        CHECK_EQ(WAIT_ERROR(p.b->rx).err, FI_ETRUNC);
    }
}

CASE(completion_flag_is_ignored_otherwise, 1,
     "FI_COMPLETION: without FI_SELECTIVE_COMPLETION every operation writes one entry, with the flag or not")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG});
    char in[8];
    for (int i = 0; i < 3; i++) POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(send_flagged(MESSAGE, p.a, to_peer("b", 1, p.to_b, 0, CONTEXT(1)), 0));
    POST(send_flagged(MESSAGE, p.a, to_peer("b", 1, p.to_b, 0, CONTEXT(2)), FI_COMPLETION));
    POST(fi_send(p.a->ep, "b", 1, NULL, p.to_b, CONTEXT(3)));
    for (int i = 1; i <= 3; i++) CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(i));
    CHECK_NONE(p.a->tx, 2);
}

/* ---- Levels ------------------------------------------------------------------------------------------------------ */

static const uint64_t LEVELS[] = {FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
                                  FI_INJECT | FI_INJECT_COMPLETE, FI_INJECT | FI_DELIVERY_COMPLETE};
static const size_t LEVEL_LENGTHS[] = {0, 8, 60, 256, 300, 8192, 16385, 100000, 1 << 20};

CASE(levels, 1,
     "FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, by call and by op_flags: one entry each, the "
     "data whole, at every size",
     .stock = "shm: never completes FI_DELIVERY_COMPLETE within a process")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    char *out = buffer(1 << 20), *in = buffer(1 << 20);
    FOR_KINDS(kind)
        for (size_t v = 0; v < COUNT_OF(LEVELS); v++)
            for (size_t l = 0; l < COUNT_OF(LEVEL_LENGTHS); l++)
                for (int expected = 0; expected < 2; expected++) {
                    size_t bytes = LEVEL_LENGTHS[l];
                    if (LEVELS[v] & FI_INJECT && bytes > p.a->info->tx_attr->inject_size) continue;
                    about("%s of %zu bytes, level %zu, expected %d", kind_name(kind), bytes, v, expected);
                    pattern_fill(out, bytes, (unsigned)(v + l));
                    if (expected) POST(receive(kind, p.b, from_any(in, bytes, 1, NULL)));
                    POST(
                        send_flagged(kind, p.a, to_peer(out, bytes, p.to_b, 1, CONTEXT(v)), LEVELS[v] | FI_COMPLETION));
                    if (LEVELS[v] & FI_INJECT) memset(out, 0x99, bytes);
                    if (!expected) POST(receive(kind, p.b, from_any(in, bytes, 1, NULL)));
                    CHECK_EQ(WAIT_RX(p.b).len, bytes);
                    CHECK_PATTERN(in, bytes, (unsigned)(v + l));
                    CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(v));
                }
    CHECK_NONE(p.a->tx, 2);
}

CASE(levels_by_default_flags, 1, "fi_tx_attr: each level may be the default of an endpoint, and its messages complete",
     .stock = "shm: never completes FI_DELIVERY_COMPLETE within a process")
{
    for (size_t v = 0; v < 3; v++) {
        struct pair p = pair_open((struct wants){.caps = FI_TAGGED, .tx_op_flags = LEVELS[v]});
        char *out = buffer(100000), *in = buffer(100000);
        for (size_t l = 0; l < 8; l++) {
            POST(fi_trecv(p.b->ep, in, LEVEL_LENGTHS[l], NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
            POST(fi_tsend(p.a->ep, out, LEVEL_LENGTHS[l], NULL, p.to_b, 1, CONTEXT(l)));
            WAIT_RX(p.b);
            CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(l));
        }
    }
}

CASE(delivery_complete_means_delivered, 2, "FI_DELIVERY_COMPLETE: on completion the data are in the posted buffer",
     .stock = "tcp;ofi_rxm: completes when it is sent")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    unsigned char *in = shared(), *out = buffer(1 << 20);
    pass_around(side, 1 - rank(), 2); /* after this message, short messages keep their protocol */
    for (size_t l = 1; l < COUNT_OF(LEVEL_LENGTHS); l++) {
        size_t bytes = LEVEL_LENGTHS[l];
        about("%zu bytes", bytes);
        if (rank() == 1) POST(fi_trecv(side->ep, in, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        barrier();
        if (rank() == 0) {
            pattern_fill(out, bytes, (unsigned)l);
            POST(send_flagged(TAGGED_MESSAGE, side, to_peer(out, bytes, to(1), 1, NULL),
                              FI_DELIVERY_COMPLETE | FI_COMPLETION));
            WAIT_TX(side);
            CHECK_PATTERN(in, bytes, (unsigned)l);
        } else {
            WAIT_RX(side);
        }
        barrier();
    }
}

CASE(delivery_complete_after_the_target, 2,
     "FI_DELIVERY_COMPLETE: completes only after the target has the message and all earlier ones, whether or not it "
     "makes calls meanwhile",
     .stock = "tcp;ofi_rxm: completes when it is sent")
{
    enum { EACH = 3 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    unsigned char *in = shared(), *out = buffer(EACH * 8192);
    pass_around(side, 1 - rank(), 2);
    for (size_t l = 1; LEVEL_LENGTHS[l] <= 8192; l++) {
        size_t bytes = LEVEL_LENGTHS[l];
        about("%zu bytes", bytes);
        if (rank() == 1)
            for (int i = 0; i < EACH; i++)
                POST(fi_trecv(side->ep, in + (size_t)i * bytes, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        barrier();
        if (rank() == 0) {
            pattern_fill(out, EACH * bytes, (unsigned)l);
            for (int i = 0; i < EACH; i++)
                POST(send_flagged(TAGGED_MESSAGE, side, to_peer(out + (size_t)i * bytes, bytes, to(1), 1, CONTEXT(i)),
                                  FI_COMPLETION | (i == EACH - 1 ? FI_DELIVERY_COMPLETE : 0)));
            while (WAIT_TX(side).context != CONTEXT(EACH - 1)) continue;
            CHECK_PATTERN(in, EACH * bytes, (unsigned)l);
        } else {
            sleep_ms(20);
            for (int i = 0; i < EACH; i++) WAIT_RX(side);
        }
        barrier();
        while (rank() == 0 && TAKE(side, side->tx, &(struct completion){0})) continue;
    }
}

CASE(delivery_complete_of_unexpected, 2,
     "FI_DELIVERY_COMPLETE: the send of an unexpected message completes when the target has a copy, which later "
     "actions of the sender do not change",
     .stock = "tcp;ofi_rxm: completes when it is sent")
{
    enum { MESSAGES = 100 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    unsigned char *out = buffer(8192), *in = buffer(8192);
    pass_around(side, 1 - rank(), 2);
    for (size_t l = 1; LEVEL_LENGTHS[l] <= 8192; l++) {
        size_t bytes = LEVEL_LENGTHS[l];
        for (unsigned i = 0; rank() == 0 && i < MESSAGES; i++) {
            about("message %u of %zu bytes", i, bytes);
            pattern_fill(out, bytes, i);
            POST(send_flagged(TAGGED_MESSAGE, side, to_peer(out, bytes, to(1), i, CONTEXT(i)),
                              FI_DELIVERY_COMPLETE | FI_COMPLETION));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(i));
            memset(out, 0xee, bytes);
        }
        barrier();
        for (unsigned i = 0; rank() == 1 && i < MESSAGES; i++) {
            about("message %u of %zu bytes", i, bytes);
            POST(fi_trecv(side->ep, in, bytes, NULL, FI_ADDR_UNSPEC, i, 0, NULL));
            CHECK_EQ(WAIT_RX(side).len, bytes);
            CHECK_PATTERN(in, bytes, i);
        }
        barrier();
    }
}

CASE(delivery_complete_while_the_target_sleeps, 2,
     "FI_PROGRESS_AUTO: messages with FI_DELIVERY_COMPLETE complete while the target's program calls nothing",
     .stock = "tcp;ofi_rxm: makes no progress then | shm: makes no progress then")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED, .progress = FI_PROGRESS_AUTO});
    unsigned char *in = shared(), *out = buffer(8192);
    pass_around(side, 1 - rank(), 2);
    for (size_t l = 1; LEVEL_LENGTHS[l] <= 8192; l++) {
        size_t bytes = LEVEL_LENGTHS[l];
        about("%zu bytes", bytes);
        if (rank() == 1) POST(fi_trecv(side->ep, in, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        barrier_asleep();
        if (rank() == 0) {
            pattern_fill(out, bytes, (unsigned)l);
            POST(send_flagged(TAGGED_MESSAGE, side, to_peer(out, bytes, to(1), 1, CONTEXT(1)),
                              FI_DELIVERY_COMPLETE | FI_COMPLETION));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(1));
            CHECK_PATTERN(in, bytes, (unsigned)l);
        }
        barrier_asleep();
        if (rank() == 1) WAIT_RX(side);
    }
}

CASE(buffers_are_free_when_told, 1,
     "FI_INJECT_COMPLETE: on completion the buffer may be written, even before the message is received")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    char *out = buffer(100000), *in = buffer(100000);
    for (size_t l = 0; l < 8; l++) {
        size_t bytes = LEVEL_LENGTHS[l];
        about("%zu bytes", bytes);
        pattern_fill(out, bytes, 1);
        POST(send_flagged(TAGGED_MESSAGE, p.a, to_peer(out, bytes, p.to_b, 1, NULL),
                          FI_INJECT_COMPLETE | FI_COMPLETION));
        struct completion c;
        bool told = false;
        for (int i = 0; i < 200 && !told; i++) { /* the completion need not come before the message is received */
            progress();
            told = TAKE(p.a, p.a->tx, &c);
        }
        if (told) memset(out, 0, bytes);
        POST(fi_trecv(p.b->ep, in, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        WAIT_RX(p.b);
        if (!told) WAIT_TX(p.a);
        CHECK_PATTERN(in, bytes, 1);
    }
}

CASE(match_complete, 1, "FI_MATCH_COMPLETE: completes only after the message has matched a receive",
     .stock = "tcp;ofi_rxm: takes the flag, and completes when it is sent | shm: takes the flag, and completes when it "
              "is sent | sockets: takes the flag, and completes when it is sent")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED | FI_MSG});
    char *out = buffer(100000), *in = buffer(100000);
    FOR_KINDS(kind)
        for (size_t l = 0; l < 8; l++) {
            size_t bytes = LEVEL_LENGTHS[l];
            about("%s, %zu bytes", kind_name(kind), bytes);
            pattern_fill(out, bytes, (unsigned)l);
            POST(send_flagged(kind, p.a, to_peer(out, bytes, p.to_b, 1, CONTEXT(1)),
                              FI_MATCH_COMPLETE | FI_COMPLETION));
            CHECK_NONE(p.a->tx, 20);
            CHECK_NONE(p.b->rx, 1);
            POST(receive(kind, p.b, to_peer(in, bytes, FI_ADDR_UNSPEC, 1, NULL)));
            WAIT_RX(p.b);
            CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(1));
            CHECK_PATTERN(in, bytes, (unsigned)l);
        }
}

CASE(match_complete_posted, 1,
     "FI_MATCH_COMPLETE of the endpoint: completes once where the receive is posted; no state is left for later")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    char *out = buffer(100000), *in = buffer(100000);
    uint64_t flags = FI_TRANSMIT | FI_COMPLETION | FI_MATCH_COMPLETE;
    OK(fi_control(&p.a->ep->fid, FI_SETOPSFLAG, &flags));
    for (size_t l = 0; l < 8; l++) {
        size_t bytes = LEVEL_LENGTHS[l];
        about("%zu bytes", bytes);
        pattern_fill(out, bytes, (unsigned)l);
        POST(fi_trecv(p.b->ep, in, bytes, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
        POST(fi_tsend(p.a->ep, out, bytes, NULL, p.to_b, 1, CONTEXT(2)));
        CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(2));
        WAIT_RX(p.b);
        CHECK_PATTERN(in, bytes, (unsigned)l);
        CHECK_NONE(p.a->tx, 2);
    }
}

/* ---- The endpoint's flags, and an alias -------------------------------------------------------------------------- */

CASE(flags_of_the_endpoint, 1,
     "fi_control: FI_SETOPSFLAG sets the flags that FI_GETOPSFLAG returns, for FI_TRANSMIT or FI_RECV, not both",
     .needs = OUR_PROVIDER)
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG, .bind_tx = FI_SELECTIVE_COMPLETION});
    char in[8];
    uint64_t flags = FI_TRANSMIT | FI_COMPLETION | FI_DELIVERY_COMPLETE;
    for (int i = 0; i < 2; i++) POST(fi_recv(p.b->ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL));
    OK(fi_control(&p.a->ep->fid, FI_SETOPSFLAG, &flags));
    flags = FI_TRANSMIT;
    OK(fi_control(&p.a->ep->fid, FI_GETOPSFLAG, &flags));
    CHECK_FLAGS(flags, FI_COMPLETION | FI_DELIVERY_COMPLETE, FI_INJECT);
    POST(fi_send(p.a->ep, "a", 1, NULL, p.to_b, CONTEXT(1)));
    CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(1));
    flags = FI_TRANSMIT;
    OK(fi_control(&p.a->ep->fid, FI_SETOPSFLAG, &flags));
    POST(fi_send(p.a->ep, "a", 1, NULL, p.to_b, CONTEXT(2)));
    WAIT_RX(p.b);
    WAIT_RX(p.b);
    CHECK_NONE(p.a->tx, 2);
    flags = FI_TRANSMIT | FI_RECV;
    REFUSED(fi_control(&p.a->ep->fid, FI_GETOPSFLAG, &flags));
    REFUSED(fi_control(&p.a->ep->fid, FI_SETOPSFLAG, &flags));
    flags = FI_COMPLETION;
    REFUSED(fi_control(&p.a->ep->fid, FI_SETOPSFLAG, &flags));
    REFUSED(fi_control(&p.a->ep->fid, 4711, &flags));
}

CASE(alias, 1,
     "fi_ep_alias: the same endpoint with other default flags, which holds it open")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG, .bind_tx = FI_SELECTIVE_COMPLETION});
    struct fid_ep *other = NULL;
    REFUSED(fi_ep_alias(p.a->ep, &other, FI_COMPLETION));
    OK(fi_ep_alias(p.a->ep, &other, FI_TRANSMIT | FI_COMPLETION));
    char in[2][8];
    for (int i = 0; i < 2; i++) POST(fi_recv(p.b->ep, in[i], 8, NULL, FI_ADDR_UNSPEC, NULL));
    POST(fi_send(p.a->ep, "a", 1, NULL, p.to_b, CONTEXT(1)));
    POST(fi_send(other, "b", 1, NULL, p.to_b, CONTEXT(2)));
    WAIT_RX(p.b);
    WAIT_RX(p.b);
    CHECK_OP(in[0][0], ==, 'a');
    CHECK_OP(in[1][0], ==, 'b');
    CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(2));
    CHECK_NONE(p.a->tx, 2);
    CHECK_RC(fi_close(&p.a->ep->fid), -FI_EBUSY);
    OK(fi_close(&other->fid));
}
