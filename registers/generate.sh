#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes everything that comes from the description of the registers (registers/*.rdl):
#
#   registers/generate.sh              makes it anew (make registers)
#   registers/generate.sh --check      compares it with what is here; changes nothing
#   registers/generate.sh --html DIR   makes the HTML site of the registers in DIR (make registers-html)
#   registers/generate.sh --sums       only compares the checksums of inputs and results; needs no Python
#
# Everything is made in a temporary folder and moved when all of it has succeeded. So an error leaves the files as they were.
# Exit status: 1 for an error in the description, or stale files; 77 where Python or its packages cannot be had.
set -eu

cd "$(dirname "$0")/.."
# The virtual environment with what requirements.txt names. It is made once.
environment=${SELVEDGE_REGISTERS_VENV:-target/registers-venv}
description=registers/selvedge.rdl
sums=registers/generated/sha256sums
header=include/selvedge_registers.h
page=docs/reference/registers.md
nic=crates/core/nic/src/registers/description.rs
# The register blocks: the central one, which passes accesses to the units' tables on, and theirs.
blocks="selvedge_nic selvedge_velo_tables selvedge_rma_tables"
blocks_without_vpids=selvedge_atu_tables
# The VPIDs of the prototype. Addresses do not depend on it.
vpids=32

made="Made by \`make registers\` from registers/*.rdl; not to be edited."

say() { echo "registers: $*" >&2; }

# The sums of all inputs, and of all results below the folder $1.
sum() {
    sha256sum registers/*.rdl registers/export.py registers/generate.sh registers/requirements.txt
    (cd "$1" && { printf '%s\n' "$header" "$page" "$nic"; find registers/generated -type f ! -name sha256sums; } |
        LC_ALL=C sort | xargs sha256sum)
}

check_sums() {
    if sum . 2>/dev/null | cmp -s - "$sums"; then return 0; fi
    sum . 2>/dev/null | diff "$sums" - | sed -n 's/^[<>] [0-9a-f]*  /registers: changed: /p' | sort -u >&2
    say "the generated files are not those of the description: run \`make registers\`, and commit what it changes"
    return 1
}

make_environment() {
    if [ -x "$environment/bin/peakrdl" ] && cmp -s registers/requirements.txt "$environment/requirements.txt"; then return 0; fi
    python3 -c 'import venv, ensurepip' 2>/dev/null || {
        say "Python 3 with venv is missing; install it (Debian: apt-get install python3-venv)"
        exit 77
    }
    rm -rf "$environment"
    log=$(mktemp)
    if ! { python3 -m venv "$environment" && "$environment/bin/pip" install -q --disable-pip-version-check -r registers/requirements.txt; } >"$log" 2>&1; then
        tail -n 3 "$log" >&2
        rm -rf "$environment" "$log"
        say "the packages of registers/requirements.txt cannot be installed from PyPI; give pip an index that has them (PIP_INDEX_URL)"
        exit 77
    fi
    rm -f "$log"
    cp registers/requirements.txt "$environment/requirements.txt"
}

# Runs a step. What it prints is shown if it fails, because PeakRDL's errors name file and line.
step() {
    if "$@" >"$work/said" 2>&1; then return 0; fi
    cat "$work/said" >&2
    say "error, see above; nothing was changed. Correct registers/*.rdl and run it again"
    exit 1
}

# Puts two lines before a file: the licence and its origin, as comments that begin with $2.
mark() {
    { printf '%s SPDX-License-Identifier: Apache-2.0 OR MIT\n%s %s\n' "$2" "$2" "$made"; cat "$1"; } >"$1.marked"
    mv "$1.marked" "$1"
}

# Makes all files below $work/out.
generate() {
    out=$work/out
    mkdir -p "$out/include" "$out/docs/reference" "$out/registers/generated" "$out/$(dirname "$nic")"
    peakrdl=$environment/bin/peakrdl
    step "$environment/bin/python" registers/export.py "$description" "$out/$nic" "$out/$page"
    step "$peakrdl" c-header "$description" -o "$out/$header" --std gnu99 --type-style hier
    for block in $blocks; do
        step "$peakrdl" regblock "$description" -t "$block" -P VPIDS=$vpids -o "$out/registers/generated" --cpuif passthrough
    done
    step "$peakrdl" regblock "$description" -t "$blocks_without_vpids" -o "$out/registers/generated" --cpuif passthrough
    mark "$out/$header" //
    for file in "$out"/registers/generated/*.sv; do mark "$file" //; done
    sum "$out" >"$work/sums"
}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
case ${1-} in
'')
    make_environment || exit $?
    work=$(mktemp -d)
    generate
    # Files that stay as they are keep their times, so that nothing is compiled anew for them.
    find registers/generated -type f ! -name sha256sums | while read -r file; do
        [ -e "$work/out/$file" ] || rm "$file"
    done
    (cd "$work/out" && find . -type f) | while read -r file; do
        mkdir -p "$(dirname "$file")"
        cmp -s "$work/out/$file" "$file" || cp "$work/out/$file" "$file"
    done
    cp "$work/sums" "$sums"
    ;;
--check)
    check_sums
    make_environment || exit $?
    work=$(mktemp -d)
    generate
    cmp -s "$work/sums" "$sums" || {
        diff "$sums" "$work/sums" | sed -n 's/^[<>] [0-9a-f]*  /registers: differs: /p' | sort -u >&2
        say "PeakRDL makes other files than those here: run \`make registers\`, and commit what it changes"
        exit 1
    }
    ;;
--sums) check_sums ;;
--html)
    [ -n "${2-}" ] || { say "--html needs a folder"; exit 1; }
    make_environment || exit $?
    work=$(mktemp -d)
    step "$environment/bin/peakrdl" html "$description" -o "$work/html" --title "Registers of a Selvedge NIC"
    mkdir -p "$2"
    cp -R "$work/html/." "$2"
    ;;
*)
    say "unknown option $1; its first lines say what it does"
    exit 1
    ;;
esac
