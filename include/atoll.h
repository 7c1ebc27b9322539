/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libatoll: PALMS, the message passing library of ATOLL, release 2.1 (seed 002, section 2.2), over EXTOLL's VELO and RMA units.
 *
 * A node is a process. It has ATOLL_HOSTPORTS Hostports. A program opens one, connects it to Hostports of its peers, and sends messages
 * through these virtual connections. A message has a header, data, and a tag of 32 bits. Messages through one connection arrive in order.
 *
 * The text names the types, atoll_open, atoll_close, atoll_connect, atoll_disconnect, atoll_send_malloc, atoll_copy_h, atoll_copy,
 * atoll_cpyv, atoll_send_commit, atoll_send, atoll_multicast and atoll_fast_send, and describes the other functions without names.
 * Names that it does not print, the parameters of all functions, the error codes and the values of constants are ours, in its style.
 *
 * Sizes. Messages travel in words of 64 bits: a header or data of another size is filled up with zeroes. A message may be sent with any
 * size and received into a buffer of any size, but what receives say about sizes is rounded up to whole words.
 *
 * Waiting. A connection has room for some messages at its peer: for 512 KiB between few nodes, less in large jobs. When it is full, sends and commits
 * wait until the peer receives. While one waits, up to 64 MiB of messages that arrive meanwhile are taken in. Nothing is discarded.
 *
 * Progress. The library works in its calls only. What a send or commit has handed over needs no later call of its sender.
 *
 * Arguments. PALMS tested almost none. Here a call returns an error code, and does nothing else, where an argument would corrupt memory or
 * hang. Pointers must be valid or NULL.
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

/* A Hostport that this process has opened. NULL is none. */
typedef struct atoll_port *Atoll_Port;
/* A virtual connection of a port: what was the offset of a routing string. 0 is none. */
typedef uint32_t Atoll_Handle;
/* A Hostport of any node: node in bits 15:0, number of the Hostport in bits 31:16. So a node's number is the id of its first Hostport. */
typedef uint32_t Atoll_Id;
/* A message of a port: under construction, or matched. */
typedef struct atoll_descriptor *Atoll_Descriptor;

#define ATOLL_ID(node, hostport) ((Atoll_Id)(((uint32_t)(hostport) << 16) | ((uint32_t)(node) & 0xffffu)))
#define ATOLL_ID_NODE(id) ((id) & 0xffffu)
#define ATOLL_ID_HOSTPORT(id) ((id) >> 16)
/* In receives: from any peer. */
#define ATOLL_ANY ((Atoll_Id)0xffffffffu)
/* In the list of neighbours: there is none. */
#define ATOLL_NO_ID ((Atoll_Id)0xfffffffeu)

/* What functions return. */
enum {
    ATOLL_SUCCESS = 0,
    ATOLL_ERR,               /* the library failed; it has logged why */
    ATOLL_ERR_PORT,          /* the port is not open */
    ATOLL_ERR_NO_PORT,       /* all Hostports of the node are in use, or there is no such one */
    ATOLL_ERR_JOB,           /* the process can join no job */
    ATOLL_ERR_MEMORY,        /* there is no memory for the port; the log says what sets it */
    ATOLL_ERR_ID,            /* there is no such node or Hostport */
    ATOLL_ERR_NOT_AVAILABLE, /* the peer has not opened its Hostport */
    ATOLL_ERR_NO_ROUTE,      /* all virtual connections are in use, here or at the peer */
    ATOLL_ERR_HANDLE,        /* the handle is of no connection of the port */
    ATOLL_ERR_ROUTE,         /* the route has become invalid, because the peer has closed its Hostport: disconnect, and connect again */
    ATOLL_ERR_DESCRIPTOR,    /* the descriptor is of no message of the port, or of one of the other kind */
    ATOLL_ERR_SIZE,          /* the size is more than there is, or than a message may have */
    ATOLL_ERR_NO_SPACE,      /* the send area has no room now; it has when messages have left, were committed or freed */
    ATOLL_ERR_NO_MESSAGE,    /* no message is there that matches */
    ATOLL_ERR_NOT_FAST,      /* the next message has a header or data; it stays */
    ATOLL_ERR_HELD,          /* messages that were matched and not freed hold all the room of this peer: free one */
    ATOLL_ERR_POINTER,       /* a pointer is NULL */
    ATOLL_ERR_LOST           /* messages that were sent could not leave, and are lost */
};

/* ---- ports and connections ---- */

/* Opens a Hostport of this node that is free: the lowest. */
int atoll_open(Atoll_Port *port);
/* Opens the Hostport with this number. */
int atoll_open_hostport(Atoll_Port *port, unsigned number);
/*
 * Closes a port. Messages that were not received are lost. Peers that send to it later get ATOLL_ERR_ROUTE. ATOLL_ERR_LOST: messages to
 * a peer were still under way after ten seconds.
 */
int atoll_close(Atoll_Port port);

/*
 * Connects to a peer's Hostport. The peer need not call the library for it, but must have opened the Hostport: the call waits for that up
 * to two seconds, then returns ATOLL_ERR_NOT_AVAILABLE. A port may have several connections to one peer; they share their room and order.
 */
int atoll_connect(Atoll_Port port, Atoll_Id peer, Atoll_Handle *handle);
/* Ends a connection. What was sent still arrives. */
int atoll_disconnect(Atoll_Port port, Atoll_Handle handle);

/* ---- complete sends ---- */

/*
 * Sends a message of any size up to 2 GiB of header and 2 GiB of data. Both may be empty, with a pointer of NULL. The buffers may be used
 * again when it returns.
 */
int atoll_send(Atoll_Port port, Atoll_Handle handle, const void *header, size_t header_bytes, const void *data, size_t data_bytes,
               uint32_t tag);
/* Sends a message through each of `count` connections. If one fails, the others get it, and the call returns why the one failed. If one is no connection, nothing is sent. */
int atoll_multicast(Atoll_Port port, const Atoll_Handle *handles, unsigned count, const void *header, size_t header_bytes, const void *data,
                    size_t data_bytes, uint32_t tag);
/* Sends a message that is its tag. */
int atoll_fast_send(Atoll_Port port, Atoll_Handle handle, uint32_t operand);

/* ---- building blocks to send ---- */

/*
 * Takes room in the send area for a message with these sizes, up to atoll_resources' build_bytes_max together. Then the header is copied,
 * the data, in one or more parts, the handle is set, and the message committed. What is not copied is zero.
 */
int atoll_send_malloc(Atoll_Port port, size_t header_bytes, size_t data_bytes, Atoll_Descriptor *descriptor);
int atoll_copy_h(Atoll_Port port, Atoll_Descriptor descriptor, const void *header, size_t bytes);
/* Copies data behind that which was copied before. */
int atoll_copy(Atoll_Port port, Atoll_Descriptor descriptor, const void *data, size_t bytes);
/* As atoll_copy, for `count` parts one after the other. If they do not all fit, none is copied. */
int atoll_cpyv(Atoll_Port port, Atoll_Descriptor descriptor, const struct iovec *parts, int count);
/*
 * Sends the message, and ends the descriptor. After an error the message is still there, to be committed again or freed; but if the peer
 * has closed its port when a part of the message had left, the descriptor has ended, too.
 */
int atoll_send_commit(Atoll_Port port, Atoll_Descriptor descriptor);
/* Frees a message that is not sent. */
int atoll_send_free(Atoll_Port port, Atoll_Descriptor descriptor);

/* ---- complete receives ---- */

/*
 * Receives the oldest message from this peer, or from any with ATOLL_ANY, and waits for it. *header_bytes and *data_bytes say how much
 * room there is; afterwards they are the sizes of the message, in whole words. A part that is longer than its room is cut. A buffer with
 * its size, and each other output, may be NULL.
 */
int atoll_recv(Atoll_Port port, Atoll_Id from, void *header, size_t *header_bytes, void *data, size_t *data_bytes, uint32_t *tag,
               Atoll_Id *source);
/* The same without waiting: ATOLL_ERR_NO_MESSAGE if there is none. */
int atoll_recv_nb(Atoll_Port port, Atoll_Id from, void *header, size_t *header_bytes, void *data, size_t *data_bytes, uint32_t *tag,
                  Atoll_Id *source);
/* Receives the operand of a fast send, and waits for it. A message with a header or data stays: ATOLL_ERR_NOT_FAST. */
int atoll_fast_recv(Atoll_Port port, Atoll_Id from, uint32_t *operand, Atoll_Id *source);

/* ---- building blocks to receive ---- */

/* Matches the oldest message from this peer, or from any, that is there. Later calls match later messages. */
int atoll_match(Atoll_Port port, Atoll_Id from, Atoll_Descriptor *descriptor);
/* Copy the header or the data of a message that was matched: at most `max` bytes. The size is that of the message; it may be NULL. */
int atoll_recv_copy_h(Atoll_Port port, Atoll_Descriptor descriptor, void *header, size_t max, size_t *header_bytes);
int atoll_recv_copy(Atoll_Port port, Atoll_Descriptor descriptor, void *data, size_t max, size_t *data_bytes);
/* Frees a message that was matched, in any order, and its room for its sender. */
int atoll_recv_free(Atoll_Port port, Atoll_Descriptor descriptor);

/* ---- descriptors ---- */

/* The fields of any message. 0 if the descriptor is none. Lengths are in bytes; those of a message that was matched are in whole words. */
uint32_t atoll_get_tag(Atoll_Descriptor descriptor);
size_t atoll_get_header_length(Atoll_Descriptor descriptor);
size_t atoll_get_length(Atoll_Descriptor descriptor);
/* The connection that a message is sent through. 0 of a message that was matched. */
Atoll_Handle atoll_get_handle(Atoll_Descriptor descriptor);
/* Its sender. ATOLL_NO_ID if the descriptor is none. */
Atoll_Id atoll_get_source(Atoll_Descriptor descriptor);

/* The fields of a message under construction. */
int atoll_set_tag(Atoll_Descriptor descriptor, uint32_t tag);
/* The lengths may change within the room that the message has. That of the header is fixed once something was copied. */
int atoll_set_header_length(Atoll_Descriptor descriptor, size_t bytes);
int atoll_set_length(Atoll_Descriptor descriptor, size_t bytes);
int atoll_set_handle(Atoll_Descriptor descriptor, Atoll_Handle handle);
/* A message has the id of its port as its source, and no other: ATOLL_ERR_ID. */
int atoll_set_source(Atoll_Descriptor descriptor, Atoll_Id source);

/* ---- utilities ---- */

/* What a port has left. */
typedef struct atoll_resources {
    size_t build_bytes;     /* room in the send area for messages under construction */
    size_t build_bytes_max; /* the longest message that can be built */
    size_t mtu_bytes;       /* longer messages are cut into pieces of this size */
    uint32_t pieces;        /* pieces that one connection to this port may have under way or unread */
    uint32_t connections;   /* connections that may be made from here */
    uint32_t peers;         /* Hostports that may connect to this one, beside those that have */
    uint32_t messages;      /* messages that can be received now */
} Atoll_Resources;
int atoll_resources(Atoll_Port port, Atoll_Resources *resources);

/* What a return value means, in words. */
const char *atoll_strerror(int code);
/*
 * How lazily pointers are updated: after so many pieces sent the port looks which parts of its send area are free again; after so
 * many pieces freed it tells their sender. Values are brought within what the port has. The defaults are half of that.
 */
int atoll_set_watermarks(Atoll_Port port, unsigned send, unsigned receive);
int atoll_get_watermarks(Atoll_Port port, unsigned *send, unsigned *receive);
/* The id of the port itself. */
int atoll_get_id(Atoll_Port port, Atoll_Id *id);
/* The number of nodes. */
int atoll_get_node_num(Atoll_Port port, unsigned *nodes);
/*
 * The nodes that neighbour this one, one at each link, in the order +x, -x, +y, -y; ATOLL_NO_ID where there is none. The nodes are laid
 * out row by row as a grid that is as square as their number allows. The library does not know how a machine's links are cabled.
 */
int atoll_get_neighbours(Atoll_Port port, Atoll_Id neighbours[ATOLL_LINKS]);
/* Works off what has arrived. ATOLL_ERR_NO_MESSAGE if no message can be received now. */
int atoll_poll(Atoll_Port port);

#ifdef __cplusplus
}
#endif
#endif
