//! A browser whose own TCP is Linux's, on a wire of the test's: Debian's chromium loads pages with
//! many pictures over as many connections as it likes, loads them again, and downloads a large
//! file, over IPv4 and IPv6. A script in the page says what has come, byte for byte.
//!
//! It takes root's rights; without them the tests are skipped, and say so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, HEADLESS, exchange_within};
use culm_tests_harness::frames::Random;
use culm_tests_harness::{Boot, Machine, PATIENCE, on_a_wire, wire};
use culm_wire::{GUEST, HOST, ip};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Names of the server. Chromium opens six connections for each.
const NAMES: usize = 8;
/// Pictures on the page that is loaded by each name.
const PICTURES: usize = 36;
/// Bytes of the large file.
const LARGE: usize = 16_000_000;
/// How often the page is loaded: once, and once again.
const LOADS: usize = 2;

const SYSTEM: &str = r#"name = "browser"
description = "A web server for a browser"
board = "virt"
[device.nic0]
priority = 240
[device.uart0]
priority = 60
[pd.http]
component = "http"
priority = 100
observe = true
net = "nic0"
config = { site = "site" }
"#;

/// What both pages need: the sum of a file's bytes (FNV-1a, 32 bits), as `sum` computes it here.
const SUM: &str = "
async function load(path, options) {
    const answer = await fetch(path, options);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    let sum = 0x811c9dc5;
    for (const byte of bytes) sum = Math.imul(sum ^ byte, 0x01000193);
    return `${answer.status} ${bytes.length} ${sum >>> 0}`;
}
";

/// What the pictures' page tells the page around it, once all of its pictures are there: the sum of
/// each, and how many bytes came over the network for them, few where the browser has kept them.
const TELL: &str = "
onload = async () => {
    const lines = [];
    for (const picture of document.images)
        lines.push(`${picture.dataset.name} ${picture.naturalWidth} ${await load(picture.src)}`);
    const entries = performance.getEntriesByType('resource').filter(entry => entry.initiatorType == 'img');
    const moved = entries.reduce((sum, entry) => sum + entry.transferSize, 0);
    parent.postMessage({ moved, lines }, '*');
};
";

/// What the page around them does: it waits for all, downloads, loads everything again, and then
/// tells the test.
const COLLECT: &str = "
const heard = [];
onmessage = async event => {
    heard.push(event.data);
    if (heard.length < NAMES) return;
    const large = await load('/large.bin', { cache: 'no-store' });
    const moved = heard.reduce((sum, frame) => sum + frame.moved, 0);
    const lines = heard.flatMap(frame => frame.lines).sort();
    sessionStorage.said = (sessionStorage.said ?? '') + [`moved ${moved}`, `large ${large}`, ...lines].join('\\n') + '\\n';
    sessionStorage.loads = Number(sessionStorage.loads ?? 0) + 1;
    if (sessionStorage.loads < LOADS) return location.reload();
    fetch('REPORT', { method: 'POST', mode: 'no-cors', body: sessionStorage.said });
};
";

/// The sum of bytes: FNV-1a.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A picture of so many points a side, each of a random colour: a bitmap of Windows's.
fn picture(side: usize, random: &mut Random) -> Vec<u8> {
    let row = (side * 3).next_multiple_of(4);
    let length = 54 + row * side;
    let mut bytes = b"BM".to_vec();
    let words = [length, 0, 54, 40, side, side, 24 << 16 | 1, 0, row * side, 2835, 2835, 0, 0];
    words.iter().for_each(|word| bytes.extend((*word as u32).to_le_bytes()));
    bytes.extend((0..row * side).map(|_| random.below(256) as u8));
    bytes
}

/// Makes the site. Returns the lines that the page is to say at each load, but for what was moved.
fn write_site(folder: &Path, report: &str) -> Vec<String> {
    let site = folder.join("site");
    fs::create_dir(&site).expect("the folder is writable");
    let write = |name: &str, content: &[u8]| fs::write(site.join(name), content).expect("the folder is writable");
    write("../browser.toml", SYSTEM.as_bytes());

    let mut random = Random::new(0x00b2_0115);
    let mut pictures = vec![];
    let mut page = format!("<!doctype html><meta charset=utf-8><title>Pictures</title><script>{SUM}{TELL}</script>\n");
    for number in 0..PICTURES {
        let (name, side) = (format!("{number:02}.bmp"), 5 + number * 3);
        let bytes = picture(side, &mut random);
        write(&name, &bytes);
        writeln!(page, "<img src=\"{name}\" data-name=\"{name}\">").expect("a string takes all");
        pictures.push(format!("{name} {side} 200 {} {}", bytes.len(), sum(&bytes)));
    }
    write("pictures.html", page.as_bytes());

    let script = COLLECT.replace("NAMES", &NAMES.to_string()).replace("LOADS", &LOADS.to_string());
    let script = script.replace("REPORT", report);
    let mut page = format!("<!doctype html><meta charset=utf-8><title>Frames</title><script>{SUM}{script}</script>\n");
    for name in 0..NAMES {
        writeln!(page, "<iframe src=\"http://{name}.culm.test/pictures.html\"></iframe>").expect("a string takes all");
    }
    write("index.html", page.as_bytes());

    let large: Vec<u8> = (0..LARGE / 8).flat_map(|_| random.number().to_le_bytes()).collect();
    write("large.bin", &large);

    let mut lines = vec![format!("large 200 {LARGE} {}", sum(&large))];
    lines.extend(pictures.iter().flat_map(|line| std::iter::repeat_n(line.clone(), NAMES)));
    lines
}

/// Takes the content of the POST that comes, if it comes in time. `watch` is called meanwhile.
fn report(listener: &TcpListener, mut watch: impl FnMut()) -> Option<String> {
    listener.set_nonblocking(true).expect("a socket can be asked");
    let until = Instant::now() + PATIENCE;
    let (stream, _) = loop {
        match listener.accept() {
            Ok(accepted) => break accepted,
            Err(_) if Instant::now() > until => return None,
            Err(_) => watch(),
        }
        sleep(Duration::from_millis(20));
    };
    stream.set_nonblocking(false).expect("a socket can be asked");
    let mut reader = BufReader::new(&stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("the browser tells all");
        let Some((name, value)) = line.split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut content = vec![0; length];
    reader.read_exact(&mut content).expect("the browser tells all");
    // Nobody reads it.
    _ = (&stream).write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    Some(String::from_utf8(content).expect("the page tells in UTF-8"))
}

/// Has chromium load the page from this address, and looks at what it says of it.
fn load(machine: &Machine, listener: &TcpListener, address: &str, expected: &[String]) {
    let profile = tempfile::tempdir().expect("a folder for the browser");
    let own = format!("--user-data-dir={}", profile.path().display());
    let rules = format!("--host-resolver-rules=MAP *.culm.test {address}");
    // There is no server for HTTPS, which it would try first.
    let plain = "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable";
    let more = [&own, &rules, plain, "http://0.culm.test/"];
    let before = machine.status().counter("http", "connections");
    let browser = Background::start("chromium", &[&HEADLESS[..], &more].concat());
    let mut most = 0;
    let said = report(listener, || most = most.max(machine.status().counter("http", "open")));
    drop(browser);
    let said = said.unwrap_or_else(|| panic!("by {address} no page says anything; at most {most} connections"));

    let (mut moved, mut lines) = (vec![], vec![]);
    for line in said.lines() {
        match line.strip_prefix("moved ") {
            Some(bytes) => moved.push(bytes.parse::<u64>().expect("a number")),
            None => lines.push(line.to_string()),
        }
    }
    let expected: Vec<_> = (0..LOADS).flat_map(|_| expected.iter().cloned()).collect();
    assert_eq!(lines, expected, "by {address}");
    // What has not changed is not sent again.
    let [first, again] = moved[..] else { panic!("{LOADS} loads: {moved:?}") };
    assert!(first > again * 4, "by {address} {first} bytes of pictures, and {again} when they were loaded again");
    let connections = machine.status().counter("http", "connections") - before;
    assert!(most > 24 && connections > 24, "by {address} {most} connections at a time, {connections} in all");
}

#[test]
fn a_browser_loads_pages_with_many_pictures_again_and_again() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let expected = write_site(folder.path(), &format!("http://{HOST}:8000/"));
    let system = folder.path().join("browser.toml");
    on_a_wire(Boot::system(system.to_str().expect("temporary paths are text")), |machine| {
        let listener = TcpListener::bind((HOST, 8000)).expect("the namespace's ports are free");
        machine.wait_for_web();
        load(machine, &listener, &GUEST.to_string(), &expected);

        // A browser takes no address that means something on a link alone: a router gives another.
        ip(&format!("addr add fd00:c::1/64 dev {} nodad", wire::DEVICE)).expect("it can be added");
        let interface = format!("--interface={}", wire::DEVICE);
        let _router = Background::dnsmasq(&[
            "--port=0",
            &interface,
            "--bind-dynamic",
            "--enable-ra",
            "--dhcp-range=fd00:c::,ra-only",
        ]);
        let identifier = &wire::link_local(machine.mac()).segments()[4..];
        let mut own = Ipv6Addr::new(0xfd00, 0xc, 0, 0, 0, 0, 0, 0).segments();
        own[4..].copy_from_slice(identifier);
        let own = Ipv6Addr::from_segments(own);
        let until = Instant::now() + PATIENCE;
        while exchange_within(Duration::from_secs(2), (own, 80).into(), b"HEAD / HTTP/1.0\r\n\r\n").is_none() {
            assert!(Instant::now() < until, "nobody answers for {own}");
            sleep(Duration::from_millis(200));
        }
        load(machine, &listener, &format!("[{own}]"), &expected);
        machine.is_unharmed();
    });
}
