/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Fetch, compare and add: seed 002, section 7.5.4. */
#include "suite.h"

static bool fcaa(int target, uint32_t lock, int32_t compare, int32_t add, int32_t *value)
{
    OK(rma2_post_lock(rma(), to(target), 1, lock, compare, add, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    RMA2_Notification got = next_notification();
    CHECK_NOTIFICATION(got, RMA2_COMPLETER_NOTIFICATION, RMA2_LOCK_RSP, target, 0);
    CHECK_EQ(rma2_noti_get_lock_number(&got), lock);
    if (value) *value = (int32_t)rma2_noti_get_lock_value(&got);
    return rma2_noti_get_lock_result(&got) == 1;
}

CASE(definition, 2, "7.5.4: adds if the lock is at most the compare value; signed; the answer has the value and the success")
{
    static const struct {
        int32_t compare, add;
        bool success;
        int32_t value;
    } steps[] = {{0, 5, true, 5}, {4, 1, false, 5}, {5, -7, true, -2}, {-3, 1, false, -2}, {-2, 2, true, 0}, {INT32_MAX, INT32_MAX, true, INT32_MAX}};
    int32_t value;
    for (size_t i = 0; rank() == 0 && i < COUNT_OF(steps); i++) {
        about("step %zu", i);
        CHECK_EQ(fcaa(1, 7, steps[i].compare, steps[i].add, &value), steps[i].success);
        CHECK_EQ(value, steps[i].value);
    }
    barrier();
    /* Lock 7 of the other rank, and lock 8 beside it, are separate locks. */
    if (rank() == 1) {
        CHECK(!fcaa(1, 7, 0, 1, &value));
        CHECK_EQ(value, INT32_MAX);
        CHECK(fcaa(0, 7, 0, 0, &value) && value == 0);
        CHECK(fcaa(1, 8, 0, 0, &value) && value == 0);
        CHECK(fcaa(1, 1023, 0, 1, &value) && value == 1);
    }
}

CASE(informed, 2, "table 7-2: with the responder's bit the target is informed")
{
    if (rank() == 0) {
        OK(rma2_post_lock(rma(), to(1), 1, 3, 0, 9, RMA2_RESPCOMPL_NOTIFICATION, RMA2_CMD_DEFAULT));
        CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_LOCK_RSP, 1, 0);
    } else {
        RMA2_Notification got = next_notification();
        CHECK_NOTIFICATION(got, RMA2_RESPONDER_NOTIFICATION, RMA2_LOCK_REQ, 0, 0);
        CHECK_EQ(rma2_noti_get_lock_value(&got), 9);
        CHECK_EQ(rma2_noti_get_lock_number(&got), 3);
        CHECK_EQ(rma2_noti_get_lock_result(&got), 1);
    }
    expect_no_notification();
}

CASE(atomic, 4, "7.5.4: requests are atomic: no increment is lost", .crowded = 8)
{
    enum { COUNT = 200 };
    for (int i = 0; i < COUNT; i++) CHECK(fcaa(0, 1, INT32_MAX, 1, NULL));
    barrier();
    int32_t value;
    CHECK(fcaa(0, 1, INT32_MAX, 0, &value));
    CHECK_EQ(value, COUNT * ranks());
}

CASE(exclusive_and_shared, 4, "tables 7-3 and 7-4: MPI's locks: exclusive, shared and free")
{
    enum { LOCK = 5, ROUNDS = 40 };
    struct memory m = shared(PAGE);
    int32_t n = ranks();
    uint64_t random = 77 + (uint64_t)rank();
    for (int i = 0; i < ROUNDS; i++) {
        if (random_next(&random) % 2) {
            while (!fcaa(0, LOCK, 0, n + 1, NULL)) {}
            uint64_t *mine = (uint64_t *)m.start + 64;
            OK(rma2_post_get_qw(rma(), to(0), m.region, 512, 8, m.of_rank[0], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
            CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_GET_QW_RSP, 0, 0);
            *mine += 1;
            OK(rma2_post_put_qw(rma(), to(0), m.region, 512, 8, m.of_rank[0], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
            /* A later get is answered after the put. */
            OK(rma2_post_get_qw(rma(), to(0), m.region, 1024, 8, m.of_rank[0], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
            CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_GET_QW_RSP, 0, 0);
            CHECK_EQ(((uint64_t *)m.start)[128], *mine);
            CHECK(fcaa(0, LOCK, INT32_MAX, -(n + 1), NULL));
        } else {
            int32_t value;
            while (!fcaa(0, LOCK, n, 1, &value)) {}
            CHECK_OP(value, >=, 1);
            CHECK_OP(value, <=, n);
            CHECK(fcaa(0, LOCK, INT32_MAX, -1, NULL));
            if (i == 0 || random_next(&random) % 2) continue;
        }
    }
    barrier();
    int32_t value;
    CHECK(fcaa(0, LOCK, INT32_MAX, 0, &value));
    CHECK_EQ(value, 0);
}

CASE(post_start_complete_wait, 2, "tables 7-5 and 7-6: MPI's post, start, complete and wait, one variable for each pair")
{
    enum { ROUNDS = 30, LOCK = 9 };
    struct memory m = shared(PAGE);
    volatile uint64_t *word = (volatile uint64_t *)m.start;
    if (rank() == 1) CHECK(fcaa(1, LOCK, 0, 3, NULL)); /* idle */
    barrier();
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        if (rank() == 1) {
            while (!fcaa(1, LOCK, 3, -1, NULL)) {} /* post */
            while (!fcaa(1, LOCK, 0, 3, NULL)) {}  /* wait */
            CHECK_EQ(*word, i);
        } else {
            while (!fcaa(1, LOCK, 2, -1, NULL)) {} /* start */
            OK(rma2_post_immediate_put(rma(), to(1), 8, i, m.of_rank[1], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
            while (!fcaa(1, LOCK, 1, -1, NULL)) {} /* complete */
        }
        /* The comparison is "at most", so a start before the wait would succeed, too (section 7.5.4 does not say so). */
        barrier();
    }
}

CASE(bad_numbers, 2, "a lock that does not exist is refused")
{
    CHECK_EQ(rma2_post_lock(rma(), to(1 - rank()), 1, 1024, 0, 1, RMA2_COMPLETER_NOTIFICATION, 0), RMA2_ERR_INV_VALUE);
    RMA2_Descriptor *desc;
    OK(rma2_desc_alloc(rma(), &desc));
    CHECK_EQ(rma2_desc_set_lock(desc, to(1 - rank()), RMA2_COMPLETER_NOTIFICATION, 0, 1, 1024, 0, 1), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_desc_set_lock(desc, to(1 - rank()), RMA2_COMPLETER_NOTIFICATION, 0, 1, 1u << 24 | 7, 0, 1), RMA2_ERR_INV_VALUE);
    OK(rma2_desc_free(rma(), desc));
}

CASE(refused, 2, "a lock request to a port that is not open is an error, which a match for its lock finds")
{
    RMA2_Handle handle;
    RMA2_Notification *got;
    OK(rma2_connect(rma(), (RMA2_Nodeid)(1 - rank()), rma2_get_proc_num(rma()) - 1, RMA2_CONN_DEFAULT, &handle));
    OK(rma2_post_lock(rma(), handle, 1, 77, 0, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    OK(rma2_noti_lock_match_block(rma(), 77, RMA2_NODEID_ANY, RMA2_VPID_ANY, &got));
    CHECK_EQ(rma2_noti_get_error(got), RMA2_ERROR_RESP);
    CHECK_EQ(rma2_noti_get_lock_number(got), 77);
    CHECK_EQ(rma2_noti_get_lock_result(got), 0);
    OK(rma2_noti_free(rma(), got));
    OK(rma2_disconnect(rma(), handle));
}

CASE(answer_to_a_closed_port, 2, "the answer to a command of a closed port goes to no later port of its VPID")
{
    RMA2_Port port;
    RMA2_Handle handle;
    for (int i = 0; i < 20; i++) {
        OK(rma2_open(&port));
        uint16_t vpid = rma2_get_vpid(port);
        OK(rma2_connect(port, (RMA2_Nodeid)(1 - rank()), rma2_get_vpid(rma()), RMA2_CONN_DEFAULT, &handle));
        OK(rma2_post_lock(port, handle, 1, 1, INT32_MAX, 1, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        OK(rma2_close(port));
        OK(rma2_open(&port));
        CHECK_EQ(rma2_get_vpid(port), vpid);
        barrier();
        sleep_ms(5);
        RMA2_Notification *got;
        CHECK_EQ(rma2_noti_probe(port, &got), RMA2_NO_NOTI);
        OK(rma2_close(port));
    }
}
