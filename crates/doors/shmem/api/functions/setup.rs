// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on setting up, memory, teams, contexts, order and locks: functions without types.

use super::section;
use crate::api::Section;

pub const SETUP: Section = section! { "Library setup, exit and query", Shmem:
    /// Starts OpenSHMEM in this process. Collective. Further calls are counted; each needs a shmem_finalize.
    "void shmem_init(void)" => "start::init";

    /// Returns the number of this PE in the job, from 0.
    "int shmem_my_pe(void)" => "query::my_pe";

    /// Returns the number of PEs of the job.
    "int shmem_n_pes(void)" => "query::n_pes";

    /// Undoes one start; the last one completes all communication of all PEs and frees all objects. Collective.
    "void shmem_finalize(void)" => "start::finalize";

    /// Sets *initialized to 1 between start and end, else to 0. Callable at any time.
    "void shmem_query_initialized(int *initialized)" => "start::query_initialized";

    /// Ends the whole job, whose exit status becomes status. Any one PE may call it.
    "void shmem_global_exit(int status)" => "start::global_exit", never;

    /// Returns 1 if this PE can communicate with PE pe, else 0.
    "int shmem_pe_accessible(int pe)" => "query::pe_accessible";

    /// Returns 1 if addr is symmetric and can be reached at PE pe, else 0.
    "int shmem_addr_accessible(const void *addr, int pe)" => "query::addr_accessible";

    /// Returns the address at which this PE can load and store PE pe's copy of dest; NULL if it cannot.
    "void *shmem_ptr(const void *dest, int pe)" => "query::ptr";

    /// As shmem_ptr, for PE pe of team.
    "void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe)" => "team::ptr";

    /// Returns the version of the specification that the library carries out.
    "void shmem_info_get_version(int *major, int *minor)" => "info::get_version";

    /// Copies SHMEM_VENDOR_STRING to name, which has room for SHMEM_MAX_NAME_LEN characters.
    "void shmem_info_get_name(char *name)" => "info::get_name";

    /// shmem_init; npes is ignored.
    "void start_pes(int npes)" => "start::start_pes", deprecated("1.2");

    /// shmem_my_pe.
    "int _my_pe(void)" => "query::my_pe", deprecated("1.2");

    /// shmem_n_pes.
    "int _num_pes(void)" => "query::n_pes", deprecated("1.2");
};

pub const THREADS: Section = section! { "Thread support", Shmem:
    /// As shmem_init, asking for a SHMEM_THREAD_* level; writes the granted level to *provided. Returns 0 on success.
    "int shmem_init_thread(int requested, int *provided)" => "start::init_thread";

    /// Writes the granted level of thread support to *provided.
    "void shmem_query_thread(int *provided)" => "start::query_thread";
};

pub const MEMORY: Section = section! { "Memory management", Shmem:
    /// Allocates size bytes of every PE's symmetric heap. Returns NULL if there is no room. Collective, as are the
    /// others: all PEs call with the same arguments, and a barrier comes before the return.
    "void *shmem_malloc(size_t size)" => "symmetric::malloc";

    /// Frees memory, after a barrier.
    "void shmem_free(void *ptr)" => "symmetric::free";

    /// Makes an allocation larger or smaller, and moves it if it has to. Keeps as much of its contents as fits.
    "void *shmem_realloc(void *ptr, size_t size)" => "symmetric::realloc";

    /// As shmem_malloc, at a multiple of alignment, which is a power of two and of sizeof(void *).
    "void *shmem_align(size_t alignment, size_t size)" => "symmetric::align";

    /// As shmem_malloc, with SHMEM_MALLOC_* hints on the use of the memory.
    "void *shmem_malloc_with_hints(size_t size, long hints)" => "symmetric::malloc_with_hints";

    /// As shmem_malloc, for count objects of size bytes, all zero.
    "void *shmem_calloc(size_t count, size_t size)" => "symmetric::calloc";

    /// shmem_malloc.
    "void *shmalloc(size_t size)" => "symmetric::malloc", deprecated("1.2");

    /// shmem_free.
    "void shfree(void *ptr)" => "symmetric::free", deprecated("1.2");

    /// shmem_realloc.
    "void *shrealloc(void *ptr, size_t size)" => "symmetric::realloc", deprecated("1.2");

    /// shmem_align.
    "void *shmemalign(size_t alignment, size_t size)" => "symmetric::align", deprecated("1.2");
};

pub const TEAMS: Section = section! { "Team management", Shmem:
    /// Returns the number of this PE in team, from 0; -1 if it is no member.
    "int shmem_team_my_pe(shmem_team_t team)" => "team::my_pe";

    /// Returns the number of PEs of team; -1 for SHMEM_TEAM_INVALID.
    "int shmem_team_n_pes(shmem_team_t team)" => "team::n_pes";

    /// Writes those fields of a team's configuration that config_mask names. Returns 0 on success.
    "int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config)" => "team::get_config";

    /// Returns the number in dest_team of the PE that is src_pe in src_team; -1 if it has none.
    "int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)" => "team::translate_pe";

    /// Makes a team of PEs start, start + stride, and so on of parent_team. Collective over the parent. Returns 0 on
    /// success.
    "int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size, \
     const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team)" => "team::split_strided";

    /// Lays parent_team out in rows of xrange PEs; makes a team of this PE's row and one of its column. Returns 0
    /// on success.
    "int shmem_team_split_2d(shmem_team_t parent_team, int xrange, \
     const shmem_team_config_t *xaxis_config, long xaxis_mask, shmem_team_t *xaxis_team, \
     const shmem_team_config_t *yaxis_config, long yaxis_mask, shmem_team_t *yaxis_team)" => "team::split_2d";

    /// Destroys a team and those of its contexts that are not private. Collective over the team.
    "void shmem_team_destroy(shmem_team_t team)" => "team::destroy";
};

pub const CONTEXTS: Section = section! { "Communication contexts", Shmem:
    /// Makes a context of the world team, with SHMEM_CTX_* options: a stream of operations with a quiet of its own.
    /// Returns 0 on success.
    "int shmem_ctx_create(long options, shmem_ctx_t *ctx)" => "context::create";

    /// Makes a context whose PE numbers are those of team. Returns 0 on success.
    "int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx)" => "context::create_on";

    /// Completes the operations of a context, and destroys it.
    "void shmem_ctx_destroy(shmem_ctx_t ctx)" => "context::destroy";

    /// Writes the team of a context to *team. Returns 0 on success.
    "int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)" => "context::get_team";
};

pub const SESSIONS: Section = section! { "Sessions", Shmem:
    /// Announces a series of operations on a context, with SHMEM_CTX_SESSION_* options.
    "void shmem_ctx_session_start(shmem_ctx_t ctx, long options, \
     const shmem_ctx_session_config_t *config, long config_mask)" => "context::session_start";

    /// Ends a session. Completes no operation.
    "void shmem_ctx_session_stop(shmem_ctx_t ctx)" => "context::session_stop";
};

pub const ORDER: Section = section! { "Memory ordering", Shmem:
    /// Orders the operations of a context: to each PE, earlier ones arrive before later ones.
    "void shmem_fence(void)" => "order::fence", ctx;

    /// Returns when all operations of a context are complete, at every PE.
    "void shmem_quiet(void)" => "order::quiet", ctx;

    /// As shmem_quiet, for operations towards npes PEs only.
    "void shmem_pe_quiet(const int *target_pes, size_t npes)" => "order::pe_quiet", ctx;
};

pub const LOCKS: Section = section! { "Distributed locks", Shmem:
    /// Completes this PE's operations and releases a lock that it holds. A lock is a symmetric long, at first 0.
    "void shmem_clear_lock(long *lock)" => "lock::clear";

    /// Waits for a lock and takes it. Waiting PEs get it in the order in which they came.
    "void shmem_set_lock(long *lock)" => "lock::set";

    /// Takes a lock if it is free. Returns 0 if it has taken the lock, 1 if another PE has it.
    "int shmem_test_lock(long *lock)" => "lock::test";
};

pub const PROFILING: Section = section! { "Profiling", Shmem:
    /// Does nothing by itself. A profiler may define it and read level.
    "void shmem_pcontrol(int level, ...)" => "info::pcontrol";
};

pub const CACHE: Section = section! { "Cache control", Shmem:
    /// Does nothing: caches of this machine are coherent. The specification has dropped it in 1.5, and the next five.
    "void shmem_set_cache_inv(void)" => "info::nothing()", deprecated("1.3");

    /// Does nothing.
    "void shmem_set_cache_line_inv(void *dest)" => "info::nothing()", deprecated("1.3");

    /// Does nothing.
    "void shmem_clear_cache_inv(void)" => "info::nothing()", deprecated("1.3");

    /// Does nothing.
    "void shmem_clear_cache_line_inv(void *dest)" => "info::nothing()", deprecated("1.3");

    /// Does nothing.
    "void shmem_udcflush(void)" => "info::nothing()", deprecated("1.3");

    /// Does nothing.
    "void shmem_udcflush_line(void *dest)" => "info::nothing()", deprecated("1.3");
};
