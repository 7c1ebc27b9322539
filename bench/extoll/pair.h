/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The shared part of the EXTOLL programs: two processes with a port of each library, connected, and registered memory.
 */
#ifndef BENCH_EXTOLL_PAIR_H
#define BENCH_EXTOLL_PAIR_H

#include "exchange.h"

#include <rma2.h>
#include <stdbool.h>
#include <velo2.h>
#include <velorun.h>

#define OK(call)                                                                                                \
    do {                                                                                                        \
        int check_code_ = (int)(call);                                                                          \
        if (check_code_ != 0)                                                                                   \
            die("%s:%d: %s returned %d", __FILE__, __LINE__, #call, check_code_);                               \
    } while (0)

struct bench {
    const struct options *o;
    int rank, peer;
    RMA2_Port port;
    RMA2_Handle handle;
    velo2_port_t mailbox;
    velo2_connection_t connection;
    unsigned char *memory; /* the first half is sent, the second half arrives; a page behind them is for the program */
    size_t half_bytes;
    RMA2_Region *region;
    RMA2_NLA there; /* the peer's memory */
    size_t bytes;   /* of this measurement */
    uint64_t round; /* the polled value */
};

/* Joins the job of two, with halves of at least `half_bytes` and of the longest size. */
struct bench bench_open(const struct options *o, size_t half_bytes);
void bench_close(struct bench *b);

unsigned char *arrives(const struct bench *b);
/* Fills the send buffer with a pattern of this measurement's bytes, and checks that memory has the peer's. */
void fill(struct bench *b, unsigned seed);
void verify(const struct bench *b, const unsigned char *memory, unsigned seed);

/* Waits for the next notification, which must be of this unit. */
void await(struct bench *b, RMA2_Notification_Spec unit);

enum figures { TIME = 0, RATE = 1, BANDWIDTH = 2 };
/* Measures steps that both ranks make, and reports them from rank 0. Collective. */
void report(struct bench *b, const char *name, void (*steps)(void *, uint64_t), double per_step, enum figures figures);

/* A ping-pong: the rank whose turn it is sends, the other receives. */
#define PINGPONG(name, send, receive)                                                                           \
    static void name(void *self, uint64_t count)                                                                \
    {                                                                                                           \
        struct bench *b = self;                                                                                 \
        for (uint64_t i = 0; i < count; i++) {                                                                  \
            b->round++;                                                                                         \
            if (b->rank == 0)                                                                                   \
                send(b);                                                                                        \
            receive(b);                                                                                         \
            if (b->rank == 1)                                                                                   \
                send(b);                                                                                        \
        }                                                                                                       \
    }

#endif
