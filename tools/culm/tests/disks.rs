//! Parts of disks: a description is accepted if and only if each part is on the disk and nobody has
//! blocks that another one writes, and then everybody sees what is his own. No image, however
//! broken, makes the tool panic.

use culm_abi::connection::block::{BLOCK, MIN_QUEUE};
use culm_tool::description::catalogue::Catalogue;
use culm_tool::expand;
use culm_tool::plan::{ConnectionData, Memory, Plan, RegionKind};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

const WORLD: &str = "../../tests/bad/world";

/// Blocks of the disk.
const BLOCKS: u64 = 64;

/// A client's range in blocks, as far as the description has it, and whether it only reads.
type Range = (Option<u64>, Option<u64>, bool);

fn expanded(text: &str) -> Result<Plan, String> {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let path = folder.path().join("disks.toml");
    std::fs::write(&path, text).expect("temporary files can be written");
    expand::expand(&Catalogue::read(Path::new(WORLD)), &path, None).map_err(|mistakes| mistakes.render(false))
}

fn described(ranges: &[Range]) -> String {
    let mut text = format!("[device.disk0]\npriority = 200\nsize = {}\n", BLOCKS * BLOCK as u64);
    for (index, (first, count, read_only)) in ranges.iter().enumerate() {
        let key = |name: &str, blocks: &Option<u64>| {
            blocks.map_or(String::new(), |blocks| format!(", {name} = {}", blocks * BLOCK as u64))
        };
        let part = key("offset", first) + &key("size", count);
        let _ = writeln!(
            text,
            "[pd.p{index}]\ncomponent = \"keeper\"\npriority = 10\n\
             disk = {{ device = \"disk0\", read_only = {read_only}{part} }}"
        );
    }
    text
}

/// The blocks that a client has, if the disk has all of them.
fn blocks((first, count, _): &Range) -> Option<BTreeSet<u64>> {
    let first = first.unwrap_or(0);
    let end = count.map_or(BLOCKS, |count| first + count);
    (first < end && end <= BLOCKS).then(|| (first..end).collect())
}

/// Whether all of it can be, block by block.
fn is_well(ranges: &[Range]) -> bool {
    let Some(parts) = ranges.iter().map(blocks).collect::<Option<Vec<_>>>() else { return false };
    let pairs = (0..ranges.len()).flat_map(|first| (0..first).map(move |second| (first, second)));
    let mut pairs = pairs.filter(|(first, second)| !ranges[*first].2 || !ranges[*second].2);
    pairs.all(|(first, second)| parts[first].is_disjoint(&parts[second]))
}

/// A file is one disk's image by whatever name: two would each write what the other does not know.
#[test]
fn an_image_by_two_names_is_one_image() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("disk.img"), vec![0; 64 * BLOCK]).expect("temporary files can be written");
    std::fs::hard_link(at("disk.img"), at("link.img")).expect("the file system has links");
    std::os::unix::fs::symlink("disk.img", at("symlink.img")).expect("the file system has links");
    std::fs::copy(at("disk.img"), at("copy.img")).expect("temporary files can be written");
    let described = |image: &str| {
        let disk = |index: usize, image: &str| {
            format!("[device.disk{index}]\npriority = {}\nimage = \"{image}\"\n", 200 - index)
        };
        let client = "[pd.a]\ncomponent = \"keeper\"\npriority = 10\ndisk = \"disk0\"\nspare = \"disk1\"\n";
        std::fs::write(at("two.toml"), disk(0, "disk.img") + &disk(1, image) + client).expect("as above");
        expand::expand(&Catalogue::read(Path::new(WORLD)), &at("two.toml"), None).map_err(|found| found.render(false))
    };
    for image in ["disk.img", "link.img", "symlink.img"] {
        let mistakes = described(image).map(|_| ()).expect_err(image);
        assert!(mistakes.contains(&format!("`{image}` is the image of `disk0` already")), "{mistakes}");
    }
    assert!(described("copy.img").is_ok());
}

/// The advice for a disk without a volume is one that helps, with the numbers that it has.
#[test]
fn who_needs_a_volume_is_told_how_to_make_one() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let image = folder.path().join("disk.img");
    let checked = |content: &[u8], part: &str| {
        std::fs::write(&image, content).expect("temporary files can be written");
        expanded(&format!(
            "[device.disk0]\npriority = 200\nimage = {image:?}\n\
             [pd.a]\ncomponent = \"librarian\"\npriority = 10\ndisk = {{ device = \"disk0\"{part} }}\n"
        ))
    };
    let parts = [
        ("", 32),
        (", offset = \"1MiB\", size = \"34MiB\"", 32),
        (", size = \"33MiB\"", 16),
        (", size = \"16MiB\"", 16),
        (", offset = \"1MiB\", size = \"8MiB\"", 16),
        (", size = \"2300KiB\"", 16),
    ];
    for (part, kind) in parts {
        let empty = vec![0; 40 << 20];
        let refused = checked(&empty, part).expect_err("nothing is on the disk");
        assert!(refused.contains("`a` needs a FAT volume") && refused.contains("no boot sector"), "{refused}");
        let (_, advice) = refused.split_once("`mkfs.fat ").expect("how to make one");
        let (arguments, _) = advice.split_once('`').expect("its end");
        assert!(arguments.contains(&format!("-F {kind}")), "{refused}");
        let file = image.to_str().expect("temporary paths are text");
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let mut mkfs = std::process::Command::new("sh");
        mkfs.env("PATH", path).args(["-c", &format!("mkfs.fat {}", arguments.replace("FILE", file))]);
        let said = mkfs.output().expect("a shell is there");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        let mut content = std::fs::read(&image).expect("it is there");
        assert_eq!(content.len(), empty.len());
        checked(&content, part).unwrap_or_else(|refused| panic!("{refused}"));
        let begin = if part.contains("offset") { 1 << 20 } else { 0 };
        content[begin + 3..][..8].copy_from_slice(b"EXFAT   ");
        let refused = checked(&content, part).expect_err("exFAT is none");
        assert!(refused.contains("it is exFAT, which is not supported"), "{refused}");
    }
}

/// Who provides files has a disk of its own, however many connections are before it in the
/// description, of whom with more.
#[test]
fn a_provider_of_files_stands_anywhere() {
    let plan = expanded(
        "[device.uart0]\npriority = 60\n[device.disk0]\npriority = 200\nsize = \"64MiB\"\n\
         [pd.other]\ncomponent = \"idle\"\npriority = 10\nserial = \"uart0\"\n\
         [pd.files]\ncomponent = \"archive\"\npriority = 100\ndisk = \"disk0\"\n\
         [pd.a]\ncomponent = \"scribe\"\npriority = 10\nfiles = { device = \"files\", folder = \"/a\", write = true }\n",
    );
    assert_eq!(plan.map(|_| ()), Ok(()));
}

/// Each client alone maps its memory, and the virtualiser is told what the description says.
fn check(plan: &Plan, ranges: &[Range]) {
    let connections = plan.domains.iter().enumerate().flat_map(|(id, domain)| {
        domain.connections.iter().map(move |connection| (id, domain.name.clone(), connection.data.clone()))
    });
    let (mut clients, mut virtualisers) = (0, 0);
    for (id, name, data) in connections {
        let mapped = |memory: Memory| {
            let Memory::Region(part) = memory else { panic!("{name}: {memory:?}") };
            let region = &plan.regions[part.region];
            assert_eq!(region.kind, RegionKind::Dma, "{name}");
            let only = region.mappings.iter().map(|mapping| (mapping.domain, mapping.writable)).collect::<Vec<_>>();
            (part, only)
        };
        match data {
            ConnectionData::BlockClient(client) => {
                let (part, only) = mapped(client.data);
                assert_eq!((only, part.dma), (vec![(id, true)], false), "{name} shares its memory");
                assert!([client.requests, client.answers].iter().all(|ring| plan.rings[*ring].capacity >= MIN_QUEUE));
                clients += 1;
            }
            ConnectionData::BlockVirtualiser(virtualiser) => {
                let (part, only) = mapped(virtualiser.table);
                assert_eq!((only, part.dma), (vec![(id, false)], true), "{name}");
                assert_eq!(part.size, u64::from(culm_partition::MAX_READ) * BLOCK as u64);
                for client in &virtualiser.clients {
                    let (part, only) = mapped(client.data);
                    assert!(part.dma && only.iter().all(|(domain, _)| *domain != id), "{name} maps what it passes on");
                    let index: usize = client.name[1..].parse().expect("a number");
                    let (first, count, read_only) = ranges[index];
                    assert_eq!((client.first, client.blocks), (first.unwrap_or(0), count.unwrap_or(0)));
                    assert_eq!(client.read_only, read_only);
                }
                virtualisers += 1;
            }
            _ => {}
        }
    }
    assert_eq!((clients, virtualisers), (ranges.len(), 1));
}

fn range() -> impl Strategy<Value = Range> {
    // Mostly multiples of a few blocks, so that ranges often touch each other.
    let edge = prop_oneof![4 => (0..BLOCKS / 8).prop_map(|edge| edge * 8), 1 => 0..2 * BLOCKS];
    let size = prop_oneof![4 => (1..3_u64).prop_map(|size| size * 8), 1 => 1..2 * BLOCKS];
    (prop::option::weighted(0.9, edge), prop::option::weighted(0.9, size), any::<bool>())
}

proptest! {
    #[test]
    fn parts_are_accepted_if_they_are_apart(ranges in prop::collection::vec(range(), 1..5)) {
        match expanded(&described(&ranges)) {
            Ok(plan) => {
                prop_assert!(is_well(&ranges), "accepted: {:?}", ranges);
                check(&plan, &ranges);
            }
            Err(mistakes) => prop_assert!(!is_well(&ranges), "refused: {}", mistakes),
        }
    }

    #[test]
    fn any_image_is_read_without_a_panic(
        changes in prop::collection::vec((0..70 * BLOCK, any::<u8>()), 0..16),
        length in prop_oneof![3 => Just(192), 1 => 1..192_usize],
    ) {
        let mut bytes = std::fs::read(Path::new(WORLD).join("disks/gpt.img")).expect("the image is there");
        for (at, value) in changes {
            bytes[at] = value;
        }
        bytes.truncate(length * BLOCK);
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let image = folder.path().join("disk.img");
        std::fs::write(&image, bytes).expect("temporary files can be written");
        let text = format!(
            "[device.disk0]\npriority = 200\nimage = {image:?}\n\
             [pd.p0]\ncomponent = \"keeper\"\npriority = 10\ndisk = {{ device = \"disk0\", partition = \"boot\" }}\n"
        );
        if let Err(mistakes) = expanded(&text) {
            prop_assert!(mistakes.contains("partition"), "{}", mistakes);
        }
    }
}
