/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Ping-pong between two processes by PALMS, the library of ATOLL (seed 002, section 2.2): half a round trip and bandwidth by size, with
 * complete sends and receives, with the building blocks, and with fast messages. Checks every byte.
 *
 *     velorun -p 2 ping_palms [ROUNDS]
 */
#include <atollrun.h>
#include <velorun.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES_MAX = 1 << 20 };

static Atoll_Port port;
static Atoll_Handle peer;
static Atoll_Id peer_id;
static unsigned char sent[BYTES_MAX], arrived[BYTES_MAX];

static void check(int code, const char *what)
{
    if (code == ATOLL_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", what, atoll_strerror(code));
    velorun_abort(1, what);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void send_complete(size_t bytes, uint32_t tag) { check(atoll_send(port, peer, NULL, 0, sent, bytes, tag), "atoll_send"); }

static void receive_complete(size_t bytes, uint32_t tag)
{
    size_t room = bytes;
    uint32_t found;
    check(atoll_recv(port, peer_id, NULL, NULL, arrived, &room, &found, NULL), "atoll_recv");
    if (room != (bytes + 7) / 8 * 8 || found != tag) velorun_abort(1, "wrong size or tag of a message");
}

/* Figure 2-4: allocate, copy the parts of the message, set its fields, commit. */
static void send_blocks(size_t bytes, uint32_t tag)
{
    Atoll_Descriptor message;
    int code;
    while ((code = atoll_send_malloc(port, 0, bytes, &message)) == ATOLL_ERR_NO_SPACE) atoll_poll(port);
    check(code, "atoll_send_malloc");
    check(atoll_copy(port, message, sent, bytes / 2), "atoll_copy");
    check(atoll_copy(port, message, sent + bytes / 2, bytes - bytes / 2), "atoll_copy");
    check(atoll_set_handle(message, peer), "atoll_set_handle");
    check(atoll_set_tag(message, tag), "atoll_set_tag");
    check(atoll_send_commit(port, message), "atoll_send_commit");
}

/* Figure 2-5: match, copy, free. */
static void receive_blocks(size_t bytes, uint32_t tag)
{
    Atoll_Descriptor message;
    int code;
    while ((code = atoll_match(port, peer_id, &message)) == ATOLL_ERR_NO_MESSAGE) continue;
    check(code, "atoll_match");
    if (atoll_get_tag(message) != tag || atoll_get_source(message) != peer_id) velorun_abort(1, "wrong tag or source of a message");
    check(atoll_recv_copy(port, message, arrived, bytes, NULL), "atoll_recv_copy");
    check(atoll_recv_free(port, message), "atoll_recv_free");
}

static void send_fast(size_t bytes, uint32_t tag)
{
    (void)bytes;
    check(atoll_fast_send(port, peer, tag), "atoll_fast_send");
}

static void receive_fast(size_t bytes, uint32_t tag)
{
    (void)bytes;
    uint32_t operand;
    check(atoll_fast_recv(port, peer_id, &operand, NULL), "atoll_fast_recv");
    if (operand != tag) velorun_abort(1, "another operand");
}

/* Returns half a round trip in microseconds. */
static double pingpong(size_t bytes, int rounds, void (*send)(size_t, uint32_t), void (*receive)(size_t, uint32_t))
{
    for (size_t i = 0; i < bytes; i++) sent[i] = (unsigned char)(i * 7 + bytes);
    memset(arrived, 0, bytes);
    double began = now_us();
    for (int round = -rounds / 10; round < rounds; round++) {
        if (round == 0) began = now_us();
        if (atollrun_rank() == 0) send(bytes, (uint32_t)round);
        receive(bytes, (uint32_t)round);
        if (atollrun_rank() == 1) send(bytes, (uint32_t)round);
    }
    double time = (now_us() - began) / rounds / 2;
    if (memcmp(sent, arrived, bytes) != 0) velorun_abort(1, "a byte is wrong");
    return time;
}

int main(int argc, char **argv)
{
    check(atollrun_init(&argc, &argv), "atollrun_init");
    int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    if (atollrun_size() != 2 || rounds < 10) velorun_abort(2, "usage: velorun -p 2 ping_palms [ROUNDS], at least 10 rounds");
    port = atollrun_port();
    peer = atollrun_handle(1 - atollrun_rank());
    peer_id = atollrun_id(1 - atollrun_rank());

    double fast = pingpong(0, rounds, send_fast, receive_fast);
    if (atollrun_rank() == 0) {
        printf("fast message: %.3f us\n\n%8s %12s %12s %12s\n", fast, "bytes", "complete", "blocks", "complete");
        printf("%8s %12s %12s %12s\n", "", "[us]", "[us]", "[MB/s]");
    }
    for (size_t bytes = 8; bytes <= BYTES_MAX; bytes *= 4) {
        int count = bytes < 16384 ? rounds : rounds / 10 + 10;
        Atoll_Resources has;
        check(atoll_resources(port, &has), "atoll_resources");
        double complete = pingpong(bytes, count, send_complete, receive_complete);
        double blocks = bytes <= has.build_bytes_max ? pingpong(bytes, count, send_blocks, receive_blocks) : 0;
        if (atollrun_rank() != 0) continue;
        printf("%8zu %12.3f ", bytes, complete);
        if (blocks != 0) printf("%12.3f", blocks);
        else printf("%12s", "-");
        printf(" %12.1f\n", (double)bytes / complete);
    }
    check(atollrun_finalize(), "atollrun_finalize");
    return 0;
}
