//! Start blocks: what each domain is told about itself ([`culm_abi::start`]).

use super::archive::Contents;
use super::connections;
use super::places::{Context, Item, Places};
use super::writer::Writer;
use crate::plan::{ConfigValue, DomainId, Plan};
use culm_abi::memory::STACK_BASE;
use culm_abi::start::{Connection, MAGIC, Memory, StartHeader, Value};

/// Writes the start block of `domain`.
pub fn start_block(
    plan: &Plan,
    contents: &Contents,
    picture_size: usize,
    places: &dyn Places,
    domain: DomainId,
) -> Vec<u8> {
    let context = Context { plan, contents, picture_size, places, domain };
    let described = &plan.domains[domain];
    let mut writer = Writer::with_head(size_of::<StartHeader>());
    let name = writer.text(&described.name);
    let values: Vec<Value> = described.config.iter().map(|value| config_value(&context, &mut writer, value)).collect();
    let config = writer.list(&values);
    let connections: Vec<Connection> = described
        .connections
        .iter()
        .map(|connection| Connection {
            kind: connection.data.kind().number,
            slot: connection.slot,
            peer: writer.text(&connection.peer),
            data: connections::structure(&context, &mut writer, &connection.data),
        })
        .collect();
    let connections = writer.list(&connections);
    let heap = match described.heap {
        0 => Memory::default(),
        size => context.memory(Item::Heap(domain), size),
    };
    let counters = described
        .counters
        .map_or(Memory::default(), |region| context.memory(Item::Region(region), plan.regions[region].size));
    let header = StartHeader {
        magic: MAGIC,
        version: culm_abi::VERSION,
        size: writer.size() as u32,
        name,
        config,
        connections,
        heap,
        stack: Memory { address: STACK_BASE, size: described.stack, dma: 0 },
        counters,
        log_level: described.log as u32,
        domain: domain as u32,
    };
    writer.finish(&header)
}

fn config_value(context: &Context<'_>, writer: &mut Writer, value: &ConfigValue) -> Value {
    match value {
        ConfigValue::Absent => Value { a: u64::MAX, b: u64::MAX },
        ConfigValue::Bool(value) => Value { a: u64::from(*value), b: 0 },
        ConfigValue::Unsigned(value) => Value { a: *value, b: 0 },
        ConfigValue::Signed(value) => Value { a: value.cast_unsigned(), b: 0 },
        ConfigValue::Text(text) => text_value(writer, text),
        ConfigValue::Mac(mac) => Value { a: u64::from(writer.list(mac).offset), b: 0 },
        ConfigValue::File(path) | ConfigValue::Folder(path) => {
            Value { a: context.address(Item::File(path)), b: context.contents.get(path).len() as u64 }
        }
        ConfigValue::List(list) => list_value(writer, list.iter()),
        ConfigValue::Pairs(pairs) => list_value(writer, pairs.iter().flat_map(|(name, value)| [name, value])),
    }
}

fn list_value<'a>(writer: &mut Writer, texts: impl Iterator<Item = &'a String>) -> Value {
    let values: Vec<Value> = texts.map(|text| text_value(writer, text)).collect();
    Value { a: u64::from(writer.list(&values).offset), b: values.len() as u64 }
}

fn text_value(writer: &mut Writer, text: &str) -> Value {
    let span = writer.text(text);
    Value { a: u64::from(span.offset), b: u64::from(span.count) }
}
