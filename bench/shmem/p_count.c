/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * p_instructions: the number of instructions of one shmem_long_p, from the call to after its return. It is run under
 * `valgrind --tool=callgrind`. The instructions that callgrind counts in burst_p and burst_return, callees included, give
 * the figure:
 *
 *     (burst_p - burst_return) / CALLS + 2
 *
 * PE 0 makes CALLS calls, then as many with the same arguments to a function that only returns. So loading the arguments
 * cancels out, and the 2 are the call and the return of the empty function. The target is the other PE. It first reports that
 * it has left the library, and then polls its memory: a PE that sleeps inside the library would have to be woken.
 *
 * Invariant: the last word put is checked.
 */
#define _GNU_SOURCE
#include "pe.h"

#include <time.h>

#define CALLS 256 /* the number of calls that FOUR makes; the reader of the profile divides by it */
#define FOUR(x) x x x x
#define LAST 4711
#define NAP_NS 200000

/* noipa: a caller must not learn which registers the function leaves unchanged. */
__attribute__((noipa)) static void only_return(long *dest, long value, int pe)
{
    __asm__ volatile("" : : "r"(dest), "r"(value), "r"(pe));
}

__attribute__((noipa)) static void burst_p(long *dest, long value, int pe)
{
    FOUR(FOUR(FOUR(FOUR(shmem_long_p(dest, value, pe);))))
}

__attribute__((noipa)) static void burst_return(long *dest, long value, int pe)
{
    FOUR(FOUR(FOUR(FOUR(only_return(dest, value, pe);))))
}

static void await(const long *word, long value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

int main(int argc, char **argv)
{
    pe_start(argc, argv);
    if (shmem_n_pes() != 2)
        die("needs two PEs, has %d", shmem_n_pes());
    long *ready = symmetric_alloc(sizeof *ready), *word = symmetric_alloc(sizeof *word);
    long *done = symmetric_alloc(sizeof *done);
    if (shmem_my_pe() == 0) {
        await(ready, 1);
        for (int i = 0; i < CALLS; i++)
            shmem_long_p(word, i, 1); /* the work of the first call, such as binding the symbol */
        burst_p(word, LAST, 1);
        burst_return(word, LAST, 1);
        shmem_fence();
        shmem_long_p(done, 1, 1);
    } else {
        shmem_long_p(ready, 1, 0);
        await(done, 1);
        if (*word != LAST)
            die("the word is %ld", *word);
    }
    shmem_barrier_all();
    shmem_free(done);
    shmem_free(word);
    shmem_free(ready);
    pe_end();
}
