//! The web server with the least heap that its configuration allows: it serves as many clients as
//! are configured, and with a page less no image is built.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::curl;
use culm_tests_harness::{Boot, Machine, PATIENCE};
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

const PAGE: u64 = 4096;

/// The file that each client asks for: longer than what is sent without being acknowledged.
const LENGTH: usize = 100_000;

/// A web server's configuration.
struct Configured {
    connections: u64,
    send_buffer: u64,
}

impl Configured {
    /// Returns what the manifest of `http` says, in whole pages.
    fn least(&self) -> u64 {
        (512 * 1024 + self.connections * (self.send_buffer + 16 * 1024)).next_multiple_of(PAGE)
    }

    /// Writes a system with so much heap, and its site, into a folder.
    fn system(&self, folder: &Path, heap: u64) -> Boot {
        let Self { connections, send_buffer } = self;
        let mut text =
            String::from("name = \"heap\"\ndescription = \"A web server with little memory\"\nboard = \"virt\"\n");
        text += "[device.nic0]\npriority = 240\n[device.uart0]\npriority = 60\n";
        text += "[pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nnet = \"nic0\"\n";
        writeln!(text, "heap = {heap}").expect("a string takes everything");
        writeln!(
            text,
            "config = {{ site = \"site\", connections = {connections}, send_buffer = \"{}KiB\" }}",
            send_buffer / 1024
        )
        .expect("a string takes everything");
        std::fs::create_dir_all(folder.join("site")).expect("the folder is writable");
        std::fs::write(folder.join("site/large.bin"), vec![b'x'; LENGTH]).expect("the folder is writable");
        let file = folder.join("heap.toml");
        std::fs::write(&file, text).expect("the folder is writable");
        Boot::system(file.to_str().expect("temporary paths are text"))
    }
}

/// As many clients as there are places ask for the file at once, and each gets all of it.
fn serves_all(machine: &mut Machine, connections: u64) {
    let mut streams: Vec<TcpStream> = (0..connections).map(|_| ask(machine)).collect();
    for stream in &mut streams {
        // One that comes late, while the last ones have not left yet, may have to ask again.
        let until = Instant::now() + PATIENCE;
        let answer = loop {
            let mut answer = vec![];
            match stream.read_to_end(&mut answer) {
                Ok(_) if !answer.is_empty() => break answer,
                _ => assert!(answer.is_empty(), "cut after {} bytes: {}", answer.len(), machine.tail()),
            }
            assert!(!machine.saw("http faulted") && Instant::now() < until, "{}", machine.tail());
            *stream = ask(machine);
        };
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer[..answer.len().min(80)]));
        assert!(answer.len() > LENGTH && answer.ends_with(b"xxxx"), "{} bytes: {}", answer.len(), machine.tail());
    }
}

/// A client that has asked for the file.
fn ask(machine: &Machine) -> TcpStream {
    let mut stream = TcpStream::connect_timeout(&machine.address(80), PATIENCE).expect("it is let in");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    // It may have been turned away already; then it reads nothing.
    _ = stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: heap\r\nConnection: close\r\n\r\n");
    stream
}

#[test]
fn the_least_heap_is_enough() {
    for configured in
        [Configured { connections: 64, send_buffer: 8 * 1024 }, Configured { connections: 1, send_buffer: 2 * 1024 }]
    {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let least = configured.least();
        let mut machine = configured.system(folder.path(), least).start(&[80]);
        machine.wait_for_web();
        for _ in 0..2 {
            serves_all(&mut machine, configured.connections);
            for path in ["/_status", "/_metrics", "/_status.json", "/nothing"] {
                assert!(!curl(&machine.url(path), &[]).text().is_empty(), "{path}");
            }
        }
        let used = machine.status().counter("http", "heap_used");
        assert!(used <= least, "{used} of {least} bytes");
        machine.is_unharmed();
        assert!(!machine.saw("http faulted"), "{}", machine.tail());
    }
}

#[test]
fn a_page_less_is_refused() {
    let configured = Configured { connections: 64, send_buffer: 8 * 1024 };
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let boot = configured.system(folder.path(), configured.least() - PAGE);
    let output = boot.run_command().output().expect("`./culm` starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it runs");
    assert!(message.contains("a heap of 2044KiB is less than the 2MiB that `http` needs"), "{message}");
}
