/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Statistics plug-ins of `selvedge sim --statistics FILE.so[:ARGS]` (SWORDFISH's statistics plug-ins: seed 002, section 2.7).
 *
 * A plug-in is a shared object that defines selvedge_statistics(). The simulator calls the functions of the table that this returns, in
 * the order of virtual time, from one thread. A function that is NULL is not called. Pointers are valid during the call only.
 *
 *     cc -shared -fPIC -Iinclude plugin.c -o plugin.so
 *     selvedge sim --machine torus16 --traffic uniform --statistics ./plugin.so
 *
 * A plug-in sees the run and cannot change it. Times are virtual, in picoseconds.
 *
 * Versions. A table has its size and the version that it was compiled for; the simulator refuses one of another version. Within a version
 * structs only grow at their end, and each begins with its size: a field is there if the size covers it.
 */
#ifndef SELVEDGE_STATISTICS_H
#define SELVEDGE_STATISTICS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SELVEDGE_STATISTICS_VERSION 1u

/* The simulated network. */
typedef struct selvedge_statistics_network {
    uint32_t size;    /* of this struct, in bytes */
    uint32_t version; /* of the simulator: SELVEDGE_STATISTICS_VERSION */
    uint32_t nodes;
    uint32_t routers;
    uint32_t channels;   /* directions of links, numbered from 0 */
    uint32_t flit_bytes; /* size of a flit on the wire */
    /* Writes the name of a channel, as "(0,1) -> (0,2)", cut to `room` bytes with its 0. An unknown channel has an empty name. */
    void (*channel_name)(const struct selvedge_statistics_network *network, uint32_t channel, char *name, size_t room);
} selvedge_statistics_network;

typedef struct selvedge_statistics_packet {
    uint32_t size;
    uint32_t from, to;     /* nodes */
    uint32_t bytes;        /* payload */
    uint64_t message;      /* number of its message; packets of one message share it */
    uint32_t last;         /* 1: the last packet of its message */
    uint32_t reserved;     /* 0 */
} selvedge_statistics_packet;

/* A packet, or a flit of it in a wormhole network, on a channel. */
typedef struct selvedge_statistics_hop {
    uint32_t size;
    uint32_t channel;
    uint32_t virtual_channel;
    uint32_t flits;
    uint64_t bytes;     /* on the wire, with headers and CRCs, without repetitions */
    uint64_t begin_ps;  /* begin of the first attempt */
    uint64_t end_ps;    /* end of the last flit */
    uint64_t waited_ps; /* time for which the packet's head was blocked before */
    uint32_t head;      /* 1: the packet's first flit is among these; its last one */
    uint32_t tail;
} selvedge_statistics_hop;

typedef struct selvedge_statistics_arrival {
    uint32_t size;
    uint32_t hops;        /* routers that it crossed */
    uint64_t injected_ps; /* time of its injection */
    uint64_t at_ps;       /* arrival of its last byte */
    uint32_t recovered;   /* 1: it was taken out of a deadlock, and came late */
    uint32_t reserved;    /* 0 */
} selvedge_statistics_arrival;

/* Reasons of a loss. */
enum {
    SELVEDGE_STATISTICS_LOST_ON_LINK = 1, /* a link without retransmission lost it */
    SELVEDGE_STATISTICS_CORRUPTED,        /* its CRC was wrong at its node */
    SELVEDGE_STATISTICS_LINK_DOWN,        /* a link had failed */
    SELVEDGE_STATISTICS_NO_ROUTE,         /* the routing has no route */
    SELVEDGE_STATISTICS_UNREACHABLE       /* no path leads to its node any longer */
};

typedef struct selvedge_statistics_loss {
    uint32_t size;
    uint32_t reason;
    uint64_t injected_ps;
    uint64_t at_ps;
} selvedge_statistics_loss;

/* The functions of a plug-in. `state` is what begin returned. */
typedef struct selvedge_statistics_plugin {
    uint32_t size;    /* sizeof(selvedge_statistics_plugin) */
    uint32_t version; /* SELVEDGE_STATISTICS_VERSION */
    /* Before the run. `arguments` is the text after the colon, or "". Returns 0; any other value ends the command with an error. */
    int (*begin)(const selvedge_statistics_network *network, const char *arguments, void **state);
    void (*injected)(void *state, uint64_t at_ps, const selvedge_statistics_packet *packet);
    /* A packet's head has to wait for a channel. at_router: 0 if it waits at its node. */
    void (*blocked)(void *state, uint64_t at_ps, const selvedge_statistics_packet *packet, uint32_t channel, uint32_t at_router);
    void (*hop)(void *state, const selvedge_statistics_packet *packet, const selvedge_statistics_hop *hop);
    void (*delivered)(void *state, const selvedge_statistics_packet *packet, const selvedge_statistics_arrival *arrival);
    void (*lost)(void *state, const selvedge_statistics_packet *packet, const selvedge_statistics_loss *loss);
    /* After the run. Frees the state. Returns 0; any other value ends the command with an error. */
    int (*end)(void *state, uint64_t at_ps);
} selvedge_statistics_plugin;

/* Defined by the plug-in. The table lives as long as the plug-in is loaded. */
const selvedge_statistics_plugin *selvedge_statistics(void);

#ifdef __cplusplus
}
#endif
#endif
