// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Valid traces, and the errors of invalid ones.

use super::*;

fn complaint(text: &str) -> Complaint {
    Trace::read(text).and_then(|trace| trace.check()).expect_err("this trace is wrong")
}

const HEAD: &str = "selvedge-trace 1\nranks 2\n";

#[test]
fn commas_and_spaces_are_alike() {
    let spaced = Trace::read(&format!("{HEAD}0 send 1 8 0 # hello\n\n1 recv * 8 *\nend\n")).unwrap();
    let listed = Trace::read(&format!("{HEAD}0,send,1,8,0\n1,recv,*,8,*\nend")).unwrap();
    let operations = |trace: &Trace| trace.ranks.iter().flatten().map(|(_, operation)| *operation).collect::<Vec<_>>();
    assert_eq!(operations(&spaced), operations(&listed));
    assert!(spaced.check().is_ok());
}

#[test]
fn a_line_that_is_wrong_is_named() {
    assert_eq!(complaint("ranks 2\n").0, 1);
    assert_eq!(complaint("selvedge-trace 1\n0 barrier\nend").0, 2);
    assert_eq!(complaint("selvedge-trace 1\nranks 0\nend").0, 2);
    for (line, said) in [
        ("0 send 2 8 0", "no rank 2"),
        ("2 barrier", "no rank 2"),
        ("0 send 1 8 99999999999", "tag"),
        ("0 send 1 -8 0", "bytes"),
        ("0 jump", "must be one of"),
        ("0 allreduce 12", "multiple of 8"),
        ("0 compute NaN", "not a time"),
        ("0", "rank operation"),
    ] {
        let (number, what) = complaint(&format!("{HEAD}{line}\nend\n"));
        assert_eq!(number, 3, "{line}");
        assert!(what.contains(said), "{line}: {what}");
    }
}

#[test]
fn a_trace_that_is_cut_short_is_found() {
    let whole = format!("{HEAD}0 send 1 8 0\n1 recv 0 8 0\nend\n");
    assert!(Trace::read(&whole).is_ok());
    for cut in 0..whole.len() - 2 {
        assert!(Trace::read(&whole[..cut]).is_err(), "{:?}", &whole[..cut]);
    }
    let (line, what) = complaint(&whole[..whole.len() - 4]);
    assert_eq!(line, 4);
    assert!(what.contains("cut short"), "{what}");
}

#[test]
fn unmatched_operations_are_found() {
    let (line, what) = complaint(&format!("{HEAD}0 send 1 8 0\n0 send 1 8 0\n1 recv 0 8 0\nend"));
    assert_eq!((line, what.contains("does not receive")), (4, true), "{what}");
    let (line, what) = complaint(&format!("{HEAD}0 send 1 8 0\n1 recv 0 8 1\nend"));
    assert_eq!((line, what.contains("sends no such")), (4, true), "{what}");
    let (line, what) = complaint(&format!("{HEAD}* barrier\n1 allreduce 8\nend"));
    assert_eq!((line, what.contains("collectives")), (4, true), "{what}");
}
