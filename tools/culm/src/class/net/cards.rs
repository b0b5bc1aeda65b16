//! The network cards among a system's devices.

use super::options::NAME;
use crate::plan::Device;

/// Whether a device is a network card.
pub fn is_card(device: &Device) -> bool {
    device.board.classes.iter().any(|class| class.name() == NAME)
}

/// The names of the network cards, in their order.
pub fn cards(devices: &[Device]) -> Vec<&str> {
    devices.iter().filter(|device| is_card(device)).map(|device| device.board.name.as_str()).collect()
}
