//! The structures of a virtio device, of which vendor capabilities say where they are in its base
//! address registers (VIRTIO 1.2 §4.1.4).
//!
//! A driver sees no configuration space, so the bus's driver reads this for it. Both check it, each
//! against the registers that it knows: [`find`] what a device says, [`Structures::from_words`]
//! what another component says.

use crate::{ConfigSpace, Planned, Refusal, capabilities};
use core::ops::RangeInclusive;

/// Vendor of virtio devices (§4.1.2).
const VENDOR: u16 = 0x1af4;
/// Numbers of those without the legacy interface: the kind of device (§5) is added to the first
/// (§4.1.2).
const PRODUCTS: RangeInclusive<u16> = 0x1040..=0x107f;

/// Number of a capability of the vendor's own (PCI Local Bus Specification 3.0, appendix H).
const VENDOR_SPECIFIC: u8 = 0x09;

/// Offsets in such a capability (§4.1.4, `struct virtio_pci_cap`). Its first word has the number,
/// the next capability's offset, its length, and the type of its structure.
const BAR: u8 = 4;
const OFFSET: u8 = 8;
const SIZE: u8 = 12;
/// Only where it is about doorbells (§4.1.4.4, `struct virtio_pci_notify_cap`).
const MULTIPLIER: u8 = 16;

/// Bytes of a capability, and of one about doorbells.
const BYTES: u8 = 16;
const BYTES_WITH_MULTIPLIER: u8 = 20;

/// Words in which structures are told to a driver.
pub const WORDS: usize = 5;

/// Which structure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// The registers that devices of every kind have (§4.1.4.3).
    Common,
    /// Where a queue's number is written when it has new buffers (§4.1.4.4).
    Doorbells,
    /// The causes of its interrupt, which reading clears (§4.1.4.5).
    Causes,
    /// The configuration of its kind of device (§4.1.4.6).
    Configuration,
}

impl Name {
    /// All, in the order of their types (§4.1.4, from 1 on).
    const ALL: [Self; 4] = [Self::Common, Self::Doorbells, Self::Causes, Self::Configuration];

    /// Returns how few bytes the structure can have, and what divides its offset.
    fn form(self) -> (u32, u32) {
        match self {
            // As far as the addresses of a queue: what follows came later.
            Self::Common => (0x38, 4),
            Self::Doorbells => (2, 2),
            Self::Causes => (1, 1),
            Self::Configuration => (0, 4),
        }
    }

    /// Returns what it is called in messages.
    pub fn text(self) -> &'static str {
        match self {
            Self::Common => "common configuration",
            Self::Doorbells => "doorbells",
            Self::Causes => "interrupt status",
            Self::Configuration => "own configuration",
        }
    }
}

/// A structure's place among the registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes before it.
    pub offset: u32,
    /// Its bytes.
    pub size: u32,
}

impl Place {
    fn word(self) -> u64 {
        u64::from(self.offset) | u64::from(self.size) << 32
    }

    fn of(word: u64) -> Self {
        Self { offset: word as u32, size: (word >> 32) as u32 }
    }

    /// Returns whether the structure can be there, among so many bytes of registers.
    fn is_possible(self, name: Name, registers: u64) -> bool {
        let (least, alignment) = name.form();
        let end = u64::from(self.offset) + u64::from(self.size);
        self.size >= least && self.offset.is_multiple_of(alignment) && end <= registers
    }
}

/// The structures of a device, all among the registers of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structures {
    /// The kind of device (§5).
    pub kind: u16,
    /// [`Name::Common`].
    pub common: Place,
    /// [`Name::Doorbells`].
    pub doorbells: Place,
    /// A queue's doorbell is so many bytes behind that of the one with the number before; 0 if one
    /// is for all. The numbers are those that the device gives its queues for this.
    pub multiplier: u32,
    /// [`Name::Causes`].
    pub causes: Place,
    /// [`Name::Configuration`], empty if the device says nothing of one.
    pub configuration: Place,
}

impl Structures {
    /// Returns the words that tell a driver of them.
    pub fn words(&self) -> [u64; WORDS] {
        let Self { kind, common, doorbells, multiplier, causes, configuration } = *self;
        let head = u64::from(kind) | u64::from(multiplier) << 32;
        [head, common.word(), doorbells.word(), causes.word(), configuration.word()]
    }

    /// Returns the structures that `words` tell of, `None` if there is one that cannot be among so
    /// many bytes of registers.
    pub fn from_words(words: [u64; WORDS], registers: u64) -> Option<Self> {
        let [head, common, doorbells, causes, configuration] = words;
        let places = [common, doorbells, causes, configuration].map(Place::of);
        let all_possible = Name::ALL.iter().zip(places).all(|(name, place)| place.is_possible(*name, registers));
        let [common, doorbells, causes, configuration] = places;
        let (kind, multiplier) = (head as u16, (head >> 32) as u32);
        all_possible.then_some(Self { kind, common, doorbells, multiplier, causes, configuration })
    }

    /// Returns the offset of the doorbell for queues to which the device gave this number, `None`
    /// if there is none in their structure (§4.1.4.4).
    pub fn doorbell(&self, number: u16) -> Option<u32> {
        let offset = u32::from(number).checked_mul(self.multiplier)?;
        let fits = offset.checked_add(2)? <= self.doorbells.size && offset.is_multiple_of(2);
        fits.then_some(self.doorbells.offset + offset)
    }
}

/// Finds the structures of a planned device, `None` if it is no virtio device. The first one of a
/// type counts that is in the planned base address register: the device prefers the first
/// (§4.1.4.1), and no other register is the driver's.
pub fn find(space: &impl ConfigSpace, planned: &Planned) -> Result<Option<Structures>, Refusal> {
    if planned.vendor != VENDOR || !PRODUCTS.contains(&planned.product) {
        return Ok(None);
    }
    let function = planned.function;
    let (mut places, mut multiplier) = ([None; Name::ALL.len()], 0);
    let ends = capabilities(space, function, |capability, word| {
        let (length, kind) = ((word >> 16) as u8, (word >> 24) as usize);
        let is_whole = length >= BYTES && capability.offset.checked_add(BYTES - 1).is_some();
        let index = kind.wrapping_sub(1);
        if capability.number != VENDOR_SPECIFIC || !is_whole || index >= places.len() || places[index].is_some() {
            return;
        }
        let read = |offset| space.read(function, capability.offset + offset);
        if read(BAR) as u8 != planned.bar {
            return;
        }
        if Name::ALL[index] == Name::Doorbells {
            let has_multiplier =
                length >= BYTES_WITH_MULTIPLIER && capability.offset.checked_add(BYTES_WITH_MULTIPLIER - 1).is_some();
            if !has_multiplier {
                return;
            }
            multiplier = read(MULTIPLIER);
        }
        places[index] = Some(Place { offset: read(OFFSET), size: read(SIZE) });
    });
    if !ends {
        return Err(Refusal::Capabilities);
    }
    let [common, doorbells, causes, configuration] = places;
    let found = |name: Name, place: Option<Place>| {
        let place = place.ok_or(Refusal::NoStructure(name))?;
        if place.is_possible(name, planned.size) { Ok(place) } else { Err(Refusal::Structure(name)) }
    };
    Ok(Some(Structures {
        kind: planned.product - PRODUCTS.start(),
        common: found(Name::Common, common)?,
        doorbells: found(Name::Doorbells, doorbells)?,
        multiplier,
        causes: found(Name::Causes, causes)?,
        configuration: found(Name::Configuration, Some(configuration.unwrap_or_default()))?,
    }))
}
