#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The links of a job between two test hosts, as the daemons show them: their frames and bytes are those of a packet
# capture of the cable. The page of a real daemon: an operator acts at a port of another host, a viewer is refused.
#
# usage: tests/hosts/fabric-links.sh
#
# The tree is build/, or that of SELVEDGE_PREFIX. Exit status: 77 when test hosts cannot be made.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/hosts/common.sh
. tests/hosts/daemons.sh
command -v python3 >/dev/null || left_out "there is no python3"
"$tree/bin/oshcc" -std=gnu11 -O2 -Wall -Wextra -Werror tests/hosts/still.c -o "$work/still" || exit 1

# links_of N: prints the sums of the links between hosts of a host's process: open links, frames and bytes out and in,
# damaged and repeated frames.
links_of() {
    fabric "$1" nics --links --json | python3 -c '
import json, sys
ways = [total for nic in json.load(sys.stdin) for total in (nic.get("links") or {}).get("totals", []) if total["way"] == "network"]
names = ["frames_out", "frame_bytes_out", "frames_in", "frame_bytes_in", "damaged", "repeats"]
print(*[way["states"].get("open", 0) for way in ways], *[sum(way[name] for way in ways) for name in names])'
}
# is_still: whether both hosts say twice the same; a look is no older than half a second.
is_still() {
    for number in 1 2; do links_of $number; done >"$work/before"
    sleep 0.6
    for number in 1 2; do links_of $number; done >"$work/after"
    cmp -s "$work/before" "$work/after" && [ "$(grep -c '^1 ' "$work/after")" = 2 ]
}
# page NAME ARGUMENT...: a request to the page of host 1.
page() { on 1 python3 tests/hosts/fabric_page.py 127.0.0.1:7399 "$1" secret-of-tests "$2" "$3" ${4:+"$4"} >"$work/printed" 2>&1; }
# says N PATTERN: whether the page has answered with this status, and so.
says() { grep -q -e "^$1 .*$2" "$work/printed"; }

echo "$suite: two hosts, a cable"
hosts_anew 2
cables '1 2'
head -c 32 /dev/urandom >"$work/key"
for user in 'ann operator' 'vic viewer'; do
    # shellcheck disable=SC2086  # two words
    echo secret-of-tests | "$selvedge" daemon passwd "$work/users" $user >/dev/null || complain "no user of the page"
done
daemon 1 --key "$work/key" --users "$work/users" --web 127.0.0.1:7399 --web-plain
daemon 2 --key "$work/key" --web off
until_true "the same topology" agree 1 1 2
# Processes find the daemon of their host at the system's socket.
# shellcheck disable=SC2016
for number in 1 2; do on $number sh -c 'mount -t tmpfs tmpfs /run && ln -s "$0" /run/selvedge-daemon.sock' "$work/socket$number"; done

echo "$suite: links of a job, and a capture of its cable"
: >"$work/capture.err"
# shellcheck disable=SC2016  # for the inner shell
on 1 sh -c 'echo $$ >"$0"; exec "$@"' "$work/capture.pid" "$selvedge" fabric --socket "$work/socket1" capture :cable2 "$work/cable.pcapng" \
    >"$work/captured" 2>"$work/capture.err" &
capturing=$!
until_true "the capture" grep -q captures "$work/capture.err"
: >"$work/job"
SELVEDGE_NET_INTERFACE=lo:selvedge timeout -k 10 100 "$selvedge" run --hosts host1,host2 -n 2 --timeout 90 \
    "$work/still" "$work/go" </dev/null >"$work/job" 2>&1 &
running=$!
# shellcheck disable=SC2016
until_true "all is still" sh -c '[ "$(grep -c "is still" "$0")" = 2 ]' "$work/job"
until_true "counters that stay" is_still
on 1 kill -s INT "$(cat "$work/capture.pid")"
wait $capturing || complain "the capture fails"
grep -q ' 0 dropped' "$work/captured" || complain "the kernel has dropped packets of the capture"
for number in 1 2; do links_of $number; done >"$work/after"
cmp -s "$work/before" "$work/after" || complain "frames came after the capture"
python3 tests/hosts/frames.py "$work/cable.pcapng" >"$work/frames" || complain "the capture cannot be read"
cp "$work/frames" "$work/printed"
# The counters of both ends, as the capture has them.
python3 -c '
import json, sys
found = json.load(open(sys.argv[1]))
there, back = ([found[way]["frames"], found[way]["frame_bytes"]] for way in ("10.99.0.1 10.99.0.2", "10.99.0.2 10.99.0.1"))
for numbers in ([1, *there, *back, 0, 0], [1, *back, *there, 0, 0]):
    print(*numbers)' "$work/frames" >"$work/wanted" || complain "the capture has no frames of both directions"
cmp -s "$work/wanted" "$work/after" || { cat "$work/wanted" "$work/after" >>"$work/printed" && complain "the counters are not those of the capture"; }
echo "    frames and bytes there and back: $(head -1 "$work/after" | cut -d' ' -f2-5), as in the capture"
fabric 1 nics --links >"$work/printed" || complain "no links as text"
grep -q ' 0 *\(1\|10.99.0.2:[0-9]*\|host [0-9]* pid [0-9]*\) *network *open ' "$work/printed" || complain "the link is not in the table"

# Another user does not see them, here or at the other host.
if setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null; then
    as_stranger() { on 1 setpriv --reuid 65534 --regid 65534 --clear-groups "$selvedge" fabric --socket "$work/socket1" "$@" >"$work/printed" 2>&1; }
    as_stranger nics --links && grep -q 'are not seen: only this user' "$work/printed" && ! grep -q ' network ' "$work/printed" ||
        complain "any user sees all links"
    as_stranger nics --at host2 && grep -q openshmem "$work/printed" || complain "not any user sees the NICs of the other host"
    ! as_stranger nics --links --at host2 && grep -q 'only root and the daemon.s own user' "$work/printed" || complain "any user sees links of the other host"
    ! as_stranger test host2:cable1 && grep -q 'only root and the daemon.s own user' "$work/printed" || complain "any user tests cables of the other host"
fi

echo "$suite: the page"
page vic get '/api/nics' && says 200 '"frames_out":[1-9]' || complain "the page has no counters of links"
grep -q '"host":"host2"' "$work/printed" || complain "the page has no NIC of the other host"
page vic get /metrics && grep -q '^selvedge_process_sent_frames_total{.*way="network"} [1-9]' "$work/printed" || complain "no metrics of links"
command -v promtool >/dev/null && { sed '1s/^200 //' "$work/printed" | promtool check metrics >"$work/checked" 2>&1 || complain "promtool: $(cat "$work/checked")"; }
: >"$work/go"
wait $running || { cp "$work/job" "$work/printed" && complain "the job's exit status is $?"; }

echo "$suite: a long name of a job"
on 1 env SLURM_JOB_ID="$(printf 'first%0150dlast' 7)" "$work/still" "$work/later" </dev/null >"$work/job" 2>&1 &
running=$!
has_short() { fabric 1 nics | grep -q ' first0*\.\.\.0*7last .*openshmem'; }
until_true "a NIC whose job's name is shortened" has_short
: >"$work/later"
wait $running || { cp "$work/job" "$work/printed" && complain "a process without a launcher: exit status $?"; }

echo "$suite: acts on the page"
drain='{"host":"host2","port":0,"act":"drain"}'
page vic post /api/link "$drain" && says 403 'vic is a viewer' || complain "a viewer acts"
! logs 2 'drained' || complain "a viewer's act was done"
page ann post /api/link "$drain" && says 200 'drained by an operator' || complain "an operator's act at another host"
logs 2 'ann asks, on the page: drain of link' || complain "the log of the other host does not name the user"
# shellcheck disable=SC2016
until_true "the drained port" sh -c '"$@" | grep -q "cable1 *up, drained"' sh "$selvedge" fabric --socket "$work/socket2" status
page ann post /api/link '{"host":"host2","port":0,"act":"up"}' && says 200 'enabled by an operator' || complain "the end of a drain"
page vic get '/api/log?host=host2' && says 200 'ann asks' || complain "a viewer does not see the log of the other host"

echo "$suite: tests of a cable of another host"
fabric 1 test host2:cable1 --count 100 --rate 500 >"$work/printed" 2>&1 || complain "a test at another host"
grep -q '^cable1 to host1: 100 of 100 frames came back' "$work/printed" || complain "the result of a test at another host"
logs 2 'a test by an operator begins: 100 frames' || complain "the test is not in the log of its host"
verdict
