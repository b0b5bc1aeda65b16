//! `./culm` opens whatever a user's components are like: it says what is wrong with them, so it must not stop at them.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_system_tests::checkout::Checkout;

#[test]
fn no_component_can_keep_the_tool_from_being_built() {
    let checkout = Checkout::copy("front-door");
    let is_open = |why: &str| {
        assert!(checkout.type_line("./culm --help").contains("Usage: ./culm"), "{why}");
        assert!(checkout.type_line("./culm check hello").contains("is well"), "{why}");
        assert!(checkout.type_line("./culm systems").contains("hello"), "{why}");
    };
    is_open("nothing is wrong");
    checkout.type_line("./culm new component fine");
    is_open("a new component, which the lock file does not have");
    let manifest = std::fs::read_to_string(checkout.root().join("apps/fine/Cargo.toml")).expect("it was made");
    checkout.write("drivers/net/mine/Cargo.toml", &manifest.replace("\"fine\"", "\"mine\""));
    checkout.write("drivers/net/mine/src/main.rs", "fn main() {}\n");
    is_open("a new driver's folder");
    checkout
        .write("apps/fine/Cargo.toml", &manifest.replace("[dependencies]", "[dependencies]\nno-such-crate-1 = \"1\""));
    is_open("a dependency that nobody has");
    checkout.write("apps/fine/Cargo.toml", &manifest.replace("[package]", "[package"));
    is_open("a typo in a component's Cargo.toml");
    std::fs::create_dir(checkout.root().join("apps/empty")).expect("the copy is writable");
    is_open("an empty folder");
    // Building cannot succeed now, but it says which file is to be mended.
    let output = checkout.try_type("./culm build hello");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("apps/") && errors.contains("mend that"), "{errors}");
}
