// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that preloaded libraries hide from a program, because reading them takes long and the result is not used.

use std::ffi::CStr;

/// Whether `fopen` reports this file as missing.
///
/// libfabric's verbs provider reads `/proc/kallsyms` at start, to learn whether the kernel maps device memory. The
/// kernel formats 200,000 lines for it, which takes 0.15 s in every process, and no setting turns that off. Over our
/// provider the result is not used.
pub fn is_hidden(path: &CStr) -> bool {
    path == c"/proc/kallsyms"
}
