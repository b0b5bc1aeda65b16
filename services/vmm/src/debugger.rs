//! The debugger's connection: bytes to and from a serial port of its own, and the guest as a
//! debugger sees it while it stands still.

use crate::memory::GuestMemory;
use crate::virtual_cpu::VirtualCpu;
use alloc::boxed::Box;
use culm::connection::SerialClient;
use culm::queue::{self, Consumer, Producer};
use culm::{Channel, Progress};
use culm_guest::debug::{self, PC, REGISTERS, Session, Translation};
use culm_guest::power::Power;
use culm_guest::virtio::Memory as _;
use culm_guest::{Machine, Registers as _};

/// The stack pointer's place among the registers.
const STACK: usize = PC - 1;

/// The connection.
pub struct Debugger {
    channel: Channel,
    output: Producer<u8>,
    input: Consumer<u8>,
    session: Box<Session>,
}

impl Debugger {
    /// Attaches to the queues.
    pub fn new(client: &SerialClient) -> Self {
        Self {
            channel: Channel::new(client.channel),
            output: queue::producer(client.tx),
            input: queue::consumer(client.rx),
            session: Box::default(),
        }
    }

    /// Returns whether the guest is to stand still.
    pub fn holds(&self) -> bool {
        self.session.holds()
    }

    /// Carries bytes both ways, and asks to be notified of more.
    pub fn carry(&mut self) -> Progress {
        while let Some(byte) = self.session.next()
            && (self.output.free() > 0 || self.output.refresh() > 0)
            && self.output.push(byte).is_ok()
        {
            self.session.pass();
        }
        while self.session.has_room() {
            let Some(byte) = self.input.pop() else { break };
            self.session.take(byte);
        }
        let peer = self.output.publish() | self.input.release();
        if peer.is_asleep() {
            self.channel.notify();
        }
        // What the session has to say to what has just come goes out in the next round.
        let is_full = self.output.free() == 0;
        match (self.session.next(), self.session.has_room()) {
            (Some(_), _) if is_full => self.output.sleep(),
            (Some(_), _) => Progress::more_if(true),
            (None, true) => self.input.sleep(),
            (None, false) => Progress::Asleep,
        }
    }

    /// Answers what was asked. Call it when the guest stands still.
    pub fn work(&mut self, cpus: &[VirtualCpu], machine: &Machine, memory: &GuestMemory) {
        self.session.work(&mut View { cpus, power: &machine.power, memory });
    }
}

/// The guest.
struct View<'a> {
    cpus: &'a [VirtualCpu],
    power: &'a Power,
    memory: &'a GuestMemory,
}

impl debug::Guest for View<'_> {
    fn is_on(&self, cpu: usize) -> bool {
        cpu < self.cpus.len() && self.power.is_on(cpu)
    }

    fn register(&self, cpu: usize, number: usize) -> u64 {
        let Some(virtual_cpu) = self.cpus.get(cpu) else { return 0 };
        match number {
            PC => virtual_cpu.pc(),
            STACK => virtual_cpu.stack(),
            general => virtual_cpu.read(general as u8),
        }
    }

    /// The kernel takes no stack pointer from a monitor.
    fn set_register(&mut self, cpu: usize, number: usize, value: u64) -> bool {
        let Some(virtual_cpu) = self.cpus.get(cpu) else { return false };
        match number {
            PC => virtual_cpu.set_pc(value),
            general if general < STACK => virtual_cpu.write(general as u8, value),
            _ => return false,
        }
        true
    }

    fn state(&self, cpu: usize) -> u32 {
        self.cpus.get(cpu).map_or(0, |virtual_cpu| virtual_cpu.state() as u32)
    }

    fn translation(&self, cpu: usize) -> Translation {
        self.cpus.get(cpu).map_or_else(Translation::default, VirtualCpu::translation)
    }

    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.memory.read(address, bytes)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.memory.write(address, bytes)
    }
}

const _: () = assert!(REGISTERS == PC + 1);
