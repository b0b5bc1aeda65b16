//! Virtualiser of the serial class: the program. What it does is in the library.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

culm::entry!(serial_mux::SerialVirtualiser);
