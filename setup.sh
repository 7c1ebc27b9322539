#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes sure that this machine can build Selvedge; `make demo` and `make test` run it first. This is the one list of system requirements:
#
#   a C compiler with the C library's headers    the examples, the benchmark programs, the conformance suites
#   a C++ compiler                               the C++ side of the OpenSHMEM suite
#   make                                         runs the build
#   libfabric's headers, and libclang             the provider for stock MPI: its types are generated from the headers
#   Rust (cargo), as new as Cargo.toml says       everything else
#   python3                                      the list of tests that tests/run.sh takes from cargo, and a PMI-1 client
#   ps, pgrep and kill (procps)                  tests that kill processes and look for them
#   otf2-print (otf2-tools), with the OTF2 library  tests of traces
#   iproute2, util-linux, mount, hostname        test hosts (tests/hosts), which only root can make
#
# `setup.sh rtl`, which `make rtl` runs first, also requires
#
#   verilator                                     lint and simulation of the SystemVerilog
#   python3 with venv                             the tools of rtl/flow/requirements.txt, which rtl/flow/tools.sh installs
#   opensta, qflow-tech-osu018                    timing, and the default library of cells
#
# It does nothing if everything is installed. Missing packages are installed with apt-get, as root or by sudo, after a message. If that is
# not possible, it prints the missing packages and fails.
#
# Optional: python3's venv (`make registers`; shmem4py's own test suite and tests/python in .ci/run); Python 3.11 with git (.ci/house.py);
# chromium (tests/page); the peers that bench/get-peers.sh installs for comparison; Slurm and munge (tests/hosts/slurm*.sh).
set -eu

cd "$(dirname "$0")"
rust_wanted=$(sed -n 's/^rust-version = "\([0-9]*\.[0-9]*\).*/\1/p' Cargo.toml)

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 1
}

# Whether a program can be compiled and linked.
c_works() {
    command -v "${CC:-cc}" >/dev/null 2>&1 || return 1
    made=$(mktemp) || return 1
    works=0
    printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' |
        "${CC:-cc}" -x c - -o "$made" >/dev/null 2>&1 || works=1
    rm -f "$made"
    return $works
}

# Whether a C++ program can be compiled.
cxx_works() {
    command -v "${CXX:-c++}" >/dev/null 2>&1 || return 1
    printf '#include <cstddef>\nint main() {}\n' | "${CXX:-c++}" -x c++ - -fsyntax-only >/dev/null 2>&1
}

# at_least WANTED VERSION: whether VERSION is WANTED ("major.minor") or newer.
at_least() {
    wanted_minor=${1#*.}
    major=${2%%.*}
    rest=${2#*.}
    minor=${rest%%.*}
    case $major$minor in '' | *[!0-9]*) return 1 ;; esac
    [ "$major" -gt "${1%%.*}" ] || { [ "$major" -eq "${1%%.*}" ] && [ "$minor" -ge "$wanted_minor" ]; }
}

rust_version() { cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9][0-9.]*\).*/\1/p'; }

# Runs a command as root. Without a terminal it fails if sudo needs a password.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# Installs Debian packages.
install_packages() {
    command -v apt-get >/dev/null 2>&1 ||
        fail "this system has no apt-get; install what Debian calls: $*"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null 2>&1 ||
        fail "neither root nor sudo is available; have an administrator install: $*"
    say "installing $* with apt-get"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" ||
        { as_root apt-get update -q && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@"; } ||
        fail "apt-get could not install: $*"
}

# Whether libfabric's headers, and the libclang with which bindgen reads them, are installed.
fabric_works() { printf '#include <rdma/fabric.h>\n' | "${CC:-cc}" -x c - -fsyntax-only >/dev/null 2>&1; }
clang_works() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    for place in /usr/lib/llvm*/lib /usr/lib64 /usr/lib /usr/lib/*-linux-gnu /usr/local/lib; do
        # libclang needs its own headers (stddef.h and others), which are in Debian's libclang-dev, too.
        set -- "$place"/libclang.so* "$place"/libclang-*.so*
        { [ -e "$1" ] || [ -e "$2" ]; } || continue
        set -- /usr/lib/llvm*/lib/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h
        { [ -e "$1" ] || [ -e "$2" ]; } && return 0
    done
    return 1
}

packages=
c_works || packages="gcc libc6-dev"
cxx_works || packages="$packages g++"
command -v make >/dev/null 2>&1 || packages="$packages make"
command -v python3 >/dev/null 2>&1 || packages="$packages python3"
fabric_works || packages="$packages libfabric-dev"
clang_works || packages="$packages libclang-dev"
# The shell has a builtin kill; procps has the program, with ps and pgrep.
{ command -v ps && command -v pgrep; } >/dev/null 2>&1 || packages="$packages procps"
command -v otf2-print >/dev/null 2>&1 || packages="$packages otf2-tools"
if [ "$(id -u)" -eq 0 ]; then
    command -v ip >/dev/null 2>&1 || packages="$packages iproute2"
    { command -v unshare && command -v nsenter && command -v setpriv; } >/dev/null 2>&1 || packages="$packages util-linux"
    command -v mount >/dev/null 2>&1 || packages="$packages mount"
    command -v hostname >/dev/null 2>&1 || packages="$packages hostname"
fi
if [ "${1:-}" = rtl ]; then
    command -v verilator >/dev/null 2>&1 || packages="$packages verilator"
    python3 -c 'import venv, ensurepip' >/dev/null 2>&1 || packages="$packages python3 python3-venv"
    command -v sta >/dev/null 2>&1 || packages="$packages opensta"
    [ -e /usr/share/qflow/tech/osu018/osu018_stdcells.lib ] || packages="$packages qflow-tech-osu018"
fi
# shellcheck disable=SC2086  # one word is one package
[ -z "$packages" ] || install_packages $packages
fabric_works || fail "<rdma/fabric.h> cannot be included: libfabric's headers are missing (Debian: libfabric-dev)"
c_works || fail "'${CC:-cc}' cannot compile and link a C program"
cxx_works || fail "'${CXX:-c++}' cannot compile a C++ program"

if ! command -v cargo >/dev/null 2>&1; then
    cargo_home=${CARGO_HOME:-${HOME:-/root}/.cargo}
    if [ -x "$cargo_home/bin/cargo" ]; then
        fail "cargo is installed but not in PATH; run: . \"$cargo_home/env\""
    fi
    # Debian's own cargo is new enough from Debian 13 on.
    offered=$(apt-cache policy cargo 2>/dev/null | sed -n 's/^ *Candidate: //p') || offered=
    if at_least "$rust_wanted" "${offered:-none}"; then
        install_packages cargo
    else
        fail "Rust $rust_wanted or newer is needed; install it with rustup (https://rustup.rs)"
    fi
fi
have=$(rust_version)
at_least "$rust_wanted" "${have:-none}" ||
    fail "Rust $rust_wanted or newer is needed, this is ${have:-unknown}; with rustup: rustup update stable"
