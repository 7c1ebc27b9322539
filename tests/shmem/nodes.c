/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The border between aggregation nodes and the library's own algorithms (docs/guide/collectives.md). Nodes serve all collectives
 * if PEs do not map each other's memory ("cma", "bounce", "host"). With mapped memory they serve long reductions of PEs
 * with a core each, and data of medium length where PEs share cores. Results are the same either way.
 *
 * The families of each collective test nodes themselves, in these variants.
 */
#include "collective.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#if SINCE(1, 5)

/* Lengths in bytes on both sides of each border. */
static const size_t lengths[] = {8, 56, 64, 504, 512, 1024, 1032, 6144, 6152, 8192, 8200, 24576, 24584, 262144, 300000};
enum { LONGEST = 300000 };

/* Whether all collectives go through a node. */
static bool all_by_nodes(void) { return variant_is("cma") || variant_is("bounce") || variant_is("host"); }

static double awkward(int pe, size_t i)
{
    const uint64_t bits = mix((uint64_t)pe * 100003 + i);
    return ldexp((double)(int64_t)bits, (int)(bits % 60) - 90);
}

/* Computes a sum of `bytes` bytes at the members of a team, and checks it to the last bit. */
static void check_sum(shmem_team_t team, const int *world, int size, double *dest, double *source, size_t bytes)
{
    const size_t count = bytes / sizeof *dest;
    for (size_t i = 0; i < count; i++) source[i] = awkward(me(), i);
    CHECK_EQ(shmem_double_sum_reduce(team, dest, source, count), 0);
    for (size_t i = 0; i < count; i++) {
        double wanted = awkward(world[0], i);
        for (int k = 1; k < size; k++) wanted += awkward(world[k], i);
        if (memcmp(&wanted, &dest[i], sizeof wanted) != 0) FAIL("element %zu of %zu: %a, wanted %a", i, count, dest[i], wanted);
    }
}

static double *dest_shared, *source_shared;

static void sums_of_every_length(const struct group *g)
{
    if (!is_member(g)) return;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        about("%zu bytes, team of %d", lengths[i], g->size);
        check_sum(g->team, g->world, g->size, dest_shared, source_shared, lengths[i]);
    }
}

DATA_CASE(in_the_order_of_pes, 2, "elements are reduced in the order of the team's PEs, at every length", .crowded = 5)
{
    dest_shared = symmetric(LONGEST);
    source_shared = symmetric(LONGEST);
    for_each_group(sums_of_every_length);
}

static void all_in_turn(const struct group *g)
{
    unsigned char *dest = (unsigned char *)dest_shared, *source = (unsigned char *)source_shared;
    if (!is_member(g)) return;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        const size_t bytes = lengths[i] / (size_t)g->size;
        const int root = (int)i % g->size;
        about("%zu bytes, team of %d", bytes, g->size);
        pattern_fill(source, bytes, seed_of(me(), (int)i));
        CHECK_EQ(shmem_uchar_fcollect(g->team, dest, source, bytes), 0);
        for (int k = 0; k < g->size; k++) CHECK_PATTERN(dest + (size_t)k * bytes, bytes, seed_of(g->world[k], (int)i));
        CHECK_EQ(shmem_uchar_broadcast(g->team, dest, source, bytes, root), 0);
        CHECK_PATTERN(dest, bytes, seed_of(g->world[root], (int)i));
        CHECK_EQ(shmem_uchar_collect(g->team, dest, source, i % 2 ? bytes : bytes * (size_t)(g->mine % 2)), 0);
        size_t at = 0;
        for (int k = 0; k < g->size; k++) {
            const size_t theirs = i % 2 ? bytes : bytes * (size_t)(k % 2);
            CHECK_PATTERN(dest + at, theirs, seed_of(g->world[k], (int)i));
            at += theirs;
        }
        CHECK_EQ(shmem_team_sync(g->team), 0);
        check_sum(g->team, g->world, g->size, dest_shared, source_shared, lengths[i]);
    }
}

DATA_CASE(all_in_turn, 2,
          "nodes and the library's own algorithms take turns, in any order of lengths and operations", .crowded = 5)
{
    dest_shared = symmetric(LONGEST);
    source_shared = symmetric(LONGEST);
    for_each_group(all_in_turn);
}

CASE(more_teams_than_groups, 2,
     "teams beyond a PE's limit of groups reduce without nodes, and overlapping ones in turn")
{
    enum { MANY = 40, BYTES = 30000 };
    const int forward[] = {0, 1}, backward[] = {1, 0};
    double *dest = symmetric(BYTES), *source = symmetric(BYTES);
    shmem_team_t teams[MANY];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, i % 2, i % 2 ? -1 : 1, 2, NULL, 0, &teams[i]), 0);
        for (int turn = 0; turn < 2; turn++)
            for (int i = 0; i < MANY; i++) {
                about("round %d, turn %d, team %d", round, turn, i);
                check_sum(teams[i], i % 2 ? backward : forward, 2, dest, source, BYTES);
                check_sum(SHMEM_TEAM_WORLD, forward, 2, dest, source, BYTES);
            }
        for (int i = 0; i < MANY; i++) shmem_team_destroy(teams[i]);
    }
}

CASE(chain_of_teams, 3,
     "teams that form a chain, each sharing a PE with the next, reduce and synchronise one after the other")
{
    enum { BYTES = 30000 };
    double *dest = symmetric(BYTES), *source = symmetric(BYTES);
    shmem_team_t low, high;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, 0, &low), 0);
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 1, 2, NULL, 0, &high), 0);
    for (int i = 0; i < 50; i++) {
        about("round %d", i);
        if (me() < 2) {
            check_sum(low, (int[]){0, 1}, 2, dest, source, i % 2 ? 8 : BYTES);
            CHECK_EQ(shmem_team_sync(low), 0);
        }
        if (me() > 0) {
            check_sum(high, (int[]){1, 2}, 2, dest, source, i % 3 ? 8 : BYTES);
            CHECK_EQ(shmem_team_sync(high), 0);
        }
    }
    shmem_team_destroy(low);
    shmem_team_destroy(high);
}

CASE(progress_for_others, 3, "a PE that waits in a collective serves the others' commands")
{
    long *word = symmetric(sizeof *word), *dest = symmetric(sizeof *dest);
    for (int i = 0; i < 20; i++) {
        const int late = i % n_pes();
        if (me() == late) {
            for (int k = 0; k < 50; k++)
                for (int pe = 0; pe < n_pes(); pe++) shmem_long_atomic_fetch_add(word, 1, pe);
            sleep_ms(i % 4);
        }
        CHECK_EQ(shmem_long_max_reduce(SHMEM_TEAM_WORLD, dest, word, 1), 0);
        CHECK_EQ(*dest, 50 * (i + 1));
        /* Before this barrier a PE may still read its own word in the reduction. */
        shmem_sync_all();
    }
}

CASE(disagreement, 2, "PEs that disagree on a node's reduction all get an error, and the team still works")
{
    const int both[] = {0, 1};
    double *dest = symmetric(64), *source = symmetric(64);
    if (!all_by_nodes()) return;
    check_sum(SHMEM_TEAM_WORLD, both, 2, dest, source, 64);
    CHECK_OP(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, me() ? 1 : 2), !=, 0);
    CHECK_OP(me() ? shmem_double_sum_reduce(SHMEM_TEAM_WORLD, dest, source, 1)
                  : shmem_double_max_reduce(SHMEM_TEAM_WORLD, dest, source, 1), !=, 0);
    check_sum(SHMEM_TEAM_WORLD, both, 2, dest, source, 64);
    CHECK_EQ(shmem_team_sync(SHMEM_TEAM_WORLD), 0);
}

CASE(refused_by_one, 2, "if one PE's environment refuses nodes, the library's own algorithms are used by all", .flags = OWN_INIT)
{
    const char *number = getenv("SELVEDGE_RANK");
    const int both[] = {0, 1};
    if (number != NULL && atoi(number) == 1) setenv("SELVEDGE_SHMEM_COLLECTIVES", "0", 1);
    shmem_init();
    joined();
    double *dest = shmem_malloc(LONGEST), *source = shmem_malloc(LONGEST);
    for (int i = 0; i < 3; i++) check_sum(SHMEM_TEAM_WORLD, both, 2, dest, source, i % 2 ? 64 : LONGEST);
    left();
    shmem_finalize();
}

CASE(several_sessions, 2, "a team's node ends with the library, and the next session has a new one", .flags = OWN_INIT)
{
    const int both[] = {0, 1};
    for (int session = 0; session < 3; session++) {
        shmem_init();
        joined();
        double *dest = shmem_malloc(LONGEST), *source = shmem_malloc(LONGEST);
        check_sum(SHMEM_TEAM_WORLD, both, 2, dest, source, LONGEST);
        shmem_free(source);
        shmem_free(dest);
        left();
        shmem_finalize();
    }
}

#endif
