// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manager's page: hosts, links, loads and the log of a fabric in a browser. A daemon serves it for a live fabric,
//! `selvedge sim` writes it into a report or serves it for a simulation. One page, one topology view, two sources. The
//! same server shows the traffic of a user's jobs (`selvedge top --html`).
//!
//! ```text
//! browser ── HTTPS ── http.rs ── live.rs ── hub.rs ── ask.rs ── the daemon's UNIX socket
//!                        └────── watch.rs ── frames of a simulation, pictures of jobs
//! ```
//!
//! # Contract
//!
//! 1. The server runs on a thread of its own and is a client of the daemon like any other, so the daemon's loop stays
//!    one thread and one poll. Nobody who watches costs nothing: then the hub asks the daemon nothing.
//! 2. All that a browser may send is bounded: connections, headers, bodies, times, attempts to log in, sessions.
//! 3. Acts need an operator's session, its token, and a page of this server (`Origin`). The daemon logs the name.
//! 4. The page loads nothing from elsewhere: its policy allows its own script and style by their hashes. Texts of hosts
//!    are only ever shown as text.
mod ask;
mod attempts;
mod error;
mod guard;
mod http;
mod hub;
mod live;
mod metrics;
mod page;
mod server;
mod sessions;
mod tls;
mod users;
mod watch;

pub use error::PageError;
pub use page::simulation_report;
pub use server::{Server, Settings};
pub use users::{Role, UsersError, set_user};
pub use watch::{Shown, Watch};
