/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Half a round trip between two PEs, by message size (seed 004, section 3.1):
 *   raw             one cache line, stored and polled through shmem_ptr: the lower bound of all others
 *   put             shmem_putmem, the target polling the destination itself
 *   counting_put    shmem_putmem_ct, the target in shmem_ct_wait
 *   put_flag        the baseline of the seed: put, fence, atomic increment, the target in shmem_int_wait_until
 *   put_signal      shmem_putmem_signal with SHMEM_SIGNAL_SET, the target in shmem_signal_wait_until
 *   put_signal_add  the same with SHMEM_SIGNAL_ADD
 *
 * In `put` the sender numbers the first and the last word of the message, and the target polls for both numbers. Programs
 * do this in practice, but the standard does not guarantee it: it orders nothing inside a message.
 *
 * Invariants: 1. the numbers waited for only rise, so no reset falls between two messages. 2. The bytes of every way are
 * checked before and after the timed part.
 */
#define _GNU_SOURCE
#include "pe.h"

#include <stdatomic.h>
#include <string.h>

#define WORD sizeof(uint64_t)
#define SPINS 4096

struct bench {
    int me, peer;
    size_t bytes;             /* of this measurement */
    unsigned char *in, *out;  /* symmetric, each as long as the largest size */
    int *flag;                /* of put_flag */
    uint64_t *signals[2];     /* one is set, the other added to */
    _Atomic uint64_t *line;   /* of raw: this PE's line, which the peer writes ... */
    _Atomic uint64_t *beyond; /* ... and the peer's, mapped here */
    uint64_t raw, put, counted, flagged, set, added;
#ifdef SELVEDGE_SHMEM
    shmem_ct_t ct;
#endif
};

/* A step is one message each way; PE 0 begins. */
#define PING_PONG(name, send, receive)               \
    static void name(void *self, uint64_t count)     \
    {                                                \
        struct bench *b = self;                      \
        for (uint64_t i = 0; i < count; i++) {       \
            if (b->me == 0) {                        \
                send(b);                             \
                receive(b);                          \
            } else {                                 \
                receive(b);                          \
                send(b);                             \
            }                                        \
        }                                            \
    }

/* Polls, and sometimes calls the library for messages that are still under way from here. */
static void spin(const _Atomic uint64_t *word, uint64_t value)
{
    for (unsigned spins = 1; atomic_load_explicit(word, memory_order_acquire) != value; spins++) {
        if (spins % SPINS == 0)
            shmem_quiet();
        cpu_relax();
    }
}

/* ---- raw ---- */

/* PE 0 sends 1, 2, ...; each PE answers with the number it saw. */
static void raw_send(struct bench *b)
{
    b->raw += b->me == 0;
    atomic_store_explicit(b->beyond, b->raw, memory_order_release);
}

static void raw_receive(struct bench *b)
{
    b->raw += b->me == 1;
    spin(b->line, b->raw);
}

PING_PONG(raw_steps, raw_send, raw_receive)

/* ---- put ---- */

static void put_send(struct bench *b)
{
    b->put += b->me == 0;
    memcpy(b->out, &b->put, WORD);
    memcpy(b->out + b->bytes - WORD, &b->put, WORD);
    shmem_putmem(b->in, b->out, b->bytes, b->peer);
}

static void put_receive(struct bench *b)
{
    b->put += b->me == 1;
    spin((_Atomic uint64_t *)(void *)(b->in + b->bytes - WORD), b->put);
    spin((_Atomic uint64_t *)(void *)b->in, b->put);
}

PING_PONG(put_steps, put_send, put_receive)

/* ---- put, fence, increment ---- */

static void flag_send(struct bench *b)
{
    shmem_putmem(b->in, b->out, b->bytes, b->peer);
    shmem_fence();
    shmem_int_atomic_inc(b->flag, b->peer);
}

static void flag_receive(struct bench *b) { shmem_int_wait_until(b->flag, SHMEM_CMP_GE, (int)++b->flagged); }

PING_PONG(flag_steps, flag_send, flag_receive)

#ifdef SELVEDGE_SHMEM
/* ---- counting put ---- */

static void counting_send(struct bench *b) { shmem_putmem_ct(b->ct, b->in, b->out, b->bytes, b->peer); }

static void counting_receive(struct bench *b) { shmem_ct_wait(b->ct, (long)++b->counted); }

PING_PONG(counting_steps, counting_send, counting_receive)

#endif

#if HAS_SIGNALS
/* ---- put with signal ---- */

static void set_send(struct bench *b)
{
    b->set += b->me == 0;
    shmem_putmem_signal(b->in, b->out, b->bytes, b->signals[0], b->set, SHMEM_SIGNAL_SET, b->peer);
}

static void set_receive(struct bench *b)
{
    b->set += b->me == 1;
    shmem_signal_wait_until(b->signals[0], SHMEM_CMP_GE, b->set);
}

PING_PONG(set_steps, set_send, set_receive)

static void add_send(struct bench *b)
{
    shmem_putmem_signal(b->in, b->out, b->bytes, b->signals[1], 1, SHMEM_SIGNAL_ADD, b->peer);
}

static void add_receive(struct bench *b) { shmem_signal_wait_until(b->signals[1], SHMEM_CMP_GE, ++b->added); }

PING_PONG(add_steps, add_send, add_receive)
#endif

/* ---- all of them ---- */

static const struct way ALL[] = {
    { .name = "raw", .steps = raw_steps },
    { .name = "put", .steps = put_steps },
    { .name = "put_flag", .steps = flag_steps },
#ifdef SELVEDGE_SHMEM
    { .name = "counting_put", .steps = counting_steps },
#endif
#if HAS_SIGNALS
    { .name = "put_signal", .steps = set_steps },
    { .name = "put_signal_add", .steps = add_steps },
#endif
};
#define ALL_COUNT (sizeof ALL / sizeof *ALL)

/* Sends one message each way and compares every byte, except those that a way numbers or does not send. */
static void checked_step(struct bench *b, const struct way *way, unsigned seed)
{
    size_t skip = way->steps == put_steps ? WORD : 0;
    if (way->steps == raw_steps || b->bytes <= 2 * skip)
        return;
    fill(b->out, b->bytes, seed + (unsigned)b->me);
    shmem_barrier_all();
    way->steps(b, 1);
    shmem_barrier_all();
    verify(b->in + skip, b->bytes - 2 * skip, seed + (unsigned)b->peer + (unsigned)skip * 7);
    memset(b->in, 0, b->bytes);
    shmem_barrier_all();
}

static void measure_size(struct bench *b, const struct options *o, size_t bytes)
{
    struct way ways[ALL_COUNT];
    unsigned count = 0;
    b->bytes = bytes;
    for (unsigned i = 0; i < ALL_COUNT; i++) {
        bool once = ALL[i].steps == raw_steps && bytes != WORD;
        if (once || !wanted(o, ALL[i].name) || (ALL[i].steps == raw_steps && b->beyond == NULL))
            continue;
        ways[count] = ALL[i];
        ways[count].self = b;
        ways[count].per_step = 2.0;
        ways[count].size_bytes = (long long)bytes;
        ways[count++].depth = NO_NUMBER;
    }
    for (unsigned i = 0; i < count; i++)
        checked_step(b, &ways[i], 1 + i);
    ways_measure(ways, count, o, true);
    for (unsigned i = 0; i < count; i++)
        checked_step(b, &ways[i], 101 + i);
    for (unsigned i = 0; i < count; i++)
        way_report(&ways[i], o, false);
}

int main(int argc, char **argv)
{
    struct options o = pe_start(argc, argv);
    if (shmem_n_pes() != 2)
        die("needs two PEs, has %d", shmem_n_pes());
    size_t most = o.sizes_bytes[o.sizes_count - 1];
    struct bench b = { .me = shmem_my_pe(), .peer = 1 - shmem_my_pe() };
    b.in = symmetric_alloc(most);
    b.out = symmetric_alloc(most);
    b.flag = symmetric_alloc(sizeof *b.flag);
    b.signals[0] = symmetric_alloc(sizeof(uint64_t));
    b.signals[1] = symmetric_alloc(sizeof(uint64_t));
    b.line = symmetric_alloc(sizeof *b.line);
    b.beyond = shmem_ptr((void *)b.line, b.peer);
    if (b.beyond == NULL && b.me == 0 && wanted(&o, "raw"))
        result_skipped(&o, "shmem_raw", WORD, NO_NUMBER, "the peer's memory cannot be mapped here");
#ifdef SELVEDGE_SHMEM
    shmem_ct_create(&b.ct);
    if (b.ct == SHMEM_CT_INVALID)
        die("no counter left: set SELVEDGE_SHMEM_COUNTERS higher");
#endif
    for (unsigned i = 0; i < o.sizes_count; i++)
        measure_size(&b, &o, o.sizes_bytes[i]);
#ifdef SELVEDGE_SHMEM
    shmem_ct_free(&b.ct);
#endif
    shmem_free((void *)b.line);
    shmem_free(b.signals[1]);
    shmem_free(b.signals[0]);
    shmem_free(b.flag);
    shmem_free(b.out);
    shmem_free(b.in);
    pe_end();
}
