// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparisons: an MPI over our provider with the same MPI over its own transport, at the same size and depth; the
//! speed of a disturbed computing process with its undisturbed speed; the cost of a message with one memcpy;
//! `fi_pingpong` with `shm`; one protocol with the other.

use super::super::record::{Figure, Measurement, Record, record};
use super::super::report::size;

const OWN: &str = "_own";

/// One record for every possible comparison, sorted.
pub fn records(all: &[Measurement]) -> Vec<Record> {
    let mut sorted: Vec<&Measurement> = all.iter().collect();
    sorted.sort_by_key(|m| (measurement_of(&m.case).to_owned(), m.size_bytes, m.depth, sort_key_of(&m.case)));
    let mut out = Vec::new();
    for m in sorted {
        let compared: Vec<_> =
            against(&m.case).into_iter().filter_map(|other_case| compare(m, &other_case, all)).collect();
        if compared.is_empty() {
            out.push(record(m, None));
        }
        out.extend(compared.into_iter().map(|compared| record(m, Some(compared))));
    }
    out
}

fn measurement_of(case: &str) -> &str {
    case.split_once(':').map_or(case, |(_, what)| what)
}

/// The sort key of a side: an MPI's own transport comes before our provider.
fn sort_key_of(case: &str) -> String {
    let side = case.split_once(':').map_or(case, |(side, _)| side);
    match side.strip_suffix(OWN) {
        Some(label) => format!("{label} 0"),
        None => format!("{side} 1"),
    }
}

/// The cases to compare with, and the figures to compare.
fn against(case: &str) -> Vec<(String, Figure)> {
    let Some((side, what)) = case.split_once(':') else { return Vec::new() };
    if what.ends_with(":alone") || what.ends_with(":memcpy") {
        return Vec::new();
    }
    let mut out = Vec::new();
    if what.starts_with("overlap_") {
        out.push((format!("{case}:alone"), Figure::Rate));
        out.push((format!("{case}:memcpy"), Figure::Time));
        return out;
    }
    match side {
        "fi_pingpong" if what != "shm" => out.push(("fi_pingpong:shm".to_owned(), Figure::Time)),
        "direct" => out.push((format!("lane:{what}"), Figure::Time)),
        _ if side.ends_with(OWN) || ["fi_pingpong", "lane"].contains(&side) => {}
        _ => out.push((format!("{side}{OWN}:{what}"), figure_of(what))),
    }
    out
}

fn figure_of(what: &str) -> Figure {
    match what {
        "rate" => Figure::Rate,
        "stream" => Figure::Bandwidth,
        _ => Figure::Time,
    }
}

fn compare(m: &Measurement, (other_case, figure): &(String, Figure), all: &[Measurement]) -> Option<(String, f64)> {
    let same =
        |other: &&Measurement| other.case == *other_case && (other.size_bytes, other.depth) == (m.size_bytes, m.depth);
    let other = all.iter().find(same)?;
    Some((other_case.clone(), figure.of(m)? / figure.of(other)?))
}

/// Times that differ by less than this factor count as equal.
const NOISE: f64 = 1.03;

/// A sentence on the crossover of the protocols: the size from which the direct one is not slower, apart from noise.
pub fn crossings(all: &[Measurement]) -> Vec<String> {
    let curve = |name: &str| {
        let mut points: Vec<(u64, f64)> =
            all.iter().filter(|m| m.case == name).filter_map(|m| Some((m.size_bytes?, m.median_ns?))).collect();
        points.sort_by_key(|point| point.0);
        points
    };
    let (ring, direct) = (curve("lane:pingpong"), curve("direct:pingpong"));
    let both: Vec<(u64, bool)> = direct
        .iter()
        .filter_map(|(size, ns)| Some((*size, *ns <= NOISE * ring.iter().find(|point| point.0 == *size)?.1)))
        .collect();
    if both.is_empty() {
        return Vec::new();
    }
    let after = both.iter().rposition(|(_, direct_wins)| !direct_wins).map_or(0, |at| at + 1);
    vec![match both.get(after) {
        Some((bytes, _)) => {
            format!(
                "From {} on, a message that is copied directly is not slower than one through a ring.",
                size(*bytes)
            )
        }
        None => "At no size measured was a message that is copied directly faster than one through a ring.".to_owned(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(case: &str, bytes: u64, ns: f64) -> Measurement {
        Measurement { case: case.into(), size_bytes: Some(bytes), median_ns: Some(ns), ..Measurement::default() }
    }

    #[test]
    fn ours_is_divided_by_the_mpis_own() {
        let all = [
            time("openmpi5:pingpong", 8, 90.0),
            time("openmpi5_own:pingpong", 8, 100.0),
            time("openmpi5_own:pingpong", 64, 100.0),
            time("mpich_own:pingpong", 8, 50.0),
        ];
        let out = records(&all);
        let ours: Vec<_> = out.iter().filter(|r| r.ratio.is_some()).collect();
        assert_eq!(ours.len(), 1);
        assert_eq!((ours[0].against.as_deref(), ours[0].ratio), (Some("openmpi5_own:pingpong"), Some(0.9)));
        assert_eq!(
            out.iter().map(|r| r.case.as_str()).collect::<Vec<_>>()[..3],
            ["mpich_own:pingpong", "openmpi5_own:pingpong", "openmpi5:pingpong"]
        );
    }

    #[test]
    fn overlap_is_compared_with_undisturbed_work_and_a_memcpy() {
        let rate = |case: &str, per_s: f64, ns: Option<f64>| Measurement {
            case: case.into(),
            rate_per_s: Some(per_s),
            median_ns: ns,
            ..Measurement::default()
        };
        let all = [
            rate("mpich:overlap_recv", 95.0, Some(120.0)),
            rate("mpich:overlap_recv:alone", 100.0, None),
            Measurement { median_ns: Some(100.0), ..rate("mpich:overlap_recv:memcpy", 1.0, None) },
        ];
        let found: Vec<_> = records(&all).into_iter().filter_map(|r| Some((r.against?, r.ratio?))).collect();
        assert_eq!(found[0], ("mpich:overlap_recv:alone".to_owned(), 0.95));
        assert_eq!(found[1], ("mpich:overlap_recv:memcpy".to_owned(), 1.2));
    }

    #[test]
    fn the_providers_are_compared() {
        let all = [time("fi_pingpong:shm", 64, 100.0), time("fi_pingpong:selvedge", 64, 40.0)];
        assert_eq!(records(&all).into_iter().find_map(|r| r.ratio), Some(0.4));
    }

    #[test]
    fn the_crossing_is_where_direct_stays_ahead() {
        let curve = |ring: [f64; 4], direct: [f64; 4]| {
            let sizes = [1024, 4096, 16384, 65536];
            let of = |name: &str, ns: [f64; 4]| {
                sizes.into_iter().zip(ns).map(|(size, ns)| time(name, size, ns)).collect::<Vec<_>>()
            };
            crossings(&[of("lane:pingpong", ring), of("direct:pingpong", direct)].concat()).join("")
        };
        let sentence = curve([1.0, 3.0, 3.0, 9.0], [2.0, 2.0, 4.0, 5.0]);
        assert!(sentence.contains("From 64 KiB on"), "ahead at 4 KiB by chance: {sentence}");
        assert!(curve([1.0; 4], [2.0; 4]).contains("At no size"));
        assert!(crossings(&[]).is_empty());
    }
}
