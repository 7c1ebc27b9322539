/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ft: NAS benchmark FT. The heat equation on a periodic grid, solved by Fourier transforms in three dimensions: forward
 * once, then for each time step a multiplication, a transform back, and a checksum of the result.
 *
 *     mpicc -O2 examples/mpi/ft.c -o ft -lm && mpirun -n 4 ./ft [S|W]
 *
 * Up to 64 ranks in class S and 32 in class W, the number of planes or rows. Ends with an error when a checksum is not
 * the published one.
 *
 * A rank has whole planes (some z, all y and x) while it transforms x and y, and whole columns (all z, some y, all x)
 * while it transforms z. Between the two, all ranks exchange all data: MPI_Alltoallw, with a datatype for each pair of
 * ranks that describes the block in the array, so that the program packs nothing.
 */
#include "nas.h"
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#define TIMES    6
#define LINE_MAX 128

static const struct problem {
    int nx, ny, nz;
    double complex checksums[TIMES]; /* published */
} problems[] = {
    {64, 64, 64,
     {5.546087004964e+02 + 4.845363331978e+02 * I, 5.546385409190e+02 + 4.865304269511e+02 * I,
      5.546148406171e+02 + 4.883910722337e+02 * I, 5.545423607415e+02 + 4.901273169046e+02 * I,
      5.544255039624e+02 + 4.917475857993e+02 * I, 5.542683411903e+02 + 4.932597244941e+02 * I}},
    {128, 128, 32,
     {5.673612178944e+02 + 5.293246849175e+02 * I, 5.631436885271e+02 + 5.282149986629e+02 * I,
      5.594024089970e+02 + 5.270996558037e+02 * I, 5.560698047020e+02 + 5.260027904925e+02 * I,
      5.530898991250e+02 + 5.249400845633e+02 * I, 5.504159734538e+02 + 5.239212247086e+02 * I}},
};

static const struct problem *p;
static int rank, size;
static int first_z, planes, first_y, rows;     /* this rank's part in both layouts */
static double complex *by_planes, *by_columns; /* [planes][ny][nx] and [nz][rows][nx] */
static MPI_Datatype *plane_blocks, *column_blocks;
static int *in_planes, *in_columns, *ones;

static void *memory(size_t bytes)
{
    void *m = calloc(1, bytes);
    if (m == NULL) {
        fprintf(stderr, "out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return m;
}

/* Transforms one line in place; n is a power of 2, sign -1 forward and +1 back, neither divides by n. */
static void transform(double complex *line, int n, int sign)
{
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex held = line[i];
            line[i] = line[j];
            line[j] = held;
        }
    }
    for (int half = 1; half < n; half *= 2)
        for (int k = 0; k < half; k++) {
            double complex turn = cexp(sign * I * M_PI * k / half);
            for (int i = k; i < n; i += 2 * half) {
                double complex odd = turn * line[i + half];
                line[i + half] = line[i] - odd;
                line[i] += odd;
            }
        }
}

/* Transforms the `stride` lines that begin in the `stride` elements from `at`; a line's elements are `stride` apart. */
static void transform_across(double complex *at, int n, int stride, int sign)
{
    double complex line[LINE_MAX];
    for (int begin = 0; begin < stride; begin++) {
        for (int i = 0; i < n; i++)
            line[i] = at[(long)i * stride + begin];
        transform(line, n, sign);
        for (int i = 0; i < n; i++)
            at[(long)i * stride + begin] = line[i];
    }
}

static void transform_planes(int sign)
{
    for (int z = 0; z < planes; z++) {
        double complex *plane = by_planes + (long)z * p->ny * p->nx;
        for (int y = 0; y < p->ny; y++)
            transform(plane + (long)y * p->nx, p->nx, sign);
        transform_across(plane, p->ny, p->nx, sign);
    }
}

static void transform_columns(double complex *columns, int sign)
{
    transform_across(columns, p->nz, rows * p->nx, sign);
}

/* Describes the block that this rank exchanges with each other one, in both layouts: start and shape. */
static void make_blocks(void)
{
    plane_blocks = memory((size_t)size * sizeof *plane_blocks);
    column_blocks = memory((size_t)size * sizeof *column_blocks);
    in_planes = memory((size_t)size * sizeof *in_planes);
    in_columns = memory((size_t)size * sizeof *in_columns);
    ones = memory((size_t)size * sizeof *ones);
    for (int r = 0; r < size; r++) {
        int y = (int)nas_first(p->ny, r, size), ys = (int)nas_first(p->ny, r + 1, size) - y;
        int z = (int)nas_first(p->nz, r, size), zs = (int)nas_first(p->nz, r + 1, size) - z;
        ones[r] = 1;
        in_planes[r] = y * p->nx * (int)sizeof(double complex); /* MPI_Alltoallw counts bytes */
        in_columns[r] = z * rows * p->nx * (int)sizeof(double complex);
        MPI_Type_vector(planes, ys * p->nx, p->ny * p->nx, MPI_C_DOUBLE_COMPLEX, &plane_blocks[r]);
        MPI_Type_contiguous(zs * rows * p->nx, MPI_C_DOUBLE_COMPLEX, &column_blocks[r]);
        MPI_Type_commit(&plane_blocks[r]);
        MPI_Type_commit(&column_blocks[r]);
    }
}

static void free_blocks(void)
{
    for (int r = 0; r < size; r++) {
        MPI_Type_free(&plane_blocks[r]);
        MPI_Type_free(&column_blocks[r]);
    }
    free(plane_blocks);
    free(column_blocks);
    free(in_planes);
    free(in_columns);
    free(ones);
}

/* The random numbers follow the order of the array, the real part first. */
static void start(void)
{
    long here = (long)planes * p->ny * p->nx;
    uint64_t generator = nas_skip(314159265, 2 * (uint64_t)first_z * (uint64_t)(p->ny * p->nx));
    for (long i = 0; i < here; i++) {
        double real = nas_random(&generator);
        by_planes[i] = real + nas_random(&generator) * I;
    }
}

/* The frequency of wave k out of n, with its sign. */
static double wave(int k, int n) { return k < n / 2 ? k : k - n; }

/* Computes the solution at a time from the one at the start, both in waves. */
static void evolve(const double complex *at_start, double complex *at_time, int time)
{
    for (int z = 0; z < p->nz; z++)
        for (int y = 0; y < rows; y++)
            for (int x = 0; x < p->nx; x++) {
                long i = ((long)z * rows + y) * p->nx + x;
                double kx = wave(x, p->nx), ky = wave(first_y + y, p->ny), kz = wave(z, p->nz);
                at_time[i] = at_start[i] * exp(-4e-6 * M_PI * M_PI * (kx * kx + ky * ky + kz * kz) * time);
            }
}

static double complex checksum(void)
{
    double complex sum = 0;
    for (int j = 1; j <= 1024; j++) {
        int x = j % p->nx, y = 3 * j % p->ny, z = 5 * j % p->nz - first_z;
        if (z >= 0 && z < planes)
            sum += by_planes[((long)z * p->ny + y) * p->nx + x];
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
    return sum / ((double)p->nx * p->ny * p->nz);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int class = nas_class(argc, argv, 1, "ft [S|W]");
    if (class < 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    p = &problems[class];
    if (size > p->nz || size > p->ny) {
        if (rank == 0)
            fprintf(stderr, "ft %c: at most %d ranks\n", "SW"[class], p->nz < p->ny ? p->nz : p->ny);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    first_z = (int)nas_first(p->nz, rank, size);
    planes = (int)nas_first(p->nz, rank + 1, size) - first_z;
    first_y = (int)nas_first(p->ny, rank, size);
    rows = (int)nas_first(p->ny, rank + 1, size) - first_y;
    by_planes = memory((size_t)planes * (size_t)(p->ny * p->nx) * sizeof *by_planes);
    by_columns = memory((size_t)rows * (size_t)(p->nz * p->nx) * sizeof *by_columns);
    double complex *at_start = memory((size_t)rows * (size_t)(p->nz * p->nx) * sizeof *at_start);
    make_blocks();
    start();

    int wrong = 0;
    double began_s = MPI_Wtime();
    transform_planes(-1);
    MPI_Alltoallw(by_planes, ones, in_planes, plane_blocks, at_start, ones, in_columns, column_blocks, MPI_COMM_WORLD);
    transform_columns(at_start, -1);
    for (int time = 1; time <= TIMES; time++) {
        evolve(at_start, by_columns, time);
        transform_columns(by_columns, 1);
        MPI_Alltoallw(by_columns, ones, in_columns, column_blocks, by_planes, ones, in_planes, plane_blocks,
                      MPI_COMM_WORLD);
        transform_planes(1);
        double complex got = checksum(), published = p->checksums[time - 1];
        if (!(cabs((got - published) / published) <= 1e-12)) {
            wrong++;
            if (rank == 0)
                fprintf(stderr, "time %d: checksum %.12e %.12e\n", time, creal(got), cimag(got));
        }
    }
    if (rank == 0)
        printf("ft %c, %d ranks: %d x %d x %d, %d times, %.6f s: %s\n", "SW"[class], size, p->nx, p->ny, p->nz, TIMES,
               MPI_Wtime() - began_s, wrong ? "WRONG" : "verified");
    free_blocks();
    free(at_start);
    free(by_columns);
    free(by_planes);
    MPI_Finalize();
    return wrong ? 1 : 0;
}
