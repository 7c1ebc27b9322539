/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shmem_broadcast over teams: typed, by bytes, generic. OpenSHMEM 1.6, "Collective Routines", broadcast. */
#include "collective.h"
#include "types.h"

#if SINCE(1, 5)

struct row {
    const char *name;
    size_t bytes;
    int (*broadcast)(shmem_team_t team, void *dest, const void *source, size_t count, int root);
};

#define THUNK(NAME, TYPE)                                                                                   \
    static int broadcast_##NAME(shmem_team_t team, void *dest, const void *source, size_t count, int root)  \
    {                                                                                                       \
        return shmem_##NAME##_broadcast(team, dest, source, count, root);                                   \
    }
RMA_TYPES(THUNK)

#define ROW(NAME, TYPE) {#NAME, sizeof(TYPE), broadcast_##NAME},
static const struct row rows[] = {RMA_TYPES(ROW) {"mem", 1, shmem_broadcastmem}};

enum { ELEMENTS = 19, LARGEST = 4 << 20 };

static unsigned char *dest_shared, *source_shared; /* the buffers of for_each_group's bodies */

static void each_type_each_root(const struct group *g)
{
    if (!is_member(g)) return;
    int which = 0;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        size_t bytes = ELEMENTS * row->bytes;
        for (int root = 0; root < g->size; root++, which++) {
            about("%s, team of %d, root %d", row->name, g->size, root);
            memset(dest_shared, 0x77, bytes + row->bytes);
            pattern_fill(source_shared, bytes, seed_of(me(), which));
            CHECK_EQ(shmem_team_sync(g->team), 0);
            CHECK_EQ(row->broadcast(g->team, dest_shared, source_shared, ELEMENTS, root), 0);
            CHECK_PATTERN(dest_shared, bytes, seed_of(g->world[root], which));
            CHECK_BYTES(dest_shared + bytes, row->bytes, 0x77);
            CHECK_PATTERN(source_shared, bytes, seed_of(me(), which));
        }
    }
}

DATA_CASE(every_type_and_root, 4,
          "dest on all PEs of the team, the root's too, gets the source of the root; source stays", .crowded = 9)
{
    dest_shared = symmetric((ELEMENTS + 1) * sizeof(long double));
    source_shared = symmetric(ELEMENTS * sizeof(long double));
    for_each_group(each_type_each_root);
}

DATA_CASE(root_is_a_number_of_the_team, 5, "the root is named by its number in the team, not in the world")
{
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    shmem_team_t reversed;
    *source = 100 + me();
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 4, -1, 4, NULL, 0, &reversed), 0);
    if (reversed != SHMEM_TEAM_INVALID) {
        CHECK_EQ(shmem_long_broadcast(reversed, dest, source, 1, 1), 0);
        CHECK_EQ(*dest, 103);
    }
    barrier();
    if (me() == 0) CHECK_EQ(*dest, 0);
    shmem_team_destroy(reversed);
}

CASE(every_size, 3, "a broadcast is whole at any length and from any address, and writes nothing outside dest",
     .crowded = 5)
{
    for (int large = 0; large < 2; large++) {
        const size_t *sizes = large ? large_sizes : small_sizes;
        size_t count = large ? COUNT_OF(large_sizes) : COUNT_OF(small_sizes);
        for (size_t i = 0; i < count; i++) {
            size_t bytes = sizes[i], shift = i % 5;
            int root = (int)i % n_pes();
            about("%zu bytes", bytes);
            unsigned char *dest = symmetric(bytes + 8), *source = symmetric(bytes + 8);
            pattern_fill(source + shift, bytes, seed_of(me(), (int)i));
            CHECK_EQ(shmem_broadcastmem(SHMEM_TEAM_WORLD, dest + shift, source + shift, bytes, root), 0);
            CHECK_PATTERN(dest + shift, bytes, seed_of(root, (int)i));
            CHECK_BYTES(dest, shift, 0);
            CHECK_BYTES(dest + shift + bytes, 8 - shift, 0);
        }
    }
}

DATA_CASE(zero_elements, 3, "a broadcast of zero elements returns zero and writes nothing")
{
    unsigned char *dest = symmetric(64), *source = symmetric(64);
    memset(source, 0x55, 64);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_EQ(rows[i].broadcast(SHMEM_TEAM_WORLD, dest, source, 0, (int)i % n_pes()), 0);
    barrier();
    CHECK_BYTES(dest, 64, 0);
}

CASE(source_is_free_on_return, 3, "the root may change source as soon as its broadcast returns", .crowded = 6)
{
    enum { TIMES = 100, BYTES = 3000 };
    unsigned char *dest = symmetric(TIMES * BYTES), *source = symmetric(BYTES);
    for (int i = 0; i < TIMES; i++) {
        pattern_fill(source, BYTES, seed_of(me(), i));
        CHECK_EQ(shmem_broadcastmem(SHMEM_TEAM_WORLD, dest + i * BYTES, source, BYTES, 0), 0);
    }
    memset(source, 0xff, BYTES);
    for (int i = 0; i < TIMES; i++) {
        about("broadcast %d", i);
        CHECK_PATTERN(dest + i * BYTES, BYTES, seed_of(0, i));
    }
}

DATA_CASE(one_after_the_other, 4, "broadcasts with changing roots follow one another without other synchronization",
          .crowded = 8)
{
    enum { TIMES = 300 };
    long *dest = symmetric(TIMES * sizeof *dest), *source = symmetric(TIMES * sizeof *source);
    for (int i = 0; i < TIMES; i++) source[i] = me() * 1000 + i;
    for (int i = 0; i < TIMES; i++) {
        about("broadcast %d", i);
        CHECK_EQ(shmem_long_broadcast(SHMEM_TEAM_WORLD, &dest[i], &source[i], 1, i % n_pes()), 0);
        CHECK_EQ(dest[i], i % n_pes() * 1000 + i);
    }
}

CASE(between_heap_and_static_objects, 3, "dest and source may lie in different kinds of symmetric memory")
{
    long *heap = symmetric_in(HEAP, 16 * sizeof *heap), *object = symmetric_in(STATIC, 16 * sizeof *object);
    for (int i = 0; i < 16; i++) heap[i] = me() * 100 + i;
    CHECK_EQ(shmem_long_broadcast(SHMEM_TEAM_WORLD, object, heap, 16, 2), 0);
    for (int i = 0; i < 16; i++) CHECK_EQ(object[i], 200 + i);
    for (int i = 0; i < 16; i++) object[i] = me() * 1000 + i;
    shmem_sync_all();
    CHECK_EQ(shmem_long_broadcast(SHMEM_TEAM_WORLD, heap, object, 16, 1), 0);
    for (int i = 0; i < 16; i++) CHECK_EQ(heap[i], 1000 + i);
}

CASE(generic_name, 2, "C11: shmem_broadcast chooses by the type of dest")
{
#define GENERIC(NAME, TYPE)                                                             \
    {                                                                                   \
        TYPE *dest = symmetric(2 * sizeof *dest), *source = symmetric(2 * sizeof *source); \
        source[0] = (TYPE)(me() + 40);                                                  \
        source[1] = (TYPE)(me() + 50);                                                  \
        about(#NAME);                                                                   \
        CHECK_EQ(shmem_broadcast(SHMEM_TEAM_WORLD, dest, source, 2, 1), 0);             \
        CHECK_NUMBER(dest[0], 41);                                                      \
        CHECK_NUMBER(dest[1], 51);                                                      \
    }
    RMA_DISTINCT_TYPES(GENERIC)
}

#endif
