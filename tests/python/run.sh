#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the tests of the Python interface against the tree of SELVEDGE_PREFIX, by default build, in a virtual environment with pandas and
# matplotlib.
#
# usage: tests/python/run.sh [TEST]...      as `test_selvedge.Machines`; ten seconds
#
# Exit status: 77 when there is no Python with venv, or the packages cannot be installed.
set -eu
cd "$(dirname "$0")/../.."

tree=${SELVEDGE_PREFIX:-build}
[ -x "$tree/bin/selvedge" ] || { echo "tests/python: $tree/bin/selvedge is missing; run make build, or set SELVEDGE_PREFIX" >&2 && exit 1; }
SELVEDGE_PREFIX=$(cd "$tree" && pwd)
export SELVEDGE_PREFIX PYTHONPATH="$PWD/python" MPLBACKEND=Agg PYTHONDONTWRITEBYTECODE=1
place=$PWD/build/python

python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
    { echo "tests/python: skipped: no Python 3.9 with venv" && exit 77; }
if ! "$place/bin/python" -c 'import pandas, matplotlib' 2>/dev/null; then
    rm -rf "$place"
    python3 -m venv "$place"
    "$place/bin/pip" --quiet --disable-pip-version-check install pandas matplotlib ||
        { echo "tests/python: skipped: pandas and matplotlib cannot be installed" && exit 77; }
fi

cd tests/python
if [ $# -gt 0 ]; then
    exec "$place/bin/python" -W error::ResourceWarning -m unittest "$@"
fi
exec "$place/bin/python" -m unittest discover
