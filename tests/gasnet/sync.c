/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Barriers, locks, sections without interrupts, threads, segments, handler tables, the end of a job. */
#include "suite.h"

#include <pthread.h>

enum { ADD = 200, ADDED, THREADS = 4 };

static volatile int total, answered;
static gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;

static void add(gasnet_token_t token, gasnet_handlerarg_t value)
{
    gasnet_hsl_lock(&lock);
    total += value;
    gasnet_hsl_unlock(&lock);
    OK(gasnet_AMReplyShort0(token, ADDED));
}

static void added(gasnet_token_t token)
{
    (void)token;
    gasnet_hsl_lock(&lock);
    answered++;
    gasnet_hsl_unlock(&lock);
}

HANDLERS({ADD, add}, {ADDED, added})

CASE(barriers, 5, "no node leaves a barrier before all have entered", .crowded = 9)
{
    for (int round = 1; round <= 20; round++) {
        if (round % ranks() == rank()) sleep_ms(2);
        for (int to = 0; to < ranks(); to++) OK(gasnet_AMRequestShort1((gasnet_node_t)to, ADD, 1));
        WAIT_FOR(answered == round * ranks());
        barrier();
        /* Every node entered after its requests of this round were answered. */
        CHECK_OP(total, >=, round * ranks());
        barrier();
    }
    CHECK_EQ(total, 20 * ranks());
}

CASE(names, 3, "a barrier whose callers give different names reports it to all, and the next one works")
{
    gasnet_barrier_notify(5, 0);
    OK(gasnet_barrier_wait(5, 0));
    gasnet_barrier_notify(rank() == 1, 0);
    CHECK_EQ(gasnet_barrier_wait(rank() == 1, 0), GASNET_ERR_BARRIER_MISMATCH);
    gasnet_barrier_notify(9, rank() == 1 ? GASNET_BARRIERFLAG_ANONYMOUS : 0);
    OK(gasnet_barrier_wait(9, rank() == 1 ? GASNET_BARRIERFLAG_ANONYMOUS : 0));
    gasnet_barrier_notify(9, rank() == 2 ? GASNET_BARRIERFLAG_MISMATCH : 0);
    CHECK_EQ(gasnet_barrier_wait(9, rank() == 2 ? GASNET_BARRIERFLAG_MISMATCH : 0), GASNET_ERR_BARRIER_MISMATCH);
    gasnet_barrier_notify(3, 0);
    CHECK_EQ(gasnet_barrier_wait(4, 0), GASNET_ERR_BARRIER_MISMATCH);
}

CASE(try_a_barrier, 2, "gasnet_barrier_try reports that a node has not entered yet, and later ends the barrier")
{
    if (rank() == 0) {
        gasnet_barrier_notify(1, 0);
        CHECK_EQ(gasnet_barrier_try(1, 0), GASNET_ERR_NOT_READY);
        OK(gasnet_AMRequestShort1(1, ADD, 1));
        int code;
        WAIT_FOR((code = gasnet_barrier_try(1, 0)) != GASNET_ERR_NOT_READY);
        CHECK_EQ(code, GASNET_OK);
    } else {
        WAIT_FOR(total == 1);
        gasnet_barrier_notify(1, 0);
        OK(gasnet_barrier_wait(1, 0));
    }
}

static void *hold(void *unused)
{
    CHECK_EQ(gasnet_hsl_trylock(&lock), GASNET_ERR_NOT_READY);
    return unused;
}

CASE(locks, 1, "gasnet_hsl_trylock fails on a lock that another thread holds")
{
    pthread_t thread;
    gasnet_hsl_t own;
    gasnet_hsl_lock(&lock);
    CHECK_EQ(pthread_create(&thread, NULL, hold, NULL), 0);
    pthread_join(thread, NULL);
    gasnet_hsl_unlock(&lock);
    gasnet_hsl_init(&own);
    OK(gasnet_hsl_trylock(&own));
    gasnet_hsl_unlock(&own);
    gasnet_hsl_destroy(&own);
    gasnet_hold_interrupts();
    gasnet_resume_interrupts();
    OK(gasnet_AMPoll());
}

static void *send_many(void *unused)
{
    for (int i = 0; i < 250; i++) OK(gasnet_AMRequestShort1((gasnet_node_t)((rank() + i) % ranks()), ADD, 1));
    return unused;
}

CASE(threads, 3, "several threads of a node send and poll at once", .needs = "threads")
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, send_many, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    WAIT_FOR(answered == 250 * THREADS);
    barrier();
    CHECK_EQ(total > 0, 1);
}

CASE(wait_modes, 2, "messages arrive in every mode of waiting")
{
    for (int mode = GASNET_WAIT_SPIN; mode <= GASNET_WAIT_SPINBLOCK; mode++) {
        OK(gasnet_set_waitmode(mode));
        for (int i = 0; i < 20; i++) {
            OK(gasnet_AMRequestShort1((gasnet_node_t)!rank(), ADD, 1));
            WAIT_FOR(answered == mode * 20 + i + 1);
        }
    }
    REFUSED(gasnet_set_waitmode(3), GASNET_ERR_BAD_ARG);
    barrier();
}

CASE(segments, 3, "segments have the requested size, are zero and page-aligned, and all nodes know them")
{
    gasnet_seginfo_t few[2] = {{NULL, 0}, {NULL, 0}};
    CHECK_BYTES(MINE, SEGMENT, 0);
    CHECK_EQ((uintptr_t)MINE % GASNET_PAGESIZE, 0);
    OK(gasnet_getSegmentInfo(few, 1));
    CHECK_PTR(few[0].addr, segment(0));
    CHECK_EQ(few[0].size, SEGMENT);
    CHECK(few[1].addr == NULL);
    CHECK_OP(gasnet_getMaxGlobalSegmentSize(), <=, gasnet_getMaxLocalSegmentSize());
    CHECK_OP(gasnet_getMaxGlobalSegmentSize(), >=, (uintptr_t)SEGMENT);
    CHECK_EQ(gasnet_getMaxLocalSegmentSize() % GASNET_PAGESIZE, 0);
}

CASE(no_segment, 2,
     "a node may attach no segment, and its neighbour one; handlers without a number get one", .flags = RAW)
{
    gasnet_handlerentry_t table[] = {{0, added}, {129, add}, {0, add}};
    gasnet_seginfo_t info[2];
    OK(gasnet_init(NULL, NULL));
    OK(gasnet_attach(table, 3, rank() == 0 ? 0 : GASNET_PAGESIZE, 0));
    CHECK_EQ(table[0].index, 128);
    CHECK_EQ(table[2].index, 130);
    OK(gasnet_getSegmentInfo(info, 2));
    CHECK(info[0].addr == NULL && info[0].size == 0);
    CHECK_EQ(info[1].size, GASNET_PAGESIZE);
    if (rank() == 1) REFUSED(gasnet_AMRequestLong0(0, 129, (void *)&total, 4, info[1].addr), GASNET_ERR_BAD_ARG);
    barrier();
    gasnet_exit(0);
}

CASE(the_codes, 1, "every error code has its name and a text")
{
    CHECK_TEXT(gasnet_ErrorName(GASNET_OK), "GASNET_OK");
    CHECK_TEXT(gasnet_ErrorName(GASNET_ERR_NOT_INIT), "GASNET_ERR_NOT_INIT");
    CHECK_TEXT(gasnet_ErrorName(GASNET_ERR_RESOURCE), "GASNET_ERR_RESOURCE");
    CHECK_TEXT(gasnet_ErrorName(GASNET_ERR_BAD_ARG), "GASNET_ERR_BAD_ARG");
    CHECK_TEXT(gasnet_ErrorName(GASNET_ERR_NOT_READY), "GASNET_ERR_NOT_READY");
    CHECK_TEXT(gasnet_ErrorName(GASNET_ERR_BARRIER_MISMATCH), "GASNET_ERR_BARRIER_MISMATCH");
    CHECK(strlen(gasnet_ErrorDesc(GASNET_ERR_NOT_READY)) > 0);
    CHECK(strcmp(gasnet_ErrorDesc(GASNET_ERR_NOT_READY), gasnet_ErrorDesc(GASNET_ERR_RESOURCE)) != 0);
}

CASE(the_environment, 2, "gasnet_getenv finds a variable of the job", .environment = "GASNET_SUITE=seven")
{
    CHECK(gasnet_getenv("GASNET_SUITE") != NULL);
    CHECK_TEXT(gasnet_getenv("GASNET_SUITE"), "seven");
    CHECK(gasnet_getenv("GASNET_NO_SUCH") == NULL);
}

CASE(one_ends_all, 3, "gasnet_exit of one node ends all, with its status", .status = 7, .flags = RAW)
{
    OK(gasnet_init(NULL, NULL));
    OK(gasnet_attach(handlers, handlers_count, SEGMENT, 0));
    if (rank() == 1) gasnet_exit(7);
    GASNET_BLOCKUNTIL(0);
}
