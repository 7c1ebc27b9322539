#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the examples, as processes and on a simulated machine (make check-examples). Each checks its own
# results, and exits with an error when a byte is wrong. A failure does not end the script: its last lines list what has failed.
#
# usage: tests/examples.sh       the tree is build/, or the one that SELVEDGE_PREFIX names
set -u
cd "$(dirname "$0")/.." || exit 1

tree=${SELVEDGE_PREFIX:-$PWD/build}
export SELVEDGE_LOG=warn
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
count=0 failed=

# try COMMAND [ARGUMENT]...: the command has to end with 0. What it prints is shown when it does not.
try() {
    count=$((count + 1))
    "$@" </dev/null >"$printed" 2>&1 && return
    status=$?
    cat "$printed"
    echo "*** failed with exit status $status: $*"
    failed="$failed
    $*"
}

# run RANKS EXAMPLE [ARGUMENT]... and sim RANKS EXAMPLE [ARGUMENT]...: as processes, and in virtual time.
run() {
    ranks=$1 program=$2
    shift 2
    echo "selvedge run -n $ranks examples/$program${*:+ $*}"
    try "$tree/bin/selvedge" run -n "$ranks" --timeout 120 "$tree/examples/$program" "$@"
}
sim() {
    ranks=$1 program=$2
    shift 2
    echo "selvedge sim -n $ranks examples/$program${*:+ $*}"
    try timeout 120 "$tree/bin/selvedge" sim -n "$ranks" --machine seastar-nic --quiet -- "$tree/examples/$program" "$@"
}

# The two programs that the guide compiles by hand. Old ones would run in place of those that cannot be compiled.
rm -f "$tree/examples/by_hand_ring" "$tree/examples/by_hand_put"
try env OSHCC_CC="${CC:-cc}" "$tree/bin/oshcc" -std=gnu11 -Wall -Wextra -Werror examples/shmem/ring.c -o "$tree/examples/by_hand_ring"
try "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror "-I$tree/include" examples/first_put.c -o "$tree/examples/by_hand_put" \
    "-L$tree/lib" -lportals "-Wl,-rpath,$tree/lib"

run 4 by_hand_ring
run 2 by_hand_put
run 2 hello_put
run 2 counting_put 50
run 5 triggered_barrier 20
run 2 protocols 5
run 6 halo2d 128 10
sim 4 by_hand_ring
sim 2 by_hand_put
sim 5 triggered_barrier 20
sim 6 halo2d 128 10
sim 4 shmem/hello
sim 4 shmem/alltoall 5
sim 2 shmem/pingpong 20
sim 4 shmem/stencil 128 128 2
sim 4 shmem/summa 64
run 2 extoll/pingpong 50
run 4 extoll/window
run 2 extoll/palms pingpong 50
run 4 extoll/applet
sim 2 extoll/pingpong 5
sim 4 extoll/window
sim 2 extoll/palms pingpong 10
sim 3 extoll/palms sink 64 20
sim 4 extoll/applet 50
run 4 gasnet/histogram 20000
sim 4 gasnet/histogram 2000
run 4 shmem/hello
run 4 shmem/alltoall 20
run 2 shmem/pingpong 20
run 4 shmem/stencil
run 4 shmem/summa 64

if [ -n "$failed" ]; then
    echo "examples: of $count commands these failed:$failed"
    exit 1
fi
echo "examples: all $count commands passed"
