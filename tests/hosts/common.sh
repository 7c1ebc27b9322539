# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
#
# The beginning of scripts on test hosts, which source this file from the repository's root: the tree, a folder for
# files, a set of hosts, complaints. The tree is build/, or that of SELVEDGE_PREFIX. The exit status is 77 when test hosts
# cannot be made.
tree=${SELVEDGE_PREFIX:-$PWD/build}
selvedge=$tree/bin/selvedge
hosts=$PWD/tests/hosts/hosts.sh
suite=$(basename "$0" .sh)
export SELVEDGE_RSH="$PWD/tests/hosts/rsh"
unset SELVEDGE_DIR SELVEDGE_HOST SELVEDGE_HOSTS SELVEDGE_SECRET SELVEDGE_RANK SELVEDGE_SIZE SELVEDGE_JOB SELVEDGE_LOG

# left_out REASON: ends the script, whose checks this machine cannot run.
left_out() { echo "$suite: left out: $1" && exit 77; }
reason=$("$hosts" check) || left_out "$reason"
command -v "${CC:-cc}" >/dev/null || left_out "there is no C compiler"

work=$(mktemp -d)
chmod 755 "$work"
set=
trap '[ -z "$set" ] || "$hosts" down "$set"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
failed=0

# hosts_anew N: N new hosts, in place of those before.
hosts_anew() {
    [ -z "$set" ] || "$hosts" down "$set"
    set=
    set=$("$hosts" up "$1") || exit 1
    export SELVEDGE_TEST_HOSTS="$set"
}

on() { "$hosts" on "$set" "$@"; }

# complain TEXT: counts a failure, and shows the end of the last program's output and of the daemons' logs.
complain() {
    echo "    $1"
    [ ! -f "$work/printed" ] || tail -20 "$work/printed" | cut -c1-300 | sed 's/^/        /'
    for log in "$work"/log*; do [ ! -s "$log" ] || { echo "        ${log##*/}:" && tail -5 "$log" | cut -c1-200 | sed 's/^/        /'; }; done
    failed=$((failed + 1))
}

# verdict: the last command of a script.
verdict() {
    [ "$failed" = 0 ] || { echo "$suite: $failed checks failed" >&2 && exit 1; }
    echo "$suite: right"
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

# compile SOURCE PROGRAM: compiles a program over libportals.
compile() {
    "${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$tree/include" "$1" -o "$2" -L"$tree/lib" -lportals -Wl,-rpath,"$tree/lib" -lm || exit 1
}
