// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of [`super`]: files that are mapped shared.

use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::testing::{Child, Folder, in_child, is_root};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn byte_at(mapping: &Mapping, offset: u64) -> u8 {
    assert!(offset < mapping.reserved());
    // SAFETY: inside the range; the tests ask for offsets below the file's end, or after the replacement.
    unsafe { mapping.base().add(offset as usize).read_volatile() }
}

fn set_byte(mapping: &Mapping, offset: u64, value: u8) {
    assert!(offset < mapping.reserved());
    // SAFETY: inside the range, which is mapped for writing; the tests ask for offsets below the file's end, or
    // after the replacement.
    unsafe { mapping.base().add(offset as usize).write_volatile(value) }
}

#[test]
fn only_a_sealed_file_of_ours_is_taken_from_another_process() {
    let made = |bytes: u64, seals: SealFlags| {
        let flags = rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("test", flags).unwrap();
        rustix::fs::fchmod(&file, super::Mode::from_raw_mode(MODE)).unwrap();
        rustix::fs::ftruncate(&file, bytes).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let open = |file: &OwnedFd, inode: u64, bytes: u64| {
        use std::os::fd::AsRawFd;
        Mapping::open_sealed(std::process::id(), file.as_raw_fd() as u32, inode, bytes)
    };
    let file = made(MIB, SealFlags::SHRINK);
    let inode = sealed_inode(std::os::fd::AsRawFd::as_raw_fd(&file)).unwrap();
    let (one, other) = (open(&file, inode, MIB).unwrap(), open(&file, inode, MIB).unwrap());
    // SAFETY: the first byte of two mappings of one file.
    unsafe {
        one.base().write(7);
        assert_eq!(other.base().read(), 7);
    }
    assert!(matches!(open(&file, inode, MIB + 1), Err(MapError::TooSmall { .. })), "longer than the file");
    assert!(matches!(open(&file, inode + 1, MIB), Err(MapError::Io { .. })), "another file has the number");
    let loose = made(MIB, SealFlags::GROW);
    let inode = sealed_inode(std::os::fd::AsRawFd::as_raw_fd(&loose)).unwrap();
    assert!(matches!(open(&loose, inode, MIB), Err(MapError::Io { .. })), "a file that can be shortened");
    rustix::fs::fchmod(&file, super::Mode::from_raw_mode(0o666)).unwrap();
    assert!(matches!(open(&file, inode, MIB), Err(MapError::Mode { .. })), "open to other users");
}

#[test]
fn two_mappings_are_one_memory() {
    let folder = Folder::new();
    let path = folder.join("segment");
    let made = Mapping::create(&path, 64 * KIB, MIB).unwrap();
    let opened = Mapping::open(&path, 64 * KIB, MIB).unwrap();
    assert_ne!(made.base(), opened.base());
    assert_eq!((made.reserved(), made.file_bytes().unwrap()), (MIB, 64 * KIB));
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(byte_at(&opened, 64 * KIB - 1), 0);
    set_byte(&made, 64 * KIB - 1, 9);
    assert_eq!(byte_at(&opened, 64 * KIB - 1), 9);

    opened.grow(256 * KIB).unwrap();
    assert_eq!(made.file_bytes().unwrap(), 256 * KIB);
    set_byte(&opened, 256 * KIB - 1, 4);
    assert_eq!(byte_at(&made, 256 * KIB - 1), 4);
    assert_eq!(byte_at(&made, 64 * KIB - 1), 9);
    // Growing to a smaller size does nothing.
    made.grow(KIB).unwrap();
    assert_eq!(made.file_bytes().unwrap(), 256 * KIB);
    assert!(matches!(made.grow(MIB + 1), Err(MapError::TooLarge { limit: MIB, .. })));
    assert_eq!(made.file_bytes().unwrap(), 256 * KIB);
}

#[test]
fn a_reserve_can_be_made_longer_later() {
    let folder = Folder::new();
    let path = folder.join("file");
    let made = Mapping::create(&path, 3 * KIB, 8 * MIB).unwrap();
    set_byte(&made, 5, 7);
    let present = Mapping::open_present(&path, KIB, MIB).unwrap();
    assert_eq!((present.reserved(), byte_at(&present, 5)), (4 * KIB, 7));
    assert!(matches!(Mapping::open_present(&path, 4 * KIB, MIB), Err(MapError::TooSmall { .. })));
    assert!(matches!(Mapping::open_present(&path, KIB, 2 * KIB), Err(MapError::TooLarge { .. })));
    let longer = present.reserve(8 * MIB).unwrap();
    made.grow(8 * MIB).unwrap();
    set_byte(&made, 8 * MIB - 1, 9);
    assert_eq!((byte_at(&longer, 5), byte_at(&longer, 8 * MIB - 1)), (7, 9));
}

#[test]
fn space_is_really_allocated() {
    let folder = Folder::new();
    let path = folder.join("segment");
    let _made = Mapping::create(&path, MIB, MIB).unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= MIB);
}

#[test]
fn an_existing_file_is_left_alone() {
    let folder = Folder::new();
    let path = folder.join("segment");
    std::fs::write(&path, b"theirs").unwrap();
    match Mapping::create(&path, KIB, KIB) {
        Err(MapError::Io { error, .. }) => assert_eq!(error.kind(), io::ErrorKind::AlreadyExists),
        other => panic!("{other:?}"),
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
}

#[test]
fn a_failed_making_leaves_nothing() {
    let folder = Folder::new();
    let path = folder.join("segment");
    assert!(matches!(Mapping::create(&path, 2 * MIB, MIB), Err(MapError::TooLarge { bytes: 0x20_0000, .. })));
    assert!(!path.exists());
    assert!(matches!(Mapping::create(&path, KIB, 1 << 62), Err(MapError::Shortage(_))));
    assert!(matches!(Mapping::create(&path, KIB, u64::MAX), Err(MapError::TooLarge { .. })));
    assert!(!path.exists());
}

#[test]
fn foreign_files_are_refused() {
    let folder = Folder::new();
    let path = folder.join("segment");
    drop(Mapping::create(&path, 8 * KIB, 8 * KIB).unwrap());
    let open = |name: &str| Mapping::open(&folder.join(name), KIB, MIB);
    assert!(open("segment").is_ok());

    symlink(&path, folder.join("link")).unwrap();
    assert!(matches!(open("link"), Err(MapError::NotRegular { .. })));
    std::fs::create_dir(folder.join("folder")).unwrap();
    assert!(matches!(open("folder"), Err(MapError::NotRegular { .. })));
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert!(matches!(open("pipe"), Err(MapError::NotRegular { .. })));
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
    assert!(matches!(open("socket"), Err(MapError::NotRegular { .. })));
    match open("nothing") {
        Err(MapError::Io { error, .. }) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
        other => panic!("{other:?}"),
    }

    for wrong in [0o640, 0o601, 0o700, 0o1600, 0o644] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(wrong)).unwrap();
        match open("segment") {
            Err(MapError::Mode { mode, .. }) => assert_eq!(mode, wrong),
            other => panic!("{wrong:o}: {other:?}"),
        }
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();

    let short = Mapping::open(&path, 8 * KIB + 1, MIB);
    assert!(matches!(short, Err(MapError::TooSmall { bytes: 0x2000, needed: 0x2001, .. })));
    let long = Mapping::open(&path, KIB, 4 * KIB);
    assert!(matches!(long, Err(MapError::TooLarge { bytes: 0x2000, limit: 0x1000, .. })), "{long:?}");

    if !is_root() {
        eprintln!("not tried: only root can give a file to another user");
        return;
    }
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    assert!(matches!(open("segment"), Err(MapError::NotOwner { uid: 65534, .. })));
}

#[test]
fn the_file_of_another_process_takes_no_descriptor_and_is_told_from_a_later_one() {
    let folder = Folder::new();
    let path = folder.join("segment");
    let made = Mapping::create(&path, 8 * KIB, MIB).unwrap();
    let opened = Mapping::open(&path, KIB, MIB).unwrap();
    let holders = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_it = |link: &Path| std::fs::read_link(link).is_ok_and(|file| file == path);
    assert_eq!(holders.filter(|link| is_it(&link.as_ref().unwrap().path())).count(), 1, "its maker's");
    made.grow(16 * KIB).unwrap();
    assert_eq!((opened.first_bytes().unwrap(), opened.file_bytes().unwrap()), (8 * KIB, 16 * KIB));
    opened.allocate(64 * KIB, 4 * KIB).unwrap();
    assert_eq!(made.file_bytes().unwrap(), 68 * KIB);

    std::fs::remove_file(&path).unwrap();
    let code = |error| match error {
        MapError::Io { error, .. } => error.raw_os_error(),
        other => panic!("{other:?}"),
    };
    assert_eq!(code(opened.file_bytes().unwrap_err()), Some(libc::ENOENT));
    let _other = Mapping::create(&path, 32 * KIB, MIB).unwrap();
    assert_eq!(code(opened.file_bytes().unwrap_err()), Some(libc::ESTALE));
    assert_eq!(code(opened.allocate(0, KIB).unwrap_err()), Some(libc::ESTALE));
    set_byte(&made, 3, 7);
    assert_eq!(byte_at(&opened, 3), 7, "the mapping stays");
}

#[test]
fn without_descriptors_a_file_is_not_called_absent() {
    let folder = Folder::new();
    let path = folder.join("segment");
    let made = Mapping::create(&path, KIB, MIB).unwrap();
    let child = Child::fork(|| {
        let opened = Mapping::open(&path, KIB, MIB).unwrap();
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a structure of this frame; the limit is this child's alone.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        let other = folder.join("other");
        for error in [
            Mapping::open(&path, KIB, MIB).unwrap_err(),
            Mapping::create(&other, KIB, MIB).unwrap_err(),
            opened.file_bytes().unwrap_err(),
        ] {
            let MapError::Shortage(shortage) = error else { panic!("{error:?}") };
            assert_eq!(shortage.errno(), libc::EMFILE);
            assert!(shortage.to_string().contains(path.parent().unwrap().to_str().unwrap()), "{shortage}");
        }
        made.grow(2 * KIB).unwrap();
        0
    });
    assert_eq!(child.exit_code(), Some(0));
}

#[test]
fn the_umask_does_not_count() {
    let folder = Folder::new();
    let path = folder.join("segment");
    // In a child, because the umask belongs to the whole process.
    let child = Child::fork(|| {
        rustix::process::umask(Mode::from_raw_mode(0o777));
        let made = Mapping::create(&path, KIB, KIB).unwrap();
        let opened = Mapping::open(&path, KIB, KIB).unwrap();
        set_byte(&made, 0, 1);
        i32::from(byte_at(&opened, 0))
    });
    assert_eq!(child.exit_code(), Some(1));
}

#[test]
fn a_full_file_system_is_an_error_and_no_fault() {
    in_child(full_file_system);
}

fn full_file_system() {
    let Some(folder) = Folder::tiny_tmpfs(MIB) else { return };
    let (first, second) = (folder.join("first"), folder.join("second"));
    assert!(matches!(Mapping::create(&first, 2 * MIB, 4 * MIB), Err(MapError::Shortage(_))));
    assert!(!first.exists());
    let made = Mapping::create(&first, 512 * KIB, 4 * MIB).unwrap();
    assert!(matches!(made.grow(2 * MIB), Err(MapError::Shortage(_))));
    assert_eq!(made.file_bytes().unwrap(), 512 * KIB, "a refused growth takes nothing");
    let other = Mapping::create(&second, 400 * KIB, MIB).unwrap();
    for offset in (0..512 * KIB).step_by(4096) {
        set_byte(&made, offset, 1);
    }
    for offset in (0..400 * KIB).step_by(4096) {
        set_byte(&other, offset, 1);
    }
    drop(other);
    std::fs::remove_file(&second).unwrap();
    made.grow(900 * KIB).unwrap();
    set_byte(&made, 900 * KIB - 1, 3);
}

#[test]
fn replacement_reads_zeroes_everywhere_and_frees_the_file() {
    in_child(replacement);
}

fn replacement() {
    let tiny = Folder::tiny_tmpfs(MIB);
    let folder = tiny.unwrap_or_else(Folder::new);
    let path = folder.join("segment");
    let made = Mapping::create(&path, 700 * KIB, 2 * MIB).unwrap();
    set_byte(&made, 5, 5);
    let base = made.base();
    std::fs::remove_file(&path).unwrap();
    made.replace_with_zeroes();
    assert_eq!(made.base(), base);
    for offset in (0..2 * MIB).step_by(1024) {
        assert_eq!(byte_at(&made, offset), 0);
    }
    set_byte(&made, 2 * MIB - 1, 1);
    assert_eq!(byte_at(&made, 2 * MIB - 1), 1);
    for error in [made.grow(MIB).unwrap_err(), made.file_bytes().unwrap_err()] {
        assert!(matches!(error, MapError::Io { error: ref cause, .. } if cause.raw_os_error() == Some(libc::ESTALE)));
    }
    // On the tiny one there is room for this only if the first file's pages were freed.
    Mapping::create(&folder.join("next"), 900 * KIB, MIB).unwrap();
    made.replace_with_zeroes();
}

#[test]
fn readers_do_not_fault_while_it_is_replaced() {
    let folder = Folder::new();
    let made = Mapping::create(&folder.join("segment"), MIB, MIB).unwrap();
    // SAFETY: the range is this test's own new mapping, and has this many bytes.
    unsafe { made.base().write_bytes(7, MIB as usize) };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = [0u64; 2];
            while !stop.load(Ordering::Relaxed) {
                for offset in (0..MIB).step_by(4096) {
                    let byte = byte_at(&made, offset);
                    assert!(byte == 7 || byte == 0);
                    seen[usize::from(byte == 0)] += 1;
                }
            }
            seen
        });
        std::thread::sleep(std::time::Duration::from_millis(5));
        made.replace_with_zeroes();
        std::thread::sleep(std::time::Duration::from_millis(5));
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(byte_at(&made, 0), 0);
}

#[test]
fn writing_does_where_fallocate_is_missing() {
    let folder = Folder::new();
    let path = folder.join("segment");
    let made = Mapping::create(&path, 10, MIB).unwrap();
    set_byte(&made, 9, 8);
    let extend = |made: &Mapping, bytes| made.with_file(|file| extend_by_writing(file, &path, bytes));
    extend(&made, 200 * KIB + 1).unwrap();
    extend(&made, 100).unwrap();
    assert_eq!(made.file_bytes().unwrap(), 200 * KIB + 1);
    assert_eq!((byte_at(&made, 9), byte_at(&made, 10), byte_at(&made, 200 * KIB)), (8, 0, 0));
    let Some(tiny) = Folder::tiny_tmpfs(MIB) else { return };
    let path = tiny.join("segment");
    let made = Mapping::create(&path, 10, 4 * MIB).unwrap();
    assert!(matches!(made.with_file(|file| extend_by_writing(file, &path, 2 * MIB)), Err(MapError::Shortage(_))));
    let file = std::fs::File::open(&path).unwrap();
    let mut byte = [1];
    assert_eq!(file.read_at(&mut byte, 0).unwrap(), 1);
    assert_eq!(byte, [0]);
}

#[test]
fn a_file_size_limit_is_an_error_and_no_signal() {
    let folder = Folder::new();
    let path = folder.join("segment");
    let child = Child::fork(|| {
        let limit = libc::rlimit { rlim_cur: MIB, rlim_max: MIB };
        // SAFETY: a structure of this frame; the limit is this child's alone.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
        let refused = Mapping::create(&path, 2 * MIB, 4 * MIB);
        i32::from(matches!(refused, Err(MapError::TooLarge { limit: MIB, .. })))
    });
    assert_eq!(child.exit_code(), Some(1));
    assert!(!path.exists());
}

#[test]
fn a_sparse_file_takes_memory_when_it_is_touched() {
    let folder = Folder::new();
    let path = folder.join("segment");
    let made = Mapping::create_sparse(&path, MIB, 2 * MIB).unwrap();
    let blocks = || std::fs::metadata(&path).unwrap().blocks();
    assert_eq!((made.file_bytes().unwrap(), blocks()), (MIB, 0));
    set_byte(&made, 5000, 1);
    assert!(blocks() > 0);
    let Some(tiny) = Folder::tiny_tmpfs(MIB) else { return };
    let refused = Mapping::create_sparse(&tiny.join("segment"), 2 * MIB, 4 * MIB);
    assert!(matches!(refused, Err(MapError::Shortage(_))) && !tiny.join("segment").exists());
}
