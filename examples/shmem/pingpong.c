/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * pingpong: the benchmark of "Reducing Synchronization Overhead Through Bundled Communication", section 3.1. Three ways
 * to notify a PE of a message:
 *
 *   fence+flag   put, fence, atomic increment of a flag on which the receiver waits: the only way in OpenSHMEM 1.0;
 *   counting     the put increments a counter at the receiver, which waits on it;
 *   signal       put with signal, new in OpenSHMEM 1.5.
 *
 *     selvedge run -n 2 build/examples/shmem/pingpong [rounds]
 *
 * Prints the median half round trip for each message size. Ends with an error when any byte is wrong.
 */
#define _POSIX_C_SOURCE 200809L
#include <shmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BYTES    (1 << 20)
#define CHECK_ROUNDS 8 /* rounds in which every byte is compared; they also warm up */
#define HAS_SIGNALS  (SHMEM_MAJOR_VERSION > 1 || (SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION >= 5))

enum method { FENCED_FLAG, COUNTING, SIGNAL, METHODS };

static int me, peer;
static unsigned char *inbox, *outbox; /* symmetric, MAX_BYTES each */
static int *flag;                     /* symmetric, 1 when a message has arrived */
static uint64_t *signal_word;         /* symmetric, likewise */
#ifdef SELVEDGE_SHMEM
static shmem_ct_t ct;
#endif

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
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
    if (method == COUNTING)
        return 1;
#endif
    return method == FENCED_FLAG || (method == SIGNAL && HAS_SIGNALS);
}

static void send_message(enum method method, size_t bytes)
{
    if (method == FENCED_FLAG) {
        shmem_putmem(inbox, outbox, bytes, peer);
        shmem_fence();
        shmem_int_atomic_inc(flag, peer);
    }
#ifdef SELVEDGE_SHMEM
    if (method == COUNTING)
        shmem_putmem_ct(ct, inbox, outbox, bytes, peer);
#endif
#if HAS_SIGNALS
    if (method == SIGNAL)
        shmem_putmem_signal(inbox, outbox, bytes, signal_word, 1, SHMEM_SIGNAL_SET, peer);
#endif
}

/* Waits, and resets flag, counter or signal before the answer, so before the peer can send again. */
static void await_message(enum method method)
{
    if (method == FENCED_FLAG) {
        shmem_int_wait_until(flag, SHMEM_CMP_NE, 0);
        *flag = 0;
    }
#ifdef SELVEDGE_SHMEM
    if (method == COUNTING) {
        shmem_ct_wait(ct, 1);
        shmem_ct_set(ct, 0);
    }
#endif
#if HAS_SIGNALS
    if (method == SIGNAL) {
        shmem_signal_wait_until(signal_word, SHMEM_CMP_NE, 0);
        *signal_word = 0;
    }
#endif
}

static unsigned char pattern(int sender, int method, int round, size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + (size_t)round * 7 + (size_t)method * 3 + (size_t)sender * 101);
}

static void checked_send(enum method method, size_t bytes, int round)
{
    for (size_t i = 0; i < bytes; i++)
        outbox[i] = pattern(me, method, round, i);
    send_message(method, bytes);
}

/* One message each way with every byte compared. */
static void checked_round(enum method method, size_t bytes, int round)
{
    if (me == 0)
        checked_send(method, bytes, round);
    await_message(method);
    for (size_t i = 0; i < bytes; i++)
        if (inbox[i] != pattern(peer, method, round, i)) {
            fprintf(stderr, "PE %d: byte %zu of %zu is wrong\n", me, i, bytes);
            shmem_global_exit(1);
        }
    if (me == 1)
        checked_send(method, bytes, round);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median half round trip in microseconds; meaningful at PE 0. */
static double ping_pong(enum method method, size_t bytes, int rounds, double *half_us)
{
    for (int round = 0; round < CHECK_ROUNDS; round++)
        checked_round(method, bytes, round);
    for (int round = 0; round < rounds; round++) {
        double start_us = now_us();
        if (me == 0)
            send_message(method, bytes);
        await_message(method);
        if (me == 1)
            send_message(method, bytes);
        half_us[round] = (now_us() - start_us) / 2;
    }
    qsort(half_us, (size_t)rounds, sizeof *half_us, by_value);
    return half_us[rounds / 2];
}

static void run_sizes(int rounds)
{
    double *half_us = calloc((size_t)rounds, sizeof *half_us);
    if (half_us == NULL) {
        fprintf(stderr, "out of memory\n");
        shmem_global_exit(1);
    }
    if (me == 0)
        printf("median half round trip, microseconds\n%10s %12s %12s %12s %14s\n", "bytes", "fence+flag", "counting",
               "signal", "fence+flag/cnt");
    for (size_t bytes = 8; bytes <= MAX_BYTES; bytes *= 8) {
        int n = bytes > 65536 ? (rounds + 9) / 10 : rounds;
        double us[METHODS];
        for (int method = 0; method < METHODS; method++)
            us[method] = have((enum method)method) ? ping_pong((enum method)method, bytes, n, half_us) : 0;
        if (me != 0)
            continue;
        printf("%10zu", bytes);
        for (int method = 0; method < METHODS; method++)
            if (have((enum method)method))
                printf(" %12.2f", us[method]);
            else
                printf(" %12s", "-");
        if (have(COUNTING))
            printf(" %14.2f\n", us[FENCED_FLAG] / us[COUNTING]);
        else
            printf(" %14s\n", "-");
    }
    free(half_us);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    shmem_init();
    me = shmem_my_pe();
    peer = 1 - me;
    if (shmem_n_pes() < 2 || rounds < 1) {
        if (me == 0)
            fprintf(stderr, "usage: selvedge run -n 2 build/examples/shmem/pingpong [rounds]\n");
        shmem_global_exit(1);
    }
    inbox = symmetric(MAX_BYTES);
    outbox = symmetric(MAX_BYTES);
    flag = symmetric(sizeof *flag);
    signal_word = symmetric(sizeof *signal_word);
#ifdef SELVEDGE_SHMEM
    shmem_ct_create(&ct);
#endif
    shmem_barrier_all(); /* every PE's memory is zero before the first put */
    if (me < 2)
        run_sizes(rounds);
    fflush(stdout);
    shmem_barrier_all();
#ifdef SELVEDGE_SHMEM
    shmem_ct_free(&ct);
#endif
    shmem_free(signal_word);
    shmem_free(flag);
    shmem_free(outbox);
    shmem_free(inbox);
    shmem_finalize();
    return 0;
}
