// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The initialisation library of atollrun (`atollrun.h`; seed 002, section 2.3.2): a program's port, rank, size and connections.

use crate::common::{Place, compile_text};

const PROGRAM: &str = r#"
#include <atollrun.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "wrong: %s\n", what);
    exit(9);
}

int main(int argc, char **argv)
{
    int connects = strcmp(argv[1], "connects") == 0;
    check(atollrun_port() == NULL && atollrun_handle(0) == 0 && atollrun_id(0) == ATOLL_NO_ID, "before the start");
    check(atollrun_finalize() == ATOLL_ERR_PORT, "an end before the start");
    atollrun_set_auto_connect(connects);
    atollrun_set_communication_test(connects);
    atollrun_set_verbose(1);
    check(atollrun_init(&argc, &argv) == ATOLL_SUCCESS && argc == 2, "the start");
    check(atollrun_init(&argc, &argv) == ATOLL_SUCCESS, "a second start does nothing");
    int size = atollrun_size(), next = (atollrun_rank() + 1) % size;
    check(size == 3 && atollrun_rank() >= 0 && atollrun_rank() < size, "rank and size");
    check(atollrun_handle(size) == 0 && atollrun_handle(-1) == 0 && atollrun_id(size) == ATOLL_NO_ID, "no such rank");
    for (int i = 0; i < size; i++) check((atollrun_handle(i) != 0) == connects && atollrun_id(i) == (Atoll_Id)i, "connections");
    Atoll_Handle handle = atollrun_handle(next);
    if (!connects) check(atoll_connect(atollrun_port(), atollrun_id(next), &handle) == ATOLL_SUCCESS, "a connection");
    check(atoll_fast_send(atollrun_port(), handle, (uint32_t)next) == ATOLL_SUCCESS, "a send");
    uint32_t operand;
    check(atoll_fast_recv(atollrun_port(), ATOLL_ANY, &operand, NULL) == ATOLL_SUCCESS, "a receive");
    check(operand == (uint32_t)atollrun_rank(), "the operand");
    check(atollrun_finalize() == ATOLL_SUCCESS && atollrun_port() == NULL, "the end");
    return 0;
}
"#;

fn run(mode: &str) -> String {
    let place = Place::new("atollrun");
    let program = compile_text("atollrun", PROGRAM, &["atoll"]);
    let ended = place.run(&["-n", "3", "--timeout", "60", &program, mode]).output().expect("the launcher starts");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{said}");
    said
}

#[test]
fn the_start_connects_and_tests_or_leaves_both_to_the_program() {
    let said = run("connects");
    for rank in 0..3 {
        assert!(said.contains(&format!("atollrun: rank {rank} of 3, Hostport 0, tested\n")), "{said}");
    }
    let said = run("does not");
    assert!(said.contains("rank 2 of 3, Hostport 0\n"), "{said}");
}
