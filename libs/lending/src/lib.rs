//! Lending buffers to clients that do not trust each other: what a virtualiser of any device class
//! needs.
//!
//! A virtualiser lends the buffers of a region, and knows at every moment who holds which one. A
//! client can keep what it holds, return what it does not hold, notify without reason, and start
//! over again and again. Each file here bounds one of these, or lets the virtualiser itself be
//! restarted in between:
//!
//! * [`slots`]: the division of a region into buffers. [`stash`]: buffers of a size that is not
//!   needed yet.
//! * [`holders`]: who holds a buffer that several may hold at once.
//! * [`account`]: what the virtualiser's next life must know, in memory that outlives it.
//! * [`shares`]: how much of a common stock each client may hold.
//! * [`allowance`]: how much work without use a client may cause. [`paused`]: the clients that are
//!   left alone because they have used theirs up.
//! * [`client_set`]: some of the clients, a bit for each.
//!
//! Nothing here knows what is in a buffer or in a queue's entry: that is the class's.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod account;
pub mod allowance;
pub mod client_set;
pub mod holders;
pub mod paused;
pub mod shares;
pub mod slots;
pub mod stash;

pub use account::{Account, LinkAccount};
pub use allowance::Allowance;
pub use client_set::ClientSet;
pub use holders::Holders;
pub use paused::Paused;
pub use shares::Shares;
pub use slots::{Geometry, Slots};
pub use stash::Stash;
