// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The project's machines can be loaded, and each of their numbers names its source. Invalid files are refused with an
//! error that names the remedy.

use std::path::{Path, PathBuf};

use selvedge_sim::machine::load::{from_text, load, load_with};

fn machines() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}

#[test]
fn every_machine_loads() {
    let files = machines();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let machine = load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(machine.topology.nodes() > 1, "{}", file.display());
    }
}

/// Finds numbers outside of `[published]` that have no source.
fn unsourced(value: &toml::Value, path: &str, found: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            let sourced = table.get("source").and_then(toml::Value::as_str).is_some_and(|source| source.len() > 5);
            if table.contains_key("value") && sourced {
                return;
            }
            for (key, value) in table {
                unsourced(value, &format!("{path}.{key}"), found);
            }
        }
        toml::Value::Array(values) if values.iter().any(toml::Value::is_table) => {
            for value in values {
                unsourced(value, path, found);
            }
        }
        toml::Value::Integer(_) | toml::Value::Float(_) => found.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn every_number_names_its_source() {
    for file in machines() {
        let mut table: toml::Table = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        table.remove("published");
        let mut found = Vec::new();
        unsourced(&toml::Value::Table(table), "", &mut found);
        assert!(found.is_empty(), "{}: {found:?}", file.display());
    }
}

fn refused(change: impl Fn(&str) -> String) -> String {
    let text = std::fs::read_to_string(machines().iter().find(|path| path.ends_with("cluster.toml")).unwrap()).unwrap();
    match from_text(Path::new("bad.toml"), &change(&text), &[]) {
        Ok(_) => panic!("it was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn invalid_machines_are_refused_by_file_and_line() {
    let error = refused(|text| text.replace("[switch]", "[switch]\ncolour = \"red\""));
    assert!(error.contains("bad.toml") && error.contains("colour") && error.contains("line"), "{error}");
    let error = refused(|text| text.replace("[switch]", "[swatch]"));
    assert!(error.contains("swatch"), "{error}");
    let error = refused(|text| {
        let at = text.find("[nic]").unwrap();
        text[..at].to_owned()
    });
    assert!(error.contains("nic"), "{error}");
}

#[test]
fn values_that_cannot_be_name_section_and_key() {
    let file = machines().into_iter().find(|path| path.ends_with("cluster.toml")).unwrap();
    let refused = |key: &str, value: &str| match load_with(&file, &[(key.into(), value.into())]) {
        Ok(_) => panic!("{key} = {value} was accepted"),
        Err(error) => error.to_string(),
    };
    for (key, value, words) in [
        ("link.bandwidth_MBps", "0", &["link", "bandwidth_MBps", "0 MB/s"][..]),
        ("link.bandwidth_MBps", "-1", &["negative"][..]),
        ("link.virtual_channels", "0", &["virtual_channels"][..]),
        ("link.loss", "1.5", &["probability"][..]),
        ("topology.kind", "moebius", &["moebius", "torus"][..]),
        ("topology.radix", "1.5", &["radix", "whole"][..]),
        ("topology.dimensions", "[4]", &["dimensions", "belongs to"][..]),
        ("routing.algorithm", "west-first", &["west-first"][..]),
        ("routing.algorithm", "guess", &["guess"][..]),
        ("nic.mode", "cloud", &["nic, host"][..]),
        ("nic.processors", "3", &["1 to 2"][..]),
        ("congestion.control", "hope", &["hope", "none, ecn, receiver"][..]),
        ("nonsense", "1", &["section.key=value"][..]),
    ] {
        let error = refused(key, value);
        for word in words {
            assert!(error.contains(word), "{key} = {value}: {error}");
        }
    }
}

#[test]
fn congestion_control_is_refused_with_the_key() {
    let file = machines().into_iter().find(|path| path.ends_with("cluster.toml")).unwrap();
    let refused = |control: &str, key: &str, value: &str| {
        let set = |key: &str, value: &str| (format!("congestion.{key}"), value.to_owned());
        match load_with(&file, &[set("control", control), set(key, value)]) {
            Ok(_) => panic!("{control}, {key} = {value} was accepted"),
            Err(error) => error.to_string(),
        }
    };
    for (control, key, value, words) in [
        ("receiver", "mark_flits", "8", &["mark_flits", "belongs to the control ecn"][..]),
        ("ecn", "unsolicited_flits", "8", &["belongs to the control receiver"][..]),
        ("ecn", "window_flits", "1", &["window_flits", "whole number"][..]),
        ("ecn", "colour", "1", &["colour"][..]),
    ] {
        let error = refused(control, key, value);
        for word in words {
            assert!(error.contains(word), "{control}, {key} = {value}: {error}");
        }
    }
}

#[test]
fn networks_that_cannot_be_name_the_remedy() {
    let refused = |machine: &str, key: &str, value: &str| {
        let file = machines().into_iter().find(|path| path.ends_with(format!("{machine}.toml"))).unwrap();
        match load_with(&file, &[(key.into(), value.into())]) {
            Ok(_) => panic!("{machine}, {key} = {value} was accepted"),
            Err(error) => error.to_string(),
        }
    };
    for (machine, key, value, words) in [
        ("dragonfly1056", "link.virtual_channels", "2", &["needs virtual_channels = 3, not 2", "minimal"][..]),
        ("dragonfly1056", "routing.algorithm", "progressive", &["needs virtual_channels = 4, not 3"][..]),
        ("dragonfly1056", "routing.algorithm", "adaptive-up", &["it is for fat trees", "ugal-l"][..]),
        ("dragonfly1056", "topology.groups", "34", &["34 groups need 33 global links", "at most 33 groups"][..]),
        ("dragonfly1056", "switch.speed_up", "0", &["speed_up"][..]),
        ("dragonfly64k", "switch.output_flits", "64", &["only with speed_up"][..]),
        ("dragonfly64k", "topology.trunks", "[1]", &["belongs to hyperx"][..]),
        ("hyperx4096", "topology.trunks", "[1, 2]", &["`trunks` has 2 entries for 3 dimensions"][..]),
        ("hyperx4096", "routing.algorithm", "ugal-g", &["does not fit a HyperX 8x8x8", "dragonflies"][..]),
        ("slimfly10830", "topology.q", "20", &["q = 20", "give 19 or 23"][..]),
        ("fattree8192", "link.levels", "[{}]", &["has 1 entries", "has 2 such classes", "give 2"][..]),
        ("fattree8192", "link.global", "{ latency_ns = 1 }", &["no such links", "told apart by levels"][..]),
        ("hyperx4096", "link.levels", "[{}, {}]", &["no such links", "told apart by dimensions"][..]),
        ("hyperx4096", "link.dimensions", "[{}, {}]", &["has 2 entries", "give 3"][..]),
        ("dragonfly1056", "link.local", "{ bandwidth_MBps = 0 }", &["0 MB/s"][..]),
        ("dragonfly1056", "link.node", "{ latency = 1 }", &["unknown field `latency`"][..]),
        ("cluster", "topology.children", "[4, 4]", &["levels", "follows from children"][..]),
        ("cluster", "topology.parents", "[4]", &["goes with children"][..]),
        ("fattree8192", "topology.parents", "[4]", &["`parents` has 1 entries", "3 levels: give 2"][..]),
        ("fattree8192", "topology.nodes", "8193", &["at most 8192", "more children"][..]),
        ("fattree8192", "routing.algorithm", "minimal", &["destination-mod-k, adaptive-up, random-up"][..]),
    ] {
        let error = refused(machine, key, value);
        for word in words {
            assert!(error.contains(word), "{machine}, {key} = {value}: {error}");
        }
    }
}

#[test]
fn links_have_the_speeds_of_their_classes() {
    let file = |name: &str| machines().into_iter().find(|path| path.ends_with(format!("{name}.toml"))).unwrap();
    let load = |name, key: &str, value: &str| load_with(&file(name), &[(key.into(), value.into())]).unwrap();
    let own = |machine: &selvedge_sim::machine::Machine, channel| machine.network.speed_of(&machine.topology, channel);
    let base = load_with(&file("dragonfly1056"), &[]).unwrap();
    let far = load("dragonfly1056", "link.global", "{ latency_ns = 700, bandwidth_MBps = 12500 }");
    let (same, other): (Vec<u32>, Vec<u32>) =
        (0..far.topology.channels()).partition(|&channel| own(&far, channel) == own(&base, channel));
    // 33 groups, each linked to each other in both directions.
    assert_eq!(other.len(), 33 * 32);
    assert_eq!(own(&far, other[0]).latency, selvedge_sim::time::Time::from_ns(700));
    assert_eq!(own(&far, other[0]).flit_time, own(&base, other[0]).flit_time * 2);
    assert!(same.len() > other.len());
    let near = load("dragonfly1056", "link.node", "{ latency_ns = 1 }");
    let short = |&channel: &u32| own(&near, channel) != own(&base, channel);
    assert_eq!((0..near.topology.channels()).filter(short).count() as u32, 2 * near.topology.nodes());
}
