/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spawn: every rank spawns one process, on any host of the launcher's choice, and checks the bytes that it sends. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 300000 };

static unsigned char byte_of(int i) { return (unsigned char)(i * 31 + i / 251); }

int main(int argc, char **argv)
{
    MPI_Comm parent, child;
    int rank, code, wrong = 0;
    unsigned char *bytes = malloc(BYTES);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, &code);
        MPI_Recv(bytes, BYTES, MPI_BYTE, 0, 7, child, MPI_STATUS_IGNORE);
        for (int i = 0; i < BYTES; i++)
            wrong += bytes[i] != byte_of(i);
        printf("rank %d: %s\n", rank, wrong ? "wrong" : "right");
        MPI_Comm_disconnect(&child);
    } else {
        for (int i = 0; i < BYTES; i++)
            bytes[i] = byte_of(i);
        MPI_Send(bytes, BYTES, MPI_BYTE, 0, 7, parent);
        MPI_Comm_disconnect(&parent);
    }
    MPI_Finalize();
    free(bytes);
    return wrong != 0;
}
