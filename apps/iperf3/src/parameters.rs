//! The parameters of a test, as a client asks for it.

use crate::json::{self, Value};
use crate::protocol::{LONGEST, Refusal};

/// What carries the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    Tcp,
    Udp,
}

/// The parameters of a test. Those that only the client needs to know are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    pub transport: Transport,
    /// Streams from the client, which come first, and to it.
    pub from_client: usize,
    pub to_client: usize,
    /// How long it takes, in seconds; 0 if bytes are counted instead.
    pub seconds: u64,
    /// Seconds at the beginning that do not count.
    pub omit: u64,
    /// Bytes of a datagram.
    pub length: usize,
    /// Bits a second that a stream to the client has at most; 0 if there is no limit.
    pub rate: u64,
    /// Whether datagrams have numbers of eight bytes.
    pub has_wide_numbers: bool,
}

/// Streams and datagrams, where the client does not say.
const STREAMS: u64 = 1;
const LENGTH: u64 = 1448;

impl Parameters {
    /// Reads them from a client's JSON.
    ///
    /// # Errors
    /// Where such a test cannot be, with `most` streams.
    pub fn read(text: &[u8], most: usize) -> Result<Self, Refusal> {
        let mut it = Self::default();
        let (mut streams, mut length) = (STREAMS, LENGTH);
        let (mut is_reverse, mut goes_both_ways, mut is_sctp, mut is_udp) = (false, false, false, false);
        let is_object = json::members(text, |name, value| match (name, value) {
            (b"parallel", Value::Number(number)) => streams = number,
            (b"time", Value::Number(number)) => it.seconds = number,
            (b"omit", Value::Number(number)) => it.omit = number,
            (b"len", Value::Number(number)) => length = number,
            (b"bandwidth", Value::Number(number)) => it.rate = number,
            (b"udp", Value::True) => is_udp = true,
            (b"sctp", Value::True) => is_sctp = true,
            (b"reverse", value) => is_reverse = is_set(value),
            (b"bidirectional", value) => goes_both_ways = is_set(value),
            (b"udp_counters_64bit", value) => it.has_wide_numbers = is_set(value),
            _ => {}
        });
        let streams = usize::try_from(streams).unwrap_or(usize::MAX);
        let ways = if goes_both_ways { 2 } else { 1 };
        if !is_object {
            return Err(Refusal::Unreadable);
        } else if is_sctp {
            return Err(Refusal::Protocol);
        } else if streams == 0 || streams > most / ways {
            return Err(Refusal::Streams);
        } else if it.seconds > LONGEST {
            return Err(Refusal::Duration);
        } else if it.omit > LONGEST {
            return Err(Refusal::Omit);
        }
        it.transport = if is_udp { Transport::Udp } else { Transport::Tcp };
        it.from_client = if is_reverse { 0 } else { streams };
        it.to_client = if is_reverse || goes_both_ways { streams } else { 0 };
        it.length = usize::try_from(length).unwrap_or(usize::MAX);
        Ok(it)
    }

    /// How many streams the test has.
    pub fn streams(&self) -> usize {
        self.from_client + self.to_client
    }
}

/// Clients say it by numbers or truth values.
fn is_set(value: Value) -> bool {
    matches!(value, Value::True | Value::Number(1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As iperf3 3.12 writes them.
    #[test]
    fn a_client_says_what_it_wants() {
        let text = br#"{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":4,"len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;
        let expected = Parameters { from_client: 4, seconds: 10, length: 131_072, ..Parameters::default() };
        assert_eq!(Parameters::read(text, 8), Ok(expected));
        let text = br#"{"udp":true,"omit":1,"time":3,"parallel":1,"reverse":true,"len":1448,"bandwidth":1048576,"udp_counters_64bit":1,"client_version":"3.12"}"#;
        let expected = Parameters {
            transport: Transport::Udp,
            to_client: 1,
            seconds: 3,
            omit: 1,
            length: 1448,
            rate: 1_048_576,
            has_wide_numbers: true,
            ..Parameters::default()
        };
        assert_eq!(Parameters::read(text, 8), Ok(expected));
        let both = Parameters::read(br#"{"tcp":true,"parallel":4,"bidirectional":true}"#, 8).expect("there are eight");
        assert_eq!((both.from_client, both.to_client, both.streams()), (4, 4, 8));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, refusal) in [
            ("", Refusal::Unreadable),
            ("{\"time\":1", Refusal::Unreadable),
            ("{\"sctp\":true}", Refusal::Protocol),
            ("{\"parallel\":0}", Refusal::Streams),
            ("{\"parallel\":9}", Refusal::Streams),
            ("{\"parallel\":5,\"bidirectional\":true}", Refusal::Streams),
            ("{\"parallel\":1e30}", Refusal::Streams),
            ("{\"time\":86401}", Refusal::Duration),
            ("{\"omit\":86401}", Refusal::Omit),
        ] {
            assert_eq!(Parameters::read(text.as_bytes(), 8), Err(refusal), "{text}");
        }
    }
}
