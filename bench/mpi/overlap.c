/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The speed that a computing program loses while 1 MB arrives, and the time of its sender.
 *
 * overlap_recv: rank 1 posts MPI_Irecv, computes for about twice the time of the message alone without a call of MPI, then waits.
 * Figures: pieces of work a second from the end of MPI_Irecv to the end of MPI_Wait, and the same without a message (`:alone`).
 * Their ratio is the availability. A message that only moves in MPI_Wait leaves two thirds.
 *
 * overlap_window: rank 0 puts 1 MB buffers into rank 1's window and flushes, at a fixed pace, in every other slice of time. Rank 1
 * computes and does not call MPI until the end. Figures: its pieces of work a second in slices with and without puts. In
 * overlap_created the window is the program's own memory.
 *
 * In both, the time is that of one MPI_Send, or of MPI_Put with MPI_Win_flush. Beside it (`:memcpy`) is one memcpy of as many
 * bytes by the same core, at the same pace: a core copies 1 MB faster after a sleep than after another copy. Buffers are taken
 * in turn from rings.
 */
#define _GNU_SOURCE
#include "away.h"
#include "mpi_rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES ((size_t)1 << 20)
#define BUFFERS 16
#define SLICES 20
#define SLICE_NS_MIN 10000000.0
#define PERIOD_NS 250000
#define START_DELAY_NS 2000000
#define TRIALS 20

static unsigned char *buffer(unsigned char *ring, uint64_t i) { return ring + (i % BUFFERS) * BYTES; }

/* Returns the start of the next transfer: a period after the start `last` of a finished transfer. */
static uint64_t next_after(uint64_t last_ns, uint64_t now_ns) { return last_ns + PERIOD_NS > now_ns ? last_ns + PERIOD_NS : now_ns; }

/* Copies without a pause, or at the pace of `traffic`. */
static struct samples copies(unsigned char *ring, bool paced)
{
    unsigned char *copy = ordinary_alloc(BUFFERS * BYTES);
    unsigned count = BUFFERS * 10;
    struct samples s = samples_new(count);
    uint64_t next = now_ns();
    for (unsigned i = 0; i < BUFFERS + count; i++) {
        if (paced)
            sleep_until(next);
        uint64_t start = now_ns();
        memcpy(buffer(copy, i), buffer(ring, i), BYTES);
        uint64_t end = now_ns();
        if (i >= BUFFERS)
            samples_add(&s, (double)(end - start));
        next = next_after(next, end);
    }
    free(copy);
    return s;
}

static void print_rate(const struct options *o, const char *kind, double per_s, size_t samples)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", o->what, kind);
    struct result r = result_new(name, (long long)BYTES, NO_NUMBER);
    r.rate_per_s = per_s;
    r.samples = samples;
    result_print(o, &r);
}

/* The rates are rank 1's; rank 0 prints them. */
static void report(const struct options *o, struct samples *sends, struct samples *memcpys, double with, double alone)
{
    char name[64];
    struct result r = result_new(o->what, (long long)BYTES, NO_NUMBER);
    result_times(&r, sends);
    r.rate_per_s = with;
    result_print(o, &r);
    print_rate(o, ":alone", alone, sends->count);
    snprintf(name, sizeof name, "%s:memcpy", o->what);
    r = result_new(name, (long long)BYTES, NO_NUMBER);
    result_times(&r, memcpys);
    result_print(o, &r);
}

static double rate_of(struct samples *per_piece_ns)
{
    double median = samples_quantile(per_piece_ns, 0.5);
    return median > 0.0 ? 1e9 / median : 0.0;
}

/* ---- a receive posted early ---- */

/* Returns nanoseconds: at rank 0 of the send, at rank 1 from the posted receive to its end. */
static double transfer(unsigned char *ring, uint64_t i, uint64_t pieces)
{
    if (rank == 0) {
        signal_await();
        uint64_t start = now_ns();
        MPI_Send(buffer(ring, i), (int)BYTES, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
        return (double)(now_ns() - start);
    }
    MPI_Request request;
    MPI_Irecv(buffer(ring, i), (int)BYTES, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, &request);
    signal_send();
    uint64_t start = now_ns();
    work_many(pieces);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return (double)(now_ns() - start);
}

static double alone(uint64_t pieces)
{
    uint64_t start = now_ns();
    work_many(pieces);
    return (double)(now_ns() - start);
}

/* Returns the number of pieces of work that last twice as long as a transfer. Rank 1 computes it for all. */
static uint64_t pieces_for(unsigned char *ring)
{
    struct samples transfers = samples_new(TRIALS), one = samples_new(TRIALS);
    for (uint64_t i = 0; i < TRIALS + BUFFERS; i++) {
        double took_ns = transfer(ring, i, 0);
        if (i >= BUFFERS)
            samples_add(&transfers, took_ns);
        if (rank == 1 && i >= BUFFERS)
            samples_add(&one, alone(16) / 16.0);
    }
    double wanted = rank == 1 ? 2.0 * samples_quantile(&transfers, 0.5) / samples_quantile(&one, 0.5) : 0.0;
    uint64_t pieces = wanted < 1.0 ? 1 : (uint64_t)wanted;
    MPI_Bcast(&pieces, 1, MPI_UINT64_T, 1, MPI_COMM_WORLD);
    samples_free(&transfers);
    samples_free(&one);
    return pieces;
}

void overlap_recv(const struct options *o)
{
    unsigned char *ring = ordinary_alloc(BUFFERS * BYTES);
    struct samples memcpys = { 0 };
    if (rank == 0)
        memcpys = copies(ring, false);
    uint64_t pieces = pieces_for(ring);
    double step_ns = transfer(ring, 0, pieces);
    double fits = o->budget_ms * 1e6 / (2.0 * step_ns);
    uint64_t count = agree(fits > 5000 ? 5000 : fits < TRIALS ? TRIALS : (uint64_t)fits);
    struct samples busy = samples_new(count), quiet = samples_new(count);
    for (uint64_t i = 0; i < count; i++) {
        if (rank == 1)
            samples_add(&quiet, alone(pieces) / (double)pieces);
        double took_ns = transfer(ring, i, pieces);
        samples_add(&busy, rank == 1 ? took_ns / (double)pieces : took_ns);
    }
    double rates[2] = { 0 };
    if (rank == 1) {
        rates[0] = rate_of(&busy);
        rates[1] = rate_of(&quiet);
    }
    MPI_Bcast(rates, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    if (rank == 0)
        report(o, &busy, &memcpys, rates[0], rates[1]);
    samples_free(&busy);
    samples_free(&quiet);
    samples_free(&memcpys);
    free(ring);
}

/* ---- a window ---- */

struct schedule {
    uint64_t start_ns, slice_ns;
};

static uint64_t slice_end(const struct schedule *s, unsigned slice) { return s->start_ns + (slice + 1) * s->slice_ns; }

/* Returns nanoseconds for a piece in the slices with traffic; `quiet` gets those of the other slices. */
static struct samples compute(const struct schedule *s, struct samples *quiet)
{
    struct samples busy = samples_new(SLICES);
    sleep_until(s->start_ns);
    uint64_t now = now_ns();
    for (unsigned slice = 0; slice < SLICES; slice++) {
        uint64_t begun = now, pieces = 0;
        for (; now < slice_end(s, slice); now = now_ns()) {
            work_many(1);
            pieces++;
        }
        if (pieces > 0)
            samples_add(slice % 2 == 1 ? &busy : quiet, (double)(now - begun) / (double)pieces);
    }
    return busy;
}

static struct samples traffic(const struct schedule *s, unsigned char *ring, MPI_Win window)
{
    struct samples times = samples_new(SLICES * (s->slice_ns / PERIOD_NS + 1));
    uint64_t i = 0;
    for (unsigned slice = 1; slice < SLICES; slice += 2) {
        uint64_t next = slice_end(s, slice - 1);
        while (next + PERIOD_NS < slice_end(s, slice)) {
            sleep_until(next);
            uint64_t start = now_ns();
            MPI_Put(buffer(ring, i), (int)BYTES, MPI_BYTE, 1, (MPI_Aint)((i % BUFFERS) * BYTES), (int)BYTES, MPI_BYTE, window);
            MPI_Win_flush(1, window);
            uint64_t now = now_ns();
            samples_add(&times, (double)(now - start));
            next = next_after(next, now);
            i++;
        }
    }
    return times;
}

static void overlap_puts(const struct options *o, bool created)
{
    unsigned char *ring = ordinary_alloc(BUFFERS * BYTES);
    struct memory memory = memory_new(BUFFERS * BYTES, created);
    MPI_Win window = memory.window;
    struct samples memcpys = { 0 }, times = { 0 }, quiet = samples_new(SLICES);
    if (rank == 0)
        memcpys = copies(ring, true);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    if (rank == 0) /* warms up, and connects */
        for (uint64_t i = 0; i < BUFFERS; i++) {
            MPI_Put(buffer(ring, i), (int)BYTES, MPI_BYTE, 1, (MPI_Aint)(i * BYTES), (int)BYTES, MPI_BYTE, window);
            MPI_Win_flush(1, window);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    double slice_ns = o->budget_ms * 1e6 / SLICES;
    struct schedule s = { .slice_ns = agree((uint64_t)(slice_ns < SLICE_NS_MIN ? SLICE_NS_MIN : slice_ns)) };
    s.start_ns = agree(now_ns() + START_DELAY_NS);
    double rates[2] = { 0 };
    if (rank == 0) {
        times = traffic(&s, ring, window);
    } else {
        times = compute(&s, &quiet);
        rates[0] = rate_of(&times);
        rates[1] = rate_of(&quiet);
    }
    MPI_Bcast(rates, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    if (rank == 0)
        report(o, &times, &memcpys, rates[0], rates[1]);
    samples_free(&times);
    samples_free(&quiet);
    samples_free(&memcpys);
    memory_free(&memory);
    free(ring);
}

void overlap_window(const struct options *o) { overlap_puts(o, false); }

void overlap_created(const struct options *o) { overlap_puts(o, true); }
