/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program that runs with libselvedge_mpi_preload.so before the C library. It checks that the functions of malloc do what their
 * standards require, and checks threads that share blocks, static data, and forked children. Its argument is the number of memory
 * ranges that the library must share. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            _exit(1); \
        } \
    } while (0)

enum { KIB = 1024, MIB = 1024 * KIB };

struct range {
    uint64_t base, bytes, lost;
    int descriptor;
};

extern void selvedge_shared_memory(struct range *, size_t) __attribute__((weak));

static unsigned char zeroes[8 * MIB];
static unsigned char given[MIB] = { 1, 2, 3, [MIB - 1] = 4 };
static unsigned char *const at_start = zeroes + 5;

static int all(const unsigned char *block, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != value)
            return 0;
    return 1;
}

static void functions(void)
{
    unsigned char *block = malloc(MIB);
    CHECK(block && malloc_usable_size(block) >= MIB);
    memset(block, 1, MIB);
    free(block);
    block = calloc(4, MIB / 4);
    CHECK(block && all(block, 0, MIB));
    memset(block, 2, MIB);
    block = realloc(block, 3 * MIB);
    CHECK(block && all(block, 2, MIB));
    block = realloc(block, 100);
    CHECK(block && all(block, 2, 100));
    block = realloc(block, 64 * KIB);
    CHECK(block && all(block, 2, 100));
    errno = 7;
    free(block);
    CHECK(errno == 7);
    volatile size_t huge = SIZE_MAX / 2;
    CHECK(calloc(huge, 4) == NULL && errno == ENOMEM);
    CHECK(reallocarray(NULL, huge, 4) == NULL);
    CHECK(malloc(huge) == NULL && errno == ENOMEM);
    void *aligned = NULL;
    CHECK(posix_memalign(&aligned, 2 * MIB, 5 * MIB) == 0 && (uintptr_t)aligned % (2 * MIB) == 0);
    free(aligned);
    CHECK(posix_memalign(&aligned, 24, 5 * MIB) == EINVAL);
    aligned = aligned_alloc(64 * KIB, 64 * KIB);
    CHECK(aligned && (uintptr_t)aligned % (64 * KIB) == 0);
    free(aligned);
    CHECK(realloc(malloc(MIB), 0) == NULL);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    for (int i = 0; i < 1000; i++)
        CHECK(sched_yield() == 0);
}

static void *churn(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    unsigned char *blocks[16] = { 0 };
    size_t sizes[16] = { 0 };
    for (int i = 0; i < 1000; i++) {
        unsigned at = rand_r(&state) % 16;
        int value = (int)(at + (uintptr_t)seed * 16) & 0xff;
        if (blocks[at])
            CHECK(blocks[at][0] == value && blocks[at][sizes[at] - 1] == value);
        unsigned kind = rand_r(&state) % 8;
        size_t bytes = 1 + (size_t)rand_r(&state) % (kind < 4 ? 12 * KIB : kind < 7 ? 200 * KIB : MIB);
        if (rand_r(&state) % 2) {
            free(blocks[at]);
            blocks[at] = malloc(bytes);
        } else {
            blocks[at] = realloc(blocks[at], bytes);
        }
        CHECK(blocks[at]);
        sizes[at] = bytes;
        blocks[at][0] = blocks[at][bytes - 1] = (unsigned char)value;
    }
    for (int at = 0; at < 16; at++)
        free(blocks[at]);
    return NULL;
}

static void threads(void)
{
    pthread_t all_of_them[4];
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&all_of_them[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(all_of_them[i], NULL);
}

/* Checks that a peer would see these bytes in the file of one of the ranges. */
static void seen(const struct range *ranges, int count, const unsigned char *bytes, size_t length)
{
    for (int i = 0; i < count; i++) {
        uint64_t offset = (uint64_t)(uintptr_t)bytes - ranges[i].base;
        if (offset >= ranges[i].bytes)
            continue;
        unsigned char *copy = malloc(length);
        CHECK(pread(ranges[i].descriptor, copy, length, (off_t)offset) == (ssize_t)length);
        CHECK(memcmp(copy, bytes, length) == 0);
        free(copy);
        return;
    }
    CHECK(!"in a range");
}

static void memory(int count)
{
    struct range ranges[3] = { 0 };
    selvedge_shared_memory(ranges, 2);
    for (int i = 0; i < 3; i++)
        CHECK((ranges[i].bytes != 0) == (i < count));
    CHECK(at_start == zeroes + 5 && given[2] == 3 && given[MIB - 1] == 4);
    CHECK(all(zeroes, 0, sizeof zeroes) && all(given + 3, 0, MIB - 4));
    if (count == 0)
        return;
    unsigned char *block = malloc(MIB);
    memset(block, 7, MIB);
    memset(zeroes + 4 * MIB, 8, 100);
    given[3] = 5;
    seen(ranges, count, block, MIB);
    seen(ranges, count, zeroes, sizeof zeroes);
    seen(ranges, count, given, sizeof given);
    memset(zeroes, 0, sizeof zeroes);
    given[3] = 0;
    free(block);
}

static void children(void)
{
    unsigned char *block = malloc(8 * MIB);
    memset(block, 3, 8 * MIB);
    memset(zeroes + MIB, 6, MIB);
    unsigned char *untouched = malloc(MIB);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(all(block, 3, 8 * MIB) && all(zeroes + MIB, 6, MIB) && all(zeroes, 0, MIB) && given[1] == 2);
            memset(block, 4, 8 * MIB);
            memset(zeroes, 9, sizeof zeroes);
            memset(untouched, 7, MIB);
            given[1] = 9;
            struct range ranges[2] = { 0 };
            selvedge_shared_memory(ranges, 2);
            CHECK(ranges[0].bytes == 0 && ranges[1].bytes == 0);
            unsigned char *own = malloc(MIB);
            memset(own, 5, MIB);
            block = realloc(block, 9 * MIB);
            CHECK(all(block, 4, 8 * MIB));
            free(block);
            free(own);
            pid_t grandchild = fork();
            if (grandchild == 0) {
                CHECK(all(zeroes, 9, sizeof zeroes) && given[1] == 9 && all(untouched, 7, MIB));
                zeroes[0] = untouched[0] = 1;
                _exit(3);
            }
            int status;
            CHECK(waitpid(grandchild, &status, 0) == grandchild && WEXITSTATUS(status) == 3);
            CHECK(zeroes[0] == 9 && untouched[0] == 7);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(all(block, 3, 8 * MIB) && all(zeroes + MIB, 6, MIB) && all(zeroes, 0, MIB) && given[1] == 2);
    }
    CHECK(system("true") == 0);
    free(block);
    free(untouched);
}

/* Runs `body` in a child, whose checks must succeed. */
static void in_child(void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static sigjmp_buf fault;
static unsigned char *guard, *read_only, *code, *replaced, *unmapped, *not_in_children;
static unsigned char static_pages[8 * 4096] __attribute__((aligned(4096)));

static void on_fault(int signal)
{
    (void)signal;
    siglongjmp(fault, 1);
}

static int can_read(volatile unsigned char *at)
{
    if (sigsetjmp(fault, 1))
        return 0;
    (void)*at;
    return 1;
}

static int can_write(volatile unsigned char *at)
{
    if (sigsetjmp(fault, 1))
        return 0;
    *at = *at;
    return 1;
}

static int result_of(unsigned char *function)
{
    if (sigsetjmp(fault, 1))
        return -1;
    return ((int (*)(void))(void *)function)();
}

static void protected(void)
{
    CHECK(!can_read(guard) && can_write(guard + 4096) && guard[4096] == 1);
    CHECK(can_read(read_only + 4096) && !can_write(read_only + 4096) && read_only[4096] == 2 && can_write(read_only));
    CHECK(!can_write(static_pages) && static_pages[5] == 3 && can_write(static_pages + 4096));
    CHECK(!can_read(static_pages + 2 * 4096));
#ifdef __x86_64__
    CHECK(result_of(code) == 7 && result_of(static_pages + 4 * 4096) == 7);
#endif
    CHECK(can_write(replaced + 4096) && replaced[4096] == 9 && replaced[0] == 5 && replaced[2 * 4096] == 5);
    CHECK(!can_read(unmapped + 4096) && unmapped[0] == 6);
}

static void protected_in_child(void)
{
    protected();
    CHECK(!can_read(not_in_children));
    in_child(protected);
}

/* A child has the protections of its parent's pages, and what the program has mapped there. */
static void protections(void)
{
    struct sigaction before, action = { .sa_handler = on_fault };
    sigaction(SIGSEGV, &action, &before);
    unsigned char **blocks[] = { &guard, &read_only, &code, &replaced, &unmapped, &not_in_children };
    for (int i = 0; i < 6; i++) {
        CHECK(posix_memalign((void **)blocks[i], 4096, 64 * KIB) == 0);
        memset(*blocks[i], i + 1, 64 * KIB);
    }
    const unsigned char seven[] = { 0xb8, 7, 0, 0, 0, 0xc3 };
    memcpy(code, seven, sizeof seven);
    memset(static_pages, 3, sizeof static_pages);
    memcpy(static_pages + 4 * 4096, seven, sizeof seven);
    replaced[0] = replaced[2 * 4096] = 5;
    unmapped[0] = 6;
    CHECK(mprotect(guard, 4096, PROT_NONE) == 0 && mprotect(read_only + 4096, 8192, PROT_READ) == 0);
    CHECK(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
    CHECK(mprotect(static_pages, 4096, PROT_READ) == 0 && mprotect(static_pages + 2 * 4096, 8192, PROT_NONE) == 0);
    CHECK(mprotect(static_pages + 4 * 4096, 4096, PROT_READ | PROT_EXEC) == 0);
    CHECK(mmap(replaced + 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
    replaced[4096] = 9;
    CHECK(munmap(unmapped + 4096, 4096) == 0 && madvise(not_in_children, 4096, MADV_DONTFORK) == 0);
    protected();
    in_child(protected_in_child);
    CHECK(mprotect(guard, 4096, PROT_READ | PROT_WRITE) == 0 && mprotect(read_only, 64 * KIB, PROT_READ | PROT_WRITE) == 0);
    CHECK(mprotect(static_pages, sizeof static_pages, PROT_READ | PROT_WRITE) == 0 && static_pages[2 * 4096] == 3);
    memset(static_pages, 0, sizeof static_pages);
    CHECK(madvise(not_in_children, 4096, MADV_DOFORK) == 0);
    free(guard);
    free(read_only);
    free(not_in_children);
    sigaction(SIGSEGV, &before, NULL);
}

static long resident(void)
{
    long size, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &size, &pages) == 2);
    fclose(file);
    return pages;
}

static unsigned char *advised;

static void wiped(void)
{
    CHECK(all(advised, 0, MIB) && all(advised + MIB, 6, 4096) && all(static_pages + 4096, 0, 4096));
    memset(advised, 1, MIB);
}

static void wiped_twice(void)
{
    wiped();
    in_child(wiped);
}

static void kept(void)
{
    CHECK(all(advised, 7, 8192));
}

/* Memory of malloc is private and anonymous: madvise(2) says what it does. */
static void advice(void)
{
    int (*const by_function)(void *, size_t, int) = madvise;
    advised = NULL;
    CHECK(posix_memalign((void **)&advised, 2 * MIB, 32 * MIB) == 0);
    for (int way = 0; way < 3; way++) {
        memset(advised, 7, 32 * MIB);
        long before = resident();
        errno = 5;
        CHECK((way == 0 ? by_function(advised, 16 * MIB, MADV_DONTNEED)
               : way == 1 ? (int)syscall(SYS_madvise, advised, 16 * MIB, MADV_DONTNEED)
                          : by_function(advised, 16 * MIB - 1, MADV_DONTNEED)) == 0);
        CHECK(errno == 5 && resident() < before - 3000);
        CHECK(all(advised, 0, 16 * MIB) && all(advised + 16 * MIB, 7, 16 * MIB));
    }
    memset(advised, 7, MIB);
    CHECK(madvise(advised, MIB, MADV_FREE) == 0);
    memset(advised, 8, MIB);
    CHECK(all(advised, 8, MIB));
    CHECK(mprotect(advised, MIB, PROT_NONE) == 0 && madvise(advised, MIB, MADV_DONTNEED) == 0);
    CHECK(mprotect(advised, MIB, PROT_READ | PROT_WRITE) == 0 && all(advised, 0, MIB));
    CHECK(madvise(advised + 1, MIB, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(madvise(advised, MIB, 12345) == -1 && errno == EINVAL);
    CHECK(madvise(advised, MIB, MADV_REMOVE) == -1 && errno == EINVAL);
    memset(static_pages, 4, sizeof static_pages);
    CHECK(madvise(static_pages, 4096, MADV_DONTNEED) == 0);
    CHECK(all(static_pages, 0, 4096) && all(static_pages + 4096, 4, 4096));
    CHECK(madvise(advised, MIB, MADV_WIPEONFORK) == 0 && madvise(static_pages + 4096, 4096, MADV_WIPEONFORK) == 0);
    memset(advised, 5, MIB);
    memset(advised + MIB, 6, 4096);
    in_child(wiped_twice);
    CHECK(all(advised, 5, MIB) && all(static_pages + 4096, 4, 4096));
    memset(advised, 7, MIB);
    CHECK(madvise(advised, 8192, MADV_KEEPONFORK) == 0 && madvise(static_pages + 4096, 4096, MADV_KEEPONFORK) == 0);
    in_child(kept);
    CHECK(madvise(advised, MIB, MADV_WIPEONFORK) == 0);
    free(advised);
    CHECK(posix_memalign((void **)&advised, 2 * MIB, 32 * MIB) == 0);
    memset(advised, 7, MIB);
    in_child(kept);
    void *own = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(own, 1, MIB);
    CHECK(madvise(own, MIB, MADV_DONTNEED) == 0 && all(own, 0, MIB) && munmap(own, MIB) == 0);
    memset(static_pages, 0, sizeof static_pages);
    free(advised);
}

static void files(void)
{
    FILE *(*const open[])(const char *, const char *) = { fopen, fopen64 };
    for (int i = 0; i < 2; i++) {
        errno = 0;
        CHECK(!open[i]("/proc/kallsyms", "r") && errno == ENOENT);
        FILE *file = open[i]("/proc/self/stat", "r");
        CHECK(file && fgetc(file) != EOF);
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 && selvedge_shared_memory);
    memory(atoi(argv[1]));
    functions();
    threads();
    children();
    protections();
    advice();
    files();
    return 0;
}
