/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Communication contexts: options, teams, ordering and completion of each context, destruction. OpenSHMEM 1.6,
 * "Communication Management Routines". This library also refuses handles of destroyed contexts.
 */
#include "suite.h"

enum { WORDS = 64 };

static shmem_ctx_t create(long options)
{
    shmem_ctx_t ctx;
    CHECK_EQ(shmem_ctx_create(options, &ctx), 0);
    return ctx;
}

/* Puts, gets and adds at the next PE of the world through a context. Collective. */
static void check_works(shmem_ctx_t ctx, long *words, long seed)
{
    const int to = next_pe();
    long fetched = -1, got[2] = {0, 0}, two[2] = {seed * 8 + me(), seed * 8 + me() + 1};
    memset(words, 0, 8 * sizeof *words);
    barrier();
    shmem_ctx_long_p(ctx, &words[0], seed + me(), to);
    shmem_ctx_long_put(ctx, &words[1], two, 2, to);
    shmem_ctx_long_put_nbi(ctx, &words[3], two, 2, to);
    shmem_ctx_long_atomic_add(ctx, &words[5], seed, to);
    fetched = shmem_ctx_long_atomic_fetch_inc(ctx, &words[6], to);
    shmem_ctx_fence(ctx);
    shmem_ctx_long_p(ctx, &words[7], 1, to);
    shmem_ctx_quiet(ctx);
    CHECK_EQ(fetched, 0);
    CHECK_EQ(shmem_ctx_long_g(ctx, &words[0], to), seed + me());
    shmem_ctx_long_get(ctx, got, &words[1], 2, to);
    CHECK_OP(got[0], ==, two[0]);
    CHECK_OP(got[1], ==, two[1]);
    shmem_ctx_long_get_nbi(ctx, got, &words[3], 2, to);
    shmem_ctx_quiet(ctx);
    CHECK_OP(got[0], ==, two[0]);
    CHECK_OP(got[1], ==, two[1]);
    shmem_sync_all();
    CHECK_EQ(words[0], seed + previous_pe());
    CHECK_EQ(words[1], seed * 8 + previous_pe());
    CHECK_EQ(words[4], seed * 8 + previous_pe() + 1);
    CHECK_EQ(words[5], seed);
    CHECK_EQ(words[6], 1);
    CHECK_EQ(words[7], 1);
    shmem_sync_all();
}

DATA_CASE(default_context, 2, "SHMEM_CTX_DEFAULT is the context of routines without a context argument")
{
    long *words = symmetric(8 * sizeof *words);
    check_works(SHMEM_CTX_DEFAULT, words, 3);
    shmem_ctx_long_p(SHMEM_CTX_DEFAULT, words, 40 + me(), next_pe());
    shmem_quiet();
    shmem_sync_all();
    CHECK_EQ(*words, 40 + previous_pe());
}

DATA_CASE(every_option, 2, "a context with any set of options carries puts, gets and atomics")
{
    long *words = symmetric(8 * sizeof *words);
    for (long options = 0; options < 8; options++) {
        long set = (options & 1 ? SHMEM_CTX_PRIVATE : 0) | (options & 2 ? SHMEM_CTX_SERIALIZED : 0) |
                   (options & 4 ? SHMEM_CTX_NOSTORE : 0);
        shmem_ctx_t ctx = create(set);
        about("options %ld", set);
        check_works(ctx, words, options + 1);
        shmem_ctx_destroy(ctx);
    }
}

DATA_CASE(creation_is_not_collective, 3, "a PE may make and use a context alone")
{
    long *word = symmetric(sizeof *word);
    if (me() == 1) {
        shmem_ctx_t ctx = create(0);
        shmem_ctx_long_p(ctx, word, 17, 2);
        shmem_ctx_destroy(ctx);
    }
    barrier();
    CHECK_EQ(*word, me() == 2 ? 17 : 0);
}

DATA_CASE(quiet_of_a_context, 3,
          "quiet of a context completes the operations issued on it; a barrier need not", .crowded = 6)
{
    enum { COUNT = 6, BYTES = 3001 };
    unsigned char *dest = symmetric(COUNT * BYTES), *source = local(COUNT * BYTES);
    shmem_ctx_t ctx[COUNT];
    for (int i = 0; i < COUNT; i++) ctx[i] = create(0);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < COUNT; i++) {
            pattern_fill(source + i * BYTES, BYTES, (unsigned)(me() * 100 + round * COUNT + i));
            shmem_ctx_putmem_nbi(ctx[i], dest + i * BYTES, source + i * BYTES, BYTES, next_pe());
        }
        for (int i = COUNT - 1; i >= 0; i--) shmem_ctx_quiet(ctx[i]);
        shmem_sync_all();
        for (int i = 0; i < COUNT; i++)
            CHECK_PATTERN(dest + i * BYTES, BYTES, (unsigned)(previous_pe() * 100 + round * COUNT + i));
        shmem_sync_all();
    }
    for (int i = 0; i < COUNT; i++) shmem_ctx_destroy(ctx[i]);
}

DATA_CASE(fence_of_a_context, 2, "fence of a context: puts before it are in place when those after it are")
{
    enum { ROUNDS = 200, BYTES = 900 };
    unsigned char *data = symmetric(BYTES), *source = local(BYTES);
    long *flag = symmetric(sizeof *flag), *seen = symmetric(sizeof *seen);
    shmem_ctx_t ctx = create(0);
    for (long i = 1; i <= ROUNDS; i++) {
        if (me() == 0) {
            pattern_fill(source, BYTES, (unsigned)i);
            shmem_ctx_putmem(ctx, data, source, BYTES, 1);
            shmem_ctx_fence(ctx);
            shmem_ctx_long_p(ctx, flag, i, 1);
            shmem_ctx_quiet(ctx);
            shmem_long_wait_until(seen, SHMEM_CMP_EQ, i);
        } else {
            shmem_long_wait_until(flag, SHMEM_CMP_EQ, i);
            CHECK_PATTERN(data, BYTES, (unsigned)i);
            shmem_long_p(seen, i, 0);
            shmem_quiet();
        }
    }
    shmem_ctx_destroy(ctx);
}

DATA_CASE(destroy_completes, 2, "shmem_ctx_destroy completes the operations issued on the context, puts and gets")
{
    enum { BYTES = 100003 };
    unsigned char *dest = symmetric(BYTES), *source = symmetric(BYTES), *got = local(BYTES);
    pattern_fill(source, BYTES, (unsigned)me());
    barrier();
    shmem_ctx_t ctx = create(0);
    shmem_ctx_putmem_nbi(ctx, dest, source, BYTES, next_pe());
    shmem_ctx_getmem_nbi(ctx, got, source, BYTES, next_pe());
    shmem_ctx_destroy(ctx);
    CHECK_PATTERN(got, BYTES, (unsigned)next_pe());
    shmem_sync_all();
    CHECK_PATTERN(dest, BYTES, (unsigned)previous_pe());
}

CASE(nothing_to_complete, 2, "fence and quiet of a context on which nothing was issued return")
{
    shmem_ctx_t ctx = create(0);
    for (int i = 0; i < 100; i++) {
        shmem_ctx_fence(ctx);
        shmem_ctx_quiet(ctx);
    }
    shmem_ctx_destroy(ctx);
}

/* ---- Number of operations ------------------------------------------------------------------------------- */

DATA_CASE(many_at_once, 2, "many contexts exist side by side, each with its own operations")
{
    enum { MANY = 40 };
    long *words = symmetric(MANY * sizeof *words);
    shmem_ctx_t ctx[MANY];
    for (int i = 0; i < MANY; i++) ctx[i] = create(0);
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < i; k++) CHECK_OP(ctx[i], !=, ctx[k]);
    for (int i = 0; i < MANY; i++) shmem_ctx_long_p(ctx[i], &words[i], me() * 100 + i, next_pe());
    for (int i = 0; i < MANY; i++) shmem_ctx_destroy(ctx[i]);
    shmem_sync_all();
    for (int i = 0; i < MANY; i++) CHECK_EQ(words[i], previous_pe() * 100 + i);
}

DATA_CASE(many_times, 2, "contexts can be made and destroyed any number of times")
{
    enum { TIMES = 2000 };
    long *word = symmetric(sizeof *word);
    for (int i = 0; i < TIMES; i++) {
        about("context %d", i);
        shmem_ctx_t ctx = create(i % 8);
        shmem_ctx_long_atomic_inc(ctx, word, next_pe());
        shmem_ctx_destroy(ctx);
    }
    barrier();
    CHECK_EQ(*word, TIMES);
}

#if SINCE(1, 5)

CASE(invalid_context, 2, "SHMEM_CTX_INVALID: destroy, quiet and fence do nothing, without an error",
     .environment = "SHMEM_DEBUG=1", .prints_not = "selvedge: PE")
{
    shmem_ctx_destroy(SHMEM_CTX_INVALID);
    shmem_ctx_quiet(SHMEM_CTX_INVALID);
    shmem_ctx_fence(SHMEM_CTX_INVALID);
}

CASE(limit, 2,
     "when there are no more contexts, creation gives an error and SHMEM_CTX_INVALID; a destroyed one makes room")
{
    enum { MOST = 1 << 16 };
    long *words = symmetric(8 * sizeof *words);
    shmem_ctx_t *ctx = local(MOST * sizeof *ctx);
    int count = 0;
    while (count < MOST) {
        ctx[count] = SHMEM_CTX_DEFAULT;
        if (shmem_ctx_create(0, &ctx[count]) != 0) break;
        count++;
    }
    CHECK_OP(count, >=, 100);
    if (count < MOST) {
        CHECK_OP(ctx[count], ==, SHMEM_CTX_INVALID);
        shmem_ctx_destroy(ctx[count / 2]);
        ctx[count / 2] = create(0);
    }
    check_works(ctx[0], words, 5);
    check_works(ctx[count / 2], words, 6);
    check_works(ctx[count - 1], words, 7);
    for (int i = 0; i < count; i++) shmem_ctx_destroy(ctx[i]);
    shmem_ctx_t again = create(0);
    check_works(again, words, 8);
    shmem_ctx_destroy(again);
}

/* ---- Teams ---------------------------------------------------------------------------------------------- */

static shmem_team_t team_of(int start, int stride, int size)
{
    shmem_team_config_t config = {16};
    shmem_team_t team;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, &config, SHMEM_TEAM_NUM_CONTEXTS, &team),
             0);
    return team;
}

static shmem_ctx_t create_on(shmem_team_t team, long options)
{
    shmem_ctx_t ctx;
    CHECK_EQ(shmem_team_create_ctx(team, options, &ctx), 0);
    return ctx;
}

CASE(team_of_a_context, 2, "shmem_ctx_get_team: the world for the default and created contexts, the team for a team's")
{
    shmem_team_t reversed = team_of(1, -1, 2), found = SHMEM_TEAM_INVALID;
    shmem_ctx_t plain = create(0), of_team = create_on(reversed, 0), of_world = create_on(SHMEM_TEAM_WORLD, 0);
    CHECK_EQ(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, &found), 0);
    CHECK_OP(found, ==, SHMEM_TEAM_WORLD);
    found = SHMEM_TEAM_INVALID;
    CHECK_EQ(shmem_ctx_get_team(plain, &found), 0);
    CHECK_OP(found, ==, SHMEM_TEAM_WORLD);
    CHECK_EQ(shmem_ctx_get_team(of_team, &found), 0);
    CHECK_OP(found, ==, reversed);
    CHECK_EQ(shmem_ctx_get_team(of_world, &found), 0);
    CHECK_OP(found, ==, SHMEM_TEAM_WORLD);
    CHECK_OP(shmem_ctx_get_team(SHMEM_CTX_INVALID, &found), !=, 0);
    CHECK_OP(found, ==, SHMEM_TEAM_INVALID);
    shmem_ctx_destroy(plain);
    shmem_ctx_destroy(of_team);
    shmem_ctx_destroy(of_world);
    shmem_team_destroy(reversed);
}

DATA_CASE(numbers_of_the_team, 5, "on a team's context PEs have the team's numbers, in every kind of operation")
{
    long *words = symmetric(WORDS * sizeof *words), two[2] = {me() * 10, me() * 10 + 1}, got[2];
    uint64_t *signals = symmetric(2 * sizeof *signals);
    shmem_team_t team = team_of(4, -1, 4); /* 4 3 2 1 */
    barrier();
    if (team != SHMEM_TEAM_INVALID) {
        shmem_ctx_t ctx = create_on(team, 0);
        const int mine = shmem_team_my_pe(team), to = (mine + 1) % 4;
        shmem_ctx_long_p(ctx, &words[0], me(), to);
        shmem_ctx_long_put(ctx, &words[1], two, 2, to);
        shmem_ctx_long_put_nbi(ctx, &words[3], two, 2, to);
        shmem_ctx_long_iput(ctx, &words[5], two, 2, 1, 2, to);
        shmem_ctx_putmem(ctx, &words[8], two, sizeof two, to);
        shmem_ctx_long_atomic_add(ctx, &words[10], me(), to);
        shmem_ctx_long_atomic_set(ctx, &words[11], me() * 2, to);
        CHECK_EQ(shmem_ctx_long_atomic_fetch_add(ctx, &words[12], me() * 3, to), 0);
        CHECK_EQ(shmem_ctx_long_atomic_swap(ctx, &words[13], me() * 4, to), 0);
        CHECK_EQ(shmem_ctx_long_atomic_compare_swap(ctx, &words[14], 0, me() * 5, to), 0);
        shmem_ctx_long_put_signal(ctx, &words[15], two, 2, &signals[0], 7, SHMEM_SIGNAL_SET, to);
        shmem_ctx_long_put_signal_nbi(ctx, &words[17], two, 2, &signals[1], 8, SHMEM_SIGNAL_ADD, to);
        shmem_ctx_quiet(ctx);
        const int target = 4 - to;
        CHECK_EQ(shmem_long_g(&words[0], target), me());
        CHECK_EQ(shmem_ctx_long_g(ctx, &words[0], to), me());
        shmem_ctx_long_get(ctx, got, &words[1], 2, to);
        CHECK_OP(got[0], ==, two[0]);
        CHECK_OP(got[1], ==, two[1]);
        shmem_ctx_long_iget(ctx, got, &words[5], 1, 2, 2, to);
        CHECK_OP(got[0], ==, two[0]);
        CHECK_OP(got[1], ==, two[1]);
        CHECK_EQ(shmem_ctx_long_atomic_fetch(ctx, &words[11], to), me() * 2);
        CHECK_EQ(shmem_team_sync(team), 0);
        const long from = 4 - (mine + 3) % 4;
        for (int i = 1; i <= 17; i += 2) {
            if (i == 5 || i == 7 || i == 9 || i == 11 || i == 13) continue;
            CHECK_EQ(words[i], from * 10);
            CHECK_EQ(words[i + 1], from * 10 + 1);
        }
        CHECK_OP(words[5], ==, from * 10);
        CHECK_OP(words[6], ==, 0);
        CHECK_OP(words[7], ==, from * 10 + 1);
        CHECK_OP(words[8], ==, from * 10);
        CHECK_OP(words[9], ==, from * 10 + 1);
        for (int i = 0; i < 5; i++) CHECK_EQ(words[10 + i], from * (i + 1));
        CHECK_OP(signals[0], ==, 7);
        CHECK_OP(signals[1], ==, 8);
        shmem_ctx_destroy(ctx);
    }
    barrier();
    if (me() == 0) CHECK_BYTES(words, WORDS * sizeof *words, 0);
    shmem_team_destroy(team);
}

CASE(contexts_of_an_invalid_team, 2, "shmem_team_create_ctx of SHMEM_TEAM_INVALID: an error and SHMEM_CTX_INVALID")
{
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    CHECK_OP(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx), !=, 0);
    CHECK_OP(ctx, ==, SHMEM_CTX_INVALID);
}

DATA_CASE(as_many_as_configured, 2, "a team provides the number of contexts that its configuration requested")
{
    long *words = symmetric(16 * sizeof *words);
    shmem_team_t team = team_of(1, -1, 2);
    shmem_ctx_t ctx[16];
    for (int i = 0; i < 16; i++) ctx[i] = create_on(team, i % 8);
    for (int i = 0; i < 16; i++) shmem_ctx_long_p(ctx[i], &words[i], i + 1, shmem_team_my_pe(team) ^ 1);
    for (int i = 0; i < 16; i++) shmem_ctx_destroy(ctx[i]);
    shmem_sync_all();
    for (int i = 0; i < 16; i++) CHECK_EQ(words[i], i + 1);
    shmem_team_destroy(team);
}

CASE(team_takes_its_contexts_along, 2,
     "shmem_team_destroy destroys the team's shareable contexts; their handles are refused")
{
    long *word = symmetric(sizeof *word);
    shmem_team_t team = team_of(1, -1, 2), found = SHMEM_TEAM_WORLD;
    shmem_ctx_t ctx = create_on(team, 0);
    shmem_ctx_long_p(ctx, word, 1, 1);
    shmem_ctx_quiet(ctx);
    shmem_team_destroy(team);
    shmem_ctx_long_p(ctx, word, 2, 0);
    shmem_ctx_long_p(ctx, word, 2, 1);
    CHECK_OP(shmem_ctx_get_team(ctx, &found), !=, 0);
    barrier();
    CHECK_EQ(*word, me() == 0 ? 1 : 0);
}

CASE(two_teams_two_numbers, 4, "one thread uses contexts of two teams: the same number is another PE on each")
{
    long *words = symmetric(2 * sizeof *words);
    shmem_team_t forward = team_of(0, 1, 4), reversed = team_of(3, -1, 4);
    shmem_ctx_t f = create_on(forward, SHMEM_CTX_SERIALIZED), r = create_on(reversed, SHMEM_CTX_SERIALIZED);
    shmem_ctx_long_atomic_add(f, &words[0], 1 << me(), 2);
    shmem_ctx_long_atomic_add(r, &words[1], 1 << me(), 3);
    shmem_ctx_quiet(f);
    shmem_ctx_quiet(r);
    shmem_sync_all();
    CHECK_EQ(words[0], me() == 2 ? 15 : 0);
    CHECK_EQ(words[1], me() == 0 ? 15 : 0);
    shmem_ctx_destroy(f);
    shmem_ctx_destroy(r);
    shmem_team_destroy(forward);
    shmem_team_destroy(reversed);
}

/* ---- Destroyed contexts --------------------------------------------------------------------------------- */

CASE(destroyed_context_is_refused, 2, "a destroyed context's handle is refused, also when its place is reused")
{
    long *words = symmetric(8 * sizeof *words), value[2] = {5, 6}, kept[2] = {77, 78};
    shmem_ctx_t old = create(0), again = SHMEM_CTX_INVALID;
    shmem_team_t team = SHMEM_TEAM_WORLD;
    shmem_ctx_destroy(old);
    for (int round = 0; round < 2; round++) {
        about("round %d", round);
        shmem_ctx_long_p(old, words, 9, next_pe());
        shmem_ctx_long_put(old, words, value, 2, next_pe());
        shmem_ctx_long_put_nbi(old, words, value, 2, next_pe());
        shmem_ctx_long_get(old, kept, words, 2, next_pe());
        shmem_ctx_long_atomic_add(old, words, 9, next_pe());
        CHECK_EQ(shmem_ctx_long_g(old, words, next_pe()), 0);
        CHECK_EQ(shmem_ctx_long_atomic_fetch_add(old, words, 9, next_pe()), 0);
        CHECK_OP(shmem_ctx_get_team(old, &team), !=, 0);
        shmem_ctx_quiet(old);
        shmem_ctx_fence(old);
        shmem_ctx_destroy(old);
        if (round == 0) again = create(0);
    }
    barrier();
    CHECK_BYTES(words, 8 * sizeof *words, 0);
    CHECK_OP(kept[0], ==, 77);
    CHECK_OP(kept[1], ==, 78);
    check_works(again, words, 2);
    shmem_ctx_destroy(again);
}

CASE(left_at_the_end, 2, "shmem_finalize destroys the remaining contexts")
{
    long *word = symmetric(sizeof *word);
    shmem_ctx_long_p(create(0), word, 1, next_pe());
    shmem_ctx_long_p(create_on(SHMEM_TEAM_WORLD, 0), word, 1, next_pe());
}

#endif

#if SINCE(1, 6)

DATA_CASE(quiet_of_some_pes, 4, "pe_quiet completes the operations issued to the PEs that it names")
{
    enum { BYTES = 5003 };
    unsigned char *dest = symmetric(4 * BYTES), *source = local(BYTES);
    shmem_ctx_t ctx = create(0);
    const int targets[2] = {next_pe(), previous_pe()};
    pattern_fill(source, BYTES, (unsigned)me());
    for (int k = 0; k < 2; k++) {
        shmem_ctx_putmem_nbi(ctx, dest + me() * BYTES, source, BYTES, targets[k]);
        shmem_putmem_nbi(dest + me() * BYTES, source, BYTES, targets[k]);
    }
    shmem_ctx_pe_quiet(ctx, targets, 2);
    shmem_pe_quiet(targets, 2);
    shmem_pe_quiet(NULL, 0);
    shmem_sync_all();
    CHECK_PATTERN(dest + previous_pe() * BYTES, BYTES, (unsigned)previous_pe());
    CHECK_PATTERN(dest + next_pe() * BYTES, BYTES, (unsigned)next_pe());
    CHECK_BYTES(dest + me() * BYTES, BYTES, 0);
    shmem_ctx_destroy(ctx);
}

DATA_CASE(quiet_of_some_pes_of_a_team, 3, "pe_quiet on a team's context takes the team's numbers")
{
    enum { BYTES = 5003 };
    unsigned char *dest = symmetric(BYTES), *source = local(BYTES);
    shmem_team_t reversed = team_of(2, -1, 3);
    shmem_ctx_t ctx = create_on(reversed, 0);
    const int target = (shmem_team_my_pe(reversed) + 1) % 3;
    pattern_fill(source, BYTES, (unsigned)me());
    shmem_ctx_putmem_nbi(ctx, dest, source, BYTES, target);
    shmem_ctx_pe_quiet(ctx, &target, 1);
    shmem_sync_all();
    CHECK_PATTERN(dest, BYTES, (unsigned)next_pe());
    shmem_ctx_destroy(ctx);
    shmem_team_destroy(reversed);
}

#endif
