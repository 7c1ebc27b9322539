// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NICs of users that are read for a client or a host that asks: each by a thread of its own.
//!
//! # Invariants
//!
//! 1. The daemon's loop opens no file of a user: its path may lead to a file system that gives no answer. A thread that
//!    is stuck keeps away the NICs of its own user alone. There are at most [`USERS_MAX`] threads.
//! 2. Each one that asks is answered once, after [`LATE_NS`] at the latest.
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::counters::{USERS_MAX, read_beside};
use crate::protocol::DumpView;

const LATE_NS: u64 = 2_000_000_000;

type Read = Result<DumpView, String>;

/// NICs that are being read; `A` are those who ask for them.
pub(super) struct Dumps<A> {
    wake: Arc<UnixStream>,
    sender: Sender<(u32, Read)>,
    read: Receiver<(u32, Read)>,
    /// Users of whom a NIC is read, the time at which it began, and the one who asks, until that one is answered.
    under_way: BTreeMap<u32, (u64, Option<A>)>,
}

impl<A> Dumps<A> {
    /// `wake`: a byte that is written there wakes the loop.
    pub fn new(wake: Arc<UnixStream>) -> Dumps<A> {
        let (sender, read) = channel();
        Dumps { wake, sender, read, under_way: BTreeMap::new() }
    }

    /// Begins to read a NIC of a user. [`Dumps::take`] returns the result.
    pub fn begin(
        &mut self,
        now_ns: u64,
        user: u32,
        asker: A,
        read: impl FnOnce() -> Read + Send + 'static,
    ) -> Result<(), String> {
        if self.under_way.contains_key(&user) {
            return Err(format!("a NIC of user {user} is being read; ask again"));
        }
        if self.under_way.len() >= USERS_MAX {
            return Err(format!("NICs of {USERS_MAX} users are being read; ask again"));
        }
        let sender = self.sender.clone();
        let reader = read_beside("NIC's registers", self.wake.clone(), move || {
            let _ = sender.send((user, read()));
        });
        reader.map_err(|error| format!("no thread for reading the NIC: {error}"))?;
        self.under_way.insert(user, (now_ns, Some(asker)));
        Ok(())
    }

    /// The time of the next [`Dumps::take`], unless the loop is woken before.
    pub fn due_ns(&self) -> u64 {
        let waiting = self.under_way.values().filter(|(_, asker)| asker.is_some());
        waiting.map(|(began_ns, _)| began_ns + LATE_NS).min().unwrap_or(u64::MAX)
    }

    /// Those who are to be answered now, and their answers.
    pub fn take(&mut self, now_ns: u64) -> Vec<(A, Read)> {
        let mut answers = Vec::new();
        for (user, read) in self.read.try_iter() {
            let asker = self.under_way.remove(&user).and_then(|(_, asker)| asker);
            answers.extend(asker.map(|asker| (asker, read)));
        }
        for (user, (began_ns, asker)) in &mut self.under_way {
            let asker = asker.take_if(|_| *began_ns + LATE_NS <= now_ns);
            answers.extend(asker.map(|asker| (asker, Err(format!("a file system of user {user} gives no answer")))));
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn view(text: &str) -> DumpView {
        DumpView { text: text.into(), value: serde_json::Value::Null }
    }

    #[test]
    fn a_nic_is_read_by_a_thread_that_wakes_the_loop() {
        let (mut signal, wake) = UnixStream::pair().unwrap();
        let mut dumps = Dumps::new(Arc::new(wake));
        dumps.begin(5, 7, 'a', || Ok(view("read"))).unwrap();
        signal.read_exact(&mut [0]).unwrap();
        assert_eq!(dumps.take(5), [('a', Ok(view("read")))]);
        assert_eq!((dumps.take(u64::MAX).len(), dumps.due_ns()), (0, u64::MAX));
    }

    #[test]
    fn a_path_that_gives_no_answer_keeps_only_its_user_away() {
        let (mut signal, wake) = UnixStream::pair().unwrap();
        let mut dumps = Dumps::new(Arc::new(wake));
        let (end, ended) = channel::<()>();
        let stuck = move || {
            let _ = ended.recv();
            Ok(view("late"))
        };
        dumps.begin(5, 7, 'a', stuck).unwrap();
        assert_eq!(dumps.begin(6, 7, 'b', || panic!("read")), Err("a NIC of user 7 is being read; ask again".into()));
        dumps.begin(6, 8, 'c', || Ok(view("read"))).unwrap();
        signal.read_exact(&mut [0]).unwrap();
        assert_eq!(dumps.take(6), [('c', Ok(view("read")))]);
        assert_eq!(dumps.due_ns(), 5 + LATE_NS);
        assert_eq!(dumps.take(5 + LATE_NS), [('a', Err("a file system of user 7 gives no answer".into()))]);
        // It is answered once, and others have their turn when the thread comes back.
        assert!(dumps.due_ns() == u64::MAX && dumps.begin(7, 7, 'd', || panic!("read")).is_err());
        drop(end);
        signal.read_exact(&mut [0]).unwrap();
        assert!(dumps.take(u64::MAX).is_empty());
        dumps.under_way.extend((100..100 + USERS_MAX as u32).map(|user| (user, (0, None))));
        assert!(dumps.begin(8, 7, 'e', || panic!("read")).unwrap_err().contains("16 users"));
    }
}
