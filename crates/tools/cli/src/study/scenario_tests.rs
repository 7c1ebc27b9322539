// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(Path::new("s.toml"), text, &Options::new()).map_err(|error| error.0)
}

#[test]
fn a_scenario_keeps_the_order_of_its_file() {
    let scenario = parse(
        r#"
        name = "n"
        [run]
        traffic = "uniform"
        set.link.latency_ns = 20
        set.link.loss = 0
        [[case]]
        name = "one"
        machine = "torus16"
        [[case]]
        name = "two"
        machine = "atoll"
        set.link.latency_ns = 30
        [sweep]
        set.routing.algorithm = ["up-down", "dimension-order"]
        load = { from = 0.1, to = 0.3, step = 0.1 }
        fail-link = [[], ["0-1@1us", "1-2@1us"]]
        [table]
        columns = ["accepted"]
        [[plot]]
        x = "load"
        y = "accepted"
        lines = ["case"]
        "#,
    )
    .unwrap();
    let keys = |settings: &[Setting]| settings.iter().map(|setting| setting.key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&scenario.run), ["traffic", "set.link.latency_ns", "set.link.loss"]);
    assert_eq!(scenario.run[1].line, 5);
    assert_eq!(keys(&scenario.cases[1].settings), ["machine", "set.link.latency_ns"]);
    let axes: Vec<_> = scenario.axes.iter().map(|axis| (axis.key.as_str(), axis.values.len())).collect();
    assert_eq!(axes, [("set.routing.algorithm", 2), ("load", 3), ("fail-link", 2)]);
    let shown: Vec<_> = scenario.axes[2].values.iter().map(|value| value.shown.clone()).collect();
    assert_eq!(shown, ["none", "0-1@1us 1-2@1us"]);
    assert_eq!((&scenario.columns[..], scenario.plots.len()), (&["accepted".to_owned()][..], 1));
}

#[test]
fn mistakes_name_line_section_key_and_remedy() {
    for (text, expected) in [
        ("[run]\nmachine = 'a\n", "s.toml:2: invalid"),
        ("[rnu]\nmachine = 'a'", "s.toml:1: rnu: there is no such section; did you mean run?"),
        ("[run]\nload = 0.1\nlaod = 0.2", "s.toml:3: [run] laod: there is no key 'laod'; did you mean load?"),
        ("[[case]]\nload = 0.1", "s.toml:1: [case] name: is missing"),
        ("[[case]]\nname = 'a'\nseed = 1\n[[case]]\nname = 'a'\nseed = 2", "[case] name: there are two cases 'a'"),
        ("[run]\nseed = 1\n[sweep]\nseed = [1, 2]", "s.toml:2: [run] seed: is swept"),
        ("[sweep]\nseed = 3", "s.toml:2: [sweep] seed: takes a list"),
        ("[sweep]\nseed = [1, 2, 1]", "s.toml:2: [sweep] seed: has a value twice"),
        ("[sweep]\nset.link.latency_ns = 3", "s.toml:2: [sweep] set.link.latency_ns: takes a list"),
        ("[sweep]\nmachine = 2000-01-01", "[sweep] machine: has a number out of range, or a date"),
        ("[run]\nseed = 99999999999999999999", "[run] seed: has a number out of range"),
        ("[table]\ncolumn = ['a']", "s.toml:2: [table] column: there is no such key; did you mean columns?"),
        ("[[plot]]\nx = 'a'", "s.toml:1: [plot] y: is missing"),
        ("[[plot]]\nx = 'a'\ny = 'b'\nz = 1", "s.toml:4: [plot] z: there is no such key"),
        ("run = 3", "s.toml:1: run: is a section"),
        ("name = 3", "s.toml:1: name: takes text"),
        ("machine = 'torus16'", "s.toml:1: machine: is a section"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}:\n{error}\nnot: {expected}");
    }
}

#[test]
fn figures_and_claims_are_checked_where_they_stand() {
    let run = "[run]\nmachine = 'cluster'\ncommand = ['true']\n";
    let head = "[[claim]]\nid = 'a'\nsource = 's'\ntext = 't'\nfigure = 'us'\n";
    for (text, expected) in [
        ("[figures]\nus = '('", "s.toml:5: [figures] us: is no regular expression"),
        ("[figures]\nus = 'x'", "s.toml:5: [figures] us: needs one group"),
        ("[figures]\nus = 1", "s.toml:5: [figures] us: takes text in quotes"),
        ("[figures]\na = '(?P<x>.) (.)'\nb = '(?P<y>.) (.)'", "s.toml:6: [figures] b: the x of figures is `x` and `y`"),
        (head, "s.toml:4: [claim] a: needs one of value, at_least"),
        (&format!("{head}vale = 1"), "s.toml:4: [claim] a: unknown field `vale`"),
        ("claim = 1", "claim: is a list: write [[claim]]"),
    ] {
        // A key of the whole file stands before its sections.
        let text = if text.starts_with('[') { format!("{run}{text}") } else { format!("{text}\n{run}") };
        let said = Scenario::parse(Path::new("s.toml"), &text, &Options::new()).unwrap_err().0;
        assert!(said.contains(expected), "{said}\nfor {expected}");
    }
    let scenario = format!("{run}[figures]\nus = '(\\d+) us'\n{head}value = 2");
    let scenario = Scenario::parse(Path::new("s.toml"), &scenario, &Options::new()).unwrap();
    assert_eq!((scenario.figures.len(), scenario.claims.len()), (1, 1));
}
