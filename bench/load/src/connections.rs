//! TCP connections that begin and end: six packets each, none of which carries a byte.

use crate::engine::pin;
use anyhow::{Context, Result};
use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// For how long a connection is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// For how long the server sleeps where nobody comes.
const NAP: Duration = Duration::from_micros(500);

/// A server that ends each connection as soon as there is one. Dropping it ends it.
#[derive(Debug)]
pub struct Closer {
    address: SocketAddr,
    _threads: Threads,
}

impl Closer {
    /// Starts a server at `address`, in the namespace of the caller.
    ///
    /// # Errors
    /// Where the address cannot be had.
    pub fn start(address: SocketAddr, processor: Option<usize>) -> Result<Closer> {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut threads = Threads::default();
        threads.add("closer", processor, move |stop| {
            while !stop.load(Relaxed) {
                match listener.accept() {
                    Ok(connection) => drop(connection),
                    Err(_) => std::thread::sleep(NAP),
                }
            }
        })?;
        Ok(Closer { address, _threads: threads })
    }

    /// Returns where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Clients of a [`Closer`], each with one connection after the other. Dropping it ends them.
#[derive(Debug)]
pub struct Opener {
    done: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    _threads: Threads,
}

impl Opener {
    /// Starts so many clients, in the namespace of the caller.
    ///
    /// # Errors
    /// Where there is no thread for one.
    pub fn start(target: SocketAddr, clients: usize, processor: Option<usize>) -> Result<Opener> {
        let (done, failed, mut threads) =
            (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default(), Threads::default());
        for _ in 0..clients {
            let (done, failed) = (done.clone(), failed.clone());
            threads.add("opener", processor, move |stop| {
                while !stop.load(Relaxed) {
                    let count = if open_and_close(target).is_ok() { &done } else { &failed };
                    count.fetch_add(1, Relaxed);
                }
            })?;
        }
        Ok(Opener { done, failed, _threads: threads })
    }

    /// Returns how many connections have begun and ended.
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Returns how many did not come about.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }
}

fn open_and_close(target: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    match stream.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// Threads that end when they are dropped.
#[derive(Debug, Default)]
struct Threads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn add(
        &mut self,
        name: &str,
        processor: Option<usize>,
        work: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<()> {
        let stop = self.stop.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            pin(processor);
            work(&stop);
        });
        self.threads.push(thread?);
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn connections_begin_and_end() {
        let closer = Closer::start(([127, 0, 0, 1], 0).into(), None).expect("a server");
        let opener = Opener::start(closer.address(), 2, None).expect("clients");
        let end = Instant::now() + Duration::from_secs(20);
        while opener.done() < 20 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(opener.done() >= 20, "{} connections, {} failed", opener.done(), opener.failed());
    }
}
