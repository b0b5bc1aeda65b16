//! Small components in systems of their own: the runtime's self-test, the look for leaks through
//! registers, and what the book shows.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, client};

#[test]
fn the_runtime_holds_on_the_target() {
    the_runtime_holds("tests/systems/selftest.toml");
}

#[test]
fn the_runtime_holds_with_vector_registers() {
    the_runtime_holds("tests/systems/selftest-vectors.toml");
}

fn the_runtime_holds(system: &str) {
    let mut machine = Boot::system(system).start(&[]);
    let line = machine.expect("selftest: selftest");
    assert!(line.contains("passed after 2 restarts"), "{line}");
}

#[test]
fn each_start_has_random_numbers_where_the_processor_makes_them() {
    let mut machine = Boot::system("tests/systems/selftest.toml").processor("max").start(&[]);
    let mut starts: Vec<_> = (0..3).map(|_| machine.expect("a random number: 0x")).collect();
    let number = |line: &mut String| line.split_off(line.find("0x").expect("it says one"));
    let numbers: std::collections::BTreeSet<_> = starts.iter_mut().map(number).collect();
    assert_eq!(numbers.len(), 3, "{numbers:?}");
    assert!(!machine.saw("source of random numbers"));
}

#[test]
fn a_machine_without_random_numbers_says_so() {
    let mut machine = Boot::system("tests/systems/selftest.toml").start(&[]);
    machine.expect("culm: neither processor nor firmware has a source of random numbers");
    machine.expect("selftest: no random numbers");
}

#[test]
fn each_start_has_random_numbers_where_a_device_makes_them() {
    let mut machine = Boot::system("tests/systems/entropy.toml").start(&[]);
    machine.expect("culm: neither processor nor firmware has a source of random numbers");
    let mut starts: Vec<_> = (0..3).map(|_| machine.expect("a random number: 0x")).collect();
    let number = |line: &mut String| line.split_off(line.find("0x").expect("it says one"));
    let numbers: std::collections::BTreeSet<_> = starts.iter_mut().map(number).collect();
    assert_eq!(numbers.len(), 3, "{numbers:?}");
}

#[test]
fn no_register_leaks_from_one_domain_to_another() {
    let mut machine = Boot::system("tests/systems/registers.toml").start(&[]);
    machine.expect_anywhere("low: nothing leaked in 20000 looks");
    machine.expect_anywhere("high: nothing leaked in 20000 looks");
    assert!(!machine.saw("leak:"), "{}", machine.tail());
}

#[test]
fn vector_registers_are_kept_for_whoever_may_use_them_and_trap_for_others() {
    let mut machine = Boot::system("tests/systems/vectors.toml").start(&[]);
    machine.expect_anywhere("trapped faulted: floating-point or vector instruction: it needs `vectors = true`");
    machine.expect_anywhere("mortal: begins in life 1 with nothing of another");
    for name in ["low", "high", "mortal"] {
        machine.expect_anywhere(&format!("{name}: nothing lost in 20000 looks"));
    }
    machine.expect_anywhere("plain: nothing leaked in 5000 looks");
    assert!(!machine.saw("lost:") && !machine.saw("leak:"), "{}", machine.tail());
}

#[test]
fn hello_greets_once_a_second() {
    let mut machine = Boot::system("hello").start(&[]);
    for count in 1..=3 {
        machine.expect(&format!("hello: hello, world! ({count})"));
    }
}

#[test]
fn the_tutorials_component_greets() {
    let machine = &mut Boot::system("greeter").start(&[7000]);
    machine.wait_for_tcp(7000, b"anybody\n");
    let address = machine.address(7000);
    let greet = |said: &[u8]| {
        let heard = client::exchange(address, said).expect("it accepts a connection");
        String::from_utf8_lossy(&heard).into_owned()
    };
    assert_eq!(greet(b"Ada\r\n"), "What is your name? Good day, Ada!\n");
    assert_eq!(greet(b"\n"), "What is your name? Good day, stranger!\n");
    assert!(greet(&[b'x'; 300]).contains("too long for me"));
    // More at once than it has places for: whoever is let in is greeted, and afterwards it still
    // greets.
    let crowd: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(address)).collect();
    drop(crowd);
    assert_eq!(greet(b"Grace\n"), "What is your name? Good day, Grace!\n");
}
