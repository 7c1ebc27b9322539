// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events that browsers follow: changes of the topology, loads once a second, lines of the log of all hosts.
//!
//! # Invariants
//!
//! 1. The daemon is asked only while somebody follows, once a second for all of them; nobody costs nothing.
//! 2. A browser that falls [`BEHIND_MAX`] events behind is cut off, and connects again: events are never held for it.
//! 3. At most [`LINES_MAX`] lines of logs and [`GONE_MAX`] links that are gone are kept.
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selvedge_daemon::protocol::{Answer, Host, Link, LinkEnd, LogLine, Request, Topology};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::ask::{Ask, AskError};

const BEHIND_MAX: usize = 32;
const LINES_MAX: usize = 5000;
/// Lines of a host that are taken at first.
const LINES_FIRST: usize = 300;
const GONE_MAX: usize = 256;
/// Time for which a link that is gone is shown.
const GONE_FOR: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);
/// Time between two looks at the log of another host.
const LOG_PERIOD: Duration = Duration::from_secs(5);
/// Time between two looks at logs, so that a thousand hosts are asked in turn.
const LOG_PAUSE: Duration = Duration::from_millis(200);

/// An event of a browser's stream.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: &'static str,
    /// JSON of one line.
    pub data: Arc<str>,
}

impl Event {
    pub fn new(kind: &'static str, data: &impl Serialize) -> Event {
        // Our own values are always JSON.
        Event { kind, data: serde_json::to_string(data).unwrap_or_else(|_| "null".into()).into() }
    }
}

/// A line of the log of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    pub host: String,
    #[serde(flatten)]
    pub line: LogLine,
}

/// A link that was up a while ago.
#[derive(Clone, Debug)]
struct Gone {
    link: Link,
    since: Instant,
}

#[derive(Default)]
struct State {
    topology: Option<Topology>,
    gone: VecDeque<Gone>,
    /// The last events of these kinds, for browsers that come later.
    structure: Option<Event>,
    loads: Option<Event>,
    daemon: Option<Event>,
    lines: VecDeque<Line>,
    /// By host: the time of its last line.
    logged: BTreeMap<String, f64>,
    /// Hosts whose log could not be read.
    silent: BTreeMap<String, String>,
}

/// The source of all events.
pub struct Hub {
    pub ask: Ask,
    sender: broadcast::Sender<Event>,
    comes: Notify,
    state: Mutex<State>,
}

impl Hub {
    pub fn new(ask: Ask) -> Hub {
        let sender = broadcast::Sender::new(BEHIND_MAX);
        Hub { ask, sender, comes: Notify::new(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present state as events, and those to come.
    pub fn follow(&self) -> (Vec<Event>, broadcast::Receiver<Event>) {
        let state = self.state();
        let receiver = self.sender.subscribe();
        self.comes.notify_one();
        let lines = Event::new("log", &state.lines);
        let now = [state.daemon.clone(), state.structure.clone(), state.loads.clone(), Some(lines)];
        (now.into_iter().flatten().collect(), receiver)
    }

    /// Runs until the runtime ends.
    pub async fn run(self: Arc<Hub>) {
        loop {
            while self.sender.receiver_count() == 0 {
                self.comes.notified().await;
            }
            let tasks = [Task(tokio::spawn(self.clone().own_log())), Task(tokio::spawn(self.clone().other_logs()))];
            let mut ticks = interval(SECOND);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while self.sender.receiver_count() > 0 {
                ticks.tick().await;
                self.look().await;
            }
            drop(tasks);
            *self.state() = State::default();
        }
    }

    fn send(&self, event: Event) {
        // Nobody is no error.
        let _ = self.sender.send(event);
    }

    async fn look(&self) {
        let topology = match self.ask.ask(&Request::Topology).await {
            Ok(Answer::Topology(topology)) => topology,
            answer => {
                let reason = answer.err().unwrap_or(AskError::Other).to_string();
                return self.tell_daemon(&json!({ "answers": false, "reason": reason }));
            }
        };
        self.tell_daemon(&json!({ "answers": true }));
        let mut state = self.state();
        if let Some(before) = state.topology.replace(topology.clone()) {
            state.lose(&before, &topology);
        }
        let structure = Event::new("topology", &state.structure_of(&topology));
        if state.structure.as_ref().map(|event| &event.data) != Some(&structure.data) {
            state.structure = Some(structure.clone());
            self.send(structure);
        }
        let loads = Event::new("load", &loads_of(&topology));
        state.loads = Some(loads.clone());
        self.send(loads);
    }

    fn tell_daemon(&self, value: &Value) {
        let event = Event::new("daemon", value);
        let mut state = self.state();
        if state.daemon.as_ref().map(|event| &event.data) != Some(&event.data) {
            state.daemon = Some(event.clone());
            self.send(event);
        }
    }

    /// Name of the own host, once the topology is known.
    fn own_name(&self) -> Option<String> {
        self.state().topology.as_ref()?.hosts.iter().find(|host| host.is_self).map(|host| host.name.clone())
    }

    async fn own_log(self: Arc<Hub>) {
        loop {
            sleep(LOG_PAUSE).await;
            let Some(name) = self.own_name() else { continue };
            let Ok(mut followed) = self.ask.follow().await else { continue };
            while let Ok(Answer::Log(lines)) = followed.next().await {
                self.add_lines(&name, lines);
            }
        }
    }

    async fn other_logs(self: Arc<Hub>) {
        let mut asked: BTreeMap<String, Instant> = BTreeMap::new();
        loop {
            sleep(LOG_PAUSE).await;
            let hosts: Vec<(String, String)> = match &self.state().topology {
                Some(topology) => topology.hosts.iter().filter(|host| !host.is_self).map(named).collect(),
                None => continue,
            };
            asked.retain(|id, _| hosts.iter().any(|(host, _)| host == id));
            let due = |id: &str| asked.get(id).is_none_or(|at| at.elapsed() >= LOG_PERIOD);
            let Some((id, name)) = hosts.iter().filter(|(id, _)| due(id)).min_by_key(|(id, _)| asked.get(id)) else {
                continue;
            };
            asked.insert(id.clone(), Instant::now());
            let request = Request::At { host: id.clone(), request: Box::new(Request::Log { follow: false }) };
            match self.ask.ask(&request).await {
                Ok(Answer::Log(lines)) => {
                    self.state().silent.remove(id);
                    self.add_lines(name, lines);
                }
                answer => self.note_silent(id, name, &answer.err().unwrap_or(AskError::Other).to_string()),
            }
        }
    }

    fn note_silent(&self, id: &str, name: &str, reason: &str) {
        let was = self.state().silent.insert(id.to_owned(), reason.to_owned());
        if was.as_deref() != Some(reason) {
            let text = format!("the page cannot read the log of this host: {reason}");
            self.publish(vec![Line { host: name.to_owned(), line: LogLine { at_s: now_s(), is_warning: true, text } }]);
        }
    }

    /// Adds the lines of a host that are newer than those before.
    fn add_lines(&self, name: &str, lines: Vec<LogLine>) {
        let last = self.state().logged.get(name).copied().unwrap_or(0.0);
        let skip = lines.len().saturating_sub(LINES_FIRST);
        let new: Vec<LogLine> = lines.into_iter().skip(skip).filter(|line| line.at_s > last).collect();
        let Some(newest) = new.iter().map(|line| line.at_s).reduce(f64::max) else { return };
        self.state().logged.insert(name.to_owned(), newest);
        self.publish(new.into_iter().map(|line| Line { host: name.to_owned(), line }).collect());
    }

    fn publish(&self, lines: Vec<Line>) {
        let event = Event::new("log", &lines);
        let mut state = self.state();
        state.lines.extend(lines);
        let over = state.lines.len().saturating_sub(LINES_MAX);
        state.lines.drain(..over);
        self.send(event);
    }
}

/// A task that ends with its owner.
struct Task(tokio::task::JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl State {
    /// Notes the links that the map had before.
    fn lose(&mut self, before: &Topology, now: &Topology) {
        let is_in = |link: &Link, topology: &Topology| topology.links.iter().any(|other| ends(other) == ends(link));
        self.gone.retain(|gone| !is_in(&gone.link, now) && gone.since.elapsed() < GONE_FOR);
        if before.digest == now.digest {
            return;
        }
        let lost = before.links.iter().filter(|link| !is_in(link, now));
        self.gone.extend(lost.map(|link| Gone { link: link.clone(), since: Instant::now() }));
        let over = self.gone.len().saturating_sub(GONE_MAX);
        self.gone.drain(..over);
    }

    /// Hosts and links without what changes each second.
    fn structure_of(&self, topology: &Topology) -> Value {
        let host = |host: &Host| {
            json!({
                "id": host.host,
                "name": host.name,
                "address": host.address,
                "is_self": host.is_self,
                "hops": host.hops,
                "via": host.via,
                "mtu": host.mtu,
            })
        };
        let end =
            |end: &LinkEnd| json!({ "id": end.host, "name": end.name, "port": end.port, "interface": end.interface });
        let link = |link: &Link| json!({ "ends": [end(&link.ends[0]), end(&link.ends[1])], "mtu": link.mtu, "is_drained": link.is_drained });
        json!({
            "digest": topology.digest,
            "hosts": topology.hosts.iter().map(host).collect::<Vec<_>>(),
            "links": topology.links.iter().map(link).collect::<Vec<_>>(),
            "gone": self.gone.iter().map(|gone| link(&gone.link)).collect::<Vec<_>>(),
        })
    }
}

fn named(host: &Host) -> (String, String) {
    (host.host.clone(), host.name.clone())
}

fn ends(link: &Link) -> [(&str, u16); 2] {
    let [a, b] = &link.ends;
    [(&a.host, a.port), (&b.host, b.port)]
}

/// Numbers of the last second, in the order of the topology: of each link both ends' bytes each second, load, errors,
/// round trip and queue; of each host processor load and temperature.
fn loads_of(topology: &Topology) -> Value {
    let end =
        |end: &LinkEnd| json!([end.sent_bytes_s, end.load_percent, end.errors, end.round_trip_us, end.queue_bytes]);
    json!({
        "at_s": now_s(),
        "digest": topology.digest,
        "links": topology.links.iter().map(|link| [end(&link.ends[0]), end(&link.ends[1])]).collect::<Vec<_>>(),
        "hosts": topology.hosts.iter().map(|host| (host.processor_percent, host.temperature_c)).collect::<Vec<_>>(),
    })
}

fn now_s() -> f64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
