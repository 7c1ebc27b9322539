/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The lists of a portal table index: priority before overflow, the order of a list, use once, unlinking and its events,
 * races of unlinking with messages, user ids. Both kinds of entries. Portals 4.3, list entries and lists, match list
 * entries. The unexpected list is in unexpected.c, searching in search.c.
 */
#include "setup.h"

/* ---- Priority and overflow ------------------------------------------------------------------------------------- */

CASE(priority_before_overflow, 2, "a message goes to a matching priority entry even if an overflow entry was appended before")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(64), 64), me = me_over(s.memory, 64, 1);
    overflow.options &= ~PTL_ME_EVENT_COMM_DISABLE;
    if (rank() == 1) {
        me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    send_numbered(&s, 1, 5, 5);
    if (rank() == 1) {
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.ptl_list, PTL_PRIORITY_LIST);
        CHECK_PTR(ev.start, s.memory);
        no_event(s.eq, 10);
    }
}

CASE(overflow_takes_the_rest, 2,
     "a message that no priority entry matches goes to the overflow list, and its event reports that")
{
    struct setup s = matching_setup();
    unsigned char *spare = buffer(64);
    ptl_me_t overflow = overflow_over(spare, 64), me = me_over(s.memory, 64, 1);
    overflow.options &= ~PTL_ME_EVENT_COMM_DISABLE;
    if (rank() == 1) {
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        me_append(PT, &overflow, PTL_OVERFLOW_LIST, (void *)7);
    }
    send_numbered(&s, 2, 5, 5);
    if (rank() == 1) {
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.ptl_list, PTL_OVERFLOW_LIST);
        CHECK_EQ((uintptr_t)ev.user_ptr, 7);
        CHECK_PTR(ev.start, spare);
        CHECK_EQ(value_at(spare), 5);
        CHECK_BYTES(s.memory, 64, 0);
    }
}

CASE(overflow_of_list_entries, 2, "without matching the overflow list takes messages while the priority list is empty")
{
    struct setup s = plain_setup();
    unsigned char *spare = buffer(64);
    ptl_le_t overflow = le_over(spare, 64), le = le_over(buffer(64), 64);
    le.options |= PTL_LE_USE_ONCE | QUIET;
    if (rank() == 1) le_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 0, 3, 3);
    if (rank() == 1) {
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).ptl_list, PTL_OVERFLOW_LIST);
        le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(ev.hdr_data, 3);
        CHECK_PTR(ev.start, spare);
        le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    }
    send_numbered(&s, 0, 4, 4);
    if (rank() == 1) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).ptl_list, PTL_PRIORITY_LIST);
}

CASE(first_entry_wins, 2,
     "of several matching entries the one appended first takes the messages, as long as it is linked")
{
    struct setup s = matching_setup();
    ptl_handle_me_t entries[3] = {0};
    if (rank() == 1)
        for (uintptr_t i = 0; i < 3; i++) {
            ptl_me_t me = me_over(s.memory, 64, 1);
            entries[i] = me_append(PT, &me, PTL_PRIORITY_LIST, (void *)i);
        }
    for (unsigned i = 0; i < 3; i++) {
        send_numbered(&s, 1, i, i);
        if (rank() == 0) continue;
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, i);
        OK(PtlMEUnlink(entries[i]));
    }
}

CASE(first_list_entry_wins, 2, "without matching the first entry of the list takes every message until it is unlinked")
{
    struct setup s = plain_setup();
    if (rank() == 1)
        for (uintptr_t i = 0; i < 3; i++) {
            ptl_le_t le = le_over(buffer(64), 64);
            if (i < 2) le.options |= PTL_LE_USE_ONCE | QUIET;
            le_append(PT, &le, PTL_PRIORITY_LIST, (void *)i);
        }
    send_numbered(&s, 0, 0, 4);
    const uintptr_t taken_by[] = {0, 1, 2, 2, 2};
    for (int i = 0; i < 5 && rank() == 1; i++)
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, taken_by[i]);
}

CASE(persistent_entry_stays, 2, "an entry without USE_ONCE takes any number of messages")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 1, 100);
    for (unsigned i = 1; i <= 100 && rank() == 1; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, i);
    if (rank() == 1) CHECK_EQ(value_at(s.memory), 100);
}

CASE(no_entry_drops, 2,
     "a message that matches nothing on either list is dropped and its initiator gets PTL_NI_DROPPED")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) {
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        me_append(PT, &me, PTL_OVERFLOW_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        put(s.md, 8, 1, PT, 2, 0);
        expect_send_ack_failure(s.eq, PTL_NI_DROPPED);
    }
    barrier();
    if (rank() == 1) no_event(s.eq, 10);
}

/* ---- Use once, and the end of an entry --------------------------------------------------------------------------- */

CASE(use_once_unlinks, 2,
     "an entry with USE_ONCE takes one message and is unlinked: PUT, then AUTO_UNLINK; its handle becomes invalid")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    me.options |= PTL_ME_USE_ONCE;
    ptl_handle_me_t entry = rank() == 1 ? me_append(PT, &me, PTL_PRIORITY_LIST, (void *)41) : 0;
    send_numbered(&s, 1, 6, 6);
    if (rank() == 1) {
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, 41);
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_AUTO_UNLINK);
        CHECK_EQ((uintptr_t)ev.user_ptr, 41);
        CHECK_EQ(ev.pt_index, PT);
        no_event(s.eq, 10);
        CHECK_EQ(PtlMEUnlink(entry), PTL_ARG_INVALID);
    }
    barrier();
    if (rank() == 0) {
        put(s.md, 8, 1, PT, 1, 0);
        expect_send_ack_failure(s.eq, PTL_NI_DROPPED);
    }
}

CASE(use_once_list_entry, 2, "a list entry with USE_ONCE takes one message and is unlinked")
{
    struct setup s = plain_setup();
    ptl_le_t le = le_over(s.memory, 64);
    le.options |= PTL_LE_USE_ONCE;
    if (rank() == 1) {
        le_append(PT, &le, PTL_PRIORITY_LIST, (void *)1);
        le_append(PT, &le, PTL_PRIORITY_LIST, (void *)2);
    }
    send_numbered(&s, 0, 1, 2);
    for (uintptr_t i = 1; i <= 2 && rank() == 1; i++) {
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, i);
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, i);
    }
}

CASE(unlink_event_can_be_disabled, 2, "EVENT_UNLINK_DISABLE: no AUTO_UNLINK event")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 6, 6);
    if (rank() == 1) {
        expect_event(s.eq, PTL_EVENT_PUT);
        no_event(s.eq, 20);
    }
}

CASE(comm_event_disabled_unlink_told, 2, "EVENT_COMM_DISABLE drops the PUT event and leaves the AUTO_UNLINK")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_COMM_DISABLE;
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 6, 6);
    if (rank() == 1) {
        expect_event(s.eq, PTL_EVENT_AUTO_UNLINK);
        no_event(s.eq, 10);
        CHECK_EQ(value_at(s.memory), 6);
    }
}

CASE(link_event, 1, "appending an entry gives PTL_EVENT_LINK, with its user pointer, index and list")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(NULL, 0, 1);
    me.options &= ~PTL_ME_EVENT_LINK_DISABLE;
    for (ptl_list_t list = PTL_PRIORITY_LIST; list <= PTL_OVERFLOW_LIST; list++) {
        me_append(PT, &me, list, (void *)(uintptr_t)(100 + list));
        ptl_event_t ev = expect_event(eq, PTL_EVENT_LINK);
        CHECK_EQ((uintptr_t)ev.user_ptr, 100u + list);
        CHECK_EQ(ev.pt_index, PT);
    }
    no_event(eq, 10);
}

CASE(link_event_of_list_entry, 1, "appending a list entry gives PTL_EVENT_LINK too, and LINK_DISABLE silences it")
{
    ni_nonmatching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(PT, eq, 0);
    ptl_le_t le = le_over(NULL, 0);
    le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    no_event(eq, 10);
    le.options = PTL_LE_OP_PUT;
    le_append(PT, &le, PTL_PRIORITY_LIST, (void *)3);
    CHECK_EQ((uintptr_t)expect_event(eq, PTL_EVENT_LINK).user_ptr, 3);
}

CASE(unlink_is_silent, 1, "PtlMEUnlink gives no event, and the entry takes nothing afterwards")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(buffer(8), 8, 1);
    ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    OK(PtlMEUnlink(entry));
    no_event(eq, 10);
    ptl_handle_eq_t own = eq_new(8);
    put(md_new(buffer(8), 8, 0, own, PTL_CT_NONE), 8, 0, PT, 1, 0);
    expect_send_ack_failure(own, PTL_NI_DROPPED);
    CHECK_EQ(PtlMEUnlink(entry), PTL_ARG_INVALID);
}

CASE(unlink_from_the_middle, 2, "unlinking any entry of a list keeps the order of the others")
{
    enum { ENTRIES = 20 };
    struct setup s = matching_setup();
    if (rank() == 1) {
        ptl_handle_me_t entries[ENTRIES];
        for (uintptr_t i = 0; i < ENTRIES; i++) {
            ptl_me_t me = me_over(s.memory, 64, 1);
            me.options |= PTL_ME_USE_ONCE | QUIET;
            if (i % 2) me.ignore_bits = 0xff;
            entries[i] = me_append(PT, &me, PTL_PRIORITY_LIST, (void *)i);
        }
        const int gone[] = {7, 0, 19, 8, 6, 12};
        for (int i = 0; i < 6; i++) OK(PtlMEUnlink(entries[gone[i]]));
    }
    const uintptr_t left[] = {1, 2, 3, 4, 5, 9, 10, 11, 13, 14, 15, 16, 17, 18};
    const int count = sizeof left / sizeof left[0];
    send_numbered(&s, 1, 0, (unsigned)count - 1);
    for (int i = 0; i < count && rank() == 1; i++)
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, left[i]);
}

CASE(unlink_races_with_messages, 5, "an entry is either unlinked or takes the message, never both and never neither")
{
    enum { ENTRIES = 20, ROUNDS = 30 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(256);
    ptl_handle_ct_t ct = ct_new();
    if (rank() == 0) pt_at(PT, eq, 0);
    ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        ptl_handle_me_t entries[ENTRIES];
        bool unlinked[ENTRIES] = {false};
        if (rank() == 0)
            for (uintptr_t i = 0; i < ENTRIES; i++) {
                ptl_me_t me = me_over(NULL, 0, 1);
                me.options |= PTL_ME_USE_ONCE | QUIET;
                entries[i] = me_append(PT, &me, PTL_PRIORITY_LIST, (void *)i);
            }
        barrier();
        if (rank() != 0) {
            for (int i = 0; i < 4; i++) OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(0), PT, 1, 0, NULL, 0));
            wait_ct(ct, 4 * round);
        } else {
            int gone = 0;
            for (int i = ENTRIES - 1; i >= 0; i--) {
                int rc;
                while ((rc = PtlMEUnlink(entries[i])) == PTL_IN_USE) sleep_ms(1); /* a message is on its way to the entry */
                CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
                gone += unlinked[i] = rc == PTL_OK;
            }
            barrier();
            ptl_event_t ev;
            int taken = 0;
            for (int rc; (rc = PtlEQGet(eq, &ev)) != PTL_EQ_EMPTY; taken++) {
                OK(rc);
                CHECK_EQ(ev.type, PTL_EVENT_PUT);
                CHECK(!unlinked[(uintptr_t)ev.user_ptr]);
                unlinked[(uintptr_t)ev.user_ptr] = true; /* it takes no second message */
            }
            CHECK_EQ(gone + taken, ENTRIES);
        }
        if (rank() != 0) barrier();
    }
}

/* ---- Who may use an entry --------------------------------------------------------------------------------------- */

CASE(own_user_may_use, 2, "an entry of the initiator's user id takes its messages")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    OK(PtlGetUid(ni(), &me.uid));
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 1, 1);
    if (rank() == 1) CHECK_EQ(value_at(s.memory), 1);
}

CASE(other_user_may_not_use, 2, "a message to an entry of another user id is refused with PTL_NI_PERM_VIOLATION and changes nothing")
{
    struct setup s = matching_setup();
    ptl_handle_ct_t ct = ct_new();
    ptl_me_t me = me_over(s.memory, 64, 1);
    OK(PtlGetUid(ni(), &me.uid));
    me.uid += 1;
    me.ct_handle = ct;
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM;
    ptl_handle_me_t entry = rank() == 1 ? me_append(PT, &me, PTL_PRIORITY_LIST, NULL) : 0;
    if (rank() == 0) pattern_fill(s.memory, 64, 1);
    barrier();
    if (rank() == 0) {
        put(s.md, 64, 1, PT, 1, 0);
        expect_send_ack_failure(s.eq, PTL_NI_PERM_VIOLATION);
        get(s.md, 8, 1, PT, 1, 0);
        expect_failure(s.eq, PTL_EVENT_REPLY, PTL_NI_PERM_VIOLATION);
    }
    barrier();
    if (rank() == 1) {
        CHECK_BYTES(s.memory, 64, 0);
        expect_ct(ct, 0, 0);
        no_event(s.eq, 10);
        OK(PtlMEUnlink(entry)); /* no message used it */
    }
}

CASE(other_user_of_list_entry, 2, "the user id of a list entry is checked too")
{
    struct setup s = plain_setup();
    ptl_le_t le = le_over(s.memory, 64);
    OK(PtlGetUid(ni(), &le.uid));
    le.uid += 1;
    if (rank() == 1) le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        put(s.md, 8, 1, PT, 0, 0);
        expect_send_ack_failure(s.eq, PTL_NI_PERM_VIOLATION);
    }
}
