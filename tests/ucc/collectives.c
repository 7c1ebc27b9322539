/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Collective operations of UCC over libsharp_coll: all types and operations that UCC passes to its transport for SHARP, in processes forked by
 * this program, against a sequential reduction.
 *
 * usage: collectives PROCESSES [FIRST COUNT FILE]. With a file it forks COUNT of the processes, from number FIRST on; other instances fork the
 * rest, on hosts that see the same file, which has to be new. Exit status 0 if all results are right. UCC has to be set to use that transport
 * (run.sh).
 */
#include <ucc/api/ucc.h>

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 16, EXCHANGE_BYTES = 1 << 16 };

/* Start-up exchange of the processes: an allgather in shared memory. */
static struct common {
    atomic_int arrived, left, failed;
    char all[RANKS_MAX][EXCHANGE_BYTES];
} *common;

static int rank, ranks;
/* Several instances of the program have processes each. */
static bool is_on_hosts;

#define FAIL(...) (fprintf(stderr, "rank %d: ", rank), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), atomic_store(&common->failed, 1), _exit(1))
#define OK(call)                                                                       \
    do {                                                                               \
        ucc_status_t status_ = (call);                                                 \
        if (status_ != UCC_OK) FAIL("%s: %s", #call, ucc_status_string(status_));      \
    } while (0)

static void meet(atomic_int *count, int round)
{
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < round * ranks)
        if (atomic_load(&common->failed)) _exit(1);
        else sched_yield();
}

static ucc_status_t oob_allgather(void *own, void *all, size_t bytes, void *info, void **request)
{
    static int round;
    (void)info;
    if (bytes > EXCHANGE_BYTES) FAIL("%zu bytes are too many to exchange", bytes);
    round++;
    memcpy(common->all[rank], own, bytes);
    meet(&common->arrived, round);
    for (int r = 0; r < ranks; r++) memcpy((char *)all + r * bytes, common->all[r], bytes);
    meet(&common->left, round);
    *request = (void *)1;
    return UCC_OK;
}

static ucc_status_t oob_test(void *request)
{
    (void)request;
    return UCC_OK;
}

static ucc_status_t oob_free(void *request)
{
    (void)request;
    return UCC_OK;
}

static ucc_context_h context;
static ucc_team_h team;

static void run(ucc_coll_args_t *args)
{
    ucc_coll_req_h request;
    OK(ucc_collective_init(args, &request, team));
    OK(ucc_collective_post(request));
    ucc_status_t status;
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
        sched_yield();
    }
    if (status != UCC_OK) FAIL("a collective: %s", ucc_status_string(status));
    OK(ucc_collective_finalize(request));
}

/* ---- Types and operations ---- */

struct type {
    const char *name;
    ucc_datatype_t type;
    size_t bytes;
    enum { SIGNED, UNSIGNED, REAL } kind;
};

static const struct type TYPES[] = {
    {"int8", UCC_DT_INT8, 1, SIGNED},      {"uint8", UCC_DT_UINT8, 1, UNSIGNED},   {"int16", UCC_DT_INT16, 2, SIGNED},
    {"uint16", UCC_DT_UINT16, 2, UNSIGNED}, {"int32", UCC_DT_INT32, 4, SIGNED},     {"uint32", UCC_DT_UINT32, 4, UNSIGNED},
    {"int64", UCC_DT_INT64, 8, SIGNED},    {"uint64", UCC_DT_UINT64, 8, UNSIGNED}, {"float32", UCC_DT_FLOAT32, 4, REAL},
    {"float64", UCC_DT_FLOAT64, 8, REAL},
};

struct op {
    const char *name;
    ucc_reduction_op_t op;
};
static const struct op OPS[] = {
    {"sum", UCC_OP_SUM},   {"max", UCC_OP_MAX}, {"min", UCC_OP_MIN},   {"land", UCC_OP_LAND}, {"lor", UCC_OP_LOR},
    {"lxor", UCC_OP_LXOR}, {"band", UCC_OP_BAND}, {"bor", UCC_OP_BOR}, {"bxor", UCC_OP_BXOR}, {"prod", UCC_OP_PROD},
};

/* Value of a rank at a place: small, so that sums are exact in each type. */
static int value(int r, size_t at) { return (int)((at * 7 + (size_t)r * 3) % 5); }

static void put(const struct type *t, void *memory, size_t at, double v)
{
    char *to = (char *)memory + at * t->bytes;
    int64_t whole = (int64_t)v;
    float single = (float)v;
    if (t->kind != REAL) memcpy(to, &whole, t->bytes);
    else if (t->bytes == 4) memcpy(to, &single, 4);
    else memcpy(to, &v, 8);
}

static double combine(ucc_reduction_op_t op, double a, double b)
{
    int64_t x = (int64_t)a, y = (int64_t)b;
    switch (op) {
    case UCC_OP_SUM: return a + b;
    case UCC_OP_PROD: return a * b;
    case UCC_OP_MAX: return a > b ? a : b;
    case UCC_OP_MIN: return a < b ? a : b;
    case UCC_OP_LAND: return x && y;
    case UCC_OP_LOR: return x || y;
    case UCC_OP_LXOR: return !x != !y;
    case UCC_OP_BAND: return (double)(x & y);
    case UCC_OP_BOR: return (double)(x | y);
    default: return (double)(x ^ y);
    }
}

static void expect(const struct type *t, ucc_reduction_op_t op, void *into, size_t first, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        double v = value(0, first + at);
        for (int r = 1; r < ranks; r++) v = combine(op, v, value(r, first + at));
        put(t, into, at, v);
    }
}

static ucc_coll_args_t args_of(ucc_coll_type_t what, void *from, void *to, size_t count, size_t to_count, ucc_datatype_t type)
{
    ucc_coll_args_t args = {.coll_type = what};
    args.src.info = (ucc_coll_buffer_info_t){.buffer = from, .count = count, .datatype = type, .mem_type = UCC_MEMORY_TYPE_HOST};
    args.dst.info = (ucc_coll_buffer_info_t){.buffer = to, .count = to_count, .datatype = type, .mem_type = UCC_MEMORY_TYPE_HOST};
    return args;
}

static void reductions(size_t count)
{
    size_t most = count * 8 * (size_t)ranks;
    char *from = malloc(most), *to = malloc(most), *wanted = malloc(most);
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        for (size_t j = 0; j < sizeof OPS / sizeof *OPS; j++) {
            const struct type *t = &TYPES[i];
            ucc_reduction_op_t op = OPS[j].op;
            if (t->kind == REAL && op != UCC_OP_SUM && op != UCC_OP_MAX && op != UCC_OP_MIN && op != UCC_OP_PROD) continue;
            if (op == UCC_OP_PROD && t->bytes < 4) continue;
            for (size_t at = 0; at < count; at++) put(t, from, at, value(rank, at));
            memset(to, 0x55, most);
            ucc_coll_args_t args = args_of(UCC_COLL_TYPE_ALLREDUCE, from, to, count, count, t->type);
            args.op = op;
            run(&args);
            expect(t, op, wanted, 0, count);
            if (memcmp(to, wanted, count * t->bytes) != 0) FAIL("allreduce of %zu %s, %s", count, t->name, OPS[j].name);
            if (to[count * t->bytes] != 0x55) FAIL("allreduce of %zu %s, %s writes beyond its result", count, t->name, OPS[j].name);

            args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
            args.flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
            memcpy(to, from, count * t->bytes);
            run(&args);
            if (memcmp(to, wanted, count * t->bytes) != 0) FAIL("allreduce in place of %zu %s, %s", count, t->name, OPS[j].name);

            size_t all = count * (size_t)ranks;
            for (size_t at = 0; at < all; at++) put(t, from, at, value(rank, at));
            args = args_of(UCC_COLL_TYPE_REDUCE_SCATTER, from, to, all, count, t->type);
            args.op = op;
            run(&args);
            expect(t, op, wanted, count * (size_t)rank, count);
            if (memcmp(to, wanted, count * t->bytes) != 0) FAIL("reduce_scatter of %zu %s, %s", count, t->name, OPS[j].name);
        }
    free(from), free(to), free(wanted);
}

static void movements(size_t bytes)
{
    unsigned char *own = malloc(bytes), *all = malloc(bytes * (size_t)ranks);
    for (int root = 0; root < ranks; root++) {
        for (size_t at = 0; at < bytes; at++) own[at] = rank == root ? (unsigned char)(at * 3 + (size_t)root) : 0;
        ucc_coll_args_t args = args_of(UCC_COLL_TYPE_BCAST, own, NULL, bytes, 0, UCC_DT_UINT8);
        args.root = (uint64_t)root;
        run(&args);
        for (size_t at = 0; at < bytes; at++)
            if (own[at] != (unsigned char)(at * 3 + (size_t)root)) FAIL("bcast of %zu bytes from %d: byte %zu", bytes, root, at);
    }
    for (size_t at = 0; at < bytes; at++) own[at] = (unsigned char)(at + (size_t)rank * 11);
    memset(all, 0, bytes * (size_t)ranks);
    ucc_coll_args_t args = args_of(UCC_COLL_TYPE_ALLGATHER, own, all, bytes, bytes * (size_t)ranks, UCC_DT_UINT8);
    run(&args);
    for (int r = 0; r < ranks; r++)
        for (size_t at = 0; at < bytes; at++)
            if (all[(size_t)r * bytes + at] != (unsigned char)(at + (size_t)r * 11)) FAIL("allgather of %zu bytes: rank %d, byte %zu", bytes, r, at);
    free(own), free(all);
}

static void overlapping(void)
{
    enum { MANY = 12, COUNT = 3000 };
    static int32_t from[MANY][COUNT], to[MANY][COUNT];
    ucc_coll_req_h requests[MANY];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < MANY; i++) {
            size_t count = i % 3 == 0 ? COUNT : (size_t)i;
            for (size_t at = 0; at < count; at++) from[i][at] = rank + i + (int)at + round;
            ucc_coll_args_t args = args_of(UCC_COLL_TYPE_ALLREDUCE, from[i], to[i], count, count, UCC_DT_INT32);
            args.op = UCC_OP_SUM;
            OK(ucc_collective_init(&args, &requests[i], team));
            OK(ucc_collective_post(requests[i]));
        }
        for (int left = MANY - 1; left >= 0; left--) {
            while (ucc_collective_test(requests[left]) == UCC_INPROGRESS) ucc_context_progress(context), sched_yield();
            OK(ucc_collective_test(requests[left]));
            OK(ucc_collective_finalize(requests[left]));
            size_t count = left % 3 == 0 ? COUNT : (size_t)left;
            for (size_t at = 0; at < count; at++)
                if (to[left][at] != ranks * (left + (int)at + round) + ranks * (ranks - 1) / 2) FAIL("operation %d of %d outstanding", left, MANY);
        }
    }
}

static int member(void)
{
    ucc_lib_config_h lib_config;
    ucc_lib_params_t lib_params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE, .thread_mode = UCC_THREAD_SINGLE};
    ucc_lib_h lib;
    OK(ucc_lib_config_read(NULL, NULL, &lib_config));
    OK(ucc_init(&lib_params, lib_config, &lib));
    ucc_lib_config_release(lib_config);

    ucc_oob_coll_t oob = {oob_allgather, oob_test, oob_free, NULL, (uint32_t)ranks, (uint32_t)rank};
    ucc_context_params_t context_params = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB, .oob = oob};
    ucc_context_config_h context_config;
    OK(ucc_context_config_read(lib, NULL, &context_config));
    OK(ucc_context_create(lib, &context_params, context_config, &context));
    ucc_context_config_release(context_config);

    ucc_team_params_t team_params = {.mask = UCC_TEAM_PARAM_FIELD_OOB, .oob = oob};
    OK(ucc_team_create_post(&context, 1, &team_params, &team));
    ucc_status_t status;
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS) ucc_context_progress(context), sched_yield();
    OK(status);

    static const size_t COUNTS[] = {1, 5, 12, 129, 2000, 40000};
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++) {
        if (is_on_hosts && COUNTS[i] > 129) break; /* Nodes between hosts take small pieces. */
        ucc_coll_args_t barrier = {.coll_type = UCC_COLL_TYPE_BARRIER};
        run(&barrier);
        reductions(COUNTS[i]);
        movements(COUNTS[i]);
    }
    overlapping();
    while ((status = ucc_team_destroy(team)) == UCC_INPROGRESS) ucc_context_progress(context);
    OK(status);
    /* UCC's context waits until UCX's connections end, which needs progress by each peer. A peer that has finished earlier makes none. */
    if (is_on_hosts) return 0;
    OK(ucc_context_destroy(context));
    OK(ucc_finalize(lib));
    return 0;
}

/* Opens the file that the processes of all hosts map. The first process sets its length. */
static int shared_file(const char *name)
{
    int file = open(name, O_RDWR | O_CREAT, 0600);
    return file >= 0 && ftruncate(file, sizeof *common) == 0 ? file : -1;
}

int main(int argc, char **argv)
{
    ranks = argc > 1 ? atoi(argv[1]) : 2;
    int first = argc == 5 ? atoi(argv[2]) : 0, count = argc == 5 ? atoi(argv[3]) : ranks;
    if (ranks < 2 || ranks > RANKS_MAX || first < 0 || count < 1 || first + count > ranks || (argc > 2 && argc != 5))
        return fprintf(stderr, "usage: collectives PROCESSES [FIRST COUNT FILE], 2 to %d\n", RANKS_MAX), 2;
    is_on_hosts = argc == 5;
    int file = argc == 5 ? shared_file(argv[4]) : -1;
    if (argc == 5 && file < 0) return perror(argv[4]), 1;
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0), file, 0);
    if (common == MAP_FAILED) return perror("mmap"), 1;
    for (rank = first; rank < first + count; rank++) {
        pid_t child = fork();
        if (child < 0) return perror("fork"), 1;
        if (child == 0) _exit(member());
    }
    int failed = 0;
    for (int i = 0; i < count; i++) {
        int status;
        if (wait(&status) < 0 || status != 0) failed = 1;
    }
    printf("%d processes: %s\n", ranks, failed ? "wrong" : "right");
    return failed;
}
