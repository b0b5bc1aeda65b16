//! File service: the program. What it does is in the library.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

culm::entry!(file::Service);
