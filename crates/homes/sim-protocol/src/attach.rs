// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds a process's end of the protocol, if the process is a simulated rank.
//!
//! A forked child is detached: it no longer uses the page, but its fork is counted.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use crate::page::{MAGIC, VARIABLE, VERSION};
use crate::rank::RankEnd;

static END: AtomicPtr<RankEnd> = AtomicPtr::new(ptr::null_mut());
/// 0: not searched yet; 1: a thread is searching; 2: there is an end; 3: there is no end.
static STATE: AtomicU32 = AtomicU32::new(0);
static DETACHED: AtomicBool = AtomicBool::new(false);

const ATTACHED: u32 = 2;
const ALONE: u32 = 3;

/// Runs in a forked child.
extern "C" fn detach() {
    if !DETACHED.swap(true, SeqCst) {
        if let Some(end) = attached() {
            end.page().turn_line.forks.fetch_add(1, Relaxed);
        }
    }
}

fn attached() -> Option<&'static RankEnd> {
    // SAFETY: the pointer is null or comes from the box that `attach` leaks, so it is valid for ever.
    unsafe { END.load(Acquire).as_ref() }
}

impl RankEnd {
    /// Returns this process's end, if it is a simulated rank.
    #[inline]
    pub fn of_process() -> Option<&'static RankEnd> {
        match STATE.load(Acquire) {
            0 => RankEnd::attach(ptr::null()),
            _ => RankEnd::if_attached(),
        }
    }

    /// Returns this process's end, if it has already been found. For functions that the search itself may call.
    #[inline]
    pub fn if_attached() -> Option<&'static RankEnd> {
        match STATE.load(Acquire) {
            ATTACHED if !DETACHED.load(Relaxed) => attached(),
            _ => None,
        }
    }

    /// Finds this process's end before the C library has set up `environ`.
    ///
    /// # Safety
    /// `environment` is null, or an array of C strings that ends with a null pointer.
    pub unsafe fn find_first(environment: *const *const c_char) {
        RankEnd::attach(environment);
    }

    #[cold]
    fn attach(environment: *const *const c_char) -> Option<&'static RankEnd> {
        if STATE.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
            return None;
        }
        let end = RankEnd::find(environment);
        let known = end.is_some();
        if let Some(end) = end {
            END.store(Box::into_raw(Box::new(end)), SeqCst);
            // SAFETY: `detach` takes no arguments and is safe to run in a forked child: it uses atomics only.
            unsafe { libc::pthread_atfork(None, None, Some(detach)) };
        }
        STATE.store(if known { ATTACHED } else { ALONE }, SeqCst);
        attached()
    }

    fn find(environment: *const *const c_char) -> Option<RankEnd> {
        // SAFETY: `environment` comes from `find_first`, which requires a valid array, or is the C library's `environ`.
        let path = unsafe { page_path_in(if environment.is_null() { environ } else { environment })? };
        let complain = |what: &str| {
            let text = format!("selvedge: {VARIABLE}={}: {what}; it uses real clocks\n", path.to_string_lossy());
            // SAFETY: `write` reads `text.len()` bytes of `text`, which lives across the call.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        };
        let end = match RankEnd::open(&path) {
            Ok(end) => end,
            Err(error) => {
                complain(&std::io::Error::from_raw_os_error(error).to_string());
                return None;
            }
        };
        let page = end.page();
        if page.magic.load(Relaxed) != MAGIC || page.version.load(Relaxed) != VERSION {
            complain("the simulator is another version of Selvedge; install the same version for both");
            return None;
        }
        // SAFETY: `getpid` takes no arguments and cannot fail.
        let own = unsafe { libc::getpid() } as u32;
        match page.owner_pid.compare_exchange(0, own, SeqCst, SeqCst) {
            Ok(_) => Some(end),
            Err(owner) if owner == own => Some(end),
            // This process is a child of the rank that has executed another program.
            Err(_) => {
                page.turn_line.forks.fetch_add(1, Relaxed);
                None
            }
        }
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The value of [`VARIABLE`] in an environment.
///
/// # Safety
/// `environment` is null, or an array of C strings that ends with a null pointer.
unsafe fn page_path_in(mut environment: *const *const c_char) -> Option<CString> {
    if environment.is_null() {
        return None;
    }
    loop {
        // SAFETY: the loop has not passed the null pointer that ends the array.
        let text = unsafe { environment.read() };
        if text.is_null() {
            return None;
        }
        // SAFETY: an entry that is not null is a C string, and the array has at least one more entry after it.
        let (text, next) = unsafe { (CStr::from_ptr(text), environment.add(1)) };
        if let Some(value) = text.to_bytes().strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        {
            return CString::new(value).ok();
        }
        environment = next;
    }
}
