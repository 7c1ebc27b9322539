// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slim Flies: graphs of diameter 2 of McKay, Miller and Širáň (Journal of Combinatorial Theory B, 1998), as a network
//! (Besta and Hoefler, SC 2014).
//!
//! For a prime power `q = 4 w + d` with `d` of -1, 0 or 1 there are `2 q²` routers of `(3 q - d) / 2` links. They have
//! names `(side, a, b)` with `a` and `b` of the field of `q` elements. `(0, x, y)` is linked to `(0, x, y')` if `y - y'`
//! is in a set `X`, `(1, m, c)` to `(1, m, c')` if `c - c'` is in a set `X'`, and `(0, x, y)` to `(1, m, c)` if
//! `y = m x + c`. `X` and `X'` are powers of a primitive element.
//!
//! Router `(side, a, b)` has number `side q² + a q + b`. Its ports: those of its set in the order of the exponents, then
//! to the other side in the order of `a`, then nodes. Node `n` is attached to router `n / nodes_per_router`.
use super::grid::{attach_evenly, node_count};
use super::{Draft, Kind, Topology, TopologyError};
use crate::id::RouterId;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The parameters of a Slim Fly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlimFly {
    pub q: u32,
    pub nodes_per_router: u32,
}

/// The largest `q`, which limits the field's tables and the ports.
const Q_MAX: u32 = 200;

/// Makes a Slim Fly ([`Topology::slim_fly`]).
pub(super) fn make(q: u32, nodes_per_router: Option<u32>) -> Result<Topology, TopologyError> {
    let known = || Some(q).filter(|&q| (3..=Q_MAX).contains(&q) && q % 4 != 2).and_then(Field::new);
    let Some(field) = known() else {
        let nearest = |up: bool| -> u32 {
            let fits = |&q: &u32| q % 4 != 2 && Field::new(q).is_some();
            let found = if up { (q.max(3)..=Q_MAX).find(fits) } else { (3..q.min(Q_MAX + 1)).rev().find(fits) };
            found.unwrap_or(if up { 199 } else { 3 })
        };
        return Err(TopologyError::SlimFly { q, below: nearest(false), above: nearest(true) });
    };
    let (mine, theirs) = field.sets();
    let degree = q + mine.len() as u32;
    let nodes_per_router = nodes_per_router.unwrap_or(degree.div_ceil(2));
    let routers = 2 * u64::from(q) * u64::from(q);
    let nodes = node_count(routers, nodes_per_router, "Slim Fly")?;
    let mut draft = Draft::new(routers, |_| degree.saturating_add(nodes_per_router), nodes)?;
    for (side, set) in [(0, &mine), (1, &theirs)] {
        // The port at the other end of each: that of the negative.
        let negative = |step| set.iter().position(|&other| field.add(step, other) == 0);
        let backs: Vec<usize> = (0..).zip(set).map(|(port, &step)| negative(step).unwrap_or(port)).collect();
        for a in 0..q {
            for b in 0..q {
                let router = (side * q + a) * q + b;
                for (port, &step) in set.iter().enumerate() {
                    let other = (side * q + a) * q + field.add(b, step);
                    if router < other {
                        draft.link(RouterId(router), port as u32, RouterId(other), backs[port] as u32);
                    }
                }
            }
        }
    }
    let inner = mine.len() as u32;
    for x in 0..q {
        for m in 0..q {
            for c in 0..q {
                let y = field.add(field.times(m, x), c);
                draft.link(RouterId(x * q + y), inner + m, RouterId((q + m) * q + c), inner + x);
            }
        }
    }
    attach_evenly(&mut draft, nodes, nodes_per_router, degree);
    draft.finish(Kind::SlimFly(SlimFly { q, nodes_per_router }))
}

impl SlimFly {
    /// Links of a router to others.
    pub fn degree(&self) -> u32 {
        self.q + if self.q % 4 == 3 { self.q.div_ceil(2) } else { self.q / 2 }
    }

    /// The capacity of all links over the traffic on shortest routes, all of which have one or two links.
    pub(super) fn saturation(&self) -> (u128, u128) {
        let (links, each) = (u128::from(self.degree()), u128::from(self.nodes_per_router));
        let routers = 2 * u128::from(self.q).pow(2);
        let nodes = routers * each;
        (routers * links * (nodes - 1), nodes * each * (links + 2 * (routers - 1 - links)))
    }

    pub(super) fn router_name(&self, router: RouterId) -> String {
        let q = self.q;
        alloc::format!("({}, {}, {})", router.0 / (q * q), router.0 / q % q, router.0 % q)
    }
}

impl fmt::Display for SlimFly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slim Fly of q = {}, {} nodes each", self.q, self.nodes_per_router)
    }
}

/// A finite field. An element's digits to the base of the characteristic are the coefficients of a polynomial.
struct Field {
    q: u32,
    characteristic: u32,
    /// Powers of a primitive element, from the zeroth.
    powers: Vec<u32>,
    /// The exponent of each element but 0.
    exponents: Vec<u32>,
}

impl Field {
    /// The field of `q` elements; None: `q` is no prime power.
    fn new(q: u32) -> Option<Field> {
        let characteristic = (2..=q).find(|p| q % p == 0)?;
        let mut rest = q;
        while rest % characteristic == 0 {
            rest /= characteristic;
        }
        if rest != 1 {
            return None;
        }
        let mut field = Field { q, characteristic, powers: Vec::new(), exponents: Vec::new() };
        // `x` is primitive if its powers are all elements but 0. Then the polynomial, which is given by the remainder of
        // its highest power, is irreducible.
        let primitive = (1..q).find(|&remainder| {
            field.powers = alloc::vec![1];
            let mut power = field.shift(1, remainder);
            while power > 1 && (field.powers.len() as u32) < q {
                field.powers.push(power);
                power = field.shift(power, remainder);
            }
            power == 1 && field.powers.len() as u32 == q - 1
        });
        primitive?;
        field.exponents = alloc::vec![0; q as usize];
        for (exponent, &power) in field.powers.iter().enumerate() {
            field.exponents[power as usize] = exponent as u32;
        }
        Some(field)
    }

    /// `x` times an element, where the highest power of `x` that an element does not have is `remainder`.
    fn shift(&self, element: u32, remainder: u32) -> u32 {
        let highest = self.q / self.characteristic;
        let (carry, mut product) = (element / highest, element % highest * self.characteristic);
        for _ in 0..carry {
            product = self.add(product, remainder);
        }
        product
    }

    fn add(&self, a: u32, b: u32) -> u32 {
        let p = self.characteristic;
        let (mut a, mut b, mut place, mut sum) = (a, b, 1, 0);
        while a > 0 || b > 0 {
            sum += (a % p + b % p) % p * place;
            (a, b, place) = (a / p, b / p, place * p);
        }
        sum
    }

    fn times(&self, a: u32, b: u32) -> u32 {
        if a == 0 || b == 0 {
            return 0;
        }
        let exponent = self.exponents[a as usize] + self.exponents[b as usize];
        self.powers[(exponent % (self.q - 1)) as usize]
    }

    /// The sets of both sides: even and odd powers; for `q = 4 w - 1` the first `w` of them, and their negatives.
    fn sets(&self) -> (Vec<u32>, Vec<u32>) {
        let power = |exponent: u32| self.powers[(exponent % (self.q - 1)) as usize];
        let from = |first: u32, count: u32| (0..count).map(move |i| first + 2 * i);
        match self.q % 4 {
            3 => {
                let w = self.q.div_ceil(4);
                let both = |first: u32, second: u32| from(first, w).chain(from(second, w)).map(power).collect();
                (both(0, 2 * w - 1), both(1, 2 * w))
            }
            _ => (from(0, self.q / 2).map(power).collect(), from(1, self.q / 2).map(power).collect()),
        }
    }
}
