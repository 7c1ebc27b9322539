/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Checks that portals4.h has the values, layouts and prototypes of the reference's header for Portals 4.3: include/portals4.h
 * of https://github.com/sandialabs/portals4 at commit 4e787c1330d956f9d924b7aed21094eb40dfd83d of 2024-09-09. Compiles only.
 * With -DREFERENCE it compiles against that header itself.
 *
 * The numbers are written out, so that a change of our header is an error here. A test in crates/doors/portals/src/abi.rs
 * compares the library's own constants with the VALUE lines.
 */
#include <portals4.h>
#include <stddef.h>

#define VALUE(name, value) _Static_assert((uint64_t)(name) == (value), #name)
#define TYPE(type, bytes, alignment) _Static_assert(sizeof(type) == (bytes) && _Alignof(type) == (alignment), #type)
#define MEMBER(type, member, offset, bytes) \
    _Static_assert(offsetof(type, member) == (offset) && sizeof(((type *)0)->member) == (bytes), #type "." #member)
#define FUNCTION(result, name, ...) \
    _Static_assert(_Generic(&name, result (*)(__VA_ARGS__): 1, default: 0), #name)

/* ---- Return codes ---- */

VALUE(PTL_OK, 0);
VALUE(PTL_ARG_INVALID, 1);
VALUE(PTL_CT_NONE_REACHED, 2);
VALUE(PTL_EQ_DROPPED, 3);
VALUE(PTL_EQ_EMPTY, 4);
VALUE(PTL_FAIL, 5);
VALUE(PTL_IGNORED, 6);
VALUE(PTL_IN_USE, 7);
VALUE(PTL_LIST_TOO_LONG, 8);
VALUE(PTL_NO_INIT, 9);
VALUE(PTL_NO_SPACE, 10);
VALUE(PTL_PID_IN_USE, 11);
VALUE(PTL_PT_FULL, 12);
VALUE(PTL_PT_EQ_NEEDED, 13);
VALUE(PTL_PT_IN_USE, 14);
VALUE(PTL_ABORTED, 15);
VALUE(PTL_STATUS_LAST, 15);

/* ---- Status registers ---- */

VALUE(PTL_SR_DROP_COUNT, 0);
VALUE(PTL_SR_PERMISSION_VIOLATIONS, 1);
VALUE(PTL_SR_OPERATION_VIOLATIONS, 2);
VALUE(PTL_SR_LAST, 3);

/* ---- Absent values and wildcards ---- */

VALUE(PTL_IOVEC, 1);
VALUE(PTL_EQ_NONE, 0x3fffffff);
VALUE(PTL_CT_NONE, 0x5fffffff);
VALUE(PTL_INVALID_HANDLE, 0xffffffff);
VALUE(PTL_IFACE_DEFAULT, 0xffffffff);
VALUE(PTL_PID_ANY, 0xffff);
VALUE(PTL_PID_MAX, 1024);
VALUE(PTL_NID_ANY, 0xffff);
VALUE(PTL_UID_ANY, 0xffffffff);
VALUE(PTL_PT_ANY, 0xffffffff);
VALUE(PTL_RANK_ANY, 0xffffffff);
VALUE(PTL_TIME_FOREVER, 0xffffffff);
VALUE(PTL_SIZE_MAX, UINT64_MAX);

/* ---- Interfaces ---- */

VALUE(NI_T_MATCHING, 0);
VALUE(NI_T_NMATCHING, 1);
VALUE(NI_T_LOGICAL, 2);
VALUE(NI_T_PHYSICAL, 3);
VALUE(NI_T_OPTIONS_MASK, 4);
VALUE(PTL_NI_MATCHING, 1);
VALUE(PTL_NI_NO_MATCHING, 2);
VALUE(PTL_NI_LOGICAL, 4);
VALUE(PTL_NI_PHYSICAL, 8);
VALUE(PTL_NI_INIT_OPTIONS_MASK, 15);
VALUE(PTL_NI_OK, 0);
VALUE(PTL_NI_UNDELIVERABLE, 1);
VALUE(PTL_NI_DROPPED, 2);
VALUE(PTL_NI_PT_DISABLED, 3);
VALUE(PTL_NI_PERM_VIOLATION, 4);
VALUE(PTL_NI_OP_VIOLATION, 5);
VALUE(PTL_NI_NO_MATCH, 6);
VALUE(PTL_NI_SEGV, 7);
VALUE(NI_BIND_INACCESSIBLE, 0);
VALUE(NI_DATA_ORDERING, 1);
VALUE(NI_COHERENT_ATOMICS, 2);
VALUE(NI_OPTIONS_MASK, 3);
VALUE(PTL_TARGET_BIND_INACCESSIBLE, 1);
VALUE(PTL_TOTAL_DATA_ORDERING, 2);
VALUE(PTL_COHERENT_ATOMICS, 4);

/* ---- Portal table entries ---- */

VALUE(ONLY_USE_ONCE, 0);
VALUE(FLOWCTRL, 1);
VALUE(ONLY_TRUNCATE, 2);
VALUE(MATCH_UNORDERED, 3);
VALUE(PT_ALLOC_DISABLED, 4);
VALUE(PT_OPTIONS_MASK, 5);
VALUE(PTL_PT_ONLY_USE_ONCE, 1);
VALUE(PTL_PT_FLOWCTRL, 2);
VALUE(PTL_PT_ONLY_TRUNCATE, 4);
VALUE(PTL_PT_ALLOC_DISABLED, 16);
VALUE(PTL_PT_MATCH_UNORDERED, 8);
VALUE(PTL_PT_ALLOC_OPTIONS_MASK, 31);

/* ---- Memory descriptors ---- */

VALUE(MD_EVNT_CT_SEND, 1);
VALUE(MD_EVNT_CT_REPLY, 2);
VALUE(MD_EVNT_CT_ACK, 3);
VALUE(MD_UNORDERED, 4);
VALUE(MD_EVNT_SUCCESS_DISABLE, 5);
VALUE(MD_VOLATILE, 6);
VALUE(MD_EVNT_SEND_DISABLE, 7);
VALUE(MD_UNRELIABLE, 8);
VALUE(MD_OPTIONS_MASK, 9);
VALUE(PTL_MD_EVENT_SUCCESS_DISABLE, 32);
VALUE(PTL_MD_EVENT_SEND_DISABLE, 128);
VALUE(PTL_MD_EVENT_CT_SEND, 2);
VALUE(PTL_MD_EVENT_CT_REPLY, 4);
VALUE(PTL_MD_EVENT_CT_ACK, 8);
VALUE(PTL_MD_EVENT_CT_BYTES, 16384);
VALUE(PTL_MD_UNORDERED, 16);
VALUE(PTL_MD_VOLATILE, 64);
VALUE(PTL_MD_UNRELIABLE, 256);
VALUE(PTL_MD_OPTIONS_MASK, 16895);

/* ---- Lists and entries ---- */

VALUE(MELE_EVNT_CT_BYTES, 14);
VALUE(PTL_PRIORITY_LIST, 0);
VALUE(PTL_OVERFLOW_LIST, 1);
VALUE(PTL_SEARCH_ONLY, 0);
VALUE(PTL_SEARCH_DELETE, 1);
VALUE(PTL_LE_OP_PUT, 2);
VALUE(PTL_ME_OP_PUT, 2);
VALUE(PTL_LE_OP_GET, 4);
VALUE(PTL_ME_OP_GET, 4);
VALUE(PTL_LE_USE_ONCE, 8);
VALUE(PTL_ME_USE_ONCE, 8);
VALUE(PTL_LE_UNEXPECTED_HDR_DISABLE, 16);
VALUE(PTL_ME_UNEXPECTED_HDR_DISABLE, 16);
VALUE(PTL_LE_IS_ACCESSIBLE, 32);
VALUE(PTL_ME_IS_ACCESSIBLE, 32);
VALUE(PTL_LE_EVENT_LINK_DISABLE, 64);
VALUE(PTL_ME_EVENT_LINK_DISABLE, 64);
VALUE(PTL_LE_EVENT_COMM_DISABLE, 128);
VALUE(PTL_ME_EVENT_COMM_DISABLE, 128);
VALUE(PTL_LE_EVENT_FLOWCTRL_DISABLE, 256);
VALUE(PTL_ME_EVENT_FLOWCTRL_DISABLE, 256);
VALUE(PTL_LE_EVENT_SUCCESS_DISABLE, 512);
VALUE(PTL_ME_EVENT_SUCCESS_DISABLE, 512);
VALUE(PTL_LE_EVENT_OVER_DISABLE, 1024);
VALUE(PTL_ME_EVENT_OVER_DISABLE, 1024);
VALUE(PTL_LE_EVENT_UNLINK_DISABLE, 2048);
VALUE(PTL_ME_EVENT_UNLINK_DISABLE, 2048);
VALUE(PTL_LE_EVENT_CT_COMM, 4096);
VALUE(PTL_ME_EVENT_CT_COMM, 4096);
VALUE(PTL_LE_EVENT_CT_OVERFLOW, 8192);
VALUE(PTL_ME_EVENT_CT_OVERFLOW, 8192);
VALUE(PTL_LE_EVENT_CT_BYTES, 16384);
VALUE(PTL_ME_EVENT_CT_BYTES, 16384);
VALUE(PTL_LE_APPEND_OPTIONS_MASK, 32767);
VALUE(LE_OPTIONS_MASK, 15);
VALUE(MELE_IOVEC, 0);
VALUE(MELE_OP_PUT, 1);
VALUE(MELE_OP_GET, 2);
VALUE(MELE_USE_ONCE, 3);
VALUE(MELE_UNEXPECTED_HDR_DISABLE, 4);
VALUE(MELE_IS_ACCESSIBLE, 5);
VALUE(MELE_EVNT_LINK_DISABLE, 6);
VALUE(MELE_EVNT_COMM_DISABLE, 7);
VALUE(MELE_EVNT_FLOWCTRL_DISABLE, 8);
VALUE(MELE_EVNT_SUCCESS_DISABLE, 9);
VALUE(MELE_EVNT_OVER_DISABLE, 10);
VALUE(MELE_EVNT_UNLINK_DISABLE, 11);
VALUE(MELE_EVNT_CT_COMM, 12);
VALUE(MELE_EVNT_CT_OVERFLOW, 13);
VALUE(ME_MANAGE_LOCAL, 15);
VALUE(ME_NO_TRUNCATE, 16);
VALUE(ME_MAY_ALIGN, 17);
VALUE(ME_LOCAL_INC_UH_RLENGTH, 18);
VALUE(ME_OPTIONS_MASK, 19);
VALUE(PTL_ME_MANAGE_LOCAL, 32768);
VALUE(PTL_ME_NO_TRUNCATE, 0x10000);
VALUE(PTL_ME_MAY_ALIGN, 0x20000);
VALUE(PTL_ME_LOCAL_INC_UH_RLENGTH, 0x40000);
VALUE(PTL_ME_APPEND_OPTIONS_MASK, 0x7ffff);

/* ---- Counting events, acknowledgements ---- */

VALUE(PTL_CT_OPERATION, 0);
VALUE(PTL_CT_BYTE, 1);
VALUE(PTL_NO_ACK_REQ, 0);
VALUE(PTL_ACK_REQ, 1);
VALUE(PTL_CT_ACK_REQ, 2);
VALUE(PTL_OC_ACK_REQ, 3);

/* ---- Events ---- */

VALUE(PTL_EVENT_GET, 0);
VALUE(PTL_EVENT_GET_OVERFLOW, 1);
VALUE(PTL_EVENT_PUT, 2);
VALUE(PTL_EVENT_PUT_OVERFLOW, 3);
VALUE(PTL_EVENT_ATOMIC, 4);
VALUE(PTL_EVENT_ATOMIC_OVERFLOW, 5);
VALUE(PTL_EVENT_FETCH_ATOMIC, 6);
VALUE(PTL_EVENT_FETCH_ATOMIC_OVERFLOW, 7);
VALUE(PTL_EVENT_REPLY, 8);
VALUE(PTL_EVENT_SEND, 9);
VALUE(PTL_EVENT_ACK, 10);
VALUE(PTL_EVENT_PT_DISABLED, 11);
VALUE(PTL_EVENT_LINK, 12);
VALUE(PTL_EVENT_AUTO_UNLINK, 13);
VALUE(PTL_EVENT_AUTO_FREE, 14);
VALUE(PTL_EVENT_SEARCH, 15);

/* ---- Atomics ---- */

VALUE(PTL_MIN, 0);
VALUE(PTL_MAX, 1);
VALUE(PTL_SUM, 2);
VALUE(PTL_PROD, 3);
VALUE(PTL_LOR, 4);
VALUE(PTL_LAND, 5);
VALUE(PTL_BOR, 6);
VALUE(PTL_BAND, 7);
VALUE(PTL_LXOR, 8);
VALUE(PTL_BXOR, 9);
VALUE(PTL_SWAP, 10);
VALUE(PTL_CSWAP, 11);
VALUE(PTL_CSWAP_NE, 12);
VALUE(PTL_CSWAP_LE, 13);
VALUE(PTL_CSWAP_LT, 14);
VALUE(PTL_CSWAP_GE, 15);
VALUE(PTL_CSWAP_GT, 16);
VALUE(PTL_MSWAP, 17);
VALUE(PTL_OP_LAST, 18);
VALUE(PTL_INT8_T, 0);
VALUE(PTL_UINT8_T, 1);
VALUE(PTL_INT16_T, 2);
VALUE(PTL_UINT16_T, 3);
VALUE(PTL_INT32_T, 4);
VALUE(PTL_UINT32_T, 5);
VALUE(PTL_FLOAT, 6);
VALUE(PTL_INT64_T, 7);
VALUE(PTL_UINT64_T, 8);
VALUE(PTL_DOUBLE, 9);
VALUE(PTL_FLOAT_COMPLEX, 10);
VALUE(PTL_DOUBLE_COMPLEX, 11);
VALUE(PTL_LONG_DOUBLE, 12);
VALUE(PTL_LONG_DOUBLE_COMPLEX, 13);
VALUE(PTL_DATATYPE_LAST, 14);

/* ---- Types ---- */

TYPE(ptl_size_t, 8, 8);
TYPE(ptl_pt_index_t, 4, 4);
TYPE(ptl_match_bits_t, 8, 8);
TYPE(ptl_hdr_data_t, 8, 8);
TYPE(ptl_time_t, 4, 4);
TYPE(ptl_interface_t, 4, 4);
TYPE(ptl_nid_t, 4, 4);
TYPE(ptl_pid_t, 4, 4);
TYPE(ptl_rank_t, 4, 4);
TYPE(ptl_uid_t, 4, 4);
TYPE(ptl_sr_index_t, 4, 4);
TYPE(ptl_sr_value_t, 4, 4);
TYPE(ptl_handle_any_t, 4, 4);
TYPE(ptl_handle_ni_t, 4, 4);
TYPE(ptl_handle_eq_t, 4, 4);
TYPE(ptl_handle_ct_t, 4, 4);
TYPE(ptl_handle_md_t, 4, 4);
TYPE(ptl_handle_le_t, 4, 4);
TYPE(ptl_handle_me_t, 4, 4);
TYPE(ptl_process_t, 8, 4);
TYPE(ptl_ni_fail_t, 1, 1);
TYPE(ptl_list_t, 1, 1);
TYPE(ptl_search_op_t, 1, 1);
TYPE(ptl_ct_type_t, 4, 4);
TYPE(ptl_ack_req_t, 1, 1);
TYPE(ptl_op_t, 1, 1);
TYPE(ptl_datatype_t, 1, 1);
TYPE(ptl_event_kind_t, 1, 1);
MEMBER(ptl_process_t, rank, 0, 4);
MEMBER(ptl_process_t, phys.nid, 0, 4);
MEMBER(ptl_process_t, phys.pid, 4, 4);

TYPE(ptl_md_t, 32, 8);
MEMBER(ptl_md_t, start, 0, 8);
MEMBER(ptl_md_t, length, 8, 8);
MEMBER(ptl_md_t, options, 16, 4);
MEMBER(ptl_md_t, eq_handle, 20, 4);
MEMBER(ptl_md_t, ct_handle, 24, 4);

TYPE(ptl_iovec_t, 16, 8);
MEMBER(ptl_iovec_t, iov_base, 0, 8);
MEMBER(ptl_iovec_t, iov_len, 8, 8);

TYPE(ptl_le_t, 32, 8);
MEMBER(ptl_le_t, start, 0, 8);
MEMBER(ptl_le_t, length, 8, 8);
MEMBER(ptl_le_t, ct_handle, 16, 4);
MEMBER(ptl_le_t, uid, 20, 4);
MEMBER(ptl_le_t, options, 24, 4);

TYPE(ptl_ni_limits_t, 96, 8);
MEMBER(ptl_ni_limits_t, max_entries, 0, 4);
MEMBER(ptl_ni_limits_t, max_unexpected_headers, 4, 4);
MEMBER(ptl_ni_limits_t, max_mds, 8, 4);
MEMBER(ptl_ni_limits_t, max_cts, 12, 4);
MEMBER(ptl_ni_limits_t, max_eqs, 16, 4);
MEMBER(ptl_ni_limits_t, max_pt_index, 20, 4);
MEMBER(ptl_ni_limits_t, max_iovecs, 24, 4);
MEMBER(ptl_ni_limits_t, max_list_size, 28, 4);
MEMBER(ptl_ni_limits_t, max_triggered_ops, 32, 4);
MEMBER(ptl_ni_limits_t, max_msg_size, 40, 8);
MEMBER(ptl_ni_limits_t, max_atomic_size, 48, 8);
MEMBER(ptl_ni_limits_t, max_fetch_atomic_size, 56, 8);
MEMBER(ptl_ni_limits_t, max_waw_ordered_size, 64, 8);
MEMBER(ptl_ni_limits_t, max_war_ordered_size, 72, 8);
MEMBER(ptl_ni_limits_t, max_volatile_size, 80, 8);
MEMBER(ptl_ni_limits_t, features, 88, 4);

TYPE(ptl_me_t, 64, 8);
MEMBER(ptl_me_t, start, 0, 8);
MEMBER(ptl_me_t, length, 8, 8);
MEMBER(ptl_me_t, ct_handle, 16, 4);
MEMBER(ptl_me_t, uid, 20, 4);
MEMBER(ptl_me_t, options, 24, 4);
MEMBER(ptl_me_t, match_id, 28, 8);
MEMBER(ptl_me_t, match_bits, 40, 8);
MEMBER(ptl_me_t, ignore_bits, 48, 8);
MEMBER(ptl_me_t, min_free, 56, 8);

TYPE(ptl_ct_event_t, 16, 8);
MEMBER(ptl_ct_event_t, success, 0, 8);
MEMBER(ptl_ct_event_t, failure, 8, 8);

TYPE(ptl_event_t, 80, 8);
MEMBER(ptl_event_t, start, 0, 8);
MEMBER(ptl_event_t, user_ptr, 8, 8);
MEMBER(ptl_event_t, hdr_data, 16, 8);
MEMBER(ptl_event_t, match_bits, 24, 8);
MEMBER(ptl_event_t, rlength, 32, 8);
MEMBER(ptl_event_t, mlength, 40, 8);
MEMBER(ptl_event_t, remote_offset, 48, 8);
MEMBER(ptl_event_t, initiator, 56, 8);
MEMBER(ptl_event_t, uid, 64, 4);
MEMBER(ptl_event_t, pt_index, 68, 4);
MEMBER(ptl_event_t, type, 72, 1);
MEMBER(ptl_event_t, ptl_list, 73, 1);
MEMBER(ptl_event_t, ni_fail_type, 74, 1);
MEMBER(ptl_event_t, atomic_operation, 75, 1);
MEMBER(ptl_event_t, atomic_type, 76, 1);

/* ---- Functions ---- */

FUNCTION(void, PtlAbort, void);
FUNCTION(int, PtlInit, void);
FUNCTION(void, PtlFini, void);
FUNCTION(int, PtlNIInit, ptl_interface_t, unsigned int, ptl_pid_t, const ptl_ni_limits_t *, ptl_ni_limits_t *,
         ptl_handle_ni_t *);
FUNCTION(int, PtlNIFini, ptl_handle_ni_t);
FUNCTION(int, PtlNIStatus, ptl_handle_ni_t, ptl_sr_index_t, ptl_sr_value_t *);
FUNCTION(int, PtlNIHandle, ptl_handle_any_t, ptl_handle_ni_t *);
FUNCTION(int, PtlSetMap, ptl_handle_ni_t, ptl_size_t, const ptl_process_t *);
FUNCTION(int, PtlGetMap, ptl_handle_ni_t, ptl_size_t, ptl_process_t *, ptl_size_t *);
FUNCTION(int, PtlPTAlloc, ptl_handle_ni_t, unsigned int, ptl_handle_eq_t, ptl_pt_index_t, ptl_pt_index_t *);
FUNCTION(int, PtlPTFree, ptl_handle_ni_t, ptl_pt_index_t);
FUNCTION(int, PtlPTDisable, ptl_handle_ni_t, ptl_pt_index_t);
FUNCTION(int, PtlPTEnable, ptl_handle_ni_t, ptl_pt_index_t);
FUNCTION(int, PtlGetUid, ptl_handle_ni_t, ptl_uid_t *);
FUNCTION(int, PtlGetId, ptl_handle_ni_t, ptl_process_t *);
FUNCTION(int, PtlGetPhysId, ptl_handle_ni_t, ptl_process_t *);
FUNCTION(int, PtlMDBind, ptl_handle_ni_t, const ptl_md_t *, ptl_handle_md_t *);
FUNCTION(int, PtlMDRelease, ptl_handle_md_t);
FUNCTION(int, PtlLEAppend, ptl_handle_ni_t, ptl_pt_index_t, const ptl_le_t *, ptl_list_t, void *,
         ptl_handle_le_t *);
FUNCTION(int, PtlLEUnlink, ptl_handle_le_t);
FUNCTION(int, PtlLESearch, ptl_handle_ni_t, ptl_pt_index_t, const ptl_le_t *, ptl_search_op_t, void *);
FUNCTION(int, PtlMEAppend, ptl_handle_ni_t, ptl_pt_index_t, const ptl_me_t *, ptl_list_t, void *,
         ptl_handle_me_t *);
FUNCTION(int, PtlMEUnlink, ptl_handle_me_t);
FUNCTION(int, PtlMESearch, ptl_handle_ni_t, ptl_pt_index_t, const ptl_me_t *, ptl_search_op_t, void *);
FUNCTION(int, PtlCTAlloc, ptl_handle_ni_t, ptl_handle_ct_t *);
FUNCTION(int, PtlCTFree, ptl_handle_ct_t);
FUNCTION(int, PtlCTCancelTriggered, ptl_handle_ct_t);
FUNCTION(int, PtlCTGet, ptl_handle_ct_t, ptl_ct_event_t *);
FUNCTION(int, PtlCTWait, ptl_handle_ct_t, ptl_size_t, ptl_ct_event_t *);
FUNCTION(int, PtlCTPoll, const ptl_handle_ct_t *, const ptl_size_t *, unsigned int, ptl_time_t, ptl_ct_event_t *,
         unsigned int *);
FUNCTION(int, PtlCTSet, ptl_handle_ct_t, ptl_ct_event_t);
FUNCTION(int, PtlCTInc, ptl_handle_ct_t, ptl_ct_event_t);
FUNCTION(int, PtlPut, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t, ptl_process_t, ptl_pt_index_t,
         ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t);
FUNCTION(int, PtlGet, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_process_t, ptl_pt_index_t, ptl_match_bits_t,
         ptl_size_t, void *);
FUNCTION(int, PtlAtomic, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t, ptl_process_t, ptl_pt_index_t,
         ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t, ptl_op_t, ptl_datatype_t);
FUNCTION(int, PtlFetchAtomic, ptl_handle_md_t, ptl_size_t, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_process_t,
         ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t, ptl_op_t, ptl_datatype_t);
FUNCTION(int, PtlSwap, ptl_handle_md_t, ptl_size_t, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_process_t,
         ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t, const void *, ptl_op_t,
         ptl_datatype_t);
FUNCTION(int, PtlAtomicSync, void);
FUNCTION(int, PtlEQAlloc, ptl_handle_ni_t, ptl_size_t, ptl_handle_eq_t *);
FUNCTION(int, PtlEQFree, ptl_handle_eq_t);
FUNCTION(int, PtlEQGet, ptl_handle_eq_t, ptl_event_t *);
FUNCTION(int, PtlEQWait, ptl_handle_eq_t, ptl_event_t *);
FUNCTION(int, PtlEQPoll, const ptl_handle_eq_t *, unsigned int, ptl_time_t, ptl_event_t *, unsigned int *);
FUNCTION(int, PtlTriggeredPut, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t, ptl_process_t,
         ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredGet, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_process_t, ptl_pt_index_t,
         ptl_match_bits_t, ptl_size_t, void *, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredAtomic, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t, ptl_process_t,
         ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t, ptl_op_t, ptl_datatype_t,
         ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredFetchAtomic, ptl_handle_md_t, ptl_size_t, ptl_handle_md_t, ptl_size_t, ptl_size_t,
         ptl_process_t, ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t, ptl_op_t,
         ptl_datatype_t, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredSwap, ptl_handle_md_t, ptl_size_t, ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_process_t,
         ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *, ptl_hdr_data_t, const void *, ptl_op_t,
         ptl_datatype_t, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredCTInc, ptl_handle_ct_t, ptl_ct_event_t, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredCTSet, ptl_handle_ct_t, ptl_ct_event_t, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredMEAppend, ptl_handle_ni_t, ptl_pt_index_t, ptl_me_t *, ptl_list_t, void *,
         ptl_handle_me_t *, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlTriggeredMEUnlink, ptl_handle_me_t, ptl_handle_ct_t, ptl_size_t);
FUNCTION(int, PtlStartBundle, ptl_handle_ni_t);
FUNCTION(int, PtlEndBundle, ptl_handle_ni_t);
FUNCTION(int, PtlHandleIsEqual, ptl_handle_any_t, ptl_handle_any_t);

/* ---- Selvedge's additions: outside the reference's masks and codes ---- */

#ifndef REFERENCE
VALUE(PTL_INTERRUPTED, 16);
VALUE(PTL_ME_ACK_DISABLE, 1 << 19);
VALUE(PTL_LE_ACK_DISABLE, 1 << 19);
_Static_assert(PTL_INTERRUPTED > PTL_ABORTED && (PTL_ME_ACK_DISABLE & PTL_ME_APPEND_OPTIONS_MASK) == 0, "additions");
#endif
