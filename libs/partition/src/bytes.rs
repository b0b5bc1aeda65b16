//! Numbers in what was read, little-endian, and its checksum. What lies behind the end is zero.

/// Returns the bytes from `offset` on.
pub fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

pub fn half(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array(bytes, offset))
}

pub fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array(bytes, offset))
}

pub fn double(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(array(bytes, offset))
}

/// A checksum under way: CRC-32 as in Ethernet (UEFI 2.10 §5.3.1: of polynomial 0x04c11db7,
/// reflected).
#[derive(Clone, Copy, Debug)]
pub struct Crc(u32);

impl Crc {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let (mut value, mut bit) = (index as u32, 0);
            while bit < 8 {
                value = if value & 1 == 0 { value >> 1 } else { value >> 1 ^ 0xedb8_8320 };
                bit += 1;
            }
            table[index] = value;
            index += 1;
        }
        table
    };

    pub const fn new() -> Self {
        Self(!0)
    }

    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let index = (self.0 as u8 ^ byte) as usize;
            self.0 = self.0 >> 8 ^ Self::TABLE.get(index).copied().unwrap_or(0);
        }
    }

    pub fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32/ISO-HDLC in the catalogue of parametrised CRC algorithms.
    #[test]
    fn the_checksum_is_the_one_of_ethernet() {
        let mut crc = Crc::new();
        crc.add(b"1234");
        crc.add(b"56789");
        assert_eq!(crc.value(), 0xcbf4_3926);
    }
}
