#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes Debian packages from the built tree: libselvedge1, libselvedge-dev, selvedge, and their debug files.
#
# usage: packaging/deb.sh [FOLDER]      FOLDER: for the packages; build/packages
#
# DEBFULLNAME and DEBEMAIL name the maintainer.
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/packages}
for tool in dpkg-buildpackage dh patchelf; do
    command -v $tool >/dev/null || { echo "deb.sh: $tool is missing; apt-get install dpkg-dev debhelper patchelf" >&2 && exit 1; }
done
[ -x build/bin/selvedge ] || { echo "deb.sh: build/bin/selvedge is missing; run make build" >&2 && exit 1; }
version=$(packaging/version.sh)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/selvedge" "$stage/selvedge/debian"
cp -R packaging/debian/. "$stage/selvedge/debian/"
# shellcheck disable=SC2046  # words
packaging/licences.py $(packaging/crates.sh) >"$stage/selvedge/debian/third-party-licences"
maintainer="${DEBFULLNAME:-The Selvedge developers} <${DEBEMAIL:-selvedge@localhost}>"
sed -i "s/^Maintainer:.*/Maintainer: $maintainer/" "$stage/selvedge/debian/control"
cat >"$stage/selvedge/debian/changelog" <<END
selvedge ($version) unstable; urgency=medium

  * Version $version: see CHANGELOG.md.

 -- $maintainer  $(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}")
END
(cd "$stage/selvedge" && SELVEDGE_SOURCE="$OLDPWD" DEB_BUILD_OPTIONS="nocheck parallel=2" dpkg-buildpackage -b -us -uc -d >"$stage/log" 2>&1) ||
    { tail -30 "$stage/log" >&2 && exit 1; }
mkdir -p "$out"
cp "$stage"/*.deb "$out/"
ls -l "$out"/*"_${version}_"*.deb
