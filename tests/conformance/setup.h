/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Setup of the cases about lists and matching: rank 1 is the target and has the index PT with a queue; every other rank is
 * an initiator with a descriptor over its memory. One C file of a program includes it.
 */
#ifndef CONFORMANCE_SETUP_H
#define CONFORMANCE_SETUP_H

#include "suite.h"

enum { PT = 2, TARGET = 1, SETUP_EVENTS = 1024, SETUP_BYTES = 4096 };

/* Events of linking and unlinking are off. These bits are the same for both kinds of entries. */
#define QUIET (PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE)

struct setup {
    ptl_handle_eq_t eq;    /* of the index at the target, of the descriptor at initiators */
    ptl_handle_md_t md;    /* over all of memory */
    unsigned char *memory; /* SETUP_BYTES of zeros */
};

static inline struct setup setup_open(unsigned ni_options, const ptl_ni_limits_t *desired)
{
    ptl_ni_limits_t actual;
    ni_open(ni_options, desired, &actual);
    struct setup s = {.eq = eq_new(SETUP_EVENTS), .memory = buffer(SETUP_BYTES)};
    s.md = md_new(s.memory, SETUP_BYTES, 0, rank() == TARGET ? PTL_EQ_NONE : s.eq, PTL_CT_NONE);
    if (rank() == TARGET) pt_at(PT, s.eq, 0);
    return s;
}

static inline struct setup matching_setup(void) { return setup_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL); }
static inline struct setup plain_setup(void) { return setup_open(PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, NULL); }

static inline uint64_t value_at(const void *start)
{
    uint64_t value;
    memcpy(&value, start, sizeof value);
    return value;
}

/* Rank `from` sends messages `first` to `last`. Each has 8 bytes that hold its number, these match bits, and the number as
 * header data. Collective; all messages are delivered when it returns. */
static inline void send_numbered_from(int from, struct setup *s, ptl_match_bits_t bits, unsigned first, unsigned last)
{
    barrier();
    for (uint64_t i = first; i <= last && rank() == from; i++) {
        memcpy(s->memory, &i, sizeof i);
        put(s->md, 8, TARGET, PT, bits, i);
        expect_send_ack(s->eq);
    }
    barrier();
}

static inline void send_numbered(struct setup *s, ptl_match_bits_t bits, unsigned first, unsigned last)
{
    send_numbered_from(0, s, bits, first, last);
}

/* An overflow entry that accepts every message, one after the other, without an event. */
static inline ptl_me_t overflow_over(void *start, size_t bytes)
{
    ptl_me_t me = me_over(start, bytes, 0);
    me.ignore_bits = ~0ull;
    me.options |= PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_COMM_DISABLE;
    return me;
}

#endif
