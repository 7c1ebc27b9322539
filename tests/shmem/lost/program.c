/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * losses: the last PE ends early, or is cut off from outside; the others wait in one of the calls that wait. Each must end
 * itself with the name of the lost PE. OpenSHMEM 1.6, "Execution Model": a PE that ends without shmem_finalize does not end
 * the others. ../outside.rs and ../../hosts/run.sh run it.
 *
 * usage: losses CALL END
 *
 * END: `kill`, `fail` and `exit` end the last PE; with `compute` it computes; with `wait` it waits as the others do.
 * CALL `none`: the other PEs do not wait, and go on for four seconds.
 */
#include <shmem.h>
#include <shmemx.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ELEMENTS = 64, PES_MAX = 64 };

static int last;
static long *words, *results, *word;
static uint64_t *flag;

static void barrier_all(void) { shmem_barrier_all(); }
static void sync_all(void) { shmem_sync_all(); }
static void team_sync(void) { shmem_team_sync(SHMEM_TEAM_WORLD); }
static void reduce(void) { shmem_long_sum_reduce(SHMEM_TEAM_WORLD, results, words, ELEMENTS); }
static void broadcast(void) { shmem_long_broadcast(SHMEM_TEAM_WORLD, results, words, ELEMENTS, last); }
static void collect(void) { shmem_long_fcollect(SHMEM_TEAM_WORLD, results, words, 1); }
static void alltoall(void) { shmem_long_alltoall(SHMEM_TEAM_WORLD, results, words, 1); }
static void wait_until(void) { shmem_long_wait_until(word, SHMEM_CMP_EQ, 1); }
static void wait_any(void) { shmem_long_wait_until_any(words, ELEMENTS, NULL, SHMEM_CMP_EQ, -1); }
static void signal_wait(void) { shmem_signal_wait_until(flag, SHMEM_CMP_EQ, 1); }
static void allocate(void) { shmem_malloc(1000); }

/* The last PE has the lock. */
static void lock(void) { shmem_set_lock(word); }

/* Operations to the last PE, each with a wait for its end. */
static void quiet(void)
{
    for (;;) {
        shmem_long_p(word, 5, last);
        shmem_quiet();
    }
}

static void get(void)
{
    for (;;) shmem_long_g(word, last);
}

static void atomic(void)
{
    for (;;) shmem_long_atomic_fetch_inc(word, last);
}

static const struct {
    const char *name;
    void (*wait)(void);
} calls[] = {
    {"barrier_all", barrier_all}, {"sync_all", sync_all},       {"team_sync", team_sync},   {"reduce", reduce},
    {"broadcast", broadcast},     {"collect", collect},         {"alltoall", alltoall},     {"wait_until", wait_until},
    {"wait_any", wait_any},       {"signal_wait", signal_wait}, {"malloc", allocate},       {"lock", lock},
    {"quiet", quiet},             {"get", get},                 {"atomic", atomic},         {"finalize", shmem_finalize},
};

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    const char *call = argv[1], *end = argv[2];
    void (*wait)(void) = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (!strcmp(calls[i].name, call)) wait = calls[i].wait;
    if (!wait && strcmp(call, "none")) return 2;

    shmem_init();
    int me = shmem_my_pe();
    last = shmem_n_pes() - 1;
    words = shmem_calloc(ELEMENTS, sizeof *words);
    results = shmem_calloc(ELEMENTS * PES_MAX, sizeof *results);
    word = shmem_calloc(1, sizeof *word);
    flag = shmem_calloc(1, sizeof *flag);
    shmem_barrier_all();
    if (me == last && wait == lock) shmem_set_lock(word);
    shmem_barrier_all();
    printf("PE %d, process %d, runs\n", me, (int)getpid());
    fflush(stdout);

    if (me == last && strcmp(end, "wait")) {
        if (!strcmp(end, "kill")) raise(SIGKILL);
        if (!strcmp(end, "fail")) exit(3);
        if (!strcmp(end, "exit")) exit(0);
        if (strcmp(end, "compute")) return 2;
        sleep(1000);
    }
    if (!wait) {
        sleep(4);
        printf("PE %d went on\n", me);
        fflush(stdout);
        _exit(0);
    }
    wait();
    printf("PE %d did not wait\n", me);
    return 9;
}
