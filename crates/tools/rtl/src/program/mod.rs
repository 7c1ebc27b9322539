// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Subcommands of `selvedge-rtl` that need no unit.

mod plots;
pub mod report;

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
enum FiguresError {
    #[error("{}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Malformed { path: PathBuf, error: serde_json::Error },
    #[error("{}: no figures", folder.display())]
    Empty { folder: PathBuf },
    #[error("{}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
}
