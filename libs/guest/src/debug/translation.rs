//! The guest's own translation of addresses, stage 1 of EL1 and EL0 (Arm ARM D8.2, "Translation
//! process"), walked by software in tables that the guest may change meanwhile.

/// Bits of an address in an entry, and of a table's in `TTBR`: 48 bits.
const ADDRESS: u64 = 0xffff_ffff_f000;

/// The registers that say how the guest translates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// `SCTLR_EL1`: whether it does (M).
    pub system_control: u64,
    /// `TCR_EL1`.
    pub control: u64,
    /// `TTBR0_EL1` and `TTBR1_EL1`.
    pub tables: [u64; 2],
}

/// Tables of one half of the address space.
#[derive(Clone, Copy, Debug)]
struct Half {
    /// Bits of a virtual address that are translated.
    bits: u32,
    /// Bits of an address within a page.
    page_bits: u32,
    /// Address of the first table.
    table: u64,
}

impl Translation {
    /// Returns the guest-physical address of a virtual one, if there is one; `load` reads a word of
    /// the guest's physical memory. Addresses of more than 48 bits are not known.
    pub fn walk(&self, address: u64, load: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        const ENABLED: u64 = 1;
        if self.system_control & ENABLED == 0 {
            return Some(address);
        }
        let half = self.half(address)?;
        let stride = half.page_bits - 3;
        let levels = (half.bits - half.page_bits).div_ceil(stride);
        let mut table = half.table;
        for below in (0..levels).rev() {
            let shift = half.page_bits + stride * below;
            let index_bits = stride.min(half.bits - shift);
            let index = address >> shift & ((1 << index_bits) - 1);
            let entry = load(table.checked_add(8 * index)?)?;
            let (is_valid, is_table) = (entry & 1 != 0, entry & 2 != 0);
            let within = (1 << shift) - 1;
            // At the last level the same bit says that it is a page. Blocks are at the level above,
            // and with pages of 4 KiB at the one above that.
            let is_end = below == 0 && is_table || !is_table && (below == 1 || below == 2 && half.page_bits == 12);
            match (is_valid, is_end) {
                (true, true) => return Some(entry & ADDRESS & !within | address & within),
                (true, false) if is_table => table = entry & ADDRESS & !((1 << half.page_bits) - 1),
                _ => return None,
            }
        }
        None
    }

    /// Returns the half that an address is in, if it is in one that is translated.
    fn half(&self, address: u64) -> Option<Half> {
        let is_upper = address >> 55 & 1 != 0;
        let field = |lower: u32, upper: u32, bits: u32| {
            self.control >> (if is_upper { upper } else { lower }) & ((1 << bits) - 1)
        };
        let page_bits = match (is_upper, field(14, 30, 2)) {
            (false, 0) | (true, 2) => 12,
            (false, 2) | (true, 1) => 14,
            (false, 1) | (true, 3) => 16,
            _ => return None,
        };
        // TnSZ, EPDn, TBIn.
        let (size, is_off, ignores_top) = (field(0, 16, 6) as u32, field(7, 23, 1) != 0, field(37, 38, 1) != 0);
        if is_off || !(16..=39).contains(&size) {
            return None;
        }
        let bits = 64 - size;
        let top = if ignores_top { 56 } else { 64 };
        let beyond = address << (64 - top) >> (64 - top) >> bits;
        let all = (1_u64 << (top - bits)) - 1;
        if beyond != if is_upper { all } else { 0 } {
            return None;
        }
        // The first table is aligned to its size, and to 64 bytes.
        let stride = page_bits - 3;
        let entries_bits = (bits - page_bits - 1) % stride + 1;
        let table = self.tables[usize::from(is_upper)] & 0xffff_ffff_ffff & !((8 << entries_bits) - 1) & !63;
        Some(Half { bits, page_bits, table })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const ON: u64 = 1;
    /// Linux's: pages of 4 KiB and 48 bits in both halves, the lower one's top byte ignored.
    const LINUX: u64 = 1 << 37 | 0b10 << 30 | 16 << 16 | 16;

    fn walk(translation: &Translation, memory: &[(u64, u64)], address: u64) -> Option<u64> {
        let memory: BTreeMap<u64, u64> = memory.iter().copied().collect();
        translation.walk(address, |at| memory.get(&at).copied())
    }

    #[test]
    fn without_translation_addresses_are_physical() {
        assert_eq!(walk(&Translation::default(), &[], 0x4000_1234), Some(0x4000_1234));
    }

    #[test]
    fn pages_and_blocks_of_both_halves() {
        let tables = [0x4100_0001, 7 << 48 | 0x4200_0000];
        let linux = Translation { system_control: ON, control: LINUX, tables };
        // 0xffff_8000_0820_3456: entries 256, 0, 65 of levels 0 to 2; then 3 of level 3.
        let memory = [
            (0x4200_0000 + 8 * 256, 0x4200_1003),
            (0x4200_1000, 0x4200_2003),
            (0x4200_2000 + 8 * 65, 0x4200_3003),
            (0x4200_3000 + 8 * 3, 0x0060_0000_4567_8703),
            // A block of 2 MiB, of 1 GiB, and none.
            (0x4200_2000 + 8 * 66, 0x0060_0000_4560_0701),
            (0x4200_1000 + 8, 0x0060_0000_8000_0701),
            (0x4200_1000 + 16, 0x4200_2000),
            // The lower half's first page.
            (0x4100_0000, 0x4100_1003),
            (0x4100_1000, 0x4100_2003),
            (0x4100_2000, 0x4100_3003),
            (0x4100_3000, 0x4000_0003),
        ];
        let found = |address| walk(&linux, &memory, address);
        assert_eq!(found(0xffff_8000_0820_3456), Some(0x4567_8456));
        assert_eq!(found(0xffff_8000_0843_2109), Some(0x4563_2109));
        assert_eq!(found(0xffff_8000_4765_4321), Some(0x8765_4321));
        assert_eq!(found(0xffff_8000_8000_0000), None, "an entry that is not valid");
        assert_eq!(found(0xffff_8000_0820_4000), None, "outside of memory");
        assert_eq!(found(0x123), Some(0x4000_0123));
        assert_eq!(found(0x5a00_0000_0000_0123), Some(0x4000_0123), "a tag");
        for none in [0xff7f_8000_0820_3456, 0x5aff_8000_0820_3456, 1 << 48, 0x0080_0000_0000_0000] {
            assert_eq!(found(none), None, "{none:#x}");
        }
        let off = Translation { control: LINUX | 1 << 7, ..linux };
        assert_eq!(walk(&off, &memory, 0x123), None, "EPD0");
    }

    #[test]
    fn pages_of_other_sizes() {
        // 64 KiB and 42 bits: levels 2 and 3; 16 KiB and 47 bits: levels 1 to 3, of which the first
        // has 2,048 entries.
        let large = Translation { system_control: ON, control: 0b01 << 14 | 22, tables: [0x4000_0000, 0] };
        let memory = [(0x4000_0008, 0x4001_0003), (0x4001_0010, 0x5555_0003), (0x4000_0010, 0x6000_0001)];
        assert_eq!(walk(&large, &memory, 0x2002_1234), Some(0x5555_1234));
        assert_eq!(walk(&large, &memory, 0x4123_4567), Some(0x6123_4567), "a block of 512 MiB");
        let middle = Translation { system_control: ON, control: 0b10 << 14 | 17, tables: [0x4000_0000, 0] };
        let memory = [(0x4000_0000 + 8 * 2047, 0x4000_4003), (0x4000_4000, 0x4000_8003), (0x4000_8000, 0x7777_8003)];
        assert_eq!(walk(&middle, &memory, 2047 << 36 | 0x2345), Some(0x7777_a345));
        let block = [(0x4000_0000, 0x6000_0001)];
        assert_eq!(walk(&middle, &block, 0x1234), None, "there are none so large");
    }

    proptest::proptest! {
        /// Whatever the registers and tables hold, a walk ends, after four entries at most.
        #[test]
        fn any_tables_end(system_control: u64, control: u64, tables: [u64; 2], address: u64, words: [u64; 8]) {
            let translation = Translation { system_control, control, tables };
            let loads = core::cell::Cell::new(0);
            let _ = translation.walk(address, |at| {
                loads.set(loads.get() + 1);
                Some(words[(at >> 3) as usize % 8] | 3)
            });
            proptest::prop_assert!(loads.get() <= 4);
        }
    }
}
