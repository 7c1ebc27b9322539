/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counting events: PtlCTAlloc, PtlCTFree, PtlCTGet, PtlCTSet, PtlCTInc, PtlCTWait, PtlCTPoll, PtlCTCancelTriggered,
 * and how PtlAbort ends their waits. Portals 4.3, "Lightweight Counting Events"; counting by list entries is
 * "List Entries", CT options.
 */
#include "suite.h"

#include <pthread.h>
#include <unistd.h>

enum { PT = 2, BITS = 0x11 };

static const ptl_ct_event_t one_success = {1, 0};
static const ptl_ct_event_t one_failure = {0, 1};

static ptl_ct_event_t value_of(ptl_handle_ct_t ct)
{
    ptl_ct_event_t value = {77, 77};
    OK(PtlCTGet(ct, &value));
    return value;
}

static void check_value(ptl_handle_ct_t ct, ptl_size_t success, ptl_size_t failure)
{
    CHECK_EQ(value_of(ct).success, success);
    CHECK_EQ(value_of(ct).failure, failure);
}

/* A thread that waits once: with PtlCTPoll if it has a timeout, else with PtlCTWait. */
struct waiter {
    ptl_handle_ct_t ct;
    ptl_size_t test;
    ptl_time_t timeout_ms;
    bool polls;
    int rc;
    unsigned which;
    ptl_ct_event_t got;
    pthread_t thread;
};

static void *waiter_run(void *opaque)
{
    struct waiter *w = opaque;
    if (w->polls)
        w->rc = PtlCTPoll(&w->ct, &w->test, 1, w->timeout_ms, &w->got, &w->which);
    else
        w->rc = PtlCTWait(w->ct, w->test, &w->got);
    return NULL;
}

static void waiter_start(struct waiter *w)
{
    CHECK_OP(pthread_create(&w->thread, NULL, waiter_run, w), ==, 0);
}

static void waiter_join(struct waiter *w)
{
    CHECK_OP(pthread_join(w->thread, NULL), ==, 0);
}

/* ---- Values --------------------------------------------------------------------------------------------- */

CASE(new_counter_is_zero, 1, "a newly allocated counter is zero, also when it reuses a freed one")
{
    ni_matching();
    for (int i = 0; i < 20; i++) {
        ptl_handle_ct_t ct = ct_new();
        check_value(ct, 0, 0);
        OK(PtlCTSet(ct, (ptl_ct_event_t){123, 456}));
        OK(PtlCTFree(ct));
    }
}

CASE(set_replaces_both_fields, 1, "PtlCTSet sets success and failure, up and down")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    OK(PtlCTSet(ct, (ptl_ct_event_t){7, 9}));
    check_value(ct, 7, 9);
    OK(PtlCTSet(ct, (ptl_ct_event_t){2, 0}));
    check_value(ct, 2, 0);
}

CASE(increment_adds_to_one_field, 1, "PtlCTInc adds to success or to failure")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    OK(PtlCTInc(ct, (ptl_ct_event_t){5, 0}));
    OK(PtlCTInc(ct, (ptl_ct_event_t){0, 3}));
    OK(PtlCTInc(ct, one_success));
    check_value(ct, 6, 3);
}

CASE(increment_of_both_fields_is_refused, 1, "only one field of an increment may be non-zero")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    CHECK_EQ(PtlCTInc(ct, (ptl_ct_event_t){7, 3}), PTL_ARG_INVALID);
    check_value(ct, 0, 0);
}

CASE(counters_are_64_bits_wide, 1, "a counter holds large values exactly")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    ptl_ct_event_t got;
    ptl_size_t big = (ptl_size_t)1 << 40;
    OK(PtlCTSet(ct, (ptl_ct_event_t){big - 1, 0}));
    OK(PtlCTInc(ct, one_success));
    check_value(ct, big, 0);
    OK(PtlCTInc(ct, (ptl_ct_event_t){big * 1024, 0}));
    check_value(ct, big * 1025, 0);
    OK(PtlCTWait(ct, big * 1025, &got));
    CHECK_EQ(got.success, big * 1025);
}

CASE(counters_are_independent, 1, "changing a counter changes no other")
{
    enum { COUNT = 40 };
    ni_matching();
    ptl_handle_ct_t ct[COUNT];
    for (int i = 0; i < COUNT; i++)
        ct[i] = ct_new();
    for (ptl_size_t i = 0; i < COUNT; i++)
        OK(PtlCTSet(ct[i], (ptl_ct_event_t){i, 2 * i}));
    OK(PtlCTInc(ct[7], one_success));
    for (ptl_size_t i = 0; i < COUNT; i++)
        check_value(ct[i], i + (i == 7), 2 * i);
}

/* ---- Allocation ----------------------------------------------------------------------------------------- */

CASE(max_cts_can_be_allocated_and_no_more, 1, "max_cts counters can exist at a time; freeing one makes room for one")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_cts = 9;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    CHECK_OP(granted.max_cts, >, 0);
    ptl_handle_ct_t *ct = calloc((size_t)granted.max_cts, sizeof *ct), extra;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < granted.max_cts; i++)
            OK(PtlCTAlloc(ni(), &ct[i]));
        CHECK_EQ(PtlCTAlloc(ni(), &extra), PTL_NO_SPACE);
        OK(PtlCTFree(ct[0]));
        OK(PtlCTAlloc(ni(), &ct[0]));
        CHECK_EQ(PtlCTAlloc(ni(), &extra), PTL_NO_SPACE);
        for (int i = 0; i < granted.max_cts; i++)
            OK(PtlCTFree(ct[i]));
    }
    free(ct);
}

CASE(freed_counter_is_refused, 1, "no function takes the handle of a freed counter, also after its place is reused")
{
    ni_matching();
    ptl_handle_ct_t gone = ct_new();
    OK(PtlCTFree(gone));
    for (int i = 0; i < 2; i++) {
        ptl_ct_event_t value;
        ptl_size_t test = 0;
        unsigned which;
        CHECK_EQ(PtlCTFree(gone), PTL_ARG_INVALID);
        CHECK_EQ(PtlCTGet(gone, &value), PTL_ARG_INVALID);
        CHECK_EQ(PtlCTSet(gone, one_success), PTL_ARG_INVALID);
        CHECK_EQ(PtlCTInc(gone, one_success), PTL_ARG_INVALID);
        CHECK_EQ(PtlCTWait(gone, 0, &value), PTL_ARG_INVALID);
        CHECK_EQ(PtlCTPoll(&gone, &test, 1, 0, &value, &which), PTL_ARG_INVALID);
        CHECK_EQ(PtlCTCancelTriggered(gone), PTL_ARG_INVALID);
        ptl_handle_ct_t next = ct_new();
        CHECK_OP(next, !=, gone);
    }
}

CASE(free_with_armed_operations, 1, "freeing a counter destroys the operations that wait on it and frees their places")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_triggered_ops = 16;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    ptl_handle_ct_t seen = ct_new();
    for (int round = 0; round < 4; round++) {
        ptl_handle_ct_t armed = ct_new();
        for (int i = 0; i < granted.max_triggered_ops; i++)
            OK(PtlTriggeredCTInc(seen, one_success, armed, 1));
        OK(PtlCTFree(armed));
        check_value(seen, 0, 0);
    }
    ptl_handle_ct_t fresh = ct_new();
    OK(PtlCTInc(fresh, one_success));
    check_value(seen, 0, 0);
}

/* ---- Waiting -------------------------------------------------------------------------------------------- */

CASE(wait_already_satisfied, 1, "PtlCTWait returns at once where the test is reached or exceeded")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    ptl_ct_event_t got;
    OK(PtlCTWait(ct, 0, &got));
    CHECK_EQ(got.success, 0);
    OK(PtlCTSet(ct, (ptl_ct_event_t){5, 0}));
    OK(PtlCTWait(ct, 5, &got));
    CHECK_EQ(got.success, 5);
    OK(PtlCTWait(ct, 3, &got));
    CHECK_EQ(got.success, 5);
}

CASE(failures_count_towards_the_test, 1, "PtlCTWait returns when successes and failures together reach the test")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    ptl_ct_event_t got;
    OK(PtlCTInc(ct, one_failure));
    OK(PtlCTWait(ct, 1, &got));
    CHECK_EQ(got.failure, 1);
    CHECK_EQ(got.success, 0);
    unsigned which = 9;
    const ptl_size_t two = 2;
    CHECK_EQ(PtlCTPoll(&ct, &two, 1, 10, &got, &which), PTL_CT_NONE_REACHED);
    OK(PtlCTInc(ct, (ptl_ct_event_t){1, 0}));
    OK(PtlCTPoll(&ct, &two, 1, 10, &got, &which));
    CHECK_EQ(got.failure, 1);
    CHECK_EQ(got.success, 1);
}

CASE(failure_wakes_a_waiter, 1, "a failure that reaches the test while PtlCTWait sleeps wakes it")
{
    ni_matching();
    struct waiter w = {.ct = ct_new(), .test = 1};
    waiter_start(&w);
    sleep_ms(50);
    OK(PtlCTInc(w.ct, one_failure));
    waiter_join(&w);
    CHECK_EQ(w.rc, PTL_OK);
    CHECK_EQ(w.got.failure, 1);
}

CASE(increment_wakes_a_waiter, 1, "PtlCTWait sleeps until increments reach its test")
{
    ni_matching();
    struct waiter w = {.ct = ct_new(), .test = 3};
    waiter_start(&w);
    for (int i = 0; i < 3; i++) {
        sleep_ms(30);
        OK(PtlCTInc(w.ct, one_success));
    }
    waiter_join(&w);
    CHECK_EQ(w.rc, PTL_OK);
    CHECK_EQ(w.got.success, 3);
}

CASE(set_wakes_a_waiter, 1, "PtlCTSet to a value that reaches the test wakes PtlCTWait")
{
    ni_matching();
    struct waiter w = {.ct = ct_new(), .test = 10};
    waiter_start(&w);
    sleep_ms(50);
    OK(PtlCTSet(w.ct, (ptl_ct_event_t){12, 0}));
    waiter_join(&w);
    CHECK_EQ(w.rc, PTL_OK);
    CHECK_EQ(w.got.success, 12);
}

CASE(message_wakes_a_waiter, 2, "a message of another process wakes PtlCTWait")
{
    ni_matching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t ct = ct_new();
    ptl_me_t me = me_over(buffer(64), 64, BITS);
    me.ct_handle = ct;
    me.options |= PTL_ME_EVENT_CT_COMM;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    ptl_handle_md_t md = md_new(buffer(64), 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
    for (ptl_size_t i = 1; i <= 200; i++) {
        ptl_ct_event_t got;
        if (rank() == 0)
            OK(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        OK(PtlCTWait(ct, i, &got));
        CHECK_EQ(got.success, i);
        if (rank() == 1)
            OK(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0));
    }
    barrier();
}

/* ---- Polling -------------------------------------------------------------------------------------------- */

CASE(poll_times_out, 1, "PtlCTPoll gives up after its timeout, not before, with PTL_CT_NONE_REACHED")
{
    ni_matching();
    ptl_handle_ct_t ct[3] = {ct_new(), ct_new(), ct_new()};
    ptl_size_t tests[3] = {1, 2, 3};
    ptl_ct_event_t got;
    unsigned which;
    long long start_ms = now_ms();
    CHECK_EQ(PtlCTPoll(ct, tests, 3, 60, &got, &which), PTL_CT_NONE_REACHED);
    CHECK_OP(now_ms() - start_ms, >=, 59);
    CHECK_EQ(PtlCTPoll(ct, tests, 3, 0, &got, &which), PTL_CT_NONE_REACHED);
}

CASE(poll_finds_the_one_that_reached, 1, "PtlCTPoll returns the value and the index of a counter that reached its test")
{
    enum { COUNT = 8 };
    ni_matching();
    ptl_handle_ct_t ct[COUNT];
    ptl_size_t tests[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        ct[i] = ct_new();
        tests[i] = 5;
        OK(PtlCTSet(ct[i], (ptl_ct_event_t){4, 0}));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        ptl_ct_event_t got = {0, 0};
        unsigned which = 99;
        OK(PtlCTSet(ct[i], (ptl_ct_event_t){100 + i, 0}));
        OK(PtlCTPoll(ct, tests, COUNT, PTL_TIME_FOREVER, &got, &which));
        CHECK_EQ(which, i);
        CHECK_EQ(got.success, 100 + i);
        OK(PtlCTSet(ct[i], (ptl_ct_event_t){0, 0}));
    }
}

CASE(poll_tests_each_against_its_own, 1, "each counter is compared with the test of its index")
{
    ni_matching();
    ptl_handle_ct_t ct[2] = {ct_new(), ct_new()};
    ptl_size_t tests[2] = {50, 5};
    ptl_ct_event_t got;
    unsigned which = 99;
    OK(PtlCTSet(ct[0], (ptl_ct_event_t){49, 0}));
    OK(PtlCTSet(ct[1], (ptl_ct_event_t){5, 0}));
    OK(PtlCTPoll(ct, tests, 2, PTL_TIME_FOREVER, &got, &which));
    CHECK_EQ(which, 1);
}

CASE(poll_wakes_on_failure, 1, "a failure that reaches the test ends PtlCTPoll with PTL_OK")
{
    ni_matching();
    struct waiter w = {.ct = ct_new(), .test = 1, .polls = true, .timeout_ms = PTL_TIME_FOREVER};
    waiter_start(&w);
    sleep_ms(50);
    OK(PtlCTInc(w.ct, one_failure));
    waiter_join(&w);
    CHECK_EQ(w.rc, PTL_OK);
    CHECK_EQ(w.which, 0);
    CHECK_EQ(w.got.failure, 1);
}

CASE(poll_is_round_robin, 1, "of several counters that reached their tests, repeated polls find every one")
{
    ni_matching();
    ptl_handle_ct_t ct[4] = {ct_new(), ct_new(), ct_new(), ct_new()};
    ptl_size_t tests[4] = {1, 1, 1, 1};
    int found[4] = {0};
    for (int i = 0; i < 4; i++)
        OK(PtlCTInc(ct[i], one_success));
    for (int i = 0; i < 64; i++) {
        ptl_ct_event_t got;
        unsigned which = 99;
        OK(PtlCTPoll(ct, tests, 4, 0, &got, &which));
        CHECK_OP(which, <, 4);
        found[which]++;
    }
    for (int i = 0; i < 4; i++)
        CHECK_OP(found[i], >, 0);
}

CASE(poll_takes_a_counter_twice, 1, "a counter may stand in the array more than once, with different tests")
{
    ni_matching();
    ptl_handle_ct_t ct[2];
    ct[0] = ct[1] = ct_new();
    ptl_size_t tests[2] = {10, 2};
    ptl_ct_event_t got;
    unsigned which = 99;
    OK(PtlCTSet(ct[0], (ptl_ct_event_t){2, 0}));
    OK(PtlCTPoll(ct, tests, 2, PTL_TIME_FOREVER, &got, &which));
    CHECK_EQ(which, 1);
}

CASE(poll_wakes_for_any_of_many, 2, "a message that counts on any of the polled counters wakes the poll")
{
    enum { COUNT = 6 };
    ni_matching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t ct[COUNT];
    ptl_size_t tests[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        ct[i] = ct_new();
        tests[i] = 1;
        ptl_me_t me = me_over(buffer(8), 8, i);
        me.ct_handle = ct[i];
        me.options |= PTL_ME_EVENT_CT_COMM;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned chosen = i * 5 % COUNT;
        if (rank() == 0) {
            ptl_handle_md_t md = md_new(buffer(8), 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
            OK(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, chosen, 0, NULL, 0));
        } else {
            ptl_ct_event_t got;
            unsigned which = 99;
            OK(PtlCTPoll(ct, tests, COUNT, WAIT_DEFAULT_MS, &got, &which));
            CHECK_EQ(which, chosen);
            OK(PtlCTSet(ct[which], (ptl_ct_event_t){0, 0}));
        }
        barrier();
    }
}

/* ---- Counting at the target ----------------------------------------------------------------------------- */

static ptl_handle_ct_t counted_entry(size_t bytes, unsigned options, ptl_list_t list)
{
    ptl_handle_ct_t ct = ct_new();
    ptl_le_t le = le_over(buffer(bytes), bytes);
    le.ct_handle = ct;
    le.options |= options;
    le_append(PT, &le, list, NULL);
    return ct;
}

CASE(target_counts_operations, 2, "CT_COMM of a list entry counts each put, get and atomic once")
{
    ni_nonmatching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t ct = counted_entry(64, PTL_LE_EVENT_CT_COMM, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t done = ct_new();
        ptl_handle_md_t md =
            md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, done);
        for (int i = 0; i < 4; i++) {
            OK(PtlPut(md, 0, 64, PTL_CT_ACK_REQ, peer(1), PT, 0, 0, NULL, 0));
            OK(PtlGet(md, 0, 32, peer(1), PT, 0, 0, NULL));
            OK(PtlAtomic(md, 0, 16, PTL_CT_ACK_REQ, peer(1), PT, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
        }
        expect_ct(done, 12, 0);
    } else {
        expect_ct(ct, 12, 0);
    }
    barrier();
}

CASE(target_counts_bytes, 2, "with CT_BYTES a list entry counts the bytes that were manipulated")
{
    ni_nonmatching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t ct = counted_entry(48, PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_CT_BYTES, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t done = ct_new();
        ptl_handle_md_t md =
            md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, done);
        OK(PtlPut(md, 0, 64, PTL_CT_ACK_REQ, peer(1), PT, 0, 0, NULL, 0)); /* 48 fit */
        OK(PtlPut(md, 0, 7, PTL_CT_ACK_REQ, peer(1), PT, 0, 3, NULL, 0));
        OK(PtlGet(md, 0, 10, peer(1), PT, 0, 40, NULL)); /* 8 are pending */
        expect_ct(done, 3, 0);
    } else {
        expect_ct(ct, 48 + 7 + 8, 0);
    }
    barrier();
}

CASE(overflow_events_are_counted, 2, "CT_OVERFLOW counts the unexpected messages that an appended entry finds")
{
    ni_matching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t over = me_over(buffer(64), 64, BITS);
    ptl_handle_ct_t arrived = ct_new();
    over.ct_handle = arrived;
    over.options |= PTL_ME_EVENT_CT_COMM;
    me_append(PT, &over, PTL_OVERFLOW_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(buffer(64), 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
        for (int i = 0; i < 5; i++)
            OK(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
    } else {
        expect_ct(arrived, 5, 0);
        ptl_handle_ct_t found = ct_new(), not_selected = ct_new();
        ptl_me_t me = me_over(buffer(64), 64, BITS);
        me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_OVERFLOW;
        me.ct_handle = found;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        expect_ct(found, 1, 0);
        me.options &= ~(unsigned)PTL_ME_EVENT_CT_OVERFLOW;
        me.options |= PTL_ME_EVENT_CT_COMM;
        me.ct_handle = not_selected;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        me.options = (me.options & ~(unsigned)PTL_ME_USE_ONCE) | PTL_ME_EVENT_CT_OVERFLOW;
        me.ct_handle = found;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        expect_ct(found, 4, 0);
        expect_ct(not_selected, 0, 0);
    }
    barrier();
}

CASE(refused_messages_do_not_count_as_success, 2, "a message that an entry may not take leaves its success alone")
{
    ni_nonmatching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t ct = ct_new();
    ptl_le_t le = le_over(buffer(64), 64);
    le.options = PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_LINK_DISABLE;
    le.ct_handle = ct;
    le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t done = ct_new();
        ptl_handle_md_t md = md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, done);
        OK(PtlPut(md, 0, 64, PTL_CT_ACK_REQ, peer(1), PT, 0, 0, NULL, 0));
        expect_ct(done, 0, 1);
    }
    barrier();
    if (rank() == 1)
        CHECK_EQ(value_of(ct).success, 0);
}

CASE(many_senders_lose_no_count, 4, "counts of concurrent messages and increments are all kept")
{
    enum { MESSAGES = 2000 };
    ni_nonmatching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t ct = counted_entry(64, PTL_LE_EVENT_CT_COMM, PTL_PRIORITY_LIST);
    barrier();
    if (rank() != 0) {
        ptl_handle_ct_t done = ct_new();
        ptl_handle_md_t md = md_new(buffer(8), 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, done);
        for (ptl_size_t i = 0; i < MESSAGES; i++) {
            OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(0), PT, 0, 0, NULL, 0));
            if (i % 50 == 49)
                wait_ct(done, i + 1);
        }
        expect_ct(done, MESSAGES, 0);
    } else {
        for (int i = 0; i < MESSAGES; i++)
            OK(PtlCTInc(ct, one_success));
        expect_ct(ct, (ptl_size_t)MESSAGES * 4, 0);
    }
    barrier();
}

/* ---- Cancelling ----------------------------------------------------------------------------------------- */

CASE(cancel_destroys_what_waits, 1,
     "PtlCTCancelTriggered destroys the operations that wait on the counter, and changes nothing else")
{
    ni_matching();
    ptl_handle_ct_t trigger = ct_new(), other = ct_new(), seen = ct_new();
    OK(PtlCTInc(trigger, one_success));
    for (ptl_size_t i = 2; i < 10; i++)
        OK(PtlTriggeredCTInc(seen, one_success, trigger, i));
    OK(PtlTriggeredCTInc(seen, (ptl_ct_event_t){100, 0}, other, 1));
    OK(PtlCTCancelTriggered(trigger));
    check_value(trigger, 1, 0);
    OK(PtlCTSet(trigger, (ptl_ct_event_t){50, 0}));
    OK(PtlCTCancelTriggered(trigger));
    check_value(seen, 0, 0);
    OK(PtlCTInc(other, one_success));
    expect_ct(seen, 100, 0);
}

CASE(cancel_leaves_later_operations, 1, "a counter serves operations that are armed after a cancellation")
{
    ni_matching();
    ptl_handle_ct_t trigger = ct_new(), seen = ct_new();
    for (ptl_size_t round = 1; round <= 20; round++) {
        OK(PtlTriggeredCTInc(seen, (ptl_ct_event_t){1000, 0}, trigger, round));
        OK(PtlCTCancelTriggered(trigger));
        OK(PtlTriggeredCTInc(seen, one_success, trigger, round));
        OK(PtlCTInc(trigger, one_success));
        expect_ct(seen, round, 0);
    }
}

/* ---- Freeing -------------------------------------------------------------------------------------------- */

CASE(free_ends_waits_for_it_only, 1,
     "PtlCTFree ends the waits for this counter, also polls of several; other waits continue")
{
    ni_matching();
    struct waiter freed = {.ct = ct_new(), .test = 1}, other = {.ct = ct_new(), .test = 1};
    waiter_start(&freed);
    waiter_start(&other);
    sleep_ms(60);
    OK(PtlCTFree(freed.ct));
    waiter_join(&freed);
    CHECK_EQ(freed.rc, PTL_INTERRUPTED);
    OK(PtlCTInc(other.ct, one_success));
    waiter_join(&other);
    CHECK_EQ(other.rc, PTL_OK);
    CHECK_EQ(other.got.success, 1);
}

struct several {
    ptl_handle_ct_t cts[3];
    int rc;
    pthread_t thread;
};

static void *several_run(void *opaque)
{
    struct several *s = opaque;
    ptl_size_t tests[3] = {1, 1, 1};
    ptl_ct_event_t got;
    unsigned which;
    s->rc = PtlCTPoll(s->cts, tests, 3, 50000, &got, &which);
    return NULL;
}

CASE(free_ends_a_poll_of_several, 1, "PtlCTFree of one of the counters that PtlCTPoll waits for ends it")
{
    ni_matching();
    for (int freed = 0; freed < 3; freed++) {
        struct several s = {.cts = {ct_new(), ct_new(), ct_new()}};
        CHECK_OP(pthread_create(&s.thread, NULL, several_run, &s), ==, 0);
        sleep_ms(40);
        OK(PtlCTFree(s.cts[freed]));
        CHECK_OP(pthread_join(s.thread, NULL), ==, 0);
        CHECK_EQ(s.rc, PTL_INTERRUPTED);
        for (int i = 0; i < 3; i++)
            if (i != freed)
                OK(PtlCTFree(s.cts[i]));
    }
}

/* Makes and frees counters until one has the handle of a freed one, and makes it reach every test. Handles have few bits
 * besides the index where the table is large. */
static void make_again(ptl_handle_ct_t freed)
{
    ptl_handle_ct_t made = PTL_INVALID_HANDLE;
    for (int i = 0; i < 1 << 14 && made != freed; i++) {
        made = ct_new();
        OK(PtlCTSet(made, (ptl_ct_event_t){1000, 0}));
        if (made != freed)
            OK(PtlCTFree(made));
    }
    CHECK_EQ(made, freed);
}

CASE(a_wait_never_passes_to_the_next_counter, 1,
     "a wait for a freed counter ends with PTL_INTERRUPTED, also when a new counter gets its handle at once")
{
    ptl_ni_limits_t wanted = limits_default();
    wanted.max_cts = 1 << 18;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, NULL);
    for (int polls = 0; polls < 2; polls++) {
        struct waiter w = {.ct = ct_new(), .test = 10, .polls = polls, .timeout_ms = PTL_TIME_FOREVER};
        waiter_start(&w);
        sleep_ms(60);
        OK(PtlCTFree(w.ct));
        make_again(w.ct);
        waiter_join(&w);
        CHECK_EQ(w.rc, PTL_INTERRUPTED);
    }
}

/* ---- Aborting ------------------------------------------------------------------------------------------- */

CASE(abort_ends_ct_wait, 1, "PtlAbort ends PtlCTWait with PTL_ABORTED")
{
    ni_matching();
    struct waiter w[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (struct waiter){.ct = ct_new(), .test = 1};
        waiter_start(&w[i]);
    }
    sleep_ms(60);
    PtlAbort();
    for (int i = 0; i < 3; i++) {
        waiter_join(&w[i]);
        CHECK_EQ(w[i].rc, PTL_ABORTED);
        OK(PtlCTFree(w[i].ct));
    }
}

CASE(abort_ends_ct_poll, 1, "PtlAbort ends PtlCTPoll with PTL_ABORTED, with and without a timeout")
{
    ni_matching();
    struct waiter w[2];
    for (int i = 0; i < 2; i++) {
        w[i] = (struct waiter){.ct = ct_new(), .test = 1, .polls = true, .timeout_ms = i ? 50000 : PTL_TIME_FOREVER};
        waiter_start(&w[i]);
    }
    sleep_ms(60);
    PtlAbort();
    for (int i = 0; i < 2; i++) {
        waiter_join(&w[i]);
        CHECK_EQ(w[i].rc, PTL_ABORTED);
        OK(PtlCTFree(w[i].ct));
    }
}

CASE(abort_lasts, 1, "waits and polls that begin after PtlAbort return PTL_ABORTED at once")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    ptl_size_t test = 1;
    ptl_ct_event_t got;
    unsigned which;
    PtlAbort();
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(PtlCTWait(ct, 1, &got), PTL_ABORTED);
        CHECK_EQ(PtlCTPoll(&ct, &test, 1, PTL_TIME_FOREVER, &got, &which), PTL_ABORTED);
    }
    OK(PtlCTGet(ct, &got));
    CHECK_EQ(got.success, 0);
    OK(PtlCTFree(ct));
}
