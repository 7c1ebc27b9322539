/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Arguments that a function refuses before it does anything.
 * - PTL_NO_INIT before PtlInit, from every function that may return it.
 * - PTL_ARG_INVALID for handles that are invalid, of another kind, freed, or of another interface, for unknown options,
 * for indexes out of range and for missing results.
 *
 * A refused call changes nothing.
 */
#include "suite.h"

static const ptl_process_t nobody;
static const ptl_ct_event_t one = {1, 0};

/* ---- Before PtlInit --------------------------------------------------------------------------------------- */

CASE(no_init_interfaces, 1, "functions on interfaces and the portal table return PTL_NO_INIT before PtlInit")
{
    ptl_handle_ni_t handle;
    ptl_process_t id;
    ptl_sr_value_t value;
    ptl_size_t actual;
    ptl_uid_t uid;
    ptl_pt_index_t pt;
    CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &handle), PTL_NO_INIT);
    CHECK_EQ(PtlNIFini(0), PTL_NO_INIT);
    CHECK_EQ(PtlNIStatus(0, PTL_SR_DROP_COUNT, &value), PTL_NO_INIT);
    CHECK_EQ(PtlNIHandle(0, &handle), PTL_NO_INIT);
    CHECK_EQ(PtlSetMap(0, 1, &id), PTL_NO_INIT);
    CHECK_EQ(PtlGetMap(0, 1, &id, &actual), PTL_NO_INIT);
    CHECK_EQ(PtlGetUid(0, &uid), PTL_NO_INIT);
    CHECK_EQ(PtlGetId(0, &id), PTL_NO_INIT);
    CHECK_EQ(PtlGetPhysId(0, &id), PTL_NO_INIT);
    CHECK_EQ(PtlPTAlloc(0, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_NO_INIT);
    CHECK_EQ(PtlPTFree(0, 0), PTL_NO_INIT);
    CHECK_EQ(PtlPTEnable(0, 0), PTL_NO_INIT);
    CHECK_EQ(PtlPTDisable(0, 0), PTL_NO_INIT);
    CHECK_EQ(PtlStartBundle(0), PTL_NO_INIT);
    CHECK_EQ(PtlEndBundle(0), PTL_NO_INIT);
}

CASE(no_init_objects, 1, "functions on descriptors, entries, queues and counters return PTL_NO_INIT before PtlInit")
{
    ptl_handle_any_t handle;
    ptl_md_t md = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
    ptl_me_t me;
    ptl_le_t le;
    ptl_event_t ev;
    ptl_ct_event_t ct;
    ptl_size_t test = 1;
    unsigned which;
    memset(&me, 0, sizeof me);
    memset(&le, 0, sizeof le);
    handle = 0;
    CHECK_EQ(PtlMDBind(0, &md, &handle), PTL_NO_INIT);
    CHECK_EQ(PtlMDRelease(0), PTL_NO_INIT);
    CHECK_EQ(PtlLEAppend(0, 0, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_NO_INIT);
    CHECK_EQ(PtlLEUnlink(0), PTL_NO_INIT);
    CHECK_EQ(PtlLESearch(0, 0, &le, PTL_SEARCH_ONLY, NULL), PTL_NO_INIT);
    CHECK_EQ(PtlMEAppend(0, 0, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_NO_INIT);
    CHECK_EQ(PtlMEUnlink(0), PTL_NO_INIT);
    CHECK_EQ(PtlMESearch(0, 0, &me, PTL_SEARCH_ONLY, NULL), PTL_NO_INIT);
    CHECK_EQ(PtlEQAlloc(0, 8, &handle), PTL_NO_INIT);
    CHECK_EQ(PtlEQFree(0), PTL_NO_INIT);
    CHECK_EQ(PtlEQGet(0, &ev), PTL_NO_INIT);
    CHECK_EQ(PtlEQWait(0, &ev), PTL_NO_INIT);
    CHECK_EQ(PtlEQPoll(&handle, 1, 0, &ev, &which), PTL_NO_INIT);
    CHECK_EQ(PtlCTAlloc(0, &handle), PTL_NO_INIT);
    CHECK_EQ(PtlCTFree(0), PTL_NO_INIT);
    CHECK_EQ(PtlCTGet(0, &ct), PTL_NO_INIT);
    CHECK_EQ(PtlCTWait(0, 1, &ct), PTL_NO_INIT);
    CHECK_EQ(PtlCTPoll(&handle, &test, 1, 0, &ct, &which), PTL_NO_INIT);
    CHECK_EQ(PtlCTSet(0, one), PTL_NO_INIT);
    CHECK_EQ(PtlCTInc(0, one), PTL_NO_INIT);
    CHECK_EQ(PtlCTCancelTriggered(0), PTL_NO_INIT);
}

CASE(no_init_operations, 1, "data movement and triggered functions return PTL_NO_INIT before PtlInit")
{
    uint64_t operand = 0;
    CHECK_EQ(PtlPut(0, 0, 0, PTL_NO_ACK_REQ, nobody, 0, 0, 0, NULL, 0), PTL_NO_INIT);
    CHECK_EQ(PtlGet(0, 0, 0, nobody, 0, 0, 0, NULL), PTL_NO_INIT);
    CHECK_EQ(PtlAtomic(0, 0, 8, PTL_NO_ACK_REQ, nobody, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T), PTL_NO_INIT);
    CHECK_EQ(PtlFetchAtomic(0, 0, 0, 0, 8, nobody, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T), PTL_NO_INIT);
    CHECK_EQ(PtlSwap(0, 0, 0, 0, 8, nobody, 0, 0, 0, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T), PTL_NO_INIT);
    CHECK_EQ(PtlAtomicSync(), PTL_NO_INIT);
    CHECK_EQ(PtlTriggeredPut(0, 0, 0, PTL_NO_ACK_REQ, nobody, 0, 0, 0, NULL, 0, 0, 1), PTL_NO_INIT);
    CHECK_EQ(PtlTriggeredGet(0, 0, 0, nobody, 0, 0, 0, NULL, 0, 1), PTL_NO_INIT);
    CHECK_EQ(PtlTriggeredAtomic(0, 0, 8, PTL_NO_ACK_REQ, nobody, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, 0, 1), PTL_NO_INIT);
    CHECK_EQ(PtlTriggeredFetchAtomic(0, 0, 0, 0, 8, nobody, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T, 0, 1), PTL_NO_INIT);
    CHECK_EQ(PtlTriggeredSwap(0, 0, 0, 0, 8, nobody, 0, 0, 0, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T, 0, 1), PTL_NO_INIT);
    CHECK_EQ(PtlTriggeredCTInc(0, one, 0, 1), PTL_NO_INIT);
    CHECK_EQ(PtlTriggeredCTSet(0, one, 0, 1), PTL_NO_INIT);
}

/* ---- Opening an interface --------------------------------------------------------------------------------- */

CASE(niinit_options, 1,
     "PtlNIInit takes exactly one of matching and no matching, one of logical and physical, and no other option")
{
    const unsigned m = PTL_NI_MATCHING, n = PTL_NI_NO_MATCHING, l = PTL_NI_LOGICAL, p = PTL_NI_PHYSICAL;
    const unsigned wrong[] = {0, m, n, l, p, m | n, l | p, m | n | l, m | l | p, m | n | l | p, m | l | (1u << 20)};
    ptl_handle_ni_t handle;
    OK(PtlInit());
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, wrong[i], PTL_PID_ANY, NULL, NULL, &handle), PTL_ARG_INVALID);
    PtlFini();
}

CASE(niinit_arguments, 1, "PtlNIInit refuses an unknown interface, a process id out of range, and NULL for the handle")
{
    const unsigned options = PTL_NI_MATCHING | PTL_NI_PHYSICAL;
    ptl_handle_ni_t handle;
    OK(PtlInit());
    CHECK_EQ(PtlNIInit(12345, options, PTL_PID_ANY, NULL, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_MAX + 1, NULL, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, options, PTL_PID_ANY, NULL, NULL, NULL), PTL_ARG_INVALID);
    PtlFini();
}

/* ---- Handles ---------------------------------------------------------------------------------------------- */

static void check_bad_ni(ptl_handle_ni_t bad)
{
    ptl_handle_any_t handle;
    ptl_md_t md = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
    ptl_me_t me = me_over(NULL, 0, 0);
    ptl_le_t le = le_over(NULL, 0);
    ptl_process_t id = peer_physical(0);
    ptl_sr_value_t value;
    ptl_size_t actual;
    ptl_uid_t uid;
    ptl_pt_index_t pt;
    CHECK_EQ(PtlNIFini(bad), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIStatus(bad, PTL_SR_DROP_COUNT, &value), PTL_ARG_INVALID);
    CHECK_EQ(PtlSetMap(bad, 1, &id), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetMap(bad, 1, &id, &actual), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetUid(bad, &uid), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetId(bad, &id), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetPhysId(bad, &id), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(bad, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTFree(bad, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTEnable(bad, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTDisable(bad, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlMDBind(bad, &md, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlLEAppend(bad, 0, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlLESearch(bad, 0, &le, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlMEAppend(bad, 0, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMESearch(bad, 0, &me, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQAlloc(bad, 8, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTAlloc(bad, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlStartBundle(bad), PTL_ARG_INVALID);
    CHECK_EQ(PtlEndBundle(bad), PTL_ARG_INVALID);
}

static void check_bad_eq(ptl_handle_eq_t bad)
{
    ptl_event_t ev;
    unsigned which;
    ptl_pt_index_t pt;
    ptl_handle_md_t handle;
    ptl_md_t md = {NULL, 0, 0, bad, PTL_CT_NONE};
    CHECK_EQ(PtlEQFree(bad), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQGet(bad, &ev), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQWait(bad, &ev), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(&bad, 1, 0, &ev, &which), PTL_ARG_INVALID);
    if (bad == PTL_EQ_NONE) return; /* PTL_EQ_NONE and PTL_CT_NONE are valid for the calls below */
    CHECK_EQ(PtlMDBind(ni(), &md, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni(), 0, bad, PTL_PT_ANY, &pt), PTL_ARG_INVALID);
}

static void check_bad_ct(ptl_handle_ct_t bad)
{
    ptl_ct_event_t value;
    ptl_size_t test = 0;
    unsigned which;
    ptl_handle_any_t handle;
    ptl_handle_ct_t good = ct_new();
    ptl_handle_md_t plain = md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
    CHECK_EQ(PtlCTFree(bad), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTGet(bad, &value), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTWait(bad, 0, &value), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(&bad, &test, 1, 0, &value, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTSet(bad, one), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTInc(bad, one), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTCancelTriggered(bad), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTInc(bad, one, good, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTInc(good, one, bad, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTSet(bad, one, good, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTSet(good, one, bad, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredPut(plain, 0, 0, PTL_NO_ACK_REQ, peer(0), 0, 0, 0, NULL, 0, bad, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredGet(plain, 0, 0, peer(0), 0, 0, 0, NULL, bad, 1), PTL_ARG_INVALID);
    OK(PtlMDRelease(plain));
    OK(PtlCTFree(good));
    if (bad == PTL_CT_NONE) return;
    ptl_md_t md = {NULL, 0, 0, PTL_EQ_NONE, bad};
    CHECK_EQ(PtlMDBind(ni(), &md, &handle), PTL_ARG_INVALID);
    ptl_me_t me = me_over(NULL, 0, 0);
    me.ct_handle = bad;
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    CHECK_EQ(PtlMEAppend(ni(), pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    OK(PtlPTFree(ni(), pt));
}

static void check_bad_md(ptl_handle_md_t bad)
{
    uint64_t operand = 0;
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t good = md_new(buffer(8), 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_process_t to = peer(0);
    CHECK_EQ(PtlMDRelease(bad), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(bad, 0, 0, PTL_NO_ACK_REQ, to, 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlGet(bad, 0, 0, to, 0, 0, 0, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlAtomic(bad, 0, 8, PTL_NO_ACK_REQ, to, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T), PTL_ARG_INVALID);
    CHECK_EQ(PtlFetchAtomic(bad, 0, good, 0, 8, to, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T), PTL_ARG_INVALID);
    CHECK_EQ(PtlFetchAtomic(good, 0, bad, 0, 8, to, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T), PTL_ARG_INVALID);
    CHECK_EQ(PtlSwap(bad, 0, good, 0, 8, to, 0, 0, 0, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T), PTL_ARG_INVALID);
    CHECK_EQ(PtlSwap(good, 0, bad, 0, 8, to, 0, 0, 0, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredPut(bad, 0, 0, PTL_NO_ACK_REQ, to, 0, 0, 0, NULL, 0, ct, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredGet(bad, 0, 0, to, 0, 0, 0, NULL, ct, 1), PTL_ARG_INVALID);
    OK(PtlCTFree(ct));
    OK(PtlMDRelease(good));
}

CASE(handles_that_are_none, 1, "a handle that names no object is PTL_ARG_INVALID everywhere")
{
    ni_matching();
    const ptl_handle_any_t none[] = {PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE, 0x12345678, 0x7fffffff};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        check_bad_ni(none[i]);
        check_bad_eq(none[i]);
        check_bad_ct(none[i]);
        check_bad_md(none[i]);
        CHECK_EQ(PtlMEUnlink(none[i]), PTL_ARG_INVALID);
        CHECK_EQ(PtlLEUnlink(none[i]), PTL_ARG_INVALID);
    }
}

CASE(handles_of_another_kind, 1, "a handle of another kind of object is PTL_ARG_INVALID everywhere")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_me_t entry = me_over(NULL, 0, 0);
    ptl_handle_me_t me = me_append(pt_new(PTL_EQ_NONE, 0), &entry, PTL_PRIORITY_LIST, NULL);
    const ptl_handle_any_t not_ni[] = {eq, ct, md, me}, not_eq[] = {ni(), ct, md, me}, not_ct[] = {ni(), eq, md, me},
                           not_md[] = {ni(), eq, ct, me}, not_me[] = {ni(), eq, ct, md};
    for (int i = 0; i < 4; i++) {
        check_bad_ni(not_ni[i]);
        check_bad_eq(not_eq[i]);
        check_bad_ct(not_ct[i]);
        check_bad_md(not_md[i]);
        CHECK_EQ(PtlMEUnlink(not_me[i]), PTL_ARG_INVALID);
    }
}

CASE(handles_of_freed_objects, 1, "a handle whose object was freed is PTL_ARG_INVALID everywhere")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_me_t entry = me_over(NULL, 0, 0);
    ptl_handle_me_t me = me_append(pt_new(PTL_EQ_NONE, 0), &entry, PTL_PRIORITY_LIST, NULL);
    OK(PtlEQFree(eq));
    OK(PtlCTFree(ct));
    OK(PtlMDRelease(md));
    OK(PtlMEUnlink(me));
    check_bad_eq(eq);
    check_bad_ct(ct);
    check_bad_md(md);
    CHECK_EQ(PtlMEUnlink(me), PTL_ARG_INVALID);
}

CASE(objects_of_another_interface, 1, "an object cannot use objects of another interface")
{
    ptl_handle_any_t handle;
    ptl_pt_index_t index;
    ni_matching();
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_ct_t ct = ct_new();
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    ptl_md_t with_eq = {NULL, 0, 0, eq, PTL_CT_NONE}, with_ct = {NULL, 0, 0, PTL_EQ_NONE, ct};
    CHECK_EQ(PtlMDBind(ni(), &with_eq, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMDBind(ni(), &with_ct, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni(), 0, eq, PTL_PT_ANY, &index), PTL_ARG_INVALID);
    ptl_me_t me = me_over(NULL, 0, 0);
    me.ct_handle = ct;
    CHECK_EQ(PtlMEAppend(ni(), pt_new(PTL_EQ_NONE, 0), &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredCTInc(ct, one, ct_new(), 1), PTL_ARG_INVALID);
}

/* ---- Results and structures ------------------------------------------------------------------------------- */

CASE(nowhere_for_results, 1, "a call with NULL for its result is PTL_ARG_INVALID and allocates nothing")
{
    ptl_ni_limits_t desired = limits_default(), actual;
    desired.max_eqs = desired.max_cts = desired.max_mds = desired.max_entries = 1;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, &desired, &actual);
    ptl_md_t md = {NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE};
    ptl_me_t me = me_over(NULL, 0, 0);
    CHECK_EQ(PtlEQAlloc(ni(), 8, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTAlloc(ni(), NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlMDBind(ni(), &md, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, PTL_PT_ANY, NULL), PTL_ARG_INVALID);
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    CHECK_EQ(pt, 0);
    CHECK_EQ(PtlMEAppend(ni(), pt, &me, PTL_PRIORITY_LIST, NULL, NULL), PTL_ARG_INVALID);
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_ct_t ct = ct_new();
    md_new(NULL, 0, 0, PTL_EQ_NONE, PTL_CT_NONE);
    me_append(pt, &me, PTL_PRIORITY_LIST, NULL);
    CHECK_EQ(PtlEQGet(eq, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQWait(eq, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTGet(ct, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTWait(ct, 0, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIStatus(ni(), PTL_SR_DROP_COUNT, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIHandle(ct, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetId(ni(), NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetPhysId(ni(), NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetUid(ni(), NULL), PTL_ARG_INVALID);
}

CASE(nothing_to_read_from, 1, "a call with NULL for its input structure is PTL_ARG_INVALID")
{
    ptl_handle_any_t handle;
    ni_matching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    CHECK_EQ(PtlMDBind(ni(), NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMEAppend(ni(), pt, NULL, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMESearch(ni(), pt, NULL, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlSetMap(ni(), 1, NULL), PTL_ARG_INVALID);
    ni_nonmatching();
    pt = pt_new(PTL_EQ_NONE, 0);
    CHECK_EQ(PtlLEAppend(ni(), pt, NULL, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlLESearch(ni(), pt, NULL, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
}

CASE(status_register_index, 1, "PtlNIStatus refuses an unknown register")
{
    ptl_sr_value_t value;
    ni_matching();
    CHECK_EQ(PtlNIStatus(ni(), (ptl_sr_index_t)PTL_SR_LAST, &value), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIStatus(ni(), (ptl_sr_index_t)1000, &value), PTL_ARG_INVALID);
}

CASE(setmap_empty, 1, "PtlSetMap refuses an empty map")
{
    ni_matching();
    ptl_process_t map = peer_physical(0);
    CHECK_EQ(PtlSetMap(ni(), 0, &map), PTL_ARG_INVALID);
}

CASE(entries_of_the_other_kind, 1, "match list entries need an interface with matching, list entries one without")
{
    ptl_handle_any_t handle;
    ni_matching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(NULL, 0, 0);
    ptl_le_t le = le_over(NULL, 0);
    CHECK_EQ(PtlLEAppend(ni(), pt, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlLESearch(ni(), pt, &le, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
    ni_nonmatching();
    pt = pt_new(PTL_EQ_NONE, 0);
    CHECK_EQ(PtlMEAppend(ni(), pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMESearch(ni(), pt, &me, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
}

CASE(append_arguments, 1, "appending and searching refuse unknown options, lists and searches, and indexes not allocated")
{
    ptl_handle_any_t handle;
    ni_matching();
    ptl_pt_index_t pt = pt_new(PTL_EQ_NONE, 0);
    ptl_me_t me = me_over(NULL, 0, 0), odd = me;
    odd.options |= 1u << 30;
    CHECK_EQ(PtlMEAppend(ni(), pt, &odd, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMEAppend(ni(), pt, &me, 2, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlMESearch(ni(), pt, &me, 2, NULL), PTL_ARG_INVALID);
    const ptl_pt_index_t no_index[] = {pt + 1, 1u << 20, PTL_PT_ANY};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(PtlMEAppend(ni(), no_index[i], &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
        CHECK_EQ(PtlMESearch(ni(), no_index[i], &me, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
    }
    ni_nonmatching();
    pt = pt_new(PTL_EQ_NONE, 0);
    ptl_le_t le = le_over(NULL, 0), odd_le = le;
    odd_le.options |= PTL_ME_MANAGE_LOCAL; /* only match list entries have this option */
    CHECK_EQ(PtlLEAppend(ni(), pt, &odd_le, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlLEAppend(ni(), pt, &le, 2, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlLEAppend(ni(), pt + 1, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_EQ(PtlLESearch(ni(), pt, &le, 2, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlLESearch(ni(), pt + 1, &le, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
}

CASE(descriptor_arguments, 1, "PtlMDBind refuses unknown options and memory without an address")
{
    ptl_handle_md_t handle;
    ni_matching();
    ptl_md_t odd = {buffer(8), 8, 1u << 30, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(ni(), &odd, &handle), PTL_ARG_INVALID);
    ptl_md_t nothing = {NULL, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(ni(), &nothing, &handle), PTL_ARG_INVALID);
}

CASE(operation_bounds, 1, "an operation outside its descriptor is PTL_ARG_INVALID and leaves no event")
{
    ni_matching();
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_md_t md = md_new(buffer(64), 64, 0, eq, PTL_CT_NONE);
    const struct { ptl_size_t offset, length; } outside[] = {{0, 65}, {64, 1}, {65, 0}, {1, 64}, {~0ull, 2}, {2, ~0ull}};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        ptl_size_t offset = outside[i].offset, length = outside[i].length;
        CHECK_EQ(PtlPut(md, offset, length, PTL_ACK_REQ, peer(0), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
        CHECK_EQ(PtlGet(md, offset, length, peer(0), 0, 0, 0, NULL), PTL_ARG_INVALID);
    }
    no_event(eq, 20);
}

CASE(operation_targets, 2, "an operation to a rank outside the map is PTL_ARG_INVALID")
{
    ni_matching();
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    const ptl_rank_t wrong[] = {2, 1000, PTL_RANK_ANY};
    for (int i = 0; i < 3; i++) {
        ptl_process_t to = {.rank = wrong[i]};
        CHECK_EQ(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, to, 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
        CHECK_EQ(PtlGet(md, 0, 8, to, 0, 0, 0, NULL), PTL_ARG_INVALID);
        CHECK_EQ(PtlAtomic(md, 0, 8, PTL_NO_ACK_REQ, to, 0, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T), PTL_ARG_INVALID);
    }
}

CASE(ack_request_is_known, 1, "PtlPut refuses an unknown kind of acknowledgment")
{
    ni_matching();
    ptl_handle_md_t md = md_new(buffer(8), 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    CHECK_EQ(PtlPut(md, 0, 8, 4, peer(0), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_EQ(PtlPut(md, 0, 8, 255, peer(0), 0, 0, 0, NULL, 0), PTL_ARG_INVALID);
}
