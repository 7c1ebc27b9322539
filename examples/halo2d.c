/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * halo2d: heat flow on a plane, cut into one tile for each rank. In every step a rank puts its four edges directly into
 * its neighbours' halos. The puts count at the receiver, so a wait on one counter ensures that all have arrived, and no
 * barrier is needed. Cells that need no halo are computed while the halos travel.
 *
 *     selvedge run -n 6 build/examples/halo2d [width of the square in cells] [steps]
 *
 * First a small plane is computed both in tiles and by rank 0 alone, and must agree in every bit; then the large one is
 * timed. Exits non-zero when a cell differs.
 *
 * Invariants: nothing is overwritten too early.
 *  1. A rank sends the edges of step s+1 after it has finished step s, so after it has received all halos of step s.
 *  2. So a neighbour's halo of step s+2 can arrive only after this rank has sent the edges of s+1, that is, finished s.
 *     Two grids, two column buffers and two counters, used in turn, are enough.
 *  3. A neighbour's halo of step s+1 shows that it has received this rank's edges of step s, so their memory may be
 *     written again. That is why the puts ask for no acknowledgement.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "portals4.h"
#include "selvedge.h"

enum { PT_HALO_EVEN, PT_HALO_ODD, PT_GATHER }; /* portal table indexes that all ranks agree on */
enum side { UP, DOWN, LEFT, RIGHT, SIDES };

#define CHECK_WIDTH  37
#define CHECK_HEIGHT 29
#define CHECK_STEPS  51

#define TRY(call)                                                                                             \
    do {                                                                                                      \
        int code_ = (call);                                                                                   \
        if (code_ != PTL_OK) {                                                                                \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, code_);                         \
            selvedge_abort(1, #call);                                                                         \
        }                                                                                                     \
    } while (0)

struct job {
    int             rank, size, columns, rows; /* columns * rows == size */
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq; /* link events only */
    ptl_process_t  *ids;
};

/* The part of the plane that one rank computes. */
struct tile {
    size_t first_x, first_y; /* position in the plane */
    size_t nx, ny;           /* size in cells, without halo */
};

/*
 * One block of memory for each rank, in doubles: two grids of (ny+2) rows of nx+2 cells with the halo around them, then
 * columns of ny cells: received for each grid from LEFT and RIGHT, and to be sent for each grid to LEFT and RIGHT.
 */
struct field {
    struct tile     tile;
    int             neighbours[SIDES]; /* rank, or -1 at the plane's edge */
    struct tile     tiles[SIDES];      /* addresses at the neighbours */
    int             neighbour_count;
    double         *block;
    ptl_handle_md_t md;
    ptl_handle_ct_t arrived[2]; /* halos of even and of odd steps */
    ptl_handle_le_t entries[2];
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- Layout ----------------------------------------------------------------------------------------- */

static size_t grid_at(const struct tile *t, size_t parity)
{
    return parity * (t->nx + 2) * (t->ny + 2);
}

static size_t cell_at(const struct tile *t, size_t parity, size_t x, size_t y)
{
    return grid_at(t, parity) + y * (t->nx + 2) + x;
}

static size_t received_column_at(const struct tile *t, size_t parity, enum side from)
{
    return grid_at(t, 2) + (2 * parity + (from == RIGHT)) * t->ny;
}

static size_t sent_column_at(const struct tile *t, size_t parity, enum side to)
{
    return received_column_at(t, 2, LEFT) + (2 * parity + (to == RIGHT)) * t->ny;
}

static size_t block_size(const struct tile *t)
{
    return sent_column_at(t, 2, LEFT);
}

/* Computes the bounds of part `index` of `parts` nearly equal ones. */
static void split(size_t total, int parts, int index, size_t *first, size_t *count)
{
    size_t p = (size_t)parts, i = (size_t)index;
    *first = total * i / p;
    *count = total * (i + 1) / p - *first;
}

static struct tile tile_of(const struct job *job, int rank, size_t width, size_t height)
{
    struct tile t;
    split(width, job->columns, rank % job->columns, &t.first_x, &t.nx);
    split(height, job->rows, rank / job->columns, &t.first_y, &t.ny);
    return t;
}

/* ---- The computation -------------------------------------------------------------------------------- */

static double start_value(size_t x, size_t y)
{
    return (double)((x * 7 + y * 13) % 17) / 17.0;
}

/* The plane's upper edge is held at 1, the other three at 0. */
static void set_start(double *block, const struct tile *t)
{
    memset(block, 0, block_size(t) * sizeof *block);
    for (size_t parity = 0; parity < 2; parity++)
        for (size_t x = 0; t->first_y == 0 && x < t->nx + 2; x++)
            block[cell_at(t, parity, x, 0)] = 1.0;
    for (size_t y = 1; y <= t->ny; y++)
        for (size_t x = 1; x <= t->nx; x++)
            block[cell_at(t, 0, x, y)] = start_value(t->first_x + x - 1, t->first_y + y - 1);
}

/* Computes cells x0..x1 and y0..y1 (both included; no cells when the range is empty). */
static void relax(double *block, const struct tile *t, size_t parity, size_t x0, size_t x1, size_t y0, size_t y1)
{
    size_t stride = t->nx + 2;
    for (size_t y = y0; y <= y1; y++) {
        const double *old = block + cell_at(t, parity, 0, y);
        double *new = block + cell_at(t, 1 - parity, 0, y);
        for (size_t x = x0; x <= x1; x++)
            new[x] = old[x] + 0.2 * (old[x - 1] + old[x + 1] + old[x - stride] + old[x + stride] - 4.0 * old[x]);
    }
}

/* ---- Communication ---------------------------------------------------------------------------------- */

static ptl_handle_le_t open_entry(const struct job *job, ptl_pt_index_t index, void *start, size_t length,
                                  ptl_handle_ct_t counter, unsigned int count_bytes)
{
    ptl_pt_index_t got;
    ptl_handle_le_t entry;
    ptl_event_t event;
    ptl_le_t le = {
        .start     = start,
        .length    = length,
        .ct_handle = counter,
        .uid       = PTL_UID_ANY,
        .options   = PTL_LE_OP_PUT | PTL_LE_EVENT_COMM_DISABLE | PTL_LE_EVENT_CT_COMM | count_bytes,
    };
    TRY(PtlPTAlloc(job->ni, 0, job->eq, index, &got));
    TRY(PtlLEAppend(job->ni, index, &le, PTL_PRIORITY_LIST, NULL, &entry));
    TRY(PtlEQWait(job->eq, &event));
    if (event.type != PTL_EVENT_LINK || event.ni_fail_type != PTL_NI_OK)
        selvedge_abort(1, "an entry was not linked");
    return entry;
}

static void wait_count(ptl_handle_ct_t counter, uint64_t count)
{
    ptl_ct_event_t value;
    TRY(PtlCTWait(counter, count, &value));
    if (value.failure != 0)
        selvedge_abort(1, "a message failed");
}

static void put(const struct job *job, struct field *f, size_t from, size_t count, enum side to, size_t at,
                size_t parity)
{
    TRY(PtlPut(f->md, from * sizeof(double), count * sizeof(double), PTL_NO_ACK_REQ, job->ids[f->neighbours[to]],
               parity ? PT_HALO_ODD : PT_HALO_EVEN, 0, at * sizeof(double), NULL, 0));
}

static void send_edges(const struct job *job, struct field *f, size_t parity)
{
    const struct tile *t = &f->tile;
    if (f->neighbours[UP] >= 0)
        put(job, f, cell_at(t, parity, 1, 1), t->nx, UP, cell_at(&f->tiles[UP], parity, 1, f->tiles[UP].ny + 1),
            parity);
    if (f->neighbours[DOWN] >= 0)
        put(job, f, cell_at(t, parity, 1, t->ny), t->nx, DOWN, cell_at(&f->tiles[DOWN], parity, 1, 0), parity);
    for (enum side to = LEFT; to <= RIGHT; to++) {
        if (f->neighbours[to] < 0)
            continue;
        size_t column = sent_column_at(t, parity, to), x = to == LEFT ? 1 : t->nx;
        for (size_t y = 0; y < t->ny; y++)
            f->block[column + y] = f->block[cell_at(t, parity, x, y + 1)];
        put(job, f, column, t->ny, to, received_column_at(&f->tiles[to], parity, to == LEFT ? RIGHT : LEFT), parity);
    }
}

static void unpack_columns(struct field *f, size_t parity)
{
    const struct tile *t = &f->tile;
    for (enum side from = LEFT; from <= RIGHT; from++) {
        if (f->neighbours[from] < 0)
            continue;
        size_t column = received_column_at(t, parity, from), x = from == LEFT ? 0 : t->nx + 1;
        for (size_t y = 0; y < t->ny; y++)
            f->block[cell_at(t, parity, x, y + 1)] = f->block[column + y];
    }
}

/* One step; returns the microseconds spent waiting for halos. */
static double step_once(const struct job *job, struct field *f, uint64_t step)
{
    const struct tile *t = &f->tile;
    size_t parity = step % 2;
    send_edges(job, f, parity);
    relax(f->block, t, parity, 2, t->nx - 1, 2, t->ny - 1);
    double start_us = now_us();
    wait_count(f->arrived[parity], (step / 2 + 1) * (uint64_t)f->neighbour_count);
    double waited_us = now_us() - start_us;
    unpack_columns(f, parity);
    relax(f->block, t, parity, 1, t->nx, 1, 1);
    relax(f->block, t, parity, 1, t->nx, t->ny, t->ny);
    relax(f->block, t, parity, 1, 1, 2, t->ny - 1);
    relax(f->block, t, parity, t->nx, t->nx, 2, t->ny - 1);
    return waited_us;
}

/* Collective; returns when every rank's halos are open. */
static void field_open(const struct job *job, struct field *f, size_t width, size_t height)
{
    int column = job->rank % job->columns, row = job->rank / job->columns;
    memset(f, 0, sizeof *f);
    f->tile = tile_of(job, job->rank, width, height);
    f->neighbours[UP] = row > 0 ? job->rank - job->columns : -1;
    f->neighbours[DOWN] = row < job->rows - 1 ? job->rank + job->columns : -1;
    f->neighbours[LEFT] = column > 0 ? job->rank - 1 : -1;
    f->neighbours[RIGHT] = column < job->columns - 1 ? job->rank + 1 : -1;
    for (int side = 0; side < SIDES; side++)
        if (f->neighbours[side] >= 0) {
            f->tiles[side] = tile_of(job, f->neighbours[side], width, height);
            f->neighbour_count++;
        }

    size_t bytes = block_size(&f->tile) * sizeof(double);
    f->block = selvedge_alloc(bytes);
    if (f->block == NULL)
        selvedge_abort(1, "no shared memory left; set SELVEDGE_HEAP_BYTES or take a smaller plane");
    set_start(f->block, &f->tile);
    ptl_md_t md = {f->block, bytes, 0, PTL_EQ_NONE, PTL_CT_NONE};
    TRY(PtlMDBind(job->ni, &md, &f->md));
    for (ptl_pt_index_t parity = 0; parity < 2; parity++) {
        TRY(PtlCTAlloc(job->ni, &f->arrived[parity]));
        f->entries[parity] = open_entry(job, parity, f->block, bytes, f->arrived[parity], 0);
    }
    TRY(selvedge_barrier());
}

/* Collective. Every rank has received its last halos, so no message is under way after the barrier. */
static void field_close(const struct job *job, struct field *f)
{
    TRY(selvedge_barrier());
    for (ptl_pt_index_t parity = 0; parity < 2; parity++) {
        TRY(PtlLEUnlink(f->entries[parity]));
        TRY(PtlPTFree(job->ni, parity));
        TRY(PtlCTFree(f->arrived[parity]));
    }
    TRY(PtlMDRelease(f->md));
    selvedge_free(f->block);
}

/* ---- Check ------------------------------------------------------------------------------------------ */

/* Puts this rank's rows of the grid of this parity into the plane at rank 0, each acknowledged. */
static void send_rows(const struct job *job, const struct field *f, size_t parity)
{
    const struct tile *t = &f->tile;
    ptl_handle_ct_t acked;
    ptl_handle_md_t handle;
    TRY(PtlCTAlloc(job->ni, &acked));
    ptl_md_t md = {f->block, block_size(t) * sizeof(double), PTL_MD_EVENT_CT_ACK, PTL_EQ_NONE, acked};
    TRY(PtlMDBind(job->ni, &md, &handle));
    for (size_t y = 0; y < t->ny; y++) {
        size_t at = (t->first_y + y) * CHECK_WIDTH + t->first_x;
        TRY(PtlPut(handle, cell_at(t, parity, 1, y + 1) * sizeof(double), t->nx * sizeof(double), PTL_CT_ACK_REQ,
                   job->ids[0], PT_GATHER, 0, at * sizeof(double), NULL, 0));
    }
    wait_count(acked, t->ny);
    TRY(PtlMDRelease(handle));
    TRY(PtlCTFree(acked));
}

/* Rank 0: computes the small plane alone and compares every bit. */
static void compare(const double *plane)
{
    const struct tile all = {0, 0, CHECK_WIDTH, CHECK_HEIGHT};
    double *block = malloc(block_size(&all) * sizeof *block);
    if (block == NULL)
        selvedge_abort(1, "out of memory");
    set_start(block, &all);
    for (size_t step = 0; step < CHECK_STEPS; step++)
        relax(block, &all, step % 2, 1, all.nx, 1, all.ny);
    for (size_t y = 0; y < all.ny; y++)
        for (size_t x = 0; x < all.nx; x++) {
            double want = block[cell_at(&all, CHECK_STEPS % 2, x + 1, y + 1)], got = plane[y * CHECK_WIDTH + x];
            if (memcmp(&want, &got, sizeof want) != 0) {
                fprintf(stderr, "cell %zu,%zu is %.17g, not %.17g\n", x, y, got, want);
                selvedge_abort(1, "wrong cell");
            }
        }
    free(block);
    printf("%d x %d cells, %d steps: equal to the serial run in every bit\n", CHECK_WIDTH, CHECK_HEIGHT, CHECK_STEPS);
}

static void check_small(const struct job *job)
{
    const size_t plane_bytes = (size_t)CHECK_WIDTH * CHECK_HEIGHT * sizeof(double);
    double *plane = NULL;
    ptl_handle_ct_t filled = PTL_CT_NONE;
    ptl_handle_le_t entry = PTL_INVALID_HANDLE;
    struct field f;

    if (job->rank == 0) {
        plane = selvedge_alloc(plane_bytes);
        if (plane == NULL)
            selvedge_abort(1, "no shared memory left");
        memset(plane, 0xff, plane_bytes);
        TRY(PtlCTAlloc(job->ni, &filled));
        entry = open_entry(job, PT_GATHER, plane, plane_bytes, filled, PTL_LE_EVENT_CT_BYTES);
    }
    field_open(job, &f, CHECK_WIDTH, CHECK_HEIGHT); /* ends in a barrier, so the plane is open at all ranks */
    for (uint64_t step = 0; step < CHECK_STEPS; step++)
        step_once(job, &f, step);
    send_rows(job, &f, CHECK_STEPS % 2);
    if (job->rank == 0) {
        wait_count(filled, plane_bytes); /* this counter counts bytes */
        compare(plane);
        TRY(PtlLEUnlink(entry));
        TRY(PtlPTFree(job->ni, PT_GATHER));
        TRY(PtlCTFree(filled));
        selvedge_free(plane);
    }
    field_close(job, &f);
}

/* ---- Timing ----------------------------------------------------------------------------------------- */

static void time_large(const struct job *job, size_t width, uint64_t steps)
{
    struct field f;
    struct { double total_us, waited_us; } mine = {0, 0}, *all = calloc((size_t)job->size, sizeof *all);
    if (all == NULL)
        selvedge_abort(1, "out of memory");
    field_open(job, &f, width, width);
    double start_us = now_us();
    for (uint64_t step = 0; step < steps; step++)
        mine.waited_us += step_once(job, &f, step);
    mine.total_us = now_us() - start_us;
    TRY(selvedge_exchange(&mine, sizeof mine, all));
    field_close(job, &f);

    double slowest_us = 0, waited_us = 0;
    for (int rank = 0; rank < job->size; rank++) {
        slowest_us = all[rank].total_us > slowest_us ? all[rank].total_us : slowest_us;
        waited_us += all[rank].waited_us / job->size;
    }
    if (job->rank == 0)
        printf("%zu x %zu cells on %d x %d ranks: %.2f us a step, of it %.2f us waiting (mean); %.1f million cells/s\n",
               width, width, job->columns, job->rows, slowest_us / (double)steps, waited_us / (double)steps,
               (double)width * (double)width * (double)steps / slowest_us);
    free(all);
}

int main(int argc, char **argv)
{
    long width = argc > 1 ? atol(argv[1]) : 1024, steps = argc > 2 ? atol(argv[2]) : 200;
    TRY(selvedge_init());
    struct job job = {.rank = selvedge_rank(), .size = selvedge_size(), .rows = 1};
    for (int rows = 1; rows * rows <= job.size; rows++)
        if (job.size % rows == 0)
            job.rows = rows; /* a grid of ranks as square as possible */
    job.columns = job.size / job.rows;
    if (steps < 1 || width < job.columns || job.columns > CHECK_WIDTH || job.rows > CHECK_HEIGHT) {
        if (job.rank == 0)
            fprintf(stderr, "usage: selvedge run -n N build/examples/halo2d [width] [steps]\n"
                            "%d ranks need a width of at least %d; steps start at 1\n",
                    job.size, job.columns);
        return 1;
    }

    ptl_process_t id;
    job.ids = calloc((size_t)job.size, sizeof *job.ids);
    if (job.ids == NULL)
        selvedge_abort(1, "out of memory");
    TRY(PtlInit());
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL, &job.ni));
    TRY(PtlGetPhysId(job.ni, &id));
    TRY(selvedge_exchange(&id, sizeof id, job.ids));
    TRY(PtlEQAlloc(job.ni, 8, &job.eq));

    check_small(&job);
    time_large(&job, (size_t)width, (uint64_t)steps);

    TRY(PtlEQFree(job.eq));
    TRY(PtlNIFini(job.ni));
    PtlFini();
    selvedge_finalize();
    free(job.ids);
    return 0;
}
