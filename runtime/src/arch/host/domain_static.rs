//! Statics that may be changed, without locks: tests run in threads, each of which has its own
//! copy.

/// A static of the domain's own.
pub(crate) struct DomainCell<T: 'static> {
    value: &'static std::thread::LocalKey<T>,
}

impl<T> DomainCell<T> {
    /// Wraps the thread's copy; called by [`domain_static`].
    pub(crate) const fn new(value: &'static std::thread::LocalKey<T>) -> Self {
        Self { value }
    }

    /// Gives `function` the value.
    pub(crate) fn with<R>(&self, function: impl FnOnce(&T) -> R) -> R {
        self.value.with(|value| function(value))
    }
}

/// Declares a static of the domain's own: `domain_static! { NAME: Type = value; }`.
macro_rules! domain_static {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => { $(
        $(#[$doc])*
        static $name: $crate::arch::DomainCell<$type> = $crate::arch::DomainCell::new({
            std::thread_local! { static VALUE: $type = const { $value }; }
            &VALUE
        });
    )* };
}
pub(crate) use domain_static;
