/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Every atomic operation on every type that the provider grants, compared with the result computed here. The provider
 * refuses the others. fi_atomic(3).
 */
#include "atomics.h"

#include <complex.h>

enum { ELEMENT_MAX = 32, ELEMENTS = 6 };

typedef float complex float_complex;
typedef double complex double_complex;
typedef long double long_double;
typedef long double complex long_double_complex;

/* ---- The same, computed here ------------------------------------------------------------------------------------- */

/* Computes one element: writes the target's new value to `target`. False: the operation has no meaning for the type. */
typedef bool compute_fn(enum fi_op op, void *target, const void *operand, const void *compare);

#define COMMON_CASES(T)                                                                                                \
    case FI_SUM: t = (T)(t + o); break;                                                                                \
    case FI_PROD: t = (T)(t * o); break;                                                                               \
    case FI_LOR: t = (T)(t != 0 || o != 0); break;                                                                     \
    case FI_LAND: t = (T)(t != 0 && o != 0); break;                                                                    \
    case FI_LXOR: t = (T)((t != 0) != (o != 0)); break;                                                                \
    case FI_ATOMIC_READ: break;                                                                                        \
    case FI_ATOMIC_WRITE: t = o; break;                                                                                \
    case FI_CSWAP:                                                                                                     \
        if (c == t) t = o;                                                                                             \
        break;                                                                                                         \
    case FI_CSWAP_NE:                                                                                                  \
        if (c != t) t = o;                                                                                             \
        break;

#define ORDERED_CASES                                                                                                  \
    case FI_MIN:                                                                                                       \
        if (o < t) t = o;                                                                                              \
        break;                                                                                                         \
    case FI_MAX:                                                                                                       \
        if (o > t) t = o;                                                                                              \
        break;                                                                                                         \
    case FI_CSWAP_LE:                                                                                                  \
        if (c <= t) t = o;                                                                                             \
        break;                                                                                                         \
    case FI_CSWAP_LT:                                                                                                  \
        if (c < t) t = o;                                                                                              \
        break;                                                                                                         \
    case FI_CSWAP_GE:                                                                                                  \
        if (c >= t) t = o;                                                                                             \
        break;                                                                                                         \
    case FI_CSWAP_GT:                                                                                                  \
        if (c > t) t = o;                                                                                              \
        break;

#define INTEGER_CASES(T)                                                                                               \
    case FI_BOR: t = (T)(t | o); break;                                                                                \
    case FI_BAND: t = (T)(t & o); break;                                                                               \
    case FI_BXOR: t = (T)(t ^ o); break;                                                                               \
    case FI_MSWAP: t = (T)((o & c) | (t & ~c)); break;

#define COMPUTE(T, ...)                                                                                                \
    static bool compute_##T(enum fi_op op, void *target, const void *operand, const void *compare)                     \
    {                                                                                                                  \
        T t, o, c;                                                                                                     \
        memcpy(&t, target, sizeof t);                                                                                  \
        memcpy(&o, operand, sizeof o);                                                                                 \
        memcpy(&c, compare, sizeof c);                                                                                 \
        switch ((int)op) {                                                                                             \
            __VA_ARGS__                                                                                                \
        default: return false;                                                                                         \
        }                                                                                                              \
        memcpy(target, &t, sizeof t);                                                                                  \
        return true;                                                                                                   \
    }

#define COMPUTE_INTEGER(T) COMPUTE(T, COMMON_CASES(T) ORDERED_CASES INTEGER_CASES(T))
#define COMPUTE_REAL(T) COMPUTE(T, COMMON_CASES(T) ORDERED_CASES)
#define COMPUTE_COMPLEX(T) COMPUTE(T, COMMON_CASES(T))

/* Multiplies signed integers as unsigned ones, whose overflow is defined. */
#define COMPUTE_SIGNED(T, U)                                                                                           \
    static bool compute_##T(enum fi_op op, void *target, const void *operand, const void *compare)                     \
    {                                                                                                                  \
        T t, o, c;                                                                                                     \
        memcpy(&t, target, sizeof t);                                                                                  \
        memcpy(&o, operand, sizeof o);                                                                                 \
        memcpy(&c, compare, sizeof c);                                                                                 \
        switch ((int)op) {                                                                                             \
            ORDERED_CASES                                                                                              \
        default: return compute_##U(op, target, operand, compare);                                                     \
        }                                                                                                              \
        memcpy(target, &t, sizeof t);                                                                                  \
        return true;                                                                                                   \
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
    size_t part; /* the bytes of a complex number or a long double that hold its value */
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
    {"long double complex", FI_LONG_DOUBLE_COMPLEX, sizeof(long_double_complex), compute_long_double_complex, COMPLEX,
     10},
    {"int128", FI_INT128, 16, compute_int128_t, INTEGER, 16},
    {"uint128", FI_UINT128, 16, compute_uint128_t, INTEGER, 16},
};

static const struct {
    const char *name;
    enum fi_op op;
} OPS[] = {{"MIN", FI_MIN},
           {"MAX", FI_MAX},
           {"SUM", FI_SUM},
           {"PROD", FI_PROD},
           {"LOR", FI_LOR},
           {"LAND", FI_LAND},
           {"BOR", FI_BOR},
           {"BAND", FI_BAND},
           {"LXOR", FI_LXOR},
           {"BXOR", FI_BXOR},
           {"ATOMIC_READ", FI_ATOMIC_READ},
           {"ATOMIC_WRITE", FI_ATOMIC_WRITE},
           {"CSWAP", FI_CSWAP},
           {"CSWAP_NE", FI_CSWAP_NE},
           {"CSWAP_LE", FI_CSWAP_LE},
           {"CSWAP_LT", FI_CSWAP_LT},
           {"CSWAP_GE", FI_CSWAP_GE},
           {"CSWAP_GT", FI_CSWAP_GT},
           {"MSWAP", FI_MSWAP}};

static bool is_comparing(enum fi_op op) { return op >= FI_CSWAP && op <= FI_MSWAP; }

/* Values that are often equal, and the extremes. */
static void set_value(const struct type *t, void *at, uint64_t *state)
{
    static const int SMALL[] = {0, 1, 2, 3, -1, -2, 100};
    int small = SMALL[random_next(state) % COUNT_OF(SMALL)];
    uint64_t wide = random_next(state);
    unsigned char bytes[ELEMENT_MAX] = {0};
    if (t->kind == INTEGER) {
        if (wide % 3) memset(bytes, small < 0 ? 0xff : 0, sizeof bytes), *(int8_t *)bytes = (int8_t)small;
        else
            for (size_t i = 0; i < t->bytes; i++) bytes[i] = (unsigned char)random_next(state);
    } else {
        double real = small + (wide % 4) * 0.25, imaginary = (double)(wide / 8 % 5) - 2;
        if (t->datatype == FI_FLOAT) *(float *)bytes = (float)real;
        if (t->datatype == FI_DOUBLE) *(double *)bytes = real;
        if (t->datatype == FI_LONG_DOUBLE) *(long double *)bytes = real;
        if (t->kind == COMPLEX && t->datatype == FI_FLOAT_COMPLEX) {
            ((float *)bytes)[0] = (float)real;
            ((float *)bytes)[1] = (float)imaginary;
        }
        if (t->kind == COMPLEX && t->datatype == FI_DOUBLE_COMPLEX) {
            ((double *)bytes)[0] = real;
            ((double *)bytes)[1] = imaginary;
        }
        if (t->datatype == FI_LONG_DOUBLE_COMPLEX) {
            ((long double *)bytes)[0] = real;
            ((long double *)bytes)[1] = imaginary;
        }
    }
    memcpy(at, bytes, t->bytes);
}

/* The padding of a long double has no meaning. */
static bool same(const struct type *t, const void *a, const void *b)
{
    if (t->part == t->bytes) return memcmp(a, b, t->bytes) == 0;
    if (t->kind == REAL) return memcmp(a, b, t->part) == 0;
    return memcmp(a, b, t->part) == 0 && memcmp((char *)a + t->bytes / 2, (char *)b + t->bytes / 2, t->part) == 0;
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */

enum call { BASE, FETCH, COMPARE };

static int valid(struct fid_ep *ep, enum call call, enum fi_datatype type, enum fi_op op, size_t *count)
{
    if (call == BASE) return fi_atomicvalid(ep, type, op, count);
    if (call == FETCH) return fi_fetch_atomicvalid(ep, type, op, count);
    return fi_compare_atomicvalid(ep, type, op, count);
}

static void try_one(struct setup *b, enum call call, const struct type *t, enum fi_op op, const char *op_name,
                    uint64_t *state)
{
    char target[ELEMENTS * ELEMENT_MAX], operand[ELEMENTS * ELEMENT_MAX], compare[ELEMENTS * ELEMENT_MAX],
        result[ELEMENTS * ELEMENT_MAX], wanted[ELEMENTS * ELEMENT_MAX];
    size_t most = 0;
    OK(valid(b->p.a->ep, call, t->datatype, op, &most));
    CHECK_OP(most, >=, 1);
    size_t count = 1 + random_next(state) % (most < ELEMENTS ? most : ELEMENTS);
    for (size_t i = 0; i < count; i++) {
        set_value(t, target + i * t->bytes, state);
        set_value(t, operand + i * t->bytes, state);
        set_value(t, compare + i * t->bytes, state);
        if (random_next(state) % 2) memcpy(compare + i * t->bytes, target + i * t->bytes, t->bytes);
        memcpy(wanted + i * t->bytes, target + i * t->bytes, t->bytes);
        about("%s of %s, call %d, element %zu of %zu", op_name, t->name, call, i, count);
        if (!t->compute(op, wanted + i * t->bytes, operand + i * t->bytes, compare + i * t->bytes))
            return; /* granted, but without meaning */
    }
    memset(b->memory, 0xee, 1024);
    memcpy(b->memory + 64, target, count * t->bytes);
    memset(result, 0x5a, sizeof result);
    struct fid_ep *ep = b->p.a->ep;
    uint64_t at = b->region.base + 64, key = b->region.key;
    const void *from = op == FI_ATOMIC_READ ? NULL : operand;
    if (call == BASE) POST(fi_atomic(ep, from, count, NULL, b->p.to_b, at, key, t->datatype, op, CONTEXT(1)));
    if (call == FETCH)
        POST(fi_fetch_atomic(ep, from, count, NULL, result, NULL, b->p.to_b, at, key, t->datatype, op, CONTEXT(1)));
    if (call == COMPARE)
        POST(fi_compare_atomic(ep, operand, count, NULL, compare, NULL, result, NULL, b->p.to_b, at, key, t->datatype,
                               op, CONTEXT(1)));
    struct completion c = WAIT_TX(b->p.a);
    CHECK_PTR(c.context, CONTEXT(1));
    if (call == BASE) { /* the result is in place when a later read completes */
        char probe[8];
        POST(fi_fetch_atomic(ep, NULL, 1, NULL, probe, NULL, b->p.to_b, b->region.base, key, FI_UINT64, FI_ATOMIC_READ,
                             CONTEXT(2)));
        CHECK_PTR(WAIT_TX(b->p.a).context, CONTEXT(2));
    }
    for (size_t i = 0; i < count; i++) {
        about("%s of %s, call %d, element %zu of %zu", op_name, t->name, call, i, count);
        if (!same(t, b->memory + 64 + i * t->bytes, wanted + i * t->bytes)) {
            char text[6][2 * ELEMENT_MAX + 1];
            const char *const values[] = {target, operand, compare, b->memory + 64, wanted, result};
            for (int v = 0; v < 6; v++)
                for (size_t k = 0; k < t->bytes; k++)
                    sprintf(text[v] + 2 * k, "%02x", (unsigned char)values[v][i * t->bytes + k]);
            FAIL("target %s operand %s compare %s: became %s, wanted %s (result %s; bytes as they lie)", text[0],
                 text[1], text[2], text[3], text[4], text[5]);
        }
        if (call != BASE && !same(t, result + i * t->bytes, target + i * t->bytes))
            FAIL("the result is not the old value");
    }
    CHECK_BYTES(b->memory + 64 + count * t->bytes, 64, 0xee);
    CHECK_BYTES(b->memory, 64, 0xee);
}

static void try_all(enum call call, int rounds)
{
    struct setup b = setup_open();
    uint64_t state = 271828;
    int granted = 0;
    for (size_t t = 0; t < COUNT_OF(TYPES); t++)
        for (size_t o = 0; o < COUNT_OF(OPS); o++) {
            size_t count = 0;
            about("%s of %s, call %d", OPS[o].name, TYPES[t].name, call);
            if (valid(b.p.a->ep, call, TYPES[t].datatype, OPS[o].op, &count) != 0) continue;
            if (call != COMPARE && is_comparing(OPS[o].op)) FAIL("granted, though it needs a comparand");
            if (call == COMPARE && !is_comparing(OPS[o].op)) FAIL("granted, though it takes no comparand");
            if (call == BASE && OPS[o].op == FI_ATOMIC_READ) continue; /* a read without a result has no effect */
            granted++;
            for (int i = 0; i < rounds; i++) try_one(&b, call, &TYPES[t], OPS[o].op, OPS[o].name, &state);
        }
    CHECK_OP(granted, >, 0);
}

CASE(base, 1,
     "fi_atomic: every operation and type that fi_atomicvalid grants has the result of C; adjacent elements stay",
     .stock = "sockets: an atomic without a result hangs now and then")
{
    try_all(BASE, 12);
}

CASE(fetching, 1, "fi_fetch_atomic: every granted operation and type; the result is the old value",
     .stock = "sockets: an atomic hangs now and then")
{
    try_all(FETCH, 12);
}

CASE(comparing, 1,
     "fi_compare_atomic: every granted operation and type; swaps where the manual says so; the result is the old value")
{
    try_all(COMPARE, 20);
}

CASE(granted_by_ours, 1,
     "contract: all operations on integers of 8 to 64 bits, the meaningful ones on reals and complex numbers",
     .needs = OUR_PROVIDER)
{
    struct setup b = setup_open();
    for (size_t t = 0; t < COUNT_OF(TYPES); t++)
        for (size_t o = 0; o < COUNT_OF(OPS); o++) {
            char element[3][ELEMENT_MAX] = {{0}};
            size_t count = 0;
            enum fi_op op = OPS[o].op;
            bool meaningful = TYPES[t].compute(op, element[0], element[1], element[2]);
            about("%s of %s", OPS[o].name, TYPES[t].name);
            if (!meaningful) {
                for (enum call call = BASE; call <= COMPARE; call++)
                    REFUSED(valid(b.p.a->ep, call, TYPES[t].datatype, op, &count));
                continue;
            }
            if (TYPES[t].kind == INTEGER && TYPES[t].bytes > 8) continue; /* the provider may choose */
            if (TYPES[t].kind != INTEGER && (op == FI_LOR || op == FI_LAND || op == FI_LXOR))
                continue; /* the provider may choose */
            if (is_comparing(op)) {
                OK(valid(b.p.a->ep, COMPARE, TYPES[t].datatype, op, &count));
            } else {
                if (op != FI_ATOMIC_READ) OK(valid(b.p.a->ep, BASE, TYPES[t].datatype, op, &count));
                OK(valid(b.p.a->ep, FETCH, TYPES[t].datatype, op, &count));
            }
            CHECK_OP(count, >=, 1);
        }
}

CASE(refused, 1,
     "fi_atomicvalid: the calls refuse everything that it refuses with -FI_EOPNOTSUPP, and unknown types and "
     "operations",
     .stock = "tcp;ofi_rxm: -FI_EAGAIN until there is a connection | shm: -FI_EAGAIN until there is a connection | "
              "sockets: -FI_EINVAL")
{
    struct setup b = setup_open();
    char operand[64] = {0}, compare[64] = {0}, result[64];
    struct fid_ep *ep = b.p.a->ep;
    for (size_t t = 0; t < COUNT_OF(TYPES); t++)
        for (size_t o = 0; o < COUNT_OF(OPS); o++) {
            size_t count = 0;
            enum fi_datatype type = TYPES[t].datatype;
            enum fi_op op = OPS[o].op;
            about("%s of %s", OPS[o].name, TYPES[t].name);
            if (fi_atomicvalid(ep, type, op, &count) != 0) {
                CHECK_RC(fi_atomic(ep, operand, 1, NULL, b.p.to_b, b.region.base, b.region.key, type, op, NULL),
                         -FI_EOPNOTSUPP);
                CHECK_RC(fi_inject_atomic(ep, operand, 1, b.p.to_b, b.region.base, b.region.key, type, op),
                         -FI_EOPNOTSUPP);
            }
            if (fi_fetch_atomicvalid(ep, type, op, &count) != 0)
                CHECK_RC(fi_fetch_atomic(ep, operand, 1, NULL, result, NULL, b.p.to_b, b.region.base, b.region.key,
                                         type, op, NULL),
                         -FI_EOPNOTSUPP);
            if (fi_compare_atomicvalid(ep, type, op, &count) != 0)
                CHECK_RC(fi_compare_atomic(ep, operand, 1, NULL, compare, NULL, result, NULL, b.p.to_b, b.region.base,
                                           b.region.key, type, op, NULL),
                         -FI_EOPNOTSUPP);
        }
    size_t count;
    REFUSED(fi_atomicvalid(ep, (enum fi_datatype)99, FI_SUM, &count));
    REFUSED(fi_atomicvalid(ep, FI_UINT64, (enum fi_op)99, &count));
    REFUSED(fi_atomic(ep, operand, 1, NULL, b.p.to_b, b.region.base, b.region.key, (enum fi_datatype)99, FI_SUM, NULL));
    REFUSED(fi_atomic(ep, operand, 1, NULL, b.p.to_b, b.region.base, b.region.key, FI_UINT64, (enum fi_op)99, NULL));
    CHECK_NONE(b.p.a->tx, 3);
}

CASE(query, 1,
     "fi_query_atomic: returns the same as the valid calls, with the size of the type; refuses FI_FETCH_ATOMIC with "
     "FI_COMPARE_ATOMIC")
{
    struct setup b = setup_open();
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
