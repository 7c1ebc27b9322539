/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random histories of messages between 2 to 4 ranks: as many as HISTORIES says (1), the first with the seed HISTORIES_SEED (1),
 * each on endpoints of its own. All that is drawn follows from the seed. histories.rs runs each seed over several transports;
 * see there for how to repeat one.
 *
 * A history is a few phases. Everything that a phase sends is received in it. A phase is, on each rank:
 *
 *     early receives, a barrier or none, sends with receives among them, a barrier or none, late receives, a barrier
 *
 * Drawn for the history: the ranks that take part, the number of phases, FI_SOURCE, FI_THREAD_DOMAIN, the default kind of
 *   completion of sends.
 * Drawn for a phase: the barriers, the share of early receives, lengths, whether each sender has tags of its own.
 * Drawn for a message: sender, receiver (also the sender itself), tagged or not, one of few tags, a length on either side of
 *   the limits of the protocols, the call, FI_INJECT and the kinds of completion, remote CQ data, 1 to 4 pieces.
 * Drawn for a receive: one source or any, the tag and the bits that are ignored, room (also too little), the call, pieces;
 *   FI_MULTI_RECV; a peek, alone, with FI_DISCARD, or with FI_CLAIM and the claim later; a cancellation.
 *
 * The rules of libfabric leave one result
 * 1. A receive from any source is drawn only where the messages of the phase that fit it have one sender. So each receive
 *    meets the messages of one sender only, and FI_ORDER_SAS orders those.
 * 2. Both sides then have one order of preference: a message takes the first receive in the order posted, a receive the first
 *    message in the order sent. Such a matching is the same whether messages or receives come first: the first receive has the
 *    first message that fits it, the second receive the first one that is left, and so on. run_model() is these two loops.
 * 3. A receive that is left over in the end matches at no time before. So it may be cancelled at any time.
 * 4. A peek is repeated until it finds its message, if it has one. All messages are under way by then: a peek is after the
 *    second barrier.
 *
 * Checked
 * 1. Each receive ends as the model says: error, sender, message, length, tag, data, flags, and a sum of its bytes. The
 *    outcomes of a FI_MULTI_RECV receive are in the order of their places in its buffer.
 * 2. No byte changes beside those that a receive tells.
 * 3. Each operation completes once. A FI_MULTI_RECV buffer goes back once, and only when it is used up or cancelled.
 * 4. The outcomes are printed in the order of phases, ranks and receives: two transports must print the same text.
 *
 * With HISTORIES_TRACE the ranks print what they post, to standard error.
 */
#include "transfers.h"

enum {
    MESSAGES_MAX = 512,
    RECEIVES_MAX = 2 * MESSAGES_MAX + 64,
    BYTES_MAX = 102400,
    INJECTED_MAX = 2049,
    PIECES_MAX = 4,
    MARGIN = 64,
    FILLER = 0xcc,
    LINES_BYTES = SHARED_BYTES / 4,
    NOBODYS_TAG = 0x77
};

/* The flags of completions that do not depend on the transport. */
#define TOLD (FI_RECV | FI_MSG | FI_TAGGED | FI_REMOTE_CQ_DATA)
#define TAG_BASE 0x5a00000000000000ull

static const size_t LENGTHS[] = {0, 1, 8, 40, 41, 64, 104, 105, 200, 2048, 2049, 4096, 16384, 16385, BYTES_MAX};
enum { SHORTS = 9 };

/* ---- Drawing ----------------------------------------------------------------------------------------------------- */

/* A stream of random numbers. Messages have one, which is the same on all ranks; the receives of each rank have another. */
struct draw {
    uint64_t state;
};

static struct draw draw_for(uint64_t seed, uint64_t phase, uint64_t stream)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + phase * 0xbf58476d1ce4e5b9u + stream * 0x94d049bb133111ebu;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (struct draw){(z ^ z >> 31) | 1};
}

static int below(struct draw *d, int bound) { return (int)((random_next(&d->state) >> 20) % (uint64_t)bound); }
static bool percent(struct draw *d, int chance) { return below(d, 100) < chance; }

/* ---- The plan ---------------------------------------------------------------------------------------------------- */

struct history {
    uint64_t seed;
    int parties, phases; /* ranks from `parties` on only wait in the barriers */
    bool tells_source, one_thread;
    uint64_t default_completion; /* of sends */
};

enum call { PLAIN, VECTOR, FLAGGED, INJECTED, WITH_DATA, INJECTED_WITH_DATA, CALLS };

struct message {
    int number; /* in the history */
    int from, to;
    enum kind kind;
    uint64_t tag;
    size_t bytes;
    enum call call;
    uint64_t flags;
    bool has_data;
    int pieces;
};

enum role { RECEIVE, MANY, PEEK, DISCARD, PEEK_AND_CLAIM, CLAIM, CANCELLED_BEFORE };
static const char *const ROLE_NAMES[] = {"receive",        "multi-receive", "peek", "peek and discard",
                                         "peek and claim", "claim",         "receive, cancelled"};
enum section { EARLY, AMONG, LATE };

/* What became of a receive. The model makes the same as the completions do. */
struct outcome {
    int error;
    int source;     /* -1: not told */
    bool has_bytes; /* a peek has none */
    size_t bytes, missing;
    uint64_t tag, data, flags;
    uint64_t number; /* of the message, as far as data or bytes tell it; its low `number_bytes` bytes */
    int number_bytes;
    uint64_t sum;
};

struct outcomes {
    struct outcome *list;
    int count;
};

struct receive {
    struct fi_context context; /* first: a completion leads to the receive */
    enum role role;
    enum section section;
    enum kind kind;
    int source; /* -1: any */
    uint64_t tag, ignore;
    size_t room;
    bool flagged; /* the call that takes flags */
    int pieces;
    bool cancel_soon; /* if nothing matches it: right after it is posted, not in the end */
    int claimed_by;   /* of a peek: the number of its claim */
    int claims;       /* of a claim: the number of its peek */
    struct outcomes wanted, found;
    bool used_up, cancelled; /* used_up: of a FI_MULTI_RECV buffer */
    int given_back;
    const unsigned char **places; /* of the outcomes found, for FI_MULTI_RECV */
    struct receive *completes_as;
    unsigned char *block;
};

struct send {
    struct fi_context context;
    int completions, completions_wanted;
    unsigned char *bytes;
};

struct phase {
    int number;
    bool first_barrier, second_barrier, own_tags;
    int early_percent, longest; /* an index into LENGTHS, exclusive */
    struct message messages[MESSAGES_MAX];
    int messages_count;
    bool taken[MESSAGES_MAX]; /* by receives of this rank */
    struct receive receives[RECEIVES_MAX];
    int receives_count;
    struct send sends[MESSAGES_MAX];
};

static struct history history;
static struct phase phase;
static struct side *side;

static void plan_history(uint64_t seed)
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

static void plan_messages(struct draw *d, int number, int first_message)
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

static uint64_t sum_of(const unsigned char *bytes, size_t count)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

/* Data that show in every part which message they are; the first four bytes are its number. */
static void fill_message(unsigned char *bytes, const struct message *m)
{
    pattern_fill(bytes, m->bytes, (unsigned)m->number);
    for (size_t i = 0; i < 4 && i < m->bytes; i++) bytes[i] = (unsigned char)(m->number >> 8 * i);
}

static uint64_t data_of(const struct message *m) { return m->has_data ? 0xda7a000000000000u + (uint64_t)m->number : 0; }

/* Which message it was, by what the receiver sees of it. */
static void tell_number(struct outcome *o, const unsigned char *bytes)
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

static struct outcome *outcome_add(struct outcomes *o, struct outcome one)
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

/* The model: this receive takes the first message that is left and fits it. */
static void run_model(struct receive *r)
{
    if (r->role == CLAIM) {
        const struct message *m = &phase.messages[phase.receives[r->claims].claimed_by];
        want_message(r, m);
        return;
    }
    size_t left = r->room;
    for (int i = 0; i < phase.messages_count && r->role != CANCELLED_BEFORE; i++) {
        const struct message *m = &phase.messages[i];
        if (phase.taken[i] || !fits(r, m)) continue;
        want_message(r, m);
        if (r->role != PEEK) phase.taken[i] = true;
        if (r->role == PEEK_AND_CLAIM) r->claimed_by = i;
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

/* A receive that fits this message, and perhaps others before it. */
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

/* Room for one message of any length is always left in a buffer that is in use: no message is cut off. */
static void make_many(struct draw *d, struct receive *r)
{
    static const size_t MORE[] = {0, 100, 5000, BYTES_MAX};
    r->role = MANY;
    r->room = BYTES_MAX + MORE[below(d, COUNT_OF(MORE))];
    r->pieces = 1;
}

/* A receive that is posted while the messages are on their way, or before. */
static void add_some(struct draw *d, const struct message *m, enum section section)
{
    struct receive r = draw_receive(d, m, section);
    if (percent(d, 6)) { /* nothing fits it */
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
        struct receive claim = draw_receive(d, &phase.messages[peek->claimed_by], LATE);
        claim.role = CLAIM;
        claim.claims = peeks[at];
        claim.source = peek->source, claim.tag = peek->tag, claim.ignore = peek->ignore;
        peeks[at] = peeks[--*count];
        add_receive(claim);
    }
}

static void plan_receives(struct draw *d)
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

/* ---- Completions ------------------------------------------------------------------------------------------------- */

static int number_of(const struct receive *r) { return (int)(r - phase.receives); }

static void about_receive(const struct receive *r)
{
    about("seed %llu, phase %d, receive %d (%s of a %s, source %d, tag 0x%llx, ignore 0x%llx, room %zu)",
          (unsigned long long)history.seed, phase.number, number_of(r), ROLE_NAMES[r->role], kind_name(r->kind), r->source,
          (unsigned long long)r->tag, (unsigned long long)r->ignore, r->room);
}

static struct receive *receive_of(void *context)
{
    struct receive *r = context;
    if (r < phase.receives || r >= phase.receives + phase.receives_count) FAIL("a completion has no receive: %p", context);
    return r->completes_as;
}

static int rank_at(fi_addr_t source)
{
    for (int r = 0; r < ranks(); r++)
        if (source == to(r)) return r;
    return -2;
}

static void keep(struct receive *r, struct outcome o, const unsigned char *place)
{
    o.has_bytes = (o.error == 0 || o.error == FI_ETRUNC) &&
                  !(r->role == PEEK || r->role == DISCARD || r->role == PEEK_AND_CLAIM);
    if (o.has_bytes) {
        if (o.bytes > r->room) FAIL("%zu bytes are told", o.bytes);
        o.sum = sum_of(place, o.bytes);
    }
    if (o.error == 0 || o.error == FI_ETRUNC) tell_number(&o, place);
    r->places = realloc(r->places, sizeof r->places[0] * (size_t)(r->found.count + 1));
    r->places[r->found.count] = place;
    outcome_add(&r->found, o);
}

static void take_error(void)
{
    struct fi_cq_err_entry e = {0};
    CHECK_RC(fi_cq_readerr(side->rx, &e, 0), 1);
    struct receive *r = receive_of(e.op_context);
    about_receive(r);
    if (r->role == MANY && e.err == FI_ECANCELED) {
        r->given_back++;
        return;
    }
    struct outcome o = {.error = e.err, .source = -1};
    if (e.err == FI_ETRUNC)
        o.bytes = e.len, o.missing = e.olen, o.tag = e.tag, o.data = e.data, o.flags = e.flags & TOLD;
    if (!(o.flags & FI_REMOTE_CQ_DATA)) o.data = 0;
    if (r->kind == MESSAGE) o.tag = 0;
    keep(r, o, r->block + MARGIN);
}

static void take_receive(const struct fi_cq_tagged_entry *e, fi_addr_t source)
{
    struct receive *r = receive_of(e->op_context);
    about_receive(r);
    if (r->role == MANY && e->flags & FI_MULTI_RECV) r->given_back++;
    if (r->role == MANY && !(e->flags & FI_RECV)) return;
    struct outcome o = {.source = history.tells_source ? rank_at(source) : -1, .bytes = e->len, .flags = e->flags & TOLD};
    if (o.flags & FI_REMOTE_CQ_DATA) o.data = e->data;
    if (r->kind == TAGGED_MESSAGE) o.tag = e->tag;
    const unsigned char *place = r->block + MARGIN;
    if (r->role == MANY) {
        place = e->buf;
        if (place < r->block + MARGIN || place + e->len > r->block + MARGIN + r->room) FAIL("a message is elsewhere");
    }
    keep(r, o, place);
}

/* Takes all completions that are there. */
static bool take_all(void)
{
    enum { AT_ONCE = 8 };
    struct fi_cq_tagged_entry entries[AT_ONCE];
    fi_addr_t sources[AT_ONCE] = {0};
    bool any = false;
    for (;; any = true) {
        size_t room = 1 + (size_t)(history.seed + (uint64_t)phase.number) % AT_ONCE;
        ssize_t got = history.tells_source ? fi_cq_readfrom(side->rx, entries, room, sources)
                                           : fi_cq_read(side->rx, entries, room);
        if (got == -FI_EAGAIN) break;
        if (got == -FI_EAVAIL) {
            take_error();
            continue;
        }
        CHECK_OP(got, >, 0);
        for (ssize_t i = 0; i < got; i++) take_receive(&entries[i], sources[i]);
    }
    struct completion c;
    while (TAKE(side, side->tx, &c)) {
        struct send *s = c.context;
        if (s < phase.sends || s >= phase.sends + phase.messages_count) FAIL("a completion has no send: %p", c.context);
        s->completions++;
        any = true;
    }
    return any;
}

/* Until the expression holds; a failure names the receive or the message that is missing. */
#define TAKE_UNTIL(expr, ...)                                                                                          \
    for (long long until_ = now_ms() + WAIT_MS; !(expr);)                                                              \
        if (!take_all()) {                                                                                             \
            if (now_ms() > until_) FAIL(__VA_ARGS__);                                                                  \
            progress();                                                                                                \
        }

#define POST_TAKING(call)                                                                                              \
    do {                                                                                                               \
        ssize_t posted_ = -FI_EAGAIN;                                                                                  \
        TAKE_UNTIL((posted_ = (call)) != -FI_EAGAIN, "%s is -FI_EAGAIN for %d ms", #call, WAIT_MS)                     \
        OK(posted_);                                                                                                   \
    } while (0)

/* ---- Posting ----------------------------------------------------------------------------------------------------- */

static void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void trace(const char *format, ...)
{
    static int wanted = -1;
    if (wanted < 0) wanted = getenv("HISTORIES_TRACE") != NULL;
    if (!wanted) return;
    char line[512];
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    __builtin_va_end(arguments);
    fprintf(stderr, "phase %d, rank %d: %s\n", phase.number, rank(), line);
}

/* Cuts memory into pieces of different lengths, some of them empty. */
static void cut(struct iovec *pieces, int count, unsigned char *start, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        size_t length = i == count - 1 ? bytes : i % 2 ? bytes / 3 : bytes / 2;
        pieces[i] = (struct iovec){start, length};
        start += length;
        bytes -= length;
    }
}

static void post_send(int at)
{
    const struct message *m = &phase.messages[at];
    struct send *s = &phase.sends[at];
    about("seed %llu, phase %d, message %d of %zu bytes to %d", (unsigned long long)history.seed, phase.number, m->number,
          m->bytes, m->to);
    trace("sends %s %d to %d, %zu bytes, tag 0x%llx, call %d, flags 0x%llx, %d pieces", kind_name(m->kind), m->number, m->to,
          m->bytes, (unsigned long long)m->tag, m->call, (unsigned long long)m->flags, m->pieces);
    s->bytes = malloc(m->bytes + 1);
    fill_message(s->bytes, m);
    struct iovec pieces[PIECES_MAX];
    cut(pieces, m->pieces, s->bytes, m->bytes);
    struct transfer t = to_peer(s->bytes, m->bytes, to(m->to), m->tag, &s->context);
    t.data = data_of(m);
    t.iov = pieces, t.count = m->call == VECTOR || m->call == FLAGGED ? (size_t)m->pieces : 0;
    switch (m->call) {
    case VECTOR: POST_TAKING(send_vector(m->kind, side, t)); break;
    case FLAGGED: POST_TAKING(send_flagged(m->kind, side, t, m->flags)); break;
    case INJECTED: POST_TAKING(inject(m->kind, side, t)); break;
    case WITH_DATA: POST_TAKING(send_with_data(m->kind, side, t)); break;
    case INJECTED_WITH_DATA: POST_TAKING(inject_with_data(m->kind, side, t)); break;
    default: POST_TAKING(send_one(m->kind, side, t));
    }
    bool injects = m->call == INJECTED || m->call == INJECTED_WITH_DATA;
    s->completions_wanted = !injects;
    if (injects || m->flags & FI_INJECT) memset(s->bytes, 0xee, m->bytes); /* the memory is the program's again */
}

static void cancel(struct receive *r)
{
    about_receive(r);
    trace("cancels %d", number_of(r));
    OK(fi_cancel(&side->ep->fid, &r->context));
}

static void post_receive(struct receive *r)
{
    about_receive(r);
    trace("posts %d, %s of a %s, source %d, tag 0x%llx, ignore 0x%llx, room %zu", number_of(r), ROLE_NAMES[r->role],
          kind_name(r->kind), r->source, (unsigned long long)r->tag, (unsigned long long)r->ignore, r->room);
    r->block = malloc(r->room + 2 * MARGIN);
    memset(r->block, FILLER, r->room + 2 * MARGIN);
    struct iovec pieces[PIECES_MAX];
    cut(pieces, r->pieces, r->block + MARGIN, r->room);
    struct transfer t = from_any(r->block + MARGIN, r->room, r->tag, &r->context);
    if (r->source >= 0) t.peer = to(r->source);
    t.ignore = r->ignore;
    struct transfer look = t;
    look.buf = NULL, look.len = 0;
    if (r->pieces > 1) t.iov = pieces, t.count = (size_t)r->pieces;
    uint64_t flags = 0;
    switch (r->role) {
    case MANY: POST_TAKING(receive_flagged(r->kind, side, t, FI_MULTI_RECV)); return;
    case PEEK: flags = FI_PEEK; break;
    case DISCARD: flags = FI_PEEK | FI_DISCARD; break;
    case PEEK_AND_CLAIM: flags = FI_PEEK | FI_CLAIM; break;
    case CLAIM: {
        struct receive *peek = &phase.receives[r->claims];
        peek->completes_as = r;
        t.context = &peek->context;
        POST_TAKING(receive_flagged(r->kind, side, t, FI_CLAIM));
        return;
    }
    default:
        if (r->flagged) POST_TAKING(receive_flagged(r->kind, side, t, FI_COMPLETION));
        else if (r->pieces > 1) POST_TAKING(receive_vector(r->kind, side, t));
        else POST_TAKING(receive(r->kind, side, t));
        if (r->role == CANCELLED_BEFORE || (r->role == RECEIVE && r->cancelled && r->cancel_soon)) cancel(r);
        return;
    }
    long long until = now_ms() + WAIT_MS;
    for (;;) {
        POST_TAKING(receive_flagged(r->kind, side, look, flags));
        TAKE_UNTIL(r->found.count > 0, "the peek tells nothing");
        if (r->found.list[0].error != FI_ENOMSG || r->wanted.list[0].error == FI_ENOMSG) return;
        if (now_ms() > until) FAIL("the peek does not find its message within %d ms", WAIT_MS);
        r->found.count = 0;
    }
}

/* ---- A phase ----------------------------------------------------------------------------------------------------- */

static void post_section(enum section section)
{
    for (int i = 0; i < phase.receives_count; i++)
        if (phase.receives[i].section == section) post_receive(&phase.receives[i]);
}

static void post_sends_and_receives(struct draw *d)
{
    int message = 0, receive = 0;
    for (;;) {
        while (message < phase.messages_count && phase.messages[message].from != rank()) message++;
        while (receive < phase.receives_count && phase.receives[receive].section != AMONG) receive++;
        bool sends = message < phase.messages_count, receives = receive < phase.receives_count;
        if (!sends && !receives) return;
        if (sends && receives) sends = percent(d, 50);
        if (sends) post_send(message++);
        else post_receive(&phase.receives[receive++]);
        if (percent(d, 20)) take_all();
    }
}

static void finish_receives(void)
{
    for (int i = 0; i < phase.receives_count; i++) {
        struct receive *r = &phase.receives[i];
        about_receive(r);
        bool waits_for_cancel = r->role == RECEIVE && r->cancelled && !r->cancel_soon;
        if (waits_for_cancel) continue;
        TAKE_UNTIL(r->found.count >= r->wanted.count, "%d of %d completions came", r->found.count, r->wanted.count)
    }
    for (int i = 0; i < phase.receives_count; i++) {
        struct receive *r = &phase.receives[i];
        if (r->cancelled && (r->role == MANY || (r->role == RECEIVE && !r->cancel_soon))) cancel(r);
    }
    for (int i = 0; i < phase.receives_count; i++) {
        struct receive *r = &phase.receives[i];
        about_receive(r);
        TAKE_UNTIL(r->found.count >= r->wanted.count, "the cancellation does not complete")
        TAKE_UNTIL(r->role != MANY || r->given_back > 0, "the buffer does not come back")
    }
}

static void finish_sends(void)
{
    for (int i = 0; i < phase.messages_count; i++) {
        struct send *s = &phase.sends[i];
        about("seed %llu, phase %d, message %d to %d", (unsigned long long)history.seed, phase.number,
              phase.messages[i].number, phase.messages[i].to);
        TAKE_UNTIL(s->completions >= s->completions_wanted, "the send does not complete")
    }
}

/* ---- Judging ----------------------------------------------------------------------------------------------------- */

/* The outcomes of a FI_MULTI_RECV buffer by their places. An empty message has the place of the next one: it goes first,
 * and empty messages at one place keep the order of their completions. */
static void sort_by_place(struct receive *r)
{
    for (int i = 1; i < r->found.count; i++)
        for (int k = i; k > 0; k--) {
            struct outcome *o = &r->found.list[k];
            const unsigned char **p = &r->places[k];
            if (p[-1] < p[0] || (p[-1] == p[0] && (o[-1].bytes == 0 || o[0].bytes != 0))) break;
            struct outcome other = o[0];
            o[0] = o[-1], o[-1] = other;
            const unsigned char *place = p[0];
            p[0] = p[-1], p[-1] = place;
        }
}

static void check_block_of(const struct receive *r)
{
    const unsigned char *at = r->block, *end = r->block + r->room + 2 * MARGIN;
    for (int i = 0; i <= r->found.count; i++) {
        bool is_last = i == r->found.count;
        if (!is_last && !r->found.list[i].has_bytes) continue;
        const unsigned char *until = is_last ? end : r->places[i];
        if (until > at) CHECK_BYTES(at, (size_t)(until - at), FILLER);
        if (!is_last) at = until + r->found.list[i].bytes;
    }
}

enum { LINE_BYTES = 512 };

static size_t line_of(char *line, const struct receive *r, const struct outcome *o, int piece)
{
    char number[32];
    snprintf(number, sizeof number, o->number_bytes == 4 ? "%llu" : o->number_bytes ? "..%llu" : "?",
             (unsigned long long)o->number);
    char ending[LINE_BYTES / 2];
    if (o->error != 0 && o->error != FI_ETRUNC) snprintf(ending, sizeof ending, "%s", fi_strerror(o->error));
    else
        snprintf(ending, sizeof ending,
                 "from %d message %s, %zu bytes%s, %zu cut off, tag 0x%llx, data 0x%llx, flags 0x%llx, sum 0x%llx", o->source,
                 number, o->bytes, o->error ? " (truncated)" : "", o->missing, (unsigned long long)o->tag,
                 (unsigned long long)o->data, (unsigned long long)o->flags, (unsigned long long)o->sum);
    return (size_t)snprintf(line, LINE_BYTES, "phase %d rank %d receive %d.%d (%s): %s\n", phase.number, rank(), number_of(r),
                            piece, ROLE_NAMES[r->role], ending);
}

/* Compares with the model; writes the lines. */
static void judge(char *lines, size_t room)
{
    for (int i = 0; i < phase.receives_count; i++) {
        struct receive *r = &phase.receives[i];
        about_receive(r);
        if (r->role == MANY) sort_by_place(r);
        for (int piece = 0; piece < r->found.count && piece < r->wanted.count; piece++) {
            char wanted[LINE_BYTES], found[LINE_BYTES];
            line_of(wanted, r, &r->wanted.list[piece], piece);
            size_t used = line_of(found, r, &r->found.list[piece], piece);
            if (strcmp(found, wanted) != 0) FAIL("the model differs\n  found:  %s  wanted: %s", found, wanted);
            if (used >= room) FAIL("too many lines");
            memcpy(lines, found, used + 1);
            lines += used, room -= used;
        }
        CHECK_EQ(r->found.count, r->wanted.count);
        CHECK_EQ(r->given_back, r->role == MANY);
        check_block_of(r);
    }
    for (int i = 0; i < phase.messages_count; i++) {
        about("seed %llu, phase %d, message %d", (unsigned long long)history.seed, phase.number, phase.messages[i].number);
        CHECK_EQ(phase.sends[i].completions, phase.sends[i].completions_wanted);
    }
}

static void free_phase(void)
{
    for (int i = 0; i < phase.receives_count; i++) {
        struct receive *r = &phase.receives[i];
        free(r->block);
        free(r->wanted.list);
        free(r->found.list);
        free(r->places);
    }
    for (int i = 0; i < phase.messages_count; i++) free(phase.sends[i].bytes);
}

static void run_phase(struct draw *own)
{
    post_section(EARLY);
    if (phase.first_barrier) barrier();
    post_sends_and_receives(own);
    if (phase.second_barrier) barrier();
    post_section(LATE);
    finish_receives();
    finish_sends();
    barrier();
    take_all(); /* there must be no further completion */
    char *lines = (char *)shared() + (size_t)rank() * LINES_BYTES;
    lines[0] = '\0';
    judge(lines, LINES_BYTES);
    about("seed %llu, after phase %d", (unsigned long long)history.seed, phase.number);
    barrier();
    for (int r = 0; r < ranks() && rank() == 0; r++) fputs((char *)shared() + (size_t)r * LINES_BYTES, stdout);
    barrier();
    free_phase();
}

static void run_history(uint64_t seed)
{
    plan_history(seed);
    if (rank() == 0) printf("seed %llu: %d ranks, %d phases\n", (unsigned long long)seed, history.parties, history.phases);
    uint64_t caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV | FI_MULTI_RECV | (history.tells_source ? FI_SOURCE : 0);
    side = job_open((struct wants){
        .caps = caps,
        .mode = FI_CONTEXT,
        .threading = history.one_thread ? FI_THREAD_DOMAIN : FI_THREAD_UNSPEC,
        .order = FI_ORDER_SAS,
        .tx_op_flags = history.default_completion,
    });
    CHECK_OP(side->info->tx_attr->inject_size, >=, INJECTED_MAX);
    size_t least = BYTES_MAX;
    OK(fi_setopt(&side->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    for (int number = 0, first_message = 0; number < history.phases; number++) {
        struct draw d = draw_for(seed, (uint64_t)number, 0);
        plan_messages(&d, number, first_message);
        first_message += phase.messages_count;
        struct draw own = draw_for(seed, (uint64_t)number, 1 + (uint64_t)rank());
        plan_receives(&own);
        run_phase(&own);
    }
    about("seed %llu, at its end", (unsigned long long)seed);
    barrier(); /* others may still need this endpoint */
    side_close(side);
}

static uint64_t number_from(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 0) : 1;
}

CASE(histories, 4, "fi_msg, fi_tagged: random histories are matched as the order of sends and of receives says")
{
    uint64_t first = number_from("HISTORIES_SEED"), count = number_from("HISTORIES");
    for (uint64_t seed = first; seed < first + count; seed++) run_history(seed);
}
