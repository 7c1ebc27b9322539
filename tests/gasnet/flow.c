/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Many messages: floods, receivers that do not poll, all nodes to all. Nothing is lost or deadlocks. */
#include "suite.h"

enum { COUNT_ONE = 200, FLOOD, FLOODED, RANDOM_SHORT, RANDOM_MEDIUM, RANDOM_LONG, RANDOM_BACK, TELL, BYTES_MAX_RANDOM = 6000, WINDOW = 8192 };

static volatile int counted, flooded, told, told_total;
static volatile uint64_t sum;
static gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;

static void count_one(gasnet_token_t token, gasnet_handlerarg_t value)
{
    (void)token;
    gasnet_hsl_lock(&lock);
    counted++;
    sum += (uint64_t)value;
    gasnet_hsl_unlock(&lock);
}

static void flood(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed)
{
    CHECK_PATTERN(buffer, bytes, (unsigned)seed);
    gasnet_hsl_lock(&lock);
    counted++;
    gasnet_hsl_unlock(&lock);
    OK(gasnet_AMReplyMedium1(token, FLOODED, buffer, bytes, seed));
}

static void flooded_back(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed)
{
    (void)token;
    CHECK_PATTERN(buffer, bytes, (unsigned)seed);
    gasnet_hsl_lock(&lock);
    flooded++;
    gasnet_hsl_unlock(&lock);
}

/* Replies with a message of another category, by the seed. */
static void answer(gasnet_token_t token, gasnet_handlerarg_t seed)
{
    gasnet_hsl_lock(&lock);
    counted++;
    gasnet_hsl_unlock(&lock);
    if (seed % 3 != 0) OK(gasnet_AMReplyShort1(token, RANDOM_BACK, seed));
}

static void random_short(gasnet_token_t token, gasnet_handlerarg_t seed) { answer(token, seed); }

static void random_payload(gasnet_token_t token, void *buffer, size_t bytes, gasnet_handlerarg_t seed)
{
    CHECK_PATTERN(buffer, bytes, (unsigned)seed);
    answer(token, seed);
}

static void random_back(gasnet_token_t token, gasnet_handlerarg_t seed)
{
    (void)token;
    CHECK(seed % 3 != 0);
    gasnet_hsl_lock(&lock);
    flooded++;
    gasnet_hsl_unlock(&lock);
}

/* Stores the number of messages that a node has sent to this one. */
static void tell(gasnet_token_t token, gasnet_handlerarg_t number)
{
    (void)token;
    told_total += number;
    told++;
}

HANDLERS({COUNT_ONE, count_one}, {FLOOD, flood}, {FLOODED, flooded_back}, {RANDOM_SHORT, random_short}, {RANDOM_MEDIUM, random_payload},
         {RANDOM_LONG, random_payload}, {RANDOM_BACK, random_back}, {TELL, tell})

CASE(requests_without_replies, 2, "a handler that does not reply makes room for the next request")
{
    enum { COUNT = 2000 };
    if (rank() == 0)
        for (int i = 0; i < COUNT; i++) OK(gasnet_AMRequestShort1(1, COUNT_ONE, i));
    if (rank() == 1) {
        WAIT_FOR(counted == COUNT);
        CHECK_EQ(sum, (uint64_t)COUNT * (COUNT - 1) / 2);
    }
    barrier();
}

CASE(a_receiver_that_does_not_poll, 3, "senders wait while a receiver makes no call, and nothing is lost", .crowded = 6)
{
    enum { COUNT = 300 };
    unsigned char source[700];
    if (rank() == 0) {
        nap_us(300000);
        WAIT_FOR(counted == COUNT * (ranks() - 1));
    } else {
        for (int i = 0; i < COUNT; i++) {
            size_t bytes = (size_t)(i * 37 % 600);
            pattern_fill(source, bytes, (unsigned)i);
            OK(gasnet_AMRequestMedium1(0, FLOOD, source, bytes, i));
        }
        WAIT_FOR(flooded == COUNT);
    }
    barrier();
    CHECK_EQ(counted, rank() == 0 ? COUNT * (ranks() - 1) : 0);
}

CASE(two_floods_meet, 2, "nodes that flood each other with the longest medium requests and replies do not wait for each other", .crowded = 5)
{
    enum { COUNT = 300 };
    size_t bytes = gasnet_AMMaxMedium();
    unsigned char *source = malloc(bytes);
    pattern_fill(source, bytes, (unsigned)rank());
    for (int i = 0; i < COUNT; i++)
        OK(gasnet_AMRequestMedium1((gasnet_node_t)((rank() + 1 + i % (ranks() - 1)) % ranks()), FLOOD, source, bytes, rank()));
    WAIT_FOR(flooded == COUNT);
    barrier();
    free(source);
}

CASE(all_to_all, 5, "messages of random category and size between all nodes arrive whole and once", .crowded = 9)
{
    enum { COUNT = 400 };
    uint64_t state = 77 + (uint64_t)rank();
    unsigned char source[BYTES_MAX_RANDOM];
    int expected = 0, sent[RANKS_MAX] = {0};
    size_t most = gasnet_AMMaxMedium() < BYTES_MAX_RANDOM ? gasnet_AMMaxMedium() : BYTES_MAX_RANDOM;
    for (int i = 0; i < COUNT; i++) {
        int to = (int)(random_next(&state) % (unsigned)ranks());
        int seed = (int)(random_next(&state) % 100000);
        size_t bytes = (size_t)(random_next(&state) % most);
        pattern_fill(source, bytes, (unsigned)seed);
        /* A long message has its own place at its target, until the place is reused. */
        void *there = segment(to) + (size_t)(rank() * COUNT + i) * 6016 % (SEGMENT - WINDOW);
        switch (random_next(&state) % 3) {
        case 0: OK(gasnet_AMRequestShort1((gasnet_node_t)to, RANDOM_SHORT, seed)); break;
        case 1: OK(gasnet_AMRequestMedium1((gasnet_node_t)to, RANDOM_MEDIUM, source, bytes, seed)); break;
        default: OK(gasnet_AMRequestLong1((gasnet_node_t)to, RANDOM_LONG, source, bytes, there, seed)); break;
        }
        expected += seed % 3 != 0;
        sent[to]++;
    }
    WAIT_FOR(flooded == expected);
    /* Messages without a reply may still be under way. */
    for (int to = 0; to < ranks(); to++) OK(gasnet_AMRequestShort1((gasnet_node_t)to, TELL, sent[to]));
    WAIT_FOR(told == ranks());
    WAIT_FOR(counted >= told_total);
    barrier();
    sleep_ms(5);
    CHECK_EQ(counted, told_total);
    CHECK_EQ(flooded, expected);
}
