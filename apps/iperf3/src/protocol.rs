//! The numbers of iperf3's protocol, as its version 3.12 has them.
//!
//! A test has a *control connection* and *streams*, which are TCP connections to the same port, or
//! datagrams of UDP. Each connection begins with the test's cookie. On the control connection the
//! server leads: it says the test's states, a byte each; parameters and results are JSON behind
//! four bytes that say how long it is (most significant first). The client says when a test ends.

/// Bytes of a cookie, its final zero included.
pub const COOKIE: usize = 37;

/// The longest test, in seconds.
pub const LONGEST: u64 = 86_400;

/// Bytes of a datagram's header: seconds, microseconds, and a number of four bytes or of eight.
pub const HEADER: usize = 12;
/// The same with the longer number.
pub const WIDE_HEADER: usize = 16;

/// What is said on the control connection.
pub mod state {
    /// All streams are there.
    pub const TEST_START: u8 = 1;
    /// The test's time begins.
    pub const TEST_RUNNING: u8 = 2;
    /// By the client: it is over.
    pub const TEST_END: u8 = 4;
    /// The parameters are awaited.
    pub const PARAM_EXCHANGE: u8 = 9;
    /// The streams are awaited.
    pub const CREATE_STREAMS: u8 = 10;
    /// The client's results are awaited, the server's follow.
    pub const EXCHANGE_RESULTS: u8 = 13;
    /// Nothing more follows.
    pub const DISPLAY_RESULTS: u8 = 14;
    /// Another test is under way (−1).
    pub const ACCESS_DENIED: u8 = 0xff;
    /// The test cannot be: a [`Refusal`](super::Refusal) follows, and four bytes of zero (−2).
    pub const SERVER_ERROR: u8 = 0xfe;
}

/// Why a test cannot be, by iperf3's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Refusal {
    /// It takes too long.
    Duration = 5,
    /// It has too many streams, or none.
    Streams = 6,
    /// What is omitted at its beginning takes too long.
    Omit = 12,
    /// It is neither of TCP nor of UDP.
    Protocol = 13,
    /// Its parameters cannot be read.
    Unreadable = 114,
}

impl Refusal {
    /// What is said of it.
    pub fn message(self) -> [u8; 9] {
        let mut message = [0; 9];
        message[0] = state::SERVER_ERROR;
        message[1..5].copy_from_slice(&(self as u32).to_be_bytes());
        message
    }
}

/// What the first datagram of a stream has (0x3637_3839, or in earlier versions 123,456,789), and
/// what answers it (0x3938_3736; 987,654,321). The client's byte order is the answer's.
const HELLO: u32 = 0x3637_3839;
const EARLIER_HELLO: u32 = 123_456_789;
const EARLIER_ANSWER: u32 = 987_654_321;

/// Returns the answer to a stream's first datagram; `None` if this is none.
pub fn answer(datagram: &[u8]) -> Option<[u8; 4]> {
    let hello: [u8; 4] = datagram.try_into().ok()?;
    if [HELLO.to_le_bytes(), HELLO.to_be_bytes()].contains(&hello) {
        // The one is the other in the opposite order.
        let [a, b, c, d] = hello;
        Some([d, c, b, a])
    } else if hello == EARLIER_HELLO.to_le_bytes() {
        Some(EARLIER_ANSWER.to_le_bytes())
    } else if hello == EARLIER_HELLO.to_be_bytes() {
        Some(EARLIER_ANSWER.to_be_bytes())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_datagrams_are_answered_in_their_order_of_bytes() {
        assert_eq!(answer(&0x3637_3839_u32.to_le_bytes()), Some(0x3938_3736_u32.to_le_bytes()));
        assert_eq!(answer(&0x3637_3839_u32.to_be_bytes()), Some(0x3938_3736_u32.to_be_bytes()));
        assert_eq!(answer(&123_456_789_u32.to_le_bytes()), Some(987_654_321_u32.to_le_bytes()));
        assert_eq!(answer(&123_456_789_u32.to_be_bytes()), Some(987_654_321_u32.to_be_bytes()));
        assert_eq!((answer(b"9876x"), answer(b"987"), answer(b"abcd")), (None, None, None));
    }

    #[test]
    fn a_refusal_has_its_number() {
        assert_eq!(Refusal::Unreadable.message(), [0xfe, 0, 0, 0, 114, 0, 0, 0, 0]);
    }
}
