/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Processes that die: the errors of their peers, which continue; a process in the place of a dead one. fi_errno(3), and
 * the provider's promises beyond the manual.
 */
#include "transfers.h"

#include <sched.h>


/* Sends `bytes` to the dead process until a send fails, by its call or its completion. */
static int error_of_sends(struct side *side, int dead, size_t bytes)
{
    char *out = buffer(bytes);
    long long until = now_ms() + WAIT_MS;
    int posted = 0, done = 0;
    while (now_ms() < until) {
        if (posted - done < 64) {
            ssize_t rc = fi_tsend(side->ep, out, bytes, NULL, to(dead), 1, CONTEXT(1));
            if (rc == 0) posted++;
            if (rc != 0 && rc != -FI_EAGAIN) return (int)-rc;
        }
        struct fi_cq_tagged_entry entry;
        ssize_t rc = fi_cq_read(side->tx, &entry, 1);
        if (rc == 1) done++;
        if (rc == -FI_EAVAIL) {
            struct fi_cq_err_entry e = {0};
            CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
            return e.err;
        }
        progress();
    }
    FAIL("%d sends of %zu bytes to a process that is dead: %d done, no error within %d ms", posted, bytes, done,
         WAIT_MS);
}

static void check_death_error(int error)
{
    if (is_ours() && error != FI_EHOSTDOWN && error != FI_EHOSTUNREACH)
        FAIL("the error is %d (%s), wanted FI_EHOSTDOWN or FI_EHOSTUNREACH", error, fi_strerror(error));
    CHECK_OP(error, >, 0);
}

static void sends_to_the_dead(size_t bytes)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    if (rank() == 2) die_now(false);
    if (rank() == 0) check_death_error(error_of_sends(side, 2, bytes));
    barrier();
    pass_around(side, 1 - rank(), 77);
}

CASE(small_sends_to_the_dead, 3,
     "contract: sends of 8 bytes to a killed process end in error, and its peers keep communicating",
     .stock = "tcp;ofi_rxm: -FI_EAGAIN for ever | shm: -FI_EAGAIN for ever")
{
    sends_to_the_dead(8);
}

CASE(large_sends_to_the_dead, 3,
     "contract: sends of 1 MiB to a killed process end in error, and its peers keep communicating",
     .stock = "tcp;ofi_rxm: -FI_EAGAIN for ever | shm: -FI_EAGAIN for ever")
{
    sends_to_the_dead(1 << 20);
}

CASE(killed_with_a_flood_before_it, 3,
     "contract: a process without room for arriving messages is killed: every send that it had not accepted ends in "
     "error",
     .needs = OUR_PROVIDER)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    volatile int *stalled = shared();
    if (rank() == 2)
        for (;;) progress(); /* until it is killed */
    if (rank() == 0) {
        static int out[40000];
        int sent = 0, ended = 0, failed = 0;
        bool killed = false;
        long long since = now_ms();
        while (!killed || ended < sent) {
            struct fi_cq_tagged_entry entry;
            ssize_t rc = fi_cq_read(side->tx, &entry, 1);
            if (rc == 1) {
                if (!is_ours()) CHECK_EQ(failed, 0);
                ended++;
                since = now_ms();
            } else if (rc == -FI_EAVAIL) {
                struct fi_cq_err_entry e = {0};
                CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
                check_death_error(e.err);
                ended++;
                failed++;
                since = now_ms();
            }
            if (!killed && sent < 40000) {
                rc = fi_tsend(side->ep, &out[sent], 4, NULL, to(2), 1, &out[sent]);
                if (rc == 0) since = now_ms();
                if (rc == 0) sent++;
                if (rc != 0 && rc != -FI_EAGAIN) OK(rc);
            }
            if (!killed && now_ms() - since > 200) {
                killed = true;
                kill_rank(2, false);
                since = now_ms();
            }
            if (now_ms() - since > WAIT_MS) FAIL("%d sent, %d ended, %d of them in error", sent, ended, failed);
        }
        *stalled = 1;
    }
    barrier();
    pass_around(side, 1 - rank(), 77);
}

CASE(killed_before_it_takes_them, 3,
     "contract: messages with FI_DELIVERY_COMPLETE wait at a process that is killed before it makes a call: each ends "
     "in error, and the messages to another peer arrive",
     .needs = OUR_PROVIDER)
{
    enum { MESSAGES = 50 };
    struct side *side = job_open((struct wants){.caps = FI_TAGGED});
    char *in = buffer(8 * MESSAGES);
    if (rank() == 1)
        for (int i = 0; i < MESSAGES; i++) POST(fi_trecv(side->ep, in + 8 * i, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
    barrier_asleep();
    if (rank() == 2)
        for (;;) sleep_ms(100); /* until it is killed */
    if (rank() == 0) {
        for (int i = 0; i < 2 * MESSAGES; i++)
            POST(send_flagged(TAGGED_MESSAGE, side, to_peer("message", 8, to(i % 2 ? 2 : 1), 1, CONTEXT(i)),
                              FI_DELIVERY_COMPLETE | FI_COMPLETION));
        kill_rank(2, false);
        await_end_of(2); /* before this process polls, and could deliver to it */
        int delivered = 0, failed = 0;
        bool seen[2 * MESSAGES] = {false}; /* sends that fail together end in any order */
        UNTIL(({
            struct fi_cq_tagged_entry entry;
            struct fi_cq_err_entry e = {0};
            ssize_t rc = fi_cq_read(side->tx, &entry, 1);
            if (rc == 1) CHECK_PTR(entry.op_context, CONTEXT(2 * delivered++));
            if (rc == -FI_EAVAIL) {
                CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
                check_death_error(e.err);
                uintptr_t which = (uintptr_t)e.op_context - (uintptr_t)CONTEXT(0);
                CHECK(which < 2 * MESSAGES && which % 2 == 1 && !seen[which]);
                seen[which] = true;
                failed++;
            }
            delivered + failed == 2 * MESSAGES;
        }));
        CHECK_EQ(delivered, MESSAGES);
    } else {
        for (int i = 0; i < MESSAGES; i++) CHECK_EQ(WAIT_RX(side).len, 8);
    }
    barrier();
    pass_around(side, 1 - rank(), 77);
}

CASE(rma_to_the_dead, 3, "contract: writes, reads and atomics to a killed process end in error",
     .stock = "tcp;ofi_rxm: -FI_EAGAIN for ever | shm: -FI_EAGAIN for ever")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_RMA | FI_ATOMIC});
    char *memory = buffer(100000);
    struct region r = region_over(side, memory, 100000, ACCESS_ALL), all[3];
    exchange(&r, sizeof r, all);
    if (rank() == 2) die_now(false);
    volatile int *gone = shared();
    if (rank() == 0) {
        uint64_t one = 1, old;
        for (int op = 0; op < 4; op++) {
            long long until = now_ms() + WAIT_MS;
            int error = 0;
            while (error == 0) {
                about("operation %d", op);
                if (now_ms() > until) FAIL("no error within %d ms", WAIT_MS);
                ssize_t rc = op == 0   ? fi_write(side->ep, memory, 8, NULL, to(2), all[2].base, all[2].key, NULL)
                             : op == 1 ? fi_read(side->ep, memory, 100000, NULL, to(2), all[2].base, all[2].key, NULL)
                             : op == 2 ? fi_fetch_atomic(side->ep, &one, 1, NULL, &old, NULL, to(2), all[2].base,
                                                         all[2].key, FI_UINT64, FI_SUM, NULL)
                                       : fi_inject_write(side->ep, memory, 8, to(2), all[2].base, all[2].key);
                if (rc == -FI_EAGAIN) continue;
                if (rc != 0) {
                    error = (int)-rc;
                    continue;
                }
                struct fi_cq_tagged_entry entry;
                struct fi_cq_err_entry e = {0};
                while ((rc = fi_cq_read(side->tx, &entry, 1)) == -FI_EAGAIN && op != 3 && now_ms() < until) progress();
                if (rc == -FI_EAVAIL) {
                    CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
                    error = e.err;
                }
            }
            check_death_error(error);
        }
        *gone = 1;
    }
    barrier();
    pass_around(side, 1 - rank(), 77);
}

/* Runs a window of reads and writes to `dead`; each ends once. Returns the number that ended in error. */
static int ends_of_window(struct side *side, int dead, const struct region *there, char *local, char *in, size_t bytes)
{
    enum { WINDOW = 48 };
    bool seen[WINDOW] = {false};
    int posted = 0, failed = 0;
    long long until = now_ms() + WAIT_MS;
    for (int i = 0; i < WINDOW; i++) {
        ssize_t rc;
        size_t each = i % 3 ? bytes : 8;
        do {
            rc = i % 2 ? fi_read(side->ep, in, each, NULL, to(dead), there->base, there->key, CONTEXT(i))
                       : fi_write(side->ep, local, each, NULL, to(dead), there->base, there->key, CONTEXT(i));
            if (rc == -FI_EAGAIN) progress();
        } while (rc == -FI_EAGAIN && now_ms() < until);
        if (rc == -FI_EAGAIN) FAIL("-FI_EAGAIN for ever");
        if (rc != 0) check_death_error((int)-rc);
        if (rc == 0) posted++;
        else seen[i] = true, failed++;
    }
    while (posted > 0) {
        struct fi_cq_tagged_entry entry = {0};
        struct fi_cq_err_entry e = {0};
        ssize_t rc = fi_cq_read(side->tx, &entry, 1);
        if (rc == -FI_EAGAIN) progress();
        if (rc == -FI_EAGAIN && now_ms() > until) FAIL("%d accesses never end", posted);
        if (rc == -FI_EAVAIL) {
            CHECK_RC(fi_cq_readerr(side->tx, &e, 0), 1);
            check_death_error(e.err);
            entry.op_context = e.op_context;
            failed++;
        }
        if (entry.op_context == NULL) continue;
        uintptr_t which = (uintptr_t)entry.op_context - (uintptr_t)CONTEXT(0);
        CHECK(which < WINDOW && !seen[which]);
        seen[which] = true;
        posted--;
    }
    return failed;
}

CASE(dead_under_reads_and_writes, 4,
     "contract: a process dies while two read and write its memory: each access ends once, with its bytes or in "
     "error, and the others continue",
     .needs = OUR_PROVIDER)
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_RMA});
    enum { BYTES = 6000 };
    char *memory = buffer(BYTES), *local = buffer(BYTES), *in = buffer(BYTES);
    struct region r = region_over(side, memory, BYTES, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    if (rank() == 3) {
        UNTIL(((volatile char *)memory)[BYTES - 1] != 0);
        die_now(false);
    }
    memset(local, 0x33, BYTES);
    if (rank() < 2) {
        long long until = now_ms() + WAIT_MS;
        while (ends_of_window(side, 3, &all[3], local, in, BYTES) < 48)
            if (now_ms() > until) FAIL("accesses to the dead process succeed");
    }
    barrier();
    int next = (rank() + 1) % 3;
    POST(fi_write(side->ep, local, BYTES, NULL, to(next), all[next].base, all[next].key, CONTEXT(1)));
    CHECK_PTR(WAIT_TX(side).context, CONTEXT(1));
    barrier();
    CHECK_BYTES(memory, BYTES, 0x33);
    if (rank() < 2) pass_around(side, 1 - rank(), 77);
}

CASE(killed_in_the_middle_of_a_stream, 4,
     "contract: a process is killed while three stream to it and it to them: the others get errors or continue, and "
     "no message between them is lost or torn",
     .stock = "tcp;ofi_rxm: crashes | shm: supports only a few thousand receives")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_DIRECTED_RECV});
    enum { BYTES = 30000, WAITING_MAX = 1000 }; /* a receive from a dead process never completes, and takes an entry */
    volatile int *killed = shared();
    int waiting = 0;
    char *out = buffer(BYTES), *in = buffer(BYTES);
    long long until = now_ms() + 400;
    int sent = 0;
    memset(out, rank() + 1, BYTES);
    static const size_t LENGTHS[] = {8, 300, 5000, 30000};
    if (rank() == 3) {
        for (;;) { /* until it is killed */
            fi_tsend(side->ep, out, LENGTHS[sent % 4], NULL, to(sent % 3), 3, NULL);
            sent++;
            fi_trecv(side->ep, in, BYTES, NULL, FI_ADDR_UNSPEC, 0, ~0ull, NULL);
            struct fi_cq_tagged_entry entry;
            while (fi_cq_read(side->tx, &entry, 1) == 1) continue;
            while (fi_cq_read(side->rx, &entry, 1) == 1) continue;
        }
    }
    while (now_ms() < until || (rank() == 0 && !*killed)) {
        if (rank() == 0 && !*killed && now_ms() > until - 250) {
            *killed = 1;
            kill_rank(3, false);
        }
        fi_tsend(side->ep, out, LENGTHS[sent++ % 4], NULL, to(3), 1, CONTEXT(1));
        if (waiting < WAITING_MAX && fi_trecv(side->ep, in, BYTES, NULL, to(3), 3, 0, CONTEXT(2)) == 0) waiting++;
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry e = {0};
        ssize_t rc;
        while ((rc = fi_cq_read(side->tx, &entry, 1)) == 1 || rc == -FI_EAVAIL)
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->tx, &e, 0);
        while ((rc = fi_cq_read(side->rx, &entry, 1)) == 1 || rc == -FI_EAVAIL) {
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->rx, &e, 0);
            if (rc == 1 && entry.len > 0) CHECK_OP(in[0], ==, 4);
            waiting--;
        }
        sched_yield();
    }
    barrier();
    for (uint64_t i = 0; i < 20; i++) {
        int next = (rank() + 1) % 3, previous = (rank() + 2) % 3;
        char *mine = buffer(BYTES), *theirs = buffer(BYTES);
        memset(mine, rank() + 1, BYTES);
        POST(fi_trecv(side->ep, theirs, BYTES, NULL, to(previous), 1000 + i, 0, CONTEXT(50 + i)));
        POST(fi_tsend(side->ep, mine, LENGTHS[i % 4], NULL, to(next), 1000 + i, CONTEXT(90)));
        bool got = false, gone = false;
        long long limit = now_ms() + WAIT_MS;
        while (!got || !gone) {
            about("after the death, message %d", (int)i);
            if (now_ms() > limit) FAIL("received %d, sent %d", got, gone);
            struct fi_cq_tagged_entry entry;
            struct fi_cq_err_entry e = {0};
            ssize_t rc = fi_cq_read(side->rx, &entry, 1);
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->rx, &e, 0);
            if (rc == 1 && entry.op_context == CONTEXT(50 + i)) got = true;
            rc = fi_cq_read(side->tx, &entry, 1);
            if (rc == -FI_EAVAIL) fi_cq_readerr(side->tx, &e, 0);
            if (rc == 1 && entry.op_context == CONTEXT(90)) gone = true;
        }
        CHECK_BYTES(theirs, LENGTHS[i % 4], previous + 1);
    }
}

CASE(another_takes_the_place, 3,
     "contract: a process is killed, another starts in its place with a new address: the others communicate with it, "
     "whatever is left of the first")
{
    struct side *side = side_open((struct wants){.caps = FI_TAGGED | FI_RMA});
    struct {
        unsigned char address[ADDRESS_BYTES_MAX];
        struct region region;
    } mine = {.address = {0}}, all[3];
    char *memory = buffer(64), in[64];
    for (int round = life(); round < 2; round++) {
        memset(memory, 'A' + round, 64);
        mine.region = region_over(side, memory, 64, ACCESS_ALL);
        memcpy(mine.address, side->address, sizeof mine.address);
        exchange(&mine, sizeof mine, all);
        fi_addr_t peers[3];
        for (int r = 0; r < 3; r++) {
            if (round == 0 || r == 2) peers[r] = address_insert(side, all[r].address);
            else if (rank() == 2) peers[r] = address_insert(side, all[r].address);
            else peers[r] = FI_ADDR_NOTAVAIL;
        }
        if (rank() != 2) {
            about("round %d, to the one in place", round);
            POST(fi_tsend(side->ep, "hello", 6, NULL, peers[2], (uint64_t)rank(), NULL));
            WAIT_TX(side);
            POST(fi_read(side->ep, in, 64, NULL, peers[2], all[2].region.base, all[2].region.key, NULL));
            WAIT_TX(side);
            CHECK_BYTES(in, 64, 'A' + round);
        } else {
            for (int r = 0; r < 2; r++) {
                POST(fi_trecv(side->ep, in, 64, NULL, FI_ADDR_UNSPEC, (uint64_t)r, 0, NULL));
                CHECK_EQ(WAIT_RX(side).len, 6);
                POST(fi_tinject(side->ep, "yes", 4, peers[r], 9));
            }
        }
        if (rank() != 2) {
            POST(fi_trecv(side->ep, in, 64, NULL, FI_ADDR_UNSPEC, 9, 0, NULL));
            CHECK_EQ(WAIT_RX(side).len, 4);
        }
        barrier();
        region_close(&mine.region);
        if (rank() == 2 && life() == 0) die_now(true);
    }
}
