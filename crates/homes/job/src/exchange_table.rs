// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of an exchange: what each rank gives, in a file of the job's directory.
//!
//! The launcher collects the values of an exchange, and writes them once on each host. So a rank sends one request and
//! reads one file, however many ranks there are.
//!
//! The file `exchange-<number>` has a line for each rank: its bytes in base64url, or `-` if it has ended without giving
//! any. The table before it is removed, because every rank has read that one when it enters the next exchange.

use crate::directory::JobDirectory;
use crate::folder::DirectoryError;
use crate::names::base64url_decode;

/// Stands for a rank that has ended without giving a value. No bytes have this text: one character alone is none.
const ABSENT: &str = "-";

/// Returns the content of a table, from the values in base64url.
pub fn exchange_table<'a>(values: impl Iterator<Item = Option<&'a str>>) -> String {
    values.map(|value| format!("{}\n", value.unwrap_or(ABSENT))).collect()
}

impl JobDirectory {
    /// Writes the table of an exchange, and removes the one before it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_exchange(&self, number: u64, table: &[u8]) -> Result<(), DirectoryError> {
        self.replace(&self.exchange(number), table)?;
        if let Some(before) = number.checked_sub(1) {
            let _ = std::fs::remove_file(self.exchange(before));
        }
        Ok(())
    }

    /// Reads the table of an exchange. A rank without a value has `None`; so has one whose line is malformed.
    ///
    /// # Errors
    /// The file cannot be read: the launcher could not write it here.
    pub fn read_exchange(&self, number: u64) -> Result<Vec<Option<Vec<u8>>>, DirectoryError> {
        let path = self.exchange(number);
        let text = std::fs::read_to_string(&path).map_err(|error| DirectoryError::io("read", &path, error))?;
        Ok(text.lines().map(base64url_decode).collect())
    }

    fn exchange(&self, number: u64) -> std::path::PathBuf {
        self.path().join(format!("exchange-{number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::base64url_encode;
    use crate::testing::Parent;

    #[test]
    fn values_come_back_and_the_table_before_is_gone() {
        let folder = Parent::new();
        let directory = JobDirectory::create_in(folder.path(), "job").expect("made");
        let values = [Some(vec![]), None, Some(vec![7]), Some((0..=255).collect())];
        for number in 0..3 {
            let texts: Vec<Option<String>> =
                values.iter().map(|value| value.as_deref().map(base64url_encode)).collect();
            let table = exchange_table(texts.iter().map(Option::as_deref));
            directory.write_exchange(number, table.as_bytes()).expect("written");
            assert_eq!(directory.read_exchange(number).expect("there"), values);
        }
        for gone in [0, 1, 9] {
            let error = directory.read_exchange(gone).expect_err("not there").to_string();
            assert!(error.contains(&format!("exchange-{gone}")), "{error}");
        }
    }

    #[test]
    fn a_malformed_line_is_a_missing_value() {
        let folder = Parent::new();
        let directory = JobDirectory::create_in(folder.path(), "job").expect("made");
        directory.write_exchange(0, b"AA\n!!\nA\n\n").expect("written");
        assert_eq!(directory.read_exchange(0).expect("there"), [Some(vec![0]), None, None, Some(vec![])]);
    }
}
