// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment that makes an installed MPI, or any program on libfabric, use our provider.
//!
//! `selvedge env` prints it ([`Shell`]); `selvedge mpirun` and simulated ranks get it. The table is [`mod@variables`].
//!
//! Invariant: without the provider there is no environment, because MPI errors would not show the reason.

mod shell;
mod variables;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

pub use shell::{Shell, shell_word};
pub(crate) use variables::of_links;
pub use variables::{PROVIDER, Target, Variable, libraries, preloads, variables};

/// The folder of the provider and of the libraries that ranks load, beside the public libraries. It holds no other library of
/// libfabric's, because libfabric loads every provider in it.
const PRIVATE_FOLDER: &str = "libselvedge";
const PROVIDER_FILE: &str = "libselvedge-fi.so";

/// Reasons why there is no environment.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error("SELVEDGE_PREFIX is not a valid path; set it to the folder of an installed tree")]
    Prefix(#[source] io::Error),
    #[error("cannot find the file of this program")]
    OwnFile(#[source] io::Error),
    #[error("{} is not in an installed tree; set SELVEDGE_PREFIX to one", .file.display())]
    NotInstalled { file: PathBuf },
    #[error("{}: no such file; run make build, or set SELVEDGE_PREFIX to the tree that has it", .file.display())]
    NoProvider { file: PathBuf },
    #[error("libfabric would read the ':' in {} as two directories; use a path without ':'", .directory.display())]
    Colon { directory: PathBuf },
    #[error("{name} is not valid UTF-8: {}", .value.to_string_lossy())]
    NotText { name: &'static str, value: OsString },
    /// For simulated ranks, whose variables are text.
    #[error("the path of this tree is not valid UTF-8")]
    TreeNotText,
}

/// `SELVEDGE_PREFIX`, else the tree around this executable.
pub fn prefix() -> Result<PathBuf, EnvironmentError> {
    if let Some(prefix) = selvedge_settings::nonempty("SELVEDGE_PREFIX") {
        return std::path::absolute(prefix).map_err(EnvironmentError::Prefix);
    }
    let selvedge = std::env::current_exe().map_err(EnvironmentError::OwnFile)?;
    match selvedge.parent().and_then(Path::parent) {
        Some(prefix) => Ok(prefix.to_owned()),
        None => Err(EnvironmentError::NotInstalled { file: selvedge }),
    }
}

/// The folder of the libraries below a prefix: `lib`, `lib64` as rpm has it, or Debian's folder for this processor.
pub fn library_folder(prefix: &Path) -> PathBuf {
    let folders = ["lib".to_owned(), "lib64".to_owned(), format!("lib/{}-linux-gnu", std::env::consts::ARCH)];
    let mut folders = folders.into_iter().map(|folder| prefix.join(folder));
    folders.find(|folder| folder.join(PRIVATE_FOLDER).is_dir()).unwrap_or_else(|| prefix.join("lib"))
}

/// The directory for `FI_PROVIDER_PATH`.
pub fn provider_directory(prefix: &Path) -> Result<PathBuf, EnvironmentError> {
    let directory = library_folder(prefix).join(PRIVATE_FOLDER);
    let file = directory.join(PROVIDER_FILE);
    if !file.is_file() {
        return Err(EnvironmentError::NoProvider { file });
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_without_the_provider_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        let error = provider_directory(tree.path()).unwrap_err().to_string();
        assert!(error.contains("libselvedge-fi.so") && error.contains("SELVEDGE_PREFIX"), "{error}");
        let directory = tree.path().join("lib/libselvedge");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("libselvedge-fi.so"), "").unwrap();
        assert_eq!(provider_directory(tree.path()).unwrap(), directory);
    }

    #[test]
    fn libraries_are_found_where_packages_put_them() {
        let tree = tempfile::tempdir().unwrap();
        assert_eq!(library_folder(tree.path()), tree.path().join("lib"));
        for folder in [format!("lib/{}-linux-gnu", std::env::consts::ARCH), "lib64".to_owned(), "lib".to_owned()] {
            std::fs::create_dir_all(tree.path().join(&folder).join("libselvedge")).unwrap();
            assert_eq!(library_folder(tree.path()), tree.path().join(&folder));
        }
    }
}
