// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The constants and handles of the interface (OpenSHMEM, "Library Constants", "Library Handles").

/// A constant of `shmem.h`.
pub struct Constant {
    pub name: &'static str,
    /// The value as a C expression.
    pub value: &'static str,
    pub summary: &'static str,
    /// Whether the older name with a leading underscore (`_SHMEM_..`) exists, too.
    pub underscored: bool,
}

/// Constants that belong together.
pub struct Group {
    pub title: &'static str,
    pub constants: &'static [Constant],
}

const fn new(name: &'static str, value: &'static str, summary: &'static str) -> Constant {
    Constant { name, value, summary, underscored: false }
}

const fn old(name: &'static str, value: &'static str, summary: &'static str) -> Constant {
    Constant { name, value, summary, underscored: true }
}

/// Name and version of the library, as a C string.
pub const VENDOR: &str = concat!("\"Selvedge ", env!("CARGO_PKG_VERSION"), "\"");

#[rustfmt::skip]
pub const GROUPS: &[Group] = &[
    Group { title: "Version", constants: &[
        old("SHMEM_MAJOR_VERSION", "1", "major version of the specification"),
        old("SHMEM_MINOR_VERSION", "6", "minor version of the specification"),
        old("SHMEM_MAX_NAME_LEN", "256", "most bytes of SHMEM_VENDOR_STRING, the closing zero included"),
        old("SHMEM_VENDOR_STRING", VENDOR, "name and version of the library"),
    ] },
    Group { title: "Handles", constants: &[
        new("SHMEM_CTX_INVALID", "((shmem_ctx_t)0)", "no context"),
        new("SHMEM_CTX_DEFAULT", "((shmem_ctx_t)1)", "the default context: that of calls without a context"),
        new("SHMEM_TEAM_INVALID", "((shmem_team_t)0)", "no team"),
        new("SHMEM_TEAM_WORLD", "((shmem_team_t)1)", "the world team: all PEs"),
        new("SHMEM_TEAM_SHARED", "((shmem_team_t)2)", "PEs whose memory this PE can load and store (shmem_ptr)"),
        new("SHMEM_CT_INVALID", "((shmem_ct_t)0)", "no counter (Selvedge)"),
    ] },
    Group { title: "Levels of thread support", constants: &[
        new("SHMEM_THREAD_SINGLE", "0", "the process has one thread"),
        new("SHMEM_THREAD_FUNNELED", "1", "only the main thread calls the library"),
        new("SHMEM_THREAD_SERIALIZED", "2", "threads call the library, one at a time"),
        new("SHMEM_THREAD_MULTIPLE", "3", "any thread calls the library at any time"),
    ] },
    Group { title: "Hints to shmem_malloc_with_hints; bits that may be combined", constants: &[
        new("SHMEM_MALLOC_ATOMICS_REMOTE", "(1l << 0)", "other PEs will use atomic operations on the memory"),
        new("SHMEM_MALLOC_SIGNAL_REMOTE", "(1l << 1)", "other PEs will update signals in the memory"),
    ] },
    Group { title: "Teams, contexts and sessions", constants: &[
        new("SHMEM_TEAM_NUM_CONTEXTS", "(1l << 0)", "config_mask: selects num_contexts of shmem_team_config_t"),
        new("SHMEM_CTX_PRIVATE", "(1l << 0)", "option: only the thread that made the context uses it"),
        new("SHMEM_CTX_SERIALIZED", "(1l << 1)", "option: one thread at a time uses the context"),
        new("SHMEM_CTX_NOSTORE", "(1l << 2)", "option: fence and quiet need not cover stores to memory"),
        new("SHMEM_CTX_SESSION_TOTAL_OPS", "(1l << 0)", "config_mask: selects total_ops of shmem_ctx_session_config_t"),
        new("SHMEM_CTX_SESSION_BATCH", "(1l << 0)", "option: operations may be delayed and sent in batches"),
    ] },
    Group { title: "Signal operators (sig_op)", constants: &[
        new("SHMEM_SIGNAL_SET", "0", "sets the signal"),
        new("SHMEM_SIGNAL_ADD", "1", "adds to the signal"),
    ] },
    Group { title: "Comparisons of waits and tests (cmp)", constants: &[
        old("SHMEM_CMP_EQ", "1", "equal"),
        old("SHMEM_CMP_NE", "2", "not equal"),
        old("SHMEM_CMP_GT", "3", "greater"),
        old("SHMEM_CMP_GE", "4", "greater or equal"),
        old("SHMEM_CMP_LT", "5", "less"),
        old("SHMEM_CMP_LE", "6", "less or equal"),
    ] },
    Group { title: "Work arrays of collectives over active sets (deprecated since 1.5)", constants: &[
        old("SHMEM_SYNC_VALUE", "0", "value of each element of psync before a call and on return"),
        new("SHMEM_SYNC_SIZE", "16", "elements of psync for any collective"),
        old("SHMEM_BCAST_SYNC_SIZE", "16", "elements of psync for broadcast"),
        old("SHMEM_REDUCE_SYNC_SIZE", "16", "elements of psync for reductions"),
        old("SHMEM_BARRIER_SYNC_SIZE", "16", "elements of psync for shmem_barrier and shmem_sync"),
        old("SHMEM_COLLECT_SYNC_SIZE", "16", "elements of psync for collect and fcollect"),
        new("SHMEM_ALLTOALL_SYNC_SIZE", "16", "elements of psync for alltoall"),
        new("SHMEM_ALLTOALLS_SYNC_SIZE", "16", "elements of psync for alltoalls"),
        old("SHMEM_REDUCE_MIN_WRKDATA_SIZE", "1", "fewest elements of pwrk"),
    ] },
];
