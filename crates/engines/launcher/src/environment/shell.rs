// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assignments in a shell's syntax, or as JSON, quoted so that the shell never interprets a value.

use super::{EnvironmentError, Variable};

/// The syntax of assignments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// sh, bash, zsh, ksh
    Sh,
    /// csh, tcsh
    Csh,
    /// fish
    Fish,
    /// One JSON object, for programs
    Json,
}

impl Shell {
    /// One line for each variable, ready to be evaluated.
    pub fn lines(self, variables: &[Variable]) -> Result<String, EnvironmentError> {
        if self == Shell::Json {
            let mut object = serde_json::Map::new();
            for variable in variables {
                object.insert(variable.name.into(), text(variable)?.into());
            }
            return Ok(format!("{:#}\n", serde_json::Value::Object(object)));
        }
        variables.iter().map(|variable| Ok(self.line(variable.name, text(variable)?))).collect()
    }

    fn line(self, name: &str, value: &str) -> String {
        match self {
            Shell::Csh => format!("setenv {name} {};\n", quoted(value, "'\\''", &[("!", "\\!"), ("\n", "\\\n")])),
            Shell::Fish => format!("set -gx {name} {};\n", quoted(value, "\\'", &[("\\", "\\\\")])),
            Shell::Sh | Shell::Json => format!("export {name}={}\n", quoted(value, "'\\''", &[])),
        }
    }
}

fn text(variable: &Variable) -> Result<&str, EnvironmentError> {
    let value = &variable.value;
    value.to_str().ok_or_else(|| EnvironmentError::NotText { name: variable.name, value: value.clone() })
}

/// A word of a command line for sh.
pub fn shell_word(word: &str) -> String {
    quoted(word, "'\\''", &[])
}

/// The value unchanged if it has no special character of a shell, else in single quotes. `escapes` are applied first;
/// `quote` replaces a single quote.
fn quoted(value: &str, quote: &str, escapes: &[(&str, &str)]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-,+@%".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    let escaped = escapes.iter().fold(value.to_owned(), |text, (from, to)| text.replace(from, to));
    format!("'{}'", escaped.replace('\'', quote))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn lines(shell: Shell, value: &str) -> String {
        shell.lines(&[Variable { name: "SOME_NAME", value: value.into() }]).unwrap()
    }

    #[test]
    fn each_shell_has_its_syntax() {
        assert_eq!(lines(Shell::Sh, "cm"), "export SOME_NAME=cm\n");
        assert_eq!(lines(Shell::Csh, "^ucx"), "setenv SOME_NAME '^ucx';\n");
        assert_eq!(lines(Shell::Fish, "a b"), "set -gx SOME_NAME 'a b';\n");
        assert_eq!(lines(Shell::Json, "a\"b"), "{\n  \"SOME_NAME\": \"a\\\"b\"\n}\n");
        assert_eq!(lines(Shell::Csh, "hey!"), "setenv SOME_NAME 'hey\\!';\n");
        assert_eq!(lines(Shell::Fish, "it's\\"), "set -gx SOME_NAME 'it\\'s\\\\';\n");
    }

    #[test]
    fn a_shell_reads_back_the_value() {
        for value in ["/opt/my tree/lib", "it's", "$(touch /nowhere)", "a;b`c`\"d\"\\", "", "two\nlines", "^ucx"] {
            let script = lines(Shell::Sh, value) + "printf %s \"$SOME_NAME\"";
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), value);
        }
    }
}
