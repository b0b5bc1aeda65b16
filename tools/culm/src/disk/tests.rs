//! Descriptions of disks, and what is made of them.

use super::read::{Context, read};
use super::*;
use crate::diagnostics::{Diagnostics, Source};
use culm_manifest::reader::{Problems, TableReader, parse_table};
use culm_partition::{MAX_READ, Scan};
use lamfat::{DateTime, FileSystem, FsOptions, StdIoWrapper};
use proptest::prelude::*;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// Reads a description in `folder`; an error is what is shown.
fn described(text: &str, folder: &Path) -> Result<Disk, String> {
    described_for(false, text, folder)
}

/// [`described`], for an emulated SD card or another disk.
fn described_for(is_card: bool, text: &str, folder: &Path) -> Result<Disk, String> {
    let mut problems = Problems::new();
    let document = parse_table(text, &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    let table = TableReader::new("the disk", 0..0, document.get_ref());
    let find = |path: &str| folder.join(path);
    read(table, &Context { name: "test", find: &find, boots: true, is_card }, &mut problems).ok_or_else(|| {
        let mut found = Diagnostics::default();
        found.extend(&Source::new("disk.toml", text), problems);
        found.render(false)
    })
}

/// Makes a disk in memory.
fn made(disk: &Disk) -> Medium {
    let mut medium = Medium::in_memory(disk.size());
    make::write(disk, Path::new("test"), &mut medium).expect("it can be made");
    medium
}

/// The files of a partition, with their content, and its folders.
fn files_of(medium: &mut Medium, partition: &Partition) -> BTreeMap<String, Option<Vec<u8>>> {
    let part = medium.part(partition.first * SECTOR, partition.sectors * SECTOR);
    let mounted = FileSystem::new(StdIoWrapper::new(part), FsOptions::new()).expect("it is FAT");
    let mut found = BTreeMap::new();
    let mut left = vec![String::new()];
    while let Some(folder) = left.pop() {
        let root = mounted.root_dir();
        let opened = if folder.is_empty() { root } else { root.open_dir(&folder).expect("it is there") };
        for entry in opened.iter() {
            let entry = entry.expect("it can be read");
            let name = entry.file_name();
            if name == "." || name == ".." {
                continue;
            }
            let path = format!("{folder}{name}");
            if entry.is_dir() {
                left.push(format!("{path}/"));
                found.insert(path, None);
            } else {
                let mut content = Vec::new();
                entry.to_file().read_to_end(&mut content).expect("it can be read");
                found.insert(path, Some(content));
            }
        }
    }
    found
}

const TWO: &str = "[[partition]]\nname = \"site\"\nsize = \"40MiB\"\nfat = 32\nfolder = \"site\"\n\
                   [[partition]]\nname = \"data\"\nsize = \"8MiB\"\nfat = 16\n";

fn site(folder: &Path) {
    fs::create_dir_all(folder.join("site/deep/empty")).expect("folders");
    fs::write(folder.join("site/index.html"), "<p>text").expect("a file");
    fs::write(folder.join("site/deep/A long näme of a file.txt"), vec![7; 100_000]).expect("a file");
    fs::write(folder.join("site/.hidden"), "no").expect("a file");
    for file in ["site/index.html", "site/deep/A long näme of a file.txt"] {
        set_modified(&folder.join(file), WRITTEN);
    }
}

/// A time, in seconds since 1970: 12:34:56 UTC on 29 February 2000.
const WRITTEN: u64 = 951_827_696;

fn set_modified(path: &Path, seconds: u64) {
    let file = fs::File::options().append(true).open(path).expect("a file");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).expect("a time");
}

/// The date of `index.html` in the first partition, if nothing is dated later than `latest`.
fn date_of_index(disk: &Disk, latest: u64) -> String {
    let (partition, mut medium) = (&disk.partitions[0], Medium::in_memory(disk.size()));
    let volume = partition.volume.as_ref().expect("it is FAT");
    let content = volume.content().expect("it can be read");
    let (first, length) = (partition.first * SECTOR, partition.sectors * SECTOR);
    fat::format(volume, medium.part(first, length)).expect("it can be made");
    fill::fill(&content, latest, medium.part(first, length), &mut |_| ()).expect("it can be made");
    let part = StdIoWrapper::new(medium.part(first, length));
    let mounted = FileSystem::new(part, FsOptions::new()).expect("it is FAT");
    let mut entries = mounted.root_dir().iter().map(|entry| entry.expect("it can be read"));
    let entry = entries.find(|entry| entry.file_name() == "index.html").expect("it is there");
    let DateTime { date, time, .. } = entry.modified();
    format!("{}-{}-{} {}:{}:{}", date.year, date.month, date.day, time.hour, time.min, time.sec)
}

#[test]
fn files_have_the_dates_of_their_sources_up_to_a_latest_one() {
    let folder = tempfile::tempdir().expect("a folder");
    site(folder.path());
    let disk = described(TWO, folder.path()).expect("it is well");
    assert_eq!(date_of_index(&disk, u64::MAX), "2000-2-29 12:34:56");
    assert_eq!(date_of_index(&disk, WRITTEN), "2000-2-29 12:34:56");
    assert_eq!(date_of_index(&disk, WRITTEN - 86_400), "2000-2-28 12:34:56");
    assert_eq!(date_of_index(&disk, 0), "1980-1-1 0:0:0");
    set_modified(&folder.path().join("site/index.html"), WRITTEN + 4);
    assert_eq!(date_of_index(&disk, u64::MAX), "2000-2-29 12:35:0");
}

#[test]
fn the_latest_date_is_a_count_of_seconds() {
    let latest = |text: &str| make::latest_date(Some(text.as_ref())).map_err(|failure| failure.to_string());
    assert_eq!(make::latest_date(None).ok(), Some(u64::MAX));
    assert_eq!(latest("951827696"), Ok(WRITTEN));
    for text in ["", "yesterday", "-1", "1.5"] {
        let refused = latest(text).expect_err(text);
        assert!(refused.contains(&format!("SOURCE_DATE_EPOCH is `{text}`, and that is no time")), "{refused}");
    }
}

/// QEMU has no other cards, and the backup of the table stands at the end of all that there is.
#[test]
fn the_size_of_an_emulated_card_is_a_power_of_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "partition = [{ name = \"data\", size = \"8MiB\" }]\n";
    let sizes = [false, true].map(|is_card| described_for(is_card, text, folder.path()).expect("it is well").size());
    assert_eq!(sizes, [10 << 20, 16 << 20]);
    let refused = described_for(true, &format!("size = \"10MiB\"\n{text}"), folder.path()).expect_err("no such card");
    assert!(refused.contains("QEMU has no SD card of 10MiB") && refused.contains("the next one is 16MiB"), "{refused}");
}

#[test]
fn what_is_described_is_on_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    site(folder.path());
    for table in ["gpt", "mbr"] {
        let disk = described(&format!("table = \"{table}\"\n{TWO}"), folder.path()).expect("it is well");
        let mut medium = made(&disk);
        let mut scan = Scan::new(disk.sectors, 0, MAX_READ);
        while let Some(wanted) = scan.wants() {
            let mut bytes = vec![0; wanted.blocks as usize * SECTOR as usize];
            medium.read_at(wanted.block * SECTOR, &mut bytes).expect("it is on the disk");
            scan.give(Some(&bytes));
        }
        let found = scan.finish().expect("it has ended").expect("there is a table");
        assert!(found.flaw.is_none(), "{:?}", found.flaw);
        let found: Vec<(u64, u64)> = found.partitions.iter().map(|found| (found.first, found.blocks)).collect();
        assert_eq!(found, [(2048, 80 * 1024), (2048 + 80 * 1024, 16 * 1024)], "{table}");
        let files = files_of(&mut medium, &disk.partitions[0]);
        let expected = [
            ("deep", None),
            ("deep/A long näme of a file.txt", Some(vec![7; 100_000])),
            ("deep/empty", None),
            ("index.html", Some(b"<p>text".to_vec())),
        ];
        assert_eq!(files, expected.map(|(name, content)| (name.to_string(), content)).into());
        assert!(files_of(&mut medium, &disk.partitions[1]).is_empty());
    }
}

#[test]
fn the_same_files_make_the_same_bytes() {
    let (first, second) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let image = |folder: &Path| {
        let disk = described(TWO, folder).expect("it is well");
        make(&disk, &folder.join("disk.img")).expect("it can be made");
        let left = fs::read_dir(folder).expect("it is there").count();
        assert_eq!(left, 2, "the folder and the image");
        fs::read(folder.join("disk.img")).expect("it is there")
    };
    site(first.path());
    site(second.path());
    let before = image(first.path());
    std::thread::sleep(Duration::from_millis(20));
    assert!(before == image(second.path()));
    fs::write(first.path().join("site/index.html"), "<p>else").expect("a file");
    assert!(before != image(first.path()));
}

/// Returns the error of a description in a folder with a `site`.
fn refusal(text: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    site(folder.path());
    described(text, folder.path()).expect_err(text)
}

#[test]
fn mistakes_are_underlined() {
    let one = |keys: &str| format!("partition = [{{ name = \"a\", {keys} }}]\n");
    let cases = [
        ("offset = 3\n".to_string() + &one("size = 512"), "unknown key `offset`"),
        (String::new(), "the disk has no `partition`"),
        ("table = \"bsd\"\n".to_string() + &one("size = 512"), "`bsd` is not something"),
        (one("size = 513"), "`size` is no whole count of sectors"),
        (one("length = \"1MiB\""), "unknown key `length`"),
        ("partition = [{ size = 512 }]".into(), "the partition has no `name`"),
        (one("start = 512"), "partition `a` has no size"),
        (one("size = 512, start = 512"), "partition `a` begins within the GPT"),
        (one("size = \"1MiB\", fat = 32"), "there is no FAT32 of 1MiB"),
        (one("size = \"3GiB\", fat = 16"), "there is no FAT16 of 3GiB"),
        (one("size = \"8MiB\", fat = 12"), "there is no FAT12 here"),
        (one("size = \"8MiB\", folder = \"site\""), "partition `a` has no file system for it"),
        (one("size = \"8MiB\", fat = 16, folder = \"none\""), "cannot list"),
        (one("size = \"8MiB\", fat = 16, label = \"a.b\""), "`a.b` is no label"),
        (one("size = 512, uuid = \"123\""), "`123` is no UUID"),
        ("table = \"mbr\"\nuuid = \"00000000\"\n".to_string() + &one("size = 512"), "no signature of an MBR"),
        ("align = 3\n".to_string() + &one("size = 512"), "cannot be aligned so"),
        ("size = \"1MiB\"\n".to_string() + &one("size = \"1MiB\""), "the disk is too small for its partitions"),
        ("size = \"2MiB\"\n".to_string() + &one("start = \"2MiB\""), "the disk is too small for partition `a`"),
        ("table = \"mbr\"\n".to_string() + &one("size = \"2048GiB\""), "beyond what the table can say"),
        (
            "partition = [{ name = \"a\", size = \"2MiB\" }, { name = \"b\", size = 512, start = \"2MiB\" }]".into(),
            "partition `b` overlaps `a`",
        ),
        (
            "partition = [{ name = \"a\", size = 512 }, { name = \"a\", size = 512 }]".into(),
            "two partitions are called `a`",
        ),
        (
            "table = \"mbr\"\npartition = [".to_string()
                + &(0..5).map(|index| format!("{{ name = \"p{index}\", size = 512 }},")).collect::<String>()
                + "]",
            "5 partitions are too many",
        ),
    ];
    for (text, message) in cases {
        let shown = refusal(&text);
        assert!(shown.contains(message) && shown.contains("^"), "{text}\n{shown}");
        assert!(shown.contains("help: "), "{text}\n{shown}");
    }
}

#[test]
fn a_mistake_says_what_would_do_and_brings_no_further_one() {
    let one = |keys: &str| refusal(&format!("partition = [{{ name = \"a\", {keys} }}]\n"));
    assert!(one("size = \"2MiB\", fat = 16").contains("FAT16 has from about 5MiB to 2047MiB here\n"));
    assert!(one("size = \"3GiB\", fat = 16").contains("to 2047MiB here; `fat = 32` is for more\n"));
    assert!(one("size = \"8MiB\", fat = 32").contains("to 2047GiB here; `fat = 16` is for less\n"));
    let shown = refusal("size = \"1MiB\"\npartition = [{ name = \"a\", size = \"1MiB\" }]\n");
    assert!(shown.contains("they need 3MiB\n"), "{shown}");
    // `fat` is there, if not as it must be.
    let shown = one("size = \"8MiB\", fat = \"32\", folder = \"site\", label = \"A\"");
    assert!(shown.contains("must be a whole number") && !shown.contains("no file system"), "{shown}");
}

#[test]
fn a_folder_that_does_not_fit_is_found_before() {
    let folder = tempfile::tempdir().expect("a folder");
    site(folder.path());
    let text = "[[partition]]\nname = \"a\"\nsize = \"8MiB\"\nfat = 16\nfolder = \"site\"\n";
    let disk = described(text, folder.path()).expect("it fits");
    let volume = disk.partitions[0].volume.as_ref().expect("a file system");
    let room = fat::capacity(volume, disk.partitions[0].sectors).expect("there is one");
    let used = |content: &Content| content.files.values().map(|file| file.size.div_ceil(room.cluster)).sum::<u64>();
    let content = volume.content().expect("it can be read");
    // Each of the two folders below the first one has a cluster.
    let left = (room.clusters - used(&content) - 2) * room.cluster;
    fs::write(folder.path().join("site/fill"), vec![1; left as usize]).expect("a file");
    let disk = described(text, folder.path()).expect("it just fits");
    assert_eq!(files_of(&mut made(&disk), &disk.partitions[0])["fill"].as_ref().map(Vec::len), Some(left as usize));
    fs::write(folder.path().join("site/fill"), vec![1; left as usize + 1]).expect("a file");
    let shown = described(text, folder.path()).expect_err("it does not fit");
    assert!(shown.contains("`site` does not fit"), "{shown}");
    fs::remove_file(folder.path().join("site/fill")).expect("it is there");
    for number in 0..600 {
        fs::write(folder.path().join(format!("site/{number}")), "").expect("a file");
    }
    let shown = described(text, folder.path()).expect_err("too many in the first folder");
    assert!(shown.contains("its first folder has room for 511 entries"), "{shown}");
}

#[test]
fn names_that_fat_does_not_have_are_refused() {
    for (name, message) in [("a:b", "no name has one of"), ("dot.", "no name begins"), ("INDEX.html", "the same name")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        site(folder.path());
        fs::write(folder.path().join("site").join(name), "").expect("a file");
        let shown = described(TWO, folder.path()).expect_err(name);
        assert!(shown.contains(message), "{shown}");
    }
}

/// Makes a partition of this kind with these files, each of which has its path for a content, and
/// returns the disk with what is on it.
fn filled(kind: &str, paths: &[&str]) -> (Disk, Medium) {
    let folder = tempfile::tempdir().expect("a folder");
    for path in paths {
        let file = folder.path().join("site").join(path);
        fs::create_dir_all(file.parent().expect("the folder")).expect("a folder");
        fs::write(file, path).expect("a file");
    }
    let text = format!("partition = [{{ name = \"a\", size = \"40MiB\", {kind}, folder = \"site\" }}]\n");
    let disk = described(&text, folder.path()).expect("it is well");
    let medium = made(&disk);
    (disk, medium)
}

/// Tests that each name is on the volume with the content of its own file: names that begin outside
/// of ASCII, that are the short names of others, or that are others' once `ß` is `SS`.
#[test]
fn every_name_has_its_own_content() {
    let deep = "d/".repeat(15) + "file";
    let paths = [
        "übrig.txt",
        "日本/éa.txt",
        "a long name.txt",
        "alongn~1.txt",
        "another folder/one",
        "other~1",
        "Maße",
        "Masse",
        "folder of long names/a long name.txt",
        "folder of long names/ALONGN~1.TXT",
        "folder of long names/a long name 2.txt",
        &deep,
    ];
    for kind in ["fat = 16", "fat = 32"] {
        let (disk, mut medium) = filled(kind, &paths);
        let files = files_of(&mut medium, &disk.partitions[0]);
        let files = files.into_iter().filter_map(|(path, content)| Some((path, String::from_utf8(content?))));
        let expected = paths.map(|path| (path.to_string(), Ok(path.to_string())));
        assert_eq!(files.collect::<BTreeMap<_, _>>(), expected.into(), "{kind}");
        assert_eq!(complaint(&mut medium, &disk.partitions[0]), None, "{kind}");
    }
}

/// Returns what `fsck.fat` says of a partition, if it finds anything.
fn complaint(medium: &mut Medium, partition: &Partition) -> Option<String> {
    let mut bytes = vec![0; (partition.sectors * SECTOR) as usize];
    medium.read_at(partition.first * SECTOR, &mut bytes).expect("it is on the disk");
    let volume = tempfile::NamedTempFile::new().expect("a file");
    fs::write(volume.path(), bytes).expect("a file");
    let checked = Command::new("fsck.fat").arg("-n").arg(volume.path()).output();
    let checked = checked.expect("`./culm setup --tests` installs it");
    (!checked.status.success()).then(|| String::from_utf8_lossy(&checked.stdout).into_owned())
}

/// Tests that what the file service's clients could not open is refused before anything is written.
#[test]
fn paths_that_culm_does_not_open_are_refused() {
    let name = "n".repeat(240);
    let content = |path: &str| {
        let more = BTreeMap::from([(path.into(), FileSource::Text(String::new()))]);
        Volume { kind: Fat::Fat16, label: None, id: 1, folder: None, boot: None, more }.content()
    };
    // With the `/` in front it has as many bytes as a path of the file class.
    let longest = format!("{name}/{}", "m".repeat(238));
    assert_eq!(longest.len() + 1, culm_abi::connection::file::MAX_PATH);
    assert!(content(&longest).is_ok());
    for (path, message) in [
        ("d/".repeat(16) + "file", "a path has 16 names at most"),
        (longest + "x", "a path has 479 bytes at most"),
        ("\u{1f600}.txt".into(), "no name has a letter beyond U+FFFF"),
        ("é".repeat(128), "a name has 255 bytes at most"),
    ] {
        let refused = content(&path).expect_err(&path).to_string();
        assert!(refused.contains(message) && refused.contains(&path), "{refused}");
    }
}

#[test]
fn what_is_added_hides_no_file_of_the_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    site(folder.path());
    let mut disk = described(TWO, folder.path()).expect("it is well");
    let volume = disk.partitions[0].volume.as_mut().expect("a file system");
    volume.more.insert("new/one.txt".into(), FileSource::Text("1".into()));
    let files = files_of(&mut made(&disk), &disk.partitions[0]);
    assert_eq!(files["new/one.txt"].as_deref(), Some(&b"1"[..]));
    assert!(files.contains_key("index.html"));
    let volume = disk.partitions[0].volume.as_mut().expect("a file system");
    volume.more.insert("index.html".into(), FileSource::Text("2".into()));
    let failure = volume.content().expect_err("there are two").to_string();
    assert!(failure.contains("`index.html`"), "{failure}");
}

#[test]
fn bounds_of_file_systems_are_near() {
    for kind in [Fat::Fat16, Fat::Fat32] {
        let volume = Volume { kind, label: None, id: 1, folder: None, boot: None, more: BTreeMap::new() };
        let (least, most) = fat::bounds(kind);
        let is_there = |sectors| fat::capacity(&volume, sectors).is_some();
        let first = (least / 2..=least).find(|sectors| sectors % 64 == 0 && is_there(*sectors));
        assert!(first.is_some_and(|first| first > least - least / 64), "{kind:?}: from {first:?}, not {least}");
        for size in [least, least * 2, 70 << 11, 130 << 11, 1 << 21, 1 << 22, 1 << 24] {
            let size = size.clamp(least, most);
            assert!(is_there(size), "{kind:?}: not {size}");
        }
    }
}

#[test]
fn a_record_tells_what_has_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    site(folder.path());
    let record = |text: &str| Record::of(&described(text, folder.path()).expect("it is well")).expect("it can be read");
    let then = record(TWO);
    let stored = folder.path().join("record");
    fs::write(&stored, then.text()).expect("a file");
    let then = Record::read(&stored).expect("it is there");
    assert_eq!(then.compare(&record(TWO)), State::Same);
    let other = TWO.replace("8MiB", "9MiB");
    let State::Description(before, now) = then.compare(&record(&other)) else { panic!("it has changed") };
    assert!(before.contains("of 52428800 bytes") && now.contains("of 53477376 bytes"), "{before} {now}");
    let State::Description(_, now) = record(&other).compare(&then) else { panic!("it has changed") };
    assert!(now.contains("52428800"));
    fs::write(folder.path().join("site/new"), "").expect("a file");
    assert_eq!(then.compare(&record(TWO)), State::Files(vec!["site".into()]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn partitions_lie_apart_and_on_the_disk(
        is_gpt in any::<bool>(),
        align in 0..12_u32,
        places in prop::collection::vec((prop::option::of(0..20_000_u64), 0..10_000_u64), 1..5),
        size in prop::option::of(1..40_000_u64),
    ) {
        let mut text = format!("table = \"{}\"\nalign = {}\n", if is_gpt { "gpt" } else { "mbr" }, SECTOR << align);
        if let Some(size) = size {
            text += &format!("size = {}\n", size * SECTOR);
        }
        for (index, (start, sectors)) in places.iter().enumerate() {
            text += &format!("[[partition]]\nname = \"p{index}\"\n");
            if let Some(start) = start {
                text += &format!("start = {}\n", start * SECTOR);
            }
            if *sectors > 0 {
                text += &format!("size = {}\n", sectors * SECTOR);
            }
        }
        if let Ok(disk) = described(&text, Path::new("")) {
            let (head, tail) = disk.table.reserved();
            let mut taken = vec![0..head, disk.sectors - tail..disk.sectors];
            for partition in &disk.partitions {
                let place = partition.first..partition.first + partition.sectors;
                prop_assert!(taken.iter().all(|other| place.end <= other.start || other.end <= place.start));
                prop_assert!(place.end <= disk.sectors - tail && !place.is_empty());
                taken.push(place);
            }
            prop_assert!(size.is_none_or(|size| size == disk.sectors));
        }
    }
}
