//! Who gets how much of the disk, and how soon.

use super::*;
use crate::turns::{MAX_CLEARED, QUANTUM};

/// Large writes of one client keep the driver's queue short, and wait for small reads of another.
#[test]
fn small_reads_pass_large_writes() {
    let mut world = World::with_memory(&[ALL, ALL], Disk::new(5000, 7), MAX_BLOCKS.into());
    world.run();
    for tag in 0..40 {
        world.clients[0].send(&write(tag % 2 * 2048, 0, MAX_BLOCKS), tag).expect("there is space");
    }
    let _ = world.round();
    let _ = world.round();
    world.disk.take();
    let blocks: u32 = world.disk.taken.iter().map(|taken| taken.request.blocks).sum();
    assert_eq!(blocks, WINDOW, "so many blocks are in the device");
    // The read is at the driver at once, although the window is full.
    world.clients[1].send(&read(0, 0, 1), 99).expect("there is space");
    let _ = world.round();
    world.disk.take();
    assert_eq!(world.disk.taken.last().map(|taken| taken.request.blocks), Some(1));
}

/// Whoever always has requests gets as many blocks as the others who do, in requests of any size.
#[test]
fn clients_get_the_same_count_of_blocks() {
    let sizes = [MAX_BLOCKS, 16, 100];
    let mut world = World::with_memory(&[ALL; 3], Disk::new(5000, 7), MAX_BLOCKS.into());
    world.run();
    let mut blocks = [0_u32; 3];
    for _ in 0..3000 {
        for (number, client) in world.clients.iter_mut().enumerate() {
            while client.space() > 0 {
                client.send(&read(0, 0, sizes[number]), 0).expect("there is space");
            }
        }
        for (number, complete) in world.round() {
            assert_eq!(complete.result, Ok(()));
            blocks[number] += sizes[number];
        }
        // A device that takes its time: one request after the other.
        world.disk.take();
        if !world.disk.taken.is_empty() {
            world.disk.finish(0);
        }
        let _ = world.disk.end_round();
    }
    let (least, most) = (blocks.iter().min().expect("three"), blocks.iter().max().expect("three"));
    assert!(*most - *least <= most / 5 + MAX_BLOCKS + QUANTUM, "{blocks:?}");
}

/// What each of several clients got that always have requests, in blocks that count for at least 8.
struct Shares {
    /// In all.
    blocks: Vec<u32>,
    /// The most that others had sent to the driver while a request of the client waited, from one
    /// of its requests to the next.
    longest: Vec<u32>,
}

/// Records which clients' requests reach the driver, and how long the others wait for that.
struct Arrivals {
    /// Requests that a client has sent, less those that have reached the driver.
    waiting: Vec<u32>,
    /// What others had since the client's last request reached the driver.
    passed: Vec<u32>,
    /// The most of that.
    longest: Vec<u32>,
}

impl Arrivals {
    fn new(clients: usize) -> Self {
        Self { waiting: vec![0; clients], passed: vec![0; clients], longest: vec![0; clients] }
    }

    /// Records that a request has reached the driver. Whose it is says the memory that it names.
    fn add(&mut self, request: &Request) {
        let place = request.segments()[0].place * BLOCK as u64;
        let clients = self.waiting.len();
        let owner = (0..clients).rfind(|number| dma(number + 1) <= place).expect("a client's memory");
        self.waiting[owner] -= 1;
        self.passed[owner] = 0;
        for number in (0..clients).filter(|number| *number != owner) {
            let passed = if self.waiting[number] > 0 { self.passed[number] + request.blocks.max(8) } else { 0 };
            self.passed[number] = passed;
            self.longest[number] = self.longest[number].max(passed);
        }
    }
}

/// A device of which clients that always have requests of these sizes want more than it does. It
/// finishes one request per round, the one of that index among those it has.
fn compete(sizes: &[u32], rounds: usize, mut index: impl FnMut() -> usize) -> Shares {
    let mut world = World::with_memory(&vec![ALL; sizes.len()], Disk::new(5000, 7), MAX_BLOCKS.into());
    world.disk.is_hollow = true;
    world.run();
    let (mut blocks, mut arrivals) = (vec![0; sizes.len()], Arrivals::new(sizes.len()));
    for _ in 0..rounds {
        for (number, (client, size)) in world.clients.iter_mut().zip(sizes).enumerate() {
            while client.space() > 0 {
                client.send(&read(0, 0, *size), 0).expect("there is space");
                arrivals.waiting[number] += 1;
            }
        }
        for (number, complete) in world.round() {
            assert_eq!(complete.result, Ok(()));
            blocks[number] += sizes[number].max(8);
        }
        let before = world.disk.taken.len();
        world.disk.take();
        world.disk.taken[before..].iter().for_each(|taken| arrivals.add(&taken.request));
        if !world.disk.taken.is_empty() {
            world.disk.finish(index() % world.disk.taken.len());
        }
        let _ = world.disk.end_round();
    }
    Shares { blocks, longest: arrivals.longest }
}

/// Checks the blocks that each of those got who always have requests. What one may be ahead of
/// another is bounded, whatever the time: a turn's credit, what it may owe, and what is at the
/// driver. Of small requests a queue holds too little to be sure that some are left for each turn;
/// but one that waits is sent when its client has its turn, and till then each of the others has
/// one at most.
fn check_shares(sizes: &[u32], Shares { blocks, longest }: &Shares) {
    let most = *blocks.iter().max().expect("some");
    for ((size, blocks), longest) in sizes.iter().zip(blocks).zip(longest) {
        let bound = WINDOW + 2 * QUANTUM + 2 * MAX_BLOCKS;
        assert!(*size < 100 || most - blocks <= bound, "{sizes:?} got {blocks:?}, another one {most}");
        assert!(*blocks >= 3 * size, "{sizes:?} got {blocks:?}");
        let bound = sizes.len() as u32 * (QUANTUM + MAX_BLOCKS) + WINDOW;
        assert!(*size > QUANTUM || *longest <= bound, "{sizes:?}: {size} waited while others got {longest}");
    }
}

/// Tests that clients that may go past others do not keep one with a large request waiting for
/// ever, however many they are.
#[test]
fn a_large_request_is_not_passed_for_ever() {
    for passers in [8, 9, 12] {
        let mut sizes = vec![QUANTUM; passers];
        sizes.push(MAX_BLOCKS);
        check_shares(&sizes, &compete(&sizes, 4000, || 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever the sizes of their requests, and in whatever order the device does them, clients
    /// that always have some get the same count of blocks.
    #[test]
    fn nobody_starves(
        sizes in proptest::collection::vec(prop_oneof![1..32_u32, 200..300_u32, 1..=MAX_BLOCKS], 2..9),
        order in proptest::collection::vec(0..64_usize, 1..100),
    ) {
        let mut order = order.into_iter().cycle();
        check_shares(&sizes, &compete(&sizes, 3000, || order.next().expect("it has no end")));
    }
}

/// Tests that clears count for what they clear, and that none is so large that others wait for it
/// longer than for a write.
#[test]
fn clears_count_for_their_blocks() {
    let disk = Disk { discards: true, writes_zeroes: true, ..Disk::new(20_000, 7) };
    let mut world = World::new(&[ALL, ALL], disk);
    world.disk.is_hollow = true;
    world.run();
    let shown = *world.clients[0].disk().expect("it is known");
    assert_eq!(1 << shown.most_cleared, MAX_BLOCKS);
    for tag in 0..40 {
        let clear = Request::write_zeroes(0, 1 << MAX_CLEARED, false);
        world.clients[0].send(&clear, tag).expect("there is space");
    }
    for _ in 0..4 {
        world.round();
    }
    world.disk.take();
    let blocks: u32 = world.disk.taken.iter().map(|taken| taken.request.blocks).sum();
    assert_eq!(blocks, WINDOW);
}

/// Tests that one client's small requests leave places in the driver's queue for the other's.
#[test]
fn places_in_the_drivers_queue_are_kept() {
    let mut world = World::new(&[ALL; 3], Disk::new(400, 7));
    world.run();
    let depth = world.clients[0].space() as u64;
    for tag in 0..depth {
        world.clients[0].send(&read(0, 0, 1), tag).expect("there is space");
    }
    for _ in 0..6 {
        world.round();
    }
    world.disk.take();
    assert_eq!(world.disk.taken.len() as u64, depth - 2, "one for each of the others is kept");
    for number in [2, 1] {
        world.clients[number].send(&read(number as u64, 0, 1), 1).expect("there is space");
        world.round();
        world.disk.take();
        assert_eq!(world.disk.taken.last().map(|taken| taken.request.block), Some(number as u64));
    }
}

/// Tests that all are served alike that are more than the driver's queue has places.
#[test]
fn more_clients_than_places_are_served_alike() {
    let Shares { blocks, .. } = compete(&[1; 60], 4000, || 0);
    let (least, most) = (blocks.iter().min().expect("some"), blocks.iter().max().expect("some"));
    assert!(*most - *least <= 2 * QUANTUM && *least > 0, "{blocks:?}");
}

/// Tests that who reads a little, one piece after the other, waits for what is in the device only,
/// whatever the others want.
#[test]
fn small_reads_pass_again_and_again() {
    let mut world = World::with_memory(&[ALL; 5], Disk::new(5000, 7), MAX_BLOCKS.into());
    world.disk.is_hollow = true;
    world.run();
    let mut waited = 0;
    for turn in 0..200 {
        for client in world.clients.iter_mut().skip(1) {
            while client.under_way() < 4 {
                client.send(&read(0, 0, MAX_BLOCKS), 0).expect("there is space");
            }
        }
        world.clients[0].send(&read(turn + 1, 0, 1), 0).expect("there is space");
        for _ in 0..4 {
            world.round();
            world.disk.take();
        }
        let small = world.disk.taken.iter().position(|taken| taken.request.blocks == 1);
        waited += usize::from(small.is_none());
        // The device ends the requests that it has.
        for _ in 0..6 {
            world.disk.finish_all();
            let _ = world.disk.end_round();
            world.round();
            world.disk.take();
        }
        if world.clients[0].under_way() > 0 {
            world.disk.finish_all();
            let _ = world.disk.end_round();
            world.round();
        }
        assert_eq!(world.clients[0].under_way(), 0);
    }
    assert_eq!(waited, 0, "each read is at the driver at once");
}

/// Tests that a client may go past others on credit, as far as it may owe; that its turn pays, and
/// that it owes nothing any more if it let its turn go by.
#[test]
fn what_a_client_owes_is_bounded_and_forgiven() {
    let mut world = World::with_memory(&[ALL; 3], Disk::new(5000, 7), MAX_BLOCKS.into());
    world.disk.is_hollow = true;
    world.run();
    // The others fill the window, and the device does the small reads only.
    let fill = |world: &mut World| {
        for client in world.clients.iter_mut().skip(1) {
            while client.under_way() < 8 {
                client.send(&read(0, 0, MAX_BLOCKS), 0).expect("there is space");
            }
        }
        for _ in 0..3 {
            world.round();
            world.disk.take();
        }
    };
    let passes = |world: &mut World| {
        world.clients[0].send(&read(0, 0, 1), 0).expect("there is space");
        for _ in 0..3 {
            world.round();
            world.disk.take();
        }
        let small = world.disk.taken.iter().position(|taken| taken.request.blocks == 1);
        if let Some(small) = small {
            world.disk.finish(small);
            let _ = world.disk.end_round();
            world.round();
        }
        small.is_some()
    };
    fill(&mut world);
    let passed = (0..100).take_while(|_| passes(&mut world)).count() as u32;
    assert_eq!(passed, QUANTUM / 8);
    world.run();
    // Once more as far as possible, and then it wants nothing while the others have their turns.
    fill(&mut world);
    for _ in 0..QUANTUM / 8 {
        assert!(passes(&mut world));
    }
    for _ in 0..4 {
        world.disk.finish_all();
        let _ = world.disk.end_round();
        fill(&mut world);
    }
    assert!(passes(&mut world));
}
