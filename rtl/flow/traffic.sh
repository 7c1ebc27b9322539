#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Records the inputs of units during an all-to-all exchange, for power.py: UNIT.ports in $TRAFFIC (target/rtl-flow/traffic).
#
#   rtl/flow/traffic.sh
#
# Rank 64 of 128 is recorded in the simulator, on machines/cluster.toml:
#   lists, lists_one_port, allocator   NAS IS, class S, by MPI (its keys go by MPI_Alltoallv): MPI=build/mpi/debian, or another folder of programs
#   counters   examples/shmem/alltoall.c, OpenSHMEM: every PE puts to every PE, by counting puts among others
# The replay of crates/tools/rtl turns it into the units' commands, in lockstep with nic. SELVEDGE and REPLAY name programs that are
# already built. It takes some minutes.
set -eu

cd "$(dirname "$0")/../.."
out=${TRAFFIC:-${RTL_OUT:-target/rtl-flow}/traffic}
selvedge=${SELVEDGE:-build/bin/selvedge}
replay=${REPLAY:-build/libexec/selvedge/selvedge-rtl}
mpi=${MPI:-build/mpi/debian}
for program in "$selvedge" "$replay" "$mpi/is" build/examples/shmem/alltoall; do
    [ -x "$program" ] || {
        echo "rtl: $program is missing; make build, make rtl and tests/mpi build it" >&2
        exit 77
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/mpi" "$work/shmem" "$work/ports"

record() {
    folder=$1
    shift
    "$selvedge" sim -n 128 --machine cluster --quiet --record "$folder" --record-rank 64 -- "$@"
}

# Keeps the largest recording of a unit from the traces of a folder.
keep() {
    unit=$1
    folder=$2
    for trace in "$folder"/*.trace; do
        SELVEDGE_RTL_PORTS=$work/ports "$replay" replay --unit "$unit" "$trace"
    done
    cp "$(ls -S "$work/ports/$unit".*.ports | head -n 1)" "$out/$unit.ports"
    rm -f "$work/ports/"*
}

record "$work/mpi" "$mpi/is" S
keep lists "$work/mpi"
keep lists_one_port "$work/mpi"
keep allocator "$work/mpi"
record "$work/shmem" build/examples/shmem/alltoall 1
keep counters "$work/shmem"
