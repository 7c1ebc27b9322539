#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Prints the manual page of a script of this folder, made of its --help: a line `NAME: text`, `Usage: ..`, the rest.
#
# usage: packaging/script-manual.sh SCRIPT VERSION
set -eu
name=${1##*/}
"$1" --help | sed -e 's/ (now: [^)]*)//' -e 's/\\/\\e/g' -e 's/-/\\-/g' -e 's/^\([.'"'"']\)/\\\&\1/' | awk -v name="$name" -v version="$2" '
    NR == 1 {
        sub(/^[^:]*: /, "")
        printf ".TH %s 1 \"\" \"Selvedge %s\" \"User Commands\"\n.SH NAME\n%s \\- %s\n", name, version, name, $0
        next
    }
    /^Usage: / { sub(/^Usage: /, ""); printf ".SH SYNOPSIS\n.nf\n%s\n.fi\n.SH DESCRIPTION\n.nf\n", $0; next }
    NR > 4 || NF { print }
    END { print ".fi\n.SH SEE ALSO\n.BR selvedge\\-run (1),\n.BR selvedge\\-environment (7)" }'
