//! Calls of the firmware: the Power State Coordination Interface (Arm DEN0022), version 1.0, of a
//! guest with one CPU.

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
/// `AFFINITY_INFO`: the CPU is on.
const ON: i64 = 0;
/// `MIGRATE_INFO_TYPE`: there is no trusted system that would have to move.
const NO_MIGRATION: i64 = 2;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It returns this.
    Returns(u64),
    /// It returns success when an interrupt comes.
    Wait,
    /// The guest ends.
    Off,
    /// The guest begins again.
    Reset,
}

/// Does a call with this function and first argument.
pub fn call(function: u64, argument: u64) -> Call {
    // The upper half of the register means nothing (Arm DEN0028, 2.7).
    let Some(function) = known(function as u32) else { return returns(NOT_SUPPORTED) };
    returns(match function {
        function::VERSION => VERSION_1_0,
        function::CPU_SUSPEND => return Call::Wait,
        function::CPU_OFF | function::SYSTEM_OFF => return Call::Off,
        function::SYSTEM_RESET => return Call::Reset,
        function::CPU_ON if argument == 0 => ALREADY_ON,
        function::AFFINITY_INFO if argument == 0 => ON,
        function::MIGRATE_INFO_TYPE => NO_MIGRATION,
        function::FEATURES if known(argument as u32).is_some() => SUCCESS,
        function::FEATURES => NOT_SUPPORTED,
        _ => INVALID_PARAMETERS,
    })
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

    #[test]
    fn each_function_does_what_the_standard_says() {
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
    }
}
