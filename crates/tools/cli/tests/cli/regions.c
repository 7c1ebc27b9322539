/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A program with regions: "puts" has 3 puts of 40 bytes to the neighbour, "gets" 2 gets of 8 bytes, and PE 0 enters
 * "gets" twice. Between them are operations that belong to none. With the argument "open" PE 1 ends inside "puts", with
 * "end" PE 0 ends a region that it has not begun. With "pcontrol" the puts are in the region "main".
 */
#include <stdio.h>
#include <string.h>
#include <shmem.h>
#include <shmemx.h>

int main(int argc, char **argv)
{
    static long words[5], target[5], got;
    const char *what = argc > 1 ? argv[1] : "";

    shmem_init();
    int me = shmem_my_pe(), pes = shmem_n_pes(), next = (me + 1) % pes;
    shmem_long_p(&got, 1, next);
    shmem_barrier_all();
    shmem_pcontrol(0); /* off already: nothing */
    shmemx_region_begin("puts");
    if (strcmp(what, "pcontrol") == 0) {
        shmem_pcontrol(1);
        shmem_pcontrol(1);
    }
    shmemx_region_begin("puts"); /* nested */
    for (int i = 0; i < 3; i++)
        shmem_putmem(target, words, sizeof words, next);
    shmemx_region_end("puts");
    shmem_quiet();
    if (strcmp(what, "pcontrol") == 0)
        shmem_pcontrol(0);
    if (strcmp(what, "open") != 0 || me != 1)
        shmemx_region_end("puts");
    shmem_barrier_all();
    shmem_long_p(&got, 2, next);
    shmem_quiet();
    for (int i = 0; i < (me == 0 ? 2 : 1); i++) {
        shmemx_region_begin("gets");
        (void)shmem_long_g(&target[0], next);
        (void)shmem_long_g(&target[1], next);
        shmemx_region_end("gets");
    }
    if (strcmp(what, "end") == 0 && me == 0)
        shmemx_region_end("gets");
    shmem_barrier_all();
    if (me == 0)
        puts("done");
    shmem_finalize();
    return 0;
}
