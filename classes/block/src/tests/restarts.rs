//! Either side's life ends at any store; nothing is lost, and nothing is done to blocks that later
//! requests changed.

use crate::testing::{RamDisk, connection, segment};
use crate::{BLOCK, Client, Disk, Error, Port, Request};
use culm::Region;
use culm_abi::connection::BlockClient;
use culm_queue::crash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

fn port(connection: &BlockClient) -> Port {
    Port::new(connection.requests, connection.answers, 63, connection.data.size / BLOCK as u64)
}

const BLOCKS: u64 = 12;

/// A client that writes a pattern to every block, then reads all of them back.
struct Writer {
    client: Client<u64>,
    data: Region,
    sent: u64,
    complete: u64,
}

impl Writer {
    fn new(connection: &BlockClient) -> Self {
        let (client, data) = (Client::connect(connection), Region::new(connection.data));
        Self { client, data, sent: 0, complete: 0 }
    }

    fn pattern(block: u64) -> [u8; BLOCK] {
        [0x10 + block as u8; BLOCK]
    }

    fn round(&mut self) {
        self.client.begin();
        while let Some(complete) = self.client.next_completion() {
            assert_eq!(complete.result, Ok(()));
            self.complete += 1;
            if self.complete > BLOCKS {
                let mut bytes = [0; BLOCK];
                self.data.read(complete.tag as usize * BLOCK, &mut bytes).expect("inside");
                assert_eq!(bytes, Self::pattern(complete.tag), "block {}", complete.tag);
            }
        }
        if (self.sent, self.complete) == (BLOCKS, BLOCKS) {
            self.data.clear(0, BLOCKS as usize * BLOCK).expect("inside");
        }
        let allowed = if self.complete < BLOCKS { BLOCKS } else { 2 * BLOCKS };
        while self.client.disk().is_some() && self.sent < allowed {
            let block = self.sent % BLOCKS;
            let segments = [segment(block, 1)];
            let request = if self.sent < BLOCKS {
                self.data.write(block as usize * BLOCK, &Self::pattern(block)).expect("inside");
                Request::write(block, &segments)
            } else {
                Request::read(block, &segments)
            };
            self.client.send(&request.expect("one segment"), block).expect("there is space");
            self.sent += 1;
        }
        let _ = self.client.end_round();
    }

    fn is_done(&self) -> bool {
        self.complete == 2 * BLOCKS
    }
}

/// Lets a disk serve a writer until that is done. The life of one side ends before its store number
/// `steps`, and that of the next one after `again` more, if that is some. Returns how many ended.
fn run(is_client: bool, steps: u32, again: Option<u32>) -> usize {
    let connection = connection(32, BLOCKS, 0, 1);
    let (mut writer, mut disk) = (Writer::new(&connection), RamDisk::new(&connection, Disk::new(BLOCKS, 1)));
    let mut ends = [Some(steps), again].into_iter().flatten();
    let mut left = ends.next();
    let mut ended = 0;
    for _ in 0..200 {
        if let Some(steps) = left {
            crash::die_after(steps);
        }
        let mortal = || {
            if is_client {
                writer.round();
            } else {
                let _ = disk.round();
            }
        };
        let died = catch_unwind(AssertUnwindSafe(mortal)).is_err();
        left = crash::disarm();
        if died {
            ended += 1;
            left = ends.next();
            if is_client {
                writer = Writer::new(&connection);
            } else {
                disk = disk.restarted(port(&connection));
            }
        }
        if is_client {
            let _ = disk.round();
        } else {
            writer.round();
        }
        if writer.is_done() {
            assert_eq!(writer.client.under_way(), 0);
            return ended;
        }
    }
    panic!("requests are lost: {} of {} answered, after {steps} and {again:?} steps", writer.complete, writer.sent);
}

/// Ends lives at every store there is.
fn die_everywhere(is_client: bool) {
    for again in [None, Some(0), Some(5)] {
        let deaths = (0..).take_while(|steps| run(is_client, *steps, again) > 0).count();
        assert!(deaths > 15, "{deaths} places to die");
    }
}

/// Tests that all requests are answered once, with what was written.
#[test]
fn a_provider_may_die_at_any_store() {
    die_everywhere(false);
}

/// Tests that the next life, which starts from the beginning, finds a disk that works.
#[test]
fn a_client_may_die_at_any_store() {
    die_everywhere(true);
}

/// A request that is under way when the client is restarted ends before the next life is served: it
/// cannot overwrite what that life reads or writes.
#[test]
fn earlier_requests_end_first() {
    let connection = connection(32, 4, 0, 1);
    let data = Region::new(connection.data);
    let mut disk = RamDisk::new(&connection, Disk::new(BLOCKS, 1));
    let write = Request::write(0, &[segment(0, 1)]).expect("one segment");
    let round = |client: &mut Client<u8>, complete: &mut Vec<u8>| {
        client.begin();
        complete.extend(core::iter::from_fn(|| client.next_completion()).map(|complete| complete.tag));
        if client.under_way() == 0 && complete.is_empty() && client.disk().is_some() {
            client.send(&write, 1).expect("there is space");
        }
        let _ = client.end_round();
    };
    let (mut client, mut complete) = (Client::connect(&connection), Vec::new());
    data.write(0, &[1; BLOCK]).expect("inside");
    for _ in 0..6 {
        round(&mut client, &mut complete);
        disk.take();
        let _ = disk.end_round();
    }
    assert_eq!((disk.taken.len(), complete.len()), (1, 0));
    let mut client = Client::connect(&connection);
    for _ in 0..6 {
        round(&mut client, &mut complete);
        disk.take();
        assert!(disk.end_round().is_asleep(), "it waits for what is under way");
        assert_eq!(disk.taken.len(), 1, "the new life's is not taken");
    }
    disk.finish_all();
    data.write(0, &[2; BLOCK]).expect("inside");
    for _ in 0..6 {
        round(&mut client, &mut complete);
        let _ = disk.round();
    }
    assert_eq!((complete.as_slice(), disk.content[0]), (&[1][..], 2));
}

/// Tests that a client learns of a reset that lost what was answered: its medium is another one,
/// and what was under way is not done to it.
#[test]
fn a_reset_that_loses_writes_is_a_change_of_medium() {
    let connection = connection(32, 4, 0, 1);
    let data = Region::new(connection.data);
    data.write(0, &[1; BLOCK]).expect("inside");
    let mut disk = RamDisk::new(&connection, Disk::new(BLOCKS, 1));
    let mut client = Client::<u8>::connect(&connection);
    let mut complete = Vec::new();
    let mut round = |client: &mut Client<u8>| {
        client.begin();
        complete
            .extend(core::iter::from_fn(|| client.next_completion()).map(|complete| (complete.tag, complete.result)));
        let _ = client.end_round();
        complete.clone()
    };
    let write = |block| Request::write(block, &[segment(0, 1)]).expect("one segment");
    for tag in 0..2 {
        for _ in 0..4 {
            round(&mut client);
            disk.take();
            let _ = disk.end_round();
        }
        client.send(&write(tag.into()), tag).expect("there is space");
        round(&mut client);
        disk.take();
        if tag == 0 {
            disk.finish_all();
            let _ = disk.end_round();
        }
    }
    let changes = client.changes();
    let mut disk = disk.restarted_without_cache(port(&connection));
    for _ in 0..6 {
        round(&mut client);
        let _ = disk.round();
    }
    assert_eq!(round(&mut client), [(0, Ok(())), (1, Err(Error::Changed))]);
    assert_ne!(client.changes(), changes);
    assert!(!disk.content.contains(&1), "nothing is written that its client does not know of");
}

/// A request that is cancelled while an earlier life of the provider may have it ends only when the
/// device cannot be at its memory any more.
#[test]
fn the_memory_of_a_cancelled_request_is_not_the_devices_when_it_ends() {
    let connection = connection(32, BLOCKS, 0, 1);
    let (mut client, mut disk) = (Client::connect(&connection), RamDisk::new(&connection, Disk::new(BLOCKS, 1)));
    let end = |client: &mut Client<u64>| {
        client.begin();
        let complete = core::iter::from_fn(|| client.next_completion().map(|complete| (complete.tag, complete.result)));
        let complete: Vec<_> = complete.collect();
        let _ = client.end_round();
        complete
    };
    for _ in 0..4 {
        assert_eq!(end(&mut client), []);
        disk.take();
        let _ = disk.end_round();
    }
    let read = |block| Request::read(block, &[segment(block, 1)]).expect("one segment");
    client.send(&read(1), 1).expect("there is space");
    assert_eq!(end(&mut client), []);
    disk.take();
    assert_eq!(disk.taken.len(), 1);
    // The provider dies, and its next life has not said yet that all has ended.
    let mut disk = disk.restarted(port(&connection));
    assert_eq!(end(&mut client), []);
    client.send(&read(2), 2).expect("there is space");
    client.cancel(|_| true);
    assert_eq!(end(&mut client), [(2, Err(Error::Changed))], "nobody has seen it");
    let mut complete = Vec::new();
    for _ in 0..4 {
        complete.extend(end(&mut client));
        disk.take();
        assert_eq!(disk.taken, [], "it is not sent again");
        let _ = disk.end_round();
    }
    assert_eq!(complete, [(1, Err(Error::Changed))]);
    assert_eq!(client.under_way(), 0);
}

/// Tests that requests are sent again in the order in which they were sent, whichever places they
/// have, and none of them that has ended.
#[test]
fn what_is_sent_again_keeps_its_order() {
    const MANY: u64 = 1000;
    let connection = connection(256, MANY, 0, 1);
    let (mut client, mut disk) = (Client::connect(&connection), RamDisk::new(&connection, Disk::new(MANY, 1)));
    let read = |block| Request::read(block, &[segment(block, 1)]).expect("one segment");
    let (mut sent, mut ended, mut order) = (0, Vec::new(), Vec::new());
    for _ in 0..30 {
        client.begin();
        ended.extend(core::iter::from_fn(|| client.next_completion()).map(|complete| complete.tag));
        while client.disk().is_some() && client.space() > 0 {
            client.send(&read(sent), sent).expect("there is space");
            order.push(sent);
            sent += 1;
        }
        let _ = client.end_round();
        disk.take();
        // Places are free in any order.
        (0..20).for_each(|number| {
            if !disk.taken.is_empty() {
                disk.finish(number * 7 % disk.taken.len())
            }
        });
        let _ = disk.end_round();
    }
    assert!(sent > 500 && disk.taken.len() > 100, "{sent} were sent, {} are left", disk.taken.len());
    client.begin();
    ended.extend(core::iter::from_fn(|| client.next_completion()).map(|complete| complete.tag));
    // These wait for a life that has not begun, and end before it.
    let mut disk = disk.restarted(port(&connection));
    client.begin();
    let waiting = client.space() as u64;
    assert!(waiting > 0, "some have ended");
    (sent..sent + waiting).for_each(|block| client.send(&read(block), block).expect("there is space"));
    client.cancel(|block| *block >= sent);
    // Once more, before what has ended is taken.
    disk = disk.restarted(port(&connection));
    order.retain(|block| !ended.contains(block));
    let mut taken = Vec::new();
    for _ in 0..10 {
        client.begin();
        let complete = core::iter::from_fn(|| client.next_completion());
        let cancelled = complete.filter(|complete| complete.result == Err(Error::Changed));
        assert!(cancelled.map(|complete| complete.tag).all(|block| block >= sent));
        let _ = client.end_round();
        disk.take();
        taken.extend(disk.taken.iter().map(|taken| taken.request.block));
        disk.finish_all();
        let _ = disk.end_round();
    }
    assert_eq!(taken, order);
    assert_eq!(client.under_way(), 0);
}
