//! Clients of one volume that do what they must not, beside an honest one that compares all that it
//! reads: it goes on, and no file but its own changes.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::Boot;
use culm_tests_harness::deaths::wait_for_more;
use culm_tests_harness::volume::{content, program, run};
use std::fmt::Write as _;
use std::path::Path;

/// The behaviour of each hostile client, whose folder is called so.
const RULES: [&str; 7] = ["forge", "outside", "paths", "change", "keep", "flood", "scribble"];

/// A folder that is nobody's.
const BYSTANDER: &str = "bystander";

/// The line that the honest client prints for each pattern that it wrote and read back.
const ROUND: &str = "was read as it was written";

/// Bytes of the file in each folder.
const SIZE: usize = 40_000;

/// The hostile clients run above the honest one, on a budget, and so does the volume's server. That
/// one works for them in its own time: without a budget of its own it can leave the honest client
/// none for as long as they ask, which a slow or busy machine shows. The honest client's memory is
/// behind theirs.
fn description() -> String {
    let mut text = "name = \"hostile-files\"\ndescription = \"Hostile clients of a volume\"\nboard = \"virt\"\n\
                    [device.uart0]\npriority = 220\n[device.disk0]\npriority = 200\nimage = \"disk.img\"\n\
                    [pd.files]\ncomponent = \"file\"\npriority = 180\nbudget = \"5ms\"\nperiod = \"10ms\"\n\
                    disk = { device = \"disk0\", memory = \"256KiB\", queue = 128 }\n"
        .to_string();
    for rule in RULES {
        let _ = writeln!(
            text,
            "[pd.{rule}]\ncomponent = \"misbehave-file\"\npriority = 150\nbudget = \"500us\"\nperiod = \"10ms\"\n\
             config = {{ rule = \"{rule}\" }}\n\
             files = {{ device = \"files\", folder = \"/{rule}\", write = {}, memory = \"16KiB\" }}",
            rule != "change"
        );
    }
    text + "[pd.honest]\ncomponent = \"file-test\"\npriority = 100\nconfig = { rounds = 1_000_000 }\n\
            files = { device = \"files\", folder = \"/honest\", write = true, memory = \"256KiB\" }\n"
}

/// Returns the content of the file in a folder.
fn own(folder: &str) -> Vec<u8> {
    folder.bytes().cycle().take(SIZE).collect()
}

/// Makes a volume with a file in each folder.
fn make(image: &Path, folder: &Path) {
    std::fs::File::create(image).and_then(|file| file.set_len(64 << 20)).expect("there is space");
    run(program("mkfs.fat").args(["-F", "32", "-s", "1"]).arg(image));
    let file = folder.join("own");
    for name in RULES.into_iter().chain([BYSTANDER]) {
        std::fs::write(&file, own(name)).expect("the folder is writable");
        run(program("mmd").arg("-i").arg(image).arg(format!("::{name}")));
        run(program("mcopy").arg("-i").arg(image).arg(&file).arg(format!("::{name}/own")));
    }
    run(program("mmd").arg("-i").arg(image).arg("::honest"));
}

#[test]
fn an_honest_client_is_served_beside_hostile_ones() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let (file, image) = (folder.path().join("hostile-files.toml"), folder.path().join("disk.img"));
    std::fs::write(&file, description()).expect("the folder is writable");
    make(&image, folder.path());
    let mut machine = Boot::system(file.to_str().expect("temporary paths are text")).start(&[]);
    for rule in RULES {
        machine.expect_anywhere(&format!("{rule}: has acted 10000 times"));
    }
    let rounds = machine.console().matches(ROUND).count();
    wait_for_more(&mut machine, ROUND, rounds + 2);
    let console = machine.console();
    for wrong in [" error honest: ", "file-test failed", " faulted: "] {
        assert!(!console.contains(wrong), "{wrong}:\n{}", machine.tail());
    }
    machine.interrupt();
    for name in RULES.into_iter().chain([BYSTANDER]) {
        assert!(content(&image, &format!("/{name}/own")) == own(name), "the file of {name} is another one");
        let listed = run(program("mdir").args(["-b", "-i"]).arg(&image).arg(format!("::{name}")));
        assert_eq!(String::from_utf8_lossy(&listed).trim(), format!("::/{name}/own"));
    }
}
