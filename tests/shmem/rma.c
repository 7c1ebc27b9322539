/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Blocking puts and gets of contiguous elements and of single ones: shmem_put, shmem_get, shmem_p, shmem_g under all of
 * their names. OpenSHMEM 1.6, "Remote Memory Access Routines".
 */
#include <float.h>
#include <limits.h>
#include <math.h>

#define SUFFIX
#include "blocks.h"

enum { COUNT = 37 };

DATA_CASE(put_reaches_its_target_only, 3, "put: the elements arrive at the named PE and nowhere else (shmem_put)")
{
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row)
    {
        elements_fill(e, slot(source, row), SLOT_ELEMENTS, (unsigned)row);
        if (me() == 0) b->put(slot(dest, row), slot(source, row), COUNT, 1);
    }
    barrier();
    FOR_EACH_BLOCK(b, e, row)
    {
        if (me() == 1) CHECK_ELEMENTS(e, slot(dest, row), COUNT, (unsigned)row);
        else CHECK_ZERO(e, slot(dest, row), 0, COUNT);
        CHECK_ZERO(e, slot(dest, row), COUNT, SLOT_ELEMENTS - COUNT);
        CHECK_ELEMENTS(e, slot(source, row), COUNT, (unsigned)row);
    }
}

DATA_CASE(get_takes_from_its_target, 3, "get: the elements are those of the named PE, which keeps them (shmem_get)")
{
    unsigned char *source = symmetric(SLOTS_BYTES), *dest = local(SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row) elements_fill(e, slot(source, row), SLOT_ELEMENTS, (unsigned)(row + 1000 * me()));
    barrier();
    FOR_EACH_BLOCK(b, e, row)
    {
        unsigned seed = (unsigned)(row + 1000 * next_pe());
        b->get(slot(dest, row), slot(source, row), COUNT, next_pe());
        CHECK_ELEMENTS(e, slot(dest, row), COUNT, seed);
        CHECK_ZERO(e, slot(dest, row), COUNT, SLOT_ELEMENTS - COUNT);
    }
    barrier();
    FOR_EACH_BLOCK(b, e, row) CHECK_ELEMENTS(e, slot(source, row), COUNT, (unsigned)(row + 1000 * me()));
}

DATA_CASE(put_and_get_of_oneself, 2, "put, get: the named PE may be the caller (shmem_put, shmem_get)")
{
    unsigned char *there = symmetric(SLOTS_BYTES), *here = local(SLOTS_BYTES), *back = local(SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row)
    {
        elements_fill(e, slot(here, row), COUNT, (unsigned)(row + me()));
        b->put(slot(there, row), slot(here, row), COUNT, me());
    }
    shmem_quiet();
    FOR_EACH_BLOCK(b, e, row)
    {
        CHECK_ELEMENTS(e, slot(there, row), COUNT, (unsigned)(row + me()));
        b->get(slot(back, row), slot(there, row), COUNT, me());
        CHECK_ELEMENTS(e, slot(back, row), COUNT, (unsigned)(row + me()));
    }
}

DATA_CASE(no_elements, 2, "put, get: with nelems 0 nothing is written (shmem_put, shmem_get)")
{
    unsigned char *there = symmetric(SLOTS_BYTES), *here = local(SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row) elements_fill(e, slot(me() == 0 ? here : there, row), COUNT, (unsigned)row);
    barrier();
    if (me() == 0) {
        FOR_EACH_BLOCK(b, e, row)
        {
            b->put(slot(there, row), slot(here, row), 0, 1);
            b->get(slot(here, row), slot(there, row), 0, 1);
        }
    }
    barrier();
    FOR_EACH_BLOCK(b, e, row) CHECK_ELEMENTS(e, slot(me() == 0 ? here : there, row), COUNT, (unsigned)row);
}

DATA_CASE(every_count, 2,
          "put, get: any number of elements is moved whole, and its neighbours stay (shmem_put, shmem_get)")
{
    unsigned char *there = symmetric(SLOTS_BYTES), *whole = symmetric(SLOTS_BYTES), *back = local(SLOTS_BYTES);
    static const size_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65};
    FOR_EACH_BLOCK(b, e, row) elements_fill(e, slot(whole, row), SLOT_ELEMENTS, (unsigned)(row + me()));
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t n = counts[c];
        memset(there, 0, SLOTS_BYTES);
        memset(back, 0, SLOTS_BYTES);
        barrier();
        FOR_EACH_BLOCK(b, e, row) b->put(element_at(e, slot(there, row), 3), slot(whole, row), n, next_pe());
        barrier();
        FOR_EACH_BLOCK(b, e, row)
        {
            CHECK_ZERO(e, slot(there, row), 0, 3);
            CHECK_ELEMENTS(e, element_at(e, slot(there, row), 3), n, (unsigned)(row + previous_pe()));
            CHECK_ZERO(e, slot(there, row), 3 + n, SLOT_ELEMENTS - 3 - n);
            b->get(element_at(e, slot(back, row), 1), slot(whole, row), n, next_pe());
            CHECK_ZERO(e, slot(back, row), 0, 1);
            CHECK_ELEMENTS(e, element_at(e, slot(back, row), 1), n, (unsigned)(row + next_pe()));
            CHECK_ZERO(e, slot(back, row), 1 + n, SLOT_ELEMENTS - 1 - n);
        }
        barrier();
    }
}

DATA_CASE(source_is_free_at_once, 2, "put: when it returns the source has been read and may change (shmem_put)")
{
    enum { ROUNDS = 200 };
    struct element e = ELEMENT(long, long);
    long *dest = symmetric(ROUNDS * COUNT * sizeof(long)), *source = local(COUNT * sizeof(long));
    for (unsigned i = 0; i < ROUNDS; i++) {
        elements_fill(&e, source, COUNT, i);
        shmem_long_put(dest + i * COUNT, source, COUNT, next_pe());
        memset(source, 0xff, COUNT * sizeof(long));
    }
    barrier();
    for (unsigned i = 0; i < ROUNDS; i++) CHECK_ELEMENTS(&e, dest + i * COUNT, COUNT, i);
}

static const char constant_text[] = "held in memory that nobody can write";

DATA_CASE(source_may_be_anywhere, 2,
          "put: the source is any memory of the caller: stack, heap, constants, symmetric (shmem_put)")
{
    enum { BYTES = sizeof constant_text };
    char *dest = symmetric(4 * BYTES), *shared = symmetric_in(HEAP, BYTES), *fixed = symmetric_in(STATIC, BYTES);
    char stack[BYTES], *heap = malloc(BYTES);
    memcpy(stack, constant_text, BYTES);
    memcpy(heap, constant_text, BYTES);
    memcpy(shared, constant_text, BYTES);
    memcpy(fixed, constant_text, BYTES);
    char *sources[] = {stack, heap, shared, fixed};
    for (int i = 0; i < 4; i++) {
        memset(dest, 0, BYTES);
        barrier();
        shmem_putmem(dest, sources[i], BYTES, next_pe());
        barrier();
        CHECK_SAME(dest, constant_text, BYTES);
        barrier();
    }
    memset(dest, 0, BYTES);
    barrier();
    shmem_char_put(dest, constant_text, BYTES, next_pe());
    barrier();
    CHECK_SAME(dest, constant_text, BYTES);
    free(heap);
}

DATA_CASE(get_may_write_anywhere, 2, "get: dest is any memory of the caller: stack, heap, symmetric (shmem_get)")
{
    enum { BYTES = 333 };
    char *source = symmetric(BYTES), *shared = symmetric_in(HEAP, BYTES), *fixed = symmetric_in(STATIC, BYTES);
    char stack[BYTES], *heap = malloc(BYTES);
    pattern_fill(source, BYTES, (unsigned)me());
    barrier();
    char *dests[] = {stack, heap, shared, fixed};
    for (int i = 0; i < 4; i++) {
        memset(dests[i], 0, BYTES);
        shmem_getmem(dests[i], source, BYTES, next_pe());
        CHECK_PATTERN(dests[i], BYTES, (unsigned)next_pe());
    }
    barrier();
    free(heap);
}

DATA_CASE(same_object_on_both_sides, 2,
          "put, get: dest and source may be one symmetric object, the caller's and the peer's (shmem_put)")
{
    enum { BYTES = 1000 };
    char *object = symmetric(BYTES), *another = symmetric(BYTES);
    if (me() == 0) {
        pattern_fill(object, BYTES, 7);
        shmem_putmem(object, object, BYTES, 1);
    }
    barrier();
    CHECK_PATTERN(object, BYTES, 7);
    pattern_fill(another, BYTES, (unsigned)me());
    barrier();
    if (me() == 0) shmem_getmem(another, another, BYTES, 1);
    CHECK_PATTERN(another, BYTES, 1);
}

/* Lengths of whole words and a rest, so that a loop over words has a rest at either end. */
DATA_CASE(bytes_at_any_alignment, 2,
          "putmem, getmem: addresses need no alignment, and bytes beside the range stay (shmem_putmem)")
{
    enum { ROOM = 96, OFFSETS = 16 };
    static const size_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 64};
    unsigned char *there = symmetric(OFFSETS * OFFSETS * ROOM), *here = local(ROOM), *back = local(ROOM);
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        size_t bytes = lengths[l];
        about("%zu bytes", bytes);
        memset(there, 0x55, OFFSETS * OFFSETS * ROOM);
        barrier();
        for (unsigned i = 0; i < OFFSETS * OFFSETS; i++) {
            unsigned to = i % OFFSETS, from = i / OFFSETS;
            memset(here, 0xcc, ROOM);
            pattern_fill(here + from, bytes, i);
            shmem_putmem(there + i * ROOM + to, here + from, bytes, next_pe());
        }
        barrier();
        for (unsigned i = 0; i < OFFSETS * OFFSETS; i++) {
            unsigned to = i % OFFSETS, from = i / OFFSETS;
            unsigned char *room = there + i * ROOM;
            CHECK_BYTES(room, to, 0x55);
            CHECK_PATTERN(room + to, bytes, i);
            CHECK_BYTES(room + to + bytes, ROOM - to - bytes, 0x55);
            memset(back, 0xaa, ROOM);
            shmem_getmem(back + from, room + to, bytes, next_pe());
            CHECK_BYTES(back, from, 0xaa);
            CHECK_PATTERN(back + from, bytes, i);
            CHECK_BYTES(back + from + bytes, ROOM - from - bytes, 0xaa);
        }
        barrier();
    }
}

#define SINGLE_OF_TYPE(NAME, TYPE)                                                          \
    static void single_put_##NAME(void *dest, const void *value, int pe)                    \
    {                                                                                       \
        shmem_##NAME##_p(dest, *(const TYPE *)value, pe);                                   \
        shmem_ctx_##NAME##_p(SHMEM_CTX_DEFAULT, (TYPE *)dest + 1, *(const TYPE *)value, pe); \
    }                                                                                       \
    static void single_get_##NAME(void *into, const void *source, int pe)                   \
    {                                                                                       \
        ((TYPE *)into)[0] = shmem_##NAME##_g(source, pe);                                   \
        ((TYPE *)into)[1] = shmem_ctx_##NAME##_g(SHMEM_CTX_DEFAULT, source, pe);            \
    }
RMA_TYPES(SINGLE_OF_TYPE)

static const struct single {
    struct element element;
    void (*put)(void *dest, const void *value, int pe); /* to two neighbours: plain, and with a context */
    void (*get)(void *into, const void *source, int pe); /* the same element, twice */
} singles[] = {
#define SINGLE_ROW(NAME, TYPE) {ELEMENT(NAME, TYPE), single_put_##NAME, single_get_##NAME},
    RMA_TYPES(SINGLE_ROW)
};
enum { SINGLES = sizeof singles / sizeof singles[0], SINGLE_ROOM = 64 };

DATA_CASE(single_elements, 3, "p, g: one element goes to, and comes from, the named PE (shmem_p, shmem_g)")
{
    unsigned char *there = symmetric(SINGLES * SINGLE_ROOM);
    _Alignas(16) unsigned char value[16];
    _Alignas(16) unsigned char fetched[32];
    for (int i = 0; i < SINGLES; i++) {
        const struct element *e = &singles[i].element;
        e->set(value, (uint64_t)(i + 100 * me()));
        singles[i].put(element_at(e, there + i * SINGLE_ROOM, 1), value, next_pe());
    }
    barrier();
    for (int i = 0; i < SINGLES; i++) {
        const struct element *e = &singles[i].element;
        const unsigned char *room = there + i * SINGLE_ROOM;
        about("%s", e->name);
        CHECK_ZERO(e, room, 0, 1);
        CHECK(e->is(element_at(e, room, 1), (uint64_t)(i + 100 * previous_pe())));
        CHECK(e->is(element_at(e, room, 2), (uint64_t)(i + 100 * previous_pe())));
        CHECK_ZERO(e, room, 3, 1);
        for (int pe = 0; pe < n_pes(); pe++) {
            uint64_t wanted = (uint64_t)(i + 100 * ((pe + n_pes() - 1) % n_pes()));
            singles[i].get(fetched, element_at(e, room, 1), pe);
            CHECK(e->is(fetched, wanted));
            CHECK(e->is(element_at(e, fetched, 1), wanted));
        }
    }
}

/* Extreme values, which a call could narrow or change in sign. */
#define EXTREMES(NAME, TYPE, ...)                                                           \
    {                                                                                       \
        static const TYPE values[] = {__VA_ARGS__};                                         \
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {                     \
            about("%s, value %zu", #NAME, i);                                               \
            shmem_##NAME##_p((TYPE *)word, values[i], next_pe());                           \
            barrier();                                                                      \
            CHECK_NUMBER(*(TYPE *)word, values[i]);                                         \
            CHECK_NUMBER(shmem_##NAME##_g((TYPE *)word, next_pe()), values[i]);             \
            barrier();                                                                      \
        }                                                                                   \
    }

DATA_CASE(extreme_integers, 2,
          "p, g: least and greatest values of the integer types arrive as they are (shmem_p, shmem_g)")
{
    void *word = symmetric(16);
    EXTREMES(char, char, CHAR_MIN, CHAR_MAX)
    EXTREMES(schar, signed char, SCHAR_MIN, SCHAR_MAX, -1)
    EXTREMES(short, short, SHRT_MIN, SHRT_MAX, -1)
    EXTREMES(int, int, INT_MIN, INT_MAX, -1)
    EXTREMES(long, long, LONG_MIN, LONG_MAX, -1)
    EXTREMES(longlong, long long, LLONG_MIN, LLONG_MAX, -1)
    EXTREMES(uchar, unsigned char, UCHAR_MAX)
    EXTREMES(ushort, unsigned short, USHRT_MAX)
    EXTREMES(uint, unsigned int, UINT_MAX)
    EXTREMES(ulong, unsigned long, ULONG_MAX)
    EXTREMES(ulonglong, unsigned long long, ULLONG_MAX)
    EXTREMES(int8, int8_t, INT8_MIN, INT8_MAX)
    EXTREMES(int16, int16_t, INT16_MIN, INT16_MAX)
    EXTREMES(int32, int32_t, INT32_MIN, INT32_MAX)
    EXTREMES(int64, int64_t, INT64_MIN, INT64_MAX)
    EXTREMES(uint8, uint8_t, UINT8_MAX)
    EXTREMES(uint16, uint16_t, UINT16_MAX)
    EXTREMES(uint32, uint32_t, UINT32_MAX)
    EXTREMES(uint64, uint64_t, UINT64_MAX)
    EXTREMES(size, size_t, SIZE_MAX)
    EXTREMES(ptrdiff, ptrdiff_t, PTRDIFF_MIN, PTRDIFF_MAX)
}

DATA_CASE(extreme_reals, 2,
          "p, g: a real arrives with its sign, its range and all its digits, NaN included (shmem_p, shmem_g)")
{
    void *word = symmetric(16);
    EXTREMES(float, float, FLT_MAX, FLT_MIN, -FLT_EPSILON, INFINITY, -INFINITY)
    EXTREMES(double, double, DBL_MAX, DBL_MIN, 1 + DBL_EPSILON, INFINITY, -INFINITY)
    EXTREMES(longdouble, long double, LDBL_MAX, LDBL_MIN, 1 + LDBL_EPSILON, -LDBL_MAX, INFINITY)
    shmem_float_p(word, -0.0f, next_pe());
    barrier();
    CHECK(signbit(*(float *)word));
    CHECK(signbit(shmem_float_g(word, next_pe())));
    barrier();
    shmem_double_p(word, NAN, next_pe());
    barrier();
    CHECK(isnan(*(double *)word));
    CHECK(isnan(shmem_double_g(word, next_pe())));
    barrier();
    shmem_longdouble_p(word, -NAN, next_pe());
    barrier();
    CHECK(isnan(*(long double *)word));
    CHECK(isnan(shmem_longdouble_g(word, next_pe())));
}

DATA_CASE(object_inside_an_object, 2,
          "the address of an element, or of a member of a structure, is symmetric as well (Pointers to Symmetric Objects)")
{
    struct part {
        char tag;
        double value[5];
        short last;
    } *parts = symmetric(10 * sizeof *parts);
    shmem_double_p(&parts[7].value[3], 1.5 + me(), next_pe());
    shmem_short_p(&parts[9].last, (short)(40 + me()), next_pe());
    barrier();
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 5; k++) CHECK_NUMBER(parts[i].value[k], i == 7 && k == 3 ? 1.5 + previous_pe() : 0);
        CHECK_EQ(parts[i].last, i == 9 ? 40 + previous_pe() : 0);
        CHECK_EQ(parts[i].tag, 0);
    }
    CHECK_NUMBER(shmem_double_g(&parts[7].value[3], next_pe()), 1.5 + me());
}

DATA_CASE(all_into_one, 4,
          "put: adjacent parts that many PEs write into one object are all in place after a barrier (shmem_put)",
          .crowded = 9)
{
    enum { PIECE = 7, ROUNDS = 64 }; /* pieces of 7 bytes share their words with their neighbours */
    unsigned char *object = symmetric((size_t)PES_MAX * PIECE * ROUNDS);
    unsigned char piece[PIECE];
    for (int round = 0; round < ROUNDS; round++) {
        int at = round * n_pes() + me();
        pattern_fill(piece, PIECE, (unsigned)at);
        shmem_putmem(object + (size_t)at * PIECE, piece, PIECE, 0);
    }
    barrier();
    for (int at = 0; me() == 0 && at < ROUNDS * n_pes(); at++)
        CHECK_PATTERN(object + (size_t)at * PIECE, PIECE, (unsigned)at);
}

DATA_CASE(all_to_all, 4, "put, get: every PE reaches every PE, itself included (shmem_put, shmem_get)", .crowded = 9)
{
    struct element e = ELEMENT(int, int);
    int *inbox = symmetric((size_t)PES_MAX * COUNT * sizeof(int)), here[COUNT];
    for (int pe = 0; pe < n_pes(); pe++) {
        elements_fill(&e, here, COUNT, (unsigned)(me() * PES_MAX + pe));
        shmem_int_put(inbox + me() * COUNT, here, COUNT, pe);
    }
    barrier();
    for (int from = 0; from < n_pes(); from++) {
        CHECK_ELEMENTS(&e, inbox + from * COUNT, COUNT, (unsigned)(from * PES_MAX + me()));
        for (int pe = 0; pe < n_pes(); pe++) {
            shmem_int_get(here, inbox + from * COUNT, COUNT, pe);
            CHECK_ELEMENTS(&e, here, COUNT, (unsigned)(from * PES_MAX + pe));
        }
    }
}

DATA_CASE(third_party_sees_it, 3,
          "a third PE gets data that one PE put into a second, after a barrier (shmem_barrier_all)")
{
    struct element e = ELEMENT(short, short);
    short *object = symmetric(COUNT * sizeof(short)), here[COUNT];
    elements_fill(&e, here, COUNT, 5);
    if (me() == 0) shmem_short_put(object, here, COUNT, 1);
    barrier();
    memset(here, 0, sizeof here);
    if (me() == 2) {
        shmem_short_get(here, object, COUNT, 1);
        CHECK_ELEMENTS(&e, here, COUNT, 5);
    }
}

DATA_CASE(own_stores_are_seen, 2,
          "other PEs get a PE's stores into its own symmetric object, after a barrier (shmem_barrier_all)")
{
    long *object = symmetric(sizeof(long));
    for (long round = 1; round <= 50; round++) {
        *object = round * 1000 + me();
        barrier();
        CHECK_EQ(shmem_long_g(object, next_pe()), round * 1000 + next_pe());
        barrier();
    }
}

DATA_CASE(get_does_not_wait_for_the_owner, 2,
          "get: the PE that owns the source makes no matching call (one-sided communication)")
{
    long *object = symmetric(sizeof(long)), *done = symmetric(sizeof(long));
    *object = 70 + me();
    barrier();
    if (me() == 0) {
        for (int i = 0; i < 100; i++) CHECK_EQ(shmem_long_g(object, 1), 71);
        shmem_long_p(done, 1, 1);
    } else {
        shmem_long_wait_until(done, SHMEM_CMP_EQ, 1); /* makes progress on its NIC, if the NIC needs its owner's calls */
    }
}

DATA_CASE(put_then_get_after_quiet, 2, "after quiet the caller gets its own put back (shmem_quiet)")
{
    long *word = symmetric(sizeof(long));
    for (long i = 1; i <= 300; i++) {
        shmem_long_p(word, i, next_pe());
        shmem_quiet();
        CHECK_EQ(shmem_long_g(word, next_pe()), i);
    }
}
