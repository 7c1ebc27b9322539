/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The deprecated collectives over active sets: PE_start, logPE_stride, PE_size, with pSync and pWrk. OpenSHMEM 1.6,
 * "Collective Routines", the deprecated forms.
 *
 * A pSync array may be reused when all PEs of the set have left the collective. The cases use several in turn, with
 * barriers between rounds.
 */
#include "suite.h"
#include "types.h"

#include <complex.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Libraries define other sizes: this is room for the largest. */
enum { SYNC_WORDS = 16, SYNCS = 4, ELEMENTS = 9, CROWD = 9 };
_Static_assert(SHMEM_BARRIER_SYNC_SIZE > 0 && SHMEM_REDUCE_MIN_WRKDATA_SIZE > 0, "sizes of work arrays");

#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define SYNC_MOST                                                                              \
    MOST(MOST(SHMEM_BARRIER_SYNC_SIZE, SHMEM_BCAST_SYNC_SIZE),                                 \
         MOST(MOST(SHMEM_COLLECT_SYNC_SIZE, SHMEM_REDUCE_SYNC_SIZE),                           \
              MOST(SHMEM_ALLTOALL_SYNC_SIZE, SHMEM_ALLTOALLS_SYNC_SIZE)))

struct set {
    int start, log_stride, size;
    int mine; /* number of this PE in the set, or -1 */
};

static int member(const struct set *s, int k) { return s->start + (k << s->log_stride); }

static long *psync_new(void)
{
    long *psync = symmetric(SYNC_MOST * sizeof *psync);
    for (int i = 0; i < SYNC_MOST; i++) psync[i] = SHMEM_SYNC_VALUE;
    barrier();
    return psync;
}

static void check_restored(const long *psync)
{
    for (int i = 0; i < SYNC_MOST; i++) CHECK_EQ(psync[i], SHMEM_SYNC_VALUE);
}

/* Loops over every active set of the job. The body runs at members only; a barrier follows. */
static void for_each_set(void (*body)(const struct set *set))
{
    for (int log_stride = 0; 1 << log_stride < MOST(n_pes(), 2); log_stride++)
        for (int start = 0; start < n_pes(); start++)
            for (int size = 1; start + ((size - 1) << log_stride) < n_pes(); size++) {
                struct set s = {start, log_stride, size, -1};
                for (int k = 0; k < size; k++)
                    if (member(&s, k) == me()) s.mine = k;
                about("start %d, stride 2^%d, size %d", start, log_stride, size);
                if (s.mine >= 0) body(&s);
                barrier();
            }
}

/* Buffers of the bodies. `meeting` is the pSync of the barriers between rounds, so that no pSync is in use twice. */
static long *psync, *meeting;
static unsigned char *dest, *source;
static long *arrived;

static void open_buffers(void)
{
    psync = psync_new();
    meeting = psync_new();
    dest = symmetric((ELEMENTS * CROWD * 4 + 1) * 8);
    source = symmetric((ELEMENTS * CROWD * 4 + 1) * 8);
    arrived = symmetric(sizeof *arrived);
}

static void meet(const struct set *s) { shmem_barrier(s->start, s->log_stride, s->size, meeting); }

static unsigned seed_between(int from, int to) { return (unsigned)(from * 64 + to + 1); }

/* ---- Barrier and sync ----------------------------------------------------------------------------------- */

static void barrier_of(const struct set *s)
{
    *arrived = 0;
    for (int i = 0; i < 4; i++) {
        shmem_barrier(s->start, s->log_stride, s->size, psync);
        for (int k = 0; k < s->size; k++) shmem_long_atomic_inc(arrived, member(s, k));
        shmem_barrier(s->start, s->log_stride, s->size, psync); /* completes the atomics, and waits for the set */
        CHECK_EQ(shmem_long_atomic_fetch(arrived, me()), (i + 1) * s->size);
    }
    shmem_barrier(s->start, s->log_stride, s->size, psync);
    check_restored(psync);
}

DATA_CASE(barrier_over_every_set, 5,
          "shmem_barrier: waits for the set, completes its updates, pSync may be used again at once")
{
    open_buffers();
    for_each_set(barrier_of);
}

static void sync_of(const struct set *s)
{
    *arrived = 0;
    for (int i = 0; i < 4; i++) {
        shmem_sync(s->start, s->log_stride, s->size, psync);
        for (int k = 0; k < s->size; k++) shmem_long_atomic_inc(arrived, member(s, k));
        shmem_quiet();
        shmem_sync(s->start, s->log_stride, s->size, psync);
        CHECK_EQ(shmem_long_atomic_fetch(arrived, me()), (i + 1) * s->size);
    }
    shmem_sync(s->start, s->log_stride, s->size, psync);
    check_restored(psync);
}

DATA_CASE(sync_over_every_set, 5, "shmem_sync: waits for the set; pSync may be used again at once")
{
    open_buffers();
    for_each_set(sync_of);
}

CASE(sets_apart, 4, "sets without common PEs use the same pSync and do not wait for each other")
{
    open_buffers();
    long *go = symmetric(sizeof *go);
    const int start = me() < 2 ? 0 : 2;
    if (me() < 2) shmem_long_wait_until(go, SHMEM_CMP_EQ, 1);
    for (int i = 0; i < 50; i++) shmem_barrier(start, 0, 2, psync);
    if (me() >= 2) {
        shmem_long_p(go, 1, me() - 2);
        shmem_quiet();
    }
}

CASE(very_many_barriers, 3, "thousands of barriers over one set with one pSync", .crowded = 8)
{
    open_buffers();
    const int times = n_pes() > 3 ? 200 : 2000;
    for (int i = 0; i < times; i++) shmem_barrier(0, 0, n_pes(), psync);
    check_restored(psync);
}

/* ---- Data ----------------------------------------------------------------------------------------------- */

static void broadcast_of(const struct set *s)
{
    for (int wide = 0; wide < 2; wide++)
        for (int root = 0; root < s->size; root++) {
            const size_t bytes = ELEMENTS * (wide ? 8 : 4);
            memset(dest, 0x77, bytes + 8);
            pattern_fill(source, bytes, seed_between(me(), root));
            meet(s);
            if (wide) shmem_broadcast64(dest, source, ELEMENTS, root, s->start, s->log_stride, s->size, psync);
            else shmem_broadcast32(dest, source, ELEMENTS, root, s->start, s->log_stride, s->size, psync);
            if (s->mine == root) CHECK_BYTES(dest, bytes, 0x77);
            else CHECK_PATTERN(dest, bytes, seed_between(member(s, root), root));
            CHECK_BYTES(dest + bytes, 8, 0x77);
            check_restored(psync);
            meet(s);
        }
}

DATA_CASE(broadcast_over_every_set, 5,
          "shmem_broadcast32, 64: dest gets the root's source, but not at the root, whose dest stays")
{
    open_buffers();
    for_each_set(broadcast_of);
}

static void collect_of(const struct set *s)
{
    for (int form = 0; form < 4; form++) {
        const bool wide = form & 1, variable = form & 2;
        const size_t bytes = wide ? 8 : 4, count = variable ? (size_t)(me() * 5 + 3) % ELEMENTS : ELEMENTS;
        memset(dest, 0x77, ELEMENTS * bytes * (size_t)s->size + 8);
        pattern_fill(source, count * bytes, seed_between(me(), form));
        meet(s);
        (form == 0   ? shmem_fcollect32
         : form == 1 ? shmem_fcollect64
         : form == 2 ? shmem_collect32
                     : shmem_collect64)(dest, source, count, s->start, s->log_stride, s->size, psync);
        const unsigned char *at = dest;
        for (int k = 0; k < s->size; k++) {
            const size_t part = variable ? (size_t)(member(s, k) * 5 + 3) % ELEMENTS : ELEMENTS;
            CHECK_PATTERN(at, part * bytes, seed_between(member(s, k), form));
            at += part * bytes;
        }
        CHECK_BYTES(at, 8, 0x77);
        check_restored(psync);
        meet(s);
    }
}

DATA_CASE(collect_over_every_set, 5, "shmem_fcollect32, 64 and collect32, 64: the sources of the set in its order",
          .crowded = 7)
{
    open_buffers();
    for_each_set(collect_of);
}

static void alltoall_of(const struct set *s)
{
    for (int form = 0; form < 4; form++) {
        const bool wide = form & 1, strided = form & 2;
        const size_t bytes = wide ? 8 : 4, all = ELEMENTS * bytes * (size_t)s->size * (strided ? 4 : 1);
        const size_t dst = strided ? 2 : 1, sst = strided ? 3 : 1;
        memset(dest, 0x77, all + 8);
        memset(source, 0x11, all);
        for (int k = 0; k < s->size; k++)
            for (size_t e = 0; e < ELEMENTS; e++)
                pattern_fill(source + ((size_t)k * ELEMENTS + e) * sst * bytes, bytes,
                             seed_between(me(), member(s, k)) * 16 + (unsigned)e);
        meet(s);
        if (strided)
            (wide ? shmem_alltoalls64 : shmem_alltoalls32)(dest, source, (ptrdiff_t)dst, (ptrdiff_t)sst, ELEMENTS,
                                                           s->start, s->log_stride, s->size, psync);
        else
            (wide ? shmem_alltoall64 : shmem_alltoall32)(dest, source, ELEMENTS, s->start, s->log_stride, s->size,
                                                         psync);
        for (int k = 0; k < s->size; k++)
            for (size_t e = 0; e < ELEMENTS; e++) {
                unsigned char *at = dest + ((size_t)k * ELEMENTS + e) * dst * bytes;
                CHECK_PATTERN(at, bytes, seed_between(member(s, k), me()) * 16 + (unsigned)e);
                memset(at, 0x77, bytes);
            }
        CHECK_BYTES(dest, all + 8, 0x77);
        check_restored(psync);
        meet(s);
    }
}

DATA_CASE(alltoall_over_every_set, 5,
          "shmem_alltoall32, 64 and alltoalls32, 64: block l of PE k becomes block k of PE l", .crowded = 6)
{
    open_buffers();
    for_each_set(alltoall_of);
}

CASE(megabytes, 4, "the forms of 64 bits move megabytes")
{
    enum { WORDS = 1 << 17 };
    uint64_t *to = symmetric(4 * WORDS * sizeof *to), *from = symmetric(4 * WORDS * sizeof *from);
    long *sync[4];
    for (int i = 0; i < 4; i++) sync[i] = psync_new();
    pattern_fill(from, WORDS * sizeof *from, seed_between(me(), 0));
    shmem_fcollect64(to, from, WORDS, 0, 0, 4, sync[0]);
    for (int pe = 0; pe < 4; pe++) CHECK_PATTERN(to + pe * WORDS, WORDS * sizeof *to, seed_between(pe, 0));
    for (int pe = 0; pe < 4; pe++) pattern_fill(from + pe * WORDS, WORDS * sizeof *from, seed_between(me(), pe));
    shmem_barrier_all();
    shmem_alltoall64(to, from, WORDS, 0, 0, 4, sync[1]);
    for (int pe = 0; pe < 4; pe++) CHECK_PATTERN(to + pe * WORDS, WORDS * sizeof *to, seed_between(pe, me()));
    shmem_barrier_all();
    if (me() % 2) shmem_broadcast64(to, from, 4 * WORDS, 1, 1, 1, 2, sync[2]); /* PEs 1 and 3 */
    if (me() == 1) CHECK_PATTERN(to, WORDS * sizeof *to, seed_between(3, 0));
    if (me() == 3) CHECK_PATTERN(to, WORDS * sizeof *to, seed_between(0, 3)); /* the root's own buffer does not change */
}

DATA_CASE(zero_elements, 3, "zero elements: nothing is written, and pSync is restored")
{
    open_buffers();
    memset(source, 0x55, 64);
    long *second = psync_new();
    shmem_broadcast32(dest, source, 0, 1, 0, 0, 3, psync);
    shmem_fcollect64(dest, source, 0, 0, 0, 3, second);
    barrier();
    shmem_collect32(dest, source, 0, 0, 0, 3, psync);
    shmem_alltoall64(dest, source, 0, 0, 0, 3, second);
    barrier();
    CHECK_BYTES(dest, 64, 0);
    check_restored(psync);
    check_restored(second);
}

CASE(psync_arrays_in_turn, 4, "collectives follow one another with two pSync arrays in turn and a barrier now and then")
{
    enum { TIMES = 100 };
    long *sync[SYNCS], *barrier_sync = psync_new();
    long *result = symmetric(TIMES * 4 * sizeof *result), *mine = symmetric(TIMES * sizeof *mine);
    for (int i = 0; i < SYNCS; i++) sync[i] = psync_new();
    for (int i = 0; i < TIMES; i++) {
        mine[i] = me() * 1000 + i;
        if (i % SYNCS == 0) shmem_barrier(0, 0, 4, barrier_sync);
        shmem_fcollect64(&result[i * 4], &mine[i], 1, 0, 0, 4, sync[i % SYNCS]);
        for (int pe = 0; pe < 4; pe++) CHECK_EQ(result[i * 4 + pe], pe * 1000 + i);
    }
}

/* ---- Reductions ----------------------------------------------------------------------------------------- */

struct row {
    const char *name;
    size_t bytes;
    void (*to_all)(void *to, void *from, int count, const struct set *s, void *work, long *psync);
    void (*fold)(void *into, const void *with);
    void (*set)(void *at, uint64_t random);
    bool (*same)(const void *a, const void *b);
};

#define OPERATION(NAME, TYPE, OP, BODY)                                                                              \
    static void to_all_##NAME##_##OP(void *to, void *from, int count, const struct set *s, void *work, long *sync)  \
    {                                                                                                                \
        shmem_##NAME##_##OP##_to_all(to, from, count, s->start, s->log_stride, s->size, work, sync);                 \
    }                                                                                                                \
    static void fold_##NAME##_##OP(void *into, const void *with)                                                     \
    {                                                                                                                \
        TYPE *a = into;                                                                                              \
        const TYPE *b = with;                                                                                        \
        BODY;                                                                                                        \
    }
#define VALUES(NAME, TYPE, VALUE)                                                                   \
    static void set_##NAME(void *at, uint64_t random) { *(TYPE *)at = (TYPE)(VALUE); }              \
    static bool same_##NAME(const void *a, const void *b) { return *(const TYPE *)a == *(const TYPE *)b; }

#define ORDERED(NAME, TYPE)                                \
    OPERATION(NAME, TYPE, max, *a = *a > *b ? *a : *b)     \
    OPERATION(NAME, TYPE, min, *a = *a < *b ? *a : *b)
#define BITWISE(NAME, TYPE)                                         \
    OPERATION(NAME, TYPE, and, *a &= *b)                            \
    OPERATION(NAME, TYPE, or, *a |= *b)                             \
    OPERATION(NAME, TYPE, xor, *a ^= *b)                            \
    OPERATION(NAME, TYPE, sum, __builtin_add_overflow(*a, *b, a))   \
    OPERATION(NAME, TYPE, prod, __builtin_mul_overflow(*a, *b, a))  \
    VALUES(NAME, TYPE, random)
#define ARITHMETIC(NAME, TYPE)                  \
    OPERATION(NAME, TYPE, sum, *a += *b)        \
    OPERATION(NAME, TYPE, prod, *a *= *b)
#define REAL(NAME, TYPE) ARITHMETIC(NAME, TYPE) VALUES(NAME, TYPE, (int)(random % 9) - 4)
#define COMPLEX(NAME, TYPE) \
    ARITHMETIC(NAME, TYPE) VALUES(NAME, TYPE, (int)(random % 5) - 2 + ((int)(random / 5 % 5) - 2) * I)
TO_ALL_ORDERED_TYPES(ORDERED)
TO_ALL_BITWISE_TYPES(BITWISE)
REDUCE_REAL_TYPES(REAL)
TO_ALL_COMPLEX_TYPES(COMPLEX)

#define ROW(NAME, TYPE, OP) \
    {#NAME " " #OP, sizeof(TYPE), to_all_##NAME##_##OP, fold_##NAME##_##OP, set_##NAME, same_##NAME},
#define ARITHMETIC_ROWS(NAME, TYPE) ROW(NAME, TYPE, sum) ROW(NAME, TYPE, prod)
#define ORDERED_ROWS(NAME, TYPE) ARITHMETIC_ROWS(NAME, TYPE) ROW(NAME, TYPE, max) ROW(NAME, TYPE, min)
#define BITWISE_ROWS(NAME, TYPE) ROW(NAME, TYPE, and) ROW(NAME, TYPE, or) ROW(NAME, TYPE, xor)
static const struct row rows[] = {
    TO_ALL_ORDERED_TYPES(ORDERED_ROWS) TO_ALL_BITWISE_TYPES(BITWISE_ROWS) TO_ALL_COMPLEX_TYPES(ARITHMETIC_ROWS)};

enum { REDUCED = 5 };

static uint64_t value_of(int pe, size_t row, size_t element)
{
    return mix((uint64_t)pe << 32 | (uint64_t)row << 16 | element);
}

static void reduce(const struct set *s, size_t r, int count, void *work, bool in_place)
{
    const struct row *row = &rows[r];
    unsigned char *to = in_place ? source : dest;
    long double wanted, other;
    about("%s, start %d, stride 2^%d, size %d%s", row->name, s->start, s->log_stride, s->size,
          in_place ? ", in place" : "");
    memset(dest, 0x77, ((size_t)count + 1) * row->bytes);
    for (int e = 0; e < count; e++) row->set(source + (size_t)e * row->bytes, value_of(me(), r, (size_t)e));
    meet(s);
    row->to_all(to, source, count, s, work, psync);
    for (int e = 0; e < count; e++) {
        row->set(&wanted, value_of(member(s, 0), r, (size_t)e));
        for (int k = 1; k < s->size; k++) {
            row->set(&other, value_of(member(s, k), r, (size_t)e));
            row->fold(&wanted, &other);
        }
        if (!row->same(to + (size_t)e * row->bytes, &wanted)) FAIL("element %d of %d is wrong", e, count);
    }
    CHECK_BYTES(dest + (size_t)(in_place ? 0 : count) * row->bytes, row->bytes, 0x77);
    check_restored(psync);
    meet(s);
}

static unsigned char *work_shared;

static void reduce_over(const struct set *s)
{
    for (size_t r = (size_t)(s->size + s->start) % 3; r < COUNT_OF(rows); r += s->size == n_pes() ? 1 : 3)
        for (int in_place = 0; in_place < 2; in_place++) reduce(s, r, REDUCED, work_shared, in_place);
}

DATA_CASE(reductions_over_every_set, 4, "shmem_TYPE_OP_to_all: every type and operation, in place and not",
          .crowded = 7)
{
    open_buffers();
    work_shared = symmetric(MOST(REDUCED / 2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) * sizeof(long double));
    for_each_set(reduce_over);
    reduce_over(&(struct set){0, 0, n_pes(), me()});
}

CASE(reductions_of_any_length, 3, "to_all: from one element to many, with a pWrk as small as allowed")
{
    static const int counts[] = {0, 1, 2, 3, 64, 65, 1000, 4097, 60000};
    psync = psync_new();
    meeting = psync_new();
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        dest = symmetric(((size_t)counts[i] + 1) * sizeof(long double));
        source = symmetric(((size_t)counts[i] + 1) * sizeof(long double));
        unsigned char *work =
            symmetric((size_t)MOST(counts[i] / 2 + 1, SHMEM_REDUCE_MIN_WRKDATA_SIZE) * sizeof(long double));
        for (size_t r = i % 5; r < COUNT_OF(rows); r += 5)
            reduce(&(struct set){0, 0, 3, me()}, r, counts[i], work, false);
    }
}
