//! Load generators: for echo servers over UDP, in a closed loop with a window or an open loop at a
//! rate; for web servers in an open loop ([`web`]), or over many connections that take turns
//! ([`turns`]); for routers packets of many flows ([`spray`]) and connections that begin and end
//! ([`connections`]).
//!
//! Why our own: the standard tools neither check what comes back, nor keep an exact number of
//! packets in flight, nor let a harness read their counters at the moment at which it reads the
//! guest's. Each packet carries its number, the time at which it was due and a pattern; an answer
//! is counted once, as lost after a time-out, as a duplicate, or as corrupt. Round trips are
//! measured from the time at which the packet was *due*, so that a stalled server cannot hide its
//! stall by holding the generator up.

mod batch;
mod ceiling;
pub mod connections;
mod engine;
mod far;
pub mod histogram;
mod packet;
pub mod spray;
pub mod turns;
pub mod web;

pub use ceiling::ceiling;
pub use engine::{Counts, Load, LoadSpec, Mode, Report};
pub use far::FarEnd;
