/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Waits for all, any or some of an array of objects: shmem_wait_until_all, _any, _some, shmem_test_all, _any, _some, and
 * their vector forms, for every type. OpenSHMEM 1.6, "Point-To-Point Synchronization Routines".
 *
 * A *form* compares with one value or a vector of them, and waits or tests. The cases call all(), any(), some(), which
 * choose by the form. Where a case has to wait, a testing form is repeated until it succeeds.
 */
#include "suite.h"
#include "types.h"

#if SINCE(1, 5)

enum { VECTOR = 1, TEST = 2, FORMS = 4, MANY = 1000 };

struct array_verbs {
    const char *name;
    size_t bytes;
    void (*store)(void *array, size_t index, int64_t value);
    void (*put)(void *array, size_t index, int64_t value, int pe); /* atomically */
    void (*wait_all)(void *ivars, size_t n, const int *status, int cmp, const void *values, bool is_vector);
    int (*test_all)(void *ivars, size_t n, const int *status, int cmp, const void *values, bool is_vector);
    size_t (*any)(void *ivars, size_t n, const int *status, int cmp, const void *values, int form);
    size_t (*some)(void *ivars, size_t n, size_t *indices, const int *status, int cmp, const void *values, int form);
};

#define ARRAY_THUNKS(NAME, TYPE)                                                                                      \
    static void store_##NAME(void *array, size_t i, int64_t value) { ((TYPE *)array)[i] = (TYPE)value; }              \
    static void put_##NAME(void *array, size_t i, int64_t value, int pe)                                              \
    {                                                                                                                 \
        shmem_##NAME##_atomic_set((TYPE *)array + i, (TYPE)value, pe);                                                \
    }                                                                                                                 \
    static void wait_all_##NAME(void *ivars, size_t n, const int *status, int cmp, const void *values, bool is_vector) \
    {                                                                                                                 \
        if (is_vector) shmem_##NAME##_wait_until_all_vector(ivars, n, status, cmp, (const TYPE *)values);             \
        else shmem_##NAME##_wait_until_all(ivars, n, status, cmp, *(const TYPE *)values);                             \
    }                                                                                                                 \
    static int test_all_##NAME(void *ivars, size_t n, const int *status, int cmp, const void *values, bool is_vector) \
    {                                                                                                                 \
        if (is_vector) return shmem_##NAME##_test_all_vector(ivars, n, status, cmp, (const TYPE *)values);            \
        return shmem_##NAME##_test_all(ivars, n, status, cmp, *(const TYPE *)values);                                 \
    }                                                                                                                 \
    static size_t any_##NAME(void *ivars, size_t n, const int *status, int cmp, const void *values, int form)         \
    {                                                                                                                 \
        TYPE value = *(const TYPE *)values;                                                                           \
        switch (form) {                                                                                               \
        case 0: return shmem_##NAME##_wait_until_any(ivars, n, status, cmp, value);                                   \
        case VECTOR: return shmem_##NAME##_wait_until_any_vector(ivars, n, status, cmp, (const TYPE *)values);        \
        case TEST: return shmem_##NAME##_test_any(ivars, n, status, cmp, value);                                      \
        default: return shmem_##NAME##_test_any_vector(ivars, n, status, cmp, (const TYPE *)values);                  \
        }                                                                                                             \
    }                                                                                                                 \
    static size_t some_##NAME(void *ivars, size_t n, size_t *indices, const int *status, int cmp, const void *values, \
                              int form)                                                                               \
    {                                                                                                                 \
        TYPE value = *(const TYPE *)values;                                                                           \
        switch (form) {                                                                                               \
        case 0: return shmem_##NAME##_wait_until_some(ivars, n, indices, status, cmp, value);                         \
        case VECTOR:                                                                                                  \
            return shmem_##NAME##_wait_until_some_vector(ivars, n, indices, status, cmp, (const TYPE *)values);       \
        case TEST: return shmem_##NAME##_test_some(ivars, n, indices, status, cmp, value);                            \
        default: return shmem_##NAME##_test_some_vector(ivars, n, indices, status, cmp, (const TYPE *)values);        \
        }                                                                                                             \
    }
AMO_STANDARD_TYPES(ARRAY_THUNKS)

static const struct array_verbs verbs[] = {
#define ARRAY_ROW(NAME, TYPE) \
    {#NAME, sizeof(TYPE), store_##NAME, put_##NAME, wait_all_##NAME, test_all_##NAME, any_##NAME, some_##NAME},
    AMO_STANDARD_TYPES(ARRAY_ROW)
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

#define FOR_EACH_FORM(v, form)                                                                           \
    for (int type_##v = 0; type_##v < VERBS; type_##v++)                                                 \
        for (const struct array_verbs *v = &verbs[type_##v]; v != NULL; v = NULL)                        \
            for (int form = 0; form < FORMS && (about("%s, form %d", v->name, form), true); form++)

/* The value `n` times, as the vector to compare with. */
static const void *same(const struct array_verbs *v, size_t n, int64_t value)
{
    static uint64_t room[MANY];
    for (size_t i = 0; i < (n ? n : 1); i++) v->store(room, i, value);
    return room;
}

/* Waits, or tests until the test succeeds. */
static void all(const struct array_verbs *v, int form, void *ivars, size_t n, const int *status, int cmp,
                const void *values)
{
    if (form & TEST)
        while (!v->test_all(ivars, n, status, cmp, values, form & VECTOR)) sleep_ms(0);
    else v->wait_all(ivars, n, status, cmp, values, form & VECTOR);
}

static size_t any(const struct array_verbs *v, int form, void *ivars, size_t n, const int *status, int cmp,
                  const void *values)
{
    size_t found;
    while ((found = v->any(ivars, n, status, cmp, values, form)) == SIZE_MAX && form & TEST) sleep_ms(0);
    return found;
}

static size_t some(const struct array_verbs *v, int form, void *ivars, size_t n, size_t *indices, const int *status,
                   int cmp, const void *values)
{
    size_t found;
    while ((found = v->some(ivars, n, indices, status, cmp, values, form)) == 0 && form & TEST) sleep_ms(0);
    return found;
}

DATA_CASE(empty_sets, 1,
          "an empty set, of zero elements or with all excluded: all return 1 or at once, any SIZE_MAX, some 0 "
          "(shmem_wait_until_any)")
{
    enum { N = 5 };
    uint64_t *ivars = symmetric(N * 8);
    static const int excluded[N] = {1, 1, 2, -1, 7};
    size_t indices[N];
    FOR_EACH_FORM(v, form)
    {
        const void *values = same(v, N, 3);
        if (form & TEST) {
            CHECK_EQ(v->test_all(ivars, 0, NULL, SHMEM_CMP_EQ, values, form & VECTOR), 1);
            CHECK_EQ(v->test_all(ivars, N, excluded, SHMEM_CMP_EQ, values, form & VECTOR), 1);
        } else {
            v->wait_all(ivars, 0, NULL, SHMEM_CMP_EQ, values, form & VECTOR);
            v->wait_all(ivars, 0, excluded, SHMEM_CMP_EQ, values, form & VECTOR);
            v->wait_all(ivars, N, excluded, SHMEM_CMP_EQ, values, form & VECTOR);
        }
        CHECK_EQ(v->any(ivars, 0, NULL, SHMEM_CMP_EQ, values, form), SIZE_MAX);
        CHECK_EQ(v->any(ivars, N, excluded, SHMEM_CMP_EQ, values, form), SIZE_MAX);
        CHECK_EQ(v->any(ivars, N, excluded, SHMEM_CMP_NE, values, form), SIZE_MAX);
        CHECK_EQ(v->some(ivars, 0, indices, NULL, SHMEM_CMP_EQ, values, form), 0);
        CHECK_EQ(v->some(ivars, N, indices, excluded, SHMEM_CMP_NE, values, form), 0);
    }
}

DATA_CASE(nothing_holds_yet, 1,
          "test: where no element satisfies, all returns 0, any SIZE_MAX, some 0 (shmem_test_all, shmem_test_any, "
          "shmem_test_some)")
{
    enum { N = 6 };
    uint64_t *ivars = symmetric(N * 8);
    int status[N] = {0, 1, 0, 0, 1, 0};
    size_t indices[N];
    FOR_EACH_FORM(v, form)
    {
        if (!(form & TEST)) continue;
        for (size_t i = 0; i < N; i++) v->store(ivars, i, status[i] ? 9 : 1);
        const void *values = same(v, N, 9);
        CHECK_EQ(v->test_all(ivars, N, status, SHMEM_CMP_EQ, values, form & VECTOR), 0);
        CHECK_EQ(v->test_all(ivars, N, NULL, SHMEM_CMP_EQ, values, form & VECTOR), 0);
        CHECK_EQ(v->any(ivars, N, status, SHMEM_CMP_EQ, values, form), SIZE_MAX);
        CHECK_EQ(v->some(ivars, N, indices, status, SHMEM_CMP_EQ, values, form), 0);
        v->store(ivars, 3, 9);
        CHECK_EQ(v->test_all(ivars, N, status, SHMEM_CMP_EQ, values, form & VECTOR), 0);
        CHECK_EQ(v->any(ivars, N, status, SHMEM_CMP_EQ, values, form), 3);
        CHECK_EQ(v->some(ivars, N, indices, status, SHMEM_CMP_EQ, values, form), 1);
        CHECK_EQ(indices[0], 3);
        for (size_t i = 0; i < N; i++) v->store(ivars, i, status[i] ? 1 : 9);
        CHECK_EQ(v->test_all(ivars, N, status, SHMEM_CMP_EQ, values, form & VECTOR), 1);
        CHECK_EQ(v->test_all(ivars, N, NULL, SHMEM_CMP_EQ, values, form & VECTOR), 0);
    }
}

static bool holds(int64_t a, int cmp, int64_t b)
{
    switch (cmp) {
    case SHMEM_CMP_EQ: return a == b;
    case SHMEM_CMP_NE: return a != b;
    case SHMEM_CMP_GT: return a > b;
    case SHMEM_CMP_GE: return a >= b;
    case SHMEM_CMP_LT: return a < b;
    default: return a <= b;
    }
}

DATA_CASE(every_comparison, 1,
          "all, any, some: each comparison finds the elements for which it holds, and those only (shmem_wait_until_some)")
{
    enum { N = 7 };
    static const int comparisons[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT,
                                      SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE};
    /* Against 0 for the two in the middle, else against 101. */
    static const int true_of_all[] = {SHMEM_CMP_NE, SHMEM_CMP_NE, SHMEM_CMP_GE,
                                      SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE};
    static const int64_t contents[N] = {5, 1, 100, 5, 0, 7, 99};
    uint64_t *ivars = symmetric(N * 8);
    size_t *indices = local(N * sizeof *indices);
    FOR_EACH_FORM(v, form)
    {
        for (size_t i = 0; i < N; i++) v->store(ivars, i, contents[i]);
        for (int c = 0; c < 6; c++) {
            size_t wanted = 0;
            const void *values = same(v, N, 5);
            for (size_t i = 0; i < N; i++) wanted += holds(contents[i], comparisons[c], 5);
            size_t index = v->any(ivars, N, NULL, comparisons[c], values, form);
            CHECK_OP(index, <, N);
            CHECK(holds(contents[index], comparisons[c], 5));
            CHECK_EQ(v->some(ivars, N, indices, NULL, comparisons[c], values, form), wanted);
            bool seen[N] = {false};
            for (size_t i = 0; i < wanted; i++) {
                CHECK_OP(indices[i], <, N);
                CHECK(!seen[indices[i]]);
                CHECK(holds(contents[indices[i]], comparisons[c], 5));
                seen[indices[i]] = true;
            }
            if (form & TEST) CHECK_EQ(v->test_all(ivars, N, NULL, comparisons[c], values, form & VECTOR), 0);
            values = same(v, N, comparisons[c] == SHMEM_CMP_GT || comparisons[c] == SHMEM_CMP_GE ? 0 : 101);
            all(v, form, ivars, N, NULL, true_of_all[c], values);
        }
    }
}

DATA_CASE(below_zero, 1,
          "all, any, some: values of signed types below zero are less than others, of unsigned types greater (shmem_test_any)")
{
    uint64_t *ivars = symmetric(2 * 8);
    size_t indices[2];
    FOR_EACH_FORM(v, form)
    {
        bool is_signed = v->name[0] != 'u' && strcmp(v->name, "size") != 0;
        v->store(ivars, 0, -5);
        v->store(ivars, 1, 5);
        CHECK_EQ(v->any(ivars, 2, NULL, SHMEM_CMP_LT, same(v, 2, 5), form | TEST), is_signed ? 0 : SIZE_MAX);
        CHECK_EQ(v->any(ivars, 2, NULL, SHMEM_CMP_GT, same(v, 2, 5), form | TEST), is_signed ? SIZE_MAX : 0);
        CHECK_EQ(v->some(ivars, 2, indices, NULL, SHMEM_CMP_LE, same(v, 2, 5), form), is_signed ? 2 : 1);
        CHECK_EQ(v->test_all(ivars, 2, NULL, SHMEM_CMP_GE, same(v, 2, 5), form & VECTOR), !is_signed);
    }
}

DATA_CASE(vectors_compare_one_by_one, 1,
          "vector forms: element i is compared with value i (shmem_wait_until_all_vector)")
{
    enum { N = 9 };
    uint64_t *ivars = symmetric(N * 8), values[N];
    size_t indices[N];
    for (int t = 0; t < VERBS; t++) {
        const struct array_verbs *v = &verbs[t];
        about("%s", v->name);
        for (size_t i = 0; i < N; i++) {
            v->store(ivars, i, (int64_t)i * 3);
            v->store(values, i, (int64_t)i * 3);
        }
        v->wait_all(ivars, N, NULL, SHMEM_CMP_EQ, values, true);
        CHECK_EQ(v->test_all(ivars, N, NULL, SHMEM_CMP_EQ, values, true), 1);
        v->store(values, 4, 13);
        CHECK_EQ(v->test_all(ivars, N, NULL, SHMEM_CMP_EQ, values, true), 0);
        for (int form = VECTOR; form < FORMS; form += TEST) {
            CHECK_EQ(v->any(ivars, N, NULL, SHMEM_CMP_NE, values, form), 4);
            CHECK_EQ(v->any(ivars, N, NULL, SHMEM_CMP_LT, values, form), 4);
            CHECK_EQ(v->some(ivars, N, indices, NULL, SHMEM_CMP_LT, values, form), 1);
            CHECK_EQ(indices[0], 4);
            CHECK_EQ(v->some(ivars, N, indices, NULL, SHMEM_CMP_GE, values, form), N - 1);
        }
    }
}

DATA_CASE(excluded_elements_are_not_found, 1,
          "any, some: an element with a status other than 0 is not returned, though it satisfies "
          "(shmem_wait_until_any)")
{
    enum { N = 8 };
    uint64_t *ivars = symmetric(N * 8);
    size_t *indices = local(N * sizeof *indices);
    int *status = local(N * sizeof *status);
    FOR_EACH_FORM(v, form)
    {
        for (size_t i = 0; i < N; i++) v->store(ivars, i, 4), status[i] = 0;
        const void *values = same(v, N, 4);
        for (size_t left = N; left > 0; left--) {
            CHECK_EQ(v->some(ivars, N, indices, status, SHMEM_CMP_EQ, values, form), left);
            for (size_t i = 0; i < left; i++) {
                CHECK_OP(indices[i], <, N);
                CHECK_EQ(status[indices[i]], 0);
            }
            size_t found = v->any(ivars, N, status, SHMEM_CMP_EQ, values, form);
            CHECK_OP(found, <, N);
            CHECK_OP(status[found], ==, 0);
            status[found] = left % 2 ? 1 : -3;
        }
        CHECK_EQ(v->any(ivars, N, status, SHMEM_CMP_EQ, values, form), SIZE_MAX);
    }
}

DATA_CASE(any_finds_each_in_time, 1,
          "any: repeated calls return each element that satisfies, sooner or later (shmem_wait_until_any)")
{
    enum { N = 10 };
    uint64_t *ivars = symmetric(N * 8);
    int status[N] = {0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    FOR_EACH_FORM(v, form)
    {
        for (size_t i = 0; i < N; i++) v->store(ivars, i, i % 3 == 0 ? 1 : 2);
        const void *values = same(v, N, 2);
        unsigned missing = 0, seen = 0;
        for (unsigned i = 0; i < N; i++) missing |= (unsigned)(i % 3 != 0 && !status[i]) << i;
        for (int i = 0; i < 20000 && seen != missing; i++)
            seen |= 1u << v->any(ivars, N, status, SHMEM_CMP_EQ, values, form);
        CHECK_EQ(seen, missing);
    }
}

DATA_CASE(all_waits_for_all, 3,
          "wait_until_all, test_all: hold once every element that is not excluded does (shmem_wait_until_all)")
{
    uint64_t *ivars = symmetric((size_t)VERBS * FORMS * 4 * 8);
    static const int status[4] = {0, 0, 1, 0};
    FOR_EACH_FORM(v, form)
    {
        void *mine = ivars + (type_v * FORMS + form) * 4;
        for (int pe = 0; pe < n_pes(); pe++) v->put(mine, (size_t)(me() == 2 ? 3 : me()), 6, pe);
        all(v, form, mine, 4, status, SHMEM_CMP_EQ, same(v, 4, 6));
        CHECK_EQ(v->test_all(mine, 4, status, SHMEM_CMP_EQ, same(v, 4, 6), false), 1);
        CHECK_EQ(v->test_all(mine, 4, NULL, SHMEM_CMP_EQ, same(v, 4, 6), false), 0);
    }
}

DATA_CASE(all_blocks, 2, "wait_until_all does not return while one element is missing (shmem_wait_until_all)")
{
    long *ivars = symmetric(3 * sizeof *ivars);
    barrier();
    if (me() == 0) {
        shmem_long_wait_until(ivars, SHMEM_CMP_EQ, 1); /* the peer has read its clock */
        shmem_long_atomic_set(ivars + 2, 1, 1);
        shmem_long_atomic_set(ivars, 1, 1);
        sleep_ms(60);
        shmem_long_atomic_set(ivars + 1, 1, 1);
    } else {
        long long start = now_ms();
        shmem_long_atomic_set(ivars, 1, 0);
        shmem_long_wait_until_all(ivars, 3, NULL, SHMEM_CMP_EQ, 1);
        CHECK_OP(now_ms() - start, >=, 40);
    }
}

DATA_CASE(any_of_those_who_arrive, 4,
          "any, repeated with status, returns every PE once (shmem_wait_until_any)", .crowded = 9)
{
    uint64_t *ivars = symmetric((size_t)VERBS * FORMS * PES_MAX * 8);
    int status[PES_MAX];
    FOR_EACH_FORM(v, form)
    {
        void *mine = ivars + (type_v * FORMS + form) * PES_MAX;
        memset(status, 0, sizeof status);
        for (int pe = 0; pe < n_pes(); pe++) v->put(mine, (size_t)me(), 1 + me(), pe);
        for (int i = 0; i < n_pes(); i++) {
            size_t from = any(v, form, mine, (size_t)n_pes(), status, SHMEM_CMP_NE, same(v, (size_t)n_pes(), 0));
            CHECK_OP(from, <, (size_t)n_pes());
            CHECK(!status[from]);
            status[from] = 1;
        }
        CHECK_EQ(any(v, 0, mine, (size_t)n_pes(), status, SHMEM_CMP_NE, same(v, (size_t)n_pes(), 0)), SIZE_MAX);
        for (int pe = 0; pe < n_pes(); pe++) {
            int64_t found = v->bytes == 4 ? ((int32_t *)mine)[pe] : ((int64_t *)mine)[pe];
            CHECK_EQ(found, 1 + pe);
        }
    }
}

DATA_CASE(some_of_those_who_arrive, 4,
          "some, repeated with status, returns every PE once (shmem_wait_until_some)", .crowded = 9)
{
    uint64_t *ivars = symmetric((size_t)VERBS * FORMS * PES_MAX * 8);
    int status[PES_MAX];
    size_t indices[PES_MAX];
    FOR_EACH_FORM(v, form)
    {
        void *mine = ivars + (type_v * FORMS + form) * PES_MAX;
        memset(status, 0, sizeof status);
        for (int pe = 0; pe < n_pes(); pe++) v->put(mine, (size_t)me(), 1, pe);
        for (size_t met = 0; met < (size_t)n_pes();) {
            const void *ones = same(v, (size_t)n_pes(), 1);
            size_t found = some(v, form, mine, (size_t)n_pes(), indices, status, SHMEM_CMP_EQ, ones);
            CHECK_OP(found, >=, 1);
            CHECK_OP(met + found, <=, (size_t)n_pes());
            for (size_t i = 0; i < found; i++) {
                CHECK_OP(indices[i], <, (size_t)n_pes());
                CHECK(!status[indices[i]]);
                status[indices[i]] = 1;
            }
            met += found;
        }
    }
}

DATA_CASE(different_values_arrive, 2,
          "vector forms wait for a separate value at each element (shmem_wait_until_some_vector)")
{
    enum { N = 12 };
    int *ivars = symmetric(N * sizeof *ivars), values[N], status[N] = {0};
    size_t indices[N];
    for (int i = 0; i < N; i++) values[i] = 1000 + i * i;
    for (int i = N - 1; i >= 0; i--) shmem_int_atomic_set(ivars + i, values[i], next_pe());
    for (size_t met = 0; met < N / 2;) {
        size_t found = shmem_int_wait_until_some_vector(ivars, N, indices, status, SHMEM_CMP_EQ, values);
        for (size_t i = 0; i < found; i++) {
            CHECK_EQ(ivars[indices[i]], values[indices[i]]);
            status[indices[i]] = 1;
        }
        met += found;
    }
    shmem_int_wait_until_all_vector(ivars, N, NULL, SHMEM_CMP_GE, values);
    for (int i = 0; i < N; i++) CHECK_EQ(ivars[i], values[i]);
}

DATA_CASE(sleepers_wake_for_any_element, 2,
          "any, some, all: a change of the last element ends a long wait (shmem_wait_until_any)")
{
    enum { N = 64 };
    long *ivars = symmetric(N * sizeof *ivars);
    size_t indices[N];
    for (int round = 1; round <= 4; round++) {
        barrier();
        if (me() == 0) {
            sleep_ms(15);
            shmem_long_atomic_set(ivars + N - round, round, 1);
            continue;
        }
        size_t place = (size_t)(N - round);
        if (round == 1) CHECK_EQ(shmem_long_wait_until_any(ivars, N, NULL, SHMEM_CMP_EQ, round), place);
        if (round == 2) CHECK_EQ(shmem_long_wait_until_some(ivars, N, indices, NULL, SHMEM_CMP_EQ, round), 1);
        if (round == 2) CHECK_EQ(indices[0], place);
        if (round == 3) shmem_long_wait_until_all(ivars + place, 1, NULL, SHMEM_CMP_EQ, round);
        if (round == 4) shmem_long_wait_until_all(ivars + place, 4, NULL, SHMEM_CMP_NE, 0);
        CHECK_EQ(ivars[place], round);
    }
}

DATA_CASE(many_elements, 2, "all, any, some: over a thousand elements (shmem_wait_until_all)")
{
    unsigned *ivars = symmetric(MANY * sizeof *ivars);
    int *status = local(MANY * sizeof *status);
    size_t *indices = local(MANY * sizeof *indices);
    for (unsigned i = 0; i < MANY; i++) shmem_uint_atomic_set(ivars + i * 7 % MANY, 1 + i * 7 % MANY, next_pe());
    for (size_t met = 0; met < MANY;) {
        size_t found = shmem_uint_wait_until_some(ivars, MANY, indices, status, SHMEM_CMP_NE, 0);
        for (size_t i = 0; i < found; i++) {
            CHECK_EQ(ivars[indices[i]], indices[i] + 1);
            CHECK_EQ(status[indices[i]], 0);
            status[indices[i]] = 1;
        }
        met += found;
    }
    shmem_uint_wait_until_all(ivars, MANY, NULL, SHMEM_CMP_GT, 0);
    CHECK_EQ(shmem_uint_test_any(ivars, MANY, NULL, SHMEM_CMP_EQ, MANY), MANY - 1);
    CHECK_EQ(shmem_uint_test_some(ivars, MANY, indices, NULL, SHMEM_CMP_GT, MANY / 2), MANY / 2);
}
#endif
