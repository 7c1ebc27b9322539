/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program for sanitizers, with two ranks and a fault of its own by name:
 *
 *     sanitized                  nothing is wrong: messages of static data and blocks
 *     sanitized threads          the same by four threads, if the MPI allows it
 *     sanitized heap|global      a store behind a block of malloc, behind a static variable
 *     sanitized child            programs that it starts do not load the runtime of its sanitizer
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 20, LONG_BYTES = 50000 };

static char data[LONG_BYTES], small[13];
static int rank, ranks, wrong;
static volatile int one = 1;

static void exchange(char *from, char *to, int bytes, int tag)
{
    for (int round = 0; round < ROUNDS; round++) {
        memset(from, round + rank, bytes);
        MPI_Sendrecv(from, bytes, MPI_BYTE, 1 - rank, tag, to, bytes, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (to[0] != (char)(round + 1 - rank) || to[bytes - 1] != to[0])
            __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
    }
}

static void *work(void *number)
{
    int tag = (int)(long)number, bytes = tag % 2 ? LONG_BYTES : 100;
    char *from = malloc(bytes), *to = malloc(bytes);
    exchange(from, to, bytes, tag);
    free(from);
    free(to);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *fault = argc > 1 ? argv[1] : "";
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    char *block = malloc(LONG_BYTES);
    exchange(data, block, LONG_BYTES, 0);
    pthread_t threads[THREADS];
    int more = !strcmp(fault, "threads") && level == MPI_THREAD_MULTIPLE ? THREADS : 0;
    for (long number = 0; number < more; number++)
        pthread_create(&threads[number], NULL, work, (void *)number);
    for (int number = 0; number < more; number++)
        pthread_join(threads[number], NULL);
    if (!strcmp(fault, "heap"))
        block[LONG_BYTES - 1 + one] = 1;
    else if (!strcmp(fault, "global"))
        small[sizeof small - 1 + one] = 1;
    else if (!strcmp(fault, "child"))
        wrong = system("case \"$LD_PRELOAD\" in *libasan*|*libclang_rt*) exit 1 ;; esac") != 0;
    free(block);
    printf("rank %d: %s\n", rank, wrong ? "wrong" : "right");
    fflush(stdout);
    MPI_Finalize();
    return wrong;
}
