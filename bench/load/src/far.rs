//! The other end of a path that is measured: a server that sends back what comes.

use crate::batch::Batch;
use crate::engine::{enlarge_buffers, pin};
use anyhow::{Context, Result};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// For how long it sleeps at most where nothing comes, in milliseconds: so soon it ends.
const NAP: i32 = 10;

/// A running echo server, for one client: the first that sends to it. Dropping it ends it.
#[derive(Debug)]
pub struct FarEnd {
    stop: Arc<AtomicBool>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl FarEnd {
    /// Starts a server at `address`, in the namespace of the caller. It spins on `processor` where
    /// it has one to itself; else it sleeps while nothing comes.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub fn start(address: SocketAddr, processor: Option<usize>, spins: bool) -> Result<FarEnd> {
        let socket = UdpSocket::bind(address).with_context(|| format!("cannot open a UDP socket at {address}"))?;
        enlarge_buffers(&socket);
        let (address, stop) = (socket.local_addr()?, Arc::new(AtomicBool::new(false)));
        let theirs = stop.clone();
        let thread = std::thread::Builder::new().name("far end".into()).spawn(move || {
            pin(processor);
            serve(&socket, spins, &theirs);
        })?;
        Ok(FarEnd { stop, address, thread: Some(thread) })
    }

    /// Returns where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(socket: &UdpSocket, spins: bool, stop: &AtomicBool) {
    let mut connected = false;
    let (mut incoming, mut outgoing) = (Batch::default(), Batch::default());
    while !stop.load(Relaxed) {
        if !connected {
            connected = connect_to_first_sender(socket);
            continue;
        }
        match incoming.receive(socket) {
            Ok(count) if count > 0 => {
                incoming.iter().for_each(|packet| outgoing.push(packet.len()).copy_from_slice(packet));
                let _ = outgoing.send(socket);
            }
            _ if spins => {}
            _ => nap(socket),
        }
    }
}

/// Sleeps until something comes, or for a while.
fn nap(socket: &UdpSocket) {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the kernel reads and writes the one entry during the call.
    unsafe { libc::poll(&raw mut entry, 1, NAP) };
}

/// Waits for the first packet, sends it back and takes its sender for the only client. Returns
/// whether one has come.
fn connect_to_first_sender(socket: &UdpSocket) -> bool {
    let _ = socket.set_read_timeout(Some(std::time::Duration::from_millis(NAP as u64)));
    let mut packet = [0; 2048];
    let Ok((length, peer)) = socket.recv_from(&mut packet) else { return false };
    // Whoever is not there any more is answered as little as anybody.
    socket.connect(peer).is_ok_and(|()| socket.send(&packet[..length]).is_ok())
}
