//! The order of clients' frames: deficit round robin.
//!
//! Clients take turns by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): each turn
//! brings a client credit for a number of bytes, it sends as long as that covers its next frame,
//! and what is left it keeps for its next turn, while it has something to send. So clients that
//! send without end share the card by bytes, however long their frames are. Besides each may have a
//! bounded share with the driver ([`Shares`](culm_lending::Shares)), also by bytes: what the card's
//! queue holds delays everybody.
//!
//! A client that cannot go on (its share is used up, or the virtualiser has no buffer for its copy)
//! leaves the turn to others and keeps its credit, up to a bound.

use super::{BOUNCE, Transmit, share_cost, token};
use crate::bounce::{Bounce, Refusal, Source};
use crate::client::{Client, Entry};
use crate::counters;
use culm_lending::ClientSet;
use culm_net::driver::{DriverLink, Space};
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, Mac};

/// Bytes of credit that a turn brings: eleven frames of the link's greatest length, or a quarter of
/// the longest packet.
const QUANTUM: u32 = 16 * 1024;

/// The most credit that a client can keep, as much as the longest packet takes.
const MAX_CREDIT: u32 = 4 * QUANTUM;

/// Steps of its client's allowance ([`culm_lending::allowance`]) that a frame costs which was
/// copied and refused.
const REFUSED_COPY: u32 = 4;

/// How a client's turn ended.
#[derive(PartialEq, Eq)]
enum Turn {
    /// It has nothing more to send.
    Done,
    /// It has sent as much as it may in one turn.
    More,
    /// It has used its share.
    Limited,
    /// It has used up its allowance.
    Paused,
    /// The driver takes no more.
    DriverFull,
}

impl<D: DriverLink> Transmit<D> {
    /// Lets due clients send in turns. Returns true if the driver's queue is full although the
    /// driver may hold more frames; if it holds as many as it may, only a returned buffer helps,
    /// and false is returned.
    #[inline]
    pub(super) fn submit(&mut self) -> bool {
        if !self.driver.link.is_live() {
            return false;
        }
        let mut pending = self.due.take();
        while let Some(index) = pending.next_from(self.first) {
            // The sum is at most `ClientSet::MAX`.
            self.first = index + 1;
            match self.serve_client(index, pending == ClientSet::one(index)) {
                Turn::Done => pending.remove(index),
                Turn::More => {}
                Turn::Limited => {
                    pending.remove(index);
                    self.due.insert(index);
                }
                Turn::Paused => {
                    pending.remove(index);
                    self.pause(index);
                }
                Turn::DriverFull => {
                    self.due |= pending;
                    return self.driver.in_flight < self.driver.most;
                }
            }
        }
        false
    }

    /// While a client waits for a share, lets no client that holds more borrow from the rest. The
    /// card sends in order, so a client's part of the driver's queue is its part of the card.
    #[inline(never)]
    pub(super) fn favour_limited(&mut self) {
        let shares = self.limited.into_iter().filter_map(|index| Some(self.clients.get(index)?.share));
        self.shares.cap_borrowing_at(shares.min().unwrap_or(u32::MAX));
    }

    /// Lets a client send some frames. One that is the only one to have any in this round gets the
    /// credit of all the turns at once that the longest packet takes: they would be its own anyhow.
    #[inline(always)]
    fn serve_client(&mut self, index: usize, is_only: bool) -> Turn {
        let Some(client) = self.clients.get_mut(index) else { return Turn::Done };
        if client.link.input.available() == 0 {
            client.begin();
        }
        let available = client.link.input.available();
        if available == 0 {
            return found_nothing(client);
        }
        let driver = &mut self.driver;
        let ahead = if is_only { MAX_CREDIT - QUANTUM } else { 0 };
        let credit = client.credit + QUANTUM + ahead;
        let mut credit_left = credit;
        let mut room = available.min(driver.most - driver.in_flight);
        room = room.min(driver.link.space(room));
        let mut space = driver.link.reserve(room);
        let (buffers, base, only) = (client.buffers(), client.dma(), client.only);
        let mut share = client.share;
        let turn = loop {
            let Some(entry) = client.link.input.pop_known() else {
                // Frames that came meanwhile are found at the end of the round.
                break Turn::Done;
            };
            let Some(frame) = buffers.frame(entry) else {
                if drop_entry(client, entry, D::COUNTERS_BEFORE) {
                    continue;
                }
                break Turn::Paused;
            };
            let length = u32::from(entry.length);
            if space.left() == 0 {
                break put_back(client, Turn::DriverFull);
            }
            if length > credit_left {
                break put_back(client, Turn::More);
            }
            if !self.shares.take_amount(&mut share, share_cost(entry.length)) {
                break put_back(client, Turn::Limited);
            }
            let index_of_entry = space.position();
            let Some(only) = only else {
                let (address, token) = (base + u64::from(entry.offset), token(index, frame.number));
                space.push(DmaDescriptor { address, length: entry.length, flags: 0, token });
                client.send(frame, entry.length, index_of_entry);
                credit_left -= length;
                continue;
            };
            match copy(&mut self.bounce, client, frame.number, only, entry.length) {
                Ok(copy) => {
                    let (address, token) = (self.bounce.dma(copy), BOUNCE << 16 | copy);
                    space.push(DmaDescriptor { address, length: entry.length, flags: 0, token });
                    let source = Source { client: index, number: frame.number, index: index_of_entry };
                    send_copy(&mut self.bounce, client, copy, source, entry.length);
                    credit_left -= length;
                }
                Err(refusal) => {
                    self.shares.repay_amount(&mut share, share_cost(entry.length));
                    if refusal == Refusal::NoBuffer {
                        break put_back(client, Turn::Limited);
                    }
                    counters::DROPS_SPOOFED.behind(D::COUNTERS_BEFORE).add(1);
                    if client.allowance.is_spent() {
                        break Turn::Paused;
                    }
                }
            }
        };
        let sent = room - space.left();
        drop(space);
        client.share = share;
        client.count_sent(sent);
        // The client may have used its allowance up by notifications without use.
        let turn = if sent == 0 && client.allowance.is_spent() { Turn::Paused } else { turn };
        self.short.set(index, client.is_short());
        client.credit = if turn == Turn::Done { 0 } else { credit_left.saturating_sub(ahead).min(MAX_CREDIT) };
        driver.in_flight += sent;
        client.allowance.earn(sent);
        counters::PACKETS.behind(D::COUNTERS_BEFORE).add(sent.into());
        counters::BYTES.behind(D::COUNTERS_BEFORE).add(u64::from(credit - credit_left - sent * HEADROOM as u32));
        turn
    }
}

/// Charges a client that was looked at and has nothing to send.
#[inline(never)]
fn found_nothing(client: &mut Client) -> Turn {
    client.credit = 0;
    client.allowance.spend(1);
    if client.allowance.is_spent() { Turn::Paused } else { Turn::Done }
}

/// Puts the frame that was read last back, for another turn.
#[inline(never)]
fn put_back(client: &mut Client, turn: Turn) -> Turn {
    client.link.input.put_back();
    turn
}

/// Copies a frame of a client that may send from the address `only`. Returns the number of the
/// buffer in which the copy is.
#[inline(never)]
fn copy(bounce: &mut Bounce, client: &mut Client, number: u32, only: Mac, length: u16) -> Result<u32, Refusal> {
    let Some(packet) = client.packet(number, length) else { return Err(Refusal::NotAllowed) };
    let copied = bounce.copy(&packet, only, &mut client.large_copies);
    if copied == Err(Refusal::NotAllowed) {
        client.allowance.spend(REFUSED_COPY);
        client.return_unsent(number);
    }
    copied
}

/// Records that a copy went to the driver, and gives the client its buffer back.
#[inline(never)]
fn send_copy(bounce: &mut Bounce, client: &mut Client, copy: u32, source: Source, length: u16) {
    let number = source.number;
    bounce.send(copy, source, length);
    client.return_unsent(number);
}

/// Handles an entry that is no frame. Returns false if the client's allowance is used up with it.
#[cold]
fn drop_entry(client: &mut Client, entry: Descriptor, first_counter: usize) -> bool {
    client.allowance.spend(1);
    match client.examine(entry) {
        Entry::Invalid(number) => {
            client.return_unsent(number);
            counters::DROPS_INVALID.behind(first_counter).add(1);
        }
        Entry::NotHeld => {
            client.account.skip();
            counters::DROPS_NOT_HELD.behind(first_counter).add(1);
        }
    }
    !client.allowance.is_spent()
}
