//! SD memory cards: commands, replies, registers and the initialisation, without input or output.
//!
//! [`Command`] says what goes to a card, [`Status`], [`Ocr`], [`Cid`], [`Csd`], [`Scr`],
//! [`SdStatus`] and [`Switch`] what comes back, and [`Init`] which commands, waits and changes of
//! the bus make a [`Card`] of what is in a slot. Whoever has a host controller carries that out: a
//! driver by its registers, a test by a fake card. Nothing here waits, and nothing a card answers
//! is a panic, or an [`Init`] without end.
//!
//! Sections are those of the SD Specifications Part 1, Physical Layer Simplified Specification,
//! version 9.10.
//!
//! # Limits
//!
//! Memory cards of standard, high and extended capacity are taken (SDSC, SDHC, SDXC), at default
//! and at high speed, over one or four data lines, with 3.3 V. Cards beyond 2 TiB (SDUC) and MMC
//! are refused by name. Cards that are locked by a password are not unlocked.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod card;
mod cid;
mod command;
mod csd;
mod init;
mod reply;
mod scr;
mod status;
mod switch;
#[cfg(test)]
mod tests;

pub use card::{Card, Clearing};
pub use cid::Cid;
pub use command::{Command, Data, Direction, Reply};
pub use csd::{Csd, NotUsable};
pub use init::{Action, Bus, Init, Outcome, Problem};
pub use reply::{Address, Ocr, State, Status};
pub use scr::Scr;
pub use status::SdStatus;
pub use switch::Switch;

/// Bytes of a block, of every card that is set up by [`Init`] (§4.3.14).
pub const BLOCK: usize = 512;

/// Bytes of the longest register that is read as data: SD status and switch status.
pub const LONGEST_REGISTER: usize = 64;

/// Returns `count` bits of a register of 128 bits, from bit `from` on.
const fn bits(register: u128, from: u32, count: u32) -> u32 {
    (register >> from & ((1 << count) - 1)) as u32
}

/// Returns `count` bits of a register whose most significant byte comes first, from bit `from` on;
/// 24 at most. Bits that it does not have are 0.
fn bits_of(register: &[u8], from: usize, count: u32) -> u32 {
    let from_end = |index: usize| register.len().checked_sub(index + 1).and_then(|index| register.get(index));
    let byte = |index: usize| from_end(index).copied().map_or(0, u32::from);
    let first = from / 8;
    let word = byte(first) | byte(first + 1) << 8 | byte(first + 2) << 16 | byte(first + 3) << 24;
    word >> (from % 8) & ((1 << count) - 1)
}
