#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# MPI and UCC programs on three test hosts whose aggregation nodes reduce (docs/design/aggregation-homes.md, "Between hosts"):
# nodes started by `selvedge run`, and those of `selvedge manager` and `selvedge aggregator`, under the launcher of each
# MPI. Then an aggregation node, the manager and a rank are killed in turn. Programs check their own results.
#
# usage: tests/hosts/aggregation.sh [MPI]...
#
# The tree is build/. Exit status: 77 when test hosts cannot be made, or no MPI is found.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

[ $# -gt 0 ] || set -- $all_mpis
hosts=$PWD/tests/hosts/hosts.sh
reason=$("$hosts" check) || { say "left out: $reason" && exit 77; }
mpis=
for mpi; do have "$mpi" && [ -x "$tree/mpi/$mpi/collectives" ] && mpis="$mpis $mpi"; done
[ -n "$mpis" ] || { say "left out: no MPI is here, or its programs are not built (tests/mpi/programs.sh)" && exit 77; }
SELVEDGE_TEST_HOSTS=$("$hosts" up 3) || exit 1
export SELVEDGE_TEST_HOSTS SELVEDGE_RSH="$PWD/tests/hosts/rsh"
work=$(mktemp -d)
chmod 755 "$work"
# Process ids of the services.
manager= nodes=
trap 'kill -9 $manager $nodes $(of_command "--state $work/state") 2>/dev/null; "$hosts" down "$SELVEDGE_TEST_HOSTS"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0
unset SELVEDGE_DIR SELVEDGE_HOST SELVEDGE_HOSTS SELVEDGE_SECRET SELVEDGE_RANK SELVEDGE_SIZE SELVEDGE_JOB SELVEDGE_MANAGER
export SELVEDGE_MANAGER_SECRET=5e1f5e1f

complain() {
    echo "    $1"
    tail -n 20 "$work/printed" "$work/manager.log" 2>/dev/null | cut -c1-300 | sed 's/^/        /'
    failed=$((failed + 1))
}

# ends WHAT STATUSES COMMAND [ARGUMENT]...: the command has to end with one of these exit statuses. Its output is in
# $work/printed.
ends() {
    what=$1 wanted=$2
    shift 2
    status=0
    began=$(date +%s)
    "$@" </dev/null >"$work/printed" 2>&1 || status=$?
    case " $wanted " in
    *" $status "*) echo "    $what: right, $(($(date +%s) - began)) s" ;;
    *) complain "$what: exit status $status, not $wanted, after $(($(date +%s) - began)) s" ;;
    esac
}

# says TEXT: checks that the last command has printed it.
says() { grep -q -e "$1" "$work/printed" || complain "$what: missing in its output: $1"; }

# await FILE TEXT: waits until a command in the background prints it.
await() {
    tries=0
    until grep -q -e "$2" "$1" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { complain "$(basename "$1") does not say: $2" && return; }
        sleep 0.1
    done
}

# before FUNCTION: runs it beside the next command, whose output it waits for. Its process id is in $killer.
before() {
    : >"$work/printed"
    "$1" &
    killer=$!
}

# On the login node and on hosts these are processes of this machine, so they are killed by their process ids here.
start_manager() {
    "$hosts" login "$SELVEDGE_TEST_HOSTS" "$selvedge" manager --listen 10.77.255.1:7390 --state "$work/state" \
        >"$work/manager" 2>>"$work/manager.log" &
    manager=$!
    await "$work/manager" 7390
}

# start_node NUMBER
start_node() {
    "$hosts" on "$SELVEDGE_TEST_HOSTS" "$1" "$selvedge" aggregator >"$work/node$1" 2>>"$work/manager.log" &
    nodes="$nodes $!"
    await "$work/node$1" ready
}

# of_command TEXT: process ids of commands with this text, except of those that only start them.
of_command() { ps -e -o pid=,args= | awk -v text="$1" 'index($0, text) && !/awk|hosts\.sh|nsenter|sh -c|timeout|rsh/ { print $1 }'; }

program() { launch "$mpi" ours 6 "$limit" "$tree/mpi/$mpi/collectives" "$@"; }

spread=3 limit=400
export SELVEDGE_LOG=info
# No length limit, so that no operation is the MPI's.
export SELVEDGE_AGGREGATION_BYTES=1G
case $mpis in
*mpich*)
    on_hosts() { (environment mpich ours && "$hosts" login "$SELVEDGE_TEST_HOSTS" "$selvedge" run --aggregation --hosts host1,host2,host3 "$@"); }
    ends "selvedge run --aggregation, MPICH, 3 ranks" 0 \
        on_hosts --bind none -n 3 --timeout 180 "$tree/mpi/mpich/collectives" comms mix
    says "go through aggregation nodes of 3 hosts"
    ;;
esac

# Windows, under the MPI that chooses another way for them on one host.
case $mpis in
*debian*) ends "$(version debian), 6 ranks, windows" 0 launch debian ours 6 "$limit" "$tree/mpi/debian/windows" words dynamic ;;
esac

start_manager
export SELVEDGE_MANAGER=10.77.255.1:7390
for number in 1 2 3; do start_node $number; done
# The first MPI tests all types; for the others tests/mpi/run.sh does, on one host.
parts="types user mix"
for mpi in $mpis; do
    # shellcheck disable=SC2086  # words
    ends "$(version "$mpi"), 6 ranks, to the bit" 0 program exact hosts=3 $parts
    parts="user mix"
    says "process 0 of 6: its collective operations go through aggregation nodes of 3 hosts"
done

# Ranks that test in a loop take the cores from the nodes, so this is done under one MPI only.
mpi=$(echo $mpis | cut -d' ' -f1)
ends "$(version "$mpi"), 6 ranks, without waiting" 0 launch "$mpi" ours 6 "$limit" "$tree/mpi/$mpi/nonblocking" exact hosts=3 messages comms
says "the non-blocking ones, too"

# Stock UCC, two processes a host (tests/ucc/run.sh installs and builds it). It takes processes with equal ids for one
# process. Test hosts have a common machine, so each gets different ids.
ucc() (
    place=$tree/ucc
    . tests/ucc/environment.sh
    export UCX_TLS=tcp,self
    running=
    for number in 1 2 3; do
        "$hosts" on "$SELVEDGE_TEST_HOSTS" "$number" \
            sh -c 'for i in $(seq $(($1 * 50))); do /bin/true; done; shift; exec timeout 180 "$@"' ucc "$number" \
            "$tree/ucc/collectives" 6 $((2 * number - 2)) 2 "$work/ucc" >"$work/ucc$number" 2>&1 &
        running="$running $!"
    done
    status=0
    # shellcheck disable=SC2086  # numbers of processes
    for one in $running; do wait "$one" || status=$?; done
    cat "$work"/ucc[123]
    return $status
)
if [ -x "$tree/ucc/collectives" ]; then
    ends "UCC over libsharp_coll, 6 processes" 0 ucc
    says "group size:6"
fi

# The manager is killed while a job runs, and restarted: the job continues, and the manager restores it from its state.
kill_manager() {
    await "$work/printed" "process 0 of 6: its collective operations go through"
    kill -9 $(of_command "manager --listen")
    sleep 0.5
    start_manager
}
before kill_manager
ends "$(version "$mpi"), the manager is killed and restarted" 0 program mix
wait "$killer"
ends "a job after that" 0 program mix
says "process 0 of 6: its collective operations go through aggregation nodes of 3 hosts"

# An aggregation node is killed: its groups fail at all ranks, which MPI's error handler ends.
kill_node() {
    await "$work/printed" "process 0 of 6: its collective operations go through"
    kill -9 "$(of_command "selvedge aggregator" | head -1)"
}
before kill_node
limit=120
failures="1 3 6 13 14 15 16 17 59 74 134 137 139 143 255"
ends "an aggregation node is killed" "$failures" program types memory comms stream mix
wait "$killer"
says "lost"

# The other nodes serve a job without it.
ends "a job with the other nodes" 0 program mix

# A rank is killed: the job ends, and the manager has no job left.
kill_rank() {
    await "$work/printed" "process 0 of 6: its collective operations go through"
    kill -9 "$(of_command "$tree/mpi/$mpi/collectives" | tail -1)"
}
before kill_rank
ends "a rank is killed" "$failures" program types memory comms stream mix
wait "$killer"
tries=0
while "$hosts" login "$SELVEDGE_TEST_HOSTS" "$selvedge" manager --show 2>/dev/null | grep -q "processes at the manager" && [ $tries -lt 120 ]; do
    tries=$((tries + 1))
    sleep 0.5
done
ends "the manager shows its state" 0 "$hosts" login "$SELVEDGE_TEST_HOSTS" "$selvedge" manager --show
says "aggregation node, from"
! grep -q "processes at the manager" "$work/printed" || complain "a job is left"

[ $failed = 0 ] || fail "$failed of these failed"
say "all right"
