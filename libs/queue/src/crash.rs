//! Sudden death at any store, for tests of what a restart finds (feature `crash`).
//!
//! A component writes to memory that outlives it store by store, and a fault can end its life
//! between any two. Each such store calls [`point`] first; after [`die_after`] the program panics
//! there. A host test catches that and starts the component again over the same memory; on the
//! target the supervisor does.

/// Makes this thread, on the target this component, panic once, before the step that comes after
/// `steps` more.
pub fn die_after(steps: u32) {
    left::set(Some(steps));
}

/// Cancels [`die_after`]. Returns how many steps were left, or `None` if no panic was due any more.
pub fn disarm() -> Option<u32> {
    let left = left::get();
    left::set(None);
    left
}

/// Runs a turn that ends with death after `death` more steps, if it has so many. Returns what the
/// turn does, and `None` after the death; `death` is then `None`, else the steps that are left.
///
/// # Panics
///
/// If the turn panics for another reason.
#[cfg(not(target_os = "none"))]
pub fn outlive<T>(death: &mut Option<u32>, turn: impl FnOnce() -> T) -> Option<T> {
    let is_armed = death.is_some();
    if let Some(steps) = death.take() {
        die_after(steps);
    }
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(turn));
    *death = disarm();
    match outcome {
        Ok(value) => Some(value),
        Err(_) if is_armed && death.is_none() => None,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A component in a host test, which can die and begin anew over the memory that it leaves.
#[cfg(not(target_os = "none"))]
#[derive(Debug)]
pub struct Mortal<T> {
    /// Its present life, if one has begun.
    pub life: Option<T>,
    /// The count of its lives that have ended.
    pub deaths: u32,
    /// The steps after which it dies, if it is to.
    pub death: Option<u32>,
}

#[cfg(not(target_os = "none"))]
impl<T> Mortal<T> {
    /// A component of which no life has begun, and that is not to die.
    pub const NEW: Self = Self { life: None, deaths: 0, death: None };

    /// Lets it have a turn. `turn` takes its life, or `None` if one has to begin, and gives it back
    /// with a result. Returns the result, or `None` if it has died.
    pub fn turn<R>(&mut self, turn: impl FnOnce(Option<T>) -> (T, R)) -> Option<R> {
        let life = self.life.take();
        let outcome = outlive(&mut self.death, || turn(life));
        self.deaths += u32::from(outcome.is_none());
        let (life, result) = outcome?;
        self.life = Some(life);
        Some(result)
    }
}

/// Runs a test once for each step at which a component can die. `run` is told the step, and returns
/// whether the component died there: where it did not, there are no more steps.
///
/// # Panics
///
/// If there are fewer than `least`: then the test does little.
#[cfg(not(target_os = "none"))]
pub fn at_every_step(least: u32, mut run: impl FnMut(u32) -> bool) {
    let mut steps = 0;
    while run(steps) {
        steps += 1;
    }
    assert!(steps > least, "{steps} steps only");
}

/// Marks that the next store is seen by others, or by the next life.
///
/// # Panics
///
/// If [`die_after`] asked for it here.
#[inline]
pub fn point() {
    match left::get() {
        None => {}
        Some(0) => {
            left::set(None);
            left::die();
        }
        Some(left) => left::set(Some(left - 1)),
    }
}

/// The steps that are left, and death, in a host test.
#[cfg(not(target_os = "none"))]
mod left {
    use core::cell::Cell;

    std::thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub fn get() -> Option<u32> {
        LEFT.get()
    }

    pub fn set(left: Option<u32>) {
        LEFT.set(left);
    }

    /// Panics without the message that a panic prints.
    pub fn die() -> ! {
        std::panic::resume_unwind(std::boxed::Box::new("a death that a test asked for"));
    }
}

/// The same in a component, which is one thread.
#[cfg(target_os = "none")]
mod left {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// One more than the count; 0 if no death is due.
    static LEFT: AtomicU64 = AtomicU64::new(0);

    pub fn get() -> Option<u32> {
        LEFT.load(Relaxed).checked_sub(1).map(|left| left as u32)
    }

    pub fn set(left: Option<u32>) {
        LEFT.store(left.map_or(0, |left| u64::from(left) + 1), Relaxed);
    }

    pub fn die() -> ! {
        panic!("the death that a test asked for");
    }
}
