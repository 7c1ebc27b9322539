/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * overlap_put: PE 0 computes for a second and does not call the library, while PE 1 puts into its memory; ../away.h has the method.
 * PE 1 puts one message after another (shmem_putmem), and a shmem_quiet ends them.
 */
#define _GNU_SOURCE
#include "pe.h"

#include "../away.h"

#include <stdlib.h>
#include <string.h>

#define LEAD_NS 20000000 /* both PEs wait for the start */

struct bench {
    unsigned char *all; /* symmetric */
    unsigned char *out;
};

static void put(void *self, unsigned i)
{
    struct bench *b = self;
    shmem_putmem(message(b->all, i), message(b->out, i), MESSAGE_BYTES, 0);
}

static uint64_t start(void *self)
{
    (void)self;
    return agree(now_ns() + LEAD_NS);
}

static void finish(void *self)
{
    (void)self;
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    struct options o = pe_start(argc, argv);
    if (shmem_n_pes() != 2)
        die("needs two PEs, has %d", shmem_n_pes());
    struct bench b = { .all = symmetric_alloc(MESSAGES * MESSAGE_BYTES), .out = ordinary_alloc(MESSAGES * MESSAGE_BYTES) };
    if (shmem_my_pe() == 1) {
        put(&b, 0); /* connects */
        shmem_quiet();
        messages_fill(b.out);
    }
    shmem_barrier_all();
    memset(b.all, 0, MESSAGES * MESSAGE_BYTES);
    if (shmem_my_pe() == 0) {
        away_measure(&o, OURS "overlap_put", b.all, &b, start, finish);
    } else {
        messages_send(start(&b), &b, put, NULL);
        shmem_quiet();
        finish(&b);
    }
    shmem_barrier_all();
    shmem_free(b.all);
    free(b.out);
    pe_end();
}
