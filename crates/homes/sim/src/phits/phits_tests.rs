// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dumps of chosen runs and their check; and each violation, made by hand.

use std::ops::ControlFlow;
use std::sync::Arc;

use selvedge_fabric::{Algorithm, Port, RouterId, Routing, Topology};

use super::check::{Checked, DumpError, check};
use super::crc;
use super::dump::Dump;
use crate::network::{
    DeadlockPolicy, ErrorRates, FlowControl, LossReason, NetworkConfig, Observe, RetransmissionConfig, Switching,
};
use crate::observers::tests::Shared;
use crate::random::Random;
use crate::time::Time;
use crate::traffic::{Pattern, TrafficConfig, TrafficResults, run_observed};

const MEASURED_NS: u64 = 1_000_000;

/// A row of routers, and a config with small buffers.
fn row() -> (Arc<Topology>, NetworkConfig) {
    let topology = Topology::mesh(&[4], 2).unwrap();
    let mut config = NetworkConfig::default();
    (config.link.virtual_channels, config.link.buffer_flits, config.link.packet_bytes) = (1, 40, 240);
    config.deadlock = DeadlockPolicy::Detect;
    (Arc::new(topology), config)
}

fn with_stops(topology: &Topology, mut config: NetworkConfig) -> NetworkConfig {
    let stop = config.stop_flits_max(topology).unwrap();
    config.flow_control = FlowControl::StopContinue { stop, resume: stop / 2 };
    config
}

/// The channel from router 1 to router 2.
fn middle(topology: &Topology) -> u32 {
    let port = topology.neighbours(RouterId(1)).find(|(_, next)| *next == RouterId(2)).unwrap().0;
    topology.channel(RouterId(1), Port(port.0))
}

/// Traffic in both directions that fills the buffers, and the dump of the middle channel.
fn run(topology: &Arc<Topology>, config: NetworkConfig) -> (TrafficResults, String) {
    let routing = Routing::new(topology, Algorithm::DimensionOrder, config.link.virtual_channels).unwrap();
    let out = Shared::default();
    let dump = Dump::new(topology, &config, middle(topology), Box::new(out.clone()));
    let traffic = TrafficConfig {
        pattern: Pattern::Uniform,
        load: 0.9,
        message_bytes: 240,
        warm_up: Time::from_ns(1),
        measured: Time::from_ns(MEASURED_NS),
        drain_max: Time::from_ns(20 * MEASURED_NS),
        ..TrafficConfig::default()
    };
    let observers: Vec<Box<dyn Observe>> = vec![Box::new(dump)];
    let progress = &mut |_: crate::traffic::Progress<'_>| ControlFlow::Continue(());
    let results = run_observed(topology.clone(), routing, config, &traffic, observers, progress).unwrap();
    (results, out.text())
}

fn sound(text: &str) -> Checked {
    let checked = check(text).unwrap();
    assert_eq!(checked.violation, None);
    assert!(checked.flits > 1000, "{checked:?}");
    checked
}

#[test]
fn links_with_credits_keep_the_protocol() {
    let (topology, config) = row();
    sound(&run(&topology, config.clone()).1);
    let mut wormhole = config;
    wormhole.switch.switching = Switching::Wormhole;
    sound(&run(&topology, wormhole).1);
}

#[test]
fn links_that_lose_and_damage_repeat_in_order() {
    let (topology, mut config) = row();
    config.errors = ErrorRates { loss: 0.05, corruption: 0.05 };
    config.retransmission = Some(RetransmissionConfig { timeout: Time::from_ns(500), window_flits: 1000 });
    let (results, text) = run(&topology, config);
    assert_eq!(results.lost, 0);
    sound(&text);
    assert!(text.contains(" retry ") && text.contains(" timeout ") && text.contains(" ack "));
}

#[test]
fn a_damaged_flit_is_a_violation_where_nothing_is_repeated() {
    let (topology, mut config) = row();
    config.errors = ErrorRates { loss: 0.0, corruption: 0.05 };
    let found = check(&run(&topology, config).1).unwrap().violation.unwrap();
    assert_eq!(found.rule, "CRC");
}

#[test]
fn stop_and_continue_keep_buffers_from_overflowing() {
    let (topology, config) = row();
    for switching in [Switching::CutThrough, Switching::Wormhole] {
        let mut config = config.clone();
        config.switch.switching = switching;
        let (results, text) = run(&topology, with_stops(&topology, config));
        assert_eq!((results.lost, results.stopped), (0, None), "{switching:?}");
        let checked = sound(&text);
        assert!(checked.controls > 100, "{checked:?}");
    }
}

#[test]
fn the_defect_is_found_and_the_correction_cures_it() {
    let (topology, mut config) = row();
    // Flits of two virtual channels alternate, so that a buffer at its limit fills and empties within one flit.
    (config.switch.switching, config.link.buffer_flits, config.link.virtual_channels) = (Switching::Wormhole, 12, 2);
    (config.link.latency, config.link.bandwidth_bytes_per_s) = (Time::from_ns(10), 300_000_000);
    let mut config = with_stops(&topology, config);
    config.control_defects = vec![middle(&topology)];
    let (results, text) = run(&topology, config.clone());
    assert!(results.lost_by_reason.get(&LossReason::Corruption).is_some_and(|lost| *lost > 0));
    let found = check(&text).unwrap().violation.unwrap();
    assert_eq!(found.rule, "order of control");
    assert!(found.what.starts_with("STOP follows STOP"), "{}", found.what);
    config.control_corrections = config.control_defects.clone();
    let (results, text) = run(&topology, config);
    assert_eq!((results.lost, results.stopped), (0, None));
    sound(&text);
}

#[test]
fn the_same_run_gives_the_same_dump_and_an_observer_changes_nothing() {
    let (topology, config) = row();
    let config = with_stops(&topology, config);
    let (results, text) = run(&topology, config.clone());
    assert_eq!((&results, &text), (&run(&topology, config.clone()).0, &run(&topology, config.clone()).1));
    let routing = Routing::new(&topology, Algorithm::DimensionOrder, 1).unwrap();
    let traffic = TrafficConfig {
        load: 0.9,
        message_bytes: 240,
        warm_up: Time::from_ns(1),
        measured: Time::from_ns(MEASURED_NS),
        drain_max: Time::from_ns(20 * MEASURED_NS),
        ..TrafficConfig::default()
    };
    let progress = &mut |_: crate::traffic::Progress<'_>| ControlFlow::Continue(());
    let plain = crate::traffic::run(topology, routing, config, &traffic, progress).unwrap();
    assert_eq!(plain, results);
}

/// A dump of these records, each with its CRC if it ends in `#`.
fn dump(flow: &str, timeout: &str, records: &[&str]) -> String {
    let mut text = format!(
        "selvedge-phits 1\nlink a b\nflit_ps 10\nlatency_ps 100\nbuffer_flits 2\nflow {flow}\nunit flit\ntimeout_ps {timeout}\n"
    );
    for record in records {
        let made = match record.split_once(" #") {
            Some((words, rest)) => {
                let (_, inner) = words.split_once(' ').unwrap();
                format!("{words} {:08x}{rest}", crc(inner))
            }
            None => (*record).to_owned(),
        };
        text.push_str(&made);
        text.push('\n');
    }
    text
}

fn violation(flow: &str, timeout: &str, records: &[&str]) -> (u64, u64, &'static str, String) {
    let found = check(&dump(flow, timeout, records)).unwrap().violation.unwrap();
    (found.line, found.time_ps, found.rule, found.what)
}

/// Flow control, timeout, records; line, time and rule of their violation.
type Case<'a> = (&'a str, &'a str, &'a [&'a str], (u64, u64, &'a str));

#[test]
fn each_rule_names_its_first_violation() {
    let one = "0 data 0 0 only 7 #";
    let (credits, stops) = ("credits", "stop-continue");
    let cases: [Case<'_>; 11] = [
        (credits, "none", &[one, "10 data 0 2 only 8 #"], (10, 10, "sequence")),
        (credits, "none", &[one, "10 data 0 1 only 8 00000000"], (10, 10, "CRC")),
        (credits, "none", &[one, "10 data 0 1 only 8 #", "20 data 0 2 only 9 #"], (11, 20, "flow control")),
        (credits, "none", &["5 credit 0 1 00000000"], (9, 5, "CRC")),
        (stops, "none", &["5 stop 0 #", "6 data 0 0 only 7 #"], (10, 6, "flow control")),
        (stops, "none", &["5 stop 0 #", "6 stop 0 #"], (10, 6, "order of control")),
        (stops, "none", &["5 continue 0 #"], (9, 5, "order of control")),
        (stops, "none", &[one, "10 data 0 1 only 8 #", "20 data 0 2 only 9 #", "999 take 0 1"], (12, 999, "buffer")),
        (credits, "500", &[one, "512 credit 0 1 #"], (10, 512, "acknowledgement")),
        (credits, "500", &[one, "220 ack 1 #"], (10, 220, "acknowledgement")),
        (
            credits,
            "500",
            &["0 data 0 0 head 7 #", "10 data 0 1 tail 7 #", "200 retry 1 #", "210 data 0 0 head 7 #"],
            (12, 210, "sequence"),
        ),
    ];
    for (flow, timeout, records, (line, time, rule)) in cases {
        let found = violation(flow, timeout, records);
        assert_eq!((found.0, found.1, found.2), (line, time, rule), "{records:?}: {}", found.3);
    }
}

#[test]
fn what_is_repeated_in_order_is_sound() {
    let records = [
        "0 data 0 0 only 7 # lost",
        "510 timeout 0",
        "510 data 0 0 only 7 #",
        "720 ack 0 #",
        "900 take 0 1",
        "900 end",
    ];
    let checked = check(&dump("credits", "500", &records)).unwrap();
    assert_eq!((checked.violation, checked.flits, checked.link.as_str()), (None, 2, "a -> b"));
}

#[test]
fn a_file_that_is_no_dump_gives_no_verdict() {
    assert_eq!(check(""), Err(DumpError::Magic { line: 1 }));
    assert_eq!(check("selvedge-phits 2\n"), Err(DumpError::Version { found: "2".to_owned() }));
    assert!(matches!(check("selvedge-phits 1\nlink a b\nflit_ps x\n"), Err(DumpError::Header { line: 3, .. })));
    assert_eq!(check(&dump("credits", "none", &["0 end"])), Err(DumpError::Empty));
    assert_eq!(check(&dump("credits", "none", &["0 data 0 0 only 7 #"])), Err(DumpError::NoEnd));
    assert!(matches!(check(&dump("credits", "none", &["5 up", "3 up"])), Err(DumpError::Time { at: 3, .. })));
    assert!(matches!(check(&dump("credits", "none", &["5 data 0 x"])), Err(DumpError::Record { line: 9, .. })));
}

/// Bytes of a dump are exchanged at random: the check ends with a verdict or an error, and does not panic.
#[test]
fn a_hostile_dump_gives_a_verdict_or_an_error() {
    let records = [
        "0 data 0 0 head 7 #",
        "10 data 0 1 tail 7 #",
        "200 retry 1 #",
        "210 data 0 1 tail 7 #",
        "300 credit 0 1 #",
        "420 ack 1 #",
        "900 take 0 1",
        "900 end",
    ];
    let text = dump("credits", "500", &records);
    assert_eq!(check(&text).unwrap().violation, None);
    let mut random = Random::new(1, 1);
    for _ in 0..20_000 {
        let mut bytes = text.clone().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = b"0123456789abcdef \n"[random.below(18) as usize];
            if random.chance(0.1) {
                bytes.insert(at, b'9');
            }
        }
        let _ = check(&String::from_utf8(bytes).unwrap());
    }
    let huge = text.replace("latency_ps 100", &format!("latency_ps {}", u64::MAX));
    let _ = check(&huge.replace("900 end", &format!("{} end", u64::MAX)));
}
