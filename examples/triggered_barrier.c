/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * triggered_barrier: collectives that the NICs complete without the host. A barrier and an 8-byte sum over all ranks are
 * set up as triggered operations. Each rank then adds one to a counter, may go on computing, and waits on another counter.
 *
 *     selvedge run -n 5 build/examples/triggered_barrier [rounds]
 *
 * Barrier: dissemination. In step r a rank sends a message to the rank 2^r further on, after it has itself entered and
 * has received the messages of all steps before r; ceil(log2 size) steps. Sum: a binary tree of atomics up to rank 0,
 * and puts down again.
 *
 * Invariants: a rank may start the next collective while others are still in this one.
 *  1. A rank leaves use u only after every rank has entered it, so no rank is two uses ahead.
 *  2. Hence two sets of barrier counters, used in turn, never mix messages of two uses. (With one set, a message of use
 *     u+1 could stand in for a missing one of use u.) The same holds for the two slots of the sum.
 *
 * Exits non-zero when a rank leaves a barrier too early or a sum is wrong.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "portals4.h"
#include "selvedge.h"

#define PT_COLLECTIVE 0
#define STEPS_MAX     32
#define CHECKS        25 /* checked rounds before the timed ones */

/* Match bits: the purpose of a message. */
#define BITS_STEP(set, step) ((ptl_match_bits_t)(0x100 + (set) * STEPS_MAX + (step)))
#define BITS_SUM             ((ptl_match_bits_t)1)
#define BITS_RESULT          ((ptl_match_bits_t)2)
#define BITS_MARK            ((ptl_match_bits_t)3)

#define TRY(call)                                                                                             \
    do {                                                                                                      \
        int code_ = (call);                                                                                   \
        if (code_ != PTL_OK) {                                                                                \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, code_);                         \
            selvedge_abort(1, #call);                                                                         \
        }                                                                                                     \
    } while (0)

struct job {
    int             rank, size;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq; /* link events only */
    ptl_process_t  *ids;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Keeps the processor busy, as a computation would. */
static void compute_us(double us)
{
    for (double end_us = now_us() + us; now_us() < end_us;)
        ;
}

static void wait_count(ptl_handle_ct_t counter, uint64_t count)
{
    ptl_ct_event_t value;
    TRY(PtlCTWait(counter, count, &value));
    if (value.failure != 0)
        selvedge_abort(1, "a message failed");
}

static void *shared(size_t bytes)
{
    void *memory = selvedge_alloc(bytes);
    if (memory == NULL)
        selvedge_abort(1, "no shared memory left");
    memset(memory, 0, bytes);
    return memory;
}

/* Opens a match list entry for puts and atomics of any rank; counter counts them. */
static ptl_handle_me_t open_entry(const struct job *job, ptl_match_bits_t bits, void *start, size_t length,
                                  ptl_handle_ct_t counter)
{
    ptl_handle_me_t entry;
    ptl_event_t event;
    ptl_me_t me = {
        .start      = start,
        .length     = length,
        .ct_handle  = counter,
        .uid        = PTL_UID_ANY,
        .options    = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_CT_COMM,
        .match_id   = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
        .match_bits = bits,
    };
    TRY(PtlMEAppend(job->ni, PT_COLLECTIVE, &me, PTL_PRIORITY_LIST, NULL, &entry));
    TRY(PtlEQWait(job->eq, &event));
    if (event.type != PTL_EVENT_LINK || event.ni_fail_type != PTL_NI_OK)
        selvedge_abort(1, "an entry was not linked");
    return entry;
}

static ptl_handle_md_t bind(const struct job *job, void *start, size_t length, ptl_handle_ct_t acked)
{
    ptl_handle_md_t handle;
    ptl_md_t md = {start, length, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked};
    TRY(PtlMDBind(job->ni, &md, &handle));
    return handle;
}

/* ---- Barrier ---------------------------------------------------------------------------------------- */

/*
 * counters[set][0] counts entries; counters[set][r], r > 0, counts two for each use: the message of step r-1, and the
 * chain from counters[set][r-1]. When the last of them has its two, every rank has entered.
 */
struct barrier {
    int             steps;
    uint64_t        uses;
    ptl_handle_ct_t counters[2][STEPS_MAX + 1];
    ptl_handle_me_t entries[2][STEPS_MAX];
    ptl_handle_md_t nothing; /* messages without bytes */
};

static void barrier_open(struct barrier *b, const struct job *job)
{
    memset(b, 0, sizeof *b);
    while ((INT64_C(1) << b->steps) < job->size)
        b->steps++;
    b->nothing = bind(job, NULL, 0, PTL_CT_NONE);
    for (int set = 0; set < 2; set++)
        for (int r = 0; r <= b->steps; r++) {
            TRY(PtlCTAlloc(job->ni, &b->counters[set][r]));
            if (r > 0)
                b->entries[set][r - 1] = open_entry(job, BITS_STEP(set, r - 1), NULL, 0, b->counters[set][r]);
        }
}

static void barrier_close(struct barrier *b)
{
    for (int set = 0; set < 2; set++)
        for (int r = 0; r <= b->steps; r++) {
            if (r > 0)
                TRY(PtlMEUnlink(b->entries[set][r - 1]));
            TRY(PtlCTFree(b->counters[set][r]));
        }
    TRY(PtlMDRelease(b->nothing));
}

/* Returns the value of counters[set][step] after use number `use` of the set, from 1. */
static uint64_t barrier_threshold(int step, uint64_t use)
{
    return step == 0 ? use : 2 * use;
}

static void barrier_enter(struct barrier *b, const struct job *job)
{
    int set = (int)(b->uses % 2);
    uint64_t use = b->uses / 2 + 1;
    const ptl_ct_event_t one = {1, 0};
    for (int r = 0; r < b->steps; r++) {
        int partner = (int)((job->rank + (INT64_C(1) << r)) % job->size);
        uint64_t threshold = barrier_threshold(r, use);
        TRY(PtlTriggeredPut(b->nothing, 0, 0, PTL_NO_ACK_REQ, job->ids[partner], PT_COLLECTIVE, BITS_STEP(set, r), 0,
                            NULL, 0, b->counters[set][r], threshold));
        TRY(PtlTriggeredCTInc(b->counters[set][r + 1], one, b->counters[set][r], threshold));
    }
    TRY(PtlCTInc(b->counters[set][0], one)); /* from here on it needs no host */
}

static void barrier_leave(struct barrier *b)
{
    wait_count(b->counters[b->uses % 2][b->steps], barrier_threshold(b->steps, b->uses / 2 + 1));
    b->uses++;
}

/* ---- Sum over all ranks ----------------------------------------------------------------------------- */

/*
 * Each rank's sums[slot] gathers its own value and its children's. When all have arrived, `gathered` triggers the atomic
 * to the parent; at rank 0 it triggers a put to results[slot] instead. The arrival of a result counts in `done` and
 * triggers the puts to the children. The slot of the next use is cleared when this use is entered: its last use is over at
 * all ranks, and no child can begin the next use before this rank has entered this one.
 */
struct sum {
    uint64_t        uses;
    int             children[2], child_count;
    uint64_t       *sums, *results, *value; /* 2, 2 and 1 words */
    ptl_handle_ct_t entered, gathered, done;
    ptl_handle_md_t sums_md, results_md, value_md;
    ptl_handle_me_t sums_entry, results_entry;
};

static void sum_open(struct sum *s, const struct job *job)
{
    memset(s, 0, sizeof *s);
    for (int child = 2 * job->rank + 1; child <= 2 * job->rank + 2 && child < job->size; child++)
        s->children[s->child_count++] = child;
    s->sums = shared(64);
    s->results = shared(64);
    s->value = shared(64);
    TRY(PtlCTAlloc(job->ni, &s->entered));
    TRY(PtlCTAlloc(job->ni, &s->gathered));
    TRY(PtlCTAlloc(job->ni, &s->done));
    s->sums_md = bind(job, s->sums, 16, PTL_CT_NONE);
    s->results_md = bind(job, s->results, 16, PTL_CT_NONE);
    s->value_md = bind(job, s->value, 8, PTL_CT_NONE);
    s->sums_entry = open_entry(job, BITS_SUM, s->sums, 16, s->gathered);
    s->results_entry = open_entry(job, BITS_RESULT, s->results, 16, s->done);
}

static void sum_close(struct sum *s)
{
    TRY(PtlMEUnlink(s->sums_entry));
    TRY(PtlMEUnlink(s->results_entry));
    TRY(PtlMDRelease(s->sums_md));
    TRY(PtlMDRelease(s->results_md));
    TRY(PtlMDRelease(s->value_md));
    TRY(PtlCTFree(s->entered));
    TRY(PtlCTFree(s->gathered));
    TRY(PtlCTFree(s->done));
    selvedge_free(s->sums);
    selvedge_free(s->results);
    selvedge_free(s->value);
}

/* Sets up a triggered atomic add of one word to sums[slot] at rank `to`. */
static void add_when(struct sum *s, const struct job *job, ptl_handle_md_t from, ptl_size_t from_offset, int to,
                     ptl_handle_ct_t trigger, uint64_t threshold)
{
    TRY(PtlTriggeredAtomic(from, from_offset, 8, PTL_NO_ACK_REQ, job->ids[to], PT_COLLECTIVE, BITS_SUM,
                           s->uses % 2 * 8, NULL, 0, PTL_SUM, PTL_UINT64_T, trigger, threshold));
}

/* Sets up a triggered put of one word to results[slot] at rank `to`. */
static void tell_when(struct sum *s, const struct job *job, ptl_handle_md_t from, int to, ptl_handle_ct_t trigger,
                      uint64_t threshold)
{
    ptl_size_t offset = s->uses % 2 * 8;
    TRY(PtlTriggeredPut(from, offset, 8, PTL_NO_ACK_REQ, job->ids[to], PT_COLLECTIVE, BITS_RESULT, offset, NULL, 0,
                        trigger, threshold));
}

static void sum_enter(struct sum *s, const struct job *job, uint64_t value)
{
    uint64_t use = s->uses + 1, all_in = use * (uint64_t)(s->child_count + 1);
    TRY(PtlAtomicSync()); /* the host is about to change words that atomics have changed */
    s->sums[use % 2] = 0;
    *s->value = value;

    add_when(s, job, s->value_md, 0, job->rank, s->entered, use);
    if (job->rank == 0)
        tell_when(s, job, s->sums_md, 0, s->gathered, all_in);
    else
        add_when(s, job, s->sums_md, s->uses % 2 * 8, (job->rank - 1) / 2, s->gathered, all_in);
    for (int i = 0; i < s->child_count; i++)
        tell_when(s, job, s->results_md, s->children[i], s->done, use);

    const ptl_ct_event_t one = {1, 0};
    TRY(PtlCTInc(s->entered, one)); /* from here on it needs no host */
}

static uint64_t sum_leave(struct sum *s)
{
    wait_count(s->done, s->uses + 1);
    return s->results[s->uses++ % 2];
}

/* ---- Checks and timing ------------------------------------------------------------------------------ */

/* Before each barrier, every rank puts the number of the round into a mark at every other rank, acknowledged. After it, every
 * mark must be there. Ranks arrive in a different order each time. */
static void check_barrier(struct barrier *b, const struct job *job)
{
    volatile uint64_t *marks = shared((size_t)job->size * 8);
    uint64_t *mine = shared(64);
    ptl_handle_ct_t acked;
    TRY(PtlCTAlloc(job->ni, &acked));
    ptl_handle_md_t mine_md = bind(job, mine, 8, acked);
    ptl_handle_me_t entry = open_entry(job, BITS_MARK, (void *)marks, (size_t)job->size * 8, PTL_CT_NONE);
    TRY(selvedge_barrier()); /* every rank's marks are open */

    for (uint64_t round = 1; round <= CHECKS; round++) {
        compute_us((double)(((uint64_t)job->rank * 7919 + round * 104729) % 400));
        *mine = round;
        for (int to = 0; to < job->size; to++)
            TRY(PtlPut(mine_md, 0, 8, PTL_CT_ACK_REQ, job->ids[to], PT_COLLECTIVE, BITS_MARK, (ptl_size_t)job->rank * 8,
                       NULL, 0));
        wait_count(acked, round * (uint64_t)job->size);
        barrier_enter(b, job);
        barrier_leave(b);
        for (int from = 0; from < job->size; from++)
            if (marks[from] < round) { /* more than round: that rank is already in the next one */
                fprintf(stderr, "rank %d left barrier %llu before rank %d entered\n", job->rank,
                        (unsigned long long)round, from);
                selvedge_abort(1, "the barrier did not hold");
            }
    }
    TRY(selvedge_barrier()); /* every rank has read its marks */
    TRY(PtlMEUnlink(entry));
    TRY(PtlMDRelease(mine_md));
    TRY(PtlCTFree(acked));
    selvedge_free((void *)marks);
    selvedge_free(mine);
}

static void check_sum(struct sum *s, const struct job *job)
{
    uint64_t n = (uint64_t)job->size;
    for (uint64_t round = 1; round <= CHECKS; round++) {
        compute_us((double)(((uint64_t)job->rank * 4507 + round * 7001) % 400));
        sum_enter(s, job, ((uint64_t)job->rank + 1) * round + (round << 40));
        uint64_t sum = sum_leave(s), want = n * (n + 1) / 2 * round + n * (round << 40);
        if (sum != want) {
            fprintf(stderr, "rank %d, round %llu: sum %llu, not %llu\n", job->rank, (unsigned long long)round,
                    (unsigned long long)sum, (unsigned long long)want);
            selvedge_abort(1, "wrong sum");
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* Measures the median time from entering to leaving, and of the rest of the wait after a computation of busy_us. */
static void time_both(struct barrier *b, struct sum *s, const struct job *job, int rounds, double busy_us)
{
    double *barrier_us = calloc((size_t)rounds, sizeof(double)), *sum_us = calloc((size_t)rounds, sizeof(double));
    if (barrier_us == NULL || sum_us == NULL)
        selvedge_abort(1, "out of memory");
    for (int round = 0; round < rounds; round++) {
        double start_us = now_us();
        barrier_enter(b, job);
        compute_us(busy_us);
        barrier_leave(b);
        barrier_us[round] = now_us() - start_us - busy_us;
        start_us = now_us();
        sum_enter(s, job, 1);
        compute_us(busy_us);
        uint64_t sum = sum_leave(s);
        sum_us[round] = now_us() - start_us - busy_us;
        if (sum != (uint64_t)job->size)
            selvedge_abort(1, "wrong sum");
    }
    if (job->rank == 0)
        printf("%14.0f %14.2f %14.2f\n", busy_us, median(barrier_us, rounds), median(sum_us, rounds));
    free(barrier_us);
    free(sum_us);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    if (rounds < 1) {
        fprintf(stderr, "usage: selvedge run -n N build/examples/triggered_barrier [rounds]\n");
        return 1;
    }
    TRY(selvedge_init());
    struct job job = {.rank = selvedge_rank(), .size = selvedge_size()};
    ptl_process_t id;
    ptl_pt_index_t index;
    job.ids = calloc((size_t)job.size, sizeof *job.ids);
    if (job.ids == NULL)
        selvedge_abort(1, "out of memory");
    TRY(PtlInit());
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &job.ni));
    TRY(PtlGetPhysId(job.ni, &id));
    TRY(selvedge_exchange(&id, sizeof id, job.ids));
    TRY(PtlEQAlloc(job.ni, 8, &job.eq));
    TRY(PtlPTAlloc(job.ni, 0, job.eq, PT_COLLECTIVE, &index));

    struct barrier barrier;
    struct sum sum;
    barrier_open(&barrier, &job);
    sum_open(&sum, &job);
    TRY(selvedge_barrier()); /* every entry is linked before the first put */

    check_barrier(&barrier, &job);
    check_sum(&sum, &job);
    if (job.rank == 0)
        printf("%d ranks: %d barriers and %d sums hold\n%14s %14s %14s\n", job.size, CHECKS, CHECKS, "computing us",
               "barrier us", "sum us");
    time_both(&barrier, &sum, &job, rounds, 0);
    time_both(&barrier, &sum, &job, rounds, 100);

    TRY(selvedge_barrier()); /* every rank has left, so every message has been delivered */
    barrier_close(&barrier);
    sum_close(&sum);
    TRY(PtlPTFree(job.ni, PT_COLLECTIVE));
    TRY(PtlEQFree(job.eq));
    TRY(PtlNIFini(job.ni));
    PtlFini();
    selvedge_finalize();
    free(job.ids);
    return 0;
}
