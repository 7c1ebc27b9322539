// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The output of all commands: its width, its colours, its JSON, and the machines that it lists.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::terminal::Terminal;
use crate::common::{Place, tree};

fn selvedge(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "SELVEDGE_PREFIX"] {
        command.env_remove(name);
    }
    command.env("SELVEDGE_PREFIX", tree());
    command
}

fn text(command: &mut Command) -> String {
    let done = command.output().expect("the command starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

/// How a command has its results as JSON.
enum Json {
    /// It prints no table.
    NoTable,
    /// These arguments print one, and with --json JSON.
    Prints(&'static [&'static str]),
    /// It needs a daemon, a job, an MPI or a minute; other tests run it. Its help names --json.
    Offers,
}

/// Every command. A new one gets a line here.
const COMMANDS: &[(&str, Json)] = &[
    ("run", Json::NoTable),
    ("sim", Json::Prints(&["sim", "--list"])),
    ("study", Json::Offers),
    ("validate", Json::Offers),
    ("mpirun", Json::NoTable),
    ("env", Json::NoTable),
    ("top", Json::Prints(&["top", "--once", "--interval", "0"])),
    ("registers", Json::Offers),
    // Another program, which is built where Verilator is; its help is not this one's.
    ("rtl", Json::NoTable),
    ("info", Json::Prints(&["info"])),
    ("doctor", Json::Offers),
    ("bench", Json::Prints(&["bench", "--list"])),
    ("bench mpi", Json::Offers),
    ("bench hosts", Json::Prints(&["bench", "hosts", "--list"])),
    ("bench sim", Json::Offers),
    // Its figures are those of bench.
    ("demo", Json::NoTable),
    ("manager", Json::Offers),
    ("aggregator", Json::NoTable),
    ("daemon", Json::NoTable),
    ("daemon passwd", Json::NoTable),
    ("fabric", Json::Offers),
    ("fabric status", Json::Offers),
    ("fabric hosts", Json::Offers),
    ("fabric links", Json::Offers),
    ("fabric topology", Json::Offers),
    ("fabric log", Json::Offers),
    ("fabric routes", Json::Offers),
    ("fabric load", Json::Offers),
    ("fabric nics", Json::Offers),
    ("fabric dump", Json::Offers),
    ("fabric restart", Json::Offers),
    ("fabric import", Json::Offers),
    ("fabric check", Json::Offers),
    ("fabric link", Json::Offers),
    ("fabric test", Json::Offers),
    ("fabric capture", Json::Offers),
    ("palms", Json::Offers),
    ("palms pingpong", Json::Offers),
    ("palms stream", Json::Offers),
    ("palms multicast", Json::Offers),
    ("palms sink", Json::Offers),
    ("completions", Json::NoTable),
];

/// The commands below one, as its help lists them.
fn below(command: &[&str]) -> Vec<String> {
    let help = text(selvedge(command).arg("-h"));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let name = |line: &str| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')).map(first_word);
    listed.filter_map(name).filter(|name| name != "help").collect()
}

fn first_word(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn every_command_with_a_table_has_json() {
    let mut found = Vec::new();
    for command in below(&[]) {
        let inner = if command == "rtl" { Vec::new() } else { below(&[&command]) };
        found.extend(inner.iter().map(|inner| format!("{command} {inner}")));
        found.push(command);
    }
    for name in &found {
        let known = COMMANDS.iter().find(|(known, _)| known == name);
        assert!(known.is_some(), "{name}: add it to COMMANDS of this test");
    }
    for (name, json) in COMMANDS {
        assert!(found.iter().any(|found| found == name), "{name} is gone; remove it here");
        match json {
            Json::NoTable => {}
            Json::Offers => {
                let words: Vec<&str> = name.split(' ').collect();
                assert!(text(selvedge(&words).arg("-h")).contains("--json"), "{name}");
            }
            Json::Prints(arguments) => {
                let place = Place::new("json");
                let plain = text(selvedge(arguments).env("SELVEDGE_DIR", place.file("")));
                assert!(serde_json::from_str::<Value>(&plain).is_err(), "{name}: {plain}");
                let printed = text(selvedge(arguments).arg("--json").env("SELVEDGE_DIR", place.file("")));
                let value: Value =
                    serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{name}: {error}: {printed}"));
                assert!(value.is_array() || value.is_object(), "{name}");
            }
        }
    }
}

#[test]
fn lists_have_the_documented_keys() {
    let list: Value = serde_json::from_str(&text(&mut selvedge(&["sim", "--list", "--json"]))).expect("JSON");
    let names = |kind: &str| -> Vec<&str> {
        list[kind].as_array().expect("an array").iter().filter_map(|one| one["name"].as_str()).collect()
    };
    assert!(names("machines").contains(&"cluster") && names("programs").contains(&"ping-pong"), "{list}");
    assert_eq!(names("patterns")[0], "uniform");
    for machine in list["machines"].as_array().expect("an array") {
        let about = machine["about"].as_str().unwrap_or_else(|| panic!("{machine}"));
        assert!(about.len() > 10 && !about.contains('\n') && machine["error"].is_null(), "{machine}");
    }
    let parameter = &list["programs"].as_array().expect("an array")[0]["parameters"][0];
    for key in ["name", "option", "about", "kind"] {
        assert!(parameter[key].is_string(), "{key}: {parameter}");
    }
    for arguments in [["bench", "--list", "--json"].as_slice(), &["bench", "hosts", "--list", "--json"]] {
        let cases: Value = serde_json::from_str(&text(&mut selvedge(arguments))).expect("JSON");
        assert!(cases[0]["name"].is_string() && cases[0]["about"].is_string(), "{cases}");
    }
}

const SHOWN: [&[&str]; 5] = [
    &["sim", "--list"],
    &["sim", "--machine", "cluster", "--describe", "--verbose"],
    &["info"],
    &["info", "registers"],
    &["bench", "--list"],
];

#[test]
fn tables_fit_the_width_of_the_user() {
    for arguments in SHOWN {
        let whole = text(&mut selvedge(arguments));
        for columns in [40, 80, 200] {
            let fitted = text(selvedge(arguments).env("COLUMNS", columns.to_string()));
            let widest = fitted.lines().max_by_key(|line| line.chars().count()).expect("lines");
            assert!(widest.chars().count() <= columns, "{arguments:?} at {columns}: {widest}");
            assert!(fitted.lines().count() >= whole.lines().count(), "{arguments:?} at {columns}");
        }
        // A pipe, and a width that is none, have no limit.
        assert_eq!(text(selvedge(arguments).env("COLUMNS", "0")).lines().count(), whole.lines().count());
        assert!(!whole.contains('\x1b'), "{whole}");
    }
}

#[test]
fn terminals_get_their_width_and_colours_that_they_can_refuse() {
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    for (columns, most) in [(0, 80), (60, 60), (80, 80), (132, 132)] {
        let shown = Terminal::new(24, columns).output(selvedge(&["sim", "--list"]).env("NO_COLOR", "1"));
        assert!(!shown.contains('\x1b') && widest(&shown) <= most, "{columns}: {shown}");
    }
    let coloured = Terminal::new(24, 80).output(&mut selvedge(&["sim", "--list"]));
    assert!(coloured.contains("\x1b["), "{coloured}");
    let plain = |name: &str, value: &str| {
        let mut command = selvedge(&["sim", "--list"]);
        let shown = Terminal::new(24, 80).output(command.env(name, value));
        assert!(!shown.contains('\x1b'), "{name}={value}: {shown}");
    };
    plain("NO_COLOR", "1");
    plain("CLICOLOR", "0");
    assert!(text(selvedge(&["sim", "--list"]).env("CLICOLOR_FORCE", "1")).contains("\x1b["));
}

#[test]
fn a_moved_tree_finds_its_machines() {
    let place = Place::new("moved");
    let (first, second) = (place.file("first"), place.file("second tree"));
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines");
    let share = first.join("share/selvedge/machines");
    std::fs::create_dir_all(&share).expect("a folder");
    std::fs::create_dir_all(first.join("bin")).expect("a folder");
    for name in ["extoll-ht400.toml", "extoll-asic500.toml"] {
        std::fs::copy(machines.join(name), share.join(name)).expect("a copy");
    }
    place.copy_program(env!("CARGO_BIN_EXE_selvedge"), "first/bin/selvedge");
    std::fs::rename(&first, &second).expect("moved");
    let link = place.file("link");
    std::os::unix::fs::symlink(second.join("bin/selvedge"), &link).expect("a link");
    let folder = place.file("elsewhere");
    std::fs::create_dir(&folder).expect("a folder");
    let stale = first.to_str().expect("a path");
    for (command, prefix) in [("selvedge", None), (link.to_str().expect("a path"), None), ("selvedge", Some(stale))] {
        let mut search = second.join("bin").into_os_string();
        search.push(":/usr/bin:/bin");
        let run = |arguments: &[&str]| {
            // A shell finds the command in PATH as users' shells do.
            let mut shell = Command::new("sh");
            shell.args(["-c", "command=$1; shift; exec \"$command\" \"$@\"", "sh", command]).args(arguments);
            shell.current_dir(&folder).env("PATH", &search).env_remove("SELVEDGE_PREFIX").env_remove("COLUMNS");
            text(shell.envs(prefix.map(|prefix| ("SELVEDGE_PREFIX", prefix))))
        };
        let list: Value = serde_json::from_str(&run(&["sim", "--list", "--json"])).expect("JSON");
        let of = |name: &str| {
            let all = list["machines"].as_array().expect("an array");
            let found = all.iter().find(|machine| machine["name"] == name).unwrap_or_else(|| panic!("{name}: {list}"));
            found["file"].as_str().expect("a path").to_owned()
        };
        assert!(of("extoll-asic500").starts_with(second.to_str().expect("a path")), "{command}");
        // Its base is found beside it.
        assert!(run(&["sim", "--machine", "extoll-asic500", "--describe"]).contains("torus"));
    }
}

#[test]
fn a_timeline_is_compressed_by_its_name() {
    let place = Place::new("timeline");
    for name in ["t.json", "t.json.gz"] {
        let mut command =
            selvedge(&["sim", "-n", "2", "--machine", "pac", "--program", "ping-pong", "--quiet", "--trace"]);
        text(command.arg(place.file(name)));
    }
    let [plain, compressed] = ["t.json", "t.json.gz"].map(|name| std::fs::read(place.file(name)).expect("a timeline"));
    assert!(serde_json::from_slice::<Value>(&plain).expect("JSON")["traceEvents"].is_array());
    assert!(compressed.starts_with(&[0x1f, 0x8b]) && compressed.len() * 5 < plain.len(), "{}", compressed.len());
    let unpacked = Command::new("gzip").arg("-dc").arg(place.file("t.json.gz")).output().expect("gzip starts");
    assert!(unpacked.status.success() && unpacked.stdout == plain);
}

#[test]
fn a_program_that_does_not_use_the_library_is_named() {
    for dashes in [&["--"][..], &[]] {
        let mut command = selvedge(&["sim", "-n", "2", "--machine", "pac", "--quiet"]);
        let done = command.args(dashes).arg("/bin/true").output().expect("the command starts");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("no rank used the library: /bin/true"), "{said}");
        assert!(said.contains("linked") && said.lines().count() == 1, "{said}");
    }
    let done = selvedge(&["sim", "--machine", "pac", "ping-pong"]).output().expect("the command starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(127), "{said}");
    assert!(said.contains("--program ping-pong runs the built-in program"), "{said}");
}
