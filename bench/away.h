/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The shared part of programs that measure messages to a process that computes and does not call the library.
 *
 * The process first measures the time of a fixed number of pieces of work alone: about a second. Then the other process sends it
 * MESSAGES of MESSAGE_BYTES, one each MESSAGE_PERIOD_NS, while it does the same work again. Directly afterwards, before it calls the
 * library, it counts the complete messages in its memory. Both processes are on one machine and have one clock.
 *
 * Figures: the share of its speed that it keeps (the time alone, measured before and after, divided by the time with messages); the
 * number of complete messages; the processor time of its other threads meanwhile, which needs no quiet machine.
 */
#ifndef BENCH_AWAY_H
#define BENCH_AWAY_H

#include "rank.h"

#define MESSAGES 50
#define MESSAGE_BYTES ((size_t)1 << 20)
#define MESSAGE_PERIOD_NS UINT64_C(16000000) /* the last one starts after four fifths of the second */

/* ---- work ---- */
void work_many(uint64_t pieces); /* a piece is a few microseconds that no compiler can leave out */
double processor_s(void);        /* of this process, with its threads */
void sleep_until(uint64_t when_ns);

/* ---- messages: each has its own bytes ---- */
unsigned char *message(unsigned char *all, unsigned i);
void messages_fill(unsigned char *all);

/* Calls `send` for each message at its time, and `progress` meanwhile, unless it is NULL. */
void messages_send(uint64_t start_ns, void *self, void (*send)(void *self, unsigned i), void (*progress)(void *self));

/* ---- the measurement, at the computing process ---- */

/*
 * Does the work of a second alone, then with messages from `start(self)` on, then alone. `finish` calls the library until all messages
 * have arrived. Prints NAME with the share, NAME:arrived and NAME:threads.
 */
void away_measure(const struct options *o, const char *name, unsigned char *all, void *self, uint64_t (*start)(void *self),
                  void (*finish)(void *self));

#endif
