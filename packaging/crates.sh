#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Prints the crates of which an install consists: those that `make build` names.
cd "$(dirname "$0")/.." && sed -n 's/.*--locked --release \(-p .*\)/\1/p' Makefile | sed 's/-p //g'
