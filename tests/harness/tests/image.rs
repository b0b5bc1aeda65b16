//! Disk images that the tool makes, as other programs see them.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::root;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a program of the test set-up; some are in root's folder only.
fn run(program: &str, arguments: &[&str], folder: &Path) -> Output {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).current_dir(folder).env("PATH", path).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}; `./culm setup --tests` installs it"))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The same of a program that must succeed.
fn succeeds(program: &str, arguments: &[&str], folder: &Path) -> String {
    let output = run(program, arguments, folder);
    assert!(output.status.success(), "{program} {arguments:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn culm(arguments: &[&str], folder: &Path) -> Output {
    let tool = std::env::var("CULM").map_or_else(|_| root().join("culm"), Into::into);
    Command::new(tool).args(arguments).current_dir(folder).env("CULM_ROOT", root()).output().expect("`./culm` starts")
}

/// A folder with a site and the description of a disk.
fn described(table: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site");
    fs::create_dir_all(site.join("deep/empty")).expect("folders");
    fs::write(site.join("index.html"), "<p>text").expect("a file");
    fs::write(site.join("deep/A long name, with ünicode.txt"), vec![b'x'; 1_500_000]).expect("a file");
    for number in 0..300 {
        fs::write(site.join(format!("deep/file number {number}.txt")), format!("{number}")).expect("a file");
    }
    let text = format!(
        "table = \"{table}\"\n\
         [[partition]]\nname = \"site\"\nsize = \"40MiB\"\nfat = 32\nfolder = \"site\"\nbootable = true\n\
         [[partition]]\nname = \"data\"\nsize = \"8MiB\"\nfat = 16\nlabel = \"keeps\"\nfolder = \"site\"\n\
         [[partition]]\nname = \"raw\"\nsize = \"512KiB\"\n"
    );
    fs::write(folder.path().join("card.toml"), text).expect("a file");
    folder
}

/// Whether two folders are alike, by `diff`.
fn are_alike(folder: &Path, other: &str) {
    succeeds("diff", &["-r", "site", other], folder);
}

/// Compares what the file systems have with the site.
fn check_files(folder: &Path) {
    for (number, skip, count, label) in [(1, 1, 40, "SITE"), (2, 41, 8, "KEEPS")] {
        let part = format!("part{number}");
        let (from, to) = (format!("skip={skip}"), format!("count={count}"));
        let of = format!("of={part}");
        succeeds("dd", &["if=card.img", &of, "bs=1M", &from, &to, "status=none"], folder);
        let checked = succeeds("fsck.fat", &["-n", "-v", &part], folder);
        // The site's 302 files, two folders and the label.
        assert!(checked.contains("305 files"), "{checked}");
        let out = format!("out{number}");
        fs::create_dir(folder.join(&out)).expect("a folder");
        succeeds("mcopy", &["-s", "-i", &part, "::*", &out], folder);
        are_alike(folder, &out);
        assert!(succeeds("mlabel", &["-s", "-i", &part], folder).contains(label));
    }
}

#[test]
fn a_gpt_image_is_as_other_programs_want_it() {
    let folder = described("gpt");
    let output = culm(&["image", "card.toml", "-o", "card.img"], folder.path());
    assert!(output.status.success(), "{}", said(&output));
    let checked = succeeds("sgdisk", &["-v", "card.img"], folder.path());
    assert!(checked.contains("No problems found"), "{checked}");
    succeeds("sfdisk", &["--verify", "card.img"], folder.path());
    let table = succeeds("sfdisk", &["-J", "card.img"], folder.path());
    for part in [
        "\"label\": \"gpt\"",
        "\"start\": 2048,\n         \"size\": 81920",
        "\"name\": \"site\"",
        "\"attrs\": \"LegacyBIOSBootable\"",
        "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7",
        "\"size\": 1024,\n         \"type\": \"0FC63DAF-8483-4772-8E79-3D69D8477DE4\"",
    ] {
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        assert!(plain(&table).contains(&plain(part)), "no {part} in {table}");
    }
    check_files(folder.path());
}

#[test]
fn an_mbr_image_is_as_other_programs_want_it() {
    let folder = described("mbr");
    let output = culm(&["image", "card.toml", "-o", "card.img"], folder.path());
    assert!(output.status.success(), "{}", said(&output));
    succeeds("sfdisk", &["--verify", "card.img"], folder.path());
    let table = succeeds("sfdisk", &["-d", "card.img"], folder.path());
    for part in ["label: dos", "size=       81920, type=c, bootable", "size=       16384, type=e", "type=83"] {
        assert!(table.contains(part), "no {part} in {table}");
    }
    check_files(folder.path());
}

#[test]
fn an_image_is_not_written_over() {
    let folder = described("gpt");
    fs::write(folder.path().join("card.img"), "mine").expect("a file");
    let output = culm(&["image", "card.toml", "-o", "card.img"], folder.path());
    assert!(!output.status.success() && said(&output).contains("--force"), "{}", said(&output));
    assert_eq!(fs::read(folder.path().join("card.img")).expect("it is there"), b"mine");
    let output = culm(&["image", "card.toml", "-o", "card.img", "--force"], folder.path());
    assert!(output.status.success(), "{}", said(&output));
    let output = culm(&["image", "card.toml", "-o", "/dev/null", "--force"], folder.path());
    assert!(!output.status.success() && said(&output).contains("no regular file"), "{}", said(&output));
}

#[test]
fn a_mistake_leaves_no_image() {
    let folder = described("gpt");
    let path = folder.path().join("card.toml");
    let text = fs::read_to_string(&path).expect("it is there").replace("8MiB", "5MiB");
    fs::write(folder.path().join("site/more"), vec![1; 4 << 20]).expect("a file");
    fs::write(path, text).expect("a file");
    let output = culm(&["image", "card.toml", "-o", "card.img"], folder.path());
    let shown = said(&output);
    assert!(!output.status.success() && shown.contains("`site` does not fit"), "{shown}");
    assert!(shown.contains("card.toml:10:8"), "{shown}");
    assert!(!folder.path().join("card.img").exists());
}
