#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds Open MPI's component for collective operations, if the headers for components of an Open MPI 4.1 are installed;
# else prints the reason why not.
#
# usage: crates/doors/mpi-collectives/mca/build.sh TREE    writes TREE/lib/openmpi/mca_coll_selvedge.so
set -eu
here=$(dirname "$0")
made=$1/lib/openmpi/mca_coll_selvedge.so

skip() {
    echo "Open MPI's component mca_coll_selvedge.so is not built: $1"
    exit 0
}

mpicc=
for name in mpicc.openmpi mpicc; do
    version=$("$name" --showme:version 2>/dev/null | sed -n 's/.*Open MPI \([0-9.]*\).*/\1/p') || version=
    case $version in 4.1.*) mpicc=$name && break ;; esac
done
[ -n "$mpicc" ] || skip "no mpicc of Open MPI 4.1"
headers=
for directory in $("$mpicc" --showme:incdirs); do
    [ ! -f "$directory/ompi/mca/coll/coll.h" ] || headers=$directory
done
[ -n "$headers" ] || skip "Open MPI $version has no headers for components here"

newer() { [ -n "$(find "$here"/*.c "$0" "$headers/ompi/version.h" "$headers/ompi/mca/coll/coll.h" -newer "$made")" ]; }
[ ! -f "$made" ] || newer || exit 0
mkdir -p "$(dirname "$made")"
# The MPI's symbols resolve in its libraries that the process has loaded; those of another version must not be loaded
# besides. The component stays loaded (nodelete), because the MPI's list of progress functions keeps one of the library's.
OMPI_CC=${CC:-cc} "$mpicc" -std=gnu11 -O2 -g -DNDEBUG -Wall -Wextra -fPIC -fvisibility=hidden -I"$headers" -shared "$here/coll_selvedge.c" \
    -o "$made.new" -Wl,--no-as-needed -lmpi -L"$1/lib/libselvedge" -lselvedge_mpi_collectives \
    -Wl,-rpath,'$ORIGIN/../libselvedge' -Wl,-z,relro -Wl,-z,nodelete
mv "$made.new" "$made"
