/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The test tools of PALMS, the library of ATOLL (seed 002, sections 2.3.2 and 2.6.1). `selvedge palms` starts them. All check what arrives.
 *
 *     palms pingpong [ROUNDS]                 two processes: half a round trip and bandwidth by size, with complete sends and receives, with
 *                                             the building blocks, and with fast messages
 *     palms stream BYTES COUNT [PAUSE_US]     two processes: the first sends messages to the second
 *     palms multicast BYTES COUNT [PAUSE_US]  the first sends each message to all others
 *     palms sink BYTES COUNT [PAUSE_US]       the first receives the messages of all others, and discards them
 *
 * With `--json` before the tool they print JSON: one object, or for the tools that go one way an object a line for each process.
 *
 * The senders of `stream`, `multicast` and `sink` pause between messages if told so. When a route is withdrawn, because the daemon of the
 * fabric has found another one, they connect again and go on.
 */
#include <atollrun.h>
#include <velorun.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES_MAX = 1 << 20 };

static Atoll_Port port;
static Atoll_Handle peer;
static Atoll_Id peer_id;
static unsigned char sent[BYTES_MAX], arrived[BYTES_MAX];
static int as_json;

static void check(int code, const char *what)
{
    if (code == ATOLL_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", what, atoll_strerror(code));
    velorun_abort(1, what);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void send_complete(size_t bytes, uint32_t tag) { check(atoll_send(port, peer, NULL, 0, sent, bytes, tag), "atoll_send"); }

static void receive_complete(size_t bytes, uint32_t tag)
{
    size_t room = bytes;
    uint32_t found;
    check(atoll_recv(port, peer_id, NULL, NULL, arrived, &room, &found, NULL), "atoll_recv");
    if (room != (bytes + 7) / 8 * 8 || found != tag) velorun_abort(1, "wrong size or tag of a message");
}

/* Figure 2-4: allocate, copy the parts of the message, set its fields, commit. */
static void send_blocks(size_t bytes, uint32_t tag)
{
    Atoll_Descriptor message;
    int code;
    while ((code = atoll_send_malloc(port, 0, bytes, &message)) == ATOLL_ERR_NO_SPACE) atoll_poll(port);
    check(code, "atoll_send_malloc");
    check(atoll_copy(port, message, sent, bytes / 2), "atoll_copy");
    check(atoll_copy(port, message, sent + bytes / 2, bytes - bytes / 2), "atoll_copy");
    check(atoll_set_handle(message, peer), "atoll_set_handle");
    check(atoll_set_tag(message, tag), "atoll_set_tag");
    check(atoll_send_commit(port, message), "atoll_send_commit");
}

/* Figure 2-5: match, copy, free. */
static void receive_blocks(size_t bytes, uint32_t tag)
{
    Atoll_Descriptor message;
    int code;
    while ((code = atoll_match(port, peer_id, &message)) == ATOLL_ERR_NO_MESSAGE) continue;
    check(code, "atoll_match");
    if (atoll_get_tag(message) != tag || atoll_get_source(message) != peer_id) velorun_abort(1, "wrong tag or source of a message");
    check(atoll_recv_copy(port, message, arrived, bytes, NULL), "atoll_recv_copy");
    check(atoll_recv_free(port, message), "atoll_recv_free");
}

static void send_fast(size_t bytes, uint32_t tag)
{
    (void)bytes;
    check(atoll_fast_send(port, peer, tag), "atoll_fast_send");
}

static void receive_fast(size_t bytes, uint32_t tag)
{
    (void)bytes;
    uint32_t operand;
    check(atoll_fast_recv(port, peer_id, &operand, NULL), "atoll_fast_recv");
    if (operand != tag) velorun_abort(1, "another operand");
}

/* Returns half a round trip in microseconds. */
static double pingpong(size_t bytes, int rounds, void (*send)(size_t, uint32_t), void (*receive)(size_t, uint32_t))
{
    for (size_t i = 0; i < bytes; i++) sent[i] = (unsigned char)(i * 7 + bytes);
    memset(arrived, 0, bytes);
    double began = now_us();
    for (int round = -rounds / 10; round < rounds; round++) {
        if (round == 0) began = now_us();
        if (atollrun_rank() == 0) send(bytes, (uint32_t)round);
        receive(bytes, (uint32_t)round);
        if (atollrun_rank() == 1) send(bytes, (uint32_t)round);
    }
    double time = (now_us() - began) / rounds / 2;
    if (memcmp(sent, arrived, bytes) != 0) velorun_abort(1, "a byte is wrong");
    return time;
}

static void pingpongs(int rounds)
{
    double fast = pingpong(0, rounds, send_fast, receive_fast);
    if (atollrun_rank() == 0 && as_json) printf("{\"fast_message_us\": %.3f, \"sizes\": [", fast);
    if (atollrun_rank() == 0 && !as_json) {
        printf("fast message: %.3f us\n\n%8s %12s %12s %12s\n", fast, "bytes", "complete", "blocks", "complete");
        printf("%8s %12s %12s %12s\n", "", "[us]", "[us]", "[MB/s]");
    }
    for (size_t bytes = 8; bytes <= BYTES_MAX; bytes *= 4) {
        int count = bytes < 16384 ? rounds : rounds / 10 + 10;
        Atoll_Resources has;
        check(atoll_resources(port, &has), "atoll_resources");
        double complete = pingpong(bytes, count, send_complete, receive_complete);
        double blocks = bytes <= has.build_bytes_max ? pingpong(bytes, count, send_blocks, receive_blocks) : 0;
        if (atollrun_rank() != 0) continue;
        if (as_json) {
            printf("%s{\"bytes\": %zu, \"complete_us\": %.3f, \"blocks_us\": ", bytes > 8 ? ", " : "", bytes, complete);
            if (blocks != 0) printf("%.3f", blocks);
            else printf("null");
            printf(", \"complete_mb_per_s\": %.1f}", (double)bytes / complete);
            continue;
        }
        printf("%8zu %12.3f ", bytes, complete);
        if (blocks != 0) printf("%12.3f", blocks);
        else printf("%12s", "-");
        printf(" %12.1f\n", (double)bytes / complete);
    }
    if (atollrun_rank() == 0 && as_json) printf("]}\n");
}

/* ---- one way: stream, multicast, sink ---- */

enum { RANKS_MAX = 1024, RENEW_TRIES = 15 };

/* Connections of a sender, with the ids of their peers; routes that were withdrawn. */
static Atoll_Handle handles[RANKS_MAX];
static Atoll_Id ids[RANKS_MAX];
static unsigned targets, renewed;

/* Connects again after the withdrawal of a route. A host that cannot be reached is tried for half a minute. */
static void renew(unsigned target)
{
    renewed++;
    check(atoll_disconnect(port, handles[target]), "atoll_disconnect");
    int code = ATOLL_ERR_NOT_AVAILABLE;
    for (int tries = 0; code == ATOLL_ERR_NOT_AVAILABLE && tries < RENEW_TRIES; tries++) code = atoll_connect(port, ids[target], &handles[target]);
    check(code, "atoll_connect");
}

/* Sends a message to all targets. A route that was withdrawn has taken none of it. */
static void send_to_all(size_t bytes, uint32_t tag)
{
    int code = targets == 1 ? atoll_send(port, handles[0], NULL, 0, sent, bytes, tag)
                            : atoll_multicast(port, handles, targets, NULL, 0, sent, bytes, tag);
    if (code != ATOLL_ERR_ROUTE) {
        check(code, "send");
        return;
    }
    /* Each target for itself, as others may have got it: those know the message by its tag. */
    for (unsigned target = 0; target < targets; target++) {
        while ((code = atoll_send(port, handles[target], NULL, 0, sent, bytes, tag)) == ATOLL_ERR_ROUTE) renew(target);
        check(code, "atoll_send");
    }
}

static void pause_us(unsigned long pause)
{
    struct timespec wait = { (time_t)(pause / 1000000), (long)(pause % 1000000 * 1000) };
    if (pause != 0) nanosleep(&wait, NULL);
}

static double send_all(size_t bytes, unsigned count, unsigned long pause)
{
    for (size_t i = 0; i < bytes; i++) sent[i] = (unsigned char)(i * 7 + bytes);
    double began = now_us();
    for (uint32_t tag = 0; tag < count; tag++) {
        send_to_all(bytes, tag);
        pause_us(pause);
    }
    return (now_us() - began) / 1e6;
}

/* Receives messages of several senders, those of each in order; one that comes twice is counted once. */
static double receive_all(size_t bytes, unsigned count, unsigned senders)
{
    static uint32_t next[RANKS_MAX];
    double began = now_us();
    for (unsigned long left = (unsigned long)count * senders; left > 0;) {
        size_t room = bytes;
        uint32_t tag;
        Atoll_Id from;
        check(atoll_recv(port, ATOLL_ANY, NULL, NULL, arrived, &room, &tag, &from), "atoll_recv");
        uint32_t *wanted = &next[ATOLL_ID_NODE(from) % RANKS_MAX];
        if (tag + 1 == *wanted) continue;
        if (tag != *wanted) velorun_abort(1, "a message is out of order, or lost");
        if (room != (bytes + 7) / 8 * 8) velorun_abort(1, "a message has a wrong size");
        for (size_t i = 0; i < bytes; i += 509)
            if (arrived[i] != (unsigned char)(i * 7 + bytes)) velorun_abort(1, "a byte is wrong");
        ++*wanted;
        left--;
    }
    return (now_us() - began) / 1e6;
}

static void one_way(int is_sender, unsigned senders, size_t bytes, unsigned count, unsigned long pause)
{
    double seconds = is_sender ? send_all(bytes, count, pause) : receive_all(bytes, count, senders);
    double messages = (double)count * (is_sender ? 1 : senders);
    if (as_json) {
        printf("{\"rank\": %d, \"sends\": %s, \"messages\": %.0f, \"bytes\": %zu, \"seconds\": %.6f, \"mb_per_s\": %.1f, "
               "\"us_per_message\": %.3f, \"routes_renewed\": %u}\n", atollrun_rank(), is_sender ? "true" : "false", messages, bytes, seconds,
               messages * (double)bytes / seconds / 1e6, seconds * 1e6 / messages, renewed);
        return;
    }
    printf("rank %d %s %.0f messages of %zu bytes in %.3f s: %.1f MB/s, %.3f us each", atollrun_rank(),
           is_sender ? "sent" : "received", messages, bytes, seconds, messages * (double)bytes / seconds / 1e6, seconds * 1e6 / messages);
    if (renewed != 0) printf("; %u routes were withdrawn and renewed", renewed);
    printf("\n");
}

int main(int argc, char **argv)
{
    check(atollrun_init(&argc, &argv), "atollrun_init");
    if (argc > 1 && strcmp(argv[1], "--json") == 0) {
        as_json = 1;
        argc--;
        argv++;
    }
    const char *tool = argc > 1 ? argv[1] : "";
    int rank = atollrun_rank(), size = atollrun_size();
    unsigned long first = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000, count = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    unsigned long pause = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    port = atollrun_port();
    if (strcmp(tool, "pingpong") == 0) {
        if (size != 2 || first < 10) velorun_abort(2, "usage, with two processes: palms pingpong [ROUNDS], at least 10");
        peer = atollrun_handle(1 - rank);
        peer_id = atollrun_id(1 - rank);
        pingpongs((int)first);
        check(atollrun_finalize(), "atollrun_finalize");
        return 0;
    }
    int is_stream = strcmp(tool, "stream") == 0, is_sink = strcmp(tool, "sink") == 0;
    if ((!is_stream && !is_sink && strcmp(tool, "multicast") != 0) || first == 0 || first > BYTES_MAX || count == 0 || count > UINT32_MAX - 1 ||
        size < 2 || size > RANKS_MAX || (is_stream && size != 2))
        velorun_abort(2, "usage, with at least two processes, and two for stream: palms stream|multicast|sink BYTES COUNT [PAUSE_US], at most 1 MiB");
    int is_sender = is_sink ? rank != 0 : rank == 0;
    for (int other = 0; is_sender && other < size; other++) {
        if (other == rank || (is_sink && other != 0)) continue;
        handles[targets] = atollrun_handle(other);
        ids[targets++] = atollrun_id(other);
    }
    check(velorun_barrier(), "velorun_barrier");
    one_way(is_sender, is_sink ? (unsigned)size - 1 : 1, first, (unsigned)count, pause);
    /* No port closes before its messages were received. */
    check(velorun_barrier(), "velorun_barrier");
    check(atollrun_finalize(), "atollrun_finalize");
    return 0;
}
