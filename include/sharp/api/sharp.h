/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The whole interface: its version and its functions. */
#ifndef SHARP_API_SHARP_H
#define SHARP_API_SHARP_H

#include "version.h"
#include "sharp_coll.h"

#endif
