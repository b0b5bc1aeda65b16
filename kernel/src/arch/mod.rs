//! The processor architecture. A second one would stand beside `aarch64` and offer the same names.

mod aarch64;

pub use aarch64::console;
pub use aarch64::machine::{
    CoreHardware, affinity, check_address_spaces, counter_frequency, set_processor, stop_others, wait_for_interrupt,
};

pub use aarch64::psci::power_off;
pub use aarch64::random::{Source, find_source};
pub use aarch64::registers::Registers;
pub use aarch64::{resume, resume_notified, set_entry_level, system_header};
