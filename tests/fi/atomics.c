/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Atomic operations: every operation on every type that the provider grants, against the same computed here; what it does
 * not grant is refused; forms of the calls; and operations of several processes on one word. fi_atomic(3).
 */
#include "harness.h"

#include <complex.h>
#include <math.h>

#define WANTS (struct wants){.caps = FI_MSG | FI_RMA | FI_ATOMIC}
#define CONTEXT(number) ((void *)(uintptr_t)(0x1000 + (number)))

enum { ELEMENT_MAX = 32, ELEMENTS = 6 };

typedef float complex float_complex;
typedef double complex double_complex;
typedef long double long_double;
typedef long double complex long_double_complex;

/* ---- The same, computed here --------------------------------------------------------------------------------------------- */

/* One element: the target's new value into `target`. False: the operation has no meaning for the type. */
typedef bool compute_fn(enum fi_op op, void *target, const void *operand, const void *compare);

#define COMMON_CASES(T)                                                         \
    case FI_SUM: t = (T)(t + o); break;                                         \
    case FI_PROD: t = (T)(t * o); break;                                        \
    case FI_LOR: t = (T)(t != 0 || o != 0); break;                              \
    case FI_LAND: t = (T)(t != 0 && o != 0); break;                             \
    case FI_LXOR: t = (T)((t != 0) != (o != 0)); break;                         \
    case FI_ATOMIC_READ: break;                                                 \
    case FI_ATOMIC_WRITE: t = o; break;                                         \
    case FI_CSWAP: if (c == t) t = o; break;                                    \
    case FI_CSWAP_NE: if (c != t) t = o; break;

#define ORDERED_CASES                                                           \
    case FI_MIN: if (o < t) t = o; break;                                       \
    case FI_MAX: if (o > t) t = o; break;                                       \
    case FI_CSWAP_LE: if (c <= t) t = o; break;                                 \
    case FI_CSWAP_LT: if (c < t) t = o; break;                                  \
    case FI_CSWAP_GE: if (c >= t) t = o; break;                                 \
    case FI_CSWAP_GT: if (c > t) t = o; break;

#define INTEGER_CASES(T)                                                        \
    case FI_BOR: t = (T)(t | o); break;                                         \
    case FI_BAND: t = (T)(t & o); break;                                        \
    case FI_BXOR: t = (T)(t ^ o); break;                                        \
    case FI_MSWAP: t = (T)((o & c) | (t & ~c)); break;

#define COMPUTE(T, ...)                                                                             \
    static bool compute_##T(enum fi_op op, void *target, const void *operand, const void *compare)  \
    {                                                                                               \
        T t, o, c;                                                                                  \
        memcpy(&t, target, sizeof t);                                                               \
        memcpy(&o, operand, sizeof o);                                                              \
        memcpy(&c, compare, sizeof c);                                                              \
        switch ((int)op) {                                                                          \
            __VA_ARGS__                                                                             \
        default: return false;                                                                      \
        }                                                                                           \
        memcpy(target, &t, sizeof t);                                                               \
        return true;                                                                                \
    }

#define COMPUTE_INTEGER(T) COMPUTE(T, COMMON_CASES(T) ORDERED_CASES INTEGER_CASES(T))
#define COMPUTE_REAL(T) COMPUTE(T, COMMON_CASES(T) ORDERED_CASES)
#define COMPUTE_COMPLEX(T) COMPUTE(T, COMMON_CASES(T))

/* Products of signed integers as unsigned ones: what wraps is not undefined then. */
#define COMPUTE_SIGNED(T, U)                                                                        \
    static bool compute_##T(enum fi_op op, void *target, const void *operand, const void *compare)  \
    {                                                                                               \
        T t, o, c;                                                                                  \
        memcpy(&t, target, sizeof t);                                                               \
        memcpy(&o, operand, sizeof o);                                                              \
        memcpy(&c, compare, sizeof c);                                                              \
        switch ((int)op) {                                                                          \
            ORDERED_CASES                                                                           \
        default: return compute_##U(op, target, operand, compare);                                  \
        }                                                                                           \
        memcpy(target, &t, sizeof t);                                                               \
        return true;                                                                                \
    }

typedef unsigned __int128 uint128_t;
typedef __int128 int128_t;
COMPUTE_INTEGER(uint8_t)
COMPUTE_INTEGER(uint16_t)
COMPUTE_INTEGER(uint32_t)
COMPUTE_INTEGER(uint64_t)
COMPUTE_INTEGER(uint128_t)
COMPUTE_SIGNED(int8_t, uint8_t)
COMPUTE_SIGNED(int16_t, uint16_t)
COMPUTE_SIGNED(int32_t, uint32_t)
COMPUTE_SIGNED(int64_t, uint64_t)
COMPUTE_SIGNED(int128_t, uint128_t)
COMPUTE_REAL(float)
COMPUTE_REAL(double)
COMPUTE_REAL(long_double)
COMPUTE_COMPLEX(float_complex)
COMPUTE_COMPLEX(double_complex)
COMPUTE_COMPLEX(long_double_complex)

struct type {
    const char *name;
    enum fi_datatype datatype;
    size_t bytes;
    compute_fn *compute;
    enum { INTEGER, REAL, COMPLEX } kind;
    size_t part; /* of a complex number or a long double: bytes that mean something */
};

static const struct type TYPES[] = {
    {"int8", FI_INT8, 1, compute_int8_t, INTEGER, 1},
    {"uint8", FI_UINT8, 1, compute_uint8_t, INTEGER, 1},
    {"int16", FI_INT16, 2, compute_int16_t, INTEGER, 2},
    {"uint16", FI_UINT16, 2, compute_uint16_t, INTEGER, 2},
    {"int32", FI_INT32, 4, compute_int32_t, INTEGER, 4},
    {"uint32", FI_UINT32, 4, compute_uint32_t, INTEGER, 4},
    {"int64", FI_INT64, 8, compute_int64_t, INTEGER, 8},
    {"uint64", FI_UINT64, 8, compute_uint64_t, INTEGER, 8},
    {"float", FI_FLOAT, 4, compute_float, REAL, 4},
    {"double", FI_DOUBLE, 8, compute_double, REAL, 8},
    {"float complex", FI_FLOAT_COMPLEX, 8, compute_float_complex, COMPLEX, 8},
    {"double complex", FI_DOUBLE_COMPLEX, 16, compute_double_complex, COMPLEX, 16},
    {"long double", FI_LONG_DOUBLE, sizeof(long double), compute_long_double, REAL, 10},
    {"long double complex", FI_LONG_DOUBLE_COMPLEX, sizeof(long_double_complex), compute_long_double_complex, COMPLEX, 10},
    {"int128", FI_INT128, 16, compute_int128_t, INTEGER, 16},
    {"uint128", FI_UINT128, 16, compute_uint128_t, INTEGER, 16},
};

static const struct { const char *name; enum fi_op op; } OPS[] = {
    {"MIN", FI_MIN}, {"MAX", FI_MAX}, {"SUM", FI_SUM}, {"PROD", FI_PROD}, {"LOR", FI_LOR}, {"LAND", FI_LAND}, {"BOR", FI_BOR},
    {"BAND", FI_BAND}, {"LXOR", FI_LXOR}, {"BXOR", FI_BXOR}, {"ATOMIC_READ", FI_ATOMIC_READ}, {"ATOMIC_WRITE", FI_ATOMIC_WRITE},
    {"CSWAP", FI_CSWAP}, {"CSWAP_NE", FI_CSWAP_NE}, {"CSWAP_LE", FI_CSWAP_LE}, {"CSWAP_LT", FI_CSWAP_LT}, {"CSWAP_GE", FI_CSWAP_GE},
    {"CSWAP_GT", FI_CSWAP_GT}, {"MSWAP", FI_MSWAP}};

static bool is_comparing(enum fi_op op) { return op >= FI_CSWAP && op <= FI_MSWAP; }

/* Values that meet each other often, and those at the ends. */
static void set_value(const struct type *t, void *at, uint64_t *state)
{
    static const int SMALL[] = {0, 1, 2, 3, -1, -2, 100};
    int small = SMALL[random_next(state) % COUNT_OF(SMALL)];
    uint64_t wide = random_next(state);
    unsigned char bytes[ELEMENT_MAX] = {0};
    if (t->kind == INTEGER) {
        if (wide % 3) memset(bytes, small < 0 ? 0xff : 0, sizeof bytes), *(int8_t *)bytes = (int8_t)small;
        else for (size_t i = 0; i < t->bytes; i++) bytes[i] = (unsigned char)random_next(state);
    } else {
        double real = small + (wide % 4) * 0.25, imaginary = (double)(wide / 8 % 5) - 2;
        if (t->datatype == FI_FLOAT) *(float *)bytes = (float)real;
        if (t->datatype == FI_DOUBLE) *(double *)bytes = real;
        if (t->datatype == FI_LONG_DOUBLE) *(long double *)bytes = real;
        if (t->kind == COMPLEX && t->datatype == FI_FLOAT_COMPLEX) { ((float *)bytes)[0] = (float)real; ((float *)bytes)[1] = (float)imaginary; }
        if (t->kind == COMPLEX && t->datatype == FI_DOUBLE_COMPLEX) { ((double *)bytes)[0] = real; ((double *)bytes)[1] = imaginary; }
        if (t->datatype == FI_LONG_DOUBLE_COMPLEX) { ((long double *)bytes)[0] = real; ((long double *)bytes)[1] = imaginary; }
    }
    memcpy(at, bytes, t->bytes);
}

/* The padding of a long double means nothing. */
static bool same(const struct type *t, const void *a, const void *b)
{
    if (t->part == t->bytes) return memcmp(a, b, t->bytes) == 0;
    if (t->kind == REAL) return memcmp(a, b, t->part) == 0;
    return memcmp(a, b, t->part) == 0 && memcmp((char *)a + t->bytes / 2, (char *)b + t->bytes / 2, t->part) == 0;
}

/* ---- All of them ------------------------------------------------------------------------------------------------------------ */

enum call { BASE, FETCH, COMPARE };

static int valid(struct fid_ep *ep, enum call call, enum fi_datatype type, enum fi_op op, size_t *count)
{
    if (call == BASE) return fi_atomicvalid(ep, type, op, count);
    if (call == FETCH) return fi_fetch_atomicvalid(ep, type, op, count);
    return fi_compare_atomicvalid(ep, type, op, count);
}

struct bench {
    struct pair p;
    char *memory;
    struct region region;
};

static struct bench bench_open(void)
{
    struct bench b = {.p = pair_open(WANTS)};
    b.memory = buffer(65536);
    b.region = region_over(b.p.b, b.memory, 65536, ACCESS_ALL);
    return b;
}

static void try_one(struct bench *b, enum call call, const struct type *t, enum fi_op op, const char *op_name, uint64_t *state)
{
    char target[ELEMENTS * ELEMENT_MAX], operand[ELEMENTS * ELEMENT_MAX], compare[ELEMENTS * ELEMENT_MAX], result[ELEMENTS * ELEMENT_MAX], wanted[ELEMENTS * ELEMENT_MAX];
    size_t most = 0;
    OK(valid(b->p.a->ep, call, t->datatype, op, &most));
    CHECK(most >= 1);
    size_t count = 1 + random_next(state) % (most < ELEMENTS ? most : ELEMENTS);
    for (size_t i = 0; i < count; i++) {
        set_value(t, target + i * t->bytes, state);
        set_value(t, operand + i * t->bytes, state);
        set_value(t, compare + i * t->bytes, state);
        if (random_next(state) % 2) memcpy(compare + i * t->bytes, target + i * t->bytes, t->bytes);
        memcpy(wanted + i * t->bytes, target + i * t->bytes, t->bytes);
        about("%s of %s, call %d, element %zu of %zu", op_name, t->name, call, i, count);
        if (!t->compute(op, wanted + i * t->bytes, operand + i * t->bytes, compare + i * t->bytes)) return; /* granted, but without meaning */
    }
    memset(b->memory, 0xee, 1024);
    memcpy(b->memory + 64, target, count * t->bytes);
    memset(result, 0x5a, sizeof result);
    struct fid_ep *ep = b->p.a->ep;
    uint64_t at = b->region.base + 64, key = b->region.key;
    const void *from = op == FI_ATOMIC_READ ? NULL : operand;
    if (call == BASE) POST(fi_atomic(ep, from, count, NULL, b->p.to_b, at, key, t->datatype, op, CONTEXT(1)));
    if (call == FETCH) POST(fi_fetch_atomic(ep, from, count, NULL, result, NULL, b->p.to_b, at, key, t->datatype, op, CONTEXT(1)));
    if (call == COMPARE) POST(fi_compare_atomic(ep, operand, count, NULL, compare, NULL, result, NULL, b->p.to_b, at, key, t->datatype, op, CONTEXT(1)));
    struct completion c = WAIT_TX(b->p.a);
    CHECK_PTR(c.context, CONTEXT(1));
    if (call == BASE) { /* there when a read behind it has come back */
        char probe[8];
        POST(fi_fetch_atomic(ep, NULL, 1, NULL, probe, NULL, b->p.to_b, b->region.base, key, FI_UINT64, FI_ATOMIC_READ, CONTEXT(2)));
        CHECK_PTR(WAIT_TX(b->p.a).context, CONTEXT(2));
    }
    for (size_t i = 0; i < count; i++) {
        about("%s of %s, call %d, element %zu of %zu", op_name, t->name, call, i, count);
        if (!same(t, b->memory + 64 + i * t->bytes, wanted + i * t->bytes)) {
            char text[6][2 * ELEMENT_MAX + 1];
            const char *const values[] = {target, operand, compare, b->memory + 64, wanted, result};
            for (int v = 0; v < 6; v++)
                for (size_t k = 0; k < t->bytes; k++) sprintf(text[v] + 2 * k, "%02x", (unsigned char)values[v][i * t->bytes + k]);
            FAIL("target %s operand %s compare %s: became %s, wanted %s (result %s; bytes as they lie)", text[0], text[1], text[2], text[3], text[4], text[5]);
        }
        if (call != BASE && !same(t, result + i * t->bytes, target + i * t->bytes)) FAIL("the result is not what was there before");
    }
    CHECK_BYTES(b->memory + 64 + count * t->bytes, 64, 0xee);
    CHECK_BYTES(b->memory, 64, 0xee);
}

static void try_all(enum call call, int rounds)
{
    struct bench b = bench_open();
    uint64_t state = 271828;
    int granted = 0;
    for (size_t t = 0; t < COUNT_OF(TYPES); t++)
        for (size_t o = 0; o < COUNT_OF(OPS); o++) {
            size_t count = 0;
            about("%s of %s, call %d", OPS[o].name, TYPES[t].name, call);
            if (valid(b.p.a->ep, call, TYPES[t].datatype, OPS[o].op, &count) != 0) continue;
            if (call != COMPARE && is_comparing(OPS[o].op)) FAIL("granted, though it needs a comparand");
            if (call == COMPARE && !is_comparing(OPS[o].op)) FAIL("granted, though it takes no comparand");
            if (call == BASE && OPS[o].op == FI_ATOMIC_READ) continue; /* reads nothing into nowhere */
            granted++;
            for (int i = 0; i < rounds; i++) try_one(&b, call, &TYPES[t], OPS[o].op, OPS[o].name, &state);
        }
    CHECK(granted > 0);
}

CASE(base, 1, "fi_atomic: every operation and type that fi_atomicvalid grants gives what C gives, elements beside stay", .stock = "tcp;ofi_rxm: LXOR of numbers that are not 0 or 1 | shm: LXOR of numbers that are not 0 or 1 | sockets: LXOR of numbers that are not 0 or 1")
{
    try_all(BASE, 12);
}

CASE(fetching, 1, "fi_fetch_atomic: every operation and type that is granted; the result is what was there before", .stock = "tcp;ofi_rxm: LXOR of numbers that are not 0 or 1 | shm: LXOR of numbers that are not 0 or 1 | sockets: LXOR of numbers that are not 0 or 1")
{
    try_all(FETCH, 12);
}

CASE(comparing, 1, "fi_compare_atomic: every operation and type that is granted; swaps where the manual says so; the result is what was there before")
{
    try_all(COMPARE, 20);
}

CASE(granted_by_ours, 1, "contract: all operations on integers of 8 to 64 bits, those that have a meaning on reals and complex numbers", .ours = true)
{
    struct bench b = bench_open();
    for (size_t t = 0; t < COUNT_OF(TYPES); t++)
        for (size_t o = 0; o < COUNT_OF(OPS); o++) {
            char element[3][ELEMENT_MAX] = {{0}};
            size_t count = 0;
            enum fi_op op = OPS[o].op;
            bool meaningful = TYPES[t].compute(op, element[0], element[1], element[2]);
            about("%s of %s", OPS[o].name, TYPES[t].name);
            if (!meaningful) {
                for (enum call call = BASE; call <= COMPARE; call++) REFUSED(valid(b.p.a->ep, call, TYPES[t].datatype, op, &count));
                continue;
            }
            if (TYPES[t].kind == INTEGER && TYPES[t].bytes > 8) continue; /* ours to choose */
            if (TYPES[t].kind != INTEGER && (op == FI_LOR || op == FI_LAND || op == FI_LXOR)) continue; /* ours to choose */
            if (is_comparing(op)) {
                OK(valid(b.p.a->ep, COMPARE, TYPES[t].datatype, op, &count));
            } else {
                if (op != FI_ATOMIC_READ) OK(valid(b.p.a->ep, BASE, TYPES[t].datatype, op, &count));
                OK(valid(b.p.a->ep, FETCH, TYPES[t].datatype, op, &count));
            }
            CHECK(count >= 1);
        }
}

CASE(refused, 1, "fi_atomicvalid: what it refuses with -FI_EOPNOTSUPP the calls refuse, too; types and operations that do not exist", .stock = "sockets: takes them | shm: takes them | tcp;ofi_rxm: other errors")
{
    struct bench b = bench_open();
    char operand[64] = {0}, compare[64] = {0}, result[64];
    struct fid_ep *ep = b.p.a->ep;
    for (size_t t = 0; t < COUNT_OF(TYPES); t++)
        for (size_t o = 0; o < COUNT_OF(OPS); o++) {
            size_t count = 0;
            enum fi_datatype type = TYPES[t].datatype;
            enum fi_op op = OPS[o].op;
            about("%s of %s", OPS[o].name, TYPES[t].name);
            if (fi_atomicvalid(ep, type, op, &count) != 0) {
                CHECK_RC(fi_atomic(ep, operand, 1, NULL, b.p.to_b, b.region.base, b.region.key, type, op, NULL), -FI_EOPNOTSUPP);
                CHECK_RC(fi_inject_atomic(ep, operand, 1, b.p.to_b, b.region.base, b.region.key, type, op), -FI_EOPNOTSUPP);
            }
            if (fi_fetch_atomicvalid(ep, type, op, &count) != 0)
                CHECK_RC(fi_fetch_atomic(ep, operand, 1, NULL, result, NULL, b.p.to_b, b.region.base, b.region.key, type, op, NULL), -FI_EOPNOTSUPP);
            if (fi_compare_atomicvalid(ep, type, op, &count) != 0)
                CHECK_RC(fi_compare_atomic(ep, operand, 1, NULL, compare, NULL, result, NULL, b.p.to_b, b.region.base, b.region.key, type, op, NULL), -FI_EOPNOTSUPP);
        }
    size_t count;
    REFUSED(fi_atomicvalid(ep, (enum fi_datatype)99, FI_SUM, &count));
    REFUSED(fi_atomicvalid(ep, FI_UINT64, (enum fi_op)99, &count));
    REFUSED(fi_atomic(ep, operand, 1, NULL, b.p.to_b, b.region.base, b.region.key, (enum fi_datatype)99, FI_SUM, NULL));
    REFUSED(fi_atomic(ep, operand, 1, NULL, b.p.to_b, b.region.base, b.region.key, FI_UINT64, (enum fi_op)99, NULL));
    CHECK_NONE(b.p.a->tx, 3);
}

CASE(query, 1, "fi_query_atomic: tells what the valid calls tell, with the size of the type; FI_FETCH_ATOMIC and FI_COMPARE_ATOMIC not both", .stock = "sockets: has no fi_query_atomic | shm: other counts")
{
    struct bench b = bench_open();
    static const uint64_t FLAGS[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
    struct fi_atomic_attr attr;
    for (size_t t = 0; t < COUNT_OF(TYPES); t++)
        for (size_t o = 0; o < COUNT_OF(OPS); o++)
            for (enum call call = BASE; call <= COMPARE; call++) {
                size_t count = 0;
                about("%s of %s, call %d", OPS[o].name, TYPES[t].name, call);
                memset(&attr, 0, sizeof attr);
                int told = valid(b.p.a->ep, call, TYPES[t].datatype, OPS[o].op, &count);
                int rc = fi_query_atomic(b.p.a->domain, TYPES[t].datatype, OPS[o].op, &attr, FLAGS[call]);
                CHECK_EQ(rc == 0, told == 0);
                if (rc != 0) continue;
                CHECK_EQ(attr.size, TYPES[t].bytes);
                CHECK_EQ(attr.count, count);
            }
    REFUSED(fi_query_atomic(b.p.a->domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC));
}

CASE(counts, 1, "fi_atomic: as many elements as the valid call tells at once; one more is refused, and so is none", .stock = "sockets: takes more | shm: takes none | tcp;ofi_rxm: takes none")
{
    struct bench b = bench_open();
    size_t most = 0;
    OK(fi_fetch_atomicvalid(b.p.a->ep, FI_UINT64, FI_SUM, &most));
    size_t tried = most < 8000 ? most : 8000;
    uint64_t *operand = buffer((tried + 1) * 8), *result = buffer((tried + 1) * 8), *memory = (uint64_t *)b.memory;
    for (size_t i = 0; i <= tried; i++) {
        operand[i] = i;
        memory[i] = 1000;
    }
    POST(fi_fetch_atomic(b.p.a->ep, operand, tried, NULL, result, NULL, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM, NULL));
    WAIT_TX(b.p.a);
    for (size_t i = 0; i < tried; i++) {
        CHECK_EQ(memory[i], 1000 + i);
        CHECK_EQ(result[i], 1000);
    }
    CHECK_EQ(memory[tried], 1000);
    if (most == tried)
        CHECK_RC(fi_fetch_atomic(b.p.a->ep, operand, most + 1, NULL, result, NULL, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM, NULL), -FI_EMSGSIZE);
    OK(fi_compare_atomicvalid(b.p.a->ep, FI_UINT64, FI_CSWAP, &most));
    if (most < 8000)
        CHECK_RC(fi_compare_atomic(b.p.a->ep, operand, most + 1, NULL, operand, NULL, result, NULL, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_CSWAP, NULL), -FI_EMSGSIZE);
    REFUSED(fi_atomic(b.p.a->ep, operand, 0, NULL, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM, NULL));
}

/* ---- Forms of the calls ------------------------------------------------------------------------------------------------------- */

CASE(forms, 1, "fi_atomicv, atomicmsg, inject_atomic, fetch_atomicv, fetch_atomicmsg, compare_atomicv, compare_atomicmsg: pieces on each side; flags and context as for other operations")
{
    struct bench b = bench_open();
    uint64_t *memory = (uint64_t *)b.memory, operand[4] = {1, 2, 3, 4}, result[4], compare[4];
    struct fid_ep *ep = b.p.a->ep;
    bool many = b.p.a->info->tx_attr->iov_limit >= 2, many_there = b.p.a->info->tx_attr->rma_iov_limit >= 2;
    struct fi_ioc from[2] = {{operand, many ? 3 : 4}, {operand + 3, 1}}, into[2] = {{result, many ? 1 : 4}, {result + 1, 3}}, against[2] = {{compare, many ? 2 : 4}, {compare + 2, 2}};
    struct fi_rma_ioc there[2] = {{b.region.base, many_there ? 2 : 4, b.region.key}, {b.region.base + 80, 2, b.region.key}};
    size_t n = many ? 2 : 1, m = many_there ? 2 : 1;
    uint64_t *second = many_there ? memory + 10 : memory + 2; /* where elements 2 and 3 lie */
    struct fi_msg_atomic msg = {.msg_iov = from, .iov_count = n, .addr = b.p.to_b, .rma_iov = there, .rma_iov_count = m, .datatype = FI_UINT64, .op = FI_SUM, .context = CONTEXT(3)};
#define RESET() (memset(memory, 0, 128), memory[0] = 10, memory[1] = 20, second[0] = 30, second[1] = 40, memset(result, 0, sizeof result))
#define IS(a, b, c, d) (CHECK_EQ(memory[0], a), CHECK_EQ(memory[1], b), CHECK_EQ(second[0], c), CHECK_EQ(second[1], d))
    about("fi_atomicmsg");
    RESET();
    POST(fi_atomicmsg(ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
    struct completion c = WAIT_TX(b.p.a);
    CHECK_PTR(c.context, CONTEXT(3));
    CHECK_FLAGS(c.flags, FI_ATOMIC, FI_MSG | FI_TAGGED);
    IS(11, 22, 33, 44);
    about("fi_fetch_atomicmsg");
    RESET();
    POST(fi_fetch_atomicmsg(ep, &msg, into, NULL, n, FI_COMPLETION));
    CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(3));
    IS(11, 22, 33, 44);
    for (int i = 0; i < 4; i++) CHECK_EQ(result[i], 10 * (i + 1));
    about("fi_compare_atomicmsg");
    size_t most = 0;
    OK(fi_compare_atomicvalid(ep, FI_UINT64, FI_CSWAP, &most));
    RESET();
    msg.op = FI_CSWAP;
    memcpy(compare, (uint64_t[]){10, 0, 30, 0}, sizeof compare);
    if (most >= 4) {
        POST(fi_compare_atomicmsg(ep, &msg, against, NULL, n, into, NULL, n, FI_COMPLETION));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(3));
        IS(1, 20, 3, 40);
        for (int i = 0; i < 4; i++) CHECK_EQ(result[i], 10 * (i + 1));
    } else {
        struct fi_ioc one[3] = {{operand, 1}, {compare, 1}, {result, 1}};
        struct fi_rma_ioc one_there = {b.region.base, 1, b.region.key};
        msg.msg_iov = one;
        msg.rma_iov = &one_there;
        msg.iov_count = msg.rma_iov_count = 1;
        POST(fi_compare_atomicmsg(ep, &msg, &one[1], NULL, 1, &one[2], NULL, 1, FI_COMPLETION));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(3));
        IS(1, 20, 30, 40);
        CHECK_EQ(result[0], 10);
    }
    second = memory + 2;
    about("fi_atomicv");
    RESET();
    POST(fi_atomicv(ep, from, NULL, n, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM, CONTEXT(4)));
    CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(4));
    UNTIL(*(volatile uint64_t *)&memory[3] == 44);
    IS(11, 22, 33, 44);
    about("fi_fetch_atomicv");
    RESET();
    POST(fi_fetch_atomicv(ep, from, NULL, n, into, NULL, n, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_PROD, CONTEXT(5)));
    CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(5));
    IS(10, 40, 90, 160);
    for (int i = 0; i < 4; i++) CHECK_EQ(result[i], 10 * (i + 1));
    about("fi_compare_atomicv");
    RESET();
    if (most >= 4) {
        POST(fi_compare_atomicv(ep, from, NULL, n, against, NULL, n, into, NULL, n, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_CSWAP_NE, CONTEXT(6)));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(6));
        IS(10, 2, 30, 4);
    } else {
        struct fi_ioc one[3] = {{operand, 1}, {compare + 1, 1}, {result, 1}};
        POST(fi_compare_atomicv(ep, one, NULL, 1, &one[1], NULL, 1, &one[2], NULL, 1, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_CSWAP_NE, CONTEXT(6)));
        CHECK_PTR(WAIT_TX(b.p.a).context, CONTEXT(6));
        IS(1, 20, 30, 40);
    }
    about("fi_inject_atomic");
    RESET();
    POST(fi_inject_atomic(ep, operand, 4, b.p.to_b, b.region.base, b.region.key, FI_UINT64, FI_SUM));
    memset(operand, 0, sizeof operand);
    UNTIL(*(volatile uint64_t *)&memory[3] == 44);
    IS(11, 22, 33, 44);
    CHECK_NONE(b.p.a->tx, 3);
}

CASE(selective, 1, "FI_SELECTIVE_COMPLETION: only atomics with FI_COMPLETION write an entry")
{
    struct wants wants = WANTS;
    wants.bind_tx = FI_SELECTIVE_COMPLETION;
    struct pair p = pair_open(wants);
    uint64_t *memory = buffer(8), one = 1, old = 77;
    struct region r = region_over(p.b, memory, 8, ACCESS_ALL);
    POST(fi_atomic(p.a->ep, &one, 1, NULL, p.to_b, r.base, r.key, FI_UINT64, FI_SUM, CONTEXT(1)));
    POST(fi_fetch_atomic(p.a->ep, &one, 1, NULL, &old, NULL, p.to_b, r.base, r.key, FI_UINT64, FI_SUM, CONTEXT(2)));
    struct fi_ioc from = {&one, 1};
    struct fi_rma_ioc there = {r.base, 1, r.key};
    struct fi_msg_atomic msg = {.msg_iov = &from, .iov_count = 1, .addr = p.to_b, .rma_iov = &there, .rma_iov_count = 1, .datatype = FI_UINT64, .op = FI_SUM, .context = CONTEXT(3)};
    POST(fi_atomicmsg(p.a->ep, &msg, 0));
    POST(fi_atomicmsg(p.a->ep, &msg, FI_COMPLETION));
    CHECK_PTR(WAIT_TX(p.a).context, CONTEXT(3));
    UNTIL(*(volatile uint64_t *)memory == 4);
    CHECK_NONE(p.a->tx, 3);
}

CASE(unaligned, 1, "fi_atomic: an element that is not aligned is handled, or refused with an error; nothing beside it changes", .ours = true)
{
    struct bench b = bench_open();
    uint64_t one = 1, old = 0;
    POST(fi_fetch_atomic(b.p.a->ep, &one, 1, NULL, &old, NULL, b.p.to_b, b.region.base + 3, b.region.key, FI_UINT64, FI_SUM, NULL));
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry e = {0};
    long long until = now_ms() + WAIT_MS;
    ssize_t rc;
    while ((rc = fi_cq_read(b.p.a->tx, &entry, 1)) == -FI_EAGAIN && now_ms() < until) progress();
    if (rc == -FI_EAVAIL) CHECK_RC(fi_cq_readerr(b.p.a->tx, &e, 0), 1);
    else CHECK_RC(rc, 1);
    if (rc == 1) CHECK_EQ(b.memory[3], 1);
    CHECK_BYTES(b.memory, 3, 0);
    CHECK_BYTES(b.memory + 4, 16, 0);
}

/* ---- Several processes ---------------------------------------------------------------------------------------------------------- */

CASE(fetch_add_by_four, 4, "fi_fetch_atomic: four processes add to one word at once: the sum is exact, and no two fetch the same")
{
    enum { EACH = 1000 };
    struct side *side = job_open(WANTS);
    uint64_t *word = buffer(16);
    struct region r = region_over(side, word, 16, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    unsigned char *seen = shared();
    for (int i = 0; i < EACH; i++) {
        uint64_t one = 1, old = ~0ull;
        POST(fi_fetch_atomic(side->ep, &one, 1, NULL, &old, NULL, to(0), all[0].base, all[0].key, FI_UINT64, FI_SUM, NULL));
        WAIT_TX(side);
        CHECK(old < 4 * EACH);
        CHECK_EQ(__atomic_fetch_add(&seen[old], 1, __ATOMIC_SEQ_CST), 0);
    }
    barrier();
    if (rank() == 0) CHECK_EQ(*word, 4 * EACH);
}

CASE(adds_of_all_types_by_four, 4, "fi_atomic: four processes add to words of several sizes, integers and reals, with the owner among them")
{
    enum { EACH = 500 };
    struct side *side = job_open(WANTS);
    struct { uint64_t u64; uint32_t u32; uint16_t u16; uint8_t u8; uint8_t pad; float f; double d; } *words = buffer(sizeof *words);
    struct region r = region_over(side, words, sizeof *words, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    const struct { size_t at; enum fi_datatype type; } FIELDS[] = {{offsetof(__typeof__(*words), u64), FI_UINT64}, {offsetof(__typeof__(*words), u32), FI_UINT32}, {offsetof(__typeof__(*words), u16), FI_UINT16},
                                                             {offsetof(__typeof__(*words), u8), FI_UINT8}, {offsetof(__typeof__(*words), f), FI_FLOAT}, {offsetof(__typeof__(*words), d), FI_DOUBLE}};
    static uint64_t one_u = 1;
    static float one_f = 1;
    static double one_d = 1;
    for (int i = 0; i < EACH; i++) {
        size_t f = (size_t)(i + rank()) % COUNT_OF(FIELDS);
        const void *one = FIELDS[f].type == FI_FLOAT ? (void *)&one_f : FIELDS[f].type == FI_DOUBLE ? (void *)&one_d : (void *)&one_u;
        POST(fi_atomic(side->ep, one, 1, NULL, to(3), all[3].base + FIELDS[f].at, all[3].key, FIELDS[f].type, FI_SUM, NULL));
        WAIT_TX(side);
    }
    /* a fetch behind them, so that they are there */
    uint64_t old;
    POST(fi_fetch_atomic(side->ep, NULL, 1, NULL, &old, NULL, to(3), all[3].base, all[3].key, FI_UINT64, FI_ATOMIC_READ, NULL));
    WAIT_TX(side);
    barrier();
    if (rank() != 3) return;
    uint64_t wanted[COUNT_OF(FIELDS)] = {0};
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < EACH; i++) wanted[(size_t)(i + k) % COUNT_OF(FIELDS)]++;
    CHECK_EQ(words->u64, wanted[0]);
    CHECK_EQ(words->u32, wanted[1]);
    CHECK_EQ(words->u16, wanted[2]);
    CHECK_EQ(words->u8, (uint8_t)wanted[3]);
    CHECK_EQ(words->pad, 0);
    CHECK(words->f == (float)wanted[4]);
    CHECK(words->d == (double)wanted[5]);
}

CASE(lock_by_compare_and_swap, 4, "fi_compare_atomic: a lock of four processes by FI_CSWAP guards a counter that is read and written by RMA")
{
    enum { EACH = 50 };
    struct side *side = job_open((struct wants){.caps = FI_MSG | FI_RMA | FI_ATOMIC});
    uint64_t *words = buffer(16); /* lock, counter */
    struct region r = region_over(side, words, 16, ACCESS_ALL), all[4];
    exchange(&r, sizeof r, all);
    uint64_t mine = (uint64_t)rank() + 1, free_value = 0, old, counter;
    for (int i = 0; i < EACH; i++) {
        long long until = now_ms() + 20000;
        do {
            if (now_ms() > until) FAIL("round %d: the lock is never free, held by %llu", i, (unsigned long long)old);
            POST(fi_compare_atomic(side->ep, &mine, 1, NULL, &free_value, NULL, &old, NULL, to(0), all[0].base, all[0].key, FI_UINT64, FI_CSWAP, NULL));
            WAIT_TX(side);
        } while (old != 0);
        POST(fi_read(side->ep, &counter, 8, NULL, to(0), all[0].base + 8, all[0].key, NULL));
        WAIT_TX(side);
        counter++;
        struct iovec iov = {&counter, 8};
        struct fi_rma_iov rma = {all[0].base + 8, 8, all[0].key};
        struct fi_msg_rma msg = {.msg_iov = &iov, .iov_count = 1, .addr = to(0), .rma_iov = &rma, .rma_iov_count = 1};
        POST(fi_writemsg(side->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
        WAIT_TX(side);
        POST(fi_compare_atomic(side->ep, &free_value, 1, NULL, &mine, NULL, &old, NULL, to(0), all[0].base, all[0].key, FI_UINT64, FI_CSWAP, NULL));
        WAIT_TX(side);
        CHECK_EQ(old, mine);
    }
    barrier();
    if (rank() == 0) CHECK_EQ(words[1], 4 * EACH);
}

CASE(target_sleeps, 2, "FI_PROGRESS_AUTO: atomics complete while the target's program calls nothing", .stock = "tcp;ofi_rxm: has no automatic progress here | shm: has no automatic progress here")
{
    struct wants wants = WANTS;
    wants.progress = FI_PROGRESS_AUTO;
    struct side *side = job_open(wants);
    uint64_t *word = buffer(8), one = 1, old = 5;
    struct region r = region_over(side, word, 8, ACCESS_ALL), all[2];
    exchange(&r, sizeof r, all);
    if (rank() == 0)
        for (uint64_t i = 0; i < 100; i++) {
            POST(fi_fetch_atomic(side->ep, &one, 1, NULL, &old, NULL, to(1), all[1].base, all[1].key, FI_UINT64, FI_SUM, NULL));
            WAIT_TX(side);
            CHECK_EQ(old, i);
        }
    barrier_asleep();
}
