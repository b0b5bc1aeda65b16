//! Images of made-up systems, read back as the kernel and the runtime do.

use super::*;
use crate::layout::tests::fixture::{self, Shape};
use crate::plan::{End, Interrupt, Rights, Trigger};
use culm_abi::connection::{Channel, Observation};
use culm_abi::start::{self, Span, StartHeader};
use culm_abi::syscall::Event;
use culm_abi::system::{
    DomainDescription, EndDescription, FIRST_INTERRUPT, HEADER_OFFSET, InterruptRoute, MAGIC, MemoryRange, NONE,
    SystemHeader, Table, end_kind, interrupt_flags,
};
use zerocopy::FromBytes;

/// An image and what it was made from.
struct Made {
    parts: fixture::Parts,
    layout: Layout,
    image: Vec<u8>,
}

fn make(shape: &Shape, change: impl FnOnce(&mut Plan)) -> Made {
    let mut parts = fixture::parts(shape);
    change(&mut parts.plan);
    let contents: Contents =
        [("site".into(), b"a site".to_vec()), ("large".into(), vec![7; 3 << 20])].into_iter().collect();
    let picture = b"<svg/>";
    parts.file_sizes = contents.sizes();
    parts.start_sizes = (0..parts.plan.domains.len())
        .map(|id| start_block(&parts.plan, &contents, picture.len(), &Nowhere, id).len() as u64)
        .collect();
    let layout = Layout::new(&crate::layout::Inputs { picture_size: 6, ..parts.inputs() }).expect("fits");
    let image = write(&Inputs {
        plan: &parts.plan,
        layout: &layout,
        kernel: &parts.kernel,
        contents: &contents,
        guests: &[],
        picture,
    });
    Made { parts, layout, image }
}

impl Made {
    fn header(&self) -> SystemHeader {
        SystemHeader::read_from_prefix(&self.image[HEADER_OFFSET as usize..]).expect("long enough").0
    }

    /// Bytes of the image from the kernel's virtual address on.
    fn kernel_memory(&self, address: u64) -> &[u8] {
        let view = self
            .layout
            .kernel
            .space
            .views
            .iter()
            .find(|view| (view.address..view.address + view.size).contains(&address));
        let view = view.expect("mapped");
        self.physical(self.layout.physical(view.object) + view.offset + (address - view.address))
    }

    fn domain_memory(&self, domain: DomainId, address: u64) -> &[u8] {
        let views = &self.layout.domains[domain].views;
        let view =
            views.iter().find(|view| (view.address..view.address + view.size).contains(&address)).expect("mapped");
        self.physical(self.layout.physical(view.object) + (address - view.address))
    }

    fn physical(&self, address: u64) -> &[u8] {
        &self.image[(address - self.layout.physical.load_address) as usize..]
    }

    fn table<T: FromBytes + Copy>(&self, table: Table) -> Vec<T> {
        assert_eq!(table.stride as usize, size_of::<T>());
        assert_eq!(table.address % 64, 0);
        read(self.kernel_memory(table.address), 0, table.count)
    }

    fn start(&self, domain: DomainId) -> (&[u8], StartHeader) {
        let bytes = self.domain_memory(domain, culm_abi::memory::START_BASE);
        (bytes, StartHeader::read_from_prefix(bytes).expect("long enough").0)
    }
}

fn read<T: FromBytes + Copy>(bytes: &[u8], offset: u32, count: u32) -> Vec<T> {
    let one = |n: usize| T::read_from_prefix(&bytes[offset as usize + n * size_of::<T>()..]).expect("long enough").0;
    (0..count as usize).map(one).collect()
}

fn list<T: FromBytes + Copy>(bytes: &[u8], span: Span) -> Vec<T> {
    assert_eq!(span.offset % 8, 0);
    read(bytes, span.offset, span.count)
}

#[test]
fn the_headers_say_what_boot_loader_and_kernel_need() {
    let made = make(&Shape::default(), |_| ());
    let word = |offset: usize| u64::from_le_bytes(made.image[offset..offset + 8].try_into().expect("eight"));
    assert_eq!(word(8), 0x20_0000, "text_offset");
    assert!(word(16) >= made.image.len() as u64, "image_size");
    assert_eq!(word(24), 2, "flags");
    assert_eq!(&made.image[56..60], b"ARM\x64");
    let header = made.header();
    assert_eq!((header.magic, header.version), (MAGIC, culm_abi::VERSION));
    assert_eq!(header.load_address, 0x4020_0000);
    assert_eq!(header.image_size, made.image.len() as u64);
    assert_eq!(header.zero_start, header.load_address + header.image_size);
    assert_eq!(header.zero_start % 64, 0);
    assert_eq!(header.console, made.layout.kernel.registers.console);
    assert_eq!(word(16), header.zero_end - header.load_address);
}

#[test]
fn memory_that_is_used_uncached_is_named_for_cleaning() {
    // Of three regions in a row the second is uncached, the third for DMA; one stands where the
    // description says.
    let shape = Shape { region_pages: vec![3; 6], fixed: Some((4, 0x4180_0000)), ..Shape::default() };
    for (coherent, regions) in [(true, vec![1, 4]), (false, vec![1, 2, 4, 5])] {
        let made = make(&shape, |plan| plan.board.coherent_dma = coherent);
        let header = made.header();
        let ranges: Vec<MemoryRange> = made.table(header.uncached);
        let place = |region: usize| made.layout.physical(made.layout.objects.regions[region]);
        let range = |region| MemoryRange { address: place(region), size: 3 * 4096 };
        let expected: Vec<_> = regions.into_iter().map(range).collect();
        assert_eq!(ranges, expected);
        for range in ranges {
            assert!(
                header.zero_start <= range.address && range.address + range.size <= header.zero_end,
                "it is mapped"
            );
        }
    }
    // Outside main memory nothing is zeroed, and the map that is used while booting shows nothing.
    let outside = Shape { region_pages: vec![1; 2], fixed: Some((1, 0x1000_0000)), ..Shape::default() };
    assert_eq!(make(&outside, |_| ()).header().uncached.count, 0);
}

#[test]
fn domains_are_described_as_planned() {
    let shape = Shape { domains: vec![(0, 0, 4, 0), (0, 1, 16, 3), (1, 0, 1, 0)], ..Shape::default() };
    let made = make(&shape, |_| ());
    let domains: Vec<DomainDescription> = made.table(made.header().domains);
    assert_eq!(domains.len(), 3);
    assert_eq!(domains[1].table, made.layout.roots.domains[1] | 2 << 48);
    assert_eq!(domains[1].stack_top, culm_abi::memory::STACK_BASE + 16 * 4096);
    assert_eq!((domains[0].core, domains[2].core), (0, 1));
    assert_eq!(domains[0].supervisor, NONE);
    let text = made.domain_memory(2, domains[2].entry);
    assert_eq!(text[..4], [0xaa; 4]);
    let cores: Vec<culm_abi::system::CoreDescription> = made.table(made.header().cores);
    assert_eq!((cores[0].first_domain, cores[0].domain_count, cores[0].pending_words), (0, 2, 1));
    assert_eq!((cores[1].first_domain, cores[1].first_pending_word), (2, 1));
}

#[test]
fn a_signal_lands_in_the_peers_word() {
    let made = make(&Shape::default(), |plan| {
        let peer = |domain, end| End::Peer { domain, end, notify: true, call: false, label: String::new() };
        // The second domain has more ends than fit into one group.
        plan.domains[0].ends = vec![peer(1, 70)];
        plan.domains[1].ends = vec![peer(0, 0); 71];
        plan.domains[1].ends[65] =
            End::Interrupt { device: 0, interrupt: Interrupt { number: 79, trigger: Trigger::Edge } };
        plan.domains[0].supervisor = Some((1, 64));
        plan.domains[1].ends[64] = End::Child { domain: 0 };
    });
    let header = made.header();
    let ends: Vec<EndDescription> = made.table(header.ends);
    // One word of the first domain, then two of the second: end 70 is bit 7 of the latter's second.
    assert_eq!((ends[0].kind, ends[0].target, ends[0].event), (end_kind::PEER, 1, Event::called(70).0));
    assert_eq!((ends[0].word, ends[0].bit), (2, 7));
    assert_eq!((ends[1].word, ends[1].bit), (0, 0));
    let domains: Vec<DomainDescription> = made.table(header.domains);
    assert_eq!((domains[0].supervisor, domains[0].supervisor_word, domains[0].supervisor_bit), (1, 2, 1));
    assert_eq!((domains[1].first_word, domains[1].groups, domains[1].first_end), (1, 2, 1));
    assert_eq!(header.words.count, 3);
    let routes: Vec<InterruptRoute> = made.table(header.interrupts);
    let route = routes[(79 - FIRST_INTERRUPT) as usize];
    assert_eq!((route.domain, route.flags, route.word, route.bit), (1, interrupt_flags::EDGE, 2, 2));
    assert_eq!(routes.iter().filter(|route| route.domain != NONE).count(), 1);
}

#[test]
fn a_domain_is_told_about_itself() {
    let made = make(&Shape::default(), |_| ());
    let (bytes, header) = made.start(0);
    assert_eq!((header.magic, header.domain), (start::MAGIC, 0));
    assert_eq!(list::<u8>(bytes, header.name), b"domain0");
    assert_eq!(header.stack.size, 4 * 4096);
    let values: Vec<start::Value> = list(bytes, header.config);
    let file = made.domain_memory(0, values[0].a);
    assert_eq!(&file[..values[0].b as usize], b"a site");
    let connections: Vec<start::Connection> = list(bytes, header.connections);
    let observation = list::<Observation>(bytes, connections[0].data)[0];
    assert_eq!(&made.domain_memory(0, observation.picture.address)[..6], b"<svg/>");
    assert_ne!(observation.domain_accounts.address, 0);
    let names: Vec<culm_abi::connection::ObservedDomain> = list(bytes, observation.domains);
    assert_eq!(list::<u8>(bytes, names[1].component), b"component1");
}

#[test]
fn a_supervisor_sees_the_stacks_of_its_children() {
    let made = make(&Shape::default(), |_| ());
    let (bytes, header) = made.start(1);
    let connections: Vec<start::Connection> = list(bytes, header.connections);
    let supervision = list::<culm_abi::connection::Supervision>(bytes, connections[0].data)[0];
    let child = list::<culm_abi::connection::Child>(bytes, supervision.children)[0];
    let stack = made.layout.objects.domains[0].stack;
    assert_eq!(made.layout.domains[1].address(stack), Some(child.stack.address));
    assert_eq!((child.limit, child.stack.size), (5, 4 * 4096));
}

#[test]
fn the_size_of_a_start_block_does_not_depend_on_addresses() {
    let made = make(&Shape::default(), |plan| {
        plan.domains[0].connections.push(crate::plan::DomainConnection {
            slot: 0,
            name: "peer".into(),
            peer: "domain1".into(),
            data: Channel { channel: 0, rights: Rights { notify: true, call: true } }.into(),
        });
    });
    for id in 0..2 {
        let (_, header) = made.start(id);
        assert_eq!(u64::from(header.size), made.parts.start_sizes[id]);
    }
}
