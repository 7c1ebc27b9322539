#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# When one rank of a job is killed, the job ends: the launcher reports it and returns an error, no process survives, and
# after `selvedge mpirun` shared memory holds nothing of the job.
#
# usage: tests/mpi/kill.sh [MPI]...
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

[ $# -gt 0 ] || set -- $all_mpis
ranks=4
limit_s=180
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

complain() {
    echo "    $*"
    failed=1
}

# lives PID: whether the process exists and is not a zombie.
lives() { [ -d "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

# Every rank writes its process id to a file, so that the script can kill one and look for all.
# shellcheck disable=SC2016  # for the inner shell
write_down='echo $$ >"$0/pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"; exec "$@"'

kill_one() {
    victim=$1 example=$2
    shift 2
    rm -f "$work"/pid.*
    before=$(leftovers)
    (
        environment "$mpi" stock # not the transport: `selvedge mpirun` sets that
        PATH=$(dirname "$(bin "$mpi" mpirun)"):$PATH
        export PATH
        exec timeout -k 10 "$limit_s" "$selvedge" mpirun -n "$ranks" sh -c "$write_down" "$work" \
            "$tree/mpi/$mpi/$example" "$@" </dev/null >"$work/printed" 2>&1
    ) &
    job=$!
    waited=0
    while [ "$(ls "$work" | grep -c '^pid\.')" -lt "$ranks" ] && [ "$waited" -lt 1200 ]; do
        sleep 0.1
        waited=$((waited + 1))
    done
    sleep 2 # the job is in the middle of its work
    kill -9 "$(cat "$work/pid.$victim")" 2>/dev/null || complain "$mpi, $example: rank $victim had ended already"
    status=0
    wait "$job" || status=$?
    [ "$status" != 0 ] || complain "$mpi, $example: exit status 0"
    # Open MPI returns 137 for a killed rank.
    case $status in 124) complain "$mpi, $example: still running long after its rank was killed" ;; esac
    said=$(grep -i -m1 -e 'killed' -e 'signal' -e 'terminat' "$work/printed" | cut -c1-90)
    [ -n "$said" ] || complain "$mpi, $example: no report from the launcher"
    for file in "$work"/pid.*; do
        waited=0
        while lives "$(cat "$file")" && [ "$waited" -lt 600 ]; do
            sleep 0.1
            waited=$((waited + 1))
        done
        lives "$(cat "$file")" && complain "$mpi, $example: ${file##*.} still runs as process $(cat "$file")"
    done
    after=$(leftovers)
    [ "$before" = "$after" ] || complain "$mpi, $example: left in shared memory: $(echo "$after" | head -3)"
    echo "    $example, rank $victim killed: exit status $status, \"$said\""
}

for mpi; do
    if ! have "$mpi"; then
        say "$mpi is not installed: left out"
        continue
    fi
    build "$mpi" || fail "the examples do not compile under $mpi"
    say "$(version "$mpi"), $ranks ranks"
    for victim in 0 $((ranks - 1)); do
        kill_one "$victim" pingpong 100000000 # others wait in a barrier
        kill_one "$victim" halo2d 1024 100000000
    done
done
exit $failed
