/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * protocols: protocols that carry a two-sided message over Portals, after sections 2.5 and 3.3.1 of "Accelerating
 * Intercommunication in Highly Parallel Systems" (figures 3 and 8). Rank 0 sends, rank 1 receives.
 *
 *   eager                  the sender puts the whole message. If no receive is posted yet, the overflow list either
 *                          has bounce space, from which the receiver copies, or keeps the header alone, and the
 *                          receiver gets the payload from the sender.
 *   rendezvous             the sender puts the first EAGER_LIMIT bytes and exposes the message; the receiver's program
 *                          sees the header and gets the rest.
 *   triggered rendezvous   the receive is posted together with a get that is triggered by the first EAGER_LIMIT + 1
 *                          bytes: the NIC gets the rest without the receiver's program. A message of up to EAGER_LIMIT
 *                          bytes never reaches the threshold, and the get is cancelled.
 *
 *     selvedge run -n 2 build/examples/protocols [repetitions]
 *
 * Each row is a protocol, each column a message size. The entry is the median time at the sender, from its first call
 * until it knows that the receiver has every byte. The rows "unexpected" also contain the acknowledgement and the signal
 * after which the receiver posts. Payloads differ each time. A checksum, which travels with the length in the 64 bits of
 * header data, checks them. Exits non-zero when one is wrong.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "portals4.h"
#include "selvedge.h"

#define EAGER_LIMIT  4096u
#define CAPACITY     (1u << 20) /* bytes of a posted receive */
#define BOUNCE_BYTES (2u << 20) /* bytes in one bounce block */
#define BLOCKS       2
#define WARM_UP      3

enum {
    PT_CONTROL, /* messages without bytes, counted: "ready", "go", "done" */
    PT_BOUNCE,  /* receives; bounce blocks on the overflow list */
    PT_HEADERS, /* receives; an entry without memory on the overflow list */
    PT_PULL,    /* messages that the sender exposes */
    PT_COUNT
};

struct protocol {
    const char    *name;
    ptl_pt_index_t pt;        /* where the receive is posted */
    uint32_t       head;      /* the most bytes that the put carries */
    bool           expected;  /* the receive is posted before the message is sent */
    bool           triggered; /* by a triggered get */
};

static const struct protocol protocols[] = {
    {"eager, expected", PT_BOUNCE, CAPACITY, true, false},
    {"eager, unexpected, bounce space", PT_BOUNCE, CAPACITY, false, false},
    {"eager, unexpected, header only", PT_HEADERS, CAPACITY, false, false},
    {"rendezvous, expected", PT_BOUNCE, EAGER_LIMIT, true, false},
    {"rendezvous, unexpected", PT_BOUNCE, EAGER_LIMIT, false, false},
    {"triggered rendezvous, expected", PT_BOUNCE, EAGER_LIMIT + 1, true, true},
    {"triggered rendezvous, unexpected", PT_BOUNCE, EAGER_LIMIT + 1, false, true},
};
static const uint32_t sizes[] = {64, 1024, 4096, 16384, 131072, CAPACITY};

#define PROTOCOLS ((int)(sizeof protocols / sizeof *protocols))
#define SIZES     ((int)(sizeof sizes / sizeof *sizes))

#define TRY(call)                                                                                             \
    do {                                                                                                      \
        int code_ = (call);                                                                                   \
        if (code_ != PTL_OK) {                                                                                \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, code_);                         \
            selvedge_abort(1, #call);                                                                         \
        }                                                                                                     \
    } while (0)

/* Bounce space: messages are packed into a block. A full block unlinks itself, and is linked again when all of it is claimed. */
struct block {
    void           *memory;
    ptl_handle_me_t entry;
    bool            linked;
};

struct endpoint {
    ptl_handle_ni_t ni;
    ptl_process_t   peer;
    ptl_handle_eq_t targets;     /* events of this rank's entries */
    ptl_handle_eq_t initiations; /* events of this rank's puts and gets */
    uint64_t       *message;     /* CAPACITY bytes: payload at rank 0, receive buffer at rank 1 */
    ptl_handle_md_t message_md, nothing_md;
    ptl_handle_ct_t control;     /* control messages that have arrived */
    uint64_t        control_seen;
    ptl_handle_ct_t landed;      /* bytes that have arrived in the posted receive, for triggered rendezvous */
    ptl_handle_me_t control_entry, headers_entry;
    struct block    blocks[BLOCKS];
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- Payload ---------------------------------------------------------------------------------------- */

static void fill(uint64_t *words, uint32_t bytes, uint64_t seed)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (uint32_t i = 0; i < bytes / 8; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        words[i] = x;
    }
}

static uint32_t checksum(const uint64_t *words, uint32_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ bytes;
    for (uint32_t i = 0; i < bytes / 8; i++) {
        h = (h ^ words[i]) * UINT64_C(0x100000001b3);
        h ^= h >> 29;
    }
    return (uint32_t)(h ^ h >> 32);
}

/* ---- Events ----------------------------------------------------------------------------------------- */

static void control_send(struct endpoint *e)
{
    TRY(PtlPut(e->nothing_md, 0, 0, PTL_NO_ACK_REQ, e->peer, PT_CONTROL, 0, 0, NULL, 0));
}

static void control_wait(struct endpoint *e)
{
    ptl_ct_event_t value;
    TRY(PtlCTWait(e->control, ++e->control_seen, &value));
    if (value.failure != 0)
        selvedge_abort(1, "a control message failed");
}

/* Links a block to the overflow list. note_block gets its PTL_EVENT_LINK. */
static void append_block(struct endpoint *e, struct block *block)
{
    ptl_me_t me = {
        .start       = block->memory,
        .length      = BOUNCE_BYTES,
        .ct_handle   = PTL_CT_NONE,
        .uid         = PTL_UID_ANY,
        .options     = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_COMM_DISABLE,
        .match_id    = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
        .ignore_bits = ~(ptl_match_bits_t)0,
        .min_free    = CAPACITY,
    };
    TRY(PtlMEAppend(e->ni, PT_BOUNCE, &me, PTL_OVERFLOW_LIST, block, &block->entry));
}

/* Handles an event of a bounce block. False for an event of another entry. */
static bool note_block(struct endpoint *e, const ptl_event_t *event)
{
    for (struct block *block = e->blocks; block < e->blocks + BLOCKS; block++) {
        if (event->user_ptr != block)
            continue;
        if (event->type == PTL_EVENT_LINK)
            block->linked = true;
        else if (event->type == PTL_EVENT_AUTO_UNLINK)
            block->linked = false;
        else if (event->type == PTL_EVENT_AUTO_FREE)
            append_block(e, block); /* every message in it has been copied out */
        return true;
    }
    return false;
}

/* The next event of the queue, which must be of this kind and a success. */
static ptl_event_t await(struct endpoint *e, ptl_handle_eq_t queue, ptl_event_kind_t kind)
{
    ptl_event_t event;
    do
        TRY(PtlEQWait(queue, &event));
    while (note_block(e, &event));
    if (event.type != kind || event.ni_fail_type != PTL_NI_OK) {
        fprintf(stderr, "event %d (failure %d) where %d should be\n", event.type, event.ni_fail_type, kind);
        selvedge_abort(1, "unforeseen event");
    }
    return event;
}

/* ---- Sender ----------------------------------------------------------------------------------------- */

/* Exposes the message to one get of the receiver. */
static void expose(struct endpoint *e, uint32_t bytes, uint64_t tag)
{
    ptl_handle_me_t entry; /* unlinks itself */
    ptl_me_t me = {
        .start      = e->message,
        .length     = bytes,
        .ct_handle  = PTL_CT_NONE,
        .uid        = PTL_UID_ANY,
        .options    = PTL_ME_OP_GET | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE,
        .match_id   = e->peer,
        .match_bits = tag,
    };
    TRY(PtlMEAppend(e->ni, PT_PULL, &me, PTL_PRIORITY_LIST, NULL, &entry));
    await(e, e->targets, PTL_EVENT_LINK);
}

/* Sends one message; returns the microseconds it took. */
static double send_message(struct endpoint *e, const struct protocol *p, uint32_t bytes, uint64_t tag)
{
    fill(e->message, bytes, tag);
    ptl_hdr_data_t header = (uint64_t)bytes << 32 | checksum(e->message, bytes);
    uint32_t head = bytes < p->head ? bytes : p->head;
    bool pulled = head < bytes || p->pt == PT_HEADERS;
    if (p->expected)
        control_wait(e); /* ready: the receive is posted */

    double start_us = now_us();
    if (pulled)
        expose(e, bytes, tag); /* linked before the put, which may trigger the get */
    TRY(PtlPut(e->message_md, 0, head, PTL_ACK_REQ, e->peer, p->pt, tag, 0, NULL, header));
    ptl_event_t ack = await(e, e->initiations, PTL_EVENT_ACK);
    if (ack.mlength != (p->pt == PT_HEADERS ? 0 : head))
        selvedge_abort(1, "the put was not delivered as it should be");
    if (!p->expected)
        control_send(e); /* go: the message has arrived */
    if (pulled)
        await(e, e->targets, PTL_EVENT_GET); /* the buffer is free again */
    control_wait(e);                         /* done */
    return now_us() - start_us;
}

/* ---- Receiver --------------------------------------------------------------------------------------- */

/* Posts the receive, with the triggered get where the protocol has one. */
static void post_receive(struct endpoint *e, const struct protocol *p, uint64_t tag)
{
    const ptl_ct_event_t zero = {0, 0};
    ptl_handle_me_t entry; /* unlinks itself */
    ptl_me_t me = {
        .start      = e->message,
        .length     = CAPACITY,
        .ct_handle  = PTL_CT_NONE,
        .uid        = PTL_UID_ANY,
        .options    = PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE,
        .match_id   = e->peer,
        .match_bits = tag,
    };
    if (p->triggered) {
        TRY(PtlCTSet(e->landed, zero));
        me.ct_handle = e->landed;
        me.options |= PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_CT_BYTES;
    }
    TRY(PtlMEAppend(e->ni, p->pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
    if (p->triggered) /* asks for as much as fits; the sender's entry ends with the message */
        TRY(PtlTriggeredGet(e->message_md, p->head, CAPACITY - p->head, e->peer, PT_PULL, tag, p->head, NULL, e->landed,
                            p->head));
}

static void receive_message(struct endpoint *e, const struct protocol *p, uint64_t tag)
{
    ptl_event_t event;
    if (p->expected) {
        post_receive(e, p, tag);
        await(e, e->targets, PTL_EVENT_LINK);
        control_send(e); /* ready */
        event = await(e, e->targets, PTL_EVENT_PUT);
    } else {
        control_wait(e); /* go: the message is on the unexpected list */
        post_receive(e, p, tag);
        event = await(e, e->targets, PTL_EVENT_PUT_OVERFLOW);
        memcpy(e->message, event.start, event.mlength); /* no bytes when only the header was kept */
    }

    uint32_t bytes = (uint32_t)(event.hdr_data >> 32), here = (uint32_t)event.mlength;
    if (here < bytes) {
        if (!p->triggered)
            TRY(PtlGet(e->message_md, here, bytes - here, e->peer, PT_PULL, tag, here, NULL));
        ptl_event_t reply = await(e, e->initiations, PTL_EVENT_REPLY);
        if (reply.mlength != bytes - here)
            selvedge_abort(1, "the rest of the message has the wrong length");
    } else if (p->triggered) {
        TRY(PtlCTCancelTriggered(e->landed));
    }
    control_send(e); /* done */

    if (checksum(e->message, bytes) != (uint32_t)event.hdr_data) {
        fprintf(stderr, "%s, %u bytes: wrong checksum\n", p->name, bytes);
        selvedge_abort(1, "wrong data");
    }
}

/* ---- Start and end ---------------------------------------------------------------------------------- */

static void *shared(size_t bytes)
{
    void *memory = selvedge_alloc(bytes);
    if (memory == NULL)
        selvedge_abort(1, "no shared memory left");
    memset(memory, 0, bytes);
    return memory;
}

/* A persistent entry without memory: it only counts, or only keeps headers. */
static ptl_handle_me_t append_empty(struct endpoint *e, ptl_pt_index_t pt, ptl_list_t list, ptl_handle_ct_t counter)
{
    ptl_handle_me_t entry;
    ptl_me_t me = {
        .ct_handle   = counter,
        .uid         = PTL_UID_ANY,
        .options     = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_CT_COMM,
        .match_id    = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
        .ignore_bits = ~(ptl_match_bits_t)0,
    };
    TRY(PtlMEAppend(e->ni, pt, &me, list, NULL, &entry));
    await(e, e->targets, PTL_EVENT_LINK);
    return entry;
}

static void open_endpoint(struct endpoint *e)
{
    int rank = selvedge_rank();
    ptl_pt_index_t index;
    ptl_process_t id, *ids = calloc((size_t)selvedge_size(), sizeof *ids);
    if (ids == NULL)
        selvedge_abort(1, "out of memory");
    TRY(PtlInit());
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &e->ni));
    TRY(PtlGetPhysId(e->ni, &id));
    TRY(selvedge_exchange(&id, sizeof id, ids));
    e->peer = ids[rank == 0 ? 1 : 0];
    free(ids);

    TRY(PtlEQAlloc(e->ni, 64, &e->targets));
    TRY(PtlEQAlloc(e->ni, 64, &e->initiations));
    TRY(PtlCTAlloc(e->ni, &e->control));
    TRY(PtlCTAlloc(e->ni, &e->landed));
    for (ptl_pt_index_t pt = 0; pt < PT_COUNT; pt++)
        TRY(PtlPTAlloc(e->ni, 0, e->targets, pt, &index));
    e->message = shared(CAPACITY);
    ptl_md_t message = {e->message, CAPACITY, PTL_MD_EVENT_SEND_DISABLE, e->initiations, PTL_CT_NONE};
    ptl_md_t nothing = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
    TRY(PtlMDBind(e->ni, &message, &e->message_md));
    TRY(PtlMDBind(e->ni, &nothing, &e->nothing_md));
    e->control_entry = append_empty(e, PT_CONTROL, PTL_PRIORITY_LIST, e->control);
    e->headers_entry = append_empty(e, PT_HEADERS, PTL_OVERFLOW_LIST, PTL_CT_NONE);
    for (struct block *block = e->blocks; block < e->blocks + BLOCKS; block++) {
        ptl_event_t event;
        block->memory = shared(BOUNCE_BYTES);
        append_block(e, block);
        TRY(PtlEQWait(e->targets, &event));
        if (!note_block(e, &event) || !block->linked)
            selvedge_abort(1, "a bounce block was not linked");
    }
}

static void close_endpoint(struct endpoint *e)
{
    ptl_event_t event;
    while (PtlEQGet(e->targets, &event) == PTL_OK) /* blocks that were linked again since then */
        if (!note_block(e, &event))
            selvedge_abort(1, "an event was left over");
    for (struct block *block = e->blocks; block < e->blocks + BLOCKS; block++) {
        if (!block->linked)
            selvedge_abort(1, "a bounce block was lost");
        TRY(PtlMEUnlink(block->entry));
        selvedge_free(block->memory);
    }
    TRY(PtlMEUnlink(e->control_entry));
    TRY(PtlMEUnlink(e->headers_entry));
    for (ptl_pt_index_t pt = 0; pt < PT_COUNT; pt++)
        TRY(PtlPTFree(e->ni, pt));
    TRY(PtlMDRelease(e->message_md));
    TRY(PtlMDRelease(e->nothing_md));
    selvedge_free(e->message);
    TRY(PtlCTFree(e->control));
    TRY(PtlCTFree(e->landed));
    TRY(PtlEQFree(e->targets));
    TRY(PtlEQFree(e->initiations));
    TRY(PtlNIFini(e->ni));
    PtlFini();
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Every protocol with every size; rank 0 prints a row for each protocol. */
static void run_all(struct endpoint *e, int rank, int repetitions)
{
    double *us = calloc((size_t)repetitions, sizeof *us);
    if (us == NULL)
        selvedge_abort(1, "out of memory");
    if (rank == 0) {
        printf("median microseconds per message; eager limit %u bytes\n%-34s", EAGER_LIMIT, "bytes");
        for (int s = 0; s < SIZES; s++)
            printf(" %9u", sizes[s]);
        printf("\n");
    }
    uint64_t tag = 1; /* a different one for each message */
    for (const struct protocol *p = protocols; p < protocols + PROTOCOLS; p++) {
        if (rank == 0)
            printf("%-34s", p->name);
        for (int s = 0; s < SIZES; s++) {
            for (int i = -WARM_UP; i < repetitions; i++, tag++) {
                if (rank == 1) {
                    receive_message(e, p, tag);
                    continue;
                }
                double took_us = send_message(e, p, sizes[s], tag);
                if (i >= 0)
                    us[i] = took_us;
            }
            if (rank == 0) {
                qsort(us, (size_t)repetitions, sizeof *us, by_value);
                printf(" %9.2f", us[repetitions / 2]);
            }
        }
        if (rank == 0) {
            printf("\n");
            fflush(stdout);
        }
    }
    free(us);
}

int main(int argc, char **argv)
{
    int repetitions = argc > 1 ? atoi(argv[1]) : 50;
    TRY(selvedge_init());
    int rank = selvedge_rank();
    if (selvedge_size() < 2 || repetitions < 1) {
        fprintf(stderr, "usage: selvedge run -n 2 build/examples/protocols [repetitions]\n");
        return 1;
    }
    struct endpoint e = {0};
    open_endpoint(&e);
    TRY(selvedge_barrier()); /* every persistent entry is linked before the first put */
    if (rank < 2)
        run_all(&e, rank, repetitions);
    TRY(selvedge_barrier()); /* the last control message is received before anything is closed */
    close_endpoint(&e);
    selvedge_finalize();
    return 0;
}
