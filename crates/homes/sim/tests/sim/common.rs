// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small machine whose costs are round numbers.

use std::path::Path;
use std::sync::Arc;

use selvedge_sim::machine::{Machine, load};

const SMALL: &str = r#"
name = "small"
[topology]
kind = "torus"
dimensions = [4, 4]
[routing]
algorithm = "dimension-order"
[link]
bandwidth_MBps = 1000
latency_ns = 10
flit_bytes = 16
header_bytes = 16
packet_bytes = 1024
virtual_channels = 2
buffer_flits = 128
[switch]
latency_ns = 50
[host]
software_send_ns = 30
software_receive_ns = 40
doorbell_ns = 100
pio_bytes_max = 64
dma_read_ns = 200
dma_write_ns = 150
dma_MBps = 2000
interrupt_ns = 1000
system_call_ns = 100
memory_access_ns = 60
copy_MBps = 4000
[nic]
mode = "nic"
matching = "hash"
processors = 2
command_ns = 50
header_ns = 30
entry_search_ns = 10
"#;

/// The machine, with other values for some of its keys.
pub fn machine(overrides: &[(&str, &str)]) -> Arc<Machine> {
    from_text(SMALL, overrides)
}

/// The machine with 16 nodes on one switch: messages share only the channel to a node.
#[allow(dead_code, reason = "each test file is a program of its own")]
pub fn crossbar(overrides: &[(&str, &str)]) -> Arc<Machine> {
    let text = SMALL.replace("kind = \"torus\"\ndimensions = [4, 4]", "kind = \"crossbar\"\nnodes = 16");
    from_text(&text.replace("dimension-order", "up-down"), overrides)
}

/// The machine as a dragonfly of five groups with four nodes each, and minimal routes.
#[allow(dead_code, reason = "each test file is a program of its own")]
pub fn dragonfly() -> Arc<Machine> {
    let shape =
        "kind = \"dragonfly\"\ngroups = 5\nrouters_per_group = 2\nnodes_per_router = 2\nglobal_links_per_router = 2";
    let text = SMALL.replace("kind = \"torus\"\ndimensions = [4, 4]", shape);
    from_text(&text.replace("dimension-order", "minimal"), &[])
}

fn from_text(text: &str, overrides: &[(&str, &str)]) -> Arc<Machine> {
    let overrides: Vec<_> = overrides.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Arc::new(load::from_text(Path::new("small.toml"), text, &overrides).unwrap())
}
