/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program whose region "main" has 3 messages of 8 bytes from each rank to the next, and nothing else: MPI_Pcontrol
 * begins and ends it. A profiler's MPI_Pcontrol in the program would come first; here the MPI's is called.
 */
#include <mpi.h>
#include <stdio.h>

static int exchange(int rank, int size, int times)
{
    for (int i = 0; i < times; i++) {
        double out = rank + i, in = -1;
        MPI_Request request;

        MPI_Irecv(&in, 1, MPI_DOUBLE, (rank + size - 1) % size, 7, MPI_COMM_WORLD, &request);
        MPI_Send(&out, 1, MPI_DOUBLE, (rank + 1) % size, 7, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (in != (rank + size - 1) % size + i)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int rank, size, wrong;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Pcontrol(0); /* not in the region: changes nothing */
    wrong = exchange(rank, size, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1, "a further argument");
    MPI_Pcontrol(1); /* in it already */
    wrong += exchange(rank, size, 3);
    MPI_Pcontrol(0);
    MPI_Pcontrol(2); /* a profiler's own level */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && !wrong)
        puts("right");
    MPI_Finalize();
    return wrong;
}
