// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `-np N`, as launchers of MPI write a number of ranks, for every subcommand that has `--np`.
//!
//! clap reads `-np` as `-n` with the value `p`. So this word is written out before clap sees it. Words of the program to run
//! stay as they are: the description of the subcommand says which options take a value, and where the program begins.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The words of a command line, with each `-np` of ours as `--np`.
pub fn spelled_out(words: impl Iterator<Item = OsString>, cli: &Command) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let mut commands = vec![cli];
    let mut at = 1;
    while let Some(word) = words.get(at) {
        // A word that is not text is no option.
        let (word, next) = (word.to_str().unwrap_or_default(), words.get(at + 1));
        let arguments = || commands.iter().flat_map(|command| command.get_arguments());
        if word == "--" {
            break;
        } else if word == "-np" && arguments().any(|argument| argument.get_long() == Some("np")) {
            words[at] = "--np".into();
            at += 2;
        } else if let Some(long) = word.strip_prefix("--") {
            let found = arguments().find(|argument| argument.get_long() == Some(long));
            at += 1 + found.map_or(0, |argument| words_taken(argument, next));
        } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
            at += 1 + taken_by_last(short, next, arguments);
        } else {
            let command = commands[commands.len() - 1];
            match command.find_subcommand(word) {
                Some(found) => commands.push(found),
                None if command.get_positionals().any(Arg::is_trailing_var_arg_set) => break,
                None => {}
            }
            at += 1;
        }
    }
    words
}

/// Number of words after the option that are its values, of which `next` would be the first.
fn words_taken(argument: &Arg, next: Option<&OsString>) -> usize {
    if !argument.get_action().takes_values() || argument.is_require_equals_set() {
        return 0;
    }
    let names = argument.get_value_names().map_or(1, |names| names.len().max(1));
    match argument.get_num_args().map_or(names, |count| count.min_values()) {
        // clap takes a word for the value that may be left out, unless it looks like an option.
        0 => next.is_some_and(|next| next == "-" || !next.as_encoded_bytes().starts_with(b"-")).into(),
        count => count,
    }
}

/// Number of words after these one-letter options that are values of the last one.
fn taken_by_last<'a, I: Iterator<Item = &'a Arg>>(
    letters: &str,
    next: Option<&OsString>,
    arguments: impl Fn() -> I,
) -> usize {
    let find = |letter: char| {
        arguments().find(|argument| argument.get_short() == Some(letter) && argument.get_action().takes_values())
    };
    // Letters after an option that takes a value are the value.
    let first = letters.char_indices().find_map(|(at, letter)| Some((at + letter.len_utf8(), find(letter)?)));
    first.filter(|(end, _)| *end == letters.len()).map_or(0, |(_, argument)| words_taken(argument, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn spelled(line: &str) -> String {
        let words = line.split_ascii_whitespace().map(OsString::from);
        let words = spelled_out(words, &crate::Cli::command());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn np_is_written_out_before_the_program_only() {
        for (typed, wanted) in [
            ("selvedge run -np 4 ./a -np 3", "selvedge run --np 4 ./a -np 3"),
            ("selvedge run --timeout 5 -np 4 sh", "selvedge run --timeout 5 --np 4 sh"),
            ("selvedge run --tag-output -np 4 -- sh -np", "selvedge run --tag-output --np 4 -- sh -np"),
            ("selvedge run -n 2 sh -np 4", "selvedge run -n 2 sh -np 4"),
            ("selvedge run -n2 -np 4 sh", "selvedge run -n2 --np 4 sh"),
            ("selvedge run -- sh -np 4", "selvedge run -- sh -np 4"),
            ("selvedge run --env -np sh", "selvedge run --env -np sh"),
            ("selvedge sim --machine x -np 2 -- ./a -np", "selvedge sim --machine x --np 2 -- ./a -np"),
            ("selvedge sim --aggregation -np 2 ./a", "selvedge sim --aggregation --np 2 ./a"),
            ("selvedge sim --json o.json -np 2 -- true", "selvedge sim --json o.json --np 2 -- true"),
            ("selvedge sim --json - -np 2 ./a", "selvedge sim --json - --np 2 ./a"),
            ("selvedge sim --json -np 2 -- sh -np", "selvedge sim --json --np 2 -- sh -np"),
            ("selvedge sim --watch -np 2 ./a -np", "selvedge sim --watch --np 2 ./a -np"),
            ("selvedge sim --routes 0 5 -np 8", "selvedge sim --routes 0 5 --np 8"),
            ("selvedge sim -q -np 2 ./a -np", "selvedge sim -q --np 2 ./a -np"),
            ("selvedge bench sim -np 8", "selvedge bench sim --np 8"),
            ("selvedge palms pingpong -np 3", "selvedge palms pingpong --np 3"),
            ("selvedge mpirun -np 4 ./a -np 3", "selvedge mpirun -np 4 ./a -np 3"),
            ("selvedge top -np", "selvedge top -np"),
            ("selvedge", "selvedge"),
            ("selvedge run -np", "selvedge run --np"),
        ] {
            assert_eq!(spelled(typed), wanted);
        }
    }
}
