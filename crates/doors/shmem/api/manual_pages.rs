// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the manual pages of `manual.rs` into a folder, with a symbolic link for each function.
//!
//! usage: libsma-manual-pages FOLDER

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

#[path = "mod.rs"]
mod api;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: libsma-manual-pages FOLDER");
        return ExitCode::from(2);
    };
    match write(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("libsma-manual-pages: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for page in api::manual::pages(env!("CARGO_PKG_VERSION")) {
        let file = format!("{}.3", page.name);
        fs::write(folder.join(&file), page.text)?;
        for link in page.links {
            let path = folder.join(format!("{link}.3"));
            match symlink(&file, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    fs::remove_file(&path)?;
                    symlink(&file, &path)?;
                }
                done => done?,
            }
        }
    }
    Ok(())
}
