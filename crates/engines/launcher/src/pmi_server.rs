// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server side of PMI-1, as a state machine over lines, without I/O.
//!
//! It answers the requests that MPICH's launchers answer, so that an MPICH program also runs under `selvedge run`:
//! `init`, `get_maxes`, `get_appnum`, `get_my_kvsname`, `get_universe_size`, `put`, `get`, `getbyidx`, `barrier_in`,
//! `finalize`, `abort`. Refused: name publishing and spawning. For our own library it also answers `exchange_in`: a
//! barrier that gathers a value of each rank.
//!
//! Invariants
//! 1. A barrier never waits for a rank that has ended or left: it completes when all others have entered it.
//! 2. A rank may run several programs one after another (a shell script does). Each `init` after the first begins a new
//!    generation, with its own key space and barriers, and is answered when no rank is in an earlier one. So keys of
//!    one program are never taken for keys of another.
//! 3. The worst effect of a malformed line is an answer with `rc=-1` to its sender.
//!
//! Cost: a request O(log keys); barriers, finalizes and deaths O(ranks).

use std::collections::BTreeMap;

use selvedge_job::exchange_table;

const KVS_NAME_CHARS_MAX: usize = 256;
const KEY_CHARS_MAX: usize = 64;
const VALUE_CHARS_MAX: usize = 1024;

/// The state of a job's PMI server.
pub(crate) struct Server {
    name: String,
    members: Vec<Member>,
    keys: BTreeMap<(u32, String), String>,
    /// The node of each rank, as `PMI_process_mapping`. `None`: programs find out without it.
    mapping: Option<String>,
    /// The number of the next exchange, and the tables of those that are complete.
    exchange_next: u64,
    tables: Vec<Table>,
}

/// The table of a complete exchange, which every host with ranks needs before their answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) number: u64,
    /// As [`exchange_table`] makes it.
    pub(crate) text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Has sent nothing yet.
    Fresh,
    Active,
    Left,
    Gone,
}

struct Member {
    state: State,
    generation: u32,
    in_barrier: bool,
    /// Its value for an exchange, in base64url; complete when it is in the barrier.
    offered: Option<String>,
    /// Its `init` waits until other ranks leave the previous generation.
    init_held: bool,
    /// Between `mcmd=` and `endcmd`.
    in_long_command: bool,
    /// For the rank's two clients (the program, and our library in it): whether `init` came and not yet `finalize`.
    clients: [bool; 2],
}

/// Lines to send, in order: the rank, and the text without the newline.
pub(crate) type Replies = Vec<(usize, String)>;

/// A rank's request to end the job.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Abort {
    pub(crate) code: i32,
    /// The program has finished with this code. Otherwise it has failed.
    pub finished: bool,
}

impl Server {
    pub(crate) fn new(name: &str, size: usize) -> Server {
        let member = || Member {
            state: State::Fresh,
            generation: 0,
            in_barrier: false,
            offered: None,
            init_held: false,
            in_long_command: false,
            clients: [false; 2],
        };
        Server {
            name: name.to_owned(),
            members: (0..size).map(|_| member()).collect(),
            keys: BTreeMap::new(),
            // All ranks are on one node, so that MPICH uses shared memory.
            mapping: Some(format!("(vector,(0,1,{size}))")),
            exchange_next: 0,
            tables: Vec::new(),
        }
    }

    /// Reports every rank as alone on its node, so that ranks share no memory.
    pub(crate) fn set_separate_nodes(&mut self) {
        self.set_mapping(Some(format!("(vector,(0,{},1))", self.members.len())));
    }

    /// Sets which ranks share a node, in the form of `PMI_process_mapping`.
    pub(crate) fn set_mapping(&mut self, mapping: Option<String>) {
        self.mapping = mapping;
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn has_left(&self, rank: usize) -> bool {
        self.members[rank].state == State::Left
    }

    pub(crate) fn rank_ended(&mut self, rank: usize, replies: &mut Replies) {
        let member = &mut self.members[rank];
        member.state = State::Gone;
        member.in_barrier = false;
        member.offered = None;
        member.init_held = false;
        self.answer_waiting(replies);
    }

    pub(crate) fn line(&mut self, rank: usize, line: &str, replies: &mut Replies) -> Option<Abort> {
        if self.members[rank].in_long_command {
            if line.trim() == "endcmd" {
                self.members[rank].in_long_command = false;
                replies.push((rank, "cmd=spawn_result rc=-1 status=not_supported".to_owned()));
            }
            return None;
        }
        if word(line, "mcmd").is_some() {
            self.members[rank].in_long_command = true;
            return None;
        }
        let command = word(line, "cmd").unwrap_or_default();
        let answer = match command {
            "init" => return self.init(rank, line, replies),
            "barrier_in" => return self.barrier_in(rank, replies),
            "exchange_more" => self.offer(rank, line),
            "exchange_in" => {
                self.offer(rank, line);
                return self.barrier_in(rank, replies);
            }
            "finalize" => return self.finalize(rank, line, replies),
            "abort" => {
                let code = word(line, "exitcode").and_then(|code| code.parse().ok()).unwrap_or(1);
                // Programs also end their job by this command: other libraries' `shmem_global_exit(0)` sends the code
                // 0, and hydra then exits with 0.
                return Some(Abort { code, finished: code == 0 || word(line, "end") == Some("asked") });
            }
            "get_maxes" => format!(
                "cmd=maxes rc=0 kvsname_max={KVS_NAME_CHARS_MAX} keylen_max={KEY_CHARS_MAX} vallen_max={VALUE_CHARS_MAX}"
            ),
            "get_appnum" => "cmd=appnum rc=0 appnum=0".to_owned(),
            "get_my_kvsname" => format!("cmd=my_kvsname rc=0 kvsname={}", self.name),
            "get_universe_size" => format!("cmd=universe_size rc=0 size={}", self.members.len()),
            "put" => self.put(rank, line),
            "get" => self.get(rank, line),
            "getbyidx" => self.get_by_index(rank, line),
            "publish_name" => "cmd=publish_result info=not_supported rc=-1 msg=not_supported".to_owned(),
            "unpublish_name" => "cmd=unpublish_result info=not_supported rc=-1 msg=not_supported".to_owned(),
            "lookup_name" => "cmd=lookup_result info=not_supported rc=-1 msg=not_supported".to_owned(),
            "spawn" => "cmd=spawn_result rc=-1 status=not_supported".to_owned(),
            other => format!("cmd={} rc=-1 msg=unknown_command", if other.is_empty() { "error" } else { other }),
        };
        replies.push((rank, answer));
        None
    }

    fn init(&mut self, rank: usize, line: &str, replies: &mut Replies) -> Option<Abort> {
        if word(line, "pmi_version").is_some_and(|version| version != "1") {
            replies.push((rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1".to_owned()));
            return None;
        }
        let member = &mut self.members[rank];
        let client = client(line);
        match member.state {
            State::Fresh => {
                member.state = State::Active;
                member.clients[client] = true;
                replies.push((rank, INIT_ANSWER.to_owned()));
                return None;
            }
            // The program and its library share the connection, and both belong to this generation.
            State::Active if !member.clients[client] => {
                member.clients[client] = true;
                replies.push((rank, INIT_ANSWER.to_owned()));
                return None;
            }
            // The previous program ended without finalize.
            State::Active => member.state = State::Left,
            State::Left | State::Gone => {}
        }
        member.init_held = true;
        member.clients = [false; 2];
        member.clients[client] = true;
        self.answer_waiting(replies);
        None
    }

    fn barrier_in(&mut self, rank: usize, replies: &mut Replies) -> Option<Abort> {
        if self.members[rank].state == State::Active {
            self.members[rank].in_barrier = true;
            self.answer_waiting(replies);
        } else {
            replies.push((rank, "cmd=barrier_out rc=-1 msg=not_initialised".to_owned()));
        }
        None
    }

    /// Appends to the value that a rank gives to an exchange.
    fn offer(&mut self, rank: usize, line: &str) -> String {
        self.members[rank].offered.get_or_insert_default().push_str(word(line, "value").unwrap_or_default());
        "cmd=exchange_more rc=0".to_owned()
    }

    /// Returns the tables of the exchanges that are complete since the last call. They go to all hosts before any reply.
    pub(crate) fn take_tables(&mut self) -> Vec<Table> {
        std::mem::take(&mut self.tables)
    }

    fn finalize(&mut self, rank: usize, line: &str, replies: &mut Replies) -> Option<Abort> {
        let member = &mut self.members[rank];
        member.clients[client(line)] = false;
        if member.clients == [false; 2] {
            member.state = State::Left;
            member.in_barrier = false;
        }
        replies.push((rank, "cmd=finalize_ack rc=0".to_owned()));
        self.answer_waiting(replies);
        None
    }

    /// Answers waiting requests that can be answered now.
    fn answer_waiting(&mut self, replies: &mut Replies) {
        for rank in 0..self.members.len() {
            let next = self.members[rank].generation + 1;
            let busy = self.members.iter().any(|other| other.state == State::Active && other.generation < next);
            if self.members[rank].init_held && !busy {
                self.keys.retain(|(generation, _), _| *generation >= next);
                let member = &mut self.members[rank];
                (member.state, member.generation, member.init_held) = (State::Active, next, false);
                replies.push((rank, INIT_ANSWER.to_owned()));
            }
        }
        // The last generation whose barrier was found incomplete. Most jobs have one generation.
        let mut incomplete = None;
        for rank in 0..self.members.len() {
            let generation = self.members[rank].generation;
            if !self.members[rank].in_barrier || incomplete == Some(generation) {
                continue;
            }
            if !self.barrier_is_complete(generation) {
                incomplete = Some(generation);
            } else {
                self.end_barrier(generation, replies);
            }
        }
    }

    /// Answers the ranks of a complete barrier. Those that have given a value get the number of the table of all values.
    fn end_barrier(&mut self, generation: u32, replies: &mut Replies) {
        let is_in = |member: &Member| member.in_barrier && member.generation == generation;
        let values = || self.members.iter().map(|member| member.offered.as_deref().filter(|_| is_in(member)));
        let number = self.exchange_next;
        if values().any(|value| value.is_some()) {
            self.tables.push(Table { number, text: exchange_table(values()) });
            self.exchange_next += 1;
        }
        for (to, member) in self.members.iter_mut().enumerate().filter(|(_, member)| is_in(member)) {
            member.in_barrier = false;
            let answer = match member.offered.take() {
                Some(_) => format!("cmd=exchange_out rc=0 table={number}"),
                None => "cmd=barrier_out rc=0".to_owned(),
            };
            replies.push((to, answer));
        }
    }

    fn barrier_is_complete(&self, generation: u32) -> bool {
        self.members.iter().all(|member| match member.state {
            State::Gone => true,
            State::Active => member.in_barrier && member.generation == generation,
            State::Left => member.generation >= generation,
            State::Fresh => false,
        })
    }

    fn put(&mut self, rank: usize, line: &str) -> String {
        let (Some(key), Some((_, value))) = (word(line, "key"), line.split_once(" value=")) else {
            return "cmd=put_result rc=-1 msg=key_or_value_missing".to_owned();
        };
        if word(line, "kvsname") != Some(&self.name) {
            return "cmd=put_result rc=-1 msg=unknown_kvsname".to_owned();
        }
        if key.len() > KEY_CHARS_MAX || value.len() > VALUE_CHARS_MAX {
            return "cmd=put_result rc=-1 msg=too_long".to_owned();
        }
        self.keys.insert((self.members[rank].generation, key.to_owned()), value.to_owned());
        "cmd=put_result rc=0 msg=success".to_owned()
    }

    fn get(&self, rank: usize, line: &str) -> String {
        let key = word(line, "key").unwrap_or_default();
        if word(line, "kvsname") != Some(&self.name) {
            return "cmd=get_result rc=-1 msg=unknown_kvsname".to_owned();
        }
        if let Some(value) = self.keys.get(&(self.members[rank].generation, key.to_owned())) {
            return format!("cmd=get_result rc=0 msg=success value={value}");
        }
        match &self.mapping {
            Some(mapping) if key == "PMI_process_mapping" => {
                format!("cmd=get_result rc=0 msg=success value={mapping}")
            }
            _ => "cmd=get_result rc=-1 msg=key_not_found".to_owned(),
        }
    }

    fn get_by_index(&self, rank: usize, line: &str) -> String {
        let generation = self.members[rank].generation;
        let index: Option<usize> = word(line, "idx").and_then(|index| index.parse().ok());
        let mut own = self.keys.iter().filter(|((of, _), _)| *of == generation);
        match index.and_then(|index| Some((index, own.nth(index)?))) {
            Some((index, ((_, key), value))) => {
                format!("cmd=getbyidx_results rc=0 nextidx={} key={key} val={value}", index + 1)
            }
            None => "cmd=getbyidx_results rc=-1 reason=no_more_keyvals".to_owned(),
        }
    }
}

const INIT_ANSWER: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";

/// Whether the rank that sent this line waits for others. A rank that completes a barrier waits, too.
pub(crate) fn waits_for_others(replies: &Replies, number: u32, line: &str) -> bool {
    let answered = replies.iter().any(|(to, _)| *to == number as usize);
    match word(line, "cmd") {
        Some("barrier_in" | "exchange_in") => true,
        Some("init") => !answered,
        _ => false,
    }
}

/// The value of `key=value` in a line.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
#[path = "pmi_server_tests.rs"]
mod tests;

/// The client of a rank that sent a line: 0 the program, 1 our library in it, which marks its lines.
fn client(line: &str) -> usize {
    usize::from(word(line, "library") == Some("selvedge"))
}
