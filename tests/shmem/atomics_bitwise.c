/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Atomic and, or, xor, with and without a fetch of the old value, blocking and nonblocking, under every name. OpenSHMEM
 * 1.6, "Atomic Memory Operations", the bitwise types.
 */
#include "suite.h"
#include "types.h"

typedef uint64_t bitwise_fn(void *dest, uint64_t value, int pe); /* 0 from the forms that fetch nothing */

enum { AND, OR, XOR, OPERATIONS };
static const char *const operation_names[] = {"and", "or", "xor"};

struct bitwise_verbs {
    const char *name;
    size_t bytes;
    bitwise_fn *fetch[OPERATIONS], *plain[OPERATIONS];
};

#define FETCHED_BY(TYPE, CALL) \
    TYPE fetched = 0;          \
    CALL;                      \
    shmem_quiet();             \
    return (uint64_t)fetched

#define BITWISE_THUNKS(NAME, TYPE, OP)                                                                                \
    static uint64_t fetch_##OP##_##NAME(void *d, uint64_t v, int pe)                                                  \
    {                                                                                                                 \
        return (uint64_t)shmem_##NAME##_atomic_fetch_##OP(d, (TYPE)v, pe);                                            \
    }                                                                                                                 \
    static uint64_t OP##_##NAME(void *d, uint64_t v, int pe) { return shmem_##NAME##_atomic_##OP(d, (TYPE)v, pe), 0; } \
    static uint64_t ctx_fetch_##OP##_##NAME(void *d, uint64_t v, int pe)                                              \
    {                                                                                                                 \
        return (uint64_t)shmem_ctx_##NAME##_atomic_fetch_##OP(SHMEM_CTX_DEFAULT, d, (TYPE)v, pe);                     \
    }                                                                                                                 \
    static uint64_t ctx_##OP##_##NAME(void *d, uint64_t v, int pe)                                                    \
    {                                                                                                                 \
        return shmem_ctx_##NAME##_atomic_##OP(SHMEM_CTX_DEFAULT, d, (TYPE)v, pe), 0;                                  \
    }
#define ALL_THUNKS(NAME, TYPE)       \
    BITWISE_THUNKS(NAME, TYPE, and)  \
    BITWISE_THUNKS(NAME, TYPE, or)   \
    BITWISE_THUNKS(NAME, TYPE, xor)
AMO_BITWISE_TYPES(ALL_THUNKS)

#if SINCE(1, 5)
#define BITWISE_NBI_THUNKS(NAME, TYPE, OP)                                                                         \
    static uint64_t fetch_##OP##_nbi_##NAME(void *d, uint64_t v, int pe)                                           \
    {                                                                                                              \
        FETCHED_BY(TYPE, shmem_##NAME##_atomic_fetch_##OP##_nbi(&fetched, d, (TYPE)v, pe));                        \
    }                                                                                                              \
    static uint64_t ctx_fetch_##OP##_nbi_##NAME(void *d, uint64_t v, int pe)                                       \
    {                                                                                                              \
        FETCHED_BY(TYPE, shmem_ctx_##NAME##_atomic_fetch_##OP##_nbi(SHMEM_CTX_DEFAULT, &fetched, d, (TYPE)v, pe)); \
    }
#define ALL_NBI_THUNKS(NAME, TYPE)       \
    BITWISE_NBI_THUNKS(NAME, TYPE, and)  \
    BITWISE_NBI_THUNKS(NAME, TYPE, or)   \
    BITWISE_NBI_THUNKS(NAME, TYPE, xor)
AMO_BITWISE_TYPES(ALL_NBI_THUNKS)
#define NBI_ROWS(NAME, TYPE)                                                                                       \
    {#NAME " nbi", sizeof(TYPE), {fetch_and_nbi_##NAME, fetch_or_nbi_##NAME, fetch_xor_nbi_##NAME},                \
     {and_##NAME, or_##NAME, xor_##NAME}},                                                                         \
    {#NAME " ctx nbi", sizeof(TYPE), {ctx_fetch_and_nbi_##NAME, ctx_fetch_or_nbi_##NAME, ctx_fetch_xor_nbi_##NAME}, \
     {ctx_and_##NAME, ctx_or_##NAME, ctx_xor_##NAME}},
#else
#define NBI_ROWS(NAME, TYPE)
#endif

#define ROWS_OF_TYPE(NAME, TYPE)                                                                                      \
    {#NAME, sizeof(TYPE), {fetch_and_##NAME, fetch_or_##NAME, fetch_xor_##NAME}, {and_##NAME, or_##NAME, xor_##NAME}}, \
    {#NAME " ctx", sizeof(TYPE), {ctx_fetch_and_##NAME, ctx_fetch_or_##NAME, ctx_fetch_xor_##NAME},                   \
     {ctx_and_##NAME, ctx_or_##NAME, ctx_xor_##NAME}},                                                                \
    NBI_ROWS(NAME, TYPE)
static const struct bitwise_verbs rows[] = {AMO_BITWISE_TYPES(ROWS_OF_TYPE)};
enum { ROWS = sizeof rows / sizeof rows[0], ROOM = 16 };

static uint64_t expected(int operation, uint64_t a, uint64_t b)
{
    return operation == AND ? a & b : operation == OR ? a | b : a ^ b;
}

static uint64_t low(uint64_t value, size_t bytes) { return bytes == 8 ? value : value & 0xffffffff; }

static uint64_t read_word(const void *at, size_t bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, bytes);
    return value;
}

/* Each word is followed by zeros up to 8 bytes and a guard of eight. */
static unsigned char *words_new(uint64_t value)
{
    unsigned char *words = symmetric(ROWS * ROOM);
    for (int i = 0; i < ROWS; i++) {
        memcpy(words + i * ROOM, &value, rows[i].bytes);
        memset(words + i * ROOM + 8, 0xdd, 8);
    }
    barrier();
    return words;
}

static void check_neighbours(const unsigned char *words, int row)
{
    CHECK_BYTES(words + row * ROOM + rows[row].bytes, 8 - rows[row].bytes, 0);
    CHECK_BYTES(words + row * ROOM + 8, 8, 0xdd);
}

static const uint64_t operands[] = {0x0f0f0f0f0f0f0f0f, ~0ull, 0x8000000080000000, 0x123456789abcdef0, 1, 0xfffffffefffffffe, 0};
enum { OPERANDS = sizeof operands / sizeof operands[0] };

static void try_operation(int operation)
{
    const uint64_t start = 0xa5a5a5a55a5a5a5a;
    unsigned char *words = words_new(start);
    for (int row = 0; row < ROWS; row++) {
        const struct bitwise_verbs *v = &rows[row];
        void *word = words + row * ROOM;
        about("%s %s", v->name, operation_names[operation]);
        uint64_t now = start;
        for (int i = 0; i < OPERANDS; i++) {
            CHECK_EQ(low(v->fetch[operation](word, operands[i], next_pe()), v->bytes), low(now, v->bytes));
            now = expected(operation, now, operands[i]);
            /* A new value in each round, so that and, or do not end at once in all zeros or all ones. */
            now = expected(XOR, now, operands[i] >> 7 ^ start);
            v->plain[XOR](word, operands[i] >> 7 ^ start, next_pe());
            v->plain[operation](word, operands[i] << 9, next_pe());
            now = expected(operation, now, operands[i] << 9);
            shmem_quiet();
        }
        CHECK_EQ(low(v->fetch[XOR](word, 0, next_pe()), v->bytes), low(now, v->bytes));
    }
    barrier();
    for (int row = 0; row < ROWS; row++) check_neighbours(words, row);
}

DATA_CASE(and_clears_bits, 2,
          "and, fetch_and: clear the bits that the value lacks; the old value is returned (shmem_atomic_fetch_and)")
{
    try_operation(AND);
}

DATA_CASE(or_sets_bits, 2, "or, fetch_or: set the bits of the value; the old value is returned (shmem_atomic_fetch_or)")
{
    try_operation(OR);
}

DATA_CASE(xor_turns_bits, 2,
          "xor, fetch_xor: flip the bits of the value; the old value is returned (shmem_atomic_fetch_xor)")
{
    try_operation(XOR);
}

DATA_CASE(each_its_bit, 4,
          "or, and, xor: PEs that each change a bit of one object do not undo each other's (Atomicity Guarantees)",
          .crowded = 9)
{
    enum { ROUNDS = 20 };
    unsigned char *words = words_new(0);
    for (int round = 0; round < ROUNDS; round++)
        for (int row = 0; row < ROWS; row++) {
            const struct bitwise_verbs *v = &rows[row];
            void *word = words + row * ROOM;
            uint64_t bit = 1ull << (me() + (v->bytes == 8 && row % 2 ? 40 : 0));
            about("%s, round %d", v->name, round);
            if (round % 4 == 0) {
                v->plain[OR](word, bit, 0);
                shmem_quiet();
            } else if (round % 4 == 1) {
                CHECK(v->fetch[AND](word, ~bit, 0) & bit);
            } else if (round % 4 == 2) {
                CHECK(!(v->fetch[OR](word, bit, 0) & bit));
            } else {
                CHECK(v->fetch[XOR](word, bit, 0) & bit);
            }
        }
    /* Each round of four set, cleared, set, and cleared the bit. One more set, and all bits are set. */
    for (int row = 0; row < ROWS; row++) rows[row].plain[XOR](words + row * ROOM, 1ull << me(), 0);
    barrier();
    for (int row = 0; me() == 0 && row < ROWS; row++) {
        CHECK_EQ(read_word(words + row * ROOM, rows[row].bytes), (1ull << n_pes()) - 1);
        check_neighbours(words, row);
    }
}

DATA_CASE(bitwise_of_oneself, 2, "bitwise atomics: the named PE may be the caller (shmem_atomic_xor)")
{
    unsigned char *words = words_new(0x3c);
    for (int row = 0; row < ROWS; row++) {
        void *word = words + row * ROOM;
        about("%s", rows[row].name);
        CHECK_EQ(rows[row].fetch[AND](word, 0x0f, me()), 0x3c);
        CHECK_EQ(rows[row].fetch[OR](word, 0x30, me()), 0x0c);
        CHECK_EQ(rows[row].fetch[XOR](word, 0xff, me()), 0x3c);
        rows[row].plain[AND](word, 0xf0, me());
        rows[row].plain[OR](word, 0x01, me());
        rows[row].plain[XOR](word, 0x03, me());
        shmem_quiet();
        CHECK_EQ(read_word(word, rows[row].bytes), 0xc2);
    }
}

DATA_CASE(operations_mixed, 3, "different atomics on one object are atomic with one another (Atomicity Guarantees)")
{
    enum { TEST_MS = 20 }; /* by time: the PEs then overlap, whatever an operation costs */
    uint64_t *word = symmetric(sizeof *word), *made = symmetric(3 * sizeof *made), rounds = 0;
    uint64_t high = 1ull << (56 + me());
    for (long long end = now_ms() + TEST_MS; now_ms() < end; rounds++) {
        shmem_uint64_atomic_add(word, 1, 0);
        CHECK(!(shmem_uint64_atomic_fetch_or(word, high, 0) & high));
        shmem_uint64_atomic_inc(word, 0);
        CHECK(shmem_uint64_atomic_fetch_and(word, ~high, 0) & high);
    }
    shmem_uint64_p(made + me(), rounds, 0);
    barrier();
    if (me() == 0) CHECK_EQ(*word, 2 * (made[0] + made[1] + made[2]));
}
