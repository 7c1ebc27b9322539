// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_sim_mpi.so`: tells the simulator while a simulated rank is in a call of MPI that waits.
//!
//! An MPI waits by polling its NIC. After a poll that found nothing the simulator cannot know whether the program tests
//! once and does something else next, so it gives the rank another turn soon. In a call that returns only when a message
//! has come, the rank needs no turn before its NIC changes: [`RankEnd::enter_call`].
//!
//! `selvedge sim` loads this library before the MPI (`LD_PRELOAD`). Each function marks its thread, and calls the MPI's.
//! Calls that go past these functions, such as some of Fortran's, are correct and take more turns.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

use selvedge_os::library;
use selvedge_sim_protocol::RankEnd;

/// Libraries of MPIs, for modules that load one for themselves alone.
const FILES: [&CStr; 3] = [c"libmpi.so.40", c"libmpi.so.12", c"libmpich.so.12"];

/// Returned if there is no MPI in the process. Any code but success will do.
const ERR_OTHER: c_int = 16;

/// The MPI's function of a name, looked up once.
struct Next(AtomicPtr<c_void>);

impl Next {
    const fn new() -> Next {
        Next(AtomicPtr::new(ptr::null_mut()))
    }

    fn function(&self, name: &CStr) -> Option<*mut c_void> {
        let known = self.0.load(Relaxed);
        if !known.is_null() {
            return Some(known);
        }
        let found = library::next(name, FILES.into_iter())?;
        self.0.store(found, Relaxed);
        Some(found)
    }
}

/// The mark of a thread that is in a call; dropping it removes the mark.
struct InCall(Option<&'static RankEnd>);

impl InCall {
    fn enter() -> InCall {
        InCall(RankEnd::of_process().filter(|end| end.enter_call()))
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        if let Some(end) = self.0 {
            end.leave_call();
        }
    }
}

/// Exports functions of MPI. Every argument is an integer or an address, and is passed on as the register holds it.
macro_rules! waiting {
    ($($name:ident($($argument:ident),*);)*) => {$(
        /// # Safety
        /// The arguments are those of the standard's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: usize),*) -> c_int {
            static NEXT: Next = Next::new();
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("the name has no NUL"),
            };
            let Some(function) = NEXT.function(NAME) else { return ERR_OTHER };
            let _call = InCall::enter();
            // SAFETY: the MPI's function of this name has this number of arguments, which the program gave.
            unsafe {
                let function: unsafe extern "C" fn($(waiting!(@word $argument)),*) -> c_int = std::mem::transmute(function);
                function($($argument),*)
            }
        }
    )*};
    (@word $argument:ident) => { usize };
}

/// The standard's switch for profilers. Level 1 begins the region `main` for the simulator, level 0 ends it; the call goes
/// on to a profiler or the MPI. Further arguments, which the standard leaves open, are passed on as far as registers hold
/// them.
///
/// # Safety
/// The arguments are those of the standard's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pcontrol(level: c_int, a: usize, b: usize, c: usize, d: usize, e: usize) -> c_int {
    static NEXT: Next = Next::new();
    static IS_INSIDE: AtomicBool = AtomicBool::new(false);
    if let (0..=1, Some(end)) = (level, RankEnd::of_process()) {
        let begins = level == 1;
        if IS_INSIDE.swap(begins, Relaxed) != begins {
            end.region(b"main", begins);
        }
    }
    let Some(function) = NEXT.function(c"MPI_Pcontrol") else { return 0 };
    // SAFETY: the MPI's function takes the level, and reads no argument that the program has not given.
    unsafe {
        let function: unsafe extern "C" fn(c_int, usize, usize, usize, usize, usize) -> c_int =
            std::mem::transmute(function);
        function(level, a, b, c, d, e)
    }
}

// Communication between two processes, and completion of requests.
waiting! {
    MPI_Send(a, b, c, d, e, f);
    MPI_Ssend(a, b, c, d, e, f);
    MPI_Rsend(a, b, c, d, e, f);
    MPI_Recv(a, b, c, d, e, f, g);
    MPI_Mrecv(a, b, c, d, e);
    MPI_Sendrecv(a, b, c, d, e, f, g, h, i, j, k, l);
    MPI_Sendrecv_replace(a, b, c, d, e, f, g, h, i);
    MPI_Probe(a, b, c, d);
    MPI_Mprobe(a, b, c, d, e);
    MPI_Wait(a, b);
    MPI_Waitall(a, b, c);
    MPI_Waitany(a, b, c, d);
    MPI_Waitsome(a, b, c, d, e);
}

// Collective operations.
waiting! {
    MPI_Barrier(a);
    MPI_Bcast(a, b, c, d, e);
    MPI_Gather(a, b, c, d, e, f, g, h);
    MPI_Gatherv(a, b, c, d, e, f, g, h, i);
    MPI_Scatter(a, b, c, d, e, f, g, h);
    MPI_Scatterv(a, b, c, d, e, f, g, h, i);
    MPI_Allgather(a, b, c, d, e, f, g);
    MPI_Allgatherv(a, b, c, d, e, f, g, h);
    MPI_Alltoall(a, b, c, d, e, f, g);
    MPI_Alltoallv(a, b, c, d, e, f, g, h, i);
    MPI_Alltoallw(a, b, c, d, e, f, g, h, i);
    MPI_Reduce(a, b, c, d, e, f, g);
    MPI_Allreduce(a, b, c, d, e, f);
    MPI_Reduce_scatter(a, b, c, d, e, f);
    MPI_Reduce_scatter_block(a, b, c, d, e, f);
    MPI_Scan(a, b, c, d, e, f);
    MPI_Exscan(a, b, c, d, e, f);
}

// Communicators, and the start and the end of a job.
waiting! {
    MPI_Comm_dup(a, b);
    MPI_Comm_create(a, b, c);
    MPI_Comm_split(a, b, c, d);
    MPI_Comm_split_type(a, b, c, d, e);
    MPI_Init(a, b);
    MPI_Init_thread(a, b, c, d);
    MPI_Finalize();
}
