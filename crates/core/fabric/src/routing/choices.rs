// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that a packet carries, and the hops that it may take next.
use crate::id::{Hop, Port, Vc};

/// The routing state of a packet: 8 bytes, which `start` sets and the packet carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RouteState {
    /// Detours: the group or router to pass through, or `DIRECT`; with `OPEN`, a candidate. On a dragonfly+ group and copy
    /// of the link to it. Grids: for each dimension a bit in each of two bytes; see `grid::directions` and
    /// `grid::wraps_first`. Explicit routes: the pair. Adaptive routing on trees: a number that turns the choice of
    /// uplinks.
    pub(super) via: u32,
    /// Of the caller's choice, 0 after `start`: which of several routings the packet follows. No routing reads it.
    pub tag: u16,
    /// A fixed hash of the pair of nodes.
    pub(super) salt: u8,
    /// The set of virtual channels that the packet uses.
    pub(super) vc_set: u8,
}

/// Stands for no intermediate group or router.
pub(super) const DIRECT: u32 = u32::MAX;
/// Marks an intermediate group or router that is a candidate: the packet is on a minimal route so far.
pub(super) const OPEN: u32 = 1 << 31;
// The numbers of groups and routers lie below both.
const _: () = assert!(OPEN > crate::topology::PORTS_MAX);

impl RouteState {
    /// The intermediate group or router that the packet has been sent to.
    #[inline]
    pub(super) fn detour(&self) -> Option<u32> {
        (self.via & OPEN == 0).then_some(self.via)
    }

    /// The intermediate group or router that the packet may still be sent to.
    #[inline]
    pub(super) fn candidate(&self) -> Option<u32> {
        (self.via & OPEN != 0 && self.via != DIRECT).then_some(self.via & !OPEN)
    }
}

/// The most hops that `next` gives.
pub const CHOICES_MAX: usize = 8;

/// The hops that a packet may take next, the preferred one first.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    hops: [Hop; CHOICES_MAX],
    count: u8,
    /// The hops from this one on begin a detour; `CHOICES_MAX`: none does.
    detour: u8,
    /// Links to the destination's router, on a minimal route and on the detour. Of use only with a detour.
    links: [u8; 2],
}

impl Choices {
    /// A constant, for copying it as a whole is cheaper than setting eight hops one by one.
    const NONE: Choices = Choices {
        hops: [Hop { port: Port(0), vc: Vc(0) }; CHOICES_MAX],
        count: 0,
        detour: CHOICES_MAX as u8,
        links: [0; 2],
    };
}

impl Default for Choices {
    #[inline]
    fn default() -> Choices {
        Choices::NONE
    }
}

impl Choices {
    #[inline]
    pub(super) fn one(port: Port, vc: Vc) -> Choices {
        let mut choices = Choices::default();
        choices.push(port, vc);
        choices
    }

    #[inline]
    pub(super) fn push(&mut self, port: Port, vc: Vc) {
        self.hops[usize::from(self.count)] = Hop { port, vc };
        self.count += 1;
    }

    /// Appends the hop that begins a detour. `links`: those to the destination's router, on a minimal route and on it.
    #[inline]
    pub(super) fn push_detour(&mut self, port: Port, vc: Vc, links: [u32; 2]) {
        self.detour = self.count;
        self.links = links.map(|links| links.min(u8::MAX.into()) as u8);
        self.push(port, vc);
    }

    /// Chooses the hop of least load; the first of equal ones. Where a detour begins here, the packet takes it if the
    /// queue of the best minimal hop, times the links to the destination, exceeds the same product of the detour by more
    /// than `bias` (UGAL: Singh, 2005). `load` and `queue` get a hop's place. `queue` also gets whether both hops are on
    /// one link: then only their virtual channels differ (UGAL-L VC: Kim and others 2008). `state` remembers the decision.
    #[inline]
    pub fn choose<L: Ord>(
        &self,
        state: &mut RouteState,
        bias: u64,
        mut load: impl FnMut(usize) -> L,
        mut queue: impl FnMut(usize, bool) -> u64,
    ) -> Option<Hop> {
        let (all, first_detour) = (self.len(), usize::from(self.detour.min(self.count)));
        let mut best = |places: core::ops::Range<usize>| match places.len() {
            1 => Some(places.start),
            _ => places.min_by_key(|place| load(*place)),
        };
        let place = match (best(0..first_detour), best(first_detour..all)) {
            (Some(direct), Some(around)) => {
                let [near, far] = self.links.map(u64::from);
                let alone = self.hops[direct].port == self.hops[around].port;
                let is_minimal = queue(direct, alone) * near <= queue(around, alone) * far + bias;
                if is_minimal { direct } else { around }
            }
            (direct, around) => direct.or(around)?,
        };
        self.take(place, state)
    }

    /// Takes a hop by its place: the decision that [`Choices::choose`] makes by load.
    pub fn take(&self, place: usize, state: &mut RouteState) -> Option<Hop> {
        if self.is_detour(place) {
            state.via &= !OPEN;
        }
        self.as_slice().get(place).copied()
    }

    #[inline]
    pub fn as_slice(&self) -> &[Hop] {
        &self.hops[..usize::from(self.count)]
    }

    /// Whether a detour may begin here.
    #[inline]
    pub fn has_detour(&self) -> bool {
        self.detour < self.count
    }

    /// Whether the hop at a place begins a detour.
    #[inline]
    pub fn is_detour(&self, place: usize) -> bool {
        place >= self.detour.into()
    }

    pub fn iter(&self) -> core::slice::Iter<'_, Hop> {
        self.as_slice().iter()
    }

    /// The preferred hop. None: the routing was made for another topology.
    #[inline]
    pub fn first(&self) -> Option<Hop> {
        self.as_slice().first().copied()
    }

    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl<'a> IntoIterator for &'a Choices {
    type Item = &'a Hop;
    type IntoIter = core::slice::Iter<'a, Hop>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
