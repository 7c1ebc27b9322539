// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An aggregation node as a process: the value of `selvedge_nic::aggregation` between links and the manager.
//!
//! ```text
//! children ══ requests ══> Sink::packet ─> node ─> send what is due ══> parent, children
//! manager ── steps ──────> Step::carry_out ┘
//! ```
//!
//! A link identifies the sender. The manager sends the links of other nodes. All other links are members'. A member's
//! address is the number of its link and of its NIC. So no process can send in another's name.
//!
//! Invariants
//! 1. One message of a group is on its way to the links at a time (`Node::next_send`), so each group keeps its order.
//! 2. A peer whose link has ended is lost as a child and as a parent: its groups fail, and nothing waits for it.
//!
//! Costs: a lock and a transition for each message; a copy of each payload.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use log::{debug, error, info, warn};
use selvedge_net::greeting::GreetingError;
use selvedge_net::services::AskError;
use selvedge_net::session::Session;
use selvedge_net::{
    LinkAddress, Links, NicName, OpenError, PeerId, ProgressCaller, SendError, SendTiming, Sink, Source,
};
use selvedge_nic::Payload;
use selvedge_nic::aggregation::message::Sender;
use selvedge_nic::aggregation::{OwnNode, Refusal, Send};
use selvedge_nic::packet::{HEADER_BYTES, Packet};
use selvedge_nic::tables::{Request, slot};
use selvedge_os::sync::IgnorePoison;

use crate::service::NODES_AT;
use crate::service::wire::{
    HostPlace, ManagerReply, ManagerRequest, VERSION, WireStep, decode_limits, from_bytes, to_bytes,
};

/// Time between attempts to reach the manager.
const AGAIN: Duration = Duration::from_millis(500);
/// Time between attempts to send messages that found no room in a link.
const RETRY: Duration = Duration::from_millis(1);
/// Id of the only sender.
const EXECUTOR: u64 = 1;

/// The settings of a node.
#[derive(Clone)]
pub struct Settings {
    pub manager: SocketAddr,
    pub secret: Vec<u8>,
    /// Time of silence after which the manager is lost.
    pub silence: Duration,
    pub place: HostPlace,
    /// The host's name, for reports.
    pub host: String,
    /// The number of the NIC of members.
    pub member_ni: u16,
}

/// The reason why a node ends.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Links(#[from] OpenError),
    #[error("the aggregation manager at {at} refuses this node: {why}")]
    Refused { at: SocketAddr, why: String },
    #[error(
        "the aggregation manager at {at} is a new one with other tables or another address for this node; start this node again"
    )]
    OtherManager { at: SocketAddr },
    #[error("the aggregation manager at {at}: {error}")]
    Manager { at: SocketAddr, error: AskError },
}

/// A node.
pub struct AggregationNode {
    inner: Arc<Inner>,
    /// They hold the other `Arc` of `inner` as their sink.
    links: Arc<Links>,
    settings: Settings,
}

struct Inner {
    links: OnceLock<Weak<Links>>,
    member_ni: u16,
    state: Mutex<State>,
    /// Signalled when a message waits for room in a link.
    waits: Condvar,
}

#[derive(Default)]
struct State {
    /// `None`: the manager has not sent the sizes of the tables.
    own: Option<OwnNode>,
    address: u64,
    /// Other nodes, by address and by peer.
    links: BTreeMap<u64, PeerId>,
    nodes: BTreeMap<PeerId, u64>,
    has_no_room: bool,
}

impl AggregationNode {
    /// Opens the node's links.
    pub fn open(settings: Settings, links: selvedge_net::Settings) -> Result<AggregationNode, NodeError> {
        let inner = Arc::new(Inner {
            links: OnceLock::new(),
            member_ni: settings.member_ni,
            state: Mutex::default(),
            waits: Condvar::new(),
        });
        let links = Links::open(links, inner.clone())?;
        let _ = inner.links.set(Arc::downgrade(&links));
        let retrying = Arc::downgrade(&inner);
        selvedge_os::thread::spawn("selvedge-room", move || {
            while let Some(inner) = retrying.upgrade() {
                inner.retry();
            }
        })
        .map_err(OpenError::System)?;
        Ok(AggregationNode { inner, links, settings })
    }

    /// The number of jobs that the node knows, and of groups in its tables.
    pub fn in_use(&self) -> (usize, usize) {
        let groups = self
            .inner
            .lock()
            .own
            .as_ref()
            .map_or(0, |own| own.groups.iter().filter(|group| slot::status(group.slot) != slot::FREE).count());
        (self.inner.jobs().len(), groups)
    }

    /// Whether no group is in its tables, and no operand is reserved.
    pub fn is_empty(&self) -> bool {
        self.inner.lock().own.as_ref().is_none_or(OwnNode::is_empty)
    }

    /// Serves its groups and the manager, while the manager accepts it. If the manager is lost, this connects again,
    /// and groups continue meanwhile. `is_ready` is called when a manager has accepted the node.
    pub fn run(&self, is_ready: impl Fn()) -> Result<Infallible, NodeError> {
        let at = self.settings.manager;
        let mut is_new = true;
        loop {
            match Session::connect(at, &self.settings.secret, self.settings.silence) {
                Ok(session) => {
                    info!("connected to the aggregation manager at {at}");
                    is_new = true;
                    self.serve(&session, &is_ready)?;
                    warn!("the aggregation manager at {at} has ended; groups continue");
                }
                // The manager's process ended during the greeting.
                Err(AskError::Greeting { error: GreetingError::Ended, .. }) => {}
                Err(error @ AskError::Greeting { .. }) => return Err(NodeError::Manager { at, error }),
                Err(error) => {
                    if std::mem::take(&mut is_new) {
                        info!("no connection to the aggregation manager yet: {error}");
                    }
                }
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Follows the manager to the end of the session.
    fn serve(&self, session: &Session, is_ready: &impl Fn()) -> Result<(), NodeError> {
        let Settings { manager: at, place, ref host, .. } = self.settings;
        let link = self.links.address().into();
        let jobs = self.inner.jobs();
        let own = ManagerRequest::Node { version: VERSION, place, host: host.clone(), link, jobs };
        if session.send(&to_bytes(&own)).is_err() {
            return Ok(());
        }
        while let Ok(message) = session.receive() {
            match from_bytes(&message) {
                Ok(ManagerReply::Welcome { address, limits }) => {
                    self.inner.begin(address, limits).ok_or(NodeError::OtherManager { at })?
                }
                Ok(ManagerReply::Steps { number, steps, links }) => {
                    self.inner.record_links(links.into_iter().map(|(address, link)| (address, link.into())));
                    self.inner.carry_out(&steps);
                    if session.send(&to_bytes(&ManagerRequest::Done { number })).is_err() {
                        break;
                    }
                    // The first steps bring it to the manager's state.
                    if number == 1 {
                        is_ready();
                    }
                }
                Ok(ManagerReply::Refused { why }) => return Err(NodeError::Refused { at, why }),
                Ok(_) => {}
                Err(why) => return Err(NodeError::Refused { at, why }),
            }
        }
        Ok(())
    }
}

/// Closes the links, so that members and neighbouring nodes learn that its groups have ended.
impl Drop for AggregationNode {
    fn drop(&mut self) {
        self.links.close();
    }
}

/// The address of a member: its link, counted from 1, and the number of its NIC.
fn member_of(PeerId(peer): PeerId, pid: u32) -> u64 {
    (u64::from(peer) + 1) << 32 | u64::from(pid)
}

fn peer_of(member: u64) -> Option<PeerId> {
    ((member >> 32) as u32).checked_sub(1).map(PeerId)
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }

    /// Number and key of the jobs that the node knows.
    fn jobs(&self) -> Vec<(u32, u64)> {
        let state = self.lock();
        let jobs = state.own.iter().flat_map(|own| &own.jobs).filter(|job| slot::status(job.slot) != slot::FREE);
        jobs.map(|job| (job.number, job.key)).collect()
    }

    /// `None`: the node has ended.
    fn links(&self) -> Option<Arc<Links>> {
        self.links.get()?.upgrade()
    }

    /// Sets the address and the tables. `None`: the node already has others.
    fn begin(&self, address: u64, limits: [u32; 6]) -> Option<()> {
        let mut state = self.lock();
        let limits = decode_limits(limits);
        match &state.own {
            Some(own) => (own.limits == limits && state.address == address).then_some(()),
            None => {
                (state.own, state.address) = (Some(OwnNode::new(limits)), address);
                Some(())
            }
        }
    }

    /// Records the links of other nodes. A node that joined a group before its link was known keeps its address.
    fn record_links(&self, nodes: impl Iterator<Item = (u64, LinkAddress)>) {
        let Some(links) = self.links() else { return };
        for (address, link) in nodes.filter(|(_, link)| *link != links.address()) {
            let peer = links.peer(link);
            let mut state = self.lock();
            if let Some(before) = state.links.insert(address, peer).filter(|before| *before != peer) {
                state.nodes.remove(&before);
            }
            let children = state.own.iter().flat_map(|own| &own.children);
            if !children.into_iter().any(|child| child.address < NODES_AT && peer_of(child.address) == Some(peer)) {
                state.nodes.insert(peer, address);
            }
        }
    }

    fn carry_out(&self, steps: &[WireStep]) {
        if let Some(own) = &mut self.lock().own {
            for step in steps {
                let carried = step.step().map(|step| step.carry_out(&mut own.node()));
                if !matches!(carried, Some(Ok(()))) {
                    error!("this aggregation node has no room for {step:?}");
                }
            }
        }
        self.send_due();
    }

    /// Sends due messages. A group for which a link has no room waits, and does not delay others.
    fn send_due(&self) {
        let mut waiting = Vec::new();
        loop {
            let mut state = self.lock();
            let State { own: Some(own), links, address, has_no_room, .. } = &mut *state else { return };
            let Some(send) = own.node().next_send(EXECUTOR) else {
                *has_no_room |= !waiting.is_empty();
                waiting.into_iter().for_each(|id| own.node().postpone_send(id));
                if *has_no_room {
                    self.waits.notify_one();
                }
                return;
            };
            let mut payload = own.operands.get(send.payload.clone()).unwrap_or_default().to_vec();
            let peer = if send.to >= NODES_AT { links.get(&send.to).copied() } else { peer_of(send.to) };
            let request = send.request(*address);
            let Send { id, to, .. } = send;
            drop(state);
            let sent = peer.map_or(Err(SendError::Gone), |peer| self.send(peer, to, &request, &mut payload));
            let mut state = self.lock();
            let State { own: Some(own), .. } = &mut *state else { return };
            match sent {
                Ok(()) => own.node().finish_send(id),
                Err(SendError::Gone) => {
                    own.node().finish_send(id);
                    own.node().lose(to);
                }
                Err(SendError::Full) => waiting.push(id),
            }
        }
    }

    fn send(&self, peer: PeerId, to: u64, request: &Request, payload: &mut Vec<u8>) -> Result<(), SendError> {
        let links = self.links().ok_or(SendError::Gone)?;
        let name = NicName { pid: if to >= NODES_AT { 0 } else { to as u32 }, ni: self.member_ni };
        let packet = Packet { payload_bytes: payload.len() as u64, ..Packet::from(request) };
        links.send(peer, name, &packet.encode(false), Source::Taken(payload), SendTiming::Now)
    }

    /// Waits until some message has no room, and then retries.
    fn retry(&self) {
        let waits = self.waits.wait_timeout_while(self.lock(), Duration::from_secs(1), |state| !state.has_no_room);
        let mut state = waits.ignore_poison().0;
        if std::mem::take(&mut state.has_no_room) {
            drop(state);
            std::thread::sleep(RETRY);
            self.send_due();
        }
    }
}

impl Sink for Inner {
    fn packet(&self, from: PeerId, _: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8], _: ProgressCaller) {
        let packet = match Packet::decode(packet) {
            Ok(packet) => packet,
            Err(error) => return debug!("a packet was dropped: {error:?}"),
        };
        let mut request = Request::from(&packet);
        if !request.is_aggregation() {
            return debug!("a packet of kind {} was dropped", packet.kind);
        }
        let refusal = {
            let mut state = self.lock();
            request.initiator = match state.nodes.get(&from) {
                Some(&address) => address,
                None => member_of(from, packet.origin as u32),
            };
            let Some(own) = &mut state.own else { return };
            own.node().receive(&mut Payload(payload), &request).err()
        };
        if let Some(refusal) = refusal {
            debug!("{request:?} was refused: {refusal:?}");
            self.refuse_join(from, &request, refusal);
        }
        self.send_due();
    }

    fn payload_max(&self, _: PeerId, _: NicName, packet: &[u8; HEADER_BYTES]) -> u64 {
        let most = self.lock().own.as_ref().map_or(0, |own| own.operands.len() as u64);
        Packet::decode(packet).map_or(0, |packet| packet.length.min(most))
    }

    fn lost(&self, peer: PeerId) {
        {
            let mut state = self.lock();
            let State { own: Some(own), nodes, .. } = &mut *state else { return };
            // The tables have the addresses of all children. A list of senders would grow with each message.
            let children = own.children.iter().map(|child| child.address).filter(|&child| peer_of(child) == Some(peer));
            let of_peer: BTreeSet<u64> = children.chain(nodes.get(&peer).copied()).collect();
            of_peer.into_iter().for_each(|address| own.node().lose(address));
        }
        self.send_due();
    }
}

impl Inner {
    /// Sends the refusal to the joining process.
    fn refuse_join(&self, peer: PeerId, request: &Request, refusal: Refusal) {
        let Some((sender, answer)) = refusal.answer(request) else { return };
        let own = Sender { address: self.lock().address, key: sender.key };
        // A process that is lost, or takes no messages, learns it from the end of its link.
        let _ = self.send(peer, sender.address, &answer.encode(own), &mut Vec::new());
    }
}
