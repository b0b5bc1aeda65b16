//! Configuration values, from the words of a start block to the types of a component's `Config`.

use crate::archive::Archive;
use crate::start::{self, RawValue, StartBlock};
use core::fmt;
use core::time::Duration;
use culm_abi::start::{Memory, Span, Value};

/// A type that a field of a configuration can have.
pub trait ConfigValue: Sized {
    /// Reads it. The build tool has checked it against the manifest.
    fn read(raw: RawValue) -> Self;
}

macro_rules! integers {
    ($($integer:ty),*) => { $(
        impl ConfigValue for $integer {
            fn read(raw: RawValue) -> Self {
                raw.value.a as Self
            }
        }
    )* };
}

integers!(u8, u16, u32, u64, i64);

impl ConfigValue for bool {
    fn read(raw: RawValue) -> Self {
        raw.value.a != 0
    }
}

/// `duration`.
impl ConfigValue for Duration {
    fn read(raw: RawValue) -> Self {
        Self::from_nanos(raw.value.a)
    }
}

/// `string`.
impl ConfigValue for &'static str {
    fn read(raw: RawValue) -> Self {
        raw.block.text(Span { offset: raw.value.a as u32, count: raw.value.b as u32 })
    }
}

/// `mac`.
impl ConfigValue for [u8; 6] {
    fn read(raw: RawValue) -> Self {
        let bytes: &[u8] = raw.block.list(Span { offset: raw.value.a as u32, count: 6 });
        [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
    }
}

/// `file`.
impl ConfigValue for &'static [u8] {
    fn read(raw: RawValue) -> Self {
        start::content(Memory { address: raw.value.a, size: raw.value.b, dma: 0 })
    }
}

/// `folder`.
impl ConfigValue for Archive<'static> {
    fn read(raw: RawValue) -> Self {
        Self::new(<&[u8]>::read(raw)).expect("the build tool packs folders")
    }
}

/// `list-of-string`.
impl ConfigValue for Strings {
    fn read(raw: RawValue) -> Self {
        let values = raw.block.list(Span { offset: raw.value.a as u32, count: raw.value.b as u32 });
        Self(Source::Block(raw.block, values))
    }
}

/// `cache-control`: its patterns and directives by turns.
impl ConfigValue for Pairs {
    fn read(raw: RawValue) -> Self {
        Self(Strings::read(raw))
    }
}

/// A field that is `optional` in the manifest.
impl<T: ConfigValue> ConfigValue for Option<T> {
    fn read(raw: RawValue) -> Self {
        let absent = raw.value.a == u64::MAX && raw.value.b == u64::MAX;
        if absent { None } else { Some(T::read(raw)) }
    }
}

/// A list of texts.
#[derive(Clone, Copy)]
pub struct Strings(Source);

#[derive(Clone, Copy)]
enum Source {
    Block(StartBlock, &'static [Value]),
    Slice(&'static [&'static str]),
}

impl Strings {
    /// A list for tests.
    pub const fn new(strings: &'static [&'static str]) -> Self {
        Self(Source::Slice(strings))
    }

    /// Count of texts.
    pub const fn len(&self) -> usize {
        match self.0 {
            Source::Block(_, values) => values.len(),
            Source::Slice(strings) => strings.len(),
        }
    }

    /// Whether there is no text.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Text `index`.
    pub fn get(&self, index: usize) -> Option<&'static str> {
        match self.0 {
            Source::Block(block, values) => {
                let value = *values.get(index)?;
                Some(<&str>::read(RawValue { block, value }))
            }
            Source::Slice(strings) => strings.get(index).copied(),
        }
    }

    /// The texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        let strings = *self;
        (0..self.len()).filter_map(move |index| strings.get(index))
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

/// A table from texts to texts.
#[derive(Clone, Copy)]
pub struct Pairs(Strings);

impl Pairs {
    /// A table for tests, as keys and values by turns.
    pub const fn new(strings: &'static [&'static str]) -> Self {
        Self(Strings::new(strings))
    }

    /// Keys and values in the order of the system file.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str)> + Clone + use<> {
        let strings = self.0;
        (0..strings.len() / 2).filter_map(move |index| Some((strings.get(index * 2)?, strings.get(index * 2 + 1)?)))
    }
}

impl fmt::Debug for Pairs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.iter()).finish()
    }
}
