/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Waits for one object: shmem_wait_until and shmem_test for every type and comparison, and the operations that end a wait.
 * OpenSHMEM 1.6, "Point-To-Point Synchronization Routines". Arrays of objects are in wait_arrays.c.
 */
#include "suite.h"
#include "types.h"

struct wait_verbs {
    const char *name;
    size_t bytes;
    void (*store)(void *at, int64_t value); /* through the type */
    bool (*holds)(const void *at, int cmp, int64_t value);
    void (*wait)(void *ivar, int cmp, int64_t value);
    int (*test)(void *ivar, int cmp, int64_t value);
    void (*put)(void *dest, int64_t value, int pe);
};

#define WAIT_THUNKS(NAME, TYPE)                                                                                       \
    static void store_##NAME(void *at, int64_t value) { *(TYPE *)at = (TYPE)value; }                                  \
    static bool holds_##NAME(const void *at, int cmp, int64_t value)                                                  \
    {                                                                                                                 \
        TYPE a = *(const TYPE *)at, b = (TYPE)value;                                                                  \
        switch (cmp) {                                                                                                \
        case SHMEM_CMP_EQ: return a == b;                                                                             \
        case SHMEM_CMP_NE: return a != b;                                                                             \
        case SHMEM_CMP_GT: return a > b;                                                                              \
        case SHMEM_CMP_GE: return a >= b;                                                                             \
        case SHMEM_CMP_LT: return a < b;                                                                              \
        default: return a <= b;                                                                                       \
        }                                                                                                             \
    }                                                                                                                 \
    static void wait_##NAME(void *ivar, int cmp, int64_t value) { shmem_##NAME##_wait_until(ivar, cmp, (TYPE)value); } \
    static int test_##NAME(void *ivar, int cmp, int64_t value) { return shmem_##NAME##_test(ivar, cmp, (TYPE)value); } \
    static void put_##NAME(void *dest, int64_t value, int pe) { shmem_##NAME##_p(dest, (TYPE)value, pe); }
SYNC_TYPES(WAIT_THUNKS)

static const struct wait_verbs verbs[] = {
#define WAIT_ROW(NAME, TYPE) {#NAME, sizeof(TYPE), store_##NAME, holds_##NAME, wait_##NAME, test_##NAME, put_##NAME},
    SYNC_TYPES(WAIT_ROW)
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

static const int comparisons[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE};
static const int64_t values[] = {0, 1, -1, 2, -2, 0x7f, 0x7fff, -0x8000, 0x7fffffff, -0x80000000ll, INT64_MAX, INT64_MIN};
enum { VALUES = sizeof values / sizeof values[0] };

/* Both words and comparand go through every extreme of every type, so a narrowed or wrongly signed comparison shows. */
DATA_CASE(every_comparison, 1,
          "test: 1 where the comparison holds in the object's type, else 0; wait_until returns where it holds (shmem_test)")
{
    unsigned char *word = symmetric(16);
    for (int t = 0; t < VERBS; t++)
        for (int a = 0; a < VALUES; a++) {
            memset(word, 0x77, 16);
            verbs[t].store(word, values[a]);
            for (int b = 0; b < VALUES; b++)
                for (int c = 0; c < 6; c++) {
                    about("%s: %lld, %d, %lld", verbs[t].name, (long long)values[a], comparisons[c], (long long)values[b]);
                    bool holds = verbs[t].holds(word, comparisons[c], values[b]);
                    CHECK_EQ(verbs[t].test(word, comparisons[c], values[b]), holds);
                    if (holds) verbs[t].wait(word, comparisons[c], values[b]);
                }
        }
}

DATA_CASE(waits_for_another_pe, 2,
          "wait_until: returns once another PE has made the comparison hold, for every type (shmem_wait_until)")
{
    unsigned char *words = symmetric(VERBS * 16);
    for (int round = 1; round <= 4; round++)
        for (int t = 0; t < VERBS; t++) {
            const struct wait_verbs *v = &verbs[t];
            about("%s, round %d", v->name, round);
            if (me() == 0) v->put(words + t * 16, round, 1);
            switch (round) {
            case 1: v->wait(words + t * 16, SHMEM_CMP_EQ, 1); break;
            case 2: v->wait(words + t * 16, SHMEM_CMP_NE, 1); break;
            case 3: v->wait(words + t * 16, SHMEM_CMP_GT, 2); break;
            default: v->wait(words + t * 16, SHMEM_CMP_GE, 4); break;
            }
            CHECK(v->holds(words + t * 16, SHMEM_CMP_EQ, round));
            if (me() == 1) v->put(words + t * 16, round, 0);
        }
}

DATA_CASE(waits_for_less, 2,
          "wait_until: LT and LE wait for a smaller value, also for one below zero (shmem_wait_until)")
{
    unsigned char *words = symmetric(VERBS * 16);
    for (int t = 0; t < VERBS; t++) verbs[t].store(words + t * 16, 100);
    barrier();
    for (int t = 0; t < VERBS; t++) {
        const struct wait_verbs *v = &verbs[t];
        bool is_signed = (v->store(words + t * 16 + 8, -1), v->holds(words + t * 16 + 8, SHMEM_CMP_LT, 0));
        about("%s", v->name);
        v->put(words + t * 16, 50, next_pe());
        v->wait(words + t * 16, SHMEM_CMP_LT, 100);
        v->put(words + t * 16, is_signed ? -7 : 3, next_pe());
        v->wait(words + t * 16, SHMEM_CMP_LE, is_signed ? -7 : 3);
    }
}

DATA_CASE(wait_blocks, 2, "wait_until does not return before the comparison holds (shmem_wait_until)")
{
    int *word = symmetric(sizeof *word);
    barrier();
    if (me() == 0) {
        shmem_int_wait_until(word, SHMEM_CMP_EQ, 1); /* the peer has read its clock */
        sleep_ms(30);
        shmem_int_p(word, 1, 1); /* not the awaited value yet */
        sleep_ms(30);
        shmem_int_p(word, 2, 1);
    } else {
        long long start = now_ms();
        shmem_int_p(word, 1, 0);
        shmem_int_wait_until(word, SHMEM_CMP_EQ, 2);
        CHECK_EQ(*word, 2);
        CHECK_OP(now_ms() - start, >=, 40);
    }
}

DATA_CASE(test_does_not_block, 2, "test returns at once, 0 until the comparison holds, and then 1 (shmem_test)")
{
    unsigned char *words = symmetric(VERBS * 16);
    for (int t = 0; t < VERBS; t++) {
        about("%s", verbs[t].name);
        CHECK_EQ(verbs[t].test(words + t * 16, SHMEM_CMP_EQ, 9), 0);
    }
    barrier();
    for (int t = 0; t < VERBS; t++) {
        about("%s", verbs[t].name);
        verbs[t].put(words + t * 16, 9, next_pe());
        while (!verbs[t].test(words + t * 16, SHMEM_CMP_EQ, 9)) sleep_ms(0);
        CHECK_EQ(verbs[t].test(words + t * 16, SHMEM_CMP_NE, 9), 0);
    }
}

DATA_CASE(neighbours_do_not_count, 2,
          "wait_until, test: only the object itself is compared, not adjacent bytes (shmem_wait_until)")
{
    unsigned char *words = symmetric(VERBS * 16);
    for (int t = 0; t < VERBS; t++) {
        memset(words + t * 16, 0xff, 16);
        verbs[t].store(words + t * 16, 0);
    }
    for (int t = 0; t < VERBS; t++) {
        about("%s", verbs[t].name);
        CHECK_EQ(verbs[t].test(words + t * 16, SHMEM_CMP_NE, 0), 0);
    }
    barrier();
    for (int t = 0; t < VERBS; t++) {
        about("%s", verbs[t].name);
        verbs[t].put(words + t * 16, 5, next_pe());
        verbs[t].wait(words + t * 16, SHMEM_CMP_NE, 0);
        CHECK(verbs[t].holds(words + t * 16, SHMEM_CMP_EQ, 5));
        CHECK_BYTES(words + t * 16 + verbs[t].bytes, 16 - verbs[t].bytes, 0xff);
    }
}

DATA_CASE(whole_word_is_compared, 2, "wait_until: all bits of a wide object count (shmem_wait_until)")
{
    unsigned char *words = symmetric(VERBS * 16);
    for (int t = 0; t < VERBS; t++) {
        if (verbs[t].bytes != 8) continue;
        about("%s", verbs[t].name);
        void *word = words + t * 16;
        if (me() == 0) {
            verbs[t].put(word, (1ll << 40) + 7, 1); /* ends the wait as 7 does */
            sleep_ms(4);
            verbs[t].put(word, 7, 1);
            verbs[t].wait(word, SHMEM_CMP_EQ, 1);
        } else {
            verbs[t].wait(word, SHMEM_CMP_EQ, 7);
            CHECK(verbs[t].holds(word, SHMEM_CMP_EQ, 7));
            verbs[t].put(word, 1, 0);
        }
    }
}

/* Operations that end a wait: PE 0 naps, so that PE 1 sleeps, then changes the word to `round` in another way. */
enum { WAYS = 12 };

static void change(int way, long *word, long round, int pe)
{
    long value = round;
    switch (way) {
    case 0: shmem_long_p(word, round, pe); break;
    case 1: shmem_long_put(word, &value, 1, pe); break;
    case 2: shmem_putmem(word, &value, sizeof value, pe); break;
    case 3: shmem_long_put_nbi(word, &value, 1, pe); shmem_quiet(); break;
    case 4: shmem_long_iput(word, &value, 1, 1, 1, pe); break;
    case 5: shmem_long_atomic_set(word, round, pe); break;
    case 6: shmem_long_atomic_inc(word, pe); break;
    case 7: shmem_long_atomic_add(word, 1, pe); break;
    case 8: shmem_long_atomic_fetch_inc(word, pe); break;
    case 9: shmem_long_atomic_fetch_add(word, 1, pe); break;
    case 10: shmem_long_atomic_swap(word, round, pe); break;
    default: shmem_long_atomic_compare_swap(word, round - 1, round, pe); break;
    }
}

DATA_CASE(whatever_changes_it_wakes, 2,
          "wait_until: any put or atomic that changes the object ends it, also when the waiter has long slept "
          "(shmem_wait_until)")
{
    long *word = symmetric(sizeof *word);
    for (int way = 0; way < WAYS; way++) {
        about("way %d", way);
        if (me() == 0) {
            sleep_ms(8);
            change(way, word, way + 1, 1);
            shmem_long_wait_until(word, SHMEM_CMP_EQ, way + 1);
        } else {
            shmem_long_wait_until(word, SHMEM_CMP_EQ, way + 1);
            change(way, word, way + 1, 0);
        }
    }
}

DATA_CASE(bitwise_and_signals_wake, 2, "wait_until: ends when a bitwise atomic changes the object (shmem_wait_until)")
{
    unsigned long *word = symmetric(sizeof *word);
    if (me() == 0) {
        sleep_ms(8);
        shmem_ulong_atomic_or(word, 6, 1);
        shmem_ulong_wait_until(word, SHMEM_CMP_EQ, 1);
        shmem_ulong_atomic_and(word, 3, 1);
        shmem_ulong_wait_until(word, SHMEM_CMP_EQ, 2);
        shmem_ulong_atomic_xor(word, 1, 1);
        shmem_ulong_wait_until(word, SHMEM_CMP_EQ, 3);
    } else {
        shmem_ulong_wait_until(word, SHMEM_CMP_EQ, 6);
        shmem_ulong_p(word, 1, 0);
        shmem_ulong_wait_until(word, SHMEM_CMP_EQ, 2);
        shmem_ulong_p(word, 2, 0);
        shmem_ulong_wait_until(word, SHMEM_CMP_EQ, 3);
        shmem_ulong_p(word, 3, 0);
    }
}

DATA_CASE(end_of_a_long_put, 2,
          "wait_until: the object may be the last word of a put; its value is never torn (shmem_wait_until)")
{
    enum { N = 3000 };
    long *data = symmetric(N * sizeof *data), *source = local(N * sizeof *source);
    for (long round = 1; round <= 20; round++) {
        for (int i = 0; i < N; i++) source[i] = round;
        if (me() == 0) {
            shmem_long_put(data, source, N - 1, 1);
            shmem_fence();
            shmem_long_put(data + N - 1, source, 1, 1);
            shmem_long_wait_until(data + N - 1, SHMEM_CMP_EQ, round);
        } else {
            shmem_long_wait_until(data + N - 1, SHMEM_CMP_EQ, round);
            for (int i = 0; i < N; i++) CHECK_EQ(data[i], round);
            shmem_long_p(data + N - 1, round, 0);
        }
    }
}

/* No wake-up is lost while the waiter is about to sleep: naps of many lengths hit the moment. */
DATA_CASE(no_wakeup_is_lost, 2, "wait_until: returns however the change and the wait coincide (shmem_wait_until)")
{
    long *word = symmetric(sizeof *word);
    uint64_t state = 88172645463325252u + (uint64_t)me();
    for (long round = 1; round <= 800; round++) {
        if (round % 2 == me()) {
            uint64_t spins = random_next(&state) % 4000;
            for (volatile uint64_t i = 0; i < spins; i++) {}
            if (spins % 40 == 0) sleep_ms(1);
            shmem_long_p(word, round, next_pe());
        } else {
            shmem_long_wait_until(word, SHMEM_CMP_EQ, round);
        }
    }
}

DATA_CASE(own_change_counts, 2, "wait_until: the caller's own atomics and stores before it count (shmem_wait_until)")
{
    long *word = symmetric(sizeof *word);
    shmem_long_atomic_add(word, 4, me());
    shmem_quiet();
    shmem_long_wait_until(word, SHMEM_CMP_EQ, 4);
    *word = 5;
    shmem_long_wait_until(word, SHMEM_CMP_EQ, 5);
    CHECK_EQ(shmem_long_test(word, SHMEM_CMP_EQ, 5), 1);
}

DATA_CASE(round_the_ring, 4, "each PE waits for the one before it, round after round (shmem_wait_until)", .crowded = 9)
{
    int *token = symmetric(sizeof *token);
    for (int round = 1; round <= 40; round++) {
        if (me() != 0) shmem_int_wait_until(token, SHMEM_CMP_EQ, round);
        shmem_int_p(token, round, next_pe());
        if (me() == 0) shmem_int_wait_until(token, SHMEM_CMP_EQ, round);
    }
}

DATA_CASE(all_wait_for_one, 4, "several PEs wait for the same change by one (shmem_wait_until)", .crowded = 9)
{
    long *go = symmetric(sizeof *go), *gone = symmetric(sizeof *gone);
    for (long round = 1; round <= 25; round++) {
        if (me() == 0) {
            if (round % 8 == 0) sleep_ms(5);
            for (int pe = 0; pe < n_pes(); pe++) shmem_long_atomic_inc(go, pe);
            shmem_long_wait_until(gone, SHMEM_CMP_GE, round * (n_pes() - 1));
            CHECK_EQ(*gone, round * (n_pes() - 1));
        } else {
            shmem_long_wait_until(go, SHMEM_CMP_EQ, round);
            shmem_long_atomic_inc(gone, 0);
        }
    }
}
