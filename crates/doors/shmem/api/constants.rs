// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The constants and handles of the interface (OpenSHMEM, "Library Constants", "Library Handles").

/// A constant of `shmem.h`.
pub struct Constant {
    pub name: &'static str,
    /// The value as a C expression.
    pub value: &'static str,
    pub summary: &'static str,
    /// Whether there is an older name that begins with `_SHMEM_`, too.
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
        old("SHMEM_MAJOR_VERSION", "1", "of the specification"),
        old("SHMEM_MINOR_VERSION", "6", "of the specification"),
        old("SHMEM_MAX_NAME_LEN", "256", "characters of SHMEM_VENDOR_STRING, its end included"),
        old("SHMEM_VENDOR_STRING", VENDOR, "name and version of the library"),
    ] },
    Group { title: "Handles", constants: &[
        new("SHMEM_CTX_INVALID", "((shmem_ctx_t)0)", "no context"),
        new("SHMEM_CTX_DEFAULT", "((shmem_ctx_t)1)", "the context of operations that name none"),
        new("SHMEM_TEAM_INVALID", "((shmem_team_t)0)", "no team"),
        new("SHMEM_TEAM_WORLD", "((shmem_team_t)1)", "all PEs"),
        new("SHMEM_TEAM_SHARED", "((shmem_team_t)2)", "the PEs whose memory this PE can read and write by itself"),
        new("SHMEM_CT_INVALID", "((shmem_ct_t)0)", "no counter (Selvedge)"),
    ] },
    Group { title: "Levels of thread support", constants: &[
        new("SHMEM_THREAD_SINGLE", "0", "one thread"),
        new("SHMEM_THREAD_FUNNELED", "1", "threads, of which only the main one calls the library"),
        new("SHMEM_THREAD_SERIALIZED", "2", "threads that never call the library at the same time"),
        new("SHMEM_THREAD_MULTIPLE", "3", "any thread calls at any time"),
    ] },
    Group { title: "Hints to shmem_malloc_with_hints; they may be combined", constants: &[
        new("SHMEM_MALLOC_ATOMICS_REMOTE", "(1l << 0)", "other PEs will do atomic operations on it"),
        new("SHMEM_MALLOC_SIGNAL_REMOTE", "(1l << 1)", "other PEs will signal in it"),
    ] },
    Group { title: "Teams, contexts and sessions", constants: &[
        new("SHMEM_TEAM_NUM_CONTEXTS", "(1l << 0)", "mask: num_contexts of a shmem_team_config_t counts"),
        new("SHMEM_CTX_PRIVATE", "(1l << 0)", "option: used only by the thread that made it"),
        new("SHMEM_CTX_SERIALIZED", "(1l << 1)", "option: used by one thread at a time"),
        new("SHMEM_CTX_NOSTORE", "(1l << 2)", "option: fence and quiet need not cover the PE's own stores"),
        new("SHMEM_CTX_SESSION_TOTAL_OPS", "(1l << 0)", "mask: total_ops of a shmem_ctx_session_config_t counts"),
        new("SHMEM_CTX_SESSION_BATCH", "(1l << 0)", "option: operations may be held back to go together"),
    ] },
    Group { title: "How signals are updated", constants: &[
        new("SHMEM_SIGNAL_SET", "0", "the signal is set"),
        new("SHMEM_SIGNAL_ADD", "1", "the signal is added to"),
    ] },
    Group { title: "Comparisons of waits and tests: object CMP value", constants: &[
        old("SHMEM_CMP_EQ", "1", "="),
        old("SHMEM_CMP_NE", "2", "not ="),
        old("SHMEM_CMP_GT", "3", ">"),
        old("SHMEM_CMP_GE", "4", ">="),
        old("SHMEM_CMP_LT", "5", "<"),
        old("SHMEM_CMP_LE", "6", "<="),
    ] },
    Group { title: "Work arrays of collectives over active sets (deprecated since 1.5)", constants: &[
        old("SHMEM_SYNC_VALUE", "0", "value of each element of psync before and after a call"),
        new("SHMEM_SYNC_SIZE", "16", "elements of psync, for any collective"),
        old("SHMEM_BCAST_SYNC_SIZE", "16", "for broadcasts"),
        old("SHMEM_REDUCE_SYNC_SIZE", "16", "for reductions"),
        old("SHMEM_BARRIER_SYNC_SIZE", "16", "for shmem_barrier and shmem_sync"),
        old("SHMEM_COLLECT_SYNC_SIZE", "16", "for collect and fcollect"),
        new("SHMEM_ALLTOALL_SYNC_SIZE", "16", "for alltoall"),
        new("SHMEM_ALLTOALLS_SYNC_SIZE", "16", "for alltoalls"),
        old("SHMEM_REDUCE_MIN_WRKDATA_SIZE", "1", "elements of pwrk"),
    ] },
];
