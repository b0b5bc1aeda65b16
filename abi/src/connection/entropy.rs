//! The entropy class. Entries of its rings are words of random bits.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Entropy class, provider: a driver of a source of random bits, which serves each client itself.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 80, name = "entropy-provider", class = "entropy", role = Provider)]
#[repr(C)]
pub struct EntropyProvider<F: Form = Start> {
    /// Who is given random bits.
    pub clients: F::List<EntropyProviderClient<F>>,
}

/// One client of an [`EntropyProvider`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct EntropyProviderClient<F: Form = Start> {
    /// Words for this client alone.
    pub words: F::Ring,
    /// Channel to the client.
    pub channel: F::Channel,
}

/// Entropy class, client.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 81, name = "entropy-client", class = "entropy", role = Client)]
#[repr(C)]
pub struct EntropyClient<F: Form = Start> {
    /// Words that nobody else is given.
    pub words: F::Ring,
    /// Channel to the provider.
    pub channel: F::Channel,
}

/// Entries of a client's ring: one seed ([`crate::start::SEED_WORDS`]).
pub const ENTROPY_WORDS: u32 = crate::start::SEED_WORDS as u32;

const _: () = assert!(ENTROPY_WORDS.is_power_of_two());
