// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the library the name under which SHARP's users look for it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libsharp_coll.so.5");
    println!("cargo:rerun-if-changed=build.rs");
}
