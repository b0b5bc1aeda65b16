//! Hands received frames on unchanged, and the buffers of those that were read back: what
//! `./culm bench crossing` counts is how much one more component in a packet's way costs.
//!
//! It stands between a copier (or a receive virtualiser) and a client (`through` in the system
//! file), or between two of its own kind. Both sides have the same buffers, so that only entries of
//! queues move, whatever they say. Where one side starts over, what it lent or held is void; so
//! this component starts over with the other side too, and what is under way here is void with it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::connection::NetCopier as Connection;
use culm::link::Event;
use culm::{Channels, Component, Link, Progress, ROUNDS, run_rounds};
use culm_net::Descriptor;

culm::component!(PassThrough);

/// One of the two that this component stands between.
struct Side {
    link: Link<Descriptor>,
    /// That the pair starts over is this component's own doing, and the other side knows.
    expected: bool,
}

impl Side {
    fn new(link: Link<Descriptor>) -> Self {
        Self { link, expected: true }
    }

    /// Begins a round. Returns whether the pair starts over by the peer's doing.
    #[inline(always)]
    fn begin(&mut self) -> bool {
        self.link.begin() == Event::Renewed && !core::mem::take(&mut self.expected)
    }

    #[cold]
    fn start_over(&mut self) {
        self.link.start_over();
        self.expected = true;
    }
}

/// Passes on what there is and what has space, as far as both sides are there; returns how much
/// that was.
#[inline(always)]
fn pass(from: &mut Side, to: &mut Side) -> u32 {
    let mut space = to.link.output.reserve(from.link.input.available());
    let mut passed = 0;
    for entry in from.link.input.drain(space.left()) {
        if space.push(entry).is_err() {
            break;
        }
        passed += 1;
    }
    passed
}

struct PassThrough {
    /// Frames come from here.
    device: Side,
    /// Buffers come from here.
    client: Side,
}

impl Component for PassThrough {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let mut this = Self::new(&connections.net);
        this.run();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl PassThrough {
    fn new(connection: &Connection) -> Self {
        Self {
            device: Side::new(Link::new(connection.device_free, connection.device_filled, connection.device_channel)),
            client: Side::new(Link::new(connection.client_filled, connection.client_free, connection.client_channel)),
        }
    }

    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.round());
    }

    /// Passes everything on both ways.
    #[inline(always)]
    fn round(&mut self) -> Progress {
        if self.client.begin() {
            self.device.start_over();
        }
        if self.device.begin() {
            self.client.start_over();
        }
        let buffers = pass(&mut self.client, &mut self.device);
        let frames = pass(&mut self.device, &mut self.client);
        counters::ENTRIES.add(u64::from(buffers + frames));
        self.client.link.publish();
        self.device.link.publish();
        self.sleep()
    }

    /// Asks to be woken for what can be passed on, or for space where that is what lacks.
    #[inline(always)]
    fn sleep(&mut self) -> Progress {
        let (device, client) = (&mut self.device.link, &mut self.client.link);
        if !(device.is_live() & client.is_live()) {
            return sleep_apart(device, client);
        }
        let frames = if device.input.available() > 0 { client.sleep_for_space(1) } else { device.sleep() };
        // Buffers that come back can wait for the next frames, as long as there are few of them.
        let few = client.input.capacity() / 16;
        let buffers = if client.input.available() > 0 { device.sleep_for_space(1) } else { client.sleep_until(few) };
        frames & buffers
    }
}

/// Asks to be woken when both sides are there: what the one sends waits until then.
#[cold]
fn sleep_apart(device: &mut Link<Descriptor>, client: &mut Link<Descriptor>) -> Progress {
    let sleep = |link: &mut Link<Descriptor>| if link.is_live() { Progress::Asleep } else { link.sleep() };
    sleep(device) & sleep(client)
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
                self.passing.run();
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
            world.passing.run();
            assert_eq!(world.client.take(), [frame]);
            let buffer = Descriptor::empty(frame.offset);
            world.client.send(&[buffer]);
            world.passing.run();
            assert_eq!(world.virtualiser.take(), [buffer]);
        }
    }

    /// Two in a row: who starts over with the one starts over with the other.
    #[test]
    fn a_restart_reaches_whoever_comes_next() {
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
        };
        let mut first = PassThrough::new(&connection(0, [0, 1]));
        let mut second = PassThrough::new(&connection(2, [2, 3]));
        let mut virtualiser = Peer::<Descriptor>::new(rings[1], rings[0]);
        let mut client = Peer::<Descriptor>::new(rings[4], rings[5]);
        for _ in 0..4 {
            first.run();
            second.run();
            let _ = (virtualiser.take(), client.take());
        }
        let _ = culm::testing::signalled();
        let renewals = virtualiser.renewals;
        client = Peer::<Descriptor>::new(rings[4], rings[5]);
        second.run();
        let _ = client.take();
        second.run();
        assert!(culm::testing::signalled().contains(&2));
        for _ in 0..4 {
            first.run();
            second.run();
            let _ = (virtualiser.take(), client.take());
        }
        assert_eq!((virtualiser.renewals, client.renewals), (renewals + 1, 1));
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
        world.passing.run();
        assert_eq!(world.client.take(), [frame]);
    }
}
