//! A test that is under way: how far it is, when it is too slow, and why it ends early.

use crate::parameters::{Parameters, Transport};
use crate::protocol::{COOKIE, LONGEST, Refusal};
use core::fmt;
use core::net::IpAddr;
use culm::time::{Duration, Instant};

/// How long each step of a client's may take, but for the test itself.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How long nothing may move during a test.
pub const SILENCE: Duration = Duration::from_secs(60);

/// How long after its time a test may be ended by its client.
const GRACE: Duration = Duration::from_secs(60);

/// How far a test is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The client is to say its parameters.
    Parameters,
    /// It is to connect its streams.
    Streams,
    /// Bytes go.
    Running,
    /// It is to say its results, of which so many bytes are left once that is known.
    Results(Option<u32>),
    /// It is told the server's, so many bytes so far.
    Telling(usize),
}

/// The test that is under way.
pub struct Test {
    pub slot: usize,
    pub cookie: [u8; COOKIE],
    pub peer: IpAddr,
    pub stage: Stage,
    pub parameters: Parameters,
    /// When it began, and when what counts began.
    pub begun: Instant,
    pub counts_from: Instant,
    pub has_omitted: bool,
    /// When something moved last.
    pub moved: Instant,
}

impl Test {
    /// Returns when it is too slow.
    pub fn limit(&self) -> Instant {
        if self.stage != Stage::Running {
            return self.moved + PATIENCE;
        }
        let seconds = if self.parameters.seconds == 0 { LONGEST } else { self.parameters.seconds };
        let all = Duration::from_secs(seconds + self.parameters.omit) + GRACE;
        // A client that gets datagrams says nothing until the end. Where it is gone, its control
        // connection ends (`QUESTIONS`).
        let is_silent = self.parameters.transport == Transport::Udp && self.parameters.from_client == 0;
        let moves = if is_silent { Instant::NEVER } else { self.moved + SILENCE };
        (self.begun + all).min(moves)
    }

    /// Returns whether bytes go, or have gone.
    pub fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::Parameters | Stage::Streams)
    }
}

/// Why a test ends early.
pub enum Trouble {
    Lost,
    Slow,
    Nonsense,
    Terminated,
    Refused(Refusal),
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => formatter.write_str("a connection is lost"),
            Self::Slow => formatter.write_str("the client takes too long"),
            Self::Nonsense => formatter.write_str("the client says something else than iperf3's would"),
            Self::Terminated => formatter.write_str("the client has ended it"),
            Self::Refused(refusal) => match refusal {
                Refusal::Duration => write!(formatter, "it is to take longer than {LONGEST} s"),
                Refusal::Omit => write!(formatter, "more than {LONGEST} s are to be omitted"),
                Refusal::Streams => formatter.write_str("it has more streams than the description gives (`streams`)"),
                Refusal::Protocol => formatter.write_str("it is neither of TCP nor of UDP"),
                Refusal::Unreadable => formatter.write_str("its parameters cannot be read"),
            },
        }
    }
}
