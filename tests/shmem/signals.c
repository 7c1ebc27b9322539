/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Puts that end with a signal, and signals alone: shmem_put_signal, its nonblocking form, shmem_signal_add, _set,
 * _fetch and _wait_until, under every name. OpenSHMEM 1.6, "Signaling Operations".
 */
#include "elements.h"

#if SINCE(1, 5)

typedef void signal_fn(void *dest, const void *source, size_t n, uint64_t *sig, uint64_t value, int op, int pe);

struct signal_verbs {
    struct element element;
    const char *form;
    signal_fn *put;
};

#define SIGNAL_PARAMETERS void *dest, const void *source, size_t n, uint64_t *sig, uint64_t value, int op, int pe
#define SIGNAL_THUNKS(NAME, PUT, CTX_PUT)                                                                             \
    static void put_##NAME(SIGNAL_PARAMETERS) { PUT(dest, source, n, sig, value, op, pe); }                           \
    static void ctx_put_##NAME(SIGNAL_PARAMETERS) { CTX_PUT(SHMEM_CTX_DEFAULT, dest, source, n, sig, value, op, pe); } \
    static void nbi_put_##NAME(SIGNAL_PARAMETERS) { PUT##_nbi(dest, source, n, sig, value, op, pe); }                 \
    static void ctx_nbi_put_##NAME(SIGNAL_PARAMETERS)                                                                 \
    {                                                                                                                 \
        CTX_PUT##_nbi(SHMEM_CTX_DEFAULT, dest, source, n, sig, value, op, pe);                                        \
    }
#define TYPED_THUNKS(NAME, TYPE) SIGNAL_THUNKS(NAME, shmem_##NAME##_put_signal, shmem_ctx_##NAME##_put_signal)
#define SIZED_THUNKS(SIZE, TYPE) SIGNAL_THUNKS(SIZE, shmem_put##SIZE##_signal, shmem_ctx_put##SIZE##_signal)
RMA_TYPES(TYPED_THUNKS)
RMA_SIZES(SIZED_THUNKS)
SIGNAL_THUNKS(MEM, shmem_putmem_signal, shmem_ctx_putmem_signal)

#define TYPED_ROWS(NAME, TYPE)                                  \
    {ELEMENT(NAME, TYPE), "", put_##NAME},                      \
    {ELEMENT(NAME, TYPE), "ctx ", ctx_put_##NAME},              \
    {ELEMENT(NAME, TYPE), "nbi ", nbi_put_##NAME},              \
    {ELEMENT(NAME, TYPE), "ctx nbi ", ctx_nbi_put_##NAME},
#define SIZED_ROWS(SIZE, TYPE)                                  \
    {ELEMENT_##SIZE, "", put_##SIZE},                           \
    {ELEMENT_##SIZE, "ctx ", ctx_put_##SIZE},                   \
    {ELEMENT_##SIZE, "nbi ", nbi_put_##SIZE},                   \
    {ELEMENT_##SIZE, "ctx nbi ", ctx_nbi_put_##SIZE},
static const struct signal_verbs signals[] = {RMA_TYPES(TYPED_ROWS) RMA_SIZES(SIZED_ROWS) SIZED_ROWS(MEM, )};

enum { SIGNALS = sizeof signals / sizeof signals[0], COUNT = 23, SLOT_BYTES = 32 * 16, SLOTS_BYTES = SIGNALS * SLOT_BYTES };

static void *slot(void *buffer, int row) { return (unsigned char *)buffer + (size_t)row * SLOT_BYTES; }

#define FOR_EACH_SIGNAL(v, e, row)                                                                         \
    for (int row = 0; row < SIGNALS; row++)                                                                \
        for (const struct signal_verbs *v = &signals[row]; v != NULL; v = NULL)                            \
            for (const struct element *e = (about("%s%s", v->form, v->element.name), &v->element); e != NULL; e = NULL)

DATA_CASE(signal_follows_data, 2,
          "put_signal: a PE that sees the signal sees the data, without another call (shmem_put_signal)")
{
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES);
    uint64_t *sigs = symmetric(SIGNALS * sizeof *sigs);
    FOR_EACH_SIGNAL(v, e, row)
    {
        elements_fill(e, slot(source, row), 32, (unsigned)(row + 1000 * me()));
        v->put(slot(dest, row), slot(source, row), COUNT, sigs + row, (uint64_t)row + 1, SHMEM_SIGNAL_SET, next_pe());
    }
    /* Without a quiet: a nonblocking put must complete while its initiator waits. */
    FOR_EACH_SIGNAL(v, e, row)
    {
        CHECK_EQ(shmem_signal_wait_until(sigs + row, SHMEM_CMP_NE, 0), (uint64_t)row + 1);
        CHECK_ELEMENTS(e, slot(dest, row), COUNT, (unsigned)(row + 1000 * previous_pe()));
        CHECK_ZERO(e, slot(dest, row), COUNT, 32 - COUNT);
    }
    shmem_quiet();
}

DATA_CASE(set_replaces_and_add_adds, 2,
          "SIGNAL_SET writes the value, SIGNAL_ADD adds it, in all 64 bits (Available Signal Operators)")
{
    const uint64_t big = 0xfedcba9876543210;
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES);
    uint64_t *sigs = symmetric(2 * SIGNALS * sizeof *sigs);
    FOR_EACH_SIGNAL(v, e, row)
    {
        uint64_t *sig = sigs + 2 * row;
        elements_fill(e, slot(source, row), 1, 7);
        v->put(slot(dest, row), slot(source, row), 1, sig, 5, SHMEM_SIGNAL_ADD, next_pe());
        shmem_quiet();
        CHECK_EQ(shmem_uint64_atomic_fetch(sig, next_pe()), 5);
        v->put(slot(dest, row), slot(source, row), 1, sig, big, SHMEM_SIGNAL_SET, next_pe());
        shmem_quiet();
        CHECK_EQ(shmem_uint64_atomic_fetch(sig, next_pe()), big);
        v->put(slot(dest, row), slot(source, row), 1, sig, big, SHMEM_SIGNAL_ADD, next_pe());
        shmem_quiet();
        CHECK_EQ(shmem_uint64_atomic_fetch(sig, next_pe()), 2 * big);
    }
    barrier();
    for (int i = 0; i < SIGNALS; i++) {
        CHECK_EQ(sigs[2 * i], 2 * big);
        CHECK_EQ(sigs[2 * i + 1], 0);
    }
}

DATA_CASE(no_data_but_a_signal, 2,
          "put_signal: with nelems 0 the signal still arrives, and dest stays (shmem_put_signal)")
{
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES);
    uint64_t *sigs = symmetric(SIGNALS * sizeof *sigs);
    memset(source, 0xff, SLOTS_BYTES);
    FOR_EACH_SIGNAL(v, e, row)
    {
        (void)e;
        v->put(slot(dest, row), slot(source, row), 0, sigs + row, 3, SHMEM_SIGNAL_ADD, next_pe());
    }
    FOR_EACH_SIGNAL(v, e, row)
    {
        (void)v, (void)e;
        CHECK_EQ(shmem_signal_wait_until(sigs + row, SHMEM_CMP_GT, 0), 3);
    }
    barrier();
    CHECK_BYTES(dest, SLOTS_BYTES, 0);
}

DATA_CASE(signal_to_oneself, 2, "put_signal: the named PE may be the caller (shmem_put_signal)")
{
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES);
    uint64_t *sigs = symmetric(SIGNALS * sizeof *sigs);
    FOR_EACH_SIGNAL(v, e, row)
    {
        elements_fill(e, slot(source, row), COUNT, (unsigned)row);
        v->put(slot(dest, row), slot(source, row), COUNT, sigs + row, 1 + (uint64_t)row, SHMEM_SIGNAL_SET, me());
        CHECK_EQ(shmem_signal_wait_until(sigs + row, SHMEM_CMP_EQ, 1 + (uint64_t)row), 1 + (uint64_t)row);
        CHECK_ELEMENTS(e, slot(dest, row), COUNT, (unsigned)row);
    }
}

DATA_CASE(signal_in_other_memory, 2, "put_signal: data and signal may be objects of different kinds (shmem_put_signal)")
{
    enum { BYTES = 1000 };
    unsigned char *dest = symmetric(BYTES), *source = local(BYTES);
    uint64_t *sig = symmetric_in(memory_in_use() == HEAP ? STATIC : HEAP, sizeof *sig);
    for (unsigned round = 1; round <= 30; round++) {
        pattern_fill(source, BYTES, round + (unsigned)me());
        shmem_putmem_signal(dest, source, BYTES, sig, round, SHMEM_SIGNAL_SET, next_pe());
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GE, round), round);
        CHECK_PATTERN(dest, BYTES, round + (unsigned)previous_pe());
        barrier();
    }
}

DATA_CASE(source_is_free_at_once, 2,
          "put_signal: when it returns the source has been read and may change (shmem_put_signal)")
{
    enum { ROUNDS = 100, BYTES = 501 };
    unsigned char *dest = symmetric(ROUNDS * BYTES), *source = local(BYTES);
    uint64_t *sig = symmetric(sizeof *sig);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pattern_fill(source, BYTES, i);
        shmem_putmem_signal(dest + i * BYTES, source, BYTES, sig, 1, SHMEM_SIGNAL_ADD, next_pe());
        memset(source, 0xff, BYTES);
    }
    CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GE, ROUNDS), ROUNDS);
    for (unsigned i = 0; i < ROUNDS; i++) CHECK_PATTERN(dest + i * BYTES, BYTES, i);
}

DATA_CASE(unaligned_data, 2, "putmem_signal: dest and source need no alignment (shmem_putmem_signal)")
{
    enum { ROOM = 64, OFFSETS = 8, BYTES = 35 };
    unsigned char *dest = symmetric(OFFSETS * OFFSETS * ROOM), *source = local(ROOM);
    uint64_t *sig = symmetric(sizeof *sig);
    for (unsigned i = 0; i < OFFSETS * OFFSETS; i++) {
        memset(source, 0xcc, ROOM);
        pattern_fill(source + i / OFFSETS, BYTES, i);
        shmem_putmem_signal(dest + i * ROOM + i % OFFSETS, source + i / OFFSETS, BYTES, sig, 1, SHMEM_SIGNAL_ADD, next_pe());
    }
    shmem_signal_wait_until(sig, SHMEM_CMP_EQ, OFFSETS * OFFSETS);
    for (unsigned i = 0; i < OFFSETS * OFFSETS; i++) {
        CHECK_BYTES(dest + i * ROOM, i % OFFSETS, 0);
        CHECK_PATTERN(dest + i * ROOM + i % OFFSETS, BYTES, i);
        CHECK_BYTES(dest + i * ROOM + i % OFFSETS + BYTES, ROOM - BYTES - i % OFFSETS, 0);
    }
}

CASE(large_data_before_its_signal, 2,
     "put_signal: mebibytes of data arrive before their signal, too (shmem_put_signal)")
{
    enum { BYTES = 3000001 };
    unsigned char *dest = symmetric(BYTES), *source = local(BYTES);
    uint64_t *sig = symmetric(sizeof *sig);
    for (unsigned round = 1; round <= 4; round++) {
        if (me() == 0) {
            pattern_fill(source, BYTES, round);
            if (round % 2) shmem_putmem_signal(dest, source, BYTES, sig, round, SHMEM_SIGNAL_SET, 1);
            else shmem_putmem_signal_nbi(dest, source, BYTES, sig, round, SHMEM_SIGNAL_SET, 1);
            shmem_quiet();
        } else {
            CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, round), round);
            CHECK_PATTERN(dest, BYTES, round);
        }
        barrier();
    }
}

DATA_CASE(many_senders_add, 4,
          "SIGNAL_ADD of many PEs, with data and without, gives the exact sum (Atomicity Guarantees for Signaling Operations)",
          .crowded = 9)
{
    enum { ROUNDS = 100 };
    uint32_t *dest = symmetric(PES_MAX * sizeof *dest), value;
    uint64_t *sig = symmetric(sizeof *sig);
    uint64_t each = 1ull << 33 | 1;
    for (uint32_t i = 1; i <= ROUNDS; i++)
        for (int pe = 0; pe < n_pes(); pe++) {
            value = i;
            if (i % 2) shmem_uint32_put_signal(dest + me(), &value, 1, sig, each, SHMEM_SIGNAL_ADD, pe);
            else shmem_put32_signal_nbi(dest + me(), &value, 1, sig, each, SHMEM_SIGNAL_ADD, pe);
            if (i % 2) shmem_fence();
            else shmem_quiet();
        }
    const uint64_t all = ROUNDS * (uint64_t)n_pes() * each;
    CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, all), all);
    barrier();
    for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(dest[pe], ROUNDS);
    CHECK_EQ(*sig, all);
}

DATA_CASE(many_senders_set, 4,
          "SIGNAL_SET of many PEs leaves one of the values, whole (Atomicity Guarantees for Signaling Operations)")
{
    enum { ROUNDS = 200 };
    uint64_t *sig = symmetric(sizeof *sig);
    char *dest = symmetric(PES_MAX);
    for (uint64_t i = 1; i <= ROUNDS && me() != 0; i++) {
        uint64_t half = i * 64 + (uint64_t)me();
        char byte = (char)me();
        shmem_char_put_signal(dest + me(), &byte, 1, sig, half << 32 | half, SHMEM_SIGNAL_SET, 0);
    }
    for (int i = 0; i < ROUNDS && me() == 0; i++) {
        uint64_t found = shmem_signal_fetch(sig);
        CHECK_EQ(found >> 32, found & 0xffffffff);
    }
    barrier();
    if (me() == 0) CHECK(*sig != 0 && *sig >> 32 == (*sig & 0xffffffff));
}

DATA_CASE(wait_compares, 1,
          "signal_wait_until returns at once with the value, for every comparison that holds; values are unsigned (shmem_signal_wait_until)")
{
    uint64_t *sig = symmetric(sizeof *sig);
    char *data = symmetric(1);
    static const uint64_t values[] = {1, 0x7fffffffffffffff, 0x8000000000000000, ~0ull};
    for (int i = 0; i < 4; i++) {
        uint64_t v = values[i];
        shmem_put8_signal(data, data, 0, sig, v, SHMEM_SIGNAL_SET, me());
        shmem_quiet();
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, v), v);
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_NE, 0), v);
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GT, 0), v);
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GT, v - 1), v);
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_GE, v), v);
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_LE, v), v);
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_LE, ~0ull), v);
        if (v != ~0ull) CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_LT, v + 1), v);
        CHECK_EQ(shmem_signal_fetch(sig), v);
    }
}

DATA_CASE(wait_blocks, 2, "signal_wait_until does not return before the signal has arrived (shmem_signal_wait_until)")
{
    uint64_t *sig = symmetric(sizeof *sig);
    int *data = symmetric(sizeof *data), value = 9;
    barrier();
    if (me() == 0) {
        shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 1); /* the peer has read its clock */
        sleep_ms(60);
        shmem_int_put_signal(data, &value, 1, sig, 77, SHMEM_SIGNAL_SET, 1);
    } else {
        long long start = now_ms();
        shmem_signal_set(sig, 1, 0);
        CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 77), 77);
        CHECK_EQ(*data, 9);
        CHECK_OP(now_ms() - start, >=, 40);
    }
}

DATA_CASE(signals_are_waited_for_otherwise, 2,
          "wait_until, test and signal_fetch see a signal, too (Atomicity Guarantees for Signaling Operations)")
{
    uint64_t *sig = symmetric(sizeof *sig);
    long *data = symmetric(sizeof *data), value = 31 + me();
    shmem_long_put_signal(data, &value, 1, sig, 4, SHMEM_SIGNAL_ADD, next_pe());
    shmem_uint64_wait_until(sig, SHMEM_CMP_EQ, 4);
    CHECK_EQ(*data, 31 + previous_pe());
    barrier();
    value = 41 + me();
    shmem_long_put_signal(data, &value, 1, sig, 4, SHMEM_SIGNAL_ADD, next_pe());
    while (!shmem_uint64_test(sig, SHMEM_CMP_EQ, 8)) sleep_ms(0);
    CHECK_EQ(*data, 41 + previous_pe());
    barrier();
    value = 51 + me();
    shmem_long_put_signal(data, &value, 1, sig, 4, SHMEM_SIGNAL_ADD, next_pe());
    while (shmem_signal_fetch(sig) != 12) sleep_ms(0);
    CHECK_EQ(*data, 51 + previous_pe());
}

DATA_CASE(ring_of_signals, 4, "data passed round a ring by put_signal stays unchanged (shmem_put_signal)", .crowded = 9)
{
    enum { BYTES = 300, ROUNDS = 12 };
    unsigned char *data = symmetric(BYTES);
    uint64_t *sig = symmetric(sizeof *sig);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        if (me() == 0) {
            pattern_fill(data, BYTES, round);
            shmem_putmem_signal(data, data, BYTES, sig, round, SHMEM_SIGNAL_SET, next_pe());
            shmem_signal_wait_until(sig, SHMEM_CMP_EQ, round);
            CHECK_PATTERN(data, BYTES, round);
        } else {
            shmem_signal_wait_until(sig, SHMEM_CMP_EQ, round);
            CHECK_PATTERN(data, BYTES, round);
            shmem_putmem_signal_nbi(data, data, BYTES, sig, round, SHMEM_SIGNAL_SET, next_pe());
            shmem_quiet();
        }
    }
}

DATA_CASE(nbi_is_over_after_quiet, 3,
          "put_signal_nbi: after quiet the source may change; data and signal are at the target (shmem_put_signal_nbi)")
{
    enum { ROUNDS = 60, BYTES = 777 };
    unsigned char *dest = symmetric(ROUNDS * BYTES), *source = local(BYTES), *back = local(BYTES);
    uint64_t *sig = symmetric(sizeof *sig);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pattern_fill(source, BYTES, i);
        shmem_putmem_signal_nbi(dest + i * BYTES, source, BYTES, sig, 2, SHMEM_SIGNAL_ADD, next_pe());
        shmem_quiet();
        memset(source, 0xff, BYTES);
        shmem_getmem(back, dest + i * BYTES, BYTES, next_pe());
        CHECK_PATTERN(back, BYTES, i);
        CHECK_EQ(shmem_uint64_g(sig, next_pe()), 2 * (i + 1));
    }
}

#if SINCE(1, 6)
DATA_CASE(signals_alone, 3, "signal_set writes the value, signal_add adds it (shmem_signal_set, shmem_signal_add)")
{
    const uint64_t big = 0x8123456789abcdef;
    uint64_t *sig = symmetric(3 * sizeof *sig);
    shmem_signal_set(sig + 1, big, next_pe());
    shmem_quiet();
    CHECK_EQ(shmem_uint64_atomic_fetch(sig + 1, next_pe()), big);
    shmem_signal_add(sig + 1, big, next_pe());
    shmem_quiet();
    CHECK_EQ(shmem_uint64_atomic_fetch(sig + 1, next_pe()), 2 * big);
    shmem_ctx_signal_set(SHMEM_CTX_DEFAULT, sig + 1, 1, next_pe());
    shmem_quiet();
    shmem_ctx_signal_add(SHMEM_CTX_DEFAULT, sig + 1, 2, next_pe());
    barrier();
    CHECK_EQ(shmem_signal_fetch(sig + 1), 3);
    CHECK_EQ(sig[0], 0);
    CHECK_EQ(sig[2], 0);
    shmem_signal_add(sig, 5, me());
    shmem_quiet();
    CHECK_EQ(shmem_signal_fetch(sig), 5);
}

DATA_CASE(signals_alone_add_up, 4,
          "signal_add of many PEs and put_signal with SIGNAL_ADD give the exact sum (Atomicity Guarantees for Signaling Operations)",
          .crowded = 9)
{
    enum { ROUNDS = 150 };
    uint64_t *sig = symmetric(sizeof *sig);
    char *data = symmetric(PES_MAX), byte = 1;
    for (int i = 0; i < ROUNDS; i++) {
        shmem_signal_add(sig, 1, (me() + i) % n_pes());
        shmem_char_put_signal(data + me(), &byte, 1, sig, 1, SHMEM_SIGNAL_ADD, (me() + i) % n_pes());
    }
    barrier();
    uint64_t wanted = 0;
    for (int pe = 0; pe < n_pes(); pe++)
        for (int i = 0; i < ROUNDS; i++) wanted += (pe + i) % n_pes() == me() ? 2 : 0;
    CHECK_EQ(shmem_signal_fetch(sig), wanted);
}

DATA_CASE(signal_alone_wakes, 2, "signal_set and signal_add end a wait (shmem_signal_wait_until)")
{
    uint64_t *sig = symmetric(sizeof *sig);
    for (uint64_t round = 0; round < 3; round++) {
        barrier();
        if (me() == 0) {
            sleep_ms(20);
            if (round % 2) shmem_signal_set(sig, 2 * round + 1, 1);
            else shmem_signal_add(sig, 1, 1);
            shmem_signal_wait_until(sig, SHMEM_CMP_EQ, round + 1);
        } else {
            CHECK_EQ(shmem_signal_wait_until(sig, SHMEM_CMP_EQ, 2 * round + 1), 2 * round + 1);
            shmem_signal_set(sig, round + 1, 0);
            shmem_signal_add(sig, 1, 1);
            shmem_quiet();
        }
    }
}
#endif
#endif
