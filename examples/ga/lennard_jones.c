/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * lennard_jones: molecular dynamics on Global Arrays, a typical program for one-sided communication. Argon in a periodic
 * box: all processes share the arrays of positions, velocities and forces, and none needs to know the owner of an
 * element. In each step a process
 *
 *   reads     all positions (NGA_Get);
 *   takes     pieces of the triangle of pairs from a shared counter (NGA_Read_inc), until none is left;
 *   adds      the forces of each piece to the shared ones (NGA_Acc), for both atoms of a pair;
 *   moves     the atoms in its own memory (NGA_Access), by velocity Verlet.
 *
 *     mpicc -O2 examples/ga/lennard_jones.c -o lennard_jones -lga-openmpi -lscalapack-openmpi -llapack -lblas \
 *         -larmci-openmpi -lgfortran -lm && selvedge mpirun -n 4 ./lennard_jones [steps]
 *
 * Ends with an error when the forces differ from those of a serial computation, do not add up to zero, or the energy is
 * not conserved. Lengths are in sigma, energies in epsilon, times in sigma sqrt(mass / epsilon).
 */
#include <ga.h>
#include <macdecls.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS    5 /* unit cells of the crystal at the start, along each edge; 4 atoms each */
#define ATOMS    (4 * CELLS * CELLS * CELLS)
#define BLOCK    25 /* atoms of a block; a piece of work is the pairs of two blocks */
#define BLOCKS   (ATOMS / BLOCK)
#define DENSITY  0.8442
#define HEAT     0.72 /* temperature at the start */
#define STEP     0.002
#define CUT      2.0
#define TOLERATED_DRIFT 1e-3 /* allowed drift of the energy */

typedef double vector[3];

static double edge;
static vector at[ATOMS], pull[ATOMS]; /* this process's copy of all positions, and its contribution to the forces */

static void check(int right, const char *what, double got)
{
    if (right)
        return;
    fprintf(stderr, "process %d: %s: %.17g\n", GA_Nodeid(), what, got);
    GA_Error("lennard_jones: a check has failed", 1);
}

/* Adds the forces between two atoms to both. Returns their energy, shifted to be 0 at the cutoff. */
static double pair(int i, int j, vector *force)
{
    vector d;
    double r2 = 0;
    for (int k = 0; k < 3; k++) {
        d[k] = at[i][k] - at[j][k];
        d[k] -= edge * rint(d[k] / edge); /* the nearest periodic image */
        r2 += d[k] * d[k];
    }
    if (r2 >= CUT * CUT)
        return 0;
    const double cut6 = 1 / (CUT * CUT * CUT * CUT * CUT * CUT);
    double i2 = 1 / r2, i6 = i2 * i2 * i2, strength = 24 * i2 * i6 * (2 * i6 - 1);
    for (int k = 0; k < 3; k++) {
        force[i][k] += strength * d[k];
        force[j][k] -= strength * d[k];
    }
    return 4 * i6 * (i6 - 1) - 4 * cut6 * (cut6 - 1);
}

static double block_pairs(int one, int other, vector *force)
{
    double energy = 0;
    for (int i = one * BLOCK; i < (one + 1) * BLOCK; i++)
        for (int j = other * BLOCK; j < (other + 1) * BLOCK; j++)
            if (one != other || i < j)
                energy += pair(i, j, force);
    return energy;
}

/* Computes the forces on all atoms into the shared array. Returns the potential energy. */
static double forces(int positions, int shared_forces, int counter)
{
    int all_low[] = {0, 0}, all_high[] = {ATOMS - 1, 2}, width = 3, zero = 0;
    char touched[BLOCKS] = {0};
    double energy = 0, one = 1;
    GA_Zero(shared_forces);
    GA_Zero(counter);
    GA_Sync();
    NGA_Get(positions, all_low, all_high, at, &width);
    memset(pull, 0, sizeof pull);

    for (long piece; (piece = NGA_Read_inc(counter, &zero, 1)) < BLOCKS * BLOCKS;) {
        int i = (int)piece / BLOCKS, j = (int)piece % BLOCKS;
        if (i > j)
            continue; /* below the diagonal: these pairs are done already */
        energy += block_pairs(i, j, pull);
        touched[i] = touched[j] = 1;
    }
    for (int b = 0; b < BLOCKS; b++) {
        int low[] = {b * BLOCK, 0}, high[] = {(b + 1) * BLOCK - 1, 2};
        if (touched[b])
            NGA_Acc(shared_forces, low, high, pull[b * BLOCK], &width, &one);
    }
    GA_Sync();
    GA_Dgop(&energy, 1, "+");
    return energy;
}

/* Compares with a serial computation, which adds in another order. */
static void check_forces(int shared_forces, double energy)
{
    static vector alone[ATOMS], shared[ATOMS];
    int low[] = {0, 0}, high[] = {ATOMS - 1, 2}, width = 3;
    double alone_energy = 0, worst = 0, largest = 1, sum = 0; /* 1: in a perfect crystal the forces are 0 but for rounding */
    NGA_Get(shared_forces, low, high, shared, &width);
    for (int i = 0; i < BLOCKS; i++)
        for (int j = i; j < BLOCKS; j++)
            alone_energy += block_pairs(i, j, alone);
    for (int i = 0; i < ATOMS; i++)
        for (int k = 0; k < 3; k++) {
            worst = fmax(worst, fabs(alone[i][k] - shared[i][k]));
            largest = fmax(largest, fabs(alone[i][k]));
            sum += shared[i][k];
        }
    check(worst <= 1e-11 * largest, "a force is off by", worst);
    check(fabs(sum) <= 1e-9 * largest, "forces add up to", sum);
    double off = energy - alone_energy;
    check(fabs(off) <= 1e-11 * fabs(alone_energy), "the potential energy is off by", off);
    memset(alone, 0, sizeof alone);
    GA_Sync();
}

/* Advances the atoms in this process's memory: velocities by half a step and, where `along` is not 0, positions by a whole one. */
static double move(int positions, int velocities, int shared_forces, double along)
{
    int low[2], high[2], width;
    double *x, *v, *f, kinetic = 0;
    NGA_Distribution(positions, GA_Nodeid(), low, high);
    if (low[0] >= 0 && high[0] >= low[0]) {
        NGA_Access(positions, low, high, &x, &width);
        NGA_Access(velocities, low, high, &v, &width);
        NGA_Access(shared_forces, low, high, &f, &width);
        for (long i = 0; i < (long)(high[0] - low[0] + 1) * 3; i++) {
            v[i] += 0.5 * STEP * f[i];
            x[i] += along * v[i];
            kinetic += 0.5 * v[i] * v[i];
        }
        NGA_Release(shared_forces, low, high);
        NGA_Release_update(velocities, low, high);
        NGA_Release_update(positions, low, high);
    }
    GA_Sync();
    GA_Dgop(&kinetic, 1, "+");
    return kinetic;
}

/* Sets up a face-centred crystal. Velocities come from a small generator, and their mean is subtracted. Process 0 puts all. */
static void start(int positions, int velocities)
{
    static const vector corners[4] = {{0, 0, 0}, {0, 0.5, 0.5}, {0.5, 0, 0.5}, {0.5, 0.5, 0}};
    static vector v[ATOMS];
    int low[] = {0, 0}, high[] = {ATOMS - 1, 2}, width = 3;
    unsigned long long state = 20111;
    vector mean = {0, 0, 0};
    double kinetic = 0;
    for (int i = 0; i < ATOMS; i++) {
        int cell = i / 4, index[3] = {cell % CELLS, cell / CELLS % CELLS, cell / CELLS / CELLS};
        for (int k = 0; k < 3; k++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            at[i][k] = (index[k] + corners[i % 4][k]) * edge / CELLS;
            v[i][k] = (double)(state >> 40) / (1 << 24) - 0.5;
            mean[k] += v[i][k] / ATOMS;
        }
    }
    for (int i = 0; i < ATOMS; i++)
        for (int k = 0; k < 3; k++) {
            v[i][k] -= mean[k];
            kinetic += 0.5 * v[i][k] * v[i][k];
        }
    for (int i = 0; i < ATOMS; i++)
        for (int k = 0; k < 3; k++)
            v[i][k] *= sqrt(1.5 * ATOMS * HEAT / kinetic);
    if (GA_Nodeid() == 0) {
        NGA_Put(positions, low, high, at, &width);
        NGA_Put(velocities, low, high, v, &width);
    }
    GA_Sync();
}

/* Makes an array in which each process owns whole rows. */
static int shared_array(char *name)
{
    int dims[] = {ATOMS, 3}, chunk[] = {-1, 3};
    return NGA_Create(C_DBL, 2, dims, name, chunk);
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 100, one = 1;
    MPI_Init(&argc, &argv);
    GA_Initialize();
    MA_init(MT_DBL, 1 << 16, 1 << 16);
    edge = cbrt(ATOMS / DENSITY);
    int positions = shared_array("positions"), velocities = shared_array("velocities");
    int shared_forces = shared_array("forces");
    int counter = NGA_Create(C_LONG, 1, &one, "counter", NULL);

    start(positions, velocities);
    double potential = forces(positions, shared_forces, counter), energy_first = 0, kinetic = 0, worst_drift = 0;
    check_forces(shared_forces, potential);
    double began_s = MPI_Wtime();
    for (int step = 1; step <= steps; step++) {
        move(positions, velocities, shared_forces, STEP);
        potential = forces(positions, shared_forces, counter);
        kinetic = move(positions, velocities, shared_forces, 0);
        if (step == 1)
            energy_first = kinetic + potential;
        worst_drift = fmax(worst_drift, fabs((kinetic + potential - energy_first) / energy_first));
        if (GA_Nodeid() == 0 && (step == 1 || step % 20 == 0))
            printf("step %4d: kinetic %.8f potential %.8f total %.8f an atom\n", step, kinetic / ATOMS,
                   potential / ATOMS, (kinetic + potential) / ATOMS);
    }
    double took_s = MPI_Wtime() - began_s;
    check_forces(shared_forces, potential);
    check(worst_drift <= TOLERATED_DRIFT, "the energy drifts by", worst_drift);
    if (GA_Nodeid() == 0)
        printf("%d atoms, %d processes, %d steps, %.1f us a step, energy within %.1e: verified\n", ATOMS, GA_Nnodes(),
               steps, took_s * 1e6 / (steps > 0 ? steps : 1), worst_drift);
    GA_Destroy(counter);
    GA_Destroy(shared_forces);
    GA_Destroy(velocities);
    GA_Destroy(positions);
    GA_Terminate();
    MPI_Finalize();
    return 0;
}
