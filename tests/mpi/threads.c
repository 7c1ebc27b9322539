/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A library that stands before the MPI in a pass with SELVEDGE_TEST_THREADS (common.sh): programs ask for
 * MPI_THREAD_MULTIPLE, whatever they ask for themselves. Each process says so, or ends when the MPI does not provide it.
 *
 * It needs no mpi.h: the level has the number 3 in Open MPI and in MPICH. The last function is Fortran's under Open MPI.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { MULTIPLE = 3 };

int MPI_Init_thread(int *count, char ***words, int required, int *provided)
{
    int (*init)(int *, char ***, int, int *) = (int (*)(int *, char ***, int, int *))dlsym(RTLD_DEFAULT, "PMPI_Init_thread");
    (void)required;
    int code = init ? init(count, words, MULTIPLE, provided) : 1;
    if (code == 0 && *provided != MULTIPLE) {
        fprintf(stderr, "threads.c: the MPI provides thread level %d\n", *provided);
        exit(1);
    }
    fprintf(stderr, "MPI_THREAD_MULTIPLE\n");
    return code;
}

int MPI_Init(int *count, char ***words)
{
    int provided = 0;
    return MPI_Init_thread(count, words, MULTIPLE, &provided);
}

void mpi_init_(int *code) { *code = MPI_Init(NULL, NULL); }
