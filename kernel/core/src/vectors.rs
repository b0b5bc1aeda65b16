//! Vector registers: whose content those of a core have.
//!
//! A guest uses them, and each domain whose description has a place for them; to others they are
//! closed. While others run, the content stays in the processor. Before the next one that may use
//! them runs an instruction with them open, they are its own: the content before goes to the place
//! of its owner then and there. So nobody ever has another's registers open, and a core on which
//! one domain alone uses them moves nothing.

use crate::core::{Core, Next};
use crate::domain::{Context, NO_DOMAIN};
use crate::system::Hardware;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    /// Gives the running domain or virtual CPU the core's vector registers, if it may use them.
    /// Returns which it is.
    pub fn take_vectors(&mut self) -> Next {
        let current = self.meter.current();
        let description = Some(self.description(current)).filter(|description| description.vectors != 0)?;
        let before = ::core::mem::replace(&mut self.vectors, current);
        if before != current {
            if let Some(domain) = self.domains.get_mut(before as usize) {
                domain.context.keep_vectors(&self.system.domains[(self.first + before) as usize]);
            }
            self.domains[current as usize].context.load_vectors(description);
        }
        Some(current)
    }

    /// Forgets the vector registers of a domain that starts: they are zero.
    pub(crate) fn forget_vectors(&mut self, local: u32) {
        if self.vectors == local {
            self.vectors = NO_DOMAIN;
        }
        let description = self.description(local);
        if description.vectors != 0 {
            self.domains[local as usize].context.clear_vectors(description);
        }
    }
}
