//! The guest's machine: each exit goes to the part that it concerns.

use crate::controller::Controller;
use crate::exit::{Access, Exit, SystemRegister};
use crate::power::{Call, Power, Start};
use crate::serial::Serial;
use crate::virtio::Devices;
use crate::virtio::transport::Causes;
use culm_abi::guest::{DISTRIBUTOR, MAX_CPUS, SERIAL, SERIAL_INTERRUPT, VirtioSlot, redistributors};

/// The registers of a virtual CPU that has exited.
pub trait Registers {
    /// Returns a general register, 0 to 30.
    fn read(&self, general: u8) -> u64;
    /// Changes a general register, 0 to 30.
    fn write(&self, general: u8, value: u64);
    /// Moves the program counter past the instruction, of whichever length it is.
    fn pass(&self);
}

/// The zero register.
const ZERO: u8 = 31;

/// Whether and how the guest, or its CPU, goes on after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At once.
    Goes,
    /// When there is an interrupt for it.
    Waits,
    /// At once, and another CPU begins.
    Starts(Start),
    /// Not at all: the CPU has switched itself off.
    CpuOff,
    /// Not at all: it has switched itself off.
    Off,
    /// From its beginning: it has reset itself.
    Reset,
    /// Not at all: this is nothing that its machine has.
    Stuck,
}

/// `ICC_SRE_EL1`, which says that the controller is used by system registers. A processor traps it
/// if it could say otherwise.
const SYSTEM_REGISTERS: SystemRegister = SystemRegister { op0: 3, op1: 0, crn: 12, crm: 12, op2: 5 };
/// Its value, which is fixed: SRE, DFB, DIB.
const BY_SYSTEM_REGISTERS: u64 = 0b111;

/// The machine of a guest.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The interrupt controller.
    pub controller: Controller,
    /// The power of its CPUs.
    pub power: Power,
    /// The serial port.
    pub serial: Serial,
    /// The virtio devices.
    pub devices: Devices,
    cpus: usize,
}

impl Machine {
    /// Creates the machine of a guest with this many CPUs, 1 to [`MAX_CPUS`], and these devices.
    pub fn new(cpus: usize, devices: Devices) -> Self {
        let cpus = cpus.clamp(1, MAX_CPUS);
        let (controller, power) = (Controller::new(cpus), Power::new(cpus));
        Self { controller, power, serial: Serial::default(), devices, cpus }
    }

    /// Puts all parts into their first state.
    pub fn reset(&mut self) {
        self.devices.reset();
        *self = Self::new(self.cpus, core::mem::take(&mut self.devices));
    }

    /// Deals with an exit of one of the guest's CPUs. Call [`Self::follow_devices`] after it.
    pub fn exit(&mut self, cpu: usize, exit: Exit, registers: &impl Registers) -> Outcome {
        match exit {
            Exit::Call { pass } => {
                if pass {
                    registers.pass();
                }
                self.call(cpu, registers)
            }
            Exit::SystemRegister { register, general, read } => {
                registers.pass();
                system_register(register, general, read, registers);
                Outcome::Goes
            }
            // An application must not be able to stop its guest. The guest could forbid it these
            // accesses, as to debug registers, only by another register that is not there. What is
            // read leaves the general register as it was.
            Exit::Coprocessor => {
                registers.pass();
                Outcome::Goes
            }
            Exit::Memory(access) => self.memory(&access, registers),
            Exit::Other => Outcome::Stuck,
        }
    }

    /// Tells the interrupt controller of the devices' interrupts. `show` puts a device's causes to
    /// where its guest reads them. Call it after exits, and after each change from outside.
    pub fn follow_devices(&mut self, mut show: impl FnMut(VirtioSlot, Causes)) {
        self.controller.set_line(SERIAL_INTERRUPT, self.serial.is_interrupting());
        let Self { devices, controller, .. } = self;
        devices.take_causes(|slot, causes| {
            show(slot, causes);
            if causes.raised != 0 {
                controller.pulse(slot.interrupt());
            }
        });
    }

    fn memory(&mut self, access: &Access, registers: &impl Registers) -> Outcome {
        let (address, size) = (access.address, access.size);
        let value = if access.write { value_of(registers, access.general) } else { 0 };
        let read = if let Some(offset) = DISTRIBUTOR.offset(address) {
            if access.write {
                self.controller.write_distributor(offset, size, value);
                0
            } else {
                self.controller.read_distributor(offset, size)
            }
        } else if let Some(offset) = redistributors(self.cpus).offset(address) {
            if access.write {
                self.controller.write_redistributor(offset, size, value);
                0
            } else {
                self.controller.read_redistributor(offset, size)
            }
        } else if let Some(offset) = SERIAL.offset(address) {
            if access.write {
                self.serial.write(offset, value as u32);
                0
            } else {
                self.serial.read(offset).into()
            }
        } else if let Some((device, offset)) = self.devices.at(address) {
            if access.write {
                device.write(offset, size, value);
                0
            } else {
                device.read(offset, size)
            }
        } else {
            return Outcome::Stuck;
        };
        if !access.write {
            set(registers, access.general, access.extended(read));
        }
        registers.pass();
        Outcome::Goes
    }

    fn call(&mut self, cpu: usize, registers: &impl Registers) -> Outcome {
        let arguments = [1, 2, 3].map(|general| registers.read(general));
        let (value, outcome) = match self.power.call(cpu, registers.read(0), arguments) {
            Call::Returns(value) => (value, Outcome::Goes),
            Call::Wait => (0, Outcome::Waits),
            Call::Starts(start) => (0, Outcome::Starts(start)),
            Call::CpuOff => return Outcome::CpuOff,
            Call::Off => return Outcome::Off,
            Call::Reset => return Outcome::Reset,
        };
        registers.write(0, value);
        outcome
    }
}

/// Registers that trap: some of the interrupt controller's, and those of debugging, tracing,
/// counting, error records and limited ordering, of which there is nothing here: they read as zero
/// and ignore writes. (The one by which interrupts are generated is the kernel's; those for other
/// groups generate none, since each is of group 1.)
fn system_register(register: SystemRegister, general: u8, read: bool, registers: &impl Registers) {
    if read {
        set(registers, general, if register == SYSTEM_REGISTERS { BY_SYSTEM_REGISTERS } else { 0 });
    }
}

fn value_of(registers: &impl Registers, general: u8) -> u64 {
    if general >= ZERO { 0 } else { registers.read(general) }
}

fn set(registers: &impl Registers, general: u8, value: u64) {
    if general < ZERO {
        registers.write(general, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::entropy::Entropy;
    use crate::virtio::tests::{Driver, Ram};
    use crate::virtio::transport::tests::live;
    use culm_abi::guest::VIRTIO_ENTROPY;

    #[test]
    fn each_cause_interrupts_whether_or_not_those_of_before_are_acknowledged() {
        let (first, second) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        let mut machine = Machine::new(1, Devices::default());
        let number = VIRTIO_ENTROPY.interrupt();
        let (word, bit) = (u64::from(number / 32), 1 << (number % 32));
        machine.controller.write_distributor(0, 4, 0b10);
        machine.controller.write_distributor(0x100 + 4 * word, 4, bit);
        machine.controller.write_distributor(0xc00 + 4 * u64::from(number / 16), 4, 0b10 << (number % 16 * 2));
        let transport = live(Entropy::default().transport, 0, [&first, &second]);
        machine.devices.entropy = Some(Entropy { transport });
        let mut shown = None;
        machine.follow_devices(|_, causes| shown = Some(causes));
        assert_eq!(shown, Some(Causes { are_cleared: true, raised: 0 }), "as every device begins");
        assert_eq!(machine.controller.offer(0).registers, [0; 3]);
        for raised in [0b01, 0b10, 0b11] {
            let transport = &mut machine.devices.entropy.as_mut().expect("there").transport;
            if raised & 0b01 != 0 {
                transport.tell(Ok(true));
            }
            if raised & 0b10 != 0 {
                transport.configure(0, &[raised as u8]);
            }
            machine.follow_devices(|slot, causes| shown = Some(causes).filter(|_| slot == VIRTIO_ENTROPY));
            assert_eq!(shown, Some(Causes { are_cleared: false, raised }));
            assert_eq!(machine.controller.offer(0).registers[1] & 0xffff, number.into());
            machine.controller.collect(0, &[0; 3], 0);
            machine.follow_devices(|_, causes| panic!("{causes:?} has not changed"));
            assert!(!machine.controller.must_leave(0), "once");
        }
    }
}
