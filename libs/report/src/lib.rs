//! What a router shows of its rules, and how it is given others, in memory that it shares with who
//! shows them to people.
//!
//! There are two pieces of memory, each written by one side only and mapped by the other for
//! reading: the [`Report`], which the router writes ([`View`] reads it), and the [`Proposal`],
//! which the other side writes ([`Inbox`] reads it). Neither side waits for the other, and whatever
//! it finds there it gets over: lengths are bounded by the memory, texts are checked.
//!
//! The report outlives the router. So rules that were proposed and taken are found by its next
//! life ([`Report::left`]), whole whenever the router ended, and rules over which it has died are
//! not tried again: they are noted as begun before anything is done with them.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod proposal;
mod report;
#[cfg(test)]
mod tests;
mod text;

pub use proposal::{Inbox, LONGEST_TOKEN, Proposal, Withdrawn, proposal_words};
pub use report::{Answer, Counts, LONGEST_ANSWER, RULES, Report, Shown, Since, Verdict, View, report_words};
