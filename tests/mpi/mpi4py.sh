#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the test suite of mpi4py, MPI for Python, over our provider: the published source, compiled with that MPI's mpicc
# into a virtual environment under build/mpi4py. Failed tests run again over that MPI's own transport; the exit status
# is 1 when a test fails over ours and not over that.
#
# usage: tests/mpi/mpi4py.sh [--hosts N] [--transport ours|stock] [MPI [NUMBER OF RANKS]...]
#        MPI: debian, openmpi or mpich (see common.sh); without one, openmpi and mpich; 1, 2, 4 and 5 ranks
#        With --hosts the ranks are distributed evenly over N test hosts (tests/hosts); the number of ranks is a multiple of N, by default 4.
#        With --transport stock it only prints the tests that fail there.
# Exit status: 77 when the packages cannot be downloaded, or test hosts cannot be made.
#
# First the whole suite runs in one job, which is the harder test of the transport: one process does all of it. If that
# job crashes or hangs, each file of tests runs in its own job, so that one of them does not hide the others. The output
# of each rank stays in build/mpi4py/log.
#
# Building takes about five minutes for each MPI, the suite one to ten.
set -eu
cd "$(dirname "$0")/../.."
. tests/mpi/common.sh

version_mpi4py=4.1.2
# MPICH polls a thousand times before it yields to another rank. With more ranks than cores the suite takes an hour then.
if [ "$(nproc)" -lt 4 ]; then
    export MPIR_CVAR_POLLS_BEFORE_YIELD=1 MPIR_CVAR_ENABLE_HEAVY_YIELD=1
fi

suite_limit_s=${MPI4PY_SUITE_LIMIT_S:-900}
file_limit_s=${MPI4PY_FILE_LIMIT_S:-120}
place=$tree/mpi4py
source=$place/source

# exclude MPI: options that exclude tests unrelated to a transport.
exclude() {
    echo "-e test_doc"     # tests doc strings
    echo "-e test_package" # tests the names in the package
    case $1 in
    # Communicators can be revoked with its pml ob1 only; all libfabric providers, ours too, run under its pml cm.
    openmpi) echo "-x test_ulfm.*.testRevoke" ;;
    # These fail with its mtl for libfabric over tcp;ofi_rxm, too. It sends from the address of MPI_BOTTOM instead of
    # the datatype's; crashes or hangs when messages to the process itself are cancelled; never completes a synchronous
    # send that MPI_Mrecv receives, as all messages of pickled objects are; and does not join.
    debian)
        echo "-e test_p2p_obj -e test_util_pkl5"
        echo "-x test_cco_vec.*.testAlltoallwBottom -x test_dynproc.*.testJoin -x test_p2p_buf.*.testProbeCancel"
        ;;
    # MPI_Probe and MPI_Recv of any source see messages from the process itself in different orders when they go through
    # the netmod: over tcp and tcp;ofi_rxm (MPIR_CVAR_NOLOCAL=1) too.
    mpich)
        echo "-x test_comm_topo.*.testDistgraphcomm"
        # mpi4py's mutexes assume that an accumulate to the own window completes before another rank's accumulate that
        # the next operation causes. With MPIR_CVAR_NOLOCAL=1 the first is a message within MPICH and the second goes
        # through the netmod. Once in tens of thousands of turns the second is first: over tcp too.
        for family in Mutex Condition Semaphore; do echo "-x test_util_sync.Test$family*World.*"; done
        ;;
    esac
}

build_for() {
    [ -x "$place/$1/bin/python" ] && "$place/$1/bin/python" -c 'import mpi4py.MPI, numpy' 2>/dev/null && return
    say "building mpi4py $version_mpi4py with $(version "$1")"
    mkdir -p "$place"
    python3 -m venv "$place/$1"
    pip=$place/$1/bin/pip
    export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1
    "$pip" install numpy setuptools wheel cython || exit 77
    archive=$place/mpi4py-$version_mpi4py.tar.gz
    [ -f "$archive" ] || "$pip" download --no-deps --no-binary mpi4py -d "$place" "mpi4py==$version_mpi4py" || exit 77
    if [ ! -d "$source/test" ]; then
        mkdir -p "$source"
        tar -xzf "$archive" -C "$source" --strip-components=1
    fi
    MPICC=$(bin "$1" mpicc) "$pip" install --no-build-isolation "$archive"
}

# suite MPI TRANSPORT RANKS LIMIT_S LOG [OPTION]...: writes rank R's output to LOG.R. Sets $status.
suite() {
    mpi=$1 transport=$2 ranks=$3 limit_s=$4 log=$5
    shift 5
    rm -f "$log".*
    # shellcheck disable=SC2016  # for the inner shell
    set -- sh -c 'log=$0; exec "$@" >"$log.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" 2>&1' \
        "$log" "$place/$mpi/bin/python" "$source/test/main.py" -v "$@"
    status=0
    launch "$mpi" "$transport" "$ranks" "$limit_s" "$@" >"$log.launcher" 2>&1 || status=$?
}

# ended LOG RANKS: whether every rank reached the end of its tests.
ended() {
    rank=0
    while [ "$rank" -lt "$2" ]; do
        grep -q -e '^OK' -e '^FAILED' "$1.$rank" 2>/dev/null || return 1
        rank=$((rank + 1))
    done
}

# failures LOG RANKS: prints the names of the tests that failed on any rank.
failures() {
    rank=0
    while [ "$rank" -lt "$2" ]; do
        sed -n 's/^\(FAIL\|ERROR\): [^ ]* (\([^)]*\)).*/\2/p' "$1.$rank" 2>/dev/null || true
        rank=$((rank + 1))
    done | sort -u
}

# stuck LOG RANKS STATUS FILE: prints how an unfinished job ended, as the "name" of a test: FILE: reason.
stuck() {
    rank=0
    while [ "$rank" -lt "$2" ]; do
        grep -q -e '^OK' -e '^FAILED' "$1.$rank" 2>/dev/null || break
        rank=$((rank + 1))
    done
    case $3 in
    124 | 137) why="stood still" ;;
    *) why="ended with $3" ;;
    esac
    last=$(sed -n 's/^test[A-Za-z0-9_]* (\([^)]*\)).*/\1/p' "$1.$rank" 2>/dev/null | tail -1)
    echo "${last:-$4} ($why)"
}

# run_all MPI TRANSPORT RANKS FAILED [FILE]...: runs the suite, or these files of it; writes the names of the failed
# tests.
run_all() {
    mpi=$1 transport=$2 ranks=$3 failed=$4
    shift 4
    mkdir -p "$place/log"
    log=$place/log/$mpi-$transport-$ranks$on
    : >"$failed"
    if [ $# -eq 0 ]; then
        # shellcheck disable=SC2046  # one word is one option
        suite "$mpi" "$transport" "$ranks" "$suite_limit_s" "$log" $(exclude "$mpi")
        if ended "$log" "$ranks"; then
            failures "$log" "$ranks" >"$failed"
            [ "$status" = 0 ] || [ -s "$failed" ] || echo "the job's end (exit status $status)" >"$failed"
            ran=$(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$log.0")
            say "$mpi, $transport, $ranks ranks: $ran tests, $(wc -l <"$failed") fail"
            return
        fi
        say "$mpi, $transport, $ranks ranks: $(stuck "$log" "$ranks" "$status" "the suite"); now file by file"
        stuck "$log" "$ranks" "$status" "the suite" | sed 's/^/whole suite: /' >>"$failed"
        # shellcheck disable=SC2046
        set -- $(cd "$source/test" && ls test_*.py | grep -v -e test_doc -e test_package)
    fi
    for file; do
        log=$place/log/$mpi-$transport-$ranks$on-${file%.py}
        # shellcheck disable=SC2046
        suite "$mpi" "$transport" "$ranks" "$file_limit_s" "$log" $(exclude "$mpi") -i "^${file%.py}\\.py\$"
        failures "$log" "$ranks" >>"$failed"
        if ! ended "$log" "$ranks"; then
            stuck "$log" "$ranks" "$status" "$file" >>"$failed"
        elif [ "$status" != 0 ] && [ -z "$(failures "$log" "$ranks")" ]; then
            echo "${file%.py}: the job's end (exit status $status)" >>"$failed"
        fi
    done
}

# files FAILED: the files of the failed tests.
files() { sed -n 's/^\(whole suite: \)*\(test_[a-z0-9_]*\).*/\2.py/p' "$1" | sort -u; }

worse=0
check() {
    mpi=$1 ranks=$2
    on=${spread:+-on-$spread-hosts}
    ours=$place/failed-$mpi-ours-$ranks$on stock=$place/failed-$mpi-stock-$ranks$on
    if [ "$only" = stock ]; then
        run_all "$mpi" stock "$ranks" "$stock"
        sed 's/^/    /' "$stock"
        return
    fi
    run_all "$mpi" ours "$ranks" "$ours"
    [ -s "$ours" ] || return 0
    : >"$stock"
    # shellcheck disable=SC2046  # one word is one file
    [ -z "$(files "$ours")" ] || run_all "$mpi" stock "$ranks" "$stock" $(files "$ours")
    while read -r name; do
        if grep -qxF "${name#whole suite: }" "$stock"; then
            echo "    $name: over its own transport too"
        else
            echo "    $name: ONLY OVER OURS"
            worse=1
        fi
    done <"$ours"
}

only=ours
all_ranks="1 2 4 5"
while :; do
    case ${1:-} in
    --transport) only=$2 && shift 2 ;;
    --hosts) spread=$2 all_ranks=4 && shift 2 ;;
    *) break ;;
    esac
done
mpis=${1:-openmpi mpich}
[ $# -eq 0 ] || shift
# shellcheck disable=SC2086  # one word is one number
[ $# -gt 0 ] || set -- $all_ranks
if [ "$spread" ]; then
    reason=$(tests/hosts/hosts.sh check) || { say "left out: $reason" && exit 77; }
    SELVEDGE_TEST_HOSTS=$(tests/hosts/hosts.sh up "$spread")
    export SELVEDGE_TEST_HOSTS
    trap 'tests/hosts/hosts.sh down "$SELVEDGE_TEST_HOSTS"' EXIT
    trap 'exit 1' HUP INT TERM
fi
for mpi in $mpis; do
    have "$mpi" || fail "$mpi is not installed (make peers)"
    build_for "$mpi"
    for ranks; do check "$mpi" "$ranks"; done
done
exit $worse
