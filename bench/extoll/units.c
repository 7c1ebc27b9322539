/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The EXTOLL units between two processes, as in figures 9-1 to 9-5 of seed 002; protocols.c has the others:
 *   extoll_velo               half a round trip of VELO messages; longer ones go in pieces of the longest message
 *   extoll_velo_rate          VELO messages of 8 bytes a second, one way
 *   extoll_put                half a round trip of puts, the target waits for the notification
 *   extoll_put_polled         the same, the target polls the last byte
 *   extoll_immediate_put      half a round trip of 8 bytes from the command itself, the target polls
 *   extoll_notification_put   half a round trip of a notification's value
 *   extoll_get, extoll_lock   one whole operation, during which the target does not call the library
 *   extoll_put_bandwidth, extoll_get_bandwidth   one operation after the other
 *   extoll_register, extoll_unregister           one region; the depth is its number of pages
 *
 * Invariants: 1. bytes are checked before and after the timed part, not in it. 2. Polled values differ from one step to the next.
 */
#define _GNU_SOURCE
#include "pair.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { VELO_BYTES_MAX = 4096, RATE_BURST = 256, PAGES_MAX = 1000 };

/* ---- messages ---- */

static void velo_send(struct bench *b)
{
    for (size_t at = 0; at < b->bytes; at += VELO2_MTU) {
        unsigned piece = b->bytes - at < VELO2_MTU ? (unsigned)(b->bytes - at) : VELO2_MTU;
        velo2_ret_t code;
        /* The receiver may be descheduled for long where cores are shared. */
        while ((code = velo2_send(&b->connection, b->memory + at, piece, 0, 0)) == VELO2_RET_TRY_AGAIN)
            ;
        OK(code);
    }
}

static void velo_receive(struct bench *b)
{
    uint32_t length, source;
    for (size_t at = 0; at < b->bytes; at += VELO2_MTU)
        OK(velo2_recv(&b->mailbox, arrives(b) + at, VELO2_MTU, &length, &source, NULL, NULL));
}

PINGPONG(velo_steps, velo_send, velo_receive)

/* Rank 0 sends bursts, and rank 1 answers the last. */
static void rate_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; i < count * RATE_BURST; i++) {
        if (b->rank == 0)
            velo_send(b);
        else
            velo_receive(b);
    }
    if (b->rank == 0)
        velo_receive(b);
    else
        velo_send(b);
}

/* ---- commands ---- */

static void put(struct bench *b)
{
    OK(rma2_post_put_bt(b->port, b->handle, b->region, 0, (uint32_t)b->bytes, b->there + b->half_bytes, RMA2_COMPLETER_NOTIFICATION,
        RMA2_CMD_DEFAULT));
}

static void await_completer(struct bench *b) { await(b, RMA2_COMPLETER_NOTIFICATION); }

PINGPONG(put_steps, put, await_completer)

static void put_marked(struct bench *b)
{
    b->memory[b->bytes - 1] = (unsigned char)b->round;
    OK(rma2_post_put_bt(b->port, b->handle, b->region, 0, (uint32_t)b->bytes, b->there + b->half_bytes, RMA2_NO_NOTIFICATION,
        RMA2_CMD_DEFAULT));
}

static void poll_mark(struct bench *b)
{
    const volatile unsigned char *last = arrives(b) + b->bytes - 1;
    while (*last != (unsigned char)b->round)
        cpu_relax();
}

PINGPONG(put_polled_steps, put_marked, poll_mark)

static void put_immediate(struct bench *b)
{
    OK(rma2_post_immediate_put(b->port, b->handle, 8, b->round, b->there + b->half_bytes, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
}

static void poll_value(struct bench *b)
{
    const _Atomic uint64_t *value = (const _Atomic uint64_t *)(void *)arrives(b);
    while (atomic_load_explicit(value, memory_order_acquire) != b->round)
        cpu_relax();
}

PINGPONG(immediate_steps, put_immediate, poll_value)

static void put_notification(struct bench *b)
{
    OK(rma2_post_notification(b->port, b->handle, 1, b->round, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
}

PINGPONG(notification_steps, put_notification, await_completer)

static void get_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; b->rank == 0 && i < count; i++) {
        OK(rma2_post_get_bt(b->port, b->handle, b->region, (uint32_t)b->half_bytes, (uint32_t)b->bytes, b->there, RMA2_COMPLETER_NOTIFICATION,
            RMA2_CMD_DEFAULT));
        await_completer(b);
    }
}

static void lock_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; b->rank == 0 && i < count; i++) {
        OK(rma2_post_lock(b->port, b->handle, 0, 7, INT32_MAX, i % 2 == 0 ? 1 : -1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        await_completer(b);
    }
}

static void put_many_steps(void *self, uint64_t count)
{
    struct bench *b = self;
    for (uint64_t i = 0; b->rank == 0 && i < count; i++) {
        OK(rma2_post_put_bt(b->port, b->handle, b->region, 0, (uint32_t)b->bytes, b->there + b->half_bytes, RMA2_REQUESTER_NOTIFICATION,
            RMA2_CMD_DEFAULT));
        await(b, RMA2_REQUESTER_NOTIFICATION);
    }
}

/* ---- the measurements ---- */

/* Measures every size up to `most` bytes. `checks`: the bytes of the last step are checked at the receiver. */
static void sizes(struct bench *b, const char *name, void (*steps)(void *, uint64_t), double per_step, size_t most, bool checks, enum figures figures)
{
    for (unsigned i = 0; i < b->o->sizes_count && b->o->sizes_bytes[i] <= most; i++) {
        b->bytes = b->o->sizes_bytes[i];
        fill(b, (unsigned)b->rank + i);
        memset(arrives(b), 0, b->bytes);
        barrier();
        report(b, name, steps, per_step, figures);
        if (checks)
            verify(b, arrives(b), (unsigned)b->peer + i);
        barrier();
    }
}

static void eight(struct bench *b, const char *name, void (*steps)(void *, uint64_t), double per_step, enum figures figures)
{
    b->bytes = 8;
    report(b, name, steps, per_step, figures);
}

/* Registers regions at one rank; the other waits. Registering and unregistering alternate, and each is timed separately. */
static void registration(struct bench *b, unsigned pages)
{
    enum { TIMES_MIN = 50 };
    unsigned char *memory = ordinary_alloc((size_t)pages * PAGE_BYTES);
    double each_ns = 100.0 * pages + 1000.0;
    size_t times = (size_t)(b->o->budget_ms * 1e6 / 2.0 / each_ns);
    times = times < TIMES_MIN ? TIMES_MIN : times;
    struct samples made = samples_new(times), undone = samples_new(times);
    for (size_t i = 0; b->rank == 0 && i < times; i++) {
        RMA2_Region *region;
        uint64_t start = now_ns();
        OK(rma2_register(b->port, memory, (size_t)pages * PAGE_BYTES, &region));
        uint64_t middle = now_ns();
        OK(rma2_unregister(b->port, region));
        samples_add(&made, (double)(middle - start));
        samples_add(&undone, (double)(now_ns() - middle));
    }
    for (int which = 0; b->rank == 0 && which < 2; which++) {
        struct result r = result_new(which == 0 ? "extoll_register" : "extoll_unregister", NO_NUMBER, pages);
        result_times(&r, which == 0 ? &made : &undone);
        result_print(b->o, &r);
    }
    samples_free(&made);
    samples_free(&undone);
    free(memory);
    barrier();
}

static void measure(struct bench *b)
{
    const char *what = b->o->what;
    size_t all = b->half_bytes;
    if (strcmp(what, "extoll_velo") == 0)
        sizes(b, what, velo_steps, 2.0, VELO_BYTES_MAX, true, TIME);
    else if (strcmp(what, "extoll_velo_rate") == 0)
        eight(b, what, rate_steps, RATE_BURST, RATE);
    else if (strcmp(what, "extoll_put") == 0)
        sizes(b, what, put_steps, 2.0, all, true, TIME);
    else if (strcmp(what, "extoll_put_polled") == 0)
        eight(b, what, put_polled_steps, 2.0, TIME);
    else if (strcmp(what, "extoll_immediate_put") == 0)
        eight(b, what, immediate_steps, 2.0, TIME);
    else if (strcmp(what, "extoll_notification_put") == 0)
        eight(b, what, notification_steps, 2.0, TIME);
    else if (strcmp(what, "extoll_get") == 0)
        sizes(b, what, get_steps, 1.0, all, false, TIME);
    else if (strcmp(what, "extoll_lock") == 0)
        eight(b, what, lock_steps, 1.0, TIME);
    else if (strcmp(what, "extoll_put_bandwidth") == 0)
        sizes(b, what, put_many_steps, 1.0, all, false, BANDWIDTH);
    else if (strcmp(what, "extoll_get_bandwidth") == 0)
        sizes(b, what, get_steps, 1.0, all, false, BANDWIDTH);
    else if (strcmp(what, "extoll_register") == 0) {
        registration(b, 1);
        registration(b, PAGES_MAX);
    } else
        die("unknown measurement '%s'", what);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = bench_open(&o, VELO_BYTES_MAX);
    measure(&b);
    bench_close(&b);
    return 0;
}
