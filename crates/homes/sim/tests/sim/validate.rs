// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The claims of the seeds: quick experiments run, claims that hold still hold, and two runs give the same table.

use selvedge_sim::validate::{Document, Plan, Results, Verdict, markdown, run};

const QUICK: Plan = Plan { quick: true };

fn quick(document: Document) -> Results {
    run(document, QUICK, &mut |_| {}).unwrap()
}

fn verdict(results: &Results, id: &str) -> Verdict {
    results.claims.iter().find(|claim| claim.id == id).unwrap_or_else(|| panic!("no claim {id}")).verdict
}

fn holds(results: &Results, ids: &[&str]) {
    for id in ids {
        let claim = results.claims.iter().find(|claim| claim.id == *id).unwrap_or_else(|| panic!("no claim {id}"));
        assert_eq!(claim.verdict, Verdict::Holds, "{claim:?}");
    }
}

/// Checks that each claim has a source, a unique id and a result, and that each curve has points.
fn whole(results: &Results) {
    let mut ids: Vec<&str> = results.claims.iter().map(|claim| claim.id.as_ref()).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "two claims with one id");
    for claim in &results.claims {
        assert!(claim.source.starts_with("seed 00"), "{claim:?}");
        assert!(!claim.predicted.to_string().is_empty(), "{claim:?}");
    }
    for curve in &results.curves {
        let points = || curve.lines.iter().flat_map(|line| &line.points);
        assert!(points().count() > 0 && points().all(|(x, y)| x.is_finite() && y.is_finite()), "{curve:?}");
        assert!(curve.plot().svg().contains("<svg"), "{}", curve.name);
    }
}

#[test]
fn the_seastars_gain_follows_from_its_components() {
    let results = quick(Document::Seastar);
    whole(&results);
    holds(&results, &["seastar-1a", "seastar-1b", "seastar-1f", "seastar-1h", "seastar-1i", "seastar-2c"]);
    holds(&results, &["seastar-3a", "seastar-3c", "seastar-3f", "seastar-4a", "seastar-4b", "seastar-4d"]);
    assert_ne!(verdict(&results, "seastar-1c"), Verdict::Misses);
    assert_ne!(verdict(&results, "seastar-2b"), Verdict::Misses);
}

#[test]
fn pac_beats_software_in_the_order_that_was_published() {
    let results = quick(Document::Pac);
    whole(&results);
    holds(&results, &["pac-5d", "pac-5e", "pac-5f", "pac-5g", "pac-7a"]);
}

#[test]
fn switches_reduce_as_fast_as_the_seed_measured() {
    let results = quick(Document::Sharp);
    whole(&results);
    assert_eq!(verdict(&results, "sharp-1a"), Verdict::Input);
    holds(&results, &["sharp-1b", "sharp-3", "sharp-4a", "sharp-5a", "sharp-5b", "sharp-5c", "sharp-5d"]);
    holds(&results, &["sharp-6a", "sharp-6d"]);
    // A host's cost of a datagram is assumed, and too small.
    assert_eq!((verdict(&results, "sharp-6b"), verdict(&results, "sharp-6c")), (Verdict::Misses, Verdict::Misses));
    // Table VII: the number of iterations is an input, and the last row's gain is more than sums explain.
    assert_eq!(verdict(&results, "sharp-7"), Verdict::Input);
    holds(&results, &["sharp-7a", "sharp-7f"]);
    assert_eq!(verdict(&results, "sharp-7i"), Verdict::Misses);
}

#[test]
fn counting_puts_keep_their_lead() {
    let results = quick(Document::Counting);
    whole(&results);
    holds(&results, &["counting-8b", "counting-8c", "counting-8f", "counting-8g", "counting-8h", "counting-8i"]);
}

#[test]
fn two_runs_give_one_table() {
    let page = || markdown(&[quick(Document::Counting)], true, "plots");
    assert_eq!(page(), page());
}

#[test]
fn extoll_is_predicted_from_its_components() {
    let results = quick(Document::Extoll);
    whole(&results);
    holds(&results, &["extoll-7-7a", "extoll-7-7c", "extoll-7-10e", "extoll-7-10g", "extoll-7-10h"]);
    holds(&results, &["extoll-7", "extoll-7-7b", "extoll-f1a", "extoll-f5a", "extoll-f5c", "extoll-f6a"]);
    holds(&results, &["extoll-9-3", "extoll-f7a", "extoll-f7b", "extoll-f8"]);
    // Inputs of the model prove nothing, and contradicted figures do not count.
    for id in ["extoll-9-2a", "extoll-5-8a", "extoll-9-1a", "extoll-9-1h", "extoll-7-10a"] {
        assert_eq!(verdict(&results, id), Verdict::Input, "{id}");
    }
    assert_eq!(verdict(&results, "extoll-7-10c"), Verdict::Contradicted);
    let order = results.claims.iter().find(|claim| claim.id == "extoll-9-3").unwrap();
    assert!(order.moved.iter().any(|moved| moved.factor == 0.5) && order.moved.iter().any(|moved| moved.factor == 2.0));
    // Nearly the sum of table 9-2.
    for claim in results.claims.iter().filter(|claim| claim.id.starts_with("extoll-9-1")) {
        assert!(claim.error_percent.unwrap().abs() < 5.0, "{claim:?}");
    }
}
