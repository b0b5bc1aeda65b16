//! The entropy class: random bits from a device, for whoever must not be guessed.
//!
//! ```text
//!   driver ── words ──► client, a queue for each
//! ```
//!
//! A client's queue holds one seed. A client that starts takes it and adds it to its random numbers
//! ([`take_seed`]), and the driver puts another in its place ([`Clients::fill`]): so a client that
//! is restarted finds a fresh one, and no two lives begin with the same. No client sees another's,
//! and what it takes is gone from the queue when the next one is there.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

use alloc::vec::Vec;
use culm::connection::{EntropyClient, EntropyProvider};
use culm::queue::{self, Producer};
use culm::time::{self, Duration};
use culm::{Channel, Progress, random};
use culm_random::{Generator, SEED_WORDS, Seed};

/// How long a client that starts waits for a seed. The provider has a higher priority, so that it
/// runs meanwhile; a device that gives nothing must not keep its clients from starting for good.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Adds a seed from the provider to this component's random numbers; says in the log if there was
/// none within [`PATIENCE`]. Call it at the beginning of `init`: what is made before is not made of
/// it.
pub fn take_seed(connection: &EntropyClient) -> bool {
    let (mut words, provider) = (queue::consumer::<u64>(connection.words), Channel::new(connection.channel));
    if words.refresh() < words.capacity() {
        // A previous life may have taken the seed and not told the provider.
        provider.notify_now();
    }
    let mut seed = Seed::default();
    let deadline = time::now() + PATIENCE;
    for word in &mut seed {
        *word = loop {
            match words.pop() {
                Some(word) => break word,
                None if time::now() >= deadline => {
                    culm::warn!("the source of random numbers gives none: what this component makes up can be guessed");
                    return false;
                }
                None => core::hint::spin_loop(),
            }
        };
    }
    // Release before use: a life that ends in between leaves no seed that the next would use again.
    if words.release().is_asleep() {
        provider.notify();
    }
    random::add(seed);
    true
}

/// The clients of a provider.
#[derive(Debug)]
pub struct Clients {
    clients: Vec<Producer<u64>>,
}

impl Clients {
    /// Takes up the queues to all clients.
    pub fn new(connection: &EntropyProvider) -> Self {
        let clients = culm::start::list::<culm::connection::EntropyProviderClient>(connection.clients);
        Self { clients: clients.iter().map(|client| queue::producer(client.words)).collect() }
    }

    /// Puts a seed of its own into each queue that is empty; returns how many there were.
    pub fn fill(&mut self, generator: &mut Generator) -> u64 {
        let mut given = 0;
        for words in &mut self.clients {
            words.refresh();
            if words.free() == words.capacity() {
                words.push_slice(&generator.words::<{ SEED_WORDS }>());
                // A client that waits looks by itself.
                let _ = words.publish();
                given += 1;
            }
        }
        given
    }

    /// Asks to be notified when a client takes its seed, unless one has.
    pub fn sleep(&mut self) -> Progress {
        let mut progress = Progress::Asleep;
        for words in &mut self.clients {
            progress &= words.sleep_until(words.capacity());
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;
    use culm::connection::Ring;

    fn ring() -> Ring {
        // The header of a ring is less than a page.
        Ring { address: culm::testing::memory(4096, 0).address, capacity: 4, reserved: 0 }
    }

    fn provider(rings: &[Ring]) -> Clients {
        Clients { clients: rings.iter().map(|ring| queue::producer(*ring)).collect() }
    }

    fn client(words: Ring) -> EntropyClient {
        EntropyClient { words, channel: 3 }
    }

    #[test]
    fn each_client_and_each_life_of_it_begins_with_another_seed() {
        let rings = [ring(), ring()];
        let (mut clients, mut generator) = (provider(&rings), Generator::new([1, 2, 3, 4]));
        let mut seen = std::collections::BTreeSet::new();
        assert_eq!(clients.fill(&mut generator), 2);
        assert!(clients.sleep().is_asleep());
        for life in 0..3 {
            for ring in rings {
                culm::testing::set_seed([0; 4]);
                assert!(take_seed(&client(ring)));
                assert!(culm::testing::signalled().contains(&3), "the provider hears of it");
                assert!(seen.insert(random::words::<2>().expect("there is a seed")), "in life {life}");
            }
            assert!(clients.sleep().is_more());
            assert_eq!(clients.fill(&mut generator), 2);
        }
    }

    /// A seed of the machine's is kept, and what the device gives is added to it.
    #[test]
    fn a_seed_is_added_to_what_is_there() {
        let with = |machine: u64, device: u64| {
            let ring = ring();
            let (mut clients, mut generator) = (provider(&[ring]), Generator::new([device; 4]));
            clients.fill(&mut generator);
            culm::testing::set_seed([machine; 4]);
            assert!(take_seed(&client(ring)));
            random::words::<2>()
        };
        assert_ne!(with(1, 1), with(2, 1));
        assert_ne!(with(1, 1), with(1, 2));
        assert_eq!(with(0, 1), with(0, 1));
        assert!(with(0, 1).is_some());
    }

    /// The client writes an index that cannot be, and leaves it there.
    #[test]
    fn a_client_that_lies_once_gets_no_seeds_without_end() {
        let ring = ring();
        let (mut clients, mut generator) = (provider(&[ring]), Generator::new([1; 4]));
        clients.fill(&mut generator);
        assert!(clients.sleep().is_asleep());
        let mut header = culm::testing::memory(128, 0);
        header.address = ring.address;
        // The consumer's word stands on the second cache line of the ring's header.
        culm::Region::new(header).atomic_u64(64).expect("inside").fetch_add(1 << 30, Ordering::Relaxed);
        clients.fill(&mut generator);
        assert!(clients.sleep().is_asleep());
        assert_eq!(clients.fill(&mut generator), 0);
        // Its next life is honest, and finds nothing before the provider has had its turn.
        let _ = queue::consumer::<u64>(ring);
        assert_eq!(clients.fill(&mut generator), 1);
        assert!(take_seed(&client(ring)));
    }

    #[test]
    fn a_provider_can_start_over() {
        let ring = ring();
        let mut generator = Generator::new([1; 4]);
        assert_eq!(provider(&[ring]).fill(&mut generator), 1);
        provider(&[ring]).fill(&mut generator);
        assert!(take_seed(&client(ring)));
        assert_eq!(provider(&[ring]).fill(&mut generator), 1);
        assert!(take_seed(&client(ring)));
    }
}
