/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The version of the interface of libsharp_coll that this library has. */
#ifndef SHARP_API_VERSION_H
#define SHARP_API_VERSION_H

#define SHARP_VERNO_MAJOR 3
#define SHARP_VERNO_MINOR 6
#define SHARP_VERNO_REV "0"
#define SHARP_VERNO_STRING "3.6"

/* A version as one number that grows with it. */
#define SHARP_MAJOR_BIT 24UL
#define SHARP_MINOR_BIT 16UL
/* Also for #if, so without casts. */
#define SHARP_VERSION(major, minor) ((((major) + 0L) << SHARP_MAJOR_BIT) | (((minor) + 0L) << SHARP_MINOR_BIT))
#define SHARP_API SHARP_VERSION(SHARP_VERNO_MAJOR, SHARP_VERNO_MINOR)

#endif
