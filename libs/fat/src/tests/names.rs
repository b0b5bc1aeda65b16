//! Names: which are the same, which short ones are made, and damaged ones.

use super::*;
use crate::entry::checksum;

fn remove(volume: &mut Volume, disk: &mut Disk, path: &str) -> Result<Answer, Error> {
    run(volume, disk, Operation::Remove { path: path.into() })
}

#[test]
fn names_that_differ_in_more_than_case_are_different_files() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    let names = ["Äpfel.txt", "Apfel.txt", "Maße.txt", "Masse.txt", "ı", "i", "ſ", "s", "ﬁ", "fi", "Ä", "Ö", "Ü"];
    for name in names {
        write(&mut volume, &mut disk, name, name.as_bytes()).unwrap();
    }
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "Straße".into() }).unwrap();
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "Strasse".into() }).unwrap();
    for name in names {
        assert_eq!(read(&mut volume, &mut disk, name).unwrap(), name.as_bytes(), "{name}");
    }
    assert_eq!(list(&mut volume, &mut disk, "/").unwrap().len(), names.len() + 2);
    let rename = Operation::Rename { from: "Maße.txt".into(), to: "MASSE.txt".into(), replace: false };
    assert_eq!(run(&mut volume, &mut disk, rename), Err(Error::Exists));
    remove(&mut volume, &mut disk, "STRASSE").unwrap();
    assert_eq!(remove(&mut volume, &mut disk, "STRASSE"), Err(Error::NotFound));
    for name in names {
        remove(&mut volume, &mut disk, name).unwrap();
    }
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(disk.complaint(), None);
    assert_eq!(list(&mut volume, &mut disk, "/").unwrap(), ["Straße/"]);
}

#[test]
fn a_name_for_which_no_short_one_is_left_is_refused() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    for first in ["+", ",", ";", "=", "[", "]"] {
        write(&mut volume, &mut disk, &format!("{first}rger"), first.as_bytes()).unwrap();
    }
    assert_eq!(write(&mut volume, &mut disk, "Ärger", b"x"), Err(Error::Exists));
    remove(&mut volume, &mut disk, "=rger").unwrap();
    write(&mut volume, &mut disk, "Ärger", b"x").unwrap();
    write(&mut volume, &mut disk, "=rger", b"y").unwrap();
    assert_eq!(read(&mut volume, &mut disk, "ärger").unwrap(), b"x");
}

#[test]
fn a_file_is_not_written_anew_under_two_of_its_names() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    write(&mut volume, &mut disk, "a long name.txt", b"old").unwrap();
    let create = |volume: &mut Volume, disk: &mut Disk, path: &str| {
        opened(volume, disk, Operation::Create { path: path.into() }).map(|(file, _)| file)
    };
    let first = create(&mut volume, &mut disk, "a long name.txt").unwrap();
    assert_eq!(create(&mut volume, &mut disk, "ALONGN~1.TXT"), Err(Error::Busy));
    // Under the same name, whoever publishes last has it, as with files that are not there yet.
    let other = create(&mut volume, &mut disk, "/A LONG NAME.TXT").unwrap();
    run(&mut volume, &mut disk, Operation::Close { file: other }).unwrap();
    write_open(&mut volume, &mut disk, first, 0, b"new").unwrap();
    assert_eq!(create(&mut volume, &mut disk, "alongn~1.txt"), Err(Error::Busy));
    run(&mut volume, &mut disk, Operation::Close { file: first }).unwrap();
    write(&mut volume, &mut disk, "ALONGN~1.TXT", b"newer").unwrap();
    assert_eq!(read(&mut volume, &mut disk, "a long name.txt").unwrap(), b"newer");
    // A file that is appended to is busy under its other name, too.
    let (log, _) = opened(&mut volume, &mut disk, Operation::Append { path: "ALONGN~1.TXT".into() }).unwrap();
    assert_eq!(create(&mut volume, &mut disk, "a long name.txt"), Err(Error::Busy));
    run(&mut volume, &mut disk, Operation::Close { file: log }).unwrap();
}

/// Makes another short name of the first `from`, and sets its attributes and its first cluster.
/// Its long name, if it has one, stays.
fn forge(disk: &mut Disk, from: &[u8; 11], to: &[u8; 11], attributes: u8, first: u16) {
    let at = disk.bytes.windows(11).position(|bytes| bytes == from).expect("it is there");
    disk.bytes[at..at + 11].copy_from_slice(to);
    disk.bytes[at + 11] = attributes;
    disk.bytes[at + 26..at + 28].copy_from_slice(&first.to_le_bytes());
    disk.bytes[at - 32 + 13] = checksum(to);
}

#[test]
fn what_is_removed_is_the_entry_that_was_found() {
    // An entry that begins with a dot, which is passed over, has the long name of a file behind it.
    for first in [0, 1, 5] {
        let mut disk = Disk::small();
        let mut volume = mounted(&mut disk);
        for name in ["victim1", "keep", "victim2"] {
            write(&mut volume, &mut disk, name, &pattern(1, 5000)).unwrap();
        }
        run(&mut volume, &mut disk, Operation::Rest).unwrap();
        forge(&mut disk, b"VICTIM1    ", b".ICTIM2    ", 0x10, first);
        let at = disk.bytes.windows(11).position(|bytes| bytes == b".ICTIM2    ").expect("it is there");
        // The seventh character of its long name.
        disk.bytes[at - 32 + 16] = b'2';
        let mut volume = mounted(&mut disk);
        assert_eq!(list(&mut volume, &mut disk, "/").unwrap(), ["keep", "victim2"]);
        let free = space(&mut volume, &mut disk);
        remove(&mut volume, &mut disk, "victim2").unwrap();
        assert_eq!(list(&mut volume, &mut disk, "/").unwrap(), ["keep"]);
        assert_eq!(disk.bytes[at], b'.', "the other entry stays");
        assert_eq!(space(&mut volume, &mut disk), free + 5120);
        // To make it anew is another way to search.
        write(&mut volume, &mut disk, "victim2", b"new").unwrap();
        assert_eq!(read(&mut volume, &mut disk, "victim2").unwrap(), b"new");
        assert_eq!(disk.bytes[at], b'.');
    }
}

fn space(volume: &mut Volume, disk: &mut Disk) -> u64 {
    match run(volume, disk, Operation::Count) {
        Ok(Answer::Counted(space)) => space.free,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_removed_name_leaves_no_part_of_it() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    let long = "n".repeat(255);
    for name in ["x", &long, "thirteen chars", "日本語"] {
        write(&mut volume, &mut disk, name, b"x").unwrap();
        remove(&mut volume, &mut disk, name).unwrap();
    }
    let word = |at: usize| usize::from(u16::from_le_bytes([disk.bytes[at], disk.bytes[at + 1]]));
    let root = (word(14) + 2 * word(22)) * BLOCK;
    assert_eq!(disk.bytes[root], 0xe5);
    for entry in disk.bytes[root..root + 32 * 32].chunks(32) {
        assert!(matches!(entry[0], 0 | 0xe5), "{entry:x?}");
    }
}

#[test]
fn a_name_that_no_path_can_have_is_listed_by_its_short_name() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    for name in ["first", "slash it", "dot at end", "lone half", "none", "last"] {
        write(&mut volume, &mut disk, name, name.as_bytes()).unwrap();
    }
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    let mut change = |from: &str, index: usize, unit: u16| {
        let wide: Vec<u8> = from.encode_utf16().take(5).flat_map(u16::to_le_bytes).collect();
        let at = disk.bytes.windows(10).position(|bytes| bytes == wide).expect("it is there");
        let offset = if index < 5 { index * 2 } else { 13 + (index - 5) * 2 };
        disk.bytes[at + offset..at + offset + 2].copy_from_slice(&unit.to_le_bytes());
    };
    change("slash it", 5, u16::from(b'/'));
    change("dot at end", 9, u16::from(b'.'));
    change("lone half", 4, 0xd800);
    // The short name is none either.
    let at = disk.bytes.windows(11).position(|bytes| bytes == b"NONE       ").expect("it is there");
    disk.bytes[at + 1] = b'/';
    disk.bytes[at - 32 + 13] = checksum(&disk.bytes[at..at + 11]);
    disk.bytes[at - 32 + 3] = b'/';
    let mut volume = mounted(&mut disk);
    let names = list(&mut volume, &mut disk, "/").unwrap();
    assert_eq!(names, ["first", "SLASHI~1", "DOTATE~1", "LONEHA~1", "last"]);
    for (name, content) in names.iter().zip(["first", "slash it", "dot at end", "lone half", "last"]) {
        assert_eq!(read(&mut volume, &mut disk, name).unwrap(), content.as_bytes());
    }
}

/// Whoever is replacing a file that is removed meanwhile has no claim to the place of its entry,
/// which the next file's may be at.
#[test]
fn a_file_that_takes_the_place_of_a_removed_one_is_not_busy() {
    for is_moved in [false, true] {
        let mut disk = Disk::small();
        let mut volume = mounted(&mut disk);
        write(&mut volume, &mut disk, "/a.txt", b"old").unwrap();
        let create = |path: &str| Operation::Create { path: path.into() };
        let (kept, _) = opened(&mut volume, &mut disk, create("/a.txt")).unwrap();
        if is_moved {
            run(&mut volume, &mut disk, Operation::MakeFolder { path: "folder".into() }).unwrap();
            let rename = Operation::Rename { from: "/a.txt".into(), to: "/folder/a.txt".into(), replace: false };
            run(&mut volume, &mut disk, rename).unwrap();
        } else {
            remove(&mut volume, &mut disk, "/a.txt").unwrap();
        }
        write(&mut volume, &mut disk, "/b.txt", b"other").unwrap();
        let (other, _) = opened(&mut volume, &mut disk, create("/b.txt")).unwrap();
        for (file, content) in [(other, b"newer"), (kept, b"fresh")] {
            write_open(&mut volume, &mut disk, file, 0, content).unwrap();
            run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
        }
        assert_eq!(read(&mut volume, &mut disk, "/a.txt").unwrap(), b"fresh");
        assert_eq!(read(&mut volume, &mut disk, "/b.txt").unwrap(), b"newer");
    }
}
