// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error codes of an interface: one table gives the type, its values, their texts and the value that C gets.

/// Defines the enum `Code` of a table, and what the functions of the interface return. Success is 0. The first line gives the type of the texts in the interface.
macro_rules! codes {
    (texts: $text_type:ty; $($name:ident = $value:literal, $text:literal;)*) => {
        /// An error code of the interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code { $($name = $value,)* }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            pub fn text(self) -> $text_type {
                match self { $(Code::$name => $text,)* }
            }

            /// The text of a number; `None` if it is not a code.
            pub fn text_of(code: i32) -> Option<$text_type> {
                Code::ALL.iter().find(|known| **known as i32 == code).map(|known| known.text())
            }
        }

        /// The return value of a function of the interface.
        pub type Outcome<T = ()> = Result<T, Code>;

        /// The value that C gets.
        #[inline]
        pub fn value(outcome: Outcome) -> i32 {
            outcome.map_or_else(|code| code as i32, |()| 0)
        }

        #[cfg(test)]
        mod texts {
            #[test]
            fn every_code_has_a_text_of_its_own() {
                let all = super::Code::ALL;
                let texts: std::collections::BTreeSet<_> = all.iter().map(|code| code.text()).collect();
                assert_eq!(texts.len(), all.len());
            }
        }
    };
}

pub(crate) use codes;
