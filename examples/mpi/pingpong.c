/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * pingpong: the time of a message by size. A message goes there and back, and half of that time is printed. Three ways:
 *
 *   send/recv    MPI_Send and MPI_Recv;
 *   isend/irecv  the receive is posted before the message is sent, so the message is always expected;
 *   put          one-sided: MPI_Put, MPI_Win_flush, then a put of a flag, in a window that stays locked.
 *
 *     mpicc -O2 examples/mpi/pingpong.c -o pingpong && selvedge mpirun -n 2 ./pingpong [rounds]
 *
 * Prints the median for each size. Ranks beyond the second do nothing. Ends with an error when any byte is wrong.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES    (4 << 20)
#define CHECK_ROUNDS 8 /* rounds in which every byte is compared; they also warm up */

enum method { BLOCKING, POSTED, PUT, METHODS };

static int rank, peer;
static unsigned char *inbox, *outbox; /* inbox is the window, with a flag after MAX_BYTES */
static long turn;                     /* the expected value of that flag, which counts the messages that were put here */
static MPI_Win window;
static MPI_Request incoming;

static void *memory(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (p == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

/* Called before sending the message that the peer will answer. */
static void expect(enum method method, int bytes)
{
    if (method == POSTED)
        MPI_Irecv(inbox, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &incoming);
}

static void send_message(enum method method, int bytes)
{
    static const long one = 1;
    MPI_Request outgoing;
    switch (method) {
    case BLOCKING:
        MPI_Send(outbox, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        break;
    case POSTED:
        MPI_Isend(outbox, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &outgoing);
        MPI_Wait(&outgoing, MPI_STATUS_IGNORE);
        break;
    default:
        MPI_Put(outbox, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, window);
        MPI_Win_flush(peer, window); /* the message arrives before the flag */
        MPI_Accumulate(&one, 1, MPI_LONG, peer, MAX_BYTES, 1, MPI_LONG, MPI_SUM, window);
        MPI_Win_flush(peer, window);
    }
}

static void await_message(enum method method, int bytes)
{
    long seen = 0, seen_now;
    switch (method) {
    case BLOCKING:
        MPI_Recv(inbox, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case POSTED:
        MPI_Wait(&incoming, MPI_STATUS_IGNORE);
        break;
    default:
        for (turn++; seen < turn;) {
            MPI_Fetch_and_op(&seen, &seen_now, MPI_LONG, rank, MAX_BYTES, MPI_NO_OP, window);
            MPI_Win_flush(rank, window);
            seen = seen_now;
        }
        MPI_Win_sync(window);
    }
}

/* One message there and back; rank 0 begins. */
static void round_trip(enum method method, int bytes)
{
    if (rank == 0) {
        expect(method, bytes);
        send_message(method, bytes);
        await_message(method, bytes);
    } else {
        await_message(method, bytes);
        expect(method, bytes);
        send_message(method, bytes);
    }
}

static unsigned char pattern(int sender, int method, int round, int i)
{
    return (unsigned char)(i * 31 + i / 251 + round * 7 + method * 3 + sender * 101);
}

static void checked_send(enum method method, int bytes, int round)
{
    expect(method, bytes);
    for (int i = 0; i < bytes; i++)
        outbox[i] = pattern(rank, method, round, i);
    send_message(method, bytes);
}

/* A round trip with every byte compared before the answer, since the peer may send again after it. */
static void checked_round(enum method method, int bytes, int round)
{
    if (rank == 0)
        checked_send(method, bytes, round);
    await_message(method, bytes);
    for (int i = 0; i < bytes; i++)
        if (inbox[i] != pattern(peer, method, round, i)) {
            fprintf(stderr, "rank %d: byte %d of %d is wrong\n", rank, i, bytes);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    if (rank == 1)
        checked_send(method, bytes, round);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median half round trip in microseconds; meaningful at rank 0. */
static double ping_pong(enum method method, int bytes, int rounds, double *half_us)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 1)
        return 0;
    if (rank == 1)
        expect(method, bytes); /* posts the first receive; each later one is posted when the previous message has arrived */
    for (int round = 0; round < CHECK_ROUNDS; round++)
        checked_round(method, bytes, round);
    for (int round = 0; round < rounds; round++) {
        double began_s = MPI_Wtime();
        round_trip(method, bytes);
        half_us[round] = (MPI_Wtime() - began_s) * 1e6 / 2;
    }
    if (rank == 1 && method == POSTED) {
        MPI_Cancel(&incoming);
        MPI_Wait(&incoming, MPI_STATUS_IGNORE);
    }
    qsort(half_us, (size_t)rounds, sizeof *half_us, by_value);
    return half_us[rounds / 2];
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1000, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    peer = 1 - rank;
    if (size < 2 || rounds < 1) {
        fprintf(stderr, "usage: selvedge mpirun -n 2 pingpong [rounds]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    double *half_us = memory((size_t)rounds * sizeof *half_us);
    outbox = memory(MAX_BYTES);
    MPI_Win_allocate(MAX_BYTES + sizeof turn, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &inbox, &window);
    memset(inbox, 0, MAX_BYTES + sizeof turn);
    MPI_Win_lock_all(0, window);
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD); /* every flag is 0 before the first put */
    if (rank == 0)
        printf("median half round trip, microseconds\n%10s %12s %12s %12s\n", "bytes", "send/recv", "isend/irecv",
               "put");
    for (int bytes = 0; bytes <= MAX_BYTES; bytes = bytes ? bytes * 8 : 8) {
        double us[METHODS];
        int n = bytes > 65536 ? (rounds + 9) / 10 : rounds;
        for (int method = 0; method < METHODS; method++)
            us[method] = ping_pong((enum method)method, bytes, n, half_us);
        if (rank == 0)
            printf("%10d %12.2f %12.2f %12.2f\n", bytes, us[BLOCKING], us[POSTED], us[PUT]);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(outbox);
    free(half_us);
    MPI_Finalize();
    return 0;
}
