/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The names that choose by the type of their arguments in C11: for every type of its table, with a context and without,
 * each selects a function for that type. OpenSHMEM 1.6, the C11 synopses.
 *
 * Each word of a type lies between others, so that a call of another type's function shows.
 */
#include "suite.h"
#include "types.h"

#include <complex.h>

enum { ROOM = 256 }; /* bytes for each type; 16 elements of the widest */

#define IS_OF(expr, TYPE) _Static_assert(_Generic((expr), TYPE: 1, default: 0), #expr " is " #TYPE)

/* `value` in the type, with all of its bytes in use. */
#define VALUE(TYPE, value) ((TYPE)mix(value))

static unsigned char *rooms; /* one for each type, by `row` */
static int row;

#define START_ROW(NAME, TYPE)                            \
    about("%s", #NAME);                                  \
    TYPE *words = (TYPE *)(rooms + row++ * ROOM);        \
    int to = next_pe();                                  \
    (void)words, (void)to

static void rooms_new(void)
{
    rooms = symmetric(64 * ROOM);
    row = 0;
}

#define PUT_GET(NAME, TYPE)                                                                                        \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE here[4], back[4] = {0};                                                                               \
        for (int i = 0; i < 4; i++) here[i] = VALUE(TYPE, i);                                                      \
        shmem_put(words + 1, here, 2, to);                                                                         \
        shmem_put(SHMEM_CTX_DEFAULT, words + 3, here + 2, 2, to);                                                  \
        shmem_p(words + 6, here[0], to);                                                                           \
        shmem_p(SHMEM_CTX_DEFAULT, words + 7, here[1], to);                                                        \
        shmem_p(words + 9, 3, to); /* a value of another type is converted */                                      \
        shmem_quiet();                                                                                             \
        IS_OF(shmem_g(words, to), TYPE);                                                                           \
        IS_OF(shmem_g(SHMEM_CTX_DEFAULT, (const TYPE *)words, to), TYPE);                                          \
        for (int i = 0; i < 4; i++) CHECK_NUMBER(shmem_g(words + 1 + i, to), here[i]);                             \
        CHECK_NUMBER(shmem_g(SHMEM_CTX_DEFAULT, words + 6, to), here[0]);                                          \
        CHECK_NUMBER(shmem_g(words + 7, to), here[1]);                                                             \
        CHECK_NUMBER(shmem_g(words + 9, to), 3);                                                                   \
        CHECK_NUMBER(shmem_g(words, to) + shmem_g(words + 5, to) + shmem_g(words + 8, to), 0);                     \
        shmem_get(back, words + 1, 2, to);                                                                         \
        shmem_get(SHMEM_CTX_DEFAULT, back + 2, (const TYPE *)words + 3, 2, to);                                    \
        for (int i = 0; i < 4; i++) CHECK_NUMBER(back[i], here[i]);                                                \
    }

CASE(put_get_p_g, 2, "shmem_put, shmem_get, shmem_p, shmem_g choose by the type (C11 synopses)")
{
    rooms_new();
    RMA_TYPES(PUT_GET)
}

#define NONBLOCKING(NAME, TYPE)                                                                                    \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        static TYPE here[4], back[4];                                                                              \
        for (int i = 0; i < 4; i++) here[i] = VALUE(TYPE, i + 9);                                                  \
        shmem_put_nbi(words + 1, here, 2, to);                                                                     \
        shmem_put_nbi(SHMEM_CTX_DEFAULT, words + 3, (const TYPE *)here + 2, 2, to);                                \
        shmem_quiet();                                                                                             \
        shmem_get_nbi(back, words + 1, 2, to);                                                                     \
        shmem_get_nbi(SHMEM_CTX_DEFAULT, back + 2, words + 3, 2, to);                                              \
        shmem_quiet();                                                                                             \
        for (int i = 0; i < 4; i++) CHECK_NUMBER(back[i], here[i]);                                                \
        CHECK_NUMBER(shmem_g(words, to) + shmem_g(words + 5, to), 0);                                              \
    }

CASE(put_get_nbi, 2, "shmem_put_nbi and shmem_get_nbi choose by the type (C11 synopses)")
{
    rooms_new();
    RMA_TYPES(NONBLOCKING)
}

#define STRIDED(NAME, TYPE)                                                                                        \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE here[6], back[6] = {0};                                                                               \
        for (int i = 0; i < 6; i++) here[i] = VALUE(TYPE, i + 20);                                                 \
        shmem_iput(words + 1, here, 2, 3, 2, to);                                                                  \
        shmem_iput(SHMEM_CTX_DEFAULT, words + 6, (const TYPE *)here, 3, 1, 2, to);                                 \
        shmem_quiet();                                                                                             \
        shmem_iget(back, words + 1, 1, 2, 2, to);                                                                  \
        shmem_iget(SHMEM_CTX_DEFAULT, back + 2, words + 6, 2, 3, 2, to);                                           \
        CHECK_NUMBER(back[0], here[0]);                                                                            \
        CHECK_NUMBER(back[1], here[3]);                                                                            \
        CHECK_NUMBER(back[2], here[0]);                                                                            \
        CHECK_NUMBER(back[3], 0);                                                                                  \
        CHECK_NUMBER(back[4], here[1]);                                                                            \
        CHECK_NUMBER(shmem_g(words + 2, to) + shmem_g(words + 4, to), 0);                                          \
    }

CASE(iput_iget, 2, "shmem_iput and shmem_iget choose by the type (C11 synopses)")
{
    rooms_new();
    RMA_TYPES(STRIDED)
}

#define AMO_STANDARD(NAME, TYPE)                                                                                   \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *word = words + 1;                                                                                    \
        TYPE big = VALUE(TYPE, 4);                                                                                 \
        IS_OF(shmem_atomic_compare_swap(word, 0, 0, to), TYPE);                                                    \
        IS_OF(shmem_atomic_fetch_inc(SHMEM_CTX_DEFAULT, word, to), TYPE);                                          \
        IS_OF(shmem_atomic_fetch_add(word, 1, to), TYPE);                                                          \
        CHECK_NUMBER(shmem_atomic_compare_swap(word, 0, big, to), 0);                                              \
        CHECK_NUMBER(shmem_atomic_compare_swap(SHMEM_CTX_DEFAULT, word, big, 10, to), big);                        \
        CHECK_NUMBER(shmem_atomic_fetch_inc(word, to), 10);                                                        \
        CHECK_NUMBER(shmem_atomic_fetch_inc(SHMEM_CTX_DEFAULT, word, to), 11);                                     \
        shmem_atomic_inc(word, to);                                                                                \
        shmem_atomic_inc(SHMEM_CTX_DEFAULT, word, to);                                                             \
        shmem_atomic_add(word, 5, to);                                                                             \
        shmem_atomic_add(SHMEM_CTX_DEFAULT, word, 5, to);                                                          \
        shmem_quiet();                                                                                             \
        CHECK_NUMBER(shmem_atomic_fetch_add(word, 100, to), 24);                                                   \
        CHECK_NUMBER(shmem_atomic_fetch_add(SHMEM_CTX_DEFAULT, word, 100, to), 124);                               \
        CHECK_NUMBER(shmem_g(word, to), 224);                                                                      \
        CHECK_NUMBER(shmem_g(words, to) + shmem_g(words + 2, to), 0);                                              \
    }

#define AMO_EXTENDED(NAME, TYPE)                                                                                   \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *word = words + 1;                                                                                    \
        TYPE big = VALUE(TYPE, 5);                                                                                 \
        IS_OF(shmem_atomic_fetch(word, to), TYPE);                                                                 \
        IS_OF(shmem_atomic_swap(SHMEM_CTX_DEFAULT, word, 0, to), TYPE);                                            \
        shmem_atomic_set(word, big, to);                                                                           \
        shmem_quiet();                                                                                             \
        CHECK_NUMBER(shmem_atomic_fetch((const TYPE *)word, to), big);                                             \
        CHECK_NUMBER(shmem_atomic_swap(word, 7, to), big);                                                         \
        CHECK_NUMBER(shmem_atomic_fetch(SHMEM_CTX_DEFAULT, word, to), 7);                                          \
        shmem_atomic_set(SHMEM_CTX_DEFAULT, word, 8, to);                                                          \
        shmem_quiet();                                                                                             \
        CHECK_NUMBER(shmem_atomic_swap(SHMEM_CTX_DEFAULT, word, 9, to), 8);                                        \
        CHECK_NUMBER(shmem_g(word, to), 9);                                                                        \
        CHECK_NUMBER(shmem_g(words, to) + shmem_g(words + 2, to), 0);                                              \
    }

#define AMO_BITWISE(NAME, TYPE)                                                                                    \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *word = words + 1;                                                                                    \
        IS_OF(shmem_atomic_fetch_and(word, 0, to), TYPE);                                                          \
        IS_OF(shmem_atomic_fetch_or(SHMEM_CTX_DEFAULT, word, 0, to), TYPE);                                        \
        IS_OF(shmem_atomic_fetch_xor(word, 0, to), TYPE);                                                          \
        CHECK_NUMBER(shmem_atomic_fetch_or(word, 0xf0, to), 0);                                                    \
        CHECK_NUMBER(shmem_atomic_fetch_or(SHMEM_CTX_DEFAULT, word, 0x0f, to), 0xf0);                              \
        CHECK_NUMBER(shmem_atomic_fetch_and(word, 0x7f, to), 0xff);                                                \
        CHECK_NUMBER(shmem_atomic_fetch_and(SHMEM_CTX_DEFAULT, word, 0x3f, to), 0x7f);                             \
        CHECK_NUMBER(shmem_atomic_fetch_xor(word, 0x11, to), 0x3f);                                                \
        CHECK_NUMBER(shmem_atomic_fetch_xor(SHMEM_CTX_DEFAULT, word, 0x11, to), 0x2e);                             \
        shmem_atomic_or(word, 0x40, to);                                                                           \
        shmem_atomic_or(SHMEM_CTX_DEFAULT, word, 0x80, to);                                                        \
        shmem_quiet();                                                                                             \
        shmem_atomic_and(word, 0xbf, to);                                                                          \
        shmem_atomic_and(SHMEM_CTX_DEFAULT, word, 0xfe, to);                                                       \
        shmem_quiet();                                                                                             \
        shmem_atomic_xor(word, 0x100, to);                                                                         \
        shmem_atomic_xor(SHMEM_CTX_DEFAULT, word, 0x200, to);                                                      \
        shmem_quiet();                                                                                             \
        CHECK_NUMBER(shmem_g(word, to), 0x3be);                                                                    \
    }

CASE(atomics, 2, "the atomics choose by the type, each in its table (C11 synopses)")
{
    rooms_new();
    AMO_STANDARD_TYPES(AMO_STANDARD)
    AMO_EXTENDED_TYPES(AMO_EXTENDED)
    AMO_BITWISE_TYPES(AMO_BITWISE)
}

#define WAIT(NAME, TYPE)                                                                                           \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        IS_OF(shmem_test(words, SHMEM_CMP_EQ, 0), int);                                                            \
        shmem_p(words + 1, 77, to);                                                                                \
        shmem_wait_until(words + 1, SHMEM_CMP_GT, 76);                                                             \
        CHECK_EQ(shmem_test(words + 1, SHMEM_CMP_EQ, 77), 1);                                                      \
        CHECK_EQ(shmem_test(words + 1, SHMEM_CMP_NE, 77), 0);                                                      \
    }

CASE(wait_and_test, 2, "shmem_wait_until and shmem_test choose by the type (C11 synopses)")
{
    rooms_new();
    AMO_STANDARD_TYPES(WAIT)
#if SINCE(1, 5)
    WAIT(short, short)
    WAIT(ushort, unsigned short)
#endif
}

#define OLD(NAME, TYPE)                                                                                            \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *word = words + 1;                                                                                    \
        CHECK_NUMBER(shmem_fadd(word, 30, to), 0);                                                                 \
        shmem_add(word, 5, to);                                                                                    \
        shmem_inc(word, to);                                                                                       \
        shmem_quiet();                                                                                             \
        CHECK_NUMBER(shmem_finc(word, to), 36);                                                                    \
        CHECK_NUMBER(shmem_cswap(word, 37, -2, to), 37);                                                           \
        CHECK_NUMBER(shmem_g(word, to), -2);                                                                       \
    }
#define OLD_EXTENDED(NAME, TYPE)                                                                                   \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        shmem_set(words + 1, 21, to);                                                                              \
        shmem_quiet();                                                                                             \
        CHECK_NUMBER(shmem_swap(words + 1, 22, to), 21);                                                           \
        CHECK_NUMBER(shmem_fetch(words + 1, to), 22);                                                              \
    }

#if SINCE(1, 5)
CASE(old_atomics, 2, "the deprecated atomics choose by the type (C11 synopses)")
{
    rooms_new();
    AMO_OLD_TYPES(OLD)
    AMO_OLD_EXTENDED_TYPES(OLD_EXTENDED)
}

#define AMO_NBI(NAME, TYPE)                                                                                        \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *word = words + 1;                                                                                    \
        static TYPE f[6];                                                                                          \
        shmem_atomic_compare_swap_nbi(f, word, 0, 40, to), shmem_quiet();                                          \
        shmem_atomic_compare_swap_nbi(SHMEM_CTX_DEFAULT, f + 1, word, 40, 50, to), shmem_quiet();                  \
        shmem_atomic_fetch_inc_nbi(f + 2, word, to), shmem_quiet();                                                \
        shmem_atomic_fetch_inc_nbi(SHMEM_CTX_DEFAULT, f + 3, word, to), shmem_quiet();                             \
        shmem_atomic_fetch_add_nbi(f + 4, word, 8, to), shmem_quiet();                                             \
        shmem_atomic_fetch_add_nbi(SHMEM_CTX_DEFAULT, f + 5, word, 8, to), shmem_quiet();                          \
        CHECK_NUMBER(f[0], 0);                                                                                     \
        CHECK_NUMBER(f[1], 40);                                                                                    \
        CHECK_NUMBER(f[2], 50);                                                                                    \
        CHECK_NUMBER(f[3], 51);                                                                                    \
        CHECK_NUMBER(f[4], 52);                                                                                    \
        CHECK_NUMBER(f[5], 60);                                                                                    \
        CHECK_NUMBER(shmem_g(word, to), 68);                                                                       \
    }
#define AMO_EXTENDED_NBI(NAME, TYPE)                                                                               \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *word = words + 1;                                                                                    \
        static TYPE f[4];                                                                                          \
        shmem_atomic_swap_nbi(f, word, 3, to), shmem_quiet();                                                      \
        shmem_atomic_swap_nbi(SHMEM_CTX_DEFAULT, f + 1, word, 4, to), shmem_quiet();                               \
        shmem_atomic_fetch_nbi(f + 2, (const TYPE *)word, to);                                                     \
        shmem_atomic_fetch_nbi(SHMEM_CTX_DEFAULT, f + 3, word, to), shmem_quiet();                                 \
        CHECK_NUMBER(f[0], 0);                                                                                     \
        CHECK_NUMBER(f[1], 3);                                                                                     \
        CHECK_NUMBER(f[2], 4);                                                                                     \
        CHECK_NUMBER(f[3], 4);                                                                                     \
    }
#define AMO_BITWISE_NBI(NAME, TYPE)                                                                                \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *word = words + 1;                                                                                    \
        static TYPE f[6];                                                                                          \
        shmem_atomic_fetch_or_nbi(f, word, 0xff, to), shmem_quiet();                                               \
        shmem_atomic_fetch_or_nbi(SHMEM_CTX_DEFAULT, f + 1, word, 0x100, to), shmem_quiet();                       \
        shmem_atomic_fetch_and_nbi(f + 2, word, 0x10f, to), shmem_quiet();                                         \
        shmem_atomic_fetch_and_nbi(SHMEM_CTX_DEFAULT, f + 3, word, 0x0f, to), shmem_quiet();                       \
        shmem_atomic_fetch_xor_nbi(f + 4, word, 0x1f, to), shmem_quiet();                                          \
        shmem_atomic_fetch_xor_nbi(SHMEM_CTX_DEFAULT, f + 5, word, 0x11, to), shmem_quiet();                       \
        CHECK_NUMBER(f[0], 0);                                                                                     \
        CHECK_NUMBER(f[1], 0xff);                                                                                  \
        CHECK_NUMBER(f[2], 0x1ff);                                                                                 \
        CHECK_NUMBER(f[3], 0x10f);                                                                                 \
        CHECK_NUMBER(f[4], 0x0f);                                                                                  \
        CHECK_NUMBER(f[5], 0x10);                                                                                  \
        CHECK_NUMBER(shmem_g(word, to), 1);                                                                        \
    }

CASE(atomics_nbi, 2, "the nonblocking atomics choose by the type, each in its table (C11 synopses)")
{
    rooms_new();
    AMO_STANDARD_TYPES(AMO_NBI)
    AMO_EXTENDED_TYPES(AMO_EXTENDED_NBI)
    AMO_BITWISE_TYPES(AMO_BITWISE_NBI)
}

#define SIGNAL(NAME, TYPE)                                                                                         \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        static TYPE here[4];                                                                                       \
        for (int i = 0; i < 4; i++) here[i] = VALUE(TYPE, i + 50);                                                 \
        shmem_put_signal(words, here, 1, sig, 1, SHMEM_SIGNAL_ADD, to);                                            \
        shmem_put_signal(SHMEM_CTX_DEFAULT, words + 1, here + 1, 1, sig, 1, SHMEM_SIGNAL_ADD, to);                 \
        shmem_put_signal_nbi(words + 2, here + 2, 1, sig, 1, SHMEM_SIGNAL_ADD, to);                                \
        shmem_put_signal_nbi(SHMEM_CTX_DEFAULT, words + 3, (const TYPE *)here + 3, 1, sig, 1, SHMEM_SIGNAL_ADD, to); \
        shmem_quiet();                                                                                             \
        shmem_signal_wait_until(sig, SHMEM_CMP_GE, 4 * (uint64_t)row);                                             \
        for (int i = 0; i < 4; i++) CHECK_NUMBER(words[i], here[i]);                                               \
    }

CASE(signals, 2, "shmem_put_signal and shmem_put_signal_nbi choose by the type (C11 synopses)")
{
    rooms_new();
    uint64_t *sig = symmetric(sizeof *sig);
    RMA_TYPES(SIGNAL)
}

#define WAIT_ARRAYS(NAME, TYPE)                                                                                    \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        static const TYPE values[3] = {1, 2, 3};                                                                   \
        size_t indices[3];                                                                                         \
        for (int i = 0; i < 3; i++) shmem_atomic_set(words + i, values[i], to);                                    \
        shmem_wait_until_all(words, 3, NULL, SHMEM_CMP_GE, 1);                                                     \
        shmem_wait_until_all_vector(words, 3, NULL, SHMEM_CMP_EQ, values);                                         \
        IS_OF(shmem_wait_until_any(words, 3, NULL, SHMEM_CMP_EQ, 2), size_t);                                      \
        CHECK_EQ(shmem_wait_until_any(words, 3, NULL, SHMEM_CMP_EQ, 2), 1);                                        \
        CHECK_OP(shmem_wait_until_any_vector(words, 3, NULL, SHMEM_CMP_EQ, values), <, 3);                              \
        CHECK_EQ(shmem_wait_until_some(words, 3, indices, NULL, SHMEM_CMP_GT, 1), 2);                              \
        CHECK_EQ(shmem_wait_until_some_vector(words, 3, indices, NULL, SHMEM_CMP_GE, values), 3);                  \
        CHECK_EQ(shmem_test_all(words, 3, NULL, SHMEM_CMP_LT, 3), 0);                                              \
        CHECK_EQ(shmem_test_all_vector(words, 3, NULL, SHMEM_CMP_LE, values), 1);                                  \
        CHECK_EQ(shmem_test_any(words, 3, NULL, SHMEM_CMP_EQ, 9), SIZE_MAX);                                       \
        CHECK_EQ(shmem_test_any_vector(words, 3, NULL, SHMEM_CMP_LT, values), SIZE_MAX);                           \
        CHECK_EQ(shmem_test_some(words, 3, indices, NULL, SHMEM_CMP_LE, 2), 2);                                    \
        CHECK_EQ(shmem_test_some_vector(words, 3, indices, NULL, SHMEM_CMP_NE, values), 0);                        \
    }

CASE(wait_and_test_arrays, 2, "the routines that wait for arrays choose by the type (C11 synopses)")
{
    rooms_new();
    AMO_STANDARD_TYPES(WAIT_ARRAYS)
}

#define MOVING_COLLECTIVES(NAME, TYPE)                                                                             \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE *from = words, *into = words + 4;                                                                     \
        for (int i = 0; i < 4; i++) from[i] = VALUE(TYPE, 10 * me() + i);                                          \
        CHECK_EQ(shmem_broadcast(SHMEM_TEAM_WORLD, into, from, 2, 1), 0);                                          \
        for (int i = 0; i < 2; i++) CHECK_NUMBER(into[i], VALUE(TYPE, 10 + i));                                    \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_fcollect(SHMEM_TEAM_WORLD, into, from, 2), 0);                                              \
        for (int i = 0; i < 4; i++) CHECK_NUMBER(into[i], VALUE(TYPE, i / 2 * 10 + i % 2));                        \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_collect(SHMEM_TEAM_WORLD, into, from, (size_t)(1 + me())), 0);                              \
        for (int i = 0; i < 3; i++) CHECK_NUMBER(into[i], VALUE(TYPE, i == 0 ? 0 : 9 + i));                        \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_alltoall(SHMEM_TEAM_WORLD, into, from, 2), 0);                                              \
        for (int i = 0; i < 4; i++) CHECK_NUMBER(into[i], VALUE(TYPE, i / 2 * 10 + 2 * me() + i % 2));             \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_alltoalls(SHMEM_TEAM_WORLD, into, from, 2, 2, 1), 0);                                       \
        for (int i = 0; i < 2; i++) CHECK_NUMBER(into[2 * i], VALUE(TYPE, i * 10 + 2 * me()));                     \
        barrier();                                                                                                 \
    }

CASE(moving_collectives, 2, "broadcast, collect, fcollect, alltoall, alltoalls choose by the type (C11 synopses)")
{
    rooms_new();
    RMA_TYPES(MOVING_COLLECTIVES)
    CHECK_EQ(shmem_sync(SHMEM_TEAM_WORLD), 0);
}

#define REDUCE_START(NAME, TYPE)                                                                                   \
    START_ROW(NAME, TYPE);                                                                                         \
    TYPE *from = words, *into = words + 2;                                                                         \
    from[0] = (TYPE)(3 + me());                                                                                    \
    from[1] = (TYPE)(6 - me())

#define REDUCE_ORDERED(NAME, TYPE)                                                                                 \
    {                                                                                                              \
        REDUCE_START(NAME, TYPE);                                                                                  \
        CHECK_EQ(shmem_max_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                            \
        CHECK_NUMBER(into[0] * 10 + into[1], 46);                                                                  \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_min_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                            \
        CHECK_NUMBER(into[0] * 10 + into[1], 35);                                                                  \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_sum_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                            \
        CHECK_NUMBER(into[0] * 10 + into[1], 81);                                                                  \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_prod_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                           \
        CHECK_NUMBER(into[0] + into[1], 42);                                                                       \
        barrier();                                                                                                 \
    }
#define REDUCE_BITWISE(NAME, TYPE)                                                                                 \
    {                                                                                                              \
        REDUCE_START(NAME, TYPE);                                                                                  \
        CHECK_EQ(shmem_and_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                            \
        CHECK_NUMBER(into[0] * 10 + into[1], 4);                                                                   \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_or_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                             \
        CHECK_NUMBER(into[0] * 10 + into[1], 77);                                                                  \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_xor_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                            \
        CHECK_NUMBER(into[0] * 10 + into[1], 73);                                                                  \
        barrier();                                                                                                 \
    }
#define REDUCE_COMPLEX(NAME, TYPE)                                                                                 \
    {                                                                                                              \
        REDUCE_START(NAME, TYPE);                                                                                  \
        from[1] = I;                                                                                               \
        CHECK_EQ(shmem_sum_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                            \
        CHECK(into[0] == 7 && into[1] == 2 * I);                                                                   \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_prod_reduce(SHMEM_TEAM_WORLD, into, from, 2), 0);                                           \
        CHECK(into[0] == 12 && into[1] == -1);                                                                     \
        barrier();                                                                                                 \
    }

CASE(reductions, 2, "the reductions choose by the type, each in its table (C11 synopses)")
{
    rooms_new();
    REDUCE_ORDERED_TYPES(REDUCE_ORDERED)
    rooms_new();
    REDUCE_BITWISE_TYPES(REDUCE_BITWISE)
    REDUCE_COMPLEX_TYPES(REDUCE_COMPLEX)
}
#endif

#if SINCE(1, 6)
#define BLOCKED(NAME, TYPE)                                                                                        \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        TYPE here[6], back[6] = {0};                                                                               \
        for (int i = 0; i < 6; i++) here[i] = VALUE(TYPE, i + 70);                                                 \
        shmem_ibput(words + 1, here, 3, 4, 2, 2, to);                                                              \
        shmem_ibput(SHMEM_CTX_DEFAULT, words + 8, (const TYPE *)here, 2, 3, 1, 2, to);                             \
        shmem_quiet();                                                                                             \
        shmem_ibget(back, words + 1, 2, 3, 2, 2, to);                                                              \
        shmem_ibget(SHMEM_CTX_DEFAULT, back + 4, words + 8, 1, 2, 1, 2, to);                                       \
        static const int origin[6] = {0, 1, 4, 5, 0, 3};                                                           \
        for (int i = 0; i < 6; i++) CHECK_NUMBER(back[i], here[origin[i]]);                                        \
        CHECK_NUMBER(shmem_g(words + 3, to) + shmem_g(words + 9, to), 0);                                          \
    }

CASE(ibput_ibget, 2, "shmem_ibput and shmem_ibget choose by the type (C11 synopses)")
{
    rooms_new();
    RMA_TYPES(BLOCKED)
}

#define SCANS(NAME, TYPE)                                                                                          \
    {                                                                                                              \
        START_ROW(NAME, TYPE);                                                                                     \
        words[0] = (TYPE)(5 + me());                                                                               \
        CHECK_EQ(shmem_sum_inscan(SHMEM_TEAM_WORLD, words + 1, words, 1), 0);                                      \
        CHECK_OP(words[1], ==, (TYPE)(me() == 0 ? 5 : 11));                                                             \
        barrier();                                                                                                 \
        CHECK_EQ(shmem_sum_exscan(SHMEM_TEAM_WORLD, words + 2, words, 1), 0);                                      \
        CHECK_OP(words[2], ==, (TYPE)(me() == 0 ? 0 : 5));                                                              \
        barrier();                                                                                                 \
    }

CASE(scans, 2, "shmem_sum_inscan and shmem_sum_exscan choose by the type (C11 synopses)")
{
    rooms_new();
    REDUCE_ORDERED_TYPES(SCANS)
    REDUCE_COMPLEX_TYPES(SCANS)
}

CASE(signals_alone, 2, "shmem_signal_set and shmem_signal_add take a context first, or none (C11 synopses)")
{
    uint64_t *sig = symmetric(sizeof *sig);
    shmem_signal_set(sig, 5, next_pe());
    shmem_quiet();
    shmem_signal_add(SHMEM_CTX_DEFAULT, sig, 6, next_pe());
    shmem_quiet();
    shmem_signal_add(sig, 1, next_pe());
    barrier();
    CHECK_EQ(shmem_signal_fetch(sig), 12);
    barrier();
    shmem_signal_set(SHMEM_CTX_DEFAULT, sig, 2, next_pe());
    barrier();
    CHECK_EQ(shmem_signal_fetch(sig), 2);
}
#endif
