#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# `selvedge daemon` on test hosts that are joined by cables: a triangle, whose cables and daemons fail while a job runs,
# and a torus of nine hosts. Prints how long each change took; the times are failures only with --bars, because others
# may use the machine.
#
# usage: tests/hosts/fabric.sh [--bars]
#
# The tree is build/, or that of SELVEDGE_PREFIX. Exit status: 77 when test hosts cannot be made.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/hosts/common.sh
. tests/hosts/daemons.sh

# Bytes that a host has sent over the network, which is not a cable.
network_bytes() { on "$1" cat /proc/net/dev | awk '$1 == "eth0:" { print $10 }'; }

# job WHAT [ARGUMENT]...: runs `links` on three hosts, over the fabric.
job() {
    what=$1
    shift
    SELVEDGE_NET_INTERFACE=lo:selvedge timeout -k 10 100 "$selvedge" run --hosts host1,host2,host3 -n 3 --timeout 90 "$work/links" "$@" \
        </dev/null >"$work/printed" 2>&1 || complain "$what: exit status $?"
    [ "$(grep -c ': right' "$work/printed")" = 3 ] || complain "$what: not three ranks were right"
}
# job_with WHAT COMMAND...: runs a job of six seconds, and the command in its midst.
job_with() {
    what=$1
    shift
    : >"$work/printed"
    SELVEDGE_NET_INTERFACE=lo:selvedge timeout -k 10 100 "$selvedge" run --hosts host1,host2,host3 -n 3 --timeout 90 "$work/links" steady 4 \
        </dev/null >"$work/printed" 2>&1 &
    running=$!
    until_true "start of the job" sh -c '[ "$(grep -c " runs$" "$1")" = 3 ]' sh "$work/printed"
    sleep 0.5
    "$@"
    wait $running || complain "$what: the job's exit status is $?"
    pause=$(sed -n 's/.*: right, longest pause \([0-9.]*\) s$/\1/p' "$work/printed" | sort -n | tail -1)
    [ "$(grep -c ': right' "$work/printed")" = 3 ] || complain "$what: not three ranks were right"
    took "$what: the job ends right; its longest pause" 2 0 "${pause:-0}"
}

compile tests/hosts/links.c "$work/links"

echo "fabric: three hosts, a triangle"
hosts_anew 3
triangle
began=$(now)
for number in $(shuf -i 1-3); do daemon "$number"; done
until_true "the same topology" agree 3 1 2 3
took "the same topology" 3 "$began" "$(last_event_of 'in the fabric\|is up' 1 2 3)"
for number in 1 2 3; do
    for other in 1 2 3; do
        [ $number = $other ] || goes $number $other $other || complain "host $number has no route over its cable to host $other"
    done
done
before=$(network_bytes 1)
job "a job over the cables" once
between=$(($(network_bytes 1) - before))
[ $between -lt 30000 ] || complain "the job has sent $between bytes over the network, not over the cables"

pull_it() { pulled=$(now) && "$hosts" pull "$set" 1 2; }
job_with "a cable is pulled" pull_it
took "it was found" 0.3 "$pulled" "$(last_event 2 'cable1.*is down')"
goes 1 2 3 && goes 2 1 3 || complain "the routes do not go over host 3"
"$hosts" plug "$set" 1 2
until_true "the cable's return" agree 3 1 2 3
until_true "the direct route" goes 1 2 2

mute_it() { pulled=$(now) && "$hosts" mute "$set" 1 2; }
if command -v tc >/dev/null && mute_it 2>/dev/null && "$hosts" unmute "$set" 1 2; then
    until_true "the link after a moment" agree 3 1 2 3
    job_with "a cable loses one direction silently" mute_it
    took "it was found" 0.5 "$pulled" "$(last_event 2 'cable1.*is down')"
    goes 1 2 3 && goes 2 1 3 || complain "the routes do not go over host 3"
    "$hosts" unmute "$set" 1 2
    until_true "the return of the direction" agree 3 1 2 3
else
    echo "    left out: the kernel has no queue that loses everything"
fi

kill_it() {
    signal 3 KILL
    [ -n "$(on 3 ip route show table 7391)" ] || complain "the routes went with the daemon"
    daemon 3
}
job_with "a daemon is killed and starts again" kill_it
until_true "the topology after the kill" agree 3 1 2 3

renumber_it() {
    # shellcheck disable=SC2016  # for the inner shell
    on 2 sh -c 'old=$(ip -6 -o address show dev cable1 scope link | awk "{ print \$4 }")
        ip -6 address add fe80::77/64 dev cable1 nodad && ip -6 address del "$old" dev cable1'
}
leads_there() { on 1 ip route show table 7391 | grep -q '^10.99.0.2 via inet6 fe80::77 '; }
job_with "a neighbour's cable takes another address" renumber_it
until_true "the route over the other address" leads_there
logs 1 'cable2 .*the neighbour has another address: fe80::77, before' || complain "the log does not name the other address"
agree 3 1 2 3 || complain "another address has changed the topology"

signal 3 KILL
on 3 hostname other
daemon 3
until_true "a host that returns with another name" agree 3 1 2 3
logs 1 'the cable led to .*, now to' && fabric 1 hosts | grep -q other || complain "the log does not name another host on the cable"
until_true "the route to it" goes 1 3 3
[ "$(routes_of 1)" = 2 ] || complain "a route to the former host is left"
signal 3 KILL
on 3 hostname host3
daemon 3
until_true "its former name" agree 3 1 2 3

fabric 1 link host1:cable2 drain >"$work/printed" || complain "drain is refused"
until_true "the route around a drained link" goes 1 2 3
fabric 1 link :cable2 up >>"$work/printed" || complain "up is refused"
until_true "the route over the link again" goes 1 2 2
fabric 1 link host1:0 down >>"$work/printed"
until_true "a disabled link" agree 2 1 2 3
fabric 1 link host1:0 up >>"$work/printed"
until_true "an enabled link" agree 3 1 2 3
! fabric 1 link host2:cable1 down 2>>"$work/printed" || complain "a port of another host was changed"
! setpriv --reuid 65534 --regid 65534 --clear-groups "$selvedge" fabric --socket "$work/socket1" link :0 down 2>>"$work/printed" ||
    complain "any user may change links"
[ "$(fabric 1 topology --dot | grep -c -e '--')" = 3 ] || complain "the graph has not three links"

signal 3 TERM
until_true "the topology without host 3" agree 1 1 2
is_clean 3 || complain "a daemon that ended has left routes, its rule or its address"
head -c 32 /dev/urandom >"$work/key"
daemon 3 --key "$work/key"
until_true "a neighbour with a key" is_state 1 3 blocked
until_true "a neighbour without a key" is_state 3 1 blocked
agree 1 1 2 || complain "a host with another key is in the fabric"
signal 3 TERM
as="setpriv --bounding-set=-net_admin"
daemon 3
as=
until_true "an observer" agree 3 1 2 3
fabric 3 status | grep -q "observes only" && is_clean 3 || complain "an observer has changed routes"
until_true "no route to an observer" no_route 1 3
for number in 1 2 3; do signal $number TERM; done
for number in 1 2 3; do is_clean $number || complain "routes, rule or address are left on host $number"; done

echo "fabric: nine hosts, a torus"
hosts_anew 9
torus
all="1 2 3 4 5 6 7 8 9"
began=$(now)
for number in $(shuf -i 1-9); do daemon "$number" --key "$work/key"; done
# shellcheck disable=SC2086  # words
until_true "the same topology" agree 18 $all
# shellcheck disable=SC2086  # words
took "the same topology, sealed" 3 "$began" "$(last_event_of 'in the fabric\|is up' $all)"
for number in $all; do
    [ "$(routes_of "$number")" = 8 ] || complain "host $number has not eight routes"
done

verdict
