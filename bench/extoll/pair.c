/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Two processes, their ports and their memory; see pair.h. */
#include "pair.h"

#include <stdlib.h>
#include <string.h>

uint64_t agree(uint64_t mine)
{
    uint64_t all[2];
    OK(velorun_exchange(&mine, sizeof mine, all));
    return all[0];
}

void barrier(void) { OK(velorun_barrier()); }

unsigned char *arrives(const struct bench *b) { return b->memory + b->half_bytes; }

void fill(struct bench *b, unsigned seed)
{
    for (size_t i = 0; i < b->bytes; i++)
        b->memory[i] = (unsigned char)(i * 7 + seed);
}

void verify(const struct bench *b, const unsigned char *memory, unsigned seed)
{
    for (size_t i = 0; i < b->bytes; i++)
        if (memory[i] != (unsigned char)(i * 7 + seed))
            die("byte %zu of %zu arrived wrong", i, b->bytes);
}

void await(struct bench *b, RMA2_Notification_Spec unit)
{
    RMA2_Notification *notification;
    OK(rma2_noti_get_block(b->port, &notification));
    if (rma2_noti_get_notification_type(notification) != unit || rma2_noti_get_error(notification))
        die("unexpected kind of notification");
    OK(rma2_noti_free(b->port, notification));
}

void report(struct bench *b, const char *name, void (*steps)(void *, uint64_t), double per_step, enum figures figures)
{
    struct samples s = exchange_measure(&(struct exchange){ steps, b }, b->o, b->rank, per_step);
    if (b->rank == 0) {
        struct result r = result_new(name, b->bytes == 0 ? NO_NUMBER : (long long)b->bytes, NO_NUMBER);
        result_times(&r, &s);
        if (figures == RATE)
            r.rate_per_s = 1e9 / r.median_ns;
        if (figures == BANDWIDTH)
            r.bandwidth_Bps = (double)b->bytes * 1e9 / r.median_ns;
        result_print(b->o, &r);
    }
    samples_free(&s);
    barrier();
}

struct bench bench_open(const struct options *o, size_t half_bytes)
{
    OK(velorun_init());
    if (velorun_size() != 2)
        die("needs two processes: selvedge run -n 2");
    struct bench b = { .o = o, .rank = velorun_rank(), .peer = 1 - velorun_rank(), .half_bytes = half_bytes };
    for (unsigned i = 0; i < o->sizes_count; i++)
        if (o->sizes_bytes[i] > b.half_bytes)
            b.half_bytes = o->sizes_bytes[i];
    size_t bytes = 2 * b.half_bytes + PAGE_BYTES;
    b.memory = ordinary_alloc(bytes);
    memset(b.memory, 0, bytes);
    OK(rma2_open(&b.port));
    OK(velo2_open(&b.mailbox));
    OK(rma2_register(b.port, b.memory, bytes, &b.region));
    struct address {
        RMA2_NLA nla;
        uint32_t rma, velo;
    } mine = { 0, rma2_get_vpid(b.port), velo2_get_vpid(&b.mailbox) }, all[2];
    OK(rma2_get_nla(b.region, 0, &mine.nla));
    OK(velorun_exchange(&mine, sizeof mine, all));
    b.there = all[b.peer].nla;
    OK(rma2_connect(b.port, (RMA2_Nodeid)b.peer, (RMA2_VPID)all[b.peer].rma, RMA2_CONN_DEFAULT, &b.handle));
    OK(velo2_connect(&b.mailbox, &b.connection, (velo2_nodeid_t)b.peer, all[b.peer].velo));
    return b;
}

void bench_close(struct bench *b)
{
    barrier();
    OK(rma2_unregister(b->port, b->region));
    OK(rma2_close(b->port));
    OK(velo2_close(&b->mailbox));
    velorun_finalize();
}
