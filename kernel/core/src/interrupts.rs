//! Interrupts of devices, of the timer and of other cores: how they are delivered, who pays for
//! them, and what bounds their number.
//!
//! No domain can be interrupted without bound, because each interrupt answers something that a
//! domain did before, and that domain pays:
//!
//! - A device's line is masked from its delivery until its owner signals that it is ready for the
//!   next. So it interrupts once per turn of its owner, however fast the device is.
//! - The timer goes off for a deadline once per wait, and for a budget as often as it is
//!   replenished, which it is a bounded number of times within a period. Periods are not shorter
//!   than [`culm_abi::system::MIN_PERIOD`].
//! - Another core sends an interrupt for a domain that sleeps, once per sleep, for a command of a
//!   supervisor, or for a guest's CPU, once for each time that this goes on or waits, and for its
//!   monitor's answer when it has exited.
//!
//! The time of an interrupt is taken before anything else is done. What is done from there on is
//! booked to the domain that runs next: to the one that is woken, if it runs at once, in place of
//! the one that is interrupted. A domain that does not run at once, because its priority is lower
//! or its budget is used up, does not ask for the next interrupt before it has run.

use crate::core::{Core, Next};
use crate::counter::add;
use crate::domain::{Context, NO_DOMAIN};
use crate::notification::Receiver;
use crate::system::{Hardware, Interrupt};
use culm_abi::syscall::NEVER;
use culm_abi::system::{FIRST_INTERRUPT, NONE};

/// Most interrupts that one entry takes. The others stay pending, so they enter the kernel again.
const AT_ONCE: u32 = 16;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    /// Takes the interrupts that are pending, and decides what runs next.
    pub fn take_interrupts(&mut self) -> Next {
        self.meter.enter(&self.hardware);
        let first = self.hardware.take_interrupt();
        self.handle_interrupts(first)
    }

    /// Handles the interrupt that this entry took, after one at most, and those that are pending
    /// besides; decides what runs next.
    pub fn handle_interrupts(&mut self, taken: Option<Interrupt>) -> Next {
        let (mut next, mut count) = (taken, 2);
        while let Some(interrupt) = next {
            // Each interrupt decides what runs next; only the last decision counts.
            _ = match interrupt {
                Interrupt::Timer => self.timer(),
                Interrupt::Ipi => self.ipi(),
                Interrupt::Device(number) => self.interrupt(number),
                Interrupt::GuestTimer => self.guest_timer(),
                Interrupt::GuestMaintenance => self.guest_maintenance(),
            };
            // One that is taken must be handled.
            next = if count < AT_ONCE { self.hardware.take_interrupt() } else { None };
            count += 1;
        }
        let current = self.meter.current();
        if current == NO_DOMAIN {
            return self.pick();
        }
        self.meter.leave();
        Some(current)
    }

    /// Delivers a device's interrupt. It stays masked until its owner signals the channel end that
    /// stands for it.
    pub fn interrupt(&mut self, number: u32) -> Next {
        self.count_interrupt();
        let route = self.system.routes.get(number.wrapping_sub(FIRST_INTERRUPT) as usize);
        if let Some(route) = route
            && route.domain != NONE
            && self.system.words[route.word as usize].signal(route.bit) == Receiver::Asleep
        {
            return self.wake_by_interrupt(route.domain);
        }
        self.go_on()
    }

    /// Wakes a domain that an interrupt found asleep, and decides what runs next. A core without
    /// work takes the short way: there is no other domain that could run first.
    #[inline(always)]
    fn wake_by_interrupt(&mut self, target: u32) -> Next {
        let is_idle = self.meter.current() == NO_DOMAIN && self.ready.highest() < 0;
        let local = target.wrapping_sub(self.first);
        if is_idle
            && let Some(domain) = self.domains.get_mut(local as usize)
            && domain.state.waits()
        {
            domain.woken = true;
            domain.deadline = NEVER;
            return self.run(local);
        }
        self.wake_any(target);
        self.go_on()
    }

    /// Handles the timer's interrupt: deadlines pass, budgets run out.
    pub fn timer(&mut self) -> Next {
        add(&self.account.timer, 1);
        self.meter.alarm_fired(&mut self.hardware);
        let now = self.meter.time(&self.hardware);
        while let Some(local) = self.timers.expired(now) {
            let domain = &mut self.domains[local as usize];
            if domain.deadline > now {
                if domain.deadline != NEVER {
                    self.timers.set(local, domain.deadline);
                }
            } else if domain.throttled {
                self.unthrottle(local);
            } else {
                self.wake(local);
            }
        }
        self.choose()
    }

    /// Handles an inter-processor interrupt: takes the domains that other cores made pending.
    pub fn ipi(&mut self) -> Next {
        self.count_interrupt();
        self.take_pending();
        self.choose()
    }

    /// Takes the domains that other cores made pending.
    pub(crate) fn take_pending(&mut self) {
        let core = &self.system.cores[self.index as usize];
        for word in 0..core.pending_words {
            let mut set = self.system.pending_domains[(core.first_pending_word + word) as usize].take();
            while set != 0 {
                let local = word * 64 + set.trailing_zeros();
                set &= set - 1;
                if local as usize >= self.domains.len() {
                    continue;
                }
                if let Some(command) = self.system.shared[(self.first + local) as usize].take_command() {
                    self.obey(local, command);
                }
                // Wake only if a signal is still pending. If an earlier wait took it, a wake-up now
                // would end a later wait with nothing.
                if self.domains[local as usize].is_notified() {
                    self.wake(local);
                } else if self.domains[local as usize].virtual_cpu {
                    self.guest_notified(local);
                }
            }
        }
    }
}
