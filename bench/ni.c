/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The Portals side of the measuring programs; see ni.h. */
#include "ni.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Returns limits with many entries and headers; other objects as the largest program needs. */
static ptl_ni_limits_t limits_for(int entries)
{
    return (ptl_ni_limits_t){
        .max_entries = entries,
        .max_unexpected_headers = entries,
        .max_mds = 64,
        .max_cts = 64,
        .max_eqs = 16,
        .max_pt_index = 63,
        .max_iovecs = 16,
        .max_list_size = entries,
        .max_triggered_ops = 64,
        .max_msg_size = (ptl_size_t)1 << 30,
        .max_atomic_size = 64,
        .max_fetch_atomic_size = 64,
        .max_waw_ordered_size = 64,
        .max_war_ordered_size = 64,
        .max_volatile_size = 64,
    };
}

struct ni ni_open(unsigned int options, int entries)
{
    struct ni ni = { 0 };
    if (selvedge_init() != 0)
        die("cannot join the job");
    CHECK(PtlInit());
    ptl_ni_limits_t wanted = limits_for(entries);
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, options | PTL_NI_PHYSICAL, PTL_PID_ANY, entries > 0 ? &wanted : NULL, &ni.limits,
        &ni.handle));
    ni.rank = selvedge_rank();
    ni.size = selvedge_size();
    ptl_process_t me;
    CHECK(PtlGetPhysId(ni.handle, &me));
    ni.peers = calloc((size_t)ni.size, sizeof me);
    if (ni.peers == NULL || selvedge_exchange(&me, sizeof me, ni.peers) != 0)
        die("cannot learn the other processes' names");
    return ni;
}

void ni_close(struct ni *ni)
{
    barrier(); /* no interface closes while another rank still sends to it */
    CHECK(PtlNIFini(ni->handle));
    PtlFini();
    free(ni->peers);
    selvedge_finalize();
}

void barrier(void)
{
    if (selvedge_barrier() != 0)
        die("the barrier failed");
}

uint64_t agree(uint64_t mine)
{
    int size = selvedge_size();
    uint64_t all[size];
    if (selvedge_exchange(&mine, sizeof mine, all) != 0)
        die("the exchange failed");
    return all[0];
}

struct window window_open(const struct ni *ni, ptl_pt_index_t pt, void *base, size_t bytes)
{
    struct window w;
    CHECK(PtlPTAlloc(ni->handle, 0, PTL_EQ_NONE, pt, &w.pt));
    CHECK(PtlCTAlloc(ni->handle, &w.ct));
    ptl_le_t le = {
        .start = base,
        .length = bytes,
        .ct_handle = w.ct,
        .uid = PTL_UID_ANY,
        .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM,
    };
    CHECK(PtlLEAppend(ni->handle, w.pt, &le, PTL_PRIORITY_LIST, NULL, &w.le));
    return w;
}

void window_close(const struct ni *ni, struct window *w)
{
    le_unlink(w->le);
    CHECK(PtlCTFree(w->ct));
    CHECK(PtlPTFree(ni->handle, w->pt));
}

void le_unlink(ptl_handle_le_t le)
{
    int code;
    while ((code = PtlLEUnlink(le)) == PTL_IN_USE)
        sched_yield();
    CHECK(code);
}

void me_unlink(ptl_handle_me_t me)
{
    int code;
    while ((code = PtlMEUnlink(me)) == PTL_IN_USE)
        sched_yield();
    CHECK(code);
}

struct source source_open(const struct ni *ni, void *base, size_t bytes, unsigned int ct_options)
{
    struct source s = { .ct = PTL_CT_NONE };
    if (ct_options != 0)
        CHECK(PtlCTAlloc(ni->handle, &s.ct));
    ptl_md_t md = { .start = base, .length = bytes, .options = ct_options, .eq_handle = PTL_EQ_NONE, .ct_handle = s.ct };
    CHECK(PtlMDBind(ni->handle, &md, &s.md));
    return s;
}

void source_close(struct source *s)
{
    CHECK(PtlMDRelease(s->md));
    if (s->ct != PTL_CT_NONE)
        CHECK(PtlCTFree(s->ct));
}

void *shared_alloc(size_t bytes)
{
    void *memory = selvedge_alloc(bytes);
    if (memory == NULL)
        die("no shared memory for %zu bytes", bytes);
    memset(memory, 1, bytes);
    return memory;
}
