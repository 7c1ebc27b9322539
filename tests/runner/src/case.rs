// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A case, as listed by its program.

use std::path::Path;
use std::process::Command;

/// Members of `struct test_case` and `struct case_extra` of `tests/include/check.h`.
#[derive(Default)]
pub struct Case {
    pub name: String,
    pub ranks: u32,
    pub rule: String,
    /// If not 0: the case also runs with this number of ranks, in crowded variants.
    pub crowded: u32,
    /// Exit status that the job must have.
    pub status: i32,
    /// Feature that a variant must offer to run the case.
    pub needs: Option<String>,
    /// Variables for the job.
    pub environment: Vec<(String, String)>,
    /// Text that the job must print, and text that it must not print.
    pub prints: Option<String>,
    pub prints_not: Option<String>,
    /// Other libraries that break the rule: "LIBRARY: deviation".
    pub stock: Vec<String>,
}

impl Case {
    /// Lists the cases of a program.
    ///
    /// # Errors
    /// The program does not start, fails, or prints a line that is not one of `--list`.
    pub fn list(program: &Path) -> Result<Vec<Case>, String> {
        let listed = Command::new(program).arg("--list").output().map_err(|e| format!("{}: {e}", program.display()))?;
        if !listed.status.success() {
            let errors = String::from_utf8_lossy(&listed.stderr);
            return Err(format!("{} --list: {}\n{errors}", program.display(), listed.status));
        }
        String::from_utf8_lossy(&listed.stdout).lines().map(Case::parse).collect()
    }

    /// Parses one line of `--list`: name, ranks, rule, then `KEY=VALUE` for the other members of the case, with tabs
    /// between.
    fn parse(line: &str) -> Result<Case, String> {
        let wrong = |what: &str| format!("not a line of --list ({what}): {line:?}");
        let number = |text: &str| text.parse::<i32>().map_err(|e| wrong(&e.to_string()));
        let mut fields = line.split('\t');
        let (Some(name), Some(ranks), Some(rule)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(wrong("too few fields"));
        };
        let ranks = ranks.parse().map_err(|_| wrong("ranks"))?;
        let mut case = Case { name: name.to_owned(), ranks, rule: rule.to_owned(), ..Case::default() };
        for field in fields {
            let (key, value) = field.split_once('=').ok_or_else(|| wrong(field))?;
            match key {
                "crowded" => case.crowded = value.parse().map_err(|_| wrong(field))?,
                "status" => case.status = number(value)?,
                "needs" => case.needs = Some(value.to_owned()),
                "environment" => {
                    let setting =
                        |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
                    case.environment = value.split_whitespace().filter_map(setting).collect();
                }
                "prints" => case.prints = Some(value.to_owned()),
                "prints_not" => case.prints_not = Some(value.to_owned()),
                "stock" => case.stock = value.split(" | ").map(str::to_owned).collect(),
                _ => return Err(wrong(field)),
            }
        }
        Ok(case)
    }

    /// Whether a stock library breaks the rule.
    pub(crate) fn is_broken_by(&self, library: &str) -> bool {
        self.stock.iter().any(|one| one.strip_prefix(library).is_some_and(|rest| rest.starts_with(':')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_every_key() {
        let line =
            "c\t3\ta rule\tcrowded=9\tstatus=2\tneeds=mapped\tenvironment=A=1 B=x=y\tprints=p\tstock=shm: no | tcp: no";
        let case = Case::parse(line).unwrap();
        assert_eq!((case.name.as_str(), case.ranks, case.rule.as_str()), ("c", 3, "a rule"));
        assert_eq!((case.crowded, case.status, case.needs.as_deref()), (9, 2, Some("mapped")));
        assert_eq!(case.environment, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "x=y".to_owned())]);
        assert_eq!((case.prints.as_deref(), case.prints_not.as_deref()), (Some("p"), None));
        assert!(case.is_broken_by("tcp") && !case.is_broken_by("tc"));
    }

    #[test]
    fn lines_that_are_wrong() {
        for line in ["", "c\t2", "c\tx\trule", "c\t2\trule\tunknown=1", "c\t2\trule\tnothing"] {
            assert!(Case::parse(line).is_err(), "{line:?}");
        }
    }
}
