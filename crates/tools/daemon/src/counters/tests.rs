// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages of link counters as the daemon reads them: right ones, hostile ones, and files that give no answer.
use super::*;
use selvedge_host::links::{LinkState, NONE, Name, Page, add};
use std::path::Path;
use std::time::{Duration, Instant};

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn page_of(client: u64, path: PathBuf) -> PageOf {
    PageOf { client, user: user(), process: std::process::id(), path }
}

/// A page of this process in a folder.
fn page(folder: &Path) -> (Arc<Page>, PageOf) {
    let page = Page::acquire(folder, 7, 3);
    (page, page_of(1, folder.join(format!("{}.links", std::process::id()))))
}

fn name(way: Way, peer: u64, address: &str) -> Name {
    let ni = if way == Way::Memory { 2 } else { NONE };
    Name { way, ni, peer, address: address.into() }
}

fn ticked(counters: &mut Counters<u8>, now_ns: u64) -> Vec<u8> {
    counters.tick(now_ns);
    std::iter::from_fn(|| counters.take_ready()).collect()
}

/// Waits for the end of a look.
fn looked(counters: &mut Counters<u8>) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        let askers = ticked(counters, 0);
        if !askers.is_empty() {
            return askers;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no look has ended")
}

#[test]
fn links_are_listed_and_added_up() {
    let folder = tempfile::tempdir().unwrap();
    let (page, of) = page(folder.path());
    page.set_address("10.0.0.1:99");
    for (peer, bytes) in [(5, 100), (6, 10)] {
        page.link(&name(Way::Memory, peer, ""), 4).work.put(bytes);
    }
    let _unused = page.link(&name(Way::Memory, 8, ""), 4);
    for (address, trip) in [("a\x1b", 7), ("b", 3)] {
        let far = page.link(&name(Way::Network, 0, address), NONE);
        add(&far.sent.frames, 9);
        add(&far.sent.round_trip_ns, trip);
        far.set_state(LinkState::Lost, "the cable was cut");
    }
    let mut counters = Counters::new().unwrap();
    assert_eq!(counters.ask(0, 1, || vec![of.clone()]), None);
    // A second one waits for the same look.
    assert_eq!(counters.ask(0, 2, || panic!("a second look")), None);
    assert!(counters.has(&1) && counters.has(&2) && !counters.has(&3));
    assert_eq!(looked(&mut counters), [1, 2]);
    assert!(!counters.has(&1));
    assert_eq!(counters.ask(AGAIN_NS - 1, 3, || panic!("too early")), Some(3));

    let mut most = 3;
    let view = counters.view(1, &mut most, |pid, ni| (pid, ni) == (5, 2));
    assert_eq!((view.address.as_str(), view.unseen, most, view.left_out), ("10.0.0.1:99", None, 0, 1));
    let [near, other, far] = view.links.as_slice() else { panic!("{:?}", view.links) };
    assert_eq!((near.state.as_str(), other.state.as_str()), ("open", "closed"));
    assert_eq!((near.peer_pid, near.peer_rank, near.ni, near.counters["bytes_out"]), (5, Some(4), Some(2), 100));
    assert_eq!((far.address.as_str(), far.state.as_str(), far.why.as_str()), ("a?", "lost", "the cable was cut"));
    let [memory, network] = view.totals.as_slice() else { panic!("{:?}", view.totals) };
    assert_eq!((memory.way.as_str(), memory.links, memory.operations), ("memory", 2, 2));
    assert_eq!((memory.counters["bytes_out"], memory.states.len()), (110, 0));
    assert_eq!((network.counters["frames_out"], network.counters["round_trip_ns"]), (18, 7));
    assert_eq!(network.states, BTreeMap::from([("lost".to_owned(), 2)]));
    // As JSON, a link's counters stand beside its state.
    let json = serde_json::to_value(far).unwrap();
    assert_eq!((&json["frames_out"], &json["state"]), (&9.into(), &"lost".into()));
    assert_eq!(serde_json::from_value::<LinkView>(json).unwrap(), *far);

    // Nobody asks any more.
    assert!(ticked(&mut counters, KEEP_NS + 1).is_empty());
    assert!(counters.seen.is_empty() && counters.looked_ns.is_none());
}

#[test]
fn a_look_reads_and_keeps_no_more_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let (page, of) = page(folder.path());
    for peer in 0..LINKS_OF_USER_MAX as u64 + 5 {
        page.link(&name(Way::Memory, peer, ""), NONE).work.put(1);
    }
    let bytes = std::fs::metadata(&of.path).unwrap().len();
    let seen = std::sync::Mutex::new(Vec::new());
    let pages: Vec<PageOf> = (0..=BYTES_OF_USER_MAX / bytes).map(|client| page_of(client, of.path.clone())).collect();
    read_pages(&pages, |_, one| seen.lock().unwrap().push(one));
    let seen = seen.into_inner().unwrap();
    let first = seen[0].as_ref().unwrap();
    assert_eq!((first.links.len(), first.left_out), (LINKS_OF_USER_MAX, 5));
    // The sums are of all.
    let second = seen[1].as_ref().unwrap();
    assert_eq!((second.links.len(), second.totals[0].counters["puts"]), (0, LINKS_OF_USER_MAX as u64 + 5));
    assert!(seen.last().unwrap().as_ref().unwrap_err().contains("more than 32 MB"));
}

#[test]
fn pages_that_are_none_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (_page, of) = page(folder.path());
    let path = |name: &str| folder.path().join(name);
    let other = PageOf { process: 1, ..of.clone() };
    let strangers = PageOf { user: user() + 1, ..of.clone() };
    std::fs::write(path("noise"), [7; 4096]).unwrap();
    rustix::fs::chmod(path("noise"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&of.path, path("link")).unwrap();
    let paths = ["missing", "noise", "fifo", "link"].map(|name| page_of(9, path(name)));
    let pages: Vec<PageOf> = paths.into_iter().chain([other, strangers]).collect();
    let said = std::sync::Mutex::new(Vec::new());
    read_pages(&pages, |_, seen| said.lock().unwrap().push(seen.map(|_| ()).unwrap_err()));
    let said = said.into_inner().unwrap();
    let patterns = ["no file", "not a page", "not a regular file", "not a regular file", "names process", "user"];
    for (said, pattern) in said.iter().zip(patterns) {
        assert!(said.contains(pattern), "{pattern}: {said}");
    }
    let denied = PageError::File(MapError::Io { path: path(""), error: io::ErrorKind::PermissionDenied.into() });
    assert!(refusal(&of, &denied).contains("start it as root, or with CAP_DAC_READ_SEARCH"));
}

#[test]
fn a_wake_after_the_last_word_is_drained() {
    let mut counters = Counters::<u8>::new().unwrap();
    assert!(counters.under_way.is_empty());
    (&*counters.waker()).write_all(&[0]).unwrap();
    counters.tick(0);
    assert_eq!((&counters.signal).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_file_that_gives_no_answer_keeps_only_its_user_away() {
    let folder = tempfile::tempdir().unwrap();
    let (_page, of) = page(folder.path());
    let mut counters = Counters::new().unwrap();
    // A thread that reads for another user, and does not come back.
    counters.under_way.insert(user() + 1);
    let strangers = PageOf { client: 2, user: user() + 1, ..of.clone() };
    assert_eq!(counters.ask(0, 1, || vec![of.clone(), strangers]), None);
    assert_eq!(looked(&mut counters), [1]);
    assert_eq!(counters.view(1, &mut 0, |_, _| false).unseen, None);
    assert!(counters.view(2, &mut 0, |_, _| false).unseen.unwrap().contains("gives no answer"));
    // One whose thread is stuck now: those who ask are answered all the same.
    counters.look = Some(Look { began_ns: 0, users: BTreeSet::from([user() + 1]), askers: vec![7] });
    assert!(ticked(&mut counters, LATE_NS - 1).is_empty());
    assert_eq!(counters.due_ns(), LATE_NS);
    counters.tick(LATE_NS);
    // Until it is answered, the loop does not wait.
    assert_eq!((counters.due_ns(), counters.has(&7), counters.take_ready()), (0, true, Some(7)));
    assert!(counters.view(3, &mut 0, |_, _| false).unseen.unwrap().contains("ask again"));
    // No process: the answer comes at once.
    assert_eq!(counters.ask(2 * LATE_NS, 8, Vec::new), None);
    assert_eq!((counters.due_ns(), ticked(&mut counters, 2 * LATE_NS)), (0, vec![8]));
    // More users than there are threads.
    counters.under_way.extend(10_000..10_000 + USERS_MAX as u32);
    let page = PageOf { user: 20_000, ..of };
    assert_eq!(counters.ask(9 * LATE_NS, 9, || vec![page]), None);
    assert!(counters.view(1, &mut 0, |_, _| false).unseen.unwrap().contains("16 users"));
}
