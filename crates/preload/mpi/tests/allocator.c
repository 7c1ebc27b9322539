/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Another allocator, as a library: it replaces the functions of malloc and C++'s operators. As in jemalloc, `operator new` takes memory
 * without malloc, and `operator delete` calls free. Freeing a block that is not its own ends the program, and so does, as in Scudo,
 * realloc of a block of memalign. Nothing is reused. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AREA_BYTES = 1 << 30, OWN = 0x5e1f };

static unsigned char *area;
static size_t used;

struct head {
    size_t bytes;
    unsigned is_own, is_of_memalign;
};

static void *take(size_t bytes, size_t align)
{
    if (!__atomic_load_n(&area, __ATOMIC_ACQUIRE)) {
        void *made = mmap(NULL, AREA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        unsigned char *none = NULL;
        if (made == MAP_FAILED || !__atomic_compare_exchange_n(&area, &none, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            _exit(98);
    }
    if (bytes > AREA_BYTES / 2) {
        errno = ENOMEM;
        return NULL;
    }
    align = align < 16 ? 16 : align;
    size_t at = __atomic_fetch_add(&used, bytes + sizeof(struct head) + 2 * align, __ATOMIC_RELAXED);
    at = (at + sizeof(struct head) + align - 1) / align * align;
    if (at + bytes > AREA_BYTES)
        _exit(98);
    struct head *head = (struct head *)(area + at) - 1;
    *head = (struct head){ bytes, OWN, 0 };
    return head + 1;
}

int other_owns(const void *block)
{
    return (uintptr_t)block - (uintptr_t)area < AREA_BYTES && ((const struct head *)block)[-1].is_own == OWN;
}

static size_t checked_bytes(const char *function, const void *block)
{
    if (!other_owns(block)) {
        write(2, function, strlen(function));
        write(2, ": not a block of this allocator\n", 32);
        _exit(99);
    }
    return ((const struct head *)block)[-1].bytes;
}

void *malloc(size_t bytes)
{
    return take(bytes, 16);
}

void *calloc(size_t count, size_t bytes)
{
    return take(count * bytes, 16);
}

void free(void *block)
{
    if (block) {
        checked_bytes("free", block);
        ((struct head *)block)[-1].is_own = 0;
    }
}

void *realloc(void *block, size_t bytes)
{
    void *to = take(bytes, 16);
    if (block && to) {
        size_t held = checked_bytes("realloc", block);
        if (((struct head *)block)[-1].is_of_memalign)
            _exit(97);
        memcpy(to, block, held < bytes ? held : bytes);
        free(block);
    }
    return to;
}

void *memalign(size_t align, size_t bytes)
{
    void *made = take(bytes, align);
    if (made)
        ((struct head *)made)[-1].is_of_memalign = 1;
    return made;
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return take(bytes, align);
}

int posix_memalign(void **block, size_t align, size_t bytes)
{
    *block = take(bytes, align);
    return *block ? 0 : ENOMEM;
}

size_t malloc_usable_size(void *block)
{
    return block ? checked_bytes("malloc_usable_size", block) : 0;
}

void *operator_new(size_t) __asm__("_Znwm");
void operator_delete(void *) __asm__("_ZdlPv");

void *operator_new(size_t bytes)
{
    return take(bytes, 16);
}

void operator_delete(void *block)
{
    free(block);
}
