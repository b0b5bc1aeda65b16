//! A DHCP server (RFC 2131) for the wire: each client that asks gets the next address.

use crate::PATIENCE;
use culm_wire::HOST;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Clients and their addresses, in the order in which they came.
type Leases = Arc<Mutex<Vec<([u8; 6], Ipv4Addr)>>>;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    leases: Leases,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Where fields of a message are (RFC 2131 §2), and its options' numbers (RFC 2132).
mod field {
    pub(super) const TRANSACTION: std::ops::Range<usize> = 4..8;
    pub(super) const YOUR_ADDRESS: std::ops::Range<usize> = 16..20;
    pub(super) const CLIENT: std::ops::Range<usize> = 28..34;
    pub(super) const OPTIONS: usize = 236;
    pub(super) const COOKIE: [u8; 4] = [99, 130, 83, 99];
    pub(super) const MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const LEASE_TIME: u8 = 51;
    pub(super) const KIND: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const END: u8 = 255;
}

impl Server {
    /// A server in the calling thread's namespace.
    ///
    /// # Panics
    /// Where somebody else has the port.
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 67)).expect("the namespace has no other DHCP server");
        socket.set_broadcast(true).expect("a socket may broadcast");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket takes a time-out");
        let (leases, stop) = (Leases::default(), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (leases, stop) = (leases.clone(), stop.clone());
            move || {
                let mut message = [0; 1500];
                while !stop.load(Relaxed) {
                    let Ok((length, _)) = socket.recv_from(&mut message) else { continue };
                    if let Some(answer) = answer(&message[..length], &leases) {
                        // The client asks again where this cannot be sent.
                        _ = socket.send_to(&answer, SocketAddr::from((Ipv4Addr::BROADCAST, 68)));
                    }
                }
            }
        });
        Self { leases, stop, thread: Some(thread) }
    }

    /// Waits for the first client; its hardware address.
    pub(crate) fn first_client(&self) -> Option<[u8; 6]> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some((client, _)) = self.leases.lock().expect("the server does not panic").first() {
                return Some(*client);
            }
            thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of its own has been printed.
            _ = thread.join();
        }
    }
}

fn answer(message: &[u8], leases: &Leases) -> Option<Vec<u8>> {
    const DISCOVER: u8 = 1;
    const OFFER: u8 = 2;
    const REQUEST: u8 = 3;
    const ACKNOWLEDGE: u8 = 5;
    let kind = match option(message, field::KIND)? {
        [DISCOVER] => OFFER,
        [REQUEST] => ACKNOWLEDGE,
        _ => return None,
    };
    let client: [u8; 6] = message.get(field::CLIENT)?.try_into().ok()?;
    let address = {
        let mut leases = leases.lock().expect("nobody panics with the lock");
        let known = leases.iter().find(|(known, _)| *known == client).map(|(_, address)| *address);
        known.unwrap_or_else(|| {
            let [a, b, c, d] = HOST.octets();
            let next = Ipv4Addr::new(a, b, c, d + 1 + leases.len() as u8);
            leases.push((client, next));
            next
        })
    };
    let mut answer = vec![0; field::OPTIONS];
    // A reply, by Ethernet, whose addresses have six bytes; to be broadcast.
    answer[..3].copy_from_slice(&[2, 1, 6]);
    answer[10] = 0x80;
    answer[field::TRANSACTION].copy_from_slice(&message[field::TRANSACTION]);
    answer[field::YOUR_ADDRESS].copy_from_slice(&address.octets());
    answer[field::CLIENT].copy_from_slice(&client);
    answer.extend(field::COOKIE);
    for (name, value) in [
        (field::KIND, &[kind] as &[u8]),
        (field::SERVER, &HOST.octets()),
        (field::LEASE_TIME, &3600_u32.to_be_bytes()),
        (field::MASK, &[255, 255, 255, 0]),
        (field::ROUTER, &HOST.octets()),
    ] {
        answer.extend([name, value.len() as u8]);
        answer.extend(value);
    }
    answer.push(field::END);
    Some(answer)
}

/// The value of an option.
fn option(message: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = message.get(field::OPTIONS..)?.strip_prefix(&field::COOKIE)?;
    while let [name, after @ ..] = rest {
        match (*name, after) {
            (0, _) => rest = after,
            (field::END, _) => return None,
            (name, [length, after @ ..]) => {
                let value = after.get(..usize::from(*length))?;
                if name == wanted {
                    return Some(value);
                }
                rest = &after[value.len()..];
            }
            _ => return None,
        }
    }
    None
}
