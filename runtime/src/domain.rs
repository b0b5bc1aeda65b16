//! State of this protection domain's own: statics that may be changed, without locks.
//!
//! A protection domain has exactly one thread, and nothing interrupts it that runs code in its address space. On the
//! host, where tests run in threads, each thread has its own copy.

/// A static of the domain's own.
pub(crate) struct Own<T: 'static> {
    #[cfg(target_os = "none")]
    value: T,
    #[cfg(not(target_os = "none"))]
    value: &'static std::thread::LocalKey<T>,
}

// SAFETY: a protection domain has one thread, so no two threads can ever share the value.
#[cfg(target_os = "none")]
unsafe impl<T> Sync for Own<T> {}

impl<T> Own<T> {
    /// Wraps the initial value; called by [`own`].
    #[cfg(target_os = "none")]
    pub(crate) const fn new(value: T) -> Self {
        Self { value }
    }

    /// Wraps the thread's copy; called by [`own`].
    #[cfg(not(target_os = "none"))]
    pub(crate) const fn new(value: &'static std::thread::LocalKey<T>) -> Self {
        Self { value }
    }

    /// Gives `function` the value.
    #[inline(always)]
    pub(crate) fn with<R>(&self, function: impl FnOnce(&T) -> R) -> R {
        #[cfg(target_os = "none")]
        return function(&self.value);
        #[cfg(not(target_os = "none"))]
        self.value.with(|value| function(value))
    }
}

/// Declares a static of the domain's own: `own! { NAME: Type = value; }`.
macro_rules! own {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => { $(
        $(#[$doc])*
        #[cfg(target_os = "none")]
        static $name: $crate::domain::Own<$type> = $crate::domain::Own::new($value);
        $(#[$doc])*
        #[cfg(not(target_os = "none"))]
        static $name: $crate::domain::Own<$type> = $crate::domain::Own::new({
            std::thread_local! { static VALUE: $type = const { $value }; }
            &VALUE
        });
    )* };
}
pub(crate) use own;
