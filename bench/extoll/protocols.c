/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Protocols of MPI over the EXTOLL units, as in figures 9-7 and 9-8 of seed 002, and the overlap of figure 9-6.
 *   extoll_protocol_tiny     half a round trip: one VELO message with a header of 8 bytes (section 8.6)
 *   extoll_protocol_small    several VELO messages, the first with the header
 *   extoll_protocol_medium   a copy, a put of header and payload into a ring at the target with a completer notification, a copy. A
 *                            notification put reports when half of the ring has been read
 *   extoll_protocol_long     a VELO message with the address; the target gets the payload straight into the receive buffer, and the
 *                            responder's notification ends the send. Memory is registered beforehand, as in the text
 *   extoll_overlap_put, extoll_overlap_get, and the same _host   a put or get between two fences; before the second fence its initiator
 *                            computes for as long as the whole takes without computing. A fence is a mutual immediate put
 *                            (section 8.6). With :alone behind the name it is the time without computing. If their ratio is 1, all of the
 *                            computing is hidden, if it is 2, nothing: the overlap of figure 9-6 is 2 less the ratio
 *
 * Invariants: 1. bytes are checked after the timed part. 2. With and without computing alternate from one step to the next.
 */
#define _GNU_SOURCE
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 8, RING_BYTES_MIN = 512 << 10, LINE = CACHE_LINE_BYTES, FREED = 9, REQUEST_BYTES = 16 };

/* ---- protocols ---- */

struct header {
    uint32_t tag, bytes;
};

/* State of a protocol's program: ordinary memory, and, for the medium protocol, both ends of a ring. */
static unsigned char *source, *sink;
static size_t ring_bytes, ring_at, ring_used, read_at, read_bytes;

static struct header header_of(const struct bench *b) { return (struct header){ (uint32_t)b->round, (uint32_t)b->bytes }; }

/* Matches a posted receive: the next message is the one that it waits for. */
static void match(const struct bench *b, const void *found)
{
    struct header wanted = header_of(b);
    if (memcmp(found, &wanted, sizeof wanted) != 0)
        die("a message with a wrong tag or size");
}

static void velo_send(struct bench *b, const void *bytes, size_t count, unsigned mtt)
{
    velo2_ret_t code;
    /* The receiver may be descheduled for long where cores are shared. */
    while ((code = velo2_send(&b->connection, bytes, (unsigned)count, 0, mtt)) == VELO2_RET_TRY_AGAIN)
        ;
    OK(code);
}

/* Tiny is small with one message. */
static void small_send(struct bench *b)
{
    unsigned char first[VELO2_MTU];
    struct header header = header_of(b);
    size_t most = VELO2_MTU - HEADER_BYTES, count = b->bytes < most ? b->bytes : most;
    memcpy(first, &header, HEADER_BYTES);
    memcpy(first + HEADER_BYTES, source, count);
    velo_send(b, first, HEADER_BYTES + count, b->bytes > most);
    for (size_t at = count; at < b->bytes; at += VELO2_MTU)
        velo_send(b, source + at, b->bytes - at < VELO2_MTU ? b->bytes - at : VELO2_MTU, 1);
}

static void small_receive(struct bench *b)
{
    unsigned char first[VELO2_MTU];
    uint32_t length, from;
    OK(velo2_recv(&b->mailbox, first, sizeof first, &length, &from, NULL, NULL));
    match(b, first);
    size_t at = length - HEADER_BYTES;
    memcpy(sink, first + HEADER_BYTES, at);
    for (; at < b->bytes; at += length)
        OK(velo2_recv(&b->mailbox, sink + at, VELO2_MTU, &length, &from, NULL, NULL));
}

/* Returns the room of a message in the ring, and its begin. Both ends count alike. */
static size_t place(size_t bytes, size_t *at)
{
    size_t room = (HEADER_BYTES + bytes + LINE - 1) / LINE * LINE;
    if (*at + room > ring_bytes)
        *at = 0;
    return room;
}

/* Takes a notification. True: that of a message; false: the peer has read a part of the ring. */
static bool take_notification(struct bench *b)
{
    RMA2_Notification *notification;
    OK(rma2_noti_get_block(b->port, &notification));
    bool is_message = rma2_noti_get_cmd(notification) != RMA2_NOTIFICATION_PUT;
    if (rma2_noti_get_error(notification))
        die("a put was refused");
    if (!is_message)
        ring_used -= rma2_noti_get_notiput_payload(notification);
    OK(rma2_noti_free(b->port, notification));
    return is_message;
}

/* The copy for the put has the same place as in the ring, so both are free again at the same time. */
static void medium_send(struct bench *b)
{
    size_t room = place(b->bytes, &ring_at);
    while (ring_used + room > ring_bytes / 2)
        if (take_notification(b))
            die("a message arrived before the ring had room");
    struct header header = header_of(b);
    memcpy(b->memory + ring_at, &header, HEADER_BYTES);
    memcpy(b->memory + ring_at + HEADER_BYTES, source, b->bytes);
    OK(rma2_post_put_bt(b->port, b->handle, b->region, (uint32_t)ring_at, (uint32_t)(HEADER_BYTES + b->bytes), b->there + b->half_bytes + ring_at,
        RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    ring_at += room;
    ring_used += room;
}

static void medium_receive(struct bench *b)
{
    while (!take_notification(b))
        ;
    size_t room = place(b->bytes, &read_at);
    match(b, arrives(b) + read_at);
    memcpy(sink, arrives(b) + read_at + HEADER_BYTES, b->bytes);
    read_at += room;
    read_bytes += room;
    if (read_bytes >= ring_bytes / 4) {
        OK(rma2_post_notification(b->port, b->handle, FREED, read_bytes, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        read_bytes = 0;
    }
}

static void await_of(struct bench *b, RMA2_Command command, RMA2_Notification_Spec unit)
{
    RMA2_Notification *notification;
    OK(rma2_noti_match_block(b->port, command, RMA2_NODEID_ANY, RMA2_VPID_ANY, unit, RMA2_ANY_NLA, 0, &notification));
    if (rma2_noti_get_error(notification))
        die("a command was refused");
    OK(rma2_noti_free(b->port, notification));
}

static void long_send(struct bench *b)
{
    unsigned char request[REQUEST_BYTES];
    struct header header = header_of(b);
    RMA2_NLA nla;
    OK(rma2_get_nla(b->region, 0, &nla));
    memcpy(request, &header, HEADER_BYTES);
    memcpy(request + HEADER_BYTES, &nla, sizeof nla);
    velo_send(b, request, sizeof request, 2);
    /* The responder's notification reports that the buffer has been read. */
    await_of(b, RMA2_BT_GET, RMA2_RESPONDER_NOTIFICATION);
}

static void long_receive(struct bench *b)
{
    unsigned char request[REQUEST_BYTES];
    uint32_t length, from;
    RMA2_NLA nla;
    OK(velo2_recv(&b->mailbox, request, sizeof request, &length, &from, NULL, NULL));
    match(b, request);
    memcpy(&nla, request + HEADER_BYTES, sizeof nla);
    OK(rma2_post_get_bt(b->port, b->handle, b->region, (uint32_t)b->half_bytes, (uint32_t)b->bytes, nla,
        RMA2_COMPLETER_NOTIFICATION | RMA2_RESPONDER_NOTIFICATION, RMA2_CMD_DEFAULT));
    await_of(b, RMA2_GET_BT_RSP, RMA2_COMPLETER_NOTIFICATION);
}

PINGPONG(small_steps, small_send, small_receive)
PINGPONG(medium_steps, medium_send, medium_receive)
PINGPONG(long_steps, long_send, long_receive)

/* Measures a protocol for every size up to `most`. `is_direct`: the message is sent from registered memory, and arrives there. */
static void protocol(struct bench *b, void (*steps)(void *, uint64_t), size_t most, bool is_direct)
{
    source = ordinary_alloc(b->half_bytes);
    sink = ordinary_alloc(b->half_bytes);
    ring_bytes = b->half_bytes;
    for (unsigned i = 0; i < b->o->sizes_count && b->o->sizes_bytes[i] <= most; i++) {
        b->bytes = b->o->sizes_bytes[i];
        unsigned char *end = is_direct ? arrives(b) : sink;
        fill(b, (unsigned)b->rank + i);
        memcpy(source, b->memory, b->bytes);
        memset(end, 0, b->bytes);
        barrier();
        report(b, b->o->what, steps, 2.0, TIME);
        verify(b, end, (unsigned)b->peer + i);
        barrier();
    }
    free(source);
    free(sink);
}

/* ---- overlap ---- */

static void fence(struct bench *b)
{
    OK(rma2_post_immediate_put(b->port, b->handle, 8, ++b->round, b->there + 2 * b->half_bytes, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    await_of(b, RMA2_IMMEDIATE_PUT, RMA2_COMPLETER_NOTIFICATION);
}

static void compute(double ns)
{
    for (uint64_t start = now_ns(); (double)(now_ns() - start) < ns;)
        cpu_relax();
}

/* Returns rank 0's time from the put or get to the end of the second fence, with `computing_ns` of computing in between. */
static double overlapped(struct bench *b, bool is_get, double computing_ns)
{
    fence(b);
    uint64_t start = now_ns();
    if (b->rank == 0) {
        uint32_t bytes = (uint32_t)b->bytes, half = (uint32_t)b->half_bytes;
        if (is_get)
            OK(rma2_post_get_bt(b->port, b->handle, b->region, half, bytes, b->there, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        else
            OK(rma2_post_put_bt(b->port, b->handle, b->region, 0, bytes, b->there + half, RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
        compute(computing_ns);
        if (is_get)
            await_of(b, RMA2_GET_BT_RSP, RMA2_COMPLETER_NOTIFICATION);
        else
            await_of(b, RMA2_BT_PUT, RMA2_REQUESTER_NOTIFICATION);
    }
    fence(b);
    return (double)(now_ns() - start);
}

static void overlap(struct bench *b, bool is_get, const char *alone_name)
{
    enum { FIRST = 100, LEAST = 50 };
    for (unsigned i = 0; i < b->o->sizes_count; i++) {
        b->bytes = b->o->sizes_bytes[i];
        fill(b, (unsigned)b->rank + i);
        memset(arrives(b), 0, b->bytes);
        barrier();
        struct samples alone = samples_new(FIRST);
        for (unsigned k = 0; k < 3 * FIRST; k++) {
            double whole_ns = overlapped(b, is_get, 0);
            /* The first steps warm up. */
            if (k >= 2 * FIRST)
                samples_add(&alone, whole_ns);
        }
        double computing_ns = samples_quantile(&alone, 0.5);
        samples_free(&alone);
        /* A pair of steps takes three times as long. */
        double pairs = b->o->budget_ms * 1e6 / (3 * computing_ns + 1);
        uint64_t count = agree(pairs < LEAST ? LEAST : (uint64_t)pairs);
        computing_ns = (double)agree((uint64_t)computing_ns);
        alone = samples_new(count);
        struct samples with = samples_new(count);
        for (uint64_t k = 0; k < count; k++) {
            samples_add(&alone, overlapped(b, is_get, 0));
            samples_add(&with, overlapped(b, is_get, computing_ns));
        }
        if (b->rank == (is_get ? 0 : 1))
            verify(b, arrives(b), (unsigned)b->peer + i);
        if (b->rank == 0) {
            struct result r = result_new(alone_name, (long long)b->bytes, NO_NUMBER);
            result_times(&r, &alone);
            result_print(b->o, &r);
            r = result_new(b->o->what, (long long)b->bytes, NO_NUMBER);
            result_times(&r, &with);
            result_print(b->o, &r);
        }
        samples_free(&alone);
        samples_free(&with);
        barrier();
    }
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    struct bench b = bench_open(&o, RING_BYTES_MIN);
    const char *what = o.what;
    if (strcmp(what, "extoll_protocol_tiny") == 0)
        protocol(&b, small_steps, VELO2_MTU - HEADER_BYTES, false);
    else if (strcmp(what, "extoll_protocol_small") == 0)
        protocol(&b, small_steps, SIZE_MAX, false);
    else if (strcmp(what, "extoll_protocol_medium") == 0)
        protocol(&b, medium_steps, b.half_bytes / 4, false);
    else if (strcmp(what, "extoll_protocol_long") == 0)
        protocol(&b, long_steps, SIZE_MAX, true);
    else if (strncmp(what, "extoll_overlap_", 15) == 0) {
        char alone[64];
        snprintf(alone, sizeof alone, "%s:alone", what);
        overlap(&b, strncmp(what + 15, "get", 3) == 0, alone);
    } else
        die("unknown measurement '%s'", what);
    bench_close(&b);
    return 0;
}
