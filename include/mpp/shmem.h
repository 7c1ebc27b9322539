/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* mpp/shmem.h: where programs from before OpenSHMEM 1.1 look for shmem.h. */
#include "../shmem.h"
