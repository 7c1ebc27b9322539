/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Events and event queues: PtlEQAlloc, PtlEQFree, PtlEQGet, PtlEQWait, PtlEQPoll, the members of each of the sixteen kinds
 * of event, and the options that disable them. Portals 4.3, "Events and Event Queues".
 *
 * In the cases with two processes, process 0 is the initiator and process 1 the target.
 */
#include "suite.h"

#include <pthread.h>

enum { PT = 5, BYTES = 256 };

static const ptl_match_bits_t BITS = 0xfeedface00112233;
static const ptl_hdr_data_t HDR = 0x0123456789abcdef;

#define TAG(n) ((void *)(uintptr_t)(0xa000 + (n)))

/* The target's objects: a queue, PT, an entry with tag 1 over memory. */
struct target {
    ptl_handle_eq_t eq;
    unsigned char *memory;
    ptl_handle_me_t entry;
};

static struct target target_with(unsigned options, ptl_list_t list)
{
    struct target t = {.eq = eq_new(256), .memory = buffer(BYTES)};
    pt_at(PT, t.eq, 0);
    ptl_me_t me = me_over(t.memory, BYTES, BITS);
    me.options |= options;
    t.entry = me_append(PT, &me, list, TAG(1));
    return t;
}

static ptl_handle_md_t initiator_md(ptl_handle_eq_t eq)
{
    return md_new(buffer(BYTES), BYTES, 0, eq, PTL_CT_NONE);
}

static void put_tagged(ptl_handle_md_t md, ptl_size_t bytes, ptl_size_t remote, void *tag)
{
    OK(PtlPut(md, 0, bytes, PTL_ACK_REQ, peer(1), PT, BITS, remote, tag, HDR));
}

/* Members that every event of a message has at its target. */
static void check_message(const ptl_event_t *ev, void *tag, const void *start, ptl_size_t rlength, ptl_size_t mlength,
                          ptl_size_t remote_offset, ptl_list_t list)
{
    ptl_uid_t uid;
    OK(PtlGetUid(ni(), &uid));
    CHECK_PTR(ev->user_ptr, tag);
    CHECK_PTR(ev->start, start);
    CHECK_EQ(ev->rlength, rlength);
    CHECK_EQ(ev->mlength, mlength);
    CHECK_EQ(ev->remote_offset, remote_offset);
    CHECK_PROCESS(ev->initiator, peer(0));
    CHECK_EQ(ev->uid, uid);
    CHECK_EQ(ev->pt_index, PT);
    CHECK_EQ(ev->ptl_list, list);
    CHECK_EQ(ev->ni_fail_type, PTL_NI_OK);
    if (ni_is_matching())
        CHECK_EQ(ev->match_bits, BITS);
}

static void check_atomic(const ptl_event_t *ev, ptl_op_t operation, ptl_datatype_t type)
{
    CHECK_EQ(ev->hdr_data, HDR);
    CHECK_EQ(ev->atomic_operation, operation);
    CHECK_EQ(ev->atomic_type, type);
}

/* ---- Queues --------------------------------------------------------------------------------------------- */

CASE(empty_queue_gives_nothing, 1, "PtlEQGet of an empty queue returns PTL_EQ_EMPTY, PtlEQPoll after its timeout")
{
    ni_matching();
    ptl_handle_eq_t eq[2] = {eq_new(4), eq_new(4)};
    ptl_event_t ev;
    unsigned which;
    CHECK_EQ(PtlEQGet(eq[0], &ev), PTL_EQ_EMPTY);
    long long start_ms = now_ms();
    CHECK_EQ(PtlEQPoll(eq, 2, 60, &ev, &which), PTL_EQ_EMPTY);
    CHECK_OP(now_ms() - start_ms, >=, 59);
    CHECK_EQ(PtlEQPoll(eq, 2, 0, &ev, &which), PTL_EQ_EMPTY);
}

CASE(max_eqs_can_be_allocated_and_no_more, 1, "max_eqs queues can exist at a time; freeing one makes room for one")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_eqs = 5;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    CHECK_OP(granted.max_eqs, >, 0);
    ptl_handle_eq_t *eq = calloc((size_t)granted.max_eqs, sizeof *eq), extra;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < granted.max_eqs; i++)
            OK(PtlEQAlloc(ni(), 8, &eq[i]));
        CHECK_EQ(PtlEQAlloc(ni(), 8, &extra), PTL_NO_SPACE);
        OK(PtlEQFree(eq[1]));
        OK(PtlEQAlloc(ni(), 8, &eq[1]));
        for (int i = 0; i < granted.max_eqs; i++)
            OK(PtlEQFree(eq[i]));
    }
    free(eq);
}

CASE(freed_queue_is_refused, 1, "no function takes the handle of a freed queue, also after its place is reused")
{
    ni_matching();
    ptl_handle_eq_t gone = eq_new(4);
    OK(PtlEQFree(gone));
    for (int i = 0; i < 2; i++) {
        ptl_event_t ev;
        unsigned which;
        ptl_pt_index_t pt;
        CHECK_EQ(PtlEQFree(gone), PTL_ARG_INVALID);
        CHECK_EQ(PtlEQGet(gone, &ev), PTL_ARG_INVALID);
        CHECK_EQ(PtlEQWait(gone, &ev), PTL_ARG_INVALID);
        CHECK_EQ(PtlEQPoll(&gone, 1, 0, &ev, &which), PTL_ARG_INVALID);
        CHECK_EQ(PtlPTAlloc(ni(), 0, gone, PTL_PT_ANY, &pt), PTL_ARG_INVALID);
        CHECK_OP(eq_new(4), !=, gone);
    }
}

CASE(freed_queue_leaves_no_events, 1, "a queue that takes the place of another starts empty")
{
    ni_matching();
    for (int i = 0; i < 10; i++) {
        ptl_handle_eq_t eq = eq_new(8);
        ptl_event_t ev;
        CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY);
        pt_at(PT, eq, 0);
        ptl_me_t me = me_over(NULL, 0, BITS);
        me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
        OK(PtlMEUnlink(me_append(PT, &me, PTL_PRIORITY_LIST, NULL)));
        OK(PtlPTFree(ni(), PT));
        OK(PtlEQFree(eq));
    }
}

CASE(queue_holds_its_count, 2, "a queue holds the requested number of events, repeatedly")
{
    static const size_t counts[] = {1, 2, 3, 7, 8, 64, 1000};
    ni_matching();
    ptl_handle_ct_t acked = ct_new();
    ptl_handle_md_t md = md_new(buffer(8), 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
    ptl_size_t sent = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        ptl_handle_eq_t eq = eq_new(counts[i]);
        pt_at(PT, eq, 0);
        ptl_me_t me = me_over(NULL, 0, BITS);
        ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        barrier();
        for (int round = 0; round < 4; round++) {
            if (rank() == 0) {
                for (size_t n = 0; n < counts[i]; n++, sent++)
                    OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, n));
                expect_ct(acked, sent, 0);
            }
            barrier();
            for (size_t n = 0; rank() == 1 && n < counts[i]; n++)
                CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, n);
            barrier();
        }
        OK(PtlMEUnlink(entry));
        OK(PtlPTFree(ni(), PT));
        OK(PtlEQFree(eq));
    }
}

CASE(overrun_is_told_where_it_happened, 2,
     "PTL_EQ_DROPPED is returned with the event after the lost ones; the newest events are kept, whole and in order")
{
    enum { SENT = 3000, ROOM = 16 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(ROOM);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(NULL, 0, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, TAG(1));
    ptl_handle_ct_t acked = ct_new();
    ptl_handle_md_t md = md_new(buffer(8), 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
    barrier();
    if (rank() == 0) {
        for (ptl_hdr_data_t n = 1; n <= SENT; n++) {
            OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, n));
            if (n % 64 == 0)
                wait_ct(acked, n);
        }
        expect_ct(acked, SENT, 0);
    }
    barrier();
    if (rank() == 1) {
        ptl_hdr_data_t last = 0;
        int found = 0, gaps = 0, rc;
        ptl_event_t ev;
        while ((rc = PtlEQGet(eq, &ev)) != PTL_EQ_EMPTY) {
            CHECK_EQ(ev.type, PTL_EVENT_PUT);
            CHECK_PTR(ev.user_ptr, TAG(1));
            if (rc == PTL_EQ_DROPPED) {
                CHECK_OP(ev.hdr_data, >, last + 1);
                gaps++;
            } else {
                CHECK_EQ(rc, PTL_OK);
                CHECK_EQ(ev.hdr_data, last + 1);
            }
            last = ev.hdr_data;
            found++;
        }
        CHECK_EQ(gaps, 1);
        CHECK_EQ(last, SENT);
        CHECK_OP(found, >=, ROOM);
        CHECK_OP(found, <, SENT);
    }
    barrier();
    if (rank() == 0)
        OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 9999));
    else
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, 9999);
    barrier();
}

CASE(initiator_overrun_is_told, 2, "a queue of an initiator reports lost events too, and keeps working")
{
    enum { SENT = 500 };
    ni_matching();
    struct target t = target_with(PTL_ME_EVENT_COMM_DISABLE, PTL_PRIORITY_LIST);
    (void)t;
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(4);
        ptl_handle_ct_t acked = ct_new();
        ptl_handle_md_t md = md_new(buffer(BYTES), BYTES, PTL_MD_EVENT_CT_ACK, eq, acked);
        ptl_event_t ev;
        int dropped = 0, rc;
        for (int i = 0; i < SENT; i++)
            put_tagged(md, 8, 0, TAG(i));
        expect_ct(acked, SENT, 0);
        sleep_ms(20);
        while ((rc = PtlEQGet(eq, &ev)) != PTL_EQ_EMPTY) {
            CHECK_EITHER(rc, PTL_OK, PTL_EQ_DROPPED);
            CHECK_EITHER(ev.type, PTL_EVENT_SEND, PTL_EVENT_ACK);
            dropped += rc == PTL_EQ_DROPPED;
        }
        CHECK_OP(dropped, >, 0);
        put_tagged(md, 8, 0, TAG(SENT));
        expect_event(eq, PTL_EVENT_SEND);
        CHECK_PTR(expect_event(eq, PTL_EVENT_ACK).user_ptr, TAG(SENT));
    }
    barrier();
}

CASE(events_come_in_order, 2, "the events of one sender's puts are in sending order")
{
    ni_matching();
    struct target t = target_with(0, PTL_PRIORITY_LIST);
    barrier();
    for (ptl_hdr_data_t round = 0; round < 20; round++) {
        if (rank() == 0) {
            ptl_handle_md_t md = initiator_md(PTL_EQ_NONE);
            for (ptl_hdr_data_t i = 0; i < 200; i++)
                OK(PtlPut(md, 0, i % 3 * 100, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, round * 200 + i));
            OK(PtlMDRelease(md));
        }
        for (ptl_hdr_data_t i = 0; rank() == 1 && i < 200; i++)
            CHECK_EQ(expect_event(t.eq, PTL_EVENT_PUT).hdr_data, round * 200 + i);
        barrier();
    }
}

CASE(wait_sleeps_until_an_event, 2, "PtlEQWait returns the event that another process causes")
{
    ni_matching();
    struct target t = target_with(0, PTL_PRIORITY_LIST);
    barrier();
    for (ptl_hdr_data_t i = 0; i < 5; i++) {
        if (rank() == 0) {
            sleep_ms(30);
            OK(PtlPut(initiator_md(PTL_EQ_NONE), 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, i));
        } else {
            ptl_event_t ev;
            OK(PtlEQWait(t.eq, &ev));
            CHECK_EQ(ev.type, PTL_EVENT_PUT);
            CHECK_EQ(ev.hdr_data, i);
        }
        barrier();
    }
}

CASE(poll_names_the_queue, 2, "PtlEQPoll returns the index of the queue that it took the event from")
{
    enum { COUNT = 5 };
    ni_matching();
    ptl_handle_eq_t eq[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        eq[i] = eq_new(16);
        pt_at(i, eq[i], 0);
        ptl_me_t me = me_over(NULL, 0, BITS);
        me_append(i, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    for (unsigned i = 0; i < 3 * COUNT; i++) {
        unsigned chosen = i * 3 % COUNT;
        if (rank() == 0) {
            OK(PtlPut(initiator_md(PTL_EQ_NONE), 0, 0, PTL_NO_ACK_REQ, peer(1), chosen, BITS, 0, NULL, i));
        } else {
            ptl_event_t ev;
            unsigned which = 99;
            OK(PtlEQPoll(eq, COUNT, WAIT_DEFAULT_MS, &ev, &which));
            CHECK_EQ(which, chosen);
            CHECK_EQ(ev.hdr_data, i);
        }
        barrier();
    }
}

CASE(poll_is_round_robin, 1, "PtlEQPoll does not starve a queue behind one that always has events")
{
    ni_matching();
    ptl_handle_eq_t eq[3];
    int found[3] = {0};
    for (unsigned i = 0; i < 3; i++) {
        eq[i] = eq_new(64);
        pt_at(i, eq[i], 0);
        ptl_me_t me = me_over(NULL, 0, BITS);
        me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
        for (int n = 0; n < 12; n++)
            me_append(i, &me, PTL_PRIORITY_LIST, NULL);
    }
    for (int i = 0; i < 12; i++) {
        ptl_event_t ev;
        unsigned which = 99;
        OK(PtlEQPoll(eq, 3, 0, &ev, &which));
        CHECK_OP(which, <, 3);
        found[which]++;
    }
    for (int i = 0; i < 3; i++)
        CHECK_OP(found[i], >, 0);
}

/* ---- Initiator events ----------------------------------------------------------------------------------- */

CASE(send_and_ack_fields, 2, "SEND and ACK carry the tag; ACK the length and offset used at the target and its list")
{
    ni_matching();
    target_with(0, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_md_t md = initiator_md(eq);
        put_tagged(md, 100, 200, TAG(7)); /* 56 fit */
        ptl_event_t ev = expect_event(eq, PTL_EVENT_SEND);
        CHECK_PTR(ev.user_ptr, TAG(7));
        ev = expect_event(eq, PTL_EVENT_ACK);
        CHECK_PTR(ev.user_ptr, TAG(7));
        CHECK_EQ(ev.mlength, 56);
        CHECK_EQ(ev.remote_offset, 200);
        CHECK_EQ(ev.ptl_list, PTL_PRIORITY_LIST);
    }
    barrier();
}

CASE(ack_tells_the_offset_in_use, 2, "where the target manages offsets, ACK and REPLY report the offset used")
{
    ni_matching();
    target_with(PTL_ME_MANAGE_LOCAL, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_md_t md = initiator_md(eq);
        put_tagged(md, 24, 0, NULL);
        CHECK_EQ(expect_send_ack(eq).remote_offset, 0);
        put_tagged(md, 40, 0, NULL);
        CHECK_EQ(expect_send_ack(eq).remote_offset, 24);
        OK(PtlGet(md, 0, 8, peer(1), PT, BITS, 0, NULL));
        CHECK_EQ(expect_event(eq, PTL_EVENT_REPLY).remote_offset, 64);
    }
    barrier();
}

CASE(ack_tells_the_overflow_list, 2, "ACK reports that a message was delivered in the overflow list")
{
    ni_matching();
    target_with(0, PTL_OVERFLOW_LIST);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        put_tagged(initiator_md(eq), 8, 0, NULL);
        CHECK_EQ(expect_send_ack(eq).ptl_list, PTL_OVERFLOW_LIST);
    }
    barrier();
}

CASE(reply_fields, 2, "REPLY carries the tag, the length received and the offset at the target")
{
    ni_matching();
    target_with(0, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        OK(PtlGet(initiator_md(eq), 0, 100, peer(1), PT, BITS, 190, TAG(8)));
        ptl_event_t ev = expect_event(eq, PTL_EVENT_REPLY);
        CHECK_PTR(ev.user_ptr, TAG(8));
        CHECK_EQ(ev.mlength, 66);
        CHECK_EQ(ev.remote_offset, 190);
        no_event(eq, 30);
    }
    barrier();
}

/* ---- Target events -------------------------------------------------------------------------------------- */

/* One message of each kind, from process 0. */
static void send_each_kind(ptl_handle_eq_t eq)
{
    ptl_handle_md_t md = initiator_md(eq), md_back = initiator_md(eq);
    put_tagged(md, 100, 200, NULL);
    expect_send_ack(eq);
    OK(PtlGet(md, 0, 30, peer(1), PT, BITS, 16, NULL));
    expect_event(eq, PTL_EVENT_REPLY);
    OK(PtlAtomic(md, 0, 16, PTL_ACK_REQ, peer(1), PT, BITS, 32, NULL, HDR, PTL_BXOR, PTL_UINT32_T));
    expect_send_ack(eq);
    OK(PtlFetchAtomic(md_back, 0, md, 0, 8, peer(1), PT, BITS, 64, NULL, HDR, PTL_SUM, PTL_DOUBLE));
    for (int seen = 0; seen < 2; seen++) { /* SEND and REPLY may come in either order */
        ptl_event_t ev;
        OK(wait_event(eq, &ev, 0));
        CHECK_EITHER(ev.type, PTL_EVENT_SEND, PTL_EVENT_REPLY);
    }
    OK(PtlSwap(md_back, 0, md, 0, 2, peer(1), PT, BITS, 96, NULL, HDR, NULL, PTL_SWAP, PTL_INT16_T));
    for (int seen = 0; seen < 2; seen++)
        OK(wait_event(eq, &(ptl_event_t){0}, 0));
}

static void check_each_kind(ptl_handle_eq_t eq, unsigned char *memory)
{
    ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
    check_message(&ev, TAG(1), memory + 200, 100, 56, 200, PTL_PRIORITY_LIST);
    CHECK_EQ(ev.hdr_data, HDR);
    ev = expect_event(eq, PTL_EVENT_GET);
    check_message(&ev, TAG(1), memory + 16, 30, 30, 16, PTL_PRIORITY_LIST);
    ev = expect_event(eq, PTL_EVENT_ATOMIC);
    check_message(&ev, TAG(1), memory + 32, 16, 16, 32, PTL_PRIORITY_LIST);
    check_atomic(&ev, PTL_BXOR, PTL_UINT32_T);
    ev = expect_event(eq, PTL_EVENT_FETCH_ATOMIC);
    check_message(&ev, TAG(1), memory + 64, 8, 8, 64, PTL_PRIORITY_LIST);
    check_atomic(&ev, PTL_SUM, PTL_DOUBLE);
    ev = expect_event(eq, PTL_EVENT_FETCH_ATOMIC);
    check_message(&ev, TAG(1), memory + 96, 2, 2, 96, PTL_PRIORITY_LIST);
    check_atomic(&ev, PTL_SWAP, PTL_INT16_T);
}

CASE(target_event_fields, 2, "PUT, GET, ATOMIC and FETCH_ATOMIC carry every field of their message")
{
    ni_matching();
    struct target t = target_with(0, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0)
        send_each_kind(eq_new(32));
    else
        check_each_kind(t.eq, t.memory);
    barrier();
}

CASE(target_event_fields_without_matching, 2, "the same events of a list entry on an interface without matching")
{
    ni_nonmatching();
    ptl_handle_eq_t eq = eq_new(64);
    unsigned char *memory = buffer(BYTES);
    pt_at(PT, eq, 0);
    ptl_le_t le = le_over(memory, BYTES);
    le_append(PT, &le, PTL_PRIORITY_LIST, TAG(1));
    barrier();
    if (rank() == 0)
        send_each_kind(eq_new(32));
    else
        check_each_kind(eq, memory);
    barrier();
}

CASE(target_event_fields_physical, 2, "on a physical interface the initiator of an event is a nid and a pid")
{
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    struct target t = target_with(0, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0)
        send_each_kind(eq_new(32));
    else
        check_each_kind(t.eq, t.memory);
    barrier();
}

CASE(start_follows_the_managed_offset, 2,
     "with a locally managed offset, start follows it and remote_offset is the offset requested")
{
    ni_matching();
    struct target t = target_with(PTL_ME_MANAGE_LOCAL, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = initiator_md(PTL_EQ_NONE);
        OK(PtlPut(md, 0, 10, PTL_NO_ACK_REQ, peer(1), PT, BITS, 77, NULL, HDR));
        OK(PtlPut(md, 0, 20, PTL_NO_ACK_REQ, peer(1), PT, BITS, 78, NULL, HDR));
    } else {
        ptl_event_t ev = expect_event(t.eq, PTL_EVENT_PUT);
        check_message(&ev, TAG(1), t.memory, 10, 10, 77, PTL_PRIORITY_LIST);
        ev = expect_event(t.eq, PTL_EVENT_PUT);
        check_message(&ev, TAG(1), t.memory + 10, 20, 20, 78, PTL_PRIORITY_LIST);
    }
    barrier();
}

/* Process 0 sends. The target gets `kind` in the overflow list, appends an entry, and gets `overflow_kind`. */
static void check_overflow(ptl_event_kind_t kind, ptl_event_kind_t overflow_kind, void (*send)(ptl_handle_md_t md),
                           ptl_size_t bytes, ptl_size_t offset)
{
    ni_matching();
    struct target t = target_with(0, PTL_OVERFLOW_LIST);
    barrier();
    if (rank() == 0) {
        send(initiator_md(PTL_EQ_NONE));
    } else {
        ptl_event_t ev;
        OK(wait_event(t.eq, &ev, 0));
        CHECK_EQ(ev.type, kind);
        check_message(&ev, TAG(1), t.memory + offset, bytes, bytes, offset, PTL_OVERFLOW_LIST);
        ptl_me_t me = me_over(buffer(BYTES), BYTES, BITS);
        me_append(PT, &me, PTL_PRIORITY_LIST, TAG(2));
        OK(wait_event(t.eq, &ev, 0));
        CHECK_EQ(ev.type, overflow_kind);
        check_message(&ev, TAG(2), t.memory + offset, bytes, bytes, offset, PTL_OVERFLOW_LIST);
        if (kind != PTL_EVENT_GET)
            CHECK_EQ(ev.hdr_data, HDR);
        if (kind == PTL_EVENT_ATOMIC)
            check_atomic(&ev, PTL_MIN, PTL_INT64_T);
        if (kind == PTL_EVENT_FETCH_ATOMIC)
            check_atomic(&ev, PTL_PROD, PTL_FLOAT);
        no_event(t.eq, 30);
    }
    barrier();
}

static void overflow_put(ptl_handle_md_t md)
{
    OK(PtlPut(md, 0, 40, PTL_NO_ACK_REQ, peer(1), PT, BITS, 12, NULL, HDR));
}

static void overflow_get(ptl_handle_md_t md)
{
    OK(PtlGet(md, 0, 40, peer(1), PT, BITS, 12, NULL));
}

static void overflow_atomic(ptl_handle_md_t md)
{
    OK(PtlAtomic(md, 0, 16, PTL_NO_ACK_REQ, peer(1), PT, BITS, 8, NULL, HDR, PTL_MIN, PTL_INT64_T));
}

static void overflow_fetch(ptl_handle_md_t md)
{
    OK(PtlFetchAtomic(md, 128, md, 0, 8, peer(1), PT, BITS, 24, NULL, HDR, PTL_PROD, PTL_FLOAT));
}

CASE(put_overflow_fields, 2,
     "PUT_OVERFLOW describes the message with the tag of the new entry, start where the data lies")
{
    check_overflow(PTL_EVENT_PUT, PTL_EVENT_PUT_OVERFLOW, overflow_put, 40, 12);
}

CASE(get_overflow_fields, 2, "GET_OVERFLOW describes a get that was served by the overflow list")
{
    check_overflow(PTL_EVENT_GET, PTL_EVENT_GET_OVERFLOW, overflow_get, 40, 12);
}

CASE(atomic_overflow_fields, 2, "ATOMIC_OVERFLOW carries the operation and the datatype")
{
    check_overflow(PTL_EVENT_ATOMIC, PTL_EVENT_ATOMIC_OVERFLOW, overflow_atomic, 16, 8);
}

CASE(fetch_atomic_overflow_fields, 2, "FETCH_ATOMIC_OVERFLOW carries the operation and the datatype")
{
    check_overflow(PTL_EVENT_FETCH_ATOMIC, PTL_EVENT_FETCH_ATOMIC_OVERFLOW, overflow_fetch, 8, 24);
}

CASE(link_fields, 1, "LINK carries the tag and the portal table index, for either list")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(PT, eq, 0);
    for (ptl_list_t list = PTL_PRIORITY_LIST; list <= PTL_OVERFLOW_LIST; list++) {
        ptl_me_t me = me_over(NULL, 0, BITS);
        me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
        me_append(PT, &me, list, TAG(3 + list));
        ptl_event_t ev = expect_event(eq, PTL_EVENT_LINK);
        CHECK_PTR(ev.user_ptr, TAG(3 + list));
        CHECK_EQ(ev.pt_index, PT);
    }
}

CASE(auto_unlink_fields, 2, "AUTO_UNLINK follows the event of the message that used up the entry")
{
    ni_matching();
    struct target t = target_with(PTL_ME_USE_ONCE, PTL_PRIORITY_LIST);
    barrier();
    if (rank() == 0) {
        OK(PtlPut(initiator_md(PTL_EQ_NONE), 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, HDR));
    } else {
        expect_event(t.eq, PTL_EVENT_PUT);
        ptl_event_t ev = expect_event(t.eq, PTL_EVENT_AUTO_UNLINK);
        CHECK_PTR(ev.user_ptr, TAG(1));
        CHECK_EQ(ev.pt_index, PT);
        CHECK_EQ(PtlMEUnlink(t.entry), PTL_ARG_INVALID);
    }
    barrier();
}

CASE(auto_free_fields, 2, "AUTO_FREE reports that an unlinked overflow entry has no unexpected header left")
{
    ni_matching();
    struct target t = target_with(PTL_ME_USE_ONCE, PTL_OVERFLOW_LIST);
    barrier();
    if (rank() == 0) {
        OK(PtlPut(initiator_md(PTL_EQ_NONE), 0, 8, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, HDR));
    } else {
        expect_event(t.eq, PTL_EVENT_PUT);
        CHECK_PTR(expect_event(t.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, TAG(1));
        no_event(t.eq, 30);
        ptl_me_t me = me_over(NULL, 0, BITS);
        me_append(PT, &me, PTL_PRIORITY_LIST, TAG(2));
        CHECK_PTR(expect_event(t.eq, PTL_EVENT_PUT_OVERFLOW).user_ptr, TAG(2));
        ptl_event_t ev = expect_event(t.eq, PTL_EVENT_AUTO_FREE);
        CHECK_PTR(ev.user_ptr, TAG(1));
        CHECK_EQ(ev.pt_index, PT);
    }
    barrier();
}

CASE(auto_unlink_of_an_entry_never_linked, 2,
     "an entry with USE_ONCE that finds its message waiting gives the message's event and AUTO_UNLINK, and no LINK")
{
    ni_matching();
    struct target t = target_with(0, PTL_OVERFLOW_LIST);
    barrier();
    if (rank() == 0) {
        overflow_put(initiator_md(PTL_EQ_NONE));
    } else {
        expect_event(t.eq, PTL_EVENT_PUT);
        ptl_me_t me = me_over(NULL, 0, BITS);
        me.options = (me.options & ~(unsigned)PTL_ME_EVENT_LINK_DISABLE) | PTL_ME_USE_ONCE;
        ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, TAG(2));
        CHECK_PTR(expect_event(t.eq, PTL_EVENT_PUT_OVERFLOW).user_ptr, TAG(2));
        CHECK_PTR(expect_event(t.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, TAG(2));
        no_event(t.eq, 30);
        CHECK_EQ(PtlMEUnlink(entry), PTL_ARG_INVALID);
    }
    barrier();
}

CASE(pt_disabled_fields, 2, "PT_DISABLED names the entry that flow control disabled; the sender's ACK reports it too")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(PT, eq, PTL_PT_FLOWCTRL);
    barrier();
    if (rank() == 0) {
        put_tagged(initiator_md(eq), 8, 0, NULL);
        expect_send_ack_failure(eq, PTL_NI_PT_DISABLED);
    } else {
        ptl_event_t ev;
        OK(wait_event(eq, &ev, 0));
        CHECK_EQ(ev.type, PTL_EVENT_PT_DISABLED);
        CHECK_EQ(ev.pt_index, PT);
        CHECK_EQ(ev.ni_fail_type, PTL_NI_PT_DISABLED);
        no_event(eq, 30);
    }
    barrier();
}

CASE(search_fields, 2, "SEARCH describes the header found as an overflow event does, or NO_MATCH, with the tag")
{
    ni_matching();
    struct target t = target_with(0, PTL_OVERFLOW_LIST);
    barrier();
    if (rank() == 0) {
        overflow_put(initiator_md(PTL_EQ_NONE));
    } else {
        expect_event(t.eq, PTL_EVENT_PUT);
        ptl_me_t me = me_over(NULL, 0, BITS);
        for (int i = 0; i < 3; i++) {
            OK(PtlMESearch(ni(), PT, &me, PTL_SEARCH_ONLY, TAG(5)));
            ptl_event_t ev = expect_event(t.eq, PTL_EVENT_SEARCH);
            check_message(&ev, TAG(5), t.memory + 12, 40, 40, 12, PTL_OVERFLOW_LIST);
            CHECK_EQ(ev.hdr_data, HDR);
        }
        me.match_bits = BITS + 1;
        OK(PtlMESearch(ni(), PT, &me, PTL_SEARCH_ONLY, TAG(6)));
        CHECK_PTR(expect_failure(t.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH).user_ptr, TAG(6));
        me.match_bits = BITS;
        OK(PtlMESearch(ni(), PT, &me, PTL_SEARCH_DELETE, TAG(7)));
        ptl_event_t ev = expect_event(t.eq, PTL_EVENT_PUT_OVERFLOW);
        check_message(&ev, TAG(7), t.memory + 12, 40, 40, 12, PTL_OVERFLOW_LIST);
        OK(PtlMESearch(ni(), PT, &me, PTL_SEARCH_DELETE, TAG(8)));
        CHECK_PTR(expect_failure(t.eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH).user_ptr, TAG(8));
    }
    barrier();
}

/* ---- Options that silence ------------------------------------------------------------------------------- */

CASE(comm_disable_silences_messages, 2, "EVENT_COMM_DISABLE: no PUT, GET or ATOMIC event; AUTO_UNLINK still comes")
{
    ni_matching();
    struct target t = target_with(PTL_ME_EVENT_COMM_DISABLE, PTL_PRIORITY_LIST);
    ptl_me_t once = me_over(t.memory, BYTES, 1);
    once.options |= PTL_ME_EVENT_COMM_DISABLE | PTL_ME_USE_ONCE;
    me_append(PT, &once, PTL_PRIORITY_LIST, TAG(2));
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(32);
        send_each_kind(eq);
        put(initiator_md(eq), 8, 1, PT, 1, 0);
        expect_send_ack(eq);
    }
    barrier();
    if (rank() == 1) {
        CHECK_PTR(expect_event(t.eq, PTL_EVENT_AUTO_UNLINK).user_ptr, TAG(2));
        no_event(t.eq, 30);
    }
}

CASE(success_disable_silences_messages, 2, "EVENT_SUCCESS_DISABLE: a successful message leaves no event but counts")
{
    ni_nonmatching();
    ptl_handle_eq_t eq = eq_new(32);
    ptl_handle_ct_t ct = ct_new();
    pt_at(PT, eq, 0);
    ptl_le_t le = le_over(buffer(BYTES), BYTES);
    le.options |= PTL_LE_EVENT_SUCCESS_DISABLE | PTL_LE_EVENT_CT_COMM;
    le.ct_handle = ct;
    le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        send_each_kind(eq);
    } else {
        expect_ct(ct, 5, 0);
        no_event(eq, 30);
    }
    barrier();
}

CASE(link_disable_silences_link, 1, "EVENT_LINK_DISABLE: appending leaves no event")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(NULL, 0, BITS);
    me.options |= PTL_ME_EVENT_LINK_DISABLE;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    me_append(PT, &me, PTL_OVERFLOW_LIST, NULL);
    no_event(eq, 30);
}

CASE(over_disable_silences_overflow, 2, "EVENT_OVER_DISABLE: an entry that finds unexpected messages gives no event")
{
    ni_matching();
    struct target t = target_with(0, PTL_OVERFLOW_LIST);
    barrier();
    if (rank() == 0) {
        overflow_put(initiator_md(PTL_EQ_NONE));
    } else {
        expect_event(t.eq, PTL_EVENT_PUT);
        ptl_me_t me = me_over(NULL, 0, BITS);
        me.options |= PTL_ME_EVENT_OVER_DISABLE;
        me_append(PT, &me, PTL_PRIORITY_LIST, TAG(2));
        no_event(t.eq, 30);
    }
    barrier();
}

CASE(unlink_disable_silences_unlink_and_free, 2, "EVENT_UNLINK_DISABLE: neither AUTO_UNLINK nor AUTO_FREE")
{
    ni_matching();
    struct target t = target_with(PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, PTL_OVERFLOW_LIST);
    barrier();
    if (rank() == 0) {
        overflow_put(initiator_md(PTL_EQ_NONE));
    } else {
        expect_event(t.eq, PTL_EVENT_PUT);
        ptl_me_t me = me_over(NULL, 0, BITS);
        me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
        me_append(PT, &me, PTL_PRIORITY_LIST, TAG(2));
        expect_event(t.eq, PTL_EVENT_PUT_OVERFLOW);
        no_event(t.eq, 50);
    }
    barrier();
}

CASE(ack_disable_silences_the_sender, 2, "ACK_DISABLE: an entry that declines acknowledgements causes none")
{
    ni_matching();
    struct target t = target_with(PTL_ME_ACK_DISABLE, PTL_PRIORITY_LIST);
    barrier();
    ptl_handle_eq_t eq = eq_new(16);
    if (rank() == 0) {
        put_tagged(initiator_md(eq), 8, 0, NULL);
        expect_event(eq, PTL_EVENT_SEND);
    } else {
        expect_event(t.eq, PTL_EVENT_PUT);
    }
    barrier();
    if (rank() == 0)
        no_event(eq, 50);
    barrier();
}

/* Fills the target's queue until flow control stops it; returns the number of delivered puts. */
static int put_until_disabled(ptl_handle_eq_t eq)
{
    ptl_handle_md_t md = md_new(buffer(8), 8, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
    for (int delivered = 0; delivered < 4000; delivered++) {
        ptl_event_t ev;
        put(md, 8, 1, PT, BITS, 0);
        OK(wait_event(eq, &ev, 0));
        CHECK_EQ(ev.type, PTL_EVENT_ACK);
        if (ev.ni_fail_type == PTL_NI_PT_DISABLED)
            return delivered;
        CHECK_EQ(ev.ni_fail_type, PTL_NI_OK);
    }
    FAIL("4000 events fit a queue of 8");
}

static void check_full_queue(unsigned options, bool told)
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(8), own = eq_new(64);
    pt_at(PT, eq, PTL_PT_FLOWCTRL);
    ptl_me_t me = me_over(buffer(BYTES), BYTES, BITS);
    me.options |= options;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    int delivered = rank() == 0 ? put_until_disabled(own) : 0, all[2];
    exchange(&delivered, sizeof delivered, all);
    if (rank() == 1) {
        CHECK_OP(all[0], >=, 1);
        for (int i = 0; i < all[0]; i++)
            expect_event(eq, PTL_EVENT_PUT);
        if (told) {
            ptl_event_t ev;
            OK(wait_event(eq, &ev, 0));
            CHECK_EQ(ev.type, PTL_EVENT_PT_DISABLED);
        }
        no_event(eq, 30);
    }
    barrier();
}

CASE(full_queue_disables_without_loss, 2,
     "with flow control a full queue disables the entry: accepted messages have their events, then PT_DISABLED")
{
    check_full_queue(0, true);
}

CASE(flowctrl_disable_silences_pt_disabled, 2, "EVENT_FLOWCTRL_DISABLE: the entry is disabled without an event")
{
    check_full_queue(PTL_ME_EVENT_FLOWCTRL_DISABLE, false);
}

/* ---- Freeing, aborting ---------------------------------------------------------------------------------- */

struct waiter {
    ptl_handle_eq_t eq;
    bool polls;
    int rc;
    pthread_t thread;
};

static void *waiter_run(void *opaque)
{
    struct waiter *w = opaque;
    ptl_event_t ev;
    unsigned which;
    w->rc = w->polls ? PtlEQPoll(&w->eq, 1, PTL_TIME_FOREVER, &ev, &which) : PtlEQWait(w->eq, &ev);
    return NULL;
}

CASE(free_ends_waits_for_it_only, 1, "PtlEQFree ends the waits for this queue; other waits continue")
{
    ni_matching();
    struct waiter w[4];
    ptl_handle_eq_t freed = eq_new(8), other = eq_new(8);
    for (int i = 0; i < 4; i++) {
        w[i] = (struct waiter){.eq = i < 2 ? freed : other, .polls = i % 2};
        CHECK_OP(pthread_create(&w[i].thread, NULL, waiter_run, &w[i]), ==, 0);
    }
    sleep_ms(60);
    OK(PtlEQFree(freed));
    for (int i = 0; i < 2; i++) {
        CHECK_OP(pthread_join(w[i].thread, NULL), ==, 0);
        CHECK_EQ(w[i].rc, PTL_INTERRUPTED);
    }
    pt_at(0, other, 0);
    for (int i = 2; i < 4; i++) {
        ptl_me_t me = me_over(NULL, 0, 0);
        me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
        me_append(0, &me, PTL_PRIORITY_LIST, NULL); /* an event for each */
    }
    for (int i = 2; i < 4; i++) {
        CHECK_OP(pthread_join(w[i].thread, NULL), ==, 0);
        CHECK_EQ(w[i].rc, PTL_OK);
    }
}

CASE(a_wait_never_passes_to_the_next_queue, 1,
     "a wait for a freed queue ends with PTL_INTERRUPTED, also when a new queue gets its handle at once")
{
    ptl_ni_limits_t wanted = limits_default();
    wanted.max_eqs = 1 << 18;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, NULL);
    for (int polls = 0; polls < 2; polls++) {
        struct waiter w = {.eq = eq_new(8), .polls = polls};
        CHECK_OP(pthread_create(&w.thread, NULL, waiter_run, &w), ==, 0);
        sleep_ms(60);
        OK(PtlEQFree(w.eq));
        ptl_handle_eq_t made = eq_new(8);
        for (int i = 0; i < 1 << 14 && made != w.eq; i++) {
            OK(PtlEQFree(made));
            made = eq_new(8);
        }
        CHECK_EQ(made, w.eq);
        pt_at((ptl_pt_index_t)polls, made, 0);
        ptl_me_t me = me_over(NULL, 0, 0);
        me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
        me_append((ptl_pt_index_t)polls, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_OP(pthread_join(w.thread, NULL), ==, 0);
        CHECK_EQ(w.rc, PTL_INTERRUPTED);
        expect_event(made, PTL_EVENT_LINK);
    }
}

CASE(abort_ends_eq_waits, 1, "PtlAbort ends PtlEQWait and PtlEQPoll with PTL_ABORTED, now and later; queues are freed")
{
    ni_matching();
    struct waiter w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = (struct waiter){.eq = eq_new(8), .polls = i % 2};
        CHECK_OP(pthread_create(&w[i].thread, NULL, waiter_run, &w[i]), ==, 0);
    }
    sleep_ms(60);
    PtlAbort();
    for (int i = 0; i < 4; i++) {
        ptl_event_t ev;
        unsigned which;
        CHECK_OP(pthread_join(w[i].thread, NULL), ==, 0);
        CHECK_EQ(w[i].rc, PTL_ABORTED);
        CHECK_EQ(PtlEQWait(w[i].eq, &ev), PTL_ABORTED);
        CHECK_EQ(PtlEQPoll(&w[i].eq, 1, PTL_TIME_FOREVER, &ev, &which), PTL_ABORTED);
        OK(PtlEQFree(w[i].eq));
    }
}
