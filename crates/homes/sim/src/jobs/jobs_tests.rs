// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of jobs: both forms, and what is refused.

use super::*;
use crate::time::Time;
use crate::traffic::Pattern;

fn words(text: &str) -> JobDescription {
    JobDescription::from_words(text).unwrap()
}

fn refused(text: &str) -> String {
    JobDescription::from_words(text).unwrap_err().to_string()
}

#[test]
fn words_and_a_file_describe_the_same_jobs() {
    let text = r#"
        [[job]]
        name = "solver"
        program = "halo"
        ranks = 64
        ranks_per_node = 2
        nodes = "0-15,32-47"
        placement = "random"
        cells = 32

        [[job]]
        name = "sums"
        program = "allreduce"
        sizes = [8, 64]
        nodes = "16-31"
        background = true

        [[job]]
        name = "noise"
        traffic = "hotspot:0:0.1"
        load = 0.4
        message_bytes = "8K"
        start = "10us"
        seed = 7
    "#;
    let jobs = parse("jobs.toml", text, None).unwrap();
    let same = [
        words("solver: program=halo ranks=64 ranks-per-node=2 nodes=0-15,32-47 placement=random cells=32"),
        words("sums: program=allreduce sizes=8,64 nodes=16-31 background=true"),
        words("noise: traffic=hotspot:0:0.1 load=0.4 message_bytes=8192 start=10us seed=7"),
    ];
    assert_eq!(jobs, same);
    assert_eq!(jobs[0].ranks_per_node, 2);
    assert_eq!((jobs[2].start, jobs[2].seed, jobs[2].background), (Time::from_ns(10_000), Some(7), true));
    let Work::Traffic(traffic) = &jobs[2].work else { panic!("{:?}", jobs[2].work) };
    let pattern = Pattern::Hotspot { node: 0, probability: 0.1 };
    assert_eq!((traffic.pattern, traffic.load, traffic.message_bytes), (pattern, 0.4, 8192));
}

#[test]
fn a_trace_is_the_program_that_replays_it() {
    let Work::Program { name, parameters } = words("old: trace=runs/old.trace ranks=4").work else { panic!() };
    assert_eq!((name.as_str(), &parameters[..]), ("replay", &[("trace".to_owned(), "runs/old.trace".to_owned())][..]));
    let folder = std::path::Path::new("/some/folder");
    let jobs = parse("jobs.toml", "[[job]]\nname = 'old'\ntrace = 'a.trace'\nranks = 4", Some(folder)).unwrap();
    let Work::Program { parameters, .. } = &jobs[0].work else { panic!() };
    assert_eq!(parameters[0].1, "/some/folder/a.trace", "beside the file");
}

#[test]
fn traffic_in_the_background_has_a_short_form() {
    let job = JobDescription::background("background", "hotspot:3:0.2:0.5").unwrap();
    assert_eq!(job, words("background: traffic=hotspot:3:0.2 load=0.5"));
    let error = JobDescription::background("background", "unifrom:0.5").unwrap_err().problem.to_string();
    assert!(error.contains("did you mean uniform?"), "{error}");
    assert!(words("noise: traffic=uniform").background, "it has no end");
    assert!(!words("victims: traffic=uniform messages=10").background);
    assert!(words("victims: traffic=uniform messages=10 background=true").background);
}

#[test]
fn errors_name_the_job_and_the_remedy() {
    for (text, part) in [
        ("solver", "NAME: KEY=VALUE"),
        (": program=halo", "letters, digits"),
        ("a b: program=halo", "letters, digits"),
        ("solver: halo", "'halo' is not of the form KEY=VALUE"),
        ("solver: ranks=4", "one of program=NAME, trace=FILE and traffic=PATTERN"),
        ("solver: program=halo traffic=uniform", "one of program=NAME"),
        ("solver: program=hallo", "unknown program \"hallo\""),
        ("solver: program=halo rnaks=4", "unknown key rnaks; did you mean ranks?"),
        ("solver: program=halo cels=4", "did you mean cells?"),
        ("noise: traffic=uniform laod=0.4", "did you mean load?"),
        ("noise: traffic=uniform cells=4", "unknown key cells"),
        ("noise: traffic=uniform load=2", "load cannot be '2': a load is a share"),
        ("noise: traffic=uniform background=false", "add messages=N"),
        ("solver: program=halo ranks=0", "a whole number from 1 on"),
        ("solver: program=halo ranks=4 ranks=5", "ranks is given twice"),
        ("solver: program=halo placement=scattered", "block, round-robin, random, spread"),
        ("solver: program=halo start=10", "no unit"),
        ("solver: program=halo nodes=4-2", "names no nodes"),
    ] {
        let words = refused(text);
        assert!(words.starts_with("job ") && words.contains(part), "{text}: {words}");
    }
}

#[test]
fn errors_of_a_file_name_the_line() {
    let refused = |text: &str| parse("jobs.toml", text, None).unwrap_err().to_string();
    assert_eq!(
        refused("[[job]]\nname = \"a\"\nprogram = \"halo\"\nplacement = \"heap\"\n"),
        "jobs.toml:4: job a: placement cannot be 'heap': one of block, round-robin, random, spread"
    );
    let words = refused("[[job]]\nname = \"a\"\nprogram = \"halo\"\n\n[[job]]\nname = \"a\"\nprogram = \"halo\"\n");
    assert!(words.starts_with("jobs.toml:6: job a: there are two"), "{words}");
    assert!(refused("[[jobs]]\n").contains("jobs"), "{}", refused("[[jobs]]\n"));
    assert!(refused("").contains("[[job]]"));
    assert!(refused("[[job]]\nname = \"a\"\nprogram = { a = 1 }\n").contains("program needs a number"));
}

#[test]
fn a_seed_follows_from_the_run_and_the_name_alone() {
    let (a, b) = (words("a: program=barrier"), words("b: program=barrier"));
    assert_eq!(a.seed(1), words("a: traffic=uniform").seed(1));
    assert_ne!(a.seed(1), b.seed(1));
    assert_ne!(a.seed(1), a.seed(2));
    assert_eq!(words("a: program=barrier seed=5").seed(1), 5);
}
