//! Driver for standard SD host controllers (SDHCI) and the memory card behind each: all of it but
//! the entry point.
//!
//! [`Starting`] is given the controller's registers and memory for its table of descriptors, resets
//! it, and becomes [`Sdhci`] with its client ([`Source`]: the queues to the virtualiser), which is
//! told of interrupts.
//! [`Seated`] does so when the bus's driver has made the controller ready, and not before: until
//! then nothing answers at its registers. None of them waits: each turn looks at the controller a
//! few times, and what takes longer ends by an interrupt or a deadline.
//!
//! `registers` has the registers and `host` what is done with them, `exchange` one command from its
//! sending to its end, `descriptors` and `data` the two ways of its data, `slot` what becomes of a
//! card from its insertion on, `work` the request under way, and `recovery` what is done if it
//! fails. What a card says is understood by `culm-sd`.
//!
//! # Order and failures
//!
//! A controller does one command at a time, so one request is taken at a time; the others wait in
//! the virtualiser's queue. A request that failed is done again from where it failed: after the
//! card was told to stop, then after it was set up anew; then it is answered by an error, at the
//! latest when its time is over (`recovery`). Hazard: a
//! controller that failed may still write to the request's memory, so no answer is given before the
//! reset that ends that. One that does not end its reset keeps the request.
//!
//! A card that is pulled ends the request under way by [`culm_block::Error::Absent`], and those in
//! the queue as the class says of a medium that is gone. It is so even if it is back at once: what
//! happened to it meanwhile is not known.
//!
//! # What is durable
//!
//! A write is answered when the card is busy no more and its status (CMD13) has no error: what
//! failed after the reply shows only there (SD Physical Layer 9.10 §4.10.1). Cards have a volatile
//! cache only if a host switches it on (§5.8.2), which this driver does not. So a flush has
//! nothing to do: it is answered at once. None can fail, so there is none to be counted
//! ([`culm_block::Disk::failures`]).

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod clock;
mod data;
mod descriptors;
mod driver;
mod exchange;
mod host;
mod recovery;
pub mod registers;
mod sdhci;
mod seated;
mod slot;
mod source;
mod starting;
#[cfg(not(target_os = "none"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod trouble;
mod work;

pub use driver::Driver;
pub use sdhci::{Counts, Options, Sdhci, Unusable};
pub use seated::Seated;
pub use source::Source;
pub use starting::Starting;

culm::manifest!();
