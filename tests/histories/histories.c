/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Random histories of messages between 2 to 4 ranks: HISTORIES of them (1), the first with the seed HISTORIES_SEED (1), each on its
 * own endpoints. All random choices follow from the seed. histories.rs runs each seed over several transports, and explains how to
 * repeat one.
 *
 * A history has a few phases. Everything that a phase sends is received in it. On each rank a phase is:
 *
 *     early receives, a barrier or none, sends with receives among them, a barrier or none, late receives, a barrier
 *
 * plan.c lists the random choices, and explains why libfabric's rules leave one result.
 *
 * Checked
 * 1. Each receive ends as the model predicts: error, sender, message, length, tag, data, flags, and a sum of its bytes. The
 *    outcomes of a FI_MULTI_RECV receive are in the order of their places in its buffer.
 * 2. No byte changes except those that a receive reports.
 * 3. Each operation completes once. A FI_MULTI_RECV buffer is released once, and only when it is used up or cancelled.
 * 4. The outcomes are printed in the order of phases, ranks and receives: two transports must print the same text.
 *
 * With HISTORIES_TRACE the ranks print the operations that they post, to standard error.
 */
#include "plan.h"

enum { MARGIN = 64, FILLER = 0xcc, LINES_BYTES = SHARED_BYTES / 4 };

/* Flags of completions that do not depend on the transport. */
#define TOLD (FI_RECV | FI_MSG | FI_TAGGED | FI_REMOTE_CQ_DATA)

static struct side *side;

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
        if (o.bytes > r->room) FAIL("%zu bytes are reported", o.bytes);
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

/* ---- Printed text ------------------------------------------------------------------------------------------------ */

/* Sorts the outcomes of a FI_MULTI_RECV buffer by their places. An empty message has the place of the next one: it goes first,
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

/* Fails if an outcome so far differs from the model's. */
static void compare_so_far(void)
{
    for (int i = 0; i < phase.receives_count; i++) {
        struct receive *r = &phase.receives[i];
        if (r->role == MANY && r->found.count != r->wanted.count) continue; /* their order is not known yet */
        if (r->role == MANY) sort_by_place(r);
        for (int piece = 0; piece < r->found.count && piece < r->wanted.count; piece++) {
            char wanted[LINE_BYTES], found[LINE_BYTES];
            line_of(wanted, r, &r->wanted.list[piece], piece);
            line_of(found, r, &r->found.list[piece], piece);
            if (strcmp(found, wanted) == 0) continue;
            about_receive(r);
            FAIL("the model differs\n  found:  %s  wanted: %s", found, wanted);
        }
    }
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

/* Waits until the expression holds. A failure names a wrong outcome, or else the operation that does not complete. */
#define TAKE_UNTIL(expr, ...)                                                                                          \
    for (long long until_ = now_ms() + WAIT_MS; !(expr);)                                                              \
        if (!take_all()) {                                                                                             \
            if (now_ms() > until_) {                                                                                   \
                compare_so_far();                                                                                      \
                FAIL(__VA_ARGS__);                                                                                     \
            }                                                                                                          \
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
        TAKE_UNTIL(r->found.count > 0, "the peek does not complete");
        if (r->found.list[0].error != FI_ENOMSG || r->wanted.list[0].error == FI_ENOMSG) return;
        if (now_ms() > until) compare_so_far();
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
        TAKE_UNTIL(r->role != MANY || r->given_back > 0, "the buffer is not released")
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

static void judge(char *lines, size_t room)
{
    compare_so_far();
    for (int i = 0; i < phase.receives_count; i++) {
        struct receive *r = &phase.receives[i];
        about_receive(r);
        CHECK_EQ(r->found.count, r->wanted.count);
        for (int piece = 0; piece < r->found.count; piece++) {
            char line[LINE_BYTES];
            size_t used = line_of(line, r, &r->found.list[piece], piece);
            if (used >= room) FAIL("too many lines");
            memcpy(lines, line, used + 1);
            lines += used, room -= used;
        }
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

CASE(histories, 4, "fi_msg, fi_tagged: random histories match in the order of sends and of receives")
{
    uint64_t first = number_from("HISTORIES_SEED"), count = number_from("HISTORIES");
    for (uint64_t seed = first; seed < first + count; seed++) run_history(seed);
}
