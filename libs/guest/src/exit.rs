//! Decodes the syndrome of an exception that a guest took to EL2 (Arm ARM D24.2.40).

/// Exception classes (`ESR_EL2.EC`).
mod class {
    /// Of AArch32, which a guest's applications can be in: an access to registers of coprocessor 15
    /// by one instruction of one register, and of two; of coprocessor 14 the same, and from memory.
    pub const COPROCESSORS: [u64; 5] = [0x03, 0x04, 0x05, 0x0c, 0x06];
    pub const HYPERVISOR_CALL: u64 = 0x16;
    pub const SECURE_CALL: u64 = 0x17;
    pub const SYSTEM_REGISTER: u64 = 0x18;
    pub const DATA_ABORT: u64 = 0x24;
}

/// The meaning of an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A call of the firmware.
    Call {
        /// The instruction is still to be passed by.
        pass: bool,
    },
    /// An access to a system register.
    SystemRegister {
        /// The register.
        register: SystemRegister,
        /// Which general register takes part; 31 is the zero register.
        general: u8,
        /// Whether it is read.
        read: bool,
    },
    /// An access of an application in AArch32 to what [`Self::SystemRegister`] is in AArch64.
    Coprocessor,
    /// An access to memory that stage 2 does not map, by one general register.
    Memory(Access),
    /// Anything else, of which a monitor cannot make sense.
    Other,
}

/// A system register, by the numbers in its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemRegister {
    /// `op0`.
    pub op0: u8,
    /// `op1`.
    pub op1: u8,
    /// `CRn`.
    pub crn: u8,
    /// `CRm`.
    pub crm: u8,
    /// `op2`.
    pub op2: u8,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Guest-physical address.
    pub address: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// The general register; 31 is the zero register.
    pub general: u8,
    /// Whether it is a write.
    pub write: bool,
    /// Whether a value that is read is extended by its sign, and to 64 bits, not 32.
    pub signed: bool,
    /// See [`Self::signed`].
    pub wide: bool,
}

impl Exit {
    /// Decodes a syndrome; `address` is `FAR_EL2`, `page` is `HPFAR_EL2`.
    pub fn decode(syndrome: u64, address: u64, page: u64) -> Self {
        let bits = |low: u32, count: u32| (syndrome >> low & ((1 << count) - 1)) as u8;
        match syndrome >> 26 & 0x3f {
            class if class::COPROCESSORS.contains(&class) => Self::Coprocessor,
            class::HYPERVISOR_CALL => Self::Call { pass: false },
            class::SECURE_CALL => Self::Call { pass: true },
            class::SYSTEM_REGISTER => Self::SystemRegister {
                register: SystemRegister {
                    op0: bits(20, 2),
                    op1: bits(14, 3),
                    crn: bits(10, 4),
                    crm: bits(1, 4),
                    op2: bits(17, 3),
                },
                general: bits(5, 5),
                read: bits(0, 1) != 0,
            },
            // With a valid description of the instruction (ISV), by a translation fault (DFSC), not
            // of a stage 1 walk (S1PTW), whose register has no meaning.
            class::DATA_ABORT if bits(24, 1) != 0 && bits(2, 4) == 0b0001 && bits(7, 1) == 0 => Self::Memory(Access {
                address: (page >> 4 & 0xff_ffff_ffff) << 12 | address & 0xfff,
                size: 1 << bits(22, 2),
                general: bits(16, 5),
                write: bits(6, 1) != 0,
                signed: bits(21, 1) != 0,
                wide: bits(15, 1) != 0,
            }),
            _ => Self::Other,
        }
    }
}

impl Access {
    /// Returns the value of a general register after a read of `value`, of which it takes as many
    /// bytes as it reads.
    pub fn extended(&self, value: u64) -> u64 {
        let unused = 64 - 8 * u32::from(self.size.clamp(1, 8));
        let value = value << unused;
        let value = if self.signed { (value.cast_signed() >> unused).cast_unsigned() } else { value >> unused };
        if self.wide { value } else { value & 0xffff_ffff }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_told_by_its_syndrome() {
        // ldrsb x3, at 0x0900_0018: EC 0x24, IL, ISV, SAS 0, SSE, SRT 3, SF, translation fault of
        // level 3.
        let syndrome = 0x24 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 3 << 16 | 1 << 15 | 0b000111;
        let access = Access { address: 0x0900_0018, size: 1, general: 3, write: false, signed: true, wide: true };
        assert_eq!(Exit::decode(syndrome, 0xffff_8000_1234_0018, 0x0900_0000 >> 8), Exit::Memory(access));
        assert_eq!(access.extended(0x1234_5680), 0xffff_ffff_ffff_ff80);
        assert_eq!(Access { wide: false, ..access }.extended(0x80), 0xffff_ff80);
        assert_eq!(Access { signed: false, ..access }.extended(0x1180), 0x80);
        assert_eq!(Access { size: 8, ..access }.extended(u64::MAX - 1), u64::MAX - 1);
    }

    #[test]
    fn an_abort_that_tells_no_register_is_none_to_emulate() {
        let load = 0x24 << 26 | 1 << 24 | 0b000111;
        for other in [load & !(1 << 24), load | 1 << 7, load & !0x3f | 0b001111] {
            assert_eq!(Exit::decode(other, 0, 0), Exit::Other, "{other:#x}");
        }
    }

    #[test]
    fn a_write_of_a_software_generated_interrupt() {
        // msr ICC_SGI1R_EL1, x5
        let syndrome = 0x18 << 26 | 3 << 20 | 5 << 17 | 12 << 10 | 5 << 5 | 11 << 1;
        let register = SystemRegister { op0: 3, op1: 0, crn: 12, crm: 11, op2: 5 };
        assert_eq!(Exit::decode(syndrome, 0, 0), Exit::SystemRegister { register, general: 5, read: false });
        assert_eq!(Exit::decode(0x16 << 26, 0, 0), Exit::Call { pass: false });
        assert_eq!(Exit::decode(0x17 << 26, 0, 0), Exit::Call { pass: true });
        assert_eq!(Exit::decode(0, 0, 0), Exit::Other);
        assert_eq!(Exit::decode(0x01 << 26, 0, 0), Exit::Other, "waits are the kernel's");
    }
}
