// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The unit of a simulated NIC that carries libfabric's reads and writes (`accesses.c`). A program cannot tell.

use std::path::Path;
use std::process::Command;

use crate::common::{Place, report_of_two};

const COUNT: u64 = 20;

fn program(place: &Place) -> String {
    let made = place.file("accesses");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/accesses.c");
    let mut compile = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
    compile.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]).arg(source).arg("-o").arg(&made).arg("-lfabric");
    assert!(compile.status().expect("a C compiler").success(), "the headers are those of libfabric-dev");
    made.to_str().expect("a path of characters").to_owned()
}

/// Each write is a put followed by a get; each read is a get; one get looks the key up, after a lock request. Both
/// ranks do the same. The Portals unit is not used.
#[test]
fn on_extoll_reads_and_writes_are_gets_and_puts_of_the_rma_unit() {
    let place = Place::new("accesses");
    let program = program(&place);
    let run = |machine| report_of_two(&place, machine, &[], &[&program, &COUNT.to_string()])["registers"].clone();
    let register = |registers: &serde_json::Value, name: &str| registers[name].as_u64().unwrap_or(0);
    let extoll = run("extoll-ht400");
    let counted =
        ["requester_puts", "completer_puts", "requester_gets", "responder_gets", "requests", "notifications_discarded"];
    assert_eq!(
        counted.map(|name| register(&extoll, name)),
        [4 * COUNT, 4 * COUNT, 6 * COUNT + 2, 6 * COUNT + 2, 0, 0],
        "{extoll}"
    );
    let cluster = run("cluster");
    assert_eq!((register(&cluster, "requester_puts"), register(&cluster, "requests")), (0, 6 * COUNT), "{cluster}");
}

/// The address tables have room for six windows of 150 MB, and twenty are opened and closed. The Portals unit is not
/// used, so each has found the room of closed ones.
#[test]
fn on_extoll_closed_windows_make_room_for_others() {
    let place = Place::new("accesses-windows");
    let program = program(&place);
    let limited = ["env", "SELVEDGE_ADDRESS_TABLES=1", &program, "20", "150"];
    let registers = report_of_two(&place, "extoll-ht400", &[], &limited)["registers"].clone();
    assert_eq!(
        (registers["requests"].as_u64().unwrap_or(0), &registers["requester_puts"]),
        (0, &(80.into())),
        "{registers}"
    );
}
