// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs whose fabric loses links and routers, in both models of the network.

use std::sync::Arc;

use selvedge_fabric::{RouterId, Topology};
use selvedge_sim::machine::Machine;
use selvedge_sim::network::LossReason;
use selvedge_sim::node::{End, Fault, Model, Options, Outcome, Simulation};
use selvedge_sim::program::ready;
use selvedge_sim::rerouting::{Detection, Episode, RerouteConfig, RouterFault, channels_of};
use selvedge_sim::time::Time;

use crate::common::machine;

const RANKS: u32 = 12;

/// All ranks exchange 2 KB with all others, twenty times.
fn go(machine: &Arc<Machine>, network: Model, faults: &[Fault], rerouting: Option<RerouteConfig>) -> Outcome {
    let given = [("sizes", "2048"), ("iterations", "20")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let program = ready::find("all-to-all").unwrap();
    let tasks = program.prepare(RANKS, machine, &given).unwrap().tasks(RANKS, machine);
    let options = Options { network, faults: faults.to_vec(), rerouting, ..Options::default() };
    Simulation::new(machine.clone(), tasks, options).unwrap().run(&mut |_| true)
}

fn fails(channels: Vec<u32>, at: u64) -> Vec<Fault> {
    channels.into_iter().map(|channel| Fault { at: Time::from_ns(at), channel, up: false }).collect()
}

/// Both directions of the link of the first node's router to its first neighbour.
fn link(topology: &Topology) -> Vec<u32> {
    let (port, next) = topology.neighbours(RouterId(0)).next().unwrap();
    let (back, _) = topology.neighbours(next).find(|neighbour| neighbour.1 == RouterId(0)).unwrap();
    vec![topology.channel(RouterId(0), port), topology.channel(next, back)]
}

fn episode(outcome: &Outcome) -> &Episode {
    &outcome.rerouting.as_ref().expect("a report").episodes[0]
}

#[test]
fn messages_take_another_way_in_both_models() {
    let machine = machine(&[]);
    for model in [Model::Packet, Model::Message] {
        let sound = go(&machine, model, &[], None);
        assert_eq!((&sound.end, sound.statistics.lost), (&End::Completed, 0));
        let at = sound.time.as_ns() / 3;
        let faults = fails(link(&machine.topology), at);
        let rerouted = go(&machine, model, &faults, Some(RerouteConfig::default()));
        let fixed = go(&machine, model, &faults, None);
        let lost = |outcome: &Outcome| outcome.statistics.lost;
        // The program waits for ever for a lost message, so there are few.
        let (few, more) = (lost(&rerouted), lost(&fixed));
        assert!(few <= more && few < 24, "{model:?}: {few} of {more}");
        let change = episode(&rerouted);
        assert_eq!((change.at_ps, change.noticed_ps), (at * 1000, Some(0)), "{model:?}");
        assert_eq!(change.lost_later.get(&LossReason::Unreachable), Some(&0));
        let again = go(&machine, model, &faults, Some(RerouteConfig::default()));
        assert_eq!((again.statistics.hash, &again.rerouting), (rerouted.statistics.hash, &rerouted.rerouting));
        // Managers of a fabric without faults leave no trace.
        let idle = go(&machine, model, &[], Some(RerouteConfig::default()));
        assert_eq!((idle.statistics.hash, idle.statistics.events), (sound.statistics.hash, sound.statistics.events));
    }
}

#[test]
fn a_job_beside_a_failed_router_goes_on_and_one_on_it_is_stuck() {
    let machine = machine(&[]);
    let last = machine.topology.attachment(selvedge_fabric::NodeId(machine.topology.nodes() - 1)).0;
    for model in [Model::Packet, Model::Message] {
        let router = |router: RouterId| {
            let faults = fails(channels_of(&machine.topology, router), 0);
            let routers = vec![RouterFault { at: Time::ZERO, router: router.0, up: false }];
            go(&machine, model, &faults, Some(RerouteConfig { detection: Detection::Carrier, routers }))
        };
        let beside = router(last);
        assert_eq!(episode(&beside).changes.len(), 1, "{:?}", beside.rerouting);
        let on_it = router(machine.topology.attachment(selvedge_fabric::NodeId(3)).0);
        assert!(matches!(on_it.end, End::Stuck(_)) && on_it.statistics.lost > 0, "{model:?} {:?}", on_it.end);
        let unreachable = episode(&on_it).lost_later[&LossReason::Unreachable];
        assert!(unreachable > 0, "{:?}", on_it.rerouting);
        // The fabric has come to rest before the job begins.
        assert_eq!((&beside.end, beside.statistics.lost, episode(&beside).converged_ps), (&End::Completed, 0, Some(0)));
    }
}
