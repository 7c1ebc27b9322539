/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared by the programs collectives and nonblocking: types and operations, operands that follow from a seed, the serial result in the order of
 * the ranks, memory with guards around it, and several layouts of the same ints.
 *
 * Each rank computes the expected results. MPI allows another order, so rounded results may differ a little. With `exact` they must have the
 * same bits. With `hosts=N` as well, MPI_COMM_WORLD is on N hosts in blocks, and the order is first within each host, then between the hosts.
 */
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 64, GUARD = 64 };

static int me, ranks; /* in MPI_COMM_WORLD */
static int exact;
static int hosts = 1;

static inline void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "rank %d of %d: ", me, ranks);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static inline uint64_t mix(uint64_t seed)
{
    seed += 0x9e3779b97f4a7c15;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
    return seed ^ seed >> 31;
}

static inline uint64_t draw(uint64_t seed, int rank, size_t at) { return mix(mix(seed * RANKS_MAX + rank) + at); }

/* ---- types and operations ---- */

enum operation { MAX, MIN, SUM, PROD, LAND, LOR, LXOR, BAND, BOR, BXOR, MINLOC, MAXLOC, OPERATIONS };

static const char *const op_names[] = {"MPI_MAX", "MPI_MIN",  "MPI_SUM", "MPI_PROD", "MPI_LAND",   "MPI_LOR",
                                       "MPI_LXOR", "MPI_BAND", "MPI_BOR", "MPI_BXOR", "MPI_MINLOC", "MPI_MAXLOC"};
static MPI_Op ops[OPERATIONS];

/* Sets of operations that MPI allows for a class of types (MPI 4.1, 6.9.2). */
enum {
    ORDER = 1 << MAX | 1 << MIN,
    ADD = 1 << SUM | 1 << PROD,
    LOGIC = 1 << LAND | 1 << LOR | 1 << LXOR,
    BITS = 1 << BAND | 1 << BOR | 1 << BXOR,
    PLACE = 1 << MINLOC | 1 << MAXLOC
};

struct kind {
    const char *name;
    MPI_Datatype type;
    size_t bytes; /* from one element to the next */
    size_t align;
    int allowed;
    void (*fill)(void *to, size_t count, int rank, uint64_t seed, int op);
    void (*reduce)(void *into, const void *with, size_t count, int op);
    long (*differs)(const void *got, const void *want, size_t count); /* the first wrong element, or -1 */
};

/* With `exact` integers use all their bits, and sums and products wrap around. Without, they fit any type: Open MPI saturates sums of short
 * integers, and compares some types as if they were unsigned. */
static inline uint64_t whole_number(uint64_t h, int rank, int op)
{
    if (LOGIC >> op & 1 && h >> 62 == 0) return 0;
    if (exact || BITS >> op & 1) return h;
    if (!(ADD >> op & 1)) return h >> 57;
    return op == SUM ? (rank < 16 ? h % 8 : 0) : (rank < 6 ? 1 + h % 2 : 1);
}

#define INTEGER(N, T)                                                                                            \
    static void fill_##N(void *to, size_t count, int rank, uint64_t seed, int op)                                \
    {                                                                                                            \
        T *t = to;                                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                     \
            uint64_t h = draw(seed, rank, i);                                                                    \
            t[i] = (T)whole_number(h, rank, op);                                                                 \
        }                                                                                                        \
    }                                                                                                            \
    static void reduce_##N(void *into, const void *with, size_t count, int op)                                   \
    {                                                                                                            \
        T *a = into;                                                                                             \
        const T *b = with;                                                                                       \
        for (size_t i = 0; i < count; i++) switch (op) {                                                         \
            case MAX: a[i] = a[i] > b[i] ? a[i] : b[i]; break;                                                   \
            case MIN: a[i] = a[i] < b[i] ? a[i] : b[i]; break;                                                   \
            case SUM: a[i] = (T)((uint64_t)a[i] + (uint64_t)b[i]); break;                                        \
            case PROD: a[i] = (T)((uint64_t)a[i] * (uint64_t)b[i]); break;                                       \
            case LAND: a[i] = a[i] && b[i]; break;                                                               \
            case LOR: a[i] = a[i] || b[i]; break;                                                                \
            case LXOR: a[i] = !a[i] != !b[i]; break;                                                             \
            case BAND: a[i] = (T)(a[i] & b[i]); break;                                                           \
            case BOR: a[i] = (T)(a[i] | b[i]); break;                                                            \
            case BXOR: a[i] = (T)(a[i] ^ b[i]); break;                                                           \
            }                                                                                                    \
    }                                                                                                            \
    static long differs_##N(const void *got, const void *want, size_t count)                                     \
    {                                                                                                            \
        const T *a = got, *b = want;                                                                             \
        for (size_t i = 0; i < count; i++)                                                                       \
            if (a[i] != b[i]) return (long)i;                                                                    \
        return -1;                                                                                               \
    }

/* Truth values are 0 or 1. */
#define TRUTH(N, T)                                                                                              \
    static void fill_##N(void *to, size_t count, int rank, uint64_t seed, int op)                                \
    {                                                                                                            \
        unsigned limit = op == LAND ? 12 : op == LOR ? 4 : 8;                                                    \
        for (size_t i = 0; i < count; i++) ((T *)to)[i] = draw(seed, rank, i) % 16 < limit;                      \
    }                                                                                                            \
    static void reduce_##N(void *into, const void *with, size_t count, int op)                                   \
    {                                                                                                            \
        T *a = into;                                                                                             \
        const T *b = with;                                                                                       \
        for (size_t i = 0; i < count; i++)                                                                       \
            a[i] = op == LAND ? a[i] && b[i] : op == LOR ? a[i] || b[i] : !a[i] != !b[i];                        \
    }                                                                                                            \
    static long differs_##N(const void *got, const void *want, size_t count)                                     \
    {                                                                                                            \
        const T *a = got, *b = want;                                                                             \
        for (size_t i = 0; i < count; i++)                                                                       \
            if (a[i] != b[i]) return (long)i;                                                                    \
        return -1;                                                                                               \
    }

/* A value whose sum shows the order in its last bits. Without `exact` nothing cancels out, so the error stays small. */
static inline long double real(uint64_t h, int op)
{
    long double value = 0.5L + (long double)(h >> 2) * 0x1p-62L; /* up to 1.5 */
    if (!exact) return value;
    int exponent = op == PROD ? (int)(mix(h) % 3) - 1 : (int)(mix(h) % 41) - 20;
    return ldexpl(h & 1 ? -value : value, exponent);
}

static inline int is_near(long double got, long double want, long double size, long double epsilon)
{
    return fabsl(got - want) <= 4 * RANKS_MAX * epsilon * size;
}

/* SIGNIFICANT: the bytes of a value that are not padding. */
#define REAL(N, T, EPSILON, SIGNIFICANT)                                                                         \
    static void fill_##N(void *to, size_t count, int rank, uint64_t seed, int op)                                \
    {                                                                                                            \
        for (size_t i = 0; i < count; i++) ((T *)to)[i] = (T)real(draw(seed, rank, i), op);                      \
    }                                                                                                            \
    static void reduce_##N(void *into, const void *with, size_t count, int op)                                   \
    {                                                                                                            \
        T *a = into;                                                                                             \
        const T *b = with;                                                                                       \
        for (size_t i = 0; i < count; i++) switch (op) {                                                         \
            case MAX: a[i] = a[i] > b[i] ? a[i] : b[i]; break;                                                   \
            case MIN: a[i] = a[i] < b[i] ? a[i] : b[i]; break;                                                   \
            case SUM: a[i] = a[i] + b[i]; break;                                                                 \
            case PROD: a[i] = a[i] * b[i]; break;                                                                \
            }                                                                                                    \
    }                                                                                                            \
    static long differs_##N(const void *got, const void *want, size_t count)                                     \
    {                                                                                                            \
        const T *a = got, *b = want;                                                                             \
        for (size_t i = 0; i < count; i++)                                                                       \
            if (exact ? memcmp(a + i, b + i, SIGNIFICANT) != 0 : !is_near(a[i], b[i], fabsl(b[i]), EPSILON))     \
                return (long)i;                                                                                  \
        return -1;                                                                                               \
    }

/* The products are volatile, so that no compiler fuses one with the addition. */
#define COMPLEX(N, T, EPSILON, SIGNIFICANT)                                                                      \
    static void fill_##N(void *to, size_t count, int rank, uint64_t seed, int op)                                \
    {                                                                                                            \
        for (size_t i = 0; i < 2 * count; i++) ((T *)to)[i] = (T)real(draw(seed, rank, i), op);                  \
    }                                                                                                            \
    static void reduce_##N(void *into, const void *with, size_t count, int op)                                   \
    {                                                                                                            \
        T *a = into;                                                                                             \
        const T *b = with;                                                                                       \
        for (size_t i = 0; i < 2 * count; i += 2) {                                                              \
            volatile T rr = a[i] * b[i], jj = a[i + 1] * b[i + 1], rj = a[i] * b[i + 1], jr = a[i + 1] * b[i];   \
            a[i] = op == SUM ? a[i] + b[i] : rr - jj;                                                            \
            a[i + 1] = op == SUM ? a[i + 1] + b[i + 1] : rj + jr;                                                \
        }                                                                                                        \
    }                                                                                                            \
    static long differs_##N(const void *got, const void *want, size_t count)                                     \
    {                                                                                                            \
        const T *a = got, *b = want;                                                                             \
        for (size_t i = 0; i < 2 * count; i++) {                                                                 \
            long double size = fabsl(b[i & ~(size_t)1]) + fabsl(b[i | 1]);                                       \
            if (exact ? memcmp(a + i, b + i, SIGNIFICANT) != 0 : !is_near(a[i], b[i], size, EPSILON))            \
                return (long)(i / 2);                                                                            \
        }                                                                                                        \
        return -1;                                                                                               \
    }

/* A value and an index. Values repeat often, so that ties are tested. */
#define PAIR(N, T)                                                                                               \
    struct pair_##N {                                                                                            \
        T value;                                                                                                 \
        int index;                                                                                               \
    };                                                                                                           \
    static void fill_##N(void *to, size_t count, int rank, uint64_t seed, int op)                                \
    {                                                                                                            \
        (void)op;                                                                                                \
        struct pair_##N *t = to;                                                                                 \
        for (size_t i = 0; i < count; i++) {                                                                     \
            uint64_t h = draw(seed, rank, i);                                                                    \
            t[i].value = (T)((int)(h % 5) - 2);                                                                  \
            t[i].index = seed & 1 ? rank : (int)(h >> 33) - (1 << 30);                                           \
        }                                                                                                        \
    }                                                                                                            \
    static void reduce_##N(void *into, const void *with, size_t count, int op)                                   \
    {                                                                                                            \
        struct pair_##N *a = into;                                                                               \
        const struct pair_##N *b = with;                                                                         \
        for (size_t i = 0; i < count; i++) {                                                                     \
            if (a[i].value == b[i].value)                                                                        \
                a[i].index = a[i].index < b[i].index ? a[i].index : b[i].index;                                  \
            else if (op == MINLOC ? b[i].value < a[i].value : b[i].value > a[i].value)                           \
                a[i] = b[i];                                                                                     \
        }                                                                                                        \
    }                                                                                                            \
    static long differs_##N(const void *got, const void *want, size_t count)                                     \
    {                                                                                                            \
        const struct pair_##N *a = got, *b = want;                                                               \
        for (size_t i = 0; i < count; i++)                                                                       \
            if (a[i].value != b[i].value || a[i].index != b[i].index) return (long)i;                            \
        return -1;                                                                                               \
    }

INTEGER(int8, int8_t)
INTEGER(int16, int16_t)
INTEGER(int32, int32_t)
INTEGER(int64, int64_t)
INTEGER(uint8, uint8_t)
INTEGER(uint16, uint16_t)
INTEGER(uint32, uint32_t)
INTEGER(uint64, uint64_t)
TRUTH(truth, bool)
TRUTH(logical, int32_t)
REAL(float, float, 0x1p-23L, sizeof(float))
REAL(double, double, 0x1p-52L, sizeof(double))
COMPLEX(cfloat, float, 0x1p-23L, sizeof(float))
COMPLEX(cdouble, double, 0x1p-52L, sizeof(double))
#if defined __x86_64__ || defined __i386__
REAL(ldouble, long double, 0x1p-63L, 10)
COMPLEX(cldouble, long double, 0x1p-63L, 10)
#else
REAL(ldouble, long double, 0x1p-52L, sizeof(long double))
COMPLEX(cldouble, long double, 0x1p-52L, sizeof(long double))
#endif
PAIR(float_int, float)
PAIR(double_int, double)
PAIR(long_int, long)
PAIR(two_int, int)
PAIR(short_int, short)
PAIR(ldouble_int, long double)

static struct kind kinds[64];
static int kinds_count;

static inline void know(const char *name, MPI_Datatype type, struct kind kind)
{
    /* Without Fortran an MPI has the names of its types, but not the types. */
    int size = 0;
    if (type == MPI_DATATYPE_NULL || MPI_Type_size(type, &size) != MPI_SUCCESS || size == 0) return;
    if (!(kind.allowed & PLACE) && size != (int)kind.bytes) return;
    kind.name = name;
    kind.type = type;
    kinds[kinds_count++] = kind;
}

#define KNOW(TYPE, N, T, ALLOWED) KNOW_AS(#TYPE, TYPE, N, T, ALLOWED)
#define KNOW_AS(NAME, TYPE, N, T, ALLOWED) \
    know(NAME, TYPE, (struct kind){.bytes = sizeof(T), .align = _Alignof(T), .allowed = (ALLOWED), .fill = fill_##N, \
                                    .reduce = reduce_##N, .differs = differs_##N})
/* `long` and `long long` have the size of one of the fixed types, and are read as that one. */
#define KNOW_LONG(TYPE, N, T, ALLOWED) \
    if (sizeof(T) == 8) KNOW_AS(#TYPE, TYPE, N##64, N##64_t, ALLOWED); else KNOW_AS(#TYPE, TYPE, N##32, N##32_t, ALLOWED)

static inline void know_types(void)
{
    const MPI_Op all[OPERATIONS] = {MPI_MAX, MPI_MIN,  MPI_SUM, MPI_PROD, MPI_LAND,   MPI_LOR,
                                    MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MINLOC, MPI_MAXLOC};
    memcpy(ops, all, sizeof all);
    enum { C_INTEGER = ORDER | ADD | LOGIC | BITS, OTHER_INTEGER = ORDER | ADD | BITS };
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    KNOW(MPI_SIGNED_CHAR, int8, int8_t, C_INTEGER);
    KNOW(MPI_UNSIGNED_CHAR, uint8, uint8_t, C_INTEGER);
    KNOW(MPI_SHORT, int16, int16_t, C_INTEGER);
    KNOW(MPI_UNSIGNED_SHORT, uint16, uint16_t, C_INTEGER);
    KNOW(MPI_INT, int32, int32_t, C_INTEGER);
    KNOW(MPI_UNSIGNED, uint32, uint32_t, C_INTEGER);
    KNOW_LONG(MPI_LONG, int, long, C_INTEGER);
    KNOW_LONG(MPI_UNSIGNED_LONG, uint, long, C_INTEGER);
    KNOW(MPI_LONG_LONG_INT, int64, int64_t, C_INTEGER);
    KNOW(MPI_UNSIGNED_LONG_LONG, uint64, uint64_t, C_INTEGER);
    KNOW(MPI_INT8_T, int8, int8_t, C_INTEGER);
    KNOW(MPI_INT16_T, int16, int16_t, C_INTEGER);
    KNOW(MPI_INT32_T, int32, int32_t, C_INTEGER);
    KNOW(MPI_INT64_T, int64, int64_t, C_INTEGER);
    KNOW(MPI_UINT8_T, uint8, uint8_t, C_INTEGER);
    KNOW(MPI_UINT16_T, uint16, uint16_t, C_INTEGER);
    KNOW(MPI_UINT32_T, uint32, uint32_t, C_INTEGER);
    KNOW(MPI_UINT64_T, uint64, uint64_t, C_INTEGER);
    KNOW_LONG(MPI_AINT, int, MPI_Aint, OTHER_INTEGER);
    KNOW(MPI_OFFSET, int64, int64_t, OTHER_INTEGER);
    KNOW(MPI_COUNT, int64, int64_t, OTHER_INTEGER);
    KNOW(MPI_INTEGER, int32, int32_t, OTHER_INTEGER);
    KNOW(MPI_BYTE, uint8, uint8_t, BITS);
    KNOW(MPI_C_BOOL, truth, bool, LOGIC);
    KNOW(MPI_LOGICAL, logical, int32_t, LOGIC);
    KNOW(MPI_FLOAT, float, float, ORDER | ADD);
    KNOW(MPI_DOUBLE, double, double, ORDER | ADD);
    KNOW(MPI_LONG_DOUBLE, ldouble, long double, ORDER | ADD);
    KNOW(MPI_REAL, float, float, ORDER | ADD);
    KNOW(MPI_DOUBLE_PRECISION, double, double, ORDER | ADD);
    KNOW(MPI_C_COMPLEX, cfloat, float _Complex, ADD);
    KNOW(MPI_C_FLOAT_COMPLEX, cfloat, float _Complex, ADD);
    KNOW(MPI_C_DOUBLE_COMPLEX, cdouble, double _Complex, ADD);
    KNOW(MPI_C_LONG_DOUBLE_COMPLEX, cldouble, long double _Complex, ADD);
    KNOW(MPI_COMPLEX, cfloat, float _Complex, ADD);
    KNOW(MPI_DOUBLE_COMPLEX, cdouble, double _Complex, ADD);
    KNOW(MPI_FLOAT_INT, float_int, struct pair_float_int, PLACE);
    KNOW(MPI_DOUBLE_INT, double_int, struct pair_double_int, PLACE);
    KNOW(MPI_LONG_INT, long_int, struct pair_long_int, PLACE);
    KNOW(MPI_2INT, two_int, struct pair_two_int, PLACE);
    KNOW(MPI_SHORT_INT, short_int, struct pair_short_int, PLACE);
    KNOW(MPI_LONG_DOUBLE_INT, ldouble_int, struct pair_ldouble_int, PLACE);
    KNOW(MPI_2INTEGER, two_int, struct pair_two_int, PLACE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

static const struct kind *kind_of(MPI_Datatype type)
{
    for (int i = 0; i < kinds_count; i++)
        if (kinds[i].type == type) return &kinds[i];
    fail("a C type is missing from the table of types");
    return NULL;
}

/* ---- memory ---- */

enum place { STACK, STATIC, HEAP, MAPPED, PLACES };

static const char *const place_names[] = {"on the stack", "static", "allocated", "mapped"};

enum { STACK_BYTES = 20000, STATIC_BYTES = 4 << 20 };

static unsigned char fixed[2][STATIC_BYTES];

struct memory {
    enum place place;
    size_t bytes, whole;
    unsigned char *base, *data;
};

/* Makes a buffer; `stack` has STACK_BYTES. One too large for the stack or static memory is allocated. The data is `shift` bytes beyond a
 * multiple of 16. */
static inline struct memory memory(enum place place, size_t bytes, int shift, unsigned char *stack, int which)
{
    struct memory m = {.place = place, .bytes = bytes, .whole = bytes + 2 * GUARD + 32};
    if ((place == STACK && m.whole > STACK_BYTES) || (place == STATIC && m.whole > STATIC_BYTES)) m.place = HEAP;
    switch (m.place) {
    case STACK: m.base = stack; break;
    case STATIC: m.base = fixed[which]; break;
    case HEAP: m.base = malloc(m.whole); break;
    default: m.base = mmap(NULL, m.whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (m.base == NULL || m.base == MAP_FAILED) fail("no memory of %zu bytes", m.whole);
    m.data = m.base + GUARD + (16 - (uintptr_t)m.base % 16) % 16 + shift;
    memset(m.data - GUARD, 0xa5, GUARD);
    memset(m.data, 0x5c, bytes);
    memset(m.data + bytes, 0xa5, GUARD);
    return m;
}

/* Returns the first wrong byte around the data, relative to it, or 0 with *is_whole. */
static inline long guards(const struct memory *m, int *is_whole)
{
    *is_whole = 0;
    for (long i = 1; i <= GUARD; i++) {
        if (m->data[-i] != 0xa5) return -i;
        if (m->data[m->bytes + i - 1] != 0xa5) return (long)m->bytes + i - 1;
    }
    *is_whole = 1;
    return 0;
}

static inline void drop(struct memory *m)
{
    if (m->place == HEAP) free(m->base);
    if (m->place == MAPPED) munmap(m->base, m->whole);
}

/* ---- expected results ---- */

static inline unsigned char *scratch(int which, size_t bytes)
{
    static unsigned char *buffers[3];
    static size_t have[3];
    if (have[which] < bytes) {
        free(buffers[which]);
        buffers[which] = malloc(have[which] = bytes);
        if (!buffers[which]) fail("no memory of %zu bytes", bytes);
    }
    return buffers[which];
}

/* The host of each rank of a communicator. */
static inline void know_hosts(MPI_Comm comm, int size, int *host)
{
    MPI_Group of, all;
    int own[RANKS_MAX];
    for (int rank = 0; rank < size; rank++) own[rank] = rank, host[rank] = 0;
    if (hosts == 1) return;
    MPI_Comm_group(comm, &of);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_translate_ranks(of, size, own, all, host);
    MPI_Group_free(&of);
    MPI_Group_free(&all);
    for (int rank = 0; rank < size; rank++) host[rank] = host[rank] * hosts / ranks;
}

/* Computes the expected result, in the order of the ranks of each host, then of the hosts. */
static inline const unsigned char *expected_on(const struct kind *kind, int op, size_t count, uint64_t seed, const int *host, int size)
{
    unsigned char *into = scratch(0, count * kind->bytes), *with = scratch(1, count * kind->bytes);
    unsigned char *here = scratch(2, count * kind->bytes);
    int done[RANKS_MAX] = {0};
    for (int first = 0; first < size; first++) {
        if (done[host[first]]++) continue;
        kind->fill(first == 0 ? into : here, count, first, seed, op);
        for (int rank = first + 1; rank < size; rank++) {
            if (host[rank] != host[first]) continue;
            kind->fill(with, count, rank, seed, op);
            kind->reduce(first == 0 ? into : here, with, count, op);
        }
        if (first != 0) kind->reduce(into, here, count, op);
    }
    return into;
}

static const unsigned char *expected(const struct kind *kind, int op, size_t count, uint64_t seed, MPI_Comm comm, int size)
{
    int host[RANKS_MAX];
    know_hosts(comm, size, host);
    return expected_on(kind, op, count, seed, host, size);
}

static inline void hex(char *to, const unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) sprintf(to + 2 * i, "%02x", from[i]);
}

static inline int op_of(const struct kind *kind, uint64_t seed)
{
    int op = (int)(seed % OPERATIONS);
    while (!(kind->allowed >> op & 1)) op = (op + 1) % OPERATIONS;
    return op;
}

/* ---- layouts ---- */

/* Layouts of the same ints: their type signature is the same. */
enum layout { PLAIN, VECTOR, CONTIGUOUS, STRUCT, RESIZED, SWAPPED, ABSOLUTE, BEFORE, LAYOUTS, OVERLAPPING = LAYOUTS };

static const char *const layout_names[] = {"ints", "a vector with gaps", "a contiguous type", "structures", "resized ints",
                                           "ints in another order", "absolute addresses", "structures before the address",
                                           "ints that are sent twice"};

/* Returns the bytes from the start of the data to int number `at`. */
static inline long offset(enum layout layout, int at)
{
    switch (layout) {
    case VECTOR:
    case RESIZED: return 12L * at;
    case STRUCT: return 16L * (at / 2) + 8 * (at % 2);
    case SWAPPED: return 8L * (at / 2) + 4 * (1 - at % 2);
    case ABSOLUTE: return 8L * at;
    case BEFORE: return 8L * at - 4;
    case OVERLAPPING: return 12L * (at / 3) + 8 * (at % 3 / 2);
    default: return 4L * at;
    }
}

struct described {
    void *address;
    int count;
    MPI_Datatype type;
    MPI_Aint block; /* bytes from one rank's ints to the next one's */
};

/* Describes `count` ints at `data`, a multiple of 6. */
static inline struct described describe(enum layout layout, unsigned char *data, int count)
{
    struct described d = {.address = data, .count = 1};
    MPI_Datatype inner;
    int lengths[2] = {1, 1};
    MPI_Datatype ints[2] = {MPI_INT, MPI_INT};
    switch (layout) {
    case VECTOR: MPI_Type_vector(count, 1, 3, MPI_INT, &d.type); break;
    case CONTIGUOUS: MPI_Type_contiguous(count, MPI_INT, &d.type); break;
    case STRUCT:
        MPI_Type_create_struct(2, lengths, (MPI_Aint[]){0, 8}, ints, &inner);
        MPI_Type_create_resized(inner, 0, 16, &d.type);
        MPI_Type_free(&inner);
        d.count = count / 2;
        break;
    case SWAPPED:
        MPI_Type_indexed(2, lengths, (int[]){1, 0}, MPI_INT, &d.type);
        d.count = count / 2;
        break;
    case ABSOLUTE: {
        MPI_Aint *at = malloc((size_t)count * sizeof *at);
        for (int i = 0; i < count; i++) MPI_Get_address(data + offset(layout, i), &at[i]);
        MPI_Type_create_hindexed_block(count, 1, at, MPI_INT, &d.type);
        free(at);
        d.address = MPI_BOTTOM;
        break;
    }
    case BEFORE:
        MPI_Type_create_hindexed(1, lengths, (MPI_Aint[]){-4}, MPI_INT, &inner);
        MPI_Type_create_resized(inner, -4, 8, &d.type);
        MPI_Type_free(&inner);
        d.count = count;
        break;
    case OVERLAPPING: /* only to send */
        MPI_Type_indexed(3, (int[]){1, 1, 1}, (int[]){0, 0, 2}, MPI_INT, &d.type);
        d.count = count / 3;
        break;
    default:
        MPI_Type_create_resized(MPI_INT, 0, layout == RESIZED ? 12 : 4, &d.type);
        d.count = count;
    }
    MPI_Type_commit(&d.type);
    MPI_Aint low;
    MPI_Type_get_extent(d.type, &low, &d.block);
    d.block *= d.count;
    return d;
}

static inline int value(uint64_t seed, int rank, int at) { return (int)draw(seed, rank, (size_t)(at % 3 == 1 ? at - 1 : at)); }

static inline void put(unsigned char *data, enum layout layout, int count, uint64_t seed, int rank)
{
    for (int i = 0; i < count; i++) memcpy(data + offset(layout, i), &(int){value(seed, rank, i)}, sizeof(int));
}

/* Checks the ints and clears them; returns the first wrong one, or -1. */
static inline int take(unsigned char *data, enum layout layout, int count, uint64_t seed, int rank)
{
    for (int i = 0; i < count; i++) {
        int got;
        memcpy(&got, data + offset(layout, i), sizeof got);
        if (got != value(seed, rank, i)) return i;
    }
    for (int i = 0; i < count; i++) memset(data + offset(layout, i), 0xee, sizeof(int));
    return -1;
}

static inline void gaps(const unsigned char *area, size_t bytes, const char *what, enum layout layout)
{
    for (size_t i = 0; i < bytes; i++)
        if (area[i] != 0xee) fail("%s, %s: byte %zu between the ints has changed", what, layout_names[layout], i);
}
