// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process's share of the aggregation nodes of hosts. The process asks the manager, and keeps the session open until
//! it ends itself. Dropping a share ends the session, too: a program may continue for long after its job.
//!
//! A thread waits for messages of the manager. It reconnects to a manager that was lost. Groups continue meanwhile.

use selvedge_os::sync::IgnorePoison;
use selvedge_process::settings::ManagerAt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use log::{info, warn};
use selvedge_manager::Granted;
use selvedge_net::LinkAddress;
use selvedge_net::session::Session;
use selvedge_nic::aggregation::Failure;

use crate::service::wire::{
    HostPlace, JobName, ManagerReply, ManagerReport, ManagerRequest, Share, VERSION, from_bytes, to_bytes,
};

/// Time between attempts to reach a manager that was lost.
const AGAIN: Duration = Duration::from_secs(1);

/// A process's share, and its session with the manager.
#[derive(Debug)]
pub struct ShareSession {
    pub granted: Granted,
    /// The links of the nodes, by their addresses in trees.
    pub links: Vec<(u64, LinkAddress)>,
    /// The end node of each host of the job.
    pub hosts: Vec<(HostPlace, u32)>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    process: AtomicU32,
    is_lost: AtomicBool,
    session: Mutex<SessionState>,
}

enum SessionState {
    Open(Arc<Session>),
    /// The manager was lost.
    Lost,
    /// The share was dropped.
    Ended,
}

impl std::fmt::Debug for SessionState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SessionState::Open(_) => "Open",
            SessionState::Lost => "Lost",
            SessionState::Ended => "Ended",
        })
    }
}

impl Drop for ShareSession {
    fn drop(&mut self) {
        self.state.set(SessionState::Ended);
    }
}

impl ShareSession {
    /// This process's number in the job, below [`crate::service::wire::PROCESSES_MAX`]. A restart of the manager may
    /// change it.
    pub fn process(&self) -> u32 {
        self.state.process.load(Relaxed)
    }

    /// Whether the job has lost its resources.
    pub fn is_lost(&self) -> bool {
        self.state.is_lost.load(Relaxed)
    }
}

/// Asks for this process's share. `places`: known hosts of the job, its own first. The error is the reason for none.
pub fn request_share(manager: &ManagerAt, job: JobName, places: &[HostPlace]) -> Result<ShareSession, String> {
    let (session, share) = begin(manager, job, places).map_err(|error| error.to_string())?;
    let granted = Granted::restore(share.grant.as_bytes()).map_err(|error| error.to_string())?;
    let session = Arc::new(session);
    let state = Arc::new(State {
        process: AtomicU32::new(share.process),
        is_lost: AtomicBool::new(false),
        session: Mutex::new(SessionState::Open(session.clone())),
    });
    let made = ShareSession {
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
            if !state.set(SessionState::Lost) {
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
                            warn!("the aggregation manager at {} no longer knows this job", manager.at);
                            state.is_lost.store(true, Relaxed);
                            return;
                        }
                        state.process.store(share.process, Relaxed);
                        let session = Arc::new(session);
                        if !state.set(SessionState::Open(session.clone())) {
                            return;
                        }
                        break session;
                    }
                    Err(error @ ShareError::Refused(_)) => {
                        warn!("{error}");
                        state.is_lost.store(true, Relaxed);
                        return;
                    }
                    Err(error @ ShareError::Unreachable(_)) => log::debug!("{error}"),
                }
            };
            info!("the aggregation manager at {} is back", manager.at);
        }
    };
    selvedge_os::thread::spawn("selvedge-share", follow).map_err(|error| error.to_string())?;
    Ok(made)
}

/// The reason why a process gets no share.
#[derive(Debug, thiserror::Error)]
enum ShareError {
    /// The manager has refused, and will refuse again.
    #[error("{0}")]
    Refused(String),
    /// The manager was not reached. A retry may succeed.
    #[error("{0}")]
    Unreachable(String),
}

fn begin(manager: &ManagerAt, job: JobName, places: &[HostPlace]) -> Result<(Session, Share), ShareError> {
    let request = ManagerRequest::Share { version: VERSION, job, places: places.to_vec() };
    match ask_for(manager, &request) {
        Ok((session, ManagerReply::Granted(share))) => Ok((session, *share)),
        Ok((_, answer)) => Err(ShareError::Refused(unexpected(manager, answer))),
        Err(why) => Err(ShareError::Unreachable(why)),
    }
}

fn ask_for(manager: &ManagerAt, request: &ManagerRequest) -> Result<(Session, ManagerReply), String> {
    let wrong = |why: String| format!("the aggregation manager at {}: {why}", manager.at);
    let session =
        Session::connect(manager.at, &manager.secret, manager.silence).map_err(|error| wrong(error.to_string()))?;
    session.send(&to_bytes(request)).map_err(|error| wrong(error.to_string()))?;
    let answer = session.receive().map_err(|error| wrong(error.to_string()))?;
    Ok((session, from_bytes(&answer).map_err(wrong)?))
}

fn unexpected(manager: &ManagerAt, answer: ManagerReply) -> String {
    let why = match answer {
        ManagerReply::Refused { why } => why,
        _ => "its reply does not match the request".to_owned(),
    };
    format!("the aggregation manager at {}: {why}", manager.at)
}

/// The manager's report on hosts, trees and jobs.
pub fn manager_report(manager: &ManagerAt) -> Result<ManagerReport, String> {
    match ask_for(manager, &ManagerRequest::Show { version: VERSION })? {
        (_, ManagerReply::Shown(report)) => Ok(report),
        (_, answer) => Err(unexpected(manager, answer)),
    }
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, SessionState> {
        self.session.lock().ignore_poison()
    }

    fn has_ended(&self) -> bool {
        matches!(*self.lock(), SessionState::Ended)
    }

    /// Ends the previous session. False: the share was dropped, and stays so.
    fn set(&self, state: SessionState) -> bool {
        let mut now = self.lock();
        if matches!(*now, SessionState::Ended) {
            return false;
        }
        if let SessionState::Open(before) = std::mem::replace(&mut *now, state) {
            before.end();
        }
        true
    }

    /// Follows the manager to the end of the session.
    fn follow(&self, session: &Session) {
        while let Ok(message) = session.receive() {
            if let Ok(ManagerReply::Lost { failure }) = from_bytes(&message) {
                let failure = Failure::from_u8(failure).unwrap_or(Failure::Lost);
                warn!("this job has lost its aggregation nodes: {failure}");
                self.is_lost.store(true, Relaxed);
            }
        }
    }
}
