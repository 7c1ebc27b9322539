// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the FFI types from the installed headers of libfabric: only types and constants. Functions are looked up in
//! the libfabric of the process (`src/library.rs`), so nothing is linked.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=wrapper.h");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("libfabric.rs");
    let made = bindgen::Builder::default()
        .header("wrapper.h")
        .allowlist_type("fi_.*|fid.*")
        .blocklist_type("iovec")
        .raw_line("pub use libc::iovec;")
        .allowlist_var("FI_.*")
        .prepend_enum_name(false)
        .derive_default(true)
        .layout_tests(false)
        .generate_comments(false)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate();
    match made {
        Ok(bindings) => bindings.write_to_file(&out).expect("OUT_DIR can be written"),
        Err(error) => panic!("libfabric's headers cannot be read (Debian: libfabric-dev, libclang-dev): {error}"),
    }
}
