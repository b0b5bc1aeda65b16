//! The class-specific part of each connection in a start block.
//!
//! A structure here says what one side of a connection is given: where its queues and data are, and
//! which channel to notify. It is declared once, generic over its [`Form`], in the file of its
//! class; the derive makes the rest. A structure that belongs to a kind of connection stands in the
//! list at the end of this file besides.

mod basic;
pub mod block;
mod bus;
mod clock;
mod entropy;
pub mod file;
mod form;
mod gpio;
mod guest;
pub mod net;
mod observation;
mod serial;
mod supervision;

pub use basic::{Channel, Device, Interrupt, Region};
pub use block::{BlockClient, BlockDriver, BlockMemory, BlockMemoryRegion, BlockVirtualiser, BlockVirtualiserClient};
pub use bus::{BusClient, BusProvider, BusProviderClient};
pub use clock::{ClockClient, ClockProvider};
pub use entropy::{ENTROPY_WORDS, EntropyClient, EntropyProvider, EntropyProviderClient};
pub use file::{FileClient, FileProvider, FileProviderClient};
pub use form::{Connection, Field, FieldKind, Form, Kind, Role, Start, Structure, Visitor};
pub use gpio::{GpioClient, GpioProvider, GpioProviderClient};
pub use guest::{Guest, GuestCpu};
pub use net::{
    NetBare, NetClient, NetCopier, NetDriver, NetLink, NetProvider, NetProviderClient, NetRxClient, NetRxVirtualiser,
    NetTxClient, NetTxVirtualiser,
};
pub use observation::{
    CounterName, Counters, MAX_COUNTERS, Observation, ObservedDomain, ObservedRing, TROUBLE_WORDS, Trouble,
};
pub use serial::{SerialClient, SerialDriver, SerialVirtualiser, SerialVirtualiserClient};
pub use supervision::{Child, Supervision, fault_action};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One ring of the `culm-queue` crate in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ring {
    /// Virtual address of the ring's header; the entries follow it.
    pub address: u64,
    /// Entries, a power of two.
    pub capacity: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// Declares which structures belong to a kind of connection.
macro_rules! connections {
    ($($structure:ident),* $(,)?) => {
        /// A connection of any kind.
        #[derive(Clone, Debug)]
        pub enum AnyConnection<F: Form> {
            $(#[doc = concat!("[`", stringify!($structure), "`].")] $structure($structure<F>),)*
        }

        impl<F: Form> AnyConnection<F> {
            /// Its kind.
            pub fn kind(&self) -> &'static Kind {
                match self {
                    $(Self::$structure(_) => const { &$structure::<F>::KIND },)*
                }
            }

            /// Shows each field, in their order.
            pub fn visit(&self, visitor: &mut impl Visitor<F>) {
                match self {
                    $(Self::$structure(connection) => connection.visit(visitor),)*
                }
            }

            /// Bytes that its structure takes in a start block.
            pub fn size(&self) -> usize {
                match self {
                    $(Self::$structure(_) => <$structure<F> as Structure<F>>::SIZE,)*
                }
            }
        }

        $(impl<F: Form> From<$structure<F>> for AnyConnection<F> {
            fn from(connection: $structure<F>) -> Self {
                Self::$structure(connection)
            }
        })*

        /// Every kind of connection.
        pub const KINDS: &[Kind] = &[$($structure::<Start>::KIND),*];
    };
}

connections!(
    Channel,
    Region,
    Device,
    NetDriver,
    NetRxVirtualiser,
    NetTxVirtualiser,
    NetCopier,
    NetProvider,
    NetLink,
    NetClient,
    NetBare,
    BlockDriver,
    BlockMemory,
    BlockVirtualiser,
    BlockClient,
    FileProvider,
    FileClient,
    EntropyProvider,
    EntropyClient,
    SerialDriver,
    SerialVirtualiser,
    SerialClient,
    ClockProvider,
    ClockClient,
    GpioProvider,
    GpioClient,
    BusProvider,
    BusClient,
    Guest,
    Supervision,
    Observation,
);

/// Two kinds of one number would be taken for each other.
const _: () = {
    let mut kind = 0;
    while kind < KINDS.len() {
        let mut other = 0;
        while other < kind {
            assert!(KINDS[other].number != KINDS[kind].number, "two kinds of connection have one number");
            other += 1;
        }
        kind += 1;
    }
};

/// Memory that nobody but its domain may write: numbers of kinds, each with the offset of a
/// [`crate::start::Memory`] in the kind's structure. (Components that look for such memory link
/// this, and not all of [`KINDS`] with its words.)
pub const EXCLUSIVE: &[(u32, usize)] = &exclusive::<{ exclusive::<0>().1 }>().0;

/// The first `N` fields that are exclusive, and how many there are.
const fn exclusive<const N: usize>() -> ([(u32, usize); N], usize) {
    let (mut found, mut count, mut kind) = ([(0, 0); N], 0, 0);
    while kind < KINDS.len() {
        let fields = KINDS[kind].fields;
        let mut field = 0;
        while field < fields.len() {
            if fields[field].exclusive {
                assert!(matches!(fields[field].kind, FieldKind::Memory), "only memory is exclusive");
                if count < N {
                    found[count] = (KINDS[kind].number, fields[field].offset);
                }
                count += 1;
            }
            field += 1;
        }
        kind += 1;
    }
    (found, count)
}
