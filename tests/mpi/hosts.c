/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hosts: program that `hosts.sh` runs on several hosts. Every received byte is compared.
 *
 *   hosts            the parts in this order: messages, collectives, windows
 *   hosts SECONDS    the last rank computes for SECONDS, while rank 0 sends it 50 messages of 1 MiB; then the same parts
 *
 * A failed check ends the job with an error.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 16 << 20, WINDOW = 1 << 20, TAG = 7 };

static int rank, size;
static unsigned char *out, *in;

static void wrong(const char *what, size_t at)
{
    fprintf(stderr, "rank %d, %s: wrong at %zu\n", rank, what, at);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char pattern(int sender, unsigned round, size_t i)
{
    return (unsigned char)(i * 31 + i / 251 + round * 7 + (unsigned)sender * 101);
}

static void fill(unsigned char *to, int sender, unsigned round, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern(sender, round, i);
}

static void compare(const char *what, const unsigned char *got, int sender, unsigned round, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != pattern(sender, round, i))
            wrong(what, i);
}

/* Every rank sends to every other, both ways at once. In odd rounds messages are unexpected, and received in another order. */
static void messages(void)
{
    static const int lengths[] = {0, 1, 100, 4096, 16384, 16385, 100003, 1 << 20, LONGEST};
    unsigned char *second = in + LONGEST / 2;
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int step = 1; step < size; step++) {
            int to = (rank + step) % size, from = (rank + size - step) % size, bytes = lengths[i];
            MPI_Status status;
            int count;
            fill(out, rank, i, (size_t)bytes);
            memset(in, 0, (size_t)bytes);
            MPI_Sendrecv(out, bytes, MPI_BYTE, to, TAG, in, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            if (count != bytes)
                wrong("a length", (size_t)count);
            compare("a message", in, from, i, (size_t)bytes);
            if (bytes > LONGEST / 2)
                continue;
            MPI_Request sends[2];
            MPI_Isend(out, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[0]);
            MPI_Isend(out, bytes / 2, MPI_BYTE, to, 2, MPI_COMM_WORLD, &sends[1]);
            MPI_Recv(second, bytes / 2, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
            MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
            if (status.MPI_SOURCE != from)
                wrong("a source", (size_t)status.MPI_SOURCE);
            compare("the second message", second, from, i, (size_t)bytes / 2);
            compare("the first message", in, from, i, (size_t)bytes);
            MPI_Barrier(MPI_COMM_WORLD);
        }
}

static void collectives(void)
{
    for (int count = 1; count <= 1 << 19; count *= 8) {
        int64_t *mine = (int64_t *)out, *all = (int64_t *)in;
        for (int i = 0; i < count; i++)
            mine[i] = (int64_t)i * (rank + 1);
        MPI_Allreduce(mine, all, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++)
            if (all[i] != (int64_t)i * size * (size + 1) / 2)
                wrong("allreduce", (size_t)i);
        for (int root = 0; root < size; root++) {
            memset(in, 0, (size_t)count);
            if (rank == root)
                fill(in, root, 1, (size_t)count);
            MPI_Bcast(in, count, MPI_BYTE, root, MPI_COMM_WORLD);
            compare("bcast", in, root, 1, (size_t)count);
        }
        for (int to = 0; to < size; to++)
            fill(out + (size_t)to * (size_t)count, rank, (unsigned)to, (size_t)count);
        MPI_Alltoall(out, count, MPI_BYTE, in, count, MPI_BYTE, MPI_COMM_WORLD);
        for (int from = 0; from < size; from++)
            compare("alltoall", in + (size_t)from * (size_t)count, from, (unsigned)rank, (size_t)count);
    }
}

static void windows(void)
{
    unsigned char *memory;
    MPI_Win window;
    MPI_Win_allocate(WINDOW + (MPI_Aint)sizeof(int64_t), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (unsigned round = 0; round < 6; round++) {
        size_t bytes = (size_t)1 << (4 * round);
        int step = size > 1 ? 1 + (int)round % (size - 1) : 0, to = (rank + step) % size, from = (rank + size - step) % size;
        memset(memory, 0, WINDOW + sizeof(int64_t));
        fill(out, rank, round, bytes);
        MPI_Win_fence(0, window);
        MPI_Put(out, (int)bytes, MPI_BYTE, to, 0, (int)bytes, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        compare("put", memory, from, round, bytes);
        memset(in, 0, bytes);
        MPI_Get(in, (int)bytes, MPI_BYTE, to, 0, (int)bytes, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        compare("get", in, rank, round, bytes);
        MPI_Win_fence(0, window);
        /* Under a lock: every rank adds to a counter at every other. */
        int64_t one = rank + 1, before;
        for (int target = 0; target < size; target++) {
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
            MPI_Accumulate(&one, 1, MPI_INT64_T, target, WINDOW, 1, MPI_INT64_T, MPI_SUM, window);
            MPI_Win_unlock(target, window);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        for (int target = 0; target < size; target++) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
            MPI_Get(&before, 1, MPI_INT64_T, target, WINDOW, 1, MPI_INT64_T, window);
            MPI_Win_unlock(target, window);
            if (before != (int64_t)size * (size + 1) / 2)
                wrong("accumulate", (size_t)before);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
}

/* The last rank does not call the MPI for some time. Afterwards the messages sent meanwhile must be whole. */
static void absent(double seconds)
{
    enum { COUNT = 50, BYTES = 1 << 20 };
    const int last = size - 1;
    unsigned char *all = malloc((size_t)COUNT * BYTES);
    MPI_Request requests[COUNT];
    for (int i = 0; rank == last && i < COUNT; i++)
        MPI_Irecv(all + (size_t)i * BYTES, BYTES, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    double began_s = MPI_Wtime();
    if (rank == 0) {
        for (int i = 0; i < COUNT; i++) {
            fill(all + (size_t)i * BYTES, 0, (unsigned)i, BYTES);
            MPI_Isend(all + (size_t)i * BYTES, BYTES, MPI_BYTE, last, i, MPI_COMM_WORLD, &requests[i]);
        }
    } else if (rank == last) {
        while (MPI_Wtime() - began_s < seconds)
            ;
    }
    if (rank == 0 || rank == last)
        MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; rank == last && i < COUNT; i++)
        compare("while it computed", all + (size_t)i * BYTES, 0, (unsigned)i, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    free(all);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = malloc(LONGEST);
    in = malloc(LONGEST);
    if (argc > 1 && size > 1)
        absent(atof(argv[1]));
    messages();
    collectives();
    windows();
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Get_processor_name(name, &length);
    printf("rank %d of %d on %s: right\n", rank, size, name);
    MPI_Finalize();
    return 0;
}
