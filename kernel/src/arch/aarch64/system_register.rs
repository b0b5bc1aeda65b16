//! Access to system registers by name.

/// Reads a system register.
macro_rules! read_register {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: [K7] reading the named register has no effect on memory or on the compiler's
        // registers. (Interrupt acknowledge registers change the interrupt controller's state,
        // which is what their callers want.)
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

/// Writes a system register.
macro_rules! write_register {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: [K7] the registers that the kernel writes by this macro control the interrupt
        // controller, the timer, what EL0 may do, and a guest's translation and traps; none of them
        // changes how the memory of the kernel and of domains is seen.
        unsafe { core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack, preserves_flags)) };
    }};
}

pub(crate) use {read_register, write_register};
