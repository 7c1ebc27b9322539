/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libatoll: PALMS, the message passing library of ATOLL, release 2.1 (seed 002, section 2.2), over EXTOLL's VELO and RMA units.
 *
 * A node is a process with ATOLL_HOSTPORTS Hostports. A program opens a Hostport, connects it to Hostports of its peers, and sends
 * messages through these virtual connections. A message has a header, data, and a tag of 32 bits. A connection keeps messages in order.
 *
 * The seed names the types, atoll_open, atoll_close, atoll_connect, atoll_disconnect, atoll_send_malloc, atoll_copy_h, atoll_copy,
 * atoll_cpyv, atoll_send_commit, atoll_send, atoll_multicast and atoll_fast_send, and describes the other functions without names.
 * This library adds, in the seed's style, the missing names, all parameters, the error codes and the values of constants.
 *
 * Sizes. Messages travel in words of 64 bits: a header or data of another size is padded with zeroes. Sends and receive buffers may
 * have any size, but receives report sizes rounded up to whole words.
 *
 * Waiting. A connection has room for messages at its peer: 512 KiB between few nodes, less in large jobs. When it is full, sends and
 * commits wait until the peer receives. Meanwhile they take in up to 64 MiB of arriving messages. Nothing is discarded.
 *
 * Progress. The library works only inside its calls. A message that a send or commit accepted needs no later call of its sender.
 *
 * Arguments. PALMS tested almost none. Here a call that would corrupt memory or hang returns an error code and does nothing else.
 * Pointers must be valid or NULL.
 *
 * Threads. One thread at a time uses a port, its connections and its descriptors.
 */
#ifndef ATOLL_H
#define ATOLL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATOLL_HOSTPORTS 4
#define ATOLL_LINKS 4

/* A Hostport that this process has opened. NULL: no port. */
typedef struct atoll_port *Atoll_Port;
/* A virtual connection of a port, in place of a routing string's offset. 0: no connection. */
typedef uint32_t Atoll_Handle;
/* Id of any node's Hostport: node in bits 15:0, number of the Hostport in bits 31:16. A node's number is the id of its first Hostport. */
typedef uint32_t Atoll_Id;
/* A message of a port: under construction, or matched. */
typedef struct atoll_descriptor *Atoll_Descriptor;

#define ATOLL_ID(node, hostport) ((Atoll_Id)(((uint32_t)(hostport) << 16) | ((uint32_t)(node) & 0xffffu)))
#define ATOLL_ID_NODE(id) ((id) & 0xffffu)
#define ATOLL_ID_HOSTPORT(id) ((id) >> 16)
/* For receives: any peer. */
#define ATOLL_ANY ((Atoll_Id)0xffffffffu)
/* In the list of neighbours: no neighbour. */
#define ATOLL_NO_ID ((Atoll_Id)0xfffffffeu)

/* Return values. */
enum {
    ATOLL_SUCCESS = 0,
    ATOLL_ERR,               /* the library failed; its log has the reason */
    ATOLL_ERR_PORT,          /* the port is not open */
    ATOLL_ERR_NO_PORT,       /* all Hostports of the node are in use, or the number is out of range */
    ATOLL_ERR_JOB,           /* the process could not join a job */
    ATOLL_ERR_MEMORY,        /* no memory for the port; the log names the setting */
    ATOLL_ERR_ID,            /* no such node or Hostport */
    ATOLL_ERR_NOT_AVAILABLE, /* the peer has not opened its Hostport */
    ATOLL_ERR_NO_ROUTE,      /* all virtual connections are in use, here or at the peer */
    ATOLL_ERR_HANDLE,        /* the handle is not a connection of the port */
    ATOLL_ERR_ROUTE,         /* the route is no longer valid: disconnect, and connect again. The peer has closed its Hostport; or the
                                daemon of the fabric has withdrawn the route, because the host is unreachable or the way has changed */
    ATOLL_ERR_DESCRIPTOR,    /* the descriptor is not a message of the port, or is of the other kind */
    ATOLL_ERR_SIZE,          /* the size exceeds the message's room or the limit */
    ATOLL_ERR_NO_SPACE,      /* the send area is full; try again after messages have left, were committed or freed */
    ATOLL_ERR_NO_MESSAGE,    /* no matching message has arrived */
    ATOLL_ERR_NOT_FAST,      /* the next message has a header or data; it stays queued */
    ATOLL_ERR_HELD,          /* matched messages hold all the room of this peer: free one */
    ATOLL_ERR_POINTER,       /* a pointer is NULL */
    ATOLL_ERR_LOST           /* messages that were sent could not leave, and are lost */
};

/* ---- ports and connections ---- */

/* Opens the lowest free Hostport of this node. */
int atoll_open(Atoll_Port *port);
/* Opens the Hostport with this number. */
int atoll_open_hostport(Atoll_Port *port, unsigned number);
/*
 * Closes a port. Messages not yet received are lost. Peers that send to it later get ATOLL_ERR_ROUTE. ATOLL_ERR_LOST: messages to a peer
 * were still under way after ten seconds.
 */
int atoll_close(Atoll_Port port);

/*
 * Connects to a peer's Hostport. The peer must have opened it, and need not call the library meanwhile. The call waits up to two seconds
 * for the Hostport, then returns ATOLL_ERR_NOT_AVAILABLE. A port may have several connections to one peer; they share room and order.
 */
int atoll_connect(Atoll_Port port, Atoll_Id peer, Atoll_Handle *handle);
/* Ends a connection. Messages already sent still arrive. */
int atoll_disconnect(Atoll_Port port, Atoll_Handle handle);

/* ---- complete sends ---- */

/*
 * Sends a message of up to 2 GiB of header and 2 GiB of data. Either may be empty, with a NULL pointer. The buffers are free again when
 * it returns.
 */
int atoll_send(Atoll_Port port, Atoll_Handle handle, const void *header, size_t header_bytes, const void *data, size_t data_bytes,
               uint32_t tag);
/*
 * Sends a message through each of `count` connections. If one fails, the others still get the message, and the call returns the error. If
 * a handle is invalid, nothing is sent.
 */
int atoll_multicast(Atoll_Port port, const Atoll_Handle *handles, unsigned count, const void *header, size_t header_bytes, const void *data,
                    size_t data_bytes, uint32_t tag);
/* Sends a message that consists of its tag. */
int atoll_fast_send(Atoll_Port port, Atoll_Handle handle, uint32_t operand);

/* ---- building blocks to send ---- */

/*
 * Allocates a message of these sizes in the send area, together up to atoll_resources' build_bytes_max. Copy the header and the data, the
 * data in one or more parts; set the handle; commit. Bytes that are not copied are zero.
 */
int atoll_send_malloc(Atoll_Port port, size_t header_bytes, size_t data_bytes, Atoll_Descriptor *descriptor);
int atoll_copy_h(Atoll_Port port, Atoll_Descriptor descriptor, const void *header, size_t bytes);
/* Appends data to the data copied before. */
int atoll_copy(Atoll_Port port, Atoll_Descriptor descriptor, const void *data, size_t bytes);
/* Appends `count` parts in order. If they do not all fit, none is copied. */
int atoll_cpyv(Atoll_Port port, Atoll_Descriptor descriptor, const struct iovec *parts, int count);
/*
 * Sends the message, and ends the descriptor. After an error the descriptor stays valid, to be committed again or freed; but if the peer
 * closed its port after a part of the message had left, the descriptor has ended, too.
 */
int atoll_send_commit(Atoll_Port port, Atoll_Descriptor descriptor);
/* Frees a message without sending it. */
int atoll_send_free(Atoll_Port port, Atoll_Descriptor descriptor);

/* ---- complete receives ---- */

/*
 * Receives the oldest message from this peer, or from any with ATOLL_ANY, and waits for it. *header_bytes and *data_bytes are the room on
 * entry, in bytes, and the message's sizes in whole words on return. A part longer than its room is cut. A buffer with its size, and each
 * other output, may be NULL.
 */
int atoll_recv(Atoll_Port port, Atoll_Id from, void *header, size_t *header_bytes, void *data, size_t *data_bytes, uint32_t *tag,
               Atoll_Id *source);
/* atoll_recv without waiting: ATOLL_ERR_NO_MESSAGE if no message has arrived. */
int atoll_recv_nb(Atoll_Port port, Atoll_Id from, void *header, size_t *header_bytes, void *data, size_t *data_bytes, uint32_t *tag,
                  Atoll_Id *source);
/* Receives the operand of a fast send, and waits for it. A message with a header or data stays queued: ATOLL_ERR_NOT_FAST. */
int atoll_fast_recv(Atoll_Port port, Atoll_Id from, uint32_t *operand, Atoll_Id *source);

/* ---- building blocks to receive ---- */

/* Matches the oldest message that has arrived from this peer, or from any. Later calls match later messages. */
int atoll_match(Atoll_Port port, Atoll_Id from, Atoll_Descriptor *descriptor);
/* Copy at most `max` bytes of a matched message's header or data. The size returned is the message's; the pointer may be NULL. */
int atoll_recv_copy_h(Atoll_Port port, Atoll_Descriptor descriptor, void *header, size_t max, size_t *header_bytes);
int atoll_recv_copy(Atoll_Port port, Atoll_Descriptor descriptor, void *data, size_t max, size_t *data_bytes);
/* Frees a matched message, in any order, and returns its room to the sender. */
int atoll_recv_free(Atoll_Port port, Atoll_Descriptor descriptor);

/* ---- descriptors ---- */

/* Fields of any message. 0 if the descriptor is invalid. Lengths are in bytes; those of a matched message in whole words. */
uint32_t atoll_get_tag(Atoll_Descriptor descriptor);
size_t atoll_get_header_length(Atoll_Descriptor descriptor);
size_t atoll_get_length(Atoll_Descriptor descriptor);
/* Connection that a message is sent through. 0 for a matched message. */
Atoll_Handle atoll_get_handle(Atoll_Descriptor descriptor);
/* Sender of the message. ATOLL_NO_ID if the descriptor is invalid. */
Atoll_Id atoll_get_source(Atoll_Descriptor descriptor);

/* Set fields of a message under construction. */
int atoll_set_tag(Atoll_Descriptor descriptor, uint32_t tag);
/* Change lengths within the message's room. The header's length is fixed after the first copy. */
int atoll_set_header_length(Atoll_Descriptor descriptor, size_t bytes);
int atoll_set_length(Atoll_Descriptor descriptor, size_t bytes);
int atoll_set_handle(Atoll_Descriptor descriptor, Atoll_Handle handle);
/* Accepts only the id of the message's own port as the source: else ATOLL_ERR_ID. */
int atoll_set_source(Atoll_Descriptor descriptor, Atoll_Id source);

/* ---- utilities ---- */

/* Free resources of a port. */
typedef struct atoll_resources {
    size_t build_bytes;     /* room in the send area for messages under construction */
    size_t build_bytes_max; /* the longest message that can be built */
    size_t mtu_bytes;       /* longer messages are cut into pieces of this size */
    uint32_t pieces;        /* pieces that one connection to this port may have under way or unread */
    uint32_t connections;   /* connections that may be made from here */
    uint32_t peers;         /* further Hostports that may connect to this one */
    uint32_t messages;      /* messages that can be received now */
} Atoll_Resources;
int atoll_resources(Atoll_Port port, Atoll_Resources *resources);

/* Describes a return value in words. */
const char *atoll_strerror(int code);
/*
 * Set how lazily ring pointers are updated: after `send` pieces sent, the port looks for free parts of its send area; after `receive`
 * pieces freed, it reports them to their sender. Values are clamped to the port's resources. The defaults are half of those.
 */
int atoll_set_watermarks(Atoll_Port port, unsigned send, unsigned receive);
int atoll_get_watermarks(Atoll_Port port, unsigned *send, unsigned *receive);
/* Id of the port. */
int atoll_get_id(Atoll_Port port, Atoll_Id *id);
/* Number of nodes. */
int atoll_get_node_num(Atoll_Port port, unsigned *nodes);
/*
 * Neighbours of this node, one for each link, in the order +x, -x, +y, -y; ATOLL_NO_ID for a missing one. The nodes are laid out row by
 * row as a grid that is as square as their number allows. The library does not know how a machine's links are cabled.
 */
int atoll_get_neighbours(Atoll_Port port, Atoll_Id neighbours[ATOLL_LINKS]);
/* Handles arrived packets. ATOLL_ERR_NO_MESSAGE if no message can be received now. */
int atoll_poll(Atoll_Port port);

#ifdef __cplusplus
}
#endif
#endif
