//! Keys of descriptions of disks, for the book and the schema.

use super::read::{MAX_LABEL, MAX_NAME};
use crate::reference::table::{Key, Table, key, write_tables};

/// Returns the keys of a disk.
pub fn disk_keys() -> Vec<Key> {
    vec![
        key(
            "table",
            "`\"gpt\"` or `\"mbr\"`",
            "`\"gpt\"`",
            "the kind of partition table; an MBR has four partitions at most",
        ),
        key("size", "size", "what the partitions need", "the size of the disk"),
        key(
            "align",
            "size",
            "`\"1MiB\"`",
            "partitions begin at multiples of it, if they say nothing else: a power of two",
        ),
        key(
            "uuid",
            "text",
            "derived from the name",
            "the identity of the disk: a UUID; of an MBR, its signature of eight hexadecimal digits",
        ),
        key("partition", "list of tables", "required", "its partitions, in the order of their numbers"),
    ]
}

/// Returns the keys of a partition.
pub fn partition_keys() -> Vec<Key> {
    vec![
        key(
            "name",
            "text",
            "required",
            format!(
                "its name, of {MAX_NAME} letters at most, which a GPT has; an MBR has none, and clients name its partitions by number"
            ),
        ),
        key(
            "size",
            "size",
            "of the last one, what is left of the disk's `size`",
            "its size, whole sectors of 512 bytes",
        ),
        key("start", "size", "behind the one before", "where it begins on the disk"),
        key("fat", "`16` or `32`", "none: it is zeroes", "its file system: `32` from about 33 MiB on"),
        key(
            "label",
            "text",
            "the name, if it can be one",
            format!("the label of the file system, {MAX_LABEL} letters at most"),
        ),
        key(
            "folder",
            "text",
            "none: it is empty",
            "the folder that it is filled from, relative to the file; what begins with a dot is left out",
        ),
        key(
            "boot",
            "text",
            "none",
            "the system that U-Boot boots from it, by its name or the path of its file; not in system files",
        ),
        key(
            "uuid",
            "text",
            "derived from the names of disk and partition",
            "its identity in a GPT, PARTUUID for Linux",
        ),
        key(
            "bootable",
            "true or false",
            "true with `boot`, else false",
            "the mark by which firmware finds the partition that it boots from",
        ),
    ]
}

/// Returns the page of the book: what stands in `page.md`, and the tables.
pub fn page() -> String {
    let mut page = String::from(
        "<!-- Written by `./culm reference image`: change tools/culm/src/disk/keys.rs and page.md, then run the test with \
         CULM_BLESS=1. -->\n\n",
    );
    page += include_str!("page.md");
    let table = |heading, keys| Table { heading, intro: String::new(), keys };
    write_tables(&mut page, vec![table("Keys of a disk", disk_keys()), table("Keys of a partition", partition_keys())]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::tests::asked;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_that_the_reader_asks_for_is_described() {
        let keys: BTreeSet<String> =
            disk_keys().into_iter().chain(partition_keys()).map(|key| key.name.to_string()).collect();
        assert_eq!(asked(include_str!("read.rs")), keys);
    }

    #[test]
    fn the_page_in_the_book_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/image.md");
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&file, page()).expect("the book can be written");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page(), "run this test with CULM_BLESS=1");
    }
}
