#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes a tarball that runs from any folder, and one with its debug files.
#
# usage: packaging/tarball.sh [FOLDER [TREE]]      FOLDER: for the tarballs, build/packages; TREE: what `make build` made, build
set -eu
cd "$(dirname "$0")/.."
out=${1:-build/packages}
version=$(packaging/version.sh)
name=selvedge-$version-linux-$(uname -m)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
packaging/stage.sh "${2:-build}" "$stage/tree" "/$name" lib
mkdir -p "$out"
tar -C "$stage/tree" --owner=0 --group=0 --sort=name -cJf "$out/$name.tar.xz" "$name"
# The debug files are large, and seldom wanted.
XZ_OPT=-2 tar -C "$stage/tree.debug" --owner=0 --group=0 --sort=name -cJf "$out/$name-debug.tar.xz" "$name"
ls -l "$out/$name.tar.xz" "$out/$name-debug.tar.xz"
