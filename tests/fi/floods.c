/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * More messages than their target has room for. A message that finds no room stays with its sender, and keeps its place in
 * the order. fi_domain(3) on FI_RM_ENABLED, fi_msg(3), fi_cancel in fi_endpoint(3).
 */
#include "transfers.h"

/* The receiver makes no call while the other process sends, until its sends are refused. */
static void flood(size_t bytes, int count)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    unsigned char *memory = buffer(bytes + 8);
    if (rank() == 0) {
        unsigned char *out = buffer((size_t)count * bytes + 8);
        int sent = 0, done = 0;
        bool receiver_sleeps = true;
        long long until = now_ms() + WAIT_MS;
        while (done < count) {
            struct completion c;
            while (TAKE(side, side->tx, &c)) done++;
            if (sent < count) {
                pattern_fill(out + (size_t)sent * bytes, bytes, (unsigned)sent);
                ssize_t rc = fi_tsend(side->ep, out + (size_t)sent * bytes, bytes, NULL, to(1), 3, NULL);
                if (rc == 0) sent++;
                if (rc != 0 && rc != -FI_EAGAIN) OK(rc);
                if (receiver_sleeps && (rc == -FI_EAGAIN || sent == count)) {
                    receiver_sleeps = false;
                    barrier_asleep(); /* the receiver wakes up */
                }
            }
            if (now_ms() > until) FAIL("%d sent, %d completed of %d", sent, done, count);
        }
        return;
    }
    barrier_asleep();
    for (int i = 0; i < count; i++) {
        about("message %d", i);
        POST(fi_trecv(side->ep, memory, bytes + 8, NULL, FI_ADDR_UNSPEC, 3, 0, NULL));
        CHECK_EQ(WAIT_RX(side).len, bytes);
        CHECK_PATTERN(memory, bytes, (unsigned)i);
    }
}

CASE(flood_of_small, 2,
     "fi_msg, FI_RM_ENABLED: more small messages than all queues hold, to a sleeping process: none is lost",
     .stock = "sockets: too slow")
{
    flood(24, 30000);
}

CASE(flood_of_medium, 2,
     "fi_msg, FI_RM_ENABLED: more messages of 8 KiB than all queues hold, to a sleeping process: none is lost")
{
    flood(8192, 4000);
}

CASE(flood_of_large, 2,
     "fi_msg, FI_RM_ENABLED: many outstanding messages of 1 MiB, to a sleeping process: none is lost")
{
    flood(1 << 20, 100);
}

/* Number of messages sent by each sender, for the receiver. */
struct shared_flood {
    volatile int sent[4], done[4];
    volatile unsigned char cancelled[40000];
};

static const size_t LENGTHS[] = {8, 0, 100, 24, 300, 8, 20000, 60};

static size_t length_of(int number, size_t longest)
{
    size_t bytes = LENGTHS[(size_t)number % COUNT_OF(LENGTHS)];
    return bytes <= longest ? bytes : 8;
}

/* Sends `count` messages. The tag of each is its number, and its bytes are the pattern of its number. Every fifth message
 * that is short enough is injected. Publishes the numbers of sends and completions, and returns when all are complete. */
static void send_flood(struct side *side, int target, int count, size_t longest)
{
    struct shared_flood *far = shared();
    size_t total = 0;
    for (int i = 0; i < count; i++) total += length_of(i, longest);
    unsigned char *next = buffer(total);
    int sent = 0, done = 0;
    while (done < count) {
        struct completion c;
        while (TAKE(side, side->tx, &c)) done++;
        if (sent < count) {
            size_t bytes = length_of(sent, longest);
            pattern_fill(next, bytes, (unsigned)sent);
            bool inject = sent % 5 == 0 && bytes <= 60;
            ssize_t rc = inject ? fi_tinject(side->ep, next, bytes, to(target), (uint64_t)sent)
                                : fi_tsend(side->ep, next, bytes, NULL, to(target), (uint64_t)sent, NULL);
            if (rc == 0) {
                if (inject) memset(next, 0xee, bytes);
                next += bytes;
                sent++;
                done += inject;
            } else if (rc != -FI_EAGAIN) {
                OK(rc);
            }
        }
        far->sent[rank()] = sent;
        far->done[rank()] = done;
    }
}

/* Makes progress without receiving until all senders have stalled for a while. */
static void wait_until_senders_stall(int senders)
{
    struct shared_flood *far = shared();
    int before = -1;
    for (long long since = now_ms(); now_ms() - since < 200;) {
        int now = 0;
        for (int i = 0; i < senders; i++) now += far->sent[i] + far->done[i];
        if (now != before || now == 0) {
            before = now;
            since = now_ms();
        }
        progress();
    }
}

static void receive_flood(struct side *side, int senders, int count, size_t longest)
{
    unsigned char *in = buffer(longest + 8);
    int next[4] = {0};
    for (int i = 0; i < senders * count; i++) {
        POST(fi_trecv(side->ep, in, longest + 8, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL));
        struct completion c = WAIT_RX(side);
        int from = -1;
        for (int r = 0; r < senders; r++)
            if (c.source == to(r)) from = r;
        about("message %d, from %d with tag %d", i, from, (int)c.tag);
        CHECK_OP(from, >=, 0);
        CHECK_EQ(c.tag, next[from]);
        int number = next[from]++;
        size_t bytes = length_of(number, longest);
        CHECK_EQ(c.len, bytes);
        CHECK_PATTERN(in, bytes, (unsigned)number);
    }
}

/* The receiver polls but posts no receive: messages are unexpected until no queue has room. */
static void flood_unexpected(int senders, int count, size_t longest)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_DIRECTED_RECV | FI_SOURCE});
    if (rank() < senders) {
        send_flood(side, senders, count, longest);
    } else {
        wait_until_senders_stall(senders);
        receive_flood(side, senders, count, longest);
    }
    barrier();
}

CASE(flood_of_unexpected, 2,
     "contract: 36,000 messages to a process that polls and receives none until sends are refused: all arrive, in "
     "their order",
     .needs = OUR_PROVIDER)
{
    flood_unexpected(1, 36000, 300);
}

CASE(flood_of_unexpected_from_several, 4,
     "contract: three processes send 12,000 messages each to one that receives none until sends are refused: all "
     "arrive, each sender's in order",
     .needs = OUR_PROVIDER)
{
    flood_unexpected(3, 12000, 20000);
}

CASE(flood_of_posted, 2,
     "contract: 9,000 receives are posted, their process sleeps, and their messages arrive: all are received, in "
     "their order",
     .needs = OUR_PROVIDER)
{
    enum { COUNT = 9000 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    static int in[COUNT];
    if (rank() == 0) {
        barrier();
        static int out[COUNT];
        struct completion c;
        int done = 0;
        bool sleeps = true;
        for (int i = 0; i < COUNT;) {
            out[i] = i;
            ssize_t rc = fi_tsend(side->ep, &out[i], sizeof out[i], NULL, to(1), 7, NULL);
            if (rc == 0) i++;
            if (rc != 0 && rc != -FI_EAGAIN) OK(rc);
            while (TAKE(side, side->tx, &c)) done++;
            if (sleeps && (rc == -FI_EAGAIN || i == COUNT)) {
                sleeps = false;
                barrier_asleep();
            }
        }
        while (done < COUNT) {
            WAIT_TX(side);
            done++;
        }
        return;
    }
    for (int i = 0; i < COUNT; i++)
        POST(fi_trecv(side->ep, &in[i], sizeof in[i], NULL, FI_ADDR_UNSPEC, 7, 0, &in[i]));
    barrier();
    barrier_asleep();
    for (int i = 0; i < COUNT; i++) {
        about("message %d", i);
        WAIT_RX(side);
        CHECK_EQ(in[i], i);
    }
}

CASE(closed_after_a_flood, 2,
     "contract: 34,000 messages are injected to a process that receives none, and their endpoint is closed: all arrive",
     .needs = OUR_PROVIDER)
{
    enum { COUNT = 34000 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    struct shared_flood *far = shared();
    if (rank() == 0) {
        for (int i = 0; i < COUNT; i++) {
            ssize_t rc;
            while ((rc = fi_tinject(side->ep, &i, sizeof i, to(1), 7)) == -FI_EAGAIN) progress();
            OK(rc);
            far->sent[0] = i + 1;
        }
        side_close(side);
        return;
    }
    wait_until_senders_stall(1);
    for (int i = 0; i < COUNT; i++) {
        int in = -1;
        about("message %d", i);
        POST(fi_trecv(side->ep, &in, sizeof in, NULL, FI_ADDR_UNSPEC, 7, 0, NULL));
        WAIT_RX(side);
        CHECK_EQ(in, i);
    }
}

CASE(cancelled_in_a_flood, 2,
     "fi_cancel: of sends that find no room some are cancelled; exactly those end with FI_ECANCELED and do not arrive",
     .needs = OUR_PROVIDER)
{
    enum { COUNT = 36000 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    struct shared_flood *far = shared();
    if (rank() == 0) {
        static int out[COUNT];
        static unsigned char over[COUNT];
        int sent = 0, ended = 0;
        bool tried = false;
        long long since = now_ms();
        while (!tried || ended < sent) {
            struct fi_cq_tagged_entry entry;
            ssize_t rc = fi_cq_read(side->tx, &entry, 1);
            if (rc == -FI_EAVAIL) {
                struct fi_cq_err_entry e = {0};
                CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
                CHECK_EQ(e.err, FI_ECANCELED);
                int number = (int)((int *)e.op_context - out);
                CHECK(tried);
                CHECK_OP(number % 3, ==, 0);
                far->cancelled[number] = 1;
                over[number] = 1;
                ended++;
            } else if (rc == 1) {
                over[(int *)entry.op_context - out] = 1;
                ended++;
                since = now_ms();
            }
            if (!tried && sent < COUNT) {
                out[sent] = sent;
                rc = fi_tsend(side->ep, &out[sent], sizeof out[sent], NULL, to(1), 7, &out[sent]);
                if (rc == 0) {
                    sent++;
                    since = now_ms();
                } else if (rc != -FI_EAGAIN) {
                    OK(rc);
                }
            }
            far->sent[0] = sent;
            if (!tried && (sent == COUNT || now_ms() - since > 100)) {
                tried = true;
                for (int i = 0; i < sent; i += 3) {
                    if (over[i]) continue;
                    ssize_t rc = fi_cancel(&side->ep->fid, &out[i]);
                    if (rc != 0 && rc != -FI_ENOENT) OK(rc);
                }
                far->done[0] = 1;
            }
        }
        far->done[1] = 1;
        barrier();
        return;
    }
    while (!far->done[0]) progress();
    int next = 0;
    for (;;) {
        int in = -1;
        struct completion c;
        POST(fi_trecv(side->ep, &in, sizeof in, NULL, FI_ADDR_UNSPEC, 7, 0, NULL));
        bool came = false;
        while (!(came = TAKE(side, side->rx, &c))) {
            if (far->done[1]) { /* the cancelled ones are known; all others arrive */
                while (next < COUNT && far->cancelled[next]) next++;
                if (next >= far->sent[0]) break;
            }
            progress();
        }
        for (long long until = now_ms() + 100; !came && now_ms() < until;) came = TAKE(side, side->rx, &c);
        if (!came) break;
        while (next < COUNT && far->cancelled[next]) next++;
        CHECK_EQ(in, next);
        next++;
    }
    while (next < far->sent[0] && far->cancelled[next]) next++;
    CHECK_EQ(next, far->sent[0]);
    barrier();
}
