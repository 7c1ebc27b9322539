/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A table of the routines that move contiguous elements, each under its own name: every type, every size and `mem`, with a
 * context (the default one) and without. The including file defines SUFFIX first: nothing, or _nbi.
 */
#ifndef SHMEM_TESTS_BLOCKS_H
#define SHMEM_TESTS_BLOCKS_H

#include "elements.h"

#define PASTE_NOW(a, b) a##b
#define PASTE(a, b) PASTE_NOW(a, b)

typedef void block_fn(void *dest, const void *source, size_t nelems, int pe);

struct block_verbs {
    struct element element;
    const char *form;
    block_fn *put, *get;
};

#define BLOCK_THUNKS(NAME, PUT, GET, CTX_PUT, CTX_GET)                                                                \
    static void put_##NAME(void *dest, const void *source, size_t n, int pe) { PASTE(PUT, SUFFIX)(dest, source, n, pe); } \
    static void get_##NAME(void *dest, const void *source, size_t n, int pe) { PASTE(GET, SUFFIX)(dest, source, n, pe); } \
    static void ctx_put_##NAME(void *dest, const void *source, size_t n, int pe)                                      \
    {                                                                                                                 \
        PASTE(CTX_PUT, SUFFIX)(SHMEM_CTX_DEFAULT, dest, source, n, pe);                                               \
    }                                                                                                                 \
    static void ctx_get_##NAME(void *dest, const void *source, size_t n, int pe)                                      \
    {                                                                                                                 \
        PASTE(CTX_GET, SUFFIX)(SHMEM_CTX_DEFAULT, dest, source, n, pe);                                               \
    }

#define TYPED_THUNKS(NAME, TYPE) \
    BLOCK_THUNKS(NAME, shmem_##NAME##_put, shmem_##NAME##_get, shmem_ctx_##NAME##_put, shmem_ctx_##NAME##_get)
#define SIZED_THUNKS(SIZE, TYPE) \
    BLOCK_THUNKS(SIZE, shmem_put##SIZE, shmem_get##SIZE, shmem_ctx_put##SIZE, shmem_ctx_get##SIZE)

RMA_TYPES(TYPED_THUNKS)
RMA_SIZES(SIZED_THUNKS)
BLOCK_THUNKS(mem, shmem_putmem, shmem_getmem, shmem_ctx_putmem, shmem_ctx_getmem)

#define TYPED_ROWS(NAME, TYPE)                                    \
    {ELEMENT(NAME, TYPE), "", put_##NAME, get_##NAME},            \
    {ELEMENT(NAME, TYPE), "ctx ", ctx_put_##NAME, ctx_get_##NAME},
#define SIZED_ROWS(SIZE, TYPE)                                    \
    {ELEMENT_##SIZE, "", put_##SIZE, get_##SIZE},                 \
    {ELEMENT_##SIZE, "ctx ", ctx_put_##SIZE, ctx_get_##SIZE},

static const struct block_verbs blocks[] = {
    RMA_TYPES(TYPED_ROWS)
    RMA_SIZES(SIZED_ROWS)
    {ELEMENT_MEM, "", put_mem, get_mem},
    {ELEMENT_MEM, "ctx ", ctx_put_mem, ctx_get_mem},
};

enum { BLOCKS = sizeof blocks / sizeof blocks[0] };

/* Every row has its own slot in a buffer, so that one barrier serves all of them. */
enum { SLOT_ELEMENTS = 80, SLOT_BYTES = SLOT_ELEMENTS * 16, SLOTS_BYTES = BLOCKS * SLOT_BYTES };

static inline void *slot(void *buffer, int row) { return (unsigned char *)buffer + (size_t)row * SLOT_BYTES; }

/* Runs the body for each row, with `b` its verbs, `e` its element and `row` its number. */
#define FOR_EACH_BLOCK(b, e, row)                                                                      \
    for (int row = 0; row < BLOCKS; row++)                                                             \
        for (const struct block_verbs *b = &blocks[row]; b != NULL; b = NULL)                          \
            for (const struct element *e = (about("%s%s", b->form, b->element.name), &b->element); e != NULL; e = NULL)

#endif
