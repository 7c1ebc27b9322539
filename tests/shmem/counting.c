/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counting puts (seed 004): puts and gets that add one to a counter at their target PE, after their data. They are not
 * part of the standard; a library without them skips these cases. All forms are in counting_forms.c.
 */
#include "suite.h"

#ifdef SELVEDGE_SHMEM

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static shmem_ct_t counter(void)
{
    shmem_ct_t ct = SHMEM_CT_INVALID;
    shmem_ct_create(&ct);
    CHECK_OP(ct, !=, SHMEM_CT_INVALID);
    return ct;
}

/* Number of operations of a long case: fewer where each needs a call of its target's program. */
static int many(int most) { return variant_is("host") || variant_is("bounce") ? most / 5 : most; }

/* ---- A counter ------------------------------------------------------------------------------------------ */

CASE(value_of_ones_own, 3, "get and set: each PE has its own value, 0 at first; set is local")
{
    shmem_ct_t ct = counter();
    CHECK_EQ(shmem_ct_get(ct), 0);
    shmem_ct_set(ct, 100 + me());
    barrier();
    CHECK_EQ(shmem_ct_get(ct), 100 + me());
    shmem_ct_set(ct, -5);
    CHECK_EQ(shmem_ct_get(ct), -5);
    shmem_ct_set(ct, INT64_MAX);
    CHECK_EQ(shmem_ct_get(ct), INT64_MAX);
    shmem_ct_set(ct, INT64_MIN);
    CHECK_EQ(shmem_ct_get(ct), INT64_MIN);
    shmem_ct_free(&ct);
    CHECK_OP(ct, ==, SHMEM_CT_INVALID);
}

CASE(test_and_wait, 2, "test is 1 from wait_for on, else 0; wait returns at once if the value is already reached")
{
    shmem_ct_t ct = counter();
    for (long value = -3; value <= 3; value++) {
        shmem_ct_set(ct, value);
        for (long wanted = -4; wanted <= 4; wanted++) {
            CHECK_EQ(shmem_ct_test(ct, wanted), value >= wanted);
            if (value >= wanted) shmem_ct_wait(ct, wanted);
        }
    }
    shmem_ct_free(&ct);
}

DATA_CASE(put_counts_at_the_target, 3, "a counting put adds one at the PE it writes to, and nowhere else")
{
    long *words = symmetric(4 * sizeof *words);
    shmem_ct_t ct = counter();
    for (int from = 0; from < n_pes(); from++) {
        const int to = (from + 1) % n_pes();
        const long value = 70 + from;
        if (me() == from) shmem_putmem_ct(ct, &words[from], &value, sizeof value, to);
        if (me() == to) shmem_ct_wait(ct, 1);
        if (me() == to) CHECK_EQ(words[from], value);
        barrier();
        CHECK_EQ(shmem_ct_get(ct), me() == to);
        barrier();
        shmem_ct_set(ct, 0);
        barrier();
    }
    shmem_ct_free(&ct);
}

DATA_CASE(to_oneself, 2, "a counting put to the calling PE counts there; so does a counting get")
{
    long *word = symmetric(sizeof *word), value = 9;
    shmem_ct_t ct = counter();
    shmem_putmem_ct(ct, word, &value, sizeof value, me());
    shmem_ct_wait(ct, 1);
    CHECK_EQ(*word, 9);
    value = 0;
    shmem_getmem_ct(ct, &value, word, sizeof value, me());
    CHECK_EQ(value, 9);
    shmem_ct_wait(ct, 2);
    barrier();
    CHECK_EQ(shmem_ct_get(ct), 2);
    shmem_ct_free(&ct);
}

DATA_CASE(get_counts_at_the_source, 2, "a counting get counts at the PE whose data it took, which may then change it")
{
    enum { ROUNDS = 100, BYTES = 3000 };
    unsigned char *data = symmetric(BYTES), *got = local(BYTES);
    shmem_ct_t taken = counter(), made = counter();
    for (int i = 1; i <= ROUNDS; i++) {
        about("round %d", i);
        if (me() == 0) {
            pattern_fill(data, BYTES, (unsigned)i);
            shmem_putmem_ct(made, data, data, 0, 1);
            shmem_ct_wait(taken, i); /* only now may data change */
        } else {
            shmem_ct_wait(made, i);
            shmem_getmem_ct(taken, got, data, BYTES, 0);
            CHECK_PATTERN(got, BYTES, (unsigned)i);
            CHECK_EQ(shmem_ct_get(taken), 0);
        }
    }
    barrier();
    CHECK_EQ(shmem_ct_get(taken), me() == 0 ? ROUNDS : 0);
    shmem_ct_free(&taken);
    shmem_ct_free(&made);
}

DATA_CASE(no_bytes_count, 2, "puts and gets of zero bytes move nothing and count")
{
    unsigned char *data = symmetric(8);
    shmem_ct_t ct = counter();
    for (int i = 0; i < 10; i++) {
        shmem_putmem_ct(ct, data, data, 0, next_pe());
        shmem_getmem_ct(ct, data, data, 0, next_pe());
        shmem_long_put_ct(ct, (long *)data, (long *)data, 0, next_pe());
        shmem_putmem_ct_nbi(ct, data, data, 0, next_pe());
    }
    shmem_ct_wait(ct, 40);
    barrier();
    CHECK_EQ(shmem_ct_get(ct), 40);
    CHECK_BYTES(data, 8, 0);
    shmem_ct_free(&ct);
}

/* ---- Data before the count ------------------------------------------------------------------------------ */

DATA_CASE(data_is_there_with_the_count, 2, "when the count is reached the data of the put is in place, whole")
{
    static const size_t sizes[] = {1, 2, 7, 8, 9, 16, 64, 100, 129, 1000, 4096, 8191, 65536, 200003};
    unsigned char *data = symmetric(200003), *from = local(200003);
    shmem_ct_t there = counter(), seen = counter();
    long round = 0;
    for (int times = 0; times < 12; times++)
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            round++;
            about("%zu bytes, round %ld", sizes[i], round);
            if (me() == 0) {
                pattern_fill(from, sizes[i], (unsigned)round);
                if (times % 2) shmem_putmem_ct(there, data, from, sizes[i], 1);
                else {
                    shmem_putmem_ct_nbi(there, data, from, sizes[i], 1);
                    shmem_quiet();
                }
                shmem_ct_wait(seen, round);
            } else {
                shmem_ct_wait(there, round);
                CHECK_PATTERN(data, sizes[i], (unsigned)round);
                shmem_putmem_ct(seen, data, from, 0, 0);
            }
        }
    shmem_ct_free(&there);
    shmem_ct_free(&seen);
}

DATA_CASE(many_before_one_wait, 4, "all data of all senders is in place when the count of all is reached", .crowded = 7)
{
    enum { EACH = 50, BYTES = 120 };
    unsigned char *data = symmetric(8 * EACH * BYTES), *from = local(BYTES);
    shmem_ct_t ct = counter();
    for (int round = 1; round <= 5; round++) {
        for (int i = 0; i < EACH; i++)
            for (int pe = 0; pe < n_pes(); pe++) {
                pattern_fill(from, BYTES, (unsigned)((me() * EACH + i) * 8 + round));
                shmem_putmem_ct(ct, data + (me() * EACH + i) * BYTES, from, BYTES, (pe + me()) % n_pes());
            }
        shmem_ct_wait(ct, (long)round * EACH * n_pes());
        about("round %d", round);
        for (int i = 0; i < EACH * n_pes(); i++) CHECK_PATTERN(data + i * BYTES, BYTES, (unsigned)(i * 8 + round));
        barrier();
    }
    shmem_ct_free(&ct);
}

CASE(source_is_free_on_return, 2, "put_ct: source may change on return; put_ct_nbi: after quiet")
{
    enum { COUNT = 40, BYTES = 9000 };
    unsigned char *data = symmetric(2 * COUNT * BYTES), *from = local(BYTES), *slow = local(COUNT * BYTES);
    shmem_ct_t ct = counter();
    for (int i = 0; i < COUNT; i++) {
        pattern_fill(from, BYTES, (unsigned)i);
        shmem_putmem_ct(ct, data + i * BYTES, from, BYTES, next_pe());
        pattern_fill(slow + i * BYTES, BYTES, (unsigned)i + 100);
        shmem_putmem_ct_nbi(ct, data + (COUNT + i) * BYTES, slow + i * BYTES, BYTES, next_pe());
    }
    memset(from, 0xff, BYTES);
    shmem_quiet();
    memset(slow, 0xff, COUNT * BYTES);
    shmem_ct_wait(ct, 2 * COUNT);
    for (int i = 0; i < COUNT; i++) {
        CHECK_PATTERN(data + i * BYTES, BYTES, (unsigned)i);
        CHECK_PATTERN(data + (COUNT + i) * BYTES, BYTES, (unsigned)i + 100);
    }
    shmem_ct_free(&ct);
}

DATA_CASE(barrier_completes, 3, "after shmem_barrier_all all counting operations have counted, nonblocking ones too")
{
    enum { EACH = 30 };
    long *words = symmetric(EACH * 4 * sizeof *words), value = me() + 1;
    shmem_ct_t ct = counter();
    for (int i = 0; i < EACH; i++)
        for (int pe = 0; pe < n_pes(); pe++) {
            if (i % 2) shmem_long_put_ct(ct, &words[me() * EACH + i], &value, 1, pe);
            else shmem_long_put_ct_nbi(ct, &words[me() * EACH + i], &value, 1, pe);
        }
    barrier();
    CHECK_EQ(shmem_ct_get(ct), EACH * n_pes());
    for (int i = 0; i < EACH * n_pes(); i++) CHECK_EQ(words[i], i / EACH + 1);
    shmem_ct_free(&ct);
}

/* ---- Exact counts --------------------------------------------------------------------------------------- */

CASE(nothing_lost_under_load, 8, "eight PEs count ten thousand times each at one PE, then at all: the sum is exact")
{
    const int each = many(10000);
    long *words = symmetric(8 * sizeof *words);
    shmem_ct_t ct = counter();
    for (long i = 1; i <= each; i++) shmem_long_p_ct(ct, &words[me()], i, 0);
    if (me() == 0) shmem_ct_wait(ct, (long)each * n_pes());
    barrier();
    CHECK_EQ(shmem_ct_get(ct), me() == 0 ? (long)each * n_pes() : 0);
    for (int pe = 0; pe < n_pes() && me() == 0; pe++) CHECK_EQ(words[pe], each);
    barrier();
    shmem_ct_set(ct, 0);
    barrier();
    for (long i = 1; i <= each / 8; i++)
        for (int pe = 0; pe < n_pes(); pe++) shmem_long_p_ct(ct, &words[me()], i, (pe + me()) % n_pes());
    shmem_ct_wait(ct, (long)(each / 8) * n_pes());
    barrier();
    CHECK_EQ(shmem_ct_get(ct), (long)(each / 8) * n_pes());
    shmem_ct_free(&ct);
}

CASE(gets_and_puts_together, 4,
     "counting gets, puts and single elements of several PEs at one counter: the sum is exact", .crowded = 9)
{
    const int each = many(500);
    long *words = symmetric(16 * sizeof *words), got[2], two[2] = {1, 2};
    shmem_ct_t ct = counter();
    for (int i = 0; i < each; i++) {
        const int to = (me() + i) % n_pes();
        shmem_long_put_ct(ct, &words[0], two, 2, to);
        shmem_long_get_ct(ct, got, &words[2], 2, to);
        shmem_long_p_ct(ct, &words[4], i, to);
        shmem_put64_ct_nbi(ct, &words[6], two, 2, to);
    }
    barrier();
    long sum = 0, all[16], mine = shmem_ct_get(ct);
    shmem_long_p(&words[8], mine, me());
    shmem_quiet();
    shmem_sync_all();
    for (int pe = 0; pe < n_pes(); pe++) sum += all[pe] = shmem_long_g(&words[8], pe);
    CHECK_EQ(sum, 4L * each * n_pes());
    shmem_ct_free(&ct);
}

CASE(set_while_others_count, 4, "set while others count: later counts are added to the value set, none is lost")
{
    const int each = many(3000);
    long *word = symmetric(sizeof *word);
    shmem_ct_t ct = counter(), paced = counter();
    if (me() == 0) {
        long last = 0;
        for (int i = 0; i < 200; i++) {
            long value = shmem_ct_get(ct);
            CHECK_OP(value, >=, last); /* the counter never decreases */
            shmem_ct_set(ct, 1000000L * (i + 1));
            last = 1000000L * (i + 1);
        }
        shmem_ct_set(ct, 0);
        for (int pe = 1; pe < n_pes(); pe++) shmem_long_p_ct(paced, word, 1, pe);
    } else {
        for (int i = 0; i < each; i++) shmem_long_p_ct(ct, word, i, 0);
        shmem_quiet();
        shmem_ct_wait(paced, 1);
        for (int i = 0; i < each; i++) shmem_long_p_ct(ct, word, i, 0); /* all of these follow the last set */
    }
    barrier();
    if (me() == 0) {
        long value = shmem_ct_get(ct);
        CHECK_OP(value, >=, 3L * each);
        CHECK_OP(value, <=, 6L * each);
    }
    shmem_ct_free(&ct);
    shmem_ct_free(&paced);
}

CASE(set_starts_anew, 2, "set between rounds: each round counts from the value set, up or down")
{
    long *word = symmetric(sizeof *word);
    shmem_ct_t ct = counter();
    for (int round = 0; round < 50; round++) {
        const long start = (round - 25) * 1000L;
        shmem_ct_set(ct, start);
        barrier();
        for (int i = 0; i <= round; i++) shmem_long_p_ct(ct, word, i, next_pe());
        shmem_ct_wait(ct, start + round + 1);
        barrier();
        CHECK_EQ(shmem_ct_get(ct), start + round + 1);
    }
    shmem_ct_free(&ct);
}

CASE(test_never_blocks, 2, "test returns while nothing arrives, and finally sees the arrival without another call")
{
    long *word = symmetric(sizeof *word);
    shmem_ct_t ct = counter();
    if (me() == 0) {
        for (int i = 0; i < 1000; i++) CHECK_EQ(shmem_ct_test(ct, 1), 0);
        shmem_long_p(word, 1, 1);
        shmem_quiet();
        while (!shmem_ct_test(ct, 1)) continue;
    } else {
        shmem_long_wait_until(word, SHMEM_CMP_EQ, 1);
        shmem_long_p_ct(ct, word, 2, 0);
    }
    shmem_ct_free(&ct);
}

/* ---- Several counters ----------------------------------------------------------------------------------- */

DATA_CASE(counters_are_apart, 3, "each counter counts its own operations only")
{
    enum { COUNTERS = 9 };
    long *word = symmetric(sizeof *word);
    shmem_ct_t ct[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) ct[i] = counter();
    for (int i = 0; i < COUNTERS; i++)
        for (int k = 0; k <= i; k++) shmem_long_p_ct(ct[i], word, k, next_pe());
    for (int i = 0; i < COUNTERS; i++) shmem_ct_wait(ct[i], i + 1);
    barrier();
    for (int i = 0; i < COUNTERS; i++) CHECK_EQ(shmem_ct_get(ct[i]), i + 1);
    for (int i = 0; i < COUNTERS; i++) shmem_ct_free(&ct[i]);
}

CASE(a_thousand, 2, "a thousand counters at once, each at its own number")
{
    enum { COUNTERS = 1000 };
    long *word = symmetric(sizeof *word);
    static shmem_ct_t ct[COUNTERS];
    for (int i = 0; i < COUNTERS; i++) shmem_ct_create(&ct[i]);
    for (int i = 0; i < COUNTERS; i++) {
        CHECK_OP(ct[i], !=, SHMEM_CT_INVALID);
        for (int k = 0; k < i % 4; k++) shmem_long_p_ct(ct[i], word, k, next_pe());
    }
    barrier();
    for (int i = 0; i < COUNTERS; i++) CHECK_EQ(shmem_ct_get(ct[i]), i % 4);
    for (int i = 0; i < COUNTERS; i++) shmem_ct_free(&ct[i]);
}

CASE(many_times, 3, "counters can be made and freed any number of times, each new one at zero", .crowded = 8)
{
    long *word = symmetric(sizeof *word);
    for (int i = 0; i < 100; i++) {
        shmem_ct_t ct = counter();
        about("counter %d", i);
        if (i % 2) CHECK_EQ(shmem_ct_get(ct), 0);
        if (i % 2) barrier(); /* otherwise a peer may have added already */
        for (int k = 1; k < n_pes(); k++) shmem_long_p_ct(ct, word, i, (me() + k) % n_pes());
        shmem_ct_wait(ct, n_pes() - 1);
        barrier();
        CHECK_EQ(shmem_ct_get(ct), n_pes() - 1);
        shmem_ct_free(&ct);
    }
}

CASE(limit, 2, "when all counters are taken create returns SHMEM_CT_INVALID and reports it; a freed one makes room",
     .environment = "SELVEDGE_SHMEM_COUNTERS=20", .prints = "SELVEDGE_SHMEM_COUNTERS")
{
    long *word = symmetric(sizeof *word);
    shmem_ct_t ct[20], more = SHMEM_CT_INVALID;
    for (int i = 0; i < 20; i++) ct[i] = counter();
    shmem_ct_create(&more);
    CHECK_OP(more, ==, SHMEM_CT_INVALID);
    shmem_ct_free(&ct[7]);
    ct[7] = counter();
    shmem_ct_create(&more);
    CHECK_OP(more, ==, SHMEM_CT_INVALID);
    for (int i = 0; i < 20; i++) shmem_long_p_ct(ct[i], word, i, next_pe());
    for (int i = 0; i < 20; i++) shmem_ct_wait(ct[i], 1);
    for (int i = 0; i < 20; i++) shmem_ct_free(&ct[i]);
}

CASE(default_limit, 2, "4,096 counters by default", .needs = MAPPED)
{
    enum { COUNTERS = 4096 };
    static shmem_ct_t ct[COUNTERS + 1];
    for (int i = 0; i <= COUNTERS; i++) shmem_ct_create(&ct[i]);
    CHECK_OP(ct[COUNTERS - 1], !=, SHMEM_CT_INVALID);
    CHECK_OP(ct[COUNTERS], ==, SHMEM_CT_INVALID);
    for (int i = 0; i < COUNTERS; i++) shmem_ct_free(&ct[i]);
}

CASE(freed_counter_is_refused, 2,
     "a freed counter's handle, and SHMEM_CT_INVALID, are refused: nothing moves, nothing counts")
{
    long *words = symmetric(4 * sizeof *words), value = 9, kept = 77;
    shmem_ct_t ct = counter(), old = ct;
    shmem_ct_free(&ct);
    shmem_ct_t again = counter(); /* probably in the same slot */
    CHECK_OP(again, !=, old);
    for (int round = 0; round < 2; round++) {
        shmem_ct_t wrong = round ? SHMEM_CT_INVALID : old;
        about("round %d", round);
        shmem_long_put_ct(wrong, words, &value, 1, next_pe());
        shmem_long_put_ct_nbi(wrong, words, &value, 1, next_pe());
        shmem_long_p_ct(wrong, words, 9, next_pe());
        shmem_long_get_ct(wrong, &kept, words, 1, next_pe());
        shmem_ct_set(wrong, 5);
        CHECK_EQ(shmem_ct_get(wrong), 0);
        CHECK_EQ(shmem_ct_test(wrong, 1), 0);
        shmem_ct_wait(wrong, 1); /* returns */
        shmem_ct_free(&wrong);
    }
    barrier();
    CHECK_BYTES(words, 4 * sizeof *words, 0);
    CHECK_EQ(kept, 77);
    CHECK_EQ(shmem_ct_get(again), 0);
    shmem_ct_free(&again);
}

CASE(left_at_the_end, 2, "shmem_finalize frees the remaining counters")
{
    long *word = symmetric(sizeof *word);
    shmem_ct_t ct = counter();
    shmem_long_p_ct(ct, word, 1, next_pe());
    shmem_ct_wait(ct, 1);
}

/* ---- The seed's programs -------------------------------------------------------------------------------- */

DATA_CASE(all_to_all, 5, "seed 004, listing 1.4: an all-to-all, each PE waiting for one count from each PE",
          .crowded = 12)
{
    enum { BYTES = 1000, TIMES = 10 };
    unsigned char *to = symmetric(TIMES * 12 * BYTES), *from = local(BYTES);
    shmem_ct_t ct = counter();
    for (int i = 0; i < TIMES; i++) {
        for (int pe = 0; pe < n_pes(); pe++) {
            pattern_fill(from, BYTES, (unsigned)((me() * 16 + pe) * 16 + i));
            shmem_putmem_ct(ct, to + (i * 12 + me()) * BYTES, from, BYTES, pe);
        }
        shmem_ct_wait(ct, (long)(i + 1) * n_pes());
    }
    barrier();
    for (int i = 0; i < TIMES; i++)
        for (int pe = 0; pe < n_pes(); pe++)
            CHECK_PATTERN(to + (i * 12 + pe) * BYTES, BYTES, (unsigned)((pe * 16 + me()) * 16 + i));
    shmem_ct_free(&ct);
}

DATA_CASE(pipelined_stencil, 4,
          "seed 004, listing 1.6: a pipeline of rows, each waiting for its left neighbour's element", .crowded = 8)
{
    enum { ROWS = 120, WIDE = 6 };
    double *edge = symmetric(ROWS * sizeof *edge), row[WIDE + 1], above[WIDE + 1];
    shmem_ct_t ct = counter();
    for (int i = 0; i <= WIDE; i++) above[i] = me() * WIDE + i; /* the grid is i + j at two borders, and so inside */
    for (int j = 1; j < ROWS; j++) {
        if (me() > 0) shmem_ct_wait(ct, j);
        row[0] = me() > 0 ? edge[j] : j;
        for (int i = 1; i <= WIDE; i++) row[i] = row[i - 1] + above[i] - above[i - 1];
        if (me() < n_pes() - 1) shmem_double_put_ct(ct, &edge[j], &row[WIDE], 1, me() + 1);
        memcpy(above, row, sizeof row);
    }
    for (int i = 0; i <= WIDE; i++) CHECK_NUMBER(row[i], me() * WIDE + i + ROWS - 1);
    shmem_ct_free(&ct);
}

#endif
