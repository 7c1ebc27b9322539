// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Detects whether a computing rank is in a loop that changes nothing, such as a loop that polls memory.
//!
//! Such a rank waits: the memory that it reads changes only when other ranks run. A rank that does anything else
//! computes, and continues in the same turn, so that its run does not depend on the speed of this computer.
//!
//! The process is stopped and executes single instructions (ptrace(2)). It polls if it returns to the instruction where
//! it began with every register as before, [`ROUNDS`] times in a row by the same states, without a system call. The
//! registers of the vector units count, too. Such a loop could still change memory that it does not read. A number that
//! it counted in memory would show in the flags. So a loop that counts its rounds is not recognised, nor one longer
//! than [`STEPS_MAX`].
//!
//! A process in a system call is not examined, because a single instruction of it may block for ever.
//!
//! Cost: some microseconds for each instruction, so up to a millisecond or two for a rank that computes.

/// The observed behaviour of a computing rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behaviour {
    /// It is in a loop that changes nothing.
    Polls,
    Computes,
    /// It cannot be observed: it has several threads, another process traces it, it is forbidden, or it has ended.
    Unknown,
}

/// The longest loop that is recognised, in instructions.
#[cfg(target_arch = "x86_64")]
const STEPS_MAX: usize = 256;
/// Rounds that must be equal to the first.
#[cfg(target_arch = "x86_64")]
const ROUNDS: usize = 3;

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn observe(_: u32) -> Behaviour {
    Behaviour::Unknown
}

#[cfg(target_arch = "x86_64")]
pub(super) fn observe(pid: u32) -> Behaviour {
    if !has_one_thread(pid) {
        return Behaviour::Unknown;
    }
    let Some(mut traced) = Traced::stop(pid) else { return Behaviour::Unknown };
    match traced.goes_round() {
        Some(true) => Behaviour::Polls,
        Some(false) => Behaviour::Computes,
        None => Behaviour::Unknown,
    }
}

#[cfg(target_arch = "x86_64")]
use x86::{Traced, has_one_thread};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::ffi::c_void;
    use std::mem::zeroed;
    use std::ptr::{from_mut, null_mut, without_provenance_mut};

    use super::{ROUNDS, STEPS_MAX};

    /// The general registers, the instruction pointer and the flags.
    const REGISTERS: usize = size_of::<libc::user_regs_struct>() / 8;
    type Registers = [u64; REGISTERS];
    /// Room for the registers of the vector units, in words.
    const VECTOR_WORDS: usize = 2048;
    const NT_X86_XSTATE: usize = 0x202;

    /// The reason of a stop of the process.
    #[derive(PartialEq, Eq)]
    enum Stopped {
        /// Stopped by this tracer.
        Here,
        /// Stopped by a signal that must be delivered.
        Signal(i32),
        /// The process has ended, or another signal holds it.
        Otherwise,
    }

    /// A process that is stopped and traced. Dropping this continues it.
    pub(super) struct Traced {
        pid: libc::pid_t,
        /// The signal to deliver when it continues.
        signal: i32,
    }

    pub(super) fn has_one_thread(pid: u32) -> bool {
        std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() == 1)
    }

    impl Traced {
        pub(super) fn stop(pid: u32) -> Option<Traced> {
            let pid = pid as libc::pid_t;
            // SAFETY: both requests take no addresses.
            unsafe {
                if libc::ptrace(libc::PTRACE_SEIZE, pid, null_mut::<c_void>(), null_mut::<c_void>()) != 0 {
                    return None;
                }
                let mut traced = Traced { pid, signal: 0 };
                libc::ptrace(libc::PTRACE_INTERRUPT, pid, null_mut::<c_void>(), null_mut::<c_void>());
                (traced.await_stop() == Stopped::Here).then_some(traced)
            }
        }

        /// Whether it is in a loop that changes nothing. `None`: it has ended, or a signal has come.
        pub(super) fn goes_round(&mut self) -> Option<bool> {
            if self.is_in_system_call()? || self.is_at_system_call()? {
                return Some(false);
            }
            // A stop between system calls may differ from a stop after an instruction, so the first instruction does not count.
            self.step()?;
            let (first, vectors) = (self.registers()?, self.vectors()?);
            let mut states = vec![first];
            loop {
                if self.is_at_system_call()? {
                    return Some(false);
                }
                self.step()?;
                let state = self.registers()?;
                if state == first {
                    break;
                }
                states.push(state);
                if states.len() > STEPS_MAX {
                    return Some(false);
                }
            }
            for _ in 0..ROUNDS {
                if self.vectors()? != vectors {
                    return Some(false);
                }
                for state in states.iter().skip(1).chain([&first]) {
                    self.step()?;
                    if self.registers()? != *state {
                        return Some(false);
                    }
                }
            }
            Some(self.vectors()? == vectors)
        }

        fn step(&mut self) -> Option<()> {
            // SAFETY: the request takes no addresses, and the process is stopped.
            unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, null_mut::<c_void>(), null_mut::<c_void>()) };
            (self.await_stop() == Stopped::Here).then_some(())
        }

        fn await_stop(&mut self) -> Stopped {
            // SAFETY: all bits zero is a valid siginfo_t, which waitid fills; `si_status` is a child's. WNOWAIT: not
            // reaped.
            let (code, status) = unsafe {
                let mut info: libc::siginfo_t = zeroed();
                let flags = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::__WALL;
                while libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, flags) != 0 {
                    if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                        return Stopped::Otherwise;
                    }
                }
                (info.si_code, info.si_status())
            };
            match (code, status & 0xff, status >> 8) {
                (libc::CLD_TRAPPED, libc::SIGTRAP, _) => Stopped::Here,
                (libc::CLD_TRAPPED, signal, 0) => {
                    self.signal = signal;
                    Stopped::Signal(signal)
                }
                _ => Stopped::Otherwise,
            }
        }

        fn registers(&self) -> Option<Registers> {
            let mut registers = [0u64; REGISTERS];
            // SAFETY: the request fills a `user_regs_struct`, which is as long as the array; the process is stopped.
            let read = unsafe {
                libc::ptrace(
                    libc::PTRACE_GETREGS,
                    self.pid,
                    null_mut::<c_void>(),
                    registers.as_mut_ptr().cast::<c_void>(),
                )
            };
            (read == 0).then_some(registers)
        }

        fn vectors(&self) -> Option<Vec<u64>> {
            let mut words = vec![0u64; VECTOR_WORDS];
            let mut area = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: VECTOR_WORDS * 8 };
            let which = without_provenance_mut::<c_void>(NT_X86_XSTATE);
            // SAFETY: the request fills at most `iov_len` bytes of `words`, which lives across it; the process is stopped.
            let read =
                unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.pid, which, from_mut(&mut area).cast::<c_void>()) };
            (read == 0 && area.iov_len < VECTOR_WORDS * 8).then_some(words)
        }

        /// Whether it was stopped in the kernel. Its next instruction would continue the system call, and may block.
        fn is_in_system_call(&self) -> Option<bool> {
            Some(self.registers()?[ORIGINAL_RAX] as i64 >= 0)
        }

        /// Whether the next instruction enters the kernel: `syscall`, `sysenter` or `int`.
        fn is_at_system_call(&self) -> Option<bool> {
            let address = self.registers()?[RIP];
            let at = without_provenance_mut::<c_void>(address as usize);
            // SAFETY: the request reads a word of the other process and takes no address of this one. Its result may be
            // -1, and those bytes are no instruction that enters the kernel.
            let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, self.pid, at, null_mut::<c_void>()) };
            let [first, second, ..] = word.to_le_bytes();
            Some(matches!((first, second), (0x0f, 0x05 | 0x34) | (0xcd, _)))
        }
    }

    /// The places of the instruction pointer and of the number of the system call in [`Registers`].
    const RIP: usize = std::mem::offset_of!(libc::user_regs_struct, rip) / 8;
    const ORIGINAL_RAX: usize = std::mem::offset_of!(libc::user_regs_struct, orig_rax) / 8;

    impl Drop for Traced {
        fn drop(&mut self) {
            let signal = without_provenance_mut::<c_void>(self.signal as usize);
            // SAFETY: the request takes a number. The process may have ended, and then there is nothing to detach from.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, self.pid, null_mut::<c_void>(), signal) };
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a C program whose `main` is this text.
    fn start(folder: &std::path::Path, optimise: &str, text: &str) -> Child {
        let (source, made) = (folder.join("program.c"), folder.join("program"));
        let whole = format!(
            "#include <stdio.h>\n#include <unistd.h>\nvolatile long flag, other; double value = 1;\nint main(void)\n\
             {{\n puts(\"\"); fflush(stdout);\n {text}\n return 0;\n}}\n"
        );
        std::fs::write(&source, whole).expect("written");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let compiled =
            Command::new(compiler).args(["-std=gnu11", "-w", optimise, "-o"]).arg(&made).arg(&source).status();
        assert!(compiled.expect("a compiler").success());
        let mut child = Command::new(made).stdout(Stdio::piped()).spawn().expect("started");
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut line).expect("it prints that it runs");
        child
    }

    /// Waits until the process has left the write of its line: it sleeps, or has used the processor since.
    fn until_in_loop(pid: u32) {
        let state_and_ticks = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
            let fields: Vec<&str> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
            let ticks = [11, 12].map(|at| fields[at].parse::<u64>().expect("a number"));
            (fields[0] == "S", ticks[0] + ticks[1])
        };
        let (_, before) = state_and_ticks();
        loop {
            let (sleeps, ticks) = state_and_ticks();
            if sleeps || ticks > before + 1 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    fn seen(optimise: &str, text: &str) -> Behaviour {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = start(folder.path(), optimise, text);
        until_in_loop(child.id());
        let looks = [observe(child.id()), observe(child.id())];
        assert_eq!(child.try_wait().expect("our child"), None, "an observation does not end it");
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert_eq!(looks[0], looks[1], "{text}");
        looks[0]
    }

    #[test]
    fn loops_that_poll_memory_are_recognised() {
        for text in [
            "while (!flag) ;",
            "while (!flag && other < 3) __builtin_ia32_pause();",
            "while (flag != 1) if (other) return 1;",
        ] {
            for optimise in ["-O0", "-O2"] {
                assert_eq!(seen(optimise, text), Behaviour::Polls, "{optimise} {text}");
            }
        }
    }

    #[test]
    fn loops_that_change_something_are_not() {
        let texts = [
            "for (volatile long i = 0; !flag; i++) ;",
            "while (!flag) other++;",
            "while (!flag) value *= 1.0000001;",
            "for (long i = 0; i < 1000000000000; i++) __asm__ volatile(\"\" ::: \"memory\");",
            "while (!flag) getppid();",
        ];
        for text in texts {
            for optimise in ["-O0", "-O2"] {
                assert_eq!(seen(optimise, text), Behaviour::Computes, "{optimise} {text}");
            }
        }
    }

    #[test]
    fn a_process_that_blocks_in_the_kernel_goes_on_blocking() {
        for text in
            ["int ends[2]; char byte; pipe(ends); read(ends[0], &byte, 1);", "pause();", "for (;;) usleep(100);"]
        {
            assert_eq!(seen("-O2", text), Behaviour::Computes, "{text}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_seen() {
        let mut child = Command::new("true").spawn().expect("started");
        let pid = child.id();
        child.wait().expect("reaped");
        assert_eq!(observe(pid), Behaviour::Unknown);
    }
}
