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

bars=
[ "${1:-}" != --bars ] || bars=1
tree=${SELVEDGE_PREFIX:-$PWD/build}
selvedge=$tree/bin/selvedge
hosts=$PWD/tests/hosts/hosts.sh
export SELVEDGE_RSH="$PWD/tests/hosts/rsh"
unset SELVEDGE_DIR SELVEDGE_HOST SELVEDGE_HOSTS SELVEDGE_SECRET SELVEDGE_RANK SELVEDGE_SIZE SELVEDGE_JOB SELVEDGE_LOG
reason=$("$hosts" check) || { echo "fabric: left out: $reason" && exit 77; }
work=$(mktemp -d)
chmod 755 "$work"
set=
trap '[ -z "$set" ] || "$hosts" down "$set"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

complain() {
    echo "    $1"
    for log in "$work"/log*; do [ ! -s "$log" ] || { echo "        ${log##*/}:" && tail -5 "$log" | cut -c1-200 | sed 's/^/        /'; }; done
    failed=$((failed + 1))
}

now() { date +%s.%N; }

# took WHAT BAR FROM [TO]: prints a time.
took() {
    seconds=$(echo "$3 ${4:-$(now)}" | awk '{ printf "%.2f", $2 - $1 }')
    echo "    $1: $seconds s (bar $2 s)"
    [ -z "$bars" ] || echo "$seconds $2" | awk '{ exit $1 > $2 }' || complain "$1: above the bar"
}

# until_true WHAT COMMAND [ARGUMENT]...: waits for something that has to come.
until_true() {
    wanted=$1
    shift
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { complain "$wanted: not so after 30 s" && return 1; }
        sleep 0.05
    done
}

on() { "$hosts" on "$set" "$@"; }
fabric() {
    number=$1
    shift
    "$selvedge" fabric --socket "$work/socket$number" "$@"
}

# daemon N [OPTION]...: starts the daemon of a host.
daemon() {
    number=$1
    shift
    # shellcheck disable=SC2016  # for the inner shell
    on "$number" $as sh -c 'echo $$ >"$0"; exec "$@"' "$work/pid$number" "$selvedge" daemon --socket "$work/socket$number" \
        --interface 'cable*' --address "10.99.0.$number" --set-sysctls "$@" </dev/null >"$work/out$number" 2>"$work/log$number" &
}
as=

# signal N NAME: ends the daemon of a host, and waits for its end.
signal() {
    pid=$(cat "$work/pid$1")
    on "$1" kill -s "$2" "$pid"
    until_true "end of daemon $1" sh -c '! "$@" 2>/dev/null' sh "$hosts" on "$set" "$1" kill -0 "$pid"
}

# agree LINKS HOST...: whether these hosts have one map, with all of them and so many links.
agree() {
    links=$1
    shift
    for number in "$@"; do fabric "$number" status 2>/dev/null | sed -n 2p || return 1; done >"$work/maps"
    [ "$(grep -c ": $# hosts, $links link" "$work/maps")" = $# ] && [ "$(sort -u "$work/maps" | wc -l)" = 1 ]
}

# last_event HOST PATTERN: the time of the last event with this text.
last_event() { fabric "$1" log --json | grep -e "$2" | tail -1 | sed 's/.*"at_s":\([0-9.]*\).*/\1/'; }
last_event_of() {
    pattern=$1
    shift
    for number in "$@"; do last_event "$number" "$pattern"; done | sort -n | tail -1
}

# goes HOST TO DEVICE: whether the route of a host to another one leaves by this interface.
goes() { on "$1" ip route get "10.99.0.$2" 2>/dev/null | grep -q "dev cable$3 .*src 10.99.0.$1"; }
no_route() { [ -z "$(on "$1" ip route show "10.99.0.$2" table 7391)" ]; }
is_state() { fabric "$1" status 2>/dev/null | grep -q "cable$2 *$3"; }
# None of the daemon's routes, rules and addresses.
is_clean() { [ -z "$(on "$1" sh -c 'ip route show table 7391 2>/dev/null; ip rule show priority 7391; ip address show label lo:selvedge')" ]; }
# Bytes that a host has sent over the network, which is not a cable.
network_bytes() { on "$1" cat /proc/net/dev | awk '$1 == "eth0:" { print $10 }'; }

# job WHAT [ARGUMENT]...: runs `links` on three hosts, over the fabric.
job() {
    what=$1
    shift
    SELVEDGE_NET_INTERFACE=lo:selvedge timeout -k 10 100 "$selvedge" run --hosts host1,host2,host3 -n 3 --timeout 90 "$work/links" "$@" \
        </dev/null >"$work/printed" 2>&1 || complain "$what: exit status $?: $(tail -3 "$work/printed")"
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
    wait $running || complain "$what: the job's exit status is $?: $(tail -3 "$work/printed")"
    pause=$(sed -n 's/.*: right, longest pause \([0-9.]*\) s$/\1/p' "$work/printed" | sort -n | tail -1)
    [ "$(grep -c ': right' "$work/printed")" = 3 ] || complain "$what: not three ranks were right"
    took "$what: the job ends right; its longest pause" 2 0 "${pause:-0}"
}

cc=${CC:-cc}
command -v "$cc" >/dev/null || { echo "fabric: left out: there is no C compiler" && exit 77; }
"$cc" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$tree/include" tests/hosts/links.c -o "$work/links" -L"$tree/lib" -lportals \
    -Wl,-rpath,"$tree/lib" -lm || exit 1

echo "fabric: three hosts, a triangle"
set=$("$hosts" up 3) || exit 1
export SELVEDGE_TEST_HOSTS="$set"
for pair in '1 2' '2 3' '1 3'; do
    # shellcheck disable=SC2086  # two words
    "$hosts" cable "$set" $pair
done
# Link-local addresses are new: the kernel checks first that no one has them.
settled_addresses() { for number in "$@"; do [ -z "$(on "$number" ip -6 address show tentative)" ] || return 1; done; }
until_true "addresses of the cables" settled_addresses 1 2 3
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
"$hosts" down "$set"
set=

echo "fabric: nine hosts, a torus"
set=$("$hosts" up 9) || exit 1
for number in 1 2 3 4 5 6 7 8 9; do
    row=$(((number - 1) / 3)) column=$(((number - 1) % 3))
    "$hosts" cable "$set" $number $((row * 3 + (column + 1) % 3 + 1))
    "$hosts" cable "$set" $number $(((row + 1) % 3 * 3 + column + 1))
done
all="1 2 3 4 5 6 7 8 9"
# shellcheck disable=SC2086  # words
until_true "addresses of the cables" settled_addresses $all
began=$(now)
for number in $(shuf -i 1-9); do daemon "$number" --key "$work/key"; done
# shellcheck disable=SC2086  # words
until_true "the same topology" agree 18 $all
# shellcheck disable=SC2086  # words
took "the same topology, sealed" 3 "$began" "$(last_event_of 'in the fabric\|is up' $all)"
for number in $all; do
    [ "$(on "$number" ip route show table 7391 | wc -l)" = 8 ] || complain "host $number has not eight routes"
done

[ "$failed" = 0 ] || { echo "fabric: $failed checks failed" >&2 && exit 1; }
echo "fabric: right"
