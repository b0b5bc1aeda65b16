//! Real clients against the server over this machine's sockets: curl, ab, wrk, httperf where they
//! are installed.

use culm_http::{Caching, Server, Site, Timeouts};
use http::status::{DOCUMENTS, Source, Status};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;
const LARGE: usize = 33_400_000;

struct Running {
    address: SocketAddr,
    stop: &'static AtomicBool,
    thread: Option<JoinHandle<u64>>,
}

/// A server with `capacity` connections. Its thread ends with the count of requests.
fn start(capacity: usize) -> Running {
    let timeouts = Timeouts {
        idle: 2000 * MILLISECOND,
        request: 500 * MILLISECOND,
        response: 2000 * MILLISECOND,
        linger: 500 * MILLISECOND,
        farewell: 3000 * MILLISECOND,
        fresh: 1,
    };
    start_with(capacity, timeouts)
}

fn start_with(capacity: usize, timeouts: Timeouts) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let stop: &'static AtomicBool = Box::leak(Box::default());
    let (ready, is_ready) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let large: &'static [u8] = vec![b'z'; LARGE].leak();
        let files: [(&str, &[u8]); 4] =
            [("index.html", &[b'x'; 354]), ("10K.html", &[b'y'; 10_240]), ("large.bin", large), ("a/index.html", b"a")];
        let site = Site::new(files.into_iter(), &Caching::default(), &http::status::files(b"<svg/>"), &DOCUMENTS);
        let nothing = Source::from_parts(("system", "board"), &[], &[], Vec::new(), Vec::new(), 1);
        let mut server = Server::new(site, Status::new(nothing), capacity, timeouts);
        ready.send(()).expect("is awaited");
        http::host::serve(&listener, &mut server, stop).expect("the sockets work");
        server.tally().requests
    });
    is_ready.recv().expect("the server starts");
    Running { address, stop, thread: Some(thread) }
}

impl Running {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Relaxed);
        self.thread.take().expect("once").join().expect("the server did not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Returns what a program prints; `None` if it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
            Some(text)
        }
        Err(_) => {
            eprintln!("{program} is not installed: skipped");
            None
        }
    }
}

/// The number after `label` in what a load generator prints.
fn figure(text: &str, label: &str) -> u64 {
    let rest = text.split_once(label).unwrap_or_else(|| panic!("no {label:?} in {text}")).1;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number after {label:?} in {text}"))
}

#[test]
fn curl() {
    let server = start(16);
    let get = |arguments: &[&str], path: &str| {
        let url = server.url(path);
        run("curl", &[&["-s", "--max-time", "20"], arguments, &[&url]].concat())
    };
    let code: &[&str] = &["-o", "/dev/null", "-w", "%{http_code} %{size_download}"];
    for (arguments, path, expected) in [
        (&[][..], "/", "200 354"),
        (&["-I"], "/", "200 0"),
        (&["-L"], "/a", "200 1"),
        (&["-r", "10-19"], "/10K.html", "206 10"),
        (&["-r", "99999-"], "/10K.html", "416 0"),
        (&[], "/large.bin", "200 33400000"),
        (&["--path-as-is"], "/../etc/passwd", "400 57"),
        (&["-d", "x=1"], "/", "405 59"),
        (&["--http1.0"], "/10K.html", "200 10240"),
        (&["-H", "Expect: 100-continue", "-d", "x=1"], "/", "405 59"),
    ] {
        let Some(answer) = get(&[code, arguments].concat(), path) else { return };
        assert_eq!(answer, expected, "{arguments:?} {path}");
    }
    assert!(get(&[], "/_status").is_some_and(|page| page.contains("</html>")));
}

#[test]
fn load_generators_see_no_error() {
    let server = start(256);
    if let Some(text) = run("ab", &["-q", "-k", "-n", "20000", "-c", "50", &server.url("/")]) {
        assert_eq!((figure(&text, "Complete requests:"), figure(&text, "Failed requests:")), (20_000, 0), "{text}");
        assert_eq!(figure(&text, "Keep-Alive requests:"), 20_000, "{text}");
    }
    if let Some(text) = run("ab", &["-q", "-n", "3000", "-c", "20", &server.url("/10K.html")]) {
        assert_eq!((figure(&text, "Complete requests:"), figure(&text, "Failed requests:")), (3000, 0), "{text}");
    }
    if let Some(text) = run("wrk", &["-t1", "-c", "200", "-d", "2s", &server.url("/")]) {
        assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
    }
    let port = server.address.port().to_string();
    let arguments =
        ["--server=127.0.0.1", "--port", &port, "--uri=/10K.html", "--num-conns=300", "--num-calls=3", "--rate=300"];
    if let Some(text) = run("httperf", &arguments) {
        assert_eq!((figure(&text, "Errors: total"), figure(&text, "replies")), (0, 900), "{text}");
    }
    assert!(server.end() > 0);
}

#[test]
fn pipelined_requests_are_all_answered() {
    let server = start(4);
    let mut stream = TcpStream::connect(server.address).expect("connects");
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let writer = stream.try_clone().expect("clones");
    let thread = std::thread::spawn(move || {
        let mut writer = writer;
        for _ in 0..2000 {
            writer.write_all(request).expect("sends");
        }
        writer.shutdown(std::net::Shutdown::Write).expect("ends");
    });
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("reads");
    thread.join().expect("the writer ends");
    assert_eq!(answer.windows(12).filter(|window| window == b"HTTP/1.1 200").count(), 2000);
}

#[test]
fn a_good_client_gets_in_among_slow_ones() {
    // So patient that no place becomes free but by making way for a client that asks for one.
    let hour = 3_600_000 * MILLISECOND;
    let timeouts = Timeouts { idle: hour, request: hour, response: hour, linger: hour, farewell: hour, fresh: 1 };
    let server = start_with(32, timeouts);
    let mut slow: Vec<_> = (0..100).filter_map(|_| TcpStream::connect(server.address).ok()).collect();
    for stream in &mut slow {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nX: ");
    }
    for _ in 0..20 {
        let mut good = TcpStream::connect(server.address).expect("connects");
        good.set_read_timeout(Some(Duration::from_secs(120))).expect("a time-out");
        good.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("sends");
        let mut answer = Vec::new();
        good.read_to_end(&mut answer).expect("is answered");
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.len() > 354);
    }
}

#[test]
fn a_folder_with_a_link_or_a_pipe_is_refused() {
    let folder = std::env::temp_dir().join(format!("culm-http-site-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("a")).expect("a folder");
    std::fs::write(folder.join("a/page.html"), "page").expect("a file");
    let read = || http::host::read_folder(&folder);
    assert_eq!(read().expect("is readable"), [("a/page.html".to_owned(), b"page".to_vec())]);
    let odd = folder.join("a/odd");
    std::os::unix::fs::symlink("/etc/hostname", &odd).expect("a link");
    let of_link = read();
    std::fs::remove_file(&odd).expect("the link goes");
    nix::unistd::mkfifo(&odd, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let of_pipe = read();
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    for outcome in [of_link, of_pipe] {
        assert!(outcome.is_err_and(|error| error.to_string().contains("a/odd is neither a file nor a folder")));
    }
}
