//! Two Linux guests in the path of packets, each a router between its card and a link to the other.

use crate::lab::{Lab, Setup, Subject};
use crate::linux;
use crate::network::{GUEST, GUEST_BESIDE};
use crate::systems::{Guests, Joint};
use anyhow::Result;
use std::time::Duration;

/// For each Linux to be a router.
const PATIENCE: Duration = Duration::from_secs(120);

/// Boots them.
pub(super) fn boot(lab: &Lab, setup: &Setup) -> Result<Subject> {
    let guests = Guests { name: "bench-guests-path", count: 2, joint: Joint::Path, last: "" };
    let (mut machine, image) = lab.start_guests(&guests, setup)?;
    for address in [GUEST, GUEST_BESIDE] {
        machine.wait_for(&format!("{} {address}", linux::READY), PATIENCE)?;
    }
    lab.wait_until_quiet(machine, Some(image))
}
