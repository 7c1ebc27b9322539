/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A rank that does not call MPI for a second; ../away.h has the method.
 *
 * overlap_posted: rank 0 has posted a receive for each message, and computes. Rank 1 sends without waiting, and makes progress
 * all the time.
 * overlap_tcp: the same without MPI: a thread of rank 0 reads the same bytes from a TCP connection over the loopback interface into
 * the same memory. It shows the cost of the kernel's TCP alone.
 * idle: both ranks have sent to each other, and sleep. The figure is the processor time of rank 0 in a second, including its
 * threads.
 */
#define _GNU_SOURCE
#include "away.h"
#include "mpi_rank.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WARM_MESSAGES 100
#define LEAD_NS 20000000 /* both ranks wait for the start */
#define SETTLE_NS 100000000
#define IDLE_NS UINT64_C(1000000000)

/* ---- rank 0 computes, rank 1 sends ---- */

struct traffic {
    unsigned char *all;
    MPI_Request requests[MESSAGES];
    unsigned sent;
    int socket; /* of overlap_tcp */
    pthread_t reader;
};

/* Returns the same time at both ranks, a moment from now. */
static uint64_t agree_start(void *self)
{
    (void)self;
    MPI_Barrier(MPI_COMM_WORLD);
    return agree(now_ns() + LEAD_NS);
}

static struct traffic traffic_new(void)
{
    struct traffic t = { .all = ordinary_alloc(MESSAGES * MESSAGE_BYTES), .socket = -1 };
    memset(t.all, 0, MESSAGES * MESSAGE_BYTES);
    if (rank == 1)
        messages_fill(t.all);
    return t;
}

static void send_by_mpi(void *self, unsigned i)
{
    struct traffic *t = self;
    MPI_Isend(message(t->all, i), (int)MESSAGE_BYTES, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &t->requests[t->sent++]);
}

static void progress_of_mpi(void *self)
{
    struct traffic *t = self;
    int done;
    MPI_Testall((int)t->sent, t->requests, &done, MPI_STATUSES_IGNORE);
}

/* Sends one message of full length each way, so that everything is connected. */
static void warm_up(struct traffic *t)
{
    unsigned char *other = ordinary_alloc(MESSAGE_BYTES);
    for (unsigned i = 0; i < 2; i++)
        MPI_Sendrecv(t->all, (int)MESSAGE_BYTES, MPI_BYTE, 1 - rank, TAG_DATA, other, (int)MESSAGE_BYTES, MPI_BYTE, 1 - rank,
                     TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(other);
}

static void finish_mpi(void *self)
{
    struct traffic *t = self;
    MPI_Waitall(MESSAGES, t->requests, MPI_STATUSES_IGNORE);
}

void overlap_posted(const struct options *o)
{
    struct traffic t = traffic_new();
    warm_up(&t);
    if (rank == 0) {
        for (unsigned i = 0; i < MESSAGES; i++)
            MPI_Irecv(message(t.all, i), (int)MESSAGE_BYTES, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &t.requests[i]);
        away_measure(o, o->what, t.all, &t, agree_start, finish_mpi);
    } else {
        messages_send(agree_start(&t), &t, send_by_mpi, progress_of_mpi);
        finish_mpi(&t);
    }
    free(t.all);
}

/* ---- the same over the kernel's TCP ---- */

static void listen_at(int socket_of_all, struct sockaddr_in *at)
{
    socklen_t length = sizeof *at;
    *at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (bind(socket_of_all, (struct sockaddr *)at, length) != 0 || listen(socket_of_all, 1) != 0 ||
        getsockname(socket_of_all, (struct sockaddr *)at, &length) != 0)
        die("no TCP port at the loopback interface");
}

/* A connection between both ranks. */
static int connect_ranks(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), connection;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (listener < 0)
        die("no socket");
    if (rank == 0)
        listen_at(listener, &at);
    at.sin_port = (in_port_t)agree(at.sin_port);
    if (rank == 1) {
        if (connect(listener, (struct sockaddr *)&at, sizeof at) != 0)
            die("no TCP connection over the loopback interface");
        return listener;
    }
    connection = accept(listener, NULL, NULL);
    close(listener);
    if (connection < 0)
        die("no TCP connection over the loopback interface");
    return connection;
}

static void *read_all(void *self)
{
    struct traffic *t = self;
    for (unsigned i = 0; i < MESSAGES; i++)
        if (recv(t->socket, message(t->all, i), MESSAGE_BYTES, MSG_WAITALL) != (ssize_t)MESSAGE_BYTES)
            die("the TCP connection ended");
    return NULL;
}

static void send_by_tcp(void *self, unsigned i)
{
    struct traffic *t = self;
    for (size_t at = 0; at < MESSAGE_BYTES;) {
        ssize_t sent = send(t->socket, message(t->all, i) + at, MESSAGE_BYTES - at, 0);
        if (sent <= 0)
            die("the TCP connection ended");
        at += (size_t)sent;
    }
}

static void finish_tcp(void *self)
{
    struct traffic *t = self;
    pthread_join(t->reader, NULL);
}

void overlap_tcp(const struct options *o)
{
    struct traffic t = traffic_new();
    t.socket = connect_ranks();
    if (rank == 0) {
        if (pthread_create(&t.reader, NULL, read_all, &t) != 0)
            die("no thread");
        away_measure(o, o->what, t.all, &t, agree_start, finish_tcp);
    } else {
        messages_send(agree_start(&t), &t, send_by_tcp, NULL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    close(t.socket);
    free(t.all);
}

/* ---- idle ---- */

void idle(const struct options *o)
{
    for (unsigned i = 0; i < WARM_MESSAGES; i++) {
        if (rank == 0)
            signal_send();
        signal_await();
        if (rank == 1)
            signal_send();
    }
    sleep_until(now_ns() + SETTLE_NS);
    double before_s = processor_s();
    uint64_t start = now_ns();
    sleep_until(start + IDLE_NS);
    double used_s = processor_s() - before_s, took_s = (double)(now_ns() - start) * 1e-9;
    if (rank == 0) {
        struct result r = result_new(o->what, NO_NUMBER, NO_NUMBER);
        r.value = used_s / took_s;
        r.unit = "s/s";
        r.samples = 1;
        result_print(o, &r);
    }
}
