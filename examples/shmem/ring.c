/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ring: each PE puts a number into its neighbour's memory. A counter at the neighbour rises with the put: no flag, no
 * fence, no barrier.
 *
 *     oshcc examples/shmem/ring.c -o ring && oshrun -n 4 ./ring
 */
#include <stdio.h>
#include <shmem.h>

int main(void)
{
    static long value; /* symmetric: every PE has one, and every PE reaches all of them */
    shmem_ct_t arrived;

    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes();
    int next = (me + 1) % pes, previous = (me + pes - 1) % pes;
    shmem_ct_create(&arrived);
    shmem_long_p_ct(arrived, &value, me, next); /* put, and count at the neighbour */
    shmem_ct_wait(arrived, 1);                  /* one put has arrived here */
    printf("PE %d holds %ld\n", me, value);
    int is_right = value == previous;
    shmem_finalize();
    return !is_right;
}
