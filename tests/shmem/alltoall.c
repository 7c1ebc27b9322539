/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shmem_alltoall and shmem_alltoalls over teams. OpenSHMEM 1.6, "Collective Routines", alltoall and alltoalls. */
#include "collective.h"
#include "types.h"

#if SINCE(1, 5)

struct row {
    const char *name;
    size_t bytes;
    int (*alltoall)(shmem_team_t team, void *dest, const void *source, size_t count);
    int (*alltoalls)(shmem_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t count);
};

#define THUNK(NAME, TYPE)                                                                                          \
    static int alltoall_##NAME(shmem_team_t team, void *dest, const void *source, size_t count)                    \
    {                                                                                                              \
        return shmem_##NAME##_alltoall(team, dest, source, count);                                                 \
    }                                                                                                              \
    static int alltoalls_##NAME(shmem_team_t team, void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst,   \
                                size_t count)                                                                      \
    {                                                                                                              \
        return shmem_##NAME##_alltoalls(team, dest, source, dst, sst, count);                                      \
    }
RMA_TYPES(THUNK)

#define ROW(NAME, TYPE) {#NAME, sizeof(TYPE), alltoall_##NAME, alltoalls_##NAME},
static const struct row rows[] = {RMA_TYPES(ROW) {"mem", 1, shmem_alltoallmem, shmem_alltoallsmem}};

enum { ELEMENTS = 5, CROWD = 9, STRIDE_MAX = 4 };

static unsigned char *dest_shared, *source_shared;

static unsigned seed_between(int from, int to, int which) { return (unsigned)((from * 64 + to) * 1000 + which + 1); }

static void each_type(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        const size_t part = ELEMENTS * row->bytes, whole = part * (size_t)g->size;
        about("%s, team of %d", row->name, g->size);
        memset(dest_shared, 0x77, whole + row->bytes);
        for (int k = 0; k < g->size; k++)
            pattern_fill(source_shared + k * part, part, seed_between(me(), g->world[k], (int)i));
        CHECK_EQ(shmem_team_sync(g->team), 0);
        CHECK_EQ(row->alltoall(g->team, dest_shared, source_shared, ELEMENTS), 0);
        for (int k = 0; k < g->size; k++) {
            CHECK_PATTERN(dest_shared + k * part, part, seed_between(g->world[k], me(), (int)i));
            CHECK_PATTERN(source_shared + k * part, part, seed_between(me(), g->world[k], (int)i));
        }
        CHECK_BYTES(dest_shared + whole, row->bytes, 0x77);
    }
}

DATA_CASE(every_type, 4, "block l of PE k's source becomes block k of PE l's dest, with the team's numbers",
          .crowded = CROWD)
{
    dest_shared = symmetric((ELEMENTS * CROWD + 1) * sizeof(long double));
    source_shared = symmetric((ELEMENTS * CROWD + 1) * sizeof(long double));
    for_each_group(each_type);
}

/* Element e of a block: neighbours are `stride` elements of the type apart, through all blocks. */
static unsigned char *element(unsigned char *start, const struct row *row, int block, int e, ptrdiff_t stride)
{
    return start + (size_t)((block * ELEMENTS + e) * stride) * row->bytes;
}

static void strided(const struct group *g, const struct row *row, ptrdiff_t dst, ptrdiff_t sst, int which)
{
    const size_t all = (size_t)ELEMENTS * (size_t)g->size * STRIDE_MAX * row->bytes;
    about("%s, team of %d, dst %td, sst %td", row->name, g->size, dst, sst);
    memset(dest_shared, 0x77, all);
    memset(source_shared, 0x11, all);
    for (int k = 0; k < g->size; k++)
        for (int e = 0; e < ELEMENTS; e++)
            pattern_fill(element(source_shared, row, k, e, sst), row->bytes,
                         seed_between(me(), g->world[k], which * ELEMENTS + e));
    CHECK_EQ(shmem_team_sync(g->team), 0);
    CHECK_EQ(row->alltoalls(g->team, dest_shared, source_shared, dst, sst, ELEMENTS), 0);
    for (int k = 0; k < g->size; k++)
        for (int e = 0; e < ELEMENTS; e++) {
            unsigned char *at = element(dest_shared, row, k, e, dst);
            CHECK_PATTERN(at, row->bytes, seed_between(g->world[k], me(), which * ELEMENTS + e));
            memset(at, 0x77, row->bytes);
        }
    CHECK_BYTES(dest_shared, all, 0x77); /* nothing was written between the elements */
}

static void each_type_strided(const struct group *g)
{
    if (!is_member(g)) return;
    static const ptrdiff_t strides[][2] = {{1, 1}, {2, 1}, {1, 3}, {3, 2}, {4, 4}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const size_t s = i % COUNT_OF(strides);
        strided(g, &rows[i], strides[s][0], strides[s][1], 0);
    }
    for (size_t s = 0; s < COUNT_OF(strides); s++) strided(g, &rows[1], strides[s][0], strides[s][1], 1 + (int)s);
}

DATA_CASE(every_type_strided, 4, "alltoalls: strides count elements at either side; elements in between stay unchanged",
          .crowded = CROWD)
{
    dest_shared = symmetric(ELEMENTS * CROWD * STRIDE_MAX * sizeof(long double));
    source_shared = symmetric(ELEMENTS * CROWD * STRIDE_MAX * sizeof(long double));
    for_each_group(each_type_strided);
}

DATA_CASE(zero_elements, 3, "an alltoall of zero elements returns zero and writes nothing")
{
    unsigned char *dest = symmetric(64), *source = symmetric(64);
    memset(source, 0x55, 64);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_EQ(rows[i].alltoall(SHMEM_TEAM_WORLD, dest, source, 0), 0);
        CHECK_EQ(rows[i].alltoalls(SHMEM_TEAM_WORLD, dest, source, 2, 3, 0), 0);
    }
    barrier();
    CHECK_BYTES(dest, 64, 0);
}

CASE(every_size, 3, "an alltoall is whole at any length and from any address, and writes nothing outside dest",
     .crowded = 5)
{
    for (size_t i = 0; i < COUNT_OF(small_sizes) + COUNT_OF(large_sizes); i++) {
        bool large = i >= COUNT_OF(small_sizes);
        const size_t bytes = large ? large_sizes[i - COUNT_OF(small_sizes)] : small_sizes[i], shift = i % 5;
        const size_t whole = bytes * (size_t)n_pes();
        about("%zu bytes", bytes);
        unsigned char *dest = symmetric(whole + 8), *source = symmetric(whole + 8);
        for (int pe = 0; pe < n_pes(); pe++)
            pattern_fill(source + shift + (size_t)pe * bytes, bytes, seed_between(me(), pe, (int)i));
        CHECK_EQ(shmem_alltoallmem(SHMEM_TEAM_WORLD, dest + shift, source + shift, bytes), 0);
        for (int pe = 0; pe < n_pes(); pe++)
            CHECK_PATTERN(dest + shift + (size_t)pe * bytes, bytes, seed_between(pe, me(), (int)i));
        CHECK_BYTES(dest, shift, 0);
        CHECK_BYTES(dest + shift + whole, 8 - shift, 0);
    }
}

CASE(large_strided, 3, "alltoalls: many elements with gaps")
{
    enum { MANY = 5000 };
    const size_t n = (size_t)n_pes();
    long *dest = symmetric(MANY * n * 2 * sizeof *dest), *source = symmetric(MANY * n * 3 * sizeof *source);
    for (size_t i = 0; i < MANY * n; i++) source[3 * i] = (long)(i + 1) * 8 + me();
    CHECK_EQ(shmem_long_alltoalls(SHMEM_TEAM_WORLD, dest, source, 2, 3, MANY), 0);
    for (size_t i = 0; i < MANY * n; i++) {
        CHECK_EQ(dest[2 * i], (long)(i % MANY + (size_t)me() * MANY + 1) * 8 + (long)(i / MANY));
        CHECK_EQ(dest[2 * i + 1], 0);
    }
}

DATA_CASE(one_after_the_other, 4,
          "alltoalls follow one another without other synchronization; source is free on return", .crowded = 8)
{
    enum { TIMES = 200 };
    int *source = symmetric(8 * sizeof *source);
    int *dest = symmetric((size_t)TIMES * 8 * sizeof *dest);
    for (int i = 0; i < TIMES; i++) {
        for (int pe = 0; pe < n_pes(); pe++) source[pe] = (me() * 16 + pe) * 1000 + i;
        about("alltoall %d", i);
        CHECK_EQ(shmem_int_alltoall(SHMEM_TEAM_WORLD, &dest[i * 8], source, 1), 0);
        for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(dest[i * 8 + pe], (pe * 16 + me()) * 1000 + i);
    }
}

CASE(generic_names, 2, "C11: shmem_alltoall and shmem_alltoalls choose by the type of dest")
{
#define GENERIC(NAME, TYPE)                                                                \
    {                                                                                      \
        TYPE *dest = symmetric(4 * sizeof *dest), *source = symmetric(4 * sizeof *source); \
        for (int i = 0; i < 4; i++) source[i] = (TYPE)(me() * 10 + i);                     \
        about(#NAME);                                                                      \
        CHECK_EQ(shmem_alltoall(SHMEM_TEAM_WORLD, dest, source, 2), 0);                    \
        for (int i = 0; i < 4; i++) CHECK_NUMBER(dest[i], i / 2 * 10 + me() * 2 + i % 2);  \
        shmem_sync_all();                                                                  \
        CHECK_EQ(shmem_alltoalls(SHMEM_TEAM_WORLD, dest, source, 2, 1, 1), 0);             \
        CHECK_NUMBER(dest[0], me());                                                       \
        CHECK_NUMBER(dest[2], 10 + me());                                                  \
    }
    RMA_DISTINCT_TYPES(GENERIC)
}

#endif
