//! A learning bridge with any options of its ports, and any frames.
//!
//! The input begins with the options of four ports, as a description writes them or nearly so; then
//! come frames, each by a port and after some time. Whatever comes, a frame goes to no port where
//! it came from and between no isolated ports, and leaves with a tag that the port's options allow.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_bridge::bridge::PortSetup;
use culm_bridge::table::Table;
use culm_bridge::vlan::{AT, LENGTH, tag_of};
use culm_bridge::{Bridge, Edit, HEAD, PortOptions, PortSet, Verdict};
use input::Input;
use libfuzzer_sys::fuzz_target;

const PORTS: usize = 4;

/// Words of which options are made.
const WORDS: [&str; 12] =
    ["vlan", "trunk", "isolated", "storm", "1", "2", "1,2", "1-4094", "4095", "2-1", "1000", "10000000"];

/// Takes the options of a port: words that are known, or any text.
fn options(input: &mut Input<'_>) -> PortOptions {
    let count = usize::from(input.byte());
    let text = if count % 2 == 0 {
        let words: Vec<&str> = (0..count / 2 % 8).map(|_| WORDS[usize::from(input.byte()) % WORDS.len()]).collect();
        words.join(" ")
    } else {
        String::from_utf8_lossy(input.bytes(count % 32)).into_owned()
    };
    match PortOptions::parse(&text) {
        Ok(options) => options,
        Err(mistake) => {
            assert!(!mistake.to_string().is_empty() && !mistake.advice().is_empty());
            PortOptions::default()
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let setups: Vec<PortSetup> = (0..PORTS)
        .map(|port| {
            let kind = input.byte();
            let owner = (kind & 1 != 0).then_some([2, 0, 0, 0, 0, port as u8]);
            PortSetup { options: options(&mut input), owner, learns: kind & 2 != 0, reaches: None }
        })
        .collect();
    let has_vlans = setups.iter().any(|setup| setup.options.has_vlans());
    let table = Table::new(64, PORTS, 300, [u64::from(input.byte()), u64::from(input.byte())]);
    let mut bridge = Bridge::new(setups.clone(), table);
    let mut now = 0_u64;
    while !input.is_over() {
        let from = usize::from(input.byte()) % PORTS;
        now += u64::from(input.byte()) << 32;
        let length = usize::from(input.byte()) % (HEAD + 1);
        let mut frame = input.bytes(length).to_vec();
        // Stations that are near to each other meet.
        for at in [0, 6] {
            if let Some(station) = frame.get_mut(at..at + 6).filter(|station| station[0] & 4 != 0) {
                station.copy_from_slice(&[2, 0, 0, 0, 0, station[5] % 8]);
            }
        }
        let short = bridge.decided((now / 1_000_000_000) as u32, from, &frame);
        let verdict = bridge.decide(now, from, &frame);
        if let Some(port) = short {
            let Verdict::Forward(forwarding) = verdict else { panic!("it goes nowhere") };
            assert!(forwarding.targets == PortSet::of(port) && bridge.edit(&forwarding, port) == Edit::Keep);
        }
        bridge.sweep(now);
        let Verdict::Forward(forwarding) = verdict else { continue };
        assert!(!forwarding.targets.is_empty() && !forwarding.targets.contains(from));
        for to in forwarding.targets.iter() {
            let (here, there) = (&setups[from].options, &setups[to].options);
            assert!(!(here.isolated && there.isolated));
            let mut room = [0; AT + LENGTH];
            let (beginning, instead_of) = bridge.edit(&forwarding, to).beginning(&frame, &mut room);
            let sent = [beginning, &frame[instead_of..]].concat();
            assert_eq!(sent[..AT], frame[..AT]);
            if !has_vlans {
                assert_eq!(sent, frame);
            } else if let (Some(tag), true) = (tag_of(&sent), instead_of > 0 || tag_of(&frame).is_some()) {
                // What stands behind a tag that was taken out is content.
                let is_content = beginning.len() == AT;
                assert!(is_content || there.trunk.contains(tag & 0xfff));
            }
        }
    }
});
