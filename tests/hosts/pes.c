/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * pes: one PE of the jobs of `run.sh`. Every PE stores to every other: by a put, by an atomic, and through shmem_ptr if it returns an
 * address. Each then checks the stores of all, and that a pointer to another PE's memory works.
 *
 * usage: pes [FILE]: waits until the file is there before the first communication
 */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PES_MAX = 8, WORDS = 3000 };

static long word_of(int from, int to, long i) { return from * 1000003L + to * 10007L + i; }

int main(int argc, char **argv)
{
    shmem_init();
    while (argc > 1 && access(argv[1], F_OK))
        usleep(10000);
    int me = shmem_my_pe(), pes = shmem_n_pes(), wrong = 0, reached = 0;
    if (pes > PES_MAX)
        return 2;
    long *put = shmem_calloc((size_t)PES_MAX * WORDS, sizeof *put), *stored = shmem_calloc(2 * PES_MAX, sizeof *stored);
    long *sum = shmem_calloc(1, sizeof *sum), *own = malloc(WORDS * sizeof *own);
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++) {
        for (long i = 0; i < WORDS; i++)
            own[i] = word_of(me, pe, i);
        shmem_long_put(put + (size_t)me * WORDS, own, WORDS, pe);
        shmem_long_atomic_add(sum, me + 1, pe);
        long *there = shmem_ptr(stored, pe);
        if (there) {
            there[me] = word_of(me, pe, -1);
            reached++;
        }
        /* Sends whether this PE has stored there. */
        shmem_long_put(stored + PES_MAX + me, &(long){there ? 1 : 2}, 1, pe);
    }
    shmem_barrier_all();
    for (int pe = 0; pe < pes; pe++) {
        for (long i = 0; i < WORDS; i++)
            wrong += put[(size_t)pe * WORDS + i] != word_of(pe, me, i);
        long said = stored[PES_MAX + pe];
        wrong += said != 1 && said != 2;
        wrong += stored[pe] != (said == 1 ? word_of(pe, me, -1) : 0);
    }
    wrong += *sum != pes * (pes + 1L) / 2;
    printf("PE %d: %s, shmem_ptr reaches %d of %d\n", me, wrong ? "wrong" : "right", reached, pes);
    fflush(stdout);
    shmem_finalize();
    return wrong != 0;
}
