#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Prints the version of Cargo.toml: the only place that has it.
sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml"
