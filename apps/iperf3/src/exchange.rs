//! What is read from connections and written to them.

use crate::counters;
use crate::flow::Flow;
use crate::parameters::Parameters;
use crate::progress::Trouble;
use crate::protocol::Refusal;
use alloc::vec::Vec;
use core::fmt;
use culm_net::stack::Stream;

/// The most bytes of a client's parameters.
pub const PARAMETERS: usize = 4096;

/// The most bytes of a client's results, which are not looked at.
const CLIENT_RESULTS: u32 = 1 << 20;

/// Bytes of a stream that are sent and not yet acknowledged.
const AHEAD: usize = 512 * 1024;

/// The bytes that are sent again and again.
static CONTENT: [u8; 64 * 1024] = [b'c'; 64 * 1024];

/// Takes what is said next of states.
pub fn take_byte(stream: &mut Stream<'_>) -> Option<u8> {
    let byte = stream.received().first().copied();
    stream.consume(usize::from(byte.is_some()));
    byte
}

/// Reads how long what follows is.
fn length(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_be_bytes)
}

/// Reads the client's parameters, once they are there.
pub fn read_parameters(stream: &mut Stream<'_>, text: &mut [u8], most: usize) -> Result<Option<Parameters>, Trouble> {
    let count = stream.copy_received(text);
    let Some(length) = length(&text[..count]) else { return Ok(None) };
    let whole = 4 + length as usize;
    if whole > text.len() {
        return Err(Trouble::Refused(Refusal::Unreadable));
    }
    let Some(text) = text[..count].get(4..whole) else { return Ok(None) };
    stream.consume(whole);
    Parameters::read(text, most).map(Some).map_err(Trouble::Refused)
}

/// Passes over the client's results, of which `left` bytes are left, if that is known. Returns how
/// many are left.
pub fn pass_results(stream: &mut Stream<'_>, left: Option<u32>) -> Result<Option<u32>, Trouble> {
    let left = match left {
        Some(left) => left,
        None => {
            let mut head = [0; 4];
            let count = stream.copy_received(&mut head);
            let Some(length) = length(&head[..count]) else { return Ok(None) };
            stream.consume(4);
            length
        }
    };
    if left > CLIENT_RESULTS {
        return Err(Trouble::Nonsense);
    }
    let count = stream.received_count().min(left as usize);
    stream.consume(count);
    Ok(Some(left - count as u32))
}

/// Hands over what a stream may send.
pub fn fill(stream: &mut Stream<'_>, flow: &mut Flow, rate: u64, elapsed: u64) {
    let mut allowed = flow.allowance(rate, elapsed);
    while allowed > 0 && stream.unacknowledged() < AHEAD {
        let length = usize::try_from(allowed).unwrap_or(usize::MAX).min(CONTENT.len());
        let sent = stream.send_static(&CONTENT[..length]) as u64;
        if sent == 0 {
            return;
        }
        flow.count(sent);
        counters::SENT_BYTES.add(sent);
        allowed -= sent;
    }
}

/// Text that is written as far as there is space, which was made before.
pub struct Text<'a>(pub &'a mut Vec<u8>);

impl Text<'_> {
    /// Writes bytes, if all have space.
    pub fn push(&mut self, bytes: &[u8]) -> fmt::Result {
        if self.0.capacity() - self.0.len() < bytes.len() {
            return Err(fmt::Error);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}
