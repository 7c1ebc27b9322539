/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * shmemx.h: the names of Sandia OpenSHMEM for counting puts, and for functions that OpenSHMEM 1.6 has made standard.
 * New programs should use shmem.h, which has the same functions and explains the notation of this header.
 *
 * Made by `make docs-pages` from the table in crates/doors/shmem/api; not to be edited.
 */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

/* Programs test for this name before they use shmemx_wtime. */
#define HAVE_SHMEMX_WTIME 1

typedef shmem_ct_t shmemx_ct_t; /* a counter of counting puts */

#define SHMEMX_TEAM_NODE SHMEM_TEAM_SHARED /* the PEs of this machine */
