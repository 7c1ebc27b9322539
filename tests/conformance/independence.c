/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Progress without the target's program. While a process computes and makes no call, operations on its interface complete.
 * Portals 4.3 promises that communication makes progress without calls of the application ("application bypass"). These
 * cases hold only where the interface works without its owner (CASE_NIC).
 *
 * In every case process 1 is busy: it computes, for at least BUSY_MS, until it sees a byte in its own memory. Process 0
 * writes this byte as its last message, after all its other operations are complete. If one of them needed a call of the
 * busy process, process 0 would wait for ever and the case would fail.
 */
#include "suite.h"

enum { PT = 12, BITS = 0xd1, BYTES = 8192, BUSY_MS = 300, GIVE_UP_MS = 60000, RELEASE_AT = BYTES - 1 };

struct side {
    unsigned char *exposed, *local;
    ptl_handle_eq_t eq; /* in the memory behind PT */
    ptl_handle_ct_t arrived, done;
    ptl_handle_md_t md;
    ptl_handle_me_t entry;
    ptl_size_t completed;
};

static struct side open_side(ptl_list_t list, unsigned options)
{
    struct side s = {.exposed = buffer(BYTES), .local = buffer(BYTES), .eq = eq_new(4096)};
    s.arrived = ct_new();
    s.done = ct_new();
    pt_at(PT, s.eq, 0);
    ptl_me_t me = me_over(s.exposed, BYTES, BITS);
    me.options |= PTL_ME_EVENT_CT_COMM | options;
    me.ct_handle = s.arrived;
    s.entry = me_append(PT, &me, list, NULL);
    s.md = md_new(s.local, BYTES, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, s.done);
    return s;
}

/* Computes until released. It makes no call of the interface and no system call except to read the clock. */
static void compute_until_released(const struct side *s)
{
    const volatile unsigned char *released = s->exposed + RELEASE_AT;
    long long start_ms = now_ms();
    volatile double sum = 0;
    while (*released == 0 || now_ms() - start_ms < BUSY_MS) {
        for (int i = 1; i < 20000; i++)
            sum += 1.0 / i;
        CHECK_OP(now_ms() - start_ms, <, GIVE_UP_MS);
    }
}

static void release(struct side *s)
{
    unsigned char *flag = buffer(1);
    ptl_handle_ct_t ct = ct_new();
    *flag = 1;
    ptl_handle_md_t md = md_new(flag, 1, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    OK(PtlPut(md, 0, 1, PTL_CT_ACK_REQ, peer(1), PT, BITS, RELEASE_AT, NULL, 0));
    expect_ct(ct, 1, 0);
    (void)s;
}

CASE_NIC(puts_are_acknowledged, 2, "puts into a busy process are delivered and acknowledged")
{
    enum { COUNT = 500 };
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    barrier();
    if (rank() == 0) {
        for (unsigned i = 0; i < COUNT; i++) {
            pattern_fill(s.local, 4096, i);
            OK(PtlPut(s.md, 0, 4096, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, i));
            expect_ct(s.done, i + 1, 0);
        }
        release(&s);
    } else {
        compute_until_released(&s);
        CHECK_PATTERN(s.exposed, 4096, COUNT - 1);
        expect_ct(s.arrived, COUNT + 1, 0);
        for (ptl_hdr_data_t i = 0; i < COUNT; i++)
            CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, i);
    }
    barrier();
}

CASE_NIC(gets_are_served, 2, "gets from a busy process bring its data")
{
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    if (rank() == 1)
        pattern_fill(s.exposed, 8000, 31);
    barrier();
    if (rank() == 0) {
        for (ptl_size_t i = 1; i <= 200; i++) {
            memset(s.local, 0, 8000);
            OK(PtlGet(s.md, 0, 8000, peer(1), PT, BITS, 0, NULL));
            expect_ct(s.done, i, 0);
            CHECK_PATTERN(s.local, 8000, 31);
        }
        release(&s);
    } else {
        compute_until_released(&s);
        expect_ct(s.arrived, 201, 0);
    }
    barrier();
}

CASE_NIC(large_messages_pass, 2, "a megabyte goes into and out of a busy process")
{
    enum { LARGE = 1 << 20 };
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    unsigned char *large = buffer(LARGE);
    ptl_me_t me = me_over(large, LARGE, BITS + 1);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        unsigned char *local = buffer(LARGE), *back = buffer(LARGE);
        ptl_handle_md_t md = md_new(local, LARGE, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, s.done);
        ptl_handle_md_t md_back = md_new(back, LARGE, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, s.done);
        pattern_fill(local, LARGE, 32);
        OK(PtlPut(md, 0, LARGE, PTL_CT_ACK_REQ, peer(1), PT, BITS + 1, 0, NULL, 0));
        expect_ct(s.done, 1, 0);
        OK(PtlGet(md_back, 0, LARGE, peer(1), PT, BITS + 1, 0, NULL));
        expect_ct(s.done, 2, 0);
        CHECK_PATTERN(back, LARGE, 32);
        release(&s);
    } else {
        compute_until_released(&s);
    }
    barrier();
}

CASE_NIC(atomics_are_done, 3, "atomics and their replies complete at a busy process")
{
    enum { COUNT = 300 };
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    ptl_handle_md_t md_back = md_new(buffer(64), 64, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, s.done);
    barrier();
    if (rank() != 1) {
        *(int64_t *)s.local = 1;
        for (ptl_size_t i = 1; i <= COUNT; i++) {
            OK(PtlAtomic(s.md, 0, 8, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
            OK(PtlFetchAtomic(md_back, 0, s.md, 0, 8, peer(1), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
            expect_ct(s.done, 2 * i, 0);
        }
        /* The sum is complete when both processes are done: a get reads it. */
        while (*(int64_t *)s.local != 4 * COUNT) {
            OK(PtlGet(s.md, 0, 8, peer(1), PT, BITS, 0, NULL));
            wait_ct(s.done, 2 * COUNT + ++s.completed);
        }
        if (rank() == 0)
            release(&s);
    } else {
        compute_until_released(&s);
        CHECK_EQ(*(int64_t *)s.exposed, 4 * COUNT);
    }
    barrier();
}

CASE_NIC(counters_trigger, 2,
         "messages count at a busy process, and the counts fire its armed operations, messages too")
{
    enum { COUNT = 50 };
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    if (rank() == 1) {
        pattern_fill(s.local, 128, 33);
        for (ptl_size_t i = 1; i <= COUNT; i++)
            OK(PtlTriggeredPut(s.md, 0, 128, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, i, s.arrived, i));
    }
    barrier();
    if (rank() == 0) {
        for (ptl_size_t i = 1; i <= COUNT; i++) {
            OK(PtlPut(s.md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
            CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, i);
            CHECK_PATTERN(s.exposed, 128, 33);
        }
        release(&s);
    } else {
        compute_until_released(&s);
    }
    barrier();
}

CASE_NIC(what_the_busy_process_asked_completes, 2, "a get that a process issued completes while it computes")
{
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    if (rank() == 0)
        pattern_fill(s.exposed, 4000, 34);
    barrier();
    if (rank() == 1) {
        /* A triggered operation on arrival: the busy process's get starts, and its reply triggers a put to process 0. */
        ptl_handle_ct_t replied = ct_new();
        ptl_handle_md_t into = md_new(s.local, 4000, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, replied);
        OK(PtlTriggeredPut(into, 0, 4000, PTL_NO_ACK_REQ, peer(0), PT, BITS, 4000, NULL, 77, replied, 1));
        OK(PtlTriggeredGet(into, 0, 4000, peer(0), PT, BITS, 0, NULL, s.arrived, 1));
    }
    barrier();
    if (rank() == 0) {
        OK(PtlPut(s.md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_event(s.eq, PTL_EVENT_GET);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, 77);
        CHECK_PATTERN(s.exposed + 4000, 4000, 34);
        release(&s);
    } else {
        compute_until_released(&s);
        CHECK_PATTERN(s.local, 4000, 34);
    }
    barrier();
}

CASE_NIC(entries_are_used_up, 2, "a busy process's entries match, unlink and give way to the overflow list in order")
{
    enum { ENTRIES = 20, MESSAGES = 30 };
    ni_matching();
    struct side s = open_side(PTL_OVERFLOW_LIST, 0);
    unsigned char *slots = buffer(ENTRIES * 64);
    for (int i = 0; i < ENTRIES; i++) {
        ptl_me_t me = me_over(slots + i * 64, 64, BITS);
        me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
        me_append(PT, &me, PTL_PRIORITY_LIST, (void *)(uintptr_t)(i + 1));
    }
    barrier();
    if (rank() == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            memset(s.local, i + 1, 64);
            OK(PtlPut(s.md, 0, 64, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, (ptl_hdr_data_t)i));
            expect_ct(s.done, (ptl_size_t)i + 1, 0);
        }
        release(&s);
    } else {
        compute_until_released(&s);
        for (int i = 0; i < MESSAGES; i++) {
            ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
            CHECK_EQ(ev.hdr_data, i);
            CHECK_EQ(ev.ptl_list, i < ENTRIES ? PTL_PRIORITY_LIST : PTL_OVERFLOW_LIST);
            if (i < ENTRIES)
                CHECK_BYTES(slots + i * 64, 64, i + 1);
        }
    }
    barrier();
}

CASE_NIC(failures_are_told, 2,
         "a busy process's interface refuses and drops as specified, and the sender gets the error")
{
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    ptl_me_t closed = me_over(buffer(8), 8, BITS + 2);
    closed.options &= ~(unsigned)(PTL_ME_OP_PUT | PTL_ME_OP_GET);
    me_append(PT, &closed, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_md_t md = md_new(s.local, BYTES, 0, eq, PTL_CT_NONE);
        put(md, 8, 1, PT, BITS + 1, 0);
        expect_send_ack_failure(eq, PTL_NI_DROPPED);
        put(md, 8, 1, PT, BITS + 2, 0);
        expect_send_ack_failure(eq, PTL_NI_OP_VIOLATION);
        release(&s);
    } else {
        compute_until_released(&s);
    }
    barrier();
}

CASE_NIC(flow_control_acts, 2, "a full queue disables the entry of a busy process without its program")
{
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    ptl_handle_eq_t narrow = eq_new(8);
    pt_at(PT + 1, narrow, PTL_PT_FLOWCTRL);
    ptl_me_t me = me_over(NULL, 0, BITS);
    me_append(PT + 1, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    int delivered = 0;
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
        for (;; delivered++) {
            ptl_event_t ev;
            CHECK_OP(delivered, <, 4000);
            put(md, 0, 1, PT + 1, BITS, 0);
            OK(wait_event(eq, &ev, 0));
            if (ev.ni_fail_type == PTL_NI_PT_DISABLED)
                break;
            CHECK_EQ(ev.ni_fail_type, PTL_NI_OK);
        }
        CHECK_OP(delivered, >=, 1);
        release(&s);
    } else {
        compute_until_released(&s);
    }
    int all[2];
    exchange(&delivered, sizeof delivered, all);
    if (rank() == 1) {
        ptl_event_t ev;
        for (int i = 0; i < all[0]; i++)
            expect_event(narrow, PTL_EVENT_PUT);
        OK(wait_event(narrow, &ev, 0));
        CHECK_EQ(ev.type, PTL_EVENT_PT_DISABLED);
    }
    barrier();
}

CASE_NIC(others_synchronise_through_it, 4, "a triggered barrier passes through a busy process")
{
    ni_matching();
    struct side s = open_side(PTL_PRIORITY_LIST, 0);
    ptl_handle_ct_t hub = ct_new();
    ptl_me_t me = me_over(NULL, 0, BITS + 3);
    me.ct_handle = hub;
    me.options |= PTL_ME_EVENT_CT_COMM;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    enum { ROUNDS = 20 };
    ptl_handle_md_t empty = md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
    /* Process 1 is the hub: when the messages of the three others have arrived, it sends to all of them. */
    for (ptl_size_t round = 1; rank() == 1 && round <= ROUNDS; round++)
        for (int to = 0; to < 4; to++)
            if (to != 1)
                OK(PtlTriggeredPut(empty, 0, 0, PTL_NO_ACK_REQ, peer(to), PT, BITS + 3, 0, NULL, 0, hub, 3 * round));
    barrier();
    if (rank() == 1) {
        compute_until_released(&s);
    } else {
        for (ptl_size_t round = 1; round <= ROUNDS; round++) {
            OK(PtlPut(empty, 0, 0, PTL_NO_ACK_REQ, peer(1), PT, BITS + 3, 0, NULL, 0));
            expect_ct(hub, round, 0);
        }
        if (rank() == 0)
            release(&s);
    }
    barrier();
}
