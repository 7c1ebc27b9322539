/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * traffic.c: one rank of the jobs of `tests/death`. Ranks send random messages, and processes are killed at random instants.
 *
 *     selvedge run -n N traffic BOARD STYLE KILLS SEED MEMORY
 *     selvedge sim -n N --machine M --keep-going -- traffic BOARD sim MICROSECONDS SEED MEMORY ENDS...
 *
 * Ranks 0 and 1 survive: they check the traffic. Every other rank has victims. A victim is a process that sends to all
 * ranks, mostly to the survivors, until it is killed; then a new victim takes its place under the same Portals process id.
 *
 *   STYLE nurse   rank >= 2 forks its victims and kills each at a random instant
 *         step    rank >= 2 forks its victims, steps each through one operation, and kills it after the k-th
 *                 instruction, with another k and another operation each time
 *         rank    rank >= 2 is itself the victim, once
 *         sim     the same in virtual time, with traffic for MICROSECONDS; time limits are short,
 *                 and everything depends on the arguments only
 *   KILLS         the number of victims of every rank >= 2
 *   MEMORY        shared (all of it from selvedge_alloc) or mixed
 *   ENDS          for each rank >= 2, HOW@NANOSECONDS of virtual time. k: the simulator kills it. s, v, e, x: it ends itself
 *                 then or soon after, by SIGKILL, by SIGSEGV, with status 3, or with status 0 and its NICs open. `lossy` as
 *                 the last word: links lose packets, so that operations between survivors may fail
 *   BOARD         a file that all ranks map: the living processes, and the times of deaths. It is not itself under test
 *
 * The survivors check
 *  1. The bytes of a message or reply whose event has PTL_NI_OK are the bytes sent.
 *  2. Every operation posts exactly the events that it asked for, also after its target's death. Live, `limits` only end a test
 *     in which one does not, however busy the machine is; simulated, they bound the library.
 *  3. Operations between survivors never fail and never stall; but a triggered one fails if a victim was running it.
 *  4. An entry that is used once posts one message event and one AUTO_UNLINK, whichever process dies meanwhile.
 *  5. Small puts that are only counted: those between survivors count exactly once, at both ends. When an entry is unlinked,
 *     its memory no longer changes.
 *  6. At the end, lists, counters and queues can be freed, and a ping-pong of the survivors is exact.
 *
 * The last line of a survivor is a summary, `key=value` with spaces between. The test reads it.
 */
#include <portals4.h>
#include <selvedge.h>

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SURVIVORS = 2,
    RANKS_MAX = 8,
    GENERATIONS_MAX = 4096,
    OPERATIONS = 32,             /* outstanding at once */
    SLOT_BYTES = 64 << 10,       /* most bytes of a usual message */
    REGION_BYTES = 1 << 20,      /* a sender's part of a persistent entry, and the longest message */
    ONCE_ENTRIES = 24,
    OVERFLOW_ENTRIES = 3,
    OVERFLOW_BYTES = 512 << 10,
    CLASSES = 4,                 /* match bits of expected messages; other messages are unexpected */
    TRIGGERED = 6,
    PINGS = 300,
    STREAM_SLOT_BYTES = 64,      /* a sender's part of the memory of streams */
    STREAM_UNDER_WAY = 16,
    STEPS_MAX = 6000, /* the most instructions of one operation */
};

enum { PT_REGION, PT_ATOMIC, PT_ONCE, PT_PING, PT_STREAM, PT_OWN };

#define SECOND_NS UINT64_C(1000000000)

struct limits {
    uint64_t pace_ns;     /* a unit of the traffic's own pauses */
    uint64_t limit_ns;    /* between ends of operations of survivors, and until a death is noticed */
    uint64_t ending_ns;   /* from a target's death to the end of an operation on it */
    uint64_t patience_ns; /* for any operation */
};
static const struct limits live_limits = {SECOND_NS, 60 * SECOND_NS, 60 * SECOND_NS, 60 * SECOND_NS};
static const struct limits simulated_limits = {SECOND_NS / 100, SECOND_NS / 100, SECOND_NS / 100, SECOND_NS / 10};
static struct limits limits;
#define MEETING_NS (120 * SECOND_NS)
#define LIFE_NS (240 * SECOND_NS) /* no process of this test lives longer */

/* ---- The board ---------------------------------------------------------------------------------------- */

struct seat {
    _Atomic uint32_t generation;      /* of the victim with this id, from 1; 0: none yet */
    _Atomic uint32_t ready;           /* the last generation that began to send */
    _Atomic uint32_t host;            /* number of the rank's host, plus 1; 0: not started yet */
    _Atomic uint64_t died_ns[GENERATIONS_MAX];
};

struct board {
    _Atomic uint32_t done;     /* ranks whose victims are all dead */
    _Atomic uint32_t arrived[8]; /* survivors at each of their barriers */
    _Atomic uint32_t corrupt;  /* corrupt messages that any process found, victims included */
    _Atomic uint64_t streamed[SURVIVORS][2]; /* puts of each survivor to PT_OWN of the other, for each side */
    struct seat seats[RANKS_MAX];
};

static struct board *board;
static int rank, ranks;
static bool survivor, all_shared;
/* For a simulated job: how and when its ranks end (in the time of `now_ns`), and whether links lose packets. */
static bool simulated, lossy;
static char end_how[RANKS_MAX];
static uint64_t end_ns[RANKS_MAX];
static uint64_t born_ns, random_state;
static unsigned errors;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t random_next(void)
{
    return mix(random_state++);
}

static uint64_t random_below(uint64_t bound)
{
    return random_next() % bound;
}

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    if (++errors > 20)
        return;
    char text[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "ERROR rank %d at %.3f s: %s\n", rank, (double)(now_ns() - born_ns) * 1e-9, text);
}

#define OK(call)                                                     \
    do {                                                             \
        int code_ = (call);                                          \
        if (code_ != PTL_OK)                                         \
            complain("%s gave %d (line %d)", #call, code_, __LINE__); \
    } while (0)

/* ---- Payload ------------------------------------------------------------------------------------------ */

static void fill(void *memory, size_t bytes, uint64_t seed)
{
    unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = mix(seed + i);
        memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

static void check(const void *memory, size_t bytes, uint64_t seed, const char *what, uint64_t who)
{
    const unsigned char *at = memory;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = mix(seed + i);
        if (memcmp(at + i, &word, bytes - i < 8 ? bytes - i : 8) != 0) {
            atomic_fetch_add(&board->corrupt, 1);
            complain("corrupt: %s with rank %d, %zu bytes, from byte %zu on", what, (int)who, bytes, i);
            return;
        }
    }
}

/* ---- State of a process ------------------------------------------------------------------------------- */

enum op_kind { OP_NONE, OP_REGION_PUT, OP_REGION_GET, OP_ONCE, OP_FETCH, OP_ADD, OP_TRIGGERED };
static const char *const kind_names[] = {"none", "region put", "region get", "put", "fetch", "add", "triggered put"};

enum { WANT_SEND = 1, WANT_ACK = 2, WANT_REPLY = 4 };

struct operation {
    enum op_kind kind;
    int side, target;
    uint32_t sequence, generation;
    unsigned wanted;
    uint64_t started_ns, seed, bytes, threshold;
};

struct once {
    unsigned char *memory;
    ptl_handle_me_t handle;
    bool linked, told, unlinked;
};

struct overflow {
    unsigned char *memory;
    ptl_handle_me_t handle;
    bool in_use, unlinked;
};

/* An interface: side 0 matches, side 1 does not. */
struct side {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq, region_eq, ping_eq;
    ptl_handle_ct_t region_ct, chain_ct;
    ptl_handle_md_t md, md_ping;
    ptl_handle_me_t region, atomics, ping;
    unsigned char *source, *big, *sink, *region_memory, *ping_memory, *ping_source;
    uint64_t *atomic_memory;
    /* Small puts that are only counted: of all ranks (0), of survivors (1). */
    ptl_handle_ct_t stream_ct[2], stream_told, stream_fired;
    ptl_handle_md_t stream_md;
    ptl_handle_me_t stream[2];
    unsigned char *stream_memory[2], *stream_source;
    uint64_t streamed;
    struct operation operations[OPERATIONS];
    /* Our bytes in a peer's region, and our count in its atomics. */
    struct { bool known, busy; uint64_t seed, bytes; } there[RANKS_MAX];
    struct { bool known, busy; uint64_t value; } counted[RANKS_MAX];
    uint64_t region_ok;
    bool lossy_region;
};

static struct side sides[2];
static struct once onces[ONCE_ENTRIES];
static struct overflow overflows[OVERFLOW_ENTRIES];
static uint32_t sequence_next = 1;
/* Triggered operations that have completed. The process that ran one may die after it reported the completion; then a
 * second report comes late. */
enum { TRIGGERED_KNOWN = 1 << 14 };
static uint32_t triggered_ended[TRIGGERED_KNOWN];
/* Only survivors keep track of the bytes and counts at targets: a victim's knowledge is lost with it. */
static struct {
    uint64_t started, done, failed, received, unexpected, between, undeliverable_received, slowest_ns, dropped_events,
        refused, disabled, triggered, executor_died, reported_twice, gap_ns, noticed_ns, lost, streamed;
} tally;
static uint64_t own_ns, own_last_ns; /* time in which this process ran */
static uint64_t between_ns;          /* when the last operation with the other survivor completed, in own_ns */

static void *memory_new(size_t bytes, bool shared)
{
    void *memory = shared || all_shared ? selvedge_alloc(bytes) : aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (memory == NULL) {
        complain("no memory for %zu bytes", bytes);
        _exit(4);
    }
    memset(memory, 0, bytes);
    return memory;
}

static bool any(void)
{
    return random_next() & 1;
}

/* A NIC is named by its host's number and its rank. A simulated machine has one host in this sense. */
static ptl_process_t peer(int r)
{
    unsigned host = 0;
    while (!simulated && !(host = atomic_load(&board->seats[r].host)))
        usleep(1000);
    return (ptl_process_t){.phys = {.nid = host ? host - 1 : 0, .pid = (ptl_pid_t)r}};
}

static void append(int which, ptl_pt_index_t pt, void *memory, size_t bytes, unsigned options, ptl_handle_ct_t ct,
                   ptl_handle_me_t *handle)
{
    if (which == 0) {
        ptl_me_t me = {.start = memory, .length = bytes, .ct_handle = ct, .uid = PTL_UID_ANY, .options = options,
                       .match_id = {.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}}, .ignore_bits = ~UINT64_C(0)};
        OK(PtlMEAppend(sides[0].ni, pt, &me, PTL_PRIORITY_LIST, NULL, handle));
    } else {
        ptl_le_t le = {.start = memory, .length = bytes, .ct_handle = ct, .uid = PTL_UID_ANY, .options = options};
        OK(PtlLEAppend(sides[1].ni, pt, &le, PTL_PRIORITY_LIST, NULL, handle));
    }
}

static void append_stream(int which, ptl_pt_index_t own)
{
    struct side *s = &sides[which];
    append(which, PT_STREAM + own, s->stream_memory[own], (size_t)RANKS_MAX * STREAM_SLOT_BYTES,
           PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE | PTL_ME_EVENT_CT_COMM, s->stream_ct[own],
           &s->stream[own]);
}

static void post_once(struct once *entry)
{
    uint64_t pick = random_below(CLASSES);
    ptl_me_t me = {.start = entry->memory, .length = SLOT_BYTES, .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE,
                   .match_id = {.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}},
                   .match_bits = pick, .ignore_bits = random_below(8) == 0 ? ~UINT64_C(0) : 0};
    entry->linked = true;
    entry->told = entry->unlinked = false;
    OK(PtlMEAppend(sides[0].ni, PT_ONCE, &me, PTL_PRIORITY_LIST, entry, &entry->handle));
}

static void post_overflow(struct overflow *entry)
{
    ptl_me_t me = {.start = entry->memory, .length = OVERFLOW_BYTES, .ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_LINK_DISABLE,
                   .match_id = {.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}},
                   .ignore_bits = ~UINT64_C(0), .min_free = SLOT_BYTES};
    entry->in_use = true;
    entry->unlinked = false;
    OK(PtlMEAppend(sides[0].ni, PT_ONCE, &me, PTL_OVERFLOW_LIST, entry, &entry->handle));
}

static void open_side(int which)
{
    struct side *s = &sides[which];
    ptl_ni_limits_t limits = {.max_entries = 256, .max_unexpected_headers = 256, .max_mds = 16, .max_cts = 16,
                              .max_eqs = 16, .max_pt_index = 63, .max_iovecs = 8, .max_list_size = 256,
                              .max_triggered_ops = 64, .max_msg_size = 1 << 24, .max_atomic_size = 4096,
                              .max_fetch_atomic_size = 4096, .max_waw_ordered_size = 64, .max_war_ordered_size = 64,
                              .max_volatile_size = 64};
    unsigned kind = which == 0 ? PTL_NI_MATCHING : PTL_NI_NO_MATCHING;
    int code = PtlNIInit(PTL_IFACE_DEFAULT, kind | PTL_NI_PHYSICAL, (ptl_pid_t)rank, &limits, NULL, &s->ni);
    if (code != PTL_OK) {
        complain("PtlNIInit gave %d", code);
        _exit(4);
    }
    OK(PtlEQAlloc(s->ni, 1024, &s->eq));
    OK(PtlEQAlloc(s->ni, 256, &s->region_eq));
    OK(PtlEQAlloc(s->ni, 64, &s->ping_eq));
    OK(PtlCTAlloc(s->ni, &s->region_ct));
    OK(PtlCTAlloc(s->ni, &s->chain_ct));
    ptl_pt_index_t pt;
    OK(PtlPTAlloc(s->ni, 0, which == 0 ? PTL_EQ_NONE : s->region_eq, PT_REGION, &pt));
    OK(PtlPTAlloc(s->ni, 0, PTL_EQ_NONE, PT_ATOMIC, &pt));
    OK(PtlPTAlloc(s->ni, 0, s->ping_eq, PT_PING, &pt));
    s->source = memory_new((size_t)OPERATIONS * SLOT_BYTES + REGION_BYTES, any());
    s->big = s->source + (size_t)OPERATIONS * SLOT_BYTES;
    s->sink = memory_new(REGION_BYTES + 4096, any());
    s->region_memory = memory_new((size_t)(ranks + 1) * REGION_BYTES, any());
    s->atomic_memory = memory_new(4096, any());
    s->ping_memory = memory_new(4096, any());
    s->ping_source = memory_new(4096, any());
    ptl_md_t md = {.start = NULL, .length = PTL_SIZE_MAX, .eq_handle = s->eq, .ct_handle = PTL_CT_NONE};
    OK(PtlMDBind(s->ni, &md, &s->md));
    md.eq_handle = PTL_EQ_NONE;
    OK(PtlMDBind(s->ni, &md, &s->md_ping));
    unsigned both = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE;
    append(which, PT_REGION, s->region_memory, (size_t)(ranks + 1) * REGION_BYTES, both | PTL_ME_EVENT_CT_COMM, s->region_ct,
           &s->region);
    append(which, PT_ATOMIC, s->atomic_memory, 4096, both, PTL_CT_NONE, &s->atomics);
    append(which, PT_PING, s->ping_memory, 4096, both, PTL_CT_NONE, &s->ping);
    s->stream_source = memory_new(64, true);
    OK(PtlCTAlloc(s->ni, &s->stream_told));
    OK(PtlCTAlloc(s->ni, &s->stream_fired));
    ptl_md_t stream = {.start = s->stream_source, .length = 64, .eq_handle = PTL_EQ_NONE, .ct_handle = s->stream_told,
                       .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_ACK};
    OK(PtlMDBind(s->ni, &stream, &s->stream_md));
    for (ptl_pt_index_t own = 0; own < 2; own++) {
        s->stream_memory[own] = memory_new((size_t)RANKS_MAX * STREAM_SLOT_BYTES, true);
        OK(PtlCTAlloc(s->ni, &s->stream_ct[own]));
        OK(PtlPTAlloc(s->ni, 0, PTL_EQ_NONE, PT_STREAM + own, &pt));
        append_stream(which, own);
    }
}

static void open_all(void)
{
    OK(PtlInit());
    open_side(0);
    open_side(1);
    ptl_pt_index_t pt;
    OK(PtlPTAlloc(sides[0].ni, PTL_PT_FLOWCTRL, sides[0].eq, PT_ONCE, &pt));
    for (int i = 0; i < OVERFLOW_ENTRIES; i++) {
        overflows[i].memory = memory_new(OVERFLOW_BYTES, any());
        post_overflow(&overflows[i]);
    }
    for (int i = 0; i < ONCE_ENTRIES; i++) {
        onces[i].memory = memory_new(SLOT_BYTES, any());
        post_once(&onces[i]);
    }
}

/* ---- Operations --------------------------------------------------------------------------------------- */

/* True if this victim is known to be dead. */
static bool has_died(int target, uint32_t generation)
{
    if (end_how[target] == 'k')
        return now_ns() >= end_ns[target];
    return generation != 0 && atomic_load(&board->seats[target].died_ns[generation]) != 0;
}

static uint32_t generation_of(int target)
{
    return target < SURVIVORS ? 0 : atomic_load(&board->seats[target].generation);
}

static struct operation *operation_new(int which, enum op_kind kind, int target, unsigned wanted)
{
    struct side *s = &sides[which];
    for (int i = 0; i < OPERATIONS; i++) {
        struct operation *op = &s->operations[i];
        if (op->kind != OP_NONE)
            continue;
        *op = (struct operation){.kind = kind, .side = which, .target = target, .sequence = sequence_next++,
                                 .generation = generation_of(target), .wanted = wanted, .started_ns = own_ns,
                                 .seed = random_next()};
        tally.started++;
        return op;
    }
    return NULL;
}

static void *tag_of(struct operation *op)
{
    return (void *)((uintptr_t)op->sequence << 8 | (uintptr_t)(op - sides[op->side].operations));
}

/* Lengths from 1 byte to 64 KiB, short ones as likely as long ones. */
static size_t random_bytes(void)
{
    return 1 + random_below(UINT64_C(1) << random_below(17));
}

static size_t slot_offset(struct operation *op)
{
    return (size_t)(op - sides[op->side].operations) * SLOT_BYTES;
}

/* Descriptors cover all memory: the offset into a descriptor is the address. */
static ptl_size_t address(const void *memory)
{
    return (ptl_size_t)(uintptr_t)memory;
}

/* True if the one long buffer or the one long sink of a side is in use. */
static bool long_one_under_way(const struct side *s)
{
    for (int i = 0; i < OPERATIONS; i++)
        if (s->operations[i].kind != OP_NONE && s->operations[i].bytes > SLOT_BYTES)
            return true;
    return false;
}

static bool start_region(int which, int target)
{
    struct side *s = &sides[which];
    if (s->there[target].busy)
        return false;
    bool busy = long_one_under_way(s);
    bool gets = s->there[target].known && !(busy && s->there[target].bytes > SLOT_BYTES) && any();
    struct operation *op =
        operation_new(which, gets ? OP_REGION_GET : OP_REGION_PUT, target, gets ? WANT_REPLY : WANT_SEND | WANT_ACK);
    if (op == NULL)
        return false;
    s->there[target].busy = true;
    ptl_size_t there = (ptl_size_t)rank * REGION_BYTES;
    if (gets) {
        op->bytes = s->there[target].bytes;
        unsigned char *sink = op->bytes > SLOT_BYTES ? s->sink : s->source + slot_offset(op);
        OK(PtlGet(s->md, address(sink), op->bytes, peer(target), PT_REGION, 0, there, tag_of(op)));
        return true;
    }
    op->bytes = !busy && random_below(64) == 0 ? 1 + random_below(REGION_BYTES) : random_bytes();
    unsigned char *source = op->bytes > SLOT_BYTES ? s->big : s->source + slot_offset(op);
    fill(source, op->bytes, op->seed);
    OK(PtlPut(s->md, address(source), op->bytes, PTL_ACK_REQ, peer(target), PT_REGION, 0, there, tag_of(op), op->seed));
    return true;
}

static bool start_once(int target)
{
    struct operation *op = operation_new(0, OP_ONCE, target, WANT_SEND | WANT_ACK);
    if (op == NULL)
        return false;
    op->bytes = random_bytes();
    unsigned char *source = sides[0].source + slot_offset(op);
    fill(source, op->bytes, op->seed);
    OK(PtlPut(sides[0].md, address(source), op->bytes, PTL_ACK_REQ, peer(target), PT_ONCE, random_below(CLASSES + 1), 0,
              tag_of(op), op->seed));
    return true;
}

static bool start_atomic(int which, int target, bool fetches)
{
    struct side *s = &sides[which];
    if (s->counted[target].busy)
        return false;
    struct operation *op = operation_new(which, fetches ? OP_FETCH : OP_ADD, target,
                                         WANT_SEND | (fetches ? WANT_REPLY : WANT_ACK));
    if (op == NULL)
        return false;
    s->counted[target].busy = true;
    op->bytes = 8;
    uint64_t *one = (uint64_t *)(void *)(s->source + slot_offset(op));
    one[0] = 1;
    one[1] = 0;
    ptl_size_t there = (ptl_size_t)rank * 8;
    if (fetches)
        OK(PtlFetchAtomic(s->md, address(&one[1]), s->md, address(&one[0]), 8, peer(target), PT_ATOMIC, 0, there,
                          tag_of(op), 0, PTL_SUM, PTL_UINT64_T));
    else
        OK(PtlAtomic(s->md, address(&one[0]), 8, PTL_ACK_REQ, peer(target), PT_ATOMIC, 0, there, tag_of(op), 0, PTL_SUM,
                     PTL_UINT64_T));
    return true;
}

/* Starts a put that any message to our region triggers, sometimes through a second counter. Its target is the last part of
 * the peer's region, which is not checked. */
static bool start_triggered(int which, int target)
{
    struct side *s = &sides[which];
    int armed = 0;
    for (int i = 0; i < OPERATIONS; i++)
        armed += s->operations[i].kind == OP_TRIGGERED;
    if (armed >= TRIGGERED)
        return false;
    struct operation *op = operation_new(which, OP_TRIGGERED, target, WANT_SEND | WANT_ACK);
    if (op == NULL)
        return false;
    ptl_ct_event_t now;
    OK(PtlCTGet(s->region_ct, &now));
    op->bytes = random_bytes();
    op->threshold = now.success + now.failure + 1 + random_below(4);
    unsigned char *source = s->source + slot_offset(op);
    fill(source, op->bytes, op->seed);
    tally.triggered++;
    ptl_handle_ct_t trigger = s->region_ct;
    ptl_size_t threshold = op->threshold;
    if (any()) {
        ptl_ct_event_t chain, one = {.success = 1};
        OK(PtlCTGet(s->chain_ct, &chain));
        OK(PtlTriggeredCTInc(s->chain_ct, one, s->region_ct, threshold));
        trigger = s->chain_ct;
        threshold = chain.success + 1;
    }
    OK(PtlTriggeredPut(s->md, address(source), op->bytes, PTL_ACK_REQ, peer(target), PT_REGION, 0,
                       (ptl_size_t)ranks * REGION_BYTES, tag_of(op), 0, trigger, threshold));
    return true;
}

/* True if the puts of streams have completed, except for at most `but` of them. */
static bool stream_is_told(const struct side *s, uint64_t but)
{
    ptl_ct_event_t told = {0};
    OK(PtlCTGet(s->stream_told, &told));
    return told.success + told.failure + 2 * but >= 2 * s->streamed;
}

static void start_stream(int which, int target, unsigned puts)
{
    struct side *s = &sides[which];
    if (target == rank)
        return;
    ptl_pt_index_t own = survivor && target < SURVIVORS && any();
    for (; puts > 0 && stream_is_told(s, STREAM_UNDER_WAY); puts--) {
        if (own) {
            uint64_t number = atomic_fetch_add(&board->streamed[rank][which], 1) + 1;
            memcpy(s->stream_source, &number, 8);
        }
        s->streamed++;
        OK(PtlPut(s->stream_md, 0, 8, PTL_CT_ACK_REQ, peer(target), PT_STREAM + own, 0, (ptl_size_t)rank * STREAM_SLOT_BYTES,
                  NULL, 0));
    }
}

static void disturb_streams(void)
{
    struct side *s = &sides[any()];
    int which = s == &sides[1];
    ptl_ct_event_t now, one = {.success = 1};
    ptl_handle_ct_t ct = s->stream_ct[any()];
    OK(PtlCTGet(ct, &now));
    switch (random_below(4)) {
    case 0: OK(PtlTriggeredCTInc(s->stream_fired, one, ct, now.success + now.failure + random_below(50))); break;
    case 1: OK(PtlCTCancelTriggered(ct)); break;
    case 2:
        OK(PtlPTDisable(s->ni, PT_STREAM));
        OK(PtlPTEnable(s->ni, PT_STREAM));
        break;
    default: {
        unsigned char before[RANKS_MAX * STREAM_SLOT_BYTES];
        OK(which == 0 ? PtlMEUnlink(s->stream[0]) : PtlLEUnlink(s->stream[0]));
        memcpy(before, s->stream_memory[0], sizeof before);
        OK(PtlCTGet(s->stream_ct[0], &now));
        for (int i = 0; i < 200; i++) {
            ptl_ct_event_t then = {0};
            OK(PtlCTGet(s->stream_ct[0], &then));
            if (then.success != now.success || memcmp(before, s->stream_memory[0], sizeof before) != 0) {
                complain("a put reached an unlinked entry");
                break;
            }
        }
        append_stream(which, 0);
    }
    }
}

/* Checks rule 5, after a barrier of the survivors, while none sends. */
static void check_streams(void)
{
    for (int which = 0; which < 2; which++) {
        struct side *s = &sides[which];
        ptl_ct_event_t told = {0}, arrived = {0};
        OK(PtlCTGet(s->stream_told, &told));
        OK(PtlCTGet(s->stream_ct[1], &arrived));
        uint64_t wanted = atomic_load(&board->streamed[1 - rank][which]), last = 0;
        memcpy(&last, s->stream_memory[1] + (1 - rank) * STREAM_SLOT_BYTES, 8);
        if (told.success + told.failure != 2 * s->streamed)
            complain("side %d: %zu of %zu puts of streams completed", which, (size_t)(told.success + told.failure),
                     (size_t)(2 * s->streamed));
        if ((!lossy && (arrived.success != wanted || last != wanted)) || arrived.success > wanted || arrived.failure != 0)
            complain("side %d: %zu puts of %zu of the survivor's stream are counted, the last is %zu", which,
                     (size_t)arrived.success, (size_t)wanted, (size_t)last);
        tally.streamed += s->streamed;
    }
}

static int random_target(void)
{
    if (survivor)
        return random_below(3) == 0 ? 1 - rank : (int)random_below((uint64_t)ranks);
    return random_below(8) != 0 ? (int)random_below(SURVIVORS) : (int)random_below((uint64_t)ranks);
}

static void start_something(void)
{
    int which = any(), target = random_target();
    switch (random_below(10)) {
    case 0: start_region(which, target); break;
    case 1: start_atomic(which, target, true); break;
    case 2: start_atomic(which, target, false); break;
    case 3:
        if (target != rank)
            start_triggered(which, target);
        break;
    case 4:
    case 5: start_once(target); break;
    case 6: start_stream(which, target, (unsigned)random_below(200)); break;
    case 7:
        if (survivor && random_below(32) == 0)
            disturb_streams();
        else
            start_stream(which, target, (unsigned)random_below(200));
        break;
    default: start_region(which, target); break;
    }
}

/* ---- Events ------------------------------------------------------------------------------------------- */

static void operation_ended(struct operation *op, const ptl_event_t *ev)
{
    struct side *s = &sides[op->side];
    bool ok = ev->ni_fail_type == PTL_NI_OK;
    bool same = op->target < SURVIVORS;
    bool undeliverable = ev->ni_fail_type == PTL_NI_UNDELIVERABLE;
    if (op->target < SURVIVORS && op->kind == OP_TRIGGERED && undeliverable && !simulated) {
        tally.executor_died++; /* a victim ran it: a triggered operation runs at most once */
    } else if (op->target < SURVIVORS && undeliverable && lossy) {
        tally.lost++;
    } else if (op->target >= SURVIVORS && undeliverable && simulated && !lossy && op->generation != 0
               && !has_died(op->target, op->generation)) {
        complain("a %s to rank %d failed before it died", kind_names[op->kind], op->target);
    } else if (op->target < SURVIVORS && !ok) {
        bool flow = op->kind == OP_ONCE && (ev->ni_fail_type == PTL_NI_PT_DISABLED || ev->ni_fail_type == PTL_NI_DROPPED);
        if (flow)
            tally.refused++;
        else
            complain("a %s to survivor %d failed with %d", kind_names[op->kind], op->target, ev->ni_fail_type);
    }
    switch (op->kind) {
    case OP_REGION_PUT:
        s->there[op->target].busy = false;
        s->there[op->target].known = ok;
        s->there[op->target].seed = op->seed;
        s->there[op->target].bytes = op->bytes;
        if (ok && ev->mlength != op->bytes)
            complain("a region put of %zu bytes moved %zu", (size_t)op->bytes, (size_t)ev->mlength);
        break;
    case OP_REGION_GET:
        s->there[op->target].busy = false;
        if (ok && same && ev->mlength != op->bytes)
            complain("a get of %zu bytes gave %zu", (size_t)op->bytes, (size_t)ev->mlength);
        if (ok && same)
            check(op->bytes > SLOT_BYTES ? s->sink : s->source + slot_offset(op), op->bytes, s->there[op->target].seed,
                  "a get", (uint64_t)op->target);
        if (!ok)
            s->there[op->target].known = false;
        break;
    case OP_FETCH:
    case OP_ADD: {
        uint64_t *words = (uint64_t *)(void *)(s->source + slot_offset(op));
        bool known = s->counted[op->target].known && same;
        s->counted[op->target].busy = false;
        if (op->kind == OP_FETCH && ok) {
            if (known && words[1] != s->counted[op->target].value)
                complain("a fetch-and-add at rank %d gave %zu instead of %zu", op->target, (size_t)words[1],
                         (size_t)s->counted[op->target].value);
            s->counted[op->target].value = words[1] + 1;
            s->counted[op->target].known = same;
        } else {
            s->counted[op->target].value++;
            s->counted[op->target].known = known && ok;
        }
        break;
    }
    default: break;
    }
    if (op->target < SURVIVORS && op->target != rank) {
        tally.between++;
        between_ns = own_ns;
    }
    tally.done++;
    tally.failed += !ok;
    if (op->kind == OP_TRIGGERED)
        triggered_ended[op->sequence % TRIGGERED_KNOWN] = op->sequence;
    op->kind = OP_NONE;
}

static void initiator_event(int which, const ptl_event_t *ev)
{
    uintptr_t tag = (uintptr_t)ev->user_ptr;
    struct operation *op = &sides[which].operations[tag & 0xff & (OPERATIONS - 1)];
    unsigned what = ev->type == PTL_EVENT_SEND ? WANT_SEND : ev->type == PTL_EVENT_ACK ? WANT_ACK : WANT_REPLY;
    bool is_over = op->kind == OP_NONE || op->sequence != tag >> 8;
    bool once_triggered = is_over && triggered_ended[(tag >> 8) % TRIGGERED_KNOWN] == tag >> 8;
    if (once_triggered && what == WANT_ACK && ev->ni_fail_type == PTL_NI_UNDELIVERABLE) {
        tally.reported_twice++;
        return;
    }
    if (op->kind == OP_NONE || op->sequence != tag >> 8 || (op->wanted & what) == 0) {
        complain("side %d: event %d (fail %d) of operation %zu, which had it already (now %s, wants %u)", which, ev->type,
                 ev->ni_fail_type, (size_t)(tag >> 8), kind_names[op->kind], op->wanted);
        return;
    }
    op->wanted &= ~what;
    /* SEND and ACK may arrive in any order; the ACK decides the result of the operation. */
    static ptl_event_t answers[2][OPERATIONS];
    int index = (int)(op - sides[which].operations);
    if (what != WANT_SEND)
        answers[which][index] = *ev;
    if (op->wanted == 0)
        operation_ended(op, &answers[which][index]);
}

static void once_event(const ptl_event_t *ev)
{
    struct overflow *overflow = NULL;
    for (int i = 0; i < OVERFLOW_ENTRIES; i++)
        if (ev->user_ptr == &overflows[i])
            overflow = &overflows[i];
    struct once *entry = overflow ? NULL : ev->user_ptr;
    if (ev->type == PTL_EVENT_PT_DISABLED) {
        tally.disabled++;
        return;
    }
    if (!overflow && (entry < onces || entry >= onces + ONCE_ENTRIES)) {
        complain("event %d (fail %d, %zu bytes from %u, list %d, bits %zu, start %p) has an unknown user_ptr: %p",
                 ev->type, ev->ni_fail_type, (size_t)ev->mlength, ev->initiator.phys.pid, ev->ptl_list,
                 (size_t)ev->match_bits, ev->start, ev->user_ptr);
        return;
    }
    switch (ev->type) {
    case PTL_EVENT_PUT:
        if (overflow) {
            tally.unexpected++;
            if (ev->ni_fail_type == PTL_NI_OK)
                check(ev->start, ev->mlength, ev->hdr_data, "an unexpected message", ev->initiator.phys.pid);
            break;
        }
        if (!entry->linked || entry->told)
            complain("an entry used once was used twice");
        entry->told = true;
        if (ev->ni_fail_type == PTL_NI_OK) {
            tally.received++;
            if (ev->start != entry->memory || ev->mlength != ev->rlength)
                complain("a put was truncated: %zu of %zu", (size_t)ev->mlength, (size_t)ev->rlength);
            check(ev->start, ev->mlength, ev->hdr_data, "a message", ev->initiator.phys.pid);
        } else {
            tally.undeliverable_received++;
            if (ev->initiator.phys.pid < SURVIVORS)
                complain("a message of survivor %d arrived with failure %d", ev->initiator.phys.pid, ev->ni_fail_type);
        }
        break;
    case PTL_EVENT_PUT_OVERFLOW:
        if (overflow || !entry->linked || entry->told) {
            complain("an entry used once took a header twice");
            break;
        }
        entry->told = true;
        tally.received++;
        check(ev->start, ev->mlength, ev->hdr_data, "a claimed message", ev->initiator.phys.pid);
        break;
    case PTL_EVENT_AUTO_UNLINK:
        if (overflow) {
            if (overflow->unlinked)
                complain("an overflow entry was unlinked twice");
            overflow->unlinked = true;
            break;
        }
        if (!entry->linked || entry->unlinked)
            complain("an entry used once was unlinked twice");
        entry->unlinked = true;
        if (!entry->told)
            complain("AUTO_UNLINK without the message's event");
        entry->linked = false;
        break;
    case PTL_EVENT_AUTO_FREE:
        if (!overflow || !overflow->in_use || !overflow->unlinked)
            complain("AUTO_FREE out of turn");
        else
            overflow->in_use = false;
        break;
    default: complain("an event of kind %d on the queue of messages", ev->type);
    }
}

static bool closing; /* used-up entries are not appended again */

static bool take_events(int which, unsigned timeout_ms)
{
    struct side *s = &sides[which];
    ptl_event_t ev;
    bool found = false;
    for (int n = 0; n < 64; n++) {
        int code;
        if (timeout_ms != 0 && n == 0) {
            ptl_handle_eq_t queues[2] = {s->eq, s->region_eq};
            unsigned index;
            code = PtlEQPoll(queues, 2, timeout_ms, &ev, &index);
            if ((code == PTL_OK || code == PTL_EQ_DROPPED) && index == 1)
                continue;
        } else {
            code = PtlEQGet(s->eq, &ev);
        }
        if (code == PTL_EQ_EMPTY)
            break;
        if (code == PTL_EQ_DROPPED)
            tally.dropped_events++;
        else if (code != PTL_OK) {
            complain("PtlEQGet gave %d", code);
            break;
        }
        found = true;
        if (ev.type == PTL_EVENT_SEND || ev.type == PTL_EVENT_ACK || ev.type == PTL_EVENT_REPLY)
            initiator_event(which, &ev);
        else
            once_event(&ev);
    }
    /* Messages to the region overwrite each other's data; each received event must be whole. */
    for (int n = 0; which == 1 && n < 64; n++) {
        int code = PtlEQGet(s->region_eq, &ev);
        if (code != PTL_OK && code != PTL_EQ_DROPPED)
            break;
        if (ev.initiator.phys.pid >= (ptl_pid_t)ranks || ev.mlength > REGION_BYTES || ev.pt_index != PT_REGION
            || (ev.type != PTL_EVENT_PUT && ev.type != PTL_EVENT_GET))
            complain("an event of the region is not whole: kind %d, pid %u, %zu bytes", ev.type, ev.initiator.phys.pid,
                     (size_t)ev.mlength);
    }
    return found;
}

static void repost(void)
{
    static uint64_t disabled_seen;
    for (int i = 0; i < ONCE_ENTRIES && !closing; i++)
        if (!onces[i].linked)
            post_once(&onces[i]);
    for (int i = 0; i < OVERFLOW_ENTRIES && !closing; i++)
        if (!overflows[i].in_use)
            post_overflow(&overflows[i]);
    if (tally.disabled != disabled_seen) {
        disabled_seen = tally.disabled;
        OK(PtlPTEnable(sides[0].ni, PT_ONCE));
    }
}

/* ---- The survivors' watch ----------------------------------------------------------------------------- */

static void tick_own_time(void)
{
    uint64_t now = now_ns(), step = now - own_last_ns;
    own_ns += step < 20000000 ? step : 20000000;
    own_last_ns = now;
}

/* Checks rule 2: no operation stays open. */
static unsigned watch(void)
{
    unsigned open = 0;
    for (int which = 0; which < 2; which++) {
        struct side *s = &sides[which];
        ptl_ct_event_t reached = {0};
        OK(PtlCTGet(s->region_ct, &reached));
        for (int i = 0; i < OPERATIONS; i++) {
            struct operation *op = &s->operations[i];
            if (op->kind == OP_NONE)
                continue;
            if (op->kind == OP_TRIGGERED && reached.success + reached.failure < op->threshold) {
                op->started_ns = own_ns; /* not due yet */
                continue;
            }
            open++;
            bool dead = op->target >= SURVIVORS && has_died(op->target, op->generation);
            if (!dead && op->generation != 0 && own_ns - op->started_ns < limits.patience_ns) {
                op->threshold = op->kind == OP_TRIGGERED ? op->threshold : own_ns; /* last seen with a living target */
                continue;
            }
            uint64_t since = op->kind != OP_TRIGGERED && op->threshold > op->started_ns ? op->threshold : op->started_ns;
            uint64_t age = own_ns - since;
            if (dead && age > tally.slowest_ns)
                tally.slowest_ns = age;
            if (age > (dead ? limits.ending_ns : limits.patience_ns)) {
                complain("side %d: a %s of %zu bytes to rank %d (generation %u, %s) has not ended: wants %u", which,
                         kind_names[op->kind], (size_t)op->bytes, op->target, op->generation, dead ? "dead" : "alive",
                         op->wanted);
                op->kind = OP_NONE;
            }
        }
    }
    return open;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&t, NULL);
}

static void turn(void)
{
    static unsigned count;
    count++;
    int which = any();
    bool found = take_events(which, 0) | take_events(1 - which, 0);
    repost();
    if (!found && random_below(simulated ? 512 : 64) == 0)
        take_events(any(), 1 + (unsigned)random_below(3));
    /* The simulator gives fewer turns to a process that polls in vain, so this one sleeps. */
    if (!found && simulated)
        sleep_ns(500 + random_below(4000));
    if (count % 64 == 0) {
        tick_own_time();
        if (now_ns() - born_ns > LIFE_NS) {
            complain("out of time");
            _exit(5);
        }
    }
}

/* When all victims are dead, operations to their ids must begin to fail: the library notices a death despite few messages
 * to it. */
static void notice_the_dead(void)
{
    uint64_t began = own_ns, since = began;
    for (int dead = SURVIVORS; dead < ranks; dead++) {
        if (simulated)
            since = own_ns; /* one turn may take a third of the limit */
        bool noticed = false;
        while (!noticed && own_ns - since < limits.limit_ns) {
            uint64_t failed = tally.failed;
            if (start_atomic(any(), dead, any()))
                for (uint64_t until = own_ns + limits.pace_ns / 500; own_ns < until;)
                    turn();
            noticed = tally.failed != failed;
            turn();
        }
        if (!noticed)
            complain("rank %d has died, and operations there still succeed", dead);
    }
    tally.noticed_ns = own_ns - began;
}

/* Survivors wait here for each other, and make progress for others meanwhile. */
static void meet(int point)
{
    atomic_fetch_add(&board->arrived[point], 1);
    uint64_t since = now_ns();
    while (atomic_load(&board->arrived[point]) < SURVIVORS) {
        turn();
        if (now_ns() - since > MEETING_NS) {
            complain("the other survivor did not reach point %d", point);
            _exit(5);
        }
    }
}

static void ping_pong(void)
{
    struct side *s = &sides[0];
    for (unsigned i = 0; i < PINGS; i++) {
        int which = (int)(i / 8 % 2);
        s = &sides[which];
        size_t bytes = 1 + i * 13 % 4096;
        for (int sender = 0; sender < SURVIVORS; sender++) {
            uint64_t seed = mix(2 * i + (unsigned)sender);
            if (sender == rank) {
                fill(s->ping_source, bytes, seed);
                OK(PtlPut(s->md_ping, address(s->ping_source), bytes, PTL_NO_ACK_REQ, peer(1 - rank), PT_PING, 0, 0,
                          NULL, seed));
                continue;
            }
            ptl_event_t ev;
            unsigned index;
            int code = PtlEQPoll(&s->ping_eq, 1, 5000, &ev, &index);
            if (code != PTL_OK || ev.type != PTL_EVENT_PUT || ev.hdr_data != seed || ev.mlength != bytes
                || ev.ni_fail_type != PTL_NI_OK) {
                complain("ping %u: code %d, kind %d, %zu bytes", i, code, ev.type, (size_t)ev.mlength);
                return;
            }
            check(s->ping_memory, bytes, seed, "a ping", (uint64_t)sender);
        }
    }
}

/* Checks rule 6. Every linked entry can be unlinked. One that cannot had unexpected headers, or unlinked itself and must
 * have posted an event. */
static void take_down(void)
{
    closing = true;
    for (int i = 0; i < 20; i++)
        turn();
    for (int i = 0; i < ONCE_ENTRIES; i++) {
        if (!onces[i].linked)
            continue;
        int code = PtlMEUnlink(onces[i].handle);
        if (code != PTL_OK)
            complain("an entry used once is not linked, and has no event: PtlMEUnlink gave %d", code);
    }
    /* Takes the headers that no entry matched. */
    ptl_me_t all = {.uid = PTL_UID_ANY, .options = PTL_ME_OP_PUT | PTL_ME_EVENT_OVER_DISABLE, .ct_handle = PTL_CT_NONE,
                    .match_id = {.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}}, .ignore_bits = ~UINT64_C(0)};
    OK(PtlMESearch(sides[0].ni, PT_ONCE, &all, PTL_SEARCH_DELETE, NULL));
    for (int i = 0; i < OVERFLOW_ENTRIES; i++) {
        if (!overflows[i].in_use)
            continue;
        int code = PtlMEUnlink(overflows[i].handle);
        if (code != PTL_OK && !(code == PTL_ARG_INVALID && overflows[i].unlinked)) {
            ptl_event_t ev;
            while (PtlEQGet(sides[0].eq, &ev) == PTL_OK)
                if (ev.type == PTL_EVENT_AUTO_UNLINK && ev.user_ptr == &overflows[i])
                    code = PTL_OK;
            if (code != PTL_OK)
                complain("an overflow entry cannot be unlinked: %d", code);
        }
    }
    OK(PtlPTFree(sides[0].ni, PT_ONCE));
    for (int which = 0; which < 2; which++) {
        struct side *s = &sides[which];
        OK(PtlCTCancelTriggered(s->region_ct));
        OK(PtlCTCancelTriggered(s->chain_ct));
        ptl_handle_me_t entries[] = {s->region, s->atomics, s->ping, s->stream[0], s->stream[1]};
        ptl_pt_index_t indices[] = {PT_REGION, PT_ATOMIC, PT_PING, PT_STREAM, PT_OWN};
        for (int i = 0; i < 5; i++) {
            OK(which == 0 ? PtlMEUnlink(entries[i]) : PtlLEUnlink(entries[i]));
            OK(PtlPTFree(s->ni, indices[i]));
        }
        OK(PtlMDRelease(s->md));
        OK(PtlMDRelease(s->md_ping));
        OK(PtlMDRelease(s->stream_md));
        OK(PtlCTFree(s->stream_ct[0]));
        OK(PtlCTFree(s->stream_ct[1]));
        OK(PtlCTFree(s->stream_told));
        OK(PtlCTFree(s->stream_fired));
        OK(PtlCTFree(s->region_ct));
        OK(PtlCTFree(s->chain_ct));
        OK(PtlEQFree(s->eq));
        OK(PtlEQFree(s->region_eq));
        OK(PtlEQFree(s->ping_eq));
        OK(PtlNIFini(s->ni));
    }
    PtlFini();
}

static int survive(bool ranks_die, uint64_t life_ns)
{
    open_all();
    meet(0);
    own_ns = own_last_ns = now_ns();
    between_ns = own_ns;
    uint64_t began = own_ns, stop = 0;
    while (stop == 0 || own_ns < stop) {
        turn();
        start_something();
        static unsigned count;
        if (++count % 256 == 0) {
            watch();
            if (own_ns - between_ns > tally.gap_ns)
                tally.gap_ns = own_ns - between_ns;
            bool over = ranks_die ? own_ns - began > life_ns : atomic_load(&board->done) == (unsigned)(ranks - SURVIVORS);
            if (stop == 0 && over)
                stop = own_ns + limits.pace_ns / 20;
        }
    }
    if (tally.gap_ns > limits.limit_ns)
        complain("for %zu ms no operation between survivors ended", (size_t)(tally.gap_ns / 1000000));
    for (uint64_t since = own_ns; watch() != 0 && own_ns - since < limits.ending_ns + limits.limit_ns;)
        for (int i = 0; i < 64; i++)
            turn();
    if (watch() != 0)
        complain("%u operations are still open at the end", watch());
    for (uint64_t since = own_ns; own_ns - since < 2 * limits.limit_ns && !(stream_is_told(&sides[0], 0) && stream_is_told(&sides[1], 0));)
        for (int i = 0; i < 64; i++)
            turn();
    notice_the_dead();
    meet(1);
    check_streams();
    ping_pong();
    meet(2);
    take_down();
    printf("summary rank=%d errors=%u corrupt=%u started=%zu done=%zu failed=%zu between=%zu received=%zu unexpected=%zu "
           "triggered=%zu half_messages=%zu refused=%zu disabled=%zu dropped_events=%zu slowest_ms=%zu gap_ms=%zu "
           "executor_died=%zu reported_twice=%zu noticed_ms=%zu lost=%zu streamed=%zu\n",
           rank, errors, atomic_load(&board->corrupt), (size_t)tally.started, (size_t)tally.done, (size_t)tally.failed,
           (size_t)tally.between, (size_t)tally.received, (size_t)tally.unexpected, (size_t)tally.triggered,
           (size_t)tally.undeliverable_received, (size_t)tally.refused, (size_t)tally.disabled,
           (size_t)tally.dropped_events, (size_t)(tally.slowest_ns / 1000000), (size_t)(tally.gap_ns / 1000000), (size_t)tally.executor_died,
           (size_t)tally.reported_twice, (size_t)(tally.noticed_ns / 1000000), (size_t)tally.lost,
           (size_t)tally.streamed);
    fflush(stdout);
    return errors != 0 || atomic_load(&board->corrupt) != 0;
}

/* ---- Victims ------------------------------------------------------------------------------------------ */

/* Starts one operation that changes a survivor's tables; `which` selects its kind. */
static void step_operation(unsigned which)
{
    int target = (int)(which / 16 % SURVIVORS);
    switch (which % 8) {
    case 0: start_once(target); break;
    case 1: start_region(0, target); break;
    case 2: start_region(1, target); break;
    case 3: start_atomic((int)(which / 8 % 2), target, true); break;
    case 4: start_once(target); break;
    case 5: start_atomic((int)(which / 8 % 2), target, false); break;
    case 6: start_stream((int)(which / 8 % 2), target, 6); break;
    default: start_region((int)(which / 8 % 2), target); break;
    }
}

static void end_myself(void)
{
    struct rlimit none = {0};
    volatile char *read_only = mmap(NULL, 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    setrlimit(RLIMIT_CORE, &none);
    atomic_store(&board->seats[rank].died_ns[1], now_ns());
    switch (end_how[rank]) {
    case 's': kill(getpid(), SIGKILL); break;
    case 'v':
        signal(SIGSEGV, SIG_DFL);
        *read_only = 1;
        break;
    case 'e': _exit(3);
    default: exit(0);
    }
}

_Noreturn static void be_victim(uint32_t generation, bool stepped, unsigned which)
{
    struct seat *seat = &board->seats[rank];
    open_all();
    own_ns = own_last_ns = now_ns();
    if (stepped) {
        for (int i = 0; i < 20; i++) {
            turn();
            start_something();
        }
        for (int i = 0; i < 2 * SURVIVORS; i++) /* so that the victim has grants */
            for (int n = 0; n < 10; n++) {
                start_stream(i / SURVIVORS, i % SURVIVORS, STREAM_UNDER_WAY);
                turn();
            }
        atomic_store(&seat->ready, generation);
        for (;;) {
            raise(SIGSTOP); /* the parent begins to step here */
            step_operation(which++);
            raise(SIGSTOP); /* and stops to step here */
            turn();
            turn();
        }
    }
    atomic_store(&seat->ready, generation);
    if (simulated)
        atomic_store(&seat->generation, generation); /* others may send to it after this */
    for (;;) {
        turn();
        start_something();
        if (simulated && end_how[rank] != 'k' && now_ns() >= end_ns[rank])
            end_myself();
        if (survivor == false && random_below(4) != 0)
            start_something();
    }
}

/* Forks a process that dies with this one. */
static pid_t fork_victim(uint32_t generation, bool stepped, unsigned which)
{
    pid_t parent = getpid();
    atomic_store(&board->seats[rank].generation, generation);
    uint64_t seed = random_next();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    if (stepped && ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(6);
    random_state = seed;
    born_ns = now_ns();
    be_victim(generation, stepped, which);
}

static void bury(pid_t pid, uint32_t generation)
{
    int status;
    siginfo_t info;
    kill(pid, SIGKILL);
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0)
        atomic_store(&board->seats[rank].died_ns[generation], now_ns());
    if (random_below(4) == 0)
        sleep_ns(random_below(5000000)); /* a zombie for a while */
    waitpid(pid, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        complain("a victim ended without being killed: status %#x", status);
}

static bool wait_ready(pid_t pid, uint32_t generation)
{
    for (uint64_t since = now_ns(); atomic_load(&board->seats[rank].ready) != generation; sleep_ns(100000)) {
        siginfo_t info = {0};
        bool ended = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == pid;
        if (ended || now_ns() - since > limits.patience_ns) {
            complain("a victim did not start");
            return false;
        }
    }
    return true;
}

static void kill_at_random(uint32_t generation)
{
    pid_t pid = fork_victim(generation, false, 0);
    if (random_below(10) == 0)
        sleep_ns(random_below(6000000)); /* the victim may still be starting */
    else if (wait_ready(pid, generation))
        sleep_ns(random_below(UINT64_C(1000) << random_below(15)));
    bury(pid, generation);
}

/* Waits until the traced victim stops. False: it has ended. */
static bool stopped(pid_t pid, int *signal)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
        return false;
    *signal = WSTOPSIG(status);
    return true;
}

static bool run_to_stop(pid_t pid)
{
    int signal = 0;
    do {
        if (ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)(signal == SIGSTOP ? 0 : signal)) != 0)
            return false;
        if (!stopped(pid, &signal))
            return false;
    } while (signal != SIGSTOP);
    return true;
}

/* Kills a victim after a random instruction, each equally likely: a number beyond the operation's length is drawn again,
 * with the next operation. */
static void kill_after_step(uint32_t generation)
{
    pid_t pid = fork_victim(generation, true, generation);
    int signal = 0;
    bool there = stopped(pid, &signal) && (signal == SIGSTOP || run_to_stop(pid));
    for (int attempt = 0; there && attempt < 12; attempt++) {
        uint64_t steps = 1 + random_below(STEPS_MAX);
        for (signal = 0; steps > 0 && there && signal != SIGSTOP; steps--)
            there = ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0 && stopped(pid, &signal);
        if (signal != SIGSTOP)
            break;
        there = run_to_stop(pid);
    }
    if (!there)
        complain("a victim could not be stepped");
    bury(pid, generation);
}

static int nurse(bool steps, unsigned kills)
{
    while (atomic_load(&board->arrived[0]) < SURVIVORS) {
        sleep_ns(1000000);
        if (now_ns() - born_ns > limits.patience_ns)
            return 7;
    }
    for (uint32_t generation = 1; generation <= kills; generation++) {
        if (steps)
            kill_after_step(generation);
        else
            kill_at_random(generation);
        if (random_below(4) == 0)
            sleep_ns(random_below(3000000));
        if (now_ns() - born_ns > LIFE_NS)
            break;
    }
    atomic_fetch_add(&board->done, 1);
    return errors != 0;
}

static void die(int signal)
{
    (void)signal;
    atomic_store(&board->seats[rank].died_ns[1], now_ns());
    kill(getpid(), SIGKILL);
}

/* After a crash in the test or the library: prints the place, in words that addr2line understands. */
static void crash(int signal)
{
    void *frames[32];
    backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
    complain("signal %d", signal);
    _exit(128 + signal);
}

/* Reads the ENDS of ranks from SURVIVORS on. False: they are wrong. */
static bool read_ends(char **words, int count)
{
    /* Virtual clocks begin with an uptime; no rank runs before the first one reads it. */
    uint64_t start = now_ns() / 1000000000 * 1000000000;
    if (count == ranks - SURVIVORS + 1 && strcmp(words[count - 1], "lossy") == 0) {
        lossy = true;
        count--;
    }
    for (int i = 0; i < count; i++) {
        uint64_t at;
        if (i >= ranks - SURVIVORS || sscanf(words[i], "%c@%" SCNu64, &end_how[SURVIVORS + i], &at) != 2)
            return false;
        if (strchr("ksvex", end_how[SURVIVORS + i]) == NULL)
            return false;
        end_ns[SURVIVORS + i] = start + at;
    }
    return count == ranks - SURVIVORS;
}

int main(int argc, char **argv)
{
    signal(SIGSEGV, crash);
    signal(SIGBUS, crash);
    signal(SIGABRT, crash);
    simulated = argc > 6 && strcmp(argv[2], "sim") == 0;
    if (argc != 6 && !simulated) {
        fprintf(stderr, "usage: traffic BOARD nurse|step|rank KILLS SEED shared|mixed\n"
                        "       traffic BOARD sim MICROSECONDS SEED shared|mixed ENDS...\n");
        return 2;
    }
    const char *rank_text = getenv("SELVEDGE_RANK"), *size_text = getenv("SELVEDGE_SIZE");
    rank = rank_text ? atoi(rank_text) : 0;
    ranks = size_text ? atoi(size_text) : 1;
    if (ranks <= SURVIVORS || ranks > RANKS_MAX)
        return 2;
    unsigned kills = (unsigned)atoi(argv[3]);
    random_state = mix(strtoull(argv[4], NULL, 0) * 64 + (unsigned)rank);
    all_shared = strcmp(argv[5], "shared") == 0;
    survivor = rank < SURVIVORS;
    born_ns = now_ns();
    int fd = open(argv[1], O_RDWR);
    board = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (board == MAP_FAILED || (kills >= GENERATIONS_MAX && !simulated)) {
        perror(argv[1]);
        return 2;
    }
    const char *host = getenv("SELVEDGE_HOST");
    atomic_store(&board->seats[rank].host, host ? (unsigned)atoi(host) + 1 : 1);
    limits = simulated ? simulated_limits : live_limits;
    if (simulated) {
        if (!read_ends(argv + 6, argc - 6))
            return 2;
    }
    bool ranks_die = simulated || strcmp(argv[2], "rank") == 0;
    if (survivor)
        return survive(ranks_die, simulated ? kills * UINT64_C(1000) : UINT64_C(1500000000));
    if (!ranks_die)
        return nurse(strcmp(argv[2], "step") == 0, kills);
    if (simulated) {
        while (atomic_load(&board->arrived[0]) < SURVIVORS)
            sleep_ns(20000);
        be_victim(1, false, 0);
    }
    atomic_store(&board->seats[rank].generation, 1);
    signal(SIGALRM, die);
    while (atomic_load(&board->arrived[0]) < SURVIVORS)
        sleep_ns(1000000);
    uint64_t life_us = 20000 + random_below(1000000);
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)(life_us / 1000000),
                                           .tv_usec = (suseconds_t)(life_us % 1000000)}};
    setitimer(ITIMER_REAL, &timer, NULL);
    be_victim(1, false, 0);
}
