#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs stock UCC over libsharp_coll: the program collectives.c under the UCC that PyPI ships (nvidia-libcal-cu12, with
# libucx-cu12), whose transport for SHARP finds our library in place of SHARP's. UCC is neither built nor changed.
#
# usage: tests/ucc/run.sh [NUMBER OF PROCESSES]...
#
# Exit status: 77 when the packages cannot be downloaded.
set -eu
cd "$(dirname "$0")/../.."

tree=$PWD/build
place=$tree/ucc
packages="nvidia-libcal-cu12==0.4.4.50.post1 libucx-cu12==1.18.1"

if [ ! -f "$place/packages" ] || [ "$(cat "$place/packages")" != "$packages" ]; then
    python3 -m venv "$place" || exit 77
    # shellcheck disable=SC2086  # packages are words
    "$place/bin/pip" --quiet --disable-pip-version-check install --no-deps $packages || exit 77
    echo "$packages" >"$place/packages"
fi
. tests/ucc/environment.sh
missing=$(ldd "$ucc/lib/ucc/libucc_tl_sharp.so" | sed -n 's/^[[:space:]]*\([^ ]*\) => not found/\1/p' | tr '\n' ' ')
[ -z "$missing" ] || { echo "ucc: left out: its transport for SHARP needs $missing" && exit 77; }

"${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror "-I$ucc/include" tests/ucc/collectives.c -o "$place/collectives" \
    "-L$ucc/lib" -l:libucc.so.1 -Wl,--allow-shlib-undefined

export UCX_TLS=tcp,sm,self
[ $# -gt 0 ] || set -- 2 3 8
for processes; do
    printed=$(SELVEDGE_LOG=info timeout 120 "$place/collectives" "$processes" 2>&1) || { echo "$printed" | tail -20 && exit 1; }
    echo "$printed" | grep -q "group size:$processes" || { echo "ucc: its teams have no group" && exit 1; }
    echo "ucc: $(echo "$printed" | tail -1)"
done
