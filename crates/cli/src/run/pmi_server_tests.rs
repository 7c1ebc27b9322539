// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PMI-1 server, line by line.

use super::*;

struct Talk {
    server: Server,
}

impl Talk {
    fn new(size: usize) -> Talk {
        Talk { server: Server::new("job", size) }
    }

    /// Says a line, and returns all that is answered to anybody.
    fn say(&mut self, rank: usize, line: &str) -> Replies {
        let mut replies = Replies::new();
        assert_eq!(self.server.line(rank, line, &mut replies), None, "{line}");
        replies
    }

    /// Says a line that only its sender gets an answer to.
    fn ask(&mut self, rank: usize, line: &str) -> String {
        let mut replies = self.say(rank, line);
        assert_eq!(replies.len(), 1, "{line}: {replies:?}");
        let (to, answer) = replies.remove(0);
        assert_eq!(to, rank);
        answer
    }

    fn init(&mut self, rank: usize) {
        assert!(self.ask(rank, "cmd=init pmi_version=1 pmi_subversion=1").ends_with("rc=0"));
    }

    fn gone(&mut self, rank: usize) -> Replies {
        let mut replies = Replies::new();
        self.server.gone(rank, &mut replies);
        replies
    }
}

fn released(ranks: &[usize]) -> Replies {
    ranks.iter().map(|&rank| (rank, "cmd=barrier_out rc=0".to_owned())).collect()
}

#[test]
fn questions_and_answers() {
    let mut talk = Talk::new(3);
    talk.init(1);
    assert_eq!(talk.ask(1, "cmd=get_maxes"), "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024");
    assert_eq!(talk.ask(1, "cmd=get_appnum"), "cmd=appnum rc=0 appnum=0");
    assert_eq!(talk.ask(1, "cmd=get_my_kvsname"), "cmd=my_kvsname rc=0 kvsname=job");
    assert_eq!(talk.ask(1, "cmd=get_universe_size"), "cmd=universe_size rc=0 size=3");
    let mapping = talk.ask(1, "cmd=get kvsname=job key=PMI_process_mapping");
    assert!(mapping.ends_with("value=(vector,(0,1,3))"), "{mapping}");
}

#[test]
fn values_are_kept_as_they_are() {
    let mut talk = Talk::new(2);
    assert!(talk.ask(0, "cmd=put kvsname=job key=a value=b=c value=d").contains("rc=0"));
    assert_eq!(talk.ask(1, "cmd=get kvsname=job key=a"), "cmd=get_result rc=0 msg=success value=b=c value=d");
    assert!(talk.ask(1, "cmd=get kvsname=job key=b").contains("rc=-1"));
    assert!(talk.ask(1, "cmd=get kvsname=other key=a").contains("rc=-1"));
    assert_eq!(
        talk.ask(0, "cmd=getbyidx kvsname=job idx=0"),
        "cmd=getbyidx_results rc=0 nextidx=1 key=a val=b=c value=d"
    );
    assert!(talk.ask(0, "cmd=getbyidx kvsname=job idx=1").contains("rc=-1"));
}

#[test]
fn nothing_odd_goes_without_an_answer_or_does_harm() {
    let mut talk = Talk::new(1);
    let long_key = format!("cmd=put kvsname=job key={} value=1", "k".repeat(65));
    let long_value = format!("cmd=put kvsname=job key=k value={}", "v".repeat(1025));
    for odd in [
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
        assert!(talk.ask(0, odd).contains("rc=-1"), "{odd:?}");
    }
    assert!(talk.say(0, "mcmd=spawn").is_empty());
    assert!(talk.say(0, "cmd=abort exitcode=3").is_empty(), "a word of the long command");
    assert!(talk.ask(0, "endcmd").contains("rc=-1"));
    talk.init(0);
}

#[test]
fn a_barrier_waits_for_all_and_can_be_repeated() {
    let mut talk = Talk::new(3);
    talk.init(0);
    talk.init(1);
    for _ in 0..2 {
        assert!(talk.say(0, "cmd=barrier_in").is_empty());
        assert!(talk.say(1, "cmd=barrier_in").is_empty());
        if talk.server.members[2].state == State::Fresh {
            talk.init(2);
        }
        assert_eq!(talk.say(2, "cmd=barrier_in"), released(&[0, 1, 2]));
    }
}

#[test]
fn a_barrier_does_not_wait_for_the_dead_or_those_who_left() {
    let mut talk = Talk::new(4);
    (0..4).for_each(|rank| talk.init(rank));
    assert!(talk.say(0, "cmd=barrier_in").is_empty());
    assert!(talk.say(1, "cmd=barrier_in").is_empty());
    assert!(talk.gone(2).is_empty());
    let replies = talk.say(3, "cmd=finalize");
    assert_eq!(replies[0], (3, "cmd=finalize_ack rc=0".to_owned()));
    assert_eq!(replies[1..], released(&[0, 1]));
    assert!(talk.server.has_left(3) && !talk.server.has_left(2));
    assert!(talk.say(0, "cmd=barrier_in").is_empty());
    assert_eq!(talk.gone(1), released(&[0]), "one that died in the barrier");
}

#[test]
fn death_of_a_rank_that_never_spoke_completes_barriers() {
    let mut talk = Talk::new(2);
    talk.init(0);
    assert!(talk.say(0, "cmd=barrier_in").is_empty());
    assert_eq!(talk.gone(1), released(&[0]));
}

#[test]
fn abort_gives_its_code() {
    let mut server = Server::new("job", 1);
    let mut replies = Replies::new();
    for (line, code) in [("cmd=abort exitcode=7", 7), ("cmd=abort", 1), ("cmd=abort exitcode=x", 1)] {
        assert_eq!(server.line(0, line, &mut replies), Some(Abort { code, asked: false }));
    }
    assert!(replies.is_empty());
}

#[test]
fn a_second_program_starts_when_the_first_is_over_everywhere() {
    let mut talk = Talk::new(2);
    (0..2).for_each(|rank| talk.init(rank));
    talk.ask(0, "cmd=put kvsname=job key=a value=old");
    talk.ask(0, "cmd=finalize");
    assert!(talk.say(0, "cmd=init pmi_version=1").is_empty(), "rank 1 may still read");
    assert!(talk.ask(1, "cmd=get kvsname=job key=a").ends_with("value=old"));
    let replies = talk.say(1, "cmd=finalize");
    assert_eq!(replies.last().map(|(to, _)| *to), Some(0), "now rank 0 may start");
    assert!(talk.ask(0, "cmd=get kvsname=job key=a").contains("rc=-1"), "keys of the first are gone");
    assert!(talk.say(0, "cmd=barrier_in").is_empty(), "rank 1 may yet start the second");
    talk.init(1);
    assert_eq!(talk.say(1, "cmd=barrier_in"), released(&[0, 1]));
}

#[test]
fn a_program_that_ended_without_a_word_does_not_block_the_next() {
    let mut talk = Talk::new(2);
    (0..2).for_each(|rank| talk.init(rank));
    assert!(talk.say(0, "cmd=init pmi_version=1").is_empty());
    let replies = talk.say(1, "cmd=init pmi_version=1");
    assert_eq!(replies.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [0, 1]);
    assert!(talk.say(0, "cmd=barrier_in").is_empty());
    assert_eq!(talk.gone(1), released(&[0]));
}

#[test]
fn a_program_and_its_library_share_the_wire() {
    let mut talk = Talk::new(2);
    (0..2).for_each(|rank| talk.init(rank));
    for rank in 0..2 {
        assert_eq!(talk.say(rank, "cmd=init pmi_version=1 library=selvedge").len(), 1, "of the same generation");
    }
    talk.ask(0, "cmd=put kvsname=job key=a value=seen");
    assert_eq!(talk.ask(0, "cmd=finalize library=selvedge"), "cmd=finalize_ack rc=0");
    assert!(talk.say(0, "cmd=barrier_in").is_empty(), "the program goes on");
    assert_eq!(talk.say(1, "cmd=barrier_in"), released(&[0, 1]));
    assert!(talk.ask(1, "cmd=get kvsname=job key=a").ends_with("value=seen"));
}
