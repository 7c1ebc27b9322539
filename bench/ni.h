/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The Portals part of the measuring programs: one interface, its peers, and their few kinds of list entry and memory
 * descriptor. Like a user's program, it uses only the public interface (portals4.h, selvedge.h).
 */
#ifndef BENCH_NI_H
#define BENCH_NI_H

#include <portals4.h>
#include <selvedge.h>

#include "exchange.h"

#define CHECK(call)                                                          \
    do {                                                                     \
        int check_code_ = (call);                                            \
        if (check_code_ != PTL_OK)                                           \
            die("%s:%d: %s returned %d", __FILE__, __LINE__, #call, check_code_); \
    } while (0)

struct ni {
    ptl_handle_ni_t handle;
    ptl_ni_limits_t limits;
    int rank, size;
    ptl_process_t *peers; /* by rank */
};

/* Opens an interface with room for `entries` list entries and the same number of unexpected headers (0: the default). */
struct ni ni_open(unsigned int options, int entries);
void ni_close(struct ni *ni);

/* A persistent entry over `base` that counts arrivals. The counter starts at zero. */
struct window {
    ptl_pt_index_t pt;
    ptl_handle_le_t le;
    ptl_handle_ct_t ct;
};
struct window window_open(const struct ni *ni, ptl_pt_index_t pt, void *base, size_t bytes);
void window_close(const struct ni *ni, struct window *w);

/* Unlinks. Retries while an operation is in progress in the entry (PTL_IN_USE, as the specification allows). */
void le_unlink(ptl_handle_le_t le);
void me_unlink(ptl_handle_me_t me);

/* A descriptor over `base`. Options may ask for PTL_MD_EVENT_CT_*; without any there is no counter. */
struct source {
    ptl_handle_md_t md;
    ptl_handle_ct_t ct;
};
struct source source_open(const struct ni *ni, void *base, size_t bytes, unsigned int ct_options);
void source_close(struct source *s);

/* Waits until the counter has reached `count`. A failure on it ends the program. */
static inline void wait_count(ptl_handle_ct_t ct, ptl_size_t count)
{
    ptl_ct_event_t now;
    CHECK(PtlCTWait(ct, count, &now));
    if (now.failure != 0)
        die("%llu operations failed", (unsigned long long)now.failure);
}

/* selvedge_alloc, with all pages touched. A failure ends the program. */
void *shared_alloc(size_t bytes);

#endif
