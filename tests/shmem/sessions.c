/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Sessions: hints around a sequence of operations on a context, which do not change the operations. OpenSHMEM 1.6,
 * "Session Routines".
 */
#include "suite.h"

#if SINCE(1, 6)

/* Operations of every kind on a context to the next PE, completed by its quiet. Collective. */
static void check_operations(shmem_ctx_t ctx, long *words)
{
    enum { PUTS = 50 };
    long got = 0, value = me() + 1;
    memset(words, 0, (PUTS + 4) * sizeof *words);
    barrier();
    for (int i = 0; i < PUTS; i++) {
        if (i % 3 == 0) shmem_ctx_long_p(ctx, &words[i], me() * 100 + i, next_pe());
        else if (i % 3 == 1) shmem_ctx_long_put_nbi(ctx, &words[PUTS], &value, 1, next_pe());
        shmem_ctx_long_atomic_inc(ctx, &words[PUTS + 1], next_pe());
    }
    shmem_ctx_long_put(ctx, &words[PUTS + 2], &value, 1, next_pe());
    shmem_ctx_fence(ctx);
    shmem_ctx_long_get(ctx, &got, &words[PUTS + 2], 1, next_pe());
    CHECK_EQ(got, value);
    CHECK_EQ(shmem_ctx_long_atomic_fetch_add(ctx, &words[PUTS + 3], 5, next_pe()), 0);
    shmem_ctx_quiet(ctx);
    shmem_sync_all();
    for (int i = 0; i < PUTS; i += 3) CHECK_EQ(words[i], previous_pe() * 100 + i);
    CHECK_EQ(words[PUTS], previous_pe() + 1);
    CHECK_EQ(words[PUTS + 1], PUTS);
    CHECK_EQ(words[PUTS + 2], previous_pe() + 1);
    CHECK_EQ(words[PUTS + 3], 5);
    shmem_sync_all();
}

DATA_CASE(operations_in_a_session, 2, "within a session every operation acts as outside")
{
    long *words = symmetric(64 * sizeof *words);
    shmem_ctx_session_config_t config = {10}; /* fewer than the operations that follow */
    shmem_ctx_t ctx;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    shmem_ctx_t contexts[2] = {ctx, SHMEM_CTX_DEFAULT};
    for (int i = 0; i < 2; i++) {
        shmem_ctx_session_start(contexts[i], SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
        check_operations(contexts[i], words);
        shmem_ctx_session_stop(contexts[i]);
        check_operations(contexts[i], words);
    }
    shmem_ctx_destroy(ctx);
}

DATA_CASE(any_options, 2, "any options and mask may be given, also no configuration")
{
    long *words = symmetric(64 * sizeof *words);
    shmem_ctx_session_config_t config = {SIZE_MAX};
    for (long options = 0; options < 4; options++) {
        shmem_ctx_session_start(SHMEM_CTX_DEFAULT, options, NULL, 0);
        shmem_ctx_session_start(SHMEM_CTX_DEFAULT, options, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
        shmem_ctx_session_start(SHMEM_CTX_DEFAULT, -1, &config, 0);
        check_operations(SHMEM_CTX_DEFAULT, words);
        shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
    }
}

CASE(nested_and_unmatched, 2, "start within a session, stop without one and stop twice are allowed")
{
    long *words = symmetric(64 * sizeof *words);
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
    shmem_ctx_session_start(SHMEM_CTX_DEFAULT, 0, NULL, 0);
    shmem_ctx_session_start(SHMEM_CTX_DEFAULT, SHMEM_CTX_SESSION_BATCH, NULL, 0);
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
    check_operations(SHMEM_CTX_DEFAULT, words);
}

CASE(invalid_context, 2, "start and stop on SHMEM_CTX_INVALID do nothing", .environment = "SHMEM_DEBUG=1",
     .prints_not = "selvedge: PE")
{
    shmem_ctx_session_start(SHMEM_CTX_INVALID, SHMEM_CTX_SESSION_BATCH, NULL, 0);
}

DATA_CASE(barrier_within, 3, "a session on the default context does not delay operations that a barrier completes")
{
    long *words = symmetric(100 * sizeof *words);
    shmem_ctx_session_start(SHMEM_CTX_DEFAULT, SHMEM_CTX_SESSION_BATCH, NULL, 0);
    for (int i = 0; i < 100; i++) shmem_long_p(&words[i], me() * 100 + i, next_pe());
    barrier();
    for (int i = 0; i < 100; i++) CHECK_EQ(words[i], previous_pe() * 100 + i);
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
}

CASE(waits_within, 2, "a session does not hold back a put that a peer waits for")
{
    long *flag = symmetric(sizeof *flag);
    shmem_ctx_session_start(SHMEM_CTX_DEFAULT, SHMEM_CTX_SESSION_BATCH, NULL, 0);
    for (long i = 1; i <= 100; i++) {
        if (me() == i % 2) {
            shmem_long_p(flag, i, next_pe());
            shmem_quiet();
        } else {
            shmem_long_wait_until(flag, SHMEM_CMP_EQ, i);
        }
    }
    shmem_ctx_session_stop(SHMEM_CTX_DEFAULT);
}

CASE(destroyed_within, 2, "a context may be destroyed during its session; operations already issued complete")
{
    long *words = symmetric(100 * sizeof *words);
    shmem_ctx_t ctx;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, NULL, 0);
    for (int i = 0; i < 100; i++) shmem_ctx_long_p(ctx, &words[i], me() * 100 + i, next_pe());
    shmem_ctx_destroy(ctx);
    shmem_sync_all();
    for (int i = 0; i < 100; i++) CHECK_EQ(words[i], previous_pe() * 100 + i);
}

DATA_CASE(random_updates, 4,
          "the session shown in 1.6: many nonblocking xors of a table distributed over the PEs; twice is as before")
{
    enum { TABLE = 64, UPDATES = 500 };
    uint64_t *table = symmetric(TABLE * sizeof *table), was[TABLE];
    shmem_ctx_t ctx;
    CHECK_EQ(shmem_ctx_create(SHMEM_CTX_NOSTORE, &ctx), 0);
    for (int i = 0; i < TABLE; i++) table[i] = was[i] = mix((uint64_t)(me() * TABLE + i));
    barrier();
    for (int twice = 0; twice < 2; twice++) {
        uint64_t state = (uint64_t)me() + 1;
        shmem_ctx_session_config_t config = {UPDATES};
        shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
        for (int i = 0; i < UPDATES; i++) {
            const uint64_t random = random_next(&state);
            shmem_ctx_uint64_atomic_xor(ctx, &table[random % TABLE], random, (int)(random >> 40) % n_pes());
        }
        shmem_ctx_session_stop(ctx);
        shmem_ctx_quiet(ctx);
        shmem_sync_all();
        if (twice == 0) CHECK_OP(memcmp(table, was, sizeof was), !=, 0);
        shmem_sync_all();
    }
    for (int i = 0; i < TABLE; i++) CHECK_EQ(table[i], was[i]);
    shmem_ctx_destroy(ctx);
}

#endif
