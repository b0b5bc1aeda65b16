//! Waiting for a device that need not answer: a console, which its driver may have left in any
//! state, or an interrupt controller that is not what the board's file says.

/// How often a device is asked: for about a second on a slow bus. A line of the console has it for
/// all its bytes, which is three times what they take at 115,200 bits per second where asking takes
/// 100 ns.
const TRIES: u32 = 1 << 20;

/// The patience for one line, or for one answer.
pub struct Patience {
    left: u32,
}

impl Patience {
    /// All of it.
    pub const fn new() -> Self {
        Self { left: TRIES }
    }

    /// Asks until the device is not busy any more, or for too long in all. True: it is not.
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
        let (mut asked, mut patience) = (0, Patience::new());
        assert!(!patience.wait(|| {
            asked += 1;
            true
        }));
        assert_eq!(asked, TRIES);
        assert!(!patience.wait(|| panic!("it is asked no more")));
    }

    #[test]
    fn a_slow_console_takes_a_line_and_all_of_it_shares_one_patience() {
        let mut patience = Patience::new();
        for _ in 0..200 {
            let mut times = 0;
            assert!(patience.wait(|| {
                times += 1;
                times < 900
            }));
        }
        let mut bytes = 0;
        // Slow enough to go on for ever, were each byte to have a patience of its own.
        while patience.wait({
            let mut times = 0;
            move || {
                times += 1;
                times < TRIES / 2
            }
        }) {
            bytes += 1;
        }
        assert!(bytes < 3, "{bytes}");
    }
}
