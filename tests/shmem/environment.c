/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Environment variables: the size of the heap, version and help texts. OpenSHMEM 1.6, "Environment Variables". Reports of
 * wrong calls under SHMEM_DEBUG are in bad_input.c; checks from outside the job are in outside.rs.
 */
#include "suite.h"

#define MIB ((size_t)1 << 20)

/* Checks that the heap has room for `least` bytes in one block, and not for `too_much`. */
static void check_heap(size_t least, size_t too_much)
{
    unsigned char *block = shmem_malloc(least);
    CHECK_OP(block, !=, NULL);
    memset(block, 1, least);
    shmem_free(block);
    CHECK_PTR(shmem_malloc(too_much), NULL);
}

CASE(size_by_default, 2, "the default heap has room for a hundred megabytes")
{
    unsigned char *block = shmem_malloc(100 * MIB);
    CHECK_OP(block, !=, NULL);
    block[0] = block[100 * MIB - 1] = 1;
    shmem_free(block);
}

CASE(size_of_big_programs, 1, "the default heap has room for a gibibyte, and not for five")
{
    CHECK_PTR(shmem_malloc(5 * 1024 * MIB), NULL);
    size_t size = 1024 * MIB;
    unsigned char *block = shmem_malloc(size);
    CHECK_OP(block, !=, NULL);
    block[0] = block[size - 1] = 1;
    shmem_free(block);
}

CASE(size_in_bytes, 2, "SHMEM_SYMMETRIC_SIZE: bytes", .environment = "SHMEM_SYMMETRIC_SIZE=1000000")
{
    check_heap(1000000 - 64, 3 * MIB);
}

CASE(size_in_mebibytes, 2, "the same with m: 20m is 20971520", .environment = "SHMEM_SYMMETRIC_SIZE=20m")
{
    check_heap(20 * MIB - 64, 22 * MIB);
}

CASE(size_with_a_fraction, 2, "3.1M is 3250586", .environment = "SHMEM_SYMMETRIC_SIZE=3.1M")
{
    check_heap(3250586 - 64, 5 * MIB);
}

CASE(size_without_a_leading_zero, 2, ".5m is half a mebibyte", .environment = "SHMEM_SYMMETRIC_SIZE=.5m")
{
    check_heap(MIB / 2 - 64, 2 * MIB);
}

CASE(size_with_more_letters, 2, "letters after the multiplier are ignored: 20kk is 20k",
     .environment = "SHMEM_SYMMETRIC_SIZE=20kk")
{
    check_heap(20 * 1024 - 64, 2 * MIB);
}

CASE(size_in_kibibytes, 2, "3000K", .environment = "SHMEM_SYMMETRIC_SIZE=3000K")
{
    check_heap(3000 * 1024 - 64, 5 * MIB);
}

CASE(size_in_gibibytes, 2, "1g: the machine provides only the memory in use", .environment = "SHMEM_SYMMETRIC_SIZE=1g")
{
    unsigned char *block = shmem_malloc(1023 * MIB);
    CHECK_OP(block, !=, NULL);
    block[0] = block[1023 * MIB - 1] = 1;
    CHECK_PTR(shmem_malloc(2 * MIB), NULL);
    shmem_free(block);
}

CASE(size_in_tebibytes, 2, "0.5T", .environment = "SHMEM_SYMMETRIC_SIZE=0.5T")
{
    unsigned char *block = shmem_malloc(10 * MIB);
    CHECK_OP(block, !=, NULL);
    block[10 * MIB - 1] = 1;
    shmem_free(block);
}

static int static_word;

CASE(size_zero, 2,
     "0 is a valid size: static objects stay symmetric, malloc returns NULL", .environment = "SHMEM_SYMMETRIC_SIZE=0")
{
    CHECK_PTR(shmem_malloc(2 * MIB), NULL);
    shmem_int_p(&static_word, 1 + me(), next_pe());
    barrier();
    CHECK_EQ(static_word, 1 + previous_pe());
}

CASE(old_name_of_size, 2, "the deprecated SMA_SYMMETRIC_SIZE", .environment = "SMA_SYMMETRIC_SIZE=2M")
{
    check_heap(2 * MIB - 64, 4 * MIB);
}

CASE(new_name_wins, 2, "if both are set SHMEM_SYMMETRIC_SIZE counts",
     .environment = "SMA_SYMMETRIC_SIZE=2M SHMEM_SYMMETRIC_SIZE=10M")
{
    check_heap(10 * MIB - 64, 12 * MIB);
}

CASE(version_text, 2, "SHMEM_VERSION prints the version at start", .environment = "SHMEM_VERSION=1",
     .prints = SHMEM_VENDOR_STRING)
{
}
CASE(old_name_of_version, 2, "so does SMA_VERSION", .environment = "SMA_VERSION=1", .prints = SHMEM_VENDOR_STRING) {}
CASE(info_text, 2, "SHMEM_INFO prints text on the variables", .environment = "SHMEM_INFO=1",
     .prints = "SHMEM_SYMMETRIC_SIZE")
{
}
CASE(info_text_is_complete, 2,
     "SHMEM_INFO describes SHMEM_DEBUG, too", .environment = "SHMEM_INFO=1", .prints = "SHMEM_DEBUG") {}
CASE(old_name_of_info, 2, "so does SMA_INFO", .environment = "SMA_INFO=1", .prints = "SHMEM_SYMMETRIC_SIZE") {}
CASE(any_value, 2, "any value enables them", .environment = "SHMEM_VERSION=no SHMEM_INFO=0", .prints = "SHMEM_INFO") {}
CASE(silent_by_default, 2, "without them nothing is printed", .prints_not = "e") {}
