// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The type [`Nic`]. The files of transitions add methods to it. This file imports none of them.

use crate::signals::Signals;
use crate::tables::Tables;
use crate::tap::Tapped;

/// A NIC, as the holder of its lock sees it.
pub struct Nic<'a> {
    pub tables: Tables<'a>,
    pub signals: Signals<'a>,
    /// Who is shown the transitions; of most NICs nobody.
    pub tap: Tapped<'a>,
}
