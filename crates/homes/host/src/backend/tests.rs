// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of each home's offers, and of the calls of an interface that call the backend.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

use selvedge_nic::Register;
use selvedge_nic::tables::{Request, Side, kind};
use selvedge_sim_protocol::{Costs, RankEnd, SimEnd};
use tempfile::TempDir;

use super::*;
use crate::config::{Mode, Path};
use crate::direct::DirectOutcome;
use crate::interface::ArenaRange;
use crate::segment::SMALL;
use crate::shared_memory::SharedMemory;
use crate::simulated::Simulated;

/// No process of the job has this id.
const MISSING: u64 = 999;

fn config(mode: Mode, path: Path, directory: &TempDir) -> Config {
    Config {
        mode,
        path,
        spin_ns: 10_000_000_000,
        nap_ns: 1_000_000,
        directory: directory.path().to_path_buf(),
        nid: 0,
        token: 0,
    }
}

fn open(backend: impl Backend + 'static, directory: &TempDir) -> Arc<Interface> {
    let config = config(Mode::Nic, Path::Auto, directory);
    Interface::open(Box::new(backend), config, 0, 1, 0, &SMALL, ArenaRange::default()).expect("an interface")
}

fn put_to(target: u64) -> Command {
    let request = Request { kind: kind::PUT, ..Request::default() };
    Command { request, target, user_ptr: 0, source: Side::NOWHERE, sink: Side::NOWHERE }
}

#[test]
fn offers_in_shared_memory_follow_mode_and_path() {
    // (mode, path), and then: runs peers, maps peers, admits attach.
    let table = [
        (Mode::Nic, Path::Auto, [true, true, true]),
        (Mode::Nic, Path::Shared, [true, true, false]),
        (Mode::Nic, Path::Cma, [true, false, true]),
        (Mode::Nic, Path::Bounce, [true, false, false]),
        (Mode::Host, Path::Auto, [false, false, false]),
        (Mode::Host, Path::Shared, [false, false, false]),
        (Mode::Host, Path::Cma, [false, false, false]),
        (Mode::Host, Path::Bounce, [false, false, false]),
    ];
    let directory = TempDir::new().expect("a directory");
    for (mode, path, [runs_peers, maps_peers, admits_attach]) in table {
        let config = SharedMemory.configure(config(mode, path, &directory));
        assert_eq!((config.mode, config.path), (mode, path), "the user's settings are kept");
        let expected = Offers {
            executes_here: true,
            polls_here: true,
            runs_peers,
            maps_peers,
            admits_attach,
            publishes_here: true,
            charges_calls: false,
            is_simulated: false,
            reaches_hosts: false,
            mailboxes_refuse: true,
        };
        assert_eq!(SharedMemory.offers(&config), expected, "{mode:?} {path:?}");
    }
    assert_eq!(SharedMemory.size(&SMALL), SMALL);
}

/// Shared memory with other offers. It records the methods called.
struct Recorder {
    offers: Offers,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Recorder {
    fn note(&self, call: &'static str) -> &SharedMemory {
        self.calls.lock().expect("no panic").push(call);
        &SharedMemory
    }
}

impl Backend for Recorder {
    fn configure(&self, config: Config) -> Config {
        self.note("configure").configure(config)
    }
    fn size(&self, limits: &Limits) -> Limits {
        self.note("size").size(limits)
    }
    fn offers(&self, _: &Config) -> Offers {
        self.note("offers");
        self.offers
    }
    fn announce(&self, interface: &Interface) -> Result<(), OpenError> {
        self.note("announce").announce(interface)
    }
    fn withdraw(&self, interface: &Interface) {
        self.note("withdraw").withdraw(interface);
    }
    fn start(&self, interface: &Interface, command: &Command, fired: u32, full: WhenFull) -> Result<(), StartError> {
        self.note("start").start(interface, command, fired, full)
    }
    fn settle(&self, interface: &Interface) {
        self.note("settle").settle(interface);
    }
    fn reaches_rings(&self, interface: &Interface, id: u64) -> bool {
        self.note("reaches_rings").reaches_rings(interface, id)
    }
    fn publish(&self, interface: &Interface, target: u64, ring: usize, message: Unseen, bytes: usize) {
        self.note("publish").publish(interface, target, ring, message, bytes);
    }
    fn charge_call(&self) {
        self.note("charge_call").charge_call();
    }
    fn charge_accesses(&self, count: u64) {
        self.note("charge_accesses").charge_accesses(count);
    }
    fn charge_copy(&self, bytes: u64) {
        self.note("charge_copy").charge_copy(bytes);
    }
    fn poll(&self, interface: &Interface) {
        self.note("poll").poll(interface);
    }
    fn found_nothing(&self) {
        self.note("found_nothing").found_nothing();
    }
    fn found_something(&self) {
        self.note("found_something").found_something();
    }
    fn tick(&self, interface: &Interface) {
        self.note("tick").tick(interface);
    }
    fn wait(
        &self,
        interface: &Interface,
        deadline: Option<Instant>,
        look: &mut dyn FnMut() -> bool,
    ) -> Result<(), WaitEnd> {
        self.note("wait").wait(interface, deadline, look)
    }
    fn wake_threads(&self, interface: &Interface) {
        self.note("wake_threads").wake_threads(interface);
    }
}

/// Makes each call, and returns the methods of the backend that were called. The results of the calls do not depend on
/// the offers.
fn calls_with(offers: Offers) -> String {
    let directory = TempDir::new().expect("a directory");
    let calls = Arc::new(Mutex::new(Vec::new()));
    let interface = open(Recorder { offers, calls: Arc::clone(&calls) }, &directory);
    drop(interface.lock());
    assert_eq!(interface.start(&put_to(MISSING)), Ok(()));
    assert_eq!(interface.start_now(&put_to(MISSING)), Ok(()));
    assert_eq!(interface.signals().register(Register::Undeliverable), 2);
    interface.settle(false);
    interface.settle(true);
    interface.poll();
    interface.found_nothing();
    interface.found_something();
    interface.tick();
    assert_eq!(interface.wait(None, || Some(7)), Ok(7));
    assert_eq!(interface.wait(Some(Instant::now()), || None::<u8>), Err(WaitEnd::TimedOut));
    let mut looks = 0;
    let late = interface.wait(None, || {
        looks += 1;
        (looks == 100).then_some(looks)
    });
    assert_eq!(late, Ok(100));
    assert_eq!(interface.look_once(|| None::<u8>), Err(WaitEnd::TimedOut));
    interface.wake();
    interface.shut();
    drop(interface);
    Arc::into_inner(calls).expect("the backend is gone").into_inner().expect("no panic").join(" ")
}

#[test]
fn hot_paths_in_shared_memory_call_no_backend() {
    let directory = TempDir::new().expect("a directory");
    let offers = SharedMemory.offers(&config(Mode::Nic, Path::Auto, &directory));
    let opening = "configure size offers announce";
    // The second wait times out, which includes a tick. The third lasts longer than the polls at the start of a wait.
    assert_eq!(calls_with(offers), format!("{opening} settle tick wait tick wait wake_threads withdraw"));
}

/// The offers of a home that takes no shortcut.
const NO_OFFERS: Offers = Offers {
    executes_here: false,
    polls_here: false,
    runs_peers: false,
    maps_peers: false,
    admits_attach: false,
    publishes_here: false,
    charges_calls: true,
    is_simulated: false,
    reaches_hosts: false,
    mailboxes_refuse: false,
};

#[test]
fn a_home_that_offers_nothing_is_called_each_time() {
    let opening = "configure size offers announce";
    let operations = "charge_call start start settle";
    let polls = "poll found_nothing found_something tick wait wait tick wait poll found_nothing";
    // Closing locks the NIC once.
    let closing = "wake_threads charge_call withdraw";
    assert_eq!(calls_with(NO_OFFERS), format!("{opening} {operations} {polls} {closing}"));
}

#[test]
fn shortcuts_need_offers() {
    let directory = TempDir::new().expect("a directory");
    for offered in [true, false] {
        let live = SharedMemory.offers(&config(Mode::Nic, Path::Auto, &directory));
        let offers = if offered { live } else { NO_OFFERS };
        let interface = open(Recorder { offers, calls: Arc::default() }, &directory);
        let own = interface.id();
        assert_eq!(interface.stores_in_place(), offered);
        assert_eq!(interface.reaches_all_of(own), offered);
        assert_eq!(interface.glance(|| Some(1)), offered.then_some(1));
        assert_eq!(interface.deliver_now(&put_to(MISSING), 0, None), DirectOutcome::Gone);
        let outcome = interface.deliver_now(&put_to(own), 0, None);
        assert_eq!(matches!(outcome, DirectOutcome::Done(_)), offered, "{outcome:?}");
        interface.shut();
    }
}

#[test]
fn a_simulated_rank_pays_in_virtual_time() {
    const COSTS: Costs = Costs {
        call_ps: 100,
        poll_ps: 10,
        clock_ps: 1000,
        compute_ppm: 0,
        copy_ps_per_kib: 0,
        tlb_entries: 0,
        tlb_ways: 0,
        units: 0,
        memory_ps: 0,
        lock_waiters: 5,
    };
    let directory = TempDir::new().expect("a directory");
    let page = directory.path().join("0.clock");
    let _simulator = SimEnd::create(&page, &COSTS).expect("a page");
    let name = CString::new(page.as_os_str().as_bytes()).expect("a path");
    let rank: &'static RankEnd = Box::leak(Box::new(RankEnd::open(&name).expect("the page")));
    let simulated = Simulated::new(rank);
    let configured = simulated.configure(config(Mode::Host, Path::Bounce, &directory));
    assert_eq!((configured.mode, configured.path), (Mode::Nic, Path::Auto), "the machine decides");
    assert_eq!(simulated.size(&SMALL), Limits { short_list: 1, ..SMALL });
    assert_eq!(simulated.size(&Limits::EXTOLL).lock_waiters, 5, "the machine's");
    let offers = Offers { admits_attach: true, charges_calls: true, is_simulated: true, ..NO_OFFERS };
    assert_eq!(simulated.offers(&configured), offers);
    // None of these calls hands the turn over: no simulator runs here.
    let interface = open(simulated, &directory);
    assert!(interface.is_simulated());
    let since = rank.now_ps();
    drop(interface.lock());
    assert_eq!(rank.now_ps() - since, 100);
    interface.poll();
    assert_eq!(rank.now_ps() - since, 110);
    assert_eq!(interface.wait(None, || Some(7)), Ok(7));
    assert_eq!(rank.now_ps() - since, 120);
    assert_eq!(interface.wait(Some(Instant::now()), || None::<u8>), Err(WaitEnd::TimedOut));
    assert_eq!(rank.now_ps() - since, 130);
    interface.tick();
    interface.settle(false);
    assert_eq!(rank.now_ps() - since, 130);
    interface.shut();
}
