// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interfaces of Linux that homes, engines and preloaded libraries need. Each has one small, checked wrapper with a
//! documented cost.
//!
//! | module | subject | system calls |
//! |---|---|---|
//! | [`address_space`] | limits on the use of a limited address space | `getrlimit` |
//! | [`extents`] | free runs of pages in a range | none |
//! | [`forked`] | descriptors that a forked child must not hold | `dup3` |
//! | [`futex`] | sleep until a shared word changes | `futex` |
//! | [`asymmetric`] | a fence between processes whose frequent side is free | `membarrier` |
//! | [`caller`] | the library that has called a function of ours | none |
//! | [`children`] | private copies of shared mappings in forked children | `mmap`, `mprotect`, `mremap` |
//! | [`cma`] | copy to and from another process's ordinary memory | `process_vm_readv`, `process_vm_writev` |
//! | [`copy`] | long copies into memory that other cores have in their caches | none |
//! | [`library`] | functions of libraries that the process has loaded | none |
//! | [`hidden`] | files that preloaded libraries hide | none |
//! | [`huge`] | huge pages for large tables | `madvise` |
//! | [`lines`] | hints about cache lines that go between cores | none |
//! | [`mapping`] | files mapped shared: segments and arenas | `open`, `fallocate`, `mmap` |
//! | [`memory`] | whether a range of our own address space can be touched | `madvise` |
//! | [`program`] | the program's static data, moved into a shared file | none |
//! | [`process`] | identities of processes, and whether they are alive | `/proc/<pid>/stat` |
//! | [`ranks`] | whether every rank of this machine has a core | none |
//! | [`raw`] | system calls and copies past the C library's functions | any |
//! | [`sanitizer`] | the runtime library of a sanitizer | none |
//! | [`shared`] | sealed memory files, and those in which `libselvedge_mpi_preload.so` has put the program's memory | `memfd_create` |
//! | [`shortage`] | a lack of a local resource, in words | `getrlimit`, `statvfs` |
//! | [`sync`] | locks that stay usable after a panic of their holder | none |
//! | [`thread`] | identity of the running thread | none |
//!
//! Invariants of the crate
//! 1. Nothing here panics because of another process, a file system or a C caller: those give error values. (Two
//!    exceptions end the process: [`mapping::Mapping::replace_with_zeroes`], [`shortage::Shortage::end_process`].)
//! 2. Nothing here decides policy (how long to spin, which path to take). The callers do.
//! 3. Everything stays correct after `fork`: state of a process is stored under its pid.

pub mod address_space;
pub mod asymmetric;
pub mod caller;
pub mod children;
pub mod cma;
pub mod copy;
pub mod extents;
pub mod forked;
pub mod futex;
pub mod hidden;
pub mod huge;
pub mod library;
pub mod lines;
pub mod mapping;
pub mod memory;
pub mod process;
pub mod program;
pub mod ranks;
pub mod raw;
pub mod sanitizer;
pub mod shared;
pub mod shortage;
pub mod sync;
pub mod thread;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
