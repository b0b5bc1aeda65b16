//! The check of an image's tables, once, before anything runs. Afterwards the kernel uses the
//! indices in them.
//!
//! It checks more than that every index is within its table. Facts that the tables state twice, so
//! that the kernel need not derive them, must agree: both ends of a channel, an interrupt's owner
//! and its route, a supervisor and its child. And the rules that bound the kernel's work must hold:
//! calls lead upwards on one core, and no domain signals a passive one.

use crate::domain::is_virtual_cpu;
use crate::system::System;
use culm_abi::guest::MAX_CPUS;
use culm_abi::syscall::{Event, GROUP};
use culm_abi::system::{
    ASID_SHIFT, DomainDescription, END_INTERRUPT, EndDescription, FIRST_INTERRUPT, MIN_PERIOD, NONE, domain_flags,
    end_kind, end_rights,
};

/// A defect of an image's tables ([`System::check`]): the table and the index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTable(pub &'static str, pub usize);

impl System<'_> {
    /// Checks that the tables are sound.
    ///
    /// # Errors
    /// Returns the first table and element that is wrong.
    pub fn check(&self) -> Result<(), BadTable> {
        self.check_cores()?;
        self.check_ranges()?;
        for (index, domain) in self.domains.iter().enumerate() {
            if !self.is_supervised_as_it_says(index as u32, domain) || !self.is_virtual_cpu_sound(index, domain) {
                return Err(BadTable("domains", index));
            }
            for number in 0..domain.end_count {
                let at = (domain.first_end + number) as usize;
                if !self.is_end_sound(index as u32, number, &self.ends[at]) {
                    return Err(BadTable("ends", at));
                }
            }
        }
        self.check_routes()
    }

    /// Checks that each core has a range of domains and a range of words of pending domains of its
    /// own.
    fn check_cores(&self) -> Result<(), BadTable> {
        let (mut domains, mut pending) = (0, 0);
        for (index, core) in self.cores.iter().enumerate() {
            if !follows(&mut domains, core.first_domain, core.domain_count, self.domains.len())
                || !follows(&mut pending, core.first_pending_word, core.pending_words, self.pending_domains.len())
                || core.pending_words < core.domain_count.div_ceil(64)
            {
                return Err(BadTable("cores", index));
            }
        }
        let sound = domains as usize == self.domains.len()
            && self.shared.len() == self.domains.len()
            && self.domain_accounts.len() == self.domains.len()
            && self.core_accounts.len() == self.cores.len();
        if sound { Ok(()) } else { Err(BadTable("domains", self.domains.len())) }
    }

    /// Checks that each domain is on the core that holds it, and has ends and notification words of
    /// its own.
    fn check_ranges(&self) -> Result<(), BadTable> {
        let (mut ends, mut words) = (0, 0);
        for (index, domain) in self.domains.iter().enumerate() {
            let core_holds = self.cores.get(domain.core as usize).is_some_and(|core| {
                (core.first_domain..core.first_domain + core.domain_count).contains(&(index as u32))
            });
            if !core_holds
                || domain.priority > 255
                || domain.groups != domain.end_count.div_ceil(GROUP).max(1)
                || (domain.budget != 0 && (domain.period < domain.budget.max(MIN_PERIOD) || is_passive(domain)))
                || !follows(&mut ends, domain.first_end, domain.end_count, self.ends.len())
                || !follows(&mut words, domain.first_word, domain.groups, self.words.len())
            {
                return Err(BadTable("domains", index));
            }
        }
        Ok(())
    }

    /// Returns whether a fault of a domain is signalled where its supervisor has an end for it.
    fn is_supervised_as_it_says(&self, index: u32, domain: &DomainDescription) -> bool {
        if domain.supervisor == NONE {
            return true;
        }
        self.end_at(domain.supervisor, domain.supervisor_word, domain.supervisor_bit)
            .is_some_and(|(_, end)| end.kind == end_kind::CHILD && end.target == index)
    }

    /// Returns whether a virtual CPU has what the kernel relies on: a monitor of a higher priority,
    /// a place for its vector registers, no channels, and the core to itself, whose guest registers
    /// keep its state. Those of one guest, which send each other interrupts, have one table, one
    /// monitor and different numbers; a table has an identifier of its own, by which processors
    /// remember translations.
    fn is_virtual_cpu_sound(&self, index: usize, domain: &DomainDescription) -> bool {
        if !is_virtual_cpu(domain) {
            return true;
        }
        let monitor = self.domains.get(domain.supervisor as usize);
        let is_below = monitor.is_some_and(|monitor| monitor.priority > domain.priority && !is_virtual_cpu(monitor));
        let mut before = self.domains[..index].iter();
        let alone = !before.any(|other| is_virtual_cpu(other) && other.core == domain.core);
        let others = self.domains[..index].iter().filter(|other| is_virtual_cpu(other));
        let is_of_its_guest = others.fold(domain.start_block < MAX_CPUS as u64, |sound, other| {
            let is_sibling = other.table == domain.table;
            let is_apart = other.table >> ASID_SHIFT != domain.table >> ASID_SHIFT;
            let is_another = other.supervisor == domain.supervisor && other.start_block != domain.start_block;
            sound && if is_sibling { is_another } else { is_apart }
        });
        is_below && alone && is_of_its_guest && domain.end_count == 0 && domain.flags == 0 && domain.vectors != 0
    }

    fn is_end_sound(&self, owner: u32, number: u32, end: &EndDescription) -> bool {
        match end.kind {
            end_kind::PEER => self.is_peer_sound(owner, number, end),
            end_kind::CHILD => {
                let child = self.domains.get(end.target as usize);
                child.is_some_and(|child| child.supervisor == owner) && leads_to_no_peer(end) && self.has_time(owner)
            }
            end_kind::INTERRUPT => {
                // An interrupt's word is its owner's: `check_routes` finds this end there.
                (FIRST_INTERRUPT..END_INTERRUPT).contains(&end.target)
                    && self.routes.get((end.target - FIRST_INTERRUPT) as usize).is_some_and(|route| {
                        let lands = self.end_at(owner, route.word, route.bit);
                        route.domain == owner && lands.is_some_and(|(at, _)| at == number)
                    })
                    && leads_to_no_peer(end)
                    && self.has_time(owner)
            }
            _ => false,
        }
    }

    /// Returns whether the peer's end of the channel leads back to this one, and a signal and a
    /// call over this one arrive there.
    fn is_peer_sound(&self, owner: u32, number: u32, end: &EndDescription) -> bool {
        let Some((there, back)) = self.end_at(end.target, end.word, end.bit) else { return false };
        let returns = back.kind == end_kind::PEER
            && back.target == owner
            && self.end_at(owner, back.word, back.bit).is_some_and(|(here, _)| here == number)
            && end.event == Event::called(there).0;
        let known = end.rights & !(end_rights::NOTIFY | end_rights::CALL) == 0;
        let notifies = end.rights & end_rights::NOTIFY == 0 || self.has_time(end.target);
        let (own, peer) = (&self.domains[owner as usize], &self.domains[end.target as usize]);
        let calls = if end.rights & end_rights::CALL == 0 {
            end.callee == NONE
        } else {
            own.core == peer.core
                && own.priority < peer.priority
                && self.cores[own.core as usize].first_domain.checked_add(end.callee) == Some(end.target)
        };
        returns && known && notifies && calls
    }

    /// Checks that each interrupt that has a route has an end where the route leads.
    fn check_routes(&self) -> Result<(), BadTable> {
        if self.routes.len() != (END_INTERRUPT - FIRST_INTERRUPT) as usize {
            return Err(BadTable("interrupts", self.routes.len()));
        }
        for (index, route) in self.routes.iter().enumerate().filter(|(_, route)| route.domain != NONE) {
            let number = FIRST_INTERRUPT + index as u32;
            let end = self.end_at(route.domain, route.word, route.bit);
            if !end.is_some_and(|(_, end)| end.kind == end_kind::INTERRUPT && end.target == number) {
                return Err(BadTable("interrupts", index));
            }
        }
        Ok(())
    }

    /// Returns whether a domain has time of its own, in which it can act on a signal.
    fn has_time(&self, domain: u32) -> bool {
        !is_passive(&self.domains[domain as usize])
    }

    /// Returns the end of `domain` whose signals land in `bit` of `word`, and its number.
    fn end_at(&self, domain: u32, word: u32, bit: u32) -> Option<(u32, &EndDescription)> {
        let domain = self.domains.get(domain as usize)?;
        let group = word.checked_sub(domain.first_word).filter(|group| *group < domain.groups && bit < GROUP)?;
        // This cannot overflow: there are no more groups than ends need.
        let number = group * GROUP + bit;
        (number < domain.end_count).then(|| (number, &self.ends[(domain.first_end + number) as usize]))
    }
}

/// Returns whether `count` elements from `first` follow those before, within a table of `length`.
fn follows(next: &mut u32, first: u32, count: u32, length: usize) -> bool {
    let end = first.checked_add(count).filter(|end| first == *next && *end as usize <= length);
    *next = end.unwrap_or(*next);
    end.is_some()
}

fn is_passive(domain: &DomainDescription) -> bool {
    domain.flags & domain_flags::PASSIVE != 0
}

fn leads_to_no_peer(end: &EndDescription) -> bool {
    end.callee == NONE && end.rights == 0
}
