/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Failing lock requests are kept at their target, and answered when they succeed: seed 002, section 7.5.4, "implementation requirements"
 * and "future extension". In the variants of these cases a NIC keeps QUEUE requests.
 *
 * A process that dies calls _exit(0) without closing anything, so that the launcher continues. The others cannot reach the suite's last
 * barrier, so they end in the same way, by leave().
 */
#include "suite.h"

#include <unistd.h>

enum { QUEUE = 4, LOCK = 5, FENCE = 6, ORDER = 7, DONE_CLASS = 252 };

#define CASE_KEPT(name, ranks, rule, ...) CASE(name, ranks, rule, .needs = "kept locks", __VA_ARGS__)

/* Operands of tables 7-3 and 7-4. */
struct operands {
    int32_t compare, add;
};
static struct operands exclusive(void) { return (struct operands){0, ranks() + 1}; }
static struct operands shared_lock(void) { return (struct operands){ranks(), 1}; }
static struct operands free_exclusive(void) { return (struct operands){INT32_MAX, -(ranks() + 1)}; }
static struct operands free_shared(void) { return (struct operands){INT32_MAX, -1}; }

static void ask(int target, uint32_t lock, struct operands with)
{
    OK(rma2_post_lock(rma(), to(target), 1, lock, with.compare, with.add, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
}

static bool is_answered(uint32_t lock)
{
    RMA2_Notification *found;
    if (rma2_noti_lock_match(rma(), lock, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found) != RMA2_SUCCESS) return false;
    FAIL("lock %u is answered: result %d, value %d, error %d", lock, rma2_noti_get_lock_result(found), (int)rma2_noti_get_lock_value(found),
         (int)rma2_noti_get_error(found));
}

static RMA2_Notification answer(uint32_t lock)
{
    long long give_up = now_ms() + WAIT_MS;
    RMA2_Notification *found, copy;
    while (rma2_noti_lock_match(rma(), lock, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found) != RMA2_SUCCESS) {
        if (now_ms() > give_up) FAIL("lock %u: no answer", lock);
        poll_ports();
    }
    OK(rma2_noti_dup(found, &copy));
    OK(rma2_noti_free(rma(), found));
    return copy;
}

/* Waits until the request succeeds, with this value. */
static void expect_success(int target, uint32_t lock, int32_t value)
{
    RMA2_Notification got = answer(lock);
    CHECK_NOTIFICATION(got, RMA2_COMPLETER_NOTIFICATION, RMA2_LOCK_RSP, target, 0);
    CHECK_EQ(rma2_noti_get_lock_result(&got), 1);
    CHECK_EQ((int32_t)rma2_noti_get_lock_value(&got), value);
}

static int32_t succeed(int target, uint32_t lock, struct operands with)
{
    ask(target, lock, with);
    RMA2_Notification got = answer(lock);
    CHECK_NOTIFICATION(got, RMA2_COMPLETER_NOTIFICATION, RMA2_LOCK_RSP, target, 0);
    CHECK_EQ(rma2_noti_get_lock_result(&got), 1);
    return (int32_t)rma2_noti_get_lock_value(&got);
}

/* Waits until earlier requests of this rank are at the target, which handles the commands of a node in order. */
static void fence(int target) { succeed(target, FENCE, (struct operands){INT32_MAX, 0}); }

/* The ranks from `first` on request the lock one after the other. */
static void ask_in_turn(int target, int first, struct operands (*with)(void))
{
    for (int turn = first; turn < ranks(); turn++) {
        if (rank() == turn) {
            ask(target, LOCK, with());
            fence(target);
        }
        barrier();
    }
}

/* Notifies a rank that this one has finished, and ends. */
static void leave(int host)
{
    if (host != rank()) {
        OK(rma2_post_notification(rma(), to(host), DONE_CLASS, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    }
    fflush(NULL);
    _exit(0);
}

/* Waits until `others` ranks have ended, and ends. */
static void leave_after(int others)
{
    long long give_up = now_ms() + WAIT_MS;
    while (others > 0) {
        RMA2_Notification *found;
        if (rma2_noti_noti_match(rma(), DONE_CLASS, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found) == RMA2_SUCCESS) {
            OK(rma2_noti_free(rma(), found));
            others--;
        } else if (now_ms() > give_up) {
            FAIL("%d ranks have not finished", others);
        }
        poll_ports();
    }
    leave(rank());
}

/* Waits until a rank has died: the unit refuses a notification put to it. */
static void await_death(int of)
{
    long long give_up = now_ms() + WAIT_MS;
    for (;;) {
        RMA2_Notification *found;
        OK(rma2_post_notification(rma(), to(of), 99, 1, RMA2_REQUESTER_NOTIFICATION, RMA2_CMD_DEFAULT));
        for (long long end = now_ms() + 20; now_ms() < end; poll_ports()) {
            while (rma2_noti_match(rma(), RMA2_NOTIFICATION_PUT, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_REQUESTER_NOTIFICATION, RMA2_ANY_NLA, 0,
                                   &found) == RMA2_SUCCESS) {
                bool is_dead = rma2_noti_get_error(found) != 0;
                OK(rma2_noti_free(rma(), found));
                if (is_dead) return;
            }
        }
        if (now_ms() > give_up) FAIL("rank %d has not died", of);
    }
}

static void holder_and_waiters(int home, int holder)
{
    if (rank() == holder) CHECK_EQ(succeed(home, LOCK, exclusive()), ranks() + 1);
    barrier();
    ask_in_turn(home, 2, exclusive);
    for (long long end = now_ms() + 20; now_ms() < end; poll_ports()) CHECK(!is_answered(LOCK));
    barrier();
    if (rank() == holder) {
        succeed(home, LOCK, free_exclusive());
    } else if (rank() >= 2) {
        expect_success(home, LOCK, ranks() + 1);
        CHECK_EQ(succeed(home, ORDER, (struct operands){INT32_MAX, 1}), rank() - 1);
        succeed(home, LOCK, free_exclusive());
    }
    barrier();
    CHECK_EQ(succeed(home, LOCK, (struct operands){INT32_MAX, 0}), 0);
    barrier();
    if (rank() == home) succeed(home, ORDER, (struct operands){INT32_MAX, 2 - ranks()});
    barrier();
}

CASE_KEPT(in_order, 4,
          "one holder and several waiters: each gets the lock when the previous holder frees it, in request order")
{
    holder_and_waiters(0, 0); /* the holder at its own lock */
    holder_and_waiters(0, 1); /* and at another rank's */
    holder_and_waiters(3, 1); /* the home is a waiter, too */
}

CASE_KEPT(shared_together, 4, "tables 7-3 and 7-4: the waiters for a shared lock get it together, before one for an exclusive lock behind them")
{
    if (rank() == 0) CHECK_EQ(succeed(0, LOCK, exclusive()), ranks() + 1);
    barrier();
    for (int turn = 1; turn < 4; turn++) {
        if (rank() == turn) {
            ask(0, LOCK, turn == 3 ? exclusive() : shared_lock());
            fence(0);
        }
        barrier();
    }
    if (rank() == 0) succeed(0, LOCK, free_exclusive());
    if (rank() == 1 || rank() == 2) expect_success(0, LOCK, rank());
    barrier();
    if (rank() == 3) {
        for (long long end = now_ms() + 20; now_ms() < end; poll_ports()) CHECK(!is_answered(LOCK));
    }
    barrier();
    if (rank() == 1) CHECK_EQ(succeed(0, LOCK, free_shared()), 1);
    barrier();
    if (rank() == 3) CHECK(!is_answered(LOCK));
    barrier();
    if (rank() == 2) succeed(0, LOCK, free_shared());
    if (rank() == 3) expect_success(0, LOCK, ranks() + 1);
}

CASE_KEPT(nobody_polls, 4, "tables 7-3 and 7-4: with room for all waiters no request fails")
{
    enum { ROUNDS = 60 };
    int32_t n = ranks(), value;
    uint64_t random = 5 + (uint64_t)rank();
    for (int i = 0; i < ROUNDS; i++) {
        if (random_next(&random) % 2) {
            CHECK_EQ(succeed(1, LOCK, exclusive()), n + 1);
            CHECK_EQ(succeed(1, ORDER, (struct operands){0, 1}), 1); /* the only holder */
            succeed(1, ORDER, (struct operands){INT32_MAX, -1});
            succeed(1, LOCK, free_exclusive());
        } else {
            value = succeed(1, LOCK, shared_lock());
            CHECK_OP(value, >=, 1);
            CHECK_OP(value, <=, n);
            succeed(1, LOCK, free_shared());
        }
    }
    barrier();
    CHECK_EQ(succeed(1, LOCK, (struct operands){INT32_MAX, 0}), 0);
}

CASE_KEPT(post_start_complete_wait, 2, "tables 7-5 and 7-6: post, start, complete and wait are called once each, in any order of the two sides")
{
    enum { ROUNDS = 30 };
    static const struct operands post = {3, -1}, start = {2, -1}, complete = {1, -1}, wait = {0, 3};
    if (rank() == 1) CHECK_EQ(succeed(1, LOCK, wait), 3); /* idle */
    barrier();
    for (int i = 0; i < ROUNDS; i++) {
        if (rank() == 1) {
            if (i % 2) sleep_ms(1);
            succeed(1, LOCK, post);
            CHECK_EQ(succeed(1, LOCK, wait), 3);
        } else {
            CHECK_EQ(succeed(1, LOCK, start), 1);
            if (i % 3 == 0) sleep_ms(1);
            CHECK_EQ(succeed(1, LOCK, complete), 0);
        }
        barrier();
    }
}

CASE_KEPT(full, 2, "a request that finds no room fails at once; kept requests get the lock in order")
{
    enum { HELD = 100 };
    if (rank() == 0) CHECK_EQ(succeed(1, LOCK, (struct operands){0, HELD}), HELD);
    barrier();
    if (rank() == 1) {
        /* Each request succeeds on the value that the one before leaves. */
        for (int i = 0; i < QUEUE; i++) ask(1, LOCK, (struct operands){i, 1});
        fence(1);
        CHECK(!is_answered(LOCK));
        ask(1, LOCK, (struct operands){0, 1});
        RMA2_Notification got = answer(LOCK);
        CHECK_NOTIFICATION(got, RMA2_COMPLETER_NOTIFICATION, RMA2_LOCK_RSP, 1, 0);
        CHECK_EQ(rma2_noti_get_lock_result(&got), 0);
        CHECK_EQ((int32_t)rma2_noti_get_lock_value(&got), HELD);
        succeed(1, ORDER, (struct operands){0, 1});
    }
    barrier();
    if (rank() == 0) succeed(1, LOCK, (struct operands){INT32_MAX, -HELD});
    for (int i = 0; rank() == 1 && i < QUEUE; i++) expect_success(1, LOCK, i + 1);
    barrier();
    if (rank() == 1) {
        ask(1, LOCK, (struct operands){0, 1});
        fence(1);
        CHECK(!is_answered(LOCK));
    }
    barrier();
    if (rank() == 0) succeed(1, LOCK, (struct operands){INT32_MAX, -QUEUE});
    if (rank() == 1) expect_success(1, LOCK, 1);
}

CASE_KEPT(other_locks, 2, "a change of one lock answers no request for another")
{
    if (rank() == 0) {
        succeed(1, LOCK, (struct operands){0, 1});
        ask(1, LOCK, (struct operands){0, 1});
        fence(1);
        succeed(1, LOCK + 3, (struct operands){INT32_MAX, -5});
        succeed(0, LOCK, (struct operands){INT32_MAX, -5});
        for (long long end = now_ms() + 20; now_ms() < end; poll_ports()) CHECK(!is_answered(LOCK));
        OK(rma2_post_lock(rma(), to(1), 1, LOCK, INT32_MAX, -1, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
        expect_success(1, LOCK, 1);
    }
}

CASE_KEPT(informed, 2, "table 7-2: the target is informed of a kept request when it succeeds")
{
    if (rank() == 0) {
        succeed(1, LOCK, (struct operands){0, 1});
        OK(rma2_post_lock(rma(), to(1), 1, LOCK, 0, 9, RMA2_RESPCOMPL_NOTIFICATION, RMA2_CMD_DEFAULT));
        fence(1);
    }
    barrier();
    expect_no_notification();
    barrier();
    if (rank() == 0) {
        OK(rma2_post_lock(rma(), to(1), 1, LOCK, INT32_MAX, -1, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
        expect_success(1, LOCK, 9);
    } else {
        RMA2_Notification got = next_notification();
        CHECK_NOTIFICATION(got, RMA2_RESPONDER_NOTIFICATION, RMA2_LOCK_REQ, 0, 0);
        CHECK_EQ(rma2_noti_get_lock_value(&got), 9);
        CHECK_EQ(rma2_noti_get_lock_number(&got), LOCK);
        CHECK_EQ(rma2_noti_get_lock_result(&got), 1);
    }
    barrier();
    expect_no_notification();
}

CASE(home_sleeps, 3,
     "the process that frees a lock answers the waiter, also if the lock's owner makes no call", .needs = "kept locks, independent")
{
    if (rank() == 0) succeed(1, LOCK, exclusive());
    barrier();
    if (rank() == 2) {
        ask(1, LOCK, exclusive());
        fence(1);
    }
    barrier();
    if (rank() == 0) succeed(1, LOCK, free_exclusive());
    if (rank() == 1) {
        for (long long end = now_ms() + 300; now_ms() < end;) nap_us(1000);
    }
    if (rank() == 2) {
        long long before = now_ms();
        expect_success(1, LOCK, ranks() + 1);
        about("the answer took %lld ms", now_ms() - before);
        /* The owner is still absent: a notification for it is unread. */
        succeed(1, LOCK, free_exclusive());
    }
}

CASE_KEPT(closed_home, 2, "when a port is closed, requests kept for its locks are refused")
{
    RMA2_Port port;
    RMA2_Handle handle;
    uint16_t vpid, vpids[RANKS_MAX];
    OK(rma2_open(&port));
    vpid = rma2_get_vpid(port);
    exchange(&vpid, sizeof vpid, vpids);
    OK(rma2_connect(rma(), (RMA2_Nodeid)(1 - rank()), vpids[1 - rank()], RMA2_CONN_DEFAULT, &handle));
    if (rank() == 0) {
        for (int i = 0; i < 2; i++)
            OK(rma2_post_lock(rma(), handle, 1, LOCK, 0, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        expect_success(1, LOCK, 1);
        CHECK(!is_answered(LOCK));
        fence(1);
    }
    barrier();
    OK(rma2_close(port));
    if (rank() == 0) {
        RMA2_Notification got = answer(LOCK);
        CHECK_EQ(rma2_noti_get_error(&got), RMA2_ERROR_RESP);
        CHECK_EQ(rma2_noti_get_lock_result(&got), 0);
    }
    barrier();
    /* A port that is opened again has free locks without waiters. */
    OK(rma2_open(&port));
    CHECK_EQ(rma2_get_vpid(port), vpid);
    barrier();
    if (rank() == 0) {
        OK(rma2_post_lock(rma(), handle, 1, LOCK, 0, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        expect_success(1, LOCK, 1);
        expect_no_notification();
    }
    barrier();
    OK(rma2_disconnect(rma(), handle));
    OK(rma2_close(port));
}

CASE_KEPT(closed_waiter, 3,
          "a closed port waits no more: the lock goes to the next waiter, and no later port of its VPID gets an answer")
{
    if (rank() == 0) succeed(0, LOCK, exclusive());
    barrier();
    RMA2_Port port;
    RMA2_Handle handle;
    if (rank() == 1) {
        OK(rma2_open(&port));
        OK(rma2_connect(port, 0, rma2_get_vpid(rma()), RMA2_CONN_DEFAULT, &handle));
        for (int i = 0; i < QUEUE - 1; i++)
            OK(rma2_post_lock(port, handle, 1, LOCK, 0, ranks() + 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        ask(0, LOCK, exclusive());
        fence(0);
        OK(rma2_close(port));
        fence(0);
        OK(rma2_open(&port));
    }
    barrier();
    if (rank() == 2) {
        for (int i = 0; i < QUEUE - 1; i++) ask(0, LOCK, exclusive());
        fence(0);
        CHECK(!is_answered(LOCK));
    }
    barrier();
    if (rank() == 0) succeed(0, LOCK, free_exclusive());
    if (rank() == 1) {
        expect_success(0, LOCK, ranks() + 1);
        RMA2_Notification *got;
        sleep_ms(5);
        CHECK_EQ(rma2_noti_probe(port, &got), RMA2_NO_NOTI);
        succeed(0, LOCK, free_exclusive());
        OK(rma2_close(port));
    }
    for (int i = 0; rank() == 2 && i < QUEUE - 1; i++) {
        expect_success(0, LOCK, ranks() + 1);
        OK(rma2_post_lock(rma(), to(0), 1, LOCK, INT32_MAX, -(ranks() + 1), RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    }
}

CASE_KEPT(waiter_dies, 4, "a waiter that dies is removed: the lock goes to the next waiter, and its place is free")
{
    if (rank() == 0) succeed(0, LOCK, exclusive());
    barrier();
    if (rank() == 1) {
        for (int i = 0; i < QUEUE - 1; i++) ask(0, LOCK, exclusive());
        fence(0);
    }
    barrier();
    if (rank() == 2) {
        ask(0, LOCK, exclusive());
        fence(0);
    }
    barrier();
    if (rank() == 1) _exit(0);
    if (rank() == 0) {
        await_death(1);
        succeed(0, LOCK, free_exclusive());
        leave_after(2);
    }
    if (rank() == 2) {
        expect_success(0, LOCK, ranks() + 1);
        /* The places of the dead are free: a full queue of requests is kept. */
        for (int i = 0; i < QUEUE; i++) ask(0, LOCK, exclusive());
        fence(0);
        CHECK(!is_answered(LOCK));
        for (int i = 0; i < QUEUE + 1; i++) {
            if (i > 0) expect_success(0, LOCK, ranks() + 1);
            OK(rma2_post_lock(rma(), to(0), 1, LOCK, INT32_MAX, -(ranks() + 1), RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
        }
    }
    leave(0);
}

CASE_KEPT(dead_waiters_make_room, 3, "the places of dead waiters are free, also while no process frees the lock")
{
    if (rank() == 0) succeed(0, LOCK, exclusive());
    barrier();
    if (rank() == 1) {
        for (int i = 0; i < QUEUE; i++) ask(0, LOCK, exclusive());
        fence(0);
    }
    barrier();
    if (rank() == 1) _exit(0);
    if (rank() == 2) {
        await_death(1);
        long long give_up = now_ms() + WAIT_MS;
        for (;;) {
            ask(0, LOCK, exclusive());
            fence(0);
            RMA2_Notification *found;
            if (rma2_noti_lock_match(rma(), LOCK, RMA2_NODEID_ANY, RMA2_VPID_ANY, &found) != RMA2_SUCCESS) break;
            CHECK_EQ(rma2_noti_get_lock_result(found), 0);
            OK(rma2_noti_free(rma(), found));
            if (now_ms() > give_up) FAIL("no place of a dead waiter is free");
            sleep_ms(10);
        }
        OK(rma2_post_lock(rma(), to(0), 1, LOCK, INT32_MAX, -(ranks() + 1), RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
        expect_success(0, LOCK, ranks() + 1);
    }
    if (rank() == 0) leave_after(1);
    leave(0);
}

CASE_KEPT(holder_dies, 4,
          "a lock keeps the value of a holder that dies; a process that frees it for the dead one passes it to the next "
          "waiter")
{
    if (rank() == 1) succeed(0, LOCK, exclusive());
    barrier();
    ask_in_turn(0, 2, exclusive);
    if (rank() == 1) _exit(0);
    if (rank() == 0) {
        await_death(1);
        for (long long end = now_ms() + 20; now_ms() < end; poll_ports()) {}
        CHECK_EQ(succeed(0, FENCE + 10, (struct operands){0, 1}), 1);
        succeed(0, LOCK, free_exclusive());
        leave_after(2);
    }
    expect_success(0, LOCK, ranks() + 1);
    CHECK_EQ(succeed(0, ORDER, (struct operands){INT32_MAX, 1}), rank() - 1);
    succeed(0, LOCK, free_exclusive());
    leave(0);
}

CASE_KEPT(home_dies, 3, "when the process that owns the locks dies, its kept requests fail like other requests to it")
{
    if (rank() == 0) succeed(1, LOCK, exclusive());
    barrier();
    ask_in_turn(1, 2, exclusive);
    if (rank() == 1) _exit(0);
    if (rank() == 2) {
        RMA2_Notification got = answer(LOCK);
        CHECK_EQ(rma2_noti_get_error(&got), RMA2_ERROR_RESP);
        CHECK_EQ(rma2_noti_get_lock_result(&got), 0);
    }
    if (rank() == 0) leave_after(1);
    leave(0);
}
