// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A unit of the RTL in a replay; the search that takes unexpected messages, and the comparison with the trace.

use std::fmt;

use selvedge_nic::portals::{EntrySpec, options};
use selvedge_nic::tap::Transition;

use super::statistics::Statistics;
use crate::error::LockstepError;
use crate::lists::receive;

/// A unit of the RTL in a replay.
pub trait Driver {
    /// Takes a transition of the trace, with its number. Fails with the first difference.
    fn take(&mut self, number: u64, transition: &Transition) -> Result<(), LockstepError>;

    /// Runs the remaining commands. Fails like [`Driver::take`].
    fn finish(&mut self) -> Result<(), LockstepError>;

    fn statistics(&self) -> &Statistics;
}

/// The pattern of a search that deletes: the oldest unexpected message of this source and bits, or all of them.
pub(super) fn search_for(key: Option<(u64, u64)>) -> EntrySpec {
    let (source, match_bits) = key.unwrap_or_default();
    let (once, ignored) = if key.is_some() { (options::USE_ONCE, 0) } else { (0, u64::MAX) };
    EntrySpec {
        options: once | options::OP_PUT | options::EVENT_COMM_DISABLE | options::EVENT_OVER_DISABLE,
        length: u32::MAX.into(),
        ignore_bits: ignored,
        source_ignore: ignored,
        ..receive(match_bits, source)
    }
}

pub(super) fn compare_with_trace<T: PartialEq + fmt::Debug>(
    statistics: &mut Statistics,
    number: u64,
    command: &str,
    here: T,
    trace: T,
) -> Result<(), LockstepError> {
    if here == trace {
        statistics.same_as_trace += 1;
        return Ok(());
    }
    match statistics.differs_from {
        None => Err(LockstepError::NotAsRecorded {
            record: number,
            command: command.to_owned(),
            here: format!("{here:x?}"),
            trace: format!("{trace:x?}"),
        }),
        Some(_) => Ok(()),
    }
}
