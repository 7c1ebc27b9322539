/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * collectives: the collective operations Barrier, Bcast, Allreduce, Reduce, Reduce_scatter, Reduce_scatter_block and Allgather, as
 * MPI defines them (MPI 4.1, chapter 6). The parts:
 *
 *   types        reductions of every predefined type by every operation that MPI allows for it;
 *   memory       operands and results in place, on the stack, static, allocated and mapped, at odd addresses, of many lengths;
 *   data         broadcasts and allgathers of any length, and of derived types that differ between the ranks;
 *   user         user-defined operations, on derived types;
 *   comms        many communicators, at once and one after the other, and two groups of ranks;
 *   progress     a rank waits in a collective operation until a peer has its message;
 *   stream       thousands of broadcasts from changing roots, with late ranks;
 *   mix          random operations, the same at all ranks;
 *   errors       wrong arguments give an error code, and the communicator still works.
 *
 *     mpicc -O2 examples/mpi/collectives.c -o collectives -lm && selvedge mpirun -n 4 ./collectives [exact] [hosts=N] [part]...
 *
 * Runs all parts, or those that are named. Any number of ranks up to 64. Ends with an error when a result is wrong.
 *
 * Each rank computes the expected results: operands follow from a seed, and are reduced in the order of the ranks. MPI allows another
 * order, so rounded results may differ a little. With `exact` they must have the same bits, as they do where our library carries out the
 * operations. Without `exact` there are fewer operations, because others are slow where ranks share cores.
 */
#include "collectives.h"

/* ---- reductions ---- */

enum call { ALLREDUCE, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, REDUCTIONS };

static const char *const call_names[] = {"MPI_Allreduce", "MPI_Reduce", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block"};

/* Arguments of a reduction. The memory differs between the ranks, the rest is the same. */
struct way {
    enum call call;
    int in_place, root;
    enum place from, to;
    int from_shift, to_shift;
};

static struct way way(enum call call, uint64_t seed, int size, int rank)
{
    uint64_t common = mix(seed), own = mix(common + (uint64_t)rank);
    return (struct way){.call = call,
                        .in_place = common >> 8 & 1,
                        .root = (int)((common >> 16) % (unsigned)size),
                        .from = own % PLACES,
                        .to = (own >> 8) % PLACES,
                        .from_shift = (own >> 16) % 16,
                        .to_shift = (own >> 24) % 16};
}

/* `count` is the number of elements of an operand; MPI_Reduce_scatter_block gets a few more, so that the parts are equal. */
static void reduction(MPI_Comm comm, const struct kind *kind, int op, int count, uint64_t seed, enum call call)
{
    unsigned char stack[2][STACK_BYTES] __attribute__((aligned(16)));
    int rank, size, counts[RANKS_MAX], first = 0, part = count;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    struct way w = way(call, seed, size, rank);
    int align = exact && kind->align > 4 ? 4 : (int)kind->align; /* a packed structure may hold a double there */
    if (call == REDUCE_SCATTER) {
        /* Parts of any size, some of them empty. */
        int left = count;
        for (int r = 0; r < size; r++) {
            uint64_t h = mix(seed + 77 + (uint64_t)r);
            counts[r] = r == size - 1 ? left : h % 4 == 0 ? 0 : (int)((h >> 8) % (unsigned)(left + 1));
            left -= counts[r];
            if (r < rank) first += counts[r];
        }
        part = counts[rank];
    } else if (call == REDUCE_SCATTER_BLOCK) {
        part = (count + size - 1) / size;
        first = rank * part;
        count = part * size;
    }
    size_t whole = (size_t)count * kind->bytes;
    int gets = call != REDUCE || rank == w.root;
    /* MPICH 5 does not move long parts in place. */
    int in_place = w.in_place && gets && (exact || call != REDUCE_SCATTER);
    struct memory from = memory(w.from, whole, w.from_shift / align * align, stack[0], 0);
    struct memory to = memory(w.to, in_place ? whole : (size_t)part * kind->bytes, w.to_shift / align * align, stack[1], 1);
    unsigned char *operand = scratch(0, whole);
    memset(operand, 0, whole);
    kind->fill(operand, (size_t)count, rank, seed, op);
    memcpy(in_place ? to.data : from.data, operand, whole);
    /* The operation must not write to the operand. */
    int is_fixed = !in_place && from.place == MAPPED && mprotect(from.base, from.whole, PROT_READ) == 0;

    const void *send = in_place ? MPI_IN_PLACE : from.data;
    void *receive = !gets && seed & 1 ? NULL : to.data;
    int code = call == ALLREDUCE        ? MPI_Allreduce(send, receive, count, kind->type, ops[op], comm)
               : call == REDUCE         ? MPI_Reduce(send, receive, count, kind->type, ops[op], w.root, comm)
               : call == REDUCE_SCATTER ? MPI_Reduce_scatter(send, receive, counts, kind->type, ops[op], comm)
                                        : MPI_Reduce_scatter_block(send, receive, part, kind->type, ops[op], comm);
    char text[400];
    snprintf(text, sizeof text, "%s of %d %s, %s, by %d ranks, root %d, result %s%s, operand %s, at %d and %d bytes beyond 16",
             call_names[call], count, kind->name, op_names[op], size, w.root, place_names[to.place],
             in_place ? " in place" : "", place_names[from.place], (int)((uintptr_t)to.data % 16), (int)((uintptr_t)from.data % 16));
    if (code != MPI_SUCCESS) fail("%s: error code %d", text, code);
    if (!in_place && whole < 100000 && memcmp(from.data, operand, whole) != 0) fail("%s: the operand has changed", text);
    int is_whole;
    long at = guards(&to, &is_whole);
    if (!is_whole) fail("%s: byte %ld beside the result has changed", text, at);
    if (gets) {
        const unsigned char *want = expected(kind, op, (size_t)count, seed, comm, size) + (size_t)first * kind->bytes;
        /* The result may be misaligned for its type, so a copy is compared. */
        unsigned char *got = scratch(1, whole);
        memcpy(got, to.data, (size_t)part * kind->bytes);
        long wrong = kind->differs(got, want, (size_t)part);
        if (wrong >= 0) {
            char is[65] = "", should[65] = "";
            hex(is, got + (size_t)wrong * kind->bytes, kind->bytes);
            hex(should, want + (size_t)wrong * kind->bytes, kind->bytes);
            fail("%s: element %ld of this rank's result is %s and should be %s", text, wrong, is, should);
        }
    } else {
        for (size_t i = 0; i < to.bytes; i++)
            if (to.data[i] != 0x5c) fail("%s: byte %zu of the receive buffer of a rank that is not the root has changed", text, i);
    }
    if (is_fixed) mprotect(from.base, from.whole, PROT_READ | PROT_WRITE);
    drop(&from);
    drop(&to);
}

static void types(void)
{
    static const int counts[] = {1, 2, 5, 12, 13, 127, 128, 129, 1000};
    enum { COUNTS = sizeof counts / sizeof *counts };
    uint64_t seed = 1000;
    int tried = 0;
    for (int k = 0; k < kinds_count; k++)
        for (int op = 0; op < OPERATIONS; op++) {
            if (!(kinds[k].allowed >> op & 1)) continue;
            /* A short one, a longer one, and one of the four functions in turn. */
            reduction(MPI_COMM_WORLD, &kinds[k], op, counts[tried % 5], seed++, ALLREDUCE);
            reduction(MPI_COMM_WORLD, &kinds[k], op, counts[5 + tried % 4], seed++, ALLREDUCE);
            reduction(MPI_COMM_WORLD, &kinds[k], op, counts[tried % COUNTS], seed++, 1 + tried % 3);
            tried++;
        }
    if (me == 0) printf("types: %d pairs of a type and an operation\n", tried);
}

static void places(void)
{
    static const int counts[] = {0, 1, 2, 5, 6, 7, 12, 13, 127, 128, 129, 255, 256, 257, 1000, 4096, 4097};
    const MPI_Datatype some[] = {MPI_DOUBLE, MPI_FLOAT, MPI_LONG_DOUBLE, MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE_INT};
    uint64_t seed = 2000;
    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++)
        for (unsigned t = 0; t < sizeof some / sizeof *some; t++)
            for (int call = 0; call < REDUCTIONS; call++) {
                const struct kind *kind = kind_of(some[t]);
                reduction(MPI_COMM_WORLD, kind, op_of(kind, mix(seed)), counts[c], seed, call);
                seed++;
            }
    for (int call = 0; call < REDUCTIONS; call++)
        for (unsigned t = 0; t < 2; t++)
            reduction(MPI_COMM_WORLD, kind_of(some[t]), SUM, 100003, seed++, call);
    for (int root = 0; root < ranks; root++) {
        /* The next seed that makes this rank the root. */
        while (way(REDUCE, seed, ranks, me).root != root) seed++;
        reduction(MPI_COMM_WORLD, kind_of(MPI_DOUBLE), SUM, 5 + 400 * (root % 2), seed++, REDUCE);
    }
    /* No elements, and NULL buffers. */
    int none[RANKS_MAX] = {0};
    MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(NULL, NULL, 0, MPI_INT, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
    MPI_Reduce_scatter(NULL, NULL, none, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(NULL, 0, MPI_INT, ranks - 1, MPI_COMM_WORLD);
    MPI_Allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD);
    if (me == 0) printf("memory: reductions of up to 100003 elements\n");
}

/* ---- broadcasts and allgathers ---- */

static void broadcast(MPI_Comm comm, size_t bytes, int root, uint64_t seed, int late)
{
    unsigned char stack[STACK_BYTES] __attribute__((aligned(16)));
    int rank, is_whole;
    MPI_Comm_rank(comm, &rank);
    struct way w = way(0, seed, 1, rank);
    struct memory m = memory(w.to, bytes, w.to_shift, stack, 0);
    uint64_t word = 0;
    for (size_t i = 0; rank == root && i < bytes; i++) {
        if (i % 8 == 0) word = mix(seed + i);
        m.data[i] = (unsigned char)(word >> i % 8 * 8);
    }
    if (late) usleep((useconds_t)late);
    int code = MPI_Bcast(m.data, (int)bytes, MPI_BYTE, root, comm);
    if (code != MPI_SUCCESS) fail("MPI_Bcast: error code %d", code);
    for (size_t i = 0; i < bytes; i++) {
        if (i % 8 == 0) word = mix(seed + i);
        if (m.data[i] != (unsigned char)(word >> i % 8 * 8))
            fail("MPI_Bcast of %zu bytes from rank %d, memory %s: byte %zu is wrong", bytes, root, place_names[m.place], i);
    }
    long at = guards(&m, &is_whole);
    if (!is_whole) fail("MPI_Bcast of %zu bytes: byte %ld beside them has changed", bytes, at);
    drop(&m);
}

static void gather(MPI_Comm comm, size_t bytes, uint64_t seed)
{
    unsigned char stack[2][STACK_BYTES] __attribute__((aligned(16)));
    int rank, size, is_whole;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    struct way w = way(0, seed, 1, rank);
    /* In place at some ranks and not at others: each rank decides for itself. */
    int in_place = seed & 2 ? w.in_place : (int)(mix(seed + (uint64_t)rank) & 1);
    if (seed & 4) in_place = 0;
    struct memory from = memory(w.from, bytes, w.from_shift, stack[0], 0);
    struct memory to = memory(w.to, bytes * (size_t)size, w.to_shift, stack[1], 1);
    unsigned char *own = in_place ? to.data + bytes * (size_t)rank : from.data;
    for (size_t i = 0; i < bytes; i++) own[i] = (unsigned char)draw(seed, rank, i / 16) + (unsigned char)i;
    int code = MPI_Allgather(in_place ? MPI_IN_PLACE : from.data, in_place ? 0 : (int)bytes, in_place ? MPI_DATATYPE_NULL : MPI_BYTE,
                             to.data, (int)bytes, MPI_BYTE, comm);
    if (code != MPI_SUCCESS) fail("MPI_Allgather: error code %d", code);
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < bytes; i++)
            if (to.data[(size_t)r * bytes + i] != (unsigned char)((unsigned char)draw(seed, r, i / 16) + (unsigned char)i))
                fail("MPI_Allgather of %zu bytes, %s: byte %zu of rank %d is wrong", bytes, in_place ? "in place" : "not in place", i, r);
    long at = guards(&to, &is_whole);
    if (!is_whole) fail("MPI_Allgather of %zu bytes: byte %ld beside them has changed", bytes, at);
    drop(&from);
    drop(&to);
}

static void derived(int count, uint64_t seed)
{
    size_t part = 12 * (size_t)count, bytes = part * (size_t)ranks + 128;
    unsigned char *area = malloc(bytes), *operand = malloc(part + 128);
    int same = seed % 3 == 0;
    enum layout layout = mix(seed + (same ? 0 : (uint64_t)me)) % LAYOUTS;
    int root = (int)(mix(seed) % (unsigned)ranks);
    memset(area, 0xee, bytes);
    unsigned char *data = area + 64;
    struct described d = describe(layout, data, count);
    if (me == root) put(data, layout, count, seed, root);
    int code = MPI_Bcast(d.address, d.count, d.type, root, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) fail("MPI_Bcast of %s: error code %d", layout_names[layout], code);
    int wrong = take(data, layout, count, seed, root);
    if (wrong >= 0) fail("MPI_Bcast of %d ints from rank %d, here %s: int %d is wrong", count, root, layout_names[layout], wrong);
    gaps(area, bytes, "MPI_Bcast", layout);

    enum layout sent = mix(seed + 99 + (same ? 0 : (uint64_t)me)) % (LAYOUTS + 1);
    struct described s = describe(sent, operand + 64, count);
    int in_place = mix(seed + 7) % 4 == 0;
    memset(operand, 0xee, part + 128);
    if (in_place)
        put(data + d.block * me, layout, count, seed + 1, me);
    else
        put(operand + 64, sent, count, seed + 1, me);
    code = MPI_Allgather(in_place ? MPI_IN_PLACE : s.address, s.count, s.type, d.address, d.count, d.type, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS) fail("MPI_Allgather of %s: error code %d", layout_names[layout], code);
    for (int r = 0; r < ranks; r++) {
        wrong = take(data + d.block * r, layout, count, seed + 1, r);
        if (wrong >= 0)
            fail("MPI_Allgather of %d ints, here %s%s, received as %s: int %d of rank %d is wrong", count,
                 in_place ? "in place, not " : "sent as ", layout_names[sent], layout_names[layout], wrong, r);
    }
    gaps(area, bytes, "MPI_Allgather", layout);
    MPI_Type_free(&d.type);
    MPI_Type_free(&s.type);
    free(area);
    free(operand);
}

/* No rank leaves a barrier before all have entered. The clock is the host's. */
static void barrier(MPI_Comm comm, uint64_t seed)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    struct timespec in, out;
    double times[2], all[2 * RANKS_MAX], last = 0, first = 1e300;
    if (mix(seed + (uint64_t)rank) % 8 == 0) usleep(300);
    clock_gettime(CLOCK_MONOTONIC, &in);
    MPI_Barrier(comm);
    clock_gettime(CLOCK_MONOTONIC, &out);
    times[0] = (double)in.tv_sec + 1e-9 * (double)in.tv_nsec;
    times[1] = (double)out.tv_sec + 1e-9 * (double)out.tv_nsec;
    PMPI_Allgather(times, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, comm);
    for (int r = 0; r < size; r++) {
        last = all[2 * r] > last ? all[2 * r] : last;
        first = all[2 * r + 1] < first ? all[2 * r + 1] : first;
    }
    if (first < last) fail("a rank has left a barrier %.1f us before another entered", 1e6 * (last - first));
}

static void data(void)
{
    static const size_t lengths[] = {0, 1, 7, 8, 40, 47, 48, 49, 56, 57, 63, 64, 65, 1023, 1024, 1025, 4096, 16383, 16384, 16385, 100003, 1048577};
    static const int ints[] = {6, 12, 252, 258, 1026, 4092, 4098, 30000};
    uint64_t seed = 3000;
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int times = 0; times < 8 || times < ranks; times++, seed++) {
            if (lengths[i] > 20000 && times >= 4) break;
            broadcast(MPI_COMM_WORLD, lengths[i], times % ranks, seed, 0);
            if (lengths[i] < 1000000) gather(MPI_COMM_WORLD, lengths[i], seed);
        }
    for (unsigned i = 0; i < sizeof ints / sizeof *ints; i++)
        for (int times = 0; times < (ints[i] < 5000 ? 24 : 12); times++) derived(ints[i], seed++);
    MPI_Comm host;
    int on_host;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &on_host);
    for (int i = 0; i < 50; i++) barrier(host, seed++);
    if (on_host == ranks)
        for (int i = 0; i < 50; i++) barrier(MPI_COMM_WORLD, seed++);
    MPI_Comm_free(&host);
    if (me == 0) printf("data: broadcasts and allgathers of plain and derived types, barriers\n");
}

/* ---- user-defined operations ---- */

/* Multiplies matrices of 2 x 2: the order matters. */
static void times_matrix(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    const uint32_t *a = in;
    uint32_t *b = inout;
    for (int i = 0; i < *length; i++, a += 4, b += 4) {
        uint32_t c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof c);
    }
}

static void add_vectors(void *in, void *inout, int *length, MPI_Datatype *type)
{
    int bytes;
    MPI_Type_size(*type, &bytes);
    for (int i = 0; i < *length * bytes / 4; i++) ((uint32_t *)inout)[i] += ((uint32_t *)in)[i];
}

static void user_op(MPI_Op op, MPI_User_function *function, MPI_Datatype type, int ints, int count, uint64_t seed)
{
    int each = ints * count, total = each * ranks, one = 1;
    size_t bytes = (size_t)total * sizeof(uint32_t);
    uint32_t *own = malloc(bytes), *want = malloc(bytes), *got = malloc(bytes), *other = malloc(bytes);
    for (int i = 0; i < total; i++) own[i] = (uint32_t)draw(seed, me, (size_t)i);
    for (int i = 0; i < total; i++) want[i] = (uint32_t)draw(seed, ranks - 1, (size_t)i);
    for (int r = ranks - 2; r >= 0; r--) {
        for (int i = 0; i < total; i++) other[i] = (uint32_t)draw(seed, r, (size_t)i);
        for (int i = 0; i < total / ints; i++) function(other + i * ints, want + i * ints, &one, &type);
    }
    int counts[RANKS_MAX];
    for (int r = 0; r < ranks; r++) counts[r] = count;
    MPI_Allreduce(own, got, count * ranks, type, op, MPI_COMM_WORLD);
    if (memcmp(got, want, bytes) != 0) fail("MPI_Allreduce by a user-defined operation is wrong");
    memcpy(got, own, bytes);
    MPI_Allreduce(MPI_IN_PLACE, got, count * ranks, type, op, MPI_COMM_WORLD);
    if (memcmp(got, want, bytes) != 0) fail("MPI_Allreduce in place by a user-defined operation is wrong");
    MPI_Reduce(own, got, count * ranks, type, op, ranks - 1, MPI_COMM_WORLD);
    if (me == ranks - 1 && memcmp(got, want, bytes) != 0) fail("MPI_Reduce by a user-defined operation is wrong");
    MPI_Reduce_scatter(own, got, counts, type, op, MPI_COMM_WORLD);
    if (memcmp(got, want + me * each, bytes / (size_t)ranks) != 0) fail("MPI_Reduce_scatter by a user-defined operation is wrong");
    MPI_Reduce_scatter_block(own, got, count, type, op, MPI_COMM_WORLD);
    if (memcmp(got, want + me * each, bytes / (size_t)ranks) != 0) fail("MPI_Reduce_scatter_block by a user-defined operation is wrong");
    free(own), free(want), free(got), free(other);
}

static void user(void)
{
    MPI_Op matrix, vector;
    MPI_Datatype four, three;
    MPI_Op_create(times_matrix, 0, &matrix);
    MPI_Op_create(add_vectors, 1, &vector);
    MPI_Type_contiguous(4, MPI_UINT32_T, &four);
    MPI_Type_contiguous(3, MPI_UINT32_T, &three);
    MPI_Type_commit(&four);
    MPI_Type_commit(&three);
    for (int count = 1; count <= 1000; count *= 10) {
        user_op(matrix, times_matrix, four, 4, count, 4000);
        user_op(vector, add_vectors, three, 3, count, 4001);
        user_op(vector, add_vectors, MPI_UINT32_T, 1, count, 4002);
    }
    MPI_Op_free(&matrix);
    MPI_Op_free(&vector);
    MPI_Type_free(&four);
    MPI_Type_free(&three);
    if (me == 0) printf("user: two user-defined operations\n");
}

/* ---- communicators ---- */

/* One of each operation, short and long in turn. */
static void each(MPI_Comm comm, uint64_t seed)
{
    int size;
    MPI_Comm_size(comm, &size);
    int is_long = (int)(seed & 1);
    MPI_Barrier(comm);
    broadcast(comm, is_long ? 20000 : 100, (int)(seed % (unsigned)size), seed, 0);
    reduction(comm, kind_of(MPI_DOUBLE), SUM, is_long ? 300 : 3, seed, (enum call)(seed / 2 % REDUCTIONS));
    reduction(comm, kind_of(MPI_INT), MAX, is_long ? 600 : 6, seed + 1, ALLREDUCE);
    gather(comm, is_long ? 1500 : 15, seed);
}

static void two_groups(void)
{
    MPI_Comm half, inter;
    int second = me >= ranks / 2;
    MPI_Comm_split(MPI_COMM_WORLD, second, me, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, second ? 0 : ranks / 2, 5, &inter);
    for (int i = 0; i < 3; i++) {
        int others = second ? ranks / 2 : ranks - ranks / 2, sum = -1, word = -1;
        MPI_Barrier(inter);
        MPI_Allreduce(&(int){second ? 100 : 1}, &sum, 1, MPI_INT, MPI_SUM, inter);
        if (sum != (second ? others : 100 * others)) fail("MPI_Allreduce of two groups gives %d", sum);
        if (!second && me == 0) word = 42 + i;
        MPI_Bcast(&word, 1, MPI_INT, second ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
        if (word != (second || me == 0 ? 42 + i : -1)) fail("MPI_Bcast between two groups gives %d", word);
    }
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

static void comms(void)
{
    enum { HELD = 5 };
    MPI_Comm held[HELD];
    uint64_t seed = 5000;
    each(MPI_COMM_SELF, seed), each(MPI_COMM_SELF, seed + 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &held[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &held[1]);               /* reversed */
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &held[2]);           /* halves */
    MPI_Comm_split(MPI_COMM_WORLD, me, 0, &held[3]);                /* singletons */
    MPI_Comm_split(MPI_COMM_WORLD, me < (ranks + 1) / 2, -me, &held[4]);
    for (int i = 0; i < 60; i++) each(held[mix(seed + (uint64_t)i) % HELD], seed + (uint64_t)i);
    for (int i = 0; i < 100; i++) {
        MPI_Comm comm;
        switch (i % 4) {
        case 0: MPI_Comm_dup(held[0], &comm); break;
        case 1: MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &comm); break;
        case 2: MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &comm); break;
        default: MPI_Comm_split(MPI_COMM_WORLD, me == 0 ? MPI_UNDEFINED : 1, me, &comm);
        }
        if (comm == MPI_COMM_NULL) continue;
        each(comm, seed + (uint64_t)i);
        MPI_Comm_free(&comm);
    }
    for (int i = 0; i < HELD; i++) each(held[i], seed + 500 + (uint64_t)i);
    for (int i = 0; i < HELD; i++) MPI_Comm_free(&held[i]);
    if (ranks > 1) two_groups();
    if (me == 0) printf("comms: more than 100 communicators\n");
}

/* ---- progress ---- */

static void progress(void)
{
    enum { BYTES = 4 << 20, ROUNDS = 6 };
    unsigned char *message = malloc(BYTES);
    for (int i = 0; i < ROUNDS && ranks > 1; i++) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (me < 2) memset(message, me == 0 ? i + 1 : 0, BYTES);
        if (me == 0) MPI_Isend(message, BYTES, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &request);
        if (me == 1) MPI_Recv(message, BYTES, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (i % 3 == 0) reduction(MPI_COMM_WORLD, kind_of(MPI_DOUBLE), SUM, i < 3 ? 10 : 2000, 6000 + (uint64_t)i, ALLREDUCE);
        if (i % 3 == 1) MPI_Barrier(MPI_COMM_WORLD);
        if (i % 3 == 2) broadcast(MPI_COMM_WORLD, i < 3 ? 100 : 50000, 1, 6000 + (uint64_t)i, 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int b = 0; me == 1 && b < BYTES; b++)
            if (message[b] != i + 1) fail("byte %d of a message is wrong", b);
    }
    free(message);
    if (me == 0) printf("progress: messages arrive while their sender waits\n");
}

/* ---- many operations ---- */

static void stream(void)
{
    int broadcasts = exact && ranks <= 4 ? 5000 : 1000;
    for (int i = 0; i < broadcasts; i++) {
        uint64_t common = mix(7000 + (uint64_t)i), own = mix(common + (uint64_t)me);
        size_t bytes = common % 64 == 0 ? 1000 + common % 19000 : 1 + (common >> 8) % 200;
        broadcast(MPI_COMM_WORLD, bytes, (int)((common >> 32) % (unsigned)ranks), common, own % 256 == 0 ? (int)((own >> 8) % 300) : 0);
    }
    if (me == 0) printf("stream: %d broadcasts\n", broadcasts);
}

static void random_mix(void)
{
    int steps = exact ? 2000 : 500;
    MPI_Comm use[3];
    use[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &use[1]);
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &use[2]);
    for (int i = 0; i < steps; i++) {
        uint64_t seed = mix(8000 + (uint64_t)i);
        MPI_Comm comm = use[seed % 3];
        int size;
        MPI_Comm_size(comm, &size);
        int length = 1 << (seed >> 8) % (i % 16 == 0 ? 15 : 9);
        length += (int)((seed >> 16) % (unsigned)length);
        const struct kind *kind = &kinds[(seed >> 32) % (unsigned)kinds_count];
        switch ((seed >> 40) % 8) {
        case 0: MPI_Barrier(comm); break;
        case 1:
        case 2: broadcast(comm, (size_t)length, (int)((seed >> 48) % (unsigned)size), seed, 0); break;
        case 3: gather(comm, (size_t)length, seed); break;
        case 4: reduction(comm, kind, op_of(kind, seed >> 44), length, seed, ALLREDUCE); break;
        case 5: reduction(comm, kind, op_of(kind, seed >> 44), length, seed, REDUCE); break;
        case 6: reduction(comm, kind, op_of(kind, seed >> 44), length, seed, REDUCE_SCATTER); break;
        default: reduction(comm, kind, op_of(kind, seed >> 44), length, seed, REDUCE_SCATTER_BLOCK);
        }
    }
    MPI_Comm_free(&use[1]);
    MPI_Comm_free(&use[2]);
    if (me == 0) printf("mix: %d random operations\n", steps);
}

/* ---- errors ---- */

static int handled; /* calls of the error handler */

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

static int is_counting;

/* Expects an error of this class, or one call of the handler. With a user's error handler MPICH returns no code. */
static void wrong(const char *what, int code, int class)
{
    int got = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &got);
    if (!is_counting && got != class) fail("%s gives an error of class %d, not %d", what, got, class);
    if (is_counting && handled != 1) fail("%s calls the error handler %d times", what, handled);
    handled = 0;
}

/* Calls that crash an MPI are left out: Open MPI crashes in MPI_Allgather without a communicator, MPICH with no type or a negative length. */
static void errors(void)
{
    int word = 1, sum = 0;
    double number = 1, result;
    MPI_Comm comm, none = MPI_COMM_NULL;
    MPI_Errhandler counts;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &counts);
    MPI_Comm with[] = {comm, MPI_COMM_WORLD, MPI_COMM_SELF}; /* an error without a communicator goes to one of the latter */
    for (int round = 0; round < 4; round++) {
        is_counting = round > 1;
        for (int i = 0; i < 3; i++) MPI_Comm_set_errhandler(with[i], is_counting ? counts : MPI_ERRORS_RETURN);
        wrong("MPI_Bcast from a rank outside the communicator", MPI_Bcast(&word, 1, MPI_INT, ranks, comm), MPI_ERR_ROOT);
        wrong("MPI_Bcast from rank -7", MPI_Bcast(&word, 1, MPI_INT, -7, comm), MPI_ERR_ROOT);
        wrong("MPI_Reduce to a rank outside the communicator", MPI_Reduce(&word, &sum, 1, MPI_INT, MPI_SUM, ranks + 1, comm), MPI_ERR_ROOT);
        wrong("MPI_Reduce to rank -7", MPI_Reduce(&word, &sum, 1, MPI_INT, MPI_SUM, -7, comm), MPI_ERR_ROOT);
        wrong("MPI_Allreduce of doubles by bits", MPI_Allreduce(&number, &result, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP);
        wrong("MPI_Barrier without a communicator", MPI_Barrier(none), MPI_ERR_COMM);
        wrong("MPI_Bcast without a communicator", MPI_Bcast(&word, 1, MPI_INT, 0, none), MPI_ERR_COMM);
        wrong("MPI_Allreduce without a communicator", MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, none), MPI_ERR_COMM);
        wrong("MPI_Reduce without a communicator", MPI_Reduce(&word, &sum, 1, MPI_INT, MPI_SUM, 0, none), MPI_ERR_COMM);
        wrong("MPI_Reduce_scatter without a communicator", MPI_Reduce_scatter(&word, &sum, &(int){1}, MPI_INT, MPI_SUM, none), MPI_ERR_COMM);
        wrong("MPI_Reduce_scatter_block without a communicator",
              MPI_Reduce_scatter_block(&word, &sum, 1, MPI_INT, MPI_SUM, none), MPI_ERR_COMM);
        each(comm, 9000 + (uint64_t)round);
    }
    MPI_Errhandler_free(&counts);
    for (int i = 1; i < 3; i++) MPI_Comm_set_errhandler(with[i], MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
    if (me == 0) printf("errors: wrong arguments give error codes\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"types", types}, {"memory", places}, {"data", data},         {"user", user},     {"comms", comms},
                 {"progress", progress}, {"stream", stream}, {"mix", random_mix}, {"errors", errors}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > RANKS_MAX) fail("more than %d ranks", RANKS_MAX);
    int named = 0;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "exact") == 0)
            exact = 1;
        else if (sscanf(argv[i], "hosts=%d", &hosts) != 1)
            named++;
    know_types();
    for (unsigned p = 0; p < sizeof parts / sizeof *parts; p++) {
        int is_named = !named;
        for (int i = 1; i < argc; i++) is_named |= strcmp(argv[i], parts[p].name) == 0;
        if (is_named) parts[p].run();
        fflush(stdout);
    }
    if (me == 0) printf("%d ranks: all %s\n", ranks, exact ? "results have the bits of the ranks' order" : "right");
    MPI_Finalize();
    return 0;
}
