//! The file service dies under verified load, at any instruction: nothing that was committed is
//! lost or there twice, and the volume is whole. It dies a few dozen times in the usual run, a
//! thousand times if `CULM_SOAK` is set.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::deaths::{Deaths, wait_for_more};
use culm_tests_harness::volume::{content, program, run, wait_for_rest};
use culm_tests_harness::{Boot, free_port};
use std::path::Path;

/// A client's line of each round in which it has written, replaced, appended, read and renamed.
const ROUND: &str = "was read as it was written";

/// Lines that a client appends to its log in each round, in one commit.
const LINES: usize = 20;

/// Clients, the seeds of their first rounds, and those of their last.
const CLIENTS: [(&str, u64, u64); 2] = [("first", 1, 900_000_001), ("second", 1_000_000_001, 1_900_000_001)];

/// Writes a description of two clients on a disk, of so many rounds each.
fn describe(folder: &Path, name: &str, rounds: u32, seed: impl Fn(&(&str, u64, u64)) -> u64) -> String {
    let mut text = format!(
        "name = \"{name}\"\ndescription = \"A file service that dies\"\nboard = \"virt\"\n[device.uart0]\npriority = 220\n\
         [device.disk0]\npriority = 200\nimage = \"disk.img\"\n\
         [pd.files]\ncomponent = \"file\"\npriority = 150\n\
         restart = {{ limit = 1000, window = \"1ms\", backoff = \"1ms\" }}\n\
         disk = {{ device = \"disk0\", memory = \"256KiB\", queue = 128 }}\n"
    );
    for client in &CLIENTS {
        let (name, seed) = (client.0, seed(client));
        text += &format!(
            "[pd.{name}]\ncomponent = \"file-test\"\npriority = 100\nconfig = {{ seed = {seed}, rounds = {rounds} }}\n\
             files = {{ device = \"files\", folder = \"/{name}\", write = true, memory = \"256KiB\" }}\n"
        );
    }
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, text).expect("the folder is writable");
    file.to_str().expect("temporary paths are text").into()
}

/// Checks a client's log: each round's lines are there, together and in order. A round that has
/// lost the answer to its commit is begun again, and then has its lines twice.
fn check_log(log: &str, first: u64, done: usize, last: u64) {
    let lines: Vec<&str> = log.lines().collect();
    let of = |seed: u64| (0..LINES).map(move |line| format!("line {line} of seed {seed}"));
    let mut seeds: Vec<u64> = Vec::new();
    for lines in lines.chunks(LINES) {
        let seed = lines[0].rsplit(' ').next().and_then(|seed| seed.parse().ok()).expect("a line ends in a seed");
        assert!(of(seed).eq(lines.iter().map(|line| (*line).to_owned())), "{lines:?}");
        seeds.push(seed);
    }
    let again = seeds.windows(2).filter(|pair| pair[0] == pair[1]).count();
    eprintln!("{} commits of {done} rounds, {again} of them begun again", seeds.len());
    seeds.dedup();
    let end = seeds.len() as u64 - 1;
    assert!(seeds.iter().copied().eq((first..first + end).chain([last])), "{seeds:?}");
    // Some may have been committed after the first machine was looked at last.
    assert!((done..=done + 3).contains(&(end as usize)), "{end} rounds are in the log, {done} were done");
}

#[test]
fn a_file_service_that_dies_loses_nothing_and_doubles_nothing() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let image = folder.path().join("disk.img");
    std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("there is space");
    run(program("mkfs.fat").args(["-F", "32", "-s", "1"]).arg(&image));
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let boot = Boot::system(describe(folder.path(), "file-deaths", 900_000_000, |client| client.1));
    let mut machine = boot.option(&["--qemu", "-gdb", "--qemu", &listen]).start(&[]);
    Deaths { port, system: "file-deaths-virt", domain: "files", round: ROUND }.run(&mut machine);
    let rounds = |console: &str, client: &str| {
        console.lines().filter(|line| line.contains(&format!("{client}: seed ")) && line.contains(ROUND)).count()
    };
    for (client, ..) in CLIENTS {
        let console = machine.console();
        let seed = format!("{client}: seed ");
        wait_for_more(&mut machine, &seed, console.matches(&seed).count() + 1);
    }
    let console = machine.console();
    for wrong in ["too often", "file-test failed", " error files: "] {
        assert!(!console.contains(wrong), "{wrong}:\n{}", machine.tail());
    }
    machine.interrupt();
    // The next machine recovers the volume and does one round more.
    let boot = Boot::system(describe(folder.path(), "file-deaths-end", 1, |client| client.2));
    let mut machine = boot.start(&[]);
    for (client, ..) in CLIENTS {
        machine.expect_anywhere(&format!("{client}: file-test passed"));
    }
    wait_for_rest(&image);
    machine.interrupt();
    for (client, first, last) in CLIENTS {
        let log = content(&image, &format!("/{client}/folder/the log"));
        check_log(&String::from_utf8_lossy(&log), first, rounds(&console, client), last);
    }
}
