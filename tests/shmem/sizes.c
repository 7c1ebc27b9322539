/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Puts and gets from one byte to mebibytes: lengths take different protocols in the library (words, copies, pieces).
 * OpenSHMEM 1.6, "Remote Memory Access Routines".
 */
#include "suite.h"

enum { MIB = 1 << 20, LARGEST = 4 * MIB + 4097 };

static unsigned char fixed[LARGEST + 2 * GUARD_BYTES];

/* Lengths at which the protocol may change: around powers of two, pages, slots and limits of a kernel's copy. */
static const size_t lengths[] = {
    1,     2,      3,      4,      5,      7,       8,       9,       15,      16,     17,        31,     33,
    63,    64,     65,     127,    128,    129,     255,     256,     257,     511,    513,       1023,   1024,
    1025,  2047,   2049,   4095,   4096,   4097,    8191,    8193,    16383,   16385,  32767,     32769,  65535,
    65536, 65537,  131071, 131073, 262145, 524287,  MIB - 1, MIB,     MIB + 1, 2 * MIB + 3, 4 * MIB, LARGEST,
};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

/* Returns an object of LARGEST bytes that begins `skew` bytes behind a multiple of 64. */
static unsigned char *object(bool in_heap, size_t skew)
{
    unsigned char *start = in_heap ? symmetric_in(HEAP, LARGEST + GUARD_BYTES) : fixed + GUARD_BYTES;
    memset(start, 0, LARGEST);
    barrier();
    return start + skew;
}

static void move_every_length(bool in_heap, bool nonblocking, size_t skew_here, size_t skew_there)
{
    unsigned char *there = object(in_heap, skew_there);
    unsigned char *here = local(LARGEST + GUARD_BYTES), *back = local(LARGEST + GUARD_BYTES);
    memset(here, 0xa5, LARGEST + GUARD_BYTES); /* shows an extra byte */
    here += skew_here;
    back += skew_here;
    for (unsigned l = 0; l < LENGTHS; l++) {
        size_t bytes = lengths[l];
        if (skew_there + bytes > LARGEST || (l % 3 != 0 && bytes > 300000 && bytes != LARGEST)) continue;
        about("%zu bytes", bytes);
        if (me() == 0) {
            pattern_fill(here, bytes, l);
            if (nonblocking) shmem_putmem_nbi(there, here, bytes, 1);
            else shmem_putmem(there, here, bytes, 1);
        }
        barrier();
        if (me() == 1) {
            CHECK_PATTERN(there, bytes, l);
            if (bytes + skew_there < LARGEST) CHECK_EQ(there[bytes], 0);
            if (bytes + skew_there < LARGEST) there[bytes] = 0x5a; /* the next, longer put overwrites it */
        }
        barrier();
        if (me() == 0) {
            memset(back, 0, bytes + 1);
            if (nonblocking) shmem_getmem_nbi(back, there, bytes, 1);
            else shmem_getmem(back, there, bytes, 1);
            shmem_quiet();
            CHECK_SAME(back, here, bytes);
            CHECK_EQ(back[bytes], 0);
        }
        barrier();
    }
}

CASE(every_length_in_the_heap, 2, "put, get: from 1 byte to 4 MiB, in the heap (shmem_putmem, shmem_getmem)")
{
    move_every_length(true, false, 0, 0);
}

CASE(every_length_in_static_objects, 2,
     "put, get: from 1 byte to 4 MiB, in a static object (shmem_putmem, shmem_getmem)")
{
    move_every_length(false, false, 0, 0);
}

CASE(every_length_nonblocking, 2, "put_nbi, get_nbi: from 1 byte to 4 MiB (shmem_putmem_nbi, shmem_getmem_nbi)")
{
    move_every_length(true, true, 0, 0);
}

CASE(every_length_unaligned, 2,
     "putmem, getmem: from 1 byte to 4 MiB between odd addresses (shmem_putmem, shmem_getmem)")
{
    move_every_length(true, false, 13, 3);
}

/* Each side sends more than any queue holds, and neither may wait until the other receives it. */
DATA_CASE(large_both_ways_at_once, 2,
          "put: two PEs that put mebibytes into each other do not block each other (shmem_putmem)")
{
    size_t bytes = memory_in_use() == HEAP ? 3 * MIB + 1 : 700001;
    unsigned char *inbox = symmetric(bytes), *outbox = local(bytes);
    pattern_fill(outbox, bytes, (unsigned)me());
    shmem_putmem_nbi(inbox, outbox, bytes, next_pe());
    shmem_quiet();
    barrier();
    CHECK_PATTERN(inbox, bytes, (unsigned)previous_pe());
    memset(outbox, 0, bytes);
    shmem_getmem(outbox, inbox, bytes, next_pe());
    CHECK_PATTERN(outbox, bytes, (unsigned)me());
}

CASE(large_from_everyone, 4,
     "put, get: all PEs move half a mebibyte to and from all others at once (shmem_putmem, shmem_getmem)", .crowded = 6)
{
    enum { BYTES = MIB / 2 - 1 };
    unsigned char *inbox = symmetric((size_t)n_pes() * BYTES), *here = local(BYTES);
    for (int i = 0; i < n_pes(); i++) {
        int pe = (me() + i) % n_pes();
        pattern_fill(here, BYTES, (unsigned)(me() * 64 + pe));
        shmem_putmem(inbox + (size_t)me() * BYTES, here, BYTES, pe);
    }
    barrier();
    for (int from = 0; from < n_pes(); from++)
        CHECK_PATTERN(inbox + (size_t)from * BYTES, BYTES, (unsigned)(from * 64 + me()));
    for (int i = 0; i < n_pes(); i++) {
        int pe = (me() + i) % n_pes();
        shmem_getmem(here, inbox + (size_t)me() * BYTES, BYTES, pe);
        CHECK_PATTERN(here, BYTES, (unsigned)(me() * 64 + pe));
    }
}

CASE(large_of_oneself, 1, "put, get: 4 MiB of the caller's own memory, in a job of one (shmem_putmem, shmem_getmem)")
{
    unsigned char *there = object(true, 0), *here = local(LARGEST);
    pattern_fill(here, LARGEST, 3);
    shmem_putmem(there, here, LARGEST, 0);
    shmem_quiet();
    CHECK_PATTERN(there, LARGEST, 3);
    memset(here, 0, LARGEST);
    shmem_getmem(here, there, LARGEST, 0);
    CHECK_PATTERN(here, LARGEST, 3);
}

CASE(large_elements, 2, "put: nelems counts elements, whose bytes may be millions (shmem_put128, shmem_longdouble_put)")
{
    enum { N = 70000 };
    uint64_t *there = symmetric(N * 16), *here = local(N * 16);
    for (uint64_t i = 0; i < 2 * N; i++) here[i] = mix(i + (uint64_t)me());
    shmem_put128(there, here, N, next_pe());
    barrier();
    for (uint64_t i = 0; i < 2 * N; i++) CHECK_EQ(there[i], mix(i + (uint64_t)previous_pe()));
    long double *reals = (long double *)here, *dest = (long double *)there;
    for (int i = 0; i < N; i++) reals[i] = i / 3.0L + me();
    barrier();
    shmem_longdouble_put(dest, reals, N, next_pe());
    barrier();
    for (int i = 0; i < N; i++) CHECK_NUMBER(dest[i], i / 3.0L + previous_pe());
}

CASE(many_small_ones, 2, "p, put: ten thousand small ones in a row all arrive (shmem_p, shmem_put)")
{
    enum { N = 10000 };
    unsigned *there = symmetric(N * sizeof(unsigned));
    for (unsigned i = 0; i < N; i++) {
        unsigned value = i * 7 + (unsigned)me();
        if (i % 2) shmem_uint_p(there + i, value, next_pe());
        else shmem_uint_put(there + i, &value, 1, next_pe());
    }
    barrier();
    for (unsigned i = 0; i < N; i++) CHECK_EQ(there[i], i * 7 + (unsigned)previous_pe());
}

CASE(whole_object_and_its_edges, 2,
     "put: the first and the last byte of an object can be reached, each alone and all at once (shmem_putmem)")
{
    unsigned char *there = object(false, 0), *here = local(LARGEST);
    unsigned char first = 0x11, last = 0x99;
    shmem_putmem(there, &first, 1, next_pe());
    shmem_putmem(there + LARGEST - 1, &last, 1, next_pe());
    barrier();
    CHECK_EQ(there[0], 0x11);
    CHECK_EQ(there[1], 0);
    CHECK_EQ(there[LARGEST - 2], 0);
    CHECK_EQ(there[LARGEST - 1], 0x99);
    CHECK_BYTES(fixed, GUARD_BYTES, 0);
    CHECK_BYTES(fixed + GUARD_BYTES + LARGEST, GUARD_BYTES, 0);
    pattern_fill(here, LARGEST, 1);
    barrier();
    shmem_putmem(there, here, LARGEST, next_pe());
    barrier();
    CHECK_PATTERN(there, LARGEST, 1);
    CHECK_BYTES(fixed, GUARD_BYTES, 0);
    CHECK_BYTES(fixed + GUARD_BYTES + LARGEST, GUARD_BYTES, 0);
}
