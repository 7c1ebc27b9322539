#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The short test of this directory, for every change: all examples over our provider on 1, 2 and 4 ranks, under every
# installed MPI; then some of them on a simulated machine, twice each: the same binaries, whose clocks show virtual
# time. Each example checks itself, and two simulations have to print the same. The programs on 4 ranks ask for
# MPI_THREAD_MULTIPLE; with SELVEDGE_TEST_THREADS=multiple all do (common.sh). About two minutes.
#
# usage: tests/mpi/run.sh [--transport ours|stock] [MPI]...
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

transport=ours
if [ "${1:-}" = --transport ]; then
    transport=$2
    shift 2
fi
[ $# -gt 0 ] || set -- $all_mpis
[ "$transport" = stock ] || [ -d "$tree/lib/libselvedge" ] || fail "build/lib/libselvedge is missing: run make build"
printed=$(mktemp)
trap 'rm -f "$printed" "$printed".*' EXIT
failed=0

# The MPIs run concurrently, because jobs sleep most of their time.
if [ $# -gt 1 ]; then
    processes=
    for mpi; do
        tests/mpi/run.sh --transport "$transport" "$mpi" >"$printed.$mpi" 2>&1 &
        processes="$processes $!"
    done
    for process in $processes; do wait "$process" || failed=$((failed + 1)); done
    for mpi; do cat "$printed.$mpi"; done
    [ "$failed" = 0 ] || fail "examples failed under $failed MPIs"
    exit
fi

# example RANKS PROGRAM [ARGUMENT]...
example() {
    ranks=$1
    shift
    began=$(date +%s)
    status=0
    launch "$mpi" "$transport" "$ranks" 180 "$tree/mpi/$mpi/$@" >"$printed" 2>&1 || status=$?
    outcome "$status" "$began" "$ranks ranks, $*"
}

# in_virtual_time COMMAND [ARGUMENT]...
in_virtual_time() { (ask_for_threads && exec timeout -k 10 240 "$@"); }

# simulated PROGRAM [ARGUMENT]...: two concurrent runs on $machine, with $options and without the MPI's launcher. Values
# measured by the wall clock may differ; everything else may not.
machine=cluster options=
simulated() {
    began=$(date +%s)
    status=0
    for run in 1 2; do
        in_virtual_time "$selvedge" sim -n 4 --machine "machines/$machine.toml" $options -- "$tree/mpi/$mpi/$@" \
            >"$printed.all$run" 2>"$printed.errors$run" </dev/null &
        [ "$run" = 2 ] || first=$!
    done
    wait "$!" || status=$?
    wait "$first" || status=$?
    for run in 1 2; do grep -v '^ *[Ww]all' "$printed.all$run" >"$printed.$run"; done
    if [ "$status" = 0 ] && cmp -s "$printed.1" "$printed.2"; then
        echo "    4 ranks on $machine, $*: right, and twice the same, $(($(date +%s) - began)) s"
    else
        echo "    4 ranks on $machine, $*: exit status $status"
        diff "$printed.1" "$printed.2" | head -10 | sed 's/^/        /'
        tail -qn 20 "$printed.errors1" "$printed.errors2" | sed 's/^/        /'
        failed=$((failed + 1))
    fi
}

# passes LIMIT_MS: the last simulated program took less virtual time.
passes() {
    if awk -v limit="$1" '/^ *virtual time/ { found = $4 == "ms" ? $3 : $4 == "us" || $4 == "ns" ? 0 : 1000; exit }
        END { exit !(found < limit) }' "$printed.all1"; then
        return
    fi
    echo "    it took more than $1 ms of virtual time"
    failed=$((failed + 1))
}

# accesses LEAST: in the program onesided on EXTOLL the RMA unit carries out at least LEAST gets: reads, and those
# behind puts. Without long messages, whose payload is also got, there are no others.
accesses() {
    in_virtual_time "$selvedge" sim -n 4 --machine machines/extoll-ht400.toml --env SELVEDGE_FI_BOUNCE_MAX=65536 \
        --json="$printed.json" -- "$tree/mpi/$mpi/onesided" >/dev/null 2>&1 </dev/null
    count=$(sed -n 's/^ *"requester_gets": *\([0-9]*\).*/\1/p' "$printed.json")
    if [ "${count:-0}" -ge "$1" ]; then
        echo "    the RMA unit carries out $count gets"
    else
        echo "    the RMA unit carries out ${count:-no} gets, and at least $1 are wanted"
        failed=$((failed + 1))
    fi
}

# reductions LEAST: the switches of $machine reduce for at least LEAST communicators of the program collectives:
# operands in the order of the ranks, to the bit.
reductions() {
    options="--aggregation --env SELVEDGE_AGGREGATION_BYTES=1G --env SELVEDGE_LOG=info"
    simulated nonblocking exact blocking messages
    simulated collectives exact types user comms mix
    options=
    count=$(grep -c 'collective operations go through aggregation nodes' "$printed.errors1")
    [ "$count" -ge "$1" ] && return
    echo "    the switches reduce for $count communicators, and at least $1 are wanted"
    failed=$((failed + 1))
}

# regions: the region of the program regions, which MPI_Pcontrol marks, has the 12 messages of its ranks, and no others.
regions() {
    simulated regions
    in_virtual_time "$selvedge" sim -n 4 --machine "machines/$machine.toml" --region main --json="$printed.json" -- \
        "$tree/mpi/$mpi/regions" >/dev/null 2>&1 </dev/null
    found=$(tr -d ' \n' <"$printed.json" | sed -n 's/.*"regions":\[{\([^}]*\)}\].*/\1/p')
    case $found in
    *'"bytes":96,"entered":4,"messages":12,"name":"main","ranks":4,'*) echo "    the region main has 12 messages" ;;
    *)
        echo "    the region main has ${found:-no report}"
        failed=$((failed + 1))
        ;;
    esac
}

# faults: a program whose fabric loses a link while it communicates: it ends right where no message is lost, and otherwise at
# once, with an error; twice the same.
faults() {
    machine=torus16
    torus="--set topology.dimensions=[4,4]"
    options="$torus --fail-link (1,0)-(2,0)@0us"
    simulated patterns all 3 2048
    options="$torus --fail-link (1,0)-(2,0)@250us-300us --no-reroute"
    simulated patterns all 3 2048
    for how in "" --no-reroute; do
        for pattern in alltoall allreduce; do
            options="$torus --fail-link (1,0)-(2,0)@250us $how"
            fails patterns "$pattern" 10 4096
        done
    done
    machine=cluster options=
}

# fails PROGRAM [ARGUMENT]...: as `simulated`, of a program that loses a message: it ends with status 16, that of MPI_ERR_OTHER,
# and says so.
fails() {
    began=$(date +%s)
    ended=
    for run in 1 2; do
        status=0
        in_virtual_time "$selvedge" sim -n 4 --machine "machines/$machine.toml" $options -- "$tree/mpi/$mpi/$@" \
            >"$printed.all$run" 2>"$printed.errors$run" </dev/null || status=$?
        grep -v '^ *[Ww]all' "$printed.all$run" >"$printed.$run"
        ended="$ended $status"
    done
    if [ "$ended" = " 16 16" ] && cmp -s "$printed.1" "$printed.2" && grep -q 'Messages lost: ' "$printed.1" &&
        grep -q 'aborted the job with code 16' "$printed.errors1"; then
        echo "    4 ranks on $machine, $*,${options#*\]}: an error, and twice the same, $(($(date +%s) - began)) s"
    else
        echo "    4 ranks on $machine, $*, $options: exit status$ended; an error is wanted, the same twice"
        diff "$printed.1" "$printed.2" | head -10 | sed 's/^/        /'
        tail -qn 20 "$printed.errors1" | sed 's/^/        /'
        failed=$((failed + 1))
    fi
}

# without_room: a program for which the job directory has no room ends, and its messages have the path, the free bytes
# and the remedy. The folder is not /dev/shm, because MPICH's own files there would have no room either.
without_room() {
    status=0
    small=2m small_at=$(mktemp -d)
    SELVEDGE_DIR=$small_at launch "$mpi" ours 4 60 "$tree/mpi/$mpi/hello" >"$printed" 2>&1 || status=$?
    if [ "$status" != 0 ] && [ "$status" != 124 ] && [ "$status" != 137 ] &&
        grep -qa "$small_at/.* of [0-9]* bytes free.*SELVEDGE_DIR" "$printed"; then
        echo "    4 ranks in $small: refused, with the reason"
    else
        echo "    4 ranks in $small: exit status $status, and no reason"
        sed 's/^/        /' "$printed" | tail -20
        failed=$((failed + 1))
    fi
    rmdir "$small_at"
    small= small_at=/dev/shm
}

# component: tests the additions of Open MPI's component; the examples above have run with it. Operations from Fortran
# go through nodes, of at least 1000 communicators, which end with them: a process has no more than 256 at once. Without
# the component the preloaded library is back.
component() {
    if [ ! -f "$tree/lib/openmpi/mca_coll_selvedge.so" ]; then
        say "Open MPI's component is not built here: left out"
        return
    fi
    say "OMPI_MCA_coll=^selvedge"
    export OMPI_MCA_coll=^selvedge
    example 4 collectives exact types mix errors
    example 4 nonblocking exact ways errors
    unset OMPI_MCA_coll
    if ! have_fortran; then
        say "gfortran is not installed: the example in Fortran is left out"
        return
    fi
    say "Fortran"
    export SELVEDGE_LOG=info
    example 4 fortran exact
    unset SELVEDGE_LOG
    count=$(grep -c 'collective operations go through aggregation nodes' "$printed")
    refused=$(grep -c 'collective operations are the MPI' "$printed")
    if [ "$count" -lt 1000 ] || [ "$refused" != 0 ]; then
        echo "    nodes reduce for $count communicators, wanted at least 1000; nodes do not reduce for $refused, wanted 0"
        failed=$((failed + 1))
    fi
}

for mpi; do
    if ! have "$mpi"; then
        say "$mpi is not installed: left out"
        continue
    fi
    build "$mpi" || fail "the examples do not compile under $mpi"
    say "$(version "$mpi"), $transport"
    whole_pass=${SELVEDGE_TEST_THREADS:-}
    for ranks in 1 2 4; do
        [ "$ranks" != 4 ] || export SELVEDGE_TEST_THREADS=multiple
        example "$ranks" hello
        [ "$ranks" = 1 ] || example "$ranks" pingpong 20
        example "$ranks" halo2d 128 20
        # Open MPI 4.1 crashes in MPI_Compare_and_swap over its own transport, and has no dynamic window on one rank.
        case $mpi-$transport in
        debian-stock) example "$ranks" onesided fence pscw lock accumulate fetch passive ;;
        *) example "$ranks" onesided ;;
        esac
        # Over its own transport, Open MPI 4.1 crashes in swaps.
        # shellcheck disable=SC2046  # a word, or none
        example "$ranks" windows $([ "$mpi-$transport" != debian-stock ] || echo types)
        example "$ranks" shared
        [ "$ranks" != 2 ] || example 2 memory
        # In our environment a library reduces in the order of the ranks.
        exact=
        [ "$transport" != ours ] || exact=exact
        # shellcheck disable=SC2086  # a word, or none
        example "$ranks" collectives $exact
        # With MPI_THREAD_MULTIPLE Open MPI 4.1 never returns from waiting for a request that has failed.
        parts=
        [ "$mpi" != debian ] || [ -z "${SELVEDGE_TEST_THREADS:-}" ] || parts="types lengths ways blocking messages comms late"
        # shellcheck disable=SC2086
        example "$ranks" nonblocking $exact $parts
        [ "$ranks" = 1 ] || example "$ranks" nonblocking threads
        example "$ranks" is
        example "$ranks" ft
        [ "$ranks" = 1 ] || example "$ranks" dt SH
        [ "$ranks" != 4 ] || { example 4 ep && example 4 dt BH && example 4 dt WH; }
        [ ! -x "$tree/mpi/$mpi/lennard_jones" ] || example "$ranks" lennard_jones 20
    done
    export SELVEDGE_TEST_THREADS="$whole_pass"
    [ "$transport" = ours ] || continue
    example 4 flood
    for setting in SELVEDGE_MODE=host SELVEDGE_PATH=bounce; do
        say "$setting"
        export "${setting?}"
        example 4 flood
        unset "${setting%%=*}"
    done
    say SELVEDGE_MPI_COLLECTIVES=0
    export SELVEDGE_MPI_COLLECTIVES=0
    example 4 collectives
    example 4 nonblocking
    unset SELVEDGE_MPI_COLLECTIVES
    [ "$mpi" != debian ] || component
    say "an address space of 8 GB"
    (ulimit -v 8000000 && failed=0 && example 4 pingpong 20 && exit "$failed") || failed=$((failed + 1))
    if unshare -m true 2>/dev/null; then
        say "64 MB in /dev/shm"
        small=64m
        example 16 hello
        example 16 is
        example 16 nonblocking
        without_room
    else
        say "64 MB in /dev/shm: left out, because a mount namespace is not permitted"
    fi
    simulated hello
    # UCX, in the MPIs of PyPI, measures the processor's clock for 42 ms before the program begins.
    if [ "$mpi" = debian ]; then passes 1; else passes 100; fi
    simulated pingpong 20
    simulated halo2d 128 10
    simulated is S
    simulated onesided
    simulated flood
    regions
    [ "$mpi" != debian ] || faults
    machine=extoll-ht400
    simulated onesided
    accesses 500
    machine=switchib2
    reductions 1
    machine=cluster
done
[ "$failed" = 0 ] || fail "$failed of the examples failed"
