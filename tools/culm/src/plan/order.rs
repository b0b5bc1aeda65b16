//! The order in which the image has all that the kernel schedules: by core, and of each core its
//! protection domains before its virtual CPU.

use super::{Domain, DomainId, GuestId, Plan, VirtualCpu};

/// One that the kernel schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// A protection domain.
    Domain(DomainId),
    /// A virtual CPU of a guest, by its number.
    VirtualCpu(GuestId, usize),
}

/// All that the kernel schedules, each at its position in the image.
#[derive(Clone, Debug)]
pub struct Order(Vec<Scheduled>);

impl Order {
    /// The order of a plan.
    pub fn new(plan: &Plan) -> Self {
        let domains = (0..plan.domains.len()).map(Scheduled::Domain);
        let cpus = |(id, guest): (GuestId, &super::Guest)| {
            (0..guest.cpus.len()).map(move |cpu| Scheduled::VirtualCpu(id, cpu))
        };
        let mut all: Vec<_> = domains.chain(plan.guests.iter().enumerate().flat_map(cpus)).collect();
        all.sort_by_key(|scheduled| match *scheduled {
            Scheduled::Domain(id) => plan.domains[id].core,
            Scheduled::VirtualCpu(id, cpu) => plan.guests[id].cpus[cpu].core,
        });
        Self(all)
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = Scheduled> + '_ {
        self.0.iter().copied()
    }

    /// Position of `scheduled` in the image.
    ///
    /// # Panics
    /// If it is not of this plan.
    pub fn index(&self, scheduled: Scheduled) -> u32 {
        let found = self.0.iter().position(|other| *other == scheduled);
        found.unwrap_or_else(|| unreachable!("{scheduled:?} is of no plan")) as u32
    }

    /// Position of a protection domain in the image.
    ///
    /// # Panics
    /// As [`Self::index`].
    pub fn domain(&self, id: DomainId) -> u32 {
        self.index(Scheduled::Domain(id))
    }
}

impl Plan {
    /// Those that use vector registers: protection domains whose component does, and all virtual
    /// CPUs.
    pub fn vector_users(&self) -> impl Iterator<Item = Scheduled> + '_ {
        let uses = |domain: &Domain| self.components[domain.component].manifest.vectors;
        Order::new(self).0.into_iter().filter(move |scheduled| match *scheduled {
            Scheduled::Domain(id) => uses(&self.domains[id]),
            Scheduled::VirtualCpu(..) => true,
        })
    }

    /// The virtual CPUs of all guests.
    pub fn virtual_cpus(&self) -> impl Iterator<Item = &VirtualCpu> {
        self.guests.iter().flat_map(|guest| &guest.cpus)
    }
}
