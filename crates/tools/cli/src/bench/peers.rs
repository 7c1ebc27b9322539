// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The peers: UCX through its `ucx_perftest`, Open MPI and MPICH through the program of `bench/mpi`, which the
//! peer's `mpicc` compiles from this command. A missing peer is reported.
//!
//! Search order of a peer: the prefix in `SELVEDGE_UCX`, `SELVEDGE_OPENMPI` or `SELVEDGE_MPICH`; otherwise
//! `peers/<family>` of the installed tree, `build/peers/<family>` below the current folder (where `bench/get-peers.sh`
//! puts them), and PATH.

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;

use super::cases::{Case, Group, Scale};
use super::process::{Running, measurements, output};
use super::record::Measurement;

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../bench/", $name)))
    };
}

const PEER_SOURCES: [(&str, &str); 12] = [
    source!("rank.h"),
    source!("rank.c"),
    source!("away.h"),
    source!("away.c"),
    source!("mpi/mpi_rank.h"),
    source!("mpi/main.c"),
    source!("mpi/pt2pt.c"),
    source!("mpi/matching.c"),
    source!("mpi/overlap.c"),
    source!("mpi/away.c"),
    source!("mpi/onesided.c"),
    source!("mpi/collectives.c"),
];

/// Time limit of a compiler, and of a program that prints its version.
pub const HELPER_LIMIT: Duration = Duration::from_secs(60);

// ---- MPI ----

/// A peer MPI with the measuring program compiled for it.
pub struct Mpi {
    family: &'static str,
    bin: PathBuf,
    /// "Open MPI 5.0", for the report.
    pub version: String,
    program: PathBuf,
    _directory: TempDir,
}

impl Mpi {
    pub fn find(family: &'static str, tree_prefix: &Path) -> Result<Mpi> {
        let (bin, version) =
            installed(family, tree_prefix).into_iter().next().ok_or_else(|| anyhow!("not installed"))?;
        let (directory, program) = compile(&bin)?;
        Ok(Mpi { family, bin, version, program, _directory: directory })
    }

    pub fn measure(
        &self,
        what: &str,
        case: &Case,
        scale: &Scale,
        pinned: bool,
        limit: Duration,
    ) -> Result<Vec<Measurement>> {
        let mut command = Command::new(self.bin.join("mpiexec"));
        command.args(["-n", "2"]);
        match self.family {
            "openmpi" if pinned => command.args(["--bind-to", "core"]),
            "openmpi" => command.args(["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]),
            _ => command.args(["-bind-to", if pinned { "core" } else { "none" }]),
        };
        command.arg(&self.program).args(["--prefix", self.family, "--what", what]);
        command.args(program_arguments(&[case], scale));
        // Open MPI refuses to run as root, the user of many containers, unless both variables allow it.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("PATH", path_with(&self.bin));
        measurements(&mut command, limit)
    }
}

/// Every installed MPI of this family, once: its `bin` directory and its version.
pub fn installed(family: &str, tree_prefix: &Path) -> Vec<(PathBuf, String)> {
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for bin in places(family, tree_prefix).into_iter().filter(|bin| bin.join("mpicc").is_file()) {
        let version = version_of(family, &bin).filter(|version| found.iter().all(|(_, known)| known != version));
        found.extend(version.map(|version| (bin, version)));
    }
    found
}

/// Compiles the measuring program for this MPI. Returns the program and its temporary directory, which must outlive it.
pub fn compile(bin: &Path) -> Result<(TempDir, PathBuf)> {
    let directory = tempfile::Builder::new().prefix("selvedge-bench-").tempdir()?;
    fs::create_dir(directory.path().join("mpi"))?;
    for (name, text) in PEER_SOURCES {
        fs::write(directory.path().join(name), text)?;
    }
    let program = directory.path().join("program");
    let mut compile = Command::new(bin.join("mpicc"));
    compile.current_dir(directory.path()).args(["-std=gnu11", "-O2", "-I.", "-o"]).arg(&program);
    compile.args(PEER_SOURCES.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".c")));
    compile.args(["-lm", "-pthread"]).env("PATH", path_with(bin));
    output(&mut compile, HELPER_LIMIT).context("mpicc failed")?;
    Ok((directory, program))
}

/// The `bin` directories to search, in order. A prefix that the user sets is the only one.
pub fn places(family: &str, tree_prefix: &Path) -> Vec<PathBuf> {
    let named = selvedge_settings::value(&format!("SELVEDGE_{}", family.to_uppercase()));
    if let Some(prefix) = named {
        return vec![PathBuf::from(prefix).join("bin")];
    }
    let mut out = vec![tree_prefix.join("peers").join(family).join("bin")];
    if let Ok(here) = std::env::current_dir() {
        out.push(here.join("build/peers").join(family).join("bin"));
    }
    out.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    out
}

pub fn path_with(bin: &Path) -> OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).unwrap_or(rest)
}

/// The version of the launcher beside this mpicc, if it is of the family.
fn version_of(family: &str, bin: &Path) -> Option<String> {
    let printed = output(Command::new(bin.join("mpiexec")).arg("--version"), HELPER_LIMIT).ok()?;
    let number = |line: &str| line.split_ascii_whitespace().last().map(str::to_owned);
    match family {
        "openmpi" => {
            let line = printed.lines().find(|l| l.contains("Open MPI") || l.contains("OpenRTE"))?;
            Some(format!("Open MPI {}", number(line)?))
        }
        _ => {
            printed.contains("HYDRA").then_some(())?;
            let line = printed.lines().find(|l| l.trim_start().starts_with("Version:"))?;
            Some(format!("MPICH {}", number(line)?))
        }
    }
}

/// The arguments of every program that includes rank.h. Programs of bench/shmem also get the cases to measure.
pub fn program_arguments(batch: &[&Case], scale: &Scale) -> Vec<String> {
    let mut out = Vec::new();
    let mut option = |name: &str, value: String| out.extend([name.to_owned(), value]);
    let list = |values: &[u64]| values.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    option("--budget-ms", batch[0].budget_ms(scale).to_string());
    option("--limit-ms", batch[0].limit_ms(scale).to_string());
    option("--ring-bytes", scale.ring_bytes.to_string());
    if let Some(sizes) = batch.iter().map(|case| case.sizes(scale)).find(|sizes| !sizes.is_empty()) {
        option("--sizes", list(&sizes));
    }
    if let Some(depths) = batch.iter().map(|case| case.depths(scale)).find(|depths| !depths.is_empty()) {
        option("--depths", list(&depths));
    }
    if batch[0].group() == Group::Shmem {
        option("--what", batch.iter().map(|case| case.bare_name()).collect::<Vec<_>>().join(","));
    }
    out
}

// ---- UCX ----

pub struct Ucx {
    program: PathBuf,
    pub version: String,
}

/// One of ucx_perftest's tests over shared memory, by its lower layer (UCT).
struct UcxTest {
    test: &'static str,
    layout: &'static str,
}

/// Number and interval of the client's attempts to connect to the server.
const CONNECT_TRIES: u32 = 40;
const CONNECT_PAUSE: Duration = Duration::from_millis(50);
const MIB: f64 = 1_048_576.0;

impl Ucx {
    pub fn find(tree_prefix: &Path) -> Result<Ucx> {
        let program = places("ucx", tree_prefix)
            .into_iter()
            .map(|directory| directory.join("ucx_perftest"))
            .find(|program| program.is_file())
            .ok_or_else(|| anyhow!("not installed (make peers, or Debian's ucx-utils)"))?;
        let info = program.with_file_name("ucx_info");
        let printed = output(Command::new(info).arg("-v"), HELPER_LIMIT).unwrap_or_default();
        let number = printed.lines().next().and_then(|line| line.split_ascii_whitespace().last()).unwrap_or("?");
        Ok(Ucx { program, version: format!("UCX {number}") })
    }

    pub fn measure(&self, case: &Case, scale: &Scale, cores: &[usize], limit: Duration) -> Result<Vec<Measurement>> {
        let pair = self.pair(cores);
        let budget_ns = scale.budget_ms * 1e6;
        match case.name.trim_start_matches("extoll_") {
            "ucx:am_lat" => pair.latency(case.name, &UcxTest { test: "am_lat", layout: "short" }, budget_ns, limit),
            "ucx:put_lat" => pair.latency(case.name, &UcxTest { test: "put_lat", layout: "short" }, budget_ns, limit),
            "ucx:am_rate" => pair.rate(case.name, budget_ns, limit),
            _ => case.sizes(scale).into_iter().map(|size| pair.bandwidth(case.name, size, budget_ns, limit)).collect(),
        }
    }

    fn pair<'a>(&'a self, cores: &[usize]) -> UcxPair<'a> {
        let at = |n: usize| cores.get(n).or(cores.first()).copied().unwrap_or(0);
        UcxPair { program: &self.program, server_cpu: at(1), client_cpu: at(0) }
    }
}

struct UcxPair<'a> {
    program: &'a Path,
    server_cpu: usize,
    client_cpu: usize,
}

/// The last line of `ucx_perftest -v`.
#[derive(Debug, PartialEq)]
struct UcxLine {
    quantile_us: f64,
    overall_us: f64,
    mib_per_s: f64,
    messages_per_s: f64,
}

impl UcxPair<'_> {
    /// Measures half round trips. The program reports one quantile a run, so it runs twice. If the machine is so much
    /// quieter the second time that the 99th percentile is below the first median, no percentile is reported.
    fn latency(&self, name: &str, test: &UcxTest, budget_ns: f64, limit: Duration) -> Result<Vec<Measurement>> {
        const STEP_NS: f64 = 500.0;
        let iterations = count(budget_ns, STEP_NS);
        let median = self.run(test, 8, iterations, 50.0, limit)?;
        let p99 = self.run(test, 8, iterations, 99.0, limit)?;
        Ok(vec![Measurement {
            median_ns: Some(median.quantile_us * 1e3),
            p99_ns: Some(p99.quantile_us * 1e3).filter(|_| p99.quantile_us >= median.quantile_us),
            ..self.measurement(name, 8)
        }])
    }

    fn rate(&self, name: &str, budget_ns: f64, limit: Duration) -> Result<Vec<Measurement>> {
        const STEP_NS: f64 = 200.0;
        let iterations = count(budget_ns, STEP_NS);
        let line = self.run(&UcxTest { test: "am_bw", layout: "short" }, 8, iterations, 50.0, limit)?;
        Ok(vec![Measurement {
            median_ns: Some(1e9 / line.messages_per_s),
            rate_per_s: Some(line.messages_per_s),
            ..self.measurement(name, 8)
        }])
    }

    fn bandwidth(&self, name: &str, size: u64, budget_ns: f64, limit: Duration) -> Result<Measurement> {
        const BYTES_PER_NS: f64 = 10.0;
        let iterations = count(budget_ns, size as f64 / BYTES_PER_NS);
        let line = self.run(&UcxTest { test: "put_bw", layout: "short" }, size, iterations, 50.0, limit)?;
        Ok(Measurement {
            median_ns: Some(line.overall_us * 1e3),
            bandwidth_bytes_per_s: Some(line.mib_per_s * MIB),
            ..self.measurement(name, size)
        })
    }

    fn measurement(&self, name: &str, size: u64) -> Measurement {
        Measurement {
            case: name.to_owned(),
            size_bytes: Some(size),
            cpu: Some(self.client_cpu as i64),
            ..Measurement::default()
        }
    }

    /// Runs a server and a client on this machine, each on its core. Both get the test: a server of UCX 1.13 takes it from
    /// its client, one of UCX 1.22 takes everything but the device, and ends without one.
    fn run(&self, test: &UcxTest, size: u64, iterations: u64, quantile: f64, limit: Duration) -> Result<UcxLine> {
        let port = free_port()?.to_string();
        let (size, warm_up, iterations) = (size.to_string(), (iterations / 10 + 1).to_string(), iterations.to_string());
        let test = ["-t", test.test, "-d", "memory", "-x", "posix", "-D", test.layout];
        let amount = ["-s", &size, "-n", &iterations, "-w", &warm_up];
        let command = |cpu: usize| {
            let mut command = Command::new(self.program);
            command.args(["-p", &port, "-c", &cpu.to_string()]).args(test).args(amount);
            command
        };
        let mut server = Running::start(&mut command(self.server_cpu))?;
        let mut client = command(self.client_cpu);
        client.args(["-v", "-f", "-R", &quantile.to_string(), "127.0.0.1"]);
        let printed = self.connect(&mut client, limit);
        server.end();
        // A server that ends first leaves its client only a closed connection.
        let printed = printed.map_err(|error| match server.error_lines() {
            lines if lines.is_empty() => error,
            lines => error.context(format!("ucx_perftest's server failed:{lines}")),
        })?;
        printed.lines().rev().find_map(ucx_line).ok_or_else(|| anyhow!("its output has no line of results:\n{printed}"))
    }

    /// Runs the client, and repeats while the server does not listen yet.
    fn connect(&self, client: &mut Command, limit: Duration) -> Result<String> {
        let until = Instant::now() + limit;
        for tried in 1.. {
            thread::sleep(CONNECT_PAUSE);
            let left = until.saturating_duration_since(Instant::now());
            match output(client, left) {
                Ok(printed) => return Ok(printed),
                Err(error) if tried == CONNECT_TRIES || left.is_zero() => return Err(error),
                Err(error) if !error.to_string().contains("Connection refused") => return Err(error),
                Err(_) => {}
            }
        }
        bail!("unreachable server")
    }
}

fn count(budget_ns: f64, step_ns: f64) -> u64 {
    (budget_ns / step_ns).clamp(20.0, 5e6) as u64
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Parses: iterations; quantile, average, overall in microseconds; then MiB/s and messages/s, each average and overall.
fn ucx_line(line: &str) -> Option<UcxLine> {
    let numbers: Vec<f64> = line.split(',').map(|n| n.trim().parse().ok()).collect::<Option<_>>()?;
    let [_, quantile_us, _, overall_us, _, mib_per_s, _, messages_per_s] = numbers[..] else { return None };
    Some(UcxLine { quantile_us, overall_us, mib_per_s, messages_per_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::portals::CASES;

    #[test]
    fn the_output_of_ucx_is_parsed() {
        let line = ucx_line("5000,1.704,1.733,1.734,36064.27,36064.28,577144,577145").unwrap();
        let wanted = UcxLine { quantile_us: 1.704, overall_us: 1.734, mib_per_s: 36064.28, messages_per_s: 577145.0 };
        assert_eq!(line, wanted);
        assert_eq!(ucx_line("iterations,50.0_percentile_lat,avg_lat"), None);
        assert_eq!(ucx_line("1,2,3"), None);
    }

    /// A stand-in for UCX: a server that ends at once, as that of UCX 1.22 without a device, and a client that says no more
    /// than that.
    #[test]
    fn the_reason_of_a_server_that_ends_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("ucx_perftest");
        let script = "#!/bin/sh\ncase \"$*\" in *127.0.0.1) exit 1;; esac\n\
                      case \"$*\" in *'-d memory'*) echo 'no such test' >&2;; *) echo 'no device' >&2;; esac\nexit 1\n";
        let text = directory.path().join("text");
        fs::write(&text, script).unwrap();
        // Another process writes the program: what this one holds open for writing, a child of another test holds too.
        assert!(Command::new("install").args([&text, &program]).status().unwrap().success());
        let pair = UcxPair { program: &program, server_cpu: 0, client_cpu: 0 };
        let error = pair.run(&UcxTest { test: "am_lat", layout: "short" }, 8, 20, 50.0, HELPER_LIMIT).unwrap_err();
        assert!(format!("{error:#}").contains("no such test"), "{error:#}");
    }

    #[test]
    fn programs_get_the_sizes_or_depths_of_the_case() {
        let case = CASES.iter().find(|c| c.name == "match_posted").unwrap();
        let arguments = program_arguments(&[case], &Scale::SMOKE).join(" ");
        assert!(arguments.contains("--depths 1,16,64") && !arguments.contains("--sizes"), "{arguments}");
    }

    #[test]
    fn programs_of_openshmem_get_the_cases() {
        let batch: Vec<_> = crate::bench::shmem::CASES.iter().filter(|c| c.name.starts_with("shmem_put")).collect();
        let arguments = program_arguments(&batch, &Scale::SMOKE).join(" ");
        assert!(arguments.contains("--what put,put_flag") && arguments.contains("--sizes 8,4096"), "{arguments}");
    }

    #[test]
    fn a_prefix_that_was_named_is_the_only_place() {
        let path = path_with(Path::new("/first/bin"));
        assert_eq!(std::env::split_paths(&path).next(), Some(PathBuf::from("/first/bin")));
        let found = places("nosuchfamily", Path::new("/tree"));
        assert_eq!(found[0], Path::new("/tree/peers/nosuchfamily/bin"));
    }
}
