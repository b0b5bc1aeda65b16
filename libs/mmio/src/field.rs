//! Fields of registers, and the macros that declare them.

use crate::Layout;
use core::fmt;
use core::marker::PhantomData;

/// Some bits of a register of layout `L`, and what they mean.
pub struct Field<L, T = bool> {
    shift: u32,
    mask: u32,
    kind: PhantomData<(L, T)>,
}

impl<L: Layout, T: Value> Field<L, T> {
    /// Returns the field from bit `first` to bit `last`.
    ///
    /// # Panics
    ///
    /// If the register does not have them, or the type has no value for some of what they can be;
    /// in a constant, that does not compile.
    pub const fn bits(first: u32, last: u32) -> Self {
        assert!(first <= last && last < 8 * size_of::<L::Width>() as u32, "bits that the register does not have");
        let count = last - first + 1;
        assert!(count <= T::BITS, "bits that the field's type has no value for");
        Self { shift: first, mask: u32::MAX >> (32 - count), kind: PhantomData }
    }

    /// Returns what these bits of `register` mean.
    #[doc(hidden)]
    #[inline(always)]
    pub fn get(self, register: u32) -> T {
        T::from_bits(register >> self.shift & self.mask)
    }

    /// Returns `register` with these bits changed; of a value that does not fit, the low bits.
    #[doc(hidden)]
    #[inline(always)]
    pub fn put(self, register: u32, value: T) -> u32 {
        register & !(self.mask << self.shift) | (value.into_bits() & self.mask) << self.shift
    }

    /// Returns these bits, all set.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn ones(self) -> u32 {
        self.mask << self.shift
    }
}

impl<L, T> Clone for Field<L, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, T> Copy for Field<L, T> {}

impl<L, T> fmt::Debug for Field<L, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Field({:#x} << {})", self.mask, self.shift)
    }
}

/// The values of a field. Every value of its bits means something, since a device can write any.
pub trait Value: Copy {
    /// Bits that it takes at most.
    const BITS: u32;

    /// Returns what these bits mean.
    fn from_bits(bits: u32) -> Self;

    /// Returns the bits.
    fn into_bits(self) -> u32;
}

impl Value for bool {
    const BITS: u32 = 1;

    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits != 0
    }

    #[inline(always)]
    fn into_bits(self) -> u32 {
        self.into()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Value for $number {
            const BITS: u32 = <$number>::BITS;

            #[inline(always)]
            fn from_bits(bits: u32) -> Self {
                bits as Self
            }

            #[inline(always)]
            fn into_bits(self) -> u32 {
                self.into()
            }
        }
    )* };
}

numbers!(u8, u16, u32);

/// Declares registers, each with its layout, offset, access (`read`, `write` or both), and fields.
///
/// `NAME: Layout(u32) at OFFSET, read write { FIELD: 3, OTHER: 4..=6 as Type, }` declares the
/// constant `NAME` and the structure `Layout`, whose constants are its fields. A field without a
/// type is a `bool`. `NAME: Layout at OFFSET, read;` takes a layout that is declared elsewhere, or
/// a number.
///
/// A layout has `ZERO`, and `has`, `set` and `clear` for flags (constant functions), `get` and
/// `with` for fields of any type.
#[macro_export]
macro_rules! registers {
    (@access read) => { $crate::ReadOnly };
    (@access write) => { $crate::WriteOnly };
    (@access read write) => { $crate::ReadWrite };
    (@last $first:literal) => { $first };
    (@last $first:literal $last:literal) => { $last };
    (@type) => { bool };
    (@type $type:ty) => { $type };
    () => {};
    (
        $(#[$doc:meta])*
        $visibility:vis $register:ident: $layout:ident($width:ty) at $offset:expr, $($access:ident)+ {
            $($(#[$field_doc:meta])* $field:ident: $first:literal $(..= $last:literal)? $(as $type:ty)?),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        $visibility const $register: $crate::Register<$layout, $crate::registers!(@access $($access)+)> =
            $crate::Register::at($offset);

        #[doc = concat!("Layout of [`", stringify!($register), "`].")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $visibility struct $layout($width);

        #[allow(dead_code, reason = "a driver has a use for some of a register's fields only")]
        impl $layout {
            $(
                $(#[$field_doc])*
                $visibility const $field: $crate::Field<Self, $crate::registers!(@type $($type)?)> =
                    $crate::Field::bits($first, $crate::registers!(@last $first $($last)?));
            )*

            /// All bits 0.
            $visibility const ZERO: Self = Self(0);

            /// Returns whether a flag is set.
            #[inline(always)]
            $visibility const fn has(self, flag: $crate::Field<Self>) -> bool {
                self.0 as u32 & flag.ones() != 0
            }

            /// Returns the same with a flag set.
            #[inline(always)]
            $visibility const fn set(self, flag: $crate::Field<Self>) -> Self {
                Self(self.0 | flag.ones() as $width)
            }

            /// Returns the same without a flag.
            #[inline(always)]
            $visibility const fn clear(self, flag: $crate::Field<Self>) -> Self {
                Self(self.0 & !(flag.ones() as $width))
            }

            /// Returns what a field holds.
            #[inline(always)]
            $visibility fn get<T: $crate::Value>(self, field: $crate::Field<Self, T>) -> T {
                field.get($crate::Width::extend(self.0))
            }

            /// Returns the same with another value in a field; of one that does not fit, its low
            /// bits.
            #[inline(always)]
            $visibility fn with<T: $crate::Value>(self, field: $crate::Field<Self, T>, value: T) -> Self {
                Self($crate::Width::truncate(field.put($crate::Width::extend(self.0), value)))
            }
        }

        impl $crate::Layout for $layout {
            type Width = $width;

            #[inline(always)]
            fn from_bits(bits: $width) -> Self {
                Self(bits)
            }

            #[inline(always)]
            fn bits(self) -> $width {
                self.0
            }
        }

        $crate::registers! { $($rest)* }
    };
    (
        $(#[$doc:meta])*
        $visibility:vis $register:ident: $layout:ident at $offset:expr, $($access:ident)+;
        $($rest:tt)*
    ) => {
        $(#[$doc])*
        $visibility const $register: $crate::Register<$layout, $crate::registers!(@access $($access)+)> =
            $crate::Register::at($offset);

        $crate::registers! { $($rest)* }
    };
}

/// Declares a type for what some bits of a register mean: a name for each of their values that
/// means something. Others can be read all the same, since a device can write any, so a `match` has
/// an arm for them.
///
/// `Name: 2 bits { FIRST = 0, SECOND = 0b10, }` is for a field. `Name: u32 { … }` is for a whole
/// register.
#[macro_export]
macro_rules! values {
    ($(#[$doc:meta])* $visibility:vis $name:ident: $bits:literal bits { $($values:tt)* }) => {
        $crate::values! { @type $(#[$doc])* $visibility $name u32, $bits, $($values)* }
    };
    ($(#[$doc:meta])* $visibility:vis $name:ident: $width:ty { $($values:tt)* }) => {
        $crate::values! { @type $(#[$doc])* $visibility $name $width, <$width>::BITS, $($values)* }

        impl $crate::Layout for $name {
            type Width = $width;

            #[inline(always)]
            fn from_bits(bits: $width) -> Self {
                Self(bits)
            }

            #[inline(always)]
            fn bits(self) -> $width {
                self.0
            }
        }
    };
    (
        @type $(#[$doc:meta])* $visibility:vis $name:ident $width:ty, $bits:expr,
        $($(#[$value_doc:meta])* $value:ident = $number:expr),* $(,)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility struct $name($width);

        #[allow(dead_code, reason = "a driver has a use for some values only")]
        impl $name {
            $(
                $(#[$value_doc])*
                $visibility const $value: Self = {
                    assert!(($number as u64) < 1 << $bits, "a value that the bits cannot have");
                    Self($number)
                };
            )*

            /// Returns the number that the bits are.
            #[inline(always)]
            $visibility const fn number(self) -> $width {
                self.0
            }
        }

        impl $crate::Value for $name {
            const BITS: u32 = $bits;

            #[inline(always)]
            fn from_bits(bits: u32) -> Self {
                Self($crate::Width::truncate(bits))
            }

            #[inline(always)]
            fn into_bits(self) -> u32 {
                $crate::Width::extend(self.0)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{Layout, Registers, Width};
    use core::cell::Cell;

    registers! {
        /// One of everything.
        CONTROL: Control(u32) at 0x10, read write {
            /// A flag.
            ENABLE: 0,
            /// The highest flag.
            LAST: 31,
            /// Named values.
            MODE: 4..=5 as Mode,
            /// A number.
            COUNT: 8..=15 as u8,
        }
        /// Narrow.
        STATE: State(u8) at 0x01, read {
            /// A flag.
            READY: 7,
        }
        /// The same as another.
        COMMAND: Control at 0x14, write;
        /// A number.
        DATA: u16 at 0x02, read write;
        /// Named values.
        KIND: Kind at 0x20, read;
    }

    values! {
        /// Two bits.
        Mode: 2 bits {
            /// Slow.
            SLOW = 0b01,
            /// Fast.
            FAST = 0b10,
        }
    }

    values! {
        /// A register.
        Kind: u32 {
            /// None.
            NONE = 0,
            /// Many.
            MANY = 0xffff_ffff,
        }
    }

    /// The last access, and what is read.
    #[derive(Default)]
    struct Fake {
        last: Cell<(usize, usize, u32)>,
        value: Cell<u32>,
    }

    impl Registers for Fake {
        fn load<W: Width>(&self, offset: usize) -> W {
            self.last.set((offset, size_of::<W>(), 0));
            W::truncate(self.value.get())
        }

        fn store<W: Width>(&self, offset: usize, value: W) {
            self.last.set((offset, size_of::<W>(), value.extend()));
        }
    }

    #[test]
    fn fields_are_read_where_they_are() {
        let control = Control::from_bits(0x8000_ab21);
        assert!(control.has(Control::ENABLE) && control.has(Control::LAST));
        assert_eq!((control.get(Control::MODE), control.get(Control::COUNT)), (Mode::FAST, 0xab));
        assert!(!control.clear(Control::LAST).get(Control::LAST));
    }

    #[test]
    fn a_field_is_changed_and_nothing_else() {
        let control = Control::from_bits(0x8000_ab21);
        assert_eq!(control.with(Control::MODE, Mode::SLOW).bits(), 0x8000_ab11);
        assert_eq!(control.with(Control::COUNT, 0).bits(), 0x8000_0021);
        assert_eq!(control.with(Control::LAST, false).clear(Control::ENABLE).bits(), 0xab20);
        assert_eq!(Control::ZERO.set(Control::LAST).set(Control::ENABLE).bits(), 0x8000_0001);
    }

    #[test]
    fn a_value_that_has_no_name_is_kept() {
        let mode = Control::from_bits(0x30).get(Control::MODE);
        assert!(mode != Mode::SLOW && mode != Mode::FAST && mode.number() == 3);
    }

    #[test]
    fn accesses_have_the_registers_width() {
        let fake = Fake::default();
        fake.value.set(0x1_ff80);
        assert!(fake.read(STATE).has(State::READY));
        assert_eq!(fake.last.get(), (0x01, 1, 0));
        assert_eq!(fake.read(DATA), 0xff80);
        fake.write(DATA, 0x1234);
        assert_eq!(fake.last.get(), (0x02, 2, 0x1234));
        fake.write(COMMAND, Control::ZERO.with(Control::COUNT, 3));
        assert_eq!(fake.last.get(), (0x14, 4, 0x300));
        fake.write(CONTROL, fake.read(CONTROL).set(Control::LAST));
        assert_eq!(fake.last.get(), (0x10, 4, 0x8001_ff80));
        fake.value.set(u32::MAX);
        assert_eq!(fake.read(KIND), Kind::MANY);
    }
}
