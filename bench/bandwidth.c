/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * bandwidth_shared, bandwidth_cma: large puts from rank 0 into rank 1, between memory from selvedge_alloc or from
 * malloc. In the same loop, by the same core, two bounds that they cannot beat:
 *   memcpy_shared, memcpy_ordinary   the same bytes copied between buffers of the same kind within rank 0
 *   process_vm_writev                (ordinary memory) the bare system call into rank 1
 * bandwidth_shared_hot, memcpy_shared_hot: the same between two buffers in turn, which stay in the caches; to compare with
 * peers whose own benchmark sends one buffer over and over.
 *
 * Invariants: 1. All ways use the same source ring, and those into rank 1 the same destination, each a part of the ring
 * after the one before. The pages that the system allots change the result, and so change all ways alike; the two
 * destinations get theirs piece by piece in turn. All ways find their buffers equally far from the caches. 2. The ways take
 * turns sample by sample, so that a disturbance of the machine affects all of them. 3. A put counts when it is
 * acknowledged.
 */
#define _GNU_SOURCE
#include "ni.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PT_DATA = 4 };
enum way { PUT, COPY, WRITEV, WAYS };
#define SAMPLE_BYTES ((size_t)1 << 20) /* several small puts make one sample */
#define SAMPLES_MIN 3
#define PIECE_BYTES ((size_t)1 << 20)

struct peer_memory {
    uint64_t pid, ring;
};

struct bench {
    struct ni ni;
    const struct options *o;
    bool shared;
    const char *copy_name;
    size_t ring_bytes;
    unsigned char *source, *destination; /* destination at rank 0: of COPY; at rank 1: of the other ways */
    struct peer_memory peer;
    struct window window;
    struct source md;
    uint64_t acked;
    unsigned next[WAYS]; /* next buffer in the ring */
};

/* Maps a ring whose pages the system has not allotted yet. */
static unsigned char *ring(const struct bench *b)
{
    void *memory = b->shared ? selvedge_alloc(b->ring_bytes) : aligned_alloc(PAGE_BYTES, b->ring_bytes);
    if (memory == NULL)
        die("no memory for %zu bytes", b->ring_bytes);
    return memory;
}

static void put_one(struct bench *b, size_t offset, size_t bytes)
{
    CHECK(PtlPut(b->md.md, offset, bytes, PTL_CT_ACK_REQ, b->ni.peers[1], PT_DATA, 0, offset, NULL, 0));
}

static void writev_one(struct bench *b, size_t offset, size_t bytes)
{
    struct iovec from = { b->source + offset, bytes };
    struct iovec to = { (void *)(uintptr_t)(b->peer.ring + offset), bytes };
    while (from.iov_len > 0) {
        ssize_t moved = process_vm_writev((pid_t)b->peer.pid, &from, 1, &to, 1, 0);
        if (moved <= 0)
            die("process_vm_writev failed: %s", strerror(errno));
        from = (struct iovec){ (char *)from.iov_base + moved, from.iov_len - (size_t)moved };
        to = (struct iovec){ (char *)to.iov_base + moved, to.iov_len - (size_t)moved };
    }
}

/* Makes `count` transfers by one way; returns nanoseconds for each. */
static double transfer(struct bench *b, enum way way, size_t bytes, unsigned count)
{
    unsigned buffers = rotation(b->o, bytes);
    uint64_t start = now_ns();
    for (unsigned i = 0; i < count; i++) {
        size_t offset = (size_t)b->next[way] * bytes;
        b->next[way] = (b->next[way] + 1) % buffers;
        switch (way) {
        case PUT: put_one(b, offset, bytes); break;
        case COPY: memcpy(b->destination + offset, b->source + offset, bytes); break;
        default: writev_one(b, offset, bytes); break;
        }
    }
    if (way == PUT) {
        b->acked += count;
        wait_count(b->md.ct, b->acked);
    }
    return (double)(now_ns() - start) / (double)count;
}

/* Whether the system allows writes into the other process. */
static bool writev_allowed(struct bench *b)
{
    struct iovec from = { b->source, 1 }, to = { (void *)(uintptr_t)b->peer.ring, 1 };
    return process_vm_writev((pid_t)b->peer.pid, &from, 1, &to, 1, 0) == 1;
}

static void report(const struct bench *b, const char *name, size_t bytes, struct samples *s)
{
    struct result r = result_new(name, (long long)bytes, NO_NUMBER);
    result_times(&r, s);
    r.bandwidth_Bps = (double)bytes * 1e9 / r.median_ns;
    result_print(b->o, &r);
}

static void measure_size(struct bench *b, size_t bytes, unsigned ways)
{
    unsigned per_sample = bytes < SAMPLE_BYTES ? (unsigned)(SAMPLE_BYTES / bytes) : 1;
    double round_ns = 0;
    for (unsigned w = 0; w < ways; w++) {
        b->next[w] = w * rotation(b->o, bytes) / ways;
        transfer(b, (enum way)w, bytes, rotation(b->o, bytes)); /* once around the ring */
        round_ns += transfer(b, (enum way)w, bytes, per_sample) * per_sample;
    }
    struct plan plan = plan_from(round_ns, b->o->budget_ms, SAMPLES_MIN);
    uint64_t rounds = plan.batches * plan.batch;
    struct samples s[WAYS];
    for (unsigned w = 0; w < ways; w++)
        s[w] = samples_new(rounds);
    for (uint64_t i = 0; i < rounds; i++)
        for (unsigned turn = 0; turn < ways; turn++) {
            /* In alternating order, so that no way always runs after the same other way. */
            unsigned w = i % 2 == 0 ? turn : ways - 1 - turn;
            samples_add(&s[w], transfer(b, (enum way)w, bytes, per_sample));
        }
    const char *names[WAYS] = { b->o->what, b->copy_name, "process_vm_writev" };
    for (unsigned w = 0; w < ways; w++) {
        report(b, names[w], bytes, &s[w]);
        samples_free(&s[w]);
    }
}

/* Both ranks have every ring that the other may address. */
static void open_rings(struct bench *b)
{
    const struct options *o = b->o;
    for (unsigned i = 0; i < o->sizes_count; i++) {
        size_t bytes = rotation(o, o->sizes_bytes[i]) * o->sizes_bytes[i];
        b->ring_bytes = bytes > b->ring_bytes ? bytes : b->ring_bytes;
    }
    if (b->ni.rank == 0)
        b->source = ring(b);
    b->destination = ring(b);
    for (size_t at = 0; at < b->ring_bytes; at += PIECE_BYTES) {
        memset(b->destination + at, 1, b->ring_bytes - at < PIECE_BYTES ? b->ring_bytes - at : PIECE_BYTES);
        barrier();
    }
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* needed where Yama restricts writes into other processes */
    struct peer_memory mine = { (uint64_t)getpid(), (uint64_t)(uintptr_t)b->destination };
    struct peer_memory all[2];
    if (selvedge_exchange(&mine, sizeof mine, all) != 0)
        die("the exchange failed");
    b->peer = all[1];
}

static void mark(unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(i * 13 + i / PAGE_BYTES);
}

/* Rank 1 checks the bytes of the last size. The whole ring was put at least once. */
static void verify(const struct bench *b)
{
    size_t last = b->o->sizes_bytes[b->o->sizes_count - 1];
    size_t end = rotation(b->o, last) * last;
    for (size_t i = 0; i < end; i++)
        if (b->destination[i] != (unsigned char)(i * 13 + i / PAGE_BYTES))
            die("byte %zu arrived wrong", i);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = { .o = &o, .shared = true, .copy_name = "memcpy_shared" };
    if (strcmp(o.what, "bandwidth_shared_hot") == 0) {
        o.ring_bytes = 1; /* the fewest buffers of a ring */
        b.copy_name = "memcpy_shared_hot";
    } else if (strcmp(o.what, "bandwidth_cma") == 0) {
        b.shared = false;
        b.copy_name = "memcpy_ordinary";
    } else if (strcmp(o.what, "bandwidth_shared") != 0) {
        die("no such measurement: '%s'", o.what);
    }
    if (o.sizes_count == 0)
        o.sizes_bytes[o.sizes_count++] = SAMPLE_BYTES;
    b.ni = ni_open(PTL_NI_NO_MATCHING, 0);
    if (b.ni.size != 2)
        die("needs two processes: selvedge run -n 2");
    open_rings(&b);
    if (b.ni.rank == 0) {
        mark(b.source, b.ring_bytes);
        b.md = source_open(&b.ni, b.source, b.ring_bytes, PTL_MD_EVENT_CT_ACK);
    } else {
        b.window = window_open(&b.ni, PT_DATA, b.destination, b.ring_bytes);
    }
    barrier();
    if (b.ni.rank == 0) {
        unsigned ways = b.shared ? 2 : 3;
        if (!b.shared && !writev_allowed(&b)) {
            ways = 2;
            result_skipped(&o, "process_vm_writev", NO_NUMBER, NO_NUMBER, "the system forbids it");
        }
        for (unsigned i = 0; i < o.sizes_count; i++)
            measure_size(&b, o.sizes_bytes[i], ways);
    }
    barrier();
    if (b.ni.rank == 1)
        verify(&b);
    barrier();
    if (b.ni.rank == 0)
        source_close(&b.md);
    else
        window_close(&b.ni, &b.window);
    ni_close(&b.ni);
    return 0;
}
