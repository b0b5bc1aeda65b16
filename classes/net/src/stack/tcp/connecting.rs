//! Connections that this side opens.
//!
//! Their SYNs go the way of any packet to a new peer, by a neighbour that may have to be asked for
//! first. The station that brings the peer's answer is the one that everything else goes to, as it
//! is for a connection that the peer opens.

use super::opening::settings;
use super::{Tcp, Times};
use crate::client::Transmitter;
use crate::stack::classify::Key;
use crate::stack::frame::{Link, Route};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::ops::RangeInclusive;
use culm::time::Instant;
use culm_tcp::{Sequence, Settings};

/// Ports that connections are opened from (RFC 6335, §6).
const PORTS: RangeInclusive<u16> = 49_152..=65_535;

/// No station: the peer's is not known yet.
const NOBODY: Link = [0; 6];

/// Why a connection cannot be opened now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// This station has no address from which the peer could be reached, or the peer's is not that
    /// of one station, or the port is 0.
    Unreachable,
    /// All places for connections are taken, and none of them makes way.
    Crowded,
}

impl fmt::Display for Unopened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unreachable => "there is no way to the peer from the addresses of this station",
            Self::Crowded => "all places for connections are taken",
        })
    }
}

impl core::error::Error for Unopened {}

impl Tcp {
    /// Opens a connection from `local` to `remote`, and returns its slot.
    pub(in crate::stack) fn connect(
        &mut self,
        local: IpAddr,
        remote: SocketAddr,
        transmitter: &mut Transmitter,
        times: Times,
    ) -> Result<usize, Unopened> {
        let index = self.place(transmitter, times).ok_or(Unopened::Crowded)?;
        let (port, key) = self.free_port(local, remote, times.now).ok_or(Unopened::Crowded)?;
        let route = Route::new(&self.station, NOBODY, &key, remote.is_ipv4());
        let hash = self.table.hash(&key);
        let initial = Sequence::initial(times.tcp, self.cookies.number(hash));
        let settings = settings(port, remote.port(), self.windows);
        let (segment, usual_segment) = (route.segment(), route.usual_segment());
        let settings = Settings { initial, segment, usual_segment, stamp_offset: self.stamp_offset, ..settings };
        self.table.occupy(index, key, hash);
        let slot = &mut self.table[index];
        slot.connection.reopen(settings, times.tcp);
        slot.connection.keep_up_to(self.windows[0]);
        slot.begin(route, port, false, times.now);
        self.mark_dirty(index);
        Ok(index)
    }

    /// Returns a port from which no connection to `remote` is known, and the key of one. Where it
    /// is looked for first, nobody else can tell, and differs from peer to peer (RFC 6056, §3.3.3).
    fn free_port(&mut self, local: IpAddr, remote: SocketAddr, now: Instant) -> Option<(u16, Key)> {
        let count = u32::from(PORTS.end() - PORTS.start()) + 1;
        let key = |port| Key::new((remote.ip(), remote.port()), (local, port));
        let first = self.cookies.number(self.table.hash(&key(0))).wrapping_add(self.connects);
        self.connects = self.connects.wrapping_add(1);
        // There are fewer places than ports.
        (0..count).find_map(|more| {
            let port = PORTS.start() + (first.wrapping_add(more) % count) as u16;
            let key = key(port);
            let hash = self.table.hash(&key);
            let is_known = self.table.find(&key, hash).is_some() || self.time_waits.find(hash, now).is_some();
            (!is_known).then_some((port, key))
        })
    }
}
