/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * portals4.h: the Portals 4.3 network programming interface, as Selvedge provides it.
 *
 * Names, values, layouts and prototypes are those of the reference implementation's header for Portals 4.3, so
 * programs and binaries built for that header work with this one: https://github.com/sandialabs/portals4,
 * include/portals4.h, commit 4e787c1330d956f9d924b7aed21094eb40dfd83d of 2024-09-09. tests/headers/portals4.c compares
 * them. The reference's headers from before May 2024 number options of entries differently, those from before October
 * 2023 also return codes: programs written for them compile here, their binaries do not work. Each section names its
 * clause of the specification. The last section has additions marked "Selvedge".
 *
 * Invariants:
 *  1. Every function returns PTL_OK or one of the codes listed above it, except PtlAbort, PtlFini and
 *     PtlHandleIsEqual. All but PtlInit return PTL_NO_INIT before PtlInit has succeeded.
 *  2. An output argument is written only when the function succeeds (PTL_EQ_DROPPED is a success).
 *  3. Lengths and offsets are in bytes, timeouts in milliseconds, unless a comment says otherwise.
 *  4. Structures handed in are copied; memory regions they name stay the program's, and must stay mapped
 *     until the descriptor or entry is released.
 */
#ifndef PORTALS4_H
#define PORTALS4_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Return codes (clause: Return Codes) ------------------------------------------------------------ */

enum ptl_retvals {
    PTL_OK              = 0,   /* done */
    PTL_ARG_INVALID     = 1,   /* an argument does not name a live object or is out of range */
    PTL_CT_NONE_REACHED = 2,   /* the timeout passed with every counter below its test */
    PTL_EQ_DROPPED      = 3,   /* an event is returned, but others before it were lost */
    PTL_EQ_EMPTY        = 4,   /* nothing in the queue, or nothing before the timeout */
    PTL_FAIL            = 5,   /* unspecified failure */
    PTL_IGNORED         = 6,   /* the rank map is fixed and was left as it is; this library never returns it */
    PTL_IN_USE          = 7,   /* operations or entries still use the object; try again */
    PTL_LIST_TOO_LONG   = 8,   /* the list is at max_list_size */
    PTL_NO_INIT         = 9,   /* PtlInit has not succeeded yet */
    PTL_NO_SPACE        = 10,  /* the table that would hold the object is full */
    PTL_PID_IN_USE      = 11,  /* another process holds this pid */
    PTL_PT_FULL         = 12,  /* no free portal table entry */
    PTL_PT_EQ_NEEDED    = 13,  /* flow control asked for without an event queue */
    PTL_PT_IN_USE       = 14,  /* the portal table index is taken */
    PTL_ABORTED         = 15   /* PtlAbort ended the wait or poll */
};
#define PTL_STATUS_LAST (PTL_PT_IN_USE + 1) /* as in the reference, where PTL_ABORTED also has this number */

/* ---- Base types (clause: Base Types) ---------------------------------------------------------------- */

typedef uint64_t     ptl_size_t;       /* bytes, counts, thresholds */
typedef uint32_t     ptl_pt_index_t;   /* index into a portal table */
typedef uint64_t     ptl_match_bits_t; /* compared by matching interfaces */
typedef uint64_t     ptl_hdr_data_t;   /* user word carried in the message header */
typedef unsigned int ptl_time_t;       /* milliseconds */
typedef unsigned int ptl_interface_t;  /* number of a network interface */
typedef uint32_t     ptl_nid_t;        /* node, on physically addressed interfaces */
typedef uint32_t     ptl_pid_t;        /* process within the node, on physically addressed interfaces */
typedef uint32_t     ptl_rank_t;       /* index into the rank map, on logically addressed interfaces */
typedef uint32_t     ptl_uid_t;        /* user on whose behalf a process runs */

/* Status registers of an interface, read with PtlNIStatus. */
typedef enum {
    PTL_SR_DROP_COUNT            = 0, /* messages dropped */
    PTL_SR_PERMISSION_VIOLATIONS = 1, /* messages refused because of their user id */
    PTL_SR_OPERATION_VIOLATIONS  = 2  /* messages refused because the entry does not take the operation */
} ptl_sr_index_t;
#define PTL_SR_LAST (PTL_SR_OPERATION_VIOLATIONS + 1) /* number of status registers */
typedef int ptl_sr_value_t;                           /* value of a status register */

typedef uint32_t         ptl_handle_any_t; /* any object of an interface */
typedef ptl_handle_any_t ptl_handle_ni_t;  /* network interface */
typedef ptl_handle_any_t ptl_handle_eq_t;  /* event queue */
typedef ptl_handle_any_t ptl_handle_ct_t;  /* counting event */
typedef ptl_handle_any_t ptl_handle_md_t;  /* memory descriptor */
typedef ptl_handle_any_t ptl_handle_le_t;  /* list entry */
typedef ptl_handle_any_t ptl_handle_me_t;  /* match list entry */

/* A process; the addressing of the interface selects the member. */
typedef union {
    ptl_rank_t rank;   /* PTL_NI_LOGICAL */
    struct {
        ptl_nid_t nid;
        ptl_pid_t pid;
    } phys;            /* PTL_NI_PHYSICAL */
} ptl_process_t;

/* ---- Absent values and wildcards -------------------------------------------------------------------- */

#define PTL_IOVEC          (1)                            /* start is a ptl_iovec_t array, length counts its elements */
#define PTL_EQ_NONE        ((ptl_handle_eq_t)0x3fffffff)  /* no event queue */
#define PTL_CT_NONE        ((ptl_handle_ct_t)0x5fffffff)  /* no counting event */
#define PTL_INVALID_HANDLE ((ptl_handle_any_t)0xffffffff) /* never a live object */
#define PTL_IFACE_DEFAULT  ((ptl_interface_t)0xffffffff)  /* the default interface of this process */
#define PTL_PID_ANY        ((ptl_pid_t)0xffff)            /* PtlNIInit: any free pid above 0; match_id: every pid */
#define PTL_PID_MAX        ((ptl_pid_t)1024)              /* the largest pid that a program may ask for */
#define PTL_NID_ANY        ((ptl_nid_t)0xffff)            /* match_id: every node */
#define PTL_UID_ANY        ((ptl_uid_t)0xffffffff)        /* list entry: every user */
#define PTL_PT_ANY         ((ptl_pt_index_t)0xffffffff)   /* PtlPTAlloc: the library chooses an index */
#define PTL_RANK_ANY       ((ptl_rank_t)0xffffffff)       /* match_id: every rank */
#define PTL_TIME_FOREVER   ((ptl_time_t)0xffffffff)       /* no timeout */
#define PTL_SIZE_MAX       (~(ptl_size_t)0)               /* length of a region that is the whole address space */

/* ---- Memory regions (clauses: Memory Descriptors, List Entries) ------------------------------------- */

/* A region at the initiator, for PtlMDBind. */
typedef struct {
    void           *start;     /* first byte, any alignment; or a ptl_iovec_t array */
    ptl_size_t      length;    /* bytes; or elements when PTL_IOVEC is set */
    unsigned int    options;   /* PTL_MD_* and PTL_IOVEC */
    ptl_handle_eq_t eq_handle; /* gets full events of its operations; or PTL_EQ_NONE */
    ptl_handle_ct_t ct_handle; /* counts the events of the PTL_MD_EVENT_CT_* options; or PTL_CT_NONE */
} ptl_md_t;

/* One piece of a scattered region. The array may not change while a descriptor or entry uses it. */
typedef struct {
    void      *iov_base; /* first byte, any alignment */
    ptl_size_t iov_len;  /* bytes */
} ptl_iovec_t;

/* A region at the target of a non-matching interface, for PtlLEAppend and PtlLESearch. */
typedef struct {
    void           *start;     /* as in ptl_md_t; may be NULL when length is 0 */
    ptl_size_t      length;    /* as in ptl_md_t; a message is truncated at the end */
    ptl_handle_ct_t ct_handle; /* counts the events of the PTL_LE_EVENT_CT_* options; or PTL_CT_NONE */
    ptl_uid_t       uid;       /* the only user served, or PTL_UID_ANY; others get PTL_NI_PERM_VIOLATION */
    unsigned int    options;   /* PTL_LE_* and PTL_IOVEC */
} ptl_le_t;

/*
 * A region at the target of a matching interface, for PtlMEAppend and PtlMESearch. A message matches when
 * its initiator agrees with match_id, its match bits with match_bits wherever ignore_bits is 0, and, under
 * PTL_ME_NO_TRUNCATE, when all of it fits.
 */
typedef struct {
    void            *start;       /* as in ptl_le_t */
    ptl_size_t       length;      /* as in ptl_le_t */
    ptl_handle_ct_t  ct_handle;   /* as in ptl_le_t, with PTL_ME_EVENT_CT_* */
    ptl_uid_t        uid;         /* as in ptl_le_t */
    unsigned int     options;     /* PTL_ME_* and PTL_IOVEC */
    ptl_process_t    match_id;    /* initiator; PTL_NID_ANY, PTL_PID_ANY, PTL_RANK_ANY are wildcards */
    ptl_match_bits_t match_bits;  /* bits wanted */
    ptl_match_bits_t ignore_bits; /* 1: this bit of match_bits need not agree */
    ptl_size_t       min_free;    /* PTL_ME_MANAGE_LOCAL: unlink once fewer bytes are left; 0: never for that reason */
} ptl_me_t;

/* ---- Initialization (clause: Initialization and Cleanup) -------------------------------------------- */

/* Ends every PtlEQWait, PtlEQPoll, PtlCTWait and PtlCTPoll of this process, now and later, with PTL_ABORTED,
 * so that threads can be joined before the queues and counters they wait on are freed. */
void PtlAbort(void);

/* Starts Portals in this process, or increments its count of starts. PTL_FAIL. */
int PtlInit(void);

/* Decrements the count of starts; the last call frees everything, and no call may follow. */
void PtlFini(void);

/* ---- Network interfaces (clause: Network Interfaces) ------------------------------------------------ */

#define PTL_NI_MATCHING    (1 << 0) /* entries are ptl_me_t */
#define PTL_NI_NO_MATCHING (1 << 1) /* entries are ptl_le_t; the first in a list takes everything */
#define PTL_NI_LOGICAL     (1 << 2) /* processes are named by rank; PtlSetMap first */
#define PTL_NI_PHYSICAL    (1 << 3) /* processes are named by nid and pid */
#define PTL_NI_INIT_OPTIONS_MASK ((1 << 4) - 1) /* every option of PtlNIInit */

/* Result of an operation, in ni_fail_type of an event. */
typedef unsigned char ptl_ni_fail_t;
#define PTL_NI_OK             0 /* it succeeded */
#define PTL_NI_UNDELIVERABLE  1 /* the target cannot be reached, or has ended */
#define PTL_NI_DROPPED        2 /* nothing matched, or the portal table entry is not allocated */
#define PTL_NI_PT_DISABLED    3 /* the portal table entry is disabled, by its owner or by flow control */
#define PTL_NI_PERM_VIOLATION 4 /* the entry serves another user */
#define PTL_NI_OP_VIOLATION   5 /* the entry does not take this operation */
#define PTL_NI_NO_MATCH       6 /* a search found nothing */
#define PTL_NI_SEGV           7 /* memory that the operation needed cannot be reached */

/* Bits of ptl_ni_limits_t.features. */
#define PTL_TARGET_BIND_INACCESSIBLE (1 << 0) /* entries may cover memory that is not mapped */
#define PTL_TOTAL_DATA_ORDERING      (1 << 1) /* data becomes visible in the order of the operations, at any size */
#define PTL_COHERENT_ATOMICS         (1 << 2) /* Portals atomics and processor atomics exclude each other */

/* Sizes of an interface's tables and messages, requested and granted in PtlNIInit. */
typedef struct {
    int          max_entries;            /* list entries and match list entries */
    int          max_unexpected_headers; /* headers of unexpected messages, matched only by the overflow list */
    int          max_mds;                /* memory descriptors */
    int          max_cts;                /* counting events */
    int          max_eqs;                /* event queues */
    int          max_pt_index;           /* largest portal table index (inclusive); at least 63 */
    int          max_iovecs;             /* elements of one ptl_iovec_t array */
    int          max_list_size;          /* entries in the lists of one portal table index */
    int          max_triggered_ops;      /* triggered operations waiting at once */
    ptl_size_t   max_msg_size;           /* bytes of a put, get or reply */
    ptl_size_t   max_atomic_size;        /* bytes of an atomic that returns nothing */
    ptl_size_t   max_fetch_atomic_size;  /* bytes of an atomic that returns the old value */
    ptl_size_t   max_waw_ordered_size;   /* bytes up to which write after write keeps its order; at least 64 */
    ptl_size_t   max_war_ordered_size;   /* bytes up to which write after read keeps its order; at least 8 */
    ptl_size_t   max_volatile_size;      /* bytes up to which PTL_MD_VOLATILE is honoured */
    unsigned int features;               /* PTL_TARGET_BIND_INACCESSIBLE and the bits after it */
} ptl_ni_limits_t;

/* Opens interface iface with two options, one of matching and one of addressing. desired may be NULL; the
 * granted limits go to actual unless that is NULL. Opening the same interface again only adds one to its count and
 * ignores pid and desired. PTL_ARG_INVALID, PTL_PID_IN_USE, PTL_NO_SPACE. */
int PtlNIInit(ptl_interface_t iface, unsigned int options, ptl_pid_t pid, const ptl_ni_limits_t *desired,
              ptl_ni_limits_t *actual, ptl_handle_ni_t *ni_handle);

/* Undoes one PtlNIInit; the last one frees all objects of the interface. PTL_ARG_INVALID. */
int PtlNIFini(ptl_handle_ni_t ni_handle);

/* Reads one status register. PTL_ARG_INVALID. */
int PtlNIStatus(ptl_handle_ni_t ni_handle, ptl_sr_index_t status_register, ptl_sr_value_t *status);

/* Finds the interface to which an object belongs; an interface belongs to itself. PTL_ARG_INVALID. */
int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t *ni_handle);

/* Sets the process of each rank: mapping[r].phys for r below map_size (elements). Needed before any
 * communication on a logical interface. PTL_ARG_INVALID, PTL_NO_SPACE, PTL_IGNORED. */
int PtlSetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, const ptl_process_t *mapping);

/* Copies up to map_size elements of the rank map; its whole size in elements goes to actual_map_size, which
 * may be larger. PTL_ARG_INVALID. */
int PtlGetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, ptl_process_t *mapping, ptl_size_t *actual_map_size);

/* ---- Portal table (clause: Portal Table Entries) ---------------------------------------------------- */

#define PTL_PT_ONLY_USE_ONCE   (1 << 0) /* hint: every entry will be USE_ONCE; others are still accepted */
#define PTL_PT_FLOWCTRL        (1 << 1) /* disable the index instead of dropping when a resource runs out */
#define PTL_PT_ONLY_TRUNCATE   (1 << 2) /* hint: no priority entry will be NO_TRUNCATE; others are still accepted */
#define PTL_PT_MATCH_UNORDERED (1 << 3) /* entries may be searched in any order */
#define PTL_PT_ALLOC_DISABLED  (1 << 4) /* start disabled; PtlPTEnable opens it */
#define PTL_PT_ALLOC_OPTIONS_MASK ((1 << 5) - 1) /* every option of PtlPTAlloc */

/* Takes index pt_index_req, or any free one for PTL_PT_ANY. Target events of its lists go to eq_handle, which may
 * be PTL_EQ_NONE. PTL_ARG_INVALID, PTL_PT_FULL, PTL_PT_IN_USE, PTL_PT_EQ_NEEDED. */
int PtlPTAlloc(ptl_handle_ni_t ni_handle, unsigned int options, ptl_handle_eq_t eq_handle,
               ptl_pt_index_t pt_index_req, ptl_pt_index_t *pt_index);

/* Frees an index. PTL_ARG_INVALID, PTL_PT_IN_USE while entries are linked to it. */
int PtlPTFree(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);

/* Closes an index to new messages; returns when those under way are done and their events posted, and posts no
 * PTL_EVENT_PT_DISABLED itself. PTL_ARG_INVALID. */
int PtlPTDisable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);

/* Opens an index that its owner or flow control has closed. PTL_ARG_INVALID. */
int PtlPTEnable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);

/* ---- Identities (clauses: User Identification, Process Identification) ------------------------------ */

/* User id that this process's messages carry. PTL_ARG_INVALID. */
int PtlGetUid(ptl_handle_ni_t ni_handle, ptl_uid_t *uid);

/* This process in the interface's own addressing. PTL_ARG_INVALID. */
int PtlGetId(ptl_handle_ni_t ni_handle, ptl_process_t *id);

/* This process as nid and pid, whatever the interface's addressing. PTL_ARG_INVALID. */
int PtlGetPhysId(ptl_handle_ni_t ni_handle, ptl_process_t *id);

/* ---- Memory descriptors (clause: Memory Descriptors) ------------------------------------------------ */

#define PTL_MD_EVENT_CT_SEND         (1 << 1)  /* count PTL_EVENT_SEND */
#define PTL_MD_EVENT_CT_REPLY        (1 << 2)  /* count PTL_EVENT_REPLY */
#define PTL_MD_EVENT_CT_ACK          (1 << 3)  /* count acknowledgements, full or counting */
#define PTL_MD_UNORDERED             (1 << 4)  /* messages may overtake each other */
#define PTL_MD_EVENT_SUCCESS_DISABLE (1 << 5)  /* full events only for failures */
#define PTL_MD_VOLATILE              (1 << 6)  /* the buffer may change on return (up to max_volatile_size) */
#define PTL_MD_EVENT_SEND_DISABLE    (1 << 7)  /* no PTL_EVENT_SEND */
#define PTL_MD_UNRELIABLE            (1 << 8)  /* puts without acknowledgement may be lost; nothing else is allowed */
#define PTL_MD_EVENT_CT_BYTES        (1 << 14) /* successes count bytes (SEND: requested, else moved), failures 1 */
#define PTL_MD_OPTIONS_MASK          (((1 << 9) - 1) | PTL_MD_EVENT_CT_BYTES) /* every option of a descriptor */

/* Makes a descriptor; its queue and counter must be of the same interface. PTL_ARG_INVALID, PTL_NO_SPACE. */
int PtlMDBind(ptl_handle_ni_t ni_handle, const ptl_md_t *md, ptl_handle_md_t *md_handle);

/* Frees a descriptor that no operation uses any more; the memory stays. PTL_ARG_INVALID. */
int PtlMDRelease(ptl_handle_md_t md_handle);

/* ---- List entries (clause: List Entries and Lists) -------------------------------------------------- */

/* The list of a portal table index to which an entry goes. */
typedef unsigned char ptl_list_t;
#define PTL_PRIORITY_LIST 0 /* posted receives */
#define PTL_OVERFLOW_LIST 1 /* searched second; keeps the unexpected message's header, which a later append can claim */

/* The effect of a search on the header that it finds. */
typedef unsigned char ptl_search_op_t;
#define PTL_SEARCH_ONLY   0 /* leave it */
#define PTL_SEARCH_DELETE 1 /* claim it, as an append would */

/* Options of both kinds of entry; the PTL_LE_ names below are the same bits. */
#define PTL_ME_OP_PUT                 (1 << 1)  /* takes puts and atomics; else PTL_NI_OP_VIOLATION */
#define PTL_ME_OP_GET                 (1 << 2)  /* takes gets and, with OP_PUT, fetching atomics */
#define PTL_ME_USE_ONCE               (1 << 3)  /* unlinked by its first message */
#define PTL_ME_UNEXPECTED_HDR_DISABLE (1 << 4)  /* overflow list: keep no header */
#define PTL_ME_IS_ACCESSIBLE          (1 << 5)  /* all of the region is mapped */
#define PTL_ME_EVENT_LINK_DISABLE     (1 << 6)  /* no PTL_EVENT_LINK */
#define PTL_ME_EVENT_COMM_DISABLE     (1 << 7)  /* no full events for messages; counting goes on */
#define PTL_ME_EVENT_FLOWCTRL_DISABLE (1 << 8)  /* no PTL_EVENT_PT_DISABLED */
#define PTL_ME_EVENT_SUCCESS_DISABLE  (1 << 9)  /* full events only for failures */
#define PTL_ME_EVENT_OVER_DISABLE     (1 << 10) /* no *_OVERFLOW events */
#define PTL_ME_EVENT_UNLINK_DISABLE   (1 << 11) /* no PTL_EVENT_AUTO_UNLINK, no PTL_EVENT_AUTO_FREE */
#define PTL_ME_EVENT_CT_COMM          (1 << 12) /* count messages that match it in its list */
#define PTL_ME_EVENT_CT_OVERFLOW      (1 << 13) /* count messages that it claims when appended */
#define PTL_ME_EVENT_CT_BYTES         (1 << 14) /* successes count bytes moved, failures 1 */

/* Options of match list entries only. */
#define PTL_ME_MANAGE_LOCAL           (1 << 15) /* pack messages one after the other; remote_offset is ignored */
#define PTL_ME_NO_TRUNCATE            (1 << 16) /* match only messages that fit */
#define PTL_ME_MAY_ALIGN              (1 << 17) /* hint: packing may leave gaps for alignment */
#define PTL_ME_LOCAL_INC_UH_RLENGTH   (1 << 18) /* claimed headers move the packing offset by their rlength */
#define PTL_ME_APPEND_OPTIONS_MASK    ((1 << 19) - 1) /* every option of the 4.3 reference */

#define PTL_LE_OP_PUT                 PTL_ME_OP_PUT
#define PTL_LE_OP_GET                 PTL_ME_OP_GET
#define PTL_LE_USE_ONCE               PTL_ME_USE_ONCE
#define PTL_LE_UNEXPECTED_HDR_DISABLE PTL_ME_UNEXPECTED_HDR_DISABLE
#define PTL_LE_IS_ACCESSIBLE          PTL_ME_IS_ACCESSIBLE
#define PTL_LE_EVENT_LINK_DISABLE     PTL_ME_EVENT_LINK_DISABLE
#define PTL_LE_EVENT_COMM_DISABLE     PTL_ME_EVENT_COMM_DISABLE
#define PTL_LE_EVENT_FLOWCTRL_DISABLE PTL_ME_EVENT_FLOWCTRL_DISABLE
#define PTL_LE_EVENT_SUCCESS_DISABLE  PTL_ME_EVENT_SUCCESS_DISABLE
#define PTL_LE_EVENT_OVER_DISABLE     PTL_ME_EVENT_OVER_DISABLE
#define PTL_LE_EVENT_UNLINK_DISABLE   PTL_ME_EVENT_UNLINK_DISABLE
#define PTL_LE_EVENT_CT_COMM          PTL_ME_EVENT_CT_COMM
#define PTL_LE_EVENT_CT_OVERFLOW      PTL_ME_EVENT_CT_OVERFLOW
#define PTL_LE_EVENT_CT_BYTES         PTL_ME_EVENT_CT_BYTES
#define PTL_LE_APPEND_OPTIONS_MASK    ((1 << 15) - 1) /* every option of the 4.3 reference */

/* Puts an entry at the end of a list. For the priority list, headers of earlier unexpected messages are searched
 * first: each one claimed gives an *_OVERFLOW event, and a USE_ONCE entry that claims one is never linked. An entry
 * that does get linked gives PTL_EVENT_LINK. user_ptr comes back in the entry's events.
 * PTL_ARG_INVALID, PTL_NO_SPACE, PTL_LIST_TOO_LONG. */
int PtlLEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le, ptl_list_t ptl_list,
                void *user_ptr, ptl_handle_le_t *le_handle);

/* Takes an entry out and frees it. PTL_ARG_INVALID also for one that has unlinked itself; PTL_IN_USE while a message
 * is being delivered to it or its unexpected headers are unclaimed: try again. */
int PtlLEUnlink(ptl_handle_le_t le_handle);

/* Searches the unexpected headers as PtlLEAppend would, but never links. The answer is an event: PTL_EVENT_SEARCH for
 * PTL_SEARCH_ONLY or when nothing is found (PTL_NI_NO_MATCH), the *_OVERFLOW kind for a header that
 * PTL_SEARCH_DELETE claimed. Status registers do not move. PTL_ARG_INVALID. */
int PtlLESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le, ptl_search_op_t ptl_search_op,
                void *user_ptr);

/* ---- Match list entries (clause: Matching List Entries and Matching Lists) -------------------------- */

/* PtlLEAppend with matching. PTL_ARG_INVALID, PTL_NO_SPACE, PTL_LIST_TOO_LONG. */
int PtlMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me, ptl_list_t ptl_list,
                void *user_ptr, ptl_handle_me_t *me_handle);

/* PtlLEUnlink for match list entries. PTL_ARG_INVALID, PTL_IN_USE. */
int PtlMEUnlink(ptl_handle_me_t me_handle);

/* PtlLESearch with matching. PTL_ARG_INVALID. */
int PtlMESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me, ptl_search_op_t ptl_search_op,
                void *user_ptr);

/* ---- Counting events (clause: Lightweight Counting Events) ------------------------------------------ */

/* The two halves of a counter, in events or in bytes, as the options of its descriptor or entry select. */
typedef struct {
    ptl_size_t success;
    ptl_size_t failure;
} ptl_ct_event_t;

/* Kinds of counter in older drafts; no function takes one. */
typedef enum {
    PTL_CT_OPERATION = 0,
    PTL_CT_BYTE      = 1
} ptl_ct_type_t;

/* Makes a counter at zero. PTL_ARG_INVALID, PTL_NO_SPACE. */
int PtlCTAlloc(ptl_handle_ni_t ni_handle, ptl_handle_ct_t *ct_handle);

/* Frees a counter that no entry, descriptor or triggered operation uses. Waits for it in other threads end with
 * PTL_INTERRUPTED before this returns. PTL_ARG_INVALID. */
int PtlCTFree(ptl_handle_ct_t ct_handle);

/* Discards every triggered operation that still waits on the counter; the counter keeps its value. PTL_ARG_INVALID. */
int PtlCTCancelTriggered(ptl_handle_ct_t ct_handle);

/* Reads a counter without waiting; the two halves may be from different moments. PTL_ARG_INVALID. */
int PtlCTGet(ptl_handle_ct_t ct_handle, ptl_ct_event_t *event);

/* Waits until success + failure >= test. PTL_ARG_INVALID, PTL_ABORTED, PTL_INTERRUPTED. */
int PtlCTWait(ptl_handle_ct_t ct_handle, ptl_size_t test, ptl_ct_event_t *event);

/* Waits up to timeout for one of size counters, all of one interface, to reach its own test; its index is stored in
 * *which. PTL_ARG_INVALID, PTL_CT_NONE_REACHED, PTL_ABORTED, PTL_INTERRUPTED. */
int PtlCTPoll(const ptl_handle_ct_t *ct_handles, const ptl_size_t *tests, unsigned int size, ptl_time_t timeout,
              ptl_ct_event_t *event, unsigned int *which);

/* Sets both halves in one step with respect to other changes, and fires operations that reach their threshold.
 * PTL_ARG_INVALID. */
int PtlCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct);

/* Adds to one half (the other must be 0) in one step with respect to other changes, and fires operations that
 * reach their threshold. PTL_ARG_INVALID. */
int PtlCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment);

/* ---- Data movement (clause: Data Movement Operations) ----------------------------------------------- */
/*
 * All of these start an operation and return. local_offset and length must lie within the descriptor. remote_offset
 * counts from the start of the matching entry, except where that entry packs messages (PTL_ME_MANAGE_LOCAL).
 * user_ptr comes back in initiator events, hdr_data in target events. match_bits is ignored without matching.
 * Events and counters, not the return code, report that a target refuses or has ended.
 */

/* Acknowledgement of a completed put or atomic. */
typedef unsigned char ptl_ack_req_t;
#define PTL_NO_ACK_REQ 0 /* nothing */
#define PTL_ACK_REQ    1 /* a full PTL_EVENT_ACK, which also counts */
#define PTL_CT_ACK_REQ 2 /* a count: of events, or of bytes moved */
#define PTL_OC_ACK_REQ 3 /* a count of one, whether or not the message was accepted */

/* Writes length bytes into the target's entry. Initiator events SEND (buffer free again) and ACK (delivered); target
 * event PUT or PUT_OVERFLOW. PTL_ARG_INVALID. */
int PtlPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
           ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
           void *user_ptr, ptl_hdr_data_t hdr_data);

/* Reads length bytes of the target's entry into the descriptor. Initiator event REPLY; target event GET or
 * GET_OVERFLOW. PTL_ARG_INVALID. */
int PtlGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_process_t target_id,
           ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr);

/* ---- Atomics (clause: Atomic Operations) ------------------------------------------------------------ */
/*
 * Each datatype item is updated atomically with respect to operations of the same datatype through the same interface;
 * an operation over several items may interleave with others between items. remote_offset must be aligned to the
 * datatype.
 */

/* Operation of an atomic: the new value of target, from origin (and operand). */
typedef unsigned char ptl_op_t;
#define PTL_MIN      0  /* the smaller */
#define PTL_MAX      1  /* the larger */
#define PTL_SUM      2  /* origin + target */
#define PTL_PROD     3  /* origin * target */
#define PTL_LOR      4  /* logical or: 0 or 1 */
#define PTL_LAND     5  /* logical and: 0 or 1 */
#define PTL_BOR      6  /* bitwise or */
#define PTL_BAND     7  /* bitwise and */
#define PTL_LXOR     8  /* logical exclusive or: 0 or 1 */
#define PTL_BXOR     9  /* bitwise exclusive or */
#define PTL_SWAP     10 /* origin */
#define PTL_CSWAP    11 /* origin if operand == target; one item, as all below */
#define PTL_CSWAP_NE 12 /* origin if operand != target */
#define PTL_CSWAP_LE 13 /* origin if operand <= target */
#define PTL_CSWAP_LT 14 /* origin if operand <  target */
#define PTL_CSWAP_GE 15 /* origin if operand >= target */
#define PTL_CSWAP_GT 16 /* origin if operand >  target */
#define PTL_MSWAP    17 /* origin in the bits that are 1 in operand, target in the others */
#define PTL_OP_LAST  18 /* number of operations */

/* Type of the items operated on. */
typedef unsigned char ptl_datatype_t;
#define PTL_INT8_T              0
#define PTL_UINT8_T             1
#define PTL_INT16_T             2
#define PTL_UINT16_T            3
#define PTL_INT32_T             4
#define PTL_UINT32_T            5
#define PTL_FLOAT               6  /* 4 bytes, IEEE binary32 */
#define PTL_INT64_T             7
#define PTL_UINT64_T            8
#define PTL_DOUBLE              9  /* 8 bytes, IEEE binary64 */
#define PTL_FLOAT_COMPLEX       10 /* two PTL_FLOAT */
#define PTL_DOUBLE_COMPLEX      11 /* two PTL_DOUBLE */
#define PTL_LONG_DOUBLE         12 /* the platform's long double */
#define PTL_LONG_DOUBLE_COMPLEX 13 /* two of them */
#define PTL_DATATYPE_LAST       14 /* number of datatypes */

/* Combines length bytes (up to max_atomic_size) of items into the target. Events as for PtlPut, with ATOMIC and
 * ATOMIC_OVERFLOW at the target. PTL_ARG_INVALID. */
int PtlAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
              ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
              void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype);

/* PtlAtomic that also returns the target's old items in the get descriptor (SEND on the put descriptor, REPLY on the get
 * one; FETCH_ATOMIC at the target, whose entry needs OP_PUT and OP_GET). Up to max_fetch_atomic_size bytes; the two
 * local ranges may not overlap. PTL_ARG_INVALID. */
int PtlFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
                   ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                   ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                   ptl_op_t operation, ptl_datatype_t datatype);

/* PtlFetchAtomic for PTL_SWAP and, with one item at operand, PTL_CSWAP* and PTL_MSWAP. PTL_ARG_INVALID. */
int PtlSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
            ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
            ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
            const void *operand, ptl_op_t operation, ptl_datatype_t datatype);

/* Called at a target: afterwards the program may change the items of earlier atomics, or use another datatype. */
int PtlAtomicSync(void);

/* ---- Full events (clause: Events and Event Queues) -------------------------------------------------- */

/* Kind of an event. "Claimed" is what PtlLEAppend and PtlMEAppend do to an unexpected header. */
typedef unsigned char ptl_event_kind_t;
#define PTL_EVENT_GET                   0  /* target: a get was answered */
#define PTL_EVENT_GET_OVERFLOW          1  /* target: an earlier get was claimed */
#define PTL_EVENT_PUT                   2  /* target: all bytes of a put have arrived */
#define PTL_EVENT_PUT_OVERFLOW          3  /* target: an earlier put was claimed; start is the address of its data */
#define PTL_EVENT_ATOMIC                4  /* target: an atomic is done */
#define PTL_EVENT_ATOMIC_OVERFLOW       5  /* target: an earlier atomic was claimed */
#define PTL_EVENT_FETCH_ATOMIC          6  /* target: a fetching atomic or swap is done */
#define PTL_EVENT_FETCH_ATOMIC_OVERFLOW 7  /* target: an earlier one was claimed */
#define PTL_EVENT_REPLY                 8  /* initiator: the answer is in memory */
#define PTL_EVENT_SEND                  9  /* initiator: the buffer may be used again */
#define PTL_EVENT_ACK                   10 /* initiator: delivered; implies that the buffer may be used again */
#define PTL_EVENT_PT_DISABLED           11 /* target: flow control closed the index */
#define PTL_EVENT_LINK                  12 /* target: the entry is in its list */
#define PTL_EVENT_AUTO_UNLINK           13 /* target: the entry left its list without PtlLEUnlink or PtlMEUnlink */
#define PTL_EVENT_AUTO_FREE             14 /* target: no event will point into this overflow entry any more */
#define PTL_EVENT_SEARCH                15 /* target: end of a search */

/* One event. Fields that its kind does not use are undefined: SEND has no mlength and remote_offset, and the atomic
 * fields belong to atomics. */
typedef struct {
    void            *start;            /* target: address of the message's data */
    void            *user_ptr;         /* of the operation (initiator) or of the append or search (target) */
    ptl_hdr_data_t   hdr_data;         /* target: sent with the message */
    ptl_match_bits_t match_bits;       /* target: sent with the message */
    ptl_size_t       rlength;          /* bytes asked for */
    ptl_size_t       mlength;          /* bytes moved; fewer than rlength if truncated */
    ptl_size_t       remote_offset;    /* initiator: offset used at the target; target: offset asked for */
    ptl_process_t    initiator;        /* target: the process that started it */
    ptl_uid_t        uid;              /* target: that process's user */
    ptl_pt_index_t   pt_index;         /* target: portal table index of the entry */
    ptl_event_kind_t type;             /* PTL_EVENT_* */
    ptl_list_t       ptl_list;         /* the list whose entry took the message */
    ptl_ni_fail_t    ni_fail_type;     /* PTL_NI_OK or the reason of the failure */
    ptl_op_t         atomic_operation; /* the operation, for atomics */
    ptl_datatype_t   atomic_type;      /* the type of its items, for atomics */
} ptl_event_t;

/* Makes a queue of at least count events. A full queue loses older events unless flow control is on.
 * PTL_ARG_INVALID, PTL_NO_SPACE. */
int PtlEQAlloc(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t *eq_handle);

/* Frees a queue that no descriptor and no portal table entry uses. Waits for it in other threads end with
 * PTL_INTERRUPTED before this returns. PTL_ARG_INVALID. */
int PtlEQFree(ptl_handle_eq_t eq_handle);

/* Takes the next event if there is one. PTL_EQ_EMPTY, PTL_EQ_DROPPED, PTL_ARG_INVALID. */
int PtlEQGet(ptl_handle_eq_t eq_handle, ptl_event_t *event);

/* Waits for the next event and takes it; one event wakes one thread. PTL_EQ_DROPPED, PTL_ARG_INVALID, PTL_ABORTED,
 * PTL_INTERRUPTED. */
int PtlEQWait(ptl_handle_eq_t eq_handle, ptl_event_t *event);

/* Takes the next event of any of size queues, all of one interface, waiting up to timeout; the queue's index is stored
 * in *which. PTL_EQ_EMPTY, PTL_EQ_DROPPED, PTL_ARG_INVALID, PTL_ABORTED, PTL_INTERRUPTED. */
int PtlEQPoll(const ptl_handle_eq_t *eq_handles, unsigned int size, ptl_time_t timeout, ptl_event_t *event,
              unsigned int *which);

/* ---- Triggered operations (clause: Triggered Operations) -------------------------------------------- */
/*
 * Each is the operation of its name, held at the initiator until success + failure of trig_ct_handle >= threshold,
 * which may hold already. It uses the memory as it is at that moment. Operations that become ready together start in
 * the order in which they were issued. PtlCTCancelTriggered discards those that still wait. All return PTL_ARG_INVALID
 * as their plain forms do, or PTL_NO_SPACE when max_triggered_ops already wait.
 */

int PtlTriggeredPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
                    ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                    ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, ptl_handle_ct_t trig_ct_handle,
                    ptl_size_t threshold);

int PtlTriggeredGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_process_t target_id,
                    ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                    ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);

int PtlTriggeredAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
                       ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                       ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation,
                       ptl_datatype_t datatype, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);

int PtlTriggeredFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
                            ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id,
                            ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                            void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                            ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);

/* operand is read when the operation is issued, not when it fires. */
int PtlTriggeredSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
                     ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                     ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                     const void *operand, ptl_op_t operation, ptl_datatype_t datatype, ptl_handle_ct_t trig_ct_handle,
                     ptl_size_t threshold);

/* Increments ct_handle when trig_ct_handle reaches the threshold: chains two counters. */
int PtlTriggeredCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment, ptl_handle_ct_t trig_ct_handle,
                      ptl_size_t threshold);

/* Sets ct_handle when trig_ct_handle reaches the threshold, for instance to reset it for the next round. */
int PtlTriggeredCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct, ptl_handle_ct_t trig_ct_handle,
                      ptl_size_t threshold);

/* From the reference implementation, not from the specification: append and unlink on a threshold. The entry is copied
 * from *me_init, and *me_handle_p written, when the call is made. */
int PtlTriggeredMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, ptl_me_t *me_init, ptl_list_t ptl_list,
                         void *user_ptr, ptl_handle_me_t *me_handle_p, ptl_handle_ct_t trig_ct_handle,
                         ptl_size_t threshold);

int PtlTriggeredMEUnlink(ptl_handle_me_t me_handle, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);

/* ---- Bundles (clause: Deferred Communication Operations) -------------------------------------------- */

/* Begins a burst of operations, which may be held back until the matching end. Nests. PTL_ARG_INVALID. */
int PtlStartBundle(ptl_handle_ni_t ni_handle);

/* Starts all operations that were held back, at every call. PTL_ARG_INVALID. */
int PtlEndBundle(ptl_handle_ni_t ni_handle);

/* ---- Handles (clause: Operations on Handles) -------------------------------------------------------- */

/* Non-zero when both name the same object. */
int PtlHandleIsEqual(ptl_handle_any_t handle1, ptl_handle_any_t handle2);

/* ---- Bit numbers ------------------------------------------------------------------------------------ */
/* Bit numbers of the options, under the names of the reference header. */

enum ni_types { NI_T_MATCHING = 0, NI_T_NMATCHING = 1, NI_T_LOGICAL = 2, NI_T_PHYSICAL = 3, NI_T_OPTIONS_MASK = 4 };

enum ni_features { NI_BIND_INACCESSIBLE = 0, NI_DATA_ORDERING = 1, NI_COHERENT_ATOMICS = 2, NI_OPTIONS_MASK = 3 };

enum pt_options {
    ONLY_USE_ONCE     = 0,
    FLOWCTRL          = 1,
    ONLY_TRUNCATE     = 2,
    MATCH_UNORDERED   = 3,
    PT_ALLOC_DISABLED = 4,
    PT_OPTIONS_MASK   = 5
};

enum md_options {
    MD_EVNT_CT_SEND         = 1,
    MD_EVNT_CT_REPLY        = 2,
    MD_EVNT_CT_ACK          = 3,
    MD_UNORDERED            = 4,
    MD_EVNT_SUCCESS_DISABLE = 5,
    MD_VOLATILE             = 6,
    MD_EVNT_SEND_DISABLE    = 7,
    MD_UNRELIABLE           = 8,
    MD_OPTIONS_MASK         = 9
};

enum mele_options {
    MELE_IOVEC                  = 0,
    MELE_OP_PUT                 = 1,
    MELE_OP_GET                 = 2,
    MELE_USE_ONCE               = 3,
    MELE_UNEXPECTED_HDR_DISABLE = 4,
    MELE_IS_ACCESSIBLE          = 5,
    MELE_EVNT_LINK_DISABLE      = 6,
    MELE_EVNT_COMM_DISABLE      = 7,
    MELE_EVNT_FLOWCTRL_DISABLE  = 8,
    MELE_EVNT_SUCCESS_DISABLE   = 9,
    MELE_EVNT_OVER_DISABLE      = 10,
    MELE_EVNT_UNLINK_DISABLE    = 11,
    MELE_EVNT_CT_COMM           = 12,
    MELE_EVNT_CT_OVERFLOW       = 13,
    MELE_EVNT_CT_BYTES          = 14,
    LE_OPTIONS_MASK             = 15
};

enum me_options {
    ME_MANAGE_LOCAL         = 15,
    ME_NO_TRUNCATE          = 16,
    ME_MAY_ALIGN            = 17,
    ME_LOCAL_INC_UH_RLENGTH = 18,
    ME_OPTIONS_MASK         = 19
};

/* ---- Selvedge: additions ---------------------------------------------------------------------------- */
/* Names that Open MPI uses. The reference had the code until 2023, as 8, and the option until 2024, as 1 << 4. Here they
 * have numbers that the reference does not use. */

#define PTL_INTERRUPTED    16        /* the interface was closed, or the counter or queue freed, during the wait */
#define PTL_ME_ACK_DISABLE (1 << 19) /* the entry sends no acknowledgements; outside PTL_ME_APPEND_OPTIONS_MASK */
#define PTL_LE_ACK_DISABLE PTL_ME_ACK_DISABLE

#ifdef __cplusplus
}
#endif

#endif /* PORTALS4_H */
