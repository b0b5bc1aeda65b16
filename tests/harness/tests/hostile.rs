//! Clients of one network card that do what they must not, beside a web server on the same card:
//! downloads from it go on.
//!
//! One machine has them all; each test looks at what became of one.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, Status, curl};
use culm_tests_harness::frames::{Random, noise, write_capture};
use culm_tests_harness::{Boot, Machine, PATIENCE, download, on_a_wire, wire};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The behaviour of each hostile client, and further lines of its description. All run above the
/// web server, on a budget.
const CLIENTS: &[(&str, &str)] = &[
    ("return", "net = \"nic0\""),
    ("keep", "net = { device = \"nic0\", mac = \"02:00:00:00:00:aa\" }"),
    ("starve", "net = { device = \"nic0\", mac = \"02:00:00:00:00:ab\" }"),
    ("forge", "net = { device = \"nic0\", anti_spoof = true }"),
    ("flood", "net = { device = \"nic0\", anti_spoof = true }"),
    ("scribble", "net = \"nic0\""),
];

const SERVER: &str = "02:00:00:00:00:07";
/// Whoever keeps what it is lent, and whoever has nothing to receive into.
const KEEPER: [u8; 6] = [2, 0, 0, 0, 0, 0xaa];
const STARVER: [u8; 6] = [2, 0, 0, 0, 0, 0xab];
/// Where the forger and the honest flooder broadcast to.
const FORGED: u16 = 2001;
const HONEST: u16 = 2002;
const DOWNLOADS: usize = 60;
/// How often those who act all the time are to have acted.
const ACTS: u64 = 1000;

fn description() -> String {
    let server = format!(
        "name = \"hostile\"\ndescription = \"Hostile clients beside a web server\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n[device.uart0]\npriority = 230\n\
         [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nconfig = {{ site = \"site\" }}\n\
         net = {{ device = \"nic0\", mac = \"{SERVER}\" }}\n"
    );
    let clients = CLIENTS.iter().map(|(rule, net)| {
        let config = match *rule {
            "forge" => format!(", name = \"{SERVER}\", port = {FORGED}"),
            "flood" => format!(", port = {HONEST}"),
            _ => String::new(),
        };
        format!(
            "[pd.{rule}]\ncomponent = \"misbehave-client\"\npriority = 150\nbudget = \"500us\"\nperiod = \"10ms\"\n\
             config = {{ rule = \"{rule}\"{config} }}\n{net}\n"
        )
    });
    server + &clients.collect::<String>()
}

/// The outcome of a run.
struct Outcome {
    status: Status,
    console: String,
    forged: bool,
    honest: bool,
}

/// Runs the machine once for all tests; nothing where this machine may not have a wire.
fn outcome() -> Option<&'static Outcome> {
    static OUTCOME: OnceLock<Option<Outcome>> = OnceLock::new();
    let mut is_first = false;
    let outcome = OUTCOME.get_or_init(|| {
        is_first = true;
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        run(folder.path())
    });
    // The first test was told so already.
    if outcome.is_none() && !is_first {
        wire::skip("there is no wire");
    }
    outcome.as_ref()
}

fn run(folder: &Path) -> Option<Outcome> {
    let content = download::content();
    std::fs::create_dir(folder.join("site")).expect("the folder is writable");
    std::fs::write(folder.join("site/file.bin"), &content).expect("the folder is writable");
    let file = folder.join("hostile.toml");
    std::fs::write(&file, description()).expect("the folder is writable");
    let mut outcome = None;
    on_a_wire(Boot::system(file.to_str().expect("temporary paths are text")), |machine| {
        outcome = Some(observe(machine, folder, &content));
    });
    outcome
}

fn observe(machine: &mut Machine, folder: &Path, content: &[u8]) -> Outcome {
    let (forged, honest) = (listen(FORGED), listen(HONEST));
    machine.wait_for_web();
    for (rule, _) in CLIENTS {
        machine.expect_anywhere(&format!("{rule}: begins to {rule}"));
    }
    // Something to keep, and broadcasts for everybody.
    let capture = folder.join("noise.pcap");
    let mut random = Random::new(0x000c_0040);
    let frames = [noise(KEEPER, &mut random, 1000), noise(STARVER, &mut random, 1000)].concat();
    write_capture(&capture, &frames).expect("the folder is writable");
    let interface = format!("--intf1={}", wire::DEVICE);
    let capture = capture.to_str().expect("temporary paths are text");
    let mut replay = Background::start("tcpreplay", &[&interface, "--quiet", "--pps=2000", "--loop=100000", capture]);
    let until = Instant::now() + 5 * PATIENCE;
    let mut downloads = 0;
    // Those who flood and scribble take their turns meanwhile, more or fewer of them as the host is
    // fast.
    while downloads < DOWNLOADS || !have_acted(&machine.status()) {
        assert!(curl(&machine.url("/file.bin"), &[]).body == content, "a download is not what was asked for");
        downloads += 1;
        assert!(Instant::now() < until, "not everybody did what it is there for");
    }
    assert!(replay.is_running(), "tcpreplay ended by itself");
    drop(replay);
    Outcome {
        status: machine.status(),
        console: machine.console(),
        honest: heard(&honest, PATIENCE),
        forged: heard(&forged, Duration::from_secs(1)),
    }
}

/// Whether those who act all the time have acted often.
fn have_acted(status: &Status) -> bool {
    ["flood", "scribble"].iter().all(|rule| status.counter(rule, "acts") > ACTS)
}

fn listen(port: u16) -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the namespace's ports are free")
}

/// Whether something came, or comes while one waits.
fn heard(socket: &UdpSocket, patience: Duration) -> bool {
    socket.set_read_timeout(Some(patience)).expect("a socket takes a time-out");
    socket.recv(&mut [0; 64]).is_ok()
}

#[test]
fn what_is_not_held_cannot_be_returned() {
    let Some(outcome) = outcome() else { return };
    assert!(outcome.status.counter("return", "acts") > 0);
    assert!(outcome.status.counter("return_copier", "buffers_refused") > 0, "receive buffers");
    assert!(outcome.status.counter("nic0_tx", "drops_not_held") > 0, "transmit buffers");
    assert!(
        outcome.status.counter("nic0_tx", "drops_invalid") > 0,
        "transmit buffers of a length that they do not have"
    );
}

#[test]
fn who_keeps_what_it_is_lent_gets_no_more_than_its_share() {
    let Some(outcome) = outcome() else { return };
    assert!(outcome.status.counter("keep", "acts") > 0);
    assert_eq!(outcome.status.counter("starve", "acts"), 0, "it provides no buffer to receive into");
    assert!(outcome.status.counter("nic0_rx", "drops_share") > 0);
}

#[test]
fn nobody_sends_in_anothers_name() {
    let Some(outcome) = outcome() else { return };
    assert!(outcome.status.counter("forge", "acts") > 0);
    assert!(outcome.status.counter("nic0_tx", "drops_spoofed") > 0);
    assert!(!outcome.forged, "a frame with the web server's address, from somebody else, was on the wire");
    assert!(outcome.honest, "the same frames with their sender's own address arrive");
}

#[test]
fn others_are_served_beside_a_flood() {
    let Some(outcome) = outcome() else { return };
    // The downloads went on; and it did flood.
    assert!(outcome.status.counter("flood", "acts") > ACTS);
}

#[test]
fn who_scribbles_over_its_queues_harms_itself() {
    let Some(outcome) = outcome() else { return };
    assert!(outcome.status.counter("scribble", "acts") > ACTS);
    assert!(outcome.status.faulted().iter().all(|name| *name == "scribble"), "{:?}", outcome.status.faulted());
    for bystander in ["http", "nic0_driver", "nic0_rx", "nic0_tx", "http_copier", "scribble_copier", "keep", "flood"] {
        assert!(!outcome.console.contains(&format!("supervisor: {bystander} faulted")), "{bystander} faulted");
    }
}
