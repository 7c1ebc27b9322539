/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Prefix sums: shmem_sum_inscan, shmem_sum_exscan. OpenSHMEM 1.6, "Collective Routines", scan. */
#include "collective.h"
#include "types.h"

#include <complex.h>
#include <shmemx.h>

#if SINCE(1, 6)

struct row {
    const char *name;
    size_t bytes;
    int (*inscan)(shmem_team_t team, void *dest, const void *source, size_t count);
    int (*exscan)(shmem_team_t team, void *dest, const void *source, size_t count);
    void (*set)(void *at, long value); /* a whole number in this type */
    bool (*is)(const void *at, long value);
};

#define SCANS(NAME, TYPE)                                                                                   \
    static int inscan_##NAME(shmem_team_t team, void *dest, const void *source, size_t count)               \
    {                                                                                                       \
        return shmem_##NAME##_sum_inscan(team, dest, source, count);                                        \
    }                                                                                                       \
    static int exscan_##NAME(shmem_team_t team, void *dest, const void *source, size_t count)               \
    {                                                                                                       \
        return shmem_##NAME##_sum_exscan(team, dest, source, count);                                        \
    }
#define REAL(NAME, TYPE)                                                          \
    SCANS(NAME, TYPE)                                                             \
    static void set_##NAME(void *at, long value) { *(TYPE *)at = (TYPE)value; }   \
    static bool is_##NAME(const void *at, long value) { return *(const TYPE *)at == (TYPE)value; }
#define COMPLEX(NAME, TYPE)                                                                          \
    SCANS(NAME, TYPE)                                                                                \
    static void set_##NAME(void *at, long value) { *(TYPE *)at = (TYPE)(value - 2 * value * I); }    \
    static bool is_##NAME(const void *at, long value) { return *(const TYPE *)at == (TYPE)(value - 2 * value * I); }
REDUCE_ORDERED_TYPES(REAL)
REDUCE_COMPLEX_TYPES(COMPLEX)

#define ROW(NAME, TYPE) {#NAME, sizeof(TYPE), inscan_##NAME, exscan_##NAME, set_##NAME, is_##NAME},
static const struct row rows[] = {REDUCE_ORDERED_TYPES(ROW) REDUCE_COMPLEX_TYPES(ROW)};

enum { ELEMENTS = 7, CROWD = 9 };

static unsigned char *dest_shared, *source_shared;

/* Large enough that the narrow types wrap, small enough that the floating-point ones are exact. */
static long value_of(int pe, size_t element) { return (long)(mix((uint64_t)pe * 4096 + element) % 201) - 100; }

static void fill(const struct row *row, void *start, size_t count)
{
    for (size_t e = 0; e < count; e++) row->set((char *)start + e * row->bytes, value_of(me(), e));
}

static void check_scanned(const struct group *g, const struct row *row, const void *start, size_t count, bool inclusive)
{
    for (size_t e = 0; e < count; e++) {
        long sum = 0;
        for (int k = 0; k < g->mine + inclusive; k++) sum += value_of(g->world[k], e);
        if (!row->is((const char *)start + e * row->bytes, sum)) FAIL("element %zu is not %ld", e, sum);
    }
}

static void each_type(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        const struct row *row = &rows[i / 2];
        const bool inclusive = i % 2;
        const size_t bytes = ELEMENTS * row->bytes;
        about("%s %s, team of %d", row->name, inclusive ? "inscan" : "exscan", g->size);
        memset(dest_shared, 0x77, bytes + row->bytes);
        fill(row, source_shared, ELEMENTS);
        CHECK_EQ(shmem_team_sync(g->team), 0);
        CHECK_EQ((inclusive ? row->inscan : row->exscan)(g->team, dest_shared, source_shared, ELEMENTS), 0);
        check_scanned(g, row, dest_shared, ELEMENTS, inclusive);
        CHECK_BYTES(dest_shared + bytes, row->bytes, 0x77);
    }
}

DATA_CASE(every_type, 4,
          "dest at PE i of the team is the sum of the sources of PEs 0 to i (inscan) or before i (exscan)",
          .crowded = CROWD)
{
    dest_shared = symmetric((ELEMENTS + 1) * sizeof(long double));
    source_shared = symmetric(ELEMENTS * sizeof(long double));
    for_each_group(each_type);
}

static void each_type_in_place(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        const struct row *row = &rows[i / 2];
        about("%s %s, team of %d", row->name, i % 2 ? "inscan" : "exscan", g->size);
        fill(row, dest_shared, ELEMENTS);
        CHECK_EQ(shmem_team_sync(g->team), 0);
        CHECK_EQ((i % 2 ? row->inscan : row->exscan)(g->team, dest_shared, dest_shared, ELEMENTS), 0);
        check_scanned(g, row, dest_shared, ELEMENTS, i % 2);
        CHECK_EQ(shmem_team_sync(g->team), 0);
    }
}

DATA_CASE(dest_may_be_source, 4, "a scan in place: dest and source are the same object", .crowded = CROWD)
{
    dest_shared = symmetric(ELEMENTS * sizeof(long double));
    for_each_group(each_type_in_place);
}

DATA_CASE(first_of_exscan_is_zero, 2, "exscan at PE 0 of the team is zero, whatever dest held")
{
    double *dest = symmetric(3 * sizeof *dest), *source = symmetric(3 * sizeof *source);
    for (int i = 0; i < 3; i++) {
        dest[i] = 9;
        source[i] = i + 1;
    }
    shmem_sync_all();
    CHECK_EQ(shmem_double_sum_exscan(SHMEM_TEAM_WORLD, dest, source, 3), 0);
    for (int i = 0; i < 3; i++) CHECK_NUMBER(dest[i], me() * (i + 1));
}

CASE(every_size, 3, "a scan is whole at any length", .crowded = 5)
{
    static const size_t counts[] = {1, 2, 63, 64, 65, 511, 1025, 4097, 30011, 131072};
    for (size_t k = 0; k < COUNT_OF(counts); k++) {
        uint64_t *dest = symmetric(counts[k] * sizeof *dest), *source = symmetric(counts[k] * sizeof *source);
        for (int inclusive = 0; inclusive < 2; inclusive++) {
            about("%s of %zu", inclusive ? "inscan" : "exscan", counts[k]);
            for (size_t i = 0; i < counts[k]; i++) source[i] = i * 0x9e3779b97f4a7c15u + (uint64_t)me();
            shmem_sync_all();
            if (inclusive) CHECK_EQ(shmem_uint64_sum_inscan(SHMEM_TEAM_WORLD, dest, source, counts[k]), 0);
            else CHECK_EQ(shmem_uint64_sum_exscan(SHMEM_TEAM_WORLD, dest, source, counts[k]), 0);
            const uint64_t terms = (uint64_t)(me() + inclusive);
            for (size_t i = 0; i < counts[k]; i++)
                if (dest[i] != terms * (i * 0x9e3779b97f4a7c15u) + terms * (terms - 1) / 2)
                    FAIL("element %zu is wrong", i);
        }
    }
}

DATA_CASE(zero_elements, 3, "a scan of zero elements returns zero and writes nothing")
{
    unsigned char *dest = symmetric(64), *source = symmetric(64);
    memset(source, 0x55, 64);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_EQ(rows[i].inscan(SHMEM_TEAM_WORLD, dest, source, 0), 0);
        CHECK_EQ(rows[i].exscan(SHMEM_TEAM_WORLD, dest, source, 0), 0);
    }
    barrier();
    CHECK_BYTES(dest, 64, 0);
}

DATA_CASE(one_after_the_other, 4, "scans follow one another without other synchronization; source is free on return",
          .crowded = 8)
{
    enum { TIMES = 200 };
    long *dest = symmetric(TIMES * sizeof *dest), *source = symmetric(sizeof *source);
    for (int i = 0; i < TIMES; i++) {
        *source = i + 1;
        about("scan %d", i);
        if (i % 2) CHECK_EQ(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, &dest[i], source, 1), 0);
        else CHECK_EQ(shmem_long_sum_exscan(SHMEM_TEAM_WORLD, &dest[i], source, 1), 0);
        CHECK_EQ(dest[i], (i + 1) * (me() + i % 2));
    }
}

CASE(places_by_scan, 4, "an exscan of lengths gives the start of each PE's part of a common array")
{
    size_t *length = symmetric(sizeof *length), *begin = symmetric(sizeof *begin);
    int *array = symmetric(64 * sizeof *array), part[8];
    *length = (size_t)(me() * 2 + 1);
    for (size_t i = 0; i < *length; i++) part[i] = me() * 10 + (int)i;
    CHECK_EQ(shmem_size_sum_exscan(SHMEM_TEAM_WORLD, begin, length, 1), 0);
    shmem_int_put(array + *begin, part, *length, 0);
    barrier();
    for (int pe = 0, at = 0; me() == 0 && pe < 4; pe++)
        for (int i = 0; i < pe * 2 + 1; i++) CHECK_EQ(array[at++], pe * 10 + i);
}

CASE(generic_names, 2, "C11: shmem_sum_inscan and shmem_sum_exscan choose by the type of dest")
{
#define GENERIC(NAME, TYPE)                                                        \
    {                                                                              \
        TYPE *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source); \
        *source = (TYPE)(me() + 3);                                                \
        about(#NAME);                                                              \
        CHECK_EQ(shmem_sum_inscan(SHMEM_TEAM_WORLD, dest, source, 1), 0);          \
        CHECK_NUMBER(*dest, me() ? 7 : 3);                                         \
        shmem_sync_all();                                                          \
        CHECK_EQ(shmem_sum_exscan(SHMEM_TEAM_WORLD, dest, source, 1), 0);          \
        CHECK_NUMBER(*dest, me() ? 3 : 0);                                         \
    }
    RMA_DISTINCT_TYPES(GENERIC)
}

CASE(names_before_the_standard, 2, "shmemx_TYPE_sum_inscan and shmemx_TYPE_sum_exscan are the same routines")
{
    int *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    *source = me() + 3;
    CHECK_EQ(shmemx_int_sum_inscan(SHMEM_TEAM_WORLD, dest, source, 1), 0);
    CHECK_EQ(*dest, me() ? 7 : 3);
    shmem_sync_all();
    CHECK_EQ(shmemx_int_sum_exscan(SHMEM_TEAM_WORLD, dest, source, 1), 0);
    CHECK_EQ(*dest, me() ? 3 : 0);
}

#endif
