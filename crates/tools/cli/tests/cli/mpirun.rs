// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge env` and `selvedge mpirun` as a user sees them. The launcher is a script that prints its arguments and
//! variables. The provider is an empty file, because nothing loads it here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, runs, wait_until};

/// A launcher script: reports that it is Open MPI's, or its arguments; exits with the given code.
const LAUNCHER: &str = r#"#!/bin/sh
if test "$1" = --version; then echo "mpirun (VERSION) 5.0"; exit 0; fi
for word in "$@"; do echo "word:$word"; done
env | grep -E '^(FI_|OMPI_|MPIR_)' | sort
case "$FAKE" in
    exit) exit 7;;
    kill) kill -KILL $$;;
    wait) sleep 1000 > /dev/null & sleep=$!
        trap 'echo told; kill $sleep; exit 9' TERM
        echo $$ > "$PLACE/launcher"; wait;;
esac
"#;

struct Tree {
    place: Place,
}

impl Tree {
    fn new(name: &str) -> Tree {
        let place = Place::new(name);
        let provider = place.file("tree/lib/libselvedge");
        fs::create_dir_all(&provider).unwrap();
        fs::write(provider.join("libselvedge-fi.so"), "").unwrap();
        fs::create_dir_all(place.file("openmpi")).unwrap();
        fs::create_dir_all(place.file("mpich")).unwrap();
        let tree = Tree { place };
        tree.launcher("openmpi/mpirun", "Open MPI");
        tree.launcher("mpich/mpirun", "HYDRA");
        tree
    }

    fn launcher(&self, name: &str, version: &str) {
        self.place.program(name, LAUNCHER.replace("VERSION", version).as_bytes());
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.file(name)
    }

    /// A command whose PATH has only these launchers, then the system's tools.
    fn command(&self, first: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        let mut path = vec![self.file(first)];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        command.args(arguments).stdin(Stdio::null()).env("PATH", std::env::join_paths(path).unwrap());
        command.env("SELVEDGE_PREFIX", self.file("tree")).env("SELVEDGE_DIR", self.file(""));
        command.env("PLACE", self.file(""));
        for name in ["FI_PROVIDER", "FI_PROVIDER_PATH", "OMPI_MCA_pml"] {
            command.env_remove(name);
        }
        command
    }

    fn output(&self, first: &str, arguments: &[&str]) -> Ended {
        Ended::from(self.command(first, arguments).output().unwrap())
    }
}

#[test]
fn a_shell_can_evaluate_the_environment() {
    let tree = Tree::new("env");
    let script = "eval \"$(\"$SELVEDGE\" env mpich)\" && echo $FI_PROVIDER $MPIR_CVAR_CH4_NETMOD \"$FI_PROVIDER_PATH\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("SELVEDGE", env!("CARGO_BIN_EXE_selvedge"));
    let said = Ended::from(shell.env("SELVEDGE_PREFIX", tree.file("tree")).output().unwrap());
    assert_eq!(said.out.trim(), format!("selvedge,tcp,ofi_rxm ofi {}", tree.file("tree/lib/libselvedge").display()));
    assert!(tree.output("mpich", &["env", "openmpi", "--shell", "csh"]).out.contains("setenv OMPI_MCA_osc '^ucx';"));
    let json = tree.output("mpich", &["env", "ofi", "--shell", "json"]).out;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["FI_PROVIDER"], "selvedge");
}

/// It follows libraries that the user preloads, and is set only if the tree has it. The variables for sanitizers come with it.
#[test]
fn the_library_for_ranks_is_preloaded() {
    let tree = Tree::new("preload");
    let said = |arguments: &[&str]| {
        let mut command = tree.command("openmpi", arguments);
        command.env("ASAN_OPTIONS", "detect_leaks=0");
        // The loader only warns about a library that it cannot load; ours is an empty file here.
        Ended::from(command.env("LD_PRELOAD", "/nowhere/libother.so").output().unwrap()).out
    };
    assert!(!said(&["env", "openmpi"]).contains("LD_PRELOAD="));
    fs::write(tree.file("tree/lib/libselvedge/libselvedge_mpi_preload.so"), "").unwrap();
    let value =
        format!("/nowhere/libother.so:{}", tree.file("tree/lib/libselvedge/libselvedge_mpi_preload.so").display());
    for whom in ["openmpi", "mpich", "ofi"] {
        assert!(said(&["env", whom]).contains(&value), "{whom}");
        assert!(said(&["env", whom]).contains("detect_leaks=0:verify_asan_link_order=0"), "{whom}");
        assert!(said(&["env", whom]).contains("TSAN_OPTIONS='ignore_noninstrumented_modules=1'"), "{whom}");
    }
    fs::write(tree.file("tree/lib/libselvedge/libselvedge_mpich_preload.so"), "").unwrap();
    for (whom, both) in [("openmpi", false), ("mpich", true), ("ofi", false)] {
        let found = said(&["env", whom]).contains("/nowhere/libother.so:")
            && said(&["env", whom]).contains("/libselvedge_mpich_preload.so");
        assert_eq!(found, both, "{whom}");
    }
    fs::write(tree.file("tree/lib/libselvedge/libselvedge_mpi_collectives.so"), "").unwrap();
    for (whom, is_mpi) in [("openmpi", true), ("mpich", true), ("ofi", false)] {
        assert_eq!(said(&["env", whom]).contains("libselvedge_mpi_collectives.so"), is_mpi, "{whom}");
    }
}

/// Compiles an empty program with these words for the compiler. False: it does not know them.
fn compiled(program: &Path, words: &[&str]) -> bool {
    let source = program.with_extension("c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.arg(&source).arg("-o").arg(program).args(words).stderr(Stdio::null()).status().unwrap().success()
}

/// Only the ranks of that program load the runtime, each program its own.
#[test]
fn the_runtime_of_a_sanitizer_comes_first() {
    let tree = Tree::new("sanitizer");
    fs::write(tree.file("tree/lib/libselvedge/libselvedge_mpi_preload.so"), "").unwrap();
    let program = tree.file("sanitized");
    if !compiled(&program, &["-fsanitize=address"]) {
        return;
    }
    let program = program.to_str().unwrap();
    for (whom, option) in [("openmpi", "-x LD_PRELOAD="), ("mpich", "-env LD_PRELOAD ")] {
        let said =
            tree.output(whom, &["mpirun", "--mpi", whom, "--dry-run", "-n", "1", "sh", ":", "-n", "2", program]).out;
        let line = said.lines().last().unwrap().replace('\'', "");
        assert!(line.contains(&format!(" -n 1 sh : -n 2 {option}libasan.so.")), "{line}");
        assert!(line.contains("libselvedge_mpi_preload.so ") && line.ends_with(program), "{line}");
        assert!(!said.lines().any(|line| line.starts_with("export LD_PRELOAD") && line.contains("libasan")), "{said}");
    }
}

/// The line names the program and why. musl's loader would end it, so it gets none of our libraries.
#[test]
fn a_program_that_cannot_load_our_libraries_is_named() {
    let tree = Tree::new("lacks");
    fs::write(tree.file("tree/lib/libselvedge/libselvedge_mpi_preload.so"), "").unwrap();
    let program = tree.file("without");
    for (words, why) in [
        (&["-static"][..], "without is statically linked: its memory is not shared"),
        (&["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"], "without is linked to musl"),
    ] {
        if !compiled(&program, words) {
            continue;
        }
        let path = program.to_str().unwrap();
        let said = tree.output("openmpi", &["mpirun", "--mpi", "openmpi", "-n", "2", path]);
        assert_eq!(said.err.matches(why).count(), 1, "{}", said.err);
        let dry = tree.output("openmpi", &["mpirun", "--mpi", "openmpi", "--dry-run", "-n", "2", path]);
        assert_eq!(dry.out.contains("-x 'LD_PRELOAD=' "), why.contains("musl"), "{}", dry.out);
    }
}

/// Open MPI finds the component beside its own, and only if the tree has it.
#[test]
fn open_mpi_finds_the_component_of_the_tree() {
    let tree = Tree::new("component");
    let said = |whom: &str| {
        let mut command = tree.command("openmpi", &["env", whom]);
        Ended::from(command.env_remove("OMPI_MCA_mca_base_component_path").output().unwrap()).out
    };
    assert!(!said("openmpi").contains("component_path"));
    fs::create_dir_all(tree.file("tree/lib/openmpi")).unwrap();
    fs::write(tree.file("tree/lib/openmpi/mca_coll_selvedge.so"), "").unwrap();
    let value = format!("SYSTEM_DEFAULT:{}:USER_DEFAULT", tree.file("tree/lib/openmpi").display());
    for (whom, is_open_mpi) in [("openmpi", true), ("mpich", false), ("ofi", false)] {
        assert_eq!(said(whom).contains(&value), is_open_mpi, "{whom}");
    }
}

#[test]
fn a_tree_without_the_provider_prints_nothing() {
    let tree = Tree::new("none");
    fs::remove_file(tree.file("tree/lib/libselvedge/libselvedge-fi.so")).unwrap();
    for arguments in [&["env", "ofi"][..], &["mpirun", "-n", "1", "true"]] {
        let said = tree.output("openmpi", arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
        assert!(said.err.contains("libselvedge-fi.so: no such file"), "{}", said.err);
    }
}

#[test]
fn the_first_launcher_in_path_decides_the_mpi_of_a_script() {
    let tree = Tree::new("path");
    let said = tree.output("openmpi", &["mpirun", "-n", "2", "--tag-output", "true", "--verbose"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let words: Vec<&str> = said.out.lines().filter_map(|line| line.strip_prefix("word:")).collect();
    assert_eq!(words, ["-n", "2", "--tag-output", "true", "--verbose"], "what is the program's stays the program's");
    assert!(said.out.contains("OMPI_MCA_pml=cm\n") && !said.out.contains("MPIR_CVAR"), "{}", said.out);
    let said = tree.output("mpich", &["mpirun", "-n", "2", "true"]);
    assert!(said.out.contains("MPIR_CVAR_CH4_NETMOD=ofi\n") && said.out.contains("FI_PROVIDER=selvedge,tcp,ofi_rxm\n"));
}

#[test]
fn the_mpi_and_the_launcher_can_be_named() {
    let tree = Tree::new("named");
    let said = tree.output("openmpi", &["mpirun", "--mpi", "mpich", "--launcher"]);
    assert!(said.code != Some(0));
    let launcher = tree.file("mpich/mpirun");
    let launcher = launcher.to_str().unwrap();
    let said = tree.output("openmpi", &["mpirun", "-n", "2", "--launcher", launcher, "true"]);
    assert!(said.out.contains("MPIR_CVAR_NOLOCAL=1\n"), "{} {}", said.out, said.err);
    let said = tree.output("openmpi", &["mpirun", "--mpi=mpich", "--launcher", "no-such-launcher", "true"]);
    assert_eq!(said.code, Some(127));
    let said = tree.output("openmpi", &["mpirun", "--mpi", "lam", "true"]);
    assert!(said.code == Some(2) && said.err.contains("mpich"), "{}", said.err);
    let said = tree.output("openmpi", &["mpirun", "-n", "2", "--mpi", "lam", "true"]);
    assert!(said.code == Some(1) && said.err.contains("mpich"), "{}", said.err);
}

#[test]
fn a_virtual_environment_has_its_own_launcher() {
    let tree = Tree::new("venv");
    fs::create_dir_all(tree.file("venv/bin")).unwrap();
    fs::write(tree.file("venv/pyvenv.cfg"), "").unwrap();
    tree.launcher("venv/bin/mpirun", "HYDRA");
    tree.launcher("venv/bin/python", "unused");
    let python = tree.file("venv/bin/python");
    let said = tree.output("openmpi", &["mpirun", "--dry-run", python.to_str().unwrap()]);
    let launcher = format!("{} {}", tree.file("venv/bin/mpirun").display(), python.display());
    assert_eq!(said.out.lines().last(), Some(launcher.as_str()), "{}", said.err);
}

#[test]
fn a_dry_run_only_prints() {
    let tree = Tree::new("dry");
    let said = tree.output("openmpi", &["mpirun", "--dry-run", "-n", "2", "sh", "-c", "a b"]);
    let launcher = tree.file("openmpi/mpirun");
    assert_eq!(said.out.lines().last(), Some(format!("{} -n 2 sh -c 'a b'", launcher.display()).as_str()));
    assert!(said.out.contains("export OMPI_MCA_mtl=ofi\n") && !said.out.contains("word:"));
}

#[test]
fn verbose_prints_the_variables() {
    let tree = Tree::new("verbose");
    let mut command = tree.command("openmpi", &["mpirun", "--verbose", "-n", "1", "true"]);
    let said = Ended::from(command.env("FI_PROVIDER", "tcp").output().unwrap());
    assert!(
        said.err.contains("Open MPI, by ") && said.err.contains("FI_PROVIDER=selvedge,tcp,ofi_rxm (instead of tcp)")
    );
    let root = rustix::process::geteuid().is_root();
    assert_eq!(said.err.contains("refuses to run as root"), root);
    assert_eq!(said.out.contains("OMPI_ALLOW_RUN_AS_ROOT=1\n"), root);
    assert!(tree.output("openmpi", &["mpirun", "--mpi", "openmpi", "-n", "1", "true"]).err.is_empty());
}

#[test]
fn the_exit_status_is_the_launchers() {
    let tree = Tree::new("status");
    for (fake, code) in [("exit", 7), ("kill", 137), ("", 0)] {
        let mut command = tree.command("openmpi", &["mpirun", "-n", "1", "true"]);
        assert_eq!(command.env("FAKE", fake).output().unwrap().status.code(), Some(code), "{fake}");
    }
}

#[test]
fn signals_reach_the_launcher() {
    let tree = Tree::new("signal");
    let mut command = tree.command("openmpi", &["mpirun", "-n", "1", "true"]);
    let child = command.env("FAKE", "wait").stdout(Stdio::piped()).spawn().unwrap();
    let launcher = tree.place.wait_for_line("launcher");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(9));
    assert!(ended.out.ends_with("told\n"), "{}", ended.out);
    wait_until("the launcher is gone", || !runs(&launcher));
}

/// An MPI over other networks only would run without Selvedge, and say nothing.
#[test]
fn an_mpi_that_cannot_load_the_provider_is_refused() {
    let tree = Tree::new("ucx");
    for folder in ["ucx/bin", "ucx/lib"] {
        fs::create_dir_all(tree.file(folder)).unwrap();
    }
    tree.launcher("ucx/bin/mpirun", "HYDRA");
    let (source, library) = (tree.file("device.c"), tree.file("ucx/lib/libmpi.so.12"));
    let run = || tree.output("ucx/bin", &["mpirun", "-n", "2", "sh", "-c", "true"]);
    for (device, code) in [("ch4:ucx", 1), ("ch4:ucx ofi", 0)] {
        fs::write(&source, format!("const char device[] = \"{device}\";\n")).unwrap();
        let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        assert!(compile.args(["-shared", "-o"]).arg(&library).arg(&source).status().unwrap().success());
        let said = run();
        assert_eq!(said.code, Some(code), "{said:?}");
        if code != 0 {
            assert_eq!((said.err.lines().count(), said.out.as_str()), (1, ""), "{said:?}");
            for words in ["ch4:ucx", library.to_str().unwrap(), "pip install mpich"] {
                assert!(said.err.contains(words), "{words}: {}", said.err);
            }
        }
    }
}
