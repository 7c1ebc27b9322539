#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# MPI programs on two test hosts (tests/hosts) with two ranks each, over our provider: each MPI with its own launcher,
# which reaches the hosts by the replacement of ssh. Programs check their own results; hosts.c compares every byte.
# About two minutes for each MPI.
#
# usage: tests/mpi/hosts.sh [--transport ours|stock] [--short] [MPI]...
#        --short: hosts.c, spawn.c, connect.c and windows.c only
# Exit status: 77 when test hosts cannot be made.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

transport=ours
programs=all
while :; do
    case ${1:-} in
    --transport) transport=$2 && shift 2 ;;
    --short) programs=short && shift ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || set -- $all_mpis
[ "$transport" = stock ] || [ -d "$tree/lib/libselvedge" ] || fail "build/lib/libselvedge is missing: run make build"
hosts=$PWD/tests/hosts/hosts.sh
reason=$("$hosts" check) || { say "left out: $reason" && exit 77; }
SELVEDGE_TEST_HOSTS=$("$hosts" up 2) || exit 1
export SELVEDGE_TEST_HOSTS
work=$(mktemp -d)
printed=$work/printed
server=
trap '[ -z "$server" ] || kill "$server"; "$hosts" down "$SELVEDGE_TEST_HOSTS"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
spread=2
failed=0

# example PROGRAM [ARGUMENT]...
example() {
    began=$(date +%s)
    status=0
    launch "$mpi" "$transport" 4 120 "$tree/mpi/$mpi/$@" >"$printed" 2>&1 || status=$?
    outcome "$status" "$began" "2 ranks on each of 2 hosts, $*"
}

# Connects processes within one job. This may kill a daemon of Open MPI 5, with its own transport too: its heap is
# damaged, which its allocator sometimes detects. The exit status is 0 then.
connect() {
    for try in 1 2 3 4 5; do
        began=$(date +%s)
        status=0
        launch "$mpi" "$transport" 4 120 "$tree/mpi/$mpi/connect" >"$printed" 2>&1 || status=$?
        if [ "$mpi" = openmpi ] && grep -q "lost communication with a remote daemon" "$printed"; then
            echo "    2 ranks on each of 2 hosts, connect: the launcher's daemon died (try $try)"
            continue
        fi
        [ "$status" != 0 ] || grep -q "connect: right" "$printed" || status="0 without a result"
        outcome "$status" "$began" "2 ranks on each of 2 hosts, connect"
        return
    done
    echo "    2 ranks on each of 2 hosts, connect: left out"
}

# pair TEXT: two jobs of two ranks, started by accepting and connecting.
pair() {
    began=$(date +%s)
    status=0
    rm -f "$work/port"
    accepting >"$work/accepting" 2>&1 &
    connecting >"$printed" 2>&1 || status=$?
    wait $! || status="$status and $?"
    cat "$work/accepting" >>"$printed"
    outcome "$status" "$began" "$1"
}

# Connects two jobs. Under Open MPI this needs a server known to both: Open MPI 4.1 has one, but its daemons on other
# hosts die when they ask it, so each job stays on its launcher's host. The launcher of Open MPI 5 has none.
two_jobs() {
    case $mpi in
    mpich)
        accepting() { launch "$mpi" "$transport" 2 120 "$tree/mpi/$mpi/connect" accept "$work/port"; }
        connecting() { launch "$mpi" "$transport" 2 120 "$tree/mpi/$mpi/connect" connect "$work/port"; }
        pair "two jobs, each with a rank on each of 2 hosts, connect"
        ;;
    debian)
        command -v ompi-server >/dev/null || { echo "    two jobs: ompi-server is not installed: left out" && return; }
        "$hosts" login "$SELVEDGE_TEST_HOSTS" ompi-server --no-daemonize -r "$work/server" >/dev/null 2>&1 &
        server=$!
        tries=0
        until [ -s "$work/server" ] || [ $tries -ge 1200 ]; do tries=$((tries + 1)) && sleep 0.1; done
        export OMPI_MCA_pmix_server_uri="file:$work/server"
        ;;
    openmpi)
        echo "    two jobs: Open MPI 5 has no server for their names: left out"
        return
        ;;
    esac
    accepting() { on_host 1 accept; }
    connecting() { on_host 2 connect; }
    # Neither launcher reports that the job has several hosts.
    export SELVEDGE_NET=on
    pair "two jobs, each with 2 ranks on a host of its own, connect"
    unset SELVEDGE_NET
    [ "$server" ] || return
    unset OMPI_MCA_pmix_server_uri
    kill "$server"
    wait "$server" 2>/dev/null
    server=
    rm -f "$work/server"
}

on_host() { (spread='' alone=$1 && launch "$mpi" "$transport" 2 120 "$tree/mpi/$mpi/connect" "$2" "$work/port"); }

for mpi; do
    if ! have "$mpi"; then
        say "$mpi is not installed: left out"
        continue
    fi
    build "$mpi" || fail "the examples do not compile under $mpi"
    for program in hosts spawn connect; do
        "$(bin "$mpi" mpicc)" -std=gnu11 -O2 -g -Wall -Wextra -Werror tests/mpi/$program.c -o "$tree/mpi/$mpi/$program" ||
            fail "$program.c does not compile under $mpi"
    done
    say "$(version "$mpi"), $transport"
    names=$(launch "$mpi" "$transport" 4 120 hostname 2>/dev/null | sort | tr '\n' ' ')
    [ "$names" = "host1 host1 host2 host2 " ] || fail "the ranks are on $names"
    example hosts 1
    example spawn
    connect
    two_jobs
    example windows
    [ "$programs" = all ] || continue
    example hello
    example pingpong 20
    example halo2d 128 20
    example onesided
    example is
    example ft
    example flood
done
[ "$failed" = 0 ] || fail "$failed of the programs failed"
