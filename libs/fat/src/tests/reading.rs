//! Volumes that others have made, and the first changes.

use super::*;
use crate::{Kind, NotFat};

/// Puts files into a volume by mtools.
fn filled(disk: Disk) -> Disk {
    let folder = tempfile::tempdir().expect("a folder");
    let volume = folder.path().join("volume");
    std::fs::write(&volume, &disk.bytes).expect("a file");
    let image = volume.to_str().expect("text");
    let site = folder.path().join("site");
    std::fs::create_dir_all(site.join("A folder with a long name/inner")).expect("folders");
    std::fs::write(site.join("index.html"), pattern(1, 5000)).expect("a file");
    std::fs::write(site.join("empty"), []).expect("a file");
    std::fs::write(site.join("A folder with a long name/inner/Übergröße.txt"), pattern(2, 100_000)).expect("a file");
    let copied = program("mcopy", &["-s", "-i", image, site.to_str().expect("text"), "::"]);
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    Disk::new(std::fs::read(&volume).expect("a file"))
}

#[test]
fn what_others_have_written_is_read() {
    for disk in [Disk::small(), Disk::large(), Disk::formatted(70_000 * 8, &["-F", "32", "-S", "4096", "-s", "1"])] {
        let mut disk = filled(disk);
        let mut volume = mounted(&mut disk);
        assert_eq!(list(&mut volume, &mut disk, "/").unwrap(), ["site/"]);
        let mut names = list(&mut volume, &mut disk, "/site").unwrap();
        names.sort();
        assert_eq!(names, ["A folder with a long name/", "empty", "index.html"]);
        assert_eq!(read(&mut volume, &mut disk, "/site/INDEX.html").unwrap(), pattern(1, 5000));
        assert_eq!(read(&mut volume, &mut disk, "site/empty").unwrap(), []);
        let long = "/site/a folder with a long name/inner/übergröße.txt";
        assert_eq!(read(&mut volume, &mut disk, long).unwrap(), pattern(2, 100_000));
        assert_eq!(read(&mut volume, &mut disk, "/site/none"), Err(Error::NotFound));
        assert_eq!(read(&mut volume, &mut disk, "/site"), Err(Error::IsAFolder));
        assert_eq!(read(&mut volume, &mut disk, "/site/empty/x"), Err(Error::NotAFolder));
        assert_eq!(read(&mut volume, &mut disk, "/site/../site/empty"), Err(Error::BadPath));
        let found = run(&mut volume, &mut disk, Operation::Find { path: "".into() });
        assert!(matches!(found, Ok(Answer::Found(entry)) if entry.kind == Kind::Folder));
        assert!(disk.record.is_empty(), "reading writes nothing");
    }
}

#[test]
fn a_path_that_was_found_is_found_again_without_a_read() {
    let mut disk = filled(Disk::large());
    let mut volume = mounted(&mut disk);
    let path = "/site/index.html";
    read(&mut volume, &mut disk, path).unwrap();
    let reads = disk.reads;
    read(&mut volume, &mut disk, path).unwrap();
    assert_eq!(disk.reads, reads);
}

#[test]
fn what_is_written_is_read_and_is_whole() {
    for mut disk in [Disk::small(), Disk::large()] {
        let mut volume = mounted(&mut disk);
        run(&mut volume, &mut disk, Operation::MakeFolder { path: "/logs".into() }).unwrap();
        for (index, name) in ["a", "Long name.text", "Ärger.txt", "日本語", "x.y.z"].iter().enumerate() {
            let path = format!("/logs/{name}");
            write(&mut volume, &mut disk, &path, &pattern(index as u64, 3000 * index)).unwrap();
            append(&mut volume, &mut disk, &path, &pattern(99, 777)).unwrap();
        }
        write(&mut volume, &mut disk, "/logs/a", &pattern(7, 40_000)).unwrap();
        let rename = Operation::Rename { from: "/logs/x.y.z".into(), to: "/moved away".into(), replace: false };
        run(&mut volume, &mut disk, rename).unwrap();
        run(&mut volume, &mut disk, Operation::Remove { path: "/logs/long NAME.text".into() }).unwrap();
        assert_eq!(run(&mut volume, &mut disk, Operation::Remove { path: "/logs".into() }), Err(Error::NotEmpty));
        run(&mut volume, &mut disk, Operation::MakeFolder { path: "/logs/sub".into() }).unwrap();
        let rename = Operation::Rename { from: "/logs/sub".into(), to: "/sub".into(), replace: false };
        run(&mut volume, &mut disk, rename).unwrap();
        run(&mut volume, &mut disk, Operation::Rest).unwrap();
        assert_eq!(disk.complaint(), None);
        let mut volume = mounted(&mut disk);
        assert_eq!(list(&mut volume, &mut disk, "/logs").unwrap(), ["a", "Ärger.txt", "日本語"]);
        assert_eq!(list(&mut volume, &mut disk, "/").unwrap(), ["logs/", "moved away", "sub/"]);
        assert_eq!(read(&mut volume, &mut disk, "/logs/a").unwrap(), pattern(7, 40_000));
        let moved = [pattern(4, 12_000), pattern(99, 777)].concat();
        assert_eq!(read(&mut volume, &mut disk, "/moved away").unwrap(), moved);
        assert_eq!(
            read(&mut volume, &mut disk, "/logs/日本語").unwrap(),
            [pattern(3, 9000), pattern(99, 777)].concat()
        );
    }
}

#[test]
fn what_is_no_fat_is_refused_by_name() {
    let mut fat12 = Disk::formatted(2880, &["-F", "12"]);
    let mount = |disk: &mut Disk| {
        let blocks = (disk.bytes.len() / BLOCK) as u64;
        let mut volume = Volume::new(Options { blocks, granule: 0, cache_blocks: 512, read_only: false });
        run(&mut volume, disk, Operation::Mount)
    };
    assert_eq!(mount(&mut fat12), Err(Error::NotFat(NotFat::Fat12)));
    fat12.bytes[3..11].copy_from_slice(b"EXFAT   ");
    assert_eq!(mount(&mut fat12), Err(Error::NotFat(NotFat::ExFat)));
    assert_eq!(mount(&mut Disk::new(vec![0; 4096])), Err(Error::NotFat(NotFat::NoBootSector)));
    let mut short = Disk::small();
    short.bytes.truncate(4000 * BLOCK);
    assert_eq!(mount(&mut short), Err(Error::NotFat(NotFat::TooLong)));
}
