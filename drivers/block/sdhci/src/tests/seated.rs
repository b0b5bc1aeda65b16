//! The controller as the bus's driver makes it ready, refuses it and takes it back.

use super::world::{DATA, MEMORY, TABLE, connection, segment};
use crate::testing::{Fake, FakeCard};
use crate::{Options, Seated};
use culm::connection::{BusClient, BusProviderClient};
use culm::{Region, testing, time};
use culm_block::{BLOCK, Client, Completion, Error, MAX_DISK, Port, Request};
use culm_bus::{Details, Seat, Tenant};
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

/// A controller that nobody has looked at, its bus's driver, and the virtualiser.
struct Slot {
    fake: Fake,
    tenant: Tenant,
    seated: Seated<Fake>,
    client: Client<u64>,
}

impl Slot {
    fn new() -> Self {
        testing::set_time(time::Instant::default() + time::Duration::from_secs(1));
        let shown = testing::memory(64, 0);
        let client = BusProviderClient {
            shown,
            address: 0x1000_0000,
            size: 0x100,
            slot: 1,
            bar: 0,
            vendor: 0x1b36,
            product: 7,
            channel: 9,
            is_master: 1,
        };
        let (tenant, seat) = (Tenant::new(&client), Seat::new(BusClient { shown, channel: 8 }));
        let data = Region::new(testing::memory(MEMORY as usize * BLOCK, DATA));
        let own = Region::new(testing::memory(512, TABLE));
        let fake = Fake::new(vec![data, own]);
        fake.insert(FakeCard::new(2, 7));
        let registers = fake.clone();
        let (queues, options) = (connection(), Options::default());
        let (registers, port) = (Box::new(move || registers.clone()), Box::new(move || Port::connect(&queues)));
        let seated = Seated::new(seat, registers, own, Vec::new(), port, options);
        let client = Client::new(queues.requests, queues.answers, 2, MAX_DISK);
        Self { fake, tenant, seated, client }
    }

    /// Driver and virtualiser take turns, to each of the driver's deadlines.
    fn run(&mut self) -> Vec<Result<(), Error>> {
        let mut done = Vec::new();
        self.seated.look_at_bus().expect("it is of use");
        for _ in 0..200 {
            for _ in 0..4 {
                self.client.begin();
                let complete = core::iter::from_fn(|| self.client.next_completion());
                done.extend(complete.map(|Completion { result, .. }| result));
                let _ = self.client.end_round();
                if self.fake.interrupts() {
                    self.seated.interrupted();
                }
                culm::run_rounds(8, || self.seated.round());
            }
            let Some(deadline) = testing::deadline() else { break };
            testing::set_time(deadline.max(time::now()));
        }
        done
    }

    fn send(&mut self) {
        let request = Request::read(0, &[segment(0, 1)]).expect("one");
        self.client.send(&request, 1).expect("the disk takes it");
    }
}

#[test]
fn no_register_is_touched_before_the_controller_is_ready() {
    let mut slot = Slot::new();
    assert_eq!(slot.run(), []);
    assert_eq!((slot.fake.0.accesses.get(), slot.client.disk()), (0, None));
    slot.tenant.admit(Details::default());
    assert_eq!(slot.run(), []);
    assert!(slot.seated.is_running() && slot.client.disk().is_some_and(|disk| disk.is_present()));
}

#[test]
fn a_controller_that_was_taken_back_is_left_alone_until_it_is_ready_anew() {
    let mut slot = Slot::new();
    slot.tenant.admit(Details::default());
    slot.run();
    slot.fake.0.hold.set(true);
    slot.send();
    let _ = slot.client.end_round();
    let _ = slot.seated.round();
    assert!(slot.fake.is_sending());
    slot.tenant.withdraw();
    slot.seated.look_at_bus().expect("nothing to use");
    let accesses = slot.fake.0.accesses.get();
    assert_eq!(slot.run(), []);
    assert_eq!(slot.fake.0.accesses.get(), accesses);
    slot.fake.0.hold.set(false);
    slot.tenant.admit(Details::default());
    assert_eq!(slot.run(), [Ok(())], "what was under way is sent again");
}

/// The bus's driver was faster than this one.
#[test]
fn a_controller_that_was_made_ready_anew_is_reset_though_nobody_saw_it_withdrawn() {
    let mut slot = Slot::new();
    slot.tenant.admit(Details::default());
    slot.run();
    slot.fake.0.log.borrow_mut().clear();
    slot.run();
    assert!(slot.fake.0.log.borrow().is_empty(), "a notification without news changes nothing");
    slot.tenant.withdraw();
    slot.tenant.admit(Details::default());
    slot.run();
    assert_eq!(slot.fake.0.log.borrow().first(), Some(&0), "the card is set up from the beginning");
    slot.send();
    assert_eq!(slot.run(), [Ok(())]);
}

#[test]
fn a_controller_that_is_refused_is_no_disk() {
    let mut slot = Slot::new();
    testing::observe();
    slot.tenant.refuse();
    slot.run();
    assert!(testing::trouble().contains("keeps the controller off"), "{}", testing::trouble());
    assert_eq!(slot.fake.0.accesses.get(), 0);
    assert!(slot.client.disk().is_some_and(|disk| !disk.is_present()));
}
