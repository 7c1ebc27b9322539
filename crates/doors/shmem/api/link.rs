// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Renders the two files with which the linker makes `libsma.so` from the static library: `libsma.ld`, which includes
//! every function and gives it its second name for profilers (OpenSHMEM, "Profiling Interface"), and `libsma.map`,
//! which exports only these names. `link_files.rs` writes them for the Makefile.

use std::fmt::Write as _;

use super::all_functions;

/// The second name of a function, for profilers: the first with a p in front.
pub fn profiled(name: &str) -> String {
    format!("p{name}")
}

/// `libsma.ld`
pub fn aliases() -> String {
    let mut text = String::from(
        "/* SPDX-License-Identifier: Apache-2.0 OR MIT\n \
         * Made by `make build` from the table in crates/doors/shmem/api; not to be edited.\n \
         * Takes every function of libsma.so from the archive, and gives it a second name for profilers. */\n\n",
    );
    for function in all_functions() {
        writeln!(text, "EXTERN({name}) {} = {name};", profiled(&function.name), name = function.name)
            .expect("a string takes it");
    }
    text
}

/// `libsma.map`
pub fn version_script() -> String {
    let mut text = String::from(
        "# SPDX-License-Identifier: Apache-2.0 OR MIT\n\
         # Made by `make build` from the table in crates/doors/shmem/api; not to be edited.\n\
         # The names that libsma.so exports.\n{\n  global:\n",
    );
    for function in all_functions() {
        writeln!(text, "    {}; {};", function.name, profiled(&function.name)).expect("a string takes it");
    }
    text.push_str("  local:\n    *;\n};\n");
    text
}
