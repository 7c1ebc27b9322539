#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the Portals conformance suite (tests/conformance, variant cma), records each NIC's transitions, and replays them through the engine
# of the RTL and `nic` at the same time. Prints the number of cases that agree, and the cases with commands that the engine does not
# support, with the reasons. Needs `make build` and `make rtl`. Takes about ten minutes.
#
#   rtl/conformance.sh              all cases
#   rtl/conformance.sh matching     cases whose names contain this word
#
# Exit status: 1 if a case differs; 77 if the trees are not built.
set -eu

cd "$(dirname "$0")/.."
root=$PWD
replay=$root/build/libexec/selvedge/selvedge-rtl
[ -x "$replay" ] && [ -e build/lib/libportals.so ] || {
    echo "conformance.sh: build the tree and the engine first: make build rtl" >&2
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
suite=$(cargo test --locked --profile checked -p selvedge-conformance --no-run 2>&1 | sed -n 's/.*(\(.*\))$/\1/p' | tail -n 1)
case $suite in /*) ;; *) suite=$root/$suite ;; esac
(cd tests/conformance && "$suite" --list 2>/dev/null) | sed -n 's/^\(cma::.*\): test$/\1/p' | grep -- "${1:-}" >"$work/cases"

whole=0 partly=0 differ=0 none=0
while read -r name; do
    folder=$work/traces
    rm -rf "$folder"
    mkdir "$folder"
    (cd tests/conformance && SELVEDGE_RECORD=$folder timeout 60 "$suite" --exact "$name") >/dev/null 2>&1 </dev/null || {
        echo "$name: the case itself fails when it is recorded"
        differ=$((differ + 1))
        continue
    }
    set -- "$folder"/*.trace
    [ -e "$1" ] || { none=$((none + 1)) && continue; }
    status=0
    timeout 120 "$replay" replay --unit engine "$@" >"$work/said" 2>&1 </dev/null || status=$?
    left=$(sed -n 's/.*not carried out: //p' "$work/said" | tr ',' '\n' | sed 's/^ *[0-9]* *//' | sort -u | paste -sd, | sed 's/,/, /g')
    if [ "$status" = 124 ]; then
        echo "$name: not replayed within 120 s"
        partly=$((partly + 1))
    elif [ "$status" != 0 ]; then
        echo "$name: $(grep -m 1 engine: "$work/said")"
        differ=$((differ + 1))
    elif [ -n "$left" ]; then
        echo "$name: agrees, without $left"
        partly=$((partly + 1))
    else
        whole=$((whole + 1))
    fi
done <"$work/cases"
echo "$whole cases agree completely, $partly agree without unsupported commands, $differ differ, $none use no NIC"
[ "$differ" = 0 ]
