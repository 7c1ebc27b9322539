/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shmem_team_split_2d. OpenSHMEM 1.6, "Team Management Routines". */
#include "collective.h"

#if SINCE(1, 5)

struct grid {
    shmem_team_t x, y; /* the row and the column of this PE */
};

static struct grid split(shmem_team_t parent, int xrange)
{
    struct grid g = {SHMEM_TEAM_INVALID, SHMEM_TEAM_INVALID};
    CHECK_EQ(shmem_team_split_2d(parent, xrange, NULL, 0, &g.x, NULL, 0, &g.y), 0);
    return g;
}

static void destroy(struct grid g)
{
    shmem_team_destroy(g.x);
    shmem_team_destroy(g.y);
}

static int least(int a, int b) { return a < b ? a : b; }

static void check_grid(shmem_team_t parent, int xrange)
{
    const int pe = shmem_team_my_pe(parent), n = shmem_team_n_pes(parent), width = least(xrange, n);
    const int x = pe % width, y = pe / width, height = (n + width - 1) / width;
    struct grid g = split(parent, xrange);
    about("%d PEs, xrange %d", n, xrange);
    CHECK_EQ(shmem_team_my_pe(g.x), x);
    CHECK_EQ(shmem_team_my_pe(g.y), y);
    CHECK_EQ(shmem_team_n_pes(g.x), least(width, n - y * width)); /* the last row may be short */
    CHECK_EQ(shmem_team_n_pes(g.y), height - (x + (height - 1) * width >= n));
    for (int k = 0; k < shmem_team_n_pes(g.x); k++) CHECK_EQ(shmem_team_translate_pe(g.x, k, parent), y * width + k);
    for (int k = 0; k < shmem_team_n_pes(g.y); k++) CHECK_EQ(shmem_team_translate_pe(g.y, k, parent), k * width + x);
    CHECK_EQ(shmem_team_sync(g.x), 0);
    CHECK_EQ(shmem_team_sync(g.y), 0);
    destroy(g);
}

CASE(every_range, 7,
     "PE p is at (p mod xrange, p div xrange); the last row may be short; ranges beyond the team are its size")
{
    for (int size = 1; size <= n_pes(); size++) {
        shmem_team_t some = SHMEM_TEAM_INVALID;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, n_pes() - 1, -1, size, NULL, 0, &some), 0);
        for (int xrange = 1; xrange <= size + 2 && some != SHMEM_TEAM_INVALID; xrange++) check_grid(some, xrange);
        shmem_team_destroy(some);
    }
    check_grid(SHMEM_TEAM_WORLD, 3);
    check_grid(SHMEM_TEAM_WORLD, INT32_MAX);
}

CASE(ranges_that_are_none, 3, "an xrange that is not positive: an error, and no team on either axis")
{
    static const int ranges[] = {0, -1, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(ranges); i++) {
        struct grid g = {SHMEM_TEAM_WORLD, SHMEM_TEAM_WORLD};
        CHECK_OP(shmem_team_split_2d(SHMEM_TEAM_WORLD, ranges[i], NULL, 0, &g.x, NULL, 0, &g.y), !=, 0);
        CHECK_OP(g.x, ==, SHMEM_TEAM_INVALID);
        CHECK_OP(g.y, ==, SHMEM_TEAM_INVALID);
    }
    check_grid(SHMEM_TEAM_WORLD, 2);
}

CASE(invalid_parent, 2, "SHMEM_TEAM_INVALID as parent: an error, and no team on either axis")
{
    struct grid g = {SHMEM_TEAM_WORLD, SHMEM_TEAM_WORLD};
    CHECK_OP(shmem_team_split_2d(SHMEM_TEAM_INVALID, 1, NULL, 0, &g.x, NULL, 0, &g.y), !=, 0);
    CHECK_OP(g.x, ==, SHMEM_TEAM_INVALID);
    CHECK_OP(g.y, ==, SHMEM_TEAM_INVALID);
}

CASE(configurations, 6, "rows and columns have configurations of their own, and one row's may differ from another's")
{
    shmem_team_config_t x_asked = {1 + me() / 3}, y_asked = {10 + me() % 3}, got = {77};
    struct grid g;
    CHECK_EQ(shmem_team_split_2d(SHMEM_TEAM_WORLD, 3, &x_asked, SHMEM_TEAM_NUM_CONTEXTS, &g.x, &y_asked,
                                 SHMEM_TEAM_NUM_CONTEXTS, &g.y), 0);
    CHECK_EQ(shmem_team_get_config(g.x, SHMEM_TEAM_NUM_CONTEXTS, &got), 0);
    CHECK_EQ(got.num_contexts, 1 + me() / 3);
    CHECK_EQ(shmem_team_get_config(g.y, SHMEM_TEAM_NUM_CONTEXTS, &got), 0);
    CHECK_EQ(got.num_contexts, 10 + me() % 3);
    destroy(g);
}

CASE(rows_then_columns, 6, "a reduction along rows and one along columns give that of all", .crowded = 12)
{
    long *of_row = symmetric(sizeof *of_row), *of_all = symmetric(sizeof *of_all), *mine = symmetric(sizeof *mine);
    struct grid g = split(SHMEM_TEAM_WORLD, 3);
    for (int i = 0; i < 50; i++) {
        *mine = 1L << me();
        about("round %d", i);
        CHECK_EQ(shmem_long_sum_reduce(g.x, of_row, mine, 1), 0);
        CHECK_EQ(shmem_long_sum_reduce(g.y, of_all, of_row, 1), 0);
        CHECK_EQ(*of_all, (1L << n_pes()) - 1);
        shmem_sync_all();
    }
    destroy(g);
}

CASE(rows_apart, 6, "rows do not wait for each other")
{
    struct grid g = split(SHMEM_TEAM_WORLD, 3);
    long *go = symmetric(sizeof *go);
    if (me() < 3) shmem_long_wait_until(go, SHMEM_CMP_EQ, 1);
    for (int i = 0; i < 20; i++) CHECK_EQ(shmem_team_sync(g.x), 0);
    if (me() >= 3) shmem_long_p(go, 1, me() - 3);
    CHECK_EQ(shmem_team_sync(g.y), 0);
    destroy(g);
}

CASE(three_dimensions, 12, "a column that is split again gives three dimensions")
{
    struct grid first = split(SHMEM_TEAM_WORLD, 3), second = split(first.y, 2);
    const int x = me() % 3, y = me() / 3 % 2, z = me() / 6;
    CHECK_EQ(shmem_team_my_pe(first.x), x);
    CHECK_EQ(shmem_team_my_pe(second.x), y);
    CHECK_EQ(shmem_team_my_pe(second.y), z);
    CHECK_EQ(shmem_team_n_pes(second.x), 2);
    CHECK_EQ(shmem_team_n_pes(second.y), 2);
    CHECK_EQ(shmem_team_translate_pe(second.x, 1 - y, SHMEM_TEAM_WORLD), x + 3 * (1 - y) + 6 * z);
    CHECK_EQ(shmem_team_translate_pe(second.y, 1 - z, SHMEM_TEAM_WORLD), x + 3 * y + 6 * (1 - z));
    int *sum = symmetric(sizeof *sum), *mine = symmetric(sizeof *mine);
    *mine = me();
    CHECK_EQ(shmem_int_sum_reduce(second.y, sum, mine, 1), 0);
    CHECK_EQ(*sum, 2 * (x + 3 * y) + 6);
    destroy(second);
    destroy(first);
}

CASE(one_axis_outlives_the_other, 4, "destroying the rows leaves the columns, and vice versa")
{
    struct grid g = split(SHMEM_TEAM_WORLD, 2), h = split(SHMEM_TEAM_WORLD, 2);
    shmem_team_destroy(g.x);
    shmem_team_destroy(h.y);
    CHECK_EQ(shmem_team_my_pe(g.x), -1);
    CHECK_EQ(shmem_team_sync(g.y), 0);
    CHECK_EQ(shmem_team_sync(h.x), 0);
    shmem_team_destroy(g.y);
    shmem_team_destroy(h.x);
}

CASE(all_or_none, 4,
     "when teams run out, even at some PEs only, all PEs of the parent get an error and no team on either axis")
{
    enum { MOST = 64 };
    shmem_team_t low, high, made[MOST];
    int count = 0;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, 0, &low), 0);
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 2, 1, 2, NULL, 0, &high), 0);
    if (me() < 2) /* all teams that PEs 0 and 1 can have */
        while (count < MOST && shmem_team_split_strided(low, 0, 1, 2, NULL, 0, &made[count]) == 0) count++;
    CHECK_OP(count, <, MOST);
    for (int room = 0; room < 2; room++) {
        struct grid g = {SHMEM_TEAM_WORLD, SHMEM_TEAM_WORLD};
        about("room for %d", room);
        if (room == 1 && me() < 2) shmem_team_destroy(made[--count]);
        CHECK_OP(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &g.x, NULL, 0, &g.y), !=, 0);
        CHECK_OP(g.x, ==, SHMEM_TEAM_INVALID);
        CHECK_OP(g.y, ==, SHMEM_TEAM_INVALID);
    }
    if (me() < 2) shmem_team_destroy(made[--count]);
    destroy(split(SHMEM_TEAM_WORLD, 2)); /* two free slots are enough */
    while (count > 0) shmem_team_destroy(made[--count]);
    shmem_team_destroy(me() < 2 ? low : high);
}

CASE(many_times, 4, "grids can be made and destroyed any number of times")
{
    for (int i = 0; i < 150; i++) destroy(split(SHMEM_TEAM_WORLD, 1 + i % 4));
}

#endif
