/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Versions, names, constants, queries, and routines without effect. OpenSHMEM 1.6, "Library Setup, Exit, and Query
 * Routines", "Library Constants", "Profiling Interface", and the deprecated names.
 */
#include "suite.h"

#include <shmemx.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

CASE(version, 1, "shmem_info_get_version gives the constants of the header")
{
    int major = -1, minor = -1;
    shmem_info_get_version(&major, &minor);
    CHECK_EQ(major, SHMEM_MAJOR_VERSION);
    CHECK_EQ(minor, SHMEM_MINOR_VERSION);
    CHECK_EQ(_SHMEM_MAJOR_VERSION, SHMEM_MAJOR_VERSION);
    CHECK_EQ(_SHMEM_MINOR_VERSION, SHMEM_MINOR_VERSION);
}

CASE(name, 1, "shmem_info_get_name returns SHMEM_VENDOR_STRING, terminated, within SHMEM_MAX_NAME_LEN")
{
    char *name = local(SHMEM_MAX_NAME_LEN);
    memset(name, 'x', SHMEM_MAX_NAME_LEN);
    shmem_info_get_name(name);
    CHECK_OP(memchr(name, 0, SHMEM_MAX_NAME_LEN), !=, NULL);
    CHECK_TEXT(name, SHMEM_VENDOR_STRING);
    CHECK_OP(sizeof SHMEM_VENDOR_STRING, <=, SHMEM_MAX_NAME_LEN);
#ifdef _SHMEM_VENDOR_STRING
    CHECK_TEXT(_SHMEM_VENDOR_STRING, SHMEM_VENDOR_STRING);
#endif
    CHECK_EQ(_SHMEM_MAX_NAME_LEN, SHMEM_MAX_NAME_LEN);
}

CASE(numbers_of_pes, 3, "shmem_my_pe and shmem_n_pes: each number from 0 on once; _my_pe and _num_pes are the same",
     .crowded = 20)
{
    long *here = symmetric(64 * sizeof *here);
    CHECK_OP(shmem_my_pe(), >=, 0);
    CHECK_OP(shmem_my_pe(), <, shmem_n_pes());
    CHECK_EQ(shmem_n_pes(), n_pes());
    CHECK_EQ(_my_pe(), shmem_my_pe());
    CHECK_EQ(_num_pes(), shmem_n_pes());
    shmem_long_atomic_inc(&here[shmem_my_pe()], 0);
    barrier();
    for (int pe = 0; pe < n_pes() && me() == 0; pe++) CHECK_EQ(here[pe], 1);
}

CASE(accessible_pes, 2, "shmem_pe_accessible is 1 for the PEs of the job")
{
    for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(shmem_pe_accessible(pe), 1);
#ifdef SELVEDGE_SHMEM
    CHECK_EQ(shmem_pe_accessible(-1), 0);
    CHECK_EQ(shmem_pe_accessible(n_pes()), 0);
#endif
}

CASE(cache_routines, 2, "the deprecated cache routines do nothing")
{
    long *word = symmetric(sizeof *word);
    *word = 7;
    shmem_set_cache_inv();
    shmem_set_cache_line_inv(word);
    shmem_clear_cache_inv();
    shmem_clear_cache_line_inv(word);
    shmem_udcflush();
    shmem_udcflush_line(word);
    CHECK_EQ(*word, 7);
}

CASE(deprecated_constants, 1, "constants that begin with _SHMEM are those that begin with SHMEM")
{
    CHECK_EQ(_SHMEM_SYNC_VALUE, SHMEM_SYNC_VALUE);
    CHECK_EQ(_SHMEM_BCAST_SYNC_SIZE, SHMEM_BCAST_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_SYNC_SIZE, SHMEM_REDUCE_SYNC_SIZE);
    CHECK_EQ(_SHMEM_BARRIER_SYNC_SIZE, SHMEM_BARRIER_SYNC_SIZE);
    CHECK_EQ(_SHMEM_COLLECT_SYNC_SIZE, SHMEM_COLLECT_SYNC_SIZE);
    CHECK_EQ(_SHMEM_REDUCE_MIN_WRKDATA_SIZE, SHMEM_REDUCE_MIN_WRKDATA_SIZE);
    CHECK_EQ(_SHMEM_CMP_EQ, SHMEM_CMP_EQ);
    CHECK_EQ(_SHMEM_CMP_NE, SHMEM_CMP_NE);
    CHECK_EQ(_SHMEM_CMP_GT, SHMEM_CMP_GT);
    CHECK_EQ(_SHMEM_CMP_GE, SHMEM_CMP_GE);
    CHECK_EQ(_SHMEM_CMP_LT, SHMEM_CMP_LT);
    CHECK_EQ(_SHMEM_CMP_LE, SHMEM_CMP_LE);
}

CASE(comparisons_differ, 1, "the comparisons are six values; sizes of work arrays are positive and can size arrays")
{
    static const int all[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE};
    static long sized[SHMEM_BCAST_SYNC_SIZE + SHMEM_REDUCE_SYNC_SIZE + SHMEM_BARRIER_SYNC_SIZE +
                      SHMEM_COLLECT_SYNC_SIZE + SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_ALLTOALLS_SYNC_SIZE +
                      SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    for (size_t i = 0; i < COUNT_OF(all); i++)
        for (size_t k = 0; k < i; k++) CHECK_OP(all[i], !=, all[k]);
    CHECK_OP(COUNT_OF(sized), >=, 7);
    switch (SHMEM_CMP_EQ) { /* integer constant expressions */
    case SHMEM_CMP_NE:
        FAIL("EQ is NE");
    case SHMEM_CMP_EQ:
        break;
    }
}

#if SINCE(1, 5)

static shmem_team_t team_at_start = SHMEM_TEAM_WORLD;
static shmem_ctx_t ctx_at_start = SHMEM_CTX_DEFAULT;

CASE(handles_at_start, 2, "predefined handles can initialise objects, be assigned and compared")
{
    shmem_team_t none = SHMEM_TEAM_INVALID;
    shmem_ctx_t no_context = SHMEM_CTX_INVALID;
    CHECK_OP(team_at_start, ==, SHMEM_TEAM_WORLD);
    CHECK_OP(team_at_start, !=, none);
    CHECK_OP(SHMEM_TEAM_SHARED, !=, none);
    CHECK_OP(SHMEM_TEAM_SHARED, !=, SHMEM_TEAM_WORLD);
    CHECK_OP(ctx_at_start, ==, SHMEM_CTX_DEFAULT);
    CHECK_OP(ctx_at_start, !=, no_context);
    CHECK_EQ(shmem_team_n_pes(team_at_start), 2);
}

CASE(constants_of_1_5, 1, "options and masks are distinct bits; signal operations differ")
{
    CHECK_OP(SHMEM_CTX_PRIVATE, !=, 0);
    CHECK_OP(SHMEM_CTX_SERIALIZED, !=, 0);
    CHECK_OP(SHMEM_CTX_NOSTORE, !=, 0);
    CHECK_EQ(SHMEM_CTX_PRIVATE & SHMEM_CTX_SERIALIZED, 0);
    CHECK_EQ((SHMEM_CTX_PRIVATE | SHMEM_CTX_SERIALIZED) & SHMEM_CTX_NOSTORE, 0);
    CHECK_EQ(SHMEM_MALLOC_ATOMICS_REMOTE & SHMEM_MALLOC_SIGNAL_REMOTE, 0);
    CHECK_OP(SHMEM_TEAM_NUM_CONTEXTS, !=, 0);
    CHECK_OP(SHMEM_SIGNAL_SET, !=, SHMEM_SIGNAL_ADD);
}

#endif

CASE(initialised, 2, "shmem_query_initialized is not zero while the library runs")
{
    int initialised = 0;
#if SINCE(1, 6)
    shmem_query_initialized(&initialised);
    CHECK_OP(initialised, !=, 0);
#endif
    (void)initialised;
}

#ifdef SELVEDGE_SHMEM

CASE(profiling_control, 1, "shmem_pcontrol takes any level and any further arguments, and does nothing")
{
    static const int levels[] = {-1, 0, 1, 2, 3, INT32_MAX};
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        shmem_pcontrol(levels[i]);
        shmem_pcontrol(levels[i], "text", 3.5, NULL);
    }
}

CASE(profiling_names, 2, "every routine can be called by its name with a p before it")
{
    long *word = symmetric(sizeof *word);
    CHECK_EQ(pshmem_my_pe(), shmem_my_pe());
    CHECK_EQ(pshmem_n_pes(), shmem_n_pes());
    pshmem_long_p(word, 5 + me(), next_pe());
    pshmem_barrier_all();
    CHECK_EQ(*word, 5 + previous_pe());
    CHECK_EQ(pshmem_long_g(word, next_pe()), 5 + me());
    pshmem_barrier_all();
    CHECK_EQ(pshmem_long_atomic_fetch_add(word, 3, next_pe()), 5 + me());
    pshmem_sync_all();
    CHECK_EQ(*word, 8 + previous_pe());
}

CASE(this_library, 1, "the library names itself, and OpenSHMEM 1.6")
{
    CHECK_EQ(strncmp(SHMEM_VENDOR_STRING, "Selvedge ", 9), 0);
    CHECK_EQ(SHMEM_MAJOR_VERSION, 1);
    CHECK_EQ(SHMEM_MINOR_VERSION, 6);
}

CASE(time_and_node, 2, "shmemx_wtime advances in seconds; shmemx_nodename is the same text at all PEs of a machine")
{
    const double begin = shmemx_wtime();
    const long long begin_ms = now_ms();
    sleep_ms(30);
    const double took = shmemx_wtime() - begin;
    CHECK_OP(took, >=, 0.029);
    CHECK_OP(took, <=, (double)(now_ms() - begin_ms) / 1000 + 0.002);
    char *all = symmetric(2 * 256), *mine = symmetric(256);
    snprintf(mine, 256, "%s", shmemx_nodename());
    CHECK_OP(mine[0], !=, 0);
    CHECK_EQ(shmem_fcollectmem(SHMEM_TEAM_WORLD, all, mine, 256), 0);
    CHECK_TEXT(all, all + 256);
    CHECK_TEXT(shmemx_nodename(), mine);
}

#endif
