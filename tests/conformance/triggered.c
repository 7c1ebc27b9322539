/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Triggered operations: the nine calls, thresholds, order, chains over counters and processes, capacity. Portals 4.3,
 * "Triggered Operations".
 *
 * In the cases with two processes, process 0 is the initiator and process 1 the target unless a comment says otherwise.
 */
#include "suite.h"

enum { PT = 8, BITS = 0xb1, BYTES = 1024 };

static const ptl_ct_event_t one = {1, 0};

static void inc(ptl_handle_ct_t ct)
{
    OK(PtlCTInc(ct, one));
}

static ptl_ct_event_t value_of(ptl_handle_ct_t ct)
{
    ptl_ct_event_t value;
    OK(PtlCTGet(ct, &value));
    return value;
}

/* Objects of both ranks of a case: memory behind PT, which counts arrivals; descriptors, which count completions. */
struct side {
    unsigned char *exposed, *local, *back;
    ptl_handle_ct_t arrived, done, trigger;
    ptl_handle_md_t md, md_back;
};

static struct side open_side(void)
{
    struct side s = {.exposed = buffer(BYTES), .local = buffer(BYTES), .back = buffer(BYTES)};
    s.arrived = ct_new();
    s.done = ct_new();
    s.trigger = ct_new();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(s.exposed, BYTES, BITS);
    me.options |= PTL_ME_EVENT_CT_COMM;
    me.ct_handle = s.arrived;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    s.md = md_new(s.local, BYTES, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, s.done);
    s.md_back = md_new(s.back, BYTES, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, s.done);
    return s;
}

static int arm_put(struct side *s, int to, ptl_size_t bytes, ptl_handle_ct_t trigger, ptl_size_t threshold)
{
    return PtlTriggeredPut(s->md, 0, bytes, PTL_CT_ACK_REQ, peer(to), PT, BITS, 0, NULL, 0, trigger, threshold);
}

/* ---- The nine calls ------------------------------------------------------------------------------------- */

CASE(put_waits_for_its_threshold, 2,
     "a triggered put leaves when the counter reaches the threshold, with the data at that moment")
{
    ni_matching();
    struct side s = open_side();
    barrier();
    if (rank() == 0) {
        pattern_fill(s.local, BYTES, 1);
        OK(arm_put(&s, 1, BYTES, s.trigger, 3));
        inc(s.trigger);
        inc(s.trigger);
        sleep_ms(30);
        CHECK_EQ(value_of(s.done).success, 0);
        pattern_fill(s.local, BYTES, 2);
        inc(s.trigger);
        expect_ct(s.done, 1, 0);
    }
    barrier();
    if (rank() == 1) {
        CHECK_PATTERN(s.exposed, BYTES, 2);
        expect_ct(s.arrived, 1, 0);
    }
}

CASE(get_waits_for_its_threshold, 2, "a triggered get leaves when the counter reaches the threshold")
{
    ni_matching();
    struct side s = open_side();
    if (rank() == 1)
        pattern_fill(s.exposed, BYTES, 1);
    barrier();
    if (rank() == 0) {
        OK(PtlTriggeredGet(s.md_back, 10, 100, peer(1), PT, BITS, 20, NULL, s.trigger, 1));
        sleep_ms(30);
        CHECK_EQ(value_of(s.done).success, 0);
    }
    barrier();
    if (rank() == 1) {
        expect_ct(s.arrived, 0, 0);
        pattern_fill(s.exposed + 20, 100, 2);
    }
    barrier();
    if (rank() == 0) {
        inc(s.trigger);
        expect_ct(s.done, 1, 0);
        CHECK_BYTES(s.back, 10, 0);
        CHECK_PATTERN(s.back + 10, 100, 2);
        CHECK_BYTES(s.back + 110, BYTES - 110, 0);
    }
    barrier();
}

CASE(atomic_waits_for_its_threshold, 2, "a triggered atomic leaves when the counter reaches the threshold")
{
    ni_matching();
    struct side s = open_side();
    barrier();
    if (rank() == 0) {
        int64_t *operand = (int64_t *)s.local;
        *operand = 100;
        OK(PtlTriggeredAtomic(s.md, 0, 8, PTL_CT_ACK_REQ, peer(1), PT, BITS, 16, NULL, 0, PTL_SUM, PTL_INT64_T,
                              s.trigger, 2));
        inc(s.trigger);
        *operand = -7;
        inc(s.trigger);
        expect_ct(s.done, 1, 0);
    }
    barrier();
    if (rank() == 1)
        CHECK_EQ(*(int64_t *)(s.exposed + 16), -7);
}

CASE(fetch_atomic_waits_for_its_threshold, 2, "a triggered fetching atomic returns the value at the moment it ran")
{
    ni_matching();
    struct side s = open_side();
    barrier();
    if (rank() == 0) {
        *(uint32_t *)s.local = 5;
        OK(PtlTriggeredFetchAtomic(s.md_back, 8, s.md, 0, 4, peer(1), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_UINT32_T,
                                   s.trigger, 1));
        OK(PtlAtomic(s.md, 0, 4, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_UINT32_T));
        expect_ct(s.done, 1, 0);
        inc(s.trigger);
        expect_ct(s.done, 2, 0);
        CHECK_EQ(*(uint32_t *)(s.back + 8), 5);
    }
    barrier();
    if (rank() == 1)
        CHECK_EQ(*(uint32_t *)s.exposed, 10);
}

CASE(swap_waits_for_its_threshold, 2, "a triggered swap uses the operand at the call and the data at the moment it ran")
{
    ni_matching();
    struct side s = open_side();
    barrier();
    if (rank() == 0) {
        uint64_t operand = 0;
        *(uint64_t *)s.local = 1;
        OK(PtlTriggeredSwap(s.md_back, 0, s.md, 0, 8, peer(1), PT, BITS, 0, NULL, 0, &operand, PTL_CSWAP,
                            PTL_UINT64_T, s.trigger, 1));
        operand = 99;
        *(uint64_t *)s.local = 42;
        inc(s.trigger);
        expect_ct(s.done, 1, 0);
        CHECK_EQ(*(uint64_t *)s.back, 0);
    }
    barrier();
    if (rank() == 1)
        CHECK_EQ(*(uint64_t *)s.exposed, 42);
}

CASE(increment_waits_for_its_threshold, 1,
     "a triggered increment changes its counter when the other reaches the threshold")
{
    ni_matching();
    ptl_handle_ct_t trigger = ct_new(), target = ct_new();
    OK(PtlTriggeredCTInc(target, (ptl_ct_event_t){5, 0}, trigger, 2));
    OK(PtlTriggeredCTInc(target, (ptl_ct_event_t){0, 3}, trigger, 3));
    inc(trigger);
    CHECK_EQ(value_of(target).success, 0);
    inc(trigger);
    expect_ct(target, 5, 0);
    inc(trigger);
    expect_ct(target, 5, 3);
    CHECK_EQ(value_of(trigger).success, 3);
}

CASE(set_waits_for_its_threshold, 1, "a triggered set replaces its counter, down as well as up")
{
    ni_matching();
    ptl_handle_ct_t trigger = ct_new(), target = ct_new();
    OK(PtlTriggeredCTSet(target, (ptl_ct_event_t){70, 7}, trigger, 1));
    OK(PtlTriggeredCTSet(target, (ptl_ct_event_t){1, 0}, trigger, 2));
    CHECK_EQ(value_of(target).success, 0);
    inc(trigger);
    expect_ct(target, 70, 7);
    inc(trigger);
    CHECK_EQ(value_of(target).success, 1);
    CHECK_EQ(value_of(target).failure, 0);
}

static ptl_ni_fail_t put_and_see(ptl_handle_md_t md, ptl_handle_eq_t eq, ptl_match_bits_t bits)
{
    ptl_event_t ev;
    put(md, 8, 1, PT, bits, 0);
    expect_event(eq, PTL_EVENT_SEND);
    OK(wait_event(eq, &ev, 0));
    CHECK_EQ(ev.type, PTL_EVENT_ACK);
    return ev.ni_fail_type;
}

CASE(append_waits_for_its_threshold, 2, "a triggered append links its entry when the threshold is reached, not before")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    pt_at(PT, eq, 0);
    ptl_handle_ct_t trigger = ct_new();
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    ptl_me_t me = me_over(buffer(8), 8, BITS);
    ptl_handle_me_t entry = PTL_INVALID_HANDLE;
    me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
    if (rank() == 1)
        OK(PtlTriggeredMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, &md, &entry, trigger, 1));
    barrier();
    if (rank() == 0)
        CHECK_EQ(put_and_see(md, eq, BITS), PTL_NI_DROPPED);
    barrier();
    if (rank() == 1) {
        no_event(eq, 20);
        inc(trigger);
        CHECK_PTR(expect_event(eq, PTL_EVENT_LINK).user_ptr, &md);
    }
    barrier();
    if (rank() == 0)
        CHECK_EQ(put_and_see(md, eq, BITS), PTL_NI_OK);
    barrier();
    if (rank() == 1)
        OK(PtlMEUnlink(entry));
}

CASE(unlink_waits_for_its_threshold, 2,
     "a triggered unlink removes its entry when the threshold is reached, not before")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    pt_at(PT, eq, 0);
    ptl_handle_ct_t trigger = ct_new();
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    ptl_me_t me = me_over(buffer(8), 8, BITS);
    ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    OK(PtlTriggeredMEUnlink(entry, trigger, 1));
    barrier();
    if (rank() == 0)
        CHECK_EQ(put_and_see(md, eq, BITS), PTL_NI_OK);
    barrier();
    inc(trigger);
    barrier();
    if (rank() == 0)
        CHECK_EQ(put_and_see(md, eq, BITS), PTL_NI_DROPPED);
    barrier();
    CHECK_EQ(PtlMEUnlink(entry), PTL_ARG_INVALID);
}

/* ---- Thresholds and order ------------------------------------------------------------------------------- */

CASE(reached_threshold_fires_at_once, 2, "an operation whose threshold is already reached or passed runs at once")
{
    ni_matching();
    struct side s = open_side();
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t target = ct_new();
        OK(PtlCTSet(s.trigger, (ptl_ct_event_t){10, 0}));
        OK(arm_put(&s, 1, 8, s.trigger, 10));
        OK(arm_put(&s, 1, 8, s.trigger, 3));
        OK(arm_put(&s, 1, 8, s.trigger, 0));
        expect_ct(s.done, 3, 0);
        OK(PtlTriggeredCTInc(target, one, s.trigger, 10));
        CHECK_EQ(value_of(target).success, 1);
    }
    barrier();
}

CASE(failures_count_towards_thresholds, 1, "the threshold is compared with the sum of success and failure")
{
    ni_matching();
    ptl_handle_ct_t trigger = ct_new(), target = ct_new();
    OK(PtlTriggeredCTInc(target, one, trigger, 4));
    OK(PtlCTInc(trigger, (ptl_ct_event_t){0, 2}));
    OK(PtlCTInc(trigger, (ptl_ct_event_t){1, 0}));
    CHECK_EQ(value_of(target).success, 0);
    OK(PtlCTInc(trigger, (ptl_ct_event_t){0, 1}));
    expect_ct(target, 1, 0);
}

CASE(set_fires_what_it_reaches, 1,
     "PtlCTSet fires operations whose threshold it reaches or passes; setting it back fires nothing again")
{
    ni_matching();
    ptl_handle_ct_t trigger = ct_new(), target = ct_new();
    for (ptl_size_t i = 1; i <= 10; i++)
        OK(PtlTriggeredCTInc(target, one, trigger, i));
    OK(PtlCTSet(trigger, (ptl_ct_event_t){7, 0}));
    expect_ct(target, 7, 0);
    OK(PtlCTSet(trigger, (ptl_ct_event_t){0, 0}));
    OK(PtlCTSet(trigger, (ptl_ct_event_t){7, 0}));
    CHECK_EQ(value_of(target).success, 7);
    OK(PtlCTSet(trigger, (ptl_ct_event_t){2, 8}));
    expect_ct(target, 10, 0);
}

CASE(lower_thresholds_fire_first, 1, "operations run in the order of their thresholds, whatever the order of the calls")
{
    ni_matching();
    static const ptl_size_t thresholds[] = {5, 1, 8, 3, 2, 7, 4, 6};
    ptl_handle_ct_t trigger = ct_new(), target = ct_new();
    for (size_t i = 0; i < 8; i++)
        OK(PtlTriggeredCTSet(target, (ptl_ct_event_t){100 + thresholds[i], 0}, trigger, thresholds[i]));
    for (ptl_size_t i = 1; i <= 4; i++) {
        inc(trigger);
        CHECK_EQ(value_of(target).success, 100 + i);
    }
    OK(PtlCTSet(trigger, (ptl_ct_event_t){8, 0})); /* four at once: the highest threshold last */
    CHECK_EQ(value_of(target).success, 108);
}

CASE(equal_thresholds_fire_in_call_order, 2,
     "operations with one threshold on one counter run in the order of their calls")
{
    enum { COUNT = 40 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(2 * COUNT);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(buffer(8), 8, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    ptl_handle_ct_t trigger = ct_new();
    barrier();
    for (int round = 1; round <= 5; round++) {
        if (rank() == 0) {
            ptl_handle_md_t md = md_new(buffer(8), 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
            for (ptl_hdr_data_t i = 0; i < COUNT; i++)
                OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, i, trigger,
                                   (ptl_size_t)round));
            inc(trigger);
        }
        for (ptl_hdr_data_t i = 0; rank() == 1 && i < COUNT; i++)
            CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, i);
        barrier();
    }
}

CASE(counted_bytes_reach_thresholds, 2, "a counter of bytes triggers when enough bytes have arrived")
{
    ni_matching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t bytes = ct_new(), fired = ct_new();
    ptl_me_t me = me_over(buffer(BYTES), BYTES, BITS);
    me.options |= PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_BYTES;
    me.ct_handle = bytes;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    OK(PtlTriggeredCTInc(fired, one, bytes, 1000));
    barrier();
    ptl_handle_ct_t acked = ct_new();
    ptl_handle_md_t md = md_new(buffer(BYTES), BYTES, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
    if (rank() == 0) {
        OK(PtlPut(md, 0, 999, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_ct(acked, 1, 0);
    }
    barrier();
    if (rank() == 1)
        expect_ct(fired, 0, 0);
    barrier();
    if (rank() == 0)
        OK(PtlPut(md, 0, 1, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
    else
        expect_ct(fired, 1, 0);
    barrier();
}

CASE(cancelled_messages_never_leave, 2, "operations destroyed by PtlCTCancelTriggered are never sent")
{
    ni_matching();
    struct side s = open_side();
    barrier();
    if (rank() == 0) {
        for (ptl_size_t i = 1; i <= 10; i++)
            OK(arm_put(&s, 1, 8, s.trigger, i));
        inc(s.trigger);
        inc(s.trigger);
        expect_ct(s.done, 2, 0);
        OK(PtlCTCancelTriggered(s.trigger));
        OK(PtlCTSet(s.trigger, (ptl_ct_event_t){100, 0}));
        sleep_ms(30);
        expect_ct(s.done, 2, 0);
    }
    barrier();
    if (rank() == 1)
        expect_ct(s.arrived, 2, 0);
}

/* ---- Chains --------------------------------------------------------------------------------------------- */

CASE(chain_over_counters, 1, "a triggered increment that reaches another threshold fires that in turn")
{
    enum { LENGTH = 30 };
    ni_matching();
    ptl_handle_ct_t ct[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        ct[i] = ct_new();
    for (int i = LENGTH - 2; i >= 0; i--)
        OK(PtlTriggeredCTInc(ct[i + 1], one, ct[i], 1));
    inc(ct[0]);
    for (int i = 0; i < LENGTH; i++)
        expect_ct(ct[i], 1, 0);
}

CASE(chain_as_long_as_the_capacity, 1, "a chain of max_triggered_ops operations runs to its end")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_triggered_ops = 2000;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    ptl_handle_ct_t ct = ct_new();
    for (int round = 0; round < 2; round++) {
        for (ptl_size_t i = 1; i <= (ptl_size_t)granted.max_triggered_ops; i++)
            OK(PtlTriggeredCTInc(ct, one, ct, i));
        inc(ct);
        expect_ct(ct, (ptl_size_t)granted.max_triggered_ops + 1, 0);
        OK(PtlCTSet(ct, (ptl_ct_event_t){0, 0}));
    }
}

CASE(put_before_what_follows_it, 2,
     "a put and an increment on one threshold: operations that the increment triggers leave after the put")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(64);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(buffer(8), 8, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    for (int round = 0; round < 10; round++) {
        if (rank() == 0) {
            ptl_handle_ct_t a = ct_new(), b = ct_new();
            ptl_handle_md_t md = md_new(buffer(8), 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
            OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 2, b, 1));
            OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 1, a, 1));
            OK(PtlTriggeredCTInc(b, one, a, 1));
            inc(a);
        } else {
            CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, 1);
            CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, 2);
        }
        barrier();
    }
}

CASE(completion_triggers_the_next, 2, "a put's acknowledgement triggers a get, the get's reply a put, all armed before")
{
    ni_matching();
    struct side s = open_side();
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t replied = ct_new(), finished = ct_new();
        ptl_handle_md_t into = md_new(s.back, BYTES, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, replied);
        ptl_handle_md_t again = md_new(s.back, BYTES, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, finished);
        pattern_fill(s.local, 100, 7);
        OK(PtlTriggeredPut(again, 0, 100, PTL_CT_ACK_REQ, peer(1), PT, BITS, 500, NULL, 0, replied, 1));
        OK(PtlTriggeredGet(into, 0, 100, peer(1), PT, BITS, 0, NULL, s.done, 1));
        OK(PtlPut(s.md, 0, 100, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_ct(finished, 1, 0);
    }
    barrier();
    if (rank() == 1)
        CHECK_PATTERN(s.exposed + 500, 100, 7);
}

CASE(ring_of_processes, 4, "a message that triggers the next process's message goes round a ring, lap after lap")
{
    enum { LAPS = 30 };
    ni_matching();
    struct side s = open_side();
    ptl_handle_md_t md = md_new(s.local, BYTES, 0, PTL_EQ_NONE, PTL_CT_NONE);
    for (ptl_size_t lap = 1; lap <= LAPS; lap++)
        if (rank() != 0 || lap < LAPS) /* the last lap ends at its start */
            OK(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peer((rank() + 1) % 4), PT, BITS, 0, NULL, 0, s.arrived,
                               lap));
    barrier();
    if (rank() == 0)
        OK(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
    expect_ct(s.arrived, LAPS, 0);
    barrier();
}

/* Triggers the operation at a process whose program makes no call until the sender has the answer. */
CASE_NIC(fires_without_its_owner, 2, "a triggered operation runs while its owner computes and makes no call")
{
    ni_matching();
    struct side s = open_side();
    volatile unsigned char *released = s.exposed;
    if (rank() == 1) {
        pattern_fill(s.local, 64, 3);
        OK(arm_put(&s, 0, 64, s.arrived, 2));
    }
    barrier();
    if (rank() == 0) {
        s.local[0] = 0;
        OK(PtlPut(s.md, 0, 1, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        OK(PtlPut(s.md, 0, 1, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_ct(s.arrived, 1, 0);
        CHECK_PATTERN(s.exposed, 64, 3);
        s.local[1] = 1;
        OK(PtlPut(s.md, 1, 1, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_ct(s.done, 3, 0);
    } else {
        long long give_up_ms = now_ms() + WAIT_DEFAULT_MS;
        while (*released == 0)
            CHECK_OP(now_ms(), <, give_up_ms);
    }
    barrier();
}

/* ---- Capacity and refusals ------------------------------------------------------------------------------ */

CASE(capacity_is_exact, 1,
     "max_triggered_ops operations of each kind can wait, one more is PTL_NO_SPACE; fired ones make room")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_triggered_ops = 12;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    struct side s = open_side();
    ptl_handle_ct_t never = ct_new();
    uint64_t operand = 0;
    for (int kind = 0; kind < 7; kind++) {
        ptl_handle_ct_t trigger = ct_new();
        for (int i = 0; i <= granted.max_triggered_ops; i++) {
            int rc = PTL_FAIL;
            switch (kind) {
            case 0: rc = arm_put(&s, 0, 8, trigger, 1); break;
            case 1: rc = PtlTriggeredGet(s.md_back, 0, 8, peer(0), PT, BITS, 0, NULL, trigger, 1); break;
            case 2:
                rc = PtlTriggeredAtomic(s.md, 0, 8, PTL_CT_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM,
                                        PTL_INT64_T, trigger, 1);
                break;
            case 3:
                rc = PtlTriggeredFetchAtomic(s.md_back, 0, s.md, 0, 8, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM,
                                             PTL_INT64_T, trigger, 1);
                break;
            case 4:
                rc = PtlTriggeredSwap(s.md_back, 0, s.md, 0, 8, peer(0), PT, BITS, 0, NULL, 0, &operand, PTL_CSWAP,
                                      PTL_INT64_T, trigger, 1);
                break;
            case 5: rc = PtlTriggeredCTInc(s.done, one, trigger, 1); break;
            case 6: rc = PtlTriggeredCTSet(never, (ptl_ct_event_t){1, 0}, trigger, 1); break;
            }
            if (i < granted.max_triggered_ops)
                CHECK_EQ(rc, PTL_OK);
            else
                CHECK_EQ(rc, PTL_NO_SPACE);
        }
        OK(PtlCTSet(s.done, (ptl_ct_event_t){0, 0}));
        inc(trigger); /* every operation triggers: all slots are free for the next kind */
        if (kind < 6)
            expect_ct(s.done, (ptl_size_t)granted.max_triggered_ops, 0);
        else
            expect_ct(never, 1, 0);
    }
}

CASE(no_place_is_needed_when_reached, 1, "an operation whose threshold is reached needs no place in the table")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_triggered_ops = 4;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    ptl_handle_ct_t trigger = ct_new(), target = ct_new();
    inc(trigger);
    for (int i = 0; i < 3 * granted.max_triggered_ops; i++)
        OK(PtlTriggeredCTInc(target, one, trigger, 1));
    expect_ct(target, 3 * (ptl_size_t)granted.max_triggered_ops, 0);
}

CASE(arguments_are_checked_at_the_call, 1, "a triggered call refuses at once the arguments that the plain call refuses")
{
    ni_matching();
    struct side s = open_side();
    ptl_handle_any_t bad = PTL_INVALID_HANDLE;
    uint64_t operand = 0;
    CHECK_EQ(arm_put(&s, 0, BYTES + 1, s.trigger, 1), PTL_ARG_INVALID);
    CHECK_EQ(arm_put(&s, 0, 8, bad, 1), PTL_ARG_INVALID);
    CHECK_EQ(arm_put(&s, 0, 8, PTL_CT_NONE, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredPut(bad, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, s.trigger, 1),
             PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredPut(s.md, 0, 8, 9, peer(0), PT, BITS, 0, NULL, 0, s.trigger, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredGet(bad, 0, 8, peer(0), PT, BITS, 0, NULL, s.trigger, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredGet(s.md, 8, BYTES, peer(0), PT, BITS, 0, NULL, s.trigger, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredAtomic(s.md, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, PTL_BOR, PTL_DOUBLE,
                                s.trigger, 1),
             PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredFetchAtomic(bad, 0, s.md, 0, 8, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T,
                                     s.trigger, 1),
             PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredSwap(s.md_back, 0, bad, 0, 8, peer(0), PT, BITS, 0, NULL, 0, &operand, PTL_CSWAP,
                              PTL_INT64_T, s.trigger, 1),
             PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTInc(bad, one, s.trigger, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTInc(s.done, (ptl_ct_event_t){1, 1}, s.trigger, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTSet(s.done, one, bad, 1), PTL_ARG_INVALID);
    inc(s.trigger);
    sleep_ms(20);
    expect_ct(s.done, 0, 0);
}

/* ---- Collectives ---------------------------------------------------------------------------------------- */

enum { UP = 10, DOWN = 11, SEEN = 12 };

struct tree {
    ptl_handle_ct_t up, down;
    ptl_handle_md_t empty;
    int parent, child[2], children;
};

static ptl_handle_ct_t counting_entry(ptl_pt_index_t pt)
{
    ptl_handle_ct_t ct = ct_new();
    pt_at(pt, PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(NULL, 0);
    le.ct_handle = ct;
    le.options |= PTL_LE_EVENT_CT_COMM;
    le_append(pt, &le, PTL_PRIORITY_LIST, NULL);
    return ct;
}

static struct tree tree_new(void)
{
    struct tree t = {.parent = (rank() - 1) / 2, .empty = md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE)};
    t.up = counting_entry(UP);
    t.down = counting_entry(DOWN);
    for (int i = 2 * rank() + 1; i <= 2 * rank() + 2 && i < ranks(); i++)
        t.child[t.children++] = i;
    return t;
}

static void signal_when(struct tree *t, int to, ptl_pt_index_t pt, ptl_handle_ct_t ct, ptl_size_t threshold)
{
    OK(PtlTriggeredPut(t->empty, 0, 0, PTL_NO_ACK_REQ, peer(to), pt, 0, 0, NULL, 0, ct, threshold));
}

/* Prepares one round: the last arrival below a process triggers a message to its parent, and the root's message goes down
 * again. */
static void tree_arm(struct tree *t, ptl_size_t round)
{
    ptl_size_t all_arrived = round * (ptl_size_t)(t->children + 1);
    for (int i = 0; i < t->children; i++)
        signal_when(t, t->child[i], DOWN, t->down, round);
    if (rank() == 0)
        OK(PtlTriggeredCTInc(t->down, one, t->up, all_arrived));
    else
        signal_when(t, t->parent, UP, t->up, all_arrived);
}

CASE(barrier_of_eight_processes, 8,
     "a barrier made of triggered operations releases no process before all have entered")
{
    enum { ROUNDS = 40 };
    ni_nonmatching();
    struct tree t = tree_new();
    uint64_t *seen = buffer(64), *mine = buffer(8);
    pt_at(SEEN, PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(seen, 64);
    le_append(SEEN, &le, PTL_PRIORITY_LIST, NULL);
    ptl_handle_ct_t acked = ct_new();
    ptl_handle_md_t md = md_new(mine, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
    barrier();
    for (ptl_size_t round = 1; round <= ROUNDS; round++) {
        tree_arm(&t, round);
        *mine = round;
        for (int to = 0; to < 8; to++)
            OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(to), SEEN, 0, (ptl_size_t)rank() * 8, NULL, 0));
        expect_ct(acked, round * 8, 0);
        inc(t.up);
        wait_ct(t.down, round);
        for (int from = 0; from < 8; from++)
            CHECK_OP(*(volatile uint64_t *)&seen[from], >=, round);
    }
    barrier();
}

CASE(reduction_of_eight_processes, 8,
     "a sum goes up a tree in triggered atomics, without the inner processes' programs")
{
    ni_nonmatching();
    ptl_handle_ct_t up = ct_new(), acked = ct_new();
    int64_t *sum = buffer(8);
    *sum = 1000 + rank();
    pt_at(UP, PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(sum, 8);
    le.ct_handle = up;
    le.options |= PTL_LE_EVENT_CT_COMM;
    le_append(UP, &le, PTL_PRIORITY_LIST, NULL);
    int children = (2 * rank() + 1 < 8) + (2 * rank() + 2 < 8);
    ptl_handle_md_t md = md_new(sum, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
    barrier();
    if (rank() != 0) {
        OK(PtlTriggeredAtomic(md, 0, 8, PTL_CT_ACK_REQ, peer((rank() - 1) / 2), UP, 0, 0, NULL, 0, PTL_SUM,
                              PTL_INT64_T, up, (ptl_size_t)children));
        expect_ct(acked, 1, 0);
    } else {
        expect_ct(up, 2, 0);
        CHECK_EQ(*sum, 8 * 1000 + 28);
    }
    barrier();
}
