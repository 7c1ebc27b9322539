#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Faults of a fabric of `selvedge daemon`: an MPI all-to-all while a cable fails in each way (alltoall.c), and while ranks
# still connect; a torus that is cut in two and joined again, and whose daemon is killed; what `selvedge fabric test`
# finds on a cable that loses, damages, delays and doubles frames (cable.c); loads against what a sink has got.
# Prints times and counts; times are failures only with --bars. With --runs N the all-to-all runs N times.
#
# usage: tests/hosts/fabric-faults.sh [--bars] [--runs N] [PART]...      PART: alltoall, torus, test, load
#
# Tree and exit status: common.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh
. tests/hosts/common.sh
. tests/hosts/daemons.sh
[ ! "$bars" ] || shift
runs=1
[ "${1:-}" != --runs ] || { runs=$2 && shift 2; }
parts=${*:-alltoall torus test load}

"${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror tests/hosts/cable.c -o "$work/cable" || exit 1

# job COMMAND...: runs an all-to-all over the fabric, and the command in its midst. $pause is its longest pause.
job() {
    : >"$work/printed"
    (
        export SELVEDGE_NET_INTERFACE=lo:selvedge
        spread=3
        launch mpich ours 3 "${limit:-60}" "$work/alltoall" "$seconds" 20000
    ) >"$work/printed" 2>&1 &
    running=$!
    [ ! "$awaited" ] || until_true "start of the job" sh -c '[ "$(grep -c " runs" "$1")" = 3 ]' sh "$work/printed"
    sleep "$delay"
    "$@"
    wait $running || complain "$what: the job's exit status is $?"
    [ "$(grep -c ': right' "$work/printed")" = 3 ] || complain "$what: not three ranks were right"
    # The first operation connects, so it counts where the cable fails before.
    [ "$awaited" ] || pattern='s/.* runs: connected in \([0-9.]*\) s$/\1/p'
    pause=$(sed -n -e 's/.*: right, .* longest pause \([0-9.]*\) s$/\1/p' ${pattern:+-e "$pattern"} "$work/printed" | sort -n | tail -1)
}

pull_it() { "$hosts" pull "$set" 1 2; }
mute_it() { "$hosts" mute "$set" 1 2; }
mute_both() { "$hosts" mute "$set" 1 2 && "$hosts" mute "$set" 2 1; }
restore() {
    "$hosts" plug "$set" 1 2
    "$hosts" unmute "$set" 1 2 2>/dev/null
    "$hosts" unmute "$set" 2 1 2>/dev/null
    until_true "the cable's return" agree 3 1 2 3
    until_true "the direct route" goes 1 2 2
    until_true "the direct route back" goes 2 1 1
    # A link that falls often is blocked for a while.
    [ "$runs" = 1 ] || sleep 10
}

# while_it WHAT COMMAND: runs the job so often, and compares its pauses with the bars.
while_it() {
    what=$1 pauses=
    for run in $(seq "$runs"); do
        job "$2"
        pauses="$pauses ${pause:-99}"
        goes 1 2 3 && goes 2 1 3 || complain "$what, run $run: the routes do not go over host 3"
        restore
    done
    # shellcheck disable=SC2086  # words
    sorted=$(printf '%s\n' $pauses | sort -n | tr '\n' ' ')
    echo "    $what: the job ends right; its longest pauses: ${sorted}s (bar 2 s in nine of ten, never 3.5 s)"
    # shellcheck disable=SC2086  # words
    [ -z "$bars" ] || printf '%s\n' $sorted | awk '$1 > 2 { slow++ } $1 > 3.5 { slow += NR + 1 } END { exit slow * 10 > NR }' ||
        complain "$what: above the bar"
}

alltoall() {
    echo "$suite: an MPI all-to-all while a cable fails"
    have mpich || { echo "    left out: no MPICH (make peers)" && return; }
    "$(bin mpich mpicc)" -std=gnu11 -O2 -Wall -Wextra -Werror tests/hosts/alltoall.c -o "$work/alltoall" || exit 1
    rm -f "$work"/log*
    hosts_anew 3
    triangle
    for number in 1 2 3; do daemon "$number"; done
    until_true "the same topology" agree 3 1 2 3
    seconds=3 delay=0.5 awaited=1
    while_it "the carrier is lost" pull_it
    "$hosts" mute "$set" 1 2 2>/dev/null && "$hosts" unmute "$set" 1 2 || {
        echo "    left out: the kernel has no queue that loses everything" && return
    }
    while_it "everything is lost silently" mute_both
    while_it "one direction is lost silently" mute_it
    seconds=1 delay=0.3 awaited=
    while_it "everything is lost while ranks connect" mute_both
}

# walks: whether following the kernels' routes leads from each of these hosts to each other one, in at most two steps.
walks() {
    for from; do
        for to; do
            [ "$from" != "$to" ] || continue
            at=$from steps=0
            while [ "$at" != "$to" ]; do
                at=$(on "$at" ip route get "10.99.0.$to" 2>/dev/null | sed -n 's/.* dev cable\([0-9]*\) .*/\1/p')
                steps=$((steps + 1))
                [ "$at" ] && [ $steps -le 2 ] || return 1
            done
        done
    done
}
# apart FROM... -- TO...: whether none of the first hosts has a route to one of the second.
apart() {
    first=
    while [ "$1" != -- ]; do first="$first $1" && shift; done
    shift
    for from in $first; do
        for to; do no_route "$from" "$to" || return 1; done
    done
}

torus_parts() {
    echo "$suite: a torus is cut in two, joined, and loses a daemon"
    rm -f "$work"/log*
    hosts_anew 9
    torus
    all="1 2 3 4 5 6 7 8 9"
    for number in $all; do daemon "$number"; done
    # shellcheck disable=SC2086  # words
    until_true "the same topology" agree 18 $all
    # In a subshell, which does not tell of their end.
    for number in $all; do (on "$number" "$work/cable" mirror &); done
    # Within each part, and across the cut.
    on 1 "$work/cable" traffic 10.99.0.3 7 >"$work/within1" &
    ends=$!
    on 4 "$work/cable" traffic 10.99.0.8 7 >"$work/within2" &
    ends="$ends $!"
    on 2 "$work/cable" traffic 10.99.0.6 7 >"$work/across" &
    ends="$ends $!"
    sleep 0.5
    cut='1 4 2 5 3 6 7 1 8 2 9 3'
    # shellcheck disable=SC2086  # words
    cut_all() { set -- $cut && while [ $# -gt 0 ]; do "$hosts" "$act" "$set" "$1" "$2" && shift 2; done; }
    began=$(now)
    act=pull cut_all
    until_true "the map of the first part" agree 3 1 2 3
    until_true "the map of the second part" agree 9 4 5 6 7 8 9
    took "both parts have their maps" 3 "$began"
    until_true "no route across the cut" apart 1 2 3 -- 4 5 6 7 8 9
    apart 4 5 6 7 8 9 -- 1 2 3 || complain "routes lead across the cut"
    walks 1 2 3 && walks 4 5 6 7 8 9 || complain "a route within a part is wrong"
    began=$(now)
    act=plug cut_all
    # shellcheck disable=SC2086  # words
    until_true "one map again" agree 18 $all
    took "one map again" 6 "$began"
    # shellcheck disable=SC2086  # words
    until_true "all routes" walks $all
    # shellcheck disable=SC2086  # words
    wait $ends
    read -r sent back gap <"$work/within1"
    read -r sent2 back2 gap2 <"$work/within2"
    read -r _ back3 gap3 <"$work/across"
    echo "    traffic within the parts: $back of $sent and $back2 of $sent2 came back, longest gaps $gap and $gap2 s; across: $gap3 s"
    [ "$back" -gt $((sent - 100)) ] && [ "$back2" -gt $((sent2 - 100)) ] || complain "the cut has stopped traffic within a part"
    [ "$back3" -gt 0 ] || complain "no traffic crossed the joined torus"

    # A pair whose way leads over host 5.
    if goes 2 4 5; then via="2 4"; elif goes 2 6 5; then via="2 6"; elif goes 4 8 5; then via="4 8"; else via="6 8"; fi
    on "${via% *}" "$work/cable" traffic "10.99.0.${via#* }" 5 >"$work/over" &
    ends=$!
    sleep 0.5
    signal 5 KILL
    sleep 0.5
    walks 1 2 3 4 6 7 8 9 || complain "a route is wrong while a daemon is dead"
    sleep 0.5
    daemon 5
    began=$(now)
    # shellcheck disable=SC2086  # words
    until_true "the daemon rejoins" agree 18 $all
    took "the daemon rejoins" 3 "$began" "$(last_event_of 'in the fabric\|is up' 5)"
    # shellcheck disable=SC2086  # words
    until_true "all routes" walks $all
    wait $ends
    read -r sent back gap <"$work/over"
    echo "    traffic over the host whose daemon was killed: $back of $sent came back, longest gap $gap s"
    [ "$back" -gt $((sent - 50)) ] || complain "the death of a daemon has stopped traffic"
}

# relayed KIND N: a cable of hosts 1 and 2 through a relay with this fault, and both daemons.
relayed() {
    rm -f "$work"/log*
    hosts_anew 2
    : >"$work/relayed"
    "$work/cable" relay "$(cat "$set/host1")" cable2 "$(cat "$set/host2")" cable1 "$1" "$2" >"$work/relayed" &
    until_true "the relay" grep -q ready "$work/relayed" || return 1
    until_true "addresses of the cable" settled_addresses 1 2
    for number in 1 2; do daemon "$number" --key "$work/key"; done
    until_true "the link" agree 1 1 2 || return 1
}

# counts LOST DAMAGED DISORDERED DOUBLED: compares the counts of the way there with these; nothing is wrong on the way back.
counts() {
    found=$(tr -d ' ,\n' <"$work/printed" | sed 's/.*"there":{\([^}]*\)}"back":{\([^}]*\)}.*/\1 \2/')
    wanted="\"lost\":$1\"damaged\":$2\"disordered\":$3\"duplicates\":$4 \"lost\":0\"damaged\":0\"disordered\":0\"duplicates\":0"
    [ "$found" = "$wanted" ] || complain "wanted $wanted, found $found"
}

# tested STATUS [OPTION]...: tests the cable of host 1.
tested() {
    wanted=$1 status=0
    shift
    fabric 1 test :cable2 --json --count 200 "$@" >"$work/printed" 2>&1 || status=$?
    [ $status = "$wanted" ] || complain "fabric test: exit status $status, not $wanted"
}

test_parts() {
    echo "$suite: faults that \`selvedge fabric test\` finds"
    head -c 32 /dev/urandom >"$work/key"
    relayed none 0 || return
    tested 0
    counts 0 0 0 0
    tested 0 --size 1500 --rate 2000
    tested 0 --size 136
    tested 1 --size 1501
    grep -q "give 136 to 1500" "$work/printed" || complain "the smallest and largest size are not named"
    ! setpriv --reuid 65534 --regid 65534 --clear-groups "$selvedge" fabric --socket "$work/socket1" test :0 2>>"$work/printed" ||
        complain "any user may test cables"
    fabric 1 test :0 --count 20 >"$work/printed" || complain "a test without --json fails"
    grep -q '20 of 20 frames came back' "$work/printed" || complain "a test prints no result"
    for kind in lose damage delay double; do
        relayed $kind 10 || return
        tested 1
        case $kind in
        lose) counts 20 0 0 0 ;;
        damage) counts 0 20 0 0 ;;
        # A late one is sent after the next.
        delay) counts 0 0 20 0 ;;
        double) counts 0 0 0 20 ;;
        esac
        is_state 1 2 up || complain "the link fell during the test"
    done
    # Without an answer it says so, and does not wait for ever.
    relayed lose 1 || return
    tested 1
    grep -q "host2 does not answer tests: run the same release" "$work/printed" || complain "a neighbour without tests is not named"
    is_state 1 2 up || complain "the link fell during the test"
}

for part in $parts; do
    case $part in
    alltoall) alltoall ;;
    torus) torus_parts ;;
    test) test_parts ;;
    load) ;;
    *) fail "no part $part" ;;
    esac
done
verdict
