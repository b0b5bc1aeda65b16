//! Reading a start block: every type of configuration, connections by slot, and what no manifest
//! names.

use culm::archive::Archive;
use culm::config::{Pairs, Strings};
use culm::start::{self, StartBlock};
use culm::{Channel, Device, Region, testing};
use culm_abi::connection::{self, SerialClient};
use culm_abi::start::{Connection, IMPLICIT, MAGIC, Span, StartHeader, Value};
use std::time::Duration;
use zerocopy::{FromZeros, Immutable, IntoBytes};

/// Lays a block out as the build tool does: the head, then what it refers to, each at a multiple
/// of 8.
struct Writer {
    bytes: Vec<u8>,
    header: StartHeader,
}

impl Writer {
    fn new(name: &str) -> Self {
        let mut header = StartHeader::new_zeroed();
        header.magic = MAGIC;
        header.version = culm_abi::VERSION;
        let mut writer = Self { bytes: vec![0; size_of::<StartHeader>()], header };
        writer.header.name = writer.put(name.as_bytes());
        writer
    }

    fn put<T: IntoBytes + Immutable>(&mut self, elements: &[T]) -> Span {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let offset = self.bytes.len() as u32;
        self.bytes.extend(elements.as_bytes());
        Span { offset, count: elements.len() as u32 }
    }

    fn text(&mut self, text: &str) -> Value {
        let span = self.put(text.as_bytes());
        Value { a: span.offset.into(), b: span.count.into() }
    }

    /// A connection of the kind of structure `T`, which consists of these words.
    fn connection<T: connection::Connection, W: IntoBytes + Immutable>(
        &mut self,
        slot: u32,
        words: &[W],
    ) -> Connection {
        let peer = self.put(b"peer");
        Connection { kind: T::KIND.number, slot, peer, data: self.put(words) }
    }

    /// Makes it this test's start block.
    fn finish(mut self, config: &[Value], connections: &[Connection]) -> StartBlock {
        self.header.config = self.put(config);
        self.header.connections = self.put(connections);
        self.header.size = self.bytes.len() as u32;
        self.bytes[..size_of::<StartHeader>()].copy_from_slice(self.header.as_bytes());
        testing::set_start_block(&self.bytes);
        start::current()
    }
}

#[test]
fn every_type_of_configuration_arrives() {
    let mut writer = Writer::new("http_2");
    let archive: &[u8] = Box::leak(Box::new([1_u32, 28, 1, 29, 2, 29, 1, u32::from_le_bytes(*b"axy\0")])).as_bytes();
    let mac = writer.put(&[1_u8, 2, 3, 4, 5, 6]).offset;
    let texts = [writer.text("one"), writer.text("zwei")];
    let list = writer.put(&texts).offset;
    let config = [
        Value { a: 1, b: 0 },
        Value { a: 65_535, b: 0 },
        Value { a: -5_i64 as u64, b: 0 },
        Value { a: 1_500_000_000, b: 0 },
        writer.text("grüße"),
        Value { a: mac.into(), b: 0 },
        Value { a: archive.as_ptr() as u64, b: 31 },
        Value { a: archive.as_ptr() as u64, b: 31 },
        Value { a: list.into(), b: 2 },
        Value { a: u64::MAX, b: u64::MAX },
        Value { a: 7, b: 0 },
    ];
    let block = writer.finish(&config, &[]);
    assert_eq!(start::name(), "http_2");
    assert!(block.config::<bool>(0));
    assert_eq!(block.config::<u16>(1), 65_535);
    assert_eq!(block.config::<i64>(2), -5);
    assert_eq!(block.config::<Duration>(3), Duration::from_millis(1500));
    assert_eq!(block.config::<&str>(4), "grüße");
    assert_eq!(block.config::<[u8; 6]>(5), [1, 2, 3, 4, 5, 6]);
    assert_eq!(block.config::<&[u8]>(6).len(), 31);
    let archive = block.config::<Archive>(7);
    assert_eq!(archive.get("a"), Some(&b"xy"[..]));
    assert_eq!(archive.file(0).and_then(|file| file.gzip), Some(&b"x"[..]));
    assert_eq!(block.config::<Strings>(8).iter().collect::<Vec<_>>(), ["one", "zwei"]);
    assert_eq!(block.config::<Pairs>(8).iter().collect::<Vec<_>>(), [("one", "zwei")]);
    assert_eq!(block.config::<Option<u8>>(9), None);
    assert_eq!(block.config::<Option<u8>>(10), Some(7));
}

#[test]
fn connections_are_found_by_slot() {
    let mut writer = Writer::new("driver");
    let interrupts = writer.put(&[4_u32, 9]);
    // Address, bytes, and where devices see them.
    let memory = [0x4000_0000_u64, 4096, 0x8000_0000];
    let interrupts = u64::from(interrupts.count) << 32 | u64::from(interrupts.offset);
    let device = [&memory[..], &[interrupts], &memory].concat();
    let read_only = [&memory[..], &[0]].concat();
    let connections = [
        writer.connection::<connection::Channel, _>(0, &[5_u32, 1]),
        writer.connection::<connection::Device, _>(2, &device),
        writer.connection::<connection::Region, _>(3, &read_only),
        writer.connection::<connection::Channel, _>(4, &[6_u32, 1]),
        writer.connection::<connection::Channel, _>(4, &[7_u32, 1]),
        writer.connection::<SerialClient, _>(IMPLICIT, &[0_u64; 5]),
    ];
    let block = writer.finish(&[], &connections);
    assert_eq!(block.connection::<Channel>(0), Channel::new(5));
    assert_eq!(block.connections::<Channel>(1).next(), None);
    let channels: Vec<u32> = block.connections::<Channel>(4).map(Channel::number).collect();
    assert_eq!(channels, [6, 7]);
    let device = block.connection::<Device>(2);
    assert_eq!(device.interrupts().map(|interrupt| interrupt.channel().number()).collect::<Vec<_>>(), [4, 9]);
    assert_eq!((device.dma().len(), device.dma().dma(), device.interrupt(2)), (4096, 0x8000_0000, None));
    let region = block.connection::<Region>(3);
    assert!(region.write(0, &[1]).is_err(), "read-only regions are not written");
    assert!(start::observation().is_none());
}

#[test]
#[should_panic(expected = "a connection of another kind")]
fn a_connection_of_another_kind_is_refused() {
    let mut writer = Writer::new("client");
    let connection = writer.connection::<connection::Channel, _>(0, &[5_u32, 1]);
    writer.finish(&[], &[connection]).connection::<Region>(0);
}

#[test]
#[should_panic(expected = "another version")]
fn a_block_of_another_version_is_refused() {
    let mut writer = Writer::new("old");
    writer.header.version += 1;
    writer.finish(&[], &[]);
}
