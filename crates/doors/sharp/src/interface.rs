// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structures and numbers of `include/sharp/api/sharp_coll.h`, for x86-64 and other machines with its layout.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Error numbers that functions return; success is 0.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    General = -1,
    NotSupported = -2,
    NoMemory = -3,
    GroupJoin = -6,
    Invalid = -10,
}

pub const SUCCESS: c_int = 0;

/// The meaning of each number.
pub fn text(code: c_int) -> &'static std::ffi::CStr {
    match code {
        0 => c"Success",
        -2 => c"Not supported",
        -3 => c"Out of memory",
        -4 => c"No room for the group",
        -5 => c"Cannot connect to the tree",
        -6 => c"Cannot join the group",
        -7 => c"The job's quota is used up",
        -8 => c"Cannot begin a session",
        -9 => c"No such device",
        -10 => c"Invalid argument",
        -11 => c"Cannot make the job",
        -12 => c"No information on the tree",
        -13 => c"No tree for the job's processes",
        -14 => c"No identifier for the group",
        -15 => c"The caller's own collective operations failed",
        -16 => c"No multicast group",
        -17 => c"Cannot trim the group",
        -18 => c"The streaming tree is locked by another group",
        -19 => c"A lock of the streaming tree was denied",
        -20 => c"No resource",
        -1 => c"The operation failed",
        _ => c"Unknown error",
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    pub ib_dev_list: *const c_char,
    pub user_progress_num_polls: c_int,
    pub coll_timeout: c_int,
    pub flags: u32,
    pub reserved: [c_int; 3],
}

/// In `Config::flags`: errors are not printed.
pub const HIDE_ERRORS: u32 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct OutOfBand {
    pub bcast: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, c_int) -> c_int>,
    pub barrier: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub gather: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, *mut c_void, c_int) -> c_int>,
}

#[repr(C)]
pub struct InitSpec {
    pub job_id: u64,
    pub world_rank: c_int,
    pub world_size: c_int,
    pub progress_func: Option<unsafe extern "C" fn() -> c_int>,
    pub group_channel_idx: c_int,
    pub config: Config,
    pub oob_colls: OutOfBand,
    pub world_local_rank: c_int,
    pub enable_thread_support: c_int,
    pub oob_ctx: *mut c_void,
    pub reserved: [c_int; 4],
}

#[repr(C)]
pub struct CommInitSpec {
    pub rank: c_int,
    pub size: c_int,
    pub oob_ctx: *mut c_void,
    pub group_world_ranks: *const u32,
    pub reserved: [c_int; 2],
}

#[repr(C)]
pub struct Caps {
    pub sharp_pkt_version: c_int,
    pub reserved: [u64; 2],
    pub support_mask: SupportMask,
    pub resources: Resources,
}

#[repr(C)]
pub struct SupportMask {
    pub dtypes: u64,
    pub tag_dtypes: u64,
    pub reduce_ops: u64,
    pub feature_mask: u64,
    pub reserved: [u64; 4],
}

#[repr(C)]
pub struct Resources {
    pub max_osts: c_int,
    pub user_data_per_ost: c_int,
    pub max_groups: c_int,
    pub max_group_channels: c_int,
    pub osts_per_group: c_int,
}

/// Features: low-latency trees, reproducible results, streaming.
pub const FEATURES: u64 = 1 | 2 | 4;

/// The supported kinds of buffers and of memory.
pub const DATA_BUFFER: c_uint = 0;
pub const MEM_TYPE_HOST: c_uint = 0;
/// Device memory, which is not supported.
pub const MEM_TYPE_CUDA: c_uint = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataDesc {
    pub kind: c_uint,
    pub mem_type: c_uint,
    pub reserved: [c_int; 2],
    pub ptr: *mut u8,
    pub length: usize,
    pub mem_handle: *mut c_void,
}

#[repr(C)]
pub struct ReduceSpec {
    pub root: c_int,
    pub sbuf_desc: DataDesc,
    pub rbuf_desc: DataDesc,
    pub dtype: c_uint,
    /// Number of elements.
    pub length: usize,
    pub op: c_uint,
    pub tag_dtype: c_uint,
    pub aggr_mode: c_uint,
    pub stream_lock_batch_size: c_int,
    pub offset: usize,
    pub reserved: [c_int; 2],
}

#[repr(C)]
pub struct BcastSpec {
    pub root: c_int,
    pub buf_desc: DataDesc,
    pub size: usize,
    pub reserved: [c_int; 4],
}

#[repr(C)]
pub struct GatherSpec {
    pub sbuf_desc: DataDesc,
    pub rbuf_desc: DataDesc,
    pub dtype: c_uint,
    pub size: usize,
    pub offset: usize,
    pub reserved: [c_int; 4],
}

const _: () = {
    assert!(size_of::<Config>() == 32);
    assert!(size_of::<OutOfBand>() == 24);
    assert!(size_of::<CommInitSpec>() == 32);
    assert!(size_of::<InitSpec>() == 120);
    assert!(size_of::<DataDesc>() == 40);
    assert!(size_of::<ReduceSpec>() == 136);
    assert!(size_of::<BcastSpec>() == 72);
    assert!(std::mem::offset_of!(ReduceSpec, dtype) == 88);
    assert!(std::mem::offset_of!(ReduceSpec, offset) == 120);
    assert!(std::mem::offset_of!(GatherSpec, dtype) == 80);
};
