// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims a Portals process id in the job `claims`, prints it, and holds it until its input ends. The test of many
//! claimants at once (`tests/claims.rs`) starts it.
//!
//!     claim PREFERRED

use std::io::Read;
use std::process::ExitCode;

use selvedge_job::JobDirectory;

fn main() -> ExitCode {
    let preferred = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    let directory = match JobDirectory::create("claims") {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("claim: {error}");
            return ExitCode::FAILURE;
        }
    };
    match directory.claim(None, preferred) {
        Ok(claim) => {
            println!("{}", claim.pid());
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("claim: {error}");
            ExitCode::FAILURE
        }
    }
}
