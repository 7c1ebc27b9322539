// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the library behind libvelo2, librma2, libatoll and libgasnet-selvedge the version of its interfaces.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libselvedge_extoll.so.1");
    println!("cargo:rerun-if-changed=build.rs");
}
