//! One processor core from its first Rust instruction on: joins machine and logic, and is what every entry works on.

use crate::arch::console::println;
use crate::arch::{Machine, Registers, start_core, wait_for_interrupt};
use crate::image;
use culm_abi::syscall::{self, BadCall, FaultKind, FaultReport};
use culm_abi::system::SystemHeader;
use culm_kernel_core::system::Command;
use culm_kernel_core::timer::TimerQueue;
use culm_kernel_core::{Core, Domain, Next, SignalLeft};

use crate::arch::Interrupt;

/// The domain whose registers the entry code loads.
type Resumed = *mut Domain<'static, Registers>;

/// A core's state. The entry code finds it by `TPIDR_EL1`.
#[repr(C, align(64))]
pub struct Processor {
    /// Top of the kernel stack; first, where the entry code looks for it.
    stack_top: u64,
    core: Core<'static, Registers, Machine>,
}

impl Processor {
    /// Turns what is to run next into the address that the entry code resumes; sleeps while there is nothing.
    #[inline]
    fn resume(&mut self, next: Next) -> Resumed {
        match next {
            Some(local) => self.core.domain(local),
            None => self.idle(),
        }
    }

    #[inline(never)]
    fn idle(&mut self) -> Resumed {
        loop {
            self.core.count_sleep();
            wait_for_interrupt();
            if let Some(local) = self.take_interrupts() {
                self.core.note_awake();
                return self.core.domain(local);
            }
        }
    }

    fn take_interrupts(&mut self) -> Next {
        loop {
            // Each decides what runs next; only the last word counts.
            _ = match self.core.hardware().take_interrupt() {
                Some(Interrupt::Timer) => self.core.timer(),
                Some(Interrupt::Mail) => self.core.mail(),
                Some(Interrupt::Device(number)) => self.core.interrupt(number),
                None => return self.core.what_next(),
            };
        }
    }
}

/// Called by the boot code on each core's own stack. Returns the first domain to run.
#[unsafe(no_mangle)]
extern "C" fn culm_main(index: u32) -> Resumed {
    let header = crate::arch::system_header();
    if index == 0 {
        image::check_header(header);
    }
    let system = image::system(header);
    if index == 0
        && let Err(bad) = system.check()
    {
        panic!("table `{}` of the image is wrong at element {}: rebuild it", bad.0, bad.1);
    }
    let processor = set_up(header, &system, index);
    if index == 0 {
        for (other, core) in system.cores.iter().enumerate().skip(1) {
            start_core(other as u32, core);
        }
    }
    let next = processor.core.what_next();
    processor.resume(next)
}

fn set_up(
    header: &'static SystemHeader,
    system: &culm_kernel_core::System<'static>,
    index: u32,
) -> &'static mut Processor {
    // SAFETY: each core comes here once, with its own index.
    let own = unsafe { image::own(header, system, index, crate::arch::counter_frequency()) };
    let machine = Machine::new(index, system);
    let stack_top = system.cores[index as usize].stack_top;
    let core = Core::new(index, *system, own.domains, TimerQueue::new(own.slots), machine);
    let processor = own.processor.write(Processor { stack_top, core });
    crate::arch::set_processor(processor);
    processor
}

// ---- what the entry code calls; each returns the domain to resume -----------------------------------------------
//
// The straight paths call nothing that returns here, so they need no stack; what is left is another function's.

#[unsafe(no_mangle)]
extern "C" fn culm_wait(processor: &mut Processor, signals: u64, deadline: u64, options: u64) -> Resumed {
    match processor.core.fast_wait(signals, deadline, options) {
        Some(domain) => domain,
        None => wait(processor, signals, deadline, options),
    }
}

#[inline(never)]
extern "C" fn wait(processor: &mut Processor, signals: u64, deadline: u64, options: u64) -> Resumed {
    let next = processor.core.wait(signals, deadline, options);
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_reply_wait(processor: &mut Processor, signals: u64, deadline: u64, options: u64) -> Resumed {
    match processor.core.fast_reply::<false>(signals, deadline, options) {
        Some(domain) => domain,
        None => reply_wait(processor, signals, deadline, options),
    }
}

#[inline(never)]
extern "C" fn reply_wait(processor: &mut Processor, signals: u64, deadline: u64, options: u64) -> Resumed {
    if let Some(domain) = processor.core.fast_reply::<true>(signals, deadline, options) {
        return domain;
    }
    let next = processor.core.reply_wait(signals, deadline, options);
    processor.resume(next)
}

/// Returns null where the caller goes on at once without results.
#[unsafe(no_mangle)]
extern "C" fn culm_signal(processor: &mut Processor, signals: u64, options: u64) -> Resumed {
    match processor.core.fast_signal(signals, options) {
        SignalLeft::Nothing => core::ptr::null_mut(),
        SignalLeft::Wake(target) => signal_wake(processor, target),
        SignalLeft::All => signal(processor, signals, options),
    }
}

#[inline(never)]
extern "C" fn signal_wake(processor: &mut Processor, target: u32) -> Resumed {
    let next = processor.core.signal_wake(target);
    processor.resume(next)
}

#[inline(never)]
extern "C" fn signal(processor: &mut Processor, signals: u64, options: u64) -> Resumed {
    let next = processor.core.signal(signals, options);
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_call(processor: &mut Processor, target: u64) -> Resumed {
    match processor.core.fast_call::<false>(target) {
        Some(domain) => domain,
        None => call(processor, target),
    }
}

#[inline(never)]
extern "C" fn call(processor: &mut Processor, target: u64) -> Resumed {
    if let Some(domain) = processor.core.fast_call::<true>(target) {
        return domain;
    }
    let next = processor.core.call(target);
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_other_call(processor: &mut Processor, number: u64, argument: u64) -> Resumed {
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
extern "C" fn culm_interrupt(processor: &mut Processor) -> Resumed {
    let next = processor.take_interrupts();
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_fault(processor: &mut Processor, syndrome: u64, address: u64) -> Resumed {
    const BREAKPOINT: u64 = 0x3c;
    let kind = if syndrome >> 26 & 0x3f == BREAKPOINT { FaultKind::Panic } else { FaultKind::Exception };
    let report = FaultReport { kind: kind as u64, syndrome, address, ..FaultReport::default() };
    let next = processor.core.fault(report);
    processor.resume(next)
}

#[unsafe(no_mangle)]
extern "C" fn culm_kernel_fault(syndrome: u64, pc: u64, address: u64) -> ! {
    panic!("exception in the kernel at {pc:#x}: syndrome {syndrome:#x}, address {address:#x}");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    match info.location() {
        Some(place) => println!("culm: panic: {} ({}:{})", info.message(), place.file(), place.line()),
        None => println!("culm: panic: {}", info.message()),
    }
    crate::arch::power_off()
}
