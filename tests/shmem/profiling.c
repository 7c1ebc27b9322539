/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The profiling interface: callers of the library use a shmem_ function that the program defines, and the program reaches
 * the library's by the name with a p. OpenSHMEM 1.6, "OpenSHMEM Profiling Interface".
 */
#if __has_include(<pshmem.h>)
#include <pshmem.h>
#define HAS_PSHMEM 1
#else
#define HAS_PSHMEM 0
#endif

#include "suite.h"

static struct {
    int put, get, barrier, atomic, signal, malloc, reduce;
    size_t put_elements;
} calls;

void shmem_long_put(long *dest, const long *source, size_t nelems, int pe)
{
    calls.put++;
    calls.put_elements += nelems;
    pshmem_long_put(dest, source, nelems, pe);
}

void shmem_getmem(void *dest, const void *source, size_t nelems, int pe)
{
    calls.get++;
    pshmem_getmem(dest, source, nelems, pe);
}

void shmem_barrier_all(void)
{
    calls.barrier++;
    pshmem_barrier_all();
}

int shmem_int_atomic_fetch_add(int *dest, int value, int pe)
{
    calls.atomic++;
    return pshmem_int_atomic_fetch_add(dest, value, pe);
}

void *shmem_malloc(size_t size)
{
    calls.malloc++;
    return pshmem_malloc(size);
}

CASE(own_functions_serve, 2,
     "calls of the program go to its own function, which reaches the library's by its other name (pshmem_)")
{
    enum { N = 10 };
    long *dest = symmetric(N * sizeof *dest), source[N], back[N];
    int *word = symmetric(sizeof *word);
    for (int i = 0; i < N; i++) source[i] = me() * 100 + i;
    memset(&calls, 0, sizeof calls);
    shmem_long_put(dest, source, N, next_pe());
    shmem_long_put(dest, source, 3, next_pe());
    shmem_barrier_all();
    shmem_getmem(back, dest, sizeof back, next_pe());
    CHECK_EQ(shmem_int_atomic_fetch_add(word, 4, next_pe()), 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(dest[i], previous_pe() * 100 + i);
        CHECK_EQ(back[i], source[i]);
    }
    CHECK_EQ(calls.put, 2);
    CHECK_EQ(calls.put_elements, N + 3);
    CHECK_EQ(calls.barrier, 1);
    CHECK_EQ(calls.get, 1);
    CHECK_EQ(calls.atomic, 1);
}

CASE(others_stay_the_library_s, 2,
     "functions that the program does not replace are the library's (profiling interface)")
{
    long *dest = symmetric(4 * sizeof *dest);
    int *word = symmetric(sizeof *word);
    memset(&calls, 0, sizeof calls);
    shmem_long_p(dest, 6, next_pe());
    shmem_long_put_nbi(dest + 1, (const long[]){7}, 1, next_pe());
    shmem_quiet();
    CHECK_EQ(shmem_long_g(dest, next_pe()), 6);
    shmem_int_atomic_inc(word, next_pe());
    pshmem_barrier_all();
    CHECK_EQ(dest[1], 7);
    CHECK_EQ(*word, 1);
    CHECK_EQ(calls.put + calls.get + calls.barrier + calls.atomic, 0);
}

CASE(library_does_not_call_the_program, 2,
     "the library's internal calls do not reach the program's functions (profiling interface, Multiple Counting)")
{
    memset(&calls, 0, sizeof calls);
    void *block = shmem_malloc(1000);
    CHECK_OP(block, !=, NULL);
    shmem_free(block);
    block = shmem_calloc(10, 10);
    shmem_free(block);
#if SINCE(1, 5)
    static int source, dest;
    source = 1 + me();
    CHECK_EQ(shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &dest, &source, 1), 0);
    CHECK_EQ(dest, 3);
    CHECK_EQ(shmem_team_sync(SHMEM_TEAM_WORLD), 0);
#endif
    CHECK_EQ(calls.malloc, 1);
    CHECK_EQ(calls.put + calls.get + calls.barrier + calls.atomic, 0);
}

CASE(selection_by_type_reaches_them, 2,
     "the C11 selection by type calls the program's function (C11 Type-Generic Interfaces)")
{
    long *dest = symmetric(sizeof *dest), source = 3;
    int *word = symmetric(sizeof *word);
    memset(&calls, 0, sizeof calls);
    shmem_put(dest, &source, 1, next_pe());
    (void)shmem_atomic_fetch_add(word, 1, next_pe());
    CHECK_EQ(calls.put, 1);
    CHECK_EQ(calls.atomic, 1);
    pshmem_barrier_all();
    CHECK_EQ(*dest, 3);
    CHECK_EQ(*word, 1);
}

/* One of each group is enough: all names come from one table. */
#define OTHER_NAME(NAME) {#NAME, (void (*)(void))p##NAME}
static const struct {
    const char *name;
    void (*function)(void);
} other_names[] = {
    OTHER_NAME(shmem_init), OTHER_NAME(shmem_finalize), OTHER_NAME(shmem_my_pe), OTHER_NAME(shmem_n_pes),
    OTHER_NAME(shmem_init_thread), OTHER_NAME(shmem_query_thread), OTHER_NAME(shmem_global_exit),
    OTHER_NAME(shmem_pe_accessible), OTHER_NAME(shmem_addr_accessible), OTHER_NAME(shmem_ptr),
    OTHER_NAME(shmem_malloc), OTHER_NAME(shmem_calloc), OTHER_NAME(shmem_align), OTHER_NAME(shmem_realloc),
    OTHER_NAME(shmem_free), OTHER_NAME(shmem_ctx_create), OTHER_NAME(shmem_ctx_destroy),
    OTHER_NAME(shmem_putmem), OTHER_NAME(shmem_ctx_putmem), OTHER_NAME(shmem_put8), OTHER_NAME(shmem_get128),
    OTHER_NAME(shmem_char_put), OTHER_NAME(shmem_ctx_longdouble_get), OTHER_NAME(shmem_float_p),
    OTHER_NAME(shmem_ctx_double_g), OTHER_NAME(shmem_short_iput), OTHER_NAME(shmem_iget32),
    OTHER_NAME(shmem_putmem_nbi), OTHER_NAME(shmem_ctx_int_get_nbi),
    OTHER_NAME(shmem_int_atomic_compare_swap), OTHER_NAME(shmem_ctx_long_atomic_fetch_inc),
    OTHER_NAME(shmem_uint_atomic_fetch_xor), OTHER_NAME(shmem_float_atomic_swap),
    OTHER_NAME(shmem_long_wait_until), OTHER_NAME(shmem_int_test), OTHER_NAME(shmem_fence), OTHER_NAME(shmem_quiet),
    OTHER_NAME(shmem_ctx_quiet), OTHER_NAME(shmem_barrier_all), OTHER_NAME(shmem_sync_all), OTHER_NAME(shmem_barrier),
    OTHER_NAME(shmem_broadcast32), OTHER_NAME(shmem_collect64), OTHER_NAME(shmem_fcollect32), OTHER_NAME(shmem_alltoall64),
    OTHER_NAME(shmem_alltoalls32), OTHER_NAME(shmem_int_sum_to_all), OTHER_NAME(shmem_set_lock),
    OTHER_NAME(shmem_test_lock), OTHER_NAME(shmem_clear_lock), OTHER_NAME(shmem_long_add), OTHER_NAME(shmem_int_cswap),
#if SINCE(1, 5)
    OTHER_NAME(shmem_team_split_strided), OTHER_NAME(shmem_team_split_2d), OTHER_NAME(shmem_team_destroy),
    OTHER_NAME(shmem_team_my_pe), OTHER_NAME(shmem_team_translate_pe), OTHER_NAME(shmem_team_get_config),
    OTHER_NAME(shmem_team_create_ctx), OTHER_NAME(shmem_ctx_get_team), OTHER_NAME(shmem_malloc_with_hints),
    OTHER_NAME(shmem_int_put_signal), OTHER_NAME(shmem_ctx_putmem_signal_nbi), OTHER_NAME(shmem_signal_fetch),
    OTHER_NAME(shmem_signal_wait_until), OTHER_NAME(shmem_long_wait_until_any), OTHER_NAME(shmem_int_test_some_vector),
    OTHER_NAME(shmem_ulong_atomic_fetch_and_nbi), OTHER_NAME(shmem_int_broadcast), OTHER_NAME(shmem_collectmem),
    OTHER_NAME(shmem_info_get_version), OTHER_NAME(shmem_info_get_name),
    OTHER_NAME(shmem_complexd_sum_reduce), OTHER_NAME(shmem_team_sync), OTHER_NAME(shmem_pcontrol),
#endif
#if SINCE(1, 6)
    OTHER_NAME(shmem_int_ibput), OTHER_NAME(shmem_ibget64), OTHER_NAME(shmem_signal_add), OTHER_NAME(shmem_ctx_signal_set),
    OTHER_NAME(shmem_pe_quiet), OTHER_NAME(shmem_ctx_pe_quiet), OTHER_NAME(shmem_team_ptr),
    OTHER_NAME(shmem_query_initialized),
    OTHER_NAME(shmem_ctx_session_start), OTHER_NAME(shmem_ctx_session_stop), OTHER_NAME(shmem_int_sum_inscan),
    OTHER_NAME(shmem_double_sum_exscan),
#endif
};

CASE(every_function_has_another_name, 1,
     "each function of the library exists under pshmem_, too (profiling interface, requirement 1)")
{
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        about("p%s", other_names[i].name);
        CHECK_OP(other_names[i].function, !=, NULL);
    }
    CHECK_EQ(pshmem_my_pe(), me());
    CHECK_EQ(pshmem_n_pes(), n_pes());
}

CASE(names_stand_in_pshmem_h, 1,
     "pshmem.h declares everything that the pshmem_ functions need (profiling interface, requirement 6)") { CHECK(HAS_PSHMEM); }

#if SINCE(1, 5)
CASE(control_does_nothing, 1, "shmem_pcontrol takes a level and anything else, and returns (shmem_pcontrol)")
{
    shmem_pcontrol(0);
    shmem_pcontrol(1);
    shmem_pcontrol(2, "text", 3.0);
    shmem_pcontrol(-5, (void *)NULL);
}
#endif
