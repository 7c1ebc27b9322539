/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Declarations that the measurements in MPI share. All of them are one program, compiled with the mpicc of the MPI that is
 * measured, and timed by the same rank.c as the Portals programs. The environment selects the path of the messages.
 */
#ifndef BENCH_MPI_RANK_H
#define BENCH_MPI_RANK_H

#include <mpi.h>

#include "rank.h"

enum { TAG_DATA = 1, TAG_SIGNAL = 2 };
#define REPETITIONS_MIN 3

extern int rank, ranks;
extern MPI_Comm signals; /* connects the same two processes, apart from the messages that are measured */

uint64_t agree(uint64_t mine); /* rank 0's number, at all */
struct plan agree_plan(struct plan mine);
void signal_send(void); /* sends a message without data to the other of two */
void signal_await(void);

/* A window in memory that MPI allocates, or in the program's own. Many MPIs reach the former without a network. */
struct memory {
    MPI_Win window;
    unsigned char *base; /* zeroed */
    bool own;
};

struct memory memory_new(size_t bytes, bool own);
void memory_free(struct memory *m);

/* ---- two processes ---- */
void pingpong(const struct options *o);      /* half a round trip */
void pingpong_used(const struct options *o); /* the same, with each word read and written again at both ends */
void exchange(const struct options *o);     /* four messages each way, sent before any is received */
void rate(const struct options *o);      /* eight bytes, 64 in flight */
void bandwidth(const struct options *o); /* about a megabyte in flight, at least one message */
void stream(const struct options *o);    /* sixteen messages in flight, of any size */

void match_posted(const struct options *o); /* time per message; every message matches the last posted receive */
void match_unexpected(const struct options *o);
void last_posted(const struct options *o); /* one message matches the last of Q posted receives, which stay posted */
void last_unexpected(const struct options *o);

void overlap_recv(const struct options *o); /* the share of its speed that a computing receiver keeps */
void overlap_window(const struct options *o);  /* the same for the owner of a window; memory from MPI_Win_allocate */
void overlap_created(const struct options *o); /* the program's own memory, by MPI_Win_create */

void overlap_posted(const struct options *o); /* many messages for posted receives, while their owner computes for a second */
void overlap_tcp(const struct options *o);    /* the same bytes by TCP, without MPI */
void idle(const struct options *o);           /* the processor time of a rank that sleeps */

void put(const struct options *o); /* each a whole operation, flushed; memory from MPI_Win_allocate */
void get(const struct options *o);
void accumulate(const struct options *o);
void fetch_add(const struct options *o);
void compare_swap(const struct options *o);
void put_created(const struct options *o); /* the program's own memory, by MPI_Win_create */
void get_created(const struct options *o);
void accumulate_created(const struct options *o);

/* ---- any number ---- */
void allreduce(const struct options *o);
void alltoall(const struct options *o);

#endif
