/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Programs of the later EXTOLL generation include this beside velo2.h, which has everything. */
#ifndef VELO2_MOD_H
#define VELO2_MOD_H
#include "velo2.h"
#endif
