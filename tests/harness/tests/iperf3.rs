//! The server for iperf3: Debian's client measures it both ways, over IPv4 and IPv6, with one
//! stream and with several; and peers that are no such client.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, run, try_run};
use culm_tests_harness::{Boot, Machine, PATIENCE, on_a_wire};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

const PORT: u16 = 5201;

/// What is said on the control connection.
const PARAM_EXCHANGE: u8 = 9;
const CREATE_STREAMS: u8 = 10;
const TEST_START: u8 = 1;
const TEST_RUNNING: u8 = 2;
const TEST_END: u8 = 4;
const EXCHANGE_RESULTS: u8 = 13;

fn on_iperf3(test: impl FnOnce(&mut Machine) + Send) {
    on_a_wire(Boot::system("iperf3"), |machine| {
        machine.expect("by DHCP");
        test(machine);
        assert!(!machine.saw("faulted"), "{}", machine.console());
    });
}

/// Has iperf3 measure for two seconds, and returns its report.
fn measure(address: &str, options: &[&str]) -> Value {
    let common = ["--client", address, "--time", "2", "--json", "--connect-timeout", "30000"];
    let said = run(60, "iperf3", &[&common[..], options].concat());
    serde_json::from_str(&said).expect("it reports in JSON")
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {report:#}"))
}

/// Both ends say that bytes have gone, and say the same but for what was on the way.
fn has_measured(report: &Value, streams: usize) {
    let (sent, received) = (number(report, "/end/sum_sent/bytes"), number(report, "/end/sum_received/bytes"));
    assert!(received > 1e6 && sent >= received, "{sent} bytes sent, {received} received: {report:#}");
    assert!(sent - received < 8e6 * streams as f64, "{sent} bytes sent, {received} received: {report:#}");
    let found = report.pointer("/end/streams").and_then(Value::as_array).expect("there are streams");
    assert_eq!(found.len(), streams, "{report:#}");
    for stream in found {
        assert!(number(stream, "/receiver/bytes") > 0.0, "a stream stands still: {report:#}");
    }
}

#[test]
fn the_real_client_measures_tcp_both_ways() {
    on_iperf3(|machine| {
        let addresses = [machine.address(PORT).ip().to_string(), machine.link_local()];
        for address in &addresses {
            for streams in ["1", "4"] {
                let count = streams.parse().expect("a number");
                has_measured(&measure(address, &["--parallel", streams]), count);
                has_measured(&measure(address, &["--parallel", streams, "--reverse"]), count);
            }
            let report = measure(address, &["--parallel", "2", "--bidir"]);
            has_measured(&report, 4);
            assert!(number(&report, "/end/sum_received_bidir_reverse/bytes") > 1e6, "{report:#}");
        }
        // The processor is told to have been busy, but no busier than can be.
        let report = measure(&addresses[0], &["--omit", "1"]);
        let busy = number(&report, "/end/cpu_utilization_percent/remote_total");
        assert!(busy > 1.0 && busy <= 100.0, "{report:#}");
        let seconds = number(&report, "/end/sum_received/seconds");
        assert!((1.5..2.9).contains(&seconds), "what was omitted counts: {report:#}");
        // A rate is kept.
        let rate =
            number(&measure(&addresses[0], &["--reverse", "--bitrate", "8M"]), "/end/sum_received/bits_per_second");
        assert!((6e6..9e6).contains(&rate), "{rate} bits a second in place of 8 million");
        // So many bytes, with no time said.
        let report = run(60, "iperf3", &["--client", &addresses[0], "--bytes", "20M", "--json"]);
        assert!(report.contains("\"sum_received\"") && !report.contains("\"error\""), "{report}");
        assert!(!machine.saw("no test") && !machine.saw("ends early"), "{}", machine.console());
        assert!(machine.saw("streams of TCP in"), "{}", machine.console());
    });
}

#[test]
fn the_real_client_measures_udp_both_ways() {
    on_iperf3(|machine| {
        for address in [machine.address(PORT).ip().to_string(), machine.link_local()] {
            for options in [&["--udp", "--bitrate", "4M"][..], &["--udp", "--bitrate", "4M", "--udp-counters-64bit"]] {
                for way in [&["--parallel", "2"][..], &["--parallel", "2", "--reverse"]] {
                    let report = measure(&address, &[options, way].concat());
                    let packets = number(&report, "/end/sum/packets");
                    let lost = number(&report, "/end/sum/lost_packets");
                    // 2 streams of 4 Mbit/s for 2 s in datagrams of about 1448 bytes.
                    assert!((1000.0..1600.0).contains(&packets), "{report:#}");
                    assert!(lost <= packets / 20.0, "{lost} of {packets} are lost: {report:#}");
                }
            }
        }
        assert!(!machine.saw("no test") && !machine.saw("ends early"), "{}", machine.console());
        assert!(machine.saw("streams of UDP in"), "{}", machine.console());
    });
}

/// A client that wants as much as there is has the processor, but not that of what tells of it.
#[test]
fn what_is_sent_without_a_rate_leaves_the_console_its_turns() {
    on_iperf3(|machine| {
        let address = machine.address(PORT).ip().to_string();
        let report = measure(&address, &["--udp", "--reverse", "--bitrate", "0"]);
        assert!(number(&report, "/end/sum/packets") > 1000.0, "{report:#}");
        machine.expect("1 stream of UDP");
        assert!(!machine.saw("no test") && !machine.saw("ends early"), "{}", machine.console());
    });
}

/// Begins a test over UDP to the client at 80 kbit/s, of the longest that there is. Returns its
/// control connection and its stream.
fn flood(machine: &Machine) -> (TcpStream, UdpSocket) {
    let parameters = with_length("{\"udp\":true,\"reverse\":true,\"bandwidth\":80000,\"time\":0}");
    let (mut control, heard) = say(machine, &parameters, 2);
    assert_eq!(heard, [PARAM_EXCHANGE, CREATE_STREAMS]);
    let socket = UdpSocket::bind("0.0.0.0:0").expect("there are ports");
    socket.connect(machine.address(PORT)).expect("it is there");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket.send(&0x3637_3839_u32.to_le_bytes()).expect("it may send");
    assert_eq!(socket.recv(&mut [0; 100]).expect("it is answered"), 4);
    let mut heard = [0; 2];
    control.read_exact(&mut heard).expect("the test begins");
    assert_eq!(heard, [TEST_START, TEST_RUNNING]);
    (control, socket)
}

#[test]
fn a_client_that_vanishes_is_not_flooded_for_ever() {
    on_iperf3(|machine| {
        let address = machine.address(PORT).ip().to_string();
        let client = flood(machine);
        let rules = "table netdev loss { chain machine { type filter hook ingress device culm0 priority 0; drop; }; }";
        run(10, "nft", &[rules]);
        machine.expect("a connection is lost");
        run(10, "nft", &["delete", "table", "netdev", "loss"]);
        drop(client);
        has_measured(&measure(&address, &[]), 1);
    });
}

#[test]
fn datagrams_do_not_prolong_what_is_no_test() {
    on_iperf3(|machine| {
        let (mut control, socket) = flood(machine);
        control.write_all(&[TEST_END]).expect("it is open");
        let mut heard = [0];
        control.read_exact(&mut heard).expect("the test ends");
        assert_eq!(heard, [EXCHANGE_RESULTS]);
        let until = Instant::now() + Duration::from_secs(30);
        while !machine.saw("the client takes too long") {
            assert!(Instant::now() < until, "{}", machine.console());
            _ = socket.send(b"datagram");
            sleep(Duration::from_secs(1));
        }
    });
}

/// Says these bytes behind a cookie, and hears `count` bytes, or all until the server ends. Returns
/// the connection, and what it has heard.
fn say(machine: &Machine, bytes: &[u8], count: usize) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(machine.address(PORT)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.write_all(&[&[b'x'; 36][..], &[0], bytes].concat()).expect("it takes them");
    let mut heard = vec![0; count];
    let mut length = 0;
    // A read of nothing would wait for something.
    while length < count
        && let Ok(more @ 1..) = stream.read(&mut heard[length..])
    {
        length += more;
    }
    heard.truncate(length);
    (stream, heard)
}

fn with_length(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

#[test]
fn others_harm_nobody() {
    on_iperf3(|machine| {
        let address = machine.address(PORT).ip().to_string();
        let refused = |number: u8| vec![PARAM_EXCHANGE, 0xfe, 0, 0, 0, number, 0, 0, 0, 0];
        // Parameters that are none, and such as cannot be.
        for (parameters, number) in [
            (with_length("nonsense"), 114),
            (with_length(&format!("{{\"x\":{}", "[".repeat(4000))), 114),
            (vec![0xff; 100], 114),
            (with_length("{\"parallel\":99}"), 6),
            (with_length("{\"time\":99999}"), 5),
            (with_length("{\"sctp\":true}"), 13),
        ] {
            assert_eq!(say(machine, &parameters, 100).1, refused(number), "{parameters:?}");
        }
        // Something else than a stream; a test that is over before it begins; results without end.
        for bytes in [vec![7], vec![TEST_END]] {
            say(machine, &[with_length("{\"tcp\":true}"), bytes].concat(), 100);
            machine.expect("the client has ended it");
        }
        let (mut control, heard) = say(machine, &with_length("{\"tcp\":true}"), 2);
        assert_eq!(heard, [PARAM_EXCHANGE, CREATE_STREAMS]);
        let (mut stream, _) = say(machine, &[1; 1000], 0);
        control.read_exact(&mut [0; 2]).expect("the test begins");
        control.write_all(&[&[TEST_END][..], &[0xff; 200]].concat()).expect("it is open");
        machine.expect("something else than iperf3's would");
        _ = stream.write_all(&[1; 1000]);
        // A stream goes away in the middle.
        let (_control, _) = say(machine, &with_length("{\"tcp\":true}"), 2);
        drop(say(machine, &[], 0));
        machine.expect("a connection is lost");

        // Who says nothing keeps nobody out, however many there are.
        let silent: Vec<_> = (0..40).filter_map(|_| TcpStream::connect(machine.address(PORT)).ok()).collect();
        has_measured(&measure(&address, &[]), 1);
        drop(silent);

        // Another client is told that the server is busy, and the test goes on.
        let mut first = Background::start("iperf3", &["--client", &address, "--time", "6"]);
        sleep(Duration::from_secs(2));
        let second = try_run(30, "iperf3", &["--client", &address, "--time", "1"]);
        let said = String::from_utf8_lossy(&[second.stdout, second.stderr].concat()).into_owned();
        assert!(said.contains("the server is busy running a test"), "{said}");
        let until = Instant::now() + Duration::from_secs(30);
        while first.is_running() {
            assert!(Instant::now() < until, "the test does not end");
            sleep(Duration::from_millis(100));
        }
        // A client that is silent from some point on keeps the server for a while only.
        let (_control, heard) = say(machine, &with_length("{\"tcp\":true}"), 2);
        assert_eq!(heard, [PARAM_EXCHANGE, CREATE_STREAMS]);
        machine.expect("the client takes too long");
        has_measured(&measure(&address, &["--reverse"]), 1);
    });
}
