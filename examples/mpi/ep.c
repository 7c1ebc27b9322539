/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ep: NAS benchmark EP, "embarrassingly parallel". Pairs of random numbers become pairs of Gaussian deviates by the
 * polar method. The ranks communicate only their sums and the number of pairs in each square ring around the origin.
 *
 *     mpicc -O2 examples/mpi/ep.c -o ep -lm && mpirun -n 4 ./ep [S|W]
 *
 * Any number of ranks. Ends with an error when a sum is not the published one.
 */
#include "nas.h"
#include <math.h>

#define RINGS 10

static const struct {
    int log2_pairs;
    double x, y; /* the published sums */
} problems[] = {
    {24, -3.247834652034740e3, -6.958407078382297e3},
    {25, -2.863319731645753e3, -6.320053679109499e3},
};

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int class = nas_class(argc, argv, 1, "ep [S|W]");
    if (class < 0)
        MPI_Abort(MPI_COMM_WORLD, 2);

    long pairs = 1L << problems[class].log2_pairs;
    long first = nas_first(pairs, rank, size), end = nas_first(pairs, rank + 1, size);
    uint64_t generator = nas_skip(271828183, 2 * (uint64_t)first);
    double sums[2] = {0, 0}, began_s = MPI_Wtime();
    long rings[RINGS] = {0};

    for (long i = first; i < end; i++) {
        double x = 2 * nas_random(&generator) - 1, y = 2 * nas_random(&generator) - 1, t = x * x + y * y;
        if (t > 1)
            continue;
        double scale = sqrt(-2 * log(t) / t);
        x *= scale;
        y *= scale;
        rings[(int)fmax(fabs(x), fabs(y))]++;
        sums[0] += x;
        sums[1] += y;
    }
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, rings, RINGS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    double took_s = MPI_Wtime() - began_s;

    int right = nas_near(sums[0], problems[class].x, 1e-8) && nas_near(sums[1], problems[class].y, 1e-8);
    if (rank == 0) {
        long all = 0;
        for (int ring = 0; ring < RINGS; ring++)
            all += rings[ring];
        printf("ep %c, %d ranks: %ld Gaussian pairs, sums %.12e %.12e, %.6f s: %s\n", "SW"[class], size, all, sums[0],
               sums[1], took_s, right ? "verified" : "WRONG");
    }
    MPI_Finalize();
    return right ? 0 : 1;
}
