// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the simulated home, in one program, since each test program compiles the simulator for its own ranks again.

mod aggregation;
mod common;
mod congestion;
mod deaths;
mod host_interfaces;
mod host_reduction;
mod jobs;
mod kept_locks;
mod losses;
mod machines;
mod models;
mod multicast;
mod parts;
mod parts_faults;
mod process;
mod programs;
mod rails;
mod ready;
mod rerouting;
mod timeline;
mod units;
mod validate;
mod variation;
