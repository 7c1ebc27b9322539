// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of handlers, and the call of a handler.
//!
//! Invariant: a token is that of the handler that runs on this thread, or it is refused. It is never followed.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

use crate::gasnet::active_messages::wire::Category;
use crate::gasnet::active_messages::{Delivery, Token};

use super::codes::{Code, Outcome, refuse};
use super::locks;

/// The smallest handler number of a program. Lower ones belong to libraries of GASNet itself.
const HANDLERS_OWN: usize = 128;
const HANDLERS: usize = 256;

static TABLE: [AtomicUsize; HANDLERS] = [const { AtomicUsize::new(0) }; HANDLERS];

thread_local! {
    static RUNNING: Cell<*const Token> = const { Cell::new(ptr::null()) };
}

/// `gasnet_handlerentry_t`.
#[repr(C)]
pub struct HandlerEntry {
    index: u8,
    function: *const c_void,
}

/// Registers the handlers of a table. Entries with number 0 get free numbers from 128 on, in the order of the table.
/// Returns the registered numbers as bits.
pub fn register(table: &mut [HandlerEntry]) -> Result<[u64; 4], String> {
    let mut exist = [0u64; 4];
    for entry in table.iter() {
        let number = usize::from(entry.index);
        if entry.function.is_null() {
            return Err(format!("the function of handler {number} is NULL"));
        }
        if number == 0 {
            continue;
        }
        if number < HANDLERS_OWN {
            return Err(format!("handler {number} is reserved: choose 0, or 128 to 255"));
        }
        if exist[number / 64] >> (number % 64) & 1 != 0 {
            return Err(format!("handler {number} is in the table twice"));
        }
        exist[number / 64] |= 1 << (number % 64);
    }
    for entry in table.iter_mut().filter(|entry| entry.index == 0) {
        let is_free = |number: &usize| exist[number / 64] >> (number % 64) & 1 == 0;
        let number = (HANDLERS_OWN..HANDLERS).find(is_free).ok_or("there are more than 128 handlers")?;
        exist[number / 64] |= 1 << (number % 64);
        entry.index = number as u8;
    }
    for entry in table.iter() {
        TABLE[usize::from(entry.index)].store(entry.function as usize, Release);
    }
    Ok(exist)
}

/// The handler with this number; NULL if it is not registered.
fn handler(number: u8) -> *const c_void {
    // Pairs with the store with release in `register`.
    TABLE[usize::from(number)].load(Acquire) as *const c_void
}

/// The token of the handler that runs here.
pub fn running(name: &str, token: *const c_void) -> Outcome<&'static Token> {
    let running = RUNNING.get();
    if running.is_null() || !ptr::eq(running.cast(), token) {
        return Err(refuse(Code::BadArg, name, "the token is not that of the handler that runs on this thread"));
    }
    // SAFETY: `run` has set the pointer, to a token that lives until the handler returns; the caller is within the handler.
    Ok(unsafe { &*running })
}

/// Whether a handler runs on this thread.
pub fn is_running() -> bool {
    !RUNNING.get().is_null()
}

/// Runs the handler of a message.
pub fn run(delivery: &Delivery<'_>) {
    let function = handler(delivery.handler);
    if function.is_null() {
        log::error!(
            "gasnet: node {} sent a message for handler {}, which is not registered here",
            delivery.token.source,
            delivery.handler
        );
        return;
    }
    let (before, held) = (RUNNING.replace(delivery.token), locks::held());
    // SAFETY: the program has registered the function for this number, and says that it takes what such messages bring.
    unsafe { call(function, delivery) };
    RUNNING.set(before);
    if locks::held() != held {
        log::error!("gasnet: handler {} returned without releasing a handler-safe lock", delivery.handler);
    }
}

/// Calls a C function with the arguments of a message.
///
/// # Safety
/// The function takes a token, for medium and long messages a buffer and its size, and that number of 32-bit arguments.
unsafe fn call(function: *const c_void, delivery: &Delivery<'_>) {
    type Token = *const c_void;
    let token: Token = ptr::from_ref(delivery.token).cast();
    let (a, payload, bytes) = (delivery.arguments, delivery.payload, delivery.bytes);
    macro_rules! argument {
        ($number:literal) => {
            i32
        };
    }
    macro_rules! calls {
        ($($count:literal: $($number:literal)*;)*) => {
            match (a.len(), delivery.category) {
                $(($count, Category::Short) => {
                    type Handler = unsafe extern "C" fn(Token, $(argument!($number)),*);
                    // SAFETY: the caller's.
                    unsafe { std::mem::transmute::<*const c_void, Handler>(function)(token, $(a[$number]),*) }
                }
                ($count, Category::Medium | Category::Long) => {
                    type Handler = unsafe extern "C" fn(Token, *mut u8, usize, $(argument!($number)),*);
                    // SAFETY: the caller's.
                    unsafe {
                        std::mem::transmute::<*const c_void, Handler>(function)(token, payload, bytes, $(a[$number]),*)
                    }
                })*
                // The engine passes no more arguments.
                _ => {}
            }
        };
    }
    calls! {
        0: ;
        1: 0;
        2: 0 1;
        3: 0 1 2;
        4: 0 1 2 3;
        5: 0 1 2 3 4;
        6: 0 1 2 3 4 5;
        7: 0 1 2 3 4 5 6;
        8: 0 1 2 3 4 5 6 7;
        9: 0 1 2 3 4 5 6 7 8;
        10: 0 1 2 3 4 5 6 7 8 9;
        11: 0 1 2 3 4 5 6 7 8 9 10;
        12: 0 1 2 3 4 5 6 7 8 9 10 11;
        13: 0 1 2 3 4 5 6 7 8 9 10 11 12;
        14: 0 1 2 3 4 5 6 7 8 9 10 11 12 13;
        15: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14;
        16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn nothing() {}

    fn entries(numbers: &[u8]) -> Vec<HandlerEntry> {
        numbers.iter().map(|index| HandlerEntry { index: *index, function: nothing as *const c_void }).collect()
    }

    #[test]
    fn a_table_gets_free_numbers_or_is_refused() {
        let mut table = entries(&[0, 129, 0, 255]);
        let exist = register(&mut table).expect("it is legal");
        assert_eq!(table.iter().map(|entry| entry.index).collect::<Vec<_>>(), [128, 129, 130, 255]);
        assert_eq!(exist, [0, 0, 0b111, 1 << 63]);
        for wrong in [&[127][..], &[200, 200], &[0; 129]] {
            assert!(register(&mut entries(wrong)).is_err(), "{wrong:?}");
        }
        assert!(register(&mut entries(&[0; 128])).is_ok());
        assert!(register(&mut [HandlerEntry { index: 0, function: std::ptr::null() }]).is_err());
    }
}
