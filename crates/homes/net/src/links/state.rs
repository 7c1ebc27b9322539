// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of the links of a process: one word, which a poll reads once. Each link has its own state in its
//! [`Connection`](crate::outgoing).
//!
//! The stage says where progress is needed:
//!
//! | stage | endpoint | control connections | on | then |
//! |---|---|---|---|---|
//! | `Listening` | none yet | the listener | [`StateWord::endpoint_opened`] | `Connecting`, with a thread `Open` |
//! | `Connecting` | open | a link opens or ends: looked at often | [`StateWord::settled`] | `Open` |
//! | `Open` | open | looked at now and then | [`StateWord::connecting`] | `Connecting`; with a thread it stays |
//! | `Closing` | ends | end | | |
//!
//! Every stage goes to `Closing` on [`StateWord::close`].
//!
//! The driver says which thread makes progress while the program makes no calls:
//!
//! | driver | thread | program | on | then |
//! |---|---|---|---|---|
//! | `Calls` | none | does all | [`StateWord::thread_started`] | `Thread` |
//! | `Thread` | serves the endpoint | computes | [`StateWord::program_polls`] | `Program` |
//! | | | | [`StateWord::program_sleeps`] | `Asleep` |
//! | | | | [`StateWord::wake`]: packets gather in a frame | `ThreadWoken`, and the bell rings |
//! | `ThreadWoken` | as `Thread`, and was woken for those packets | computes | [`StateWord::serve`] | `Thread` |
//! | `Program` | leaves the endpoint alone, looks again after a millisecond | polls | [`StateWord::program_computes`] | `Thread` |
//! | | | | [`StateWord::program_sleeps`] | `Asleep`, and the bell rings |
//! | `Asleep`, `AsleepWoken` | as `Thread`, `ThreadWoken` | sleeps | [`StateWord::program_wakes`] | `Thread`, `ThreadWoken` |
//!
//! With a thread, `Connecting` is not reached. Without an endpoint, no thread is woken for packets.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

/// Polls of the program between looks at the control connections, without a thread: while a link opens, and otherwise.
const POLLS_PER_CONTROL_CONNECTING: u32 = 16;
const POLLS_PER_CONTROL: u32 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Listening,
    Connecting,
    Open,
    Closing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Driver {
    Calls,
    Thread,
    ThreadWoken,
    Program,
    Asleep,
    AsleepWoken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    stage: Stage,
    driver: Driver,
}

impl State {
    #[inline]
    fn decode(word: u8) -> State {
        let stage = match word & 3 {
            0 => Stage::Listening,
            1 => Stage::Connecting,
            2 => Stage::Open,
            _ => Stage::Closing,
        };
        let driver = match word >> 2 {
            0 => Driver::Calls,
            1 => Driver::Thread,
            2 => Driver::ThreadWoken,
            3 => Driver::Program,
            4 => Driver::Asleep,
            _ => Driver::AsleepWoken,
        };
        State { stage, driver }
    }

    fn encode(self) -> u8 {
        self.stage as u8 | (self.driver as u8) << 2
    }

    #[inline]
    pub(super) fn has_endpoint(self) -> bool {
        matches!(self.stage, Stage::Connecting | Stage::Open)
    }

    pub(super) fn is_closing(self) -> bool {
        self.stage == Stage::Closing
    }

    #[inline]
    pub(super) fn is_program_asleep(self) -> bool {
        matches!(self.driver, Driver::Asleep | Driver::AsleepWoken)
    }

    /// Whether the poll of this number looks at the control connections.
    #[inline]
    pub(super) fn looks_at_control(self, poll: u32) -> bool {
        let every = if self.stage == Stage::Connecting { POLLS_PER_CONTROL_CONNECTING } else { POLLS_PER_CONTROL };
        self.driver == Driver::Calls && poll % every == 0
    }
}

#[derive(Default)]
pub(super) struct StateWord(AtomicU8);

impl StateWord {
    #[inline]
    pub(super) fn load(&self) -> State {
        State::decode(self.0.load(Relaxed))
    }

    /// Changes the state. Returns the states before and after.
    fn change(&self, to: impl Fn(State) -> State) -> (State, State) {
        let mut word = self.0.load(SeqCst);
        loop {
            let before = State::decode(word);
            let after = to(before);
            if before == after {
                return (before, after);
            }
            match self.0.compare_exchange_weak(word, after.encode(), SeqCst, SeqCst) {
                Ok(_) => return (before, after),
                Err(now) => word = now,
            }
        }
    }

    fn change_driver(&self, to: impl Fn(Driver) -> Driver) -> (Driver, Driver) {
        let (before, after) = self.change(|state| State { driver: to(state.driver), ..state });
        (before.driver, after.driver)
    }

    /// Notes that the endpoint is open, for a link that opens.
    pub(super) fn endpoint_opened(&self) {
        self.change(|state| match state.stage {
            Stage::Listening => State { stage: State::stage_of_new_link(state.driver), ..state },
            _ => state,
        });
    }

    pub(super) fn connecting(&self) {
        self.change(|state| match state.stage {
            Stage::Open => State { stage: State::stage_of_new_link(state.driver), ..state },
            _ => state,
        });
    }

    /// Notes, after a look at the control connections, whether a link opens or ends (`is_waiting`).
    pub(super) fn settled(&self, is_waiting: bool) {
        self.change(|state| match (state.stage, state.driver) {
            (Stage::Connecting | Stage::Open, Driver::Calls) => {
                State { stage: if is_waiting { Stage::Connecting } else { Stage::Open }, ..state }
            }
            _ => state,
        });
    }

    /// Ends the links. Returns whether this is the first call.
    pub(super) fn close(&self) -> bool {
        !self.change(|state| State { stage: Stage::Closing, ..state }).0.is_closing()
    }

    pub(super) fn thread_started(&self) {
        self.change(|state| {
            let stage = if state.stage == Stage::Connecting { Stage::Open } else { state.stage };
            match state.driver {
                Driver::Calls => State { stage, driver: Driver::Thread },
                _ => state,
            }
        });
    }

    /// Notes that the thread has seen polls of the program. Returns whether it leaves the endpoint to the program.
    pub(super) fn program_polls(&self) -> bool {
        let (_, now) = self.change_driver(|driver| match driver {
            Driver::Thread | Driver::ThreadWoken => Driver::Program,
            other => other,
        });
        now == Driver::Program
    }

    /// Notes that the thread has seen no poll of the program for a while.
    pub(super) fn program_computes(&self) {
        self.change_driver(|driver| if driver == Driver::Program { Driver::Thread } else { driver });
    }

    /// Notes that the program goes to sleep. Returns whether the thread must be woken.
    pub(super) fn program_sleeps(&self) -> bool {
        let (before, _) = self.change_driver(|driver| match driver {
            Driver::Thread | Driver::Program => Driver::Asleep,
            Driver::ThreadWoken => Driver::AsleepWoken,
            other => other,
        });
        before == Driver::Program
    }

    /// Notes that the program polls after a sleep.
    #[cold]
    pub(super) fn program_wakes(&self) {
        self.change_driver(|driver| match driver {
            Driver::Asleep => Driver::Thread,
            Driver::AsleepWoken => Driver::ThreadWoken,
            other => other,
        });
    }

    /// Notes that packets gather in a frame. Returns whether the thread must be woken for them.
    pub(super) fn wake(&self) -> bool {
        let (before, after) = self.change_driver(|driver| match driver {
            Driver::Thread => Driver::ThreadWoken,
            Driver::Asleep => Driver::AsleepWoken,
            other => other,
        });
        before != after
    }

    /// Notes that a step begins, which looks at all packets.
    pub(super) fn serve(&self) {
        self.change_driver(|driver| match driver {
            Driver::ThreadWoken => Driver::Thread,
            Driver::AsleepWoken => Driver::Asleep,
            other => other,
        });
    }
}

impl State {
    /// Returns the stage while a link opens. With a thread it is `Open`: the thread looks at the control connections
    /// anyway.
    fn stage_of_new_link(driver: Driver) -> Stage {
        if driver == Driver::Calls { Stage::Connecting } else { Stage::Open }
    }
}

/// The number of the program's polls, for the thread, and whether the last one found something. Only polls change it. A
/// count lost between two threads of the program does no harm.
#[derive(Default)]
pub(super) struct PollCounter(AtomicU32);

impl PollCounter {
    /// Counts a poll. Returns its number, and whether the one before found something.
    #[inline]
    pub(super) fn count(&self) -> (u32, bool) {
        let word = self.0.load(Relaxed).wrapping_add(2);
        self.0.store(word, Relaxed);
        (word >> 1, word & 1 != 0)
    }

    #[inline]
    pub(super) fn set_found(&self, found: bool) {
        self.0.store(self.0.load(Relaxed) & !1 | u32::from(found), Relaxed);
    }

    pub(super) fn number(&self) -> u32 {
        self.0.load(Relaxed) >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [Stage; 4] = [Stage::Listening, Stage::Connecting, Stage::Open, Stage::Closing];
    const DRIVERS: [Driver; 6] =
        [Driver::Calls, Driver::Thread, Driver::ThreadWoken, Driver::Program, Driver::Asleep, Driver::AsleepWoken];

    /// Returns the transitions, as the links make them: packets gather only if there is an endpoint.
    fn transitions() -> Vec<fn(&StateWord)> {
        vec![
            StateWord::endpoint_opened,
            StateWord::connecting,
            |word| word.settled(true),
            |word| word.settled(false),
            |word| _ = word.close(),
            StateWord::thread_started,
            |word| _ = word.program_polls(),
            StateWord::program_computes,
            |word| _ = word.program_sleeps(),
            StateWord::program_wakes,
            |word| _ = word.load().has_endpoint() && word.wake(),
            StateWord::serve,
        ]
    }

    #[test]
    fn every_state_reads_back_from_its_word() {
        for stage in STAGES {
            for driver in DRIVERS {
                assert_eq!(State::decode(State { stage, driver }.encode()), State { stage, driver });
            }
        }
    }

    #[test]
    fn the_reachable_states_are_those_of_the_tables() {
        let mut reached = vec![0u8];
        let mut at = 0;
        while let Some(&word) = reached.get(at) {
            at += 1;
            for change in transitions() {
                let state = StateWord(AtomicU8::new(word));
                change(&state);
                let next = state.load().encode();
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
        }
        let is_expected = |state: &State| match (state.stage, state.driver) {
            (_, Driver::Calls) => true,
            (Stage::Connecting, _) => false,
            (Stage::Listening, driver) => !matches!(driver, Driver::ThreadWoken | Driver::AsleepWoken),
            (Stage::Open | Stage::Closing, _) => true,
        };
        for stage in STAGES {
            for driver in DRIVERS {
                let state = State { stage, driver };
                assert_eq!(reached.contains(&state.encode()), is_expected(&state), "{state:?}");
            }
        }
    }

    #[test]
    fn the_bell_rings_once_for_packets_and_for_a_program_that_sleeps_while_it_has_the_endpoint() {
        let word = StateWord::default();
        assert!(!word.wake() && !word.program_polls() && !word.program_sleeps(), "there is no thread");
        word.thread_started();
        word.endpoint_opened();
        assert!(word.wake() && !word.wake());
        word.serve();
        assert!(word.wake(), "it serves after that");
        assert!(word.program_polls());
        assert!(!word.wake(), "the program sends them");
        assert!(word.program_sleeps() && !word.program_sleeps());
        assert!(!word.program_polls(), "it sleeps, whatever the thread has seen before");
        assert!(word.wake());
        word.program_wakes();
        assert!(word.program_polls());
        word.program_computes();
        assert_eq!(word.load().driver, Driver::Thread);
        assert!(word.close() && !word.close());
    }

    #[test]
    fn the_program_looks_at_control_connections_where_no_thread_does() {
        let looks = |word: &StateWord| (1..=1024).filter(|&poll| word.load().looks_at_control(poll)).count();
        let word = StateWord::default();
        assert_eq!(looks(&word), 1);
        word.endpoint_opened();
        assert_eq!(looks(&word), 64);
        word.settled(false);
        assert_eq!(looks(&word), 1);
        word.connecting();
        assert_eq!(looks(&word), 64);
        word.thread_started();
        assert_eq!(looks(&word), 0);
    }

    #[test]
    fn polls_are_counted_beside_what_the_last_one_found() {
        let polls = PollCounter::default();
        assert_eq!(polls.count(), (1, false));
        polls.set_found(true);
        assert_eq!((polls.number(), polls.count()), (1, (2, true)));
        polls.set_found(false);
        assert_eq!(polls.count(), (3, false));
        polls.0.store(u32::MAX - 1, Relaxed);
        assert_eq!(polls.count(), (0, false));
    }
}
