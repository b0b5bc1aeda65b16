//! Files and folders that configurations name, as components will find them.
//!
//! A folder is packed into one archive (`culm::archive` in the runtime reads it): little-endian
//! `u32`s, the count of files, then per file the offsets and lengths of its path, of its content,
//! and of that as gzip (a length of 0 where it is not packed so), counted from the start of the
//! archive; then the bytes. Paths are sorted bytewise and use `/`.

use crate::failure::Failure;
use crate::folder;
use crate::plan::{ConfigValue, Plan};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Contents by the path that the plan gives.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    by_path: BTreeMap<PathBuf, Vec<u8>>,
}

impl Contents {
    /// Reads all files and packs all folders that configurations in `plan` name.
    pub fn read(plan: &Plan) -> Result<Self, Failure> {
        let mut by_path = BTreeMap::new();
        // Of all who name a folder, one that wants gzip is enough: to the others it makes no
        // difference.
        let mut folders = BTreeMap::<&PathBuf, bool>::new();
        for domain in &plan.domains {
            let fields = &plan.components[domain.component].manifest.config;
            for (value, field) in domain.config.iter().zip(fields) {
                match value {
                    ConfigValue::File(path) => drop(by_path.insert(path.clone(), read(path)?)),
                    ConfigValue::Folder(path) => *folders.entry(path).or_default() |= field.gzip,
                    _ => {}
                }
            }
        }
        for (path, gzip) in folders {
            by_path.insert(path.clone(), pack_folder(path, gzip)?);
        }
        Ok(Self { by_path })
    }

    /// The content at `path`; empty where the plan does not name it.
    pub fn get(&self, path: &Path) -> &[u8] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// Bytes of each.
    pub fn sizes(&self) -> BTreeMap<PathBuf, u64> {
        self.by_path.iter().map(|(path, content)| (path.clone(), content.len() as u64)).collect()
    }
}

impl FromIterator<(PathBuf, Vec<u8>)> for Contents {
    fn from_iter<T: IntoIterator<Item = (PathBuf, Vec<u8>)>>(contents: T) -> Self {
        Self { by_path: contents.into_iter().collect() }
    }
}

/// Packs what [`list_folder`] finds; with `gzip`, also the gzip form of files where that is worth
/// it.
pub fn pack_folder(folder: &Path, gzip: bool) -> Result<Vec<u8>, Failure> {
    let mut files = BTreeMap::new();
    for (name, path) in list_folder(folder)? {
        let content = read(&path)?;
        let gzip = if gzip { compress(&content) } else { Vec::new() };
        files.insert(name, Packed { content, gzip });
    }
    pack(&files).ok_or_else(|| too_large(folder))
}

/// The regular files in `folder` and below, by their paths within it, as [`folder::list`] finds
/// them.
pub fn list_folder(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let listing = folder::list(folder)?;
    if listing.size > u64::from(u32::MAX) { Err(too_large(folder)) } else { Ok(listing.files) }
}

fn too_large(folder: &Path) -> Failure {
    Failure::new(format!("the folder {} is larger than 4 GiB", folder.display()))
        .help("an archive's offsets have 32 bits; leave something out")
}

/// The content of a regular file that is as long as its file system says.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    folder::copy(path, &mut content)?;
    Ok(content)
}

/// Files below this many bytes are sent in one packet either way.
const WORTH_COMPRESSING: usize = 1024;

/// The gzip form of `content` (RFC 1952, without a name or a time, so that it is the same each
/// time). Empty where it would not save a sixteenth, as with pictures: a client would unpack it for
/// nothing.
fn compress(content: &[u8]) -> Vec<u8> {
    if content.len() < WORTH_COMPRESSING {
        return Vec::new();
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into a vector does not fail.
    let Ok(compressed) = encoder.write_all(content).and_then(|()| encoder.finish()) else { return Vec::new() };
    if compressed.len() > content.len() - content.len() / 16 { Vec::new() } else { compressed }
}

/// A file of an archive.
struct Packed {
    content: Vec<u8>,
    /// Empty where there is none.
    gzip: Vec<u8>,
}

/// Bytes of a file's record.
const RECORD: usize = 24;

/// Packs files, given by path; `None` where the archive would pass 4 GiB.
fn pack(files: &BTreeMap<String, Packed>) -> Option<Vec<u8>> {
    let mut head: Vec<u32> = vec![files.len().try_into().ok()?];
    let mut body: Vec<u8> = Vec::new();
    let base = 4 + RECORD * files.len();
    for (path, packed) in files {
        for bytes in [path.as_bytes(), &packed.content, &packed.gzip] {
            // Content that is word-aligned is faster to copy.
            body.resize(body.len().next_multiple_of(8), 0);
            head.push((base + body.len()).try_into().ok()?);
            head.push(bytes.len().try_into().ok()?);
            body.extend_from_slice(bytes);
        }
    }
    let mut archive: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    archive.extend(body);
    Some(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn word(archive: &[u8], index: usize) -> usize {
        u32::from_le_bytes(archive[index * 4..index * 4 + 4].try_into().expect("four bytes")) as usize
    }

    #[test]
    fn a_folder_is_packed_in_the_order_of_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("b")).expect("a folder");
        for (path, content) in [("z.txt", "last"), ("b/c", "22"), (".hidden", "no"), ("a", "")] {
            std::fs::write(folder.path().join(path), content).expect("a file");
        }
        let archive = pack_folder(folder.path(), false).expect("packs");
        assert_eq!(word(&archive, 0), 3);
        let files: Vec<_> = (0..3)
            .map(|file| {
                let at = |field: usize| word(&archive, 1 + file * RECORD / 4 + field);
                let text = |offset: usize, length: usize| String::from_utf8_lossy(&archive[offset..offset + length]);
                format!("{}={}", text(at(0), at(1)), text(at(2), at(3)))
            })
            .collect();
        assert_eq!(files, ["a=", "b/c=22", "z.txt=last"]);
    }

    /// The message of the failure to pack a folder in which `spoil` has made something.
    fn refusal(spoil: impl FnOnce(&Path)) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("site")).expect("a folder");
        std::fs::write(folder.path().join("site/index.html"), "fine").expect("a file");
        std::fs::write(folder.path().join("secret"), "not for others").expect("a file");
        spoil(&folder.path().join("site"));
        pack_folder(&folder.path().join("site"), false).expect_err("is refused").to_string()
    }

    #[test]
    fn links_out_of_the_folder_are_refused() {
        use std::os::unix::fs::symlink;
        for target in ["/etc/passwd", "../secret", "..", "/", "index.html/../../secret"] {
            let message = refusal(|site| symlink(target, site.join("bad")).expect("a link"));
            assert!(message.contains("site/bad"), "{target}: {message}");
        }
        let message = refusal(|site| {
            std::fs::create_dir(site.join("deep")).expect("a folder");
            symlink("../../secret", site.join("deep/out")).expect("a link");
            symlink("deep/out", site.join("again")).expect("a link");
        });
        assert!(message.contains("leads out of its folder") && message.contains("secret"), "{message}");
        let message = refusal(|site| symlink("nowhere", site.join("bad")).expect("a link"));
        assert!(message.contains("site/bad"), "{message}");
        let message = refusal(|site| {
            symlink(".", site.join("loop")).expect("a link");
            symlink(".", site.join("loop2")).expect("a link");
        });
        assert!(message.contains("site/loop") && message.contains("leads back"), "{message}");
    }

    #[test]
    fn links_within_the_folder_are_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("a")).expect("a folder");
        std::fs::write(folder.path().join("a/file"), "content").expect("a file");
        std::os::unix::fs::symlink("a", folder.path().join("b")).expect("a link");
        std::os::unix::fs::symlink("a/file", folder.path().join("c")).expect("a link");
        assert_eq!(word(&pack_folder(folder.path(), false).expect("packs"), 0), 3);
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_awaited() {
        use nix::sys::stat::Mode;
        let message = refusal(|site| nix::unistd::mkfifo(&site.join("pipe"), Mode::S_IRWXU).expect("a pipe"));
        assert!(message.contains("site/pipe is neither a file nor a folder"), "{message}");
        let message = refusal(|site| {
            std::os::unix::net::UnixListener::bind(site.join("socket")).expect("a socket");
        });
        assert!(message.contains("site/socket is neither a file nor a folder"), "{message}");
        let message = read(Path::new("/dev/zero")).expect_err("a device").to_string();
        assert!(message.contains("/dev/zero is neither"), "{message}");
    }

    #[test]
    fn what_is_made_up_while_it_is_read_is_refused() {
        for path in ["/proc/version", "/proc/self/maps"] {
            let message = read(Path::new(path)).expect_err("is no file").to_string();
            assert!(message.contains(path) && message.contains("not as long as"), "{message}");
        }
        assert!(pack_folder(Path::new("/proc/sys/kernel"), false).is_err());
    }

    #[test]
    fn what_does_not_fit_is_not_read() {
        let message = refusal(|site| {
            let sparse = std::fs::File::create(site.join("huge")).expect("a file");
            sparse.set_len(1 << 40).expect("a length");
        });
        assert!(message.contains("larger than 4 GiB"), "{message}");
    }

    #[test]
    fn what_gets_smaller_is_packed_as_gzip_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "the same again and again ".repeat(200);
        let noise: Vec<u8> = (0..5000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let noise = compress(&noise.repeat(3));
        assert!(noise.len() > WORTH_COMPRESSING, "what is compressed is noise");
        for (path, content) in [("a.txt", text.as_bytes()), ("b.bin", &noise), ("c.txt", &text.as_bytes()[..1000])] {
            std::fs::write(folder.path().join(path), content).expect("a file");
        }
        let archive = pack_folder(folder.path(), true).expect("packs");
        let gzip = |file: usize| {
            let at = |field: usize| word(&archive, 1 + file * RECORD / 4 + field);
            &archive[at(4)..at(4) + at(5)]
        };
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(gzip(0)).read_to_string(&mut unpacked).expect("is gzip");
        assert_eq!(unpacked, text);
        assert!(gzip(0).len() < text.len() / 10);
        assert!(gzip(1).is_empty() && gzip(2).is_empty());
        assert_eq!(archive, pack_folder(folder.path(), true).expect("packs"), "each build makes the same");
        let plain = pack_folder(folder.path(), false).expect("packs");
        assert!((0..3).all(|file| word(&plain, 1 + file * RECORD / 4 + 5) == 0));
    }

    #[test]
    fn a_missing_folder_is_named() {
        let failure = pack_folder(Path::new("/nonexistent"), false).expect_err("missing").to_string();
        assert!(failure.contains("/nonexistent"), "{failure}");
    }
}
