//! Files of the host that are the disks of an emulated machine.

use crate::disk::{self, Disk, Record, State};
use crate::failure::Failure;
use crate::plan::{Device, HostFile, Plan};
use crate::tree::{Tree, cannot_build};
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The images of a system's disks, by the names of the devices.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    images: BTreeMap<String, PathBuf>,
    /// Lines on images for who runs the system.
    notes: Vec<String>,
}

impl Disks {
    /// Finds the images of a system's disks, and makes those for which the description names no
    /// file, if they are not there yet.
    pub fn of(plan: &Plan) -> Result<Self> {
        let mut disks = Self::default();
        for device in &plan.devices {
            let (Some(file), name) = (&device.file, &device.board.name) else { continue };
            let path = match &file.path {
                Some(path) => path.clone(),
                None => {
                    let path = Tree::find()?.build.join("disks").join(format!("{}-{name}.img", plan.name));
                    match &file.disk {
                        Some(disk) => disks.notes.extend(make_described(&path, disk)?),
                        None => make(&path, file.size)?,
                    }
                    path
                }
            };
            disks.images.insert(name.clone(), path);
        }
        Ok(disks)
    }

    /// Lines on what was made, and on what is no longer as it was made, for who runs the system.
    pub fn announcements(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Returns QEMU's arguments for what a device leads to; none if it is no disk. A write is done
    /// if the host's kernel has it; a flush of the guest's waits until the host's file is durable.
    pub fn arguments(&self, device: &Device) -> Vec<String> {
        let (name, Some(file)) = (&device.board.name, &device.file) else { return Vec::new() };
        let Some(path) = self.images.get(name) else { return Vec::new() };
        // A comma within a value is doubled.
        let path = path.display().to_string().replace(',', ",,");
        let HostFile { read_only, .. } = file;
        let read_only = if *read_only { ",read-only=on" } else { "" };
        let drive = format!("if=none,id={name},format=raw,cache=writeback,discard=unmap{read_only},file={path}");
        vec!["-drive".to_string(), drive]
    }
}

/// Makes an image of zeroes, unless it is there.
fn make(path: &Path, size: u64) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| cannot_build(format_args!("make the disk {}", path.display()), error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => file.set_len(size).map_err(|error| failed(&error)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let there = fs::metadata(path).map_err(|error| failed(&error))?.len();
            if there == size {
                return Ok(());
            }
            let path = path.display();
            Err(Failure::new(format!("the disk {path} has {there} bytes, and the system file gives it {size}"))
                .help(format!("change `size`, or remove the file with all that is on it: rm {path}")))
        }
        Err(error) => Err(failed(&error)),
    }
}

/// Makes the image of a described disk, unless it is there; returns what is to be said. An image
/// that was made from another description, or by something else, is refused and left as it is.
fn make_described(path: &Path, disk: &Disk) -> Result<Option<String>, Failure> {
    let record = Record::path(path);
    let now = Record::of(disk)?;
    let shown = path.display();
    let anew = format!("to start anew, remove the file with all that is on it: rm {shown}");
    if path.exists() {
        let Some(then) = Record::read(&record) else {
            return Err(Failure::new(format!("the disk {shown} was not made from the description in the system file"))
                .help(anew));
        };
        return match then.compare(&now) {
            State::Same => Ok(None),
            State::Files(folders) => Ok(Some(format!(
                "the disk {shown} keeps its files, although `{}` has changed since it was made; {anew}",
                folders.join("`, `")
            ))),
            State::Description(then, now) => {
                Err(Failure::new(format!("the disk {shown} was made from another description"))
                    .detail(format!("then: {then}"))
                    .detail(format!("now:  {now}"))
                    .help(format!("change the description back, or {anew}")))
            }
        };
    }
    let failed = |error| cannot_build(format_args!("write {}", record.display()), &error);
    if let Some(folder) = record.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // First, so that no image is there without it.
    fs::write(&record, now.text()).map_err(failed)?;
    disk::make(disk, path)?;
    Ok(Some(format!("made the disk {shown} from the description in the system file")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::fixture::{self, Shape};
    use crate::plan::PhysicalRange;

    fn disk(file: HostFile) -> Plan {
        let mut plan = fixture::parts(&Shape::default()).plan;
        let board = fixture::device("disk0", "virtio,blk", PhysicalRange { address: 0x0a00_0000, size: 0x200 });
        plan.devices.push(Device { file: Some(file), ..fixture::used(board) });
        plan
    }

    #[test]
    fn a_disk_is_a_file() {
        let file = HostFile { path: Some("/tmp/a,b.img".into()), disk: None, size: 512, read_only: false };
        let plan = disk(file.clone());
        let arguments = |plan: &Plan| Disks::of(plan).expect("it is there").arguments(&plan.devices[0]);
        assert_eq!(arguments(&plan)[0], "-drive");
        assert!(arguments(&plan)[1].ends_with("discard=unmap,file=/tmp/a,,b.img"), "{:?}", arguments(&plan));
        let plan = disk(HostFile { read_only: true, ..file });
        assert!(arguments(&plan)[1].contains(",read-only=on,"));
    }

    #[test]
    fn a_described_image_is_never_made_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = folder.path().join("site");
        fs::create_dir(&files).expect("a folder");
        fs::write(files.join("index.html"), "text").expect("a file");
        let disk = |size: &str| {
            let file = folder.path().join("card.toml");
            let partition = format!("name = \"a\", size = \"{size}\", fat = 16, folder = \"site\"");
            fs::write(&file, format!("partition = [{{ {partition} }}]\n")).expect("a file");
            crate::disk_image::describe(&file).expect("it is well")
        };
        let path = folder.path().join("disks").join("a.img");
        let said = make_described(&path, &disk("8MiB")).expect("it is made").expect("that is said");
        assert!(said.contains("made the disk"), "{said}");
        let mark = |at: u64| {
            let file = OpenOptions::new().write(true).open(&path).expect("it is there");
            std::os::unix::fs::FileExt::write_all_at(&file, b"written", at).expect("it can be written");
            fs::read(&path).expect("it is there")
        };
        let written = mark(5 << 20);
        let is_kept = || assert!(fs::read(&path).expect("it is there") == written);
        assert_eq!(make_described(&path, &disk("8MiB")).expect("it is there"), None);
        is_kept();
        let failure = make_described(&path, &disk("9MiB")).expect_err("another description");
        assert!(failure.to_string().contains("then: ") && failure.to_string().contains("rm "), "{failure}");
        is_kept();
        fs::write(files.join("index.html"), "else").expect("a file");
        let said = make_described(&path, &disk("8MiB")).expect("it is there").expect("that is said");
        assert!(said.contains("`site` has changed") && said.contains("rm "), "{said}");
        is_kept();
        fs::remove_file(Record::path(&path)).expect("it is there");
        let failure = make_described(&path, &disk("8MiB")).expect_err("nobody knows what it is");
        assert!(failure.to_string().contains("rm "), "{failure}");
        is_kept();
        fs::remove_file(&path).expect("it is there");
        make_described(&path, &disk("9MiB")).expect("it is made anew");
        assert_eq!(fs::metadata(&path).expect("it is there").len(), 11 << 20);
    }

    #[test]
    fn an_image_is_made_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disks").join("a.img");
        make(&path, 4096).expect("it is made");
        fs::write(&path, [1; 4096]).expect("it can be written");
        make(&path, 4096).expect("it is there");
        assert_eq!(fs::read(&path).expect("it is there"), [1; 4096]);
        let failure = make(&path, 8192).expect_err("another size");
        assert!(failure.to_string().contains("4096") && failure.advice().is_some_and(|help| help.contains("rm ")));
    }
}
