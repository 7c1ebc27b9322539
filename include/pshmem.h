/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * pshmem.h: the names by which profilers call what they stand in for (OpenSHMEM, "Profiling Interface"). A profiler defines
 * shmem_putmem, and calls pshmem_putmem. Every function of shmem.h has such a name: the same with a p in front.
 */
#ifndef PSHMEM_H
#define PSHMEM_H

#include "shmem.h"

#endif /* PSHMEM_H */
