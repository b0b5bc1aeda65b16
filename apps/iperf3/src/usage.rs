//! How busy the processors are, where the component may see that.

use core::sync::atomic::Ordering::Relaxed;
use culm::observe::CoreAccount;
use culm::time::Instant;

/// What is known of the processors.
pub struct Usage {
    cores: &'static [CoreAccount],
    begun: Instant,
    /// Ticks that they had nothing to do until then, all together.
    idle: u64,
}

impl Usage {
    /// Without the right to observe, nothing is known.
    pub fn new() -> Self {
        let cores =
            culm::observation().map_or(&[][..], |observation| culm::observe::core_accounts(observation.core_accounts));
        Self { cores, begun: Instant::default(), idle: 0 }
    }

    fn idle(&self) -> u64 {
        self.cores.iter().fold(0, |sum, core| sum.wrapping_add(core.idle.load(Relaxed)))
    }

    /// Begins anew.
    pub fn begin(&mut self, now: Instant) {
        (self.begun, self.idle) = (now, self.idle());
    }

    /// Returns how busy they have been since [`Self::begin`], in hundredths of a per cent of one
    /// processor; `None` if it is not known.
    pub fn share(&self, now: Instant) -> Option<u64> {
        let elapsed = now.ticks().saturating_sub(self.begun.ticks());
        let all = elapsed.checked_mul(self.cores.len() as u64).filter(|all| *all > 0)?;
        let used = all.saturating_sub(self.idle().wrapping_sub(self.idle));
        u64::try_from(u128::from(used) * 10_000 / u128::from(elapsed)).ok()
    }
}
