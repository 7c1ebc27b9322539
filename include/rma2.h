/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * librma2: puts, gets, locks and notifications through the RMA unit (seed 002, sections 7.5 and 8.4). Names and values are those of the
 * later public generation.
 *
 * A port is a virtual process id (VPID) of this node. Memory is registered with a port, and is then addressed by network logical addresses
 * (NLAs). Commands are posted to a connection, and return at once. A notification reports that a command, or a part of it, is done. A
 * refused command leaves an error notification at the port that posted it, whatever notifications it asked for.
 *
 * One thread at a time may use a port. Functions return RMA2_SUCCESS or an error unless stated otherwise.
 */
#ifndef RMA2_H
#define RMA2_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    RMA2_SUCCESS = 0,
    RMA2_ERR_ERROR = -1,           /* the library failed; its log has the reason */
    RMA2_ERR_INV_HANDLE = -2,      /* not a connection */
    RMA2_ERR_INV_PORT = -3,        /* not an open port */
    RMA2_ERR_INV_VALUE = -4,       /* an argument is out of range */
    RMA2_ERR_NO_ROUTE = -5,        /* no such node or port */
    RMA2_ERR_PORTS_USED = -6,      /* all ports of the node are open */
    RMA2_ERR_NO_MEM = -7,          /* the memory is not mapped, or the address tables are full */
    RMA2_NO_NOTI = -9,             /* no notification has arrived */
    RMA2_ERR_POLL_EXCEEDED = -10,  /* the wait was aborted */
    RMA2_ERR_WRONG_ARG = -11,      /* a pointer is NULL */
    RMA2_ERR_NOT_YET = -12,        /* this NIC does not have the feature */
    RMA2_ERR_NO_DESC_MEM = -13,    /* no room for the command, or no free descriptor; try again */
    RMA2_ERR_NO_MATCH = -15,       /* notifications have arrived, and none matches */
    RMA2_ERR_WRONG_CMD = -16,      /* the descriptor holds no command */
    RMA2_ERR_NO_DEVICE = -17,      /* the process could not join a job */
    RMA2_ERR_NO_CONNECT = -18,     /* the connection is closed */
    RMA2_ERR_INVALID_VERSION = -22,
    RMA2_ERR_IOCTL = -23,
    RMA2_ERR_MMAP = -24,           /* no memory for the node's tables */
    RMA2_ERR_FD = -25,
    RMA2_ERR_MAP = -26,            /* no memory for a region's record */
    RMA2_ERR_DOUBLE_MAP = 27,
    RMA2_ERR_NO_TABLE = 28,        /* the region is not registered */
    RMA2_ERR_NOT_FREE = 29,        /* the region is in use */
    RMA2_ERR_PART = 30,            /* the range is not within the region */
    RMA2_ERR_ATU = 31,
    RMA2_ERR_MLOCKLIMIT = 32
} RMA2_ERROR;

typedef uint16_t RMA2_Nodeid;
typedef uint16_t RMA2_VPID;
typedef uint64_t RMA2_NLA;
typedef uint8_t RMA2_Class;

/* Units that write a notification; in a notification, the unit that wrote it. They may be or'ed. */
typedef enum {
    RMA2_NO_NOTIFICATION = 0,
    RMA2_REQUESTER_NOTIFICATION = 1, /* at the initiator: the command has left, its buffer is free again */
    RMA2_RESPONDER_NOTIFICATION = 2, /* at the target of a get or a lock: it was answered */
    RMA2_COMPLETER_NOTIFICATION = 4, /* at the target of a put, or at the initiator of a get or a lock: the data have arrived */
    RMA2_REQCOMPL_NOTIFICATION = 5,
    RMA2_RESPCOMPL_NOTIFICATION = 6,
    RMA2_ALL_NOTIFICATIONS = 7
} RMA2_Notification_Spec;

/* Options of a connection. */
typedef enum {
    RMA2_CONN_PHYSICAL = 0, /* physical addresses; only for ports that have the right, otherwise addresses are translated */
    RMA2_CONN_TC0 = 0,      /* traffic classes */
    RMA2_CONN_TC1 = 1,
    RMA2_CONN_TC2 = 2,
    RMA2_CONN_TC3 = 3,
    RMA2_CONN_RRA = 4,      /* remote register access */
    RMA2_CONN_IRQ = 8,      /* notifications raise interrupts */
    RMA2_CONN_TE = 16,      /* addresses are NLAs */
    RMA2_CONN_DEFAULT = 16
} RMA2_Connection_Options;

/* Commands, as descriptors and notifications name them. PUTS, GETS and ANY are for matching. */
typedef enum {
    RMA2_BT_GET = 0,
    RMA2_QW_GET = 1,
    RMA2_BT_PUT = 2,
    RMA2_QW_PUT = 3,
    RMA2_LOCK = 4,
    RMA2_NOTIFICATION_PUT = 5,
    RMA2_IMMEDIATE_PUT = 6,
    RMA2_PUTS = 7,
    RMA2_GET_BT_RSP = 10,
    RMA2_GET_QW_RSP = 11,
    RMA2_LOCK_REQ = 12,
    RMA2_LOCK_RSP = 13,
    RMA2_GETS = 14,
    RMA2_ANY = 15
} RMA2_Command;

typedef enum {
    RMA2_CMD_DEFAULT = 0,
    RMA2_CMD_MC = 1,  /* multicast: refused, no port has the right */
    RMA2_CMD_NTR = 2, /* a command that is split writes notifications for each piece */
    RMA2_CMD_ERA = 4, /* memory of an accelerator: refused, not supported */
    RMA2_CMD_EWA = 8
} RMA2_Command_Modifier;

/* Mode of a command in a notification. */
typedef enum {
    RMA2_NOTI_RRA = 1,
    RMA2_NOTI_IRQ = 2,
    RMA2_NOTI_TE = 4,
    RMA2_NOTI_EWA = 8,
    RMA2_NOTI_NTR = 16,
    RMA2_NOTI_ERA = 32
} RMA2_Notification_Modifier;

/* Unit that refused a command. */
typedef enum {
    RMA2_ERROR_REQ = 1,  /* the initiator: its address, or the command itself */
    RMA2_ERROR_RESP = 2, /* the target of a get or a lock */
    RMA2_ERROR_CMPL = 4  /* the target of a put */
} RMA2_Notification_Error;

/* Time at which commands that were not accepted are sent again. Here every command is accepted or refused at once. */
typedef enum {
    RMA2_REPLAY_MANUAL = 0,
    RMA2_REPLAY_POST = 1,
    RMA2_REPLAY_NOTI = 2,
    RMA2_REPLAY_CLOSE = 4,
    RMA2_REPLAY_ALL = 7
} RMA2_Replay_Buffer_Mode;

/* A notification: two words, read by the functions rma2_noti_get_*. */
typedef struct {
    union {
        uint64_t value;
    } word0;
    union {
        uint64_t value;
    } word1;
} RMA2_Notification;

/* An open port. */
typedef struct rma2_endpoint RMA2_Endpoint;
typedef RMA2_Endpoint *RMA2_Port;
/* A connection of a port to another port. */
typedef struct rma2_connection RMA2_Connection;
typedef RMA2_Connection *RMA2_Handle;

typedef struct rma2_list_head {
    struct rma2_list_head *next, *prev;
} rma2_list_head_t;

/* Registered memory. Programs only read this record. */
typedef struct rma2_region {
    rma2_list_head_t list;
    void *start;       /* the first page */
    unsigned long nla; /* of the first page; a region's NLAs are contiguous */
    uint32_t count;    /* pages */
    uint32_t offset;   /* of the registered address in the first page */
    void *end;         /* behind the last page */
    size_t size;       /* of all pages, in bytes */
    uint64_t refcount; /* uses of a cached region */
    void *endpoint;
    struct rma2_region *parent;
} RMA2_Region;

/* A command built by the program. `value` holds the words that the requester reads. */
typedef struct {
    rma2_list_head_t list;
    RMA2_Handle handle;
    uint64_t reserved0;
    uint64_t value[3];
    uint64_t reserved1;
} RMA2_Descriptor;

/* Wildcards and flags of the matching functions. */
extern const RMA2_Class RMA2_CLASS_ANY;
extern const RMA2_Nodeid RMA2_NODEID_ANY;
extern const RMA2_VPID RMA2_VPID_ANY;
extern const uint32_t RMA2_LOCK_ANY;
extern const RMA2_NLA RMA2_ANY_NLA;
extern const uint32_t RMA2_DEFAULT_FLAG;
extern const uint32_t RMA2_BLOCK_FLAG;          /* wait */
extern const uint32_t RMA2_MATCH_LAST_NLA_FLAG; /* the NLA is the one behind the transfer */

/* ---- ports and connections ---- */

RMA2_ERROR rma2_open(RMA2_Port *port);
/* Closes a port. Its regions are unregistered and its connections closed. */
RMA2_ERROR rma2_close(RMA2_Port port);
/* Connects a port to a port of a node, which need not be open yet. */
RMA2_ERROR rma2_connect(RMA2_Port port, RMA2_Nodeid node, RMA2_VPID vpid, RMA2_Connection_Options options, RMA2_Handle *handle);
RMA2_ERROR rma2_disconnect(RMA2_Port port, RMA2_Handle handle);
RMA2_Nodeid rma2_handle_get_node(RMA2_Handle handle);
RMA2_VPID rma2_handle_get_vpid(RMA2_Handle handle);

/* ---- commands ---- */

/*
 * Puts and gets of bytes (bt) and of quadwords (qw: addresses and sizes are multiples of 8). `size` is in bytes, from 1. A put reads from
 * the region, a get writes to it; the NLA is that of the other side.
 */
RMA2_ERROR rma2_post_put_bt(RMA2_Port port, RMA2_Handle handle, RMA2_Region *src_region, uint32_t src_offset, uint32_t size,
                            RMA2_NLA dest_address, RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_put_qw(RMA2_Port port, RMA2_Handle handle, RMA2_Region *src_region, uint32_t src_offset, uint32_t size,
                            RMA2_NLA dest_address, RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_bt(RMA2_Port port, RMA2_Handle handle, RMA2_Region *dest_region, uint32_t dest_offset, uint32_t size,
                            RMA2_NLA src_address, RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_qw(RMA2_Port port, RMA2_Handle handle, RMA2_Region *dest_region, uint32_t dest_offset, uint32_t size,
                            RMA2_NLA src_address, RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
/* Puts and gets with NLAs on both sides: first the local one, then the remote one. */
RMA2_ERROR rma2_post_put_bt_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA src, uint32_t size, RMA2_NLA dest_address,
                                   RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_put_qw_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA src, uint32_t size, RMA2_NLA dest_address,
                                   RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_bt_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA dest, uint32_t size, RMA2_NLA src_address,
                                   RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
RMA2_ERROR rma2_post_get_qw_direct(RMA2_Port port, RMA2_Handle handle, RMA2_NLA dest, uint32_t size, RMA2_NLA src_address,
                                   RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
/*
 * Fetch, compare and add on lock 0 to 1023 of the destination: if the lock is at most `cmp_value`, `add_value` is added. The notification
 * has the new value and success, or the old value and no success. Where NICs keep requests (SELVEDGE_LOCK_WAITERS), the answer may come
 * later, with success; a request that finds no room fails at once, so try again.
 */
RMA2_ERROR rma2_post_lock(RMA2_Port port, RMA2_Handle handle, uint32_t target, uint32_t lock_number, int32_t cmp_value, int32_t add_value,
                          RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);
/* Writes a notification at the destination with a value and a class. Classes 254 and 255 are reserved. */
RMA2_ERROR rma2_post_notification(RMA2_Port port, RMA2_Handle handle, RMA2_Class mclass, uint64_t value, RMA2_Notification_Spec spec,
                                  RMA2_Command_Modifier modifier);
/* Puts the first `count` bytes of `value`, 1 to 8. */
RMA2_ERROR rma2_post_immediate_put(RMA2_Port port, RMA2_Handle handle, uint32_t count, uint64_t value, RMA2_NLA dest_address,
                                   RMA2_Notification_Spec spec, RMA2_Command_Modifier modifier);

/* ---- descriptors ---- */

RMA2_ERROR rma2_desc_alloc(RMA2_Port port, RMA2_Descriptor **desc);
RMA2_ERROR rma2_desc_free(RMA2_Port port, RMA2_Descriptor *desc);
/* Number of descriptors that can still be allocated. */
RMA2_ERROR rma2_desc_query_free(RMA2_Port port, int *num);
RMA2_ERROR rma2_desc_set_put_get(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Command command, uint32_t count,
                                 RMA2_Notification_Spec noti, RMA2_Command_Modifier modifier, uint64_t read_address,
                                 uint64_t write_address);
RMA2_ERROR rma2_desc_set_immediate_put(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Notification_Spec noti,
                                       RMA2_Command_Modifier modifier, uint32_t count, uint64_t write_address, uint64_t value);
RMA2_ERROR rma2_desc_set_noti_put(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Notification_Spec noti, RMA2_Command_Modifier modifier,
                                  RMA2_Class mclass, uint64_t value);
RMA2_ERROR rma2_desc_set_lock(RMA2_Descriptor *desc, RMA2_Handle handle, RMA2_Notification_Spec noti, RMA2_Command_Modifier modifier,
                              uint8_t type, uint32_t lock_number, uint32_t compare, uint32_t add_value);
/* Changes the class and the value of a notification put. */
RMA2_ERROR rma2_desc_set_notification_value(RMA2_Descriptor *desc, RMA2_Class mclass, uint64_t value);
RMA2_ERROR rma2_post_descriptor(RMA2_Port port, RMA2_Handle handle, RMA2_Descriptor *desc);

/* ---- notifications ---- */

/*
 * Return the oldest notification, or the oldest that matches. It stays until rma2_noti_free; until then these functions return it again.
 * RMA2_NO_NOTI: none has arrived. RMA2_ERR_NO_MATCH: none of those that have arrived matches. The forms with `block` wait.
 */
RMA2_ERROR rma2_noti_probe(RMA2_Port port, RMA2_Notification **notification);
RMA2_ERROR rma2_noti_get_block(RMA2_Port port, RMA2_Notification **notification);
RMA2_ERROR rma2_noti_match(RMA2_Port port, RMA2_Command cmd, RMA2_Nodeid nodeid, RMA2_VPID vpid, RMA2_Notification_Spec type, RMA2_NLA nla,
                           int flags, RMA2_Notification **notification);
RMA2_ERROR rma2_noti_match_block(RMA2_Port port, RMA2_Command cmd, RMA2_Nodeid nodeid, RMA2_VPID vpid, RMA2_Notification_Spec type,
                                 RMA2_NLA nla, int flags, RMA2_Notification **notification);
/* Match completer notifications of notification puts. */
RMA2_ERROR rma2_noti_noti_match(RMA2_Port port, RMA2_Class mclass, RMA2_Nodeid nodeid, RMA2_VPID vpid, RMA2_Notification **notification);
RMA2_ERROR rma2_noti_noti_match_block(RMA2_Port port, RMA2_Class mclass, RMA2_Nodeid nodeid, RMA2_VPID vpid,
                                      RMA2_Notification **notification);
/* Match notifications of lock requests and their responses. */
RMA2_ERROR rma2_noti_lock_match(RMA2_Port port, uint32_t lockid, RMA2_Nodeid nodeid, RMA2_VPID vpid, RMA2_Notification **notification);
RMA2_ERROR rma2_noti_lock_match_block(RMA2_Port port, uint32_t lockid, RMA2_Nodeid nodeid, RMA2_VPID vpid,
                                      RMA2_Notification **notification);
RMA2_ERROR rma2_noti_dup(RMA2_Notification *input, RMA2_Notification *output);
void rma2_noti_dump(RMA2_Notification *noti);
void rma2_noti_fdump(RMA2_Notification *noti, FILE *file);
void rma2_noti_sdump(RMA2_Notification *noti, char *text, int size);
RMA2_ERROR rma2_noti_free(RMA2_Port port, RMA2_Notification *notification);

RMA2_Command rma2_noti_get_cmd(RMA2_Notification *noti);
RMA2_Notification_Spec rma2_noti_get_notification_type(RMA2_Notification *noti);
RMA2_Notification_Modifier rma2_noti_get_mode(RMA2_Notification *noti);
uint8_t rma2_noti_get_error(RMA2_Notification *noti);
RMA2_Nodeid rma2_noti_get_remote_nodeid(RMA2_Notification *noti);
RMA2_VPID rma2_noti_get_remote_vpid(RMA2_Notification *noti);
uint64_t rma2_noti_get_local_address(RMA2_Notification *noti);
/* Bytes of the transfer. */
uint32_t rma2_noti_get_size(RMA2_Notification *noti);
/* Bytes from an address to the end of the transfer. */
uint32_t rma2_noti_get_total_size(RMA2_NLA start_nla, RMA2_Notification *noti);
uint32_t rma2_noti_get_lock_value(RMA2_Notification *noti);
uint32_t rma2_noti_get_lock_number(RMA2_Notification *noti);
uint8_t rma2_noti_get_lock_result(RMA2_Notification *noti);
uint64_t rma2_noti_get_notiput_payload(RMA2_Notification *noti);
uint8_t rma2_noti_get_notiput_class(RMA2_Notification *noti);

/* ---- memory ---- */

RMA2_ERROR rma2_register(RMA2_Port port, void *address, size_t size, RMA2_Region **region);
RMA2_ERROR rma2_unregister(RMA2_Port port, RMA2_Region *region);
/* Register and unregister with a record that the program provides. */
RMA2_ERROR rma2_register_nomalloc(RMA2_Port port, void *address, size_t size, RMA2_Region *region);
RMA2_ERROR rma2_unregister_nofree(RMA2_Port port, RMA2_Region *region);
/* Register and unregister with a cache: a region that holds the range is used again, and stays registered for later uses. */
RMA2_ERROR rma2_register_cached(RMA2_Port port, void *address, size_t size, RMA2_Region **region);
RMA2_ERROR rma2_unregister_cached(RMA2_Port port, RMA2_Region *region);
/* Register and unregister one page, for local use. */
RMA2_ERROR rma2_register_adhoc(RMA2_Port port, void *address, RMA2_Region **region);
RMA2_ERROR rma2_unregister_adhoc(RMA2_Port port, RMA2_Region *region);
/* NLA, and address, of a byte of the registered range. */
RMA2_ERROR rma2_get_nla(RMA2_Region *region, size_t offset, RMA2_NLA *nla);
RMA2_ERROR rma2_get_va(RMA2_Region *region, size_t offset, void **va);
RMA2_ERROR rma2_get_size(RMA2_Region *region, size_t *size);
RMA2_ERROR rma2_get_page_count(RMA2_Region *region, size_t *count);
/* Return 1 if the range lies in the region, overlaps it, or equals it; else 0. */
int rma2_get_region_contained(RMA2_Region *region, void *start, size_t size);
int rma2_get_region_overlap(RMA2_Region *region, void *start, size_t size);
int rma2_get_region_equal(RMA2_Region *region, void *start, size_t size);

/* ---- the rest ---- */

void rma2_serror(RMA2_ERROR error, char *buf, int buflen);
void rma2_perror(RMA2_ERROR error, char *header);
RMA2_Nodeid rma2_get_nodeid(RMA2_Port port);
RMA2_VPID rma2_get_vpid(RMA2_Port port);
/* Number of nodes, and number of ports of each node. */
RMA2_Nodeid rma2_get_node_num(RMA2_Port port);
RMA2_VPID rma2_get_proc_num(RMA2_Port port);
RMA2_ERROR rma2_request_interrupt(RMA2_Port port, RMA2_Handle handle);
uint32_t rma2_get_interrupt(RMA2_Port port, RMA2_Handle handle);
RMA2_ERROR rma2_request_rra(RMA2_Port port, RMA2_Handle handle);
uint32_t rma2_get_rra(RMA2_Port port, RMA2_Handle handle);
RMA2_ERROR rma2_request_physical_access(RMA2_Port port, RMA2_Handle handle);
uint32_t rma2_get_physical_access(RMA2_Port port, RMA2_Handle handle);
RMA2_ERROR rma2_request_tcs(RMA2_Port port, RMA2_Handle handle, uint32_t request_tc, uint32_t response_tc);
RMA2_ERROR rma2_get_tcs(RMA2_Port port, RMA2_Handle handle, uint32_t *request_tc, uint32_t *response_tc);
RMA2_ERROR rma2_set_protectionid(RMA2_Port port, uint16_t id);
/* Length of the notification queue in bytes. It is fixed when the node is made, and cannot grow. */
uint32_t rma2_get_queue_size(RMA2_Port port);
RMA2_ERROR rma2_set_queue_size(RMA2_Port port, uint32_t bytes);
uint32_t rma2_get_queue_segment_size(RMA2_Port port);
RMA2_ERROR rma2_set_queue_segment_size(RMA2_Port port, uint32_t size);
void rma2_replay_buffer_drain(RMA2_Port port);
void rma2_set_replay_mode(RMA2_Port port, RMA2_Replay_Buffer_Mode mode);
RMA2_Replay_Buffer_Mode rma2_get_replay_buffer_mode(RMA2_Port port);

#ifdef __cplusplus
}
#endif
#endif
