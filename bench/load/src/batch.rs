//! Many packets per system call: `sendmmsg` and `recvmmsg` over a connected socket, which the
//! standard library lacks.

use crate::packet::LARGEST;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Packets in one batch.
pub const BATCH: usize = 64;

/// Buffers for one batch of packets, for sending or for receiving.
pub struct Batch {
    // Boxed: `pieces` points into `packets`, and the kernel is given `pieces`.
    packets: Box<[[u8; LARGEST + 1]; BATCH]>,
    lengths: [usize; BATCH],
    filled: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { packets: Box::new([[0; LARGEST + 1]; BATCH]), lengths: [0; BATCH], filled: 0 }
    }
}

impl Batch {
    /// Whether no further packet fits.
    pub fn full(&self) -> bool {
        self.filled == BATCH
    }

    /// The next packet to fill, `size` bytes of it.
    pub fn push(&mut self, size: usize) -> &mut [u8] {
        let index = self.filled;
        self.filled += 1;
        self.lengths[index] = size;
        &mut self.packets[index][..size]
    }

    /// The packets received.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.filled).map(|index| &self.packets[index][..self.lengths[index]])
    }

    /// Sends what was pushed and empties the batch. Returns how many packets the socket took.
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut sent = 0;
        while sent < self.filled {
            let (mut pieces, lengths) = self.pieces(|length| length);
            let mut messages = messages(&mut pieces);
            debug_assert_eq!(lengths.len(), BATCH);
            // SAFETY: each of the `filled` messages describes one packet of `packets`; all outlive
            // the call.
            let result = unsafe {
                let first = messages.as_mut_ptr().add(sent);
                libc::sendmmsg(socket.as_raw_fd(), first, (self.filled - sent) as u32, libc::MSG_DONTWAIT)
            };
            match result {
                count if count > 0 => sent += count as usize,
                _ => match io::Error::last_os_error() {
                    // The socket's buffer is full, or a server that is not there yet refused an
                    // earlier packet.
                    error if error.kind() == io::ErrorKind::WouldBlock => break,
                    error if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                    error if error.kind() == io::ErrorKind::Interrupted => continue,
                    error => {
                        self.filled = 0;
                        return Err(error);
                    }
                },
            }
        }
        self.filled = 0;
        Ok(sent)
    }

    /// Receives what is there, without waiting. Returns how many packets that was.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.filled = 0;
        let (mut pieces, _) = self.pieces(|_| LARGEST + 1);
        let mut messages = messages(&mut pieces);
        // SAFETY: each message describes one packet of `packets`; all outlive the call.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionRefused => Ok(0),
                _ => Err(error),
            };
        }
        self.filled = count as usize;
        for (length, message) in self.lengths.iter_mut().zip(&messages[..self.filled]) {
            *length = message.msg_len as usize;
        }
        Ok(self.filled)
    }

    fn pieces(&mut self, size: impl Fn(usize) -> usize) -> ([libc::iovec; BATCH], &[usize; BATCH]) {
        let lengths = &self.lengths;
        let mut packets = self.packets.iter_mut().zip(lengths);
        let pieces = std::array::from_fn(|_| match packets.next() {
            Some((packet, length)) => libc::iovec { iov_base: packet.as_mut_ptr().cast(), iov_len: size(*length) },
            None => libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 },
        });
        (pieces, lengths)
    }
}

fn messages(pieces: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    let mut pieces = pieces.iter_mut();
    std::array::from_fn(|_| {
        // SAFETY: all fields are integers and pointers, for which zero is a value.
        let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        if let Some(piece) = pieces.next() {
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        message
    })
}
