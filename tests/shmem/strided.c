/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Strided puts and gets: shmem_iput, shmem_iget, and by blocks shmem_ibput, shmem_ibget, under all of their names.
 * OpenSHMEM 1.6, "Remote Memory Access Routines". Strides count elements. They are at least 1, or the size of a block.
 */
#include "elements.h"

typedef void strided_fn(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t n, int pe);
typedef void blocks_fn(void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t n, int pe);

struct strided_verbs {
    struct element element;
    const char *form;
    strided_fn *iput, *iget;
};

#define STRIDED_PARAMETERS void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t n, int pe
#define STRIDED_THUNKS(NAME, IPUT, IGET, CTX_IPUT, CTX_IGET)                                                      \
    static void iput_##NAME(STRIDED_PARAMETERS) { IPUT(dest, source, dst, sst, n, pe); }                          \
    static void iget_##NAME(STRIDED_PARAMETERS) { IGET(dest, source, dst, sst, n, pe); }                          \
    static void ctx_iput_##NAME(STRIDED_PARAMETERS) { CTX_IPUT(SHMEM_CTX_DEFAULT, dest, source, dst, sst, n, pe); } \
    static void ctx_iget_##NAME(STRIDED_PARAMETERS) { CTX_IGET(SHMEM_CTX_DEFAULT, dest, source, dst, sst, n, pe); }
#define TYPED_STRIDED(NAME, TYPE) \
    STRIDED_THUNKS(NAME, shmem_##NAME##_iput, shmem_##NAME##_iget, shmem_ctx_##NAME##_iput, shmem_ctx_##NAME##_iget)
#define SIZED_STRIDED(SIZE, TYPE) \
    STRIDED_THUNKS(SIZE, shmem_iput##SIZE, shmem_iget##SIZE, shmem_ctx_iput##SIZE, shmem_ctx_iget##SIZE)
RMA_TYPES(TYPED_STRIDED)
RMA_SIZES(SIZED_STRIDED)

#define TYPED_ROWS(NAME, TYPE)                                        \
    {ELEMENT(NAME, TYPE), "", iput_##NAME, iget_##NAME},              \
    {ELEMENT(NAME, TYPE), "ctx ", ctx_iput_##NAME, ctx_iget_##NAME},
#define SIZED_ROWS(SIZE, TYPE)                                        \
    {ELEMENT_##SIZE, "", iput_##SIZE, iget_##SIZE},                   \
    {ELEMENT_##SIZE, "ctx ", ctx_iput_##SIZE, ctx_iget_##SIZE},
static const struct strided_verbs strided[] = {RMA_TYPES(TYPED_ROWS) RMA_SIZES(SIZED_ROWS)};

enum { STRIDED = sizeof strided / sizeof strided[0], SLOT_ELEMENTS = 64, SLOT_BYTES = SLOT_ELEMENTS * 16 };
enum { SLOTS_BYTES = STRIDED * SLOT_BYTES };

static void *slot(void *buffer, int row) { return (unsigned char *)buffer + (size_t)row * SLOT_BYTES; }

/* Checks that the slot holds `count` elements of the seed, by their number in the source, `stride` apart, and zeros between. */
static void check_spread(const struct element *e, const void *start, size_t count, size_t stride, unsigned seed,
                         size_t seed_stride)
{
    for (size_t i = 0; i < SLOT_ELEMENTS; i++) {
        if (i % stride == 0 && i / stride < count) CHECK_ELEMENT(e, start, i, seed, i / stride * seed_stride);
        else CHECK_ZERO(e, start, i, 1);
    }
}

static const struct {
    ptrdiff_t dst, sst;
    size_t count;
} shapes[] = {{1, 1, 64}, {1, 2, 31}, {2, 1, 31}, {2, 2, 17}, {1, 5, 12},
              {5, 1, 12}, {3, 4, 15}, {7, 6, 9}, {63, 63, 2}, {40, 2, 1}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

#define FOR_EACH_STRIDED(v, e, row)                                                                       \
    for (int row = 0; row < STRIDED; row++)                                                               \
        for (const struct strided_verbs *v = &strided[row]; v != NULL; v = NULL)                          \
            for (const struct element *e = (about("%s%s, shape %d", v->form, v->element.name, shape), &v->element); \
                 e != NULL; e = NULL)

DATA_CASE(iput_every_shape, 2,
          "iput: element i of the source's stride becomes element i of dest's; elements in between stay (shmem_iput)")
{
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES);
    for (int shape = 0; shape < SHAPES; shape++) {
        FOR_EACH_STRIDED(v, e, row)
        {
            elements_fill(e, slot(source, row), SLOT_ELEMENTS, (unsigned)(row + 100 * me()));
            v->iput(slot(dest, row), slot(source, row), shapes[shape].dst, shapes[shape].sst, shapes[shape].count,
                    next_pe());
        }
        barrier();
        FOR_EACH_STRIDED(v, e, row)
        check_spread(e, slot(dest, row), shapes[shape].count, (size_t)shapes[shape].dst,
                     (unsigned)(row + 100 * previous_pe()), (size_t)shapes[shape].sst);
        memset(dest, 0, SLOTS_BYTES);
        barrier();
    }
}

DATA_CASE(iget_every_shape, 2,
          "iget: element i of the source's stride becomes element i of dest's; elements in between stay (shmem_iget)")
{
    unsigned char *source = symmetric(SLOTS_BYTES), *dest = local(SLOTS_BYTES);
    for (int row = 0; row < STRIDED; row++)
        elements_fill(&strided[row].element, slot(source, row), SLOT_ELEMENTS, (unsigned)(row + 100 * me()));
    barrier();
    for (int shape = 0; shape < SHAPES; shape++) {
        memset(dest, 0, SLOTS_BYTES);
        FOR_EACH_STRIDED(v, e, row)
        {
            v->iget(slot(dest, row), slot(source, row), shapes[shape].dst, shapes[shape].sst, shapes[shape].count,
                    next_pe());
            check_spread(e, slot(dest, row), shapes[shape].count, (size_t)shapes[shape].dst,
                         (unsigned)(row + 100 * next_pe()), (size_t)shapes[shape].sst);
        }
    }
}

DATA_CASE(strided_of_oneself, 2, "iput, iget: the named PE may be the caller (shmem_iput, shmem_iget)")
{
    unsigned char *there = symmetric(SLOTS_BYTES), *here = local(SLOTS_BYTES), *back = local(SLOTS_BYTES);
    int shape = 0;
    FOR_EACH_STRIDED(v, e, row)
    {
        elements_fill(e, slot(here, row), SLOT_ELEMENTS, (unsigned)row);
        v->iput(slot(there, row), slot(here, row), 3, 2, 20, me());
        shmem_quiet();
        check_spread(e, slot(there, row), 20, 3, (unsigned)row, 2);
        v->iget(slot(back, row), slot(there, row), 1, 3, 20, me());
        check_spread(e, slot(back, row), 20, 1, (unsigned)row, 2);
    }
}

DATA_CASE(no_strided_elements, 2, "iput, iget: with nelems 0 nothing is written (shmem_iput, shmem_iget)")
{
    unsigned char *there = symmetric(SLOTS_BYTES), *here = local(SLOTS_BYTES);
    int shape = 0;
    memset(here, 0xff, SLOTS_BYTES);
    FOR_EACH_STRIDED(v, e, row)
    {
        (void)e;
        v->iput(slot(there, row), slot(here, row), 2, 3, 0, next_pe());
        v->iget(slot(here, row), slot(there, row), 3, 2, 0, next_pe());
    }
    barrier();
    CHECK_BYTES(there, SLOTS_BYTES, 0);
    CHECK_BYTES(here, SLOTS_BYTES, 0xff);
}

DATA_CASE(iput_source_is_free_at_once, 2, "iput: when it returns the source has been read and may change (shmem_iput)")
{
    enum { ROUNDS = 100, N = 50 };
    int *dest = symmetric(ROUNDS * N * 2 * sizeof(int)), *source = local(N * 3 * sizeof(int));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N * 3; i++) source[i] = round * 1000 + i;
        shmem_int_iput(dest + round * N * 2, source, 2, 3, N, next_pe());
        memset(source, 0xff, N * 3 * sizeof(int));
    }
    barrier();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < N; i++) {
            CHECK_EQ(dest[round * N * 2 + 2 * i], round * 1000 + 3 * i);
            CHECK_EQ(dest[round * N * 2 + 2 * i + 1], 0);
        }
}

DATA_CASE(strides_of_many_interleave, 4,
          "iput: PEs that each own every n-th element of one object do not disturb each other (shmem_iput)",
          .crowded = 7)
{
    enum { N = 600 };
    short *object = symmetric((size_t)PES_MAX * N * sizeof(short)), here[N];
    for (int i = 0; i < N; i++) here[i] = (short)(me() * N + i);
    for (int pe = 0; pe < n_pes(); pe++) shmem_short_iput(object + me(), here, n_pes(), 1, N, pe);
    barrier();
    for (int i = 0; i < N; i++)
        for (int pe = 0; pe < n_pes(); pe++) CHECK_EQ(object[i * n_pes() + pe], (short)(pe * N + i));
    memset(here, 0, sizeof here);
    shmem_short_iget(here, object + previous_pe(), 1, n_pes(), N, next_pe());
    for (int i = 0; i < N; i++) CHECK_EQ(here[i], (short)(previous_pe() * N + i));
}

DATA_CASE(strided_transpose, 2, "iput: a row becomes a column, and so a matrix its transpose (shmem_iput)")
{
    enum { SIDE = 33 };
    double *object = symmetric(SIDE * SIDE * sizeof(double)), *here = local(SIDE * SIDE * sizeof(double));
    for (int i = 0; i < SIDE * SIDE; i++) here[i] = me() + i / 4.0;
    for (int row = 0; row < SIDE; row++) shmem_double_iput(object + row, here + row * SIDE, SIDE, 1, SIDE, next_pe());
    barrier();
    for (int i = 0; i < SIDE * SIDE; i++) CHECK_NUMBER(object[i % SIDE * SIDE + i / SIDE], previous_pe() + i / 4.0);
}

DATA_CASE(long_strided, 2,
          "iput, iget: thousands of elements with a stride of many pages in all (shmem_iput, shmem_iget)")
{
    enum { N = 5000, DST = 5, SST = 3 };
    int *object = symmetric_in(HEAP, N * DST * sizeof(int)), *here = local(N * SST * sizeof(int));
    for (int i = 0; i < N * SST; i++) here[i] = me() * N * SST + i;
    shmem_int_iput(object, here, DST, SST, N, next_pe());
    barrier();
    for (int i = 0; i < N * DST; i++) CHECK_EQ(object[i], i % DST ? 0 : previous_pe() * N * SST + i / DST * SST);
    memset(here, 0, N * SST * sizeof(int));
    shmem_int_iget(here, object, SST, DST, N, next_pe());
    for (int i = 0; i < N * SST; i++) CHECK_EQ(here[i], i % SST ? 0 : me() * N * SST + i);
}

DATA_CASE(long_strided_bytes, 2,
          "iput, iget: tens of thousands of single bytes, and of wide elements (shmem_iput8, shmem_iput128)")
{
    enum { N = 30000, WIDE = 3000 };
    unsigned char *object = symmetric(2 * N), *here = local(3 * N), *back = local(N);
    pattern_fill(here, 3 * N, (unsigned)me());
    shmem_iput8(object, here, 2, 3, N, next_pe());
    barrier();
    shmem_iget8(back, object, 1, 2, N, next_pe());
    for (int i = 0; i < N; i++) {
        CHECK_EQ(back[i], here[3 * i]);
        CHECK_EQ(object[2 * i + 1], 0);
    }
    barrier();
    struct element e = ELEMENT_128;
    unsigned char *wide = symmetric(3 * WIDE * 16), *narrow = local(2 * WIDE * 16);
    elements_fill(&e, narrow, 2 * WIDE, (unsigned)me());
    shmem_iput128(wide, narrow, 3, 2, WIDE, next_pe());
    barrier();
    for (size_t i = 0; i < WIDE; i++) {
        CHECK_ELEMENT(&e, wide, 3 * i, (unsigned)previous_pe(), 2 * i);
        CHECK_ZERO(&e, wide, 3 * i + 1, 2);
    }
}

#if SINCE(1, 6)
struct blocks_verbs {
    struct element element;
    const char *form;
    blocks_fn *ibput, *ibget;
};

#define BLOCKS_PARAMETERS void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t bsize, size_t n, int pe
#define BLOCKS_THUNKS(NAME, IBPUT, IBGET, CTX_IBPUT, CTX_IBGET)                                                   \
    static void ibput_##NAME(BLOCKS_PARAMETERS) { IBPUT(dest, source, dst, sst, bsize, n, pe); }                  \
    static void ibget_##NAME(BLOCKS_PARAMETERS) { IBGET(dest, source, dst, sst, bsize, n, pe); }                  \
    static void ctx_ibput_##NAME(BLOCKS_PARAMETERS)                                                               \
    {                                                                                                             \
        CTX_IBPUT(SHMEM_CTX_DEFAULT, dest, source, dst, sst, bsize, n, pe);                                       \
    }                                                                                                             \
    static void ctx_ibget_##NAME(BLOCKS_PARAMETERS)                                                               \
    {                                                                                                             \
        CTX_IBGET(SHMEM_CTX_DEFAULT, dest, source, dst, sst, bsize, n, pe);                                       \
    }
#define TYPED_BLOCKS(NAME, TYPE) \
    BLOCKS_THUNKS(NAME, shmem_##NAME##_ibput, shmem_##NAME##_ibget, shmem_ctx_##NAME##_ibput, shmem_ctx_##NAME##_ibget)
#define SIZED_BLOCKS(SIZE, TYPE) \
    BLOCKS_THUNKS(SIZE, shmem_ibput##SIZE, shmem_ibget##SIZE, shmem_ctx_ibput##SIZE, shmem_ctx_ibget##SIZE)
RMA_TYPES(TYPED_BLOCKS)
RMA_SIZES(SIZED_BLOCKS)

#define TYPED_BLOCK_ROWS(NAME, TYPE)                                      \
    {ELEMENT(NAME, TYPE), "", ibput_##NAME, ibget_##NAME},                \
    {ELEMENT(NAME, TYPE), "ctx ", ctx_ibput_##NAME, ctx_ibget_##NAME},
#define SIZED_BLOCK_ROWS(SIZE, TYPE)                                      \
    {ELEMENT_##SIZE, "", ibput_##SIZE, ibget_##SIZE},                     \
    {ELEMENT_##SIZE, "ctx ", ctx_ibput_##SIZE, ctx_ibget_##SIZE},
static const struct blocks_verbs blocks[] = {RMA_TYPES(TYPED_BLOCK_ROWS) RMA_SIZES(SIZED_BLOCK_ROWS)};

static const struct {
    ptrdiff_t dst, sst;
    size_t bsize, count;
} block_shapes[] = {{1, 1, 1, 30}, {2, 3, 1, 20}, {4, 4, 4, 16}, {4, 6, 3, 10}, {6, 4, 4, 10}, {5, 5, 4, 12}, {9, 8, 7, 7},
                    {32, 31, 30, 2}, {64, 64, 64, 1}, {3, 5, 0, 9}, {3, 4, 3, 0}};
enum { BLOCK_SHAPES = sizeof block_shapes / sizeof block_shapes[0] };

static void check_blocks(const struct element *e, const void *start, int shape, unsigned seed)
{
    size_t dst = (size_t)block_shapes[shape].dst, sst = (size_t)block_shapes[shape].sst;
    for (size_t i = 0; i < SLOT_ELEMENTS; i++) {
        size_t block = i / dst, in_block = i % dst;
        if (block < block_shapes[shape].count && in_block < block_shapes[shape].bsize)
            CHECK_ELEMENT(e, start, i, seed, block * sst + in_block);
        else CHECK_ZERO(e, start, i, 1);
    }
}

DATA_CASE(ibput_every_shape, 2,
          "ibput: block i of the source becomes block i of dest; elements in between stay (shmem_ibput)")
{
    unsigned char *dest = symmetric(SLOTS_BYTES), *source = local(SLOTS_BYTES);
    for (int shape = 0; shape < BLOCK_SHAPES; shape++) {
        for (int row = 0; row < STRIDED; row++) {
            elements_fill(&blocks[row].element, slot(source, row), SLOT_ELEMENTS, (unsigned)(row + 100 * me()));
            blocks[row].ibput(slot(dest, row), slot(source, row), block_shapes[shape].dst, block_shapes[shape].sst,
                              block_shapes[shape].bsize, block_shapes[shape].count, next_pe());
        }
        barrier();
        for (int row = 0; row < STRIDED; row++) {
            about("%s%s, shape %d", blocks[row].form, blocks[row].element.name, shape);
            check_blocks(&blocks[row].element, slot(dest, row), shape, (unsigned)(row + 100 * previous_pe()));
        }
        memset(dest, 0, SLOTS_BYTES);
        barrier();
    }
}

DATA_CASE(ibget_every_shape, 2,
          "ibget: block i of the source becomes block i of dest; elements in between stay (shmem_ibget)")
{
    unsigned char *source = symmetric(SLOTS_BYTES), *dest = local(SLOTS_BYTES);
    for (int row = 0; row < STRIDED; row++)
        elements_fill(&blocks[row].element, slot(source, row), SLOT_ELEMENTS, (unsigned)(row + 100 * me()));
    barrier();
    for (int shape = 0; shape < BLOCK_SHAPES; shape++) {
        memset(dest, 0, SLOTS_BYTES);
        for (int row = 0; row < STRIDED; row++) {
            about("%s%s, shape %d", blocks[row].form, blocks[row].element.name, shape);
            blocks[row].ibget(slot(dest, row), slot(source, row), block_shapes[shape].dst, block_shapes[shape].sst,
                              block_shapes[shape].bsize, block_shapes[shape].count, next_pe());
            check_blocks(&blocks[row].element, slot(dest, row), shape, (unsigned)(row + 100 * next_pe()));
        }
    }
}

DATA_CASE(blocks_of_one_are_strides, 2, "ibput, ibget: with bsize 1 they are iput and iget (shmem_ibput, shmem_ibget)")
{
    enum { N = 40 };
    long *by_iput = symmetric(3 * N * sizeof(long)), *by_ibput = symmetric(3 * N * sizeof(long)), here[2 * N];
    long by_iget[N] = {0}, by_ibget[N] = {0};
    for (int i = 0; i < 2 * N; i++) here[i] = me() * 1000 + i;
    shmem_long_iput(by_iput, here, 3, 2, N, next_pe());
    shmem_long_ibput(by_ibput, here, 3, 2, 1, N, next_pe());
    barrier();
    CHECK_SAME(by_iput, by_ibput, 3 * N * sizeof(long));
    CHECK_EQ(by_iput[3], previous_pe() * 1000 + 2);
    shmem_long_iget(by_iget, by_iput, 1, 3, N, next_pe());
    shmem_long_ibget(by_ibget, by_ibput, 1, 3, 1, N, next_pe());
    CHECK_SAME(by_iget, by_ibget, sizeof by_iget);
    CHECK_EQ(by_iget[N - 1], me() * 1000 + 2 * N - 2);
}

DATA_CASE(tile_of_a_matrix, 2,
          "ibput, ibget: a tile of one matrix becomes a tile of another (shmem_ibput, shmem_ibget)")
{
    enum { SIDE = 40, ROWS = 9, COLUMNS = 13 };
    float *matrix = symmetric(SIDE * SIDE * sizeof(float)), *tile = local(ROWS * COLUMNS * sizeof(float));
    for (int i = 0; i < ROWS * COLUMNS; i++) tile[i] = (float)(1 + me() + i);
    shmem_float_ibput(matrix + 5 * SIDE + 7, tile, SIDE, COLUMNS, COLUMNS, ROWS, next_pe());
    barrier();
    for (int i = 0; i < SIDE * SIDE; i++) {
        int row = i / SIDE - 5, column = i % SIDE - 7;
        bool in_tile = row >= 0 && row < ROWS && column >= 0 && column < COLUMNS;
        CHECK_NUMBER(matrix[i], in_tile ? 1 + previous_pe() + row * COLUMNS + column : 0);
    }
    memset(tile, 0, ROWS * COLUMNS * sizeof(float));
    shmem_float_ibget(tile, matrix + 5 * SIDE + 7, COLUMNS, SIDE, COLUMNS, ROWS, next_pe());
    for (int i = 0; i < ROWS * COLUMNS; i++) CHECK_NUMBER(tile[i], 1 + me() + i);
}

DATA_CASE(long_blocks, 2, "ibput, ibget: blocks of pages, source and dest strides apart (shmem_ibput, shmem_ibget)")
{
    enum { BLOCK = 5001, N = 5, DST = 6000, SST = 5003 };
    unsigned char *object = symmetric(N * DST), *here = local(N * SST), *back = local(N * SST);
    pattern_fill(here, N * SST, (unsigned)me());
    shmem_ibput8(object, here, DST, SST, BLOCK, N, next_pe());
    barrier();
    shmem_ibget8(back, object, SST, DST, BLOCK, N, next_pe());
    for (int i = 0; i < N * SST; i++) CHECK_EQ(back[i], i % SST < BLOCK ? here[i] : 0);
    for (int block = 0; block < N; block++) CHECK_BYTES(object + block * DST + BLOCK, DST - BLOCK, 0);
}
#endif
