// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error codes of an interface: one table gives the type, its values and their texts.

/// Defines the enum `Code` of a table. The first line gives the type of the texts in the interface.
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
    };
}

pub(crate) use codes;
