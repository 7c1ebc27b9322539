// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One rank: its process, its PMI socket, its output.

pub(crate) mod connection;
pub(crate) mod output;
pub(crate) mod runner;
pub(crate) mod screens;
pub(crate) mod spawn;
pub(crate) mod terminal;
pub(crate) mod window;
