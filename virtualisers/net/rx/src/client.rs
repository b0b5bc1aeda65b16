//! A client, as the receive virtualiser sees it.

use culm::connection::NetRxClient;
use culm::link::{Event, Link};
use culm_lending::{Allowance, LinkAccount};
use culm_net::{Descriptor, Mac};

/// Steps of a client's allowance that its starting over costs.
const CHANGE: u32 = 2;

/// A client: a copier, or one that reads the device's buffers itself.
pub(crate) struct Client {
    /// The link: frames go to the client, and the buffers that it returns come back.
    pub(crate) link: Link<Descriptor>,
    /// The account of the link, for the next life.
    pub(crate) account: LinkAccount,
    pub(crate) mac: Mac,
    /// Frames for nobody's address go to it too.
    pub(crate) is_promiscuous: bool,
    /// Buffers that it holds.
    pub(crate) held: u32,
    /// Work without use that it may still cause.
    pub(crate) allowance: Allowance,
}

impl Client {
    /// Creates a client with this link, to which some of `buffers` are lent.
    pub(crate) fn new(connection: &NetRxClient, buffers: u32, link: Link<Descriptor>, account: LinkAccount) -> Self {
        let mac = Mac::new(connection.mac);
        let is_promiscuous = connection.promiscuous != 0;
        Self { link, account, mac, is_promiscuous, held: 0, allowance: Allowance::new(buffers) }
    }

    /// Gives a frame to the client, for the driver's entry before index `through`. Returns false if
    /// its queue has no space.
    #[inline(always)]
    pub(crate) fn give(&mut self, frame: Descriptor, through: u32) -> bool {
        let given = self.link.output.push(frame).is_ok();
        if given {
            self.account.set_progress(self.link.output.position(), through);
        }
        given
    }

    /// Takes the next steps towards a live link. Returns true if it is live now: then take back all
    /// that the client holds, and call [`Self::keep`].
    #[cold]
    pub(crate) fn start_over(&mut self) -> bool {
        self.account.forget();
        match self.link.reconnect() {
            Event::None => false,
            Event::Changed => {
                self.allowance.spend(CHANGE);
                false
            }
            Event::Renewed => true,
        }
    }

    /// Records that the link is live and the client holds nothing.
    pub(crate) fn keep(&mut self, buffers: u32) {
        self.allowance.spend(CHANGE + buffers / 8);
        self.account.keep(self.link.generations(), self.link.positions());
    }
}
