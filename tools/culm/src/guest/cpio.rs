//! Writes an initial RAM disk: a `cpio` archive in the "newc" format (Linux,
//! `Documentation/driver-api/early-userspace`).

/// Permission and type bits of a directory that all may read.
const DIRECTORY: u32 = 0o040_755;
/// Of a symbolic link.
const LINK: u32 = 0o120_777;
/// Of a regular file.
const FILE: u32 = 0o100_000;

/// An archive being written.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory; its parents must be there already.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds a file with permission bits.
    pub fn file(&mut self, path: &str, permissions: u32, content: &[u8]) {
        self.entry(path, FILE | permissions, content);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.entry(path, LINK, target.as_bytes());
    }

    /// The archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let path = path.trim_start_matches('/');
        // Inode, mode, owner, group, links, time, size, device (2), special device (2), length of
        // the name, check sum.
        let fields = [self.entries, mode, 0, 0, 1, 0, content.len() as u32, 0, 0, 0, 0, path.len() as u32 + 1, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_end_with_a_trailer() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.file("/bin/a", 0o755, b"12345");
        archive.link("bin/b", "a");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(&bytes[..6], b"070701");
        // Header (110), "bin" and its zero, padded: 116. The second entry begins there.
        assert_eq!(&bytes[116..122], b"070701");
        assert_eq!(&bytes[116 + 14..116 + 22], format!("{:08x}", 0o100_755).as_bytes());
        assert_eq!(&bytes[116 + 54..116 + 62], b"00000005");
        assert!(bytes.windows(10).any(|window| window == b"TRAILER!!!"));
    }
}
