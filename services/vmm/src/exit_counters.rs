//! The status counters of exits, one for each cause: what a guest makes its monitor work for.

use crate::counters;
use culm::Counter;
use culm::guest::{DISTRIBUTOR, GuestRange, SERIAL, VIRTIO_BLOCK, VIRTIO_CONSOLE, VIRTIO_ENTROPY, VIRTIO_NETS};
use culm_guest::exit::Exit;

/// The interrupt controller: its distributor, and its redistributors behind that, before the serial
/// port.
const CONTROLLER: GuestRange = GuestRange { address: DISTRIBUTOR.address, size: SERIAL.address - DISTRIBUTOR.address };

/// Returns the counter of an exception that the guest took.
pub fn counter(exit: &Exit) -> Counter {
    let address = match exit {
        Exit::Memory(access) => access.address,
        Exit::Call { .. } => return counters::EXITS_CALLS,
        Exit::SystemRegister { .. } | Exit::Coprocessor | Exit::Other => return counters::EXITS_OTHERS,
    };
    if VIRTIO_NETS.iter().any(|slot| slot.registers().offset(address).is_some()) {
        return counters::EXITS_NET;
    }
    let places = [
        (VIRTIO_BLOCK.registers(), counters::EXITS_DISK),
        (VIRTIO_ENTROPY.registers(), counters::EXITS_ENTROPY),
        (VIRTIO_CONSOLE.registers(), counters::EXITS_SERIAL),
        (SERIAL, counters::EXITS_SERIAL),
        (CONTROLLER, counters::EXITS_CONTROLLER),
    ];
    let place = places.into_iter().find(|(range, _)| range.offset(address).is_some());
    place.map_or(counters::EXITS_OTHERS, |(_, counter)| counter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_guest::exit::Access;

    #[test]
    fn an_access_counts_for_the_device_that_it_is_to() {
        let at =
            |address| Exit::Memory(Access { address, size: 4, general: 0, write: true, signed: false, wide: false });
        for (exit, expected) in [
            (at(VIRTIO_BLOCK.registers().address + 0x50), counters::EXITS_DISK),
            (at(VIRTIO_NETS[0].registers().address), counters::EXITS_NET),
            (at(VIRTIO_NETS[3].registers().address + 0xfff), counters::EXITS_NET),
            (at(SERIAL.address), counters::EXITS_SERIAL),
            (at(VIRTIO_CONSOLE.registers().address), counters::EXITS_SERIAL),
            (at(DISTRIBUTOR.address + DISTRIBUTOR.size), counters::EXITS_CONTROLLER),
            (at(0), counters::EXITS_OTHERS),
            (Exit::Call { pass: false }, counters::EXITS_CALLS),
        ] {
            assert_eq!(counter(&exit), expected, "{exit:?}");
        }
    }
}
