/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * counting_put: the ping-pong of "Reducing Synchronization Overhead Through Bundled Communication", section 3.1.
 * Three ways to notify the receiver of a put:
 *
 *   counting     the put increments a counter at the receiver, which waits on it: one message;
 *   fence+flag   put, wait for its acknowledgement, increment a flag in the receiver's memory: two messages in turn;
 *   flag         put and increment the flag at once, only where the interface keeps all data in order.
 *
 *     selvedge run -n 2 build/examples/counting_put [rounds]
 *
 * Prints the median half round trip for each message size. Exits non-zero when any byte is wrong.
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "portals4.h"
#include "selvedge.h"

enum { PT_COUNTED, PT_PLAIN, PT_FLAG }; /* portal table indexes that both ranks agree on */
enum method { COUNTING, FENCED_FLAG, ORDERED_FLAG, METHODS };

#define MAX_BYTES    (1 << 20)
#define CHECK_ROUNDS 8 /* rounds in which every byte is compared; they also warm up */

#define TRY(call)                                                                                             \
    do {                                                                                                      \
        int code_ = (call);                                                                                   \
        if (code_ != PTL_OK) {                                                                                \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, code_);                         \
            selvedge_abort(1, #call);                                                                         \
        }                                                                                                     \
    } while (0)

struct endpoint {
    int              rank;
    ptl_handle_ni_t  ni;
    ptl_ni_limits_t  limits;
    ptl_process_t    peer;
    ptl_handle_eq_t  eq;           /* link events only */
    unsigned char   *outbox;       /* MAX_BYTES, source of puts */
    unsigned char   *inbox;        /* MAX_BYTES, target of the peer's puts */
    _Atomic uint64_t *flag;        /* the peer adds 1 for each message */
    uint64_t         *one;         /* the 1 that is added to the peer's flag */
    ptl_handle_md_t  outbox_md, one_md;
    ptl_handle_ct_t  acked;        /* acknowledgements of the plain puts */
    ptl_handle_ct_t  arrived;      /* counting puts that have arrived */
    ptl_handle_le_t  entries[3];
    uint64_t         acked_count, arrived_count, flag_count; /* the value that was last waited for */
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void wait_count(ptl_handle_ct_t counter, uint64_t count)
{
    ptl_ct_event_t value;
    TRY(PtlCTWait(counter, count, &value));
    if (value.failure != 0)
        selvedge_abort(1, "a message failed");
}

/* Polls the flag in memory. It calls the library now and then, so that a host-based NIC can take in messages. */
static void wait_flag(struct endpoint *e, uint64_t count)
{
    const ptl_size_t never = PTL_SIZE_MAX / 2;
    ptl_ct_event_t value;
    unsigned int which;
    for (unsigned spins = 1; atomic_load_explicit(e->flag, memory_order_acquire) < count; spins++) {
        if (spins % 256 == 0) {
            if (PtlCTPoll(&e->acked, &never, 1, 0, &value, &which) != PTL_CT_NONE_REACHED)
                selvedge_abort(1, "polling failed");
            sched_yield();
        }
    }
}

static void send_message(struct endpoint *e, enum method method, size_t bytes)
{
    if (method == COUNTING) { /* the peer's answer shows that the put was delivered: no acknowledgement needed */
        TRY(PtlPut(e->outbox_md, 0, bytes, PTL_NO_ACK_REQ, e->peer, PT_COUNTED, 0, 0, NULL, 0));
        return;
    }
    ptl_ack_req_t ack = method == FENCED_FLAG ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ;
    TRY(PtlPut(e->outbox_md, 0, bytes, ack, e->peer, PT_PLAIN, 0, 0, NULL, 0));
    if (method == FENCED_FLAG)
        wait_count(e->acked, ++e->acked_count);
    TRY(PtlAtomic(e->one_md, 0, sizeof(uint64_t), PTL_NO_ACK_REQ, e->peer, PT_FLAG, 0, 0, NULL, 0, PTL_SUM,
                  PTL_UINT64_T));
}

static void await_message(struct endpoint *e, enum method method)
{
    if (method == COUNTING)
        wait_count(e->arrived, ++e->arrived_count);
    else
        wait_flag(e, ++e->flag_count);
}

static unsigned char pattern(int sender, int method, int round, size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)round * 7 + (size_t)method * 3 + (size_t)sender * 101);
}

static void fill(struct endpoint *e, enum method method, size_t bytes, int round)
{
    for (size_t i = 0; i < bytes; i++)
        e->outbox[i] = pattern(e->rank, method, round, i);
}

/* One message each way with every byte compared. Rank 1 may write its outbox only after the next ping, which shows that its
 * last pong was received. */
static void checked_round(struct endpoint *e, enum method method, size_t bytes, int round)
{
    if (e->rank == 0) {
        fill(e, method, bytes, round);
        send_message(e, method, bytes);
    }
    await_message(e, method);
    for (size_t i = 0; i < bytes; i++)
        if (e->inbox[i] != pattern(1 - e->rank, method, round, i)) {
            fprintf(stderr, "rank %d: byte %zu of %zu is wrong\n", e->rank, i, bytes);
            selvedge_abort(1, "wrong data");
        }
    if (e->rank == 1) {
        fill(e, method, bytes, round);
        send_message(e, method, bytes);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median half round trip in microseconds; meaningful at rank 0. */
static double ping_pong(struct endpoint *e, enum method method, size_t bytes, int rounds, double *half_us)
{
    for (int round = 0; round < CHECK_ROUNDS; round++)
        checked_round(e, method, bytes, round);
    for (int round = 0; round < rounds; round++) {
        double start_us = now_us();
        if (e->rank == 0)
            send_message(e, method, bytes);
        await_message(e, method);
        if (e->rank == 1)
            send_message(e, method, bytes);
        half_us[round] = (now_us() - start_us) / 2;
    }
    qsort(half_us, (size_t)rounds, sizeof *half_us, by_value);
    return half_us[rounds / 2];
}

static void *shared(size_t bytes)
{
    void *memory = selvedge_alloc(bytes);
    if (memory == NULL)
        selvedge_abort(1, "no shared memory left");
    memset(memory, 0, bytes);
    return memory;
}

static void open_entry(struct endpoint *e, ptl_pt_index_t index, void *start, size_t length, ptl_handle_ct_t counter)
{
    ptl_pt_index_t got;
    ptl_event_t event;
    ptl_le_t le = {
        .start     = start,
        .length    = length,
        .ct_handle = counter,
        .uid       = PTL_UID_ANY,
        .options   = PTL_LE_OP_PUT | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_CT_COMM,
    };
    TRY(PtlPTAlloc(e->ni, 0, e->eq, index, &got));
    TRY(PtlLEAppend(e->ni, index, &le, PTL_PRIORITY_LIST, NULL, &e->entries[index]));
    TRY(PtlEQWait(e->eq, &event));
    if (event.type != PTL_EVENT_LINK || event.ni_fail_type != PTL_NI_OK)
        selvedge_abort(1, "an entry was not linked");
}

static void open_endpoint(struct endpoint *e)
{
    ptl_process_t id, *ids = calloc((size_t)selvedge_size(), sizeof *ids);
    if (ids == NULL)
        selvedge_abort(1, "out of memory");
    TRY(PtlInit());
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, &e->limits, &e->ni));
    TRY(PtlGetPhysId(e->ni, &id));
    TRY(selvedge_exchange(&id, sizeof id, ids));
    e->rank = selvedge_rank();
    e->peer = ids[e->rank == 0 ? 1 : 0];
    free(ids);

    e->outbox = shared(MAX_BYTES);
    e->inbox  = shared(MAX_BYTES);
    e->flag   = shared(64); /* a cache line of its own */
    e->one    = shared(64);
    *e->one   = 1;
    TRY(PtlEQAlloc(e->ni, 8, &e->eq));
    TRY(PtlCTAlloc(e->ni, &e->acked));
    TRY(PtlCTAlloc(e->ni, &e->arrived));
    ptl_md_t outbox = {e->outbox, MAX_BYTES, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, e->acked};
    ptl_md_t one    = {e->one, sizeof *e->one, 0, PTL_EQ_NONE, PTL_CT_NONE};
    TRY(PtlMDBind(e->ni, &outbox, &e->outbox_md));
    TRY(PtlMDBind(e->ni, &one, &e->one_md));
    open_entry(e, PT_COUNTED, e->inbox, MAX_BYTES, e->arrived);
    open_entry(e, PT_PLAIN, e->inbox, MAX_BYTES, PTL_CT_NONE);
    open_entry(e, PT_FLAG, (void *)e->flag, sizeof *e->flag, PTL_CT_NONE);
}

static void close_endpoint(struct endpoint *e)
{
    for (ptl_pt_index_t index = 0; index < 3; index++) {
        TRY(PtlLEUnlink(e->entries[index]));
        TRY(PtlPTFree(e->ni, index));
    }
    TRY(PtlMDRelease(e->outbox_md));
    TRY(PtlMDRelease(e->one_md));
    TRY(PtlCTFree(e->acked));
    TRY(PtlCTFree(e->arrived));
    TRY(PtlEQFree(e->eq));
    selvedge_free(e->outbox);
    selvedge_free(e->inbox);
    selvedge_free((void *)e->flag);
    selvedge_free(e->one);
    TRY(PtlNIFini(e->ni));
    PtlFini();
}

static void run_sizes(struct endpoint *e, int rounds)
{
    int ordered = (e->limits.features & PTL_TOTAL_DATA_ORDERING) != 0;
    double *half_us = calloc((size_t)rounds, sizeof *half_us);
    if (half_us == NULL)
        selvedge_abort(1, "out of memory");
    if (e->rank == 0)
        printf("median half round trip, microseconds\n%10s %12s %12s %12s %14s\n", "bytes", "counting", "fence+flag",
               "flag", "fence+flag/cnt");
    for (size_t bytes = 8; bytes <= MAX_BYTES; bytes *= 8) {
        int n = bytes > 65536 ? (rounds + 9) / 10 : rounds;
        double counting_us = ping_pong(e, COUNTING, bytes, n, half_us);
        double fenced_us   = ping_pong(e, FENCED_FLAG, bytes, n, half_us);
        double ordered_us  = ordered ? ping_pong(e, ORDERED_FLAG, bytes, n, half_us) : 0;
        if (e->rank != 0)
            continue;
        printf("%10zu %12.2f %12.2f ", bytes, counting_us, fenced_us);
        if (ordered)
            printf("%12.2f ", ordered_us);
        else
            printf("%12s ", "-");
        printf("%14.2f\n", fenced_us / counting_us);
    }
    free(half_us);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    TRY(selvedge_init());
    if (selvedge_size() < 2 || rounds < 1) {
        fprintf(stderr, "usage: selvedge run -n 2 build/examples/counting_put [rounds]\n");
        return 1;
    }
    struct endpoint e = {0};
    open_endpoint(&e);
    TRY(selvedge_barrier()); /* every entry is linked before the first put */
    if (e.rank < 2)
        run_sizes(&e, rounds);
    TRY(selvedge_barrier()); /* the last message is received before anything is closed */
    close_endpoint(&e);
    selvedge_finalize();
    return 0;
}
