// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PMI-1 client against a launcher that is a thread of the test, correct or faulty.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::testing::Parent;

/// Starts a launcher of one rank with this limit on values. The thread returns the values that were put, when the rank closes.
fn launcher(vallen_max: usize) -> (RawFd, JoinHandle<HashMap<String, String>>) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let serve = move || {
        let mut keys = HashMap::new();
        let mut answers = ours.try_clone().expect("cloned");
        for line in BufReader::new(ours).lines() {
            let line = line.expect("text");
            let of = |key| word(&line, key).unwrap_or_default().to_owned();
            let answer = match of("cmd").as_str() {
                "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_owned(),
                "get_maxes" => format!("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max={vallen_max}"),
                "get_my_kvsname" => "cmd=my_kvsname kvsname=kvs_0".to_owned(),
                "put" => {
                    assert!(of("key").len() <= 64 && of("value").len() <= vallen_max, "{line}");
                    keys.insert(of("key"), of("value"));
                    "cmd=put_result rc=0 msg=success".to_owned()
                }
                "get" => match keys.get(&of("key")) {
                    Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                    None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".to_owned(),
                },
                "barrier_in" => "cmd=barrier_out".to_owned(),
                "finalize" => "cmd=finalize_ack".to_owned(),
                "exchange_more" | "exchange_in" => "cmd=exchange rc=-1 msg=unknown_command".to_owned(),
                other => panic!("{other}"),
            };
            // Send the answer in two pieces, as a socket may deliver it.
            let (start, end) = answer.split_at(answer.len() / 2);
            answers.write_all(start.as_bytes()).expect("sent");
            answers.write_all(format!("{end}\n").as_bytes()).expect("sent");
        }
        keys
    };
    (theirs.into_raw_fd(), std::thread::spawn(serve))
}

/// Starts a launcher that sends these lines, whatever the requests are.
fn sends(lines: &str) -> RawFd {
    let (mut ours, theirs) = UnixStream::pair().expect("a pair");
    ours.write_all(lines.as_bytes()).expect("sent");
    // The rank reads end-of-file after these lines, but can still send.
    ours.shutdown(std::net::Shutdown::Write).expect("ours");
    std::mem::forget(ours);
    theirs.into_raw_fd()
}

fn close(pmi: Pmi1) {
    // SAFETY: the descriptor came from `into_raw_fd`, and `pmi` was its only user.
    drop(unsafe { std::os::fd::OwnedFd::from_raw_fd(pmi.fd()) });
}

use std::os::fd::{AsRawFd, FromRawFd};

const GREETING: &str = "cmd=response_to_init rc=0\ncmd=maxes vallen_max=64\ncmd=my_kvsname kvsname=k\n";

#[test]
fn bytes_of_any_number_come_back() {
    for vallen_max in [64, 1024] {
        let (fd, thread) = launcher(vallen_max);
        let mut pmi = Pmi1::start(LineSocket::new(fd), 0, 1).expect("initialised");
        assert_eq!(pmi.kvs_name(), "kvs_0");
        for (nth, length) in
            [0, 1, 2, 40, 41, 42, 43, 44, 45, 46, 47, 48, 764, 765, 766, 10_000].into_iter().enumerate()
        {
            let bytes: Vec<u8> = (0..length).map(|at: usize| (at * 7) as u8).collect();
            pmi.put(&nth.to_string(), &bytes).expect("put");
            pmi.barrier().expect("one rank");
            assert_eq!(pmi.get(&nth.to_string()).expect("put"), Some(bytes), "{length}");
        }
        close(pmi);
        let keys = thread.join().expect("no panic");
        assert!(keys.values().any(|value| value.len() == vallen_max - 1), "the limit is used");
    }
}

#[test]
fn rank_and_job_are_known_without_a_message() {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    ours.set_nonblocking(true).expect("a socket");
    let first = Uninitialised::new(theirs.as_raw_fd(), 1, 2).expect("made by this process");
    let (others, other) = UnixStream::pair().expect("a pair");
    let second = Uninitialised::new(other.as_raw_fd(), 0, 2).expect("made by this process");
    let own = Identity::own();
    assert_eq!((first.rank(), first.size(), first.fd()), (1, 2, theirs.as_raw_fd()));
    assert_eq!(first.job_name(), format!("pmi-{}-{}", own.pid, own.start));
    assert_eq!(first.job_name(), second.job_name(), "ranks of one launcher are in one job");
    let received = (&ours).read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(received, Err(io::ErrorKind::WouldBlock), "nothing was sent");
    drop(others);
    assert!(matches!(second.start(), Err(JobError::LauncherGone)));
}

#[test]
fn without_a_known_launcher_process_the_messages_are_needed() {
    let (_ours, theirs) = UnixStream::pair().expect("a pair");
    assert!(Uninitialised::new(theirs.as_raw_fd(), 2, 2).is_none(), "rank 2 of 2");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let stream = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
    assert!(Uninitialised::new(stream.as_raw_fd(), 0, 2).is_none(), "a TCP connection");
    assert!(Uninitialised::new(-1, 0, 2).is_none(), "no descriptor");
}

#[test]
fn starting_late_works_like_starting_at_once() {
    let (fd, thread) = launcher(64);
    let uninitialised = Uninitialised::new(fd, 0, 1).expect("made by this process");
    let mut pmi = uninitialised.start().expect("initialised");
    pmi.put("0", b"abc").expect("put");
    pmi.barrier().expect("one rank");
    assert_eq!(pmi.get("0").expect("put").as_deref(), Some(&b"abc"[..]));
    close(pmi);
    assert_eq!(thread.join().expect("no panic").len(), 1);
}

#[test]
fn what_nobody_put_is_not_there() {
    let (fd, thread) = launcher(64);
    let mut pmi = Pmi1::start(LineSocket::new(fd), 0, 2).expect("initialised");
    assert_eq!(pmi.get("0-1").expect("answered"), None);
    close(pmi);
    thread.join().expect("no panic");
}

#[test]
fn a_closed_connection_is_an_error_at_every_step() {
    for greeting in ["", "cmd=response_to_init rc=0\n", "cmd=response_to_init rc=0\ncmd=maxes vallen_max=64\n"] {
        let started = Pmi1::start(LineSocket::new(sends(greeting)), 0, 1);
        assert!(matches!(started, Err(JobError::LauncherGone)), "{greeting:?}");
    }
    let mut pmi = Pmi1::start(LineSocket::new(sends(GREETING)), 0, 1).expect("initialised");
    assert!(matches!(pmi.barrier(), Err(JobError::LauncherGone)));
    // Both directions closed: without care, this would be SIGPIPE.
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    drop(ours);
    assert!(matches!(Pmi1::start(LineSocket::new(theirs.into_raw_fd()), 0, 1), Err(JobError::LauncherGone)));
}

#[test]
fn malformed_answers_are_errors() {
    let endless = "x".repeat(LINE_BYTES_MAX + 5000);
    for greeting in ["cmd=response_to_init rc=-1\n", "hello\n", "\n", "cmd=maxes\n", &endless] {
        let started = Pmi1::start(LineSocket::new(sends(greeting)), 0, 1);
        assert!(matches!(started, Err(JobError::Protocol { .. })), "{:.20}", greeting);
    }
    assert!(matches!(Pmi1::start(LineSocket::new(-2), 3, 3), Err(JobError::Protocol { .. })), "rank 3 of 3");
}

#[test]
fn values_that_no_rank_has_put_are_errors() {
    for value in
        ["", "x", "5", "-1.AAAA", "4.AAAAAAAA", "4.A A", "1.A", "99999999999999999999999.A", "4.====", "8.AAAA"]
    {
        let mut pmi =
            Pmi1::start(LineSocket::new(sends(&format!("{GREETING}cmd=get_result rc=0 value={value}\n"))), 0, 2)
                .expect("initialised");
        let got = pmi.get("0-1");
        assert!(matches!(got, Err(JobError::Protocol { .. } | JobError::LauncherGone)), "{value:?}: {got:?}");
    }
}

#[test]
fn a_value_is_split_at_the_limit_exactly() {
    for length in 0..200 {
        let bytes = vec![0x5a; length];
        let values = split_value(&bytes, 32);
        assert!(values.iter().all(|value| value.len() <= 32));
        assert!(values[..values.len() - 1].iter().all(|value| value.len() == 32), "no more parts than needed");
        assert!(values[1..].iter().all(|value| !value.is_empty()));
        let (announced, _) = values[0].split_once('.').expect("a length first");
        let text: String = values.concat().split_off(announced.len() + 1);
        assert_eq!(announced.parse(), Ok(text.len()));
        assert_eq!(base64url_decode(&text), Some(bytes));
    }
}

/// Starts a launcher of two ranks that knows exchanges: rank 1 has ended without a value.
fn exchanging(directory: Arc<JobDirectory>) -> RawFd {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    std::thread::spawn(move || {
        let (mut answers, mut value) = (ours.try_clone().expect("cloned"), String::new());
        for line in BufReader::new(ours).lines() {
            let line = line.expect("text");
            assert!(line.len() < LINE_BYTES_MAX, "{} characters", line.len());
            let answer = match word(&line, "cmd").unwrap_or_default() {
                "init" => "cmd=response_to_init rc=0",
                "get_maxes" => "cmd=maxes vallen_max=64",
                "get_my_kvsname" => "cmd=my_kvsname kvsname=k",
                "exchange_more" => {
                    value.push_str(word(&line, "value").expect("a value"));
                    "cmd=exchange_more rc=0"
                }
                "exchange_in" => {
                    value.push_str(word(&line, "value").expect("a value"));
                    let table = crate::exchange_table([Some(std::mem::take(&mut value).as_str()), None].into_iter());
                    directory.write_exchange(5, table.as_bytes()).expect("written");
                    "cmd=exchange_out rc=0 table=5"
                }
                other => panic!("{other}"),
            };
            answers.write_all(format!("{answer}\n").as_bytes()).expect("sent");
        }
    });
    theirs.into_raw_fd()
}

#[test]
fn an_exchange_of_any_length_is_one_table() {
    let parent = Parent::new();
    let directory = Arc::new(JobDirectory::create_in(parent.path(), "job").expect("made"));
    let mut pmi = Pmi1::start(LineSocket::new(exchanging(directory.clone())), 0, 2).expect("initialised");
    for length in [0, 1, 200, 36_863, 36_864, 36_865, 200_000] {
        let bytes: Vec<u8> = (0..length).map(|at: usize| (at * 7) as u8).collect();
        let table = pmi.exchange(&bytes, &directory).expect("answered").expect("known");
        assert!(table == [Some(bytes), None], "{length} bytes");
    }
    close(pmi);
}

#[test]
fn a_launcher_without_exchanges_refuses_them() {
    let parent = Parent::new();
    let directory = JobDirectory::create_in(parent.path(), "job").expect("made");
    let (fd, thread) = launcher(64);
    let mut pmi = Pmi1::start(LineSocket::new(fd), 0, 1).expect("initialised");
    for length in [3, 50_000] {
        assert!(pmi.exchange(&vec![1; length], &directory).expect("answered").is_none());
    }
    pmi.put("a", b"b").expect("the connection still works");
    close(pmi);
    thread.join().expect("no panic");
}

#[test]
fn answers_to_an_exchange_without_a_table_are_errors() {
    let parent = Parent::new();
    let directory = JobDirectory::create_in(parent.path(), "job").expect("made");
    for (answer, said) in [
        ("cmd=exchange_out rc=0 table=../x", "table=../x"),
        ("cmd=exchange_out rc=0", "exchange_out"),
        ("cmd=exchange_out rc=0 table=7", "exchange-7"),
    ] {
        let fd = sends(&format!("{GREETING}{answer}\n"));
        let mut pmi = Pmi1::start(LineSocket::new(fd), 0, 1).expect("initialised");
        let error = pmi.exchange(b"a", &directory).expect_err(answer).to_string();
        assert!(error.contains(said), "{error}");
        close(pmi);
    }
}
