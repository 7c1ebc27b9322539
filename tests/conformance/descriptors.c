/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory descriptors: PtlMDBind and PtlMDRelease, the meaning of their limits and options, and how counters count the
 * events of their operations. Portals 4.3, "Memory Descriptors" and "Lightweight Counting Events".
 *
 * In the cases with two processes, process 0 is the initiator and process 1 the target.
 */
#include "suite.h"

enum { PT = 3, BITS = 0x51 };

static ptl_ack_req_t const ACKS[] = {PTL_ACK_REQ, PTL_CT_ACK_REQ, PTL_OC_ACK_REQ};

/* Appends an entry at PT that accepts everything, over `bytes` of new memory; returns the memory. */
static unsigned char *target_memory(size_t bytes, ptl_handle_eq_t eq)
{
    unsigned char *memory = buffer(bytes);
    ptl_pt_index_t pt = pt_at(PT, eq, 0);
    ptl_me_t me = me_over(memory, bytes, BITS);
    me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
    return memory;
}

static int put_at(ptl_handle_md_t md, ptl_size_t local, ptl_size_t bytes, ptl_ack_req_t ack, ptl_size_t remote)
{
    return PtlPut(md, local, bytes, ack, peer(1), PT, BITS, remote, NULL, 0);
}

static int get_at(ptl_handle_md_t md, ptl_size_t local, ptl_size_t bytes, ptl_size_t remote)
{
    return PtlGet(md, local, bytes, peer(1), PT, BITS, remote, NULL);
}

/* ---- Binding and releasing ------------------------------------------------------------------------------ */

CASE(released_handle_is_refused, 1, "a descriptor's handle is invalid once it is released")
{
    ni_matching();
    ptl_handle_md_t md = md_new(buffer(64), 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
    OK(PtlMDRelease(md));
    CHECK_EQ(PtlMDRelease(md), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, 0, 0, NULL, 0), PTL_ARG_INVALID);
}

CASE(released_handle_stays_refused_after_reuse, 1, "a new descriptor never has the handle of a released one")
{
    ni_matching();
    void *memory = buffer(64);
    ptl_handle_md_t first = md_new(memory, 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
    OK(PtlMDRelease(first));
    for (int i = 0; i < 50; i++) {
        ptl_handle_md_t next = md_new(memory, 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
        CHECK_OP(next, !=, first);
        CHECK_EQ(PtlMDRelease(first), PTL_ARG_INVALID);
        OK(PtlMDRelease(next));
    }
}

CASE(bind_refuses_unknown_options, 1, "options that no descriptor has are an invalid argument")
{
    ni_matching();
    ptl_md_t md = {.start = buffer(64), .length = 64, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    ptl_handle_md_t handle;
    md.options = ~(unsigned)PTL_MD_OPTIONS_MASK;
    CHECK_EQ(PtlMDBind(ni(), &md, &handle), PTL_ARG_INVALID);
    md.options = 1u << 30;
    CHECK_EQ(PtlMDBind(ni(), &md, &handle), PTL_ARG_INVALID);
    md.options = 0;
    OK(PtlMDBind(ni(), &md, &handle));
}

CASE(bind_refuses_objects_of_another_interface, 1,
     "the queue and the counter of a descriptor belong to the descriptor's interface")
{
    ptl_handle_ni_t other = ni_nonmatching();
    ptl_handle_eq_t other_eq = eq_new(8);
    ptl_handle_ct_t other_ct = ct_new();
    ptl_handle_ni_t here = ni_matching();
    ptl_handle_md_t handle;
    ptl_md_t md = {.start = buffer(64), .length = 64, .eq_handle = other_eq, .ct_handle = PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(here, &md, &handle), PTL_ARG_INVALID);
    md.eq_handle = PTL_EQ_NONE;
    md.ct_handle = other_ct;
    CHECK_EQ(PtlMDBind(here, &md, &handle), PTL_ARG_INVALID);
    OK(PtlMDBind(other, &md, &handle));
}

CASE(max_mds_can_be_bound_and_no_more, 1, "max_mds descriptors can exist at a time; releasing one makes room for one")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_mds = 7;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    CHECK_OP(granted.max_mds, >, 0);
    void *memory = buffer(64);
    ptl_md_t md = {.start = memory, .length = 64, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    ptl_handle_md_t *handles = calloc((size_t)granted.max_mds, sizeof *handles), extra;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < granted.max_mds; i++)
            OK(PtlMDBind(ni(), &md, &handles[i]));
        CHECK_EQ(PtlMDBind(ni(), &md, &extra), PTL_NO_SPACE);
        OK(PtlMDRelease(handles[granted.max_mds / 2]));
        OK(PtlMDBind(ni(), &md, &handles[granted.max_mds / 2]));
        CHECK_EQ(PtlMDBind(ni(), &md, &extra), PTL_NO_SPACE);
        for (int i = 0; i < granted.max_mds; i++)
            OK(PtlMDRelease(handles[i]));
    }
    free(handles);
}

CASE(max_iovecs_bounds_a_descriptor, 1, "a descriptor has up to max_iovecs elements and not one more")
{
    ptl_ni_limits_t wanted = limits_default(), granted;
    wanted.max_iovecs = 4;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, &granted);
    size_t count = (size_t)granted.max_iovecs + 1;
    CHECK_OP(granted.max_iovecs, >, 0);
    ptl_iovec_t *vector = buffer(count * sizeof *vector);
    char *memory = buffer(8);
    for (size_t i = 0; i < count; i++)
        vector[i] = (ptl_iovec_t){.iov_base = memory, .iov_len = 8};
    ptl_md_t md = {.start = vector,
                   .length = count,
                   .options = PTL_IOVEC,
                   .eq_handle = PTL_EQ_NONE,
                   .ct_handle = PTL_CT_NONE};
    ptl_handle_md_t handle;
    CHECK_EQ(PtlMDBind(ni(), &md, &handle), PTL_ARG_INVALID);
    md.length = count - 1;
    OK(PtlMDBind(ni(), &md, &handle));
}

/* ---- The region ----------------------------------------------------------------------------------------- */

CASE(operation_beyond_the_descriptor_is_refused, 2, "offset and length must lie inside the descriptor")
{
    ni_matching();
    target_memory(256, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md =
            md_new(buffer(128), 128, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
        CHECK_EQ(put_at(md, 0, 129, PTL_CT_ACK_REQ, 0), PTL_ARG_INVALID);
        CHECK_EQ(put_at(md, 64, 65, PTL_CT_ACK_REQ, 0), PTL_ARG_INVALID);
        CHECK_EQ(get_at(md, 0, 129, 0), PTL_ARG_INVALID);
        CHECK_EQ(get_at(md, 127, 2, 0), PTL_ARG_INVALID);
        OK(put_at(md, 64, 64, PTL_CT_ACK_REQ, 0));
        OK(get_at(md, 127, 1, 0));
        expect_ct(ct, 2, 0);
    }
    barrier();
}

CASE(operation_beyond_the_vector_is_refused, 2, "a vector's length for offsets is the sum of its elements")
{
    ni_matching();
    target_memory(256, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        char *memory = buffer(128);
        ptl_iovec_t *vector = buffer(2 * sizeof *vector);
        vector[0] = (ptl_iovec_t){.iov_base = memory, .iov_len = 40};
        vector[1] = (ptl_iovec_t){.iov_base = memory + 64, .iov_len = 24};
        ptl_handle_md_t md = md_new(vector, 2, PTL_IOVEC | PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
        CHECK_EQ(put_at(md, 0, 65, PTL_CT_ACK_REQ, 0), PTL_ARG_INVALID);
        CHECK_EQ(put_at(md, 63, 2, PTL_CT_ACK_REQ, 0), PTL_ARG_INVALID);
        OK(put_at(md, 0, 64, PTL_CT_ACK_REQ, 0));
        expect_ct(ct, 1, 0);
    }
    barrier();
}

CASE(local_offset_selects_the_bytes, 2, "an operation uses length bytes from local_offset and touches no others")
{
    ni_matching();
    unsigned char *memory = target_memory(256, PTL_EQ_NONE);
    if (rank() == 1)
        pattern_fill(memory, 256, 9);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(256);
        memset(local, 0xee, 256);
        ptl_handle_md_t md =
            md_new(local, 256, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
        OK(get_at(md, 100, 50, 0));
        expect_ct(ct, 1, 0);
        CHECK_BYTES(local, 100, 0xee);
        CHECK_PATTERN(local + 100, 50, 9);
        CHECK_BYTES(local + 150, 106, 0xee);
        memset(local + 13, 0x77, 5);
        OK(put_at(md, 13, 5, PTL_CT_ACK_REQ, 200));
        expect_ct(ct, 2, 0);
    }
    barrier();
    if (rank() == 1) {
        unsigned char wanted[256];
        pattern_fill(wanted, 256, 9);
        memset(wanted + 200, 0x77, 5);
        CHECK_SAME(memory, wanted, 256);
    }
}

CASE(vector_is_one_contiguous_region, 2,
     "a vector behaves as the concatenation of its elements, for any offset and length, and is not modified")
{
    enum { TOTAL = 60 };
    static const ptl_size_t lengths[] = {1, 0, 7, 32, 0, 20};
    ni_matching();
    unsigned char *memory = target_memory(TOTAL, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *scattered = buffer(1024), whole[TOTAL], *back = buffer(TOTAL);
        ptl_iovec_t *vector = buffer(6 * sizeof *vector), copy[6];
        pattern_fill(whole, TOTAL, 3);
        for (size_t i = 0, at = 0; i < 6; at += lengths[i], i++) {
            vector[i] = (ptl_iovec_t){.iov_base = scattered + (5 - i) * 160 + i, .iov_len = lengths[i]};
            memcpy(vector[i].iov_base, whole + at, lengths[i]);
        }
        memcpy(copy, vector, sizeof copy);
        ptl_handle_md_t md = md_new(vector, 6, PTL_IOVEC | PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
        ptl_handle_md_t plain = md_new(back, TOTAL, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
        ptl_size_t done = 0;
        for (ptl_size_t from = 0; from < TOTAL; from += 3) {
            for (ptl_size_t bytes = 0; from + bytes <= TOTAL; bytes += 7) {
                OK(put_at(md, from, bytes, PTL_CT_ACK_REQ, 0));
                wait_ct(ct, ++done);
                OK(get_at(plain, 0, bytes, 0));
                expect_ct(ct, ++done, 0);
                CHECK_SAME(back, whole + from, bytes);
            }
        }
        CHECK_SAME(copy, vector, sizeof copy);
    }
    barrier();
    (void)memory;
}

CASE(reply_scatters_into_a_vector, 2, "a reply fills the elements of a vector in order and nothing between them")
{
    ni_matching();
    unsigned char *memory = target_memory(64, PTL_EQ_NONE);
    if (rank() == 1)
        pattern_fill(memory, 64, 21);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(128), joined[50];
        memset(local, 0xee, 128);
        ptl_iovec_t *vector = buffer(3 * sizeof *vector);
        vector[0] = (ptl_iovec_t){.iov_base = local + 90, .iov_len = 9};
        vector[1] = (ptl_iovec_t){.iov_base = local + 3, .iov_len = 40};
        vector[2] = (ptl_iovec_t){.iov_base = local + 60, .iov_len = 11};
        ptl_handle_md_t md = md_new(vector, 3, PTL_IOVEC | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
        OK(get_at(md, 5, 50, 0));
        expect_ct(ct, 1, 0);
        memcpy(joined, local + 95, 4);
        memcpy(joined + 4, local + 3, 40);
        memcpy(joined + 44, local + 60, 6);
        CHECK_PATTERN(joined, 50, 21);
        CHECK_BYTES(local, 3, 0xee);
        CHECK_BYTES(local + 43, 17, 0xee);
        CHECK_BYTES(local + 66, 29, 0xee);
        CHECK_BYTES(local + 99, 29, 0xee);
    }
    barrier();
}

CASE(whole_address_space_descriptor, 2,
     "a descriptor may start at NULL with PTL_SIZE_MAX bytes: the local offset is then an address")
{
    ni_matching();
    unsigned char *memory = target_memory(4096, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(4096), *back = buffer(4096);
        pattern_fill(local, 4096, 17);
        ptl_handle_md_t md =
            md_new(NULL, PTL_SIZE_MAX, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
        OK(put_at(md, (uintptr_t)local, 4096, PTL_CT_ACK_REQ, 0));
        expect_ct(ct, 1, 0);
        OK(get_at(md, (uintptr_t)back, 4096, 0));
        expect_ct(ct, 2, 0);
        CHECK_PATTERN(back, 4096, 17);
    }
    barrier();
    if (rank() == 1)
        CHECK_PATTERN(memory, 4096, 17);
}

CASE(zero_length_descriptor_sends_headers, 2, "an empty descriptor sends messages without data, with all their events")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    target_memory(16, eq);
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(NULL, 0, 0, eq, PTL_CT_NONE);
        put(md, 0, 1, PT, BITS, 0xabc);
        CHECK_EQ(expect_send_ack(eq).mlength, 0);
        OK(PtlGet(md, 0, 0, peer(1), PT, BITS, 0, NULL));
        CHECK_EQ(expect_event(eq, PTL_EVENT_REPLY).mlength, 0);
    } else {
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.rlength, 0);
        CHECK_EQ(ev.hdr_data, 0xabc);
        CHECK_EQ(expect_event(eq, PTL_EVENT_GET).mlength, 0);
    }
    barrier();
}

/* ---- Counting ------------------------------------------------------------------------------------------- */

CASE(send_counts_events_or_bytes, 2, "CT_SEND counts one per send, with CT_BYTES the requested length")
{
    ni_matching();
    target_memory(10, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        void *local = buffer(100);
        ptl_handle_ct_t events = ct_new(), bytes = ct_new();
        ptl_handle_md_t by_event = md_new(local, 100, PTL_MD_EVENT_CT_SEND, PTL_EQ_NONE, events);
        ptl_handle_md_t by_byte =
            md_new(local, 100, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_BYTES, PTL_EQ_NONE, bytes);
        for (ptl_size_t i = 1; i <= 5; i++) {
            OK(put_at(by_event, 0, 100, PTL_NO_ACK_REQ, 0));
            expect_ct(events, i, 0);
            /* The target accepts 10 bytes only. */
            OK(put_at(by_byte, 0, 100, PTL_NO_ACK_REQ, 0));
            expect_ct(bytes, i * 100, 0);
        }
    }
    barrier();
}

CASE(acknowledgements_count_events, 2, "CT_ACK counts one for each kind of acknowledgement")
{
    ni_matching();
    target_memory(64, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md = md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK, eq_new(64), ct);
        for (ptl_size_t i = 0; i < 12; i++) {
            OK(put_at(md, 0, 64, ACKS[i % 3], 0));
            expect_ct(ct, i + 1, 0);
        }
    }
    barrier();
}

CASE(acknowledgements_count_manipulated_bytes, 2,
     "with CT_BYTES an acknowledgement counts the bytes that the target took")
{
    ni_matching();
    target_memory(10, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md = md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, eq_new(64), ct);
        OK(put_at(md, 0, 8, PTL_ACK_REQ, 0));
        expect_ct(ct, 8, 0);
        OK(put_at(md, 0, 64, PTL_CT_ACK_REQ, 0));
        expect_ct(ct, 18, 0);
        OK(put_at(md, 0, 64, PTL_CT_ACK_REQ, 6));
        expect_ct(ct, 22, 0);
    }
    barrier();
}

CASE(completion_acknowledgement_counts_operations, 2,
     "an operation completed acknowledgement counts one operation even with CT_BYTES")
{
    ni_matching();
    target_memory(64, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md =
            md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, PTL_EQ_NONE, ct);
        OK(put_at(md, 0, 64, PTL_OC_ACK_REQ, 0));
        OK(put_at(md, 0, 32, PTL_OC_ACK_REQ, 0));
        expect_ct(ct, 2, 0);
        sleep_ms(20);
        expect_ct(ct, 2, 0);
    }
    barrier();
}

CASE(replies_count_events_or_bytes, 2, "CT_REPLY counts one per reply, with CT_BYTES the length received")
{
    ni_matching();
    target_memory(10, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        void *local = buffer(100);
        ptl_handle_ct_t events = ct_new(), bytes = ct_new();
        ptl_handle_md_t by_event = md_new(local, 100, PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, events);
        ptl_handle_md_t by_byte =
            md_new(local, 100, PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_CT_BYTES, PTL_EQ_NONE, bytes);
        for (ptl_size_t i = 1; i <= 5; i++) {
            OK(get_at(by_event, 0, 8, 0));
            expect_ct(events, i, 0);
            OK(get_at(by_byte, 0, 100, 3));
            expect_ct(bytes, i * 7, 0);
        }
    }
    barrier();
}

CASE(failure_counts_one, 2, "a failed operation adds one to failure, also where bytes are counted")
{
    ni_matching();
    ptl_pt_index_t pt = pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(buffer(64), 64, BITS);
    me.options &= ~(unsigned)(PTL_ME_OP_PUT | PTL_ME_OP_GET);
    me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md =
            md_new(buffer(64), 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_CT_BYTES,
                   PTL_EQ_NONE, ct);
        OK(put_at(md, 0, 64, PTL_CT_ACK_REQ, 0));
        expect_ct(ct, 0, 1);
        OK(PtlCTSet(ct, (ptl_ct_event_t){0, 0})); /* a failure that stays would end the next wait */
        OK(get_at(md, 0, 64, 0));
        expect_ct(ct, 0, 1);
    }
    barrier();
}

CASE(only_selected_events_are_counted, 2, "an event whose CT option is not set leaves the counter alone")
{
    ni_matching();
    target_memory(64, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_eq_t eq = eq_new(16);
        void *local = buffer(64);
        ptl_handle_md_t only_reply = md_new(local, 64, PTL_MD_EVENT_CT_REPLY, eq, ct);
        ptl_handle_md_t only_ack = md_new(local, 64, PTL_MD_EVENT_CT_ACK, eq, ct);
        put(only_reply, 64, 1, PT, BITS, 0);
        expect_send_ack(eq);
        get(only_ack, 64, 1, PT, BITS, 0);
        expect_event(eq, PTL_EVENT_REPLY);
        expect_ct(ct, 0, 0);
    }
    barrier();
}

/* ---- Options -------------------------------------------------------------------------------------------- */

CASE(send_disable_silences_send, 2, "EVENT_SEND_DISABLE: no SEND event; the acknowledgement comes")
{
    ni_matching();
    target_memory(64, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_md_t md = md_new(buffer(64), 64, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
        put(md, 64, 1, PT, BITS, 0);
        expect_event(eq, PTL_EVENT_ACK);
        OK(put_at(md, 0, 64, PTL_NO_ACK_REQ, 0));
        no_event(eq, 50);
    }
    barrier();
}

CASE(success_disable_silences_success, 2,
     "EVENT_SUCCESS_DISABLE: no event for success; counting continues, a failure has its event")
{
    ni_matching();
    target_memory(64, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_ct_t ct = ct_new();
        ptl_handle_md_t md = md_new(
            buffer(64), 64, PTL_MD_EVENT_SUCCESS_DISABLE | PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, eq, ct);
        put(md, 64, 1, PT, BITS, 0);
        get(md, 64, 1, PT, BITS, 0);
        expect_ct(ct, 2, 0);
        no_event(eq, 50);
        put(md, 64, 1, PT, BITS + 1, 0); /* nothing matches */
        expect_failure(eq, PTL_EVENT_ACK, PTL_NI_DROPPED);
        expect_ct(ct, 2, 1);
    }
    barrier();
}

CASE(volatile_buffer_is_free_on_return, 2, "VOLATILE: the buffer may be overwritten as soon as the call returns")
{
    enum { MESSAGES = 300 };
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    CHECK_OP(granted.max_volatile_size, >, 0);
    size_t bytes = granted.max_volatile_size < 64 ? (size_t)granted.max_volatile_size : 64;
    unsigned char *memory = target_memory(MESSAGES * 64, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(64);
        ptl_handle_md_t md = md_new(local, 64, PTL_MD_VOLATILE | PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
        for (unsigned i = 0; i < MESSAGES; i++) {
            pattern_fill(local, bytes, i);
            OK(put_at(md, 0, bytes, PTL_CT_ACK_REQ, i * 64));
            memset(local, 0xee, 64);
        }
        expect_ct(ct, MESSAGES, 0);
    }
    barrier();
    if (rank() == 1)
        for (unsigned i = 0; i < MESSAGES; i++)
            CHECK_PATTERN(memory + i * 64, bytes, i);
}

CASE(volatile_holds_up_to_its_limit, 2, "VOLATILE is honoured for messages of max_volatile_size bytes")
{
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    size_t bytes = granted.max_volatile_size < 65536 ? (size_t)granted.max_volatile_size : 65536;
    unsigned char *memory = target_memory(bytes, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(bytes);
        ptl_handle_md_t md = md_new(local, bytes, PTL_MD_VOLATILE | PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
        pattern_fill(local, bytes, 5);
        OK(put_at(md, 0, bytes, PTL_CT_ACK_REQ, 0));
        memset(local, 0xee, bytes);
        expect_ct(ct, 1, 0);
    }
    barrier();
    if (rank() == 1)
        CHECK_PATTERN(memory, bytes, 5);
}

CASE(unordered_messages_all_arrive, 2, "UNORDERED gives up order, not delivery")
{
    enum { MESSAGES = 500 };
    ni_matching();
    unsigned char *memory = target_memory(MESSAGES, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t ct = ct_new();
        unsigned char *local = buffer(MESSAGES);
        pattern_fill(local, MESSAGES, 8);
        ptl_handle_md_t md = md_new(local, MESSAGES, PTL_MD_UNORDERED | PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct);
        for (ptl_size_t i = 0; i < MESSAGES; i++)
            OK(put_at(md, i, 1, PTL_CT_ACK_REQ, i));
        expect_ct(ct, MESSAGES, 0);
    }
    barrier();
    if (rank() == 1)
        CHECK_PATTERN(memory, MESSAGES, 8);
}

CASE(unreliable_put_does_no_harm, 2, "UNRELIABLE may lose a put, but never corrupts one nor hinders the next")
{
    ni_matching();
    unsigned char *memory = target_memory(128, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t sent = ct_new(), acked = ct_new();
        unsigned char *local = buffer(64);
        memset(local, 0x5a, 64);
        ptl_handle_md_t loose = md_new(local, 64, PTL_MD_UNRELIABLE | PTL_MD_EVENT_CT_SEND, PTL_EQ_NONE, sent);
        ptl_handle_md_t sure = md_new(local, 64, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
        OK(put_at(loose, 0, 64, PTL_NO_ACK_REQ, 0));
        expect_ct(sent, 1, 0);
        OK(put_at(sure, 0, 64, PTL_CT_ACK_REQ, 64));
        expect_ct(acked, 1, 0);
    }
    barrier();
    if (rank() == 1) {
        CHECK_BYTES(memory + 64, 64, 0x5a);
        for (int i = 0; i < 64; i++)
            CHECK_EITHER(memory[i], 0, 0x5a);
    }
}

CASE(descriptor_without_queue_or_counter, 2, "events of a descriptor with neither queue nor counter are discarded")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    unsigned char *memory = target_memory(64, eq);
    barrier();
    if (rank() == 0) {
        unsigned char *local = buffer(64);
        memset(local, 0x21, 64);
        ptl_handle_md_t md = md_new(local, 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
        OK(put_at(md, 0, 64, PTL_NO_ACK_REQ, 0));
    } else {
        expect_event(eq, PTL_EVENT_PUT);
        CHECK_BYTES(memory, 64, 0x21);
    }
    barrier();
}

CASE(descriptors_over_the_same_memory, 2, "any number of descriptors may share memory and differ in their counters")
{
    enum { COUNT = 8 };
    ni_matching();
    target_memory(64, PTL_EQ_NONE);
    barrier();
    if (rank() == 0) {
        void *local = buffer(64);
        ptl_handle_ct_t ct[COUNT];
        for (int i = 0; i < COUNT; i++) {
            ct[i] = ct_new();
            ptl_handle_md_t md = md_new(local, 64, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, ct[i]);
            for (int n = 0; n <= i; n++)
                OK(put_at(md, 0, 64, PTL_CT_ACK_REQ, 0));
        }
        for (ptl_size_t i = 0; i < COUNT; i++)
            expect_ct(ct[i], i + 1, 0);
    }
    barrier();
}
