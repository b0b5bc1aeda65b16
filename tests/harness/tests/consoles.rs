//! Consoles that share the serial port, with an operator in front of it.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::Boot;
use culm_tests_harness::terminal::Terminal;
use tempfile::TempDir;

/// Two that repeat what they are told, one of which talks by itself too, beside a component that
/// greets all the time.
const DESCRIPTION: &str = r#"
description = "Two consoles on one line"
board = "virt"

[device.uart0]
priority = 60

[pd.hello]
component = "hello"
priority = 100
config = { whom = "world", every = "100ms" }

[pd.left]
component = "parrot"
priority = 50
console = { device = "uart0", input = true }
config = { prompt = "left> " }

[pd.right]
component = "parrot"
priority = 50
console = { device = "uart0", input = true }
config = { prompt = "right> ", every = "300ms" }
"#;

/// Builds the system by this name. Each test has its own: which console is in focus at first is in
/// the image, so one that another test builds meanwhile must not come in its place.
fn boot(name: &str) -> (TempDir, Boot) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join(format!("{name}.toml"));
    std::fs::write(&file, format!("name = \"{name}\"\n{DESCRIPTION}")).expect("the folder is writable");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    boot.build();
    (folder, boot)
}

#[test]
fn the_operator_chooses_who_hears_and_others_speak_in_their_names() {
    let (_folder, boot) = boot("consoles-chosen");
    let mut terminal = Terminal::run(&boot.run_command());
    terminal.expect("consoles: left, right");
    terminal.expect("[console 1*: left]");
    terminal.expect("left> ");
    terminal.press("abc\r");
    terminal.expect("left> heard abc");
    terminal.expect("info  hello: hello, world");
    terminal.expect("right| talks");
    terminal.expect("right| [    0.000001] info  other: forged");
    // A line that is not ended waits for its console to come into focus again.
    terminal.press("half");
    terminal.expect("half");
    terminal.press("\x1dnxyz\r");
    terminal.expect("[console 2*: right]");
    terminal.expect("right> heard xyz");
    terminal.press("\x1d1");
    terminal.expect("[console 1*: left]");
    terminal.expect("left> half");
    terminal.press("way\r");
    terminal.expect("left> heard halfway");
    terminal.press("\x1d0lost\r");
    terminal.expect("[console 0*: the log alone");
    terminal.press("\x1dpfound\r");
    terminal.expect("right> heard found");
}

#[test]
fn a_console_can_be_in_focus_from_the_beginning() {
    let (_folder, boot) = boot("consoles-focus");
    let mut terminal = Terminal::run(&boot.option(&["--console", "right"]).run_command());
    terminal.expect("[console 2*: right]");
    terminal.press("abc\r");
    terminal.expect("right> heard abc");
}

#[test]
fn all_keys_are_the_consoles_and_a_command_ends_the_run() {
    let (_folder, boot) = boot("consoles-keys");
    let mut terminal = Terminal::run(&boot.run_command());
    terminal.expect("Ctrl-] and q ends it");
    terminal.expect("left> ");
    // Ctrl-C, Ctrl-\, Ctrl-Z, Ctrl-S, Ctrl-V and Ctrl-] itself.
    let keys = "a\x03b\x1cc\x1ad\x13e\x16f\x1d";
    terminal.press(&format!("{keys}\x1dq\r"));
    terminal.expect(&format!("left> heard {keys}q"));
    terminal.press("\x1dq");
    assert!(terminal.wait().success());
    assert!(terminal.is_in_order(), "the terminal is a shell's again");
}

#[test]
fn a_console_that_is_not_there_is_refused() {
    let (_folder, boot) = boot("consoles-refused");
    let output = boot.option(&["--console", "rihgt"]).run_command().output().expect("`./culm` starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("has no console `rihgt`") && errors.contains("did you mean `right`?"), "{errors}");
}
