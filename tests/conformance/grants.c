/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Streams of similar small puts, and changes in the middle of a stream. Where memory is shared, the target grants the
 * sender the right to put without its lock. A grant holds until something changes; then the target revokes it. A program
 * must not see the difference. Portals 4.3, "Lightweight Counting Events", "List Entries", "Portal Table Entries", "Memory
 * Descriptors".
 *
 * In most cases rank 0 sends until the target stops it, and the target changes something meanwhile.
 */
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PT = 3, PT_STOP = 5, PT_FLAG = 6, BITS = 0x6c, BYTES = 264 << 10, TARGET = 1, STREAM_MAX = 1 << 30 };

static const ptl_ct_event_t zero = {0, 0}, one = {1, 0};

static ptl_ct_event_t value_of(ptl_handle_ct_t ct)
{
    ptl_ct_event_t value;
    OK(PtlCTGet(ct, &value));
    return value;
}

static ptl_size_t counted(ptl_handle_ct_t ct)
{
    return value_of(ct).success;
}

/* Number of puts that an entry must take before the sender has a grant again. It grows after each revoked grant. */
static ptl_size_t enough(int round)
{
    static const ptl_size_t puts[] = {300, 700, 1800};
    return puts[round < 3 ? round : 2];
}

struct end {
    unsigned char *memory;
    ptl_handle_ct_t ct, stop, flagged; /* arrivals at the entry, or completions of the descriptor */
    ptl_handle_md_t md;
    ptl_handle_me_t entry;
    uint64_t sent;
};

static ptl_me_t counting(void *start, size_t bytes, ptl_handle_ct_t ct, unsigned options)
{
    ptl_me_t me = me_over(start, bytes, BITS);
    me.options |= PTL_ME_EVENT_CT_COMM | options;
    me.ct_handle = ct;
    return me;
}

/* Opens an interface of either kind. Every rank has PT, PT_STOP and PT_FLAG, each with an entry that counts. */
static struct end open_end(bool matching, unsigned md_options)
{
    if (matching)
        ni_matching();
    else
        ni_nonmatching();
    struct end e = {.memory = buffer(BYTES), .ct = ct_new(), .stop = ct_new(), .flagged = ct_new()};
    pt_at(PT, PTL_EQ_NONE, 0);
    pt_at(PT_STOP, PTL_EQ_NONE, 0);
    pt_at(PT_FLAG, PTL_EQ_NONE, 0);
    ptl_me_t stop = counting(buffer(8), 8, e.stop, 0), flag = counting(buffer(8), 8, e.flagged, 0);
    ptl_le_t le = le_over(e.memory, BYTES);
    if (matching) {
        ptl_me_t me = counting(e.memory, BYTES, e.ct, 0);
        if (rank() == TARGET)
            e.entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        me_append(PT_STOP, &stop, PTL_PRIORITY_LIST, NULL);
        me_append(PT_FLAG, &flag, PTL_PRIORITY_LIST, NULL);
    } else {
        le.options |= PTL_LE_EVENT_CT_COMM;
        le.ct_handle = e.ct;
        if (rank() == TARGET)
            e.entry = le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
        le = le_over(stop.start, 8);
        le.options |= PTL_LE_EVENT_CT_COMM;
        le.ct_handle = e.stop;
        le_append(PT_STOP, &le, PTL_PRIORITY_LIST, NULL);
    }
    e.md = md_new(e.memory, BYTES, md_options, PTL_EQ_NONE, md_options ? e.ct : PTL_CT_NONE);
    barrier();
    return e;
}

enum { ACKED = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK };

static ptl_ack_req_t ack_of(unsigned md_options)
{
    return md_options & PTL_MD_EVENT_CT_ACK ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ;
}

/* Puts 8 bytes at a time that hold their number, from 1. At most as many puts are outstanding as the smallest queue holds. */
static void send_one(struct end *e, unsigned md_options, int to)
{
    uint64_t number = ++e->sent;
    memcpy(e->memory, &number, sizeof number);
    OK(PtlPut(e->md, 0, 8, ack_of(md_options), peer(to), PT, BITS, 0, NULL, 0));
    unsigned told = (md_options & PTL_MD_EVENT_CT_ACK) != 0;
    if (told && number % 64 == 0)
        wait_ct(e->ct, 2 * number - 64);
}

static void send_until_stopped(struct end *e, unsigned md_options, int to)
{
    while (counted(e->stop) == 0 && e->sent < STREAM_MAX) {
        send_one(e, md_options, to);
        if (mode_is("host") || path_is("bounce") || path_is("cma"))
            sched_yield();
    }
    CHECK_OP(counted(e->stop), ==, 1);
    if (md_options == ACKED)
        wait_ct(e->ct, 2 * e->sent);
}

static void stop(struct end *e, int who)
{
    OK(PtlPut(e->md, 0, 0, PTL_NO_ACK_REQ, peer(who), PT_STOP, BITS, 0, NULL, 0));
}

/* Returns the number of puts that rank 0 sent, at every rank. */
static uint64_t sent_by(struct end *e, int who)
{
    uint64_t all[RANKS_MAX];
    exchange(&e->sent, sizeof e->sent, all);
    return all[who];
}

static uint64_t word_at(const void *at)
{
    return *(const volatile uint64_t *)at;
}

/* ---- Bytes and counts ----------------------------------------------------------------------------------- */

CASE(puts_of_every_length, 2, "short and long puts arrive whole, and are counted at both ends, in order")
{
    static const size_t lengths[] = {0, 1, 4, 8, 40, 512, 8192, 8193, 65536, 262144, 262145};
    enum { EACH = 150, LENGTHS = sizeof lengths / sizeof *lengths };
    struct end e = open_end(true, ACKED);
    for (int i = 0; i < 2 * LENGTHS; i++) {
        size_t bytes = lengths[i % LENGTHS];
        for (int n = 0; n < EACH && rank() == 0; n++) {
            pattern_fill(e.memory, bytes, (unsigned)(i * EACH + n));
            OK(PtlPut(e.md, 0, bytes, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 64, NULL, 0));
            e.sent++;
            if (n % 32 == 31) wait_ct(e.ct, 2 * e.sent);
        }
        if (rank() == 0) expect_ct(e.ct, 2 * e.sent, 0);
        barrier();
        if (rank() == TARGET) {
            expect_ct(e.ct, (ptl_size_t)(i + 1) * EACH, 0);
            CHECK_PATTERN(e.memory + 64, bytes, (unsigned)(i * EACH + EACH - 1));
            CHECK_BYTES(e.memory, 64, 0);
            memset(e.memory, 0, BYTES);
        }
        barrier();
    }
}

struct telling {
    unsigned md_options;
    ptl_ack_req_t ack;
    ptl_size_t each; /* of a put of 24 bytes */
};

CASE(initiators_are_told_of_sends_and_acknowledgements, 2,
     "SEND and ACK of each put are counted at the descriptor's counter, in operations or in bytes, and only if asked for")
{
    static const struct telling tellings[] = {
        {PTL_MD_EVENT_CT_SEND, PTL_NO_ACK_REQ, 1},
        {PTL_MD_EVENT_CT_SEND, PTL_CT_ACK_REQ, 1},
        {PTL_MD_EVENT_CT_ACK, PTL_CT_ACK_REQ, 1},
        {PTL_MD_EVENT_CT_ACK, PTL_NO_ACK_REQ, 0},
        {ACKED, PTL_CT_ACK_REQ, 2},
        {ACKED | PTL_MD_EVENT_CT_BYTES, PTL_CT_ACK_REQ, 48},
        {PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_BYTES, PTL_NO_ACK_REQ, 24},
        {PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, PTL_CT_ACK_REQ, 24},
    };
    enum { EACH = 500, TELLINGS = sizeof tellings / sizeof *tellings };
    struct end e = open_end(true, 0);
    for (int i = 0; i < TELLINGS; i++) {
        if (rank() == 0) {
            ptl_handle_ct_t ct = ct_new();
            ptl_handle_md_t md = md_new(e.memory, BYTES, tellings[i].md_options, PTL_EQ_NONE, ct);
            for (ptl_size_t n = 1; n <= EACH; n++) {
                OK(PtlPut(md, 0, 24, tellings[i].ack, peer(TARGET), PT, BITS, 0, NULL, 0));
                if (n % 32 == 0) wait_ct(ct, n * tellings[i].each);
            }
            expect_ct(ct, EACH * tellings[i].each, 0);
            OK(PtlMDRelease(md));
            OK(PtlCTFree(ct));
        }
        barrier();
        if (rank() == TARGET) expect_ct(e.ct, (ptl_size_t)EACH * (ptl_size_t)(i + 1), 0);
        barrier();
    }
}

CASE(entries_count_bytes_or_operations_and_may_decline, 2,
     "an entry with CT_BYTES counts bytes; one with ACK_DISABLE has no acknowledgements counted")
{
    enum { EACH = 700 };
    struct end e = open_end(true, 0);
    ptl_handle_ct_t ct = ct_new();
    if (rank() == TARGET) {
        OK(PtlMEUnlink(e.entry));
        ptl_me_t me = counting(e.memory, 100, e.ct, PTL_ME_EVENT_CT_BYTES | PTL_ME_ACK_DISABLE);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(e.memory, BYTES, ACKED, PTL_EQ_NONE, ct);
        for (int n = 1; n <= EACH; n++) {
            OK(PtlPut(md, 0, 7, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 90, NULL, 0));
            OK(PtlPut(md, 0, 7, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 95, NULL, 0)); /* two bytes too long */
            if (n % 16 == 0) wait_ct(ct, 2 * (ptl_size_t)n);
        }
    }
    barrier();
    if (rank() == 0) expect_ct(ct, 2 * EACH, 0);
    if (rank() == TARGET) expect_ct(e.ct, 12 * EACH, 0);
}

CASE(odd_puts_in_between, 2,
     "long puts are truncated, unmatched ones dropped, ones without an entry refused, as outside a stream")
{
    enum { ROUNDS = 300 };
    struct end e = open_end(true, 0);
    ptl_handle_ct_t ct = ct_new();
    if (rank() == 0) {
        unsigned char *ordinary = malloc(64);
        unsigned char *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK_OP(ordinary, !=, NULL);
        CHECK_OP(nothing, !=, MAP_FAILED);
        CHECK_OP(munmap(nothing, 4096), ==, 0);
        ptl_handle_md_t md = md_new(NULL, PTL_SIZE_MAX, ACKED, PTL_EQ_NONE, ct);
        for (uint64_t n = 1; n <= ROUNDS; n++) {
            memcpy(e.memory, &n, 8);
            memcpy(ordinary, &n, 8);
            ptl_size_t at = (ptl_size_t)e.memory;
            for (int i = 0; i < 4; i++)
                OK(PtlPut(md, at, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 0, NULL, 0));
            OK(PtlPut(md, at, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, BYTES - 3, NULL, 0));  /* truncated */
            OK(PtlPut(md, at, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, BYTES + 99, NULL, 0)); /* of all bytes */
            OK(PtlPut(md, at, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS + 1, 8, NULL, 0));      /* dropped */
            OK(PtlPut(md, (ptl_size_t)ordinary, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 16, NULL, 0));
            CHECK_EQ(PtlPut(md, (ptl_size_t)nothing, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 24, NULL, 0), PTL_ARG_INVALID);
            CHECK_EQ(PtlPut(md, at, 8, PTL_CT_ACK_REQ, peer(TARGET), 1000, BITS, 24, NULL, 0), PTL_ARG_INVALID);
            wait_ct(ct, 16 * n);
        }
        expect_ct(ct, 15 * ROUNDS, ROUNDS);
        free(ordinary);
    }
    barrier();
    if (rank() == TARGET) {
        expect_ct(e.ct, 7 * ROUNDS, 0);
        CHECK_EQ(word_at(e.memory), ROUNDS);
        CHECK_EQ(word_at(e.memory + 16), ROUNDS);
        uint64_t last = ROUNDS;
        CHECK_SAME(e.memory + BYTES - 3, &last, 3);
        CHECK_BYTES(e.memory + 8, 8, 0);
        CHECK_BYTES(e.memory + 24, BYTES - 27, 0);
    }
}

CASE_NIC(memory_taken_away_in_mid_stream, 2,
         "puts to memory that was unmapped fail at both ends; those before them succeed")
{
    /* The owner's own call may write there, and the owner has unmapped its own memory. */
    if (path_is("bounce") || getenv("SELVEDGE_HOST")) return;
    enum { BEFORE = 1000, AFTER = 300, WINDOW = 50, PAGE = 4096 };
    struct end e = open_end(true, 0);
    ptl_handle_ct_t ct = ct_new();
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_OP(page, !=, MAP_FAILED);
    memset(page, 0, PAGE);
    if (rank() == TARGET) {
        ptl_me_t me = counting(page, PAGE, ct, 0);
        pt_at(PT + 1, PTL_EQ_NONE, 0);
        me_append(PT + 1, &me, PTL_PRIORITY_LIST, NULL);
    }
    ptl_handle_md_t md = md_new(e.memory, BYTES, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    barrier();
    /* Ordinary memory, which some paths cannot reach at all. */
    ptl_size_t arrived = path_is("shared") ? 0 : BEFORE;
    for (uint64_t n = 1; n <= BEFORE + AFTER; n++) {
        if (rank() == 0) {
            memcpy(e.memory, &n, sizeof n);
            OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(TARGET), PT + 1, BITS, 16, NULL, 0));
            if (n % WINDOW == 0) wait_ct(ct, n);
        }
        if (n == BEFORE) {
            barrier();
            if (rank() == TARGET) {
                expect_ct(ct, arrived, BEFORE - arrived);
                CHECK_EQ(word_at((char *)page + 16), arrived);
                CHECK_OP(munmap(page, PAGE), ==, 0);
            }
            barrier();
        }
    }
    barrier();
    expect_ct(ct, arrived, BEFORE + AFTER - arrived);
}

/* ---- Changes at the target ------------------------------------------------------------------------------ */

CASE(set_in_mid_stream, 2,
     "PtlCTSet takes effect at one point of a stream: it overwrites all puts before that point and none after it")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    uint64_t least = 0, most = 0;
    if (rank() == 0)
        send_until_stopped(&e, ACKED, TARGET);
    if (rank() == TARGET) {
        for (int i = 0; i < 6; i++) {
            wait_ct(e.ct, enough(0));
            least = word_at(e.memory) - 1; /* the bytes of a put are there before the counter counts it */
            OK(PtlCTSet(e.ct, zero));
            most = word_at(e.memory);
        }
        wait_ct(e.ct, enough(0));
        stop(&e, 0);
    }
    barrier();
    uint64_t sent = sent_by(&e, 0);
    if (rank() == TARGET) {
        uint64_t left = counted(e.ct);
        CHECK_OP(least, <=, sent - left);
        CHECK_OP(sent - left, <=, most + 1);
    }
}

CASE(increments_in_mid_stream, 2, "PtlCTInc and triggered increments add to a counter that a stream counts on; nothing is lost")
{
    enum { TIMES = 100 };
    struct end e = open_end(false, rank() == TARGET ? 0 : ACKED);
    ptl_handle_ct_t trigger = ct_new();
    if (rank() == 0)
        send_until_stopped(&e, ACKED, TARGET);
    if (rank() == TARGET) {
        ptl_size_t before = 0;
        for (ptl_size_t i = 1; i <= TIMES; i++) {
            OK(PtlCTInc(e.ct, (ptl_ct_event_t){1000, 0}));
            OK(PtlTriggeredCTInc(e.ct, (ptl_ct_event_t){500, 0}, trigger, i));
            OK(PtlCTInc(trigger, one));
            ptl_size_t now = wait_ct(e.ct, 1500 * i + 4 * i).success;
            CHECK_OP(now, >=, before);
            CHECK_OP(counted(e.ct), >=, now);
            before = now;
        }
        stop(&e, 0);
    }
    barrier();
    uint64_t sent = sent_by(&e, 0);
    if (rank() == TARGET) expect_ct(e.ct, sent + 1500 * TIMES, 0);
    if (rank() == 0) expect_ct(e.ct, 2 * sent, 0);
}

/* At the end of a stream, on every rank: the completions counted by rank 0 agree with its puts and with those counted by
 * the target. Returns the number of puts. */
static uint64_t check_completions(struct end *e)
{
    barrier();
    uint64_t sent = sent_by(e, 0);
    ptl_size_t arrived[RANKS_MAX], mine = counted(e->ct);
    exchange(&mine, sizeof mine, arrived);
    CHECK_OP(arrived[TARGET], <=, sent);
    if (rank() == 0) expect_ct(e->ct, sent + arrived[TARGET], sent - arrived[TARGET]);
    return sent;
}

/* Checks that nothing arrives for a while: memory and counter do not change. */
static void check_nothing_arrives(struct end *e)
{
    uint64_t word = word_at(e->memory);
    ptl_size_t count = counted(e->ct);
    sleep_ms(3);
    CHECK_EQ(word_at(e->memory), word);
    CHECK_EQ(counted(e->ct), count);
}

/* Unlinks the entry in the middle of a stream, several times, and appends another in its place. */
static void unlink_in_mid_stream(bool matching)
{
    struct end e = open_end(matching, rank() == TARGET ? 0 : ACKED);
    if (rank() == 0)
        send_until_stopped(&e, ACKED, TARGET);
    if (rank() == TARGET) {
        ptl_size_t taken = 0;
        for (int i = 0; i < 5; i++) {
            wait_ct(e.ct, taken += enough(i));
            int rc;
            do
                rc = matching ? PtlMEUnlink(e.entry) : PtlLEUnlink(e.entry);
            while (rc == PTL_IN_USE);
            CHECK_EQ(rc, PTL_OK);
            check_nothing_arrives(&e);
            taken = counted(e.ct);
            /* Memory and counter stay the same: later puts arrive through the new entry. */
            if (matching) {
                ptl_me_t me = counting(e.memory, BYTES, e.ct, 0);
                e.entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
            } else {
                ptl_le_t le = le_over(e.memory, BYTES);
                le.options |= PTL_LE_EVENT_CT_COMM;
                le.ct_handle = e.ct;
                e.entry = le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
            }
        }
        wait_ct(e.ct, taken + enough(2));
        stop(&e, 0);
    }
    uint64_t sent = check_completions(&e);
    if (rank() == TARGET) CHECK_EQ(word_at(e.memory), sent);
}

CASE(list_entry_unlinked_in_mid_stream, 2, "after PtlLEUnlink nothing arrives by that entry; every put arrives or is dropped")
{
    unlink_in_mid_stream(false);
}

CASE(match_entry_unlinked_in_mid_stream, 2, "after PtlMEUnlink nothing arrives by that entry; every put arrives or is dropped")
{
    unlink_in_mid_stream(true);
}

CASE(second_entry_in_mid_stream, 2,
     "an entry appended behind another gets nothing until the first is gone, and then everything")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    ptl_handle_ct_t second = ct_new();
    if (rank() == 0)
        send_until_stopped(&e, ACKED, TARGET);
    if (rank() == TARGET) {
        unsigned char *elsewhere = buffer(64);
        wait_ct(e.ct, enough(0));
        ptl_me_t me = counting(elsewhere, 64, second, 0);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        wait_ct(e.ct, counted(e.ct) + 50);
        CHECK_EQ(counted(second), 0);
        while (PtlMEUnlink(e.entry) == PTL_IN_USE) {
        }
        check_nothing_arrives(&e);
        wait_ct(second, enough(1));
        stop(&e, 0);
        barrier();
        uint64_t sent = sent_by(&e, 0);
        CHECK_EQ(counted(e.ct) + counted(second), sent);
        CHECK_EQ(word_at(elsewhere), sent);
        CHECK_EQ(word_at(e.memory), counted(e.ct));
    } else {
        barrier();
        expect_ct(e.ct, 2 * sent_by(&e, 0), 0);
    }
}

CASE(disabled_in_mid_stream, 2,
     "after PtlPTDisable nothing arrives; refused puts fail and are counted, all others arrive")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    if (rank() == 0)
        send_until_stopped(&e, ACKED, TARGET);
    if (rank() == TARGET) {
        ptl_size_t taken = 0;
        for (int i = 0; i < 4; i++) {
            wait_ct(e.ct, taken + enough(i));
            OK(PtlPTDisable(ni(), PT));
            check_nothing_arrives(&e);
            taken = counted(e.ct);
            OK(PtlPTEnable(ni(), PT));
        }
        wait_ct(e.ct, taken + enough(2));
        stop(&e, 0);
    }
    check_completions(&e);
}

CASE(counter_freed_in_mid_stream, 2,
     "a freed counter counts no more, and one that reuses its place counts only its own messages")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    if (rank() == 0)
        send_until_stopped(&e, ACKED, TARGET);
    if (rank() == TARGET) {
        for (int i = 0; i < 4; i++) {
            wait_ct(e.ct, enough(i));
            OK(PtlCTFree(e.ct));
            ptl_handle_ct_t fresh = ct_new(), other = ct_new();
            uint64_t word = word_at(e.memory);
            for (int n = 0; word_at(e.memory) == word && n < 1000; n++)
                sleep_ms(1); /* messages arrive as before the change */
            CHECK_OP(word_at(e.memory), !=, word);
            CHECK_EQ(counted(fresh), 0);
            CHECK_EQ(counted(other), 0);
            while (PtlMEUnlink(e.entry) == PTL_IN_USE) {
            }
            OK(PtlCTFree(other));
            e.ct = fresh;
            ptl_me_t me = counting(e.memory, BYTES, e.ct, 0);
            e.entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        }
        wait_ct(e.ct, enough(2));
        stop(&e, 0);
    }
    barrier();
}

CASE(armed_in_mid_stream, 2,
     "an operation armed in the middle of a stream fires once, neither before its threshold nor late")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    ptl_handle_ct_t fired = ct_new();
    if (rank() == 0)
        send_until_stopped(&e, ACKED, TARGET);
    if (rank() == TARGET) {
        ptl_size_t times = 0;
        for (int i = 0; i < 5; i++) {
            ptl_size_t now = wait_ct(e.ct, counted(e.ct) + enough(i)).success;
            OK(PtlTriggeredCTInc(fired, one, e.ct, now)); /* due */
            wait_ct(fired, ++times);
            OK(PtlTriggeredCTInc(fired, one, e.ct, now + 400));
            if (counted(fired) == times + 1) CHECK_OP(counted(e.ct), >=, now + 400);
            OK(PtlTriggeredCTInc(fired, one, e.ct, (ptl_size_t)1 << 50));
            wait_ct(fired, ++times);
            now = counted(e.ct);
            CHECK_OP(now, >=, 400);
            OK(PtlCTCancelTriggered(e.ct));
            CHECK_EQ(counted(fired), times);
        }
        ptl_size_t now = counted(e.ct);
        /* The last put stops the sender itself. */
        OK(PtlTriggeredPut(e.md, 0, 0, PTL_NO_ACK_REQ, peer(0), PT_STOP, BITS, 0, NULL, 0, e.ct, now + 500));
        wait_ct(e.ct, now + 500);
    }
    barrier();
    uint64_t sent = sent_by(&e, 0);
    if (rank() == TARGET) {
        expect_ct(e.ct, sent, 0);
        CHECK_EQ(counted(fired), 10);
    }
}

CASE(armed_exactly, 2, "an operation whose threshold is the last put of a stream fires with that put, not one earlier")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    ptl_handle_ct_t fired = ct_new();
    for (ptl_size_t i = 0; i < 6; i++) {
        for (int n = 0; n < 700 && rank() == 0; n++) send_one(&e, ACKED, TARGET);
        if (rank() == 0) wait_ct(e.ct, 2 * e.sent);
        barrier();
        if (rank() == TARGET) OK(PtlTriggeredCTInc(fired, one, e.ct, 710 * (i + 1)));
        barrier();
        for (int n = 0; n < 9 && rank() == 0; n++) send_one(&e, ACKED, TARGET);
        if (rank() == 0) wait_ct(e.ct, 2 * e.sent);
        barrier();
        if (rank() == TARGET) expect_ct(e.ct, 710 * (i + 1) - 1, 0);
        CHECK_EQ(counted(fired), rank() == TARGET ? i : 0);
        barrier();
        if (rank() == 0) send_one(&e, ACKED, TARGET);
        if (rank() == TARGET) expect_ct(fired, i + 1, 0);
        barrier();
    }
}

/* ---- Changes at the initiator --------------------------------------------------------------------------- */

CASE(descriptor_bound_anew, 2, "a descriptor released and bound to other memory sends that memory")
{
    enum { TIMES = 24, EACH = 400 };
    struct end e = open_end(true, 0);
    for (uint64_t i = 1; i <= TIMES; i++) {
        if (rank() == 0) {
            ptl_handle_ct_t ct = ct_new();
            unsigned char *memory = buffer(64);
            pattern_fill(memory, 64, (unsigned)i);
            ptl_handle_md_t md = md_new(memory, 64, i % 3 ? ACKED : 0, PTL_EQ_NONE, ct);
            for (ptl_size_t n = 1; n <= EACH; n++) {
                OK(PtlPut(md, 8, 40, i % 3 ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ, peer(TARGET), PT, BITS, 8, NULL, 0));
                if (n % 32 == 0 && i % 3) wait_ct(ct, 2 * n);
            }
            CHECK_EQ(PtlPut(md, 60, 8, PTL_NO_ACK_REQ, peer(TARGET), PT, BITS, 8, NULL, 0), PTL_ARG_INVALID);
            if (i % 3) expect_ct(ct, 2 * EACH, 0);
            OK(PtlMDRelease(md));
            CHECK_EQ(PtlPut(md, 8, 40, PTL_NO_ACK_REQ, peer(TARGET), PT, BITS, 8, NULL, 0), PTL_ARG_INVALID);
            OK(PtlCTFree(ct));
        }
        barrier();
        if (rank() == TARGET) {
            unsigned char wanted[64];
            pattern_fill(wanted, 64, (unsigned)i);
            expect_ct(e.ct, i * EACH, 0);
            CHECK_SAME(e.memory + 8, wanted + 8, 40);
        }
        barrier();
    }
}

CASE(counter_of_the_descriptor_freed, 2,
     "a descriptor whose counter is freed still sends; a counter that reuses the place stays unchanged")
{
    struct end e = open_end(true, 0);
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md = md_new(e.memory, 64, ACKED, PTL_EQ_NONE, ct);
        for (ptl_size_t n = 1; n <= 600; n++) {
            OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 0, NULL, 0));
            if (n % 32 == 0) wait_ct(ct, 2 * n);
        }
        expect_ct(ct, 1200, 0);
        OK(PtlCTFree(ct));
        ptl_handle_ct_t fresh[4];
        for (int i = 0; i < 4; i++) fresh[i] = ct_new();
        for (int n = 0; n < 600; n++) {
            OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 0, NULL, 0));
            if (n % 32 == 0) sleep_ms(1);
        }
        barrier();
        for (int i = 0; i < 4; i++) expect_ct(fresh[i], 0, 0);
    } else {
        barrier();
        expect_ct(e.ct, 1200, 0);
    }
}

CASE(armed_at_the_initiator, 2, "an operation armed on a descriptor's counter in the middle of a stream fires once, at its count")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    if (rank() == 0) {
        ptl_handle_ct_t fired = ct_new();
        ptl_handle_md_t untold = md_new(e.memory, BYTES, 0, PTL_EQ_NONE, PTL_CT_NONE);
        for (ptl_size_t i = 1; i <= 5; i++) {
            for (ptl_size_t n = 0; n < enough((int)i - 1); n++) send_one(&e, ACKED, TARGET);
            wait_ct(e.ct, 2 * e.sent);
            ptl_size_t at = 2 * e.sent + 100;
            OK(PtlTriggeredPut(untold, 0, 0, PTL_NO_ACK_REQ, peer(TARGET), PT_FLAG, BITS, 0, NULL, 0, e.ct, at));
            OK(PtlTriggeredCTInc(fired, one, e.ct, at));
            for (int n = 0; n < 49; n++) send_one(&e, ACKED, TARGET);
            wait_ct(e.ct, at - 2);
            CHECK_EQ(counted(fired), i - 1);
            send_one(&e, ACKED, TARGET);
            wait_ct(fired, i);
        }
        for (int n = 0; n < 3000; n++) send_one(&e, ACKED, TARGET);
        wait_ct(e.ct, 2 * e.sent);
        expect_ct(fired, 5, 0);
    } else {
        expect_ct(e.flagged, 5, 0);
    }
    barrier();
    uint64_t sent = sent_by(&e, 0);
    if (rank() == TARGET) {
        expect_ct(e.ct, sent, 0);
        expect_ct(e.flagged, 5, 0);
    }
}

CASE(set_to_nothing_at_the_initiator, 2, "a descriptor's counter that is set to 0 between puts counts from there")
{
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    for (int i = 0; i < 40 && rank() == 0; i++) {
        for (ptl_size_t n = 1; n <= 100; n++) {
            OK(PtlPut(e.md, 0, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, BITS, 0, NULL, 0));
            if (n % 32 == 0) wait_ct(e.ct, 2 * n);
        }
        expect_ct(e.ct, 200, 0);
        OK(PtlCTSet(e.ct, zero));
        CHECK_EQ(counted(e.ct), 0);
    }
    barrier();
    if (rank() == TARGET) expect_ct(e.ct, 4000, 0);
}

CASE(map_set_anew, 3, "after PtlSetMap a rank is the process of the new map")
{
    struct end e = open_end(true, rank() == 0 ? ACKED : 0);
    if (rank() == 2) {
        ptl_me_t me = counting(e.memory, BYTES, e.ct, 0);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    ptl_process_t maps[2][3] = {{peer_physical(0), peer_physical(1), peer_physical(2)},
                                {peer_physical(0), peer_physical(2), peer_physical(1)}};
    barrier();
    for (int i = 0; i < 6; i++) {
        OK(PtlSetMap(ni(), 3, maps[i % 2]));
        barrier();
        for (int n = 0; n < 500 && rank() == 0; n++)
            send_one(&e, ACKED, 1);
        if (rank() == 0) expect_ct(e.ct, 2 * e.sent, 0);
        barrier();
        if (rank() != 0) expect_ct(e.ct, 500 * (ptl_size_t)((i + (rank() == 1 ? 2 : 1)) / 2), 0);
        barrier();
    }
}

/* ---- Many senders --------------------------------------------------------------------------------------- */

enum { THREADS = 2, OF_THREAD = 3000 };

struct thread {
    struct end *e;
    ptl_pt_index_t pt;
    ptl_size_t offset;
    pthread_t thread;
};

static void *thread_run(void *opaque)
{
    struct thread *t = opaque;
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = md_new(t->e->memory + t->offset, 8, ACKED, PTL_EQ_NONE, ct);
    for (uint64_t n = 1; n <= OF_THREAD; n++) {
        memcpy(t->e->memory + t->offset, &n, 8);
        OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(TARGET), t->pt, BITS, t->offset, NULL, 0));
        if (n % 32 == 0) wait_ct(ct, 2 * n);
    }
    expect_ct(ct, 2 * OF_THREAD, 0);
    OK(PtlMDRelease(md));
    OK(PtlCTFree(ct));
    return NULL;
}

/* Twice, two threads put to these indices. The second pair may have the thread ids of the first. */
static void threads_to(ptl_pt_index_t first, ptl_pt_index_t second)
{
    struct end e = open_end(true, 0);
    ptl_handle_ct_t other = ct_new();
    if (rank() == TARGET && second != first) {
        pt_at(second, PTL_EQ_NONE, 0);
        ptl_me_t me = counting(e.memory, BYTES, other, 0);
        me_append(second, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    for (int round = 0; round < 2 && rank() == 0; round++) {
        struct thread threads[THREADS] = {{.e = &e, .pt = first}, {.e = &e, .pt = second, .offset = 64}};
        for (int i = 0; i < THREADS; i++)
            CHECK_OP(pthread_create(&threads[i].thread, NULL, thread_run, &threads[i]), ==, 0);
        for (int i = 0; i < THREADS; i++)
            CHECK_OP(pthread_join(threads[i].thread, NULL), ==, 0);
    }
    barrier();
    if (rank() == TARGET) {
        CHECK_EQ(counted(e.ct), second == first ? 4 * OF_THREAD : 2 * OF_THREAD);
        CHECK_EQ(counted(other), second == first ? 0 : 2 * OF_THREAD);
        CHECK_EQ(word_at(e.memory), OF_THREAD);
        CHECK_EQ(word_at(e.memory + 64), OF_THREAD);
    }
}

CASE(threads_to_one_entry, 2, "puts of two threads of a process to one entry are all counted")
{
    threads_to(PT, PT);
}

CASE(threads_to_two_entries, 2, "puts of two threads of a process to an entry each are all counted")
{
    threads_to(PT, PT + 1);
}

CASE(threads_to_two_entries_far_apart, 2, "puts of two threads to entries whose indices differ by a power of two are all counted")
{
    threads_to(PT, PT + 16);
}

CASE(many_senders_to_one_counter, 7,
     "puts of six processes to one entry are all counted, also while it is unlinked and appended again")
{
    enum { EACH = 2500 };
    struct end e = open_end(true, rank() == TARGET ? 0 : ACKED);
    if (rank() != TARGET)
        for (int n = 0; n < EACH; n++) send_one(&e, ACKED, TARGET);
    if (rank() != TARGET) wait_ct(e.ct, 2 * EACH);
    if (rank() == TARGET) {
        wait_ct(e.ct, 2000);
        OK(PtlPTDisable(ni(), PT));
        check_nothing_arrives(&e);
        OK(PtlPTEnable(ni(), PT));
    }
    barrier();
    ptl_size_t told[RANKS_MAX], mine = counted(e.ct), acked = 0;
    exchange(&mine, sizeof mine, told);
    for (int r = 0; r < ranks(); r++)
        if (r != TARGET) acked += told[r] - EACH;
    CHECK_EQ(told[TARGET], acked);
    if (rank() != TARGET) CHECK_EQ(value_of(e.ct).success + value_of(e.ct).failure, 2 * EACH);
}

/* ---- Interfaces that come and go ------------------------------------------------------------------------ */

CASE(sender_comes_and_goes, 2,
     "an interface that is closed and opened many times leaves no state at its peers that breaks later puts")
{
    enum { TIMES = 70, EACH = 100 };
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    struct end e = {.memory = buffer(64), .ct = ct_new()};
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = counting(e.memory, 64, e.ct, 0);
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_process_t own = peer_physical(0), target = peer_physical(TARGET);
        for (int i = 0; i < TIMES; i++) {
            /* Closes the suite's interface, and opens it again with its old id. */
            ptl_handle_ni_t again = ni();
            OK(PtlNIFini(again));
            OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, own.phys.pid, NULL, NULL, &again));
            CHECK_EQ(again, ni());
            ptl_handle_ct_t ct = ct_new();
            ptl_handle_md_t md = md_new(e.memory, 64, ACKED, PTL_EQ_NONE, ct);
            for (ptl_size_t n = 1; n <= EACH; n++) {
                OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, target, PT, BITS, 0, NULL, 0));
                if (n % 32 == 0) wait_ct(ct, 2 * n);
            }
            expect_ct(ct, 2 * EACH, 0);
        }
    }
    barrier();
    if (rank() == TARGET) expect_ct(e.ct, TIMES * EACH, 0);
}

CASE_NIC(target_comes_and_goes, 2, "puts to a closed interface fail, and arrive again when it is reopened")
{
    enum { TIMES = 6 };
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    unsigned char *memory = buffer(64), *flags = buffer(64);
    ptl_process_t own = peer_physical(rank()), target = peer_physical(TARGET);
    volatile uint64_t *stopped = (volatile uint64_t *)flags;
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = md_new(memory, 64, ACKED, PTL_EQ_NONE, rank() == 0 ? ct : PTL_CT_NONE);
    if (rank() == 0) {
        pt_at(PT_STOP, PTL_EQ_NONE, 0);
        ptl_me_t me = me_over(flags, 64, BITS);
        me_append(PT_STOP, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    uint64_t sent = 0, arrived = 0;
    if (rank() == 0) {
        while (*stopped == 0 && sent < STREAM_MAX) {
            OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, target, PT, BITS, 0, NULL, 0));
            sent++;
            if (sent % 64 == 0) wait_ct(ct, 2 * sent - 64);
        }
        wait_ct(ct, 2 * sent);
        barrier();
    } else {
        for (int i = 0; i < TIMES; i++) {
            if (i != 0) {
                ptl_handle_ni_t again;
                OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, own.phys.pid, NULL, NULL, &again));
                CHECK_EQ(again, ni());
            }
            pt_at(PT, PTL_EQ_NONE, 0);
            ptl_handle_ct_t here = ct_new();
            ptl_me_t me = counting(memory, 64, here, 0);
            ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
            wait_ct(here, enough(0));
            if (i == TIMES - 1) {
                md = md_new(flags, 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
                flags[0] = 1;
                OK(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, peer_physical(0), PT_STOP, BITS, 0, NULL, 0));
            }
            while (PtlMEUnlink(entry) == PTL_IN_USE) {
            }
            arrived += counted(here);
            uint64_t word = word_at(memory);
            if (i < TIMES - 1) OK(PtlNIFini(ni()));
            CHECK_EQ(word_at(memory), word);
        }
        barrier();
    }
    uint64_t all[RANKS_MAX];
    exchange(rank() == 0 ? &sent : &arrived, sizeof sent, all);
    if (rank() == 0) {
        /* A put that cannot be delivered may fail twice: in its SEND and in its ACK. */
        ptl_ct_event_t told = value_of(ct);
        CHECK_EQ(told.success + told.failure, 2 * sent);
        CHECK_OP(told.success, >=, 2 * all[TARGET]);
        CHECK_OP(told.success, <=, sent + all[TARGET]);
    }
}

/* ---- Order ---------------------------------------------------------------------------------------------- */

CASE(small_puts_stay_behind_large_ones, 2,
     "a short counted put arrives after the long one before it, whatever their memory")
{
    enum { TIMES = 60, LARGE = 300 << 10 };
    struct end e = open_end(true, 0);
    unsigned char *large = buffer(LARGE);
    /* With shared buffers and any path, both kinds of memory work: the long entry then has the other kind. */
    unsigned char *exposed = memory_is_shared() && path_is("auto") ? malloc(LARGE) : buffer(LARGE);
    CHECK_OP(exposed, !=, NULL);
    if (rank() == TARGET) {
        ptl_me_t me = me_over(exposed, LARGE, BITS);
        pt_at(PT + 1, PTL_EQ_NONE, 0);
        me_append(PT + 1, &me, PTL_PRIORITY_LIST, NULL);
    }
    ptl_handle_md_t md = md_new(large, LARGE, 0, PTL_EQ_NONE, PTL_CT_NONE);
    barrier();
    for (ptl_size_t i = 1; i <= TIMES; i++) {
        size_t bytes = i % 3 == 0 ? LARGE : i % 3 == 1 ? 9000 : 200;
        if (rank() == 0) {
            memset(large, (int)i, bytes);
            for (int n = 0; n < 99; n++) OK(PtlPut(e.md, 0, 8, PTL_NO_ACK_REQ, peer(TARGET), PT, BITS, 0, NULL, 0));
            OK(PtlPut(md, 0, bytes, PTL_NO_ACK_REQ, peer(TARGET), PT + 1, BITS, 0, NULL, 0));
            OK(PtlPut(e.md, 0, 8, PTL_NO_ACK_REQ, peer(TARGET), PT, BITS, 0, NULL, 0));
        } else {
            wait_ct(e.ct, 100 * i);
            CHECK_BYTES(exposed, bytes, (int)i);
        }
        barrier();
    }
}
