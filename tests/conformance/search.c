/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Searches of the unexpected list. SEARCH_ONLY reports messages, SEARCH_DELETE removes them. The cases check the resulting
 * events and counts for use-once and persistent entries, and that nothing else happens. Portals 4.3, PtlLESearch and
 * PtlMESearch.
 */
#include "setup.h"

static void search(const ptl_me_t *me, ptl_search_op_t operation, uintptr_t user)
{
    OK(PtlMESearch(ni(), PT, me, operation, (void *)user));
}

/* The setup with messages 1 to 3 of bits 1, then 4 and 5 of bits 2, in the unexpected list. */
static struct setup setup_with_messages(void)
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256);
    if (rank() == TARGET) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 3);
    send_numbered(&s, 2, 4, 5);
    return s;
}

static ptl_me_t seeker(ptl_match_bits_t bits, unsigned options)
{
    ptl_me_t me = me_over(NULL, 0, bits);
    me.options = PTL_ME_OP_PUT | QUIET | options;
    return me;
}

CASE(only_tells_of_the_oldest, 2,
     "SEARCH_ONLY with USE_ONCE: one SEARCH event that describes the oldest match, which stays")
{
    struct setup s = setup_with_messages();
    ptl_me_t me = seeker(2, PTL_ME_USE_ONCE);
    for (uintptr_t round = 1; round <= 3 && rank() == TARGET; round++) {
        search(&me, PTL_SEARCH_ONLY, round);
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_SEARCH);
        CHECK_EQ((uintptr_t)ev.user_ptr, round);
        CHECK_EQ(ev.hdr_data, 4);
        CHECK_EQ(ev.match_bits, 2);
        CHECK_EQ(ev.rlength, 8);
        CHECK_EQ(ev.mlength, 8);
        CHECK_EQ(ev.pt_index, PT);
        CHECK_PROCESS(ev.initiator, peer(0));
        CHECK_EQ(value_at(ev.start), 4);
        no_event(s.eq, 10);
    }
}

CASE(only_persistent_tells_of_all, 2, "SEARCH_ONLY without USE_ONCE: a SEARCH event for every match, in order; all stay")
{
    struct setup s = setup_with_messages();
    ptl_me_t me = seeker(1, 0);
    for (int round = 0; round < 2 && rank() == TARGET; round++) {
        search(&me, PTL_SEARCH_ONLY, 8);
        for (unsigned i = 1; i <= 3; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, i);
        no_event(s.eq, 20);
    }
}

CASE(delete_takes_the_oldest, 2, "SEARCH_DELETE with USE_ONCE: the event of the message's operation; the oldest match is taken")
{
    struct setup s = setup_with_messages();
    ptl_me_t me = seeker(1, PTL_ME_USE_ONCE);
    for (unsigned i = 1; i <= 3 && rank() == TARGET; i++) {
        search(&me, PTL_SEARCH_DELETE, i);
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(ev.hdr_data, i);
        CHECK_EQ((uintptr_t)ev.user_ptr, i);
        CHECK_EQ(value_at(ev.start), i);
    }
    if (rank() == TARGET) {
        search(&me, PTL_SEARCH_DELETE, 9);
        CHECK_EQ((uintptr_t)expect_failure(s.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH).user_ptr, 9);
        no_event(s.eq, 10);
    }
}

CASE(delete_persistent_takes_all, 2, "SEARCH_DELETE without USE_ONCE: every match is taken, each with its event, in order")
{
    struct setup s = setup_with_messages();
    if (rank() != TARGET) return;
    ptl_me_t me = seeker(1, 0), rest = seeker(0, 0);
    search(&me, PTL_SEARCH_DELETE, 8);
    for (unsigned i = 1; i <= 3; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    no_event(s.eq, 20);
    rest.ignore_bits = ~0ull;
    search(&rest, PTL_SEARCH_ONLY, 8);
    for (unsigned i = 4; i <= 5; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, i);
}

CASE(nothing_found, 2, "a search that finds nothing: one SEARCH event with PTL_NI_NO_MATCH and the user pointer, in every mode")
{
    struct setup s = setup_with_messages();
    for (int mode = 0; mode < 4 && rank() == TARGET; mode++) {
        ptl_me_t me = seeker(3, mode & 1 ? PTL_ME_USE_ONCE : 0);
        search(&me, mode & 2 ? PTL_SEARCH_DELETE : PTL_SEARCH_ONLY, 70 + (uintptr_t)mode);
        CHECK_EQ((uintptr_t)expect_failure(s.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH).user_ptr, 70 + (uintptr_t)mode);
        no_event(s.eq, 10);
    }
}

CASE(nothing_found_in_empty_list, 1,
     "a search of an index that never had a message gives PTL_NI_NO_MATCH; posted entries are not searched")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(PT, eq, 0);
    ptl_me_t posted = me_over(NULL, 0, 1), me = seeker(1, 0);
    me_append(PT, &posted, PTL_PRIORITY_LIST, NULL);
    me_append(PT, &posted, PTL_OVERFLOW_LIST, NULL);
    search(&me, PTL_SEARCH_ONLY, 1);
    expect_failure(eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
    search(&me, PTL_SEARCH_DELETE, 2);
    expect_failure(eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
}

CASE(search_entry_is_not_linked, 2, "the entry of a search never takes a later message")
{
    struct setup s = matching_setup();
    ptl_me_t me = seeker(1, 0);
    if (rank() == TARGET) {
        search(&me, PTL_SEARCH_ONLY, 0);
        search(&me, PTL_SEARCH_DELETE, 0);
        for (int i = 0; i < 2; i++) expect_failure(s.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
    }
    barrier();
    if (rank() == 0) {
        put(s.md, 8, TARGET, PT, 1, 0);
        expect_send_ack_failure(s.eq, PTL_NI_DROPPED);
    }
    barrier();
    if (rank() == TARGET) no_event(s.eq, 10);
}

CASE(deleted_is_not_found_by_append, 2, "appending finds the headers that a search only reported, not those it deleted")
{
    struct setup s = setup_with_messages();
    if (rank() != TARGET) return;
    ptl_me_t me = seeker(1, PTL_ME_USE_ONCE), all = me_over(s.memory, 64, 1);
    search(&me, PTL_SEARCH_DELETE, 0);
    expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
    search(&me, PTL_SEARCH_ONLY, 0);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, 2);
    me_append(PT, &all, PTL_PRIORITY_LIST, NULL);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 2);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 3);
    no_event(s.eq, 10);
}

CASE(search_matches_like_append, 2, "a search matches by bits, ignored bits and source as appending does")
{
    struct setup s = setup_with_messages();
    if (rank() != TARGET) return;
    ptl_me_t me = seeker(0, PTL_ME_USE_ONCE);
    me.ignore_bits = ~(ptl_match_bits_t)2; /* bit 1 must be clear */
    search(&me, PTL_SEARCH_ONLY, 0);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, 1);
    me.match_bits = 2;
    search(&me, PTL_SEARCH_ONLY, 0);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, 4);
    me.match_id = peer(TARGET);
    search(&me, PTL_SEARCH_ONLY, 0);
    expect_failure(s.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
    me.match_id = peer(0);
    search(&me, PTL_SEARCH_DELETE, 0);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 4);
}

CASE(delete_frees_the_overflow_entry, 2, "deleting the last message of an unlinked overflow entry gives its AUTO_FREE")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(16), 16), me = seeker(1, 0);
    overflow.min_free = 8;
    if (rank() == TARGET) me_append(PT, &overflow, PTL_OVERFLOW_LIST, (void *)5);
    send_numbered(&s, 1, 1, 2);
    if (rank() != TARGET) return;
    CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, 5);
    search(&me, PTL_SEARCH_DELETE, 0);
    for (int i = 0; i < 2; i++) expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_FREE).user_ptr, 5);
    no_event(s.eq, 10);
}

CASE(delete_ends_in_use, 2, "after its messages were deleted an overflow entry can be unlinked")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(64), 64), me = seeker(1, 0);
    ptl_handle_me_t catcher = rank() == TARGET ? me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL) : 0;
    send_numbered(&s, 1, 1, 2);
    if (rank() != TARGET) return;
    CHECK_EQ(PtlMEUnlink(catcher), PTL_IN_USE);
    search(&me, PTL_SEARCH_ONLY, 0);
    CHECK_EQ(PtlMEUnlink(catcher), PTL_IN_USE);
    search(&me, PTL_SEARCH_DELETE, 0);
    OK(PtlMEUnlink(catcher));
    OK(PtlPTFree(ni(), PT));
}

CASE(search_without_queue, 2, "without an event queue a search succeeds, deletes, and gives no event")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    ptl_me_t overflow = overflow_over(buffer(64), 64), me = seeker(1, 0);
    ptl_handle_me_t catcher = PTL_INVALID_HANDLE;
    if (rank() == TARGET) {
        pt_at(PT, PTL_EQ_NONE, 0);
        catcher = me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(buffer(8), 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
        OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(TARGET), PT, 1, 0, NULL, 0));
        expect_ct(ct, 1, 0);
    }
    barrier();
    if (rank() == TARGET) {
        CHECK_EQ(PtlMEUnlink(catcher), PTL_IN_USE);
        search(&me, PTL_SEARCH_DELETE, 0);
        OK(PtlMEUnlink(catcher));
    }
}

CASE(over_disable_silences_delete, 2, "SEARCH_DELETE with EVENT_OVER_DISABLE takes the message and gives no event")
{
    struct setup s = setup_with_messages();
    if (rank() != TARGET) return;
    ptl_me_t me = seeker(1, PTL_ME_USE_ONCE | PTL_ME_EVENT_OVER_DISABLE);
    search(&me, PTL_SEARCH_DELETE, 0);
    no_event(s.eq, 20);
    me.options &= ~PTL_ME_EVENT_OVER_DISABLE;
    search(&me, PTL_SEARCH_ONLY, 0);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, 2);
}

CASE(success_disable_tells_failures, 2, "with EVENT_SUCCESS_DISABLE a search reports only that it found nothing")
{
    struct setup s = setup_with_messages();
    if (rank() != TARGET) return;
    ptl_me_t me = seeker(1, PTL_ME_USE_ONCE | PTL_ME_EVENT_SUCCESS_DISABLE);
    search(&me, PTL_SEARCH_ONLY, 0);
    search(&me, PTL_SEARCH_DELETE, 0);
    no_event(s.eq, 20);
    me.match_bits = 3;
    search(&me, PTL_SEARCH_ONLY, 6);
    CHECK_EQ((uintptr_t)expect_failure(s.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH).user_ptr, 6);
}

CASE(search_leaves_status_registers, 2, "a search never increments a status register")
{
    struct setup s = setup_with_messages();
    if (rank() != TARGET) return;
    ptl_me_t me = seeker(3, 0);
    me.options = QUIET; /* neither operation permitted */
    me.uid = 12345;
    for (int i = 0; i < 4; i++) {
        me.match_bits = i & 1 ? 3 : 1;
        search(&me, i & 2 ? PTL_SEARCH_DELETE : PTL_SEARCH_ONLY, 0);
    }
    for (int i = PTL_SR_DROP_COUNT; i < PTL_SR_LAST; i++) {
        ptl_sr_value_t value = -1;
        OK(PtlNIStatus(ni(), (ptl_sr_index_t)i, &value));
        CHECK_EQ(value, 0);
    }
    (void)s;
}

/* With CT_OVERFLOW: one success for each match, and one failure when a search ends without a further match. */
static void check_counts(ptl_match_bits_t bits, unsigned options, ptl_search_op_t operation, unsigned success,
                         unsigned failure)
{
    ptl_me_t me = seeker(bits, options | PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_OVER_DISABLE);
    me.ct_handle = ct_new();
    search(&me, operation, 0);
    expect_ct(me.ct_handle, success, failure);
    OK(PtlCTFree(me.ct_handle));
}

CASE(only_counts, 2, "EVENT_CT_OVERFLOW counts the headers that SEARCH_ONLY finds, and a failure at the end")
{
    setup_with_messages();
    if (rank() != TARGET) return;
    check_counts(1, 0, PTL_SEARCH_ONLY, 3, 1);
    check_counts(2, 0, PTL_SEARCH_ONLY, 2, 1);
    check_counts(1, PTL_ME_USE_ONCE, PTL_SEARCH_ONLY, 1, 0);
    check_counts(3, 0, PTL_SEARCH_ONLY, 0, 1);
    check_counts(3, PTL_ME_USE_ONCE, PTL_SEARCH_ONLY, 0, 1);
}

CASE(delete_counts, 2, "EVENT_CT_OVERFLOW counts the headers that SEARCH_DELETE takes, and a failure at the end")
{
    setup_with_messages();
    if (rank() != TARGET) return;
    check_counts(1, PTL_ME_USE_ONCE, PTL_SEARCH_DELETE, 1, 0);
    check_counts(1, 0, PTL_SEARCH_DELETE, 2, 1);
    check_counts(1, 0, PTL_SEARCH_DELETE, 0, 1);
    check_counts(1, PTL_ME_USE_ONCE, PTL_SEARCH_DELETE, 0, 1);
    check_counts(2, 0, PTL_SEARCH_DELETE, 2, 1);
}

CASE(search_of_list_entries, 2, "without matching PtlLESearch reports and takes the oldest, or all, whatever was sent")
{
    struct setup s = plain_setup();
    ptl_le_t overflow = le_over(buffer(64), 64), le = le_over(NULL, 0);
    overflow.options |= PTL_LE_EVENT_COMM_DISABLE;
    if (rank() == TARGET) le_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 0, 1, 4);
    if (rank() != TARGET) return;
    le.options |= PTL_LE_USE_ONCE | QUIET;
    OK(PtlLESearch(ni(), PT, &le, PTL_SEARCH_ONLY, (void *)1));
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, 1);
    OK(PtlLESearch(ni(), PT, &le, PTL_SEARCH_DELETE, (void *)2));
    ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
    CHECK_EQ(ev.hdr_data, 1);
    CHECK_EQ((uintptr_t)ev.user_ptr, 2);
    le.options &= ~PTL_LE_USE_ONCE;
    OK(PtlLESearch(ni(), PT, &le, PTL_SEARCH_ONLY, NULL));
    for (unsigned i = 2; i <= 4; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_SEARCH).hdr_data, i);
    OK(PtlLESearch(ni(), PT, &le, PTL_SEARCH_DELETE, NULL));
    for (unsigned i = 2; i <= 4; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    OK(PtlLESearch(ni(), PT, &le, PTL_SEARCH_ONLY, NULL));
    expect_failure(s.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
    no_event(s.eq, 10);
}
