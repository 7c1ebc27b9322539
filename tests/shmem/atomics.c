/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Atomic memory operations on numbers: fetch, set, swap, compare_swap, inc, add and their fetching forms, blocking and
 * nonblocking, under every name. OpenSHMEM 1.6, "Atomic Memory Operations" and "Atomicity Guarantees".
 *
 * Rows pass values as uint64_t, through the type and back: this is exact for every integer, and for the small numbers of
 * the floating-point rows.
 */
#include "suite.h"
#include "types.h"

#include <float.h>
#include <math.h>

typedef uint64_t amo_fetch_fn(const void *source, int pe);
typedef void amo_set_fn(void *dest, uint64_t value, int pe);
typedef uint64_t amo_swap_fn(void *dest, uint64_t value, int pe);
typedef uint64_t amo_cswap_fn(void *dest, uint64_t cond, uint64_t value, int pe);
typedef uint64_t amo_inc_fn(void *dest, int pe);

struct extended_verbs {
    const char *name;
    size_t bytes;
    uint64_t (*narrow)(uint64_t value);
    uint64_t (*read)(const void *at);
    amo_fetch_fn *fetch;
    amo_set_fn *set;
    amo_swap_fn *swap;
};

struct standard_verbs {
    const char *name;
    size_t bytes;
    uint64_t (*narrow)(uint64_t value);
    uint64_t (*read)(const void *at);
    amo_cswap_fn *compare_swap;
    amo_inc_fn *fetch_inc, *inc;
    amo_swap_fn *fetch_add;
    amo_set_fn *add;
};

#define VALUE_THUNKS(NAME, TYPE)                                                           \
    static uint64_t narrow_##NAME(uint64_t value) { return (uint64_t)(TYPE)value; }        \
    static uint64_t read_##NAME(const void *at) { return (uint64_t) * (const TYPE *)at; }
AMO_EXTENDED_TYPES(VALUE_THUNKS)

/* Makes a nonblocking form look blocking: the call, a quiet, and the fetched value. */
#define FETCHED_BY(TYPE, CALL) \
    TYPE fetched = 0;          \
    CALL;                      \
    shmem_quiet();             \
    return (uint64_t)fetched

#define EXTENDED_THUNKS(NAME, TYPE)                                                                                \
    static uint64_t fetch_##NAME(const void *s, int pe) { return (uint64_t)shmem_##NAME##_atomic_fetch(s, pe); }   \
    static void set_##NAME(void *d, uint64_t v, int pe) { shmem_##NAME##_atomic_set(d, (TYPE)v, pe); }             \
    static uint64_t swap_##NAME(void *d, uint64_t v, int pe)                                                       \
    {                                                                                                              \
        return (uint64_t)shmem_##NAME##_atomic_swap(d, (TYPE)v, pe);                                               \
    }                                                                                                              \
    static uint64_t ctx_fetch_##NAME(const void *s, int pe)                                                        \
    {                                                                                                              \
        return (uint64_t)shmem_ctx_##NAME##_atomic_fetch(SHMEM_CTX_DEFAULT, s, pe);                                \
    }                                                                                                              \
    static void ctx_set_##NAME(void *d, uint64_t v, int pe)                                                        \
    {                                                                                                              \
        shmem_ctx_##NAME##_atomic_set(SHMEM_CTX_DEFAULT, d, (TYPE)v, pe);                                          \
    }                                                                                                              \
    static uint64_t ctx_swap_##NAME(void *d, uint64_t v, int pe)                                                   \
    {                                                                                                              \
        return (uint64_t)shmem_ctx_##NAME##_atomic_swap(SHMEM_CTX_DEFAULT, d, (TYPE)v, pe);                        \
    }
AMO_EXTENDED_TYPES(EXTENDED_THUNKS)

#define STANDARD_THUNKS(NAME, TYPE)                                                                                \
    static uint64_t cswap_##NAME(void *d, uint64_t c, uint64_t v, int pe)                                          \
    {                                                                                                              \
        return (uint64_t)shmem_##NAME##_atomic_compare_swap(d, (TYPE)c, (TYPE)v, pe);                              \
    }                                                                                                              \
    static uint64_t finc_##NAME(void *d, int pe) { return (uint64_t)shmem_##NAME##_atomic_fetch_inc(d, pe); }      \
    static uint64_t inc_##NAME(void *d, int pe) { return shmem_##NAME##_atomic_inc(d, pe), 0; }                    \
    static uint64_t fadd_##NAME(void *d, uint64_t v, int pe)                                                       \
    {                                                                                                              \
        return (uint64_t)shmem_##NAME##_atomic_fetch_add(d, (TYPE)v, pe);                                          \
    }                                                                                                              \
    static void add_##NAME(void *d, uint64_t v, int pe) { shmem_##NAME##_atomic_add(d, (TYPE)v, pe); }             \
    static uint64_t ctx_cswap_##NAME(void *d, uint64_t c, uint64_t v, int pe)                                      \
    {                                                                                                              \
        return (uint64_t)shmem_ctx_##NAME##_atomic_compare_swap(SHMEM_CTX_DEFAULT, d, (TYPE)c, (TYPE)v, pe);       \
    }                                                                                                              \
    static uint64_t ctx_finc_##NAME(void *d, int pe)                                                               \
    {                                                                                                              \
        return (uint64_t)shmem_ctx_##NAME##_atomic_fetch_inc(SHMEM_CTX_DEFAULT, d, pe);                            \
    }                                                                                                              \
    static uint64_t ctx_inc_##NAME(void *d, int pe)                                                                \
    {                                                                                                              \
        return shmem_ctx_##NAME##_atomic_inc(SHMEM_CTX_DEFAULT, d, pe), 0;                                         \
    }                                                                                                              \
    static uint64_t ctx_fadd_##NAME(void *d, uint64_t v, int pe)                                                   \
    {                                                                                                              \
        return (uint64_t)shmem_ctx_##NAME##_atomic_fetch_add(SHMEM_CTX_DEFAULT, d, (TYPE)v, pe);                   \
    }                                                                                                              \
    static void ctx_add_##NAME(void *d, uint64_t v, int pe)                                                        \
    {                                                                                                              \
        shmem_ctx_##NAME##_atomic_add(SHMEM_CTX_DEFAULT, d, (TYPE)v, pe);                                          \
    }
AMO_STANDARD_TYPES(STANDARD_THUNKS)

#if SINCE(1, 5)
#define EXTENDED_NBI_THUNKS(NAME, TYPE)                                                                            \
    static uint64_t fetch_nbi_##NAME(const void *s, int pe)                                                        \
    {                                                                                                              \
        FETCHED_BY(TYPE, shmem_##NAME##_atomic_fetch_nbi(&fetched, s, pe));                                        \
    }                                                                                                              \
    static uint64_t swap_nbi_##NAME(void *d, uint64_t v, int pe)                                                   \
    {                                                                                                              \
        FETCHED_BY(TYPE, shmem_##NAME##_atomic_swap_nbi(&fetched, d, (TYPE)v, pe));                                \
    }                                                                                                              \
    static uint64_t ctx_fetch_nbi_##NAME(const void *s, int pe)                                                    \
    {                                                                                                              \
        FETCHED_BY(TYPE, shmem_ctx_##NAME##_atomic_fetch_nbi(SHMEM_CTX_DEFAULT, &fetched, s, pe));                 \
    }                                                                                                              \
    static uint64_t ctx_swap_nbi_##NAME(void *d, uint64_t v, int pe)                                               \
    {                                                                                                              \
        FETCHED_BY(TYPE, shmem_ctx_##NAME##_atomic_swap_nbi(SHMEM_CTX_DEFAULT, &fetched, d, (TYPE)v, pe));         \
    }
AMO_EXTENDED_TYPES(EXTENDED_NBI_THUNKS)

#define STANDARD_NBI_THUNKS(NAME, TYPE)                                                                               \
    static uint64_t cswap_nbi_##NAME(void *d, uint64_t c, uint64_t v, int pe)                                         \
    {                                                                                                                 \
        FETCHED_BY(TYPE, shmem_##NAME##_atomic_compare_swap_nbi(&fetched, d, (TYPE)c, (TYPE)v, pe));                  \
    }                                                                                                                 \
    static uint64_t finc_nbi_##NAME(void *d, int pe)                                                                  \
    {                                                                                                                 \
        FETCHED_BY(TYPE, shmem_##NAME##_atomic_fetch_inc_nbi(&fetched, d, pe));                                       \
    }                                                                                                                 \
    static uint64_t fadd_nbi_##NAME(void *d, uint64_t v, int pe)                                                      \
    {                                                                                                                 \
        FETCHED_BY(TYPE, shmem_##NAME##_atomic_fetch_add_nbi(&fetched, d, (TYPE)v, pe));                              \
    }                                                                                                                 \
    static uint64_t ctx_cswap_nbi_##NAME(void *d, uint64_t c, uint64_t v, int pe)                                     \
    {                                                                                                                 \
        FETCHED_BY(TYPE, shmem_ctx_##NAME##_atomic_compare_swap_nbi(SHMEM_CTX_DEFAULT, &fetched, d, (TYPE)c, (TYPE)v, pe)); \
    }                                                                                                                 \
    static uint64_t ctx_finc_nbi_##NAME(void *d, int pe)                                                              \
    {                                                                                                                 \
        FETCHED_BY(TYPE, shmem_ctx_##NAME##_atomic_fetch_inc_nbi(SHMEM_CTX_DEFAULT, &fetched, d, pe));                \
    }                                                                                                                 \
    static uint64_t ctx_fadd_nbi_##NAME(void *d, uint64_t v, int pe)                                                  \
    {                                                                                                                 \
        FETCHED_BY(TYPE, shmem_ctx_##NAME##_atomic_fetch_add_nbi(SHMEM_CTX_DEFAULT, &fetched, d, (TYPE)v, pe));       \
    }
AMO_STANDARD_TYPES(STANDARD_NBI_THUNKS)
#define EXTENDED_NBI_ROWS(NAME, TYPE)                                                                              \
    {#NAME " nbi", sizeof(TYPE), narrow_##NAME, read_##NAME, fetch_nbi_##NAME, set_##NAME, swap_nbi_##NAME},       \
    {#NAME " ctx nbi", sizeof(TYPE), narrow_##NAME, read_##NAME, ctx_fetch_nbi_##NAME, ctx_set_##NAME, ctx_swap_nbi_##NAME},
#define STANDARD_NBI_ROWS(NAME, TYPE)                                                                              \
    {#NAME " nbi", sizeof(TYPE), narrow_##NAME, read_##NAME, cswap_nbi_##NAME, finc_nbi_##NAME, inc_##NAME,        \
     fadd_nbi_##NAME, add_##NAME},                                                                                 \
    {#NAME " ctx nbi", sizeof(TYPE), narrow_##NAME, read_##NAME, ctx_cswap_nbi_##NAME, ctx_finc_nbi_##NAME,        \
     ctx_inc_##NAME, ctx_fadd_nbi_##NAME, ctx_add_##NAME},
#else
#define EXTENDED_NBI_ROWS(NAME, TYPE)
#define STANDARD_NBI_ROWS(NAME, TYPE)
#endif

#define EXTENDED_ROWS(NAME, TYPE)                                                                                  \
    {#NAME, sizeof(TYPE), narrow_##NAME, read_##NAME, fetch_##NAME, set_##NAME, swap_##NAME},                      \
    {#NAME " ctx", sizeof(TYPE), narrow_##NAME, read_##NAME, ctx_fetch_##NAME, ctx_set_##NAME, ctx_swap_##NAME},   \
    EXTENDED_NBI_ROWS(NAME, TYPE)
static const struct extended_verbs extended[] = {AMO_EXTENDED_TYPES(EXTENDED_ROWS)};
enum { EXTENDED = sizeof extended / sizeof extended[0] };

#define STANDARD_ROWS(NAME, TYPE)                                                                                     \
    {#NAME, sizeof(TYPE), narrow_##NAME, read_##NAME, cswap_##NAME, finc_##NAME, inc_##NAME, fadd_##NAME, add_##NAME}, \
    {#NAME " ctx", sizeof(TYPE), narrow_##NAME, read_##NAME, ctx_cswap_##NAME, ctx_finc_##NAME, ctx_inc_##NAME,       \
     ctx_fadd_##NAME, ctx_add_##NAME},                                                                                \
    STANDARD_NBI_ROWS(NAME, TYPE)
static const struct standard_verbs standard[] = {AMO_STANDARD_TYPES(STANDARD_ROWS)};
enum { STANDARD = sizeof standard / sizeof standard[0] };

/* Each row has its own guarded word; the case checks the word's neighbours after every operation. */
_Static_assert((int)EXTENDED >= (int)STANDARD, "one set of rooms serves both tables");
enum { ROOM = 32, WORD = 16, ROWS_MAX = EXTENDED, ROOMS_BYTES = ROWS_MAX * ROOM };

static void *rooms_new(void)
{
    unsigned char *rooms = symmetric(ROOMS_BYTES);
    memset(rooms, 0xdd, ROOMS_BYTES);
    for (int i = 0; i < ROWS_MAX; i++) memset(rooms + i * ROOM + WORD, 0, 8);
    barrier();
    return rooms;
}

static unsigned char *word_of(void *rooms, int row) { return (unsigned char *)rooms + row * ROOM + WORD; }

/* The memory around a row's word of `bytes`: 0xdd, and zeros up to eight bytes. */
static void check_neighbours(void *rooms, int row, size_t bytes)
{
    const unsigned char *word = word_of(rooms, row);
    CHECK_BYTES(word - WORD, WORD, 0xdd);
    CHECK_BYTES(word + bytes, 8 - bytes, 0);
    CHECK_BYTES(word + 8, ROOM - WORD - 8, 0xdd);
}

#define FOR_EACH_EXTENDED(v, row)              \
    for (int row = 0; row < EXTENDED; row++)   \
        for (const struct extended_verbs *v = (about("%s", extended[row].name), &extended[row]); v != NULL; v = NULL)
#define FOR_EACH_STANDARD(v, row)              \
    for (int row = 0; row < STANDARD; row++)   \
        for (const struct standard_verbs *v = (about("%s", standard[row].name), &standard[row]); v != NULL; v = NULL)

/* Large enough to show a 64-bit operation on 32 bits only; floats hold it exactly. */
static uint64_t wide(const char *name, uint64_t value) { return name[0] == 'f' ? value : value + (1ull << 40); }

DATA_CASE(set_and_fetch, 3,
          "set: the value replaces the old one; fetch: returns the value, which stays (shmem_atomic_set, "
          "shmem_atomic_fetch)")
{
    void *rooms = rooms_new();
    FOR_EACH_EXTENDED(v, row)
    {
        v->set(word_of(rooms, row), wide(v->name, (uint64_t)(row + 100 * me())), next_pe());
    }
    barrier();
    FOR_EACH_EXTENDED(v, row)
    {
        for (int pe = 0; pe < n_pes(); pe++) {
            uint64_t wanted = v->narrow(wide(v->name, (uint64_t)(row + 100 * ((pe + n_pes() - 1) % n_pes()))));
            CHECK_EQ(v->fetch(word_of(rooms, row), pe), wanted);
            CHECK_EQ(v->fetch(word_of(rooms, row), pe), wanted);
        }
        check_neighbours(rooms, row, v->bytes);
    }
}

DATA_CASE(swap, 3, "swap: the value replaces the old one, which is returned (shmem_atomic_swap)")
{
    void *rooms = rooms_new();
    FOR_EACH_EXTENDED(v, row)
    {
        uint64_t first = v->narrow(wide(v->name, (uint64_t)(row + 1)));
        uint64_t second = v->narrow(wide(v->name, (uint64_t)(row + 2)));
        CHECK_EQ(v->swap(word_of(rooms, row), first, next_pe()), 0);
        CHECK_EQ(v->swap(word_of(rooms, row), second, next_pe()), first);
        CHECK_EQ(v->fetch(word_of(rooms, row), next_pe()), second);
    }
    barrier();
    FOR_EACH_EXTENDED(v, row)
    {
        CHECK_EQ(v->read(word_of(rooms, row)), v->narrow(wide(v->name, (uint64_t)(row + 2))));
        check_neighbours(rooms, row, v->bytes);
    }
}

DATA_CASE(real_values, 2, "fetch, set, swap of reals keep sign, range and NaN (shmem_atomic_swap)")
{
    float *f = symmetric(sizeof *f);
    double *d = symmetric(sizeof *d);
    static const float floats[] = {FLT_MAX, -FLT_MIN, INFINITY, 0.1f};
    static const double doubles[] = {DBL_MAX, -DBL_MIN, -INFINITY, 0.1};
    for (int i = 0; i < 4; i++) {
        shmem_float_atomic_set(f, floats[i], next_pe());
        CHECK_NUMBER(shmem_float_atomic_swap(f, 1 + FLT_EPSILON, next_pe()), floats[i]);
        CHECK_NUMBER(shmem_float_atomic_fetch(f, next_pe()), 1 + FLT_EPSILON);
        shmem_double_atomic_set(d, doubles[i], next_pe());
        CHECK_NUMBER(shmem_double_atomic_swap(d, 1 + DBL_EPSILON, next_pe()), doubles[i]);
        CHECK_NUMBER(shmem_double_atomic_fetch(d, next_pe()), 1 + DBL_EPSILON);
    }
    shmem_float_atomic_set(f, NAN, next_pe());
    CHECK(isnan(shmem_float_atomic_swap(f, -0.0f, next_pe())));
    CHECK(signbit(shmem_float_atomic_fetch(f, next_pe())));
    shmem_double_atomic_set(d, NAN, next_pe());
    CHECK(isnan(shmem_double_atomic_swap(d, -0.0, next_pe())));
    CHECK(signbit(shmem_double_atomic_fetch(d, next_pe())));
}

DATA_CASE(compare_swap, 3,
          "compare_swap: replaces a value equal to cond, else changes nothing; returns the old value "
          "(shmem_atomic_compare_swap)")
{
    void *rooms = rooms_new();
    FOR_EACH_STANDARD(v, row)
    {
        void *word = word_of(rooms, row);
        uint64_t a = v->narrow(wide("", 0x70000001)), b = v->narrow(wide("", 0x70000002)), all = v->narrow(~0ull);
        CHECK_EQ(v->compare_swap(word, 0, a, next_pe()), 0);
        CHECK_EQ(v->compare_swap(word, b, all, next_pe()), a);
        CHECK_EQ(v->compare_swap(word, 0, all, next_pe()), a);
        CHECK_EQ(v->compare_swap(word, a, all, next_pe()), a);
        CHECK_EQ(v->compare_swap(word, a, b, next_pe()), all);
        CHECK_EQ(v->compare_swap(word, all, b, next_pe()), all);
    }
    barrier();
    FOR_EACH_STANDARD(v, row)
    {
        CHECK_EQ(v->read(word_of(rooms, row)), v->narrow(wide("", 0x70000002)));
        check_neighbours(rooms, row, v->bytes);
    }
}

DATA_CASE(increment, 3,
          "inc, fetch_inc: the object grows by one; the old value is returned (shmem_atomic_inc, "
          "shmem_atomic_fetch_inc)")
{
    void *rooms = rooms_new();
    FOR_EACH_STANDARD(v, row)
    {
        for (uint64_t i = 0; i < 5; i++) CHECK_EQ(v->fetch_inc(word_of(rooms, row), next_pe()), i);
        for (int i = 0; i < 3; i++) v->inc(word_of(rooms, row), next_pe());
        shmem_quiet();
        CHECK_EQ(v->fetch_inc(word_of(rooms, row), next_pe()), 8);
    }
    barrier();
    FOR_EACH_STANDARD(v, row)
    {
        CHECK_EQ(v->read(word_of(rooms, row)), 9);
        check_neighbours(rooms, row, v->bytes);
    }
}

DATA_CASE(add, 3,
          "add, fetch_add: the value is added; the old value is returned (shmem_atomic_add, shmem_atomic_fetch_add)")
{
    void *rooms = rooms_new();
    FOR_EACH_STANDARD(v, row)
    {
        uint64_t sum = 0, term = 1;
        for (int i = 0; i < 12; i++, term = term * 1103515245 + 12345) {
            CHECK_EQ(v->fetch_add(word_of(rooms, row), term, next_pe()), v->narrow(sum));
            v->add(word_of(rooms, row), term >> 3, next_pe());
            shmem_quiet();
            sum += v->narrow(term) + v->narrow(term >> 3);
        }
        CHECK_EQ(v->fetch_add(word_of(rooms, row), 0, next_pe()), v->narrow(sum));
        sum = v->narrow(sum);
        CHECK_EQ(v->fetch_add(word_of(rooms, row), 0 - sum, next_pe()), sum);
        check_neighbours(rooms, row, v->bytes);
    }
    barrier();
    FOR_EACH_STANDARD(v, row) CHECK_EQ(v->read(word_of(rooms, row)), 0);
}

DATA_CASE(add_wraps, 2,
          "add, inc: beyond the greatest value the sum wraps within its type, and its neighbour gets no carry (shmem_atomic_add)")
{
    void *rooms = rooms_new();
    FOR_EACH_STANDARD(v, row)
    {
        v->add(word_of(rooms, row), ~0ull, next_pe());
        shmem_quiet();
        CHECK_EQ(v->fetch_inc(word_of(rooms, row), next_pe()), v->narrow(~0ull));
        CHECK_EQ(v->fetch_add(word_of(rooms, row), ~0ull, next_pe()), 0);
        v->inc(word_of(rooms, row), next_pe());
    }
    barrier();
    FOR_EACH_STANDARD(v, row)
    {
        CHECK_EQ(v->read(word_of(rooms, row)), 0);
        check_neighbours(rooms, row, v->bytes);
    }
}

DATA_CASE(atomics_of_oneself, 2, "atomics: the named PE may be the caller (shmem_atomic_add)")
{
    void *rooms = rooms_new();
    FOR_EACH_STANDARD(v, row)
    {
        CHECK_EQ(v->fetch_add(word_of(rooms, row), 5, me()), 0);
        v->inc(word_of(rooms, row), me());
        v->add(word_of(rooms, row), 10, me());
        shmem_quiet();
        CHECK_EQ(v->compare_swap(word_of(rooms, row), 16, 3, me()), 16);
        CHECK_EQ(v->read(word_of(rooms, row)), 3);
    }
    barrier();
    memset(rooms, 0, ROOMS_BYTES);
    FOR_EACH_EXTENDED(v, row)
    {
        v->set(word_of(rooms, row), 4, me());
        shmem_quiet();
        CHECK_EQ(v->swap(word_of(rooms, row), 9, me()), 4);
        CHECK_EQ(v->fetch(word_of(rooms, row), me()), 9);
        CHECK_EQ(v->read(word_of(rooms, row)), 9);
    }
}

DATA_CASE(exact_totals, 4,
          "inc, add: nothing is lost or counted twice when all PEs change one object (Atomicity Guarantees)",
          .crowded = 9)
{
    enum { ROUNDS = 120 };
    void *rooms = rooms_new();
    FOR_EACH_STANDARD(v, row)
        for (int i = 0; i < ROUNDS; i++) {
            int pe = (i + row) % 2; /* two targets, one of which is the caller for some PEs */
            switch ((i + row) % 4) {
            case 0: v->inc(word_of(rooms, row), pe); break;
            case 1: v->add(word_of(rooms, row), 3, pe); break;
            case 2: v->fetch_inc(word_of(rooms, row), pe); break;
            default: v->fetch_add(word_of(rooms, row), 3, pe); break;
            }
        }
    barrier();
    FOR_EACH_STANDARD(v, row)
    {
        uint64_t total = 0;
        for (int i = 0; i < ROUNDS; i++)
            if ((i + row) % 2 == me()) total += (i + row) % 2 == 0 ? 1 : 3;
        CHECK_EQ(v->read(word_of(rooms, row)), total * (uint64_t)n_pes());
        check_neighbours(rooms, row, v->bytes);
    }
}

/* Runs for milliseconds rather than rounds: the PEs then overlap, whatever one operation costs. */
DATA_CASE(long_contention, 4,
          "inc, add: the total of one hot object is the number of calls (Atomicity Guarantees)", .crowded = 9)
{
    enum { TYPE_MS = 4 };
    void *rooms = rooms_new();
    long *made = symmetric(PES_MAX * sizeof *made); /* by plain puts */
    FOR_EACH_STANDARD(v, row)
    {
        if (strchr(v->name, ' ') != NULL) continue; /* each type once: its other forms use the same words */
        void *word = word_of(rooms, row);
        long count = 0, total = 0;
        barrier();
        for (long long end = now_ms() + TYPE_MS; now_ms() < end;)
            for (int i = 0; i < 25; i++, count += 6) {
                v->inc(word, 0);
                v->fetch_inc(word, 0);
                v->add(word, 2, 0);
                v->fetch_add(word, 2, 0);
            }
        shmem_long_p(made + me(), count, 0);
        barrier();
        for (int pe = 0; pe < n_pes(); pe++) total += made[pe];
        if (me() == 0) CHECK_EQ(v->read(word), v->narrow((uint64_t)total));
    }
}

DATA_CASE(tickets_are_unique, 4,
          "fetch_inc: of all PEs, each call gets a different number, and none is skipped (Atomicity Guarantees)",
          .crowded = 9)
{
    enum { TICKETS = 200 };
    unsigned *counter = symmetric(sizeof *counter);
    unsigned char *taken = symmetric((size_t)PES_MAX * TICKETS);
    unsigned last = 0;
    for (int i = 0; i < TICKETS; i++) {
        unsigned ticket = shmem_uint_atomic_fetch_inc(counter, n_pes() - 1);
        if (i > 0) CHECK_OP(ticket, >, last);
        last = ticket;
        shmem_uchar_p(taken + ticket, (unsigned char)(1 + me()), 0);
    }
    barrier();
    for (int i = 0; me() == 0 && i < TICKETS * n_pes(); i++) CHECK_OP(taken[i], !=, 0);
    if (me() == 0) CHECK_EQ(shmem_uint_atomic_fetch(counter, n_pes() - 1), (unsigned)(TICKETS * n_pes()));
}

DATA_CASE(one_winner, 4,
          "compare_swap: of all PEs that try at once, one finds cond (shmem_atomic_compare_swap)", .crowded = 9)
{
    enum { ROUNDS = 100 };
    long *place = symmetric(ROUNDS * sizeof(long)), *wins = symmetric(sizeof(long));
    for (int round = 0; round < ROUNDS; round++)
        if (shmem_long_atomic_compare_swap(place + round, 0, me() + 1, round % n_pes()) == 0)
            shmem_long_atomic_inc(wins, 0);
    barrier();
    if (me() == 0) CHECK_EQ(*wins, ROUNDS);
    for (int round = 0; round < ROUNDS; round++) {
        long winner = shmem_long_g(place + round, round % n_pes());
        CHECK_OP(winner, >=, 1);
        CHECK_OP(winner, <=, n_pes());
    }
}

DATA_CASE(lock_of_compare_swap, 4, "compare_swap, swap: a lock made of them excludes (Atomicity Guarantees)")
{
    enum { ROUNDS = 40 };
    int *lock = symmetric(sizeof(int)), *value = symmetric(sizeof(int));
    for (int i = 0; i < ROUNDS; i++) {
        while (shmem_int_atomic_compare_swap(lock, 0, me() + 1, 0) != 0) sleep_ms(0);
        int found = shmem_int_g(value, 0);
        shmem_int_p(value, found + 1, 0);
        shmem_quiet();
        CHECK_EQ(shmem_int_atomic_swap(lock, 0, 0), me() + 1);
    }
    barrier();
    if (me() == 0) CHECK_EQ(*value, ROUNDS * n_pes());
}

DATA_CASE(swaps_lose_nothing, 4,
          "swap: each value that goes in comes out once, or is still in place (shmem_atomic_swap)", .crowded = 9)
{
    enum { ROUNDS = 150 };
    unsigned long *place = symmetric(sizeof *place), *sums = symmetric(2 * sizeof *sums), in = 0, out = 0;
    for (unsigned long i = 0; i < ROUNDS; i++) {
        unsigned long value = mix((unsigned long)me() * ROUNDS + i);
        in += value;
        out += shmem_ulong_atomic_swap(place, value, 1);
    }
    shmem_ulong_atomic_add(sums, in, 0);
    shmem_ulong_atomic_add(sums + 1, out, 0);
    barrier();
    if (me() == 0) CHECK_EQ(sums[0], sums[1] + shmem_ulong_g(place, 1));
}

DATA_CASE(neighbouring_words, 4,
          "atomics on 32-bit words that share a 64-bit one do not disturb each other (Atomicity Guarantees)",
          .crowded = 8)
{
    enum { ROUNDS = 500 };
    uint32_t *words = symmetric(PES_MAX * sizeof *words);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        shmem_uint32_atomic_add(words + me(), 0x10001, 0);
        if (i % 16 == 0) CHECK_EQ(shmem_uint32_atomic_fetch_add(words + me(), 0, 0), (i + 1) * 0x10001);
    }
    barrier();
    for (int pe = 0; me() == 0 && pe < n_pes(); pe++) CHECK_EQ(words[pe], ROUNDS * 0x10001u);
}

DATA_CASE(owner_takes_part, 3,
          "the owner's own atomics on an object are atomic with those of other PEs (Atomicity Guarantees)")
{
    enum { ROUNDS = 1000 };
    long *counter = symmetric(sizeof *counter);
    long last = 0;
    for (int i = 0; i < ROUNDS; i++) {
        shmem_long_atomic_inc(counter, 0);
        long now = shmem_long_atomic_fetch(counter, 0);
        if (me() == 0) CHECK_OP(now, >, last);
        last = now;
    }
    barrier();
    if (me() == 0) CHECK_EQ(*counter, ROUNDS * n_pes());
}

DATA_CASE(pairs_of_words, 3, "a 64-bit set is seen whole: never half of one and half of another (Atomicity Guarantees)")
{
    enum { ROUNDS = 2000 };
    uint64_t *word = symmetric(sizeof *word);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (me() == 0) {
            uint64_t found = shmem_uint64_atomic_fetch(word, 1);
            CHECK_EQ(found >> 32, found & 0xffffffff);
        } else {
            uint64_t half = i * 4 + (uint64_t)me();
            shmem_uint64_atomic_set(word, half << 32 | half, 1);
        }
    }
}

#if SINCE(1, 5)
DATA_CASE(many_fetches_at_once, 3,
          "nonblocking fetches: all results are in place after one quiet (shmem_atomic_fetch_add_nbi)")
{
    enum { N = 500 };
    long *word = symmetric(sizeof *word), *fetched = local(N * sizeof(long));
    int *small = symmetric(sizeof *small), *fetched_small = local(N * sizeof(int));
    unsigned char *seen = local(3 * N + 1);
    for (int i = 0; i < N; i++) {
        shmem_long_atomic_fetch_add_nbi(fetched + i, word, 1, 0);
        shmem_int_atomic_fetch_inc_nbi(fetched_small + i, small, next_pe());
    }
    shmem_quiet();
    for (int i = 0; i < N; i++) {
        CHECK_OP(fetched[i], >=, 0);
        CHECK_OP(fetched[i], <, N * n_pes());
        CHECK(!seen[fetched[i]]);
        seen[fetched[i]] = 1;
    }
    memset(seen, 0, 3 * N + 1);
    for (int i = 0; i < N; i++) {
        CHECK_OP(fetched_small[i], >=, 0);
        CHECK_OP(fetched_small[i], <, N);
        CHECK(!seen[fetched_small[i]]);
        seen[fetched_small[i]] = 1;
    }
    barrier();
    if (me() == 0) CHECK_EQ(*word, N * n_pes());
    CHECK_EQ(*small, N);
}
#endif
