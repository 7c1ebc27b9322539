#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds and checks everything that a release needs, and says what is left to do: it tags nothing and uploads nothing. Takes some hours.
#
# usage: packaging/release.sh FOLDER [STEP]...      FOLDER: for packages, logs and test systems; without steps: all, in this order
#
#   state      the working tree is committed; CHANGELOG.md has a section for the version, with a date; no such tag yet
#   versions   the version of Cargo.toml is that of the lock file, the built command, the pages and files of the tree, and Spack's recipe
#   ci         .ci/run
#   long       the variants that .ci/run leaves out
#   packages   all packages, made anew, and tried on bare systems; the container's and Spack's steps
#   summary    sums of the packages, and the list of what to do
#
# A check that this machine cannot run (exit status 77) is listed in the summary. Any other failure ends the release.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -ge 1 ]] || { sed -n '6,15s/^# \{0,1\}//p' "$0" >&2 && exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
[[ $# -gt 0 ]] || set -- state versions ci long packages summary
version=$(packaging/version.sh)
packages=$folder/packages
skipped=$folder/skipped
say() { printf 'release: %s\n' "$*"; }
fail() { printf 'release: failed: %s\n' "$*" >&2 && exit 1; }

# check NAME COMMAND...: runs a check, with its output in a log.
check() {
    local name=$1 began=$SECONDS status=0
    shift
    "$@" >"$folder/$name.log" 2>&1 </dev/null || status=$?
    case $status in
    0) say "$name: right ($((SECONDS - began)) s)" ;;
    77) say "$name: cannot be run here" && echo "$name: $(tail -1 "$folder/$name.log")" >>"$skipped" ;;
    *) tail -15 "$folder/$name.log" >&2 && fail "$name; the whole output is in $folder/$name.log" ;;
    esac
}

# same WHAT FOUND: a version is the one of Cargo.toml.
same() { [[ $2 = "$version" ]] || fail "$1 has version ${2:-none}, Cargo.toml $version"; }

state() {
    local dirty
    dirty=$(git status --porcelain)
    [[ -z $dirty ]] || fail "files are not committed: $(head -3 <<<"$dirty" | tr '\n' ' ')"
    [[ -z $(git tag --list "v$version") ]] || fail "the tag v$version exists; raise the version in Cargo.toml"
    grep -Eq "^## \[?${version//./\\.}\]? - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
        fail "CHANGELOG.md has no section '## $version - YYYY-MM-DD'; rename the section Unreleased"
    say "state: right, at $(git rev-parse --short HEAD)"
}

versions() {
    make --no-print-directory build >"$folder/build.log" 2>&1 || { tail -15 "$folder/build.log" >&2 && fail "make build"; }
    local found
    # Every crate of ours, and no other version among them.
    found=$(awk '/^name = "selvedge-/ { getline; gsub(/version = |"/, ""); print }' Cargo.lock | sort -u)
    same "Cargo.lock" "$found"
    same "build/bin/selvedge" "$(build/bin/selvedge --version | cut -d ' ' -f 2)"
    found=$(sed -n 's/^Version: *//p' build/lib/pkgconfig/*.pc | sort -u)
    same "build/lib/pkgconfig" "$found"
    found=$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")/\1/p' build/lib/cmake/Selvedge/SelvedgeConfigVersion.cmake)
    same "SelvedgeConfigVersion.cmake" "$found"
    same "the manual page selvedge(1)" "$(sed -n 's/^\.TH selvedge 1 .*"selvedge \([0-9.]*\) *".*/\1/p' build/share/man/man1/selvedge.1)"
    grep -q "version(\"$version\"" packaging/spack/package.py || fail "packaging/spack/package.py has no version $version"
    local library
    for library in libportals.so.1 libsma.so.1 libselvedge_extoll.so.1 sharp/libsharp_coll.so.5; do
        [[ $(readelf -d "build/lib/$library" | sed -n 's/.*soname: \[\(.*\)\]/\1/p') = "${library##*/}" ]] || fail "the soname of $library"
    done
    say "versions: $version everywhere"
}

ci() {
    check ci .ci/run
    # What .ci/run could not check counts here, too.
    sed -n 's/^skipped: /ci: /p' "$folder/ci.log" >>"$skipped"
}

long() {
    check test-long make --no-print-directory test-long
    check hosts-long tests/hosts/run.sh --long
    check mpi4py tests/mpi/mpi4py.sh
    check mpi-programs tests/mpi/programs.sh
    check rtl make --no-print-directory rtl
    check site make --no-print-directory site
    check advisories advisories
}

advisories() {
    command -v cargo-deny >/dev/null || { echo "cargo-deny is not installed" && return 77; }
    cargo deny --locked check
}

packages() {
    rm -rf "$packages"
    mkdir -p "$packages"
    make --no-print-directory build >"$folder/build.log" 2>&1 || { tail -15 "$folder/build.log" >&2 && fail "make build"; }
    check deb packaging/deb.sh "$packages"
    check tarball packaging/tarball.sh "$packages"
    check wheel packaging/wheel.sh "$packages"
    # Built for an older C library, because rpm's distributions are others than this one.
    check rpm packaging/rpm.sh "$packages" build/old-glibc
    SELVEDGE_PACKAGES=$packages check package-tests packaging/test.sh "$folder/systems" deb tarball wheel rpm install
    check container packaging/container/steps.sh "$folder/systems/container" "$packages"
    check spack packaging/spack/check.py "$folder/spack"
}

summary() {
    [[ -d $packages ]] || fail "there are no packages; run the step packages"
    (cd "$packages" && rm -f SHA256SUMS && sha256sum -- * >SHA256SUMS)
    say "packages, in $packages:"
    (cd "$packages" && ls -l | awk 'NR > 1 { printf "    %12d  %s\n", $5, $9 }')
    if [[ -s $skipped ]]; then
        say "not checked here; run it elsewhere, or write it into the notes of the release:"
        sort -u "$skipped" | sed 's/^/    /'
    fi
    say "to do, by hand:"
    cat <<END
    1. make bench, on a quiet machine, and build/bin/selvedge validate --docs docs/results: read what has changed
    2. in a fresh clone on a machine without anything installed: make demo, and README.md's three things to try
    3. git tag -s v$version -m "Selvedge $version" && git push origin v$version
    4. upload the files of $packages, with SHA256SUMS and its signature
    5. python3 -m twine upload $packages/selvedge_nic-$version-*.whl
    6. raise the version in Cargo.toml, run cargo check, and open a section Unreleased in CHANGELOG.md
END
}

for step; do
    case $step in
    state | versions | ci | long | packages | summary) ;;
    *) fail "unknown step $step: state versions ci long packages summary" ;;
    esac
done
[[ $1 != state ]] || : >"$skipped"
for step; do "$step"; done
