// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The libraries that the loader finds for a program, read from the files. Nothing of the program runs, as it may with
//! `ldd`.
//!
//! The search is that of ld.so(8): for a library that an object needs, the folders of
//! 1. `DT_RPATH` of the object and of those that have loaded it, if the object has no `DT_RUNPATH`;
//! 2. `LD_LIBRARY_PATH`;
//! 3. `DT_RUNPATH` of the object;
//! 4. the loader's cache;
//! 5. the system.
//!
//! `$ORIGIN` stands for the object's folder. Folders with other such words, and variants for newer processors
//! (glibc-hwcaps), are left out. Files for another processor are passed over, as the loader does.
//!
//! Costs: the headers of each library up to the one that is sought; at most [`OBJECTS_MAX`].

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::executable::Dependencies;

const OBJECTS_MAX: usize = 2000;
const CACHE: &str = "/etc/ld.so.cache";
/// The longest cache that is read.
const CACHE_BYTES_MAX: u64 = 64 << 20;

/// A library that a program needs, itself or through another library.
#[derive(Debug, PartialEq, Eq)]
pub struct Needed {
    pub name: String,
    /// `None`: the loader does not find it.
    pub file: Option<PathBuf>,
}

/// A program or library whose own libraries are searched.
struct Object {
    file: PathBuf,
    dependencies: Dependencies,
    /// The object that needs this one: an index of the list of objects.
    loader: Option<usize>,
}

/// The first library with a name that `wanted` accepts, in the order in which the loader loads. `None` for files that are
/// no dynamic programs.
pub fn find(program: &Path, library_path: &OsStr, wanted: impl Fn(&str) -> bool) -> Option<Needed> {
    let file = program.canonicalize().ok()?;
    let dependencies = Dependencies::read(&file)?;
    let machine = dependencies.machine;
    let mut objects = vec![Object { file, dependencies, loader: None }];
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut cache = None;
    let mut at = 0;
    while at < objects.len() && objects.len() < OBJECTS_MAX {
        for name in objects[at].dependencies.needed.clone() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let found = locate(&objects, at, &name, library_path, &mut cache, machine);
            let text = String::from_utf8_lossy(&name).into_owned();
            if wanted(&text) {
                return Some(Needed { name: text, file: found.map(|(file, _)| file) });
            }
            if let Some((file, dependencies)) = found {
                objects.push(Object { file, dependencies, loader: Some(at) });
            }
        }
        at += 1;
    }
    None
}

/// The file of a library that an object needs, and what that file needs.
fn locate(
    objects: &[Object],
    object: usize,
    name: &[u8],
    library_path: &OsStr,
    cache: &mut Option<Cache>,
    machine: u16,
) -> Option<(PathBuf, Dependencies)> {
    let readable = |file: PathBuf| {
        let dependencies = Dependencies::read(&file).filter(|found| found.machine == machine)?;
        Some((file, dependencies))
    };
    let name = OsStr::from_bytes(name);
    if name.as_bytes().contains(&b'/') {
        return readable(std::path::absolute(name).ok()?);
    }
    let own = &objects[object];
    let mut folders = Vec::new();
    if own.dependencies.runpath.is_empty() {
        let mut next = Some(object);
        while let Some(above) = next {
            let above = &objects[above];
            if above.dependencies.runpath.is_empty() {
                folders.extend(folders_of(&above.dependencies.rpath, &above.file));
            }
            next = above.loader;
        }
    }
    folders.extend(library_path.as_bytes().split(|byte| b":;".contains(byte)).filter_map(|folder| {
        // An empty part is the current folder, but an empty variable has no parts.
        let folder = if folder.is_empty() { &b"."[..] } else { folder };
        if library_path.is_empty() { None } else { std::path::absolute(OsStr::from_bytes(folder)).ok() }
    }));
    folders.extend(folders_of(&own.dependencies.runpath, &own.file));
    let mut given = folders.into_iter().map(|folder| folder.join(name));
    given.find_map(readable).or_else(|| {
        let cached = cache.get_or_insert_with(Cache::read).files(name.as_bytes());
        let system = system_folders().into_iter().map(|folder| folder.join(name));
        cached.into_iter().chain(system).find_map(readable)
    })
}

/// The folders of a list in an object's file.
fn folders_of(lists: &[Vec<u8>], file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
    let parts = lists.iter().flat_map(|list| list.split(|byte| *byte == b':')).filter(|part| !part.is_empty());
    let placed = parts.map(|part| {
        let part = replaced(part, b"${ORIGIN}", origin);
        replaced(&part, b"$ORIGIN", origin)
    });
    placed.filter(|part| !part.contains(&b'$')).map(|part| PathBuf::from(OsStr::from_bytes(&part))).collect()
}

fn replaced(text: &[u8], word: &[u8], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        match rest.strip_prefix(word) {
            Some(behind) => {
                out.extend_from_slice(with);
                rest = behind;
            }
            None => {
                out.push(rest[0]);
                rest = &rest[1..];
            }
        }
    }
    out
}

fn system_folders() -> Vec<PathBuf> {
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let debians = ["/lib", "/usr/lib"].map(|folder| Path::new(folder).join(&triple));
    let others = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
    debians.into_iter().chain(others).collect()
}

/// The loader's cache: names of libraries and their files (`glibc-ld.so.cache1.1`).
struct Cache(Vec<u8>);

impl Cache {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER_BYTES: usize = 48;
    const ENTRY_BYTES: usize = 24;

    /// The part of the file in this format, which may follow one in the older format; empty if there is none.
    fn read() -> Cache {
        let fits = std::fs::metadata(CACHE).is_ok_and(|status| status.is_file() && status.len() <= CACHE_BYTES_MAX);
        Cache::within(if fits { std::fs::read(CACHE).unwrap_or_default() } else { Vec::new() })
    }

    fn within(mut bytes: Vec<u8>) -> Cache {
        let at = bytes.windows(Self::MAGIC.len()).position(|part| part == Self::MAGIC);
        Cache(at.map_or_else(Vec::new, |at| bytes.split_off(at)))
    }

    fn word(&self, at: usize) -> Option<usize> {
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?) as usize)
    }

    fn text(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at..)?.split(|byte| *byte == 0).next()
    }

    /// The files of a name, those for every processor of the kind first.
    fn files(&self, name: &[u8]) -> Vec<PathBuf> {
        let count = self.word(Self::MAGIC.len()).unwrap_or(0).min(self.0.len() / Self::ENTRY_BYTES);
        let entries = (0..count).map(|entry| Self::HEADER_BYTES + entry * Self::ENTRY_BYTES);
        let mut files: Vec<(bool, PathBuf)> = entries
            .filter(|at| self.word(at + 4).and_then(|key| self.text(key)) == Some(name))
            .filter_map(|at| {
                let is_variant = self.word(at + 16)? != 0 || self.word(at + 20)? != 0;
                Some((is_variant, PathBuf::from(OsStr::from_bytes(self.text(self.word(at + 8)?)?))))
            })
            .collect();
        files.sort_by_key(|(is_variant, _)| *is_variant);
        files.into_iter().map(|(_, file)| file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    /// Compiles a library or program of this name in a folder, linked to others.
    fn compile(file: &Path, words: &[String]) {
        let source = file.with_extension("c");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&source, "int one(void); int main(void) { return 0; }\n").unwrap();
        let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        command
            .arg("-o")
            .arg(file)
            .arg(&source)
            .args(["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"])
            .args(words);
        assert!(command.status().expect("a C compiler").success(), "{}", file.display());
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn libraries_are_found_as_the_loader_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| fs::canonicalize(folder.path()).unwrap().join(name);
        let text = |name: &str| at(name).display().to_string();
        let library = |name: &str, soname: &str, more: &[String]| {
            let own = words(&["-shared", "-fPIC", &format!("-Wl,-soname,{soname}")]);
            compile(&at(name), &[&own[..], more].concat());
        };
        library("mpi/libmpi.so", "libmpi.so.900", &[]);
        fs::rename(at("mpi/libmpi.so"), at("mpi/libmpi.so.900")).unwrap();
        let mpi = text("mpi/libmpi.so.900");
        library("own/libuser.so", "libuser.so", &words(&[&mpi, "-Wl,--enable-new-dtags,-rpath,$ORIGIN/../mpi"]));
        library("bare/libuser.so", "libuser.so", std::slice::from_ref(&mpi));
        let find = |program: &str, path: &str| find(&at(program), OsStr::new(path), |name| name.starts_with("libmpi."));
        let found = |file: Option<&str>| {
            let file = file.map(|file| std::path::absolute(at(file)).unwrap());
            Some(Needed { name: "libmpi.so.900".into(), file })
        };
        let real = |needed: Option<Needed>| {
            needed.map(|needed| Needed { file: needed.file.map(|file| fs::canonicalize(file).unwrap()), ..needed })
        };

        compile(&at("direct"), &words(&[&mpi, "-Wl,--disable-new-dtags,-rpath,${ORIGIN}/mpi"]));
        assert_eq!(real(find("direct", "")), found(Some("mpi/libmpi.so.900")), "RPATH");
        compile(&at("indirect"), &words(&[&text("own/libuser.so"), "-Wl,--enable-new-dtags,-rpath,$ORIGIN/own"]));
        assert_eq!(real(find("indirect", "")), found(Some("mpi/libmpi.so.900")), "RUNPATH of a library");
        let own = words(&[&text("bare/libuser.so"), "-Wl,--disable-new-dtags,-rpath,$ORIGIN/bare:$ORIGIN/mpi"]);
        compile(&at("inherited"), &own);
        assert_eq!(real(find("inherited", "")), found(Some("mpi/libmpi.so.900")), "RPATH of the program");
        let runpath = words(&[&text("bare/libuser.so"), "-Wl,--enable-new-dtags,-rpath,$ORIGIN/bare:$ORIGIN/mpi"]);
        compile(&at("not-inherited"), &runpath);
        assert_eq!(find("not-inherited", ""), found(None), "RUNPATH counts for the program's own libraries only");
        assert_eq!(real(find("not-inherited", &text("mpi"))), found(Some("mpi/libmpi.so.900")), "LD_LIBRARY_PATH");
        // A file for another processor is passed over.
        let mut other = fs::read(at("mpi/libmpi.so.900")).unwrap();
        other[18] ^= 0x55;
        fs::create_dir(at("other")).unwrap();
        fs::write(at("other/libmpi.so.900"), other).unwrap();
        let path = format!("{}:{}", text("other"), text("mpi"));
        assert_eq!(real(find("not-inherited", &path)), found(Some("mpi/libmpi.so.900")));
    }

    #[test]
    fn the_system_and_its_cache_are_searched() {
        let program = std::env::current_exe().unwrap();
        let found = find(&program, OsStr::new(""), |name| name.starts_with("libc.so")).expect("the C library");
        assert!(found.file.is_some_and(|file| file.is_absolute() && file.exists()));
        assert_eq!(find(&program, OsStr::new(""), |name| name == "libnothing.so"), None);
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(find(&script, OsStr::new(""), |_| true), None);
    }

    #[test]
    fn a_damaged_cache_has_no_files() {
        let mut bytes = Cache::MAGIC.to_vec();
        bytes.extend(2_u32.to_ne_bytes());
        bytes.resize(Cache::HEADER_BYTES, 0);
        let strings = (Cache::HEADER_BYTES + 2 * Cache::ENTRY_BYTES) as u32;
        for (key, value, variant) in [(strings, strings + 4, 1_u64), (strings, strings + 7, 0)] {
            for word in [0, key, value, 0] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(variant.to_ne_bytes());
        }
        bytes.extend(b"l.s\0/a\0/b\0");
        let whole = Cache::within([&b"ld.so-1.7.0 and more"[..], &bytes].concat());
        assert_eq!(whole.files(b"l.s"), [PathBuf::from("/b"), "/a".into()]);
        assert!(whole.files(b"l").is_empty());
        for end in 0..bytes.len() {
            let _ = Cache::within(bytes[..end].to_vec()).files(b"l.s");
        }
        bytes[Cache::MAGIC.len()..][..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(Cache::within(bytes).files(b"l.s").len(), 2);
    }
}
