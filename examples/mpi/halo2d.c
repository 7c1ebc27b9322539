/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * halo2d: Jacobi relaxation of a plane that the ranks share as tiles. Before each step every tile sends its edges into its
 * neighbours' halos. Cells that need no halo are relaxed while the edges travel.
 *
 *     mpicc -O2 examples/mpi/halo2d.c -o halo2d && selvedge mpirun -n 4 ./halo2d [width] [steps]
 *
 * MPI lays out the ranks (MPI_Dims_create, MPI_Cart_create), takes a column out of a plane by a datatype, and keeps the
 * exchange as persistent requests, which each step only starts.
 *
 * Any number of ranks. First a small plane is compared with a serial run in every bit. Ends with an error when they
 * differ.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_WIDTH 61
#define CHECK_STEPS 25

enum { UP, DOWN, LEFT, RIGHT, SIDES };

static MPI_Comm grid;
static int rank, size, dims[2], coords[2], neighbours[SIDES];

struct tile {
    int width, first_y, first_x, ny, nx; /* width of the plane; the tile's position in it, and its size */
    double *cells[2];                    /* by parity of the step, each (ny + 2) x (nx + 2), halo included */
    MPI_Request exchange[2][2 * SIDES];
};

static void *memory(size_t bytes)
{
    void *p = calloc(1, bytes);
    if (p == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return p;
}

static double *cell(const struct tile *t, int parity, int y, int x)
{
    return t->cells[parity] + (size_t)y * (size_t)(t->nx + 2) + x;
}

/* The plane at the start. Its border never changes. */
static double start_value(int y, int x) { return (double)((y * 37 + x * 101) % 64); }

static void relax(const struct tile *t, int parity, int y0, int y1, int x0, int x1)
{
    for (int y = y0; y <= y1; y++)
        for (int x = x0; x <= x1; x++) {
            const double *c = cell(t, parity, y, x);
            *cell(t, 1 - parity, y, x) = 0.25 * (c[-1] + c[1] + c[-(t->nx + 2)] + c[t->nx + 2]);
        }
}

/* Fills both grids with the start values, border of the plane included. */
static void fill(struct tile *t)
{
    size_t bytes = (size_t)(t->ny + 2) * (size_t)(t->nx + 2) * sizeof(double);
    for (int parity = 0; parity < 2; parity++) {
        t->cells[parity] = memory(bytes);
        for (int y = 0; y < t->ny + 2; y++)
            for (int x = 0; x < t->nx + 2; x++)
                *cell(t, parity, y, x) = start_value(t->first_y + y, t->first_x + x);
    }
}

static void open_tile(struct tile *t, int width)
{
    t->width = width;
    t->first_y = width * coords[0] / dims[0];
    t->first_x = width * coords[1] / dims[1];
    t->ny = width * (coords[0] + 1) / dims[0] - t->first_y;
    t->nx = width * (coords[1] + 1) / dims[1] - t->first_x;
    fill(t);

    MPI_Datatype row, column;
    MPI_Type_contiguous(t->nx, MPI_DOUBLE, &row);
    MPI_Type_vector(t->ny, 1, t->nx + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&row);
    MPI_Type_commit(&column);
    const struct { int edge_y, edge_x, rim_y, rim_x; MPI_Datatype type; } sides[SIDES] = {
        {1, 1, 0, 1, row},
        {t->ny, 1, t->ny + 1, 1, row},
        {1, 1, 1, 0, column},
        {1, t->nx, 1, t->nx + 1, column},
    };
    for (int parity = 0; parity < 2; parity++)
        for (int s = 0; s < SIDES; s++) {
            int opposite = s ^ 1; /* the tag is the side of the receiver */
            MPI_Recv_init(cell(t, parity, sides[s].rim_y, sides[s].rim_x), 1, sides[s].type, neighbours[s], s, grid,
                          &t->exchange[parity][s]);
            MPI_Send_init(cell(t, parity, sides[s].edge_y, sides[s].edge_x), 1, sides[s].type, neighbours[s], opposite,
                          grid, &t->exchange[parity][SIDES + s]);
        }
    MPI_Type_free(&row); /* the requests keep the datatype */
    MPI_Type_free(&column);
}

static void close_tile(struct tile *t)
{
    for (int parity = 0; parity < 2; parity++) {
        for (int i = 0; i < 2 * SIDES; i++)
            MPI_Request_free(&t->exchange[parity][i]);
        free(t->cells[parity]);
    }
}

/* Does one step. Returns the seconds spent waiting for edges. */
static double step(struct tile *t, int parity)
{
    MPI_Startall(2 * SIDES, t->exchange[parity]);
    relax(t, parity, 2, t->ny - 1, 2, t->nx - 1);
    double began_s = MPI_Wtime();
    MPI_Waitall(2 * SIDES, t->exchange[parity], MPI_STATUSES_IGNORE);
    double waited_s = MPI_Wtime() - began_s;
    relax(t, parity, 1, 1, 1, t->nx);
    if (t->ny > 1)
        relax(t, parity, t->ny, t->ny, 1, t->nx);
    relax(t, parity, 2, t->ny - 1, 1, 1);
    if (t->nx > 1)
        relax(t, parity, 2, t->ny - 1, t->nx, t->nx);
    return waited_s;
}

/* Rank 0 gathers every tile's cells into a plane and computes the plane alone. */
static void check_small(void)
{
    struct tile t, alone = {.width = CHECK_WIDTH, .ny = CHECK_WIDTH, .nx = CHECK_WIDTH};
    open_tile(&t, CHECK_WIDTH);
    for (int i = 0; i < CHECK_STEPS; i++)
        step(&t, i % 2);

    int at[4] = {t.first_y, t.first_x, t.ny, t.nx};
    int(*all)[4] = memory((size_t)size * sizeof *all);
    MPI_Gather(at, 4, MPI_INT, all, 4, MPI_INT, 0, grid);
    MPI_Datatype inner;
    MPI_Type_create_subarray(2, (int[]){t.ny + 2, t.nx + 2}, (int[]){t.ny, t.nx}, (int[]){1, 1}, MPI_ORDER_C,
                             MPI_DOUBLE, &inner);
    MPI_Type_commit(&inner);
    MPI_Request sent;
    MPI_Isend(t.cells[CHECK_STEPS % 2], 1, inner, 0, SIDES, grid, &sent);
    if (rank == 0) {
        double *plane = memory(CHECK_WIDTH * CHECK_WIDTH * sizeof *plane);
        for (int r = 0; r < size; r++) {
            MPI_Datatype part;
            MPI_Type_create_subarray(2, (int[]){CHECK_WIDTH, CHECK_WIDTH}, &all[r][2], &all[r][0], MPI_ORDER_C,
                                     MPI_DOUBLE, &part);
            MPI_Type_commit(&part);
            MPI_Recv(plane, 1, part, r, SIDES, grid, MPI_STATUS_IGNORE);
            MPI_Type_free(&part);
        }
        fill(&alone);
        for (int i = 0; i < CHECK_STEPS; i++)
            relax(&alone, i % 2, 1, CHECK_WIDTH, 1, CHECK_WIDTH);
        for (int y = 0; y < CHECK_WIDTH; y++)
            if (memcmp(plane + y * CHECK_WIDTH, cell(&alone, CHECK_STEPS % 2, y + 1, 1), CHECK_WIDTH * sizeof *plane)) {
                fprintf(stderr, "row %d differs from the serial run\n", y);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        printf("%d x %d cells, %d steps: equal to the serial run in every bit\n", CHECK_WIDTH, CHECK_WIDTH,
               CHECK_STEPS);
        free(alone.cells[0]);
        free(alone.cells[1]);
        free(plane);
    }
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Type_free(&inner);
    free(all);
    close_tile(&t);
}

static void time_large(int width, int steps)
{
    struct tile t;
    double waited_s = 0;
    open_tile(&t, width);
    MPI_Barrier(grid);
    double began_s = MPI_Wtime();
    for (int i = 0; i < steps; i++)
        waited_s += step(&t, i % 2);
    double took_s = MPI_Wtime() - began_s;
    MPI_Allreduce(MPI_IN_PLACE, &took_s, 1, MPI_DOUBLE, MPI_MAX, grid);
    MPI_Allreduce(MPI_IN_PLACE, &waited_s, 1, MPI_DOUBLE, MPI_SUM, grid);
    if (rank == 0)
        printf("%d x %d cells on %d x %d ranks: %.2f us a step, of it %.2f us waiting (mean)\n", width, width, dims[0],
               dims[1], took_s * 1e6 / steps, waited_s * 1e6 / steps / size);
    close_tile(&t);
}

int main(int argc, char **argv)
{
    int width = argc > 1 ? atoi(argv[1]) : 1024, steps = argc > 2 ? atoi(argv[2]) : 200;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, (int[]){0, 0}, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_coords(grid, rank, 2, coords);
    MPI_Cart_shift(grid, 0, 1, &neighbours[UP], &neighbours[DOWN]); /* a missing neighbour is MPI_PROC_NULL: no exchange */
    MPI_Cart_shift(grid, 1, 1, &neighbours[LEFT], &neighbours[RIGHT]);
    if (steps < 1 || width < dims[0] || dims[0] > CHECK_WIDTH) {
        if (rank == 0)
            fprintf(stderr, "usage: selvedge mpirun -n 4 halo2d [width] [steps]; at least one cell a rank, and one step\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    check_small();
    time_large(width, steps);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
