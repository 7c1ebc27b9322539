// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge study`: studies that are killed, changed or failing, and the claims of the example scenario.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, tree, wait_until};
use serde_json::Value;

/// A hundred cells, each of some milliseconds.
const HUNDRED: &str = r#"
[run]
machine = "torus.toml"
skip = "1us"
measured = "4us"
set.topology.dimensions = [8, 8]
[sweep]
set.routing.algorithm = ["dimension-order", "up-down"]
traffic = ["uniform", "tornado"]
load = { from = 0.05, to = 0.25, step = 0.05 }
seed = { from = 1, to = 5 }
"#;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A folder with a scenario and a machine.
struct Study(Place);

impl Study {
    fn new(name: &str, scenario: &str) -> Study {
        let study = Study(Place::new(&format!("study-{name}")));
        study.write("s.toml", scenario);
        study.write("torus.toml", &fs::read_to_string(workspace().join("machines/torus16.toml")).unwrap());
        study
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.file(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.file("s.study").join(name)).unwrap_or_default()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.arg("study").arg(self.0.file("s.toml")).args(args).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        Ended::from(self.command(args).output().expect("the command starts"))
    }

    /// The files of finished cells. A file that is written again has another inode or another time.
    fn kept(&self) -> BTreeMap<String, (u64, i64, i64)> {
        let files = fs::read_dir(self.0.file("s.study/cells")).into_iter().flatten().flatten();
        let kept = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "json"));
        let entry = |file: fs::DirEntry| {
            let found = file.metadata().unwrap();
            (file.file_name().into_string().unwrap(), (found.ino(), found.mtime(), found.mtime_nsec()))
        };
        kept.map(entry).collect()
    }
}

/// The number of cells that a run of the command ran.
fn ran(ended: &Ended) -> &str {
    let line = ended.out.lines().find_map(|line| line.trim().strip_prefix("wall cells run"));
    line.unwrap_or_else(|| panic!("{ended:?}")).trim()
}

#[test]
fn a_killed_study_goes_on_where_it_was() {
    let whole = Study::new("whole", HUNDRED);
    let ended = whole.run(&["--jobs", "1"]);
    assert_eq!((ended.code, ran(&ended), whole.kept().len()), (Some(0), "100", 100), "{ended:?}");
    let killed = Study::new("killed", HUNDRED);
    for at_least in [10, 40] {
        let mut running = killed.command(&["--jobs", "3"]).stdout(Stdio::null()).spawn().expect("the command starts");
        wait_until("cells are finished", || killed.kept().len() >= at_least);
        running.kill().unwrap();
        running.wait().unwrap();
    }
    let before = killed.kept();
    let ended = killed.run(&[]);
    let after = killed.kept();
    assert_eq!((ended.code, after.len()), (Some(0), 100), "{ended:?}");
    assert_eq!(ran(&ended), (100 - before.len()).to_string());
    assert!(before.iter().all(|(name, file)| after[name] == *file), "a cell ran twice");
    for file in ["table.csv", "table.json", "page.html"] {
        assert!(!whole.read(file).is_empty() && whole.read(file) == killed.read(file), "{file} differs");
    }
    assert_eq!(whole.read("table.csv").lines().count(), 101);
    assert_eq!(ran(&killed.run(&[])), "0");
    assert_eq!(killed.kept(), after);
}

#[test]
fn an_edited_machine_runs_only_its_cells_anew() {
    let two = HUNDRED.replace("machine = \"torus.toml\"\n", "");
    let two = two.replace("[sweep]", "[sweep]\nmachine = [\"torus.toml\", \"other.toml\"]");
    let two = two.replace("to = 5", "to = 1").replace("\"tornado\"", "\"neighbour\"");
    let study = Study::new("edited", &two);
    let machine = fs::read_to_string(study.0.file("torus.toml")).unwrap();
    study.write("other.toml", &machine);
    // Machines of one text are one simulation.
    assert_eq!(ran(&study.run(&[])), "20");
    study.write("other.toml", &format!("{machine}\n# edited"));
    assert_eq!(ran(&study.run(&[])), "20");
    study.write("s.toml", &two.replace("0.25", "0.3"));
    assert_eq!(ran(&study.run(&[])), "8");
}

#[test]
fn a_failed_cell_is_named_and_tried_again_and_the_others_run_on() {
    let scenario = HUNDRED.replace("\"tornado\"", "\"hotspot:999:0.5\"").replace("to = 5", "to = 1");
    let study = Study::new("failed", &scenario);
    let ended = study.run(&[]);
    assert_eq!((ended.code, ran(&ended)), (Some(1), "10"), "{ended:?}");
    assert!(ended.err.contains("traffic=hotspot:999:0.5") && ended.out.contains("999"), "{ended:?}");
    assert_eq!(study.read("table.csv").lines().count(), 11);
    let table: Value = serde_json::from_str(&study.read("table.json")).unwrap();
    assert_eq!((table["failed"].as_array().map(Vec::len), &table["missing"]), (Some(10), &Value::from(0)));
    assert_eq!(table["failed"][0]["exit_code"], 2);
    let listed = study.run(&["--dry-run", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let states = |state: &str| listed["cells"].as_array().unwrap().iter().filter(|cell| cell["state"] == state).count();
    assert_eq!((states("finished"), states("failed")), (10, 10));
    let again = study.run(&["--quiet"]);
    assert_eq!((again.code, again.out.as_str()), (Some(1), ""), "{again:?}");
    assert!(again.err.contains("hotspot"), "failed cells are tried again: {again:?}");
}

#[test]
fn without_slurm_the_remedy_is_named() {
    let study = Study::new("slurm", HUNDRED);
    let run = |args: &[&str]| Ended::from(study.command(args).env("PATH", "/nonexistent").output().unwrap());
    let ended = run(&["--slurm"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("sbatch is not in PATH") && ended.err.contains("leave --slurm out"), "{ended:?}");
    let shown = run(&["--slurm", "--dry-run", "--sbatch=--partition=long"]);
    assert!(shown.out.contains("#SBATCH --array=0-99\n") && shown.out.contains("--partition=long"), "{shown:?}");
    assert!(study.kept().is_empty());
}

/// The order of the curves is the one that the seed states.
#[test]
fn the_study_of_blocking_shows_the_order_that_the_seed_states() {
    let scenario = fs::read_to_string(workspace().join("examples/studies/blocking.toml")).unwrap();
    let (before, after) = scenario.split_once("traffic = [").unwrap();
    let (_, after) = after.split_once(']').unwrap();
    let short = format!("{before}traffic = ['locality:0', 'locality:1']{after}");
    let short = short.replace("seed = [1, 2]", "seed = [3]").replace("measured = \"60us\"", "measured = \"40us\"");
    let study = Study::new("blocking", &short);
    let ended = study.run(&["--quiet"]);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let table: Value = serde_json::from_str(&study.read("table.json")).unwrap();
    let row = |case: &str, locality: u32| {
        let traffic = format!("locality:{locality}");
        let rows = table["rows"].as_array().unwrap().iter();
        rows.clone().find(|row| row["case"] == case && row["traffic"] == traffic).unwrap()
    };
    let number = |case: &str, locality: u32, column: &str| row(case, locality)[column].as_f64().unwrap();
    let dijkstra = "mesh, shortest path";
    assert!(number(dijkstra, 0, "deadlock_probability") > 0.05 && number(dijkstra, 0, "cycle_length_mean") >= 4.0);
    for case in ["mesh, dimension order", "mesh, up-down", "mesh, west first"] {
        assert_eq!(number(case, 0, "deadlocks"), 0.0, "{case}");
        assert!(number(case, 0, "blocking_rate") < number(dijkstra, 0, "blocking_rate"), "{case}");
    }
    for (case, has_deadlocks) in [
        ("torus, shortest path", true),
        ("torus, dimension order", true),
        ("torus, modified dimension order", false),
        ("torus, up-down", false),
    ] {
        assert_eq!(number(case, 0, "deadlocks") > 0.0, has_deadlocks, "{case}");
        // With more locality, fewer packets are blocked.
        assert!(number(case, 0, "blocking_rate") > number(case, 1, "blocking_rate"), "{case}");
        assert_eq!(number(case, 1, "deadlocks"), 0.0, "{case}");
    }
}

/// A program's own figures are compared with published ones. Its output says what it finds, so each verdict is known.
#[test]
fn an_experiment_has_a_verdict_for_each_claim() {
    let place = Place::new("experiment");
    let program = place.script("measure", "echo \"took $1 us\"");
    let scenario = place.file("known.toml");
    let claim = |id: &str, words: &str| {
        format!("[[claim]]\nid = '{id}'\nsource = 'here'\ntext = 'a claim'\nfigure = 'time (us)'\n{words}\n")
    };
    let text = [
        "[run]\nmachine = 'cluster'\nnp = 1\n[sweep]\n".to_owned(),
        format!("command = [['{0}', '10'], ['{0}', '20']]\n", program.display()),
        "[figures]\n'time (us)' = '^took (\\d+) us$'\n'absent' = '^never (\\d+)$'\n".to_owned(),
        claim("mean", "value = 15"),
        claim("off", "value = 30"),
        claim("bound", "at_most = 20"),
        claim("unknown", "where = { np = 2 }\nvalue = 15"),
    ];
    fs::write(&scenario, text.concat()).expect("written");
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.arg("validate").args(words).current_dir(place.file("")).env("SELVEDGE_DIR", place.file(""));
        command.env("SELVEDGE_PREFIX", tree());
        Ended::from(command.output().expect("the command starts"))
    };
    let ended = run(&["known.toml", "--json=known.json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("[figures] absent: no line of the output has it, such as in "), "{ended:?}");
    let table: Value = serde_json::from_slice(&fs::read(place.file("known.json")).expect("a file")).expect("JSON");
    let claims = table["claims"].as_array().expect("claims");
    let verdicts: Vec<_> = claims.iter().map(|claim| claim["verdict"].as_str().unwrap_or_default()).collect();
    assert_eq!(verdicts, ["holds", "misses", "holds", "cannot-tell"]);
    assert!(fs::read_to_string(place.file("known.study/page.html")).expect("a page").contains("cannot tell"));
    // Nothing runs again.
    let again = run(&["known.toml"]);
    assert!(again.code == Some(0) && again.out.contains("wall cells run               0"), "{again:?}");
    let unknown = run(&["knwon"]);
    assert!(
        unknown.code == Some(2) && unknown.err.contains("there is no document or experiment 'knwon'"),
        "{unknown:?}"
    );
}

/// The experiments that come with Selvedge can be run: their programs are there, and their keys are right.
#[test]
fn each_experiment_can_be_run() {
    let place = Place::new("experiments");
    let has_mpi = tree().join("examples/mpi/hello").is_file();
    let mut ids = Vec::new();
    for entry in fs::read_dir(workspace().join("experiments")).expect("a folder").flatten() {
        let file = entry.path();
        let text = fs::read_to_string(&file).expect("a scenario");
        ids.extend(text.lines().filter(|line| line.starts_with("id = ")).map(str::to_owned));
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.arg("study").arg(&file).args(["--dry-run", "--folder"]).arg(place.file("results"));
        let ended = Ended::from(command.env("SELVEDGE_PREFIX", tree()).output().expect("the command starts"));
        let lacks_mpi = !has_mpi && text.contains("{examples}/mpi/") && ended.err.contains("no such file");
        assert!(ended.code == Some(0) || lacks_mpi, "{}: {ended:?}", file.display());
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert!(count > 10 && ids.len() == count, "an id stands twice");
}
