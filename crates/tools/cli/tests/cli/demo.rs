// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge demo`: its page, its few lines, and what it says about a failed example and about missing ones.
//!
//! Needs a built tree (`make build`).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::{Place, tree};

fn demo(place: &Place, prefix: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.arg("demo").args(arguments).current_dir(place.file("")).stdin(Stdio::null());
    command.env("SELVEDGE_PREFIX", prefix).env("SELVEDGE_DIR", place.file("")).env_remove("COLUMNS");
    command.output().expect("the command starts")
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The page that the last line names.
fn page_of(output: &Output) -> (PathBuf, String) {
    let printed = said(&output.stdout);
    let path = PathBuf::from(printed.lines().last().unwrap_or_else(|| panic!("{}", said(&output.stderr))));
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {printed}"));
    (path, page)
}

#[test]
fn a_page_shows_examples_costs_and_a_simulated_machine() {
    let place = Place::new("demo");
    let output = demo(&place, &tree(), &["--smoke", "--peers", "none"]);
    let (printed, errors) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}");
    assert!(printed.lines().count() + errors.lines().count() < 40, "{printed}{errors}");
    assert!(!printed.contains("cells on") && printed.contains("raw_flag"), "ranks print to the page: {printed}");
    let (path, page) = page_of(&output);
    assert!(path.is_absolute() && path.ends_with("selvedge-demo.html"), "{}", path.display());
    let wanted = [
        "$ selvedge run -n 2 examples/hello_put",
        "$ selvedge run -n 4 examples/shmem/stencil",
        "<h2>Latency</h2>",
        "<td>raw_flag</td>",
        "id=\"plot-latency-8\"",
        "<h2>Bandwidth</h2>",
        "<td>memcpy_ordinary</td>",
        "$ selvedge sim -n 64 --machine extoll-asic500 -- examples/halo2d 256 20\n37 x 29 cells",
        "64 on 64 nodes",
        "<canvas id=\"topology\"",
        "id=\"plot-simulated-latency\"",
        "<code>selvedge validate</code>",
    ];
    for word in wanted {
        assert!(page.contains(word), "{word} is missing from {}", path.display());
    }
    assert!(!page.contains("<h2>Failed</h2>") && !page.contains("src=") && !page.contains("@import"));
}

/// A tree like the built one, with another program in place of one example.
fn tree_with(place: &Place, example: &str, script: &str) -> PathBuf {
    let (built, made) = (tree().canonicalize().expect("a tree"), place.file("tree"));
    let link_all = |from: &Path, to: &Path| {
        fs::create_dir(to).expect("a folder");
        for entry in fs::read_dir(from).expect("a folder").flatten() {
            symlink(entry.path(), to.join(entry.file_name())).expect("a link");
        }
    };
    link_all(&built, &made);
    fs::remove_file(made.join("examples")).expect("the link is there");
    link_all(&built.join("examples"), &made.join("examples"));
    let program = made.join("examples").join(example);
    fs::remove_file(&program).expect("the link is there");
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
    made
}

#[test]
fn a_wrong_byte_fails_and_is_on_the_page() {
    let place = Place::new("demo-wrong");
    let tree = tree_with(&place, "hello_put", "#!/bin/sh\necho 'byte 5 is wrong' >&2\nexit 3\n");
    let output = demo(&place, &tree, &["--smoke", "--peers", "none", "--html", "page.html"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output.stderr));
    assert!(said(&output.stderr).contains("selvedge demo: hello_put: "), "{}", said(&output.stderr));
    assert!(said(&output.stdout).contains("FAILED  hello_put"), "{}", said(&output.stdout));
    let (_, page) = page_of(&output);
    assert!(page.contains("<h2>Failed</h2>") && page.contains("byte 5 is wrong") && page.contains("<h2>Latency</h2>"));
}

#[test]
fn missing_examples_and_folders_are_named_with_the_remedy() {
    let place = Place::new("demo-missing");
    let output = demo(&place, &place.file(""), &[]);
    let errors = said(&output.stderr);
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{errors}");
    assert!(errors.contains("examples/hello_put: no such file") && errors.contains("run make demo in the source"));
    let output = demo(&place, &tree(), &["--html", "no/such/page.html"]);
    let errors = said(&output.stderr);
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{errors}");
    assert!(errors.contains("--html no/such/page.html: there is no folder no/such"), "{errors}");
}
