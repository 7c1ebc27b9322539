/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Ping-pong between two processes by VELO messages, RMA puts and RMA gets: half a round trip for messages and puts, a whole get, as in
 * figure 9-1 of seed 002. Checks every byte.
 *
 *     velorun -p 2 pingpong [ROUNDS]
 */
#include <rma2.h>
#include <time.h>
#include <velo2.h>
#include <velorun.h>

#include <stdlib.h>

enum { BYTES_MAX = 8192, PAGE = 4096 };

static RMA2_Port port;
static RMA2_Handle handle;
static velo2_port_t mailbox;
static velo2_connection_t connection;
static unsigned char *memory; /* first half: bytes to send; second half: received bytes */
static RMA2_Region *region;
static RMA2_NLA there;
static int me, other;

static void check(int ok, const char *what)
{
    if (!ok) velorun_abort(1, what);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* A message longer than one VELO message goes in pieces, as in the protocol "small" of section 8.6. */
static void velo_send(unsigned bytes)
{
    for (unsigned at = 0; at < bytes; at += VELO2_MTU) {
        unsigned piece = bytes - at < VELO2_MTU ? bytes - at : VELO2_MTU;
        velo2_ret_t code;
        while ((code = velo2_send(&connection, memory + at, piece, 0, at != 0)) == VELO2_RET_TRY_AGAIN) velo2_check(&mailbox);
        check(code == VELO2_RET_SUCCESS, velo2_strerror(code));
    }
}

static void velo_receive(unsigned bytes)
{
    for (unsigned at = 0; at < bytes; at += VELO2_MTU) {
        uint32_t length, source;
        check(velo2_recv(&mailbox, memory + BYTES_MAX + at, VELO2_MTU, &length, &source, NULL, NULL) == VELO2_RET_SUCCESS, "velo2_recv");
    }
}

static void await(RMA2_Notification_Spec unit)
{
    RMA2_Notification *notification;
    check(rma2_noti_get_block(port, &notification) == RMA2_SUCCESS, "rma2_noti_get_block");
    check(rma2_noti_get_notification_type(notification) == unit && !rma2_noti_get_error(notification), "unexpected notification");
    check(rma2_noti_free(port, notification) == RMA2_SUCCESS, "rma2_noti_free");
}

static void put(unsigned bytes)
{
    check(rma2_post_put_bt(port, handle, region, 0, bytes, there + BYTES_MAX, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT) == RMA2_SUCCESS,
          "rma2_post_put_bt");
}

static void check_bytes(unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) check(memory[BYTES_MAX + i] == (unsigned char)(i * 7 + bytes), "a byte is wrong");
    memset(memory + BYTES_MAX, 0, bytes);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 2000;
    check(velorun_init() == 0, "velorun_init");
    if (velorun_size() != 2 || rounds == 0) velorun_abort(2, "usage: velorun -p 2 pingpong [ROUNDS], at least 1 round");
    me = velorun_rank(), other = 1 - me;

    check(rma2_open(&port) == RMA2_SUCCESS && velo2_open(&mailbox) == VELO2_RET_SUCCESS, "a port cannot be opened");
    memory = aligned_alloc(PAGE, 2 * BYTES_MAX);
    check(rma2_register(port, memory, 2 * BYTES_MAX, &region) == RMA2_SUCCESS, "rma2_register");
    struct address {
        RMA2_NLA nla;
        uint32_t rma, velo;
    } mine = {0, rma2_get_vpid(port), velo2_get_vpid(&mailbox)}, all[2];
    check(rma2_get_nla(region, 0, &mine.nla) == RMA2_SUCCESS, "rma2_get_nla");
    check(velorun_exchange(&mine, sizeof mine, all) == 0, "velorun_exchange");
    there = all[other].nla;
    check(rma2_connect(port, (RMA2_Nodeid)other, (RMA2_VPID)all[other].rma, RMA2_CONN_DEFAULT, &handle) == RMA2_SUCCESS, "rma2_connect");
    check(velo2_connect(&mailbox, &connection, (velo2_nodeid_t)other, all[other].velo) == VELO2_RET_SUCCESS, "velo2_connect");

    if (me == 0) printf("%8s %12s %12s %12s\n%8s %12s %12s %12s\n", "bytes", "VELO", "put", "get", "", "[us]", "[us]", "[us]");
    for (unsigned bytes = 8; bytes <= BYTES_MAX; bytes *= 2) {
        double times[3] = {0};
        for (int kind = 0; kind < 3; kind++) {
            for (unsigned i = 0; i < bytes; i++) memory[i] = (unsigned char)(i * 7 + bytes);
            memset(memory + BYTES_MAX, 0, BYTES_MAX);
            check(velorun_barrier() == 0, "velorun_barrier");
            double began = 0;
            for (unsigned round = 0; round < rounds + rounds / 10; round++) {
                if (round == rounds / 10) began = now_us();
                if (kind == 2) {
                    if (me == 0) {
                        check(rma2_post_get_bt(port, handle, region, BYTES_MAX, bytes, there, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT) ==
                                  RMA2_SUCCESS,
                              "rma2_post_get_bt");
                        await(RMA2_COMPLETER_NOTIFICATION);
                    }
                    continue;
                }
                for (int turn = 0; turn < 2; turn++) {
                    if (turn == me) {
                        if (kind == 0) velo_send(bytes);
                        else put(bytes);
                    } else {
                        if (kind == 0) velo_receive(bytes);
                        else await(RMA2_COMPLETER_NOTIFICATION);
                    }
                }
            }
            times[kind] = (now_us() - began) / rounds / (kind == 2 ? 1 : 2);
            if (kind != 2 || me == 0) check_bytes(bytes);
            /* The target of the gets waits here: its NIC answers without the process. */
            if (kind == 2) {
                if (me == 0) check(rma2_post_notification(port, handle, 1, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT) == RMA2_SUCCESS, "");
                else await(RMA2_COMPLETER_NOTIFICATION);
            }
        }
        if (me == 0) printf("%8u %12.3f %12.3f %12.3f\n", bytes, times[0], times[1], times[2]);
    }
    check(velorun_barrier() == 0, "velorun_barrier");
    rma2_unregister(port, region);
    rma2_close(port);
    velo2_close(&mailbox);
    velorun_finalize();
    return 0;
}
