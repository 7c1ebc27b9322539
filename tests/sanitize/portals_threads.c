/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Eight threads of each process on one Portals interface, for ThreadSanitizer: each appends and unlinks match entries, puts, gets and
 * adds atomically to the neighbour's memory, and waits for its counters; all read one event queue.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "portals4.h"
#include "selvedge.h"

enum { THREADS = 8, ROUNDS = 100, PT = 5, WORDS = 600 };

#define OK(call)                                                                    \
    do {                                                                            \
        int code_ = (call);                                                         \
        if (code_ != PTL_OK) {                                                      \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, code_); \
            selvedge_abort(1, #call);                                               \
        }                                                                           \
    } while (0)

static ptl_handle_ni_t ni;
static ptl_handle_eq_t events;
static ptl_process_t other;

static void wait_for(ptl_handle_ct_t ct, ptl_size_t value)
{
    ptl_ct_event_t seen;
    OK(PtlCTWait(ct, value, &seen));
    if (seen.failure != 0) selvedge_abort(1, "a failure");
}

static void drain(void)
{
    ptl_event_t event;
    while (PtlEQGet(events, &event) == PTL_OK) continue;
}

static void *works(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    uint64_t *out = malloc(WORDS * 8);
    ptl_handle_ct_t done;
    ptl_handle_md_t md;
    OK(PtlCTAlloc(ni, &done));
    ptl_md_t description = {.start = out,
                            .length = WORDS * 8,
                            .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY | PTL_MD_EVENT_SUCCESS_DISABLE,
                            .eq_handle = PTL_EQ_NONE,
                            .ct_handle = done};
    OK(PtlMDBind(ni, &description, &md));
    ptl_size_t awaited = 0;
    for (int round = 0; round < ROUNDS; round++) {
        ptl_size_t bytes = round % 4 == 3 ? WORDS * 8 : 32;
        for (int i = 0; i < WORDS; i++) out[i] = number;
        OK(PtlPut(md, 0, bytes, PTL_CT_ACK_REQ, other, PT, number, 0, NULL, 0));
        wait_for(done, ++awaited);
        OK(PtlGet(md, 0, bytes, other, PT, number, 0, NULL));
        wait_for(done, ++awaited);
        if (out[0] != number) selvedge_abort(1, "data of another thread");
        out[0] = 1;
        OK(PtlAtomic(md, 0, 8, PTL_CT_ACK_REQ, other, PT, THREADS, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
        wait_for(done, ++awaited);
        /* An entry that is appended and unlinked. */
        uint64_t word = 0;
        ptl_me_t entry = {.start = &word,
                          .length = 8,
                          .ct_handle = PTL_CT_NONE,
                          .uid = PTL_UID_ANY,
                          .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE,
                          .match_id.phys = {PTL_NID_ANY, PTL_PID_ANY},
                          .match_bits = 1000 + number};
        ptl_handle_me_t made;
        OK(PtlMEAppend(ni, PT, &entry, PTL_PRIORITY_LIST, NULL, &made));
        OK(PtlMEUnlink(made));
        drain();
    }
    OK(PtlMDRelease(md));
    OK(PtlCTFree(done));
    free(out);
    return NULL;
}

int main(void)
{
    ptl_pt_index_t index;
    OK(selvedge_init());
    int rank = selvedge_rank(), size = selvedge_size();
    ptl_process_t id, *ids = calloc((size_t)size, sizeof *ids);
    OK(PtlInit());
    OK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    OK(PtlGetPhysId(ni, &id));
    OK(selvedge_exchange(&id, sizeof id, ids));
    other = ids[(rank + 1) % size];
    OK(PtlEQAlloc(ni, 4096, &events));
    OK(PtlPTAlloc(ni, 0, events, PT, &index));
    ptl_handle_me_t entries[THREADS + 1];
    /* A piece for each thread's data, and one for their sum. */
    uint64_t *memory = selvedge_alloc((THREADS + 1) * WORDS * 8);
    memset(memory, 0, (THREADS + 1) * WORDS * 8);
    for (unsigned i = 0; i <= THREADS; i++) {
        ptl_me_t entry = {.start = memory + i * WORDS,
                          .length = WORDS * 8,
                          .ct_handle = PTL_CT_NONE,
                          .uid = PTL_UID_ANY,
                          .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE,
                          .match_id.phys = {PTL_NID_ANY, PTL_PID_ANY},
                          .match_bits = i};
        OK(PtlMEAppend(ni, PT, &entry, PTL_PRIORITY_LIST, NULL, &entries[i]));
    }
    OK(selvedge_barrier());
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, works, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    OK(selvedge_barrier());
    drain();
    if (memory[THREADS * WORDS] != THREADS * ROUNDS) selvedge_abort(1, "a wrong sum");
    for (int i = 0; i <= THREADS; i++) OK(PtlMEUnlink(entries[i]));
    OK(PtlPTFree(ni, PT));
    OK(PtlEQFree(events));
    OK(selvedge_barrier());
    OK(PtlNIFini(ni));
    PtlFini();
    selvedge_free(memory);
    selvedge_finalize();
    free(ids);
    return 0;
}
