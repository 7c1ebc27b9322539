/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * p_instructions: how many instructions one shmem_long_p takes, from the call to behind its return. It is run under
 * `valgrind --tool=callgrind`; what is written there of burst_p and burst_return, callees included, gives the figure:
 *
 *     (burst_p - burst_return) / CALLS + 2
 *
 * PE 0 makes CALLS calls, then as many with the same arguments to a function that only returns. So loading the arguments
 * cancels out, and the 2 are the call and the return of the empty function. The target is the other PE, which first says that
 * it has left the library, and then looks at its memory: one that slept inside it would have to be woken.
 *
 * Invariant: the last word put is checked.
 */
#define _GNU_SOURCE
#include "pe.h"

#include <time.h>

#define CALLS 256 /* what FOUR makes, and what the reader of the profile divides by */
#define FOUR(x) x x x x
#define LAST 4711
#define NAP_NS 200000

/* noipa: a caller must not learn which registers it leaves alone. */
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
        die("two PEs wanted, not %d", shmem_n_pes());
    long *ready = symmetric_alloc(sizeof *ready), *word = symmetric_alloc(sizeof *word);
    long *done = symmetric_alloc(sizeof *done);
    if (shmem_my_pe() == 0) {
        await(ready, 1);
        for (int i = 0; i < CALLS; i++)
            shmem_long_p(word, i, 1); /* whatever the first call does, such as binding the symbol */
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
