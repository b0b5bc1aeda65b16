//! The copier's end at any step of a turn, and what its client, a real one, has of what was
//! received.

use crate::copier::Copier;
use crate::tests::{BUFFERS, SIZE, World};
use culm::connection::{NetClient, NetCopier};
use culm::queue;
use culm_net::client::Client;
use culm_net::testing::{memory, ring};
use culm_net::{Descriptor, ETHERNET_HEADER};
use culm_queue::crash;

/// The client behind the copier of `connection`. Nobody takes what it sends.
fn client(connection: &NetCopier) -> Client {
    Client::new(NetClient {
        promiscuous: 0,
        mac: [2, 0, 0, 0, 0, 1],
        owns_rx: 1,
        linked: 0,
        rx_large: 0,
        tx_large: 0,
        buffer_size: SIZE,
        rx_buffer_size: SIZE,
        rx_filled: connection.client_filled,
        rx_free: connection.client_free,
        tx_filled: ring::<Descriptor>(16),
        tx_free: ring::<Descriptor>(16),
        rx_data: connection.client_data,
        tx_data: memory((BUFFERS * SIZE) as usize, 0),
        rx_channel: 2,
        tx_channel: 3,
    })
}

/// Returns what the client receives in a round in which it takes up to `most` frames: the first
/// byte of each.
fn receive(client: &mut Client, most: usize) -> Vec<u8> {
    client.begin();
    let frames = core::iter::from_fn(|| Some(client.receiver.receive()?.frame()[ETHERNET_HEADER])).take(most).collect();
    let _ = client.end_round();
    frames
}

/// Both take turns until they have found each other and nothing moves any more; what the client
/// receives meanwhile.
fn settle(world: &mut World, client: &mut Client) -> Vec<u8> {
    let mut frames = Vec::new();
    for _ in 0..6 {
        world.turn();
        let _ = world.virtualiser.take();
        frames.extend(receive(client, usize::MAX));
    }
    frames
}

/// How many frames copiers have ever passed on.
fn passed(world: &World) -> usize {
    queue::shared::<Descriptor>(world.connection.client_filled).depth().total as usize
}

/// A copier passes on some frames, and ends `steps` steps into the turn in which it passes on more;
/// of the former the client has taken `taken`. True: its life ended.
fn end_after(steps: u32, taken: usize) -> bool {
    let mut world = World::new();
    let mut client = client(&world.connection);
    assert!(settle(&mut world, &mut client).is_empty());
    let before = passed(&world);
    for number in 0..3 {
        world.pass(number, &[number as u8; 40]);
    }
    world.turn();
    let mut received = receive(&mut client, taken);
    assert_eq!(received.len(), taken);
    for number in 3..5 {
        world.pass(number, &[number as u8; 40]);
    }
    let ended = crash::outlive(&mut Some(steps), || world.turn()).is_none();
    let passed = (passed(&world) - before) as u8;
    world.copier = Copier::new(&world.connection);
    received.extend(settle(&mut world, &mut client));
    let expected: Vec<u8> = (0..passed).collect();
    assert_eq!(received, expected, "its life ended after {steps} steps, the client had taken {taken}");
    // And it goes on, with all buffers.
    for number in 0..BUFFERS {
        world.pass(number, &[100 + number as u8; 40]);
    }
    world.turn();
    assert_eq!(receive(&mut client, usize::MAX).len() as u32, BUFFERS);
    ended
}

#[test]
fn what_a_copier_has_passed_on_outlives_it() {
    for taken in [0, 1, 3] {
        let mut steps = 0;
        while end_after(steps, taken) {
            steps += 1;
        }
        assert!(steps > 3, "{steps} steps: its life ended at none worth speaking of");
    }
}

#[test]
fn what_a_copier_has_passed_on_outlives_several_lives() {
    let mut world = World::new();
    let mut client = client(&world.connection);
    assert!(settle(&mut world, &mut client).is_empty());
    for number in 0..3 {
        world.pass(number, &[number as u8; 40]);
    }
    world.turn();
    // The client takes one frame at a time, and each time there is another copier.
    let mut received = Vec::new();
    for _ in 0..3 {
        world.copier = Copier::new(&world.connection);
        world.turn();
        received.extend(receive(&mut client, 1));
    }
    assert_eq!(received, [0, 1, 2]);
    assert!(settle(&mut world, &mut client).is_empty());
    world.pass(4, b"again");
    assert_eq!(settle(&mut world, &mut client), b"a");
}
