//! Reads the description of a disk: which partitions it has, and what is on them.
//!
//! Everything that is not said is decided here: places follow from sizes, identities from names.

use super::rest::Rest;
use super::table::GPT_HEAD;
use super::{Disk, Fat, Folder, Partition, SECTOR, Table, Volume, fat};
use culm_manifest::reader::{Entry, Problems, TableReader};
use culm_manifest::units::format_size;
use culm_manifest::{Located, Problem};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use uuid::Uuid;

/// Multiples at which partitions begin where the description says nothing.
pub const DEFAULT_ALIGN: u64 = 1 << 20;

/// The longest name of a partition, in units of UTF-16.
pub const MAX_NAME: usize = 36;

/// The longest label of a FAT.
pub const MAX_LABEL: usize = 11;

/// The namespace of identities that are derived from names.
const NAMESPACE: Uuid = Uuid::from_u128(0x6375_6c6d_6469_8b73_a1d5_3c0b_7e52_94f1);

/// The surroundings of a description.
pub struct Context<'c> {
    /// The name of what is described, from which identities are derived.
    pub name: &'c str,
    /// Finds a path of the description from where the tool runs.
    pub find: &'c dyn Fn(&str) -> PathBuf,
    /// Firmware is to find systems on the disk.
    pub boots: bool,
    /// It is an emulated SD card, whose size is a power of two.
    pub is_card: bool,
}

/// A partition as the description has it.
struct Given {
    name: Located<String>,
    size: Option<Located<u64>>,
    start: Option<Located<u64>>,
    fat: Option<Located<Fat>>,
    label: Option<Located<[u8; MAX_LABEL]>>,
    folder: Option<Located<String>>,
    boot: Option<Located<String>>,
    uuid: Option<Located<Uuid>>,
    bootable: bool,
    /// Where its size is to be seen.
    at: Range<usize>,
}

/// Reads a description. What is wrong goes to `problems`; then there is no disk.
pub fn read<'a>(mut table: TableReader<'a>, context: &Context<'_>, problems: &mut Problems) -> Option<Disk> {
    let before = problems.len();
    let kind = table.take("table").and_then(|entry| entry.choice(&[("gpt", true), ("mbr", false)], problems));
    let is_gpt = kind.is_none_or(|kind| kind.value);
    let size = table.take("size").and_then(|entry| whole_sectors(&entry, problems));
    let align = table.take("align").and_then(|entry| alignment(&entry, problems)).unwrap_or(DEFAULT_ALIGN);
    let uuid = table.take("uuid");
    let derived = Uuid::new_v5(&NAMESPACE, context.name.as_bytes());
    let kind = if is_gpt {
        Table::Gpt(uuid.and_then(|entry| read_uuid(&entry, problems)).map_or(derived, |uuid| uuid.value))
    } else {
        Table::Mbr(uuid.and_then(|entry| signature(&entry, problems)).unwrap_or(derived.as_fields().0))
    };
    let list = table.require_like("partition", "[{ name = \"data\", size = \"64MiB\", fat = 32 }]");
    let entries = list.and_then(|entry| entry.list(problems)).unwrap_or_default();
    let given: Vec<Given> = entries.iter().filter_map(|entry| partition(entry, is_gpt, context, problems)).collect();
    let span = table.span.clone();
    table.finish(problems);
    if problems.len() > before {
        return None;
    }
    check_names(&given, problems);
    if given.len() > kind.most() {
        let message = format!("{} partitions are too many", given.len());
        let help = format!(
            "this table has {} at most{}",
            kind.most(),
            if is_gpt { "" } else { "; `table = \"gpt\"` has more" }
        );
        problems.push(Problem::new(given[kind.most()].name.span.clone(), message).help(help));
    }
    if let Some(size) = size.as_ref().filter(|size| context.is_card && !size.value.is_power_of_two()) {
        let (message, help) = no_card_of(size.value * SECTOR);
        problems.push(Problem::new(size.span.clone(), message).help(help));
    }
    let (places, mut sectors) = places(kind, &given, size.as_ref(), align, &span, context, problems)?;
    if context.is_card {
        sectors = sectors.next_power_of_two();
    }
    let partitions = given.iter().zip(places).map(|(given, place)| {
        let uuid = given.uuid.as_ref().map_or_else(|| derive(derived, &given.name), |uuid| uuid.value);
        Partition {
            name: given.name.value.clone(),
            uuid,
            first: place.start,
            sectors: place.end - place.start,
            bootable: given.bootable,
            volume: volume(given, uuid, context),
        }
    });
    let disk = Disk { table: kind, sectors, partitions: partitions.collect() };
    for (partition, given) in disk.partitions.iter().zip(&given) {
        check_volume(partition, given, problems);
    }
    (problems.len() == before).then_some(disk)
}

/// Returns the message, and the advice, for an emulated SD card of so many bytes, which are no
/// power of two: QEMU does not start with it.
pub fn no_card_of(bytes: u64) -> (String, String) {
    let next = bytes.checked_next_power_of_two().map(format_size).unwrap_or_default();
    let message = format!("QEMU has no SD card of {}: their sizes are powers of two", format_size(bytes));
    (message, format!("the next one is {next}"))
}

/// Returns the identity that a partition has by its name.
fn derive(disk: Uuid, name: &str) -> Uuid {
    Uuid::new_v5(&disk, name.as_bytes())
}

fn volume(given: &Given, uuid: Uuid, context: &Context<'_>) -> Option<Volume> {
    let kind = given.fat.as_ref()?.value;
    let folder =
        given.folder.as_ref().map(|folder| Folder { given: folder.value.clone(), path: (context.find)(&folder.value) });
    let label = given.label.as_ref().map(|label| label.value).or_else(|| label_of(&given.name));
    let boot = given.boot.as_ref().map(|boot| match boot.ends_with(".toml") {
        true => (context.find)(boot).display().to_string(),
        false => boot.value.clone(),
    });
    Some(Volume { kind, label, id: uuid.as_fields().0, folder, boot, more: BTreeMap::new() })
}

fn partition(entry: &Entry<'_>, is_gpt: bool, context: &Context<'_>, problems: &mut Problems) -> Option<Given> {
    let mut table = entry.table("the partition", problems)?;
    let at = table.span.clone();
    let name = table.require("name").and_then(|entry| entry.text(problems));
    if let Some(name) = &name {
        check_name(name, problems);
    }
    let boot = table.take("boot").and_then(|entry| entry.text(problems));
    if let Some(boot) = boot.as_ref().filter(|_| !context.boots) {
        let problem = Problem::new(boot.span.clone(), "an emulated machine boots without its disk");
        problems.push(problem.help("leave out `boot`; `./culm image` makes the card that firmware boots from"));
    }
    let fat = table.take("fat");
    let has_fat = fat.is_some();
    let given = Given {
        size: table.take("size").and_then(|entry| whole_sectors(&entry, problems)),
        start: table.take("start").and_then(|entry| whole_sectors(&entry, problems)),
        fat: fat.and_then(|entry| kind_of_fat(&entry, problems)),
        label: table.take("label").and_then(|entry| label(&entry, problems)),
        folder: table.take("folder").and_then(|entry| entry.text(problems)),
        uuid: table.take("uuid").and_then(|entry| partition_uuid(&entry, is_gpt, problems)),
        bootable: table
            .take("bootable")
            .and_then(|entry| entry.boolean(problems))
            .map_or(boot.is_some(), |flag| flag.value),
        boot,
        name: name.unwrap_or_else(|| Located::new(String::new(), at.clone())),
        at,
    };
    table.finish(problems);
    let texts = [&given.folder, &given.boot].map(|text| text.as_ref().map(|text| &text.span));
    let needs_fat = texts.into_iter().chain([given.label.as_ref().map(|label| &label.span)]);
    for span in needs_fat.flatten().filter(|_| !has_fat) {
        let problem = Problem::new(span.clone(), format!("partition `{}` has no file system for it", given.name.value));
        problems.push(problem.help("add `fat = 32` or, for less than 33 MiB, `fat = 16`"));
    }
    Some(given)
}

fn check_name(name: &Located<String>, problems: &mut Problems) {
    let units = name.encode_utf16().count();
    if (1..=MAX_NAME).contains(&units) && !name.chars().any(char::is_control) {
        return;
    }
    let problem = Problem::new(name.span.clone(), format!("`{}` is not a name for a partition", name.value));
    problems.push(problem.help(format!("a name has 1 to {MAX_NAME} letters")));
}

/// Reports partitions that cannot be told apart.
fn check_names(given: &[Given], problems: &mut Problems) {
    for (index, partition) in given.iter().enumerate() {
        if let Some(other) = given[..index].iter().find(|other| *other.name == *partition.name) {
            let message = format!("two partitions are called `{}`", partition.name.value);
            let problem = Problem::new(partition.name.span.clone(), message);
            problems.push(problem.related(other.name.span.clone(), "the other one").help("choose another name"));
        }
        let Some(uuid) = &partition.uuid else { continue };
        let other =
            given[..index].iter().find_map(|other| other.uuid.as_ref().filter(|other| other.value == uuid.value));
        if let Some(other) = other {
            let problem = Problem::new(uuid.span.clone(), "two partitions have this UUID");
            problems
                .push(problem.related(other.span.clone(), "the other one").help("leave one out: it is derived then"));
        }
    }
}

/// Returns the sectors of each partition, and those of the disk.
fn places(
    table: Table,
    given: &[Given],
    size: Option<&Located<u64>>,
    align: u64,
    span: &Range<usize>,
    context: &Context<'_>,
    problems: &mut Problems,
) -> Option<(Vec<Range<u64>>, u64)> {
    let before = problems.len();
    let (head, tail) = table.reserved();
    let align = align / SECTOR;
    let most = table.largest() / SECTOR;
    let mut places: Vec<Range<u64>> = Vec::new();
    let mut next = head;
    for (index, partition) in given.iter().enumerate() {
        let first = partition.start.as_ref().map_or_else(|| next.next_multiple_of(align), |start| start.value);
        let sectors = match (&partition.size, size) {
            (Some(size), _) => size.value,
            (None, Some(size)) if index + 1 == given.len() => {
                let volume = volume(partition, Uuid::nil(), context);
                let rest = Rest { first, tail, align, most, is_card: context.is_card, volume };
                check_rest(&rest, size, partition, problems)?
            }
            (None, _) => {
                let problem =
                    Problem::new(partition.at.clone(), format!("partition `{}` has no size", partition.name.value));
                problems.push(
                    problem.help("add `size = \"64MiB\"`; the last one may have what is left if the disk has a `size`"),
                );
                return None;
            }
        };
        let place = first..first.saturating_add(sectors);
        let at = partition.start.as_ref().or(partition.size.as_ref()).map_or(&partition.at, |given| &given.span);
        let name = &partition.name.value;
        if first < head {
            let what = if head == GPT_HEAD { "the GPT" } else { "the MBR" };
            let problem = Problem::new(at.clone(), format!("partition `{name}` begins within {what}"));
            problems.push(problem.help(format!("the first place is {}", format_size(head * SECTOR))));
        }
        if place.end > most || sectors == 0 {
            let what = if sectors == 0 { "has no room on the disk" } else { "reaches beyond what the table can say" };
            let problem = Problem::new(at.clone(), format!("partition `{name}` {what}"));
            problems.push(problem.help(format!("a disk with this table has {} at most", format_size(most * SECTOR))));
            return None;
        }
        let is_common = |other: &Range<u64>| other.start < place.end && place.start < other.end;
        if let Some(other) = places.iter().position(is_common) {
            let end = format_size(places[other].end * SECTOR);
            let other = &given[other];
            let problem = Problem::new(at.clone(), format!("partition `{name}` overlaps `{}`", other.name.value));
            let problem = problem.related(other.at.clone(), "the other one");
            problems.push(problem.help(format!("leave out `start`, or let it begin at {end} or behind")));
        }
        next = place.end;
        places.push(place);
    }
    let end = places.iter().map(|place| place.end).max().unwrap_or(head);
    let needed = end + tail;
    let sectors = match size {
        Some(size) if size.value < needed => {
            let problem = Problem::new(size.span.clone(), "the disk is too small for its partitions");
            let needed = needed.next_multiple_of(align);
            let needed = if context.is_card { needed.next_power_of_two() } else { needed };
            problems.push(problem.help(format!("they need {}", format_size(needed * SECTOR))));
            return None;
        }
        Some(size) => size.value,
        None => needed.next_multiple_of(align),
    };
    if sectors > most {
        let problem = Problem::new(size.map_or(span, |size| &size.span).clone(), "the disk is too large for its table");
        problems.push(problem.help(format!("it can have {} at most", format_size(most * SECTOR))));
    }
    (problems.len() == before).then_some((places, sectors))
}

/// Returns the sectors of the last partition, which has what the others leave of a disk of this
/// size; reports a disk that leaves it too little.
fn check_rest(rest: &Rest, size: &Located<u64>, partition: &Given, problems: &mut Problems) -> Option<u64> {
    // Where no disk is large enough, the partition is at fault, which is checked with the others.
    let least = if rest.is_enough(size.value) { None } else { rest.least() };
    let Some(least) = least.filter(|least| *least > size.value) else { return Some(rest.on(size.value)) };
    let name = &partition.name.value;
    let problem = Problem::new(size.span.clone(), format!("the disk is too small for partition `{name}`"));
    let problem = problem.related(partition.at.clone(), "it has what the others leave");
    problems.push(problem.help(format!("write `size = \"{}\"`, the least that does", format_size(least * SECTOR))));
    None
}

/// Reports a file system that the partition is too small for, or too small for its content.
fn check_volume(partition: &Partition, given: &Given, problems: &mut Problems) {
    let (Some(volume), Some(fat)) = (&partition.volume, &given.fat) else { return };
    let (least, most) = fat::bounds(volume.kind);
    let at = given.size.as_ref().map_or(&given.at, |size| &size.span);
    let capacity = Some(partition.sectors).filter(|sectors| (least..=most).contains(sectors));
    let Some(capacity) = capacity.and_then(|sectors| fat::capacity(volume, sectors)) else {
        let bits = volume.kind.bits();
        let size = format_size(partition.sectors * SECTOR);
        let problem = Problem::new(at.clone(), format!("there is no FAT{bits} of {size}"));
        let other = match volume.kind {
            Fat::Fat32 if partition.sectors < least => "; `fat = 16` is for less",
            Fat::Fat16 if partition.sectors > most => "; `fat = 32` is for more",
            _ => "",
        };
        let (least, most) = (format_size((least * SECTOR).next_multiple_of(1 << 20)), format_size(most * SECTOR));
        let problem = problem.related(fat.span.clone(), "the file system");
        problems.push(problem.help(format!("FAT{bits} has from about {least} to {most} here{other}")));
        return;
    };
    let Some(folder) = &given.folder else { return };
    match volume.content() {
        Err(failure) => {
            let problem = Problem::new(folder.span.clone(), failure.message());
            let help =
                failure.advice().unwrap_or("paths are relative to the file; without the key the partition is empty");
            problems.push(problem.help(help));
        }
        Ok(content) => {
            let Some(reason) = capacity.reason_against(volume, &content) else { return };
            let problem = Problem::new(at.clone(), format!("`{}` does not fit: {reason}", folder.value));
            let problem = problem.related(folder.span.clone(), "the folder");
            problems.push(problem.help("make the partition larger, or leave something out of the folder"));
        }
    }
}

/// Reads a size in whole sectors, one at least; returns their count.
fn whole_sectors(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<u64>> {
    let size = entry.size(problems)?;
    let (count, rest) = (size.value / SECTOR, size.value % SECTOR);
    if count > 0 && rest == 0 {
        return Some(size.map(|_| count));
    }
    let above = (count + 1).saturating_mul(SECTOR);
    let problem = Problem::new(size.span, format!("`{}` is no whole count of sectors", entry.key.value));
    problems.push(problem.help(format!("sectors have {SECTOR} bytes: the next is {above}")));
    None
}

/// Reads a power of two from a sector to 1 GiB, in bytes.
fn alignment(entry: &Entry<'_>, problems: &mut Problems) -> Option<u64> {
    let size = entry.size(problems)?;
    if size.value.is_power_of_two() && (SECTOR..=1 << 30).contains(&size.value) {
        return Some(size.value);
    }
    let problem = Problem::new(size.span, "partitions cannot be aligned so");
    problems.push(problem.help(format!("a power of two from {SECTOR} bytes to 1 GiB; without the key it is 1 MiB")));
    None
}

fn kind_of_fat(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<Fat>> {
    let name = entry.text(&mut Problems::new()).map(|text| text.to_ascii_lowercase());
    if let Some(bits @ ("16" | "32")) = name.as_deref().and_then(|name| name.strip_prefix("fat")) {
        let problem = Problem::new(entry.span(), "`fat` must be a whole number, not text");
        problems.push(problem.help(format!("write `fat = {bits}`")));
        return None;
    }
    let bits = entry.integer(0..=i128::from(u32::MAX), problems)?;
    let kind = match bits.value {
        16 => Fat::Fat16,
        32 => Fat::Fat32,
        other => {
            let problem = Problem::new(bits.span, format!("there is no FAT{other} here"));
            problems.push(problem.help("write `fat = 16` or `fat = 32`"));
            return None;
        }
    };
    Some(bits.map(|_| kind))
}

fn label(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<[u8; MAX_LABEL]>> {
    let text = entry.text(problems)?;
    let label = label_of(&text.value);
    if label.is_none() {
        let problem = Problem::new(text.span.clone(), format!("`{}` is no label of a FAT", text.value));
        problems.push(problem.help(format!("a label has 1 to {MAX_LABEL} letters, digits, `_`, `-` and spaces")));
    }
    label.map(|label| text.map(|_| label))
}

/// Returns a name as a label, if it can be one: in upper case, filled with spaces.
fn label_of(name: &str) -> Option<[u8; MAX_LABEL]> {
    let is_good = |letter: u8| letter.is_ascii_alphanumeric() || b"_- ".contains(&letter);
    if !(1..=MAX_LABEL).contains(&name.len()) || !name.bytes().all(is_good) || name.trim() != name {
        return None;
    }
    let mut label = [b' '; MAX_LABEL];
    label[..name.len()].copy_from_slice(name.to_ascii_uppercase().as_bytes());
    Some(label)
}

fn read_uuid(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<Uuid>> {
    let text = entry.text(problems)?;
    let uuid = Uuid::try_parse(&text.value).ok().filter(|uuid| text.len() == 36 && !uuid.is_nil());
    if uuid.is_none() {
        let problem = Problem::new(text.span.clone(), format!("`{}` is no UUID", text.value));
        problems.push(problem.help("`uuidgen` makes one; without the key it is derived from the name"));
    }
    uuid.map(|uuid| text.map(|_| uuid))
}

fn partition_uuid(entry: &Entry<'_>, is_gpt: bool, problems: &mut Problems) -> Option<Located<Uuid>> {
    if is_gpt {
        return read_uuid(entry, problems);
    }
    let problem = Problem::new(entry.key.span.clone(), "a partition of an MBR has no UUID of its own");
    problems.push(problem.help("Linux makes one of the disk's signature, its `uuid`, and the partition's number"));
    None
}

/// Reads the signature of an MBR: what `lsblk -o PARTUUID` shows before a partition's number.
fn signature(entry: &Entry<'_>, problems: &mut Problems) -> Option<u32> {
    let text = entry.text(problems)?;
    let is_good = text.len() == 8 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let signature = u32::from_str_radix(&text.value, 16).ok().filter(|signature| is_good && *signature != 0);
    if signature.is_none() {
        let problem = Problem::new(text.span, format!("`{}` is no signature of an MBR", text.value));
        problems.push(problem.help("it has eight hexadecimal digits that are not all 0, such as \"1234abcd\""));
    }
    signature
}
