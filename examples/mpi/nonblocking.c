/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * nonblocking: the collective operations of the program collectives in their nonblocking forms (MPI 4.1, 6.12), completed by all of MPI's
 * calls for requests. The parts:
 *
 *   types        reductions of every predefined type by every operation that MPI allows for it, several outstanding;
 *   lengths      every form at many lengths, in place, and of derived types that are freed at once;
 *   ways         many outstanding operations on several communicators, completed by Wait, Test, and their forms for many requests;
 *   blocking     blocking operations among nonblocking ones, and some by a user-defined operation;
 *   messages     messages and operations in one Waitall; a rank that waits for a message makes progress on operations of its peers;
 *   comms        communicators whose first operation is nonblocking, and that are freed while operations are outstanding;
 *   late         ranks that start long after the others;
 *   errors       wrong arguments, and ranks that disagree, give error codes, and the communicator still works;
 *   threads      MPI_THREAD_MULTIPLE: threads with a communicator each. Only if it is named.
 *
 *     mpicc -O2 examples/mpi/nonblocking.c -o nonblocking -lm -lpthread && selvedge mpirun -n 4 ./nonblocking [exact] [hosts=N] [part]...
 *
 * Runs all parts, or those that are named. Any number of ranks up to 64. Ends with an error when a result is wrong. `exact`: results have
 * the bits of the ranks' order, as where our library carries out the operations.
 */
#include "collectives.h"

#include <pthread.h>

enum form { BARRIER, BCAST, ALLREDUCE, REDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, ALLGATHER, DERIVED_BCAST, DERIVED_ALLGATHER, USER, FORMS };

static const char *const form_names[] = {"MPI_Ibarrier", "MPI_Ibcast", "MPI_Iallreduce", "MPI_Ireduce", "MPI_Ireduce_scatter",
                                         "MPI_Ireduce_scatter_block", "MPI_Iallgather", "MPI_Ibcast of a derived type",
                                         "MPI_Iallgather of derived types", "MPI_Iallreduce by a user-defined operation"};

/* An outstanding operation, and its expected result. */
struct started {
    enum form form;
    MPI_Comm comm;
    const struct kind *kind;
    int op, count, root, rank, size, in_place, first, part;
    int counts[RANKS_MAX], host[RANKS_MAX]; /* The communicator may be freed before the operation completes. */
    enum layout layout, sent;
    MPI_Aint block;
    uint64_t seed;
    struct memory from, to;
    MPI_Request request;
};

static MPI_Op user_op;

/* Composes x -> m * x + c, with 16 bits each. The order matters. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    uint32_t m = (a >> 16) * (b >> 16), c = (a & 0xffff) * (b >> 16) + b;
    return m << 16 | (c & 0xffff);
}

static void composed(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++) ((uint32_t *)inout)[i] = compose(((uint32_t *)in)[i], ((uint32_t *)inout)[i]);
}

static int is_reduction(enum form form) { return form >= ALLREDUCE && form <= REDUCE_SCATTER_BLOCK; }

static struct memory bytes_of(uint64_t h, size_t bytes, int align)
{
    return memory(h & 1 ? HEAP : MAPPED, bytes, (int)(h >> 8 & 15) / align * align, NULL, 0);
}

/* Starts an operation. Its arguments are the same at all ranks; memory and layout follow from the seed and the rank. */
static struct started *begin(MPI_Comm comm, enum form form, const struct kind *kind, int op, int count, uint64_t seed)
{
    struct started *o = calloc(1, sizeof *o);
    if (!o) fail("no memory");
    *o = (struct started){.form = form, .comm = comm, .kind = kind, .op = op, .count = count, .seed = seed, .request = MPI_REQUEST_NULL};
    MPI_Comm_rank(comm, &o->rank);
    MPI_Comm_size(comm, &o->size);
    know_hosts(comm, o->size, o->host);
    uint64_t common = mix(seed), own = mix(common + (uint64_t)o->rank);
    o->root = (int)((common >> 16) % (unsigned)o->size);
    o->in_place = common >> 8 & 1;
    int align = exact && kind->align > 4 ? 4 : (int)kind->align, code = MPI_SUCCESS;
    if (is_reduction(form)) {
        o->part = count;
        if (form == REDUCE_SCATTER) {
            int left = count;
            for (int r = 0; r < o->size; r++) {
                uint64_t h = mix(seed + 77 + (uint64_t)r);
                o->counts[r] = r == o->size - 1 ? left : h % 4 == 0 ? 0 : (int)((h >> 8) % (unsigned)(left + 1));
                left -= o->counts[r];
                if (r < o->rank) o->first += o->counts[r];
            }
            o->part = o->counts[o->rank];
        } else if (form == REDUCE_SCATTER_BLOCK) {
            o->part = (count + o->size - 1) / o->size;
            o->first = o->rank * o->part;
            o->count = o->part * o->size;
        }
        size_t whole = (size_t)o->count * kind->bytes;
        int gets = form != REDUCE || o->rank == o->root;
        o->in_place &= gets && (exact || form == ALLREDUCE);
        o->from = bytes_of(own, whole, align);
        o->to = bytes_of(own >> 16, o->in_place ? whole : (size_t)o->part * kind->bytes, align);
        unsigned char *operand = scratch(0, whole);
        memset(operand, 0, whole);
        kind->fill(operand, (size_t)o->count, o->rank, seed, op);
        memcpy(o->in_place ? o->to.data : o->from.data, operand, whole);
        const void *send = o->in_place ? MPI_IN_PLACE : o->from.data;
        void *receive = !gets && seed & 1 ? NULL : o->to.data;
        code = form == ALLREDUCE        ? MPI_Iallreduce(send, receive, o->count, kind->type, ops[op], comm, &o->request)
               : form == REDUCE         ? MPI_Ireduce(send, receive, o->count, kind->type, ops[op], o->root, comm, &o->request)
               : form == REDUCE_SCATTER ? MPI_Ireduce_scatter(send, receive, o->counts, kind->type, ops[op], comm, &o->request)
                                        : MPI_Ireduce_scatter_block(send, receive, o->part, kind->type, ops[op], comm, &o->request);
    } else if (form == BARRIER) {
        o->from = o->to = bytes_of(0, 0, 1);
        code = MPI_Ibarrier(comm, &o->request);
    } else if (form == BCAST) {
        o->from = bytes_of(own, 0, 1);
        o->to = bytes_of(own, (size_t)count, 1);
        for (int i = 0; o->rank == o->root && i < count; i++) o->to.data[i] = (unsigned char)mix(seed + (uint64_t)i);
        code = MPI_Ibcast(o->to.data, count, MPI_BYTE, o->root, comm, &o->request);
    } else if (form == ALLGATHER) {
        /* In place at some ranks and not at others. */
        o->in_place = own >> 4 & 1;
        o->from = bytes_of(own, (size_t)count, 1);
        o->to = bytes_of(own >> 16, (size_t)count * (size_t)o->size, 1);
        unsigned char *to = o->in_place ? o->to.data + (size_t)count * (size_t)o->rank : o->from.data;
        for (int i = 0; i < count; i++) to[i] = (unsigned char)draw(seed, o->rank, (size_t)i);
        code = MPI_Iallgather(o->in_place ? MPI_IN_PLACE : o->from.data, o->in_place ? 0 : count,
                              o->in_place ? MPI_DATATYPE_NULL : MPI_BYTE, o->to.data, count, MPI_BYTE, comm, &o->request);
    } else if (form == USER) {
        o->from = bytes_of(own, (size_t)count * 4, 4);
        o->to = bytes_of(own >> 16, (size_t)count * 4, 4);
        for (int i = 0; i < count; i++) ((uint32_t *)o->from.data)[i] = (uint32_t)draw(seed, o->rank, (size_t)i);
        code = MPI_Iallreduce(o->from.data, o->to.data, count, MPI_UINT32_T, user_op, comm, &o->request);
    } else {
        /* Ints, in a layout of each rank's own; their number is a multiple of 6. Open MPI 4.1 keeps no type for its own operations. */
        o->count = count = count / 6 * 6 + 6;
        size_t part = 12 * (size_t)count;
        o->layout = own % LAYOUTS;
        o->sent = (own >> 8) % (LAYOUTS + 1);
        o->from = bytes_of(own, part + 128, 4);
        o->to = bytes_of(own >> 16, part * (size_t)o->size + 128, 4);
        memset(o->from.data, 0xee, o->from.bytes);
        memset(o->to.data, 0xee, o->to.bytes);
        struct described d = describe(o->layout, o->to.data + 64, count), s = describe(o->sent, o->from.data + 64, count);
        o->block = d.block;
        o->in_place = common >> 24 & 1;
        if (form == DERIVED_BCAST) {
            if (o->rank == o->root) put(o->to.data + 64, o->layout, count, seed, o->root);
            code = MPI_Ibcast(d.address, d.count, d.type, o->root, comm, &o->request);
        } else {
            if (o->in_place)
                put(o->to.data + 64 + d.block * o->rank, o->layout, count, seed, o->rank);
            else
                put(o->from.data + 64, o->sent, count, seed, o->rank);
            code = MPI_Iallgather(o->in_place ? MPI_IN_PLACE : s.address, s.count, s.type, d.address, d.count, d.type, comm, &o->request);
        }
        MPI_Type_free(&d.type);
        MPI_Type_free(&s.type);
    }
    if (code != MPI_SUCCESS) fail("%s: error code %d", form_names[form], code);
    return o;
}

static void end(struct started *o)
{
    char text[300];
    snprintf(text, sizeof text, "%s of %d %s, %s, by %d ranks, root %d%s", form_names[o->form], o->count, o->kind->name, op_names[o->op], o->size,
             o->root, o->in_place ? ", in place" : "");
    if (o->request != MPI_REQUEST_NULL) fail("%s: its request is not MPI_REQUEST_NULL", text);
    int is_whole, rank = o->rank, size = o->size, count = o->count;
    long at = guards(&o->to, &is_whole);
    if (!is_whole) fail("%s: byte %ld beside the result has changed", text, at);
    unsigned char *data = o->to.data;
    if (is_reduction(o->form)) {
        size_t whole = (size_t)count * o->kind->bytes;
        if (o->form != REDUCE || rank == o->root) {
            const unsigned char *want = expected_on(o->kind, o->op, (size_t)count, o->seed, o->host, size) + (size_t)o->first * o->kind->bytes;
            unsigned char *got = scratch(1, whole);
            memcpy(got, data, (size_t)o->part * o->kind->bytes);
            long wrong = o->kind->differs(got, want, (size_t)o->part);
            if (wrong >= 0) {
                char is[65] = "", should[65] = "";
                hex(is, got + (size_t)wrong * o->kind->bytes, o->kind->bytes);
                hex(should, want + (size_t)wrong * o->kind->bytes, o->kind->bytes);
                fail("%s: element %ld of this rank's result is %s and should be %s", text, wrong, is, should);
            }
        } else {
            for (size_t i = 0; i < o->to.bytes; i++)
                if (data[i] != 0x5c) fail("%s: byte %zu of the receive buffer of a rank that is not the root has changed", text, i);
        }
        unsigned char *operand = scratch(0, whole);
        memset(operand, 0, whole);
        o->kind->fill(operand, (size_t)count, rank, o->seed, o->op);
        if (!o->in_place && memcmp(o->from.data, operand, whole) != 0) fail("%s: the operand has changed", text);
    } else if (o->form == BCAST) {
        for (int i = 0; i < count; i++)
            if (data[i] != (unsigned char)mix(o->seed + (uint64_t)i)) fail("%s: byte %d is wrong", text, i);
    } else if (o->form == ALLGATHER) {
        for (int r = 0; r < size; r++)
            for (int i = 0; i < count; i++)
                if (data[(size_t)r * (size_t)count + (size_t)i] != (unsigned char)draw(o->seed, r, (size_t)i))
                    fail("%s: byte %d of rank %d is wrong", text, i, r);
    } else if (o->form == USER) {
        for (int i = 0; i < count; i++) {
            uint32_t want = (uint32_t)draw(o->seed, 0, (size_t)i);
            for (int r = 1; r < size; r++) want = compose(want, (uint32_t)draw(o->seed, r, (size_t)i));
            if (((uint32_t *)data)[i] != want) fail("%s: element %d is wrong", text, i);
        }
    } else if (o->form != BARRIER) {
        int parts = o->form == DERIVED_BCAST ? 1 : size;
        for (int r = 0; r < parts; r++) {
            int wrong = take(data + 64 + o->block * r, o->layout, count, o->seed, parts == 1 ? o->root : r);
            if (wrong >= 0) fail("%s, here %s: int %d of rank %d is wrong", text, layout_names[o->layout], wrong, r);
        }
        gaps(data, o->to.bytes, text, o->layout);
    }
    if (o->form != BARRIER) drop(&o->from);
    drop(&o->to);
    free(o);
}

/* Starts an operation chosen by the seed, of the first `forms` forms. */
static struct started *one_of(MPI_Comm comm, uint64_t seed, int longest, int forms, int least)
{
    uint64_t h = mix(seed);
    const struct kind *kind = &kinds[h % (unsigned)kinds_count];
    enum form form = (enum form)((h >> 16) % (unsigned)forms);
    int count = (int)((h >> 24) % (h >> 60 == 0 ? (unsigned)longest : 100));
    return begin(comm, form, kind, op_of(kind, h >> 48), is_reduction(form) ? count + 1 : count + least, seed);
}

static struct started *any(MPI_Comm comm, uint64_t seed, int longest) { return one_of(comm, seed, longest, FORMS, 0); }

static void wait_and_end(struct started *o)
{
    int code = MPI_Wait(&o->request, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) fail("MPI_Wait: error code %d", code);
    end(o);
}

static void wait_all(struct started **all, int count)
{
    enum { MOST = 64 };
    MPI_Request requests[MOST];
    MPI_Status statuses[MOST];
    for (int i = 0; i < count; i++) requests[i] = all[i]->request;
    int code = MPI_Waitall(count, requests, me & 1 ? statuses : MPI_STATUSES_IGNORE);
    if (code != MPI_SUCCESS) fail("MPI_Waitall: error code %d", code);
    for (int i = 0; i < count; i++) all[i]->request = requests[i], end(all[i]);
}

/* ---- parts ---- */

static void types(void)
{
    static const int counts[] = {1, 2, 5, 12, 13, 127, 128, 129, 1000};
    enum { AT_ONCE = 6 };
    struct started *all[AT_ONCE];
    uint64_t seed = 1000;
    int tried = 0, held = 0;
    for (int k = 0; k < kinds_count; k++)
        for (int op = 0; op < OPERATIONS; op++) {
            if (!(kinds[k].allowed >> op & 1)) continue;
            for (int times = 0; times < 3; times++) {
                enum form form = times < 2 ? ALLREDUCE : REDUCE + tried % 3;
                int count = times == 0 ? counts[tried % 5] : times == 1 ? counts[5 + tried % 4] : counts[tried % 9];
                all[held++] = begin(MPI_COMM_WORLD, form, &kinds[k], op, count, seed++);
                if (held == AT_ONCE) wait_all(all, held), held = 0;
            }
            tried++;
        }
    wait_all(all, held);
    if (me == 0) printf("types: %d pairs of a type and an operation\n", tried);
}

static void lengths(void)
{
    static const int counts[] = {1, 2, 7, 48, 49, 127, 128, 129, 1024, 1025, 4097, 16384, 16390, 100003, 300001};
    const MPI_Datatype some[] = {MPI_DOUBLE, MPI_INT, MPI_SHORT};
    uint64_t seed = 2000;
    for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int times = 0; times < (counts[c] > 20000 ? 1 : 4); times++) {
            struct started *all[FORMS];
            for (int form = 0; form < FORMS; form++) {
                const struct kind *kind = kind_of(some[seed % 3]);
                all[form] = begin(MPI_COMM_WORLD, (enum form)form, kind, op_of(kind, mix(seed)), counts[c], seed);
                seed++;
            }
            if (times % 2)
                wait_all(all, FORMS);
            else
                for (int i = 0; i < FORMS; i++) wait_and_end(all[FORMS - 1 - i]);
        }
    /* No elements. */
    MPI_Request none[6];
    int zeros[RANKS_MAX] = {0};
    MPI_Iallreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &none[0]);
    MPI_Ireduce(NULL, NULL, 0, MPI_INT, MPI_SUM, ranks - 1, MPI_COMM_WORLD, &none[1]);
    MPI_Ireduce_scatter(NULL, NULL, zeros, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &none[2]);
    MPI_Ireduce_scatter_block(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &none[3]);
    MPI_Ibcast(NULL, 0, MPI_INT, ranks - 1, MPI_COMM_WORLD, &none[4]);
    MPI_Iallgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD, &none[5]);
    MPI_Waitall(6, none, MPI_STATUSES_IGNORE);
    if (me == 0) printf("lengths: every form, of up to 300001 elements\n");
}

/* Completes operations by one of MPI's calls; each rank chooses one. */
static void complete(struct started **all, int count, uint64_t way)
{
    enum { MOST = 64 };
    MPI_Request requests[MOST];
    MPI_Status statuses[MOST], status;
    int indices[MOST], left = count, flag = 0, index, done;
    for (int i = 0; i < count; i++) requests[i] = all[i]->request;
    switch (way % 9) {
    case 0:
        for (int i = 0; i < count; i++) MPI_Wait(&requests[(i * 7 + 3) % count], &status);
        for (int i = 0; i < count; i++) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        break;
    case 1: MPI_Waitall(count, requests, statuses); break;
    case 2:
        for (; left; left--) {
            MPI_Waitany(count, requests, &index, &status);
            if (index == MPI_UNDEFINED || requests[index] != MPI_REQUEST_NULL) fail("MPI_Waitany gives %d", index);
        }
        break;
    case 3:
        while (left) {
            MPI_Waitsome(count, requests, &done, indices, statuses);
            if (done <= 0 || done > left) fail("MPI_Waitsome completes %d of %d", done, left);
            left -= done;
        }
        break;
    case 4:
        while (left) {
            MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
            if (done < 0 || done > left) fail("MPI_Testsome completes %d of %d", done, left);
            left -= done;
        }
        break;
    case 5:
        while (!flag) MPI_Testall(count, requests, &flag, statuses);
        break;
    case 6:
        while (left) {
            MPI_Testany(count, requests, &index, &flag, &status);
            left -= flag;
        }
        break;
    case 7:
        for (int i = count; i-- > 0; flag = 0)
            while (!flag) MPI_Test(&requests[i], &flag, &status);
        break;
    default:
        for (int i = 0; i < count; i++) {
            for (flag = 0; !flag;) MPI_Request_get_status(requests[i], &flag, &status);
            MPI_Wait(&requests[i], &status);
        }
    }
    for (int i = 0; i < count; i++) all[i]->request = requests[i], end(all[i]);
}

static void ways(void)
{
    enum { MOST = 48 };
    struct started *all[MOST];
    MPI_Comm use[3];
    use[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &use[1]);
    MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &use[2]);
    for (int i = 0; i < 3; i++) MPI_Barrier(use[i]);
    int rounds = exact ? 90 : 27;
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = mix(3000 + (uint64_t)round);
        int count = 1 + (int)(seed % MOST);
        for (int i = 0; i < count; i++) all[i] = any(use[mix(seed + 1 + (uint64_t)i) % 3], seed + 100 + (uint64_t)i, 20000);
        /* Half of the rounds with the same call at all ranks, half with different ones. */
        complete(all, count, round % 2 ? (uint64_t)(round / 2) : mix(seed + (uint64_t)me));
    }
    MPI_Comm_free(&use[1]);
    MPI_Comm_free(&use[2]);
    if (me == 0) printf("ways: %d rounds of up to %d outstanding operations\n", rounds, MOST);
}

/* Checks one blocking operation. */
static void blocking_one(MPI_Comm comm, uint64_t seed)
{
    int rank, size, longs = seed % 4 == 0, count = longs ? 3000 : 5;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const struct kind *kind = kind_of(MPI_DOUBLE);
    double *from = malloc((size_t)count * sizeof *from), *to = malloc((size_t)count * sizeof *to);
    switch (seed / 4 % 3) {
    case 0: MPI_Barrier(comm); break;
    case 1:
        kind->fill(from, (size_t)count, (int)(seed % (unsigned)size), seed, SUM);
        if (rank != (int)(seed % (unsigned)size)) memset(from, 0, (size_t)count * sizeof *from);
        MPI_Bcast(from, count, MPI_DOUBLE, (int)(seed % (unsigned)size), comm);
        kind->fill(to, (size_t)count, (int)(seed % (unsigned)size), seed, SUM);
        if (memcmp(from, to, (size_t)count * sizeof *from) != 0) fail("MPI_Bcast among nonblocking operations is wrong");
        break;
    default:
        kind->fill(from, (size_t)count, rank, seed, SUM);
        MPI_Allreduce(from, to, count, MPI_DOUBLE, MPI_SUM, comm);
        if (kind->differs(to, expected(kind, SUM, (size_t)count, seed, comm, size), (size_t)count) >= 0)
            fail("MPI_Allreduce among nonblocking operations is wrong");
    }
    free(from);
    free(to);
}

static void blocking(void)
{
    enum { MOST = 12 };
    struct started *all[MOST];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    int rounds = exact ? 150 : 30;
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = mix(4000 + (uint64_t)round);
        MPI_Comm use = round % 2 ? comm : MPI_COMM_WORLD;
        int count = 1 + (int)(seed % MOST);
        for (int i = 0; i < count; i++) {
            all[i] = any(use, seed + (uint64_t)i, 20000);
            if (mix(seed + 50 + (uint64_t)i) % 2) blocking_one(round % 3 ? use : MPI_COMM_WORLD, mix(seed + 70 + (uint64_t)i));
        }
        complete(all, count, mix(seed + (uint64_t)me));
    }
    MPI_Comm_free(&comm);
    if (me == 0) printf("blocking: %d rounds with blocking operations in between\n", rounds);
}

static void messages(void)
{
    enum { LENGTH = 30000, EACH = 4 };
    int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    unsigned char *sent = malloc(LENGTH), *got = malloc(LENGTH);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < 60; round++) {
        struct started *all[EACH];
        MPI_Request requests[EACH + 2];
        int length = round % 2 ? LENGTH : 8, flag = 0;
        memset(sent, me + round, (size_t)length);
        memset(got, 0xff, (size_t)length);
        for (int i = 0; i < EACH; i++) {
            all[i] = any(MPI_COMM_WORLD, mix(5000 + (uint64_t)(round * EACH + i)), 20000);
            requests[i < 2 ? i : i + 2] = all[i]->request;
        }
        MPI_Irecv(got, length, MPI_BYTE, before, round, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(sent, length, MPI_BYTE, next, round, MPI_COMM_WORLD, &requests[3]);
        if (round % 3)
            MPI_Waitall(EACH + 2, requests, MPI_STATUSES_IGNORE);
        else
            while (!flag) MPI_Testall(EACH + 2, requests, &flag, MPI_STATUSES_IGNORE);
        for (int i = 0; i < length; i++)
            if (got[i] != (unsigned char)(before + round)) fail("byte %d of a message is wrong", i);
        for (int i = 0; i < EACH; i++) all[i]->request = requests[i < 2 ? i : i + 2], end(all[i]);
    }
    /* Rank 0 waits in a call that does not name the operation, until a peer has its result. */
    for (int round = 0; ranks > 1 && round < 12; round++) {
        int word = 0, length = round % 2 ? 100000 : 10;
        const struct kind *kind = kind_of(MPI_DOUBLE);
        struct started *two[2] = {begin(MPI_COMM_WORLD, ALLREDUCE, kind, SUM, length, 5500 + 2 * (uint64_t)round),
                                    begin(MPI_COMM_WORLD, round % 3 ? DERIVED_ALLGATHER : BARRIER, kind, SUM, length / 10, 5501 + 2 * (uint64_t)round)};
        if (me == 0) {
            if (round % 4 < 2)
                MPI_Recv(&word, 1, MPI_INT, ranks - 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else
                MPI_Probe(ranks - 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (round % 4 >= 2) MPI_Recv(&word, 1, MPI_INT, ranks - 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        wait_all(two, 2);
        if (me == ranks - 1) MPI_Send(&round, 1, MPI_INT, 0, 77, MPI_COMM_WORLD);
        if (me == 0 && word != round) fail("a message among operations is wrong");
    }
    free(sent);
    free(got);
    if (me == 0) printf("messages: with operations in one call; operations make progress while a rank waits for a message\n");
}

/* Our library carries out the operations of a communicator from its first blocking one on. Earlier ones are the MPI's, in its order. Both
 * versions of Open MPI crash if a communicator is freed while operations of their own are outstanding. */
static void comms(void)
{
    enum { EACH = 6 };
    int are_ours = exact, rounds = exact ? 60 : 24, steps = exact ? 400 : 80;
    for (int round = 0; round < rounds; round++) {
        struct started *all[EACH];
        MPI_Comm comm;
        uint64_t seed = mix(6000 + (uint64_t)round);
        if (round % 4 == 3)
            MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &comm);
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        exact = are_ours && round % 2;
        if (round % 2) MPI_Barrier(comm);
        for (int i = 0; i < EACH; i++) all[i] = one_of(comm, seed + (uint64_t)i, round % 3 ? 100 : 30000, exact ? USER : FORMS, 1);
        if (round % 3 == 0) {
            complete(all, EACH, mix(seed + (uint64_t)me));
            blocking_one(comm, seed);
            for (int i = 0; i < EACH; i++) all[i] = one_of(comm, seed + 100 + (uint64_t)i, 20000, exact ? USER : FORMS, 1);
        }
        if (!exact) complete(all, EACH, mix(seed + (uint64_t)me));
        MPI_Comm_free(&comm);
        if (!exact) continue;
        if (round % 5 == 0) {
            /* This communicator may have the handle of the freed one. */
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            blocking_one(comm, seed + 1);
            wait_and_end(any(comm, seed + 200, 1000));
            complete(all, EACH, mix(seed + (uint64_t)me));
            MPI_Comm_free(&comm);
        } else {
            complete(all, EACH, mix(seed + (uint64_t)me));
        }
    }
    exact = 0;
    /* Many nonblocking operations, on a communicator that has had no other operation. */
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < steps; i++) {
        struct started *two[2] = {any(comm, mix(6500 + 2 * (uint64_t)i), 5000), any(comm, mix(6501 + 2 * (uint64_t)i), 100)};
        if (mix(6900 + (uint64_t)(i * ranks + me)) % 32 == 0) usleep(200);
        complete(two, 2, (uint64_t)i);
        if (i == steps / 4 * 3) blocking_one(comm, 8);
    }
    MPI_Comm_free(&comm);
    /* A rank has received its peers' data before it starts the first operation. */
    for (int i = 0; i < 8; i++) {
        int word = me;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (me > 0) MPI_Recv(&word, 1, MPI_INT, me - 1, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        struct started *o = any(comm, mix(6700 + (uint64_t)i), 100);
        if (me + 1 < ranks) MPI_Send(&me, 1, MPI_INT, me + 1, 78, MPI_COMM_WORLD);
        wait_and_end(o);
        MPI_Comm_free(&comm);
    }
    exact = are_ours;
    if (me == 0) printf("comms: freed while operations are outstanding, and begun nonblocking\n");
}

static void late(void)
{
    enum { EACH = 5 };
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < 40; round++) {
        struct started *all[EACH];
        for (int i = 0; i < EACH; i++) {
            uint64_t seed = mix(7000 + (uint64_t)(round * EACH + i));
            if (mix(seed + (uint64_t)me) % 8 == 0) usleep((useconds_t)(seed >> 16) % 2000);
            all[i] = any(MPI_COMM_WORLD, seed, 20000);
        }
        complete(all, EACH, mix(7500 + (uint64_t)round) + (uint64_t)me);
    }
    if (me == 0) printf("late: ranks that start long after the others\n");
}

static void wrong(const char *what, int code, int class)
{
    int got = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &got);
    if (got != class) fail("%s gives an error of class %d, not %d", what, got, class);
}

static int handled;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
}

static void errors(void)
{
    int word = 1, sum = 0;
    double number = 1, result, many[4] = {0}, results[4];
    MPI_Request request = MPI_REQUEST_NULL, both[2];
    MPI_Status statuses[2];
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Barrier(comm);
    for (int round = 0; round < 3; round++) {
        wrong("MPI_Ibcast from a rank outside the communicator", MPI_Ibcast(&word, 1, MPI_INT, ranks, comm, &request), MPI_ERR_ROOT);
        wrong("MPI_Ireduce to rank -7", MPI_Ireduce(&word, &sum, 1, MPI_INT, MPI_SUM, -7, comm, &request), MPI_ERR_ROOT);
        wrong("MPI_Iallreduce of doubles by bits", MPI_Iallreduce(&number, &result, 1, MPI_DOUBLE, MPI_BAND, comm, &request), MPI_ERR_OP);
        wait_and_end(any(comm, 8000 + (uint64_t)round, 100));
        /* Ranks that disagree. Only our library reports it; an MPI crashes, or waits for ever. */
        if (!exact || ranks == 1) continue;
        MPI_Iallreduce(many, results, me == 0 ? 1 : 2, MPI_DOUBLE, MPI_SUM, comm, &request);
        wrong("MPI_Wait for operations that disagree", MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
        MPI_Iallreduce(many, results, me == 0 ? 1 : 2, MPI_DOUBLE, MPI_SUM, comm, &both[0]);
        MPI_Iallreduce(&word, &sum, 1, MPI_INT, MPI_SUM, comm, &both[1]);
        if (round == 1) {
            int flag = 0, code = MPI_SUCCESS;
            while (!flag && code == MPI_SUCCESS) code = MPI_Testall(2, both, &flag, statuses);
            wrong("MPI_Testall", code, MPI_ERR_IN_STATUS);
        } else {
            wrong("MPI_Waitall", MPI_Waitall(2, both, statuses), MPI_ERR_IN_STATUS);
        }
        wrong("the status of operations that disagree", statuses[0].MPI_ERROR, MPI_ERR_OTHER);
        /* A call need not wait for the others when one has failed (MPI 4.1, 3.7.5). */
        if (statuses[1].MPI_ERROR == MPI_ERR_PENDING) statuses[1].MPI_ERROR = MPI_Wait(&both[1], MPI_STATUS_IGNORE);
        wrong("the status of the other operation", statuses[1].MPI_ERROR, MPI_SUCCESS);
        if (sum != ranks) fail("an operation beside a failed one gives %d", sum);
        wait_and_end(any(comm, 8100 + (uint64_t)round, 10000));
    }
    if (exact && ranks > 1) {
        MPI_Errhandler counts;
        MPI_Comm_create_errhandler(handler, &counts);
        MPI_Comm_set_errhandler(comm, counts);
        MPI_Iallreduce(many, results, me == 0 ? 1 : 2, MPI_DOUBLE, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (handled != 1) fail("the error handler of the communicator is called %d times", handled);
        MPI_Errhandler_free(&counts);
    }
    MPI_Comm_free(&comm);
    if (me == 0) printf("errors: wrong arguments, and ranks that disagree, give error codes\n");
}

/* ---- threads ---- */

static void *thread(void *argument)
{
    MPI_Comm comm = *(MPI_Comm *)argument;
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 600; i++) {
        enum { COUNT = 1500 };
        static _Thread_local int64_t from[2][COUNT], to[2][COUNT];
        MPI_Request requests[2];
        int counts[2] = {i % 3 ? 4 : COUNT, 1 + i % 50};
        for (int r = 0; r < 2; r++) {
            for (int k = 0; k < counts[r]; k++) from[r][k] = rank + i + k;
            MPI_Iallreduce(from[r], to[r], counts[r], MPI_INT64_T, MPI_SUM, comm, &requests[r]);
        }
        if (i % 4 == 0) MPI_Barrier(comm);
        if (i % 2)
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        else
            for (int r = 2, flag; r-- > 0;)
                for (flag = 0; !flag;) MPI_Test(&requests[r], &flag, MPI_STATUS_IGNORE);
        for (int r = 0; r < 2; r++)
            for (int k = 0; k < counts[r]; k++)
                if (to[r][k] != (int64_t)size * (i + k) + (int64_t)size * (size - 1) / 2) fail("a thread's sum is wrong");
    }
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 3 };
    int provided;
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (me == 0) printf("threads: this MPI has no MPI_THREAD_MULTIPLE\n");
        return;
    }
    pthread_t others[THREADS];
    MPI_Comm comms_of[THREADS];
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms_of[i]);
        if (i % 2) MPI_Barrier(comms_of[i]);
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&others[i], NULL, thread, &comms_of[i])) fail("no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(others[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms_of[i]);
    if (me == 0) printf("threads: %d, each with a communicator\n", THREADS);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"types", types},       {"lengths", lengths}, {"ways", ways}, {"blocking", blocking}, {"messages", messages},
                 {"comms", comms},       {"late", late},       {"errors", errors}, {"threads", threads}};
    enum { PARTS = sizeof parts / sizeof *parts };
    int named = 0, provided, is_named[PARTS] = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "exact") == 0) exact = 1;
        sscanf(argv[i], "hosts=%d", &hosts);
        for (int p = 0; p < PARTS; p++)
            if (strcmp(argv[i], parts[p].name) == 0) is_named[p] = 1, named++;
    }
    MPI_Init_thread(&argc, &argv, is_named[PARTS - 1] ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > RANKS_MAX) fail("more than %d ranks", RANKS_MAX);
    MPI_Op_create(composed, 0, &user_op);
    know_types();
    MPI_Barrier(MPI_COMM_WORLD);
    for (int p = 0; p < PARTS; p++) {
        if (is_named[p] || (!named && p < PARTS - 1)) parts[p].run();
        fflush(stdout);
    }
    MPI_Op_free(&user_op);
    if (me == 0) printf("%d ranks: all %s\n", ranks, exact ? "results have the bits of the ranks' order" : "right");
    MPI_Finalize();
    return 0;
}
