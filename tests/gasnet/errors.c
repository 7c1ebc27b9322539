/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Refused calls: an error code, a line on standard error with the remedy, and no other effect. */
#include "suite.h"

enum { REPLY_TWICE = 200, REPLY_TO_REPLY, SEND_REQUEST, POLL, COUNT_ONE, NOBODY = 250 };

static volatile int counted;
static gasnet_token_t old_token;

static void count_one(gasnet_token_t token)
{
    (void)token;
    counted++;
}

static void reply_twice(gasnet_token_t token)
{
    old_token = token;
    OK(gasnet_AMReplyShort0(token, COUNT_ONE));
    REFUSED(gasnet_AMReplyShort0(token, COUNT_ONE), GASNET_ERR_BAD_ARG);
}

static void reply_to_reply(gasnet_token_t token)
{
    /* The reply to a request runs this handler again, whose own reply is refused. */
    if (rank() == 1) {
        OK(gasnet_AMReplyShort0(token, REPLY_TO_REPLY));
        return;
    }
    REFUSED(gasnet_AMReplyShort0(token, REPLY_TO_REPLY), GASNET_ERR_BAD_ARG);
    counted++;
}

static void send_request(gasnet_token_t token)
{
    REFUSED(gasnet_AMRequestShort0(0, COUNT_ONE), GASNET_ERR_BAD_ARG);
    OK(gasnet_AMReplyShort0(token, COUNT_ONE));
}

static void poll(gasnet_token_t token)
{
    REFUSED(gasnet_AMPoll(), GASNET_ERR_BAD_ARG);
    OK(gasnet_AMReplyShort0(token, COUNT_ONE));
}

HANDLERS({REPLY_TWICE, reply_twice}, {REPLY_TO_REPLY, reply_to_reply}, {SEND_REQUEST, send_request}, {POLL, poll}, {COUNT_ONE, count_one})

static void still_works(void)
{
    barrier();
    int before = counted;
    barrier();
    OK(gasnet_AMRequestShort0((gasnet_node_t)((rank() + 1) % ranks()), COUNT_ONE));
    WAIT_FOR(counted == before + 1);
}

CASE(no_handler, 2, "a request for a handler that the target has not registered", .prints = "registered no handler 250")
{
    REFUSED(gasnet_AMRequestShort0(1, NOBODY), GASNET_ERR_BAD_ARG);
    still_works();
}

CASE(no_node, 2, "a request to a node that does not exist", .prints = "the job has 2 nodes")
{
    REFUSED(gasnet_AMRequestShort0(2, COUNT_ONE), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMRequestShort0(70000, COUNT_ONE), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMRequestShort0(UINT32_MAX, COUNT_ONE), GASNET_ERR_BAD_ARG);
    still_works();
}

CASE(too_long, 2, "payload beyond the limit of its category", .prints = "send it in pieces")
{
    REFUSED(gasnet_AMRequestMedium0(1, COUNT_ONE, MINE, gasnet_AMMaxMedium() + 1), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMRequestMedium0(1, COUNT_ONE, MINE, SIZE_MAX), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMRequestLong0(1, COUNT_ONE, MINE, gasnet_AMMaxLongRequest() + 1, segment(1)), GASNET_ERR_BAD_ARG);
    still_works();
}

CASE(outside_the_segment, 2, "a long message to memory outside the segment", .prints = "gasnet_getSegmentInfo")
{
    REFUSED(gasnet_AMRequestLong0(1, COUNT_ONE, MINE, 8, segment(1) + SEGMENT - 7), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMRequestLong0(1, COUNT_ONE, MINE, 1, segment(1) - 1), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMRequestLongAsync0(1, COUNT_ONE, MINE, 1, NULL), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMRequestLong0(1, COUNT_ONE, MINE, SEGMENT, segment(1) + 1), GASNET_ERR_BAD_ARG);
    still_works();
}

CASE(unreadable_source, 2, "a long message whose source is not mapped", .prints = "not mapped")
{
    REFUSED(gasnet_AMRequestLong0(1, COUNT_ONE, (void *)8192, 100, segment(1)), GASNET_ERR_BAD_ARG);
    still_works();
}

CASE(two_replies, 2, "a second reply to one request", .prints = "replies at most once")
{
    if (rank() == 0) {
        OK(gasnet_AMRequestShort0(1, REPLY_TWICE));
        WAIT_FOR(counted == 1);
    }
    still_works();
}

CASE(reply_of_a_reply, 2, "a reply from the handler of a reply", .prints = "replies are not answered")
{
    if (rank() == 0) {
        OK(gasnet_AMRequestShort0(1, REPLY_TO_REPLY));
        WAIT_FOR(counted == 1);
    }
    still_works();
}

CASE(request_in_a_handler, 2, "a request from a handler", .prints = "a handler may not send requests")
{
    if (rank() == 0) {
        OK(gasnet_AMRequestShort0(1, SEND_REQUEST));
        WAIT_FOR(counted == 1);
    }
    still_works();
}

CASE(poll_in_a_handler, 2, "a poll from a handler", .prints = "poll or wait")
{
    if (rank() == 0) {
        OK(gasnet_AMRequestShort0(1, POLL));
        WAIT_FOR(counted == 1);
    }
    still_works();
}

CASE(stale_token, 1, "a token whose handler has returned", .prints = "the handler that runs on this thread")
{
    gasnet_node_t from;
    OK(gasnet_AMRequestShort0(0, REPLY_TWICE));
    WAIT_FOR(counted == 1);
    REFUSED(gasnet_AMReplyShort0(old_token, COUNT_ONE), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMGetMsgSource(old_token, &from), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMGetMsgSource(NULL, &from), GASNET_ERR_BAD_ARG);
    still_works();
}

CASE(request_under_a_lock, 1, "a request and a poll of a thread that holds a lock", .prints = "unlock it first")
{
    gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;
    gasnet_hsl_lock(&lock);
    REFUSED(gasnet_AMRequestShort0(0, COUNT_ONE), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_AMPoll(), GASNET_ERR_BAD_ARG);
    gasnet_hsl_unlock(&lock);
    still_works();
}

CASE(poll_without_interrupts, 1, "a poll in a section without interrupts", .prints = "gasnet_resume_interrupts first")
{
    gasnet_hold_interrupts();
    REFUSED(gasnet_AMPoll(), GASNET_ERR_BAD_ARG);
    gasnet_resume_interrupts();
    still_works();
}

CASE(wait_under_a_lock, 2, "GASNET_BLOCKUNTIL where no handler may run ends the job", .status = 1, .prints = "GASNET_BLOCKUNTIL is not permitted here")
{
    gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;
    if (rank() == 1) {
        gasnet_hsl_lock(&lock);
        GASNET_BLOCKUNTIL(counted == 1);
    }
    WAIT_FOR(counted == 1);
}

CASE(barrier_out_of_turn, 1, "notify twice, wait without notify", .prints = "notify comes before wait")
{
    REFUSED(gasnet_barrier_wait(0, 0), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_barrier_try(0, 0), GASNET_ERR_BAD_ARG);
    gasnet_barrier_notify(0, 0);
    gasnet_barrier_notify(0, 0);
    OK(gasnet_barrier_wait(0, 0));
}

CASE(too_early, 1, "messages and barriers before gasnet_init and gasnet_attach", .flags = RAW, .prints = "call gasnet_attach before the first message")
{
    gasnet_seginfo_t info;
    REFUSED(gasnet_AMPoll(), GASNET_ERR_NOT_INIT);
    REFUSED(gasnet_AMRequestShort0(0, COUNT_ONE), GASNET_ERR_NOT_INIT);
    REFUSED(gasnet_attach(handlers, handlers_count, SEGMENT, 0), GASNET_ERR_NOT_INIT);
    REFUSED(gasnet_barrier_wait(0, 0), GASNET_ERR_NOT_INIT);
    CHECK_EQ(gasnet_getMaxLocalSegmentSize(), 0);
    OK(gasnet_init(NULL, NULL));
    REFUSED(gasnet_init(NULL, NULL), GASNET_ERR_NOT_INIT);
    REFUSED(gasnet_AMRequestShort0(0, COUNT_ONE), GASNET_ERR_NOT_INIT);
    REFUSED(gasnet_barrier_wait(0, 0), GASNET_ERR_NOT_INIT);
    REFUSED(gasnet_getSegmentInfo(&info, 1), GASNET_ERR_NOT_INIT);
    OK(gasnet_attach(handlers, handlers_count, SEGMENT, 0));
    OK(gasnet_AMRequestShort0(0, COUNT_ONE));
    WAIT_FOR(counted == 1);
    gasnet_exit(0);
}

CASE(wrong_tables, 1, "invalid handler tables and segment sizes", .flags = RAW, .prints = "choose 0, or 128 to 255")
{
    gasnet_handlerentry_t low[] = {{127, count_one}}, twice[] = {{200, count_one}, {200, count_one}}, none[] = {{200, NULL}};
    OK(gasnet_init(NULL, NULL));
    REFUSED(gasnet_attach(low, 1, 0, 0), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_attach(twice, 2, 0, 0), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_attach(none, 1, 0, 0), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_attach(NULL, 1, 0, 0), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_attach(handlers, -1, 0, 0), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_attach(handlers, handlers_count, 4097, 0), GASNET_ERR_BAD_ARG);
    REFUSED(gasnet_attach(handlers, handlers_count, gasnet_getMaxLocalSegmentSize() + GASNET_PAGESIZE, 0), GASNET_ERR_BAD_ARG);
    OK(gasnet_attach(handlers, handlers_count, SEGMENT, 0));
    REFUSED(gasnet_attach(handlers, handlers_count, SEGMENT, 0), GASNET_ERR_NOT_INIT);
    gasnet_exit(0);
}
