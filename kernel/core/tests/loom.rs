//! The protocol by which cores signal each other, checked for every interleaving that the memory
//! model allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p culm-kernel-core --test loom`
#![cfg(loom)]

use culm_abi::syscall::FaultReport;
use culm_kernel_core::generated::Target;
use culm_kernel_core::notification::{NotificationWord, Receiver};
use culm_kernel_core::pending::{PendingDomains, Posted};
use culm_kernel_core::system::{Command, Shared};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// The state that two cores share for one domain of the second, and the interrupt line between
/// them.
#[derive(Default)]
struct Shore {
    words: [NotificationWord; 2],
    pending: PendingDomains,
    line: Mutex<bool>,
    rises: Condvar,
    data: [AtomicU64; 2],
    shared: Shared,
}

impl Shore {
    /// Does what `Core::wake_any` does for a domain of another core.
    fn post(&self) {
        if self.pending.post(0) == Posted::First {
            *self.line.lock().unwrap() = true;
            self.rises.notify_one();
        }
    }

    fn signal(&self, word: usize, bit: u32) {
        if self.words[word].signal(bit) == Receiver::Asleep {
            self.post();
        }
    }

    /// Does what the other core does when its domain sleeps: idle until the line goes up, then look
    /// into the pending domains. A lost wake-up shows as a deadlock, which loom reports.
    fn idle(&self) -> u64 {
        let mut line = self.line.lock().unwrap();
        while !*line {
            line = self.rises.wait(line).unwrap();
        }
        *line = false;
        drop(line);
        self.pending.take()
    }

    /// Does what the other core does at an IPI: wakes a domain that waits and is notified
    /// (`Core::ipi`), else idles on.
    fn idle_until_pending(&self, word: usize) {
        while !self.words[word].is_pending() {
            self.idle();
        }
    }

    /// One wait over the first `groups` words, as `Core::receive` and `Core::collect` do it.
    fn wait(&self, groups: usize) -> u64 {
        let words = &self.words[..groups];
        let mut asleep = true;
        for word in words {
            asleep &= word.sleep();
        }
        if asleep {
            self.idle();
        }
        let mut got = 0;
        for (group, word) in words.iter().enumerate() {
            if got == 0 { got = word.take() << (group * 8) } else { word.awake() }
        }
        got
    }
}

#[test]
fn no_signal_of_two_senders_is_lost() {
    loom::model(|| {
        let shore = Arc::new(Shore::default());
        let senders: Vec<_> = (0..2)
            .map(|bit| {
                let shore = shore.clone();
                thread::spawn(move || {
                    shore.data[bit].store(1, Ordering::Relaxed);
                    shore.signal(0, bit as u32);
                })
            })
            .collect();
        let mut got = 0;
        while got != 0b11 {
            let set = shore.wait(1);
            for bit in 0..2 {
                if set >> bit & 1 == 1 {
                    assert_eq!(shore.data[bit].load(Ordering::Relaxed), 1, "what was written before is seen");
                }
            }
            got |= set;
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
fn no_signal_is_lost_between_groups() {
    loom::model(|| {
        let shore = Arc::new(Shore::default());
        let senders: Vec<_> = (0..2)
            .map(|group| {
                let shore = shore.clone();
                thread::spawn(move || shore.signal(group, 0))
            })
            .collect();
        let mut got = 0;
        while got != 0x101 {
            got |= shore.wait(2);
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

/// A call finds its callee asleep and leaves the mark; the callee, when it has replied, looks only
/// whether it still stands there alone (`Core::fast_reply`). Mail that comes while it serves wakes
/// nobody (`Core::ipi`).
#[test]
fn a_callee_that_replies_misses_no_signal() {
    loom::model(|| {
        let shore = Arc::new(Shore::default());
        assert!(shore.words[0].sleep());
        let sender = {
            let shore = shore.clone();
            thread::spawn(move || {
                shore.data[0].store(1, Ordering::Relaxed);
                shore.signal(0, 0);
            })
        };
        if std::mem::take(&mut *shore.line.lock().unwrap()) {
            assert_eq!(shore.pending.take(), 1, "it serves a call: nothing is done about it");
        }
        if shore.words[0].still_asleep() {
            shore.idle();
        }
        assert_eq!(shore.words[0].take(), 1);
        assert_eq!(shore.data[0].load(Ordering::Relaxed), 1, "what was written before is seen");
        sender.join().unwrap();
    });
}

#[test]
fn the_last_command_reaches_the_other_core() {
    loom::model(|| {
        let shore = Arc::new(Shore::default());
        let sender = {
            let shore = shore.clone();
            thread::spawn(move || {
                shore.shared.command(Command::Stop);
                shore.post();
                shore.shared.command(Command::Restart);
                shore.post();
            })
        };
        let mut last = None;
        while last != Some(Command::Restart) {
            shore.idle();
            if let Some(command) = shore.shared.take_command() {
                last = Some(command);
            }
        }
        sender.join().unwrap();
    });
}

/// A domain goes to sleep on the fast path (`Core::fast_wait`), by the one step that fails where
/// something is pending, and hands the core to a peer that sleeps. Another core signals both
/// meanwhile.
#[test]
fn a_domain_that_sleeps_on_the_fast_path_and_its_peer_miss_no_signal() {
    loom::model(|| {
        let shore = Arc::new(Shore::default());
        assert!(shore.words[1].sleep());
        let sender = {
            let shore = shore.clone();
            thread::spawn(move || {
                for word in 0..2 {
                    shore.data[word].store(1, Ordering::Relaxed);
                    shore.signal(word, 0);
                }
            })
        };
        let fast = shore.words[0].sleep_idle();
        // The local signal wakes the peer, be another pending there or not; its IPI finds the peer
        // at work.
        let mut of_peer = shore.words[1].take_with(1);
        assert!(of_peer & 0b10 != 0);
        while of_peer & 1 == 0 {
            of_peer |= shore.words[1].take();
            thread::yield_now();
        }
        assert_eq!(shore.data[1].load(Ordering::Relaxed), 1, "what was written before is seen");
        if fast || shore.words[0].sleep() {
            shore.idle_until_pending(0);
        }
        assert_eq!(shore.words[0].take(), 1);
        assert_eq!(shore.data[0].load(Ordering::Relaxed), 1, "what was written before is seen");
        sender.join().unwrap();
    });
}

/// A domain that sleeps is restarted while another core signals it. The signal ends with the old
/// life or ends a wait of the new one, and an IPI for the old life ends none.
#[test]
fn a_signal_to_a_domain_that_restarts_is_of_one_life() {
    loom::model(|| {
        let shore = Arc::new(Shore::default());
        assert!(shore.words[0].sleep());
        let sender = {
            let shore = shore.clone();
            thread::spawn(move || shore.signal(0, 0))
        };
        // `Core::withdraw`.
        let of_the_old_life = shore.words[0].take();
        if of_the_old_life == 0 {
            if shore.words[0].sleep() {
                shore.idle_until_pending(0);
            }
            assert_eq!(shore.words[0].take(), 1);
        }
        sender.join().unwrap();
        assert!(shore.words[0].sleep(), "it was of one life only");
    });
}

impl Shore {
    /// Sends an interrupt to a virtual CPU of the other core (`Core::generate`).
    fn generate(&self, number: u32) {
        if self.shared.generated.generate(number) == Target::Listens {
            self.post();
        }
    }

    /// Does what that core does at an inter-processor interrupt while the guest is on it, and on
    /// the way back into the guest (`Core::guest_notified`, `Core::guest_enters`). Returns what the
    /// guest is given.
    fn enter_again(&self) -> u32 {
        self.shared.generated.ignore();
        if self.shared.generated.listens() { 0 } else { self.shared.generated.take_and_listen() }
    }
}

/// A guest goes on while two of its other CPUs send it interrupts: it gets each of them, from its
/// way in or by an interrupt of its core.
#[test]
fn a_guest_that_goes_on_misses_no_interrupt_of_its_other_cpus() {
    loom::model(|| {
        let shore = Arc::new(Shore::default());
        let senders: Vec<_> = (0..2)
            .map(|number| {
                let shore = shore.clone();
                thread::spawn(move || {
                    shore.data[number].store(1, Ordering::Relaxed);
                    shore.generate(number as u32);
                })
            })
            .collect();
        let mut got = shore.shared.generated.take_and_listen();
        while got != 0b11 {
            shore.idle();
            got |= shore.enter_again();
        }
        (0..2).for_each(|number| {
            assert_eq!(shore.data[number].load(Ordering::Relaxed), 1, "what was written before is seen");
        });
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

/// A guest begins to wait (`Core::idle_until_interrupt`) while another CPU of it sends an
/// interrupt, whether its core listens at first or not.
#[test]
fn a_guest_that_begins_to_wait_misses_no_interrupt_of_its_other_cpus() {
    for listens in [false, true] {
        loom::model(move || {
            let shore = Arc::new(Shore::default());
            if listens {
                assert_eq!(shore.shared.generated.take_and_listen(), 0);
            }
            let sender = {
                let shore = shore.clone();
                thread::spawn(move || shore.generate(3))
            };
            if shore.shared.generated.listen() {
                // `Core::guest_notified` for one that waits.
                while !shore.shared.generated.is_pending() {
                    shore.idle();
                }
            }
            assert_eq!(shore.enter_again(), 1 << 3);
            sender.join().unwrap();
        });
    }
}

/// A guest goes on, begins to wait, or exits, while its monitor on another core gives a command: it
/// is carried out on the way in, or by an interrupt of the core, or was for a guest that has
/// exited.
#[test]
fn a_command_finds_a_guest_wherever_it_is() {
    let lives: [fn(&Shore) -> bool; 3] = [
        // `Core::guest_enters`.
        |shore| {
            shore.shared.generated.take_and_listen();
            shore.shared.take_command().is_some()
        },
        // `Core::idle_until_interrupt`: it goes on, and finds the command on the way in.
        |shore| {
            assert!(shore.shared.generated.listen());
            shore.shared.take_command().is_some()
        },
        // `Core::leave`, and the next command, by which the guest goes on.
        |shore| {
            shore.shared.generated.exit();
            shore.shared.take_command().is_some()
        },
    ];
    for live in lives {
        loom::model(move || {
            let shore = Arc::new(Shore::default());
            let monitor = {
                let shore = shore.clone();
                thread::spawn(move || {
                    shore.shared.command(Command::Stop);
                    if shore.shared.generated.command() == Target::Listens {
                        shore.post();
                    }
                })
            };
            if !live(&shore) {
                while shore.shared.take_command().is_none() {
                    shore.idle();
                }
            }
            monitor.join().unwrap();
        });
    }
}

/// A domain faults, is restarted, and faults again while its supervisor on another core reads.
#[test]
fn a_report_of_a_fault_is_never_of_two() {
    // A report is eight words: more switches between the two than these take hours, and a torn
    // report needs two.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let shared = Arc::new(Shared::default());
        let report = |kind| FaultReport { kind, restarts: kind, ..FaultReport::default() };
        shared.set_fault(&report(1));
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || {
                let seen = shared.fault();
                assert!(seen == report(0) || seen == report(1) || seen == report(2), "{seen:?}");
            })
        };
        shared.clear_fault();
        shared.set_fault(&report(2));
        reader.join().unwrap();
        assert_eq!(shared.fault(), report(2));
    });
}
