//! Calls of the firmware: the Power State Coordination Interface (Arm DEN0022), version 1.0. A
//! CPU's affinity is its number.

use culm_abi::guest::MAX_CPUS;

/// Functions; bit 30 tells those with arguments of 64 bits.
mod function {
    pub const VERSION: u32 = 0x8400_0000;
    pub const CPU_SUSPEND: u32 = 0x8400_0001;
    pub const CPU_OFF: u32 = 0x8400_0002;
    pub const CPU_ON: u32 = 0x8400_0003;
    pub const AFFINITY_INFO: u32 = 0x8400_0004;
    pub const MIGRATE_INFO_TYPE: u32 = 0x8400_0006;
    pub const SYSTEM_OFF: u32 = 0x8400_0008;
    pub const SYSTEM_RESET: u32 = 0x8400_0009;
    pub const FEATURES: u32 = 0x8400_000a;
    /// Those that have a form with arguments of 64 bits.
    pub const WIDE: [u32; 3] = [CPU_SUSPEND, CPU_ON, AFFINITY_INFO];
    /// All of this interface.
    pub const ALL: [u32; 9] =
        [VERSION, CPU_SUSPEND, CPU_OFF, CPU_ON, AFFINITY_INFO, MIGRATE_INFO_TYPE, SYSTEM_OFF, SYSTEM_RESET, FEATURES];
}

const WIDE: u32 = 1 << 30;

const VERSION_1_0: i64 = 1 << 16;
const SUCCESS: i64 = 0;
const NOT_SUPPORTED: i64 = -1;
const INVALID_PARAMETERS: i64 = -2;
const ALREADY_ON: i64 = -4;
const INVALID_ADDRESS: i64 = -9;
/// `AFFINITY_INFO`: the CPU is on, is off.
const ON: i64 = 0;
const OFF: i64 = 1;
/// `MIGRATE_INFO_TYPE`: there is no trusted system that would have to move.
const NO_MIGRATION: i64 = 2;

/// How a CPU begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The CPU.
    pub cpu: usize,
    /// Address of its first instruction.
    pub entry: u64,
    /// What it finds in its first register.
    pub argument: u64,
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It returns this.
    Returns(u64),
    /// It returns success, and another CPU begins.
    Starts(Start),
    /// It returns success when an interrupt comes.
    Wait,
    /// It does not return: the CPU is off.
    CpuOff,
    /// The guest ends.
    Off,
    /// The guest begins again.
    Reset,
}

/// Which CPUs of a guest are on.
#[derive(Clone, Debug)]
pub struct Power {
    on: [bool; MAX_CPUS],
    count: usize,
}

impl Power {
    /// Creates the power of a guest with this many CPUs, 1 to [`MAX_CPUS`], of which the first is
    /// on.
    pub fn new(cpus: usize) -> Self {
        let mut on = [false; MAX_CPUS];
        on[0] = true;
        Self { on, count: cpus.clamp(1, MAX_CPUS) }
    }

    /// Returns whether a CPU is on.
    pub fn is_on(&self, cpu: usize) -> bool {
        self.on.get(cpu).is_some_and(|on| *on)
    }

    /// Does a call of a CPU, with this function and these arguments.
    pub fn call(&mut self, cpu: usize, function: u64, arguments: [u64; 3]) -> Call {
        // The upper half of the register means nothing (Arm DEN0028, 2.7), nor do those of
        // arguments of 32 bits.
        let is_wide = function as u32 & WIDE != 0;
        let [first, second, third] = arguments.map(|value| if is_wide { value } else { u64::from(value as u32) });
        let Some(function) = known(function as u32) else { return returns(NOT_SUPPORTED) };
        returns(match function {
            function::VERSION => VERSION_1_0,
            function::CPU_SUSPEND => return Call::Wait,
            function::CPU_OFF => return self.switch_off(cpu),
            function::SYSTEM_OFF => return Call::Off,
            function::SYSTEM_RESET => return Call::Reset,
            function::CPU_ON => return self.switch_on(first, second, third),
            // Affinity levels above 0 need not be known since version 1.0 (DEN0022, 5.7).
            function::AFFINITY_INFO if second == 0 && first < self.count as u64 => {
                if self.is_on(first as usize) {
                    ON
                } else {
                    OFF
                }
            }
            function::MIGRATE_INFO_TYPE => NO_MIGRATION,
            function::FEATURES if known(first as u32).is_some() => SUCCESS,
            function::FEATURES => NOT_SUPPORTED,
            _ => INVALID_PARAMETERS,
        })
    }

    fn switch_on(&mut self, affinity: u64, entry: u64, argument: u64) -> Call {
        const INSTRUCTION: u64 = 4;
        if affinity >= self.count as u64 {
            return returns(INVALID_PARAMETERS);
        }
        let on = &mut self.on[affinity as usize];
        if *on {
            return returns(ALREADY_ON);
        }
        if !entry.is_multiple_of(INSTRUCTION) {
            return returns(INVALID_ADDRESS);
        }
        *on = true;
        Call::Starts(Start { cpu: affinity as usize, entry, argument })
    }

    /// Switches a CPU off; the guest ends with the last one.
    fn switch_off(&mut self, cpu: usize) -> Call {
        if let Some(on) = self.on.get_mut(cpu) {
            *on = false;
        }
        if self.on.contains(&true) { Call::CpuOff } else { Call::Off }
    }
}

/// The function of this number, without the size of its arguments.
fn known(function: u32) -> Option<u32> {
    let narrow = function & !WIDE;
    let exists = function::ALL.contains(&narrow) && (function == narrow || function::WIDE.contains(&narrow));
    exists.then_some(narrow)
}

fn returns(value: i64) -> Call {
    Call::Returns(value.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(power: &mut Power, function: u64, argument: u64) -> Call {
        power.call(0, function, [argument, 0, 0])
    }

    #[test]
    fn each_function_does_what_the_standard_says() {
        let mut power = Power::new(1);
        let mut call = |function, argument| call(&mut power, function, argument);
        assert_eq!(call(0x8400_0000, 0), Call::Returns(0x1_0000));
        assert_eq!(call(0xc400_0001, 0), Call::Wait);
        assert_eq!(call(0x8400_0008, 0), Call::Off);
        assert_eq!(call(0x8400_0009, 0), Call::Reset);
        assert_eq!(call(0xc400_0003, 0), returns(ALREADY_ON));
        assert_eq!(call(0xc400_0003, 1), returns(INVALID_PARAMETERS));
        assert_eq!(call(0xc400_0004, 0), returns(ON));
        assert_eq!(call(0x8400_000a, 0x8400_0008), returns(SUCCESS));
        assert_eq!(call(0x8400_000a, 0x8000_0000), returns(NOT_SUPPORTED));
        for unknown in [0x8000_0000, 0xc400_0000, 0xc400_0008, 0, u64::MAX, 0x8400_000b] {
            assert_eq!(call(unknown, 0), returns(NOT_SUPPORTED), "{unknown:#x}");
        }
        assert_eq!(call(0x8400_0002, 0), Call::Off, "the last CPU");
    }

    #[test]
    fn cpus_go_on_and_off() {
        let mut power = Power::new(3);
        assert_eq!([0, 1, 2, 3, 4].map(|cpu| power.is_on(cpu)), [true, false, false, false, false]);
        let start = Start { cpu: 2, entry: 0x4000_1000, argument: 7 };
        assert_eq!(power.call(0, 0xc400_0003, [2, 0x4000_1000, 7]), Call::Starts(start));
        assert_eq!(power.call(0, 0xc400_0003, [2, 0x4000_1000, 7]), returns(ALREADY_ON));
        assert_eq!(power.call(0, 0xc400_0003, [1, 0x4000_1002, 7]), returns(INVALID_ADDRESS));
        for affinity in [3, 4, 1 << 8, 1 << 32 | 1, 1 << 63, u64::MAX] {
            assert_eq!(power.call(0, 0xc400_0003, [affinity, 0, 0]), returns(INVALID_PARAMETERS), "{affinity:#x}");
            assert_eq!(power.call(0, 0xc400_0004, [affinity, 0, 0]), returns(INVALID_PARAMETERS), "{affinity:#x}");
        }
        assert_eq!([0, 1, 2].map(|cpu| power.call(0, 0xc400_0004, [cpu, 0, 0])), [ON, OFF, ON].map(returns));
        assert_eq!(power.call(0, 0xc400_0004, [0, 1, 0]), returns(INVALID_PARAMETERS), "a level above the CPUs");
        assert_eq!(power.call(0, 0x8400_0002, [0; 3]), Call::CpuOff);
        assert_eq!(power.call(2, 0xc400_0004, [0; 3]), returns(OFF));
        assert_eq!(power.call(2, 0x8400_0002, [0; 3]), Call::Off, "the last CPU");
    }

    #[test]
    fn the_short_form_of_a_call_has_short_arguments() {
        let mut power = Power::new(2);
        let start = Start { cpu: 1, entry: 0x4000_1000, argument: 7 };
        let arguments = [1, 0x4000_1000, 7].map(|value: u64| value | 5 << 32);
        assert_eq!(power.call(0, 0x8400_0003, arguments), Call::Starts(start));
    }
}
