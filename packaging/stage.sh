#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Copies the built tree for a package: stripped, with the debug information apart and all licences.
#
# usage: packaging/stage.sh TREE FOLDER PREFIX LIBDIR      files go to FOLDER/PREFIX, debug files to FOLDER.debug/PREFIX
set -eu
cd "$(dirname "$0")/.."
[ -x "$1/bin/selvedge" ] || { echo "stage.sh: $1/bin/selvedge is missing; run make build" >&2 && exit 1; }
folder=$2
prefix=$3
packaging/install.sh "$1" "$prefix" "$folder" "$4" >/dev/null
rm "$folder$prefix/share/selvedge/installed"
find "$folder$prefix" -type f \( -perm -u+x -o -name '*.so*' \) | while read -r file; do
    [ "$(head -c 4 "$file" | od -An -c | tr -d ' ')" = 177ELF ] || continue
    debug=$folder.debug${file#"$folder"}.debug
    mkdir -p "${debug%/*}"
    objcopy --only-keep-debug "$file" "$debug"
    strip --strip-unneeded "$file"
    objcopy --add-gnu-debuglink="$debug" "$file"
done
documents=$folder$prefix/share/doc/selvedge
mkdir -p "$documents"
cp LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$documents/"
# shellcheck disable=SC2046  # words
packaging/licences.py $(packaging/crates.sh) >"$documents/third-party-licences"
