/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Start and stop of the library, network interfaces, the identity of a process, the map of ranks, status registers,
 * handles. Portals 4.3, chapters on initialization, network interfaces, user and process identification, and operations on
 * handles. Limits are in limits.c, refused arguments in arguments.c.
 */
#include "suite.h"

static const unsigned ni_kinds[] = {
    PTL_NI_MATCHING | PTL_NI_LOGICAL,
    PTL_NI_MATCHING | PTL_NI_PHYSICAL,
    PTL_NI_NO_MATCHING | PTL_NI_LOGICAL,
    PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
};
enum { NI_KINDS = sizeof ni_kinds / sizeof ni_kinds[0] };

static ptl_sr_value_t status_of(ptl_sr_index_t reg)
{
    ptl_sr_value_t value = -1;
    OK(PtlNIStatus(ni(), reg, &value));
    return value;
}

/* ---- Starting and stopping ------------------------------------------------------------------------------- */

CASE(init_counts_references, 1, "PtlInit may be called again; the library stays until PtlFini was called as often")
{
    ptl_handle_ni_t handle;
    ptl_process_t id;
    for (int i = 0; i < 3; i++) OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_kinds[1], PTL_PID_ANY, NULL, NULL, &handle));
    PtlFini();
    OK(PtlGetId(handle, &id));
    PtlFini();
    OK(PtlGetId(handle, &id));
    OK(PtlNIFini(handle));
    PtlFini();
}

CASE(init_again_after_last_fini, 1, "after the last PtlFini the library can be started again")
{
    for (int round = 0; round < 5; round++) {
        ptl_handle_ni_t handle;
        OK(PtlInit());
        OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_kinds[round % NI_KINDS], PTL_PID_ANY, NULL, NULL, &handle));
        OK(PtlNIFini(handle));
        PtlFini();
    }
}

CASE(four_kinds_open_together, 1, "the four kinds of interface can be open at once, each with a handle of its own")
{
    ptl_handle_ni_t handles[NI_KINDS];
    for (int i = 0; i < NI_KINDS; i++) {
        handles[i] = ni_open(ni_kinds[i], NULL, NULL);
        for (int j = 0; j < i; j++) CHECK(!PtlHandleIsEqual(handles[i], handles[j]));
    }
}

CASE(four_kinds_one_identity, 2, "all interfaces of a process share one node id and one process id")
{
    ptl_process_t first = {0};
    for (int i = 0; i < NI_KINDS; i++) {
        ptl_process_t id;
        OK(PtlGetPhysId(ni_open(ni_kinds[i], NULL, NULL), &id));
        if (i == 0) first = id;
        CHECK_EQ(id.phys.nid, first.phys.nid);
        CHECK_EQ(id.phys.pid, first.phys.pid);
    }
}

CASE(four_kinds_are_apart, 2, "a message reaches the interface of its own kind only")
{
    ptl_handle_ni_t handles[NI_KINDS];
    ptl_handle_eq_t queues[NI_KINDS];
    for (int i = 0; i < NI_KINDS; i++) {
        handles[i] = ni_open(ni_kinds[i], NULL, NULL);
        queues[i] = eq_new(16);
        pt_at(5, queues[i], 0);
        ptl_me_t me = me_over(buffer(64), 64, 9);
        ptl_le_t le = le_over(me.start, 64);
        if (ni_is_matching()) me_append(5, &me, PTL_PRIORITY_LIST, NULL);
        else le_append(5, &le, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    for (int i = 0; i < NI_KINDS; i++) {
        ni_use(handles[i]);
        if (rank() == 0) {
            ptl_handle_eq_t eq = eq_new(16);
            put(md_new(buffer(64), 64, 0, eq, PTL_CT_NONE), 8, 1, 5, 9, (ptl_hdr_data_t)i);
            expect_send_ack(eq);
        } else {
            ptl_event_t ev = expect_event(queues[i], PTL_EVENT_PUT);
            CHECK_EQ(ev.hdr_data, i);
            CHECK_PROCESS(ev.initiator, peer(0));
            for (int j = 0; j < NI_KINDS; j++) no_event(queues[j], 0);
        }
        barrier();
    }
}

CASE(kinds_progress_together, 2,
     "a process that puts from one of its interfaces still handles messages that arrive at another")
{
    enum { PUTS = 10000, BYTES = 8 }; /* each process fills a ring, however late the other starts */
    ptl_handle_ni_t handles[2] = {ni_matching(), ni_nonmatching()};
    ptl_handle_ct_t arrived[2];
    for (int i = 0; i < 2; i++) {
        ni_use(handles[i]);
        arrived[i] = ct_new();
        pt_at(5, PTL_EQ_NONE, 0);
        ptl_me_t me = me_over(buffer(BYTES), BYTES, 9);
        ptl_le_t le = le_over(me.start, BYTES);
        me.options |= PTL_ME_EVENT_CT_COMM;
        le.options |= PTL_LE_EVENT_CT_COMM;
        me.ct_handle = le.ct_handle = arrived[i];
        if (ni_is_matching()) me_append(5, &me, PTL_PRIORITY_LIST, NULL);
        else le_append(5, &le, PTL_PRIORITY_LIST, NULL);
    }
    barrier();
    /* Process 0 puts between the matching interfaces, process 1 between the others. Neither waits for an event before its last
     * put, so neither makes a call of the interface at which its messages arrive. */
    ni_use(handles[rank()]);
    ptl_handle_md_t md = md_new(buffer(BYTES), BYTES, 0, PTL_EQ_NONE, PTL_CT_NONE);
    for (int i = 0; i < PUTS; i++) OK(PtlPut(md, 0, BYTES, PTL_NO_ACK_REQ, peer(1 - rank()), 5, 9, 0, NULL, 0));
    expect_ct(arrived[1 - rank()], PUTS, 0);
}

CASE(niinit_counts_references, 1, "PtlNIInit of an open interface returns the same handle and must be matched by PtlNIFini")
{
    ptl_handle_ni_t handle = ni_matching(), again = 0;
    ptl_process_t id;
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &again));
    CHECK(PtlHandleIsEqual(handle, again));
    OK(PtlNIFini(again));
    OK(PtlGetId(handle, &id));
    CHECK_EQ(id.rank, 0);
}

CASE(niinit_again_ignores_desired, 1, "PtlNIInit of an open interface ignores the desired limits and reports the actual ones")
{
    ptl_ni_limits_t desired = limits_default(), first, second;
    ptl_handle_ni_t handle = ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &desired, &first), again;
    desired.max_entries = first.max_entries + 111;
    desired.max_cts = first.max_cts + 222;
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, &desired, &second, &again));
    CHECK(PtlHandleIsEqual(handle, again));
    CHECK_EQ(second.max_entries, first.max_entries);
    CHECK_EQ(second.max_cts, first.max_cts);
    CHECK_EQ(second.max_msg_size, first.max_msg_size);
    OK(PtlNIFini(again));
}

CASE(niinit_again_ignores_pid, 1, "PtlNIInit of an open interface ignores the process id asked for")
{
    ptl_handle_ni_t handle = ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL), again;
    ptl_process_t before, after;
    OK(PtlGetId(handle, &before));
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, before.phys.pid + 7, NULL, NULL, &again));
    OK(PtlGetId(again, &after));
    CHECK_EQ(after.phys.pid, before.phys.pid);
    OK(PtlNIFini(again));
}

CASE(nifini_ends_the_handle, 1, "after its last PtlNIFini the handle of an interface is invalid")
{
    ni_matching(); /* keeps the library alive */
    ptl_handle_ni_t handle, out;
    ptl_process_t id;
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &handle));
    OK(PtlNIFini(handle));
    CHECK_EQ(PtlGetId(handle, &id), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIHandle(handle, &out), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIFini(handle), PTL_ARG_INVALID);
}

CASE(nifini_releases_everything, 1, "PtlNIFini releases everything allocated on the interface, freed or not")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    for (int round = 0; round < 4; round++) {
        ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &desired, &actual);
        ptl_handle_eq_t eq = eq_new(8);
        ptl_pt_index_t pt = pt_new(eq, 0);
        CHECK_EQ(pt, 0);
        for (int i = 0; i < actual.max_cts - 2; i++) ct_new();
        ptl_me_t me = me_over(NULL, 0, 1);
        for (int i = 0; i < actual.max_entries; i++) me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
        ni_close_all();
    }
}

CASE(default_interface_usable_at_once, 1, "a physical interface can be used without any map")
{
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    ptl_handle_eq_t eq = eq_new(16);
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    unsigned char *target = buffer(64), *source = buffer(64);
    ptl_me_t me = me_over(target, 64, 3);
    me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
    pattern_fill(source, 64, 1);
    put(md_new(source, 64, 0, eq, PTL_CT_NONE), 64, 0, pt, 3, 0);
    expect_send_ack(eq);
    CHECK_PATTERN(target, 64, 1);
}

/* ---- Who a process is ------------------------------------------------------------------------------------ */

CASE(wanted_pid_is_given, 1, "an interface opened with a process id has that process id")
{
    ptl_handle_ni_t handle;
    ptl_process_t id;
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, 777, NULL, NULL, &handle));
    OK(PtlGetId(handle, &id));
    CHECK_EQ(id.phys.pid, 777);
    OK(PtlNIFini(handle));
    PtlFini();
}

CASE(largest_pid_is_valid, 1, "PTL_PID_MAX is the biggest process id, and a valid one")
{
    ptl_handle_ni_t handle;
    ptl_process_t id;
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_MAX, NULL, NULL, &handle));
    OK(PtlGetId(handle, &id));
    CHECK_EQ(id.phys.pid, PTL_PID_MAX);
    OK(PtlNIFini(handle));
    PtlFini();
}

CASE(pid_in_use, 2, "PTL_PID_IN_USE: no two processes have one process id; it is free again after PtlNIFini")
{
    const unsigned options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
    ptl_handle_ni_t handle = 0;
    OK(PtlInit());
    if (rank() == 0) OK(PtlNIInit(PTL_IFACE_DEFAULT, options, 500, NULL, NULL, &handle));
    barrier();
    if (rank() == 1) CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, options, 500, NULL, NULL, &handle), PTL_PID_IN_USE);
    barrier();
    if (rank() == 0) OK(PtlNIFini(handle));
    barrier();
    if (rank() == 1) {
        OK(PtlNIInit(PTL_IFACE_DEFAULT, options, 500, NULL, NULL, &handle));
        OK(PtlNIFini(handle));
    }
    PtlFini();
}

CASE(pid_in_use_leaves_library_usable, 2, "a process that was refused a process id can open its interface with another")
{
    ptl_handle_ni_t handle;
    OK(PtlInit());
    if (rank() == 0) OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, 321, NULL, NULL, &handle));
    barrier();
    if (rank() == 1) {
        CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, 321, NULL, NULL, &handle), PTL_PID_IN_USE);
        OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, 322, NULL, NULL, &handle));
    }
    ni_adopt(handle, PTL_NI_MATCHING | PTL_NI_LOGICAL, true);
    CHECK_EQ(peer_physical(0).phys.pid, 321);
    CHECK_EQ(peer_physical(1).phys.pid, 322);
}

CASE(same_pid_for_all_kinds, 1, "the process id asked for may be asked for again by the process's other interfaces")
{
    ptl_handle_ni_t handles[NI_KINDS];
    OK(PtlInit());
    for (int i = 0; i < NI_KINDS; i++) {
        ptl_process_t id;
        OK(PtlNIInit(PTL_IFACE_DEFAULT, ni_kinds[i], 88, NULL, NULL, &handles[i]));
        OK(PtlGetPhysId(handles[i], &id));
        CHECK_EQ(id.phys.pid, 88);
    }
    for (int i = 0; i < NI_KINDS; i++) OK(PtlNIFini(handles[i]));
    PtlFini();
}

CASE(any_pid_is_unique, 8, "PTL_PID_ANY gives every process an id of its own, never 0 and never a wildcard")
{
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    for (int i = 0; i < ranks(); i++) {
        CHECK_OP(peer(i).phys.pid, >, 0);
        CHECK_OP(peer(i).phys.pid, !=, PTL_PID_ANY);
        CHECK_OP(peer(i).phys.nid, !=, PTL_NID_ANY);
        CHECK_OP(peer(i).phys.pid, <=, PTL_PID_MAX);
        for (int j = 0; j < i; j++) CHECK(!same_process(peer(i), peer(j)));
    }
}

CASE(pid_0_is_for_who_asks, 2,
     "process id 0 is given only on request; PTL_PID_ANY does not give it, not even to its owner")
{
    ptl_handle_ni_t zero, any;
    ptl_process_t id;
    OK(PtlInit());
    if (rank() == 0) {
        OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, 0, NULL, NULL, &zero));
        OK(PtlGetPhysId(zero, &id));
        CHECK_EQ(id.phys.pid, 0);
    }
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &any));
    OK(PtlGetPhysId(any, &id));
    CHECK_OP(id.phys.pid, >, 0);
    if (rank() == 0) OK(PtlNIFini(zero));
    ni_adopt(any, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, true);
    CHECK(!same_process(peer(0), peer(1)));
    ptl_handle_eq_t eq = eq_new(8);
    pt_at(0, PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(NULL, 0);
    le_append(0, &le, PTL_PRIORITY_LIST, NULL);
    barrier();
    put(md_new(NULL, 0, 0, eq, PTL_CT_NONE), 0, 1 - rank(), 0, 0, 0);
    expect_send_ack(eq);
    barrier();
}

CASE(getid_of_physical_is_physid, 3, "on a physical interface PtlGetId and PtlGetPhysId agree")
{
    ni_open(PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    ptl_process_t id, physical;
    OK(PtlGetId(ni(), &id));
    OK(PtlGetPhysId(ni(), &physical));
    CHECK_PROCESS(id, physical);
    CHECK_PROCESS(id, peer(rank()));
}

CASE(getid_of_logical_is_rank, 3, "on a logical interface PtlGetId gives the rank, PtlGetPhysId the node and process id")
{
    ni_matching();
    ptl_process_t id, physical;
    OK(PtlGetId(ni(), &id));
    CHECK_EQ(id.rank, rank());
    OK(PtlGetPhysId(ni(), &physical));
    CHECK_EQ(physical.phys.nid, peer_physical(rank()).phys.nid);
    CHECK_EQ(physical.phys.pid, peer_physical(rank()).phys.pid);
}

CASE(getuid_is_the_users, 3, "processes of one user have one user id, and it is not the wildcard")
{
    ptl_uid_t mine, all[3];
    ni_matching();
    OK(PtlGetUid(ni(), &mine));
    CHECK_OP(mine, !=, PTL_UID_ANY);
    exchange(&mine, sizeof mine, all);
    for (int i = 0; i < ranks(); i++) CHECK_EQ(all[i], mine);
}

CASE(getuid_travels_with_messages, 2, "the user id in a target's event is the initiator's PtlGetUid")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(16);
    pt_at(0, rank() == 1 ? eq : PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(NULL, 0, 0);
    me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    ptl_uid_t mine, all[2];
    OK(PtlGetUid(ni(), &mine));
    exchange(&mine, sizeof mine, all);
    if (rank() == 0) {
        put(md_new(NULL, 0, 0, eq, PTL_CT_NONE), 0, 1, 0, 0, 0);
        expect_send_ack(eq);
    } else {
        CHECK_EQ(expect_event(eq, PTL_EVENT_PUT).uid, all[0]);
    }
}

/* ---- The map of ranks ------------------------------------------------------------------------------------ */

CASE(getmap_returns_setmap, 4, "PtlGetMap returns what PtlSetMap set")
{
    ptl_process_t map[8];
    ptl_size_t actual = 0;
    ni_matching();
    OK(PtlGetMap(ni(), 8, map, &actual));
    CHECK_EQ(actual, ranks());
    for (int i = 0; i < ranks(); i++) {
        CHECK_EQ(map[i].phys.nid, peer_physical(i).phys.nid);
        CHECK_EQ(map[i].phys.pid, peer_physical(i).phys.pid);
    }
}

CASE(getmap_into_short_array, 4, "PtlGetMap fills no more than the array holds and still returns the size of the map")
{
    ptl_process_t map[3];
    ptl_size_t actual = 0;
    ni_nonmatching();
    memset(map, 0x5a, sizeof map);
    OK(PtlGetMap(ni(), 2, map, &actual));
    CHECK_EQ(actual, 4);
    CHECK_EQ(map[1].phys.pid, peer_physical(1).phys.pid);
    CHECK_BYTES(&map[2], sizeof map[2], 0x5a);
}

CASE(setmap_orders_ranks, 4, "rank N is entry N of the map: traffic, PtlGetId and event initiators follow it")
{
    ptl_handle_ni_t handle;
    ptl_process_t map[4], id;
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &handle));
    ni_adopt(handle, PTL_NI_MATCHING | PTL_NI_LOGICAL, false);
    for (int i = 0; i < 4; i++) map[i] = peer_physical(3 - i);
    OK(PtlSetMap(handle, 4, map));
    OK(PtlGetId(handle, &id));
    CHECK_EQ(id.rank, 3 - rank());

    ptl_handle_eq_t target_eq = eq_new(16), eq = eq_new(16);
    pt_at(0, target_eq, 0);
    ptl_me_t me = me_over(NULL, 0, 0);
    me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    ptl_process_t next = {.rank = (id.rank + 1) % 4};
    OK(PtlPut(md_new(NULL, 0, 0, eq, PTL_CT_NONE), 0, 0, PTL_ACK_REQ, next, 0, 0, 0, NULL, 100 + id.rank));
    expect_send_ack(eq);
    ptl_event_t ev = expect_event(target_eq, PTL_EVENT_PUT);
    CHECK_EQ(ev.hdr_data, 100 + (id.rank + 3) % 4);
    CHECK_EQ(ev.initiator.rank, (id.rank + 3) % 4);
}

CASE(setmap_again_overwrites, 2, "PtlSetMap again overwrites the map, or returns PTL_IGNORED and leaves it")
{
    ptl_process_t reversed[2], map[2];
    ptl_size_t actual;
    ni_matching();
    for (int i = 0; i < 2; i++) reversed[i] = peer_physical(1 - i);
    int rc = PtlSetMap(ni(), 2, reversed);
    CHECK_EITHER(rc, PTL_OK, PTL_IGNORED);
    OK(PtlGetMap(ni(), 2, map, &actual));
    CHECK_EQ(map[0].phys.pid, rc == PTL_OK ? reversed[0].phys.pid : reversed[1].phys.pid);
}

CASE(setmap_is_per_interface, 2, "the two logical interfaces have separate maps")
{
    ptl_process_t id;
    ptl_handle_ni_t matching = ni_matching(), plain;
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &plain));
    ni_adopt(plain, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, false);
    ptl_process_t reversed[2] = {peer_physical(1), peer_physical(0)};
    OK(PtlSetMap(plain, 2, reversed));
    OK(PtlGetId(matching, &id));
    CHECK_EQ(id.rank, rank());
    OK(PtlGetId(plain, &id));
    CHECK_EQ(id.rank, 1 - rank());
}

CASE(map_refused_on_physical, 1, "PtlSetMap and PtlGetMap are for logical interfaces: PTL_ARG_INVALID on a physical one")
{
    ptl_process_t map[1];
    ptl_size_t actual;
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    map[0] = peer_physical(0);
    CHECK_EQ(PtlSetMap(ni(), 1, map), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetMap(ni(), 1, map, &actual), PTL_ARG_INVALID);
}

/* ---- Status registers ------------------------------------------------------------------------------------ */

CASE(status_registers_start_at_zero, 1, "the status registers of a fresh interface are zero")
{
    ni_matching();
    CHECK_EQ(status_of(PTL_SR_DROP_COUNT), 0);
    CHECK_EQ(status_of(PTL_SR_PERMISSION_VIOLATIONS), 0);
    CHECK_EQ(status_of(PTL_SR_OPERATION_VIOLATIONS), 0);
}

/* Rank 0 puts `times` messages to rank 1 and gets `failure`; at rank 1 only the register `reg` then counts them. */
static void provoke(ptl_handle_md_t md, ptl_handle_eq_t eq, int times, ptl_ni_fail_t failure, ptl_sr_index_t reg)
{
    barrier();
    for (int i = 0; i < times && rank() == 0; i++) {
        put(md, 8, 1, 4, 1, 0);
        expect_send_ack_failure(eq, failure);
    }
    barrier();
    if (rank() == 0) return;
    for (int i = PTL_SR_DROP_COUNT; i < PTL_SR_LAST; i++) CHECK_EQ(status_of(i), i == (int)reg ? times : 0);
}

CASE(drop_count_counts_unmatched, 2, "a message that matches nothing is dropped and counted in PTL_SR_DROP_COUNT")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(64);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    pt_at(4, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(buffer(8), 8, 2);
    me_append(4, &me, PTL_PRIORITY_LIST, NULL);
    provoke(md, eq, 3, PTL_NI_DROPPED, PTL_SR_DROP_COUNT);
}

CASE(drop_count_counts_absent_entry, 2, "a message to a portal table index that is not allocated is dropped and counted")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(64);
    provoke(md_new(buffer(8), 8, 0, eq, PTL_CT_NONE), eq, 3, PTL_NI_DROPPED, PTL_SR_DROP_COUNT);
}

CASE(operation_violations_counted, 2,
     "a put to an entry without OP_PUT is an operation violation, reported and counted")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(64);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    pt_at(4, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(buffer(8), 8, 1);
    me.options = PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE;
    me_append(4, &me, PTL_PRIORITY_LIST, NULL);
    provoke(md, eq, 5, PTL_NI_OP_VIOLATION, PTL_SR_OPERATION_VIOLATIONS);
}

CASE(permission_violations_counted, 2,
     "a put to an entry of another user is a permission violation, reported and counted")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(64);
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, eq, PTL_CT_NONE);
    pt_at(4, PTL_EQ_NONE, 0);
    ptl_uid_t mine;
    OK(PtlGetUid(ni(), &mine));
    ptl_me_t me = me_over(buffer(8), 8, 1);
    me.uid = mine + 1;
    me_append(4, &me, PTL_PRIORITY_LIST, NULL);
    provoke(md, eq, 4, PTL_NI_PERM_VIOLATION, PTL_SR_PERMISSION_VIOLATIONS);
}

CASE(status_registers_are_per_interface, 1, "a drop on one interface is not counted by another")
{
    ptl_handle_ni_t other = ni_matching();
    ptl_sr_value_t drops = -1;
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    ptl_handle_eq_t eq = eq_new(8);
    put(md_new(NULL, 0, 0, eq, PTL_CT_NONE), 0, 0, 9, 0, 0);
    expect_send_ack_failure(eq, PTL_NI_DROPPED);
    CHECK_EQ(status_of(PTL_SR_DROP_COUNT), 1);
    OK(PtlNIStatus(other, PTL_SR_DROP_COUNT, &drops));
    CHECK_EQ(drops, 0);
}

CASE(absent_process_is_undeliverable, 1, "a message to an unused process id ends with PTL_NI_UNDELIVERABLE")
{
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    ptl_handle_eq_t eq = eq_new(8);
    ptl_process_t nobody = peer(0);
    nobody.phys.pid = nobody.phys.pid == 913 ? 914 : 913;
    OK(PtlPut(md_new(NULL, 0, 0, eq, PTL_CT_NONE), 0, 0, PTL_ACK_REQ, nobody, 0, 0, 0, NULL, 0));
    ptl_event_t ev;
    do wait_event(eq, &ev, 0);
    while (ev.type == PTL_EVENT_SEND && ev.ni_fail_type == PTL_NI_OK);
    CHECK_EQ(ev.ni_fail_type, PTL_NI_UNDELIVERABLE);
}

/* ---- Handles --------------------------------------------------------------------------------------------- */

CASE(nihandle_of_every_object, 1, "PtlNIHandle gives the interface of any object, and of an interface itself")
{
    ptl_handle_ni_t handles[2] = {ni_matching(), ni_nonmatching()}, found;
    for (int i = 0; i < 2; i++) {
        ni_use(handles[i]);
        ptl_handle_eq_t eq = eq_new(8);
        ptl_pt_index_t pt = pt_new(eq, 0);
        ptl_me_t me = me_over(NULL, 0, 0);
        ptl_le_t le = le_over(NULL, 0);
        ptl_handle_any_t entry = ni_is_matching() ? me_append(pt, &me, PTL_PRIORITY_LIST, NULL)
                                                  : le_append(pt, &le, PTL_PRIORITY_LIST, NULL);
        ptl_handle_any_t objects[] = {ni(), eq, ct_new(), md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE), entry};
        for (size_t j = 0; j < sizeof objects / sizeof objects[0]; j++) {
            OK(PtlNIHandle(objects[j], &found));
            CHECK(PtlHandleIsEqual(found, handles[i]));
        }
    }
}

CASE(nihandle_of_no_object, 1, "PtlNIHandle of an invalid handle is PTL_ARG_INVALID")
{
    ptl_handle_ni_t found;
    ni_matching();
    ptl_handle_ct_t freed = ct_new();
    OK(PtlCTFree(freed));
    ptl_handle_any_t nothing[] = {PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE, freed};
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
        CHECK_EQ(PtlNIHandle(nothing[i], &found), PTL_ARG_INVALID);
}

CASE(handles_compare, 1, "PtlHandleIsEqual is non-zero for one object, zero for two, and takes PTL_INVALID_HANDLE")
{
    ni_matching();
    ptl_handle_any_t objects[] = {ni(), eq_new(4), eq_new(4), ct_new(), ct_new(),
                                  md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE), PTL_INVALID_HANDLE};
    const int count = sizeof objects / sizeof objects[0];
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) CHECK_EQ(PtlHandleIsEqual(objects[i], objects[j]) != 0, i == j);
}

CASE(handles_are_not_reused_at_once, 1, "a freed object's handle does not name the next object made")
{
    ni_matching();
    ptl_ct_event_t value;
    for (int i = 0; i < 20; i++) {
        ptl_handle_ct_t old = ct_new();
        OK(PtlCTFree(old));
        ptl_handle_ct_t next = ct_new();
        CHECK(!PtlHandleIsEqual(old, next));
        CHECK_EQ(PtlCTGet(old, &value), PTL_ARG_INVALID);
        OK(PtlCTFree(next));
    }
}

/* ---- Bundles and synchronisation ------------------------------------------------------------------------- */

CASE(bundles_nest, 2, "operations in nested bundles are all initiated by the matching PtlEndBundle")
{
    ni_matching();
    ptl_handle_ct_t ct = ct_new();
    pt_at(0, PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(NULL, 0, 0);
    me.ct_handle = ct;
    me.options |= PTL_ME_EVENT_CT_COMM;
    if (rank() == 1) me_append(0, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    if (rank() == 0) {
        ptl_handle_md_t md = md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
        OK(PtlStartBundle(ni()));
        OK(PtlStartBundle(ni()));
        for (int i = 0; i < 10; i++) OK(PtlPut(md, 0, 0, PTL_NO_ACK_REQ, peer(1), 0, 0, 0, NULL, 0));
        OK(PtlEndBundle(ni()));
        OK(PtlEndBundle(ni()));
    } else {
        expect_ct(ct, 10, 0);
    }
}

CASE(atomic_sync_returns, 1, "PtlAtomicSync returns PTL_OK once the library is started")
{
    ni_matching();
    OK(PtlAtomicSync());
}
