/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Start and end of programs: initialised several times, finalized or not, ended by one PE for all, killed. OpenSHMEM 1.6,
 * "Library Setup, Exit, and Query Routines" and "Execution Model". Exit statuses are those of `selvedge run`: the status
 * of shmem_global_exit, otherwise that of the first PE that failed, and 128 plus its number for a signal.
 *
 * Cases start the library themselves, so their symmetric objects are in static memory.
 */
#include "suite.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static long word, flag;

static void start(void)
{
    shmem_init();
    joined();
}

static void finish(void)
{
    left();
    shmem_finalize();
}

/* Puts to the next PE, which checks it. Collective. */
static void check_works(void)
{
    static long round;
    round++;
    shmem_long_p(&word, round * 100 + me(), next_pe());
    shmem_barrier_all();
    CHECK_EQ(word, round * 100 + previous_pe());
    shmem_barrier_all();
}

static int initialised(void)
{
    int answer = -1;
#if SINCE(1, 6)
    shmem_query_initialized(&answer);
#endif
    return answer;
}

/* ---- Beginning and finalizing --------------------------------------------------------------------------- */

#if SINCE(1, 6)

CASE(initialised_in_between, 2, "query_initialized: 0 before the first init, 1 until the last finalize, 0 after it",
     .flags = OWN_INIT)
{
    CHECK_EQ(initialised(), 0);
    start();
    CHECK_OP(initialised(), !=, 0);
    shmem_init();
    shmem_finalize();
    CHECK_OP(initialised(), !=, 0);
    check_works();
    finish();
    CHECK_EQ(initialised(), 0);
}

CASE(nested, 3,
     "init may be called again, each call paired with a finalize: only the last ends the library; all synchronize",
     .flags = OWN_INIT)
{
    int provided = -1;
    start();
    long *kept = shmem_malloc(sizeof *kept);
    *kept = 5;
    for (int i = 0; i < 3; i++) {
        if (i % 2) shmem_init();
        else CHECK_EQ(shmem_init_thread(SHMEM_THREAD_SINGLE, &provided), 0);
        check_works();
    }
    for (int i = 0; i < 3; i++) {
        shmem_long_p(&flag, i + 1, next_pe());
        if (me() == i) sleep_ms(10);
        shmem_finalize(); /* as a barrier */
        CHECK_EQ(flag, i + 1);
        check_works();
        CHECK_EQ(*kept, 5);
    }
    finish();
}

CASE(again_after_finalize, 3, "the library may be initialised again after its last finalize", .flags = OWN_INIT)
{
    for (int i = 0; i < 3; i++) {
        start();
        about("time %d", i);
        CHECK_EQ(shmem_n_pes(), 3);
        check_works();
        long *block = shmem_malloc(1000 * sizeof *block);
        CHECK_OP(block, !=, NULL);
        shmem_long_p(&block[999], 7 + me(), next_pe());
        shmem_barrier_all();
        CHECK_EQ(block[999], 7 + previous_pe());
        shmem_barrier_all();
        shmem_free(block);
        finish();
        CHECK_EQ(initialised(), 0);
    }
}

#endif

CASE(finalize_waits_and_completes, 3,
     "finalize: waits for all PEs, and puts issued before it are complete, also nonblocking ones", .flags = OWN_INIT)
{
    static unsigned char area[100000];
    unsigned char *from = malloc(sizeof area);
    CHECK_OP(from, !=, NULL);
    start();
    const int before = previous_pe();
    if (me() == 1) sleep_ms(50);
    pattern_fill(from, sizeof area, (unsigned)me());
    shmem_putmem_nbi(area, from, sizeof area, next_pe());
    finish();
    CHECK_PATTERN(area, sizeof area, (unsigned)before);
    free(from);
}

CASE(static_objects_stay, 2, "after finalize the program continues, with its static objects unchanged",
     .flags = OWN_INIT, .prints = "still here")
{
    start();
    check_works();
    const long was = word;
    finish();
    CHECK_EQ(word, was);
    word = 9;
    CHECK_EQ(word, 9);
    puts("still here");
}

CASE(start_pes_needs_no_finalize, 2, "the deprecated start_pes: once or twice, and the end of the program finalizes",
     .flags = OWN_INIT)
{
    start_pes(0);
    start_pes(7);
    joined();
    CHECK_EQ(n_pes(), 2);
    check_works();
    if (me() == 0) sleep_ms(20);
    shmem_long_p(&word, 4, next_pe());
}

/* ---- Ends without finalize ------------------------------------------------------------------------------ */

CASE(exit_without_finalize, 3, "a program that exits with 0 without finalize has succeeded", .flags = OWN_INIT,
     .prints_not = "selvedge run:")
{
    start();
    check_works();
    exit(0);
}

CASE(quick_exit_without_finalize, 2,
     "so has one that leaves by _exit", .flags = OWN_INIT, .prints_not = "selvedge run:")
{
    start();
    check_works();
    _exit(0);
}

CASE(status_after_finalize, 3, "the status of a PE that fails after finalize becomes the job's", .flags = OWN_INIT,
     .status = 5, .prints = "exited with status 5")
{
    start();
    check_works();
    const int number = me();
    finish();
    if (number == 1) exit(5);
}

CASE(fails_while_others_wait, 3, "a PE that fails ends the others, which wait in a barrier", .flags = OWN_INIT,
     .status = 3, .prints = "exited with status 3")
{
    start();
    check_works();
    if (me() == 1) exit(3);
    shmem_barrier_all();
    sleep_ms(100000);
}

CASE(fails_while_others_wait_for_a_word, 2,
     "a PE that fails ends the others, which wait for a word", .flags = OWN_INIT, .status = 4,
     .prints = "exited with status 4")
{
    start();
    check_works();
    if (me() == 1) exit(4);
    shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 1);
}

CASE(fails_before_init, 2,
     "a PE that fails before init ends the others, which wait in shmem_init", .flags = OWN_INIT, .status = 6, .prints = "exited with status 6")
{
    const char *rank = getenv("SELVEDGE_RANK");
    if (rank == NULL || atoi(rank) == 1) exit(6);
    shmem_init();
}

CASE(killed, 3, "a PE that is killed ends the job with 137", .flags = OWN_INIT, .status = 137,
     .prints = "was killed by SIGKILL")
{
    start();
    check_works();
    if (me() == 1) raise(SIGKILL);
    shmem_barrier_all();
}

CASE(killed_in_a_reduction, 3,
     "a PE killed while the others reduce: they get an error or are ended", .flags = OWN_INIT, .status = 137,
     .prints = "was killed by SIGKILL")
{
    static long source, dest;
    int failed = 0;
    start();
    check_works();
    for (int i = 0; !failed; i++) {
        if (me() == 1 && i == 100) raise(SIGKILL);
        source = i;
        failed = shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &dest, &source, 1);
    }
    CHECK_OP(shmem_long_sum_reduce(SHMEM_TEAM_WORLD, &dest, &source, 1), !=, 0);
    _exit(0);
}

CASE(aborted, 3, "a PE that aborts ends the job with 134", .flags = OWN_INIT, .status = 134,
     .prints = "was killed by SIGABRT")
{
    start();
    check_works();
    if (me() == 1) abort();
    for (;;) shmem_barrier_all();
}

CASE(crashed, 2, "a PE that crashes in its own memory ends the job with 139", .flags = OWN_INIT, .status = 139,
     .prints = "was killed by SIGSEGV")
{
    start();
    check_works();
    if (me() == 1) *(volatile int *)(uintptr_t)8 = 1;
    for (;;) shmem_barrier_all();
}

/* ---- shmem_global_exit ---------------------------------------------------------------------------------- */

/* One PE ends all, while the others run this. */
static void end_all(int status, void (*others)(void))
{
    start();
    check_works();
    if (me() == 1) {
        sleep_ms(20);
        shmem_global_exit(status);
    }
    others();
    FAIL("the others continued");
}

static void meet(void)
{
    for (;;) shmem_barrier_all();
}
static void wait_for_a_word(void) { shmem_long_wait_until(&flag, SHMEM_CMP_EQ, 4711); }
static void compute(void)
{
    for (volatile unsigned long i = 0;; i++) continue;
}
static void doze(void) { sleep_ms(1000000); }
static void run_a_program(void) { CHECK_OP(system("sleep 1000"), !=, 0); }

CASE(global_exit_in_a_barrier, 3, "shmem_global_exit of one PE ends all with its status, in a barrier",
     .flags = OWN_INIT, .status = 7)
{
    end_all(7, meet);
}
CASE(global_exit_in_a_wait, 3,
     "shmem_global_exit of one PE ends the others in a wait", .flags = OWN_INIT, .status = 8) { end_all(8, wait_for_a_word); }
CASE(global_exit_in_a_computation, 3,
     "shmem_global_exit of one PE ends the others in a computation", .flags = OWN_INIT, .status = 9) { end_all(9, compute); }
CASE(global_exit_in_a_sleep, 3,
     "shmem_global_exit of one PE ends the others in a sleep", .flags = OWN_INIT, .status = 255) { end_all(255, doze); }
CASE(global_exit_in_a_program, 2,
     "shmem_global_exit of one PE ends the others in a program that they run", .flags = OWN_INIT, .status = 11)
{
    end_all(11, run_a_program);
}
CASE(global_exit_with_zero, 3,
     "with status 0 the job has succeeded, and no PE is reported as a failure", .flags = OWN_INIT,
     .prints_not = "selvedge run:")
{
    end_all(0, meet);
}

CASE(global_exit_flushes, 2, "shmem_global_exit flushes the streams of the PE that calls it", .flags = OWN_INIT,
     .status = 12, .prints = "unfinished line")
{
    start();
    if (me() == 1) fputs("unfinished line", stdout);
    shmem_barrier_all();
    if (me() == 1) shmem_global_exit(12);
    meet();
}

CASE(global_exit_of_all, 4, "all PEs may call shmem_global_exit", .flags = OWN_INIT, .status = 13)
{
    start();
    shmem_barrier_all();
    shmem_global_exit(getenv("ENDINGS_STATUS_BY_PE") != NULL ? 13 + me() : 13); /* outside.rs sets it */
}

static void *end_from_here(void *unused)
{
    sleep_ms(10);
    shmem_global_exit(14);
    return unused;
}

CASE(global_exit_of_a_thread, 2, "a thread may call it while the main thread waits", .flags = OWN_INIT, .status = 14)
{
    int provided;
    pthread_t thread;
    CHECK_EQ(shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided), 0);
    joined();
    if (me() == 0) pthread_create(&thread, NULL, end_from_here, NULL);
    meet();
}

/* ---- Children ------------------------------------------------------------------------------------------- */

CASE(child_that_exits, 2, "a child of fork that ends by exit does not end its parent's part in the job",
     .flags = OWN_INIT)
{
    start();
    for (int i = 0; i < 3; i++) {
        const pid_t child = fork();
        if (child == 0) exit(0);
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_OP(WEXITSTATUS(status), ==, 0);
        check_works();
    }
    finish();
}

CASE(child_that_execs, 2, "a child may run another program", .flags = OWN_INIT)
{
    start();
    const pid_t child = fork();
    if (child == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_OP(WEXITSTATUS(status), ==, 0);
    check_works();
    finish();
}
