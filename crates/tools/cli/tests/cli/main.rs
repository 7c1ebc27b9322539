// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the `selvedge` command, in one program, because each test program is linked separately.
//!
//! They run concurrently, in threads. Each has its own [`common::Place`], and sets variables only for its commands.

mod common;

mod atollrun;
mod bench_hosts;
mod bench_mpi;
mod bench_smoke;
mod debuggers;
mod demo;
mod doctor;
mod hosts;
mod hosts_tree;
mod info_top;
mod limits;
mod links;
mod mistakes;
mod mpirun;
mod output;
mod pmi;
mod regions;
mod registers;
mod rtl;
mod run;
mod settings;
mod sim_accesses;
mod sim_deaths;
mod sim_faults;
mod sim_jobs;
mod sim_limits;
mod sim_network;
mod sim_polls;
mod sim_runs;
mod sim_turns;
mod sim_variation;
mod studies;
mod traces;
