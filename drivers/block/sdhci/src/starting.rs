//! A controller before its first reset is done.
//!
//! Until then it may write to memory for an earlier life of the driver. So the queues to the
//! virtualiser are not touched: who finds a new life of the driver there takes it that all requests
//! of the earlier one have ended, and uses their memory for something else.

use crate::data::DataPort;
use crate::descriptors::Table;
use crate::host::Host;
use crate::sdhci::{Options, Sdhci, Unusable};
use crate::slot::{SETTLE_LIMIT, SOON};
use crate::source::Source;
use alloc::vec::Vec;
use culm::Region;
use culm::time::{self, Instant};
use culm_mmio::Registers;

/// The longest time between two looks at a controller that does not end its reset, in steps of
/// [`SOON`].
const LONGEST_WAIT: u32 = 1000;

/// A controller that is being reset.
#[derive(Debug)]
pub struct Starting<R> {
    host: Host<R>,
    options: Options,
    data: DataPort,
    table: Option<Table>,
    /// The moment from which on the reset takes too long.
    limit: Instant,
    /// Looks since then.
    late: u32,
}

impl<R: Registers> Starting<R> {
    /// Begins to reset a controller in whatever state a previous life left it. `memory` is for its
    /// table of descriptors. `data` is the memory of requests, as far as the driver has it mapped:
    /// then the driver moves the data itself (PIO). If it is empty, the controller does (ADMA2).
    ///
    /// # Errors
    ///
    /// If the controller cannot be used so. It is reset all the same.
    pub fn new(registers: R, memory: &Region, data: Vec<Region>, options: Options) -> Result<Self, Unusable> {
        let mut host = Host::new(registers, options.base_clock);
        host.reset();
        if !host.is_usable() {
            return Err(Unusable::Slot);
        }
        let table = match data.is_empty() {
            false => None,
            true if !host.has_dma() => return Err(Unusable::Dma),
            true => Some(Table::new(memory, host.has_long_addresses()).ok_or(Unusable::Memory)?),
        };
        host.use_long_addresses(host.has_long_addresses() && table.is_some());
        let limit = time::now() + SETTLE_LIMIT;
        Ok(Self { host, options, data: DataPort::new(data), table, limit, late: 0 })
    }

    /// Returns the driver if the reset is done, with the client that is made then. Otherwise it
    /// asks for a turn in which to look again.
    ///
    /// # Errors
    ///
    /// If the reset is not done: itself.
    #[expect(clippy::result_large_err, reason = "it is moved a few times in a life")]
    pub fn finish<S: Source>(mut self, client: impl FnOnce() -> S) -> Result<Sdhci<R, S>, Self> {
        if self.host.is_reset() {
            if self.late > 0 {
                culm::trouble::clear();
            }
            self.host.begin();
            let Self { host, options, data, table, .. } = self;
            return Ok(Sdhci::begin(host, options, data, table, client()));
        }
        let now = time::now();
        if now >= self.limit {
            if self.late == 0 {
                culm::trouble::tell(format_args!("the controller does not end its reset: there is no disk yet"));
            }
            self.late = (self.late + 1).min(LONGEST_WAIT);
        }
        culm::wake_at(now + SOON * self.late.max(1));
        Err(self)
    }
}
