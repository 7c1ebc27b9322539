/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The symmetric heap: malloc, calloc, align, realloc, free, hints, and their deprecated names. OpenSHMEM 1.6, "Memory
 * Management Routines". For realloc the standard says that exhaustion is NULL on every PE and leaves the rest usable; here
 * that holds for all of them.
 */
#include "suite.h"

#include <shmemx.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MIB ((size_t)1 << 20)

enum { MAX_ALIGN = _Alignof(max_align_t) };

/* Checks that this PE and a peer can write all of the block: every PE fills the next PE's block. Collective. */
static void check_usable(unsigned char *block, size_t bytes)
{
    CHECK_OP(block, !=, NULL);
    CHECK_EQ((uintptr_t)block % MAX_ALIGN, 0);
    unsigned char *from = local(bytes);
    pattern_fill(from, bytes, (unsigned)me());
    shmem_putmem(block, from, bytes, next_pe());
    barrier();
    CHECK_PATTERN(block, bytes, (unsigned)previous_pe());
    barrier();
}

CASE(blocks_of_any_size, 2, "shmem_malloc: blocks of any size, aligned for any type, apart from each other, reachable",
     .crowded = 5)
{
    static const size_t sizes[] = {1,  2,   7,    8,    15,   16,   17,    63,     64,
                                   65, 100, 1000, 4095, 4096, 4097, 65536, 100001, 3 << 20};
    unsigned char *blocks[COUNT_OF(sizes)];
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        about("%zu bytes", sizes[i]);
        blocks[i] = shmem_malloc(sizes[i]);
        check_usable(blocks[i], sizes[i]);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        CHECK_PATTERN(blocks[i], sizes[i], (unsigned)previous_pe());
        for (size_t k = 0; k < i; k++) CHECK(blocks[i] + sizes[i] <= blocks[k] || blocks[k] + sizes[k] <= blocks[i]);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) shmem_free(blocks[i]);
}

CASE(zero_bytes, 3, "no bytes: NULL from malloc, calloc, align and with_hints, without a barrier")
{
    if (me() == 1) { /* only this PE calls */
        CHECK_PTR(shmem_malloc(0), NULL);
        CHECK_PTR(shmem_calloc(0, 8), NULL);
        CHECK_PTR(shmem_calloc(8, 0), NULL);
        CHECK_PTR(shmem_align(64, 0), NULL);
#if SINCE(1, 5)
        CHECK_PTR(shmem_malloc_with_hints(0, 0), NULL);
#endif
        shmem_free(NULL);
    }
    barrier();
}

CASE(malloc_ends_with_a_barrier, 3, "when shmem_malloc returns, the block can be used at every PE")
{
    for (int i = 0; i < 30; i++) {
        if (i % 3 == me()) sleep_ms(1);
        long *word = shmem_malloc(sizeof *word);
        shmem_long_p(word, i * 10 + me(), next_pe());
        barrier();
        CHECK_EQ(*word, i * 10 + previous_pe());
        shmem_free(word);
    }
}

CASE(free_begins_with_a_barrier, 2, "shmem_free waits for all PEs, and completes puts into the block before it")
{
    enum { BYTES = 100000 };
    unsigned char *from = local(BYTES);
    memset(from, 0x55, BYTES);
    for (int i = 0; i < 20; i++) {
        unsigned char *gone = shmem_malloc(BYTES);
        shmem_putmem_nbi(gone, from, BYTES, next_pe());
        shmem_free(gone);
        unsigned char *next = shmem_calloc(BYTES, 1); /* probably the same memory */
        CHECK_BYTES(next, BYTES, 0);
        shmem_free(next);
    }
}

CASE(calloc_is_zero, 2, "shmem_calloc: all bytes are zero at every PE, also in memory that was used before")
{
    static const size_t shapes[][2] = {{1, 1}, {3, 5}, {1000, 8}, {1, 65536}, {7777, 13}};
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < COUNT_OF(shapes); i++) {
            const size_t bytes = shapes[i][0] * shapes[i][1];
            unsigned char *block = shmem_calloc(shapes[i][0], shapes[i][1]), *got = malloc(bytes);
            CHECK_OP(block, !=, NULL);
            CHECK_OP(got, !=, NULL);
            CHECK_BYTES(block, bytes, 0);
            shmem_getmem(got, block, bytes, next_pe());
            CHECK_BYTES(got, bytes, 0);
            barrier();
            memset(block, 0xaa, bytes);
            shmem_free(block);
            free(got);
        }
}

CASE(alignment, 2, "shmem_align: the address is a multiple of the alignment, from a pointer's size to megabytes")
{
    for (size_t alignment = sizeof(void *); alignment <= 2 * MIB; alignment *= 2) {
        about("alignment %zu", alignment);
        unsigned char *odd = shmem_malloc(24), *block = shmem_align(alignment, 100), *other = shmem_align(alignment, 1);
        CHECK_EQ((uintptr_t)block % alignment, 0);
        CHECK_EQ((uintptr_t)other % alignment, 0);
        check_usable(block, 100);
        shmem_free(odd);
        CHECK_PATTERN(block, 100, (unsigned)previous_pe());
        shmem_free(block);
        shmem_free(other);
    }
}

CASE(hints, 2, "shmem_malloc_with_hints: a block like shmem_malloc's, whatever the hints")
{
#if SINCE(1, 5)
    static const long all[] = {0, SHMEM_MALLOC_ATOMICS_REMOTE, SHMEM_MALLOC_SIGNAL_REMOTE,
                               SHMEM_MALLOC_ATOMICS_REMOTE | SHMEM_MALLOC_SIGNAL_REMOTE};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        long *words = shmem_malloc_with_hints(100 * sizeof *words, all[i]);
        check_usable((unsigned char *)words, 100 * sizeof *words);
        words[0] = 0;
        barrier();
        for (int k = 0; k < 100; k++) shmem_long_atomic_inc(words, next_pe());
        barrier();
        CHECK_EQ(words[0], 100);
        words = shmem_realloc(words, 300 * sizeof *words);
        CHECK_EQ(words[0], 100);
        shmem_free(words);
    }
#endif
}

/* ---- realloc -------------------------------------------------------------------------------------------- */

CASE(realloc_keeps_contents, 2, "shmem_realloc: contents stay up to the lesser size, growing and shrinking",
     .crowded = 4)
{
    static const size_t sizes[] = {10, 100, 99, 5000, 64, 65, 1 << 20, 4096, 3 << 20, 1, 70000};
    size_t before = sizes[0];
    unsigned char *block = shmem_malloc(before), *wall = NULL;
    pattern_fill(block, before, (unsigned)me());
    for (size_t i = 1; i < COUNT_OF(sizes); i++) {
        const size_t lesser = before < sizes[i] ? before : sizes[i];
        about("from %zu to %zu bytes", before, sizes[i]);
        block = shmem_realloc(block, sizes[i]);
        CHECK_OP(block, !=, NULL);
        CHECK_EQ((uintptr_t)block % MAX_ALIGN, 0);
        CHECK_PATTERN(block, lesser, (unsigned)me() + (unsigned)i - 1);
        pattern_fill(block, sizes[i], (unsigned)me() + (unsigned)i);
        before = sizes[i];
        shmem_free(wall);
        wall = shmem_malloc(48); /* another block may follow it */
    }
    shmem_free(wall);
    barrier();
    check_usable(block, before);
    shmem_free(block);
}

CASE(realloc_at_the_ends, 2, "shmem_realloc of NULL is malloc, to no bytes is free")
{
    CHECK_PTR(shmem_realloc(NULL, 0), NULL);
    unsigned char *block = shmem_realloc(NULL, 1000);
    check_usable(block, 1000);
    CHECK_PTR(shmem_realloc(block, 0), NULL);
    for (int i = 0; i < 200; i++) CHECK_PTR(shmem_realloc(shmem_malloc(MIB), 0), NULL); /* it does free */
}

CASE(realloc_that_fails, 2, "shmem_realloc that finds no room: NULL everywhere, the block stays as it was",
     .environment = "SHMEM_SYMMETRIC_SIZE=8M")
{
    unsigned char *block = shmem_malloc(MIB);
    pattern_fill(block, MIB, (unsigned)me());
    barrier();
    CHECK_PTR(shmem_realloc(block, 1000 * MIB), NULL);
    CHECK_PTR(shmem_realloc(block, SIZE_MAX), NULL);
    CHECK_PATTERN(block, MIB, (unsigned)me());
    barrier();
    check_usable(block, MIB);
    shmem_free(block);
}

/* ---- Exhaustion ----------------------------------------------------------------------------------------- */

CASE(sizes_that_cannot_be, 3, "sizes beyond the heap, and products that overflow, give NULL on every PE")
{
    static const size_t sizes[] = {SIZE_MAX,    SIZE_MAX - 15,   SIZE_MAX / 2,
                                   PTRDIFF_MAX, (size_t)1 << 62, (size_t)1 << 50};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        about("%zu bytes", sizes[i]);
        CHECK_PTR(shmem_malloc(sizes[i]), NULL);
        CHECK_PTR(shmem_calloc(1, sizes[i]), NULL);
        CHECK_PTR(shmem_calloc(sizes[i], 1), NULL);
        CHECK_PTR(shmem_calloc(sizes[i], 16), NULL);
        CHECK_PTR(shmem_align(4096, sizes[i]), NULL);
        CHECK_PTR(shmem_realloc(NULL, sizes[i]), NULL);
    }
    CHECK_PTR(shmem_calloc((size_t)1 << 32, (size_t)1 << 32), NULL);
    unsigned char *block = shmem_malloc(100);
    check_usable(block, 100);
    shmem_free(block);
}

CASE(exhaustion, 2,
     "when the heap is full malloc is NULL on every PE; existing blocks stay; freed memory can be allocated again",
     .environment = "SHMEM_SYMMETRIC_SIZE=8M", .crowded = 4)
{
    enum { MOST = 200 };
    const size_t bytes = MIB / 4;
    unsigned char *blocks[MOST];
    long *counted = symmetric(sizeof *counted);
    for (int round = 0; round < 3; round++) {
        int count = 0;
        while (count < MOST && (blocks[count] = shmem_malloc(bytes)) != NULL) {
            pattern_fill(blocks[count], bytes, (unsigned)(me() * MOST + count));
            count++;
        }
        about("round %d, %d blocks", round, count);
        CHECK_OP(count, >=, 24);
        CHECK_OP(count, <, MOST); /* at least 6 MiB; what the library needs itself is not part of them */
        CHECK_PTR(shmem_malloc(bytes), NULL);
        *counted = count;
        shmem_sync_all();
        CHECK_EQ(shmem_long_g(counted, next_pe()), count);
        shmem_sync_all();
        for (int i = 0; i < count; i++) CHECK_PATTERN(blocks[i], bytes, (unsigned)(me() * MOST + i));
        shmem_free(blocks[count / 2]);
        blocks[count / 2] = shmem_malloc(bytes);
        CHECK_OP(blocks[count / 2], !=, NULL);
        for (int i = 0; i < count; i++) shmem_free(blocks[i]);
        unsigned char *large = shmem_malloc(5 * MIB); /* free neighbours are merged */
        CHECK_OP(large, !=, NULL);
        shmem_free(large);
    }
}

CASE(fragmentation, 2,
     "every second of many blocks freed: the holes are used, and joined when their neighbours are freed",
     .environment = "SHMEM_SYMMETRIC_SIZE=4M")
{
    enum { COUNT = 1500, BYTES = 2000 };
    unsigned char *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = shmem_malloc(BYTES);
        about("block %d", i);
        CHECK_OP(blocks[i], !=, NULL);
        memset(blocks[i], i, BYTES);
    }
    for (int i = 0; i < COUNT; i += 2) shmem_free(blocks[i]);
    CHECK_PTR(shmem_malloc(2 * MIB), NULL);
    for (int i = 0; i < COUNT; i += 2) {
        blocks[i] = shmem_malloc(BYTES - 100);
        about("block %d again", i);
        CHECK_OP(blocks[i], !=, NULL);
        memset(blocks[i], i, BYTES - 100);
    }
    for (int i = 1; i < COUNT; i += 2) CHECK_BYTES(blocks[i], BYTES, i);
    for (int i = COUNT - 1; i >= 0; i--) shmem_free(blocks[i]);
    unsigned char *large = shmem_malloc(3 * MIB);
    CHECK_OP(large, !=, NULL);
    shmem_free(large);
}

CASE(random_traffic, 2, "thousands of mallocs, reallocs and frees in random order: every block keeps its contents",
     .environment = "SHMEM_SYMMETRIC_SIZE=16M", .crowded = 4)
{
    enum { SLOTS = 60 };
    unsigned char *blocks[SLOTS] = {NULL};
    size_t bytes[SLOTS] = {0};
    uint64_t state = 12345; /* the same choices on every PE */
    const int steps = n_pes() > 2 ? 600 : 2500;
    for (int step = 0; step < steps; step++) {
        const int slot = (int)(random_next(&state) % SLOTS);
        const uint64_t choice = random_next(&state) % 8;
        const size_t wanted = (size_t)1 << random_next(&state) % 17, exact = wanted + random_next(&state) % wanted;
        about("step %d", step);
        CHECK_PATTERN(blocks[slot], bytes[slot], (unsigned)(me() * SLOTS + slot));
        if (blocks[slot] == NULL) {
            blocks[slot] = choice < 6 ? shmem_malloc(exact) : shmem_align(choice == 6 ? 64 : 4096, exact);
            CHECK_OP(blocks[slot], !=, NULL);
        } else if (choice < 3) {
            unsigned char *moved = shmem_realloc(blocks[slot], exact);
            CHECK_OP(moved, !=, NULL);
            CHECK_PATTERN(moved, bytes[slot] < exact ? bytes[slot] : exact, (unsigned)(me() * SLOTS + slot));
            blocks[slot] = moved;
        } else {
            shmem_free(blocks[slot]);
            blocks[slot] = NULL;
        }
        bytes[slot] = blocks[slot] != NULL ? exact : 0;
        pattern_fill(blocks[slot], bytes[slot], (unsigned)(me() * SLOTS + slot));
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        CHECK_PATTERN(blocks[slot], bytes[slot], (unsigned)(me() * SLOTS + slot));
        shmem_free(blocks[slot]);
    }
}

/* ---- The heap as a place -------------------------------------------------------------------------------- */

CASE(same_object_everywhere, 3, "a block names the same object on all PEs, though addresses may differ", .crowded = 8)
{
    long *blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = shmem_malloc((size_t)(i + 1) * 40);
        *blocks[i] = me() * 100 + i;
    }
    barrier();
    for (int i = 0; i < 20; i++)
        for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(shmem_long_g(blocks[i], pe), pe * 100 + i);
    barrier();
    for (int i = 0; i < 20; i++) shmem_free(blocks[i]);
}

CASE(interior_addresses, 2, "an address within a block is symmetric, to its last byte")
{
    enum { BYTES = 777 };
    unsigned char *block = symmetric(BYTES);
    for (int at = 0; me() == 0 && at < BYTES; at += 2) shmem_uchar_p(block + at, (unsigned char)(at + 1), 1);
    barrier();
    for (int at = 0; me() == 1 && at < BYTES; at++) CHECK_EQ(block[at], at % 2 ? 0 : (unsigned char)(at + 1));
}

CASE(alone, 1, "a job of one PE has a heap, and communicates with itself")
{
    long *word = shmem_calloc(4, sizeof *word);
    CHECK_OP(word, !=, NULL);
    shmem_long_p(word, 7, 0);
    shmem_quiet();
    CHECK_EQ(*word, 7);
    CHECK_EQ(shmem_long_atomic_fetch_add(word, 2, 0), 7);
    word = shmem_realloc(word, 100000);
    CHECK_EQ(*word, 9);
    shmem_free(word);
}

CASE(crowd, 16, "many PEs, more than there are cores, each with a heap", .crowded = 32)
{
    long *words = shmem_malloc((size_t)n_pes() * sizeof *words);
    CHECK_OP(words, !=, NULL);
    for (int pe = 0; pe < n_pes(); pe++) shmem_long_p(&words[me()], me() + 1, pe);
    barrier();
    for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(words[pe], pe + 1);
    shmem_free(words);
}

CASE(deprecated_names, 2, "shmalloc, shmemalign, shrealloc and shfree are the same routines")
{
    unsigned char *block = shmalloc(100), *aligned = shmemalign(256, 100);
    check_usable(block, 100);
    check_usable(aligned, 100);
    CHECK_EQ((uintptr_t)aligned % 256, 0);
    block = shrealloc(block, 5000);
    CHECK_PATTERN(block, 100, (unsigned)previous_pe());
    shfree(block);
    shfree(aligned);
    CHECK_PTR(shmalloc(0), NULL);
}
