// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Observers of a network.
//!
//! | file | writes or counts |
//! |---|---|
//! | [`sampler`] | load and queue of each channel in each interval, as CSV |
//! | [`by_job`] | packets and busy channels of each job |

pub mod by_job;
pub mod sampler;

pub use sampler::Sampler;

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    /// A file in memory, which a test reads after the run.
    #[derive(Clone, Debug, Default)]
    pub struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Shared {
        pub fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
