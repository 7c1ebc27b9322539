/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * alltoall SECONDS BYTES: one rank of the MPI jobs of `fabric-faults.sh`. Checked MPI_Alltoall, one after the other, for this time. The rank
 * says when it runs, how long MPI_Init and the first operation took, which connect, and at the end how long the longest one after it took.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned char pattern(int from, int to, unsigned round, int i)
{
    return (unsigned char)((unsigned)i * 31 + (unsigned)from * 101 + (unsigned)to * 13 + round * 7);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    int rank, size, bytes = argc > 2 ? atoi(argv[2]) : 0;
    double seconds = argc > 1 ? atof(argv[1]) : 0, longest_s = 0, began_s, start_s;
    unsigned round = 0;
    start_s = now_s();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (bytes < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    unsigned char *out = malloc((size_t)size * (size_t)bytes), *in = malloc((size_t)size * (size_t)bytes);
    began_s = MPI_Wtime();
    /* The first byte from rank 0 says whether another round follows. */
    do {
        double before_s = MPI_Wtime();
        for (int to = 0; to < size; to++) {
            for (int i = 1; i < bytes; i++)
                out[to * bytes + i] = pattern(rank, to, round, i);
            out[to * bytes] = before_s - began_s < seconds;
        }
        MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        double took_s = MPI_Wtime() - before_s;
        if (round == 0) {
            printf("rank %d runs: connected in %.2f s\n", rank, now_s() - start_s);
            fflush(stdout);
        } else if (took_s > longest_s) {
            longest_s = took_s;
        }
        for (int from = 0; from < size; from++)
            for (int i = 1; i < bytes; i++)
                if (in[from * bytes + i] != pattern(from, rank, round, i)) {
                    printf("rank %d: round %u: byte %d from rank %d is wrong\n", rank, round, i, from);
                    fflush(stdout);
                    MPI_Abort(MPI_COMM_WORLD, 1);
                }
        round++;
    } while (in[0]);
    printf("rank %d: right, %u operations, longest pause %.2f s\n", rank, round, longest_s);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
