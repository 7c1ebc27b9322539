#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# MPI programs on two test hosts (tests/hosts) with two ranks each, over our provider: each MPI with its own launcher, which reaches the
# hosts by the replacement of ssh. Programs check their results themselves; hosts.c compares every byte. About two minutes for each MPI.
#
# usage: tests/mpi/hosts.sh [--transport ours|stock] [--short] [MPI]...
#        --short: hosts.c and spawn.c only
# Exit status: 77 when test hosts cannot be made here.
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
[ "$transport" = stock ] || [ -d "$tree/lib/libselvedge" ] || fail "build/lib/libselvedge is not there (make build)"
hosts=$PWD/tests/hosts/hosts.sh
reason=$("$hosts" check) || { say "left out: $reason" && exit 77; }
SELVEDGE_TEST_HOSTS=$("$hosts" up 2) || exit 1
export SELVEDGE_TEST_HOSTS
work=$(mktemp -d)
trap '"$hosts" down "$SELVEDGE_TEST_HOSTS"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
spread=2
failed=0

# example PROGRAM [ARGUMENT]...
example() {
    began=$(date +%s)
    status=0
    launch "$mpi" "$transport" 4 120 "$tree/mpi/$mpi/$@" >"$work/printed" 2>&1 || status=$?
    if [ "$status" = 0 ]; then
        echo "    2 ranks on each of 2 hosts, $*: right, $(($(date +%s) - began)) s"
    else
        echo "    2 ranks on each of 2 hosts, $*: exit status $status"
        tail -20 "$work/printed" | sed 's/^/        /'
        failed=$((failed + 1))
    fi
}

for mpi; do
    if ! have "$mpi"; then
        say "$mpi is not installed: left out"
        continue
    fi
    build "$mpi" || fail "the examples do not compile under $mpi"
    for program in hosts spawn; do
        "$(bin "$mpi" mpicc)" -std=gnu11 -O2 -g -Wall -Wextra -Werror tests/mpi/$program.c -o "$tree/mpi/$mpi/$program" ||
            fail "$program.c does not compile under $mpi"
    done
    say "$(version "$mpi"), $transport"
    names=$(launch "$mpi" "$transport" 4 120 hostname 2>/dev/null | sort | tr '\n' ' ')
    [ "$names" = "host1 host1 host2 host2 " ] || fail "the ranks are on $names"
    example hosts 1
    example spawn
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
