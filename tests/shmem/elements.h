/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Elements of every type that the block routines move, as rows of a table: their size in bytes, and functions to make one
 * from a number and to compare two. Values go through the type, because a long double has padding.
 */
#ifndef SHMEM_TESTS_ELEMENTS_H
#define SHMEM_TESTS_ELEMENTS_H

#include "suite.h"
#include "types.h"

struct element {
    const char *name;
    size_t bytes;
    void (*set)(void *at, uint64_t value);
    bool (*is)(const void *at, uint64_t value);
};

#define ELEMENT_OF_TYPE(NAME, TYPE)                                                                          \
    static inline void element_set_##NAME(void *at, uint64_t value) { *(TYPE *)at = (TYPE)mix(value); }       \
    static inline bool element_is_##NAME(const void *at, uint64_t value)                                      \
    {                                                                                                         \
        return *(const TYPE *)at == (TYPE)mix(value);                                                         \
    }
RMA_TYPES(ELEMENT_OF_TYPE)

static inline void element_set_bits128(void *at, uint64_t value)
{
    struct bits128 *bits = (struct bits128 *)at;
    bits->half[0] = mix(value);
    bits->half[1] = mix(~value);
}
static inline bool element_is_bits128(const void *at, uint64_t value)
{
    const struct bits128 *bits = (const struct bits128 *)at;
    return bits->half[0] == mix(value) && bits->half[1] == mix(~value);
}

/* The row of a type, by its name in the interface; for the routines by size, the row of the unsigned type. */
#define ELEMENT(NAME, TYPE) {#NAME, sizeof(TYPE), element_set_##NAME, element_is_##NAME}
#define ELEMENT_8 {"8", 1, element_set_uint8, element_is_uint8}
#define ELEMENT_16 {"16", 2, element_set_uint16, element_is_uint16}
#define ELEMENT_32 {"32", 4, element_set_uint32, element_is_uint32}
#define ELEMENT_64 {"64", 8, element_set_uint64, element_is_uint64}
#define ELEMENT_128 {"128", 16, element_set_bits128, element_is_bits128}
#define ELEMENT_MEM {"mem", 1, element_set_uint8, element_is_uint8}

static inline void *element_at(const struct element *e, const void *start, size_t index)
{
    return (unsigned char *)(uintptr_t)start + index * e->bytes;
}

/* `count` elements of `seed`; element i is the same for every count. */
static inline uint64_t element_value(unsigned seed, size_t index) { return ((uint64_t)seed << 32) + index; }

static inline void elements_fill(const struct element *e, void *start, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) e->set(element_at(e, start, i), element_value(seed, i));
}

static inline void check_element_at(const char *file, int line, const struct element *e, const void *start, size_t index,
                                    unsigned seed, size_t seed_index)
{
    if (!e->is(element_at(e, start, index), element_value(seed, seed_index)))
        fail_at(file, line, "element %zu of type %s is not element %zu of seed %u", index, e->name, seed_index, seed);
}

static inline void check_elements_at(const char *file, int line, const struct element *e, const void *start, size_t count,
                                     unsigned seed)
{
    for (size_t i = 0; i < count; i++) check_element_at(file, line, e, start, i, seed, i);
}

/* Check for elements_fill(e, start, count, seed), and for one element: `index` equals element `seed_index` of it. */
#define CHECK_ELEMENTS(e, start, count, seed) check_elements_at(__FILE__, __LINE__, e, start, count, seed)
#define CHECK_ELEMENT(e, start, index, seed, seed_index) \
    check_element_at(__FILE__, __LINE__, e, start, index, seed, seed_index)
#define CHECK_ZERO(e, start, index, count) CHECK_BYTES(element_at(e, start, index), (count) * (e)->bytes, 0)

#endif
