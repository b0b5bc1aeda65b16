//! The tables of an image: written by the build tool, read and never changed by the kernel.
//!
//! The kernel's ELF file begins with the 64-byte Linux arm64 header; [`SystemHeader`] follows at
//! [`HEADER_OFFSET`], patched by the tool. It tells where the other tables are. Indices are
//! positions in those tables. Protection domains are sorted by core, so that each core's are one
//! contiguous range.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Offset of [`SystemHeader`] from the start of the image.
pub const HEADER_OFFSET: u64 = 64;

/// First word of a [`SystemHeader`] ("CULMSYS1").
pub const MAGIC: u64 = u64::from_le_bytes(*b"CULMSYS1");

/// An index that means "none".
pub const NONE: u32 = u32::MAX;

/// Shared peripheral interrupts have numbers from here …
pub const FIRST_INTERRUPT: u32 = 32;
/// … to below here (Arm GIC v2/v3 architecture, INTIDs 32–1019).
pub const END_INTERRUPT: u32 = 1020;

/// The root of all tables. Virtual addresses are the kernel's, physical ones are named so.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SystemHeader {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`crate::VERSION`].
    pub version: u32,
    /// Bytes of this structure.
    pub size: u32,
    /// Physical address at which the image must stand.
    pub load_address: u64,
    /// Bytes of the image file.
    pub image_size: u64,
    /// Physical address of the `TTBR0` table used while booting: identity-maps the image as normal
    /// memory and everything that is to be zeroed.
    pub boot_table: u64,
    /// Physical address of the kernel's `TTBR1` table.
    pub kernel_table: u64,
    /// Physical range that must be zero before the first domain runs; page-aligned. It holds every
    /// region, the kernel's stacks and all of its writable tables.
    pub zero_start: u64,
    /// End of that range.
    pub zero_end: u64,
    /// [`MemoryRange`]s within what is zeroed that domains and devices use uncached, by physical
    /// address.
    pub uncached: Table,
    /// [`CoreDescription`]s.
    pub cores: Table,
    /// [`DomainDescription`]s.
    pub domains: Table,
    /// [`EndDescription`]s of all domains.
    pub ends: Table,
    /// One [`InterruptRoute`] for each INTID from [`FIRST_INTERRUPT`] to below [`END_INTERRUPT`].
    pub interrupts: Table,
    /// Zeroed space for the kernel's own state per domain, owned by its core; element size from
    /// [`KernelLayout`].
    pub local_state: Table,
    /// Zeroed space for state of all domains that other cores may touch (commands, fault reports);
    /// element size from [`KernelLayout`].
    pub shared_state: Table,
    /// Zeroed notification words (`u64`): each domain has [`DomainDescription::groups`] of them,
    /// from [`DomainDescription::first_word`].
    pub words: Table,
    /// Zeroed words of pending domains (`u64`): each core has [`CoreDescription::pending_words`] of
    /// them.
    pub pending_domains: Table,
    /// Zeroed timer slots, one per domain; element size from [`KernelLayout`].
    pub timer_slots: Table,
    /// [`crate::accounting::CoreAccount`]s, then [`crate::accounting::DomainAccount`]s, on pages of
    /// their own.
    pub core_accounts: Table,
    /// See [`Self::core_accounts`].
    pub domain_accounts: Table,
    /// The interrupt controller.
    pub gic: GicDescription,
    /// Virtual address of the boot console's PL011 registers, 0 for none.
    pub console: u64,
    /// The domain that drives the boot console's device, [`NONE`] where none does: when it is
    /// stopped after a fault, the log ends, and only the kernel can still say so.
    pub console_driver: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// A table in the kernel's address space.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Table {
    /// Virtual address of the first element, 64-byte aligned.
    pub address: u64,
    /// Count of elements.
    pub count: u32,
    /// Bytes of an element.
    pub stride: u32,
}

/// A range of memory, whole pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MemoryRange {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
}

/// The affinity fields of `MPIDR_EL1` (Arm ARM D24.2.123): Aff3, Aff2, Aff1, Aff0.
pub const AFFINITY: u64 = 0xff_00ff_ffff;

/// The interrupt controller: GICv2 or GICv3.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GicDescription {
    /// 2 or 3.
    pub version: u32,
    /// Reserved, 0.
    pub reserved: u32,
    /// Virtual address of the distributor.
    pub distributor: u64,
    /// Virtual addresses of the CPU interface (GICv2; only the first) or of the ranges of
    /// redistributors (GICv3); those that are not used are empty.
    pub interfaces: [MemoryRange; GIC_INTERFACES],
}

/// Most ranges that a GICv3's redistributors are in.
pub const GIC_INTERFACES: usize = 4;

/// Shortest period of a budget, in nanoseconds. Each period costs the core a few interrupts, which
/// shorter ones could keep from doing anything else.
pub const MIN_PERIOD: u64 = 100_000;

/// Most cores that a machine has.
pub const MAX_CORES: usize = 64;

/// Most cores that a GICv2 serves.
pub const GICV2_CORES: usize = 8;

/// One core.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CoreDescription {
    /// Affinity fields of `MPIDR_EL1`.
    pub mpidr: u64,
    /// Virtual address of the top of the core's kernel stack.
    pub stack_top: u64,
    /// First of this core's domains.
    pub first_domain: u32,
    /// Count of this core's domains.
    pub domain_count: u32,
    /// First of this core's words of pending domains.
    pub first_pending_word: u32,
    /// Count of this core's words of pending domains: one per 64 domains, rounded up.
    pub pending_words: u32,
}

/// Bit at which an address-space identifier stands in `TTBR0` (Arm ARM D24.2.175).
pub const ASID_SHIFT: u32 = 48;

/// One protection domain, or one virtual CPU of a guest, which the kernel schedules like one.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DomainDescription {
    /// Value of `TTBR0`: physical address of its table, ASID in bits 48–63. Of a virtual CPU, value
    /// of `VTTBR_EL2`: the guest's stage 2 table, VMID in bits 48–55.
    pub table: u64,
    /// Where it starts, at first and at each restart: in the runtime's entry code. Of a virtual CPU
    /// 0: it starts where its page says.
    pub entry: u64,
    /// Initial stack pointer.
    pub stack_top: u64,
    /// Address of its start block, passed in `x0`. `x1` holds the count of restarts so far, `x2` to
    /// `x5` a seed ([`crate::start::SEED_WORDS`]). Of a virtual CPU, its number in its guest.
    pub start_block: u64,
    /// Of a virtual CPU, address of its [`crate::guest::VirtualCpu`] in the kernel's address space;
    /// 0 for a protection domain.
    pub virtual_cpu: u64,
    /// Address, in the kernel's address space, of the zeroed [`VectorRegisters`] that keep its
    /// vector registers while another uses those of the core; 0 for a domain that may not use them.
    /// Each virtual CPU has one.
    pub vectors: u64,
    /// Nanoseconds that it may run in each period; 0 for no limit.
    pub budget: u64,
    /// Period in nanoseconds.
    pub period: u64,
    /// Index of its core.
    pub core: u32,
    /// Priority, 0 to 255; higher runs first.
    pub priority: u32,
    /// [`domain_flags`].
    pub flags: u32,
    /// First of its channel ends.
    pub first_end: u32,
    /// Count of its channel ends.
    pub end_count: u32,
    /// First of its notification words.
    pub first_word: u32,
    /// Count of its notification words: one per [`crate::syscall::GROUP`] channel ends, at least 1.
    pub groups: u32,
    /// Index of the domain that supervises it, or [`NONE`]: then a fault halts the system. Of a
    /// virtual CPU, its monitor, which is signalled when the guest leaves the core.
    pub supervisor: u32,
    /// Index in [`SystemHeader::words`] of the supervisor's word that a fault of this domain is
    /// signalled in.
    pub supervisor_word: u32,
    /// Bit in that word.
    pub supervisor_bit: u32,
}

/// The vector registers of a domain or of a virtual CPU (Arm ARM B1.2), while they are not in the
/// processor.
#[derive(Clone, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub struct VectorRegisters {
    /// `V0` to `V31`.
    pub vectors: [u128; 32],
    /// `FPSR`.
    pub status: u64,
    /// `FPCR`.
    pub control: u64,
}

/// Bits of [`DomainDescription::flags`].
pub mod domain_flags {
    /// Has no time of its own: runs only on behalf of callers, the first of which pays for its
    /// start too.
    pub const PASSIVE: u32 = 1 << 0;
    /// May use the `halt` system call.
    pub const MAY_HALT: u32 = 1 << 1;
}

/// One end of a channel, as its owner numbers it.
///
/// `word` and `bit` say where a signal over this end lands, `callee` and `event` what a call over
/// it comes to: worked out by the tool so that the kernel need not. The peer's end `n` lands in bit
/// `n % 63` of the peer's word `n / 63` ([`crate::syscall::GROUP`]).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EndDescription {
    /// [`end_kind`].
    pub kind: u32,
    /// [`end_rights`] of the owner over this channel.
    pub rights: u32,
    /// Peer: index of the peer domain. Child: index of the supervised domain. Interrupt: INTID.
    pub target: u32,
    /// Peer that may be called: its index among the domains of its core, which is the owner's too.
    /// Else [`NONE`].
    pub callee: u32,
    /// Peer: the [`crate::syscall::Event`] that a call is to it, which names its end of this
    /// channel. Else 0.
    pub event: u64,
    /// Peer: index of the peer's notification word in [`SystemHeader::words`], else 0.
    pub word: u32,
    /// Peer: bit in that word, else 0.
    pub bit: u32,
}

/// Values of [`EndDescription::kind`].
pub mod end_kind {
    /// A channel to another domain.
    pub const PEER: u32 = 1;
    /// An interrupt; signalling it re-enables it.
    pub const INTERRUPT: u32 = 2;
    /// A supervised domain; notified when that one faults.
    pub const CHILD: u32 = 3;
}

/// Bits of [`EndDescription::rights`]; only an end that leads to a peer has any.
pub mod end_rights {
    /// May notify the peer.
    pub const NOTIFY: u32 = 1 << 0;
    /// May call the peer (same core, higher priority).
    pub const CALL: u32 = 1 << 1;
}

/// Where one interrupt goes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InterruptRoute {
    /// Index of the domain, or [`NONE`].
    pub domain: u32,
    /// [`interrupt_flags`].
    pub flags: u32,
    /// Index of the domain's notification word in [`SystemHeader::words`].
    pub word: u32,
    /// Bit in that word.
    pub bit: u32,
}

/// Bits of [`InterruptRoute::flags`].
pub mod interrupt_flags {
    /// Edge-triggered; else level-sensitive.
    pub const EDGE: u32 = 1 << 0;
}

/// The facts that the kernel's ELF file tells the tool, in its section `.culm.layout`: the sizes of
/// the elements in the tables that hold the kernel's own state.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelLayout {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Stride of [`SystemHeader::local_state`].
    pub local_state: u32,
    /// Stride of [`SystemHeader::shared_state`].
    pub shared_state: u32,
    /// Stride of [`SystemHeader::timer_slots`].
    pub timer_slot: u32,
}
