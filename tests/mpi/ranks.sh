#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# More ranks than cores: examples on 16 ranks have to end. Prints their time beside that over the MPI's own transport,
# each the median of three runs. A job that does not end within the limit fails.
#
# usage: tests/mpi/ranks.sh [-n RANKS] [MPI]...
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

ranks=16
if [ "${1:-}" = -n ]; then
    ranks=$2
    shift 2
fi
[ $# -gt 0 ] || set -- $all_mpis
limit_s=300
failed=0

# seconds TRANSPORT PROGRAM [ARGUMENT]...: prints the median, or how the job ended.
seconds() {
    transport=$1
    shift
    for _ in 1 2 3; do
        began=$(date +%s%N)
        if ! launch "$mpi" "$transport" "$ranks" "$limit_s" "$tree/mpi/$mpi/$@" >/dev/null 2>&1; then
            echo "failed"
            return
        fi
        echo $((($(date +%s%N) - began) / 1000000))
    done | sort -n | awk '$1 == "failed" { bad = 1 } { ms[NR] = $1 }
        END { if (bad) print "failed"; else printf "%.2f\n", ms[int((NR + 1) / 2)] / 1000 }'
}

printf '%-16s %-16s %10s %10s %8s\n' "MPI" "$ranks ranks of" "ours, s" "its own, s" "ratio"
for mpi; do
    if ! have "$mpi"; then
        say "$mpi is not installed: left out"
        continue
    fi
    build "$mpi" || fail "the examples do not compile under $mpi"
    for example in hello "halo2d 256 50" onesided is ft "dt SH"; do
        # shellcheck disable=SC2086  # a program and its arguments
        ours=$(seconds ours $example)
        # shellcheck disable=SC2086
        stock=$(seconds stock $example)
        ratio=$(echo "$ours $stock" | awk '/failed/ { print "-"; exit } { printf "%.2f", $1 / $2 }')
        printf '%-16s %-16s %10s %10s %8s\n' "$(version "$mpi")" "$example" "$ours" "$stock" "$ratio"
        [ "$ours" != failed ] || failed=1
    done
done
exit $failed
