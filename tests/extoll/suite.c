/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Shared part of the EXTOLL suite: ports, connections, memory, waiting. See suite.h for the contract.
 *
 * A barrier is a dissemination barrier of notification puts, so that it needs no launcher and polls the port while it waits.
 */
#include "suite.h"

#include <sched.h>

enum { MEMORIES_MAX = 64 };

static RMA2_Port rma_port;
static velo2_port_t velo_port;
static RMA2_Handle handles[RANKS_MAX];
static velo2_connection_t connections[RANKS_MAX];
static struct memory memories[MEMORIES_MAX];
static int memories_count;
static uint64_t barriers;

int rank(void) { return velorun_rank(); }
int ranks(void) { return velorun_size(); }
RMA2_Port rma(void) { return rma_port; }
velo2_port_t *velo(void) { return &velo_port; }
RMA2_Handle to(int rank) { return handles[rank]; }
velo2_connection_t *velo_to(int rank) { return &connections[rank]; }

void poll_ports(void)
{
    RMA2_Notification *notification;
    rma2_noti_lock_match(rma_port, 0xfffffe, 0, 0, &notification);
    velo2_check(&velo_port);
    sched_yield();
}

void exchange(const void *mine, size_t bytes, void *all)
{
    barrier();
    CHECK_EQ(velorun_exchange(mine, bytes, all), 0);
}

void barrier(void)
{
    barriers++;
    for (int distance = 1, round = 0; distance < ranks(); distance *= 2, round++) {
        uint64_t value = barriers << 8 | (unsigned)round;
        int next = (rank() + distance) % ranks(), before = (rank() + ranks() - distance) % ranks();
        OK(rma2_post_notification(rma_port, handles[next], BARRIER_CLASS, value, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        long long give_up = now_ms() + WAIT_MS;
        for (;;) {
            RMA2_Notification *found;
            if (rma2_noti_noti_match(rma_port, BARRIER_CLASS, (RMA2_Nodeid)before, RMA2_VPID_ANY, &found) == RMA2_SUCCESS) {
                CHECK_EQ(rma2_noti_get_notiput_payload(found), value);
                OK(rma2_noti_free(rma_port, found));
                break;
            }
            if (now_ms() > give_up) FAIL("rank %d did not enter the barrier", before);
            poll_ports();
        }
    }
}

void sleep_ms(int ms)
{
    for (long long end = now_ms() + ms; now_ms() < end;) {
        poll_ports();
        nap_us(200);
    }
}

struct memory registered(size_t bytes)
{
    if (memories_count == MEMORIES_MAX) FAIL("too many memories for the suite");
    struct memory made = {0};
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    made.start = aligned_alloc(PAGE, whole);
    CHECK(made.start != NULL);
    memset(made.start, 0, whole);
    OK(rma2_register(rma_port, made.start, bytes, &made.region));
    OK(rma2_get_nla(made.region, 0, &made.nla));
    memories[memories_count++] = made;
    return made;
}

struct memory shared(size_t bytes)
{
    struct memory made = registered(bytes);
    exchange(&made.nla, sizeof made.nla, made.of_rank);
    return made;
}

RMA2_Notification next_notification(void)
{
    long long give_up = now_ms() + WAIT_MS;
    for (;;) {
        RMA2_Notification *found, copy;
        static const RMA2_Command commands[] = {RMA2_BT_GET, RMA2_QW_GET, RMA2_BT_PUT, RMA2_QW_PUT, RMA2_LOCK, RMA2_IMMEDIATE_PUT,
                                                RMA2_GET_BT_RSP, RMA2_GET_QW_RSP, RMA2_LOCK_REQ, RMA2_LOCK_RSP};
        for (size_t i = 0; i < COUNT_OF(commands); i++) {
            if (rma2_noti_match(rma_port, commands[i], RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_ALL_NOTIFICATIONS, RMA2_ANY_NLA, 0, &found) !=
                RMA2_SUCCESS)
                continue;
            OK(rma2_noti_dup(found, &copy));
            OK(rma2_noti_free(rma_port, found));
            return copy;
        }
        if (now_ms() > give_up) FAIL("no notification came");
        poll_ports();
    }
}

void expect_no_notification(void)
{
    for (long long end = now_ms() + 30; now_ms() < end;) {
        RMA2_Notification *found;
        if (rma2_noti_match(rma_port, RMA2_ANY, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_ALL_NOTIFICATIONS, RMA2_ANY_NLA, 0, &found) == RMA2_SUCCESS &&
            rma2_noti_get_cmd(found) != RMA2_NOTIFICATION_PUT) {
            char text[256];
            rma2_noti_sdump(found, text, sizeof text);
            FAIL("an unexpected notification: %s", text);
        }
        poll_ports();
    }
}

void check_notification_at(const char *file, int line, RMA2_Notification found, RMA2_Notification_Spec unit, RMA2_Command command, int from,
                           int error)
{
    char text[256];
    rma2_noti_sdump(&found, text, sizeof text);
    if (rma2_noti_get_notification_type(&found) != unit) fail_at(file, line, "the unit is not %d: %s", unit, text);
    if (rma2_noti_get_cmd(&found) != command) fail_at(file, line, "the command is not %d: %s", command, text);
    if (rma2_noti_get_remote_nodeid(&found) != from) fail_at(file, line, "the node is not %d: %s", from, text);
    if (rma2_noti_get_error(&found) != error) fail_at(file, line, "the error is not %d: %s", error, text);
}

struct message next_message(void)
{
    struct message message;
    long long give_up = now_ms() + WAIT_MS;
    while (velo2_probe_recv(&velo_port, message.bytes, sizeof message.bytes, &message.length, &message.source, &message.tag, &message.mtt) !=
           VELO2_RET_SUCCESS) {
        if (now_ms() > give_up) FAIL("no message came");
        poll_ports();
    }
    return message;
}

static int run_case(const struct test_case *c)
{
    CHECK_EQ(velorun_init(), 0);
    if (family_begin != NULL) family_begin();
    OK(rma2_open(&rma_port));
    VOK(velo2_open(&velo_port));
    struct {
        uint16_t rma, velo;
    } mine = {rma2_get_vpid(rma_port), (uint16_t)velo2_get_vpid(&velo_port)}, all[RANKS_MAX];
    CHECK_EQ(velorun_exchange(&mine, sizeof mine, all), 0);
    for (int i = 0; i < ranks(); i++) {
        OK(rma2_connect(rma_port, (RMA2_Nodeid)i, all[i].rma, RMA2_CONN_DEFAULT, &handles[i]));
        VOK(velo2_connect(&velo_port, &connections[i], (velo2_nodeid_t)i, all[i].velo));
    }
    c->body();
    if (family_end != NULL) family_end();
    barrier();
    /* The last messages of the barrier may still be under way to others. */
    sleep_ms(20);
    while (memories_count > 0) {
        struct memory *last = &memories[--memories_count];
        if (last->region != NULL) OK(rma2_unregister(rma_port, last->region));
        free(last->start);
    }
    for (int i = 0; i < ranks(); i++) {
        OK(rma2_disconnect(rma_port, handles[i]));
        VOK(velo2_disconnect(&velo_port, &connections[i]));
    }
    OK(rma2_close(rma_port));
    VOK(velo2_close(&velo_port));
    velorun_finalize();
    return 0;
}

static void end_job(void) { velorun_abort(1, "a check failed"); }

static const struct suite suite = {.ranks_max = RANKS_MAX, .run = run_case, .end_job = end_job};

const struct suite *the_suite(void) { return &suite; }
