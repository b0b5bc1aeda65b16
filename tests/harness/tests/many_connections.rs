//! Ten thousand connections with a whole machine at the same time, which ask in turn.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::deaths::is_soak;
use culm_tests_harness::{Boot, PATIENCE, on_a_wire};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

/// Connections that are open at the same time.
const CONNECTIONS: usize = 10_000;

/// Further places, for connections that look at the server.
const OTHERS: usize = 50;

/// Connections that ask at the same time.
const ASKING: usize = 64;

/// How often each connection asks, usually and in a soak.
const TURNS: [usize; 2] = [2, 20];

/// A web server with room for them. A connection has a window of its own and little else.
fn describe(folder: &Path) -> Boot {
    let text = format!(
        "name = \"many-connections\"\ndescription = \"Room for many connections\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n[device.uart0]\npriority = 60\n[device.rng0]\npriority = 230\n\
         [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nheap = \"208MiB\"\nnet = \"nic0\"\n\
         entropy = \"rng0\"\n\
         config = {{ connections = {}, send_buffer = \"2KiB\", idle_timeout = \"3600s\", request_timeout = \"3600s\" }}\n",
        CONNECTIONS + OTHERS
    );
    let file = folder.join("many-connections.toml");
    std::fs::write(&file, text).expect("the folder is writable");
    Boot::system(file.to_str().expect("temporary paths are text"))
}

/// Lets this process have as many files open as the test has connections.
fn raise_limit() {
    let wanted = CONNECTIONS as u64 + 200;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("it can be asked");
    if soft < wanted
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))
    {
        panic!("{wanted} files may not be open at a time ({error}): raise `ulimit -Hn`, which is {hard}");
    }
}

/// Asks for what has no body in its answer.
fn ask(stream: &mut TcpStream) {
    stream.write_all(b"HEAD /_status.css HTTP/1.1\r\nHost: guest\r\n\r\n").expect("the connection is open");
}

fn is_answered(stream: &mut TcpStream) {
    let (mut head, mut buffer) = (vec![], [0; 2048]);
    while !head.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut buffer).expect("an answer comes");
        assert!(count > 0, "the connection has ended after {:?}", String::from_utf8_lossy(&head));
        head.extend_from_slice(&buffer[..count]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
}

#[test]
fn ten_thousand_connections_ask_in_turn() {
    raise_limit();
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    on_a_wire(describe(folder.path()), |machine| {
        machine.wait_for_web();
        let address = machine.address(80);
        let connect = |number| {
            let stream = TcpStream::connect_timeout(&address, PATIENCE);
            let stream = stream.unwrap_or_else(|error| panic!("connection {number}: {error}"));
            stream.set_read_timeout(Some(PATIENCE)).expect("a time is taken");
            stream
        };
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(connect).collect();
        for _ in 0..TURNS[usize::from(is_soak())] {
            for group in streams.chunks_mut(ASKING) {
                group.iter_mut().for_each(ask);
                group.iter_mut().for_each(is_answered);
            }
        }
        let status = machine.status();
        let counter = |name| status.counter("http", name);
        assert!(counter("open") >= CONNECTIONS as u64, "{} are open", counter("open"));
        assert_eq!(["evicted", "resets", "timeouts"].map(counter), [0; 3]);
        drop(streams);
        let until = Instant::now() + PATIENCE;
        while machine.status().counter("http", "open") > OTHERS as u64 {
            assert!(Instant::now() < until, "{} stay open", machine.status().counter("http", "open"));
        }
        machine.is_unharmed();
    });
}
