/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared part of the families of team collectives: the teams under test, and the sizes.
 *
 * 1. for_each_group() is collective over the world; its body runs on every PE, member or not.
 * 2. A body may use symmetric memory only until the next group.
 */
#ifndef SHMEM_TESTS_COLLECTIVE_H
#define SHMEM_TESTS_COLLECTIVE_H

#include "suite.h"

#if SINCE(1, 5)

/* Odd sizes, around words, cache lines and pages, and sizes that are sent in pieces. */
static const size_t small_sizes[] = {1, 2, 3, 7, 8, 9, 31, 64, 65, 129, 1000, 4096, 4099};
static const size_t large_sizes[] = {65536, 65543, 262144, 1048579, 4 << 20};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct group {
    shmem_team_t team; /* SHMEM_TEAM_INVALID at PEs that are not members */
    int size;
    int mine;           /* this PE's number in the team, or -1 */
    int world[PES_MAX]; /* the members' numbers in the world team */
};

/* The world, two forward and two backward strides, and a team of one, as far as the number of PEs allows. */
static inline void for_each_group(void (*body)(const struct group *group))
{
    const int n = n_pes();
    const int shapes[][3] = {
        {0, 1, n},  {n - 1, -1, n},  {0, 2, (n + 1) / 2},  {n - 1, -2, (n + 1) / 2},
        {n > 1, 1, n - (n > 1)},  {n / 2, 1, 1},
    };
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct group g = {.team = SHMEM_TEAM_WORLD, .size = shapes[i][2], .mine = -1};
        for (int k = 0; k < g.size; k++) {
            g.world[k] = shapes[i][0] + k * shapes[i][1];
            if (g.world[k] == me()) g.mine = k;
        }
        if (i > 0)
            CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, shapes[i][0], shapes[i][1], shapes[i][2], NULL, 0,
                                              &g.team),
                     0);
        body(&g);
        barrier();
        if (i > 0) shmem_team_destroy(g.team);
    }
}

static inline bool is_member(const struct group *group) { return group->mine >= 0; }

/* The pattern of a PE's contribution, from its number in the world and the number of the contribution. */
static inline unsigned seed_of(int pe, int which) { return (unsigned)(pe * 1000 + which + 1); }

#endif
#endif
