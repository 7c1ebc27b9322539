// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks the library so that the loader runs its constructor before those of all other libraries.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rerun-if-changed=build.rs");
}
