/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Operations that fence orders and quiet completes: puts, strided puts, atomics, signals, stores, their nonblocking forms.
 * OpenSHMEM 1.6, "Memory Ordering Routines", the table of operations.
 */
#include "suite.h"

enum { ROUNDS = 300, N = 33 };

/* PE 0 sends numbered rounds: `send` the data, then fence, then `mark`. When PE 1 sees a mark, it must see the data. */
struct setup {
    long *data, *flag, *source; /* N, 1; source: ROUNDS * N, so that nonblocking operations keep their data */
};

static struct setup setup_new(void)
{
    struct setup s = {symmetric(N * sizeof(long)), symmetric(sizeof(long)), local((ROUNDS + 1) * N * sizeof(long))};
    for (int i = 0; i < (ROUNDS + 1) * N; i++) s.source[i] = i / N;
    return s;
}

/* Sizes whose protocols could overtake those of a few words: pages, and more than a queue holds. */
DATA_CASE(fence_orders_large_puts, 2,
          "fence: a small put or atomic does not overtake a large put before it (shmem_fence)")
{
    static const size_t sizes[] = {4096, 20000, 70000, 131072, 300001};
    unsigned char *data = symmetric(300001), *source = local(300001);
    long *flag = symmetric(sizeof *flag), round = 0;
    for (int s = 0; s < 5; s++)
        for (int way = 0; way < 4; way++) {
            about("%zu bytes, way %d", sizes[s], way);
            round++;
            if (me() == 0) {
                pattern_fill(source, sizes[s], (unsigned)round);
                if (way % 2) shmem_putmem_nbi(data, source, sizes[s], 1);
                else shmem_putmem(data, source, sizes[s], 1);
                shmem_fence();
                if (way / 2) shmem_long_p(flag, round, 1);
                else shmem_long_atomic_inc(flag, 1);
                shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
            } else {
                shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
                CHECK_PATTERN(data, sizes[s], (unsigned)round);
                shmem_long_p(flag, round, 0);
            }
        }
}

/* Several long puts are outstanding at once to peers on other hosts. Those to the same bytes must land in their order. */
DATA_CASE(fence_orders_large_puts_to_the_same_bytes, 2,
          "fence: of two large puts to the same bytes, the one after it stays (shmem_fence)")
{
    enum { PUTS = 4, BYTES = 300000 };
    unsigned char *data = symmetric(BYTES), *source = local((size_t)PUTS * BYTES);
    long *flag = symmetric(sizeof *flag), round = 0;
    for (int shorter = 0; shorter < 2; shorter++)
        for (int way = 0; way < 2; way++) {
            about("%s, way %d", shorter ? "each shorter than the one before" : "all of one length", way);
            round++;
            size_t bytes[PUTS];
            for (int i = 0; i < PUTS; i++) bytes[i] = BYTES - (shorter ? (size_t)i * 50000 : 0);
            if (me() == 0) {
                for (int i = 0; i < PUTS; i++) {
                    pattern_fill(source + (size_t)i * BYTES, bytes[i], (unsigned)(round * PUTS + i));
                    if (way) shmem_putmem_nbi(data, source + (size_t)i * BYTES, bytes[i], 1);
                    else shmem_putmem(data, source + (size_t)i * BYTES, bytes[i], 1);
                    shmem_fence();
                }
                shmem_long_p(flag, round, 1);
                shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
            } else {
                shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
                CHECK_PATTERN(data, bytes[PUTS - 1], (unsigned)(round * PUTS + PUTS - 1));
                shmem_long_p(flag, round, 0);
            }
            shmem_quiet();
        }
}

static void mark_by_p(struct setup *s, long round) { shmem_long_p(s->flag, round, 1); }
static void mark_by_add(struct setup *s, long round) { (void)round, shmem_long_atomic_inc(s->flag, 1); }
static void mark_by_put_nbi(struct setup *s, long round) { shmem_long_put_nbi(s->flag, s->source + round * N, 1, 1); }

static void send_by_put(struct setup *s, long round) { shmem_long_put(s->data, s->source + round * N, N, 1); }
static void send_by_put_nbi(struct setup *s, long round) { shmem_long_put_nbi(s->data, s->source + round * N, N, 1); }
static void send_by_p(struct setup *s, long round)
{
    for (int i = 0; i < N; i++) shmem_long_p(s->data + i, round, 1);
}
static void send_by_iput(struct setup *s, long round)
{
    shmem_long_iput(s->data, s->source + round * N, 2, 1, (N + 1) / 2, 1);
    shmem_long_iput(s->data + 1, s->source + round * N, 2, 1, N / 2, 1);
}
static void send_by_set(struct setup *s, long round)
{
    for (int i = 0; i < N; i++) shmem_long_atomic_set(s->data + i, round, 1);
}
static void send_by_add(struct setup *s, long round)
{
    (void)round;
    for (int i = 0; i < N; i++) shmem_long_atomic_add(s->data + i, 1, 1);
}

typedef void step_fn(struct setup *, long);

static void order_by_fence(step_fn *send, step_fn *mark, bool by_context)
{
    struct setup s = setup_new();
    for (long round = 1; round <= ROUNDS && me() == 0; round++) {
        send(&s, round);
        if (by_context) shmem_ctx_fence(SHMEM_CTX_DEFAULT);
        else shmem_fence();
        mark(&s, round);
        shmem_fence();
    }
    for (long seen = 0; me() == 1 && seen < ROUNDS;) {
        shmem_long_wait_until(s.flag, SHMEM_CMP_GT, seen);
        seen = *(volatile long *)s.flag;
        for (int i = 0; i < N; i++) CHECK_OP(((volatile long *)s.data)[i], >=, seen);
    }
    barrier();
}

DATA_CASE(fence_orders_puts, 2, "fence: a put after it is delivered after the puts before it (shmem_fence)")
{
    order_by_fence(send_by_put, mark_by_p, false);
    order_by_fence(send_by_p, mark_by_p, true);
}

DATA_CASE(fence_orders_put_nbi, 2, "fence: orders nonblocking operations (shmem_fence)")
{
    order_by_fence(send_by_put_nbi, mark_by_p, false);
    order_by_fence(send_by_put_nbi, mark_by_put_nbi, false);
}

DATA_CASE(fence_orders_strided_puts, 2,
          "fence: orders strided puts (shmem_fence)") { order_by_fence(send_by_iput, mark_by_p, false); }

DATA_CASE(fence_orders_puts_and_atomics, 2,
          "fence: an atomic after it is delivered after the puts before it, and vice versa (shmem_fence)")
{
    order_by_fence(send_by_put, mark_by_add, false);
    order_by_fence(send_by_put_nbi, mark_by_add, false);
    order_by_fence(send_by_set, mark_by_p, false);
    order_by_fence(send_by_add, mark_by_add, false);
}

/* PE 0 sends the data to PE 1. It notifies PE 2 only after quiet, and PE 2 reads PE 1. */
static void complete_by_quiet(step_fn *send, void (*complete)(void))
{
    struct setup s = setup_new();
    long *told = symmetric(sizeof(long)), *done = symmetric(sizeof(long)), found[N];
    for (long round = 1; round <= ROUNDS / 4; round++) {
        if (me() == 0) {
            send(&s, round);
            complete();
            shmem_long_p(told, round, 2);
            shmem_long_wait_until(done, SHMEM_CMP_EQ, round);
        } else if (me() == 2) {
            shmem_long_wait_until(told, SHMEM_CMP_EQ, round);
            shmem_long_get(found, s.data, N, 1);
            for (int i = 0; i < N; i++) CHECK_EQ(found[i], round);
            shmem_long_p(done, round, 0);
        }
    }
    barrier();
}

static void quiet_of_context(void) { shmem_ctx_quiet(SHMEM_CTX_DEFAULT); }

DATA_CASE(quiet_completes_puts, 3, "quiet: earlier puts are visible to every PE (shmem_quiet)")
{
    complete_by_quiet(send_by_put, shmem_quiet);
    complete_by_quiet(send_by_p, quiet_of_context);
}

DATA_CASE(quiet_completes_put_nbi, 3, "quiet: completes nonblocking operations (shmem_quiet)")
{
    complete_by_quiet(send_by_put_nbi, shmem_quiet);
    complete_by_quiet(send_by_put_nbi, quiet_of_context);
}

DATA_CASE(quiet_completes_strided_puts, 3,
          "quiet: completes strided puts (shmem_quiet)") { complete_by_quiet(send_by_iput, shmem_quiet); }

DATA_CASE(quiet_completes_atomics, 3, "quiet: completes atomics that fetch nothing (shmem_quiet)")
{
    complete_by_quiet(send_by_set, shmem_quiet);
    complete_by_quiet(send_by_add, shmem_quiet);
}

DATA_CASE(quiet_reaches_all_targets, 4, "quiet: covers the targets of all puts (shmem_quiet)", .crowded = 8)
{
    long *inbox = symmetric(PES_MAX * sizeof(long)), *arrived = symmetric(sizeof(long));
    for (long round = 1; round <= 40; round++) {
        for (int pe = 0; pe < n_pes(); pe++) shmem_long_p(inbox + me(), round, pe);
        shmem_quiet();
        for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(shmem_long_g(inbox + me(), pe), round);
        shmem_long_atomic_inc(arrived, 0);
        shmem_quiet();
        if (me() == 0) shmem_long_wait_until(arrived, SHMEM_CMP_EQ, round * n_pes());
        barrier();
        for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(inbox[pe], round);
        barrier();
    }
}

CASE(nothing_to_order, 2, "fence, quiet: without operations before them they return (shmem_fence, shmem_quiet)")
{
    for (int i = 0; i < 1000; i++) {
        shmem_fence();
        shmem_quiet();
        shmem_ctx_fence(SHMEM_CTX_DEFAULT);
        shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
    }
}

DATA_CASE(ping_pong, 2,
          "two PEs that answer each other by p and wait_until see each other's data each time (shmem_wait_until)")
{
    long *data = symmetric(N * sizeof(long)), *flag = symmetric(sizeof(long)), mine[N];
    for (long round = 1; round <= 500; round++) {
        if (me() == 1) {
            shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
            for (int i = 0; i < N; i++) CHECK_EQ(data[i], round * 2 + i);
        }
        for (int i = 0; i < N; i++) mine[i] = round * 2 + me() + i;
        shmem_long_put(data, mine, N, next_pe());
        shmem_fence();
        shmem_long_p(flag, round, next_pe());
        if (me() == 0) {
            shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
            for (int i = 0; i < N; i++) CHECK_EQ(data[i], round * 2 + 1 + i);
        }
    }
}

DATA_CASE(chain_of_cause, 4,
          "data that PE 0 put before it notified PE 1 is in place for a PE that PE 1 notifies (shmem_quiet)", .crowded = 7)
{
    long *data = symmetric(sizeof(long)), *told = symmetric(sizeof(long));
    for (long round = 1; round <= 60; round++) {
        if (me() == 0) {
            shmem_long_p(data, round, n_pes() - 1);
            shmem_quiet();
            shmem_long_p(told, round, 1);
            shmem_long_wait_until(told, SHMEM_CMP_EQ, round);
        } else {
            shmem_long_wait_until(told, SHMEM_CMP_EQ, round);
            CHECK_EQ(shmem_long_g(data, n_pes() - 1), round);
            shmem_long_p(told, round, next_pe());
        }
    }
}

DATA_CASE(stores_before_quiet, 2,
          "quiet: the caller's own stores to its symmetric memory come before its later puts (shmem_quiet)")
{
    long *mine = symmetric(N * sizeof(long)), *told = symmetric(sizeof(long)), found[N];
    for (long round = 1; round <= 200; round++) {
        if (me() == 0) {
            for (int i = 0; i < N; i++) mine[i] = round;
            if (round % 2) shmem_quiet();
            else shmem_fence();
            shmem_long_p(told, round, 1);
            shmem_long_wait_until(told, SHMEM_CMP_EQ, round);
        } else {
            shmem_long_wait_until(told, SHMEM_CMP_EQ, round);
            shmem_long_get(found, mine, N, 0);
            for (int i = 0; i < N; i++) CHECK_EQ(found[i], round);
            shmem_long_p(told, round, 0);
        }
    }
}

DATA_CASE(stores_through_ptr, 2,
          "fence, quiet: order and complete stores to a peer's memory (shmem_ptr, table of operations)",
          .needs = MAPPED)
{
    long *data = symmetric(N * sizeof(long)), *flag = symmetric(sizeof(long));
    long *theirs = shmem_ptr(data, next_pe());
    CHECK_OP(theirs, !=, NULL);
    for (long round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < N; i++) theirs[i] = round;
        if (round % 2) shmem_fence();
        else shmem_quiet();
        shmem_long_p(flag, round, next_pe());
        shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
        for (int i = 0; i < N; i++) CHECK_EQ(data[i], round);
        barrier();
    }
}

DATA_CASE(fetched_by_quiet, 2, "quiet: the data of get_nbi is in place (table of operations)")
{
    long *theirs = symmetric(N * sizeof(long)), *here = local(N * sizeof(long));
    for (long round = 1; round <= 100; round++) {
        for (int i = 0; i < N; i++) theirs[i] = round * 100 + me();
        barrier();
        shmem_long_get_nbi(here, theirs, N, next_pe());
        if (round % 2) shmem_quiet();
        else shmem_ctx_quiet(SHMEM_CTX_DEFAULT);
        for (int i = 0; i < N; i++) CHECK_EQ(here[i], round * 100 + next_pe());
        barrier();
    }
}

#if SINCE(1, 5)
static void send_by_signal(struct setup *s, long round)
{
    static uint64_t spare;
    shmem_long_put_signal(s->data, s->source + round * N, N, &spare, 1, SHMEM_SIGNAL_ADD, 1);
}
static void send_by_signal_nbi(struct setup *s, long round)
{
    static uint64_t spare;
    shmem_long_put_signal_nbi(s->data, s->source + round * N, N, &spare, 1, SHMEM_SIGNAL_ADD, 1);
}

DATA_CASE(fence_orders_signals, 2, "fence: orders put_signal and its nonblocking form (table of operations)")
{
    order_by_fence(send_by_signal, mark_by_p, false);
    order_by_fence(send_by_signal_nbi, mark_by_add, true);
}

DATA_CASE(quiet_completes_signals, 3, "quiet: completes put_signal and its nonblocking form (table of operations)")
{
    complete_by_quiet(send_by_signal, shmem_quiet);
    complete_by_quiet(send_by_signal_nbi, quiet_of_context);
}

DATA_CASE(put_before_a_signal, 2,
          "fence: puts before it are delivered before the data and the signal after it (shmem_fence)")
{
    long *early = symmetric(N * sizeof(long)), *late = symmetric(sizeof(long)), mine[N];
    uint64_t *sig = symmetric(sizeof *sig);
    for (long round = 1; round <= ROUNDS && me() == 0; round++) {
        for (int i = 0; i < N; i++) mine[i] = round;
        shmem_long_put(early, mine, N, 1);
        shmem_fence();
        shmem_long_put_signal(late, mine, 1, sig, 1, SHMEM_SIGNAL_ADD, 1);
        shmem_fence();
    }
    for (uint64_t seen = 0; me() == 1 && seen < ROUNDS;) {
        seen = shmem_signal_wait_until(sig, SHMEM_CMP_GT, seen);
        for (int i = 0; i < N; i++) CHECK_OP(((volatile long *)early)[i], >=, (long)seen);
        CHECK_OP(*(volatile long *)late, >=, (long)seen);
    }
}

CASE(no_context_no_order, 2, "fence, quiet: with SHMEM_CTX_INVALID they do nothing (shmem_fence, shmem_quiet)")
{
    for (int i = 0; i < 100; i++) {
        shmem_ctx_fence(SHMEM_CTX_INVALID);
        shmem_ctx_quiet(SHMEM_CTX_INVALID);
    }
}
#endif

#if SINCE(1, 6)
static void pe_quiet_of_target(void)
{
    int target = 1;
    shmem_pe_quiet(&target, 1);
}
static void ctx_pe_quiet_of_many(void)
{
    int targets[] = {2, 1, 0};
    shmem_ctx_pe_quiet(SHMEM_CTX_DEFAULT, targets, 3);
}

DATA_CASE(pe_quiet_completes, 3, "pe_quiet: completes operations to the PEs of the list, like quiet (shmem_pe_quiet)")
{
    complete_by_quiet(send_by_put, pe_quiet_of_target);
    complete_by_quiet(send_by_put_nbi, pe_quiet_of_target);
    complete_by_quiet(send_by_put_nbi, ctx_pe_quiet_of_many);
    complete_by_quiet(send_by_set, pe_quiet_of_target);
    complete_by_quiet(send_by_signal_nbi, ctx_pe_quiet_of_many);
}

DATA_CASE(pe_quiet_completes_gets, 3,
          "pe_quiet: the data of get_nbi from a PE of the list is in place (shmem_pe_quiet)")
{
    long *theirs = symmetric(N * sizeof(long)), *here = local(2 * N * sizeof(long));
    for (int i = 0; i < N; i++) theirs[i] = me() * 100 + i;
    barrier();
    int targets[] = {next_pe(), previous_pe()};
    shmem_long_get_nbi(here, theirs, N, next_pe());
    shmem_long_get_nbi(here + N, theirs, N, previous_pe());
    shmem_pe_quiet(targets, 2);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(here[i], next_pe() * 100 + i);
        CHECK_EQ(here[N + i], previous_pe() * 100 + i);
    }
}

CASE(pe_quiet_of_none, 2, "pe_quiet: with npes 0 it returns at once, without reading the list (shmem_pe_quiet)")
{
    for (int i = 0; i < 100; i++) {
        shmem_pe_quiet(NULL, 0);
        shmem_ctx_pe_quiet(SHMEM_CTX_DEFAULT, NULL, 0);
    }
}
#endif
