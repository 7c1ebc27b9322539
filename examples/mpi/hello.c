/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hello: the smallest complete MPI program. Every rank sends a sentence to the next rank of a ring.
 *
 *     mpicc examples/mpi/hello.c -o hello && selvedge mpirun -n 4 ./hello
 *
 * Ends with an error when a sentence is wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define MAX_BYTES 64

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    char outbox[MAX_BYTES], inbox[MAX_BYTES], expected[MAX_BYTES];
    snprintf(outbox, sizeof outbox, "hello from rank %d of %d", rank, size);
    snprintf(expected, sizeof expected, "hello from rank %d of %d", previous, size);

    MPI_Sendrecv(outbox, MAX_BYTES, MPI_CHAR, next, 0, inbox, MAX_BYTES, MPI_CHAR, previous, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);

    if (strcmp(inbox, expected) != 0) {
        fprintf(stderr, "rank %d received '%s', not '%s'\n", rank, inbox, expected);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    printf("rank %d received: %s\n", rank, inbox);
    MPI_Finalize();
    return 0;
}
