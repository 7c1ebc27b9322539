#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Jobs of many ranks over test hosts: start and end of shmem/hello, 25 triggered barriers, an all-to-all of 8 bytes. Each
# checks its results. Prints a table: times of whole jobs, from the command to its end, and the memory of a rank (largest
# sum of its private pages, by a look every half second). With --write the table goes to docs/results/scale.md. The last
# shape's hosts then see a rank killed, a host cut off, frames lost, and processes with fewer links than peers.
#
# usage: tests/hosts/scale.sh [--write] [--turns N] [--busy N] [SHAPE]...    SHAPE: hosts x ranks, by default 4x8 8x8 16x8 32x8
#
#     --turns N    the median of N jobs (1)
#     --busy N     beside N loops that use a core each
#
# Tree and exit status: common.sh.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/hosts/common.sh

turns=1 busy=0 page=
while [ $# -gt 0 ]; do
    case $1 in
    --write) page=docs/results/scale.md ;;
    --turns) turns=$2 && shift ;;
    --busy) busy=$2 && shift ;;
    *) break ;;
    esac
    shift
done
shapes=${*:-4x8 8x8 16x8 32x8}
limit=400

loops=
for _ in $(seq "$busy"); do
    (while :; do :; done) &
    loops="$loops $!"
done
# shellcheck disable=SC2064  # these loops
trap "kill $loops 2>/dev/null; [ -z \"\$set\" ] || \"$hosts\" down \"\$set\"; rm -rf \"$work\"" EXIT

# memory: the largest private memory of a rank in MB, and the median of all, as far as was seen.
memory() {
    for process in $(pgrep -f "^$tree/examples/"); do
        awk '/^Private_/ { sum += $2 } END { if (sum) printf "%.1f\n", sum / 1024 }' "/proc/$process/smaps_rollup" 2>/dev/null
    done | sort -n >"$work/memory.now"
    [ ! -s "$work/memory.now" ] || awk '{ a[NR] = $1 } END { print a[NR], a[int((NR + 1) / 2)] }' "$work/memory.now" >>"$work/memory"
}

# measure HOSTS RANKS-PER-HOST PROGRAM [ARGUMENT]...: a row of the table.
measure() {
    hosts_wanted=$1 each=$2 ranks=$(($1 * $2))
    shift 2
    on=$(seq -s, -f "host%g:$each" 1 "$hosts_wanted")
    : >"$work/times"
    : >"$work/memory"
    verdict_of_row=right
    for _ in $(seq "$turns"); do
        began=$(date +%s.%N)
        timeout -k 10 $((limit + 20)) "$selvedge" run --hosts "$on" -n "$ranks" --timeout "$limit" "$tree/examples/$@" \
            </dev/null >"$work/printed" 2>&1 &
        job=$!
        while kill -0 $job 2>/dev/null; do
            memory
            sleep 0.5
        done
        if ! wait $job; then
            verdict_of_row=failed
            complain "$*, $ranks ranks on $hosts_wanted hosts"
        fi
        echo "$(date +%s.%N) $began" | awk '{ printf "%.1f\n", $1 - $2 }' >>"$work/times"
    done
    time=$(sort -n "$work/times" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }')
    most=$(sort -n "$work/memory" | awk 'END { print $1 + 0 }')
    middle=$(sort -n -k2 "$work/memory" | awk 'END { print $2 + 0 }')
    printf '| %s | %s x %s | %s s | %s MB | %s MB | %s |\n' "$*" "$hosts_wanted" "$each" "$time" "$most" "$middle" "$verdict_of_row" | tee -a "$work/rows"
}

{
    echo "| program | hosts x ranks | time of the job | memory: largest rank | median rank | |"
    echo "|---|---|---|---|---|---|"
} | tee "$work/rows"
for shape in $shapes; do
    hosts_anew "${shape%x*}"
    measure "${shape%x*}" "${shape#*x}" shmem/hello
    measure "${shape%x*}" "${shape#*x}" triggered_barrier 25
    [ $((${shape%x*} * ${shape#*x})) -gt 128 ] || measure "${shape%x*}" "${shape#*x}" shmem/alltoall 1 8
done

# fault WHAT STATUS TEXT [SETTING]...: a long job on the last shape has to end with this status and text, and leave no
# process. `$happens` runs some time after all ranks.
fault() {
    what=$1 wanted=$2 text=$3
    shift 3
    hosts_anew "${shape%x*}"
    : >"$work/printed"
    on=$(seq -s, -f "host%g:${shape#*x}" 1 "${shape%x*}")
    began=$(date +%s)
    env "$@" timeout -k 10 $((limit + 20)) "$selvedge" run --hosts "$on" -n "$ranks" --timeout "$limit" \
        "$tree/examples/$program" "$rounds" 8 </dev/null >"$work/printed" 2>&1 &
    job=$!
    if [ -n "$happens" ]; then
        while kill -0 $job 2>/dev/null && [ "$(pgrep -cf "^$tree/examples/")" -lt "$ranks" ]; do sleep 0.2; done
        sleep 10
        eval "$happens"
    fi
    status=0
    wait $job || status=$?
    [ "$status" = "$wanted" ] || complain "$what: exit status $status, not $wanted"
    grep -q "$text" "$work/printed" || complain "$what: missing in its output: $text"
    sleep 1
    ! pgrep -f "^$tree/examples/" >/dev/null || complain "$what: ranks are left"
    echo "- $what: ended with status $status after $(($(date +%s) - began)) s" | tee -a "$work/faults"
}
ranks=$((${shape%x*} * ${shape#*x}))
# shellcheck disable=SC2016  # evaluated later
happens='pkill -KILL -o -f "^$tree/examples/"' program=triggered_barrier rounds=100000 fault "$ranks ranks, one is killed" 137 "killed"
happens='"$hosts" cut "$set" 3' program=shmem/alltoall rounds=100000 fault "$ranks ranks, a host is cut off" 1 "is lost: " SELVEDGE_NET_TIMEOUT=5
happens='' program=triggered_barrier rounds=5 fault "$ranks ranks, one frame of 200 is lost" 0 "sums hold" SELVEDGE_NET_CHECK=crc SELVEDGE_NET_FAULTS=loss=0.005,seed=1
happens='' program=triggered_barrier rounds=5 fault "$ranks ranks, at most 16 links each" 0 "sums hold" SELVEDGE_NET_LINKS=16

if [ -n "$page" ]; then
    {
        echo "# Jobs of many ranks on several hosts"
        echo
        echo "Whole jobs of \`selvedge run\` over test hosts: all on one machine, joined by a bridge, so that"
        echo "hundreds of ranks share its cores. Private memory of a rank, by a look every half second. Made by"
        echo "\`tests/hosts/scale.sh --write\`; median of $turns. [Several hosts](../guide/hosts.md) says what a link is."
        echo
        echo "$(nproc) cores ($(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)), Linux $(uname -r),"
        echo "$(date +%Y-%m-%d)$([ "$busy" = 0 ] || echo ", beside $busy busy loops")."
        echo
        cat "$work/rows"
        echo
        echo "Faults, with \`triggered_barrier\`, and \`shmem/alltoall\` where a host is cut off:"
        echo
        cat "$work/faults"
    } >"$page"
fi
verdict
