/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* mpp/shmemx.h: where programs from before OpenSHMEM 1.1 look for shmemx.h. */
#include "../shmemx.h"
