/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Messages through mailboxes: velo2.h; seed 002, section 7.4. */
#include "suite.h"

CASE(message, 2, "7.4: a message arrives whole, with its source, its tag and its type")
{
    if (rank() == 0) VOK(velo2_send(velo_to(1), "12345678", 8, 77, 2));
    if (rank() == 1) {
        struct message got = next_message();
        CHECK_EQ(got.length, 8);
        CHECK_SAME(got.bytes, "12345678", 8);
        CHECK_EQ(got.source, VELO2_ADDR_PACK(0, velo2_get_vpid(velo())));
        CHECK_EQ(got.tag, 77);
        CHECK_EQ(got.mtt, 2);
    }
}

CASE(every_length, 2, "a message of any length to the longest arrives with its length")
{
    unsigned char sent[VELO2_MTU];
    for (unsigned length = 1; length <= VELO2_MTU; length++) {
        about("%u bytes", length);
        pattern_fill(sent, sizeof sent, length);
        if (rank() == 0)
            while (velo2_send(velo_to(1), sent, length, 0, 0) == VELO2_RET_TRY_AGAIN) poll_ports();
        if (rank() == 1) {
            struct message got = next_message();
            CHECK_EQ(got.length, length);
            CHECK_SAME(got.bytes, sent, length);
        }
    }
}

CASE(order, 2, "messages from one port to another arrive in order, in any number")
{
    enum { COUNT = 5000 };
    for (uint64_t i = 0; i < COUNT; i++) {
        if (rank() == 0) {
            int code;
            while ((code = velo2_send(velo_to(1), &i, 8, (uint8_t)i, i & 3)) == VELO2_RET_TRY_AGAIN) poll_ports();
            CHECK_EQ(code, VELO2_RET_SUCCESS);
        } else {
            struct message got = next_message();
            uint64_t value;
            memcpy(&value, got.bytes, 8);
            CHECK_EQ(value, i);
            CHECK_EQ(got.tag, (uint8_t)i);
            CHECK_EQ(got.mtt, i & 3);
        }
    }
}

CASE(many_to_one, 4, "a mailbox receives from all nodes, each node's messages in order", .crowded = 8)
{
    /* A sender continues when its last messages were answered: a full mailbox of a simulated machine discards. */
    enum { COUNT = 320, CREDITS = 20 };
    if (rank() != 0) {
        for (uint64_t i = 0; i < COUNT; i++) {
            while (velo2_send(velo_to(0), &i, 8, 0, 0) == VELO2_RET_TRY_AGAIN) poll_ports();
            if (i % CREDITS == CREDITS - 1) CHECK_EQ(next_message().tag, 1);
        }
        return;
    }
    uint64_t next[RANKS_MAX] = {0};
    for (int i = 0; i < COUNT * (ranks() - 1); i++) {
        struct message got = next_message();
        uint64_t value;
        memcpy(&value, got.bytes, 8);
        int from = (int)VELO2_ADDR_NODEID(got.source);
        CHECK_OP(from, <, ranks());
        CHECK_EQ(value, next[from]);
        next[from]++;
        if (next[from] % CREDITS == 0) VOK(velo2_send(velo_to(from), &value, 8, 1, 0));
    }
}

CASE_NIC(full_mailbox, 2, "a full mailbox refuses messages and loses none")
{
    uint64_t sent = 0;
    if (rank() == 0) {
        int code;
        while ((code = velo2_send(velo_to(1), &sent, 8, 0, 0)) == VELO2_RET_SUCCESS) sent++;
        CHECK_EQ(code, VELO2_RET_TRY_AGAIN);
        /* The NIC also keeps unanswered messages of a sender on another host. */
        unsigned kept = getenv("SELVEDGE_HOSTS") != NULL ? 64 : 0;
        CHECK_EQ(sent, velo2_get_mailbox_slots(velo()) + kept);
    }
    uint64_t counts[2];
    CHECK_EQ(velorun_exchange(&sent, sizeof sent, counts), 0);
    for (uint64_t i = 0; rank() == 1 && i < counts[0]; i++) {
        struct message got = next_message();
        CHECK_SAME(got.bytes, &i, 8);
    }
    if (rank() == 1) CHECK_EQ(velo2_check(velo()), VELO2_RET_NO_MSG);
    barrier();
    if (rank() == 0) VOK(velo2_send(velo_to(1), &sent, 8, 0, 0));
    if (rank() == 1) CHECK_EQ(next_message().length, 8);
}

CASE(full_mailbox_beside_a_get, 2,
     "an unread mailbox delays neither puts and gets nor their answers", .needs = "mailboxes that refuse")
{
    struct memory m = shared(PAGE);
    enum { COUNT = 300 };
    if (rank() == 0) {
        uint64_t *words = (uint64_t *)m.start, sent = 0;
        while (sent < COUNT && velo2_send(velo_to(1), &sent, 8, 0, 0) != VELO2_RET_TRY_AGAIN) sent++;
        words[0] = 4711;
        words[1] = sent;
    }
    CHECK_EQ(velorun_barrier(), 0);
    if (rank() == 1) {
        OK(rma2_post_get_qw(rma(), to(0), m.region, 8, 16, m.of_rank[0], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        RMA2_Notification *got;
        OK(rma2_noti_match_block(rma(), RMA2_GET_QW_RSP, 0, RMA2_VPID_ANY, RMA2_COMPLETER_NOTIFICATION, RMA2_ANY_NLA, 0, &got));
        OK(rma2_noti_free(rma(), got));
        uint64_t *words = (uint64_t *)m.start;
        CHECK_EQ(words[1], 4711);
        /* All messages are in the mailbox, in order. A sender's share is half of its 256 slots here. */
        CHECK(words[2] >= 128);
        uint64_t value;
        uint32_t length, source;
        for (uint64_t i = 0; i < words[2]; i++) {
            VOK(velo2_recv(velo(), &value, 8, &length, &source, NULL, NULL));
            CHECK_EQ(value, i);
        }
    }
    CHECK_EQ(velorun_barrier(), 0);
    while (rank() == 1 && velo2_check(velo()) == VELO2_RET_SUCCESS) next_message();
}

CASE(own_node, 1, "a port sends to itself")
{
    VOK(velo2_send(velo_to(0), "myself", 7, 3, 1));
    struct message got = next_message();
    CHECK_EQ(got.length, 7);
    CHECK_TEXT((char *)got.bytes, "myself");
}

CASE(matching, 2, "8.3: a matching receive takes the oldest message that matches, and leaves the others in order")
{
    if (rank() == 0)
        for (uint64_t i = 0; i < 6; i++) VOK(velo2_send(velo_to(1), &i, 8, (uint8_t)(i % 3), i & 1));
    barrier();
    if (rank() == 0) return;
    uint32_t length, from;
    uint64_t value;
    static const struct {
        unsigned tag, mtt;
        uint64_t wanted;
    } takes[] = {{2, VELO2_ANY_MTT, 2}, {VELO2_ANY_TAG, 1, 1}, {2, 1, 5}, {VELO2_ANY_TAG, VELO2_ANY_MTT, 0}};
    for (size_t i = 0; i < COUNT_OF(takes); i++) {
        int code;
        do code = velo2_match_recv(velo(), VELO2_ANY_SOURCE, takes[i].tag, takes[i].mtt, &value, 8, &length, &from);
        while (code == VELO2_RET_NO_MSG);
        CHECK_EQ(code, VELO2_RET_SUCCESS);
        CHECK_EQ(value, takes[i].wanted);
        CHECK_EQ(length, 8);
    }
    CHECK_EQ(velo2_match_recv(velo(), VELO2_ANY_SOURCE, 9, VELO2_ANY_MTT, &value, 8, &length, &from), VELO2_RET_NO_MATCH);
    CHECK_SAME(next_message().bytes, &(uint64_t){3}, 8);
    CHECK_SAME(next_message().bytes, &(uint64_t){4}, 8);
    CHECK_EQ(velo2_match_recv(velo(), VELO2_ANY_SOURCE, 9, VELO2_ANY_MTT, &value, 8, &length, &from), VELO2_RET_NO_MSG);
}

CASE(several_ports, 2, "a node has several ports, each with a mailbox of its own")
{
    velo2_port_t other;
    VOK(velo2_open(&other));
    CHECK(other.vpid != velo()->vpid);
    uint32_t all[RANKS_MAX];
    exchange(&other.vpid, sizeof other.vpid, all);
    velo2_connection_t there;
    VOK(velo2_connect(velo(), &there, (velo2_nodeid_t)(1 - rank()), all[1 - rank()]));
    uint64_t value = (uint64_t)rank();
    VOK(velo2_send(&there, &value, 8, 0, 0));
    barrier();
    CHECK_EQ(velo2_check(velo()), VELO2_RET_NO_MSG);
    uint32_t length, source;
    VOK(velo2_recv(&other, &value, 8, &length, &source, NULL, NULL));
    CHECK_EQ(value, 1 - rank());
    CHECK_EQ(source, VELO2_ADDR_PACK(1 - rank(), velo2_get_vpid(velo())));
    VOK(velo2_disconnect(velo(), &there));
    VOK(velo2_close(&other));
}

CASE(full_mailbox_beside_another, 2,
     "a full, unread port delays no other port of its node", .needs = "mailboxes that refuse")
{
    enum { COUNT = 200 };
    velo2_port_t other;
    VOK(velo2_open(&other));
    uint32_t all[RANKS_MAX], length, source;
    exchange(&other.vpid, sizeof other.vpid, all);
    velo2_connection_t there;
    VOK(velo2_connect(velo(), &there, (velo2_nodeid_t)(1 - rank()), all[1 - rank()]));
    uint64_t sent = 0, value;
    if (rank() == 0) {
        while (sent < 1000 && velo2_send(&there, &sent, 8, 0, 0) != VELO2_RET_TRY_AGAIN) sent++;
        for (uint64_t i = 0; i < COUNT; i++)
            while (velo2_send(velo_to(1), &i, 8, 0, 0) == VELO2_RET_TRY_AGAIN) poll_ports();
        VOK(velo2_send(velo_to(1), &sent, 8, 1, 0));
    } else {
        for (uint64_t i = 0; i < COUNT; i++) {
            struct message got = next_message();
            CHECK_SAME(got.bytes, &i, 8);
        }
        struct message last = next_message();
        memcpy(&sent, last.bytes, 8);
        for (uint64_t i = 0; i < sent; i++) {
            VOK(velo2_recv(&other, &value, 8, &length, &source, NULL, NULL));
            CHECK_EQ(value, i);
        }
    }
    barrier();
    VOK(velo2_disconnect(velo(), &there));
    VOK(velo2_close(&other));
}

CASE(reopened_port, 2, "a port that is closed and opened again gets only messages sent to it afterwards")
{
    velo2_port_t mine;
    VOK(velo2_open(&mine));
    uint32_t vpid = mine.vpid, length, source, all[RANKS_MAX];
    exchange(&vpid, sizeof vpid, all);
    velo2_connection_t there;
    VOK(velo2_connect(velo(), &there, (velo2_nodeid_t)(1 - rank()), all[1 - rank()]));
    uint64_t value = 0;
    for (uint64_t round = 1; round <= 3; round++) {
        for (uint64_t i = 0; i < 3; i++) VOK(velo2_send(&there, &(uint64_t){10 * round + i}, 8, 0, 0));
        VOK(velo2_recv(&mine, &value, 8, &length, &source, NULL, NULL));
        CHECK_EQ(value, 10 * round);
        barrier();
        VOK(velo2_close(&mine));
        CHECK_EQ(velo2_probe_recv(&mine, &value, 8, &length, &source, NULL, NULL), VELO2_RET_INVALID_MBOX);
        barrier();
        VOK(velo2_send(&there, &value, 8, 0, 0)); /* discarded */
        barrier();
        VOK(velo2_open_vpid(&mine, vpid));
        CHECK_EQ(velo2_check(&mine), VELO2_RET_NO_MSG);
        barrier();
    }
    VOK(velo2_close(&mine));
}

CASE(both_send_first, 2, "two ports that send each other more than either has room for, and receive later, lose nothing", .needs = "mailboxes that refuse")
{
    enum { COUNT = 1500 };
    for (uint64_t i = 0; i < COUNT; i++) VOK(velo2_send(velo_to(1 - rank()), &i, 8, 0, 0));
    for (uint64_t i = 0; i < COUNT; i++) CHECK_SAME(next_message().bytes, &i, 8);
    CHECK_EQ(velo2_check(velo()), VELO2_RET_NO_MSG);
}

CASE(more_senders_than_rings, 7, "messages of more senders than a node has rings for arrive, each sender's in order",
     .needs = "mailboxes that refuse")
{
    enum { PORTS = 12, COUNT = 40 };
    if (rank() != 0) {
        velo2_port_t ports[PORTS];
        velo2_connection_t there[PORTS];
        for (int p = 0; p < PORTS; p++) {
            VOK(velo2_open(&ports[p]));
            VOK(velo2_connect(&ports[p], &there[p], 0, velo2_get_vpid(velo())));
        }
        for (uint64_t i = 0; i < COUNT; i++)
            for (int p = 0; p < PORTS; p++)
                while (velo2_send(&there[p], &i, 8, 0, 0) == VELO2_RET_TRY_AGAIN) poll_ports();
        barrier();
        for (int p = 0; p < PORTS; p++) VOK(velo2_close(&ports[p]));
        return;
    }
    static uint64_t next[RANKS_MAX][64];
    memset(next, 0, sizeof next);
    for (int i = 0; i < COUNT * PORTS * (ranks() - 1); i++) {
        struct message got = next_message();
        uint64_t *wanted = &next[VELO2_ADDR_NODEID(got.source)][VELO2_ADDR_VPID(got.source) % 64];
        CHECK_SAME(got.bytes, wanted, 8);
        (*wanted)++;
    }
    barrier();
}

CASE(all_ports, 1, "all ports of a node can be open; the next is refused; a closed one can be opened again")
{
    velo2_port_t ports[256];
    uint32_t count = 0, most = velo2_get_proc_num(velo());
    velo2_ret_t code;
    while ((code = velo2_open(&ports[count])) == VELO2_RET_SUCCESS) count++;
    CHECK_EQ(code, VELO2_RET_INVALID_MBOX);
    CHECK_EQ(count, most - 2); /* the suite has two */
    VOK(velo2_close(&ports[1]));
    CHECK_EQ(velo2_open_vpid(&ports[1], ports[0].vpid), VELO2_RET_INVALID_MBOX);
    VOK(velo2_open(&ports[1]));
    for (uint32_t i = 0; i < count; i++) VOK(velo2_close(&ports[i]));
}

CASE(all_ports_under_load, 3,
     "section 7.4: messages between all ports of all nodes at once arrive, each pair's in order")
{
    enum { COUNT = 12, PORTS_MAX = 256 };
    static velo2_port_t ports[PORTS_MAX];
    static velo2_connection_t there[PORTS_MAX][RANKS_MAX];
    static uint64_t next[RANKS_MAX];
    int open = 0;
    CHECK(velo2_get_proc_num(velo()) >= 32);
    while (velo2_open(&ports[open]) == VELO2_RET_SUCCESS) open++;
    for (int p = 0; p < open; p++)
        for (int r = 0; r < ranks(); r++)
            if (r != rank()) VOK(velo2_connect(&ports[p], &there[p][r], (velo2_nodeid_t)r, ports[p].vpid));
    barrier();
    for (uint64_t i = 0; i < COUNT; i++)
        for (int p = 0; p < open; p++)
            for (int r = 0; r < ranks(); r++)
                if (r != rank()) VOK(velo2_send(&there[p][r], &i, 8, (uint8_t)p, i & 3));
    for (int p = 0; p < open; p++) {
        memset(next, 0, sizeof next);
        for (int k = 0; k < COUNT * (ranks() - 1); k++) {
            uint64_t value;
            uint32_t length, source;
            uint8_t tag, mtt;
            VOK(velo2_recv(&ports[p], &value, 8, &length, &source, &tag, &mtt));
            uint64_t *wanted = &next[VELO2_ADDR_NODEID(source)];
            CHECK_EQ(value, *wanted);
            CHECK_EQ(tag, p);
            CHECK_EQ(mtt, *wanted & 3);
            CHECK_EQ(VELO2_ADDR_VPID(source), ports[p].vpid);
            (*wanted)++;
        }
    }
    barrier();
    for (int p = 0; p < open; p++) VOK(velo2_close(&ports[p]));
}

CASE(bad_input, 2, "bad arguments give the library's codes, and disturb nothing else")
{
    char buffer[256] = "";
    uint32_t length, source;
    CHECK_EQ(velo2_send(velo_to(1 - rank()), buffer, 0, 0, 0), VELO2_RET_INV_MSG);
    CHECK_EQ(velo2_send(velo_to(1 - rank()), buffer, VELO2_MTU + 1, 0, 0), VELO2_RET_INV_MSG);
    CHECK_EQ(velo2_send(velo_to(1 - rank()), NULL, 8, 0, 0), VELO2_RET_INV_MSG);
    CHECK_EQ(velo2_send(velo_to(1 - rank()), buffer, 8, 0, 4), VELO2_RET_INV_MTT);
    CHECK_EQ(velo2_send(NULL, buffer, 8, 0, 0), VELO2_RET_INVALID_MBOX);
    velo2_connection_t nowhere = {0};
    CHECK_EQ(velo2_send(&nowhere, buffer, 8, 0, 0), VELO2_RET_INVALID_MBOX);
    CHECK_EQ(velo2_connect(velo(), &nowhere, velo2_get_node_num(velo()), 0), VELO2_RET_INVALID_NODE);
    CHECK_EQ(velo2_connect(velo(), &nowhere, 0, velo2_get_proc_num(velo())), VELO2_RET_INVALID_MBOX);
    velo2_port_t closed = {0};
    CHECK_EQ(velo2_probe_recv(&closed, buffer, 8, &length, &source, NULL, NULL), VELO2_RET_INVALID_MBOX);
    CHECK_EQ(velo2_close(&closed), VELO2_RET_INVALID_MBOX);
    CHECK_EQ(velo2_open(NULL), VELO2_RET_INVALID_MBOX);
    velo2_connection_t unopened;
    VOK(velo2_connect(velo(), &unopened, (velo2_nodeid_t)(1 - rank()), velo2_get_proc_num(velo()) - 1));
    VOK(velo2_send(&unopened, buffer, 8, 0, 0));
    barrier();
    CHECK_EQ(velo2_check(velo()), VELO2_RET_NO_MSG);
    barrier();
    VOK(velo2_send(velo_to(1 - rank()), "still", 6, 0, 0));
    CHECK_TEXT((char *)next_message().bytes, "still");
}
