/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Every type-generic name of shmem.h and shmemx.h, called with every type that the specification lists for it, with and
 * without a context. Compiled only (C11, warnings are errors): tests/shmem checks the function that runs.
 *
 * shmem_generic.cpp includes this file, so both languages have the same names.
 */
#include <shmem.h>
#include <shmemx.h>

void use(void);

static int pe;
static size_t n;
static ptrdiff_t stride;
static shmem_ctx_t ctx;
static shmem_team_t team;
static shmem_ct_t ct;
static uint64_t sig;

#define RMA(X) \
    X(float) X(double) X(long double) X(char) X(signed char) X(short) X(int) X(long) X(long long) X(unsigned char) \
    X(unsigned short) X(unsigned int) X(unsigned long) X(unsigned long long) \
    X(int8_t) X(int16_t) X(int32_t) X(int64_t) X(uint8_t) X(uint16_t) X(uint32_t) X(uint64_t) X(size_t) X(ptrdiff_t)
#define AMO(X) \
    X(int) X(long) X(long long) X(unsigned int) X(unsigned long) X(unsigned long long) \
    X(int32_t) X(int64_t) X(uint32_t) X(uint64_t) X(size_t) X(ptrdiff_t)
#define AMO_EXTENDED(X) X(float) X(double) AMO(X)
#define AMO_BITWISE(X) \
    X(unsigned int) X(unsigned long) X(unsigned long long) X(int32_t) X(int64_t) X(uint32_t) X(uint64_t)
#define SYNC(X) X(short) X(unsigned short) AMO(X)
#define BITWISE(X) \
    X(unsigned char) X(unsigned short) X(unsigned int) X(unsigned long) X(unsigned long long) \
    X(int8_t) X(int16_t) X(int32_t) X(int64_t) X(uint8_t) X(uint16_t) X(uint32_t) X(uint64_t) X(size_t)

/* A block of calls on an array and on pointers into it, const and not. */
#define WITH(TYPE, ...) \
    { \
        static TYPE array[4]; \
        TYPE *dest = array, value = 0; \
        const TYPE *source = array; \
        __VA_ARGS__ \
        (void)dest, (void)value, (void)source; \
    }
#define BOTH(CALL, ...) \
    CALL(__VA_ARGS__); \
    CALL(ctx, __VA_ARGS__);

#define USE_RMA(TYPE) WITH(TYPE, \
    BOTH(shmem_put, array, dest, n, pe) BOTH(shmem_put, dest, source, n, pe) BOTH(shmem_p, dest, value, pe) \
    BOTH(shmem_iput, dest, source, stride, stride, n, pe) BOTH(shmem_ibput, dest, source, stride, stride, n, n, pe) \
    BOTH(shmem_get, dest, source, n, pe) BOTH(shmem_iget, dest, source, stride, stride, n, pe) \
    BOTH(shmem_ibget, dest, source, stride, stride, n, n, pe) \
    BOTH(shmem_put_nbi, dest, source, n, pe) BOTH(shmem_get_nbi, dest, source, n, pe) \
    BOTH(shmem_put_signal, dest, source, n, &sig, 1, SHMEM_SIGNAL_SET, pe) \
    BOTH(shmem_put_signal_nbi, dest, source, n, &sig, 1, SHMEM_SIGNAL_ADD, pe) \
    BOTH(shmemx_ibput, dest, source, stride, stride, n, n, pe) BOTH(shmemx_ibget, dest, source, stride, stride, n, n, pe) \
    BOTH(shmem_put_ct, ct, dest, source, n, pe) BOTH(shmem_put_ct_nbi, ct, dest, source, n, pe) \
    BOTH(shmem_get_ct, ct, dest, source, n, pe) BOTH(shmem_p_ct, ct, dest, value, pe) \
    value = shmem_g(array, pe); value = shmem_g(ctx, source, pe); \
    shmem_p(dest, shmem_g(&dest[pe], pe), pe); /* the second call is within the first */ \
    pe += shmem_alltoall(team, dest, source, n) + shmem_alltoalls(team, dest, source, stride, stride, n) + \
          shmem_broadcast(team, array, array, n, pe) + shmem_collect(team, dest, source, n) + \
          shmem_fcollect(team, dest, source, n) + shmem_max_reduce(team, dest, source, n) + \
          shmem_min_reduce(team, dest, source, n);)
#define USE_NUMBER(TYPE) WITH(TYPE, \
    pe += shmem_sum_reduce(team, dest, source, n) + shmem_prod_reduce(team, array, array, n) + \
          shmem_sum_inscan(team, dest, source, n) + shmem_sum_exscan(team, dest, source, n) + \
          shmemx_sum_inscan(team, dest, source, n) + shmemx_sum_exscan(team, dest, source, n);)
#define USE_BITWISE(TYPE) WITH(TYPE, \
    pe += shmem_and_reduce(team, dest, source, n) + shmem_or_reduce(team, dest, source, n) + \
          shmem_xor_reduce(team, dest, source, n);)
#define USE_AMO(TYPE) WITH(TYPE, \
    value = shmem_atomic_compare_swap(dest, value, value, pe) + shmem_atomic_compare_swap(ctx, dest, value, value, pe) + \
            shmem_atomic_fetch_inc(dest, pe) + shmem_atomic_fetch_inc(ctx, dest, pe) + \
            shmem_atomic_fetch_add(dest, value, pe) + shmem_atomic_fetch_add(ctx, array, 1, pe); \
    BOTH(shmem_atomic_inc, dest, pe) BOTH(shmem_atomic_add, dest, 1, pe) \
    BOTH(shmem_atomic_compare_swap_nbi, &value, dest, 0, 1, pe) BOTH(shmem_atomic_fetch_inc_nbi, &value, dest, pe) \
    BOTH(shmem_atomic_fetch_add_nbi, &value, dest, value, pe) \
    value = shmem_cswap(dest, value, value, pe) + shmem_finc(dest, pe) + shmem_fadd(dest, value, pe); \
    shmem_inc(dest, pe); shmem_add(dest, value, pe);)
#define USE_AMO_EXTENDED(TYPE) WITH(TYPE, \
    value = shmem_atomic_fetch(source, pe) + shmem_atomic_fetch(ctx, dest, pe) + shmem_atomic_swap(dest, value, pe) + \
            shmem_atomic_swap(ctx, dest, value, pe); \
    BOTH(shmem_atomic_set, dest, value, pe) BOTH(shmem_atomic_fetch_nbi, &value, source, pe) \
    BOTH(shmem_atomic_swap_nbi, &value, dest, value, pe) \
    value = shmem_fetch(source, pe) + shmem_swap(dest, value, pe); shmem_set(dest, value, pe);)
#define USE_AMO_BITWISE(TYPE) WITH(TYPE, \
    value = shmem_atomic_fetch_and(dest, value, pe) + shmem_atomic_fetch_and(ctx, dest, value, pe) + \
            shmem_atomic_fetch_or(dest, value, pe) + shmem_atomic_fetch_or(ctx, dest, value, pe) + \
            shmem_atomic_fetch_xor(dest, value, pe) + shmem_atomic_fetch_xor(ctx, dest, value, pe); \
    BOTH(shmem_atomic_and, dest, value, pe) BOTH(shmem_atomic_or, dest, value, pe) \
    BOTH(shmem_atomic_xor, dest, value, pe) BOTH(shmem_atomic_fetch_and_nbi, &value, dest, value, pe) \
    BOTH(shmem_atomic_fetch_or_nbi, &value, dest, value, pe) BOTH(shmem_atomic_fetch_xor_nbi, &value, dest, value, pe))
#define USE_SYNC(TYPE) WITH(TYPE, \
    static volatile TYPE changing; size_t found[4]; \
    shmem_wait_until(dest, SHMEM_CMP_NE, 0); shmem_wait_until(&changing, SHMEM_CMP_GE, value); \
    shmem_wait_until_all(dest, n, NULL, SHMEM_CMP_EQ, value); shmem_wait_until_all_vector(dest, n, NULL, 1, source); \
    pe += shmem_test(&changing, SHMEM_CMP_LT, value) + shmem_test_all(dest, n, NULL, 1, value) + \
          shmem_test_all_vector(dest, n, NULL, 1, source); \
    n += shmem_wait_until_any(dest, n, NULL, 1, value) + shmem_wait_until_some(dest, n, found, NULL, 1, value) + \
         shmem_wait_until_any_vector(dest, n, NULL, 1, source) + \
         shmem_wait_until_some_vector(array, n, found, NULL, 1, array) + shmem_test_any(dest, n, NULL, 1, value) + \
         shmem_test_some(dest, n, found, NULL, 1, value) + shmem_test_any_vector(dest, n, NULL, 1, source) + \
         shmem_test_some_vector(dest, n, found, NULL, 1, source);)

void use(void)
{
    static long psync[SHMEM_SYNC_SIZE];
    RMA(USE_RMA)
    RMA(USE_NUMBER)
    BITWISE(USE_BITWISE)
    AMO(USE_AMO)
    AMO_EXTENDED(USE_AMO_EXTENDED)
    AMO_BITWISE(USE_AMO_BITWISE)
    SYNC(USE_SYNC)

    BOTH(shmem_signal_add, &sig, 1, pe)
    BOTH(shmem_signal_set, &sig, 1, pe)
    BOTH(shmemx_signal_add, &sig, 1, pe)
    BOTH(shmemx_signal_set, &sig, 1, pe)

    /* The deprecated forms share names with others. */
    pe += shmem_sync(team) + shmem_sync(SHMEM_TEAM_WORLD);
    shmem_sync(0, 1, pe, psync);
    shmem_wait(psync, 0);
    shmem_broadcast32(psync, psync, n, 0, 0, 0, pe, psync);
#ifndef __cplusplus
    USE_NUMBER(double _Complex)
    USE_NUMBER(float _Complex)
    shmem_put(psync, ((long[]){1, 2, 3}), 3, pe); /* an argument may contain commas */

    /* The type of a type-generic result is the element's. */
    static const float real;
    _Static_assert(_Generic(shmem_g(&real, 0), float: 1, default: 0), "a float");
    _Static_assert(_Generic(shmem_atomic_fetch_add(&sig, 1, 0), uint64_t: 1, default: 0), "a uint64_t");
    _Static_assert(_Generic(shmem_sync(team), int: 1, default: 0), "an int");
#endif
}
