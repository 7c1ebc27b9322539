// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Option values: times with units, failing links and nodes, dying ranks, overrides, factors.

use selvedge_settings::units::{self, UnitError};
use selvedge_sim::node::Death;
use selvedge_sim::time::Time;
use selvedge_sim_protocol::page::REGION_NAME_BYTES;

/// Parses a virtual time such as "10us", "1.5 ms" or "3s". A number without a unit is refused: most virtual times are
/// short, and a run of that many seconds would be long.
pub fn time(text: &str) -> Result<Time, String> {
    virtual_time(units::nanoseconds_with_unit(text), text)
}

/// Parses a limit of virtual time. A number without a unit is in seconds, as for `selvedge run --timeout`.
pub fn time_limit(text: &str) -> Result<Time, String> {
    virtual_time(units::nanoseconds(text, units::SECOND), text)
}

/// Checks the name of a region.
pub fn region(text: &str) -> Result<String, String> {
    match text.len() {
        1..=REGION_NAME_BYTES => Ok(text.to_owned()),
        _ => Err(format!("the name of a region has 1 to {REGION_NAME_BYTES} bytes")),
    }
}

fn virtual_time(ns: Result<f64, UnitError>, text: &str) -> Result<Time, String> {
    let ns = ns.map_err(|error| error.to_string())?;
    if ns >= LONGEST_NS {
        return Err(format!("'{}' is out of range: a virtual time is between 0 and 1e7 s", text.trim()));
    }
    Ok(Time::from_ns_f64(ns))
}

const LONGEST_NS: f64 = 1e16;

/// Parses `section.key=value`.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if key.contains('.') && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write section.key=value, as in link.latency_ns=20".to_owned()),
    }
}

/// Parses `name=value`.
pub fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write NAME=VALUE, as in bytes=64".to_owned()),
    }
}

/// Virtual seconds for each second of CPU time here; `none` is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compute(pub f64);

pub fn compute(text: &str) -> Result<Compute, String> {
    if text == "none" {
        return Ok(Compute(0.0));
    }
    match text.parse() {
        Ok(factor) if factor > 0.0 && factor <= 1e6 => Ok(Compute(factor)),
        _ => Err("give none, or a factor above 0 and up to 1000000".to_owned()),
    }
}

impl Compute {
    pub fn parts_per_million(self) -> u64 {
        (self.0 * 1e6).round() as u64
    }
}

/// Variation of the steps of hosts, in percent; `none` is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

pub fn variation(text: &str) -> Result<Percent, String> {
    if text == "none" {
        return Ok(Percent(0.0));
    }
    match text.parse() {
        Ok(percent) if (VARIATION_LEAST..=VARIATION_MAX).contains(&percent) => Ok(Percent(percent)),
        _ => Err(format!("give none, or a percentage from {VARIATION_LEAST} to {VARIATION_MAX}")),
    }
}

const VARIATION_LEAST: f64 = 0.0001;
const VARIATION_MAX: f64 = 50.0;

impl Percent {
    pub fn parts_per_million(self) -> u32 {
        (self.0 * 1e4).round() as u32
    }
}

/// Parses a probability.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("give a number from 0 to 1".to_owned()),
    }
}

/// A link between two routers that fails, and perhaps recovers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLink {
    /// Both ends as written: numbers or names of routers. Several readings if names contain dashes.
    pub ends: Vec<(String, String)>,
    pub at: Time,
    pub until: Option<Time>,
}

/// Parses `A-B@time` or `A-B@time-time`.
pub fn failed_link(text: &str) -> Result<FailedLink, String> {
    let wanted = || format!("'{text}' is not of the form A-B@TIME or A-B@TIME-TIME, as in 0-1@10us-20us");
    let (link, times) = text.rsplit_once('@').ok_or_else(wanted)?;
    let dashes = link.char_indices().filter(|(at, c)| *c == '-' && *at > 0 && at + 1 < link.len());
    let ends: Vec<_> = dashes.map(|(at, _)| (link[..at].to_owned(), link[at + 1..].to_owned())).collect();
    if ends.is_empty() {
        return Err(wanted());
    }
    let (at, until) = from_until(text, times)?;
    Ok(FailedLink { ends, at, until })
}

fn from_until(text: &str, times: &str) -> Result<(Time, Option<Time>), String> {
    let (at, until) = match times.split_once('-') {
        Some((at, until)) => (time(at)?, Some(time(until)?)),
        None => (time(times)?, None),
    };
    if until.is_some_and(|until| until <= at) {
        return Err(format!("'{text}': the second time must be after the first"));
    }
    Ok((at, until))
}

/// A node that loses its link to its router, and perhaps gets it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedNode {
    /// The node as written: a number or a name.
    pub node: String,
    pub at: Time,
    pub until: Option<Time>,
}

/// Parses `NODE@time` or `NODE@time-time`.
pub fn failed_node(text: &str) -> Result<FailedNode, String> {
    let (node, times) = text
        .rsplit_once('@')
        .filter(|(node, _)| !node.is_empty())
        .ok_or_else(|| format!("'{text}' is not of the form NODE@TIME or NODE@TIME-TIME, as in 3@10us-20us"))?;
    let (at, until) = from_until(text, times)?;
    Ok(FailedNode { node: node.to_owned(), at, until })
}

/// A router that fails, and perhaps returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRouter {
    /// The router as written: a number or a name.
    pub router: String,
    pub at: Time,
    pub until: Option<Time>,
}

/// Parses `ROUTER`, `ROUTER@time` or `ROUTER@time-time`.
pub fn failed_router(text: &str) -> Result<FailedRouter, String> {
    let (router, times) = text.rsplit_once('@').map_or((text, None), |(router, times)| (router, Some(times)));
    if router.is_empty() {
        return Err(format!("'{text}' is not of the form ROUTER, ROUTER@TIME or ROUTER@TIME-TIME, as in 4@10us-20us"));
    }
    let (at, until) = times.map_or(Ok((Time::ZERO, None)), |times| from_until(text, times))?;
    Ok(FailedRouter { router: router.to_owned(), at, until })
}

/// Parses `RANK@time`.
pub fn death(text: &str) -> Result<Death, String> {
    let wanted = || format!("'{text}' is not of the form RANK@TIME, as in 3@10us");
    let (rank, at) = text.split_once('@').ok_or_else(wanted)?;
    Ok(Death { rank: rank.trim().parse().map_err(|_| wanted())?, at: time(at)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_virtual() {
        assert_eq!(time("10us"), Ok(Time::from_ns(10_000)));
        assert_eq!(time("250ps"), Ok(Time::from_ps(250)));
        assert_eq!(time_limit("2"), time("2s"));
        assert!(time("10").unwrap_err().contains("no unit"));
        assert!(time("10 m").unwrap_err().contains("ps, ns, us"));
        assert!(time("1e300s").is_err() && time_limit("20000000").is_err() && time("1us2").is_err());
    }

    #[test]
    fn links_fail_at_a_time_and_come_back_later() {
        let link = failed_link("0-1@10us-20us").unwrap();
        assert_eq!(link.ends, [("0".to_owned(), "1".to_owned())]);
        assert_eq!((link.at, link.until), (Time::from_ns(10_000), Some(Time::from_ns(20_000))));
        assert_eq!(failed_link("(0,1)-(0,2)@1ms").unwrap().until, None);
        assert_eq!(failed_link("leaf-1-spine-2@1ms").unwrap().ends.len(), 3);
        for wrong in ["0-1", "01@1us", "-@1us", "0-1@1", "0-1@2us-1us", "0-1@", "@1us"] {
            assert!(failed_link(wrong).is_err(), "{wrong}");
        }
        let node = failed_node("3@10us-20us").unwrap();
        assert_eq!((&node.node[..], node.at, node.until), ("3", link.at, link.until));
        for wrong in ["3", "@1us", "3@1", "3@2us-1us", "3@2us-2us", "3@"] {
            assert!(failed_node(wrong).is_err(), "{wrong}");
        }
        let router = failed_router("(0,1)@10us-20us").unwrap();
        assert_eq!((&router.router[..], router.at, router.until), ("(0,1)", link.at, link.until));
        assert_eq!(failed_router("4").map(|router| (router.at, router.until)), Ok((Time::ZERO, None)));
        for wrong in ["", "@1us", "3@1", "3@2us-1us", "3@"] {
            assert!(failed_router(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranks_die_once_at_a_time_with_a_unit() {
        assert_eq!(death("3@10us"), Ok(Death { rank: 3, at: Time::from_ns(10_000) }));
        assert_eq!(death("0@0ns"), Ok(Death { rank: 0, at: Time::ZERO }));
        for wrong in ["3", "@1us", "-1@1us", "a@1us", "4294967296@1us", "1.5@1us", ""] {
            assert!(death(wrong).unwrap_err().contains("RANK@TIME, as in 3@10us"), "{wrong}");
        }
        assert!(death("3@10").unwrap_err().contains("no unit"));
        assert!(death("3@").unwrap_err().contains("not a time"));
        assert!(death("3@1us@2us").is_err() && death("3@1us-2us").is_err() && death("3@soon").is_err());
    }

    #[test]
    fn overrides_and_factors() {
        assert_eq!(assignment("link.latency_ns = 20"), Ok(("link.latency_ns".into(), "20".into())));
        assert!(assignment("latency=20").is_err() && assignment("link.latency_ns").is_err());
        assert_eq!(parameter("bytes=8"), Ok(("bytes".into(), "8".into())));
        assert!(parameter("=8").is_err() && parameter("bytes").is_err());
        assert_eq!(compute("none").map(Compute::parts_per_million), Ok(0));
        assert_eq!(compute("2.5").map(Compute::parts_per_million), Ok(2_500_000));
        assert!(compute("0").is_err() && compute("-1").is_err() && compute("fast").is_err());
        assert_eq!(variation("none").map(Percent::parts_per_million), Ok(0));
        assert_eq!(variation("1.5").map(Percent::parts_per_million), Ok(15_000));
        assert_eq!(variation("0.0001").map(Percent::parts_per_million), Ok(1));
        for wrong in ["0", "-1", "51", "NaN", "1%", ""] {
            assert!(variation(wrong).unwrap_err().contains("none, or a percentage"), "{wrong}");
        }
        assert!(share("0.5").is_ok() && share("1.5").is_err() && share("NaN").is_err());
    }
}
