//! A disk as the bus's driver makes it ready, refuses it and takes it back.

use super::*;
use alloc::vec::Vec;
use culm::connection::{BlockDriver, BusClient, BusProviderClient};
use culm::testing;
use culm_abi::connection::Ring;
use culm_block::{Client, MAX_DISK};
use culm_bus::{Details, Tenant};
use culm_virtio::Unusable;
use culm_virtio::registers::{FEATURE_VERSION_1, Kind, Status};
use culm_virtio::testing::pci::{FakePci, structures};
use culm_virtio::testing::{Fake, memory};

/// A disk that nobody has looked at, its bus's driver, and the virtualiser.
struct Slot {
    fake: Fake,
    tenant: Tenant,
    seated: Seated<FakePci>,
    client: Client<u64>,
}

impl Slot {
    fn new() -> Self {
        let shown = testing::memory(64, 0);
        let client = BusProviderClient {
            shown,
            address: 0x1000_4000,
            size: 0x4000,
            slot: 2,
            bar: 4,
            vendor: 0x1af4,
            product: 0x1042,
            channel: 9,
            is_master: 1,
        };
        let (tenant, seat) = (Tenant::new(&client), Seat::new(BusClient { shown, channel: 8 }));
        let own = memory(16 * 1024);
        let fake = Fake::new(Kind::BLOCK, 1, own);
        fake.0.features.set(FEATURE_VERSION_1);
        *fake.0.configuration.borrow_mut() = [&[64][..], &[0; 63]].concat();
        let ring = || -> Ring { culm_block::testing::ring(64) };
        let queues = BlockDriver { requests: ring(), answers: ring(), channel: 1 };
        let registers = FakePci(fake.clone());
        let seated = Seated::new(seat, Box::new(move || registers.clone()), SIZE, own, queues);
        Self { fake, tenant, seated, client: Client::new(queues.requests, queues.answers, 2, MAX_DISK) }
    }

    /// Makes the disk ready, with its structures.
    fn admit(&self) {
        self.tenant.admit(structures(&self.fake).words());
    }

    /// Driver and virtualiser take turns; returns how many blocks the disk has, as far as is known.
    fn run(&mut self) -> Option<u64> {
        self.seated.look_at_bus().expect("it is of use");
        for _ in 0..8 {
            self.client.begin();
            let _: Vec<_> = core::iter::from_fn(|| self.client.next_completion()).collect();
            let _ = self.client.end_round();
            run_rounds(8, || self.seated.round());
        }
        self.client.disk().map(|disk| if disk.is_present() { disk.blocks } else { 0 })
    }
}

#[test]
fn no_register_is_touched_before_the_disk_is_ready() {
    let mut slot = Slot::new();
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (None, 0));
    slot.admit();
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (Some(64), 1));
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (Some(64), 1), "a notification without news changes nothing");
}

#[test]
fn a_disk_that_was_made_ready_anew_is_set_up_anew() {
    let mut slot = Slot::new();
    slot.admit();
    slot.run();
    slot.tenant.withdraw();
    slot.run();
    assert!(!slot.seated.is_running());
    slot.admit();
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (Some(64), 2));
    // The bus's driver was faster than this one.
    slot.tenant.withdraw();
    slot.admit();
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (Some(64), 3));
}

#[test]
fn a_disk_that_is_refused_is_none() {
    let mut slot = Slot::new();
    testing::observe();
    slot.tenant.refuse();
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (Some(0), 0));
    assert!(testing::trouble().contains("keeps the device off"), "{}", testing::trouble());
}

#[test]
fn a_disk_that_refuses_the_driver_s_features_is_none() {
    let mut slot = Slot::new();
    testing::observe();
    slot.fake.0.accepts_features.set(false);
    slot.admit();
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (Some(0), 1));
    assert!(!slot.seated.is_running());
    assert!(testing::trouble().contains("the device cannot be used"), "{}", testing::trouble());
    // It is another one.
    slot.tenant.withdraw();
    slot.run();
    slot.fake.0.accepts_features.set(true);
    slot.admit();
    assert_eq!(slot.run(), Some(64));
    assert_eq!(testing::trouble(), "");
}

/// A device that may be at work in clients' memory: their requests must not end.
#[test]
fn a_disk_that_does_not_reset_is_not_said_to_be_none() {
    let mut slot = Slot::new();
    slot.fake.0.is_stuck.set(true);
    slot.fake.0.status.set(Status::ZERO.set(Status::DRIVER_OK));
    slot.admit();
    assert_eq!(slot.seated.look_at_bus(), Err(Unusable::Stuck));
    assert_eq!(slot.client.disk(), None);
}

/// The bus's driver has gone mad.
#[test]
fn structures_outside_of_the_registers_are_never_touched() {
    let mut slot = Slot::new();
    slot.tenant.admit([u64::MAX; size_of::<Details>() / 8]);
    assert_eq!((slot.run(), slot.fake.0.resets.get()), (Some(0), 0));
}
