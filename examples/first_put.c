/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * first_put: rank 0 puts a number into rank 1's memory, and a counter at rank 1 rises with the put: no receive call, no
 * flag, no second message. Return codes are left out; hello_put.c is the same program with every one checked.
 *
 *     cc -Ibuild/include examples/first_put.c -Lbuild/lib -lportals -Wl,-rpath,$PWD/build/lib -o first_put
 *     build/bin/selvedge run -n 2 ./first_put
 */
#include <stdio.h>
#include "portals4.h"
#include "selvedge.h"

int main(void)
{
    ptl_handle_ni_t ni;
    ptl_handle_ct_t arrived;
    ptl_handle_le_t entry;
    ptl_pt_index_t inbox;
    ptl_process_t me, all[2];
    int is_right = 1;

    selvedge_init(); /* joins the job of `selvedge run` */
    if (selvedge_size() != 2) {
        fprintf(stderr, "first_put is for two processes: selvedge run -n 2\n");
        return 2;
    }
    PtlInit();
    PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &ni);
    PtlGetPhysId(ni, &me);
    selvedge_exchange(&me, sizeof me, all); /* the addresses of both ranks */

    long *value = selvedge_alloc(sizeof *value); /* memory that peers reach in place */
    *value = selvedge_rank() == 0 ? 42 : 0;
    PtlCTAlloc(ni, &arrived);
    PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &inbox);
    ptl_le_t le = { value, sizeof *value, arrived, PTL_UID_ANY, PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM };
    PtlLEAppend(ni, inbox, &le, PTL_PRIORITY_LIST, NULL, &entry);
    selvedge_barrier(); /* both inboxes are open */

    if (selvedge_rank() == 0) {
        ptl_handle_md_t source;
        ptl_md_t md = { value, sizeof *value, 0, PTL_EQ_NONE, PTL_CT_NONE };
        PtlMDBind(ni, &md, &source);
        PtlPut(source, 0, sizeof *value, PTL_NO_ACK_REQ, all[1], inbox, 0, 0, NULL, 0);
    } else {
        ptl_ct_event_t count;
        PtlCTWait(arrived, 1, &count);
        printf("rank 1 holds %ld\n", *value);
        is_right = *value == 42;
    }
    selvedge_barrier();
    PtlFini();
    selvedge_finalize();
    return !is_right;
}
