// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process in a live group. It starts operations by writing a request line, and waits for the lines of the others,
//! which it feeds to its replica of the node.
//!
//! Cost of an operation of few bytes, each member on its own core: one transfer of a cache line from each other member,
//! all in parallel, and the replica.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::{Duration, Instant};

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::{Bus, Fault};

use super::memory::{self, PeerMemory};
use super::replica::Replica;
use super::segment::{INLINE_BYTES, INLINE_WORDS, Line, MemberPlace, OpenError, SharedGroup};
use selvedge_host::backoff::{IDLE_POLLS, SPINS, SPINS_SHARED};
use selvedge_host::peer_files;
use selvedge_os::process::{Identity, cores_allowed};
use selvedge_os::{lines, ranks};

/// A waiter that shares its core calls the progress hook once in this number of turns.
const IDLE_EVERY: u32 = 8;
/// Time between a waiter's checks that the other members are alive.
const PATIENCE: Duration = Duration::from_millis(20);

/// Words that each member gives to all others with an operation.
pub type InlineWords = [u64; INLINE_WORDS];

/// A member of a group.
pub struct Member {
    pub(super) shared: SharedGroup,
    pub(super) peer_memory: PeerMemory,
    replica: Replica,
    rank: u32,
    next: u64,
    /// The next request for the replica: its operation and its member.
    awaited: (u64, u32),
    /// The tag of that operation, from its first member.
    tag: u8,
    /// Operations whose outcome this member did not wait for: a bit for each that may be held.
    deferred: u128,
    /// A failure of one of them. The next call reports it.
    deferred_failure: Option<Failure>,
    /// The oldest operation that this member must still read, if others are under way behind it; else [`u64::MAX`].
    unread: u64,
    has_core: bool,
    /// Time of the last check that the other members are alive.
    checked: Instant,
}

#[derive(Clone, Copy)]
pub(super) enum Contribution<'a> {
    /// Words for the other members. The node has nothing to reduce.
    Words(&'a InlineWords),
    /// Bytes that the node reduces, or that others read.
    Bytes(*const u8, usize),
}

/// The operand of a request: in its line, or in the member's place.
struct Arrived<'a> {
    line: &'a Line,
    place: *const u8,
}

impl Bus for Arrived<'_> {
    #[inline(always)]
    fn payload(&mut self, _: u64, into: &mut [u8]) -> Result<(), Fault> {
        match into.len() <= INLINE_BYTES {
            true => self.line.get(into),
            // SAFETY: a place has as many bytes as the longest operand of a node. Its member does not write it before
            // this member has started `credits` more operations (invariant 1 of the module).
            false => unsafe { into.as_mut_ptr().copy_from_nonoverlapping(self.place, into.len()) },
        }
        Ok(())
    }
}

impl Member {
    /// Joins a group as member `rank`. Each member must do so once. [`Member::finish_joining`] waits for the others.
    pub fn join(shared: SharedGroup, rank: u32) -> Result<Member, OpenError> {
        let shape = *shared.shape();
        let place = shared.places().get(rank as usize).ok_or(OpenError::Refused(Failure::GroupMismatch))?;
        if place.word.load(Acquire) == 0 {
            peer_files::publish(&place.files);
            memory::offer(place);
        }
        let replica = Replica::new(&shape).map_err(OpenError::Refused)?;
        let own = Identity::own().to_word();
        place.word.compare_exchange(0, own, SeqCst, SeqCst).map_err(|_| OpenError::Refused(Failure::GroupMismatch))?;
        let peer_memory = PeerMemory::new();
        let has_core = ranks::have_cores().unwrap_or_else(|| shape.members as usize <= cores_allowed());
        Ok(Member {
            shared,
            peer_memory,
            replica,
            rank,
            next: 0,
            awaited: (0, 0),
            tag: 0,
            deferred: 0,
            deferred_failure: None,
            unread: u64::MAX,
            has_core,
            checked: Instant::now(),
        })
    }

    /// Waits until all members have joined. `idle` is called while it waits.
    pub fn finish_joining(&mut self, idle: &mut dyn FnMut()) -> Result<(), Failure> {
        self.wait(idle, |member| {
            let all = member.shared.places().iter().all(|place| place.word.load(Acquire) != 0);
            all.then_some(Ok(()))
        })?;
        self.peer_memory.know(self.shared.places());
        self.shared.close_file();
        Ok(())
    }

    /// The number of this member.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    pub fn size(&self) -> usize {
        self.shared.shape().members as usize
    }

    pub(super) fn credits(&self) -> usize {
        self.shared.shape().credits as usize
    }

    /// Bytes of the longest operation of the node.
    pub fn bytes_max(&self) -> usize {
        self.shared.shape().bytes as usize
    }

    /// Returns whether this process can attach to the memory of all other members, and whether it can map all their
    /// memory files. All members have joined.
    pub fn probe_memory(&self) -> (bool, bool) {
        let places = self.shared.places().iter().enumerate().filter(|&(member, _)| member != self.rank());
        let attaches = places.clone().all(|(_, place)| memory::attaches(place));
        (attaches, places.clone().all(|(member, place)| self.peer_memory.maps(place, member)))
    }

    /// Sets the result of [`Member::probe_memory`] at all members.
    pub fn set_memory(&mut self, all_attach: bool, all_map: bool) {
        (self.peer_memory.all_attach, self.peer_memory.all_map) = (all_attach, all_map);
    }

    /// The reason why the group has ended. `None`: it has not ended.
    pub fn failure(&self) -> Option<Failure> {
        let word = self.shared.state().failure.load(SeqCst);
        // No member writes an unknown number of a failure.
        (word != 0).then(|| u8::try_from(word).ok().and_then(Failure::from_u8).unwrap_or(Failure::Lost))
    }

    /// Ends the group for all members. Returns the reason: an earlier reason stays.
    pub fn fail(&self, failure: Failure) -> Failure {
        let word = &self.shared.state().failure;
        let _ = word.compare_exchange(0, failure as u32, SeqCst, SeqCst);
        self.failure().unwrap_or(failure)
    }

    /// Starts an operation with this member's contribution. Returns its number. `None`: there is no credit yet.
    #[inline]
    pub(super) fn try_start(
        &mut self,
        tag: u8,
        reduction: &Reduction,
        contribution: Contribution<'_>,
    ) -> Option<Result<u64, Failure>> {
        let number = self.next;
        if let Some(before) = number.checked_sub(u64::from(self.shared.shape().credits)) {
            // Starting it would overwrite its line and its result before they are read.
            if before >= self.unread {
                return None;
            }
            if before >= self.replica.collected() {
                if let Err(failure) = self.take_requests(before)? {
                    return Some(Err(failure));
                }
            }
        }
        Some(self.start(number, tag, reduction, contribution))
    }

    /// Sets the oldest operation that this member must still read. `None`: it has read all that it needs.
    pub(super) fn set_oldest_unread(&mut self, oldest: Option<u64>) {
        self.unread = oldest.unwrap_or(u64::MAX);
    }

    #[inline]
    fn start(
        &mut self,
        number: u64,
        tag: u8,
        reduction: &Reduction,
        contribution: Contribution<'_>,
    ) -> Result<u64, Failure> {
        let line = &self.shared.requests(number)[self.rank as usize];
        match contribution {
            Contribution::Words(words) => {
                line.words.iter().zip(words).for_each(|(word, &value)| word.store(value, Relaxed))
            }
            Contribution::Bytes(from, bytes) if bytes <= INLINE_BYTES => {
                // SAFETY: the caller's operand has `bytes` bytes.
                line.put(unsafe { std::slice::from_raw_parts(from, bytes) });
            }
            Contribution::Bytes(_, bytes) if bytes > self.bytes_max() => return Err(Failure::TooLong),
            Contribution::Bytes(from, bytes) => {
                let to = self.shared.operand(number, self.rank as usize);
                // SAFETY: the caller's operand has `bytes` bytes, and the place has room for them. The place is this
                // member's: the others have read its previous contents (invariant 1 of the module).
                unsafe { from.copy_to_nonoverlapping(to, bytes) };
            }
        }
        line.codes.store(codes_of(tag, reduction), Relaxed);
        line.number.store(number + 1, Release);
        self.next = number + 1;
        // Other cores have read the next line.
        lines::about_to_change(&self.shared.requests(self.next)[self.rank as usize]);
        Ok(number)
    }

    /// The outcome of an operation. `None`: some members have not sent their requests.
    #[inline(always)]
    pub(super) fn outcome(&mut self, number: u64) -> Option<Result<(), Failure>> {
        Some(self.take_requests(number)?.and_then(|()| self.replica.outcome(number)))
    }

    /// Ends this member's part of an operation. A later call reports a failure.
    #[inline]
    pub(super) fn defer_outcome(&mut self, number: u64) -> Result<(), Failure> {
        if number < self.replica.collected() {
            return self.replica.outcome(number);
        }
        self.deferred |= bit_of(number);
        Ok(())
    }

    /// Keeps the failure of an operation that all have sent for a later call, if this member did not wait for it.
    #[inline]
    fn record_outcome(&mut self, number: u64) {
        if self.deferred & bit_of(number) != 0 {
            self.deferred &= !bit_of(number);
            if let Err(failure) = self.replica.outcome(number) {
                self.deferred_failure = Some(failure);
            }
        }
    }

    /// Returns the outcome of a call, or the failure of an earlier call that did not wait.
    #[inline]
    pub(super) fn report(&mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        match self.deferred_failure {
            None => outcome,
            Some(deferred_failure) => {
                self.deferred_failure = None;
                outcome.and(Err(deferred_failure))
            }
        }
    }

    #[inline(always)]
    pub(super) fn has_sent(&self, number: u64, child: usize) -> bool {
        self.shared.requests(number)[child].number.load(Acquire) == number + 1
    }

    /// Feeds the requests that have come to the replica, up to this operation. `None`: some have not come.
    #[inline(always)]
    fn take_requests(&mut self, number: u64) -> Option<Result<(), Failure>> {
        let (of, from) = self.awaited;
        match of > number || self.has_sent(of, from as usize) {
            true => self.take_arrived(number),
            false => None,
        }
    }

    fn take_arrived(&mut self, number: u64) -> Option<Result<(), Failure>> {
        let (mut of, mut from) = self.awaited;
        let members = self.shared.shape().members;
        while of <= number {
            if !self.has_sent(of, from as usize) {
                self.awaited = (of, from);
                return None;
            }
            let line = &self.shared.requests(of)[from as usize];
            let mut arrived = Arrived { line, place: self.shared.operand(of, from as usize) };
            let (tag, reduction) = request_of(line.codes.load(Relaxed));
            if from == 0 {
                self.tag = tag;
            }
            let disagrees = (tag != self.tag).then_some(Failure::OperationMismatch);
            if let Err(failure) = self.replica.take(&mut arrived, from, of, reduction, disagrees) {
                return Some(Err(self.fail(failure)));
            }
            from += 1;
            if from == members {
                self.record_outcome(of);
                (of, from) = (of + 1, 0);
            }
        }
        self.awaited = (of, from);
        Some(Ok(()))
    }

    /// Whether a member's request for an operation equals this member's. The member has sent it.
    #[inline]
    pub(super) fn agrees_with(&self, number: u64, child: usize) -> bool {
        let lines = self.shared.requests(number);
        lines[child].codes.load(Relaxed) == lines[self.rank()].codes.load(Relaxed)
    }

    /// The words of a member's contribution to an operation. Its request has been seen.
    pub(super) fn words(&self, number: u64, child: usize) -> InlineWords {
        let line = &self.shared.requests(number)[child];
        std::array::from_fn(|at| line.words[at].load(Relaxed))
    }

    /// Copies a range of the `bytes` that a member contributed to an operation. Its request has been seen.
    ///
    /// # Safety
    /// `to` can be written for the range's length.
    pub(super) unsafe fn copy_contribution(
        &self,
        number: u64,
        child: usize,
        to: *mut u8,
        range: Range<usize>,
        bytes: usize,
    ) -> Result<(), Failure> {
        if bytes > self.bytes_max() || range.start > range.end || range.end > bytes {
            return Err(Failure::TooLong);
        }
        let (line, place) = (&self.shared.requests(number)[child], self.shared.operand(number, child));
        // SAFETY: the caller's buffer is as long as the range.
        let to = unsafe { std::slice::from_raw_parts_mut(to, range.len()) };
        match bytes <= INLINE_BYTES {
            true if range.start == 0 => line.get(to),
            true => {
                let mut all = [0; INLINE_BYTES];
                line.get(&mut all);
                to.copy_from_slice(&all[range]);
            }
            // SAFETY: a place has as many bytes as the longest operand of a node. Its member does not write it before
            // this member has started `credits` more operations (invariant 1 of the module).
            false => unsafe { to.as_mut_ptr().copy_from_nonoverlapping(place.wrapping_add(range.start), range.len()) },
        }
        Ok(())
    }

    /// Copies a range of the result of an operation of `bytes` bytes. Its outcome has been seen.
    ///
    /// # Safety
    /// `to` can be written for the range's length.
    #[inline]
    pub(super) unsafe fn copy_result(
        &self,
        number: u64,
        to: *mut u8,
        range: Range<usize>,
        bytes: usize,
    ) -> Result<(), Failure> {
        let result = self.replica.result(number, bytes)?.get(range).ok_or(Failure::TooLong)?;
        // SAFETY: the caller's buffer is as long as the range.
        unsafe { to.copy_from_nonoverlapping(result.as_ptr(), result.len()) };
        Ok(())
    }

    /// Calls `look` until it returns a value. Fails if the group has ended.
    #[inline(always)]
    pub(super) fn wait<T>(
        &mut self,
        idle: &mut dyn FnMut(),
        mut look: impl FnMut(&mut Member) -> Option<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let spins = if self.has_core { SPINS } else { SPINS_SHARED };
        for looks in 0..spins {
            if let Some(found) = look(self) {
                return found;
            }
            lines::between_looks(looks);
            if looks % IDLE_POLLS == IDLE_POLLS - 1 {
                idle();
            }
        }
        self.wait_long(idle, &mut look)
    }

    #[cold]
    fn wait_long<T>(
        &mut self,
        idle: &mut dyn FnMut(),
        look: &mut dyn FnMut(&mut Member) -> Option<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        for turn in 1u32.. {
            if self.has_core || turn % IDLE_EVERY == 0 {
                idle();
            }
            std::thread::yield_now();
            // A result that is here counts even if the group has ended since. So look before failing.
            if let Some(found) = look(self) {
                return found;
            }
            if let Some(failure) = self.failure().filter(|_| self.others_are_idle()) {
                return Err(failure);
            }
            if turn % 64 == 0 {
                self.check_members_if_due();
            }
        }
        Err(Failure::Lost)
    }

    /// Checks at intervals that the other members are alive. A waiter calls this often; it costs a read of the clock.
    pub(super) fn check_members_if_due(&mut self) {
        if self.checked.elapsed() >= PATIENCE {
            self.check_members();
            self.checked = Instant::now();
        }
    }

    /// Ends the group if a member has died or left without sending a request that this member has sent.
    fn check_members(&self) {
        let places = self.shared.places().iter().enumerate();
        for (at, place) in places.filter(|(_, place)| place.word.load(Acquire) != 0) {
            // Check the process first: then everything that it sent before it ended is visible.
            let failure = match place.has_left.load(Acquire) != 0 {
                true => Failure::Left,
                false if Identity::word_is_alive(place.word.load(Acquire)) => continue,
                false => Failure::Lost,
            };
            let last = self.next.checked_sub(1);
            if last.is_none_or(|last| !self.has_sent(last, at)) {
                self.fail(failure);
            }
        }
    }

    /// Whether no other member accesses the members' memory any more. The group has failed, so none begins.
    pub(super) fn others_are_idle(&self) -> bool {
        let others = self.shared.places().iter().enumerate().filter(|&(at, _)| at != self.rank());
        others
            .map(|(_, place)| place)
            .all(|place| place.is_at_work.load(SeqCst) == 0 || !Identity::word_is_alive(place.word.load(Acquire)))
    }
}

impl Drop for Member {
    /// Leaves the group. A forked process has a copy of the member, but is no member.
    fn drop(&mut self) {
        let is_own = |place: &&MemberPlace| memory::pid_of(place) == std::process::id();
        if let Some(place) = self.shared.places().get(self.rank as usize).filter(is_own) {
            place.has_left.store(1, Release);
        }
    }
}

/// A request as the word of its line: a tag that must be equal at all members, and a reduction.
#[inline(always)]
pub(super) fn codes_of(tag: u8, reduction: &Reduction) -> u64 {
    let Reduction { operation, datatype, index, bytes, .. } = *reduction;
    u64::from_le_bytes([operation, datatype, index, tag, 0, 0, 0, 0]) | u64::from(bytes) << 32
}

/// The tag and the reduction of such a word.
#[inline(always)]
fn request_of(codes: u64) -> (u8, Reduction) {
    let [operation, datatype, index, tag, ..] = codes.to_le_bytes();
    (tag, Reduction { operation, datatype, index, bytes: (codes >> 32) as u32, target: None })
}

/// The bit of an operation among those that may be held, which are at most 128.
#[inline(always)]
fn bit_of(number: u64) -> u128 {
    1 << (number % 128)
}
