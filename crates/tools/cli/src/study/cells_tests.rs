// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::collections::BTreeSet;

use super::*;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for name in ["a", "b"] {
            place.write(&format!("{name}.toml"), &format!("name = '{name}'"));
        }
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn cells(&self, text: &str) -> Result<Cells, String> {
        let options = Options::new();
        let scenario = Scenario::parse(&self.0.path().join("s.toml"), text, &options).map_err(|error| error.0)?;
        Cells::of(&scenario, &self.0.path().join("s.study"), &options).map_err(|error| error.0)
    }

    fn ids(&self, text: &str) -> Vec<String> {
        self.cells(text).unwrap().cells.into_iter().map(|cell| cell.id).collect()
    }
}

const BOTH: &str =
    "[run]\ntraffic = 'uniform'\n[sweep]\nmachine = ['a.toml', 'b.toml']\nload = [0.1, 0.2]\nseed = [1, 2]";

#[test]
fn the_last_key_is_the_fastest() {
    let place = Place::new();
    let cells = place.cells(BOTH).unwrap();
    assert_eq!(cells.axes, ["machine", "load", "seed"]);
    let words: Vec<String> = cells.cells.iter().map(|cell| cells.words(cell)).collect();
    assert_eq!(words.len(), 8);
    assert_eq!(
        words[..3],
        ["machine=a.toml load=0.1 seed=1", "machine=a.toml load=0.1 seed=2", "machine=a.toml load=0.2 seed=1"]
    );
    let first = &cells.cells[0];
    assert!(first.options[0].ends_with("/a.toml") && first.command.is_empty(), "{first:?}");
    assert_eq!(first.options[1..], ["--load=0.1", "--seed=1", "--traffic=uniform"]);
}

#[test]
fn an_edited_file_changes_only_its_cells() {
    let place = Place::new();
    let before = place.ids(BOTH);
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 8);
    assert_eq!(place.ids(BOTH), before);
    place.write("b.toml", "name = 'b' # edited");
    let after = place.ids(BOTH);
    assert_eq!((&after[..4], after.iter().filter(|id| before.contains(id)).count()), (&before[..4], 4));
    // The base of a machine, its graph, and files that options and programs name count too.
    let text = "[run]\nmachine = 'a.toml'\nprogram = 'replay'\nparam.trace = 'trace.txt'\nroutes-from = 'routes'";
    place.write("a.toml", "base = 'b'\n[topology]\nfile = 'graph'");
    let mut ids = BTreeSet::from([place.ids(text)]);
    for file in ["b.toml", "graph", "trace.txt", "routes"] {
        place.write(file, "another");
        assert!(ids.insert(place.ids(text)), "{file}");
    }
    let text = "[run]\nmachine = 'a.toml'\ncommand = ['./run', '--input=data']";
    let mut ids = BTreeSet::from([place.ids(text)]);
    for file in ["run", "data"] {
        place.write(file, "another");
        assert!(ids.insert(place.ids(text)), "{file}");
    }
}

#[test]
fn equal_simulations_have_one_id_wherever_they_stand() {
    let (one, other) = (Place::new(), Place::new());
    let text = "[run]\nmachine = 'a.toml'\ntraffic = 'uniform'\nload = 0.2";
    assert_eq!(one.ids(text), other.ids("[run]\nload = 0.2\ntraffic = 'uniform'\n[sweep]\nmachine = ['a.toml']"));
    assert_ne!(one.ids(text), one.ids(&format!("{text}\nno-reroute = true\nfail-link = ['0-1@1us']")));
    let cases =
        "[run]\nmachine = 'a.toml'\ntraffic = 'uniform'\n[[case]]\nname = 'x'\n[[case]]\nname = 'y'\nload = 0.3";
    let cells = one.cells(cases).unwrap();
    assert_eq!((&cells.axes[..], cells.cells[0].id == cells.cells[1].id), (&["case".to_owned()][..], false));
}

#[test]
fn a_described_machine_is_that_of_cells_without_another() {
    let place = Place::new();
    let text = "[machine]\nbase = 'b'\n[machine.topology]\nkind = 'file'\nfile = 'graph'\n[run]\ntraffic = 'uniform'";
    let cells = place.cells(text).unwrap();
    let (options, machine) = (&cells.cells[0].options, cells.machine.unwrap());
    assert!(options[0].ends_with("s.study/machine.toml"), "{options:?}");
    let folder = place.0.path().canonicalize().unwrap();
    let file = |name: &str| folder.join(name).display().to_string();
    assert!(machine.contains(&file("b.toml")) && machine.contains(&file("graph")), "{machine}");
    let ids = place.ids(text);
    place.write("graph", "g");
    assert_ne!(ids, place.ids(text));
}

#[test]
fn values_are_checked_before_anything_runs() {
    let place = Place::new();
    for (text, expected) in [
        ("[run]\nmachine = 'a.toml'", "nothing to simulate; add traffic, program or command"),
        ("[run]\ntraffic = 'uniform'", "[run] machine: is missing"),
        ("[run]\nmachine = 'nowhere'\ntraffic = 'uniform'", "s.toml:2: machine: there is no machine 'nowhere'"),
        ("[run]\nmachine = 'a.toml'\ntraffic = 'uniform'\nload = 2", "s.toml:4: load: invalid value '2'"),
        (
            "[run]\nmachine = 'a.toml'\ntraffic = 'uniform'\n[sweep]\nseed = [1]\nload = [0.1, 2]",
            "s.toml:6: load: invalid",
        ),
        (
            "[run]\nmachine = 'a.toml'\n[sweep]\nnp = { from = 1, to = 2000 }\nseed = { from = 1, to = 2000 }",
            "more than 1048576 cells",
        ),
    ] {
        let error = place.cells(text).unwrap_err();
        assert!(error.contains(expected), "{text}:\n{error}\nnot: {expected}");
    }
}

#[test]
fn results_of_a_limit_or_a_kill_that_was_asked_for_count() {
    let place = Place::new();
    let codes = |more: &str| {
        let cells = place.cells(&format!("[run]\nmachine = 'a.toml'\nprogram = 'allreduce'\n{more}"));
        cells.unwrap().cells[0].exit_codes.clone()
    };
    assert_eq!(codes(""), [0]);
    assert_eq!(codes("time-limit = '1ms'\nkill = ['1@1us']"), [0, TIME_LIMIT, KILLED]);
}
