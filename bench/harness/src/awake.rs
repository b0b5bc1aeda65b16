//! Keeps a processor of the host from sleeping.
//!
//! A host takes tens of microseconds to wake a sleeping processor, and far more where the
//! host is itself a virtual machine. At a low rate that would be in every round trip, the same for
//! both sides, and hide what is measured.

use crate::spawn::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// A thread that spins on a processor while nothing else wants it.
#[derive(Debug)]
pub(crate) struct Awake {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Awake {
    /// Keeps this processor awake until the value is dropped; no processor: does nothing.
    pub(crate) fn keep(processor: Option<usize>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ours = stop.clone();
        let thread = processor.map(|_| {
            std::thread::spawn(move || {
                pin(processor);
                let granted = yields();
                while granted && !ours.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self { stop, thread }
    }
}

/// Lets the calling thread run only where no other would (sched(7), `SCHED_IDLE`); says whether
/// that was granted.
fn yields() -> bool {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the structure during the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) == 0 }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
