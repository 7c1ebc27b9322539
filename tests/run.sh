#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the tests of `make test`: the registers' generated files, the examples, and every suite of the workspace except
# that of the engine in SystemVerilog. After a failure the rest still runs; the last lines list the failures, and the
# exit status is 1. A compilation error ends it at once.
#
# usage: make test    or, where setup.sh has run: tests/run.sh [--build]     with --build it only builds
#
# The tests use a tree of their own, target/checked/tree, which is built in their profile: each crate is compiled once, and the
# assertions of the libraries count in every suite. `make build` builds the tree of users.
#
# CARGO and TEST_PROFILE (checked) are those of the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."

# The user's settings do not count.
export SELVEDGE_CONFIG=/dev/null

read -ra cargo <<<"${CARGO:-cargo}"
# Suites are chosen by name in the whole workspace, because a choice of packages has other features and is built anew.
profile=${TEST_PROFILE:-checked}
crates=(--workspace --exclude selvedge-rtl)
workspace=(--locked --profile "$profile" "${crates[@]}")
tree=${CARGO_TARGET_DIR:-target}/$profile/tree # relative if it can be: make takes a space in the path of the repository for an end
SELVEDGE_PREFIX=$tree
[[ $tree = /* ]] || SELVEDGE_PREFIX=$PWD/$tree
export SELVEDGE_PREFIX
# Suites whose processes mostly wait. They run beside the others, one after the other.
waiting=(death outside live one_host service_ends)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()

# Tests, their programs and the tree by one command of cargo: with two, some crates have other features, and are built twice.
if ! make --no-print-directory build TREE="$tree" PROFILE="$profile" CRATES="${crates[*]} --lib --bins --tests --examples"; then
    printf '\n*** make test: nothing was tested, because the tests or their tree cannot be built\n' >&2
    exit 1
fi
[[ ${1:-} != --build ]] || exit 0

make --no-print-directory check-registers || failed+=("make check-registers")
tests/examples.sh || failed+=("tests/examples.sh (make check-examples)")

# names_of_suites [NAME]...: --test and name of each suite of the workspace that is not named.
names_of_suites() {
    "${cargo[@]}" metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
targets = [target for package in json.load(sys.stdin)["packages"] for target in package["targets"]
           if package["name"] != "selvedge-rtl" and target["test"] and "test" in target["kind"]]
missing = set(sys.argv[1:]) - {target["name"] for target in targets}
if missing: sys.exit(f"tests/run.sh: no suite is named {missing.pop()}")
print(*sorted({"--test=" + target["name"] for target in targets} - {"--test=" + name for name in sys.argv[1:]}))' "$@"
}
read -ra others <<<"$(names_of_suites "${waiting[@]}")"
[[ ${#others[@]} != 0 ]] || exit 1

"${cargo[@]}" test "${workspace[@]}" --no-fail-fast "${waiting[@]/#/--test=}" >"$work/beside" 2>&1 &
tests=$!
status=0
{
    "${cargo[@]}" test "${workspace[@]}" --no-fail-fast --lib --bins "${others[@]}" || status=1
    "${cargo[@]}" test "${workspace[@]}" --no-fail-fast --doc || status=1
    exit "$status"
} 2>&1 | tee "$work/others" || status=1
wait "$tests" || status=1
cat "$work/beside"

# Prints the number of suites and tests, then each failing suite, as the options of Cargo that run it again, with its
# failed tests. Reads the output of Cargo and the suites.
cat "$work/others" "$work/beside" | awk '
    / Running | Doc-tests / { suites++; tests = 0 }
    # A suite lists the names twice, the first time with the output of each test.
    /^failures:$/ { listing = 1; tests = 0; next }
    listing && /^    [^ ]/ { name[tests++] = $0 }
    /^test result: / { listing = 0; passed += $4; bad += $6; ignored += $8 }
    /^error: (doc)?test failed, to rerun pass / {
        listing = 0
        split($0, part, "`")
        line[lines++] = "cargo test " part[2]
        for (i = 0; i < tests; i++) line[lines++] = name[i]
        tests = 0
    }
    /^  process didn.t exit successfully: / { sub(/.*` /, ""); line[lines++] = "    it ended before the others of its tests " $0 }
    END {
        printf "%d suites, %d tests passed, %d failed, %d are left out\n", suites, passed, bad, ignored
        for (i = 0; i < lines; i++) print line[i]
    }' >"$work/summary"
while IFS= read -r line; do failed+=("$line"); done < <(tail -n +2 "$work/summary")
[[ $status = 0 ]] || grep -q '^cargo test ' "$work/summary" || failed+=("cargo test, before or after the suites")

printf '\n=== make test: %s\n' "$(head -1 "$work/summary")"
if [[ ${#failed[@]} != 0 ]]; then
    printf '*** failed:\n'
    printf '    %s\n' "${failed[@]}"
    exit 1
fi
printf 'All passed.\n'
