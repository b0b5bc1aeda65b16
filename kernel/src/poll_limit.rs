//! Bounded waiting for a device that may never answer: a console, which its driver may have left in
//! any state, or an interrupt controller that is not the one of the board's file.

/// Number of times that a device is asked: about a second on a slow bus. A line of the console has
/// it for all its bytes; if asking takes 100 ns, that is three times what they take at 115,200 bits
/// per second.
const MAX_POLLS: u32 = 1 << 20;

/// The polls that are left for one line, or for one answer.
pub struct PollLimit {
    left: u32,
}

impl PollLimit {
    /// Starts with all polls.
    pub const fn new() -> Self {
        Self { left: MAX_POLLS }
    }

    /// Asks until the device is no longer busy or the polls are used up. Returns whether the device
    /// is ready.
    pub fn wait(&mut self, mut is_busy: impl FnMut() -> bool) -> bool {
        while self.left > 0 {
            if !is_busy() {
                return true;
            }
            self.left -= 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_that_never_has_room_is_given_up() {
        let (mut asked, mut polls) = (0, PollLimit::new());
        assert!(!polls.wait(|| {
            asked += 1;
            true
        }));
        assert_eq!(asked, MAX_POLLS);
        assert!(!polls.wait(|| panic!("it is asked no more")));
    }

    #[test]
    fn a_slow_console_takes_a_line_and_all_of_it_shares_one_limit() {
        let mut polls = PollLimit::new();
        for _ in 0..200 {
            let mut times = 0;
            assert!(polls.wait(|| {
                times += 1;
                times < 900
            }));
        }
        let mut bytes = 0;
        // A device so slow that it would go on for ever if each byte had polls of its own.
        while polls.wait({
            let mut times = 0;
            move || {
                times += 1;
                times < MAX_POLLS / 2
            }
        }) {
            bytes += 1;
        }
        assert!(bytes < 3, "{bytes}");
    }
}
