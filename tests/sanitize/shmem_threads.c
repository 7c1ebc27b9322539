/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Eight threads of each PE with SHMEM_THREAD_MULTIPLE, for ThreadSanitizer: each uses its own context, and all of them the default one, for
 * puts, gets, atomic operations, signals and waits.
 *
 * Symmetric objects are in the heap: static data can be moved only while there is one thread, and ThreadSanitizer starts its own before
 * the program begins.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "shmem.h"

enum { THREADS = 8, ROUNDS = 100, WORDS = 600 };

static long *inbox, *sum, *flags;
static uint64_t *signals;
static int me, other;

static void fail(const char *what, int number)
{
    fprintf(stderr, "PE %d, thread %d: %s\n", me, number, what);
    shmem_global_exit(1);
}

static void *works(void *argument)
{
    int number = (int)(intptr_t)argument;
    shmem_ctx_t own;
    if (shmem_ctx_create(0, &own) != 0) fail("no context", number);
    long *out = malloc(WORDS * sizeof(long)), *mine = inbox + (long)number * WORDS;
    for (int round = 1; round <= ROUNDS; round++) {
        shmem_ctx_t ctx = round % 2 ? own : SHMEM_CTX_DEFAULT;
        int words = round % 4 == 0 ? WORDS : 4;
        for (int i = 0; i < words; i++) out[i] = (long)me * 1000000 + round * 1000 + i % 1000;
        shmem_ctx_long_put_signal(ctx, mine, out, (size_t)words, &signals[number], 1, SHMEM_SIGNAL_ADD, other);
        shmem_ctx_long_atomic_add(ctx, sum, 1, other);
        if (shmem_ctx_long_atomic_fetch(ctx, sum, other) < round) fail("the sum is too small", number);
        shmem_ctx_quiet(ctx);
        shmem_signal_wait_until(&signals[number], SHMEM_CMP_GE, (uint64_t)round);
        if (mine[words - 1] / 1000000 != other) fail("data of another", number);
        shmem_ctx_long_get(ctx, out, mine, (size_t)words, other);
        /* The peer's thread of this number may continue. */
        shmem_ctx_long_p(ctx, &flags[number], round, other);
        shmem_ctx_quiet(ctx);
        shmem_long_wait_until(&flags[number], SHMEM_CMP_GE, round);
    }
    free(out);
    shmem_ctx_destroy(own);
    return NULL;
}

int main(void)
{
    int provided;
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0 || provided != SHMEM_THREAD_MULTIPLE) return 1;
    me = shmem_my_pe();
    other = (me + 1) % shmem_n_pes();
    inbox = shmem_calloc((size_t)THREADS * WORDS, sizeof(long));
    sum = shmem_calloc(1, sizeof(long));
    flags = shmem_calloc(THREADS, sizeof(long));
    signals = shmem_calloc(THREADS, sizeof(uint64_t));
    shmem_barrier_all();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, works, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    shmem_barrier_all();
    if (*sum != (long)THREADS * ROUNDS) fail("a wrong sum", -1);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
