/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Runs the measurements that --what names, in that order. Has the code that they share. */
#define _GNU_SOURCE
#include "mpi_rank.h"

#include <stdlib.h>
#include <string.h>

static const struct measurement {
    const char *name;
    void (*run)(const struct options *);
    bool of_two;
} measurements[] = {
    { "pingpong", pingpong, true },
    { "pingpong_used", pingpong_used, true },
    { "exchange", exchange, true },
    { "rate", rate, true },
    { "bandwidth", bandwidth, true },
    { "stream", stream, true },
    { "match_posted", match_posted, true },
    { "match_unexpected", match_unexpected, true },
    { "last_posted", last_posted, true },
    { "last_unexpected", last_unexpected, true },
    { "overlap_recv", overlap_recv, true },
    { "overlap_window", overlap_window, true },
    { "overlap_created", overlap_created, true },
    { "overlap_posted", overlap_posted, true },
    { "overlap_tcp", overlap_tcp, true },
    { "idle", idle, true },
    { "put", put, true },
    { "get", get, true },
    { "accumulate", accumulate, true },
    { "fetch_add", fetch_add, true },
    { "compare_swap", compare_swap, true },
    { "put_created", put_created, true },
    { "get_created", get_created, true },
    { "accumulate_created", accumulate_created, true },
    { "allreduce", allreduce, false },
    { "alltoall", alltoall, false },
};

int rank, ranks;
MPI_Comm signals;

uint64_t agree(uint64_t mine)
{
    MPI_Bcast(&mine, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return mine;
}

struct plan agree_plan(struct plan mine)
{
    return (struct plan){ .batch = agree(mine.batch), .batches = agree(mine.batches) };
}

void signal_send(void) { MPI_Send(NULL, 0, MPI_BYTE, 1 - rank, TAG_SIGNAL, signals); }

void signal_await(void) { MPI_Recv(NULL, 0, MPI_BYTE, 1 - rank, TAG_SIGNAL, signals, MPI_STATUS_IGNORE); }

struct memory memory_new(size_t bytes, bool own)
{
    struct memory m = { .own = own };
    if (own) {
        m.base = ordinary_alloc(bytes);
        MPI_Win_create(m.base, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &m.window);
    } else {
        MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &m.base, &m.window);
    }
    memset(m.base, 0, bytes);
    return m;
}

void memory_free(struct memory *m)
{
    MPI_Win_free(&m->window);
    if (m->own)
        free(m->base);
}

static const struct measurement *named(const char *name)
{
    for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++)
        if (strcmp(name, measurements[i].name) == 0)
            return &measurements[i];
    die("no such measurement: '%s'", name);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &signals);
    struct options o = options_parse(argc, argv);
    if (o.sizes_count == 0)
        o.sizes_bytes[o.sizes_count++] = sizeof(uint64_t);
    if (o.depths_count == 0)
        o.depths[o.depths_count++] = 16;
    char *names = strdup(o.what), *rest = names;
    if (names == NULL)
        die("no memory");
    for (char *name; (name = strsep(&rest, ",")) != NULL;) {
        const struct measurement *m = named(name);
        if (m->of_two && ranks != 2)
            die("%s needs two processes", name);
        struct options mine = o;
        mine.what = name;
        m->run(&mine);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Comm_free(&signals);
    MPI_Finalize();
    return 0; /* the options point into `names` until the end */
}
