//! The parts notify each other within the turn, and nobody else hears of it.

use super::*;
use culm::testing::{channels, deadline, signalled};
use culm::{Channel, Link};
use culm_abi::lending::account_size;
use culm_net::DmaDescriptor;
use culm_net::testing::{memory, ring};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

const BUFFERS: u32 = 16;

/// The driver's ends of the channels to the virtualisers, and theirs.
const RX: [u32; 2] = [1, 2];
const TX: [u32; 2] = [3, 4];

/// What a driver has been told: the numbers of each notification.
type Told = Rc<RefCell<Vec<Vec<u32>>>>;

/// When the driver is to ask for a turn, in its next one.
type Wake = Rc<Cell<Option<Instant>>>;

/// A driver that keeps what it gets.
struct Driver {
    receive: Link<DmaDescriptor>,
    transmit: Link<DmaDescriptor>,
    told: Told,
    wake: Wake,
}

impl Driver {
    fn look(&mut self) {
        for link in [&mut self.receive, &mut self.transmit] {
            let _ = link.begin();
            link.publish();
            let _ = link.sleep();
        }
    }
}

impl Component for Driver {
    type Config = ();
    type Connections = ();

    fn init((): (), (): ()) -> Self {
        unreachable!("tests make it themselves")
    }

    fn notified(&mut self, channels: Channels) {
        self.told.borrow_mut().push(channels.map(Channel::number).collect());
        self.wake.take().into_iter().for_each(culm::wake_at);
        self.look();
    }
}

/// All three, without a client.
fn fused(told: &Told) -> Fused<Driver> {
    fused_that_wakes(told, &Wake::default())
}

fn fused_that_wakes(told: &Told, wake: &Wake) -> Fused<Driver> {
    let rings: [_; 4] = core::array::from_fn(|_| ring::<DmaDescriptor>(32));
    let driver = NetDriver {
        rx_free: rings[0],
        rx_filled: rings[1],
        tx_filled: rings[2],
        tx_free: rings[3],
        rx_channel: RX[0],
        tx_channel: TX[0],
        mac: [2, 0, 0, 0, 0, 1],
        large_receive: 0,
    };
    let receive = NetRxVirtualiser {
        driver_free: rings[0],
        driver_filled: rings[1],
        driver_channel: RX[1],
        buffer_size: 2048,
        data: memory((BUFFERS * 2048) as usize, 0x8000_0000),
        account: memory(account_size(1, BUFFERS) as usize, 0),
        clients: Default::default(),
    };
    let transmit = NetTxVirtualiser {
        driver_filled: rings[2],
        driver_free: rings[3],
        driver_channel: TX[1],
        buffer_size: 2048,
        bounce: Default::default(),
        account: memory(account_size(1, 0) as usize, 0),
        bounce_large: 0,
        clients: Default::default(),
    };
    let connections = Connections { driver, receive, transmit };
    Fused::new(&connections, 0, || {
        let mut driver = Driver {
            receive: Link::new(driver.rx_filled, driver.rx_free, driver.rx_channel),
            transmit: Link::new(driver.tx_free, driver.tx_filled, driver.tx_channel),
            told: told.clone(),
            wake: wake.clone(),
        };
        driver.look();
        driver
    })
}

#[test]
fn the_parts_find_each_other_within_the_first_turn() {
    let told = Told::default();
    let fused = fused(&told);
    assert!(fused.driver.receive.is_live() && fused.driver.transmit.is_live());
    assert_eq!(fused.driver.receive.input.available(), BUFFERS, "the device can have every buffer");
    assert_eq!((signalled(), deadline()), (vec![], None), "nothing leaves the domain");
    assert!(told.borrow().iter().flatten().all(|channel| [RX[0], TX[0]].contains(channel)));
}

#[test]
fn each_part_gets_its_own_channels() {
    let told = Told::default();
    let mut fused = fused(&told);
    told.borrow_mut().clear();
    fused.notified(channels(&[0]));
    assert_eq!(*told.borrow(), [[0]], "the device's interrupt");
    told.borrow_mut().clear();
    fused.notified(channels(&[RX[1], TX[1]]));
    assert!(told.borrow().iter().flatten().all(|channel| [RX[0], TX[0]].contains(channel)));
    told.borrow_mut().clear();
    fused.notified(Channels::NONE);
    assert_eq!(told.borrow()[0], [], "the deadline may be the driver's");
    assert_eq!(signalled(), []);
}

/// The deadline of a part that has no turn next time is not forgotten.
#[test]
fn each_part_keeps_its_deadline_through_turns_of_the_others() {
    let (told, wake) = (Told::default(), Wake::default());
    let mut fused = fused_that_wakes(&told, &wake);
    let at = Instant::from_ticks(5_000);
    wake.set(Some(at));
    fused.notified(channels(&[0]));
    assert_eq!(deadline(), Some(at), "the driver's");
    told.borrow_mut().clear();
    fused.notified(channels(&[TX[1]]));
    assert_eq!((deadline(), told.borrow().len()), (Some(at), 0), "a turn without the driver");
    // Another notification ends the wait, after the deadline.
    culm::testing::set_time(at);
    fused.notified(channels(&[TX[1]]));
    assert_eq!(*told.borrow(), [[0; 0]], "the driver has its turn all the same");
    assert_eq!(deadline(), None, "it did not ask again");
}
