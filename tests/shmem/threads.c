/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads: levels, and with SHMEM_THREAD_MULTIPLE all operations at once from several threads of a PE. OpenSHMEM 1.6,
 * "Thread Support".
 *
 * Cases start the library themselves, so their symmetric objects are in static memory.
 */
#include "suite.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4 };

static void start(int level)
{
    int provided = -1;
    CHECK_EQ(shmem_init_thread(level, &provided), 0);
    joined();
    CHECK_OP(provided, >=, level);
}

static void finish(void)
{
    shmem_barrier_all();
    left();
    shmem_finalize();
}

/* Runs the body in this number of threads at once, numbered from 0 to count - 1. */
struct worker {
    pthread_t thread;
    void (*body)(int number);
    int number;
    atomic_bool *go;
};

static void *work(void *opaque)
{
    struct worker *w = opaque;
    while (!atomic_load(w->go)) continue;
    w->body(w->number);
    return NULL;
}

static void in_threads(int count, void (*body)(int number))
{
    struct worker workers[16];
    atomic_bool go = false;
    for (int i = 0; i < count; i++) {
        workers[i] = (struct worker){.body = body, .number = i, .go = &go};
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    atomic_store(&go, true);
    for (int i = 0; i < count; i++) pthread_join(workers[i].thread, NULL);
}

#define THREADED(name, pes, rule, ...)                       \
    static void threaded_##name(void);                       \
    CASE(name, pes, rule, .flags = OWN_INIT, ##__VA_ARGS__)   \
    {                                                        \
        start(SHMEM_THREAD_MULTIPLE);                        \
        threaded_##name();                                   \
        finish();                                            \
    }                                                        \
    static void threaded_##name(void)

/* ---- Levels --------------------------------------------------------------------------------------------- */

CASE(levels_increase, 1, "the constants of the levels increase from SINGLE to MULTIPLE", .flags = OWN_INIT)
{
    CHECK_OP(SHMEM_THREAD_SINGLE, <, SHMEM_THREAD_FUNNELED);
    CHECK_OP(SHMEM_THREAD_FUNNELED, <, SHMEM_THREAD_SERIALIZED);
    CHECK_OP(SHMEM_THREAD_SERIALIZED, <, SHMEM_THREAD_MULTIPLE);
}

static void level(int requested)
{
    int provided = -1, asked = -2;
    CHECK_EQ(shmem_init_thread(requested, &provided), 0);
    joined();
    shmem_query_thread(&asked);
    CHECK_EQ(asked, provided);
    CHECK_OP(provided, >=, requested);
    CHECK_OP(provided, <=, SHMEM_THREAD_MULTIPLE);
    finish();
}

CASE(level_single, 2, "init_thread provides the requested level or more, and query_thread returns it: SINGLE",
     .flags = OWN_INIT)
{
    level(SHMEM_THREAD_SINGLE);
}
CASE(level_funneled, 2, "the same: FUNNELED", .flags = OWN_INIT) { level(SHMEM_THREAD_FUNNELED); }
CASE(level_serialized, 2, "the same: SERIALIZED", .flags = OWN_INIT) { level(SHMEM_THREAD_SERIALIZED); }
CASE(level_multiple, 2, "the same: MULTIPLE", .flags = OWN_INIT) { level(SHMEM_THREAD_MULTIPLE); }

CASE(level_of_plain_init, 2, "after shmem_init query_thread gives one of the levels")
{
    int level = -1;
    shmem_query_thread(&level);
    CHECK_OP(level, >=, SHMEM_THREAD_SINGLE);
    CHECK_OP(level, <=, SHMEM_THREAD_MULTIPLE);
}

static void *puts_for_the_main_thread(void *unused)
{
    static long word;
    for (long i = 1; i <= 100; i++) shmem_long_p(&word, i, next_pe());
    shmem_quiet();
    CHECK_EQ(shmem_long_g(&word, next_pe()), 100);
    return unused;
}

CASE(serialized_other_thread, 2, "SERIALIZED: a thread other than the initialising one may communicate",
     .flags = OWN_INIT)
{
    pthread_t thread;
    start(SHMEM_THREAD_SERIALIZED);
    shmem_barrier_all();
    CHECK_EQ(pthread_create(&thread, NULL, puts_for_the_main_thread, NULL), 0);
    pthread_join(thread, NULL);
    finish();
}

static atomic_long computed;

static void *compute(void *unused)
{
    for (int i = 0; i < 1000000; i++) atomic_fetch_add(&computed, 1);
    return unused;
}

CASE(funneled_computes, 2, "FUNNELED: other threads may run while the main thread communicates", .flags = OWN_INIT)
{
    static long word;
    pthread_t thread;
    start(SHMEM_THREAD_FUNNELED);
    CHECK_EQ(pthread_create(&thread, NULL, compute, NULL), 0);
    for (long i = 1; i <= 500; i++) shmem_long_atomic_inc(&word, next_pe());
    shmem_barrier_all();
    CHECK_EQ(word, 500);
    pthread_join(thread, NULL);
    CHECK_EQ(computed, 1000000);
    finish();
}

/* ---- Everything at once --------------------------------------------------------------------------------- */

enum { PUTS = 60, PUT_BYTES = 800 };
static unsigned char put_area[THREADS][PUT_BYTES];

static void put_and_get_back(int number)
{
    unsigned char from[PUT_BYTES], got[PUT_BYTES];
    for (int i = 0; i < PUTS; i++) {
        const size_t bytes = (size_t)(i * 37) % PUT_BYTES + 1;
        pattern_fill(from, bytes, (unsigned)((me() * THREADS + number) * PUTS + i));
        if (i % 2) shmem_putmem(put_area[number], from, bytes, next_pe());
        else shmem_putmem_nbi(put_area[number], from, bytes, next_pe());
        shmem_quiet();
        memset(got, 0, bytes);
        shmem_getmem(got, put_area[number], bytes, next_pe());
        CHECK_PATTERN(got, bytes, (unsigned)((me() * THREADS + number) * PUTS + i));
    }
}

THREADED(puts_and_gets, 2,
         "threads put and get on the default context at once, each in its own memory; quiet covers its puts",
         .crowded = 4)
{
    in_threads(THREADS, put_and_get_back);
}

static long atomic_word, atomic_tickets[2 * THREADS * 300];

static void count_up(int number)
{
    for (int i = 0; i < 300; i++) {
        shmem_long_atomic_inc(&atomic_word, 0);
        const long ticket = shmem_long_atomic_fetch_inc(&atomic_word, 0);
        CHECK_OP(ticket, >=, 0);
        CHECK_OP(ticket, <, 4L * THREADS * 300);
        atomic_tickets[number * 300 + i] = ticket;
    }
}

THREADED(atomics, 2, "atomics of several threads of several PEs on one word: none is lost, no two fetch the same")
{
    in_threads(THREADS, count_up);
    shmem_barrier_all();
    if (me() == 0) {
        CHECK_EQ(atomic_word, 4 * THREADS * 300);
        static bool seen[4 * THREADS * 300];
        static long all[2 * THREADS * 300];
        for (int pe = 0; pe < 2; pe++)
            shmem_long_get(all + pe * THREADS * 300, atomic_tickets, THREADS * 300, pe);
        for (int i = 0; i < 2 * THREADS * 300; i++) {
            CHECK(!seen[all[i]]);
            seen[all[i]] = true;
        }
    }
}

static long context_words[THREADS][64];

static void own_context(int number)
{
    static const long options[] = {SHMEM_CTX_PRIVATE, SHMEM_CTX_SERIALIZED, 0, SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE};
    for (int round = 0; round < 15; round++) {
        shmem_ctx_t ctx;
        long got[64];
        CHECK_EQ(shmem_ctx_create(options[number], &ctx), 0);
        for (int i = 0; i < 64; i++)
            shmem_ctx_long_p(ctx, &context_words[number][i], me() * 100000 + round * 1000 + i, next_pe());
        shmem_ctx_quiet(ctx);
        shmem_ctx_long_get_nbi(ctx, got, context_words[number], 64, next_pe());
        shmem_ctx_quiet(ctx);
        for (int i = 0; i < 64; i++) CHECK_EQ(got[i], me() * 100000 + round * 1000 + i);
        shmem_ctx_destroy(ctx);
    }
}

THREADED(private_contexts, 2, "each thread makes, uses and destroys its own contexts, all at once", .crowded = 4)
{
    in_threads(THREADS, own_context);
}

static shmem_ctx_t shared_context;

static void share_a_context(int number)
{
    for (int i = 0; i < 200; i++) {
        shmem_ctx_long_atomic_inc(shared_context, &atomic_word, next_pe());
        shmem_ctx_long_p(shared_context, &context_words[number][i % 64], i, next_pe());
        if (i % 50 == 49) shmem_ctx_quiet(shared_context);
    }
}

THREADED(shared_contexts, 2, "threads share a context, with quiets of one among puts of others")
{
    CHECK_EQ(shmem_ctx_create(0, &shared_context), 0);
    in_threads(THREADS, share_a_context);
    shmem_ctx_destroy(shared_context);
    shmem_sync_all();
    CHECK_EQ(atomic_word, THREADS * 200);
}

static long flags[THREADS], answers[THREADS];

static void ping_and_pong(int number)
{
    for (long i = 1; i <= 40; i++) {
        if (me() == 0) {
            shmem_long_p(&flags[number], i, 1);
            shmem_quiet();
            shmem_long_wait_until(&answers[number], SHMEM_CMP_EQ, i);
        } else {
            shmem_long_wait_until(&flags[number], SHMEM_CMP_EQ, i);
            shmem_long_p(&answers[number], i, 0);
            shmem_quiet();
        }
    }
}

THREADED(waits, 2, "a waiting thread does not hold up the others of its PE, nor those of its peer")
{
    in_threads(THREADS, ping_and_pong);
}

static long released;

static void wait_or_release(int number)
{
    if (number > 0) shmem_long_wait_until(&released, SHMEM_CMP_EQ, 1); /* all other threads wait for thread 0 of the same PE */
    else {
        sleep_ms(20);
        shmem_long_p(&released, 1, me());
        shmem_quiet();
    }
}

THREADED(one_wakes_the_others, 1, "threads that wait for a word are woken by another thread's put to it")
{
    in_threads(THREADS, wait_or_release);
}

static void barrier_or_put(int number)
{
    for (int i = 0; i < 60; i++) {
        if (number == 0) shmem_barrier_all();
        else shmem_long_atomic_add(&context_words[number][0], 1, next_pe());
    }
}

THREADED(barriers_among_puts, 3, "one thread in barriers, others putting")
{
    in_threads(THREADS, barrier_or_put);
    shmem_barrier_all();
    for (int number = 1; number < THREADS; number++) CHECK_EQ(context_words[number][0], 60);
}

static void allocate_or_put(int number)
{
    for (int i = 0; i < 40; i++) {
        if (number == 0) {
            long *block = shmem_malloc((size_t)(i + 1) * 1000);
            CHECK_OP(block, !=, NULL);
            shmem_long_p(block, i, next_pe());
            shmem_free(block);
        } else {
            shmem_long_atomic_add(&context_words[number][0], 1, next_pe());
        }
    }
}

THREADED(heap_among_puts, 2, "one thread allocates and frees, others put")
{
    in_threads(THREADS, allocate_or_put);
    shmem_barrier_all();
    for (int number = 1; number < THREADS; number++) CHECK_EQ(context_words[number][0], 40);
}

#if SINCE(1, 5)

static shmem_team_t teams[THREADS];
static long team_results[THREADS][200], team_sources[THREADS];

static void own_team(int number)
{
    shmem_team_t team = teams[number];
    for (int i = 0; i < 60; i++) {
        long *result = &team_results[number][i * 3];
        team_sources[number] = shmem_team_my_pe(team) * 1000 + i;
        CHECK_EQ(shmem_long_sum_reduce(team, &result[0], &team_sources[number], 1), 0);
        CHECK_EQ(result[0], 3000 + 3 * i);
        CHECK_EQ(shmem_long_broadcast(team, &result[1], &team_sources[number], 1, 1), 0);
        CHECK_EQ(result[1], 1000 + i);
        CHECK_EQ(shmem_team_sync(team), 0);
    }
}

THREADED(collectives_of_different_teams, 3, "threads are in collectives of different teams at once, one thread a team")
{
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, i % 2 ? 2 : 0, i % 2 ? -1 : 1, 3, NULL, 0, &teams[i]), 0);
    in_threads(THREADS, own_team);
    for (int i = 0; i < THREADS; i++) shmem_team_destroy(teams[i]);
}

static void split_own_team(int number)
{
    for (int i = 0; i < 15; i++) {
        shmem_team_t child;
        CHECK_EQ(shmem_team_split_strided(teams[number], 1, -1, 2, NULL, 0, &child), 0);
        CHECK_EQ(shmem_team_my_pe(child), 1 - shmem_team_my_pe(teams[number]));
        CHECK_EQ(shmem_team_sync(child), 0);
        shmem_team_destroy(child);
    }
}

THREADED(splits_of_different_teams, 2, "threads split different teams at once")
{
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, 0, &teams[i]), 0);
    in_threads(THREADS, split_own_team);
    for (int i = 0; i < THREADS; i++) shmem_team_destroy(teams[i]);
}

#endif

#ifdef SELVEDGE_SHMEM

static shmem_ct_t common, each[THREADS];
static long counted_words[THREADS];

static void count_by_puts(int number)
{
    for (long i = 1; i <= 300; i++) {
        shmem_long_p_ct(common, &counted_words[number], i, next_pe());
        shmem_long_p_ct(each[number], &counted_words[number], i, next_pe());
    }
    shmem_ct_wait(common, 300);
    shmem_ct_wait(each[number], 300);
}

THREADED(counting_puts, 2, "threads of a PE count at one counter and at their own: the sums are exact")
{
    shmem_ct_create(&common);
    for (int i = 0; i < THREADS; i++) shmem_ct_create(&each[i]);
    in_threads(THREADS, count_by_puts);
    shmem_barrier_all();
    CHECK_EQ(shmem_ct_get(common), 300 * THREADS);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(shmem_ct_get(each[i]), 300);
        CHECK_EQ(counted_words[i], 300);
        shmem_ct_free(&each[i]);
    }
    shmem_ct_free(&common);
}

static void wait_together(int number)
{
    if (number == 0) {
        sleep_ms(5);
        for (int i = 0; i < 10; i++) shmem_long_p_ct(common, &counted_words[0], i, next_pe());
    }
    shmem_ct_wait(common, 10);
}

THREADED(waiting_on_one_counter, 2, "several threads wait for the same count, and all return")
{
    shmem_ct_create(&common);
    in_threads(THREADS, wait_together);
    shmem_ct_free(&common);
}

#endif
