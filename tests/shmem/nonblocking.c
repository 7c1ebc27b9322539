/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Puts and gets that may return before they complete, and their completion: shmem_put_nbi, shmem_get_nbi under every name.
 * OpenSHMEM 1.6, "Remote Memory Access Routines" and "Memory Ordering Routines".
 */
#define SUFFIX _nbi
#include "blocks.h"

enum { COUNT = 41 };

DATA_CASE(put_nbi_is_over_after_quiet, 3,
          "put_nbi: after quiet the elements are at the target, visible to any PE (shmem_put_nbi)")
{
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES), *back = local(SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row)
    {
        elements_fill(e, slot(source, row), SLOT_ELEMENTS, (unsigned)(row + 1000 * me()));
        b->put(slot(dest, row), slot(source, row), COUNT, next_pe());
    }
    shmem_quiet();
    shmem_getmem(back, dest, SLOTS_BYTES, next_pe());
    FOR_EACH_BLOCK(b, e, row)
    {
        CHECK_ELEMENTS(e, slot(back, row), COUNT, (unsigned)(row + 1000 * me()));
        CHECK_ZERO(e, slot(back, row), COUNT, SLOT_ELEMENTS - COUNT);
    }
    barrier();
    FOR_EACH_BLOCK(b, e, row) CHECK_ELEMENTS(e, slot(dest, row), COUNT, (unsigned)(row + 1000 * previous_pe()));
}

DATA_CASE(get_nbi_is_over_after_quiet, 3, "get_nbi: after quiet the elements of the target are in dest (shmem_get_nbi)")
{
    unsigned char *source = symmetric(SLOTS_BYTES), *dest = local(SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row) elements_fill(e, slot(source, row), SLOT_ELEMENTS, (unsigned)(row + 1000 * me()));
    barrier();
    FOR_EACH_BLOCK(b, e, row) b->get(slot(dest, row), slot(source, row), COUNT, next_pe());
    shmem_quiet();
    FOR_EACH_BLOCK(b, e, row)
    {
        CHECK_ELEMENTS(e, slot(dest, row), COUNT, (unsigned)(row + 1000 * next_pe()));
        CHECK_ZERO(e, slot(dest, row), COUNT, SLOT_ELEMENTS - COUNT);
    }
}

DATA_CASE(no_elements_nbi, 2, "put_nbi, get_nbi: with nelems 0 nothing is written (shmem_put_nbi, shmem_get_nbi)")
{
    unsigned char *there = symmetric(SLOTS_BYTES), *here = local(SLOTS_BYTES);
    memset(here, 0xff, SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row)
    {
        (void)e;
        b->put(slot(there, row), slot(here, row), 0, next_pe());
        b->get(slot(here, row), slot(there, row), 0, next_pe());
    }
    shmem_quiet();
    barrier();
    CHECK_BYTES(there, SLOTS_BYTES, 0);
    CHECK_BYTES(here, SLOTS_BYTES, 0xff);
}

DATA_CASE(nbi_of_oneself, 2, "put_nbi, get_nbi: the named PE may be the caller (shmem_put_nbi, shmem_get_nbi)")
{
    unsigned char *there = symmetric(SLOTS_BYTES), *here = local(SLOTS_BYTES), *back = local(SLOTS_BYTES);
    FOR_EACH_BLOCK(b, e, row)
    {
        elements_fill(e, slot(here, row), COUNT, (unsigned)(row + me()));
        b->put(slot(there, row), slot(here, row), COUNT, me());
    }
    shmem_quiet();
    FOR_EACH_BLOCK(b, e, row) b->get(slot(back, row), slot(there, row), COUNT, me());
    shmem_quiet();
    FOR_EACH_BLOCK(b, e, row) CHECK_ELEMENTS(e, slot(back, row), COUNT, (unsigned)(row + me()));
}

DATA_CASE(barrier_ends_put_nbi, 3, "barrier_all: completes earlier put_nbi (shmem_barrier_all)", .crowded = 7)
{
    enum { ROUNDS = 30, BYTES = 700 };
    unsigned char *inbox = symmetric((size_t)PES_MAX * BYTES), *outbox = local((size_t)PES_MAX * BYTES);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (int pe = 0; pe < n_pes(); pe++) {
            pattern_fill(outbox + pe * BYTES, BYTES, round + (unsigned)(me() * 64 + pe) * ROUNDS);
            shmem_putmem_nbi(inbox + me() * BYTES, outbox + pe * BYTES, BYTES, pe);
        }
        barrier();
        for (int pe = 0; pe < n_pes(); pe++)
            CHECK_PATTERN(inbox + pe * BYTES, BYTES, round + (unsigned)(pe * 64 + me()) * ROUNDS);
        barrier();
    }
}

DATA_CASE(many_outstanding, 2, "put_nbi, get_nbi: thousands may be outstanding at once (shmem_put_nbi, shmem_get_nbi)")
{
    enum { N = 6000 };
    long *there = symmetric(N * sizeof(long)), *here = local(N * sizeof(long)), *back = local(N * sizeof(long));
    for (long i = 0; i < N; i++) {
        here[i] = me() * N + i;
        shmem_long_put_nbi(there + i, here + i, 1, next_pe());
    }
    barrier();
    for (long i = 0; i < N; i++) shmem_long_get_nbi(back + i, there + i, 1, next_pe());
    shmem_quiet();
    for (long i = 0; i < N; i++) {
        CHECK_EQ(there[i], previous_pe() * N + i);
        CHECK_EQ(back[i], me() * N + i);
    }
}

DATA_CASE(puts_and_gets_mixed, 3,
          "puts, gets and their nonblocking forms of different objects may be outstanding together (shmem_quiet)")
{
    enum { N = 300 };
    int *a = symmetric(N * sizeof(int)), *b = symmetric(N * sizeof(int)), *c = symmetric(N * sizeof(int));
    int *out = local(N * sizeof(int)), *in = local(N * sizeof(int));
    for (int i = 0; i < N; i++) c[i] = me() * 10000 + i, out[i] = me() * 20000 + i;
    barrier();
    for (int i = 0; i < N; i++) {
        shmem_int_put_nbi(a + i, out + i, 1, next_pe());
        shmem_int_get_nbi(in + i, c + i, 1, previous_pe());
        shmem_int_p(b + i, out[i] + 1, previous_pe());
        CHECK_EQ(shmem_int_g(c + i, next_pe()), next_pe() * 10000 + i);
    }
    shmem_quiet();
    for (int i = 0; i < N; i++) CHECK_EQ(in[i], previous_pe() * 10000 + i);
    barrier();
    for (int i = 0; i < N; i++) {
        CHECK_EQ(a[i], previous_pe() * 20000 + i);
        CHECK_EQ(b[i], next_pe() * 20000 + i + 1);
    }
}

DATA_CASE(source_is_read_by_quiet, 2,
          "put_nbi: when quiet returns the source has been read and may change (shmem_quiet)")
{
    enum { ROUNDS = 100, BYTES = 999 };
    unsigned char *dest = symmetric(ROUNDS * BYTES), *source = local(BYTES);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pattern_fill(source, BYTES, i);
        shmem_putmem_nbi(dest + i * BYTES, source, BYTES, next_pe());
        shmem_quiet();
        memset(source, 0xff, BYTES);
    }
    barrier();
    for (unsigned i = 0; i < ROUNDS; i++) CHECK_PATTERN(dest + i * BYTES, BYTES, i);
}

DATA_CASE(bytes_at_any_alignment_nbi, 2,
          "putmem_nbi, getmem_nbi: addresses need no alignment (shmem_putmem_nbi, shmem_getmem_nbi)")
{
    enum { ROOM = 64, OFFSETS = 9, BYTES = 29 };
    unsigned char *there = symmetric(OFFSETS * OFFSETS * ROOM), *here = local(OFFSETS * OFFSETS * ROOM);
    unsigned char *back = local(OFFSETS * OFFSETS * ROOM);
    memset(here, 0xcc, OFFSETS * OFFSETS * ROOM);
    memset(back, 0xcc, OFFSETS * OFFSETS * ROOM);
    for (unsigned i = 0; i < OFFSETS * OFFSETS; i++) {
        pattern_fill(here + i * ROOM + i / OFFSETS, BYTES, i);
        shmem_putmem_nbi(there + i * ROOM + i % OFFSETS, here + i * ROOM + i / OFFSETS, BYTES, next_pe());
    }
    barrier();
    for (unsigned i = 0; i < OFFSETS * OFFSETS; i++)
        shmem_getmem_nbi(back + i * ROOM + i / OFFSETS, there + i * ROOM + i % OFFSETS, BYTES, next_pe());
    shmem_quiet();
    for (unsigned i = 0; i < OFFSETS * OFFSETS; i++) {
        unsigned to = i % OFFSETS;
        CHECK_BYTES(there + i * ROOM, to, 0);
        CHECK_PATTERN(there + i * ROOM + to, BYTES, i);
        CHECK_BYTES(there + i * ROOM + to + BYTES, ROOM - to - BYTES, 0);
    }
    CHECK_SAME(back, here, OFFSETS * OFFSETS * ROOM);
}

DATA_CASE(last_round_wins, 2, "of puts to one object with quiet between them the last remains (shmem_quiet)")
{
    enum { ROUNDS = 400, N = 17 };
    int *dest = symmetric(N * sizeof(int)), *source = local(ROUNDS * N * sizeof(int));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) source[round * N + i] = round;
        shmem_int_put_nbi(dest, source + round * N, N, next_pe());
        shmem_quiet();
    }
    barrier();
    for (int i = 0; i < N; i++) CHECK_EQ(dest[i], ROUNDS - 1);
}
