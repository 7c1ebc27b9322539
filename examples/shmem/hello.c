/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hello: the smallest complete OpenSHMEM program. Every PE puts a sentence into the memory of the next one, and notifies
 * it: by a counting put where the library has one, else by a flag after a fence.
 *
 *     oshcc examples/shmem/hello.c -o hello && oshrun -n 4 ./hello
 *
 * Ends with an error when a sentence is wrong.
 */
#include <shmem.h>
#include <stdio.h>
#include <string.h>

#define MAX_BYTES 64

static char inbox[MAX_BYTES], outbox[MAX_BYTES]; /* static data is symmetric: every PE has it, and other PEs can access it */
static int arrived;

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), next = (me + 1) % n, previous = (me + n - 1) % n;
    char expected[MAX_BYTES];
    snprintf(outbox, sizeof outbox, "hello from PE %d of %d", me, n);
    snprintf(expected, sizeof expected, "hello from PE %d of %d", previous, n);

#ifdef SELVEDGE_SHMEM
    shmem_ct_t ct;
    (void)arrived;
    shmem_ct_create(&ct);
    shmem_putmem_ct(ct, inbox, outbox, sizeof outbox, next);
    shmem_ct_wait(ct, 1);
    shmem_ct_free(&ct);
#else
    shmem_putmem(inbox, outbox, sizeof outbox, next);
    shmem_fence(); /* the sentence arrives before the flag */
    shmem_int_atomic_inc(&arrived, next);
    shmem_int_wait_until(&arrived, SHMEM_CMP_EQ, 1);
#endif

    if (strcmp(inbox, expected) != 0) {
        fprintf(stderr, "PE %d received '%s', not '%s'\n", me, inbox, expected);
        shmem_global_exit(1);
    }
    printf("PE %d received: %s\n", me, inbox);
    fflush(stdout);
    shmem_finalize();
    return 0;
}
