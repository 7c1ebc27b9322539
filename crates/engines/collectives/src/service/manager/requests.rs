// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The threads of the service: sessions with nodes, processes and users.
//!
//! Cost: two threads for each node, one for each process that asks.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use log::warn;
use selvedge_net::session::{IncomingSession, Session};
use selvedge_os::sync::IgnorePoison;

use super::settings::Settings;
use super::state::{NodeProgress, NodeRegistration, State};
use crate::service::wire::{HostPlace, JobName, ManagerReply, ManagerRequest, VERSION, from_bytes, to_bytes};

/// Serves the sessions of the manager. The threads of the service share it.
pub(super) struct RequestHandler {
    pub(super) settings: Arc<Settings>,
    pub(super) state: Mutex<State>,
    /// The end of the time in which nodes and processes may reconnect after a restart.
    pub(super) grace_until: Option<Instant>,
    /// Signalled when a node has registered, or that time has ended.
    pub(super) returned: Condvar,
}

impl RequestHandler {
    pub(super) fn receive(&self, visitor: IncomingSession) {
        let session = match visitor.greet(&self.settings.secret, self.settings.silence) {
            Ok(session) => Arc::new(session),
            Err(error) => return warn!("a session could not begin: {error}"),
        };
        let Ok(first) = session.receive() else { return };
        match from_bytes(&first) {
            Ok(ManagerRequest::Node { version: VERSION, place, host, link, jobs }) => {
                self.serve_node(session, NodeRegistration { place, name: host, link, jobs });
            }
            Ok(ManagerRequest::Share { version: VERSION, job, places }) => self.serve_process(session, job, &places),
            Ok(ManagerRequest::Show { version: VERSION }) => {
                let report = self.state.lock().ignore_poison().report(&self.settings.limits);
                let _ = session.send(&to_bytes(&ManagerReply::Shown(report)));
            }
            Ok(
                ManagerRequest::Node { version, .. }
                | ManagerRequest::Share { version, .. }
                | ManagerRequest::Show { version },
            ) => {
                let why = format!(
                    "it speaks version {version} with the manager, which speaks {VERSION}: install the same Selvedge on all hosts"
                );
                refuse(&session, &why);
            }
            Ok(ManagerRequest::Done { .. }) => refuse(&session, "it reports steps that it was never sent"),
            Err(why) => refuse(&session, &why),
        }
    }

    fn serve_node(&self, session: Arc<Session>, registration: NodeRegistration) {
        let progress = Arc::new(NodeProgress { number: Mutex::new(Some(0)), ..NodeProgress::default() });
        let reader = {
            let (session, progress) = (session.clone(), progress.clone());
            std::thread::Builder::new().name("selvedge-node".to_owned()).spawn(move || progress.follow(&session))
        };
        let Ok(reader) = reader else { return refuse(&session, "the manager has no thread for it") };
        match self.register(&session, &progress, registration) {
            Ok(()) => {
                let _ = reader.join();
            }
            Err(why) => {
                refuse(&session, &why);
                session.end();
                let _ = reader.join();
            }
        }
        // The node may be registered even if the change was not stored.
        self.state.lock().ignore_poison().unregister(&session);
    }

    fn register(
        &self,
        session: &Arc<Session>,
        progress: &Arc<NodeProgress>,
        registration: NodeRegistration,
    ) -> Result<(), String> {
        let mut state = self.state.lock().ignore_poison();
        state.register(session, progress, registration)?;
        self.returned.notify_all();
        Ok(())
    }

    fn serve_process(&self, session: Arc<Session>, name: JobName, places: &[HostPlace]) {
        let number = match self.grant(&session, name, places) {
            Ok(number) => number,
            Err(why) => return refuse(&session, &why),
        };
        // Processes send nothing more. The session ends with the process.
        while session.receive().is_ok() {}
        let mut state = self.state.lock().ignore_poison();
        let Some(job) = state.jobs.get_mut(&name) else { return };
        job.processes.remove(&number);
        if job.processes.is_empty() {
            state.end_job(name);
        }
    }

    /// Gives a process its job's share. Returns its number in the job. A refusal begins no job.
    fn grant(&self, session: &Arc<Session>, name: JobName, places: &[HostPlace]) -> Result<u32, String> {
        let mut state = self.state.lock().ignore_poison();
        // A node that is not yet back would learn of a new job only after its members join.
        while !state.jobs.contains_key(&name) && state.awaits_nodes() {
            let left = self.grace_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            state = self.returned.wait_timeout(state, left).ignore_poison().0;
        }
        let is_known = state.jobs.contains_key(&name);
        let granted = state.share(session, name, places);
        if granted.is_err() && !is_known {
            state.end_job(name);
        }
        granted
    }

    /// Declares nodes and jobs lost that have not reconnected after a restart.
    pub(super) fn end_grace_period(&self) {
        self.state.lock().ignore_poison().lose_absent();
        self.returned.notify_all();
    }
}

fn refuse(session: &Session, why: &str) {
    warn!("{} is refused: {why}", session.peer_address());
    let _ = session.send(&to_bytes(&ManagerReply::Refused { why: why.to_owned() }));
}
