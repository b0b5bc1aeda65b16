//! Statics that may be changed, without locks: tests run in threads, each of which has its own
//! copy.

/// A static of the domain's own.
pub(crate) struct Own<T: 'static> {
    value: &'static std::thread::LocalKey<T>,
}

impl<T> Own<T> {
    /// Wraps the thread's copy; called by [`own`].
    pub(crate) const fn new(value: &'static std::thread::LocalKey<T>) -> Self {
        Self { value }
    }

    /// Gives `function` the value.
    pub(crate) fn with<R>(&self, function: impl FnOnce(&T) -> R) -> R {
        self.value.with(|value| function(value))
    }
}

/// Declares a static of the domain's own: `own! { NAME: Type = value; }`.
macro_rules! own {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => { $(
        $(#[$doc])*
        static $name: $crate::arch::Own<$type> = $crate::arch::Own::new({
            std::thread_local! { static VALUE: $type = const { $value }; }
            &VALUE
        });
    )* };
}
pub(crate) use own;
