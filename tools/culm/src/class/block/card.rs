//! SD cards that QEMU emulates, which do not take every image.

use crate::expand::draft::{Draft, DraftDevice};

/// Returns whether QEMU emulates the device as an SD card.
pub fn is_emulated(draft: &Draft<'_>, device: Option<DraftDevice>) -> bool {
    let is_card = |argument: &String| argument.split(',').next() == Some("sd-card");
    draft.board.board.qemu.is_some()
        && device.is_some_and(|device| draft.devices[device].board.qemu.iter().any(is_card))
}
