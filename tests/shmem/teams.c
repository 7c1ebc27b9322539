/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Teams: predefined ones, split_strided, numbers and their translation, configuration, limits, destroyed handles.
 * OpenSHMEM 1.6, "Team Management Routines". A PE is in at most 64 teams at once, the two predefined ones included. The
 * library refuses handles of destroyed teams.
 */
#include "collective.h"

#if SINCE(1, 5)

enum { TEAMS = 64, PREDEFINED = 2 };

static shmem_team_t split(shmem_team_t parent, int start, int stride, int size)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_team_split_strided(parent, start, stride, size, NULL, 0, &team), 0);
    return team;
}

/* Each member adds 2 to the power of its number, so that a wrong member or number shows. */
static void check_works(shmem_team_t team, long *dest, long *source)
{
    *source = 1L << shmem_team_my_pe(team);
    CHECK_EQ(shmem_team_sync(team), 0);
    CHECK_EQ(shmem_long_sum_reduce(team, dest, source, 1), 0);
    CHECK_EQ(*dest, (1L << shmem_team_n_pes(team)) - 1);
    CHECK_EQ(shmem_team_sync(team), 0);
}

/* ---- Predefined teams ----------------------------------------------------------------------------------- */

CASE(world_team, 3, "SHMEM_TEAM_WORLD has all PEs, with the numbers of shmem_my_pe")
{
    CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_WORLD), shmem_my_pe());
    CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_WORLD), shmem_n_pes());
    for (int pe = 0; pe < n_pes(); pe++)
        CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_WORLD), pe);
}

CASE(shared_team, 3, "SHMEM_TEAM_SHARED has the PEs whose symmetric heaps shmem_ptr gives addresses of")
{
    long *word = symmetric(sizeof *word);
    int members = 0;
    for (int pe = 0; pe < n_pes(); pe++) {
        int there = shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_SHARED);
        about("PE %d, number %d", pe, there);
        CHECK_EQ(there >= 0, shmem_ptr(word, pe) != NULL);
        if (there < 0) continue;
        members++;
        CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_SHARED, there, SHMEM_TEAM_WORLD), pe);
        CHECK_PTR(shmem_team_ptr(SHMEM_TEAM_SHARED, word, there), shmem_ptr(word, pe));
    }
    CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_SHARED), members);
    CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_SHARED), shmem_team_translate_pe(SHMEM_TEAM_WORLD, me(), SHMEM_TEAM_SHARED));
    check_works(SHMEM_TEAM_SHARED, symmetric(sizeof(long)), word);
}

CASE(shared_team_is_split, 4, "SHMEM_TEAM_SHARED can be a parent")
{
    const int size = shmem_team_n_pes(SHMEM_TEAM_SHARED);
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    shmem_team_t reversed = split(SHMEM_TEAM_SHARED, size - 1, -1, size);
    CHECK_EQ(shmem_team_my_pe(reversed), size - 1 - shmem_team_my_pe(SHMEM_TEAM_SHARED));
    check_works(reversed, dest, source);
    shmem_team_destroy(reversed);
}

CASE(invalid_team, 2, "SHMEM_TEAM_INVALID: -1, a null pointer or an error from each routine, and no effect in destroy")
{
    shmem_team_t team = SHMEM_TEAM_WORLD;
    shmem_team_config_t config = {77};
    long *word = symmetric(sizeof *word);
    CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_INVALID), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD), -1);
    CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID), -1);
    CHECK_OP(shmem_team_get_config(SHMEM_TEAM_INVALID, SHMEM_TEAM_NUM_CONTEXTS, &config), !=, 0);
    CHECK_EQ(config.num_contexts, 77);
    CHECK_PTR(shmem_team_ptr(SHMEM_TEAM_INVALID, word, 0), NULL);
    CHECK_OP(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team), !=, 0);
    CHECK_OP(team, ==, SHMEM_TEAM_INVALID);
    shmem_team_destroy(SHMEM_TEAM_INVALID);
    CHECK_OP(shmem_team_sync(SHMEM_TEAM_INVALID), !=, 0);
}

/* ---- Splits --------------------------------------------------------------------------------------------- */

static bool is_triplet(int n, int start, int stride, int size)
{
    if (size < 1 || start < 0 || start >= n) return false;
    if (size > 1 && stride == 0) return false;
    const int last = start + (size - 1) * stride;
    return last >= 0 && last < n;
}

CASE(every_triplet, 5,
     "split_strided: exactly the valid triplets make a team; others give an error and no team, everywhere")
{
    const int n = n_pes();
    for (int start = -1; start <= n; start++)
        for (int stride = -n; stride <= n; stride++)
            for (int size = -1; size <= n + 1; size++) {
                shmem_team_t team = SHMEM_TEAM_WORLD;
                int rc = shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, NULL, 0, &team), mine = -1;
                about("start %d, stride %d, size %d", start, stride, size);
                CHECK_EQ(rc == 0, is_triplet(n, start, stride, size));
                for (int k = 0; rc == 0 && k < size; k++)
                    if (start + k * stride == me()) mine = k;
                CHECK_EQ(team != SHMEM_TEAM_INVALID, mine >= 0);
                if (mine < 0) continue;
                CHECK_EQ(shmem_team_my_pe(team), mine);
                CHECK_EQ(shmem_team_n_pes(team), size);
                for (int k = 0; k < size; k++)
                    CHECK_EQ(shmem_team_translate_pe(team, k, SHMEM_TEAM_WORLD), start + k * stride);
                shmem_team_destroy(team);
            }
}

CASE(triplets_that_overflow, 2, "split_strided: triplets beyond the range of int are refused")
{
    static const int triplets[][3] = {{0, INT32_MAX, 3}, {1, INT32_MIN, 2}, {0, 1, INT32_MAX}, {INT32_MAX, 1, 1},
                                      {INT32_MIN, 1, 1}, {0, 1 << 30, 5},   {0, 1, INT32_MIN}};
    for (size_t i = 0; i < COUNT_OF(triplets); i++) {
        shmem_team_t team = SHMEM_TEAM_WORLD;
        about("triplet %zu", i);
        CHECK(
            shmem_team_split_strided(SHMEM_TEAM_WORLD, triplets[i][0], triplets[i][1], triplets[i][2], NULL, 0, &team));
        CHECK_OP(team, ==, SHMEM_TEAM_INVALID);
    }
}

static void group_works(const struct group *g)
{
    static long *words;
    if (g->size == n_pes() && g->team == SHMEM_TEAM_WORLD) words = symmetric(2 * sizeof *words);
    CHECK_EQ(g->team != SHMEM_TEAM_INVALID, is_member(g));
    if (is_member(g)) check_works(g->team, &words[0], &words[1]);
}

CASE(members_and_others, 5, "members get a team that works at once, other PEs of the parent get SHMEM_TEAM_INVALID",
     .crowded = 33)
{
    for_each_group(group_works);
}

CASE(team_of_one, 3, "a team of one PE takes part in every collective alone")
{
    long *dest = symmetric(4 * sizeof *dest), *source = symmetric(4 * sizeof *source);
    shmem_team_t alone = SHMEM_TEAM_INVALID;
    for (int pe = 0; pe < n_pes(); pe++) {
        shmem_team_t team = split(SHMEM_TEAM_WORLD, pe, 1, 1);
        CHECK_EQ(team != SHMEM_TEAM_INVALID, pe == me());
        if (pe == me()) alone = team;
    }
    CHECK_EQ(shmem_team_n_pes(alone), 1);
    CHECK_EQ(shmem_team_my_pe(alone), 0);
    CHECK_EQ(shmem_team_translate_pe(alone, 0, SHMEM_TEAM_WORLD), me());
    for (int i = 0; i < 4; i++) source[i] = me() * 10 + i;
    CHECK_EQ(shmem_team_sync(alone), 0);
    CHECK_EQ(shmem_long_broadcast(alone, &dest[0], &source[1], 1, 0), 0);
    CHECK_EQ(shmem_long_collect(alone, &dest[1], &source[2], 1), 0);
    CHECK_EQ(shmem_long_alltoall(alone, &dest[2], &source[3], 1), 0);
    CHECK_EQ(shmem_long_prod_reduce(alone, &dest[3], &source[3], 1), 0);
    for (int i = 0; i < 4; i++) CHECK_EQ(dest[i], me() * 10 + (i < 3 ? i + 1 : 3));
    shmem_team_t again = split(alone, 0, -7, 1);
    CHECK_EQ(shmem_team_translate_pe(again, 0, alone), 0);
    shmem_team_destroy(again);
    shmem_team_destroy(alone);
}

CASE(teams_of_teams, 8, "a team can be a parent; numbers are the parent's; twice reversed is as before")
{
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    shmem_team_t reversed = split(SHMEM_TEAM_WORLD, 7, -1, 8), forward = split(reversed, 7, -1, 8);
    CHECK_EQ(shmem_team_my_pe(reversed), 7 - me());
    CHECK_EQ(shmem_team_my_pe(forward), me());
    shmem_team_t odd = split(forward, 1, 2, 4); /* 1 3 5 7 */
    CHECK_EQ(odd != SHMEM_TEAM_INVALID, me() % 2 == 1);
    if (odd != SHMEM_TEAM_INVALID) {
        shmem_team_t last = split(odd, 3, -2, 2); /* 7 3 */
        CHECK_EQ(last != SHMEM_TEAM_INVALID, me() == 7 || me() == 3);
        if (last != SHMEM_TEAM_INVALID) {
            CHECK_EQ(shmem_team_my_pe(last), me() == 3);
            CHECK_EQ(shmem_team_translate_pe(last, 1, reversed), 4);
            check_works(last, dest, source);
            shmem_team_t one = split(last, 1, 0, 1); /* 3 */
            CHECK_EQ(one != SHMEM_TEAM_INVALID, me() == 3);
            if (me() == 3) check_works(one, dest, source);
            shmem_team_destroy(one);
            shmem_team_destroy(last);
        }
        check_works(odd, dest, source);
        shmem_team_destroy(odd);
    }
    check_works(reversed, dest, source);
    check_works(forward, dest, source);
    shmem_team_destroy(forward);
    shmem_team_destroy(reversed);
}

CASE(parent_may_go_first, 3, "a team stays whole when its parent has been destroyed")
{
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    shmem_team_t parent = split(SHMEM_TEAM_WORLD, 2, -1, 3), child = split(parent, 2, -1, 3);
    shmem_team_destroy(parent);
    CHECK_EQ(shmem_team_my_pe(child), me());
    check_works(child, dest, source);
    shmem_team_destroy(child);
}

CASE(translation, 6,
     "translate_pe: the number in the other team, or -1 for a PE outside either team or an invalid number")
{
    static const int shapes[][3] = {{0, 1, 6}, {5, -1, 6}, {0, 2, 3}, {5, -2, 3}, {1, 1, 4}, {4, -3, 2}};
    shmem_team_t teams[COUNT_OF(shapes)];
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        teams[i] = split(SHMEM_TEAM_WORLD, shapes[i][0], shapes[i][1], shapes[i][2]);
    for (size_t from = 0; from < COUNT_OF(shapes); from++)
        for (size_t to = 0; to < COUNT_OF(shapes); to++)
            for (int pe = -1; pe <= 6; pe++) {
                const bool both = teams[from] != SHMEM_TEAM_INVALID && teams[to] != SHMEM_TEAM_INVALID;
                const int world = shapes[from][0] + pe * shapes[from][1];
                int wanted = -1;
                for (int k = 0; both && pe >= 0 && pe < shapes[from][2] && k < shapes[to][2]; k++)
                    if (shapes[to][0] + k * shapes[to][1] == world) wanted = k;
                about("from team %zu to team %zu, PE %d", from, to, pe);
                CHECK_EQ(shmem_team_translate_pe(teams[from], pe, teams[to]), wanted);
            }
    for (size_t i = 0; i < COUNT_OF(shapes); i++) shmem_team_destroy(teams[i]);
}

DATA_CASE(team_ptr, 4, "shmem_team_ptr takes the PE's number in the team, and is NULL beyond the team")
{
    long *word = symmetric(sizeof *word);
    shmem_team_t reversed = split(SHMEM_TEAM_WORLD, 3, -1, 3);
    for (int pe = 0; pe < 4; pe++) CHECK_PTR(shmem_team_ptr(SHMEM_TEAM_WORLD, word, pe), shmem_ptr(word, pe));
    for (int k = 0; k < 3 && reversed != SHMEM_TEAM_INVALID; k++)
        CHECK_PTR(shmem_team_ptr(reversed, word, k), shmem_ptr(word, 3 - k));
    if (reversed != SHMEM_TEAM_INVALID) {
        CHECK_PTR(shmem_team_ptr(reversed, word, 3), NULL);
        CHECK_PTR(shmem_team_ptr(reversed, word, -1), NULL);
    }
    shmem_team_destroy(reversed);
}

/* ---- Several teams at once ------------------------------------------------------------------------------ */

CASE(overlapping_teams_in_turn, 6, "teams that share PEs may be used alternately, in the same order at those PEs",
     .crowded = 10)
{
    const int n = n_pes(), most = n * 2 / 3;
    long *words = symmetric(4 * sizeof *words);
    shmem_team_t low = split(SHMEM_TEAM_WORLD, 0, 1, most), high = split(SHMEM_TEAM_WORLD, n - 1, -1, most);
    for (int i = 0; i < 100; i++) {
        about("round %d", i);
        if (low != SHMEM_TEAM_INVALID) check_works(low, &words[0], &words[1]);
        if (high != SHMEM_TEAM_INVALID) check_works(high, &words[2], &words[3]);
    }
    shmem_team_destroy(low);
    shmem_team_destroy(high);
}

CASE(disjoint_teams_apart, 4, "teams without common PEs do not wait for each other")
{
    long *words = symmetric(2 * sizeof *words), *go = symmetric(sizeof *go);
    shmem_team_t low = split(SHMEM_TEAM_WORLD, 0, 1, 2), high = split(SHMEM_TEAM_WORLD, 2, 1, 2);
    shmem_team_t mine = me() < 2 ? low : high;
    if (me() < 2) shmem_long_wait_until(go, SHMEM_CMP_EQ, 1); /* until the others have finished */
    for (int i = 0; i < 50; i++) check_works(mine, &words[0], &words[1]);
    if (me() >= 2) shmem_long_p(go, 1, me() - 2);
    barrier();
    shmem_team_destroy(mine);
}

CASE(other_numbers_of_teams, 4, "PEs that are in different numbers of teams can still make a team together")
{
    enum { MANY = 20 };
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    shmem_team_t low = split(SHMEM_TEAM_WORLD, 0, 1, 2), high = split(SHMEM_TEAM_WORLD, 2, 1, 2);
    shmem_team_t mine = me() < 2 ? low : high, made[MANY];
    const int count = me() < 2 ? MANY : 3;
    for (int i = 0; i < count; i++) made[i] = split(mine, 1, -1, 2);
    for (int i = 0; i < count; i += 2) shmem_team_destroy(made[i]);
    shmem_team_t all = split(SHMEM_TEAM_WORLD, 3, -1, 4);
    check_works(all, dest, source);
    for (int i = 1; i < count; i += 2) {
        check_works(made[i], dest, source);
        shmem_team_destroy(made[i]);
    }
    check_works(all, dest, source);
    shmem_team_destroy(all);
    shmem_team_destroy(mine);
}

CASE(sync_waits_for_all_members, 4, "shmem_team_sync returns when all members have called it", .crowded = 9)
{
    shmem_team_t reversed = split(SHMEM_TEAM_WORLD, n_pes() - 1, -1, n_pes() - 1);
    long *arrived = symmetric(64 * sizeof *arrived);
    for (int i = 0; i < 64 && reversed != SHMEM_TEAM_INVALID; i++) {
        if (i % 8 == me() % 8) sleep_ms(1);
        for (int k = 0; k < shmem_team_n_pes(reversed); k++)
            shmem_long_atomic_inc(&arrived[i], shmem_team_translate_pe(reversed, k, SHMEM_TEAM_WORLD));
        shmem_quiet();
        CHECK_EQ(i % 2 ? shmem_team_sync(reversed) : shmem_sync(reversed), 0);
        CHECK_EQ(shmem_long_atomic_fetch(&arrived[i], me()), n_pes() - 1);
    }
    shmem_team_destroy(reversed);
}

/* ---- Configuration, limits, destruction ----------------------------------------------------------------- */

CASE(configuration, 2,
     "get_config returns the values that the split requested under its mask; the default is no contexts")
{
    shmem_team_config_t asked = {5}, got = {77};
    shmem_team_t with, without, masked;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, &asked, SHMEM_TEAM_NUM_CONTEXTS, &with), 0);
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, 0, &without), 0);
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, &asked, 0, &masked), 0);
    CHECK_EQ(shmem_team_get_config(with, SHMEM_TEAM_NUM_CONTEXTS, &got), 0);
    CHECK_EQ(got.num_contexts, 5);
    CHECK_EQ(shmem_team_get_config(without, SHMEM_TEAM_NUM_CONTEXTS, &got), 0);
    CHECK_EQ(got.num_contexts, 0);
    CHECK_EQ(shmem_team_get_config(masked, SHMEM_TEAM_NUM_CONTEXTS, &got), 0);
    CHECK_EQ(got.num_contexts, 0);
    got.num_contexts = 77;
    CHECK_EQ(shmem_team_get_config(with, 0, &got), 0);
    CHECK_EQ(got.num_contexts, 77);
    CHECK_EQ(shmem_team_get_config(with, 0, NULL), 0);
    CHECK_EQ(shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, &got), 0);
    shmem_team_destroy(with);
    shmem_team_destroy(without);
    shmem_team_destroy(masked);
}

CASE(many_times, 3, "teams can be made and destroyed any number of times")
{
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    for (int i = 0; i < 400; i++) {
        about("team %d", i);
        shmem_team_t team = split(SHMEM_TEAM_WORLD, i % 2 ? 0 : 2, i % 2 ? 1 : -1, 3);
        if (i % 16 == 0) check_works(team, dest, source);
        shmem_team_destroy(team);
    }
}

/* Makes teams of all PEs until the limit; the failing call must leave nothing behind. */
static int fill_up(shmem_team_t *teams)
{
    for (int i = 0; i < TEAMS; i++) {
        teams[i] = SHMEM_TEAM_WORLD;
        if (shmem_team_split_strided(SHMEM_TEAM_WORLD, n_pes() - 1, -1, n_pes(), NULL, 0, &teams[i]) != 0) {
            CHECK_OP(teams[i], ==, SHMEM_TEAM_INVALID);
            return i;
        }
    }
    FAIL("more than %d teams", TEAMS);
}

CASE(limit, 3, "a PE is in 64 teams; one more is an error everywhere; a destroyed one makes room for another")
{
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    shmem_team_t teams[TEAMS];
    CHECK_EQ(fill_up(teams), TEAMS - PREDEFINED);
    for (int i = 0; i < TEAMS - PREDEFINED; i++) check_works(teams[i], dest, source);
    for (int round = 0; round < 5; round++) {
        const int gone = round * 11;
        shmem_team_t more = SHMEM_TEAM_WORLD;
        shmem_team_destroy(teams[gone]);
        teams[gone] = split(SHMEM_TEAM_WORLD, 0, 1, 3);
        check_works(teams[gone], dest, source);
        CHECK_OP(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 3, NULL, 0, &more), !=, 0);
        CHECK_OP(more, ==, SHMEM_TEAM_INVALID);
    }
    for (int i = 0; i < TEAMS - PREDEFINED; i++) shmem_team_destroy(teams[i]);
    CHECK_EQ(fill_up(teams), TEAMS - PREDEFINED);
    for (int i = 0; i < TEAMS - PREDEFINED; i++) shmem_team_destroy(teams[i]);
}

CASE(destroyed_team_is_refused, 3, "a destroyed team's handle is refused, also when its place is reused")
{
    unsigned char *dest = symmetric(64), *source = symmetric(64);
    memset(source, 0x55, 64);
    shmem_team_t old = split(SHMEM_TEAM_WORLD, 2, -1, 3), again = SHMEM_TEAM_WORLD;
    shmem_team_destroy(old);
    for (int round = 0; round < 2; round++) {
        shmem_team_config_t config = {77};
        shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
        about("round %d", round);
        CHECK_EQ(shmem_team_my_pe(old), -1);
        CHECK_EQ(shmem_team_n_pes(old), -1);
        CHECK_EQ(shmem_team_translate_pe(old, 0, SHMEM_TEAM_WORLD), -1);
        CHECK_EQ(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, old), -1);
        CHECK_OP(shmem_team_get_config(old, SHMEM_TEAM_NUM_CONTEXTS, &config), !=, 0);
        CHECK_OP(shmem_team_sync(old), !=, 0);
        CHECK_PTR(shmem_team_ptr(old, dest, 0), NULL);
        CHECK_OP(shmem_broadcastmem(old, dest, source, 64, 0), !=, 0);
        CHECK_OP(shmem_collectmem(old, dest, source, 8), !=, 0);
        CHECK_OP(shmem_alltoallmem(old, dest, source, 8), !=, 0);
        CHECK_OP(shmem_int_sum_reduce(old, (int *)dest, (int *)source, 1), !=, 0);
        CHECK_OP(shmem_team_create_ctx(old, 0, &ctx), !=, 0);
        CHECK_OP(ctx, ==, SHMEM_CTX_INVALID);
        shmem_team_t none = SHMEM_TEAM_WORLD;
        CHECK_OP(shmem_team_split_strided(old, 0, 1, 1, NULL, 0, &none), !=, 0);
        CHECK_OP(none, ==, SHMEM_TEAM_INVALID);
        shmem_team_destroy(old);
        barrier();
        CHECK_BYTES(dest, 64, 0);
        if (round == 0) again = split(SHMEM_TEAM_WORLD, 2, -1, 3);
    }
    CHECK_OP(again, !=, old);
    CHECK_EQ(shmem_team_my_pe(again), 2 - me());
    shmem_team_destroy(again);
}

CASE(left_at_the_end, 2, "shmem_finalize destroys the remaining teams")
{
    long *dest = symmetric(sizeof *dest), *source = symmetric(sizeof *source);
    check_works(split(SHMEM_TEAM_WORLD, 1, -1, 2), dest, source);
}

#endif
