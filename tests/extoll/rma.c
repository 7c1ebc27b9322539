/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Puts, gets and their notifications: rma2.h; seed 002, sections 7.5.1 to 7.5.3. */
#include "suite.h"

#define BOTH RMA2_REQCOMPL_NOTIFICATION

CASE(put, 2, "7.5.2: a put writes memory of the target; requester and completer write notifications")
{
    struct memory m = shared(2 * PAGE);
    if (rank() == 0) {
        pattern_fill(m.start, 1000, 1);
        OK(rma2_post_put_bt(rma(), to(1), m.region, 0, 1000, m.of_rank[1] + 3000, BOTH, RMA2_CMD_DEFAULT));
        RMA2_Notification got = next_notification();
        CHECK_NOTIFICATION(got, RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, 1, 0);
        CHECK_EQ(rma2_noti_get_local_address(&got), m.nla);
        CHECK_EQ(rma2_noti_get_size(&got), 1000);
    } else {
        RMA2_Notification got = next_notification();
        CHECK_NOTIFICATION(got, RMA2_COMPLETER_NOTIFICATION, RMA2_BT_PUT, 0, 0);
        CHECK_EQ(rma2_noti_get_local_address(&got), m.nla + 3000);
        CHECK_EQ(rma2_noti_get_size(&got), 1000);
        CHECK_EQ(rma2_noti_get_remote_vpid(&got), rma2_get_vpid(rma()));
        CHECK_PATTERN(m.start + 3000, 1000, 1);
        CHECK_BYTES(m.start, 3000, 0);
        CHECK_BYTES(m.start + 4000, 2 * PAGE - 4000, 0);
    }
    expect_no_notification();
}

CASE(get, 2, "7.5.3: a get reads memory of the target; responder and completer write notifications")
{
    struct memory m = shared(2 * PAGE);
    if (rank() == 1) pattern_fill(m.start + 100, 5000, 2);
    barrier();
    if (rank() == 0) {
        OK(rma2_post_get_bt(rma(), to(1), m.region, 7, 5000, m.of_rank[1] + 100, RMA2_RESPCOMPL_NOTIFICATION, RMA2_CMD_DEFAULT));
        RMA2_Notification got = next_notification();
        CHECK_NOTIFICATION(got, RMA2_COMPLETER_NOTIFICATION, RMA2_GET_BT_RSP, 1, 0);
        CHECK_EQ(rma2_noti_get_local_address(&got), m.nla + 7);
        CHECK_EQ(rma2_noti_get_size(&got), 5000);
        CHECK_PATTERN(m.start + 7, 5000, 2);
        CHECK_BYTES(m.start, 7, 0);
        CHECK_BYTES(m.start + 5007, 2 * PAGE - 5007, 0);
    } else {
        RMA2_Notification got = next_notification();
        CHECK_NOTIFICATION(got, RMA2_RESPONDER_NOTIFICATION, RMA2_BT_GET, 0, 0);
        CHECK_EQ(rma2_noti_get_local_address(&got), m.nla + 100);
    }
    expect_no_notification();
}

CASE(no_notification, 2, "a command that asks for no notification writes none")
{
    struct memory m = shared(PAGE);
    volatile uint64_t *word = (volatile uint64_t *)m.start;
    if (rank() == 0) {
        word[1] = 42;
        OK(rma2_post_put_qw(rma(), to(1), m.region, 8, 8, m.of_rank[1], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    } else {
        long long give_up = now_ms() + WAIT_MS;
        while (word[0] == 0 && now_ms() < give_up) poll_ports();
        CHECK_EQ(word[0], 42);
    }
    expect_no_notification();
}

CASE(every_size, 2, "puts and gets of all sizes around quadwords, lines and pages move exactly their bytes")
{
    static const unsigned sizes[] = {1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 1000, 4095, 4096, 4097, 8191, 8192, 20000, 100000, 1 << 20};
    struct memory m = shared((1 << 20) + 3 * PAGE);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        unsigned size = sizes[i], offset = 4096 - (unsigned)i % 9;
        about("%u bytes", size);
        memset(m.start, 0, (1 << 20) + 3 * PAGE);
        barrier();
        if (rank() == 0) {
            pattern_fill(m.start, size, (unsigned)i);
            OK(rma2_post_put_bt(rma(), to(1), m.region, 0, size, m.of_rank[1] + offset, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        } else {
            CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_BT_PUT, 0, 0);
            CHECK_PATTERN(m.start + offset, size, (unsigned)i);
            CHECK_BYTES(m.start, offset, 0);
            CHECK_BYTES(m.start + offset + size, 64, 0);
        }
        barrier();
        if (rank() == 0) {
            memset(m.start, 0, size + PAGE);
            OK(rma2_post_get_bt(rma(), to(1), m.region, 5, size, m.of_rank[1] + offset, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
            CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_GET_BT_RSP, 1, 0);
            CHECK_PATTERN(m.start + 5, size, (unsigned)i);
            CHECK_BYTES(m.start, 5, 0);
            CHECK_BYTES(m.start + 5 + size, 64, 0);
        }
        barrier();
    }
}

CASE(immediate_put, 2, "7.5.1: an immediate put carries up to 8 bytes in its descriptor")
{
    struct memory m = shared(PAGE);
    for (unsigned count = 1; count <= 8; count++) {
        about("%u bytes", count);
        if (rank() == 0) {
            OK(rma2_post_immediate_put(rma(), to(1), count, 0x8877665544332211ull, m.of_rank[1] + 16 * count, RMA2_COMPLETER_NOTIFICATION,
                                       RMA2_CMD_DEFAULT));
        } else {
            RMA2_Notification got = next_notification();
            CHECK_NOTIFICATION(got, RMA2_COMPLETER_NOTIFICATION, RMA2_IMMEDIATE_PUT, 0, 0);
            CHECK_EQ(rma2_noti_get_size(&got), count);
            CHECK_SAME(m.start + 16 * count, "\x11\x22\x33\x44\x55\x66\x77\x88", count);
            CHECK_BYTES(m.start + 16 * count + count, 8, 0);
        }
    }
}

CASE(notification_put, 2, "7.5.1: a notification put brings 64 bits and a class, and touches no memory")
{
    if (rank() == 0) {
        OK(rma2_post_notification(rma(), to(1), 17, 0x123456789abcdefull, BOTH, RMA2_CMD_DEFAULT));
        RMA2_Notification *got;
        OK(rma2_noti_match_block(rma(), RMA2_NOTIFICATION_PUT, 1, RMA2_VPID_ANY, RMA2_REQUESTER_NOTIFICATION, RMA2_ANY_NLA, 0, &got));
        CHECK_EQ(rma2_noti_get_notiput_class(got), 17);
        OK(rma2_noti_free(rma(), got));
    } else {
        RMA2_Notification *got;
        OK(rma2_noti_noti_match_block(rma(), 17, 0, RMA2_VPID_ANY, &got));
        CHECK_EQ(rma2_noti_get_notiput_payload(got), 0x123456789abcdefull);
        CHECK_EQ(rma2_noti_get_notiput_class(got), 17);
        CHECK_EQ(rma2_noti_get_error(got), 0);
        OK(rma2_noti_free(rma(), got));
        CHECK_EQ(rma2_noti_free(rma(), got), RMA2_ERR_INV_VALUE);
    }
}

CASE(own_node, 1, "at its own node the requester's notification of a command without payload comes before the target's")
{
    struct memory m = registered(PAGE);
    OK(rma2_post_lock(rma(), to(0), 1, 7, 12, 1, RMA2_ALL_NOTIFICATIONS, RMA2_CMD_DEFAULT));
    RMA2_Notification *got;
    static const RMA2_Notification_Spec units[] = {RMA2_REQUESTER_NOTIFICATION, RMA2_RESPONDER_NOTIFICATION, RMA2_COMPLETER_NOTIFICATION};
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        OK(rma2_noti_get_block(rma(), &got));
        CHECK_EQ(rma2_noti_get_notification_type(got), units[i]);
        CHECK_EQ(rma2_noti_get_lock_number(got), 7);
        CHECK_EQ(rma2_noti_get_lock_value(got), i == 0 ? 12 : 1);
        OK(rma2_noti_free(rma(), got));
    }
    OK(rma2_post_immediate_put(rma(), to(0), 8, 3, m.nla + 16, BOTH, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_IMMEDIATE_PUT, 0, 0);
    CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_IMMEDIATE_PUT, 0, 0);
    RMA2_Descriptor empty = {0};
    CHECK_EQ(rma2_post_descriptor(rma(), to(0), &empty), RMA2_ERR_WRONG_CMD);
}

CASE(order, 2, "notifications of one source come in the order of its commands")
{
    enum { COUNT = 1000 };
    struct memory m = shared(PAGE);
    for (uint64_t i = 0; i < COUNT; i++) {
        if (rank() == 0) {
            OK(rma2_post_immediate_put(rma(), to(1), 8, i, m.of_rank[1], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
            OK(rma2_post_notification(rma(), to(1), 9, i, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
            if (i % 100 == 99) barrier();
        } else {
            CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_IMMEDIATE_PUT, 0, 0);
            RMA2_Notification *got;
            OK(rma2_noti_noti_match_block(rma(), 9, 0, RMA2_VPID_ANY, &got));
            CHECK_EQ(rma2_noti_get_notiput_payload(got), i);
            OK(rma2_noti_free(rma(), got));
            if (i % 100 == 99) barrier();
        }
    }
}

CASE(long_put, 2, "a put longer than one descriptor allows is split, and notified once")
{
    enum { BYTES = (8 << 20) + 12345 };
    struct memory m = shared(BYTES);
    if (rank() == 0) {
        pattern_fill(m.start, BYTES, 3);
        OK(rma2_post_put_bt(rma(), to(1), m.region, 0, BYTES, m.of_rank[1], BOTH, RMA2_CMD_DEFAULT));
        CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, 1, 0);
    } else {
        CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_BT_PUT, 0, 0);
        CHECK_PATTERN(m.start, BYTES, 3);
    }
    expect_no_notification();
}

CASE(descriptors, 2, "8.4: a program makes descriptors, and posts them any number of times")
{
    struct memory m = shared(PAGE);
    int free_before, free_after;
    RMA2_Descriptor *desc;
    OK(rma2_desc_query_free(rma(), &free_before));
    OK(rma2_desc_alloc(rma(), &desc));
    OK(rma2_desc_query_free(rma(), &free_after));
    CHECK_EQ(free_after, free_before - 1);
    if (rank() == 0) {
        pattern_fill(m.start, 64, 5);
        OK(rma2_desc_set_put_get(desc, to(1), RMA2_BT_PUT, 64, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT, m.nla, m.of_rank[1] + 64));
        OK(rma2_post_descriptor(rma(), to(1), desc));
        OK(rma2_post_descriptor(rma(), to(1), desc));
        OK(rma2_desc_set_noti_put(desc, to(1), RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT, 5, 1));
        OK(rma2_desc_set_notification_value(desc, 6, 99));
        OK(rma2_post_descriptor(rma(), to(1), desc));
        CHECK_EQ(rma2_desc_set_put_get(desc, to(1), RMA2_LOCK, 64, 0, 0, 0, 0), RMA2_ERR_WRONG_CMD);
        CHECK_EQ(rma2_desc_set_put_get(desc, to(1), RMA2_QW_PUT, 63, 0, 0, 0, 0), RMA2_ERR_INV_VALUE);
        OK(rma2_desc_set_immediate_put(desc, to(1), RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT, 8, m.of_rank[1], 1));
        CHECK_EQ(rma2_desc_set_notification_value(desc, 6, 99), RMA2_ERR_WRONG_CMD);
    } else {
        for (int i = 0; i < 2; i++) CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_BT_PUT, 0, 0);
        CHECK_PATTERN(m.start + 64, 64, 5);
        RMA2_Notification *got;
        OK(rma2_noti_noti_match_block(rma(), 6, 0, RMA2_VPID_ANY, &got));
        CHECK_EQ(rma2_noti_get_notiput_payload(got), 99);
        OK(rma2_noti_free(rma(), got));
    }
    OK(rma2_desc_free(rma(), desc));
}

CASE(full_queue, 2, "a full queue loses notifications and nothing else")
{
    struct memory m = shared(PAGE);
    uint32_t entries = rma2_get_queue_size(rma()) / sizeof(RMA2_Notification);
    if (rank() == 0) {
        for (uint32_t i = 0; i < entries + 10; i++)
            OK(rma2_post_immediate_put(rma(), to(1), 8, i + 1, m.of_rank[1], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        /* A full queue would lose the notification of a barrier of the suite. */
        CHECK_EQ(velorun_barrier(), 0);
        return;
    }
    volatile uint64_t *word = (volatile uint64_t *)m.start;
    long long give_up = now_ms() + WAIT_MS;
    /* A call of velo2 makes progress, and reads no notification. */
    while (*word != entries + 10 && now_ms() < give_up) velo2_check(velo());
    CHECK_EQ(*word, entries + 10);
    uint32_t found = 0;
    RMA2_Notification *got;
    while (rma2_noti_match(rma(), RMA2_IMMEDIATE_PUT, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_ALL_NOTIFICATIONS, RMA2_ANY_NLA, 0, &got) ==
           RMA2_SUCCESS) {
        OK(rma2_noti_free(rma(), got));
        found++;
    }
    CHECK_EQ(found, entries);
    CHECK_EQ(velorun_barrier(), 0);
}

CASE_NIC(absent_target, 2, "a put reaches a target that makes no call meanwhile")
{
    struct memory m = shared(PAGE);
    if (rank() == 0) {
        m.start[0] = 1;
        OK(rma2_post_put_bt(rma(), to(1), m.region, 0, 1, m.of_rank[1], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
        OK(rma2_post_get_bt(rma(), to(1), m.region, 100, 1, m.of_rank[1], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_GET_BT_RSP, 1, 0);
        CHECK_EQ(m.start[100], 1);
    }
    CHECK_EQ(velorun_barrier(), 0);
}
