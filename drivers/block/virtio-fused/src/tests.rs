//! Driver and virtualiser between a fake device and whoever looks at the system: what is shown has
//! two sources here, and the device's reason goes before what the virtualiser makes of it.

mod lives;

use block_virt::{Tag, Virtualiser};
use block_virtio::Engine;
use block_virtio::registers::{FEATURE_BLOCK_SIZE, QUEUE};
use culm::connection::BlockVirtualiser;
use culm::testing::{self, memory, observe, trouble};
use culm::time::{self, Duration};
use culm_abi::start::Span;
use culm_block::BLOCK;
use culm_block::testing::ring;
use culm_virtio::registers::{Causes, FEATURE_VERSION_1, Kind};
use culm_virtio::testing::Fake;

/// A domain of driver and virtualiser, without clients.
struct Domain {
    fake: Fake,
    virtualiser: Virtualiser<Engine<Fake, Tag>>,
}

impl Domain {
    fn new(blocks: u64, block_size: u32) -> Self {
        observe();
        let own = culm_virtio::testing::memory(16 * 1024);
        let fake = Fake::new(Kind::BLOCK, 1, own);
        fake.0.features.set(FEATURE_VERSION_1 | FEATURE_BLOCK_SIZE);
        configure(&fake, blocks, block_size);
        let engine = Engine::new(fake.clone(), own).expect("a device that works");
        let connection: BlockVirtualiser = BlockVirtualiser {
            requests: ring(16),
            answers: ring(16),
            table: memory(128 * BLOCK, 0x4000_0000),
            account: memory(8, 0),
            clients: Span::default(),
            channel: 0,
        };
        let mut domain = Self { fake, virtualiser: Virtualiser::with_driver(engine, &connection, &[]) };
        domain.run();
        domain
    }

    /// Takes rounds, after the device's interrupt if there is one. Returns what is wrong.
    fn run(&mut self) -> String {
        if self.fake.0.causes.get() != Causes::ZERO {
            self.virtualiser.driver().interrupted();
        }
        culm::run_rounds(8, || self.virtualiser.round());
        trouble()
    }

    /// The device says that it is another disk.
    fn change(&mut self, blocks: u64, block_size: u32) -> String {
        configure(&self.fake, blocks, block_size);
        self.fake.0.raise(Causes::CHANGE);
        self.run()
    }
}

/// Gives the device its configuration (VIRTIO 1.2 §5.2.4).
fn configure(fake: &Fake, blocks: u64, block_size: u32) {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(&blocks.to_le_bytes());
    bytes[20..24].copy_from_slice(&block_size.to_le_bytes());
    *fake.0.configuration.borrow_mut() = bytes;
}

#[test]
fn the_device_s_trouble_goes_before_that_there_is_no_medium() {
    let mut domain = Domain::new(64, 520);
    assert!(trouble().contains("the device has blocks of 520 bytes"), "{}", trouble());
    assert_eq!(domain.change(64, 512), "");
    assert_eq!(domain.change(0, 512), "there is no medium");
    assert!(domain.change(0, 520).contains("the device has blocks of 520 bytes"));
    assert_eq!(domain.change(0, 512), "there is no medium", "it is said again once nothing else is wrong");
    assert_eq!(domain.change(64, 512), "");
}

/// The disk stays what it was, so the virtualiser has nothing to find out.
#[test]
fn a_device_that_does_not_reset_is_told_of_though_the_disk_is_the_same() {
    let mut domain = Domain::new(64, 512);
    let state = domain.fake.0.clone();
    state.is_stuck.set(true);
    state.set_used_index(QUEUE, 500);
    state.raise(Causes::USED);
    assert!(domain.run().contains("does not reset"), "{}", trouble());
    state.is_stuck.set(false);
    testing::set_time(time::now() + Duration::from_secs(2));
    assert_eq!(domain.run(), "");
}
