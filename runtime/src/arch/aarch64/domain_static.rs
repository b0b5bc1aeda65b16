//! Statics that may be changed, without locks: a protection domain has exactly one thread, and
//! nothing interrupts it that runs code in its address space.

/// A static of the domain's own.
pub(crate) struct DomainCell<T: 'static> {
    value: T,
}

// SAFETY: [D1] a protection domain has one thread, so no two threads can ever share the value.
unsafe impl<T> Sync for DomainCell<T> {}

impl<T> DomainCell<T> {
    /// Wraps the initial value; called by [`domain_static`].
    pub(crate) const fn new(value: T) -> Self {
        Self { value }
    }

    /// Gives `function` the value.
    #[inline(always)]
    pub(crate) fn with<R>(&self, function: impl FnOnce(&T) -> R) -> R {
        function(&self.value)
    }
}

/// Declares a static of the domain's own: `domain_static! { NAME: Type = value; }`.
macro_rules! domain_static {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => { $(
        $(#[$doc])*
        static $name: $crate::arch::DomainCell<$type> = $crate::arch::DomainCell::new($value);
    )* };
}
pub(crate) use domain_static;
