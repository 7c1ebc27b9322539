/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Flow control. The interface disables an index with PTL_PT_FLOWCTRL that runs out of entries, of unexpected headers or of
 * event space. It refuses that message and all later ones with PTL_NI_PT_DISABLED, and they change nothing. The target
 * gets one PTL_EVENT_PT_DISABLED. After PtlPTEnable, senders can send everything again. No message is lost, and none
 * overtakes another. Portals 4.3, flow control.
 *
 * In the storms several processes send numbered messages to one, and resend refused ones. The acknowledgements that
 * senders get must agree, message by message and in order, with the events of the target.
 */
#include "suite.h"

enum { PT = 4 };

static ptl_ni_fail_t outcome_of_put(ptl_handle_md_t md, ptl_handle_eq_t eq, size_t bytes, ptl_match_bits_t bits,
                                    ptl_hdr_data_t hdr)
{
    ptl_event_t ev;
    put(md, bytes, 1, PT, bits, hdr);
    do CHECK_EQ(wait_event(eq, &ev, 0), PTL_OK);
    while (ev.type != PTL_EVENT_ACK);
    return ev.ni_fail_type;
}

static void expect_disabled(ptl_handle_eq_t eq)
{
    ptl_event_t ev;
    CHECK_EQ(wait_event(eq, &ev, 0), PTL_OK);
    CHECK_EQ(ev.type, PTL_EVENT_PT_DISABLED);
    CHECK_EQ(ev.pt_index, PT);
}

/* The two-process setup of most cases: rank 1 has the index, rank 0 a descriptor of 64 bytes. */
struct setup {
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    unsigned char *memory;
};

static struct setup setup_with(const ptl_ni_limits_t *desired, size_t target_events, unsigned pt_options)
{
    ptl_ni_limits_t actual;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, desired, &actual);
    struct setup s = {.eq = eq_new(rank() == 1 ? target_events : 1024), .memory = buffer(64)};
    s.md = md_new(s.memory, 64, 0, rank() == 0 ? s.eq : PTL_EQ_NONE, PTL_CT_NONE);
    if (rank() == 1) pt_at(PT, s.eq, pt_options);
    return s;
}

/* ---- Causes of disabling, and their events ------------------------------------------------------------------- */

CASE(missing_entry_disables, 2, "a message that finds no entry disables the index; both sides get the event")
{
    struct setup s = setup_with(NULL, 64, PTL_PT_FLOWCTRL);
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 1, 0), PTL_NI_PT_DISABLED);
    barrier();
    if (rank() == 1) {
        expect_disabled(s.eq);
        no_event(s.eq, 10);
    }
}

CASE(missing_entry_without_flow_control, 2, "without flow control a message that finds no entry is dropped and disables nothing")
{
    struct setup s = setup_with(NULL, 64, 0);
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 2, 0), PTL_NI_DROPPED);
        CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 1, 9), PTL_NI_OK);
    }
    barrier();
    if (rank() == 1) {
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, 9);
        no_event(s.eq, 10);
    }
}

CASE(disabled_refuses_what_would_match, 2, "once disabled the index refuses messages that would have found an entry")
{
    struct setup s = setup_with(NULL, 64, PTL_PT_FLOWCTRL);
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 1, 1), PTL_NI_OK);
        CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 2, 2), PTL_NI_PT_DISABLED);
        for (unsigned i = 3; i < 8; i++) CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 1, i), PTL_NI_PT_DISABLED);
    }
    barrier();
    if (rank() == 1) {
        CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, 1);
        expect_disabled(s.eq); /* one event, however many messages were refused */
        no_event(s.eq, 10);
    }
}

CASE(enable_recovers, 2, "after PtlPTEnable messages are accepted again; each disabling is reported once")
{
    struct setup s = setup_with(NULL, 256, PTL_PT_FLOWCTRL);
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    for (unsigned round = 0; round < 20; round++) {
        barrier();
        if (rank() == 0) {
            CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 1, round), PTL_NI_OK);
            CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 99, 0), PTL_NI_PT_DISABLED);
            CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 1, 0), PTL_NI_PT_DISABLED);
        }
        barrier();
        if (rank() == 1) {
            CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, round);
            expect_disabled(s.eq);
            no_event(s.eq, 0);
            OK(PtlPTEnable(ni(), PT));
        }
    }
}

CASE(enable_without_cure_disables_again, 2,
     "an index enabled without its shortage cured is disabled by the next message again")
{
    struct setup s = setup_with(NULL, 64, PTL_PT_FLOWCTRL);
    for (int round = 0; round < 10; round++) {
        barrier();
        if (rank() == 0) CHECK_EQ(outcome_of_put(s.md, s.eq, 8, 1, 0), PTL_NI_PT_DISABLED);
        barrier();
        if (rank() == 1) {
            expect_disabled(s.eq);
            OK(PtlPTEnable(ni(), PT));
        }
    }
}

CASE(overflow_entry_prevents, 2, "as long as an overflow entry takes the message the index stays enabled")
{
    struct setup s = setup_with(NULL, 256, PTL_PT_FLOWCTRL);
    ptl_me_t overflow = me_over(NULL, 0, 0);
    overflow.ignore_bits = ~0ull;
    overflow.options |= PTL_ME_EVENT_COMM_DISABLE;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    barrier();
    for (unsigned i = 0; i < 100 && rank() == 0; i++) CHECK_EQ(outcome_of_put(s.md, s.eq, 8, i, i), PTL_NI_OK);
    barrier();
    if (rank() == 1) no_event(s.eq, 10);
}

CASE(missing_headers_disable, 2,
     "a message that finds no unexpected header left disables the index; both sides get the event")
{
    ptl_ni_limits_t desired = limits_default();
    desired.max_unexpected_headers = 4;
    struct setup s = setup_with(&desired, 256, PTL_PT_FLOWCTRL);
    ptl_me_t overflow = me_over(NULL, 0, 0), me = me_over(s.memory, 64, 0);
    overflow.ignore_bits = me.ignore_bits = ~0ull;
    overflow.options |= PTL_ME_EVENT_COMM_DISABLE;
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    barrier();
    for (unsigned i = 0; i < 8 && rank() == 0; i++)
        CHECK_EQ(outcome_of_put(s.md, s.eq, 8, i, i), i < 4 ? PTL_NI_OK : PTL_NI_PT_DISABLED);
    barrier();
    if (rank() == 1) {
        expect_disabled(s.eq);
        for (unsigned i = 0; i < 4; i++) { /* the accepted messages are all there, in order */
            me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
            CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, i);
        }
        no_event(s.eq, 10);
        OK(PtlPTEnable(ni(), PT));
    }
    barrier();
    for (unsigned i = 4; i < 10 && rank() == 0; i++)
        CHECK_EQ(outcome_of_put(s.md, s.eq, 8, i, i), i < 8 ? PTL_NI_OK : PTL_NI_PT_DISABLED);
}

CASE(missing_event_space_disables, 2, "a message whose event finds no room disables the index; no event is dropped")
{
    enum { ASKED_EVENTS = 8, SENT = 600 };
    struct setup s = setup_with(NULL, ASKED_EVENTS, PTL_PT_FLOWCTRL);
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    unsigned taken = 0, all[2];
    for (unsigned i = 0; i < SENT && rank() == 0; i++) {
        ptl_ni_fail_t outcome = outcome_of_put(s.md, s.eq, 8, 1, i);
        if (outcome == PTL_NI_OK) CHECK_EQ(taken++, i); /* no message is accepted after the first refused one */
        else CHECK_EQ(outcome, PTL_NI_PT_DISABLED);
    }
    barrier();
    exchange(&taken, sizeof taken, all);
    if (rank() == 0) {
        CHECK_OP(taken, >=, ASKED_EVENTS);
        CHECK_OP(taken, <, SENT);
        return;
    }
    for (unsigned i = 0; i < all[0]; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, i);
    expect_disabled(s.eq);
    no_event(s.eq, 10);
}

CASE(drained_queue_recovers, 2, "an index disabled for want of event space takes messages again once drained and enabled")
{
    struct setup s = setup_with(NULL, 8, PTL_PT_FLOWCTRL);
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    unsigned total = 0;
    for (unsigned round = 0; round < 5; round++) {
        unsigned taken = 0, all[2];
        barrier();
        if (rank() == 0)
            while (outcome_of_put(s.md, s.eq, 8, 1, total + taken) == PTL_NI_OK) CHECK_OP(++taken, <, 100000);
        exchange(&taken, sizeof taken, all);
        CHECK_OP(all[0], >=, 8);
        if (rank() == 1) {
            for (unsigned i = 0; i < all[0]; i++) CHECK_EQ(expect_event(s.eq, PTL_EVENT_PUT).hdr_data, total + i);
            expect_disabled(s.eq);
            OK(PtlPTEnable(ni(), PT));
        }
        total += all[0];
    }
}

CASE(disabled_event_has_room, 2, "every index with flow control has room for its PTL_EVENT_PT_DISABLED in a full queue that they share")
{
    enum { INDEXES = 6 };
    ni_matching();
    ptl_handle_eq_t eq = eq_new(rank() == 1 ? 8 : 1024);
    ptl_handle_md_t md = md_new(NULL, 0, 0, eq, PTL_CT_NONE);
    ptl_me_t me = me_over(NULL, 0, 1);
    for (ptl_pt_index_t i = 0; i < INDEXES && rank() == 1; i++) {
        pt_at(i, eq, PTL_PT_FLOWCTRL);
        me_append(i, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    unsigned taken = 0, all[2];
    for (ptl_pt_index_t i = 0; i < INDEXES && rank() == 0; i++) {
        ptl_event_t ack;
        do {
            put(md, 0, 1, i, 1, i);
            do CHECK_EQ(wait_event(eq, &ack, 0), PTL_OK);
            while (ack.type != PTL_EVENT_ACK);
            taken += ack.ni_fail_type == PTL_NI_OK;
        } while (ack.ni_fail_type == PTL_NI_OK);
        CHECK_EQ(ack.ni_fail_type, PTL_NI_PT_DISABLED);
    }
    exchange(&taken, sizeof taken, all);
    if (rank() == 0) return;
    unsigned puts = 0, disabled = 0;
    ptl_event_t ev;
    while (puts + disabled < all[0] + INDEXES) {
        CHECK_EQ(wait_event(eq, &ev, 0), PTL_OK);
        if (ev.type == PTL_EVENT_PUT) puts++;
        else if (ev.type == PTL_EVENT_PT_DISABLED) disabled++;
        else FAIL("%s", event_name(ev.type));
    }
    CHECK_EQ(puts, all[0]);
    CHECK_EQ(disabled, INDEXES);
    no_event(eq, 10);
}

CASE(flowctrl_disable_is_silent, 2, "an entry with EVENT_FLOWCTRL_DISABLE leaves no PTL_EVENT_PT_DISABLED; the initiator is still refused")
{
    ptl_ni_limits_t desired = limits_default();
    desired.max_unexpected_headers = 2;
    struct setup s = setup_with(&desired, 64, PTL_PT_FLOWCTRL);
    ptl_me_t overflow = me_over(NULL, 0, 0);
    overflow.ignore_bits = ~0ull;
    overflow.options |= PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_FLOWCTRL_DISABLE;
    if (rank() == 1) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    barrier();
    for (unsigned i = 0; i < 4 && rank() == 0; i++)
        CHECK_EQ(outcome_of_put(s.md, s.eq, 8, i, i), i < 2 ? PTL_NI_OK : PTL_NI_PT_DISABLED);
    barrier();
    if (rank() == 1) no_event(s.eq, 20);
}

/* ---- A refused message changes nothing ------------------------------------------------------------------------ */

CASE(refused_message_leaves_memory, 2, "a refused message writes nothing, counts nothing and uses up no entry")
{
    struct setup s = setup_with(NULL, 64, PTL_PT_FLOWCTRL);
    ptl_handle_ct_t ct = ct_new();
    ptl_me_t me = me_over(s.memory, 64, 1);
    me.ct_handle = ct;
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_UNLINK_DISABLE;
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    else pattern_fill(s.memory, 64, 6);
    barrier();
    if (rank() == 0) {
        CHECK_EQ(outcome_of_put(s.md, s.eq, 64, 2, 0), PTL_NI_PT_DISABLED);
        CHECK_EQ(outcome_of_put(s.md, s.eq, 64, 1, 0), PTL_NI_PT_DISABLED);
    }
    barrier();
    if (rank() == 1) {
        expect_disabled(s.eq);
        CHECK_BYTES(s.memory, 64, 0);
        expect_ct(ct, 0, 0);
        OK(PtlPTEnable(ni(), PT));
    }
    barrier();
    if (rank() == 0) CHECK_EQ(outcome_of_put(s.md, s.eq, 64, 1, 0), PTL_NI_OK);
    barrier();
    if (rank() == 1) {
        CHECK_PATTERN(s.memory, 64, 6);
        expect_ct(ct, 1, 0);
    }
}

CASE(refused_for_space_leaves_offset, 2, "a message refused for want of event space does not move a local offset")
{
    struct setup s = setup_with(NULL, 8, PTL_PT_FLOWCTRL);
    unsigned char *memory = buffer(8 * 4096);
    ptl_me_t me = me_over(memory, 8 * 4096, 1);
    me.options |= PTL_ME_MANAGE_LOCAL;
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    uint64_t *value = (uint64_t *)(void *)s.memory;
    unsigned next = 0, all[2];
    for (int round = 0; round < 3; round++) {
        barrier();
        for (int refused = 0; refused < 3 && rank() == 0;) {
            *value = next;
            if (outcome_of_put(s.md, s.eq, 8, 1, next) == PTL_NI_OK) next++;
            else refused++;
        }
        exchange(&next, sizeof next, all);
        if (rank() == 0) continue;
        for (; next < all[0]; next++) {
            ptl_event_t ev = expect_event(s.eq, PTL_EVENT_PUT);
            CHECK_EQ(ev.hdr_data, next);
            CHECK_PTR(ev.start, memory + 8 * next);
            CHECK_EQ(((uint64_t *)(void *)memory)[next], next);
        }
        expect_disabled(s.eq);
        OK(PtlPTEnable(ni(), PT));
    }
}

CASE(refusal_is_counted, 2, "with a counting acknowledgment a refusal is one failure of the initiator's counter")
{
    struct setup s = setup_with(NULL, 64, PTL_PT_FLOWCTRL);
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = md_new(s.memory, 64, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, PTL_EQ_NONE, ct);
    ptl_me_t me = me_over(s.memory, 64, 1);
    if (rank() == 1) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 1) return;
    OK(PtlPut(md, 0, 16, PTL_CT_ACK_REQ, peer(1), PT, 1, 0, NULL, 0));
    expect_ct(ct, 16, 0);
    for (unsigned i = 1; i <= 3; i++) {
        OK(PtlPut(md, 0, 16, PTL_CT_ACK_REQ, peer(1), PT, 2, 0, NULL, 0));
        expect_ct(ct, 16, i);
    }
}

CASE(refused_get_says_so, 2, "a get that finds no entry disables too, and its reply is PTL_NI_PT_DISABLED")
{
    struct setup s = setup_with(NULL, 64, PTL_PT_FLOWCTRL);
    barrier();
    if (rank() == 0) {
        get(s.md, 8, 1, PT, 1, 0);
        expect_failure(s.eq, PTL_EVENT_REPLY, PTL_NI_PT_DISABLED);
        CHECK_BYTES(s.memory, 64, 0);
    }
    barrier();
    if (rank() == 1) expect_disabled(s.eq);
}

CASE(other_indexes_go_on, 2,
     "an index without flow control, or with its own resources, stays enabled when another is disabled")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(128);
    ptl_handle_md_t md = md_new(NULL, 0, 0, eq, PTL_CT_NONE);
    ptl_me_t me = me_over(NULL, 0, 1);
    if (rank() == 1) {
        pt_at(PT, eq, PTL_PT_FLOWCTRL);
        pt_at(PT + 1, eq, PTL_PT_FLOWCTRL);
        me_append(PT + 1, &me, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    if (rank() == 0) {
        CHECK_EQ(outcome_of_put(md, eq, 0, 1, 0), PTL_NI_PT_DISABLED);
        put(md, 0, 1, PT + 1, 1, 77);
        expect_send_ack(eq);
    }
    barrier();
    if (rank() == 1) {
        expect_disabled(eq);
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).hdr_data, 77);
    }
}

/* ---- Storms ----------------------------------------------------------------------------------------------------- */

enum want { WANT_ENTRIES, WANT_HEADERS, WANT_EVENTS, WANT_NOTHING_BUT_TOGGLED };
enum { WINDOW = 16, MESSAGES_MAX = 512, EVENTS_OF_TARGET = 16 };

/* Results of one process, in order: the target has one list for each sender. */
struct record {
    unsigned count;
    uint16_t number[MESSAGES_MAX];
};

static void storm_send(unsigned messages, struct record *told)
{
    ptl_handle_eq_t eq = eq_new(4 * WINDOW);
    ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
    bool arrived[MESSAGES_MAX] = {false};
    for (unsigned first = 0; first < messages;) {
        unsigned sent[WINDOW], count = 0;
        for (unsigned i = first; i < messages && count < WINDOW; i++)
            if (!arrived[i]) sent[count++] = i;
        for (unsigned i = 0; i < count; i++)
            OK(PtlPut(md, 0, 0, PTL_ACK_REQ, peer(0), PT, 0, 0, (void *)(uintptr_t)sent[i], sent[i]));
        for (unsigned i = 0; i < count; i++) {
            ptl_event_t ev;
            CHECK_EQ(wait_event(eq, &ev, 0), PTL_OK);
            CHECK_EQ(ev.type, PTL_EVENT_ACK);
            CHECK_EITHER(ev.ni_fail_type, PTL_NI_OK, PTL_NI_PT_DISABLED);
            arrived[(uintptr_t)ev.user_ptr] = ev.ni_fail_type == PTL_NI_OK;
        }
        unsigned refused = 0;
        for (unsigned i = 0; i < count; i++) {
            if (arrived[sent[i]]) told->number[told->count++] = (uint16_t)sent[i];
            else refused++;
        }
        while (first < messages && arrived[first]) first++;
        if (refused) sleep_ms(1);
    }
}

static void storm_receive(enum want want, unsigned expected, struct record *seen, unsigned *disabled)
{
    ptl_handle_eq_t eq = eq_new(want == WANT_EVENTS ? EVENTS_OF_TARGET : 8192);
    ptl_me_t me = me_over(NULL, 0, 0), overflow = me_over(NULL, 0, 0);
    bool once = want == WANT_ENTRIES || want == WANT_HEADERS;
    if (once) me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
    overflow.options |= PTL_ME_EVENT_COMM_DISABLE;
    pt_at(PT, eq, PTL_PT_FLOWCTRL);
    if (want == WANT_HEADERS) me_append(PT, &overflow, PTL_OVERFLOW_LIST, NULL);
    if (!once) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    sleep_ms(30); /* the senders run into the disabled index */
    unsigned appended = 0;
    for (unsigned got = 0; got < expected;) {
        ptl_event_t ev;
        /* each entry takes one message, unexpected or later: append no more entries than messages are still to come */
        if (want == WANT_HEADERS && appended == got) me_append(PT, &me, PTL_PRIORITY_LIST, NULL), appended++;
        CHECK_EQ(wait_event(eq, &ev, 0), PTL_OK);
        if (ev.type == PTL_EVENT_PUT || ev.type == PTL_EVENT_PUT_OVERFLOW) {
            CHECK_EQ(ev.ni_fail_type, PTL_NI_OK);
            struct record *of = &seen[rank_of(ev.initiator)];
            CHECK_OP(of->count, <, MESSAGES_MAX);
            of->number[of->count++] = (uint16_t)ev.hdr_data;
            got++;
            if (want == WANT_NOTHING_BUT_TOGGLED && got % 50 == 0) {
                OK(PtlPTDisable(ni(), PT));
                sleep_ms(1);
                OK(PtlPTEnable(ni(), PT));
                ++*disabled;
            }
            continue;
        }
        CHECK_EQ(ev.type, PTL_EVENT_PT_DISABLED);
        ++*disabled;
        for (int i = 0; i < 10 && want == WANT_ENTRIES; i++) me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
        OK(PtlPTEnable(ni(), PT));
    }
    no_event(eq, 10);
}

static void storm(enum want want, unsigned messages)
{
    ptl_ni_limits_t desired = limits_default(), actual;
    if (want == WANT_HEADERS) desired.max_unexpected_headers = 8;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &desired, &actual);
    struct record *seen = calloc((size_t)ranks(), sizeof *seen), *told = calloc((size_t)ranks(), sizeof *told), mine;
    memset(&mine, 0, sizeof mine);
    unsigned disabled = 0;
    if (rank() == 0) {
        storm_receive(want, messages * (unsigned)(ranks() - 1), seen, &disabled);
    } else {
        barrier();
        storm_send(messages, &mine);
    }
    barrier();
    exchange(&mine, sizeof mine, told);
    if (rank() == 0) {
        CHECK_OP(disabled, >, 0);
        for (int sender = 1; sender < ranks(); sender++) {
            CHECK_EQ(seen[sender].count, messages);
            CHECK_EQ(told[sender].count, messages);
            for (unsigned i = 0; i < messages; i++)
                if (seen[sender].number[i] != told[sender].number[i])
                    FAIL("message %u of sender %d: its acknowledgement has %u arrived, the target saw %u", i, sender,
                         told[sender].number[i], seen[sender].number[i]);
        }
    }
    free(seen);
    free(told);
}

CASE(storm_over_entries_4, 5,
     "4 senders, entries posted ten at a time: all messages arrive, as acknowledged, none twice, in order")
{
    storm(WANT_ENTRIES, 200);
}

CASE(storm_over_entries_12, 13, "12 senders, entries posted ten at a time: nothing is lost or reordered")
{
    storm(WANT_ENTRIES, 40);
}

CASE(storm_over_headers_4, 5, "4 senders, eight unexpected headers: nothing is lost or reordered")
{
    storm(WANT_HEADERS, 100);
}

CASE(storm_over_headers_8, 9, "8 senders, eight unexpected headers: nothing is lost or reordered")
{
    storm(WANT_HEADERS, 40);
}

CASE(storm_over_events_4, 5, "4 senders, a queue of sixteen events: nothing is lost or reordered")
{
    storm(WANT_EVENTS, 400);
}

CASE(storm_over_events_16, 17, "16 senders, a queue of sixteen events: nothing is lost or reordered")
{
    storm(WANT_EVENTS, 60);
}

CASE(storm_over_toggling_4, 5, "4 senders, a target that disables and enables while they send: nothing is lost or reordered")
{
    storm(WANT_NOTHING_BUT_TOGGLED, 300);
}
