/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * shmemx.h: names that Sandia OpenSHMEM has had for counting puts and for what OpenSHMEM 1.6 made standard, for
 * programs that use them. New programs find the same in shmem.h, whose notation this header shares.
 *
 * Made by `make docs-pages` from the table in crates/shmem/api; not to be edited.
 */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

/* Programs ask for this name before they use shmemx_wtime. */
#define HAVE_SHMEMX_WTIME 1

typedef shmem_ct_t shmemx_ct_t; /* a counter of counting puts */

#define SHMEMX_TEAM_NODE SHMEM_TEAM_SHARED /* the PEs of this machine */
