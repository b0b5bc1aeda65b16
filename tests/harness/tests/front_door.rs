//! `./culm` opens whatever a user's components are like: it says what is wrong with them, so it
//! must not stop at them.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::checkout::Checkout;
use culm_tests_harness::root;
use std::io::PipeWriter;
use std::process::{Command, Stdio};

#[test]
fn no_component_can_keep_the_tool_from_being_built() {
    let checkout = Checkout::copy("front-door");
    let answers = |why: &str| {
        assert!(checkout.type_line("./culm --help").contains("Usage: ./culm"), "{why}");
        assert!(checkout.type_line("./culm systems").contains("hello"), "{why}");
    };
    let is_open = |why: &str| {
        answers(why);
        assert!(checkout.type_line("./culm check hello").contains("is well"), "{why}");
    };
    // Nothing can be built, and `check` says why.
    let names = |file: &str| {
        answers(file);
        let output = checkout.try_type("./culm check hello");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(file), "{errors}");
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
    names("apps/fine/Cargo.toml");
    std::fs::create_dir(checkout.root().join("apps/empty")).expect("the copy is writable");
    names("apps/empty");
    // Building cannot succeed now, but it says which file is to be mended.
    let output = checkout.try_type("./culm build hello");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && errors.contains("apps/") && errors.contains("mend that"), "{errors}");
}

/// A folder with a cargo and a rustc that say what they are told to.
fn fake_rust(checkout: &Checkout, name: &str, rustc: &str) {
    checkout.write(&format!("{name}/cargo"), "#!/bin/sh\n");
    checkout.write(&format!("{name}/rustc"), &format!("#!/bin/sh\n{rustc}\n"));
    checkout.type_line(&format!("chmod +x {name}/*"));
}

/// Returns what `./culm` says about a `CULM_CARGO` with which it must fail.
fn refusal(checkout: &Checkout, cargo: &str) -> String {
    let output = checkout.try_type(&format!("CULM_CARGO={cargo} ./culm systems"));
    assert!(!output.status.success(), "{cargo} does not serve, and must not be passed over");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_chosen_rust_that_does_not_serve_is_refused() {
    let checkout = Checkout::copy("chosen-rust");
    fake_rust(&checkout, "old", "echo rustc 1.80.0");
    fake_rust(&checkout, "bare", "case $1 in --version) echo rustc 1.99.0;; *) pwd;; esac");
    fake_rust(&checkout, "broken", "exit 1");
    checkout.write("alone/cargo", "#!/bin/sh\n");
    checkout.type_line("chmod +x alone/cargo");
    for (cargo, why) in [
        ("old/cargo", "Rust 1.80.0 is too old"),
        ("bare/cargo", "Rust 1.99.0 has neither the target"),
        ("broken/cargo", "does not run"),
        ("alone/cargo", "no rustc is beside it"),
        ("nowhere/cargo", "is not the path of a program"),
        ("cargo", "is not the path of a program"),
    ] {
        let said = refusal(&checkout, cargo);
        assert!(said.contains(&format!("CULM_CARGO is {cargo}, but")), "{said}");
        assert!(said.contains(why) && said.contains("unset it"), "{said}");
    }
}

#[test]
fn the_front_door_can_change_while_it_runs() {
    let checkout = Checkout::copy("changing-door");
    // As it is asked for its version it puts other lines before all of the script that asks.
    let change = "cp culm before; { head -c 9000 /dev/zero | tr '\\0' '\\n'; echo exit 77; cat before; } > culm";
    fake_rust(&checkout, "old", &format!("{change}; echo rustc 1.80.0"));
    let said = refusal(&checkout, "old/cargo");
    assert!(said.contains("Rust 1.80.0 is too old"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// A pipe that nobody reads.
fn unread() -> PipeWriter {
    std::io::pipe().expect("there are pipes").1
}

#[test]
fn what_nobody_reads_to_the_end_ends_quietly() {
    let culm = |line: &str| {
        let mut command = Command::new(root().join("culm"));
        command.args(line.split(' ')).current_dir(root());
        command
    };
    // It says nothing of its own once it is built.
    assert!(culm("systems").output().expect("it starts").status.success());
    for line in ["systems", "completion bash", "expand web", "check web", "test --list"] {
        let output = culm(line).stdout(unread()).stderr(Stdio::piped()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.is_empty() && output.status.code() == Some(141), "./culm {line}: {}: {said}", output.status);
    }
    let wrong = culm("check no-such-system").stderr(unread()).output().expect("it starts");
    assert_eq!(wrong.status.code(), Some(141), "an error that nobody reads");
}

#[test]
fn what_this_release_has_too_old_comes_from_another_part_of_the_archive() {
    let checkout = Checkout::copy("old-release");
    // A search path without QEMU, on a machine whose sources have one that is too old. Nothing is
    // installed: what would change the machine writes down what it was given.
    let programs = "awk bash cat cut dirname grep head readlink sed sort tr uname env";
    checkout.type_line(&format!("mkdir here; for name in {programs}; do ln -s $(type -P $name) here/; done"));
    checkout.write("here/id", "#!/bin/sh\necho 0\n");
    checkout.write("here/apt-cache", "#!/bin/sh\necho '  Candidate: 1:7.2+dfsg-7'\n");
    checkout.write("here/apt-get", "#!/bin/sh\necho \"apt-get $*\" >> done\n");
    checkout.write("here/tee", "#!/bin/sh\necho \"$1: $(cat)\" >> done\n");
    checkout.type_line("chmod +x here/id here/apt-* here/tee");
    let output = checkout.try_type("PATH=$PWD/here ./culm setup < /dev/null");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("have qemu-system-arm 7.2+dfsg-7; adding"), "{said}");
    assert!(said.contains("still missing after the installation: ") && said.contains("qemu"), "{said}");
    let done = checkout.type_line("cat done");
    let added =
        done.lines().position(|line| line.contains("/culm-backports.list: deb ") && line.ends_with("-backports main"));
    let installed = done.lines().position(|line| line.contains(" install ") && line.contains("qemu-system-arm"));
    assert!(added.is_some() && added < installed, "{done}");

    // A part of the archive that this release does not have is not left among the sources.
    checkout.write("here/apt-get", "#!/bin/sh\n! grep -q backports done\n");
    checkout.write("here/rm", "#!/bin/sh\necho \"rm $*\" >> done\n");
    checkout.type_line("chmod +x here/apt-get here/rm; : > done");
    let output = checkout.try_type("PATH=$PWD/here ./culm setup < /dev/null");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is removed again"), "{said}");
    assert!(checkout.type_line("cat done").contains("rm -f /etc/apt/sources.list.d/culm-backports.list"), "{said}");
}

#[test]
fn who_cannot_install_or_build_is_told_what_to_do() {
    let checkout = Checkout::copy("stranger");
    // A user without rights on a machine without QEMU: the search path has only what the script
    // itself takes.
    let programs = "bash cat cut dirname grep head readlink sed sort tr uname env";
    checkout.type_line(&format!("mkdir here; for name in {programs}; do ln -s $(type -P $name) here/; done"));
    checkout.write("here/id", "#!/bin/sh\necho 1000\n");
    checkout.write("with-sudo/sudo", "#!/bin/sh\n");
    checkout.write("with-sudo/apt-get", "#!/bin/sh\n");
    checkout.type_line("chmod +x here/id with-sudo/*; cp with-sudo/apt-get here/");
    let refusal = |line: &str| {
        let output = checkout.try_type(&format!("{line} < /dev/null"));
        assert!(!output.status.success(), "{line}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refusal("PATH=$PWD/here ./culm run web");
    assert!(said.contains("qemu-system-arm") && said.contains("as root, run `./culm setup`"), "{said}");
    let said = refusal("PATH=$PWD/here:$PWD/with-sudo ./culm setup --tests");
    assert!(said.contains("run `sudo ./culm setup --tests`, or this at a terminal"), "{said}");
    let said = refusal("CARGO_TARGET_DIR=$PWD/culm ./culm systems");
    assert!(said.contains("cannot write to") && said.contains("set CARGO_TARGET_DIR"), "{said}");
}
