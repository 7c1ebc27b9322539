# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
#
# `selvedge daemon` on test hosts that are joined by cables, for scripts that have sourced common.sh. Daemon N runs on host N, at
# $work/socketN, with the address 10.99.0.N; its log is $work/logN. With --bars as the script's first argument, times above their
# bars are failures; otherwise they are only printed, because others may use the machine.
bars=
[ "${1:-}" != --bars ] || bars=1

now() { date +%s.%N; }

# took WHAT BAR FROM [TO]: prints a time.
took() {
    seconds=$(echo "$3 ${4:-$(now)}" | awk '{ printf "%.2f", $2 - $1 }')
    echo "    $1: $seconds s (bar $2 s)"
    [ -z "$bars" ] || echo "$seconds $2" | awk '{ exit $1 > $2 }' || complain "$1: above the bar"
}

fabric() {
    number=$1
    shift
    "$selvedge" fabric --socket "$work/socket$number" "$@"
}

# daemon N [OPTION]...: starts the daemon of a host. $as stands before its command.
as=
daemon() {
    number=$1
    shift
    # shellcheck disable=SC2016,SC2086  # for the inner shell; words
    on "$number" $as sh -c 'echo $$ >"$0"; exec "$@"' "$work/pid$number" "$selvedge" daemon --socket "$work/socket$number" \
        --interface 'cable*' --address "10.99.0.$number" --set-sysctls "$@" </dev/null >"$work/out$number" 2>>"$work/log$number" &
}

# signal N NAME: ends the daemon of a host, and waits for its end.
signal() {
    pid=$(cat "$work/pid$1")
    on "$1" kill -s "$2" "$pid"
    until_true "end of daemon $1" sh -c '! "$@" 2>/dev/null' sh "$hosts" on "$set" "$1" kill -0 "$pid"
}

# cables PAIR...: joins hosts, and waits until the cables can be used.
cables() {
    ends=
    for pair; do
        "$hosts" cable "$set" "${pair% *}" "${pair#* }"
        ends="$ends $pair"
    done
    # Link-local addresses are new: the kernel checks first that no one has them.
    # shellcheck disable=SC2086  # words
    until_true "addresses of the cables" settled_addresses $ends
}
settled_addresses() { for number in "$@"; do [ -z "$(on "$number" ip -6 address show tentative)" ] || return 1; done; }
triangle() { cables '1 2' '2 3' '1 3'; }
# torus: nine hosts in three rows and three columns, each joined to four.
torus() {
    for number in 1 2 3 4 5 6 7 8 9; do
        row=$(((number - 1) / 3)) column=$(((number - 1) % 3))
        set -- "$@" "$number $((row * 3 + (column + 1) % 3 + 1))" "$number $(((row + 1) % 3 * 3 + column + 1))"
    done
    cables "$@"
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

# logs HOST PATTERN: whether the log of a host's daemon has this text.
logs() { fabric "$1" log 2>/dev/null | grep -q -e "$2"; }
# goes HOST TO DEVICE: whether the route of a host to another one leaves by this interface.
goes() { on "$1" ip route get "10.99.0.$2" 2>/dev/null | grep -q "dev cable$3 .*src 10.99.0.$1"; }
no_route() { [ -z "$(on "$1" ip route show "10.99.0.$2" table 7391)" ]; }
routes_of() { on "$1" ip route show table 7391 | wc -l; }
is_state() { fabric "$1" status 2>/dev/null | grep -q "cable$2 *$3"; }
# None of the daemon's routes, rules and addresses.
is_clean() { [ -z "$(on "$1" sh -c 'ip route show table 7391 2>/dev/null; ip rule show priority 7391; ip address show label lo:selvedge')" ]; }
