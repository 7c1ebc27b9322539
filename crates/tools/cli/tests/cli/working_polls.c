/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Two PEs each copy memory piece by piece, and after each piece poll for a signal that the other sends at its end.
 * Libraries move long messages this way, such as MPICH to its own rank.
 *
 * working_polls PIECES BYTES
 */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 65536

static long through;
static char from[BYTES_MAX], to[BYTES_MAX];

int main(int argc, char **argv)
{
    int pieces = argc > 1 ? atoi(argv[1]) : 1, early = 0;
    size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : BYTES_MAX;
    if (bytes > BYTES_MAX) return 2;
    shmem_init();
    int other = 1 - shmem_my_pe();
    if (shmem_n_pes() != 2) return 2;
    shmem_barrier_all();
    for (int piece = 0; piece < pieces; piece++) {
        memset(from, piece, bytes);
        memcpy(to, from, bytes);
        early += shmem_long_test(&through, SHMEM_CMP_EQ, 1);
    }
    if (memcmp(to, from, bytes) != 0) return 3;
    shmem_long_p(&through, 1, other);
    shmem_long_wait_until(&through, SHMEM_CMP_EQ, 1);
    if (shmem_my_pe() == 0) printf("%d pieces, %d early\n", pieces, early);
    shmem_finalize();
    return 0;
}
