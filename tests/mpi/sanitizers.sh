#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Programs with the sanitizers of gcc, and of clang where it is installed, under every installed MPI: by `selvedge
# mpirun`, in the environment of `selvedge env`, and on a simulated machine. Faults of the program are found, and nothing
# else is reported. Leaks are not looked for, because the MPIs have their own. Half a minute.
#
# usage: tests/mpi/sanitizers.sh [MPI]...
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

[ $# -gt 0 ] || set -- $all_mpis
[ -d "$tree/lib/libselvedge" ] || fail "build/lib/libselvedge is missing: run make build"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
export ASAN_OPTIONS=detect_leaks=0

# A sanitizer that the compiler does not have, or whose programs do not start on this system, is left out.
works() {
    echo 'int main(void) { return 0; }' | "$1" -x c "-fsanitize=$2" - -o "$folder/works" 2>/dev/null && "$folder/works"
}

# expect REPORT COMMAND...: the command's ranks are right and nothing is reported, or there is this report.
expect() {
    report=$1
    shift
    timeout -k 10 120 "$@" >"$folder/printed" 2>&1 </dev/null
    status=$?
    if [ "$report" = right ]; then
        [ "$status" = 0 ] && [ "$(grep -ac 'rank [01]: right' "$folder/printed")" = 2 ] &&
            ! grep -aq 'Sanitizer' "$folder/printed"
    else
        [ "$status" != 0 ] && grep -aq "SUMMARY: .*$report" "$folder/printed"
    fi && return
    echo "    $*: exit status $status, and not: $report"
    tail -20 "$folder/printed" | sed 's/^/        /'
    failed=$((failed + 1))
}

# ways PROGRAM: by the launchers that know the program.
ways() {
    program=$1
    expect right "$selvedge" mpirun -n 2 "$program" threads
    expect right "$selvedge" mpirun -n 2 "$program" child
    expect heap-buffer-overflow "$selvedge" mpirun -n 2 "$program" heap
    expect global-buffer-overflow "$selvedge" mpirun -n 2 "$program" global
    expect heap-buffer-overflow "$selvedge" sim -n 2 --machine machines/cluster.toml -- "$program" heap
    expect right "$selvedge" sim -n 2 --machine machines/cluster.toml -- "$program"
}

for mpi; do
    if ! have "$mpi"; then
        say "$mpi is not installed: left out"
        continue
    fi
    for compiler in gcc clang; do
        if ! works "$compiler" address; then
            say "$compiler has no AddressSanitizer here: left out"
            continue
        fi
        say "$(version "$mpi"), $compiler -fsanitize=address"
        made=$folder/address
        OMPI_CC=$compiler MPICH_CC=$compiler "$(bin "$mpi" mpicc)" -g -fsanitize=address tests/mpi/sanitized.c -o "$made" \
            -lpthread || fail "it does not compile"
        (
            failed=0
            environment "$mpi" stock
            ways "$made"
            exit "$failed"
        ) || failed=$((failed + 1))
        (
            failed=0
            environment "$mpi" ours
            mpirun=$(bin "$mpi" mpirun)
            expect right "$mpirun" -n 2 "$made"
            expect heap-buffer-overflow "$mpirun" -n 2 "$made" heap
            exit "$failed"
        ) || failed=$((failed + 1))
    done
    # Neither Open MPI 5 nor MPICH runs with ThreadSanitizer and threads, without us either.
    [ "$mpi" = debian ] && works gcc thread || continue
    say "$(version "$mpi"), gcc -fsanitize=thread"
    OMPI_CC=gcc "$(bin "$mpi" mpicc)" -g -fsanitize=thread tests/mpi/sanitized.c -o "$folder/thread" -lpthread ||
        fail "it does not compile"
    environment "$mpi" stock
    expect right "$selvedge" mpirun -n 2 "$folder/thread" threads
    expect right "$selvedge" sim -n 2 --machine machines/cluster.toml -- "$folder/thread"
done
[ "$failed" = 0 ] || fail "$failed of the ways failed"
