//! Tests of the virtualiser with honest and hostile clients.

use crate::line::{CANCEL, RESET};
use crate::{Client, Listener, Mux};
use culm::time::{Duration, Instant};
use culm::{Channel, testing};
use culm_queue::{Consumer, Producer, Storage};
use proptest::prelude::*;

const DRIVER: u32 = 0;

/// The other ends of a mux's queues.
struct Bench {
    mux: Mux,
    driver_tx: Consumer<u8>,
    driver_rx: Producer<u8>,
    clients: Vec<(Producer<u8>, Option<Consumer<u8>>)>,
    /// The commands to the first client, which takes them if it is a console.
    commands: Consumer<u8>,
    now: Instant,
}

fn ring<const CAPACITY: usize>() -> (Producer<u8>, Consumer<u8>) {
    let shared = Box::leak(Box::new(Storage::<u8, CAPACITY>::new())).shared();
    (Producer::attach(shared), Consumer::attach(shared))
}

/// Clients `a`, `b`, … at channels 1, 2, …; those whose flag is set can take input.
fn bench<const DRIVER_QUEUE: usize>(input: &[bool]) -> Bench {
    let ((driver_in, driver_tx), (driver_rx, driver_out)) = (ring::<DRIVER_QUEUE>(), ring::<64>());
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    let (commands_in, commands) = ring::<2>();
    let mut commands_in = Some(commands_in);
    for (index, input) in input.iter().enumerate() {
        let ((tx_in, tx_out), (rx_in, rx_out)) = (ring::<1024>(), ring::<16>());
        let name = &b"abcdefgh"[index..index + 1];
        let rx = input.then_some(rx_in);
        let commands = commands_in.take().filter(|_| *input);
        inner.push(Client::new(name, Channel::new(index as u32 + 1), *input, tx_out, rx).with_commands(commands));
        outer.push((tx_in, input.then_some(rx_out)));
    }
    let mux = Mux::new(Channel::new(DRIVER), driver_in, driver_out, inner, None);
    let mut bench = Bench { mux, driver_tx, driver_rx, clients: outer, commands, now: Instant::default() };
    bench.turn();
    bench.mux.serve(bench.now);
    testing::signalled();
    bench
}

impl Bench {
    /// Client `index` writes, and notifies where its queue says so.
    fn write(&mut self, index: usize, text: &[u8]) {
        let tx = &mut self.clients[index].0;
        assert_eq!(tx.push_slice(text), text.len());
        if tx.publish().is_asleep() {
            self.mux.notified(Channel::new(index as u32 + 1));
        }
    }

    /// The user types.
    fn type_in(&mut self, text: &[u8]) {
        assert_eq!(self.driver_rx.push_slice(text), text.len());
        let _ = self.driver_rx.publish();
    }

    /// Turns until no other is asked for at once; returns what came out.
    fn turn(&mut self) -> String {
        let mut printed = Vec::new();
        for _ in 0..1000 {
            self.mux.serve(self.now);
            printed.extend(self.driver_tx.drain(u32::MAX));
            let notified = self.driver_tx.release().is_asleep();
            if testing::deadline() != Some(self.now) && !notified {
                return String::from_utf8(printed).expect("clients write ASCII here");
            }
        }
        panic!("the virtualiser does not come to rest");
    }

    fn read(&mut self, index: usize) -> String {
        let rx = self.clients[index].1.as_mut().expect("this client has input");
        let text = String::from_utf8(rx.drain(u32::MAX).collect()).expect("typed ASCII");
        let _ = rx.release();
        text
    }
}

#[test]
fn lines_come_out_whole() {
    let mut bench = bench::<1024>(&[false, false]);
    bench.write(0, b"[ 1.0] info  a: one");
    bench.write(1, b"[ 1.0] info  b: two\n");
    assert_eq!(bench.turn(), "[ 1.0] info  b: two\r\n");
    bench.write(0, b" and more\n");
    assert_eq!(bench.turn(), "[ 1.0] info  a: one and more\r\n");
}

#[test]
fn the_beginning_of_a_line_does_not_wait_for_ever() {
    let mut bench = bench::<1024>(&[false]);
    for part in [&b"al"[..], b"mo", b"st"] {
        bench.write(0, part);
        assert_eq!(bench.turn(), "", "it is being written");
        bench.now += Duration::from_millis(40);
    }
    bench.mux.serve(bench.now);
    bench.now = testing::deadline().expect("it asks to be woken");
    assert_eq!(bench.turn(), "a: almost\r\n");
}

#[test]
fn a_prompt_comes_at_once_and_is_never_continued_by_another() {
    let mut bench = bench::<1024>(&[true, false]);
    bench.write(0, b"> ");
    assert_eq!(bench.turn(), "> ");
    bench.write(0, b"x");
    bench.write(1, b"line\n");
    assert_eq!(bench.turn(), "x", "the line waits for the end of what the console writes");
    bench.mux.serve(bench.now);
    bench.now = testing::deadline().expect("not for ever");
    assert_eq!(bench.turn(), "\r\nb: line\r\n> x");
}

#[test]
fn the_console_in_focus_is_passed_on_as_it_is() {
    let mut bench = bench::<1024>(&[true, false]);
    bench.write(0, b"\x1b[2J\x1b[1;1H~\r\n~\n\x07");
    assert_eq!(bench.turn(), "\x1b[2J\x1b[1;1H~\r\n~\n\x07");
}

#[test]
fn a_console_that_never_pauses_between_lines_keeps_nobody_from_printing() {
    for bytes in [b"xxxxxxxxxx".as_slice(), b"\nxxxx", b"x\nx"] {
        // Its line is open when the others come.
        let mut bench = bench::<64>(&[false, true, false]);
        bench.write(1, bytes);
        let mut printed = bench.turn();
        for _ in 0..100 {
            bench.write(1, bytes);
            bench.write(0, b"one\n");
            bench.write(2, b"two\n");
            bench.now += Duration::from_millis(10);
            printed += &bench.turn();
        }
        for line in ["a: one\r\n", "c: two\r\n"] {
            let count = printed.matches(line).count();
            assert!(count >= 90, "{count} of 100 {line:?} beside {bytes:?}");
        }
    }
}

#[test]
fn what_a_console_leaves_on_the_terminal_spoils_no_line_of_others() {
    let mut bench = bench::<1024>(&[true, false]);
    bench.write(0, b"\x1b]0;title that never ends\n");
    bench.turn();
    let cancel = core::str::from_utf8(CANCEL).expect("ASCII");
    for before in [cancel, ""] {
        bench.write(1, b"line\n");
        assert_eq!(bench.turn(), format!("{before}b: line\r\n"));
    }
}

#[test]
fn a_line_that_others_have_torn_is_shown_again() {
    let mut bench = bench::<1024>(&[true, false]);
    bench.write(0, b"old\r\n\x1b[1ma # \x1b[ml");
    bench.turn();
    bench.now += Duration::from_millis(60);
    let cancel = core::str::from_utf8(CANCEL).expect("ASCII");
    bench.write(1, b"one\ntwo\n");
    assert_eq!(bench.turn(), format!("{cancel}\r\nb: one\r\nb: two\r\na # l"));
    bench.write(1, b"three\n");
    assert_eq!(bench.turn(), "\r\nb: three\r\na # l", "nobody waits for it again");
    bench.write(0, b"s");
    assert_eq!(bench.turn(), "s");
    bench.write(1, b"four\n");
    bench.write(0, b"\r\n");
    assert_eq!(bench.turn(), "\r\nb: four\r\na # ls\r\n", "with what goes on in it");
    bench.write(1, b"five\n");
    assert_eq!(bench.turn(), "b: five\r\n", "it has ended");
}

#[test]
fn a_line_that_waits_for_space_to_be_shown_again_is_whole() {
    let mut bench = bench::<64>(&[true, false]);
    bench.write(0, &[b'p'; 40]);
    bench.turn();
    bench.now += Duration::from_millis(60);
    bench.write(1, &[&[b'x'; 50][..], b"\n"].concat());
    let said = bench.turn();
    assert!(said.ends_with(&format!("x\r\n{}", "p".repeat(40))), "{said:?}");
}

#[test]
fn a_flood_does_not_keep_others_from_printing() {
    let mut bench = bench::<256>(&[false, false]);
    bench.write(0, &b"x\n".repeat(500));
    bench.write(1, b"here\n");
    bench.mux.serve(bench.now);
    let first: Vec<u8> = bench.driver_tx.drain(u32::MAX).collect();
    let text = String::from_utf8(first).unwrap();
    let position = text.lines().position(|line| line == "b: here").expect("not within the first queue of lines");
    assert!(position <= 5, "behind {position} lines of a flood");
    let rest = bench.turn();
    let _ = bench.driver_tx.release();
    let all = text + &rest + &bench.turn();
    assert_eq!(all.matches("a: x\r\n").count(), 500);
}

#[test]
fn a_driver_that_does_not_send_holds_lines_back_and_loses_none() {
    let mut bench = bench::<512>(&[false]);
    bench.write(0, &b"0123456789\n".repeat(90));
    bench.mux.serve(bench.now);
    let depth = bench.driver_tx.refresh();
    bench.mux.serve(bench.now);
    assert_eq!(bench.driver_tx.refresh(), depth, "nothing more fits");
    assert_eq!(testing::deadline(), None, "it waits for the driver's notification");
    assert!(depth > 100);
    assert_eq!(bench.turn().matches("a: 0123456789\r\n").count(), 90);
}

#[test]
fn input_goes_to_the_console_in_focus() {
    let mut bench = bench::<1024>(&[false, true, true]);
    bench.type_in(b"hi");
    assert_eq!(bench.turn(), "");
    assert_eq!(bench.read(1), "hi");
    bench.type_in(b"\x1dnyou");
    assert_eq!(bench.turn(), "[console 2*: c]\r\n");
    assert_eq!((bench.read(1), bench.read(2)), (String::new(), "you".into()));
    bench.type_in(b"\x1dn!");
    bench.turn();
    assert_eq!(bench.read(1), "!");
    bench.type_in(b"\x1dp\x1d\x1d");
    bench.turn();
    assert_eq!(bench.read(2), "\x1d");
    bench.type_in(b"\x1d0lost");
    assert_eq!(bench.turn(), "[console 0*: the log alone; what is typed goes nowhere]\r\n");
    bench.type_in(b"\x1d1x");
    bench.turn();
    assert_eq!((bench.read(1), bench.read(2)), ("x".into(), String::new()));
}

#[test]
fn keys_tell_which_consoles_and_which_keys_there_are() {
    let mut bench = bench::<1024>(&[true, false, true]);
    let list = "[console 0: the log alone; what is typed goes nowhere]\r\n[console 1*: a]\r\n[console 2: c]\r\n";
    bench.type_in(b"\x1dl");
    assert_eq!(bench.turn(), list);
    bench.type_in(b"\x1d3");
    assert_eq!(bench.turn(), list, "a number without a console");
    bench.type_in(b"\x1d?");
    assert!(bench.turn().starts_with("[Ctrl-] and n or p: "));
    assert_eq!((bench.read(0), bench.read(2)), (String::new(), String::new()));
}

#[test]
fn letters_are_commands_to_the_console_in_focus() {
    let mut bench = bench::<1024>(&[true, true]);
    let help = |said: &str| said.starts_with("[Ctrl-] and n or p: ");
    bench.type_in(b"\x1dza");
    assert_eq!(bench.turn(), "");
    let commands = |bench: &mut Bench| bench.commands.drain(u32::MAX).collect::<Vec<u8>>();
    assert_eq!((commands(&mut bench), bench.read(0)), (b"z".to_vec(), "a".into()));
    assert!(testing::signalled().contains(&1), "it sleeps, and is told");
    bench.type_in(b"\x1dn\x1dz");
    assert!(bench.turn().contains("[Ctrl-] and n or p: "), "that one takes none");
    assert!(commands(&mut bench).is_empty());
    // A console that does not take its commands loses them, and the operator sees that.
    let _ = bench.commands.release();
    bench.type_in(b"\x1d1\x1da\x1db");
    assert!(!help(&bench.turn()));
    bench.type_in(b"\x1dc");
    assert!(help(&bench.turn()));
    assert_eq!(commands(&mut bench), b"ab");
}

#[test]
fn a_console_out_of_focus_speaks_in_lines_of_its_own_name() {
    let mut bench = bench::<1024>(&[true, true]);
    bench.write(1, b"[ 1.0] info  b: not of the log\r\n\x1b[31ma| red\x1b[m\r\nnot who");
    assert_eq!(bench.turn(), "b| [ 1.0] info  b: not of the log\r\nb| a| red\r\n");
    bench.now += Duration::from_secs(9);
    assert_eq!(bench.turn(), "", "its end is not there yet");
    bench.write(1, b"le\n");
    assert_eq!(bench.turn(), "b| not whole\r\n");
}

#[test]
fn a_console_shows_its_line_when_it_comes_into_focus() {
    let mut bench = bench::<1024>(&[true, true]);
    bench.write(0, b"old\r\n\x1b[1ma # \x1b[m");
    assert_eq!(bench.turn(), "old\r\n\x1b[1ma # \x1b[m");
    bench.write(1, b"b # ");
    bench.type_in(b"\x1dn");
    let reset = core::str::from_utf8(RESET).expect("ASCII");
    assert_eq!(bench.turn(), format!("{reset}\r\n[console 2*: b]\r\nb # "));
    bench.type_in(b"\x1dp");
    assert_eq!(bench.turn(), "\r\n[console 1*: a]\r\na # ");
    bench.write(1, b"ls\r\n");
    bench.now += Duration::from_millis(60);
    assert_eq!(bench.turn(), "\r\nb| b # ls\r\na # ");
}

#[test]
fn the_description_may_choose_who_begins_in_focus() {
    let mut bench = bench::<1024>(&[true, true]);
    let clients = bench.clients.iter().zip([b"a", b"b"]).zip(1..).map(|(((tx, rx), name), channel)| {
        let rx = Producer::attach(rx.as_ref().expect("both are consoles").shared());
        Client::new(name, Channel::new(channel), true, Consumer::attach(tx.shared()), Some(rx))
    });
    let (tx, rx) = (bench.driver_tx.shared(), bench.driver_rx.shared());
    let (tx, rx) = (Producer::attach(tx), Consumer::attach(rx));
    bench.mux = Mux::new(Channel::new(DRIVER), tx, rx, clients.collect(), Some(1));
    assert_eq!(bench.turn(), "[console 2*: b]\r\n");
    bench.type_in(b"x");
    bench.turn();
    assert_eq!(bench.read(1), "x");
}

#[test]
fn a_notice_waits_for_space_and_nobody_prints_meanwhile() {
    let mut bench = bench::<64>(&[true, true]);
    bench.write(0, &[b'x'; 200]);
    bench.mux.serve(bench.now);
    bench.type_in(b"\x1dn");
    bench.mux.serve(bench.now);
    bench.write(1, b"shown");
    assert!(bench.turn().ends_with("\r\n[console 2*: b]\r\nshown"));
}

#[test]
fn input_can_be_discarded() {
    let mut bench = bench::<1024>(&[true]);
    bench.type_in(b"x");
    bench.mux.discard_input();
    bench.type_in(b"y");
    bench.turn();
    assert_eq!(bench.read(0), "y");
}

#[test]
fn who_only_logs_is_not_notified() {
    let mut bench = bench::<1024>(&[false, true]);
    bench.write(0, b"line\n");
    bench.write(1, b"line\n");
    bench.type_in(b"x");
    bench.mux.serve(bench.now);
    assert_eq!(testing::signalled(), [DRIVER, 2]);
}

#[test]
fn input_without_space_or_taker_is_dropped_and_counted() {
    let mut bench = bench::<1024>(&[true]);
    bench.type_in(&[b'x'; 20]);
    let done = bench.mux.serve(bench.now);
    assert_eq!((done.input, done.input_dropped), (16, 4));
    let mut bench = self::bench::<1024>(&[false]);
    bench.type_in(b"\x1d1x");
    assert_eq!(bench.mux.serve(bench.now).input_dropped, 1);
}

#[test]
fn a_restarted_virtualiser_loses_nothing() {
    let mut bench = bench::<1024>(&[false]);
    bench.write(0, b"first\nsec");
    bench.turn();
    let (shared, driver) = (bench.clients[0].0.shared(), bench.driver_tx.shared());
    let client = Client::new(b"a", Channel::new(1), false, Consumer::attach(shared), None);
    bench.mux = Mux::new(Channel::new(DRIVER), Producer::attach(driver), ring::<64>().1, vec![client], None);
    bench.write(0, b"ond\n");
    assert_eq!(bench.turn(), "a: second\r\n");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_clients_write_is_said_by_them_and_comes_to_an_end(
        writes in proptest::collection::vec((0..3usize, proptest::collection::vec(any::<u8>(), 0..300)), 0..12),
        words in proptest::collection::vec(any::<u64>(), 0..4),
    ) {
        let mut bench = bench::<512>(&[false, false, false]);
        // Client c has a second producer, which writes over what the first did and contradicts it.
        let hostile = bench.clients[2].0.shared();
        let mut printed = Vec::new();
        for (index, text) in &writes {
            let tx = &mut bench.clients[*index].0;
            tx.push_slice(text);
            let _ = tx.publish();
            bench.mux.notified(Channel::new(*index as u32 + 1));
            if *index == 2 && let Some(word) = words.get(text.len() % 5) {
                let mut liar = Producer::attach(hostile);
                (0..word % 2000).for_each(|_| { let _ = liar.push(*word as u8); });
                let _ = liar.publish();
            }
            for _ in 0..100 {
                bench.now += Duration::from_millis(20);
                bench.mux.serve(bench.now);
                printed.extend(bench.driver_tx.drain(u32::MAX));
                let _ = bench.driver_tx.release();
            }
        }
        let text = String::from_utf8_lossy(&printed).into_owned();
        for line in text.split_terminator("\r\n") {
            let by = |name: &str| line.starts_with(&format!("{name}: ")) || line.contains(&format!(" {name}: "));
            prop_assert!(by("a") || by("b") || by("c"), "{line:?} is nobody's");
            prop_assert!(line.chars().all(|character| !character.is_control()));
        }
    }

    #[test]
    fn consoles_are_named_and_hear_only_what_is_theirs(
        steps in proptest::collection::vec((0..5usize, proptest::collection::vec(any::<u8>(), 0..40)), 0..40),
    ) {
        let mut bench = bench::<1024>(&[false, true, true]);
        let mut focus = Some(1);
        for (step, bytes) in &steps {
            let mut typed: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0x1d).collect();
            typed.truncate(16);
            let (mut before, mut expected) = (focus, Vec::new());
            match step {
                0..3 => bench.write(*step, bytes),
                3 => {
                    bench.type_in(&typed);
                    expected = typed;
                }
                _ => {
                    let number = bytes.first().map_or(0, |byte| byte % 3);
                    bench.type_in(&[0x1d, b'0' + number]);
                    focus = (number > 0).then_some(usize::from(number));
                    before = None;
                }
            }
            let mut printed = Vec::new();
            for _ in 0..8 {
                bench.now += Duration::from_millis(20);
                bench.mux.serve(bench.now);
                printed.extend(bench.driver_tx.drain(u32::MAX));
                let _ = bench.driver_tx.release();
            }
            for index in [1, 2] {
                let rx = bench.clients[index].1.as_mut().expect("a console");
                let heard: Vec<u8> = rx.drain(u32::MAX).collect();
                let _ = rx.release();
                prop_assert_eq!(&heard, if focus == Some(index) { &expected } else { &[][..] });
            }
            if before == Some(*step) {
                prop_assert_eq!(&printed, bytes, "the console in focus is passed on as it is");
            } else if *step < 3 {
                let printed: Vec<u8> = printed.strip_prefix(CANCEL).unwrap_or(&printed).to_vec();
                let text = String::from_utf8(printed).expect("lines of others are text");
                // What the console in focus has begun follows, each time.
                let (lines, begun) = text.rsplit_once("\r\n").unwrap_or_default();
                for line in lines.split("\r\n").filter(|line| !line.is_empty() && *line != begun) {
                    prop_assert!(line.starts_with(["a: ", "b| ", "c| "][*step]), "{line:?} of {step}");
                    prop_assert!(!line.chars().any(char::is_control), "{line:?}");
                }
            }
        }
    }
}

/// A mux with a client, and a listener whose queue has so many bytes.
fn with_listener<const QUEUE: usize>(converses: bool) -> (Bench, Consumer<u8>) {
    let bench = bench::<1024>(&[converses]);
    let (lines, heard) = ring::<QUEUE>();
    let mux = bench.mux.with_listeners(vec![Listener::new(Channel::new(9), lines)]);
    (Bench { mux, ..bench }, heard)
}

fn hear(heard: &mut Consumer<u8>) -> String {
    let text = String::from_utf8(heard.drain(u32::MAX).collect()).expect("ASCII");
    let _ = heard.release();
    text
}

#[test]
fn a_listener_is_given_the_lines_that_were_printed() {
    let (mut bench, mut heard) = with_listener::<1024>(false);
    let _ = heard.sleep();
    bench.write(0, b"[ 1.0] info  a: one\nraw \x07\nnot whole");
    assert_eq!(bench.turn(), "[ 1.0] info  a: one\r\na: raw  \r\n");
    assert_eq!(hear(&mut heard), "[ 1.0] info  a: one\na: raw\n");
    assert!(testing::signalled().contains(&9));
}

#[test]
fn a_listener_hears_no_console() {
    let (mut bench, mut heard) = with_listener::<1024>(true);
    bench.write(0, b"secret\r\n");
    assert_eq!(bench.turn(), "secret\r\n");
    bench.type_in(b"\x1d0");
    bench.turn();
    bench.write(0, b"secret\n");
    assert_eq!(bench.turn(), "a| secret\r\n");
    assert_eq!(hear(&mut heard), "");
}

#[test]
fn a_listener_that_takes_nothing_delays_nobody_and_is_told_what_is_missing() {
    let (mut bench, mut heard) = with_listener::<128>(false);
    for line in 0..40 {
        bench.write(0, format!("[ 1.0] info  a: line {line:02}\n").as_bytes());
        assert_eq!(bench.turn().lines().count(), 1);
    }
    // 26 bytes each: four have space, and so many wait that the next needs it all.
    assert_eq!(hear(&mut heard).lines().last(), Some("[ 1.0] info  a: line 04"));
    bench.write(0, b"[ 1.0] info  a: again\n");
    bench.turn();
    assert_eq!(hear(&mut heard), "35 lines are missing here: nobody took the log\n[ 1.0] info  a: again\n");
    bench.write(0, b"[ 1.0] info  a: more\n");
    bench.turn();
    assert_eq!(hear(&mut heard), "[ 1.0] info  a: more\n");
}

#[test]
fn a_prompt_whose_line_was_ended_is_not_shown_again() {
    let mut bench = bench::<1024>(&[true, false]);
    bench.write(0, b"/ # ");
    let mut all = bench.turn();
    bench.now += Duration::from_millis(60);
    bench.write(0, b"\r\n");
    all += &bench.turn();
    bench.write(1, b"the monitor was restarted: its guest begins anew\n");
    all += &bench.turn();
    assert!(!all.split("begins anew").nth(1).expect("it is told").contains("/ # "), "{all:?}");
}
