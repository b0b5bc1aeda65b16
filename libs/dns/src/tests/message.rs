//! Reading and writing, beside another reader.

use super::*;
use crate::message::{Draft, Section};
use crate::{InvalidName, Malformed, Message, Question};
use domain::base::ToName;
use domain::base::iana::Rtype;
use domain::base::name::Label;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::string::{String, ToString};

/// Bytes like those of messages: a header with small counts, which are mostly right, names with
/// pointers, records.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let label = prop_oneof![
        20 => prop::collection::vec(any::<u8>(), 1..9).prop_map(|label| [&[label.len() as u8], &label[..]].concat()),
        1 => (0_u8..3, any::<u8>()).prop_map(|(high, low)| std::vec![0xc0 | high, low]),
        1 => any::<u8>().prop_map(|byte| std::vec![byte]),
    ];
    let labels = prop::collection::vec(label, 0..4).prop_map(|labels| labels.concat());
    let end = prop_oneof![3 => Just(std::vec![0]), 3 => Just(std::vec![0xc0, 12]), 1 => (10_u8..40).prop_map(|low| std::vec![0xc0, low])];
    let name = (labels.clone(), end).prop_map(|(labels, end)| [labels, end].concat());
    let data = prop::collection::vec(any::<u8>(), 0..20);
    let content = prop_oneof![
        3 => any::<[u8; 4]>().prop_map(|data| (1_u16, data.to_vec())),
        2 => any::<[u8; 16]>().prop_map(|data| (28, data.to_vec())),
        2 => name.clone().prop_map(|data| (5, data)),
        1 => Just((41, Vec::new())),
        2 => (any::<u16>(), data).prop_map(|content| content),
    ];
    let record = (name, content, any::<u32>()).prop_map(|(name, (kind, data), time)| {
        let length = (data.len() as u16).to_be_bytes();
        [&name[..], &kind.to_be_bytes(), &[0, 1], &time.to_be_bytes(), &length, &data].concat()
    });
    let excess = prop_oneof![9 => Just(0_u8), 1 => 1_u8..3];
    (any::<[u8; 4]>(), labels, 0_u8..3, prop::collection::vec(record, 0..5), excess).prop_map(
        |(head, labels, others, records, excess)| {
            let count = records.len() as u8;
            let others = others.min(count);
            let counts = [0, 1, 0, count - others, 0, 0, 0, others + excess];
            [&head[..], &counts, &labels, &[0, 0, 1, 0, 1], &records.concat()].concat()
        },
    )
}

/// A name of `domain`'s, as it stands in a message.
fn text_of(name: &impl ToName) -> String {
    let bytes = |label: &Label| [&[label.len() as u8], label.as_slice()].concat();
    std::format!("{:?}", name.iter_labels().map(bytes).collect::<Vec<_>>().concat().to_ascii_lowercase())
}

/// A record's owner, type and time.
type Read = (String, u16, u32);

/// What `domain` reads: the question's name and each record's name, type and time; `None` if
/// anything is wrong.
fn read_by_domain(bytes: &[u8]) -> Option<(String, Vec<Read>)> {
    let message = domain::base::Message::from_octets(bytes).ok()?;
    let question = message.sole_question().ok()?;
    let mut records = Vec::new();
    let mut section = message.answer().ok()?;
    loop {
        for record in section.by_ref() {
            let record = record.ok()?;
            if record.rtype() != Rtype::OPT {
                let owner = text_of(&record.owner());
                records.push((owner, record.rtype().to_int(), record.ttl().as_secs()));
            }
        }
        match section.next_section().ok()? {
            Some(next) => section = next,
            None => break,
        }
    }
    Some((text_of(question.qname()), records))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is read here, `domain` reads alike; it takes some that are refused here.
    #[test]
    fn another_reader_reads_the_same(bytes in bytes()) {
        if let Ok(message) = Message::parse(&bytes) {
            let (name, records) = read_by_domain(&bytes).expect("domain reads it too");
            let text = |name: &Name| std::format!("{:?}", name.as_bytes().to_ascii_lowercase());
            prop_assert_eq!(text(&message.question().name), name);
            let found: Vec<_> =
                message.records().map(|record| (text(&record.name), record.kind, record.time_to_live)).collect();
            prop_assert_eq!(found, records);
        }
    }

    #[test]
    fn nothing_that_comes_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(message) = Message::parse(&bytes) {
            for record in message.records() {
                prop_assert!(record.data_at + record.data.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn names_are_read_as_they_were_written(labels in prop::collection::vec("[a-zA-Z0-9_-]{1,63}", 1..5)) {
        let text = labels.join(".");
        match text.parse::<Name>() {
            Ok(name) => {
                prop_assert_eq!(name.to_string(), text.clone());
                prop_assert!(name == super::name(&text.to_uppercase()));
                let read = Name::read(name.as_bytes(), 0).expect("a name");
                prop_assert_eq!(read, (name, name.as_bytes().len()));
            }
            Err(InvalidName) => prop_assert!(text.len() > 253),
        }
    }
}

/// The generator of the property above makes messages that are read.
#[test]
fn made_up_messages_are_often_right() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let is_read = |bytes: Vec<u8>| Message::parse(&bytes).is_ok_and(|message| message.records().next().is_some());
    let count = (0..2000).filter(|_| is_read(bytes().new_tree(&mut runner).expect("a value").current())).count();
    assert!(count > 300, "{count}");
}

/// Each leads further to the front, and only to the next: 8,000 of them fit in a message, for each
/// of its names.
#[test]
fn pointers_to_pointers_end() {
    let mut bytes = [0; HEADER].to_vec();
    bytes.push(0);
    let mut at = HEADER;
    for count in 1..1000 {
        let place = bytes.len();
        bytes.extend([0xc0 | (at >> 8) as u8, at as u8]);
        at = place;
        let read = Name::read(&bytes, place);
        if count <= 127 {
            assert_eq!(read, Ok((Name::ROOT, place + 2)), "{count}");
        } else {
            assert_eq!(read, Err(Malformed::Pointer), "{count}");
        }
    }
}

#[test]
fn pointers_lead_to_the_front_and_nowhere_else() {
    let mut bytes = [0; HEADER].to_vec();
    bytes.extend(b"\x03www\x03org\x00\x02ab\xc0\x10\xc0\x15");
    let read = |at| Name::read(&bytes, at).map(|(name, end)| (name.to_string(), end));
    assert_eq!(read(12), Ok(("www.org".into(), 21)));
    assert_eq!(read(21), Ok(("ab.org".into(), 26)));
    assert_eq!(read(26), Ok(("ab.org".into(), 28)));
    let mut round = bytes.clone();
    round.extend([0xc0, 28]);
    assert_eq!(Name::read(&round, 28), Err(Malformed::Pointer), "to itself");
    round[16..18].copy_from_slice(&[0xc0, 21]);
    assert_eq!(Name::read(&round, 21), Err(Malformed::Pointer), "in a circle");
    round[16..18].copy_from_slice(&[0xc0, 2]);
    assert_eq!(Name::read(&round, 12), Err(Malformed::Pointer), "into the header");
    assert_eq!(Name::read(&bytes[..14], 12), Err(Malformed::Short));
    assert_eq!(Name::read(&[0x40], 0), Err(Malformed::Label));
}

#[test]
fn a_name_has_255_bytes_at_most() {
    let label = "a".repeat(63);
    let longest = [&label[..], &label, &label, &label[..61]].join(".");
    assert_eq!(longest.len(), 253);
    assert_eq!(name(&longest).as_bytes().len(), 255);
    assert_eq!(std::format!("{longest}a").parse::<Name>(), Err(InvalidName));
    let mut bytes = name(&longest).as_bytes().to_vec();
    let last = bytes.len() - 1 - 62;
    bytes[last] = 62;
    bytes.insert(last + 1, b'a');
    assert_eq!(Name::read(&bytes, 0), Err(Malformed::Label));
    for text in ["", ".", "a..b", "a b", &"a".repeat(64)] {
        assert_eq!(text.parse::<Name>(), Err(InvalidName), "{text}");
    }
}

#[test]
fn a_message_is_read_whole_or_not_at_all() {
    let mut draft = Draft::default();
    draft.begin(7, 0x0100, &Question { name: name("a.example"), kind: kind::A, class: 1 });
    draft.put_extension(true);
    let question = draft.as_bytes();
    let message = Message::parse(question).expect("a message");
    let extension = message.extension().expect("the extension");
    assert!(extension.wants_signatures && extension.longest == 1232 && extension.version == 0);
    assert_eq!((message.id(), message.records().count()), (7, 0));
    let answer = reply(question, 0, &[alias("a.example", "b.example"), address("b.example", 9, 60)], &[]);
    let message = Message::parse(&answer).expect("a message");
    let sections: Vec<_> = message.records().map(|record| (record.section, record.kind)).collect();
    assert_eq!(sections, [(Section::Answer, kind::CNAME), (Section::Answer, kind::A)]);
    for length in 0..answer.len() {
        assert!(Message::parse(&answer[..length]).is_err(), "{length}");
    }
    let mut wrong = answer.clone();
    wrong.push(0);
    assert_eq!(Message::parse(&wrong).err(), Some(Malformed::Long));
    let short = Entry("a.example", kind::A, 1, std::vec![1, 2, 3]);
    assert_eq!(Message::parse(&reply(question, 0, &[short], &[])).err(), Some(Malformed::Record));
    wrong[5] = 2;
    assert_eq!(Message::parse(&wrong).err(), Some(Malformed::Questions));
}
