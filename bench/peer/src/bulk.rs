//! TCP servers for bulk transfers: port 9 drops what it is sent (RFC 863), port 19 sends as long as
//! somebody listens.

use crate::linux::{call, exit, fork, number, write};

const AF_INET: usize = 2;
const SOCK_STREAM: usize = 1;
const SIGCHLD: usize = 17;
const SIG_IGN: u64 = 1;
const CHUNK: usize = 128 * 1024;
const DISCARD: u16 = 9;
const SOURCE: u16 = 19;

/// Serves both ports. Returns only where a port cannot be opened.
pub fn run() -> i32 {
    // Children that have ended are not waited for: `struct sigaction` with SIG_IGN, no flags, no
    // mask.
    let ignore = [SIG_IGN, 0, 0, 0];
    // SAFETY: the kernel reads the structure.
    unsafe { call(number::RT_SIGACTION, [SIGCHLD, ignore.as_ptr() as usize, 0, 8, 0, 0]) };
    if fork() == 0 {
        exit(serve(DISCARD));
    }
    serve(SOURCE)
}

/// Accepts connections; each gets a process of its own.
fn serve(port: u16) -> i32 {
    // `struct sockaddr_in`: family, port in network byte order, any address.
    let mut address = [0u8; 16];
    address[0] = AF_INET as u8;
    address[2..4].copy_from_slice(&port.to_be_bytes());
    // SAFETY: the kernel reads `address` and no other memory.
    let (socket, bound, listening) = unsafe {
        let socket = call(number::SOCKET, [AF_INET, SOCK_STREAM, 0, 0, 0, 0]) as usize;
        let bound = call(number::BIND, [socket, address.as_ptr() as usize, address.len(), 0, 0, 0]);
        (socket, bound, call(number::LISTEN, [socket, 64, 0, 0, 0, 0]))
    };
    if bound < 0 || listening < 0 {
        write(2, b"peer: cannot open the port\n");
        return 1;
    }
    loop {
        // SAFETY: no memory is involved.
        let connection = unsafe { call(number::ACCEPT4, [socket, 0, 0, 0, 0, 0]) };
        if connection < 0 {
            continue;
        }
        if fork() == 0 {
            transfer(connection as usize, port);
        }
        // SAFETY: no memory is involved.
        unsafe { call(number::CLOSE, [connection as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Moves bytes until the connection ends.
fn transfer(connection: usize, port: u16) -> ! {
    let mut chunk = [b'c'; CHUNK];
    let number = if port == SOURCE { number::WRITE } else { number::READ };
    // SAFETY: the kernel reads or writes at most the bytes of `chunk`.
    while unsafe { call(number, [connection, chunk.as_mut_ptr() as usize, CHUNK, 0, 0, 0]) } > 0 {}
    exit(0)
}
