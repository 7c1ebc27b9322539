// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process's share of the aggregation nodes of hosts: it asks the manager, and keeps the session, whose end is the process's.
//! A share that is dropped ends the session, too: a program may go on for long after its job.
//!
//! A thread waits for what the manager says. A manager that is lost is looked for again; groups go on meanwhile.

use selvedge_process::settings::ManagerAt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use log::{info, warn};
use selvedge_manager::Granted;
use selvedge_net::LinkAddress;
use selvedge_net::session::Session;
use selvedge_nic::aggregation::Failure;

use crate::service::wire::{Answer, HostPlace, JobName, Say, Share, VERSION, from_bytes, to_bytes};

/// Time between attempts to reach a manager that was lost.
const AGAIN: Duration = Duration::from_secs(1);

/// What a process has of its job's share.
#[derive(Debug)]
pub struct Granting {
    pub granted: Granted,
    /// Where the nodes are, by their addresses in trees.
    pub links: Vec<(u64, LinkAddress)>,
    /// The end node of each host of the job.
    pub hosts: Vec<(HostPlace, u32)>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    process: AtomicU32,
    is_lost: AtomicBool,
    has: Mutex<Has>,
}

/// What a share has of the manager.
enum Has {
    Session(Arc<Session>),
    /// It was lost.
    Nothing,
    /// The share was dropped.
    Ended,
}

impl std::fmt::Debug for Has {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Has::Session(_) => "Session",
            Has::Nothing => "Nothing",
            Has::Ended => "Ended",
        })
    }
}

impl Drop for Granting {
    fn drop(&mut self) {
        self.state.set(Has::Ended);
    }
}

impl Granting {
    /// This process's number in the job, below [`crate::service::wire::PROCESSES_MAX`]. It may be another after the manager was restarted.
    pub fn process(&self) -> u32 {
        self.state.process.load(Relaxed)
    }

    /// Whether the job has lost its resources.
    pub fn is_lost(&self) -> bool {
        self.state.is_lost.load(Relaxed)
    }
}

/// Asks for this process's share. `places`: hosts of the job that it knows, its own first. The error says why it has none.
pub fn ask(manager: &ManagerAt, job: JobName, places: &[HostPlace]) -> Result<Granting, String> {
    let (session, share) = begin(manager, job, places).map_err(|missed| missed.why)?;
    let granted = Granted::restore(share.grant.as_bytes()).map_err(|error| error.to_string())?;
    let session = Arc::new(session);
    let state = Arc::new(State {
        process: AtomicU32::new(share.process),
        is_lost: AtomicBool::new(false),
        has: Mutex::new(Has::Session(session.clone())),
    });
    let made = Granting {
        links: share.links.iter().map(|&(address, link)| (address, link.into())).collect(),
        hosts: share.hosts,
        state: state.clone(),
        granted,
    };
    let (manager, places, key) = (manager.clone(), places.to_vec(), made.granted.key);
    let follow = move || {
        let mut session = session;
        loop {
            state.follow(&session);
            if !state.set(Has::Nothing) {
                return;
            }
            session = loop {
                std::thread::sleep(AGAIN);
                if state.has_ended() {
                    return;
                }
                match begin(&manager, job, &places) {
                    Ok((session, share)) => {
                        let is_same = Granted::restore(share.grant.as_bytes()).is_ok_and(|granted| granted.key == key);
                        if !is_same {
                            warn!("the aggregation manager at {} does not know this job any more", manager.at);
                            state.is_lost.store(true, Relaxed);
                            return;
                        }
                        state.process.store(share.process, Relaxed);
                        let session = Arc::new(session);
                        if !state.set(Has::Session(session.clone())) {
                            return;
                        }
                        break session;
                    }
                    Err(Missed { why, is_final: true }) => {
                        warn!("{why}");
                        state.is_lost.store(true, Relaxed);
                        return;
                    }
                    Err(Missed { why, .. }) => log::debug!("{why}"),
                }
            };
            info!("the aggregation manager at {} is back", manager.at);
        }
    };
    selvedge_net::spawn("selvedge-share", follow).map_err(|error| error.to_string())?;
    Ok(made)
}

/// A share was not given.
struct Missed {
    why: String,
    /// The manager has said so, and says nothing else later.
    is_final: bool,
}

fn begin(manager: &ManagerAt, job: JobName, places: &[HostPlace]) -> Result<(Session, Share), Missed> {
    let say = Say::Share { version: VERSION, job, places: places.to_vec() };
    match ask_for(manager, &say) {
        Ok((session, Answer::Granted(share))) => Ok((session, *share)),
        Ok((_, answer)) => Err(Missed { why: unexpected(manager, answer), is_final: true }),
        Err(why) => Err(Missed { why, is_final: false }),
    }
}

/// Begins a session with a question. Returns the first answer, too.
fn ask_for(manager: &ManagerAt, say: &Say) -> Result<(Session, Answer), String> {
    let wrong = |why: String| format!("the aggregation manager at {}: {why}", manager.at);
    let session =
        Session::connect(manager.at, &manager.secret, manager.silence).map_err(|error| wrong(error.to_string()))?;
    session.send(&to_bytes(say)).map_err(|error| wrong(error.to_string()))?;
    let answer = session.receive().map_err(|error| wrong(error.to_string()))?;
    Ok((session, from_bytes(&answer).map_err(wrong)?))
}

/// What an answer says that is not what was asked for.
fn unexpected(manager: &ManagerAt, answer: Answer) -> String {
    let why = match answer {
        Answer::Refused { why } => why,
        _ => "it says something else than was asked".to_owned(),
    };
    format!("the aggregation manager at {}: {why}", manager.at)
}

/// What the manager says of all hosts, trees and jobs, for people.
pub fn show(manager: &ManagerAt) -> Result<String, String> {
    match ask_for(manager, &Say::Show { version: VERSION })? {
        (_, Answer::Shown { text }) => Ok(text),
        (_, answer) => Err(unexpected(manager, answer)),
    }
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Has> {
        self.has.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        matches!(*self.lock(), Has::Ended)
    }

    /// Ends the session before. False: the share was dropped, and stays so.
    fn set(&self, has: Has) -> bool {
        let mut now = self.lock();
        if matches!(*now, Has::Ended) {
            return false;
        }
        if let Has::Session(before) = std::mem::replace(&mut *now, has) {
            before.end();
        }
        true
    }

    /// Follows the manager to the end of its session.
    fn follow(&self, session: &Session) {
        while let Ok(message) = session.receive() {
            if let Ok(Answer::Lost { failure }) = from_bytes(&message) {
                let failure = Failure::from_u8(failure).unwrap_or(Failure::Lost);
                warn!("this job has lost its aggregation nodes: {failure}");
                self.is_lost.store(true, Relaxed);
            }
        }
    }
}
