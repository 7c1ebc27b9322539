#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Copies the built tree to an install prefix (make install): all of bin, lib, include, libexec and share. Symbolic links stay relative,
# executable files get mode 755 and others 644, whatever the umask of the build was. The prefix is written into files for pkg-config; no
# other file contains a path of the tree.
#
# usage: packaging/install.sh TREE PREFIX [DESTDIR]
# With DESTDIR, the folder in which a package is built, files go to DESTDIR/PREFIX, and none names DESTDIR.
set -eu

cd "$1"
prefix=$2
root=${3:-}$prefix
list=$(mktemp)
made=$(mktemp)
trap 'rm -f "$list" "$made"' EXIT

find bin lib include libexec share -type f | LC_ALL=C sort >"$list"
while read -r file; do
    mode=644
    [ ! -x "$file" ] || mode=755
    case $file in
    lib/pkgconfig/*.pc)
        sed "s|^prefix=.*|prefix=$prefix|" "$file" >"$made"
        install -D -m "$mode" "$made" "$root/$file"
        ;;
    *) install -D -m "$mode" "$file" "$root/$file" ;;
    esac
done <"$list"
files=$(wc -l <"$list")

find bin lib include libexec share -type l | LC_ALL=C sort >"$list"
# One process for all, because each function has a link to its manual page.
mkdir -p "$root"
tar -cf - -T "$list" | tar -xf - -C "$root"
echo "installed in $root: $((files)) files, $(($(wc -l <"$list"))) links"
