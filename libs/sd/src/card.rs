//! A card that is set up: its commands for blocks.

use crate::{BLOCK, Bus, Cid, Command, Csd, Direction, Scr, SdStatus};

/// How a card clears blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// Cleared blocks read as anything afterwards.
    Discard,
    /// Cleared blocks read as the card's erased state afterwards.
    Erase,
}

/// A card that is selected and waits for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its address.
    pub address: u16,
    /// Its identification.
    pub cid: Cid,
    /// Its capacity and classes of commands.
    pub csd: Csd,
    /// Its configuration.
    pub scr: Scr,
    /// Its status.
    pub status: SdStatus,
    /// The bus as card and host use it.
    pub bus: Bus,
}

impl Card {
    /// Returns the size of the card in blocks.
    #[inline(always)]
    pub const fn blocks(&self) -> u64 {
        self.csd.blocks
    }

    /// Returns the address of a block in what the card counts in: bytes or blocks (§4.3.14).
    /// Returns `None` if the card does not have it.
    #[inline]
    pub const fn address_of(&self, block: u64) -> Option<u32> {
        if block >= self.csd.blocks {
            return None;
        }
        let address = if self.csd.is_high_capacity { block } else { block * BLOCK as u64 };
        if address > u32::MAX as u64 { None } else { Some(address as u32) }
    }

    /// Returns the command that reads or writes so many blocks from `block` on. Returns `None` if
    /// the card does not have them.
    #[inline]
    pub fn transfer(&self, direction: Direction, block: u64, blocks: u16) -> Option<Command> {
        self.address_of(block.checked_add(u64::from(blocks).checked_sub(1)?)?)?;
        Some(Command::transfer(direction, self.address_of(block)?, blocks))
    }

    /// Returns the commands, in their order, that clear so many blocks from `block` on (§4.3.5).
    /// Returns `None` if the card does not have them.
    pub fn clear(&self, clearing: Clearing, block: u64, blocks: u32) -> Option<[Command; 3]> {
        let last = block.checked_add(u64::from(blocks).checked_sub(1)?)?;
        let (first, last) = (self.address_of(block)?, self.address_of(last)?);
        let is_discard = matches!(clearing, Clearing::Discard) && self.status.discards;
        Some([Command::erase_first(first), Command::erase_last(last), Command::erase(is_discard)])
    }

    /// Returns whether the card can erase the blocks that it is told to, and no others.
    pub const fn erases(&self) -> bool {
        self.csd.has(Csd::CLASS_ERASE) && self.csd.erases_blocks
    }

    /// Returns whether erased blocks read as zeroes.
    pub const fn erases_to_zeroes(&self) -> bool {
        self.erases() && !self.scr.erases_to_ones
    }

    /// Returns a number for the card that is the same whenever it is set up, and not 0. Two cards
    /// with the same number are possible, but improbable unless they have the same identification,
    /// which manufacturers must not let happen (§5.2).
    pub fn number(&self) -> u32 {
        let identity = [self.cid.register().to_le_bytes(), u128::from(self.csd.blocks).to_le_bytes()];
        // FNV-1a: a change of any byte changes the number.
        let number = identity
            .as_flattened()
            .iter()
            .fold(0x811c_9dc5_u32, |number, byte| (number ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
        number.max(1)
    }
}
