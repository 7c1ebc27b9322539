#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Unit tests of pure modules, under Miri:
#
#     tests/sanitize/miri.sh                 all crates that are named below
#     tests/sanitize/miri.sh selvedge-nic    one of them
#
# Prints a message and ends with 0 if the toolchain is missing. A crate has LIMIT_S seconds for its tests; beyond that
# it fails.
#
# Tests are chosen by name. The others walk whole spaces (every pair of a network's nodes, every state of an allocator)
# or fix a large number of property cases: they take from minutes to hours under Miri, and run the same code.
set -eu
cd "$(dirname "$0")/../.."

skip() {
    echo "miri: skipped: $1"
    exit 0
}

cargo +nightly --version >/dev/null 2>&1 || skip "no nightly toolchain (rustup toolchain install nightly)"
cargo +nightly miri --version >/dev/null 2>&1 || rustup component add miri rust-src --toolchain nightly >/dev/null 2>&1 ||
    skip "nightly has no miri (rustup component add miri rust-src --toolchain nightly)"

# Property tests read the clock, and the folder of failed cases.
export MIRIFLAGS="-Zmiri-disable-isolation"
export PROPTEST_CASES="${PROPTEST_CASES:-2}"
: "${LIMIT_S:=240}"

status=0
for crate in ${1:-selvedge-fabric selvedge-nic selvedge-fi}; do
    case $crate in
    selvedge-fabric) tests="path:: --skip every_ --skip 64x64 --skip likely_ --skip any_" ;;
    selvedge-nic)
        tests="buddy:: packet:: portals::events:: arithmetic::tests::complex arithmetic::tests::nan arithmetic::tests::numbers
            arithmetic::tests::operations arithmetic::tests::slices arithmetic::tests::gcc operation::tests::allowed
            operation::tests::conditional
            --skip every_ --skip largest --skip oracle --skip rebuild_ --skip corrupt_"
        ;;
    selvedge-fi) tests="core:: --skip plain_list" ;;
    *) tests= ;;
    esac
    cargo +nightly miri test --target-dir target/miri -p "$crate" --lib --no-run
    # shellcheck disable=SC2086
    timeout -k 5 "$LIMIT_S" cargo +nightly miri test --target-dir target/miri -p "$crate" --lib -- $tests || {
        echo "miri: $crate failed, or did not finish within $LIMIT_S s"
        status=1
    }
done
exit $status
