/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The limits of an interface. The interface grants the requested limits. Every table holds exactly the granted number. The
 * next allocation fails with the specification's code, and changes nothing. A freed entry can be allocated again. Portals
 * 4.3, network interface limits.
 */
#include "suite.h"

static const unsigned matching = PTL_NI_MATCHING | PTL_NI_LOGICAL;

/* All numeric limits in one array, so that a case can loop over them. */
enum { COUNTS = 9 };
struct counts {
    int of[COUNTS];
};

static struct counts counts_of(const ptl_ni_limits_t *l)
{
    return (struct counts){{l->max_entries, l->max_unexpected_headers, l->max_mds, l->max_cts, l->max_eqs,
                            l->max_pt_index, l->max_iovecs, l->max_list_size, l->max_triggered_ops}};
}

static ptl_ni_limits_t limits_all(int count)
{
    ptl_ni_limits_t l = limits_default();
    l.max_entries = l.max_unexpected_headers = l.max_mds = l.max_cts = l.max_eqs = count;
    l.max_pt_index = l.max_iovecs = l.max_list_size = l.max_triggered_ops = count;
    return l;
}

static void check_granted(const ptl_ni_limits_t *desired)
{
    ptl_ni_limits_t actual;
    memset(&actual, 0xff, sizeof actual);
    ni_open(matching, desired, &actual);
    struct counts wanted = counts_of(desired), got = counts_of(&actual);
    for (int i = 0; i < COUNTS; i++)
        if (got.of[i] != wanted.of[i]) FAIL("count %d: requested %d, granted %d", i, wanted.of[i], got.of[i]);
}

/* ---- Granted limits --------------------------------------------------------------------------------------- */

CASE(defaults_are_usable, 1, "without desired limits every limit is usable and the specification's minima are met")
{
    ptl_ni_limits_t actual;
    memset(&actual, 0, sizeof actual);
    ni_open(matching, NULL, &actual);
    struct counts got = counts_of(&actual);
    for (int i = 0; i < COUNTS; i++) CHECK_OP(got.of[i], >, 0);
    CHECK_OP(actual.max_pt_index, >=, 63);
    CHECK_OP(actual.max_waw_ordered_size, >=, 64);
    CHECK_OP(actual.max_war_ordered_size, >=, 8);
    CHECK_OP(actual.max_msg_size, >=, 4096);
    CHECK_OP(actual.max_atomic_size, >=, 8);
    CHECK_OP(actual.max_fetch_atomic_size, >=, 8);
}

CASE(counts_granted_as_asked, 1, "requested counts are granted")
{
    ptl_ni_limits_t desired = limits_default();
    check_granted(&desired);
}

CASE(odd_counts_granted_as_asked, 1, "requested counts that are not powers of two are granted as they are")
{
    ptl_ni_limits_t desired = limits_default();
    desired.max_entries = 777;
    desired.max_unexpected_headers = 333;
    desired.max_mds = 101;
    desired.max_cts = 57;
    desired.max_eqs = 13;
    desired.max_pt_index = 99;
    desired.max_iovecs = 7;
    desired.max_list_size = 555;
    desired.max_triggered_ops = 61;
    check_granted(&desired);
}

CASE(large_counts_granted_as_asked, 1, "large counts are granted")
{
    ptl_ni_limits_t desired = limits_default();
    desired.max_entries = desired.max_unexpected_headers = desired.max_list_size = 70000;
    desired.max_mds = desired.max_cts = 10000;
    desired.max_eqs = 1000;
    desired.max_pt_index = 511;
    desired.max_triggered_ops = 20000;
    check_granted(&desired);
}

CASE(tiny_counts_granted_as_asked, 1, "counts of one are granted, but the portal table has at least 64 entries")
{
    ptl_ni_limits_t desired = limits_all(1), actual;
    ni_open(matching, &desired, &actual);
    struct counts got = counts_of(&actual), wanted = counts_of(&desired);
    CHECK_OP(actual.max_pt_index, >=, 63);
    got.of[5] = wanted.of[5];
    for (int i = 0; i < COUNTS; i++) CHECK_EQ(got.of[i], wanted.of[i]);
}

CASE(zero_counts_open, 1, "an interface with counts of zero opens, and refuses those objects")
{
    ptl_ni_limits_t desired = limits_all(0), actual;
    ptl_handle_any_t handle;
    ptl_pt_index_t pt;
    ni_open(matching, &desired, &actual);
    CHECK_OP(actual.max_pt_index, >=, 63);
    if (actual.max_cts == 0) CHECK_EQ(PtlCTAlloc(ni(), &handle), PTL_NO_SPACE);
    if (actual.max_eqs == 0) CHECK_EQ(PtlEQAlloc(ni(), 8, &handle), PTL_NO_SPACE);
    if (actual.max_mds == 0) {
        ptl_md_t md = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
        CHECK_EQ(PtlMDBind(ni(), &md, &handle), PTL_NO_SPACE);
    }
    OK(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    ptl_me_t me = me_over(NULL, 0, 0);
    if (actual.max_entries == 0) {
        int rc = PtlMEAppend(ni(), pt, &me, PTL_PRIORITY_LIST, NULL, &handle);
        CHECK_EITHER(rc, PTL_NO_SPACE, PTL_LIST_TOO_LONG);
    }
}

CASE(minima_kept, 1, "ordering sizes are never below the specification's minima, whatever was requested")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_waw_ordered_size = 0;
    desired.max_war_ordered_size = 0;
    desired.max_pt_index = 0;
    ni_open(matching, &desired, &actual);
    CHECK_OP(actual.max_waw_ordered_size, >=, 64);
    CHECK_OP(actual.max_war_ordered_size, >=, 8);
    CHECK_OP(actual.max_pt_index, >=, 63);
}

CASE(features_are_known_bits, 1, "the reported features are those that the specification defines")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.features = ~0u;
    ni_open(matching, &desired, &actual);
    CHECK_EQ(actual.features & ~(unsigned)(PTL_TARGET_BIND_INACCESSIBLE | PTL_TOTAL_DATA_ORDERING | PTL_COHERENT_ATOMICS), 0);
}

/* ---- Each table holds exactly the granted number ---------------------------------------------------------- */

CASE(entries_exactly, 1, "max_entries entries can be appended, over all lists together; the next is PTL_NO_SPACE")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_entries = 100;
    desired.max_list_size = 200;
    ni_open(matching, &desired, &actual);
    CHECK_EQ(actual.max_entries, 100);
    ptl_pt_index_t pts[2] = {pt_new(PTL_EQ_NONE, 0), pt_new(PTL_EQ_NONE, 0)};
    ptl_me_t me = me_over(NULL, 0, 0);
    ptl_handle_me_t entries[100], extra;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++)
            entries[i] = me_append(pts[i % 2], &me, i % 3 ? PTL_PRIORITY_LIST : PTL_OVERFLOW_LIST, NULL);
        CHECK_EQ(PtlMEAppend(ni(), pts[0], &me, PTL_PRIORITY_LIST, NULL, &extra), PTL_NO_SPACE);
        CHECK_EQ(PtlMEAppend(ni(), pts[1], &me, PTL_OVERFLOW_LIST, NULL, &extra), PTL_NO_SPACE);
        OK(PtlMEUnlink(entries[50]));
        entries[50] = me_append(pts[0], &me, PTL_PRIORITY_LIST, NULL);
        for (int i = 0; i < 100; i++) OK(PtlMEUnlink(entries[(i * 37) % 100]));
    }
}

CASE(list_entries_exactly, 1, "max_entries holds for list entries of an interface without matching too")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_entries = 40;
    desired.max_list_size = 80;
    ni_open(PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, &desired, &actual);
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(NULL, 0);
    ptl_handle_le_t entries[40], extra;
    for (int i = 0; i < 40; i++) entries[i] = le_append(pt, &le, PTL_PRIORITY_LIST, NULL);
    CHECK_EQ(PtlLEAppend(ni(), pt, &le, PTL_PRIORITY_LIST, NULL, &extra), PTL_NO_SPACE);
    OK(PtlLEUnlink(entries[0]));
    le_append(pt, &le, PTL_PRIORITY_LIST, NULL);
}

CASE(many_entries_really_fit, 1, "with 70000 entries requested, 70000 entries can be appended and removed")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_entries = 70000;
    desired.max_list_size = 80000;
    ni_open(matching, &desired, &actual);
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_handle_me_t *entries = malloc(70000 * sizeof *entries), extra;
    CHECK_OP(entries, !=, NULL);
    for (int i = 0; i < 70000; i++) {
        ptl_me_t me = me_over(NULL, 0, (ptl_match_bits_t)i);
        entries[i] = me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
    }
    ptl_me_t me = me_over(NULL, 0, 0);
    CHECK_EQ(PtlMEAppend(ni(), pt, &me, PTL_PRIORITY_LIST, NULL, &extra), PTL_NO_SPACE);
    for (int i = 0; i < 70000; i++) OK(PtlMEUnlink(entries[i]));
    free(entries);
}

CASE(list_size_exactly, 1, "max_list_size entries can be attached to one index; the next is PTL_LIST_TOO_LONG")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    ptl_handle_me_t extra;
    desired.max_list_size = 5;
    ni_open(matching, &desired, &actual);
    CHECK_EQ(actual.max_list_size, 5);
    ptl_pt_index_t full = pt_new(PTL_EQ_NONE, 0), empty = pt_new(PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(NULL, 0, 0);
    ptl_handle_me_t first = me_append(full, &me, PTL_PRIORITY_LIST, NULL);
    for (int i = 1; i < 5; i++) me_append(full, &me, PTL_PRIORITY_LIST, NULL);
    CHECK_EQ(PtlMEAppend(ni(), full, &me, PTL_PRIORITY_LIST, NULL, &extra), PTL_LIST_TOO_LONG);
    me_append(empty, &me, PTL_PRIORITY_LIST, NULL);
    OK(PtlMEUnlink(first));
    me_append(full, &me, PTL_PRIORITY_LIST, NULL);
}

CASE(list_size_of_list_entries, 1, "PTL_LIST_TOO_LONG holds for PtlLEAppend too")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    ptl_handle_le_t extra;
    desired.max_list_size = 3;
    ni_open(PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, &desired, &actual);
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(NULL, 0);
    for (int i = 0; i < 3; i++) le_append(pt, &le, PTL_PRIORITY_LIST, NULL);
    CHECK_EQ(PtlLEAppend(ni(), pt, &le, PTL_PRIORITY_LIST, NULL, &extra), PTL_LIST_TOO_LONG);
}

CASE(mds_exactly, 1, "max_mds descriptors can be bound; the next is PTL_NO_SPACE; released ones can be bound again")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_mds = 50;
    ni_open(matching, &desired, &actual);
    ptl_md_t md = {buffer(64), 64, 0, PTL_EQ_NONE, PTL_CT_NONE};
    ptl_handle_md_t handles[50], extra;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 50; i++) OK(PtlMDBind(ni(), &md, &handles[i]));
        CHECK_EQ(PtlMDBind(ni(), &md, &extra), PTL_NO_SPACE);
        for (int i = 0; i < 50; i++) OK(PtlMDRelease(handles[i]));
    }
}

CASE(cts_exactly, 1, "max_cts counters can be allocated; the next is PTL_NO_SPACE; freed ones come back as zero")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_cts = 50;
    ni_open(matching, &desired, &actual);
    ptl_handle_ct_t handles[50], extra;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 50; i++) {
            ptl_ct_event_t value = {9, 9};
            OK(PtlCTAlloc(ni(), &handles[i]));
            OK(PtlCTGet(handles[i], &value));
            CHECK_EQ(value.success + value.failure, 0);
            OK(PtlCTInc(handles[i], (ptl_ct_event_t){5, 0}));
        }
        CHECK_EQ(PtlCTAlloc(ni(), &extra), PTL_NO_SPACE);
        for (int i = 0; i < 50; i++) OK(PtlCTFree(handles[i]));
    }
}

CASE(eqs_exactly, 1, "max_eqs queues can be allocated; the next is PTL_NO_SPACE; freed ones come back empty")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_eqs = 20;
    ni_open(matching, &desired, &actual);
    ptl_handle_eq_t handles[20], extra;
    ptl_event_t ev;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) {
            OK(PtlEQAlloc(ni(), 16, &handles[i]));
            CHECK_EQ(PtlEQGet(handles[i], &ev), PTL_EQ_EMPTY);
        }
        CHECK_EQ(PtlEQAlloc(ni(), 16, &extra), PTL_NO_SPACE);
        ptl_pt_index_t pt = pt_new(handles[round], 0);
        ptl_me_t me = me_over(NULL, 0, 0);
        me.options &= ~PTL_ME_EVENT_LINK_DISABLE;
        ptl_handle_me_t entry = me_append(pt, &me, PTL_PRIORITY_LIST, NULL); /* leaves an event unread */
        OK(PtlMEUnlink(entry));
        OK(PtlPTFree(ni(), pt));
        for (int i = 0; i < 20; i++) OK(PtlEQFree(handles[i]));
    }
}

CASE(pts_exactly, 1, "indexes 0 to max_pt_index can be allocated; then the table is PTL_PT_FULL")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    ptl_pt_index_t pt;
    desired.max_pt_index = 70;
    ni_open(matching, &desired, &actual);
    CHECK_EQ(actual.max_pt_index, 70);
    for (ptl_pt_index_t i = 0; i <= 70; i++) CHECK_EQ(pt_new(PTL_EQ_NONE, 0), i);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_PT_FULL);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, 71, &pt), PTL_ARG_INVALID);
    OK(PtlPTFree(ni(), 33));
    CHECK_EQ(pt_new(PTL_EQ_NONE, 0), 33);
}

CASE(triggered_exactly, 1, "max_triggered_ops operations can wait; the next is PTL_NO_SPACE; cancelled ones make room")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_triggered_ops = 30;
    ni_open(matching, &desired, &actual);
    CHECK_EQ(actual.max_triggered_ops, 30);
    ptl_handle_ct_t trigger = ct_new(), counted = ct_new();
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    const ptl_ct_event_t one = {1, 0};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 30; i++) OK(PtlTriggeredCTInc(counted, one, trigger, 1000));
        CHECK_EQ(PtlTriggeredCTInc(counted, one, trigger, 1000), PTL_NO_SPACE);
        CHECK_EQ(PtlTriggeredCTSet(counted, one, trigger, 1000), PTL_NO_SPACE);
        CHECK_EQ(PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peer(0), 0, 0, 0, NULL, 0, trigger, 1000), PTL_NO_SPACE);
        CHECK_EQ(PtlTriggeredGet(md, 0, 8, peer(0), 0, 0, 0, NULL, trigger, 1000), PTL_NO_SPACE);
        CHECK_EQ(PtlTriggeredAtomic(md, 0, 8, PTL_NO_ACK_REQ, peer(0), 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, trigger,
                                    1000), PTL_NO_SPACE);
        OK(PtlCTCancelTriggered(trigger));
    }
    expect_ct(counted, 0, 0);
}

CASE(triggered_come_back_when_fired, 1, "an operation that was triggered no longer counts against max_triggered_ops")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_triggered_ops = 10;
    ni_open(matching, &desired, &actual);
    ptl_handle_ct_t trigger = ct_new(), counted = ct_new();
    for (unsigned round = 1; round <= 5; round++) {
        for (int i = 0; i < 10; i++) OK(PtlTriggeredCTInc(counted, (ptl_ct_event_t){1, 0}, trigger, round));
        OK(PtlCTInc(trigger, (ptl_ct_event_t){1, 0}));
        expect_ct(counted, 10 * round, 0);
    }
}

CASE(unexpected_headers_exactly, 2, "max_unexpected_headers messages wait in the unexpected list; the next is dropped, no other")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_unexpected_headers = 8;
    ni_open(matching, &desired, &actual);
    ptl_handle_eq_t eq = eq_new(64);
    pt_at(0, rank() == 1 ? eq : PTL_EQ_NONE, 0);
    ptl_me_t overflow = me_over(NULL, 0, 0), receive = me_over(NULL, 0, 0);
    overflow.ignore_bits = ~0ull;
    overflow.options |= PTL_ME_EVENT_COMM_DISABLE;
    receive.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
    me_append(0, &overflow, PTL_OVERFLOW_LIST, NULL);
    ptl_handle_md_t md = md_new(NULL, 0, 0, eq, PTL_CT_NONE);
    barrier();
    for (unsigned i = 0; i < 9 && rank() == 0; i++) {
        put(md, 0, 1, 0, i, i);
        expect_send_ack_failure(eq, i < 8 ? PTL_NI_OK : PTL_NI_DROPPED);
    }
    barrier();
    if (rank() == 1) { /* the newest is taken: there is room for one again */
        receive.match_bits = 7;
        me_append(0, &receive, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 7);
    }
    barrier();
    for (unsigned i = 9; i < 11 && rank() == 0; i++) {
        put(md, 0, 1, 0, i, i);
        expect_send_ack_failure(eq, i < 10 ? PTL_NI_OK : PTL_NI_DROPPED);
    }
    barrier();
    const unsigned left[] = {0, 1, 2, 3, 4, 5, 6, 9};
    receive.ignore_bits = ~0ull;
    for (int i = 0; i < 8 && rank() == 1; i++) {
        me_append(0, &receive, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, left[i]);
    }
}

CASE(iovecs_exactly, 1, "max_iovecs vectors can describe a descriptor or an entry, one more is refused")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_iovecs = 4;
    ni_open(matching, &desired, &actual);
    CHECK_EQ(actual.max_iovecs, 4);
    ptl_iovec_t vectors[5];
    ptl_handle_any_t handle;
    for (int i = 0; i < 5; i++) vectors[i] = (ptl_iovec_t){buffer(8), 8};
    ptl_md_t md = {vectors, 4, PTL_IOVEC, PTL_EQ_NONE, PTL_CT_NONE};
    OK(PtlMDBind(ni(), &md, &handle));
    OK(PtlMDRelease(handle));
    md.length = 5;
    CHECK_EQ(PtlMDBind(ni(), &md, &handle), PTL_ARG_INVALID);
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(vectors, 4, 0);
    me.options |= PTL_IOVEC;
    me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
    me.length = 5;
    CHECK_EQ(PtlMEAppend(ni(), pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
}

CASE(message_size_exactly, 2, "a message of max_msg_size bytes arrives whole; a longer one is refused with PTL_ARG_INVALID")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_msg_size = 10000;
    ni_open(matching, &desired, &actual);
    CHECK_OP(actual.max_msg_size, >=, 10000);
    const size_t most = actual.max_msg_size > (1 << 20) ? 1 << 20 : actual.max_msg_size;
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(0, rank() == 1 ? eq : PTL_EQ_NONE, 0);
    unsigned char *memory = buffer(most + 1);
    ptl_me_t me = me_over(memory, most + 1, 0);
    if (rank() == 1) me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 1) {
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).mlength, most);
        CHECK_PATTERN(memory, most, 4);
        return;
    }
    pattern_fill(memory, most, 4);
    ptl_handle_md_t md = md_new(memory, most + 1, 0, eq, PTL_CT_NONE);
    put(md, most, 1, 0, 0, 0);
    expect_send_ack(eq);
    if (most < actual.max_msg_size) return; /* the interface granted more than this case has memory for */
    CHECK_EQ(PtlPut(md, 0, most + 1, PTL_ACK_REQ, peer(1), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlGet(md, 0, most + 1, peer(1), 0, 0, 0, NULL), PTL_ARG_INVALID);
    no_event(eq, 20);
}

CASE(full_tables_do_not_disturb, 2, "with every table full, existing objects keep working")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    ptl_handle_any_t extra;
    desired.max_entries = 10;
    desired.max_mds = desired.max_cts = desired.max_eqs = 4;
    ni_open(matching, &desired, &actual);
    unsigned char *memory = buffer(64);
    ptl_handle_eq_t eq = eq_new(16);
    for (int i = 1; i < 4; i++) eq_new(4);
    pt_at(0, rank() == 1 ? eq : PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(memory, 64, 0);
    for (int i = 0; i < 10; i++) {
        me.match_bits = (ptl_match_bits_t)i;
        me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    }
    ptl_handle_md_t md = md_new(memory, 64, 0, eq, PTL_CT_NONE);
    for (int i = 1; i < 4; i++) md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
    for (int i = 0; i < 4; i++) ct_new();
    ptl_md_t more = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(ni(), &more, &extra), PTL_NO_SPACE);
    CHECK_EQ(PtlCTAlloc(ni(), &extra), PTL_NO_SPACE);
    CHECK_EQ(PtlEQAlloc(ni(), 4, &extra), PTL_NO_SPACE);
    CHECK_EQ(PtlMEAppend(ni(), 0, &me, PTL_PRIORITY_LIST, NULL, &extra), PTL_NO_SPACE);
    barrier();
    if (rank() == 0) {
        pattern_fill(memory, 64, 2);
        put(md, 64, 1, 0, 9, 0);
        expect_send_ack(eq);
    } else {
        expect_event(eq, PTL_EVENT_PUT);
        CHECK_PATTERN(memory, 64, 2);
    }
}
