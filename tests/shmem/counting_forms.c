/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counting puts (seed 004) in every form. Typed, by the bits of an element, by bytes; with a context and without; generic;
 * on a team; and the names of other libraries. Their behaviour is in counting.c.
 */
#include "suite.h"
#include "types.h"

#ifdef SELVEDGE_SHMEM

#include <shmemx.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static shmem_ct_t counter(void)
{
    shmem_ct_t ct = SHMEM_CT_INVALID;
    shmem_ct_create(&ct);
    CHECK_OP(ct, !=, SHMEM_CT_INVALID);
    return ct;
}

struct row {
    const char *name;
    size_t bytes;
    void (*put)(shmem_ctx_t ctx, shmem_ct_t ct, void *to, const void *from, size_t count, int pe);
    void (*put_nbi)(shmem_ctx_t ctx, shmem_ct_t ct, void *to, const void *from, size_t count, int pe);
    void (*get)(shmem_ctx_t ctx, shmem_ct_t ct, void *to, const void *from, size_t count, int pe);
    void (*plain_put)(shmem_ct_t ct, void *to, const void *from, size_t count, int pe);
    void (*plain_put_nbi)(shmem_ct_t ct, void *to, const void *from, size_t count, int pe);
    void (*plain_get)(shmem_ct_t ct, void *to, const void *from, size_t count, int pe);
    void (*p)(shmem_ct_t ct, void *to, const void *value, int pe); /* with and without a context */
};

#define THUNK(PREFIX, NAME, TYPE, CALL)                                                                                \
    static void PREFIX##_##NAME(shmem_ctx_t ctx, shmem_ct_t ct, void *to, const void *from, size_t count, int pe)      \
    {                                                                                                                  \
        shmem_ctx_##CALL(ctx, ct, to, from, count, pe);                                                                \
    }                                                                                                                  \
    static void plain_##PREFIX##_##NAME(shmem_ct_t ct, void *to, const void *from, size_t count, int pe)               \
    {                                                                                                                  \
        shmem_##CALL(ct, to, from, count, pe);                                                                         \
    }
#define TYPED(NAME, TYPE)                                                         \
    THUNK(put, NAME, TYPE, NAME##_put_ct)                                         \
    THUNK(nbi, NAME, TYPE, NAME##_put_ct_nbi)                                     \
    THUNK(get, NAME, TYPE, NAME##_get_ct)                                         \
    static void p_##NAME(shmem_ct_t ct, void *to, const void *value, int pe)      \
    {                                                                             \
        shmem_##NAME##_p_ct(ct, to, *(const TYPE *)value, pe);                    \
        shmem_ctx_##NAME##_p_ct(SHMEM_CTX_DEFAULT, ct, to, *(const TYPE *)value, pe); \
    }
#define SIZED(NAME, TYPE)                        \
    THUNK(put, NAME, TYPE, put##NAME##_ct)       \
    THUNK(nbi, NAME, TYPE, put##NAME##_ct_nbi)   \
    THUNK(get, NAME, TYPE, get##NAME##_ct)
RMA_TYPES(TYPED)
RMA_SIZES(SIZED)
SIZED(mem, char)

#define FORMS(NAME) put_##NAME, nbi_##NAME, get_##NAME, plain_put_##NAME, plain_nbi_##NAME, plain_get_##NAME
#define TYPED_ROW(NAME, TYPE) {#NAME, sizeof(TYPE), FORMS(NAME), p_##NAME},
#define SIZED_ROW(NAME, TYPE) {#NAME, sizeof(TYPE), FORMS(NAME), NULL},
static const struct row rows[] = {RMA_TYPES(TYPED_ROW) RMA_SIZES(SIZED_ROW) SIZED_ROW(mem, char)};

DATA_CASE(every_form, 2, "typed, sized and byte forms, with a context and without: data and one count each")
{
    enum { ELEMENTS = 5, FORMS = 4 };
    unsigned char *data = symmetric(FORMS * ELEMENTS * 16), *from = local(FORMS * ELEMENTS * 16),
                  *got = local(ELEMENTS * 16);
    shmem_ct_t ct = counter();
    shmem_ctx_t ctx;
    CHECK_EQ(shmem_ctx_create(0, &ctx), 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        const size_t part = ELEMENTS * row->bytes;
        about("%s", row->name);
        memset(data, 0, FORMS * part);
        shmem_ct_set(ct, 0);
        barrier();
        pattern_fill(from, FORMS * part, (unsigned)(me() + 2 * (int)i));
        row->plain_put(ct, data, from, ELEMENTS, next_pe());
        row->plain_put_nbi(ct, data + part, from + part, ELEMENTS, next_pe());
        row->put(ctx, ct, data + 2 * part, from + 2 * part, ELEMENTS, next_pe());
        row->put_nbi(ctx, ct, data + 3 * part, from + 3 * part, ELEMENTS, next_pe());
        shmem_quiet();
        shmem_ctx_quiet(ctx);
        shmem_ct_wait(ct, 4);
        CHECK_PATTERN(data, FORMS * part, (unsigned)(previous_pe() + 2 * (int)i));
        barrier();
        row->plain_get(ct, got, data, ELEMENTS, next_pe());
        CHECK_PATTERN(got, part, (unsigned)(me() + 2 * (int)i));
        memset(got, 0, part);
        row->get(ctx, ct, got, data, ELEMENTS, next_pe());
        CHECK_PATTERN(got, part, (unsigned)(me() + 2 * (int)i));
        shmem_ct_wait(ct, 6);
        barrier();
        if (row->p != NULL) {
            row->p(ct, data, from + row->bytes, next_pe());
            shmem_ct_wait(ct, 8);
            pattern_fill(got, part, (unsigned)(previous_pe() + 2 * (int)i));
            CHECK_SAME(data, got + row->bytes, row->bytes > 10 ? 10 : row->bytes); /* a long double has 10 */
            barrier();
        }
        CHECK_EQ(shmem_ct_get(ct), row->p != NULL ? 8 : 6);
        barrier();
    }
    shmem_ctx_destroy(ctx);
    shmem_ct_free(&ct);
}

CASE(generic_names, 2, "C11: shmem_put_ct, shmem_put_ct_nbi, shmem_get_ct and shmem_p_ct choose by the type of dest")
{
    shmem_ct_t ct = counter();
    long wanted = 0;
#define GENERIC(NAME, TYPE)                                              \
    {                                                                    \
        TYPE *data = symmetric(6 * sizeof *data), from[2], got[2];       \
        from[0] = (TYPE)(me() + 3);                                      \
        from[1] = (TYPE)(me() + 5);                                      \
        about(#NAME);                                                    \
        shmem_put_ct(ct, data, from, 2, next_pe());                      \
        shmem_put_ct_nbi(SHMEM_CTX_DEFAULT, ct, data + 2, from, 2, next_pe()); \
        shmem_p_ct(ct, data + 4, (TYPE)7, next_pe());                    \
        shmem_p_ct(SHMEM_CTX_DEFAULT, ct, data + 5, (TYPE)8, next_pe()); \
        shmem_quiet();                                                   \
        shmem_get_ct(ct, got, data, 2, next_pe());                       \
        shmem_ct_wait(ct, wanted += 5);                                  \
        CHECK_NUMBER(data[1], previous_pe() + 5);                        \
        CHECK_NUMBER(data[2], previous_pe() + 3);                        \
        CHECK_NUMBER(data[4], 7);                                        \
        CHECK_NUMBER(data[5], 8);                                        \
        CHECK_NUMBER(got[0], me() + 3);                                  \
        barrier();                                                       \
    }
    RMA_DISTINCT_TYPES(GENERIC)
    shmem_ct_free(&ct);
}

DATA_CASE(on_a_team, 4, "on a team's context the PE is named by its number in the team; it counts there")
{
    long *word = symmetric(sizeof *word), value = me();
    shmem_ct_t ct = counter();
    shmem_team_config_t config = {1};
    shmem_team_t reversed;
    shmem_ctx_t ctx;
    CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 3, -1, 3, &config, SHMEM_TEAM_NUM_CONTEXTS, &reversed), 0);
    if (reversed != SHMEM_TEAM_INVALID) {
        CHECK_EQ(shmem_team_create_ctx(reversed, 0, &ctx), 0);
        shmem_ctx_long_put_ct(ctx, ct, word, &value, 1, (shmem_team_my_pe(reversed) + 1) % 3);
        shmem_ct_wait(ct, 1);
        CHECK_EQ(*word, me() == 3 ? 1 : me() + 1);
        shmem_ctx_destroy(ctx);
    }
    barrier();
    CHECK_EQ(shmem_ct_get(ct), me() > 0);
    shmem_team_destroy(reversed);
    shmem_ct_free(&ct);
}

CASE(names_of_extensions, 2, "shmemx_ct_*, shmemx_putmem_ct and shmemx_getmem_ct are the same routines")
{
    long *word = symmetric(sizeof *word), value = me() + 1;
    shmemx_ct_t ct;
    shmemx_ct_create(&ct);
    shmemx_putmem_ct(ct, word, &value, sizeof value, next_pe());
    shmemx_ct_wait(ct, 1);
    CHECK_EQ(*word, previous_pe() + 1);
    barrier();
    shmemx_getmem_ct(ct, &value, word, sizeof value, next_pe());
    CHECK_EQ(value, me() + 1);
    shmemx_ct_wait(ct, 2);
    CHECK_EQ(shmemx_ct_test(ct, 2), 1);
    CHECK_EQ(shmemx_ct_get(ct), 2);
    shmemx_ct_set(ct, 0);
    CHECK_EQ(shmem_ct_get(ct), 0);
    shmemx_ct_free(&ct);
    CHECK_OP(ct, ==, SHMEM_CT_INVALID);
}

#endif
