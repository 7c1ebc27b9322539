/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * dt: NAS benchmark DT, "data traffic" (Frumkin, 2005). Streams of random features run through a graph whose nodes are
 * distributed over the ranks. Sources make them, comparators filter one stream by another and send the result on, sinks
 * add up. Three graphs:
 *
 *   BH   black hole: a tree of degree four, from many sources down to one sink;
 *   WH   white hole: the same tree, from one source to many sinks;
 *   SH   shuffle: layers of comparators, connected like a butterfly.
 *
 *     mpicc -O2 examples/mpi/dt.c -o dt && mpirun -n 4 ./dt [BH|WH|SH [S|W]]
 *
 * Any number of ranks: node i is at rank i mod n. Ends with an error when the checksum is not the published one.
 *
 * Arcs lead from lower to higher nodes. Every rank computes its nodes in that order and sends results without waiting,
 * because the receiver may first need the result of a later node of this rank.
 */
#include "nas.h"
#include <stdlib.h>
#include <string.h>

#define FIELDS    4 /* values of a feature */
#define FAN       4 /* degree of the trees */
#define NODES_MAX 64
#define ARCS_MAX  64

enum kind { SOURCE, COMPARATOR, SINK };
enum graph { BH, WH, SH, GRAPHS };
static const char *const names[GRAPHS] = {"BH", "WH", "SH"};

static const struct problem {
    int samples, deviation;   /* features of a stream, and their spread */
    int width;                /* sources; of a white hole, sinks */
    double checksums[GRAPHS]; /* published */
} problems[] = {
    {1728, 128, 4, {30892725, 67349758, 58875767}},
    {1728 * 8, 256, 8, {4102461, 204280762, 186944764}},
};

struct stream {
    int count; /* number of values, FIELDS for each feature */
    double *values;
};

static const struct problem *problem;
static int rank, size;
static struct node { enum kind kind; struct stream result; double sum; } nodes[NODES_MAX];
static struct arc { int from, to; } arcs[ARCS_MAX];
static int node_count, arc_count;
static MPI_Request sends[ARCS_MAX];
static int send_count;

static struct stream new_stream(int count)
{
    struct stream s = {count, calloc((size_t)count, sizeof *s.values)};
    if (s.values == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return s;
}

/* ---- The graphs --------------------------------------------------------------------------------------- */

static int add_node(enum kind kind)
{
    nodes[node_count].kind = kind;
    return node_count++;
}

static void add_arc(int from, int to) { arcs[arc_count++] = (struct arc){from, to}; }

/* Layers from the sources down, each a quarter of the one before, down to one node. */
static void build_black_hole(void)
{
    int first = 0, width = problem->width;
    for (int i = 0; i < width; i++)
        add_node(SOURCE);
    while (width > 1) {
        int next = (width + FAN - 1) / FAN, below = node_count;
        for (int i = 0; i < next; i++)
            add_node(next == 1 ? SINK : COMPARATOR);
        for (int i = 0; i < width; i++)
            add_arc(first + i, below + i / FAN);
        first = below;
        width = next;
    }
}

/* A black hole with all arcs reversed, node for node. */
static void build_white_hole(void)
{
    build_black_hole();
    for (int i = 0; i < node_count; i++)
        nodes[i].kind = i == 0 ? SOURCE : i < node_count - problem->width ? COMPARATOR : SINK;
    for (int i = 0; i < arc_count; i++)
        arcs[i] = (struct arc){node_count - 1 - arcs[i].to, node_count - 1 - arcs[i].from};
}

static void build_shuffle(void)
{
    int first = 0, width = problem->width;
    for (int i = 0; i < width; i++)
        add_node(SOURCE);
    for (int bit = 1; bit < width; bit *= 2, first += width)
        for (int i = 0; i < width; i++) {
            int to = add_node(2 * bit == width ? SINK : COMPARATOR);
            add_arc(first + (i & ~bit), to);
            add_arc(first + (i | bit), to);
        }
}

/* ---- The work of the nodes ---------------------------------------------------------------------------- */

/* Returns base^exponent mod modulus, reduced after each product. Products wrap at 32 bits, as in the run that made the
 * published checksums. */
static int power(int base, int64_t exponent, int modulus)
{
    int32_t square = base, result = 1;
    for (; exponent > 1; exponent /= 2) {
        if (exponent % 2 != 0)
            result = (int32_t)((uint32_t)result * (uint32_t)square) % modulus;
        square = (int32_t)((uint32_t)square * (uint32_t)square) % modulus;
    }
    return (int32_t)((uint32_t)result * (uint32_t)square) % modulus;
}

/* A stream's length differs by node (always with 'S', in class W too); its features are powers of 2 and 5, in residue rings. */
static struct stream make_stream(int node)
{
    static const int generators[FIELDS] = {2, 2, 2, 5}, moduli[FIELDS] = {421, 419, 1427, 3527};
    int odd = 2 * node + 1, state[FIELDS];
    double fraction = (double)(UINT64_C(314159265) * (uint64_t)odd & NAS_MASK) * 0x1p-46;
    int off = abs(power((int)(1 / fraction) * 'S', odd, 2 * problem->deviation));
    struct stream s = new_stream((problem->samples - problem->deviation + off) * FIELDS);
    for (int f = 0; f < FIELDS; f++)
        state[f] = power(generators[f], (int64_t)s.count * (node + 1) % 3141592, moduli[f]);
    for (int i = 0; i < s.count; i++) {
        state[i % FIELDS] = state[i % FIELDS] * generators[i % FIELDS] % moduli[i % FIELDS];
        s.values[i] = state[i % FIELDS];
    }
    return s;
}

/* Stretches a stream to another length: every value is repeated. The published checksums need exactly this stretching, by a
 * whole factor: the rest stays 0, except for the last value. */
static void resample(struct stream *s, int count)
{
    struct stream r = new_stream(count);
    for (int i = 1; i < s->count - 1; i++) {
        int low = (int)(0.5 * (2 * i - 1) * (count / s->count)), high = (int)(0.5 * (2 * i + 1) * (count / s->count));
        for (int j = low; j <= high; j++)
            r.values[j] += s->values[i] / (high - low + 1);
    }
    r.values[0] = s->values[0];
    r.values[count - 1] = s->values[s->count - 1];
    free(s->values);
    *s = r;
}

static double distance(const double *a, const double *b)
{
    double sum = 0;
    for (int f = 0; f < FIELDS; f++)
        sum += (a[f] - b[f]) * (a[f] - b[f]);
    return sum;
}

/* Every feature of a, except the first and the last, becomes the weighted nearest of the three features of b around it. */
static void filter(struct stream *a, struct stream *b, int node)
{
    double weight = (double)(node + 1) / (node + 2);
    if (a->count > b->count)
        resample(b, a->count);
    else if (a->count < b->count)
        resample(a, b->count);
    for (int i = FIELDS; i < a->count - FIELDS; i += FIELDS) {
        double here = distance(a->values + i, b->values + i);
        double after = distance(a->values + i + FIELDS, b->values + i + FIELDS);
        double ahead = distance(a->values + i - FIELDS, b->values + i - FIELDS);
        int from = i;
        if (after < here) {
            from = i + FIELDS;
            here = after;
        }
        if (ahead < here)
            from = i - FIELDS;
        for (int f = 0; f < FIELDS; f++)
            a->values[i + f] = weight * b->values[from + f];
    }
}

static double weigh(const struct stream *s, int node)
{
    double sum = 0;
    for (int i = 0; i < s->count; i++)
        sum += s->values[i] * s->values[i] / s->count;
    return (int)((node + 1) * sum);
}

/* ---- Traffic ------------------------------------------------------------------------------------------ */

static int rank_of(int node) { return node % size; }

static void send_results(int node)
{
    for (int i = 0; i < arc_count; i++)
        if (arcs[i].from == node && rank_of(arcs[i].to) != rank)
            MPI_Isend(nodes[node].result.values, nodes[node].result.count, MPI_DOUBLE, rank_of(arcs[i].to), i,
                      MPI_COMM_WORLD, &sends[send_count++]);
}

/* Returns the stream of an arc: received from another rank, or a copy of a result of this rank. */
static struct stream receive(int arc)
{
    int from = arcs[arc].from, count;
    if (rank_of(from) == rank) {
        struct stream s = new_stream(nodes[from].result.count);
        memcpy(s.values, nodes[from].result.values, (size_t)s.count * sizeof *s.values);
        return s;
    }
    MPI_Message message; /* the length is not known yet */
    MPI_Status status;
    MPI_Mprobe(rank_of(from), arc, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    struct stream s = new_stream(count);
    MPI_Mrecv(s.values, count, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    return s;
}

static void run_node(int node)
{
    struct node *n = &nodes[node];
    int degree = 0;
    if (n->kind == SOURCE)
        n->result = make_stream(node);
    if (n->kind == COMPARATOR)
        n->result = new_stream(problem->samples * FIELDS);
    for (int i = 0; i < arc_count; i++) {
        if (arcs[i].to != node)
            continue;
        struct stream s = receive(i);
        degree++;
        if (n->kind == COMPARATOR)
            filter(&n->result, &s, node);
        else
            n->sum += weigh(&s, node);
        free(s.values);
    }
    if (n->kind == COMPARATOR)
        for (int i = 0; i < n->result.count; i++)
            n->result.values[i] = (int)n->result.values[i] / degree;
    if (n->kind == SINK)
        n->sum = (double)((int64_t)n->sum / degree * (node + 1));
    else
        send_results(node);
}

int main(int argc, char **argv)
{
    static void (*const build[GRAPHS])(void) = {build_black_hole, build_white_hole, build_shuffle};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int class = nas_class(argc, argv, 2, "dt [BH|WH|SH [S|W]]"), graph = 0;
    while (argc > 1 && graph < GRAPHS && strcmp(argv[1], names[graph]) != 0)
        graph++;
    if (class < 0 || graph == GRAPHS) {
        if (rank == 0)
            fprintf(stderr, "usage: dt [BH|WH|SH [S|W]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    problem = &problems[class];
    build[graph]();

    double sum = 0, began_s = MPI_Wtime();
    for (int node = rank; node < node_count; node += size)
        run_node(node);
    MPI_Waitall(send_count, sends, MPI_STATUSES_IGNORE);
    for (int node = rank; node < node_count; node += size) {
        sum += nodes[node].sum;
        free(nodes[node].result.values);
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int right = nas_near(sum, problem->checksums[graph], 1e-8);
    if (rank == 0)
        printf("dt %s %c, %d ranks: %d nodes, %d arcs, checksum %.0f, %.6f s: %s\n", names[graph], "SW"[class], size,
               node_count, arc_count, sum, MPI_Wtime() - began_s, right ? "verified" : "WRONG");
    MPI_Finalize();
    return right ? 0 : 1;
}
