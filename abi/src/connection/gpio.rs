//! The gpio class: input lines of a chip, such as a power button's.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Gpio class, provider: a driver of a chip of lines, which tells each client of one.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 112, name = "gpio-provider", class = "gpio", role = Provider)]
#[repr(C)]
pub struct GpioProvider<F: Form = Start> {
    /// Who watches a line.
    pub clients: F::List<GpioProviderClient<F>>,
}

/// One client of a [`GpioProvider`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct GpioProviderClient<F: Form = Start> {
    /// The page that the client reads; its layout is `culm_gpio`'s.
    pub shown: F::Memory,
    /// Number of the chip's line.
    pub line: u32,
    /// Channel to the client.
    pub channel: F::Channel,
    /// Whether the line is active where it is low.
    pub active_low: F::Flag,
}

/// Gpio class, client: who watches one line.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 113, name = "gpio-client", class = "gpio", role = Client)]
#[repr(C)]
pub struct GpioClient<F: Form = Start> {
    /// The page in which the provider shows the line; mapped read-only.
    pub shown: F::Memory,
    /// Channel to the provider.
    pub channel: F::Channel,
}
