//! No names: what stands in the place of [`super::names`] without the feature of that name, and
//! costs nothing.

use super::Stack;
use super::stream::Event;
use core::net::IpAddr;
use culm::time::Instant;
use culm_ip::dhcp::Lease;

/// Nothing is known of names.
pub(super) struct Names;

impl Stack {
    pub(super) fn poll_names(&mut self, _: Instant) {}
}

impl Names {
    pub(super) fn new(_: [u64; 4]) -> Self {
        Self
    }

    pub(super) fn awaits(&self, _: u16) -> bool {
        false
    }

    pub(super) fn receive(&mut self, _: IpAddr, _: IpAddr, _: &[u8], _: culm_ip::Instant) {}

    pub(super) fn take_servers(&mut self, _: Option<&Lease>, _: impl Iterator<Item = IpAddr>) {}

    #[inline(always)]
    pub(super) fn pass(&mut self, event: Event) -> Option<Event> {
        Some(event)
    }

    pub(super) fn lose(&mut self, _: usize) {}

    pub(super) fn has_found(&self) -> bool {
        false
    }

    pub(super) fn deadline(&self) -> culm_ip::Instant {
        culm_ip::Instant::NEVER
    }
}
