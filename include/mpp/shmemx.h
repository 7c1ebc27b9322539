/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* mpp/shmemx.h: shmemx.h under the path that programs from before OpenSHMEM 1.1 include. */
#include "../shmemx.h"
