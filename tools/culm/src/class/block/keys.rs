//! Keys of the class in system files, for the reader, the book and the schema.

use super::options::{DEFAULT_MEMORY, DEVICE_QUEUE, QUEUE};
use crate::reference::table::{Key, Table, key};
use culm_manifest::units::format_size;

/// Rules that concern no single key.
pub const RULES: &[&str] = &[
    "A disk's queue has 32 to 1024 entries, a client's 32 at least.",
    "Where a client of a disk may write, no other client's part may overlap its part. Two devices have the same image only \
     if both are read-only.",
    "The image of an SD card that QEMU emulates has a power of two of bytes, and can be written.",
    "Sizes and offsets on a disk are multiples of 512 bytes, and no part reaches beyond the image or the partition.",
];

/// Returns the keys of a device.
pub fn device_keys() -> Vec<Key> {
    vec![
        key(
            "image",
            "text or table",
            "none",
            "block: the file that an emulated machine has for its disk, relative to the system file; or a table of \
             what is on it ([Disk images](image.md)), from which the first run makes one in `build/disks`",
        ),
        key(
            "size",
            "size",
            "none",
            "block: in place of `image`, the size of an empty one, which the first run makes in `build/disks` and further \
             ones find again",
        ),
        key("read_only", "true or false", "false", "block: nobody can write; no SD card of QEMU's can have it"),
        key(
            "pio",
            "true or false",
            "false",
            "block: the driver moves the data (PIO), not the device (DMA), and so sees the memory of all clients; not every driver can",
        ),
        key(
            "queue",
            "power of two",
            DEVICE_QUEUE.to_string(),
            "block: entries of each queue between driver and virtualiser",
        ),
    ]
}

/// Returns the keys of a client.
pub fn client_keys() -> Vec<Table> {
    vec![Table {
        heading: "Connections of the kind block-client",
        intro: "`disk = \"disk0\"` for all of it, or a table: `disk = { device = \"disk0\", partition = \"data\" }`."
            .to_string(),
        keys: vec![
            key("device", "text", "required", "the disk"),
            key(
                "partition",
                "number or text",
                "none: all of the disk",
                "the number of a partition, its name in a GPT, or its UUID, as `lsblk -o PARTUUID` shows it; `name=` and `uuid=` \
                 before the text say which of the two it is",
            ),
            key("offset", "size", "0", "where its part begins, within the partition or the disk"),
            key("size", "size", "all that follows", "the size of its part"),
            key("read_only", "true or false", "false", "it cannot write"),
            key(
                "memory",
                "size",
                format!("`\"{}\"`", format_size(DEFAULT_MEMORY)),
                "the memory that its requests read into and write from; the device reaches it",
            ),
            key(
                "queue",
                "power of two",
                QUEUE.to_string(),
                "entries of its queues; a request has one for each of its segments",
            ),
        ],
    }]
}
