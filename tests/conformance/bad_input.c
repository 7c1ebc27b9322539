/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Mistakes of a program: wrong handles, pointers, lengths, identifiers, memory. A call that cannot run returns an error,
 * or the operation fails with an event. The mistake harms neither the caller nor its peer, and everything else still works
 * afterwards. Portals 4.3, the PTL_ARG_INVALID clauses of all functions.
 */
#include "suite.h"

#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PT = 13, FREE_PT = 14, BITS = 0xe3, BYTES = 256 };

static const ptl_ct_event_t one = {1, 0};

/* One object of each kind, on the only interface; `dead` holds freed handles. */
static struct {
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_handle_me_t entry; /* a match list entry, or a list entry without matching */
    unsigned char *local, *exposed;
} live;

static void make_objects(void)
{
    live.local = buffer(BYTES);
    live.exposed = buffer(BYTES);
    live.eq = eq_new(64);
    live.ct = ct_new();
    live.md = md_new(live.local, BYTES, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY, live.eq, live.ct);
    pt_at(PT, PTL_EQ_NONE, 0);
    if (ni_is_matching()) {
        ptl_me_t me = me_over(live.exposed, BYTES, BITS);
        live.entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    } else {
        ptl_le_t le = le_over(live.exposed, BYTES);
        live.entry = le_append(PT, &le, PTL_PRIORITY_LIST, NULL);
    }
}

/* Puts into `to` and gets from it, with new objects. */
static void still_works(int to)
{
    static unsigned seed = 1000;
    unsigned char *out = buffer(BYTES), *back = buffer(BYTES);
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_md_t md = md_new(out, BYTES, 0, eq, PTL_CT_NONE), md_back = md_new(back, BYTES, 0, eq, PTL_CT_NONE);
    pattern_fill(out, BYTES, ++seed);
    put(md, BYTES, to, PT, BITS, 0);
    CHECK_EQ(expect_send_ack(eq).mlength, BYTES);
    get(md_back, BYTES, to, PT, BITS, 0);
    CHECK_EQ(expect_event(eq, PTL_EVENT_REPLY).mlength, BYTES);
    CHECK_PATTERN(back, BYTES, seed);
    OK(PtlMDRelease(md));
    OK(PtlMDRelease(md_back));
    OK(PtlEQFree(eq));
}

/* ---- Handles -------------------------------------------------------------------------------------------- */

struct probe {
    const char *name;
    int (*call)(ptl_handle_any_t handle);
};

/* Calls that differ in one handle only: each becomes a function of that handle. */
#define PROBE(function_name, expression)                        \
    static int function_name(ptl_handle_any_t h) { return expression; }

static ptl_event_t ev_out;
static ptl_ct_event_t ct_out;
static unsigned which_out;
static ptl_handle_any_t handle_out;
static ptl_pt_index_t pt_out;
static ptl_process_t id_out;
static uint64_t operand;
static const ptl_size_t zero_test;

static ptl_me_t an_me(ptl_handle_ct_t ct)
{
    ptl_me_t me = me_over(live.exposed, 8, BITS + 9);
    me.ct_handle = ct;
    return me;
}

static ptl_le_t an_le(ptl_handle_ct_t ct)
{
    ptl_le_t le = le_over(live.exposed, 8);
    le.ct_handle = ct;
    return le;
}

static int bind_with(ptl_handle_ni_t ni_handle, ptl_handle_eq_t eq, ptl_handle_ct_t ct)
{
    ptl_md_t md = {.start = live.local, .length = 8, .eq_handle = eq, .ct_handle = ct};
    return PtlMDBind(ni_handle, &md, &handle_out);
}

static int append_me(ptl_handle_ni_t ni_handle, ptl_handle_ct_t ct)
{
    ptl_me_t me = an_me(ct);
    return PtlMEAppend(ni_handle, PT, &me, PTL_PRIORITY_LIST, NULL, &handle_out);
}

static int append_le(ptl_handle_ni_t ni_handle, ptl_handle_ct_t ct)
{
    ptl_le_t le = an_le(ct);
    return PtlLEAppend(ni_handle, PT, &le, PTL_PRIORITY_LIST, NULL, &handle_out);
}

static int append_later(ptl_handle_ni_t ni_handle, ptl_handle_ct_t trigger)
{
    ptl_me_t me = an_me(PTL_CT_NONE);
    return PtlTriggeredMEAppend(ni_handle, PT, &me, PTL_PRIORITY_LIST, NULL, &handle_out, trigger, 1);
}

static int search_me(ptl_handle_ni_t ni_handle)
{
    ptl_me_t me = an_me(PTL_CT_NONE);
    return PtlMESearch(ni_handle, PT, &me, PTL_SEARCH_ONLY, NULL);
}

static int search_le(ptl_handle_ni_t ni_handle)
{
    ptl_le_t le = an_le(PTL_CT_NONE);
    return PtlLESearch(ni_handle, PT, &le, PTL_SEARCH_ONLY, NULL);
}

static int put_later(ptl_handle_md_t md, ptl_handle_ct_t trigger)
{
    return PtlTriggeredPut(md, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, trigger, 1000);
}

static int get_later(ptl_handle_md_t md, ptl_handle_ct_t trigger)
{
    return PtlTriggeredGet(md, 0, 8, peer(0), PT, BITS, 0, NULL, trigger, 1000);
}

static int atomic_later(ptl_handle_md_t md, ptl_handle_ct_t trigger)
{
    return PtlTriggeredAtomic(md, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T, trigger,
                              1000);
}

static int fetch(ptl_handle_md_t get_md, ptl_handle_md_t put_md)
{
    return PtlFetchAtomic(get_md, 16, put_md, 0, 8, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T);
}

static int fetch_later(ptl_handle_md_t get_md, ptl_handle_md_t put_md, ptl_handle_ct_t trigger)
{
    return PtlTriggeredFetchAtomic(get_md, 16, put_md, 0, 8, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T,
                                   trigger, 1000);
}

static int swap(ptl_handle_md_t get_md, ptl_handle_md_t put_md, const void *with)
{
    return PtlSwap(get_md, 16, put_md, 0, 8, peer(0), PT, BITS, 0, NULL, 0, with, PTL_CSWAP, PTL_INT64_T);
}

static int swap_later(ptl_handle_md_t get_md, ptl_handle_md_t put_md, ptl_handle_ct_t trigger)
{
    return PtlTriggeredSwap(get_md, 16, put_md, 0, 8, peer(0), PT, BITS, 0, NULL, 0, &operand, PTL_CSWAP, PTL_INT64_T,
                            trigger, 1000);
}

static int set_map(ptl_handle_ni_t ni_handle)
{
    ptl_process_t map[1] = {peer_physical(0)};
    return PtlSetMap(ni_handle, 1, map);
}

static int get_map(ptl_handle_ni_t ni_handle)
{
    ptl_process_t map[1];
    ptl_size_t entries;
    return PtlGetMap(ni_handle, 1, map, &entries);
}

static int status_of(ptl_handle_ni_t ni_handle)
{
    ptl_sr_value_t value;
    return PtlNIStatus(ni_handle, PTL_SR_DROP_COUNT, &value);
}

static int uid_of(ptl_handle_ni_t ni_handle)
{
    ptl_uid_t uid;
    return PtlGetUid(ni_handle, &uid);
}

PROBE(ni_fini, PtlNIFini(h))
PROBE(ni_pt_alloc, PtlPTAlloc(h, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt_out))
PROBE(ni_pt_free, PtlPTFree(h, PT))
PROBE(ni_pt_disable, PtlPTDisable(h, PT))
PROBE(ni_pt_enable, PtlPTEnable(h, PT))
PROBE(ni_get_id, PtlGetId(h, &id_out))
PROBE(ni_get_phys_id, PtlGetPhysId(h, &id_out))
PROBE(ni_md_bind, bind_with(h, PTL_EQ_NONE, PTL_CT_NONE))
PROBE(ni_me_append, append_me(h, PTL_CT_NONE))
PROBE(ni_le_append, append_le(h, PTL_CT_NONE))
PROBE(ni_me_append_later, append_later(h, live.ct))
PROBE(ni_ct_alloc, PtlCTAlloc(h, &handle_out))
PROBE(ni_eq_alloc, PtlEQAlloc(h, 4, &handle_out))
PROBE(ni_start_bundle, PtlStartBundle(h))
PROBE(ni_end_bundle, PtlEndBundle(h))

static const struct probe ni_probes[] = {
    {"PtlNIFini", ni_fini},
    {"PtlNIStatus", status_of},
    {"PtlSetMap", set_map},
    {"PtlGetMap", get_map},
    {"PtlPTAlloc", ni_pt_alloc},
    {"PtlPTFree", ni_pt_free},
    {"PtlPTDisable", ni_pt_disable},
    {"PtlPTEnable", ni_pt_enable},
    {"PtlGetUid", uid_of},
    {"PtlGetId", ni_get_id},
    {"PtlGetPhysId", ni_get_phys_id},
    {"PtlMDBind", ni_md_bind},
    {"PtlMEAppend", ni_me_append},
    {"PtlMESearch", search_me},
    {"PtlLEAppend", ni_le_append},
    {"PtlLESearch", search_le},
    {"PtlTriggeredMEAppend", ni_me_append_later},
    {"PtlCTAlloc", ni_ct_alloc},
    {"PtlEQAlloc", ni_eq_alloc},
    {"PtlStartBundle", ni_start_bundle},
    {"PtlEndBundle", ni_end_bundle},
};

PROBE(md_release, PtlMDRelease(h))
PROBE(md_put, PtlPut(h, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0))
PROBE(md_get, PtlGet(h, 0, 8, peer(0), PT, BITS, 0, NULL))
PROBE(md_atomic, PtlAtomic(h, 0, 8, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T))
PROBE(md_fetch_get, fetch(h, live.md))
PROBE(md_fetch_put, fetch(live.md, h))
PROBE(md_swap_get, swap(h, live.md, &operand))
PROBE(md_swap_put, swap(live.md, h, &operand))
PROBE(md_put_later, put_later(h, live.ct))
PROBE(md_get_later, get_later(h, live.ct))
PROBE(md_atomic_later, atomic_later(h, live.ct))
PROBE(md_fetch_get_later, fetch_later(h, live.md, live.ct))
PROBE(md_fetch_put_later, fetch_later(live.md, h, live.ct))
PROBE(md_swap_get_later, swap_later(h, live.md, live.ct))
PROBE(md_swap_put_later, swap_later(live.md, h, live.ct))

static const struct probe md_probes[] = {
    {"PtlMDRelease", md_release},
    {"PtlPut", md_put},
    {"PtlGet", md_get},
    {"PtlAtomic", md_atomic},
    {"PtlFetchAtomic, get side", md_fetch_get},
    {"PtlFetchAtomic, put side", md_fetch_put},
    {"PtlSwap, get side", md_swap_get},
    {"PtlSwap, put side", md_swap_put},
    {"PtlTriggeredPut", md_put_later},
    {"PtlTriggeredGet", md_get_later},
    {"PtlTriggeredAtomic", md_atomic_later},
    {"PtlTriggeredFetchAtomic, get side", md_fetch_get_later},
    {"PtlTriggeredFetchAtomic, put side", md_fetch_put_later},
    {"PtlTriggeredSwap, get side", md_swap_get_later},
    {"PtlTriggeredSwap, put side", md_swap_put_later},
};

PROBE(ct_free, PtlCTFree(h))
PROBE(ct_cancel, PtlCTCancelTriggered(h))
PROBE(ct_get, PtlCTGet(h, &ct_out))
PROBE(ct_wait, PtlCTWait(h, 0, &ct_out))
PROBE(ct_poll, PtlCTPoll(&h, &zero_test, 1, 0, &ct_out, &which_out))
PROBE(ct_set, PtlCTSet(h, one))
PROBE(ct_inc, PtlCTInc(h, one))
PROBE(ct_put_later, put_later(live.md, h))
PROBE(ct_get_later, get_later(live.md, h))
PROBE(ct_atomic_later, atomic_later(live.md, h))
PROBE(ct_fetch_later, fetch_later(live.md, live.md, h))
PROBE(ct_swap_later, swap_later(live.md, live.md, h))
PROBE(ct_inc_of, PtlTriggeredCTInc(h, one, live.ct, 1000))
PROBE(ct_inc_on, PtlTriggeredCTInc(live.ct, one, h, 1000))
PROBE(ct_set_of, PtlTriggeredCTSet(h, one, live.ct, 1000))
PROBE(ct_set_on, PtlTriggeredCTSet(live.ct, one, h, 1000))
PROBE(ct_append_later, append_later(ni(), h))
PROBE(ct_unlink_later, PtlTriggeredMEUnlink(live.entry, h, 1000))

static const struct probe ct_probes[] = {
    {"PtlCTFree", ct_free},
    {"PtlCTCancelTriggered", ct_cancel},
    {"PtlCTGet", ct_get},
    {"PtlCTWait", ct_wait},
    {"PtlCTPoll", ct_poll},
    {"PtlCTSet", ct_set},
    {"PtlCTInc", ct_inc},
    {"PtlTriggeredPut", ct_put_later},
    {"PtlTriggeredGet", ct_get_later},
    {"PtlTriggeredAtomic", ct_atomic_later},
    {"PtlTriggeredFetchAtomic", ct_fetch_later},
    {"PtlTriggeredSwap", ct_swap_later},
    {"PtlTriggeredCTInc, counter", ct_inc_of},
    {"PtlTriggeredCTInc, trigger", ct_inc_on},
    {"PtlTriggeredCTSet, counter", ct_set_of},
    {"PtlTriggeredCTSet, trigger", ct_set_on},
    {"PtlTriggeredMEAppend", ct_append_later},
    {"PtlTriggeredMEUnlink", ct_unlink_later},
};

PROBE(ct_in_md, bind_with(ni(), PTL_EQ_NONE, h))
PROBE(ct_in_me, append_me(ni(), h))

static const struct probe ct_or_none_probes[] = {{"PtlMDBind", ct_in_md}, {"PtlMEAppend", ct_in_me}};

PROBE(eq_free, PtlEQFree(h))
PROBE(eq_get, PtlEQGet(h, &ev_out))
PROBE(eq_wait, PtlEQWait(h, &ev_out))
PROBE(eq_poll, PtlEQPoll(&h, 1, 0, &ev_out, &which_out))

static const struct probe eq_probes[] = {
    {"PtlEQFree", eq_free}, {"PtlEQGet", eq_get}, {"PtlEQWait", eq_wait}, {"PtlEQPoll", eq_poll}};

PROBE(eq_in_md, bind_with(ni(), h, PTL_CT_NONE))
PROBE(eq_in_pt, PtlPTAlloc(ni(), 0, h, PTL_PT_ANY, &pt_out))

static const struct probe eq_or_none_probes[] = {{"PtlMDBind", eq_in_md}, {"PtlPTAlloc", eq_in_pt}};

PROBE(me_unlink, PtlMEUnlink(h))
PROBE(me_unlink_later, PtlTriggeredMEUnlink(h, live.ct, 1000))

static const struct probe me_probes[] = {{"PtlMEUnlink", me_unlink}, {"PtlTriggeredMEUnlink", me_unlink_later}};

PROBE(le_unlink, PtlLEUnlink(h))

static const struct probe le_probes[] = {{"PtlLEUnlink", le_unlink}};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define REFUSE(probes, handle) refuse(probes, COUNT_OF(probes), handle)

static void refuse(const struct probe *probes, size_t count, ptl_handle_any_t handle)
{
    for (size_t i = 0; i < count; i++) {
        int rc = probes[i].call(handle);
        if (rc != PTL_ARG_INVALID)
            FAIL("%s took handle 0x%x: %s", probes[i].name, handle, return_name(rc));
    }
}

/* Every handle that differs in one bit from the only valid handle of its kind is invalid. */
#define REFUSE_NEIGHBOURS(probes, handle)                                          \
    for (int bit = 0; bit < 32; bit++)                                             \
    REFUSE(probes, (ptl_handle_any_t)(handle) ^ (ptl_handle_any_t)1 << bit)

CASE(no_object_answers_to_no_handle, 1, "PTL_INVALID_HANDLE, PTL_EQ_NONE and PTL_CT_NONE name no object of any kind")
{
    ni_matching();
    make_objects();
    const ptl_handle_any_t none[] = {PTL_INVALID_HANDLE, PTL_EQ_NONE, PTL_CT_NONE};
    for (size_t i = 0; i < 3; i++) {
        REFUSE(ni_probes, none[i]);
        REFUSE(md_probes, none[i]);
        REFUSE(ct_probes, none[i]);
        REFUSE(eq_probes, none[i]);
        REFUSE(me_probes, none[i]);
        REFUSE(le_probes, none[i]);
        ptl_handle_ni_t of;
        CHECK_EQ(PtlNIHandle(none[i], &of), PTL_ARG_INVALID);
        if (none[i] != PTL_CT_NONE)
            REFUSE(ct_or_none_probes, none[i]);
        if (none[i] != PTL_EQ_NONE)
            REFUSE(eq_or_none_probes, none[i]);
    }
    still_works(0);
}

CASE(objects_of_another_kind_are_refused, 1, "the handle of an object of another kind is refused by every function")
{
    ni_matching();
    make_objects();
    const ptl_handle_any_t all[] = {ni(), live.md, live.ct, live.eq, live.entry};
    for (size_t i = 0; i < 5; i++) {
        if (i != 0)
            REFUSE(ni_probes, all[i]);
        if (i != 1)
            REFUSE(md_probes, all[i]);
        if (i != 2) {
            REFUSE(ct_probes, all[i]);
            REFUSE(ct_or_none_probes, all[i]);
        }
        if (i != 3) {
            REFUSE(eq_probes, all[i]);
            REFUSE(eq_or_none_probes, all[i]);
        }
        if (i != 4)
            REFUSE(me_probes, all[i]);
    }
    still_works(0);
}

CASE(garbage_handles_are_refused, 1, "a handle with any one bit wrong is refused by every function")
{
    ni_matching();
    make_objects();
    REFUSE_NEIGHBOURS(ni_probes, ni());
    REFUSE_NEIGHBOURS(md_probes, live.md);
    REFUSE_NEIGHBOURS(ct_probes, live.ct);
    REFUSE_NEIGHBOURS(ct_or_none_probes, live.ct);
    REFUSE_NEIGHBOURS(eq_probes, live.eq);
    REFUSE_NEIGHBOURS(eq_or_none_probes, live.eq);
    REFUSE_NEIGHBOURS(me_probes, live.entry);
    still_works(0);
}

CASE(garbage_list_entries_are_refused, 1, "the same for list entries of an interface without matching")
{
    ni_nonmatching();
    make_objects();
    REFUSE_NEIGHBOURS(le_probes, live.entry);
    REFUSE(le_probes, PTL_INVALID_HANDLE);
    REFUSE(le_probes, live.md);
    still_works(0);
}

CASE(stale_handles_are_refused, 1, "handles of freed objects are refused by every function, also after reuse")
{
    ni_matching();
    make_objects();
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_ct_t ct = ct_new();
    ptl_handle_md_t md = md_new(live.local, 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ptl_me_t me = an_me(PTL_CT_NONE);
    ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    OK(PtlMDRelease(md));
    OK(PtlMEUnlink(entry));
    OK(PtlEQFree(eq));
    OK(PtlCTFree(ct));
    for (int i = 0; i < 3; i++) {
        REFUSE(md_probes, md);
        REFUSE(me_probes, entry);
        REFUSE(eq_probes, eq);
        REFUSE(eq_or_none_probes, eq);
        REFUSE(ct_probes, ct);
        REFUSE(ct_or_none_probes, ct);
        eq_new(8);
        ct_new();
        md_new(live.local, 8, 0, PTL_EQ_NONE, PTL_CT_NONE);
        me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    }
    still_works(0);
}

CASE(interfaces_do_not_share_objects, 1, "an operation takes objects of one interface only")
{
    ptl_handle_ni_t other = ni_nonmatching();
    ptl_handle_ct_t other_ct = ct_new();
    ptl_handle_eq_t other_eq = eq_new(8);
    ptl_handle_md_t other_md = md_new(buffer(64), 64, 0, PTL_EQ_NONE, PTL_CT_NONE);
    ni_matching();
    make_objects();
    REFUSE(ct_or_none_probes, other_ct);
    REFUSE(eq_or_none_probes, other_eq);
    CHECK_EQ(fetch(live.md, other_md), PTL_ARG_INVALID);
    CHECK_EQ(fetch(other_md, live.md), PTL_ARG_INVALID);
    CHECK_EQ(swap(live.md, other_md, &operand), PTL_ARG_INVALID);
    CHECK_EQ(put_later(live.md, other_ct), PTL_ARG_INVALID);
    ptl_handle_ct_t mixed_ct[2] = {live.ct, other_ct};
    ptl_handle_eq_t mixed_eq[2] = {live.eq, other_eq};
    ptl_size_t tests[2] = {5, 5};
    CHECK_EQ(PtlCTPoll(mixed_ct, tests, 2, 0, &ct_out, &which_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(mixed_eq, 2, 0, &ev_out, &which_out), PTL_ARG_INVALID);
    (void)other;
    still_works(0);
}

/* ---- Pointers and counts -------------------------------------------------------------------------------- */

CASE(null_results_are_refused, 1, "no function writes its result through NULL")
{
    ni_matching();
    make_objects();
    ptl_me_t me = an_me(PTL_CT_NONE);
    ptl_md_t md = {.start = live.local, .length = 8, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, NULL),
             PTL_ARG_INVALID);
    CHECK_EQ(PtlNIStatus(ni(), PTL_SR_DROP_COUNT, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlNIHandle(live.md, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetMap(ni(), 1, NULL, &(ptl_size_t){0}), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, PTL_PT_ANY, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetUid(ni(), NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetId(ni(), NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlGetPhysId(ni(), NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlMDBind(ni(), &md, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, NULL, live.ct, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTAlloc(ni(), NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTGet(live.ct, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTWait(live.ct, 0, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(&live.ct, &zero_test, 1, 0, NULL, &which_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(&live.ct, &zero_test, 1, 0, &ct_out, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQAlloc(ni(), 8, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQGet(live.eq, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQWait(live.eq, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(&live.eq, 1, 0, NULL, &which_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(&live.eq, 1, 0, &ev_out, NULL), PTL_ARG_INVALID);
    still_works(0);
}

CASE(null_arguments_are_refused, 1, "no function reads its arguments through NULL")
{
    ni_matching();
    make_objects();
    CHECK_EQ(PtlSetMap(ni(), 1, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlMDBind(ni(), NULL, &handle_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlMEAppend(ni(), PT, NULL, PTL_PRIORITY_LIST, NULL, &handle_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlTriggeredMEAppend(ni(), PT, NULL, PTL_PRIORITY_LIST, NULL, &handle_out, live.ct, 1), PTL_ARG_INVALID);
    CHECK_EQ(PtlMESearch(ni(), PT, NULL, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(NULL, &zero_test, 1, 0, &ct_out, &which_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlCTPoll(&live.ct, NULL, 1, 0, &ct_out, &which_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQPoll(NULL, 1, 0, &ev_out, &which_out), PTL_ARG_INVALID);
    CHECK_EQ(swap(live.md, live.md, NULL), PTL_ARG_INVALID);
    still_works(0);
}

CASE(null_vectors_are_refused, 1, "a vector with elements is not NULL, nor is an element with bytes")
{
    ni_matching();
    make_objects();
    ptl_md_t md = {.length = 2, .options = PTL_IOVEC, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(ni(), &md, &handle_out), PTL_ARG_INVALID);
    ptl_me_t me = me_over(NULL, 2, BITS + 1);
    me.options |= PTL_IOVEC;
    CHECK_EQ(PtlMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, &handle_out), PTL_ARG_INVALID);
    still_works(0);
}

CASE(nothing_to_poll, 1, "polling no counter or no queue is refused or times out; it neither blocks nor harms")
{
    ni_matching();
    make_objects();
    int rc = PtlCTPoll(&live.ct, &zero_test, 0, 10, &ct_out, &which_out);
    CHECK_EITHER(rc, PTL_ARG_INVALID, PTL_CT_NONE_REACHED);
    rc = PtlEQPoll(&live.eq, 0, 10, &ev_out, &which_out);
    CHECK_EITHER(rc, PTL_ARG_INVALID, PTL_EQ_EMPTY);
    still_works(0);
}

CASE(queues_of_odd_counts, 1, "a queue of zero or impossibly many events is refused, or it works")
{
    static const ptl_size_t counts[] = {PTL_SIZE_MAX, PTL_SIZE_MAX - 1, (ptl_size_t)1 << 63, (ptl_size_t)1 << 48,
                                        0xffffffff, 0};
    ni_matching();
    make_objects();
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        int rc = PtlEQAlloc(ni(), counts[i], &handle_out);
        CHECK(rc == PTL_NO_SPACE || rc == PTL_ARG_INVALID || (rc == PTL_OK && counts[i] <= 0xffffffff));
        if (rc == PTL_OK) {
            CHECK_EQ(PtlEQGet(handle_out, &ev_out), PTL_EQ_EMPTY);
            OK(PtlEQFree(handle_out));
        }
    }
    still_works(0);
}

/* The granted limits keep the promises of the specification. */
static void check_granted(const ptl_ni_limits_t *wanted)
{
    ptl_handle_ni_t handle;
    ptl_ni_limits_t granted;
    OK(PtlInit());
    int rc = PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, wanted, &granted, &handle);
    CHECK(rc == PTL_OK || rc == PTL_ARG_INVALID || rc == PTL_NO_SPACE);
    if (rc == PTL_OK) {
        CHECK_OP(granted.max_pt_index, >=, 63);
        CHECK_OP(granted.max_waw_ordered_size, >=, 64);
        CHECK_OP(granted.max_war_ordered_size, >=, 8);
        CHECK_OP(granted.max_entries, >=, 0);
        CHECK_OP(granted.max_mds, >=, 0);
        CHECK_OP(granted.max_cts, >=, 0);
        CHECK_OP(granted.max_eqs, >=, 0);
        CHECK_OP(granted.max_list_size, >=, 0);
        CHECK_OP(granted.max_iovecs, >=, 0);
        CHECK_OP(granted.max_triggered_ops, >=, 0);
        CHECK_OP(granted.max_unexpected_headers, >=, 0);
        rc = PtlCTAlloc(handle, &handle_out);
        CHECK_EQ(rc, granted.max_cts > 0 ? PTL_OK : PTL_NO_SPACE);
        OK(PtlNIFini(handle));
    }
    PtlFini();
}

CASE(odd_limits, 1, "limits of zero, negative ones and huge ones are refused or clamped")
{
    ptl_ni_limits_t zero, most = limits_default(), negative = limits_default();
    memset(&zero, 0, sizeof zero);
    check_granted(&zero);
    negative.max_entries = negative.max_mds = negative.max_cts = negative.max_eqs = -1;
    negative.max_unexpected_headers = negative.max_list_size = negative.max_iovecs = INT_MIN;
    negative.max_triggered_ops = negative.max_pt_index = -5;
    check_granted(&negative);
    most.max_entries = most.max_mds = most.max_cts = most.max_eqs = INT_MAX;
    most.max_unexpected_headers = most.max_list_size = most.max_iovecs = INT_MAX;
    most.max_triggered_ops = most.max_pt_index = INT_MAX;
    most.max_msg_size = most.max_atomic_size = most.max_fetch_atomic_size = PTL_SIZE_MAX;
    most.max_waw_ordered_size = most.max_war_ordered_size = most.max_volatile_size = PTL_SIZE_MAX;
    most.features = ~0u;
    check_granted(&most);
    ni_matching();
    make_objects();
    still_works(0);
}

/* ---- Lengths, offsets, identifiers ---------------------------------------------------------------------- */

CASE(sums_that_overflow_are_refused, 1, "local offset and length that wrap around 2^64 are outside the descriptor")
{
    ni_matching();
    make_objects();
    static const ptl_size_t pairs[][2] = {{PTL_SIZE_MAX - 7, 8},    {PTL_SIZE_MAX - 7, 16},  {8, PTL_SIZE_MAX},
                                          {BYTES, PTL_SIZE_MAX},    {PTL_SIZE_MAX, 1},       {1, PTL_SIZE_MAX},
                                          {(ptl_size_t)1 << 63, (ptl_size_t)1 << 63}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        ptl_size_t at = pairs[i][0], bytes = pairs[i][1];
        CHECK_EQ(PtlPut(live.md, at, bytes, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0), PTL_ARG_INVALID);
        CHECK_EQ(PtlGet(live.md, at, bytes, peer(0), PT, BITS, 0, NULL), PTL_ARG_INVALID);
        ptl_size_t whole = bytes < 8 ? 8 : bytes & ~(ptl_size_t)7;
        CHECK_EQ(PtlAtomic(live.md, at, whole, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T),
                 PTL_ARG_INVALID);
        CHECK_EQ(PtlFetchAtomic(live.md, at, live.md, 128, 8, peer(0), PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T),
                 at > BYTES - 8 ? PTL_ARG_INVALID : PTL_OK);
        CHECK_EQ(PtlTriggeredPut(live.md, at, bytes, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, live.ct, 1000),
                 PTL_ARG_INVALID);
    }
    sleep_ms(10);
    still_works(0);
}

CASE(remote_offsets_near_the_end_of_numbers, 2, "a remote offset so large that it wraps touches nothing")
{
    ni_matching();
    make_objects();
    barrier();
    if (rank() == 0) {
        memset(live.local, 0xff, BYTES);
        for (ptl_size_t back = 1; back <= 64; back *= 2) {
            ptl_handle_eq_t eq = eq_new(8);
            ptl_handle_md_t md = md_new(live.local, BYTES, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
            ptl_event_t ev;
            int rc = PtlPut(md, 0, 128, PTL_ACK_REQ, peer(1), PT, BITS, PTL_SIZE_MAX - back + 1, NULL, 0);
            CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
            if (rc == PTL_OK) {
                OK(wait_event(eq, &ev, 0));
                CHECK_EQ(ev.type, PTL_EVENT_ACK);
                if (ev.ni_fail_type == PTL_NI_OK) CHECK_EQ(ev.mlength, 0);
            }
            OK(PtlMDRelease(md));
        }
    }
    barrier();
    if (rank() == 1)
        CHECK_BYTES(live.exposed, BYTES, 0);
    barrier();
    if (rank() == 0)
        still_works(1);
    barrier();
}

CASE(endless_entries, 2, "an entry whose start and length wrap is refused or bounded; using it harms no process")
{
    ni_matching();
    make_objects();
    enum { BEFORE = 8192 };
    unsigned char *around = buffer(BEFORE + BYTES);
    memset(around, 0x5a, BEFORE + BYTES);
    ptl_me_t me = me_over(around + BEFORE, PTL_SIZE_MAX, BITS + 1);
    int appended = PtlMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, &handle_out), all[2];
    CHECK_EITHER(appended, PTL_OK, PTL_ARG_INVALID);
    exchange(&appended, sizeof appended, all);
    if (rank() == 0 && all[1] == PTL_OK) {
        static const ptl_size_t offsets[] = {PTL_SIZE_MAX - 4096, PTL_SIZE_MAX / 2, (ptl_size_t)1 << 47};
        for (size_t i = 0; i < COUNT_OF(offsets); i++) {
            ptl_handle_eq_t eq = eq_new(8);
            ptl_handle_md_t md = md_new(live.local, BYTES, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
            ptl_event_t ev;
            OK(PtlPut(md, 0, 8, PTL_ACK_REQ, peer(1), PT, BITS + 1, offsets[i], NULL, 0));
            OK(wait_event(eq, &ev, 0));
            CHECK_EQ(ev.type, PTL_EVENT_ACK);
        }
    }
    barrier();
    for (size_t i = 0; i < BEFORE; i++)
        CHECK_EQ(around[i], 0x5a); /* no offset wraps around to memory before the entry */
    if (rank() == 0)
        still_works(1);
    barrier();
}

CASE(vectors_that_overflow, 1, "a vector whose lengths sum beyond 2^64 is refused, or accesses beyond memory fail")
{
    ni_matching();
    make_objects();
    ptl_iovec_t *vector = buffer(3 * sizeof *vector);
    vector[0] = (ptl_iovec_t){.iov_base = live.local, .iov_len = 8};
    vector[1] = (ptl_iovec_t){.iov_base = live.local, .iov_len = (ptl_size_t)1 << 63};
    vector[2] = (ptl_iovec_t){.iov_base = live.local, .iov_len = (ptl_size_t)1 << 63};
    ptl_md_t md = {.start = vector, .length = 3, .options = PTL_IOVEC, .eq_handle = live.eq, .ct_handle = PTL_CT_NONE};
    int rc = PtlMDBind(ni(), &md, &handle_out);
    CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
    if (rc == PTL_OK) { /* the sum wraps to 8: memory beyond the entry must not be reachable through it */
        rc = PtlPut(handle_out, 0, PTL_SIZE_MAX, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0);
        CHECK_EQ(rc, PTL_ARG_INVALID);
    }
    still_works(0);
}

CASE(targets_out_of_range, 1, "a rank outside the map is not a target")
{
    ni_matching();
    make_objects();
    static const ptl_rank_t ranks[] = {1, 2, 64, 0x7fffffff, PTL_RANK_ANY - 1, PTL_RANK_ANY};
    for (size_t i = 0; i < COUNT_OF(ranks); i++) {
        ptl_process_t nobody = {.rank = ranks[i]};
        CHECK_EQ(PtlPut(live.md, 0, 8, PTL_NO_ACK_REQ, nobody, PT, BITS, 0, NULL, 0), PTL_ARG_INVALID);
        CHECK_EQ(PtlGet(live.md, 0, 8, nobody, PT, BITS, 0, NULL), PTL_ARG_INVALID);
        CHECK_EQ(PtlAtomic(live.md, 0, 8, PTL_NO_ACK_REQ, nobody, PT, BITS, 0, NULL, 0, PTL_SUM, PTL_INT64_T),
                 PTL_ARG_INVALID);
        CHECK_EQ(PtlTriggeredPut(live.md, 0, 8, PTL_NO_ACK_REQ, nobody, PT, BITS, 0, NULL, 0, live.ct, 1000),
                 PTL_ARG_INVALID);
    }
    still_works(0);
}

CASE(physical_targets_that_do_not_exist, 1, "an unused nid and pid is refused, or the message is undeliverable")
{
    ni_open(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, NULL);
    make_objects();
    ptl_process_t mine = peer(0);
    ptl_process_t nobody[] = {{.phys = {mine.phys.nid, mine.phys.pid + 7}},
                              {.phys = {mine.phys.nid + 1, mine.phys.pid}},
                              {.phys = {mine.phys.nid, PTL_PID_MAX + 1}},
                              {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                              {.phys = {0xffffffff, 0xffffffff}}};
    for (size_t i = 0; i < COUNT_OF(nobody); i++) {
        ptl_handle_eq_t eq = eq_new(8);
        ptl_handle_md_t md = md_new(live.local, 8, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
        int rc = PtlPut(md, 0, 8, PTL_ACK_REQ, nobody[i], PT, BITS, 0, NULL, 0);
        CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
        if (rc == PTL_OK) {
            ptl_event_t ev;
            OK(wait_event(eq, &ev, 0));
            CHECK_EITHER(ev.type, PTL_EVENT_SEND, PTL_EVENT_ACK);
            CHECK_EQ(ev.ni_fail_type, PTL_NI_UNDELIVERABLE);
        }
    }
    still_works(0);
}

CASE(portal_indices_out_of_range, 2, "an index beyond the table is refused locally and matches nothing remotely")
{
    ptl_ni_limits_t granted;
    ni_open(PTL_NI_MATCHING | PTL_NI_LOGICAL, NULL, &granted);
    make_objects();
    barrier();
    const ptl_pt_index_t beyond[] = {(ptl_pt_index_t)granted.max_pt_index + 1, 0x7fffffff, 0xfffffffe};
    for (size_t i = 0; i < 3; i++) {
        ptl_me_t me = an_me(PTL_CT_NONE);
        CHECK_EQ(PtlPTAlloc(ni(), 0, PTL_EQ_NONE, beyond[i], &pt_out), PTL_ARG_INVALID);
        CHECK_EQ(PtlPTFree(ni(), beyond[i]), PTL_ARG_INVALID);
        CHECK_EQ(PtlPTEnable(ni(), beyond[i]), PTL_ARG_INVALID);
        CHECK_EQ(PtlPTDisable(ni(), beyond[i]), PTL_ARG_INVALID);
        CHECK_EQ(PtlMEAppend(ni(), beyond[i], &me, PTL_PRIORITY_LIST, NULL, &handle_out), PTL_ARG_INVALID);
        CHECK_EQ(PtlMESearch(ni(), beyond[i], &me, PTL_SEARCH_ONLY, NULL), PTL_ARG_INVALID);
        ptl_handle_eq_t eq = eq_new(8);
        ptl_handle_md_t md = md_new(live.local, 8, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
        int rc = PtlPut(md, 0, 8, PTL_ACK_REQ, peer(1 - rank()), beyond[i], BITS, 0, NULL, 0);
        CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
        if (rc == PTL_OK) {
            ptl_event_t ev;
            OK(wait_event(eq, &ev, 0));
            CHECK_EQ(ev.type, PTL_EVENT_ACK);
            CHECK_OP(ev.ni_fail_type, !=, PTL_NI_OK);
        }
    }
    barrier();
    still_works(1 - rank());
    barrier();
}

CASE(entries_that_are_not_allocated, 1, "an unallocated portal table entry takes no list entries")
{
    ni_matching();
    make_objects();
    ptl_me_t me = an_me(PTL_CT_NONE);
    CHECK_EQ(PtlMEAppend(ni(), FREE_PT, &me, PTL_PRIORITY_LIST, NULL, &handle_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTFree(ni(), FREE_PT), PTL_ARG_INVALID);
    CHECK_OP(PtlPTFree(ni(), PT), !=, PTL_OK); /* still has its entry */
    still_works(0);
}

CASE(selectors_out_of_range, 1, "lists, searches, status registers and acknowledgements that do not exist are refused")
{
    ni_matching();
    make_objects();
    ptl_me_t me = an_me(PTL_CT_NONE);
    ptl_sr_value_t value;
    for (int bad = 2; bad < 256; bad += 50) {
        CHECK_EQ(PtlMEAppend(ni(), PT, &me, (ptl_list_t)bad, NULL, &handle_out), PTL_ARG_INVALID);
        CHECK_EQ(PtlMESearch(ni(), PT, &me, (ptl_search_op_t)bad, NULL), PTL_ARG_INVALID);
        CHECK_EQ(PtlPut(live.md, 0, 8, (ptl_ack_req_t)(bad + 2), peer(0), PT, BITS, 0, NULL, 0), PTL_ARG_INVALID);
        CHECK_EQ(PtlNIStatus(ni(), (ptl_sr_index_t)(PTL_SR_LAST + bad), &value), PTL_ARG_INVALID);
    }
    me.options |= 1u << 30;
    CHECK_EQ(PtlMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, &handle_out), PTL_ARG_INVALID);
    CHECK_EQ(PtlPTAlloc(ni(), ~0u, PTL_EQ_NONE, PTL_PT_ANY, &pt_out), PTL_ARG_INVALID);
    still_works(0);
}

CASE(calls_for_the_other_kind_of_interface, 1,
     "list entries are for interfaces without matching, match entries with it")
{
    ptl_handle_ni_t plain = ni_nonmatching();
    pt_at(PT, PTL_EQ_NONE, 0);
    ptl_handle_ni_t matching = ni_matching();
    make_objects();
    CHECK_EQ(append_le(matching, PTL_CT_NONE), PTL_ARG_INVALID);
    CHECK_EQ(append_me(plain, PTL_CT_NONE), PTL_ARG_INVALID);
    CHECK_EQ(search_le(matching), PTL_ARG_INVALID);
    CHECK_EQ(search_me(plain), PTL_ARG_INVALID);
    still_works(0);
}

/* ---- Memory that is not there --------------------------------------------------------------------------- */

/* Pages without access: unmapped, or mapped without permission. */
static void *pages(size_t bytes, int protection)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_OP(start, !=, MAP_FAILED);
    memset(start, 0x5c, bytes);
    if (protection < 0)
        CHECK_OP(munmap(start, bytes), ==, 0);
    else
        CHECK_OP(mprotect(start, bytes, protection), ==, 0);
    return start;
}

enum { PAGES_BYTES = 1 << 16 };

/* A short and a long message both ways first: the library's mappings for them must not land on the inaccessible pages. */
static void exchange_messages(void)
{
    ptl_me_t me = me_over(buffer(PAGES_BYTES), PAGES_BYTES, BITS + 2);
    ptl_handle_me_t entry = me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    ptl_handle_eq_t eq = eq_new(8);
    ptl_handle_md_t md = md_new(buffer(PAGES_BYTES), PAGES_BYTES, PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
    barrier();
    still_works(1 - rank());
    put(md, PAGES_BYTES, 1 - rank(), PT, BITS + 2, 0);
    expect_event(eq, PTL_EVENT_ACK);
    get(md, PAGES_BYTES, 1 - rank(), PT, BITS + 2, 0);
    expect_event(eq, PTL_EVENT_REPLY);
    barrier();
    OK(PtlMDRelease(md));
    OK(PtlEQFree(eq));
    OK(PtlMEUnlink(entry));
}

/* Appends an entry over bad memory at process 1. Process 0 uses it in sizes that take different protocols. */
static void use_bad_entry(int protection, bool puts)
{
    static const size_t sizes[] = {1, 8, 64, 1024, 4096, PAGES_BYTES};
    ni_matching();
    make_objects();
    exchange_messages();
    int appended = PTL_OK, all[2];
    if (rank() == 1) {
        ptl_me_t me = me_over(pages(PAGES_BYTES, protection), PAGES_BYTES, BITS + 1);
        appended = PtlMEAppend(ni(), PT, &me, PTL_PRIORITY_LIST, NULL, &handle_out);
        CHECK_EITHER(appended, PTL_OK, PTL_ARG_INVALID);
    }
    exchange(&appended, sizeof appended, all);
    for (size_t i = 0; rank() == 0 && all[1] == PTL_OK && i < COUNT_OF(sizes); i++) {
        ptl_handle_eq_t eq = eq_new(8);
        ptl_handle_md_t md = md_new(buffer(sizes[i]), sizes[i], PTL_MD_EVENT_SEND_DISABLE, eq, PTL_CT_NONE);
        if (puts) {
            put(md, sizes[i], 1, PT, BITS + 1, 0);
            expect_failure(eq, PTL_EVENT_ACK, PTL_NI_SEGV);
        } else {
            get(md, sizes[i], 1, PT, BITS + 1, 0);
            expect_failure(eq, PTL_EVENT_REPLY, PTL_NI_SEGV);
        }
        OK(PtlMDRelease(md));
        OK(PtlEQFree(eq));
    }
    barrier();
    still_works(1 - rank());
    barrier();
}

CASE(put_into_unmapped_memory, 2,
     "a put into an entry over unmapped memory fails with PTL_NI_SEGV and harms no process")
{
    use_bad_entry(-1, true);
}

CASE(get_from_unmapped_memory, 2,
     "a get from an entry over unmapped memory fails with PTL_NI_SEGV and harms no process")
{
    use_bad_entry(-1, false);
}

CASE(put_into_read_only_memory, 2, "a put into an entry over read-only memory fails with PTL_NI_SEGV")
{
    use_bad_entry(PROT_READ, true);
}

/* Expects an argument error or a failed completion from an operation of process 0 with a bad descriptor. */
static void check_failed_here(int rc, ptl_handle_eq_t eq, ptl_event_kind_t completion)
{
    ptl_event_t ev;
    CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
    if (rc != PTL_OK)
        return;
    OK(wait_event(eq, &ev, 0));
    if (ev.type == PTL_EVENT_SEND && ev.ni_fail_type == PTL_NI_OK)
        OK(wait_event(eq, &ev, 0));
    CHECK_EITHER(ev.type, completion, PTL_EVENT_SEND);
    CHECK_EQ(ev.ni_fail_type, PTL_NI_SEGV);
}

CASE(descriptors_over_unmapped_memory, 2,
     "an operation over a descriptor of unmapped memory fails; target and caller live")
{
    static const size_t sizes[] = {8, 64, 4096, PAGES_BYTES};
    ni_matching();
    make_objects();
    exchange_messages();
    unsigned char *large = buffer(PAGES_BYTES);
    ptl_me_t me = me_over(large, PAGES_BYTES, BITS + 1);
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    barrier();
    for (size_t i = 0; rank() == 0 && i < COUNT_OF(sizes); i++) {
        ptl_handle_eq_t eq = eq_new(8);
        ptl_md_t md = {.start = pages(PAGES_BYTES, -1), .length = PAGES_BYTES, .eq_handle = eq};
        md.ct_handle = PTL_CT_NONE;
        ptl_handle_md_t handle;
        int rc = PtlMDBind(ni(), &md, &handle);
        if (rc == PTL_OK) {
            rc = PtlPut(handle, 0, sizes[i], PTL_ACK_REQ, peer(1), PT, BITS + 1, 0, NULL, 0);
            check_failed_here(rc, eq, PTL_EVENT_ACK);
            while (PtlEQGet(eq, &ev_out) == PTL_OK) {
            }
            rc = PtlGet(handle, 0, sizes[i], peer(1), PT, BITS + 1, 0, NULL);
            check_failed_here(rc, eq, PTL_EVENT_REPLY);
        } else {
            CHECK_EQ(rc, PTL_ARG_INVALID);
        }
    }
    barrier();
    still_works(1 - rank());
    barrier();
}

CASE(triggered_put_of_memory_that_went_away, 2, "a peer that fires a put whose memory is unmapped is not harmed")
{
    ni_matching();
    make_objects();
    ptl_handle_ct_t arrived = ct_new();
    ptl_me_t me = me_over(NULL, 0, BITS + 1);
    me.options |= PTL_ME_EVENT_CT_COMM;
    me.ct_handle = arrived;
    me_append(PT, &me, PTL_PRIORITY_LIST, NULL);
    if (rank() == 1) {
        ptl_md_t md = {.start = pages(PAGES_BYTES, -1), .length = PAGES_BYTES, .eq_handle = PTL_EQ_NONE};
        md.ct_handle = PTL_CT_NONE;
        ptl_handle_md_t handle;
        int rc = PtlMDBind(ni(), &md, &handle);
        if (rc == PTL_OK)
            rc = PtlTriggeredPut(handle, 0, PAGES_BYTES, PTL_NO_ACK_REQ, peer(0), PT, BITS, 0, NULL, 0, arrived, 1);
        CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
    }
    barrier();
    if (rank() == 0) {
        ptl_handle_ct_t acked = ct_new();
        ptl_handle_md_t md = md_new(NULL, 0, PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked);
        OK(PtlPut(md, 0, 0, PTL_CT_ACK_REQ, peer(1), PT, BITS + 1, 0, NULL, 0));
        expect_ct(acked, 1, 0);
    } else {
        expect_ct(arrived, 1, 0);
    }
    barrier();
    still_works(1 - rank());
    barrier();
}

CASE(read_only_source, 2, "read-only memory is a source like any other, where ordinary memory is reached")
{
    ni_matching();
    make_objects();
    barrier();
    if (rank() == 0) {
        ptl_md_t md = {.start = pages(PAGES_BYTES, PROT_READ), .length = PAGES_BYTES, .eq_handle = live.eq};
        ptl_handle_md_t handle;
        md.ct_handle = PTL_CT_NONE;
        int rc = PtlMDBind(ni(), &md, &handle);
        if (memory_is_shared()) { /* this memory is not in the shared arena: the library may refuse it */
            CHECK_EITHER(rc, PTL_OK, PTL_ARG_INVALID);
        } else {
            CHECK_EQ(rc, PTL_OK);
            OK(PtlPut(handle, 100, BYTES, PTL_ACK_REQ, peer(1), PT, BITS, 0, NULL, 0));
            CHECK_EQ(expect_send_ack(live.eq).mlength, BYTES);
        }
    }
    barrier();
    if (rank() == 1 && !memory_is_shared())
        CHECK_BYTES(live.exposed, BYTES, 0x5c);
    barrier();
    if (rank() == 0)
        still_works(1);
    barrier();
}
