/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Registered memory, and commands that use other memory: seed 002, section 5.3. */
#include "suite.h"

#include <sys/mman.h>
#include <sys/wait.h>

/* Waits until everything that this rank posted to a rank is complete there. */
static void flush(int target)
{
    int32_t unused = 0;
    (void)unused;
    OK(rma2_post_lock(rma(), to(target), 1, 1000, INT32_MAX, 0, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_LOCK_RSP, target, 0);
}

CASE(records, 1, "a region reports its place, and is compared with ranges")
{
    unsigned char *memory = aligned_alloc(PAGE, 4 * PAGE);
    RMA2_Region *region;
    OK(rma2_register(rma(), memory + 100, PAGE, &region));
    CHECK_PTR(region->start, memory);
    CHECK_PTR(region->end, memory + 2 * PAGE);
    CHECK_EQ(region->offset, 100);
    CHECK_EQ(region->count, 2);
    size_t size, count;
    OK(rma2_get_size(region, &size));
    OK(rma2_get_page_count(region, &count));
    CHECK_EQ(size, 2 * PAGE);
    CHECK_EQ(count, 2);
    RMA2_NLA nla;
    OK(rma2_get_nla(region, 5, &nla));
    CHECK_EQ(nla, region->nla + 105);
    CHECK_EQ(rma2_get_nla(region, 3 * PAGE, &nla), RMA2_ERR_PART);
    void *address;
    OK(rma2_get_va(region, 5, &address));
    CHECK_PTR(address, memory + 105);
    CHECK_EQ(rma2_get_region_contained(region, memory + 10, PAGE), 1);
    CHECK_EQ(rma2_get_region_contained(region, memory + 10, 2 * PAGE), 0);
    CHECK_EQ(rma2_get_region_overlap(region, memory + PAGE, 3 * PAGE), 1);
    CHECK_EQ(rma2_get_region_overlap(region, memory + 2 * PAGE, PAGE), 0);
    CHECK_EQ(rma2_get_region_equal(region, memory, 2 * PAGE), 1);
    CHECK_EQ(rma2_get_region_equal(region, memory, PAGE), 0);
    OK(rma2_unregister(rma(), region));
    CHECK_EQ(rma2_unregister(rma(), region), RMA2_ERR_NO_TABLE);
    RMA2_Region own;
    OK(rma2_register_nomalloc(rma(), memory, 10, &own));
    CHECK_EQ(rma2_unregister(rma(), &own), RMA2_ERR_NO_TABLE);
    OK(rma2_unregister_nofree(rma(), &own));
    free(memory);
}

CASE(cached, 1, "a cached registration is used again")
{
    unsigned char *memory = aligned_alloc(PAGE, 4 * PAGE);
    RMA2_Region *first, *second, *third;
    OK(rma2_register_cached(rma(), memory, 4 * PAGE, &first));
    OK(rma2_register_cached(rma(), memory + PAGE, PAGE, &second));
    CHECK_PTR(first, second);
    CHECK_EQ(first->refcount, 2);
    OK(rma2_unregister_cached(rma(), first));
    OK(rma2_unregister_cached(rma(), second));
    CHECK_EQ(rma2_unregister_cached(rma(), second), RMA2_ERR_NO_TABLE);
    OK(rma2_register_cached(rma(), memory, 10, &third));
    CHECK_PTR(third, first);
    OK(rma2_unregister_cached(rma(), third));
    OK(rma2_register_adhoc(rma(), memory + PAGE + 8, &first));
    OK(rma2_unregister_adhoc(rma(), first));
    free(memory);
}

CASE(not_mapped, 1, "memory that is not mapped cannot be registered")
{
    RMA2_Region *region;
    CHECK_EQ(rma2_register(rma(), (void *)(uintptr_t)0x10000, PAGE, &region), RMA2_ERR_NO_MEM);
    CHECK_EQ(rma2_register(rma(), NULL, PAGE, &region), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_register(rma(), &region, 0, &region), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_register(rma(), &region, SIZE_MAX, &region), RMA2_ERR_NO_MEM);
    CHECK_EQ(rma2_register(rma(), &region, 8, NULL), RMA2_ERR_WRONG_ARG);
}

CASE(unregistered_target, 2, "a put or get to memory that is not registered touches nothing, and its initiator gets an error")
{
    struct memory m = shared(2 * PAGE);
    memset(m.start, 7, 2 * PAGE);
    barrier();
    int other = 1 - rank();
    RMA2_NLA beyond = m.of_rank[other] + 2 * PAGE - 8, nowhere = 1ull << 40;
    OK(rma2_post_put_bt(rma(), to(other), m.region, 0, 16, beyond, RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, other, RMA2_ERROR_CMPL);
    OK(rma2_post_get_bt(rma(), to(other), m.region, 0, 16, nowhere, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_GET, other, RMA2_ERROR_RESP);
    OK(rma2_post_immediate_put(rma(), to(other), 8, 0, nowhere, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_IMMEDIATE_PUT, other, RMA2_ERROR_CMPL);
    barrier();
    CHECK_BYTES(m.start, 2 * PAGE, 7);
    expect_no_notification();
}

CASE(unregistered_source, 1, "a local address that is not registered is an error of the requester")
{
    struct memory m = registered(PAGE);
    OK(rma2_post_put_bt_direct(rma(), to(0), m.nla + PAGE, 8, m.nla, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, 0, RMA2_ERROR_REQ);
    OK(rma2_post_get_bt_direct(rma(), to(0), 1ull << 50, 8, m.nla, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_GET, 0, RMA2_ERROR_REQ);
    expect_no_notification();
}

CASE(adjacent_regions, 2, "a command whose local memory is not contiguous is cut, and notified once; a target's memory need not be contiguous either")
{
    /* The entries of two regions registered in turn are adjacent, their pages are not. */
    unsigned char *memory = aligned_alloc(PAGE, 6 * PAGE);
    memset(memory, 0, 6 * PAGE);
    RMA2_Region *first, *second;
    OK(rma2_register(rma(), memory, PAGE, &first));
    OK(rma2_register(rma(), memory + 3 * PAGE, PAGE, &second));
    RMA2_NLA nla = first->nla, nlas[RANKS_MAX];
    if (second->nla != nla + PAGE) FAIL("the regions are not adjacent: %#lx and %#lx", first->nla, second->nla);
    exchange(&nla, sizeof nla, nlas);
    int other = 1 - rank();
    if (rank() == 0) {
        pattern_fill(memory, PAGE, 1);
        pattern_fill(memory + 3 * PAGE, PAGE, 2);
        OK(rma2_post_put_bt_direct(rma(), to(other), nla, 2 * PAGE, nlas[other], RMA2_REQCOMPL_NOTIFICATION, RMA2_CMD_DEFAULT));
        RMA2_Notification got = next_notification();
        CHECK_NOTIFICATION(got, RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, other, 0);
    } else {
        CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_BT_PUT, other, 0);
        CHECK_PATTERN(memory, PAGE, 1);
        CHECK_PATTERN(memory + 3 * PAGE, PAGE, 2);
        CHECK_BYTES(memory + PAGE, 2 * PAGE, 0);
        CHECK_BYTES(memory + 4 * PAGE, 2 * PAGE, 0);
    }
    barrier();
    if (rank() == 0) {
        memset(memory, 0, 6 * PAGE);
        OK(rma2_post_get_bt_direct(rma(), to(other), nla, 2 * PAGE, nlas[other], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_GET_BT_RSP, other, 0);
        CHECK_PATTERN(memory, PAGE, 1);
        CHECK_PATTERN(memory + 3 * PAGE, PAGE, 2);
        /* The end of the second region is not registered: no part of the command is sent. */
        memset(memory, 9, PAGE);
        OK(rma2_post_put_bt_direct(rma(), to(other), nla, 2 * PAGE + 8, nlas[other], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
        CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, other, RMA2_ERROR_REQ);
    }
    expect_no_notification();
    barrier();
    if (rank() == 1) CHECK_PATTERN(memory, PAGE, 1);
    OK(rma2_unregister(rma(), first));
    OK(rma2_unregister(rma(), second));
    free(memory);
}

CASE(read_only, 2, "read-only memory is registered for reading")
{
    unsigned char *memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pattern_fill(memory, 2 * PAGE, 3);
    CHECK_EQ(mprotect(memory, 2 * PAGE, PROT_READ), 0);
    struct memory m = registered(2 * PAGE);
    RMA2_Region *region;
    OK(rma2_register(rma(), memory, 2 * PAGE, &region));
    RMA2_NLA nla = region->nla, nlas[RANKS_MAX];
    exchange(&nla, sizeof nla, nlas);
    int other = 1 - rank();
    OK(rma2_post_put_bt(rma(), to(other), m.region, 0, 100, nlas[other], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, other, RMA2_ERROR_CMPL);
    OK(rma2_post_get_bt(rma(), to(other), m.region, 0, 2 * PAGE, nlas[other], RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_GET_BT_RSP, other, 0);
    CHECK_PATTERN(m.start, 2 * PAGE, 3);
    barrier();
    OK(rma2_unregister(rma(), region));
    munmap(memory, 2 * PAGE);
}

CASE_NIC(forked_child, 1, "a forked child is refused the ports of its parent, which keep working")
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        RMA2_Notification *got;
        RMA2_Port port;
        bool refused = rma2_noti_probe(rma(), &got) == RMA2_ERR_INV_PORT && velo2_check(velo()) == VELO2_RET_INVALID_MBOX &&
                       rma2_open(&port) == RMA2_ERR_NO_DEVICE;
        _exit(refused ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    struct memory m = registered(PAGE);
    OK(rma2_post_immediate_put(rma(), to(0), 8, 5, m.nla, RMA2_COMPLETER_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_IMMEDIATE_PUT, 0, 0);
}

CASE(foreign_page, 2, "5.2.8: a page belongs to the VPID that registered it; through another port it cannot be reached")
{
    struct memory m = shared(PAGE);
    RMA2_Port other_port;
    OK(rma2_open(&other_port));
    uint16_t vpid = rma2_get_vpid(other_port), vpids[RANKS_MAX];
    exchange(&vpid, sizeof vpid, vpids);
    RMA2_Handle foreign;
    int other = 1 - rank();
    OK(rma2_connect(rma(), (RMA2_Nodeid)other, vpids[other], RMA2_CONN_DEFAULT, &foreign));
    OK(rma2_post_put_bt(rma(), foreign, m.region, 0, 8, m.of_rank[other], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, other, RMA2_ERROR_CMPL);
    barrier();
    OK(rma2_disconnect(rma(), foreign));
    OK(rma2_close(other_port));
    barrier();
}

CASE(revoked, 2, "5.3: after a region is unregistered, commands to it are errors and touch nothing")
{
    struct memory m = shared(PAGE);
    unsigned char *memory = aligned_alloc(PAGE, PAGE);
    memset(memory, 9, PAGE);
    RMA2_Region *region;
    OK(rma2_register(rma(), memory, PAGE, &region));
    RMA2_NLA nla, nlas[RANKS_MAX];
    OK(rma2_get_nla(region, 0, &nla));
    exchange(&nla, sizeof nla, nlas);
    int other = 1 - rank();
    m.start[0] = 1;
    OK(rma2_post_put_bt(rma(), to(other), m.region, 0, 1, nlas[other], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    flush(other);
    barrier();
    CHECK_EQ(memory[0], 1);
    OK(rma2_unregister(rma(), region));
    memset(memory, 9, PAGE);
    barrier();
    OK(rma2_post_put_bt(rma(), to(other), m.region, 0, 1, nlas[other], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, other, RMA2_ERROR_CMPL);
    barrier();
    CHECK_BYTES(memory, PAGE, 9);
    free(memory);
}

CASE(many, 1, "regions of all sizes come and go, and their addresses stay apart")
{
    enum { REGIONS = 200 };
    unsigned char *memory = aligned_alloc(PAGE, 64 * PAGE);
    RMA2_Region *regions[REGIONS] = {0};
    uint64_t random = 5;
    for (int i = 0; i < 3000; i++) {
        size_t at = random_next(&random) % REGIONS;
        if (regions[at]) {
            OK(rma2_unregister(rma(), regions[at]));
            regions[at] = NULL;
            continue;
        }
        size_t first = random_next(&random) % 32, pages = 1 + random_next(&random) % 32;
        OK(rma2_register(rma(), memory + first * PAGE, pages * PAGE, &regions[at]));
        for (size_t j = 0; j < REGIONS; j++) {
            if (j == at || !regions[j]) continue;
            CHECK(regions[j]->nla + regions[j]->size <= regions[at]->nla || regions[at]->nla + regions[at]->size <= regions[j]->nla);
        }
    }
    for (size_t i = 0; i < REGIONS; i++)
        if (regions[i]) OK(rma2_unregister(rma(), regions[i]));
    free(memory);
}

CASE(full_tables, 1,
     "when the tables are full, registration reports it, and works again after regions are freed", .environment = "SELVEDGE_ADDRESS_TABLES=1")
{
    enum { BYTES = 512 << 20 };
    unsigned char *memory = aligned_alloc(PAGE, BYTES);
    CHECK(memory != NULL);
    RMA2_Region *first, *second, *third;
    OK(rma2_register(rma(), memory, BYTES, &first));
    OK(rma2_register(rma(), memory, BYTES, &second));
    CHECK_EQ(rma2_register(rma(), memory, 1, &third), RMA2_ERR_NO_MEM);
    OK(rma2_unregister(rma(), first));
    OK(rma2_register(rma(), memory, 1, &third));
    OK(rma2_unregister(rma(), third));
    OK(rma2_unregister(rma(), second));
    free(memory);
}

CASE(bad_input, 2, "bad arguments give the library's codes, and disturb nothing else")
{
    struct memory m = shared(PAGE);
    RMA2_Handle handle;
    RMA2_Notification *got;
    CHECK_EQ(rma2_open(NULL), RMA2_ERR_WRONG_ARG);
    CHECK_EQ(rma2_close(NULL), RMA2_ERR_INV_PORT);
    CHECK_EQ(rma2_connect(NULL, 0, 0, 0, &handle), RMA2_ERR_INV_PORT);
    CHECK_EQ(rma2_connect(rma(), rma2_get_node_num(rma()), 0, 0, &handle), RMA2_ERR_NO_ROUTE);
    CHECK_EQ(rma2_connect(rma(), 0, rma2_get_proc_num(rma()), 0, &handle), RMA2_ERR_NO_ROUTE);
    CHECK_EQ(rma2_connect(rma(), 0, 0, 0, NULL), RMA2_ERR_WRONG_ARG);
    OK(rma2_connect(rma(), 0, 0, RMA2_CONN_DEFAULT, &handle));
    OK(rma2_disconnect(rma(), handle));
    CHECK_EQ(rma2_disconnect(rma(), handle), RMA2_ERR_INV_HANDLE);
    CHECK_EQ(rma2_post_put_bt(rma(), handle, m.region, 0, 8, m.nla, 0, 0), RMA2_ERR_INV_HANDLE);
    CHECK_EQ(rma2_post_put_bt(rma(), to(0), m.region, 0, 0, m.nla, 0, 0), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_post_put_bt(rma(), to(0), m.region, PAGE - 4, 8, m.nla, 0, 0), RMA2_ERR_PART);
    CHECK_EQ(rma2_post_put_bt(rma(), to(0), NULL, 0, 8, m.nla, 0, 0), RMA2_ERR_WRONG_ARG);
    CHECK_EQ(rma2_post_put_qw(rma(), to(0), m.region, 4, 8, m.nla, 0, 0), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_post_put_qw(rma(), to(0), m.region, 0, 12, m.nla, 0, 0), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_post_immediate_put(rma(), to(0), 9, 0, m.nla, 0, 0), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_post_immediate_put(rma(), to(0), 0, 0, m.nla, 0, 0), RMA2_ERR_INV_VALUE);
    CHECK_EQ(rma2_noti_probe(rma(), NULL), RMA2_ERR_WRONG_ARG);
    CHECK_EQ(rma2_noti_free(rma(), NULL), RMA2_ERR_INV_VALUE);
    /* The barriers of the suite are notifications, too. */
    CHECK_EITHER(rma2_noti_match(rma(), RMA2_BT_PUT, 0, 0, RMA2_ALL_NOTIFICATIONS, RMA2_ANY_NLA, 0, &got), RMA2_NO_NOTI, RMA2_ERR_NO_MATCH);
    /* Multicast, accelerators and registers are refused: no port has the right. */
    OK(rma2_post_put_bt(rma(), to(0), m.region, 0, 8, m.of_rank[0], 0, RMA2_CMD_MC));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_BT_PUT, 0, RMA2_ERROR_REQ);
    CHECK_EQ(rma2_request_rra(rma(), to(0)), RMA2_ERR_NOT_YET);
    OK(rma2_connect(rma(), 0, rma2_get_vpid(rma()), RMA2_CONN_TE | RMA2_CONN_RRA, &handle));
    OK(rma2_post_immediate_put(rma(), handle, 8, 1, m.of_rank[0], RMA2_NO_NOTIFICATION, RMA2_CMD_DEFAULT));
    CHECK_NOTIFICATION(next_notification(), RMA2_REQUESTER_NOTIFICATION, RMA2_IMMEDIATE_PUT, 0, RMA2_ERROR_REQ);
    OK(rma2_disconnect(rma(), handle));
    int other = 1 - rank();
    OK(rma2_connect(rma(), (RMA2_Nodeid)other, rma2_get_proc_num(rma()) - 1, RMA2_CONN_DEFAULT, &handle));
    OK(rma2_post_notification(rma(), handle, 1, 1, RMA2_COMPLETER_NOTIFICATION, 0));
    RMA2_Notification *error;
    OK(rma2_noti_match_block(rma(), RMA2_NOTIFICATION_PUT, RMA2_NODEID_ANY, RMA2_VPID_ANY, RMA2_REQUESTER_NOTIFICATION, RMA2_ANY_NLA, 0, &error));
    CHECK_EQ(rma2_noti_get_error(error), RMA2_ERROR_CMPL);
    OK(rma2_noti_free(rma(), error));
    OK(rma2_disconnect(rma(), handle));
    barrier();
    OK(rma2_post_put_bt(rma(), to(other), m.region, 0, 8, m.of_rank[other], RMA2_COMPLETER_NOTIFICATION, 0));
    CHECK_NOTIFICATION(next_notification(), RMA2_COMPLETER_NOTIFICATION, RMA2_BT_PUT, other, 0);
}
