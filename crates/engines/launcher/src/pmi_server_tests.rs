// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PMI-1 server, line by line.

use super::*;

struct Session {
    server: Server,
}

impl Session {
    fn new(size: usize) -> Session {
        Session { server: Server::new("job", size) }
    }

    /// Sends a line, and returns all answers to all ranks.
    fn send(&mut self, rank: usize, line: &str) -> Replies {
        let mut replies = Replies::new();
        assert_eq!(self.server.line(rank, line, &mut replies), None, "{line}");
        replies
    }

    /// Sends a line that only its sender gets an answer to.
    fn ask(&mut self, rank: usize, line: &str) -> String {
        let mut replies = self.send(rank, line);
        assert_eq!(replies.len(), 1, "{line}: {replies:?}");
        let (to, answer) = replies.remove(0);
        assert_eq!(to, rank);
        answer
    }

    fn init(&mut self, rank: usize) {
        assert!(self.ask(rank, "cmd=init pmi_version=1 pmi_subversion=1").ends_with("rc=0"));
    }

    fn rank_ended(&mut self, rank: usize) -> Replies {
        let mut replies = Replies::new();
        self.server.rank_ended(rank, &mut replies);
        replies
    }
}

fn released(ranks: &[usize]) -> Replies {
    ranks.iter().map(|&rank| (rank, "cmd=barrier_out rc=0".to_owned())).collect()
}

#[test]
fn requests_are_answered() {
    let mut session = Session::new(3);
    session.init(1);
    assert_eq!(session.ask(1, "cmd=get_maxes"), "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024");
    assert_eq!(session.ask(1, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
    assert_eq!(session.ask(1, "cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=job");
    assert_eq!(session.ask(1, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=3");
    let mapping = session.ask(1, "cmd=get kvsname=job key=PMI_process_mapping");
    assert!(mapping.ends_with("value=(vector,(0,1,3))"), "{mapping}");
}

#[test]
fn values_are_returned_unchanged() {
    let mut session = Session::new(2);
    assert!(session.ask(0, "cmd=put kvsname=job key=a value=b=c value=d").contains("rc=0"));
    assert_eq!(session.ask(1, "cmd=get kvsname=job key=a"), "cmd=get_result rc=0 msg=success value=b=c value=d");
    assert!(session.ask(1, "cmd=get kvsname=job key=b").contains("rc=-1"));
    assert!(session.ask(1, "cmd=get kvsname=other key=a").contains("rc=-1"));
    assert_eq!(
        session.ask(0, "cmd=getbyidx kvsname=job idx=0"),
        "cmd=getbyidx_results rc=0 nextidx=1 key=a val=b=c value=d"
    );
    assert!(session.ask(0, "cmd=getbyidx kvsname=job idx=1").contains("rc=-1"));
}

#[test]
fn malformed_requests_are_refused() {
    let mut session = Session::new(1);
    let long_key = format!("cmd=put kvsname=job key={} value=1", "k".repeat(65));
    let long_value = format!("cmd=put kvsname=job key=k value={}", "v".repeat(1025));
    for malformed in [
        "",
        " ",
        "cmd=",
        "cmd=dance",
        "no words",
        "cmd=put",
        "cmd=put kvsname=job key=a",
        "cmd=put kvsname=other key=a value=1",
        &long_key,
        &long_value,
        "cmd=get",
        "cmd=getbyidx kvsname=job idx=-1",
        "cmd=getbyidx kvsname=job idx=99999999999999999999",
        "cmd=init pmi_version=2 pmi_subversion=0",
        "cmd=barrier_in",
        "cmd=publish_name service=a port=b",
        "cmd=lookup_name service=a",
    ] {
        assert!(session.ask(0, malformed).contains("rc=-1"), "{malformed:?}");
    }
    assert!(session.send(0, "mcmd=spawn").is_empty());
    assert!(session.send(0, "cmd=abort exitcode=3").is_empty(), "a word of the long command");
    assert!(session.ask(0, "endcmd").contains("rc=-1"));
    session.init(0);
}

#[test]
fn a_barrier_waits_for_all_and_can_be_repeated() {
    let mut session = Session::new(3);
    session.init(0);
    session.init(1);
    for _ in 0..2 {
        assert!(session.send(0, "cmd=barrier_in").is_empty());
        assert!(session.send(1, "cmd=barrier_in").is_empty());
        if session.server.members[2].state == State::Fresh {
            session.init(2);
        }
        assert_eq!(session.send(2, "cmd=barrier_in"), released(&[0, 1, 2]));
    }
}

#[test]
fn a_barrier_does_not_wait_for_ranks_that_died_or_left() {
    let mut session = Session::new(4);
    (0..4).for_each(|rank| session.init(rank));
    assert!(session.send(0, "cmd=barrier_in").is_empty());
    assert!(session.send(1, "cmd=barrier_in").is_empty());
    assert!(session.rank_ended(2).is_empty());
    let replies = session.send(3, "cmd=finalize");
    assert_eq!(replies[0], (3, "cmd=finalize_ack rc=0".to_owned()));
    assert_eq!(replies[1..], released(&[0, 1]));
    assert!(session.server.has_left(3) && !session.server.has_left(2));
    assert!(session.send(0, "cmd=barrier_in").is_empty());
    assert_eq!(session.rank_ended(1), released(&[0]), "a rank that died in the barrier");
}

#[test]
fn death_of_a_rank_that_sent_nothing_completes_barriers() {
    let mut session = Session::new(2);
    session.init(0);
    assert!(session.send(0, "cmd=barrier_in").is_empty());
    assert_eq!(session.rank_ended(1), released(&[0]));
}

#[test]
fn abort_gives_its_code() {
    let mut server = Server::new("job", 1);
    let mut replies = Replies::new();
    for (line, code) in [("cmd=abort exitcode=7", 7), ("cmd=abort", 1), ("cmd=abort exitcode=x", 1)] {
        assert_eq!(server.line(0, line, &mut replies), Some(Abort { code, finished: false }));
    }
    for (line, code) in [("cmd=abort exitcode=0", 0), ("cmd=abort exitcode=7 end=asked", 7)] {
        assert_eq!(server.line(0, line, &mut replies), Some(Abort { code, finished: true }));
    }
    assert!(replies.is_empty());
}

#[test]
fn a_second_program_starts_when_the_first_is_over_everywhere() {
    let mut session = Session::new(2);
    (0..2).for_each(|rank| session.init(rank));
    session.ask(0, "cmd=put kvsname=job key=a value=old");
    session.ask(0, "cmd=finalize");
    assert!(session.send(0, "cmd=init pmi_version=1").is_empty(), "rank 1 may still read");
    assert!(session.ask(1, "cmd=get kvsname=job key=a").ends_with("value=old"));
    let replies = session.send(1, "cmd=finalize");
    assert_eq!(replies.last().map(|(to, _)| *to), Some(0), "now rank 0 may start");
    assert!(session.ask(0, "cmd=get kvsname=job key=a").contains("rc=-1"), "keys of the first are removed");
    assert!(session.send(0, "cmd=barrier_in").is_empty(), "rank 1 may still start the second");
    session.init(1);
    assert_eq!(session.send(1, "cmd=barrier_in"), released(&[0, 1]));
}

#[test]
fn a_program_that_ended_without_finalize_does_not_block_the_next() {
    let mut session = Session::new(2);
    (0..2).for_each(|rank| session.init(rank));
    assert!(session.send(0, "cmd=init pmi_version=1").is_empty());
    let replies = session.send(1, "cmd=init pmi_version=1");
    assert_eq!(replies.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [0, 1]);
    assert!(session.send(0, "cmd=barrier_in").is_empty());
    assert_eq!(session.rank_ended(1), released(&[0]));
}

#[test]
fn a_program_and_its_library_share_the_connection() {
    let mut session = Session::new(2);
    (0..2).for_each(|rank| session.init(rank));
    for rank in 0..2 {
        assert_eq!(session.send(rank, "cmd=init pmi_version=1 library=selvedge").len(), 1, "of the same generation");
    }
    session.ask(0, "cmd=put kvsname=job key=a value=seen");
    assert_eq!(session.ask(0, "cmd=finalize library=selvedge"), "cmd=finalize_ack rc=0");
    assert!(session.send(0, "cmd=barrier_in").is_empty(), "the program continues");
    assert_eq!(session.send(1, "cmd=barrier_in"), released(&[0, 1]));
    assert!(session.ask(1, "cmd=get kvsname=job key=a").ends_with("value=seen"));
}

#[test]
fn an_exchange_is_a_barrier_with_a_table() {
    let mut session = Session::new(3);
    (0..3).for_each(|rank| session.init(rank));
    assert_eq!(session.ask(2, "cmd=exchange_more value=YQ"), "cmd=exchange_more rc=0");
    assert_eq!(session.send(2, "cmd=exchange_in value=YQ"), []);
    assert_eq!(session.send(0, "cmd=exchange_in value="), []);
    assert_eq!(session.server.take_tables(), []);
    let out = |number| (0..3).map(|rank| (rank, format!("cmd=exchange_out rc=0 table={number}"))).collect::<Replies>();
    assert_eq!(session.send(1, "cmd=exchange_in value=Yg"), out(0));
    assert_eq!(session.server.take_tables(), [Table { number: 0, text: "\nYg\nYQYQ\n".to_owned() }]);
    assert_eq!(session.server.take_tables(), []);
    (0..2).for_each(|rank| assert_eq!(session.send(rank, "cmd=exchange_in value=YQ"), []));
    assert_eq!(session.send(2, "cmd=exchange_in value=YQ"), out(1));
}

#[test]
fn a_rank_that_ends_gives_nothing_to_an_exchange() {
    let mut session = Session::new(3);
    (0..3).for_each(|rank| session.init(rank));
    assert_eq!(session.send(1, "cmd=exchange_in value=YQ"), []);
    assert_eq!(session.rank_ended(1), []);
    assert_eq!(session.send(0, "cmd=exchange_in value=YQ"), []);
    // One that waits in a barrier gives nothing, either.
    let replies = session.send(2, "cmd=barrier_in");
    assert_eq!(replies, [(0, "cmd=exchange_out rc=0 table=0".to_owned()), (2, "cmd=barrier_out rc=0".to_owned())]);
    assert_eq!(session.server.take_tables(), [Table { number: 0, text: "YQ\n-\n-\n".to_owned() }]);
}

#[test]
fn programs_of_two_generations_have_exchanges_of_their_own() {
    let mut session = Session::new(2);
    (0..2).for_each(|rank| session.init(rank));
    assert_eq!(session.send(0, "cmd=exchange_in value=YQ"), []);
    // The second program of rank 1 begins, and waits until rank 0 has left the first generation.
    assert_eq!(session.send(1, "cmd=finalize").len(), 2);
    let tables = session.server.take_tables();
    assert_eq!(tables, [Table { number: 0, text: "YQ\n-\n".to_owned() }]);
}
