/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libvelo2: small messages through the VELO unit (seed 002, sections 7.4 and 8.3).
 *
 * A port has a mailbox, which other ports fill. A message has 1 to VELO2_MTU bytes, a tag of 8 bits and a type of 2 bits. Messages from
 * one port to another arrive in order. When a mailbox is full, velo2_send waits for room, and nothing is lost.
 *
 * One thread at a time may use a port.
 */
#ifndef VELO2_H
#define VELO2_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Longest message in bytes. */
#define VELO2_MTU 120

typedef uint32_t velo2_nodeid_t;
typedef uint32_t velo2_vpid_t;
typedef uint8_t velo2_tag_t;
typedef uint8_t velo2_mtt_t;

/* Id of a port, as receives return it: node in bits 15:0, VPID in bits 31:16. */
#define VELO2_ADDR_PACK(nodeid, vpid) ((uint32_t)(((uint32_t)(vpid) << 16) | ((uint32_t)(nodeid) & 0xffffu)))
#define VELO2_ADDR_NODEID(id) ((velo2_nodeid_t)((id) & 0xffffu))
#define VELO2_ADDR_VPID(id) ((velo2_vpid_t)((id) >> 16))

/* Wildcards of velo2_match_recv. */
#define VELO2_ANY_SOURCE 0xffffffffu
#define VELO2_ANY_TAG 0x100u
#define VELO2_ANY_MTT 0x100u

typedef enum velo2_ret {
    VELO2_RET_SUCCESS = 0,
    VELO2_RET_ERROR,        /* the library failed; its log has the reason */
    VELO2_RET_INV_MSG,      /* the message is too long, or missing */
    VELO2_RET_NO_MSG,       /* the mailbox is empty */
    VELO2_RET_NO_MATCH,     /* no message in the mailbox matches */
    VELO2_RET_ERR_FDOPEN,   /* the process could not join a job */
    VELO2_RET_ERR_MMAP,     /* no memory for the node's tables */
    VELO2_RET_INVALID_MBOX, /* the port is not open, or all ports are in use */
    VELO2_RET_INVALID_NODE, /* no such node */
    VELO2_RET_TRY_AGAIN,    /* the mailbox of the destination is full */
    VELO2_RET_INV_MTT       /* the message type is above 3 */
} velo2_ret_t;

/* A port. `map` is not NULL while it is open. */
typedef struct velo2_port {
    void *map;
    uint32_t nodeid;
    uint32_t vpid;
} velo2_port_t;

/* A connection of a port to another port. Making it exchanges no message. */
typedef struct velo2_connection {
    union {
        uint64_t raw;
        struct {
            uint16_t nodeid;
            uint16_t vpid;
            uint32_t valid;
        } id;
    } dest;
    void *state_map;
} velo2_connection_t;

/* Opens a free port of this node. */
velo2_ret_t velo2_open(velo2_port_t *port);
/* Opens the port with this VPID. */
velo2_ret_t velo2_open_vpid(velo2_port_t *port, velo2_vpid_t vpid);
/* Closes a port. Messages in its mailbox are lost; later ones are discarded. */
velo2_ret_t velo2_close(velo2_port_t *port);

/* Connects a port to a port of a node, which need not be open yet. */
velo2_ret_t velo2_connect(velo2_port_t *port, velo2_connection_t *connection, velo2_nodeid_t nodeid, velo2_vpid_t vpid);
velo2_ret_t velo2_disconnect(velo2_port_t *port, velo2_connection_t *connection);

/*
 * Sends `length` bytes, 1 to VELO2_MTU. The buffer is free again when it returns. While the destination's mailbox is full, it waits up to
 * one second and takes in messages to its own port; then it returns VELO2_RET_TRY_AGAIN and has sent nothing.
 */
velo2_ret_t velo2_send(velo2_connection_t *connection, const void *buffer, unsigned length, uint8_t tag, unsigned mtt);

/*
 * Receives the oldest message, without waiting. Copies at most `max` bytes; `length` is the length of the whole message in bytes.
 * A longer message is cut. Outputs may be NULL.
 */
velo2_ret_t velo2_probe_recv(velo2_port_t *port, void *buffer, unsigned max, uint32_t *length, uint32_t *srcid, uint8_t *tag,
                             uint8_t *mtt);
/* velo2_probe_recv that waits for a message. */
velo2_ret_t velo2_recv(velo2_port_t *port, void *buffer, unsigned max, uint32_t *length, uint32_t *srcid, uint8_t *tag, uint8_t *mtt);
/*
 * Receives the oldest message from `srcid` with this tag and type, each of which may be a wildcard. Messages before it stay, in order.
 * VELO2_RET_NO_MSG: the mailbox is empty; VELO2_RET_NO_MATCH: no message matches.
 */
velo2_ret_t velo2_match_recv(velo2_port_t *port, uint32_t srcid, unsigned tag, unsigned mtt, void *buffer, unsigned max,
                             uint32_t *length, uint32_t *from);
/* Tests for a message: VELO2_RET_SUCCESS or VELO2_RET_NO_MSG. */
velo2_ret_t velo2_check(velo2_port_t *port);

velo2_nodeid_t velo2_get_nodeid(velo2_port_t *port);
velo2_vpid_t velo2_get_vpid(velo2_port_t *port);
/* Number of nodes, and number of ports of each node. */
uint32_t velo2_get_node_num(velo2_port_t *port);
uint32_t velo2_get_proc_num(velo2_port_t *port);
/* Number of slots of the mailbox. A slot has 56 bytes of a message. */
uint32_t velo2_get_mailbox_slots(velo2_port_t *port);
/* Describes a return value in words. */
const char *velo2_strerror(velo2_ret_t code);

#ifdef __cplusplus
}
#endif
#endif
