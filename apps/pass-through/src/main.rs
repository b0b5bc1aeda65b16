//! Hands received frames on unchanged, and the buffers of those that were read back: what `./culm bench crossing` counts is
//! how much one more component in a packet's way costs.
//!
//! It stands between a copier (or a receive virtualiser) and a client (`through` in the system file), or between two of
//! its own kind. Both sides have the same buffers, so that only entries of queues move. They are passed on whatever they
//! are: the markers by which two sides agree after a restart reach from the one to the other, and this component, which
//! keeps nothing between turns, has no part in it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::connection::NetCopier as Connection;
use culm::queue::{Consumer, Producer};
use culm::{Channel, Channels, Component, queue, time};
use culm_net::{Descriptor, put_off};

culm::component!(PassThrough);

/// Rounds in one turn before others of the same priority get theirs.
const ROUNDS: u32 = 8;

/// One way through.
struct Way {
    from: Consumer<Descriptor>,
    /// Told of space in `from`.
    giver: Channel,
    to: Producer<Descriptor>,
    /// Told of entries in `to`.
    taker: Channel,
}

impl Way {
    /// Passes on what there is and what has space; returns how much that was, and all flags.
    #[inline(always)]
    fn pass(&mut self) -> (u32, u16) {
        let count = self.from.refresh();
        let mut space = self.to.reserve(count);
        let (mut passed, mut flags) = (0, 0);
        for entry in self.from.drain(space.left()) {
            if space.push(entry).is_err() {
                break;
            }
            passed += 1;
            flags |= entry.flags;
        }
        drop(space);
        // In this order: what is read again after a restart in between comes twice, which its taker finds out; it is not lost.
        if self.to.publish() {
            self.taker.notify();
        }
        if self.from.release_many(put_off(self.from.capacity())) {
            self.giver.notify();
        }
        (passed, flags)
    }

    /// Asks to be woken once there are `count` entries, or space where that is what lacks. False: there is already.
    #[inline(always)]
    fn sleep(&mut self, count: u32) -> bool {
        if self.from.available() > 0 { self.to.sleep() } else { self.from.sleep_until(count) }
    }
}

struct PassThrough {
    frames: Way,
    buffers: Way,
}

impl Component for PassThrough {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut this = Self::new(&connections.net);
        this.take_turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.take_turn();
    }
}

impl PassThrough {
    fn new(connection: &Connection) -> Self {
        let (device, client) = (Channel::new(connection.device_channel), Channel::new(connection.client_channel));
        let frames = Way {
            from: queue::consumer(connection.device_filled),
            giver: device,
            to: queue::producer(connection.client_filled),
            taker: client,
        };
        let buffers = Way {
            from: queue::consumer(connection.client_free),
            giver: client,
            to: queue::producer(connection.device_free),
            taker: device,
        };
        Self { frames, buffers }
    }

    #[inline(always)]
    fn take_turn(&mut self) {
        for _ in 0..ROUNDS {
            if self.round() {
                return;
            }
        }
        culm::wake_at(time::now());
    }

    /// Passes everything on both ways. False: there is more already.
    #[inline(always)]
    fn round(&mut self) -> bool {
        let (buffers, flags) = self.buffers.pass();
        let (frames, _) = self.frames.pass();
        counters::ENTRIES.add(u64::from(buffers + frames));
        if flags != 0 {
            // No buffer but a marker, which must not wait until there are many in whoever comes next.
            self.buffers.taker.notify();
        }
        // Buffers that come back can wait for the next frames, as long as there are few of them.
        let few = self.buffers.from.capacity() / 16;
        self.frames.sleep(1) & self.buffers.sleep(few)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_net::testing::{Peer, memory, ring};

    const SIZE: u32 = 2048;

    struct World {
        passing: PassThrough,
        virtualiser: Peer<Descriptor>,
        client: Peer<Descriptor>,
        connection: Connection,
    }

    impl World {
        fn new() -> Self {
            let data = memory(8 * SIZE as usize, 0);
            let connection = Connection {
                device_filled: ring::<Descriptor>(16),
                device_free: ring::<Descriptor>(16),
                device_data: data,
                client_filled: ring::<Descriptor>(16),
                client_free: ring::<Descriptor>(16),
                client_data: data,
                device_buffer_size: SIZE,
                client_buffer_size: SIZE,
                device_channel: 0,
                client_channel: 1,
                client_large: 0,
                reserved: 0,
            };
            let mut world = Self {
                passing: PassThrough::new(&connection),
                virtualiser: Peer::new(connection.device_free, connection.device_filled),
                client: Peer::new(connection.client_filled, connection.client_free),
                connection,
            };
            world.settle();
            world
        }

        /// The two sides greet each other through it.
        fn settle(&mut self) {
            for _ in 0..4 {
                self.passing.take_turn();
                let _ = (self.virtualiser.take(), self.client.take());
            }
        }
    }

    #[test]
    fn frames_go_one_way_and_buffers_the_other() {
        let mut world = World::new();
        for turn in 0..100 {
            let frame = Descriptor { offset: turn % 8 * SIZE, length: 76, flags: 0 };
            world.virtualiser.send(&[frame]);
            world.passing.take_turn();
            assert_eq!(world.client.take(), [frame]);
            let buffer = Descriptor::empty(frame.offset);
            world.client.send(&[buffer]);
            world.passing.take_turn();
            assert_eq!(world.virtualiser.take(), [buffer]);
        }
    }

    /// Two in a row: the first sleeps until there are several buffers, so that the second has to wake it.
    #[test]
    fn a_marker_on_the_way_back_wakes_the_next_one() {
        let rings: [_; 6] = core::array::from_fn(|_| ring::<Descriptor>(64));
        let data = memory(8 * SIZE as usize, 0);
        let connection = |place: usize, channels: [u32; 2]| Connection {
            device_filled: rings[place],
            device_free: rings[place + 1],
            device_data: data,
            client_filled: rings[place + 2],
            client_free: rings[place + 3],
            client_data: data,
            device_buffer_size: SIZE,
            client_buffer_size: SIZE,
            device_channel: channels[0],
            client_channel: channels[1],
            client_large: 0,
            reserved: 0,
        };
        let mut first = PassThrough::new(&connection(0, [0, 1]));
        let mut second = PassThrough::new(&connection(2, [2, 3]));
        let mut virtualiser = Peer::<Descriptor>::new(rings[1], rings[0]);
        let mut client = Peer::<Descriptor>::new(rings[4], rings[5]);
        for _ in 0..4 {
            first.take_turn();
            second.take_turn();
            let _ = (virtualiser.take(), client.take());
        }
        let _ = culm::testing::signalled();
        let _client = Peer::<Descriptor>::new(rings[4], rings[5]);
        second.take_turn();
        assert!(culm::testing::signalled().contains(&2));
    }

    #[test]
    fn either_side_and_itself_may_be_restarted() {
        let mut world = World::new();
        world.client = Peer::new(world.connection.client_filled, world.connection.client_free);
        world.settle();
        world.passing = PassThrough::new(&world.connection);
        world.settle();
        world.virtualiser = Peer::new(world.connection.device_free, world.connection.device_filled);
        world.settle();
        let frame = Descriptor { offset: SIZE, length: 76, flags: 0 };
        world.virtualiser.send(&[frame]);
        world.passing.take_turn();
        assert_eq!(world.client.take(), [frame]);
    }
}
