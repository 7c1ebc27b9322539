/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hello_put: the smallest complete Portals program. Rank 1 opens a buffer, and rank 0 puts a sentence into it. A counter
 * notifies each of them: rank 1 that the data has arrived, rank 0 that it was delivered.
 *
 *     selvedge run -n 2 build/examples/hello_put
 *
 * Exits 0 when rank 1 has the sentence.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "portals4.h"
#include "selvedge.h"

#define PT_INBOX 0 /* portal table index that both ranks agree on */
#define MAX_BYTES 64

/* Any failure ends the whole job, so that no rank waits for one that has ended. */
#define TRY(call)                                                                                             \
    do {                                                                                                      \
        int code_ = (call);                                                                                   \
        if (code_ != PTL_OK) {                                                                                \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, code_);                         \
            selvedge_abort(1, #call);                                                                         \
        }                                                                                                     \
    } while (0)

/* Rank 1: a list entry over inbox, whose counter counts the messages. */
static ptl_handle_le_t open_inbox(ptl_handle_ni_t ni, char *inbox, ptl_handle_eq_t *eq, ptl_handle_ct_t *arrived)
{
    ptl_pt_index_t index;
    ptl_handle_le_t entry;
    ptl_event_t event;

    TRY(PtlEQAlloc(ni, 8, eq));
    TRY(PtlCTAlloc(ni, arrived));
    TRY(PtlPTAlloc(ni, 0, *eq, PT_INBOX, &index));
    ptl_le_t le = {
        .start     = inbox,
        .length    = MAX_BYTES,
        .ct_handle = *arrived,
        .uid       = PTL_UID_ANY,
        .options   = PTL_LE_OP_PUT | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_CT_COMM,
    };
    TRY(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &entry));
    TRY(PtlEQWait(*eq, &event)); /* PTL_EVENT_LINK: from here on a message finds the entry */
    if (event.type != PTL_EVENT_LINK || event.ni_fail_type != PTL_NI_OK)
        selvedge_abort(1, "the inbox was not linked");
    return entry;
}

/* Rank 0: puts the sentence and waits until it is delivered. */
static void send_to(ptl_handle_ni_t ni, ptl_process_t target, const char *sentence)
{
    ptl_md_t md = {
        .start     = (void *)sentence,
        .length    = strlen(sentence) + 1,
        .options   = PTL_MD_EVENT_CT_ACK,
        .eq_handle = PTL_EQ_NONE,
    };
    ptl_handle_md_t md_handle;
    ptl_ct_event_t acked;

    TRY(PtlCTAlloc(ni, &md.ct_handle));
    TRY(PtlMDBind(ni, &md, &md_handle));
    TRY(PtlPut(md_handle, 0, md.length, PTL_CT_ACK_REQ, target, PT_INBOX, 0, 0, NULL, 0));
    TRY(PtlCTWait(md.ct_handle, 1, &acked));
    if (acked.failure != 0)
        selvedge_abort(1, "the put failed");
    TRY(PtlMDRelease(md_handle));
    TRY(PtlCTFree(md.ct_handle));
}

int main(void)
{
    static const char sentence[] = "hello from rank 0";
    TRY(selvedge_init());
    int rank = selvedge_rank(), size = selvedge_size();
    if (size < 2) {
        fprintf(stderr, "run with two processes: selvedge run -n 2 build/examples/hello_put\n");
        return 1;
    }

    ptl_handle_ni_t ni;
    ptl_process_t id, *ids = calloc((size_t)size, sizeof *ids);
    if (ids == NULL)
        selvedge_abort(1, "out of memory");
    TRY(PtlInit());
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni));
    TRY(PtlGetPhysId(ni, &id));
    TRY(selvedge_exchange(&id, sizeof id, ids)); /* every rank's nid and pid */

    char *inbox = NULL;
    ptl_handle_eq_t eq = PTL_EQ_NONE;
    ptl_handle_ct_t arrived = PTL_CT_NONE;
    ptl_handle_le_t entry = PTL_INVALID_HANDLE;
    if (rank == 1) {
        inbox = selvedge_alloc(MAX_BYTES);
        if (inbox == NULL)
            selvedge_abort(1, "no shared memory left");
        memset(inbox, 0, MAX_BYTES);
        entry = open_inbox(ni, inbox, &eq, &arrived);
    }
    TRY(selvedge_barrier()); /* the inbox is open before the put */

    if (rank == 0)
        send_to(ni, ids[1], sentence);
    if (rank == 1) {
        ptl_ct_event_t count;
        TRY(PtlCTWait(arrived, 1, &count));
        if (count.failure != 0 || strcmp(inbox, sentence) != 0)
            selvedge_abort(1, "rank 1 did not get the sentence");
        printf("rank 1 of %d received: %s\n", size, inbox);
        TRY(PtlLEUnlink(entry));
        TRY(PtlPTFree(ni, PT_INBOX));
        TRY(PtlCTFree(arrived));
        TRY(PtlEQFree(eq));
        selvedge_free(inbox);
    }

    TRY(selvedge_barrier());
    TRY(PtlNIFini(ni));
    PtlFini();
    selvedge_finalize();
    free(ids);
    return 0;
}
