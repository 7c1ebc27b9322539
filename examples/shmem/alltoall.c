/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * alltoall: every PE sends a message to every PE and waits until all have arrived; section 3.2 of "Reducing
 * Synchronization Overhead Through Bundled Communication". Three ways to wait:
 *
 *   barrier      puts, then a barrier: every PE waits for all PEs;
 *   flags        puts, a fence, then each PE's flag is decremented: twice as many messages;
 *   counting     counting puts: the messages themselves count.
 *
 *     selvedge run -n 4 build/examples/shmem/alltoall [rounds [bytes of the largest message]]
 *
 * Prints the bandwidth of one PE by message size. Ends with an error when a byte is wrong.
 *
 * Each PE sends to itself first, then to the next, and so on, so that not all PEs send to the same one at once.
 *
 * Invariant: two flags, and two counters, are used in turn. When a PE has all messages of round k, it resets the flag of
 * that round and begins round k+1. A faster PE may be in round k+1 before that, but not in k+2: for that it needs this
 * PE's message of k+1. So an early message never belongs to the flag that is being reset.
 */
#define _POSIX_C_SOURCE 200809L
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BYTES 65536

enum method { BARRIER, FLAGS, COUNTING, METHODS };
static const char *const names[METHODS] = {"barrier", "flags", "counting"};

static int me, n;
static unsigned char *inbox, *outbox; /* symmetric, a message for each PE */
static int *flags[2];                 /* symmetric, n at first and between rounds */
static long rounds_done;              /* rounds with flags or with counters; selects the one of the next round */
#ifdef SELVEDGE_SHMEM
static shmem_ct_t cts[2];
#endif

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Allocates zeroed memory in cache lines of its own. */
static void *symmetric(size_t bytes)
{
    size_t whole = (bytes + 63) / 64 * 64;
    void *memory = shmem_align(64, whole);
    if (memory == NULL) {
        fprintf(stderr, "no symmetric memory left\n");
        shmem_global_exit(1);
    }
    return memset(memory, 0, whole);
}

static int have(enum method method)
{
#ifdef SELVEDGE_SHMEM
    return method < METHODS;
#else
    return method != COUNTING;
#endif
}

static void exchange(enum method method, size_t bytes)
{
    int turn = (int)(rounds_done % 2), pe = me;
    do {
        unsigned char *to = inbox + (size_t)me * bytes, *from = outbox + (size_t)pe * bytes;
#ifdef SELVEDGE_SHMEM
        if (method == COUNTING)
            shmem_putmem_ct(cts[turn], to, from, bytes, pe);
        else
#endif
            shmem_putmem(to, from, bytes, pe);
        pe = (pe + 1) % n;
    } while (pe != me);

    if (method == BARRIER) {
        shmem_barrier_all();
        return;
    }
    rounds_done++;
    if (method == FLAGS) {
        shmem_fence();
        do {
            shmem_int_atomic_add(flags[turn], -1, pe);
            pe = (pe + 1) % n;
        } while (pe != me);
        shmem_int_wait_until(flags[turn], SHMEM_CMP_EQ, 0);
        *flags[turn] = n;
    }
#ifdef SELVEDGE_SHMEM
    if (method == COUNTING) {
        shmem_ct_wait(cts[turn], n);
        shmem_ct_set(cts[turn], 0);
    }
#endif
}

static unsigned char pattern(int from, int to, int method, size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)from * 7 + (size_t)to * 101 + (size_t)method * 3);
}

static void checked_exchange(enum method method, size_t bytes)
{
    for (int pe = 0; pe < n; pe++)
        for (size_t i = 0; i < bytes; i++)
            outbox[(size_t)pe * bytes + i] = pattern(me, pe, method, i);
    memset(inbox, 0, (size_t)n * bytes);
    shmem_barrier_all();
    exchange(method, bytes);
    for (int pe = 0; pe < n; pe++)
        for (size_t i = 0; i < bytes; i++)
            if (inbox[(size_t)pe * bytes + i] != pattern(pe, me, method, i)) {
                fprintf(stderr, "PE %d, %s: byte %zu of %zu from PE %d is wrong\n", me, names[method], i, bytes, pe);
                shmem_global_exit(1);
            }
    shmem_barrier_all(); /* all PEs have checked before the next messages arrive */
}

/* Returns the bytes a second that one PE sends, messages to itself included. */
static double bandwidth(enum method method, size_t bytes, int rounds)
{
    checked_exchange(method, bytes);
    for (int i = 0; i < rounds / 10; i++)
        exchange(method, bytes);
    shmem_barrier_all();
    double start_s = now_s();
    for (int i = 0; i < rounds; i++)
        exchange(method, bytes);
    double took_s = now_s() - start_s;
    shmem_barrier_all();
    checked_exchange(method, bytes);
    return (double)bytes * n * rounds / took_s;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    long largest = argc > 2 ? atol(argv[2]) : MAX_BYTES;
    shmem_init();
    me = shmem_my_pe();
    n = shmem_n_pes();
    if (rounds < 1 || largest < 8 || largest > MAX_BYTES) {
        fprintf(stderr, "usage: selvedge run -n 4 build/examples/shmem/alltoall [rounds [bytes, 8 to %d]]\n", MAX_BYTES);
        shmem_global_exit(1);
    }
    inbox = symmetric((size_t)n * MAX_BYTES);
    outbox = symmetric((size_t)n * MAX_BYTES);
    for (int i = 0; i < 2; i++) {
        flags[i] = symmetric(sizeof *flags[i]);
        *flags[i] = n;
#ifdef SELVEDGE_SHMEM
        shmem_ct_create(&cts[i]);
#endif
    }
    shmem_barrier_all(); /* every PE's flags are set before the first decrement */

    if (me == 0)
        printf("%d PEs, MB/s that each sends\n%10s %12s %12s %12s %12s\n", n, "bytes", names[BARRIER], names[FLAGS],
               names[COUNTING], "cnt/flags");
    for (size_t bytes = 8; bytes <= (size_t)largest; bytes *= 8) {
        double rate[METHODS];
        for (int method = 0; method < METHODS; method++)
            rate[method] = have((enum method)method) ? bandwidth((enum method)method, bytes, rounds) : 0;
        if (me != 0)
            continue;
        printf("%10zu %12.1f %12.1f", bytes, rate[BARRIER] * 1e-6, rate[FLAGS] * 1e-6);
        if (have(COUNTING))
            printf(" %12.1f %12.2f\n", rate[COUNTING] * 1e-6, rate[COUNTING] / rate[FLAGS]);
        else
            printf(" %12s %12s\n", "-", "-");
    }
    fflush(stdout);
    shmem_barrier_all();
    for (int i = 1; i >= 0; i--) {
#ifdef SELVEDGE_SHMEM
        shmem_ct_free(&cts[i]);
#endif
        shmem_free(flags[i]);
    }
    shmem_free(outbox);
    shmem_free(inbox);
    shmem_finalize();
    return 0;
}
