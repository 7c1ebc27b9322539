// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives libportals.so the version of its interface: programs ask for `libportals.so.1`.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libportals.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
