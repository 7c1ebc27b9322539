/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * PALMS: atoll.h; seed 002, section 2.2.
 *
 * Each rank has a port, here(), and connections to all ranks, made by family_begin and join(). A rank whose atoll_recv others feed must
 * not wait in barrier() while they send: barriers do not receive.
 */
#include "suite.h"

#include <atoll.h>

enum { LONG_MAX_BYTES = 3 << 20 };

static Atoll_Port port;
static Atoll_Id ids[RANKS_MAX];
static Atoll_Handle handles[RANKS_MAX];
static unsigned char sent[LONG_MAX_BYTES], found[LONG_MAX_BYTES + 8];

#define AOK(call) check_eq_at(__FILE__, __LINE__, #call, (unsigned long long)(call), "ATOLL_SUCCESS", ATOLL_SUCCESS)
#define CODE(call) ((unsigned long long)(call))

void family_begin(void)
{
    if (getenv("ATOLL_LATE") == NULL) AOK(atoll_open(&port));
}

void family_end(void)
{
    barrier();
    if (port != NULL) AOK(atoll_close(port));
    port = NULL;
}

static void join(void)
{
    Atoll_Id mine;
    AOK(atoll_get_id(port, &mine));
    exchange(&mine, sizeof mine, ids);
    for (int i = 0; i < ranks(); i++) AOK(atoll_connect(port, ids[i], &handles[i]));
    barrier();
}

static size_t whole(size_t bytes) { return (bytes + 7) / 8 * 8; }

/* Sends a message whose size and tag determine its bytes. */
static void send_to(int to, size_t header, size_t data, uint32_t tag)
{
    pattern_fill(sent, header, tag);
    pattern_fill(sent + header, data, tag + 1);
    AOK(atoll_send(port, handles[to], sent, header, sent + header, data, tag));
}

static void expect_from(Atoll_Id from, size_t header, size_t data, uint32_t tag)
{
    size_t header_room = whole(header), data_room = whole(data);
    uint32_t got_tag;
    Atoll_Id source;
    memset(found, 0xee, whole(header) + whole(data) + 8);
    AOK(atoll_recv(port, from, found, &header_room, found + whole(header), &data_room, &got_tag, &source));
    CHECK_EQ(got_tag, tag);
    CHECK_EQ(header_room, whole(header));
    CHECK_EQ(data_room, whole(data));
    if (from != ATOLL_ANY) CHECK_EQ(source, from);
    CHECK_PATTERN(found, header, tag);
    CHECK_BYTES(found + header, whole(header) - header, 0);
    CHECK_PATTERN(found + whole(header), data, tag + 1);
    CHECK_BYTES(found + whole(header) + data, whole(data) - data, 0);
    CHECK_BYTES(found + whole(header) + whole(data), 8, 0xee);
}

CASE(message, 2, "2.2.2: a message arrives with its header, its data, its tag and its source")
{
    join();
    if (rank() == 0) AOK(atoll_send(port, handles[1], "head", 4, "some data", 9, 0xfeedbeef));
    if (rank() == 1) {
        char header[8], data[16];
        size_t header_bytes = sizeof header, data_bytes = sizeof data;
        uint32_t tag;
        Atoll_Id source;
        AOK(atoll_recv(port, ATOLL_ANY, header, &header_bytes, data, &data_bytes, &tag, &source));
        CHECK_EQ(header_bytes, 8);
        CHECK_EQ(data_bytes, 16);
        CHECK_SAME(header, "head\0\0\0\0", 8);
        CHECK_SAME(data, "some data\0\0\0\0\0\0\0", 16);
        CHECK_EQ(tag, 0xfeedbeef);
        CHECK_EQ(source, ids[0]);
    }
}

CASE(every_size, 2, "a message of any size arrives whole, padded with zeroes to 64 bits")
{
    join();
    static const size_t longer[] = {1000, 4095, 4097, 8192, 16383, 16384, 16385, 32768 + 9, 100000, 262144 + 1, 524288, 524289, 600001, LONG_MAX_BYTES - 3};
    for (size_t i = 0; i <= 450 + COUNT_OF(longer); i++) {
        size_t data = i <= 450 ? i : longer[i - 451], header = i % 23;
        if (data + header > LONG_MAX_BYTES) header = 0;
        about("%zu and %zu bytes", header, data);
        if (rank() == 0) send_to(1, header, data, (uint32_t)i);
        else expect_from(ids[0], header, data, (uint32_t)i);
    }
}

CASE(long_header, 2, "a header may be as long as data")
{
    join();
    static const size_t headers[] = {97, 5000, 40000, 1000001};
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        if (rank() == 0) send_to(1, headers[i], 12345, (uint32_t)i);
        else expect_from(ids[0], headers[i], 12345, (uint32_t)i);
    }
}

CASE(unaligned, 2, "2.2.2: a 3-byte message may be received into a 3-byte buffer; its size is 8")
{
    join();
    if (rank() == 0) AOK(atoll_send(port, handles[1], NULL, 0, "abc", 3, 1));
    if (rank() == 1) {
        char data[4] = "....";
        size_t bytes = 3;
        AOK(atoll_recv(port, ids[0], NULL, NULL, data, &bytes, NULL, NULL));
        CHECK_EQ(bytes, 8);
        CHECK_SAME(data, "abc.", 4);
    }
}

CASE(cut, 2, "a message longer than its buffer is cut, and the next message is not affected")
{
    join();
    static const size_t sizes[] = {20, 300, 5000, 50000, 1000000};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (rank() == 0) {
            send_to(1, 16, sizes[i], 7);
            send_to(1, 0, 5, 8);
            continue;
        }
        size_t header_room = 8, room = 11;
        memset(found, 0xee, 64);
        AOK(atoll_recv(port, ids[0], found + 32, &header_room, found, &room, NULL, NULL));
        CHECK_EQ(header_room, 16);
        CHECK_EQ(room, whole(sizes[i]));
        CHECK_PATTERN(found, 11, 8);
        CHECK_BYTES(found + 11, 21, 0xee);
        CHECK_PATTERN(found + 32, 8, 7);
        CHECK_BYTES(found + 40, 24, 0xee);
        expect_from(ids[0], 0, 5, 8);
    }
}

CASE(order, 2, "messages through one connection arrive in order, in any number and size")
{
    join();
    static const size_t sizes[] = {0, 8, 80, 90, 300, 500, 2000, 20000, 1, 70000, 0, 3};
    for (uint32_t i = 0; i < 1200; i++) {
        if (rank() == 0) send_to(1, i % 5, sizes[i % COUNT_OF(sizes)], i);
        else expect_from(i % 2 == 0 ? ATOLL_ANY : ids[0], i % 5, sizes[i % COUNT_OF(sizes)], i);
    }
}

CASE(many_to_one, 4, "a port receives from all nodes, each node's messages in order")
{
    join();
    enum { COUNT = 300 };
    if (rank() != 0) {
        for (uint32_t i = 0; i < COUNT; i++) send_to(0, 0, i % 50 == 0 ? 30000 : i % 150, i);
        return;
    }
    uint32_t next[RANKS_MAX] = {0};
    for (int i = 0; i < COUNT * (ranks() - 1); i++) {
        size_t room = sizeof found;
        uint32_t tag;
        Atoll_Id source;
        AOK(atoll_recv(port, ATOLL_ANY, NULL, NULL, found, &room, &tag, &source));
        uint32_t from = ATOLL_ID_NODE(source);
        CHECK_OP(from, <, (uint32_t)ranks());
        CHECK_EQ(tag, next[from]);
        size_t bytes = tag % 50 == 0 ? 30000 : tag % 150;
        CHECK_EQ(room, whole(bytes));
        CHECK_PATTERN(found, bytes, tag + 1);
        next[from]++;
    }
}

CASE(both_send_first, 2,
     "two ports that send each other more than either has room for, and receive later, lose nothing")
{
    join();
    enum { COUNT = 1500 };
    int other = 1 - rank();
    for (uint32_t i = 0; i < COUNT; i++) send_to(other, 0, i % 200, i);
    send_to(other, 8, LONG_MAX_BYTES - 8, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) expect_from(ids[other], 0, i % 200, i);
    expect_from(ids[other], 8, LONG_MAX_BYTES - 8, COUNT);
}

CASE(ring_of_long_messages, 5, "all ranks send a long message to the next one at once")
{
    join();
    for (uint32_t i = 0; i < 3; i++) {
        send_to((rank() + 1) % ranks(), i, 1000000, i);
        expect_from(ids[(rank() + ranks() - 1) % ranks()], i, 1000000, i);
    }
}

CASE(own_port, 1, "a port sends to itself, also more than it has room for")
{
    join();
    send_to(0, 3, 100, 1);
    expect_from(ids[0], 3, 100, 1);
    send_to(0, 3, LONG_MAX_BYTES - 3, 2);
    expect_from(ATOLL_ANY, 3, LONG_MAX_BYTES - 3, 2);
}

CASE(matching, 3, "2.2.2: a receive takes the next message of the peer that it names, and leaves the others in order")
{
    join();
    enum { COUNT = 60 };
    if (rank() != 0) {
        for (uint32_t i = 0; i < COUNT; i++) send_to(0, 0, i * 40, i);
        return;
    }
    for (uint32_t i = 0; i < COUNT; i++) expect_from(ids[2], 0, i * 40, i);
    size_t room = sizeof found;
    CHECK_EQ(CODE(atoll_recv_nb(port, ids[2], NULL, NULL, found, &room, NULL, NULL)), ATOLL_ERR_NO_MESSAGE);
    for (uint32_t i = 0; i < COUNT; i++) expect_from(i % 3 == 0 ? ids[1] : ATOLL_ANY, 0, i * 40, i);
}

CASE(without_waiting, 2, "2.2.2: a non-blocking receive takes a message that has arrived, also a long one")
{
    join();
    size_t room = sizeof found;
    CHECK_EQ(CODE(atoll_recv_nb(port, ATOLL_ANY, NULL, NULL, found, &room, NULL, NULL)), ATOLL_ERR_NO_MESSAGE);
    barrier();
    if (rank() == 0) {
        send_to(1, 0, 17, 1);
        send_to(1, 0, LONG_MAX_BYTES, 2);
        return;
    }
    static const size_t sizes[] = {17, LONG_MAX_BYTES};
    for (uint32_t i = 0; i < 2; i++) {
        int code;
        do {
            room = sizeof found;
            code = atoll_recv_nb(port, i == 0 ? ids[0] : ATOLL_ANY, NULL, NULL, found, &room, NULL, NULL);
        } while (code == ATOLL_ERR_NO_MESSAGE);
        AOK(code);
        CHECK_EQ(room, whole(sizes[i]));
        CHECK_PATTERN(found, sizes[i], i + 2);
    }
}

CASE(building_blocks, 2, "figures 2-4 and 2-5: a message is built of header, parts and fields, and received by match, copy and free")
{
    join();
    static const size_t sizes[] = {0, 1, 50, 120, 350, 1000, 16384, 50000, 400000};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        size_t data = sizes[i], header = i * 3;
        about("%zu and %zu bytes", header, data);
        Atoll_Descriptor message;
        if (rank() == 0) {
            pattern_fill(sent, header, i);
            pattern_fill(sent + header, data, i + 1);
            AOK(atoll_send_malloc(port, header, data, &message));
            AOK(atoll_copy_h(port, message, sent, header));
            size_t third = data / 3;
            AOK(atoll_copy(port, message, sent + header, third));
            struct iovec parts[] = {{sent + header + third, third}, {NULL, 0}, {sent + header + 2 * third, data - 2 * third}};
            AOK(atoll_cpyv(port, message, parts, 3));
            AOK(atoll_set_handle(message, handles[1]));
            AOK(atoll_set_tag(message, i));
            AOK(atoll_set_source(message, ids[0]));
            CHECK_EQ(atoll_get_handle(message), handles[1]);
            CHECK_EQ(atoll_get_tag(message), i);
            CHECK_EQ(atoll_get_source(message), ids[0]);
            CHECK_EQ(atoll_get_header_length(message), header);
            CHECK_EQ(atoll_get_length(message), data);
            AOK(atoll_send_commit(port, message));
            CHECK_EQ(CODE(atoll_send_commit(port, message)), ATOLL_ERR_DESCRIPTOR);
            continue;
        }
        int code;
        while ((code = atoll_match(port, ids[0], &message)) == ATOLL_ERR_NO_MESSAGE) continue;
        AOK(code);
        CHECK_EQ(atoll_get_tag(message), i);
        CHECK_EQ(atoll_get_source(message), ids[0]);
        CHECK_EQ(atoll_get_handle(message), 0);
        CHECK_EQ(atoll_get_header_length(message), whole(header));
        CHECK_EQ(atoll_get_length(message), whole(data));
        CHECK_EQ(CODE(atoll_set_tag(message, 1)), ATOLL_ERR_DESCRIPTOR);
        size_t size;
        AOK(atoll_recv_copy(port, message, found, data, &size));
        CHECK_EQ(size, whole(data));
        CHECK_PATTERN(found, data, i + 1);
        AOK(atoll_recv_copy_h(port, message, found, header, &size));
        CHECK_EQ(size, whole(header));
        CHECK_PATTERN(found, header, i);
        AOK(atoll_recv_free(port, message));
        CHECK_EQ(CODE(atoll_recv_free(port, message)), ATOLL_ERR_DESCRIPTOR);
    }
}

CASE(lengths, 2, "a message under construction may become shorter; bytes that are not copied are zero")
{
    join();
    if (rank() == 0) {
        Atoll_Descriptor message;
        memset(sent, 0xaa, 4000);
        for (int i = 0; i < 3; i++) { /* leave something in the send area */
            AOK(atoll_send_malloc(port, 0, 4000, &message));
            AOK(atoll_copy(port, message, sent, 4000));
            AOK(atoll_send_free(port, message));
        }
        AOK(atoll_send_malloc(port, 16, 2000, &message));
        AOK(atoll_set_header_length(message, 8));
        AOK(atoll_set_length(message, 1000));
        CHECK_EQ(CODE(atoll_copy_h(port, message, sent, 9)), ATOLL_ERR_SIZE);
        AOK(atoll_copy_h(port, message, sent, 5));
        CHECK_EQ(CODE(atoll_set_header_length(message, 4)), ATOLL_ERR_SIZE);
        AOK(atoll_copy(port, message, sent, 700));
        CHECK_EQ(CODE(atoll_copy(port, message, sent, 301)), ATOLL_ERR_SIZE);
        struct iovec parts[] = {{sent, 200}, {sent, 101}};
        CHECK_EQ(CODE(atoll_cpyv(port, message, parts, 2)), ATOLL_ERR_SIZE);
        CHECK_EQ(CODE(atoll_set_length(message, 2009)), ATOLL_ERR_SIZE);
        AOK(atoll_set_length(message, 900));
        AOK(atoll_set_handle(message, handles[1]));
        AOK(atoll_send_commit(port, message));
    } else {
        size_t header = 8, data = 904;
        AOK(atoll_recv(port, ids[0], found, &header, found + 8, &data, NULL, NULL));
        CHECK_EQ(header, 8);
        CHECK_EQ(data, 904);
        CHECK_BYTES(found, 5, 0xaa);
        CHECK_BYTES(found + 5, 3, 0);
        CHECK_BYTES(found + 8, 700, 0xaa);
        CHECK_BYTES(found + 708, 204, 0);
    }
}

CASE(fast, 2, "2.2.2: a fast message carries 32 bits in its tag; others stay for a full receive")
{
    join();
    enum { COUNT = 500 };
    int other = 1 - rank();
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t operand;
        Atoll_Id source;
        AOK(atoll_fast_send(port, handles[other], i * 0x01010101u));
        AOK(atoll_fast_recv(port, i % 2 == 0 ? ids[other] : ATOLL_ANY, &operand, &source));
        CHECK_EQ(operand, i * 0x01010101u);
        CHECK_EQ(source, ids[other]);
    }
    send_to(other, 0, 40, 3);
    AOK(atoll_fast_send(port, handles[other], 4));
    uint32_t operand;
    CHECK_EQ(CODE(atoll_fast_recv(port, ids[other], &operand, NULL)), ATOLL_ERR_NOT_FAST);
    CHECK_EQ(CODE(atoll_fast_recv(port, ATOLL_ANY, &operand, NULL)), ATOLL_ERR_NOT_FAST);
    expect_from(ids[other], 0, 40, 3);
    /* A full receive takes a fast message, too. */
    expect_from(ids[other], 0, 0, 4);
}

CASE(multicast, 4, "2.2.2: a multicast reaches every connection that it names")
{
    join();
    static const size_t sizes[] = {0, 50, 2000, 1500000};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        if (rank() == 0) {
            pattern_fill(sent, 5, i);
            pattern_fill(sent + 5, sizes[i], i + 1);
            AOK(atoll_multicast(port, handles + 1, (unsigned)ranks() - 1, sent, 5, sent + 5, sizes[i], i));
        } else {
            /* The last rank receives last: the others must not wait for it. */
            if (rank() == ranks() - 1) expect_from(ids[1], 0, 0, i);
            expect_from(ids[0], 5, sizes[i], i);
            if (rank() == 1) send_to(ranks() - 1, 0, 0, i);
        }
    }
    if (rank() == 0) AOK(atoll_multicast(port, NULL, 0, NULL, 0, NULL, 0, 0));
}

CASE(held, 3, "messages that are matched and not freed hold up their sender only, and may be freed in any order")
{
    join();
    enum { MOST = 64 };
    Atoll_Resources has;
    AOK(atoll_resources(port, &has));
    int count = (int)has.pieces;
    CHECK_OP(count, <=, MOST);
    if (rank() == 1) {
        for (int i = 0; i < 3 * count; i++) send_to(0, 0, 48, (uint32_t)i);
    } else if (rank() == 2) {
        expect_from(ids[0], 0, 0, 1);
        for (int i = 0; i < 3 * count; i++) send_to(0, 0, 700, (uint32_t)i);
    } else {
        Atoll_Descriptor messages[MOST], other;
        for (int i = 0; i < count; i++) {
            int code;
            while ((code = atoll_match(port, ids[1], &messages[i])) == ATOLL_ERR_NO_MESSAGE) continue;
            AOK(code);
            CHECK_EQ(atoll_get_tag(messages[i]), i);
        }
        size_t room = sizeof found;
        CHECK_EQ(CODE(atoll_match(port, ids[1], &other)), ATOLL_ERR_NO_MESSAGE);
        CHECK_EQ(CODE(atoll_recv(port, ids[1], NULL, NULL, found, &room, NULL, NULL)), ATOLL_ERR_HELD);
        AOK(atoll_fast_send(port, handles[2], 1));
        for (int i = 0; i < 3 * count; i++) expect_from(ids[2], 0, 700, (uint32_t)i);
        for (int i = 0; i < count; i++) {
            int which = (i * 5 + 3) % count;
            AOK(atoll_recv_copy(port, messages[which], found, 48, NULL));
            CHECK_PATTERN(found, 48, (unsigned)which + 1);
        }
        for (int i = count - 1; i >= 0; i -= 2) AOK(atoll_recv_free(port, messages[i]));
        for (int i = count - 2; i >= 0; i -= 2) AOK(atoll_recv_free(port, messages[i]));
        for (int i = count; i < 3 * count; i++) expect_from(ids[1], 0, 48, (uint32_t)i);
    }
}

CASE(send_area, 2,
     "a full send area refuses further messages until some are committed or freed; complete sends still work")
{
    join();
    Atoll_Resources has;
    AOK(atoll_resources(port, &has));
    CHECK_EQ(has.build_bytes, has.build_bytes_max);
    enum { MOST = 256 };
    Atoll_Descriptor messages[MOST];
    if (rank() == 0) {
        CHECK_EQ(CODE(atoll_send_malloc(port, 0, has.build_bytes_max + 1, &messages[0])), ATOLL_ERR_SIZE);
        AOK(atoll_send_malloc(port, 0, has.build_bytes_max, &messages[0]));
        CHECK_EQ(CODE(atoll_send_malloc(port, 0, 1, &messages[1])), ATOLL_ERR_NO_SPACE);
        AOK(atoll_send_free(port, messages[0]));
        int count = 0, code;
        while ((code = atoll_send_malloc(port, 0, has.mtu_bytes, &messages[count])) == ATOLL_SUCCESS) count++;
        CHECK_EQ(code, ATOLL_ERR_NO_SPACE);
        CHECK_EQ((size_t)count * has.mtu_bytes, has.build_bytes_max);
        send_to(1, 0, 200000, 5);
        for (int i = 0; i < count; i++) {
            pattern_fill(sent, has.mtu_bytes, (unsigned)i);
            AOK(atoll_copy(port, messages[i], sent, has.mtu_bytes));
            AOK(atoll_set_tag(messages[i], (uint32_t)i));
            AOK(atoll_set_handle(messages[i], handles[1]));
            AOK(atoll_send_commit(port, messages[i]));
        }
        AOK(atoll_fast_send(port, handles[1], (uint32_t)count));
        uint32_t done;
        AOK(atoll_fast_recv(port, ids[1], &done, NULL));
        AOK(atoll_resources(port, &has));
        CHECK_EQ(has.build_bytes, has.build_bytes_max);
        return;
    }
    expect_from(ids[0], 0, 200000, 5);
    for (uint32_t i = 0;; i++) {
        size_t room = sizeof found;
        uint32_t tag;
        AOK(atoll_recv(port, ids[0], NULL, NULL, found, &room, &tag, NULL));
        CHECK_EQ(tag, i);
        if (room == 0) break;
        CHECK_PATTERN(found, room, i);
    }
    AOK(atoll_fast_send(port, handles[0], 1));
}

CASE(connections, 2, "connections may be made and ended many times; those to one port share order; an ended one is refused")
{
    join();
    int other = 1 - rank();
    Atoll_Handle second, old;
    AOK(atoll_connect(port, ids[other], &second));
    AOK(atoll_disconnect(port, handles[other]));
    send_to(other, 0, 10, 1);
    AOK(atoll_disconnect(port, second));
    CHECK_EQ(CODE(atoll_disconnect(port, second)), ATOLL_ERR_HANDLE);
    CHECK_EQ(CODE(atoll_fast_send(port, second, 1)), ATOLL_ERR_HANDLE);
    expect_from(ids[other], 0, 10, 1);
    for (uint32_t i = 0; i < 100; i++) {
        old = handles[other];
        AOK(atoll_connect(port, ids[other], &handles[other]));
        CHECK(handles[other] != old && handles[other] != 0);
        CHECK_EQ(CODE(atoll_fast_send(port, old, 1)), ATOLL_ERR_HANDLE);
        send_to(other, 0, i * 90, i);
        AOK(atoll_disconnect(port, handles[other]));
        expect_from(ids[other], 0, i * 90, i);
    }
    AOK(atoll_connect(port, ids[other], &handles[other]));
}

CASE(left_messages, 2, "messages sent before a disconnect arrive, in order with those sent after another connect")
{
    join();
    enum { ROUNDS = 20, EACH = 10 };
    if (rank() == 0) {
        for (uint32_t i = 0; i < ROUNDS; i++) {
            for (uint32_t k = 0; k < EACH; k++) send_to(1, 0, k * 100, i * EACH + k);
            AOK(atoll_disconnect(port, handles[1]));
            /* The peer returns a channel when it has read all of it. */
            int code;
            while ((code = atoll_connect(port, ids[1], &handles[1])) == ATOLL_ERR_NO_ROUTE) atoll_poll(port);
            AOK(code);
        }
        return;
    }
    for (uint32_t i = 0; i < ROUNDS * EACH; i++) expect_from(ids[0], 0, i % EACH * 100, i);
}

CASE(closed_peer, 2, "2.3: a peer that closes its port invalidates the route; sends then fail, and a new connection works")
{
    join();
    if (rank() == 0) {
        expect_from(ids[1], 0, 9, 1);
        Atoll_Handle other = 0;
        barrier();
        int code;
        for (int i = 0; (code = atoll_send(port, handles[1], NULL, 0, sent, i % 2 == 0 ? 8 : 5000, 0)) == ATOLL_SUCCESS; i++)
            CHECK_OP(i, <, 100000);
        CHECK_EQ(code, ATOLL_ERR_ROUTE);
        CHECK_EQ(CODE(atoll_fast_send(port, handles[1], 1)), ATOLL_ERR_ROUTE);
        CHECK_EQ(CODE(atoll_connect(port, ids[1], &other)), ATOLL_ERR_NOT_AVAILABLE);
        barrier();
        barrier();
        AOK(atoll_connect(port, ids[1], &other));
        AOK(atoll_disconnect(port, handles[1]));
        handles[1] = other;
        send_to(1, 0, 5000, 2);
    } else {
        send_to(0, 0, 9, 1);
        Atoll_Port old = port;
        AOK(atoll_close(port));
        CHECK_EQ(CODE(atoll_close(old)), ATOLL_ERR_PORT);
        CHECK_EQ(CODE(atoll_fast_send(old, handles[0], 1)), ATOLL_ERR_PORT);
        barrier();
        barrier();
        AOK(atoll_open_hostport(&port, ATOLL_ID_HOSTPORT(ids[1])));
        barrier();
        expect_from(ids[0], 0, 5000, 2);
    }
}

CASE(unread_messages, 2, "a port that is opened again gets no message sent to it before it was closed")
{
    join();
    for (uint32_t i = 0; i < 6; i++) {
        if (rank() == 0) {
            send_to(1, 0, 40, 1);
            send_to(1, 0, 60000, 1);
            barrier();
            barrier();
            Atoll_Handle next;
            AOK(atoll_connect(port, ids[1], &next));
            if (next != handles[1]) AOK(atoll_disconnect(port, handles[1]));
            handles[1] = next;
            send_to(1, 0, 50000, 10 + i);
            barrier();
            continue;
        }
        barrier();
        AOK(atoll_close(port));
        AOK(atoll_open_hostport(&port, ATOLL_ID_HOSTPORT(ids[1])));
        barrier();
        expect_from(ids[0], 0, 50000, 10 + i);
        barrier();
    }
}

CASE(not_available, 2, "2.2.2: a connection to a peer that has not opened its port is refused")
{
    Atoll_Handle handle = 77;
    if (rank() == 0) CHECK_EQ(CODE(atoll_connect(port, ATOLL_ID(1, 3), &handle)), ATOLL_ERR_NOT_AVAILABLE);
    CHECK_EQ(handle, 77);
}

CASE(hostports, 2, "2.1: a node has four Hostports, each with messages of its own; the next is refused")
{
    join();
    Atoll_Port ports[ATOLL_HOSTPORTS] = {port}, fifth = NULL;
    for (int i = 1; i < ATOLL_HOSTPORTS; i++) AOK(atoll_open(&ports[i]));
    CHECK_EQ(CODE(atoll_open(&fifth)), ATOLL_ERR_NO_PORT);
    CHECK_EQ(CODE(atoll_open_hostport(&fifth, 2)), ATOLL_ERR_NO_PORT);
    CHECK_EQ(CODE(atoll_open_hostport(&fifth, 4)), ATOLL_ERR_NO_PORT);
    CHECK(fifth == NULL);
    barrier();
    for (int i = 0; i < ATOLL_HOSTPORTS; i++) {
        Atoll_Id id;
        AOK(atoll_get_id(ports[i], &id));
        CHECK_EQ(id, ATOLL_ID(rank(), i));
        for (int k = 0; k < ATOLL_HOSTPORTS; k++) {
            Atoll_Handle there;
            AOK(atoll_connect(ports[i], ATOLL_ID(1 - rank(), k), &there));
            AOK(atoll_fast_send(ports[i], there, (uint32_t)(10 * i + k)));
        }
    }
    for (int i = 0; i < ATOLL_HOSTPORTS; i++)
        for (int k = 0; k < ATOLL_HOSTPORTS; k++) {
            uint32_t operand;
            Atoll_Id source;
            AOK(atoll_fast_recv(ports[i], ATOLL_ID(1 - rank(), k), &operand, &source));
            CHECK_EQ(operand, 10 * k + i);
            CHECK_EQ(source, ATOLL_ID(1 - rank(), k));
        }
    barrier();
    for (int i = 1; i < ATOLL_HOSTPORTS; i++) AOK(atoll_close(ports[i]));
    AOK(atoll_open_hostport(&fifth, 3));
    AOK(atoll_close(fifth));
}

CASE(watermarks, 2, "2.2: pointers are updated lazily, after the number of pieces that the program sets")
{
    join();
    unsigned send, receive;
    static const unsigned marks[][2] = {{1, 1}, {1000, 1000}, {0, 0}, {7, 3}};
    for (size_t i = 0; i < COUNT_OF(marks); i++) {
        Atoll_Resources has;
        AOK(atoll_resources(port, &has));
        AOK(atoll_set_watermarks(port, marks[i][0], marks[i][1]));
        AOK(atoll_get_watermarks(port, &send, &receive));
        CHECK_OP(send, >=, 1u);
        CHECK_OP(receive, >=, 1u);
        CHECK_OP(receive, <=, has.pieces);
        for (uint32_t k = 0; k < 100; k++) {
            if (rank() == 0) send_to(1, 0, k * 50, k);
            else expect_from(ids[0], 0, k * 50, k);
        }
    }
}

CASE(utilities, 4, "2.2.2: resources, ids, neighbours and texts of errors")
{
    Atoll_Resources before, after;
    AOK(atoll_resources(port, &before));
    join();
    barrier();
    AOK(atoll_resources(port, &after));
    CHECK_EQ(before.connections - after.connections, ranks());
    CHECK_EQ(before.peers - after.peers, ranks());
    CHECK_EQ(after.messages, 0);
    AOK(atoll_fast_send(port, handles[rank()], 1));
    int code;
    while ((code = atoll_poll(port)) == ATOLL_ERR_NO_MESSAGE) continue;
    AOK(code);
    AOK(atoll_resources(port, &after));
    CHECK_EQ(after.messages, 1);
    uint32_t operand;
    AOK(atoll_fast_recv(port, ATOLL_ANY, &operand, NULL));
    CHECK_EQ(CODE(atoll_poll(port)), ATOLL_ERR_NO_MESSAGE);
    unsigned nodes;
    AOK(atoll_get_node_num(port, &nodes));
    CHECK_EQ(nodes, ranks());
    static const Atoll_Id wanted[4][ATOLL_LINKS] = {
        {1, ATOLL_NO_ID, 2, ATOLL_NO_ID}, {ATOLL_NO_ID, 0, 3, ATOLL_NO_ID}, {3, ATOLL_NO_ID, ATOLL_NO_ID, 0}, {ATOLL_NO_ID, 2, ATOLL_NO_ID, 1}};
    Atoll_Id neighbours[ATOLL_LINKS];
    AOK(atoll_get_neighbours(port, neighbours));
    for (int i = 0; i < ATOLL_LINKS; i++) CHECK_EQ(neighbours[i], wanted[rank()][i]);
    for (int code = 0; code <= ATOLL_ERR_LOST; code++)
        for (int other = 0; other < code; other++) CHECK(strcmp(atoll_strerror(code), atoll_strerror(other)) != 0);
    CHECK_TEXT(atoll_strerror(9999), "an unknown error");
}

CASE(late_port, 2, "a port that is opened after ports of velo2 and rma2 has less room, and loses nothing", .environment = "ATOLL_LATE=1")
{
    AOK(atoll_open(&port));
    join();
    Atoll_Resources has;
    AOK(atoll_resources(port, &has));
    CHECK_OP(has.pieces, <, 32u);
    for (uint32_t i = 0; i < 100; i++) {
        if (rank() == 0) send_to(1, i, i * i * 20, i);
        else expect_from(ids[0], i, i * i * 20, i);
    }
    int other = 1 - rank();
    for (uint32_t i = 0; i < 200; i++) send_to(other, 0, i, i);
    for (uint32_t i = 0; i < 200; i++) expect_from(ids[other], 0, i, i);
}

CASE(beside_others, 2, "messages of velo2 and puts of rma2 do not disturb those of PALMS")
{
    join();
    struct memory m = shared(PAGE);
    int other = 1 - rank();
    for (uint64_t i = 0; i < 50; i++) {
        VOK(velo2_send(velo_to(other), &i, 8, 0, 0));
        send_to(other, 0, 3000, (uint32_t)i);
        *(uint64_t *)m.start = i;
        OK(rma2_post_put_bt(rma(), to(other), m.region, 0, 8, m.of_rank[other] + 64, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        next_notification();
        CHECK_EQ(((uint64_t *)m.start)[8], i);
        expect_from(ids[other], 0, 3000, (uint32_t)i);
        CHECK_SAME(next_message().bytes, &i, 8);
        barrier();
    }
}

CASE(bad_input, 2, "bad arguments give the library's codes, and disturb nothing else")
{
    join();
    int other = 1 - rank();
    Atoll_Handle handle = handles[other];
    Atoll_Descriptor message, received;
    size_t room = 8;
    CHECK_EQ(CODE(atoll_open(NULL)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_close(NULL)), ATOLL_ERR_PORT);
    CHECK_EQ(CODE(atoll_connect(NULL, 0, &handle)), ATOLL_ERR_PORT);
    CHECK_EQ(CODE(atoll_connect(port, 0, NULL)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_connect(port, ATOLL_ID(ranks(), 0), &handle)), ATOLL_ERR_ID);
    CHECK_EQ(CODE(atoll_connect(port, ATOLL_ID(0, 4), &handle)), ATOLL_ERR_ID);
    CHECK_EQ(CODE(atoll_connect(port, ATOLL_ANY, &handle)), ATOLL_ERR_ID);
    CHECK_EQ(CODE(atoll_disconnect(port, 0)), ATOLL_ERR_HANDLE);
    CHECK_EQ(CODE(atoll_send(port, 0, NULL, 0, "x", 1, 0)), ATOLL_ERR_HANDLE);
    CHECK_EQ(CODE(atoll_send(port, 0xffffffff, NULL, 0, "x", 1, 0)), ATOLL_ERR_HANDLE);
    CHECK_EQ(CODE(atoll_send(port, handle, NULL, 1, "x", 1, 0)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_send(port, handle, "x", 1, NULL, 1, 0)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_send(port, handle, "x", SIZE_MAX, "x", 1, 0)), ATOLL_ERR_SIZE);
    CHECK_EQ(CODE(atoll_send(port, handle, "x", 1, "x", (size_t)1 << 32, 0)), ATOLL_ERR_SIZE);
    CHECK_EQ(CODE(atoll_multicast(port, NULL, 1, NULL, 0, NULL, 0, 0)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_multicast(port, (Atoll_Handle[]){handle, 9}, 2, NULL, 0, NULL, 0, 0)), ATOLL_ERR_HANDLE);
    CHECK_EQ(CODE(atoll_recv_nb(port, ATOLL_ANY, NULL, NULL, found, NULL, NULL, NULL)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_recv_nb(port, ATOLL_ID(ranks(), 0), NULL, NULL, found, &room, NULL, NULL)), ATOLL_ERR_ID);
    CHECK_EQ(CODE(atoll_recv_nb(NULL, ATOLL_ANY, NULL, NULL, found, &room, NULL, NULL)), ATOLL_ERR_PORT);
    CHECK_EQ(CODE(atoll_match(port, ATOLL_ANY, NULL)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_send_malloc(port, SIZE_MAX, SIZE_MAX, &message)), ATOLL_ERR_SIZE);
    CHECK_EQ(CODE(atoll_send_malloc(port, 8, 8, NULL)), ATOLL_ERR_POINTER);
    AOK(atoll_send_malloc(port, 8, 8, &message));
    CHECK_EQ(CODE(atoll_send_commit(port, message)), ATOLL_ERR_HANDLE);
    CHECK_EQ(CODE(atoll_set_handle(message, 0)), ATOLL_ERR_HANDLE);
    CHECK_EQ(CODE(atoll_set_source(message, ids[other])), ATOLL_ERR_ID);
    CHECK_EQ(CODE(atoll_set_length(message, SIZE_MAX)), ATOLL_ERR_SIZE);
    CHECK_EQ(CODE(atoll_copy(port, message, NULL, 1)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_copy(port, NULL, "x", 1)), ATOLL_ERR_DESCRIPTOR);
    CHECK_EQ(CODE(atoll_cpyv(port, message, NULL, 1)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_cpyv(port, message, (struct iovec[]){{sent, 1}}, -1)), ATOLL_ERR_SIZE);
    CHECK_EQ(CODE(atoll_recv_copy(port, message, found, 8, NULL)), ATOLL_ERR_DESCRIPTOR);
    CHECK_EQ(CODE(atoll_recv_free(port, message)), ATOLL_ERR_DESCRIPTOR);
    CHECK_EQ(atoll_get_tag(NULL), 0);
    CHECK_EQ(atoll_get_source(NULL), ATOLL_NO_ID);
    CHECK_EQ(CODE(atoll_resources(port, NULL)), ATOLL_ERR_POINTER);
    CHECK_EQ(CODE(atoll_get_neighbours(port, NULL)), ATOLL_ERR_POINTER);
    Atoll_Port second;
    AOK(atoll_open(&second));
    CHECK_EQ(CODE(atoll_send_free(second, message)), ATOLL_ERR_DESCRIPTOR);
    AOK(atoll_close(second));
    AOK(atoll_set_handle(message, handle));
    AOK(atoll_set_tag(message, 6));
    AOK(atoll_send_commit(port, message));
    int code;
    while ((code = atoll_match(port, ids[other], &received)) == ATOLL_ERR_NO_MESSAGE) continue;
    AOK(code);
    CHECK_EQ(CODE(atoll_send_commit(port, received)), ATOLL_ERR_DESCRIPTOR);
    CHECK_EQ(CODE(atoll_recv_copy(port, received, NULL, 8, NULL)), ATOLL_ERR_POINTER);
    AOK(atoll_recv_copy(port, received, found, 8, NULL));
    CHECK_BYTES(found, 8, 0);
    AOK(atoll_recv_free(port, received));
    send_to(other, 1, 2, 9);
    expect_from(ids[other], 1, 2, 9);
}
