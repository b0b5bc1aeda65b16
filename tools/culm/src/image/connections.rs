//! The class-specific part of each connection ([`culm_abi::connection`]): indices of the plan
//! become addresses.

use super::places::{Context, Item};
use super::writer::Writer;
use crate::plan::{ConnectionData, Fields, Memory, Rights, RingId, Value};
use culm_abi::accounting::{CoreAccount, DomainAccount};
use culm_abi::connection::{FieldKind, Ring};
use culm_abi::start::{self, Span};
use zerocopy::IntoBytes as _;

impl Context<'_> {
    fn ring(&self, id: RingId) -> Ring {
        let ring = &self.plan.rings[id];
        let address = self.places.address(self.domain, Item::Region(ring.region));
        Ring { address: address.map_or(0, |address| address + ring.offset), capacity: ring.capacity, reserved: 0 }
    }

    fn given(&self, memory: Memory) -> start::Memory {
        let accounts = |item, count: usize, size: usize| self.memory(item, (count * size) as u64);
        match memory {
            Memory::Region(part) => {
                let item = Item::Region(part.region);
                let address = self.places.address_within(self.domain, item, part.offset).unwrap_or(0);
                let dma = if part.dma { self.places.physical(item) + part.offset } else { 0 };
                start::Memory { address, size: part.size, dma }
            }
            Memory::Stack(domain) => self.memory(Item::Stack(domain), self.plan.domains[domain].stack),
            Memory::CoreAccounts => accounts(Item::CoreAccounts, self.plan.cores() as usize, size_of::<CoreAccount>()),
            Memory::DomainAccounts => {
                let count = self.plan.domains.len() + self.plan.virtual_cpus().count();
                accounts(Item::DomainAccounts, count, size_of::<DomainAccount>())
            }
            Memory::Picture => self.memory(Item::Picture, self.picture_size as u64),
            Memory::GuestKernel(guest) => self.memory(Item::GuestKernel(guest), self.plan.guests[guest].memory.kernel),
            Memory::GuestEnd(guest) => self.memory(Item::GuestEnd(guest), self.plan.guests[guest].memory.end()),
        }
    }
}

/// Appends the structure that belongs to a connection.
pub(super) fn structure(context: &Context<'_>, writer: &mut Writer, data: &ConnectionData) -> Span {
    let bytes = encoded(context, writer, &data.into());
    writer.structures(&bytes, 1)
}

/// A structure's bytes; what its lists hold is written before it.
fn encoded(context: &Context<'_>, writer: &mut Writer, fields: &Fields) -> Vec<u8> {
    let mut bytes = vec![0; fields.size];
    for (field, value) in &fields.values {
        let mut put = |value: &[u8]| bytes[field.offset..field.offset + value.len()].copy_from_slice(value);
        match value {
            Value::Ring(id) => put(context.ring(*id).as_bytes()),
            Value::Memory(memory) => put(context.given(*memory).as_bytes()),
            Value::Channel(channel) => put(channel.as_bytes()),
            Value::Rights(Rights { notify, call }) => put(super::system::rights(*notify, *call).as_bytes()),
            Value::Text(text) => put(writer.text(text).as_bytes()),
            Value::Flag(flag) => put(u32::from(*flag).as_bytes()),
            Value::Number(number) => match field.kind {
                FieldKind::Number { bytes } => put(&number.to_le_bytes()[..bytes]),
                other => unreachable!("a number in a field of the kind {other:?}"),
            },
            Value::Mac(mac) => put(mac),
            // A value that is all zero is absent.
            Value::Absent => {}
            Value::List(all) => {
                let elements: Vec<u8> = all.iter().flat_map(|element| encoded(context, writer, element)).collect();
                put(writer.structures(&elements, all.len()).as_bytes());
            }
        }
    }
    bytes
}
