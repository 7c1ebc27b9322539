// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the instructions of one `shmem_long_p`: runs `bench/shmem/p_count.c` under `valgrind --tool=callgrind` and
//! reads its profile. That program explains the parts of the figure.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use super::peers::HELPER_LIMIT;
use super::process::{Tree, output};
use super::record::Measurement;

/// The same numbers as in p_count.c.
const CALLS: f64 = 256.0;
const CALL_AND_RETURN: f64 = 2.0;

/// Returns valgrind's version; an error if it is not installed.
pub fn valgrind() -> Result<String> {
    let printed =
        output(Command::new("valgrind").arg("--version"), HELPER_LIMIT).context("valgrind is not installed")?;
    Ok(printed.trim().to_owned())
}

pub fn measure(tree: &Tree, limit: Duration) -> Result<Vec<Measurement>> {
    let directory = tempfile::Builder::new().prefix("selvedge-bench-").tempdir()?;
    let program = tree.program("shmem/p_count")?;
    let mut command = tree.launcher(2, false);
    command.args(["valgrind", "--quiet", "--tool=callgrind"]);
    command.arg(format!("--callgrind-out-file={}/%p", directory.path().display())).arg(program);
    output(&mut command, limit)?;
    for file in fs::read_dir(directory.path())? {
        let profile = fs::read_to_string(file?.path())?;
        if let Some(instructions) = instructions_of_a_call(&profile) {
            return Ok(vec![Measurement {
                case: "shmem_p_instructions".into(),
                size_bytes: Some(8),
                instructions: Some(instructions),
                ..Measurement::default()
            }]);
        }
    }
    bail!("no callgrind profile contains burst_p")
}

/// The instructions of one call; `None` in the profile of a PE that made no calls.
fn instructions_of_a_call(profile: &str) -> Option<f64> {
    let inclusive = inclusive_costs(profile).ok()?;
    let (p, empty) = (inclusive.get("burst_p")?, inclusive.get("burst_return")?);
    (p > empty).then(|| (p - empty) as f64 / CALLS + CALL_AND_RETURN)
}

/// The instructions of each function, including its callees (counted twice in a recursion). A line that begins with a
/// position ends with a cost: after a `calls=` line the callee's, else the function's own.
fn inclusive_costs(profile: &str) -> Result<BTreeMap<&str, i64>> {
    let mut names = BTreeMap::new(); // a name appears with its number once, then the number alone
    let (mut costs, mut function) = (BTreeMap::new(), None);
    for line in profile.lines() {
        if let Some(rest) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            let (number, name) = rest.split_once(' ').map_or((rest, None), |(number, name)| (number, Some(name)));
            if let Some(name) = name {
                names.insert(number, name);
            }
            if line.starts_with("fn=") {
                function = Some(*names.get(number).ok_or_else(|| anyhow!("a function without a name: {line}"))?);
            }
        } else if let (Some(function), true) = (function, line.starts_with(|c: char| "+-*0123456789".contains(c))) {
            let cost = line.split_ascii_whitespace().nth(1).unwrap_or("0");
            *costs.entry(function).or_insert(0) +=
                cost.parse::<i64>().with_context(|| format!("not a cost: {line}"))?;
        }
    }
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_parsed() {
        let profile = "version: 1\nevents: Ir\n\nfl=(1) p_count.c\nfn=(3) burst_p\n24 6\n+1 256\ncob=(2)\ncfn=(7) shmem_long_p\n\
                       calls=256 -25\n* 5120\n\nfn=(4) burst_return\n30 6\n* 256\ncfn=(9) only_return\ncalls=256 2\n* 256\n\n\
                       fn=(7)\n1 5120\n\ntotals: 10000\n";
        let costs = inclusive_costs(profile).unwrap();
        assert_eq!((costs["burst_p"], costs["burst_return"], costs["shmem_long_p"]), (5382, 518, 5120));
        assert_eq!(instructions_of_a_call(profile), Some(21.0));
        assert_eq!(instructions_of_a_call("fn=(1) main\n5 3\n"), None);
    }
}
