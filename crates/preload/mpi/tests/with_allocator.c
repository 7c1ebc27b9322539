/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program whose allocator is `allocator.c`, linked or preloaded, with libselvedge_mpi_preload.so before the C library. All of its blocks
 * must be that allocator's, and none may be shared memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            _exit(1); \
        } \
    } while (0)

struct range {
    uint64_t base, bytes, lost;
    int descriptor;
};

extern void selvedge_shared_memory(struct range *, size_t) __attribute__((weak));
extern int other_owns(const void *) __attribute__((weak));
extern void *operator_new(size_t) __asm__("_Znwm") __attribute__((weak));
extern void operator_delete(void *) __asm__("_ZdlPv") __attribute__((weak));

static volatile char data[64 << 10];

static void owned(void *block, size_t bytes, size_t align)
{
    CHECK(block && other_owns(block) && (uintptr_t)block % align == 0 && malloc_usable_size(block) >= bytes);
    memset(block, 7, bytes);
}

static void *functions(void *none)
{
    for (size_t bytes = 1; bytes <= 1 << 20; bytes *= 8) {
        void *block = malloc(bytes);
        owned(block, bytes, 1);
        block = realloc(block, 2 * bytes);
        owned(block, 2 * bytes, 1);
        block = reallocarray(block, 3, bytes);
        owned(block, 3 * bytes, 1);
        CHECK(*(char *)block == 7);
        free(block);
        block = calloc(2, bytes);
        CHECK(*(char *)block == 0);
        owned(block, 2 * bytes, 1);
        free(block);
        CHECK(posix_memalign(&block, 256, bytes) == 0);
        owned(block, bytes, 256);
        free(block);
        block = aligned_alloc(64, bytes * 64);
        owned(block, bytes * 64, 64);
        block = realloc(block, bytes);
        free(block);
        block = memalign(8192, bytes);
        owned(block, bytes, 8192);
        operator_delete(block);
        block = valloc(bytes);
        owned(block, bytes, 4096);
        free(block);
        block = operator_new(bytes);
        owned(block, bytes, 1);
        operator_delete(block);
        block = operator_new(bytes);
        free(block);
        block = malloc(bytes);
        operator_delete(block);
    }
    volatile size_t huge = SIZE_MAX / 2;
    CHECK(reallocarray(NULL, huge, 4) == NULL && errno == ENOMEM);
    CHECK(malloc(huge) == NULL && malloc_usable_size(NULL) == 0);
    free(NULL);
    return none;
}

int main(void)
{
    CHECK(selvedge_shared_memory && other_owns && operator_new && operator_delete);
    functions(NULL);
    char *text = strdup("by the C library");
    owned(text, 5, 1);
    free(text);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, functions, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(!dlopen("no such library", RTLD_NOW) && dlerror());
    struct range ranges[2] = { 0 };
    selvedge_shared_memory(ranges, 2);
    selvedge_shared_memory(ranges, 2);
    data[0] = 1;
    CHECK(ranges[1].bytes == 0 && "static data at most");
    pid_t child = fork();
    if (child == 0) {
        functions(NULL);
        _exit(3);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    return 0;
}
