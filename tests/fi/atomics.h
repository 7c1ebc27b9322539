/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Setup of the cases about atomic operations: a pair of endpoints, and memory of one that the other may change. */
#ifndef FI_TESTS_ATOMICS_H
#define FI_TESTS_ATOMICS_H

#include "suite.h"

#define WANTS (struct wants){.caps = FI_MSG | FI_RMA | FI_ATOMIC}
#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))

struct setup {
    struct pair p;
    char *memory;
    struct region region;
};

static inline struct setup setup_open(void)
{
    struct setup b = {.p = pair_open(WANTS)};
    b.memory = buffer(65536);
    b.region = region_over(b.p.b, b.memory, 65536, ACCESS_ALL);
    return b;
}

#endif
