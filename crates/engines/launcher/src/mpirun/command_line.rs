// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line after `selvedge mpirun`: our options anywhere before the program, the launcher's options, the program.
//!
//! Only the launcher knows for certain where its options end. The table holds the common options that take values.
//! After an unknown option, a word counts as the program only if such a program can be found. A wrong guess means only
//! that the MPI is not recognised, or that the launcher gets one of our options.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::PathBuf;

use super::MpirunError;
use crate::program::find as find_program;

/// Options of launchers that take values, without their dashes, and the number of values.
const VALUES: &[(&str, usize)] = &[
    ("n", 1),
    ("np", 1),
    ("c", 1),
    ("ppn", 1),
    ("N", 1),
    ("npernode", 1),
    ("perhost", 1),
    ("host", 1),
    ("H", 1),
    ("hosts", 1),
    ("f", 1),
    ("hostfile", 1),
    ("machinefile", 1),
    ("x", 1),
    ("mca", 2),
    ("gmca", 2),
    ("prtemca", 2),
    ("pmixmca", 2),
    ("omca", 2),
    ("bind-to", 1),
    ("map-by", 1),
    ("rank-by", 1),
    ("rankfile", 1),
    ("cpu-set", 1),
    ("cpu-list", 1),
    ("wdir", 1),
    ("wd", 1),
    ("path", 1),
    ("prefix", 1),
    ("output", 1),
    ("stdin", 1),
    ("timeout", 1),
    ("display", 1),
    ("runtime-options", 1),
    ("tune", 1),
    ("am", 1),
    ("app", 1),
    ("configfile", 1),
    ("env", 2),
    ("genv", 2),
    ("envlist", 1),
    ("genvlist", 1),
    ("launcher-exec", 1),
    ("rmk", 1),
    ("iface", 1),
    ("outfile-pattern", 1),
    ("errfile-pattern", 1),
];

/// A program of the command line.
#[derive(Debug)]
pub struct Program {
    pub file: PathBuf,
    /// The positions of the launcher's options for it.
    options: Range<usize>,
}

/// The words of the command line.
pub struct CommandLine {
    words: Vec<OsString>,
}

impl CommandLine {
    pub fn new(words: Vec<OsString>) -> CommandLine {
        CommandLine { words }
    }

    pub fn into_arguments(self) -> Vec<OsString> {
        self.words
    }

    /// Removes an option of ours and returns whether it was given. Words after the program are the program's.
    pub fn take_flag(&mut self, name: &str) -> bool {
        match self.position(|word| word == name) {
            Some(at) => {
                self.words.remove(at);
                true
            }
            None => false,
        }
    }

    /// Removes an option of ours with its value, given as `--name value` or `--name=value`, and returns the value.
    pub fn take_value(&mut self, name: &str) -> Result<Option<OsString>, MpirunError> {
        let joined = format!("{name}=");
        if let Some(at) = self.position(|word| word.starts_with(&joined)) {
            let word = self.words.remove(at);
            let value = word.to_str().and_then(|word| word.strip_prefix(&joined)).unwrap_or_default();
            return Ok(Some(value.into()));
        }
        let Some(at) = self.position(|word| word == name) else { return Ok(None) };
        if at + 1 >= self.words.len() {
            return Err(MpirunError::NoValue { option: name.to_owned() });
        }
        self.words.remove(at);
        Ok(Some(self.words.remove(at)))
    }

    /// The programs whose files are found: several are separated by `:`.
    pub fn programs(&self, search_path: &OsStr) -> Vec<Program> {
        let mut programs = Vec::new();
        let mut from = 0;
        while let Some(at) = self.options_end(from, search_path) {
            if let Ok(file) = find_program(&self.words[at], search_path) {
                programs.push(Program { file, options: from..at });
            }
            let Some(colon) = self.words[at..].iter().position(|word| word == ":") else { break };
            from = at + colon + 1;
        }
        programs
    }

    /// Adds options for a program, after those that it has. True: it has none that mention `name`.
    pub fn add_options(&mut self, program: &Program, name: &str, options: Vec<OsString>) -> bool {
        let given = &self.words[program.options.clone()];
        if given.iter().any(|word| word.to_string_lossy().contains(name)) {
            return false;
        }
        let end = program.options.end - usize::from(given.last().is_some_and(|word| word == "--"));
        self.words.splice(end..end, options);
        true
    }

    /// Puts words before each program.
    pub fn wrap(&mut self, words: &[String], search_path: &OsStr) {
        let mut from = 0;
        while let Some(at) = self.options_end(from, search_path) {
            self.words.splice(at..at, words.iter().map(OsString::from));
            let Some(colon) = self.words[at..].iter().position(|word| word == ":") else { break };
            from = at + colon + 1;
        }
    }

    fn position(&self, wanted: impl Fn(&str) -> bool) -> Option<usize> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let end = self.options_end(0, &path).unwrap_or(self.words.len());
        self.words[..end].iter().position(|word| word.to_str().is_some_and(&wanted))
    }

    /// The position of the name of the program whose options begin here.
    fn options_end(&self, from: usize, search_path: &OsStr) -> Option<usize> {
        let mut at = from;
        let mut uncertain = false; // after an option that may or may not take a value
        while at < self.words.len() {
            let word = self.words[at].to_string_lossy();
            let option = word.trim_start_matches('-');
            if word == "--" {
                return Some(at + 1).filter(|next| *next < self.words.len());
            }
            if word.starts_with('-') && !option.is_empty() {
                let ours = ["--mpi", "--launcher", "--wrapper"].contains(&word.as_ref());
                let values = VALUES.iter().find(|(name, _)| *name == option).map(|(_, count)| *count);
                at += 1 + if ours { 1 } else { values.unwrap_or(0) };
                uncertain = values.is_none() && !ours && !option.contains('=');
            } else if uncertain && find_program(&self.words[at], search_path).is_err() {
                at += 1;
                uncertain = false;
            } else {
                return Some(at);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> CommandLine {
        CommandLine::new(text.split_ascii_whitespace().map(OsString::from).collect())
    }

    fn program_at(text: &str) -> Option<usize> {
        line(text).options_end(0, OsStr::new("/bin:/usr/bin"))
    }

    #[test]
    fn the_program_is_found_after_the_launchers_options() {
        assert_eq!(program_at("-n 2 ./nowhere -n 3"), Some(2));
        assert_eq!(program_at("--mca pml cm -np 4 --bind-to core sh -c true"), Some(7));
        assert_eq!(program_at("-genv A 1 -n 2 sh"), Some(5));
        assert_eq!(program_at("--map-by=core sh"), Some(1));
        assert_eq!(program_at("--oversubscribe sh"), Some(1));
        assert_eq!(program_at("--what-is-this 7 sh"), Some(2), "7 is no program");
        assert_eq!(program_at("--mpi mpich -n 1 sh"), Some(4));
        assert_eq!(program_at("-n 2"), None);
        assert_eq!(program_at("-n 1 -- sh"), Some(3));
    }

    #[test]
    fn our_options_are_removed_before_the_program_only() {
        let mut typed = line("-n 2 --verbose --mpi=mpich --launcher /x/mpirun sh --verbose --mpi openmpi");
        assert!(typed.take_flag("--verbose"));
        assert!(!typed.take_flag("--verbose") && !typed.take_flag("--dry-run"));
        assert_eq!(typed.take_value("--mpi").unwrap(), Some("mpich".into()));
        assert_eq!(typed.take_value("--launcher").unwrap(), Some("/x/mpirun".into()));
        assert_eq!(typed.take_value("--mpi").unwrap(), None);
        assert_eq!(typed.into_arguments(), ["-n", "2", "sh", "--verbose", "--mpi", "openmpi"]);
        assert!(line("-n 2 --launcher").take_value("--launcher").is_err());
    }

    #[test]
    fn the_files_of_the_programs_are_found() {
        let path = OsStr::new("/bin:/usr/bin");
        let found = |text: &str| -> Vec<String> {
            let files = line(text).programs(path).into_iter().map(|program| program.file);
            files.map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(found("-n 2 sh -c true"), ["sh"]);
        assert_eq!(found("-n 2 no-such-program"), Vec::<String>::new());
        assert_eq!(found("-n 2 sh -c true : -n 1 no-such-program a : -n 3 cat x"), ["sh", "cat"]);
    }

    #[test]
    fn a_wrapper_stands_before_each_program() {
        let wrapped = |text: &str| {
            let mut line = line(text);
            line.wrap(&["nice".to_owned(), "-n5".to_owned()], OsStr::new("/bin:/usr/bin"));
            line.into_arguments().join(OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(wrapped("-n 2 sh -c true"), "-n 2 nice -n5 sh -c true");
        assert_eq!(wrapped("-n 2 -- sh a : -n 1 cat b"), "-n 2 -- nice -n5 sh a : -n 1 nice -n5 cat b");
        assert_eq!(wrapped("-n 2"), "-n 2");
    }

    #[test]
    fn options_are_added_to_the_programs_that_have_none() {
        let with = |text: &str, number: usize| {
            let mut line = line(text);
            let program = line.programs(OsStr::new("/bin:/usr/bin")).swap_remove(number);
            let added = line.add_options(&program, "NAME", vec!["-x".into(), "NAME=1".into()]);
            (added, line.into_arguments().join(OsStr::new(" ")).into_string().unwrap())
        };
        assert_eq!(with("-n 2 sh -c true", 0), (true, "-n 2 -x NAME=1 sh -c true".into()));
        assert_eq!(with("-n 2 -- sh -c true", 0), (true, "-n 2 -x NAME=1 -- sh -c true".into()));
        assert_eq!(with("-n 2 sh a : -n 1 cat b", 1), (true, "-n 2 sh a : -n 1 -x NAME=1 cat b".into()));
        assert_eq!(with("-x NAME=2 sh", 0), (false, "-x NAME=2 sh".into()));
    }
}
