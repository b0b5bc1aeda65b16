//! Virtual CPUs: how a guest leaves the core for its monitor, and comes back.
//!
//! A virtual CPU is scheduled as a domain is, by its priority and on its budget, but never calls or
//! faults. It *exits*: then its monitor, which is its supervisor, is signalled over the end that
//! stands for it, deals with what the page that both share says, and resumes it. To wait for an
//! interrupt it need not exit. The monitor may be on another core; the page tells whose turn it is
//! ([`culm_abi::guest::VirtualCpu`]). A doorbell of the guest's signals the monitor, and the guest
//! goes on. It alone can stop the guest; so if it faults, is stopped or
//! is restarted, its virtual CPUs are stopped too.
//!
//! There is one virtual CPU on a core at most ([`crate::System::check`]). Its system registers stay
//! in the processor while others run, none of which uses them. Those of one guest, on cores of
//! their own, send each other interrupts ([`crate::generated`]) without their monitor.

use crate::core::{Core, Next};
use crate::domain::{Added, Context, Entry, Generated, NO_DOMAIN, State, Trap, is_virtual_cpu};
use crate::generated::{GeneratedInterrupts, Target};
use crate::notification::Receiver;
use crate::system::{Command, Hardware, Shared, System};
use culm_abi::accounting::DomainState;
use culm_abi::guest::{MAX_CPUS, exit};
use culm_abi::system::end_kind;

impl<'s, C: Context, H: Hardware> Core<'s, C, H> {
    /// Leaves a virtual CPU to its monitor, which starts it.
    pub(crate) fn start_guest(&mut self, local: u32) {
        self.publish_state(local, DomainState::Alive);
        self.leave(local, exit::STOPPED);
    }

    /// Handles an exception that the running guest took: most are for its monitor.
    pub fn guest_exit(&mut self) -> Next {
        let current = self.meter.current();
        let domain = &mut self.domains[current as usize];
        match domain.context.trap() {
            Trap::Passed => return self.go_on(),
            Trap::Generates(interrupt) => return self.generate(interrupt),
            Trap::Rings => {
                self.tell_monitor(current);
                return self.go_on();
            }
            Trap::Waits { is_told } => {
                if is_told {
                    self.tell_monitor(current);
                }
                self.idle_until_interrupt(current);
            }
            Trap::Exits => self.leave(current, exit::EXCEPTION),
        }
        self.pick()
    }

    /// Gives the running guest the interrupts that others have generated for it, and carries out
    /// its monitor's command. It is on its way in, and its core does not listen.
    pub fn guest_enters(&mut self) -> Next {
        let current = self.meter.current();
        let generated = self.generated(current).take_and_listen();
        self.domains[current as usize].context.generate(generated);
        if let Some(command) = self.shared(current).take_command() {
            self.obey_monitor(current, command);
        }
        self.go_on()
    }

    /// Sends an interrupt from the running guest to CPUs of its own.
    fn generate(&mut self, interrupt: Generated) -> Next {
        let own = self.first + self.meter.current();
        for (number, target) in self.siblings.into_iter().enumerate() {
            let is_named = if interrupt.to_others { target != own } else { interrupt.cpus >> number & 1 != 0 };
            if !is_named || target == NO_DOMAIN {
                continue;
            }
            let generated = &self.system.shared[target as usize].generated;
            let found = generated.generate(interrupt.number);
            if target == own {
                // The way in takes it.
                generated.ignore();
            } else if found == Target::Listens {
                self.post(target);
            }
        }
        self.go_on()
    }

    /// Handles an inter-processor interrupt for a virtual CPU: others may have generated interrupts
    /// for it. The way into the guest takes them.
    pub(crate) fn guest_notified(&mut self, local: u32) {
        let generated = self.generated(local);
        if self.domains[local as usize].state != State::Idle {
            generated.ignore();
        } else if generated.is_pending() {
            generated.ignore();
            self.make_ready(local);
        }
    }

    /// Lets a virtual CPU that is in no queue wait for an interrupt, if it has none.
    fn idle_until_interrupt(&mut self, local: u32) {
        self.domains[local as usize].state = State::Idle;
        let shared = self.shared(local);
        if !shared.generated.listen() || shared.has_command() {
            shared.generated.ignore();
            self.make_ready(local);
        }
    }

    fn shared(&self, local: u32) -> &'s Shared {
        &self.system.shared[(self.first + local) as usize]
    }

    fn generated(&self, local: u32) -> &'s GeneratedInterrupts {
        &self.shared(local).generated
    }

    /// Lets the guest go on if it waits for this, its timer's interrupt, which the processor
    /// delivers.
    pub(crate) fn guest_timer(&mut self) -> Next {
        self.count_interrupt();
        if let Some(local) = self.guest
            && self.domains[local as usize].state == State::Idle
        {
            self.make_ready(local);
        }
        self.go_on()
    }

    /// Stops the guest for its monitor, if that is to know of the interrupts that the guest has
    /// ended, unless it has exited already.
    pub(crate) fn guest_maintenance(&mut self) -> Next {
        self.count_interrupt();
        if let Some(local) = self.guest
            && self.domains[local as usize].state != State::Exited
            && self.domains[local as usize].context.maintain()
        {
            self.withdraw(local);
            self.leave(local, exit::MAINTENANCE);
        }
        self.choose()
    }

    /// Carries out a monitor's command for its virtual CPU. There is none to restart it: it begins
    /// anew if its page says so.
    pub(crate) fn obey_monitor(&mut self, local: u32, command: Command) {
        match command {
            Command::Resume => self.enter_guest(local),
            Command::Stop => self.stop_guest(local),
            Command::Restart => {}
        }
    }

    /// Lets a virtual CPU go on as its page says, if its monitor has answered its last exit. One
    /// that has not exited takes the interrupts that its monitor has added.
    fn enter_guest(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        if domain.state == State::Exited {
            if !domain.context.is_answered() {
                return;
            }
            let generated = self.system.shared[(self.first + local) as usize].generated.take();
            match domain.context.enter(generated) {
                Entry::Goes => self.make_ready(local),
                Entry::Waits => self.idle_until_interrupt(local),
                Entry::Forgets => return self.leave(local, exit::RETURNED),
            }
        }
        let domain = &mut self.domains[local as usize];
        match (domain.context.take_added(), domain.state) {
            (Added::Taken, State::Idle) => self.make_ready(local),
            (Added::NoPlace, _) => self.stop_guest(local),
            _ => {}
        }
    }

    /// Makes a virtual CPU exit. One that has exited does so again if its monitor has answered
    /// that: the command to resume it may have been replaced by this one.
    fn stop_guest(&mut self, local: u32) {
        let domain = &self.domains[local as usize];
        if domain.state != State::Exited {
            self.withdraw(local);
            self.leave(local, exit::STOPPED);
        } else if domain.context.is_answered() {
            self.leave(local, exit::RETURNED);
        }
    }

    /// Stops all virtual CPUs of which this domain is the monitor. Call it before the domain loses
    /// what is pending, of which this is.
    pub(crate) fn stop_guests_of(&mut self, monitor: u32) {
        for end in self.domains[monitor as usize].ends {
            let is_cpu = |target: u32| is_virtual_cpu(&self.system.domains[target as usize]);
            if end.kind == end_kind::CHILD && is_cpu(end.target) {
                self.command(end.target, Command::Stop);
            }
        }
    }

    /// Makes a virtual CPU that is in no queue exit.
    fn leave(&mut self, local: u32, reason: u64) {
        // A command on its way was for a guest that had not exited. Once its monitor knows that it
        // has, the next one may be the answer.
        let shared = self.shared(local);
        shared.generated.exit();
        _ = shared.take_command();
        let domain = &mut self.domains[local as usize];
        domain.state = State::Exited;
        domain.context.exit(reason);
        self.tell_monitor(local);
    }

    /// Signals the monitor of a virtual CPU over the end that stands for that.
    fn tell_monitor(&mut self, local: u32) {
        let description = self.description(local);
        if self.system.words[description.supervisor_word as usize].signal(description.supervisor_bit)
            == Receiver::Asleep
        {
            self.wake_any(description.supervisor);
        }
    }
}

/// Returns the virtual CPUs of the guest that `virtual_cpu` is of, by their numbers. Of one guest
/// are those with the same stage 2 table.
pub(crate) fn siblings(system: &System, virtual_cpu: u32) -> [u32; MAX_CPUS] {
    let mut siblings = [NO_DOMAIN; MAX_CPUS];
    let table = system.domains[virtual_cpu as usize].table;
    for (index, other) in (0..).zip(system.domains) {
        if is_virtual_cpu(other)
            && other.table == table
            && let Some(place) = siblings.get_mut(other.start_block as usize)
        {
            *place = index;
        }
    }
    siblings
}
