#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Copies the built tree to an install prefix (make install): all of bin, lib, include, libexec and share. Symbolic links stay relative,
# executable files get mode 755 and others 644, whatever the umask of the build was. No file contains the prefix, so the tree can be moved.
#
# usage: packaging/install.sh TREE PREFIX [DESTDIR [LIBDIR]]
#        packaging/install.sh --uninstall PREFIX [DESTDIR]
# With DESTDIR, the folder in which a package is built, files go to DESTDIR/PREFIX. LIBDIR is the folder below the prefix for libraries: lib
# (the default), lib64, or lib/ARCH-linux-gnu; these are where the command looks for them. The list of installed files is
# PREFIX/share/selvedge/installed, by which --uninstall removes them.
set -eu

if [ "$1" = --uninstall ]; then
    root=${3:-}$2
    [ -f "$root/share/selvedge/installed" ] || { echo "install: $root/share/selvedge/installed: no such file; nothing is installed there" >&2 && exit 1; }
    cd "$root"
    removed=0
    while read -r file; do
        case $file in /* | *..*) echo "install: share/selvedge/installed: wrong name $file" >&2 && exit 1 ;; esac
        rm -f "$file"
        removed=$((removed + 1))
        echo "${file%/*}"
    done <share/selvedge/installed >.selvedge-folders
    rm -f share/selvedge/installed
    # Folders that are empty now, the deepest first; those that others use stay.
    { cat .selvedge-folders && echo share/selvedge; } | awk '{ while ($0 ~ /\//) { print; sub(/\/[^\/]*$/, "") } print }' |
        LC_ALL=C sort -ru | while read -r folder; do rmdir "$folder" 2>/dev/null || true; done
    rm -f .selvedge-folders
    echo "removed from $root: $removed files and links"
    exit
fi

cd "$1"
prefix=$2
root=${3:-}$prefix
libdir=${4:-lib}
case $libdir in
lib | lib64) above=.. ;;
lib/*-linux-gnu) above=../.. ;;
*) echo "install: LIBDIR is lib, lib64 or lib/ARCH-linux-gnu, not $libdir: the command looks for its libraries there" >&2 && exit 2 ;;
esac
list=$(mktemp)
made=$(mktemp)
trap 'rm -f "$list" "$made"' EXIT

# The name of a file of the tree below the prefix.
placed() {
    case $1 in
    lib/*) echo "$libdir/${1#lib/}" ;;
    *) echo "$1" ;;
    esac
}

find bin lib include libexec share -type f | LC_ALL=C sort >"$list"
while read -r file; do
    mode=644
    [ ! -x "$file" ] || mode=755
    to=$root/$(placed "$file")
    case $file in
    lib/pkgconfig/*.pc | lib/cmake/*)
        sed -e "s|^prefix=.*|prefix=\${pcfiledir}/../$above|" -e "s|^libdir=.*|libdir=\${exec_prefix}/$libdir|" \
            -e "/_selvedge_prefix \"/s|/\.\./\.\./\.\.\"|/../../$above\"|" "$file" >"$made"
        install -D -m "$mode" "$made" "$to"
        ;;
    *) install -D -m "$mode" "$file" "$to" ;;
    esac
done <"$list"
files=$(wc -l <"$list")

# Two processes for all links, because each function has one to its manual page.
mkdir -p "$root"
find bin include libexec share -type l | LC_ALL=C sort >"$made"
tar -cf - -T "$made" | tar -xf - -C "$root"
(cd lib && find . -type l | LC_ALL=C sort | tar -cf - -T -) | tar -xf - -C "$root/$libdir"
find bin lib include libexec share -type l | LC_ALL=C sort >"$made"
cat "$list" "$made" | while read -r file; do placed "$file"; done >"$root/share/selvedge/installed"
chmod 644 "$root/share/selvedge/installed"
echo "installed in $root: $((files)) files, $(($(wc -l <"$made"))) links"
