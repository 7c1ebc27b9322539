/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Memory described by a vector (PTL_IOVEC) behaves as one region: scattered at the target, gathered at the initiator, with
 * offsets, truncation and local management across the pieces. Portals 4.3, ptl_iovec_t.
 */
#include "setup.h"

enum { PIECES = 5 };
static const size_t piece_bytes[PIECES] = {8, 1, 0, 100, 19};
enum { TOTAL_BYTES = 128 };

/* Pieces of one buffer, separated by gaps of 16 bytes that no operation may write. */
struct pieces {
    ptl_iovec_t vectors[PIECES];
    unsigned char *memory;
};

static struct pieces pieces_new(void)
{
    struct pieces p = {.memory = buffer(TOTAL_BYTES + 16 * (PIECES + 1))};
    unsigned char *at = p.memory + 16;
    for (int i = 0; i < PIECES; i++) {
        p.vectors[i] = (ptl_iovec_t){at, piece_bytes[i]};
        at += piece_bytes[i] + 16;
    }
    return p;
}

static void gather(const struct pieces *p, unsigned char *out)
{
    for (int i = 0; i < PIECES; i++) {
        memcpy(out, p->vectors[i].iov_base, p->vectors[i].iov_len);
        out += p->vectors[i].iov_len;
    }
}

static void scatter(struct pieces *p, const unsigned char *in)
{
    for (int i = 0; i < PIECES; i++) {
        memcpy(p->vectors[i].iov_base, in, p->vectors[i].iov_len);
        in += p->vectors[i].iov_len;
    }
}

static void check_gaps(const struct pieces *p)
{
    const unsigned char *at = p->memory;
    for (int i = 0; i <= PIECES; i++) {
        CHECK_BYTES(at, 16, 0);
        if (i < PIECES) at += 16 + piece_bytes[i];
    }
}

/* Rank 1 has an entry over pieces; rank 0 puts `bytes` at `offset`. */
static void check_scattered(size_t bytes, size_t offset, size_t mlength)
{
    struct setup s = matching_setup();
    struct pieces p = pieces_new();
    ptl_me_t me = me_over(p.vectors, PIECES, 1);
    me.options |= PTL_IOVEC;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    else pattern_fill(s.memory, bytes, 3);
    barrier();
    if (rank() == 0) {
        OK(PtlPut(s.md, 0, bytes, PTL_ACK_REQ, peer(TARGET), PT, 1, offset, NULL, 0));
        CHECK_EQ(expect_send_ack(s.eq).mlength, mlength);
    } else {
        unsigned char whole[TOTAL_BYTES];
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).mlength, mlength);
        gather(&p, whole);
        CHECK_BYTES(whole, offset, 0);
        CHECK_PATTERN(whole + offset, mlength, 3);
        CHECK_BYTES(whole + offset + mlength, TOTAL_BYTES - offset - mlength, 0);
        check_gaps(&p);
    }
    ni_close_all();
}

CASE(put_is_scattered, 2, "a put into vectors fills them one after the other and nothing between")
{
    check_scattered(TOTAL_BYTES, 0, TOTAL_BYTES);
    check_scattered(5, 0, 5);
}

CASE(put_at_offset_is_scattered, 2, "a remote offset counts through the vectors, into the middle of one and across several")
{
    check_scattered(50, 4, 50);
    check_scattered(3, 7, 3);
    check_scattered(20, 108, 20);
}

CASE(put_too_long_is_truncated, 2, "a put longer than all vectors together is truncated at their end")
{
    check_scattered(500, 0, TOTAL_BYTES);
    check_scattered(64, 100, 28);
}

CASE(get_is_gathered, 2, "a get from vectors returns their bytes in order")
{
    struct setup s = matching_setup();
    struct pieces p = pieces_new();
    unsigned char whole[TOTAL_BYTES];
    pattern_fill(whole, TOTAL_BYTES, 5);
    scatter(&p, whole);
    ptl_me_t me = me_over(p.vectors, PIECES, 1);
    me.options |= PTL_IOVEC;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        const struct { size_t bytes, offset, mlength; } gets[] = {{128, 0, 128}, {10, 3, 10}, {100, 60, 68}, {9, 128, 0}};
        for (int i = 0; i < 4; i++) {
            memset(s.memory, 0, 256);
            get(s.md, gets[i].bytes, TARGET, PT, 1, gets[i].offset);
            CHECK_EQ(expect_event(s.eq, PTL_EVENT_REPLY).mlength, gets[i].mlength);
            CHECK_SAME(s.memory, whole + gets[i].offset, gets[i].mlength);
            CHECK_BYTES(s.memory + gets[i].mlength, 100, 0);
        }
    }
}

CASE(descriptor_is_gathered, 2, "a put from a descriptor of vectors sends their bytes in order, from a local offset too")
{
    struct setup s = matching_setup();
    struct pieces p = pieces_new();
    unsigned char whole[TOTAL_BYTES];
    pattern_fill(whole, TOTAL_BYTES, 6);
    scatter(&p, whole);
    ptl_me_t me = me_over(s.memory, SETUP_BYTES, 1);
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    const struct { size_t bytes, offset; } puts[] = {{128, 0}, {100, 7}, {1, 8}, {19, 109}};
    for (int i = 0; i < 4; i++) {
        if (rank() == 0) {
            ptl_handle_md_t md = md_new(p.vectors, PIECES, PTL_IOVEC, s.eq, PTL_CT_NONE);
            OK(PtlPut(md, puts[i].offset, puts[i].bytes, PTL_ACK_REQ, peer(TARGET), PT, 1, 0, NULL, 0));
            expect_send_ack(s.eq);
            CHECK_EQ(PtlPut(md, puts[i].offset, TOTAL_BYTES + 1 - puts[i].offset, PTL_ACK_REQ, peer(TARGET), PT, 1, 0,
                            NULL, 0), PTL_ARG_INVALID);
        } else {
            CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).mlength, puts[i].bytes);
            CHECK_SAME(s.memory, whole + puts[i].offset, puts[i].bytes);
        }
        barrier();
    }
}

CASE(descriptor_is_scattered, 2, "a get into a descriptor of vectors fills them and nothing between")
{
    struct setup s = matching_setup();
    struct pieces p = pieces_new();
    unsigned char whole[TOTAL_BYTES];
    ptl_me_t me = me_over(s.memory, SETUP_BYTES, 1);
    if (rank() == TARGET) {
        pattern_fill(s.memory, SETUP_BYTES, 7);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(p.vectors, PIECES, PTL_IOVEC, s.eq, PTL_CT_NONE);
        OK(PtlGet(md, 6, 100, peer(TARGET), PT, 1, 0, NULL));
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_REPLY).mlength, 100);
        gather(&p, whole);
        CHECK_BYTES(whole, 6, 0);
        CHECK_PATTERN(whole + 6, 100, 7);
        CHECK_BYTES(whole + 106, 22, 0);
        check_gaps(&p);
    }
}

CASE(vectors_to_vectors, 2, "vectors at both ends may have pieces of different sizes")
{
    struct setup s = matching_setup();
    struct pieces p = pieces_new();
    unsigned char whole[TOTAL_BYTES];
    ptl_iovec_t halves[2] = {{s.memory + 200, 61}, {s.memory, 67}};
    ptl_me_t me = me_over(halves, 2, 1);
    me.options |= PTL_IOVEC;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    pattern_fill(whole, TOTAL_BYTES, 8);
    if (rank() == 0) {
        scatter(&p, whole);
        ptl_handle_md_t md = md_new(p.vectors, PIECES, PTL_IOVEC, s.eq, PTL_CT_NONE);
        put(md, TOTAL_BYTES, TARGET, PT, 1, 0);
        expect_send_ack(s.eq);
    } else {
        expect_event(s.eq, PTL_EVENT_PUT);
        CHECK_SAME(s.memory + 200, whole, 61);
        CHECK_SAME(s.memory, whole + 61, 67);
    }
}

CASE(managed_vectors, 2, "MANAGE_LOCAL over vectors: messages follow one another across the pieces, min_free counts all of them")
{
    struct setup s = matching_setup();
    struct pieces p = pieces_new();
    ptl_me_t me = me_over(p.vectors, PIECES, 1);
    me.options |= PTL_IOVEC | PTL_ME_MANAGE_LOCAL;
    me.min_free = 8;
    if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    send_numbered(&s, 1, 1, 16); /* 16 times 8 bytes fill the 128 */
    if (rank() != TARGET) return;
    uint64_t whole[TOTAL_BYTES / 8];
    gather(&p, (unsigned char *)whole);
    for (unsigned i = 0; i < 16; i++) {
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, i + 1);
        CHECK_EQ(whole[i], i + 1);
    }
    expect_event(s.eq, PTL_EVENT_AUTO_UNLINK);
    check_gaps(&p);
}

CASE(list_entry_vectors, 2, "a list entry may be over vectors too")
{
    struct setup s = plain_setup();
    struct pieces p = pieces_new();
    ptl_le_t le = le_over(p.vectors, PIECES);
    le.options |= PTL_IOVEC;
    if (rank() == TARGET) le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    else pattern_fill(s.memory, TOTAL_BYTES, 2);
    barrier();
    if (rank() == 0) {
        put(s.md, TOTAL_BYTES, TARGET, PT, 0, 0);
        expect_send_ack(s.eq);
    } else {
        unsigned char whole[TOTAL_BYTES];
        expect_event(s.eq, PTL_EVENT_PUT);
        gather(&p, whole);
        CHECK_PATTERN(whole, TOTAL_BYTES, 2);
        check_gaps(&p);
    }
}
