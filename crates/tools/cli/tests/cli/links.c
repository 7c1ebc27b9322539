// SPDX-License-Identifier: Apache-2.0 OR MIT
// Known traffic of PE 0 at the last PE, for the tests of link counters. Then all PEs wait for the file `stop`.
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long words[64];
static int halves[4];
static uint64_t signal_word;

static void path_of(char *path, size_t bytes, const char *name)
{
    snprintf(path, bytes, "%s/%s", getenv("PLACE"), name);
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    char path[4096], name[16];
    shmem_init();
    int me = shmem_my_pe(), to = shmem_n_pes() - 1;
    long own[4] = { 1, 2, 3, 4 };
    for (long round = 0; round < rounds && me == 0; round++) {
        for (int i = 0; i < 1000; i++)
            shmem_long_atomic_inc(words, to);
        for (int i = 0; i < 10; i++)
            shmem_int_atomic_fetch_add(halves, 1, to);
        shmem_long_atomic_fetch(words, to);
        shmem_long_atomic_set(words + 1, 5, to);
        for (int i = 0; i < 7; i++)
            shmem_long_put(words + 8, own, 4, to);
        shmem_long_p(words + 2, 9, to);
        for (int i = 0; i < 3; i++)
            shmem_long_get(own, words + 8, 2, to);
        shmem_long_put_signal(words + 16, own, 1, &signal_word, 1, SHMEM_SIGNAL_SET, to);
        shmem_quiet();
    }
    shmem_barrier_all();
    snprintf(name, sizeof name, "%d", me);
    path_of(path, sizeof path, name);
    FILE *file = fopen(path, "w");
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    path_of(path, sizeof path, "stop");
    while (access(path, F_OK) != 0)
        usleep(2000);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
