//! Driver for standard SD host controllers on a PCI bus: the component. What it does is in the
//! library.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

culm::entry!(block_sdhci::Driver);
