// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The address translation unit (ATU): from network logical addresses to addresses of the owner's memory (seed 002,
//! chapter 5.2.8 to 5.7).
//!
//! A program registers memory page by page. Each page gets an entry in a global address table (GAT), and the entry's
//! number is the page's network logical address (NLA). All virtual process ids (VPIDs) share the tables. An entry names
//! the VPID that it belongs to, so the protection is one comparison. A functional unit passes an NLA and a VPID, and
//! gets an address or a fault.
//!
//! # Contract
//!
//! * [`Atu::translate`] gives one contiguous run; [`Atu::translate_all`] a whole range, or nothing of it.
//! * The driver writes and clears entries ([`manage`]). It need not flush after it has written an entry in an empty
//!   place. It must flush after it has cleared or changed an entry. Until then the TLB may use the old entry.
//! * A flush is complete when every functional unit has answered ([`flush`]). Then no unit uses the old entry.
//!
//! # Invariants
//!
//! 1. Every translation checks the VPID and the right, whether the entry comes from the TLB or from the table.
//! 2. The TLB holds entries as they were read, and never one that translates for no VPID. So a newly registered page is
//!    found at once.
//! 3. Any word of a table, of the TLB or of a packet translates or is refused. Nothing panics.
//! 4. The result for a unit does not depend on the order in which memory answers table reads.
//!
//! Files, each above those that it uses:
//!
//! * [`nla`]: the address. [`entry`]: an entry of a table, and its check.
//! * [`tlb`]: the TLB as a plain slice. [`lookup`]: look-up of an entry.
//! * [`translate`]: translation of ranges. [`flush`]: a flush and its answers. [`manage`]: the driver's side.
//! * [`ats`]: the four transactions between the ATU and the units. [`queue`], [`pipeline`]: the hardware's
//!   microarchitecture, for simulation and lockstep.
//!
//! Time is not modelled here. A home prices the steps [`TlbHit`](crate::Step::TlbHit) and
//! [`AddressTableRead`](crate::Step::AddressTableRead).

pub mod ats;
pub mod entry;
pub mod flush;
pub mod lookup;
pub mod manage;
pub mod nla;
pub mod pipeline;
pub mod queue;
pub mod tlb;
pub mod translate;

pub use entry::{Access, AddressEntry, PageSize, Rights, TranslationFault, Unencodable};
pub use flush::{Flush, FlushMode, FlushTarget, NotAwaited, Unit};
pub use lookup::Atu;
pub use nla::{Nla, NlaPage, OutOfRange, PAGE_BYTES};
pub use pipeline::Pipeline;
pub use translate::Translated;
