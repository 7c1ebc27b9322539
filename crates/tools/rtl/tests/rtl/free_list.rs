// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `free_list.sv` against a plain stack, and its links against those of `nic`.

use proptest::prelude::*;
use selvedge_nic::tables::slot;
use selvedge_rtl::layout;
use selvedge_rtl::shadow::{Shadow, WriteLayout};

use crate::common::{histories, unit};

const RECORDS: u32 = 16;

layout! { mod command { TAG: 32, GIVE: 1, INDEX: 16 } }
layout! { mod answer { TAG: 32, FULL: 1, INDEX: 16 } }

/// Takes a record, or gives back one of those taken, after this number of idle cycles.
#[derive(Clone, Copy, Debug)]
enum Step {
    Take(u64),
    Give(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let idle = || prop_oneof![4 => Just(0), 1 => 0..6u64];
    let step = prop_oneof![
        idle().prop_map(Step::Take),
        (any::<usize>(), idle()).prop_map(|(place, idle)| Step::Give(place, idle)),
    ];
    proptest::collection::vec(step, 1..300)
}

fn check(steps: &[Step]) {
    let Some(mut unit) = unit("free_list") else { return };
    let mut free: Vec<u32> = (0..RECORDS).rev().collect();
    let mut out = Vec::new();
    let mut expected = Vec::new();
    let mut shadow = Shadow::new(&[(RECORDS as usize, 16)]);
    let mut seen = Vec::new();
    let mut see = |unit: &selvedge_rtl::Unit| {
        for answer in unit.answers() {
            let field = |field: selvedge_rtl::bits::Field| field.get(answer.words);
            seen.push((field(answer::TAG), field(answer::FULL), field(answer::INDEX)));
        }
        for trace in unit.traces() {
            for write in WriteLayout::new(16).trace(trace.words, 1).writes {
                shadow.apply(&write).expect("right");
            }
        }
    };
    unit.run(&[], u64::from(RECORDS) + 1);
    for (tag, &step) in steps.iter().enumerate() {
        let mut words = [0; command::WORDS];
        command::TAG.set(&mut words, tag as u64);
        let idle = match step {
            Step::Take(idle) => {
                let index = free.pop();
                expected.push((tag as u64, u64::from(index.is_none()), index));
                out.extend(index);
                idle
            }
            Step::Give(_, _) if out.is_empty() => continue,
            Step::Give(place, idle) => {
                let index = out.swap_remove(place % out.len());
                command::GIVE.set(&mut words, 1);
                command::INDEX.set(&mut words, index.into());
                expected.push((tag as u64, 0, Some(index)));
                free.push(index);
                idle
            }
        };
        let taken = (0..6).any(|_| {
            let taken = unit.run(&words, 1) == 1;
            see(&unit);
            taken
        });
        assert!(taken, "command {tag} is never accepted");
        unit.run(&[], idle);
        see(&unit);
    }
    assert_eq!(seen.len(), expected.len());
    for (seen, &(tag, full, index)) in seen.iter().zip(&expected) {
        assert_eq!((seen.0, seen.1), (tag, full));
        assert!(index.is_none_or(|index| seen.2 == u64::from(index)), "{seen:?} instead of {index:?}");
    }
    // The links in the bank are those of `nic`.
    let mut top = free.last().copied();
    for &index in free.iter().rev() {
        assert_eq!(top, Some(index));
        let next = slot::next(index, shadow.word(0, index as usize)[0]) & 0xffff;
        top = Some(next);
    }
    assert!(top.is_none_or(|next| next >= RECORDS));
}

proptest! {
    #![proptest_config(histories(64))]
    #[test]
    fn is_a_stack(steps in steps()) {
        check(&steps);
    }
}

#[test]
fn runs_empty_and_full() {
    let takes = [Step::Take(0); 20];
    let gives = (0..RECORDS as usize).map(|place| Step::Give(place * 7, 0));
    check(&takes.into_iter().chain(gives).chain(takes).collect::<Vec<_>>());
}
