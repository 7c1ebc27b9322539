// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of the OTF2 library, which is loaded when an archive is written.
//!
//! The signatures are those of OTF2 3.0 (`otf2/OTF2_Archive.h`, `OTF2_EvtWriter.h`, `OTF2_GlobalDefWriter.h`,
//! `OTF2_Reader.h`). Its library interface has number 10, in 3.0 and 3.1 alike. OTF2 2 has other numbers, and other
//! signatures for four of these functions, so only libraries of number 10 are loaded.
//!
//! Invariant: a handle of the loader is never closed, so the functions stay valid.

use std::ffi::{CStr, c_char, c_int, c_void};

use selvedge_os::library::symbol;

/// The library's files: Debian's name, then that of everyone else.
const FILES: [&CStr; 2] = [c"libopen-trace-format2.so.10", c"libotf2.so.10"];

/// Reason why OTF2 cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error(
        "the OTF2 library, version 3, cannot be loaded ({0}); install it: libopen-trace-format2-10 in Debian and Ubuntu, \
         otf2 in Fedora"
    )]
    Missing(String),
    #[error("the OTF2 library lacks {0}; install OTF2 3.0 or newer")]
    Lacks(&'static str),
}

/// A result of the library: 0 is success.
pub type ErrorCode = c_int;

macro_rules! objects {
    ($($name:ident)*) => { $(
        /// An object of the library, known by its address.
        #[repr(C)]
        pub struct $name { _opaque: [u8; 0] }
    )* };
}
objects! { ArchiveObject EventWriter DefinitionWriter GlobalWriter AttributeList Reader }

/// `OTF2_FlushCallbacks`
#[repr(C)]
pub struct FlushCallbacks {
    pub pre: extern "C" fn(*mut c_void, u8, u64, *mut c_void, bool) -> u8,
    /// `None`: no event tells of a flush.
    pub post: Option<extern "C" fn(*mut c_void, u8, u64) -> u64>,
}

macro_rules! functions {
    ($($field:ident: $name:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of a loaded library.
        pub struct Library {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Library {
            fn of(handle: *mut c_void) -> Result<Library, LoadError> {
                Ok(Library {
                    $($field: {
                        // SAFETY: the handle is the loader's and never closed, and the function has this type in
                        // every library of interface 10.
                        let found: Option<unsafe extern "C" fn($($argument),*) -> $result> = unsafe {
                            symbol(handle, const { match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                                Ok(name) => name,
                                Err(_) => panic!("a name has no zero"),
                            } })
                        };
                        found.ok_or(LoadError::Lacks($name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    open: "OTF2_Archive_Open" (*const c_char, *const c_char, u8, u64, u64, u8, u8) -> *mut ArchiveObject;
    close: "OTF2_Archive_Close" (*mut ArchiveObject) -> ErrorCode;
    set_flush: "OTF2_Archive_SetFlushCallbacks" (*mut ArchiveObject, *const FlushCallbacks, *mut c_void) -> ErrorCode;
    set_serial: "OTF2_Archive_SetSerialCollectiveCallbacks" (*mut ArchiveObject) -> ErrorCode;
    set_creator: "OTF2_Archive_SetCreator" (*mut ArchiveObject, *const c_char) -> ErrorCode;
    set_machine: "OTF2_Archive_SetMachineName" (*mut ArchiveObject, *const c_char) -> ErrorCode;
    set_description: "OTF2_Archive_SetDescription" (*mut ArchiveObject, *const c_char) -> ErrorCode;
    open_events: "OTF2_Archive_OpenEvtFiles" (*mut ArchiveObject) -> ErrorCode;
    close_events: "OTF2_Archive_CloseEvtFiles" (*mut ArchiveObject) -> ErrorCode;
    open_definitions: "OTF2_Archive_OpenDefFiles" (*mut ArchiveObject) -> ErrorCode;
    close_definitions: "OTF2_Archive_CloseDefFiles" (*mut ArchiveObject) -> ErrorCode;
    event_writer: "OTF2_Archive_GetEvtWriter" (*mut ArchiveObject, u64) -> *mut EventWriter;
    close_event_writer: "OTF2_Archive_CloseEvtWriter" (*mut ArchiveObject, *mut EventWriter) -> ErrorCode;
    definition_writer: "OTF2_Archive_GetDefWriter" (*mut ArchiveObject, u64) -> *mut DefinitionWriter;
    close_definition_writer: "OTF2_Archive_CloseDefWriter" (*mut ArchiveObject, *mut DefinitionWriter) -> ErrorCode;
    global_writer: "OTF2_Archive_GetGlobalDefWriter" (*mut ArchiveObject) -> *mut GlobalWriter;
    close_global_writer: "OTF2_Archive_CloseGlobalDefWriter" (*mut ArchiveObject, *mut GlobalWriter) -> ErrorCode;

    define_clock: "OTF2_GlobalDefWriter_WriteClockProperties" (*mut GlobalWriter, u64, u64, u64, u64) -> ErrorCode;
    define_paradigm: "OTF2_GlobalDefWriter_WriteParadigm" (*mut GlobalWriter, u8, u32, u8) -> ErrorCode;
    define_string: "OTF2_GlobalDefWriter_WriteString" (*mut GlobalWriter, u32, *const c_char) -> ErrorCode;
    define_attribute: "OTF2_GlobalDefWriter_WriteAttribute" (*mut GlobalWriter, u32, u32, u32, u8) -> ErrorCode;
    define_tree_node: "OTF2_GlobalDefWriter_WriteSystemTreeNode" (*mut GlobalWriter, u32, u32, u32, u32) -> ErrorCode;
    define_location_group: "OTF2_GlobalDefWriter_WriteLocationGroup"
        (*mut GlobalWriter, u32, u32, u8, u32, u32) -> ErrorCode;
    define_location: "OTF2_GlobalDefWriter_WriteLocation" (*mut GlobalWriter, u64, u32, u8, u64, u32) -> ErrorCode;
    define_region: "OTF2_GlobalDefWriter_WriteRegion"
        (*mut GlobalWriter, u32, u32, u32, u32, u8, u8, u32, u32, u32, u32) -> ErrorCode;
    define_group: "OTF2_GlobalDefWriter_WriteGroup"
        (*mut GlobalWriter, u32, u32, u8, u8, u32, u32, *const u64) -> ErrorCode;
    define_communicator: "OTF2_GlobalDefWriter_WriteComm" (*mut GlobalWriter, u32, u32, u32, u32, u32) -> ErrorCode;
    define_window: "OTF2_GlobalDefWriter_WriteRmaWin" (*mut GlobalWriter, u32, u32, u32, u32) -> ErrorCode;

    new_attributes: "OTF2_AttributeList_New" () -> *mut AttributeList;
    delete_attributes: "OTF2_AttributeList_Delete" (*mut AttributeList) -> ErrorCode;
    add_attribute: "OTF2_AttributeList_AddUint64" (*mut AttributeList, u32, u64) -> ErrorCode;

    enter: "OTF2_EvtWriter_Enter" (*mut EventWriter, *mut AttributeList, u64, u32) -> ErrorCode;
    leave: "OTF2_EvtWriter_Leave" (*mut EventWriter, *mut AttributeList, u64, u32) -> ErrorCode;
    put: "OTF2_EvtWriter_RmaPut" (*mut EventWriter, *mut AttributeList, u64, u32, u32, u64, u64) -> ErrorCode;
    get: "OTF2_EvtWriter_RmaGet" (*mut EventWriter, *mut AttributeList, u64, u32, u32, u64, u64) -> ErrorCode;
    atomic: "OTF2_EvtWriter_RmaAtomic"
        (*mut EventWriter, *mut AttributeList, u64, u32, u32, u8, u64, u64, u64) -> ErrorCode;
    complete_blocking: "OTF2_EvtWriter_RmaOpCompleteBlocking"
        (*mut EventWriter, *mut AttributeList, u64, u32, u64) -> ErrorCode;
    complete_non_blocking: "OTF2_EvtWriter_RmaOpCompleteNonBlocking"
        (*mut EventWriter, *mut AttributeList, u64, u32, u64) -> ErrorCode;
    complete_remote: "OTF2_EvtWriter_RmaOpCompleteRemote"
        (*mut EventWriter, *mut AttributeList, u64, u32, u64) -> ErrorCode;
    collective_begin: "OTF2_EvtWriter_RmaCollectiveBegin" (*mut EventWriter, *mut AttributeList, u64) -> ErrorCode;
    collective_end: "OTF2_EvtWriter_RmaCollectiveEnd"
        (*mut EventWriter, *mut AttributeList, u64, u8, u32, u32, u32, u64, u64) -> ErrorCode;

    open_reader: "OTF2_Reader_Open" (*const c_char) -> *mut Reader;
    read_identifier: "OTF2_Reader_GetTraceId" (*mut Reader, *mut u64) -> ErrorCode;
    close_reader: "OTF2_Reader_Close" (*mut Reader) -> ErrorCode;
    error_text: "OTF2_Error_GetDescription" (ErrorCode) -> *const c_char;
}

impl Library {
    /// Loads the system's library.
    ///
    /// # Errors
    /// The library is missing or too old.
    pub fn load() -> Result<Library, LoadError> {
        let mut reason = String::new();
        for file in FILES {
            // SAFETY: the name is a C string. dlerror returns null or a C string of this thread.
            unsafe {
                let handle = libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
                if !handle.is_null() {
                    return Library::of(handle);
                }
                let why = libc::dlerror();
                if !why.is_null() && reason.is_empty() {
                    reason = CStr::from_ptr(why).to_string_lossy().into_owned();
                }
            }
        }
        Err(LoadError::Missing(reason))
    }

    /// Returns the library's text of an error.
    pub fn text_of(&self, code: ErrorCode) -> String {
        // SAFETY: the function returns a static C string, or null.
        let text = unsafe { (self.error_text)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: not null.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
