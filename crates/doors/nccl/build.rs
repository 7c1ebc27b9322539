// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives the library the name under which NCCL looks for it (`NCCL_NET_PLUGIN=selvedge`).

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libnccl-net-selvedge.so");
    println!("cargo:rerun-if-changed=build.rs");
}
