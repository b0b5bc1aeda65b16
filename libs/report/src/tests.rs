//! Both sides on the same memory, and on memory in which anything may stand.

use super::*;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use proptest::prelude::*;
use std::string::{String, ToString};
use std::sync::Barrier;
use std::vec::Vec;

fn memory(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn rules_are_seen_with_their_counts() {
    let memory = memory(report_words(1000));
    let view = View::new(&memory).expect("there is room");
    assert_eq!(view.rules(), None);
    let report = Report::new(&memory).expect("there is room");
    assert_eq!(report.left(), None);
    let since = Since { is_proposed: true, time: 7 };
    assert!(report.show("deny\nallow – all\n", [3, 5].into_iter(), since));
    report.counts().set(1, 40);
    report.counts().set(2, 9);
    let shown = view.rules().expect("they are shown");
    assert_eq!(shown.counts, [(3, 0), (5, 40), (0, 9)]);
    assert_eq!((shown.text.as_str(), shown.since), ("deny\nallow – all\n", since));
    // The next life finds them; those of the system it does not.
    let next = Report::new(&memory).expect("there is room");
    assert_eq!(next.left(), Some(("deny\nallow – all\n".to_string(), since)));
    assert!(next.show("allow\n", [1].into_iter(), Since::default()));
    assert_eq!(next.left(), None);
    assert_eq!(view.rules().expect("they are shown").counts, [(1, 0), (0, 0)]);
}

#[test]
fn what_has_no_room_is_not_shown() {
    let memory = memory(report_words(16));
    let report = Report::new(&memory).expect("there is room");
    assert!(report.show("sixteen bytes it", [1].into_iter(), Since::default()));
    assert!(!report.show("seventeen bytes i", [1].into_iter(), Since { is_proposed: true, time: 1 }));
    assert_eq!(report.left(), None);
    let view = View::new(&memory).expect("there is room");
    assert_eq!(
        view.rules(),
        Some(Shown { counts: [(0, 0)].to_vec(), since: Since { is_proposed: false, time: 1 }, ..Shown::default() })
    );
    assert!(Report::new(&memory[..100]).is_none() && View::new(&memory[..100]).is_none());
}

#[test]
fn a_proposal_is_answered_once_it_was_dealt_with() {
    let (there, back) = (memory(proposal_words(64)), memory(report_words(64)));
    let (proposal, inbox) = (Proposal::new(&there).expect("room"), Inbox::new(&there).expect("room"));
    let (report, view) = (Report::new(&back).expect("room"), View::new(&back).expect("room"));
    assert_eq!((inbox.number(), report.answered()), (None, None));
    assert_eq!(proposal.propose("token", &"x".repeat(65)), None);
    assert_eq!(proposal.propose(&"t".repeat(LONGEST_TOKEN + 1), "deny\n"), None);
    let number = proposal.propose("token", "deny\n").expect("there is room");
    assert_eq!((inbox.number(), inbox.token(number)), (Some(number), Ok(Some("token".to_string()))));
    assert_eq!(inbox.rules(number), Ok(Some("deny\n".to_string())));
    proposal.forget_token();
    assert_eq!(inbox.token(number), Ok(Some("\0".repeat(5))));
    let mut answer = Answer { number, verdict: Verdict::Begun, said: String::new(), ended: 0 };
    report.answer(&answer);
    assert_eq!(view.answer(number), None);
    assert_eq!(report.answered(), Some(answer.clone()));
    answer = Answer { verdict: Verdict::Refused, said: "é".repeat(5000), ended: 3, ..answer };
    report.answer(&answer);
    let seen = view.answer(number).expect("it is there");
    assert_eq!((seen.said, seen.verdict, seen.ended), ("é".repeat(LONGEST_ANSWER / 2), Verdict::Refused, 3));
    assert_eq!(view.answer(number + 1), None);
    assert_eq!(proposal.propose("", "allow\n"), Some(number + 2));
    assert_eq!((inbox.token(number), inbox.rules(number)), (Err(Withdrawn), Err(Withdrawn)));
}

/// Tests that a reader beside the router never has the number or the verdict of one answer with the
/// text of another.
#[test]
fn an_answer_is_read_whole_or_not_while_another_is_written() {
    let memory = memory(report_words(64));
    let (report, view) = (Report::new(&memory).expect("room"), View::new(&memory).expect("room"));
    let last = 3000_u64;
    let answer_to = |number: u64| Answer {
        number,
        verdict: if number.is_multiple_of(2) { Verdict::Taken } else { Verdict::Refused },
        said: std::format!("{number} ").repeat(1 + number as usize % 7 * 100),
        ended: number,
    };
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=last {
                report.answer(&Answer { verdict: Verdict::Begun, ..answer_to(number) });
                report.answer(&answer_to(number));
            }
        });
        let mut seen = 0;
        while view.answer(last).is_none() {
            let Some(answer) = report.answered() else { continue };
            let verdict =
                if answer.verdict == Verdict::Begun { Verdict::Begun } else { answer_to(answer.number).verdict };
            assert_eq!(answer, Answer { verdict, ..answer_to(answer.number) });
            seen += 1;
        }
        seen
    });
    assert_eq!(view.answer(last), Some(answer_to(last)), "after {seen}");
}

/// Tests that a router never has a proposal's number with the token of another, or with a text that
/// is of two.
#[test]
fn a_proposal_is_read_whole_or_not_while_another_is_written() {
    let memory = memory(proposal_words(4096));
    let (proposal, inbox) = (Proposal::new(&memory).expect("room"), Inbox::new(&memory).expect("room"));
    let last = 6000_u64;
    let rules = |number: u64| std::format!("{number} ").repeat(1 + (number / 2) as usize % 7 * 100);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (2..=last).step_by(2) {
                assert_eq!(proposal.propose(&number.to_string(), &rules(number)), Some(number));
            }
        });
        while inbox.number() != Some(last) {
            let Some(number) = inbox.number() else { continue };
            if let Ok(token) = inbox.token(number) {
                assert_eq!(token, Some(number.to_string()));
            }
            if let Ok(text) = inbox.rules(number) {
                assert_eq!(text, Some(rules(number)));
            }
        }
    });
}

/// Tests that rules are whole whenever a router ends while it shows others: somebody who reads as
/// the next life would, beside it, meets one set or the other.
#[test]
fn rules_are_whole_while_others_are_shown() {
    let memory = memory(report_words(32_768));
    let report = Report::new(&memory).expect("there is room");
    let rules = |round: u64| std::format!("{round} ").repeat(4000);
    let show = |round| report.show(&rules(round), [1].into_iter(), Since { is_proposed: true, time: round });
    let (last, begin, end) = (300, Barrier::new(2), Barrier::new(2));
    show(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=last {
                begin.wait();
                show(round);
                end.wait();
            }
        });
        // One set is shown in each round, so that none is written where one is read.
        let mut torn = 0;
        for round in 1..=last {
            begin.wait();
            loop {
                let left = report.left().map(|(text, since)| (text, since.time));
                let is = |round| left.as_ref() == Some(&(rules(round), round));
                torn += u32::from(!is(round) && !is(round - 1));
                if is(round) || torn > 0 {
                    break;
                }
            }
            end.wait();
        }
        assert_eq!(torn, 0);
    });
}

/// Tests a router that ends after a part of the stores of the rules that it shows, replayed on the
/// memory that was before, all of the text before the switch to it: the next life has one set of
/// rules or the other, whole.
#[test]
fn a_router_that_ends_while_it_shows_rules_leaves_those_before_or_these() {
    let since = |time| Since { is_proposed: true, time };
    let given = |memory: &[AtomicU64]| Report::new(memory).and_then(|report| report.left());
    let values = |memory: &[AtomicU64]| memory.iter().map(|word| word.load(Relaxed)).collect::<Vec<_>>();
    let whole = memory(report_words(64));
    let report = Report::new(&whole).expect("there is room");
    for (before, after) in [("deny\n# first\n", "allow\n"), ("allow\n", "deny from 10.0.0.0/8\n"), ("", "deny\n")] {
        report.show(before, [1].into_iter(), since(1));
        let old = values(&whole);
        report.show(after, [1].into_iter(), since(2));
        let new = values(&whole);
        // What is stored before the switch to the other text, and what behind it, in any order.
        let changed: Vec<usize> = (0..old.len()).filter(|at| old[*at] != new[*at]).collect();
        for is_in_use in [false, true] {
            let memory: Vec<AtomicU64> =
                (if is_in_use { &new } else { &old }).iter().map(|word| AtomicU64::new(*word)).collect();
            for at in changed.iter().copied().filter(|at| *at != 3) {
                let (left, time) = if is_in_use { (after, since(2)) } else { (before, since(1)) };
                // Lines, counts and generation come behind; the text before.
                let is_text = at >= report_words(0) - 8;
                let was = memory[at].load(Relaxed);
                memory[at].store(if is_in_use && !is_text { old[at] } else { new[at] }, Relaxed);
                assert_eq!(given(&memory), Some((left.to_string(), time)), "word {at}, {is_in_use}");
                if is_in_use {
                    memory[at].store(was, Relaxed);
                }
            }
        }
    }
}

proptest! {
    /// Whatever the other side has written, it is read or not, and no more than the memory has.
    #[test]
    fn any_words_are_read(words in prop::collection::vec(any::<u64>(), 0..40), at in 0_usize..2, seed in any::<u8>()) {
        let memory = memory(report_words(64));
        for (word, value) in memory.iter().zip(&words) {
            word.store(if seed & 1 == 0 { *value } else { value % 100 }, Relaxed);
        }
        if at == 1 {
            memory[0].store(u64::from_be_bytes(*b"culmrep2"), Relaxed);
        }
        if let Some(view) = View::new(&memory) {
            if let Some(shown) = view.rules() {
                prop_assert!(shown.text.len() <= view.room() && shown.counts.len() <= RULES + 1);
            }
            let _ = view.answer(words.first().copied().unwrap_or(0));
        }
        if let Some(inbox) = Inbox::new(&memory[..memory.len().min(words.len())]) {
            let rules = inbox.number().and_then(|number| inbox.rules(number).ok().flatten());
            prop_assert!(rules.is_none_or(|text| text.len() <= 8 * words.len()));
        }
        let report = Report::new(&memory).expect("there is room");
        let _ = (report.left(), report.answered());
        prop_assert!(report.show("deny\n", [1].into_iter(), Since::default()));
        let shown = View::new(&memory).and_then(|view| view.rules());
        prop_assert_eq!(shown.map(|shown| shown.text), Some("deny\n".to_string()));
    }
}
