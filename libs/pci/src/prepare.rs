//! From a device of unknown state to one that its driver can use, or one that is off.

use crate::bar::{self, BARS, BarKind, Look};
use crate::capability::{capabilities, silence_messages};
use crate::virtio::{self, Structures};
use crate::{ConfigSpace, FUNCTIONS, Function, Refusal, SEVERAL_FUNCTIONS, SLOTS};
use crate::{command, is_absent, layout, register};

/// A device as the system was built for it. It is function 0 of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Function 0 of its slot.
    pub function: Function,
    /// Its vendor.
    pub vendor: u16,
    /// Its number among its vendor's devices.
    pub product: u16,
    /// The base address register of its driver's registers.
    pub bar: u8,
    /// The address of those registers, a multiple of `size`.
    pub address: u64,
    /// Their bytes.
    pub size: u64,
    /// Whether it reads and writes memory.
    pub is_master: bool,
}

impl Planned {
    fn command(&self) -> u32 {
        command::MEMORY | if self.is_master { command::MASTER } else { 0 }
    }
}

/// The further properties of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extras {
    /// It could interrupt by messages from a table (MSI-X).
    pub has_msi_x: bool,
    /// Base address registers that were set aside.
    pub aside: u8,
    /// The structures among its registers, if it is a virtio device.
    pub structures: Option<Structures>,
}

/// The class code of a host bridge (appendix D.7), without its interface.
const HOST_BRIDGE: u32 = 0x0600;

/// Number of the capability for power management (PCI Bus Power Management Interface Specification
/// 1.2, 3.2.1).
const POWER: u8 = 0x01;
/// The state in the capability's second word, 0 for awake ("Power Management Control/Status").
const POWER_STATE: u32 = 3;
/// Bit of that word that says that the device wanted to wake the machine; a one clears it.
const POWER_EVENT: u32 = 1 << 15;
/// Milliseconds that a device needs to wake from its deepest sleep with power (PCI Bus Power
/// Management Interface Specification 1.2, "State Transition Recovery Time Requirements").
pub const WAKING: u64 = 10;

/// The layout of the header of a bridge to another bus.
const BRIDGE: u8 = 1;

/// Bit of a bridge's word at [`register::INTERRUPT`]: what is behind it is held in reset
/// (PCI-to-PCI Bridge Architecture Specification 1.2, "Bridge Control Register").
const RESET_BEHIND: u32 = 1 << 22;

/// Bytes of a header (6.1).
const HEADER_BYTES: u8 = 64;

/// The count of functions that were turned off, and of those that were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silenced {
    /// Functions that are off.
    pub off: usize,
    /// Functions that say that they are not, although they were told.
    pub unruly: usize,
}

/// Turns off every function of the bus but those in `kept`: addresses, bus mastering, interrupt
/// line. A bridge among them passes nothing on after that, and holds what is behind it in reset.
pub fn silence(space: &mut impl ConfigSpace, kept: &[Function]) -> Silenced {
    let functions = (0..SLOTS).flat_map(|slot| (0..FUNCTIONS).map(move |number| Function { slot, number }));
    let mut silenced = Silenced::default();
    for function in functions {
        let is_there = !is_absent(space.read(function, register::IDENTITY));
        if !is_there || kept.contains(&function) || is_host_bridge(space, function) || is_echo(space, function, kept) {
            continue;
        }
        if set_command(space, function, command::NO_INTERRUPT).is_some() {
            silenced.off += 1;
        } else {
            silenced.unruly += 1;
        }
        if layout(space.read(function, register::HEADER)) == BRIDGE {
            let word = space.read(function, register::INTERRUPT);
            space.write(function, register::INTERRUPT, word | RESET_BEHIND);
        }
    }
    silenced
}

/// Returns whether a function is the bus's own end, which is left as firmware left it.
fn is_host_bridge(space: &impl ConfigSpace, function: Function) -> bool {
    function == Function { slot: 0, number: 0 } && space.read(function, register::CLASS) >> 16 == HOST_BRIDGE
}

/// Returns whether a function is function 0 of a kept device once more. A device of one function
/// may answer for it under each number (3.2.2.3.4): writing to another number would then turn off
/// the one that is in use. What differs from function 0 is a function of its own, whatever the
/// device says of their count.
fn is_echo(space: &impl ConfigSpace, function: Function, kept: &[Function]) -> bool {
    let first = Function { number: 0, ..function };
    let has_several = || space.read(first, register::HEADER) & SEVERAL_FUNCTIONS != 0;
    // The status beside the command changes while the device works.
    let bits = |offset| if offset == register::COMMAND { 0xffff } else { u32::MAX };
    let is_same = |offset| (space.read(first, offset) ^ space.read(function, offset)) & bits(offset) == 0;
    let is_second = || (0..HEADER_BYTES).step_by(4).all(is_same);
    function.number > 0 && kept.contains(&first) && !has_several() && is_second()
}

/// Wakes a planned device that firmware left asleep. Returns whether it did: then the device must
/// be left alone for [`WAKING`] before [`prepare`]. Nothing is written to one that is awake, or is
/// not the planned one.
pub fn wake(space: &mut impl ConfigSpace, planned: &Planned) -> bool {
    let function = planned.function;
    if !identify(space, planned).is_ok_and(|header| layout(header) == 0) {
        return false;
    }
    let mut asleep = None;
    capabilities(space, function, |capability, _| {
        // Its second word has the state.
        let Some(offset) = capability.offset.checked_add(4).filter(|_| capability.number == POWER) else { return };
        let word = space.read(function, offset);
        if word & POWER_STATE != 0 {
            asleep = Some((offset, word));
        }
    });
    let Some((offset, word)) = asleep else { return false };
    // Bits that ones clear are written as zeroes.
    space.write(function, offset, word & !(POWER_STATE | POWER_EVENT));
    true
}

/// Checks the device in a slot, and gives it its addresses and its command. `aside` is the address
/// at which registers that nobody uses are put, and how many bytes there are. A device that is
/// refused is off.
pub fn prepare(space: &mut impl ConfigSpace, planned: &Planned, aside: (u64, u64)) -> Result<Extras, Refusal> {
    let refused = identify(space, planned).and_then(|header| prepare_known(space, planned, header, aside));
    if refused.is_err() {
        space.write(planned.function, register::COMMAND, command::NO_INTERRUPT);
    }
    refused
}

/// Returns the header's word if what sits in the slot is what was planned.
fn identify(space: &impl ConfigSpace, planned: &Planned) -> Result<u32, Refusal> {
    let function = planned.function;
    let identity = space.read(function, register::IDENTITY);
    if is_absent(identity) {
        return Err(Refusal::Absent);
    }
    let (vendor, product) = (identity as u16, (identity >> 16) as u16);
    if (vendor, product) != (planned.vendor, planned.product) {
        let class = space.read(function, register::CLASS) >> 8;
        return Err(Refusal::Other { vendor, product, class });
    }
    Ok(space.read(function, register::HEADER))
}

fn prepare_known(
    space: &mut impl ConfigSpace,
    planned: &Planned,
    header: u32,
    aside: (u64, u64),
) -> Result<Extras, Refusal> {
    let function = planned.function;
    if layout(header) != 0 {
        return Err(Refusal::Header(layout(header)));
    }
    // Off before its registers are sized: it would answer at addresses of others.
    set_command(space, function, command::NO_INTERRUPT).ok_or(Refusal::Unruly)?;
    let count = place_all(space, planned, aside)?;
    // The lowest bit enables the ROM (6.2.5.2).
    space.write(function, register::ROM, 0);
    // A device of one function has INTA# only (2.2.6).
    let pin = (space.read(function, register::INTERRUPT) >> 8) as u8;
    if pin != 1 {
        return Err(Refusal::Pin(pin));
    }
    let has_msi_x = silence_messages(space, function).ok_or(Refusal::Capabilities)?;
    let structures = virtio::find(space, planned)?;
    set_command(space, function, planned.command()).ok_or(Refusal::Command)?;
    Ok(Extras { has_msi_x, aside: count, structures })
}

/// Gives the planned register its address, and sets the others aside; returns how many those are.
fn place_all(space: &mut impl ConfigSpace, planned: &Planned, aside: (u64, u64)) -> Result<u8, Refusal> {
    let (mut index, mut count, mut is_placed) = (0, 0, false);
    while index < BARS {
        let sized = match bar::look(space, planned.function, index) {
            Look::Nonsense => return Err(Refusal::Bar(index)),
            Look::None => {
                index += 1;
                continue;
            }
            Look::Found(sized) => sized,
        };
        let is_planned = index == planned.bar;
        let address = match (is_planned, sized.bar.kind) {
            (true, BarKind::Ports) => return Err(Refusal::Bar(index)),
            (true, _) if sized.size != planned.size => return Err(Refusal::Size { bar: index, found: sized.size }),
            (true, _) => Some(planned.address),
            // Ports stay off by the command.
            (false, BarKind::Ports) => None,
            (false, _) if sized.size > aside.1 => return Err(Refusal::Aside { bar: index, found: sized.size }),
            (false, _) => Some(aside.0),
        };
        if let Some(address) = address {
            let ends = address.checked_add(sized.size - 1).is_some_and(|last| last < 1 << 32);
            let fits = sized.bar.kind == BarKind::Memory64 || ends;
            if !fits || !bar::place(space, planned.function, sized.bar, address) {
                return Err(Refusal::Address(index));
            }
            is_placed |= is_planned;
            count += u8::from(!is_planned);
        }
        index += if sized.bar.kind == BarKind::Memory64 { 2 } else { 1 };
    }
    if is_placed { Ok(count) } else { Err(Refusal::Bar(planned.bar)) }
}

/// Writes a command; returns nothing if it is not there when read back, which also waits until
/// earlier writes have arrived.
fn set_command(space: &mut impl ConfigSpace, function: Function, command: u32) -> Option<()> {
    space.write(function, register::COMMAND, command);
    (space.read(function, register::COMMAND) & command::COMPARED == command).then_some(())
}

/// Returns whether a device still is as [`prepare`] left it: then its driver may be using it, and
/// nothing is written.
pub fn keeps(space: &impl ConfigSpace, planned: &Planned) -> bool {
    let function = planned.function;
    identify(space, planned).is_ok_and(|header| layout(header) == 0)
        && space.read(function, register::COMMAND) & command::COMPARED == planned.command()
        && bar::placed(space, function, planned.bar).is_some_and(|(_, address)| address == planned.address)
}
