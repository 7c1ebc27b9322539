/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * gasnet.h: the core API of GASNet, version 1.8 of its specification, over EXTOLL's VELO and RMA units. Link with -lgasnet-selvedge.
 *
 * Define GASNET_SEQ (one thread calls GASNet), GASNET_PARSYNC (several threads, one at a time) or GASNET_PAR (several at once) before the
 * header, the same in all parts of a program. One library serves all three.
 *
 * The extended API (gasnet_put, gasnet_get and so on) is missing: the compiler refuses a program that uses it.
 *
 * Functions return GASNET_OK or an error code, and print the reason and the remedy on standard error. A refused call has changed nothing.
 *
 * Rules for handlers
 * 1. Handlers run in gasnet_AMPoll, in GASNET_BLOCKUNTIL, in gasnet_barrier_wait and _try, and in requests that wait for room, on the
 *    calling thread. They run nowhere else and on no other thread.
 * 2. The handler of a request may reply once, to the node that sent it. The payload of the reply has been read when the call returns; the
 *    message leaves when the handler has returned. The handler of a reply sends nothing.
 * 3. A handler does not poll, wait or send requests. Nor does a thread that holds a gasnet_hsl_t or is in a section without interrupts.
 *    Such calls return GASNET_ERR_BAD_ARG; GASNET_BLOCKUNTIL ends the job.
 * 4. Messages between two nodes have no order.
 */
#ifndef GASNET_H
#define GASNET_H

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#if defined(GASNET_SEQ) + defined(GASNET_PARSYNC) + defined(GASNET_PAR) > 1
#error "define one of GASNET_SEQ, GASNET_PARSYNC and GASNET_PAR"
#endif
#if !defined(GASNET_SEQ) && !defined(GASNET_PARSYNC) && !defined(GASNET_PAR)
#define GASNET_SEQ 1
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Names and numbers ----------------------------------------------------------------------------------- */

#define GASNET_SPEC_VERSION_MAJOR 1
#define GASNET_SPEC_VERSION_MINOR 8
#define GASNET_VERSION GASNET_SPEC_VERSION_MAJOR
#define GASNET_RELEASE_VERSION_MAJOR 0
#define GASNET_RELEASE_VERSION_MINOR 1

#define GASNET_CONDUIT_SELVEDGE 1
#define GASNET_CONDUIT_NAME SELVEDGE
#define GASNET_CONDUIT_NAME_STR "SELVEDGE"
#if defined(GASNET_PAR)
#define GASNET_CONFIG_STRING "SELVEDGE,SPEC=1.8,PAR,SEGMENT_FAST,core"
#elif defined(GASNET_PARSYNC)
#define GASNET_CONFIG_STRING "SELVEDGE,SPEC=1.8,PARSYNC,SEGMENT_FAST,core"
#else
#define GASNET_CONFIG_STRING "SELVEDGE,SPEC=1.8,SEQ,SEGMENT_FAST,core"
#endif

/* Every node has a segment of the size that it asks for; long messages go to segments only. */
#define GASNET_SEGMENT_FAST 1
/* Segments of different nodes may begin at different addresses. */
#define GASNET_ALIGNED_SEGMENTS 0
#define GASNET_PAGESIZE 4096
#define GASNET_MAXNODES 1024

#define GASNET_OK 0
#define GASNET_ERR_NOT_INIT 10001
#define GASNET_ERR_RESOURCE 10002
#define GASNET_ERR_BAD_ARG 10003
#define GASNET_ERR_NOT_READY 10004
#define GASNET_ERR_BARRIER_MISMATCH 10005

/* Number of a node. */
typedef uint32_t gasnet_node_t;
/* Number of a handler; a program's are 128 to 255. */
typedef uint8_t gasnet_handler_t;
/* An argument of a handler: 32 bits. */
typedef int32_t gasnet_handlerarg_t;
/* Message that a handler runs for. Valid until the handler returns. */
typedef void *gasnet_token_t;

/* Row of the handler table. A handler returns nothing. It takes a token, then for medium and long messages a buffer (void *) and its size
 * in bytes (size_t), then the arguments of the message. */
typedef struct {
    gasnet_handler_t index; /* 0: gasnet_attach stores a free number here */
    void (*fnptr)();
} gasnet_handlerentry_t;

/* Segment of a node; addr is NULL if it has none. */
typedef struct {
    void *addr;
    uintptr_t size; /* bytes */
} gasnet_seginfo_t;

/* Name of an error code, and a sentence that describes it. */
const char *gasnet_ErrorName(int code);
const char *gasnet_ErrorDesc(int code);

/* ---- The job --------------------------------------------------------------------------------------------- */

#define SELVEDGE_GASNET_INTERFACE 1
int selvedge_gasnet_init(int mode, int interface_version);

/* Joins the job that `selvedge run`, velorun or `selvedge sim` has started, or a job of one. Collective, and the first call. The program's
 * arguments stay unchanged, because the launcher adds none. */
static inline int gasnet_init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
#if defined(GASNET_PAR)
    return selvedge_gasnet_init(2, SELVEDGE_GASNET_INTERFACE);
#elif defined(GASNET_PARSYNC)
    return selvedge_gasnet_init(1, SELVEDGE_GASNET_INTERFACE);
#else
    return selvedge_gasnet_init(0, SELVEDGE_GASNET_INTERFACE);
#endif
}

/* Registers the handlers and makes a zeroed segment of `segsize` bytes, a multiple of GASNET_PAGESIZE. Collective. `minheapoffset` is
 * ignored: the segment never limits the heap. */
int gasnet_attach(gasnet_handlerentry_t *table, int numentries, uintptr_t segsize, uintptr_t minheapoffset);
/* Ends all nodes. If all call it within two seconds, each ends with its own status, after its output is written; otherwise the job ends
 * with this one. Does not return. A handler may call it. */
void gasnet_exit(int exitcode)
#ifdef __GNUC__
    __attribute__((noreturn))
#endif
    ;

gasnet_node_t gasnet_mynode(void);
gasnet_node_t gasnet_nodes(void);
/* Reads a variable of the environment that the job was started with; NULL if unset. */
char *gasnet_getenv(const char *name);

/* Longest segment in bytes that this node can attach, and that all nodes can. GASNET_MAX_SEGSIZE raises it. */
uintptr_t gasnet_getMaxLocalSegmentSize(void);
uintptr_t gasnet_getMaxGlobalSegmentSize(void);
/* Stores the segments of the first `numentries` nodes. */
int gasnet_getSegmentInfo(gasnet_seginfo_t *table, int numentries);

/* ---- Waiting --------------------------------------------------------------------------------------------- */

/* Runs the handlers of messages that have arrived. */
int gasnet_AMPoll(void);

void selvedge_gasnet_wait(void);
/* Polls until the condition holds. Handlers or other threads make it true. */
#define GASNET_BLOCKUNTIL(condition)                      \
    do {                                                  \
        while (!(condition)) selvedge_gasnet_wait();      \
        SELVEDGE_GASNET_FENCE();                          \
    } while (0)
#ifdef __GNUC__
#define SELVEDGE_GASNET_FENCE() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#else
#define SELVEDGE_GASNET_FENCE() ((void)0)
#endif

/* Wait modes: poll only; or poll, then sleep until a message arrives (the default). */
#define GASNET_WAIT_SPIN 0
#define GASNET_WAIT_BLOCK 1
#define GASNET_WAIT_SPINBLOCK 2
int gasnet_set_waitmode(int wait_mode);

/* Some programs put this at the start of their functions. Does nothing here. */
#define GASNET_BEGIN_FUNCTION() ((void)0)

/* ---- Barriers -------------------------------------------------------------------------------------------- */

/* The barrier is anonymous. */
#define GASNET_BARRIERFLAG_ANONYMOUS 1
/* The caller knows that names differ: all nodes get GASNET_ERR_BARRIER_MISMATCH. */
#define GASNET_BARRIERFLAG_MISMATCH 2

/* Enters the barrier, without waiting. notify and wait alternate, and have the same arguments. */
void gasnet_barrier_notify(int id, int flags);
/* Waits until all nodes have entered. GASNET_ERR_BARRIER_MISMATCH: two nodes gave different names. */
int gasnet_barrier_wait(int id, int flags);
/* Wait without blocking: GASNET_ERR_NOT_READY if a node has not entered yet. */
int gasnet_barrier_try(int id, int flags);

/* ---- Handler-safe locks ---------------------------------------------------------------------------------- */

/* A lock that handlers may take, too. Hold it briefly; the thread that locked it unlocks it. */
typedef struct {
    pthread_mutex_t mutex;
} gasnet_hsl_t;
/* clang-format off */
#define GASNET_HSL_INITIALIZER { PTHREAD_MUTEX_INITIALIZER }
/* clang-format on */

void gasnet_hsl_init(gasnet_hsl_t *hsl);
void gasnet_hsl_destroy(gasnet_hsl_t *hsl);
void gasnet_hsl_lock(gasnet_hsl_t *hsl);
void gasnet_hsl_unlock(gasnet_hsl_t *hsl);
/* GASNET_ERR_NOT_READY: another thread holds it. */
int gasnet_hsl_trylock(gasnet_hsl_t *hsl);

/* No handler runs on this thread between these two. They do not nest. */
void gasnet_hold_interrupts(void);
void gasnet_resume_interrupts(void);

/* ---- Active messages ------------------------------------------------------------------------------------- */

/* Largest number of arguments of a message. */
size_t gasnet_AMMaxArgs(void);
/* Largest payloads in bytes: of medium messages, 512 to 16,384, fewer with more nodes; of long requests and replies, within the segment. */
size_t gasnet_AMMaxMedium(void);
size_t gasnet_AMMaxLongRequest(void);
size_t gasnet_AMMaxLongReply(void);

/* Node that sent the message of a token. Valid only inside its handler. */
int gasnet_AMGetMsgSource(gasnet_token_t token, gasnet_node_t *source);

typedef struct {
    const void *source;
    size_t bytes;
    void *destination;
    int is_async;
} selvedge_gasnet_payload_t;

int selvedge_gasnet_request(int category, gasnet_node_t node, gasnet_handler_t handler, const selvedge_gasnet_payload_t *payload,
                            const gasnet_handlerarg_t *arguments, int count);
int selvedge_gasnet_reply(int category, gasnet_token_t token, gasnet_handler_t handler, const selvedge_gasnet_payload_t *payload,
                          const gasnet_handlerarg_t *arguments, int count);

/*
 * For N from 0 to 16:
 *
 *   gasnet_AMRequestShortN    (node, handler, N arguments)
 *   gasnet_AMRequestMediumN   (node, handler, source, bytes, N arguments)
 *   gasnet_AMRequestLongN     (node, handler, source, bytes, destination, N arguments)
 *   gasnet_AMRequestLongAsyncN(node, handler, source, bytes, destination, N arguments)
 *   gasnet_AMReplyShortN      (token, handler, N arguments)
 *   gasnet_AMReplyMediumN     (token, handler, source, bytes, N arguments)
 *   gasnet_AMReplyLongN       (token, handler, source, bytes, destination, N arguments)
 *
 * While its handler runs, a medium message's payload is in memory of the library, aligned to 8 bytes. A long message's payload is at
 * `destination`, an address within the target's segment. The source may change when the call returns; that of LongAsync, when the
 * handler of the reply runs.
 */
#define SELVEDGE_GASNET_ROW(n)                                                                                                \
    static inline int gasnet_AMRequestShort##n(gasnet_node_t node, gasnet_handler_t handler SELVEDGE_GASNET_P##n)             \
    {                                                                                                                         \
        const gasnet_handlerarg_t arguments[] = {SELVEDGE_GASNET_A##n 0};                                                     \
        return selvedge_gasnet_request(0, node, handler, NULL, arguments, n);                                                 \
    }                                                                                                                         \
    static inline int gasnet_AMRequestMedium##n(gasnet_node_t node, gasnet_handler_t handler, const void *source,             \
                                                size_t bytes SELVEDGE_GASNET_P##n)                                            \
    {                                                                                                                         \
        const gasnet_handlerarg_t arguments[] = {SELVEDGE_GASNET_A##n 0};                                                     \
        const selvedge_gasnet_payload_t payload = {source, bytes, NULL, 0};                                                   \
        return selvedge_gasnet_request(1, node, handler, &payload, arguments, n);                                             \
    }                                                                                                                         \
    static inline int gasnet_AMRequestLong##n(gasnet_node_t node, gasnet_handler_t handler, const void *source, size_t bytes, \
                                              void *destination SELVEDGE_GASNET_P##n)                                         \
    {                                                                                                                         \
        const gasnet_handlerarg_t arguments[] = {SELVEDGE_GASNET_A##n 0};                                                     \
        const selvedge_gasnet_payload_t payload = {source, bytes, destination, 0};                                            \
        return selvedge_gasnet_request(2, node, handler, &payload, arguments, n);                                             \
    }                                                                                                                         \
    static inline int gasnet_AMRequestLongAsync##n(gasnet_node_t node, gasnet_handler_t handler, const void *source,          \
                                                   size_t bytes, void *destination SELVEDGE_GASNET_P##n)                      \
    {                                                                                                                         \
        const gasnet_handlerarg_t arguments[] = {SELVEDGE_GASNET_A##n 0};                                                     \
        const selvedge_gasnet_payload_t payload = {source, bytes, destination, 1};                                            \
        return selvedge_gasnet_request(2, node, handler, &payload, arguments, n);                                             \
    }                                                                                                                         \
    static inline int gasnet_AMReplyShort##n(gasnet_token_t token, gasnet_handler_t handler SELVEDGE_GASNET_P##n)             \
    {                                                                                                                         \
        const gasnet_handlerarg_t arguments[] = {SELVEDGE_GASNET_A##n 0};                                                     \
        return selvedge_gasnet_reply(0, token, handler, NULL, arguments, n);                                                  \
    }                                                                                                                         \
    static inline int gasnet_AMReplyMedium##n(gasnet_token_t token, gasnet_handler_t handler, const void *source,             \
                                              size_t bytes SELVEDGE_GASNET_P##n)                                              \
    {                                                                                                                         \
        const gasnet_handlerarg_t arguments[] = {SELVEDGE_GASNET_A##n 0};                                                     \
        const selvedge_gasnet_payload_t payload = {source, bytes, NULL, 0};                                                   \
        return selvedge_gasnet_reply(1, token, handler, &payload, arguments, n);                                              \
    }                                                                                                                         \
    static inline int gasnet_AMReplyLong##n(gasnet_token_t token, gasnet_handler_t handler, const void *source, size_t bytes, \
                                            void *destination SELVEDGE_GASNET_P##n)                                           \
    {                                                                                                                         \
        const gasnet_handlerarg_t arguments[] = {SELVEDGE_GASNET_A##n 0};                                                     \
        const selvedge_gasnet_payload_t payload = {source, bytes, destination, 0};                                            \
        return selvedge_gasnet_reply(2, token, handler, &payload, arguments, n);                                              \
    }

/* The parameters of N arguments, and the arguments. */
#define SELVEDGE_GASNET_P0
#define SELVEDGE_GASNET_P1 SELVEDGE_GASNET_P0, gasnet_handlerarg_t a0
#define SELVEDGE_GASNET_P2 SELVEDGE_GASNET_P1, gasnet_handlerarg_t a1
#define SELVEDGE_GASNET_P3 SELVEDGE_GASNET_P2, gasnet_handlerarg_t a2
#define SELVEDGE_GASNET_P4 SELVEDGE_GASNET_P3, gasnet_handlerarg_t a3
#define SELVEDGE_GASNET_P5 SELVEDGE_GASNET_P4, gasnet_handlerarg_t a4
#define SELVEDGE_GASNET_P6 SELVEDGE_GASNET_P5, gasnet_handlerarg_t a5
#define SELVEDGE_GASNET_P7 SELVEDGE_GASNET_P6, gasnet_handlerarg_t a6
#define SELVEDGE_GASNET_P8 SELVEDGE_GASNET_P7, gasnet_handlerarg_t a7
#define SELVEDGE_GASNET_P9 SELVEDGE_GASNET_P8, gasnet_handlerarg_t a8
#define SELVEDGE_GASNET_P10 SELVEDGE_GASNET_P9, gasnet_handlerarg_t a9
#define SELVEDGE_GASNET_P11 SELVEDGE_GASNET_P10, gasnet_handlerarg_t a10
#define SELVEDGE_GASNET_P12 SELVEDGE_GASNET_P11, gasnet_handlerarg_t a11
#define SELVEDGE_GASNET_P13 SELVEDGE_GASNET_P12, gasnet_handlerarg_t a12
#define SELVEDGE_GASNET_P14 SELVEDGE_GASNET_P13, gasnet_handlerarg_t a13
#define SELVEDGE_GASNET_P15 SELVEDGE_GASNET_P14, gasnet_handlerarg_t a14
#define SELVEDGE_GASNET_P16 SELVEDGE_GASNET_P15, gasnet_handlerarg_t a15
#define SELVEDGE_GASNET_A0
#define SELVEDGE_GASNET_A1 SELVEDGE_GASNET_A0 a0,
#define SELVEDGE_GASNET_A2 SELVEDGE_GASNET_A1 a1,
#define SELVEDGE_GASNET_A3 SELVEDGE_GASNET_A2 a2,
#define SELVEDGE_GASNET_A4 SELVEDGE_GASNET_A3 a3,
#define SELVEDGE_GASNET_A5 SELVEDGE_GASNET_A4 a4,
#define SELVEDGE_GASNET_A6 SELVEDGE_GASNET_A5 a5,
#define SELVEDGE_GASNET_A7 SELVEDGE_GASNET_A6 a6,
#define SELVEDGE_GASNET_A8 SELVEDGE_GASNET_A7 a7,
#define SELVEDGE_GASNET_A9 SELVEDGE_GASNET_A8 a8,
#define SELVEDGE_GASNET_A10 SELVEDGE_GASNET_A9 a9,
#define SELVEDGE_GASNET_A11 SELVEDGE_GASNET_A10 a10,
#define SELVEDGE_GASNET_A12 SELVEDGE_GASNET_A11 a11,
#define SELVEDGE_GASNET_A13 SELVEDGE_GASNET_A12 a12,
#define SELVEDGE_GASNET_A14 SELVEDGE_GASNET_A13 a13,
#define SELVEDGE_GASNET_A15 SELVEDGE_GASNET_A14 a14,
#define SELVEDGE_GASNET_A16 SELVEDGE_GASNET_A15 a15,

SELVEDGE_GASNET_ROW(0)
SELVEDGE_GASNET_ROW(1)
SELVEDGE_GASNET_ROW(2)
SELVEDGE_GASNET_ROW(3)
SELVEDGE_GASNET_ROW(4)
SELVEDGE_GASNET_ROW(5)
SELVEDGE_GASNET_ROW(6)
SELVEDGE_GASNET_ROW(7)
SELVEDGE_GASNET_ROW(8)
SELVEDGE_GASNET_ROW(9)
SELVEDGE_GASNET_ROW(10)
SELVEDGE_GASNET_ROW(11)
SELVEDGE_GASNET_ROW(12)
SELVEDGE_GASNET_ROW(13)
SELVEDGE_GASNET_ROW(14)
SELVEDGE_GASNET_ROW(15)
SELVEDGE_GASNET_ROW(16)

#undef SELVEDGE_GASNET_ROW

/* Forms that take the number of arguments at run time. Public versions of GASNet have them beside the specification. */
#define SELVEDGE_GASNET_COLLECT()                                                                       \
    gasnet_handlerarg_t arguments[16] = {0};                                                            \
    va_list rest;                                                                                       \
    int i;                                                                                              \
    va_start(rest, count);                                                                              \
    for (i = 0; i < count && i < 16; i++) arguments[i] = va_arg(rest, gasnet_handlerarg_t);             \
    va_end(rest)

static inline int gasnet_AMRequestShort(gasnet_node_t node, gasnet_handler_t handler, int count, ...)
{
    SELVEDGE_GASNET_COLLECT();
    return selvedge_gasnet_request(0, node, handler, NULL, arguments, count);
}
static inline int gasnet_AMReplyShort(gasnet_token_t token, gasnet_handler_t handler, int count, ...)
{
    SELVEDGE_GASNET_COLLECT();
    return selvedge_gasnet_reply(0, token, handler, NULL, arguments, count);
}
static inline int gasnet_AMRequestMedium(gasnet_node_t node, gasnet_handler_t handler, const void *source, size_t bytes, int count, ...)
{
    const selvedge_gasnet_payload_t payload = {source, bytes, NULL, 0};
    SELVEDGE_GASNET_COLLECT();
    return selvedge_gasnet_request(1, node, handler, &payload, arguments, count);
}
static inline int gasnet_AMReplyMedium(gasnet_token_t token, gasnet_handler_t handler, const void *source, size_t bytes, int count, ...)
{
    const selvedge_gasnet_payload_t payload = {source, bytes, NULL, 0};
    SELVEDGE_GASNET_COLLECT();
    return selvedge_gasnet_reply(1, token, handler, &payload, arguments, count);
}
static inline int gasnet_AMRequestLong(gasnet_node_t node, gasnet_handler_t handler, const void *source, size_t bytes, void *destination, int count, ...)
{
    const selvedge_gasnet_payload_t payload = {source, bytes, destination, 0};
    SELVEDGE_GASNET_COLLECT();
    return selvedge_gasnet_request(2, node, handler, &payload, arguments, count);
}
static inline int gasnet_AMRequestLongAsync(gasnet_node_t node, gasnet_handler_t handler, const void *source, size_t bytes, void *destination, int count, ...)
{
    const selvedge_gasnet_payload_t payload = {source, bytes, destination, 1};
    SELVEDGE_GASNET_COLLECT();
    return selvedge_gasnet_request(2, node, handler, &payload, arguments, count);
}
static inline int gasnet_AMReplyLong(gasnet_token_t token, gasnet_handler_t handler, const void *source, size_t bytes, void *destination, int count, ...)
{
    const selvedge_gasnet_payload_t payload = {source, bytes, destination, 0};
    SELVEDGE_GASNET_COLLECT();
    return selvedge_gasnet_reply(2, token, handler, &payload, arguments, count);
}
#undef SELVEDGE_GASNET_COLLECT

#ifdef __cplusplus
}
#endif

/* ---- Missing parts --------------------------------------------------------------------------------------- */

#ifdef __GNUC__
/* The extended API. The compiler says "poisoned", and names the function. */
#pragma GCC poison gasnet_put gasnet_put_bulk gasnet_put_val gasnet_put_nb gasnet_put_nb_bulk gasnet_put_nb_val
#pragma GCC poison gasnet_put_nbi gasnet_put_nbi_bulk gasnet_put_nbi_val
#pragma GCC poison gasnet_get gasnet_get_bulk gasnet_get_val gasnet_get_nb gasnet_get_nb_bulk gasnet_get_nb_val
#pragma GCC poison gasnet_get_nbi gasnet_get_nbi_bulk
#pragma GCC poison gasnet_memset gasnet_memset_nb gasnet_memset_nbi
#pragma GCC poison gasnet_wait_syncnb gasnet_try_syncnb gasnet_wait_syncnbi_all gasnet_wait_syncnbi_puts gasnet_wait_syncnbi_gets
#pragma GCC poison gasnet_begin_nbi_accessregion gasnet_end_nbi_accessregion
#endif

#endif
