/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The header of the Portals suite, in addition to check.h.
 *
 * The launcher starts the case's number of processes, and each runs `program NAME`.
 *
 * Rules for cases
 * 1. A case runs in all of its processes at once. It opens the interfaces that it needs. After the body and a barrier,
 *    suite.c closes the open ones and frees the buffers. Nothing outlives a case.
 * 2. A failed check in any process ends the whole job with an exit status that is not 0.
 * 3. Memory for communication comes from buffer(): it is shared or ordinary memory, depending on the variant. Memory on
 *    the stack and in globals cannot be reached in every variant.
 * 4. A case waits for another process only in barrier(), exchange() and the waiting functions below. In host mode and on the
 *    bounce path an interface makes progress only in its owner's calls; these functions make such calls, a plain sleep does
 *    not.
 * 5. barrier(), exchange(), ni_open() and its short forms are collective.
 */
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include "check.h"

#include <portals4.h>
#include <selvedge.h>

enum { RANKS_MAX = 64, WAIT_DEFAULT_MS = 60000 };

/* A case for variants where an interface works while its owner makes no call: not host mode, not the bounce path. */
#define CASE_NIC(name, ranks, rule) CASE(name, ranks, rule, .needs = "independent")

/* ---- Checks --------------------------------------------------------------------------------------------- */

/* CHECK_EQ that prints return codes, event kinds and failure kinds by name. The text of `wanted` (PTL_EVENT_*, PTL_NI_*) or
 * of `found` (a call of a Ptl function, a member .type) shows the kind of the value. */

#define OK(call) check_eq_at(__FILE__, __LINE__, #call, (unsigned long long)(call), "PTL_OK", PTL_OK)
/* Checks for the same process, in the addressing of the interface in use. */
#define CHECK_PROCESS(found, wanted) check_process_at(__FILE__, __LINE__, #found, found, #wanted, wanted)
void check_process_at(const char *file, int line, const char *found_text, ptl_process_t found, const char *wanted_text,
                      ptl_process_t wanted);

const char *return_name(int rc);
const char *event_name(ptl_event_kind_t kind);
const char *failure_name(ptl_ni_fail_t kind);

/* ---- The job -------------------------------------------------------------------------------------------- */

/* All-gather in rank order: `all` holds ranks() * bytes. */
void exchange(const void *mine, size_t bytes, void *all);
bool mode_is(const char *mode); /* "nic", "host" */
bool path_is(const char *path); /* "auto", "shared", "cma", "bounce" */
bool memory_is_shared(void);    /* buffer() returns memory of the shared arena */

/* ---- Interfaces ----------------------------------------------------------------------------------------- */

/* Calls PtlInit and PtlNIInit on the default interface with PTL_PID_ANY. Then the processes exchange their ids, a logical
 * interface gets its map, and the interface becomes the one in use. `desired` and `actual` may be NULL. */
ptl_handle_ni_t ni_open(unsigned options, const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual);
ptl_handle_ni_t ni_matching(void);    /* logical, matching, default limits */
ptl_handle_ni_t ni_nonmatching(void); /* logical, no matching, default limits */
/* Takes over an interface that the case opened itself (with its PtlInit and PtlNIInit): exchanges ids, sets the map if
 * `set_map`, and makes it the one in use. The suite closes it at the end. Collective. */
void ni_adopt(ptl_handle_ni_t handle, unsigned options, bool set_map);
void ni_use(ptl_handle_ni_t handle); /* makes an open interface the one in use */
ptl_handle_ni_t ni(void);            /* the interface in use */
/* Closes one interface / all of them: barrier, PtlNIFini, PtlFini. Collective. */
void ni_close(ptl_handle_ni_t handle);
void ni_close_all(void);
bool ni_is_logical(void);
bool ni_is_matching(void);
ptl_process_t peer(int rank);           /* the process of that rank, in the addressing of the interface in use */
ptl_process_t peer_physical(int rank);  /* its nid and pid */
ptl_process_t any_process(void);        /* the wildcard of the interface in use */
int rank_of(ptl_process_t process);     /* the inverse of peer(); -1 if no rank is this process */
bool same_process(ptl_process_t a, ptl_process_t b);
/* Limits to request: a case changes the member under test. */
ptl_ni_limits_t limits_default(void);

/* ---- Objects (on the interface in use; any failure fails the case) --------------------------------------- */

ptl_handle_eq_t eq_new(size_t count);
ptl_handle_ct_t ct_new(void);
ptl_pt_index_t pt_new(ptl_handle_eq_t eq, unsigned options); /* any index */
/* Allocates exactly this index, known to all processes without a message. */
ptl_pt_index_t pt_at(ptl_pt_index_t index, ptl_handle_eq_t eq, unsigned options);
ptl_handle_md_t md_new(void *start, size_t bytes, unsigned options, ptl_handle_eq_t eq, ptl_handle_ct_t ct);

/* Returns an entry over memory: PUT and GET, no LINK event, any user, no counter; these bits exactly, any source. */
ptl_me_t me_over(void *start, size_t bytes, ptl_match_bits_t bits);
ptl_le_t le_over(void *start, size_t bytes);
ptl_handle_me_t me_append(ptl_pt_index_t pt, const ptl_me_t *me, ptl_list_t list, void *user_ptr);
ptl_handle_le_t le_append(ptl_pt_index_t pt, const ptl_le_t *le, ptl_list_t list, void *user_ptr);

/* Puts the first `bytes` of `md` with PTL_ACK_REQ, at remote offset 0; user_ptr is NULL. */
void put(ptl_handle_md_t md, size_t bytes, int to, ptl_pt_index_t pt, ptl_match_bits_t bits, ptl_hdr_data_t hdr);
void get(ptl_handle_md_t md, size_t bytes, int from, ptl_pt_index_t pt, ptl_match_bits_t bits, size_t remote_offset);

/* ---- Waiting -------------------------------------------------------------------------------------------- */

/* Waits for the next event (timeout_ms <= 0: WAIT_DEFAULT_MS); the case fails without one. Returns PTL_OK or
 * PTL_EQ_DROPPED. Checks neither kind nor failure. */
#define wait_event(eq, ev, timeout_ms) wait_event_at(__FILE__, __LINE__, eq, ev, timeout_ms)
int wait_event_at(const char *file, int line, ptl_handle_eq_t eq, ptl_event_t *ev, int timeout_ms);
/* Returns the next event, which must be of this kind, with PTL_NI_OK, and with no event dropped before it. */
#define expect_event(eq, kind) expect_failure_at(__FILE__, __LINE__, eq, kind, PTL_NI_OK)
/* Like expect_event, with the failure that the event must carry. */
#define expect_failure(eq, kind, failure) expect_failure_at(__FILE__, __LINE__, eq, kind, failure)
ptl_event_t expect_failure_at(const char *file, int line, ptl_handle_eq_t eq, ptl_event_kind_t kind,
                              ptl_ni_fail_t failure);
/* Takes the SEND and the ACK that an acknowledged put leaves at its initiator, in either order. Returns the ACK. */
#define expect_send_ack(eq) expect_send_ack_at(__FILE__, __LINE__, eq, PTL_NI_OK)
#define expect_send_ack_failure(eq, failure) expect_send_ack_at(__FILE__, __LINE__, eq, failure)
ptl_event_t expect_send_ack_at(const char *file, int line, ptl_handle_eq_t eq, ptl_ni_fail_t failure);
/* Checks that no event arrives for this time. */
#define no_event(eq, ms) no_event_at(__FILE__, __LINE__, eq, ms)
void no_event_at(const char *file, int line, ptl_handle_eq_t eq, int ms);
#define wait_ct(ct, n) wait_ct_at(__FILE__, __LINE__, ct, n)
ptl_ct_event_t wait_ct_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t n);
/* Waits for the sum of these values, then checks for exactly these. */
#define expect_ct(ct, success, failure) expect_ct_at(__FILE__, __LINE__, ct, success, failure)
void expect_ct_at(const char *file, int line, ptl_handle_ct_t ct, ptl_size_t success, ptl_size_t failure);

/* ---- Memory and the rest -------------------------------------------------------------------------------- */

void *buffer(size_t bytes); /* zero; aligned to 64 bytes; freed after the case */

#endif
