/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reductions over teams: and, or, xor, max, min, sum, prod. OpenSHMEM 1.6, "Collective Routines", reductions. In this
 * library sums and products of signed integers wrap, and all PEs get the same bits.
 */
#include "collective.h"
#include "types.h"

#include <complex.h>
#include <limits.h>
#include <math.h>

#if SINCE(1, 5)

/* One operation on one type: the routine under test, the operator in C, and values on which it is exact. */
struct row {
    const char *name;
    size_t bytes;
    int (*reduce)(shmem_team_t team, void *dest, const void *source, size_t count);
    void (*fold)(void *into, const void *with);
    void (*set)(void *at, uint64_t random);
    bool (*same)(const void *a, const void *b);
};

#define REDUCE(NAME, TYPE, OP)                                                                        \
    static int reduce_##NAME##_##OP(shmem_team_t team, void *dest, const void *source, size_t count)  \
    {                                                                                                 \
        return shmem_##NAME##_##OP##_reduce(team, dest, source, count);                               \
    }
#define FOLD(NAME, TYPE, OP, BODY)                              \
    static void fold_##NAME##_##OP(void *into, const void *with) \
    {                                                           \
        TYPE *a = into;                                         \
        const TYPE *b = with;                                   \
        BODY;                                                   \
    }
#define SET_AND_SAME(NAME, TYPE, VALUE)                                                             \
    static void set_##NAME(void *at, uint64_t random) { *(TYPE *)at = (TYPE)(VALUE); }              \
    static bool same_##NAME(const void *a, const void *b) { return *(const TYPE *)a == *(const TYPE *)b; }

#define ORDER(NAME, TYPE)                                \
    REDUCE(NAME, TYPE, max)                              \
    REDUCE(NAME, TYPE, min)                              \
    FOLD(NAME, TYPE, max, *a = *a > *b ? *a : *b)        \
    FOLD(NAME, TYPE, min, *a = *a < *b ? *a : *b)
#define ARITHMETIC(NAME, TYPE) REDUCE(NAME, TYPE, sum) REDUCE(NAME, TYPE, prod)

#define INTEGER(NAME, TYPE)                                     \
    ORDER(NAME, TYPE)                                           \
    ARITHMETIC(NAME, TYPE)                                      \
    FOLD(NAME, TYPE, sum, __builtin_add_overflow(*a, *b, a))    \
    FOLD(NAME, TYPE, prod, __builtin_mul_overflow(*a, *b, a))   \
    SET_AND_SAME(NAME, TYPE, random)
#define BITWISE(NAME, TYPE)            \
    REDUCE(NAME, TYPE, and)            \
    REDUCE(NAME, TYPE, or)             \
    REDUCE(NAME, TYPE, xor)            \
    FOLD(NAME, TYPE, and, *a &= *b)    \
    FOLD(NAME, TYPE, or, *a |= *b)     \
    FOLD(NAME, TYPE, xor, *a ^= *b)
#define REAL(NAME, TYPE)                \
    ORDER(NAME, TYPE)                   \
    ARITHMETIC(NAME, TYPE)              \
    FOLD(NAME, TYPE, sum, *a += *b)     \
    FOLD(NAME, TYPE, prod, *a *= *b)    \
    SET_AND_SAME(NAME, TYPE, (int)(random % 9) - 4)
#define COMPLEX(NAME, TYPE)             \
    ARITHMETIC(NAME, TYPE)              \
    FOLD(NAME, TYPE, sum, *a += *b)     \
    FOLD(NAME, TYPE, prod, *a *= *b)    \
    SET_AND_SAME(NAME, TYPE, (int)(random % 5) - 2 + ((int)(random / 5 % 5) - 2) * I)

RMA_INTEGER_TYPES(INTEGER)
REDUCE_BITWISE_TYPES(BITWISE)
REDUCE_REAL_TYPES(REAL)
REDUCE_COMPLEX_TYPES(COMPLEX)

#define ROW(NAME, TYPE, OP) \
    {#NAME " " #OP, sizeof(TYPE), reduce_##NAME##_##OP, fold_##NAME##_##OP, set_##NAME, same_##NAME},
#define ARITHMETIC_ROWS(NAME, TYPE) ROW(NAME, TYPE, sum) ROW(NAME, TYPE, prod)
#define ORDERED_ROWS(NAME, TYPE) ROW(NAME, TYPE, max) ROW(NAME, TYPE, min) ARITHMETIC_ROWS(NAME, TYPE)
#define BITWISE_ROWS(NAME, TYPE) ROW(NAME, TYPE, and) ROW(NAME, TYPE, or) ROW(NAME, TYPE, xor)
static const struct row rows[] = {
    REDUCE_ORDERED_TYPES(ORDERED_ROWS) REDUCE_BITWISE_TYPES(BITWISE_ROWS) REDUCE_COMPLEX_TYPES(ARITHMETIC_ROWS)};

enum { ELEMENTS = 7, CROWD = 9 };

static uint64_t value_of(int pe, size_t row, size_t element)
{
    return mix((uint64_t)pe << 32 | (uint64_t)row << 16 | (uint64_t)element);
}

static void fill(const struct row *row, void *start, size_t count, int pe)
{
    for (size_t e = 0; e < count; e++)
        row->set((char *)start + e * row->bytes, value_of(pe, (size_t)(row - rows), e));
}

static void check_reduced(const struct group *g, const struct row *row, const void *dest, size_t count)
{
    long double wanted, other; /* wide enough for any of the types */
    for (size_t e = 0; e < count; e++) {
        row->set(&wanted, value_of(g->world[0], (size_t)(row - rows), e));
        for (int k = 1; k < g->size; k++) {
            row->set(&other, value_of(g->world[k], (size_t)(row - rows), e));
            row->fold(&wanted, &other);
        }
        if (!row->same((const char *)dest + e * row->bytes, &wanted)) FAIL("element %zu of %zu is wrong", e, count);
    }
}

static unsigned char *dest_shared, *source_shared;

static void each_operation(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        const size_t bytes = ELEMENTS * row->bytes;
        about("%s, team of %d", row->name, g->size);
        memset(dest_shared, 0x77, bytes + row->bytes);
        fill(row, source_shared, ELEMENTS, me());
        CHECK_EQ(shmem_team_sync(g->team), 0);
        CHECK_EQ(row->reduce(g->team, dest_shared, source_shared, ELEMENTS), 0);
        check_reduced(g, row, dest_shared, ELEMENTS);
        CHECK_BYTES(dest_shared + bytes, row->bytes, 0x77);
    }
}

DATA_CASE(every_type_and_operation, 4,
          "dest on all PEs of the team is the sources' and, or, xor, max, min, sum or product", .crowded = CROWD)
{
    dest_shared = symmetric((ELEMENTS + 1) * sizeof(long double));
    source_shared = symmetric(ELEMENTS * sizeof(long double));
    for_each_group(each_operation);
}

static void each_operation_in_place(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        about("%s, team of %d", rows[i].name, g->size);
        fill(&rows[i], dest_shared, ELEMENTS, me());
        CHECK_EQ(shmem_team_sync(g->team), 0);
        CHECK_EQ(rows[i].reduce(g->team, dest_shared, dest_shared, ELEMENTS), 0);
        check_reduced(g, &rows[i], dest_shared, ELEMENTS);
        CHECK_EQ(shmem_team_sync(g->team), 0);
    }
}

DATA_CASE(dest_may_be_source, 4, "a reduction in place: dest and source are the same object", .crowded = CROWD)
{
    dest_shared = symmetric(ELEMENTS * sizeof(long double));
    for_each_group(each_operation_in_place);
}

DATA_CASE(source_stays, 3, "source stays unchanged, unless it is dest")
{
    enum { MANY = 5000 };
    long *dest = symmetric(MANY * sizeof *dest), *source = symmetric(MANY * sizeof *source);
    pattern_fill(source, MANY * sizeof *source, seed_of(me(), 0));
    CHECK_EQ(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, dest, source, MANY), 0);
    CHECK_PATTERN(source, MANY * sizeof *source, seed_of(me(), 0));
}

static const struct row *row_named(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    FAIL("no row %s", name);
}

static void whole_world(struct group *g)
{
    *g = (struct group){.team = SHMEM_TEAM_WORLD, .size = n_pes(), .mine = me()};
    for (int k = 0; k < g->size; k++) g->world[k] = k;
}

CASE(every_size, 3, "a reduction is whole at any length, from one element to megabytes, in place and not", .crowded = 5)
{
    static const char *const names[] = {"uchar xor",  "ushort sum",     "int max",
                                        "double sum", "longdouble min", "complexd prod"};
    static const size_t counts[] = {1, 2, 3, 17, 63, 64, 65, 500, 511, 1025, 4097, 30011, 65536};
    struct group world;
    whole_world(&world);
    const size_t most = 65536 * sizeof(long double);
    unsigned char *dest = symmetric(most), *source = symmetric(most);
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        const struct row *row = row_named(names[i % COUNT_OF(names)]);
        about("%s of %zu", row->name, counts[i]);
        fill(row, source, counts[i], me());
        shmem_sync_all();
        CHECK_EQ(row->reduce(SHMEM_TEAM_WORLD, dest, source, counts[i]), 0);
        check_reduced(&world, row, dest, counts[i]);
        shmem_sync_all();
        CHECK_EQ(row->reduce(SHMEM_TEAM_WORLD, source, source, counts[i]), 0);
        check_reduced(&world, row, source, counts[i]);
    }
}

CASE(megabytes, 3, "a reduction of 4 MiB")
{
    enum { MANY = 4 << 20 >> 3 };
    uint64_t *dest = symmetric(MANY * sizeof *dest), *source = symmetric(MANY * sizeof *source);
    for (size_t i = 0; i < MANY; i++) source[i] = i * 0x9e3779b97f4a7c15u + (uint64_t)me();
    CHECK_EQ(shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, dest, source, MANY), 0);
    for (size_t i = 0; i < MANY; i++)
        if (dest[i] != 3 * i * 0x9e3779b97f4a7c15u + 3) FAIL("element %zu is wrong", i);
}

DATA_CASE(zero_elements, 3, "a reduction of zero elements returns zero and writes nothing")
{
    unsigned char *dest = symmetric(64), *source = symmetric(64);
    memset(source, 0x55, 64);
    for (size_t i = 0; i < COUNT_OF(rows); i++) CHECK_EQ(rows[i].reduce(SHMEM_TEAM_WORLD, dest, source, 0), 0);
    barrier();
    CHECK_BYTES(dest, 64, 0);
}

DATA_CASE(one_after_the_other, 4,
          "reductions follow one another without other synchronization; source is free on return", .crowded = 8)
{
    enum { TIMES = 300 };
    long *dest = symmetric(TIMES * sizeof *dest), *source = symmetric(sizeof *source);
    for (int i = 0; i < TIMES; i++) {
        *source = me() + i;
        about("reduction %d", i);
        if (i % 2) CHECK_EQ(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &dest[i], source, 1), 0);
        else CHECK_EQ(shmem_long_max_reduce(SHMEM_TEAM_WORLD, &dest[i], source, 1), 0);
        CHECK_EQ(dest[i], i % 2 ? n_pes() * (n_pes() - 1) / 2 + n_pes() * i : n_pes() - 1 + i);
    }
}

/* ---- Integers wrap, floats behave as floats ------------------------------------------------------------- */

CASE(signed_overflow_wraps, 2, "sums and products of signed integers that leave their range wrap")
{
    int *i = symmetric(2 * sizeof *i);
    signed char *c = symmetric(2);
    int64_t *w = symmetric(2 * sizeof *w);
    *i = INT_MAX;
    *c = SCHAR_MAX;
    *w = INT64_MIN;
    CHECK_EQ(shmem_int_sum_reduce(SHMEM_TEAM_WORLD, i + 1, i, 1), 0);
    CHECK_EQ(shmem_schar_sum_reduce(SHMEM_TEAM_WORLD, c + 1, c, 1), 0);
    CHECK_EQ(shmem_int64_sum_reduce(SHMEM_TEAM_WORLD, w + 1, w, 1), 0);
    CHECK_EQ(i[1], -2);
    CHECK_EQ(c[1], -2);
    CHECK_EQ(w[1], 0);
    shmem_sync_all();
    CHECK_EQ(shmem_int_prod_reduce(SHMEM_TEAM_WORLD, i, i, 1), 0);
    CHECK_EQ(shmem_schar_prod_reduce(SHMEM_TEAM_WORLD, c, c, 1), 0);
    CHECK_EQ(*i, 1);
    CHECK_EQ(*c, 1);
}

CASE(extremes_of_order, 3, "max and min at the ends of the range, signed and unsigned")
{
    signed char *s = symmetric(3);
    unsigned char *u = symmetric(3);
    char *plain = symmetric(3);
    *s = (signed char[]){-128, 127, 0}[me()];
    *u = (unsigned char[]){0x80, 0x7f, 0xff}[me()];
    *plain = (char[]){CHAR_MIN, CHAR_MAX, 0}[me()];
    shmem_schar_max_reduce(SHMEM_TEAM_WORLD, s + 1, s, 1);
    shmem_schar_min_reduce(SHMEM_TEAM_WORLD, s + 2, s, 1);
    shmem_uchar_max_reduce(SHMEM_TEAM_WORLD, u + 1, u, 1);
    shmem_uchar_min_reduce(SHMEM_TEAM_WORLD, u + 2, u, 1);
    shmem_char_max_reduce(SHMEM_TEAM_WORLD, plain + 1, plain, 1);
    shmem_char_min_reduce(SHMEM_TEAM_WORLD, plain + 2, plain, 1);
    CHECK_EQ(s[1], 127);
    CHECK_EQ(s[2], -128);
    CHECK_EQ(u[1], 0xff);
    CHECK_EQ(u[2], 0x7f);
    CHECK_EQ(plain[1], CHAR_MAX);
    CHECK_EQ(plain[2], CHAR_MIN);
}

CASE(infinity_and_nan, 3, "infinities and NaN go through sums, products, max and min as in C")
{
#define SPECIAL(NAME, TYPE)                                                                      \
    {                                                                                            \
        TYPE *source = symmetric(6 * sizeof *source), *dest = symmetric(6 * sizeof *dest);       \
        source[0] = me() == 1 ? INFINITY : 1;                                                    \
        source[1] = me() == 1 ? INFINITY : -INFINITY;                                            \
        source[2] = me() == 2 ? NAN : 1;                                                         \
        source[3] = me() == 0 ? -INFINITY : me();                                                \
        source[4] = NAN;                                                                         \
        source[5] = me() == 1 ? 0 : INFINITY;                                                    \
        about(#NAME);                                                                            \
        CHECK_EQ(shmem_##NAME##_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 6), 0);               \
        CHECK(isinf(dest[0]) && dest[0] > 0);                                                    \
        CHECK(isnan(dest[1]));                                                                   \
        CHECK(isnan(dest[2]));                                                                   \
        CHECK(isinf(dest[3]) && dest[3] < 0);                                                    \
        CHECK(isnan(dest[4]));                                                                   \
        CHECK_EQ(shmem_##NAME##_prod_reduce(SHMEM_TEAM_WORLD, dest, source, 6), 0);              \
        CHECK(isinf(dest[0]) && dest[0] > 0);                                                    \
        CHECK(isnan(dest[2]));                                                                   \
        CHECK(isnan(dest[5]));                                                                   \
        shmem_sync_all();                                                                        \
        CHECK_EQ(shmem_##NAME##_max_reduce(SHMEM_TEAM_WORLD, dest, source, 6), 0);               \
        CHECK(isinf(dest[0]) && dest[0] > 0);                                                    \
        CHECK_NUMBER(dest[3], 2);                                                                \
        CHECK(isnan(dest[4]));                                                                   \
        shmem_sync_all();                                                                        \
        CHECK_EQ(shmem_##NAME##_min_reduce(SHMEM_TEAM_WORLD, dest, source, 6), 0);               \
        CHECK_NUMBER(dest[0], 1);                                                                \
        CHECK(isinf(dest[3]) && dest[3] < 0);                                                    \
        CHECK(isnan(dest[4]));                                                                   \
    }
    REDUCE_REAL_TYPES(SPECIAL)
}

/* Values whose sum depends on the order of the additions. */
static double awkward(int pe, size_t i)
{
    uint64_t bits = mix((uint64_t)pe * 100003 + i);
    return ldexp((double)(int64_t)bits, (int)(bits % 60) - 90);
}

CASE(floats_are_the_same_everywhere, 5, "sums and products of floating-point numbers have the same bits on all PEs",
     .crowded = 9)
{
    static const size_t counts[] = {1, 3, 64, 1000, 20000};
#define SAME_BITS(NAME, TYPE, DIGITS)                                                                   \
    for (size_t k = 0; k < COUNT_OF(counts); k++) {                                                     \
        const size_t count = counts[k];                                                                 \
        TYPE *source = symmetric(count * sizeof *source), *dest = symmetric(count * sizeof *dest);      \
        TYPE *of_first = local(count * sizeof *of_first);                                               \
        for (int prod = 0; prod < 2; prod++) {                                                          \
            for (size_t i = 0; i < count; i++) source[i] = (TYPE)awkward(me(), i);                      \
            about(#NAME " %s of %zu", prod ? "prod" : "sum", count);                                    \
            if (prod) CHECK_EQ(shmem_##NAME##_prod_reduce(SHMEM_TEAM_WORLD, dest, source, count), 0);   \
            else CHECK_EQ(shmem_##NAME##_sum_reduce(SHMEM_TEAM_WORLD, dest, source, count), 0);         \
            shmem_sync_all();                                                                           \
            shmem_getmem(of_first, dest, count * sizeof *dest, 0);                                      \
            for (size_t i = 0; i < count; i++)                                                          \
                if (memcmp(&of_first[i], &dest[i], DIGITS) != 0)                                        \
                    FAIL("element %zu: %La here, %La at PE 0", i, (long double)dest[i], (long double)of_first[i]);  \
            shmem_sync_all();                                                                           \
        }                                                                                               \
    }
    SAME_BITS(float, float, sizeof(float))
    SAME_BITS(double, double, sizeof(double))
    SAME_BITS(longdouble, long double, 10)
}

CASE(long_double_in_full, 3, "long double is summed and compared in its own precision, beyond that of double")
{
    long double *source = symmetric(4 * sizeof *source), *dest = symmetric(4 * sizeof *dest);
    source[0] = me() == 0 ? 1 : ldexpl(1, -60);
    source[1] = 1 + (long double)me() * ldexpl(1, -62);
    source[2] = me() == 1 ? ldexpl(1, 9000) : 1;
    source[3] = 1 + ldexpl(1, -30);
    CHECK_EQ(shmem_longdouble_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 1), 0);
    CHECK_NUMBER(dest[0], 1 + ldexpl(1, -59));
    shmem_sync_all();
    CHECK_EQ(shmem_longdouble_max_reduce(SHMEM_TEAM_WORLD, dest, source, 3), 0);
    CHECK_NUMBER(dest[1], 1 + ldexpl(1, -61));
    CHECK_NUMBER(dest[2], ldexpl(1, 9000));
    shmem_sync_all();
    CHECK_EQ(shmem_longdouble_min_reduce(SHMEM_TEAM_WORLD, dest, source, 3), 0);
    CHECK_NUMBER(dest[1], 1);
    if (me() == 2) source[3] = 1;
    shmem_sync_all();
    CHECK_EQ(shmem_longdouble_prod_reduce(SHMEM_TEAM_WORLD, dest, source, 4), 0);
    CHECK_NUMBER(dest[3], 1 + ldexpl(1, -29) + ldexpl(1, -60));
}

CASE(generic_names, 2, "C11: shmem_OP_reduce chooses by the type of dest")
{
#define GENERIC(NAME, TYPE)                                                                \
    {                                                                                      \
        TYPE *dest = symmetric(2 * sizeof *dest), *source = symmetric(2 * sizeof *source); \
        source[0] = (TYPE)(me() + 3);                                                      \
        source[1] = (TYPE)(me() + 5);                                                      \
        about(#NAME);                                                                      \
        CHECK_EQ(shmem_max_reduce(SHMEM_TEAM_WORLD, dest, source, 2), 0);                  \
        CHECK_NUMBER(dest[1], 6);                                                          \
        shmem_sync_all();                                                                  \
        CHECK_EQ(shmem_min_reduce(SHMEM_TEAM_WORLD, dest, source, 2), 0);                  \
        CHECK_NUMBER(dest[1], 5);                                                          \
        shmem_sync_all();                                                                  \
        CHECK_EQ(shmem_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 2), 0);                  \
        CHECK_NUMBER(dest[1], 11);                                                         \
        shmem_sync_all();                                                                  \
        CHECK_EQ(shmem_prod_reduce(SHMEM_TEAM_WORLD, dest, source, 2), 0);                 \
        CHECK_NUMBER(dest[1], 30);                                                         \
    }
    RMA_DISTINCT_TYPES(GENERIC)
    unsigned *bits = symmetric(4 * sizeof *bits);
    bits[0] = me() ? 6 : 3;
    CHECK_EQ(shmem_and_reduce(SHMEM_TEAM_WORLD, bits + 1, bits, 1), 0);
    CHECK_EQ(shmem_or_reduce(SHMEM_TEAM_WORLD, bits + 2, bits, 1), 0);
    CHECK_EQ(shmem_xor_reduce(SHMEM_TEAM_WORLD, bits + 3, bits, 1), 0);
    CHECK_OP(bits[1], ==, 2);
    CHECK_OP(bits[2], ==, 7);
    CHECK_OP(bits[3], ==, 5);
    double _Complex *z = symmetric(3 * sizeof *z);
    z[0] = 1 + me() * I;
    CHECK_EQ(shmem_sum_reduce(SHMEM_TEAM_WORLD, z + 1, z, 1), 0);
    CHECK_EQ(shmem_prod_reduce(SHMEM_TEAM_WORLD, z + 2, z, 1), 0);
    CHECK_OP(z[1], ==, 2 + 1 * I);
    CHECK_OP(z[2], ==, 1 + 1 * I);
}

#endif
