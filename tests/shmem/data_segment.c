/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Global and static objects are symmetric: initialised, zero, large, in functions, at the ends of the segment. The program
 * otherwise behaves as without the library: constants, fork, system, thread-local objects. OpenSHMEM 1.6, "Memory Model".
 * outside.rs also builds this family as a program at a fixed address.
 */
#include "suite.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

long global_initialised = 1001;
long global_zero;
static long static_initialised = 1002;
static long static_zero;
static const long constant = 1003;
static long beside_constant[3] = {1, 2, 3};
static struct {
    char tag;
    double value;
    int list[5];
} record = {'r', 2.5, {1, 2, 3, 4, 5}};
static unsigned char large_zero[5 << 20];
static unsigned char large_initialised[300001] = {[0] = 1, [300000] = 2};
static long *points_at_static = &static_initialised;
static char text[] = "initialised";
static _Thread_local long of_the_thread = 5;
static long table[4][8];

/* Puts a value that names this PE to the next one, gets it back, and makes an atomic on it. Collective. */
static void check_symmetric(long *object)
{
    barrier();
    const long before = *object;
    barrier();
    CHECK_EQ(shmem_addr_accessible(object, next_pe()), 1);
    CHECK_EQ(shmem_long_g(object, next_pe()), before);
    barrier();
    shmem_long_p(object, 500 + me(), next_pe());
    barrier();
    CHECK_EQ(*object, 500 + previous_pe());
    CHECK_EQ(shmem_long_g(object, next_pe()), 500 + me());
    barrier();
    CHECK_EQ(shmem_long_atomic_fetch_add(object, 1000, next_pe()), 500 + me());
    barrier();
    CHECK_EQ(*object, 1500 + previous_pe());
    *object = before;
    barrier();
}

static long *in_function(void)
{
    static long object = 77;
    return &object;
}

CASE(globals, 3, "global objects are symmetric, initialised or not", .crowded = 5)
{
    CHECK_EQ(global_initialised, 1001);
    CHECK_EQ(global_zero, 0);
    check_symmetric(&global_initialised);
    check_symmetric(&global_zero);
}

CASE(statics, 3, "static objects are symmetric, initialised or not, and those of a function", .crowded = 5)
{
    static long here;
    CHECK_EQ(static_initialised, 1002);
    CHECK_EQ(static_zero, 0);
    check_symmetric(&static_initialised);
    check_symmetric(&static_zero);
    check_symmetric(&here);
    check_symmetric(in_function());
}

CASE(initial_values_survive, 2, "initialisers hold after shmem_init: numbers, text, pointers, the ends of arrays")
{
    CHECK_EQ(constant, 1003);
    CHECK_OP(record.tag, ==, 'r');
    CHECK_OP(record.value, ==, 2.5);
    CHECK_OP(record.list[4], ==, 5);
    CHECK_OP(large_initialised[0], ==, 1);
    CHECK_OP(large_initialised[300000], ==, 2);
    CHECK_OP(large_initialised[150000], ==, 0);
    CHECK_PTR(points_at_static, &static_initialised);
    CHECK_TEXT(text, "initialised");
    CHECK_BYTES(large_zero, sizeof large_zero, 0);
}

CASE(neighbours_stay, 2, "a put into one object leaves its neighbours alone")
{
    if (me() == 0) shmem_long_p(&beside_constant[1], 22, 1);
    barrier();
    CHECK_EQ(beside_constant[0], 1);
    CHECK_EQ(beside_constant[1], me() == 1 ? 22 : 2);
    CHECK_EQ(beside_constant[2], 3);
    CHECK_EQ(constant, 1003);
}

CASE(members_and_elements, 2, "members of structures and elements of arrays are symmetric")
{
    if (me() == 0) {
        shmem_double_p(&record.value, 7.25, 1);
        shmem_int_p(&record.list[3], 44, 1);
        shmem_long_p(&table[2][5], 25, 1);
    }
    barrier();
    CHECK_NUMBER(record.value, me() == 1 ? 7.25 : 2.5);
    CHECK_EQ(record.list[3], me() == 1 ? 44 : 4);
    CHECK_EQ(record.list[4], 5);
    CHECK_EQ(table[2][5], me() == 1 ? 25 : 0);
    CHECK_EQ(table[2][4] + table[2][6], 0);
}

CASE(large_objects, 2, "objects of megabytes can be put and got whole")
{
    unsigned char *from = local(sizeof large_zero);
    pattern_fill(from, sizeof large_zero, (unsigned)me());
    shmem_putmem(large_zero, from, sizeof large_zero, next_pe());
    shmem_putmem(large_initialised, from, sizeof large_initialised, next_pe());
    barrier();
    CHECK_PATTERN(large_zero, sizeof large_zero, (unsigned)previous_pe());
    CHECK_PATTERN(large_initialised, sizeof large_initialised, (unsigned)previous_pe());
    memset(from, 0, sizeof large_zero);
    shmem_getmem(from, large_zero, sizeof large_zero, next_pe());
    CHECK_PATTERN(from, sizeof large_zero, (unsigned)me());
}

CASE(private_source, 2, "constants, text literals, the stack and private memory may be the local side of a transfer")
{
    static long to[4];
    long on_stack = 9, *allocated = local(sizeof *allocated);
    char literal[12];
    *allocated = 10;
    shmem_long_put(&to[0], &constant, 1, next_pe());
    shmem_long_put(&to[1], &on_stack, 1, next_pe());
    shmem_long_put(&to[2], allocated, 1, next_pe());
    barrier();
    shmem_putmem(text, "from a text", 12, next_pe());
    barrier();
    CHECK_OP(to[0], ==, 1003);
    CHECK_OP(to[1], ==, 9);
    CHECK_OP(to[2], ==, 10);
    CHECK_OP(to[3], ==, 0);
    CHECK_TEXT(text, "from a text");
    shmem_getmem(literal, text, 12, next_pe());
    CHECK_TEXT(literal, "from a text");
}

CASE(what_is_not_symmetric, 2, "the stack, private memory and a thread's objects are not symmetric")
{
    long on_stack = 0;
    CHECK_EQ(shmem_addr_accessible(&on_stack, next_pe()), 0);
    CHECK_EQ(shmem_addr_accessible(local(8), next_pe()), 0);
    CHECK_EQ(shmem_addr_accessible(&of_the_thread, next_pe()), 0);
    CHECK_EQ(shmem_addr_accessible(NULL, next_pe()), 0);
    CHECK_EQ(shmem_addr_accessible(&global_zero, next_pe()), 1);
    CHECK_EQ(shmem_addr_accessible(symmetric(8), next_pe()), 1);
}

CASE(stores_are_seen_by_peers, 2, "peers get the program's latest store to a static object")
{
    static long object;
    for (long i = 0; i < 200; i++) {
        object = i * 10 + me();
        shmem_sync_all();
        CHECK_EQ(shmem_long_g(&object, next_pe()), i * 10 + next_pe());
        shmem_sync_all();
    }
}

CASE(waiting_on_a_static, 2, "a static object can be waited on, and signalled")
{
    static long flag;
    for (long i = 1; i <= 200; i++) {
        if (me() == i % 2) shmem_long_p(&flag, i, next_pe());
        else shmem_long_wait_until(&flag, SHMEM_CMP_EQ, i);
    }
    barrier();
}

CASE(pointers_are_local, 3, "each PE's pointers to its own objects stay right, wherever the program was loaded")
{
    CHECK_EQ(*points_at_static, 1002);
    check_symmetric(points_at_static);
    barrier();
    *points_at_static = 40 + me();
    barrier();
    CHECK_EQ(static_initialised, 40 + me());
    CHECK_EQ(shmem_long_g(&static_initialised, next_pe()), 40 + next_pe());
}

/* ---- The program besides -------------------------------------------------------------------------------- */

static void communicate(void)
{
    static long round;
    const long now = ++round;
    static long object;
    shmem_long_p(&object, now * 10 + me(), next_pe());
    long *word = symmetric(sizeof *word);
    shmem_long_p(word, now * 10 + me(), next_pe());
    barrier();
    CHECK_EQ(object, now * 10 + previous_pe());
    CHECK_EQ(*word, now * 10 + previous_pe());
    barrier();
}

CASE(fork_in_the_program, 2, "a child of fork that ends by _exit leaves its parent's communication undisturbed")
{
    communicate();
    for (int i = 0; i < 5; i++) {
        const pid_t child = fork();
        if (child == 0) _exit(i);
        CHECK_OP(child, >, 0);
        communicate(); /* while the child may still run */
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status));
        CHECK_OP(WEXITSTATUS(status), ==, i);
        communicate();
    }
}

CASE(child_has_its_own_copy, 2, "a child's stores into static objects are not visible to its parent")
{
    static long object = 5;
    static unsigned char page[8192];
    const pid_t child = fork();
    if (child == 0) {
        object = 6;
        memset(page, 0xcc, sizeof page);
        _exit(object == 6 && page[4000] == 0xcc ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_OP(WEXITSTATUS(status), ==, 0);
    CHECK_EQ(object, 5);
    CHECK_BYTES(page, sizeof page, 0);
    communicate();
}

CASE(child_sees_what_was_there, 2, "a child of fork finds static objects unchanged, also values put by a peer")
{
    static long object;
    shmem_long_p(&object, 70 + me(), next_pe());
    barrier();
    const pid_t child = fork();
    if (child == 0) _exit(object == 70 + previous_pe() && static_initialised == 1002 ? 0 : 1);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_OP(WEXITSTATUS(status), ==, 0);
    communicate();
}

enum { PAGE = 4096 };
static unsigned char pages[8 * PAGE] __attribute__((aligned(PAGE)));
static sigjmp_buf fault;

static void on_fault(int signal)
{
    (void)signal;
    siglongjmp(fault, 1);
}

static bool can_write(volatile unsigned char *at)
{
    if (sigsetjmp(fault, 1)) return false;
    *at = *at;
    return true;
}

static int result_of(unsigned char *function)
{
    if (sigsetjmp(fault, 1)) return -1;
    return ((int (*)(void))(void *)function)();
}

/* The number of the first page that is not as below; 0 if all are. */
static int page_that_differs(bool can_execute)
{
    if (can_write(pages) || pages[0] != 1) return 1;
    if (can_write(pages + PAGE)) return 2;
    if (!can_write(pages + 2 * PAGE) || pages[2 * PAGE] != 1) return 3;
    if (can_execute && result_of(pages + 3 * PAGE) != 7) return 4;
    return can_write(pages + 4 * PAGE) && pages[4 * PAGE] == 9 && pages[5 * PAGE] == 1 ? 0 : 5;
}

CASE(child_has_the_protections, 2, "pages of static objects have the parent's protections in a child, and in its child")
{
    struct sigaction before, action = {.sa_handler = on_fault};
    const unsigned char seven[] = {0xb8, 7, 0, 0, 0, 0xc3};
    const int both = PROT_READ | PROT_WRITE;
    memset(pages, 1, sizeof pages);
    memcpy(pages + 3 * PAGE, seven, sizeof seven);
    barrier();
    sigaction(SIGSEGV, &action, &before);
    CHECK_EQ(mprotect(pages, PAGE, PROT_READ), 0);
    CHECK_EQ(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    bool can_execute = mprotect(pages + 3 * PAGE, PAGE, PROT_READ | PROT_EXEC) == 0;
#ifndef __x86_64__
    can_execute = false;
#endif
    CHECK_EQ(mmap(pages + 4 * PAGE, PAGE, both, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED, 0);
    pages[4 * PAGE] = 9;
    CHECK_EQ(page_that_differs(can_execute), 0);
    const pid_t child = fork();
    if (child == 0) {
        const int differs = page_that_differs(can_execute);
        const pid_t grandchild = differs ? -1 : fork();
        if (grandchild == 0) _exit(page_that_differs(can_execute));
        int status = 0;
        waitpid(grandchild, &status, 0);
        _exit(differs ? differs : 10 * WEXITSTATUS(status));
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_OP(WEXITSTATUS(status), ==, 0);
    CHECK_EQ(mprotect(pages, sizeof pages, both), 0);
    CHECK_EQ(pages[PAGE], 1);
    sigaction(SIGSEGV, &before, NULL);
    communicate();
}

CASE(system_and_pipes, 2, "system and popen work in the program, and communication continues afterwards")
{
    communicate();
    CHECK_EQ(system("true"), 0);
    CHECK_EQ(WEXITSTATUS(system("exit 7")), 7);
    char line[16] = "";
    FILE *pipe = popen("echo through", "r");
    CHECK_OP(pipe, !=, NULL);
    CHECK_OP(fgets(line, sizeof line, pipe), !=, NULL);
    CHECK_EQ(pclose(pipe), 0);
    CHECK_TEXT(line, "through\n");
    communicate();
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int handed_over;

static void *hand_over(void *unused)
{
    pthread_mutex_lock(&mutex);
    handed_over = 1;
    of_the_thread = 6;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return unused;
}

CASE(threads_of_the_program, 2, "mutexes and conditions in static objects, and threads' own objects, work as usual")
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, hand_over, NULL), 0);
    pthread_mutex_lock(&mutex);
    while (!handed_over) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(of_the_thread, 5);
    communicate();
}

static atomic_long ticks[1024];
static atomic_bool enough;

/* Stores all over an array without pause, and counts its stores. */
static void *tick(void *result)
{
    long count = 0;
    for (; !atomic_load(&enough); count++) atomic_fetch_add(&ticks[count % 1024], 1);
    *(long *)result = count;
    return NULL;
}

CASE(threads_that_run_already, 2, "stores of other threads into static objects during shmem_init are not lost",
     .flags = OWN_INIT)
{
    pthread_t thread;
    long count = 0, sum = 0;
    CHECK_EQ(pthread_create(&thread, NULL, tick, &count), 0);
    sleep_ms(2);
    shmem_init();
    joined();
    static long object;
    shmem_long_p(&object, 60 + me(), next_pe());
    shmem_barrier_all();
    CHECK_EQ(object, 60 + previous_pe());
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < 1024; i++) sum += ticks[i];
    CHECK_EQ(sum, count);
    CHECK_EQ(shmem_long_g((long *)&ticks[0], me()), ticks[0]);
    left();
    shmem_finalize();
}

#ifdef SELVEDGE_SHMEM
CASE(counting_where_data_cannot_move, 3,
     "with threads before shmem_init, counting puts and gets of static objects and of the heap share their counter",
     .flags = OWN_INIT)
{
    pthread_t thread;
    long count = 0;
    CHECK_EQ(pthread_create(&thread, NULL, tick, &count), 0);
    shmem_init();
    joined();
    static long object;
    long *block = shmem_malloc(sizeof *block);
    shmem_ct_t ct;
    shmem_ct_create(&ct);
    for (long i = 0; i < 50; i++) {
        shmem_long_p_ct(ct, &object, i, next_pe());
        shmem_long_p_ct(ct, block, -i, next_pe());
        shmem_ct_wait(ct, 2 * (i + 1));
        CHECK_EQ(object, i);
        CHECK_EQ(*block, -i);
        shmem_barrier_all();
    }
    long got[2];
    shmem_long_get_ct(ct, &got[0], &object, 1, next_pe());
    shmem_long_get_ct(ct, &got[1], block, 1, next_pe());
    CHECK_EQ(got[0], 49);
    CHECK_EQ(got[1], -49);
    shmem_ct_wait(ct, 102);
    shmem_barrier_all();
    CHECK_EQ(shmem_ct_get(ct), 102);
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    shmem_ct_free(&ct);
    left();
    shmem_finalize();
}
#endif

CASE(children_of_children, 2, "a child's child has its own copy, too; and so has a child after shmem_finalize",
     .flags = OWN_INIT)
{
    static long object = 5;
    shmem_init();
    joined();
    for (int after = 0; after < 2; after++) {
        const pid_t child = fork();
        if (child == 0) {
            object = 6;
            const pid_t grandchild = fork();
            if (grandchild == 0) {
                object++;
                _exit(object == 7 ? 0 : 1);
            }
            int status;
            _exit(waitpid(grandchild, &status, 0) == grandchild && status == 0 && object == 6 ? 0 : 1);
        }
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
        CHECK_EQ(object, 5);
        if (after == 0) {
            left();
            shmem_finalize();
        }
    }
}

static int constructed;
__attribute__((constructor)) static void at_start(void) { constructed = 42; }

CASE(what_constructors_stored, 2, "values stored before shmem_init are kept, and are symmetric")
{
    CHECK_EQ(constructed, 42);
    CHECK_EQ(shmem_int_g(&constructed, next_pe()), 42);
}
