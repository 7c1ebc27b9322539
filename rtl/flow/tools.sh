#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs a command with the tools of rtl/flow/requirements.txt, which it installs once, into target/rtl-venv:
#
#   rtl/flow/tools.sh COMMAND...            with PyPI's tools
#   rtl/flow/tools.sh --needs TOOL... -- COMMAND...   and with TOOL of Debian: sta, verilator, osu018
#
# SELVEDGE_RTL_VENV names another environment; one without a requirements.txt is used as it is. Exit status: that of the command; 77 if a
# tool is not available, with its package.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
environment=${SELVEDGE_RTL_VENV:-$root/target/rtl-venv}
requirements=$root/rtl/flow/requirements.txt

say() { echo "rtl: $*" >&2; }

make_environment() {
    if [ -x "$environment/bin/python" ] && { [ -n "${SELVEDGE_RTL_VENV-}" ] || cmp -s "$requirements" "$environment/requirements.txt"; }; then
        return 0
    fi
    python3 -c 'import venv, ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
        say "Python 3.11 or newer with venv is missing; install it (Debian: apt-get install python3-venv)"
        exit 77
    }
    rm -rf "$environment"
    log=$(mktemp)
    if ! { python3 -m venv "$environment" && "$environment/bin/pip" install -q --disable-pip-version-check -r "$requirements"; } >"$log" 2>&1; then
        tail -n 3 "$log" >&2
        rm -rf "$environment" "$log"
        say "the packages of rtl/flow/requirements.txt cannot be installed from PyPI; give pip an index that has them (PIP_INDEX_URL)"
        exit 77
    fi
    rm -f "$log"
    cp "$requirements" "$environment/requirements.txt"
}

# Prints the package of Debian for the tool $1, if the tool is missing.
missing() {
    case $1 in
    sta) command -v sta >/dev/null || echo opensta ;;
    verilator) command -v verilator >/dev/null || echo verilator ;;
    osu018) [ -n "${LIBERTY-}" ] || [ -e /usr/share/qflow/tech/osu018/osu018_stdcells.lib ] || echo qflow-tech-osu018 ;;
    *) echo "(unknown tool $1)" ;;
    esac
}

if [ "${1-}" = --needs ]; then
    shift
    while [ "$1" != -- ]; do
        package=$(missing "$1")
        [ -z "$package" ] || {
            say "$1 is missing; install it (Debian: apt-get install $package)"
            exit 77
        }
        shift
    done
    shift
fi
[ $# -gt 0 ] || {
    say "no command given; see the first lines of this script"
    exit 1
}
make_environment
export PATH="$environment/bin:$PATH" PYTHONDONTWRITEBYTECODE=1 YOWASP_CACHE_DIR="${YOWASP_CACHE_DIR:-$root/target/yowasp}"
exec "$@"
