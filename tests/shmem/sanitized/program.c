/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program for sanitizers, with a fault of its own by name. Without one nothing is wrong: it puts static data, by four
 * threads if there is a second argument, forks, and keeps pointers to its blocks in symmetric memory only. */
#include <pthread.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, WORDS = 3000, BLOCKS = 2500 };

static long data[WORDS], count;
static char small[13];
static void *volatile kept;
static volatile int one = 1;

static void *work(void *number)
{
    int next = (shmem_my_pe() + 1) % shmem_n_pes();
    shmem_ctx_t context;
    if (shmem_ctx_create(0, &context) != 0)
        return NULL;
    long at = 100 * (long)number, *block = calloc(100, sizeof *block);
    for (int round = 0; round < 50; round++) {
        for (int word = 0; word < 100; word++)
            block[word] = round;
        shmem_ctx_long_put(context, data + at, block, 100, next);
        shmem_ctx_quiet(context);
        shmem_ctx_long_get(context, block, data + at, 100, next);
        shmem_ctx_long_atomic_inc(context, &count, next);
    }
    free(block);
    shmem_ctx_destroy(context);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    int level, status = 1;
    shmem_init_thread(SHMEM_THREAD_MULTIPLE, &level);
    int next = (shmem_my_pe() + 1) % shmem_n_pes();
    pthread_t threads[THREADS];
    int more = argc > 2 ? THREADS : 0;
    work((void *)0);
    for (long number = 0; number < more; number++)
        pthread_create(&threads[number], NULL, work, (void *)number);
    for (int number = 0; number < more; number++)
        pthread_join(threads[number], NULL);
    shmem_barrier_all();
    char *block = malloc(100), *heap = shmem_malloc(200);
    memset(block, 1, 100);
    if (!strcmp(fault, "global"))
        small[sizeof small - 1 + one] = 1;
    else if (!strcmp(fault, "heap"))
        block[99 + one] = 1;
    else if (!strcmp(fault, "put"))
        shmem_putmem(heap, block, 100 + one, next);
    else if (!strcmp(fault, "leak"))
        memset(malloc(1234), one, 1);
    shmem_free(heap);
    free(block);
    void **blocks = shmem_malloc(BLOCKS * sizeof *blocks);
    for (int number = 0; number < BLOCKS; number++)
        blocks[number] = malloc(50);
    kept = malloc(20);
    pid_t child = fork();
    if (child == 0) {
        small[3] = 1;
        if (!strcmp(fault, "child"))
            small[sizeof small - 1 + one] = 1;
        _exit(0);
    }
    waitpid(child, &status, 0);
    shmem_barrier_all();
    int right = status == 0 && small[3] == 0 && count == (more + 1) * 50;
    shmem_finalize();
    return !right;
}
