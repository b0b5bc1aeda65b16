//! The start block: this component's name, configuration and connections, as the build tool wrote
//! them.
//!
//! The block is written by the tool and mapped read-only, so it is trusted; its head is checked
//! once, so that an image of mixed versions fails at once and says so. `culm::component!` generates
//! the code that reads a component's [`Component::Config`](crate::Component::Config) and
//! [`Component::Connections`](crate::Component::Connections) from it; few components use this
//! module themselves.

use crate::channel::{Channel, Interrupt};
use crate::config::ConfigValue;
use crate::device::Device;
use crate::region::Region;
use culm_abi::connection::{self, Connection, EXCLUSIVE};
use culm_abi::start::{self as abi, IMPLICIT, MAGIC, Memory, Span, StartHeader, Value};
use zerocopy::{FromBytes, Immutable};

/// A start block whose head was checked.
#[derive(Clone, Copy)]
pub struct StartBlock {
    bytes: &'static [u8],
    header: &'static StartHeader,
}

impl StartBlock {
    /// Checks the head.
    ///
    /// # Panics
    ///
    /// If `bytes` are no start block of this version: the image was not built by the tool of this
    /// component's version.
    pub(crate) fn new(bytes: &'static [u8]) -> Self {
        // Errors are left out of what is said here: to write them takes more code than all of this.
        let Ok((header, _)) = StartHeader::ref_from_prefix(bytes) else { panic!("no start block: rebuild the image") };
        assert!(header.magic == MAGIC, "no start block: rebuild the image");
        assert!(header.version == culm_abi::VERSION, "a start block of another version: rebuild the image");
        assert!(header.size as usize <= bytes.len(), "a start block that is cut off: rebuild the image");
        Self { bytes: &bytes[..header.size as usize], header }
    }

    /// Returns the head.
    pub(crate) fn header(&self) -> &'static StartHeader {
        self.header
    }

    /// Returns elements of the block.
    ///
    /// # Panics
    ///
    /// Where `span` is none of this block's.
    pub fn list<T: FromBytes + Immutable>(&self, span: Span) -> &'static [T] {
        let rest = self.bytes.get(span.offset as usize..).unwrap_or_default();
        match <[T]>::ref_from_prefix_with_elems(rest, span.count as usize) {
            Ok((list, _)) => list,
            Err(_) => panic!("no span of the start block"),
        }
    }

    /// Returns a text of the block.
    ///
    /// # Panics
    ///
    /// Where `span` is none of this block's.
    pub fn text(&self, span: Span) -> &'static str {
        let Ok(text) = core::str::from_utf8(self.list(span)) else {
            panic!("text that is no UTF-8: rebuild the image")
        };
        text
    }

    /// Returns the one structure at `span`.
    fn structure<T: FromBytes + Immutable + Copy + 'static>(&self, span: Span) -> T {
        // Spans of structures count bytes or one element; the type says how long it is.
        self.list::<T>(Span { offset: span.offset, count: 1 })[0]
    }

    /// Returns field `index` of the configuration, in the manifest's order.
    ///
    /// # Panics
    ///
    /// If the block is not that of this component.
    pub fn config<T: ConfigValue>(&self, index: usize) -> T {
        let value = self.list::<Value>(self.header.config)[index];
        T::read(RawValue { block: *self, value })
    }

    /// Returns the connections in slot `slot` of the manifest: none or one, or several if it may
    /// repeat.
    pub fn connections<T: ConnectionValue>(&self, slot: usize) -> impl Iterator<Item = T> + Clone + use<T> {
        let block = *self;
        self.list::<abi::Connection>(self.header.connections)
            .iter()
            .filter(move |connection| connection.slot as usize == slot)
            .map(move |connection| T::read(RawConnection { block, connection }))
    }

    /// Returns the connection in slot `slot` of the manifest.
    ///
    /// # Panics
    ///
    /// If there is none, although the manifest demands it.
    pub fn connection<T: ConnectionValue>(&self, slot: usize) -> T {
        self.connections(slot).next().expect("a connection that the manifest demands: rebuild the image")
    }

    /// Returns the memory that has one owner each ([`crate::region::Exclusive`]), as the structures
    /// of connections declare it.
    pub(crate) fn exclusive(self) -> impl Iterator<Item = Memory> {
        self.list::<abi::Connection>(self.header.connections).iter().flat_map(move |connection| {
            let of_kind = EXCLUSIVE.iter().filter(|(kind, _)| *kind == connection.kind);
            of_kind.map(move |(_, offset)| {
                let offset = connection.data.offset.saturating_add(*offset as u32);
                self.structure(Span { offset, count: 1 })
            })
        })
    }

    /// Returns the interrupts of all devices.
    pub(crate) fn interrupts(self) -> impl Iterator<Item = Interrupt> {
        let connections = self.list::<abi::Connection>(self.header.connections).iter();
        let devices = connections.filter(|connection| connection.kind == Device::KIND);
        devices.flat_map(move |connection| {
            let device = self.structure::<connection::Device>(connection.data);
            self.list::<u32>(device.interrupts).iter().map(|channel| Interrupt::new(Channel::new(*channel)))
        })
    }

    /// Returns the first connection of the kind of `T` that no manifest names.
    fn unnamed<T: ConnectionValue>(&self) -> Option<T> {
        self.list::<abi::Connection>(self.header.connections)
            .iter()
            .find(|connection| connection.slot == IMPLICIT && connection.kind == T::KIND)
            .map(|connection| T::read(RawConnection { block: *self, connection }))
    }

    /// Returns the serial client of the domain's log.
    pub(crate) fn log(&self) -> Option<connection::SerialClient> {
        self.unnamed()
    }
}

pub use crate::arch::start_block as current;

/// Returns the elements of a list in a connection, for example the clients of a virtualiser.
pub fn list<T: FromBytes + Immutable>(span: Span) -> &'static [T] {
    current().list(span)
}

/// Returns a text in a connection, for example a client's name.
pub fn text(span: Span) -> &'static str {
    current().text(span)
}

/// Returns this instance's name in the system description.
pub fn name() -> &'static str {
    let block = current();
    block.text(block.header.name)
}

/// Returns the observer's connection, which the system description gives by `observe = true`, or
/// `None`.
pub fn observation() -> Option<connection::Observation> {
    current().unnamed()
}

/// Returns content that the build tool mapped read-only into this component.
pub(crate) fn content(memory: Memory) -> &'static [u8] {
    if memory.size == 0 {
        return &[];
    }
    // SAFETY: [A3] only called for files of a start block, which are mapped read-only for everybody
    // and never change.
    unsafe { core::slice::from_raw_parts(memory.address as *const u8, memory.size as usize) }
}

/// Returns the page of named counters.
pub(crate) fn counters(block: &StartBlock) -> Option<&'static connection::Counters> {
    let memory = block.header.counters;
    if memory.size < size_of::<connection::Counters>() as u64 {
        return None;
    }
    // SAFETY: [A2, A3] the tool maps a page of zeros for this component alone to write; it consists
    // of atomics.
    unsafe { (memory.address as *const connection::Counters).as_ref() }
}

/// A type that is read from a start block as a whole: `culm::component!` makes such types of a
/// manifest.
pub trait FromStart: Sized {
    /// Reads it.
    fn read(block: &StartBlock) -> Self;
}

/// A component without configuration, or without connections.
impl FromStart for () {
    fn read(_: &StartBlock) -> Self {}
}

/// A value of the configuration together with the block that it points into. Only this crate makes
/// one, so that content is taken only from memory where the build tool put it.
#[derive(Clone, Copy)]
pub struct RawValue {
    pub(crate) block: StartBlock,
    pub(crate) value: Value,
}

/// A connection together with the block that it points into.
#[derive(Clone, Copy)]
pub struct RawConnection {
    block: StartBlock,
    connection: &'static abi::Connection,
}

impl RawConnection {
    fn structure<T: Connection + FromBytes + Immutable + Copy + 'static>(&self) -> T {
        assert!(self.connection.kind == T::KIND.number, "a connection of another kind: rebuild the image");
        self.block.structure(self.connection.data)
    }
}

/// A type as which a component gets a connection: the structure that `culm-abi` declares, which the
/// classes' crates wrap, or a type of this crate in its place ([`crate::connection`]).
pub trait ConnectionValue: Sized {
    /// The number of its kind.
    const KIND: u32;

    /// Reads it from the start block.
    fn read(raw: RawConnection) -> Self;
}

impl ConnectionValue for Channel {
    const KIND: u32 = <connection::Channel as Connection>::KIND.number;

    fn read(raw: RawConnection) -> Self {
        Self::new(raw.structure::<connection::Channel>().channel)
    }
}

impl ConnectionValue for Region {
    const KIND: u32 = <connection::Region as Connection>::KIND.number;

    fn read(raw: RawConnection) -> Self {
        let region = raw.structure::<connection::Region>();
        if region.writable != 0 { Self::new(region.region) } else { Self::read_only(region.region) }
    }
}

impl ConnectionValue for Device {
    const KIND: u32 = <connection::Device as Connection>::KIND.number;

    fn read(raw: RawConnection) -> Self {
        let device = raw.structure::<connection::Device>();
        let dma = if device.dma.size == 0 { Region::EMPTY } else { Region::new(device.dma) };
        Self::new(device.registers, raw.block.list(device.interrupts), dma)
    }
}

impl<T: Connection + FromBytes + Immutable + Copy + 'static> ConnectionValue for T {
    const KIND: u32 = T::KIND.number;

    fn read(raw: RawConnection) -> Self {
        raw.structure()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::{FromZeros, IntoBytes};

    /// A line that a previous life left masked is enabled without the driver's help.
    #[test]
    fn the_interrupts_of_all_devices_are_known() {
        let mut header = StartHeader::new_zeroed();
        let devices = (size_of::<StartHeader>() + size_of::<abi::Connection>() * 2) as u32;
        let size = size_of::<connection::Device>() as u32;
        let numbers = devices + 2 * size;
        header.magic = MAGIC;
        header.version = culm_abi::VERSION;
        header.connections = Span { offset: size_of::<StartHeader>() as u32, count: 2 };
        let interrupts = [7_u32, 5, 9, 0];
        header.size = numbers + size_of_val(&interrupts) as u32;
        let mut bytes = header.as_bytes().to_vec();
        for slot in 0..2 {
            let data = Span { offset: devices + slot * size, count: 1 };
            let connection = abi::Connection { kind: Device::KIND, slot, peer: Span::default(), data };
            bytes.extend(connection.as_bytes());
        }
        for span in [Span { offset: numbers, count: 2 }, Span { offset: numbers + 8, count: 1 }] {
            let mut device = vec![0; size as usize];
            let at = core::mem::offset_of!(connection::Device, interrupts);
            device[at..at + size_of::<Span>()].copy_from_slice(span.as_bytes());
            bytes.extend(device);
        }
        bytes.extend(interrupts.as_bytes());
        crate::testing::set_start_block(&bytes);
        current().interrupts().for_each(Interrupt::enable);
        assert_eq!(crate::testing::signalled(), [5, 7, 9]);
    }
}
