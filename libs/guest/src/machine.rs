//! The guest's machine: each exit goes to the part that it concerns.

use crate::controller::Controller;
use crate::exit::{Access, Exit, SystemRegister};
use crate::power::{self, Call};
use crate::serial::Serial;
use crate::virtio::Devices;
use culm_abi::guest::{DISTRIBUTOR, REDISTRIBUTOR, SERIAL, SERIAL_INTERRUPT};

/// The registers of a virtual CPU that has exited.
pub trait Registers {
    /// Returns a general register, 0 to 30.
    fn read(&self, general: u8) -> u64;
    /// Changes a general register, 0 to 30.
    fn write(&self, general: u8, value: u64);
    /// Moves the program counter past the instruction.
    fn pass(&self);
}

/// The zero register.
const ZERO: u8 = 31;

/// Whether and how the guest goes on after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// At once.
    Goes,
    /// When there is an interrupt for it.
    Waits,
    /// Not at all: it has switched itself off.
    Off,
    /// From its beginning: it has reset itself.
    Reset,
    /// Not at all: this is nothing that its machine has.
    Stuck,
}

/// `ICC_SGI1R_EL1`, which generates interrupts for CPUs of a list.
const GENERATE: SystemRegister = SystemRegister { op0: 3, op1: 0, crn: 12, crm: 11, op2: 5 };

/// `ICC_SRE_EL1`, which says that the controller is used by system registers. A processor traps it
/// if it could say otherwise.
const SYSTEM_REGISTERS: SystemRegister = SystemRegister { op0: 3, op1: 0, crn: 12, crm: 12, op2: 5 };
/// Its value, which is fixed: SRE, DFB, DIB.
const BY_SYSTEM_REGISTERS: u64 = 0b111;

/// The machine of a guest with one CPU.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The interrupt controller.
    pub controller: Controller,
    /// The serial port.
    pub serial: Serial,
    /// The virtio devices.
    pub devices: Devices,
}

impl Machine {
    /// Puts all parts into their first state.
    pub fn reset(&mut self) {
        self.devices.reset();
        *self = Self { devices: core::mem::take(&mut self.devices), ..Self::default() };
    }

    /// Deals with an exit of the guest.
    pub fn exit(&mut self, exit: Exit, registers: &impl Registers) -> Outcome {
        let outcome = match exit {
            Exit::Call { pass } => {
                if pass {
                    registers.pass();
                }
                call(registers)
            }
            Exit::SystemRegister { register, general, read } => {
                registers.pass();
                self.system_register(register, general, read, registers);
                Outcome::Goes
            }
            Exit::Memory(access) => self.memory(&access, registers),
            Exit::Other => Outcome::Stuck,
        };
        self.follow_lines();
        outcome
    }

    /// Tells the interrupt controller how the devices' lines are. Call it after each change from
    /// outside.
    pub fn follow_lines(&mut self) {
        self.controller.set_line(SERIAL_INTERRUPT, self.serial.is_interrupting());
        for (interrupt, fell, is_high) in self.devices.lines() {
            if fell {
                self.controller.set_line(interrupt, false);
            }
            self.controller.set_line(interrupt, is_high);
        }
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
        } else if let Some(offset) = REDISTRIBUTOR.offset(address) {
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

    /// Registers that trap: two of the interrupt controller's, and those of debugging, tracing,
    /// counting, error records and limited ordering, of which there is nothing here: they read as
    /// zero and ignore writes.
    fn system_register(&mut self, register: SystemRegister, general: u8, read: bool, registers: &impl Registers) {
        if read {
            set(registers, general, if register == SYSTEM_REGISTERS { BY_SYSTEM_REGISTERS } else { 0 });
        } else if register == GENERATE {
            let value = value_of(registers, general);
            let to_others = value >> 40 & 1 != 0;
            let affinity = value >> 16 & 0xff | value >> 32 & 0xff | value >> 48 & 0xff | value >> 44 & 0xf;
            if !to_others && affinity == 0 && value & 1 != 0 {
                self.controller.generate((value >> 24 & 0xf) as u32);
            }
        }
    }
}

fn call(registers: &impl Registers) -> Outcome {
    match power::call(registers.read(0), registers.read(1)) {
        Call::Returns(value) => {
            registers.write(0, value);
            Outcome::Goes
        }
        Call::Wait => {
            registers.write(0, 0);
            Outcome::Waits
        }
        Call::Off => Outcome::Off,
        Call::Reset => Outcome::Reset,
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

    /// A device's cause of an interrupt: buffers were used.
    const USED: u64 = 1;

    #[test]
    fn a_cause_that_comes_before_an_acknowledgement_of_another_interrupts_too() {
        let (first, second) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        let mut machine = Machine::default();
        let number = VIRTIO_ENTROPY.interrupt();
        let (word, bit) = (u64::from(number / 32), 1 << (number % 32));
        machine.controller.write_distributor(0, 4, 0b10);
        machine.controller.write_distributor(0x100 + 4 * word, 4, bit);
        machine.controller.write_distributor(0xc00 + 4 * u64::from(number / 16), 4, 0b10 << (number % 16 * 2));
        let transport = live(Entropy::default().transport, 0, [&first, &second]);
        machine.devices.entropy = Some(Entropy { transport });
        machine.devices.entropy.as_mut().expect("there").transport.tell(Ok(true));
        machine.follow_lines();
        assert_eq!(machine.controller.offer()[0] & 0xffff, number.into());
        machine.controller.collect(&[0; 3]);
        // The guest has read of the first cause, and acknowledges that one.
        let transport = &mut machine.devices.entropy.as_mut().expect("there").transport;
        transport.configure(0, &[1]);
        transport.write(0x064, 4, USED);
        machine.follow_lines();
        assert_eq!(machine.controller.offer()[0] & 0xffff, number.into(), "the other is told");
        machine.controller.collect(&[0; 3]);
        machine.follow_lines();
        assert!(!machine.controller.has_pending(), "once");
    }
}
