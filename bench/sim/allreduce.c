// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// allreduce [COUNT]: COUNT allreduces of one double, each verified. For simulators of MPI: `selvedge bench sim` compares
// the real time that they take. Prints "COUNT allreduces, S us each" in the time of the simulated machine.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, wrong = 0;
    const int count = argc > 1 ? atoi(argv[1]) : 1000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const double start = MPI_Wtime();
    for (int round = 0; round < count; round++) {
        double value = rank + round, sum;
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        wrong += sum != size * (size - 1) / 2.0 + (double)size * round;
    }
    if (rank == 0)
        printf("%d allreduces, %.3f us each\n", count, (MPI_Wtime() - start) * 1e6 / count);
    MPI_Finalize();
    return wrong != 0;
}
