//! The serial class. Entries of its rings are bytes.

use super::{Form, Start};
use crate::system::end_rights::NOTIFY;
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Serial class, driver's side. Rings and channel are absent where the virtualiser is in the
/// driver's own domain.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 32, name = "serial-driver", class = "serial", role = Driver)]
#[repr(C)]
pub struct SerialDriver<F: Form = Start> {
    /// Bytes to send.
    pub tx: F::Optional<F::Ring>,
    /// Bytes received.
    pub rx: F::Optional<F::Ring>,
    /// Channel to the virtualiser.
    pub channel: F::Optional<F::Channel>,
}

/// Serial class, virtualiser. Rings and channel to the driver are absent where that is in the same
/// domain.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 33, name = "serial-virtualiser", class = "serial", role = Made)]
#[repr(C)]
pub struct SerialVirtualiser<F: Form = Start> {
    /// Bytes to the driver.
    pub driver_tx: F::Optional<F::Ring>,
    /// Bytes from the driver.
    pub driver_rx: F::Optional<F::Ring>,
    /// Channel to the driver.
    pub driver_channel: F::Optional<F::Channel>,
    /// Who sends and receives.
    pub clients: F::List<SerialVirtualiserClient<F>>,
}

/// One client of a [`SerialVirtualiser`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct SerialVirtualiserClient<F: Form = Start> {
    /// Bytes from the client.
    pub tx: F::Ring,
    /// Bytes to the client: input, or the log's lines; absent where the description gives it
    /// neither.
    pub rx: F::Optional<F::Ring>,
    /// The operator's commands to the client, a letter each; absent where it takes none.
    pub commands: F::Optional<F::Ring>,
    /// Channel to the client.
    pub channel: F::Channel,
    /// The rights of the virtualiser over that channel: it may not notify who only logs, which
    /// waits for nothing.
    pub rights: F::Rights,
    /// The client's name, which stands before what it prints. That of a console whose domain runs
    /// a guest is the guest's.
    pub name: F::Text,
    /// Whether it is given the log, and no input.
    pub log: F::Flag,
    /// Whether it begins in focus: with what is typed.
    pub focus: F::Flag,
}

impl SerialVirtualiserClient {
    /// Whether the virtualiser may notify the client.
    pub const fn may_notify(&self) -> bool {
        self.rights & NOTIFY != 0
    }

    /// Whether the client is given the log, and no input.
    pub const fn listens(&self) -> bool {
        self.log != 0
    }

    /// Whether it begins in focus.
    pub const fn begins_in_focus(&self) -> bool {
        self.focus != 0
    }
}

/// Serial class, client. Every domain has one for its log, unless it says `log = "off"`.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 34, name = "serial-client", class = "serial", role = Client)]
#[repr(C)]
pub struct SerialClient<F: Form = Start> {
    /// Bytes to send.
    pub tx: F::Ring,
    /// Bytes received: input, or the log's lines; absent where the description gives neither.
    pub rx: F::Optional<F::Ring>,
    /// The operator's commands: letters typed behind Ctrl-] while this console is in focus; absent
    /// where the description gives none.
    pub commands: F::Optional<F::Ring>,
    /// Channel to the virtualiser.
    pub channel: F::Channel,
}
