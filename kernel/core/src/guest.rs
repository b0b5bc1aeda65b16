//! Virtual CPUs: how a guest leaves the core for its monitor, and comes back.
//!
//! A virtual CPU is scheduled as a domain is, by its priority and on its budget, but never waits,
//! calls or faults. It *exits*: then its monitor, which is its supervisor, is signalled over the
//! end that stands for it, deals with what the page that both share says, and resumes it. The
//! monitor is on the same core and of a higher priority, so the two never run at once. It alone can
//! stop the guest; so if it faults, is stopped or is restarted, its virtual CPU is stopped too.
//!
//! There is one virtual CPU on a core at most ([`crate::System::check`]). Its system registers stay
//! in the processor while others run, none of which uses them.

use crate::core::{Core, Next};
use crate::domain::{Context, State};
use crate::notification::Receiver;
use crate::system::Hardware;
use culm_abi::accounting::DomainState;
use culm_abi::guest::exit;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    /// Sends a virtual CPU to its first instruction.
    pub(crate) fn start_guest(&mut self, local: u32) {
        let description = self.description(local);
        self.domains[local as usize].context.start_guest(description.entry, description.start_block);
        self.publish_state(local, DomainState::Alive);
        self.make_ready(local);
    }

    /// Handles an exception that the running guest took: stops it for its monitor.
    pub fn guest_exit(&mut self) -> Next {
        let current = self.meter.current();
        self.leave(current, exit::EXCEPTION);
        self.pick()
    }

    /// Tells the monitor of the guest's timer, if the guest has exited: it may have exited to wait
    /// for that. To one that runs, or is about to, the processor delivers it.
    pub(crate) fn guest_timer(&mut self) -> Next {
        self.count_interrupt();
        if let Some(local) = self.guest
            && self.domains[local as usize].state == State::Exited
        {
            self.domains[local as usize].context.timer();
            self.tell_monitor(local);
        }
        self.go_on()
    }

    /// Stops the guest for its monitor, unless it has exited already.
    pub(crate) fn guest_maintenance(&mut self) -> Next {
        self.count_interrupt();
        if let Some(local) = self.guest
            && matches!(self.domains[local as usize].state, State::Running | State::Ready)
        {
            self.withdraw(local);
            self.leave(local, exit::MAINTENANCE);
        }
        self.choose()
    }

    /// Lets a virtual CPU that has exited go on as its page says.
    pub(crate) fn enter_guest(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        if domain.state == State::Exited {
            domain.context.enter();
            self.make_ready(local);
        }
    }

    /// Stops a virtual CPU as if it had exited, unless it has.
    pub(crate) fn stop_guest(&mut self, local: u32) {
        if self.domains[local as usize].state != State::Exited {
            self.withdraw(local);
            self.leave(local, exit::STOPPED);
        }
    }

    /// Stops the virtual CPU of this core if this domain is its monitor. Call it before the domain
    /// loses what is pending, of which this is.
    pub(crate) fn stop_guest_of(&mut self, monitor: u32) {
        if let Some(local) = self.guest
            && self.description(local).supervisor == self.first + monitor
        {
            self.stop_guest(local);
        }
    }

    /// Makes a virtual CPU that is in no queue exit.
    fn leave(&mut self, local: u32, reason: u64) {
        let domain = &mut self.domains[local as usize];
        domain.state = State::Exited;
        domain.context.exit(reason);
        self.tell_monitor(local);
    }

    fn tell_monitor(&mut self, local: u32) {
        let description = self.description(local);
        if self.system.words[description.supervisor_word as usize].signal(description.supervisor_bit)
            == Receiver::Asleep
        {
            self.wake_any(description.supervisor);
        }
    }
}
