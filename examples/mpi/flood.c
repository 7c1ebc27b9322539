/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * flood: all other ranks send rank 0 short messages as fast as they can. For one second rank 0 only polls another communicator
 * and receives none of them: more unexpected messages than a transport can keep. Then it receives them all, from any source, and
 * checks that each arrives once and in order.
 *
 *     mpicc -O2 examples/mpi/flood.c -o flood && selvedge mpirun -n 4 ./flood [messages]
 *
 * Ends with an error when a message is missing, duplicated or out of order.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = 100, TAGS = 1000 };

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int all = argc > 1 ? atoi(argv[1]) : 36000, each = size > 1 ? all / (size - 1) : 0;
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    int words[WORDS_MAX] = {0}, wrong = 0;
    if (rank != 0) {
        for (int i = 0; i < each; i++) {
            words[0] = i;
            MPI_Send(words, i % 7 == 0 ? WORDS_MAX : 1, MPI_INT, 0, i % TAGS, MPI_COMM_WORLD);
        }
    } else {
        int there, *next = calloc((size_t)size, sizeof *next);
        for (double until = MPI_Wtime() + 1; MPI_Wtime() < until;)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &there, MPI_STATUS_IGNORE);
        for (int i = 0; i < each * (size - 1) && !wrong; i++) {
            MPI_Status status;
            MPI_Recv(words, WORDS_MAX, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            int wanted = next[status.MPI_SOURCE]++, count;
            MPI_Get_count(&status, MPI_INT, &count);
            wrong = words[0] != wanted || status.MPI_TAG != wanted % TAGS || count != (wanted % 7 == 0 ? WORDS_MAX : 1);
            if (wrong) fprintf(stderr, "from %d: %d, wanted %d\n", status.MPI_SOURCE, words[0], wanted);
        }
        free(next);
        if (!wrong) printf("%d messages from %d ranks: right\n", each * (size - 1), size - 1);
    }
    if (wrong) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_free(&other);
    MPI_Finalize();
    return 0;
}
