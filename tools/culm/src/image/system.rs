//! The tables that the kernel reads and never changes ([`culm_abi::system`]).

use crate::layout::Layout;
use crate::layout::kernel_tables::{TablePlace, domains_per_core, groups, pending_words, uncached_regions};
use crate::plan::{DomainId, End, EndNumber, GuestId, Order, Plan, Scheduled, Trigger};
use culm_abi::memory::{KERNEL_STACK_SIZE, STACK_BASE, START_BASE};
use culm_abi::syscall::{Event, GROUP};
use culm_abi::system::{
    ASID_SHIFT, CoreDescription, DomainDescription, END_INTERRUPT, EndDescription, FIRST_INTERRUPT, InterruptRoute,
    MemoryRange, NONE, domain_flags, end_kind, end_rights, interrupt_flags,
};
use zerocopy::{Immutable, IntoBytes};

/// A side's rights over a channel.
pub(super) fn rights(notify: bool, call: bool) -> u32 {
    let notify = if notify { end_rights::NOTIFY } else { 0 };
    let call = if call { end_rights::CALL } else { 0 };
    notify | call
}

/// Where notification words and channel ends of each domain begin in the tables of all domains, by
/// the domain's index in the image.
struct Firsts {
    order: Order,
    words: Vec<u32>,
    ends: Vec<u32>,
}

impl Firsts {
    fn new(plan: &Plan) -> Self {
        let (mut word, mut end) = (0, 0);
        let mut firsts = Self { order: Order::new(plan), words: Vec::new(), ends: Vec::new() };
        for scheduled in firsts.order.iter() {
            firsts.words.push(word);
            firsts.ends.push(end);
            let ends = end_count(plan, scheduled);
            word += groups(ends as usize);
            end += ends;
        }
        firsts
    }

    /// Word and bit in which a signal to this end of `domain` lands.
    fn landing(&self, domain: DomainId, end: EndNumber) -> (u32, u32) {
        (self.words[self.order.domain(domain) as usize] + end / GROUP, end % GROUP)
    }
}

/// How many channel ends a domain has; a virtual CPU has none.
fn end_count(plan: &Plan, scheduled: Scheduled) -> u32 {
    match scheduled {
        Scheduled::Domain(id) => plan.domains[id].ends.len() as u32,
        Scheduled::VirtualCpu(..) => 0,
    }
}

/// The memory of [`crate::layout::objects::Objects::system_tables`].
pub(super) fn tables(plan: &Plan, layout: &Layout) -> Vec<u8> {
    let firsts = Firsts::new(plan);
    let places = &layout.tables;
    let mut memory = vec![0; places.read_only_size() as usize];
    put(&mut memory, &places.cores, &cores(plan, layout));
    let describe = |scheduled| match scheduled {
        Scheduled::Domain(id) => domain(plan, layout, &firsts, id),
        Scheduled::VirtualCpu(id, cpu) => virtual_cpu(plan, layout, &firsts, (id, cpu)),
    };
    let domains: Vec<_> = firsts.order.iter().map(describe).collect();
    put(&mut memory, &places.domains, &domains);
    let owned = plan.domains.iter().flat_map(|domain| domain.ends.iter().map(|end| (domain.core, end)));
    let ends: Vec<_> = owned.map(|(core, end)| end_of(plan, &firsts, core, end)).collect();
    put(&mut memory, &places.ends, &ends);
    put(&mut memory, &places.interrupts, &routes(plan, &firsts));
    put(&mut memory, &places.uncached, &uncached(plan, layout));
    memory
}

/// Where the kernel keeps the vector registers of `scheduled`, 0 if it uses none.
fn vectors(plan: &Plan, layout: &Layout, scheduled: Scheduled) -> u64 {
    let place = plan.vector_users().position(|user| user == scheduled);
    let table = layout.tables.vectors.at(layout.kernel.space.address(layout.objects.state).unwrap_or(0));
    place.map_or(0, |place| table.address + place as u64 * u64::from(table.stride))
}

fn put<T: IntoBytes + Immutable>(memory: &mut [u8], place: &TablePlace, elements: &[T]) {
    debug_assert_eq!((place.count as usize, place.stride as usize), (elements.len(), size_of::<T>()));
    let bytes = elements.as_bytes();
    memory[place.offset as usize..][..bytes.len()].copy_from_slice(bytes);
}

fn uncached(plan: &Plan, layout: &Layout) -> Vec<MemoryRange> {
    let range = |region: usize| {
        let object = layout.objects.regions[region];
        MemoryRange { address: layout.physical(object), size: layout.objects.get(object).size }
    };
    uncached_regions(plan).map(range).collect()
}

fn cores(plan: &Plan, layout: &Layout) -> Vec<CoreDescription> {
    let (mut first_domain, mut first_pending_word) = (0, 0);
    let describe = |(core, count): (usize, usize)| {
        let stack = layout.kernel.space.address(layout.objects.kernel_stacks[core]).unwrap_or(0);
        let description = CoreDescription {
            mpidr: plan.board.mpidr[core],
            stack_top: stack + KERNEL_STACK_SIZE,
            first_domain,
            domain_count: count as u32,
            first_pending_word,
            pending_words: pending_words(count),
        };
        first_domain += description.domain_count;
        first_pending_word += description.pending_words;
        description
    };
    domains_per_core(plan).into_iter().enumerate().map(describe).collect()
}

fn domain(plan: &Plan, layout: &Layout, firsts: &Firsts, id: DomainId) -> DomainDescription {
    let domain = &plan.domains[id];
    let (supervisor, supervisor_word, supervisor_bit) = match domain.supervisor {
        Some((supervisor, end)) => {
            let (word, bit) = firsts.landing(supervisor, end);
            (firsts.order.domain(supervisor), word, bit)
        }
        None => (NONE, 0, 0),
    };
    let index = firsts.order.domain(id) as usize;
    let passive = if domain.passive { domain_flags::PASSIVE } else { 0 };
    let may_halt = if domain.may_halt { domain_flags::MAY_HALT } else { 0 };
    DomainDescription {
        table: layout.roots.domains[id] | (id as u64 + 1) << ASID_SHIFT,
        entry: layout.programs[domain.component].entry,
        stack_top: STACK_BASE + domain.stack,
        start_block: START_BASE,
        virtual_cpu: 0,
        vectors: vectors(plan, layout, Scheduled::Domain(id)),
        budget: domain.budget.map_or(0, |budget| budget.budget),
        period: domain.budget.map_or(0, |budget| budget.period),
        core: domain.core,
        priority: u32::from(domain.priority),
        flags: passive | may_halt,
        first_end: firsts.ends[index],
        end_count: domain.ends.len() as u32,
        first_word: firsts.words[index],
        groups: groups(domain.ends.len()),
        supervisor,
        supervisor_word,
        supervisor_bit,
    }
}

/// A virtual CPU of a guest: it has no channel ends, and one notification word that nobody signals.
fn virtual_cpu(plan: &Plan, layout: &Layout, firsts: &Firsts, (id, number): (GuestId, usize)) -> DomainDescription {
    let guest = &plan.guests[id];
    let cpu = &guest.cpus[number];
    let (supervisor_word, supervisor_bit) = firsts.landing(guest.monitor, cpu.channel);
    let page = layout.objects.regions[cpu.page];
    let index = firsts.order.index(Scheduled::VirtualCpu(id, number)) as usize;
    DomainDescription {
        table: layout.roots.guests[id] | (id as u64 + 1) << ASID_SHIFT,
        entry: 0,
        stack_top: 0,
        start_block: number as u64,
        virtual_cpu: layout.kernel.space.address(page).unwrap_or(0),
        vectors: vectors(plan, layout, Scheduled::VirtualCpu(id, number)),
        budget: 0,
        period: 0,
        core: cpu.core,
        priority: u32::from(guest.priority),
        flags: 0,
        first_end: firsts.ends[index],
        end_count: 0,
        first_word: firsts.words[index],
        groups: 1,
        supervisor: firsts.order.domain(guest.monitor),
        supervisor_word,
        supervisor_bit,
    }
}

/// An end of a domain on `core`.
fn end_of(plan: &Plan, firsts: &Firsts, core: u32, end: &End) -> EndDescription {
    let none = EndDescription { kind: 0, rights: 0, target: 0, callee: NONE, event: 0, word: 0, bit: 0 };
    match end {
        &End::Peer { domain, end, notify, call, .. } => {
            let (word, bit) = firsts.landing(domain, end);
            EndDescription {
                kind: end_kind::PEER,
                rights: rights(notify, call),
                target: firsts.order.domain(domain),
                callee: if call { index_on_core(plan, core, domain) } else { NONE },
                event: Event::called(end).0,
                word,
                bit,
            }
        }
        End::Interrupt { interrupt, .. } => {
            EndDescription { kind: end_kind::INTERRUPT, target: interrupt.number, ..none }
        }
        &End::VirtualCpu { guest, cpu } => {
            let target = firsts.order.index(Scheduled::VirtualCpu(guest, cpu));
            EndDescription { kind: end_kind::CHILD, target, ..none }
        }
        &End::Child { domain } => EndDescription { kind: end_kind::CHILD, target: firsts.order.domain(domain), ..none },
    }
}

/// Index of a domain among those of `core`, or none where it is on another. Domains are sorted by
/// core.
fn index_on_core(plan: &Plan, core: u32, domain: DomainId) -> u32 {
    let on_core = |id: &DomainId| plan.domains[*id].core == core;
    if on_core(&domain) { (0..domain).filter(on_core).count() as u32 } else { NONE }
}

fn routes(plan: &Plan, firsts: &Firsts) -> Vec<InterruptRoute> {
    let nobody = InterruptRoute { domain: NONE, flags: 0, word: 0, bit: 0 };
    let mut routes = vec![nobody; (END_INTERRUPT - FIRST_INTERRUPT) as usize];
    for (id, domain) in plan.domains.iter().enumerate() {
        for (number, end) in domain.ends.iter().enumerate() {
            let End::Interrupt { interrupt, .. } = end else { continue };
            let (word, bit) = firsts.landing(id, number as EndNumber);
            let flags = if interrupt.trigger == Trigger::Edge { interrupt_flags::EDGE } else { 0 };
            routes[(interrupt.number - FIRST_INTERRUPT) as usize] =
                InterruptRoute { domain: firsts.order.domain(id), flags, word, bit };
        }
    }
    routes
}
