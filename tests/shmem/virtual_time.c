/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Cost of communication in the time of a simulated machine: each PE has its own node, and every operation on a peer crosses
 * the network, although all processes are on one computer.
 */
#include "suite.h"

#include <time.h>

/* LATENCY_NS: no fabric of machines/ has a lower latency, from the call to completion at the peer. MEBIBYTE_NS: none moves
 * 1 MiB faster. */
enum { LATENCY_NS = 300, MEBIBYTE_NS = 5000, MEBIBYTE = 1 << 20, ROUNDS = 10 };

static long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void takes_at_least(const char *what, long long began_ns, long long least_ns)
{
    about("%s", what);
    long long took_ns = now_ns() - began_ns;
    if (took_ns < least_ns) FAIL("took %lld ns of virtual time, wanted at least %lld", took_ns, least_ns);
}

#define TAKES(least_ns, what)                         \
    do {                                              \
        long long began_ns = now_ns();                \
        what;                                         \
        takes_at_least(#what, began_ns, (least_ns));  \
    } while (0)

CASE(no_peer_is_in_place, 2, "shmem_ptr: peers on other nodes share no memory", .needs = VIRTUAL_TIME)
{
    long *word = symmetric(sizeof *word);
    CHECK_OP(shmem_ptr(word, next_pe()), ==, NULL);
    CHECK_PTR(shmem_ptr(word, me()), word);
}

DATA_CASE(communication_takes_time, 2, "each operation on a peer takes at least the network's time",
          .needs = VIRTUAL_TIME)
{
    long *word = symmetric(sizeof *word);
    if (me() == 0)
        for (int round = 0; round < ROUNDS; round++) {
            TAKES(LATENCY_NS, (shmem_long_p(word, round, 1), shmem_quiet()));
            TAKES(LATENCY_NS, shmem_long_g(word, 1));
            TAKES(LATENCY_NS, (shmem_long_atomic_add(word, 1, 1), shmem_quiet()));
            TAKES(LATENCY_NS, shmem_long_atomic_fetch_inc(word, 1));
            TAKES(LATENCY_NS, shmem_long_atomic_swap(word, round, 1));
        }
}

CASE(many_bytes_take_more_time, 2, "a mebibyte takes the time that a link needs for it", .needs = VIRTUAL_TIME)
{
    char *there = symmetric(MEBIBYTE), *here = local(MEBIBYTE);
    if (me() == 0) {
        TAKES(MEBIBYTE_NS, (shmem_putmem(there, here, MEBIBYTE, 1), shmem_quiet()));
        TAKES(MEBIBYTE_NS, shmem_getmem(here, there, MEBIBYTE, 1));
    }
}

CASE(waiting_takes_time, 3,
     "a barrier, a collective, and a word that a peer puts with a barrier arrive no sooner than the network allows",
     .needs = VIRTUAL_TIME)
{
    long *flag = symmetric(sizeof *flag), *all = symmetric(3 * sizeof *all);
    for (int round = 1; round <= ROUNDS; round++) {
        TAKES(LATENCY_NS, shmem_barrier_all());
        TAKES(LATENCY_NS, shmem_long_fcollect(SHMEM_TEAM_WORLD, all, flag, 1));
        shmem_long_p(flag, round, next_pe());
        TAKES(LATENCY_NS, (shmem_long_wait_until(flag, SHMEM_CMP_EQ, round), shmem_barrier_all()));
    }
}
