//! The steps that the book tells a newcomer are taken here, literally, in a copy of the checkout:
//! its files are written as the pages show them, its lines typed as they stand there.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::book::{Step, steps};
use culm_tests_harness::checkout::Checkout;
use culm_tests_harness::root;
use culm_tests_harness::terminal::Terminal;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn page(name: &str) -> Vec<Step> {
    let page = std::fs::read_to_string(root().join("docs/src").join(name)).expect("the book has the page");
    steps(&page)
}

/// A fresh copy, which one test has at a time.
fn checkout() -> (Checkout, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    // That another one failed is no reason not to begin.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (Checkout::copy("book/culm"), turn)
}

/// Does what a page says. A machine that was started goes on until the next is; then, and at the
/// end, the keys are pressed that end it.
fn follow(checkout: &Checkout, page: &[Step]) {
    let mut checkout = checkout.clone();
    let mut machine = None;
    for step in page {
        match step {
            Step::Type { line, .. } if line.starts_with("cd ") => {
                if let Some(machine) = machine.take() {
                    end(machine);
                }
                checkout = checkout.within(line.trim_start_matches("cd "));
            }
            Step::Write { file, text } => checkout.write(file, text),
            Step::Type { line, seen } if line.starts_with("./culm run ") => {
                if let Some(machine) = machine.take() {
                    end(machine);
                }
                // A build takes what it takes: nobody's patience counts it.
                checkout.type_line(&line.replacen(" run ", " build ", 1));
                let mut terminal = Terminal::run(&checkout.shell(line));
                // Whatever runs says something.
                let anything = ["info ".to_string()];
                for text in if seen.is_empty() { &anything } else { seen.as_slice() } {
                    terminal.expect(text);
                }
                machine = Some(terminal);
            }
            Step::Type { line, seen } => {
                let said = checkout.type_line(line);
                let mut rest = said.as_str();
                for text in seen {
                    let at = rest.find(text.as_str());
                    let at = at.unwrap_or_else(|| panic!("`{line}` does not say `{text}`, but\n{said}"));
                    rest = &rest[at + text.len()..];
                }
            }
        }
    }
    if let Some(machine) = machine {
        end(machine);
    }
}

fn end(mut machine: Terminal) {
    // Those of a machine with a console that takes what is typed, and of any other.
    machine.press("\x1dq\x03");
    assert!(machine.wait().success(), "the keys end it");
}

#[test]
fn the_tutorial_can_be_typed() {
    let (checkout, _turn) = checkout();
    checkout.type_line("rm -rf ../welcome");
    follow(&checkout, &page("tutorial.md"));
}

/// It needs no network either, once the checkout has been built.
#[test]
fn a_workspace_has_drivers_of_its_own() {
    let (checkout, _turn) = checkout();
    checkout.type_line("./culm build hello");
    checkout.type_line("rm -rf ../mine && ./culm new workspace ../mine");
    let mine = checkout.within("../mine");
    let offline = |line: &str| mine.type_line(&format!("export CARGO_NET_OFFLINE=true; {line}"));
    assert!(offline("./culm new driver serial/uart16550").contains("made components/serial-uart16550/Cargo.toml"));
    let system = "name = \"driven\"\ndescription = \"A new driver\"\n[device.uart0]\npriority = 60\ndriver = \"serial-uart16550\"\n\
                  [pd.mine]\ncomponent = \"mine\"\npriority = 50\n";
    mine.write("systems/driven.toml", system);
    let systems = offline("./culm systems");
    assert!(["driven", "mine", "web"].iter().all(|name| systems.contains(name)), "{systems}");
    assert!(offline("./culm check driven").contains("driven is well"));
    offline("./culm build driven");
    assert!(mine.root().join("build/driven-virt/image").is_file());
    assert!(offline("cargo test --package serial-uart16550").contains("test tests::an_error_is_told_once ... ok"));
    // A name that is taken, also by Culm's own.
    let refused = mine.try_type("./culm new component http");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("there is a component `http`"), "{said}");
    // Who moves the checkout is told what to change.
    let manifest = std::fs::read_to_string(mine.root().join("Cargo.toml")).expect("it was made");
    mine.write("Cargo.toml", &manifest.replace("/runtime\"", "/gone/runtime\""));
    let refused = mine.try_type("./culm check");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("there is no checkout of Culm at"), "{said}");
}

#[test]
fn the_tour_can_be_typed() {
    let (checkout, _turn) = checkout();
    follow(&checkout, &page("tour.md"));
}

#[test]
fn the_guide_of_systems_can_be_typed() {
    let (checkout, _turn) = checkout();
    follow(&checkout, &page("guides/system.md"));
}

#[test]
fn the_guide_of_drivers_can_be_typed() {
    let (checkout, _turn) = checkout();
    follow(&checkout, &page("guides/driver.md"));
    let system = "name = \"driven\"\ndescription = \"A new driver\"\n[device.uart0]\npriority = 60\ndriver = \"serial-uart16550\"\n\
                  [pd.hello]\ncomponent = \"hello\"\npriority = 50\n";
    checkout.write("systems/driven.toml", system);
    checkout.type_line("./culm build driven");
}

/// The log goes by the driver that failed, so the kernel alone can say it.
#[test]
fn a_serial_driver_that_fails_is_told_of() {
    let (checkout, _turn) = checkout();
    checkout.type_line("./culm new driver serial/broken");
    let main = std::fs::read_to_string(checkout.root().join("drivers/serial/broken/src/main.rs")).expect("it was made");
    let reset = "Chip::new(Mapped::new(device.registers()))";
    assert!(main.contains(reset), "{main}");
    checkout
        .write("drivers/serial/broken/src/main.rs", &main.replace(reset, &format!("{reset}.ok().filter(|_| false)")));
    let system = "name = \"driven\"\ndescription = \"A driver that fails\"\n[device.uart0]\npriority = 60\ndriver = \"serial-broken\"\n\
                  restart = { limit = 1 }\n[pd.hello]\ncomponent = \"hello\"\npriority = 50\n";
    checkout.write("systems/driven.toml", system);
    checkout.type_line("./culm build driven");
    let mut machine = Terminal::run(&checkout.shell("./culm run driven"));
    machine.expect("culm: the driver of this console faulted and stays stopped");
    end(machine);
}

#[test]
fn the_tutorial_makes_the_component_that_is_there_finished() {
    let page = page("tutorial.md");
    for (shown, finished) in [
        ("components/welcome/component.toml", "apps/greeter/component.toml"),
        ("components/welcome/src/answer.rs", "apps/greeter/src/answer.rs"),
        ("components/welcome/src/main.rs", "apps/greeter/src/main.rs"),
        ("systems/welcome.toml", "systems/greeter.toml"),
    ] {
        let last = page.iter().rev().find_map(|step| match step {
            Step::Write { file, text } if file == shown => Some(text),
            _ => None,
        });
        let text = last.unwrap_or_else(|| panic!("the tutorial does not show {shown}"));
        let text = text.replace("welcome", "greeter").replace("Welcome", "Greeter");
        assert_eq!(text, std::fs::read_to_string(root().join(finished)).expect("it is there"), "{finished}");
    }
}

#[test]
fn new_drivers_build_and_pass_their_tests() {
    let (checkout, _turn) = checkout();
    for device in ["serial/uart16550", "net/e1000e"] {
        checkout.type_line(&format!("./culm new driver {device}"));
        let name = device.replace('/', "-");
        let said = checkout.type_line(&format!("cargo test --package {name}"));
        assert!(said.contains("test tests::an_error_is_told_once ... ok"), "{said}");
        // As strictly as the project's own code is taken.
        checkout.type_line(&format!("cargo clippy --package {name} --all-targets -- -D warnings"));
        checkout.type_line(&format!("rustfmt --check --edition 2024 drivers/{device}/src/main.rs"));
        // And for the target.
        let driver = format!("[device.DEVICE]\npriority = 240\ndriver = \"{name}\"\n");
        let devices = match device.starts_with("net") {
            true => format!("[device.uart0]\npriority = 60\n{}", driver.replace("DEVICE", "nic0")),
            false => driver.replace("DEVICE", "uart0"),
        };
        let system = format!("name = \"driven\"\ndescription = \"A new driver\"\nboard = \"virt\"\n{devices}");
        checkout.write("systems/driven.toml", &format!("{system}[pd.hello]\ncomponent = \"hello\"\npriority = 50\n"));
        checkout.type_line("./culm build driven");
    }
}
