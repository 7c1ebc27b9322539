// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libswordfish: applets of SWORDFISH (`include/swordfish.h`; seed 002, section 2.7, table 1), over PALMS.
//!
//! A message is one of PALMS: its header is the length in bytes, since PALMS reports whole words, and its tag is the
//! applet's. PALMS selects by source, and applets also by tag, so messages that a receive passes over wait here.
//!
//! * [`applet`]: the state of an applet: connections, and messages that wait. [`calls`]: the functions. [`codes`].

pub mod applet;
pub mod calls;
pub mod codes;
