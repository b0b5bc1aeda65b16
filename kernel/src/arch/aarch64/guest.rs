//! Guests: the way into a virtual CPU and out of it, at EL2 with the Virtualization Host
//! Extensions.
//!
//! A virtual CPU's [`Registers`] are those of a small piece of the kernel's own,
//! [`culm_enter_guest`], which the general way out of the kernel enters like any domain, but at
//! EL2. So neither that way nor the fast paths know of guests. From there the guest is entered, by
//! registers that its page holds ([`culm_abi::guest::VirtualCpu`]). While it runs, the vectors are
//! the guest's.
//!
//! The registers of EL1 are the guest's alone: neither the kernel, which is at EL2, nor a domain
//! uses them. They stay in the processor, as do the virtual timer and the virtual interrupt
//! controller; so a core has one virtual CPU. One of them a domain can use: `APGAKey_EL1`, the key
//! of `PACGA`, which nothing takes from EL0. It is saved, and zero while domains run. (What the
//! other keys of pointer authentication are for, `SCTLR_EL2` turns off.) The vector registers stay
//! too, until a domain takes them: then the guest's next way in is another, which takes them back.
//!
//! While others run, `HCR_EL2.TGE` is set, and no virtual interrupt is taken.
//!
//! Of the list registers the first has the timer's interrupt, the second one that a CPU of the same
//! guest has generated; the others are the monitor's to fill.

use super::boot::no_table;
use super::gic::GUEST_TIMER;
use super::registers::{Registers, resume};
use super::system_register::{read_register, write_register};
use crate::guest_device::{device_access, take_access};
use crate::guest_page::{
    SOFTWARE, cause, generated, generates, is_bounded_wait, length, list_registers, put_added, put_generated,
};
use crate::processor::Processor;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use culm_abi::guest::{LIST_REGISTERS, Shown, VirtualCpu, entry, exit, wish};
use culm_abi::system::DomainDescription;
use culm_kernel_core::generated::GeneratedInterrupts;
use culm_kernel_core::system::Shared;
use culm_kernel_core::{Added, Entry, Trap};

/// `HCR_EL2` (Arm ARM D24.2.57) while domains run: EL1 would be AArch64, EL0 belongs to EL2, which
/// has the host extensions. With these, VM has no effect. It stays set all the same: QEMU forgets
/// all translations, the guest's and the domains', whenever it changes.
const HCR_DOMAIN: u64 = 1 << 31 | 1 << 27 | 1 << 34 | 1;

/// `HCR_EL2` while a guest runs: stage 2 translates (VM), interrupts and SErrors are EL2's (FMO,
/// IMO, AMO), cache maintenance by set and way cleans too (SWIO); WFI, SMC, implementation-defined
/// registers, ACTLR and the registers of limited ordering and of error records trap (TWI, TSC,
/// TIDCP, TACR, TLOR, TERR); EL1 is AArch64 (RW) and may use pointer authentication (APK, API).
const HCR_GUEST: u64 = 1 << 34
    | 1
    | 1 << 1
    | 1 << 3
    | 1 << 4
    | 1 << 5
    | 1 << 13
    | 1 << 19
    | 1 << 20
    | 1 << 21
    | 1 << 31
    | 1 << 35
    | 1 << 36
    | 1 << 40
    | 1 << 41;

/// `PSTATE` at a virtual CPU's first instruction, and of the kernel's way there: EL1 and EL2 with
/// their own stack pointers, everything masked; the kernel's with PAN, which each processor with
/// the host extensions has.
const START_OF_GUEST: u64 = 0x3c5;
const WAY_IN: u64 = 1 << 22 | 0x3c9;

/// `CPTR_EL2` while a guest runs, in its form with E2H: the vector registers are the guest's
/// (FPEN); registers of trace and activity counters trap (TTA, TAM).
const FEATURES_OF_GUEST: u64 = 1 << 30 | 1 << 28 | 0b11 << 20;

/// `MDCR_EL2`: accesses to debug, trace, profiling and performance registers trap (TTRF, TPMS,
/// TDRA, TDOSA, TDA, TPM, TPMCR).
const DEBUG_TRAPS: u64 = 1 << 19 | 1 << 14 | 1 << 11 | 1 << 10 | 1 << 9 | 1 << 6 | 1 << 5;

/// `ICC_SRE_EL2`: EL1 may reach `ICC_SRE_EL1`. A guest must not: by it, it could turn off the
/// registers through which the kernel sends interrupts.
const SRE_ENABLE: u64 = 1 << 3;

/// `SCTLR_EL1` at a guest's start: its bits that are always one.
const SCTLR_OFF: u64 = 0x30d0_0800;

/// `ICH_LR0_EL2` (IHI 0069, 12.4.8) when the virtual timer has gone off: pending, of group 1, with
/// the physical interrupt that the guest deactivates when it ends the virtual one.
const TIMER_PENDING: u64 = 1 << 62 | 1 << 61 | 1 << 60 | 0xa0 << 48 | (GUEST_TIMER as u64) << 32 | GUEST_TIMER as u64;

/// Places in a virtual CPU's [`Registers::x`]: its page, and what the monitor must not write.
mod place {
    pub const PAGE: usize = 0;
    pub const PSTATE: usize = 1;
    pub const SP: usize = 2;
    pub const THREAD: usize = 3;
    pub const THREAD_READ_ONLY: usize = 4;
    /// `TPIDR_EL1`, which even with the host extensions is not EL2's.
    pub const THREAD_OF_KERNEL: usize = 5;
    /// `APGAKey_EL1`, two halves.
    pub const KEY: usize = 6;
    /// Not zero if the processor has that key.
    pub const HAS_KEY: usize = 8;
    /// Address of the word by which others generate interrupts for it.
    pub const GENERATED: usize = 9;
    /// Generated interrupts that it was given and that have found no list register, a bit each.
    pub const WAITING: usize = 10;
    /// The page of the guest's first virtual CPU. The way in does not use it.
    pub const FIRST_PAGE: usize = 11;
}

core::arch::global_asm!(
    pair_macros!(),
    r#"
    .text
    // x0: the virtual CPU's page, x1-x9: what `place` says. The core's state is at sp.
    .globl culm_enter_guest
culm_enter_guest:
    ldr     w10, [x9]
    tbz     w10, #31, 2f            // the core does not listen: what was generated must be taken
    msr     spsr_el1, x1
    msr     sp_el0, x2
    msr     tpidr_el0, x3
    msr     tpidrro_el0, x4
    msr     tpidr_el1, x5
    cbz     x8, 1f
    msr     S3_0_C2_C3_0, x6        // APGAKeyLo_EL1
    msr     S3_0_C2_C3_1, x7        // APGAKeyHi_EL1
1:  ldr     x1, ={hcr_guest}
    msr     hcr_el2, x1
    ldr     x1, =culm_guest_vectors
    msr     vbar_el1, x1
    ldr     x1, ={features_of_guest}
    msr     cpacr_el1, x1           // CPTR_EL2
    ldr     x1, [x0, #{pc}]
    msr     elr_el1, x1
    pairs   ldp, 2, 28, x0
    ldr     x30, [x0, #240]
    ldp     x0, x1, [x0, #0]
    eret
2:  mov     x0, sp
    mov     x29, xzr
    bl      culm_guest_enters       // it comes here again

culm_enter_guest_anew:              // the vector registers have another's content
    mov     x0, sp
    mov     x29, xzr
    bl      culm_guest_vectors_back // it comes to culm_enter_guest

    // Saves the guest's registers and gives the processor back to the kernel and its domains. The
    // guest's x0 and x1 are below the stack.
    .macro leave_guest
    stp     x0, x1, [sp, #-16]
    ldr     x1, [sp, #{current}]
    ldr     x0, [x1, #({page} * 8)]
    pairs   stp, 2, 28, x0
    ldp     x2, x3, [sp, #-16]
    stp     x2, x3, [x0, #0]
    mrs     x2, elr_el1
    str     x30, [x0, #240]
    str     x2, [x0, #{pc}]
    mrs     x2, spsr_el1
    mrs     x3, sp_el0
    str     x2, [x1, #({pstate} * 8)]
    str     x3, [x1, #({sp} * 8)]
    mrs     x2, tpidr_el0
    mrs     x3, tpidrro_el0
    str     x2, [x1, #({thread} * 8)]
    str     x3, [x1, #({thread_read_only} * 8)]
    mrs     x2, tpidr_el1
    mov     x3, sp
    str     x2, [x1, #({thread_of_kernel} * 8)]
    msr     tpidr_el1, x3
    msr     tpidrro_el0, xzr        // a domain must not read there what the guest left
    ldr     x2, [x1, #({has_key} * 8)]
    cbz     x2, 1f
    mrs     x2, S3_0_C2_C3_0        // APGAKeyLo_EL1
    mrs     x3, S3_0_C2_C3_1        // APGAKeyHi_EL1
    stp     x2, x3, [x1, #({key} * 8)]
    msr     S3_0_C2_C3_0, xzr
    msr     S3_0_C2_C3_1, xzr
1:
    msr     cpacr_el1, xzr
    ldr     x2, ={hcr_domain}
    msr     hcr_el2, x2
    ldr     x2, =culm_vectors
    msr     vbar_el1, x2
    isb
    mov     x0, sp
    .endm

    .balign 0x800
culm_guest_vectors:
    .rept   8                       // this level: the kernel itself
    .balign 0x80
    b       culm_guest_defect
    .endr
    .balign 0x80                    // the guest, synchronous
    b       guest_exception
    .balign 0x80                    // the guest, interrupt
    b       guest_interrupt
    .balign 0x80
    b       culm_guest_defect       // FIQ: not used
    .balign 0x80
    b       culm_guest_defect       // SError: nobody can be blamed for sure
    .balign 0x80                    // its applications in AArch32, as above
    b       guest_exception
    .balign 0x80
    b       guest_interrupt
    .balign 0x80
    b       culm_guest_defect
    .balign 0x80
    b       culm_guest_defect

guest_exception:
    leave_guest
    bl      culm_guest_exit

guest_interrupt:
    leave_guest
    bl      culm_interrupt

culm_guest_defect:
    ldr     x0, =culm_vectors       // report it as any defect of the kernel
    msr     vbar_el1, x0
    isb
    add     x0, x0, #0x200
    br      x0
    .ltorg
    .noaltmacro
    .purgem pair
    .purgem pairs
    "#,
    hcr_guest = const HCR_GUEST,
    hcr_domain = const HCR_DOMAIN,
    features_of_guest = const FEATURES_OF_GUEST,
    current = const Processor::CURRENT,
    pc = const offset_of!(VirtualCpu, pc),
    page = const place::PAGE,
    pstate = const place::PSTATE,
    sp = const place::SP,
    thread = const place::THREAD,
    thread_read_only = const place::THREAD_READ_ONLY,
    thread_of_kernel = const place::THREAD_OF_KERNEL,
    key = const place::KEY,
    has_key = const place::HAS_KEY,
);

const _: () = {
    assert!(offset_of!(VirtualCpu, x) == 0 && offset_of!(Registers, x) == 0);
    assert!(place::PAGE == 0 && place::PSTATE == 1 && place::SP == 2 && place::THREAD == 3);
    assert!(place::THREAD_OF_KERNEL == 5 && place::KEY == 6 && place::HAS_KEY == 8);
    assert!(place::GENERATED == 9 && GeneratedInterrupts::LISTENS == 1 << 31);
};

unsafe extern "C" {
    fn culm_enter_guest();
    fn culm_enter_guest_anew();
}

/// Returns where the way into a guest begins: if the vector registers have another's content, it
/// takes them first.
pub fn way_in(has_vectors: bool) -> u64 {
    (if has_vectors { culm_enter_guest } else { culm_enter_guest_anew }) as *const () as u64
}

/// Returns the page of the virtual CPU with these registers.
fn page(registers: &Registers) -> &'static VirtualCpu {
    // SAFETY: [K1, K8] `registers` are a virtual CPU's, whose description names a page that is
    // mapped for the kernel for good, of exactly this type, made of atomics only. Its monitor may
    // write any value there, and each is read once.
    unsafe { &*(registers.x[place::PAGE] as *const VirtualCpu) }
}

/// Returns the page that has what is of all virtual CPUs of the guest.
fn first_page(registers: &Registers) -> &'static VirtualCpu {
    // SAFETY: [K1, K8] as `page` has it, of the guest's first virtual CPU.
    unsafe { &*(registers.x[place::FIRST_PAGE] as *const VirtualCpu) }
}

/// Returns a virtual CPU's registers before its start; `first` is the first of its guest.
pub fn registers(description: &DomainDescription, shared: &Shared, first: &DomainDescription) -> Registers {
    let mut x = [0; 30];
    x[place::FIRST_PAGE] = first.virtual_cpu;
    x[place::GENERATED] = core::ptr::from_ref(&shared.generated) as u64;
    x[place::PAGE] = description.virtual_cpu;
    x[place::HAS_KEY] = u64::from(has_generic_key());
    Registers { x, sp: 0, pc: way_in(true), table: no_table(), link: 0, pstate: WAY_IN, resume: resume::ALL, open: 0 }
}

/// Returns whether the processor has `PACGA` and its key (`ID_AA64ISAR1_EL1` GPI and GPA,
/// `ID_AA64ISAR2_EL1` GPA3).
fn has_generic_key() -> bool {
    read_register!("id_aa64isar1_el1") >> 24 & 0xff != 0 || read_register!("S3_0_C0_C6_2") >> 8 & 0xf != 0
}

/// Puts a virtual CPU to its start: translation off, no interrupt pending or active. Of the state
/// that a reset leaves unknown, the rest is as it was; so is what its page has.
fn reset(registers: &mut Registers) {
    registers.x[place::PSTATE] = START_OF_GUEST;
    registers.x[place::SP..place::HAS_KEY].fill(0);
    write_register!("S3_5_C1_C0_0", SCTLR_OFF); // SCTLR_EL12
    write_register!("S3_5_C14_C3_1", 0); // CNTV_CTL_EL02
    super::machine::synchronise();
    // While the first list register has it, the timer's physical interrupt is active: nobody else
    // ends it for a guest that begins anew.
    if read_register!("S3_4_C12_C12_0") >> 62 != 0 {
        write_register!("S3_0_C12_C11_1", u64::from(GUEST_TIMER)); // ICC_DIR_EL1
    }
    write_register!("S3_4_C12_C12_0", 0); // ICH_LR0_EL2
    write_register!("S3_4_C12_C11_7", 0); // ICH_VMCR_EL2
    forget_active_priorities();
    forget_translations();
}

/// Throws away what this core's TLB keeps of guests, and what its instruction cache does.
fn forget_translations() {
    // SAFETY: [K7] it concerns neither kernel nor domains, but that they fetch code again.
    unsafe { core::arch::asm!("tlbi alle1", "ic iallu", "dsb nsh", "isb", options(nostack, preserves_flags)) }
}

/// Clears the priorities of the interrupts that a guest was handling (`ICH_AP0R_EL2`,
/// `ICH_AP1R_EL2`), by which it would mask all that are not more urgent.
fn forget_active_priorities() {
    write_register!("S3_4_C12_C8_0", 0);
    write_register!("S3_4_C12_C9_0", 0);
    // There is a register for each 32 priorities, and PREbits says how many those are.
    let preemption_bits = (read_register!("S3_4_C12_C11_1") >> 26 & 7) + 1; // ICH_VTR_EL2
    if preemption_bits >= 6 {
        write_register!("S3_4_C12_C8_1", 0);
        write_register!("S3_4_C12_C9_1", 0);
    }
    if preemption_bits >= 7 {
        write_register!("S3_4_C12_C8_2", 0);
        write_register!("S3_4_C12_C8_3", 0);
        write_register!("S3_4_C12_C9_2", 0);
        write_register!("S3_4_C12_C9_3", 0);
    }
}

/// Deals with WFI, with interrupts for CPUs of the same guest and with the frequent registers of
/// virtio devices, if the guest's last exception is that.
pub fn trap(registers: &Registers) -> Trap {
    let (page, syndrome) = (page(registers), read_register!("esr_el1"));
    let pass = || page.pc.store(page.pc.load(Ordering::Relaxed).wrapping_add(length(syndrome)), Ordering::Relaxed);
    let general = |number: usize| page.x.get(number).map_or(0, |value| value.load(Ordering::Relaxed));
    if let Some(number) = generates(syndrome) {
        pass();
        return Trap::Generates(generated(general(number)));
    }
    if let Some(is_bounded) = is_bounded_wait(syndrome) {
        pass();
        return if is_bounded || has_pending() || has_waiting(registers) {
            Trap::Passed
        } else {
            Trap::Waits { is_told: first_page(registers).tell_wait.swap(0, Ordering::AcqRel) == wish::NOTIFY }
        };
    }
    let access = device_access(syndrome, read_register!("far_el1"), read_register!("hpfar_el2"));
    let Some(access) = access else { return Trap::Exits };
    let device = &first_page(registers).devices[access.slot];
    let Some((value, trap)) = take_access(device, access.register, general(access.general)) else {
        return Trap::Exits;
    };
    if let (Some(value), Some(to)) = (value, page.x.get(access.general)) {
        to.store(value, Ordering::Relaxed);
    }
    pass();
    trap
}

/// Returns whether a generated interrupt that the guest may take has found no list register yet.
fn has_waiting(registers: &Registers) -> bool {
    registers.x[place::WAITING] & page(registers).enabled.load(Ordering::Relaxed) != 0
}

/// Has interrupts that were generated by software, a bit each, delivered to the guest.
pub fn generate(registers: &mut Registers, generated: u32) {
    let page = page(registers);
    let waiting = registers.x[place::WAITING] | u64::from(generated) & SOFTWARE;
    let enabled = page.enabled.load(Ordering::Relaxed);
    let priorities = page.priorities.each_ref().map(|word| word.load(Ordering::Relaxed));
    let (register, waiting) = put_generated(read_register!("S3_4_C12_C12_1"), waiting, enabled, priorities);
    write_register!("S3_4_C12_C12_1", register); // ICH_LR1_EL2
    registers.x[place::WAITING] = waiting;
}

/// Puts the interrupts that the monitor has added into list registers.
pub fn take_added(registers: &Registers) -> Added {
    let mut outcome = Added::Nothing;
    for word in &page(registers).added {
        // Acquire: the guest sees what the monitor did before it added the interrupt.
        let wanted = word.load(Ordering::Acquire);
        if wanted == 0 {
            continue;
        }
        let lists = [read_register!("S3_4_C12_C12_2"), read_register!("S3_4_C12_C12_3")];
        let Some([second, third]) = put_added(lists, wanted) else { return Added::NoPlace };
        write_register!("S3_4_C12_C12_2", second);
        write_register!("S3_4_C12_C12_3", third);
        // Release: the monitor may write here again.
        word.store(0, Ordering::Release);
        outcome = Added::Taken;
    }
    outcome
}

/// Deals with the end of an interrupt of which the controller tells. Returns whether the monitor
/// has asked for that.
pub fn maintain(registers: &mut Registers) -> bool {
    let ended = read_register!("S3_4_C12_C11_3"); // ICH_EISR_EL2
    generate(registers, 0);
    let is_monitors = ended & !(1 << 1) != 0;
    if !is_monitors {
        write_register!("S3_4_C12_C11_0", 1); // ICH_HCR_EL2: En
    }
    is_monitors
}

/// Returns whether a list register has an interrupt that the guest has not taken.
fn has_pending() -> bool {
    let first = read_register!("S3_4_C12_C12_0") | read_register!("S3_4_C12_C12_1");
    let others = read_register!("S3_4_C12_C12_2") | read_register!("S3_4_C12_C12_3");
    (first | others) >> 62 & 1 != 0
}

/// Tells the monitor why the guest has left the core.
pub fn exit(registers: &mut Registers, reason: u64) {
    let page = page(registers);
    let [syndrome, address, physical_page] =
        cause(reason, read_register!("esr_el1"), read_register!("far_el1"), read_register!("hpfar_el2"));
    page.syndrome.store(syndrome, Ordering::Relaxed);
    page.address.store(address, Ordering::Relaxed);
    page.page.store(physical_page, Ordering::Relaxed);
    if reason != exit::RETURNED {
        let [first, second, third] = &page.interrupts;
        first.store(read_register!("S3_4_C12_C12_1"), Ordering::Relaxed);
        second.store(read_register!("S3_4_C12_C12_2"), Ordering::Relaxed);
        third.store(read_register!("S3_4_C12_C12_3"), Ordering::Relaxed);
        page.generated.store(registers.x[place::WAITING], Ordering::Relaxed);
        registers.x[place::WAITING] = 0;
    } else {
        show(registers, &page.shown);
    }
    page.exit.store(reason, Ordering::Relaxed);
    // Release: a monitor that sees the count sees all of the exit.
    page.exits.store(page.exits.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
}

/// Shows the monitor what a debugger wants to see besides. Only where it stops a virtual CPU that
/// has not gone on: other exits cost nothing for it.
fn show(registers: &Registers, shown: &Shown) {
    let show = |place: &AtomicU64, value| place.store(value, Ordering::Relaxed);
    show(&shown.state, registers.x[place::PSTATE]);
    show(&shown.stacks[0], registers.x[place::SP]);
    show(&shown.stacks[1], read_register!("S3_4_C4_C1_0")); // SP_EL1
    show(&shown.system_control, read_register!("S3_5_C1_C0_0")); // SCTLR_EL12
    show(&shown.translation_control, read_register!("S3_5_C2_C0_2")); // TCR_EL12
    show(&shown.tables[0], read_register!("S3_5_C2_C0_0")); // TTBR0_EL12
    show(&shown.tables[1], read_register!("S3_5_C2_C0_1")); // TTBR1_EL12
}

/// Returns whether the monitor has answered the last exit.
pub fn is_answered(registers: &Registers) -> bool {
    let page = page(registers);
    // Acquire: what the monitor wrote before it answered is what the guest goes on with.
    page.answered.load(Ordering::Acquire) == page.exits.load(Ordering::Relaxed)
}

/// Takes how the guest goes on, and the interrupts that the monitor has for it, as far as they are
/// the monitor's; others were `generated` meanwhile.
pub fn enter(registers: &mut Registers, generated: u32) -> Entry {
    let page = page(registers);
    let entry = page.entry.swap(entry::CONTINUE, Ordering::Relaxed);
    if entry == entry::FORGET {
        return Entry::Forgets;
    }
    if entry == entry::RESET {
        reset(registers);
    }
    registers.x[place::WAITING] = page.generated.load(Ordering::Relaxed) & SOFTWARE;
    let wanted = page.interrupts.each_ref().map(|interrupt| interrupt.load(Ordering::Relaxed));
    let [first, second, third] = list_registers(wanted);
    write_register!("S3_4_C12_C12_1", first); // ICH_LR1_EL2
    write_register!("S3_4_C12_C12_2", second);
    write_register!("S3_4_C12_C12_3", third);
    generate(registers, generated);
    write_register!("S3_4_C12_C11_0", 1); // ICH_HCR_EL2: En
    let waits = entry == entry::WAIT && !has_pending() && !has_waiting(registers);
    if waits { Entry::Waits } else { Entry::Goes }
}

/// Takes back the maintenance interrupt, which is a level, until [`maintain`] or [`enter`].
pub fn end_maintenance() {
    write_register!("S3_4_C12_C11_0", 0);
    super::machine::synchronise();
}

/// Makes the timer's interrupt pending for this core's guest.
pub fn timer_has_gone_off() {
    write_register!("S3_4_C12_C12_0", TIMER_PENDING);
}

/// Sets up this core for the virtual CPU, if it has one.
///
/// # Panics
/// If the machine cannot run guests.
pub fn set_up(description: &DomainDescription, gic_version: u32) {
    assert!(
        read_register!("CurrentEL") == 2 << 2,
        "guests need the kernel at EL2 on a processor with the Virtualization Host Extensions: on QEMU, \
         `virtualization=on` and a processor such as cortex-a76"
    );
    assert!(gic_version == 3, "guests need an interrupt controller of version 3 or later");
    let kinds = read_register!("S3_4_C12_C11_1"); // ICH_VTR_EL2
    let list_registers = (kinds & 0x1f) as usize + 1;
    assert!(list_registers > LIST_REGISTERS, "the processor has {list_registers} list registers, guests need 4");
    let physical = (read_register!("id_aa64mmfr0_el1") & 0xf).min(5);
    // 39 bits from level 1, 4 KiB granule, write-back inner-shareable walks, VMIDs of 8 bits
    // (D24.2.207).
    let translation = 1 << 31 | physical << 16 | 0b11 << 12 | 0b01 << 10 | 0b01 << 8 | 0b01 << 6 | (64 - 39);
    write_register!("vtcr_el2", translation);
    write_register!("vttbr_el2", description.table);
    write_register!("vpidr_el2", read_register!("midr_el1"));
    write_register!("vmpidr_el2", 1 << 31 | description.start_block & 0xff);
    write_register!("cntvoff_el2", 0);
    write_register!("cntkctl_el1", read_register!("cntkctl_el1") | 1 << 10); // CNTHCTL_EL2.EL1PCTEN
    write_register!("mdcr_el2", read_register!("mdcr_el2") | DEBUG_TRAPS);
    write_register!("hstr_el2", 0);
    write_register!("S3_4_C12_C9_5", read_register!("S3_4_C12_C9_5") & !SRE_ENABLE); // ICC_SRE_EL2
    write_register!("S3_4_C12_C12_0", 0); // ICH_LR0_EL2, which `reset` reads
    write_register!("S3_4_C12_C12_1", 0);
    write_register!("S3_4_C12_C12_2", 0);
    write_register!("S3_4_C12_C12_3", 0);
    if has_generic_key() {
        write_register!("S3_0_C2_C3_0", 0); // APGAKeyLo_EL1
        write_register!("S3_0_C2_C3_1", 0); // APGAKeyHi_EL1
    }
    forget_translations();
}
