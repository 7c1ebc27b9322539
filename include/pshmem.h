/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * pshmem.h: the second names of functions, for profilers (OpenSHMEM, "Profiling Interface"). A profiler defines shmem_putmem
 * and calls pshmem_putmem. Every function of shmem.h has such a name: the same with a p in front.
 */
#ifndef PSHMEM_H
#define PSHMEM_H

#include "shmem.h"

#endif /* PSHMEM_H */
