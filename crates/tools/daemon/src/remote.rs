// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests between the daemons of hosts: TCP over the fabric's addresses, sealed if there is a key ([`session`]).
//!
//! # Invariants
//!
//! 1. Nothing here waits: sockets do not block, and a connection that is not done in time is closed.
//! 2. There are at most [`CONNECTIONS_MAX`] connections each way, of which [`FOLLOWERS_MAX`] follow a log. Clients who
//!    are no operators have [`OF_OTHERS_MAX`]. Those that ask have at most one request of [`REQUEST_BYTES_MAX`], and all
//!    together [`ANSWERS_BYTES_MAX`] of answers in memory.
//! 3. A connection carries one request, and its answers. A request that takes time itself, as a cable's test, has that
//!    time too ([`Request::seconds`]).
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use selvedge_fabric_manager::HostId;

use crate::protocol::{Answer, REQUEST_BYTES_MAX, Request};
use session::Session;

pub mod session;

/// The TCP port of all daemons.
const PORT: u16 = 7391;
const CONNECTIONS_MAX: usize = 32;
/// Connections for clients who are no operators: their requests must not hold operators' acts up.
const OF_OTHERS_MAX: usize = CONNECTIONS_MAX / 2;
/// Connections each way that follow a log, for they last.
const FOLLOWERS_MAX: usize = 8;
/// Connections that are taken in one turn of the loop.
const ACCEPTED_A_TURN: usize = 32;
/// An answer of another host.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Answers to other hosts that they have not read.
const ANSWERS_BYTES_MAX: usize = 16 << 20;
const SECOND_NS: u64 = 1_000_000_000;
/// Time for a request to arrive, and for an answer: less than a client of the daemon waits.
const PATIENCE_NS: u64 = 5 * SECOND_NS;
/// Time after which the other host of a followed log counts as gone.
const SILENCE: Duration = Duration::from_secs(10);

enum Side {
    /// The other host asks.
    Answers { has_asked: bool, follows_log: bool },
    /// A client of this daemon asks.
    Asks { client: u64, is_operator: bool, name: String, follows_log: bool },
}

struct Connection {
    stream: TcpStream,
    session: Session,
    side: Side,
    /// None: it lasts, for it follows a log.
    until_ns: Option<u64>,
    is_over: bool,
}

/// Something that a connection has given.
pub enum Heard {
    /// A request of another host, and whether it is sealed.
    Request { connection: u64, is_sealed: bool, text: Vec<u8> },
    /// An answer for a client.
    Answer { client: u64, answer: Box<Answer> },
}

/// The connections with other hosts.
pub struct Remote {
    key: Option<[u8; 32]>,
    own: HostId,
    listener: Option<TcpListener>,
    /// The TCP port of all daemons.
    port: u16,
    connections: BTreeMap<u64, Connection>,
    last: u64,
}

impl Remote {
    pub fn new(key: Option<[u8; 32]>, own: HostId) -> Remote {
        Remote { key, own, listener: None, port: PORT, connections: BTreeMap::new(), last: 0 }
    }

    /// Takes requests at this host's address in the fabric.
    pub fn listen(&mut self, address: Ipv4Addr) -> io::Result<()> {
        let listener = TcpListener::bind(SocketAddrV4::new(address, self.port))?;
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        Ok(())
    }

    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    pub fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// The connections, and what each waits for.
    pub fn descriptors(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>, PollFlags)> {
        self.connections.iter().map(|(&id, of)| {
            let takes = if of.session.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            (id, of.stream.as_fd(), takes | PollFlags::IN)
        })
    }

    /// Takes connections of other hosts, at most [`ACCEPTED_A_TURN`].
    pub fn accept(&mut self, now_ns: u64) {
        for _ in 0..ACCEPTED_A_TURN {
            let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) else { return };
            let is_full = self.count(|side| matches!(side, Side::Answers { .. })) >= CONNECTIONS_MAX;
            let Ok(nonce) = nonce() else { continue };
            if is_full || stream.set_nonblocking(true).and_then(|()| watch(&stream)).is_err() {
                continue;
            }
            let session = Session::answer(self.key, self.own, nonce, REQUEST_BYTES_MAX);
            self.add(now_ns, stream, session, Side::Answers { has_asked: false, follows_log: false });
        }
    }

    /// Carries a client's request to another host. The answer comes later, in any case.
    pub fn ask(
        &mut self,
        now_ns: u64,
        (client, is_operator): (u64, bool),
        (name, host, address): (String, HostId, Ipv4Addr),
        request: &Request,
    ) -> Result<(), String> {
        if self.count(|side| matches!(side, Side::Asks { .. })) >= CONNECTIONS_MAX {
            return Err(format!("{CONNECTIONS_MAX} requests to other hosts are under way; ask again"));
        }
        let of_others = || self.count(|side| matches!(side, Side::Asks { is_operator: false, .. }));
        if !is_operator && of_others() >= OF_OTHERS_MAX {
            let text = format!("{OF_OTHERS_MAX} requests of users to other hosts are under way; ask again, or as root");
            return Err(text);
        }
        let follows_log = matches!(request, Request::Log { follow: true });
        if follows_log && self.count(|side| matches!(side, Side::Asks { follows_log: true, .. })) >= FOLLOWERS_MAX {
            return Err(too_many_followers("this host's daemon carries"));
        }
        let failed = |error: io::Error| format!("{name} at {address}: {error}");
        let text = serde_json::to_vec(request).map_err(|error| failed(error.into()))?;
        let stream = connect(SocketAddrV4::new(address, self.port)).map_err(failed)?;
        let nonce = nonce().map_err(failed)?;
        let session = Session::ask(self.key, host, nonce, &text, ANSWER_BYTES_MAX);
        let id = self.add(now_ns, stream, session, Side::Asks { client, is_operator, name, follows_log });
        self.give_time(now_ns, id, request.seconds());
        Ok(())
    }

    /// Gives a connection these seconds more than an answer has.
    pub fn give_time(&mut self, now_ns: u64, id: u64, seconds: u64) {
        if let Some(of) = self.connections.get_mut(&id) {
            of.until_ns = Some(now_ns + PATIENCE_NS + seconds * SECOND_NS);
        }
    }

    pub fn has(&self, id: u64) -> bool {
        self.connections.contains_key(&id)
    }

    fn count(&self, is_counted: impl Fn(&Side) -> bool) -> usize {
        self.connections.values().filter(|of| is_counted(&of.side)).count()
    }

    fn add(&mut self, now_ns: u64, stream: TcpStream, session: Session, side: Side) -> u64 {
        self.last += 1;
        let until_ns = Some(now_ns + PATIENCE_NS);
        self.connections.insert(self.last, Connection { stream, session, side, until_ns, is_over: false });
        let id = self.last;
        let _ = self.write(id);
        id
    }

    /// Writes and reads what a connection's socket takes and has.
    pub fn serve(&mut self, id: u64) -> Vec<Heard> {
        let mut heard = Vec::new();
        if let Err(reason) = self.write(id).and_then(|()| self.read(id, &mut heard)).and_then(|()| self.write(id)) {
            heard.extend(self.close(id, &reason));
        }
        heard
    }

    fn read(&mut self, id: u64, heard: &mut Vec<Heard>) -> Result<(), String> {
        let Some(of) = self.connections.get_mut(&id) else { return Ok(()) };
        let mut buffer = [0; 1 << 15];
        let bytes = match of.stream.read(&mut buffer) {
            Ok(0) => return Err("it gave no answer: its daemon ends, or has another key".into()),
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let messages = of.session.take(&buffer[..bytes]).map_err(|broken| broken.to_string())?;
        for text in messages {
            match &mut of.side {
                Side::Answers { has_asked, .. } => {
                    if std::mem::replace(has_asked, true) {
                        return Err("a connection carries one request".into());
                    }
                    heard.push(Heard::Request { connection: id, is_sealed: of.session.is_sealed(), text });
                }
                Side::Asks { client, follows_log, .. } => {
                    let answer: Answer = serde_json::from_slice(&text)
                        .map_err(|error| format!("its answer is not of this release: {error}"))?;
                    of.is_over = !*follows_log || matches!(answer, Answer::Refused(_));
                    heard.push(Heard::Answer { client: *client, answer: Box::new(answer) });
                    of.until_ns = None;
                }
            }
        }
        self.close_if_over(id);
        Ok(())
    }

    fn write(&mut self, id: u64) -> Result<(), String> {
        let Some(of) = self.connections.get_mut(&id) else { return Ok(()) };
        while !of.session.outbox.is_empty() {
            match of.stream.write(&of.session.outbox) {
                Ok(bytes) if bytes > 0 => drop(of.session.outbox.drain(..bytes)),
                Ok(_) => return Err("it takes nothing".into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The connection is being made, or is full.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
        self.close_if_over(id);
        Ok(())
    }

    fn close_if_over(&mut self, id: u64) {
        if self.connections.get(&id).is_some_and(|of| of.is_over && of.session.outbox.is_empty()) {
            self.connections.remove(&id);
        }
    }

    /// Closes a connection. A client that waits for its answer hears the reason.
    fn close(&mut self, id: u64, reason: &str) -> Option<Heard> {
        match self.connections.remove(&id)?.side {
            Side::Asks { client, name, .. } => {
                Some(Heard::Answer { client, answer: Box::new(Answer::Refused(format!("{name}: {reason}"))) })
            }
            Side::Answers { .. } => None,
        }
    }

    /// Answers another host, which may be closed for it: all together have [`ANSWERS_BYTES_MAX`], and the one with the
    /// most makes room.
    pub fn answer(&mut self, now_ns: u64, id: u64, answer: &Answer) {
        let Some(of) = self.connections.get_mut(&id) else { return };
        let Side::Answers { follows_log, .. } = of.side else { return };
        let text = serde_json::to_vec(answer).unwrap_or_default();
        of.session.send(&text);
        of.is_over = !follows_log;
        of.until_ns = if follows_log { None } else { Some(now_ns + PATIENCE_NS) };
        if self.write(id).is_err() {
            self.connections.remove(&id);
        }
        self.make_room();
    }

    /// Closes the connections with the most answers until all together have no more than there may be.
    fn make_room(&mut self) {
        let waits = |of: &Connection| match of.side {
            Side::Answers { .. } => of.session.outbox.len(),
            Side::Asks { .. } => 0,
        };
        while self.connections.values().map(waits).sum::<usize>() > ANSWERS_BYTES_MAX {
            let most = self.connections.iter().max_by_key(|(_, of)| waits(of)).map(|(&id, _)| id);
            most.into_iter().for_each(|id| _ = self.connections.remove(&id));
        }
    }

    /// Lets a connection follow the log. `Err`: too many do, in words.
    pub fn follow_log(&mut self, id: u64) -> Result<(), String> {
        if self.followers().len() >= FOLLOWERS_MAX {
            return Err(too_many_followers("other hosts follow"));
        }
        if let Some(Side::Answers { follows_log, .. }) = self.connections.get_mut(&id).map(|of| &mut of.side) {
            *follows_log = true;
        }
        Ok(())
    }

    /// The connections that follow the log.
    pub fn followers(&self) -> Vec<u64> {
        let follows = |side: &Side| matches!(side, Side::Answers { follows_log: true, .. });
        self.connections.iter().filter(|(_, of)| follows(&of.side)).map(|(&id, _)| id).collect()
    }

    /// The time of the next [`Remote::tick`].
    pub fn due_ns(&self) -> u64 {
        self.connections.values().filter_map(|of| of.until_ns).min().unwrap_or(u64::MAX)
    }

    /// Closes the connections whose time is over, and those whose client has gone.
    pub fn tick(&mut self, now_ns: u64, has_client: impl Fn(u64) -> bool) -> Vec<Heard> {
        let is_over = |of: &Connection| match of.side {
            Side::Asks { client, .. } if !has_client(client) => true,
            _ => of.until_ns.is_some_and(|until_ns| until_ns <= now_ns),
        };
        let over: Vec<u64> = self.connections.iter().filter(|(_, of)| is_over(of)).map(|(&id, _)| id).collect();
        let seconds = PATIENCE_NS / SECOND_NS;
        over.into_iter().filter_map(|id| self.close(id, &format!("no answer in {seconds} s"))).collect()
    }
}

fn too_many_followers(those: &str) -> String {
    format!("{those} {FOLLOWERS_MAX} logs already: end one, or ask without --follow")
}

fn nonce() -> io::Result<session::Nonce> {
    let mut nonce = session::Nonce::default();
    match rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty()) {
        Ok(bytes) if bytes == nonce.len() => Ok(nonce),
        Ok(_) => Err(io::Error::other("too few random bytes")),
        Err(error) => Err(error.into()),
    }
}

/// Begins a connection.
fn connect(address: SocketAddrV4) -> io::Result<TcpStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    watch(&stream)?;
    Ok(stream)
}

/// Lets the kernel find out that the other host is gone.
fn watch(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE / 4)?;
    sockopt::set_tcp_user_timeout(stream, SILENCE.as_millis() as u32)?;
    stream.set_nodelay(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, Timespec, poll};

    const OWN: HostId = HostId(7);
    const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

    /// One end that answers at a free port, and one that asks it.
    fn pair(asks: Option<[u8; 32]>, answers: Option<[u8; 32]>) -> (Remote, Remote) {
        let mut answering = Remote { port: 0, ..Remote::new(answers, OWN) };
        answering.listen(HERE).unwrap();
        let port = answering.listener.as_ref().unwrap().local_addr().unwrap().port();
        (Remote { port, ..Remote::new(asks, HostId(1)) }, answering)
    }

    fn ask(asking: &mut Remote, request: &Request) {
        asking.ask(0, (5, true), ("b".into(), OWN, HERE), request).unwrap();
    }

    /// Serves both ends until the asking one has something. `answer` answers the other one's requests.
    fn serve(asking: &mut Remote, answering: &mut Remote, mut answer: impl FnMut(&mut Remote, Heard)) -> Heard {
        loop {
            let mut polled: Vec<PollFd<'_>> = Vec::new();
            for (_, descriptor, wanted) in asking.descriptors().chain(answering.descriptors()) {
                polled.push(PollFd::from_borrowed_fd(descriptor, wanted));
            }
            polled.extend(answering.listener().map(|of| PollFd::from_borrowed_fd(of, PollFlags::IN)));
            poll(&mut polled, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap();
            answering.accept(0);
            for id in answering.descriptors().map(|(id, ..)| id).collect::<Vec<_>>() {
                for heard in answering.serve(id) {
                    answer(answering, heard);
                }
            }
            for id in asking.descriptors().map(|(id, ..)| id).collect::<Vec<_>>() {
                if let Some(heard) = asking.serve(id).pop() {
                    return heard;
                }
            }
        }
    }

    fn answer_of(heard: Heard) -> Answer {
        match heard {
            Heard::Answer { client: 5, answer } => *answer,
            _ => panic!("no answer for the client"),
        }
    }

    #[test]
    fn requests_and_answers_cross() {
        for key in [None, Some([3; 32])] {
            let (mut asking, mut answering) = pair(key, key);
            ask(&mut asking, &Request::Restart);
            let long = "x".repeat(1 << 20);
            let heard = serve(&mut asking, &mut answering, |answering, heard| {
                let Heard::Request { connection, is_sealed, text } = heard else { panic!("no request") };
                assert_eq!((is_sealed, text.as_slice()), (key.is_some(), br#"{"ask":"restart"}"#.as_slice()));
                answering.answer(0, connection, &Answer::Done(long.clone()));
            });
            assert_eq!(answer_of(heard), Answer::Done(long.clone()));
            assert_eq!((asking.connections.len(), answering.connections.len()), (0, 0));
        }
    }

    #[test]
    fn refusals_name_the_remedy() {
        for (asks, answers, remedy) in [
            (Some([1; 32]), Some([2; 32]), "another key"),
            (Some([1; 32]), None, "its daemon has no key: start it"),
            (None, Some([2; 32]), "start this host's daemon with the fabric's key (--key FILE)"),
        ] {
            let (mut asking, mut answering) = pair(asks, answers);
            ask(&mut asking, &Request::Restart);
            let heard = serve(&mut asking, &mut answering, |_, _| panic!("a request was taken"));
            let Answer::Refused(reason) = answer_of(heard) else { panic!("not refused") };
            assert!(reason.starts_with("b: ") && reason.contains(remedy), "{reason}");
        }
        // A log that cannot be followed: nothing is left of it.
        let (mut asking, mut answering) = pair(None, None);
        ask(&mut asking, &Request::Log { follow: true });
        let heard = serve(&mut asking, &mut answering, |answering, heard| {
            let Heard::Request { connection, .. } = heard else { panic!("no request") };
            answering.answer(0, connection, &Answer::Refused(too_many_followers("other hosts follow")));
        });
        assert!(matches!(answer_of(heard), Answer::Refused(reason) if reason.contains("--follow")));
        assert_eq!(asking.connections.len(), 0);
        // No daemon.
        let (mut asking, answering) = pair(None, None);
        drop(answering);
        ask(&mut asking, &Request::Status);
        let (_, mut other) = pair(None, None);
        assert!(matches!(answer_of(serve(&mut asking, &mut other, |_, _| {})), Answer::Refused(_)));
    }

    #[test]
    fn silence_ends_both_sides_and_a_client_that_goes_ends_its_request() {
        let (mut asking, mut answering) = pair(None, None);
        ask(&mut asking, &Request::Status);
        ask(&mut asking, &Request::Status);
        assert_eq!(asking.due_ns(), PATIENCE_NS);
        assert!(asking.tick(PATIENCE_NS - 1, |_| true).is_empty());
        assert_eq!(asking.tick(PATIENCE_NS, |_| true).len(), 2);
        // A test takes as long as it says.
        let test = Request::Test { port: "a:eth1".into(), count: 500, size: None, rate: 100 };
        ask(&mut asking, &test);
        assert_eq!(asking.due_ns(), PATIENCE_NS + test.seconds() * SECOND_NS);
        assert_eq!(asking.tick(asking.due_ns(), |_| true).len(), 1);
        ask(&mut asking, &Request::Status);
        asking.tick(0, |client| client != 5);
        assert_eq!(asking.connections.len(), 0);
        while answering.connections.is_empty() {
            answering.accept(0);
        }
        let ids: Vec<u64> = answering.connections.keys().copied().collect();
        ids.iter().for_each(|&id| answering.give_time(0, id, 7));
        answering.tick(PATIENCE_NS, |_| true);
        assert!(ids.iter().all(|&id| answering.has(id)));
        answering.tick(PATIENCE_NS + 7 * SECOND_NS, |_| true);
        assert_eq!(answering.connections.len(), 0);
    }

    #[test]
    fn the_connection_with_the_most_answers_makes_room() {
        let (asking, mut answering) = pair(None, None);
        let idle: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect((HERE, asking.port)).unwrap()).collect();
        while answering.connections.len() < idle.len() {
            answering.accept(0);
        }
        let mut left = |mib: [usize; 3]| {
            for (of, mib) in answering.connections.values_mut().zip(mib) {
                of.session.outbox = vec![0; mib << 20];
            }
            answering.make_room();
            answering.connections.keys().copied().collect::<Vec<u64>>()
        };
        assert_eq!(left([5, 7, 4]), [1, 2, 3]);
        assert_eq!(left([5, 7, 6]), [1, 3]);
    }

    #[test]
    fn users_and_followers_leave_places_for_acts() {
        let (mut asking, mut answering) = pair(None, None);
        let follow = Request::Log { follow: true };
        let mut try_ask =
            |is_operator, request: &Request| asking.ask(0, (5, is_operator), ("b".into(), OWN, HERE), request);
        (0..FOLLOWERS_MAX).for_each(|_| try_ask(false, &follow).unwrap());
        for is_operator in [false, true] {
            assert!(try_ask(is_operator, &follow).unwrap_err().contains("--follow"));
        }
        (FOLLOWERS_MAX..OF_OTHERS_MAX).for_each(|_| try_ask(false, &Request::Status).unwrap());
        assert!(try_ask(false, &Request::Status).unwrap_err().contains("ask again"));
        (OF_OTHERS_MAX..CONNECTIONS_MAX).for_each(|_| try_ask(true, &Request::Restart).unwrap());
        assert!(try_ask(true, &Request::Restart).is_err());
        while answering.connections.len() <= FOLLOWERS_MAX {
            answering.accept(0);
        }
        let ids: Vec<u64> = answering.connections.keys().copied().collect();
        ids[..FOLLOWERS_MAX].iter().for_each(|&id| answering.follow_log(id).unwrap());
        assert!(answering.follow_log(ids[FOLLOWERS_MAX]).unwrap_err().contains("--follow"));
        assert_eq!(answering.followers(), ids[..FOLLOWERS_MAX]);
    }

    #[test]
    fn connections_are_bounded() {
        let (mut asking, mut answering) = pair(None, None);
        for _ in 0..CONNECTIONS_MAX {
            ask(&mut asking, &Request::Status);
        }
        assert!(asking.ask(0, (5, true), ("b".into(), OWN, HERE), &Request::Status).is_err());
        let more: Vec<TcpStream> =
            (0..CONNECTIONS_MAX).map(|_| TcpStream::connect((HERE, asking.port)).unwrap()).collect();
        answering.accept(0);
        assert_eq!((answering.connections.len(), more.len()), (CONNECTIONS_MAX, CONNECTIONS_MAX));
    }
}
