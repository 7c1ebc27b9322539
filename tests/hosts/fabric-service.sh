#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The services of `selvedge daemon` on three test hosts that are joined as a triangle: requests to other hosts, with and
# without a key; routes, loads, the cabling that should be, restart; NICs of a job, and routes that are leased to it and
# withdrawn.
#
# usage: tests/hosts/fabric-service.sh
#
# The tree is build/, or that of SELVEDGE_PREFIX. Exit status: 77 when test hosts cannot be made.
set -u
cd "$(dirname "$0")/../.." || exit 1

tree=${SELVEDGE_PREFIX:-$PWD/build}
selvedge=$tree/bin/selvedge
hosts=$PWD/tests/hosts/hosts.sh
export SELVEDGE_RSH="$PWD/tests/hosts/rsh"
unset SELVEDGE_DIR SELVEDGE_HOST SELVEDGE_HOSTS SELVEDGE_SECRET SELVEDGE_RANK SELVEDGE_SIZE SELVEDGE_JOB SELVEDGE_LOG XDG_RUNTIME_DIR
reason=$("$hosts" check) || { echo "fabric-service: left out: $reason" && exit 77; }
work=$(mktemp -d)
chmod 755 "$work"
set=
trap '[ -z "$set" ] || "$hosts" down "$set"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

complain() {
    echo "    $1"
    [ ! -s "$work/printed" ] || tail -5 "$work/printed" | cut -c1-200 | sed 's/^/        /'
    for log in "$work"/log*; do [ ! -s "$log" ] || { echo "        ${log##*/}:" && tail -5 "$log" | cut -c1-200 | sed 's/^/        /'; }; done
    failed=$((failed + 1))
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
# fabric N ARGUMENT...: asks the daemon of a host at the socket that processes find.
fabric() {
    number=$1
    shift
    on "$number" "$selvedge" fabric "$@" >"$work/printed" 2>&1
}
# has N PATTERN ARGUMENT...: whether the answer has a line with this pattern.
has() {
    pattern=$2
    number=$1
    shift 2
    fabric "$number" "$@" && grep -q -e "$pattern" "$work/printed"
}
# refused N PATTERN ARGUMENT...: whether the command fails, and says so.
refused() {
    pattern=$2
    number=$1
    shift 2
    ! fabric "$number" "$@" && grep -q -e "$pattern" "$work/printed"
}

# daemon N [KEY]: starts the daemon of a host by a file.
daemon() {
    {
        echo "interfaces = ['cable*']"
        echo "address = '10.99.0.$1'"
        echo "set_sysctls = true"
        [ -z "${2:-}" ] || echo "key = '$2' # beside this file"
    } >"$work/daemon$1.toml"
    # shellcheck disable=SC2016  # for the inner shell
    on "$1" sh -c 'echo $$ >"$0"; exec "$@"' "$work/pid$1" "$selvedge" daemon --config "$work/daemon$1.toml" --sysfs "$work/sysfs$1" \
        </dev/null >"$work/out$1" 2>"$work/log$1" &
}
# signal N NAME: ends the daemon of a host, and waits for its end.
signal() {
    pid=$(cat "$work/pid$1")
    on "$1" kill -s "$2" "$pid"
    until_true "end of daemon $1" sh -c '! "$@" 2>/dev/null' sh "$hosts" on "$set" "$1" kill -0 "$pid"
}
# agree LINKS: whether all hosts have one map with so many links.
agree() {
    for number in 1 2 3; do fabric $number status && sed -n 2p "$work/printed" || return 1; done >"$work/maps"
    [ "$(grep -c ": 3 hosts, $1 link" "$work/maps")" = 3 ] && [ "$(sort -u "$work/maps" | wc -l)" = 1 ]
}
settled_addresses() { for number in 1 2 3; do [ -z "$(on $number ip -6 address show tentative)" ] || return 1; done; }
routes() { on "$1" ip route show table 7391 | wc -l; }

echo "fabric-service: three hosts, a triangle"
set=$("$hosts" up 3) || exit 1
export SELVEDGE_TEST_HOSTS="$set"
for pair in '1 2' '2 3' '1 3'; do
    # shellcheck disable=SC2086  # two words
    "$hosts" cable "$set" $pair
done
for number in 1 2 3; do
    # Each host has its own folder of sockets, and its own sensors.
    on $number mount -t tmpfs tmpfs /run
    mkdir -p "$work/sysfs$number/class/thermal/z0" "$work/sysfs$number/class/net/cable2/queues/tx-0/byte_queue_limits"
    echo "4${number}000" >"$work/sysfs$number/class/thermal/z0/temp"
    echo 10000 >"$work/sysfs$number/class/net/cable2/speed"
    echo 1500 >"$work/sysfs$number/class/net/cable2/queues/tx-0/byte_queue_limits/inflight"
done
until_true "addresses of the cables" settled_addresses
head -c 32 /dev/urandom >"$work/key"
for number in 1 2 3; do daemon $number key; done
until_true "the same topology" agree 3

has 1 '^frames are sealed' status || complain "the file's key is not taken"
has 1 'host1 - host2$' routes host1 host2 || complain "the way from host 1 to host 2"
has 1 '^kernel: 10.99.0.2 via inet6 fe80.* dev cable2 table 7391' routes host1 host2 || complain "the kernel's route"
has 1 '^source route, up-down: ports [0-9]*: host1 - host2$' routes host1 host2 || complain "the source route"
has 1 'host2 - host3$' routes host2 host3 || complain "the way between two others"
refused 1 'host9 is not in the fabric' routes host1 host9 || complain "a way to no host"
until_true "the temperature of host 1 at host 2" has 2 '^ *host1 .* 41$' hosts
until_true "the queue of a cable" has 2 '"queue_bytes": 1500' links --json
until_true "the load of a cable whose speed is known" has 2 '"load_percent": [0-9]' links --json
until_true "the round trip of a cable" has 2 '"round_trip_us": [0-9]' links --json
loads() { fabric 1 load && [ "$(grep -c 'cpu %' "$work/printed")" = 3 ] && [ "$(grep -c 'B/s' "$work/printed")" = 6 ]; }
until_true "loads of three hosts and six ends" loads
has 1 'kernel: 10.99.0.3' dump routes || complain "the dump of routes"

echo "fabric-service: other hosts"
has 1 '^host2: host' status --at host2 || complain "the status of another host"
has 1 'in the fabric' log --at host3 || complain "the log of another host"
fabric 1 link host2:cable3 down || complain "a link of another host is not changed"
until_true "the link that another host disabled" agree 2
has 2 'disabled by an operator' log || complain "the act is not in the log of its host"
fabric 1 link host2:cable3 up
until_true "the link that another host enabled" agree 3
# A log of another host that is followed, until its reader goes.
on 1 "$selvedge" fabric log -f --at host2 >"$work/followed" 2>&1 &
follower=$!
until_true "the followed log" grep -q 'in the fabric' "$work/followed"
fabric 3 link host2:cable1 drain
until_true "a new line of the followed log" grep -q 'drained by an operator' "$work/followed"
kill $follower
fabric 2 link host2:cable1 up
setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null && {
    ! on 1 setpriv --reuid 65534 --regid 65534 --clear-groups "$selvedge" fabric link host2:cable1 down >"$work/printed" 2>&1 ||
        complain "any user may change links of other hosts"
    on 1 setpriv --reuid 65534 --regid 65534 --clear-groups "$selvedge" fabric hosts >"$work/printed" 2>&1 || complain "not any user may read"
}

echo "fabric-service: restart"
before=$(cat "$work/pid2") kept=$(routes 2)
fabric 1 restart host2 || complain "a restart is refused"
until_true "the daemon anew" sh -c '[ "$(grep -c ready "$0")" = 2 ]' "$work/out2"
[ "$(routes 2)" = "$kept" ] || complain "routes went with the restart"
until_true "the topology after the restart" agree 3
on 2 kill -0 "$before" || complain "another process runs"

echo "fabric-service: cabling"
fabric 1 topology --json
cp "$work/printed" "$work/topology"
fabric 1 import "$work/topology" || complain "the cabling of now is refused"
[ "$(grep -c ': 2 cables' "$work/printed")" = 3 ] || complain "not three hosts were told"
! has 1 'expected' log || complain "a warning about right cabling"
sed 's/"port": 1,/"port": 7,/' "$work/topology" >"$work/other"
fabric 1 import "$work/other" || complain "other cabling is refused"
for number in 1 2 3; do has $number 'warning: .*expected.*check the cabling' log || complain "host $number does not warn about its cabling"; done
refused 1 'give what' import "$work/daemon1.toml" || complain "a file that is no topology"

echo "fabric-service: NICs and leases"
SELVEDGE_NET_INTERFACE=lo:selvedge timeout -k 10 100 "$selvedge" palms stream --hosts host1,host2 --size 4096 --count 300 --pause 20000 \
    </dev/null >"$work/job" 2>&1 &
running=$!
until_true "a NIC with its lease" has 1 'extoll.*host1 *host2' nics
has 1 ' 0 *extoll ' nics || complain "the rank of the NIC"
nic=$(awk '/extoll/ { print $1 }' "$work/printed")
has 1 'mailbox_write_pointers' dump nic --nic "$nic" || complain "the registers of the NIC"
has 1 'mailbox' dump mailbox --nic "$nic" && ! grep -q requests "$work/printed" || complain "the mailboxes of the NIC"
has 2 'extoll' nics --at host1 || complain "the NICs of another host"
has 1 'lease [0-9]*: to host2' dump routes || complain "the lease among the routes"
refused 1 'no NIC 999' dump nic --nic 999 || complain "a NIC that is none"
"$hosts" pull "$set" 1 2
until_true "the route over host 3" has 1 'host1 - host3 - host2' routes host1 host2
sleep 1
"$hosts" plug "$set" 1 2
wait $running || { cp "$work/job" "$work/printed" && complain "the job's exit status is $?"; }
grep -q 'rank 0 sent 300 messages.*routes were withdrawn and renewed' "$work/job" || { cp "$work/job" "$work/printed" && complain "no route was withdrawn"; }
grep -q 'rank 1 received 300 messages' "$work/job" || { cp "$work/job" "$work/printed" && complain "messages are missing"; }
until_true "no NIC after the job" sh -c '! "$@" | grep -q extoll' sh "$hosts" on "$set" 1 "$selvedge" fabric nics
! has 1 'lease' dump routes || complain "a lease is left"

echo "fabric-service: without a key"
for number in 1 2 3; do signal $number TERM; done
for number in 1 2; do daemon $number; done
daemon 3 key
until_true "two hosts without a key" has 1 ': 2 hosts, 1 link' status
has 1 '^host2: host' status --at host2 || complain "reading needs a key"
refused 1 'start the daemons of all hosts with --key FILE' link host2:cable1 down || complain "an act without a key"
refused 1 'start the daemons of all hosts with --key FILE' restart host2 || complain "a restart without a key"
signal 2 TERM
printf 'interfaces = ["cable*"]\nadress = "10.99.0.2"\n' >"$work/wrong.toml"
! on 2 "$selvedge" daemon --config "$work/wrong.toml" >"$work/printed" 2>&1 || complain "a wrong file is taken"
grep -q 'wrong.toml:2: unknown field .adress.' "$work/printed" || complain "the wrong file's line is not named"

[ "$failed" = 0 ] || { echo "fabric-service: $failed checks failed" >&2 && exit 1; }
echo "fabric-service: right"
