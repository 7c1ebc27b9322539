/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Payload of medium and long messages: sizes, places, sources. */
#include "suite.h"

enum { ECHO = 200, BACK, STORE, STORED, KEEP, KEPT, LONG_MAX_HERE = 9 << 20, REPLY_AT = 12 << 20 };

static volatile int answered;
static volatile size_t got_bytes;

static void echo(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed)
{
    CHECK_EQ((uintptr_t)buffer % 8, 0);
    CHECK_PATTERN(buffer, bytes, (unsigned)seed);
    OK(gasnet_AMReplyMedium1(token, BACK, buffer, bytes, seed + 1));
    /* The payload stays until the handler returns. */
    CHECK_PATTERN(buffer, bytes, (unsigned)seed);
}

static void back(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed)
{
    (void)token;
    CHECK_PATTERN(buffer, bytes, (unsigned)seed - 1);
    got_bytes = bytes;
    answered++;
}

static void store(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed, gasnet_handlerarg_t offset)
{
    gasnet_node_t from;
    OK(gasnet_AMGetMsgSource(token, &from));
    CHECK_PTR(buffer, MINE + offset);
    CHECK_PATTERN(buffer, bytes, (unsigned)seed);
    OK(gasnet_AMReplyLong1(token, STORED, buffer, bytes, segment((int)from) + REPLY_AT + offset, seed));
}

static void stored(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed)
{
    (void)token;
    CHECK_PATTERN(buffer, bytes, (unsigned)seed);
    got_bytes = bytes;
    answered++;
}

/* Replies with memory that it overwrites at once: the call has read the payload of the reply. */
static void keep(gasnet_token_t token, void *buffer, size_t bytes)
{
    unsigned char *copy = malloc(bytes);
    gasnet_node_t from;
    OK(gasnet_AMGetMsgSource(token, &from));
    memcpy(copy, buffer, bytes);
    OK(gasnet_AMReplyLong0(token, KEPT, copy, bytes, segment((int)from)));
    memset(copy, 0xff, bytes);
    free(copy);
}

static void kept(gasnet_token_t token, void *buffer, size_t bytes)
{
    (void)token;
    CHECK_PATTERN(buffer, bytes, 5);
    answered++;
}

HANDLERS({ECHO, echo}, {BACK, back}, {STORE, store}, {STORED, stored}, {KEEP, keep}, {KEPT, kept})

CASE(medium_sizes, 2, "a medium message carries 0 bytes to gasnet_AMMaxMedium, from any address")
{
    size_t most = gasnet_AMMaxMedium();
    CHECK_OP(most, >=, (size_t)512);
    unsigned char *source = malloc(most + 16);
    if (rank() == 0) {
        int seed = 1;
        /* All sizes near the limit of one message, then powers of two and their neighbours. */
        for (size_t bytes = 0; bytes <= most; bytes = bytes < 130 ? bytes + 1 : bytes == most ? most + 1 : bytes * 2 - 129 > most ? most : bytes * 2 - 129) {
            about("%zu bytes", bytes);
            unsigned char *from = source + seed % 9;
            pattern_fill(from, bytes, (unsigned)seed);
            answered = 0;
            OK(gasnet_AMRequestMedium1(1, ECHO, from, bytes, seed));
            memset(from, 0xee, bytes); /* it has been read */
            WAIT_FOR(answered == 1);
            CHECK_EQ(got_bytes, bytes);
            seed += 2;
        }
    }
    barrier();
    free(source);
}

static void try_long(const unsigned char *from, size_t bytes, int seed, int offset, int is_async)
{
    about("%zu bytes to offset %d, asynchronous %d", bytes, offset, is_async);
    pattern_fill((void *)from, bytes, (unsigned)seed);
    answered = 0;
    if (is_async)
        OK(gasnet_AMRequestLongAsync2(1, STORE, from, bytes, segment(1) + offset, seed, offset));
    else
        OK(gasnet_AMRequestLong2(1, STORE, from, bytes, segment(1) + offset, seed, offset));
    WAIT_FOR(answered == 1);
    CHECK_EQ(got_bytes, bytes);
}

CASE(long_sizes, 2,
     "a long message carries any number of bytes to any address of the segment, from the segment and from elsewhere")
{
    static const size_t sizes[] = {0, 1, 7, 8, 63, 64, 4095, 4096, 4097, 100000, 1 << 20, LONG_MAX_HERE};
    CHECK_OP(gasnet_AMMaxLongRequest(), >=, (size_t)LONG_MAX_HERE);
    CHECK_OP(gasnet_AMMaxLongReply(), >=, (size_t)LONG_MAX_HERE);
    unsigned char *elsewhere = malloc(LONG_MAX_HERE + 16);
    if (rank() == 0) {
        int seed = 1;
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            for (int is_async = 0; is_async < 2; is_async++, seed++) {
                try_long(MINE + seed, sizes[i], seed, 13 * seed, is_async);
                try_long(elsewhere + seed % 16, sizes[i], seed + 100, 8 * seed, is_async);
            }
        }
    }
    barrier();
    free(elsewhere);
}

CASE(the_ends_of_a_segment, 2, "the first and the last byte of a segment are written, and none beyond them")
{
    if (rank() == 0) {
        MINE[100] = 7;
        unsigned char one[1];
        for (int i = 0; i < 2; i++) {
            int offset = i == 0 ? 0 : SEGMENT / 2 - 1;
            pattern_fill(one, 1, 3);
            answered = 0;
            OK(gasnet_AMRequestLong2(1, STORE, one, 1, segment(1) + offset, 3, offset));
            WAIT_FOR(answered == 1);
        }
    }
    barrier();
    if (rank() == 1) {
        CHECK_BYTES(MINE + 1, SEGMENT / 2 - 2, 0);
        CHECK_BYTES(MINE + SEGMENT / 2, SEGMENT / 2, 0);
    }
}

CASE(a_reply_keeps_its_payload, 2, "the source of a reply's payload may change when the call returns")
{
    enum { BYTES = 400, COUNT = 100 };
    unsigned char source[BYTES];
    pattern_fill(source, BYTES, 5);
    if (rank() == 0) {
        for (int i = 0; i < COUNT; i++) {
            OK(gasnet_AMRequestMedium0(1, KEEP, source, BYTES));
            WAIT_FOR(answered == i + 1);
        }
    }
    barrier();
}
