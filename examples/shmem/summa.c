/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * summa: C = A * B with the PEs as a grid, in teams and in contexts (OpenSHMEM 1.5).
 *
 *   broadcast    in each step a panel of A is broadcast along the rows of the grid and one of B along the columns: a
 *                team for each row and each column;
 *   fetched      each PE fetches the panels of the next step with a private context while it multiplies those of this
 *                step; shmem_ctx_quiet of that context waits for these fetches only.
 *
 *     selvedge run -n 4 build/examples/shmem/summa [width of the matrices]
 *
 * Prints GFLOP/s of both. The elements are small whole numbers, so sums are exact. Each PE computes the expected value of
 * its part of C from a closed formula, and ends with an error when an element differs.
 *
 * Layout: PE (x, y) of a grid of `across` by `down` has the block of C, A and B in block row y, block column x. The number
 * of steps is the least common multiple of both, so that every panel is at one PE. A block of A is stored as panels of
 * columns, one after the other, so that each is contiguous; the rows of B are contiguous anyway.
 */
#define _POSIX_C_SOURCE 200809L
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if SHMEM_MAJOR_VERSION > 1 || (SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION >= 5)

static int    me, across, down, x, y; /* PE number is y * across + x */
static int    steps;
static size_t width, height_c, width_c, depth; /* width of the matrices, of a block of C, of a panel */
static double *a, *b;                 /* symmetric: this PE's panels of A and of B, one after the other */
static double *panels_a[2], *panels_b[2]; /* symmetric: the panels of this step and of the next */
static double *c;

static _Noreturn void fail(const char *why)
{
    fprintf(stderr, "PE %d: %s\n", me, why);
    shmem_global_exit(1);
    abort();
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double *symmetric(size_t elements)
{
    double *memory = shmem_malloc(elements * sizeof *memory);
    if (memory == NULL)
        fail("no symmetric memory left");
    return memory;
}

/* ---- The matrices ---- */

/* A(i,k) = i + 2k and B(k,j) = k - j, so C(i,j) is the sum over k of 2k^2 + (i - 2j)k - ij. */
static double a_element(size_t i, size_t k) { return (double)i + 2.0 * (double)k; }
static double b_element(size_t k, size_t j) { return (double)k - (double)j; }

static double c_element(size_t i, size_t j)
{
    double n = (double)width, k1 = n * (n - 1) / 2, k2 = (n - 1) * n * (2 * n - 1) / 6;
    return 2 * k2 + ((double)i - 2.0 * (double)j) * k1 - (double)i * (double)j * n;
}

/* The number of panels at this PE: `steps / across` of A and `steps / down` of B. */
static size_t a_first(void) { return (size_t)x * (size_t)(steps / across); }
static size_t b_first(void) { return (size_t)y * (size_t)(steps / down); }

static void fill_blocks(void)
{
    for (size_t p = 0; p < (size_t)(steps / across); p++)
        for (size_t i = 0; i < height_c; i++)
            for (size_t k = 0; k < depth; k++)
                a[(p * height_c + i) * depth + k] = a_element((size_t)y * height_c + i, (a_first() + p) * depth + k);
    for (size_t p = 0; p < (size_t)(steps / down); p++)
        for (size_t k = 0; k < depth; k++)
            for (size_t j = 0; j < width_c; j++)
                b[(p * depth + k) * width_c + j] = b_element((b_first() + p) * depth + k, (size_t)x * width_c + j);
}

static void check(const char *method)
{
    for (size_t i = 0; i < height_c; i++)
        for (size_t j = 0; j < width_c; j++) {
            double expected = c_element((size_t)y * height_c + i, (size_t)x * width_c + j);
            if (c[i * width_c + j] != expected) {
                fprintf(stderr, "PE %d, %s: element %zu,%zu of the block is %.0f, not %.0f\n", me, method, i, j,
                        c[i * width_c + j], expected);
                fail("a wrong product");
            }
        }
}

static void multiply(const double *panel_a, const double *panel_b)
{
    for (size_t i = 0; i < height_c; i++)
        for (size_t k = 0; k < depth; k++) {
            double factor = panel_a[i * depth + k];
            for (size_t j = 0; j < width_c; j++)
                c[i * width_c + j] += factor * panel_b[k * width_c + j];
        }
}

/* ---- The two ways to get the panels ---- */

/* Return the address of a step's panel at its owner: the same place at every PE, so a symmetric address. */
static const double *a_panel(int s) { return a + (size_t)(s % (steps / across)) * height_c * depth; }
static const double *b_panel(int s) { return b + (size_t)(s % (steps / down)) * width_c * depth; }

/* Return the owner: the x of the panel of A, the y of the panel of B. */
static int a_owner(int s) { return s / (steps / across); }
static int b_owner(int s) { return s / (steps / down); }

/* In the team of a row a PE's number is its x, in the team of a column its y. */
static void with_broadcasts(shmem_team_t row, shmem_team_t column)
{
    for (int s = 0; s < steps; s++) {
        if (shmem_double_broadcast(row, panels_a[0], a_panel(s), height_c * depth, a_owner(s)) != 0 ||
            shmem_double_broadcast(column, panels_b[0], b_panel(s), width_c * depth, b_owner(s)) != 0)
            fail("a broadcast failed");
        multiply(panels_a[0], panels_b[0]);
        /* No PE may write a panel that another one still reads. */
        if (shmem_team_sync(row) != 0 || shmem_team_sync(column) != 0)
            fail("a team could not synchronise");
    }
}

static void fetch(shmem_ctx_t ctx, int s)
{
    shmem_ctx_double_get_nbi(ctx, panels_a[s % 2], a_panel(s), height_c * depth, y * across + a_owner(s));
    shmem_ctx_double_get_nbi(ctx, panels_b[s % 2], b_panel(s), width_c * depth, b_owner(s) * across + x);
}

/* Only this PE writes its panels, and no PE writes A and B, so no synchronisation is needed. */
static void with_gets(shmem_ctx_t ctx)
{
    fetch(ctx, 0);
    for (int s = 0; s < steps; s++) {
        shmem_ctx_quiet(ctx);
        if (s + 1 < steps)
            fetch(ctx, s + 1);
        multiply(panels_a[s % 2], panels_b[s % 2]);
    }
}

/* ---- Setting up ---- */

static int common_divisor(int p, int q) { return q == 0 ? p : common_divisor(q, p % q); }

/* Chooses a grid as square as n allows. */
static void choose_grid(int n)
{
    down = 1;
    for (int d = 2; d * d <= n; d++)
        if (n % d == 0)
            down = d;
    across = n / down;
    steps = across / common_divisor(across, down) * down;
    x = me % across;
    y = me / across;
}

static void report(const char *method, double took_s)
{
    check(method);
    memset(c, 0, height_c * width_c * sizeof *c);
    double n = (double)width;
    if (me == 0)
        printf("%-10s %8.3f GFLOP/s\n", method, 2e-9 * n * n * n / took_s);
}

int main(int argc, char **argv)
{
    shmem_init();
    me = shmem_my_pe();
    choose_grid(shmem_n_pes());
    size_t wanted = argc > 1 ? (size_t)atol(argv[1]) : 512;
    depth = (wanted + (size_t)steps - 1) / (size_t)steps;
    width = depth * (size_t)steps; /* rounded up, so that all panels have the same size */
    height_c = width / (size_t)down;
    width_c = width / (size_t)across;
    if (wanted < 1 || wanted > 4096)
        fail("usage: selvedge run -n 4 build/examples/shmem/summa [width of the matrices, up to 4096]");

    a = symmetric(height_c * depth * (size_t)(steps / across));
    b = symmetric(width_c * depth * (size_t)(steps / down));
    for (int i = 0; i < 2; i++) {
        panels_a[i] = symmetric(height_c * depth);
        panels_b[i] = symmetric(width_c * depth);
    }
    c = calloc(height_c * width_c, sizeof *c);
    if (c == NULL)
        fail("out of memory");
    fill_blocks();

    shmem_team_t row, column;
    shmem_ctx_t ctx;
    if (shmem_team_split_2d(SHMEM_TEAM_WORLD, across, NULL, 0, &row, NULL, 0, &column) != 0)
        fail("the world could not be split");
    if (shmem_team_my_pe(row) != x || shmem_team_my_pe(column) != y)
        fail("the teams do not match the grid");
    if (shmem_ctx_create(SHMEM_CTX_PRIVATE, &ctx) != 0)
        fail("no context");
    shmem_barrier_all(); /* all blocks are filled */

    if (me == 0)
        printf("%d by %d PEs, matrices %zu wide\n", across, down, width);
    double start_s = now_s();
    with_broadcasts(row, column);
    shmem_barrier_all();
    report("broadcast", now_s() - start_s);
    shmem_barrier_all();
    start_s = now_s();
    with_gets(ctx);
    shmem_barrier_all();
    report("fetched", now_s() - start_s);

    fflush(stdout);
    shmem_ctx_destroy(ctx);
    shmem_team_destroy(column);
    shmem_team_destroy(row);
    shmem_barrier_all();
    for (int i = 1; i >= 0; i--) {
        shmem_free(panels_b[i]);
        shmem_free(panels_a[i]);
    }
    shmem_free(b);
    shmem_free(a);
    free(c);
    shmem_finalize();
    return 0;
}

#else

int main(void)
{
    shmem_init();
    if (shmem_my_pe() == 0)
        printf("summa needs teams and contexts, which came with OpenSHMEM 1.5\n");
    shmem_finalize();
    return 0;
}

#endif
