/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The unexpected list. An overflow entry takes messages; a later entry in the priority list matches them, in order, with
 * the specified events and counts. The overflow entry stays in use until then, and AUTO_FREE ends it. Portals 4.3, list
 * entries and lists, overflow events.
 */
#include "setup.h"

/* ---- The unexpected list ------------------------------------------------------------------------------------------ */

CASE(append_takes_unexpected, 2,
     "appending finds the oldest matching unexpected message: PUT_OVERFLOW with all fields of the message")
{
    struct setup s = matching_setup();
    unsigned char *spare = buffer(256);
    ptl_me_t overflow = overflow_over(spare, 256), me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, (void *)1);
    send_numbered(&s, 2, 50, 51);
    send_numbered(&s, 1, 60, 62);
    if (rank() == 0) return;
    no_event(s.eq, 0); /* COMM events of the overflow entry are disabled */
    me.options |= PTL_ME_USE_ONCE | QUIET;
    for (unsigned i = 0; i < 3; i++) {
        me_append(PT, &me, PTL_PRIORITY_LIST, (void *)9);
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(ev.hdr_data, 60 + i);
        CHECK_EQ(ev.match_bits, 1);
        CHECK_EQ((uintptr_t)ev.user_ptr, 9);
        CHECK_EQ(ev.rlength, 8);
        CHECK_EQ(ev.mlength, 8);
        CHECK_EQ(ev.pt_index, PT);
        CHECK_PROCESS(ev.initiator, peer(0));
        CHECK_PTR(ev.start, spare + 8 * (2 + i));
        CHECK_EQ(value_at(ev.start), 60 + i);
        no_event(s.eq, 0);
    }
    CHECK_BYTES(s.memory, 64, 0); /* the data stays in the overflow entry */
}

CASE(use_once_unexpected_is_not_linked, 2, "an appended USE_ONCE entry that found a message is not linked: PUT_OVERFLOW, AUTO_UNLINK, no LINK")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256), me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 1);
    if (rank() == 1) {
        me.options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE;
        me_append(PT, &me, PTL_PRIORITY_LIST, (void *)5);
        expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, 5);
        no_event(s.eq, 10);
    }
    send_numbered(&s, 1, 2, 2); /* the message goes to the overflow entry again, not to the unlinked entry */
    if (rank() == 1) no_event(s.eq, 10);
}

CASE(persistent_entry_takes_all_unexpected, 2, "an appended persistent entry takes every matching unexpected message, in order, and is linked")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256), me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 2);
    send_numbered(&s, 2, 3, 4);
    send_numbered(&s, 1, 5, 6);
    const unsigned matching[] = {1, 2, 5, 6};
    if (rank() == 1) {
        me.options &= ~PTL_ME_EVENT_LINK_DISABLE;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        for (int i = 0; i < 4; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, matching[i]);
        expect_event(s.eq, PTL_EVENT_LINK);
        no_event(s.eq, 10);
    }
    send_numbered(&s, 1, 7, 7);
    if (rank() == 1) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, 7);
}

CASE(unexpected_without_matching, 2, "without matching any appended list entry takes the oldest unexpected message")
{
    struct setup s = plain_setup();
    ptl_le_t overflow = le_over(buffer(64), 64), le = le_over(s.memory, 64);
    overflow.options |= PTL_LE_EVENT_COMM_DISABLE;
    le.options |= PTL_LE_USE_ONCE | QUIET;
    if (rank() == 1) le_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 0, 10, 14);
    for (unsigned i = 10; i < 15 && rank() == 1; i++) {
        le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    }
    if (rank() == 1) {
        le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
        no_event(s.eq, 10);
    }
}

CASE(overflow_append_does_not_search, 2, "appending to the overflow list searches no unexpected messages")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256);
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 3);
    if (rank() == 1) {
        overflow.options &= ~PTL_ME_EVENT_LINK_DISABLE;
        me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
        expect_event(s.eq, PTL_EVENT_LINK);
        no_event(s.eq, 10);
        ptl_me_t me = me_over(s.memory, 64, 1);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        for (unsigned i = 1; i <= 3; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    }
}

CASE(unexpected_messages_of_every_operation, 2, "unexpected gets and atomics are found as GET_OVERFLOW, ATOMIC_OVERFLOW and FETCH_ATOMIC_OVERFLOW")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = me_over(buffer(64), 64, 0), me = me_over(s.memory, 64, 0);
    overflow.ignore_bits = me.ignore_bits = ~0ull;
    overflow.options |= PTL_ME_EVENT_COMM_DISABLE;
    me.options |= PTL_ME_USE_ONCE | QUIET;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    barrier();
    if (rank() == 0) {
        get(s.md, 8, 1, PT, 1, 0);
        expect_event(s.eq, PTL_EVENT_REPLY);
        OK(PtlAtomic(s.md, 0, 8, PTL_ACK_REQ, peer(1), PT, 2, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
        expect_send_ack(s.eq);
        OK(PtlFetchAtomic(s.md, 8, s.md, 0, 8, peer(1), PT, 3, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
        ptl_event_t ev;
        do CHECK_EQ(wait_event(s.eq, &ev, 0), PTL_OK);
        while (ev.type != PTL_EVENT_REPLY);
    }
    barrier();
    const ptl_event_kind_t kinds[] = {PTL_EVENT_GET_OVERFLOW, PTL_EVENT_ATOMIC_OVERFLOW, PTL_EVENT_FETCH_ATOMIC_OVERFLOW};
    for (unsigned i = 0; i < 3 && rank() == 1; i++) {
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        ptl_event_t ev = expect_event(s.eq, kinds[i]);
        CHECK_EQ(ev.match_bits, i + 1);
        if (i > 0) CHECK_EQ(ev.atomic_operation, PTL_SUM);
        if (i > 0) CHECK_EQ(ev.atomic_type, PTL_INT64_T);
    }
}

CASE(unexpected_header_disable, 2,
     "UNEXPECTED_HDR_DISABLE: messages taken by the overflow entry leave no unexpected header")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(NULL, 0), me = me_over(s.memory, 64, 1);
    overflow.options |= PTL_ME_UNEXPECTED_HDR_DISABLE;
    overflow.options &= ~PTL_ME_MANAGE_LOCAL;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 5);
    if (rank() == 1) {
        me.options &= ~PTL_ME_EVENT_LINK_DISABLE;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        expect_event(s.eq, PTL_EVENT_LINK);
        no_event(s.eq, 10);
    }
}

CASE(unexpected_header_disable_needs_no_headers, 2, "an overflow entry with UNEXPECTED_HDR_DISABLE works when no unexpected headers are left")
{
    ptl_ni_limits_t desired = limits_default();
    desired.max_unexpected_headers = 1;
    struct setup s = setup_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &desired);
    ptl_me_t sink = me_over(NULL, 0, 0);
    sink.ignore_bits = ~0ull;
    sink.options |= PTL_ME_EVENT_COMM_DISABLE | PTL_ME_UNEXPECTED_HDR_DISABLE;
    if (rank() == 1) me_append(PT, &sink, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 50);
    if (rank() == 1) no_event(s.eq, 10);
}

CASE(over_events_can_be_disabled, 2, "EVENT_OVER_DISABLE on the appended entry: the message is taken, no PUT_OVERFLOW")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256), me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 2);
    if (rank() == 1) {
        me.options |= PTL_ME_USE_ONCE | QUIET | PTL_ME_EVENT_OVER_DISABLE;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        no_event(s.eq, 10);
        me.options &= ~PTL_ME_EVENT_OVER_DISABLE;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 2);
    }
}

CASE(overflow_counted_on_request, 2,
     "EVENT_CT_OVERFLOW counts the unexpected messages found by appending, events or bytes")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256), me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 3);
    send_numbered(&s, 2, 1, 4);
    if (rank() == 0) return;
    me.ct_handle = ct_new();
    me.options |= PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_OVER_DISABLE;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    expect_ct(me.ct_handle, 3, 0);
    me.match_bits = 2;
    me.ct_handle = ct_new();
    me.options |= PTL_ME_EVENT_CT_BYTES;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    expect_ct(me.ct_handle, 32, 0);
    no_event(s.eq, 10);
}

CASE(appended_and_arriving_do_not_cross, 2, "an entry appended while messages arrive takes each once: unexpected or expected, in order")
{
    enum { MESSAGES = 400 };
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(8 * MESSAGES), 8 * MESSAGES), me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    barrier();
    if (rank() == 0) {
        for (unsigned i = 0; i < MESSAGES; i++) {
            put(s.md, 8, 1, PT, 1, i);
            expect_send_ack(s.eq);
        }
        return;
    }
    me.options |= PTL_ME_USE_ONCE | QUIET;
    for (unsigned i = 0; i < MESSAGES; i++) {
        ptl_event_t ev;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(wait_event(s.eq, &ev, 0), PTL_OK);
        CHECK_EITHER(ev.type, PTL_EVENT_PUT, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(ev.hdr_data, i);
    }
    no_event(s.eq, 10);
}

/* ---- The end of an overflow entry ------------------------------------------------------------------------------- */

CASE(overflow_entry_in_use, 2, "an overflow entry with messages in the unexpected list is PTL_IN_USE until they are taken")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256), me = me_over(s.memory, 64, 1);
    ptl_handle_me_t catcher = rank() == 1 ? me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL) : 0;
    send_numbered(&s, 1, 1, 2);
    if (rank() == 1) {
        me.options |= PTL_ME_USE_ONCE | QUIET;
        CHECK_EQ(PtlMEUnlink(catcher), PTL_IN_USE);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(PtlMEUnlink(catcher), PTL_IN_USE);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        OK(PtlMEUnlink(catcher));
    }
}

CASE(auto_free_follows_last_message, 2,
     "AUTO_FREE arrives when an unlinked overflow entry has no message left in the unexpected list")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(32), 32), me = me_over(s.memory, 64, 1);
    overflow.min_free = 8;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, (void *)77);
    send_numbered(&s, 1, 1, 4); /* the fourth leaves less than 8 bytes: unlinked */
    if (rank() == 0) return;
    CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, 77);
    me.options |= PTL_ME_USE_ONCE | QUIET;
    for (unsigned i = 1; i <= 4; i++) {
        no_event(s.eq, 5);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    }
    ptl_event_t ev = expect_event(s.eq, PTL_EVENT_AUTO_FREE);
    CHECK_EQ((uintptr_t)ev.user_ptr, 77);
    CHECK_EQ(ev.pt_index, PT);
    no_event(s.eq, 10);
}

CASE(auto_free_of_use_once, 2,
     "an overflow entry with USE_ONCE takes one message: AUTO_UNLINK, and AUTO_FREE when that message is taken")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(64), 64), me = me_over(s.memory, 64, 1);
    overflow.options |= PTL_ME_USE_ONCE;
    if (rank() == 1) {
        me_append(PT, &overflow, PTL_OVERFLOW_LIST, (void *)1);
        me_append(PT, &overflow, PTL_OVERFLOW_LIST, (void *)2);
    }
    send_numbered(&s, 1, 1, 2);
    if (rank() == 0) return;
    me.options |= PTL_ME_USE_ONCE | QUIET;
    for (uintptr_t i = 1; i <= 2; i++) CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, i);
    for (uintptr_t i = 1; i <= 2; i++) {
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_FREE).user_ptr, i);
    }
}

CASE(auto_free_can_be_disabled, 2, "EVENT_UNLINK_DISABLE on an overflow entry silences AUTO_UNLINK and AUTO_FREE")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(64), 64), me = me_over(s.memory, 64, 1);
    overflow.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 1);
    if (rank() == 1) {
        me.options |= PTL_ME_USE_ONCE | QUIET;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
        no_event(s.eq, 20);
    }
}

CASE(priority_entry_has_no_auto_free, 2, "unlinking an entry of the priority list gives no AUTO_FREE")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    me.options |= PTL_ME_USE_ONCE;
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 1, 1);
    if (rank() == 1) {
        expect_event(s.eq, PTL_EVENT_PUT);
        expect_event(s.eq, PTL_EVENT_AUTO_UNLINK);
        no_event(s.eq, 20);
    }
}

CASE(unexpected_memory_stays_until_freed, 2, "an unlinked overflow entry's memory is not written by later messages before AUTO_FREE")
{
    struct setup s = matching_setup();
    uint64_t *first = buffer(16), *second = buffer(64);
    ptl_me_t overflow = overflow_over(first, 16);
    overflow.min_free = 8;
    if (rank() == 1) {
        me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
        overflow.start = second;
        overflow.length = 64;
        me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    }
    send_numbered(&s, 1, 1, 5);
    if (rank() == 1) {
        expect_event(s.eq, PTL_EVENT_AUTO_UNLINK);
        CHECK_EQ(first[0], 1);
        CHECK_EQ(first[1], 2);
        for (unsigned i = 0; i < 3; i++) CHECK_EQ(second[i], 3 + i);
    }
}

CASE(unexpected_needs_no_permission, 2, "appending an entry of another user id still finds the unexpected message")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(64), 64), me = me_over(s.memory, 64, 1);
    OK(PtlGetUid(ni(), &me.uid));
    me.uid += 1;
    me.options |= PTL_ME_USE_ONCE | QUIET;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 1);
    if (rank() == 1) {
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 1);
    }
}
