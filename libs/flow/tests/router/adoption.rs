//! Flows of a previous life: what is whole goes on, what is not is dropped.

use crate::make;
use crate::tables::{SETTINGS, begin, connect, from, memory, pass, syn};
use culm_flow::{
    Adopted, Cause, Direction, Flow, Key, Settings, State, TCP, Table, Tracked, Tuple, Watch, memory_words,
};
use proptest::prelude::*;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The same settings in another life: the key is another one.
const LATER: Settings = Settings { key: Key([17, 19]), ..SETTINGS };

fn adopt(memory: &[AtomicU64], now: u64) -> (Table<'_>, Adopted) {
    Table::adopt(&LATER, memory, now, |flow| Some(flow.tag))
}

#[test]
fn a_connection_goes_on_in_the_next_life() {
    let memory = memory(8);
    let tcp = Tuple { protocol: TCP, ..from(1, 1) };
    let mut table = Table::new(&SETTINGS, &memory);
    begin(&mut table, &syn(&tcp), 0).unwrap();
    assert!(connect(&mut table, &tcp, 0));
    begin(&mut table, &make::udp(&from(2, 2), b""), 5).unwrap();
    let before: Vec<_> = table.flows().map(|(_, flow)| flow).collect();
    let (mut table, adopted) = adopt(&memory, 100);
    assert_eq!(adopted, Adopted { kept: 2, refused: 0 });
    assert_eq!(table.flows().map(|(_, flow)| flow).collect::<Vec<_>>(), before);
    assert_eq!(table.flows().next().unwrap().1.state, State::Established);
    let far = make::Segment { flags: make::ACK, sequence: 9000, acknowledgement: 501, data: 10, ..Default::default() };
    assert_eq!(pass(&mut table, &make::tcp(&tcp, &far), 100), Some(Tracked::Outside), "its windows are known");
    let next = make::Segment { sequence: 101, ..far };
    assert_eq!(pass(&mut table, &make::tcp(&tcp, &next), 100), Some(Tracked::Belongs));
    // Both expire when they would have.
    assert_eq!(table.expire(127_504, 9, |_, _| {}), 0);
    assert_eq!(table.expire(127_505, 9, |flow, _| assert_eq!(flow.original, from(2, 2))), 1);
}

#[test]
fn memory_of_nobody_or_of_another_size_is_not_believed() {
    let mut memory = memory(8);
    assert_eq!(adopt(&memory, 0).1, Adopted::default());
    begin(&mut adopt(&memory, 0).0, &make::udp(&from(1, 1), b""), 0).unwrap();
    assert_eq!(adopt(&memory, 0).1.kept, 1);
    assert_eq!(adopt(&memory[..100], 0).1, Adopted::default());
    *memory[0].get_mut() ^= 1;
    assert_eq!(adopt(&memory, 0).1, Adopted::default());
    assert_eq!(adopt(&[], 0).1, Adopted::default());
}

#[test]
fn what_has_expired_or_is_refused_or_of_the_future_goes() {
    for (now, is_believed, kept) in
        [(50, true, 1), (49, true, 0), (50, false, 0), (127_550, true, 0), (127_549, true, 1)]
    {
        let memory = memory(8);
        let mut table = Table::new(&SETTINGS, &memory);
        begin(&mut table, &make::udp(&from(1, 1), b""), 50).unwrap();
        let (table, adopted) = Table::adopt(&LATER, &memory, now, |flow| is_believed.then_some(flow.tag));
        assert_eq!((adopted, table.count()), (Adopted { kept, refused: 1 - kept }, kept));
        assert_eq!(Table::adopt(&LATER, &memory, now, |flow| Some(flow.tag)).1, Adopted { kept, refused: 0 });
    }
}

#[test]
fn a_source_has_no_more_than_its_share_in_the_next_life() {
    let memory = memory(8);
    let mut table = Table::new(&SETTINGS, &memory);
    for port in 0..8 {
        begin(&mut table, &make::udp(&from(1, port), b""), port.into()).unwrap();
    }
    let (table, adopted) = Table::adopt(&Settings { most_per_source: 3, ..LATER }, &memory, 50, |flow| Some(flow.tag));
    assert_eq!((adopted, table.count()), (Adopted { kept: 3, refused: 5 }, 3));
}

/// Uses a table at random.
fn use_it(table: &mut Table<'_>, steps: &[(u32, u16, u8)], now: u64) {
    for (source, port, step) in steps {
        let udp = from(*source, *port);
        let tcp = Tuple { protocol: TCP, ..udp };
        let _ = match step {
            0 => begin(table, &make::udp(&udp, b""), now).is_ok(),
            1 => begin(table, &syn(&tcp), now).is_ok(),
            2 => pass(table, &make::udp(&udp.reversed(), b""), now).is_some(),
            _ => table.find(&tcp, now).is_some() && connect(table, &tcp, now),
        };
    }
}

/// Whatever stands in the table is found, by both directions, and nothing else is counted.
fn is_sound(table: &Table<'_>, now: u64) {
    let flows: Vec<_> = table.flows().collect();
    assert_eq!(flows.len(), table.count());
    for (id, flow) in &flows {
        assert_eq!(table.find(&flow.original, now), Some((*id, Direction::Original)));
        assert_eq!(table.find(&flow.reply, now), Some((*id, Direction::Reply)));
        assert!(table.count_of(flow.original.source) >= 1);
        for direction in Direction::BOTH {
            assert_eq!(table.onward(*id, direction), Some(flow.onward(direction)));
        }
    }
}

proptest! {
    #[test]
    fn spoilt_memory_is_dropped_flow_by_flow(
        first in prop::collection::vec((0..4_u32, 0..4_u16, 0..4_u8), 0..60),
        second in prop::collection::vec((0..4_u32, 0..4_u16, 0..4_u8), 0..60),
        spoilt in prop::collection::vec((2..12 * 24 + 2_usize, any::<u64>(), any::<bool>()), 0..6),
        copied in prop::option::of((0..12_usize, 0..12_usize)),
    ) {
        let memory = memory(12);
        let mut table = Table::new(&SETTINGS, &memory);
        use_it(&mut table, &first, 1000);
        is_sound(&table, 1000);
        let before: Vec<_> = table.flows().collect();
        drop(table);
        let mut touched = std::collections::BTreeSet::new();
        for (word, value, is_flip) in spoilt {
            let old = memory[word].load(Relaxed);
            memory[word].store(if is_flip { old ^ 1 << (value % 64) } else { value }, Relaxed);
            touched.insert((word - 2) / 24);
        }
        // A flow that stands there twice is one.
        if let Some((from, to)) = copied {
            for word in 2..2 + 24 {
                memory[to * 24 + word].store(memory[from * 24 + word].load(Relaxed), Relaxed);
            }
            touched.extend([from, to]);
        }
        let (mut table, adopted) = adopt(&memory, 2000);
        prop_assert_eq!(adopted.kept, table.count());
        is_sound(&table, 2000);
        // A flow whose words nobody touched goes on.
        let left: Vec<_> = table.flows().map(|(_, flow)| flow).collect();
        let whole = before.len().saturating_sub(touched.len());
        prop_assert!(before.iter().filter(|(_, flow)| left.contains(flow)).count() >= whole);
        use_it(&mut table, &second, 3000);
        is_sound(&table, 3000);
        let kept = table.count();
        prop_assert_eq!(adopt(&memory, 3000).1, Adopted { kept, refused: 0 });
    }
}

#[test]
fn no_bit_of_what_never_changes_can_be_another() {
    let memory = memory(2);
    let mut table = Table::new(&SETTINGS, &memory);
    begin(&mut table, &make::udp(&from(1, 1), b""), 0).unwrap();
    let whole: Vec<u64> = memory.iter().map(|word| word.load(Relaxed)).collect();
    let first = (2..memory.len()).step_by(24).find(|word| whole[*word] != 0).unwrap();
    for (word, bit) in (0..13).flat_map(|word| (0..64).map(move |bit| (word, bit))) {
        // The lowest bits of the first word are the state, which changes.
        if word > 0 || bit >= 8 {
            memory.iter().zip(&whole).for_each(|(word, value)| word.store(*value, Relaxed));
            memory[first + word].store(whole[first + word] ^ 1 << bit, Relaxed);
            assert_eq!(adopt(&memory, 0).1, Adopted { kept: 0, refused: 1 }, "word {word}, bit {bit}");
        }
    }
}

#[test]
fn who_only_looks_sees_flows_that_are_whole() {
    let memory = memory(8);
    assert_eq!((Watch::new(&memory).capacity(), Watch::new(&[]).capacity()), (0, 0));
    let mut table = Table::new(&SETTINGS, &memory[..memory_words(6)]);
    begin(&mut table, &make::udp(&from(1, 1), b""), 0).unwrap();
    pass(&mut table, &make::udp(&from(1, 1), b"abc"), 0);
    begin(&mut table, &make::udp(&from(2, 2), b""), 0).unwrap();
    let watch = Watch::new(&memory);
    assert_eq!(watch.capacity(), 6);
    let own: Vec<_> = table.flows().map(|(id, flow)| (id.index(), flow)).collect();
    assert_eq!(watch.flows().collect::<Vec<_>>(), own);
    assert_eq!(own[0].1.packets, [1, 0]);
    // One that is just written does not have its seal.
    memory[memory_words(own[1].0) + 1].fetch_xor(1 << 32, Relaxed);
    assert_eq!(watch.flows().count(), 1);
}

#[test]
fn a_review_removes_flows_and_remembers_something_else_of_others() {
    let memory = memory(8);
    let mut table = Table::new(&SETTINGS, &memory);
    for port in 0..6 {
        begin(&mut table, &make::udp(&from(1, port), b""), port.into()).unwrap();
    }
    let mut gone = Vec::new();
    let judge = |flow: &Flow| match flow.original.source_port {
        0 | 3 => None,
        1 => Some(flow.tag),
        port => Some(port.into()),
    };
    let removed = table.review(judge, |flow, cause| gone.push((flow.original.source_port, cause)));
    assert_eq!((removed, table.count()), (2, 4));
    assert_eq!(gone, [(0, Cause::Removed), (3, Cause::Removed)]);
    let tags = |table: &Table<'_>| {
        let mut tags: Vec<_> = table.flows().map(|(_, flow)| (flow.original.source_port, flow.tag)).collect();
        tags.sort_unstable();
        tags
    };
    assert_eq!(tags(&table), [(1, 7), (2, 2), (4, 4), (5, 5)]);
    // They are found, and so they are in the next life.
    assert_eq!(pass(&mut table, &make::udp(&from(1, 2), b""), 9), Some(Tracked::Belongs));
    assert_eq!(pass(&mut table, &make::udp(&from(1, 3), b""), 9), None);
    assert_eq!(tags(&adopt(&memory, 10).0), [(1, 7), (2, 2), (4, 4), (5, 5)]);
}
