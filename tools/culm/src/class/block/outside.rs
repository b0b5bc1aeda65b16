//! Files of the host that are the disks of an emulated machine.

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
}

impl Disks {
    /// Finds the images of a system's disks, and makes those that the description gives no more
    /// than a size, if they are not there yet.
    pub fn of(plan: &Plan) -> Result<Self> {
        let mut images = BTreeMap::new();
        for device in &plan.devices {
            let (Some(file), name) = (&device.file, &device.board.name) else { continue };
            let path = match &file.path {
                Some(path) => path.clone(),
                None => {
                    let path = Tree::find()?.build.join("disks").join(format!("{}-{name}.img", plan.name));
                    make(&path, file.size)?;
                    path
                }
            };
            images.insert(name.clone(), path);
        }
        Ok(Self { images })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::fixture::{self, Shape};
    use crate::plan::{BoardDevice, Device, PhysicalRange};

    fn disk(file: HostFile) -> Plan {
        let mut plan = fixture::parts(&Shape::default()).plan;
        plan.devices.push(Device {
            board: BoardDevice {
                name: "disk0".into(),
                classes: Vec::new(),
                compatible: "virtio,blk".into(),
                registers: PhysicalRange { address: 0x0a00_0000, size: 0x200 },
                interrupts: Vec::new(),
                dma: 0,
                qemu: Vec::new(),
                slot: None,
                bridge: None,
            },
            driver: 0,
            registers: 0,
            offset: 0,
            dma: None,
            mac: None,
            file: Some(file),
        });
        plan
    }

    #[test]
    fn a_disk_is_a_file() {
        let file = HostFile { path: Some("/tmp/a,b.img".into()), size: 512, read_only: false };
        let plan = disk(file.clone());
        let arguments = |plan: &Plan| Disks::of(plan).expect("it is there").arguments(&plan.devices[0]);
        assert_eq!(arguments(&plan)[0], "-drive");
        assert!(arguments(&plan)[1].ends_with("discard=unmap,file=/tmp/a,,b.img"), "{:?}", arguments(&plan));
        let plan = disk(HostFile { read_only: true, ..file });
        assert!(arguments(&plan)[1].contains(",read-only=on,"));
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
