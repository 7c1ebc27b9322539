/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Long lists against a plain model. The model keeps posted entries and unexpected messages in two ordered arrays, and
 * searches them from the front, as the specification demands. However the interface searches, each message must match the
 * entry that the model finds. A seed makes all choices. Portals 4.3, matching.
 *
 * Costs: the model is quadratic; 5000 entries are about 12 million comparisons.
 */
#include "suite.h"

enum { PT = 2, DEPTH = 5000, TARGET = 0 };

struct item {
    ptl_match_bits_t bits, ignore;
    int source; /* source of a message, or the source that an entry accepts; -1: any */
    unsigned number;
    bool gone;
};

struct list {
    unsigned count, first;
    struct item items[2 * DEPTH];
};

/* Few distinct bits, so that many items are similar; a fifth of the entries ignores some or all bits. */
static struct item random_entry(uint64_t *state, unsigned number, int sources)
{
    uint64_t r = random_next(state);
    struct item e = {.bits = (r >> 8) % 40 | ((r >> 16) % 3) << 32, .source = -1, .number = number};
    if (r % 10 == 0) e.ignore = ~0ull;
    if (r % 10 == 1) e.ignore = 0xffffffffull << 32;
    if (sources > 0 && (r >> 40) % 2) e.source = 1 + (int)((r >> 48) % (unsigned)sources);
    return e;
}

static struct item random_message(uint64_t *state, unsigned number, int source)
{
    uint64_t r = random_next(state);
    return (struct item){.bits = (r >> 8) % 40 | ((r >> 16) % 3) << 32, .source = source, .number = number};
}

static bool meets(const struct item *entry, const struct item *message)
{
    return ((entry->bits ^ message->bits) & ~entry->ignore) == 0 && (entry->source < 0 || entry->source == message->source);
}

static void list_add(struct list *list, struct item item)
{
    CHECK_OP(list->count, <, 2 * DEPTH);
    list->items[list->count++] = item;
}

/* Removes the first item of the list that matches `item`: an entry if the list has messages, else a message. */
static struct item *list_take(struct list *list, const struct item *item, bool list_has_entries)
{
    while (list->first < list->count && list->items[list->first].gone) list->first++;
    for (unsigned i = list->first; i < list->count; i++) {
        struct item *candidate = &list->items[i];
        if (candidate->gone || !(list_has_entries ? meets(candidate, item) : meets(item, candidate))) continue;
        candidate->gone = true;
        return candidate;
    }
    return NULL;
}

static ptl_me_t entry_of(const struct item *item)
{
    ptl_me_t me = me_over(NULL, 0, item->bits);
    me.ignore_bits = item->ignore;
    me.match_id = item->source < 0 ? any_process() : peer(item->source);
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE;
    return me;
}

static void open_deep(unsigned addressing)
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_entries = desired.max_list_size = 2 * DEPTH + 16;
    desired.max_unexpected_headers = 2 * DEPTH + 16;
    ni_open(PTL_NI_MATCHING | addressing, &desired, &actual);
}

static ptl_handle_me_t append_catcher(void)
{
    ptl_me_t catcher = me_over(NULL, 0, 0);
    catcher.ignore_bits = ~0ull;
    catcher.options |= PTL_ME_EVENT_COMM_DISABLE;
    return me_append(PT, &catcher, PTL_OVERFLOW_LIST, NULL);
}

/* Senders send in turns of `turn` messages, so that the target knows the order. */
static void send_turn(ptl_handle_md_t md, ptl_handle_ct_t acks, ptl_size_t *acked, const struct item *messages, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(TARGET), PT, messages[i].bits, 0, NULL, messages[i].number));
    *acked += count;
    wait_ct(acks, *acked);
}

static void deep_posted(unsigned addressing)
{
    enum { TURN = 100 };
    struct list *posted = calloc(1, sizeof *posted);
    struct item turn[TURN];
    uint64_t state = 4242;
    open_deep(addressing);
    ptl_handle_eq_t eq = eq_new(4 * TURN);
    ptl_handle_ct_t acks = ct_new();
    ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acks);
    ptl_size_t acked = 0;
    if (rank() == TARGET) pt_at(PT, eq, 0);
    for (unsigned i = 0; i < DEPTH; i++) {
        struct item e = random_entry(&state, i, 2);
        list_add(posted, e);
        ptl_me_t me = entry_of(&e);
        if (rank() == TARGET) me_append(PT, &me, PTL_PRIORITY_LIST, (void *)(uintptr_t)i);
    }
    for (unsigned first = 0; first < DEPTH; first += TURN) {
        int source = 1 + (int)(first / TURN % 2);
        for (unsigned i = 0; i < TURN; i++) turn[i] = random_message(&state, first + i, source);
        barrier();
        if (rank() == source) send_turn(md, acks, &acked, turn, TURN);
        barrier();
        for (unsigned i = 0; i < TURN && rank() == TARGET; i++) {
            struct item *taker = list_take(posted, &turn[i], true);
            if (taker == NULL) continue; /* dropped */
            ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
            CHECK_EQ(ev.hdr_data, turn[i].number);
            CHECK_EQ((uintptr_t)ev.user_ptr, taker->number);
        }
        if (rank() == TARGET) no_event(eq, 0);
    }
    free(posted);
}

CASE(posted_logical, 3,
     "5000 posted entries, a fifth with wildcards, two senders: every message matches the entry that the model "
     "predicts")
{
    deep_posted(PTL_NI_LOGICAL);
}

CASE(posted_physical, 3, "the same with physical addressing")
{
    deep_posted(PTL_NI_PHYSICAL);
}

CASE(unexpected_deep, 3,
     "5000 unexpected messages of two senders: every appended entry matches the message that the model predicts")
{
    enum { TURN = 250 };
    struct list *waiting = calloc(1, sizeof *waiting);
    struct item turn[TURN];
    uint64_t state = 777;
    open_deep(PTL_NI_LOGICAL);
    ptl_handle_eq_t eq = eq_new(64);
    ptl_handle_ct_t acks = ct_new();
    ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acks);
    ptl_size_t acked = 0;
    if (rank() == TARGET) {
        pt_at(PT, eq, 0);
        append_catcher();
    }
    for (unsigned first = 0; first < DEPTH; first += TURN) {
        int source = 1 + (int)(first / TURN % 2);
        for (unsigned i = 0; i < TURN; i++) list_add(waiting, turn[i] = random_message(&state, first + i, source));
        barrier();
        if (rank() == source) send_turn(md, acks, &acked, turn, TURN);
    }
    barrier();
    unsigned found = 0;
    for (unsigned i = 0; i < DEPTH && rank() == TARGET; i++) {
        struct item e = random_entry(&state, i, 2);
        struct item *message = list_take(waiting, &e, false);
        ptl_me_t me = entry_of(&e);
        ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, (void *)(uintptr_t)i);
        if (message == NULL) { /* the entry is linked: remove it, so that it matches nothing */
            OK(PtlMEUnlink(entry));
            continue;
        }
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT_OVERFLOW);
        CHECK_EQ(ev.hdr_data, message->number);
        CHECK_EQ((uintptr_t)ev.user_ptr, i);
        CHECK_EQ(rank_of(ev.initiator), message->source);
        found++;
    }
    if (rank() == TARGET) {
        CHECK_OP(found, >, DEPTH / 2);
        no_event(eq, 10);
    }
    free(waiting);
}

/* Appends, sends to itself, unlinks and searches at random. After each step the events must equal the model's. */
CASE(random_steps, 1, "20000 random steps of appending, unlinking, searching and sending agree with the model")
{
    enum { STEPS = 20000, ENTRIES = 2 * DEPTH };
    struct list *posted = calloc(1, sizeof *posted), *waiting = calloc(1, sizeof *waiting);
    ptl_handle_me_t *handles = calloc(ENTRIES, sizeof *handles);
    uint64_t state = 31337;
    open_deep(PTL_NI_LOGICAL);
    ptl_handle_eq_t eq = eq_new(64);
    ptl_handle_ct_t acks = ct_new();
    ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acks);
    pt_at(PT, eq, 0);
    append_catcher();
    ptl_size_t acked = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned kind = (unsigned)(random_next(&state) % 10);
        if (kind < 4 && posted->count < ENTRIES) { /* append */
            struct item e = random_entry(&state, posted->count, 0), *message = list_take(waiting, &e, false);
            ptl_me_t me = entry_of(&e);
            handles[e.number] = me_append(PT, &me, PTL_PRIORITY_LIST, (void *)(uintptr_t)e.number);
            e.gone = message != NULL;
            list_add(posted, e);
            if (message == NULL) continue;
            ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT_OVERFLOW);
            CHECK_EQ(ev.hdr_data, message->number);
            CHECK_EQ((uintptr_t)ev.user_ptr, e.number);
        } else if (kind < 8 && waiting->count < ENTRIES) { /* send */
            struct item m = random_message(&state, step, 0), *taker = list_take(posted, &m, true);
            send_turn(md, acks, &acked, &m, 1);
            if (taker == NULL) {
                list_add(waiting, m);
                continue;
            }
            ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
            CHECK_EQ(ev.hdr_data, m.number);
            CHECK_EQ((uintptr_t)ev.user_ptr, taker->number);
        } else if (kind == 8 && posted->count > 0) { /* unlink */
            struct item *e = &posted->items[random_next(&state) % posted->count];
            if (e->gone) continue;
            OK(PtlMEUnlink(handles[e->number]));
            e->gone = true;
        } else { /* search, and take */
            struct item e = random_entry(&state, step, 0), *message = list_take(waiting, &e, false);
            ptl_me_t me = entry_of(&e);
            OK(PtlMESearch(ni(), PT, &me, PTL_SEARCH_DELETE, (void *)(uintptr_t)step));
            if (message) CHECK_EQ(expect_event(eq, PTL_EVENT_PUT_OVERFLOW).hdr_data, message->number);
            else expect_failure(eq, PTL_EVENT_SEARCH, PTL_NI_NO_MATCH);
        }
    }
    no_event(eq, 10);
    free(posted);
    free(waiting);
    free(handles);
}

CASE(list_entries_deep, 2, "5000 list entries are taken in the order in which they were appended")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_entries = desired.max_list_size = DEPTH;
    ni_open(PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, &desired, &actual);
    ptl_handle_eq_t eq = eq_new(DEPTH + 64);
    ptl_handle_ct_t acks = ct_new();
    if (rank() == TARGET) {
        pt_at(PT, eq, 0);
        ptl_le_t le = le_over(NULL, 0);
        le.options |= PTL_LE_USE_ONCE | PTL_LE_EVENT_UNLINK_DISABLE;
        for (uintptr_t i = 0; i < DEPTH; i++) le_append(PT, &le, PTL_PRIORITY_LIST, (void *)i);
    }
    barrier();
    if (rank() != TARGET) {
        ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acks);
        for (unsigned i = 0; i < DEPTH; i++) OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(TARGET), PT, 0, 0, NULL, i));
        expect_ct(acks, DEPTH, 0);
        return;
    }
    for (unsigned i = 0; i < DEPTH; i++) {
        ptl_event_t ev = expect_event(eq, PTL_EVENT_PUT);
        CHECK_EQ(ev.hdr_data, i);
        CHECK_EQ((uintptr_t)ev.user_ptr, i);
    }
}
