//! The cache under random use, against what must hold whatever happens.

use super::*;
use crate::neighbour::{Advertised, Place, Resolution};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug)]
enum Event {
    Resolve(u32),
    Heard(u32, u8, bool),
    Advertised(u32, Option<u8>, bool, bool),
    Confirm(usize),
    Pass(u64),
    Poll(usize),
    Forget,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let host = 0_u32..60;
    let event = prop_oneof![
        8 => host.clone().prop_map(Event::Resolve),
        3 => (host.clone(), 0_u8..4, any::<bool>()).prop_map(|(host, link, own)| Event::Heard(host, link, own)),
        4 => (host, prop::option::of(0_u8..4), any::<bool>(), any::<bool>())
            .prop_map(|(host, link, solicited, overrides)| Event::Advertised(host, link, solicited, overrides)),
        2 => any::<usize>().prop_map(Event::Confirm),
        4 => (0_u64..8_000).prop_map(Event::Pass),
        4 => (0_usize..6).prop_map(Event::Poll),
        1 => Just(Event::Forget),
    ];
    prop::collection::vec(event, 0..300)
}

/// What has been said and what was done.
#[derive(Default)]
struct Model {
    now: Instant,
    packets: u32,
    waiting: BTreeMap<u32, IpAddr>,
    said: BTreeSet<(IpAddr, LinkAddress)>,
    asked: BTreeMap<IpAddr, Instant>,
    places: Vec<(Place, IpAddr)>,
}

impl Model {
    fn resolve(&mut self, cache: &mut Neighbours<'_>, address: IpAddr) {
        let packet = self.packets;
        self.packets += 1;
        match cache.resolve(address, packet, self.now) {
            Resolution::Known(same, link, place) => {
                assert_eq!(same, packet);
                assert!(self.said.contains(&(address, link)), "somebody has said that");
                self.places.push((place, address));
            }
            Resolution::Waiting(displaced) => {
                self.waiting.insert(packet, address);
                if let Some(displaced) = displaced {
                    assert_eq!(self.waiting.remove(&displaced), Some(address), "of the same neighbour");
                }
            }
            Resolution::Refused(same) => assert_eq!(same, packet),
        }
    }

    fn act(&mut self, action: Action<u32>) {
        match action {
            Action::Ask { address, to } => {
                let before = self.asked.insert(address, self.now);
                if to.is_some() {
                    assert!(before.is_none_or(|at| self.now.since(at) >= Duration::from_secs(1)));
                }
            }
            Action::Send { packet, to } => {
                let address = self.waiting.remove(&packet).expect("it waited");
                assert!(self.said.contains(&(address, to)));
            }
            Action::Unreachable { packet, address, .. } => {
                assert_eq!(self.waiting.remove(&packet), Some(address), "it waited for that one");
            }
            Action::Gone { .. } => {}
        }
    }

    fn play(&mut self, cache: &mut Neighbours<'_>, event: Event) {
        match event {
            Event::Resolve(number) => self.resolve(cache, host(number)),
            Event::Heard(number, link, is_for_us) => {
                self.said.insert((host(number), station(link)));
                cache.heard(host(number), station(link), is_for_us, self.now);
            }
            Event::Advertised(number, link, is_solicited, overrides) => {
                let (address, link) = (host(number), link.map(station));
                self.said.extend(link.map(|link| (address, link)));
                cache.advertised(Advertised { address, link, is_solicited, overrides, is_router: None }, self.now);
            }
            Event::Confirm(index) => {
                let Some(&(place, address)) = self.places.get(index % self.places.len().max(1)) else { return };
                cache.confirm(place, self.now);
                if let Some(link) = cache.at(place, self.now) {
                    assert!(self.said.contains(&(address, link)), "the place still is that neighbour's");
                }
            }
            Event::Pass(milliseconds) => self.now = self.now + Duration::from_millis(milliseconds),
            Event::Poll(times) => {
                for _ in 0..times {
                    let Some(action) = cache.poll(self.now) else { return };
                    self.act(action);
                }
            }
            Event::Forget => cache.forget(self.now),
        }
    }
}

proptest! {
    #[test]
    fn every_packet_has_one_end_and_no_address_is_invented(
        places in 1_usize..40, seed in 0_u64..1_000, events in events(),
    ) {
        let mut places = entries(places);
        let mut cache = Cache::new(&mut places, key(seed));
        let mut model = Model::default();
        for event in events {
            model.play(&mut cache, event);
        }
        // Nothing new comes: by its own timers the cache comes to rest, and nothing waits any more.
        for _ in 0..20 {
            let mut steps = 0;
            while let Some(action) = cache.poll(model.now) {
                model.act(action);
                steps += 1;
                prop_assert!(steps < 10_000, "there is an end to it");
            }
            prop_assert!(cache.deadline() > model.now);
            if cache.deadline() != Instant::NEVER {
                model.now = cache.deadline();
            }
        }
        prop_assert_eq!(cache.deadline(), Instant::NEVER);
        prop_assert!(model.waiting.is_empty(), "{:?}", model.waiting);
        // All places can be had by those that come later.
        model.now = model.now + Duration::from_secs(60);
        prop_assert_eq!(cache.resolve(host(1000), 0, model.now), Resolution::Waiting(None));
    }
}
