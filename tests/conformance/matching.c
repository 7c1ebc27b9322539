/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Matching of messages and entries, and the place of the data in the entry. Match bits and ignored bits, sources and
 * wildcards, the order of exact and wildcard entries, lengths, offsets, locally managed memory, vectors, empty messages.
 * Portals 4.3, matching and list entry options. Long queues against a plain model are in deep_queues.c.
 */
#include "setup.h"

/* ---- Bits -------------------------------------------------------------------------------------------------------- */

CASE(bits_must_be_equal, 2, "without ignored bits an entry takes exactly its own match bits, all 64 of them")
{
    struct setup s = matching_setup();
    const ptl_match_bits_t bits = 0x8000000100000001ull;
    ptl_me_t me = me_over(s.memory, 64, bits);
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        for (int i = 0; i < 64; i++) {
            put(s.md, 0, TARGET, PT, bits ^ (ptl_match_bits_t)1 << i, 0);
            expect_send_ack_failure(s.eq, PTL_NI_DROPPED);
        }
        put(s.md, 0, TARGET, PT, bits, 0);
        expect_send_ack(s.eq);
    }
    barrier();
    if (rank() == TARGET) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).match_bits, bits);
}

CASE(ignored_bits_are_ignored, 2, "a message matches exactly where ((its bits ^ match bits) & ~ignore bits) is zero")
{
    struct setup s = matching_setup();
    uint64_t state = 20100401;
    for (int round = 0; round < 40; round++) {
        ptl_match_bits_t match = random_next(&state), ignore = random_next(&state), bits = random_next(&state);
        if (round % 2) bits = match ^ (bits & ignore); /* an entry that matches */
        if (round % 4 == 3) ignore = ~0ull;
        bool matches = ((bits ^ match) & ~ignore) == 0;
        ptl_me_t me = me_over(s.memory, 64, match);
        me.ignore_bits = ignore;
        ptl_handle_me_t entry = rank() == TARGET ? me_append(PT, &me, PTL_PRIORITY_LIST, NULL) : 0;
        barrier();
        if (rank() == 0) {
            put(s.md, 0, TARGET, PT, bits, (ptl_hdr_data_t)round);
            expect_send_ack_failure(s.eq, matches ? PTL_NI_OK : PTL_NI_DROPPED);
        }
        barrier();
        if (rank() != TARGET) continue;
        if (matches) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).match_bits, bits);
        OK(PtlMEUnlink(entry));
    }
}

CASE(indexes_do_not_mix, 2, "an entry takes messages of its own index only")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == TARGET) {
        pt_at(PT + 1, s.eq, 0);
        me_append(PT + 1, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        put(s.md, 0, TARGET, PT, 1, 0);
        expect_send_ack_failure(s.eq, PTL_NI_DROPPED);
    }
}

CASE(header_data_arrives_whole, 2, "all 64 bits of the header data arrive, and the initiator's user pointer does not")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, (void *)21);
    barrier();
    if (rank() == 0) {
        OK(PtlPut(s.md, 0, 8, PTL_ACK_REQ, peer(TARGET), PT, 1, 0, (void *)42, 0xfedcba9876543210ull));
        CHECK_EQ((uintptr_t)expect_send_ack(s.eq).user_ptr, 42);
    } else {
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.hdr_data, 0xfedcba9876543210ull);
        CHECK_EQ((uintptr_t)ev.user_ptr, 21);
    }
}

/* ---- Sources ------------------------------------------------------------------------------------------------------ */

/* Rank 1 posts one entry for `source`. Ranks 0 and 2 send to it, and find out whether their message matched. */
static void check_source(struct setup *s, ptl_process_t source, bool takes_0, bool takes_2)
{
    ptl_me_t me = me_over(s->memory, 64, 1);
    me.match_id = source;
    ptl_handle_me_t entry = rank() == TARGET ? me_append(PT, &me, PTL_PRIORITY_LIST, NULL) : 0;
    for (int from = 0; from <= 2; from += 2) {
        bool taken = from == 0 ? takes_0 : takes_2;
        barrier();
        if (rank() == from) {
            put(s->md, 8, TARGET, PT, 1, 0);
            expect_send_ack_failure(s->eq, taken ? PTL_NI_OK : PTL_NI_DROPPED);
        }
        barrier();
        if (rank() == TARGET && taken) CHECK_PROCESS(expect_event(s->eq, PTL_EVENT_PUT).initiator, peer(from));
    }
    if (rank() == TARGET) OK(PtlMEUnlink(entry));
}

CASE(source_by_rank, 3, "on a logical interface an entry takes messages of its rank, or of any with PTL_RANK_ANY")
{
    struct setup s = matching_setup();
    check_source(&s, peer(0), true, false);
    check_source(&s, peer(2), false, true);
    check_source(&s, peer(1), false, false);
    check_source(&s, any_process(), true, true);
}

CASE(source_by_process_id, 3, "on a physical interface node id and process id must match, each or both may be wildcards")
{
    struct setup s = setup_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL);
    ptl_process_t any_node = peer(2), any_pid = peer(2), other_node = peer(2), no_node = any_process();
    any_node.phys.nid = PTL_NID_ANY;
    any_pid.phys.pid = PTL_PID_ANY;
    other_node.phys.nid = peer(2).phys.nid + 5;
    no_node.phys.nid = other_node.phys.nid;
    check_source(&s, peer(0), true, false);
    check_source(&s, peer(2), false, true);
    check_source(&s, any_node, false, true);
    check_source(&s, any_pid, peer(0).phys.nid == peer(2).phys.nid, true);
    check_source(&s, any_process(), true, true);
    check_source(&s, other_node, false, false);
    check_source(&s, no_node, false, false);
}

CASE(source_of_unexpected, 3, "an entry for one source takes the unexpected messages of that source only")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256), me = me_over(s.memory, 64, 1);
    if (rank() == TARGET) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered_from(0, &s, 1, 10, 11);
    send_numbered_from(2, &s, 1, 20, 21);
    send_numbered_from(0, &s, 1, 12, 12);
    if (rank() != TARGET) return;
    const int from[] = {2, 0, -1, 2, -1}, number[] = {20, 10, 11, 21, 12};
    me.options |= PTL_ME_USE_ONCE | QUIET;
    for (int i = 0; i < 5; i++) {
        me.match_id = from[i] < 0 ? any_process() : peer(from[i]);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, number[i]);
    }
}

CASE(without_matching_any_source, 4, "without matching an entry takes messages of every process")
{
    struct setup s = plain_setup();
    ptl_le_t le = le_over(s.memory, 64);
    if (rank() == TARGET) le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    for (int from = 0; from < 4; from++) {
        if (from == TARGET) continue;
        send_numbered_from(from, &s, 77, (unsigned)from, (unsigned)from);
        if (rank() == TARGET) CHECK_PROCESS(expect_event(s.eq, PTL_EVENT_PUT).initiator, peer(from));
    }
}

/* ---- Order of exact and wildcard entries --------------------------------------------------------------------------- */

CASE(wildcards_keep_their_place, 2, "of exact and wildcard entries that match, the one appended first takes the message")
{
    struct setup s = matching_setup();
    /* exact, ignoring bits, exact source: four turns of each, in an order that changes */
    const char order[] = "ebsbesseb" "bse";
    const unsigned count = sizeof order - 1;
    if (rank() == TARGET)
        for (uintptr_t i = 0; i < count; i++) {
            ptl_me_t me = me_over(s.memory, 64, 5);
            me.options |= PTL_ME_USE_ONCE | QUIET;
            if (order[i] == 'b') me.ignore_bits = ~0ull;
            if (order[i] == 's') me.match_id = peer(0);
            me_append(PT, &me, PTL_PRIORITY_LIST, (void *)i);
        }
    send_numbered(&s, 5, 0, count - 1);
    for (unsigned i = 0; i < count && rank() == TARGET; i++)
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, i);
}

CASE(wildcard_before_exact, 3, "a wildcard appended first takes a message that a later exact entry matches; the exact one waits")
{
    struct setup s = matching_setup();
    ptl_me_t wild = me_over(s.memory, 64, 5), exact = wild;
    wild.options |= PTL_ME_USE_ONCE | QUIET;
    exact.options = wild.options;
    wild.ignore_bits = 0xf;
    exact.match_id = peer(2);
    if (rank() == TARGET) {
        me_append(PT, &wild, PTL_PRIORITY_LIST, (void *)1);
        me_append(PT, &exact, PTL_PRIORITY_LIST, (void *)2);
        me_append(PT, &wild, PTL_PRIORITY_LIST, (void *)3);
    }
    send_numbered_from(2, &s, 5, 1, 1);
    send_numbered_from(0, &s, 5, 2, 2);
    send_numbered_from(2, &s, 5, 3, 3);
    const uintptr_t taken_by[] = {1, 3, 2};
    for (int i = 0; i < 3 && rank() == TARGET; i++) {
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.hdr_data, i + 1);
        CHECK_EQ((uintptr_t)ev.user_ptr, taken_by[i]);
    }
}

CASE(violation_ends_the_search, 2, "a message that matches an entry which forbids it is refused, not offered to the next entry")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == TARGET) {
        me.options = PTL_ME_OP_GET | QUIET;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        me.options = PTL_ME_OP_PUT | QUIET;
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        put(s.md, 8, TARGET, PT, 1, 0);
        expect_send_ack_failure(s.eq, PTL_NI_OP_VIOLATION);
        get(s.md, 8, TARGET, PT, 1, 0);
        expect_event(s.eq, PTL_EVENT_REPLY);
    }
}

CASE(messages_match_in_order, 2, "messages of one process to one process match in the order in which they were sent, whatever their sizes")
{
    enum { MESSAGES = 300 };
    struct setup s = matching_setup();
    unsigned char *memory = buffer(MESSAGES * 16);
    if (rank() == TARGET)
        for (uintptr_t i = 0; i < MESSAGES; i++) {
            ptl_me_t me = me_over(memory + 16 * i, 16, 1);
            me.options |= PTL_ME_USE_ONCE | QUIET;
            me_append(PT, &me, PTL_PRIORITY_LIST, (void *)i);
        }
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t acks = ct_new();
        ptl_handle_md_t md = md_new(s.memory, SETUP_BYTES, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acks);
        const size_t sizes[] = {8, 4096, 0, 64, 1000, 3};
        for (unsigned i = 0; i < MESSAGES; i++)
            OK(PtlPut(md, 0, sizes[i % 6], PTL_CT_ACK_REQ, peer(TARGET), PT, 1, 0, NULL, i));
        expect_ct(acks, MESSAGES, 0);
        return;
    }
    for (unsigned i = 0; i < MESSAGES; i++) {
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.hdr_data, i);
        CHECK_EQ((uintptr_t)ev.user_ptr, i);
    }
}

/* ---- Lengths and offsets -------------------------------------------------------------------------------------------- */

/* Rank 0 puts `bytes` of pattern 9 at `offset` into an entry of 64 zeros at rank 1, which accepts `mlength` bytes. */
static void check_placed(struct setup *s, size_t bytes, size_t offset, size_t mlength)
{
    unsigned char *memory = buffer(128);
    ptl_me_t me = me_over(memory, 64, 1);
    me.options |= PTL_ME_USE_ONCE | QUIET;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    else pattern_fill(s->memory, bytes, 9);
    barrier();
    if (rank() == 0) {
        OK(PtlPut(s->md, 0, bytes, PTL_ACK_REQ, peer(TARGET), PT, 1, offset, NULL, 0));
        CHECK_EQ(expect_send_ack(s->eq).mlength, mlength);
    } else {
        ptl_event_t ev = expect_event(s->eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.rlength, bytes);
        CHECK_EQ(ev.mlength, mlength);
        CHECK_EQ(ev.remote_offset, offset);
        if (mlength > 0) {
            CHECK_PTR(ev.start, memory + offset);
            CHECK_BYTES(memory, offset, 0);
            CHECK_PATTERN(memory + offset, mlength, 9);
            CHECK_BYTES(memory + offset + mlength, 128 - offset - mlength, 0);
        } else {
            CHECK_BYTES(memory, 128, 0);
        }
    }
    barrier();
}

CASE(message_that_fits, 2, "a message that fits is taken whole, at its remote offset, and touches nothing else")
{
    struct setup s = matching_setup();
    check_placed(&s, 64, 0, 64);
    check_placed(&s, 10, 3, 10);
    check_placed(&s, 1, 63, 1);
    check_placed(&s, 0, 5, 0);
}

CASE(message_too_long_is_truncated, 2, "a message that is too long is truncated; both sides get mlength")
{
    struct setup s = matching_setup();
    check_placed(&s, 65, 0, 64);
    check_placed(&s, 4096, 0, 64);
    check_placed(&s, 64, 60, 4);
}

CASE(message_outside_is_truncated_to_nothing, 2, "a message at or beyond the end of the entry matches and takes no byte")
{
    struct setup s = matching_setup();
    check_placed(&s, 8, 64, 0);
    check_placed(&s, 8, 65, 0);
    check_placed(&s, 8, 1ull << 40, 0);
    check_placed(&s, 8, ~0ull, 0);
}

CASE(get_is_truncated, 2, "a get beyond the end of the entry replies the bytes up to the end, and returns mlength")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == TARGET) {
        pattern_fill(s.memory, 128, 4);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        unsigned char expected[64];
        pattern_fill(expected, 64, 4);
        get(s.md, 100, TARGET, PT, 1, 0);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_REPLY).mlength, 64);
        CHECK_PATTERN(s.memory, 64, 4);
        CHECK_BYTES(s.memory + 64, 64, 0);
        get(s.md, 100, TARGET, PT, 1, 50);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_REPLY).mlength, 14);
        CHECK_SAME(s.memory, expected + 50, 14);
        get(s.md, 100, TARGET, PT, 1, 64);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_REPLY).mlength, 0);
    } else {
        const size_t lengths[] = {64, 14, 0};
        for (int i = 0; i < 3; i++) {
            ptl_event_t ev = expect_event(s.eq, PTL_EVENT_GET);
            CHECK_EQ(ev.rlength, 100);
            CHECK_EQ(ev.mlength, lengths[i]);
        }
    }
}

CASE(no_truncate_does_not_match, 2,
     "NO_TRUNCATE: a message that does not fit, by length or offset, does not match; the next entry is tried")
{
    struct setup s = matching_setup();
    ptl_me_t strict = me_over(buffer(64), 64, 1), lax = me_over(s.memory, 64, 1);
    strict.options |= PTL_ME_NO_TRUNCATE;
    if (rank() == TARGET) {
        me_append(PT, &strict, PTL_PRIORITY_LIST, (void *)1);
        me_append(PT, &lax, PTL_PRIORITY_LIST, (void *)2);
    }
    const struct { size_t bytes, offset; uintptr_t taken_by; } sent[] = {{64, 0, 1}, {65, 0, 2}, {60, 4, 1}, {60, 5, 2},
                                                                         {0, 64, 1}, {1, 64, 2}, {8, ~0ull - 3, 2}};
    barrier();
    for (int i = 0; i < 7; i++) {
        if (rank() == 0) {
            OK(PtlPut(s.md, 0, sent[i].bytes, PTL_ACK_REQ, peer(TARGET), PT, 1, sent[i].offset, NULL, 0));
            expect_send_ack(s.eq);
        } else {
            CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, sent[i].taken_by);
        }
    }
}

CASE(no_truncate_of_unexpected, 2, "an appended NO_TRUNCATE entry does not take an unexpected message that is longer than it")
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256), me = me_over(s.memory, 4, 1);
    if (rank() == TARGET) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 1);
    if (rank() != TARGET) return;
    me.options |= PTL_ME_NO_TRUNCATE;
    ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    no_event(s.eq, 10);
    OK(PtlMEUnlink(entry));
    me.length = 8;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, 1);
}

CASE(empty_messages, 2, "a message of no bytes matches like any other, has its events, and needs no memory on either side")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(NULL, 0, 1);
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(NULL, 0, 0, s.eq, PTL_CT_NONE);
        put(md, 0, TARGET, PT, 1, 5);
        CHECK_EQ(expect_send_ack(s.eq).mlength, 0);
        get(md, 0, TARGET, PT, 1, 0);
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_REPLY).mlength, 0);
        put(s.md, 100, TARGET, PT, 1, 6); /* into an entry of zero bytes */
        CHECK_EQ(expect_send_ack(s.eq).mlength, 0);
    } else {
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, 5);
        expect_event(s.eq, PTL_EVENT_GET);
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.rlength, 100);
        CHECK_EQ(ev.mlength, 0);
    }
}

/* ---- Locally managed entries ------------------------------------------------------------------------------------------ */

CASE(local_offset_advances, 2,
     "MANAGE_LOCAL: each message goes after the one before, whatever its remote offset; the ACK has the offset")
{
    struct setup s = matching_setup();
    unsigned char *memory = buffer(64);
    ptl_me_t me = me_over(memory, 64, 1);
    me.options |= PTL_ME_MANAGE_LOCAL;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    pattern_fill(s.memory, 64, 2);
    const size_t sizes[] = {8, 1, 0, 20, 3}, offsets[] = {0, 40, 9, 1000, 0};
    barrier();
    for (size_t i = 0, at = 0; i < 5; at += sizes[i++]) {
        if (rank() == 0) {
            OK(PtlPut(s.md, at, sizes[i], PTL_ACK_REQ, peer(TARGET), PT, 1, offsets[i], NULL, 0));
            CHECK_EQ(expect_send_ack(s.eq).remote_offset, at);
        } else {
            ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
            CHECK_PTR(ev.start, memory + at);
            CHECK_EQ(ev.mlength, sizes[i]);
        }
    }
    if (rank() == TARGET) CHECK_PATTERN(memory, 32, 2);
}

CASE(local_offset_is_one, 2, "MANAGE_LOCAL: puts and gets advance the same offset")
{
    struct setup s = matching_setup();
    unsigned char *memory = buffer(64);
    ptl_me_t me = me_over(memory, 64, 1);
    me.options |= PTL_ME_MANAGE_LOCAL;
    if (rank() == TARGET) {
        pattern_fill(memory, 64, 8);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        unsigned char expected[64];
        pattern_fill(expected, 64, 8);
        put(s.md, 16, TARGET, PT, 1, 0);
        expect_send_ack(s.eq);
        OK(PtlGet(s.md, 100, 16, peer(TARGET), PT, 1, 0, NULL));
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_REPLY).remote_offset, 16);
        CHECK_SAME(s.memory + 100, expected + 16, 16);
        put(s.md, 16, TARGET, PT, 1, 0);
        CHECK_EQ(expect_send_ack(s.eq).remote_offset, 32);
    }
}

CASE(local_offset_truncates_at_the_end, 2, "MANAGE_LOCAL without min_free: the entry stays when full, and truncates to nothing")
{
    struct setup s = matching_setup();
    unsigned char *memory = buffer(32);
    ptl_me_t me = me_over(memory, 20, 1);
    me.options |= PTL_ME_MANAGE_LOCAL;
    me.options &= ~PTL_ME_EVENT_UNLINK_DISABLE;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 1, 5);
    const size_t lengths[] = {8, 8, 4, 0, 0};
    for (int i = 0; i < 5 && rank() == TARGET; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).mlength, lengths[i]);
    if (rank() == TARGET) {
        no_event(s.eq, 10);
        CHECK_BYTES(memory + 20, 12, 0);
    }
}

CASE(min_free_unlinks, 2, "MANAGE_LOCAL: the entry is unlinked when less than min_free bytes are left, and not before")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(buffer(64), 64, 1);
    me.options |= PTL_ME_MANAGE_LOCAL;
    if (rank() == TARGET) {
        me.min_free = 40;
        me_append(PT, &me, PTL_PRIORITY_LIST, (void *)1); /* 56, 48, 40 left, then 32: four messages */
        me.min_free = 64;
        me_append(PT, &me, PTL_PRIORITY_LIST, (void *)2); /* one message */
        me.min_free = 1;
        me.length = 16;
        me_append(PT, &me, PTL_PRIORITY_LIST, (void *)3); /* two messages */
    }
    send_numbered(&s, 1, 0, 6);
    const uintptr_t taken_by[] = {1, 1, 1, 1, 2, 3, 3};
    for (int i = 0; i < 7 && rank() == TARGET; i++) {
        CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_PUT).user_ptr, taken_by[i]);
        if (i == 6 || taken_by[i] != taken_by[i + 1])
            CHECK_EQ((uintptr_t)expect_event(s.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, taken_by[i]);
    }
    if (rank() == TARGET) no_event(s.eq, 10);
}

CASE(min_free_only_if_managed, 2, "min_free has no effect without MANAGE_LOCAL")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(s.memory, 64, 1);
    me.min_free = 64;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 1, 10);
    for (unsigned i = 1; i <= 10 && rank() == TARGET; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, i);
    if (rank() == TARGET) no_event(s.eq, 10);
}

CASE(managed_no_truncate, 2,
     "MANAGE_LOCAL with NO_TRUNCATE: a message that exceeds the space left goes to the next entry")
{
    struct setup s = matching_setup();
    ptl_me_t me = me_over(buffer(64), 20, 1);
    me.options |= PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE;
    if (rank() == TARGET)
        for (uintptr_t i = 1; i <= 3; i++) me_append(PT, &me, PTL_PRIORITY_LIST, (void *)i);
    const size_t sizes[] = {8, 8, 8, 4, 12, 12};
    const uintptr_t taken_by[] = {1, 1, 2, 1, 2, 3};
    barrier();
    for (int i = 0; i < 6; i++) {
        if (rank() == 0) {
            put(s.md, sizes[i], TARGET, PT, 1, 0);
            expect_send_ack(s.eq);
        } else {
            ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
            CHECK_EQ((uintptr_t)ev.user_ptr, taken_by[i]);
            CHECK_EQ(ev.mlength, sizes[i]);
        }
    }
}

CASE(may_align_keeps_messages_apart, 2,
     "MAY_ALIGN: messages go one after the other, aligned or not, inside the entry, without overlap")
{
    struct setup s = matching_setup();
    unsigned char *memory = buffer(1024), *end = memory;
    ptl_me_t me = me_over(memory, 1024, 1);
    me.options |= PTL_ME_MANAGE_LOCAL | PTL_ME_MAY_ALIGN;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    for (unsigned i = 1; i <= 7; i++) {
        if (rank() == 0) {
            pattern_fill(s.memory, i, i);
            put(s.md, i, TARGET, PT, 1, 0);
            expect_send_ack(s.eq);
            continue;
        }
        ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.mlength, i);
        CHECK_OP((unsigned char *)ev.start, >=, end);
        CHECK_PATTERN(ev.start, i, i);
        end = (unsigned char *)ev.start + i;
        CHECK_OP(end, <=, memory + 1024);
    }
}

/* Five messages of 8 bytes wait, then rank 1 appends an entry of 48 bytes. Returns the number of messages taken; sets
 * `unlinked` if the entry was unlinked. */
static unsigned append_over_unexpected(struct setup *s, unsigned char *memory, unsigned options, size_t min_free,
                                       bool *unlinked)
{
    unsigned taken = 0;
    ptl_event_t ev;
    ptl_me_t me = me_over(memory, 48, 1);
    me.options |= PTL_ME_MANAGE_LOCAL | options;
    me.min_free = min_free;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    *unlinked = false;
    while (PtlEQGet(s->eq, &ev) == PTL_OK) {
        if (ev.type == PTL_EVENT_AUTO_UNLINK) {
            CHECK(!*unlinked);
            *unlinked = true;
        } else {
            CHECK_EQ(ev.type, PTL_EVENT_PUT_OVERFLOW);
            CHECK_EQ(ev.hdr_data, ++taken);
        }
    }
    return taken;
}

/* The setup with five messages of bits 1 in the unexpected list. */
static struct setup stage_with_five(void)
{
    struct setup s = matching_setup();
    ptl_me_t overflow = overflow_over(buffer(256), 256);
    if (rank() == TARGET) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    send_numbered(&s, 1, 1, 5);
    return s;
}

CASE(unexpected_do_not_move_offset, 2, "without LOCAL_INC_UH_RLENGTH unexpected messages do not move the local offset of an appended entry")
{
    struct setup s = stage_with_five();
    unsigned char *memory = buffer(64);
    bool unlinked = false;
    if (rank() == TARGET) {
        CHECK_EQ(append_over_unexpected(&s, memory, 0, 30, &unlinked), 5);
        CHECK(!unlinked);
    }
    send_numbered(&s, 1, 6, 6);
    if (rank() == TARGET) CHECK_PTR(expect_event(s.eq, PTL_EVENT_PUT).start, memory);
}

CASE(unexpected_move_offset_on_request, 2, "LOCAL_INC_UH_RLENGTH: the local offset starts after the lengths of the unexpected messages found")
{
    struct setup s = stage_with_five();
    unsigned char *memory = buffer(64);
    bool unlinked = false;
    if (rank() == TARGET) {
        CHECK_EQ(append_over_unexpected(&s, memory, PTL_ME_LOCAL_INC_UH_RLENGTH, 8, &unlinked), 5);
        CHECK(!unlinked);
    }
    send_numbered(&s, 1, 6, 6);
    if (rank() == TARGET) CHECK_PTR(expect_event(s.eq, PTL_EVENT_PUT).start, memory + 40);
}

CASE(unexpected_reach_min_free, 2, "LOCAL_INC_UH_RLENGTH: min_free ends the search: the entry is not linked, AUTO_UNLINK, the rest stays")
{
    struct setup s = stage_with_five();
    unsigned char *memory = buffer(64);
    bool unlinked = false;
    if (rank() == TARGET) { /* 40, 32, then 24 of 48 bytes left: less than 30 */
        CHECK_EQ(append_over_unexpected(&s, memory, PTL_ME_LOCAL_INC_UH_RLENGTH, 30, &unlinked), 3);
        CHECK(unlinked);
        ptl_me_t rest = me_over(memory, 64, 1);
        me_append(PT, &rest, PTL_PRIORITY_LIST, NULL);
        for (unsigned i = 4; i <= 5; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
    }
}
