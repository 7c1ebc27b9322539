/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Messages that arrive before their receive. The provider keeps them in different places, depending on their number, their
 * length, and the receives posted meanwhile. A receive matches as if they were one list. fi_msg(3), fi_tagged(3),
 * fi_trigger(3).
 */
#include "transfers.h"

enum { EARLY_SHORTS = 100, UNEXPECTED_LONG = 50000, EARLY_AFTER = 20, UNEXPECTED = EARLY_SHORTS + 1 + EARLY_AFTER };

static size_t unexpected_length(int number)
{
    return number == EARLY_SHORTS ? UNEXPECTED_LONG : number % 10 == 9 ? 2000 : (size_t)(number % 40);
}

/* Sends the unexpected messages. The peer has completed some receives before; if `waits` is not NULL, it has also posted
 * one receive that they do not match. */
static void send_unexpected(enum kind kind, struct pair p, int *waits)
{
    for (int i = 0; i < 2; i++) {
        static int first;
        POST(receive(kind, p.b, from_any(&first, 4, 77, CONTEXT(500))));
        POST(inject(kind, p.a, to_peer(&first, 4, p.to_b, 77, NULL)));
        CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(500));
    }
    if (waits) POST(receive(kind, p.b, from_any(waits, 4, 78, CONTEXT(501))));
    for (int i = 0; i < UNEXPECTED; i++) {
        unsigned char *out = buffer(UNEXPECTED_LONG);
        pattern_fill(out, unexpected_length(i), (unsigned)i);
        struct transfer t = to_peer(out, unexpected_length(i), p.to_b, (uint64_t)(i % 5), CONTEXT(i));
        t.data = (uint64_t)i;
        POST(send_with_data(kind, p.a, t));
        for (int k = 0; k < 20; k++) progress();
    }
}

static void check_unexpected(struct completion c, const unsigned char *in, int number)
{
    about("message %d", number);
    CHECK_EQ(c.len, unexpected_length(number));
    CHECK_EQ(c.data, number);
    CHECK_PATTERN(in, unexpected_length(number), (unsigned)number);
}

CASE(unexpected_behind_receives, 1,
     "fi_tagged: 121 unexpected messages, short and long, behind a receive that matches none of them: found by tag, "
     "then in arrival order, by receives of every form",
     .stock = "tcp;ofi_rxm: a peek reports no data | shm: skips messages behind an unmatched one | sockets: a peek "
              "reports no data")
{
    static const char *const FORMS[] = {"fi_trecv", "fi_trecvv", "fi_trecvmsg", "FI_CLAIM"};
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED, .mode = FI_CONTEXT});
    unsigned char *in = buffer(UNEXPECTED_LONG);
    static struct fi_context context;
    for (size_t form = 0; form < COUNT_OF(FORMS); form++) {
        int waits = -1;
        send_unexpected(TAGGED_MESSAGE, p, &waits);
        bool is_gone[UNEXPECTED] = {false};
        for (int turn = 0; turn < UNEXPECTED; turn++) {
            /* A few by tag from the middle of the list, then the oldest. */
            uint64_t tag = turn < 15 ? (uint64_t)(turn * 3 % 5) : 0, ignore = turn < 15 ? 0 : 7;
            int number = 0;
            while (is_gone[number] || (((uint64_t)(number % 5) ^ tag) & ~ignore)) number++;
            is_gone[number] = true;
            struct iovec halves[2] = {{in, 7}, {in + 7, UNEXPECTED_LONG - 7}};
            struct transfer t = from_any(in, UNEXPECTED_LONG, tag, &context);
            t.ignore = ignore;
            if (form == 1) t.iov = halves, t.count = 2;
            struct transfer peek = {.peer = FI_ADDR_UNSPEC, .tag = tag, .ignore = ignore, .context = &context};
            switch (form) {
            case 0: POST(receive(TAGGED_MESSAGE, p.b, t)); break;
            case 1: POST(receive_vector(TAGGED_MESSAGE, p.b, t)); break;
            case 2: POST(receive_flagged(TAGGED_MESSAGE, p.b, t, FI_COMPLETION)); break;
            default:
                POST(receive_flagged(TAGGED_MESSAGE, p.b, peek, FI_PEEK));
                CHECK_EQ(WAIT_RX(p.b).len, unexpected_length(number));
                POST(receive_flagged(TAGGED_MESSAGE, p.b, peek, FI_PEEK | FI_CLAIM));
                CHECK_EQ(WAIT_RX(p.b).data, number);
                POST(receive_flagged(TAGGED_MESSAGE, p.b, t, FI_CLAIM));
            }
            about("%s", FORMS[form]);
            struct completion c = WAIT_RX(p.b);
            CHECK_EQ(c.tag, number % 5);
            check_unexpected(c, in, number);
        }
        POST(fi_tinject(p.a->ep, &waits, 4, p.to_b, 78));
        CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(501));
        for (int i = 0; i < UNEXPECTED; i++) WAIT_TX(p.a);
    }
}

CASE(unexpected_into_one_buffer, 1,
     "FI_MULTI_RECV: 121 unexpected messages, short and long, that arrived after a receive had been filled: in order "
     "into one buffer")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_MULTI_RECV});
    unsigned char *space = buffer(1 << 20);
    send_unexpected(MESSAGE, p, NULL);
    POST(receive_flagged(MESSAGE, p.b, from_any(space, 1 << 20, 0, CONTEXT(1)), FI_MULTI_RECV));
    /* The payload of the long message is fetched, so it may complete after later messages. */
    bool is_gone[UNEXPECTED] = {false};
    for (int i = 0; i < UNEXPECTED; i++) {
        struct completion c = WAIT_RX(p.b);
        CHECK_OP(c.data, <, UNEXPECTED);
        CHECK(!is_gone[c.data]);
        is_gone[c.data] = true;
        check_unexpected(c, c.buf, (int)c.data);
    }
}

CASE(unexpected_before_deferred_work, 1,
     "FI_QUEUE_WORK: receives started by the NIC match messages that arrived before the first work was queued, short "
     "and long, in order")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED | FI_TRIGGER});
    struct fid_cntr *trigger = counter_open(p.b, FI_WAIT_NONE), *done = counter_open(p.b, FI_WAIT_UNSPEC);
    unsigned char *in = buffer(UNEXPECTED_LONG);
    send_unexpected(TAGGED_MESSAGE, p, NULL);
    static struct fi_op_tagged op[UNEXPECTED];
    static struct fi_deferred_work work[UNEXPECTED];
    struct iovec iov = {in, UNEXPECTED_LONG};
    for (int i = 0; i < UNEXPECTED; i++) {
        about("message %d", i);
        op[i] = (struct fi_op_tagged){
            .ep = p.b->ep, .msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .ignore = ~0ull, .context = &op[i]}};
        work[i] = (struct fi_deferred_work){.threshold = (uint64_t)i + 1,
                                            .triggering_cntr = trigger,
                                            .completion_cntr = done,
                                            .op_type = FI_OP_TRECV,
                                            .op = {.tagged = &op[i]}};
        if (i % 3 == 2) { /* the program itself receives one in three */
            POST(fi_trecv(p.b->ep, in, UNEXPECTED_LONG, NULL, FI_ADDR_UNSPEC, 0, ~0ull, CONTEXT(i)));
            CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(i));
            OK(fi_cntr_add(trigger, 1));
        } else {
            OK(fi_control(&p.b->domain->fid, FI_QUEUE_WORK, &work[i]));
            OK(fi_cntr_add(trigger, 1));
            CHECK_COUNTER(done, (uint64_t)(i / 3 * 2 + i % 3 + 1));
        }
        CHECK_PATTERN(in, unexpected_length(i), (unsigned)i);
    }
}
