//! The parts of connections' structures, in each of their forms.
//!
//! A structure is declared once, generic over its [`Form`]. In the form [`Start`] it is what a
//! start block holds and a component reads. The build tool has a form of its own, with indices
//! where [`Start`] has addresses. What a field is called, says and is made of ([`Field`]) is the
//! same in all of them, and follows from the declaration.

use super::Ring;
use crate::start::{Memory, Span};
use core::fmt::Debug;

/// The types of a connection's fields.
pub trait Form: Copy + Debug {
    /// A queue.
    type Ring: Clone + Debug;
    /// Memory that the domain sees, or that it tells a device of.
    type Memory: Clone + Debug;
    /// The domain's own end of a channel.
    type Channel: Clone + Debug;
    /// The rights of the domain over a channel.
    type Rights: Clone + Debug;
    /// Text.
    type Text: Clone + Debug;
    /// Yes or no.
    type Flag: Clone + Debug;
    /// A queue, memory or a channel's end that may be absent.
    type Optional<T: Clone + Debug>: Clone + Debug;
    /// Any number of structures.
    type List<T: Clone + Debug>: Clone + Debug;
}

/// The form in a start block: little-endian words of fixed layout, read as they lie there.
#[derive(Clone, Copy, Debug)]
pub struct Start;

impl Form for Start {
    type Ring = Ring;
    type Memory = Memory;
    /// Its number.
    type Channel = u32;
    /// [`crate::system::end_rights`].
    type Rights = u32;
    type Text = Span;
    /// 1 for yes, 0 for no.
    type Flag = u32;
    /// All zero where it is absent: a ring of capacity 0, memory of size 0. (A channel's end may
    /// have the number 0: one that is absent belongs to queues that are.)
    type Optional<T: Clone + Debug> = T;
    type List<T: Clone + Debug> = Span;
}

/// A structure that a connection consists of; `derive(Structure)` implements it.
pub trait Structure<F: Form>: Clone + Debug {
    /// Its fields, in their order.
    const FIELDS: &'static [Field];
    /// Bytes that it takes in a start block.
    const SIZE: usize;

    /// Shows each field, in their order.
    fn visit(&self, visitor: &mut impl Visitor<F>);
}

/// A structure that is all of one kind of connection.
pub trait Connection {
    /// The kind.
    const KIND: Kind;
}

/// A visitor of each field of a structure.
pub trait Visitor<F: Form> {
    /// A queue.
    fn ring(&mut self, field: &'static Field, value: &F::Ring);
    /// A queue that may be absent.
    fn optional_ring(&mut self, field: &'static Field, value: &F::Optional<F::Ring>);
    /// Memory.
    fn memory(&mut self, field: &'static Field, value: &F::Memory);
    /// Memory that may be absent.
    fn optional_memory(&mut self, field: &'static Field, value: &F::Optional<F::Memory>);
    /// A channel's end.
    fn channel(&mut self, field: &'static Field, value: &F::Channel);
    /// A channel's end that may be absent.
    fn optional_channel(&mut self, field: &'static Field, value: &F::Optional<F::Channel>);
    /// Rights over a channel.
    fn rights(&mut self, field: &'static Field, value: &F::Rights);
    /// Text.
    fn text(&mut self, field: &'static Field, value: &F::Text);
    /// Yes or no.
    fn flag(&mut self, field: &'static Field, value: &F::Flag);
    /// A number.
    fn number(&mut self, field: &'static Field, value: u64);
    /// A hardware address.
    fn mac(&mut self, field: &'static Field, value: [u8; 6]);
    /// Structures.
    fn list<T: Structure<F>>(&mut self, field: &'static Field, values: &F::List<T>);
}

/// A field of a structure, the same in every form.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its documentation, in one line of Markdown.
    pub documentation: &'static str,
    /// The kind of its content.
    pub kind: FieldKind,
    /// It may be absent.
    pub optional: bool,
    /// Memory that nobody but the domain may write.
    pub exclusive: bool,
    /// Where it stands in a start block, from the structure's first byte.
    pub offset: usize,
}

/// The kind of a field's content.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// [`Form::Ring`].
    Ring,
    /// [`Form::Memory`].
    Memory,
    /// [`Form::Channel`].
    Channel,
    /// [`Form::Rights`].
    Rights,
    /// [`Form::Text`].
    Text,
    /// [`Form::Flag`].
    Flag,
    /// A number.
    Number {
        /// Bytes that it takes.
        bytes: usize,
    },
    /// A hardware address, 6 bytes.
    Mac,
    /// [`Form::List`] of structures with these fields.
    List(&'static [Field]),
}

/// A kind of connection.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its number in start blocks ([`crate::start::Connection::kind`]).
    pub number: u32,
    /// Its name in manifests.
    pub name: &'static str,
    /// The name of its structure.
    pub structure: &'static str,
    /// Its description, in one line of Markdown.
    pub documentation: &'static str,
    /// The class that it belongs to, if it belongs to one.
    pub class: Option<&'static str>,
    /// Where its connections come from.
    pub role: Role,
    /// The fields of its structure.
    pub fields: &'static [Field],
}

/// Where the connections of a kind come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A table of the system file joins two or more domains.
    Described,
    /// A domain's own key in the system file names a provider of the kind's class.
    Client,
    /// The driver's side of the kind's class: virtualisers stand between it and the clients.
    Driver,
    /// The far end of the kind's clients: the component that has it provides the class itself.
    Provider,
    /// The build tool adds a domain for it.
    Made,
    /// The system file grants it; no manifest asks for it.
    Granted,
}
