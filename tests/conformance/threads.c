/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Many threads of one process on one interface. Portals 4.3 is thread safe: any thread may make any call at any time, and
 * PtlEQWait wakes exactly one thread for each event.
 */
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PT = 9, BITS = 0xc7, THREADS = 6 };

static const ptl_ct_event_t one = {1, 0};

/* Runs `body` in this number of threads at once, each with its index, and waits for all of them. */
struct crew {
    void (*body)(int number, void *shared);
    void *shared;
    atomic_int ready;
    int count;
};

struct member {
    struct crew *crew;
    int number;
    pthread_t thread;
};

static void *member_run(void *opaque)
{
    struct member *m = opaque;
    atomic_fetch_add(&m->crew->ready, 1);
    while (atomic_load(&m->crew->ready) < m->crew->count) {
    }
    m->crew->body(m->number, m->crew->shared);
    return NULL;
}

static void in_threads(int count, void (*body)(int, void *), void *shared)
{
    struct crew crew = {.body = body, .shared = shared, .count = count};
    struct member members[16];
    CHECK_OP(count, <=, 16);
    for (int i = 0; i < count; i++) {
        members[i] = (struct member){.crew = &crew, .number = i};
        CHECK_OP(pthread_create(&members[i].thread, NULL, member_run, &members[i]), ==, 0);
    }
    for (int i = 0; i < count; i++)
        CHECK_OP(pthread_join(members[i].thread, NULL), ==, 0);
}

struct shared {
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    unsigned char *local, *exposed;
    atomic_int counted;
    atomic_bool stop;
};

/* ---- Initiating ----------------------------------------------------------------------------------------- */

enum { PIECE = 512, PUTS = 300 };

static void puts_of_one_thread(int number, void *opaque)
{
    struct shared *s = opaque;
    ptl_handle_ct_t ct = ct_new();
    unsigned char *mine = s->local + number * PIECE;
    ptl_handle_md_t md = md_new(mine, PIECE, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, PTL_EQ_NONE, ct);
    for (unsigned i = 0; i < PUTS; i++) {
        pattern_fill(mine, PIECE, i * 16 + (unsigned)number);
        OK(PtlPut(md, 0, PIECE, PTL_CT_ACK_REQ, peer(1), PT, BITS, (ptl_size_t)number * PIECE, NULL, 0));
        expect_ct(ct, 2 * i + 1, 0);
        memset(mine, 0, PIECE);
        OK(PtlGet(md, 0, PIECE, peer(1), PT, BITS, (ptl_size_t)number * PIECE, NULL));
        expect_ct(ct, 2 * i + 2, 0);
        CHECK_PATTERN(mine, PIECE, i * 16 + (unsigned)number);
    }
    OK(PtlMDRelease(md));
    OK(PtlCTFree(ct));
}

CASE(threads_put_and_get_at_once, 2, "threads of one process put and get concurrently, each with its own data")
{
    ni_matching();
    struct shared s = {.local = buffer(THREADS * PIECE), .exposed = buffer(THREADS * PIECE)};
    ptl_handle_ct_t arrived = ct_new();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(s.exposed, THREADS * PIECE, BITS);
    me.options |= PTL_ME_EVENT_CT_COMM;
    me.ct_handle = arrived;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0)
        in_threads(THREADS, puts_of_one_thread, &s);
    barrier();
    if (rank() == 1) {
        expect_ct(arrived, 2 * THREADS * PUTS, 0);
        for (unsigned i = 0; i < THREADS; i++)
            CHECK_PATTERN(s.exposed + i * PIECE, PIECE, (PUTS - 1) * 16 + i);
    }
}

static void puts_over_one_descriptor(int number, void *opaque)
{
    struct shared *s = opaque;
    for (ptl_hdr_data_t i = 0; i < 400; i++) {
        OK(PtlPut(s->md, 0, 8, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, (ptl_hdr_data_t)number << 32 | i));
        if (i % 50 == 49) /* the slowest thread limits the lead of the others */
            wait_ct(s->ct, i + 1);
    }
}

CASE(threads_share_a_descriptor, 2, "puts of several threads over one descriptor all count, each thread's in its order")
{
    ni_matching();
    struct shared s = {.eq = eq_new(THREADS * 400 + 8), .ct = ct_new(), .local = buffer(8)};
    s.md = md_new(s.local, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, s.ct);
    pt_at(PT, s.eq, 0);
    ptl_me_t me = me_over(buffer(8), 8, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        in_threads(THREADS, puts_over_one_descriptor, &s);
        expect_ct(s.ct, THREADS * 400, 0);
    } else {
        ptl_hdr_data_t next[THREADS] = {0};
        for (int i = 0; i < THREADS * 400; i++) {
            ptl_hdr_data_t hdr = expect_event(s.eq, PTL_EVENT_PUT).hdr_data;
            CHECK_OP(hdr >> 32, <, THREADS);
            CHECK_EQ(hdr & 0xffffffff, next[hdr >> 32]);
            next[hdr >> 32]++;
        }
    }
    barrier();
}

/* ---- Waiting -------------------------------------------------------------------------------------------- */

static void waits_for_counts(int number, void *opaque)
{
    struct shared *s = opaque;
    for (ptl_size_t i = 1; i <= 100; i++) {
        ptl_ct_event_t got = {0, 0};
        if (number % 2) {
            OK(PtlCTWait(s->ct, i, &got));
        } else {
            unsigned which;
            OK(PtlCTPoll(&s->ct, &i, 1, PTL_TIME_FOREVER, &got, &which));
        }
        CHECK_OP(got.success, >=, i);
    }
    atomic_fetch_add(&s->counted, 1);
}

CASE(threads_wait_for_one_counter, 2,
     "every thread that waits for a counter is woken when it reaches the thread's test")
{
    ni_matching();
    struct shared s = {.ct = ct_new(), .local = buffer(8)};
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(buffer(8), 8, BITS);
    me.options |= PTL_ME_EVENT_CT_COMM;
    me.ct_handle = s.ct;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t acked = ct_new();
        ptl_handle_md_t md = md_new(s.local, 8, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
        for (ptl_size_t i = 1; i <= 100; i++) {
            OK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
            wait_ct(acked, i);
            if (i % 10 == 0)
                sleep_ms(2);
        }
    } else {
        in_threads(THREADS, waits_for_counts, &s);
        CHECK_EQ(atomic_load(&s.counted), THREADS);
    }
    barrier();
}

enum { EVENTS_EACH = 150 };

static void takes_events(int number, void *opaque)
{
    struct shared *s = opaque;
    for (int i = 0; i < EVENTS_EACH; i++) {
        ptl_event_t ev;
        unsigned which;
        OK(number % 2 ? PtlEQWait(s->eq, &ev) : PtlEQPoll(&s->eq, 1, PTL_TIME_FOREVER, &ev, &which));
        CHECK_EQ(ev.type, PTL_EVENT_PUT);
        CHECK_OP(ev.hdr_data, <, THREADS * EVENTS_EACH);
        CHECK_EQ(s->local[ev.hdr_data]++, 0); /* only this thread may get this event */
        atomic_fetch_add(&s->counted, 1);
    }
}

CASE(threads_wait_for_one_queue, 2, "each event of a queue goes to exactly one of the threads that wait for it")
{
    ni_matching();
    struct shared s = {.eq = eq_new(THREADS * EVENTS_EACH), .local = buffer(THREADS * EVENTS_EACH)};
    pt_at(PT, s.eq, 0);
    ptl_me_t me = me_over(NULL, 0, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
        for (ptl_hdr_data_t i = 0; i < THREADS * EVENTS_EACH; i++) {
            OK(PtlPut(md, 0, 0, PTL_NO_ACK_REQ, peer(1), PT, BITS, 0, NULL, i));
            if (i % 100 == 99)
                sleep_ms(2);
        }
    } else {
        in_threads(THREADS, takes_events, &s);
        CHECK_EQ(atomic_load(&s.counted), THREADS * EVENTS_EACH);
        CHECK_BYTES(s.local, THREADS * EVENTS_EACH, 1);
        no_event(s.eq, 10);
    }
    barrier();
}

static void increments(int number, void *opaque)
{
    struct shared *s = opaque;
    (void)number;
    for (int i = 0; i < 2000; i++)
        OK(PtlCTInc(s->ct, i % 4 ? one : (ptl_ct_event_t){0, 1}));
}

CASE(threads_increment_one_counter, 1, "increments of several threads are all kept, in both fields")
{
    ni_matching();
    struct shared s = {.ct = ct_new()};
    in_threads(THREADS, increments, &s);
    expect_ct(s.ct, THREADS * 1500, THREADS * 500);
}

static void arms_and_fires(int number, void *opaque)
{
    struct shared *s = opaque;
    ptl_handle_ct_t trigger = ct_new();
    (void)number;
    for (ptl_size_t i = 1; i <= 300; i++) {
        OK(PtlTriggeredCTInc(s->ct, one, trigger, i));
        OK(PtlCTInc(trigger, one));
    }
    OK(PtlCTFree(trigger));
}

CASE(threads_arm_and_fire, 1, "triggered operations that threads arm and fire on counters of their own run once each")
{
    ni_matching();
    struct shared s = {.ct = ct_new()};
    in_threads(THREADS, arms_and_fires, &s);
    expect_ct(s.ct, THREADS * 300, 0);
}

static void arms_while_counting(int number, void *opaque)
{
    struct shared *s = opaque;
    for (ptl_size_t i = 1; i <= 200; i++) {
        if (number == 0)
            OK(PtlCTInc(s->ct, one));
        else
            OK(PtlTriggeredCTInc(s->md, one, s->ct, i)); /* md holds the second counter */
    }
}

CASE(arming_races_with_counting, 1, "an operation armed while its counter is counting fires exactly once")
{
    ptl_ni_limits_t wanted = limits_default();
    wanted.max_triggered_ops = THREADS * 200;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &wanted, NULL);
    for (int round = 0; round < 20; round++) {
        struct shared s = {.ct = ct_new(), .md = ct_new()};
        in_threads(THREADS, arms_while_counting, &s);
        expect_ct(s.md, (THREADS - 1) * 200, 0);
        OK(PtlCTFree(s.md));
        OK(PtlCTFree(s.ct));
    }
}

/* ---- Objects -------------------------------------------------------------------------------------------- */

static void makes_and_frees(int number, void *opaque)
{
    struct shared *s = opaque;
    for (int i = 0; i < 200; i++) {
        ptl_handle_eq_t eq;
        ptl_handle_ct_t ct;
        ptl_handle_md_t md;
        ptl_handle_me_t entry;
        ptl_event_t ev;
        OK(PtlEQAlloc(ni(), 8, &eq));
        OK(PtlCTAlloc(ni(), &ct));
        ptl_md_t wanted = {.start = s->local, .length = 8, .options = PTL_MD_EVENT_CT_ACK, .eq_handle = eq};
        wanted.ct_handle = ct;
        OK(PtlMDBind(ni(), &wanted, &md));
        ptl_me_t me = me_over(s->exposed + number * 8, 8, 1000 + (ptl_match_bits_t)number);
        OK(PtlMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, &entry));
        put(md, 8, 0, PT, 1000 + (ptl_match_bits_t)number, 0);
        ev = expect_send_ack(eq);
        CHECK_EQ(ev.mlength, 8);
        expect_ct(ct, 1, 0);
        OK(PtlMEUnlink(entry));
        OK(PtlMDRelease(md));
        OK(PtlEQFree(eq));
        OK(PtlCTFree(ct));
    }
}

CASE(threads_make_and_free_objects, 1,
     "threads allocate, use and free queues, counters, descriptors and entries at once")
{
    ni_matching();
    struct shared s = {.local = buffer(8), .exposed = buffer(8 * THREADS)};
    pt_at(PT, PTL_EQ_NONE, 0);
    in_threads(THREADS, makes_and_frees, &s);
}

static void appends_and_unlinks(int number, void *opaque)
{
    struct shared *s = opaque;
    (void)number;
    while (!atomic_load(&s->stop)) {
        ptl_handle_me_t entry;
        ptl_me_t me = me_over(s->exposed, 8, BITS);
        me.options |= PTL_ME_EVENT_CT_COMM;
        me.ct_handle = s->ct;
        OK(PtlMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, &entry));
        int rc;
        while ((rc = PtlMEUnlink(entry)) == PTL_IN_USE) {
        }
        CHECK_EQ(rc, PTL_OK);
        if (atomic_fetch_add(&s->counted, 1) > 200000)
            break;
    }
}

static void appends_while_main_waits(int number, void *opaque)
{
    struct shared *s = opaque;
    if (number == 0) {
        barrier(); /* the sender is done */
        atomic_store(&s->stop, true);
    } else {
        appends_and_unlinks(number, opaque);
    }
}

CASE(lists_change_under_traffic, 2, "entries are appended and unlinked by threads while messages come for them")
{
    enum { MESSAGES = 3000 };
    ni_matching();
    struct shared s = {.ct = ct_new(), .exposed = buffer(64), .local = buffer(8)};
    pt_at(PT, PTL_EQ_NONE, 0);
    barrier();
    unsigned delivered = 0, all[2];
    if (rank() == 0) {
        ptl_handle_eq_t eq = eq_new(16);
        ptl_handle_md_t md = md_new(s.local, 8, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
        for (int i = 0; i < MESSAGES; i++) {
            ptl_event_t ev;
            put(md, 8, 1, PT, BITS, 0);
            OK(wait_event(eq, &ev, 0));
            CHECK_EQ(ev.type, PTL_EVENT_ACK);
            CHECK_EITHER(ev.ni_fail_type, PTL_NI_OK, PTL_NI_DROPPED);
            delivered += ev.ni_fail_type == PTL_NI_OK;
        }
        barrier();
    } else {
        in_threads(4, appends_while_main_waits, &s);
    }
    exchange(&delivered, sizeof delivered, all);
    if (rank() == 1)
        expect_ct(s.ct, all[0], 0); /* the sender's completions agree with the count here */
    barrier();
}

/* ---- Beginning and ending ------------------------------------------------------------------------------- */

static void opens_the_interface(int number, void *opaque)
{
    ptl_handle_ni_t *handles = opaque;
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &handles[number]));
}

CASE(threads_open_one_interface, 1, "threads that initialise the same interface at once get the same handle")
{
    ptl_handle_ni_t handles[8];
    in_threads(8, opens_the_interface, handles);
    for (int i = 1; i < 8; i++)
        CHECK_EQ(handles[i], handles[0]);
    ptl_process_t id;
    for (int i = 0; i < 8; i++) {
        OK(PtlGetPhysId(handles[0], &id));
        OK(PtlNIFini(handles[0]));
    }
    CHECK_EQ(PtlGetPhysId(handles[0], &id), PTL_ARG_INVALID);
    for (int i = 0; i < 8; i++)
        PtlFini();
}

/* Threads in each of the four waiting calls, and thread 0, which ends all waits in one way. */
struct ending {
    struct shared shared;
    void (*end)(struct shared *s);
    int gives;
};

static void waits_until_ended(int number, void *opaque)
{
    struct ending *ending = opaque;
    struct shared *s = &ending->shared;
    ptl_ct_event_t count;
    ptl_event_t ev;
    ptl_size_t never = PTL_SIZE_MAX;
    unsigned which;
    int rc = PTL_OK;
    if (number == 0) {
        sleep_ms(80);
        ending->end(s);
        return;
    }
    switch (number % 4) {
    case 0: rc = PtlCTWait(s->ct, never, &count); break;
    case 1: rc = PtlCTPoll(&s->ct, &never, 1, PTL_TIME_FOREVER, &count, &which); break;
    case 2: rc = PtlEQWait(s->eq, &ev); break;
    case 3: rc = PtlEQPoll(&s->eq, 1, 60000, &ev, &which); break;
    }
    CHECK_EQ(rc, ending->gives);
    atomic_fetch_add(&s->counted, 1);
}

static struct shared check_ending(void (*end)(struct shared *), int gives)
{
    ni_matching();
    struct ending ending = {.shared = {.eq = eq_new(8), .ct = ct_new()}, .end = end, .gives = gives};
    in_threads(13, waits_until_ended, &ending);
    CHECK_EQ(atomic_load(&ending.shared.counted), 12);
    return ending.shared;
}

static void aborts(struct shared *s)
{
    (void)s;
    PtlAbort();
}

CASE(abort_wakes_every_thread, 1, "PtlAbort wakes all threads, in any of the four waiting calls")
{
    struct shared s = check_ending(aborts, PTL_ABORTED);
    OK(PtlEQFree(s.eq));
    OK(PtlCTFree(s.ct));
}

static void closes(struct shared *s)
{
    (void)s;
    ni_close(ni());
}

CASE(closing_wakes_every_thread, 1, "PtlNIFini wakes all threads with PTL_INTERRUPTED, in any waiting call")
{
    check_ending(closes, PTL_INTERRUPTED);
}

static void frees(struct shared *s)
{
    OK(PtlEQFree(s->eq));
    OK(PtlCTFree(s->ct));
}

CASE(freeing_wakes_every_thread, 1,
     "PtlCTFree and PtlEQFree wake the threads that wait for the object with PTL_INTERRUPTED, in any call")
{
    struct shared s = check_ending(frees, PTL_INTERRUPTED);
    ptl_ct_event_t count;
    ptl_event_t ev;
    CHECK_EQ(PtlCTWait(s.ct, 0, &count), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQWait(s.eq, &ev), PTL_ARG_INVALID);
}
