// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flow control of a link by STOP and CONTINUE, as in ATOLL, with the defect of its Linkport and a correction (seed 002,
//! section 2.5).
//!
//! # Generator
//!
//! The receiver of a link watches its buffer. At `stop` flits it requests a STOP, at `resume` flits a CONTINUE. The gap
//! between the two is the hysteresis. Requests wait until the transmitter of the other direction has ended its flit.
//!
//! # Defect
//!
//! Then the transmitter sends what has been requested, STOP before CONTINUE, whatever the order of requests. If
//! CONTINUE and a second STOP wait together, they change places: the sender sees STOP, STOP, CONTINUE, and sends into a
//! full buffer. With hysteresis both never wait together. Without it ([`Generator::without_hysteresis`]) a buffer at its
//! limit asks for one after the other from flit to flit.
//!
//! # Correction
//!
//! Requests alternate, beginning with STOP. So the number of STOPs less that of CONTINUEs is 1 while the buffer is full,
//! and 0 otherwise. If a CONTINUE is late, the number is higher until it comes. [`Correction`] stands in the cable and
//! counts:
//!
//! | state | STOP | CONTINUE |
//! |---|---|---|
//! | `Running` | pass on, to `Stopped` | drop |
//! | `Stopped` | drop, to `OneLate` | pass on, to `Running` |
//! | `OneLate` | drop, to `TwoLate` | drop, to `Stopped` |
//! | `TwoLate` | drop, to `ThreeLate` | drop, to `OneLate` |
//! | `ThreeLate` | drop | drop, to `TwoLate` |
//!
//! So the sender sees STOP and CONTINUE in turn, and runs only when none is late. The generator requests at most two of
//! each while one flit passes, so at most two are late.

/// A control character of a link, in the direction against its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    Stop,
    Continue,
}

/// The receiving end of a link: fill of a buffer, and the requests that wait.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    stop: u32,
    resume: u32,
    /// Below 0 while a flit has been taken out before the whole of it has arrived.
    fill: i64,
    has_stopped: bool,
    stops: u8,
    continues: u8,
}

impl Generator {
    /// `resume` is below `stop`; both count flits.
    pub fn new(stop: u32, resume: u32) -> Generator {
        Generator { stop, resume, fill: 0, has_stopped: false, stops: 0, continues: 0 }
    }

    /// The generator with the defect.
    pub fn without_hysteresis(stop: u32) -> Generator {
        Generator::new(stop, stop.saturating_sub(1))
    }

    /// A flit has arrived.
    pub fn arrive(&mut self) {
        self.fill += 1;
        if !self.has_stopped && self.fill >= i64::from(self.stop) {
            self.has_stopped = true;
            self.stops = self.stops.saturating_add(1);
        }
    }

    /// A flit has been taken out of the buffer.
    pub fn take(&mut self) {
        self.fill -= 1;
        if self.has_stopped && self.fill <= i64::from(self.resume) {
            self.has_stopped = false;
            self.continues = self.continues.saturating_add(1);
        }
    }

    /// Whether a request waits.
    pub fn has_request(&self) -> bool {
        self.stops > 0 || self.continues > 0
    }

    /// The request that the transmitter sends next.
    pub fn send(&mut self) -> Option<Control> {
        if self.stops > 0 {
            self.stops -= 1;
            return Some(Control::Stop);
        }
        self.continues = self.continues.checked_sub(1)?;
        Some(Control::Continue)
    }

    /// The flits in the buffer.
    pub fn fill(&self) -> u32 {
        u32::try_from(self.fill).unwrap_or(0)
    }
}

/// The correction of exchanged control characters, in the cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correction {
    #[default]
    Running,
    Stopped,
    OneLate,
    TwoLate,
    ThreeLate,
}

impl Correction {
    /// Takes a character of the link; returns it if it goes on to the sender.
    pub fn pass(&mut self, control: Control) -> Option<Control> {
        use Correction::{OneLate, Running, Stopped, ThreeLate, TwoLate};
        let (next, passes) = match (*self, control) {
            (Running, Control::Stop) => (Stopped, true),
            (Stopped, Control::Continue) => (Running, true),
            (Running, Control::Continue) => (Running, false),
            (Stopped, Control::Stop) | (TwoLate, Control::Continue) => (OneLate, false),
            (OneLate, Control::Continue) => (Stopped, false),
            (OneLate, Control::Stop) | (ThreeLate, Control::Continue) => (TwoLate, false),
            (TwoLate | ThreeLate, Control::Stop) => (ThreeLate, false),
        };
        *self = next;
        passes.then_some(control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use std::vec;

    fn sent(generator: &mut Generator) -> Vec<Control> {
        std::iter::from_fn(|| generator.send()).collect()
    }

    #[test]
    fn a_buffer_stops_at_its_limit_and_continues_below_the_other() {
        let mut generator = Generator::new(4, 2);
        (0..4).for_each(|_| generator.arrive());
        assert_eq!(sent(&mut generator), [Control::Stop]);
        generator.take();
        generator.arrive();
        generator.take();
        assert!(!generator.has_request());
        generator.take();
        assert_eq!((sent(&mut generator), generator.fill()), (vec![Control::Continue], 2));
    }

    #[test]
    fn without_hysteresis_the_second_stop_overtakes() {
        let mut generator = Generator::without_hysteresis(4);
        (0..4).for_each(|_| generator.arrive());
        assert_eq!(sent(&mut generator), [Control::Stop]);
        generator.take();
        generator.arrive();
        assert_eq!(sent(&mut generator), [Control::Stop, Control::Continue]);
    }

    /// Every sequence of requests, sent in every grouping: behind the correction characters alternate, and the sender
    /// runs after a group if, and only if, the buffer is below its limit.
    #[test]
    fn the_correction_keeps_the_order_of_requests() {
        for choices in 0u32..1 << 14 {
            let mut generator = Generator::without_hysteresis(1);
            let (mut correction, mut runs, mut last) = (Correction::default(), true, None);
            let mut in_group = 0;
            for at in 0..14 {
                // Requests alternate: a flit arrives, a flit is taken.
                if at % 2 == 0 {
                    generator.arrive()
                } else {
                    generator.take()
                }
                in_group += 1;
                if choices >> at & 1 == 1 || in_group == 4 {
                    in_group = 0;
                    for control in sent(&mut generator).into_iter().filter_map(|control| correction.pass(control)) {
                        assert_ne!(last, Some(control), "{choices:b}");
                        last = Some(control);
                        runs = control == Control::Continue;
                    }
                    assert_eq!(runs, generator.fill() == 0, "{choices:b} after {at}");
                }
            }
        }
    }

    #[test]
    fn a_correct_link_passes_unchanged() {
        let mut correction = Correction::default();
        for _ in 0..10 {
            assert_eq!(correction.pass(Control::Stop), Some(Control::Stop));
            assert_eq!(correction.pass(Control::Continue), Some(Control::Continue));
        }
    }
}
