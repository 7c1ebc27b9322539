/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shmem_collect and shmem_fcollect over teams. OpenSHMEM 1.6, "Collective Routines", collect and fcollect. */
#include "collective.h"
#include "types.h"

#if SINCE(1, 5)

struct row {
    const char *name;
    size_t bytes;
    int (*collect)(shmem_team_t team, void *dest, const void *source, size_t count);
    int (*fcollect)(shmem_team_t team, void *dest, const void *source, size_t count);
};

#define THUNK(NAME, TYPE)                                                                       \
    static int collect_##NAME(shmem_team_t team, void *dest, const void *source, size_t count)  \
    {                                                                                           \
        return shmem_##NAME##_collect(team, dest, source, count);                               \
    }                                                                                           \
    static int fcollect_##NAME(shmem_team_t team, void *dest, const void *source, size_t count) \
    {                                                                                           \
        return shmem_##NAME##_fcollect(team, dest, source, count);                              \
    }
RMA_TYPES(THUNK)

#define ROW(NAME, TYPE) {#NAME, sizeof(TYPE), collect_##NAME, fcollect_##NAME},
static const struct row rows[] = {RMA_TYPES(ROW) {"mem", 1, shmem_collectmem, shmem_fcollectmem}};

enum { ELEMENTS = 11, CROWD = 9 };

static unsigned char *dest_shared, *source_shared;

static void each_type_same_length(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        const size_t part = ELEMENTS * row->bytes, whole = part * (size_t)g->size;
        for (int variable = 0; variable < 2; variable++) {
            const int which = (int)i * 2 + variable;
            about("%s %s, team of %d", row->name, variable ? "collect" : "fcollect", g->size);
            memset(dest_shared, 0x77, whole + row->bytes);
            pattern_fill(source_shared, part, seed_of(me(), which));
            CHECK_EQ(shmem_team_sync(g->team), 0);
            CHECK_EQ((variable ? row->collect : row->fcollect)(g->team, dest_shared, source_shared, ELEMENTS), 0);
            for (int k = 0; k < g->size; k++) CHECK_PATTERN(dest_shared + k * part, part, seed_of(g->world[k], which));
            CHECK_BYTES(dest_shared + whole, row->bytes, 0x77);
            CHECK_PATTERN(source_shared, part, seed_of(me(), which));
        }
    }
}

DATA_CASE(every_type_same_length, 4, "dest on all PEs holds the sources of the team's PEs, in the order of its numbers",
          .crowded = CROWD)
{
    dest_shared = symmetric((ELEMENTS * CROWD + 1) * sizeof(long double));
    source_shared = symmetric(ELEMENTS * sizeof(long double));
    for_each_group(each_type_same_length);
}

/* Number of elements that a PE contributes in a round; sometimes 0. */
static size_t length_of(int pe, int round) { return (size_t)(mix((uint64_t)(pe * 64 + round)) % 9 % 8); }

static void each_type_other_lengths(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        const int round = (int)i;
        about("%s, team of %d", row->name, g->size);
        memset(dest_shared, 0x77, ELEMENTS * CROWD * row->bytes);
        pattern_fill(source_shared, 8 * row->bytes, seed_of(me(), round));
        CHECK_EQ(shmem_team_sync(g->team), 0);
        CHECK_EQ(row->collect(g->team, dest_shared, source_shared, length_of(me(), round)), 0);
        unsigned char *at = dest_shared;
        for (int k = 0; k < g->size; k++) {
            const size_t part = length_of(g->world[k], round) * row->bytes;
            CHECK_PATTERN(at, part, seed_of(g->world[k], round));
            at += part;
        }
        CHECK_BYTES(at, row->bytes, 0x77);
    }
}

DATA_CASE(every_type_other_lengths, 4, "shmem_collect: each PE may contribute a different number of elements, or none",
          .crowded = CROWD)
{
    dest_shared = symmetric((ELEMENTS * CROWD + 1) * sizeof(long double));
    source_shared = symmetric(ELEMENTS * sizeof(long double));
    for_each_group(each_type_other_lengths);
}

DATA_CASE(only_one_gives, 4, "shmem_collect: all but one PE contribute nothing")
{
    long *dest = symmetric(8 * sizeof *dest), *source = symmetric(4 * sizeof *source);
    for (int i = 0; i < 4; i++) source[i] = me() * 10 + i;
    for (int giver = 0; giver < n_pes(); giver++) {
        shmem_sync_all();
        CHECK_EQ(shmem_long_collect(SHMEM_TEAM_WORLD, dest, source, me() == giver ? 4 : 0), 0);
        for (int i = 0; i < 4; i++) CHECK_EQ(dest[i], giver * 10 + i);
        CHECK_EQ(dest[4], 0);
    }
}

DATA_CASE(zero_elements, 3, "a collect of zero elements from all PEs returns zero and writes nothing")
{
    unsigned char *dest = symmetric(64), *source = symmetric(64);
    memset(source, 0x55, 64);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK_EQ(rows[i].collect(SHMEM_TEAM_WORLD, dest, source, 0), 0);
        CHECK_EQ(rows[i].fcollect(SHMEM_TEAM_WORLD, dest, source, 0), 0);
    }
    barrier();
    CHECK_BYTES(dest, 64, 0);
}

CASE(every_size, 3, "a collect is whole at any length and from any address, and writes nothing outside dest",
     .crowded = 5)
{
    for (size_t i = 0; i < COUNT_OF(small_sizes) + COUNT_OF(large_sizes); i++) {
        bool large = i >= COUNT_OF(small_sizes);
        const size_t bytes = large ? large_sizes[i - COUNT_OF(small_sizes)] : small_sizes[i], shift = i % 5;
        const size_t whole = bytes * (size_t)n_pes();
        about("%zu bytes", bytes);
        unsigned char *dest = symmetric(whole + 8), *source = symmetric(bytes + 8);
        pattern_fill(source + shift, bytes, seed_of(me(), (int)i));
        CHECK_EQ(shmem_fcollectmem(SHMEM_TEAM_WORLD, dest + shift, source + shift, bytes), 0);
        for (int pe = 0; pe < n_pes(); pe++)
            CHECK_PATTERN(dest + shift + (size_t)pe * bytes, bytes, seed_of(pe, (int)i));
        CHECK_BYTES(dest, shift, 0);
        CHECK_BYTES(dest + shift + whole, 8 - shift, 0);
        check_guards();
    }
}

CASE(lengths_far_apart, 3, "shmem_collect: a byte from one PE and megabytes from another are adjacent")
{
    static const size_t lengths[] = {1, (3 << 20) + 5, 70001};
    const size_t whole = lengths[0] + lengths[1] + lengths[2];
    unsigned char *dest = symmetric(whole), *source = symmetric(lengths[1]);
    pattern_fill(source, lengths[me()], seed_of(me(), 0));
    CHECK_EQ(shmem_collectmem(SHMEM_TEAM_WORLD, dest, source, lengths[me()]), 0);
    for (int pe = 0; pe < n_pes(); pe++) {
        CHECK_PATTERN(dest, lengths[pe], seed_of(pe, 0));
        dest += lengths[pe];
    }
}

DATA_CASE(one_after_the_other, 4, "collects follow one another without other synchronization; source is free on return",
          .crowded = 8)
{
    enum { TIMES = 200 };
    int *source = symmetric(8 * sizeof *source);
    int *dest = symmetric((size_t)TIMES * 8 * sizeof *dest);
    for (int i = 0; i < TIMES; i++) {
        const bool variable = i % 3 == 2;
        *source = me() * 1000 + i;
        about("collect %d", i);
        if (variable) CHECK_EQ(shmem_int_collect(SHMEM_TEAM_WORLD, &dest[i * 8], source, me() % 2), 0);
        else CHECK_EQ(shmem_int_fcollect(SHMEM_TEAM_WORLD, &dest[i * 8], source, 1), 0);
        for (int pe = 0, at = 0; pe < n_pes(); pe++)
            if (!variable || pe % 2) CHECK_EQ(dest[i * 8 + at++], pe * 1000 + i);
    }
}

CASE(generic_names, 2, "C11: shmem_collect and shmem_fcollect choose by the type of dest")
{
#define GENERIC(NAME, TYPE)                                                                \
    {                                                                                      \
        TYPE *dest = symmetric(4 * sizeof *dest), *source = symmetric(2 * sizeof *source); \
        source[0] = (TYPE)(me() + 40);                                                     \
        source[1] = (TYPE)(me() + 50);                                                     \
        about(#NAME);                                                                      \
        CHECK_EQ(shmem_fcollect(SHMEM_TEAM_WORLD, dest, source, 2), 0);                    \
        CHECK_NUMBER(dest[0], 40);                                                         \
        CHECK_NUMBER(dest[3], 51);                                                         \
        shmem_sync_all();                                                                  \
        CHECK_EQ(shmem_collect(SHMEM_TEAM_WORLD, dest, source, me() + 1), 0);              \
        CHECK_NUMBER(dest[0], 40);                                                         \
        CHECK_NUMBER(dest[1], 41);                                                         \
        CHECK_NUMBER(dest[2], 51);                                                         \
    }
    RMA_DISTINCT_TYPES(GENERIC)
}

#endif
