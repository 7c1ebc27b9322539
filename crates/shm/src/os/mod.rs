// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the live home needs of Linux, each thing wrapped once: small, checked, and with its cost written down.
//!
//! | module | what | system calls |
//! |---|---|---|
//! | [`futex`] | sleep until a shared word changes | `futex` |
//! | [`asymmetric`] | a fence between processes whose frequent side is free | `membarrier` |
//! | [`cma`] | copy to and from another process's ordinary memory | `process_vm_readv`, `process_vm_writev` |
//! | [`copy`] | long copies into memory that other cores have in their caches | none |
//! | [`lines`] | hints about cache lines that go between cores | none |
//! | [`mapping`] | files mapped shared: segments and arenas | `open`, `fallocate`, `mmap` |
//! | [`memory`] | whether a range of our own address space can be touched | `madvise` |
//! | [`program`] | the program's static data, moved into a shared file | `mmap`, `mremap` |
//! | [`process`] | which process is which, and whether it still lives | `/proc/<pid>/stat` |
//! | [`ranks`] | whether every rank of this machine has a core | none |
//! | [`shared`] | which memory of the program lies in files, where `libselvedge_mpi_preload.so` put it there | none |
//! | [`thread`] | which thread this is | none |
//!
//! Invariants of the whole folder:
//! 1. Nothing here panics on what another process, a file system or a C caller does: those give error values. (The
//!    one exception ends the process and is described at [`mapping::Mapping::replace_with_zeroes`].)
//! 2. Nothing here decides policy (how long to spin, which path to take): callers do.
//! 3. Everything stays right after `fork`: what is remembered per process is remembered under its pid.

pub mod asymmetric;
pub mod cma;
pub mod copy;
pub mod futex;
pub mod lines;
pub mod mapping;
pub mod memory;
pub mod process;
pub mod program;
pub mod ranks;
pub mod shared;
pub mod thread;

#[cfg(test)]
pub(crate) mod testing;
