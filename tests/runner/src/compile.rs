// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the C programs of a suite, each once.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Warnings for every program of the tests; each is an error.
const WARNINGS: [&str; 4] = ["-g", "-Wall", "-Wextra", "-Werror"];

/// Compiler of C and C++ programs.
pub struct Compiler {
    pub c: OsString,
    /// Also links C++ programs. The other sources of such a program stay C.
    pub cpp: Option<OsString>,
    /// Flags before the sources: optimisation, folders of headers.
    pub flags: Vec<OsString>,
    /// Flags after the sources: libraries.
    pub libraries: Vec<OsString>,
    /// End of a failure's message: what may be missing.
    pub hint: &'static str,
}

impl Compiler {
    /// Returns `$CC`, or `cc`, with these flags; programs may include `check.h`.
    pub fn of_system(flags: &[&str]) -> Compiler {
        let c = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut all: Vec<OsString> = flags.iter().map(Into::into).collect();
        all.extend(["-I".into(), crate::tree::check_folder().into()]);
        Compiler { c, cpp: None, flags: all, libraries: Vec::new(), hint: "" }
    }

    /// Also compiles and links against a library of the built tree.
    #[must_use]
    pub fn with_library(mut self, name: &str) -> Compiler {
        let library_dir = crate::tree::prefix().join("lib");
        self.flags.extend(["-I".into(), crate::tree::workspace().join("include").into()]);
        self.libraries.extend(["-L".into(), library_dir.clone().into()]);
        self.libraries.push(format!("-Wl,-rpath,{}", library_dir.display()).into());
        self.libraries.push(format!("-l{name}").into());
        self
    }

    /// Compiles a program. The first source decides whether it is C or C++. Sources may be objects; with C++ all others
    /// must be.
    ///
    /// # Errors
    /// The compiler does not start, or fails; its messages are in the text.
    pub fn compile(&self, sources: &[PathBuf], program: &Path) -> Result<(), String> {
        let is_cpp = sources.first().is_some_and(|first| extension(first) == "cc");
        let (tool, standard) = match &self.cpp {
            Some(cpp) if is_cpp => (cpp, "-std=gnu++17"),
            _ => (&self.c, "-std=gnu11"),
        };
        self.run(tool, standard, sources, program, &self.libraries)
    }

    /// Compiles a C source to an object.
    fn compile_object(&self, source: &Path, object: &Path) -> Result<(), String> {
        self.run(&self.c, "-std=gnu11", &["-c".into(), source.to_owned()], object, &[])
    }

    fn run(&self, tool: &OsStr, standard: &str, from: &[PathBuf], to: &Path, rest: &[OsString]) -> Result<(), String> {
        let mut command = Command::new(tool);
        command.arg(standard).args(WARNINGS).args(&self.flags).args(from).arg("-o").arg(to).args(rest);
        let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("{command:?}: {}\n{}{}", output.status, String::from_utf8_lossy(&output.stderr), self.hint))
    }
}

/// Compiles a program, unless it is newer than all of its sources and these further inputs (headers, libraries).
///
/// # Errors
/// As [`Compiler::compile`].
pub fn compile_once(
    compiler: &Compiler,
    sources: &[PathBuf],
    further: &[PathBuf],
    program: &Path,
) -> Result<(), String> {
    if is_newer(program, sources) && is_newer(program, further) { Ok(()) } else { compiler.compile(sources, program) }
}

/// Compiles a C source to an object, unless that is newer than the source and these headers.
///
/// # Errors
/// As [`Compiler::compile`].
pub(crate) fn compile_object_once(
    compiler: &Compiler,
    source: &PathBuf,
    headers: &[PathBuf],
    object: &Path,
) -> Result<(), String> {
    let is_current = is_newer(object, std::slice::from_ref(source)) && is_newer(object, headers);
    if is_current { Ok(()) } else { compiler.compile_object(source, object) }
}

fn is_newer(made: &Path, inputs: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    made.exists() && inputs.iter().all(|input| changed(input) < changed(made))
}

/// Lists the files of a folder with one of these extensions, in the order of their names.
pub fn files_with(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| extensions.contains(&extension(path)))
        .collect();
    found.sort();
    found
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(OsStr::to_str).unwrap_or_default()
}

pub(crate) fn stem(path: &Path) -> &str {
    path.file_stem().and_then(OsStr::to_str).unwrap_or_default()
}
