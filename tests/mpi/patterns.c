// SPDX-License-Identifier: Apache-2.0 OR MIT
// Rings, all-to-alls and reductions that check every value, over and over: traffic for a fabric whose links fail.
//
// usage: patterns [ring|alltoall|allreduce|all] [ITERATIONS] [BYTES]

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, ranks;

static uint32_t value(int from, int to, int round, int at) {
    return (uint32_t)from * 2654435761u ^ (uint32_t)to * 40503u ^ (uint32_t)round * 97u ^ (uint32_t)at;
}

static void wrong(const char *what, int round, int from) {
    fprintf(stderr, "rank %d: %s %d: a wrong value from rank %d\n", me, what, round, from);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void ring(int round, int words, uint32_t *out, uint32_t *in) {
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    for (int i = 0; i < words; i++) out[i] = value(me, next, round, i);
    MPI_Sendrecv(out, words, MPI_UINT32_T, next, round, in, words, MPI_UINT32_T, before, round, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < words; i++)
        if (in[i] != value(before, me, round, i)) wrong("ring", round, before);
}

static void all_to_all(int round, int words, uint32_t *out, uint32_t *in) {
    for (int to = 0; to < ranks; to++)
        for (int i = 0; i < words; i++) out[to * words + i] = value(me, to, round, i);
    MPI_Alltoall(out, words, MPI_UINT32_T, in, words, MPI_UINT32_T, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < words; i++)
            if (in[from * words + i] != value(from, me, round, i)) wrong("all-to-all", round, from);
}

static void reduce(int round, int words, uint32_t *out, uint32_t *in) {
    for (int i = 0; i < words; i++) out[i] = (uint32_t)(me + round + i);
    MPI_Allreduce(out, in, words, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
    uint32_t all = (uint32_t)(ranks * (ranks - 1) / 2);
    for (int i = 0; i < words; i++)
        if (in[i] != all + (uint32_t)(ranks * (round + i))) wrong("reduction", round, -1);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    int rounds = argc > 2 ? atoi(argv[2]) : 20, words = (argc > 3 ? atoi(argv[3]) : 2048) / 4;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    uint32_t *out = malloc((size_t)ranks * words * 4), *in = malloc((size_t)ranks * words * 4);
    int all = strcmp(what, "all") == 0;
    double began = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        if (all || strcmp(what, "ring") == 0) ring(round, words, out, in);
        if (all || strcmp(what, "alltoall") == 0) all_to_all(round, words, out, in);
        if (all || strcmp(what, "allreduce") == 0) reduce(round, words, out, in);
    }
    double took = MPI_Wtime() - began;
    if (me == 0) printf("%s: %d rounds right, %.3f ms\n", what, rounds, took * 1e3);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
