// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that the fabric loses for good: when their ends learn of it, and what waits behind them.

use std::io;
use std::sync::{Arc, Mutex};

use selvedge_sim::network::{Arrival, Observe};
use selvedge_sim::node::{End, Options, Simulation};
use selvedge_sim::program::{Needs, Tasks};
use selvedge_sim::time::Time;

use crate::common::machine;

/// The times at which packets were lost.
#[derive(Clone, Debug, Default)]
struct Lost(Arc<Mutex<Vec<Time>>>);

impl Observe for Lost {
    fn arrived(&mut self, arrival: &Arrival) {
        if let Arrival::Lost(loss) = arrival {
            self.0.lock().unwrap().push(loss.at);
        }
    }

    fn end(&mut self, _: Time) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_initiator_learns_of_a_loss_after_the_target_which_learns_of_it_a_lookahead_later() {
    for (rate, bytes) in [("link.loss", 32), ("link.corruption", 32), ("link.corruption", 3000)] {
        let machine = machine(&[(rate, "0.99")]);
        let tasks = Tasks::new(2, &machine, &Needs::default(), |process| {
            Box::pin(async move {
                if process.rank() == 0 {
                    process.put_acknowledged(1, 0, &vec![7; bytes]).await;
                    process.fence().await;
                }
                0
            })
        });
        let mut simulation = Simulation::new(machine.clone(), tasks, Options::default()).unwrap();
        let lost = Lost::default();
        simulation.observe(Box::new(lost.clone()));
        let outcome = simulation.run(&mut |_| true);
        assert_eq!((&outcome.end, outcome.statistics.lost), (&End::Completed, 1), "{rate}");
        assert_eq!(simulation.ranks().process(0).unwrap().failed(), 1, "{rate}");
        let lost = lost.0.lock().unwrap();
        let (last, lookahead) = (*lost.last().unwrap(), Time::from_ns(10));
        assert_eq!(
            (lost.len(), outcome.ended[0]),
            (bytes.div_ceil(1024), Some(last + lookahead * 2 + machine.host.memory_access)),
            "{rate}"
        );
    }
}

/// A target has one stream, so it refuses long puts, and the fabric loses some of its refusals. Every put is answered.
#[test]
fn a_lost_refusal_holds_up_no_later_message() {
    let machine = machine(&[("link.loss", "0.004"), ("nic.streams_max", "1"), ("nic.retry_ns", "700")]);
    let (mut refused, mut lost) = (0, 0);
    for shift in 0..20 {
        let tasks = Tasks::new(12, &machine, &Needs::default(), |process| {
            Box::pin(async move {
                for round in 0..20 {
                    let to = (process.rank() + 1 + (round + shift) % 3) % 4;
                    if to != process.rank() {
                        process.put_acknowledged(to, 0, &[round as u8; 3000]).await;
                    }
                }
                process.fence().await;
                0
            })
        });
        let mut simulation = Simulation::new(machine.clone(), tasks, Options::default()).unwrap();
        let outcome = simulation.run(&mut |_| true);
        assert_eq!(outcome.end, End::Completed, "shift {shift}");
        (refused, lost) = (refused + outcome.statistics.refused, lost + outcome.statistics.lost);
    }
    assert!(refused > 1_000 && lost > 100, "{refused} {lost}");
}
