#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Test hosts: several hosts on one machine. Each is a process with its own network, UTS, IPC, PID and mount namespaces,
# its own /proc, /dev/shm and name (host1, host2, ...). A bridge in a separate network namespace joins them; the
# addresses are 10.77.0.1 and so on. Files, /tmp too, are those of the machine, as if all hosts had mounted one file
# system; each host has its own folder for temporary ones, because Open MPI 5 makes files there whose names have a
# process id and no host. Needs root, util-linux, iproute2.
#
#     hosts.sh hold N     makes N hosts, prints the folder of the set, and keeps them until its standard input ends
#     hosts.sh up N       the same in the background, until `down`; prints the folder
#     hosts.sh down SET   removes a set made by `up`
#     hosts.sh login SET COMMAND [ARGS]...
#                         runs a command on the login node, 10.77.255.1: the machine itself, except for name and network. Launchers that
#                         talk to their agents over the network, such as those of the MPIs, run there
#     hosts.sh on SET N COMMAND [ARGS]...
#                         runs a command on a host, in this folder and with this environment, except for TMPDIR
#     hosts.sh cut SET N  cuts the network of a host permanently
#     hosts.sh cable SET A B
#                         joins two hosts by a cable, beside the network: interface cableB at host A, cableA at host B
#     hosts.sh uncable SET A B
#                         removes it, with its interfaces
#     hosts.sh pull SET A B, plug SET A B
#                         takes its carrier away, by shutting the interface of A down, and brings it back
#     hosts.sh mute SET A B, unmute SET A B
#                         loses silently all that A sends over it; ends that
#     hosts.sh check      whether hosts can be made here: 0, or 77 and the reason
#
# `rsh` beside this script runs a command on a host, with SELVEDGE_TEST_HOSTS set to the folder of the set. On a host it
# needs Python 3 (`rshd.py`).
#
# 1. Everything in a set belongs to its processes, except for its folder: when they end, the kernel removes namespaces,
#    links and mounts. They end with the keeper (`hosts.sh hold`), whatever ends it.
# 2. Sets are independent, so any number of them can exist. The folder has the keeper's process id in its name.
# 3. The next set that is made removes folders of dead keepers.
set -eu

prefix=${TMPDIR:-/tmp}/selvedge-hosts
self=$0

fail() {
    echo "hosts.sh: $*" >&2
    exit 1
}

# Prints the reason why hosts cannot be made here, or nothing.
missing() {
    [ "$(id -u)" -eq 0 ] || { echo "only root may make test hosts" && return; }
    for tool in ip unshare nsenter setpriv mount; do
        command -v "$tool" >/dev/null 2>&1 || { echo "$tool is not installed (Debian: iproute2, util-linux)" && return; }
    done
    unshare --net --uts --ipc --pid --mount --fork sh -c 'ip link add probe type bridge && ip link add left type veth peer name right &&
        mount -t tmpfs tmpfs /dev/shm && mount -t proc proc /proc' >/dev/null 2>&1 ||
        echo "this system does not allow namespaces, bridges or mounts"
}

# Starts a process in its own namespaces. It and all others there end with the calling process. Writes its id in this
# namespace to a file.
#     enclosed FILE SCRIPT [ARGS]
enclosed() {
    into=$1
    script=$2
    shift 2
    # The process of unshare's child: the first of its PID namespace.
    setpriv --pdeathsig KILL unshare --net --uts --ipc --pid --mount --propagation private --fork --kill-child -- \
        sh -c "$script" enclosed "$@" </dev/null >/dev/null &
    outer=$!
    tries=0
    until inner=$(cat "/proc/$outer/task/$outer/children" 2>/dev/null) && [ -n "$inner" ]; do
        kill -0 "$outer" 2>/dev/null && [ $tries -lt 6000 ] || fail "namespaces cannot be made"
        tries=$((tries + 1))
        sleep 0.01
    done
    echo "$inner" | tr -d ' ' >"$into"
}

# Waits until the first process of a host has made its mounts.
await() {
    tries=0
    until [ -e "$1" ]; do
        [ $tries -lt 6000 ] || fail "$1 is missing: a host did not start"
        tries=$((tries + 1))
        sleep 0.01
    done
}

# The first process of a host: has its mounts, and reaps orphans.
first_process='
    set -eu
    hostname "$1"
    mount -t proc proc /proc
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount --bind "$2/hosts" /etc/hosts
    ip link set lo up
    : >/dev/shm/.test-host # for rsh
    : >"$2/$1.up"
    while :; do sleep 1000000 & wait $! || :; done'

# The first process of the namespace that holds the bridge. It is the login node, too: it sees the processes of the
# machine, so `rsh` works there.
login_process='
    set -eu
    hostname login
    mount --bind "$1/hosts" /etc/hosts
    ip link set lo up
    ip link add bridge type bridge
    ip address add 10.77.255.1/16 dev bridge
    ip link set bridge up
    : >"$1/switch.up"
    while :; do sleep 1000000 & wait $! || :; done'

make_hosts() {
    count=$1
    case $count in '' | *[!0-9]* | 0) fail "number of hosts: expected 1 to 99" ;; esac
    [ "$count" -le 99 ] || fail "number of hosts: expected 1 to 99"
    reason=$(missing)
    [ -z "$reason" ] || { echo "hosts.sh: $reason" >&2 && exit 77; }
    for folder in "$prefix".*; do
        [ ! -d "$folder" ] || [ -d "/proc/${folder##*.}" ] || rm -rf "$folder"
    done
    set=$prefix.$$
    rm -rf "$set"
    mkdir -m 755 "$set"
    trap 'rm -rf "$set"' EXIT
    trap 'exit 1' HUP INT TERM
    {
        echo "127.0.0.1 localhost"
        echo "10.77.255.1 login"
        for number in $(seq "$count"); do echo "10.77.0.$number host$number"; done
    } >"$set/hosts"
    enclosed "$set/switch" "$login_process" "$set"
    await "$set/switch.up"
    switch=$(cat "$set/switch")
    for number in $(seq "$count"); do enclosed "$set/host$number" "$first_process" "host$number" "$set"; done
    for number in $(seq "$count"); do
        mkdir "$set/tmp$number"
        chmod 1777 "$set/tmp$number"
        await "$set/host$number.up"
        pid=$(cat "$set/host$number")
        nsenter -t "$switch" -n sh -ec "
            ip link add port$number type veth peer name eth0 netns $pid
            ip link set port$number master bridge up"
        nsenter -t "$pid" -n sh -ec "ip address add 10.77.0.$number/16 dev eth0; ip link set eth0 up"
    done
    if command -v python3 >/dev/null; then
        setpriv --pdeathsig KILL "$(dirname "$self")/rshd.py" serve "$set" </dev/null >/dev/null &
        await "$set/rsh.socket"
    fi
    echo "$set"
}

# Waits for the end of standard input, or of a process.
hold() {
    make_hosts "$1"
    exec >/dev/null
    cat >/dev/null || :
}

case ${1:-} in
hold) hold "${2:-}" ;;
up)
    # The keeper gets a pipe without a writer; it ends by a signal.
    folder=$(mktemp)
    trap 'rm -f "$folder"' EXIT
    # shellcheck disable=SC2016  # the inner shell expands it
    setsid sh -c 'sleep 2147483647 | "$0" hold "$1"' "$self" "${2:-}" </dev/null >"$folder" 2>"$folder.errors" &
    tries=0
    until [ -s "$folder" ]; do
        [ ! -s "$folder.errors" ] && [ $tries -lt 12000 ] || {
            cat "$folder.errors" >&2
            rm -f "$folder.errors"
            kill -s TERM -- "-$!"
            exit 1
        }
        tries=$((tries + 1))
        sleep 0.01
    done
    rm -f "$folder.errors"
    cat "$folder"
    ;;
down)
    set=${2:-}
    case $set in "$prefix".*) ;; *) fail "unknown set: name the folder that \`up\` printed" ;; esac
    # The keeper and its pipe are one process group.
    group=$(ps -o pgid= -p "${set##*.}" | tr -d ' ') || fail "no set $set"
    kill -s TERM -- "-$group"
    rm -rf "$set"
    ;;
login)
    set=${2:?which set?}
    shift 2
    exec nsenter -t "$(cat "$set/switch")" --mount --uts --net --wd="$PWD" -- "$@"
    ;;
on)
    set=${2:?which set?}
    number=${3:?which host?}
    shift 3
    TMPDIR=$set/tmp$number exec nsenter -t "$(cat "$set/host$number")" --mount --uts --ipc --net --pid --wd="$PWD" -- "$@"
    ;;
cut)
    exec nsenter -t "$(cat "${2:?which set?}/host${3:?which host?}")" --net ip link set eth0 down
    ;;
cable)
    a=$(cat "${2:?which set?}/host${3:?which host?}")
    b=$(cat "$2/host${4:?which host?}")
    nsenter -t "$a" --net ip link add "cable$4" type veth peer name "cable$3" netns "$b"
    nsenter -t "$a" --net ip link set "cable$4" up
    exec nsenter -t "$b" --net ip link set "cable$3" up
    ;;
uncable) exec nsenter -t "$(cat "${2:?which set?}/host${3:?which host?}")" --net ip link delete "cable${4:?which host?}" ;;
pull) exec nsenter -t "$(cat "${2:?which set?}/host${3:?which host?}")" --net ip link set "cable${4:?which host?}" down ;;
plug) exec nsenter -t "$(cat "${2:?which set?}/host${3:?which host?}")" --net ip link set "cable${4:?which host?}" up ;;
mute) exec nsenter -t "$(cat "${2:?which set?}/host${3:?which host?}")" --net tc qdisc replace dev "cable${4:?which host?}" root blackhole ;;
unmute) exec nsenter -t "$(cat "${2:?which set?}/host${3:?which host?}")" --net tc qdisc delete dev "cable${4:?which host?}" root ;;
check)
    reason=$(missing)
    [ -z "$reason" ] || { echo "$reason" && exit 77; }
    ;;
*) fail "hold N, up N, down SET, login SET COMMAND, on SET N COMMAND, cut SET N, cable, uncable, pull, plug, mute or unmute SET A B, or check" ;;
esac
