/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Regions opened and closed while peers read and write, and many accesses at once: a key cached by a peer never reaches
 * other memory, and each access ends once, as its target decided. fi_rma(3), fi_mr(3).
 */
#include "suite.h"

#include <sys/mman.h>

#define WANTS (struct wants){.caps = FI_MSG | FI_RMA}
#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))

/* Takes the next entry of a queue, which may be an error. Returns 0 or the error. */
static int next_end(struct fid_cq *cq, void **context)
{
    long long until = now_ms() + WAIT_MS;
    struct fi_cq_tagged_entry entry;
    ssize_t rc;
    while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN && now_ms() < until) progress();
    if (rc == -FI_EAVAIL) {
        struct fi_cq_err_entry e = {0};
        CHECK_RC(fi_cq_readerr(cq, &e, 0), 1);
        *context = e.op_context;
        CHECK_OP(e.err, >, 0);
        return e.err;
    }
    CHECK_RC(rc, 1);
    *context = entry.op_context;
    return 0;
}

/* ---- Keys -------------------------------------------------------------------------------------------------------- */

CASE(revoked_after_use, 1,
     "fi_mr: a key that a peer has used is an error once its region is closed, also if another region takes the memory",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing | sockets: FI_EACCES")
{
    struct pair p = pair_open(WANTS);
    char *memory = buffer(8192), *local = buffer(8192);
    static const size_t LENGTHS[] = {1, 8, 64, 4096};
    for (int round = 0; round < 24; round++) {
        size_t bytes = LENGTHS[round % 4];
        bool reads = round / 4 % 2;
        about("round %d, %zu bytes", round, bytes);
        struct region r = region_over(p.b, memory, 8192, ACCESS_ALL);
        memset(local, round + 1, bytes);
        POST(fi_write(p.a->ep, local, bytes, NULL, p.to_b, r.base + 5, r.key, CONTEXT(1)));
        CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(1));
        CHECK_BYTES(memory + 5, bytes, round + 1);
        region_close(&r);
        struct region other = region_over(p.b, memory, 8192, ACCESS_ALL);
        memset(memory, 0x11, 8192);
        memset(local, 0x77, bytes);
        if (reads) POST(fi_read(p.a->ep, local, bytes, NULL, p.to_b, r.base + 5, r.key, CONTEXT(2)));
        else POST(fi_write(p.a->ep, local, bytes, NULL, p.to_b, r.base + 5, r.key, CONTEXT(2)));
        struct fi_cq_err_entry e = WAIT_ERROR(p.a->tx);
        CHECK_EQ(e.err, FI_ENOKEY);
        CHECK_PTR(e.op_context, CONTEXT(2));
        CHECK_BYTES(memory, 8192, 0x11);
        CHECK_BYTES(local, bytes, 0x77);
        POST(fi_write(p.a->ep, local, bytes, NULL, p.to_b, other.base, other.key, CONTEXT(3)));
        CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(3));
        CHECK_BYTES(memory, bytes, 0x77);
        region_close(&other);
    }
}

CASE(key_of_other_memory, 1,
     "fi_mr: an application that registers other memory under the same key reaches that memory, with its length and "
     "its rights")
{
    struct pair p = pair_open((struct wants){.caps = FI_MSG | FI_RMA, .mr_mode_exact = true, .mr_mode = 0});
    enum { EACH = 5000 };
    char *memory = buffer(8 * EACH), *local = buffer(EACH);
    const uint64_t key = 0xfeedbeef;
    for (int round = 0; round < 8; round++) {
        about("round %d", round);
        char *mine = memory + round * EACH;
        size_t bytes = 100u + (size_t)round * 700u;
        struct fid_mr *mr = NULL;
        bool only_read = round % 4 == 3;
        OK(fi_mr_reg(p.b->domain, mine, bytes, only_read ? FI_REMOTE_READ : ACCESS_ALL, 0, key, 0, &mr, NULL));
        memset(mine, 0x40 + round, bytes);
        POST(fi_read(p.a->ep, local, bytes, NULL, p.to_b, 0, key, CONTEXT(round)));
        CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(round));
        CHECK_BYTES(local, bytes, 0x40 + round);
        memset(local, 0x70 + round, 50);
        POST(fi_write(p.a->ep, local, 50, NULL, p.to_b, bytes - 50, key, CONTEXT(99)));
        if (only_read) {
            CHECK_PTR(WAIT_ERROR(p.a->tx).op_context, CONTEXT(99));
            CHECK_BYTES(mine, bytes, 0x40 + round);
        } else {
            CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(99));
            CHECK_BYTES(mine + bytes - 50, 50, 0x70 + round);
        }
        OK(fi_close(&mr->fid));
    }
}

CASE(many_regions, 1, "fi_mr: each of 5,000 regions at once is reached by its key, and none by a neighbour's",
     .stock = "tcp;ofi_rxm: supports only a few thousand regions")
{
    enum { COUNT = 5000 };
    struct pair p = pair_open(WANTS);
    static struct region regions[COUNT];
    uint64_t *memory = buffer(COUNT * sizeof *memory), in = 0;
    for (int i = 0; i < COUNT; i++) regions[i] = region_over(p.b, &memory[i], 8, ACCESS_ALL);
    for (int i = 0; i < COUNT; i++) {
        uint64_t out = (uint64_t)i + 1;
        about("region %d", i);
        POST(fi_inject_write(p.a->ep, &out, 8, p.to_b, regions[i].base, regions[i].key));
    }
    for (int i = COUNT; i-- > 0;) {
        about("region %d", i);
        POST(fi_read(p.a->ep, &in, 8, NULL, p.to_b, regions[i].base, regions[i].key, CONTEXT(i)));
        CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(i));
        CHECK_EQ(in, (uint64_t)i + 1);
    }
    for (int i = 0; i < COUNT; i++) region_close(&regions[i]);
}

/* The regions use up a process's tables many times over, so that new ones get the addresses of closed ones. */
CASE(windows_come_and_go, 2,
     "fi_mr: 30 windows of 150 MiB are opened and closed, with room for six: each is reached by its key, and none by "
     "a closed one's key",
     .needs = OUR_PROVIDER)
{
    enum { WINDOWS = 30, BYTES = 150 << 20 };
    setenv("SELVEDGE_ADDRESS_TABLES", "1", 1);
    struct side *side = job_open(WANTS);
    volatile char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    char *local = buffer(64), *in = buffer(64);
    static struct region all[WINDOWS][2];
    int other = 1 - rank();
    for (int w = 0; w < WINDOWS; w++) {
        about("window %d", w);
        struct region mine = region_over(side, (void *)memory, BYTES, ACCESS_ALL);
        exchange(&mine, sizeof mine, all[w]);
        memset(local, w + 1, 64);
        for (uint64_t at = 0; at < BYTES; at += BYTES / 3) {
            POST(fi_write(side->ep, local, 64, NULL, to(other), all[w][other].base + at, all[w][other].key, CONTEXT(1)));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(1));
            POST(fi_read(side->ep, in, 64, NULL, to(other), all[w][other].base + at, all[w][other].key, CONTEXT(2)));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(2));
            CHECK_BYTES(in, 64, w + 1);
        }
        barrier();
        for (uint64_t at = 0; at < BYTES; at += BYTES / 3) CHECK_BYTES((const void *)(memory + at), 64, w + 1);
        memset(local, 0x7f, 64);
        for (int old = w > 8 ? w - 8 : 0; old < w; old++) {
            about("window %d, the key of window %d", w, old);
            if (all[old][other].key == all[w][other].key) continue;
            POST(fi_write(side->ep, local, 64, NULL, to(other), all[old][other].base, all[old][other].key, CONTEXT(3)));
            CHECK_EQ(WAIT_ERROR(side->tx).err, FI_ENOKEY);
        }
        barrier();
        for (uint64_t at = 0; at < BYTES; at += BYTES / 3) CHECK_BYTES((const void *)(memory + at), 64, w + 1);
        region_close(&mine);
        barrier();
    }
    munmap((void *)memory, BYTES);
}

/* ---- Streams ----------------------------------------------------------------------------------------------------- */

CASE(revoked_under_equal_writes, 2,
     "fi_mr: a region is closed during windows of equal writes: each ends once, the successful ones first, none is "
     "written after the close",
     .stock = "tcp;ofi_rxm: checks nothing | shm: checks nothing")
{
    enum { WINDOW = 24, ROUNDS = 40, BYTES = 3000 };
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA, .order = FI_ORDER_WAW});
    char *memory = buffer(BYTES), *local = buffer(BYTES);
    volatile int *closed = shared();
    memset(local, 0x77, BYTES);
    for (int round = 0; round < 6; round++) {
        static const size_t LENGTHS[] = {8, 64, BYTES};
        size_t bytes = LENGTHS[round % 3];
        about("round %d, %zu bytes", round, bytes);
        *closed = 0;
        memset(memory, 0, BYTES);
        struct region r = region_over(side, memory, BYTES, ACCESS_ALL), all[2];
        exchange(&r, sizeof r, all);
        if (rank() == 1) {
            UNTIL(((volatile char *)memory)[bytes - 1] != 0);
            sleep_ms(round / 3);
            region_close(&r);
            memset(memory, 0x11, BYTES);
            *closed = 1;
            barrier();
            CHECK_BYTES(memory, BYTES, 0x11);
        } else {
            int failed = 0, after = 0;
            for (int window = 0; after < 2; window++) {
                bool was_closed = *closed, ends[WINDOW], seen[WINDOW] = {0};
                for (int i = 0; i < WINDOW; i++)
                    POST(fi_write(side->ep, local, bytes, NULL, to(1), all[1].base, all[1].key, CONTEXT(i)));
                for (int i = 0; i < WINDOW; i++) {
                    void *context;
                    int error = next_end(side->tx, &context);
                    size_t which = (size_t)((uintptr_t)context - (uintptr_t)CONTEXT(0));
                    CHECK_OP(which, <, WINDOW);
                    if (seen[which]) FAIL("write %zu ended twice", which);
                    seen[which] = true;
                    ends[which] = error == 0;
                    failed += error != 0;
                    /* A closing region loses its entries one after the other, so some rights may remain for a moment. */
                    if (error != 0 && (was_closed || error != FI_EACCES)) CHECK_EQ(error, FI_ENOKEY);
                    if (was_closed && error == 0) FAIL("a write posted after the close succeeded");
                }
                for (int i = 1; i < WINDOW; i++)
                    if (ends[i] && !ends[i - 1]) FAIL("write %d succeeded after one that failed", i);
                after += was_closed;
            }
            CHECK_OP(failed, >, 0);
            barrier();
        }
        barrier();
    }
}

CASE(registered_again_under_writes, 2,
     "FI_ORDER_WAW: one buffer is written to two keys, and one key moves to other memory: each write reaches its "
     "key's memory, and is in place when the data of a later write arrive")
{
    enum { BYTES = 3000 };
    struct side *side = job_open((struct wants){
        .caps = FI_MSG | FI_RMA, .order = FI_ORDER_WAW, .mr_mode_exact = true, .mr_mode = 0});
    static const size_t LENGTHS[] = {64, BYTES, 9, 8};
    const uint64_t moves = 0xfeed, stays = 0xbeef;
    char *first = buffer(2 * BYTES), *second = buffer(3 * BYTES), *local = buffer(BYTES), *last = buffer(BYTES);
    struct fid_mr *mr[2] = {NULL, NULL};
    if (rank() == 1) OK(fi_mr_reg(side->domain, second, 3 * BYTES, ACCESS_ALL, 0, stays, 0, &mr[1], NULL));
    for (int round = 1; round <= 16; round++) {
        size_t bytes = LENGTHS[round % 4];
        char *now = first + round % 2 * BYTES, *before = first + (round + 1) % 2 * BYTES;
        about("round %d, %zu bytes", round, bytes);
        if (rank() == 1) {
            if (mr[0] != NULL) OK(fi_close(&mr[0]->fid));
            OK(fi_mr_reg(side->domain, now, BYTES, ACCESS_ALL, 0, moves, 0, &mr[0], NULL));
            memset(first, 0x11, 2 * BYTES);
            memset(second, 0x11, 3 * BYTES);
        }
        barrier();
        if (rank() == 0) {
            memset(local, 0x40 + round, bytes);
            memset(last, 0x70, BYTES);
            POST(fi_write(side->ep, local, bytes, NULL, to(1), 0, stays, CONTEXT(1)));
            POST(fi_write(side->ep, local, bytes, NULL, to(1), 0, moves, CONTEXT(2)));
            POST(fi_write(side->ep, local, bytes, NULL, to(1), BYTES, stays, CONTEXT(3)));
            POST(fi_writedata(side->ep, last, bytes, NULL, (uint64_t)round, to(1), 2 * BYTES, stays, CONTEXT(4)));
            for (int i = 0; i < 4; i++) WAIT_TX(side);
        } else {
            CHECK_EQ(WAIT_RX(side).data, (uint64_t)round);
            CHECK_BYTES(now, bytes, 0x40 + round);
            CHECK_BYTES(now + bytes, BYTES - bytes, 0x11);
            CHECK_BYTES(before, BYTES, 0x11);
            CHECK_BYTES(second, bytes, 0x40 + round);
            CHECK_BYTES(second + BYTES, bytes, 0x40 + round);
            CHECK_BYTES(second + 2 * BYTES, bytes, 0x70);
        }
        barrier();
    }
    for (int i = 0; i < 2; i++)
        if (mr[i] != NULL) OK(fi_close(&mr[i]->fid));
}

CASE(many_at_once, 2,
     "fi_rma: 3,000 writes and 3,000 reads, posted as fast as they are accepted: each ends once, with its bytes")
{
    enum { COUNT = 3000, EACH = 96 };
    struct side *side = job_open(WANTS);
    unsigned char *memory = buffer(COUNT * EACH), *local = buffer(COUNT * EACH), *in = buffer(COUNT * EACH);
    struct region r = region_over(side, memory, COUNT * EACH, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    static bool ended[COUNT];
    for (int reads = 0; rank() == 0 && reads < 2; reads++) {
        int posted = 0, done = 0;
        memset(ended, 0, sizeof ended);
        if (!reads) pattern_fill(local, COUNT * EACH, 3);
        long long until = now_ms() + 2 * WAIT_MS;
        while (done < COUNT) {
            about("%s, %d posted, %d done", reads ? "reads" : "writes", posted, done);
            if (now_ms() > until) FAIL("not done");
            for (int more = 0; more < 50 && posted < COUNT; more++) {
                size_t at = (size_t)posted * EACH, bytes = 1 + (size_t)posted * 7 % EACH;
                ssize_t rc = reads ? fi_read(side->ep, in + at, bytes, NULL, to(1), all[1].base + at, all[1].key, CONTEXT(posted))
                                   : fi_write(side->ep, local + at, bytes, NULL, to(1), all[1].base + at, all[1].key, CONTEXT(posted));
                if (rc == -FI_EAGAIN) break;
                OK(rc);
                posted++;
            }
            struct completion c;
            while (TAKE(side, side->tx, &c)) {
                size_t which = (size_t)((uintptr_t)c.context - (uintptr_t)CONTEXT(0));
                CHECK_OP(which, <, COUNT);
                if (ended[which]) FAIL("number %zu ended twice", which);
                ended[which] = true;
                done++;
            }
        }
    }
    barrier();
    for (int i = 0; i < COUNT; i++) {
        size_t at = (size_t)i * EACH, bytes = 1 + (size_t)i * 7 % EACH;
        about("number %d", i);
        if (rank() == 0) CHECK_SAME(in + at, local + at, bytes);
        if (rank() == 0) CHECK_BYTES(in + at + bytes, EACH - bytes, 0);
        if (rank() == 1) CHECK_BYTES(memory + at + bytes, EACH - bytes, 0);
    }
}

CASE(into_one_that_makes_no_call, 4,
     "fi_rma: three processes write to and read from one that makes no call, 600 times each")
{
    enum { TIMES = 600, EACH = 64 };
    struct side *side = job_open(WANTS);
    uint64_t *memory = buffer(4 * EACH), *local = buffer(EACH), *in = buffer(EACH);
    struct region r = region_over(side, memory, 4 * EACH, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    if (rank() != 0) {
        for (uint64_t i = 1; i <= TIMES; i++) {
            local[0] = i << 8 | (uint64_t)rank();
            uint64_t at = all[0].base + (uint64_t)rank() * EACH;
            POST(fi_write(side->ep, local, 8, NULL, to(0), at, all[0].key, CONTEXT(1)));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(1));
            POST(fi_read(side->ep, in, EACH, NULL, to(0), at, all[0].key, CONTEXT(2)));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(2));
            CHECK_EQ(in[0], local[0]);
        }
    }
    barrier_asleep();
    for (int i = 1; rank() == 0 && i < 4; i++) CHECK_EQ(memory[i * EACH / 8], (uint64_t)TIMES << 8 | (uint64_t)i);
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

CASE(any_bytes_of_pages, 1,
     "fi_rma: 1 to 20 bytes, and a page more or less, at all offsets near the ends of pages, on both sides")
{
    enum { PAGE = 4096, ROOM = 4 * PAGE };
    struct pair p = pair_open(WANTS);
    unsigned char *memory = buffer(ROOM), *local = buffer(ROOM), *in = buffer(ROOM), *want = buffer(ROOM);
    struct region r = region_over(p.b, memory, ROOM, ACCESS_ALL);
    uint64_t state = 12345;
    for (int round = 0; round < 400; round++) {
        size_t bytes = round % 4 == 3 ? PAGE - 10 + random_next(&state) % 21 : 1 + random_next(&state) % 20;
        size_t there = PAGE - 12 + random_next(&state) % 24, here = PAGE - 12 + random_next(&state) % 24;
        about("round %d: %zu bytes from %zu to %zu", round, bytes, here, there);
        pattern_fill(local + here, bytes, (unsigned)round);
        memcpy(want + there, local + here, bytes);
        POST(fi_write(p.a->ep, local + here, bytes, NULL, p.to_b, r.base + there, r.key, CONTEXT(1)));
        CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(1));
        CHECK_SAME(memory, want, ROOM);
        size_t from = PAGE - 12 + random_next(&state) % 24;
        memset(in, 0xee, ROOM);
        POST(fi_read(p.a->ep, in + here, bytes, NULL, p.to_b, r.base + from, r.key, CONTEXT(2)));
        CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(2));
        CHECK_SAME(in + here, memory + from, bytes);
        CHECK_BYTES(in, here, 0xee);
        CHECK_BYTES(in + here + bytes, ROOM - here - bytes, 0xee);
    }
}

/* ---- Order ------------------------------------------------------------------------------------------------------- */

CASE(order_with_atomics, 2,
     "FI_ORDER_WAW, RAW, WAR: writes, atomics and reads of one word keep the order of their calls")
{
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA | FI_ATOMIC,
                                                .order = FI_ORDER_WAW | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_RAR});
    uint64_t *memory = buffer(64), *in = buffer(64 * sizeof *in), one = 1;
    struct region r = region_over(side, memory, 64, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    for (uint64_t i = 1; rank() == 0 && i <= 40; i++) {
        uint64_t word = i << 8;
        about("round %d", (int)i);
        POST(fi_inject_write(side->ep, &word, 8, to(1), all[1].base, all[1].key));
        POST(fi_atomic(side->ep, &one, 1, NULL, to(1), all[1].base, all[1].key, FI_UINT64, FI_SUM, CONTEXT(1)));
        POST(fi_read(side->ep, &in[i], 8, NULL, to(1), all[1].base, all[1].key, CONTEXT(2)));
        word = 0;
        POST(fi_inject_write(side->ep, &word, 8, to(1), all[1].base, all[1].key));
        WAIT_TX(side);
        WAIT_TX(side);
        CHECK_EQ(in[i], i << 8 | 1);
    }
    barrier();
}

CASE(writes_behind_messages, 2,
     "FI_ORDER_WAS, RAS: a write or a read after a message reaches the memory of its receive when the message has "
     "arrived")
{
    struct side *side = job_open((struct wants){
        .caps = FI_TAGGED | FI_RMA,
        .order = FI_ORDER_SAS | FI_ORDER_WAS | FI_ORDER_RAS | FI_ORDER_SAW | FI_ORDER_SAR});
    static const size_t LENGTHS[] = {8, 100, 2000, 20000};
    unsigned char *memory = buffer(20000), *out = buffer(20000), *in = buffer(20000);
    struct region r = region_over(side, memory, 20000, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    for (int i = 0; i < 24; i++) {
        size_t bytes = LENGTHS[i % 4];
        about("round %d, %zu bytes", i, bytes);
        if (rank() == 1) {
            POST(fi_trecv(side->ep, memory, 20000, NULL, FI_ADDR_UNSPEC, 1, 0, CONTEXT(1)));
            barrier();
            CHECK_PTR(WAIT_RX(side).context, CONTEXT(1));
        } else {
            barrier();
            memset(out, i + 1, bytes);
            unsigned char late = 0x80;
            POST(fi_tsend(side->ep, out, bytes, NULL, to(1), 1, CONTEXT(1)));
            POST(fi_inject_write(side->ep, &late, 1, to(1), all[1].base, all[1].key));
            POST(fi_read(side->ep, in, bytes, NULL, to(1), all[1].base, all[1].key, CONTEXT(2)));
            WAIT_TX(side);
            WAIT_TX(side);
            CHECK_EQ(in[0], 0x80);
            CHECK_BYTES(in + 1, bytes - 1, i + 1);
        }
        barrier();
        if (rank() == 1) CHECK_EQ(memory[0], 0x80);
        barrier();
    }
}

CASE(writes_past_messages, 2,
     "FI_ORDER_SAS alone: writes and reads complete although their target has not received the messages before them")
{
    struct side *side = job_open((struct wants){.caps = FI_TAGGED | FI_RMA, .order = FI_ORDER_SAS});
    uint64_t *memory = buffer(64), in = 0, word = 0;
    struct region r = region_over(side, memory, 64, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    for (uint64_t i = 1; i <= 5; i++) {
        about("round %d", (int)i);
        if (rank() == 0) {
            POST(fi_tinject(side->ep, &i, 8, to(1), i));
            POST(fi_write(side->ep, &i, 8, NULL, to(1), all[1].base, all[1].key, CONTEXT(1)));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(1));
            POST(fi_read(side->ep, &in, 8, NULL, to(1), all[1].base, all[1].key, CONTEXT(2)));
            CHECK_PTR(WAIT_TX(side).context, CONTEXT(2));
            CHECK_EQ(in, i);
        }
        barrier_asleep();
        if (rank() == 1) {
            CHECK_EQ(memory[0], i);
            POST(fi_trecv(side->ep, &word, 8, NULL, FI_ADDR_UNSPEC, i, 0, CONTEXT(3)));
            CHECK_PTR(WAIT_RX(side).context, CONTEXT(3));
            CHECK_EQ(word, i);
        }
        barrier();
    }
}

CASE(data_behind_writes, 2, "FI_ORDER_WAW: when the data of a write arrive, the earlier writes are in place")
{
    enum { COUNT = 12, EACH = 3000 };
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA, .order = FI_ORDER_WAW});
    unsigned char *memory = buffer(COUNT * EACH), *local = buffer(EACH);
    struct region r = region_over(side, memory, COUNT * EACH, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    for (int round = 1; round <= 10; round++) {
        about("round %d", round);
        if (rank() == 0) {
            memset(local, round, EACH);
            for (int i = 0; i + 1 < COUNT; i++)
                POST(fi_write(side->ep, local, EACH, NULL, to(1), all[1].base + (uint64_t)i * EACH, all[1].key, CONTEXT(i)));
            POST(fi_writedata(side->ep, local, round % 2 ? 4 : 0, NULL, (uint64_t)round, to(1),
                              all[1].base + (uint64_t)(COUNT - 1) * EACH, all[1].key, CONTEXT(COUNT)));
            for (int i = 0; i < COUNT; i++) WAIT_TX(side);
        } else {
            struct completion c = WAIT_RX(side);
            CHECK_EQ(c.data, (uint64_t)round);
            CHECK_BYTES(memory, (COUNT - 1) * EACH, round);
        }
        barrier();
    }
}

/* ---- Ends -------------------------------------------------------------------------------------------------------- */

CASE(closed_under_accesses, 2,
     "contract: a target closes its domain during reads and writes: each completes, in the end with an error")
{
    enum { WINDOW = 32, BYTES = 2000 };
    struct side *side = job_open(WANTS);
    char *memory = buffer(BYTES), *local = buffer(BYTES), *in = buffer(BYTES);
    struct region r = region_over(side, memory, BYTES, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    if (rank() == 1) {
        UNTIL(((volatile char *)memory)[0] != 0);
        side_close(side);
        barrier_asleep();
        return;
    }
    memset(local, 1, BYTES);
    int failed = 0;
    for (int window = 0; failed < 2 * WINDOW; window++) {
        int posted = 0;
        for (int i = 0; i < WINDOW; i++) {
            ssize_t rc;
            long long until = now_ms() + WAIT_MS;
            do {
                rc = i % 2 ? fi_read(side->ep, in, BYTES, NULL, to(1), all[1].base, all[1].key, CONTEXT(i))
                           : fi_write(side->ep, local, i % 4 ? 8 : BYTES, NULL, to(1), all[1].base, all[1].key, CONTEXT(i));
                if (rc == -FI_EAGAIN) progress();
            } while (rc == -FI_EAGAIN && now_ms() < until);
            if (rc == 0) posted++;
            else failed++;
            if (rc == -FI_EAGAIN) FAIL("-FI_EAGAIN for ever");
        }
        while (posted-- > 0) {
            void *context;
            failed += next_end(side->tx, &context) != 0;
        }
    }
    barrier_asleep();
}

static bool write_fails(struct side *side, const void *local, size_t bytes, const struct region *r, uint64_t offset)
{
    ssize_t rc;
    long long until = now_ms() + WAIT_MS;
    while ((rc = fi_write(side->ep, local, bytes, NULL, to(1), r->base + offset, r->key, CONTEXT(1))) == -FI_EAGAIN &&
           now_ms() < until)
        progress();
    void *context;
    if (rc == -FI_EAGAIN) FAIL("-FI_EAGAIN for ever");
    return rc != 0 || next_end(side->tx, &context) != 0;
}

/* Rank 1 opens two regions, closes its domain and opens it again with one region over other memory, whose addresses at the
 * NIC may be those of the first two. Rank 0 keeps using the key of the second. If `is_under_way`, it writes throughout. */
static void reopened(bool is_under_way)
{
    enum { EACH = 8192, ALL = 8 * EACH };
    static const size_t LENGTHS[] = {2000, 8, EACH};
    struct side *side = job_open(WANTS);
    char *memory = buffer(2 * EACH), *later = buffer(ALL), *local = buffer(EACH);
    struct region first = region_over(side, memory, EACH, ACCESS_ALL), all[2];
    struct region second = region_over(side, memory + EACH, EACH, ACCESS_ALL);
    exchange(&second, sizeof second, all);
    if (rank() == 1) {
        UNTIL(((volatile char *)memory)[EACH] != 0);
        if (!is_under_way) barrier_asleep();
        region_close(&first);
        side_close(side);
        side = side_open(WANTS);
        region_over(side, later, ALL, ACCESS_ALL);
        /* In mode host, an outstanding write ends only when its target calls the library. */
        if (is_under_way) barrier();
        else barrier_asleep();
        /* This barrier answers the initiator's new look-ups of refused keys. */
        barrier();
        CHECK_BYTES(later, ALL, 0);
        return;
    }
    memset(local, 1, EACH);
    if (is_under_way) {
        for (int failed = 0; failed < 20;) failed += write_fails(side, local, 2000, &all[1], 0);
    } else {
        CHECK_EQ(write_fails(side, local, 8, &all[1], 0), false);
        barrier_asleep();
    }
    barrier_asleep();
    /* No queue was read since the domain was opened again. */
    for (int i = 0; i < 3; i++) {
        about("%zu bytes", LENGTHS[i]);
        CHECK_EQ(write_fails(side, local, LENGTHS[i], &all[1], 0), true);
    }
    barrier();
}

CASE(reopened_between_writes, 2,
     "contract: a target opens its domain again: keys cached by its peers reach no new memory")
{
    reopened(false);
}

CASE(reopened_under_writes, 2, "contract: a target opens its domain again during writes: none reaches new memory")
{
    reopened(true);
}
