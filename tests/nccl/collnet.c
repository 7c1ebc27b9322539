/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Drives a collective network of NCCL as NCCL does, without NCCL and without a GPU: the table ncclCollNetPlugin_v6 to _v12 of a library, in
 * several processes, with host memory, against values that each process computes.
 *
 * usage: collnet LIBRARY VERSION PROCESSES [own]
 * `own`: also our library's promises beyond NCCL's interface: wrong arguments, ranks that disagree, die or never arrive.
 *
 * With COLLNET_LOG the library's messages are printed. A table is an array of pointers in the order of NCCL's headers, and is read as one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 16, HANDLE = 128, TYPES = 10, FLIGHT = 6 };
enum { INT8, UINT8, INT32, UINT32, INT64, UINT64, HALF, FLOAT, DOUBLE, BFLOAT16 };
enum { SUM, PROD, MAX, MIN, AVG };
enum { HOST = 1, CUDA = 2 };
static const size_t sizes[TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

struct shared {
    pthread_barrier_t barrier;
    char handles[RANKS_MAX][HANDLE];
};
static struct shared *shared;
static int ranks, rank, version, warnings;
static void **table;

#define CHECK(what)                                                                         \
    do {                                                                                    \
        if (!(what)) {                                                                      \
            fprintf(stderr, "rank %d, v%d, line %d: %s\n", rank, version, __LINE__, #what); \
            _exit(1);                                                                       \
        }                                                                                   \
    } while (0)

static void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)flags, (void)file, (void)line;
    va_list arguments;
    warnings += level == 2;
    if (!getenv("COLLNET_LOG")) return;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* ---- The table's functions ---- */

static int parts(void) { return version >= 8 ? 2 : 0; }
#define FUNCTION(at, ...) ((int (*)(__VA_ARGS__))table[at])
static int init(void **context) {
    return version >= 11 ? FUNCTION(1, void **, uint64_t, void *)(context, 7, (void *)log_line) : FUNCTION(1, void *)((void *)log_line);
}
static int listen_at(void *context, int device, void *handle, void **listening) {
    return version >= 11 ? FUNCTION(4, void *, int, void *, void **)(context, device, handle, listening)
                         : FUNCTION(4, int, void *, void **)(device, handle, listening);
}
static int join(void **handles, int count, int own, void *listening, void **comm) {
    return FUNCTION(5, void **, int, int, void *, void **)(handles, count, own, listening, comm);
}
static int supported(int type, int op) {
    int is = -1;
    CHECK(FUNCTION(6, int, int, int *)(type, op, &is) == 0 && (is == 0 || is == 1));
    return is;
}
static int reg(void *comm, void *data, size_t bytes, int kind, void **handle) {
    return version >= 8 ? FUNCTION(7, void *, void *, size_t, int, void **)(comm, data, bytes, kind, handle)
                        : FUNCTION(7, void *, void *, int, int, void **)(comm, data, (int)bytes, kind, handle);
}
static int dereg(void *comm, void *handle) { return FUNCTION(9, void *, void *)(comm, handle); }
static int iallreduce(void *comm, void *from, void *to, size_t count, int type, int op, void *hfrom, void *hto, void **request) {
    return version >= 9
               ? FUNCTION(10, void *, void *, void *, size_t, int, int, void *, void *, void **)(comm, from, to, count, type, op, hfrom, hto, request)
               : FUNCTION(10, void *, void *, void *, int, int, int, void *, void *, void **)(comm, from, to, (int)count, type, op, hfrom, hto, request);
}
struct part {
    void *handle, *address;
    union {
        uint32_t bytes8;
        size_t bytes9;
    };
};
static struct part part_of(void *address, size_t bytes, void *handle) {
    struct part part = {.handle = handle, .address = address};
    memset(&part.bytes9, 0xff, sizeof part.bytes9);
    if (version == 8)
        part.bytes8 = (uint32_t)bytes;
    else
        part.bytes9 = bytes;
    return part;
}
static int iallgather(void *comm, void *from, struct part *to, size_t each, size_t offset, size_t bytes, void *handle, void **request) {
    return FUNCTION(11, void *, void *, int, void *, size_t, size_t, size_t, void *, void **)(comm, from, 1, to, each, offset, bytes, handle, request);
}
static int ireducescatter(void *comm, struct part *from, void *to, size_t each, size_t offset, size_t bytes, int type, int op, void *handle,
                          void **request) {
    return FUNCTION(12, void *, int, void *, void *, size_t, size_t, size_t, int, int, void *, void **)(comm, 1, from, to, each, offset, bytes, type,
                                                                                                       op, handle, request);
}
static int iflush(void *comm, void *data, int bytes, void *handle, void **request) {
    return FUNCTION(11 + parts(), void *, void *, int, void *, void **)(comm, data, bytes, handle, request);
}
static int test(void *request, int *done, int *bytes) { return FUNCTION(12 + parts(), void *, int *, int *)(request, done, bytes); }
static int close_comm(void *comm) { return FUNCTION(13 + parts(), void *)(comm); }
static int close_listen(void *listening) { return FUNCTION(14 + parts(), void *)(listening); }

static int wait_for(void *request) {
    int done = 0, bytes = -1, error = 0;
    for (;; sched_yield()) {
        error = test(request, &done, &bytes);
        if (done || error) break;
    }
    CHECK(error || bytes >= 0);
    return error;
}

static void meet(void) { pthread_barrier_wait(&shared->barrier); }

/* ---- Values. All are small, so every type has them and every result but a wrapped one of 8 bits. ---- */

static int64_t value(int of, size_t i, int type) {
    int64_t any = (int64_t)((of * 7 + i * 3) % 5);
    return type == UINT8 || type == UINT32 || type == UINT64 ? any % 4 : any - 2;
}
static uint16_t half(double v) {
    uint16_t sign = v < 0 ? 0x8000 : 0;
    int exponent = 15;
    if (v < 0) v = -v;
    if (v == 0) return sign;
    for (; v >= 2; v /= 2) exponent++;
    return sign | (uint16_t)(exponent << 10) | (uint16_t)((v - 1) * 1024);
}
static void put(void *to, size_t i, int type, int64_t v) {
    float single = (float)v;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    switch (type) {
    case INT8: case UINT8: ((uint8_t *)to)[i] = (uint8_t)v; break;
    case INT32: case UINT32: ((uint32_t *)to)[i] = (uint32_t)v; break;
    case INT64: case UINT64: ((uint64_t *)to)[i] = (uint64_t)v; break;
    case HALF: ((uint16_t *)to)[i] = half((double)v); break;
    case FLOAT: ((float *)to)[i] = single; break;
    case DOUBLE: ((double *)to)[i] = (double)v; break;
    default: ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
    }
}
static int64_t reduced(size_t i, int type, int op) {
    int64_t all = value(0, i, type);
    for (int other = 1; other < ranks; other++) {
        int64_t v = value(other, i, type);
        all = op == SUM ? all + v : op == PROD ? all * v : op == MAX ? (v > all ? v : all) : v < all ? v : all;
    }
    return all;
}
/* Zeros of floats may have either sign. */
static int same(const void *found, size_t i, int type, int64_t expected) {
    char one[8];
    put(one, 0, type, expected);
    if (memcmp((const char *)found + i * sizes[type], one, sizes[type]) == 0) return 1;
    if (expected != 0 || (type != HALF && type != BFLOAT16 && type != FLOAT && type != DOUBLE)) return 0;
    memset(one, 0, 8);
    one[sizes[type] - 1] = (char)0x80;
    return memcmp((const char *)found + i * sizes[type], one, sizes[type]) == 0;
}

/* ---- Tests ---- */

static void *context;

/* Makes a new communicator, as NCCL does. */
static void *make(void) {
    void *listening = NULL, *comm = NULL, *handles[RANKS_MAX];
    meet();
    CHECK(listen_at(context, 0, shared->handles[rank], &listening) == 0 && listening);
    meet();
    for (int i = 0; i < ranks; i++) handles[i] = shared->handles[i];
    CHECK(join(handles, ranks, rank, listening, &comm) == 0 && comm);
    CHECK(close_listen(listening) == 0);
    return comm;
}

static void properties(void) {
    static const size_t lengths[] = {48, 56, 64, 104, 104, 112, 128};
    unsigned char found[256];
    int count = 0, kinds;
    char *name;
    memset(found, 0xee, sizeof found);
    CHECK(FUNCTION(2, int *)(&count) == 0 && count == 1);
    CHECK(FUNCTION(3, int, void *)(0, found) == 0);
    for (size_t i = lengths[version - 6]; i < sizeof found; i++) CHECK(found[i] == 0xee);
    memcpy(&name, found, 8);
    memcpy(&kinds, found + 24, 4);
    CHECK(name && strlen(name) > 0 && (kinds & HOST));
    if (version >= 9) {
        size_t most;
        memcpy(&most, found + (version == 12 ? 112 : 96), 8);
        CHECK(most >= 1 << 20 && most <= (size_t)1 << 40);
    }
}

static long operations;

static void allreduces(void *comm) {
    static const size_t counts[] = {1, 5, 257, 4099, 70001};
    for (int type = 0; type < TYPES; type++)
        for (int op = SUM; op <= MIN; op++) {
            if (!supported(type, op)) continue;
            void *request[FLIGHT], *from[FLIGHT], *to[FLIGHT], *hfrom[FLIGHT], *hto[FLIGHT];
            size_t count[FLIGHT];
            for (int n = 0; n < FLIGHT; n++) {
                count[n] = counts[(type + op + n) % 5];
                size_t bytes = count[n] * sizes[type];
                from[n] = malloc(bytes);
                to[n] = n % 2 ? from[n] : malloc(bytes);
                CHECK(reg(comm, from[n], bytes, HOST, hfrom + n) == 0 && hfrom[n]);
                CHECK(reg(comm, to[n], bytes, HOST, hto + n) == 0 && hto[n]);
                for (size_t i = 0; i < count[n]; i++) put(from[n], i, type, value(rank, i, type));
                CHECK(iallreduce(comm, from[n], to[n], count[n], type, op, hfrom[n], hto[n], request + n) == 0 && request[n]);
            }
            /* Completed in another order than begun; the order differs between ranks. */
            for (int k = 0; k < FLIGHT; k++) {
                int n = (FLIGHT - 1 - k + rank) % FLIGHT, done = 0, bytes = 0;
                for (;; sched_yield()) {
                    CHECK(test(request[n], &done, &bytes) == 0);
                    if (done) break;
                }
                CHECK(bytes == (int)(count[n] * sizes[type]));
                for (size_t i = 0; i < count[n]; i++) CHECK(same(to[n], i, type, reduced(i, type, op)));
                CHECK(iflush(comm, to[n], bytes, hto[n], request + n) == 0);
                if (request[n]) CHECK(wait_for(request[n]) == 0);
            }
            for (int n = 0; n < FLIGHT; n++) {
                CHECK(dereg(comm, hfrom[n]) == 0 && dereg(comm, hto[n]) == 0);
                if (to[n] != from[n]) free(to[n]);
                free(from[n]);
            }
            operations += FLIGHT;
        }
}

/* A rank's part of a window: returns its length, and its start in the rank's bytes and in the window. */
static size_t own_part(size_t offset, size_t bytes, size_t each, int of, size_t *in_own, size_t *in_window) {
    size_t begin = (size_t)of * each, end = begin + each;
    size_t from = offset > begin ? offset : begin, to = offset + bytes < end ? offset + bytes : end;
    if (from >= to) {
        *in_own = *in_window = 0;
        return 0;
    }
    *in_own = from - begin;
    *in_window = from - offset;
    return to - from;
}

static void windows(void *comm) {
    static const size_t counts[] = {1, 40, 300, 9000};
    for (int c = 0; c < 4; c++)
        for (int w = 0; w < 12; w++) {
            int type = (w * 3 + c) % TYPES, op = w % 2 ? SUM : MAX;
            if (!supported(type, op)) continue;
            size_t size = sizes[type], each = counts[c] * size, whole = each * (size_t)ranks;
            size_t offset = w == 0 ? 0 : (w * 7919u * (c + 3)) % (counts[c] * (size_t)ranks) * size;
            size_t bytes = w == 0 ? whole : w % 3 ? whole - offset : size + (whole - offset - size) / 2 / size * size;
            size_t in_own, in_window, length = own_part(offset, bytes, each, rank, &in_own, &in_window);
            char *own = malloc(each), *all = malloc(bytes + 8);
            void *hown, *hall, *request;
            CHECK(reg(comm, own, each, HOST, &hown) == 0 && reg(comm, all, bytes, HOST, &hall) == 0);

            memset(all, 0x77, bytes + 8);
            for (size_t i = 0; i < each / size; i++) put(own, i, type, value(rank, i, type));
            struct part part = part_of(all, bytes, hall);
            CHECK(iallgather(comm, own + in_own, &part, each, offset, bytes, hown, &request) == 0 && request);
            CHECK(wait_for(request) == 0);
            for (size_t at = offset; at < offset + bytes; at += size)
                CHECK(same(all + (at - offset), 0, type, value((int)(at / each), at % each / size, type)));
            for (int i = 0; i < 8; i++) CHECK(all[bytes + i] == 0x77);

            memset(own, 0x55, each);
            for (size_t i = 0; i < bytes / size; i++) put(all, i, type, value(rank, i + offset / size, type));
            part = part_of(all, bytes, hall);
            CHECK(ireducescatter(comm, &part, own + in_own, each, offset, bytes, type, op, hown, &request) == 0 && request);
            CHECK(wait_for(request) == 0);
            for (size_t at = 0; at < each; at += size)
                if (at >= in_own && at < in_own + length)
                    CHECK(same(own, at / size, type, reduced((rank * each + at) / size, type, op)));
                else
                    for (size_t i = 0; i < size; i++) CHECK(own[at + i] == 0x55);
            CHECK(dereg(comm, hown) == 0 && dereg(comm, hall) == 0);
            free(own);
            free(all);
            operations += 2;
        }
}

/* Results of wrong arguments: ncclInvalidArgument 4, ncclInvalidUsage 5. */
static void wrong_arguments(void *comm) {
    int64_t a[4] = {1, 2, 3, 4}, b[4];
    void *request = a, *handle, *listening, *other = a, *handles[RANKS_MAX], *none[2] = {shared->handles[0], NULL};
    char junk[HANDLE] = "junk";
    int done, before = warnings;
    CHECK(!supported(INT32, AVG) && !supported(10, SUM) && !supported(11, SUM) && !supported(-1, SUM) && !supported(INT32, -1));
    for (int type = 0; type < TYPES; type++)
        for (int op = SUM; op <= MIN; op++) CHECK(supported(type, op));
    CHECK(FUNCTION(2, void *)(NULL) == 4 && FUNCTION(3, int, void *)(0, NULL) == 4 && FUNCTION(3, int, void *)(1, junk) == 4);
    CHECK(reg(comm, a, sizeof a, CUDA, &handle) == 5 && !handle);
    CHECK(reg(comm, NULL, 8, HOST, &handle) == 4 && reg(NULL, a, 8, HOST, &handle) == 4 && reg(comm, a, 8, HOST, NULL) == 4);
    CHECK(FUNCTION(8, void *, void *, size_t, int, uint64_t, int, void **)(comm, a, 8, CUDA, 0, 3, &handle) == 5 && !handle);
    CHECK(iallreduce(comm, a, b, 4, INT64, AVG, a, b, &request) == 4 && !request);
    CHECK(iallreduce(comm, a, b, 4, 10, SUM, a, b, &request) == 4 && iallreduce(comm, a, b, 0, INT64, SUM, a, b, &request) == 4);
    CHECK(iallreduce(comm, NULL, b, 4, INT64, SUM, a, b, &request) == 4 && iallreduce(comm, a, NULL, 4, INT64, SUM, a, b, &request) == 4);
    CHECK(iallreduce(NULL, a, b, 4, INT64, SUM, a, b, &request) == 4 && iallreduce(comm, a, b, 4, INT64, SUM, a, b, NULL) == 4);
    CHECK(test(NULL, &done, NULL) == 4 && close_comm(NULL) == 4 && close_listen(NULL) == 4 && dereg(NULL, a) == 4);
    CHECK(listen_at(context, 1, junk, &listening) == 4 && listen_at(context, 0, NULL, &listening) == 4);
    if (parts()) {
        struct part part = part_of(b, 8, b);
        CHECK(iallgather(comm, a, &part, 8, (size_t)ranks * 8, 8, a, &request) == 4 && iallgather(comm, a, &part, 8, 0, 16, a, &request) == 4);
        CHECK(iallgather(comm, a, NULL, 8, 0, 8, a, &request) == 4);
        CHECK(ireducescatter(comm, &part, a, 8, 4, 8, INT64, SUM, a, &request) == 4);
    }
    CHECK(listen_at(context, 0, shared->handles[rank], &listening) == 0);
    for (int i = 0; i < ranks; i++) handles[i] = shared->handles[rank];
    CHECK(join(handles, ranks, ranks, listening, &other) == 4 && !other && join(handles, ranks, -1, listening, &other) == 4);
    CHECK(join(NULL, ranks, 0, listening, &other) == 4 && join(handles, ranks, 0, NULL, &other) == 4 && join(none, 2, 0, listening, &other) == 4);
    handles[ranks - 1] = junk;
    CHECK(join(handles, ranks, 0, listening, &other) == 4 && !other);
    CHECK(close_listen(listening) == 0 && warnings > before);
    meet();

    /* Ranks that disagree all get an error, and the communicator still works. */
    if (ranks > 1) {
        CHECK(iallreduce(comm, a, b, rank ? 4 : 3, INT64, SUM, a, b, &request) == 0 && wait_for(request) == 5);
        CHECK(iallreduce(comm, a, b, 4, INT64, SUM, a, b, &request) == 0 && wait_for(request) == 0 && b[3] == 4 * ranks);
    }
}

/* The last rank dies: the others' operations end with ncclRemoteError 6. */
static void a_rank_dies(void) {
    void *comm = make(), *request, *listening = NULL, *handles[RANKS_MAX];
    int64_t a = 1, b;
    CHECK(listen_at(context, 0, shared->handles[rank], &listening) == 0);
    meet();
    if (rank == ranks - 1) _exit(0);
    CHECK(iallreduce(comm, &a, &b, 1, INT64, SUM, &a, &b, &request) == 0);
    CHECK(wait_for(request) == 6);
    CHECK(close_comm(comm) == 0);
    /* Nor does it join a new communicator. */
    for (int i = 0; i < ranks; i++) handles[i] = shared->handles[i];
    CHECK(join(handles, ranks, rank, listening, &comm) == 2 && !comm);
    CHECK(close_listen(listening) == 0);
}

static int run(const char *library, int is_own) {
    char name[64];
    snprintf(name, sizeof name, "ncclCollNetPlugin_v%d", version);
    void *loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!loaded) fprintf(stderr, "%s\n", dlerror());
    CHECK(loaded);
    table = dlsym(loaded, name);
    CHECK(table && table[0] && strlen(table[0]) > 0);
    CHECK(init(&context) == 0);
    properties();
    void *comm = make();
    allreduces(comm);
    if (parts()) windows(comm);
    if (is_own) wrong_arguments(comm);
    for (int round = 0; round < 20; round++) {
        void *second = make(), *request;
        int64_t a = rank, b = -1;
        void *ha, *hb;
        CHECK(reg(second, &a, 8, HOST, &ha) == 0 && reg(second, &b, 8, HOST, &hb) == 0);
        CHECK(iallreduce(second, &a, &b, 1, INT64, SUM, ha, hb, &request) == 0 && wait_for(request) == 0);
        CHECK(b == ranks * (ranks - 1) / 2);
        CHECK(dereg(second, ha) == 0 && dereg(second, hb) == 0);
        /* A plugin's network may require that no rank closes while others still work. */
        meet();
        CHECK(close_comm(second) == 0);
        operations++;
    }
    meet();
    CHECK(close_comm(comm) == 0);
    if (is_own && ranks > 1) a_rank_dies();
    if (version >= 11) CHECK(FUNCTION(18, void *)(context) == 0);
    if (rank == 0) printf("v%d, %d processes: %ld operations\n", version, ranks, operations), fflush(stdout);
    return 0;
}

int main(int count, char **words) {
    if (count < 4) return fprintf(stderr, "usage: collnet LIBRARY VERSION PROCESSES [own]\n"), 2;
    version = atoi(words[2]);
    ranks = atoi(words[3]);
    if (version < 6 || version > 12 || ranks < 1 || ranks > RANKS_MAX) return 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, (unsigned)ranks);
    pid_t pids[RANKS_MAX];
    for (rank = 0; rank < ranks; rank++)
        if ((pids[rank] = fork()) == 0) {
            alarm(180);
            _exit(run(words[1], count > 4 && strcmp(words[4], "own") == 0));
        }
    int failed = 0, status;
    while (wait(&status) > 0)
        if (status != 0 && !failed) {
            failed = 1;
            /* The other processes may wait for it. */
            for (rank = 0; rank < ranks; rank++) kill(pids[rank], SIGKILL);
        }
    return failed;
}
