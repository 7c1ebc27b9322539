#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the test suite of shmem4py, OpenSHMEM for Python, against libsma: the published source, compiled by our oshcc
# into a virtual environment under build/, its own tests on 1, 2 and 4 PEs. All of its tests pass.
#
# NumPy stays below 2: with 2 and later, tests of shmem4py 1.0.0 fail before they call OpenSHMEM (they assign -1 to
# unsigned arrays, and ask np.array for a view with copy=False).
#
# usage: tests/shmem4py/run.sh [NUMBER OF PES]...      about two minutes the first time
#
# Exit status: 77 when the packages cannot be downloaded.
set -eu
cd "$(dirname "$0")/../.."

version=1.0.0
tree=$PWD/build
place=$tree/shmem4py
export PATH="$tree/bin:$PATH"

if [ ! -d "$place/source/test" ] || ! "$place/bin/python" -c 'import shmem4py' 2>/dev/null; then
    python3 -m venv "$place"
    pip() { "$place/bin/pip" --quiet --disable-pip-version-check "$@"; }
    pip install 'numpy<2' cffi setuptools wheel || exit 77
    pip download --no-deps --no-build-isolation --no-binary shmem4py -d "$place" "shmem4py==$version" || exit 77
    # Without optimisation, which would take most of the time.
    CFLAGS="-O0 -g0" pip install --no-build-isolation "$place/shmem4py-$version.tar.gz"
    rm -rf "$place/source" && mkdir "$place/source"
    tar -xzf "$place/shmem4py-$version.tar.gz" -C "$place/source" --strip-components=1
fi

[ $# -gt 0 ] || set -- 1 2 4
for pes; do
    echo "shmem4py's tests on $pes PEs"
    selvedge run -n "$pes" --timeout 300 "$place/bin/python" -m unittest discover -s "$place/source/test"
done
