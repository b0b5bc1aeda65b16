//! What the server tells of a test, as JSON.

use crate::flow::{Flow, Peer};
use core::fmt;

/// Bytes that the results take at most: of a test, and of each of its streams.
pub const HEAD: usize = 256;
pub const EACH: usize = 384;

/// The results of a test.
pub struct Results<'a> {
    pub flows: &'a [Flow],
    /// How long what counts took, in milliseconds.
    pub milliseconds: u64,
    /// How much of that the processors were busy, in hundredths of a per cent; `None` if it is not
    /// known.
    pub busy: Option<u64>,
}

/// The number by which a client knows the stream in a place: iperf3 counts 1, 3, 4, 5 and so on.
fn id(index: usize) -> usize {
    if index == 0 { 1 } else { index + 2 }
}

/// A number with so many digits behind the point.
struct Decimal(u64, usize);

impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, digits) = *self;
        let unit = 10_u64.pow(digits as u32);
        write!(formatter, "{}.{:0digits$}", value / unit, value % unit)
    }
}

impl fmt::Display for Results<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let busy = Decimal(self.busy.unwrap_or(0), 2);
        // −1 says that the server has sent nothing; 0, that it does not count what it sends again.
        let retransmits = if self.flows.iter().any(|flow| flow.sends) { 0 } else { -1 };
        write!(
            formatter,
            "{{\"cpu_util_total\":{busy},\"cpu_util_user\":{busy},\"cpu_util_system\":0,\
             \"sender_has_retransmits\":{retransmits},\"congestion_used\":\"cubic\",\"streams\":["
        )?;
        for (index, flow) in self.flows.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(
                formatter,
                "{comma}{{\"id\":{},\"bytes\":{},\"retransmits\":-1,\"jitter\":{},\"errors\":{},\"omitted_errors\":{},\
                 \"packets\":{},\"omitted_packets\":{},\"start_time\":0,\"end_time\":{}}}",
                id(index),
                flow.bytes,
                Decimal(flow.jitter(), 6),
                flow.lost,
                flow.omitted_lost,
                flow.packets,
                flow.omitted_packets,
                Decimal(self.milliseconds, 3),
            )?;
        }
        formatter.write_str("]}")
    }
}

impl Results<'_> {
    /// Bytes that counted, from the client and to it.
    pub fn bytes(&self) -> (u64, u64) {
        self.flows.iter().fold((0, 0), |(from, to), flow| match flow.sends {
            true => (from, to + flow.bytes),
            false => (from + flow.bytes, to),
        })
    }
}

/// What the log says of them.
pub struct Summary<'a>(pub &'a Results<'a>);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Results { flows, milliseconds, .. } = *self.0;
        let (from, to) = self.0.bytes();
        let rate = |bytes: u64| bytes.saturating_mul(8) / 1000 / milliseconds.max(1);
        let (count, seconds) = (flows.len(), Decimal(milliseconds, 3));
        let is_udp = matches!(flows.first(), Some(Flow { peer: Peer::Udp(_), .. }));
        let protocol = if is_udp { "UDP" } else { "TCP" };
        let plural = if count == 1 { "" } else { "s" };
        let (from, to) = (rate(from), rate(to));
        write!(formatter, "{count} stream{plural} of {protocol} in {seconds} s: {from} Mbit/s in, {to} Mbit/s out")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_client_finds_what_it_looks_for() {
        let mut flows = [Flow::new(Peer::Tcp(1), false); 3];
        flows[0].count(1_250_000);
        flows[2].sends = true;
        flows[2].count(5);
        let results = Results { flows: &flows, milliseconds: 2034, busy: Some(1234) };
        let text = results.to_string();
        let read: Value = serde_json::from_str(&text).expect("it is JSON");
        assert_eq!((&read["cpu_util_total"], &read["sender_has_retransmits"]), (&json!(12.34), &json!(0)));
        let streams = read["streams"].as_array().expect("there are some");
        let ids: Vec<_> = streams.iter().map(|stream| stream["id"].as_u64()).collect();
        assert_eq!(ids, [Some(1), Some(3), Some(4)]);
        assert_eq!((&streams[0]["bytes"], &streams[0]["end_time"]), (&json!(1_250_000), &json!(2.034)));
        for member in ["retransmits", "jitter", "errors", "packets"] {
            assert!(streams[2][member].is_number(), "{member}");
        }
        assert_eq!(Summary(&results).to_string(), "3 streams of TCP in 2.034 s: 4 Mbit/s in, 0 Mbit/s out");
        let idle = Results { flows: &flows[..1], milliseconds: 0, busy: None };
        assert_eq!(serde_json::from_str::<Value>(&idle.to_string()).expect("JSON")["sender_has_retransmits"], -1);
    }

    #[test]
    fn they_take_no_more_bytes_than_there_is_space_for() {
        let mut flow = Flow::new(Peer::Tcp(1), false);
        for _ in 0..2 {
            flow.take(&[255; 1000], true, 0);
            (flow.bytes, flow.lost) = (u64::MAX, u64::MAX);
            (flow.omitted_packets, flow.omitted_lost) = (u64::MAX, u64::MAX);
            flow.bytes = 0;
        }
        flow.bytes = u64::MAX;
        let flows = [flow; 40];
        let text = Results { flows: &flows, milliseconds: u64::MAX, busy: Some(u64::MAX) }.to_string();
        assert!(text.len() <= HEAD + EACH * flows.len(), "{}", text.len());
    }
}
