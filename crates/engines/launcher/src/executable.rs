// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a program's ELF file by which the loader decides about preloaded libraries: its interpreter, the
//! libraries that it is linked to (`DT_NEEDED`), its rights.
//!
//! A file that is no ELF file of this machine's word size is taken for a script: its interpreter's file says more, but a
//! script does not show which program it starts in the end.
//!
//! Costs: reads of the file's headers and of its dynamic section only.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DynamicTag, FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, ProgramHeader, SectionTable, Sym};
use object::{Endianness, ReadCache};
use selvedge_os::sanitizer::is_runtime;

/// The loader's treatment of `LD_PRELOAD` for a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loading {
    /// It loads the libraries. Also assumed of scripts.
    #[default]
    Preloads,
    /// There is no loader: the program is statically linked.
    Static,
    /// musl's loader cannot load libraries that are made for glibc, and ends the program.
    Musl,
    /// The program gets other rights when it starts (set-user-id, set-group-id, capabilities), so the loader takes no
    /// libraries from the environment.
    Privileged,
}

/// A program as the loader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executable {
    pub loading: Loading,
    /// The libraries that the program itself lists.
    pub libraries: Vec<String>,
    /// A sanitizer's runtime is part of the program: the function that starts it.
    pub own_runtime: Option<String>,
}

impl Executable {
    /// Reads a program's file. A file that cannot be read is described as a script is.
    pub fn read(file: &Path) -> Executable {
        let mut found = File::open(file).ok().and_then(|file| parse(file).ok()).unwrap_or_default();
        if found.loading == Loading::Preloads && gets_rights(file) {
            found.loading = Loading::Privileged;
        }
        found
    }

    /// The runtime of a sanitizer that the loader must load first: a name of `DT_NEEDED`, which the loader finds in the
    /// same way in `LD_PRELOAD`.
    pub fn runtime(&self) -> Option<&str> {
        self.libraries.iter().map(String::as_str).find(|name| is_runtime(name.as_bytes()))
    }

    /// Whether a sanitizer works in the program, which may look for leaks when it ends.
    pub fn is_sanitized(&self) -> bool {
        self.own_runtime.is_some() || self.runtime().is_some()
    }

    /// Whether that is ThreadSanitizer.
    pub fn has_thread_sanitizer(&self) -> bool {
        [self.own_runtime.as_deref(), self.runtime()].into_iter().flatten().any(|name| name.contains("tsan"))
    }
}

fn parse(file: File) -> object::Result<Executable> {
    let data = &ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let interpreter = segments.iter().find_map(|segment| segment.interpreter(endian, data).ok().flatten());
    let Some(interpreter) = interpreter else {
        return Ok(Executable { loading: Loading::Static, ..Executable::default() });
    };
    let name = interpreter.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let loading = if name.starts_with(b"ld-musl") { Loading::Musl } else { Loading::Preloads };
    let sections = header.sections(endian, data)?;
    let libraries = texts_of(&sections, endian, data, DT_NEEDED)?;
    let libraries = libraries.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let symbols = sections.symbols(endian, data, SHT_DYNSYM)?;
    let defined = symbols.iter().filter(|symbol| !symbol.is_undefined(endian));
    let mut names = defined.filter_map(|symbol| symbol.name(endian, symbols.strings()).ok());
    let own_runtime = names.find(|name| [&b"__asan_init"[..], b"__lsan_init", b"__tsan_init"].contains(name));
    let own_runtime = own_runtime.map(|name| String::from_utf8_lossy(name).into_owned());
    Ok(Executable { loading, libraries, own_runtime })
}

type Data = ReadCache<File>;

/// The texts of a kind in the dynamic section.
fn texts_of<'data>(
    sections: &SectionTable<'data, FileHeader64<Endianness>, &'data Data>,
    endian: Endianness,
    data: &'data Data,
    kind: DynamicTag,
) -> object::Result<Vec<Vec<u8>>> {
    let dynamic = sections.dynamic_table(endian, data)?;
    let entries = dynamic.iter().filter(|entry| entry.tag == kind);
    Ok(entries.filter_map(|entry| dynamic.string(entry).ok()).map(<[u8]>::to_vec).collect())
}

/// The parts of an ELF file, program or library, by which the loader finds its libraries.
#[derive(Debug, Default)]
pub struct Dependencies {
    /// The processor that the file is for.
    pub machine: u16,
    pub needed: Vec<Vec<u8>>,
    /// `DT_RPATH` and `DT_RUNPATH`: folders separated by colons.
    pub rpath: Vec<Vec<u8>>,
    pub runpath: Vec<Vec<u8>>,
}

impl Dependencies {
    /// Reads a file. `None`: it is no ELF file with a dynamic section.
    pub fn read(file: &Path) -> Option<Dependencies> {
        let data = &ReadCache::new(File::open(file).ok()?);
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, data).ok()?;
        let texts = |kind| texts_of(&sections, endian, data, kind).ok();
        Some(Dependencies {
            machine: header.e_machine(endian).0,
            needed: texts(DT_NEEDED)?,
            rpath: texts(DT_RPATH)?,
            runpath: texts(DT_RUNPATH)?,
        })
    }
}

/// Machines of ELF files, by their numbers.
const MACHINES: [(u16, &str); 9] = [
    (8, "MIPS"),
    (20, "PowerPC"),
    (21, "PowerPC (64 bits)"),
    (22, "s390x"),
    (40, "ARM (32 bits)"),
    (62, "x86_64"),
    (183, "aarch64"),
    (243, "RISC-V"),
    (258, "LoongArch"),
];

/// The machine of a program, if it is not this one: the kernel would not run it.
pub(crate) fn other_machine(file: &Path) -> Option<&'static str> {
    let mut head = [0; 20];
    File::open(file).ok()?.read_exact(&mut head).ok()?;
    let number = match head[5] {
        1 => u16::from_le_bytes([head[18], head[19]]),
        _ => u16::from_be_bytes([head[18], head[19]]),
    };
    let (_, name) = MACHINES.iter().find(|(known, _)| *known == number)?;
    (head.starts_with(b"\x7fELF") && *name != std::env::consts::ARCH).then_some(*name)
}

/// Whether the kernel gives a program other rights than this process has.
fn gets_rights(file: &Path) -> bool {
    let Ok(status) = fs::metadata(file) else { return false };
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let other_user = status.mode() & libc::S_ISUID != 0 && status.uid() != user.as_raw();
    let other_group = status.mode() & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP
        && status.gid() != group.as_raw();
    let capabilities = || rustix::fs::getxattr(file, "security.capability", &mut [0_u8; 64][..]).is_ok();
    other_user || other_group || (!user.is_root() && capabilities())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_other_machines_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("program");
        let machine = |class: u8, order: u8, number: [u8; 2]| {
            let mut bytes = b"\x7fELF".to_vec();
            bytes.extend([class, order, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
            bytes.extend(number);
            fs::write(&file, bytes).expect("written");
            other_machine(&file)
        };
        assert_eq!(machine(2, 1, [243, 0]), Some("RISC-V"));
        assert_eq!(machine(2, 2, [0, 22]), Some("s390x"));
        assert_eq!(machine(2, 1, [0xff, 0xff]), None, "of an unknown machine: the kernel decides");
        fs::write(&file, "#!/bin/sh\nexit 3 # a script").expect("written");
        assert_eq!(other_machine(&file), None);
        assert_eq!(other_machine(&std::env::current_exe().expect("this test")), None);
    }
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// Compiles an empty program with these words for the compiler. `None`: it does not know them.
    fn compiled(folder: &Path, name: &str, words: &[&str]) -> Option<Executable> {
        let (source, made) = (folder.join("empty.c"), folder.join(name));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        let done = command.arg(&source).arg("-o").arg(&made).args(words).output().expect("a C compiler");
        done.status.success().then(|| Executable::read(&made))
    }

    #[test]
    fn programs_are_read_as_the_loader_does() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = |name: &str, words: &[&str]| compiled(folder.path(), name, words);
        let usual = compiled("usual", &[]).expect("the compiler works");
        assert_eq!((usual.loading, usual.runtime(), usual.is_sanitized()), (Loading::Preloads, None, false));
        assert!(usual.libraries.iter().any(|name| name.starts_with("libc.so")), "{usual:?}");
        let musl = compiled("musl", &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]).expect("the compiler works");
        assert_eq!(musl.loading, Loading::Musl);
        for words in [&["-static"][..], &["-static-pie"]] {
            let found = compiled("static", words).map_or(Loading::Static, |found| found.loading);
            assert_eq!(found, Loading::Static, "{words:?}");
        }
        for (kind, library) in [("address", "libasan.so"), ("thread", "libtsan.so"), ("leak", "liblsan.so")] {
            let Some(found) = compiled(kind, &[&format!("-fsanitize={kind}")]) else { continue };
            assert!(found.is_sanitized(), "{kind}: {found:?}");
            assert_eq!(found.has_thread_sanitizer(), kind == "thread", "{found:?}");
            assert!(
                found.own_runtime.is_some() || found.runtime().is_some_and(|name| name.contains(&library[3..7])),
                "{found:?}"
            );
        }
    }

    #[test]
    fn other_files_are_scripts() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        for file in [script.as_path(), Path::new("/nowhere/program"), folder.path()] {
            assert_eq!(Executable::read(file), Executable::default());
        }
    }

    #[test]
    fn other_rights_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(Executable::read(&file).loading, Loading::Preloads, "our own rights");
        if std::os::unix::fs::chown(&file, Some(65534), None).is_ok() {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o4755)).unwrap();
            assert_eq!(Executable::read(&file).loading, Loading::Privileged);
        }
    }
}
