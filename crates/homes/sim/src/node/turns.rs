// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns of ranks: a rank runs until it makes a request, and the request determines when it runs again.

use crate::time::Time;

use super::events::Event;
use super::message::NONE;
use super::rank_states::Activity;
use super::ranks::{RankRequest, Ranks, StartFlags};
use super::run::Simulation;
use super::trace::{Span, Unit};
use super::transfers::Started;

impl<R: Ranks> Simulation<R> {
    /// Runs one turn of a rank. The operation of its last turn has been handed over by then.
    pub(super) fn turn(&mut self, now: Time, rank: u32, is_poll: bool) {
        self.hand_over(now, rank);
        let nodes = &mut self.transfers.nodes;
        let turn = nodes.ranks.resume(rank, now);
        let at = turn.at.max(now);
        nodes.statistics.turns += 1;
        self.over = nodes.ranks.is_over();
        nodes.rank_states[rank].note(&[at.0, code_of(&turn.request)]);
        if at > now && nodes.trace.limit > 0 {
            let span =
                Span { node: rank, unit: Unit::Program, name: "runs", start: now, end: at, message: 0, bytes: 0 };
            nodes.trace.add(span);
        }
        if !matches!(turn.request, RankRequest::Poll { .. }) {
            nodes.rank_states[rank].end_polling();
            let is_again = match &turn.request {
                RankRequest::Wait { .. } => is_poll,
                RankRequest::Start { flags, .. } => is_poll && flags.or_refuse && nodes.rank_states[rank].refused,
                _ => false,
            };
            if !is_again {
                nodes.events.progress(now);
            }
            if !is_again && !nodes.rank_states[rank].background {
                self.foreground_acts(now);
            }
        }
        if matches!(turn.request, RankRequest::Publish { .. } | RankRequest::Blocked { .. } | RankRequest::Ended { .. })
        {
            self.made_progress(at);
        }
        // Triggered operations that the rank's own calls have made due fire before its next turn.
        let nodes = &mut self.transfers.nodes;
        while let Some((rank, ni)) = nodes.ranks.take_fired() {
            nodes.events.schedule(at, Event::Fire { rank, ni });
        }
        self.carry_out(at, rank, turn.request);
        self.resume_released(at);
        self.transfers.nodes.after_turn(rank, at);
    }

    /// Carries out the request of a rank, and schedules its next turn.
    fn carry_out(&mut self, at: Time, rank: u32, request: RankRequest) {
        let nodes = &mut self.transfers.nodes;
        match request {
            RankRequest::Start { ni, command, payload, flags } => {
                let has_interface = nodes.machine.interface.is_some();
                if has_interface && !self.transfers.stays_in_memory(rank, command.target, ni) {
                    return self.transfers.hand_to_nic(at, rank, ni, (command, payload), flags);
                }
                let started = self.transfers.start(at, rank, ni, command, payload);
                self.go_on_after(started, rank, flags);
            }
            RankRequest::Publish { ni, target, message } => {
                let goes_on = self.unpublished.copy_to_ring(nodes, at, rank, (target, ni), message);
                nodes.rank_states.go_on(&mut nodes.events, rank, goes_on);
            }
            RankRequest::SharesMemory { ni, target } => {
                let shares = nodes.shares_memory(rank, target, ni);
                nodes.ranks.reply(rank, shares);
                nodes.rank_states.go_on(&mut nodes.events, rank, at);
            }
            RankRequest::Region { name, begins } => {
                let region = nodes.regions.number(&name);
                nodes.events.schedule(at, Event::Mark { rank, region, begins });
                nodes.rank_states.go_on(&mut nodes.events, rank, at);
            }
            RankRequest::Wait { until } => {
                if until == Time::MAX {
                    nodes.rank_states[rank].wait(at);
                } else {
                    nodes.rank_states[rank].wait_until(at);
                    nodes.rank_states.schedule_turn(&mut nodes.events, rank, until.max(at), false);
                }
            }
            RankRequest::Poll { until, in_call } => {
                let pause = nodes.rank_states[rank].poll(at, in_call);
                nodes.rank_states.schedule_turn(&mut nodes.events, rank, (at + pause).min(until.max(at)), true);
            }
            RankRequest::Sleep { until } => nodes.rank_states.go_on(&mut nodes.events, rank, until.max(at)),
            RankRequest::Compute { until } => {
                nodes.rank_states[rank].compute();
                nodes.rank_states.schedule_turn(&mut nodes.events, rank, until.max(at), false);
            }
            RankRequest::Blocked { in_call } => nodes.rank_states[rank].block(in_call, at),
            RankRequest::Ended { code } => {
                self.end(rank, at, code);
                // The rank may still be in groups. One that ends well has left them, or no rank waits for it.
                if code != 0 {
                    self.lose_process(rank, at);
                }
            }
        }
    }

    /// Continues the rank after it has started an operation, or lets it wait until one of its NICs changes.
    fn go_on_after(&mut self, started: Started, rank: u32, StartFlags { waits, .. }: StartFlags) {
        let nodes = &mut self.transfers.nodes;
        let Started { goes_on, issued, message } = started;
        match issued {
            Some(issued) => nodes.events.schedule(issued, Event::Issue(message)),
            None => nodes.rank_states[rank].handing_over = message,
        }
        if !waits {
            return nodes.rank_states.go_on(&mut nodes.events, rank, goes_on);
        }
        nodes.rank_states[rank].wait(goes_on);
        nodes.ranks.started(rank, goes_on);
        if issued.is_none() {
            nodes.events.schedule(goes_on, Event::HandOver(rank));
        }
    }

    /// Hands the rank's operation to the NIC, if the host holds one.
    #[inline]
    pub(super) fn hand_over(&mut self, now: Time, rank: u32) {
        let handing_over = std::mem::replace(&mut self.transfers.nodes.rank_states[rank].handing_over, NONE);
        if handing_over != NONE {
            self.transfers.issue(now, handing_over);
        }
    }

    /// Kills a rank, unless it has ended. An operation that its host is still handing to the NIC is dropped.
    pub(super) fn kill(&mut self, now: Time, rank: u32) {
        let nodes = &mut self.transfers.nodes;
        if nodes.rank_states[rank].has_ended() {
            return;
        }
        let handing_over = std::mem::replace(&mut nodes.rank_states[rank].handing_over, NONE);
        if handing_over != NONE {
            nodes.free_message(handing_over);
        }
        self.made_progress(now);
        let nodes = &mut self.transfers.nodes;
        let code = nodes.ranks.kill(rank);
        nodes.rank_states[rank].note(&[now.0, 2000 + u64::from(code as u32)]);
        self.end(rank, now, code);
        self.lose_process(rank, now);
        self.died |= !self.options.keep_going;
        self.resume_released(now);
    }

    fn end(&mut self, rank: u32, at: Time, code: i32) {
        let change = self.transfers.nodes.regions.rank_ended(at, rank);
        self.region_changes(at, change);
        let nodes = &mut self.transfers.nodes;
        nodes.rank_states[rank].end(at, code);
        if !nodes.rank_states[rank].background {
            self.ended += 1;
            self.ended_at = nodes.events.now();
        }
        nodes.mailboxes_ended(rank, at);
        nodes.kept_ended(rank, at);
    }

    /// Reports a rank that has left its aggregation groups without notice.
    fn lose_process(&mut self, rank: u32, at: Time) {
        self.transfers.switches.change(&mut self.transfers.nodes, at, |manager| manager.process_lost(rank.into()));
    }

    /// Records progress other than a repeated operation.
    fn made_progress(&mut self, now: Time) {
        if let Some(watch) = &mut self.transfers.nodes.watch {
            watch.progress(now);
        }
    }

    /// Schedules the ranks whose blocking call may return.
    fn resume_released(&mut self, at: Time) {
        let nodes = &mut self.transfers.nodes;
        while let Some(released) = nodes.ranks.take_released() {
            let activity = nodes.rank_states.get(released).map(|state| state.activity);
            if let Some(Activity::Blocked { since, .. }) = activity {
                nodes.rank_states.go_on(&mut nodes.events, released, at.max(since));
            }
        }
    }
}

/// Returns the number of a request for the hash of a run.
fn code_of(request: &RankRequest) -> u64 {
    match request {
        RankRequest::Start { command, .. } => u64::from(command.kind),
        RankRequest::Publish { message, .. } => 2000 + message.bytes,
        RankRequest::SharesMemory { .. } => 105,
        RankRequest::Region { .. } => 106,
        RankRequest::Wait { .. } => 101,
        RankRequest::Poll { .. } => 102,
        RankRequest::Sleep { .. } | RankRequest::Compute { .. } => 103,
        RankRequest::Blocked { .. } => 104,
        RankRequest::Ended { code } => 1000 + u64::from(*code as u32),
    }
}
