/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Collective operations: the supported ones, and every operation with every type against a sequential reduction, to the
 * bit, in 1 to 8 processes. fi_collective(3).
 */
#include "collectives.h"

#include <complex.h>

enum { ELEMENT_MAX = 32, OPS = 10, TYPES = 16 };

static const size_t SIZES[TYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32, 16, 16};

/* ---- The sequential reduction ------------------------------------------------------------------------------------ */

#define INTEGERS(T, U)                                                                                                 \
    do {                                                                                                               \
        T *a = acc;                                                                                                    \
        const T *b = from;                                                                                             \
        for (size_t i = 0; i < n; i++) switch (op) {                                                                   \
            case FI_MIN: a[i] = a[i] < b[i] ? a[i] : b[i]; break;                                                      \
            case FI_MAX: a[i] = a[i] > b[i] ? a[i] : b[i]; break;                                                      \
            case FI_SUM: a[i] = (T)((U)a[i] + (U)b[i]); break;                                                         \
            case FI_PROD: a[i] = (T)((U)a[i] * (U)b[i]); break;                                                        \
            case FI_LOR: a[i] = a[i] || b[i]; break;                                                                   \
            case FI_LAND: a[i] = a[i] && b[i]; break;                                                                  \
            case FI_LXOR: a[i] = !a[i] != !b[i]; break;                                                                \
            case FI_BOR: a[i] = (T)(a[i] | b[i]); break;                                                               \
            case FI_BAND: a[i] = (T)(a[i] & b[i]); break;                                                              \
            case FI_BXOR: a[i] = (T)(a[i] ^ b[i]); break;                                                              \
            default: return false;                                                                                     \
            }                                                                                                          \
        return true;                                                                                                   \
    } while (0)

#define REALS(T)                                                                                                       \
    do {                                                                                                               \
        T *a = acc;                                                                                                    \
        const T *b = from;                                                                                             \
        for (size_t i = 0; i < n; i++) switch (op) {                                                                   \
            case FI_MIN: a[i] = a[i] < b[i] ? a[i] : b[i]; break;                                                      \
            case FI_MAX: a[i] = a[i] > b[i] ? a[i] : b[i]; break;                                                      \
            case FI_SUM: a[i] = a[i] + b[i]; break;                                                                    \
            case FI_PROD: a[i] = a[i] * b[i]; break;                                                                   \
            default: return false;                                                                                     \
            }                                                                                                          \
        return true;                                                                                                   \
    } while (0)

#define COMPLEXES(T)                                                                                                   \
    do {                                                                                                               \
        T *a = acc;                                                                                                    \
        const T *b = from;                                                                                             \
        for (size_t i = 0; i < n; i++) switch (op) {                                                                   \
            case FI_SUM: a[i] = a[i] + b[i]; break;                                                                    \
            case FI_PROD: a[i] = a[i] * b[i]; break;                                                                   \
            default: return false;                                                                                     \
            }                                                                                                          \
        return true;                                                                                                   \
    } while (0)

/* Computes acc = acc op from, for each element. False: the reduction is undefined. */
static bool reduce(enum fi_op op, enum fi_datatype type, void *acc, const void *from, size_t n)
{
    switch (type) {
    case FI_INT8: INTEGERS(int8_t, unsigned);
    case FI_UINT8: INTEGERS(uint8_t, unsigned);
    case FI_INT16: INTEGERS(int16_t, unsigned);
    case FI_UINT16: INTEGERS(uint16_t, unsigned);
    case FI_INT32: INTEGERS(int32_t, uint32_t);
    case FI_UINT32: INTEGERS(uint32_t, uint32_t);
    case FI_INT64: INTEGERS(int64_t, uint64_t);
    case FI_UINT64: INTEGERS(uint64_t, uint64_t);
    case FI_FLOAT: REALS(float);
    case FI_DOUBLE: REALS(double);
    case FI_LONG_DOUBLE: REALS(long double);
    case FI_FLOAT_COMPLEX: COMPLEXES(float complex);
    case FI_DOUBLE_COMPLEX: COMPLEXES(double complex);
    case FI_LONG_DOUBLE_COMPLEX: COMPLEXES(long double complex);
    default: return false;
    }
}

static uint64_t random_word(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Sometimes zero, else a fraction with few digits: sums and products round. */
static double random_real(uint64_t *state)
{
    uint64_t word = random_word(state);
    return word % 5 == 0 ? 0 : (double)(int64_t)(word >> 20 & 0xffff) / 3000 - 9;
}

static void fill(enum fi_datatype type, void *to, size_t n, uint64_t seed)
{
    uint64_t state = seed;
    memset(to, 0, n * SIZES[type]);
    for (size_t i = 0; i < n; i++) {
        switch (type) {
        case FI_FLOAT: ((float *)to)[i] = (float)random_real(&state); break;
        case FI_DOUBLE: ((double *)to)[i] = random_real(&state); break;
        case FI_LONG_DOUBLE: ((long double *)to)[i] = random_real(&state); break;
        case FI_FLOAT_COMPLEX: ((float complex *)to)[i] = (float)random_real(&state) + (float)random_real(&state) * I; break;
        case FI_DOUBLE_COMPLEX: ((double complex *)to)[i] = random_real(&state) + random_real(&state) * I; break;
        case FI_LONG_DOUBLE_COMPLEX: ((long double complex *)to)[i] = random_real(&state) + random_real(&state) * I; break;
        default: {
            unsigned char *bytes = (unsigned char *)to + i * SIZES[type];
            uint64_t word = random_word(&state);
            for (size_t b = 0; b < SIZES[type]; b++) bytes[b] = word % 6 == 0 ? 0 : (unsigned char)(word >> (b * 7 % 56));
        }
        }
    }
}

/* Compares to the bit. Of a long double ten bytes count; the six behind them are padding. */
static bool are_equal(enum fi_datatype type, const void *a, const void *b, size_t n)
{
    if (type != FI_LONG_DOUBLE && type != FI_LONG_DOUBLE_COMPLEX) return memcmp(a, b, n * SIZES[type]) == 0;
    for (size_t at = 0; at < n * SIZES[type]; at += 16)
        if (memcmp((const char *)a + at, (const char *)b + at, 10) != 0) return false;
    return true;
}

static bool is_supported(struct side *side, enum fi_collective_op what, enum fi_op op, enum fi_datatype type)
{
    struct fi_collective_attr attr = {.op = op, .datatype = type};
    int rc = fi_query_collective(side->domain, what, &attr, 0);
    if (rc == -FI_EOPNOTSUPP) return false;
    OK(rc);
    if (type != FI_VOID) {
        CHECK_EQ(attr.datatype_attr.size, SIZES[type]);
        CHECK_OP(attr.datatype_attr.count, >=, 1 << 20);
    }
    CHECK_OP(attr.max_members, >=, RANKS_MAX);
    return true;
}

/* ---- Supported operations ---------------------------------------------------------------------------------------- */

CASE(query, 1,
     "fi_query_collective: barrier, the collectives that move any type, and those that reduce as fi_atomic defines; "
     "their sizes and limits; all others are -FI_EOPNOTSUPP",
     POSSIBLE)
{
    static const enum fi_collective_op MOVES[] = {FI_BROADCAST, FI_ALLGATHER, FI_SCATTER, FI_GATHER};
    static const enum fi_collective_op REDUCES[] = {FI_ALLREDUCE, FI_REDUCE, FI_REDUCE_SCATTER};
    struct side *side = side_open(WANTS);
    CHECK(is_supported(side, FI_BARRIER, FI_NOOP, FI_VOID));
    CHECK(!is_supported(side, FI_BARRIER, FI_NOOP, FI_INT8));
    CHECK(!is_supported(side, FI_ALLTOALL, FI_NOOP, FI_INT8));
    for (int type = 0; type < TYPES; type++) {
        for (size_t m = 0; m < COUNT_OF(MOVES); m++) CHECK(is_supported(side, MOVES[m], FI_NOOP, type));
        for (int op = 0; op < OPS; op++) {
            char acc[ELEMENT_MAX] = {0}, from[ELEMENT_MAX] = {0};
            for (size_t r = 0; r < COUNT_OF(REDUCES); r++) {
                about("type %d op %d", type, op);
                CHECK_EQ(is_supported(side, REDUCES[r], op, type), reduce(op, type, acc, from, 1));
            }
        }
        CHECK(!is_supported(side, FI_ALLREDUCE, FI_ATOMIC_READ, type));
        CHECK(!is_supported(side, FI_ALLREDUCE, FI_ATOMIC_WRITE, type));
        CHECK(!is_supported(side, FI_ALLREDUCE, FI_NOOP, type));
        CHECK(!is_supported(side, FI_ALLREDUCE, FI_CSWAP, type));
    }
    CHECK(!is_supported(side, FI_BROADCAST, FI_NOOP, FI_VOID));
    CHECK(!is_supported(side, FI_ALLREDUCE, FI_SUM, FI_VOID));
    struct fi_collective_attr attr = {.op = FI_SUM, .datatype = FI_INT32, .mode = 1};
    CHECK_RC(fi_query_collective(side->domain, FI_ALLREDUCE, &attr, 0), -FI_EINVAL);
    CHECK_RC(fi_query_collective(side->domain, FI_ALLREDUCE, NULL, 0), -FI_EINVAL);
    attr.mode = 0;
    CHECK_RC(fi_query_collective(side->domain, FI_ALLREDUCE, &attr, 1ull << 50), -FI_EBADFLAGS);
    CHECK_RC(fi_query_collective(side->domain, 77, &attr, 0), -FI_EOPNOTSUPP);
}

CASE(capability, 1, "fi_getinfo: FI_COLLECTIVE is granted on request, also alone, and not otherwise", POSSIBLE)
{
    struct fi_info *info = info_for((struct wants){.caps = FI_COLLECTIVE});
    if (info == NULL) FAIL("FI_COLLECTIVE alone is refused");
    CHECK_FLAGS(info->caps, FI_COLLECTIVE | FI_SEND | FI_RECV, FI_MSG | FI_TAGGED | FI_RMA);
    CHECK_FLAGS(info->tx_attr->caps, FI_COLLECTIVE, 0);
    fi_freeinfo(info);
    info = info_for((struct wants){.caps = FI_MSG});
    CHECK_FLAGS(info->caps, FI_MSG, FI_COLLECTIVE);
    fi_freeinfo(info);
}

/* ---- Every operation with every type ----------------------------------------------------------------------------- */

static void reductions(struct side *side, fi_addr_t group, enum fi_op op, enum fi_datatype type, size_t n, uint64_t seed)
{
    size_t bytes = n * SIZES[type];
    int root = (int)(seed % (uint64_t)ranks());
    about("op %d type %d count %zu root %d", op, type, n, root);
    char *from = buffer(bytes * (size_t)ranks()), *result = buffer(bytes), *want = buffer(bytes * (size_t)ranks());
    char *other = buffer(bytes * (size_t)ranks());
    fill(type, want, n * (size_t)ranks(), seed);
    for (int r = 1; r < ranks(); r++) {
        fill(type, other, n * (size_t)ranks(), seed + (uint64_t)r * 1000);
        CHECK(reduce(op, type, want, other, n * (size_t)ranks()));
    }
    fill(type, from, n * (size_t)ranks(), seed + (uint64_t)rank() * 1000);
    DO(side, fi_allreduce(side->ep, from, n, NULL, result, NULL, group, type, op, 0, CONTEXT(9)));
    CHECK(are_equal(type, result, want, n));
    memset(result, 0x5a, bytes);
    void *to_root = rank() == root ? result : NULL;
    DO(side, fi_reduce(side->ep, from, n, NULL, to_root, NULL, group, to(root), type, op, 0, CONTEXT(9)));
    if (rank() == root) CHECK(are_equal(type, result, want, n));
    DO(side, fi_reduce_scatter(side->ep, from, n, NULL, result, NULL, group, type, op, 0, CONTEXT(9)));
    CHECK(are_equal(type, result, want + bytes * (size_t)rank(), n));
    DO(side, fi_allreduce(side->ep, from, n, NULL, from, NULL, group, type, op, 0, CONTEXT(9)));
    CHECK(are_equal(type, from, want, n));
}

static void moves(struct side *side, fi_addr_t group, enum fi_datatype type, size_t n, uint64_t seed)
{
    size_t bytes = n * SIZES[type], all = bytes * (size_t)ranks();
    int root = (int)(seed % (uint64_t)ranks());
    about("type %d count %zu root %d", type, n, root);
    char *from = buffer(all), *result = buffer(all), *want = buffer(all), *own = buffer(bytes);
    fill(type, want, n * (size_t)ranks(), seed);
    memcpy(own, want + (size_t)rank() * bytes, bytes);
    if (rank() == root) memcpy(from, want, all);
    DO(side, fi_broadcast(side->ep, from, n * (size_t)ranks(), NULL, group, to(root), type, 0, CONTEXT(9)));
    CHECK(memcmp(from, want, all) == 0);
    DO(side, fi_allgather(side->ep, own, n, NULL, result, NULL, group, type, 0, CONTEXT(9)));
    CHECK(memcmp(result, want, all) == 0);
    memset(result, 0x5a, all);
    const void *at_root = rank() == root ? from : NULL;
    DO(side, fi_scatter(side->ep, at_root, n, NULL, result, NULL, group, to(root), type, 0, CONTEXT(9)));
    CHECK(memcmp(result, own, bytes) == 0);
    for (size_t i = bytes; i < all; i++) CHECK_EQ(result[i], 0x5a);
    void *to_root = rank() == root ? result : NULL;
    memset(result, 0x5a, all);
    DO(side, fi_gather(side->ep, own, n, NULL, to_root, NULL, group, to(root), type, 0, CONTEXT(9)));
    if (rank() == root) CHECK(memcmp(result, want, all) == 0);
}

static void everything(void)
{
    /* Many processes on few cores are slow. */
    static const size_t FEW[] = {1, 3, 7, 130, 2100}, MANY[] = {3, 700};
    const size_t *counts = ranks() < 5 ? FEW : MANY, lengths = ranks() < 5 ? COUNT_OF(FEW) : COUNT_OF(MANY);
    struct side *side = job_open(WANTS);
    struct fid_mc *mc = group_of_all(side);
    fi_addr_t group = fi_mc_addr(mc);
    uint64_t seed = 1;
    int reduced = 0;
    for (int type = 0; type < TYPES; type++)
        for (size_t c = 0; c < lengths; c++) {
            moves(side, group, type, counts[c], ++seed);
            for (int op = 0; op < OPS; op++) {
                if (!is_supported(side, FI_ALLREDUCE, op, type)) continue;
                reductions(side, group, op, type, counts[c], ++seed);
                reduced++;
            }
            DO(side, fi_barrier(side->ep, group, CONTEXT(9)));
        }
    CHECK_EQ(reduced, lengths * (8 * 10 + 3 * 4 + 3 * 2));
    OK(fi_close(&mc->fid));
}

#define RULE "every collective with every type and operation, short and long: the sequential reduction, to the bit"

CASE(everything_in_1, 1, RULE, POSSIBLE) { everything(); }
CASE(everything_in_2, 2, RULE, POSSIBLE) { everything(); }
CASE(everything_in_3, 3, RULE, POSSIBLE) { everything(); }
CASE(everything_in_4, 4, RULE, POSSIBLE) { everything(); }
CASE(everything_in_5, 5, RULE, POSSIBLE) { everything(); }
CASE(everything_in_6, 6, RULE, POSSIBLE) { everything(); }
CASE(everything_in_7, 7, RULE, POSSIBLE) { everything(); }
CASE(everything_in_8, 8, RULE, POSSIBLE) { everything(); }

CASE(long_vectors, 3, "vectors of megabytes are reduced, scattered and gathered", POSSIBLE)
{
    struct side *side = job_open(WANTS);
    struct fid_mc *mc = group_of_all(side);
    for (uint64_t seed = 0; seed < 3; seed++) {
        reductions(side, fi_mc_addr(mc), FI_SUM, FI_DOUBLE, 300001, seed);
        moves(side, fi_mc_addr(mc), FI_UINT16, 700001, seed);
    }
    OK(fi_close(&mc->fid));
}
