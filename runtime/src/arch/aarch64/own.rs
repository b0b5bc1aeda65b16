//! Statics that may be changed, without locks: a protection domain has exactly one thread, and
//! nothing interrupts it that runs code in its address space.

/// A static of the domain's own.
pub(crate) struct Own<T: 'static> {
    value: T,
}

// SAFETY: a protection domain has one thread, so no two threads can ever share the value.
unsafe impl<T> Sync for Own<T> {}

impl<T> Own<T> {
    /// Wraps the initial value; called by [`own`].
    pub(crate) const fn new(value: T) -> Self {
        Self { value }
    }

    /// Gives `function` the value.
    #[inline(always)]
    pub(crate) fn with<R>(&self, function: impl FnOnce(&T) -> R) -> R {
        function(&self.value)
    }
}

/// Declares a static of the domain's own: `own! { NAME: Type = value; }`.
macro_rules! own {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => { $(
        $(#[$doc])*
        static $name: $crate::arch::Own<$type> = $crate::arch::Own::new($value);
    )* };
}
pub(crate) use own;
