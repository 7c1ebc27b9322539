/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Portal table entries: the allocated index, failures of allocation and freeing, the queue of an index's events, disabling
 * and enabling by the program, allocation as disabled, and the hints of an index. Portals 4.3, portal table management.
 * Disabling by the interface is in flow_control.c.
 */
#include "suite.h"

/* Returns the failure kind in the ACK of a put of 8 bytes with these bits to rank `to`. */
static ptl_ni_fail_t outcome_of_put(ptl_handle_md_t md, ptl_handle_eq_t eq, int to, ptl_pt_index_t pt,
                                    ptl_match_bits_t bits, ptl_hdr_data_t hdr)
{
    ptl_event_t ev;
    put(md, 8, to, pt, bits, hdr);
    do CHECK_EQ(wait_event(eq, &ev, 0), PTL_OK);
    while (ev.type != PTL_EVENT_ACK);
    return ev.ni_fail_type;
}

/* ---- Allocation -------------------------------------------------------------------------------------------- */

CASE(any_gives_lowest_free, 1, "PTL_PT_ANY gives the lowest free index")
{
    ni_matching();
    for (ptl_pt_index_t i = 0; i < 10; i++) CHECK_EQ(pt_new(PTL_EQ_NONE, 0), i);
    OK(PtlPTFree(ni(), 7));
    OK(PtlPTFree(ni(), 2));
    CHECK_EQ(pt_new(PTL_EQ_NONE, 0), 2);
    CHECK_EQ(pt_new(PTL_EQ_NONE, 0), 7);
    CHECK_EQ(pt_new(PTL_EQ_NONE, 0), 10);
}

CASE(wanted_index_is_given, 1, "a requested free index is given, in any order")
{
    ptl_ni_limits_t actual;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &actual);
    const ptl_pt_index_t wanted[] = {63, 0, 17, 5, 62, (ptl_pt_index_t)actual.max_pt_index};
    for (int i = 0; i < (actual.max_pt_index > 63 ? 6 : 5); i++) pt_at(wanted[i], PTL_EQ_NONE, 0);
    CHECK_EQ(pt_new(PTL_EQ_NONE, 0), 1);
}

CASE(wanted_index_in_use, 1, "a requested index that is allocated is PTL_PT_IN_USE, and stays as it was")
{
    ptl_pt_index_t index = 999;
    ni_matching();
    pt_at(9, PTL_EQ_NONE, 0);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, 9, &index), PTL_PT_IN_USE);
    OK(PtlPTFree(ni(), 9));
    pt_at(9, PTL_EQ_NONE, 0);
}

CASE(table_full, 1, "with all indexes allocated PTL_PT_ANY is PTL_PT_FULL, and freeing one makes room for one")
{
    ptl_ni_limits_t actual;
    ptl_pt_index_t index;
    ni_open(PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, NULL, &actual);
    for (int i = 0; i <= actual.max_pt_index; i++) pt_new(PTL_EQ_NONE, 0);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, PTL_PT_ANY, &index), PTL_PT_FULL);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, 5, &index), PTL_PT_IN_USE);
    OK(PtlPTFree(ni(), 40));
    CHECK_EQ(pt_new(PTL_EQ_NONE, 0), 40);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, PTL_PT_ANY, &index), PTL_PT_FULL);
}

CASE(alloc_arguments, 1, "PtlPTAlloc refuses unknown options and an index out of range")
{
    ptl_ni_limits_t actual;
    ptl_pt_index_t index;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &actual);
    CHECK_EQ(PtlPTAlloc(ni(), PTL_PT_ALLOC_OPTIONS_MASK + 1, PTL_EQ_NONE, PTL_PT_ANY, &index), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, (ptl_pt_index_t)actual.max_pt_index + 1, &index), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, 0x7fffffff, &index), PTL_ARG_INVALID);
    CHECK_EQ(pt_new(PTL_EQ_NONE, 0), 0);
}

CASE(flow_control_needs_queue, 1, "PTL_PT_FLOWCTRL without an event queue is PTL_PT_EQ_NEEDED, and allocates nothing")
{
    ptl_pt_index_t index;
    ni_matching();
    CHECK_EQ(PtlPTAlloc(ni(), PTL_PT_FLOWCTRL, PTL_EQ_NONE, PTL_PT_ANY, &index), PTL_PT_EQ_NEEDED);
    CHECK_EQ(PtlPTAlloc(ni(), PTL_PT_FLOWCTRL | PTL_PT_ONLY_USE_ONCE, PTL_EQ_NONE, 3, &index), PTL_PT_EQ_NEEDED);
    CHECK_EQ(pt_new(eq_new(8), PTL_PT_FLOWCTRL), 0);
    pt_at(3, PTL_EQ_NONE, 0);
}

CASE(tables_are_per_interface, 1, "each interface has a portal table of its own")
{
    ptl_handle_ni_t matching = ni_matching(), plain = ni_nonmatching();
    pt_at(6, PTL_EQ_NONE, 0);
    ni_use(matching);
    pt_at(6, PTL_EQ_NONE, 0);
    OK(PtlPTFree(plain, 6));
    ptl_pt_index_t index;
    CHECK_EQ(PtlPTAlloc(matching, 0, PTL_EQ_NONE, 6, &index), PTL_PT_IN_USE);
}

/* ---- Freeing ------------------------------------------------------------------------------------------------ */

CASE(free_with_entries, 1, "an index with an entry attached cannot be freed: PTL_PT_IN_USE, on either list")
{
    ni_matching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(NULL, 0, 0);
    for (ptl_list_t list = PTL_PRIORITY_LIST; list <= PTL_OVERFLOW_LIST; list++) {
        ptl_handle_me_t entry = me_append(pt, &me, list, NULL);
        CHECK_EQ(PtlPTFree(ni(), pt), PTL_PT_IN_USE);
        OK(PtlMEUnlink(entry));
    }
    OK(PtlPTFree(ni(), pt));
}

CASE(free_with_list_entries, 1, "an index with list entries attached cannot be freed either")
{
    ni_nonmatching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(NULL, 0);
    ptl_handle_le_t entry = le_append(pt, &le, PTL_PRIORITY_LIST, NULL);
    CHECK_EQ(PtlPTFree(ni(), pt), PTL_PT_IN_USE);
    OK(PtlLEUnlink(entry));
    OK(PtlPTFree(ni(), pt));
}

CASE(free_arguments, 1, "PtlPTFree refuses an index that is out of range, not allocated, or freed already")
{
    ni_matching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    CHECK_EQ(PtlPTFree(ni(), pt + 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTFree(ni(), 1u << 24), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTFree(ni(), PTL_PT_ANY), PTL_ARG_INVALID);
    OK(PtlPTFree(ni(), pt));
    CHECK_EQ(PtlPTFree(ni(), pt), PTL_ARG_INVALID);
}

CASE(freed_index_takes_nothing, 2, "messages to a freed index are dropped, and after allocation it takes them again")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    ptl_me_t me = me_over(buffer(8), 8, 1);
    for (int round = 0; round < 4; round++) {
        if (rank() == 1 && round % 2 == 0) {
            pt_at(3, PTL_EQ_NONE, 0);
            me.options |= PTL_ME_USE_ONCE;
            me_append(3, &me, PTL_PRIORITY_LIST, NULL);
        }
        barrier();
        if (rank() == 0) CHECK_EQ(outcome_of_put(md, eq, 1, 3, 1, 0), round % 2 ? PTL_NI_DROPPED : PTL_NI_OK);
        barrier();
        if (rank() == 1 && round % 2 == 0) OK(PtlPTFree(ni(), 3));
    }
}

CASE(reallocated_index_is_fresh, 2, "an index that is freed and allocated again is enabled and has forgotten its options")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    if (rank() == 1) pt_at(3, eq, PTL_PT_FLOWCTRL | PTL_PT_ALLOC_DISABLED);
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(md, eq, 1, 3, 1, 0), PTL_NI_PT_DISABLED);
    barrier();
    if (rank() == 1) {
        OK(PtlPTFree(ni(), 3));
        pt_at(3, PTL_EQ_NONE, 0);
    }
    barrier();
    /* no entry matches: an index with flow control would be disabled now, a fresh plain one drops the message */
    for (int i = 0; i < 2 && rank() == 0; i++) CHECK_EQ(outcome_of_put(md, eq, 1, 3, 1, 0), PTL_NI_DROPPED);
    barrier();
    if (rank() == 1) no_event(eq, 10);
}

/* ---- Where events go ---------------------------------------------------------------------------------------- */

CASE(events_go_to_the_index_queue, 2, "an operation's event goes to the queue of its index, with that index")
{
    ni_matching();
    ptl_handle_eq_t own = eq_new(32), shared = eq_new(32);
    ptl_me_t me = me_over(NULL, 0, 1);
    if (rank() == 1) {
        pt_at(1, own, 0);
        pt_at(2, shared, 0);
        pt_at(3, shared, 0);
        pt_at(4, PTL_EQ_NONE, 0);
        for (ptl_pt_index_t i = 1; i <= 4; i++) me_append(i, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(NULL, 0, 0, own, PTL_CT_NONE);
        for (ptl_pt_index_t i = 1; i <= 4; i++) {
            put(md, 0, 1, i, 1, i);
            expect_send_ack(own);
        }
    }
    barrier();
    if (rank() == 0) return;
    CHECK_EQ(expect_event(own, PTL_EVENT_PUT).pt_index, 1);
    CHECK_EQ(expect_event(shared, PTL_EVENT_PUT).pt_index, 2);
    CHECK_EQ(expect_event(shared, PTL_EVENT_PUT).pt_index, 3);
    no_event(own, 10);
    no_event(shared, 0);
}

/* ---- Disabling and enabling --------------------------------------------------------------------------------- */

CASE(disabled_index_refuses, 2,
     "a disabled index takes no message; the initiator gets PTL_NI_PT_DISABLED, the target no event")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    unsigned char *memory = buffer(8);
    ptl_me_t me = me_over(memory, 8, 1);
    if (rank() == 1) {
        pt_at(0, eq, 0);
        me_append(0, &me, PTL_PRIORITY_LIST, NULL);
        OK(PtlPTDisable(ni(), 0));
    }
    barrier();
    pattern_fill(memory, rank() == 0 ? 8 : 0, 7);
    ptl_handle_md_t md = md_new(memory, 8, 0, eq, PTL_CT_NONE);
    for (int i = 0; i < 3 && rank() == 0; i++) CHECK_EQ(outcome_of_put(md, eq, 1, 0, 1, 0), PTL_NI_PT_DISABLED);
    barrier();
    if (rank() == 1) {
        no_event(eq, 10);
        CHECK_BYTES(memory, 8, 0);
        OK(PtlPTEnable(ni(), 0));
    }
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(md, eq, 1, 0, 1, 55), PTL_NI_OK);
    barrier();
    if (rank() == 1) {
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, 55);
        CHECK_PATTERN(memory, 8, 7);
    }
}

CASE(disabled_index_refuses_every_operation, 2, "get, atomic, fetch-atomic and swap to a disabled index end with PTL_NI_PT_DISABLED")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    uint64_t *memory = buffer(64);
    pt_at(0, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(memory, 64, 1);
    me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    if (rank() == 1) OK(PtlPTDisable(ni(), 0));
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(memory, 64, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
        uint64_t operand = 0;
        memory[0] = 5;
        OK(PtlGet(md, 8, 8, peer(1), 0, 1, 0, NULL));
        expect_failure(eq, PTL_EVENT_REPLY, PTL_NI_PT_DISABLED);
        OK(PtlAtomic(md, 0, 8, PTL_ACK_REQ, peer(1), 0, 1, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
        expect_failure(eq, PTL_EVENT_ACK, PTL_NI_PT_DISABLED);
        OK(PtlFetchAtomic(md, 8, md, 0, 8, peer(1), 0, 1, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
        expect_failure(eq, PTL_EVENT_REPLY, PTL_NI_PT_DISABLED);
        OK(PtlSwap(md, 8, md, 0, 8, peer(1), 0, 1, 0, NULL, 0, &operand, PTL_CSWAP, PTL_UINT64_T));
        expect_failure(eq, PTL_EVENT_REPLY, PTL_NI_PT_DISABLED);
        CHECK_EQ(memory[1], 0);
    }
    barrier();
    if (rank() == 1) CHECK_EQ(memory[0], 0);
}

CASE(disabling_is_silent_afterwards, 5, "once PtlPTDisable has returned no more events of the index appear, whatever is sent")
{
    enum { MESSAGES = 200 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(4 * MESSAGES + 64);
    ptl_handle_ct_t acks = ct_new();
    ptl_me_t me = me_over(NULL, 0, 1);
    unsigned long long taken = 0, refused = 0, all[5];
    if (rank() == 0) {
        pt_at(0, eq, 0);
        me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        ptl_event_t ev;
        for (int i = 0; i < 20; i++, taken++) CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).pt_index, 0);
        OK(PtlPTDisable(ni(), 0));
        for (; PtlEQGet(eq, &ev) == PTL_OK; taken++) CHECK_EQ(ev.type, PTL_EVENT_PUT);
        no_event(eq, 100);
    } else {
        ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acks);
        for (int i = 0; i < MESSAGES; i++) OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(0), 0, 1, 0, NULL, 0));
        ptl_ct_event_t got = wait_ct(acks, MESSAGES);
        taken = got.success;
        refused = got.failure;
        CHECK_EQ(taken + refused, MESSAGES);
    }
    barrier();
    exchange(&taken, sizeof taken, all);
    CHECK_EQ(all[0], all[1] + all[2] + all[3] + all[4]);
    if (rank() == 0) no_event(eq, 10);
}

CASE(allocated_as_disabled, 2, "PTL_PT_ALLOC_DISABLED allocates an index that takes nothing before PtlPTEnable")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    ptl_me_t me = me_over(buffer(8), 8, 1);
    if (rank() == 1) {
        pt_at(0, eq, PTL_PT_ALLOC_DISABLED);
        me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(md, eq, 1, 0, 1, 0), PTL_NI_PT_DISABLED);
    barrier();
    if (rank() == 1) {
        no_event(eq, 0);
        OK(PtlPTEnable(ni(), 0));
    }
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(md, eq, 1, 0, 1, 0), PTL_NI_OK);
    barrier();
    if (rank() == 1) expect_event(eq, PTL_EVENT_PUT);
}

CASE(disabled_index_keeps_its_lists, 2, "entries can be appended and removed while an index is disabled, and unexpected messages stay")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    ptl_me_t overflow = me_over(buffer(64), 64, 0), me = me_over(buffer(8), 8, 1);
    overflow.ignore_bits = ~0ull;
    overflow.options |= PTL_ME_EVENT_COMM_DISABLE | PTL_ME_MANAGE_LOCAL;
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
    ptl_handle_me_t catcher = PTL_INVALID_HANDLE;
    if (rank() == 1) {
        pt_at(0, eq, 0);
        catcher = me_append(0, &overflow, PTL_OVERFLOW_LIST, NULL);
    }
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(md, eq, 1, 0, 1, 11), PTL_NI_OK);
    barrier();
    if (rank() == 1) {
        OK(PtlPTDisable(ni(), 0));
        me_append(0, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 11);
        OK(PtlMEUnlink(catcher));
        me_append(0, &me, PTL_PRIORITY_LIST, NULL);
        OK(PtlPTEnable(ni(), 0));
    }
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(md, eq, 1, 0, 1, 12), PTL_NI_OK);
    barrier();
    if (rank() == 1) CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, 12);
}

CASE(disabled_process_still_gets_replies, 2, "a process that disabled its index still receives acknowledgments and replies")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    unsigned char *memory = buffer(16);
    pt_at(0, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(memory, 16, 1);
    me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    if (rank() == 1) pattern_fill(memory, 16, 3);
    if (rank() == 0) OK(PtlPTDisable(ni(), 0));
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(memory, 16, 0, eq, PTL_CT_NONE);
        get(md, 16, 1, 0, 1, 0);
        expect_event(eq, PTL_EVENT_REPLY);
        CHECK_PATTERN(memory, 16, 3);
        put(md, 16, 1, 0, 1, 0);
        expect_send_ack(eq);
    }
}

CASE(enable_and_disable_repeat, 1, "enabling an enabled index and disabling a disabled one change nothing and succeed")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(32);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(buffer(8), 8, 1);
    me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
    for (int i = 0; i < 5; i++) {
        OK(PtlPTEnable(ni(), pt));
        OK(PtlPTEnable(ni(), pt));
        CHECK_EQ(outcome_of_put(md, eq, 0, pt, 1, 0), PTL_NI_OK);
        OK(PtlPTDisable(ni(), pt));
        OK(PtlPTDisable(ni(), pt));
        CHECK_EQ(outcome_of_put(md, eq, 0, pt, 1, 0), PTL_NI_PT_DISABLED);
    }
    no_event(eq, 0);
}

CASE(enable_arguments, 1, "PtlPTEnable and PtlPTDisable refuse an index that is not allocated")
{
    ni_matching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    const ptl_pt_index_t wrong[] = {pt + 1, 1u << 24, PTL_PT_ANY};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(PtlPTEnable(ni(), wrong[i]), PTL_ARG_INVALID);
        CHECK_EQ(PtlPTDisable(ni(), wrong[i]), PTL_ARG_INVALID);
    }
}

CASE(disabled_index_can_be_freed, 1, "a disabled index without entries can be freed")
{
    ni_matching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    OK(PtlPTDisable(ni(), pt));
    OK(PtlPTFree(ni(), pt));
    CHECK_EQ(pt_new(PTL_EQ_NONE, PTL_PT_ALLOC_DISABLED), pt);
    OK(PtlPTFree(ni(), pt));
}

CASE(disabling_one_leaves_others, 2, "disabling an index does not touch the others")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(64);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    ptl_me_t me = me_over(buffer(8), 8, 1);
    for (ptl_pt_index_t i = 0; i < 6; i++) {
        pt_at(i, PTL_EQ_NONE, 0);
        me_append(i, &me, PTL_PRIORITY_LIST, NULL);
    }
    if (rank() == 1) OK(PtlPTDisable(ni(), 3));
    barrier();
    for (ptl_pt_index_t i = 0; i < 6 && rank() == 0; i++)
        CHECK_EQ(outcome_of_put(md, eq, 1, i, 1, 0), i == 3 ? PTL_NI_PT_DISABLED : PTL_NI_OK);
}

/* ---- Hints -------------------------------------------------------------------------------------------------- */

/* Under a hint, entries that keep its promise behave as without it: in order, use once, wildcards included. */
static void check_ordered_use_once(unsigned pt_options, unsigned me_options, bool wildcards)
{
    enum { ENTRIES = 40 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(4 * ENTRIES);
    unsigned char *memory = buffer(8 * ENTRIES);
    if (rank() == 1) {
        pt_at(0, eq, pt_options);
        for (int i = 0; i < ENTRIES; i++) {
            ptl_me_t me = me_over(memory + 8 * i, 8, (ptl_match_bits_t)(i / 4));
            me.options |= me_options | PTL_ME_EVENT_UNLINK_DISABLE;
            if (wildcards && i % 4 == 3) me.ignore_bits = ~0ull;
            me_append(0, &me, PTL_PRIORITY_LIST, (void *)(uintptr_t)(i + 1));
        }
    }
    barrier();
    if (rank() == 0) {
        uint64_t *value = buffer(8);
        ptl_handle_md_t md = md_new(value, 8, 0, eq, PTL_CT_NONE);
        for (int i = 0; i < ENTRIES; i++) {
            *value = 1000u + (unsigned)i;
            put(md, 8, 1, 0, (ptl_match_bits_t)(i / 4), (ptl_hdr_data_t)i);
            expect_send_ack(eq);
        }
        return;
    }
    for (int i = 0; i < ENTRIES; i++) {
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.hdr_data, i);
        CHECK_EQ((uintptr_t)ev.user_ptr, i + 1);
    }
    for (int i = 0; i < ENTRIES; i++) CHECK_EQ(((uint64_t *)memory)[i], 1000u + (unsigned)i);
}

CASE(hint_only_use_once, 2, "PTL_PT_ONLY_USE_ONCE changes nothing for entries that are all USE_ONCE")
{
    check_ordered_use_once(PTL_PT_ONLY_USE_ONCE, PTL_ME_USE_ONCE, true);
}

CASE(hint_only_truncate, 2, "PTL_PT_ONLY_TRUNCATE changes nothing for entries without NO_TRUNCATE")
{
    check_ordered_use_once(PTL_PT_ONLY_TRUNCATE, PTL_ME_USE_ONCE, true);
}

CASE(hint_all_together, 2, "the hints and flow control combine")
{
    check_ordered_use_once(PTL_PT_ONLY_TRUNCATE | PTL_PT_ONLY_USE_ONCE | PTL_PT_FLOWCTRL, PTL_ME_USE_ONCE, false);
}

CASE(hint_only_use_once_broken, 2, "a persistent entry under PTL_PT_ONLY_USE_ONCE is appended, and takes every message")
{
    enum { MESSAGES = 5 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(4 * MESSAGES);
    if (rank() == 1) {
        pt_at(0, eq, PTL_PT_ONLY_USE_ONCE | PTL_PT_FLOWCTRL);
        ptl_me_t once = me_over(NULL, 0, 7), kept = me_over(NULL, 0, 7);
        once.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
        me_append(0, &once, PTL_PRIORITY_LIST, (void *)1);
        me_append(0, &kept, PTL_PRIORITY_LIST, (void *)2);
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(NULL, 0, 0, eq, PTL_CT_NONE);
        for (int i = 0; i < MESSAGES; i++) {
            put(md, 0, 1, 0, 7, (ptl_hdr_data_t)i);
            expect_send_ack(eq);
        }
        return;
    }
    for (int i = 0; i < MESSAGES; i++) {
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.hdr_data, i);
        CHECK_EQ((uintptr_t)ev.user_ptr, i == 0 ? 1 : 2);
    }
}

CASE(hint_only_truncate_broken, 2,
     "a NO_TRUNCATE entry under PTL_PT_ONLY_TRUNCATE is appended, and takes only messages that fit")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    unsigned char *memory = buffer(64);
    if (rank() == 1) {
        pt_at(0, eq, PTL_PT_ONLY_TRUNCATE | PTL_PT_ONLY_USE_ONCE);
        ptl_me_t whole = me_over(memory, 8, 7), all = me_over(memory, 16, 7);
        whole.options |= PTL_ME_NO_TRUNCATE;
        me_append(0, &whole, PTL_PRIORITY_LIST, (void *)1);
        me_append(0, &all, PTL_PRIORITY_LIST, (void *)2);
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(memory, 64, 0, eq, PTL_CT_NONE);
        const size_t sizes[] = {8, 9, 32, 8};
        for (int i = 0; i < 4; i++) {
            put(md, sizes[i], 1, 0, 7, (ptl_hdr_data_t)i);
            expect_send_ack(eq);
        }
        return;
    }
    const uintptr_t takers[] = {1, 2, 2, 1};
    const ptl_size_t moved[] = {8, 9, 16, 8};
    for (int i = 0; i < 4; i++) {
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
        CHECK_EQ((uintptr_t)ev.user_ptr, takers[i]);
        CHECK_EQ(ev.mlength, moved[i]);
    }
}

CASE(hint_broken_by_trigger, 1, "a triggered append that breaks a hint is armed, and links its entry when it fires")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    ptl_handle_ct_t trigger = ct_new();
    pt_at(0, eq, PTL_PT_ONLY_USE_ONCE | PTL_PT_ONLY_TRUNCATE);
    ptl_handle_me_t entry;
    ptl_me_t me = me_over(NULL, 0, 7);
    me.options |= PTL_ME_NO_TRUNCATE;
    OK(PtlTriggeredMEAppend(ni(), 0, &me, PTL_PRIORITY_LIST, NULL, &entry, trigger, 1));
    OK(PtlCTInc(trigger, (ptl_ct_event_t){1, 0}));
    ptl_handle_eq_t done = eq_new(16);
    ptl_handle_md_t md = md_new(NULL, 0, 0, done, PTL_CT_NONE);
    for (int i = 0; i < 2; i++) {
        put(md, 0, 0, 0, 7, 0);
        expect_send_ack(done);
        expect_event(eq, PTL_EVENT_PUT);
    }
}

CASE(unordered_matching_finds_every_entry, 2, "with PTL_PT_MATCH_UNORDERED every message still finds an entry that matches it")
{
    enum { ENTRIES = 200 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(4 * ENTRIES);
    if (rank() == 1) {
        pt_at(0, eq, PTL_PT_MATCH_UNORDERED);
        for (int i = 0; i < ENTRIES; i++) {
            ptl_me_t me = me_over(NULL, 0, (ptl_match_bits_t)i * 0x10001);
            me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
            me_append(0, &me, PTL_PRIORITY_LIST, (void *)(uintptr_t)i);
        }
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(NULL, 0, 0, eq, PTL_CT_NONE);
        for (int i = 0; i < ENTRIES; i++) {
            int at = i * 77 % ENTRIES;
            put(md, 0, 1, 0, (ptl_match_bits_t)at * 0x10001, (ptl_hdr_data_t)at);
            expect_send_ack(eq);
        }
        return;
    }
    for (int i = 0; i < ENTRIES; i++) {
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
        CHECK_EQ((uintptr_t)ev.user_ptr, ev.hdr_data);
    }
}
