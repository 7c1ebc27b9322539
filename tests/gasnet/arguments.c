/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Every category with every number of arguments: requests, and replies to them. */
#include "suite.h"

enum { BYTES = 200, LONG_AT = 4096, REPLY_AT = 65536, FAMILIES = 6 };

static volatile int answered;
static unsigned char source[BYTES];

static gasnet_handlerarg_t value(int at, int is_reply) { return (gasnet_handlerarg_t)(0x9e3779b9u * (unsigned)(at + 1) + (unsigned)is_reply); }

static void check_arguments(const gasnet_handlerarg_t *arguments, int count, int is_reply)
{
    for (int i = 0; i < count; i++) {
        about("argument %d of %d", i, count);
        CHECK_EQ(arguments[i], value(i, is_reply));
    }
}

static void check_source(gasnet_token_t token)
{
    gasnet_node_t from = ~0u;
    OK(gasnet_AMGetMsgSource(token, &from));
    CHECK_EQ(from, ranks() - 1 - rank());
}

#define P0
#define P1 P0, gasnet_handlerarg_t a0
#define P2 P1, gasnet_handlerarg_t a1
#define P3 P2, gasnet_handlerarg_t a2
#define P4 P3, gasnet_handlerarg_t a3
#define P5 P4, gasnet_handlerarg_t a4
#define P6 P5, gasnet_handlerarg_t a5
#define P7 P6, gasnet_handlerarg_t a6
#define P8 P7, gasnet_handlerarg_t a7
#define P9 P8, gasnet_handlerarg_t a8
#define P10 P9, gasnet_handlerarg_t a9
#define P11 P10, gasnet_handlerarg_t a10
#define P12 P11, gasnet_handlerarg_t a11
#define P13 P12, gasnet_handlerarg_t a12
#define P14 P13, gasnet_handlerarg_t a13
#define P15 P14, gasnet_handlerarg_t a14
#define P16 P15, gasnet_handlerarg_t a15
#define A0
#define A1 a0,
#define A2 A1 a1,
#define A3 A2 a2,
#define A4 A3 a3,
#define A5 A4 a4,
#define A6 A5 a5,
#define A7 A6 a6,
#define A8 A7 a7,
#define A9 A8 a8,
#define A10 A9 a9,
#define A11 A10 a10,
#define A12 A11 a11,
#define A13 A12 a12,
#define A14 A13 a13,
#define A15 A14 a14,
#define A16 A15 a15,
#define V0(r)
#define V1(r) V0(r), value(0, r)
#define V2(r) V1(r), value(1, r)
#define V3(r) V2(r), value(2, r)
#define V4(r) V3(r), value(3, r)
#define V5(r) V4(r), value(4, r)
#define V6(r) V5(r), value(5, r)
#define V7(r) V6(r), value(6, r)
#define V8(r) V7(r), value(7, r)
#define V9(r) V8(r), value(8, r)
#define V10(r) V9(r), value(9, r)
#define V11(r) V10(r), value(10, r)
#define V12(r) V11(r), value(11, r)
#define V13(r) V12(r), value(12, r)
#define V14(r) V13(r), value(13, r)
#define V15(r) V14(r), value(14, r)
#define V16(r) V15(r), value(15, r)
#define EACH(row) \
    row(0) row(1) row(2) row(3) row(4) row(5) row(6) row(7) row(8) row(9) row(10) row(11) row(12) row(13) row(14) row(15) row(16)

/* Handler numbers for a count: short, medium and long request, then reply. */
#define NUMBER(n, family) (130 + FAMILIES * (n) + (family))

#define DEFINE(n)                                                                                              \
    static void short_##n(gasnet_token_t token P##n)                                                           \
    {                                                                                                          \
        const gasnet_handlerarg_t got[] = {A##n 0};                                                            \
        check_arguments(got, n, 0);                                                                            \
        check_source(token);                                                                                   \
        OK(gasnet_AMReplyShort##n(token, NUMBER(n, 3) V##n(1)));                                               \
    }                                                                                                          \
    static void medium_##n(gasnet_token_t token, void *buffer, size_t bytes P##n)                              \
    {                                                                                                          \
        const gasnet_handlerarg_t got[] = {A##n 0};                                                            \
        check_arguments(got, n, 0);                                                                            \
        CHECK_PATTERN(buffer, bytes, n);                                                                       \
        OK(gasnet_AMReplyMedium##n(token, NUMBER(n, 4), buffer, bytes V##n(1)));                               \
    }                                                                                                          \
    static void long_##n(gasnet_token_t token, void *buffer, size_t bytes P##n)                                \
    {                                                                                                          \
        const gasnet_handlerarg_t got[] = {A##n 0};                                                            \
        check_arguments(got, n, 0);                                                                            \
        CHECK_PTR(buffer, MINE + LONG_AT);                                                                     \
        CHECK_PATTERN(buffer, bytes, n);                                                                       \
        OK(gasnet_AMReplyLong##n(token, NUMBER(n, 5), buffer, bytes, segment(ranks() - 1 - rank()) + REPLY_AT V##n(1))); \
    }                                                                                                          \
    static void short_reply_##n(gasnet_token_t token P##n)                                                     \
    {                                                                                                          \
        const gasnet_handlerarg_t got[] = {A##n 0};                                                            \
        check_arguments(got, n, 1);                                                                            \
        check_source(token);                                                                                   \
        answered++;                                                                                            \
    }                                                                                                          \
    static void medium_reply_##n(gasnet_token_t token, void *buffer, size_t bytes P##n)                        \
    {                                                                                                          \
        const gasnet_handlerarg_t got[] = {A##n 0};                                                            \
        check_arguments(got, n, 1);                                                                            \
        check_source(token);                                                                                   \
        CHECK_EQ(bytes, BYTES);                                                                                \
        CHECK_PATTERN(buffer, bytes, n);                                                                       \
        answered++;                                                                                            \
    }                                                                                                          \
    static void long_reply_##n(gasnet_token_t token, void *buffer, size_t bytes P##n)                          \
    {                                                                                                          \
        const gasnet_handlerarg_t got[] = {A##n 0};                                                            \
        check_arguments(got, n, 1);                                                                            \
        check_source(token);                                                                                   \
        CHECK_EQ(bytes, BYTES);                                                                                \
        CHECK_PTR(buffer, MINE + REPLY_AT);                                                                    \
        CHECK_PATTERN(buffer, bytes, n);                                                                       \
        answered++;                                                                                            \
    }                                                                                                          \
    static void try_##n(gasnet_node_t to)                                                                      \
    {                                                                                                          \
        void *there = segment((int)to) + LONG_AT;                                                              \
        pattern_fill(source, BYTES, n);                                                                        \
        answered = 0;                                                                                          \
        OK(gasnet_AMRequestShort##n(to, NUMBER(n, 0) V##n(0)));                                                \
        WAIT_FOR(answered == 1);                                                                               \
        OK(gasnet_AMRequestMedium##n(to, NUMBER(n, 1), source, BYTES V##n(0)));                                \
        WAIT_FOR(answered == 2);                                                                               \
        OK(gasnet_AMRequestLong##n(to, NUMBER(n, 2), source, BYTES, there V##n(0)));                           \
        WAIT_FOR(answered == 3);                                                                               \
        OK(gasnet_AMRequestLongAsync##n(to, NUMBER(n, 2), source, BYTES, there V##n(0)));                      \
        WAIT_FOR(answered == 4);                                                                               \
    }
EACH(DEFINE)

#define ROWS(n)                                                                                                  \
    {NUMBER(n, 0), short_##n}, {NUMBER(n, 1), medium_##n}, {NUMBER(n, 2), long_##n}, {NUMBER(n, 3), short_reply_##n}, \
        {NUMBER(n, 4), medium_reply_##n}, {NUMBER(n, 5), long_reply_##n},
HANDLERS(EACH(ROWS))

CASE(every_number, 2, "a request and its reply carry 0 to 16 arguments of 32 bits each, in every category")
{
    CHECK_EQ(gasnet_AMMaxArgs(), 16);
    if (rank() == 0) {
#define TRY(n) try_##n(1);
        EACH(TRY)
    }
    barrier();
}

CASE(to_oneself, 1, "a node sends to itself as to others")
{
#define TRY_HERE(n) try_##n(0);
    EACH(TRY_HERE)
}

CASE(number_at_run_time, 2, "the number of arguments may be given at run time; more than 16 are refused", .prints = "a message has 0 to 16")
{
    if (rank() == 0) {
        pattern_fill(source, BYTES, 4);
        OK(gasnet_AMRequestShort(1, NUMBER(0, 0), 0));
        WAIT_FOR(answered == 1);
        OK(gasnet_AMRequestMedium(1, NUMBER(4, 1), source, BYTES, 4 V4(0)));
        WAIT_FOR(answered == 2);
        OK(gasnet_AMRequestLong(1, NUMBER(4, 2), source, BYTES, segment(1) + LONG_AT, 4 V4(0)));
        WAIT_FOR(answered == 3);
        OK(gasnet_AMRequestLongAsync(1, NUMBER(4, 2), source, BYTES, segment(1) + LONG_AT, 4 V4(0)));
        WAIT_FOR(answered == 4);
        OK(gasnet_AMRequestShort(1, NUMBER(16, 0), 16 V16(0)));
        WAIT_FOR(answered == 5);
        REFUSED(gasnet_AMRequestShort(1, NUMBER(16, 0), 17 V16(0), 0), GASNET_ERR_BAD_ARG);
        REFUSED(gasnet_AMRequestShort(1, NUMBER(16, 0), -1), GASNET_ERR_BAD_ARG);
    }
    barrier();
}
