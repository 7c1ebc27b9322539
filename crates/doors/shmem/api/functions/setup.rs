// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table's sections on set-up, memory, teams, contexts, ordering and locks: functions without element types.

use super::section;
use crate::api::Section;

pub const SETUP: Section = section! { "Library setup, exit and query", Shmem:
    /// Starts the library, or counts one more start. Collective over all PEs. The call that starts it returns after a
    /// barrier; if it fails, the program ends with an error message. Each call needs a shmem_finalize. OpenSHMEM 1.5,
    /// 9.1.1.
    "void shmem_init(void)" => "start::init";

    /// Returns the number of this PE in the job, counted from 0; -1 if the library is not running. OpenSHMEM 1.5,
    /// 9.1.2.
    "int shmem_my_pe(void)" => "query::my_pe";

    /// Returns the number of PEs in the job; -1 if the library is not running. OpenSHMEM 1.5, 9.1.3.
    "int shmem_n_pes(void)" => "query::n_pes";

    /// Undoes one start, after a barrier that completes all operations. Collective over all PEs. The call that undoes
    /// the last start ends the library: symmetric objects, teams and contexts must not be used after it. OpenSHMEM 1.5,
    /// 9.1.4.
    "void shmem_finalize(void)" => "start::finalize";

    /// Writes 1 to *initialized if the library is running, else 0. Callable at any time. New in OpenSHMEM 1.6.
    "void shmem_query_initialized(int *initialized)" => "start::query_initialized";

    /// Ends all PEs of the job, with this exit status. Any one PE may call it. Does not return. OpenSHMEM 1.5, 9.1.5.
    "void shmem_global_exit(int status)" => "start::global_exit", never;

    /// Returns 1 if pe is a PE of the job, else 0. This PE can communicate with every PE of the job. OpenSHMEM 1.5,
    /// 9.1.6.
    "int shmem_pe_accessible(int pe)" => "query::pe_accessible";

    /// Returns 1 if addr is in symmetric memory and pe is a PE of the job, else 0. OpenSHMEM 1.5, 9.1.7.
    "int shmem_addr_accessible(const void *addr, int pe)" => "query::addr_accessible";

    /// Returns the address at which this PE can load and store dest of PE pe; NULL if that memory is not mapped here.
    /// OpenSHMEM 1.5, 9.1.8.
    "void *shmem_ptr(const void *dest, int pe)" => "query::ptr";

    /// Same as shmem_ptr, for PE pe of team. Returns NULL for SHMEM_TEAM_INVALID. New in OpenSHMEM 1.6.
    "void *shmem_team_ptr(shmem_team_t team, const void *dest, int pe)" => "team::ptr";

    /// Writes SHMEM_MAJOR_VERSION to *major and SHMEM_MINOR_VERSION to *minor. OpenSHMEM 1.5, 9.1.9.
    "void shmem_info_get_version(int *major, int *minor)" => "info::get_version";

    /// Copies SHMEM_VENDOR_STRING to name, which has room for SHMEM_MAX_NAME_LEN bytes. OpenSHMEM 1.5, 9.1.10.
    "void shmem_info_get_name(char *name)" => "info::get_name";

    /// Starts the library as shmem_init does, but without a shmem_finalize: the library ends with the program. Does
    /// nothing if the library is running. npes is ignored. OpenSHMEM 1.5, 9.1.11.
    "void start_pes(int npes)" => "start::start_pes", deprecated("1.2");

    /// Same as shmem_my_pe.
    "int _my_pe(void)" => "query::my_pe", deprecated("1.2");

    /// Same as shmem_n_pes.
    "int _num_pes(void)" => "query::n_pes", deprecated("1.2");
};

pub const THREADS: Section = section! { "Thread support", Shmem:
    /// Same as shmem_init, with a thread level (SHMEM_THREAD_*). Writes the granted level to *provided: the requested
    /// one, or that of the first start if the library is running. Returns 0 on success, nonzero if requested is not a
    /// level or the start fails. OpenSHMEM 1.5, 9.2.1.
    "int shmem_init_thread(int requested, int *provided)" => "start::init_thread";

    /// Writes the granted thread level (SHMEM_THREAD_*) to *provided. OpenSHMEM 1.5, 9.2.2.
    "void shmem_query_thread(int *provided)" => "start::query_thread";
};

pub const MEMORY: Section = section! { "Memory management", Shmem:
    /// Allocates size bytes in the symmetric heap of every PE and returns the address at this PE. Returns NULL at all
    /// PEs if size is 0 or a PE has no room. Collective over all PEs, with the same size; returns after a barrier
    /// unless size is 0. OpenSHMEM 1.5, 9.3.1.
    "void *shmem_malloc(size_t size)" => "symmetric::malloc";

    /// Frees memory of the symmetric heap, after a barrier. Collective over all PEs, with the same ptr. Does nothing if
    /// ptr is NULL. OpenSHMEM 1.5, 9.3.1.
    "void shmem_free(void *ptr)" => "symmetric::free";

    /// Changes the size of an allocation to size bytes, after a barrier. Returns its address, which may have changed.
    /// Keeps the contents up to the smaller size. Returns NULL and keeps the allocation as it was if a PE has no room.
    /// Same as shmem_malloc if ptr is NULL, as shmem_free if size is 0. Collective over all PEs, with the same
    /// arguments. OpenSHMEM 1.5, 9.3.1.
    "void *shmem_realloc(void *ptr, size_t size)" => "symmetric::realloc";

    /// Same as shmem_malloc, at a multiple of alignment bytes. Returns NULL also if alignment is not a power of two or
    /// is above 2^30. The specification also asks for a multiple of sizeof(void *). OpenSHMEM 1.5, 9.3.1.
    "void *shmem_align(size_t alignment, size_t size)" => "symmetric::align";

    /// Same as shmem_malloc. hints is a combination of SHMEM_MALLOC_* bits; they have no effect. OpenSHMEM 1.5, 9.3.2.
    "void *shmem_malloc_with_hints(size_t size, long hints)" => "symmetric::malloc_with_hints";

    /// Same as shmem_malloc, for count objects of size bytes each, with all bytes 0. OpenSHMEM 1.5, 9.3.3.
    "void *shmem_calloc(size_t count, size_t size)" => "symmetric::calloc";

    /// Same as shmem_malloc.
    "void *shmalloc(size_t size)" => "symmetric::malloc", deprecated("1.2");

    /// Same as shmem_free.
    "void shfree(void *ptr)" => "symmetric::free", deprecated("1.2");

    /// Same as shmem_realloc.
    "void *shrealloc(void *ptr, size_t size)" => "symmetric::realloc", deprecated("1.2");

    /// Same as shmem_align.
    "void *shmemalign(size_t alignment, size_t size)" => "symmetric::align", deprecated("1.2");
};

pub const TEAMS: Section = section! { "Team management", Shmem:
    /// Returns the number of this PE in team, counted from 0; -1 for SHMEM_TEAM_INVALID and invalid handles. OpenSHMEM
    /// 1.5, 9.4.1.
    "int shmem_team_my_pe(shmem_team_t team)" => "team::my_pe";

    /// Returns the number of PEs in team; -1 for SHMEM_TEAM_INVALID and invalid handles. OpenSHMEM 1.5, 9.4.2.
    "int shmem_team_n_pes(shmem_team_t team)" => "team::n_pes";

    /// Writes the fields of the configuration of team that config_mask selects to *config. Returns 0 on success,
    /// nonzero for SHMEM_TEAM_INVALID and invalid arguments. OpenSHMEM 1.5, 9.4.4.
    "int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config)" => "team::get_config";

    /// Returns the number in dest_team of PE src_pe of src_team; -1 if that PE is not in dest_team or an argument is
    /// invalid. OpenSHMEM 1.5, 9.4.5.
    "int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team)" => "team::translate_pe";

    /// Makes a team of size PEs of parent_team: start, start + stride, and so on. Writes its handle to *new_team, and
    /// SHMEM_TEAM_INVALID at PEs that are not members. Collective over parent_team, with the same arguments. Returns 0
    /// on success; nonzero, with SHMEM_TEAM_INVALID, if an argument is invalid or the PEs have no free team in common
    /// (each has 64, the predefined ones included). OpenSHMEM 1.5, 9.4.6.
    "int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size, \
     const shmem_team_config_t *config, long config_mask, shmem_team_t *new_team)" => "team::split_strided";

    /// Arranges parent_team in rows of xrange PEs. Makes a team of the PEs in the row of this PE (*xaxis_team) and one
    /// of the PEs in its column (*yaxis_team). Collective over parent_team. Returns 0 on success; nonzero, with
    /// SHMEM_TEAM_INVALID for both, in the same cases as shmem_team_split_strided. OpenSHMEM 1.5, 9.4.7.
    "int shmem_team_split_2d(shmem_team_t parent_team, int xrange, \
     const shmem_team_config_t *xaxis_config, long xaxis_mask, shmem_team_t *xaxis_team, \
     const shmem_team_config_t *yaxis_config, long yaxis_mask, shmem_team_t *yaxis_team)" => "team::split_2d";

    /// Destroys a team and the contexts made of it. Collective over the team. Does nothing for SHMEM_TEAM_INVALID.
    /// Predefined teams cannot be destroyed. OpenSHMEM 1.5, 9.4.8.
    "void shmem_team_destroy(shmem_team_t team)" => "team::destroy";
};

pub const CONTEXTS: Section = section! { "Communication contexts", Shmem:
    /// Makes a context of the world team and writes its handle to *ctx. A quiet on a context waits for the operations
    /// of that context. options is a combination of SHMEM_CTX_* bits; they have no effect. Returns 0 on success;
    /// nonzero, with SHMEM_CTX_INVALID, if an option is unknown or no context is free (at most 1024 exist at once).
    /// OpenSHMEM 1.5, 9.5.1.
    "int shmem_ctx_create(long options, shmem_ctx_t *ctx)" => "context::create";

    /// Same as shmem_ctx_create, for a context with the PE numbers of team. Returns nonzero also if team is
    /// SHMEM_TEAM_INVALID. OpenSHMEM 1.5, 9.5.2.
    "int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx)" => "context::create_on";

    /// Completes the operations of a context and destroys it. Does nothing for SHMEM_CTX_INVALID. SHMEM_CTX_DEFAULT
    /// cannot be destroyed. OpenSHMEM 1.5, 9.5.3.
    "void shmem_ctx_destroy(shmem_ctx_t ctx)" => "context::destroy";

    /// Writes the team of a context to *team. Returns 0 on success; nonzero, with SHMEM_TEAM_INVALID, for
    /// SHMEM_CTX_INVALID and invalid handles. OpenSHMEM 1.5, 9.5.4.
    "int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team)" => "context::get_team";
};

pub const SESSIONS: Section = section! { "Sessions", Shmem:
    /// Starts a session: tells the library that a series of operations on the context follows. options is a combination
    /// of SHMEM_CTX_SESSION_* bits. The arguments are checked and have no effect. New in OpenSHMEM 1.6.
    "void shmem_ctx_session_start(shmem_ctx_t ctx, long options, \
     const shmem_ctx_session_config_t *config, long config_mask)" => "context::session_start";

    /// Ends a session on the context. Does not complete its operations. New in OpenSHMEM 1.6.
    "void shmem_ctx_session_stop(shmem_ctx_t ctx)" => "context::session_stop";
};

pub const ORDER: Section = section! { "Memory ordering", Shmem:
    /// Orders the operations of a context: at each PE, those started before the fence arrive before those started after
    /// it. Does not wait for them. OpenSHMEM 1.5, 9.11.1.
    "void shmem_fence(void)" => "order::fence", ctx;

    /// Returns when all operations of a context are complete and visible at all PEs. OpenSHMEM 1.5, 9.11.2.
    "void shmem_quiet(void)" => "order::quiet", ctx;

    /// Same as shmem_quiet, for operations towards the npes PEs of target_pes. Here it waits for all operations of the
    /// context. New in OpenSHMEM 1.6.
    "void shmem_pe_quiet(const int *target_pes, size_t npes)" => "order::pe_quiet", ctx;
};

pub const LOCKS: Section = section! { "Distributed locks", Shmem:
    /// Releases a lock that this PE holds, after a quiet of the default context. A lock is a symmetric long with the
    /// initial value 0. OpenSHMEM 1.5, 9.12.1.
    "void shmem_clear_lock(long *lock)" => "lock::clear";

    /// Waits until a lock is free and takes it. Waiting PEs get it in the order of their calls. A PE must not take a
    /// lock that it holds. OpenSHMEM 1.5, 9.12.1.
    "void shmem_set_lock(long *lock)" => "lock::set";

    /// Takes a lock if it is free, without waiting. Returns 0 if this PE has taken the lock, else 1. OpenSHMEM 1.5,
    /// 9.12.1.
    "int shmem_test_lock(long *lock)" => "lock::test";
};

pub const PROFILING: Section = section! { "Profiling", Shmem:
    /// Level 1 begins the region main, level 0 ends it (shmemx_region_begin). Other levels do nothing. A profiling
    /// library may define it and use level. OpenSHMEM 1.5, 10.1.1.
    "void shmem_pcontrol(int level, ...)" => "info::pcontrol";
};

pub const CACHE: Section = section! { "Cache control", Shmem:
    /// Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5.
    "void shmem_set_cache_inv(void)" => "info::nothing()", deprecated("1.3");

    /// Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5.
    "void shmem_set_cache_line_inv(void *dest)" => "info::nothing()", deprecated("1.3");

    /// Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5.
    "void shmem_clear_cache_inv(void)" => "info::nothing()", deprecated("1.3");

    /// Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5.
    "void shmem_clear_cache_line_inv(void *dest)" => "info::nothing()", deprecated("1.3");

    /// Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5.
    "void shmem_udcflush(void)" => "info::nothing()", deprecated("1.3");

    /// Does nothing: the caches of the machine are coherent. Removed in OpenSHMEM 1.5.
    "void shmem_udcflush_line(void *dest)" => "info::nothing()", deprecated("1.3");
};
