/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libswordfish: the calls of applets of SWORDFISH, the simulator of ATOLL's networks (seed 002, section 2.7, table 1), over PALMS.
 *
 * An applet is a program of which each node runs a copy:
 *
 *     selvedge sim -n 64 --machine atoll -- ./applet        in virtual time, on a simulated machine
 *     selvedge run -n 4 ./applet                            live
 *
 * The seed names the functions and says in a few words what each is for. Parameters, the status, the codes and SWORDFISH_Strerror are this
 * library's.
 *
 * Messages between two ranks keep their order. Each receive and probe takes the oldest message that it selects. A message that others
 * overtake waits in memory of its receiver.
 *
 * Waiting. A send returns when the data may be reused. It waits while its peer has no room for more, as sends of PALMS do (atoll.h). The
 * library works only inside its calls, and one thread at a time may be in it.
 */
#ifndef SWORDFISH_H
#define SWORDFISH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Return values. */
enum {
    SWORDFISH_SUCCESS = 0,
    SWORDFISH_ERR,            /* the library failed; its log has the reason */
    SWORDFISH_ERR_JOB,        /* the process has not called SWORDFISH_Init, or could not join a job */
    SWORDFISH_ERR_RANK,       /* there is no such rank */
    SWORDFISH_ERR_SIZE,       /* the message is longer than the room: it stays, and the status has its size; or than 2 GiB */
    SWORDFISH_ERR_NO_MESSAGE, /* a probe has found no message */
    SWORDFISH_ERR_POINTER,    /* a pointer is NULL */
    SWORDFISH_ERR_LOST,       /* the peer has left, or messages could not leave */
    SWORDFISH_ERR_FULL        /* messages that no receive has selected take more than 256 MiB: receive some of them */
};

/* Describes a message. */
typedef struct SWORDFISH_Status {
    int from;     /* rank of the sender */
    uint32_t tag; /* the sender's */
    size_t bytes; /* its length */
} SWORDFISH_Status;

/* ---- management ---- */

/* Joins the job. Collective, and the first call. The command line stays as it is; the pointers may be NULL. */
int SWORDFISH_Init(int *argc, char ***argv);
/* Leaves the job, when all ranks have called it. Messages that were not received are lost. */
int SWORDFISH_Finish(void);
/* Number of ranks. */
int SWORDFISH_Size(void);
/* Number of this rank, from 0. */
int SWORDFISH_Rank(void);

/* ---- time ---- */

/* Time in nanoseconds. Simulated: virtual time, the same clock in all ranks. Live: the host's monotonic clock. */
uint64_t SWORDFISH_Time(void);
/* Computes for this time. Simulated: the rank's virtual time passes, and no other rank is held up. Live: the processor is kept busy. */
int SWORDFISH_ConsumeTime(uint64_t nanoseconds);

/* ---- messages ---- */

/* Sends a message of up to 2 GiB to a rank, also to the own one. Without bytes, data may be NULL. */
int SWORDFISH_Send(int to, uint32_t tag, const void *data, size_t bytes);

/*
 * Receive a message into `room` bytes, and wait for it: the oldest of all, the oldest from a rank, or the oldest with a tag. The status may
 * be NULL. With SWORDFISH_ERR_SIZE the message stays, to be received with more room.
 */
int SWORDFISH_Recv(void *data, size_t room, SWORDFISH_Status *status);
int SWORDFISH_RecvFrom(int from, void *data, size_t room, SWORDFISH_Status *status);
int SWORDFISH_RecvTag(uint32_t tag, void *data, size_t room, SWORDFISH_Status *status);

/* Describe the message that the receive of the same selection would get, without waiting: else SWORDFISH_ERR_NO_MESSAGE. */
int SWORDFISH_Probe(SWORDFISH_Status *status);
int SWORDFISH_ProbeFrom(int from, SWORDFISH_Status *status);
int SWORDFISH_ProbeTag(uint32_t tag, SWORDFISH_Status *status);

/* Describes a return value in words. */
const char *SWORDFISH_Strerror(int code);

#ifdef __cplusplus
}
#endif
#endif
