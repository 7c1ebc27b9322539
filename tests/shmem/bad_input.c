/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Calls with wrong arguments. The standard leaves most of them undefined. In this library such a call does nothing, a
 * fetching call returns 0, and the program continues. Each case makes all of its calls, then checks that no memory changed
 * and that the library still works. The library reports the first wrong call of a process, and with SHMEM_DEBUG each one.
 */
#include "suite.h"
#include "types.h"

#ifdef SELVEDGE_SHMEM

#include <limits.h>
#include <shmemx.h>
#include <sys/mman.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { BYTES = 4096 };

/* Symmetric memory that no call may change, and private memory. */
struct setup {
    unsigned char *symmetric, *private;
    long *word; /* in symmetric memory, aligned */
};

static struct setup setup_open(void)
{
    struct setup s = {symmetric(BYTES), local(BYTES), NULL};
    pattern_fill(s.symmetric, BYTES, 1);
    pattern_fill(s.private, BYTES, 2);
    s.word = (long *)(s.symmetric + 512);
    barrier();
    return s;
}

/* Checks that no memory changed, and that a put, a get, an atomic, a barrier and a collective still work. */
static void setup_check(const struct setup *s)
{
    static long word, source, sum;
    barrier();
    CHECK_PATTERN(s->symmetric, BYTES, 1);
    CHECK_PATTERN(s->private, BYTES, 2);
    check_guards();
    word = 0;
    barrier();
    shmem_long_p(&word, 10 + me(), next_pe());
    barrier();
    CHECK_EQ(word, 10 + previous_pe());
    CHECK_EQ(shmem_long_g(&word, next_pe()), 10 + me());
    barrier();
    CHECK_EQ(shmem_long_atomic_fetch_inc(&word, next_pe()), 10 + me());
    source = 1;
    CHECK_EQ(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &sum, &source, 1), 0);
    CHECK_EQ(sum, n_pes());
    barrier();
}

/* ---- Remote memory access ------------------------------------------------------------------------------- */

/* Calls every routine that moves data with these arguments. `other` is the private side of the transfer. */
static void move_all(unsigned char *remote, unsigned char *other, size_t count, int pe, shmem_ctx_t ctx)
{
    long *r = (long *)remote, *o = (long *)other;
    shmem_putmem(remote, other, count, pe);
    shmem_getmem(other, remote, count, pe);
    shmem_putmem_nbi(remote, other, count, pe);
    shmem_getmem_nbi(other, remote, count, pe);
    shmem_ctx_putmem(ctx, remote, other, count, pe);
    shmem_ctx_getmem(ctx, other, remote, count, pe);
    shmem_ctx_putmem_nbi(ctx, remote, other, count, pe);
    shmem_ctx_getmem_nbi(ctx, other, remote, count, pe);
    shmem_long_put(r, o, count, pe);
    shmem_long_get(o, r, count, pe);
    shmem_ctx_long_put(ctx, r, o, count, pe);
    shmem_ctx_long_get(ctx, o, r, count, pe);
    shmem_put8(remote, other, count, pe);
    shmem_get16(other, remote, count, pe);
    shmem_put32(remote, other, count, pe);
    shmem_get64(other, remote, count, pe);
    shmem_put128(remote, other, count, pe);
    shmem_get128(other, remote, count, pe);
    shmem_long_iput(r, o, 2, 1, count, pe);
    shmem_long_iget(o, r, 1, 2, count, pe);
    shmem_ctx_long_iput(ctx, r, o, 2, 1, count, pe);
    shmem_ctx_long_iget(ctx, o, r, 1, 2, count, pe);
    shmem_long_ibput(r, o, 3, 2, 2, count, pe);
    shmem_long_ibget(o, r, 2, 3, 2, count, pe);
}

static void scalars_all(unsigned char *remote, int pe, shmem_ctx_t ctx)
{
#define SCALAR(NAME, TYPE)                                              \
    shmem_##NAME##_p((TYPE *)remote, (TYPE)9, pe);                      \
    shmem_ctx_##NAME##_p(ctx, (TYPE *)remote, (TYPE)9, pe);             \
    CHECK_NUMBER(shmem_##NAME##_g((const TYPE *)remote, pe), 0);        \
    CHECK_NUMBER(shmem_ctx_##NAME##_g(ctx, (const TYPE *)remote, pe), 0);
    RMA_TYPES(SCALAR)
}

static void atomics_all(unsigned char *remote, int pe, shmem_ctx_t ctx)
{
#define STANDARD(NAME, TYPE)                                                                       \
    {                                                                                              \
        TYPE *at = (TYPE *)remote, fetched = 77;                                                   \
        about("atomics on " #NAME);                                                                \
        CHECK_EQ(shmem_##NAME##_atomic_fetch(at, pe), 0);                                          \
        shmem_##NAME##_atomic_set(at, 5, pe);                                                      \
        CHECK_EQ(shmem_##NAME##_atomic_swap(at, 5, pe), 0);                                        \
        CHECK_EQ(shmem_##NAME##_atomic_compare_swap(at, 0, 5, pe), 0);                             \
        CHECK_EQ(shmem_##NAME##_atomic_fetch_inc(at, pe), 0);                                      \
        shmem_##NAME##_atomic_inc(at, pe);                                                         \
        CHECK_EQ(shmem_##NAME##_atomic_fetch_add(at, 5, pe), 0);                                   \
        shmem_##NAME##_atomic_add(at, 5, pe);                                                      \
        CHECK_EQ(shmem_ctx_##NAME##_atomic_fetch_add(ctx, at, 5, pe), 0);                          \
        shmem_ctx_##NAME##_atomic_add(ctx, at, 5, pe);                                             \
        shmem_##NAME##_atomic_fetch_add_nbi(&fetched, at, 5, pe);                                  \
        shmem_quiet();                                                                             \
        CHECK(fetched == 77 || fetched == 0);                                                      \
    }
    AMO_STANDARD_TYPES(STANDARD)
#define BITWISE(NAME, TYPE)                                             \
    about("bitwise atomics on " #NAME);                                 \
    CHECK_EQ(shmem_##NAME##_atomic_fetch_and((TYPE *)remote, 5, pe), 0); \
    CHECK_EQ(shmem_##NAME##_atomic_fetch_or((TYPE *)remote, 5, pe), 0); \
    CHECK_EQ(shmem_##NAME##_atomic_fetch_xor((TYPE *)remote, 5, pe), 0); \
    shmem_##NAME##_atomic_and((TYPE *)remote, 5, pe);                   \
    shmem_##NAME##_atomic_or((TYPE *)remote, 5, pe);                    \
    shmem_##NAME##_atomic_xor((TYPE *)remote, 5, pe);
    AMO_BITWISE_TYPES(BITWISE)
    CHECK_NUMBER(shmem_double_atomic_swap((double *)remote, 5, pe), 0);
    shmem_float_atomic_set((float *)remote, 5, pe);
}

static void signals_all(unsigned char *dest, unsigned char *from, unsigned char *signal, int pe)
{
    shmem_putmem_signal(dest, from, 8, (uint64_t *)signal, 5, SHMEM_SIGNAL_SET, pe);
    shmem_putmem_signal_nbi(dest, from, 8, (uint64_t *)signal, 5, SHMEM_SIGNAL_ADD, pe);
    shmem_long_put_signal((long *)dest, (long *)from, 1, (uint64_t *)signal, 5, SHMEM_SIGNAL_SET, pe);
}

static void bare_signals(unsigned char *signal, int pe)
{
    shmem_signal_set((uint64_t *)signal, 5, pe);
    shmem_signal_add((uint64_t *)signal, 5, pe);
}

static const int wrong_pes[] = {-1, -2, INT_MIN, INT_MAX, 1 << 20, 1025, 3};

static void call_with_wrong_pes(void)
{
    struct setup s = setup_open();
    for (size_t i = 0; i < COUNT_OF(wrong_pes); i++) {
        const int pe = wrong_pes[i];
        about("PE %d", pe);
        move_all(s.symmetric, s.private, 16, pe, SHMEM_CTX_DEFAULT);
        scalars_all(s.symmetric, pe, SHMEM_CTX_DEFAULT);
        atomics_all(s.symmetric, pe, SHMEM_CTX_DEFAULT);
        signals_all(s.symmetric, s.private, s.symmetric + 8, pe);
        bare_signals(s.symmetric + 8, pe);
        CHECK_PTR(shmem_ptr(s.symmetric, pe), NULL);
        CHECK_EQ(shmem_pe_accessible(pe), 0);
        CHECK_EQ(shmem_addr_accessible(s.symmetric, pe), 0);
        const int targets[] = {0, pe};
        shmem_pe_quiet(targets, 2);
    }
    shmem_quiet();
    setup_check(&s);
}

DATA_CASE(pes_that_are_none, 3, "PE numbers outside the job: nothing is moved, a fetch returns 0")
{
    call_with_wrong_pes();
}
CASE(pes_that_are_none_reported, 3, "the same with SHMEM_DEBUG: each is reported", .environment = "SHMEM_DEBUG=1",
     .prints = "shmem_putmem_nbi")
{
    call_with_wrong_pes();
}

static void call_with_wrong_addresses(void)
{
    struct setup s = setup_open();
    long on_stack[64];
    static _Thread_local long of_thread[64];
    unsigned char *unmapped = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(on_stack, 0x33, sizeof on_stack);
    memset(of_thread, 0, sizeof of_thread);
    unsigned char *wrong[] = {NULL,
                              (unsigned char *)on_stack,
                              s.private,
                              (unsigned char *)of_thread,
                              unmapped,
                              (void *)64,
                              (void *)(uintptr_t)0x7ffffffff000,
                              (void *)~(uintptr_t)0x3f,
                              (void *)((uintptr_t)1 << 63)};
    unsigned char scratch[512];
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        about("address %zu, %p", i, (void *)wrong[i]);
        memset(scratch, 0x44, sizeof scratch);
        move_all(wrong[i], scratch, 8, next_pe(), SHMEM_CTX_DEFAULT);
        CHECK_BYTES(scratch, sizeof scratch, 0x44);
        scalars_all(wrong[i], next_pe(), SHMEM_CTX_DEFAULT);
        atomics_all(wrong[i], next_pe(), SHMEM_CTX_DEFAULT);
        signals_all(wrong[i], scratch, s.symmetric, next_pe());
        signals_all(s.symmetric, scratch, wrong[i], next_pe());
        bare_signals(wrong[i], next_pe());
        move_all(wrong[i], scratch, 8, me(), SHMEM_CTX_DEFAULT);
        CHECK_PTR(shmem_ptr(wrong[i], next_pe()), NULL);
        CHECK_EQ(shmem_addr_accessible(wrong[i], next_pe()), 0);
    }
    shmem_quiet();
    CHECK_BYTES(on_stack, sizeof on_stack, 0x33);
    munmap(unmapped, 1 << 16);
    setup_check(&s);
}

DATA_CASE(addresses_that_are_not_symmetric, 2,
          "NULL, the stack, private and unmapped memory as the remote side: nothing is moved")
{
    call_with_wrong_addresses();
}
CASE(addresses_that_are_not_symmetric_reported, 2, "the same with SHMEM_DEBUG", .environment = "SHMEM_DEBUG=1",
     .prints = "shmem_long_iput: argument dest")
{
    call_with_wrong_addresses();
}

CASE(ranges_beyond, 2, "lengths that reach beyond the symmetric memory, or overflow, move nothing at all")
{
    static const size_t lengths[] = {SIZE_MAX,        SIZE_MAX / 2,    SIZE_MAX / 8 + 1,
                                     (size_t)1 << 61, (size_t)1 << 60, (size_t)1 << 46};
    static long object[4] = {1, 2, 3, 4};
    struct setup s = setup_open();
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        about("%zu elements", lengths[i]);
        move_all(s.symmetric, s.private, lengths[i], next_pe(), SHMEM_CTX_DEFAULT);
        move_all((unsigned char *)object, s.private, lengths[i], next_pe(), SHMEM_CTX_DEFAULT);
    }
    shmem_long_iput(s.word, (long *)s.private, PTRDIFF_MAX, 1, 2, next_pe());
    shmem_long_iget((long *)s.private, s.word, 1, PTRDIFF_MAX, 2, next_pe());
    shmem_long_iput(s.word, (long *)s.private, (ptrdiff_t)1 << 58, 1, 1 << 5, next_pe());
    barrier();
    CHECK_OP(object[0], ==, 1);
    CHECK_OP(object[3], ==, 4);
    setup_check(&s);
}

CASE(strides_that_are_none, 2, "strides of zero or less, and blocks longer than their stride, move nothing")
{
    static const ptrdiff_t strides[] = {0, -1, PTRDIFF_MIN};
    struct setup s = setup_open();
    for (size_t i = 0; i < COUNT_OF(strides); i++) {
        about("stride %td", strides[i]);
        shmem_long_iput(s.word, (long *)s.private, strides[i], 1, 4, next_pe());
        shmem_long_iput(s.word, (long *)s.private, 1, strides[i], 4, next_pe());
        shmem_long_iget((long *)s.private, s.word, strides[i], 1, 4, next_pe());
        shmem_long_iget((long *)s.private, s.word, 1, strides[i], 4, next_pe());
        shmem_long_ibput(s.word, (long *)s.private, strides[i], 1, 1, 4, next_pe());
        shmem_long_ibget((long *)s.private, s.word, 1, strides[i], 1, 4, next_pe());
        CHECK_OP(shmem_long_alltoalls(SHMEM_TEAM_WORLD, s.word, s.word + 64, strides[i], 1, 2), !=, 0);
        CHECK_OP(shmem_long_alltoalls(SHMEM_TEAM_WORLD, s.word, s.word + 64, 1, strides[i], 2), !=, 0);
    }
    setup_check(&s);
}

CASE(contexts_that_are_none, 2, "SHMEM_CTX_INVALID, a destroyed context and arbitrary values: nothing is moved")
{
    struct setup s = setup_open();
    shmem_ctx_t destroyed;
    CHECK_EQ(shmem_ctx_create(0, &destroyed), 0);
    shmem_ctx_destroy(destroyed);
    shmem_ctx_t wrong[] = {SHMEM_CTX_INVALID,
                           destroyed,
                           (shmem_ctx_t)2,
                           (shmem_ctx_t)(uintptr_t)0x12345678,
                           (shmem_ctx_t)~(uintptr_t)0,
                           (shmem_ctx_t)s.symmetric};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        shmem_team_t team = SHMEM_TEAM_WORLD;
        about("context %zu", i);
        shmem_ctx_putmem(wrong[i], s.symmetric, s.private, 8, next_pe());
        shmem_ctx_getmem(wrong[i], s.private, s.symmetric, 8, next_pe());
        shmem_ctx_long_iput(wrong[i], s.word, (long *)s.private, 2, 1, 4, next_pe());
        shmem_ctx_long_p(wrong[i], s.word, 5, next_pe());
        CHECK_EQ(shmem_ctx_long_g(wrong[i], s.word, next_pe()), 0);
        shmem_ctx_long_atomic_add(wrong[i], s.word, 5, next_pe());
        CHECK_EQ(shmem_ctx_long_atomic_swap(wrong[i], s.word, 5, next_pe()), 0);
        shmem_ctx_putmem_signal(wrong[i], s.symmetric, s.private, 8, (uint64_t *)s.word, 1, SHMEM_SIGNAL_SET,
                                next_pe());
        CHECK_OP(shmem_ctx_get_team(wrong[i], &team), !=, 0);
        shmem_ctx_quiet(wrong[i]);
        shmem_ctx_fence(wrong[i]);
        shmem_ctx_destroy(wrong[i]);
        shmem_ctx_session_start(wrong[i], 0, NULL, 0);
        shmem_ctx_session_stop(wrong[i]);
    }
    shmem_ctx_destroy(SHMEM_CTX_DEFAULT); /* not a context that can be destroyed */
    setup_check(&s);
}

CASE(atomics_between_words, 2, "atomics, signals and waits at misaligned addresses are refused")
{
    struct setup s = setup_open();
    for (int shift = 1; shift < 4; shift++) {
        about("shift %d", shift);
        atomics_all(s.symmetric + shift, next_pe(), SHMEM_CTX_DEFAULT);
        signals_all(s.symmetric, s.private, s.symmetric + 256 + shift, next_pe());
        bare_signals(s.symmetric + 256 + shift, next_pe());
        shmem_long_wait_until((long *)(s.symmetric + shift), SHMEM_CMP_EQ, 4711); /* returns */
        CHECK_EQ(shmem_long_test((long *)(s.symmetric + shift), SHMEM_CMP_NE, 4711), 0);
    }
    setup_check(&s);
}

CASE(operators_that_are_none, 2,
     "unknown comparisons and signal operators: tests are 0, waits return, no signal is set")
{
    static const int wrong[] = {0, 7, -1, INT_MAX, INT_MIN};
    struct setup s = setup_open();
    int status[2] = {0, 0};
    size_t indices[2];
    long values[2] = {1, 2};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        about("operator %d", wrong[i]);
        CHECK_EQ(shmem_long_test(s.word, wrong[i], 5), 0);
        CHECK_EQ(shmem_long_test_all(s.word, 2, status, wrong[i], 5), 0);
        CHECK_EQ(shmem_long_test_some(s.word, 2, indices, status, wrong[i], 5), 0);
        CHECK_EQ(shmem_long_test_all_vector(s.word, 2, status, wrong[i], values), 0);
        shmem_long_wait_until(s.word, wrong[i], 5);
        shmem_long_wait_until_all(s.word, 2, status, wrong[i], 5);
        shmem_signal_wait_until((uint64_t *)s.word, wrong[i], 5);
        if (wrong[i] != SHMEM_SIGNAL_SET && wrong[i] != SHMEM_SIGNAL_ADD)
            shmem_putmem_signal(s.symmetric, s.private, 8, (uint64_t *)s.word, 5, wrong[i], next_pe());
    }
    setup_check(&s);
}

/* ---- Collectives, teams, heap --------------------------------------------------------------------------- */

CASE(collectives, 2, "invalid teams, private memory, roots outside the team: an error, and nothing is written")
{
    struct setup s = setup_open();
    shmem_team_t wrong[] = {SHMEM_TEAM_INVALID, (shmem_team_t)(uintptr_t)50, (shmem_team_t)~(uintptr_t)0,
                            (shmem_team_t)s.symmetric};
    long *to = s.word, *from = s.word + 64, *private = (long *)s.private;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        about("team %zu", i);
        CHECK_OP(shmem_long_broadcast(wrong[i], to, from, 2, 0), !=, 0);
        CHECK_OP(shmem_long_collect(wrong[i], to, from, 2), !=, 0);
        CHECK_OP(shmem_long_fcollect(wrong[i], to, from, 2), !=, 0);
        CHECK_OP(shmem_long_alltoall(wrong[i], to, from, 2), !=, 0);
        CHECK_OP(shmem_long_alltoalls(wrong[i], to, from, 1, 1, 2), !=, 0);
        CHECK_OP(shmem_long_sum_reduce(wrong[i], to, from, 2), !=, 0);
        CHECK_OP(shmem_double_max_reduce(wrong[i], (double *)to, (double *)from, 2), !=, 0);
        CHECK_OP(shmem_long_sum_inscan(wrong[i], to, from, 2), !=, 0);
        CHECK_OP(shmem_long_sum_exscan(wrong[i], to, from, 2), !=, 0);
        CHECK_OP(shmem_team_sync(wrong[i]), !=, 0);
        CHECK_EQ(shmem_team_my_pe(wrong[i]), -1);
        CHECK_EQ(shmem_team_n_pes(wrong[i]), -1);
        shmem_team_destroy(wrong[i]);
    }
    about("private memory");
    CHECK_OP(shmem_long_broadcast(SHMEM_TEAM_WORLD, private, from, 2, 0), !=, 0);
    CHECK_OP(shmem_long_broadcast(SHMEM_TEAM_WORLD, to, private, 2, 0), !=, 0);
    CHECK_OP(shmem_long_collect(SHMEM_TEAM_WORLD, private, from, 2), !=, 0);
    CHECK_OP(shmem_long_fcollect(SHMEM_TEAM_WORLD, private, from, 2), !=, 0);
    CHECK_OP(shmem_long_alltoall(SHMEM_TEAM_WORLD, private, from, 2), !=, 0);
    CHECK_OP(shmem_long_alltoall(SHMEM_TEAM_WORLD, to, private, 2), !=, 0);
    CHECK_OP(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, private, from, 2), !=, 0);
    CHECK_OP(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, to, NULL, 2), !=, 0);
    CHECK_OP(shmem_long_sum_inscan(SHMEM_TEAM_WORLD, NULL, from, 2), !=, 0);
    about("roots");
    CHECK_OP(shmem_long_broadcast(SHMEM_TEAM_WORLD, to, from, 2, -1), !=, 0);
    CHECK_OP(shmem_long_broadcast(SHMEM_TEAM_WORLD, to, from, 2, 2), !=, 0);
    CHECK_OP(shmem_long_broadcast(SHMEM_TEAM_WORLD, to, from, 2, INT_MIN), !=, 0);
    about("lengths");
    CHECK_OP(shmem_long_broadcast(SHMEM_TEAM_WORLD, to, from, SIZE_MAX, 0), !=, 0);
    CHECK_OP(shmem_long_fcollect(SHMEM_TEAM_WORLD, to, from, SIZE_MAX / 8 + 2), !=, 0);
    CHECK_OP(shmem_long_alltoall(SHMEM_TEAM_WORLD, to, from, (size_t)1 << 62), !=, 0);
    CHECK_OP(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, to, from, (size_t)1 << 61), !=, 0);
    about("predefined teams are not destroyed");
    shmem_team_destroy(SHMEM_TEAM_WORLD);
    shmem_team_destroy(SHMEM_TEAM_SHARED);
    CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_WORLD), 2);
    setup_check(&s);
}

CASE(active_sets, 2, "active sets beyond the job, and pSync in private memory: nothing is written, no PE waits")
{
    struct setup s = setup_open();
    long *psync = symmetric(SHMEM_SYNC_SIZE * sizeof *psync), *private = local(SHMEM_SYNC_SIZE * sizeof *private);
    static const int sets[][3] = {{-1, 0, 2}, {0, -1, 2}, {0, 0, 0},       {0, 0, 3},       {0, 1, 2},
                                  {2, 0, 1},  {0, 40, 2}, {0, 0, INT_MAX}, {INT_MAX, 31, 2}};
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        const int start = sets[i][0], stride = sets[i][1], size = sets[i][2];
        about("set %zu", i);
        shmem_barrier(start, stride, size, psync);
        shmem_sync(start, stride, size, psync);
        shmem_broadcast64(s.word, s.word + 64, 2, 0, start, stride, size, psync);
        shmem_collect64(s.word, s.word + 64, 2, start, stride, size, psync);
        shmem_fcollect32(s.word, s.word + 64, 2, start, stride, size, psync);
        shmem_alltoall64(s.word, s.word + 64, 2, start, stride, size, psync);
        shmem_alltoalls32(s.word, s.word + 64, 1, 1, 2, start, stride, size, psync);
        shmem_long_sum_to_all(s.word, s.word + 64, 2, start, stride, size, s.word + 128, psync);
    }
    about("private pSync");
    shmem_barrier(0, 0, 2, private);
    shmem_broadcast64(s.word, s.word + 64, 2, 0, 0, 0, 2, NULL);
    shmem_long_sum_to_all(s.word, s.word + 64, -1, 0, 0, 2, s.word + 128, psync);
    about("roots");
    shmem_broadcast64(s.word, s.word + 64, 2, 2, 0, 0, 2, psync);
    shmem_broadcast64(s.word, s.word + 64, 2, -1, 0, 0, 2, psync);
    CHECK_BYTES(psync, SHMEM_SYNC_SIZE * sizeof *psync, SHMEM_SYNC_VALUE);
    setup_check(&s);
}

CASE(heap, 2, "free and realloc of invalid blocks: nothing happens, NULL; alignments that are no powers of two: NULL")
{
    struct setup s = setup_open();
    unsigned char *block = shmem_malloc(1000), *freed = shmem_malloc(100);
    static long object;
    memset(block, 0x66, 1000);
    shmem_free(freed);
    void *wrong[] = {s.private, block + 64, block + 1, freed, &object, (void *)8, (void *)~(uintptr_t)0};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        about("address %zu", i);
        shmem_free(wrong[i]);
        CHECK_PTR(shmem_realloc(wrong[i], 100), NULL);
        CHECK_PTR(shmem_realloc(wrong[i], 0), NULL);
    }
    static const size_t alignments[] = {0, 3, 24, 100, 12345, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(alignments); i++) {
        about("alignment %zu", alignments[i]);
        CHECK_PTR(shmem_align(alignments[i], 100), NULL);
    }
    CHECK_PTR(shmem_align((size_t)1 << 63, 100), NULL);
    CHECK_BYTES(block, 1000, 0x66);
    unsigned char *other = shmem_malloc(1000);
    CHECK(other + 1000 <= block || block + 1000 <= other);
    shmem_free(block);
    shmem_free(other);
    setup_check(&s);
}

CASE(null_results, 2, "NULL for a result: nothing happens, or an error")
{
    struct setup s = setup_open();
    CHECK_OP(shmem_ctx_create(0, NULL), !=, 0);
    CHECK_OP(shmem_ctx_get_team(SHMEM_CTX_DEFAULT, NULL), !=, 0);
    CHECK_OP(shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, NULL), !=, 0);
    shmem_team_t team = SHMEM_TEAM_WORLD;
    CHECK_OP(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 2, NULL, SHMEM_TEAM_NUM_CONTEXTS, &team), !=, 0);
    CHECK_OP(team, ==, SHMEM_TEAM_INVALID);
    shmem_query_thread(NULL);
    shmem_query_initialized(NULL);
    shmem_info_get_version(NULL, NULL);
    shmem_info_get_name(NULL);
    shmem_pe_quiet(NULL, 2);
    setup_check(&s);
}

DATA_CASE(no_bytes_of_nothing, 2, "zero bytes from or to NULL are valid: nothing moves, and quiet returns")
{
    struct setup s = setup_open();
    shmem_getmem(NULL, s.symmetric, 0, next_pe());
    shmem_getmem_nbi(NULL, s.symmetric, 0, next_pe());
    shmem_putmem(s.symmetric, NULL, 0, next_pe());
    shmem_putmem_nbi(s.symmetric, NULL, 0, next_pe());
    shmem_quiet();
    setup_check(&s);
}

CASE(counters, 2, "counting with a wrong counter, PE or address: nothing moves, nothing counts")
{
    struct setup s = setup_open();
    shmem_ct_t ct,
        wrong[] = {SHMEM_CT_INVALID, (shmem_ct_t)(uintptr_t)1, (shmem_ct_t)~(uintptr_t)0, (shmem_ct_t)s.symmetric};
    shmem_ct_create(&ct);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        about("counter %zu", i);
        shmem_putmem_ct(wrong[i], s.symmetric, s.private, 8, next_pe());
        shmem_getmem_ct(wrong[i], s.private, s.symmetric, 8, next_pe());
        shmem_long_p_ct(wrong[i], s.word, 5, next_pe());
        shmem_ct_set(wrong[i], 5);
        CHECK_EQ(shmem_ct_get(wrong[i]), 0);
        CHECK_EQ(shmem_ct_test(wrong[i], 0), 0);
        shmem_ct_wait(wrong[i], 1);
        shmem_ct_free(&wrong[i]);
    }
    for (size_t i = 0; i < COUNT_OF(wrong_pes); i++) {
        about("PE %d", wrong_pes[i]);
        shmem_putmem_ct(ct, s.symmetric, s.private, 8, wrong_pes[i]);
        shmem_getmem_ct(ct, s.private, s.symmetric, 8, wrong_pes[i]);
        shmem_long_p_ct(ct, s.word, 5, wrong_pes[i]);
    }
    shmem_putmem_ct(ct, s.private, s.symmetric, 8, next_pe());
    shmem_putmem_ct(ct, NULL, s.symmetric, 8, next_pe());
    shmem_getmem_ct(ct, s.private, s.private + 64, 8, next_pe());
    shmem_putmem_ct(ct, s.symmetric, s.private, SIZE_MAX, next_pe());
    shmem_ct_create(NULL);
    shmem_ct_free(NULL);
    barrier();
    CHECK_EQ(shmem_ct_get(ct), 0);
    shmem_ct_free(&ct);
    setup_check(&s);
}

/* ---- Before and after ----------------------------------------------------------------------------------- */

static long early_object = 5;

static void call_out_of_time(void)
{
    int value = 77;
    long got = 77;
    shmem_team_t team = SHMEM_TEAM_WORLD;
    shmem_ctx_t ctx = SHMEM_CTX_DEFAULT;
    CHECK_EQ(shmem_my_pe(), -1);
    CHECK_EQ(shmem_n_pes(), -1);
    shmem_query_initialized(&value);
    CHECK_EQ(value, 0);
    shmem_long_p(&early_object, 6, 0);
    CHECK_EQ(shmem_long_g(&early_object, 0), 0);
    shmem_long_get(&got, &early_object, 1, 0);
    CHECK_EQ(got, 77);
    CHECK_EQ(shmem_long_atomic_fetch_inc(&early_object, 0), 0);
    shmem_long_wait_until(&early_object, SHMEM_CMP_EQ, 9);
    CHECK_EQ(shmem_long_test(&early_object, SHMEM_CMP_EQ, 5), 0);
    shmem_barrier_all();
    shmem_sync_all();
    shmem_quiet();
    shmem_fence();
    CHECK_OP(shmem_team_sync(SHMEM_TEAM_WORLD), !=, 0);
    CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_WORLD), -1);
    CHECK_OP(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, 0, &team), !=, 0);
    CHECK_OP(shmem_ctx_create(0, &ctx), !=, 0);
    CHECK_PTR(shmem_malloc(100), NULL);
    CHECK_PTR(shmem_ptr(&early_object, 0), NULL);
    shmem_free(&early_object);
    CHECK_EQ(shmem_pe_accessible(0), 0);
    CHECK_EQ(shmem_addr_accessible(&early_object, 0), 0);
    shmem_ct_t ct = SHMEM_CT_INVALID;
    shmem_ct_create(&ct);
    CHECK_OP(ct, ==, SHMEM_CT_INVALID);
    shmem_finalize();
    CHECK_EQ(early_object, 5);
}

CASE(before_and_after, 2, "calls before shmem_init and after shmem_finalize do nothing", .flags = OWN_INIT,
     .prints = "before shmem_init")
{
    call_out_of_time();
    shmem_init();
    joined();
    CHECK_EQ(early_object, 5);
    shmem_barrier_all();
    shmem_long_p(&early_object, 40 + me(), next_pe());
    shmem_barrier_all();
    CHECK_EQ(early_object, 40 + previous_pe());
    early_object = 5;
    left();
    shmem_finalize();
    call_out_of_time();
}

CASE(first_is_reported, 2, "without SHMEM_DEBUG the first wrong call is reported: function, argument, reason",
     .prints = "shmem_long_put: argument dest")
{
    long private = 0;
    shmem_long_put(&private, &private, 1, next_pe());
}

CASE(only_first_is_reported, 2, "without SHMEM_DEBUG later wrong calls are not reported", .prints_not = "shmem_int_put")
{
    long private = 0;
    shmem_long_put(&private, &private, 1, next_pe());
    shmem_int_put((int *)&private, (int *)&private, 1, next_pe());
}

CASE(all_are_reported, 2, "SHMEM_DEBUG: later wrong calls are reported, too", .environment = "SHMEM_DEBUG=1",
     .prints = "shmem_int_put: argument dest")
{
    long private = 0;
    shmem_long_put(&private, &private, 1, next_pe());
    shmem_int_put((int *)&private, (int *)&private, 1, next_pe());
}

CASE(old_name_of_debug, 2, "the deprecated SMA_DEBUG does the same", .environment = "SMA_DEBUG=1",
     .prints = "shmem_int_put: argument dest")
{
    long private = 0;
    shmem_long_put(&private, &private, 1, next_pe());
    shmem_int_put((int *)&private, (int *)&private, 1, next_pe());
}

#endif
