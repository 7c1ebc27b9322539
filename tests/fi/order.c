/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Matching of messages and receives: order between a pair at all sizes, tags and ignored bits, directed receives, and very
 * long queues on either side. fi_msg(3), fi_tagged(3), fi_endpoint(3) on FI_ORDER_SAS.
 */
#include "transfers.h"

/* ---- Order ------------------------------------------------------------------------------------------------------- */

/* Returns a size above or below a threshold, in a mixed order. */
static size_t mixed_size(uint64_t *state)
{
    static const size_t SIZES[] = {0, 8, 40, 200, 300, 4096, 9000, 16385, 70000, 300000};
    return SIZES[random_next(state) % COUNT_OF(SIZES)];
}

enum { MIXED = 120, MIXED_BYTES = 300000 };

/* All messages have one tag: the i-th message must match the i-th receive. The receives may complete in another order. */
static void check_order(enum kind kind, struct pair p, int posted_before)
{
    static unsigned char *out[MIXED], *in[MIXED];
    static size_t lengths[MIXED];
    uint64_t state = 77;
    for (int i = 0; i < MIXED; i++) {
        lengths[i] = mixed_size(&state);
        out[i] = buffer(lengths[i]);
        in[i] = buffer(MIXED_BYTES);
        pattern_fill(out[i], lengths[i], (unsigned)i);
    }
    for (int i = 0; i < posted_before; i++) POST(receive(kind, p.b, from_any(in[i], MIXED_BYTES, 9, CONTEXT(i))));
    for (int i = 0; i < MIXED; i++) POST(send_one(kind, p.a, to_peer(out[i], lengths[i], p.to_b, 9, CONTEXT(i))));
    for (int i = posted_before; i < MIXED; i++) POST(receive(kind, p.b, from_any(in[i], MIXED_BYTES, 9, CONTEXT(i))));
    for (int n = 0; n < MIXED; n++) {
        struct completion c = WAIT_RX(p.b);
        int i = (int)((uintptr_t)c.context - (uintptr_t)CONTEXT(0));
        about("%s %d of %d, %d posted before", kind_name(kind), i, MIXED, posted_before);
        CHECK_OP(i, >=, 0);
        CHECK_OP(i, <, MIXED);
        CHECK_EQ(c.len, lengths[i]);
        CHECK_PATTERN(in[i], lengths[i], (unsigned)i);
    }
    for (int i = 0; i < MIXED; i++) WAIT_TX(p.a);
}

CASE(order_expected, 1, "FI_ORDER_SAS: messages of all sizes match receives in the order in which they were sent")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .order = FI_ORDER_SAS});
    check_order(MESSAGE, p, MIXED);
    check_order(TAGGED_MESSAGE, p, MIXED);
}

CASE(order_unexpected, 1,
     "FI_ORDER_SAS: unexpected messages of all sizes are received in the order in which they were sent")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .order = FI_ORDER_SAS});
    check_order(MESSAGE, p, 0);
    check_order(TAGGED_MESSAGE, p, 0);
}

CASE(order_half_expected, 1, "FI_ORDER_SAS: the order holds where receives run out in the middle")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED, .order = FI_ORDER_SAS});
    check_order(MESSAGE, p, MIXED / 2);
    check_order(TAGGED_MESSAGE, p, MIXED / 2);
}

/* Receives with exactly the room that their messages need: the provider keeps long and short receives in separate lists. */
CASE(order_of_exact_receives, 2, "FI_ORDER_SAS: with receives as long as their messages, some posted before, some after")
{
    enum { COUNT = 300, LONGEST = 40000 };
    static const size_t SIZES[] = {0, 8, 200, 1000, 2048, 2049, 4096, 9000, 16384, 16385, LONGEST};
    struct side *side = job_open((struct wants){.caps = FI_TAGGED, .order = FI_ORDER_SAS});
    uint64_t state = 99;
    static size_t lengths[COUNT];
    static unsigned char *bytes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        lengths[i] = SIZES[random_next(&state) % COUNT_OF(SIZES)];
        bytes[i] = buffer(lengths[i]);
        if (rank() == 0) pattern_fill(bytes[i], lengths[i], (unsigned)i);
    }
    /* In bursts: half of a burst's receives are posted before its messages arrive. */
    for (int at = 0; at < COUNT; at += 20) {
        for (int i = at; i < at + 10 && rank() == 1; i++)
            POST(fi_trecv(side->ep, bytes[i], lengths[i], NULL, FI_ADDR_UNSPEC, 5, 0, CONTEXT(i)));
        barrier();
        for (int i = at; i < at + 20 && rank() == 0; i++)
            POST(fi_tsend(side->ep, bytes[i], lengths[i], NULL, to(1), 5, CONTEXT(i)));
        for (int i = at + 10; i < at + 20 && rank() == 1; i++)
            POST(fi_trecv(side->ep, bytes[i], lengths[i], NULL, FI_ADDR_UNSPEC, 5, 0, CONTEXT(i)));
        for (int n = at; n < at + 20; n++) {
            struct completion c = rank() == 0 ? WAIT_TX(side) : WAIT_RX(side);
            int i = (int)((uintptr_t)c.context - (uintptr_t)CONTEXT(0));
            about("%d of %d", i, COUNT);
            CHECK_OP(i, >=, at);
            CHECK_OP(i, <, at + 20);
            if (rank() == 0) continue;
            CHECK_EQ(c.len, lengths[i]);
            CHECK_PATTERN(bytes[i], lengths[i], (unsigned)i);
        }
    }
    barrier();
}

CASE(order_between_processes, 2,
     "FI_ORDER_SAS: 400 messages of mixed sizes, data checked, receives posted late now and then")
{
    enum { COUNT = 400, BYTES = 100000 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED, .order = FI_ORDER_SAS});
    uint64_t state = 4711;
    unsigned char *memory = buffer(BYTES);
    static const size_t SIZES[] = {1, 8, 64, 300, 5000, 17000, 100000};
    for (int i = 0; i < COUNT; i++) {
        size_t bytes = SIZES[random_next(&state) % COUNT_OF(SIZES)];
        about("message %d of %zu bytes", i, bytes);
        if (rank() == 0) {
            unsigned char *own = buffer(bytes);
            pattern_fill(own, bytes, (unsigned)i);
            POST(fi_tsend(side->ep, own, bytes, NULL, to(1), 5, CONTEXT(i)));
            struct completion c;
            while (TAKE(side, side->tx, &c)) continue;
        } else {
            if (i % 97 == 96) sleep_ms(3);
            memset(memory, 0, bytes);
            POST(fi_trecv(side->ep, memory, BYTES, NULL, FI_ADDR_UNSPEC, 5, 0, CONTEXT(i)));
            CHECK_EQ(WAIT_RX(side).len, bytes);
            CHECK_PATTERN(memory, bytes, (unsigned)i);
        }
    }
    barrier();
    struct completion c;
    while (rank() == 0 && TAKE(side, side->tx, &c)) continue;
}

/* ---- Matching ---------------------------------------------------------------------------------------------------- */

CASE(to_oneself_first, 2,
     "contract: a message that a process sent to itself arrives before a message that another process sends as a "
     "consequence of later ones", .needs = OUR_PROVIDER)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    char in[2];
    for (int i = 0; i < 40; i++) {
        about("round %d", i);
        if (rank() == 0) { /* the path of the other sender's messages to rank 1 is set up */
            POST(fi_tinject(side->ep, "o", 1, to(1), 2));
            POST(fi_trecv(side->ep, in, 1, NULL, FI_ADDR_UNSPEC, 3, 0, NULL));
            WAIT_RX(side);
            POST(fi_tinject(side->ep, "o", 1, to(1), 2));
        } else {
            POST(fi_trecv(side->ep, in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, NULL));
            WAIT_RX(side);
            POST(fi_trecv(side->ep, in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, CONTEXT(2)));
            POST(fi_trecv(side->ep, in + 1, 1, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(1)));
            POST(fi_tinject(side->ep, "s", 1, to(1), 1));
            POST(fi_tinject(side->ep, "g", 1, to(0), 3));
            sleep_ms(5); /* rank 1 makes no call, like a process without a core */
            CHECK_PTR(WAIT_RX(side).context, CONTEXT(1));
            CHECK_PTR(WAIT_RX(side).context, CONTEXT(2));
        }
    }
}

CASE(kinds_do_not_mix, 1, "fi_tagged: an untagged message matches no tagged receive, and vice versa")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    int *in = buffer(2 * sizeof(int)), out[2] = {11, 22};
    for (int expected = 0; expected < 2; expected++) {
        if (expected) {
            POST(fi_trecv(p.b->ep, &in[1], 4, NULL, FI_ADDR_UNSPEC, 0, ~0ull, CONTEXT(1)));
            POST(fi_recv(p.b->ep, &in[0], 4, NULL, FI_ADDR_UNSPEC, CONTEXT(0)));
        }
        POST(fi_inject(p.a->ep, &out[0], 4, p.to_b));
        POST(fi_tinject(p.a->ep, &out[1], 4, p.to_b, 0));
        if (!expected) {
            for (int i = 0; i < 1000; i++) progress();
            POST(fi_trecv(p.b->ep, &in[1], 4, NULL, FI_ADDR_UNSPEC, 0, ~0ull, CONTEXT(1)));
            CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(1));
            POST(fi_recv(p.b->ep, &in[0], 4, NULL, FI_ADDR_UNSPEC, CONTEXT(0)));
            WAIT_RX(p.b);
        } else {
            WAIT_RX(p.b);
            WAIT_RX(p.b);
        }
        CHECK_EQ(in[0], 11);
        CHECK_EQ(in[1], 22);
        in[0] = in[1] = 0;
    }
}

CASE(tags_of_64_bits, 1,
     "fi_tagged: send_tag & ~ignore == recv_tag & ~ignore, for each of the 64 bits, expected and unexpected",
     .stock = "shm: skips messages behind an unmatched one")
{
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    if (p.a->info->ep_attr->mem_tag_format >> 63 == 0 && p.a->info->ep_attr->mem_tag_format >> 62 == 0)
        skip("not all 64 bits of a tag");
    uint64_t tag = 0x8123456789abcdef;
    int *in = buffer(2 * sizeof(int));
    for (int bit = 0; bit < 64; bit++)
        for (int expected = 0; expected < 2; expected++) {
            about("bit %d, expected %d", bit, expected);
            int other = 1, right = 2;
            uint64_t flipped = tag ^ 1ull << bit;
            if (expected) POST(fi_trecv(p.b->ep, &in[0], 4, NULL, FI_ADDR_UNSPEC, tag, 0, CONTEXT(1)));
            POST(fi_tinject(p.a->ep, &other, 4, p.to_b, flipped));
            POST(fi_tinject(p.a->ep, &right, 4, p.to_b, tag));
            if (!expected) POST(fi_trecv(p.b->ep, &in[0], 4, NULL, FI_ADDR_UNSPEC, tag, 0, CONTEXT(1)));
            struct completion c = WAIT_RX(p.b);
            CHECK_EQ(in[0], 2);
            CHECK_EQ(c.tag, tag);
            /* with the bit ignored, the flipped tag matches */
            POST(fi_trecv(p.b->ep, &in[1], 4, NULL, FI_ADDR_UNSPEC, tag, 1ull << bit, CONTEXT(2)));
            c = WAIT_RX(p.b);
            CHECK_EQ(in[1], 1);
            CHECK_EQ(c.tag, flipped); /* the tag that was sent */
            CHECK_PTR(c.context, CONTEXT(2));
        }
}

/* The model: an array of unexpected messages and one of posted receives, searched from the front. */
CASE(matching_is_that_of_a_plain_list, 1,
     "fi_tagged: receives are searched in posting order, messages in arrival order: 4,000 random steps against a "
     "plain list",
     .stock = "shm: skips messages behind an unmatched one")
{
    enum { STEPS = 4000, TAGS = 6, OPEN_MAX = 64 };
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    struct {
        uint64_t tag, ignore;
        int number;
    } posted[OPEN_MAX];
    struct {
        uint64_t tag;
        int number;
    } arrived[OPEN_MAX];
    int posted_count = 0, arrived_count = 0;
    static int in[STEPS];
    uint64_t state = 31337;
    for (int step = 0; step < STEPS; step++) {
        about("step %d, %d posted, %d unexpected", step, posted_count, arrived_count);
        bool send = random_next(&state) % 2;
        uint64_t tag = random_next(&state) % TAGS;
        int wanted_receive = -1, wanted_message = -1;
        if ((send && arrived_count == OPEN_MAX) || (!send && posted_count == OPEN_MAX)) send = !send;
        if (send) {
            POST(fi_tinject(p.a->ep, &step, sizeof step, p.to_b, tag));
            int at = 0;
            while (at < posted_count && (posted[at].tag ^ tag) & ~posted[at].ignore) at++;
            if (at < posted_count) {
                wanted_receive = posted[at].number;
                wanted_message = step;
                memmove(&posted[at], &posted[at + 1], sizeof posted[0] * (size_t)(--posted_count - at));
            } else {
                arrived[arrived_count].tag = tag;
                arrived[arrived_count++].number = step;
            }
        } else {
            static const uint64_t IGNORES[] = {0, 0, 1, 2, 7, ~0ull};
            uint64_t ignore = IGNORES[random_next(&state) % COUNT_OF(IGNORES)];
            in[step] = -1;
            POST(fi_trecv(p.b->ep, &in[step], sizeof(int), NULL, FI_ADDR_UNSPEC, tag, ignore, CONTEXT(step)));
            int at = 0;
            while (at < arrived_count && (arrived[at].tag ^ tag) & ~ignore) at++;
            if (at < arrived_count) {
                wanted_receive = step;
                wanted_message = arrived[at].number;
                memmove(&arrived[at], &arrived[at + 1], sizeof arrived[0] * (size_t)(--arrived_count - at));
            } else {
                posted[posted_count].tag = tag;
                posted[posted_count].ignore = ignore;
                posted[posted_count++].number = step;
            }
        }
        if (wanted_receive < 0) continue;
        CHECK_PTR(WAIT_RX(p.b).context, CONTEXT(wanted_receive));
        CHECK_EQ(in[wanted_receive], wanted_message);
    }
}

/* Protocols differ for short and long messages and receives, but matching is still that of one list. */
CASE(matching_does_not_depend_on_sizes, 1,
     "fi_tagged: short and long messages, short and long receives, some of them cancelled, messages with "
     "FI_DELIVERY_COMPLETE: 6,000 random steps against a plain list",
     .needs = OUR_PROVIDER)
{
    enum { STEPS = 6000, TAGS = 4, OPEN_MAX = 24, ROOM_MAX = 40000 };
    static const size_t LENGTHS[] = {0, 4, 8, 100, 105, 3000, 16384, 16385, 40000};
    static const size_t ROOMS[] = {0, 8, 104, 104, 16384, 16385, 40000};
    struct pair p = pair_open((struct wants){.caps = FI_TAGGED});
    struct {
        uint64_t tag, ignore;
        size_t room;
        int number, slot;
    } posted[OPEN_MAX];
    struct {
        uint64_t tag;
        size_t length;
        int number;
    } arrived[OPEN_MAX];
    unsigned char *in[OPEN_MAX + 1], *out = buffer(ROOM_MAX);
    int free_slots[OPEN_MAX + 1], free_count = 0;
    for (int i = 0; i <= OPEN_MAX; i++) {
        in[i] = buffer(ROOM_MAX);
        free_slots[free_count++] = i;
    }
    int posted_count = 0, arrived_count = 0;
    uint64_t state = 271828;
    for (int step = 0; step < STEPS; step++) {
        about("step %d, %d posted, %d unexpected", step, posted_count, arrived_count);
        /* Phases: short messages only, long messages for short receives, all mixed. Each begins with empty queues, so that no
         * message or receive of another phase is left. */
        int phase = step / 100 % 3;
        bool empties = step % 100 >= 50;
        size_t length = LENGTHS[random_next(&state) % (phase == 0 ? 5 : COUNT_OF(LENGTHS))];
        size_t room = ROOMS[random_next(&state) % (phase == 2 ? COUNT_OF(ROOMS) : 5)];
        uint64_t tag = random_next(&state) % TAGS;
        int what = (int)(random_next(&state) % 16);
        if (empties && posted_count + arrived_count == 0) continue;
        if (empties) what = posted_count > 0 ? 0 : 2;
        if (what == 0 && posted_count > 0) {
            int at = (int)(random_next(&state) % (uint64_t)posted_count);
            OK(fi_cancel(&p.b->ep->fid, CONTEXT(posted[at].number)));
            struct fi_cq_err_entry error = WAIT_ERROR(p.b->rx);
            CHECK_EQ(error.err, FI_ECANCELED);
            CHECK_PTR(error.op_context, CONTEXT(posted[at].number));
            free_slots[free_count++] = posted[at].slot;
            memmove(&posted[at], &posted[at + 1], sizeof posted[0] * (size_t)(--posted_count - at));
            continue;
        }
        bool send = what % 2;
        if ((send && arrived_count == OPEN_MAX) || (!send && posted_count == OPEN_MAX)) send = !send;
        int message = -1, receive = -1, slot = -1;
        if (send) {
            /* The data of an unexpected message may stay in the sender's memory until it is received. */
            unsigned char *from = arrived_count == 0 ? out : buffer(length);
            for (struct completion c; TAKE(p.a, p.a->tx, &c);) continue;
            pattern_fill(from, length, (unsigned)step);
            uint64_t flags = FI_COMPLETION | (what == 3 ? FI_DELIVERY_COMPLETE : 0);
            POST(send_flagged(TAGGED_MESSAGE, p.a, to_peer(from, length, p.to_b, tag, NULL), flags));
            int at = 0;
            while (at < posted_count && (posted[at].tag ^ tag) & ~posted[at].ignore) at++;
            if (at == posted_count) {
                arrived[arrived_count].tag = tag;
                arrived[arrived_count].length = length;
                arrived[arrived_count++].number = step;
                continue;
            }
            receive = posted[at].number, slot = posted[at].slot, room = posted[at].room, message = step;
            memmove(&posted[at], &posted[at + 1], sizeof posted[0] * (size_t)(--posted_count - at));
        } else {
            static const uint64_t IGNORES[] = {0, 0, 0, 1, ~0ull};
            uint64_t ignore = empties ? ~0ull : IGNORES[random_next(&state) % COUNT_OF(IGNORES)];
            slot = free_slots[--free_count], receive = step;
            POST(fi_trecv(p.b->ep, in[slot], room, NULL, FI_ADDR_UNSPEC, tag, ignore, CONTEXT(step)));
            int at = 0;
            while (at < arrived_count && (arrived[at].tag ^ tag) & ~ignore) at++;
            if (at == arrived_count) {
                posted[posted_count].tag = tag;
                posted[posted_count].ignore = ignore;
                posted[posted_count].room = room;
                posted[posted_count].slot = slot;
                posted[posted_count++].number = step;
                continue;
            }
            message = arrived[at].number, length = arrived[at].length, tag = arrived[at].tag;
            memmove(&arrived[at], &arrived[at + 1], sizeof arrived[0] * (size_t)(--arrived_count - at));
        }
        if (length > room) {
            struct fi_cq_err_entry error = WAIT_ERROR(p.b->rx);
            CHECK_EQ(error.err, FI_ETRUNC);
            CHECK_EQ(error.olen, length - room);
            CHECK_PTR(error.op_context, CONTEXT(receive));
        } else {
            struct completion c = WAIT_RX(p.b);
            CHECK_PTR(c.context, CONTEXT(receive));
            CHECK_EQ(c.len, length);
            CHECK_EQ(c.tag, tag);
        }
        CHECK_PATTERN(in[slot], length < room ? length : room, (unsigned)message);
        free_slots[free_count++] = slot;
    }
    for (struct completion c; TAKE(p.a, p.a->tx, &c);) continue;
}

/* ---- Directed receives ------------------------------------------------------------------------------------------- */

CASE(directed_receive, 3,
     "FI_DIRECTED_RECV: a receive from one address takes messages of that sender only, expected and unexpected")
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE});
    int *in = buffer(4 * sizeof(int)), mine = 100 + rank();
    FOR_KINDS(kind)
        for (int expected = 0; expected < 2; expected++) {
            about("%s, expected %d", kind_name(kind), expected);
            struct transfer from_2 = {.buf = &in[2], .len = 4, .peer = to(2), .context = CONTEXT(2)};
            struct transfer from_1 = {.buf = &in[1], .len = 4, .peer = to(1), .context = CONTEXT(1)};
            struct transfer from_0 = from_any(&in[0], 4, 0, CONTEXT(0));
            if (rank() == 0 && expected) {
                POST(receive(kind, side, from_2));
                POST(receive(kind, side, from_1));
                POST(receive(kind, side, from_0));
            }
            barrier();
            if (rank() == 1) POST(inject(kind, side, to_peer(&mine, 4, to(0), 0, NULL)));
            if (rank() == 1) POST(inject(kind, side, to_peer(&mine, 4, to(0), 0, NULL)));
            barrier();
            if (rank() == 2) POST(inject(kind, side, to_peer(&mine, 4, to(0), 0, NULL)));
            barrier();
            if (rank() == 0) {
                if (!expected) {
                    POST(receive(kind, side, from_2));
                    CHECK_EQ(WAIT_RX(side).source, to(2));
                    POST(receive(kind, side, from_0));
                    CHECK_EQ(WAIT_RX(side).source, to(1));
                    POST(receive(kind, side, from_1));
                    CHECK_EQ(WAIT_RX(side).source, to(1));
                } else {
                    for (int i = 0; i < 3; i++) {
                        struct completion c = WAIT_RX(side);
                        CHECK_EQ(c.source, c.context == CONTEXT(2) ? to(2) : to(1));
                    }
                }
                CHECK_EQ(in[2], 102);
                CHECK_EQ(in[1], 101);
                CHECK_EQ(in[0], 101);
                memset(in, 0, 3 * sizeof(int));
            }
            barrier();
        }
}

CASE(undirected_receive, 1, "fi_getinfo: without FI_DIRECTED_RECV the source of a receive is ignored")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_TAGGED});
    if (p.b->info->caps & FI_DIRECTED_RECV) return; /* granted although not requested */
    int in = 0, out = 5;
    FOR_KINDS(kind) {
        struct transfer r = from_any(&in, 4, 0, CONTEXT(1));
        r.peer = 0; /* b itself, which sends nothing */
        POST(receive(kind, p.b, r));
        POST(inject(kind, p.a, to_peer(&out, 4, p.to_b, 0, NULL)));
        WAIT_RX(p.b);
        CHECK_EQ(in, 5);
        in = 0;
    }
}

/* ---- Long lists -------------------------------------------------------------------------------------------------- */

CASE(deep_unexpected_in_order, 2, "fi_tagged: 20,000 unexpected messages, none lost, received in arrival order",
     .stock = "shm: -FI_EAGAIN for ever | sockets: too slow")
{
    enum { DEEP = 20000 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    if (rank() == 0) {
        for (int i = 0; i < DEEP; i++) POST(fi_tinject(side->ep, &i, sizeof i, to(1), (uint64_t)i));
        barrier();
        return;
    }
    barrier();
    for (int i = 0; i < DEEP; i++) {
        int in = -1;
        POST(fi_trecv(side->ep, &in, sizeof in, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL));
        struct completion c = WAIT_RX(side);
        CHECK_EQ(in, i);
        CHECK_EQ(c.tag, i);
    }
}

CASE(deep_unexpected_in_reverse, 2, "fi_tagged: 20,000 unexpected messages, received by exact tags, the last one first",
     .stock = "shm: -FI_EAGAIN for ever | sockets: too slow")
{
    enum { DEEP = 20000 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    if (rank() == 0) {
        for (int i = 0; i < DEEP; i++) POST(fi_tinject(side->ep, &i, sizeof i, to(1), (uint64_t)i));
        barrier();
        return;
    }
    barrier();
    for (int i = DEEP; i-- > 0;) {
        int in = -1;
        POST(fi_trecv(side->ep, &in, sizeof in, NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, NULL));
        WAIT_RX(side);
        CHECK_EQ(in, i);
    }
}

CASE(deep_posted, 2, "fi_tagged: 10,000 receives posted, matched by exact tags in reverse, each by its own message",
     .stock = "tcp;ofi_rxm: supports only a few thousand receives | shm: supports only a few thousand receives | sockets: "
              "too slow")
{
    enum { DEEP = 10000 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    static int in[DEEP];
    if (rank() == 1)
        for (int i = 0; i < DEEP; i++)
            POST(fi_trecv(side->ep, &in[i], sizeof in[i], NULL, FI_ADDR_UNSPEC, (uint64_t)i, 0, &in[i]));
    barrier();
    if (rank() == 0)
        for (int i = DEEP; i-- > 0;) POST(fi_tinject(side->ep, &i, sizeof i, to(1), (uint64_t)i));
    if (rank() == 1)
        for (int n = 0; n < DEEP; n++) {
            struct completion c = WAIT_RX(side);
            about("completion %d, tag %d", n, (int)c.tag);
            CHECK_OP(c.tag, <, DEEP);
            CHECK_PTR(c.context, &in[c.tag]);
            CHECK_EQ(in[c.tag], c.tag);
            in[c.tag] = -1; /* so each matches once */
        }
}
