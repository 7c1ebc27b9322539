/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Version of the libsharp_coll interface that this library provides. */
#ifndef SHARP_API_VERSION_H
#define SHARP_API_VERSION_H

#define SHARP_VERNO_MAJOR 3
#define SHARP_VERNO_MINOR 6
#define SHARP_VERNO_REV "0"
#define SHARP_VERNO_STRING "3.6"

/* A version as one number that grows with it. */
#define SHARP_MAJOR_BIT 24UL
#define SHARP_MINOR_BIT 16UL
/* Without casts, so that #if can use it. */
#define SHARP_VERSION(major, minor) ((((major) + 0L) << SHARP_MAJOR_BIT) | (((minor) + 0L) << SHARP_MINOR_BIT))
#define SHARP_API SHARP_VERSION(SHARP_VERNO_MAJOR, SHARP_VERNO_MINOR)

#endif
