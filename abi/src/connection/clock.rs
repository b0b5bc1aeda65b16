//! The clock class: time of day.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Clock class, provider: whoever knows the time of day and shows it.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 64, name = "clock-provider", class = "clock", role = Provider)]
#[repr(C)]
pub struct ClockProvider<F: Form = Start> {
    /// The page that clients read; its layout is `culm_clock`'s.
    pub shown: F::Memory,
}

/// Clock class, client.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 65, name = "clock-client", class = "clock", role = Client)]
#[repr(C)]
pub struct ClockClient<F: Form = Start> {
    /// The page that the provider shows; mapped read-only.
    pub shown: F::Memory,
}
