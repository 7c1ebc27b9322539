#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes rpm packages from the built tree: selvedge, selvedge-libs, selvedge-devel. They were installed by `rpm --root --nodeps` on Debian; no
# distribution of rpm's was tried. Take a tree that was built for an older C library (packaging/wheel.sh) for other systems than this one.
#
# usage: packaging/rpm.sh [FOLDER [TREE]]      FOLDER: for the packages, build/packages; TREE: what `make build` made, build
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/packages}
command -v rpmbuild >/dev/null || { echo "rpm.sh: rpmbuild is missing; apt-get install rpm" >&2 && exit 1; }
version=$(packaging/version.sh)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
packaging/stage.sh "${2:-build}" "$stage/tree" /usr lib64
# Open MPI's component is Debian's Open MPI's.
rm -rf "$stage/tree/usr/lib64/openmpi"
find "$stage/tree/usr/bin" "$stage/tree/usr/libexec" -type f -exec sh -c 'patchelf --remove-rpath "$1" 2>/dev/null || true' sh {} \;
# rpmbuild's own compression follows no links.
find "$stage/tree/usr/share/man" -type f -exec gzip -9n {} +
find "$stage/tree/usr/share/man" -type l | while read -r link; do
    ln -s "$(readlink "$link").gz" "$link.gz"
    rm "$link"
done
rpmbuild -bb --define "_topdir $stage/rpm" --define "staged $stage/tree" --define "version_of $version" packaging/rpm/selvedge.spec >"$stage/log" 2>&1 ||
    { tail -20 "$stage/log" >&2 && exit 1; }
mkdir -p "$out"
cp "$stage"/rpm/RPMS/*/*.rpm "$out/"
ls -l "$out"/*.rpm
