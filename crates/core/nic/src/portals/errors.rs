// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of transitions: one type for each kind of operation. A refused transition has changed nothing but grants.
//!
//! Most transitions can also find that grants must be revoked first ([`Revoking`]). [`Failure`] is common to all of
//! these types, so that a home needs one loop that waits and retries.

use crate::errors::Full;

/// A transition needs these grants revoked first. Their words are 0; nothing else has changed.
///
/// The home releases the lock, makes every core pass a full fence, and waits until none of the senders is busy. Then it
/// calls [`Grants::finish_revoking`](super::grants::Grants::finish_revoking) under the lock, and retries the
/// transition.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoking {
    /// Bit i: the grant in slot i.
    pub grants: u64,
    /// Number of the last grant given before the words were cleared.
    pub(super) last_number: u64,
}

/// An error of a transition, which may be that grants are being revoked.
pub trait Failure {
    fn revoking(&self) -> Option<Revoking>;
}

impl Failure for Revoking {
    #[inline(always)]
    fn revoking(&self) -> Option<Revoking> {
        Some(*self)
    }
}

/// Reasons for which a grant was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantError {
    /// The put is not plain, is both counted and reported by an event or neither, or there is no free slot or lane.
    Unavailable,
    /// A grant for the same portal table entry or counter is being revoked. The sender should not retry at once.
    Revoking(Revoking),
}

/// Reasons for which an entry was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// No such portal table entry.
    Portal,
    /// The table of entries is full.
    Full,
    /// The list has as many entries as the limit allows.
    TooLong,
    /// Grants must be revoked first.
    Revoking(Revoking),
}

/// Reasons for which an entry was not unlinked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlinkError {
    /// There is no such entry, or it is gone.
    Invalid,
    /// Unexpected headers refer to it, or a triggered append has not fired.
    InUse,
    /// Grants must be revoked first.
    Revoking(Revoking),
}

/// Reasons for which a portal table entry is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortalError {
    /// No such index, or not allocated.
    Invalid,
    /// The wanted index is allocated, or entries are still linked.
    InUse,
    /// All indices are allocated.
    Full,
    /// Grants must be revoked first.
    Revoking(Revoking),
}

/// Reasons for which a counter was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterError {
    /// No such counter.
    Invalid,
    /// Grants must be revoked first.
    Revoking(Revoking),
}

/// Reasons for which an operation was not armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArmError {
    /// There is no free slot, no such counter, or senders count permanently in the counter's lanes.
    Full,
    /// Grants must be revoked first.
    Revoking(Revoking),
}

impl From<Full> for ArmError {
    fn from(_: Full) -> ArmError {
        ArmError::Full
    }
}

/// Errors that have a variant `Revoking`.
macro_rules! failures {
    ($($error:ty)*) => {
        $(
            impl From<Revoking> for $error {
                #[inline(always)]
                fn from(revoking: Revoking) -> Self {
                    Self::Revoking(revoking)
                }
            }

            impl Failure for $error {
                #[inline(always)]
                fn revoking(&self) -> Option<Revoking> {
                    if let Self::Revoking(revoking) = self { Some(*revoking) } else { None }
                }
            }
        )*
    };
}

failures! { AppendError UnlinkError PortalError CounterError ArmError GrantError }
