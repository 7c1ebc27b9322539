#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Our pages in a headless Chromium. The manager's page: topology, colours, hover, route, log, an operator's act, a viewer
# refused, a time of drawing. The fabric is a made-up one, behind the daemon's protocol (crates/tools/page/tests/common).
# The page of running jobs. A simulation's report: on wide and narrow screens, light and dark, with its links (report.py).
#
# usage: tests/page/page.sh [--bars]     with --bars the time of drawing is a failure, too
#
# Exit status: 77 without Chromium (Debian: chromium) or Python 3.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "page: left out: python3 is not installed" && exit 77; }
python3 -c 'import sys; sys.path.insert(0, "tests/page"); import browser; sys.exit(browser.found() is None)' ||
    { echo "page: left out: Chromium is not installed (Debian: chromium)" && exit 77; }
profile=${TEST_PROFILE:-checked}
# As make test builds it: with the features of the whole workspace.
"${CARGO:-cargo}" build --locked --quiet --profile "$profile" --workspace --exclude selvedge-rtl --example made_up --bin selvedge || exit 1
built=${CARGO_TARGET_DIR:-target}/$profile
status=0
python3 tests/page/report.py "$built/selvedge" || status=1
python3 tests/page/page.py "$built/examples/made_up" "$@" || status=1
exit $status
