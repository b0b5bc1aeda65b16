//! One processor core from its first Rust instruction on: joins machine and logic, and holds the
//! state that every kernel entry works on.

use crate::arch::console::println;
use crate::arch::{CoreHardware, Registers, Source, resume, resume_notified, wait_for_interrupt};
use crate::image;
use core::mem::{MaybeUninit, offset_of};
use culm_abi::syscall::{self, BadCall, FaultKind, FaultReport, MESSAGE_WORDS};
use culm_abi::system::SystemHeader;
use culm_kernel_core::system::{Command, System};
use culm_kernel_core::timer::TimerQueue;
use culm_kernel_core::{Core, FastSwitch, Next, SignalLeft};

/// Exception classes (`ESR_ELx.EC`, Arm ARM D24.2.40): BRK from AArch64, and a data abort of this
/// exception level's own.
const BREAKPOINT: u64 = 0x3c;
const DATA_ABORT_WITHIN: u64 = 0x25;

/// A core's state. It stands at the top of the core's kernel stack; the entry code finds it by the
/// stack pointer.
#[repr(C, align(64))]
pub struct Processor {
    /// The registers of the domain that runs. Only the entry code uses and sets it.
    current: *mut Registers,
    /// The message of a call or a reply; of a `signal` its two arguments.
    message: [u64; MESSAGE_WORDS],
    core: Core<'static, Registers, CoreHardware>,
}

/// The result of a fast path, in two registers: the address of the saved registers of the domain
/// that has the core now, and its result.
#[repr(C)]
pub struct FastReturn {
    registers: *mut Registers,
    result: u64,
}

impl From<FastSwitch<'_, 'static, Registers>> for FastReturn {
    #[inline(always)]
    fn from(switch: FastSwitch<'_, 'static, Registers>) -> Self {
        Self { registers: &mut switch.domain.context, result: switch.result }
    }
}

impl Processor {
    /// Offset of `current`, for the entry code.
    pub const CURRENT: usize = offset_of!(Self, current);
    /// Offset of `message`, for the entry code.
    pub const MESSAGE: usize = offset_of!(Self, message);

    /// Leaves the kernel for the domain that runs next; sleeps while there is none.
    #[inline(always)]
    fn resume(&'static mut self, next: Next) -> ! {
        match next {
            Some(local) => resume(&mut self.core.domain(local).context),
            None => self.sleep(),
        }
    }

    /// Sleeps until a domain can run, and leaves the kernel for it.
    #[inline(never)]
    fn sleep(&'static mut self) -> ! {
        loop {
            self.core.count_sleep();
            wait_for_interrupt();
            let taken = match self.core.fast_interrupt() {
                Ok((local, set)) => resume_notified(&mut self.core.domain(local).context, set),
                Err(taken) => taken,
            };
            if let Some(local) = self.core.handle_interrupts(taken) {
                self.core.note_awake();
                resume(&mut self.core.domain(local).context);
            }
        }
    }
}

/// Starts a core in Rust. The boot code calls it on the core's own stack; `place`, above that
/// stack, receives the core's state. `entry_level` is the exception level at which the image was
/// entered. `boots` is 1 on the core that boots and starts the others. If the image names no core
/// with that core's affinity, `index` is the number of cores and the stack is the first core's:
/// [`check`] then panics.
#[unsafe(no_mangle)]
extern "C" fn culm_main(index: u32, place: &'static mut MaybeUninit<Processor>, entry_level: u64, boots: u64) -> ! {
    let header = crate::arch::system_header();
    if boots != 0 {
        crate::arch::set_entry_level(entry_level);
        check(header, index);
    }
    let system = image::system(header);
    // SAFETY: [K3] each core comes here once, with its own index.
    let processor = unsafe { make(header, system, index, place, boots != 0) };
    crate::arch::set_processor(processor);
    processor.core.hardware().enable_devices(&system, index);
    if boots != 0 {
        let others = (0..system.cores.len() as u32).filter(|other| *other != index);
        others.for_each(|other| processor.core.hardware().start_core(other));
    }
    let next = processor.core.what_next();
    processor.resume(next)
}

/// Checks once, on the core that boots, that image and machine fit each other.
#[inline(never)]
fn check(header: &SystemHeader, index: u32) {
    image::check_header(header);
    let system = image::system(header);
    if let Err(bad) = system.check() {
        panic!("table `{}` of the image is wrong at element {}: rebuild it", bad.0, bad.1);
    }
    assert!(
        (index as usize) < system.cores.len(),
        "the core that boots has the affinity {:#x}, which none of the image's {} cores has: name it in the board's `mpidr`, \
         before those that the system leaves out",
        crate::arch::affinity(),
        system.cores.len(),
    );
    crate::arch::check_address_spaces(&system);
    match crate::arch::find_source(index) {
        Source::Absent => {
            println!(
                "culm: neither processor nor firmware has a source of random numbers: what components make up can be \
                 guessed, unless a device of the class `entropy` seeds them (CAVEATS.md, \"Randomness\")"
            );
        }
        Source::Dry => println!(
            "culm: this machine's source of random numbers gives none: until it does, what components make up can be \
             guessed, unless a device of the class `entropy` seeds them"
        ),
        Source::Works => {}
    }
}

/// Makes the state of core `index`. It is a function of its own so that its copies of that state,
/// of which there are several in a build without optimisation, are not on the stack with what
/// follows.
///
/// # Safety
/// To be called once for each core.
#[inline(never)]
unsafe fn make(
    header: &'static SystemHeader,
    system: System<'static>,
    index: u32,
    place: &'static mut MaybeUninit<Processor>,
    boots: bool,
) -> &'static mut Processor {
    // SAFETY: [K3] the caller's promise.
    let tables = unsafe { image::take_per_core(header, &system, index, crate::arch::counter_frequency()) };
    let hardware = CoreHardware::new(index, &system, boots);
    let core = Core::new(index, system, tables.domains, TimerQueue::new(tables.slots), hardware);
    place.write(Processor { current: core::ptr::null_mut(), message: [0; MESSAGE_WORDS], core })
}

// ---- what the entry code calls ------------------------------------------------------------------
//
// The fast paths return to the entry code and contain no call that returns, so that the compiler
// can leave the stack frame to the rest. Everything else is in separate functions, never inlined,
// which leave the kernel by [`Processor::resume`].

#[unsafe(no_mangle)]
extern "C" fn culm_wait(processor: &'static mut Processor, signals: u64, deadline: u64, options: u64) -> FastReturn {
    match processor.core.fast_wait(signals, deadline, options) {
        Some(switch) => switch.into(),
        None => pause(processor, signals, deadline, options),
    }
}

/// Does a `wait` that leaves the core idle, or has a deadline; leaves all others to [`wait`], which
/// saves many registers.
#[inline(never)]
extern "C" fn pause(processor: &'static mut Processor, signals: u64, deadline: u64, options: u64) -> FastReturn {
    if processor.core.fast_idle(signals, deadline, options) {
        processor.sleep();
    }
    match processor.core.fast_wait_until(signals, deadline, options) {
        Some(switch) => switch.into(),
        None => wait(processor, signals, deadline, options),
    }
}

#[inline(never)]
extern "C" fn wait(processor: &'static mut Processor, signals: u64, deadline: u64, options: u64) -> ! {
    let next = processor.core.wait(signals, deadline, options);
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_reply_wait(
    processor: &'static mut Processor,
    signals: u64,
    deadline: u64,
    options: u64,
) -> FastReturn {
    match processor.core.fast_reply(signals, deadline, options) {
        Some(switch) => switch.into(),
        None => reply_wait(processor, signals, deadline, options),
    }
}

#[inline(never)]
extern "C" fn reply_wait(processor: &'static mut Processor, signals: u64, deadline: u64, options: u64) -> ! {
    let next = processor.core.reply_wait(&processor.message, signals, deadline, options);
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_call(processor: &'static mut Processor, channel: u64) -> FastReturn {
    match processor.core.fast_call(channel) {
        Some(switch) => switch.into(),
        None => call(processor, channel),
    }
}

#[inline(never)]
extern "C" fn call(processor: &'static mut Processor, channel: u64) -> ! {
    let next = processor.core.call(&processor.message, channel);
    processor.resume(next)
}

/// Result of [`culm_signal`] if nothing was done yet. The result is 0 if nothing remains, and a
/// domain's index plus one if that domain must be woken.
const ALL_LEFT: u64 = u64::MAX;

#[unsafe(no_mangle)]
extern "C" fn culm_signal(processor: &'static mut Processor, signals: u64, options: u64) -> u64 {
    match processor.core.fast_signal(signals, options) {
        SignalLeft::Nothing => 0,
        SignalLeft::Wake(target) => u64::from(target) + 1,
        SignalLeft::All => ALL_LEFT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn culm_signal_rest(processor: &'static mut Processor, left: u64) -> ! {
    let [signals, options, ..] = processor.message;
    let core = &mut processor.core;
    let next = if left == ALL_LEFT { core.signal(signals, options) } else { core.signal_wake((left - 1) as u32) };
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_other_call(processor: &'static mut Processor, number: u64, argument: u64) -> ! {
    let core = &mut processor.core;
    let next = match number as u16 {
        syscall::FAULT => core.read_fault(argument),
        syscall::RESUME => core.supervise(argument, Command::Resume, syscall::RESUME),
        syscall::RESTART => core.supervise(argument, Command::Restart, syscall::RESTART),
        syscall::STOP => core.supervise(argument, Command::Stop, syscall::STOP),
        syscall::HALT => core.halt(argument),
        _ => core.refuse(BadCall::Number, number),
    };
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_interrupt(processor: &'static mut Processor) -> ! {
    let next = processor.core.take_interrupts();
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_guest_exit(processor: &'static mut Processor) -> ! {
    let next = processor.core.guest_exit();
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_guest_enters(processor: &'static mut Processor) -> ! {
    let next = processor.core.guest_enters();
    processor.resume(next)
}

/// Gives the guest whose way in has begun its vector registers back.
#[unsafe(no_mangle)]
extern "C" fn culm_guest_vectors_back(processor: &'static mut Processor) -> ! {
    let next = processor.core.take_vectors();
    processor.resume(next)
}

/// Gives the domain that runs its vector registers, if it may use them.
#[unsafe(no_mangle)]
extern "C" fn culm_take_vectors(processor: &'static mut Processor) {
    processor.core.take_vectors();
}

#[unsafe(no_mangle)]
extern "C" fn culm_fault(processor: &'static mut Processor, syndrome: u64, address: u64) -> ! {
    let kind = if syndrome >> 26 & 0x3f == BREAKPOINT { FaultKind::Panic } else { FaultKind::Exception };
    let report = FaultReport { kind: kind as u64, syndrome, address, ..FaultReport::default() };
    let next = processor.core.fault(report);
    processor.resume(next)
}

/// Reports an exception inside the kernel. The entry code calls it on a stack of its own.
#[unsafe(no_mangle)]
extern "C" fn culm_kernel_fault(syndrome: u64, pc: u64, address: u64) -> ! {
    if syndrome >> 26 & 0x3f == DATA_ABORT_WITHIN
        && let Some(core) = culm_abi::memory::overflown_kernel_stack(address)
    {
        panic!("the kernel's stack of core {core} is too small: overflow at {pc:#x}");
    }
    panic!("exception in the kernel at {pc:#x}: syndrome {syndrome:#x}, address {address:#x}");
}

/// Handles a defect of the kernel, or a machine or image that does not fit: stops the other cores,
/// prints the message, and powers the machine off.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    crate::arch::stop_others();
    match info.location() {
        Some(place) => println!("\r\nculm: panic: {} ({}:{})", info.message(), place.file(), place.line()),
        None => println!("\r\nculm: panic: {}", info.message()),
    }
    crate::arch::power_off()
}
