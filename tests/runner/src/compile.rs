// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the C programs of a suite, each once.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The warnings that every program of the tests is compiled with; each is an error.
const WARNINGS: [&str; 4] = ["-g", "-Wall", "-Wextra", "-Werror"];

/// How to make a program from C sources, and from C++ sources.
pub struct Compiler {
    pub c: OsString,
    /// Also links C++ programs. The other sources of such a program stay C.
    pub cpp: Option<OsString>,
    /// Before the sources: optimisation, folders of headers.
    pub flags: Vec<OsString>,
    /// After the sources: libraries.
    pub libraries: Vec<OsString>,
    /// Ends the message of a failure: what may be missing.
    pub hint: &'static str,
}

impl Compiler {
    /// `$CC`, or `cc`, with these flags; programs may include `check.h`.
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

    /// Compiles a program. The first source decides whether it is C or C++.
    ///
    /// # Errors
    /// The compiler does not start, or fails; its messages are in the text.
    pub fn compile(&self, sources: &[PathBuf], program: &Path) -> Result<(), String> {
        let is_cpp = sources.first().is_some_and(|first| extension(first) == "cc");
        let (Some(cpp), true) = (&self.cpp, is_cpp) else {
            return self.run(&self.c, "-std=gnu11", sources, &["-o".into(), program.into()], true);
        };
        let mut parts = vec![sources[0].clone()];
        for source in &sources[1..] {
            let object = program.with_extension(format!("{}.o", stem(source)));
            self.run(
                &self.c,
                "-std=gnu11",
                std::slice::from_ref(source),
                &["-c".into(), "-o".into(), object.clone().into()],
                false,
            )?;
            parts.push(object);
        }
        self.run(cpp, "-std=gnu++17", &parts, &["-o".into(), program.into()], true)
    }

    fn run(&self, tool: &OsStr, standard: &str, from: &[PathBuf], to: &[OsString], links: bool) -> Result<(), String> {
        let mut command = Command::new(tool);
        command.arg(standard).args(WARNINGS).args(&self.flags).args(from).args(to);
        command.args(self.libraries.iter().filter(|_| links));
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
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let made = changed(&program.to_owned());
    if program.exists() && sources.iter().chain(further).all(|input| changed(input) < made) {
        return Ok(());
    }
    compiler.compile(sources, program)
}

/// The files of a folder with one of these extensions, in the order of their names.
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
