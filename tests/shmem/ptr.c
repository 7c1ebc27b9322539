/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Addresses on other PEs: shmem_ptr, shmem_team_ptr, shmem_pe_accessible, shmem_addr_accessible. OpenSHMEM 1.6, "Library
 * Setup, Exit, and Query Routines". A null pointer is always a permitted result of shmem_ptr for another PE. Where the
 * memory is mapped it would be a defect, and is a failure here.
 */
#include "suite.h"

DATA_CASE(pointer_to_self, 2, "ptr: for the caller it is the symmetric address, or NULL (shmem_ptr)")
{
    char *object = symmetric(100);
    CHECK_PTR(shmem_ptr(object, me()), object);
    CHECK_PTR(shmem_ptr(object + 37, me()), object + 37);
}

DATA_CASE(pointer_to_a_peer, 3,
          "ptr: loads and stores through it are loads and stores of the peer's object (shmem_ptr)")
{
    enum { N = 1000 };
    int *object = symmetric(N * sizeof *object);
    for (int i = 0; i < N; i++) object[i] = me() * N + i;
    barrier();
    int *theirs = shmem_ptr(object, next_pe());
    bool is_near = variant_is("pairs") && me() / 2 == next_pe() / 2;
    if (variant_is("in_place") || is_near) CHECK_OP(theirs, !=, NULL);
    if (theirs != NULL) {
        for (int i = 0; i < N; i++) CHECK_EQ(theirs[i], next_pe() * N + i);
        theirs[5] = -1 - me();
        CHECK_EQ(shmem_int_g(object + 5, next_pe()), -1 - me());
    }
    barrier();
    /* A PE with a pointer to the next one's object has stored through it. */
    bool is_written = shmem_ptr(object, previous_pe()) != NULL;
    CHECK_EQ(object[5], is_written ? -1 - previous_pe() : me() * N + 5);
    CHECK_EQ(object[6], me() * N + 6);
}

DATA_CASE(pointers_into_an_object, 2,
          "ptr: an address inside an object maps to the same offset in the peer's object (shmem_ptr)", .needs = MAPPED)
{
    enum { BYTES = 70000 };
    char *object = symmetric(BYTES);
    char *theirs = shmem_ptr(object, next_pe());
    static const int distances[] = {1, 63, 64, 4095, 4096, 4097, BYTES - 1};
    for (int i = 0; i < 7; i++) CHECK_PTR(shmem_ptr(object + distances[i], next_pe()), theirs + distances[i]);
}

DATA_CASE(pointer_and_calls_agree, 2,
          "ptr: it reads values written by puts and atomics, and gets read values stored through it (shmem_ptr)",
          .needs = MAPPED)
{
    long *word = symmetric(sizeof *word);
    volatile long *theirs = shmem_ptr(word, next_pe());
    CHECK_OP(theirs, !=, NULL);
    for (long i = 1; i <= 200; i++) {
        shmem_long_p(word, i, next_pe());
        shmem_quiet();
        CHECK_EQ(*theirs, i);
        shmem_long_atomic_add(word, 1000, next_pe());
        shmem_quiet();
        CHECK_EQ(*theirs, 1000 + i);
        *theirs = -i;
        shmem_quiet();
        CHECK_EQ(shmem_long_g(word, next_pe()), -i);
        CHECK_EQ(shmem_long_atomic_fetch_inc(word, next_pe()), -i);
    }
}

DATA_CASE(store_ends_a_wait, 2,
          "ptr: a store through it, and fence, end a wait_until of the peer (shmem_ptr, table of operations)",
          .needs = MAPPED)
{
    long *word = symmetric(sizeof *word);
    volatile long *theirs = shmem_ptr(word, next_pe());
    CHECK_OP(theirs, !=, NULL);
    for (long round = 1; round <= 6; round++) {
        if (round % 2 == me()) {
            sleep_ms(8);
            *theirs = round;
            shmem_fence();
        } else {
            shmem_long_wait_until(word, SHMEM_CMP_EQ, round);
        }
    }
}

DATA_CASE(pointer_as_local_memory, 3,
          "ptr: the result is memory of the caller: it can be the source of a put, and dest of a get (shmem_ptr)",
          .needs = MAPPED)
{
    enum { BYTES = 3000 };
    char *from = symmetric(BYTES), *into = symmetric(BYTES), *back = symmetric(BYTES);
    pattern_fill(from, BYTES, (unsigned)me());
    barrier();
    shmem_putmem(into, shmem_ptr(from, next_pe()), BYTES, previous_pe());
    shmem_getmem(shmem_ptr(back, previous_pe()), from, BYTES, next_pe());
    barrier();
    CHECK_PATTERN(into, BYTES, (unsigned)previous_pe()); /* three PEs: the PE after the next is the previous one */
    CHECK_PATTERN(back, BYTES, (unsigned)previous_pe());
}

DATA_CASE(loads_alone_see_it, 2,
          "in place a put arrives, and a get is served, while the target does not call the library (one-sided communication)",
          .needs = MAPPED)
{
    long *word = symmetric(sizeof *word), *answer = symmetric(sizeof *answer);
    volatile long *theirs = shmem_ptr(answer, next_pe());
    for (long round = 1; round <= 20; round++) {
        if (me() == 0) {
            if (round % 2) shmem_long_p(word, round, 1);
            else shmem_long_atomic_inc(word, 1);
            shmem_quiet();
            CHECK_EQ(shmem_long_g(word, 1), round);
            while (*(volatile long *)answer != round) sleep_ms(0);
        } else {
            while (*(volatile long *)word != round) sleep_ms(0);
            *theirs = round;
        }
    }
}

DATA_CASE(what_is_symmetric, 2,
          "addr_accessible: 1 for symmetric objects, heap and static, at every PE (shmem_addr_accessible)")
{
    enum { BYTES = 5000 };
    char *object = symmetric(BYTES);
    for (int pe = 0; pe < n_pes(); pe++) {
        CHECK_EQ(shmem_addr_accessible(object, pe), 1);
        CHECK_EQ(shmem_addr_accessible(object + BYTES - 1, pe), 1);
    }
}

CASE(what_is_not_symmetric, 2,
     "addr_accessible: 0 for the stack, private memory, and NULL; ptr of these is NULL (shmem_addr_accessible)")
{
    int on_the_stack = 0;
    char *private = malloc(1000000);
    CHECK_OP(private, !=, NULL);
    for (int pe = 0; pe < n_pes(); pe++) {
        CHECK_EQ(shmem_addr_accessible(&on_the_stack, pe), 0);
        CHECK_EQ(shmem_addr_accessible(private, pe), 0);
        CHECK_EQ(shmem_addr_accessible(NULL, pe), 0);
    }
#ifdef SELVEDGE_SHMEM
    CHECK_PTR(shmem_ptr(&on_the_stack, next_pe()), NULL);
    CHECK_PTR(shmem_ptr(private, next_pe()), NULL);
    CHECK_PTR(shmem_ptr(NULL, next_pe()), NULL);
#endif
    free(private);
}

CASE(which_pes_there_are, 3, "pe_accessible: 1 for each PE of the job, 0 for other numbers (shmem_pe_accessible)")
{
    for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(shmem_pe_accessible(pe), 1);
    CHECK_EQ(shmem_pe_accessible(-1), 0);
    CHECK_EQ(shmem_pe_accessible(n_pes()), 0);
    CHECK_EQ(shmem_pe_accessible(1 << 30), 0);
}

#if SINCE(1, 5) && defined SELVEDGE_SHMEM
CASE(addresses_at_no_pe, 2,
     "addr_accessible, ptr: at a PE outside the job nothing can be reached (shmem_addr_accessible)")
{
    int *object = symmetric(sizeof *object);
    static const int wrong[] = {-1, 2, 1 << 30};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(shmem_addr_accessible(object, wrong[i]), 0);
        CHECK_PTR(shmem_ptr(object, wrong[i]), NULL);
    }
}
#endif

#if SINCE(1, 6)
DATA_CASE(pointer_by_team, 4,
          "team_ptr: the PE is numbered in the team; over the world it is ptr; of an invalid team it is NULL "
          "(shmem_team_ptr)")
{
    long *word = symmetric(sizeof *word);
    *word = 10 + me();
    barrier();
    for (int pe = 0; pe < n_pes(); pe++) CHECK_PTR(shmem_team_ptr(SHMEM_TEAM_WORLD, word, pe), shmem_ptr(word, pe));
    /* The even PEs, then the odd ones: each PE is in one of the two teams. */
    shmem_team_t team = SHMEM_TEAM_INVALID;
    for (int first = 0; first < 2; first++) {
        shmem_team_t made;
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, first, 2, 2, NULL, 0, &made), 0);
        if (made != SHMEM_TEAM_INVALID) team = made;
    }
    for (int i = 0; i < 2; i++) {
        int in_world = me() % 2 + 2 * i;
        long *theirs = shmem_team_ptr(team, word, i);
        CHECK_PTR(theirs, shmem_ptr(word, in_world));
        if (theirs != NULL) CHECK_EQ(*theirs, 10 + in_world);
    }
    CHECK_PTR(shmem_team_ptr(SHMEM_TEAM_INVALID, word, 0), NULL);
    barrier();
    shmem_team_destroy(team);
}
#endif
