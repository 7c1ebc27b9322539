/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Data movement: PtlPut and PtlGet of every size, offsets, truncation, kinds of acknowledgement, vectors, order between a
 * pair of processes. Portals 4.3, "Data Movement Operations" and the limits on ordering in "Network Interfaces".
 *
 * In the cases with two processes, process 0 is the initiator and process 1 the target unless a comment says otherwise.
 */
#include "suite.h"

enum { PT = 6, BITS = 0x77 };

static const size_t sizes[] = {0,    1,    2,    7,    8,    63,    64,       65,      255,     256,
                               1023, 4095, 4096, 4097, 8192, 65535, 64 * 1024 + 1, 1 << 20, 16 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, SIZE_MAX_BYTES = 16 << 20 };

static unsigned char *expose(size_t bytes, unsigned options, ptl_handle_eq_t eq)
{
    unsigned char *memory = buffer(bytes);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(memory, bytes, BITS);
    me.options |= options;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    return memory;
}

static ptl_handle_md_t counting_md(void *start, size_t bytes, ptl_handle_ct_t ct)
{
    return md_new(start, bytes, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
}

static void put_to(int target, ptl_handle_md_t md, size_t local, size_t bytes, size_t remote)
{
    OK(PtlPut(md, local, bytes, PTL_CT_ACK_REQ, peer(target), PT, BITS, remote, NULL, 0));
}

static void get_from(int target, ptl_handle_md_t md, size_t local, size_t bytes, size_t remote)
{
    OK(PtlGet(md, local, bytes, peer(target), PT, BITS, remote, NULL));
}

/* ---- Sizes ---------------------------------------------------------------------------------------------- */

CASE(puts_of_every_size, 2, "a put delivers its bytes, and no byte beyond them, whatever the size")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(64);
    unsigned char *memory = expose(SIZE_MAX_BYTES + 64, 0, eq);
    unsigned char *local = rank() == 0 ? buffer(SIZE_MAX_BYTES) : NULL;
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = rank() == 0 ? counting_md(local, SIZE_MAX_BYTES, ct) : PTL_INVALID_HANDLE;
    barrier();
    for (unsigned i = 0; i < SIZES; i++) {
        if (rank() == 0) {
            pattern_fill(local, sizes[i], i + 1);
            put_to(1, md, 0, sizes[i], 3);
            expect_ct(ct, i + 1, 0);
        } else {
            CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).mlength, sizes[i]);
            CHECK_PATTERN(memory + 3, sizes[i], i + 1);
            CHECK_BYTES(memory, 3, 0);
            CHECK_BYTES(memory + 3 + sizes[i], 61, 0);
            memset(memory, 0, sizes[i] + 3);
        }
        barrier();
    }
}

CASE(gets_of_every_size, 2, "a get fetches its bytes, and writes no byte beyond them, whatever the size")
{
    ni_matching();
    unsigned char *memory = expose(SIZE_MAX_BYTES + 64, 0, PTL_EQ_NONE);
    if (rank() == 1)
        pattern_fill(memory + 5, SIZE_MAX_BYTES, 44);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(SIZE_MAX_BYTES + 64);
        ptl_handle_md_t md = counting_md(local, SIZE_MAX_BYTES + 64, ct);
        for (unsigned i = 0; i < SIZES; i++) {
            get_from(1, md, 9, sizes[i], 5);
            expect_ct(ct, i + 1, 0);
            CHECK_PATTERN(local + 9, sizes[i], 44);
            CHECK_BYTES(local, 9, 0);
            CHECK_BYTES(local + 9 + sizes[i], 55, 0);
            memset(local, 0, sizes[i] + 9);
        }
    }
    barrier();
}

CASE(put_and_get_both_ways, 2, "both processes put to and get from each other at the same time")
{
    enum { ROUNDS = 60, CHUNK = 20000 };
    ni_matching();
    unsigned char *memory = expose(2 * CHUNK, 0, PTL_EQ_NONE);
    int other = 1 - rank();
    ptl_handle_ct_t ct = ct_new();
    unsigned char *local = buffer(2 * CHUNK);
    ptl_handle_md_t md = counting_md(local, 2 * CHUNK, ct);
    pattern_fill(memory + CHUNK, CHUNK, 90 + (unsigned)rank());
    barrier();
    for (unsigned i = 0; i < ROUNDS; i++) {
        pattern_fill(local, CHUNK, i * 2 + (unsigned)rank());
        put_to(other, md, 0, CHUNK, 0);
        get_from(other, md, CHUNK, CHUNK, CHUNK);
        expect_ct(ct, 2 * (i + 1), 0);
        CHECK_PATTERN(local + CHUNK, CHUNK, 90 + (unsigned)other);
        memset(local + CHUNK, 0, CHUNK);
        barrier();
        CHECK_PATTERN(memory, CHUNK, i * 2 + (unsigned)other);
        barrier();
    }
}

CASE(all_to_all, 4, "every process puts into every other at once, each into its own place")
{
    enum { PIECE = 3000 };
    ni_matching();
    unsigned char *memory = expose(4 * PIECE, 0, PTL_EQ_NONE);
    ptl_handle_ct_t ct = ct_new();
    unsigned char *local = buffer(4 * PIECE);
    ptl_handle_md_t md = counting_md(local, 4 * PIECE, ct);
    barrier();
    for (unsigned round = 0; round < 25; round++) {
        for (unsigned to = 0; to < 4; to++)
            pattern_fill(local + to * PIECE, PIECE, round * 100 + to * 10 + (unsigned)rank());
        for (int to = 0; to < 4; to++)
            put_to(to, md, (size_t)to * PIECE, PIECE, (size_t)rank() * PIECE);
        expect_ct(ct, 4 * (round + 1), 0);
        barrier();
        for (unsigned from = 0; from < 4; from++)
            CHECK_PATTERN(memory + from * PIECE, PIECE, round * 100 + (unsigned)rank() * 10 + from);
        barrier();
    }
}

CASE(messages_to_oneself, 1, "a process can be its own target")
{
    ni_matching();
    ptl_handle_eq_t target_eq = eq_new(64), eq = eq_new(64);
    unsigned char *memory = expose(100000, 0, target_eq);
    unsigned char *local = buffer(100000);
    ptl_handle_md_t md = md_new(local, 100000, 0, eq, PTL_CT_NONE);
    for (unsigned i = 0; i < 10; i++) {
        size_t bytes = i * 11000 + i;
        pattern_fill(local, bytes, i);
        put(md, bytes, 0, PT, BITS, i);
        expect_send_ack(eq);
        ptl_event_t ev = expect_event(target_eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.hdr_data, i);
        CHECK_PROCESS(ev.initiator, peer(0));
        CHECK_PATTERN(memory, bytes, i);
        memset(local, 0, bytes);
        get(md, bytes, 0, PT, BITS, 0);
        expect_event(eq, PTL_EVENT_REPLY);
        expect_event(target_eq, PTL_EVENT_GET);
        CHECK_PATTERN(local, bytes, i);
    }
}

CASE(message_size_is_limited, 1, "a message of max_msg_size is sent, a longer one is refused")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_msg_size = 4096;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    CHECK_OP(granted.max_msg_size, >=, 4096);
    size_t bytes = granted.max_msg_size < SIZE_MAX_BYTES ? (size_t)granted.max_msg_size : SIZE_MAX_BYTES;
    expose(bytes, 0, PTL_EQ_NONE);
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = counting_md(buffer(bytes), bytes, ct);
    ptl_handle_md_t endless = counting_md(NULL, PTL_SIZE_MAX, ct);
    ptl_size_t more = granted.max_msg_size + 1;
    if (more != 0) {
        CHECK_EQ(PtlPut(endless, 0, more, PTL_CT_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0), PTL_ARG_INVALID);
        CHECK_EQ(PtlGet(endless, 0, more, peer(0), PT, BITS, 0, NULL), PTL_ARG_INVALID);
    }
    put_to(0, md, 0, bytes, 0);
    get_from(0, md, 0, bytes, 0);
    expect_ct(ct, 2, 0);
}

/* ---- Offsets and truncation ----------------------------------------------------------------------------- */

CASE(remote_offsets_select_the_place, 2, "the remote offset is the message's place in the entry's memory")
{
    enum { BYTES = 4096 };
    ni_matching();
    unsigned char *memory = expose(BYTES, 0, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(BYTES), *back = buffer(BYTES);
        ptl_handle_md_t md = counting_md(local, BYTES, ct), md_back = counting_md(back, BYTES, ct);
        pattern_fill(local, BYTES, 6);
        /* 37 has no common factor with 4096: every byte is sent once, far from the previous one. */
        for (ptl_size_t i = 0; i < BYTES; i++) {
            ptl_size_t at = i * 37 % BYTES;
            put_to(1, md, at, 1, at);
            if (i % 64 == 63)
                wait_ct(ct, i + 1);
        }
        expect_ct(ct, BYTES, 0);
        get_from(1, md_back, 0, BYTES, 0);
        expect_ct(ct, BYTES + 1, 0);
        CHECK_PATTERN(back, BYTES, 6);
    }
    barrier();
    if (rank() == 1)
        CHECK_PATTERN(memory, BYTES, 6);
}

CASE(put_is_truncated_to_what_fits, 2,
     "a put that runs over the entry's end is truncated; beyond the end nothing is written")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    unsigned char *memory = buffer(200);
    memset(memory, 0xee, 200);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(memory, 100, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t own = eq_new(16);
        unsigned char *local = buffer(200);
        pattern_fill(local, 200, 2);
        ptl_handle_md_t md = md_new(local, 200, 0, own, PTL_CT_NONE);
        OK(PtlPut(md, 0, 200, PTL_ACK_REQ, peer(1), PT, BITS, 30, NULL, 0));
        CHECK_EQ(expect_send_ack(own).mlength, 70);
        OK(PtlPut(md, 0, 200, PTL_ACK_REQ, peer(1), PT, BITS, 100, NULL, 0));
        CHECK_EQ(expect_send_ack(own).mlength, 0);
        OK(PtlPut(md, 0, 200, PTL_ACK_REQ, peer(1), PT, BITS, (ptl_size_t)1 << 62, NULL, 0));
        CHECK_EQ(expect_send_ack(own).mlength, 0);
    } else {
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.rlength, 200);
        CHECK_EQ(ev.mlength, 70);
        CHECK_BYTES(memory, 30, 0xee);
        CHECK_PATTERN(memory + 30, 70, 2);
        CHECK_BYTES(memory + 100, 100, 0xee);
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).mlength, 0);
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).mlength, 0);
    }
    barrier();
}

CASE(get_is_truncated_to_what_is_there, 2, "a get that runs over the entry's end returns the bytes up to the end")
{
    ni_matching();
    unsigned char *memory = expose(100, 0, PTL_EQ_NONE);
    if (rank() == 1)
        pattern_fill(memory, 100, 3);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        unsigned char *local = buffer(200), wanted[100];
        memset(local, 0xee, 200);
        pattern_fill(wanted, 100, 3);
        ptl_handle_md_t md = md_new(local, 200, 0, eq, PTL_CT_NONE);
        get(md, 200, 1, PT, BITS, 60);
        CHECK_EQ(expect_event(eq, PTL_EVENT_REPLY).mlength, 40);
        CHECK_SAME(local, wanted + 60, 40);
        CHECK_BYTES(local + 40, 160, 0xee);
        get(md, 200, 1, PT, BITS, 500);
        CHECK_EQ(expect_event(eq, PTL_EVENT_REPLY).mlength, 0);
    }
    barrier();
}

/* ---- Acknowledgements and what travels along ------------------------------------------------------------ */

CASE(acknowledgement_kinds, 2, "NO_ACK gives nothing, ACK an event and a count, CT_ACK and OC_ACK a count and no event")
{
    ni_matching();
    expose(64, 0, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md = md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK, eq, ct);
        OK(PtlPut(md, 0, 64, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_event(eq, PTL_EVENT_SEND);
        no_event(eq, 30);
        expect_ct(ct, 0, 0);
        OK(PtlPut(md, 0, 64, PTL_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_send_ack(eq);
        expect_ct(ct, 1, 0);
        OK(PtlPut(md, 0, 64, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_event(eq, PTL_EVENT_SEND);
        expect_ct(ct, 2, 0);
        OK(PtlPut(md, 0, 64, PTL_OC_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
        expect_event(eq, PTL_EVENT_SEND);
        expect_ct(ct, 3, 0);
        no_event(eq, 30);
    }
    barrier();
}

CASE(acknowledgements_need_a_place, 1, "ACK_REQ without a queue and CT_ACK_REQ without a counter are refused")
{
    ni_matching();
    expose(64, 0, PTL_EQ_NONE);
    ptl_handle_md_t md = md_new(buffer(64), 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
    CHECK_EQ(PtlPut(md, 0, 8, PTL_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(md, 0, 8, 4, peer(0), PT, BITS, 0, NULL, 0), PTL_ARG_INVALID);
}

CASE(completion_is_acknowledged_even_when_dropped, 2, "OC_ACK arrives also for a message that nothing matched")
{
    ni_matching();
    expose(64, 0, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md = counting_md(buffer(64), 64, ct);
        OK(PtlPut(md, 0, 64, PTL_OC_ACK_REQ, peer(1), PT, BITS + 1, 0, NULL, 0));
        wait_ct(ct, 1);
    }
    barrier();
}

CASE(dropped_messages_are_told, 2, "an unmatched message is counted as dropped and its sender gets the error")
{
    ni_matching();
    expose(64, 0, PTL_EQ_NONE);
    ptl_sr_value_t before = 0, after = 0;
    OK(PtlNIStatus(ni(), PTL_SR_DROP_COUNT, &before));
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_md_t md = md_new(buffer(64), 64, 0, eq, PTL_CT_NONE);
        put(md, 64, 1, PT, BITS + 1, 0);
        expect_send_ack_failure(eq, PTL_NI_DROPPED);
        put(md, 64, 1, PT + 1, BITS, 0); /* no such index is allocated */
        expect_event(eq, PTL_EVENT_SEND);
        ptl_event_t ev;
        OK(wait_event(eq, &ev, 0));
        CHECK_EQ(ev.type, PTL_EVENT_ACK);
        CHECK_OP(ev.ni_fail_type, !=, PTL_NI_OK);
        get(md, 64, 1, PT, BITS + 1, 0);
        expect_failure(eq, PTL_EVENT_REPLY, PTL_NI_DROPPED);
    }
    barrier();
    OK(PtlNIStatus(ni(), PTL_SR_DROP_COUNT, &after));
    if (rank() == 1)
        CHECK_OP(after, >=, before + 2);
}

CASE(header_data_and_tags_travel, 2,
     "hdr_data reaches the target's event, user_ptr the initiator's, all 64 bits of each")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(256);
    expose(64, 0, eq);
    barrier();
    uint64_t state = 12345;
    ptl_handle_md_t md = rank() == 0 ? md_new(buffer(64), 64, 0, eq, PTL_CT_NONE) : PTL_INVALID_HANDLE;
    for (int i = 0; i < 50; i++) {
        ptl_hdr_data_t hdr = random_next(&state);
        void *tag = (void *)(uintptr_t)random_next(&state);
        if (rank() == 0) {
            OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peer(1), PT, BITS, 0, tag, hdr));
            CHECK_PTR(expect_event(eq, PTL_EVENT_SEND).user_ptr, tag);
            CHECK_PTR(expect_event(eq, PTL_EVENT_ACK).user_ptr, tag);
            OK(PtlGet(md, 0, 8, peer(1), PT, BITS, 0, tag));
            CHECK_PTR(expect_event(eq, PTL_EVENT_REPLY).user_ptr, tag);
        } else {
            CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, hdr);
            expect_event(eq, PTL_EVENT_GET);
        }
    }
    barrier();
}

CASE(data_is_there_before_its_event, 2, "a message's data is in memory before its event or count is visible")
{
    enum { ROUNDS = 400, BYTES = 2048 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    unsigned char *memory = expose(BYTES, 0, eq);
    unsigned char *local = buffer(BYTES);
    ptl_handle_md_t md = md_new(local, BYTES, 0, PTL_EQ_NONE, PTL_CT_NONE);
    barrier();
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (int sender = 0; sender < 2; sender++) {
            if (rank() == sender) {
                pattern_fill(local, BYTES, 2 * i + (unsigned)sender);
                OK(PtlPut(md, 0, BYTES, PTL_NO_ACK_REQ, peer(1 - sender), PT, BITS, 0, NULL, i));
            } else {
                expect_event(eq, PTL_EVENT_PUT);
                CHECK_PATTERN(memory, BYTES, 2 * i + (unsigned)sender);
            }
        }
    }
    barrier();
}

/* ---- Order ---------------------------------------------------------------------------------------------- */

CASE(order_holds_under_load, 9, "messages of one process to another are matched in the order in which they were sent")
{
    enum { SENDERS = 8, ROUNDS = 50, BURST = 250 }; /* 100,000 messages */
    ni_matching();
    ptl_handle_eq_t eq = rank() == 0 ? eq_new(2 * SENDERS * BURST) : PTL_EQ_NONE;
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(buffer(64), 64, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = counting_md(buffer(64), 64, ct);
    ptl_hdr_data_t next[SENDERS + 1] = {0}, sent = 0;
    barrier();
    for (int round = 0; round < ROUNDS; round++) {
        if (rank() == 0) {
            for (int i = 0; i < SENDERS * BURST; i++) {
                ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
                CHECK_OP(ev.initiator.rank, >=, 1);
                CHECK_OP(ev.initiator.rank, <=, SENDERS);
                CHECK_EQ(ev.hdr_data, next[ev.initiator.rank]);
                next[ev.initiator.rank]++;
            }
        } else {
            for (int i = 0; i < BURST; i++, sent++)
                OK(PtlPut(md, 0, sent % 5 * 8, PTL_CT_ACK_REQ, peer(0), PT, BITS, 0, NULL, sent));
            wait_ct(ct, sent);
        }
        barrier();
    }
    for (int i = 1; rank() == 0 && i <= SENDERS; i++)
        CHECK_EQ(next[i], ROUNDS * BURST);
}

CASE(order_holds_for_mixed_sizes, 2, "a short message does not overtake a long one sent before it in matching")
{
    static const size_t mix[] = {1 << 20, 0, 70000, 8, 300000, 1, 4096, 64};
    enum { COUNT = sizeof mix / sizeof *mix };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(128);
    pt_at(PT, eq, 0);
    void *memory = buffer(1 << 20);
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = rank() == 0 ? counting_md(memory, 1 << 20, ct) : PTL_INVALID_HANDLE;
    for (ptl_size_t round = 0; round < 10; round++) {
        ptl_me_t me = me_over(memory, 1 << 20, BITS);
        me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
        for (uintptr_t i = 0; i < COUNT; i++)
            me_append(PT, &me, PTL_PRIORITY_LIST, (void *)i);
        barrier();
        if (rank() == 0) {
            for (ptl_size_t i = 0; i < COUNT; i++)
                OK(PtlPut(md, 0, mix[i], PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, i));
            expect_ct(ct, COUNT * (round + 1), 0);
        } else {
            /* An event arrives when the data is complete; each message took the entry of its turn. */
            for (int n = 0; n < COUNT; n++) {
                ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
                CHECK_EQ(ev.hdr_data, (uintptr_t)ev.user_ptr);
                CHECK_EQ(ev.mlength, mix[ev.hdr_data]);
            }
        }
        barrier();
    }
}

CASE(writes_to_one_address_keep_their_order, 2,
     "of puts to the same place, up to max_waw_ordered_size, the last one stays; a get after a put sees it")
{
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    CHECK_OP(granted.max_waw_ordered_size, >=, 64);
    expose(64, 0, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t acked = ct_new(), replied = ct_new();
        unsigned char *local = buffer(64 * 100), *back = buffer(64);
        ptl_handle_md_t md = counting_md(local, 64 * 100, acked), md_back = counting_md(back, 64, replied);
        for (unsigned i = 0; i < 100; i++)
            memset(local + i * 64, (int)i + 1, 64);
        for (ptl_size_t round = 1; round <= 30; round++) {
            for (size_t i = 0; i < 100; i++)
                put_to(1, md, i * 64, 64, 0);
            get_from(1, md_back, 0, 64, 0);
            expect_ct(replied, round, 0);
            CHECK_BYTES(back, 64, 100);
            expect_ct(acked, 100 * round, 0);
        }
    }
    barrier();
}

CASE(read_before_write_keeps_its_order, 2,
     "a get before a put to the same place, up to max_war_ordered_size, reads the old bytes")
{
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    CHECK_OP(granted.max_war_ordered_size, >=, 8);
    expose(8, 0, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        uint64_t *value = buffer(8), *back = buffer(8);
        ptl_handle_md_t md = counting_md(value, 8, ct), md_back = counting_md(back, 8, ct);
        for (ptl_size_t i = 0; i < 500; i++) {
            *value = i + 1;
            get_from(1, md_back, 0, 8, 0);
            put_to(1, md, 0, 8, 0);
            expect_ct(ct, 2 * (i + 1), 0);
            CHECK_EQ(*back, i);
        }
    }
    barrier();
}

/* ---- Vectors -------------------------------------------------------------------------------------------- */

/* Makes a random vector of `total` bytes: elements are apart, in random order, and some are empty. */
struct scattered {
    ptl_iovec_t *vector;
    size_t count;
    unsigned char *memory;
    size_t memory_bytes;
};

static struct scattered scatter(size_t total, size_t count_max, uint64_t *state)
{
    struct scattered s = {.count = 1 + random_next(state) % count_max, .memory_bytes = total + count_max * 16};
    s.vector = buffer(s.count * sizeof *s.vector);
    s.memory = buffer(s.memory_bytes);
    memset(s.memory, 0xee, s.memory_bytes);
    bool backwards = random_next(state) & 1;
    size_t left = total, low = 0, high = s.memory_bytes;
    for (size_t i = 0; i < s.count; i++) {
        size_t bytes = i + 1 == s.count ? left : random_next(state) % (2 * total / s.count + 1);
        if (bytes > left)
            bytes = left;
        left -= bytes;
        size_t gap = random_next(state) % 16;
        low += gap;
        high -= gap + bytes;
        s.vector[i] = (ptl_iovec_t){.iov_base = s.memory + (backwards ? high : low), .iov_len = bytes};
        low += bytes;
    }
    return s;
}

static void gather(const struct scattered *s, unsigned char *out)
{
    for (size_t i = 0; i < s->count; out += s->vector[i].iov_len, i++)
        memcpy(out, s->vector[i].iov_base, s->vector[i].iov_len);
}

static void spread(const struct scattered *s, const unsigned char *in)
{
    for (size_t i = 0; i < s->count; in += s->vector[i].iov_len, i++)
        memcpy(s->vector[i].iov_base, in, s->vector[i].iov_len);
}

/* Bytes of the memory behind the vector that no element covers must keep their mark. */
static void check_gaps(const struct scattered *s)
{
    unsigned char *covered = calloc(1, s->memory_bytes);
    for (size_t i = 0; i < s->count; i++)
        memset(covered + ((unsigned char *)s->vector[i].iov_base - s->memory), 1, s->vector[i].iov_len);
    for (size_t i = 0; i < s->memory_bytes; i++)
        if (!covered[i]) CHECK_EQ(s->memory[i], 0xee);
    free(covered);
}

CASE(vectors_of_any_shape, 2,
     "put and get between vectors, with any offsets and lengths, move bytes as between contiguous regions")
{
    enum { SHAPES = 24, OPERATIONS = 10, TOTAL_MAX = 6000 };
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    size_t count_max = granted.max_iovecs < 20 ? (size_t)granted.max_iovecs : 20;
    CHECK_OP(count_max, >=, 1);
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ct_t ct = ct_new();
    ptl_size_t done = 0;
    uint64_t state = 0x5e1ed6e; /* the same in both processes: both compute all shapes and operations */
    for (unsigned shape = 0; shape < SHAPES; shape++) {
        static unsigned char here[TOTAL_MAX], there[TOTAL_MAX], found[TOTAL_MAX];
        size_t total = 1 + random_next(&state) % (shape % 3 ? 200 : TOTAL_MAX);
        struct scattered near = scatter(total, count_max, &state), far = scatter(total, count_max, &state);
        pattern_fill(here, total, shape);
        pattern_fill(there, total, shape + 1000);
        spread(&near, here);
        spread(&far, there);
        if (rank() == 1) {
            ptl_me_t me = me_over(far.vector, far.count, shape);
            me.options |= PTL_IOVEC;
            me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        }
        barrier();
        ptl_handle_md_t md = md_new(near.vector, near.count,
                                    PTL_IOVEC | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
        for (int i = 0; i < OPERATIONS; i++) {
            size_t local = random_next(&state) % (total + 1), remote = random_next(&state) % (total + 1);
            size_t longest = total - (local > remote ? local : remote);
            size_t bytes = random_next(&state) % (longest + 1);
            bool puts = random_next(&state) & 1;
            memcpy(puts ? there + remote : here + local, puts ? here + local : there + remote, bytes);
            if (rank() != 0)
                continue;
            if (puts)
                OK(PtlPut(md, local, bytes, PTL_CT_ACK_REQ, peer(1), PT, shape, remote, NULL, 0));
            else
                OK(PtlGet(md, local, bytes, peer(1), PT, shape, remote, NULL));
            expect_ct(ct, ++done, 0);
        }
        barrier();
        gather(rank() == 0 ? &near : &far, found);
        CHECK_SAME(found, rank() == 0 ? here : there, total);
        check_gaps(&near);
        check_gaps(&far);
        OK(PtlMDRelease(md));
    }
}

CASE(vector_target_truncates, 2, "a put into a vector is cut at the sum of its elements")
{
    ni_matching();
    unsigned char *memory = buffer(100);
    ptl_iovec_t *vector = buffer(2 * sizeof *vector);
    memset(memory, 0xee, 100);
    vector[0] = (ptl_iovec_t){.iov_base = memory + 50, .iov_len = 10};
    vector[1] = (ptl_iovec_t){.iov_base = memory + 10, .iov_len = 20};
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(vector, 2, BITS);
    me.options |= PTL_IOVEC;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(8);
        unsigned char *local = buffer(100);
        memset(local, 0x31, 100);
        ptl_handle_md_t md = md_new(local, 100, 0, eq, PTL_CT_NONE);
        put(md, 100, 1, PT, BITS, 0);
        CHECK_EQ(expect_send_ack(eq).mlength, 30);
    }
    barrier();
    if (rank() == 1) {
        CHECK_BYTES(memory + 50, 10, 0x31);
        CHECK_BYTES(memory + 10, 20, 0x31);
        CHECK_BYTES(memory, 10, 0xee);
        CHECK_BYTES(memory + 30, 20, 0xee);
        CHECK_BYTES(memory + 60, 40, 0xee);
    }
}

CASE(large_vectors_cross_pages, 2, "vectors with elements of odd sizes carry a megabyte whole")
{
    enum { TOTAL = 1 << 20, PIECES = 16 };
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    CHECK_OP(granted.max_iovecs, >=, PIECES);
    unsigned char *memory = buffer(TOTAL);
    ptl_iovec_t *vector = buffer(PIECES * sizeof *vector);
    for (size_t i = 0, at = 0; i < PIECES; at += vector[i].iov_len, i++)
        vector[i] = (ptl_iovec_t){.iov_base = memory + at,
                                  .iov_len = i + 1 < PIECES ? 4097 * (i + 1) % 65537 : TOTAL - at};
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(vector, PIECES, BITS);
    me.options |= PTL_IOVEC;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(TOTAL), *back = buffer(TOTAL);
        pattern_fill(local, TOTAL, 12);
        put_to(1, counting_md(local, TOTAL, ct), 0, TOTAL, 0);
        expect_ct(ct, 1, 0);
        get_from(1, counting_md(back, TOTAL, ct), 0, TOTAL, 0);
        expect_ct(ct, 2, 0);
        CHECK_PATTERN(back, TOTAL, 12);
    }
    barrier();
    if (rank() == 1)
        CHECK_PATTERN(memory, TOTAL, 12);
}
