//! What is known of a flow: its two directions, its state, and for how long that is believed.

use crate::sources::Kind;
use crate::tuple::{ICMP, ICMP6, TCP, Tuple};
use core::net::IpAddr;

/// Direction of a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// That of the packet with which the flow began.
    Original,
    /// The other.
    Reply,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Original, Self::Reply];

    /// Returns the other direction.
    pub fn reversed(self) -> Self {
        match self {
            Self::Original => Self::Reply,
            Self::Reply => Self::Original,
        }
    }
}

/// State of a flow. The numbers are those that stand in memory which outlives a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// TCP: a SYN, and no answer.
    SynSent = 1,
    /// TCP: SYNs of both, of which one is not acknowledged.
    SynReceived = 2,
    /// TCP: the connection is open.
    Established = 3,
    /// TCP: one side has sent all, or both and not all of it is acknowledged.
    Closing = 4,
    /// TCP: both have sent all and know it, or one has reset the connection.
    Closed = 5,
    /// Another protocol: nothing has come back.
    OneWay = 6,
    /// Another protocol: packets of both directions.
    BothWays = 7,
}

impl State {
    const ALL: [Self; 7] = [
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::Closing,
        Self::Closed,
        Self::OneWay,
        Self::BothWays,
    ];

    /// Returns the state of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }

    /// Returns whether flows of a protocol can be in this state.
    pub fn is_of(self, protocol: u8) -> bool {
        matches!(self, Self::OneWay | Self::BothWays) != (protocol == TCP)
    }

    /// Returns who pays with this flow if there is no more room.
    pub fn kind(self) -> Kind {
        match self {
            Self::Established | Self::Closing | Self::BothWays => Kind::Lasting,
            Self::SynSent | Self::SynReceived | Self::Closed | Self::OneWay => Kind::Tentative,
        }
    }
}

/// Classes of flows that are believed for the same time each.
pub const CLASSES: usize = State::ALL.len() + 2;

/// Returns the class of a flow: its state's, or one of the two of ICMP.
pub fn class(state: State, protocol: u8) -> usize {
    let class = state as usize - 1;
    match (state, protocol) {
        (State::OneWay | State::BothWays, ICMP | ICMP6) => class + 2,
        _ => class,
    }
}

/// For how long a flow is believed without packets, in milliseconds.
///
/// A flow is dropped after this time at the earliest, and a sixteenth of it later at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP that is not open yet.
    pub opening: u64,
    /// TCP that is open, or closed by one side.
    pub established: u64,
    /// TCP that is closed.
    pub closed: u64,
    /// UDP and other protocols, as long as nothing has come back.
    pub one_way: u64,
    /// UDP and other protocols, with packets of both directions.
    pub both_ways: u64,
    /// ICMP echoes.
    pub echo: u64,
}

impl Default for Timeouts {
    /// What the standards require or recommend.
    fn default() -> Self {
        const MINUTE: u64 = 60_000;
        Self {
            // RFC 5382 REQ-5: 4 minutes at least while it opens or closes, 2 hours and 4 minutes
            // at least while it is open. RFC 7857 §2.2: 4 minutes after a RST.
            opening: 4 * MINUTE,
            established: 124 * MINUTE,
            closed: 4 * MINUTE,
            // RFC 4787 REQ-5: 2 minutes at least, 5 recommended.
            one_way: 2 * MINUTE,
            both_ways: 5 * MINUTE,
            // RFC 5508 REQ-2: 60 seconds at least.
            echo: MINUTE,
        }
    }
}

impl Timeouts {
    /// Returns the timeouts by class.
    pub(crate) fn by_class(&self) -> [u64; CLASSES] {
        let Self { opening, established, closed, one_way, both_ways, echo } = *self;
        [opening, opening, established, established, closed, one_way, both_ways, echo, echo]
    }
}

/// A flow, as somebody who looks at the table sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Packets with which it began, as they come in.
    pub original: Tuple,
    /// Packets that answer, as they come in. Without translation this is the original, reversed.
    pub reply: Tuple,
    /// Its state.
    pub state: State,
    /// What whoever admitted the flow wanted to remember of that.
    pub tag: u64,
    /// When it was used, in milliseconds; up to a sixteenth of its timeout before its last packet.
    pub used: u64,
    /// Packets, in original and reply direction.
    pub packets: [u64; 2],
    /// Bytes of those packets.
    pub bytes: [u64; 2],
}

impl Flow {
    /// Returns the tuple with which packets of a direction come in.
    pub fn tuple(&self, direction: Direction) -> Tuple {
        match direction {
            Direction::Original => self.original,
            Direction::Reply => self.reply,
        }
    }

    /// Returns the tuple with which packets of a direction leave.
    pub fn onward(&self, direction: Direction) -> Tuple {
        self.tuple(direction.reversed()).reversed()
    }

    /// Returns what becomes of an ICMP error of `from` that travels in `direction`, about a packet
    /// of the other one: the tuple of the packet that it quotes, its source and its destination,
    /// for [`crate::rewrite::translate_error`].
    ///
    /// If the flow's end on the error's side is seen elsewhere by the other end, the error comes
    /// from there: its own source may be one that nobody outside can know (RFC 5508 REQ-5 c).
    pub fn error_onward(&self, direction: Direction, from: IpAddr) -> (Tuple, IpAddr, IpAddr) {
        let (quoted, onward) = (self.tuple(direction.reversed()), self.onward(direction));
        let source = if onward.source == self.tuple(direction).source { from } else { onward.source };
        (quoted, source, onward.destination)
    }
}
