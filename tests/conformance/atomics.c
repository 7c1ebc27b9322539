/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Atomic operations: PtlAtomic, PtlFetchAtomic, PtlSwap, PtlAtomicSync. Portals 4.3, "Atomic Operations".
 *
 * The cases compare every result with C's for the same operands. Operands are small and exact in every type, so that
 * nothing is rounded, except where the rule is about overflow.
 */
#include "suite.h"

#include <complex.h>

enum { PT = 7, BITS = 0x99, ITEM_MAX = 32, ITEMS = 4, SLOT = ITEM_MAX * ITEMS, TYPES = PTL_DATATYPE_LAST };

typedef union {
    unsigned char raw[ITEM_MAX];
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    float f;
    double d;
    long double ld;
    float complex fc;
    double complex dc;
    long double complex ldc;
} item;

static const size_t item_bytes[TYPES] = {
    [PTL_INT8_T] = 1,
    [PTL_UINT8_T] = 1,
    [PTL_INT16_T] = 2,
    [PTL_UINT16_T] = 2,
    [PTL_INT32_T] = 4,
    [PTL_UINT32_T] = 4,
    [PTL_INT64_T] = 8,
    [PTL_UINT64_T] = 8,
    [PTL_FLOAT] = sizeof(float),
    [PTL_DOUBLE] = sizeof(double),
    [PTL_FLOAT_COMPLEX] = sizeof(float complex),
    [PTL_DOUBLE_COMPLEX] = sizeof(double complex),
    [PTL_LONG_DOUBLE] = sizeof(long double),
    [PTL_LONG_DOUBLE_COMPLEX] = sizeof(long double complex),
};

static bool is_complex(int type)
{
    return type == PTL_FLOAT_COMPLEX || type == PTL_DOUBLE_COMPLEX || type == PTL_LONG_DOUBLE_COMPLEX;
}

static bool is_integer(int type)
{
    return !is_complex(type) && type != PTL_FLOAT && type != PTL_DOUBLE && type != PTL_LONG_DOUBLE;
}

/* Operations that a type supports: no comparisons for complex numbers, logic and masks for integers only. */
static bool is_allowed(int op, int type)
{
    switch (op) {
    case PTL_SUM:
    case PTL_PROD:
    case PTL_SWAP:
    case PTL_CSWAP:
    case PTL_CSWAP_NE:
        return true;
    case PTL_MIN:
    case PTL_MAX:
    case PTL_CSWAP_LE:
    case PTL_CSWAP_LT:
    case PTL_CSWAP_GE:
    case PTL_CSWAP_GT:
        return !is_complex(type);
    default:
        return is_integer(type);
    }
}

/* Runs `with(member)` for the member of `item` that has the type. */
#define FOR_INTEGERS(with)                                                                        \
    case PTL_INT8_T: with(i8) break;                                                              \
    case PTL_UINT8_T: with(u8) break;                                                             \
    case PTL_INT16_T: with(i16) break;                                                            \
    case PTL_UINT16_T: with(u16) break;                                                           \
    case PTL_INT32_T: with(i32) break;                                                            \
    case PTL_UINT32_T: with(u32) break;                                                           \
    case PTL_INT64_T: with(i64) break;                                                            \
    case PTL_UINT64_T: with(u64) break;
#define FOR_REALS(with)                                                                           \
    case PTL_FLOAT: with(f) break;                                                                \
    case PTL_DOUBLE: with(d) break;                                                               \
    case PTL_LONG_DOUBLE: with(ld) break;
#define FOR_COMPLEX(with)                                                                         \
    case PTL_FLOAT_COMPLEX: with(fc) break;                                                       \
    case PTL_DOUBLE_COMPLEX: with(dc) break;                                                      \
    case PTL_LONG_DOUBLE_COMPLEX: with(ldc) break;

static item item_of(int type, int re, int im)
{
    item out = {{0}};
#define FROM_INT(m) out.m = re;
#define FROM_HALVES(m) out.m = re / 2.0L;
#define FROM_COMPLEX(m) out.m = re / 2.0L + im / 4.0L * I;
    switch (type) {
        FOR_INTEGERS(FROM_INT)
        FOR_REALS(FROM_HALVES)
        FOR_COMPLEX(FROM_COMPLEX)
    }
    return out;
}

static bool item_equal(int type, const void *a_at, const void *b_at)
{
    item a = {{0}}, b = {{0}};
    memcpy(&a, a_at, item_bytes[type]);
    memcpy(&b, b_at, item_bytes[type]);
    bool equal = false;
#define COMPARE(m) equal = a.m == b.m;
    switch (type) {
        FOR_INTEGERS(COMPARE)
        FOR_REALS(COMPARE)
        FOR_COMPLEX(COMPARE)
    }
    return equal;
}

/* Returns the value at the target after `op` with the initiator's item. */
static item arithmetic(int op, int type, item target, item initiator)
{
    item out = target;
#define SUM_OF(m) out.m = target.m + initiator.m;
/* 1u: C would multiply narrow unsigned items as int, which can overflow. */
#define PRODUCT_OF(m) out.m = 1u * target.m * initiator.m;
#define LESSER_OF(m) out.m = initiator.m < target.m ? initiator.m : target.m;
#define GREATER_OF(m) out.m = initiator.m > target.m ? initiator.m : target.m;
#define LOR_OF(m) out.m = target.m || initiator.m;
#define LAND_OF(m) out.m = target.m && initiator.m;
#define LXOR_OF(m) out.m = !target.m != !initiator.m;
#define BOR_OF(m) out.m = target.m | initiator.m;
#define BAND_OF(m) out.m = target.m & initiator.m;
#define BXOR_OF(m) out.m = target.m ^ initiator.m;
    switch (op) {
    case PTL_SUM: switch (type) { FOR_INTEGERS(SUM_OF) FOR_REALS(SUM_OF) FOR_COMPLEX(SUM_OF) } break;
    case PTL_PROD: switch (type) { FOR_INTEGERS(PRODUCT_OF) FOR_REALS(PRODUCT_OF) FOR_COMPLEX(PRODUCT_OF) } break;
    case PTL_MIN: switch (type) { FOR_INTEGERS(LESSER_OF) FOR_REALS(LESSER_OF) } break;
    case PTL_MAX: switch (type) { FOR_INTEGERS(GREATER_OF) FOR_REALS(GREATER_OF) } break;
    case PTL_LOR: switch (type) { FOR_INTEGERS(LOR_OF) } break;
    case PTL_LAND: switch (type) { FOR_INTEGERS(LAND_OF) } break;
    case PTL_LXOR: switch (type) { FOR_INTEGERS(LXOR_OF) } break;
    case PTL_BOR: switch (type) { FOR_INTEGERS(BOR_OF) } break;
    case PTL_BAND: switch (type) { FOR_INTEGERS(BAND_OF) } break;
    case PTL_BXOR: switch (type) { FOR_INTEGERS(BXOR_OF) } break;
    }
    return out;
}

/* Returns the value at the target after a swap. The condition compares the operand, on the left, with the target. */
static item swapped(int op, int type, item target, item initiator, item operand)
{
    bool swaps = op == PTL_SWAP;
    item out = target;
#define EQUAL_TO(m) swaps = operand.m == target.m;
#define NOT_EQUAL_TO(m) swaps = operand.m != target.m;
#define AT_MOST(m) swaps = operand.m <= target.m;
#define LESS_THAN(m) swaps = operand.m < target.m;
#define AT_LEAST(m) swaps = operand.m >= target.m;
#define MORE_THAN(m) swaps = operand.m > target.m;
#define MASKED(m) out.m = (target.m & ~operand.m) | (initiator.m & operand.m);
    switch (op) {
    case PTL_CSWAP: switch (type) { FOR_INTEGERS(EQUAL_TO) FOR_REALS(EQUAL_TO) FOR_COMPLEX(EQUAL_TO) } break;
    case PTL_CSWAP_NE:
        switch (type) { FOR_INTEGERS(NOT_EQUAL_TO) FOR_REALS(NOT_EQUAL_TO) FOR_COMPLEX(NOT_EQUAL_TO) }
        break;
    case PTL_CSWAP_LE: switch (type) { FOR_INTEGERS(AT_MOST) FOR_REALS(AT_MOST) } break;
    case PTL_CSWAP_LT: switch (type) { FOR_INTEGERS(LESS_THAN) FOR_REALS(LESS_THAN) } break;
    case PTL_CSWAP_GE: switch (type) { FOR_INTEGERS(AT_LEAST) FOR_REALS(AT_LEAST) } break;
    case PTL_CSWAP_GT: switch (type) { FOR_INTEGERS(MORE_THAN) FOR_REALS(MORE_THAN) } break;
    case PTL_MSWAP: switch (type) { FOR_INTEGERS(MASKED) } break;
    }
    return swaps ? initiator : out;
}

/* ---- The machinery of the cases ------------------------------------------------------------------------- */

/* Operand values that meet every condition: signs, zeros, equal and unequal, all bits. */
static const int values[][2] = {{3, -2}, {-5, 7}, {0, 1}, {6, 0}, {-1, -1}, {2, 9}, {0, 0}, {7, 3}};
enum { VALUES = sizeof values / sizeof *values };

static item value_at(int type, unsigned i)
{
    return item_of(type, values[i % VALUES][0], values[i % VALUES][1]);
}

struct side {
    unsigned char *exposed; /* the memory of the entry at PT */
    unsigned char *out, *back;
    ptl_handle_md_t md_out, md_back;
    ptl_handle_ct_t ct; /* acknowledgements and replies */
    ptl_size_t done;
};

static struct side open_side(size_t bytes, unsigned without)
{
    struct side s = {.exposed = buffer(bytes), .out = buffer(bytes), .back = buffer(bytes), .ct = ct_new()};
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(s.exposed, bytes, BITS);
    me.options &= ~without;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    unsigned options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY;
    s.md_out = md_new(s.out, bytes, options, PTL_EQ_NONE, s.ct);
    s.md_back = md_new(s.back, bytes, options, PTL_EQ_NONE, s.ct);
    return s;
}

static int atomic_to(struct side *s, int to, size_t bytes, int op, int type)
{
    return PtlAtomic(s->md_out, 0, bytes, PTL_CT_ACK_REQ, peer(to), PT, BITS, 0, NULL, 0, (ptl_op_t)op,
                     (ptl_datatype_t)type);
}

static int fetch_from(struct side *s, int to, size_t bytes, int op, int type)
{
    return PtlFetchAtomic(s->md_back, 0, s->md_out, 0, bytes, peer(to), PT, BITS, 0, NULL, 0, (ptl_op_t)op,
                          (ptl_datatype_t)type);
}

static int swap_with(struct side *s, int to, size_t bytes, const void *operand, int op, int type)
{
    return PtlSwap(s->md_back, 0, s->md_out, 0, bytes, peer(to), PT, BITS, 0, NULL, 0, operand, (ptl_op_t)op,
                   (ptl_datatype_t)type);
}

/* Sets the target's memory with a put, so that one process alone runs the case. */
static void place(struct side *s, const void *data, size_t bytes)
{
    memcpy(s->out, data, bytes);
    OK(PtlPut(s->md_out, 0, bytes, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
    expect_ct(s->ct, ++s->done, 0);
}

static void look(struct side *s, size_t bytes)
{
    OK(PtlGet(s->md_back, 0, bytes, peer(1), PT, BITS, 0, NULL));
    expect_ct(s->ct, ++s->done, 0);
}

static void check_item(int op, int type, const char *what, const void *found, const item *wanted)
{
    if (!item_equal(type, found, wanted))
        FAIL("operation %d of type %d: %s differs from C's result", op, type, what);
}

/* ---- Results -------------------------------------------------------------------------------------------- */

static void check_arithmetic(bool fetches)
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    for (int op = PTL_MIN; rank() == 0 && op <= PTL_BXOR; op++) {
        for (int type = 0; type < TYPES; type++) {
            for (unsigned v = 0; is_allowed(op, type) && v < VALUES; v++) {
                size_t width = item_bytes[type], bytes = width * ITEMS;
                unsigned char before[SLOT], mine[SLOT];
                for (unsigned i = 0; i < ITEMS; i++) {
                    item target = value_at(type, v + i), initiator = value_at(type, 3 * v + 5 * i + 1);
                    memcpy(before + i * width, &target, width);
                    memcpy(mine + i * width, &initiator, width);
                }
                place(&s, before, bytes);
                memcpy(s.out, mine, bytes);
                if (fetches) {
                    memset(s.back, 0xee, bytes);
                    OK(fetch_from(&s, 1, bytes, op, type));
                } else {
                    OK(atomic_to(&s, 1, bytes, op, type));
                }
                expect_ct(s.ct, ++s.done, 0);
                for (unsigned i = 0; fetches && i < ITEMS; i++) {
                    item wanted = value_at(type, v + i);
                    check_item(op, type, "the value returned", s.back + i * width, &wanted);
                }
                look(&s, bytes);
                for (unsigned i = 0; i < ITEMS; i++) {
                    item wanted = arithmetic(op, type, value_at(type, v + i), value_at(type, 3 * v + 5 * i + 1));
                    check_item(op, type, "the target", s.back + i * width, &wanted);
                }
            }
        }
    }
    barrier();
}

CASE(atomic_of_every_operation_and_type, 2, "PtlAtomic leaves at the target what C computes, for all allowed pairs")
{
    check_arithmetic(false);
}

CASE(fetch_of_every_operation_and_type, 2, "PtlFetchAtomic does the same and returns the old value")
{
    check_arithmetic(true);
}

CASE(swap_of_every_operation_and_type, 2,
     "PtlSwap swaps where its condition holds, or under its mask, and always returns the target's value")
{
    enum { PAIRS = 5 };
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    for (int op = PTL_SWAP; rank() == 0 && op <= PTL_MSWAP; op++) {
        for (int type = 0; type < TYPES; type++) {
            for (unsigned v = 0; is_allowed(op, type) && v < PAIRS * PAIRS; v++) {
                item target = value_at(type, v / PAIRS), operand = value_at(type, v % PAIRS);
                item initiator = value_at(type, v / PAIRS + 3), wanted = swapped(op, type, target, initiator, operand);
                size_t width = item_bytes[type];
                place(&s, &target, width);
                memcpy(s.out, &initiator, width);
                memset(s.back, 0xee, width);
                OK(swap_with(&s, 1, width, &operand, op, type));
                memset(&operand, 0xee, sizeof operand); /* the operand travelled in the message */
                expect_ct(s.ct, ++s.done, 0);
                check_item(op, type, "the value returned", s.back, &target);
                look(&s, width);
                check_item(op, type, "the target", s.back, &wanted);
            }
        }
    }
    barrier();
}

CASE(swap_of_many_items, 2, "PTL_SWAP takes several items; its operand is ignored and may be NULL")
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    if (rank() == 0) {
        unsigned char before[SLOT];
        pattern_fill(before, SLOT, 4);
        place(&s, before, SLOT);
        pattern_fill(s.out, SLOT, 5);
        OK(swap_with(&s, 1, SLOT, NULL, PTL_SWAP, PTL_UINT16_T));
        expect_ct(s.ct, ++s.done, 0);
        CHECK_PATTERN(s.back, SLOT, 4);
        look(&s, SLOT);
        CHECK_PATTERN(s.back, SLOT, 5);
    }
    barrier();
}

CASE(integers_wrap_and_keep_their_sign, 2, "sums wrap; minima and maxima compare signed or unsigned, as the type is")
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    for (int type = 0; rank() == 0 && type < TYPES; type++) {
        if (!is_integer(type))
            continue;
        bool is_signed = type == PTL_INT8_T || type == PTL_INT16_T || type == PTL_INT32_T || type == PTL_INT64_T;
        size_t width = item_bytes[type];
        uint64_t ones = ~(uint64_t)0, one = 1;
        place(&s, &ones, width); /* -1, or the largest */
        memcpy(s.out, &one, width);
        OK(fetch_from(&s, 1, width, PTL_MIN, type));
        expect_ct(s.ct, ++s.done, 0);
        look(&s, width);
        CHECK_SAME(s.back, is_signed ? &ones : &one, width);
        place(&s, &ones, width);
        memcpy(s.out, &one, width);
        OK(atomic_to(&s, 1, width, PTL_MAX, type));
        expect_ct(s.ct, ++s.done, 0);
        look(&s, width);
        CHECK_SAME(s.back, is_signed ? &one : &ones, width);
        place(&s, &ones, width);
        memcpy(s.out, &one, width);
        OK(atomic_to(&s, 1, width, PTL_SUM, type));
        expect_ct(s.ct, ++s.done, 0);
        look(&s, width);
        CHECK_BYTES(s.back, width, 0);
    }
    barrier();
}

/* ---- Refused calls -------------------------------------------------------------------------------------- */

CASE(pairs_without_meaning_are_refused, 1, "operations that a type does not support are invalid in all three calls")
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    item operand = {{0}};
    for (int op = 0; op < PTL_OP_LAST; op++) {
        for (int type = 0; type < TYPES; type++) {
            if (is_allowed(op, type))
                continue;
            size_t width = item_bytes[type];
            if (op < PTL_SWAP) {
                CHECK_EQ(atomic_to(&s, 0, width, op, type), PTL_ARG_INVALID);
                CHECK_EQ(fetch_from(&s, 0, width, op, type), PTL_ARG_INVALID);
            } else {
                CHECK_EQ(swap_with(&s, 0, width, &operand, op, type), PTL_ARG_INVALID);
            }
        }
    }
    CHECK_BYTES(s.exposed, SLOT, 0);
}

CASE(calls_keep_to_their_operations, 1, "swaps are for PtlSwap only, and PtlSwap takes nothing else")
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    item operand = {{0}};
    for (int op = 0; op < PTL_OP_LAST; op++) {
        if (op < PTL_SWAP) {
            CHECK_EQ(swap_with(&s, 0, 8, &operand, op, PTL_INT64_T), PTL_ARG_INVALID);
        } else {
            CHECK_EQ(atomic_to(&s, 0, 8, op, PTL_INT64_T), PTL_ARG_INVALID);
            CHECK_EQ(fetch_from(&s, 0, 8, op, PTL_INT64_T), PTL_ARG_INVALID);
        }
    }
    for (int bad = PTL_OP_LAST; bad < 256; bad += 59) {
        CHECK_EQ(atomic_to(&s, 0, 8, bad, PTL_INT64_T), PTL_ARG_INVALID);
        CHECK_EQ(fetch_from(&s, 0, 8, bad, PTL_INT64_T), PTL_ARG_INVALID);
        CHECK_EQ(swap_with(&s, 0, 8, &operand, bad, PTL_INT64_T), PTL_ARG_INVALID);
        CHECK_EQ(atomic_to(&s, 0, 8, PTL_SUM, bad), PTL_ARG_INVALID);
        CHECK_EQ(fetch_from(&s, 0, 8, PTL_SUM, bad), PTL_ARG_INVALID);
        CHECK_EQ(swap_with(&s, 0, 8, &operand, PTL_CSWAP, bad), PTL_ARG_INVALID);
    }
}

CASE(conditional_swaps_take_one_item, 1, "conditional and masked swaps longer than one item are refused")
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    item operand[2] = {{{0}}, {{0}}};
    for (int op = PTL_CSWAP; op <= PTL_MSWAP; op++) {
        CHECK_EQ(swap_with(&s, 0, 16, operand, op, PTL_INT64_T), PTL_ARG_INVALID);
        OK(swap_with(&s, 0, 8, operand, op, PTL_INT64_T));
        expect_ct(s.ct, ++s.done, 0);
    }
}

CASE(atomic_sizes_are_limited, 1, "lengths up to max_atomic_size and max_fetch_atomic_size work, longer are refused")
{
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    CHECK_OP(granted.max_atomic_size, >=, 8);
    CHECK_OP(granted.max_fetch_atomic_size, >=, 8);
    size_t atomic_max = granted.max_atomic_size, fetch_max = granted.max_fetch_atomic_size;
    CHECK_OP(atomic_max, <=, 1 << 24);
    CHECK_OP(fetch_max, <=, 1 << 24);
    size_t bytes = (atomic_max > fetch_max ? atomic_max : fetch_max) + 8;
    struct side s = open_side(bytes, 0);
    memset(s.out, 1, bytes);
    CHECK_EQ(atomic_to(&s, 0, atomic_max / 8 * 8 + 8, PTL_SUM, PTL_UINT64_T), PTL_ARG_INVALID);
    CHECK_EQ(fetch_from(&s, 0, fetch_max / 8 * 8 + 8, PTL_SUM, PTL_UINT64_T), PTL_ARG_INVALID);
    CHECK_EQ(swap_with(&s, 0, fetch_max / 8 * 8 + 8, NULL, PTL_SWAP, PTL_UINT64_T), PTL_ARG_INVALID);
    CHECK_BYTES(s.exposed, bytes, 0);
    OK(atomic_to(&s, 0, atomic_max / 8 * 8, PTL_SUM, PTL_UINT64_T));
    expect_ct(s.ct, ++s.done, 0);
    CHECK_BYTES(s.exposed, atomic_max / 8 * 8, 1);
    OK(fetch_from(&s, 0, fetch_max / 8 * 8, PTL_BXOR, PTL_UINT64_T));
    expect_ct(s.ct, ++s.done, 0);
    CHECK_BYTES(s.exposed, fetch_max / 8 * 8 < atomic_max ? fetch_max / 8 * 8 : atomic_max / 8 * 8, 0);
}

/* Expects one failure and nothing else, and clears it: a failure that stays ends every later wait. */
static void expect_failure_counted(ptl_handle_ct_t ct)
{
    expect_ct(ct, 0, 1);
    OK(PtlCTSet(ct, (ptl_ct_event_t){0, 0}));
}

CASE(permissions_of_the_entry, 2, "an atomic needs OP_PUT at its target, a fetching one OP_GET as well")
{
    ni_matching();
    struct side s = open_side(SLOT, PTL_ME_OP_GET);
    ptl_me_t readable = me_over(s.exposed, SLOT, BITS + 1);
    readable.options &= ~(unsigned)PTL_ME_OP_PUT;
    me_append(PT, &readable, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        s.out[0] = 1;
        OK(atomic_to(&s, 1, 8, PTL_SUM, PTL_INT64_T));
        expect_ct(s.ct, 1, 0);
        OK(PtlCTSet(s.ct, (ptl_ct_event_t){0, 0}));
        OK(fetch_from(&s, 1, 8, PTL_SUM, PTL_INT64_T));
        expect_failure_counted(s.ct);
        OK(PtlAtomic(s.md_out, 0, 8, PTL_CT_ACK_REQ, peer(1), PT, BITS + 1, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
        expect_failure_counted(s.ct);
        OK(PtlFetchAtomic(s.md_back, 0, s.md_out, 0, 8, peer(1), PT, BITS + 1, 0, NULL, 0, PTL_SUM, PTL_INT64_T));
        expect_failure_counted(s.ct);
    }
    barrier();
    if (rank() == 1)
        CHECK_EQ(s.exposed[0], 1);
}

CASE(atomic_stops_at_the_end_of_the_entry, 2, "an atomic that runs over the entry's end works on the items that fit")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    uint64_t *memory = buffer(64);
    pt_at(PT, eq, 0);
    ptl_me_t me = me_over(memory, 24, BITS);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        uint64_t *local = buffer(64);
        for (int i = 0; i < 8; i++)
            local[i] = 5;
        ptl_handle_md_t md = md_new(local, 64, 0, eq, PTL_CT_NONE);
        OK(PtlAtomic(md, 0, 64, PTL_ACK_REQ, peer(1), PT, BITS, 8, NULL, 0, PTL_SUM, PTL_UINT64_T));
        CHECK_EQ(expect_send_ack(eq).mlength, 16);
    } else {
        CHECK_EQ(expect_event(eq, PTL_EVENT_ATOMIC).mlength, 16);
        CHECK_EQ(memory[0], 0);
        CHECK_EQ(memory[1], 5);
        CHECK_EQ(memory[2], 5);
        CHECK_EQ(memory[3], 0);
    }
    barrier();
}

CASE(operands_gather_from_vectors, 2, "the operands of an atomic may lie in a vector, items across its elements")
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    if (rank() == 0) {
        uint32_t wanted[8];
        unsigned char *pieces = buffer(256);
        ptl_iovec_t *vector = buffer(3 * sizeof *vector);
        vector[0] = (ptl_iovec_t){.iov_base = pieces + 100, .iov_len = 5};
        vector[1] = (ptl_iovec_t){.iov_base = pieces + 33, .iov_len = 14};
        vector[2] = (ptl_iovec_t){.iov_base = pieces + 3, .iov_len = 13};
        pattern_fill(wanted, sizeof wanted, 77);
        memcpy(pieces + 100, wanted, 5);
        memcpy(pieces + 33, (char *)wanted + 5, 14);
        memcpy(pieces + 3, (char *)wanted + 19, 13);
        ptl_handle_md_t md = md_new(vector, 3, PTL_IOVEC | PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, s.ct);
        OK(PtlAtomic(md, 0, 32, PTL_CT_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0, PTL_BXOR, PTL_UINT32_T));
        expect_ct(s.ct, ++s.done, 0);
        look(&s, 32);
        CHECK_PATTERN(s.back, 32, 77);
    }
    barrier();
}

/* ---- Atomicity ------------------------------------------------------------------------------------------ */

/* Every rank adds 1 to each of four items at process 0, `count` times. */
static void add_ones(struct side *s, int count, int type)
{
    size_t width = item_bytes[type];
    item one = item_of(type, is_integer(type) ? 1 : 2, 0);
    for (int i = 0; i < ITEMS; i++)
        memcpy(s->out + (size_t)i * width, &one, width);
    for (int i = 0; i < count; i++) {
        OK(atomic_to(s, 0, ITEMS * width, PTL_SUM, type));
        s->done++;
        if (i % 64 == 63)
            wait_ct(s->ct, s->done);
    }
    expect_ct(s->ct, s->done, 0);
}

static void check_sums(ptl_datatype_t type, int count)
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    add_ones(&s, count, type);
    barrier();
    OK(PtlAtomicSync());
    for (size_t i = 0; rank() == 0 && i < ITEMS; i++) {
        item wanted = item_of(type, count * ranks() * (is_integer(type) ? 1 : 2), 0);
        check_item(PTL_SUM, type, "the total", s.exposed + i * item_bytes[type], &wanted);
    }
    barrier();
}

CASE(sums_of_eight_processes, 8, "concurrent sums of eight processes, the target's own among them, lose nothing")
{
    check_sums(PTL_INT64_T, 1000);
}

CASE(narrow_sums_of_four_processes, 4, "concurrent sums of 16-bit items do not disturb their neighbours")
{
    check_sums(PTL_UINT16_T, 1500);
}

CASE(complex_sums_of_four_processes, 4, "concurrent sums of 32-byte items are atomic too")
{
    check_sums(PTL_LONG_DOUBLE_COMPLEX, 1000);
}

CASE(tickets_are_unique, 6, "concurrent fetching sums return every value once")
{
    enum { EACH = 500 };
    ni_matching();
    struct side s = open_side(SLOT, 0);
    uint64_t *mine = calloc(EACH, sizeof *mine), *all = calloc(EACH * 6, sizeof *all);
    barrier();
    *(uint64_t *)s.out = 1;
    for (ptl_size_t i = 0; i < EACH; i++) {
        OK(fetch_from(&s, 0, 8, PTL_SUM, PTL_UINT64_T));
        expect_ct(s.ct, i + 1, 0);
        mine[i] = *(uint64_t *)s.back;
        if (i > 0) CHECK_OP(mine[i], >, mine[i - 1]);
    }
    exchange(mine, EACH * sizeof *mine, all);
    unsigned char seen[EACH * 6] = {0};
    for (int i = 0; i < EACH * 6; i++) {
        CHECK_OP(all[i], <, EACH * 6);
        CHECK_EQ(seen[all[i]]++, 0);
    }
    free(mine);
    free(all);
}

CASE(compare_and_swap_excludes, 4, "a lock made of compare-and-swap admits one process at a time")
{
    enum { EACH = 60 };
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    for (int turn = 0; turn < EACH; turn++) {
        uint64_t empty = 0, me = (uint64_t)rank() + 1, value;
        do { /* take the lock at offset 0 */
            memcpy(s.out, &me, 8);
            OK(swap_with(&s, 0, 8, &empty, PTL_CSWAP, PTL_UINT64_T));
            expect_ct(s.ct, ++s.done, 0);
            memcpy(&value, s.back, 8);
        } while (value != 0);
        /* Only the lock holder reads and writes the value at offset 64, in two steps. */
        OK(PtlGet(s.md_back, 64, 8, peer(0), PT, BITS, 64, NULL));
        expect_ct(s.ct, ++s.done, 0);
        memcpy(&value, s.back + 64, 8);
        value++;
        memcpy(s.out + 64, &value, 8);
        OK(PtlPut(s.md_out, 64, 8, PTL_CT_ACK_REQ, peer(0), PT, BITS, 64, NULL, 0));
        expect_ct(s.ct, ++s.done, 0);
        memcpy(s.out, &empty, 8);
        OK(swap_with(&s, 0, 8, &me, PTL_CSWAP, PTL_UINT64_T));
        expect_ct(s.ct, ++s.done, 0);
        memcpy(&value, s.back, 8);
        CHECK_EQ(value, me);
    }
    barrier();
    if (rank() == 0)
        CHECK_EQ(*(uint64_t *)(s.exposed + 64), 4 * EACH);
}

CASE(masked_swaps_keep_other_bits, 8, "concurrent masked swaps of different bits of one word do not disturb each other")
{
    enum { EACH = 300 };
    ni_matching();
    struct side s = open_side(SLOT, 0);
    uint64_t mask = (uint64_t)0xff << (8 * rank()), last = 0;
    barrier();
    for (uint64_t i = 1; i <= EACH; i++) {
        uint64_t value = ((i * 7 + (uint64_t)rank()) & 0xff) * 0x0101010101010101u, found;
        memcpy(s.out, &value, 8);
        OK(swap_with(&s, 0, 8, &mask, PTL_MSWAP, PTL_UINT64_T));
        expect_ct(s.ct, i, 0);
        memcpy(&found, s.back, 8);
        CHECK_EQ(found & mask, last);
        last = value & mask;
    }
    barrier();
    if (rank() == 0)
        for (uint64_t i = 0; i < 8; i++)
            CHECK_EQ(s.exposed[i], (EACH * 7 + i) & 0xff);
}

CASE(different_operations_are_atomic_together, 4, "sums and fetching sums of the same type on the same item mix")
{
    enum { EACH = 600 };
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    *(uint64_t *)s.out = 1;
    for (ptl_size_t i = 1; i <= EACH; i++) {
        OK((i + (ptl_size_t)rank()) % 2 ? atomic_to(&s, 0, 8, PTL_SUM, PTL_UINT64_T)
                                        : fetch_from(&s, 0, 8, PTL_SUM, PTL_UINT64_T));
        if (i % 32 == 0)
            wait_ct(s.ct, i);
    }
    expect_ct(s.ct, EACH, 0);
    barrier();
    if (rank() == 0)
        CHECK_EQ(*(uint64_t *)s.exposed, 4 * EACH);
}

CASE(sync_lets_the_host_modify, 2,
     "after PtlAtomicSync the target may modify the items of atomics, and later atomics see the change")
{
    ni_matching();
    struct side s = open_side(SLOT, 0);
    barrier();
    for (uint64_t round = 0; round < 50; round++) {
        if (rank() == 0) {
            *(uint64_t *)s.out = 3;
            OK(atomic_to(&s, 1, 8, PTL_SUM, PTL_UINT64_T));
            expect_ct(s.ct, round + 1, 0);
        }
        barrier();
        if (rank() == 1) {
            OK(PtlAtomicSync());
            CHECK_EQ(*(uint64_t *)s.exposed, round * 1000 + 3);
            *(uint64_t *)s.exposed = (round + 1) * 1000;
        }
        barrier();
    }
}
