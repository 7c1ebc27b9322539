// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the OpenSHMEM suite that look at a job from outside: the number of times that a PE prints something, values
//! of the environment that end a program, programs at a fixed address, programs without a launcher, PEs that wait for
//! lost ones, and files that a job leaves.
//!
//! The programs are families of the suite in this folder. Compiler and launcher come from the built tree, as for
//! `runner.rs`.

mod compiler;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use selvedge_test_runner::{Case, process, tree};

/// Seconds that the launcher gives a job.
const JOB_TIMEOUT_S: &str = "180";

/// A program of the suite, compiled with further flags.
fn program(family: &str, name: &str, flags: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("outside");
    fs::create_dir_all(&output).expect("a folder for programs");
    let program = output.join(name);
    let mut compiler = compiler::compiler();
    compiler.flags.extend(flags.iter().map(Into::into));
    let parts = [sources.join(format!("{family}.c")), sources.join("suite.c"), tree::check_folder().join("check.c")];
    compiler.compile(&parts, &program).unwrap_or_else(|message| panic!("{message} (is there a tree? `make build`)"));
    program
}

fn bad_input() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program("bad_input", "bad_input", &[]))
}

fn environment() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program("environment", "environment", &[]))
}

fn endings() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program("endings", "endings", &[]))
}

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ended { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Lines of either stream that contain this text.
    fn lines_with(&self, part: &str) -> Vec<&str> {
        self.out.lines().chain(self.err.lines()).filter(|line| line.contains(part)).collect()
    }

    fn assert_well(&self) {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
    }
}

/// Runs the job of a case, in its own directory, with these variables; `arguments` go to the launcher.
fn job(pes: u32, arguments: &[&str], variables: &[(&str, &str)], program: &Path, case: &str) -> Ended {
    let place = std::env::temp_dir().join(format!("selvedge-shmem-{}-{case}-{}", std::process::id(), unique()));
    fs::create_dir_all(&place).expect("a directory for the job");
    let output = Command::new(tree::launcher())
        .args(["run", "-n", &pes.to_string(), "--timeout", JOB_TIMEOUT_S])
        .args(arguments)
        .arg(program)
        .arg(case)
        .env("SELVEDGE_DIR", &place)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the launcher starts");
    let left = process::files_below(&place);
    let _ = fs::remove_dir_all(&place);
    assert!(left.is_empty(), "{case} left {left:?}");
    Ended::from(output)
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[test]
fn the_first_wrong_call_of_each_pe_is_reported_once() {
    let ended = job(2, &[], &[], bad_input(), "only_first_is_reported");
    ended.assert_well();
    let reports = ended.lines_with("selvedge: ");
    assert_eq!(reports.len(), 2, "{reports:?}");
    for pe in ["PE 0", "PE 1"] {
        let start = format!("selvedge: {pe}: shmem_long_put: argument dest");
        assert!(
            reports.iter().any(|line| line.starts_with(&start) && line.contains("not a symmetric address")),
            "{reports:?}"
        );
    }
    assert!(ended.out.is_empty(), "reports are on standard error: {}", ended.out);
}

#[test]
fn with_debugging_every_wrong_call_is_reported() {
    for variable in ["SHMEM_DEBUG", "SMA_DEBUG"] {
        let ended = job(2, &["--tag-output"], &[(variable, "")], bad_input(), "only_first_is_reported");
        ended.assert_well();
        assert_eq!(ended.lines_with("selvedge: PE 0: ").len(), 2, "{}", ended.err);
        assert_eq!(ended.lines_with("[1] selvedge: PE 1: shmem_int_put: argument dest").len(), 1, "{}", ended.err);
    }
}

/// The PEs of a job share one standard error, and print reports at the same time.
#[test]
fn reports_are_whole_lines() {
    let ended = job(3, &[], &[("SHMEM_DEBUG", "1")], bad_input(), "pes_that_are_none");
    ended.assert_well();
    for line in ended.err.lines() {
        assert!(line.starts_with("selvedge: PE ") && line.matches("selvedge: ").count() == 1, "{line:?}");
    }
}

#[test]
fn no_wrong_call_goes_unreported() {
    // A little less than the number of wrong calls that each PE makes in the case.
    for (case, pes, least) in [
        ("pes_that_are_none", 3, 4_000),
        ("addresses_that_are_not_symmetric", 2, 5_500),
        ("ranges_beyond", 2, 250),
        ("strides_that_are_none", 2, 24),
        ("contexts_that_are_none", 2, 75),
        ("atomics_between_words", 2, 500),
        ("operators_that_are_none", 2, 39),
        ("collectives", 2, 67),
        ("active_sets", 2, 76),
        ("heap", 2, 25),
        ("counters", 2, 55),
    ] {
        let ended = job(pes, &["--tag-output"], &[("SHMEM_DEBUG", "1")], bad_input(), case);
        ended.assert_well();
        let reports = ended.lines_with("[0] selvedge: PE 0: shmem").len();
        assert!(reports >= least, "{case}: {reports} reports");
    }
}

#[test]
fn sizes_that_are_none_end_the_program() {
    for wrong in ["nonsense", "-1", "", "m", "1.2.3", "12q", "99999999999999999999T"] {
        let ended = job(2, &[], &[("SHMEM_SYMMETRIC_SIZE", wrong)], environment(), "size_by_default");
        assert!(ended.code.is_some_and(|code| code != 0), "{wrong:?}: {:?}", ended.code);
        let said = ended.lines_with("SHMEM_SYMMETRIC_SIZE");
        assert!(!said.is_empty(), "{wrong:?}: {}", ended.err);
    }
}

#[test]
fn a_full_heap_is_reported_with_the_name_of_its_setting() {
    let ended = job(2, &[], &[("SHMEM_SYMMETRIC_SIZE", "1000000")], environment(), "size_in_bytes");
    ended.assert_well();
    let lines = ended.lines_with("SHMEM_SYMMETRIC_SIZE sets its size");
    assert_eq!(lines.len(), 1, "{}", ended.err);
    assert!(lines[0].contains("shmem_malloc: no block of 3145728 bytes"), "{}", lines[0]);
}

#[test]
fn a_size_of_the_old_name_that_is_none_counts_only_alone() {
    let both = [("SMA_SYMMETRIC_SIZE", "nonsense"), ("SHMEM_SYMMETRIC_SIZE", "200M")];
    job(2, &[], &both, environment(), "size_by_default").assert_well();
    assert_ne!(job(2, &[], &both[..1], environment(), "size_by_default").code, Some(0));
}

#[test]
fn texts_are_printed_once_for_a_job() {
    let ended = job(3, &[], &[("SHMEM_VERSION", "1")], environment(), "silent_by_default");
    assert_eq!(ended.lines_with("Selvedge").len(), 1, "{}{}", ended.out, ended.err);
    assert!(ended.lines_with("Selvedge")[0].contains("1.6"));
    let ended = job(3, &[], &[("SHMEM_INFO", "1")], environment(), "silent_by_default");
    for name in ["SHMEM_VERSION", "SHMEM_INFO", "SHMEM_SYMMETRIC_SIZE", "SHMEM_DEBUG"] {
        assert!(!ended.lines_with(name).is_empty(), "{name}: {}{}", ended.out, ended.err);
    }
    assert_eq!(job(3, &[], &[], environment(), "silent_by_default").out, "");
}

#[test]
fn one_of_several_statuses_of_global_exit() {
    for arguments in [&[][..], &["--mode", "host"]] {
        let ended = job(4, arguments, &[("ENDINGS_STATUS_BY_PE", "1")], endings(), "global_exit_of_all");
        assert!(ended.code.is_some_and(|code| (13..17).contains(&code)), "{:?} {}", ended.code, ended.err);
    }
}

#[test]
fn a_killed_pe_leaves_no_files() {
    // `job` looks for files after each of these.
    for (case, pes, code) in
        [("killed", 3, 137), ("aborted", 3, 134), ("crashed", 2, 139), ("exit_without_finalize", 3, 0)]
    {
        let ended = job(pes, &[], &[], endings(), case);
        assert_eq!(ended.code, Some(code), "{case}: {}", ended.err);
        assert_eq!(ended.lines_with("selvedge run: ").len(), usize::from(code != 0), "{case}: {}", ended.err);
    }
}

/// The other PEs live on, and none waits for the killed one: the launcher does not have to end the job.
#[test]
fn a_pe_that_is_killed_ends_the_others_reductions_in_a_node() {
    let ended = job(3, &["--keep-going", "--path", "cma"], &[], endings(), "killed_in_a_reduction");
    assert_eq!(ended.code, Some(137), "{}", ended.err);
    for pe in [0, 2] {
        let report = format!("PE {pe}: shmem_long_sum_reduce: ");
        assert_eq!(ended.lines_with(&report).len(), 1, "{}", ended.err);
    }
    assert!(ended.lines_with("timeout").is_empty(), "{}", ended.err);
}

/// The program of waits for a lost PE.
fn losses() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("lost/program.c");
        let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("losses");
        let compiled = compiler::compiler().compile(&[source], &program);
        compiled.unwrap_or_else(|message| panic!("{message} (is there a tree? `make build`)"));
        program
    })
}

/// Runs three PEs, of which the last ends in a way and the others wait in a call. Returns the job's exit code.
fn waits_for_a_lost_pe(arguments: &[&str], call: &str, end: &str, how: &str) -> Option<i32> {
    let place = std::env::temp_dir().join(format!("selvedge-losses-{}-{}", std::process::id(), unique()));
    fs::create_dir_all(&place).expect("a directory for the job");
    let output = Command::new(tree::launcher())
        .args(["run", "-n", "3", "--timeout", JOB_TIMEOUT_S, "--keep-going"])
        .args(arguments)
        .arg(losses())
        .args([call, end])
        .env("SELVEDGE_DIR", &place)
        .stdin(Stdio::null())
        .output()
        .expect("the launcher starts");
    let _ = fs::remove_dir_all(&place);
    let ended = Ended::from(output);
    for pe in 0..2 {
        let report = format!("selvedge: PE {pe}: PE 2 on ");
        let lines = ended.lines_with(&report);
        assert!(
            matches!(&lines[..], [line] if line.contains(how)),
            "{call}, {end}, {arguments:?}: {how}: {}{}",
            ended.out,
            ended.err
        );
    }
    assert!(ended.lines_with("did not wait").is_empty(), "{}", ended.out);
    ended.code
}

#[test]
fn a_pe_that_waits_for_a_lost_one_ends_itself() {
    let killed = "is lost: it was killed by SIGKILL";
    for call in [
        "barrier_all",
        "sync_all",
        "team_sync",
        "broadcast",
        "collect",
        "alltoall",
        "wait_until",
        "wait_any",
        "signal_wait",
        "malloc",
        "lock",
        "finalize",
    ] {
        assert_eq!(waits_for_a_lost_pe(&[], call, "kill", killed), Some(137), "{call}");
    }
    for call in ["barrier_all", "wait_until", "quiet", "get", "atomic"] {
        assert_eq!(waits_for_a_lost_pe(&["--mode", "host"], call, "kill", killed), Some(137), "{call}");
    }
}

#[test]
fn any_early_end_is_noticed() {
    assert_eq!(waits_for_a_lost_pe(&[], "barrier_all", "fail", "is lost: it exited with status 3"), Some(3));
    let exited = "is lost: it exited with status 0 before it had finalized";
    assert_eq!(waits_for_a_lost_pe(&[], "wait_until", "exit", exited), Some(1), "the waiting PEs have failed");
}

#[test]
fn pes_that_do_not_wait_go_on_after_a_loss() {
    let ended = Command::new(tree::launcher())
        .args(["run", "-n", "3", "--timeout", JOB_TIMEOUT_S, "--keep-going"])
        .arg(losses())
        .args(["none", "kill"])
        .stdin(Stdio::null())
        .output()
        .map(Ended::from)
        .expect("the launcher starts");
    assert_eq!(ended.code, Some(137), "{}", ended.err);
    assert_eq!(ended.lines_with(" went on").len(), 2, "{}{}", ended.out, ended.err);
}

/// Processor time of a process so far, in ticks of the clock of `/proc`: 10 ms.
fn ticks_of(pid: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// A quiet machine shows 1.5 %. The bound leaves room for slower ones; a wait that polls takes all of a core.
#[test]
fn a_pe_that_waits_for_long_leaves_its_core_to_others() {
    let mut job = Command::new(tree::launcher())
        .args(["run", "-n", "2", "--timeout", JOB_TIMEOUT_S])
        .arg(losses())
        .args(["wait_until", "compute"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the launcher starts");
    let mut lines = BufReader::new(job.stdout.take().expect("a pipe")).lines();
    let said: Vec<String> = (0..2).map(|_| lines.next().expect("both PEs run").expect("text")).collect();
    let waits = said.iter().find_map(|line| line.strip_prefix("PE 0, process ")?.strip_suffix(", runs"));
    let waits = waits.expect("PE 0 names its process");
    std::thread::sleep(Duration::from_secs(1));
    let before = ticks_of(waits);
    std::thread::sleep(Duration::from_secs(5));
    let used = ticks_of(waits) - before;
    // Not SIGINT, which a shell's jobs in the background ignore, and their children with them.
    let _ = Command::new("kill").args(["-TERM", &job.id().to_string()]).status();
    let _ = job.wait();
    assert!(used <= 500 * 4 / 100, "{used} ticks of 500");
}

#[test]
fn the_log_says_of_each_team_whether_it_has_nodes() {
    let nodes = program("nodes", "nodes_log", &[]);
    let said = |arguments: &[&str], variables: &[(&str, &str)], case: &str, part: &str| {
        let variables = [&[("SELVEDGE_LOG", "info")], variables].concat();
        let ended = job(2, arguments, &variables, &nodes, case);
        ended.assert_well();
        ended.lines_with(part).len()
    };
    let through = "go through aggregation nodes";
    let (world, own) = ("SHMEM_TEAM_WORLD, PE 0 of 2: its collective operations ", "are OpenSHMEM's own: ");
    let cma = &["--path", "cma"];
    assert_eq!(said(cma, &[], "disagreement", &format!("{world}{through}")), 1);
    let off = format!("{world}{own}SELVEDGE_SHMEM_COLLECTIVES is 0");
    assert_eq!(said(cma, &[("SELVEDGE_SHMEM_COLLECTIVES", "0")], "in_the_order_of_pes", &off), 1);
    assert_eq!(said(cma, &[], "refused_by_one", &format!("{world}{own}process 1 takes no part")), 1);
    // The world and 31 of 40 teams have one, in both runs.
    assert_eq!(said(cma, &[], "more_teams_than_groups", through), 1 + 2 * 31);
    assert_eq!(said(cma, &[], "more_teams_than_groups", "reached its limit of groups"), 2 * 2 * 9);
    assert_eq!(said(&[], &[], "more_teams_than_groups", through), if cores() < 2 { 0 } else { 1 + 2 * 31 });
}

/// Cores that this process may use, and so the PEs of a job.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs every collective by the library's own algorithms, over commands of the NIC.
#[test]
fn without_nodes_collectives_are_the_librarys_own() {
    for family in ["reductions", "collect", "broadcast", "teams"] {
        let off = &[("SELVEDGE_SHMEM_COLLECTIVES", "0")];
        all_cases(family, &format!("{family}_own"), &[], &["--path", "cma"], off);
    }
}

#[test]
fn a_failure_under_keep_going_leaves_the_others_alone() {
    let ended = job(3, &["--keep-going"], &[], endings(), "status_after_finalize");
    assert_eq!(ended.code, Some(5), "{}", ended.err);
}

/// Runs every case of the family, in a program with these flags.
fn all_cases(family: &str, name: &str, flags: &[&str], arguments: &[&str], variables: &[(&str, &str)]) {
    let program = program(family, name, flags);
    for Case { name: case, ranks, .. } in Case::list(&program).expect("a list of cases") {
        let ended = job(ranks, arguments, variables, &program, &case);
        assert_eq!(ended.code, Some(0), "{name} {case}: {}{}", ended.out, ended.err);
    }
}

#[test]
fn static_objects_of_a_program_at_a_fixed_address() {
    all_cases("data_segment", "data_segment_fixed", &["-no-pie", "-fno-pie"], &[], &[]);
}

#[test]
fn static_objects_of_a_program_at_a_fixed_address_by_commands() {
    all_cases("data_segment", "data_segment_fixed_cma", &["-no-pie", "-fno-pie"], &["--path", "cma"], &[]);
}

#[test]
fn static_objects_of_a_program_bound_at_once() {
    all_cases("data_segment", "data_segment_now", &["-pie", "-fPIE", "-O2", "-Wl,-z,now,-z,relro"], &[], &[]);
}

#[test]
fn a_program_without_a_launcher_is_a_job_of_one() {
    let heap = program("heap", "heap_alone", &[]);
    let ended = Ended::from(Command::new(heap).arg("alone").stdin(Stdio::null()).output().expect("starts"));
    ended.assert_well();
}
