#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Faults of a fabric of `selvedge daemon`: an MPI all-to-all while a cable fails in each way (alltoall.c), and while ranks
# still connect; a torus that is cut in two and joined again, and whose daemon is killed; what `selvedge fabric test`
# finds on a cable that loses, damages, delays and doubles frames (cable.c); loads against what a sink has got.
# Prints times and counts; times are failures only with --bars. With --runs N the all-to-all runs N times.
#
# usage: tests/hosts/fabric-faults.sh [--bars] [--runs N] [PART]...      PART: alltoall, torus, test, hostile, load
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
parts=${*:-alltoall torus test hostile load}

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
    until_true "the cable's return" agree 3 1 2 3 || for number in 1 2 3; do fabric "$number" status; done
    until_true "the direct route" goes 1 2 2
    until_true "the direct route back" goes 2 1 1
    # A link that falls often is blocked for a while.
    [ "$runs" = 1 ] || sleep 5
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
    for number in $all; do ("$hosts" on "$set" "$number" "$work/cable" mirror &); done
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
    most "$back" "$sent" 100 && most "$back2" "$sent2" 100 || complain "the cut has stopped traffic within a part"
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
    most "$back" "$sent" 50 || complain "the death of a daemon has stopped traffic"
}

# most BACK SENT LOST: whether at most so many datagrams were lost; without --bars, whether half of them came back.
most() { if [ "$bars" ]; then [ "$1" -gt $(($2 - $3)) ]; else [ $((2 * $1)) -gt "$2" ]; fi; }

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
    [ -c /dev/net/tun ] || { echo "    left out: there is no /dev/net/tun" && return; }
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

# port_count NAME: a count of the daemon of host 1 at its first port, the one to host 2.
port_count() { fabric 1 status --json | sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" | head -1; }
grows() { [ "$(port_count "$1")" -gt "$2" ]; }

# flooded KIND COUNTER [FILE]: floods host 1 from host 2, over the cable that carries their link. This counter grows, and the log has
# few lines. The link stays up, and the daemon's memory does not grow.
flooded() {
    falls=$(port_count drops) refused=$(port_count "$2") lines=$(fabric 1 log | wc -l)
    on 2 "$work/cable" flood cable1 "$1" 10000 10000 ${3:+"$3"}
    until_true "counts of the flood, $1" grows "$2" "$refused"
    # Beside others, who may take the processors for longer than the time of silence, it is enough that the link comes back.
    [ -z "$bars" ] || [ "$(port_count drops)" = "$falls" ] || complain "flood, $1: the link fell"
    until_true "the topology after the flood, $1" agree 3 1 2 3
    more=$(($(fabric 1 log | wc -l) - lines))
    [ $more -le 6 ] || complain "flood, $1: $more lines in the log"
    resident=$(on 1 sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(cat "$work/pid1")/status")
    echo "    10,000 datagrams in a second, $1: $(($(port_count "$2") - refused)) $2, $more lines in the log, $resident KiB"
    [ "$resident" -le 20480 ] || complain "flood, $1: the daemon has $resident KiB"
}

hostile_parts() {
    echo "$suite: hostile datagrams, wrong cables and names"
    head -c 32 /dev/urandom >"$work/key"
    for key in "--key $work/key" ''; do
        rm -f "$work"/log*
        hosts_anew 3
        triangle
        # Hellos of daemon 2, before daemon 1 runs.
        # shellcheck disable=SC2086  # words
        daemon 2 $key
        until_true "daemon 2" is_state 2 1 probing
        on 1 "$work/cable" record cable2 "$work/recorded" 10 || complain "no datagrams are recorded"
        # shellcheck disable=SC2086  # words
        for number in 1 3; do daemon $number $key; done
        until_true "the same topology" agree 3 1 2 3
        for kind in random ${key:+header huge}; do flooded $kind frames_refused; done
        flooded forged frames_refused "$work/recorded"
        [ ! "$key" ] || flooded replay replays "$work/recorded"
        logs 1 "cable2 (port 0): datagrams are refused: [0-9]* damaged or malformed" || complain "the floods are not in the log"
        # Whatever was sent, the cable carries what it carried.
        ("$hosts" on "$set" 2 "$work/cable" mirror &)
        on 1 "$work/cable" traffic 10.99.0.2 1 >"$work/over"
        read -r sent back _ <"$work/over"
        most "$back" "$sent" 5 || complain "after the floods $back of $sent datagrams came back"
    done
    # Lines to the socket.
    for line in '' '{}' '{"ask":"link","port":":0","act":"burn"}' "$(head -c 3000 /dev/zero | tr '\0' '[')"; do
        said=$("$work/cable" ask "$work/socket1" "$line")
        case $said in *refused*) ;; *) complain "a wrong line gives: $said" ;; esac
    done
    # Another release at the third host, and a cable from host 1 to itself.
    signal 3 TERM
    until_true "the topology without host 3" agree 1 1 2
    on 3 "$work/cable" flood cable1 version 20 20
    logs 1 'cable3.*blocked: the neighbour speaks version 2: run the same release' || complain "another release is not named"
    on 1 sh -c 'ip link add cableA type veth peer name cableB && ip link set cableA up && ip link set cableB up'
    until_true "a cable to the own host" logs 1 'blocked: the cable leads back to'
    agree 1 1 2 || complain "a wrong cable has disturbed the others"
    # Two hosts of one name: with one machine id they have one number, with two they are two hosts.
    on 3 hostname host2
    # shellcheck disable=SC2086  # words
    daemon 3 $key
    until_true "two hosts with one number" logs 3 "has this host's number"
    goes 1 2 2 || complain "a host of the same number has taken a route away"
    signal 3 TERM
    echo 0123456789abcdef0123456789abcdef >"$work/machine-id"
    on 3 mount --bind "$work/machine-id" /etc/machine-id || complain "/etc/machine-id cannot be replaced"
    # shellcheck disable=SC2086  # words
    daemon 3 $key
    until_true "two hosts with one name" agree 3 1 2 3
    logs 1 'are both named host2: rename one' || complain "two hosts with one name are not named"
}

# traffic_of: frames and bytes that the daemon of host 1 has counted at its cable, in both directions.
traffic_of() {
    fabric 1 status --json | awk -F '[:,]' '/_packets"/ { frames += $2 } /(sent|received)_bytes"/ { bytes += $2 } END { print frames, bytes }'
}

# captures_alike: whether a capture of a cable has as many frames and bytes as the daemon counts. The links are off, so no hello comes
# between.
captures_alike() {
    sleep 1.2
    before=$(traffic_of)
    : >"$work/capturing" >"$work/sunk"
    on 1 "$selvedge" fabric --socket "$work/socket1" capture :cable2 "$work/capture.pcapng" --seconds 3 --json >"$work/captured" 2>"$work/capturing" &
    capturing=$!
    until_true "the capture" grep -q captures "$work/capturing"
    on 1 "$work/cable" traffic 10.98.0.2 1 >/dev/null
    on 2 "$work/cable" sink >"$work/sunk" &
    sinking=$!
    until_true "the sink" grep -q ready "$work/sunk"
    on 1 "$work/cable" stream 10.98.0.2 0.3
    wait $sinking $capturing
    sleep 1.2
    after=$(traffic_of)
    found=$(sed -n 's/.*"\(frames\|bytes\|dropped\)": \([0-9]*\).*/\2/p' "$work/captured" | tr '\n' ' ')
    counted=$(echo "$before $after" | awk '{ print $3 - $1, $4 - $2, 0, "" }')
    [ "$found" = "$counted" ]
}

load_parts() {
    echo "$suite: loads and counters of a link"
    rm -f "$work"/log*
    hosts_anew 2
    cables '1 2'
    for number in 1 2; do daemon "$number"; done
    until_true "the link" agree 1 1 2
    # Each packet is counted with its headers: no large ones, whose headers the counters have once.
    for pair in '1 2' '2 1'; do on "${pair% *}" ip link set "cable${pair#* }" gso_max_segs 1 gso_max_size 1500; done
    if on 1 tc qdisc add dev cable2 root tbf rate 20mbit burst 16k latency 50ms 2>/dev/null; then
        : >"$work/sunk"
        on 2 "$work/cable" sink >"$work/sunk" &
        sinking=$!
        until_true "the sink" grep -q ready "$work/sunk"
        on 1 "$work/cable" stream 10.99.0.2 6 &
        streaming=$!
        sleep 2.5
        shown=
        for _ in 1 2 3; do
            shown="$shown $(fabric 1 links --json | awk -F '[:,]' '/"sent_bytes_s"/ && $2 + 0 > most { most = $2 + 0 } END { print most + 0 }')"
            sleep 1
        done
        wait $streaming $sinking
        # 1,448 bytes of each 1,514 are the program's.
        sed -n 2p "$work/sunk" | awk -v shown="$shown" '{ got = $1 / $2 * 1514 / 1448; n = split(shown, of, " ")
            for (i = 1; i <= n; i++) sum += of[i]
            printf "    a stream limited to 20 Mbit/s: %.0f B/s shown, %.0f B/s taken by the sink with headers: %+.1f %% (bar 5 %%)\n", sum / n, got, (sum / n / got - 1) * 100
            exit !(sum / n / got > 0.95 && sum / n / got < 1.05) }' || [ -z "$bars" ] || complain "the bandwidth shown is not the sink's"
        on 1 tc qdisc delete dev cable2 root
    else
        echo "    left out: the kernel has no tbf"
    fi
    for pair in '1 2' '2 1'; do
        fabric "${pair% *}" link ":cable${pair#* }" down >"$work/printed"
        on "${pair% *}" ip address add "10.98.0.${pair% *}/24" dev "cable${pair#* }"
    done
    ("$hosts" on "$set" 2 "$work/cable" mirror &)
    # A message of the kernel about addresses may come between, though seldom.
    captures_alike || captures_alike || captures_alike || complain "captured: $found; counted: $counted"
    echo "    frames, bytes and lost ones of a capture: $found; of the daemon's counters: $counted"
    if command -v tcpdump >/dev/null; then
        [ "$(tcpdump -r "$work/capture.pcapng" 2>/dev/null | wc -l)" = "${found%% *}" ] || complain "tcpdump reads another number of packets"
    else
        echo "    left out: there is no tcpdump"
    fi
    on 1 "$selvedge" fabric --socket "$work/socket1" capture :cable2 "$work/few.pcapng" --frames 3 --snap 60 --seconds 20 >"$work/printed" 2>&1 &
    capturing=$!
    sleep 0.5
    on 1 "$work/cable" traffic 10.98.0.2 0.2 >/dev/null
    wait $capturing || complain "a capture with limits fails"
    grep -q '3 packets' "$work/printed" || complain "a capture does not end at its limit"
    if on 1 setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-net_raw "$selvedge" fabric --socket "$work/socket1" \
        capture :cable2 /dev/null >"$work/printed" 2>&1; then complain "any user may capture"; fi
}

for part in $parts; do
    case $part in
    alltoall) alltoall ;;
    torus) torus_parts ;;
    test) test_parts ;;
    hostile) hostile_parts ;;
    load) load_parts ;;
    *) fail "no part $part" ;;
    esac
done
verdict
