//! The content of each connection of a domain: the structures of [`culm_abi::connection`] with
//! indices in place of addresses, and their fields as plain values for whoever writes, shows or
//! draws them.

use super::{Domain, DomainId, EndNumber, Guest, GuestId, Order, Plan, RegionId, RingId, Scheduled};
use culm_abi::connection::{
    AnyConnection, Child, CounterName, Field, Form, Observation, ObservedDomain, ObservedRing, Structure, Visitor,
};
use culm_abi::memory::STACK_BASE;

/// The form of a connection's structure in a plan.
#[derive(Clone, Copy, Debug)]
pub struct Planned;

impl Form for Planned {
    type Ring = RingId;
    type Memory = Memory;
    type Channel = EndNumber;
    type Rights = Rights;
    type Text = String;
    type Flag = bool;
    type Optional<T: Clone + std::fmt::Debug> = Option<T>;
    type List<T: Clone + std::fmt::Debug> = Vec<T>;
}

/// A connection of any kind, as a plan has it.
pub type ConnectionData = AnyConnection<Planned>;

/// One connection of a domain, as its start block will have it.
#[derive(Clone, Debug)]
pub struct DomainConnection {
    /// Position in the manifest's list, or [`culm_abi::start::IMPLICIT`].
    pub slot: u32,
    /// The connection's name in the manifest; for those that no manifest lists: `log`,
    /// `observation`.
    pub name: String,
    /// The other side's name, as the system file has it: a device or an instance. A region's own
    /// name.
    pub peer: String,
    /// Its content.
    pub data: ConnectionData,
}

impl DomainConnection {
    /// One that no manifest lists, and that leads to nobody.
    pub fn implicit(name: &str, data: ConnectionData) -> Self {
        Self { slot: culm_abi::start::IMPLICIT, name: name.to_string(), peer: String::new(), data }
    }
}

/// Memory that a connection gives to its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A region. If the domain has no mapping of it, the address is 0.
    Region(RegionPart),
    /// The stack of a domain, which the connection shows read-only.
    Stack(DomainId),
    /// Accounts of the cores.
    CoreAccounts,
    /// Accounts of the domains.
    DomainAccounts,
    /// The system's picture.
    Picture,
    /// The kernel with which a guest begins.
    GuestKernel(GuestId),
    /// The device tree and initial RAM disk with which a guest begins.
    GuestEnd(GuestId),
}

/// A part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPart {
    /// The region.
    pub region: RegionId,
    /// Where the part begins.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether the domain is told the address at which devices see it.
    pub dma: bool,
}

impl Memory {
    /// The first `size` bytes of a region.
    pub fn region(region: RegionId, size: u64) -> Self {
        Self::Region(RegionPart { region, offset: 0, size, dma: false })
    }

    /// The same, with the address at which devices see it.
    pub fn dma(region: RegionId, size: u64) -> Self {
        Self::Region(RegionPart { region, offset: 0, size, dma: true })
    }
}

/// The rights of a domain over a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// It may notify the other side.
    pub notify: bool,
    /// It may call the other side.
    pub call: bool,
}

impl Rights {
    /// To notify, and no more.
    pub const NOTIFY: Self = Self { notify: true, call: false };
    /// None.
    pub const NONE: Self = Self { notify: false, call: false };
}

/// A field's value in a plan.
#[derive(Clone, Debug)]
pub enum Value {
    /// A queue.
    Ring(RingId),
    /// Memory.
    Memory(Memory),
    /// A channel's end.
    Channel(EndNumber),
    /// Rights over a channel.
    Rights(Rights),
    /// Text.
    Text(String),
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(u64),
    /// A hardware address.
    Mac([u8; 6]),
    /// A queue, memory or a channel's end that is not there.
    Absent,
    /// Structures.
    List(Vec<Fields>),
}

/// The fields of a structure with their values.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// In the order of their declaration.
    pub values: Vec<(&'static Field, Value)>,
    /// Bytes that the structure takes in a start block.
    pub size: usize,
}

impl From<&ConnectionData> for Fields {
    fn from(connection: &ConnectionData) -> Self {
        let mut fields = Self { values: Vec::new(), size: connection.size() };
        connection.visit(&mut fields);
        fields
    }
}

impl Fields {
    /// The memory that the structure gives, that of the structures in it included.
    pub fn memory(&self) -> Vec<Memory> {
        let of = |value: &Value| match value {
            Value::Memory(memory) => vec![*memory],
            Value::List(all) => all.iter().flat_map(Fields::memory).collect(),
            _ => Vec::new(),
        };
        self.values.iter().flat_map(|(_, value)| of(value)).collect()
    }

    /// The queues that are the domain's own, without those that it only looks at in the structures
    /// within.
    pub fn rings(&self) -> impl Iterator<Item = RingId> + '_ {
        self.values.iter().filter_map(|(_, value)| match value {
            Value::Ring(ring) => Some(*ring),
            _ => None,
        })
    }

    fn add(&mut self, field: &'static Field, value: Value) {
        self.values.push((field, value));
    }
}

impl Visitor<Planned> for Fields {
    fn ring(&mut self, field: &'static Field, value: &RingId) {
        self.add(field, Value::Ring(*value));
    }

    fn optional_ring(&mut self, field: &'static Field, value: &Option<RingId>) {
        self.add(field, value.map_or(Value::Absent, Value::Ring));
    }

    fn memory(&mut self, field: &'static Field, value: &Memory) {
        self.add(field, Value::Memory(*value));
    }

    fn optional_memory(&mut self, field: &'static Field, value: &Option<Memory>) {
        self.add(field, value.map_or(Value::Absent, Value::Memory));
    }

    fn channel(&mut self, field: &'static Field, value: &EndNumber) {
        self.add(field, Value::Channel(*value));
    }

    fn optional_channel(&mut self, field: &'static Field, value: &Option<EndNumber>) {
        self.add(field, value.map_or(Value::Absent, Value::Channel));
    }

    fn rights(&mut self, field: &'static Field, value: &Rights) {
        self.add(field, Value::Rights(*value));
    }

    fn text(&mut self, field: &'static Field, value: &String) {
        self.add(field, Value::Text(value.clone()));
    }

    fn flag(&mut self, field: &'static Field, value: &bool) {
        self.add(field, Value::Flag(*value));
    }

    fn number(&mut self, field: &'static Field, value: u64) {
        self.add(field, Value::Number(value));
    }

    fn mac(&mut self, field: &'static Field, value: [u8; 6]) {
        self.add(field, Value::Mac(value));
    }

    fn list<T: Structure<Planned>>(&mut self, field: &'static Field, values: &Vec<T>) {
        let fields = |value: &T| {
            let mut fields = Fields { values: Vec::new(), size: T::SIZE };
            value.visit(&mut fields);
            fields
        };
        self.add(field, Value::List(values.iter().map(fields).collect()));
    }
}

impl Domain {
    /// Returns what the supervisor is told of this domain, which it knows by the end `channel`.
    pub fn as_child(&self, id: DomainId, channel: EndNumber) -> Child<Planned> {
        Child {
            channel,
            action: self.on_fault.code(),
            limit: self.restart.limit,
            window: self.restart.window,
            backoff: self.restart.backoff,
            stack: Memory::Stack(id),
            stack_base: STACK_BASE,
            name: self.name.clone(),
        }
    }
}

impl Plan {
    /// Returns what an observer is told: of all domains, and of the queues whose content is no
    /// one's secret.
    pub fn observation(&self) -> Observation<Planned> {
        let order = Order::new(self);
        let observed = self.rings.iter().enumerate().filter(|(_, ring)| ring.observed);
        let ring = |(id, ring): (RingId, &super::Ring)| ObservedRing {
            ring: id,
            producer: order.domain(ring.producer),
            consumer: order.domain(ring.consumer),
            name: ring.name.clone(),
        };
        Observation {
            core_accounts: Memory::CoreAccounts,
            domain_accounts: Memory::DomainAccounts,
            domains: order.iter().map(|scheduled| self.observed(scheduled)).collect(),
            rings: observed.map(ring).collect(),
            picture: Memory::Picture,
            system: self.name.clone(),
            board: self.board.name.clone(),
        }
    }

    fn observed(&self, scheduled: Scheduled) -> ObservedDomain<Planned> {
        match scheduled {
            Scheduled::Domain(id) => self.observed_domain(id),
            Scheduled::VirtualCpu(id, cpu) => self.observed_cpu(&self.guests[id], cpu),
        }
    }

    /// Returns what an observer is told of a virtual CPU, which it sees as a domain.
    fn observed_cpu(&self, guest: &Guest, cpu: usize) -> ObservedDomain<Planned> {
        ObservedDomain {
            name: format!("{} cpu {cpu}", guest.name),
            component: "guest".to_string(),
            core: guest.cpus[cpu].core,
            priority: guest.priority.into(),
            budget: 0,
            period: 0,
            counters: None,
            counter_names: Vec::new(),
            passive: false,
        }
    }

    fn observed_domain(&self, id: DomainId) -> ObservedDomain<Planned> {
        let domain = &self.domains[id];
        let manifest = &self.component_of(id).manifest;
        ObservedDomain {
            name: domain.name.clone(),
            component: manifest.name.clone(),
            core: domain.core,
            priority: domain.priority.into(),
            budget: domain.budget.map_or(0, |budget| budget.budget),
            period: domain.budget.map_or(0, |budget| budget.period),
            counters: domain.counters.map(|region| Memory::region(region, self.regions[region].size)),
            counter_names: manifest.counters.iter().map(|name| CounterName { name: name.clone() }).collect(),
            passive: domain.passive,
        }
    }
}
