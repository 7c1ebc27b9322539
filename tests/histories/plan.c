/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The random choices of histories, and the model of their outcome.
 *
 * Drawn for the history: the participating ranks, the number of phases, FI_SOURCE, FI_THREAD_DOMAIN, the default kind of
 *   completion of sends.
 * Drawn for a phase: the barriers, the share of early receives, lengths, whether each sender has its own tags.
 * Drawn for a message: sender, receiver (also the sender itself), tagged or not, one of few tags, a length above or below a
 *   limit of the protocols, the call, FI_INJECT and the kinds of completion, remote CQ data, 1 to 4 pieces.
 * Drawn for a receive: one source or any, the tag and the ignored bits, room (also too little), the call, pieces;
 *   FI_MULTI_RECV; a peek, alone, with FI_DISCARD, or with FI_CLAIM and the claim later; a cancellation.
 *
 * The rules of libfabric leave one result
 * 1. A receive from any source is drawn only where the matching messages of the phase have one sender. So each receive
 *    matches messages of one sender only, and FI_ORDER_SAS orders those.
 * 2. Both sides then have one order of preference: a message takes the first receive in posting order, a receive the first
 *    message in sending order. This matching is the same whether messages or receives come first: the first receive gets the
 *    first message that fits it, the second receive the first remaining one, and so on. run_model() is these two loops.
 * 3. A receive that stays unmatched until the end never matches earlier. So it may be cancelled at any time.
 * 4. A peek is repeated until it finds its message, if it has one. All messages have been sent by then: a peek comes after
 *    the second barrier.
 */
#include "plan.h"

enum { NOBODYS_TAG = 0x77, SHORTS = 9 };
#define TAG_BASE 0x5a00000000000000ull

/* Lengths around each limit of the protocols. The first SHORTS are drawn more often. */
static const size_t LENGTHS[] = {0, 1, 8, 40, 41, 64, 104, 105, 200, 2048, 2049, 4096, 16384, 16385, BYTES_MAX};

const char *const ROLE_NAMES[] = {"receive",        "multi-receive", "peek", "peek and discard",
                                  "peek and claim", "claim",         "receive, cancelled"};

struct history history;
struct phase phase;

/* ---- Drawing ----------------------------------------------------------------------------------------------------- */

struct draw draw_for(uint64_t seed, uint64_t phase, uint64_t stream)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + phase * 0xbf58476d1ce4e5b9u + stream * 0x94d049bb133111ebu;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (struct draw){(z ^ z >> 31) | 1};
}

int below(struct draw *d, int bound) { return (int)((random_next(&d->state) >> 20) % (uint64_t)bound); }
bool percent(struct draw *d, int chance) { return below(d, 100) < chance; }

/* ---- The plan ---------------------------------------------------------------------------------------------------- */

void plan_history(uint64_t seed)
{
    struct draw d = draw_for(seed, 0, 99);
    static const uint64_t KINDS[] = {0, 0, 0, FI_DELIVERY_COMPLETE, FI_TRANSMIT_COMPLETE};
    history.seed = seed;
    history.parties = 2 + below(&d, ranks() - 1);
    history.phases = 3 + below(&d, 5);
    history.tells_source = percent(&d, 50);
    history.one_thread = percent(&d, 60);
    history.default_completion = KINDS[below(&d, COUNT_OF(KINDS))];
}

static void draw_message(struct draw *d, struct message *m, int number, int hot_sender, int hot_receiver)
{
    static const uint64_t COMPLETIONS[] = {0, 0, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_INJECT_COMPLETE,
                                           FI_TRANSMIT_COMPLETE};
    *m = (struct message){.number = number};
    m->from = percent(d, 40) ? hot_sender : below(d, history.parties);
    m->to = percent(d, 40) ? hot_receiver : below(d, history.parties);
    m->kind = percent(d, 75) ? TAGGED_MESSAGE : MESSAGE;
    if (m->kind == TAGGED_MESSAGE)
        m->tag = TAG_BASE | (uint64_t)below(d, 4) | (phase.own_tags ? (uint64_t)m->from << 8 : 0);
    m->bytes = LENGTHS[percent(d, 55) ? below(d, SHORTS) : below(d, phase.longest)];
    m->call = (enum call)below(d, CALLS);
    bool may_inject = m->bytes <= INJECTED_MAX;
    if (!may_inject && (m->call == INJECTED || m->call == INJECTED_WITH_DATA)) m->call = FLAGGED;
    m->has_data = m->call == WITH_DATA || m->call == INJECTED_WITH_DATA;
    m->pieces = 1;
    if (m->call == VECTOR || m->call == FLAGGED) m->pieces = 1 + below(d, PIECES_MAX);
    if (m->call != FLAGGED) return;
    m->has_data = percent(d, 40);
    m->flags = COMPLETIONS[below(d, COUNT_OF(COMPLETIONS))] | (m->has_data ? FI_REMOTE_CQ_DATA : 0);
    if (may_inject && percent(d, 40)) m->flags |= FI_INJECT;
}

void plan_messages(struct draw *d, int number, int first_message)
{
    phase = (struct phase){.number = number};
    phase.first_barrier = percent(d, 70);
    phase.second_barrier = percent(d, 70);
    phase.own_tags = percent(d, 50);
    phase.early_percent = percent(d, 50) ? 50 * below(d, 3) : below(d, 101);
    bool is_flood = percent(d, 15);
    phase.longest = is_flood || percent(d, 30) ? SHORTS : (int)COUNT_OF(LENGTHS);
    int hot_sender = below(d, history.parties), hot_receiver = below(d, history.parties);
    phase.messages_count = is_flood ? 200 + below(d, MESSAGES_MAX - 200) : 1 + below(d, 24 * history.parties);
    for (int i = 0; i < phase.messages_count; i++)
        draw_message(d, &phase.messages[i], first_message + i, hot_sender, hot_receiver);
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

static bool fits(const struct receive *r, const struct message *m)
{
    return m->to == rank() && m->kind == r->kind && (r->source < 0 || r->source == m->from) &&
           !((m->tag ^ r->tag) & ~r->ignore);
}

uint64_t sum_of(const unsigned char *bytes, size_t count)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

void fill_message(unsigned char *bytes, const struct message *m)
{
    pattern_fill(bytes, m->bytes, (unsigned)m->number);
    for (size_t i = 0; i < 4 && i < m->bytes; i++) bytes[i] = (unsigned char)(m->number >> 8 * i);
}

uint64_t data_of(const struct message *m) { return m->has_data ? 0xda7a000000000000u + (uint64_t)m->number : 0; }

void tell_number(struct outcome *o, const unsigned char *bytes)
{
    o->number = 0;
    o->number_bytes = 4;
    if (o->flags & FI_REMOTE_CQ_DATA) {
        o->number = o->data & UINT32_MAX;
        return;
    }
    o->number_bytes = !o->has_bytes ? 0 : o->bytes < 4 ? (int)o->bytes : 4;
    for (int i = 0; i < o->number_bytes; i++) o->number |= (uint64_t)bytes[i] << 8 * i;
}

struct outcome *outcome_add(struct outcomes *o, struct outcome one)
{
    o->list = realloc(o->list, sizeof one * (size_t)(o->count + 1));
    o->list[o->count++] = one;
    return &o->list[o->count - 1];
}

static void want_message(struct receive *r, const struct message *m)
{
    static unsigned char bytes[BYTES_MAX];
    bool looks = r->role == PEEK || r->role == DISCARD || r->role == PEEK_AND_CLAIM;
    size_t kept = looks || m->bytes < r->room || r->role == MANY ? m->bytes : r->room;
    struct outcome o = {
        .error = kept < m->bytes ? FI_ETRUNC : 0,
        .source = history.tells_source && kept == m->bytes ? m->from : -1,
        .has_bytes = !looks,
        .bytes = kept,
        .missing = m->bytes - kept,
        .tag = m->tag,
        .data = data_of(m),
        .flags = FI_RECV | kind_caps(m->kind) | (m->has_data ? FI_REMOTE_CQ_DATA : 0),
    };
    fill_message(bytes, m);
    tell_number(&o, bytes);
    if (o.has_bytes) o.sum = sum_of(bytes, kept);
    outcome_add(&r->wanted, o);
}

/* The model: this receive takes the first remaining message that fits it. */
static void run_model(struct receive *r)
{
    if (r->role == CLAIM) {
        const struct message *m = &phase.messages[phase.receives[r->claims].claimed];
        want_message(r, m);
        return;
    }
    size_t left = r->room;
    for (int i = 0; i < phase.messages_count && r->role != CANCELLED_BEFORE; i++) {
        const struct message *m = &phase.messages[i];
        if (phase.taken[i] || !fits(r, m)) continue;
        want_message(r, m);
        if (r->role != PEEK) phase.taken[i] = true;
        if (r->role == PEEK_AND_CLAIM) r->claimed = i;
        if (r->role != MANY) return;
        left -= m->bytes;
        r->used_up = left < BYTES_MAX;
        if (r->used_up) return;
    }
    if (r->role == PEEK || r->role == DISCARD || r->role == PEEK_AND_CLAIM) {
        outcome_add(&r->wanted, (struct outcome){.error = FI_ENOMSG});
    } else {
        r->cancelled = true;
        if (r->role != MANY) outcome_add(&r->wanted, (struct outcome){.error = FI_ECANCELED});
    }
}

/* ---- Planning receives ------------------------------------------------------------------------------------------- */

static bool has_one_sender(const struct receive *r)
{
    int sender = -1;
    for (int i = 0; i < phase.messages_count; i++) {
        const struct message *m = &phase.messages[i];
        if (!fits(r, m)) continue;
        if (sender >= 0 && sender != m->from) return false;
        sender = m->from;
    }
    return true;
}

static struct receive draw_receive(struct draw *d, const struct message *m, enum section section)
{
    static const uint64_t IGNORED[] = {0, 0, 0, 0, 1, 3, ~0ull};
    struct receive r = {.role = RECEIVE, .section = section, .kind = m->kind, .source = m->from, .tag = m->tag};
    if (m->kind == TAGGED_MESSAGE) r.ignore = IGNORED[below(d, COUNT_OF(IGNORED))];
    if (r.ignore && percent(d, 50)) r.tag ^= r.ignore & (uint64_t)below(d, 256);
    if (percent(d, 60)) {
        r.source = -1;
        if (!has_one_sender(&r)) r.source = m->from;
    }
    r.room = LENGTHS[below(d, COUNT_OF(LENGTHS))];
    if (r.room < m->bytes && percent(d, 80)) r.room = m->bytes;
    if (percent(d, 30)) r.room = m->bytes;
    r.flagged = percent(d, 30);
    r.pieces = percent(d, 25) ? 1 + below(d, PIECES_MAX) : 1;
    r.cancel_soon = percent(d, 50);
    return r;
}

static int add_receive(struct receive r)
{
    if (phase.receives_count == RECEIVES_MAX) FAIL("too many receives");
    struct receive *added = &phase.receives[phase.receives_count];
    *added = r;
    run_model(added);
    added->completes_as = added;
    return phase.receives_count++;
}

/* A buffer in use always has room for one message of any length, so no message is truncated. */
static void make_many(struct draw *d, struct receive *r)
{
    static const size_t MORE[] = {0, 100, 5000, BYTES_MAX};
    r->role = MANY;
    r->room = BYTES_MAX + MORE[below(d, COUNT_OF(MORE))];
    r->pieces = 1;
}

/* Draws a receive that is posted while the messages are under way, or before. */
static void add_some(struct draw *d, const struct message *m, enum section section)
{
    struct receive r = draw_receive(d, m, section);
    if (percent(d, 6)) { /* no message fits it */
        r.ignore = 0;
        r.kind = TAGGED_MESSAGE;
        r.tag = NOBODYS_TAG;
        if (percent(d, 50)) r.source = -1;
    } else if (r.kind == MESSAGE && percent(d, 15)) {
        make_many(d, &r);
    } else if (section == EARLY && phase.first_barrier && percent(d, 8)) {
        r.role = CANCELLED_BEFORE;
    }
    add_receive(r);
}

static const struct message *random_message(struct draw *d, bool only_left)
{
    static int candidates[MESSAGES_MAX];
    int count = 0;
    for (int i = 0; i < phase.messages_count; i++)
        if (phase.messages[i].to == rank() && !(only_left && phase.taken[i])) candidates[count++] = i;
    return count == 0 ? NULL : &phase.messages[candidates[below(d, count)]];
}

static void add_claims(struct draw *d, int *peeks, int *count, int keep)
{
    while (*count > keep) {
        int at = below(d, *count);
        struct receive *peek = &phase.receives[peeks[at]];
        struct receive claim = draw_receive(d, &phase.messages[peek->claimed], LATE);
        claim.role = CLAIM;
        claim.claims = peeks[at];
        claim.source = peek->source, claim.tag = peek->tag, claim.ignore = peek->ignore;
        peeks[at] = peeks[--*count];
        add_receive(claim);
    }
}

void plan_receives(struct draw *d)
{
    int all = 0;
    for (int i = 0; i < phase.messages_count; i++) all += phase.messages[i].to == rank();
    int early = all * phase.early_percent / 100, among = (all - early) * below(d, 101) / 100;
    for (int i = 0; i < early + among && all > 0; i++)
        add_some(d, random_message(d, percent(d, 70)) ?: random_message(d, false), i < early ? EARLY : AMONG);
    int peeks[RECEIVES_MAX], peeks_count = 0;
    const struct message *left;
    while ((left = random_message(d, true)) != NULL) {
        struct receive r = draw_receive(d, left, LATE);
        if (phase.second_barrier && r.kind == TAGGED_MESSAGE && percent(d, 30)) {
            static const enum role PEEKS[] = {PEEK, DISCARD, PEEK_AND_CLAIM, PEEK_AND_CLAIM};
            r.role = PEEKS[below(d, COUNT_OF(PEEKS))];
            if (percent(d, 5)) r.tag = NOBODYS_TAG, r.ignore = 0, r.role = PEEK;
        }
        if (r.kind == MESSAGE && percent(d, 15)) make_many(d, &r);
        int number = add_receive(r);
        if (r.role == PEEK_AND_CLAIM) peeks[peeks_count++] = number;
        add_claims(d, peeks, &peeks_count, 3);
    }
    add_claims(d, peeks, &peeks_count, 0);
}
