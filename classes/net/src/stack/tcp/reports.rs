//! What others say of connections, and connections of others: packets that did not arrive,
//! addresses that are lost, peers that were heard.

use super::{Tcp, Times};
use crate::stack::classify::Key;
use crate::stack::frame::Link;
use crate::stack::table::Phase;
use crate::wire::{ipv4, ipv6, protocols, tcp};
use core::net::IpAddr;
use culm::time::{Duration, Instant};
use culm_ip::Cidr;
use culm_ip::icmp::Quoted;
use culm_tcp::Sequence;

/// For how long it counts that a peer has taken something: as long as a neighbour that is used has
/// for being confirmed (RFC 4861 §10, `DELAY_FIRST_PROBE_TIME`).
const LATELY: Duration = Duration::from_secs(5);

impl Tcp {
    /// Finds the connection that a quoted packet claims to be of.
    #[cold]
    #[inline(never)]
    fn find_quoted(&self, quoted: &Quoted) -> Option<usize> {
        let (local, remote) = quoted.ports();
        let key = Key::new((quoted.destination, remote), (quoted.source, local));
        self.table.find(&key, self.table.hash(&key)).filter(|_| quoted.protocol == protocols::TCP)
    }

    /// Takes the message that a packet of TCP's was too big, for a path that carries `limit` bytes.
    /// Returns whether the connection whose it is said to be has sent it, and sends less from now
    /// on.
    #[cold]
    pub(in crate::stack) fn too_big(&mut self, quoted: &Quoted, limit: u16, times: Times) -> bool {
        let header = if quoted.source.is_ipv4() { ipv4::HEADER } else { ipv6::HEADER } + tcp::HEADER;
        let Some(index) = self.find_quoted(quoted) else { return false };
        let segment = limit.saturating_sub(header as u16);
        let is_believed = self.table[index].connection.too_big(Sequence(quoted.sequence()), segment, times.tcp);
        if is_believed {
            self.mark_dirty(index);
        }
        is_believed
    }

    /// Takes the message that a packet of TCP's did not arrive. The connection whose it is said to
    /// be decides what it is worth.
    #[cold]
    pub(in crate::stack) fn undelivered(&mut self, quoted: &Quoted, is_final: bool, times: Times) {
        let Some(index) = self.find_quoted(quoted) else { return };
        let slot = &mut self.table[index];
        if slot.undelivered(Sequence(quoted.sequence()), is_final, times.tcp) {
            self.mark_dirty(index);
            self.queue_event(index);
        }
    }

    /// Tells of the peers that have taken something lately, and by which stations.
    #[cold]
    pub(in crate::stack) fn tell_heard(&self, now: Instant, mut tell: impl FnMut(IpAddr, Link)) {
        for slot in (0..self.table.len()).filter_map(|index| self.table.get(index)) {
            if slot.phase() != Phase::Free && now < slot.confirmed + LATELY {
                tell(slot.remote().ip(), slot.route.link());
            }
        }
    }

    /// Ends connections that are from none of these addresses: nothing that is sent to them
    /// arrives here any more.
    #[cold]
    pub(in crate::stack) fn keep_to(&mut self, addresses: &[Cidr]) {
        for index in 0..self.table.len() {
            let slot = &mut self.table[index];
            let (_, local) = slot.key.addresses(slot.route.is_version_4());
            if slot.phase() == Phase::Free || addresses.iter().any(|own| own.address() == local) {
                continue;
            }
            slot.lose_address();
            if slot.is_open() {
                self.queue_event(index);
            } else {
                self.free(index);
            }
        }
    }
}
